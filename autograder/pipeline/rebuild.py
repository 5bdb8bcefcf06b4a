"""The canonical notebook: a student's answers and own cells in the frame of the released notebook."""

from __future__ import annotations

import ast
import builtins
import copy
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.pipeline.drafts import (
    Cell,
    Draft,
    _normal,
    constants,
    is_stub,
    names_of,
    nearly_equal,
    parsed,
    remembered,
    statement,
)
from autograder.pipeline.pile import CollectError, lesson_in

# ---------------------------------------------------------------------------------------------------------------------
# Released lessons
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A cell of the released notebook that the student fills: code that binds `names`, or a written answer."""

    index: int
    label: str
    names: frozenset[str]
    written: bool


@dataclass(frozen=True)
class Frame:
    """A released notebook and where its parts are."""

    lesson: str
    language: str
    release: str
    notebook: NotebookNode
    slots: tuple[Slot, ...]
    checks: tuple[int, ...]
    by_grade_id: dict[str, int]
    by_id: dict[str, int]
    student_id: str  # what the set-up cell is released with, in case that is not empty

    def runs(self, index: int) -> bool:
        """Set-up and check cells run when graded; demonstrations and experiments do not."""
        cell = self.notebook.cells[index]
        tags = cell.metadata.get("tags", [])
        return cell.cell_type == "code" and (index in self.checks or "setup" in tags or cell.id == "setup")


def load_frames(lessons: Path) -> dict[str, dict[str, Frame]]:
    """Released notebooks by lesson and language, from lessons/<language>/NN_name.ipynb."""
    frames: dict[str, dict[str, Frame]] = defaultdict(dict)
    for path in sorted(lessons.glob("*/*.ipynb")):
        try:
            frame = make_frame(nbformat.read(path, as_version=4), path)
        except Exception as error:  # our own file: whatever is wrong with it, the instructor must know which one
            raise CollectError(f"the released notebook {path.name} cannot be read ({type(error).__name__})") from None
        frames[frame.lesson][frame.language] = frame
    if not frames:
        raise CollectError(f"there are no released notebooks in {lessons}; make them with `make build`")
    return dict(frames)


def make_frame(notebook: NotebookNode, path: Path) -> Frame:
    course = notebook.metadata.get("course", {})
    slots, checks, by_grade_id, by_id, student_id = [], [], {}, {}, ""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            student_id = student_id or constants(cell.source).get("STUDENT_ID", "")
        by_id[cell.get("id", "")] = index
        nbgrader = cell.metadata.get("nbgrader", {})
        if not nbgrader.get("grade_id"):
            continue
        by_grade_id[nbgrader.grade_id] = index
        if nbgrader.get("solution"):
            names = names_of(cell.source).defined if cell.cell_type == "code" else frozenset[str]()
            label = nbgrader.grade_id.removeprefix("answer-")
            slots.append(Slot(index, label, names, cell.cell_type == "markdown"))
        elif nbgrader.get("grade"):
            checks.append(index)
    by_id.pop("", None)
    return Frame(
        course.get("lesson") or path.stem,
        course.get("language") or path.parent.name,
        course.get("release") or "",
        notebook,
        tuple(slots),
        tuple(checks),
        by_grade_id,
        by_id,
        student_id,
    )


Frames = dict[str, dict[str, Frame]]


def forget_given_points(drafts: Sequence[Draft], frames: Frames) -> None:
    """Take the points of check cells as handed in for no change where they are those of the notebooks that a class was given.

    These are another release's, or an earlier build's: what at least half of the files have, and more than one.
    """
    now = {frame.release for languages in frames.values() for frame in languages.values()}
    holders: dict[str, Counter[float | None]] = defaultdict(Counter)
    for draft in drafts:
        for cell in {(cell.grade_id, cell.points): cell for cell in draft.cells if cell.grade_id}.values():
            holders[cell.grade_id][cell.points] += 1

    def given(cell: Cell) -> bool:
        count = holders[cell.grade_id]
        return count[cell.points] > 1 and 2 * count[cell.points] >= count.total()

    for draft in drafts:
        other = draft.course.get("release") not in {None, "", *now}
        draft.cells = [replace(cell, points=None) if other or given(cell) else cell for cell in draft.cells]


def choose_lesson(draft: Draft, frames: Frames) -> str | None:
    """The lesson that the notebook declares, else its file name mentions, else its answers fit best."""
    declared = draft.course.get("lesson", "")
    if declared in frames:
        return declared
    if not declared and (named := lesson_in(draft.name, frames) or lesson_in("/".join(draft.file.path[:-1]), frames)):
        return named
    found = {key for cell in draft.cells for key in (cell.grade_id, *cell.ids)}
    defined = {name for cell in draft.cells if cell.kind == "code" for name in names_of(cell.source).defined}
    scores = {}
    for lesson, languages in frames.items():
        frame = next(iter(languages.values()))
        slots = {slot.index for slot in frame.slots}
        keys = {
            key for key, index in (frame.by_grade_id | frame.by_id).items() if index in slots or index in frame.checks
        }
        scores[lesson] = len(keys & found) + sum(bool(slot.names & defined) for slot in frame.slots)
    best = max(scores.values())
    leaders = [lesson for lesson, score in scores.items() if score == best]
    return leaders[0] if best and len(leaders) == 1 else None


def choose_language(draft: Draft, languages: dict[str, Frame]) -> str:
    declared = draft.course.get("language", "")
    if declared in languages:
        return declared
    text = "".join(cell.source for cell in draft.cells if cell.kind == "markdown")
    text = text or "".join(cell.source for cell in draft.cells)
    letters = sum(char.isalpha() for char in text)
    han = len(re.findall(r"[\u3400-\u9fff]", text))
    guess = "zh-TW" if han > 0.15 * max(letters, 1) else "en"
    return guess if guess in languages else min(languages)


def names_lesson(draft: Draft, frames: Frames) -> bool:
    """Whether a file says itself, or by its name, for which lesson it is."""
    return draft.course.get("lesson") in frames or lesson_in(draft.name, frames) is not None


# ---------------------------------------------------------------------------------------------------------------------
# The canonical notebook
# ---------------------------------------------------------------------------------------------------------------------


def all_of(cell: NotebookNode) -> str:
    """What stands in a cell, for comparing: its text and the pictures pasted into it, whatever these are called."""
    source, pictures = str(cell.source), cell.get("attachments")
    return f"{source}\0{json.dumps(pictures, sort_keys=True)}" if pictures else source


@dataclass
class Own:
    """A code cell of the student's own; it goes in after the released cell `anchor` (-1: before all)."""

    anchor: int
    order: tuple[int, int]
    source: str


