"""The Triton kernels: on CUDA where there is one, else in Triton's interpreter, on the CPU (see course_lib/tests/conftest.py)."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from course_lib.masks import causal_mask, length_mask
from course_lib.tests.compare import DTYPES, assert_as_good, assert_close
from course_lib.tests.flash.inputs import MASKS, B, H, assert_exact, explicit, make_inputs, make_mask, with_gradients

pytest.importorskip("triton", reason="Triton is not installed (there are wheels for Linux only)")

from course_lib.flash.triton_kernel import interpreting, triton_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: the compiled kernels cannot run"),
]


def test_kernels_run_where_they_should():
    """A silent change of place would leave everything else untested."""
    assert interpreting() != torch.cuda.is_available()


# The interpreter is slow: every mask in float64, the other dtypes on the two that differ most.
CASES = [(torch.float64, name, causal) for name in MASKS for causal in (False, True)]
CASES += [(dtype, *case) for dtype in DTYPES[1:] for case in (("none", False), ("sequence", True))]


@pytest.mark.parametrize(("dtype", "name", "causal"), CASES)
def test_is_explicit_attention(dtype, name, causal):
    """Two blocks of queries and three of keys; the last ones are not full. Grouped heads."""
    inputs, weight = make_inputs(20, 37, 2, dtype, DEVICE)
    assert_exact(triton_attention, inputs, weight, make_mask(name, 37, DEVICE), causal, block=16)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("h_kv", [1, 4])
@pytest.mark.parametrize(("n", "m"), [(1, 21), (37, 20), (16, 16)])
def test_shapes_and_groups(n, m, h_kv, causal):
    """One query; more queries than keys, whose first rows then see nothing if causal; exactly one tile."""
    inputs, weight = make_inputs(n, m, h_kv, torch.float32, DEVICE)
    assert_exact(triton_attention, inputs, weight, make_mask("sequence", m, DEVICE), causal, block=16)


@pytest.mark.parametrize(("d_k", "d_v"), [(16, 16), (24, 40), (64, 3)])
def test_head_widths(d_k, d_v):
    """Widths that are powers of two and widths that must be filled up."""
    inputs, weight = make_inputs(7, 9, 4, torch.float32, DEVICE, size=1.0, d_k=d_k, d_v=d_v)
    assert_exact(triton_attention, inputs, weight, None, True)


def test_scale_and_blocks():
    inputs, weight = make_inputs(33, 33, 2, torch.float64, DEVICE)
    expected = with_gradients(explicit, inputs, weight, None, True, 0.3)
    for block in (32, 64):
        actual = with_gradients(triton_attention, inputs, weight, causal=True, scale=0.3, block=block)
        for mine, theirs in zip(actual, expected):
            assert_close(mine, theirs, torch.float64)


@pytest.mark.parametrize("shift", [-800, 800])
def test_scores_that_overflow_exp(shift):
    q, k, v = (torch.randn(1, 1, 20, 4, device=DEVICE) for _ in range(3))
    q = torch.cat([q, torch.ones_like(q[..., :1])], -1)
    k = torch.cat([k, torch.full_like(k[..., :1], shift)], -1)
    truth = explicit(q.double(), k.double(), v.double(), scale=1.0)
    torch.testing.assert_close(triton_attention(q, k, v, scale=1.0, block=16).double(), truth, atol=1e-3, rtol=0)


def test_inputs_that_are_not_contiguous():
    inputs, _ = make_inputs(6, 7, 2, torch.float64, DEVICE)
    strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs]
    one = torch.ones((), device=DEVICE, dtype=torch.float64)  # the output's gradient then has stride 0
    for mine, theirs in zip(with_gradients(triton_attention, strided, one), with_gradients(explicit, inputs, one)):
        assert_close(mine, theirs, torch.float64)


def test_what_cannot_be_done_is_said():
    (q, k, v), _ = make_inputs(6, 7, 2, torch.float32, DEVICE)
    for mask in (causal_mask(6, 7, DEVICE), torch.ones(B, H, 1, 7, dtype=torch.bool, device=DEVICE)):
        with pytest.raises(ValueError, match="hides keys by padding"):
            triton_attention(q, k, v, mask)
    for block in (8, 24):
        with pytest.raises(ValueError, match="power of two"):
            triton_attention(q, k, v, block=block)
    with pytest.raises(ValueError, match="h_kv divides h; got"):
        triton_attention(q[:, :3], k, v)


def run(code, **environment):
    """A fresh interpreter, because Triton reads its environment once."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


