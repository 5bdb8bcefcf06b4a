import pytest
import torch

from course_lib.cache import KVCache, LayerCache
from course_lib.config import TransformerConfig
from course_lib.masks import padding_mask
from course_lib.tests.compare import randomise
from course_lib.transformer import LanguageModel, Transformer

POSITIONS = ("learned", "sinusoidal", "rotary", "relative")
TOKENS = torch.tensor([[4, 7, 9, 1, 5, 5, 2], [3, 8, 8, 6, 1, 2, 9]])


def config(**changes):
    options = {"vocab_size": 30, "d_model": 12, "n_heads": 4, "n_layers": 3, "d_ff": 20, "max_positions": 12}
    return TransformerConfig(**(options | {"placement": "pre", "d_head": 4, "n_kv_heads": 2} | changes))


def make(kind=LanguageModel, dtype=torch.float64, device="cpu", **changes):
    return randomise(kind(config(**changes))).to(device, dtype).eval()


@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("chunks", [[1] * 7, [5, 1, 1], [2, 3, 2], [7]])
def test_cached_equals_uncached(positions, chunks, backend, device):
    """Prompts read in chunks: each chunk hides its own future, and goes on where the last one ended."""
    model, tokens = make(positions=positions, backend=backend, device=device), TOKENS.to(device)
    expected, _ = model(tokens)
    cache = model.new_cache(batch=2, length=7)
    parts = [model(part, cache=cache)[0] for part in tokens.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), expected)
    assert cache.length == 7


@pytest.mark.parametrize("positions", POSITIONS)
def test_left_padding(positions, device):
    """Sequences of different lengths end together; each gets the logits that it has alone."""
    model, tokens = make(positions=positions, device=device), TOKENS.clone().to(device)
    tokens[0, :3] = 0
    mask, places = padding_mask(tokens), (tokens != 0).cumsum(-1) - 1
    places = places.clamp(min=0)
    cache, parts = model.new_cache(batch=2, length=10), []
    for start, end in ((0, 4), (4, 6), (6, 7)):
        logits, _ = model(tokens[:, start:end], mask[..., :end], positions=places[:, start:end], cache=cache)
        parts.append(logits)
    cached = torch.cat(parts, 1)
    torch.testing.assert_close(cached[:1, 3:], model(tokens[:1, 3:])[0])
    torch.testing.assert_close(cached[1:], model(tokens[1:])[0])


def test_maps_of_a_chunk():
    model = make()
    _, expected = model(TOKENS, return_weights=True)
    cache = model.new_cache(2, 7)
    model(TOKENS[:, :4], cache=cache)
    _, weights = model(TOKENS[:, 4:], cache=cache, return_weights=True)
    torch.testing.assert_close(weights, expected[..., 4:, :])


