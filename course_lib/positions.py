"""Positions: a set of clocks, from the fastest to the slowest, and the ways to tell a model the time.

Clock i turns by the angle ω_i · pos with ω_i = base^(−2i/d), i = 0 … d/2 − 1. The sinusoidal table writes the hands of
all clocks beside the word, RoPE turns queries and keys by them, and T5 adds a learned number to the score instead.
Positions are integers and are passed explicitly. Angles are float32 or better whatever the dtype of the result:
bfloat16 cannot tell position 257 from 256.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _frequencies(d: int, base: float) -> Tensor:
    """ω in float64 on the CPU: everything else here is rounded from it.  [d/2]"""
    if d < 2 or d % 2 != 0:
        raise ValueError(f"positions come in pairs of columns: the width must be even, got {d}")
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64, device="cpu") / d)


def _place(x: Tensor, dtype: torch.dtype, device: torch.device | str | None) -> Tensor:
    return x.to(torch.get_default_device() if device is None else device, dtype)


def angular_frequencies(
    d_model: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """ω_i = base^(−2i/d_model): from one radian a step down to nearly 1/base.

    Args:
        d_model: width of the table, even (or d_k, for RoPE).
        base: the larger, the slower the slowest clock.
        dtype: of the result.
        device: of the result.

    Returns:
        ``[d_model/2]``.

    Raises:
        ValueError: if ``d_model`` is odd.

    Example:
        >>> angular_frequencies(4)
        tensor([1.0000, 0.0100])

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5.
    """
    return _place(_frequencies(d_model, base), dtype, device)


def sinusoidal_positions(
    n_positions: int,
    d_model: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """The table P of 2017. Row pos: sin(ω_0 pos), cos(ω_0 pos), sin(ω_1 pos), cos(ω_1 pos), …

    Args:
        n_positions: number of rows, positions 0 … n_positions − 1.
        d_model: number of columns, even.
        base: of the angular frequencies.
        dtype: of the result.
        device: of the result.

    Returns:
        ``[n_positions, d_model]``.

    Raises:
        ValueError: if ``d_model`` is odd.

    Example:
        >>> sinusoidal_positions(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5.
    """
    positions = torch.arange(n_positions, dtype=torch.float64, device="cpu")
    angles = positions[:, None] * _frequencies(d_model, base)  # [n_positions, d_model/2]
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # sine and cosine of a clock side by side
    return _place(table, dtype, device)


def shift_matrix(
    k: int,
    d_model: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """M_k with P[pos] @ M_k = P[pos + k] for every pos: k steps turn clock i by k·ω_i, whatever the time.

    With (s, c) = (sin, cos) of the angle and θ = k·ω_i, the sum formulas say (s, c) @ [[cos θ, −sin θ], [sin θ, cos θ]]
    = (sin(angle + θ), cos(angle + θ)). This is the row form; for columns, M_k · PE_pos, it is transposed.

    Args:
        k: number of steps, of any sign.
        d_model: width of the table, even.
        base: of the angular frequencies.
        dtype: of the result.
        device: of the result.

    Returns:
        ``[d_model, d_model]``, block-diagonal and orthogonal.

    Raises:
        ValueError: if ``d_model`` is odd.

    Example:
        >>> P = sinusoidal_positions(10, 8)
        >>> torch.allclose(P[2] @ shift_matrix(5, 8), P[7], atol=1e-6)
        True

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5 ("a linear function of PE_pos").
    """
    angles = k * _frequencies(d_model, base)
    sin, cos = angles.sin(), angles.cos()
    blocks = torch.stack((cos, -sin, sin, cos), dim=-1).unflatten(-1, (2, 2))  # [d_model/2, 2, 2]
    return _place(torch.block_diag(*blocks), dtype, device)


class LearnedPositions(nn.Module):
    """One learned vector for each position (BERT, GPT-2): no clock, and nothing beyond the last one.

    Args:
        n_positions: how many positions there are.
        d_model: width of a vector.

    Example:
        >>> LearnedPositions(512, 8)(torch.tensor([[0, 1, 2]])).shape
        torch.Size([1, 3, 8])

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.1.
    """

    def __init__(self, n_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_positions, d_model).normal_(std=0.02))

    def forward(self, positions: Tensor) -> Tensor:
        """The vectors of ``positions``.

        Args:
            positions: integers ``[...]``.

        Returns:
            ``[..., d_model]``.

        Raises:
            ValueError: if a position is negative or beyond the table.
        """
        n_positions = self.weight.shape[0]
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < n_positions:
            raise ValueError(
                f"positions {int(positions.min())} … {int(positions.max())}, but the model has learned 0 … {n_positions - 1}"
            )
        return F.embedding(positions, self.weight)


# RoPE. Both layouts turn pairs of coordinates; they differ in which coordinates make a pair.


def rotary_angles(
    positions: Tensor, d_k: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every clock at every position: made once, used by all layers.

    Args:
        positions: integers ``[...]``, from anywhere, with gaps or without.
        d_k: width of a head, even.
        base: of the angular frequencies.
        dtype: float32 or float64.

    Returns:
        cos and sin, each ``[..., d_k/2]``.

    Raises:
        TypeError: if positions are not integers (as bfloat16, 4096 of them collapse to 769), or ``dtype`` is half precision.
        ValueError: if ``d_k`` is odd.

    Example:
        >>> cos, sin = rotary_angles(torch.tensor([0, 1]), d_k=4)
        >>> sin
        tensor([[0.0000, 0.0000],
                [0.8415, 0.0100]])

    Reference: Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.2.2, equation 15.
    """
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers, got {positions.dtype}")
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"angles must be float32 or float64, got {dtype}")
    angles = positions[..., None].to(dtype) * angular_frequencies(d_k, base, dtype, positions.device)
    return angles.cos(), angles.sin()  # [..., d_k/2]


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_1), (x_2, x_3), …, each as (a cos θ − b sin θ, a sin θ + b cos θ).

    Args:
        x: ``[..., d_k]``.
        cos: of :func:`rotary_angles`, broadcasts to ``[..., d_k/2]``.
        sin: likewise.

    Returns:
        ``[..., d_k]`` in the dtype of ``x``.

    Raises:
        RuntimeError: from PyTorch, if cos and sin do not broadcast to ``[..., d_k/2]``.

    Example:
        >>> cos, sin = rotary_angles(torch.tensor([1]), d_k=4)
        >>> rotate_interleaved(torch.tensor([[1.0, 0.0, 1.0, 0.0]]), cos, sin)
        tensor([[0.5403, 0.8415, 0.9999, 0.0100]])
    """
    a, b = x[..., 0::2], x[..., 1::2]  # half precision times float32 is computed in float32
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


def rotate_half_split(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_{d_k/2}), (x_1, x_{d_k/2 + 1}), …, as :func:`rotate_interleaved` does its own.

    Args:
        x: ``[..., d_k]``.
        cos: of :func:`rotary_angles`, broadcasts to ``[..., d_k/2]``.
        sin: likewise.

    Returns:
        ``[..., d_k]`` in the dtype of ``x``.

    Raises:
        RuntimeError: from PyTorch, if cos and sin do not broadcast to ``[..., d_k/2]``.

    Example:
        >>> cos, sin = rotary_angles(torch.tensor([1]), d_k=4)
        >>> rotate_half_split(torch.tensor([[1.0, 1.0, 0.0, 0.0]]), cos, sin)
        tensor([[0.5403, 0.9999, 0.8415, 0.0100]])
    """
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)


