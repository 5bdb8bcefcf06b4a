import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import MultiHeadAttention, scaled_dot_product_attention
from course_lib.positions import (
    LearnedPositions,
    RelativeBias,
    angular_frequencies,
    half_split_order,
    relative_bucket,
    rope_half_split,
    rope_interleaved,
    rotary_angles,
    rotate_half_split,
    shift_matrix,
    sinusoidal_positions,
)
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise

ROPES = {"interleaved": rope_interleaved, "half_split": rope_half_split}
B, H, N, D_K = 2, 3, 5, 8
FLOAT64 = torch.float64


# clocks


def test_frequencies_one_by_one():
    for d, base in ((2, 10000.0), (6, 10000.0), (12, 500.0)):
        expected = [math.exp(-2 * i / d * math.log(base)) for i in range(d // 2)]
        torch.testing.assert_close(angular_frequencies(d, base, FLOAT64), torch.tensor(expected, dtype=FLOAT64))


def test_table_entry_by_entry():
    d, base = 6, 700.0
    table = sinusoidal_positions(40, d, base, FLOAT64)
    for position in range(40):
        for i in range(d // 2):
            angle = position / base ** (2 * i / d)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_float64_rounded_once(dtype, device):
    """float32 angles would be off by 2⁻²⁴ × 9000, bfloat16 ones by 16 radians."""
    for make in (
        lambda dtype, **kw: sinusoidal_positions(9000, 10, dtype=dtype, **kw)[-50:],
        lambda dtype, **kw: shift_matrix(-8765, 10, dtype=dtype, **kw),
        lambda dtype, **kw: angular_frequencies(10, dtype=dtype, **kw),
    ):
        made = make(dtype, device=device)
        assert made.dtype == dtype and made.device.type == device
        assert torch.equal(made, make(FLOAT64, device=device).to(dtype))


def test_trap_positions_in_bfloat16():
    """4096 positions collapse to 769 numbers in bfloat16; their rows of the table stay apart."""
    positions = torch.arange(4096)
    assert positions.bfloat16().unique().numel() == 769
    assert sinusoidal_positions(4096, 128, dtype=torch.bfloat16).unique(dim=0).shape[0] == 4096
    x = torch.ones(4096, 128, dtype=torch.bfloat16)
    for rope in ROPES.values():
        assert rope(x, positions).unique(dim=0).shape[0] == 4096
        with pytest.raises(TypeError, match="integers"):
            rope(x, positions.bfloat16())
    with pytest.raises(TypeError, match="float32 or float64"):
        rotary_angles(positions, 128, dtype=torch.bfloat16)


@settings(deadline=None, max_examples=40)
@given(st.integers(-3000, 3000), st.integers(-3000, 3000), st.integers(1, 6), st.sampled_from([10.0, 10000.0]))
def test_shift_matrix_properties(k, m, pairs, base):
    d = 2 * pairs
    M_k, M_m = shift_matrix(k, d, base, FLOAT64), shift_matrix(m, d, base, FLOAT64)
    close = {"atol": 1e-11, "rtol": 0}
    table = sinusoidal_positions(6100, d, base, FLOAT64)
    torch.testing.assert_close(table[3000:3100] @ M_k, table[3000 + k : 3100 + k], **close)  # M_k does not know pos
    torch.testing.assert_close(M_k @ M_m, shift_matrix(k + m, d, base, FLOAT64), **close)
    torch.testing.assert_close(M_k @ M_k.T, torch.eye(d, dtype=FLOAT64), **close)
    torch.testing.assert_close(M_k.T, shift_matrix(-k, d, base, FLOAT64), **close)
    assert torch.equal(M_k != 0, (M_k != 0) & torch.block_diag(*torch.ones(pairs, 2, 2)).bool())


def test_inner_product_of_positions_depends_on_the_offset_only():
    table = sinusoidal_positions(200, 16, dtype=FLOAT64)
    scores = table @ table.T
    offsets = torch.arange(200)[None, :] - torch.arange(200)[:, None]
    expected = (offsets[..., None] * angular_frequencies(16, dtype=FLOAT64)).cos().sum(-1)
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("make", [angular_frequencies, half_split_order, lambda d: sinusoidal_positions(3, d)])
def test_odd_width_is_refused(make):
    with pytest.raises(ValueError, match="even"):
        make(5)


# learned positions


def test_learned_positions():
    module = randomise(LearnedPositions(7, 4)).double()
    positions = torch.tensor([[3, 0, 3], [6, 1, 2]])
    rows = module(positions)
    assert torch.equal(rows, torch.stack([torch.stack([module.weight[p] for p in row]) for row in positions.tolist()]))
    weight = torch.randn_like(rows)
    (gradient,) = gradients(rows, weight, [module.weight])
    torch.testing.assert_close(gradient[3], weight[0, 0] + weight[0, 2])
    assert (gradient[[4, 5]] == 0).all()


@pytest.mark.parametrize("positions", [[0, 7], [-1, 2]])
def test_positions_that_were_not_learned_are_refused(positions):
    with pytest.raises(ValueError, match=r"learned 0 … 6"):
        LearnedPositions(7, 4)(torch.tensor(positions))


# RoPE


def by_hand(name, x, positions, base):
    """The rotation of each pair by complex numbers, in float64."""
    x = x.double()
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if name == "interleaved" else (x[..., :half], x[..., half:])
    frequencies = base ** (-2 * torch.arange(half, device=x.device, dtype=FLOAT64) / x.shape[-1])
    turned = torch.complex(a, b) * torch.exp(1j * positions[..., None] * frequencies)
    pairs = (turned.real, turned.imag)
    return torch.stack(pairs, dim=-1).flatten(-2) if name == "interleaved" else torch.cat(pairs, dim=-1)


POSITIONS = {
    "from zero": torch.arange(N),
    "anywhere, with gaps": torch.tensor([4000, 7, 4095, 0, 300]),
    "negative": torch.tensor([-3, -2, -1, 0, 1]),
    "each sequence its own": torch.tensor([[0, 1, 2, 3, 4], [900, 901, 1000, 5, 5]])[:, None, :],
    "one for all": torch.tensor([17]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_rope_values_and_gradients(name, base, positions, dtype, device):
    positions = POSITIONS[positions].to(device)
    x = torch.randn(B, H, N, D_K, device=device).to(dtype).requires_grad_()
    weight = torch.randn(B, H, N, D_K, device=device, dtype=dtype)
    exact = x.detach().double().requires_grad_()
    mine, truth = ROPES[name](x, positions, base), by_hand(name, exact, positions, base)
    pairs = [(mine, truth), (*gradients(mine, weight, [x]), *gradients(truth, weight.double(), [exact]))]
    for y, expected in pairs:
        assert y.dtype == dtype
        if dtype in HALF:  # no worse than rounding the exact result, but for its floor
            assert_as_good(y, expected.to(dtype), expected)
        else:  # 2⁻²² × the angle is rounding
            rounding = {torch.float64: 1e-11, torch.float32: 2**-22 * 4096 * 4}[dtype]
            torch.testing.assert_close(y.double(), expected, atol=rounding, rtol=0)
            if positions.max() < 20:
                assert_close(y, expected.to(dtype), dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_half_split_agrees_with_the_llama_of_transformers(dtype):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    base = 5000.0
    config = LlamaConfig(
        hidden_size=H * D_K, num_attention_heads=H, rope_parameters={"rope_type": "default", "rope_theta": base}
    )
    rotary = llama.LlamaRotaryEmbedding(config)
    positions = torch.tensor([[0, 1, 2, 3, 4], [50, 51, 99, 7, 7]])
    q, k = torch.randn(2, B, H, N, D_K, dtype=dtype).unbind()
    cos, sin = rotary(q, positions)  # float32 angles even for float64
    for mine, theirs in zip((q, k), llama.apply_rotary_pos_emb(q, k, cos, sin)):
        torch.testing.assert_close(rope_half_split(mine, positions[:, None], base), theirs, atol=5e-5, rtol=0)
    short = (cos[..., : D_K // 2][:, None], sin[..., : D_K // 2][:, None])
    assert_close(rotate_half_split(q, *short), llama.apply_rotary_pos_emb(q, k, cos, sin)[0], dtype)


def test_interleaved_agrees_with_the_gptj_of_transformers():
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    sin, cos = gptj.create_sinusoidal_positions(N, D_K).chunk(2, dim=-1)
    x = torch.randn(B, H, N, D_K)
    theirs = gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    assert_close(rope_interleaved(x, torch.arange(N)), theirs, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_layouts_differ_by_a_permutation(dtype, device):
    x = torch.randn(B, H, N, D_K, device=device, dtype=dtype)
    positions = torch.arange(N, device=device) + 11
    order = half_split_order(D_K, device)
    interleaved = rope_interleaved(x, positions)
    assert torch.equal(rope_half_split(x[..., order], positions), interleaved[..., order])
    assert torch.equal(rope_half_split(x[..., order], positions)[..., order.argsort()], interleaved)
    assert not torch.allclose(rope_half_split(x, positions), interleaved)


def test_permuted_projections_turn_one_layout_into_the_other():
    """What converting a checkpoint does: the scores are the same, head by head."""
    attention = randomise(MultiHeadAttention(H * D_K, H)).double()
    order = half_split_order(D_K)
    x, positions = torch.randn(B, N, H * D_K, dtype=FLOAT64), torch.arange(N)
    scores = []
    for rope in ROPES.values():
        weights = [w.weight.unflatten(0, (H, D_K)) for w in (attention.w_q, attention.w_k)]  # rows are output columns
        if rope is rope_half_split:
            weights = [w[:, order] for w in weights]
        q, k = (torch.einsum("bnd,hkd->bhnk", x, w) for w in weights)
        scores.append(rope(q, positions) @ rope(k, positions).transpose(-2, -1))
    torch.testing.assert_close(*scores)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 4000), st.sampled_from(list(ROPES)))
def test_rope_properties(m, n, shift, name):
    rope = ROPES[name]
    q, k = torch.randn(2, 1, D_K, dtype=FLOAT64).unbind()

    def score(m, n):
        return (rope(q, torch.tensor([m])) * rope(k, torch.tensor([n]))).sum()

    torch.testing.assert_close(score(m + shift, n + shift), score(m, n))  # only the difference counts
    turned = rope(q, torch.tensor([m]))
    torch.testing.assert_close(turned.norm(), q.norm())  # a rotation keeps lengths
    torch.testing.assert_close(rope(turned, torch.tensor([n])), rope(q, torch.tensor([m + n])))  # and composes
    torch.testing.assert_close(rope(q, torch.tensor([0])), q)


def test_interleaved_rope_is_a_shift_matrix():
    """RoPE is multiplication by M_k, reversed: in (sin, cos) order M_k turns the other way."""
    x = torch.randn(1, D_K, dtype=FLOAT64)
    torch.testing.assert_close(rope_interleaved(x, torch.tensor([7])), x @ shift_matrix(-7, D_K, dtype=FLOAT64))


@pytest.mark.parametrize("name", ROPES)
def test_a_decoded_token_needs_its_own_position(name):
    """The trap: a cached step that starts again at 0 gets other scores."""
    q, k = torch.randn(2, H, N, D_K, dtype=FLOAT64).unbind()
    v, positions, rope = torch.randn(H, N, D_K, dtype=FLOAT64), torch.arange(N), ROPES[name]
    whole, _ = scaled_dot_product_attention(rope(q, positions), rope(k, positions), v)
    last, _ = scaled_dot_product_attention(rope(q[:, -1:], positions[-1:]), rope(k, positions), v)
    torch.testing.assert_close(last, whole[:, -1:])
    restarted, _ = scaled_dot_product_attention(rope(q[:, -1:], positions[:1]), rope(k, positions), v)
    assert not torch.allclose(restarted, whole[:, -1:], atol=1e-2)


@pytest.mark.parametrize("shape", [(N + 1,), (B, N), (1, B, H, N), (1, 1, 1, 1)])
def test_positions_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="do not broadcast"):
        rope_half_split(torch.randn(B, H, N, D_K), torch.zeros(shape, dtype=torch.long))


def test_rope_of_strided_input_leaves_it_alone():
    x = torch.randn(N, B, D_K).transpose(0, 1)[..., ::2]
    before = x.clone()
    for rope in ROPES.values():
        torch.testing.assert_close(rope(x, torch.arange(N)), rope(x.contiguous(), torch.arange(N)))
        assert torch.equal(x, before)


def test_nothing_is_made_on_the_wrong_device():
    """A tensor made without device= lands on the default one: here "meta", on which nothing has a value."""
    bias, x, positions = RelativeBias(H, bidirectional=False), torch.randn(H, N, D_K), torch.arange(N)
    with torch.device("meta"):
        results = [
            rope_interleaved(x, positions),
            rope_half_split(x, positions),
            half_split_order(D_K, "cpu"),
            sinusoidal_positions(N, D_K, device="cpu"),
            shift_matrix(3, D_K, device="cpu"),
            bias(positions, positions),
        ]
        assert sinusoidal_positions(N, D_K).device.type == "meta"  # not given: the default, as everywhere in PyTorch
    assert all(y.device.type == "cpu" for y in results)


# T5


@pytest.mark.parametrize("n_buckets, max_distance", [(32, 128), (32, 20), (8, 100), (64, 1000)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_agree_with_the_t5_of_transformers(bidirectional, n_buckets, max_distance):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distance = torch.arange(-3000, 3001)
    theirs = t5.T5Attention._relative_position_bucket(distance, bidirectional, n_buckets, max_distance)
    mine = relative_bucket(distance, bidirectional, n_buckets, max_distance)
    assert torch.equal(mine, theirs)
    assert mine.min() == 0 and mine.max() == n_buckets - 1


@pytest.mark.parametrize("decoder", [True, False])
@pytest.mark.parametrize("past", [0, 6])
def test_bias_agrees_with_the_t5_of_transformers(decoder, past):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    from transformers import T5Config

    config = T5Config(d_model=12, d_kv=4, num_heads=H, relative_attention_num_buckets=16, is_decoder=decoder)
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    ours = randomise(RelativeBias(H, not decoder, n_buckets=16)).double()
    with torch.no_grad():
        theirs.relative_attention_bias.weight.copy_(ours.weight)
    expected = theirs.compute_bias(4, 10, past_seen_tokens=past)[0]
    mine = ours(torch.arange(past, past + 4), torch.arange(10))
    assert torch.equal(mine, expected)
    weight = torch.randn_like(mine)
    torch.testing.assert_close(
        gradients(mine, weight, [ours.weight]), gradients(expected, weight, [theirs.relative_attention_bias.weight])
    )


def test_bias_of_a_batch_with_its_own_positions():
    module = randomise(RelativeBias(H, bidirectional=True))
    positions = torch.tensor([[0, 1, 2, 3], [5, 90, 91, 300]])
    batch = module(positions, positions)
    assert batch.shape == (2, H, 4, 4)
    for i in range(2):
        assert torch.equal(batch[i], module(positions[i], positions[i]))


def test_bias_enters_the_scores():
    """Far keys lose: a bias that falls with the distance pulls every query to its neighbours."""
    module = RelativeBias(1, bidirectional=True)
    with torch.no_grad():
        module.weight.copy_(-torch.arange(32).remainder(16)[:, None])
    q = k = torch.zeros(1, 5, 4)
    weights = scaled_dot_product_attention(
        q, k, torch.eye(5)[None], score_bias=module(torch.arange(5), torch.arange(5))
    )[1]
    expected = torch.softmax(-(torch.arange(5.0)[:, None] - torch.arange(5)).abs(), dim=-1)
    torch.testing.assert_close(weights[0], expected)
