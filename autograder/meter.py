"""How much memory an answer takes while it runs: the largest of its tensors, and all of them together.

What Python itself holds counts too, numpy's arrays among it: numbers read out one by one leave torch, but not the memory.
"""

from dataclasses import dataclass, field
from tracemalloc import get_traced_memory, is_tracing, reset_peak, start, stop
from typing import Any, Self

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Reading:
    """In elements: bytes of the storage over bytes of an element.

    Attributes:
        largest: the biggest tensor made.
        peak: the most that was alive at one moment, each storage counted once; or what Python held, if that was more.
    """

    largest: int = 0
    peak: int = 0


# The objects around tensors and our own notes stay below in a right answer.
PYTHONS_OWN = 1 << 18
BYTES_OF_A_NUMBER = 4  # numpy's smallest that is precise enough; a float of Python's takes eight times as much


@dataclass
class Ledger:
    """What is alive; a view shares its storage and costs nothing, nor does anything that lies in an argument's memory."""

    given: dict[int, int]  # storages of the arguments, with their bytes when the answer began
    # Storages that an operation made, with their elements, as long as somebody holds them.
    held: dict[int, tuple[StorageWeakRef, int]] = field(default_factory=dict)
    total: int = 0  # elements of all that is held, the dead among them that nobody has looked for yet
    most_noted: int = 256  # storages, the dead among them: notes take memory too
    reading: Reading = field(default_factory=Reading)

    def enter(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage._cdata
        bytes_made = storage.nbytes() - self.given.get(key, 0)
        if bytes_made <= 0:
            return
        elements = bytes_made // x.element_size()
        self.total += elements - (self.held[key][1] if key in self.held else 0)
        self.held[key] = StorageWeakRef(storage), elements
        self.reading.largest = max(self.reading.largest, elements)

    def settle(self) -> None:
        """Forget the dead, add up the living; not needed where even with the dead there is no new peak."""
        if self.total > self.reading.peak or len(self.held) > self.most_noted:
            self.held = {key: (storage, n) for key, (storage, n) in self.held.items() if not storage.expired()}
            self.total = sum(elements for _, elements in self.held.values())
            self.reading.peak = max(self.reading.peak, self.total)
            self.most_noted = max(self.most_noted, 2 * len(self.held))


class Meter(TorchDispatchMode):
    """While active, every result of every torch operation is entered in the ledger.

    >>> with Meter(arguments=[]) as meter:
    ...     x = torch.ones(8, 8).sum()
    >>> meter.reading
    Reading(largest=64, peak=65)
    """

    def __init__(self, arguments: list[Tensor]) -> None:
        super().__init__()
        self.before, self.starts = 0, False
        self.ledger = Ledger({(s := x.untyped_storage())._cdata: s.nbytes() for x in arguments})

    def __enter__(self) -> Self:
        self.starts = not is_tracing()
        if self.starts:
            start()
        reset_peak()
        self.before, _ = get_traced_memory()
        super().__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        _, most = get_traced_memory()
        if self.starts:
            stop()
        in_python = (most - self.before - PYTHONS_OWN) // BYTES_OF_A_NUMBER
        self.reading.peak = max(self.reading.peak, in_python)

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
