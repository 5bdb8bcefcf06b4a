"""Whether torch could run a student's code through what it is given.

While torch carries out an operation that it has announced, it announces nothing else. So what it is given then must be
such that no function of a student's runs in there: numbers, tensors and lists of them.
"""

import os
from array import array
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from enum import Enum, EnumType, IntEnum, ReprEnum, StrEnum
from pathlib import Path
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket, TorchBindOpOverload
from torch.nn import Parameter, UninitializedBuffer, UninitializedParameter

TORCH = str(Path(torch.__file__).parent) + os.sep
PYTHON = str(Path(os.__file__).parent) + os.sep
OF_A_CLASS = (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)


def below(kind: type) -> Iterator[type]:
    yield kind
    child: type
    for child in kind.__subclasses__():
        yield from below(child)


# Types are compared by identity: a class of a student's may have an opinion of its own on what it equals.
def identities(*kinds: type) -> frozenset[int]:
    return frozenset(map(id, kinds))


TENSORS = identities(Tensor, Parameter, UninitializedBuffer, UninitializedParameter)
PLAIN = identities(
    bool, int, float, complex, str, bytes, range, NoneType, EllipsisType, object, array, memoryview,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.Generator, torch.finfo, torch.iinfo,
    torch.UntypedStorage, torch.TypedStorage, torch.ScriptObject, type(torch.FloatTensor), type(NotImplemented),
    *(kind for kind in below(np.generic) if kind not in (np.object_, np.void)), *below(np.dtype),
)  # fmt: skip
TYPES = PLAIN | TENSORS
OPERATIONS = identities(OpOverload, OpOverloadPacket, TorchBindOpOverload)
SEVERAL = identities(tuple, list, set, frozenset, deque, torch.Size)
ENUMS = identities(Enum, ReprEnum, IntEnum, StrEnum)
NUMBER_TYPES = identities(bool, int, float, complex)  # a type as a value: `x.to(float)`
# What a class may come from, if it leaves everything as it is there.
BASES = (tuple, list, int, float, str)
MADE_BY = ("__init__", "__new__")  # run where an object is made, which is over by then
DATA = identities(
    str, int, bool, tuple, list, dict, NoneType, type(vars(namedtuple("Pair", "first"))["first"]), *OF_A_CLASS
)
DEEPEST = 20


def of_torch(function: Any, around: tuple[int, ...] = ()) -> bool:
    """Whether a function is torch's own, and so are those it was made from (`around`: the ones that were looked at)."""
    kind = type(function)
    if id(kind) in OPERATIONS or id(function) in TYPES:  # `torch.device("cpu")` is announced too
        return True
    if kind is FunctionType:
        if not function.__code__.co_filename.startswith(TORCH):
            return False
        around = (*around, id(function))
        inner = [cell.cell_contents for cell in function.__closure__ or ()]
        return all(id(f) in around or of_torch(f, around) or not calls_back(f) for f in inner)
    if kind is MethodWrapperType:  # `Tensor.grad.__get__`
        function, kind = function.__self__, type(function.__self__)
    if kind in OF_A_CLASS:
        return bool(function.__objclass__.__module__.split(".")[0] == "torch")
    if kind is not BuiltinFunctionType:
        return False
    owner = (
        function.__self__
    )  # none of `torch.softmax`, a module of `torch.nn.functional.gelu`, a tensor of `x.softmax`
    home = owner.__name__ if type(owner) is ModuleType else str(function.__module__) if owner is None else ""
    return home.split(".")[0] == "torch"


def calls_back(value: Any, depth: int = 0) -> bool:
    """Whether something that is given to torch may run a student's code: a function, or an object of an own class."""
    kind = type(value)
    if id(kind) in PLAIN:
        return False
    if id(kind) in TENSORS:
        own = vars(value)
        return any(hasattr(Tensor, name) or calls_back(item, depth + 1) for name, item in own.items()) if own else False
    if depth > DEEPEST:
        return True
    if id(kind) in SEVERAL:
        return any(calls_back(item, depth + 1) for item in value)
    if kind is dict or kind is OrderedDict:
        return any(calls_back(item, depth + 1) for pair in value.items() for item in pair)
    if kind is slice:
        return any(calls_back(item, depth + 1) for item in (value.start, value.stop, value.step))
    if kind is np.ndarray:
        return bool(value.dtype.hasobject)
    if kind is type:
        return id(value) not in NUMBER_TYPES
    if type(kind) not in (type, EnumType) or not leaves_all_as_it_is(kind):
        return True
    several = tuple.__iter__ if issubclass(kind, tuple) else list.__iter__ if issubclass(kind, list) else None
    return several is not None and any(calls_back(item, depth + 1) for item in several(value))


def leaves_all_as_it_is(kind: type) -> bool:
    """Whether a class behaves like the one of Python's it comes from: a named tuple does, and so does an enumeration."""
    base = next((b for b in (*BASES, Enum) if issubclass(kind, b)), None)
    if base is None:
        return False
    own = [cls for cls in kind.__mro__ if id(cls) not in PLAIN | SEVERAL | ENUMS]
    return not any(
        (name.startswith("__") or hasattr(base, name)) and name not in MADE_BY and not of_python(thing)
        for cls in own
        for name, thing in vars(cls).items()
    )


def of_python(thing: Any) -> bool:
    """Whether an attribute of a class is data, a plain type (an enumeration notes one), or a function of Python's own."""
    if type(thing) is FunctionType:
        return thing.__code__.co_filename.startswith(PYTHON)
    return id(type(thing)) in DATA or type(thing) is BuiltinFunctionType or id(thing) in PLAIN


def given_a_callback(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a student's code could run while `function` does, where nobody sees it."""
    if not of_torch(function):
        return True
    if (
        function.__name__ == "__deepcopy__"
    ):  # what is copied beside the tensor stands in the second, under plain numbers
        args = (args[0], *(key for memo in args[1:2] if type(memo) is dict for key in memo), *args[2:])
    return any(map(calls_back, args)) or any(map(calls_back, kwargs.values()))


def name_of(function: Any) -> str:
    """What to call a function in a sentence."""
    if not of_torch(function):
        return "torch.overrides.handle_torch_function"  # the one way to have torch run what is not its own
    if type(function) is MethodWrapperType:
        function = function.__self__
    where = str(function.__module__) if type(function) is FunctionType else "torch"
    return (
        f"{'torch.Tensor' if type(function) in OF_A_CLASS or where == 'torch._tensor' else where}.{function.__name__}"
    )
