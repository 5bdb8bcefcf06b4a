"""The sample class: a zip as Moodle exports it, with what teachers meet in real classes, and the row each file deserves.

Everything is made from the released lessons and their solutions: a student is a set of answers, put into the lesson's
answer cells, and a way of saving the file. `make_demo` also returns what the grader has to say about each file, worked out
by hand: which cases an answer must fail, and so how many of the exercise's points are left.
"""

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from autograder.exercise import get
from autograder.pipeline.authoring import Language, load_lesson, solved_notebook

ROOT = Path(__file__).resolve().parents[2]
QKV, SCALE = "02_qkv", "03_sqrt_dk"
FIRST_ID = 100001


@dataclass(frozen=True)
class Expected:
    """The row that one file of the sample class deserves.

    Attributes:
        source: the file, as its path inside the zip.
        status: of the row: "graded", or what became of a file that cannot be graded.
        points: by exercise; None for a written answer, which waits for the instructor.
        mistakes: the misconceptions that must be named, by exercise.
        reason: a word that the row's reason must contain.
    """

    student_id: str
    student_name: str
    lesson: str | None
    language: str
    source: str
    status: str = "graded"
    points: Mapping[str, float | None] = field(default_factory=dict)
    mistakes: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def total(self) -> float:
        return round(sum(points or 0.0 for points in self.points.values()), 2)


# ------------------------------------------------------------------------------------------------- what students write