@dataclass
class Rebuilt:
    """`absent`: exercises and written answers of which the submission has no cell at all, neither answer nor check."""

    notebook: NotebookNode
    repairs: list[str]
    notes: list[str]
    absent: tuple[str, ...]


def rebuild(frame: Frame, cells: Sequence[Cell], kept: bool = False) -> Rebuilt:
    """The released notebook with the student's answers and own cells in it.

    With `kept` the cells are those of a notebook that came out of here: what were own cells stay so, where they are.
    """
    in_place = own_in_place(frame, cells) if kept else []
    if kept:
        cells = [replace(cell, position=n) for n, cell in enumerate(cell for cell in cells if not is_placed(cell))]
    matches = match_cells(frame, cells)
    answers, how = choose_answers(frame, cells, matches)
    written, written_repairs, lost_text = choose_written(frame, cells, matches)
    own, edited = own_cells(frame, cells, matches, answers)
    own += in_place
    moved = 0 if kept else hoist(frame, answers, own)
    rescued = rescue(frame, answers, own, edited)

    released = [copy.deepcopy(cell) for cell in frame.notebook.cells]
    first_slot: dict[int, Slot] = {}
    for slot in frame.slots:
        if slot.index in answers:
            cell = answers[slot.index]
            if cell.position in first_slot:  # one cell answers several: the stub here must not undo it
                released[slot.index].source = f"# Answered in the cell of {first_slot[cell.position].label}."
            else:
                first_slot[cell.position] = slot
                released[slot.index].source = cell.source
        elif slot.index in written:
            chosen = written[slot.index]
            released[slot.index].source = "\n\n".join(cell.source for cell in chosen)
            images = {name: {kind: data} for cell in chosen for name, kind, data in cell.attachments}
            if images:
                released[slot.index].attachments = nbformat.from_dict(images)

    result: list[NotebookNode] = []
    waiting = sorted(own, key=lambda item: (item.anchor, item.order))
    for index in range(-1, len(released)):
        result += released[index : index + 1] if index >= 0 else []
        for item in waiting:
            if item.anchor == index:
                result.append(new_code_cell(item.source, metadata={"tags": ["student"]}))
    for number, node in enumerate([node for node in result if node.metadata.get("tags") == ["student"]], start=1):
        node["id"] = f"own-{number}"
    notebook = copy.deepcopy(frame.notebook)
    notebook.cells = result
    notebook.nbformat, notebook.nbformat_minor = 4, 5

    repairs = how + written_repairs + check_repairs(frame, cells, matches)
    repairs += [f"{moved} own cells moved up to the answers that need them"] if moved else []
    repairs += [f"kept from edited course cells: {first_of(rescued[0])}"] if rescued[0] else []
    notes = [f"taken from demonstration cells: {first_of(rescued[1])}"] if rescued[1] else []
    notes += [f"{len(edited)} edited course cells replaced by the released ones"] if edited else []
    notes += [f"{lost_text} text cells beside written answers left out"] if lost_text else []
    return Rebuilt(notebook, repairs, notes, absent_exercises(frame, matches, {*answers, *written}))


