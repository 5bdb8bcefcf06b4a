"""A forbidden call is seen while the answer runs and in its source; an allowed one never is."""

import contextlib
import copy
import cProfile
import gc
import importlib
import inspect
import io
import re
import subprocess
import sys
import threading
import time
import weakref
from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, IntEnum, StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import einops
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

from autograder import get, operations
from autograder.exercises.forbidden import NORMS, PRODUCTS, SOFTMAXES
from autograder.guard import forbidden_in_source, names_between_cells
from autograder.judging import forbidden_sentence
from autograder.pipeline.authoring import load_lesson, solved_notebook
from autograder.pipeline.glossary import findings
from autograder.syntax import MOST_SCANNED, TOO_LONG, is_no_python
from autograder.tests.right_answers import RIGHT
from autograder.unusual import TANGLED, Rank, Seen, said, theirs, unusual_in_source
from autograder.watch import UNSEEN, ForbiddenCall, Sighting, Watcher, find, set_trap, watch

SDPA = "torch.nn.functional.scaled_dot_product_attention"
x = torch.ones(1, 2, 3)
early_bound = F.scaled_dot_product_attention


def ours(value: torch.Tensor) -> torch.Tensor:
    return value + 1


def with_closure(shift: float):
    def inner(value: torch.Tensor, *, times: int = 1) -> torch.Tensor:
        return value + shift * times

    return inner


RUNNING = {
    "function": (SDPA, lambda: F.scaled_dot_product_attention(x, x, x)),
    "bound before": (SDPA, lambda: early_bound(x, x, x)),
    "by getattr": (SDPA, lambda: getattr(F, "scaled_dot_" + "product_attention")(x, x, x)),
    "class": ("torch.nn.MultiheadAttention", lambda: nn.MultiheadAttention(4, 1)),
    "subclass": ("torch.nn.MultiheadAttention", lambda: type("Mine", (nn.MultiheadAttention,), {})(4, 1)),
    "method": ("torch.Tensor.softmax", lambda: x.softmax(-1)),
    "python function": ("torch.nn.functional.softmax", lambda: F.softmax(x, -1)),
    "whole module": ("torch.func.*", lambda: torch.func.jacrev(torch.sin)(x)),
    "autograd": ("torch.autograd.*", lambda: torch.autograd.grad(x.clone().requires_grad_().sum(), [x])),
    "backward": ("torch.Tensor.backward", lambda: x.clone().requires_grad_().sum().backward()),
    "distribution": ("torch.distributions.*", lambda: torch.distributions.Categorical(torch.ones(2))),
    "own reference": (ours, lambda: ours(x)),
}


@pytest.mark.parametrize("target, call", RUNNING.values(), ids=RUNNING.keys())
def test_seen_while_it_runs(target, call):
    seen: list[Sighting] = []
    with watch([target], seen), pytest.raises(ForbiddenCall):
        call()
    assert len(seen) == 1
    assert seen[0].line > 0


def test_swallowing_the_exception_does_not_hide_the_call():
    seen: list[Sighting] = []
    with watch([SDPA], seen), contextlib.suppress(Exception):
        F.scaled_dot_product_attention(x, x, x)
    assert [s.name for s in seen] == [SDPA]


@pytest.mark.parametrize("target", [target for target, _ in RUNNING.values()], ids=RUNNING.keys())
def test_all_is_as_before_afterwards(target):
    with watch([target], []):
        pass
    assert torch.equal(ours(x), x + 1)
    assert F.softmax(x, -1).sum() == 2
    assert nn.MultiheadAttention(4, 1).num_heads == 1
    assert torch.autograd.grad((y := x.clone().requires_grad_()).sum(), y)[0].equal(torch.ones_like(x))


def test_other_calls_pass():
    seen: list[Sighting] = []
    with watch([SDPA, "torch.nn.MultiheadAttention", "torch.Tensor.backward"], seen):
        y = torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x
        y = torch.einsum("bij,bjk->bik", y, torch.ones(1, 3, 3)) + F.linear(x, torch.ones(3, 3))
    assert seen == []
    assert y.shape == (1, 2, 3)


def test_a_trap_fits_functions_with_closures_and_keywords():
    function = with_closure(2.0)
    seen: list[str] = []
    set_trap(function, "inner", seen.append)
    function(x, times=3)
    assert seen == ["inner"]


HIDDEN_CALLS = {
    "torch's announcements switched off": (
        "softmax",
        lambda: without_announcing(F.softmax)(x, -1),
    ),
    "the core's own name": ("_softmax", lambda: torch.ops.aten._softmax.default(x, -1, False)),
    "a backward pass of an own function": ("_softmax", lambda: backward_of_own(lambda g: torch.softmax(g, -1))),
    "a long loop before it": ("softmax", lambda: ([x + 1 for _ in range(3000)], without_announcing(F.softmax)(x, -1))),
    "inside of another's name": ("softmax", lambda: under_the_name("aten::add", without_announcing(F.softmax))),
}


def without_announcing(call):
    def silent(*args):
        with torch._C.DisableTorchFunction():
            return call(*args)

    return silent


def under_the_name(name, call):
    with torch.autograd.profiler.record_function(name):
        call(x, -1)


def backward_of_own(call):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, g):
            return call(g)

    with torch._C.DisableTorchFunction():
        Own.apply(x.clone().requires_grad_()).sum().backward()


@pytest.mark.hostile
@pytest.mark.parametrize(("operation", "call"), HIDDEN_CALLS.values(), ids=HIDDEN_CALLS.keys())
def test_what_torch_carried_out_is_on_its_record(operation, call):
    """Whatever way it was called, and though the watch in front saw nothing or was taken away."""
    seen: list[Sighting] = []
    with (
        watch(["torch.softmax", "torch.Tensor.softmax"], seen),
        contextlib.suppress(ForbiddenCall),
        patch.object(
            Watcher, "__torch_function__", lambda self, f, _, args=(), kwargs=None: f(*args, **(kwargs or {}))
        ),
    ):
        call()
    assert Sighting(f"torch.ops.aten.{operation}", 0) in seen


def another_record():
    operations.switches().end()
    operations.switches().begin(operations.PLAIN)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "switch", [operations.switches().end, another_record, lambda: torch._C._autograd._enable_record_function(False)]
)
def test_the_record_cannot_be_switched_off(switch):
    seen: list[Sighting] = []
    with watch(["torch.softmax"], seen):
        switch()
        without_announcing(F.softmax)(x, -1)
    torch._C._autograd._enable_record_function(True)
    assert {s.name for s in seen} in ({"torch.profiler"}, {"torch.ops.aten.softmax", "torch.ops.aten._softmax"})


@pytest.mark.hostile
def test_there_is_no_second_record():
    seen: list[Sighting] = []
    operations.switches().begin(operations.PLAIN)
    with watch(["torch.softmax"], seen):
        assert (x + 1).sum() > x.sum()
    operations.switches().end()
    assert seen == [Sighting("torch.profiler", 0)]


def test_every_forbidden_call_of_torch_has_its_operation():
    """`masked_softmax` forbids the softmax over a sparse tensor's entries alone, and not the softmax."""
    closed = operations.operations_of
    assert closed(("torch.sparse.softmax",)) == {"_sparse_softmax"}
    assert closed(("torch.nn.functional.unfold",)) == frozenset()  # im2col, which a tensor's own `unfold` is not
    assert {"matmul", "mm", "bmm", "addmm", "dot", "mv", "einsum", "convolution", "linear"} <= closed(PRODUCTS)
    assert {"linalg_qr", "linalg_solve", "_linalg_svd"} <= closed(PRODUCTS) and "linalg_vector_norm" not in closed(
        PRODUCTS
    )
    assert {"softmax", "_softmax", "_log_softmax", "scaled_dot_product_attention"} <= closed(SOFTMAXES)
    assert {"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm", "native_batch_norm"} <= closed(NORMS)


def test_a_misspelt_target_is_an_error_of_ours():
    with pytest.raises(AttributeError):
        find("torch.nn.functional.scaled_dot_product_atention")


SOURCES = {
    "full name": ("def f(q):\n    return torch.nn.functional.scaled_dot_product_attention(q, q, q)", SDPA, 2),
    "usual alias": ("def f(q):\n    return F.scaled_dot_product_attention(q, q, q)", SDPA, 2),
    "own alias": ("import torch.nn.functional as G\nG.scaled_dot_product_attention", SDPA, 2),
    "from import": ("from torch.nn.functional import scaled_dot_product_attention as s\n\ns(1, 2, 3)", SDPA, 1),
    "below a star": ("def f(s):\n    return torch.func.jacrev(s)", "torch.func.*", 2),
    "method": ("def f(s):\n    s.sum().backward()", "torch.Tensor.backward", 2),
    "indented": ("    def f(s):\n        s.sum().backward()", "torch.Tensor.backward", 2),
    "beside a magic": ("%matplotlib inline\n!ls\nF.scaled_dot_product_attention(1)", SDPA, 3),
    "operator": ("def f(a, b):\n    return a @ b", "torch.Tensor.__matmul__", 2),
    "course": ("from course_lib.attention import softmax\nsoftmax(1)", "", 1),
    "own name for torch": ("def f(s):\n    t = torch\n    u = t\n    return u.softmax(s, -1)", "torch.softmax", 4),
    "unpacked": ("a, b = torch, 1\na.softmax(1)", "torch.softmax", 2),
    "walrus": ("(t := torch.nn.functional).softmax(1)\nt.relu(1)", "torch.nn.functional.relu", 2),
    "default value": ("def f(s, t=torch):\n    return t.softmax(s, -1)", "torch.softmax", 2),
    "loop": ("for t in (torch,):\n    t.softmax(1)", "torch.softmax", 2),
    "hidden by an import": (
        "def unused():\n    import math as torch\n\ndef f(s):\n    return torch.softmax(s)",
        "torch.softmax",
        5,
    ),
    "a line that begins with a percent sign": (
        "def f(s):\n    _ = (7\n% 2)\n    return torch.softmax(s)",
        "torch.softmax",
        4,
    ),
    "beside a question": ("torch?\ntorch.softmax(1)", "torch.softmax", 2),
    "percent sign and question": ("torch?\n_ = (7\n% 2)\ntorch.softmax(1)", "torch.softmax", 4),
    "inside a magic": ("%time shares = torch.softmax(1)", "torch.softmax", 1),
    "inside a cell magic": ("%%time\nx = 1\ntorch.softmax(1)", "torch.softmax", 2),
    "getattr with a plain name": ("def f(s):\n    return getattr(torch, 'softmax')(s)", "torch.softmax", 2),
    "reference": ("import autograder\nautograder.get('attend').reference(1)", "", 2),
}


