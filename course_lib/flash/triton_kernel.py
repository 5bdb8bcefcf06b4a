"""FlashAttention-2 as Triton kernels: what ``tiled`` does, one block of rows a program, in a GPU's on-chip memory.

Forward is one kernel, a program for each block of queries of each head. Backward is two: dQ has a program for each
block of queries, dK and dV one for each block of keys, so that no two programs add to the same place. Nothing is atomic
and the same input gives the same bits.

The letters are those of ``tiled``, as are the lines of the paper's algorithms in the comments. Triton runs on CUDA; its
interpreter runs the same kernels on the CPU, for tests, if TRITON_INTERPRET=1 is set before Triton is first imported.

Reference: Dao 2023 (FlashAttention-2), https://arxiv.org/abs/2307.08691, algorithms 1 and 2.
"""

# mypy: disable-error-code="no-untyped-def"
# The kernels below are Triton's language, whose arguments have no Python types.

from __future__ import annotations  # the kernels' annotations name tl, which may be missing

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_lib.flash import check_shapes, key_padding

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels for macOS and Windows: the module can be imported and says what is missing
    triton = None


def _kernel(function: Callable[..., Any]) -> Any:
    return function if triton is None else triton.jit(function)


def interpreting() -> bool:
    """Whether Triton runs kernels in its interpreter, on the CPU."""
    return triton is not None and triton.knobs.runtime.interpret


def triton_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    block: int | None = None,
) -> Tensor:
    """softmax(q kᵀ · scale) v in one kernel; between forward and backward only the output and L are kept.

    Args:
        q: queries ``[B, h, N, d_k]``, on a CUDA device (or on the CPU in Triton's interpreter).
        k: keys ``[B, h_kv, M, d_k]``; h_kv divides h, and query head j reads key/value head j // (h / h_kv).
        v: values ``[B, h_kv, M, d_v]``.
        mask: keys that may be attended to (True), the same for all heads and queries: broadcasts to ``[B, 1, 1, M]``.
        causal: hide the future, aligned at the bottom right as in :func:`course_lib.masks.causal_mask`.
        scale: what the inner products are multiplied with; 1/√d_k if not given.
        block: height and width of a tile, a power of two from 16 on; if not given, what fits on the chip.

    Returns:
        The output ``[B, h, N, d_v]`` in the dtype of ``q``; zeros where a query sees no key. It can be differentiated
        once. Half precision is multiplied as it is and summed in float32.

    Raises:
        RuntimeError: if Triton is not installed, or cannot run on the device of ``q``.
        ValueError: if the mask is no key padding, the shapes do not fit, or ``block`` is no power of two from 16 on.
        TypeError: if ``mask`` is not boolean, or q, k, v differ in dtype.
    """
    if triton is None:
        raise RuntimeError("Triton is not installed: pip install triton (Linux), or use the tiled or fused attention")
    if not (q.is_cuda or interpreting()):
        raise RuntimeError(
            f"Triton needs a CUDA device, q is on {q.device}; for tests on the CPU set TRITON_INTERPRET=1 before "
            "Triton is first imported"
        )
    check_shapes(q, k, v)
    block = _block(q.dtype, triton.next_power_of_2(max(q.shape[3], v.shape[3]))) if block is None else block
    if block < 16 or block & (block - 1):
        raise ValueError(f"block must be a power of two from 16 on, got {block}")
    key_mask = None if mask is None else key_padding(mask, k.shape[0], k.shape[2]).contiguous()
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    output: Tensor = _TritonAttention.apply(q, k, v, key_mask, causal, scale, block)
    return output


def _block(dtype: torch.dtype, width: int) -> int:
    """What keeps all kernels below the 99 KiB of shared memory that a program has on the smaller GPUs from sm_80 on."""
    if dtype.itemsize == 2 and width <= 128:
        return 64
    return 32 if width * dtype.itemsize <= 512 else 16


