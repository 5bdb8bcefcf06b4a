"""Decide what an answer is worth: compare what it did with what the reference does, and name the mistake.

Only the course's own code runs here. What the student's code did comes in as `Observation`s, so the same decision is
made in a notebook (`judge`) and for a submission whose answers ran in a sandbox (`decide`).
"""

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from autograder.cases import at, calls, leaf_paths, prepared
from autograder.comparison import compare, compare_part
from autograder.diagnosis import LOWER_PRECISION, diagnose, main_mistake
from autograder.exercise import CaseResult, Exercise, Verdict, get
from autograder.guard import forbidden_in_source
from autograder.observe import Observation, observe, refuse_inside
from autograder.syntax import parsed
from autograder.text import Text, both
from autograder.watch import UNSEEN, Sighting


def judge(name: str, answer: Any, seed: int = 0) -> Verdict:
    """Judge an answer in plain Python.

    Args:
        name: of the exercise.
        answer: the student's function, or the letter of a question.
        seed: of the inputs.

    Returns:
        A `Verdict` with points, the recognised mistake and a sentence in both languages.

    Raises:
        KeyError: if there is no such exercise.

    Example:
        >>> from autograder import judge
        >>> judge("relevance", lambda q, K: q @ K).mistake
        'columns_of_K'
    """
    refuse_inside()
    exercise = get(name)
    if answer is exercise.reference:  # the course's own tests hand it in; a notebook's check refuses it by name
        guards: tuple[Any, ...] = exercise.forbidden
    else:
        guards = guards_of(exercise)
    observations = [observe(answer, call, exercise.driver, guards) for call in calls(exercise, seed)]
    in_source = () if answer is exercise.reference else sightings_in(answer, exercise)
    return decide(exercise, observations, seed, in_source)


def guards_of(exercise: Exercise) -> tuple[Any, ...]:
    """What must not be called while an answer runs: the forbidden built-ins and the reference itself."""
    reference = exercise.reference
    if exercise.driver == "module":
        return (*exercise.forbidden, reference.__init__, reference.forward)
    return (*exercise.forbidden, reference) if inspect.isfunction(reference) else exercise.forbidden


def sightings_in(answer: Any, exercise: Exercise) -> list[Sighting]:
    """Forbidden names in the source of an answer and of what it uses of its file or cell, with the lines of that.

    The same rule as in grading: a comparison beside the answer costs nothing.
    """
    # A notebook's class has no source of its own that Python finds; its methods have.
    functions = list(filter(inspect.isfunction, vars(answer).values())) if isinstance(answer, type) else [answer]
    found: list[Sighting] = []
    for function in functions:
        try:
            lines, first = inspect.getsourcelines(function)
            everything = "".join(inspect.findsource(function)[0])
        except (OSError, TypeError):
            continue
        owner = answer.__name__ if isinstance(answer, type) else getattr(function, "__name__", "")
        catalogue = str(function.__module__).startswith("autograder.")  # a known mistake: its file is no notebook
        if not catalogue and stands_at_the_top(owner, first, everything):
            found += forbidden_in_source(everything, exercise.forbidden, answers=[owner])
            continue
        found += [replace(s, line=s.line + first - 1) for s in forbidden_in_source("".join(lines), exercise.forbidden)]
    return list(dict.fromkeys(found))


def stands_at_the_top(name: str, line: int, source: str) -> bool:
    """Whether the function or class of that name, around that line, is one of a file's or cell's own, not of a function."""
    tree = parsed(source)
    return tree is not None and any(
        isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.name == name
        and min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= (node.end_lineno or 0)
        for node in tree.body
    )