def first_of(names: Sequence[str], most: int = 20) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def absent_exercises(frame: Frame, matches: dict[int, int], answered: set[int]) -> tuple[str, ...]:
    present = set(matches.values())
    checked = {frame.notebook.cells[index].metadata.nbgrader.grade_id for index in present & set(frame.checks)}
    return tuple(
        slot.label
        for slot in frame.slots
        if slot.index not in present and slot.index not in answered and slot.label not in checked
    )


def match_cells(frame: Frame, cells: Sequence[Cell]) -> dict[int, int]:
    """Position of a cell -> index of the released cell it stems from: by grade_id, id, equal text, nearly equal text."""
    matches: dict[int, int] = {}
    for cell in cells:
        if cell.grade_id in frame.by_grade_id:
            matches[cell.position] = frame.by_grade_id[cell.grade_id]
        else:
            known = [frame.by_id[key] for key in cell.ids if key in frame.by_id]
            if known:
                matches[cell.position] = known[0]

    released = frame.notebook.cells
    by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, cell in enumerate(released):
        by_text[cell.cell_type, _normal(cell.source)].append(index)
    used, last = set(matches.values()), -1
    for cell in cells:
        if cell.position not in matches:
            same = by_text.get((cell.kind, _normal(cell.source)), [])
            if same:  # the same text may stand in several released cells: the next free one in order
                free = [index for index in same if index not in used] or same
                matches[cell.position] = next((index for index in free if index > last), free[0])
                used.add(matches[cell.position])
        last = matches.get(cell.position, last)

    slots = {slot.index for slot in frame.slots}
    plain = [index for index, cell in enumerate(released) if cell.cell_type == "code" and index not in slots]
    for cell in cells:
        if cell.position in matches or cell.kind != "code":
            continue
        if "LESSON" in constants(cell.source) and "setup" in frame.by_id:
            matches[cell.position] = frame.by_id["setup"]
            continue
        call = re.match(r"\s*check\(\s*[\"'](\w+)[\"'].*\)\s*\Z", cell.source)
        if call and call[1] in frame.by_grade_id:
            matches[cell.position] = frame.by_grade_id[call[1]]
            continue
        near = next((index for index in plain if nearly_equal(cell.source, released[index].source)), None)
        if near is not None:
            matches[cell.position] = near
    return matches