class _TritonAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool, scale: float, block: int
    ) -> Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()  # so that a row's address is (head · N + row) · d
        options = _options(q, k, v, key_mask, causal, scale, block)
        out = q.new_empty(*q.shape[:3], v.shape[3])
        lse = q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))
        grid = (triton.cdiv(q.shape[2], block), q.shape[0] * q.shape[1])
        _forward_kernel[grid](q, k, v, key_mask, out, lse, **options)
        ctx.save_for_backward(q, k, v, key_mask, out, lse)
        ctx.options = options
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_mask, out, lse = ctx.saved_tensors
        d_out = d_out.contiguous()
        D = (d_out.to(lse.dtype) * out.to(lse.dtype)).sum(-1)  # 2.4  [B, h, N]
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        block = ctx.options["BLOCK"]
        rows = (triton.cdiv(q.shape[2], block), q.shape[0] * q.shape[1])
        keys = (triton.cdiv(k.shape[2], block), k.shape[0] * k.shape[1])
        _backward_kernel_q[rows](q, k, v, key_mask, d_out, lse, D, dq, **ctx.options)
        _backward_kernel_kv[keys](q, k, v, key_mask, d_out, lse, D, dk, dv, **ctx.options)
        return dq, dk, dv, None, None, None, None


def _options(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool, scale: float, block: int
) -> dict[str, Any]:
    """What all three kernels are told besides the tensors."""
    operand = q.dtype
    if interpreting() and operand == torch.bfloat16:
        operand = torch.float32  # the interpreter keeps bfloat16 as bits in integers, and tl.dot multiplies those
    total = torch.promote_types(q.dtype, torch.float32)
    return {
        "n_heads": q.shape[1],
        "n_queries": q.shape[2],
        "n_keys": k.shape[2],
        "SCALE": scale,  # compiled in: a kernel's argument would be rounded to float32
        "GROUP": q.shape[1] // k.shape[1],
        "D_K": q.shape[3],
        "D_V": v.shape[3],
        "WIDTH_K": max(16, triton.next_power_of_2(q.shape[3])),  # tiles are powers of two; the rest is filled with 0
        "WIDTH_V": max(16, triton.next_power_of_2(v.shape[3])),
        "BLOCK": block,
        "CAUSAL": causal,
        "PADDED": key_mask is not None,
        "OPERAND": getattr(tl, str(operand).removeprefix("torch.")),
        "SUM": getattr(tl, str(total).removeprefix("torch.")),
        "num_stages": 2,  # blocks of the inner loop on their way at once; more would not fit
    }


# The kernels. Arguments in capitals are known when the kernel is compiled. x_head below is the head's number counted
# through the batch, b · h + j: with grouped heads the one it reads is (b · h + j) // GROUP = b · h_kv + j // GROUP.


@_kernel
def _load_rows(X, head, rows, n_rows, D: tl.constexpr, WIDTH: tl.constexpr, OPERAND: tl.constexpr):
    """Rows of X [heads, n_rows, D], 0 outside."""
    columns = tl.arange(0, WIDTH)
    inside = (rows[:, None] < n_rows) & (columns[None, :] < D)
    at = (head * n_rows + rows[:, None]) * D + columns[None, :]
    return tl.load(X + at, mask=inside, other=0.0).to(OPERAND)


