"""Beyond the full matrix: three ways to spend less than N² on N tokens.

Sliding-window attention, a kind of sparse attention, keeps the softmax and lets each query see its neighbours only.
Linear attention drops the softmax, so that the keys and values seen so far fit in one matrix. A state-space model drops
the queries and keys too: its state decays at learned rates. The last two come in two forms with the same numbers, one
that trains side by side and one that decodes token by token; the tests hold each form against the other.

The state-space model is like S4D: diagonal, with the same a, b and c for all tokens. Mamba is *selective*, its b, c and
step size depend on the token (Gu and Dao 2023, https://arxiv.org/abs/2312.00752, section 3.2); that is not here.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.masks import sliding_window_mask


def sliding_window_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Causal attention to the ``window`` latest keys, in time and memory N · window instead of N².

    Equal to attention with :func:`course_lib.masks.sliding_window_mask`, but what the mask would hide is mostly never
    computed: the queries are cut into blocks of ``window``, and each block meets its own keys and those one block back.

    Args:
        q: queries ``[B, h, N, d_k]``.
        k: keys ``[B, h, N, d_k]``.
        v: values ``[B, h, N, d_v]``.
        window: how many keys a query sees at most, its own included, at least 1.

    Returns:
        ``[B, h, N, d_v]``.

    Raises:
        ValueError: if ``window`` is below 1, or there are not as many keys as queries.

    Example:
        >>> q, k, v = torch.randn(3, 1, 4, 100, 8)
        >>> sliding_window_attention(q, k, v, window=16).shape
        torch.Size([1, 4, 100, 8])

    Reference: Beltagy et al. 2020 (Longformer), https://arxiv.org/abs/2004.05150, section 3.1.
    """
    batch, _, n, _ = q.shape
    if k.shape[-2] != n:
        raise ValueError(f"a sliding window needs as many keys as queries, got {k.shape[-2]} and {n}")
    window = min(window, n)  # more than all keys is all keys
    mask = sliding_window_mask(window, window, 2 * window, q.device)  # [W, 2W]: the last query stands at the last key
    behind = -n % window  # zeros that fill up the last block
    q = F.pad(q, (0, 0, 0, behind)).unflatten(-2, (-1, window))  # [B, h, N/W, W, d_k]
    # One block of zeros in front: each span of 2W keys is a block and the one before it, every W keys a new one.
    k, v = (F.pad(x, (0, 0, window, behind)).unfold(-2, 2 * window, window).transpose(-2, -1) for x in (k, v))
    masks = mask.repeat(q.shape[2], 1, 1)  # [N/W, W, 2W]
    masks[0, :, :window] = False  # nothing stands before the first block
    # To PyTorch's kernel the blocks are heads, [B·h, N/W, W, d]; every query sees at least itself.
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=masks[None])
    return output.flatten(1, 2)[:, :n].unflatten(0, (batch, -1))