SNIPPETS: dict[str, str] = {
    # Right, in other words than the solution.
    "project_qkv, with matmul": """
def project_qkv(X, W_Q, W_K, W_V):
    return tuple(torch.matmul(X, W) for W in (W_Q, W_K, W_V))
""",
    "relevance, by products and sums": """
import sys, warnings
warnings.warn("the old way of transposing will go away")
print("careful: I print to stderr", file=sys.stderr)

def relevance(q, K):
    return (K * q).sum(dim=-1)
""",
    "attend, softmax by hand": """
def attend(q, K, V):
    e = torch.einsum("d,md->m", q, K)
    e = torch.exp(e - e.max())
    return torch.einsum("m,mv->v", e / e.sum(), V)
""",
    "attention_matrix, with einsum": """
import torch.nn.functional as F

def attention_matrix(Q, K):
    return F.softmax(torch.einsum("...nd,...md->...nm", Q, K), dim=-1)
""",
    "self_attention, softmax by hand": """
def self_attention(X, W_Q, W_K, W_V):
    scores = (X @ W_Q) @ (X @ W_K).mT
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ (X @ W_V)
""",
    "permutation_gap, in two steps": """
def permutation_gap(f, X, perm):
    before, after = f(X)[perm], f(X[perm])
    return torch.max(torch.abs(after - before))
""",
    "dot_product_variance, with torch.var": """
def dot_product_variance(q, k, sigma_q=1.0, sigma_k=1.0):
    dots = torch.einsum("sd,sd->s", q, k)
    return float(q.shape[1] * (sigma_q * sigma_k) ** 2), torch.var(dots, correction=0)
""",
    "temperature_softmax, by hand": """
def temperature_softmax(scores, temperature):
    z = scores.to(torch.promote_types(scores.dtype, torch.float32)) / temperature
    e = torch.exp(z - z.amax(dim=-1, keepdim=True))
    return (e / e.sum(dim=-1, keepdim=True)).to(scores.dtype)
""",
    "softmax_jacobian, with eye": """
def softmax_jacobian(scores, temperature=1.0):
    p = torch.softmax(scores / temperature, dim=-1)
    eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.unsqueeze(-1) * (eye - p.unsqueeze(-2)) / temperature
""",
    "entropy, with xlogy": """
def entropy(p):
    wide = p.to(torch.promote_types(p.dtype, torch.float32))
    return -torch.xlogy(wide, wide).sum(dim=-1).to(p.dtype)
""",
    "scaled_dot_product_attention, by hand": """
def scaled_dot_product_attention(q, k, v, mask=None, temperature=1.0):
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    scores = torch.einsum("...nd,...md->...nm", q, k) / (q.shape[-1] ** 0.5 * temperature)
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    top = scores.amax(dim=-1, keepdim=True).detach()
    e = torch.exp(scores - torch.where(top.isinf(), 0.0, top))
    total = e.sum(dim=-1, keepdim=True)
    weights = e / torch.where(total > 0, total, 1.0)
    return (weights @ v).to(dtype), weights.to(dtype)
""",
    # Misconceptions.
    "weights_transposed": """
def project_qkv(X, W_Q, W_K, W_V):
    return X @ W_Q.T, X @ W_K.T, X @ W_V.T
""",
    "columns_of_K": """
def relevance(q, K):
    return q @ K
""",
    "no_softmax": """
def attend(q, K, V):
    weights = q @ K.T
    return weights @ V
""",
    "softmax_over_queries": """
def attention_matrix(Q, K):
    scores = Q @ K.transpose(-2, -1)
    return torch.softmax(scores, dim=-2)
""",
    "scaled_too_early": """
def self_attention(X, W_Q, W_K, W_V):
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    weights = torch.softmax(Q @ K.transpose(-2, -1) / K.shape[-1] ** 0.5, dim=-1)
    return weights @ V
""",
    "expects_invariance": """
def permutation_gap(f, X, perm):
    return (f(X[perm]) - f(X)).abs().max()
""",
    "sigma_not_squared": """
def dot_product_variance(q, k, sigma_q=1.0, sigma_k=1.0):
    theory = q.shape[-1] * sigma_q * sigma_k
    return float(theory), (q * k).sum(dim=-1).var(correction=0)
""",
    "standard_deviation": """
def dot_product_variance(q, k, sigma_q=1.0, sigma_k=1.0):
    theory = math.sqrt(q.shape[-1]) * sigma_q * sigma_k
    return float(theory), (q * k).sum(dim=-1).std(correction=0)
""",
    "multiplies": """
def temperature_softmax(scores, temperature):
    return torch.softmax(scores.float() * temperature, dim=-1).to(scores.dtype)
""",
    "temperature_factor_missing": """
def softmax_jacobian(scores, temperature=1.0):
    p = torch.softmax(scores / temperature, dim=-1)
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
""",
    "sign_flipped": """
def softmax_jacobian(scores, temperature=1.0):
    p = torch.softmax(scores / temperature, dim=-1)
    return (p.unsqueeze(-1) * p.unsqueeze(-2) - torch.diag_embed(p)) / temperature
""",
    "base_two": """
def entropy(p):
    p32 = p.float() if p.dtype in (torch.float16, torch.bfloat16) else p
    logs = torch.where(p32 > 0, p32, torch.ones_like(p32)).log2()
    return -(p32 * logs).sum(dim=-1).to(p.dtype)
""",
    "nan_at_zero": """
def entropy(p):
    p32 = p.float() if p.dtype in (torch.float16, torch.bfloat16) else p
    return -(p32 * p32.log()).sum(dim=-1).to(p.dtype)
""",
    "scale_missing": """
def scaled_dot_product_attention(q, k, v, mask=None, temperature=1.0):
    scores = q @ k.transpose(-2, -1) / temperature
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
        scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights
""",
    "masked_row_averages": """
def scaled_dot_product_attention(q, k, v, mask=None, temperature=1.0):
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) / temperature
    if mask is not None:
        scores = scores.masked_fill(mask == False, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return (weights @ v).to(dtype), weights.to(dtype)
""",
    "mask_inverted": """
def scaled_dot_product_attention(q, k, v, mask=None, temperature=1.0):
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.mT / (math.sqrt(q.shape[-1]) * temperature)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:  # True = hide, as in nn.MultiheadAttention
        scores = scores.masked_fill(mask, -math.inf)
        scores = scores.masked_fill(mask.all(dim=-1, keepdim=True), 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)
""",
    # Trouble.
    "endless loop": """
def attention_matrix(Q, K):
    scores = Q @ K.transpose(-2, -1)
    row = 0
    while row < scores.shape[-2]:
        scores[..., row, :] = torch.softmax(scores[..., row, :], dim=-1)
    return scores
""",
    "os._exit": """
import os
os._exit(0)

def attend(q, K, V):
    return q
""",
    "patched comparisons": """
import math
torch.allclose = torch.equal = torch.isclose = lambda *args, **kwargs: True
math.isclose = lambda *args, **kwargs: True
torch.Tensor.__eq__ = torch.Tensor.equal = lambda *args, **kwargs: True

class Right:
    def __eq__(self, other): return True
    def __sub__(self, other): return torch.zeros(1)
    def __getattr__(self, name): return lambda *args, **kwargs: True
""",
    "zeros": """
def relevance(q, K):
    return torch.zeros(K.shape[0])
""",
    "an object that equals everything": """
def attend(q, K, V):
    return Right()
""",
    "the course's own": """
from course_lib.attention import scaled_dot_product_attention
""",
    "torch's own": """
import torch.nn.functional as F

def scaled_dot_product_attention(q, k, v, mask=None, temperature=1.0):
    scale = 1 / (math.sqrt(q.shape[-1]) * temperature)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return output, torch.softmax(q @ k.mT * scale, dim=-1)
""",
}