@_kernel
def _store_rows(X, x, head, rows, n_rows, D: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    inside = (rows[:, None] < n_rows) & (columns[None, :] < D)
    at = (head * n_rows + rows[:, None]) * D + columns[None, :]
    tl.store(X + at, x.to(X.dtype.element_ty), mask=inside)


@_kernel
def _dot(a, b):
    """a b, in full float32: by default a GPU would round float32 to TF32's 10 bits."""
    return tl.dot(a, b, input_precision="ieee")


@_kernel
def _hide(
    S, KEY_MASK, batch, rows, keys, n_queries, n_keys, CAUSAL: tl.constexpr, PADDED: tl.constexpr
):  # fmt: skip
    """−∞ where a query may not look: beyond the last key, in the padding, in the future."""
    visible = (keys < n_keys)[None, :]
    if PADDED:
        visible = visible & (tl.load(KEY_MASK + batch * n_keys + keys, mask=keys < n_keys, other=0) != 0)[None, :]
    if CAUSAL:
        visible = visible & (keys[None, :] <= rows[:, None] + n_keys - n_queries)
    return tl.where(visible, S, float("-inf"))


@_kernel
def _forward_kernel(
    Q, K, V, KEY_MASK, O, L, n_heads, n_queries, n_keys,
    SCALE: tl.constexpr, GROUP: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr, BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr, OPERAND: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK  # 1.3
    head = tl.program_id(1).to(tl.int64)  # addresses outgrow 32 bits
    rows = start + tl.arange(0, BLOCK)
    Q_i = _load_rows(Q, head, rows, n_queries, D_K, WIDTH_K, OPERAND)  # 1.4
    O_i = tl.zeros([BLOCK, WIDTH_V], SUM)  # 1.5
    l_i = tl.zeros([BLOCK], SUM)
    m_i = tl.full([BLOCK], float("-inf"), SUM)
    end = n_keys
    if CAUSAL:
        end = tl.minimum(n_keys, start + BLOCK + n_keys - n_queries)  # the last row sees the keys before this one
    for j in range(0, end, BLOCK):  # 1.6
        keys = j + tl.arange(0, BLOCK)
        K_j = _load_rows(K, head // GROUP, keys, n_keys, D_K, WIDTH_K, OPERAND)  # 1.7
        V_j = _load_rows(V, head // GROUP, keys, n_keys, D_V, WIDTH_V, OPERAND)
        S = _dot(Q_i, tl.trans(K_j)) * SCALE  # 1.8  [rows, keys]
        S = _hide(S, KEY_MASK, head // n_heads, rows, keys, n_queries, n_keys, CAUSAL, PADDED)
        m_new = tl.maximum(m_i, tl.max(S, 1))  # 1.9
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # nothing seen so far: −∞ − (−∞) would be NaN
        P = tl.exp(S - shift[:, None])
        correction = tl.exp(m_i - shift)
        l_i = correction * l_i + tl.sum(P, 1)
        O_i = correction[:, None] * O_i + _dot(P.to(OPERAND), V_j)  # 1.10
        m_i = m_new
    O_i = O_i / tl.where(l_i == 0, 1.0, l_i)[:, None]  # 1.12
    L_i = tl.where(l_i == 0, float("-inf"), m_i + tl.log(tl.where(l_i == 0, 1.0, l_i)))  # 1.13
    _store_rows(O, O_i, head, rows, n_queries, D_V, WIDTH_V)
    tl.store(L + head * n_queries + rows, L_i, mask=rows < n_queries)


@_kernel
def _weights(
    Q_i, K_j, L, KEY_MASK, head, rows, keys, n_heads, n_queries, n_keys,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """One tile of weights, computed again."""
    S = _dot(Q_i, tl.trans(K_j)) * SCALE  # 2.10
    S = _hide(S, KEY_MASK, head // n_heads, rows, keys, n_queries, n_keys, CAUSAL, PADDED)
    L_i = tl.load(L + head * n_queries + rows, mask=rows < n_queries, other=float("inf"))
    L_i = tl.where(L_i == float("-inf"), float("inf"), L_i)  # a row that sees nothing: exp(S − ∞) = 0
    return tl.exp(S - L_i[:, None])  # 2.11


@_kernel
def _score_gradient(P, dO_i, V_j, D, head, rows, n_queries):
    """One tile of dS."""
    dP = _dot(dO_i, tl.trans(V_j))  # 2.13
    D_i = tl.load(D + head * n_queries + rows, mask=rows < n_queries, other=0.0)
    return P * (dP - D_i[:, None])  # 2.14


@_kernel
def _backward_kernel_q(
    Q, K, V, KEY_MASK, dO, L, D, dQ, n_heads, n_queries, n_keys,
    SCALE: tl.constexpr, GROUP: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr, BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr, OPERAND: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK
    head = tl.program_id(1).to(tl.int64)
    rows = start + tl.arange(0, BLOCK)
    Q_i = _load_rows(Q, head, rows, n_queries, D_K, WIDTH_K, OPERAND)
    dO_i = _load_rows(dO, head, rows, n_queries, D_V, WIDTH_V, OPERAND)
    dQ_i = tl.zeros([BLOCK, WIDTH_K], SUM)
    end = n_keys
    if CAUSAL:
        end = tl.minimum(n_keys, start + BLOCK + n_keys - n_queries)
    for j in range(0, end, BLOCK):
        keys = j + tl.arange(0, BLOCK)
        K_j = _load_rows(K, head // GROUP, keys, n_keys, D_K, WIDTH_K, OPERAND)
        V_j = _load_rows(V, head // GROUP, keys, n_keys, D_V, WIDTH_V, OPERAND)
        P = _weights(
            Q_i, K_j, L, KEY_MASK, head, rows, keys, n_heads, n_queries, n_keys, SCALE, CAUSAL, PADDED
        )  # fmt: skip
        dS = _score_gradient(P, dO_i, V_j, D, head, rows, n_queries)
        dQ_i += _dot(dS.to(OPERAND), K_j)  # 2.15
    _store_rows(dQ, dQ_i * SCALE, head, rows, n_queries, D_K, WIDTH_K)


@_kernel
def _backward_kernel_kv(
    Q, K, V, KEY_MASK, dO, L, D, dK, dV, n_heads, n_queries, n_keys,
    SCALE: tl.constexpr, GROUP: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr, BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr, OPERAND: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK  # 2.5
    kv_head = tl.program_id(1).to(tl.int64)
    keys = start + tl.arange(0, BLOCK)
    K_j = _load_rows(K, kv_head, keys, n_keys, D_K, WIDTH_K, OPERAND)  # 2.6
    V_j = _load_rows(V, kv_head, keys, n_keys, D_V, WIDTH_V, OPERAND)
    dK_j = tl.zeros([BLOCK, WIDTH_K], SUM)  # 2.7
    dV_j = tl.zeros([BLOCK, WIDTH_V], SUM)
    first = 0
    if CAUSAL:
        first = tl.maximum(0, start + n_queries - n_keys) // BLOCK * BLOCK  # queries before it stand before these keys
    for member in range(GROUP):  # every query head that reads these keys adds its share
        head = kv_head * GROUP + member
        for i in range(first, n_queries, BLOCK):  # 2.8
            rows = i + tl.arange(0, BLOCK)
            Q_i = _load_rows(Q, head, rows, n_queries, D_K, WIDTH_K, OPERAND)  # 2.9
            dO_i = _load_rows(dO, head, rows, n_queries, D_V, WIDTH_V, OPERAND)
            P = _weights(
                Q_i, K_j, L, KEY_MASK, head, rows, keys, n_heads, n_queries, n_keys, SCALE, CAUSAL, PADDED
            )  # fmt: skip
            dV_j += _dot(tl.trans(P.to(OPERAND)), dO_i)  # 2.12
            dS = _score_gradient(P, dO_i, V_j, D, head, rows, n_queries)
            dK_j += _dot(tl.trans(dS.to(OPERAND)), Q_i)  # 2.16
    _store_rows(dK, dK_j * SCALE, kv_head, keys, n_keys, D_K, WIDTH_K)  # 2.18
    _store_rows(dV, dV_j, kv_head, keys, n_keys, D_V, WIDTH_V)
