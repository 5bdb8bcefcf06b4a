"""What a student reads in a notebook or a terminal."""

import pytest
import torch

import autograder
from autograder import check, hint, start, use


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
    assert out.startswith("✗ relevance: ")


def test_not_started_is_no_error(capsys):
    check("relevance", stub)
    assert capsys.readouterr().out == "○ relevance: not started\n"
    start("02_qkv", "zh-TW")
    check("relevance", stub)
    assert capsys.readouterr().out == "○ relevance: 尚未作答\n"
    check("02_q1", "")
    assert "尚未作答" in capsys.readouterr().out


STRANGE = {
    "none": None,
    "number": 3,
    "class": dict,
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


def test_an_unknown_name_suggests_a_near_one(capsys):
    check("relevanse", right)
    assert "relevance" in capsys.readouterr().out
    hint("nothing like it")
    assert capsys.readouterr().out.startswith("There is no exercise of that name")


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
    assert use("relevance", columns) is autograder.get("relevance").reference
    assert "the course's own" in capsys.readouterr().out


def test_an_unknown_language_is_an_error():
    with pytest.raises(ValueError, match="zh-TW"):
        start("02_qkv", "de")