def gap(frame: Frame, cells: Sequence[Cell], matches: dict[int, int], index: int, kind: str) -> list[Cell]:
    """Cells of a kind that stem from nothing released, between the neighbours of a released cell. May be empty."""
    before = [(at, position) for position, at in matches.items() if at < index]
    nearest = max((at for at, _ in before), default=-1)
    low = max((position for at, position in before if at == nearest), default=-1)
    after = [(at, position) for position, at in matches.items() if at > index and position > low]
    high = min(after)[1] if after else len(cells)
    return [cell for cell in cells[low + 1 : high] if cell.kind == kind and cell.position not in matches]


def choose_answers(frame: Frame, cells: Sequence[Cell], matches: dict[int, int]) -> tuple[dict[int, Cell], list[str]]:
    """Released answer cell -> the cell that answers it, and what was unusual about finding it.

    What running the notebook from top to bottom leaves defined is what counts: the last cell that binds the answer's
    name and is not a stub. If none binds it, the cell that carries the tag or stands in its place is taken, so that
    the student is told what is wrong with it.
    """
    answers: dict[int, Cell] = {}
    slots = [slot for slot in frame.slots if not slot.written]
    indices = {slot.index for slot in slots}
    by_name, several, text_cells, absent = [], [], [], []
    functions = {name for cell in cells if cell.kind == "code" for name in functions_in(cell.source)}

    for slot in slots:
        binding = []
        for cell in cells:
            at = matches.get(cell.position)
            # A demonstration that binds the name in the release too is no answer, however it was edited.
            course_binds = (
                at is not None and at not in indices and slot.names & names_of(frame.notebook.cells[at].source).defined
            )
            if cell.kind == "code" and slot.names & names_of(cell.source).defined and not course_binds:
                binding.append(cell)
        real = [cell for cell in binding if not is_stub(cell.source, slot.names)]
        if functions_in(frame.notebook.cells[slot.index].source) & slot.names:
            # `relevance = q @ K.T` in a try of one's own is a number's name, no newer answer.
            real = [cell for cell in real if gives_function(cell.source, slot.names, functions)] or real
        if real:
            answers[slot.index] = real[-1]
            if matches.get(real[-1].position) != slot.index:
                by_name.append(slot.label)
            if len(real) > 1:
                several.append(slot.label)

    used = {cell.position for cell in answers.values()}
    for slot in slots:
        if slot.index in answers:
            continue
        tagged = [cell for cell in cells if matches.get(cell.position) == slot.index and cell.position not in used]
        code = [cell for cell in tagged if cell.kind == "code"]
        changed = [cell for cell in code if not is_stub(cell.source, slot.names) or cell.source.strip() == ""]
        changed = changed or [cell for cell in code if not slot.names & names_of(cell.source).defined]
        nearby = [cell for cell in gap(frame, cells, matches, slot.index, "code") if cell.position not in used]
        if changed:
            answers[slot.index] = changed[-1]
        elif not tagged and len(nearby) == 1:
            answers[slot.index] = nearby[0]
            by_name.append(slot.label)
        elif tagged and not code:
            text_cells.append(slot.label)
        elif not tagged:
            absent.append(slot.label)
        if slot.index in answers:
            used.add(answers[slot.index].position)

    repairs = []
    if by_name:
        repairs.append(f"answers found by name or place: {', '.join(by_name)}")
    if several:
        repairs.append(f"several versions, the last one taken: {', '.join(several)}")
    if text_cells:
        repairs.append(f"answer cells turned into text: {', '.join(text_cells)}")
    if absent:
        repairs.append(f"answer cells missing: {', '.join(absent)}")
    return answers, repairs


@remembered
def functions_in(source: str) -> set[str]:
    """Names that a cell defines as functions or classes."""
    tree = parsed(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} if tree else set()