@pytest.mark.parametrize("source, forbidden, line", SOURCES.values(), ids=SOURCES.keys())
def test_seen_in_the_source(source, forbidden, line):
    found = forbidden_in_source(source, [forbidden] if forbidden else [])
    assert found and found[0].line == line


def test_an_import_in_another_cell_gives_the_name_its_meaning():
    answer = "def f(q):\n    return attention(q, q, q)"
    context = "from torch.nn.functional import scaled_dot_product_attention as attention"
    assert forbidden_in_source(answer, [SDPA]) == []
    assert forbidden_in_source(answer, [SDPA], context) == [Sighting(SDPA, 2)]


INNOCENT = [
    "def scaled_dot_product_attention(q, k, v):\n    return scaled_dot_product_attention(q, k, v)",
    "# F.scaled_dot_product_attention\n'torch.nn.MultiheadAttention'",
    "from course_lib import plots\nplots.heat_map(1)",
    "from autograder import check, hint\ncheck('attend', attend)\nhint('attend')",
    "not python at all (",
    "x = 'course_lib.attention'",
]


@pytest.mark.parametrize("source", INNOCENT)
def test_innocent_sources(source):
    assert forbidden_in_source(source, [SDPA, "torch.nn.MultiheadAttention", "torch.Tensor.backward"]) == []


BACK_DOOR_SOURCES = [
    "def f(q):\n    return torch.ops.aten.scaled_dot_product_attention(q, q, q)",
    "def f(q):\n    return torch._scaled_dot_product_attention_math(q, q, q)",
    "def f(q):\n    with torch._C.DisableTorchFunction():\n        return q",
    "from torch.nn.attention.flex_attention import flex_attention\nflex_attention(1)",
    "def f(p):\n    return p.grad_fn(p)",
    "import torch.autograd.forward_ad as fw\nfw.dual_level()",
    "from autograder.functions import Equivariant\nEquivariant(1, 2)",
    "def f(s, dim):\n    t = torch\n    return t._softmax(s, dim, False)",
    "def f(s):\n    return torch.jit.script(s)",
]


@pytest.mark.hostile
@pytest.mark.parametrize("source", BACK_DOOR_SOURCES)
def test_back_doors_end_the_credit(source):
    assert forbidden_in_source(source, [SDPA])


UNUSUAL = {
    "import autograder as A\nA.state.send({})": "autograder.state.send",
    "__import__('sys').modules": "__import__",
    "import sys\nsys.modules['autograder.observe'].watch = 1": "sys.modules",
    "import gc\ngc.get_objects()": "gc.get_objects",
    "F.scaled_dot_product_attention(q, q, q)": SDPA,
    "exec('1')": "exec",
    "getattr(torch, '_soft' + 'max')": "getattr",
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()": "import concurrent.futures.ThreadPoolExecutor",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_back": "tb_frame",
    "check.__globals__['observe']": "__globals__",
    "get_ipython().run_cell('x')": "get_ipython",
    "[torch][0]._softmax(1)": "_softmax",
    "x = (": "code that cannot be read as Python",
}


@pytest.mark.parametrize("source, name", UNUSUAL.items())
def test_code_an_instructor_may_like_to_read(source, name):
    assert name in [sighting.name for sighting in unusual_in_source(source, [SDPA])]


def test_usual_code_is_not_listed():
    source = (
        "from autograder import check, hint\nimport math, sys\ncheck('attend', attend)\nprint(sys.version)\nq.T @ k"
    )
    assert unusual_in_source(source, [SDPA]) == []
    magics = "%matplotlib inline\n!pip install torch\nfrom google.colab import drive\ndrive.mount('/content/drive')\nx = getattr(x, 'T')"
    assert unusual_in_source(magics, [SDPA]) == []
    own = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self._cache = None\n"
    assert unusual_in_source(own, [SDPA]) == []


def test_torch_s_unlisted_functions_are_seen_while_they_run():
    seen: list[Sighting] = []
    with watch(["torch.softmax"], seen), pytest.raises(ForbiddenCall):
        getattr(torch, "_soft" + "max")(x, -1, False)
    assert [sighting.name for sighting in seen] == ["torch._softmax"]


@pytest.mark.hostile
def test_a_module_that_calls_itself_torch_is_still_the_student_s():
    seen: list[Sighting] = []
    code = compile("def f(x):\n    return torch._softmax(x, -1, False)", "<ipython-input-1-0>", "exec")
    scope = {"torch": torch, "__name__": "torch"}
    exec(code, scope)
    with watch(["torch.softmax"], seen), pytest.raises(ForbiddenCall):
        scope["f"](x)  # type: ignore[operator]
    assert seen == [Sighting("torch._softmax", 2)]


def test_torch_s_own_use_of_them_is_none_of_ours():
    seen: list[Sighting] = []
    with watch(["torch.softmax"], seen):
        values = torch.unique(torch.tensor([2, 1, 2]))
        torch.nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))(torch.ones(1, 2))
        torch.block_diag(torch.ones(1, 1), torch.ones(2, 2)).norm()
    assert values.tolist() == [1, 2] and seen == []


# ------------------------------------------------------------------------------------------------- listed, not guessed