CALL = """
import torch
from course_lib.attention import MultiHeadAttention
x = torch.zeros(1, 2, 8)
try:
    MultiHeadAttention(8, 2, backend="triton")(x)
except RuntimeError as error:
    print(error)
"""


def test_without_triton_the_module_can_be_imported_and_says_what_is_missing():
    code = "import sys; sys.modules['triton'] = None\nimport course_lib.flash.triton_kernel\n" + CALL
    assert run(code).startswith("Triton is not installed")


def test_on_the_cpu_without_the_interpreter():
    assert run(CALL).startswith("Triton needs a CUDA device, q is on cpu; for tests on the CPU set TRITON_INTERPRET=1")


def test_triton_is_imported_only_when_asked_for():
    run("import sys, course_lib.attention, course_lib.flash.tiled; assert 'triton' not in sys.modules")


COMPILE = """
import sys, torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from course_lib.flash import triton_kernel

dtype, width, architecture = getattr(torch, sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
q, mask = torch.empty(1, 4, 8, width, dtype=dtype), torch.ones(1, 8, dtype=torch.bool)
options = triton_kernel._options(q, q[:, :2], q[:, :2], mask, True, 0.1, triton_kernel._block(dtype, width))
stages = {"num_stages": options.pop("num_stages")}
types = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
for name in ("_forward_kernel", "_backward_kernel_q", "_backward_kernel_kv"):
    kernel = getattr(triton_kernel, name)
    signature = {a: "i32" if a.islower() else "constexpr" if a in options else types[dtype] for a in kernel.arg_names}
    signature |= {a: t for a, t in {"KEY_MASK": "*i1", "L": "*fp32", "D": "*fp32"}.items() if a in signature}
    constants = {a: options[a] for a in kernel.arg_names if signature[a] == "constexpr"}
    source = ASTSource(kernel, signature, constants)
    print(triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=stages).metadata.shared)
"""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 128), ("float32", 64)])
def test_kernels_compile_for_gpus(dtype, width, architecture, tmp_path):
    """Triton brings its own assembler: the kernels become machine code without a GPU, within 99 KiB of shared memory."""
    code = f"import sys; sys.argv[1:] = {[dtype, str(width), str(architecture)]}\n{COMPILE}"
    shared = run(code, TRITON_CACHE_DIR=str(tmp_path)).split()
    assert len(shared) == 3 and max(map(int, shared)) <= 99 * 1024


# on a GPU


@pytest.mark.parametrize("dtype", [pytest.param(d, marks=gpu) for d in (torch.float16, torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [64, 128])
def test_compiled_at_real_size(width, causal, dtype):
    """Against SDPA, whose error against float64 is the measure."""
    q, k, v = (torch.randn(2, h, 1000, width, device=DEVICE, dtype=dtype, requires_grad=True) for h in (8, 2, 2))
    weight = torch.randn(2, 8, 1000, width, device=DEVICE, dtype=dtype)
    results = []
    for attend, to in ((triton_attention, dtype), (None, dtype), (None, torch.float64)):
        inputs = [x.detach().to(to).requires_grad_() for x in (q, k, v)]
        attend = attend or (lambda *x, causal: F.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=True))
        results.append(with_gradients(attend, inputs, weight.to(to), causal=causal))
    for mine, theirs, truth in zip(*results):
        assert_as_good(mine, theirs, truth)


@pytest.mark.parametrize("causal", [pytest.param(c, marks=gpu) for c in (False, True)])
def test_same_input_same_bits(causal):
    inputs, weight = make_inputs(500, 700, 2, torch.float16, DEVICE, d_k=64, d_v=64)
    mask = length_mask(torch.tensor([600, 700], device=DEVICE))
    first, second = (with_gradients(triton_attention, inputs, weight, mask, causal=causal) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


@pytest.mark.parametrize("n", [pytest.param(16384, marks=gpu)])
def test_memory_is_that_of_the_output(n):
    q, k, v = (torch.randn(1, 8, n, 64, device=DEVICE, dtype=torch.float16) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    triton_attention(q, k, v)
    assert torch.cuda.max_memory_allocated() - before < 2 * q.nbytes  # the scores alone would be 4 GiB