def gives_function(source: str, names: frozenset[str], functions: set[str]) -> bool:
    """Whether a cell binds one of these names to what may be called: not if all it gives them is the value of a formula.

    Args:
        source: of the cell.
        names: of the answer.
        functions: that the notebook defines; another name for one of them, or what is made of one, may be called too.
    """
    tree = parsed(source)
    if tree is None or functions_in(source) & names:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and (node.asname or node.name) in names:
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets):
            value = node.value
            handed = [*value.args] if isinstance(value, ast.Call) else [value]
            if isinstance(value, ast.Lambda) or any(isinstance(a, ast.Name) and a.id in functions for a in handed):
                return True
    return False


def choose_written(
    frame: Frame, cells: Sequence[Cell], matches: dict[int, int]
) -> tuple[dict[int, list[Cell]], list[str], int]:
    """Released written cell -> the cells that answer it; what was unusual; how many text cells beside are left out."""
    chosen: dict[int, list[Cell]] = {}
    moved, absent, lost = [], [], set()
    slots = [slot for slot in frame.slots if slot.written]
    open_slots = []
    for slot in slots:
        placeholder = _normal(frame.notebook.cells[slot.index].source)
        tagged = [cell for cell in cells if matches.get(cell.position) == slot.index]
        filled = [cell for cell in tagged if _normal(cell.source) not in ("", placeholder)]
        if filled:
            chosen[slot.index] = filled[-1:]
            lost |= {cell.position for cell in gap(frame, cells, matches, slot.index, "markdown")}
            lost |= {cell.position for cell in filled[:-1]}
        else:
            open_slots.append((slot, bool(tagged)))

    taken: set[int] = set()
    for number, (slot, present) in enumerate(open_slots):
        free = [
            cell
            for cell in gap(frame, cells, matches, slot.index, "markdown")
            if cell.position not in taken and cell.source.strip()
        ]
        following = [
            other
            for other, _ in open_slots[number + 1 :]
            if {c.position for c in gap(frame, cells, matches, other.index, "markdown")} & {c.position for c in free}
        ]
        use = free[:1] if following else free
        if use:
            chosen[slot.index] = use
            taken |= {cell.position for cell in use}
            moved.append(slot.label)
        elif not present:
            absent.append(slot.label)
    repairs = [f"written answers found beside their cells: {', '.join(moved)}"] if moved else []
    repairs += [f"written cells missing: {', '.join(absent)}"] if absent else []
    return chosen, repairs, len(lost - taken)


def is_placed(cell: Cell) -> bool:
    """Whether a cell has an id that `rebuild` gives to own cells."""
    return any(re.fullmatch(r"own-[0-9]+", id) for id in cell.ids)


def own_in_place(frame: Frame, cells: Sequence[Cell]) -> list[Own]:
    """The own cells of a notebook that was rebuilt, each after the released cell behind which it stands."""
    own, current = [], -1
    for cell in cells:
        if is_placed(cell):
            own.append(Own(current, (cell.position, 0), cell.source))
        current = next((frame.by_id[key] for key in cell.ids if key in frame.by_id), current)
    return own


def own_cells(
    frame: Frame, cells: Sequence[Cell], matches: dict[int, int], answers: dict[int, Cell]
) -> tuple[list[Own], list[str]]:
    """The student's own code cells with their places, and the sources of course cells that were edited."""
    slots = {slot.index: slot for slot in frame.slots}
    winners: dict[int, list[int]] = defaultdict(list)
    for index, cell in answers.items():
        winners[cell.position].append(index)
    tagged = set(matches.values())
    course = statements_of(frame) if any(cell.of_script for cell in cells) else set()
    own, edited, current = [], [], -1
    for cell in cells:
        at = matches.get(cell.position)
        loser_of = [
            slot
            for slot in slots.values()
            if slot.index in answers and slot.names & names_of(cell.source).defined and cell.kind == "code"
        ]
        if cell.position in winners:
            # An answer without tags marks its place only where no tagged cell does.
            at = at if at is not None else next((i for i in sorted(winners[cell.position]) if i not in tagged), None)
        # A cell of comments alone is kept as well: whoever counts own cells in the notebook counts it.
        elif cell.kind == "code" and (_has_code(cell.source) or (at is None and cell.source.strip())):
            released = frame.notebook.cells[at] if at is not None else None
            if at is None or (at in slots and not slots[at].written):
                # Only the unanswered answer, nothing else that the student wrote.
                stub = any(
                    is_stub(cell.source, slot.names) and names_of(cell.source).defined <= slot.names
                    for slot in slots.values()
                )
                source = without_statements(cell.source, course) if cell.of_script else cell.source
                if not stub and source.strip():
                    # An older version stays before the newer one, or it would undo it.
                    anchor = min([current, *(slot.index - 1 for slot in loser_of)])
                    own.append(Own(anchor, (cell.position, 0), source))
            elif released is not None and at not in slots and _normal(released.source) != _normal(cell.source):
                if at not in frame.checks and released.get("id") != "setup":
                    edited.append(cell.source)
                elif names_of(cell.source).defined - names_of(released.source).defined:
                    edited.append(cell.source)  # an import or a helper written into the set-up cell, say
        current = at if at is not None else current
    return own, edited


