"""What a student reads in a notebook or a terminal."""

import re
import sys
from pathlib import Path

import pytest
import torch

import autograder
from autograder import check, get, hint, names, progress, start, use
from autograder.judging import matrices_that_differ, picture_of


@pytest.fixture(autouse=True)
def in_english():
    start("02_qkv", "en")
    yield
    start("02_qkv", "en")


def right(q, K):
    return K @ q


def columns(q, K):
    return q @ K


def stub(q, K):
    raise NotImplementedError


def test_a_right_answer(capsys):
    check("relevance", right)
    out = capsys.readouterr().out
    assert out.startswith("✓ relevance: 1 / 1 points")
    assert "✗" not in out


@pytest.mark.parametrize("language", ["en", "zh-TW"])
def test_a_mistake_is_named_in_the_notebooks_language(capsys, language):
    start("02_qkv", language)
    check("relevance", columns)
    mistake = next(m for m in autograder.get("relevance").mistakes if m.name == "columns_of_K")
    out = capsys.readouterr().out
    assert mistake.message[language] in out
    assert out.startswith("✗ relevance: " if language == "en" else "✗ relevance：0 / 1 分")


def test_not_started_is_no_error(capsys):
    check("relevance", stub)
    assert capsys.readouterr().out == "○ relevance: not started\n"
    start("02_qkv", "zh-TW")
    check("relevance", stub)
    assert capsys.readouterr().out == "○ relevance：尚未作答\n"
    check("02_q1", "")
    assert "尚未作答" in capsys.readouterr().out


STRANGE = {
    "class": dict,
    "no return": lambda q, K: None,
    "raises": lambda q, K: 1 / 0,
    "endless recursion": lambda q, K: STRANGE["endless recursion"](q, K),
    "wrong arguments": lambda: 1,
    "object": lambda q, K: object(),
    "generator": lambda q, K: (x for x in q),
    "raises without text": lambda q, K: (_ for _ in ()).throw(ValueError()),
    "system exit": lambda q, K: (_ for _ in ()).throw(SystemError("x")),
    "sparse": lambda q, K: (K @ q).to_sparse(),
    "list": lambda q, K: [1, 2, 3],
    "numpy": lambda q, K: (K @ q).detach().numpy(),
    "nan": lambda q, K: (K @ q) * float("nan"),
    "empty": lambda q, K: torch.empty(0),
}


@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE.keys())
def test_whatever_the_answer_there_is_no_traceback(capsys, answer):
    check("relevance", answer)
    captured = capsys.readouterr()
    assert captured.out.startswith("✗ relevance: 0 / 1 points")
    assert "Traceback" not in captured.out + captured.err


@pytest.mark.parametrize("answer, kind", [(None, "NoneType"), (3, "int"), ("relevance", "str"), ((1, 2), "tuple")])
def test_a_value_in_place_of_the_function_is_one_line(capsys, answer, kind):
    check("relevance", answer)
    out = capsys.readouterr().out
    assert 'check("relevance", relevance)' in out and kind in out and out.count("\n") == 1


def test_calls_without_arguments_say_how(capsys):
    check()
    check(right)
    hint()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1] and 'check("attend", attend)' in lines[0] and len(lines) == 3


def test_a_written_answer_has_no_check(capsys):
    check("03_w1", "text")
    hint("03_w1")
    assert capsys.readouterr().out.count("graded by your instructor") == 2


@pytest.mark.parametrize("call", ["check", "use", "judge"])
def test_a_check_inside_the_function_ends_and_says_so(capsys, call):
    def relevance(q, K):
        if call == "judge":
            autograder.judge("relevance", relevance)
        else:
            getattr(autograder, call)("relevance", relevance)
        return K @ q

    check("relevance", relevance)
    out = capsys.readouterr().out
    assert "called inside the function" in out and len(out) < 3000
    check("relevance", right)
    assert capsys.readouterr().out.startswith("✓")


@pytest.mark.parametrize("letter", ["b", "B", " b ", "(b)", "b.", "ｂ", "（Ｂ）", "b)", "b、"])
def test_letters_as_people_write_them(letter):
    assert autograder.judge("02_q1", letter).points == 1


@pytest.mark.parametrize("letter", ["e", "ab", "3", 3, ["b"], True, "最後一個"])
def test_what_is_no_letter_is_told_so(letter):
    verdict = autograder.judge("02_q1", letter)
    assert verdict.points == 0 and verdict.mistake is None and "a, b, c or d" in verdict.message("en")


class NoModule:
    def __init__(self, *sizes):
        pass


