"""Recurrent networks in matrix form: what attention replaced.

A token's state needs the state before it, so T tokens take T steps that cannot run side by side; attention needs one.
Rows are vectors and gates are blocks of columns, in PyTorch's order i, f, g, o.
"""

import torch
from torch import Tensor, nn


def rnn_step(x_t: Tensor, h_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    """h_t = tanh(x_t W_X + h_{t−1} W_H + b): the new state mixes what is read with what is remembered.

    Each step back through time multiplies the gradient (a row) by diag(1 − h_t²) W_Hᵀ: many such factors make it vanish
    or explode. Any activation σ may stand for tanh; then σ′ stands for 1 − h_t².

    Args:
        x_t: the input at time t ``[..., d_in]``.
        h_prev: the state before it ``[..., d_h]``.
        W_X: ``[d_in, d_h]``.
        W_H: ``[d_h, d_h]``.
        b: ``[d_h]``. (PyTorch has two biases, b_ih and b_hh; only their sum matters.)

    Returns:
        The state h_t ``[..., d_h]``.

    Example:
        >>> rnn_step(torch.tensor([1.0]), torch.tensor([0.5]), torch.ones(1, 1), -torch.ones(1, 1), torch.zeros(1))
        tensor([0.4621])

    Reference: Elman 1990, https://doi.org/10.1207/s15516709cog1402_1.
    """
    return torch.tanh(x_t @ W_X + h_prev @ W_H + b)


def lstm_step(
    x_t: Tensor, h_prev: Tensor, c_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor
) -> tuple[Tensor, Tensor]:
    """c_t = σ(f) ∘ c_{t−1} + σ(i) ∘ tanh(g) and h_t = σ(o) ∘ tanh(c_t), with (i, f, g, o) = x_t W_X + h_{t−1} W_H + b.

    The cell c is carried on by a product and a sum, without a matrix in between: where the forget gate σ(f) is near 1,
    the gradient passes through time undiminished.

    Args:
        x_t: the input at time t ``[..., d_in]``.
        h_prev: the state before it ``[..., d_h]``.
        c_prev: the cell before it ``[..., d_h]``.
        W_X: ``[d_in, 4·d_h]``, the blocks of i, f, g and o side by side.
        W_H: ``[d_h, 4·d_h]``.
        b: ``[4·d_h]``.

    Returns:
        The state h_t and the cell c_t, each ``[..., d_h]``.

    Example:
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> lstm_step(zero, zero, one, torch.zeros(1, 4), torch.zeros(1, 4), torch.zeros(4))  # all gates half open
        (tensor([0.2311]), tensor([0.5000]))

    References: Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735; Gers et al. 2000 (the
    forget gate), https://doi.org/10.1162/089976600300015015.
    """
    return _lstm_gates(x_t @ W_X + h_prev @ W_H + b, c_prev)


def _lstm_gates(gates: Tensor, c_prev: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, dim=-1)
    c_t = f.sigmoid() * c_prev + i.sigmoid() * g.tanh()
    return o.sigmoid() * c_t.tanh(), c_t


class RNN(nn.Module):
    """:func:`rnn_step` along a sequence, in ``n_layers`` layers: each reads the states of the one below.

    Layer l has ``w_x[l]``, which holds W_X and b, and ``w_h[l]``, which holds W_H (``nn.Linear`` stores the transposes).

    Args:
        d_in: width of the input.
        d_h: width of the state.
        n_layers: number of layers.

    Example:
        >>> states, last = RNN(d_in=3, d_h=4, n_layers=2)(torch.randn(5, 7, 3))
        >>> states.shape, last.shape
        (torch.Size([5, 7, 4]), torch.Size([2, 5, 4]))

    Reference: Elman 1990, https://doi.org/10.1207/s15516709cog1402_1.
    """

    def __init__(self, d_in: int, d_h: int, n_layers: int = 1) -> None:
        super().__init__()
        self.d_h = d_h
        self.w_x, self.w_h = _weights(d_in, d_h, d_h, n_layers)

    def forward(self, x: Tensor, h_0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read the sequence from left to right.

        Args:
            x: ``[B, T, d_in]``.
            h_0: the state before the first token, of all layers ``[n_layers, B, d_h]``; zeros if not given.

        Returns:
            The states of the last layer at all times ``[B, T, d_h]``, and those of all layers at the last
            ``[n_layers, B, d_h]``: what the next call takes to go on.
        """
        last = []
        for layer, (w_x, w_h) in enumerate(zip(self.w_x, self.w_h)):
            h = x.new_zeros(x.shape[0], self.d_h) if h_0 is None else h_0[layer]  # [B, d_h]
            read = w_x(x)  # [B, T, d_h]: x W_X + b of all times at once, for this waits for nothing
            states = []
            for read_t in read.unbind(1):  # but each state waits for the one before
                h = torch.tanh(read_t + w_h(h))
                states.append(h)
            x = torch.stack(states, dim=1)  # [B, T, d_h]
            last.append(h)
        return x, torch.stack(last)


class LSTM(nn.Module):
    """:func:`lstm_step` along a sequence, in ``n_layers`` layers: each reads the states of the one below.

    Layer l has ``w_x[l]``, which holds W_X and b, and ``w_h[l]``, which holds W_H (``nn.Linear`` stores the transposes).

    Args:
        d_in: width of the input.
        d_h: width of state and cell.
        n_layers: number of layers.

    Example:
        >>> states, (h, c) = LSTM(d_in=3, d_h=4)(torch.randn(5, 7, 3))
        >>> states.shape, h.shape, c.shape
        (torch.Size([5, 7, 4]), torch.Size([1, 5, 4]), torch.Size([1, 5, 4]))

    Reference: Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735.
    """

    def __init__(self, d_in: int, d_h: int, n_layers: int = 1) -> None:
        super().__init__()
        self.d_h = d_h
        self.w_x, self.w_h = _weights(d_in, d_h, 4 * d_h, n_layers)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Read the sequence from left to right.

        Args:
            x: ``[B, T, d_in]``.
            state: h_0 and c_0 of all layers, each ``[n_layers, B, d_h]``; zeros if not given.

        Returns:
            The states of the last layer at all times ``[B, T, d_h]``, and state and cell of all layers at the last,
            each ``[n_layers, B, d_h]``: what the next call takes to go on.
        """
        last_h, last_c = [], []
        for layer, (w_x, w_h) in enumerate(zip(self.w_x, self.w_h)):
            if state is None:
                h = c = x.new_zeros(x.shape[0], self.d_h)  # [B, d_h]
            else:
                h, c = state[0][layer], state[1][layer]
            read = w_x(x)  # [B, T, 4·d_h]
            states = []
            for read_t in read.unbind(1):
                h, c = _lstm_gates(read_t + w_h(h), c)
                states.append(h)
            x = torch.stack(states, dim=1)  # [B, T, d_h]
            last_h.append(h)
            last_c.append(c)
        return x, (torch.stack(last_h), torch.stack(last_c))


def _weights(d_in: int, d_h: int, d_out: int, n_layers: int) -> tuple[nn.ModuleList, nn.ModuleList]:
    w_x = nn.ModuleList(nn.Linear(d_in if layer == 0 else d_h, d_out) for layer in range(n_layers))
    w_h = nn.ModuleList(nn.Linear(d_h, d_out, bias=False) for _ in range(n_layers))
    for parameter in (*w_x.parameters(), *w_h.parameters()):
        nn.init.uniform_(parameter, -(d_h**-0.5), d_h**-0.5)  # as nn.RNN and nn.LSTM start
    return w_x, w_h
