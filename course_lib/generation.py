"""Writing text, one token at a time: the most likely token, or a drawn one. Beam search is in :mod:`course_lib.beam`.

A model says how likely each token is *next*; which one to take is decided here, from its logits. :func:`generate`
takes a :class:`course_lib.language_model.LanguageModel` with a prompt, or a
:class:`course_lib.transformer.Transformer` with the start of the target and a source. Prompts of different lengths are
padded on the left, so that all end at the same place.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.language_model import LanguageModel
from course_lib.transformer import Transformer

Choose = Callable[[Tensor], Tensor]  # logits [B, V] to token ids [B]


def greedy(logits: Tensor) -> Tensor:
    """The most likely token: logits ``[B, V]`` to token ids ``[B]``.

    Example:
        >>> greedy(torch.tensor([[0.1, 0.7, 0.2]]))
        tensor([1])
    """
    return logits.argmax(-1)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """The ``k`` largest logits (and those equal to the last of them); the others become −inf.

    Args:
        logits: ``[..., V]``.
        k: at least 1.

    Returns:
        Logits ``[..., V]`` in the same dtype.

    Raises:
        ValueError: if ``k`` is below 1.

    Example:
        >>> keep_top_k(torch.tensor([1.0, 3.0, 2.0]), 2)
        tensor([-inf, 3., 2.])

    Reference: Fan et al. 2018, https://arxiv.org/abs/1805.04833, section 5.4.
    """
    if k < 1:
        raise ValueError(f"top_k must be at least 1, got {k}")
    smallest = logits.topk(min(k, logits.shape[-1])).values[..., -1:]  # [..., 1]
    return logits.masked_fill(logits < smallest, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """The fewest tokens that together have probability ``p`` or more; the logits of the others become −inf.

    Args:
        logits: ``[..., V]``.
        p: above 0, at most 1.

    Returns:
        Logits ``[..., V]`` in the same dtype.

    Raises:
        ValueError: if ``p`` is out of range.

    Example:
        >>> keep_top_p(torch.tensor([0.5, 0.3, 0.2]).log(), 0.6).exp()
        tensor([0.5000, 0.3000, 0.0000])

    Reference: Holtzman et al. 2019 (nucleus sampling), https://arxiv.org/abs/1904.09751, section 3.1.
    """
    if not 0 < p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {p}")
    ordered, order = logits.sort(-1, descending=True)
    probabilities = ordered.softmax(-1)
    better = probabilities.cumsum(-1) - probabilities  # probability of all tokens before this one: 0 for the first
    surplus = better >= p  # in order of probability; scatter puts each entry back to its token
    return logits.masked_fill(surplus.scatter(-1, order, surplus), -math.inf)


def sampler(
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Choose:
    """Draws from softmax(logits / temperature), of which first ``top_k``, then ``top_p`` leave only the likely part.

    Args:
        temperature: above 0; below 1 the likely becomes likelier, above 1 the draw more even.
        top_k: as in :func:`keep_top_k`; all tokens if not given.
        top_p: as in :func:`keep_top_p`; all tokens if not given.
        generator: source of random numbers, for a repeatable draw.

    Returns:
        A function from logits ``[B, V]`` to token ids ``[B]``.

    Raises:
        ValueError: if the temperature is not above 0; if ``top_k`` or ``top_p`` is out of range, at the first draw.

    Example:
        >>> choose = sampler(temperature=0.7, top_k=2)
        >>> int(choose(torch.tensor([[0.0, 5.0, 5.0]]))) in (1, 2)
        True
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, got {temperature}; for the most likely token use greedy")

    def choose(logits: Tensor) -> Tensor:
        logits = logits.float() / temperature
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        return torch.multinomial(logits.softmax(-1), num_samples=1, generator=generator)[:, 0]

    return choose