class NoWeights(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()


class OtherWeights(torch.nn.Module):
    bias = True

    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, *rest):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.RMSNorm(d_model), torch.nn.RMSNorm(d_model)
        self.w_q, kv = torch.nn.Linear(3, 2, bias=self.bias), n_kv_heads * d_model // n_heads
        for name, out, into in (
            ("w_k", kv, d_model), ("w_v", kv, d_model), ("w_o", d_model, d_model),
            ("w_gate", d_ff, d_model), ("w_up", d_ff, d_model), ("w_down", d_model, d_ff),
        ):  # fmt: skip
            setattr(self, name, torch.nn.Linear(into, out, bias=False))


class OtherShapes(OtherWeights):
    bias = False


def with_a_setting_changed(q, K):
    torch.set_default_dtype(torch.float64)
    return K @ q


def attends_by_torch(q, k, v, block_size, is_causal=False):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v), q[..., 0]


OURS = [
    ("relevance", with_a_setting_changed, "預設的 dtype"),
    ("relevance", lambda q, K: check("relevance", right), "請移到函式外面"),
    ("relevance", lambda q, K: (K @ q).to_sparse(), "而不是 torch.Tensor (3, torch.sparse_coo)"),
    ("relevance", lambda q, K: (K @ q).unsqueeze(0), "形狀"),
    ("sequential_steps", lambda n_tokens, n_layers=1: (n_tokens - 70_000, n_layers), "比正確值少 70,0"),
    ("sequential_steps", lambda n_tokens, n_layers=1: (n_tokens + 70_000, n_layers), "比正確值多 "),
    ("online_softmax", lambda m, s, x: (torch.maximum(m, x.amax(-1)).clamp(min=-1e9), s), "有限的數"),
    ("flash_forward", attends_by_torch, "這題不能使用"),
    ("relevance", lambda q, K: get("relevance").reference(q, K), "課程自己的 relevance"),
    ("llama_block", NoModule, "類別應該是 torch.nn.Module，而不是 NoModule"),
    ("llama_block", NoWeights, "缺少 norm1.weight"),
    ("llama_block", OtherWeights, "多了 w_q.bias"),
    ("llama_block", OtherShapes, "w_q.weight 的形狀應該是 [8, 8]，而不是 [2, 3]"),
]


@pytest.mark.parametrize(("name", "answer", "words"), OURS, ids=[words for _, _, words in OURS])
def test_what_the_course_says_in_chinese_is_chinese(capsys, name, answer, words):
    start("02_qkv", "zh-TW")
    check(name, answer)
    out = capsys.readouterr().out
    assert words in out
    assert not re.search(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}", out), out


def test_a_count_that_is_off_says_which_way():
    verdict = autograder.judge("sequential_steps", lambda n_tokens, n_layers=1: (n_tokens - 70_000, n_layers))
    assert "rnn is too small by 70,000." in verdict.message("en")


def test_a_forgotten_return_is_said_once(capsys):
    check("relevance", lambda q, K: None)
    out = capsys.readouterr().out
    assert "is a return missing?" in out and out.count("is a return missing?") <= 2 and "the same" in out


def test_only_float64_failing_closely_is_a_matter_of_precision():
    verdict = autograder.judge("relevance", lambda q, K: (K.float() @ q.float()).to(q.dtype))
    assert verdict.mistake == "lower_precision" and "float64" in verdict.message("en")


def test_a_missing_gradient_is_told_in_the_language():
    verdict = autograder.judge("relevance", lambda q, K: (K @ q).detach())
    text = next(case.difference for case in verdict.cases if case.difference)
    assert "cut off" in text["en"] and "斷開" in text["zh-TW"] and "cut off" not in text["zh-TW"]


def test_warnings_of_the_answer_are_not_blamed_on_ours(capsys, recwarn):
    check("relevance", lambda q, K: torch.tensor(K @ q))
    assert not recwarn.list


def test_an_unknown_name_suggests_a_near_one(capsys):
    check("relevanse", right)
    assert "relevance" in capsys.readouterr().out
    hint("nothing like it")
    assert capsys.readouterr().out.startswith("There is no exercise called")


def test_hints_come_one_by_one_and_start_again(capsys):
    hints = autograder.get("relevance").hints
    for i, text in enumerate(hints, start=1):
        hint("relevance")
        assert capsys.readouterr().out == f"({i}/{len(hints)}) {text['en']}\n"
    hint("relevance")
    assert "last hint" in capsys.readouterr().out
    hint("relevance")
    assert capsys.readouterr().out.startswith("(1/")


def test_the_courses_own_function_is_refused(capsys):
    check("relevance", autograder.get("relevance").reference)
    assert "course's own function" in capsys.readouterr().out


