"""Run an answer on one call and write down what came out: values, gradients, side effects. No judgement here.

This is the part that runs next to the student's code (in the notebook, or in the sandbox), so it knows neither
references nor expected values.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call as stateless

from autograder.callbacks import leaves_all_as_it_is
from autograder.functions import FUNCTIONS
from autograder.meter import Meter
from autograder.operations import Record
from autograder.watch import ForbiddenCall, Sighting, watch

# What is used after an answer has run, bound before: a student may have given these names to something else.
is_grad_enabled, set_grad_enabled, equal, derivatives = (
    torch.is_grad_enabled, torch.set_grad_enabled, torch.equal, torch.autograd.grad,
)  # fmt: skip
get_default_dtype, set_default_dtype = torch.get_default_dtype, torch.set_default_dtype
initial_seed, manual_seed, get_rng_state, set_rng_state = (
    torch.initial_seed, torch.manual_seed, torch.get_rng_state, torch.set_rng_state,
)  # fmt: skip
clone, detach, numel, to = Tensor.clone, Tensor.detach, Tensor.numel, Tensor.to
cpu, contiguous, reshape, view = Tensor.cpu, Tensor.contiguous, Tensor.reshape, Tensor.view

TENSORS = (Tensor, torch.nn.Parameter)  # and no class of a student's, whose attributes may be code
NUMBERS = (bool, int, float, str, type(None))
CUT_OFF = "cut off from the inputs"
OTHER_SHAPE = "the result has another shape"
MOST_OPERATIONS = 200  # names; honest answers know about thirty
LARGEST_OUTPUT = 1 << 24  # entries of one returned tensor that are kept; more is reported, not stored


@dataclass(frozen=True)
class Call:
    """One call of an answer: its arguments, and the directions in which gradients are asked for.

    `cotangents` holds one tensor (or None) per tensor of the result; the gradients are those of Σ ⟨result, cotangent⟩
    with respect to every floating-point tensor argument. None: no gradients. `metered`: read off the memory too.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    cotangents: tuple[Tensor | None, ...] | None = None
    metered: bool = False


@dataclass(frozen=True)
class Opaque:
    """A returned object that is neither tensor nor plain number: only its type's name is kept."""

    type_name: str


@dataclass(frozen=True)
class Observation:
    """What one call of an answer did.

    Attributes:
        value: nested tuples of tensors, numbers and `Opaque`; None with `error` set.
        error: "TypeError: …" when the answer raised.
        not_written: the answer raised NotImplementedError (or a question has no letter yet).
        changed_inputs: positions or names of the arguments that the answer changed in place.
        changed_settings: global settings of torch that it changed.
        gradients: one tensor or None for each floating-point tensor argument, in order.
        gradient_error: why there are no gradients although they were asked for.
        forbidden: forbidden calls seen while the answer ran.
        operations: of torch, that the answer called, and its ways out of torch (only where something is forbidden).
        beside: "threads", "processes": what else ran meanwhile (only in the sandbox).
        cells: numbers of the notebook's cells whose functions ran (only in the sandbox).
        largest, peak: elements of the largest tensor made, and of all alive at one moment, where the call was metered.
    """

    value: Any = None
    error: str | None = None
    not_written: bool = False
    changed_inputs: tuple[str, ...] = ()
    changed_settings: tuple[str, ...] = ()
    gradients: tuple[Tensor | None, ...] | None = None
    gradient_error: str | None = None
    forbidden: tuple[Sighting, ...] = ()
    operations: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()
    largest: int = 0
    peak: int = 0


def call_function(answer: Any, *args: Any, **kwargs: Any) -> Any:
    return answer(*args, **kwargs)


def read_letter(answer: Any) -> Any:
    """The letter of a multiple-choice answer, also as "(B)" or in full width; an empty one is not written yet."""
    if answer is None or answer is ... or (isinstance(answer, str) and not answer.strip()):
        raise NotImplementedError
    return unicodedata.normalize("NFKC", answer).strip(" \t\n().[]、。").lower() if isinstance(answer, str) else answer


# True while an answer runs: a check inside an answer would never end.
running: ContextVar[bool] = ContextVar("running", default=False)
INSIDE = "check() or use() is called inside the function: move it below"


def refuse_inside() -> None:
    """Called by check and use.

    Raises:
        RuntimeError: if an answer is being tried just now.
    """
    if running.get():
        raise RuntimeError(INSIDE)


class Misfit(ValueError):
    """A module whose parameters are not the ones asked for."""