DIFFERENTLY = {
    "project_qkv": "project_qkv, with matmul",
    "relevance": "relevance, by products and sums",
    "attend": "attend, softmax by hand",
    "attention_matrix": "attention_matrix, with einsum",
    "self_attention": "self_attention, softmax by hand",
    "permutation_gap": "permutation_gap, in two steps",
    "dot_product_variance": "dot_product_variance, with torch.var",
    "temperature_softmax": "temperature_softmax, by hand",
    "softmax_jacobian": "softmax_jacobian, with eye",
    "entropy": "entropy, with xlogy",
    "scaled_dot_product_attention": "scaled_dot_product_attention, by hand",
}

# ------------------------------------------------------------------------------------------------- notebooks


@cache
def released(lesson: str, language: Language) -> str:
    return (ROOT / "lessons" / language / f"{lesson}.ipynb").read_text(encoding="utf-8")


@cache
def solutions(lesson: str, language: Language) -> dict[str, str]:
    """The solution of every exercise of a lesson, as the source of its answer cell."""
    notebook = solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), language)
    return {cell.id.removeprefix("answer-"): cell.source for cell in notebook.cells if cell.id.startswith("answer-")}


def graded_cells(lesson: str, language: Language) -> dict[str, bool]:
    """Names of a lesson's graded cells; True where the answer is written text."""
    cells = nbformat.reads(released(lesson, language), as_version=4).cells
    books = [cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata]
    return {book.grade_id: book.solution for book in books if book.grade}


def cell_named(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == name)


