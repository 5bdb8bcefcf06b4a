"""The KV cache: keys and values of the tokens read so far, so that each new token is computed once.

A decoder's token t attends to tokens 0 … t, whose keys and values do not change any more. With them kept, one step costs
one token, not t: its attention to n tokens takes O(n) with the cache, and O(n²) without. What is kept is
2 · layers · h_kv · d_head numbers for each token.
"""

import torch
from torch import Tensor

from course_lib.config import TransformerConfig


class LayerCache:
    """Keys and values of one layer, in memory that is set aside once. Each layer has its own.

    Args:
        batch: B.
        n_kv_heads: number of key/value heads.
        length: most tokens it can hold, padding counted.
        d_head: width of a head.
        dtype: of keys and values.
        device: where they are.

    Attributes:
        length: number of tokens held.
        memory: in an encoder–decoder, keys and values of the encoder's output, each ``[B, h_kv, M, d_head]``.

    Example:
        >>> cache = LayerCache(batch=1, n_kv_heads=2, length=8, d_head=4)
        >>> k, v = cache.update(0, torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4))
        >>> k, v = cache.update(5, torch.randn(1, 2, 1, 4), torch.randn(1, 2, 1, 4))
        >>> k.shape, cache.length
        (torch.Size([1, 2, 6, 4]), 6)
    """

    def __init__(
        self,
        batch: int,
        n_kv_heads: int,
        length: int,
        d_head: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.k = torch.zeros(batch, n_kv_heads, length, d_head, dtype=dtype, device=device)
        self.v = torch.zeros_like(self.k)
        self.length = 0
        self.memory: tuple[Tensor, Tensor] | None = None

    def update(self, position: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write new tokens at ``position`` and return all tokens up to the last one written.

        Args:
            position: place of the first new token in the padded sequence. At :attr:`length` it appends; before it, it
                takes back what was written from there on. It is not the token's rotary position: of a left-padded
                sequence the padding is counted here.
            k: keys of the new tokens ``[B, h_kv, N, d_head]``.
            v: their values, likewise.

        Returns:
            Keys and values ``[B, h_kv, position + N, d_head]``: views that the next update may write into.

        Raises:
            ValueError: if the tokens do not fit, or would leave a hole.
        """
        end, room = position + k.shape[2], self.k.shape[2]
        if end > room:
            raise ValueError(f"the cache has room for {room} tokens: {end} are too many")
        if not 0 <= position <= self.length:
            raise ValueError(f"position {position} would leave a hole: the cache holds {self.length} tokens")
        self.k[:, :, position:end] = k
        self.v[:, :, position:end] = v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]

    def reorder(self, rows: Tensor) -> None:
        """Let sequence i go on from what sequence ``rows[i]`` has read (beam search); ``rows`` are integers ``[B]``."""
        self.k[:, :, : self.length] = self.k[rows, :, : self.length]
        self.v[:, :, : self.length] = self.v[rows, :, : self.length]
        if self.memory is not None:
            self.memory = (self.memory[0][rows], self.memory[1][rows])


class KVCache:
    """One :class:`LayerCache` for each layer.

    Args:
        layers: the layers' caches.

    Example:
        >>> config = TransformerConfig.preset("llama", d_model=8, n_heads=4, n_layers=3, n_kv_heads=2)
        >>> cache = KVCache.for_model(config, batch=1, length=100)
        >>> len(cache.layers), cache.bytes()  # 2 · 3 layers · 2 heads · 2 numbers · 100 tokens · 4 bytes
        (3, 9600)

    Reference: Pope et al. 2022, https://arxiv.org/abs/2211.05102, section 3.3.
    """

    def __init__(self, layers: list[LayerCache]) -> None:
        self.layers = layers

    @classmethod
    def for_model(
        cls,
        config: TransformerConfig,
        batch: int,
        length: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> "KVCache":
        """An empty cache for the decoder of a model with this ``config``."""
        n_layers = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
        n_kv_heads = config.n_heads if config.n_kv_heads is None else config.n_kv_heads
        d_head = config.d_model // config.n_heads if config.d_head is None else config.d_head
        return cls([LayerCache(batch, n_kv_heads, length, d_head, dtype, device) for _ in range(n_layers)])

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return self.layers[0].length

    def reorder(self, rows: Tensor) -> None:
        """Let sequence i go on from what sequence ``rows[i]`` has read; ``rows`` are integers ``[B]``."""
        for layer in self.layers:
            layer.reorder(rows)

    def bytes(self) -> int:
        """What the keys and values take, empty places counted, an encoder's memory not."""
        return sum(x.numel() * x.element_size() for layer in self.layers for x in (layer.k, layer.v))
