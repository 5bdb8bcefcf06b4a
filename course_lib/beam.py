"""Beam search: several sequences are written side by side, and the likeliest whole sequence is kept."""

import math

import torch
from torch import Tensor

from course_lib.generation import Session
from course_lib.language_model import LanguageModel
from course_lib.transformer import Transformer


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """``x[b, index[b, i]]``: beams ``[B, K, …]`` in the order ``[B, k]``."""
    rows = torch.arange(x.shape[0], device=x.device)[:, None]
    return x[rows, index]


@torch.no_grad()
def beam_search(
    model: LanguageModel | Transformer,
    tokens: Tensor,
    max_new_tokens: int,
    *,
    n_beams: int,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    mask: Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int = 0,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    cached: bool = True,
) -> tuple[Tensor, Tensor]:
    """The sequence with the largest Σ log p / lengthᵃ that a search with ``n_beams`` beams finds.

    ``length`` counts the written tokens, the end token too; a is the ``length_penalty``: 0 favours short sequences, 1
    takes the mean log-probability of a token. Each step looks at the best 2 · ``n_beams`` continuations of all beams:
    those that end, and are among the first ``n_beams``, are kept as finished; the best others go on. This is the
    search of ``transformers`` (with one end token), and finds the same sequences.

    Args:
        model, tokens, max_new_tokens, mask, eos_id, pad_id, source, source_mask, cached: as in
            :func:`course_lib.generation.generate`.
        n_beams: number of beams; 1 is the greedy choice.
        length_penalty: a.
        early_stopping: True: a search ends with its ``n_beams``-th finished sequence. False: when the best running
            one, at its present length, is no better than the worst of ``n_beams`` finished ones.

    Returns:
        The best sequences ``[B, N + n]``, padded after their end, and their scores ``[B]``.

    Raises:
        ValueError: if ``n_beams`` is below 1, or as :func:`course_lib.generation.generate`.

    Example:
        >>> model = LanguageModel(TransformerConfig.preset("gpt2", n_layers=1, vocab_size=50)).eval()
        >>> sequences, scores = beam_search(model, torch.tensor([[5, 7]]), 4, n_beams=3)
        >>> sequences.shape, scores.shape
        (torch.Size([1, 6]), torch.Size([1]))

    Reference: Wu et al. 2016, https://arxiv.org/abs/1609.08144, section 7; the 2017 model used 4 beams and their length
    penalty ((5 + length)/6)^0.6.
    """
    if n_beams < 1:
        raise ValueError(f"n_beams must be at least 1, got {n_beams}")
    batch, n = tokens.shape
    device = tokens.device

    def repeat(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.repeat_interleave(n_beams, dim=0)  # the beams of a prompt side by side

    sequences = tokens[:, None].expand(batch, n_beams, n)  # [B, K, n] running
    flat = sequences.reshape(batch * n_beams, n)
    session = Session(model, flat, n + max_new_tokens, repeat(mask), repeat(source), repeat(source_mask), cached)
    # All beams start equal: only the first counts, else every step would find the same sequence K times.
    scores = torch.full((batch, n_beams), -math.inf, device=device)  # [B, K] Σ log p
    scores[:, 0] = 0
    finished = torch.full((batch, n_beams, n + max_new_tokens), pad_id, device=device)  # [B, K, length], best first
    finished_scores = torch.full((batch, n_beams), -math.inf, device=device)
    lengths = torch.zeros((batch, n_beams), dtype=torch.long, device=device)  # of what was written
    searching = torch.ones(batch, dtype=torch.bool, device=device)

    for step in range(1, max_new_tokens + 1):
        log_p = session.next_logits(sequences.flatten(0, 1)).float().log_softmax(-1).unflatten(0, (batch, n_beams))
        totals = (scores[:, :, None] + log_p).flatten(1)  # [B, K · V]
        totals, index = totals.topk(min(2 * n_beams, totals.shape[1]))  # [B, 2K], best first
        beam, chosen = index // log_p.shape[-1], index % log_p.shape[-1]
        candidates = torch.cat((_pick(sequences, beam), chosen[:, :, None]), dim=2)  # [B, 2K, n + step]

        last = step == max_new_tokens
        ends = torch.full_like(chosen, last, dtype=torch.bool) if eos_id is None else (chosen == eos_id) | last
        counted = ends & searching[:, None]
        counted[:, n_beams:] = False
        merged = (totals / step**length_penalty).masked_fill(~counted, -math.inf)
        padded = torch.nn.functional.pad(candidates, (0, max_new_tokens - step), value=pad_id)
        finished_scores, best = torch.cat((finished_scores, merged), dim=1).topk(n_beams)
        finished = _pick(torch.cat((finished, padded), dim=1), best)
        lengths = _pick(torch.cat((lengths, torch.full_like(chosen, step)), dim=1), best)
        if last:
            break

        scores, goes_on = totals.masked_fill(ends, -math.inf).topk(n_beams)
        sequences, beam = _pick(candidates, goes_on), _pick(beam, goes_on)
        worst = finished_scores[:, -1]  # −inf until there are n_beams
        improvable = (worst == -math.inf) if early_stopping else scores[:, 0] / step**length_penalty > worst
        searching = searching & improvable
        if not bool(searching.any()):
            break
        session.reorder((beam + n_beams * torch.arange(batch, device=device)[:, None]).flatten())

    return finished[:, 0, : n + int(lengths[:, 0].max())], finished_scores[:, 0]
