"""A forbidden call is seen while the answer runs and in its source; an allowed one never is."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autograder.guard import (
    ForbiddenCall,
    Sighting,
    find,
    forbidden_in_source,
    set_trap,
    unusual_in_source,
    watch,
)

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
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()": "concurrent.futures.ThreadPoolExecutor",
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


def test_torch_s_own_use_of_them_is_none_of_ours():
    seen: list[Sighting] = []
    with watch(["torch.softmax"], seen):
        values = torch.unique(torch.tensor([2, 1, 2]))
        torch.nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))(torch.ones(1, 2))
        torch.block_diag(torch.ones(1, 1), torch.ones(2, 2)).norm()
    assert values.tolist() == [1, 2] and seen == []
