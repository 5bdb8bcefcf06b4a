"""How much memory an answer's tensors take while it runs: the largest one, and all of them together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Reading:
    """In elements: bytes of the storage over bytes of an element.

    Attributes:
        largest: the biggest tensor made.
        peak: the most that was alive at one moment, each storage counted once.
    """

    largest: int = 0
    peak: int = 0


@dataclass
class Held:
    """A storage that an operation made, as long as somebody holds it."""

    alive: Callable[[], bool]
    elements: int


@dataclass
class Ledger:
    """What is alive; a view shares its storage and costs nothing, nor does anything that lies in an argument's memory."""

    given: set[int]
    held: dict[int, Held] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)

    def enter(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self.given:
            return
        elements = storage.nbytes() // x.element_size()
        reference = StorageWeakRef(storage)
        self.held[key] = Held(lambda: not reference.expired(), elements)
        self.reading.largest = max(self.reading.largest, elements)

    def settle(self) -> None:
        """Forget the dead, add up the living."""
        self.held = {key: item for key, item in self.held.items() if item.alive()}
        self.reading.peak = max(self.reading.peak, sum(item.elements for item in self.held.values()))


class Meter(TorchDispatchMode):
    """While active, every result of every torch operation is entered in the ledger.

    >>> with Meter(arguments=[]) as meter:
    ...     x = torch.ones(8, 8).sum()
    >>> meter.reading
    Reading(largest=64, peak=65)
    """

    def __init__(self, arguments: list[Tensor]) -> None:
        super().__init__()
        self.ledger = Ledger({x.untyped_storage()._cdata for x in arguments})

    @property
    def reading(self) -> Reading:
        return self.ledger.reading

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, Tensor):
                self.ledger.enter(x)
        self.ledger.settle()
        return result
