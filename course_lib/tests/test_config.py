import dataclasses

import pytest
import torch

from course_lib.config import PRESETS, TransformerConfig
from course_lib.summary import count_parameters as parameters
from course_lib.transformer import Encoder, LanguageModel, MaskedLanguageModel, TextEncoder, Transformer


def test_bert_has_the_published_size():
    with torch.device("meta"):
        # Counted by hand: embeddings V·d + P·d + S·d + 2d; layer 4(d² + d) + 2·d·f + f + d + 4d.
        bert = 12 * (4 * (768**2 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768) + (30522 + 512 + 2 + 2) * 768
        assert parameters(TextEncoder(TransformerConfig.preset("bert"))) == bert == 108_891_648
        head = 768**2 + 768 + 2 * 768 + 30522
        assert parameters(MaskedLanguageModel(TransformerConfig.preset("bert"))) == bert + head
        minilm = 6 * (4 * (384**2 + 384) + 2 * 384 * 1536 + 1536 + 384 + 4 * 384) + (30522 + 512 + 2 + 2) * 384
        assert parameters(TextEncoder(TransformerConfig.preset("minilm"))) == minilm


def size(model, name, **changes):
    with torch.device("meta"):
        return parameters(model(TransformerConfig.preset(name, **changes)))


def test_2017_base_model():
    """Attention without biases, feed-forward with, γ and β in each norm, one matrix for both embeddings and the output."""
    encoder_layer = 4 * 512**2 + 2 * 512 * 2048 + 2048 + 512 + 2 * 2 * 512
    decoder_layer = encoder_layer + 4 * 512**2 + 2 * 512
    assert (encoder_layer, decoder_layer) == (3_150_336, 4_199_936)
    stacks = 6 * (encoder_layer + decoder_layer)
    assert size(Transformer, "vaswani_base") == stacks + 37_000 * 512 == 63_045_632
    assert size(Transformer, "vaswani_base", attention_bias=True) == 63_045_632 + 36_864
    assert size(Transformer, "vaswani_base", tied=False) == 81_989_632
    assert size(Transformer, "vaswani_base", vocab_size=32_000) == 60_485_632
    # with biases everywhere and two final norms these are PyTorch's stacks, which have no embedding
    with torch.device("meta"):
        pytorch = parameters(torch.nn.Transformer())
    assert pytorch == stacks + 36_864 + 2 * 2 * 512 == 44_140_544


@pytest.mark.parametrize(
    ("name", "model", "published"),
    [
        ("gpt2", LanguageModel, 124_439_808),
        ("llama", LanguageModel, 6_738_415_616),
        ("t5", Transformer, 60_506_624),
        # 12 attentions with a bias on the keys, which Whisper leaves out: it changes no softmax
        ("whisper", Transformer, 37_760_640 + 12 * 384),
        # without the patches' projection, the class token, the positions and the classifier of ViT-B/16
        ("vit", Encoder, 86_567_656 - (768 * 768 + 768) - 768 - 197 * 768 - (768 * 1000 + 1000)),
    ],
)
def test_presets_have_the_published_sizes(name, model, published):
    assert size(model, name) == published


def test_changes_leave_the_preset_alone():
    assert TransformerConfig.preset("bert", n_layers=2).n_layers == 2
    assert PRESETS["bert"].n_layers == 12
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["bert"].n_layers = 3


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown preset 'bort'; choose one of vaswani_base, bert, minilm, gpt2"):
        TransformerConfig.preset("bort")
    with pytest.raises(TypeError, match="n_layer"):
        TransformerConfig.preset("bert", n_layer=2)