def run_module(answer: Any, sizes: tuple[int, ...], state: dict[str, Tensor], *inputs: Any, **kwargs: Any) -> Any:
    """Build `answer(*sizes)`, run it with the weights in `state` on `inputs`.

    It runs on other weights first, and where it can on a shorter sequence: whoever keeps what belongs to the first ones has
    the wrong ones afterwards.
    """
    model = answer(*sizes)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the class should be a torch.nn.Module, not {type(model).__name__}")
    dtype = next(iter(state.values())).dtype
    model = model.to(dtype).eval()
    fit(state_of(model), state)
    with torch.no_grad():
        other = {name: value.detach().flip(-1) + 0.5 for name, value in state.items()}
        shorter = [x[:, :-1] for x in inputs if isinstance(x, Tensor) and x.ndim == 3 and x.shape[1] > 1]
        before = shorter if len(shorter) == len(inputs) == 1 and not kwargs else inputs
        stateless(model, other, tuple(fresh(before, False)), fresh(kwargs, False))
    return stateless(model, state, inputs, kwargs)


def state_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """The parameters and saved buffers that a module really has, whatever its own methods say."""
    named = dict(torch.nn.Module.named_parameters(model, remove_duplicate=False))
    return {**torch.nn.Module.state_dict(model), **named}


def fit(own: dict[str, Tensor], asked: dict[str, Tensor]) -> None:
    """The keys and shapes of a module's state are the ones asked for, and all of it can be trained.

    Raises:
        Misfit: naming what is missing, too many, of another shape or fixed.
    """
    missing, extra = sorted(asked.keys() - own.keys()), sorted(own.keys() - asked.keys())
    if missing or extra:
        said = [f"{what}: {', '.join(keys)}" for what, keys in (("missing", missing), ("not asked for", extra)) if keys]
        raise Misfit("; ".join(said))
    for name, value in asked.items():
        if own[name].shape != value.shape:
            raise Misfit(f"{name} should have shape {list(value.shape)}, not {list(own[name].shape)}")
    if fixed := [n for n in sorted(asked) if not (isinstance(own[n], torch.nn.Parameter) and own[n].requires_grad)]:
        raise Misfit(f"no parameters that can be trained: {', '.join(fixed)}")


DRIVERS: dict[str, Callable[..., Any]] = {"function": call_function, "letter": read_letter, "module": run_module}


def nobody(seen: Observation) -> None:
    """Who waits for what was seen, at home."""


def observe(
    answer: Any,
    call: Call,
    driver: str = "function",
    forbidden: tuple[Any, ...] = (),
    record: Record | None = None,
    tell: Callable[[Observation], None] = nobody,
) -> Observation:
    """Run `answer` on `call` and report what happened; an exception of the answer is reported, never raised.

    Args:
        answer: what the student wrote: a function, or a letter.
        call: arguments; the answer gets copies.
        driver: how the answer is used, a key of `DRIVERS`.
        forbidden: what must not be called meanwhile (see `watch`).
        record: of what torch carries out meanwhile; an own one if there is none.
        tell: is given the observation before its gradients are taken, which is no longer watched.
    """
    wants_gradients = call.cotangents is not None
    args, kwargs = fresh(call.args, wants_gradients), fresh(call.kwargs, wants_gradients)
    sightings: list[Sighting] = []
    value: Any = None
    error: str | None = None
    meter = Meter(list(tensors_in([args, kwargs]))) if call.metered else None
    not_written = False
    with watch(forbidden, sightings, record) as record, settings_kept() as changed_settings, torch.enable_grad():
        token = running.set(True)
        try:
            with meter or nullcontext():
                value = DRIVERS[driver](answer, *args, **kwargs)
        except NotImplementedError as problem:
            # A bare NotImplementedError is the released stub; one with a text comes from torch or the student's own code.
            error, not_written = f"NotImplementedError: {problem}", not str(problem)
        except ForbiddenCall as problem:
            error = str(problem)
        except Exception as problem:
            error = describe(problem)
        finally:
            running.reset(token)
        # Written down before anything of the student's can run unwatched: a backward pass of their own does.
        changed_inputs: tuple[str, ...] = ()
        kept: Any = None
        try:
            changed_inputs = (*changed(call.args, args), *changed(call.kwargs, kwargs))
            kept = None if error is not None else captured(value)
        except Exception as problem:  # keys of a dictionary may compare themselves in a way of their own
            error = error or describe(problem)
    seen = Observation(not_written=True)
    if not not_written:
        seen = Observation(
            value=kept,
            error=error,
            changed_inputs=changed_inputs,
            changed_settings=tuple(changed_settings),
            forbidden=tuple(sightings),
            operations=tuple(name[:200] for name in sorted(record.outermost | record.left)[:MOST_OPERATIONS]),
            largest=meter.reading.largest if meter else 0,
            peak=meter.reading.peak if meter else 0,
        )
    tell(seen)
    if error is None and wants_gradients:
        gradients, trouble = differentiate(value, call.cotangents or (), [*leaves(args), *leaves(kwargs)])
        seen = replace(seen, gradients=gradients, gradient_error=trouble)
    return seen


