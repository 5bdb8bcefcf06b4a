"""Which cells of a notebook nothing needs that is graded: they need not run again when another cell broke."""

import ast
from collections.abc import Iterator, Sequence

from autograder.guard import names_between_cells
from autograder.syntax import CODE_MAGICS, end_of, has_plain_text, is_magic, parsed

# Modules of which a call may change what every cell after it does.
SYSTEM = ("os", "sys", "builtins", "importlib", "IPython", "matplotlib", "warnings")
SWITCHES = ("set_", "use_", "seterr", "enable_", "disable_")  # of torch and numpy


def spare(sources: Sequence[str], checks: Sequence[str | None]) -> list[int]:
    """The cells whose names no check takes, nor what a check takes a name from, and that change nothing for others.

    Args:
        sources: of the cells of a notebook.
        checks: by cell: the exercise it checks, if it does.
    """
    trees = [parsed(source) for source in sources]
    between = [names_between_cells(source) for source in sources]
    values = {name for tree in trees if tree is not None for name in given_values(tree)}
    needed = {i for i, tree in enumerate(trees) if checks[i] is not None or tree is None or changes_settings(tree)}
    wanted = {name for i in needed for name in between[i][1]}
    while True:
        # Who takes a value that is needed may change it: `train(model)`, `table.update(…)`.
        more = {
            i
            for i, (binds, takes) in enumerate(between)
            if i not in needed and (binds & wanted or takes & wanted & values)
        }
        if not more:
            return [i for i in range(len(sources)) if i not in needed]
        needed |= more
        wanted |= {name for i in more for name in between[i][1]}


def given_values(tree: ast.AST) -> Iterator[str]:
    """Names that stand for something that is neither a function nor a class nor imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def changes_settings(tree: ast.Module) -> bool:
    """Whether a cell holds what may matter to any other: a switch of torch's, an attribute set anew, `import *`, a magic."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.alias) and (node.name == "*" or node.name.split(".")[0] in ("builtins", "importlib")):
            return True
        if isinstance(node, ast.Call):
            if is_magic(node) and has_plain_text(node, 0) and node.args[0].value in CODE_MAGICS:  # type: ignore[attr-defined]
                continue  # what it runs stands beside it
            name, root = called(node.func)
            if is_magic(node) or root in SYSTEM or (root in ("torch", "np", "numpy", "") and name.startswith(SWITCHES)):
                return True
            if name in ("exec", "eval", "setattr", "globals", "load_state_dict"):
                return True
    return False


def called(function: ast.expr) -> tuple[str, str]:
    """The last name of what is called and the first one ("" where it has one only)."""
    name = end_of(function)
    while isinstance(function, ast.Attribute):
        function = function.value
        if isinstance(function, ast.Name):
            return name, function.id
    return name, ""
