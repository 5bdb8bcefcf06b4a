"""Calls and observations as JSON, so that they can cross the wall of the sandbox. Tensors travel as dtype, shape and bytes.

`loads_observation` reads what untrusted code has written: it builds nothing but tensors, numbers, tuples and three of the
classes below, checks every size before it allocates, and raises `WireError` for anything else.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.functions import FUNCTIONS
from autograder.observe import MOST_OPERATIONS, Call, Observation, Opaque, bits, cpu, detach, numel
from autograder.watch import Sighting

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
        torch.complex64, torch.complex128,
    )
}  # fmt: skip
# Bound before any answer has run: a student may give these names to something else.
array, is_contiguous, permute, stride = Tensor.numpy, Tensor.is_contiguous, Tensor.permute, Tensor.stride
as_json, b64encode = json.dumps, base64.b64encode
MAX_TEXT = 1 << 27  # characters of one message
MAX_DIMENSIONS = 16
MAX_SIGHTINGS = 1000  # of one observation: the judge compares each with each
MAX_PARTS = 1 << 17  # lists, dictionaries and their items: each takes memory, however short its text
TEXTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
MOST_CELLS = 1000  # of one notebook, whose functions an answer runs
MAX_DEPTH = 16  # of values inside values: far below what Python's stack holds, on either side of the wall


class WireError(ValueError):
    """A message that is not what it should be."""


def dumps(value: Any) -> str:
    """One line of JSON.

    Raises:
        WireError: if `value` holds something that may not travel, or is nested too deeply.
    """
    return as_json(encode(value))


def loads(text: str) -> Any:
    """The value that `dumps` wrote.

    Raises:
        WireError: for anything malformed, too large or too deeply nested.
    """
    return read(text, KINDS)


def loads_observation(text: str) -> Observation:
    """The observation that `dumps` wrote, or anybody else.

    Raises:
        WireError: as `loads`, and for what no observation holds. A dictionary is never built: numbers of one hash as its keys
            would cost the square of their count.
    """
    seen = read(text, SEEN)
    if not isinstance(seen, Observation):
        raise WireError("not an observation")
    return seen


def parse(text: str) -> Any:
    """What a JSON text says, refused before anything is built where it would be too many things.

    Raises:
        ValueError: for what is no JSON; WireError, which is one, for what is too long or has too many parts.
    """
    if len(text) > MAX_TEXT:
        raise WireError("message too long")
    outside = TEXTS.sub("", text)
    if sum(map(outside.count, "[{,")) > MAX_PARTS:
        raise WireError("message of too many parts")
    return json.loads(text)


def read(text: str, kinds: frozenset[str]) -> Any:
    try:
        return decode(parse(text), kinds)
    except WireError:
        raise
    except Exception as problem:  # whatever else a hostile message makes the decoder do
        raise WireError(f"unreadable message: {type(problem).__name__}") from None


def encode(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise WireError("nested too deeply")
    if isinstance(value, Tensor):
        return {"tensor": encode_tensor(value)}
    if value is None or type(value) in (bool, str, float):
        return value
    if type(value) is int:
        return value if abs(value) < 1 << 53 else {"int": hex(value)}
    if type(value) in (tuple, list):
        return {type(value).__name__: [encode(item, depth + 1) for item in value]}
    if type(value) is dict:
        return {"dict": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    name = type(value).__name__
    if type(value) is CLASSES.get(name):
        return {"object": name, "fields": {f.name: encode(getattr(value, f.name), depth + 1) for f in fields(value)}}
    raise WireError(f"{name} cannot leave the sandbox")


def encode_tensor(x: Tensor) -> list[Any]:
    name = str(x.dtype).removeprefix("torch.")
    if name not in DTYPES or x.layout != torch.strided:
        raise WireError(f"a tensor of {x.dtype}, {x.layout} cannot leave the sandbox")
    x = cpu(detach(x))
    data = array(bits(x)).tobytes() if numel(x) else b""
    order = sorted(range(x.ndim), key=partial(stride, x), reverse=True)  # memory layout of a permuted tensor, kept
    dense = is_contiguous(permute(x, order))
    return [name, list(x.shape), b64encode(data).decode(), order if dense else list(range(x.ndim))]


def decode(message: Any, kinds: frozenset[str], depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise WireError("nested too deeply")
    if type(message) is str:
        return message.encode("utf-8", "replace").decode("utf-8")  # lone surrogates fit into no file
    if message is None or type(message) in (bool, int, float):
        return message
    if type(message) is not dict or not 1 <= len(message) <= 2:
        raise WireError("not a message")
    ((kind, body), *_) = message.items()
    if (body if kind == "object" else kind) not in kinds:
        raise WireError(f"unknown kind of message: {str(kind)[:40]}")
    if kind == "tensor":
        return decode_tensor(*body)
    if kind == "int":
        return int(body, 16)
    if kind in ("tuple", "list"):
        items = (decode(item, kinds, depth + 1) for item in body)
        return list(items) if kind == "list" else tuple(items)
    if kind == "dict":
        return {decode(key, kinds, depth + 1): decode(item, kinds, depth + 1) for key, item in body}
    if kind == "dtype":
        return DTYPES[body]
    cls = CLASSES[body]
    values = {key: decode(item, kinds, depth + 1) for key, item in message["fields"].items()}
    for field in fields(cls):
        check = FIELD_CHECKS.get((body, field.name))
        if check is not None and not check(values[field.name]):
            raise WireError(f"{body}.{field.name} is malformed")
    return cls(**values)


def decode_tensor(name: Any, shape: Any, data: Any, order: Any) -> Tensor:
    dtype = DTYPES[name]
    if not (type(shape) is list and len(shape) <= MAX_DIMENSIONS and all(type(n) is int and n >= 0 for n in shape)):
        raise WireError("malformed shape")
    if sorted(order) != list(range(len(shape))):
        raise WireError("malformed memory order")
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise WireError("malformed data") from None
    if len(raw) != math.prod(shape) * dtype.itemsize:
        raise WireError("shape and data do not match")
    flat = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    x = flat.reshape(shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    return x.permute(order).contiguous().permute(back)


CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (Call, Observation, Opaque, Sighting)} | FUNCTIONS
# What a message may be made of, and what of it an observation.
KINDS = frozenset({"tensor", "int", "tuple", "list", "dict", "dtype", *CLASSES})
SEEN = frozenset({"tensor", "int", "tuple", Observation.__name__, Opaque.__name__, Sighting.__name__})


def _is_text(value: Any) -> bool:
    return value is None or (type(value) is str and len(value) <= 2000)


def _texts(value: Any, most: int = 64) -> bool:
    return type(value) is tuple and len(value) <= most and all(type(v) is str and len(v) <= 200 for v in value)


def _numbers(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MOST_CELLS and all(type(v) is int and v >= 0 for v in value)


def _gradients(value: Any) -> bool:
    return value is None or (type(value) is tuple and all(v is None or isinstance(v, Tensor) for v in value))


def _result(value: Any, depth: int = 0) -> bool:
    """What `observe` keeps of a result, and no other object inside it: see its `captured`."""
    if type(value) is tuple:
        return depth < MAX_DEPTH and all(_result(item, depth + 1) for item in value)
    return value is None or isinstance(value, Tensor | Opaque) or type(value) in (bool, int, float, str)


def _sightings(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MAX_SIGHTINGS and all(type(v) is Sighting for v in value)


# What an observation may hold, whoever wrote it.
FIELD_CHECKS: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("Observation", "value"): _result,
    ("Observation", "error"): _is_text,
    ("Observation", "gradient_error"): _is_text,
    ("Observation", "not_written"): lambda value: type(value) is bool,
    ("Observation", "changed_inputs"): _texts,
    ("Observation", "changed_settings"): _texts,
    ("Observation", "operations"): partial(_texts, most=MOST_OPERATIONS + 1),  # and the way in from numpy
    ("Observation", "beside"): _texts,
    ("Observation", "cells"): _numbers,
    ("Observation", "gradients"): _gradients,
    ("Observation", "forbidden"): _sightings,
    ("Observation", "largest"): lambda value: type(value) is int and value >= 0,
    ("Observation", "peak"): lambda value: type(value) is int and value >= 0,
    ("Opaque", "type_name"): lambda value: type(value) is str and len(value) <= 200,
    ("Sighting", "name"): lambda value: type(value) is str and len(value) <= 200,
    ("Sighting", "line"): lambda value: type(value) is int and 0 <= value < 1_000_000,  # sightings are hashed
}
