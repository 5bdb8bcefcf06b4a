"""What crosses the sandbox's wall comes out as it went in, and nothing else comes out."""

import json
import math
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograder.functions import Equivariant
from autograder.observe import Call, Observation, Opaque
from autograder.watch import Sighting
from autograder.wire import DTYPES, MAX_SIGHTINGS, WireError, dumps, loads, loads_observation, parse


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4)])
def test_tensors_of_every_dtype_bit_for_bit(dtype, shape):
    x = (torch.randn(shape, dtype=torch.float64) * 50).to(dtype)
    back = loads(dumps(x))
    assert back.dtype == dtype and back.shape == x.shape
    assert torch.equal(back, x)


def test_special_values_survive():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    back = loads(dumps(x))
    assert torch.equal(back.view(torch.int32), x.view(torch.int32))


def test_the_memory_layout_of_an_input_survives():
    x = torch.randn(2, 3, 4).permute(2, 0, 1)
    back = loads(dumps(x))
    assert back.stride() == x.stride() and not back.is_contiguous()
    assert torch.equal(back, x)


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(NUMBERS, lambda inner: st.tuples(inner, inner), max_leaves=8))
def test_numbers_and_tuples(value):
    assert loads(dumps(value)) == value


def test_calls_and_observations():
    call = Call((torch.ones(2), Equivariant(torch.ones(2, 2), torch.ones(2, 1))), {"mask": None}, (None,))
    back = loads(dumps(call))
    assert back.kwargs == {"mask": None} and back.cotangents == (None,)
    assert torch.equal(back.args[1](torch.ones(3, 2)), call.args[1](torch.ones(3, 2)))
    seen = Observation((1, Opaque("ndarray")), None, False, ("q",), (), (None,), "why", (Sighting("torch.softmax", 3),))
    assert loads(dumps(seen)) == loads_observation(dumps(seen)) == seen
    assert math.isnan(loads(dumps(float("nan"))))


def test_brackets_and_commas_within_a_text_are_no_parts():
    text = '[{,"' * 100_000
    assert parse(json.dumps({"seen": text})) == {"seen": text}
    with pytest.raises(WireError, match="too many parts"):
        parse(text)


class Pretender(torch.Tensor):
    pass


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", lambda: 1, torch.ones(2).to_sparse()])
def test_nothing_else_leaves(value):
    with pytest.raises(WireError):
        dumps(value)


GOOD = json.loads(dumps(torch.ones(2, 3)))["tensor"]
HOSTILE = {
    "no JSON": "{",
    "list": "[1]",
    "unknown kind": '{"pickle": "gASV"}',
    "unknown class": '{"object": "Popen", "fields": {}}',
    "missing field": '{"object": "Opaque", "fields": {}}',
    "extra field": '{"object": "Opaque", "fields": {"type_name": "a", "x": 1}}',
    "wrong field": '{"object": "Observation", "fields": {"error": 1}}',
    "long text": json.dumps({"object": "Opaque", "fields": {"type_name": "a" * 1000}}),
    "object dtype": json.dumps({"tensor": ["object", *GOOD[1:]]}),
    "huge shape": json.dumps({"tensor": ["float32", [1 << 62, 1 << 62], "", [0, 1]]}),
    "negative shape": json.dumps({"tensor": ["float32", [-2, -3], *GOOD[2:]]}),
    "too little data": json.dumps({"tensor": ["float32", [2, 4], *GOOD[2:]]}),
    "no base64": json.dumps({"tensor": ["float32", [2, 3], "?" * 32, [0, 1]]}),
    "bad order": json.dumps({"tensor": ["float32", [2, 3], GOOD[2], [0, 7]]}),
    "deep": '{"tuple": [' * 100_000 + "]}" * 100_000,
    "seventeen deep": '{"tuple": [' * 17 + "1" + "]}" * 17,
    "an object too deep inside an object": json.dumps(
        {
            "object": "Observation",
            "fields": {
                "value": {"tuple": [json.loads('{"object": "Call", "fields": {"args": ' * 20 + "1" + "}}" * 20)]}
            },
        }
    ),
    "true shape": json.dumps({"tensor": ["float32", [True, 6], *GOOD[2:]]}),
    "huge integer": '{"int": "0x' + "f" * 10 + 'zz"}',
    "fields as a list": '{"object": "Observation", "fields": []}',
    "no body": '{"tensor": []}',
    "long number": "1" * 10_000,
    "many small things": "[" + "[]," * 200_000 + "[]]",
    "many small things after a text": '{"object": "Opaque", "fields": {"type_name": "\\"", "x": ['
    + "[]," * 200_000
    + "[]]}}",
    "cells below zero": '{"object": "Observation", "fields": {"cells": {"tuple": [-1]}}}',
}