def statements_of(frame: Frame) -> set[str]:
    """What the course's own code cells consist of, answers aside."""
    slots = {slot.index for slot in frame.slots}
    code = [cell.source for i, cell in enumerate(frame.notebook.cells) if cell.cell_type == "code" and i not in slots]
    trees = [(source.split("\n"), parsed(source)) for source in code]
    return {_normal(statement(lines, node)) for lines, tree in trees if tree for node in tree.body}


def without_statements(source: str, course: set[str]) -> str:
    """A piece of a script without the course's own statements in it: where its cells end, a script does not say."""
    tree, lines = parsed(source), source.split("\n")
    left = list(lines)
    for node in {(node.lineno, node.end_lineno): node for node in (tree.body if tree else [])}.values():
        text = statement(lines, node)
        if _normal(text) in course:
            end = node.end_lineno or node.lineno
            start = end - text.count("\n") - 1
            left[start:end] = [""] * (end - start)
    return source if left == lines else "\n".join(left).strip("\n")


def _has_code(source: str) -> bool:
    return any(line.strip() and not line.strip().startswith("#") for line in source.splitlines())


def _defined_before(frame: Frame, answers: dict[int, Cell], own: list[Own], index: int) -> set[str]:
    """Names bound when the check after the answer cell `index` runs; cells right after the answer count."""
    sources = [frame.notebook.cells[i].source for i in range(index) if frame.runs(i)]
    sources += [cell.source for at, cell in answers.items() if at <= index]
    sources += [item.source for item in own if item.anchor <= index]
    return {name for source in sources for name in names_of(source).defined}


def hoist(frame: Frame, answers: dict[int, Cell], own: list[Own]) -> int:
    """Move own cells up to the answers that need them: an import or helper that stood above an answer in a new cell.

    Only cells that bind a name which the answer uses move, with those that they need themselves.
    """
    moved, binders = 0, binders_of(own)
    for index, answer in sorted(answers.items()):
        present = _defined_before(frame, answers, own, index)
        waiting = sorted(names_of(answer.source).needed)
        seen, done = set(waiting), set[int]()
        while waiting:
            name = waiting.pop()
            for item in binders[name]:
                if id(item) in done:
                    continue
                if item.anchor > index:
                    if item.order[0] > answer.position and name in present:
                        continue
                    item.anchor = index - 1
                    present |= names_of(item.source).defined
                    moved += 1
                done.add(id(item))
                waiting += sorted(names_of(item.source).needed - seen)
                seen |= names_of(item.source).needed
    return moved


def binders_of(own: list[Own]) -> dict[str, list[Own]]:
    """Name -> own cells that bind it, in the order of the submission."""
    binders: dict[str, list[Own]] = defaultdict(list)
    for item in own:
        for name in names_of(item.source).defined:
            binders[name].append(item)
    return binders


def needs(names: Iterable[str], binders: dict[str, list[Own]], index: int, done: set[int]) -> set[str]:
    """These names and those that own cells before the check of the answer `index` use to bind them.

    Cells in `done` were asked before, and those asked now are put into it.
    """
    waiting, found = list(names), set(names)
    while waiting:
        for item in binders.get(waiting.pop(), []):
            if item.anchor <= index and id(item) not in done:
                done.add(id(item))
                waiting += names_of(item.source).needed - found
                found |= names_of(item.source).needed
    return found