ROUTES = {
    "a list": "def f(q):\n    return [torch][0].ops.aten.mm(q, q)",
    "a lambda": "f = (lambda t: t.softmax)(torch)",
    "a with": "def f(q):\n    with [torch][0] as t:\n        return t",
    "a match": "def f(q):\n    match torch.nn:\n        case object(scaled_dot_product_attention=g):\n            return g(q)",
    "a match of the module": "match torch:\n    case object(ops=o):\n        pass",
    "everything imported": "from torch.nn.functional import *\ndef f(q):\n    return scaled_dot_product_attention(q, q, q)",
    "attrgetter": "from operator import attrgetter\nattrgetter('ops')",
    "reduce": "from functools import reduce\nreduce(getattr, ['ops', 'aten'], torch.nn)",
    "pkgutil": "import pkgutil",
    "timeit": "from timeit import timeit",
    "ctypes": "import ctypes\n[ctypes][0]",
    "a method that runs Python": "def f(q):\n    return torch.zeros(1).apply_(lambda v: v)",
    "a subclass": "class T(torch.Tensor):\n    pass",
    "torch asks a class": "class T:\n    @classmethod\n    def __torch_function__(cls, *a): pass",
    "a dispatch class": "class T:\n    @classmethod\n    def __torch_dispatch__(cls, *a): pass",
    "as_subclass": "q.as_subclass(T)",
    "dlpack": "class W:\n    def __dlpack__(self): pass",
    "dlpack of torch": "from torch.utils.dlpack import to_dlpack",
    "a thread": "import asyncio\nasyncio.run(asyncio.to_thread(f, 1))",
    "a file of one's own": "open('tools.py', 'w').write('')",
    "a path": "from pathlib import Path\nPath('t').write_text('')",
    "a file, any mode": "open('tools', mode=m)",
    "a module of one's own": "import tools",
    "beside the package": "from . import tools",
    "the observer": "import sys\n[sys][0].modules['autograder.observe'].watch = None",
    "the package in a list": "import autograder\n[autograder][0].functions.layer_norm",
    "the package by another name": "import autograder as A",
    "a part of the package": "from autograder.functions import layer_norm",
    "file descriptors": "import os\nos.write(3, b'')",
    "the system by its bare name": "import os\n[os][0]._exit(0)",
    "the end": "from os import _exit",
    "an import by its name": "__import__('os')",
    "frames": "import sys\nsys._getframe(1)",
    "a name in a text": "run('torch.ops.aten.mm')",
    "an index": "class N:\n    def __index__(self): return 1",
    "a hook": "q.register_hook(f)",
    "pickle": "torch.load('x', weights_only=False)",
    "grad_fn": "back = p.grad_fn\nback(p)",
    "grad_fn through a print of one's own": "def print(x): return x\nback = print(p.grad_fn)",
    "a field of a format": "from string import Formatter\nFormatter().get_field('0.functional', [torch.nn], {})",
    "a formatter of one's own": "import string\nclass F(string.Formatter):\n    pass",
    "annotations as texts": "import typing\ntyping.get_type_hints(f)",
    "an import by IPython": "from IPython.utils.importstring import import_item",
    "a parsed line of IPython": "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.instance()",
    "the parser of logging": "import logging.config\nlogging.config.BaseConfigurator({}).resolve",
    "numpy runs a text": "np.testing.runstring(text, d)",
    "numpy loads what runs": "np.load(io.BytesIO(text), None, True)",
    "numpy loads, by another name": "from numpy import load as l\nl(data, None, True)",
    "numpy's load in a list": "import numpy\n[numpy.load][0](data, None, True)",
    "torch loads what runs": "torch.load('x', **{'weights_only': False})",
    "a module asked for in a set of one's own": "import sys\nsys.modules in Keep()",
    "a text that asks for the grader": "box[0]['autograder.observe'].watch = None",
    "threads of sklearn": "from sklearn.utils.parallel import Parallel",
    "threads of sklearn's models": "search = GridSearchCV(model, grid, n_jobs=2)",
    "threads of IPython": "from IPython.lib.backgroundjobs import BackgroundJobManager",
    "threads of torch": "torch.nn.parallel.parallel_apply(models, inputs)",
    "threads of tqdm": "from tqdm.contrib.concurrent import thread_map",
    "another package's answer": "from transformers.models.llama.modeling_llama import LlamaRMSNorm",
    "another name of a module": "__name__ = 'torch'",
    "a name in two halves": "f = reach('torch.nn.functional.scaled_dot' + '_product_attention')",
    "attributes by a class made for them": "from dataclasses import make_dataclass",
    "a module's private part": "import typing\ntyping._eval_type(1)",
    "a module through another": "import dataclasses\ndataclasses.sys",
    "a stream of one's own": "import contextlib\nclass R(contextlib.redirect_stdout):\n    pass",
    "a timer's code": "from torch.utils.benchmark import Timer",
    "a graph of torch": "torch.export.export(M(), (x,))",
    "pandas runs a text": "frame.query('@f(a)')",
    "a magic with options": "%timeit -n1 -r 1 -q with torch._C.DisableTorchFunction(): pass",
    "a magic of two lines": "%%timeit -n1 import ctypes\npass",
    "a magic whose code is none": "%time with",
    "a magic in a magic in a magic": "%time %time %time %time import ctypes",
    "a magic that runs a file": "%run tools.py",
    "a magic that writes a file": "%prun -T tools.py x = 1",
    "many magics": "%time 0\n" * 51 + "%time import ctypes",
    "a name of torch set anew": "torch.allclose = torch.equal = lambda *a: True",
    "a name of numpy set anew": "np.allclose: object = f",
    "a method of torch set anew": "T = torch.Tensor\nT.__eq__ = f",
    "a built-in set anew": "import builtins as b\nb.print, x = f, 1",
    "a name of the course set anew": "import autograder\nfor autograder.check in (f,): pass",
    "a class made by type()": "T = type('T', (torch.Tensor,), {u + 'torch_function' + u: f})",
    "type as a value": "make = type",
    "a class of torch by another name": "B = torch.Tensor\nclass T(B):\n    pass",
    "a class of torch, imported": "from torch import Tensor as B\nclass T(B):\n    pass",
    "a progress bar of one's own": "from tqdm import tqdm\nclass Bar(tqdm):\n    def refresh(self): f()",
    "a list of one's own": "class P(list):\n    def __len__(self): return f()",
    "a comparison of one's own": "class P:\n    def __ge__(self, other): return f()",
    "a name given to a dunder": "class P:\n    __eq__ = f",
    "attributes by a pattern": "match x:\n    case Kind(g):\n        g(-1)",
    "a setting in a dictionary": "G(m, **{'n_jobs': 2})",
    "a setting in a dictionary, elsewhere": "how = {'n_jobs': 2}\nG(m, **how)",
    "a setting by a computed name": "G(m, **{f'n_{jobs}': 2})",
    "open by another name": "o = open\no('x', 'w')",
    "open with a dictionary": "open('x', **{'mode': 'w'})",
    "a log file": "import logging\nlogging.basicConfig(filename='einops' + suffix)",
    "everything of scipy": "from scipy.special import *",
    "everything of torch.nn": "from torch.nn import *",
    "IPython's shell, imported": "from IPython import get_ipython as g\ng().run_line_magic('time', f'x')",
    "IPython's shell": "import IPython\nIPython.get_ipython().input_transformers_cleanup.append(f)",
    "IPython's frames": "import IPython\nIPython.extract_module_locals(1)",
    "numpy measures a text": "np.testing.measure(text)",
    "threads of numpy": "from numpy import testing\ntesting.run_threaded(f, 1)",
    "torch calls back": "F.handle_torch_function(f, (x,), x)",
    "torch calls back, a loss": "nn.TripletMarginWithDistanceLoss(distance_function=f)",
    "torch calls back, a condition": "torch.cond(p, f, g, (x,))",
    "a module below as a value": "ask(torch.nn.functional, x)",
    "a module below by another name": "net = nn.functional",
    "a module of an import elsewhere": "def ask(n): return n\nask(np)",
    "torch through another module": "from course_lib import plots\nplots.torch.special",
    "torch through itself": "F.torch.softmax",
    "a name of Python's set anew": "import json\njson.dumps = f",
    "a warning of one's own": "import warnings\nwarnings.showwarning = f",
    "a class of a package set anew": "from tqdm import tqdm\ntqdm.monitor_interval = 0.1",
    "braces in a magic": "%who {box.append(torch.softmax)}",
    "braces in a setting": "%env A={f()}",
    "braces behind a cell magic": "%%html {f()}\n<b>x</b>",
    "code in %config": "%config InteractiveShell.colors = f() or 'NoColor'",
    "an extension that is any module": "%load_ext torch.nn.attention.flex_attention",
    "an own attribute called like torch's": "class Box:\n    def keep(self):\n        self.DisableTorchFunction = None\n"
    "def ask(self): return self.DisableTorchFunction",
    "an own attribute called like a dunder": "class Box:\n    def keep(self):\n        self.__globals__ = None\n    def ask(self): return self.__globals__",
    "a method called by its class": "class Box:\n    get_field = None\n    DisableTorchFunction = 0\n"
    "    def ask(self): return self.DisableTorchFunction\nBox.ask(torch_c)",
    "a method taken out of its class": "class Box:\n    DisableTorchFunction = 0\n    def ask(self): return self.DisableTorchFunction\n    keep.append(ask)",
    "a finished convolution": "F.conv_transpose2d(A[:, :, None, None], B[:, :, None, None])",
    "a finished cell": "torch.gru_cell(x, h, w, u, b)",
    "in place": "c.addmm_(a, b)",
    "annotations as texts, by inspect": "import inspect\ninspect.signature(f, eval_str=True)",
    "frames by a traceback": "import traceback\nfor frame, line in traceback.walk_stack(None): pass",
    "an own word for what gc has": "import gc\ndef get_referents(x): return [x]\ngc.get_referents(check)",
    "an own word for a loop's threads": "import asyncio\ndef new_event_loop(): pass\nloop = asyncio.new_event_loop()",
    "an own word for operator's": "import operator\ndef methodcaller(): pass\noperator.methodcaller('so' + 'ftmax', -1)",
    "an own word for a path's": "from pathlib import Path\ndef touch(): pass\nPath.touch('x')",
    "a usual word of timeit": "import timeit\ntimeit.repeat(text, number=1)",
    "a usual word of timeit, imported": "from timeit import repeat",
    "a usual word of inspect": "import inspect\ninspect.stack()[0][0]",
    "a usual word of inspect's, imported": "from inspect import trace as t",
    "the built-ins by another name": "from enum import bltns\ndef run(exec): return exec\nbltns.exec(text)",
    "the built-ins through a module": "import enum\ndef run(exec): return exec\nenum.bltns.exec(text)",
    "a table of copy": "from copy import dispatch_table",
    "a module through a drawing one": "from matplotlib.pyplot import cbook",
    "a drawing package's files": "from matplotlib.cbook import open_file_cm",
    "a drawing package's files, in full": "import matplotlib\nmatplotlib.cbook.open_file_cm('x', 'w')",
    "a module that draws": "import matplotlib\nmatplotlib.use('module://look')",
    "a module that draws, by a computed name": "import matplotlib\nmatplotlib.use(f'{a}://look')",
    "a module that draws, by pyplot": "plt_use = 1\nimport matplotlib.pyplot as plt\nplt.switch_backend(name)",
    "a module that draws, as a value": "import matplotlib\n[matplotlib.use][0](name)",
    "a module that draws, as a setting": "plt.rcParams['backend'] = 'module://look'",
    "a switch of torch": "import os\nos.environ['TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'] = '1'",
    "a switch in two halves": "import os\nos.environ['TORCH_FORCE' + '_NO_WEIGHTS_ONLY_LOAD'] = '1'",
    "a computed switch": "from os import environ as e\ne[f'{t}_FORCE'] = '1'",
    "a switch in a dictionary": "import os\nos.environ.update(d)",
    "a switch by a union": "from os import environ as e\ne |= d",
    "a switch by a magic": "%env TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1",
    "bytes to load": "import io\ntorch.load(io.BytesIO(data))",
    "a pickle": "data = b'cbuiltins\\nexec\\n(Vpass\\ntR.'",
    "workers by position": "from torch.utils.data import DataLoader\niter(DataLoader(d, None, None, o, None, 1, None))",
    "workers by a list": "torch.utils.data.DataLoader(*several)",
    "workers by another name": "from torch.utils.data import DataLoader\n[DataLoader][0](d, None, None, o, None, 1, None)",
    "a module that is called like a usual word": "import torch.utils.benchmark as b",
    "what makes classes": "from abc import ABCMeta\nABCMeta('L', (), {name: f})",
    "what makes classes, in full": "import enum\nenum.EnumType('L', (), {name: f})",
    "what makes classes, of a class": "from abc import ABC\ntype(ABC)('L', (), {name: f})",
    "a class by a call of Enum": "from enum import Enum\nEnum('L', {name: f})",
    "an attribute read by wraps": "from functools import wraps\nwraps(x, assigned=(), updated=['soft'])(keeper)",
    "an attribute read by wraps, by a part of it": "import functools\nfunctools.partial(functools.wraps, updated=names)",
    "a class's wraps": "import functools\n@functools.wraps\ndef f(x): pass",
    "a text run by a dataclass": "from dataclasses import dataclass, fields\nfields(Row)[0].name = text",
    "names put into a module by enum": "from enum import Enum, global_enum\nglobal_enum(Kind)",
    "the built-ins of enum": "import enum\nenum.pickle_by_enum_name(Axis.KEYS, 2)",
    "a class by a call of an own enumeration": "from enum import Enum as E\nclass Kind(E): pass\nKind('Kinds', names, module=text)",
    "a class by a call of an own one below": "import enum\nclass A(enum.Enum): pass\nclass B(A): pass\nB(*given)",
    "an own enumeration as a value": "from enum import Enum\nclass Kind(Enum): pass\nmake = Kind\nmake('K', names)",
    "check as a value": "ask(check, name)",
    "the output before": "look = _",
    "an output by its number": "look = Out[3](A, B)",
    "an input before": "_i2",
    "setattr of any self": "def put(self, name, value):\n    setattr(self, name, value)\nput(torch.Tensor, 'couple', f)",
    "a method that sets anything, asked by its class": "class Box:\n    def fasten(self, name, value): setattr(self, name, value)\n"
    "Box.fasten(torch.Tensor, 'x_y', f)",
    "a start that sets anything": "class Box:\n    def __init__(self, name, value): setattr(self, name, value)\n"
    "B = Box\nB.__init__(torch.Tensor, 'x_y', f)",
    "a field outside of a class": "from dataclasses import dataclass, field\nkept = field()\nkept.name = text",
    "IPython's own prompt": "In [1]: torch.Tensor.stem = couple",
    "many magics inside of a function": "def f():\n    %time with x: pass\n" + "%time 0\n" * 51,
}  # fmt: skip