def feature_map(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, always positive: x + 1 where x > 0, else eˣ.

    Written as eˣ and not as (eˣ − 1) + 1, which has lost its digits at x = −20.

    Example:
        >>> feature_map(torch.tensor([2.0, 0.0, -1.0]))
        tensor([3.0000, 1.0000, 0.3679])

    Reference: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236, section 3.2.1, equation 7.
    """
    return x.relu() + x.clamp(max=0).exp()


# What linear attention remembers: S = Σ φ(k_j)ᵀ v_j and z = Σ φ(k_j), however many tokens there were.
LinearState = tuple[Tensor, Tensor]


def linear_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, block: int = 64) -> Tensor:
    """out_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), in parallel and in time N.

    Without a softmax between them the products may be bracketed the other way, φ(Q) (φ(K)ᵀ V): the N × M matrix is
    never made. With ``is_causal`` j runs up to i; a block of queries then meets the keys of its own block one by one,
    as a small masked matrix, and all earlier blocks through their sum. Half precision is computed in float32.

    Args:
        q: queries ``[..., N, d_k]``.
        k: keys ``[..., M, d_k]``.
        v: values ``[..., M, d_v]``.
        is_causal: whether the future is hidden; then N = M.
        block: number of tokens in a block of the causal form; changes the cost, not the numbers.

    Returns:
        ``[..., N, d_v]`` in the dtype of ``v``.

    Raises:
        ValueError: if ``is_causal`` and N ≠ M.

    Example:
        >>> q, k, v = torch.randn(3, 1, 4, 100, 8)
        >>> linear_attention(q, k, v, is_causal=True).shape
        torch.Size([1, 4, 100, 8])

    Reference: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236, sections 3.2 (equation 5), 3.2.1 (7) and
    3.3 (9).
    """
    n, m, dtype = q.shape[-2], k.shape[-2], torch.promote_types(v.dtype, torch.float32)
    f_q, f_k, values = feature_map(q.to(dtype)), feature_map(k.to(dtype)), v.to(dtype)
    if not is_causal:
        S = f_k.transpose(-2, -1) @ values  # [..., d_k, d_v]
        z = f_k.sum(-2, keepdim=True)  # [..., 1, d_k]
        return (f_q @ S / (f_q * z).sum(-1, keepdim=True)).to(v.dtype)

    if n != m:
        raise ValueError(f"causal linear attention needs as many keys as queries, got {m} and {n}")
    # A column of ones beside the values makes one product yield numerator and denominator.
    values = torch.cat((values, values.new_ones(*values.shape[:-1], 1)), dim=-1)  # [..., N, d_v + 1]
    f_q, f_k, values = (F.pad(x, (0, 0, 0, -n % block)).unflatten(-2, (-1, block)) for x in (f_q, f_k, values))
    S = f_k.transpose(-2, -1) @ values  # [..., N/block, d_k, d_v + 1], of each block
    S = F.pad(S.cumsum(-3), (0, 0, 0, 0, 1, 0))[..., :-1, :, :]  # of all blocks before each
    own = (f_q @ f_k.transpose(-2, -1)).tril() @ values  # j ≤ i inside the block
    total = (own + f_q @ S).flatten(-3, -2)[..., :n, :]  # [..., N, d_v + 1]
    return (total[..., :-1] / total[..., -1:]).to(v.dtype)


def linear_attention_step(state: LinearState | None, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, LinearState]:
    """One token of causal linear attention: a recurrent network whose state is a matrix.

    S ← S + φ(k)ᵀ v and z ← z + φ(k), then out = φ(q) S / φ(q)·z: the token sees itself. A KV cache grows with every
    token; this state does not.

    Args:
        state: S ``[..., d_k, d_v]`` and z ``[..., d_k]``, not changed; ``None`` at the start.
        q: query ``[..., d_k]``.
        k: key ``[..., d_k]``.
        v: value ``[..., d_v]``.

    Returns:
        The output ``[..., d_v]`` in the dtype of ``v``, and the new state, in float32 for half precision.

    Example:
        >>> out, (S, z) = linear_attention_step(None, torch.zeros(3), torch.zeros(3), torch.tensor([5.0, 7.0]))
        >>> out, S.shape, z
        (tensor([5., 7.]), torch.Size([3, 2]), tensor([1., 1., 1.]))

    Reference: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236, section 3.4, equations 16 to 20.
    """
    dtype = torch.promote_types(v.dtype, torch.float32)
    f_q, f_k = feature_map(q.to(dtype)), feature_map(k.to(dtype))
    S = f_k[..., :, None] * v.to(dtype)[..., None, :]  # [..., d_k, d_v]
    z = f_k
    if state is not None:
        S, z = state[0] + S, state[1] + z
    out = (f_q[..., None, :] @ S).squeeze(-2) / (f_q * z).sum(-1, keepdim=True)  # [..., d_v]
    return out.to(v.dtype), (S, z)


def state_space_scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A diagonal state-space model as a recurrence: h_t = a ∘ h_{t−1} + b x_t, y_t = Σ_s c_s h_{t,s}.

    Each channel has its own S states, and nothing mixes channels. Unlike an RNN, nothing stands between h_{t−1} and h_t
    but a factor: that is why it can also be run as :func:`state_space_convolution`.

    Args:
        x: ``[B, N, D]``.
        a: how much of a state stays, |a| < 1, any sign: ``[D, S]``.
        b: what the input adds ``[D, S]``.
        c: what is read out ``[D, S]``.
        state: h before the first token ``[B, D, S]``; zeros if not given.

    Returns:
        y ``[B, N, D]``, and h after the last token ``[B, D, S]``.

    Example:
        >>> one = torch.ones(1, 1)
        >>> y, state = state_space_scan(torch.tensor([[[1.0], [0.0], [0.0]]]), 0.5 * one, one, one)
        >>> y.flatten(), state.flatten()
        (tensor([1.0000, 0.5000, 0.2500]), tensor([0.2500]))

    Reference: Gu et al. 2022 (S4D), https://arxiv.org/abs/2206.11893, section 2.
    """
    h = x.new_zeros(x.shape[0], *a.shape) if state is None else state  # [B, D, S]
    outputs = []
    for x_t in x.unbind(1):
        h = a * h + b * x_t[..., None]
        outputs.append((c * h).sum(-1))  # [B, D], after the update
    return torch.stack(outputs, dim=1), h


def state_space_convolution(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The same model, from a zero state, as a convolution: y_t = Σ_j K_j x_{t−j} with K_j = Σ_s c_s a_sʲ b_s.

    All times at once; by the fast Fourier transform, in time N log N.

    Args:
        x: ``[B, N, D]``.
        a: how much of a state stays, |a| < 1, any sign: ``[D, S]``.
        b: what the input adds ``[D, S]``.
        c: what is read out ``[D, S]``.

    Returns:
        y ``[B, N, D]``, as :func:`state_space_scan`.

    Example:
        >>> one = torch.ones(1, 1)
        >>> state_space_convolution(torch.tensor([[[1.0], [0.0], [0.0]]]), 0.5 * one, one, one).flatten()
        tensor([1.0000, 0.5000, 0.2500])

    Reference: Gu et al. 2021 (S4), https://arxiv.org/abs/2111.00396, section 2.4, equation 5.
    """
    n, dtype = x.shape[1], torch.promote_types(x.dtype, torch.float32)  # there is no transform in half precision
    powers = a.to(dtype)[..., None] ** torch.arange(n, device=x.device)  # [D, S, N]; 0⁰ = 1
    kernel = torch.einsum("ds,dsn->nd", (c * b).to(dtype), powers)  # [N, D]
    # A transform is circular: with twice the length, what runs over the end meets zeros and not the beginning.
    product = torch.fft.rfft(x.to(dtype), 2 * n, dim=1) * torch.fft.rfft(kernel, 2 * n, dim=0)
    return torch.fft.irfft(product, 2 * n, dim=1)[:, :n].to(x.dtype)
