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

    given: dict[int, int]  # storages of the arguments, with their bytes when the answer began
    held: dict[int, Held] = field(default_factory=dict)
    total: int = 0  # elements of all that is held, the dead among them that nobody has looked for yet
    reading: Reading = field(default_factory=Reading)

    def enter(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage._cdata
        bytes_made = storage.nbytes() - self.given.get(key, 0)
        if bytes_made <= 0:
            return
        elements = bytes_made // x.element_size()
        reference = StorageWeakRef(storage)
        self.total += elements - (self.held[key].elements if key in self.held else 0)
        self.held[key] = Held(lambda: not reference.expired(), elements)
        self.reading.largest = max(self.reading.largest, elements)

    def settle(self) -> None:
        """Forget the dead, add up the living; not needed where even with the dead there is no new peak."""
        if self.total > self.reading.peak:
            self.held = {key: item for key, item in self.held.items() if item.alive()}
            self.total = sum(item.elements for item in self.held.values())
            self.reading.peak = max(self.reading.peak, self.total)


class Meter(TorchDispatchMode):
    """While active, every result of every torch operation is entered in the ledger.

    >>> with Meter(arguments=[]) as meter:
    ...     x = torch.ones(8, 8).sum()
    >>> meter.reading
    Reading(largest=64, peak=65)
    """

    def __init__(self, arguments: list[Tensor]) -> None:
        super().__init__()
        self.ledger = Ledger({(s := x.untyped_storage())._cdata: s.nbytes() for x in arguments})

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here. True, torch's own answer, would import its compiler at the first operation: seconds."""
        return False

    @property
    def reading(self) -> Reading:
        return self.ledger.reading

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in [result] if isinstance(result, Tensor) else torch.utils._pytree.tree_leaves(result):
            if isinstance(x, Tensor):
                self.ledger.enter(x)
        self.ledger.settle()
        return result