@pytest.mark.hostile
@pytest.mark.parametrize("source", ROUTES.values(), ids=ROUTES.keys())
@pytest.mark.parametrize("scratch", [False, True], ids=["answer", "own cell"])
def test_a_route_around_the_watch_is_listed(source, scratch):
    assert unusual_in_source(source, [SDPA], scratch=scratch)


HONEST = [
    "from functools import wraps\ndef timed(f):\n    @wraps(f)\n    def g(*a, **k): return f(*a, **k)\n    return g",
    "from enum import Enum, auto\nclass Axis(Enum):\n    ROWS = auto()\n    KEYS = auto()\n"
    "for a in Axis: print(a.name, Axis(1), Axis['ROWS'], list(Axis), len(Axis), isinstance(a, Axis))",
    "def names_of(check): return check\nfor _, x in pairs: print(_)\nplot(lambda _: 0)",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        setattr(self, f'layer{1}', nn.Linear(2, 2))",
    "def f(x):\n    ...\n    return {'a': ...}\nx[..., 0]",
    'import sys\nIN_COLAB = "google.colab" in sys.modules\nprint(torch.__version__, sys.version)',
    "import os\nos.environ['X'] = '1'\nos.makedirs(os.path.join('a', 'b'))",
    "model.eval()\nfor m in model.modules():\n    m.train()",
    "import re\nre.compile('x')",
    "print(y.grad_fn)\nassert y.grad_fn is None",
    "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.softmax = nn.Identity()\n    def forward(self, x):\n        return self.softmax(x)",
    "def softmax(x, dim):\n    '''The softmax of torch.ops.'''\n    return x\nsoftmax(x, -1)",
    "with open('notes.txt') as file:\n    file.read()",
    "plt.plot(x.detach().numpy(), label='softmax')",
    "from collections import namedtuple\nfrom dataclasses import dataclass\nfrom tqdm import tqdm\nimport pandas as pd",
    "check('softmax', softmax)\nhint('softmax')",
    "import numpy as np\nnp.linalg.norm(x)\nF = np.eye(3)\nprint(F)",
    "if y.grad_fn:\n    print(f'{y.grad_fn} {type(y.grad_fn)}')\nassert not x.grad_fn",
    "%timeit -n 10 -r3 f(x, -1)\n%time y = f(x)\n%prun -l 5 f(x)\n%load_ext autoreload\n%autoreload 2",
    "%%time\n%matplotlib inline\n!pip install einops\nx = 1",
    "%%capture --no-stderr out\nprint(1)",
    "from IPython.display import HTML, display\nimport matplotlib.ticker as ticker\nfrom torch.utils.data import DataLoader",
    "from sklearn.decomposition import PCA\nfrom tqdm.auto import tqdm\nfrom collections.abc import Callable\nimport google.colab",
    "m = torch.load('model.pt', map_location='cpu', weights_only=True)\na = np.load('a.npy')",
    "import datetime\nprint(datetime.datetime.now(), datetime.time(1))\nfrom pathlib import Path\nPath('.').resolve()",
    "from autograder import check, judge, names\nprint(judge('attend', attend).points, names())",
    "text = 'a' + 'b' + '.' + 'c'\nprint('torch.' + 'nn')",
    "x.requires_grad = True\nlayer.weight.data = x\nx.grad = None\nself.torch = 1\nplt.rcParams['a'] = 1",
    "@property\ndef value(self): return 1\nnames = ['a']\nimport time\nstart = time.time()",
    "class Head(nn.Module):\n    def __init__(self, n, h):\n        super().__init__()\n"
    "        self.query = nn.Linear(n, h)\n        self.register_buffer('history', torch.ones(n))\n"
    "    def forward(self, x):\n        return self.query(x) * self.history[:2]",
    "class A:\n    def __repr__(self): return f'{self.__class__.__name__}()'",
    "from types import SimpleNamespace\ncfg = SimpleNamespace(n_embd=4, heads=2)\nprint(cfg.n_embd, type(cfg).__name__)",
    "import gc, inspect, traceback, timeit\ngc.collect()\nprint(inspect.signature(f))\nstart = timeit.default_timer()\n"
    "try:\n    f()\nexcept Exception:\n    traceback.print_exc()",
    "from dataclasses import dataclass\n@dataclass\nclass Sizes:\n    n_embd: int = 4\nsizes = Sizes(n_embd=2)\nprint(sizes.n_embd)",
    "from collections import namedtuple\nQKV = namedtuple('QKV', 'first_q first_k')\nprint(QKV(1, 2).first_q)",
    "class Exp(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x\n"
    "    @staticmethod\n    def backward(ctx, g):\n        (x,) = ctx.saved_tensors\n        return g * x\nExp.apply(x)",
    "import math, time, random\nmath.dist([1], [2])\ntime.perf_counter()\nrandom.gauss(0, 1)",
    "def plain(f):\n    return f\n@plain\ndef g(x):\n    return x",
    "match n:\n    case int():\n        pass\n    case 'a' | 'b':\n        pass",
    "kinds = [type(v) == int for v in x]\nsame = type(x)([1])",
    "import matplotlib.pyplot as plt, matplotlib.ticker as ticker\nplt.gca().xaxis\nticker.MaxNLocator(3)".replace(
        ".xaxis", ""
    ),
    "%config InlineBackend.figure_format = 'retina'\n%env A=1",
    "%%html\n<style> .a { color: red } </style>",
    "import os\nos.environ.get('HOME', '')\nos.environ.setdefault('KMP_DUPLICATE_LIB_OK', 'TRUE')\nos.environ['PYTHONHASHSEED'] = '1'\n"
    "torch.cuda.manual_seed_all(1)\n%env PYTHONHASHSEED=1",
    "from collections import deque, namedtuple, OrderedDict\nfrom itertools import chain\nKV = namedtuple('KV', 'k v')\n"
    "KV._make([1, 2])._replace(k=1)._asdict()\ndeque(maxlen=2).maxlen\nOrderedDict().move_to_end('a')\n"
    "list(chain.from_iterable([[1]]))",
    "import logging\nlogger = logging.getLogger()\nlogger.setLevel(logging.DEBUG)",
    "import matplotlib\nimport matplotlib.pyplot as plt\nfrom matplotlib.animation import FuncAnimation\nmatplotlib.use('Agg')\n"
    "plt.style.use('ggplot')\nplt.cm.viridis(0.5)\nline.set_data(x, x)\nHTML(FuncAnimation(fig, update).to_jshtml())\n"
    "plt.setp(ax.get_xticklabels(), rotation=45)\nplt.FuncFormatter(f)",
    "from sklearn.linear_model import LinearRegression\nfrom sklearn.decomposition import PCA\nm = LinearRegression().fit(X, y)\n"
    "print(m.score(X, y), m.coef_, m.predict(X), PCA(2).fit_transform(X), np.corrcoef(X), np.cov(X))",
    "nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), F.avg_pool2d(x, 2)\nh.retain_grad()",
    "class V:\n    def __eq__(self, o): return self.x == o.x\n    def __lt__(self, o): return self.x < o.x\n"
    "    def __hash__(self): return hash(self.x)",
    "from torch.utils.data import DataLoader\nfor a in DataLoader(d, 2, shuffle=True): pass\ndef train(loader: DataLoader): pass",
    "from enum import Enum, IntEnum\nEnum('Side', 'LEFT RIGHT')\nIntEnum('Axis', ['A', 'B'])\nEnum('E', {'A': -1})",
    "import io, pathlib\nio.StringIO('a')\ntorch.load(pathlib.Path('m.pt'))\nb'0123456789 0123456789'",
    "import os.path as p, re, string\np.join('a', 'b')\nre.sub('a', 'b', string.punctuation)",
]


