"""The masked language model learns to fill gaps from both sides, which no causal model can."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from course_lib.config import TransformerConfig
from course_lib.masked_language_model import MaskedLanguageModel

V, N, MASK = 12, 8, 11


def sequences(n: int) -> torch.Tensor:
    """Two tokens in turn, a b a b …: the first token is known only from those after it."""
    pair = torch.stack([torch.randperm(V - 1)[:2] for _ in range(n)])
    return pair.repeat(1, N // 2)


def test_it_learns_to_fill_a_gap_at_the_front():
    torch.manual_seed(0)
    config = TransformerConfig.preset("bert", d_model=32, n_heads=4, n_layers=2, d_ff=64, vocab_size=V, max_positions=N)
    model = MaskedLanguageModel(replace(config, dropout=0.0, attention_dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        tokens = sequences(32)
        hidden = torch.rand(tokens.shape) < 0.15
        logits, _ = model(tokens.masked_fill(hidden, MASK))
        loss = F.cross_entropy(logits[hidden], tokens[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    tokens = sequences(200)
    first_hidden = tokens.clone()
    first_hidden[:, 0] = MASK
    with torch.no_grad():
        logits, _ = model(first_hidden)
    assert (logits[:, 0].argmax(-1) == tokens[:, 0]).double().mean() > 0.95
