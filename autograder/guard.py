"""What an answer may not call, seen in its source.

A sighting ends the credit of the exercise, so nothing here guesses: a name counts only when it resolves to the
forbidden thing. What runs is watched too (watch.py); what else an instructor may like to read is unusual.py.
"""

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from autograder.classes import asked_by_class, methods_in, themselves
from autograder.syntax import (
    USUAL_IMPORTS,
    Function,
    is_call_of,
    is_magic,
    meanings_in,
    meanings_of_code,
    named_in_passing,
    names_of,
    parsed,
    root_of,
    with_parents,
    words,
)
from autograder.usual import USUAL_DUNDERS
from autograder.watch import Sighting

# The course's own code is never an answer to the course's own questions; drawing with it is fine.
ALWAYS_FORBIDDEN = (
    "course_lib.*",
    "autograder.use",
    "autograder.get",
    "autograder.exercise.*",
    "autograder.exercises.*",
    "autograder.functions.*",
)
# Torch's own back doors to what an exercise forbids; nobody needs them for a formula.
BACK_DOORS = (
    "torch.ops.*",
    "torch._*",
    "torch.library.*",
    "torch.overrides.*",
    "torch.nn.attention.*",
    "torch.autograd.forward_ad.*",
    "torch.jit.*",
    "torch.Tensor.grad_fn",
)
ALWAYS_ALLOWED = ("course_lib.plots",)


def forbidden_in_source(
    source: str, forbidden: Iterable[str], context: str = "", answers: Iterable[str] = ()
) -> list[Sighting]:
    """Forbidden names that stand in `source`, with their lines.

    Args:
        source: the cell or function of the answer.
        forbidden: dotted names; "x.*" takes everything below x; "torch.Tensor.m" takes any method call `.m(…)`.
        context: the notebook's code up to where the answer is tried; its imports and assignments give names their meaning.
        answers: names that the cell gives its answers; only what these reach counts then, a comparison beside them not.
    """
    tree = parsed(source)
    if tree is None:
        return []
    elsewhere = parsed(context) or ast.Module([], [])
    parts = reached(tree, set(answers), imports_in(elsewhere))
    used = ast.Module([part.tree for part in parts], [])
    # What another cell calls so matters only where this one means the same: not its own functions, not its locals.
    own = defined_at_the_top(tree) - USUAL_IMPORTS.keys()
    seen = {name for part in parts for name in part.wants} - own
    seen -= defined_at_last(elsewhere)
    known = {name: several for name, several in meanings_of_code(context).items() if name in seen}
    meanings, methods = meanings_in(used, known), methods_in(tree) | methods_in(elsewhere)
    asked = asked_by_class([used, elsewhere])
    selves = {at: kind for at, kind in themselves(used).items() if kind.name not in asked}
    shows = shown_by(tree) & shown_by(elsewhere)
    names, allowed = Forbidden([*forbidden, *ALWAYS_FORBIDDEN, *BACK_DOORS]), Forbidden(ALWAYS_ALLOWED)
    found: list[Sighting] = []
    for node, parent in with_parents(used):
        for dotted in names_of(node, meanings, methods if own_object(node, selves) else set()):
            if allowed.has(dotted) or only_shown(node, parent, shows):
                continue
            if names.has(dotted):
                found.append(Sighting(dotted, getattr(node, "lineno", 0)))
                break
    return sorted(set(found), key=lambda sighting: (sighting.line, sighting.name))


def defined_at_the_top(tree: ast.Module) -> set[str]:
    """Functions and classes of a cell."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def defined_at_last(tree: ast.Module) -> set[str]:
    """Names that code gives to a function or class of its own after whatever else it called so."""
    last: dict[str, bool] = {}
    for statement in tree.body:
        own = isinstance(statement, ast.FunctionDef | ast.ClassDef) and not statement.decorator_list
        for part in plain(ast.Module([statement], [])):
            last.update({name: own and name == getattr(part, "name", "") for name in names_bound(part, set())})
    anytime = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return {name for name, own in last.items() if own} - anytime


def own_object(node: ast.AST, selves: Mapping[int, object]) -> bool:
    """Whether an attribute may be one of the student's own objects: `self` is one in a method, not in any function, and
    not where the method is called by its class with anything for it."""
    root = node.value if isinstance(node, ast.Attribute) else None
    return not isinstance(root, ast.Name) or root.id != "self" or id(root) in selves


SHOWS = words("print bool str repr type isinstance")


def shown_by(tree: ast.Module) -> set[str]:
    """The built-ins that only look at what they get, unless the code gives their names to something else."""
    given: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            given.add(node.id)
        elif isinstance(node, ast.arg):
            given.add(node.arg)
        else:
            given |= named_in_passing(node)
    return set(SHOWS) - given


def only_shown(node: ast.AST, parent: ast.AST, shows: set[str]) -> bool:
    """`print(y.grad_fn)`, `if y.grad_fn:` and `y.grad_fn is None` look at what may not be called."""
    if not isinstance(node, ast.Attribute) or node.attr != "grad_fn":
        return False
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return parent.test is node
    return (
        any(is_call_of(parent, name) for name in shows)
        or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))
        or isinstance(parent, ast.FormattedValue)
        or (isinstance(parent, ast.Compare) and all(isinstance(sign, ast.Is | ast.IsNot) for sign in parent.ops))
    )


@dataclass(frozen=True)
class Part:
    """A statement of a cell; of one that holds others (`if`, `for`, `with`, …) its head alone."""

    tree: ast.stmt
    binds: frozenset[str]
    wants: frozenset[str]


def reached(tree: ast.Module, answers: set[str], imported: Iterable[str] = ()) -> list[Part]:
    """The statements of a cell that give some names their value, and those that these use, and so on.

    All of the cell where it binds none of the names: what answers then is not to be seen. `imported` elsewhere are names
    that `torch.allclose(…)` does not change.
    """
    modules = imports_in(tree).union(imported)
    modules -= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    parts = [Part(node, frozenset(names_bound(node, modules)), frozenset(names_wanted(node))) for node in plain(tree)]
    binding: dict[str, list[int]] = {}
    for i, part in enumerate(parts):
        for name in part.binds:
            binding.setdefault(name, []).append(i)
    waiting = [name for name in answers if name in binding]
    if not waiting:
        return parts
    chosen, asked = set[int](), set(waiting)
    while waiting:
        for i in binding.pop(waiting.pop(), ()):
            if i not in chosen:
                chosen.add(i)
                waiting += parts[i].wants - asked
                asked |= parts[i].wants
    return [parts[i] for i in sorted(chosen)]


def names_between_cells(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell binds or changes, and those that it takes from others: not what it imports itself."""
    tree = parsed(source)
    parts = reached(tree, set()) if tree is not None else []
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree is not None else []
    here = {name for node in imports for alias in node.names for name in named_in_passing(alias)}
    return {name for part in parts for name in part.binds}, {name for part in parts for name in part.wants} - here


