"""What torch's own core carried out, whatever Python called it.

The watch stands before torch and names the line. This stands behind it, where no name, callback or class of Python reaches.
"""

import sys
from collections.abc import Callable
from functools import cache
from os import urandom  # bound before a student gives the names away
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch._C import _autograd
from torch._C._profiler import _ExperimentalConfig, _RecordFunctionFast
from torch.autograd import ProfilerConfig, ProfilerState

PLAIN = ProfilerConfig(ProfilerState.CPU, False, False, False, False, False, _ExperimentalConfig(), "")
MOST_CALLS = 16  # of torch between two readings: a record takes memory, and what Python holds is metered
OWNERS = ("torch", "torch.Tensor", "torch.nn.functional", "torch.special", "torch.linalg")
# What a name is called inside, beside itself.
INSIDE = ("{}", "{}_", "_{}", "{}_loss", "native_{}", "_native_{}", "special_{}", "linalg_{}", "_fused_{}", "_safe_{}", "_masked_{}")  # fmt: skip
IN_SPARSE = ("_sparse_{}", "sparse_{}")

name_of_event = _autograd.ProfilerEvent.name  # bound now: anybody may give its class another one


class Switches(NamedTuple):
    """What begins torch's record of this thread, and what ends it and gives it out."""

    begin: Callable[[Any], None]
    end: Callable[[], Any]


# And of what else could switch it off for a while.
SWITCHES = ("_enable_profiler_legacy", "_disable_profiler_legacy", "_enable_record_function")


def switches() -> Switches:
    return Switches(*(getattr(_autograd, name) for name in SWITCHES[:2]))


@cache  # to look through all modules in every notebook's process would copy their memory
def places_of_switches() -> tuple[tuple[ModuleType, str], ...]:
    found = {id(getattr(_autograd, name)) for name in SWITCHES}
    modules = list(sys.modules.values())
    return tuple(
        (module, name)
        for module in modules
        for name, thing in getattr(module, "__dict__", {}).items()
        if id(thing) in found
    )


def take_switches() -> Switches:
    """The switches, for the caller alone: they stand in no module of this process any more."""
    taken = switches()
    for module, name in places_of_switches():
        delattr(module, name)
    return taken


class Record:
    """While active, the operations that this thread has torch carry out are noted.

    >>> with Record() as record:
    ...     x = torch.ones(2, 2).softmax(-1).sum()
    >>> sorted(record.names)
    ['_softmax', 'as_strided', 'empty', 'fill_', 'ones', 'softmax', 'sum']

    Attributes:
        names: of all operations, also of those that others are made of.
        outermost: of those that Python called.
        left: ways out of torch that were taken, which are no operations; the watch notes them.
        numbers: how many single ones were taken out of tensors.
        kept: False where somebody else's record was in the way, or ended this one.
    """

    def __init__(self, of: Switches | None = None) -> None:
        self.of = of
        self.names, self.outermost, self.left, self.kept = set[str](), set[str](), set[str](), True
        self.calls = self.numbers = 0

    def __enter__(self) -> "Record":
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        self.mark = urandom(8).hex()  # somebody else's record does not begin with it
        try:
            self.using = self.of or switches()
            self.using.begin(PLAIN)
        except RuntimeError:  # there is one already
            self.mark, self.kept = "", False
            return
        self.set_mark()

    def set_mark(self) -> None:
        with _RecordFunctionFast(self.mark):
            pass

    def end(self) -> None:
        if not self.mark:
            return
        self.set_mark()  # not there either, if noting was switched off meanwhile
        try:
            names = [name_of_event(event) for thread in self.using.end() for event in thread]
        except RuntimeError:  # it has ended
            self.kept = False
            return
        self.kept = self.kept and names.count(self.mark) == 2
        open_: list[bool] = []  # of what has begun and not ended: whether it is an operation
        for name in names[1:-1]:  # without its own beginning and end
            if name:
                operation = "::" in name  # what a student's own class or text is called has no such thing
                if operation:
                    name = name.removeprefix("aten::")
                    self.names.add(name)
                    if not any(open_):
                        self.outermost.add(name)
                open_.append(operation)
            elif open_:
                open_.pop()

    def called(self) -> None:
        """To be told of calls of torch, so that the record never grows long."""
        self.calls += 1
        if self.calls >= MOST_CALLS:
            self.calls = 0
            self.read()

    def read(self) -> None:
        self.end()
        self.begin()


@cache
def operations_of(forbidden: tuple[str | FunctionType, ...]) -> frozenset[str]:
    """The operations that carry out forbidden calls.

    >>> sorted(operations_of(("torch.nn.functional.softmax", "torch.mv")))
    ['_masked_softmax', '_safe_softmax', '_softmax', 'mv', 'softmax', 'special_softmax']
    """
    every, found = all_operations(), set[str]()
    for dotted in forbidden:
        if dotted == "torch.linalg.*":  # but lengths are everybody's
            found |= {name for name in every if name.lstrip("_").startswith("linalg_") and "norm" not in name}
        owner, _, name = dotted.rpartition(".") if isinstance(dotted, str) else ("", "", "")
        # `F.unfold` is another operation than a tensor's own `unfold`.
        other = owner.endswith("functional") and not hasattr(torch, name) and not hasattr(torch._C._nn, name)
        ways = (
            IN_SPARSE if owner == "torch.sparse" else () if owner not in OWNERS else ("{}_loss",) if other else INSIDE
        )
        found |= {way.format(name.strip("_")) for way in ways}
    return frozenset(found & every)


@cache
def all_operations() -> frozenset[str]:
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(name.removeprefix("aten::").split(".")[0] for name in names if name.startswith("aten::"))