def test_a_method_called_through_a_child_of_its_class_is_nobody_s_own():
    """`self` may be a tensor there: in the source it is the built-in, and listed too."""
    own = "class Box:\n    def softmax(self, d): return d\n    def go(self, d):\n        return self.softmax(d)\nclass Sub(Box):\n    pass\n"
    answer = "def softmax(x, dim):\n    return Sub.go(x, dim)"
    forbidden = ["torch.Tensor.softmax"]
    inside = own.replace("pass", "@classmethod\n    def ask(cls, x, d):\n        return cls.go(x, d)")
    above, last = own + answer.replace("Sub.go", "super(Sub, Sub).go"), answer.replace("Sub.go", "Sub().ask")
    for source, context in ((own + answer, ""), (own, answer), (above, ""), (inside, last),
                            (inside.replace("cls.go", "super().go"), last)):  # fmt: skip
        assert "softmax" in [seen.name for seen in unusual_in_source(source, forbidden, [context])]
    makes = inside.replace("cls.go(x, d)", "cls().go(d)")
    assert "softmax" not in [seen.name for seen in unusual_in_source(makes, forbidden, [last])]
    assert forbidden_in_source(own + answer, forbidden, "", ["softmax"]) == [Sighting("torch.Tensor.softmax", 4)]
    below = own.replace("pass", "def go(self, d):\n        return Box.go(self, d)") + "softmax = Sub().go"
    assert forbidden_in_source(below, forbidden, "", ["softmax"]) == []


def test_everyday_names_are_listed_in_an_own_cell_that_an_answer_uses():
    """For what that answer's exercise forbids; in other own cells they are anybody's experiments."""
    source = "def product(a, b):\n    return a.numpy() @ b.numpy()\nx @= y"
    forbidden = ["torch.Tensor.__matmul__", "torch.softmax"]
    assert unusual_in_source(source, forbidden, scratch=True) == []
    assert unusual_in_source(source, forbidden, scratch=True, behind=["torch.softmax"]) == []
    assert unusual_in_source(source, forbidden, scratch=True, behind=forbidden) == [Seen(Rank.FORBIDDEN, 2, "@", 2)]
    handed_on = "import numpy as np\nkeep(np.matmul)\nprint(np.matmul(a, b))"
    assert unusual_in_source(handed_on, ["numpy.matmul"], scratch=True) == [Seen(Rank.FORBIDDEN, 2, "numpy.matmul")]


def test_a_text_that_names_what_is_forbidden_is_listed_in_an_answer():
    """In cells of one's own it is a title."""
    source = 'rows = dict(updated=["softmax"])'
    assert unusual_in_source(source, ["torch.softmax"]) == [Seen(Rank.LESS_USUAL, 1, "“softmax”")]
    assert unusual_in_source(source, ["torch.softmax"], scratch=True) == []


def test_a_name_set_anew_is_listed_with_its_line():
    source = "import torch\ntorch.allclose = torch.equal = lambda *a: True\n"
    assert unusual_in_source(source, scratch=True) == [
        Seen(Rank.BACK_DOOR, 2, "torch.allclose = …"), Seen(Rank.BACK_DOOR, 2, "torch.equal = …"),
    ]  # fmt: skip


def test_what_is_listed_is_said_in_both_languages():
    """Names and code are the same in both; what is said of them in English words has a Chinese twin."""
    sources = [*ROUTES.values(), *UNUSUAL, "x" * 100_001, tangled()]
    names = {sighting.name for source in sources for sighting in unusual_in_source(source, [SDPA])}
    assert len(names) > 80 and TANGLED in names
    for name in names:
        assert said(name)["en"] == name
        words = re.fullmatch(r"import \S+|[\w.]+(?:\(…\)\.\w+)? = …|%?[\w.]+|%|@\w*|case \w+\(…\)", name) is None
        assert (re.search("[\u3400-\u9fff]|「", said(name)["zh-TW"]) is not None) == words, name
        assert not findings(said(name)["zh-TW"]), name
    assert said("a subclass of Tensor")["zh-TW"] == "Tensor 的子類別"
    assert said("“torch.ops.aten”")["zh-TW"] == "「torch.ops.aten」"
    assert said("%time, whose code could not be read")["zh-TW"] == "%time，後面的程式碼讀不懂"


@pytest.mark.parametrize(
    "source, refused",
    [
        ("def f(x)\n    return x", True),
        ("%time x = 1\nx = (", True),
        ("x = 1", False),
        ("%time x = (", False),  # the magic is run, and may print
        ("%time 0\n" * 51 + "x = (", False),  # not read to its end here
        ("-" * 5000 + "1", False),  # too deep for this interpreter's stack, perhaps not for another
    ],
)
def test_what_python_refuses(source, refused):
    assert is_no_python(source) == refused


@pytest.mark.parametrize("source", HONEST)
def test_what_honest_notebooks_use_is_not_listed(source):
    others = ["def softmax(x, dim):\n    return x"] if "hint" in source else []
    assert unusual_in_source(source, ["torch.softmax", "torch.nn.functional.softmax", SDPA], others, scratch=True) == []


def test_no_solved_lesson_is_listed():
    for path in sorted((Path(__file__).parents[2] / "solutions").glob("*.py")):
        for cell in solved_notebook(load_lesson(path), "en").cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "").removeprefix("answer-")
            if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
                assert unusual_in_source(cell.source, get(name).forbidden) == [], name


def test_what_a_word_means_does_not_hang_on_what_was_graded_before():
    dicts = importlib.import_module("torch._dynamo.variables.dicts")  # as a first derivative has torch do
    theirs.cache_clear()
    assert dicts.DictKeysVariable.kv == "keys" and "kv" not in theirs()


def test_no_right_answer_is_listed():
    for name, answers in RIGHT.items():
        for answer in filter(callable, answers):
            source = inspect.getsource(answer)
            around = Path(inspect.getsourcefile(answer) or "").read_text("utf-8")
            assert unusual_in_source(source, get(name).forbidden, [around]) == [], name


# A language model in own cells: its names are the student's own.
NANO_GPT = """
from dataclasses import dataclass
class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.n_head = config.n_head
        self.register_buffer("tri", torch.tril(torch.ones(config.block_size, config.block_size)))
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        return F.softmax(att.masked_fill(self.tri[:T, :T] == 0, float("-inf")), dim=-1) @ v
@dataclass
class Config:
    block_size: int = 16
    n_head: int = 2
    n_embd: int = 32
    bias: bool = True
class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(65, config.n_embd), h=nn.ModuleList([Attention(config)])))
        self.lm_head = nn.Linear(config.n_embd, 65, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
    def forward(self, idx, targets):
        x = self.transformer.h[0](self.transformer.wte(idx))
        return F.cross_entropy(self.lm_head(x).view(-1, 65), targets.view(-1), ignore_index=-1)
"""
TRAINS = """
model = GPT(Config(n_head=2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(model.transformer.h[0].c_attn.weight.shape, loss.item())
"""


def test_a_whole_model_of_one_s_own_is_not_listed():
    for source in (NANO_GPT, TRAINS):
        assert unusual_in_source(source, get("MultiHeadAttention").forbidden, [NANO_GPT, TRAINS], scratch=True) == []


# ------------------------------------------------------------------------------------------------- what the answer reaches

SOFT = ["torch.softmax", "torch.nn.functional.softmax", "torch.nn.functional.layer_norm"]
OWN = "def softmax(x, dim):\n    e = x.exp()\n    return e / e.sum(dim, keepdim=True)\n"
BESIDE = [
    OWN + "assert torch.allclose(softmax(x, -1), torch.softmax(x, -1))",
    OWN + "print(softmax(x, -1) - F.softmax(x, -1))\nprint(torch.__version__)",
    OWN + "def compare(x):\n    return torch.softmax(x, -1)\ncompare(x)",
    OWN + "y = softmax(x, -1)\nprint(y.grad_fn)",
    OWN + "torch.testing.assert_close(softmax(x, -1), torch.softmax(x, -1))",
    "import torch\n" + OWN.replace("x.exp()", "torch.exp(x)") + "torch.allclose(softmax(x, -1), torch.softmax(x, -1))",
    OWN + "e = torch.softmax(x, -1)\nprint(softmax(x, -1) - e)",
    OWN + "for x in (a, b):\n    e = torch.softmax(x, -1)\n    print(e)",
    OWN + "if __name__ == '__main__':\n    import torch\n    x, dim = a, -1\n    e = torch.softmax(x, dim)",
    OWN
    + "try:\n    x = a\n    assert torch.softmax(x, -1).equal(softmax(x, -1))\nexcept AssertionError as e:\n    print(e)",
    "def softmax(x, dim):\n    parts = [p.exp() for p in x]\n    return (lambda p: p)(parts)\np = torch.softmax(x, -1)",
    OWN + "best = torch.softmax\ndef compare(x):\n    return best(x, -1)",
]


@pytest.mark.parametrize("source", BESIDE)
def test_a_comparison_beside_the_answer_costs_nothing(source):
    assert forbidden_in_source(source, SOFT, answers=["softmax"]) == []
    if "compare" in source or "allclose" in source:
        assert unusual_in_source(source, SOFT)


USED = [
    "def helper(x):\n    return torch.softmax(x, -1)\ndef softmax(x, dim):\n    return helper(x)",
    "def a(x):\n    return b(x)\ndef b(x):\n    return torch.softmax(x, -1)\ndef softmax(x, dim):\n    return a(x)",
    "best = torch.softmax\ndef softmax(x, dim):\n    return best(x, dim)",
    "softmax = torch.softmax",
    "box = []\nbox.append(torch.softmax)\ndef softmax(x, dim):\n    return box[0](x, dim)",
    "box = {}\nbox['f'] = torch.softmax\ndef softmax(x, dim):\n    return box['f'](x, dim)",
    "class A:\n    pass\nA.f = torch.softmax\ndef softmax(x, dim):\n    return A.f(x, dim)",
    "if True:\n    g = torch.softmax\ndef softmax(x, dim):\n    return g(x, dim)",
    "def fill():\n    global g\n    g = torch.softmax\nfill()\ndef softmax(x, dim):\n    return g(x, dim)",
    "from torch import softmax",
    "def softmax(x, dim):\n    def inner():\n        global e\n        return e(x, dim)\n    e = 1\n    return inner()\ne = torch.softmax",
    "def softmax(x, dim):\n    return [g for g in g][0](x, dim)\ng = [torch.softmax]",
    "class A:\n    g = 1\n    def f(self, x): return g(x, -1)\ng = torch.softmax\nsoftmax = A().f",
    "for g in (torch.softmax,):\n    pass\ndef softmax(x, dim):\n    return g(x, dim)",
    "with torch.no_grad():\n    g = torch.softmax\ndef softmax(x, dim):\n    return g(x, dim)",
    "def softmax(x, dim):\n    %time out = torch.softmax(x, dim)\n    return out",
    "def softmax(x, dim):\n    box = [0]\n    %timeit -n1 -r1 -q box[0] = torch.softmax(x, dim)\n    return box[0]",
    "def softmax(x, dim):\n    %time out = torch.softmax(x, dim)\n    return out\n" + "%time 0\n" * 51,
    "def softmax(x, dim, f=torch.softmax):\n    return f(x, dim)",
    "other = torch.softmax",  # it binds no answer: then everything counts
]