def rescue(frame: Frame, answers: dict[int, Cell], own: list[Own], edited: list[str]) -> tuple[list[str], list[str]]:
    """Keep single statements that an answer needs and that stand in cells which are not graded.

    A student who adds `import math` to a course cell, or uses a helper of a demonstration, has a right answer in the
    notebook; it must stay right here. Returns the names kept from edited cells and those from released ones.
    """
    demos = [
        (cell.source, "experiment" not in cell.metadata.get("tags", []))
        for index, cell in enumerate(frame.notebook.cells)
        if cell.cell_type == "code" and not frame.runs(index) and index not in {slot.index for slot in frame.slots}
    ]
    # What binds a name: the last edited cell that does, else the first demonstration.
    found_in = [
        [binding_statements(source, True) for source in reversed(edited)],
        [binding_statements(source, values) for source, values in demos],
    ]
    binding = [{name: text for cell in reversed(cells) for name, text in cell.items()} for cells in found_in]
    kept: tuple[list[str], list[str]] = ([], [])
    first_user: dict[str, int] = {}
    for item in own:
        note_user(first_user, item)
    for index, answer in sorted(answers.items()):
        present = _defined_before(frame, answers, own, index) | set(dir(builtins))
        binders, done = binders_of(own), set[int]()
        waiting = sorted(needs(names_of(answer.source).needed, binders, index, done) - present)
        while waiting:
            name = heappop(waiting)
            if name in present:
                continue
            present.add(name)
            group = next((group for group in (0, 1) if name in binding[group]), None)
            if group is not None:
                found = binding[group][name]
                # Before every own cell that uses it, and before what was rescued for its sake.
                own.append(Own(min(index - 1, first_user.get(name, index)), (-1, -len(own)), found))
                note_user(first_user, own[-1])
                kept[group].append(name)
                for more in needs(names_of(found).needed, binders, index, done) - present:
                    heappush(waiting, more)
    return kept


def note_user(first_user: dict[str, int], item: Own) -> None:
    """Keep the first place at which each name is used."""
    for name in names_of(item.source).needed:
        first_user[name] = min(first_user.get(name, item.anchor), item.anchor)


def binding_statements(source: str, values: bool) -> dict[str, str]:
    """For each name the last top-level import, definition or (if `values`) assignment of a cell that binds it."""
    tree = parsed(source)
    kinds: tuple[type[ast.stmt], ...] = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    kinds += (ast.Assign, ast.AnnAssign) if values else ()
    lines = source.split("\n")
    places = {(n.lineno, n.end_lineno): n for n in (tree.body if tree else []) if isinstance(n, kinds)}
    texts = [statement(lines, node) for node in places.values()]
    return {name: text for text in texts for name in names_of(text).defined}


def check_repairs(frame: Frame, cells: Sequence[Cell], matches: dict[int, int]) -> list[str]:
    """What was done to the check cells; the released ones are used whatever it was."""
    found: dict[str, list[str]] = defaultdict(list)
    for index in frame.checks:
        released = frame.notebook.cells[index]
        label = released.metadata.nbgrader.grade_id
        stemming = [cell for cell in cells if matches.get(cell.position) == index]
        points = {cell.points for cell in stemming if cell.points is not None}
        if not stemming:
            found["check cells missing, the released ones used: "].append(label)
        elif all(cell.kind != "code" for cell in stemming):
            found["check cells turned into text, the released ones used: "].append(label)
        elif all(_normal(cell.source) != _normal(released.source) for cell in stemming):
            found["check cells edited, the released ones used: "].append(label)
        elif len(stemming) > 1:
            found["check cells copied, the released ones used: "].append(label)
        if points - {float(released.metadata.nbgrader.get("points", 0))}:
            found["check cells given other points, the released ones used: "].append(label)
    return [what + ", ".join(labels) for what, labels in found.items()]