class Session:
    """One run of a model over sequences that grow: it remembers the source, the padding and the cache.

    Args:
        model: the model.
        tokens: prompts ``[B, N]`` (the start of the targets, if the model has an encoder).
        length: the longest that the sequences will get.
        mask: padding of the prompts ``[B, 1, 1, N]``, True = a real token; padding stands on the left.
        source, source_mask: what the encoder reads, and its padding.
        cached: whether earlier keys and values are kept; without, every step reads everything again.

    Raises:
        ValueError: if a prompt ends in padding, or source and model do not fit each other.
    """

    def __init__(
        self,
        model: LanguageModel | Transformer,
        tokens: Tensor,
        length: int,
        mask: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        cached: bool = True,
    ) -> None:
        batch, n = tokens.shape
        if isinstance(model, Transformer) != (source is not None):
            raise ValueError("a Transformer needs a source, a LanguageModel has none")
        self.mask: Tensor | None = None
        self.positions: Tensor | None = None
        if mask is not None:
            if not bool(mask[..., -1].all()):
                raise ValueError("a prompt ends in padding: pad on the left, so that all end where writing begins")
            grown = torch.ones(batch, 1, 1, length, dtype=torch.bool, device=tokens.device)  # what is written is real
            grown[..., :n] = mask
            self.mask = grown
            self.positions = (grown[:, 0, 0].cumsum(-1) - 1).clamp(min=0)  # [B, length]: the first real token is at 0
        self.model = model
        self.cache = model.new_cache(batch, length) if cached else None
        self.source_mask = source_mask
        self.memory: Tensor | None = None
        if isinstance(model, Transformer) and source is not None:
            self.memory, _ = model.encode(source, source_mask)

    def next_logits(self, tokens: Tensor) -> Tensor:
        """Logits of the next token ``[B, V]``, given all tokens so far ``[B, n]``, of which the cache holds most."""
        start, end = 0 if self.cache is None else self.cache.length, tokens.shape[1]
        mask = None if self.mask is None else self.mask[..., :end]
        positions = None if self.positions is None else self.positions[:, start:end]
        if isinstance(self.model, Transformer):
            assert self.memory is not None
            logits, _ = self.model.decode(
                tokens[:, start:],
                self.memory,
                mask,
                self.source_mask,
                positions=positions,
                cache=self.cache,
                last_only=True,
            )
        else:
            logits, _ = self.model(tokens[:, start:], mask, positions=positions, cache=self.cache, last_only=True)
        return logits[:, -1]

    def reorder(self, rows: Tensor) -> None:
        """Sequence i goes on from sequence ``rows[i]``, which stems from the same prompt; integers ``[B]``."""
        if self.cache is not None:
            self.cache.reorder(rows)


@torch.no_grad()
def generate(
    model: LanguageModel | Transformer,
    tokens: Tensor,
    max_new_tokens: int,
    *,
    choose: Choose = greedy,
    mask: Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int = 0,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    cached: bool = True,
) -> Tensor:
    """Let the model write on.

    Args:
        model: in evaluation mode.
        tokens: prompts ``[B, N]``, N ≥ 1, padded on the left; for a Transformer the start token of each target.
        max_new_tokens: most tokens to write.
        choose: takes the next token: :func:`greedy`, or what :func:`sampler` returns.
        mask: padding of the prompts ``[B, 1, 1, N]`` (:func:`course_lib.masks.padding_mask`), True = a real token.
        eos_id: the token that ends a text; after it a sequence is padded, and all being ended writing stops.
        pad_id: what follows the end.
        source, source_mask: what a Transformer's encoder reads, and its padding.
        cached: whether earlier keys and values are kept. The result is the same without, only slower.

    Returns:
        Prompts and what was written, ``[B, N + n]`` with n ≤ ``max_new_tokens``.

    Raises:
        ValueError: if a prompt ends in padding, source and model do not fit, or the model has too few positions.

    Example:
        >>> model = LanguageModel(TransformerConfig.preset("gpt2", n_layers=1, vocab_size=50)).eval()
        >>> generate(model, torch.tensor([[5, 7]]), max_new_tokens=4).shape
        torch.Size([1, 6])
    """
    session = Session(model, tokens, tokens.shape[1] + max_new_tokens, mask, source, source_mask, cached)
    running = torch.ones(tokens.shape[0], dtype=torch.bool, device=tokens.device)
    for _ in range(max_new_tokens):
        chosen = choose(session.next_logits(tokens)).masked_fill(~running, pad_id)
        tokens = torch.cat((tokens, chosen[:, None]), dim=1)
        if eos_id is not None:
            running = running & (chosen != eos_id)
            if not bool(running.any()):
                break
    return tokens