@pytest.mark.hostile
@pytest.mark.parametrize("source", USED)
def test_what_the_answer_uses_counts(source):
    assert forbidden_in_source(source, SOFT, answers=["softmax"])


def test_the_own_definition_wins_over_an_import_in_another_cell():
    scratch = "from torch.nn.functional import layer_norm"
    own = "def layer_norm(x):\n    return x\nagain = lambda x: layer_norm(x)"
    assert forbidden_in_source(own, SOFT, scratch) == []
    assert forbidden_in_source("def f(x):\n    return layer_norm(x)", SOFT, scratch)


def test_a_call_of_an_imported_module_changes_nothing_in_it():
    source = "def softmax(x, dim):\n    return t.exp(x)\nt.allclose(softmax(x, -1), torch.softmax(x, -1))"
    assert forbidden_in_source(source, SOFT, "import torch as t", ["softmax"]) == []
    assert forbidden_in_source("import torch as t\n" + source, SOFT, answers=["softmax"]) == []
    assert forbidden_in_source(
        source.replace("t.allclose", "t.exp = torch.softmax #"), SOFT, "import torch as t", ["softmax"]
    )


def test_a_local_name_is_not_what_another_cell_calls_so():
    scratch = "shares = torch.softmax\nprint(shares(x, -1))"
    assert forbidden_in_source("def f(x):\n    shares = x.exp()\n    return shares / 2", SOFT, scratch, ["f"]) == []
    assert forbidden_in_source("def f(x):\n    return shares(x, -1)", SOFT, scratch, ["f"])


def test_a_method_of_a_class_of_one_s_own_is_not_torch_s():
    own = "class Tools:\n    def softmax(self, x):\n        return x\n"
    use = "tools = Tools()\ndef softmax(x):\n    return tools.softmax(x)"
    assert forbidden_in_source(own + use, ["torch.Tensor.softmax"], answers=["softmax"]) == []
    assert forbidden_in_source(use, ["torch.Tensor.softmax"], own, ["softmax"]) == []
    assert forbidden_in_source(use, ["torch.Tensor.softmax"], answers=["softmax"])


@pytest.mark.hostile
def test_an_own_class_does_not_hide_what_another_function_asks_of_its_self():
    own = "class Box:\n    def keep(self):\n        self.softmax = None\n    def softmax(self, x): return x\n"
    use = "def ask(self, dim):\n    return self.softmax(dim)\ndef softmax(x, dim):\n    return ask(x, dim)"
    for source, context in ((own + use, ""), (use, own)):
        assert forbidden_in_source(source, ["torch.Tensor.softmax"], context, ["softmax"]) == [
            Sighting("torch.Tensor.softmax", source.split("\n").index("    return self.softmax(dim)") + 1)
        ]
        assert "softmax" in [seen.name for seen in unusual_in_source(source, ["torch.Tensor.softmax"], [context])]
    child = "class Child(Box):\n    def f(self, x): return [self.softmax(v) for v in x]\nsoftmax = Child().f"
    assert forbidden_in_source(child, ["torch.Tensor.softmax"], own, ["softmax"]) == []


def test_a_helper_written_after_a_look_at_the_built_in_is_the_helper():
    look, helper = (
        "normed = F.layer_norm\nnormed(x, (3,))\n",
        "def normed(x):\n    return x - x.mean(-1, keepdim=True)\n",
    )
    answer = "def layer_norm(x):\n    return normed(x)"
    forbidden = ["torch.nn.functional.layer_norm"]
    assert forbidden_in_source(answer, forbidden, look + helper, ["layer_norm"]) == []
    for context in (helper + look, look, look + "if late:\n    " + helper.replace("\n    ", "\n        "),
                    look + "@again\n" + helper, helper + "def f():\n    global normed\n    normed = F.layer_norm\n" + helper):  # fmt: skip
        assert forbidden_in_source(answer, forbidden, context, ["layer_norm"]), context


LOOKING = [
    "print(y.grad_fn)",
    "if y.grad_fn: pass",
    "assert y.grad_fn is not None",
    "t = f'{y.grad_fn}'",
    "z = not y.grad_fn",
]


@pytest.mark.parametrize("line", LOOKING)
def test_looking_at_grad_fn_costs_nothing(line):
    source = f"def f(y):\n    {line}\n    return y"
    assert forbidden_in_source(source, []) == []
    assert forbidden_in_source(source, [], "import math") == []


@pytest.mark.hostile
def test_a_print_of_one_s_own_hands_on_what_it_gets():
    source = "def f(y):\n    return print(y.grad_fn)"
    assert forbidden_in_source("def print(x): return x\n" + source, [])
    assert forbidden_in_source(source, [], "print = max")


# ------------------------------------------------------------------------------------------------- much code


@pytest.mark.hostile
def tangled() -> str:
    return "def f():\n    a0 = torch\n" + "".join(f"    a{i % 3} = a{(i + 1) % 3}.x{i}\n" for i in range(300))


def test_tangled_names_take_no_time_and_are_listed():
    source = tangled()
    start = time.perf_counter()
    forbidden_in_source(source, [SDPA])
    assert TANGLED in [s.name for s in unusual_in_source(source, [SDPA])]
    assert time.perf_counter() - start < 3


NAMES = [f"Q{i}" for i in range(7000)]
HEAVY = {
    "a chain of names": "\n".join(f"{a}={b}" for a, b in pairwise(NAMES)),
    "a chain of attributes": "Q0 = torch" + ".a" * 2500,
    "locals and lambdas": "def Q0():\n " + "\n ".join(f"{a}=1" for a in NAMES) + "\n" + " lambda a:0\n" * 2000,
    "magics on long lines": ("%time " + "x=1;" * 480 + "\n") * 48,
    "assigned magics": "a = %time 1\n" * 3000,
}


@pytest.mark.hostile
@pytest.mark.parametrize("source", HEAVY.values(), ids=HEAVY.keys())
def test_code_made_to_be_slow_to_read_ends_in_seconds(source):
    start = time.process_time()
    forbidden_in_source(source, get("encoder").forbidden, source, ["Q0"])
    unusual_in_source(source, get("encoder").forbidden)
    assert time.process_time() - start < 10