def imports_in(tree: ast.Module) -> set[str]:
    """Names that code imports, and those that notebooks import anyway."""
    found = set(USUAL_IMPORTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            found |= named_in_passing(node)
    return found


def plain(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a cell one by one, those inside of `if`, `for`, `with`, `try` and `match` too."""
    waiting = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        inner: list[ast.stmt] = []
        head = copy.copy(node)
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and hasattr(node, field):
                inner += getattr(node, field)
                setattr(head, field, [])
        for field in ("handlers", "cases"):
            if hasattr(node, field):
                arms = getattr(node, field)
                inner += [statement for arm in arms for statement in arm.body]
                setattr(head, field, [copy.copy(arm) for arm in arms])
                for arm in getattr(head, field):
                    arm.body = []
        yield head
        waiting += reversed(inner)


def names_bound(statement: ast.stmt, imported: set[str]) -> set[str]:
    """Names that a statement binds, or whose object it changes (`box.append(…)`, `Layer.forward = …`)."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        shared = [n for node in ast.walk(statement) if isinstance(node, ast.Global) for n in node.names]
        return {statement.name, *shared}
    bound: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            bound |= root_of(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            bound |= root_of(node.value.func) - imported if isinstance(node.value.func, ast.Attribute) else set()
        else:
            bound |= named_in_passing(node)
    return bound


Loop = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Scope:
    """Names of a function's own, those that it declares to be its cell's, and the function around it."""

    local: set[str]
    shared: set[str]
    around: "Scope | None"

    def has(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None and name not in scope.shared:
            if name in scope.local:
                return True
            scope = scope.around
        return False


def names_wanted(statement: ast.stmt) -> set[str]:
    """Names that a statement takes from its cell: those of functions' arguments and locals are their own affair."""
    everything = list(ast.walk(statement))
    if any(is_magic(node) for node in everything):  # what it runs meets names in a way of its own
        return {node.id for node in everything if isinstance(node, ast.Name)}
    shared = {name for node in everything if isinstance(node, ast.Global) for name in node.names}
    return shared | {name.id for name in free_names(statement)}


def free_names(statement: ast.AST) -> Iterator[ast.Name]:
    """Where a statement means a name of its cell, not one of a function's own."""
    waiting: list[tuple[ast.AST, Scope | None]] = [(statement, None)]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, ast.Name):
            if own is None or not own.has(node.id):
                yield node
        elif isinstance(node, Function):
            given = node.args
            outside = [*given.defaults, *filter(None, given.kw_defaults)]
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
            outside += [a.annotation for a in arguments if a.annotation is not None]
            body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
            if not isinstance(node, ast.Lambda):
                outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
            local, shared = locals_of(body)
            inner = Scope(local | {a.arg for a in arguments}, shared, own)
            waiting += [*((part, own) for part in outside), *((part, inner) for part in body)]
        elif isinstance(node, Loop):
            first, *others = node.generators
            targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            waiting.append((first.iter, own))
            inner = Scope(targets, set(), own)
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            waiting += [(part, inner) for part in (*results, first.target, *first.ifs, *others)]
        else:
            waiting += [(child, own) for child in ast.iter_child_nodes(node)]


def locals_of(body: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Names that a function binds for itself, and those that it declares to be its cell's."""
    local, shared = set[str](), set[str]()
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in body]
    while waiting:
        node, here = waiting.pop()  # inside of a comprehension only `:=` binds
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            continue
        elif isinstance(node, ast.NamedExpr):
            local |= {node.target.id}
        elif here:
            local |= {node.id} if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else set()
            local |= named_in_passing(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inside = here and not isinstance(node, Loop)
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return local, shared


class Forbidden:
    """Dotted names to look for; "x.*" stands for everything below x."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self.exact = {name for name in names if not name.endswith("*")}
        self.beginnings = tuple(name[:-1] for name in names if name.endswith("*"))

    def has(self, dotted: str) -> bool:
        if dotted.rpartition(".")[2] in USUAL_DUNDERS:  # torch.__version__ is nobody's back door
            return False
        if dotted.startswith(self.beginnings):
            return True
        end = len(dotted)
        while end > 0:  # what lies below a forbidden name is forbidden too
            if dotted[:end] in self.exact:
                return True
            end = dotted.rfind(".", 0, end)
        return False