def rope_interleaved(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """RoPE as in its paper (and GPT-J, and Meta's own Llama): neighbouring coordinates make a pair.

    The inner product of two turned vectors depends on the difference of their positions only.

    Args:
        x: queries or keys ``[..., N, d_k]``, d_k even.
        positions: integers that broadcast to ``[..., N]``: ``[N]``, or ``[B, 1, N]`` for x ``[B, h, N, d_k]``.
        base: of the angular frequencies.

    Returns:
        ``[..., N, d_k]`` in the dtype of ``x``; lengths are kept.

    Raises:
        ValueError: if ``positions`` does not broadcast to ``[..., N]``, or d_k is odd.
        TypeError: if ``positions`` are not integers.

    Example:
        >>> rope_interleaved(torch.tensor([[1.0, 0.0, 1.0, 0.0]]), torch.tensor([1]))
        tensor([[0.5403, 0.8415, 0.9999, 0.0100]])

    Reference: Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.4.2, equation 34.
    """
    return rotate_interleaved(x, *_angles_for(x, positions, base))


def rope_half_split(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """RoPE as in Hugging Face's Llama: coordinate i makes a pair with coordinate i + d_k/2.

    Args:
        x: queries or keys ``[..., N, d_k]``, d_k even.
        positions: integers that broadcast to ``[..., N]``: ``[N]``, or ``[B, 1, N]`` for x ``[B, h, N, d_k]``.
        base: of the angular frequencies.

    Returns:
        ``[..., N, d_k]`` in the dtype of ``x``; lengths are kept.

    Raises:
        ValueError: if ``positions`` does not broadcast to ``[..., N]``, or d_k is odd.
        TypeError: if ``positions`` are not integers.

    Example:
        >>> rope_half_split(torch.tensor([[1.0, 1.0, 0.0, 0.0]]), torch.tensor([1]))
        tensor([[0.5403, 0.9999, 0.8415, 0.0100]])

    Reference: Su et al. 2021, https://arxiv.org/abs/2104.09864; the layout is GPT-NeoX's.
    """
    return rotate_half_split(x, *_angles_for(x, positions, base))


def _angles_for(x: Tensor, positions: Tensor, base: float) -> tuple[Tensor, Tensor]:
    rows = x.shape[:-1]
    fits = positions.dim() <= len(rows) and all(p in (1, n) for p, n in zip(positions.shape[::-1], rows[::-1]))
    if not fits:
        raise ValueError(f"positions {list(positions.shape)} do not broadcast to {list(rows)}, the rows of x")
    return rotary_angles(positions, x.shape[-1], base, torch.promote_types(x.dtype, torch.float32))


def half_split_order(d_k: int, device: torch.device | str | None = None) -> Tensor:
    """The columns of the interleaved layout, in the order of the half-split one: 0, 2, 4, …, 1, 3, 5, …

    ``rope_half_split(x[..., order], p)`` equals ``rope_interleaved(x, p)[..., order]``; ``order.argsort()`` leads back.
    Applied to the output columns of W_Q and W_K, head by head, it turns a checkpoint of one layout into the other: the
    scores q·k do not notice an order that both share.

    Args:
        d_k: width of a head, even.
        device: of the result.

    Returns:
        A permutation of 0 … d_k − 1, integers ``[d_k]``.

    Raises:
        ValueError: if ``d_k`` is odd.

    Example:
        >>> half_split_order(6)
        tensor([0, 2, 4, 1, 3, 5])
    """
    if d_k % 2 != 0:
        raise ValueError(f"d_k must be even, got {d_k}")
    return torch.arange(d_k, device=device).unflatten(0, (-1, 2)).T.flatten()


# T5: no clock at all, a learned number for each distance, added to the score.


def relative_bucket(
    key_minus_query: Tensor, bidirectional: bool, n_buckets: int = 32, max_distance: int = 128
) -> Tensor:
    """The bucket that a distance falls into: each short distance has its own, long ones share, ever more of them.

    Half of the buckets (of each direction) are for single distances; the other half grow geometrically up to
    ``max_distance``, and everything farther falls into the last.

    Args:
        key_minus_query: distances, integers ``[...]``, negative for keys in the past.
        bidirectional: True: one half of the buckets is for the past, the other for the future (T5's encoder). False:
            all are for the past, and the future, which a causal mask hides, counts as distance 0 (its decoder).
        n_buckets: number of buckets.
        max_distance: from here on distances are not told apart.

    Returns:
        Bucket numbers 0 … n_buckets − 1, integers ``[...]``.

    Example:
        >>> relative_bucket(torch.tensor([0, -1, -7, -8, -9, -1000, 1]), bidirectional=True)
        tensor([ 0,  1,  7,  8,  8, 15, 17])

    Reference: Raffel et al. 2019, https://arxiv.org/abs/1910.10683, section 2.1.
    """
    if bidirectional:
        n_buckets = n_buckets // 2
        first = (key_minus_query > 0).long() * n_buckets  # the future's buckets follow the past's
        distance = key_minus_query.abs()
    else:
        first = torch.zeros_like(key_minus_query)
        distance = (-key_minus_query).clamp(min=0)
    n_single = n_buckets // 2
    # In float32, and in this order: trained weights expect a distance at the edge of a bucket where it was in training.
    steps = (distance.clamp(min=1).float() / n_single).log() / math.log(max_distance / n_single)  # 0 … 1 and beyond
    shared = n_single + (steps * (n_buckets - n_single)).long()
    return first + torch.where(distance < n_single, distance, shared.clamp(max=n_buckets - 1))


class RelativeBias(nn.Module):
    """T5's positions: a learned number for each head and bucket of distances, added to the scores.

    Args:
        n_heads: h.
        bidirectional: whether the future is told from the past (encoder) or never seen (decoder).
        n_buckets: number of buckets.
        max_distance: from here on distances are not told apart.

    Example:
        >>> bias = RelativeBias(n_heads=4, bidirectional=True)(torch.arange(3), torch.arange(5))
        >>> bias.shape  # the score_bias of course_lib.attention
        torch.Size([4, 3, 5])

    Reference: Raffel et al. 2019, https://arxiv.org/abs/1910.10683, section 2.1.
    """

    def __init__(self, n_heads: int, bidirectional: bool, n_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads).normal_(std=0.02))

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias of every key for every query.

        Args:
            query_positions: integers ``[..., N]``.
            key_positions: integers ``[..., M]``.

        Returns:
            ``[..., h, N, M]``: ``[h, N, M]`` for one-dimensional positions, which broadcasts over the batch.
        """
        distance = key_positions[..., None, :] - query_positions[..., :, None]  # [..., N, M]
        bucket = relative_bucket(distance, self.bidirectional, self.weight.shape[0], self.max_distance)
        return F.embedding(bucket, self.weight).movedim(-1, -3)  # [..., N, M, h] to [..., h, N, M]
