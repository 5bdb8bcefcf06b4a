"""What a notebook calls: `check`, `hint`, `use`, `progress`, `start`. Text in plain Python; text and a small picture in a notebook."""

import re
import warnings
from typing import Any

from autograder.exercise import CaseResult, Exercise, Verdict, get, names, near_names
from autograder.judging import judge, picture_of
from autograder.observe import refuse_inside
from autograder.text import both, checked_language

_state: dict[str, Any] = {"language": "en", "lesson": None, "hints": {}, "best": {}}

NOT_STARTED = both("not started", "尚未作答")
POINTS = both("points", "分")
COLON = both(": ", "：")
FULL_STOP = both(".", "。")
NO_NAME = both("There is no exercise called {name!r}.", "沒有 {name!r} 這個練習。")
NEAR = both(" Did you mean {names}?", "你要找的是不是 {names}？")
WRITTEN = both(
    "Written answers are graded by your instructor: there is no automatic check.",
    "問答題由授課教師評分，沒有自動檢查。",
)
USAGE = both(
    'Write check("attend", attend): the name of the exercise, then your function.',
    '寫法：check("attend", attend)，先是練習的名稱，再來是你的函式。',
)
NOT_A_FUNCTION = both(
    'Pass the function itself, without brackets behind it: check("{name}", {name}). This is a value of type {kind}.',
    '請傳函式本身，後面不要加括號：check("{name}", {name})。現在傳進來的是 {kind} 型別的值。',
)
NOT_A_CLASS = both(
    "Pass the class itself, without brackets behind it. This is a value of type {kind}.",
    "請傳類別本身，後面不要加括號。現在傳進來的是 {kind} 型別的值。",
)
PICTURE = both(
    "Below: case “{label}”, yours on the left, as it should be on the right.",
    "下圖：情況「{label}」，左邊是你的，右邊是應有的樣子。",
)
SAME = both(" — the same", "：同上")
OWN_REFERENCE = both(
    "That is the course's own function. The exercise asks for yours.", "那是課程自己的函式，這題要請你自己寫。"
)
NO_MORE_HINTS = both(
    "That was the last hint. Start again from the first one by asking once more.",
    "提示都看完了，再呼叫一次會從第一則開始。",
)
NO_HINTS = both("There is no hint for this one.", "這題沒有提示。")
NO_LESSON = both("Run the set-up cell first.", "請先執行設定儲存格。")
NOT_CHECKED = both("not checked yet", "還沒檢查")
TOTAL = both("So far: {total:g} / {most:g} points", "目前：{total:g} / {most:g} 分")
WITH_WRITTEN = ("03_sqrt_dk", "06_residual_and_norm")  # the lessons with a question that is answered in words
NOT_WRITTEN_ONES = both(
    "Multiple-choice questions are in it; the question answered in words is not: your instructor grades it.",
    "選擇題已計入；用文字作答的那一題由授課教師評分，不在內。",
)
USING_YOURS = both("using your {name}", "使用你寫的 {name}")
USING_OURS = both(
    "your {name} does not pass its check yet: using the course's own", "你的 {name} 還沒通過檢查，先用課程的版本"
)
BROKEN = both(
    "The check itself failed ({why}). Your answer is not to blame; please report this.",
    "檢查程式本身出了問題（{why}），不是你的答案的錯，請回報。",
)


def start(lesson: str, language: str = "en") -> None:
    """Say which lesson is open and in which language to answer; the set-up cell of a lesson calls it.

    Raises:
        ValueError: for a language the course does not have.
    """
    _state.update(language=checked_language(language), lesson=lesson, hints={}, best={})


def check(name: str = "", answer: Any = USAGE, seed: int = 0) -> None:
    """Try an answer on all its cases and print the diagnosis, one line a case, and a small picture where it helps.

    Nothing is raised, whatever the answer does.

    Args:
        name: of the exercise, for example "attend".
        answer: the function (or the letter of a question).
        seed: of the inputs; another seed tries other numbers.
    """
    refuse_inside()
    language = _state["language"]
    if answer is USAGE or not isinstance(name, str):
        print(USAGE[language])
        return
    exercise = find(name)
    if exercise is None:
        return
    if exercise.driver == "function" and not callable(answer):
        print(NOT_A_FUNCTION[language].format(name=name, kind=type(answer).__name__))
        return
    if exercise.driver == "module" and not isinstance(answer, type):
        print(NOT_A_CLASS[language].format(kind=type(answer).__name__))
        return
    if answer is exercise.reference and callable(answer):
        print(OWN_REFERENCE[language])
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's warnings would point at our lines, not at the student's
            verdict = judge(name, answer, seed)
    except Exception as problem:  # ours, not the student's
        print(BROKEN[language].format(why=f"{type(problem).__name__}: {problem}"))
        return
    if verdict.written:
        _state["best"][name] = max(verdict.points, _state["best"].get(name, 0.0))
    print(report(exercise, verdict, language))
    if not verdict.passed and verdict.written and in_notebook():
        draw(exercise, verdict, seed, language)