def test_use_takes_the_students_function_only_if_it_passes(capsys):
    assert use("relevance", right) is right
    assert "using your relevance" in capsys.readouterr().out
    assert use("relevance", stub) is autograder.get("relevance").reference
    assert (
        "the course's own\n" in (said := capsys.readouterr().out) and "→" not in said
    )  # not written: no reason needed
    assert use("relevance", columns) is autograder.get("relevance").reference
    said = capsys.readouterr().out
    assert "the course's own" in said and autograder.judge("relevance", columns).message("en") in said


def test_an_unknown_language_is_an_error():
    with pytest.raises(ValueError, match="zh-TW"):
        start("02_qkv", "de")


# ------------------------------------------------------------------------------------------------------- progress


def test_progress_lists_every_exercise_with_the_best_points_so_far(capsys):
    start("02_qkv", "en")
    check("relevance", lambda q, K: K @ q)
    check("relevance", lambda q, K: q)  # a later, worse one takes nothing away
    check("attend", lambda q, K, V: V[0])
    capsys.readouterr()
    progress()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == names("02_qkv")
    said = {line.split()[1]: line for line in lines[:-1]}
    assert said["relevance"].startswith("✓") and said["relevance"].endswith("1 / 1")
    assert said["attend"].startswith("✗") and said["attend"].endswith("0 / 2")
    assert said["project_qkv"].startswith("○") and said["project_qkv"].endswith("not checked yet")
    total = sum(get(name).points for name in names("02_qkv"))
    assert lines[-1] == f"So far: 1 / {total} points."


def test_progress_names_the_written_answer_where_there_is_one(capsys):
    sources = sorted((Path(autograder.__file__).parents[1] / "solutions").glob("[0-9][0-9]_*.py"))
    with_written = [path.stem for path in sources if " written=" in path.read_text(encoding="utf-8")]
    for lesson in {exercise.lesson for exercise in map(get, names())}:
        start(lesson, "zh-TW")
        progress()
        assert ("用文字作答" in capsys.readouterr().out) == (lesson in with_written), lesson


def test_progress_counts_the_exercises_of_its_own_lesson_only(capsys):
    start("03_sqrt_dk", "en")
    check("relevance", lambda q, K: K @ q)
    capsys.readouterr()
    progress()
    assert "So far: 0 / " in capsys.readouterr().out


def test_progress_starts_anew_with_each_lesson_and_needs_one(capsys, monkeypatch):
    start("02_qkv", "zh-TW")
    check("relevance", lambda q, K: K @ q)
    start("03_sqrt_dk", "zh-TW")
    capsys.readouterr()
    progress()
    assert "目前：0 / " in capsys.readouterr().out
    monkeypatch.setitem(sys.modules["autograder.check"]._state, "lesson", None)
    progress()
    assert capsys.readouterr().out == "請先執行設定儲存格。\n"


def the_picture(name, answer):
    return next(picture_of(get(name), autograder.judge(name, answer), 0), None)


def test_a_picture_of_true_and_false():
    def one_too_many(n, m, device=None):
        return torch.ones(n, m, dtype=torch.bool).tril(m - n + 1)

    _, mine, expected = the_picture("causal_mask", one_too_many)
    assert mine.shape == expected.shape and not torch.equal(mine, expected) and set(mine.unique().tolist()) <= {0, 1}


def test_no_picture_of_what_is_right():
    """y is right to the last digit, and what was changed, cut off or of another dtype shows in no picture of values."""
    reference = get("temperature_softmax").reference
    assert the_picture("temperature_softmax", lambda z, temperature: reference(z, temperature).detach()) is None
    assert the_picture("temperature_softmax", lambda z, temperature: reference(z, temperature).float()) is None


def test_the_picture_shows_the_matrix_that_is_wrong():
    a, b = torch.zeros(3, 2, 2, dtype=torch.float64), torch.zeros(3, 2, 2, dtype=torch.float64)
    b[2, 1, 0] = 1.0
    mine, expected = matrices_that_differ(a, b)
    assert torch.equal(mine, a[2]) and torch.equal(expected, b[2])
    assert matrices_that_differ(b, b + 1e-5) is None
    assert matrices_that_differ(torch.full((2, 2), torch.nan), torch.zeros(2, 2)) is not None


def test_a_forbidden_function_is_named_and_not_what_it_calls_itself():
    verdict = autograder.judge("softmax_jacobian", jacobian_by_autograd)
    assert [s.name for s in verdict.forbidden] == ["torch.autograd.functional.jacobian"]


def jacobian_by_autograd(p):
    return torch.autograd.functional.jacobian(lambda z: torch.softmax(z, -1), p.log())
