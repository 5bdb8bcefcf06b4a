"""A student's own classes: what they define, and where `self` is an object of theirs."""

import ast
from collections.abc import Iterable, Iterator

from autograder.syntax import Function, end_of, has_plain_text, named_in_passing, root_of

Method = ast.FunctionDef | ast.AsyncFunctionDef
REGISTERS = ("register_buffer", "register_parameter", "add_module")


def classes_in(tree: ast.AST) -> Iterator[ast.ClassDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def methods_of(kind: ast.ClassDef) -> Iterator[Method]:
    yield from (node for node in kind.body if isinstance(node, Method))


def methods_in(tree: ast.Module) -> set[str]:
    """Methods of the classes in a piece of code, and what they keep in `self`: `tools.softmax(x)` may well be one."""
    found = {method.name for kind in classes_in(tree) for method in methods_of(kind)}
    stores = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return found | {node.attr for node in stores if root_of(node) == {"self"}}


def themselves(tree: ast.AST) -> dict[int, ast.ClassDef]:
    """By id: the names that stand for the first argument of a method, with the class that the method is of."""
    return {id(name): kind for kind in classes_in(tree) for method in methods_of(kind) for name in firsts(method)}


def firsts(method: Method) -> Iterator[ast.Name]:
    """Where a method means its first argument; nowhere, if it gives that name to something else."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    if not arguments or "staticmethod" in map(end_of, method.decorator_list):
        return
    names = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == arguments[0].arg]
    passing = (node for node in ast.walk(method) if node is not method)
    if any(not isinstance(name.ctx, ast.Load) for name in names) or any(
        arguments[0].arg in named_in_passing(node) for node in passing
    ):
        return
    inner = [f for f in ast.walk(method) if isinstance(f, Function) and f is not method]
    others = [f for f in inner if arguments[0].arg in {a.arg for a in ast.walk(f.args) if isinstance(a, ast.arg)}]
    hidden = {id(node) for function in others for node in ast.walk(function)}
    yield from (name for name in names if id(name) not in hidden)


def defined_by(kind: ast.ClassDef) -> set[str]:
    """Names that a class gives its objects: its methods and fields, what they keep in `self`, what they register."""
    found = {method.name for method in methods_of(kind)}
    for statement in kind.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    selves = {id(name) for method in methods_of(kind) for name in firsts(method)}
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and id(node.value) in selves:
            found.add(node.attr)
        elif isinstance(node, ast.Call) and end_of(node.func) in REGISTERS and has_plain_text(node, 0):
            found.add(str(node.args[0].value))  # type: ignore[attr-defined]
    return found


def with_bases(names: set[str], trees: Iterable[ast.AST]) -> set[str]:
    """Classes and those that they are built upon: a method of the latter is called through the former (`Child.ask(x)`)."""
    bases: dict[str, set[str]] = {}
    for tree in trees:
        for kind in classes_in(tree):
            bases.setdefault(kind.name, set()).update(map(end_of, kind.bases))
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += bases.get(name, ())
    return found


def asked_by_class(trees: list[ast.Module]) -> set[str]:
    """Classes whose methods are called with anything for `self` (`Box.ask(x)`), and those that these are built upon.

    Not where a method hands on its own `self`, as a class does that asks the one below it.
    """
    kinds = {kind.name: kind for tree in trees for kind in classes_in(tree)}
    if not kinds:
        return set()
    methods = {m.name for kind in kinds.values() for m in methods_of(kind) if any(firsts(m))}
    selves = {at for tree in trees for at in themselves(tree)}
    asked: set[str] = set()
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        asks = call.func
        if isinstance(asks, ast.Attribute) and isinstance(asks.value, ast.Name) and asks.attr in methods:
            asked |= set() if call.args and id(call.args[0]) in selves else {asks.value.id} & kinds.keys()
    return with_bases(asked, trees)