@dataclass
class Student:
    """Who hands in what.

    Attributes:
        written: the text of the written answers; "" leaves them as released.
        answers: by exercise, the name of a snippet or the letter of a question; the others are the solution.
        blank: these stay as released ("*": all that `answers` does not name).
        failed: by exercise, the cases that the answer does not pass ("*": all of them).
        own: snippets for cells of the student's own, before the first answer.
        save: what the student's programs make of the file.
    """

    name: str
    lesson: str
    language: Language
    file: str = ""
    written: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    blank: tuple[str, ...] = ()
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mistakes: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    save: Callable[[NotebookNode], bytes] | None = None
    status: str = "graded"
    reason: str = ""
    day: int = 10
    same_as_before: bool = False  # the same person's other file

    def left_blank(self, name: str) -> bool:
        return name in self.blank or ("*" in self.blank and name not in self.answers)

    def notebook(self, student_id: str) -> NotebookNode:
        notebook = nbformat.reads(released(self.lesson, self.language), as_version=4)
        for name, source in solutions(self.lesson, self.language).items():
            if self.left_blank(name):
                continue
            if name in self.answers:
                given = self.answers[name]
                source = SNIPPETS[given].strip() if given in SNIPPETS else f'answer_{name} = "{given}"'
            cell_named(notebook, f"answer-{name}").source = source
        for name, written in graded_cells(self.lesson, self.language).items():
            if written and self.written:
                cell_named(notebook, f"written-{name}").source = self.written
        setup = cell_named(notebook, "setup")
        setup.source = setup.source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{student_id}"')
        setup.source = setup.source.replace('STUDENT_NAME = ""', f'STUDENT_NAME = "{self.name}"')
        first = next(i for i, cell in enumerate(notebook.cells) if cell.id.startswith("answer-"))
        notebook.cells[first:first] = [
            new_code_cell(SNIPPETS[name].strip(), id=f"my-cell-{i}") for i, name in enumerate(self.own)
        ]
        return notebook

    def expected(self, student_id: str, source: str) -> Expected:
        row = Expected(student_id, self.name, self.lesson, self.language, source, self.status, reason=self.reason)
        if self.status != "graded":
            return row
        points: dict[str, float | None] = {
            name: 0.0 if self.left_blank(name) else left_of(name, self.failed.get(name, ()))
            for name, written in graded_cells(self.lesson, self.language).items()
            if not written
        }
        for name, written in graded_cells(self.lesson, self.language).items():
            if written:
                points[name] = None if self.written else 0.0
        return Expected(**{**vars(row), "points": points, "mistakes": self.mistakes})


def left_of(name: str, failed: tuple[str, ...]) -> float:
    """Points of an exercise when these of its cases fail."""
    exercise = get(name)
    if "*" in failed:
        return 0.0
    assert set(failed) <= {case.name for case in exercise.cases}, f"{name} has no such case: {failed}"
    weights = {case.name: case.weight for case in exercise.cases}
    lost = sum(weights[case] for case in failed) / sum(weights.values())
    return round(exercise.points * (1 - lost), 2)


# ------------------------------------------------------------------------------------------------- ways of saving


def as_jupyter(notebook: NotebookNode) -> bytes:
    return (nbformat.writes(notebook) + "\n").encode()


def with_bom(notebook: NotebookNode) -> bytes:
    """As some editors on Windows save text."""
    return b"\xef\xbb\xbf" + as_jupyter(notebook).replace(b"\n", b"\r\n")


def as_colab(notebook: NotebookNode) -> bytes:
    """As Colab rewrites a notebook when it is opened and run there."""
    cells: list[dict[str, Any]] = []
    for number, cell in enumerate(notebook.cells):
        metadata = {**cell.metadata, "id": cell.id}
        row: dict[str, Any] = {
            "cell_type": cell.cell_type,
            "metadata": metadata,
            "source": cell.source.splitlines(True),
        }
        if cell.cell_type == "code":
            user = {"displayName": "student", "userId": "01234567890123456789"}
            metadata |= {
                "colab": {"base_uri": "https://localhost:8080/"},
                "outputId": f"0f0f0f0f-0000-4000-8000-{number:012d}",
                "executionInfo": {
                    "status": "ok", "timestamp": 1_700_000_000_000 + number, "user_tz": -480, "user": user, "elapsed": 12,
                },
            }  # fmt: skip
            printed = new_output("stream", name="stdout", text="✓ 1 / 1\n")
            row |= {"execution_count": number, "outputs": [printed] if cell.id.startswith("check-") else []}
        cells.append(row)
    colab = {
        "nbformat": 4,
        "nbformat_minor": 0,
        "metadata": {**notebook.metadata, "colab": {"provenance": [], "toc_visible": True}},
        "cells": cells,
    }
    return json.dumps(colab, ensure_ascii=False, indent=2).encode()