def decide(
    exercise: Exercise, observations: Sequence[Observation], seed: int, in_source: Sequence[Sighting] = ()
) -> Verdict:
    """The verdict on what an answer did, one observation per case.

    Args:
        observations: in the order of the cases; a missing one counts as failed.
        seed: the one the calls were drawn from.
        in_source: forbidden names found in the answer's source.
    """
    prepared_cases = [prepared(exercise, case, seed) for case in exercise.cases]
    if observations and all(o.not_written for o in observations):
        return Verdict(exercise.name, 0.0, exercise.points, written=False, sentence=both("Not started.", "尚未作答。"))
    sightings = once_a_line(in_source, [s for o in observations for s in o.forbidden])
    differences = [
        compare(exercise, p, o) for p, o in zip(prepared_cases, [*observations, *[MISSING] * len(exercise.cases)])
    ]
    everyday = [i for i, case in enumerate(exercise.cases) if not (case.trap or case.raises)]
    # To refuse everything is no answer, nor is what is right for one number only.
    if everyday and all(differences[i] for i in everyday):
        differences = [d if i in everyday else d or NOT_YET for i, d in enumerate(differences)]
    total = sum(case.weight for case in exercise.cases)
    shares = [exercise.points * case.weight / total for case in exercise.cases]
    failed = [i for i, difference in enumerate(differences) if difference is not None]
    named = diagnose(exercise, prepared_cases, observations, failed, seed)
    mistake = None if sightings else main_mistake(named, failed, shares)
    points = round(sum(share for i, share in enumerate(shares) if i not in failed), 2)
    explained = set(failed) if sightings else {i for i in failed if mistake is not None and named.get(i) == mistake}
    if sightings:
        points, sentence = 0.0, forbidden_sentence(sightings)
    elif not failed:
        points, sentence = float(exercise.points), both("All cases pass.", "所有情況都通過。")
    elif mistake is not None:
        sentence = next(m.message for m in (*exercise.mistakes, LOWER_PRECISION) if m.name == mistake)
    else:
        label, what = exercise.cases[failed[0]].label, differences[failed[0]] or {}
        sentence = (
            what
            if exercise.driver == "letter"
            else both(f"Case “{label['en']}”: {what['en']}", f"情況「{label['zh-TW']}」：{what['zh-TW']}")
        )
        explained = {failed[0]}
    results = tuple(
        CaseResult(
            case.name, case.label, i not in failed, 0.0 if i in failed else shares[i], differences[i], named.get(i),
            i in explained,
        )
        for i, case in enumerate(exercise.cases)
    )  # fmt: skip
    return Verdict(
        exercise.name, points, exercise.points, results, mistake, sightings, True, sentence, tuple(observations)
    )


def once_a_line(in_source: Sequence[Sighting], in_calls: Sequence[Sighting]) -> tuple[Sighting, ...]:
    """Neither the module of a forbidden function is named beside it, nor what it calls itself."""
    lines = {s.line for s in in_source if s.line}
    found = dict.fromkeys([*in_source, *(s for s in in_calls if s.line not in lines)])
    return tuple(s for s in found if not any(o.line == s.line and o.name.startswith(f"{s.name}.") for o in found))


MISSING = Observation(error="no result")
NOT_YET = both("it counts once an everyday case passes.", "一般情況有一個通過之後才計分。")


def forbidden_sentence(sightings: Sequence[Sighting]) -> Text:
    def line(s: Sighting, name: str, word: str) -> str:
        return name + (word.format(s.line) if s.line else "")

    en = ", ".join(line(s, s.name, " (line {})") for s in sightings)
    chinese = {"the course's own ": "課程自己的 ", UNSEEN: "（評分程式看不到它裡面執行了什麼）"}
    zh = "、".join(
        line(s, reduce(lambda name, words: name.replace(*words), chinese.items(), s.name), "（第 {} 行）")
        for s in sightings
    )
    return both(
        f"Not allowed in this exercise: {en}. It gets no points until that is gone.",
        f"這題不能使用：{zh}。移除之後才會計分。",
    )


def picture_of(exercise: Exercise, verdict: Verdict, seed: int) -> Iterator[tuple[Text, Tensor, Tensor]]:
    """The first failed case whose difference a small picture can show: its label, yours and the expected matrix."""
    for i, result in enumerate(verdict.cases):
        if result.passed or i >= len(verdict.observations):
            continue
        case = prepared(exercise, exercise.cases[i], seed)
        for path in leaf_paths(case.exact.value):
            mine, right = at(verdict.observations[i].value, path), at(case.exact.value, path)
            if not (isinstance(mine, Tensor) and isinstance(right, Tensor)) or mine.ndim < 2 or right.ndim < 2:
                continue
            if compare_part(exercise, case, mine, path, "", None) is None:
                continue  # what is wrong is another part, a gradient, or an input that was changed
            pair = matrices_that_differ(mine.cpu().double(), right.double())
            if pair is not None:
                yield result.label, *pair
                return


def matrices_that_differ(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """The first matrix of each where the eye sees a difference; none where it would not, or the matrix is too large."""
    if a.shape == b.shape:
        finite = b[b.isfinite()].abs()
        visible = 1e-3 * float(finite.max()) if finite.numel() else 0.0
        wrong = ~torch.isclose(a, b, rtol=1e-3, atol=visible, equal_nan=True)
        if not bool(wrong.any()):
            return None
        index = tuple(wrong.nonzero()[0, :-2].tolist())
        a, b = a[index], b[index]
    else:
        a, b = first_matrix(a), first_matrix(b)
    return (a, b) if min(*a.shape, *b.shape) > 0 and max(*a.shape, *b.shape) <= 16 else None


def first_matrix(x: Tensor) -> Tensor:
    while x.ndim > 2 and len(x):
        x = x[0]
    return x if x.ndim == 2 else x.new_empty(0, 0)
