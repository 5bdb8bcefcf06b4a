"""On a GPU: the Triton kernel beside PyTorch's flash kernel, tokens a second, a training step in bfloat16. Under 5 minutes.

    python -m benchmarks.gpu               # prints a table, writes benchmarks/results/gpu.json

Without a GPU it says so and writes nothing. Times are CUDA events around one call, contestants taking turns, medians.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.common import machine, measured, write
from benchmarks.models import OURS, decoding_models
from course_lib.config import TransformerConfig
from course_lib.flash.triton_kernel import triton_attention
from course_lib.generation import generate
from course_lib.language_model import LanguageModel

ROUNDS = 20
LENGTHS = (1024, 4096, 16384)
TOKENS = 128


def cuda_turns(contestants: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each contestant by CUDA events, round by round."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            taken[name].append(start.elapsed_time(end) / 1e3)
    return taken


def attention_row(n: int, training: bool) -> dict[str, list[float]]:
    """Batch 4, 16 heads of width 64, bfloat16, causal."""
    q, k, v = (torch.randn(4, 16, n, 64, device="cuda", dtype=torch.bfloat16, requires_grad=training) for _ in range(3))
    cotangent = torch.randn_like(q)

    def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def call(attend: Callable[..., Tensor], **options: Any) -> Callable[[], object]:
        def run() -> None:
            output = attend(q, k, v, **options)
            if training:
                torch.autograd.grad(output, (q, k, v), cotangent)

        return run

    return cuda_turns({OURS: call(triton_attention, causal=True), "SDPA flash": call(flash)})


def decoding_row(batch: int) -> dict[str, list[float]]:
    ours, theirs = (model.to("cuda", torch.bfloat16) for model in decoding_models())
    prompt = torch.randint(50257, (batch, 8), device="cuda")
    mask = torch.ones_like(prompt)

    @torch.no_grad()
    def decode_theirs() -> Tensor:
        return theirs.generate(prompt, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)

    return cuda_turns({OURS: lambda: generate(ours, prompt, TOKENS), "transformers": decode_theirs}, rounds=3)


def training_row() -> dict[str, list[float]]:
    """GPT-2 small, batch 8, N 1024, autocast to bfloat16: attention by the Triton kernel and by PyTorch's."""
    tokens = torch.randint(50257, (8, 1024), device="cuda")
    steps: dict[str, Callable[[], object]] = {}
    for name, backend in ((f"{OURS}, triton", "triton"), (f"{OURS}, fused", "fused")):
        model = LanguageModel(
            TransformerConfig.preset("gpt2", dropout=0.0, attention_dropout=0.0, backend=backend)
        ).cuda()

        def step(model: LanguageModel = model) -> None:
            with torch.autocast("cuda", torch.bfloat16):
                logits, _ = model(tokens[:, :-1])
            F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
            model.zero_grad()

        steps[name] = step
    return cuda_turns(steps, rounds=5)


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("no GPU here: nothing was measured")
    torch.manual_seed(0)
    measures: dict[str, Callable[[], dict[str, list[float]]]] = {}
    for n in LENGTHS:
        measures[f"attention forward, B4 h16 d64 N{n}, bfloat16, causal"] = lambda n=n: attention_row(n, False)
        measures[f"attention forward and backward, B4 h16 d64 N{n}"] = lambda n=n: attention_row(n, True)
    for batch in (1, 8):
        measures[f"decode {TOKENS} tokens, GPT-2 small, B{batch}"] = lambda batch=batch: decoding_row(batch)
    measures["training step, GPT-2 small, B8 N1024"] = training_row
    here = machine() | {"gpu": torch.cuda.get_device_name()}
    write("gpu", {"machine": here, "rows": measured(measures)})


if __name__ == "__main__":
    main()