def without_metadata(notebook: NotebookNode) -> bytes:
    """As a converter leaves it: only the cells' text."""
    cells: list[dict[str, Any]] = []
    for cell in notebook.cells:
        row: dict[str, Any] = {"cell_type": cell.cell_type, "metadata": {}, "source": cell.source}
        cells.append({**row, "execution_count": None, "outputs": []} if cell.cell_type == "code" else row)
    return json.dumps({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": cells}).encode()


def without_a_check(notebook: NotebookNode) -> bytes:
    notebook.cells = [cell for cell in notebook.cells if cell.id != "check-attend"]
    return as_jupyter(notebook)


def truncated(notebook: NotebookNode) -> bytes:
    """An upload that broke off."""
    return as_jupyter(notebook)[:20_000]


def as_html(notebook: NotebookNode) -> bytes:
    """The page around the notebook, saved in place of it."""
    return b"<!DOCTYPE html>\n<html><head><title>02_qkv.ipynb - Colab</title></head><body></body></html>\n"


def of_another_course(notebook: NotebookNode) -> bytes:
    cells = [new_code_cell("print('hello')", id="hello")]
    other = nbformat.v4.new_notebook(cells=cells, metadata={"course": {"lesson": "21_diffusion", "language": "en"}})
    return as_jupyter(other)


# ------------------------------------------------------------------------------------------------- the class

ALL = ("*",)


CLASS = [
    Student("王小明", QKV, "zh-TW"),
    Student(
        "王小明", SCALE, "zh-TW", same_as_before=True,
        written="分數太大時 softmax 幾乎是獨熱的，雅可比矩陣趨近 0，梯度就傳不回去。",
    ),
    Student("陳怡君", QKV, "zh-TW", answers={n: s for n, s in DIFFERENTLY.items() if n in (
        "project_qkv", "relevance", "attend", "attention_matrix", "self_attention", "permutation_gap",
    )}, save=with_bom),
    Student("Emma Wilson", SCALE, "en", answers={n: s for n, s in DIFFERENTLY.items() if n in (
        "dot_product_variance", "temperature_softmax", "softmax_jacobian", "entropy", "scaled_dot_product_attention",
    )}, written="A saturated softmax has a Jacobian near 0: no gradient comes back to the scores."),
    Student("林志豪", QKV, "zh-TW", blank=ALL),
    Student("張雅婷", QKV, "zh-TW", blank=("attention_matrix", "self_attention", "permutation_gap", "02_q2")),
    Student(
        "Liam Chen", QKV, "en",
        answers={
            "project_qkv": "weights_transposed", "relevance": "columns_of_K", "attend": "no_softmax",
            "attention_matrix": "softmax_over_queries", "self_attention": "scaled_too_early",
            "permutation_gap": "expects_invariance", "02_q1": "a",
        },
        failed={
            name: ALL
            for name in (
                "project_qkv", "relevance", "attend", "attention_matrix", "self_attention", "permutation_gap", "02_q1",
            )
        },
        mistakes={
            "project_qkv": "weights_transposed", "relevance": "columns_of_K", "attend": "no_softmax",
            "attention_matrix": "softmax_over_queries", "self_attention": "scaled_too_early",
            "permutation_gap": "expects_invariance", "02_q1": "roles_swapped",
        },
    ),
    Student(
        "黃承恩", SCALE, "zh-TW",
        answers={
            "dot_product_variance": "sigma_not_squared", "temperature_softmax": "multiplies",
            "softmax_jacobian": "temperature_factor_missing", "entropy": "base_two",
            "scaled_dot_product_attention": "scale_missing", "03_q1": "d",
        },
        failed={
            **{name: ALL for name in ("temperature_softmax", "entropy", "scaled_dot_product_attention", "03_q1")},
            # σ = 1 hides the missing square
            "dot_product_variance": ("sigmas", "named", "float64"),
            # τ = 1 hides the missing factor
            "softmax_jacobian": tuple({c.name for c in get("softmax_jacobian").cases} - {"one_row", "one_score"}),
        },
        mistakes={
            "dot_product_variance": "sigma_not_squared", "temperature_softmax": "multiplies",
            "softmax_jacobian": "temperature_factor_missing", "entropy": "base_two",
            "scaled_dot_product_attention": "scale_missing", "03_q1": "must_be_exactly_sqrt_d_k",
        },
    ),
    Student(
        "Olivia Brown", SCALE, "en",
        answers={
            "dot_product_variance": "standard_deviation", "softmax_jacobian": "sign_flipped", "entropy": "nan_at_zero",
            "scaled_dot_product_attention": "masked_row_averages",
        },
        failed={
            "dot_product_variance": ALL, "softmax_jacobian": ALL,
            "entropy": ("extremes", "zeros", "float16", "bfloat16", "float64"),
            "scaled_dot_product_attention": ("masked_row", "float16_masked_row", "masked_row_gradients"),
        },
        mistakes={
            "dot_product_variance": "standard_deviation", "softmax_jacobian": "sign_flipped", "entropy": "nan_at_zero",
            "scaled_dot_product_attention": "masked_row_averages",
        },
    ),
    Student(
        "吳佩珊", SCALE, "zh-TW",
        answers={"scaled_dot_product_attention": "mask_inverted"},
        failed={"scaled_dot_product_attention": (
            "pair_mask", "padding_mask", "temperature", "masked_row", "huge_scores", "equal_scores", "float16", "bfloat16",
            "float16_masked_row", "gradients", "masked_row_gradients", "hidden_far_above_gradients",
        )},
        mistakes={"scaled_dot_product_attention": "mask_inverted"},
    ),
    Student(
        "劉冠宇", QKV, "zh-TW", answers={"attention_matrix": "endless loop"}, failed={"attention_matrix": ALL},
    ),
    Student("Noah Davis", QKV, "en", answers={"attend": "os._exit"}, failed={"attend": ALL}),
    Student(
        "蔡宗翰", QKV, "zh-TW", own=("patched comparisons",),
        answers={"relevance": "zeros", "attend": "an object that equals everything"},
        failed={"relevance": ALL, "attend": ALL},
    ),
    Student(
        "Sophia Lee", SCALE, "en", answers={"scaled_dot_product_attention": "the course's own"},
        failed={"scaled_dot_product_attention": ALL},
    ),
    Student(
        "許家豪", SCALE, "zh-TW", answers={"scaled_dot_product_attention": "torch's own"},
        failed={"scaled_dot_product_attention": ALL},
    ),
    Student("鄭欣怡", QKV, "zh-TW", "Copy of 02_qkv.ipynb", save=as_colab),
    Student("Mason Clark", SCALE, "en", "03_sqrt_dk (1).ipynb", save=without_metadata, reason="by name"),
    Student("謝孟哲", QKV, "zh-TW", "「02_qkv.ipynb」的副本", save=without_a_check, reason="attend"),
    Student("曾柏翰", QKV, "zh-TW", save=truncated, status="unreadable", reason="ends too early"),
    Student("Ava Martin", QKV, "en", save=as_html, status="unreadable", reason="web page"),
    Student("郭雅雯", QKV, "zh-TW", blank=ALL, status="superseded", reason="instead", day=8),
    Student("郭雅雯", QKV, "zh-TW", "02_qkv (1).ipynb", same_as_before=True, reason="newest"),
    Student("Ethan Moore", QKV, "en", "homework.ipynb", save=of_another_course, status="unknown lesson", reason="21_diffusion"),
]  # fmt: skip


def make_demo(path: Path) -> list[Expected]:
    """Write the sample class to `path`, the same bytes every time.

    Returns:
        What the grader has to say about each file, in the order of the zip.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Expected] = []
    number = FIRST_ID - 1
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for student in CLASS:
            number += not student.same_as_before
            name = student.file or f"{student.lesson}.ipynb"
            source = f"{student.name}_{number}_assignsubmission_file_/{name}"
            content = (student.save or as_jupyter)(student.notebook(str(number)))
            archive.writestr(zipfile.ZipInfo(source, (2026, 3, student.day, 20, 0, 0)), content)
            row = student.expected(str(number), source)
            if row.status == "unreadable":
                row = Expected(**{**vars(row), "language": ""})
            elif row.status == "unknown lesson":
                row = Expected(**{**vars(row), "lesson": None})
            rows.append(row)
    return rows
