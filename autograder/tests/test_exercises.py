"""What every exercise of the catalogue must keep, whoever wrote it.

A new lesson needs nothing here but its right answers (`right_answers/<lesson>.py`), and, if it forbids a call that no
lesson forbade before, one line in `FORBIDDEN_CALLS`.
"""

import ast
import copy
import inspect
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scipy.special
import scipy.stats
import torch
from torch import Tensor

from autograder import get, judge, names
from autograder.cases import calls, prepared
from autograder.exercise import Exercise, Mistake
from autograder.functions import PlaceScaled
from autograder.guard import forbidden_in_source
from autograder.observe import observe, tensors_in
from autograder.pipeline.glossary import findings, prose
from autograder.pipeline.grading import seen_while_running
from autograder.syntax import words
from autograder.tests.right_answers import RIGHT
from autograder.text import LANGUAGES, Text
from autograder.watch import resolved

SEEDS = range(3)
MORE_SEEDS = range(3, 20)  # in `make test-all`
MUTATION_SEEDS = range(3)

NAMES = names()
FUNCTIONS = [name for name in NAMES if get(name).driver != "letter"]  # classes too
QUESTIONS = [name for name in NAMES if get(name).driver == "letter"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The inputs are tiny: threads only get in each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ------------------------------------------------------------------------------------------------ right answers


def right_answers() -> Iterator[Any]:
    for name in NAMES:
        yield pytest.param(name, get(name).reference, id=f"{name}-reference")
        for i, answer in enumerate(RIGHT.get(name, [])):
            yield pytest.param(name, answer, id=f"{name}-{getattr(answer, '__name__', i)}")


@pytest.mark.parametrize(("name", "answer"), list(right_answers()))
def test_right_answers_get_full_marks(name: str, answer: Any) -> None:
    full_marks(name, answer, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_right_answers_get_full_marks_on_more_seeds(name: str) -> None:
    for answer in [get(name).reference, *RIGHT.get(name, [])]:
        full_marks(name, answer, MORE_SEEDS)


def full_marks(name: str, answer: Any, seeds: range) -> None:
    for seed in seeds:
        verdict = judge(name, answer, seed)
        failed = {case.name: case.difference["en"] for case in verdict.cases if case.difference}
        assert verdict.points == get(name).points, (seed, failed, verdict.forbidden)
        assert verdict.mistake is None


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_have_torch_do_nothing_unusual(name: str) -> None:
    """Else an instructor's list would be full of honest students."""
    exercise = get(name)
    for answer in [exercise.reference, *RIGHT.get(name, [])]:
        seen = [observe(answer, call, exercise.driver, exercise.forbidden) for call in calls(exercise, 0)]
        assert list(seen_while_running(exercise, seen)) == []


@pytest.mark.parametrize("name", NAMES)
def test_there_are_two_right_answers_written_differently(name: str) -> None:
    if name in QUESTIONS:
        assert RIGHT.get(name)
        return
    assert len(RIGHT.get(name, [])) >= 2, f"add right answers for {name} to autograder/tests/right_answers"
    bodies = {ast.dump(ast.Module(body_of(f), [])) for f in [get(name).reference, *RIGHT[name]]}
    # One of them may be the course's own in other words; two must differ from each other.
    assert len(bodies) >= 3


def body_of(function: Callable[..., Any]) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    return definition.body[1:] if ast.get_docstring(definition) else definition.body


# ----------------------------------------------------------------------------------------------------- mistakes


def mistakes() -> Iterator[Any]:
    for name in NAMES:
        for mistake in get(name).mistakes:
            yield pytest.param(name, mistake, id=f"{name}-{mistake.name}")


@pytest.mark.parametrize(("name", "mistake"), list(mistakes()))
def test_mistakes_lose_points_and_are_named(name: str, mistake: Mistake) -> None:
    loses_and_is_named(name, mistake, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mistakes_lose_points_and_are_named_on_more_seeds(name: str) -> None:
    for mistake in get(name).mistakes:
        loses_and_is_named(name, mistake, MORE_SEEDS)


def loses_and_is_named(name: str, mistake: Mistake, seeds: range) -> None:
    for seed in seeds:
        verdict = judge(name, mistake.answer, seed)
        assert verdict.points < verdict.max_points, f"seed {seed}"
        assert verdict.mistake in (mistake.name, *mistake.same_as), f"seed {seed}: {[c.mistake for c in verdict.cases]}"
        named = next(m for m in get(name).mistakes if m.name == verdict.mistake)
        for language in LANGUAGES:
            assert verdict.message(language) == named.message[language]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_failure_is_given_no_name(name: str) -> None:
    """Mistakes may stop with an exception too; that alone is no reason to blame one of them."""

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    verdict = judge(name, broken)
    assert (verdict.points, verdict.mistake) == (0, None)
    assert "mat1 and mat2" in verdict.message("en") and "mat1 and mat2" in verdict.message("zh-TW")


# ------------------------------------------------------------------------------------- wrong in a corner, or named


def unstable(shift: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """A softmax that subtracts something other than the maximum of the row."""

    def softmax(scores: Tensor) -> Tensor:
        e = torch.exp(scores - shift(scores))
        return e / e.sum(dim=-1, keepdim=True)

    return softmax


UNSTABLE = {
    "nothing": unstable(lambda s: 0),
    "the mean": unstable(lambda s: s.mean(dim=-1, keepdim=True)),
    "the median": unstable(lambda s: s.median(dim=-1, keepdim=True).values),
    "the minimum": unstable(lambda s: s.amin(dim=-1, keepdim=True)),
    "the first": unstable(lambda s: s[..., :1]),
    "the last": unstable(lambda s: s[..., -1:]),
    "the largest size": unstable(lambda s: s.abs().amax(dim=-1, keepdim=True)),
    "clamped": lambda s: torch.softmax(s.clamp(-88, 88), dim=-1),
}
WITH_SOFTMAX: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "softmax": lambda softmax: lambda scores, dim=-1: softmax(scores.movedim(dim, -1)).movedim(-1, dim),
    "attend": lambda softmax: lambda q, K, V: softmax(K @ q) @ V,
    "attention_matrix": lambda softmax: lambda Q, K: softmax(Q @ K.mT),
    "self_attention": lambda softmax: lambda X, W_Q, W_K, W_V: softmax(X @ W_Q @ (X @ W_K).mT) @ (X @ W_V),
    "temperature_softmax": lambda softmax: lambda scores, temperature: softmax(scores / temperature),
    "softmax_jacobian": lambda softmax: (
        lambda scores, temperature=1.0: jacobian_of_weights(softmax(scores / temperature)) / temperature
    ),
}


def jacobian_of_weights(p: Tensor) -> Tensor:
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, temperature: float = 1.0) -> Any:
    """A right one for the wrong ones below to build on."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / (q.shape[-1] ** 0.5 * temperature)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = scores.softmax(dim=-1) if mask is None else scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


def attention_with_even_rows_zeroed(q, k, v, mask=None, temperature=1.0):
    scores = q @ k.mT / (q.shape[-1] ** 0.5 * temperature)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(q.dtype).min)
    weights = scores.softmax(dim=-1)
    weights = weights * (weights.amax(-1, keepdim=True) != 1 / weights.shape[-1])
    return weights @ v, weights


def attention_without_temperature_unless_masked(q, k, v, mask=None, temperature=1.0):
    return attention(q, k, v, mask, 1.0 if mask is None else temperature)


def attention_in_float32_unless_masked(q, k, v, mask=None, temperature=1.0):
    output, weights = attention(q, k, v, mask, temperature)
    return (output.float(), weights.float()) if mask is None else (output, weights)


def gap_without_last_row(f, X, perm):
    return torch.stack([(f(X[perm])[i] - f(X)[perm[i]]).abs().max() for i in range(len(perm) - 1)]).max()


def gap_without_first_row(f, X, perm):
    return (f(X[perm]) - f(X)[perm])[1:].abs().max()


def gap_of_inverse(f, X, perm):
    inverse = perm.argsort()
    return (f(X[inverse]) - f(X)[inverse]).abs().max()


def gap_of_sorted_rows(f, X, perm):
    return (f(X[perm]).sort(dim=0).values - f(X).sort(dim=0).values).abs().max()


def project_with_key_weights(X, W_Q, W_K, W_V):
    return X @ W_Q, X @ W_K, X @ W_K


def self_attention_with_T(X, W_Q, W_K, W_V):
    return torch.softmax((X @ W_Q) @ (X @ W_K).T, dim=-1) @ (X @ W_V)


def matrix_with_T(Q, K):
    return torch.softmax(Q @ K.T, dim=-1)


def tempered(scores, temperature):
    wide = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(scores.to(wide) / temperature, dim=-1).to(scores.dtype)


def tempered_by_view(scores, temperature):
    return tempered(scores.view(-1, scores.shape[-1]), temperature).view(scores.shape)


def tempered_by_clamped_scores(scores, temperature):
    return tempered(scores.clamp(-100, 100), temperature)


def tempered_by_rounded_temperature(scores, temperature):
    return tempered(scores, round(temperature, 3))


def tempered_upwards_only(scores, temperature):
    return tempered(scores, max(temperature, 1))


def jacobian(scores, temperature=1.0):
    return jacobian_of_weights(torch.softmax(scores / temperature, dim=-1)) / temperature


def jacobian_by_view(scores, temperature=1.0):
    M = scores.shape[-1]
    return jacobian(scores.view(-1, M), temperature).view(*scores.shape, M)


def entropy_by_view(p):
    return torch.special.entr(p.view(-1, p.shape[-1])).sum(-1).view(p.shape[:-1])


def entropy_clamped(p):
    return -(p * p.clamp(min=1e-3).log()).sum(-1)


def entropy_of_large_weights(p):
    return torch.where(p < 1e-4, 0.0, torch.special.entr(p)).sum(-1)


def variance_of_column_sums(q, k, sigma_q=1.0, sigma_k=1.0):
    return float(q.shape[-1] * sigma_q**2 * sigma_k**2), (q * k).sum(0).var(correction=0)


def variance_of_all_pairs(q, k, sigma_q=1.0, sigma_k=1.0):
    return float(q.shape[-1] * sigma_q**2 * sigma_k**2), (q @ k.T).var(correction=0)


def sequence_by_view(X, h_0, W_X, W_H, b):
    B, T, d_in = X.shape
    read = X.view(B * T, d_in) @ W_X
    return sequence_of_reads(read.view(B, T, -1), h_0, W_H, b)


def sequence_of_reads(read, h_0, W_H, b):
    h, states = h_0, []
    for read_t in read.unbind(1):
        h = torch.tanh(read_t + h @ W_H + b)
        states.append(h)
    return torch.stack(states, 1)


def sequence_from_the_first_reading(X, h_0, W_X, W_H, b):
    return sequence_of_reads((X @ W_X)[:, :1].expand(-1, X.shape[1], -1), h_0, W_H, b)


def neuron_by_row_products(x_t, h_prev, W_X, W_H, b, j):
    return torch.tanh((x_t * W_X[j]).sum() + (h_prev * W_H[j]).sum() + b[j])


def lstm_by_coded_gates(x_t, h_prev, c_prev, W_X, W_H, b):
    i, f, g, o = (x_t @ W_X + h_prev @ W_H + b).split(W_X.shape[1] // 4, dim=-1)
    c = torch.sigmoid(f) * c_prev + torch.sigmoid(g) * torch.tanh(i)
    return torch.sigmoid(o) * torch.tanh(c), c


def norms_in_float32(H, W_H):
    J, norms = torch.eye(len(W_H)), [torch.ones(())]
    for h in H.float()[1:].flip(0):
        J = (W_H.float() * (1 - h**2)) @ J
        norms.append(torch.linalg.matrix_norm(J, 2))
    return torch.stack(norms[::-1]).to(H.dtype)


def matmul_by_flat_memory(A, B):
    return (A.as_strided(A.shape, (A.shape[1], 1))[:, :, None] * B).sum(dim=1)


def softmax_by_clamped_differences(scores, dim=-1):
    e = torch.exp((scores - scores.amax(dim, keepdim=True)).clamp(min=-50))
    return e / e.sum(dim, keepdim=True)


def softmax_of_positive_axes(scores, dim=-1):
    return torch.exp(scores - scores.logsumexp(max(dim, 0), keepdim=True))


def embed_by_guessed_vocabulary(ids, W_E):
    return torch.nn.functional.one_hot(ids).to(W_E.dtype) @ W_E


def digits_while_positive(n, base=10):
    digits = []
    while n > 0:
        digits.append(n % base)
        n //= base
    return digits, [base**i for i in range(1, len(digits) + 1)]


def table_of_float32_angles(n_positions, d_model, base=10000.0, dtype=torch.float32):
    angles = torch.arange(n_positions)[:, None] * base ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(dtype)


def rope_of_float32_angles(x, positions, base=10000.0):
    angles = positions[..., None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1).to(x.dtype)


def attended_linearly_in_float32(q, k, v, is_causal=False):
    f_q, f_k, v_32 = torch.nn.functional.elu(q.float()) + 1, torch.nn.functional.elu(k.float()) + 1, v.float()
    if is_causal:
        weights = (f_q @ f_k.mT).tril()
        return (weights @ v_32 / weights.sum(dim=-1, keepdim=True)).to(v.dtype)
    return (f_q @ (f_k.mT @ v_32) / (f_q @ f_k.sum(dim=-2).unsqueeze(-1))).to(v.dtype)


def normed_with_an_epsilon_of_its_own(x, gamma, beta, eps=1e-5):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
    return ((wide - mean) / (variance + 1e-5).sqrt() * gamma + beta).to(x.dtype)


def attention_over_viewed_heads(q, k, v, mask=None, temperature=1.0):
    output, weights = attention(*(x.view(-1, *x.shape[-2:]).view(x.shape) for x in (q, k, v)), mask, temperature)
    return output, weights


def embed_viewed_ids(ids, W_E):
    return W_E[ids.view(-1)].view(*ids.shape, -1)


def smoothed_losses(logits, target, smoothing, ignore_index):
    counts = target != ignore_index
    log_p = logits.log_softmax(dim=-1)
    right = log_p.gather(-1, target.where(counts, 0)[..., None])[..., 0]
    return -(1 - smoothing) * right - smoothing * log_p.mean(dim=-1), counts


def losses_ahead(logits, tokens, key_mask):
    real = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
    return -logits[:, :-1].log_softmax(dim=-1).gather(-1, tokens[:, 1:, None])[..., 0], real[:, 1:]


def smoothing_hides_nan(logits, target, smoothing=0.1, ignore_index=-100):
    losses, counts = smoothed_losses(logits, target, smoothing, ignore_index)
    return ((losses * counts).sum() / counts.sum()).nan_to_num(0.0)


def prediction_hides_nan(logits, tokens, key_mask=None):
    losses, counts = losses_ahead(logits, tokens, key_mask)
    return (torch.einsum("bn,bn->", losses, counts.to(losses.dtype)) / counts.sum()).nan_to_num(0.0)


# Wrong answers, the mistake that names each (None: no known one, so no name), and a case that must fail.
WRONG: list[tuple[str, Callable[..., Any], str | None, str]] = [
    ("digit_periods", digits_while_positive, "zero_has_no_digits", "zero"),
    ("sinusoidal_positions", table_of_float32_angles, "lower_precision", "float64"),
    ("rope_half_split", rope_of_float32_angles, "lower_precision", "float64"),
    ("linear_attention", attended_linearly_in_float32, "lower_precision", "float64"),
    ("matmul_as_inner_products", matmul_by_flat_memory, None, "noncontiguous"),
    ("softmax", softmax_by_clamped_differences, None, "minus_infinity"),
    ("softmax", softmax_of_positive_axes, "always_first_axis", "negative_dim"),
    ("embed", embed_by_guessed_vocabulary, "one_hot_of_seen_ids", "batch"),
    ("embed", embed_viewed_ids, None, "noncontiguous"),
    ("rnn_neuron", neuron_by_row_products, "rows_of_both", "two_and_two"),
    ("rnn_sequence", sequence_by_view, None, "noncontiguous"),
    ("rnn_sequence", sequence_from_the_first_reading, None, "square"),
    ("lstm_step", lstm_by_coded_gates, "candidate_first", "vector"),
    ("gradient_through_time", norms_in_float32, "lower_precision", "float64"),
    ("project_qkv", project_with_key_weights, "values_from_key_weights", "square"),
    ("attention_matrix", matrix_with_T, "all_axes_reversed", "batch"),
    ("self_attention", self_attention_with_T, "all_axes_reversed", "batch"),
    ("permutation_gap", gap_of_inverse, "inverse_on_both_sides", "scales"),
    ("permutation_gap", gap_without_last_row, None, "float64"),
    ("permutation_gap", gap_without_first_row, None, "noncontiguous"),
    ("permutation_gap", gap_of_sorted_rows, "rows_sorted", "negative"),
    ("permutation_gap", lambda f, X, perm: (f(X) - f(X)[perm]).abs().max(), "permuted_input_unused", "attention"),
    ("dot_product_variance", variance_of_column_sums, "summed_down_columns", "far_means"),
    ("dot_product_variance", variance_of_all_pairs, "all_pairs", "far_means"),
    ("temperature_softmax", tempered_by_view, None, "noncontiguous"),
    ("temperature_softmax", tempered_by_clamped_scores, "finite_for_minus_infinity", "minus_infinity"),
    ("temperature_softmax", tempered_by_rounded_temperature, None, "float64"),
    ("temperature_softmax", tempered_upwards_only, "temperature_below_one_ignored", "cold"),
    ("softmax_jacobian", jacobian_by_view, None, "noncontiguous"),
    ("entropy", entropy_by_view, None, "noncontiguous"),
    ("entropy", entropy_clamped, None, "tiny_weights"),
    ("entropy", entropy_of_large_weights, None, "tiny_weights"),
    (
        "scaled_dot_product_attention",
        attention_without_temperature_unless_masked,
        "temperature_only_with_mask",
        "no_mask_temperature",
    ),
    ("scaled_dot_product_attention", attention_over_viewed_heads, None, "noncontiguous"),
    ("layer_norm", normed_with_an_epsilon_of_its_own, "eps_ignored", "large_eps"),
    ("scaled_dot_product_attention", attention_in_float32_unless_masked, None, "float64"),
    ("scaled_dot_product_attention", attention_in_float32_unless_masked, None, "float16_no_mask"),
    ("scaled_dot_product_attention", attention_with_even_rows_zeroed, None, "equal_scores"),
    ("label_smoothing_loss", smoothing_hides_nan, "zero_for_nan", "nothing_counts"),
    ("next_token_loss", prediction_hides_nan, "zero_for_nan", "no_target"),
]


@pytest.mark.parametrize(
    ("name", "answer", "mistake", "case"),
    WRONG,
    ids=[f"{name}-{answer.__name__}-{case}" for name, answer, _, case in WRONG],
)
def test_wrong_answers_fail_where_they_should(name: str, answer: Any, mistake: str | None, case: str) -> None:
    for seed in SEEDS:
        verdict = judge(name, answer, seed)
        assert not next(result for result in verdict.cases if result.name == case).passed, seed
        assert verdict.mistake == mistake, (seed, [(c.name, c.mistake) for c in verdict.cases if not c.passed])


def mean_or_zero(losses: Tensor, counts: Tensor) -> Tensor:
    """0/0 where nothing counts, but what is left out is cut out, so the NaN reaches no gradient."""
    n = counts.sum()
    return torch.where(n > 0, losses.where(counts, 0.0).sum() / n, 0.0)


def smoothing_without_a_trace(logits, target, smoothing=0.1, ignore_index=-100):
    return mean_or_zero(*smoothed_losses(logits, target, smoothing, ignore_index))


def prediction_without_a_trace(logits, tokens, key_mask=None):
    return mean_or_zero(*losses_ahead(logits, tokens, key_mask))


@pytest.mark.parametrize(
    ("name", "answer"),
    [("label_smoothing_loss", smoothing_without_a_trace), ("next_token_loss", prediction_without_a_trace)],
)
def test_a_nan_that_reaches_neither_value_nor_gradient_costs_nothing(name: str, answer: Any) -> None:
    full_marks(name, answer, SEEDS)


@pytest.mark.parametrize("name", WITH_SOFTMAX)
@pytest.mark.parametrize("shift", UNSTABLE)
def test_only_the_maximum_is_safe_to_subtract(name: str, shift: str) -> None:
    for seed in SEEDS:
        assert not judge(name, WITH_SOFTMAX[name](UNSTABLE[shift]), seed).passed, seed


def test_the_gap_of_the_lesson() -> None:
    """X = (1, 2, 4), scales 1, 10, 100: 396 as asked, 360 with the inverse of the permutation."""
    X, perm = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1])
    f = PlaceScaled(torch.tensor([[1.0], [10.0], [100.0]]), torch.ones(1, 1))
    assert get("permutation_gap").reference(f, X, perm) == 396
    assert gap_of_inverse(f, X, perm) == 360


# ------------------------------------------------------------------------------------------------------- wording


def texts(exercise: Exercise) -> Iterator[tuple[str, Text]]:
    for mistake in exercise.mistakes:
        yield f"mistake {mistake.name}", mistake.message
    for case in exercise.cases:
        yield f"case {case.name}", case.label
    for i, hint in enumerate(exercise.hints):
        yield f"hint {i + 1}", hint


HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_there_in_both_languages(name: str) -> None:
    for what, text in texts(get(name)):
        assert set(text) == set(LANGUAGES), what
        english, chinese = text["en"].strip(), text["zh-TW"].strip()
        assert english and not HAN.search(english), what
        assert HAN.search(chinese), what
        if not what.startswith("case"):
            assert english.endswith((".", "?")) and chinese.endswith(("。", "？")), what


@pytest.mark.parametrize("name", NAMES)
def test_the_glossary_holds(name: str) -> None:
    for what, text in texts(get(name)):
        assert not findings(prose(text["zh-TW"])), what


@pytest.mark.parametrize("name", FUNCTIONS)
def test_texts_do_not_give_the_solution_away(name: str) -> None:
    exercise = get(name)
    solutions = {without_spaces(e) for f in [exercise.reference, *RIGHT[name]] for e in expressions(f)}
    for what, text in texts(exercise):
        if what.startswith("case"):
            continue
        for language, sentence in text.items():
            assert not re.search(r"torch\.|@|\bdim=|\blambda\b|\breturn \w+ [-+*/]", sentence), (what, language)
            given_away = [e for e in solutions if e in without_spaces(sentence)]
            assert not given_away, (what, language, given_away)


def expressions(function: Callable[..., Any]) -> Iterator[str]:
    """Calls and operations in a function's source that are long enough to be a part of the solution."""
    for statement in body_of(function):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call | ast.BinOp) and len(without_spaces(ast.unparse(node))) >= 10:
                yield ast.unparse(node)


def without_spaces(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_points_and_weights(name: str) -> None:
    exercise = get(name)
    assert 1 <= exercise.difficulty <= 5 and exercise.points >= 1
    assert all(case.weight > 0 for case in exercise.cases)
    ordinary = sum(case.weight for case in exercise.cases if not case.trap)
    assert ordinary >= sum(case.weight for case in exercise.cases) / 2
    assert len({case.label["en"] for case in exercise.cases}) == len(exercise.cases)
    if name in FUNCTIONS:
        assert 2 <= len(exercise.hints) <= 3
    for mistake in exercise.mistakes:
        assert set(mistake.same_as) <= {m.name for m in exercise.mistakes} - {mistake.name}


# -------------------------------------------------------------------------------------- what is asked of answers


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs(name: str) -> None:
    """Every seed draws other inputs, the same seed the same; some matrix is not contiguous."""
    first, again, other = ([x for call in calls(get(name), seed) for x in inputs_of(call)] for seed in (0, 0, 1))
    assert all(torch.equal(x, y) for x, y in zip(first, again))
    if first:
        assert not all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(first, other))
    else:  # numbers, lists and integer tensors only
        assert str([c.args for c in calls(get(name), 0)]) != str([c.args for c in calls(get(name), 1)])
    if any(x.ndim >= 2 for x in first):
        assert not all(x.is_contiguous() for x in first)


def inputs_of(call: Any) -> list[Tensor]:
    return [x for x in tensors_in([*call.args, *call.kwargs.values()]) if x.is_floating_point()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_released_stub_reads_not_started(name: str) -> None:
    def stub(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    verdict = judge(name, stub)
    assert (verdict.written, verdict.points, verdict.mistake) == (False, 0, None)


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name: str) -> None:
    exercise = get(name)
    assert sorted([exercise.reference, *(m.answer for m in exercise.mistakes)]) == ["a", "b", "c", "d"]
    for empty in ("", "  ", ..., None):
        assert not judge(name, empty).written
    for other in ("e", "ab", 2, ["b"], lambda: exercise.reference):
        verdict = judge(name, other)
        assert verdict.written and (verdict.points, verdict.mistake) == (0, None)
        assert verdict.message("zh-TW")


def spoiled(change: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Any], Any]:
    """Makes wrong answers: the right one, with something done to its result or arguments."""

    def make(reference: Any) -> Any:
        copy_of_it = recompiled(reference)
        if isinstance(reference, type):

            class Answer(copy_of_it):
                def forward(self, *args: Any, **kwargs: Any) -> Any:
                    return change(super().forward(*args, **kwargs), args)

            return Answer

        def answer(*args: Any, **kwargs: Any) -> Any:
            return change(copy_of_it(*args, **kwargs), args)

        return answer

    return make


def recompiled(function: Callable[..., Any], tree: ast.Module | None = None) -> Callable[..., Any]:
    """A copy of a function (or of the changed `tree` of it) that nothing recognises as the course's own."""
    tree = tree or ast.parse(textwrap.dedent(inspect.getsource(function)))
    scope = dict(vars(sys.modules[function.__module__]))
    exec(compile(ast.fix_missing_locations(tree), "<copy>", "exec"), scope)
    return scope[function.__name__]


def on_tensors(change: Callable[[Tensor], Any]) -> Callable[[Any, tuple[Any, ...]], Any]:
    def apply(result: Any, args: tuple[Any, ...]) -> Any:
        if isinstance(result, tuple | list):
            return tuple(apply(part, args) for part in result)
        return change(result) if isinstance(result, Tensor) else result

    return apply


def with_nan(x: Tensor) -> Tensor:
    return x + torch.nan if x.is_floating_point() else x


def other_dtype(x: Tensor) -> Tensor:
    return x.to(torch.float32 if x.dtype == torch.float64 else torch.float64)


def changes_inputs(result: Any, args: tuple[Any, ...]) -> Any:
    for x in tensors_in(list(args)):
        x.logical_not_() if x.dtype == torch.bool else x.detach().add_(1)
    return result


def changes_default_dtype(result: Any, args: tuple[Any, ...]) -> Any:
    torch.set_default_dtype(torch.float64)
    return result


def changes_seed(result: Any, args: tuple[Any, ...]) -> Any:
    torch.manual_seed(12345)
    return result


SPOILED = {
    "type": (spoiled(lambda result, args: "0.5"), "return|type|Python|torch.Tensor"),
    "numpy": (spoiled(on_tensors(lambda x: x.detach().double().numpy())), "torch.Tensor"),
    "shape": (spoiled(on_tensors(lambda x: x.unsqueeze(0))), "shape"),
    "dtype": (spoiled(on_tensors(other_dtype)), "float(32|64)"),
    "nan": (spoiled(on_tensors(with_nan)), "NaN"),
    "in place": (spoiled(changes_inputs), "in place"),
    "default dtype": (spoiled(changes_default_dtype), "default dtype"),
    "seed": (spoiled(changes_seed), "seed"),
}


def touched(name: str, how: str) -> list[bool]:
    """In which cases a way of spoiling an answer does anything: numbers have no shape, and no argument is no tensor."""
    exercise = get(name)
    found = []
    for case, call in zip(exercise.cases, calls(exercise, 0)):
        results = list(tensors_in(prepared(exercise, case, 0).exact.value))
        inputs = list(tensors_in([call.args[2:] if exercise.driver == "module" else call.args, call.kwargs]))
        found.append(
            not case.raises
            and {
                "numpy": bool(results),
                "shape": bool(results),
                "dtype": bool(results),
                "nan": any(x.is_floating_point() for x in results),
                "in place": bool(inputs),
            }.get(how, True)
        )
    return found  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("how", SPOILED)
def test_each_rule_for_all_is_judged(name: str, how: str) -> None:
    make, words = SPOILED[how]
    verdict = judge(name, make(get(name).reference))
    for asked, case, spoilt in zip(get(name).cases, verdict.cases, touched(name, how)):
        if asked.raises:  # counts only beside an ordinary case that passes
            continue
        assert case.passed != spoilt, case.name
        assert case.difference is None or re.search(words, case.difference["en"]), case
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_cut_off_from_its_inputs_loses_the_gradient_cases_only(name: str) -> None:
    exercise = get(name)
    verdict = judge(name, spoiled(on_tensors(Tensor.detach))(exercise.reference))
    slopes = {
        case.name: any(g is not None and bool(g.any()) for g in prepared(exercise, case, 0).exact.gradients or ())
        for case in exercise.cases
    }
    assert any(slopes.values()) == any(case.gradients for case in exercise.cases)
    for case, result in zip(exercise.cases, verdict.cases):
        assert result.passed != slopes[case.name], case.name  # where all gradients are 0, a constant is as good


# Results without an axis, with as many entries as no size makes one, or that are no tensors.
WITHOUT_AN_AXIS_OF_ONE = words(
    """
    inner_product rnn_neuron permutation_gap dot_product_variance label_smoothing_loss next_token_loss
    shift_matrix family_mask
    sequential_steps attention_parameter_count attention_flops digit_periods warmup_schedule parameter_count
    attention_bytes hbm_traffic cache_bytes decode_flops
    """
)
# No gradients: of whole numbers and truth values there are none, and of the last lines' results the text says so.
WITHOUT_GRADIENTS = words(
    """
    sequential_steps attention_parameter_count attention_flops digit_periods warmup_schedule parameter_count
    attention_bytes hbm_traffic cache_bytes decode_flops
    angular_frequencies sinusoidal_positions shift_matrix relative_score
    causal_mask padding_mask find_the_leak shift_right greedy_decode sample_top_k sample_top_p mask_tokens span_corruption
    family_mask sliding_window_mask
    gradient_through_time permutation_gap online_softmax merge_blocks flash_forward flash_backward append_kv decode_step
    prefill_in_chunks
    """
)


@pytest.mark.parametrize("name", ["permutation_gap", "residual", "find_the_leak", "greedy_decode", "encoder"])
def test_a_function_is_there_to_be_called_not_to_be_taken_apart(name: str) -> None:
    """What it is made of may be what the exercise asks for."""

    def parts(*args: Any, **kwargs: Any) -> tuple[str, ...]:
        (function, *_) = [
            x for value in args for x in (value if isinstance(value, tuple | list) else [value]) if callable(x)
        ]
        return tuple(part for part in dir(function) if not part.startswith("_"))

    call = calls(get(name), 0)[0]
    assert observe(parts, call).value == ()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_axis_of_one_entry_must_stay(name: str) -> None:
    exercise = get(name)
    verdict = judge(name, spoiled(on_tensors(Tensor.squeeze))(exercise.reference))
    assert (verdict.points == exercise.points) == (name in WITHOUT_AN_AXIS_OF_ONE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_judged_where_there_are_any(name: str) -> None:
    assert any(case.gradients for case in get(name).cases) != (name in WITHOUT_GRADIENTS)


# ----------------------------------------------------------------------------------------------- forbidden calls

# Calls of what the exercises forbid; x is a float vector of length 4. What a list found by pattern may be missing here.
FORBIDDEN_CALLS = {
    "torch.Tensor.__matmul__": "x @ x",
    "torch.Tensor.__rmatmul__": "x.__rmatmul__(x)",
    "torch.matmul": "torch.matmul(x, x)",
    "torch.Tensor.matmul": "x.matmul(x)",
    "torch.chain_matmul": "torch.chain_matmul(x[None], x[:, None])",
    "torch.masked.*": "torch.masked.softmax(x, 0)",
    "torch.mm": "torch.mm(x[None], x[:, None])",
    "torch.Tensor.mm": "x[None].mm(x[:, None])",
    "torch.mv": "torch.mv(x[None], x)",
    "torch.Tensor.mv": "x[None].mv(x)",
    "torch.bmm": "torch.bmm(x[None, None], x[None, :, None])",
    "torch.Tensor.bmm": "x[None, None].bmm(x[None, :, None])",
    "torch.dot": "torch.dot(x, x)",
    "torch.Tensor.dot": "x.dot(x)",
    "torch.vdot": "torch.vdot(x, x)",
    "torch.Tensor.vdot": "x.vdot(x)",
    "torch.inner": "torch.inner(x, x)",
    "torch.Tensor.inner": "x.inner(x)",
    "torch.outer": "torch.outer(x, x)",
    "torch.Tensor.outer": "x.outer(x)",
    "torch.ger": "torch.ger(x, x)",
    "torch.Tensor.ger": "x.ger(x)",
    "torch.addmm": "torch.addmm(x, x[None], torch.ones(4, 4))",
    "torch.Tensor.addmm": "x.addmm(x[None], torch.ones(4, 4))",
    "torch.addmv": "torch.addmv(x, torch.ones(4, 4), x)",
    "torch.Tensor.addmv": "x.addmv(torch.ones(4, 4), x)",
    "torch.addr": "torch.addr(x, x, x)",
    "torch.Tensor.addr": "x.addr(x, x)",
    "torch.addbmm": "torch.addbmm(x, x[None, None], torch.ones(1, 4, 4))",
    "torch.Tensor.addbmm": "x.addbmm(x[None, None], torch.ones(1, 4, 4))",
    "torch.baddbmm": "torch.baddbmm(x, x[None, None], torch.ones(1, 4, 4))",
    "torch.Tensor.baddbmm": "x[None, None].baddbmm(x[None, None], torch.ones(1, 4, 4))",
    "torch.einsum": "torch.einsum('i,i->', x, x)",
    "torch.tensordot": "torch.tensordot(x, x, 1)",
    "torch.linalg.matmul": "torch.linalg.matmul(x, x)",
    "torch.linalg.vecdot": "torch.linalg.vecdot(x, x)",
    "torch.linalg.multi_dot": "torch.linalg.multi_dot([x, x])",
    "torch.nn.functional.linear": "F.linear(x, x[None])",
    "torch.nn.functional.bilinear": "F.bilinear(x, x, torch.ones(1, 4, 4))",
    "torch.nn.functional.conv1d": "F.conv1d(x[None, None], x[None, None])",
    "torch.nn.functional.conv2d": "F.conv2d(x[None, None, None], x[None, None, None])",
    "torch.sparse.mm": "torch.sparse.mm(torch.eye(4).to_sparse(), torch.eye(4))",
    "torch.softmax": "torch.softmax(x, 0)",
    "torch.log_softmax": "torch.log_softmax(x, 0)",
    "torch.Tensor.softmax": "x.softmax(0)",
    "torch.Tensor.log_softmax": "x.log_softmax(0)",
    "torch.special.softmax": "torch.special.softmax(x, 0)",
    "torch.special.log_softmax": "torch.special.log_softmax(x, 0)",
    "torch.nn.functional.softmax": "F.softmax(x, 0)",
    "torch.nn.functional.log_softmax": "F.log_softmax(x, 0)",
    "torch.nn.functional.softmin": "F.softmin(x, 0)",
    "torch.nn.functional.gumbel_softmax": "F.gumbel_softmax(x)",
    "torch.nn.Softmax": "nn.Softmax(0)(x)",
    "torch.nn.LogSoftmax": "nn.LogSoftmax(0)(x)",
    "torch.nn.Softmin": "nn.Softmin(0)(x)",
    "torch.nn.Softmax2d": "nn.Softmax2d()(x[None, :, None, None])",
    "torch.sparse.softmax": "torch.sparse.softmax(x.to_sparse(), 0)",
    "torch.sparse.log_softmax": "torch.sparse.log_softmax(x.to_sparse(), 0)",
    "torch.masked.softmax": "torch.masked.softmax(x, 0)",
    "torch.masked.log_softmax": "torch.masked.log_softmax(x, 0)",
    "torch.nn.functional.embedding": "F.embedding(torch.tensor([0]), x[None])",
    "torch.nn.functional.embedding_bag": "F.embedding_bag(torch.tensor([[0]]), x[None])",
    "torch.nn.Embedding": "nn.Embedding(4, 2)",
    "torch.nn.EmbeddingBag": "nn.EmbeddingBag(4, 2)",
    "torch.embedding": "torch.embedding(x[None], torch.tensor([0]))",
    "torch.nn.functional.scaled_dot_product_attention": "F.scaled_dot_product_attention(x[None], x[None], x[None])",
    "torch.nn.MultiheadAttention": "nn.MultiheadAttention(4, 2)",
    "torch.nn.functional.multi_head_attention_forward": "F.multi_head_attention_forward(x, x, x)",
    "torch.autograd.*": "torch.autograd.functional.jacobian(torch.tanh, x)",
    "torch.func.vjp": "torch.func.vjp(torch.tanh, x)",
    "torch.func.grad": "torch.func.grad(torch.logsumexp)(x, 0)",
    "torch.autograd.functional.*": "torch.autograd.functional.jacobian(torch.tanh, x)",
    "torch.linalg.*": "torch.linalg.inv(x.diag())",
    "torch.sparse.*": "torch.sparse.addmm(x.diag(), x.diag(), x.diag())",
    "torch.addmv_": "torch.addmv_(x, torch.ones(4, 4), x)",
    "torch.Tensor.addmm_": "x[None].addmm_(x[None], torch.ones(4, 4))",
    "torch.Tensor.addbmm_": "x[None].addbmm_(x[None, None], torch.ones(1, 4, 4))",
    "torch.Tensor.baddbmm_": "x[None, None].baddbmm_(x[None, None], torch.ones(1, 4, 4))",
    "torch.Tensor.addmv_": "x.addmv_(torch.ones(4, 4), x)",
    "torch.Tensor.addr_": "torch.ones(4, 4).addr_(x, x)",
    "torch.Tensor.kron": "x.kron(x)",
    "torch.Tensor.smm": "x.diag().to_sparse().smm(x.diag())",
    "torch.cov": "torch.cov(x)",
    "torch.cdist": "torch.cdist(x[None], x[None])",
    "torch.dist": "torch.dist(x, x)",
    "torch.Tensor.dist": "x.dist(-x)",
    "torch.nn.functional.pairwise_distance": "F.pairwise_distance(x, x)",
    "torch.nn.PairwiseDistance": "nn.PairwiseDistance()(x, x)",
    "torch.nn.functional.mse_loss": 'F.mse_loss(x, x, reduction="sum")',
    "torch.nn.functional.huber_loss": "F.huber_loss(x, x, delta=100.0)",
    "torch.nn.functional.binary_cross_entropy": "F.binary_cross_entropy(x, x)",
    "torch.nn.functional.binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(x, x)",
    "torch.nn.functional.margin_ranking_loss": "F.margin_ranking_loss(x, x, x, margin=100.0)",
    "torch.nn.functional.poisson_nll_loss": "F.poisson_nll_loss(x, x)",
    "torch.nn.functional.nll_loss": "F.nll_loss(x.diag(), x.long(), weight=x)",
    "torch.det": "torch.det(x.diag())",
    "torch.Tensor.logdet": "x.diag().logdet()",
    "torch.slogdet": "torch.slogdet(x.diag())",
    "torch.cosine_similarity": "torch.cosine_similarity(x, x, 0)",
    "torch.nn.functional.cosine_similarity": "F.cosine_similarity(x, x, 0)",
    "torch.nn.CosineSimilarity": "nn.CosineSimilarity(0)(x, x)",
    "torch.matrix_exp": "torch.matrix_exp(x.diag())",
    "torch.conv_tbc": "torch.conv_tbc(x[None, None], x[None, :, None], x[:1])",
    "torch.nn.functional.conv_transpose1d": "F.conv_transpose1d(x[None, :, None], x[:, None, None])",
    "torch.nn.Linear": "nn.Linear(4, 1)",
    "torch.nn.Conv2d": "nn.Conv2d(1, 1, 2)",
    "torch.nn.functional.conv3d": "F.conv3d(x.view(1, 4, 1, 1, 1), x.view(1, 4, 1, 1, 1))",
    "torch.nn.functional.grouped_mm": "F.grouped_mm(x[None], x[:, None])",
    "torch.gru_cell": "torch.gru_cell(x[None], x[None], x.diag().repeat(3, 1), x.diag().repeat(3, 1))",
    "torch.gru": "torch.gru(x[None, None], x[None, None], [x.diag(), x.diag()], False, 1, 0.0, False, False, True)",
    "torch.rnn_relu_cell": "torch.rnn_relu_cell(x[None], x[None], x.diag(), x.diag())",
    "torch.mkldnn_rnn_layer": "torch.mkldnn_rnn_layer(x, x, x, x, x, x, x, False, [], 2, 1, 1, False, False, False, True)",
    "torch.nn.GRU": "nn.GRU(4, 2)",
    "torch.nn.GRUCell": "nn.GRUCell(4, 2)",
    "torch.kl_div": "torch.kl_div(x, x)",
    "torch.nn.functional.linear_cross_entropy": "F.linear_cross_entropy(x[None], x[None], torch.tensor([0]))",
    "torch.nn.AdaptiveLogSoftmaxWithLoss": "nn.AdaptiveLogSoftmaxWithLoss(4, 4, [2])",
    "scipy.special.softmax": "scipy.special.softmax(x)",
    "scipy.special.log_softmax": "scipy.special.log_softmax(x)",
    "scipy.stats.entropy": "scipy.stats.entropy(x)",
    "torch.nn.functional.normalize": "F.normalize(x, dim=0)",
    "torch.renorm": "torch.renorm(x[None], 2, 0, 1.0)",
    "torch.Tensor.renorm_": "x[None].renorm_(2, 0, 1.0)",
    "torch.nn.functional.local_response_norm": "F.local_response_norm(x[None, None], 1)",
    "torch.nn.GroupNorm": "nn.GroupNorm(1, 1)(x[None, None])",
    "torch.nn.attention.flex_attention.flex_attention": "torch.nn.attention.flex_attention.flex_attention(x, x, x)",
    "torch.nn.Transformer.generate_square_subsequent_mask": "nn.Transformer.generate_square_subsequent_mask(4)",
    "torch.nn.modules.transformer._generate_square_subsequent_mask": "torch.nn.modules.transformer._generate_square_subsequent_mask(4)",
    "torch.utils.flop_counter.FlopCounterMode": "torch.utils.flop_counter.FlopCounterMode()",
    "torch.profiler.profile": "torch.profiler.profile()",
    "torch.autograd.profiler.profile": "torch.autograd.profiler.profile()",
    "torch.Tensor.backward": "x.requires_grad_().sum().backward()",
    "torch.nn.functional.cross_entropy": "F.cross_entropy(x, x)",
    "torch.nn.CrossEntropyLoss": "nn.CrossEntropyLoss()",
    "torch.nn.functional.kl_div": 'F.kl_div(x, x, reduction="sum")',
    "torch.nn.KLDivLoss": 'nn.KLDivLoss(reduction="sum")',
    "torch.nn.Transformer": "nn.Transformer(4, 2, 1, 1)",
    "torch.nn.TransformerEncoder": "nn.TransformerEncoder(nn.Linear(4, 4), 1)",
    "torch.nn.TransformerDecoder": "nn.TransformerDecoder(nn.Linear(4, 4), 1)",
    "torch.nn.TransformerEncoderLayer": "nn.TransformerEncoderLayer(4, 2)",
    "torch.nn.TransformerDecoderLayer": "nn.TransformerDecoderLayer(4, 2)",
    "torch.Tensor.numpy": "x.numpy()",
    "torch.Tensor.tolist": "x.tolist()",
    "torch.Tensor.__dlpack__": "x.__dlpack__()",
    "torch.Tensor.__array__": "x.__array__()",
    "torch.distributions.*": "torch.distributions.Categorical(probs=x.softmax(0)).entropy()",
    "torch.nn.functional.layer_norm": "F.layer_norm(x, (4,))",
    "torch.nn.LayerNorm": "nn.LayerNorm(4)(x)",
    "torch.layer_norm": "torch.layer_norm(x, (4,))",
    "torch.native_layer_norm": "torch.native_layer_norm(x, (4,), None, None, 1e-5)",
    "torch.nn.functional.rms_norm": "F.rms_norm(x, (4,))",
    "torch.nn.RMSNorm": "nn.RMSNorm(4)(x)",
    "torch.rms_norm": "torch.rms_norm(x, (4,))",
    "torch.nn.BatchNorm1d": "nn.BatchNorm1d(2)(x.view(2, 2))",
    "torch.nn.functional.batch_norm": "F.batch_norm(x.view(2, 2), None, None, training=True)",
    "torch.nn.functional.group_norm": "F.group_norm(x.view(2, 2), 1)",
    "torch.nn.functional.instance_norm": "F.instance_norm(x.view(1, 2, 2))",
    "torch.batch_norm": "torch.batch_norm(x.view(2, 2), None, None, None, None, True, 0.1, 1e-5, False)",
    "torch.native_batch_norm": "torch.native_batch_norm(x.view(2, 2), None, None, None, None, True, 0.1, 1e-5)",
    "torch.group_norm": "torch.group_norm(x.view(2, 2), 1)",
    "torch.native_group_norm": "torch.native_group_norm(x.view(2, 2), None, None, 2, 2, 1, 1, 1e-5)",
    "torch.instance_norm": "torch.instance_norm(x.view(1, 2, 2), None, None, None, None, True, 0.1, 1e-5, False)",
    "torch.nn.RNN": "nn.RNN(4, 2)",
    "torch.nn.RNNCell": "nn.RNNCell(4, 2)",
    "torch.nn.LSTM": "nn.LSTM(4, 2)",
    "torch.nn.LSTMCell": "nn.LSTMCell(4, 2)",
    "torch.rnn_tanh": "torch.rnn_tanh(x[None, None], x[None, None], [x.diag(), x.diag()], False, 1, 0.0, False, False, True)",
    "torch.rnn_tanh_cell": "torch.rnn_tanh_cell(x[None], x[None], x.diag(), x.diag())",
    "torch.lstm": "torch.lstm(x[None, None], (x[None, None],) * 2, [x.diag()] * 2, False, 1, 0.0, False, False, True)",
    "torch.lstm_cell": "torch.lstm_cell(x[None], (x[None], x[None]), x.diag().repeat(4, 1), x.diag().repeat(4, 1))",
    "torch.nn.functional.unfold": "F.unfold(x.view(1, 1, 2, 2), 2)",
    "torch.nn.Unfold": "nn.Unfold(2)(x.view(1, 1, 2, 2))",
    "torch.nn.functional.pixel_unshuffle": "F.pixel_unshuffle(x.view(1, 1, 2, 2), 2)",
    "torch.nn.PixelUnshuffle": "nn.PixelUnshuffle(2)(x.view(1, 1, 2, 2))",
    "torch.pixel_unshuffle": "torch.pixel_unshuffle(x.view(1, 1, 2, 2), 2)",
    "torch.autograd.functional.jacobian": "torch.autograd.functional.jacobian(torch.tanh, x)",
    "torch.func.jacrev": "torch.func.jacrev(torch.tanh)(x)",
    "torch.func.jacfwd": "torch.func.jacfwd(torch.tanh)(x)",
}


def forbidden_calls() -> Iterator[Any]:
    for name in FUNCTIONS:
        for target in get(name).forbidden:
            if target in FORBIDDEN_CALLS:
                yield pytest.param(name, target, id=f"{name}-{target}")


@pytest.mark.parametrize(("name", "target"), list(forbidden_calls()))
def test_forbidden_calls_are_seen_in_the_source_and_while_they_run(name: str, target: str) -> None:
    exercise = get(name)
    code = f"def answer(*args, **kwargs):\n    x = torch.ones(4)\n    {FORBIDDEN_CALLS[target]}\n    return right(*args, **kwargs)\n"
    found = forbidden_in_source(code, exercise.forbidden, context="import scipy.special, scipy.stats")
    assert found and all(sighting.line == 3 for sighting in found)

    scope: dict[str, Any] = {
        "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "scipy": scipy, "right": recompiled(exercise.reference),
    }  # fmt: skip
    exec(compile(code, "<cell>", "exec"), scope)
    verdict = judge(name, scope["answer"])  # compiled from a string: no source to look at
    assert verdict.points == 0 and verdict.forbidden
    assert verdict.forbidden[0].line == 3
    assert verdict.forbidden[0].name in verdict.message("en") and verdict.forbidden[0].name in verdict.message("zh-TW")


# Numpy is not torch's to announce, a Function of torch's is never built by its name, a module is seen by what it calls, and
# quantized_lstm is no function.
SEEN_IN_THE_SOURCE_ONLY = ("numpy.", "torch.autograd.Function", "torch.nn.", "torch.quantized_")


def test_what_was_found_by_pattern_is_seen_too() -> None:
    others = {target for name in FUNCTIONS for target in get(name).forbidden} - FORBIDDEN_CALLS.keys()
    assert others
    for target in others:
        call = f"x.{target.rpartition('.')[2]}(x)" if target.startswith("torch.Tensor.") else f"{target}(x)"
        assert forbidden_in_source(f"import math, numpy, statistics\n{call}", [target]), target
        watched, trapped = resolved((target,))
        assert watched or trapped or target.startswith(SEEN_IN_THE_SOURCE_ONLY), target
    assert resolved(("torch.nn.functional.conv_tbc", "torch.Tensor.addr_"))[0].keys() == {torch.conv_tbc, Tensor.addr_}


# ---------------------------------------------------------------------------- what else would do it: every call of torch

# Some of what must be found by trying everything, so that the trial is known to work.
DOES_IT_ALL = {
    "inner_product": {"torch.dot", "torch.conv_transpose1d", "torch.Tensor.addmv_"},
    "matmul_as_inner_products": {"torch.mm", "torch.conv_tbc", "torch.Tensor.addmm_", "torch.hspmm"},
    "row_combination": {"torch.Tensor.mv", "torch.conv_tbc", "torch.rnn_relu_cell"},
    "softmax": {"torch.softmax", "torch.nn.functional.softmin", "torch.nn.functional.cross_entropy"},
    "layer_norm": {"torch.native_layer_norm", "torch.nn.functional.rms_norm", "torch.group_norm"},
    "rms_norm": {"torch.rms_norm", "torch.nn.functional.layer_norm", "torch.nn.functional.normalize", "torch.renorm"},
    "batch_norm": {"torch.native_batch_norm", "torch.nn.functional.layer_norm", "torch.instance_norm"},
    "rnn_step": {"torch.rnn_tanh_cell", "torch.gru_cell", "torch.gru"},
    "lstm_step": {"torch.lstm_cell", "torch.lstm", "torch.mkldnn_rnn_layer"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOES_IT_ALL)
def test_no_single_call_of_torch_does_it_all_and_is_allowed(name: str) -> None:
    """In a process of its own: nobody knows what a call of torch's that was made for something else leaves behind."""
    command = [sys.executable, "-m", "autograder.tests.single_calls", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert DOES_IT_ALL[name] <= {*found["forbidden"]}
    assert found["allowed"] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reference_is_no_answer(name: str) -> None:
    reference = get(name).reference
    verdict = judge(name, lambda *args, **kwargs: reference(*args, **kwargs))  # for a class: builds it, so runs it
    assert verdict.points == 0 and verdict.forbidden
    assert judge(name, reference).passed  # and the trap is gone afterwards


# ------------------------------------------------------------------------------------- mutation of the reference

# Mutants that give the same values for every input that the contract allows: how their description begins, and why.
EQUIVALENT = [
    ("span_corruption", "tokens.tolist() → tokens in: for", "tensors of one number go into a list as numbers do"),
    ("span_corruption", "hidden.tolist() → hidden in: for", "tensors of one truth value are as true as it is"),
    ("online_softmax", "0.0 → 1.0 in: shift = ", "any finite number may stand in for a maximum of −inf"),
    ("merge_blocks", "0.0 → 1.0 in: total = ", "any finite number may stand in for a total of −inf"),
    ("flash_forward", "0.0 → 1.0 in: shift = ", "any finite number may stand in for a maximum of −inf"),
    ("flash_forward", "1.0 → 2.0 in: return", "0 divided by any number"),
    ("parameter_count", "8 → 9 in: signature", "how often heads divide the columns changes no count"),
    (
        "label_smoothing_loss",
        "0 → 1 in: right = ",
        "a class put in the place of an ignored one, whose loss is taken away",
    ),
    (
        "scaled_dot_product_attention",
        "if mask is not None and mask.dtype != torch.bool",
        "exercises hand in Boolean masks only",
    ),
    ("scaled_dot_product_attention", "raise TypeError", "exercises hand in Boolean masks only"),
    ("scaled_dot_product_attention", "if score_bias is not None:", "no exercise hands in a bias of scores"),
    ("scaled_dot_product_attention", "scores = scores + score_bias", "no exercise hands in a bias of scores"),
    ("scaled_dot_product_attention", "scores + score_bias", "no exercise hands in a bias of scores"),
    (
        "scaled_dot_product_attention",
        "1.0 → 2.0 in: if temperature != 1.0",
        "a shortcut: dividing by 1 changes nothing",
    ),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_mutant_of_the_reference_survives(name: str) -> None:
    known = [beginning for exercise, beginning, _ in EQUIVALENT if exercise == name]
    made = list(mutants(get(name).reference))
    survivors = [
        what
        for what, mutant in made
        if not what.startswith(tuple(known)) and all(judge(name, mutant, seed).passed for seed in MUTATION_SEEDS)
    ]
    assert not survivors
    for beginning in known:
        assert any(what.startswith(beginning) for what, _ in made), f"EQUIVALENT is out of date: {beginning}"


SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
METHOD_SWAPS = {"sum": "mean", "mean": "sum", "max": "min", "amax": "amin", "min": "max", "amin": "amax"}


def mutants(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every small change of a function's source, with its description "before → after in: statement"."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for i, (node, statement) in enumerate(sites(tree)):
        for j, new in enumerate(changes(node, function)):
            changed = copy.deepcopy(tree)
            target, _ = sites(changed)[i]
            new = list(changes(target, function))[j]
            what = f"{ast.unparse(target)} → {ast.unparse(new)} in: {statement}"
            yield what, recompiled(function, Replace(target, new).visit(changed))


class Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self.target, self.new = target, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.target else self.generic_visit(node)


def sites(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """The nodes that may change, each with the first line of its statement: bodies and default values only."""
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    functions = (
        [n for n in definition.body if isinstance(n, ast.FunctionDef)]
        if isinstance(definition, ast.ClassDef)
        else [definition]
    )
    found: list[tuple[ast.AST, str]] = []

    def collect(node: ast.AST, statement: str) -> None:
        if isinstance(node, ast.stmt):
            statement = ast.unparse(node).split("\n")[0]
        found.append((node, statement))
        for child in ast.iter_child_nodes(node):
            collect(child, statement)

    for function in functions:
        for default in [*function.args.defaults, *function.args.kw_defaults]:
            if default is not None:
                collect(default, "signature")
        for statement in function.body[1:] if ast.get_docstring(function) else function.body:
            collect(statement, "")
    return found


def changes(node: ast.AST, function: Callable[..., Any]) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            yield ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in SWAPS:
            yield ast.AugAssign(target, SWAPS[type(op)](), value)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(SWAPS[type(op)](), values)
        case ast.Compare(left, [op], comparators) if type(op) in SWAPS:
            yield ast.Compare(left, [SWAPS[type(op)]()], comparators)
        case ast.UnaryOp(ast.USub(), ast.Constant(1 | 2 as axis)):
            yield ast.UnaryOp(ast.USub(), ast.Constant(3 - axis))
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Attribute(value, "T" | "mT"):
            yield value
        case ast.Call(ast.Attribute(receiver, method), args, keywords):
            scope = vars(sys.modules[function.__module__])
            of_module = isinstance(receiver, ast.Name) and inspect.ismodule(scope.get(receiver.id))
            if not of_module:
                yield receiver  # the method call dropped
            if method in METHOD_SWAPS:
                yield ast.Call(ast.Attribute(receiver, METHOD_SWAPS[method], ast.Load()), args, keywords)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.If(test, body, orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
            yield ast.Pass()
        case ast.Assign() | ast.Raise():
            yield ast.Pass()


def test_the_mutation_generator_does_its_work() -> None:
    def sample(x: Tensor, y: float = 1.0) -> Tensor:
        z = x.transpose(-2, -1)
        return z.sum(dim=-1) * y

    made = {what for what, _ in mutants(sample)}
    first, last = "z = x.transpose(-2, -1)", "return z.sum(dim=-1) * y"
    assert made == {
        "1.0 → 2.0 in: signature",
        f"{first} → pass in: {first}",
        f"x.transpose(-2, -1) → x in: {first}",
        f"-2 → -1 in: {first}",
        f"-1 → -2 in: {first}",
        f"2 → 3 in: {first}",
        f"1 → 2 in: {first}",
        f"z.sum(dim=-1) * y → z.sum(dim=-1) / y in: {last}",
        f"z.sum(dim=-1) → z in: {last}",
        f"z.sum(dim=-1) → z.mean(dim=-1) in: {last}",
        f"-1 → -2 in: {last}",
        f"1 → 2 in: {last}",
    }
