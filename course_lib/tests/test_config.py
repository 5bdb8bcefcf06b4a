import dataclasses

import pytest

from course_lib.config import PRESETS, TransformerConfig
from course_lib.transformer import MaskedLanguageModel, TextEncoder


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_presets_have_the_published_sizes():
    import torch

    with torch.device("meta"):
        # Counted by hand: embeddings V·d + P·d + S·d + 2d; layer 4(d² + d) + 2·d·f + f + d + 4d.
        bert = 12 * (4 * (768**2 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768) + (30522 + 512 + 2 + 2) * 768
        assert parameters(TextEncoder(TransformerConfig.preset("bert"))) == bert == 108_891_648
        head = 768**2 + 768 + 2 * 768 + 30522
        assert parameters(MaskedLanguageModel(TransformerConfig.preset("bert"))) == bert + head
        minilm = 6 * (4 * (384**2 + 384) + 2 * 384 * 1536 + 1536 + 384 + 4 * 384) + (30522 + 512 + 2 + 2) * 384
        assert parameters(TextEncoder(TransformerConfig.preset("minilm"))) == minilm


def test_changes_leave_the_preset_alone():
    assert TransformerConfig.preset("bert", n_layers=2).n_layers == 2
    assert PRESETS["bert"].n_layers == 12
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["bert"].n_layers = 3


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown preset 'bort'; choose one of bert, minilm"):
        TransformerConfig.preset("bort")
    with pytest.raises(TypeError, match="n_layer"):
        TransformerConfig.preset("bert", n_layer=2)
