"""FlashAttention-2 in plain PyTorch: exact attention in O(N) memory, forward and backward.

The scores exist one tile at a time (tiling): on a GPU a tile stays in the small, fast memory on the chip (SRAM), and
the [N, M] matrix is never written to the large, slow one (HBM). Going forward, a running maximum and a running sum make
the softmax come out right although no row is ever seen whole (online softmax); going back, the tiles are computed again
from the one number that was kept for each row, L = log Σ exp(score).

The letters are the paper's: Q_i, O_i, L_i are blocks of query rows, K_j, V_j blocks of keys, S and P one tile of scores
and weights. Comments "1.9" and "2.14" name the lines of its Algorithms 1 and 2.

Reference: Dao 2023 (FlashAttention-2), https://arxiv.org/abs/2307.08691, sections 3.1.1 and 3.1.2. The online softmax is
Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867, algorithm 3.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_lib.flash import check_shapes, key_padding

# A tile of 8 heads is 1 MiB in float32: it stays in a core's cache while exp and the sums go over it.
BLOCK_Q, BLOCK_K = 128, 256


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> Tensor:
    """softmax(q kᵀ · scale) v without the [N, M] matrix; between forward and backward only the output and L are kept.

    Args:
        q: queries ``[B, h, N, d_k]``.
        k: keys ``[B, h_kv, M, d_k]``; h_kv divides h, and query head j reads key/value head j // (h / h_kv).
        v: values ``[B, h_kv, M, d_v]``.
        mask: keys that may be attended to (True), the same for all heads and queries: broadcasts to ``[B, 1, 1, M]``.
        causal: hide the future, aligned at the bottom right as in :func:`course_lib.masks.causal_mask`.
        scale: what the inner products are multiplied with; 1/√d_k if not given.
        block_q: height of a tile; any number from 1 on gives the same output.
        block_k: width of a tile.

    Returns:
        The output ``[B, h, N, d_v]`` in the dtype of ``q``; zeros where a query sees no key. Half precision is computed
        in float32 and rounded at the end. It can be differentiated once.

    Raises:
        ValueError: if the mask is no key padding, the shapes do not fit, or a block is smaller than 1.
        TypeError: if ``mask`` is not boolean, or q, k, v differ in dtype.

    Example:
        >>> q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
        >>> tiled_attention(q, k, v, causal=True, block_k=2).shape
        torch.Size([2, 4, 3, 8])
    """
    check_shapes(q, k, v)
    key_mask = None if mask is None else key_padding(mask, k.shape[0], k.shape[2])
    output: Tensor = _TiledAttention.apply(q, k, v, key_mask, causal, scale, block_q, block_k)
    return output


class _TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, *options: Any) -> Tensor:
        out, lse = flash_forward(q, k, v, key_mask, *options)
        ctx.save_for_backward(q, k, v, key_mask, out, lse)
        ctx.options = options
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_mask, out, lse = ctx.saved_tensors
        gradients = flash_backward(d_out, q, k, v, out, lse, key_mask, *ctx.options)
        return *gradients, None, *(None for _ in ctx.options)


def flash_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> tuple[Tensor, Tensor]:
    """Algorithm 1: the output and, for each row, the logarithm of its sum of exponentials.

    Args:
        q: ``[B, h, N, d_k]``.
        k: ``[B, h_kv, M, d_k]``.
        v: ``[B, h_kv, M, d_v]``.
        key_mask: boolean ``[B, M]``, True = may attend; ``None`` hides nothing.
        causal: hide the future, aligned at the bottom right.
        scale: 1/√d_k if not given.
        block_q: height of a tile.
        block_k: width of a tile.

    Returns:
        O ``[B, h, N, d_v]`` in the dtype of ``q``, and L = log Σ exp(scaled score) ``[B, h, N]``, in float32 at least.
        A row that sees no key has output 0 and L = −∞.

    Raises:
        ValueError: if a block is smaller than 1. Shapes and dtypes are checked by :func:`tiled_attention`, not here.

    Example:
        >>> out, lse = flash_forward(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 3, 4), torch.ones(1, 1, 3, 1))
        >>> out.flatten(), lse.exp().flatten()  # all scores 0: every row sums to exp(0) · 3
        (tensor([1., 1.]), tensor([3., 3.]))
    """
    tiles = _Tiles(q, k, v, key_mask, causal, scale, block_q, block_k)
    Q = tiles.fold(q)
    O = Q.new_empty(*Q.shape[:3], v.shape[3])
    L = Q.new_empty(Q.shape[:3], dtype=tiles.dtype)
    with tiles.full_precision():
        for rows in tiles.row_blocks():  # 1.3
            Q_i = Q[:, :, rows].to(tiles.dtype) * tiles.scale  # 1.4
            O_i = Q_i.new_zeros(*Q_i.shape[:3], v.shape[3])  # 1.5
            l_i = Q_i.new_zeros(*Q_i.shape[:3], 1)
            m_i = torch.full_like(l_i, -math.inf)
            for keys in tiles.key_blocks(rows):  # 1.6
                K_j, V_j = k[:, :, keys].to(tiles.dtype), v[:, :, keys].to(tiles.dtype)  # 1.7
                S = tiles.hide(Q_i @ K_j.mT, rows, keys)  # 1.8 [B, h_kv, rows, keys]
                m_new = torch.maximum(m_i, S.amax(-1, keepdim=True))  # 1.9
                shift = m_new.masked_fill(m_new == -math.inf, 0)  # nothing seen so far: −∞ − (−∞) would be NaN
                P = S.sub_(shift).exp_()  # in place: one tile, not three
                correction = (m_i - shift).exp()  # what was summed under the old maximum counts this much under the new
                l_i = correction * l_i + P.sum(-1, keepdim=True)
                O_i = (correction * O_i).add_(P @ V_j)  # 1.10
                m_i = m_new
            O[:, :, rows] = O_i / l_i.masked_fill(l_i == 0, 1)  # 1.12
            L[:, :, rows] = (m_i + l_i.log()).squeeze(-1)  # 1.13; −∞ where nothing is seen
    return tiles.unfold(O), tiles.unfold(L)


def flash_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    key_mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 2: the gradients, with the weights computed again from L, tile by tile.

    The softmax's Jacobian is diag(p) − p pᵀ, so dS = P ∘ (dP − D) with D = Σ_k p_k dp_k for each row. D needs the whole
    row, which no tile has; but Σ_k p_k (dO · v_k) = dO · Σ_k p_k v_k = dO · O, and the output is there.

    Args:
        d_out: dO ``[B, h, N, d_v]``, the gradient of the output.
        q: ``[B, h, N, d_k]``; and so on, as given to :func:`flash_forward`.
        k: ``[B, h_kv, M, d_k]``.
        v: ``[B, h_kv, M, d_v]``.
        out: O ``[B, h, N, d_v]``, as :func:`flash_forward` returned it.
        lse: L ``[B, h, N]``, as :func:`flash_forward` returned it.
        key_mask: boolean ``[B, M]``, True = may attend.
        causal: as in the forward pass.
        scale: as in the forward pass.
        block_q: height of a tile; need not be the forward pass's.
        block_k: width of a tile.

    Returns:
        dQ ``[B, h, N, d_k]``, dK ``[B, h_kv, M, d_k]`` and dV ``[B, h_kv, M, d_v]`` in the dtypes of q, k and v. Rows that
        see no key contribute 0.

    Raises:
        ValueError: if a block is smaller than 1.
    """
    tiles = _Tiles(q, k, v, key_mask, causal, scale, block_q, block_k)
    Q, O, dO, L = tiles.fold(q), tiles.fold(out), tiles.fold(d_out), tiles.fold(lse)
    L = L.masked_fill(L.isneginf(), math.inf)  # a row that sees nothing: exp(S − ∞) = 0, where −∞ − (−∞) is NaN
    dQ = torch.empty_like(Q)
    dK, dV = torch.zeros_like(k, dtype=tiles.dtype), torch.zeros_like(v, dtype=tiles.dtype)  # 2.3
    with tiles.full_precision():
        # The paper's outer loop runs over keys and its inner loop over queries; here it is the other way round, so that
        # a tile is visited in the same order as going forward. The sums are the same.
        for rows in tiles.row_blocks():
            Q_i = Q[:, :, rows].to(tiles.dtype) * tiles.scale  # 2.9
            O_i, dO_i = O[:, :, rows].to(tiles.dtype), dO[:, :, rows].to(tiles.dtype)
            L_i = L[:, :, rows].unsqueeze(-1)
            D_i = (dO_i * O_i).sum(-1, keepdim=True)  # 2.4
            dQ_i = torch.zeros_like(Q_i)
            for keys in tiles.key_blocks(rows):
                K_j, V_j = k[:, :, keys].to(tiles.dtype), v[:, :, keys].to(tiles.dtype)  # 2.6
                S = tiles.hide(Q_i @ K_j.mT, rows, keys)  # 2.10
                P = S.sub_(L_i).exp_()  # 2.11: the weights themselves, no maximum and no sum needed
                dV[:, :, keys] += P.mT @ dO_i  # 2.12
                dP = dO_i @ V_j.mT  # 2.13
                dS = dP.sub_(D_i).mul_(P)  # 2.14
                dQ_i += dS @ K_j  # 2.15
                dK[:, :, keys] += dS.mT @ Q_i  # 2.16; Q_i carries the scale
            dQ[:, :, rows] = dQ_i * tiles.scale
    return tiles.unfold(dQ), dK.to(k.dtype), dV.to(v.dtype)


