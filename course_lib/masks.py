"""Boolean attention masks. One convention: **True = may attend**; masks broadcast to the scores ``[B, h, N, M]``.

``nn.MultiheadAttention`` uses the opposite polarity (True = hide); ``F.scaled_dot_product_attention`` uses this one.
"""

import torch
from torch import Tensor


def _key_minus_query(n_queries: int, n_keys: int | None, device: torch.device | str | None) -> Tensor:
    """Entry [i, j] is how far key j lies after query i, when the last query stands at the last key.  [N, M], integers."""
    n_keys = n_queries if n_keys is None else n_keys
    query = torch.arange(n_queries, device=device) + n_keys - n_queries  # [N] position of each query among the keys
    key = torch.arange(n_keys, device=device)  # [M]
    return key[None, :] - query[:, None]  # [N, M]


def causal_mask(n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Each query sees the keys up to and including its own position.

    Added to the scores it would be the matrix M_ij = 0 for j ≤ i and −∞ for j > i, with a row i for each query and a
    column j for each key. (Printed the other way round, 0 for i ≤ j, it would show the future and hide the past.)

    With N ≠ M the corner is aligned at the bottom right: the last query sees all keys, so that one query decoded
    against a cache of M keys sees the whole cache. (PyTorch's ``is_causal`` aligns at the top left.) With N > M the
    first N − M queries see nothing.

    Args:
        n_queries: N.
        n_keys: M; N if not given.
        device: where the mask is made.

    Returns:
        Boolean ``[N, M]``, True = may attend.

    Example:
        >>> causal_mask(2, 4).int()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    return _key_minus_query(n_queries, n_keys, device) <= 0


def sliding_window_mask(
    n_queries: int, window: int, n_keys: int | None = None, device: torch.device | str | None = None
) -> Tensor:
    """Causal, and each query sees at most the ``window`` latest keys, its own position included.

    Args:
        n_queries: N.
        window: how many keys a query sees at most, at least 1.
        n_keys: M; N if not given.
        device: where the mask is made.

    Returns:
        Boolean ``[N, M]``, True = may attend.

    Raises:
        ValueError: if ``window`` is below 1.

    Example:
        >>> sliding_window_mask(3, 2).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)

    Reference: Beltagy et al. 2020 (Longformer), https://arxiv.org/abs/2004.05150, section 3.1.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    distance = _key_minus_query(n_queries, n_keys, device)
    return (distance <= 0) & (distance > -window)


def padding_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    """Keys that are real tokens, wherever the padding stands (right, left or inside).

    Args:
        tokens: token ids ``[B, M]``.
        pad_id: the id of the padding token.

    Returns:
        Boolean ``[B, 1, 1, M]``, True = may attend: the two 1s stand for heads and queries, so it hides *keys*.

    Raises:
        ValueError: if ``tokens`` is not ``[B, M]``.

    Example:
        >>> padding_mask(torch.tensor([[7, 5, 0]])).int()
        tensor([[[[1, 1, 0]]]], dtype=torch.int32)
    """
    if tokens.dim() != 2:
        raise ValueError(f"tokens must be [B, M], got shape {list(tokens.shape)}")
    return (tokens != pad_id)[:, None, None, :]


def length_mask(lengths: Tensor, n_keys: int | None = None) -> Tensor:
    """The padding mask of right-padded sequences, from their lengths.

    Args:
        lengths: number of real tokens of each sequence, integers ``[B]``.
        n_keys: M, the padded length; the longest sequence if not given.

    Returns:
        Boolean ``[B, 1, 1, M]``, True = may attend.

    Raises:
        ValueError: if ``lengths`` is not ``[B]``.

    Example:
        >>> length_mask(torch.tensor([1, 3])).int()
        tensor([[[[1, 0, 0]]],
        <BLANKLINE>
        <BLANKLINE>
                [[[1, 1, 1]]]], dtype=torch.int32)
    """
    if lengths.dim() != 1:
        raise ValueError(f"lengths must be [B], got shape {list(lengths.shape)}")
    n_keys = int(lengths.max()) if n_keys is None else n_keys
    return (torch.arange(n_keys, device=lengths.device) < lengths[:, None])[:, None, None, :]


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """What every mask allows (logical and), with broadcasting; ``None`` hides nothing.

    Args:
        masks: boolean masks that broadcast to each other, or ``None``.

    Returns:
        The combined boolean mask, or ``None`` if there was none.

    Raises:
        TypeError: if a mask is not boolean.

    Example:
        >>> combine_masks(causal_mask(2), padding_mask(torch.tensor([[0, 5]]))).int()
        tensor([[[[0, 0],
                  [0, 1]]]], dtype=torch.int32)
    """
    combined: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        if mask.dtype != torch.bool:
            raise TypeError(f"a mask must be boolean (True = may attend), got {mask.dtype}")
        combined = mask if combined is None else combined & mask
    return combined