@pytest.mark.parametrize("positions", POSITIONS)
def test_decoder_keeps_the_memory(positions, device, monkeypatch):
    model, target = make(Transformer, positions=positions, device=device), TOKENS.to(device)
    source = target.flip(1)[:, :5]
    memory, _ = model.encode(source)
    expected, _ = model.decode(target, memory)
    cache = model.new_cache(2, 7)
    first, _ = model.decode(target[:, :2], memory, cache=cache)
    attention = model.decoder.layers[1].cross_attention
    monkeypatch.setattr(attention.w_k, "forward", lambda x: pytest.fail("the memory is projected again"))
    parts = [first] + [model.decode(part, memory, cache=cache)[0] for part in target[:, 2:].split([1, 3, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), expected)


def test_layers_have_caches_of_their_own():
    """The trap: one cache for all layers mixes their keys."""
    model = make()
    cache = model.new_cache(2, 7)
    model(TOKENS, cache=cache)
    for i, layer in enumerate(cache.layers):
        assert layer.length == 7
        assert not any(torch.allclose(layer.k, other.k) for other in cache.layers[i + 1 :])
    shared = KVCache([LayerCache(2, 2, 21, 4, torch.float64)] * 3)
    mixed = [model(part, cache=shared)[0] for part in TOKENS[:, :3].split([2, 1], dim=1)][1]
    assert not torch.allclose(mixed, model(TOKENS[:, :3])[0][:, 2:])


def test_positions_go_on():
    """The trap: a position that starts at 0 again with every call."""
    model = make()
    cache = model.new_cache(2, 7)
    model(TOKENS[:, :4], cache=cache)
    wrong, _ = model(TOKENS[:, 4:], positions=torch.arange(3), cache=cache)
    assert (wrong - model(TOKENS)[0][:, 4:]).abs().max() > 0.1


def test_overflow_and_holes_are_refused():
    model = make()
    cache = model.new_cache(batch=2, length=5)
    model(TOKENS[:, :4], cache=cache)
    with pytest.raises(ValueError, match="room for 5 tokens: 6 are too many"):
        model(TOKENS[:, :2], cache=cache)
    model(TOKENS[:, 4:5], cache=cache)
    layer, new = LayerCache(1, 1, 4, 2), torch.ones(1, 1, 1, 2)
    with pytest.raises(ValueError, match="position 1 would leave a hole: the cache holds 0 tokens"):
        layer.update(1, new, new)
    with pytest.raises(ValueError, match="12 positions"):
        model(torch.ones(1, 13, dtype=torch.long), cache=model.new_cache(1, 20))


def test_memory_is_set_aside_once():
    layer = LayerCache(2, 3, 5, 4)
    address = layer.k.data_ptr()
    for i in range(5):
        k, v = layer.update(i, torch.full((2, 3, 1, 4), float(i)), torch.full((2, 3, 1, 4), -float(i)))
        assert k.data_ptr() == layer.k.data_ptr() == address
    expected = torch.arange(5.0)[:, None].expand(2, 3, 5, 4)
    assert torch.equal(k, expected) and torch.equal(v, -expected)


def test_an_earlier_position_takes_back():
    model = make()
    cache = model.new_cache(2, 7)
    model(TOKENS[:, :3], cache=cache)
    model(TOKENS[:, :3] + 7, cache=cache)  # a guess that turns out wrong
    for layer in cache.layers:
        layer.length = 3
    torch.testing.assert_close(model(TOKENS[:, 3:], cache=cache)[0], model(TOKENS)[0][:, 3:])
    layer = LayerCache(1, 1, 4, 1)
    layer.update(0, torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1))
    k, _ = layer.update(1, torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    assert k.flatten().tolist() == [0, 1] and layer.length == 2


def test_reorder():
    model = make()
    cache = model.new_cache(2, 7)
    model(TOKENS[:, :4], cache=cache)
    cache.reorder(torch.tensor([1, 1]))
    last, _ = model(TOKENS[:, 4:], cache=cache)
    joined = torch.cat((TOKENS[[1, 1], :4], TOKENS[:, 4:]), 1)
    torch.testing.assert_close(last, model(joined)[0][:, 4:])


def test_reorder_takes_the_memory_along():
    model = make(Transformer)
    memory, _ = model.encode(TOKENS)
    cache = model.new_cache(2, 7)
    model.decode(TOKENS[:, :4], memory, cache=cache)
    cache.reorder(torch.tensor([1, 0]))
    swapped = TOKENS.flip(0)
    last, _ = model.decode(swapped[:, 4:], memory.flip(0), cache=cache)
    torch.testing.assert_close(last, model.decode(swapped, memory.flip(0))[0][:, 4:])


def test_tiled_attention_reads_a_cache_too():
    model, tokens = make(positions="rotary", backend="tiled"), TOKENS.clone()
    tokens[0, :3] = 0
    mask, places = padding_mask(tokens), ((tokens != 0).cumsum(-1) - 1).clamp(min=0)
    cache = model.new_cache(2, 7)
    parts = []
    for start, end in ((0, 4), (4, 6), (6, 7)):
        part = tokens[:, start:end]
        parts.append(model(part, mask[..., :end], positions=places[:, start:end], cache=cache)[0])
    explicit = make(positions="rotary")
    explicit.load_state_dict(model.state_dict())
    expected, _ = explicit(tokens, mask, positions=places)
    torch.testing.assert_close(torch.cat(parts, 1)[0, 3:], expected[0, 3:])
    torch.testing.assert_close(torch.cat(parts, 1)[1], expected[1])


@pytest.mark.parametrize(("n_heads", "bytes_per_token"), [(32, 2**19), (8, 2**17)])
def test_size_of_llama_2(n_heads, bytes_per_token):
    """0.5 MiB for each token in half precision, 2.1 GB for 4096; with 8 of 32 key/value heads a quarter."""
    options = TransformerConfig.preset("llama", n_kv_heads=n_heads)
    cache = KVCache.for_model(options, batch=1, length=4096, dtype=torch.float16, device="meta")
    assert cache.bytes() == 4096 * bytes_per_token


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_has_the_dtype_of_the_model(dtype, device):
    model = make(dtype=dtype, device=device)
    cache = model.new_cache(2, 7)
    assert cache.layers[0].k.dtype == dtype
    whole, _ = model(TOKENS.to(device))
    model(TOKENS[:, :6].to(device), cache=cache)
    last, _ = model(TOKENS[:, 6:].to(device), cache=cache)
    tolerance = 5e-6 if dtype == torch.float32 else 0.2
    torch.testing.assert_close(last / whole.abs().max(), whole[:, 6:] / whole.abs().max(), atol=tolerance, rtol=0)