class _Tiles:
    """Which tiles there are, and what is hidden in each.

    With grouped heads the g query heads that share keys are folded into the rows, so that one product serves them all:
    row r is query r // g, and queries are ``[B, h_kv, N · g, d]``. Without groups folding changes nothing.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_mask: Tensor | None,
        causal: bool,
        scale: float | None,
        block_q: int,
        block_k: int,
    ) -> None:
        if block_q < 1 or block_k < 1:
            raise ValueError(f"blocks must be at least 1, got block_q = {block_q}, block_k = {block_k}")
        self.n_heads, self.n_kv_heads = q.shape[1], k.shape[1]
        self.group = self.n_heads // self.n_kv_heads
        self.n_rows, self.n_keys = q.shape[2] * self.group, k.shape[2]
        self.past = k.shape[2] - q.shape[2]  # query 0 stands at this key: the corner is aligned at the bottom right
        self.visible = None if key_mask is None else key_mask[:, None, None, :]  # [B, 1, 1, M]
        self.causal = causal
        self.scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
        self.block_q, self.block_k = block_q, block_k
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)  # of all sums: in bfloat16 they would lose most digits

    def fold(self, x: Tensor) -> Tensor:
        """[B, h, N, …] to [B, h_kv, N · g, …]; a view when g = 1."""
        return x.unflatten(1, (self.n_kv_heads, self.group)).transpose(2, 3).flatten(2, 3)

    def unfold(self, x: Tensor) -> Tensor:
        """[B, h_kv, N · g, …] to [B, h, N, …]."""
        return x.unflatten(2, (-1, self.group)).transpose(2, 3).flatten(1, 2)

    def full_precision(self) -> torch.autocast:
        """Autocast would lower the products that half precision was raised for."""
        return torch.autocast(self.device.type, enabled=False)

    def row_blocks(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, self.block_q):
            yield slice(start, min(start + self.block_q, self.n_rows))

    def key_blocks(self, rows: slice) -> Iterator[slice]:
        """The blocks that some of these rows can see: causal attention skips about half of the tiles."""
        end = self.n_keys
        if self.causal:
            end = min(end, (rows.stop - 1) // self.group + self.past + 1)  # the last row sees the keys before this one
        for start in range(0, end, self.block_k):
            yield slice(start, min(start + self.block_k, self.n_keys))

    def hide(self, S: Tensor, rows: slice, keys: slice) -> Tensor:
        """Put −∞, in place, where a row may not look."""
        if self.visible is not None:
            S.masked_fill_(~self.visible[..., keys], -math.inf)
        if self.causal and keys.stop - 1 > rows.start // self.group + self.past:  # the tile crosses the diagonal
            position = torch.arange(rows.start, rows.stop, device=self.device) // self.group + self.past  # [rows]
            key = torch.arange(keys.start, keys.stop, device=self.device)
            S.masked_fill_(key > position[:, None], -math.inf)
        return S
