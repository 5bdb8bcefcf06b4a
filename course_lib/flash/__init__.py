"""FlashAttention: exact attention that never makes the [N, M] matrix, in PyTorch (``tiled``) and in Triton
(``triton_kernel``).

Both take queries [B, h, N, d_k], keys [B, h_kv, M, d_k] and values [B, h_kv, M, d_v], and hide keys by padding, by
causality, or both. Here is what they share: checking their inputs.
"""

import torch
from torch import Tensor


def key_padding(mask: Tensor, batch: int, n_keys: int) -> Tensor:
    """The keys each sequence may attend to, from a mask that is the same for all heads and queries.

    Args:
        mask: boolean, True = may attend, broadcasts to ``[B, 1, 1, M]``: what :func:`course_lib.masks.padding_mask` makes.
        batch: B.
        n_keys: M.

    Returns:
        Boolean ``[B, M]``.

    Raises:
        TypeError: if ``mask`` is not boolean.
        ValueError: if ``mask`` differs between heads or queries, or does not fit B and M.

    Example:
        >>> key_padding(torch.tensor([[[[True, True, False]]]]), 2, 3).int()
        tensor([[1, 1, 0],
                [1, 1, 0]], dtype=torch.int32)
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), got {mask.dtype}")
    try:
        return mask.expand(batch, 1, 1, n_keys)[:, 0, 0]
    except RuntimeError:
        raise ValueError(
            f"tiled attention hides keys by padding, a mask [B, 1, 1, M] = [{batch}, 1, 1, {n_keys}], or by causal=True; "
            f'got a mask of shape {list(mask.shape)}. For any other mask use backend="explicit" or "fused"'
        ) from None


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse what is not q ``[B, h, N, d_k]``, k ``[B, h_kv, M, d_k]``, v ``[B, h_kv, M, d_v]`` of one dtype.

    Raises:
        ValueError: if the shapes do not fit each other.
        TypeError: if the dtypes differ or are not floating-point.
    """
    fits = (
        q.dim() == k.dim() == v.dim() == 4
        and q.shape[0] == k.shape[0]
        and q.shape[1] % k.shape[1] == 0  # groups of query heads share a key/value head
        and q.shape[3] == k.shape[3]
        and k.shape[:3] == v.shape[:3]
    )
    if not fits:
        shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
        raise ValueError(
            f"want q [B, h, N, d_k], k [B, h_kv, M, d_k], v [B, h_kv, M, d_v], h_kv divides h; got {shapes}"
        )
    if not (q.is_floating_point() and q.dtype == k.dtype == v.dtype):
        raise TypeError(f"q, k and v must have one floating dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