def describe(problem: BaseException) -> str:
    try:
        text = str(problem).strip().split("\n")[0]
    except Exception:  # a student's exception may fail to print
        text = "(no readable text)"
    # Python 3.13 has a kind of its own for what is cut short.
    name = "SyntaxError" if type(problem).__name__ == "_IncompleteInputError" else type(problem).__name__
    line = f"{name}: {text}"[:300] if text else name
    return line.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate could be neither printed nor saved


def fresh(value: Any, requires_grad: bool) -> Any:
    """A copy of `value` that the answer may do with as it likes; strides are kept."""
    if isinstance(value, Tensor):
        copy = value.detach().clone(memory_format=torch.preserve_format)
        return copy.requires_grad_(requires_grad and copy.is_floating_point())
    if isinstance(value, tuple | list):
        return type(value)(fresh(item, requires_grad) for item in value)
    if isinstance(value, dict):
        return {key: fresh(item, requires_grad) for key, item in value.items()}
    return function_alone(value) if type(value) in FUNCTIONS.values() else value


def function_alone(function: Any) -> Any:
    """To be called, and no more: what it is made of may be what the exercise asks for."""

    def model(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return model


def leaves(value: Any) -> Iterator[Tensor]:
    """The floating-point tensors inside `value`, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)


def changed(before: Any, after: Any) -> Iterator[str]:
    """Keys of the arguments that are no longer what they were."""
    pairs = before.items() if isinstance(before, dict) else enumerate(before)
    for key, old in pairs:
        if differs(old, after[key]):
            yield str(key)


def differs(old: Any, new: Any) -> bool:
    if isinstance(old, Tensor):
        if type(new) not in TENSORS or new.shape != old.shape or new.dtype != old.dtype:
            return True
        return not equal(bits(old), bits(new))
    if isinstance(old, tuple | list):
        return type(new) not in (tuple, list) or len(old) != len(new) or any(map(differs, old, new))
    if isinstance(old, dict):
        return type(new) is not dict or old.keys() != new.keys() or any(differs(old[k], new[k]) for k in old)
    return old is None and new is not None


def bits(x: Tensor) -> Tensor:
    """The raw bytes of `x`, so that NaN equals NaN."""
    return view(reshape(contiguous(cpu(detach(x))), -1), torch.uint8)


@contextmanager
def settings_kept() -> Iterator[list[str]]:
    """Notice and undo changes of torch's default dtype, gradient mode and seed."""
    dtype, grad, seed, state = get_default_dtype(), is_grad_enabled(), initial_seed(), get_rng_state()
    noticed: list[str] = []
    try:
        yield noticed
    finally:
        if get_default_dtype() != dtype:
            noticed.append("default dtype")
            set_default_dtype(dtype)
        if is_grad_enabled() != grad:
            noticed.append("gradient mode")
            set_grad_enabled(grad)
        if initial_seed() != seed:
            noticed.append("seed")
            manual_seed(seed)
            set_rng_state(state)


def captured(value: Any, depth: int = 0) -> Any:
    """`value` reduced to tensors, numbers and tuples; anything else becomes `Opaque`."""
    if type(value) in TENSORS:
        if value.layout != torch.strided or numel(value) > LARGEST_OUTPUT:
            return Opaque(f"torch.Tensor ({numel(value):,}, {value.layout})")
        return clone(detach(value))
    if type(value) in NUMBERS:
        return value
    items = items_of(value)
    if items is not None and depth < 4 and len(items) <= 64:
        return tuple(captured(item, depth + 1) for item in items)
    return Opaque(type(value).__name__)


def items_of(value: Any) -> Sequence[Any] | None:
    """What a tuple, a list or a named tuple holds; None of anything else, which may have an opinion of its own on that."""
    kind = type(value)
    if kind in (tuple, list):
        return list(value)
    return tuple(tuple.__iter__(value)) if issubclass(kind, tuple) and leaves_all_as_it_is(kind) else None


def tensors_in(value: Any) -> Iterator[Tensor]:
    if type(value) in TENSORS:
        yield value
    for item in value.values() if type(value) is dict else items_of(value) or ():
        yield from tensors_in(item)


def differentiate(
    value: Any, cotangents: tuple[Tensor | None, ...], inputs: list[Tensor]
) -> tuple[tuple[Tensor | None, ...] | None, str | None]:
    """Gradients of Σ ⟨result, cotangent⟩ with respect to `inputs`, or the reason why there are none."""
    results = list(tensors_in(value))
    wanted = [(y, w) for y, w in zip(results, cotangents) if w is not None and y.requires_grad and y.shape == w.shape]
    if len(results) != len(cotangents) or any(
        w is not None and y.shape != w.shape for y, w in zip(results, cotangents)
    ):
        return None, OTHER_SHAPE
    if not wanted:
        return None, CUT_OFF
    try:
        grads = derivatives([y for y, _ in wanted], inputs, [to(w, y.dtype) for y, w in wanted], allow_unused=True)
    except Exception as problem:  # e.g. an in-place change that autograd cannot undo
        return None, describe(problem)
    return tuple(None if g is None else clone(detach(g)) for g in grads), None
