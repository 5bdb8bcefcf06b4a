"""How many mutants of the reference answers lose points: one small change each, on three seeds.

    python -m benchmarks.mutants            # prints what keeps its points, writes benchmarks/results/mutants.json

The catalogue holds the mistakes that people make; this looks for those that nobody has thought of. A mutant that keeps all
points does the same (`dim=1` for `dim=-1` of a matrix, no `device=` where there is no GPU), or it shows a demand that no
case covers: each is written out, to be read.
"""

import ast
import copy
import inspect
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

import autograder
from benchmarks.common import machine, write

SEEDS = range(3)
SECONDS = 5  # for one mutant on one seed; whoever takes longer never ends
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)

Change = Callable[[Any], ast.AST]


class TooSlow(BaseException):
    """Not an Exception, so that an answer's own `except` does not swallow it."""


def changed(**fields: Any) -> Change:
    """The same node with other fields."""

    def change(node: ast.AST) -> ast.AST:
        for name, value in fields.items():
            setattr(node, name, value)
        return node

    return change


def changes(node: ast.AST) -> Iterator[Change]:
    """Small changes of one node."""
    match node:
        case ast.Constant(value=bool() as value):
            yield changed(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield from (changed(value=other) for other in {value + 1, value - 1, 0} - {value})
        case ast.Compare(ops=[first, *_]) if isinstance(first, COMPARISONS):
            yield from (changed(ops=[kind()]) for kind in COMPARISONS if not isinstance(first, kind))
        case ast.BinOp():
            yield from (lambda n: n.left, lambda n: n.right)
        case ast.UnaryOp():
            yield lambda n: n.operand
        case ast.IfExp():
            yield from (lambda n: n.body, lambda n: n.orelse)
        case ast.If():
            yield from (changed(test=ast.Constant(value)) for value in (True, False))
        case ast.Call(func=ast.Attribute(value=of)) if not isinstance(of, ast.Name) or of.id not in (
            "torch",
            "F",
            "nn",
            "math",
        ):
            yield lambda n: n.func.value
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.Starred):
            yield lambda n: n.args[0]
    if isinstance(node, ast.Call):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                yield changed(keywords=node.keywords[:i] + node.keywords[i + 1 :])


class Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def mutants(tree: ast.Module) -> Iterator[str]:
    """The whole text of each mutant."""
    seen = {ast.unparse(tree)}
    for i, node in enumerate(ast.walk(tree)):
        for change in changes(node):
            mutant = copy.deepcopy(tree)
            place = next(inner for j, inner in enumerate(ast.walk(mutant)) if j == i)
            mutant = Replace(place, change(place)).visit(mutant)
            text = ast.unparse(ast.fix_missing_locations(mutant))
            if text not in seen:
                seen.add(text)
                yield text


def source_of(answer: Any) -> ast.Module:
    """An answer's syntax tree without what nothing depends on: docstrings, annotations."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = []
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.args, *node.args.kwonlyargs):
                argument.annotation = None
    return tree


def keeps_all(name: str, text: str) -> bool:
    """Whether a mutant has all points on every seed."""
    reference: Any = autograder.get(name).reference
    scope = dict(vars(sys.modules[reference.__module__]))
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS * len(SEEDS))
        exec(compile(text, "<mutant>", "exec"), scope)
        verdicts = (autograder.judge(name, scope[reference.__name__], seed) for seed in SEEDS)
        return all(verdict.points == verdict.max_points for verdict in verdicts)
    except (Exception, TooSlow):
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def stop(*_: Any) -> None:
    raise TooSlow


def tried(name: str) -> tuple[int, list[str]]:
    """How many mutants of an exercise's reference there are, and the changed lines of those that keep their points."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, stop)
    tree = source_of(autograder.get(name).reference)
    if not keeps_all(name, ast.unparse(tree)):
        raise RuntimeError(f"{name}: the reference itself is not judged as it stands in its file")
    before = ast.unparse(tree).splitlines()
    count, kept = 0, []
    for text in mutants(tree):
        count += 1
        if keeps_all(name, text):
            kept += [f"{old.strip()}  →  {new.strip()}" for old, new in zip(before, text.splitlines()) if old != new][
                :1
            ]
    return count, kept


def main() -> None:
    here = machine()  # before anything runs
    names = [name for name in autograder.names() if autograder.get(name).driver != "letter"]
    rows = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, (count, kept) in zip(names, pool.map(tried, names)):
            rows.append({"exercise": name, "mutants": count, "kept": kept})
            print(f"{name}: {count - len(kept)} of {count} lose points", *kept, sep="\n    ", flush=True)
    total = sum(row["mutants"] for row in rows)
    print(f"{total} mutants of {len(rows)} references; {sum(len(row['kept']) for row in rows)} keep their points")
    write("mutants", {"machine": here, "seeds": len(SEEDS), "rows": rows})


if __name__ == "__main__":
    main()