def find(name: object) -> Exercise | None:
    """The exercise of that name; without one, a line that says so."""
    language = _state["language"]
    try:
        return get(str(name))
    except KeyError:
        if re.fullmatch(r"\d\d_w\d+", str(name)):
            print(WRITTEN[language])
            return None
        near = ("、" if language == "zh-TW" else ", ").join(near_names(str(name)))
        print(NO_NAME[language].format(name=name) + (NEAR[language].format(names=near) if near else ""))
        return None


def report(exercise: Exercise, verdict: Verdict, language: str) -> str:
    """The text of a check."""
    if not verdict.written:
        return f"○ {exercise.name}{COLON[language]}{NOT_STARTED[language]}"
    mark = "✓" if verdict.passed else "✗"
    won = f"{verdict.points:g} / {verdict.max_points:g} {POINTS[language]}"
    lines = [f"{mark} {exercise.name}{COLON[language]}{won}"]
    if not verdict.passed or exercise.driver != "letter":
        lines.append(f"→ {verdict.message(language)}")
    if exercise.driver != "letter":
        said = ""
        for case in verdict.cases:
            more = detail(case, language)
            lines.append(
                f"  {'✓' if case.passed else '✗'} {case.label[language]}{SAME[language] if more and more == said else more}"
            )
            said = more or said
    return "\n".join(lines)


def detail(case: CaseResult, language: str) -> str:
    """What differs in a case, unless the diagnosis above has said it."""
    if case.unexplained is None:
        return ""
    return f" — {case.unexplained[language]}" if language == "en" else f"：{case.unexplained[language]}"


def hint(name: str = "") -> None:
    """Print the next hint of an exercise, from a nudge to nearly there."""
    language = _state["language"]
    exercise = find(name)
    if exercise is None:
        return
    hints = exercise.hints
    if not hints:
        print(NO_HINTS[language])
        return
    shown = _state["hints"].get(name, 0)
    if shown == len(hints):
        _state["hints"][name] = 0
        print(NO_MORE_HINTS[language])
        return
    _state["hints"][name] = shown + 1
    print(f"({shown + 1}/{len(hints)}) {hints[shown][language]}")


def use(name: str, answer: Any) -> Any:
    """The student's function if it passes its check, else the course's own; says which, and of a wrong one what is wrong.

    An experiment calls it, so that a lesson runs to its end however much of it is solved.

    Raises:
        KeyError: if there is no such exercise.
    """
    refuse_inside()
    language = _state["language"]
    exercise = get(name)
    try:
        verdict = judge(name, answer)
    except Exception:  # whatever is wrong with the answer, the experiment goes on
        verdict = None
    if verdict is not None and verdict.passed:
        print(USING_YOURS[language].format(name=name))
        return answer
    print(USING_OURS[language].format(name=name))
    if verdict is not None and verdict.written:
        print(f"→ {verdict.message(language)}")
    return exercise.reference


def progress() -> None:
    """Print the exercises of the lesson with the most points that a check has given each since the notebook was started.

    It is kept in memory only, and is no grade: the notebook is run again for that.
    """
    language = _state["language"]
    if _state["lesson"] is None or not names(_state["lesson"]):
        print(NO_LESSON[language])
        return
    rows = []
    for name in names(_state["lesson"]):
        points, most = _state["best"].get(name), get(name).points
        mark = "○" if points is None else "✓" if points == most else "✗"
        said = NOT_CHECKED[language] if points is None else f"{points:g} / {most:g}"
        rows.append(f"{mark} {name:32} {said}")
    lesson = names(_state["lesson"])
    total, most = sum(_state["best"].get(name, 0.0) for name in lesson), sum(get(name).points for name in lesson)
    rows.append(TOTAL[language].format(total=total, most=most) + FULL_STOP[language])
    if _state["lesson"] in WITH_WRITTEN:
        rows.append(NOT_WRITTEN_ONES[language])
    print("\n".join(rows))


def in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def draw(exercise: Exercise, verdict: Verdict, seed: int, language: str) -> None:
    """Yours beside the expected matrix, for the first case that failed."""
    try:
        from IPython.display import display
        from matplotlib import pyplot

        from course_lib.plots import compare_matrices

        for label, mine, expected in picture_of(exercise, verdict, seed):
            print(PICTURE[language].format(label=label[language]))
            figure = compare_matrices(mine, expected)
            display(figure)
            pyplot.close(figure)
    except Exception as problem:  # a picture must never stand in the way of the words
        print(f"({type(problem).__name__}: {problem})")