@pytest.mark.hostile
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_messages_are_refused_by_one_error(text):
    for read in (loads, loads_observation):
        with pytest.raises(WireError):
            read(text)


OF_ONE_HASH = [hex(k * ((1 << 61) - 1)) for k in range(1, 60_000)]  # as keys of a dictionary: minutes


@pytest.mark.hostile
def test_an_observation_is_read_without_a_dictionary():
    """Whatever stands in its place, or in it, is refused before it is built."""
    keys = json.dumps({"dict": [[{"int": key}, None] for key in OF_ONE_HASH]})
    call = json.dumps({"object": "Call", "fields": {"args": {"tuple": []}, "kwargs": {"dict": []}}})
    for text in (keys, call, "1", forged(keys), forged(call), f'{{"tuple": [{keys}]}}'):
        begin = time.process_time()
        with pytest.raises(WireError):
            loads_observation(text)
        assert time.process_time() - begin < 2
    assert loads_observation(dumps(Observation(0.5))) == Observation(0.5)


@pytest.mark.hostile
def test_sightings_are_no_more_than_can_be_compared_with_each_other():
    """The judge hashes them, so a line is a small number."""
    sightings = tuple(Sighting("torch.softmax", line) for line in range(MAX_SIGHTINGS))
    assert loads_observation(dumps(Observation(forbidden=sightings))).forbidden == sightings
    for more in ((*sightings, Sighting("torch.softmax", 1)), (Sighting("x", int(OF_ONE_HASH[0], 16)),)):
        with pytest.raises(WireError, match="malformed"):
            loads_observation(dumps(Observation(forbidden=more)))


def forged(value: str) -> str:
    """An observation as a student's code may write it, with anything in place of the result."""
    honest = json.loads(dumps(Observation()))
    honest["fields"]["value"] = "RESULT"
    return json.dumps(honest).replace('"RESULT"', value)


NO_RESULTS = {
    "a call": '{"object": "Call", "fields": {"args": 1}}',
    "a call in a tuple": '{"tuple": [{"object": "Call", "fields": {"args": 1}}]}',
    "a function of the course": dumps(Equivariant(torch.ones(1, 1), torch.ones(1, 1))),
    "an observation": dumps(Observation()),
    "a dictionary": '{"dict": []}',
    "a list": '{"list": []}',
    "a dtype": '{"dtype": "float32"}',
    "deep tuples": '{"tuple": [' * 400 + "1" + "]}" * 400,
    "deep calls": '{"object": "Call", "fields": {"args": ' * 480 + "1" + "}}" * 480,
    "deep dictionaries": '{"dict": [[1, ' * 300 + "1" + "]]}" * 300,
}


@pytest.mark.hostile
@pytest.mark.parametrize("value", NO_RESULTS.values(), ids=NO_RESULTS.keys())
def test_an_observation_holds_what_observe_can_have_seen_and_nothing_else(value):
    with pytest.raises(WireError):
        loads_observation(forged(value))
    assert loads_observation(forged('{"tuple": [1, {"tuple": [null, "b", 0.5]}]}')).value == (1, (None, "b", 0.5))


def test_what_is_nested_too_deeply_does_not_leave_either():
    value: object = 1
    for _ in range(16):
        value = (value,)
    assert loads(dumps(value)) == value
    with pytest.raises(WireError, match="deeply"):
        dumps((value,))


def test_lone_surrogates_come_out_as_text_that_can_be_saved():
    assert loads('{"tuple": ["x\\ud800y"]}') == ("x?y",)