@pytest.mark.hostile
@pytest.mark.parametrize(
    "line",
    ["x = torch.a.b(1)\n", "!ls\n", "a = b.c\n", "x = " + "[" * 40 + "]" * 40 + "\n"],
    ids=["calls", "commands", "names", "brackets"],
)
@pytest.mark.parametrize("size", [MOST_SCANNED - 100, 500_000])
def test_much_code_ends_in_seconds(line, size):
    source = line * (size // len(line))
    start = time.process_time()
    forbidden_in_source(source, get("softmax_jacobian").forbidden, source)
    listed = unusual_in_source(source, get("softmax_jacobian").forbidden)
    assert time.process_time() - start < 10
    assert size < MOST_SCANNED or [s.name for s in listed] == [TOO_LONG]


# ------------------------------------------------------------------------------------------------- where the watch is blind


class ForItself(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.zeros(1)


class BelowIt(ForItself):
    pass


BLIND = {
    "apply_": lambda: torch.zeros(1).apply_(lambda v: v),
    "map_": lambda: torch.zeros(1).map_(torch.zeros(1), lambda a, b: a),
    "an own __torch_function__": lambda: torch.zeros(1).as_subclass(ForItself).abs(),
    "an inherited one": lambda: torch.zeros(1).as_subclass(BelowIt).abs(),
}


@pytest.mark.hostile
@pytest.mark.parametrize("call", BLIND.values(), ids=BLIND.keys())
def test_what_the_watch_cannot_see_into_is_refused(call):
    seen: list[Sighting] = []
    call()
    with watch([SDPA], seen), pytest.raises(ForbiddenCall):
        call()
    assert "cannot see" in seen[0].name


def test_parameters_and_modules_are_no_such_thing():
    seen: list[Sighting] = []
    with watch([SDPA], seen):
        nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).apply(lambda m: m)(x).sum().backward()
        nn.Parameter(x) * 2
    assert seen == []


# ---------------------------------------------------------------------------------------- what torch would call back


def hidden() -> torch.Tensor:
    """What the watch forbids below, called where torch announces nothing."""
    return torch.softmax(x, -1)


class Compares:
    def __lt__(self, other):
        hidden()
        return False

    def __le__(self, other):
        return True


class Text(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        hidden()
        return str.__eq__(self, other)


class Counted(list):
    def __len__(self):
        hidden()
        return 1


class Memo(dict):
    def get(self, *args):
        hidden()
        return dict.get(self, *args)


class Index:
    def __index__(self):
        hidden()
        return 0


class Measured(torch.Tensor):
    def dim(self):
        hidden()
        return 3


class Far(nn.Module):
    def forward(self, a, b):
        hidden()
        return (a - b).sum(-1)


class Answers:
    def far(self, a, b):
        hidden()
        return (a - b).sum(-1)

    def __call__(self, a, b):
        return self.far(a, b)


class Saying(type(torch.Tensor)):  # type: ignore[misc]
    def __hash__(cls):
        hidden()
        return 1


def with_method_of_its_own() -> torch.Tensor:
    y = x.clone()
    y.dim = lambda: hidden().dim()  # type: ignore[method-assign]
    return y


TORCH_FUNCTION = type("T", (torch.Tensor,), {"__torch_function__": lambda *args, **kwargs: hidden()})
CALLED_BACK = {
    "handle_torch_function": lambda: F.handle_torch_function(lambda t: hidden(), (x,), x),
    "an operator": lambda: F.handle_torch_function(torch.Tensor.softmax, (x,), x, -1),
    "a bound method of a tensor": lambda: F.handle_torch_function(x.softmax, (x,), -1),
    "a function that torch has made": lambda: F.handle_torch_function(torch.no_grad()(hidden), (x,)),
    "a distance": lambda: F.triplet_margin_with_distance_loss(x, x, x, distance_function=Answers().__call__),
    "a bound method": lambda: F.triplet_margin_with_distance_loss(x, x, x, distance_function=Answers().far),
    "an object that is called": lambda: F.triplet_margin_with_distance_loss(x, x, x, distance_function=Answers()),
    "a module": lambda: F.triplet_margin_with_distance_loss(x, x, x, distance_function=Far()),
    "a module of a module": lambda: nn.TripletMarginWithDistanceLoss(distance_function=Far())(x, x, x),
    "a comparison": lambda: F.dropout(x, Compares()),  # type: ignore[arg-type]
    "a text": lambda: F.interpolate(x, scale_factor=1, mode=Text("nearest")),
    "a list": lambda: torch.as_tensor(Counted([1.0])),
    "a list in a list": lambda: torch.tensor([[1.0], Counted([1.0])]),
    "an array of objects": lambda: torch.ones(2)[np.array([Index()], dtype=object)],
    "an index": lambda: x[Index()],
    "an index in a slice": lambda: x[Index() : 1],
    "a memo": lambda: copy.deepcopy(x, Memo()),
    "a subclass with a method": lambda: F.interpolate(x.as_subclass(Measured), scale_factor=1),
    "a tensor with a method": lambda: F.interpolate(with_method_of_its_own(), scale_factor=1),
    "a class that is hashed": lambda: torch.abs(x.as_subclass(Saying("S", (type(x),), {}))),
    "a plain function for all": lambda: torch.abs(x.as_subclass(TORCH_FUNCTION)),
    "a branch": lambda: torch.cond(torch.tensor(True), lambda a: hidden(), lambda a: a, (x,)),
    "a loop": lambda: torch.while_loop(lambda i: i < 1, lambda i: (i + hidden().shape[0],), (torch.tensor(0),)),
    "a hook": lambda: x.clone().requires_grad_().register_hook(lambda g: hidden()),
    "a thread": lambda: threading.Thread(target=hidden).start(),
    "a pool": lambda: list(ThreadPoolExecutor(1).map(lambda _: hidden(), [0])),
}


@pytest.mark.hostile
@pytest.mark.parametrize("call", CALLED_BACK.values(), ids=CALLED_BACK.keys())
def test_what_torch_would_call_back_is_refused(call):
    """Whatever the answer does with the exception: the sighting is there, and names the call."""
    seen: list[Sighting] = []
    with watch(["torch.softmax", "torch.Tensor.softmax"], seen), contextlib.suppress(Exception):
        call()
    assert seen and all(s.name.endswith(UNSEEN) or "softmax" in s.name for s in seen), seen
    assert all(s.line > 0 for s in seen)


def test_the_sentence_names_it_in_both_languages():
    seen: list[Sighting] = []
    with watch([SDPA], seen), contextlib.suppress(ForbiddenCall):
        F.triplet_margin_with_distance_loss(x, x, x, distance_function=ours)  # type: ignore[arg-type]
    said_of_it = forbidden_sentence(seen)
    name = "torch.nn.functional.triplet_margin_with_distance_loss"
    assert f"{name} (the watch cannot see into it) (line " in said_of_it["en"]
    assert f"{name}（評分程式看不到它裡面執行了什麼）（第 " in said_of_it["zh-TW"]


class Pair(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor

    @property
    def length(self) -> int:
        return self.k.shape[0]


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 3))
        self.w.kind = "decay"  # type: ignore[attr-defined]
        self.note = object()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        return x @ self.w + self.seen


def copies():
    return nn.ModuleList([copy.deepcopy(Own()) for _ in range(2)])[1](x)


def trained():
    model = nn.Sequential(Own(), nn.Dropout(0.1), nn.GELU())
    model.apply(lambda m: nn.init.xavier_uniform_(m.w) if isinstance(m, Own) else None)
    model.register_forward_hook(lambda module, given, out: out * 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(x).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def loaded():
    pairs = DataLoader(
        TensorDataset(x[0], x[0]), 2, shuffle=True, collate_fn=lambda rows: Pair(*map(torch.stack, zip(*rows)))
    )
    return torch.cat(next(iter(pairs)))


# What honest code does with functions, classes and objects of its own: torch's watcher is on while these run.
SEEN_INTO = {
    "copies of a module": copies,
    "a training step": trained,
    "a loader": loaded,
    "a named tuple": lambda: torch.cat(Pair(x, x)).sum() + Pair(x, x).length,
    "vmap": lambda: torch.vmap(lambda row: row.exp() / row.exp().sum())(x),
    "jacrev": lambda: torch.func.jacrev(torch.sin)(x),
    "a checkpoint": lambda: checkpoint(lambda a: a.exp(), x.clone().requires_grad_(), use_reentrant=False),
    "map and reduce": lambda: torch.stack(list(map(torch.exp, x.unbind()))),
    "numpy": lambda: torch.tensor(np.ones(3)) * np.float64(2) + x[np.array([0])],
    "a device, a dtype": lambda: x.to(torch.device("cpu"), float).type(torch.DoubleTensor),
    "indices of every kind": lambda: x[..., None, :2][[0]][torch.tensor([True])],
    "an instance attribute": lambda: setattr(x.clone(), "calls", 3),
    "a progress bar": lambda: sum(tqdm([1, 2], file=io.StringIO(), mininterval=0)),
}


@pytest.mark.parametrize("call", [lambda row: torch.softmax(row, -1), lambda row: row.softmax(-1)])
def test_a_function_for_vmap_is_seen_into(call):
    seen: list[Sighting] = []
    with watch(["torch.softmax", "torch.Tensor.softmax"], seen), pytest.raises(ForbiddenCall):
        torch.vmap(call)(x)
    assert len(seen) == 1 and not seen[0].name.endswith(UNSEEN)


def test_what_was_compiled_before_is_seen_into():
    row, twice = (torch.compile(f, backend="eager") for f in (lambda a: torch.softmax(a, -1), lambda a: a + a))
    row(x)
    seen: list[Sighting] = []
    with watch(["torch.softmax"], seen), pytest.raises(ForbiddenCall):
        assert torch.equal(twice(x), 2 * x)
        row(x)
    assert [s.name for s in seen] == ["torch.softmax"]


def test_threads_of_others_go_on_while_an_answer_runs():
    """A kernel starts some whenever it likes."""
    seen: list[Sighting] = []
    started, go = threading.Event(), threading.Event()

    def elsewhere() -> None:
        go.wait(10)
        threading.Thread(target=started.set).start()

    other = threading.Thread(target=elsewhere)
    other.start()
    with watch([SDPA], seen):
        go.set()
        other.join(10)
    assert started.wait(10) and seen == []


# ------------------------------------------------------------------- what runs in an operation without being given to it


class LastWords:
    def __del__(self):
        hidden()


def last_words():
    try:
        yield
    finally:
        hidden()


def let_go(note: object) -> None:
    """The last reference to `note` goes away while torch carries out an assignment."""
    a, b = torch.zeros(1, requires_grad=True), torch.zeros(1)
    a.grad = b
    b.note = note  # type: ignore[attr-defined]
    del b, note
    a.grad = None


def suspended():
    generator = last_words()
    next(generator)
    return generator


class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a.clone()

    @staticmethod
    def backward(ctx, grad):
        hidden()
        return grad


class Digits:
    def __str__(self):
        hidden()
        return "4"


def printed():
    before = torch._tensor_str.PRINT_OPTS.precision
    torch.set_printoptions(precision=Digits())  # type: ignore[arg-type]
    try:
        str(torch.ones(2) / 3)
    finally:
        torch.set_printoptions(precision=before)


def copied():
    copy.dispatch_table[torch.dtype] = lambda dtype: str(hidden().dtype)  # type: ignore[attr-defined]
    a = torch.zeros(1)
    a.note = torch.float32  # type: ignore[attr-defined]
    try:
        copy.deepcopy(a)
    finally:
        del copy.dispatch_table[torch.dtype]  # type: ignore[attr-defined]


RUN_INSIDE = {
    "a generator's end": lambda: let_go(suspended()),
    "an object's end": lambda: let_go(LastWords()),
    "a backward pass": lambda: Late.apply(torch.zeros(1, requires_grad=True)).sum().backward(),
    "a print": printed,
    "a copy": copied,
}


@pytest.mark.hostile
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", RUN_INSIDE.values(), ids=RUN_INSIDE.keys())
def test_what_runs_in_an_operation_without_being_given_to_it_is_refused(call):
    seen: list[Sighting] = []
    with watch(["torch.softmax", "torch.Tensor.softmax"], seen), contextlib.suppress(Exception):
        call()
    assert seen and all(s.name.endswith(UNSEEN) and s.line > 0 for s in seen), seen


@pytest.mark.hostile
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_look_into_operations_cannot_be_taken_away():
    seen: list[Sighting] = []
    first, a, b = torch.zeros(1), torch.zeros(1, requires_grad=True), torch.zeros(1)
    gone = weakref.ref(first, sys.settrace)  # no lookout any more, but the dead reference: nobody can call that
    a.grad = b
    b.first, b.second, b.third = first, suspended(), suspended()  # type: ignore[attr-defined]
    del first, b
    with watch([SDPA], seen), pytest.raises(ForbiddenCall):
        a.grad = None
    assert gone() is None and seen and sys.gettrace() is None


def test_last_words_of_what_lies_in_a_circle_wait_for_the_end_of_the_answer():
    heard: list[bool] = []
    inside = False

    class Circle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            heard.append(inside)

    seen: list[Sighting] = []
    assert gc.isenabled()
    with watch([SDPA], seen):
        inside = True
        for _ in range(3000):
            Circle()
            F.softmax(x, -1)
        inside = False
        assert not gc.isenabled()
    gc.collect()
    assert gc.isenabled() and seen == [] and len(heard) == 3000 and not any(heard)


def test_a_debugger_and_a_profile_of_others_go_on():
    calls: list[str] = []

    def debugger(frame, event, arg):
        calls.append(frame.f_code.co_name)

    def some_work():
        torch.abs(x)
        ours(x)

    seen: list[Sighting] = []
    before, profile = sys.gettrace(), cProfile.Profile()
    with watch([SDPA], seen):
        sys.settrace(debugger)
        try:
            some_work()
        finally:
            sys.settrace(before)
        profile.runcall(some_work)
    assert seen == [] and calls.count("ours") == 1
    assert "ours" in [getattr(entry.code, "co_name", "") for entry in profile.getstats()]


class Axis(IntEnum):
    QUERIES = 0
    KEYS = 1


class Fill(StrEnum):
    ZEROS = "constant"


class Named(str, Enum):  # noqa: UP042 - as it is written before Python 3.11
    ZEROS = "constant"


class Kind(Enum):
    DECAY = 1


NOTHING = object()
ORDINARY = {
    "a number with a name": lambda: x.softmax(Axis.KEYS)[..., Axis.QUERIES].sum(dim=[Axis.KEYS]),
    "a text with a name": lambda: F.pad(x, (1, 1), mode=Fill.ZEROS) + F.pad(x, (1, 1), mode=Named.ZEROS),
    "a queue": lambda: torch.tensor(deque([1, 2], maxlen=2)) + torch.stack(tuple(deque([x[0, 0, 0], x[0, 0, 1]]))),
    "a plain object": lambda: x == NOTHING,
    "numbers in a row": lambda: torch.tensor(array("f", [1, 2])) + torch.tensor(memoryview(array("f", [1, 2]))),
    "a name on a tensor": lambda: setattr(y := x.clone(), "kind", Kind.DECAY) or y * 2,
    "a copy with a pair": lambda: setattr(y := x.clone(), "kind", Pair(x, x)) or copy.deepcopy(y),
    "a print": lambda: f"{x} {x.sum():.3f} {nn.Linear(2, 2)}",
    "einops": lambda: einops.einsum(einops.rearrange(x, "a b c -> a c b"), x, "a c b, a b d -> a c d"),
    "a gradient": lambda: nn.Sequential(Own(), nn.GELU())(x.clone().requires_grad_()).sum().backward(),
    "a gradient of a function": lambda: torch.func.grad(lambda a: a.exp().sum())(x),
    "an error": lambda: contextlib.suppress(RuntimeError).__exit__(*raised(lambda: x @ x.new_zeros(7))),
}


def raised(call):
    try:
        call()
    except RuntimeError:
        return sys.exc_info()


@pytest.mark.parametrize("call", [*SEEN_INTO.values(), *ORDINARY.values()], ids=[*SEEN_INTO, *ORDINARY])
def test_what_the_watch_sees_into_and_ordinary_values_are_allowed(call):
    seen: list[Sighting] = []
    with watch([SDPA, "torch.nn.functional.hardswish"], seen):
        call()
    assert seen == []


class Turning(IntEnum):
    FIRST = 0

    def __index__(self):
        hidden()
        return 0


class Untold(StrEnum):
    ZEROS = "constant"

    def __eq__(self, other):
        hidden()
        return True

    __hash__ = str.__hash__


@pytest.mark.hostile
@pytest.mark.parametrize("call", [lambda: x[Turning.FIRST], lambda: F.pad(x, (1, 1), mode=Untold.ZEROS)])
def test_names_for_numbers_with_functions_of_their_own_are_refused(call):
    seen: list[Sighting] = []
    with watch([SDPA], seen), pytest.raises(ForbiddenCall):
        call()
    assert seen[0].name.endswith(UNSEEN)


def test_a_check_needs_no_package_that_the_course_does_not_ask_for() -> None:
    """A student's installation has no SciPy, of which some exercises forbid a function."""
    code = """
import sys
class Nothing:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "scipy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
import torch
from autograder import judge
print(judge("entropy", lambda p: -torch.special.xlogy(p, p).sum(-1)).points)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(ran.stdout) > 0, ran.stderr


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("cell", "listed"),
    [
        ("x = 1\n# done\x0c%precision 3\x0cexec('y = 2')", "exec"),
        ("import dataclasses\noptions = dict(_create_fn=1)\ndataclasses._create_fn", "dataclasses._create_fn"),
        ("import inspect\nf(_signature_fromstr=1)\ninspect._signature_fromstr", "inspect._signature_fromstr"),
        ("way._stream = 'modules'\nway._stream", "_stream"),
        ("class Keeper:\n    def __init__(self):\n        self._stream = 0\ndef set(way):\n    way._stream = 1", "_stream"),
        ("class Keeper:\n    def look(self):\n        self._stream = 1\nKeeper.look(way)", "_stream"),
        ("class K:\n    def f(self, w):\n        self._x = 0\n        match w:\n            case self:\n                self._stream = 1", "_stream"),
        ("class K:\n    def __init__(self, n, v): setattr(self, n, v)\nbegin = K.__init__", "setattr"),
        ("class K:\n    def __init__(self, n, v): setattr(self, n, v)\nbegin = getattr(K, '__init__')", "setattr"),
        ("class K:\n    def __init__(self, n, v): setattr(self, n, v)\n    begin = __init__", "setattr"),
        ("class K:\n    @classmethod\n    def __init__(cls, n, v): setattr(cls, n, v)", "setattr"),
        ("def cache(f): return f\nclass K:\n    @cache\n    def f(self): pass", "@cache"),
        ("from heapq import heappush as cache\nclass K:\n    @cache\n    def f(self): pass", "@cache"),
        ("def unique(kind): return kind\n@unique\nclass K:\n    pass", "@unique"),
        ("from inspect import signature\nsignature(f).return_annotation", "return_annotation"),
        ("from contextlib import redirect_stdout\nway = redirect_stdout(out)", "contextlib.redirect_stdout other than in a with statement"),
        ("import contextlib\nways = [contextlib.redirect_stderr]", "contextlib.redirect_stderr as a value"),
        ("from dataclasses import dataclass\nMade = dataclass(eq=False)(torch.Tensor)", "dataclasses.dataclass other than above a class"),
        ("from dataclasses import dataclass\nmake = dataclass\nmake(torch.Tensor)", "dataclass as a value"),
    ],
)  # fmt: skip
def test_what_a_notebook_only_names_is_not_its_own(cell: str, listed: str) -> None:
    assert listed in [seen.name for seen in unusual_in_source(cell)]


def test_what_a_class_defines_is_its_own() -> None:
    cell = """
from dataclasses import dataclass
import dataclasses
import functools
import io
from contextlib import redirect_stdout
@dataclass
class Cache:
    _kept: int = 0
    def __init__(self):
        self._rows = []
@dataclasses.dataclass(frozen=True)
class Other:
    x: int
    def size(self):
        return len(self._rows) + self._kept
    @functools.lru_cache
    def shown(self):
        with redirect_stdout(io.StringIO()) as out:
            print(self)
        return out
class Larger(Cache):
    def __init__(self):
        super().__init__()
        Cache.__init__(self)
        setattr(self, "rows_1", 0)
    @torch.no_grad()
    def more(self):
        return self._rows * 2
"""
    assert unusual_in_source(cell) == []


def test_the_first_forward_mode_derivative_of_a_process_is_as_good_as_the_next() -> None:
    """For it torch imports a good part of itself, which runs code of its own from texts in an operation."""
    program = """
import torch
from autograder import judge
def leak(model, x):
    return (torch.func.jacfwd(model)(x).abs().amax(dim=(1, 3)) > 1e-8).triu(1)
print(judge("find_the_leak", leak).points)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2.0", done.stderr


def test_two_cells_that_import_the_same_do_not_stand_behind_each_other() -> None:
    inner = "import math\ndef inner(a, b):\n    return math.fsum(a * b)"
    embed = "import math\ndef embed(ids, W):\n    return W[ids] * math.sqrt(4)"
    assert names_between_cells(inner) == ({"math", "inner"}, set())
    assert names_between_cells(embed) == ({"math", "embed"}, set())
    assert names_between_cells("def f(x):\n    return inner(x, x)")[1] == {"inner"}


@pytest.mark.parametrize("first", ["", "\n", "\n  \n\n", "%matplotlib inline\n", "\n\n%time y = 1\n", "\n\n# one\n"])
def test_a_line_is_told_by_its_number_in_the_cell(first: str) -> None:
    assert [seen.line for seen in unusual_in_source(f"{first}x = 1\nexec('y')\n")] == [first.count("\n") + 2]
