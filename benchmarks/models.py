"""Modules and models beside their peers: a training step of attention, of a layer, of the 2017 model; decoding; import.

    python -m benchmarks.models            # prints a table, writes benchmarks/results/models.json

Every row is one process in which the contestants take turns on the same shapes, float32. A training step is forward and
backward, dropout 0. Decoding is 128 greedy tokens with a cache on one set of random weights of GPT-2 small; its floor is
what reading all the weights once costs (every matrix times one vector, nothing else).
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import machine, measured, take_turns, write
from course_lib.attention import MultiHeadAttention
from course_lib.config import TransformerConfig
from course_lib.generation import generate
from course_lib.layers import EncoderLayer
from course_lib.pretrained.gpt2 import load_gpt2
from course_lib.stacks import Decoder, Encoder

SHAPES = ((8, 512), (1, 4096))  # batch and N; d_model 512, 8 heads, d_ff 2048
TOKENS = 128
OURS = "course_lib"


def training_step(model: nn.Module, *inputs: Tensor, **options: Any) -> Callable[[], None]:
    def step() -> None:
        output = model(*inputs, **options)
        output = output[0] if isinstance(output, tuple) else output
        output.square().mean().backward()

    return step


def attention_modules() -> dict[str, nn.Module]:
    from x_transformers.x_transformers import Attention

    return {
        OURS: MultiHeadAttention(512, 8, backend="fused"),
        "nn.MultiheadAttention": nn.MultiheadAttention(512, 8, bias=False, batch_first=True),
        "x-transformers": Attention(dim=512, heads=8, dim_head=64, flash=True),
    }


def attention_row(batch: int, n: int, seconds: float) -> dict[str, list[float]]:
    x = torch.randn(batch, n, 512, requires_grad=True)
    steps: dict[str, Callable[[], object]] = {}
    for name, module in attention_modules().items():
        arguments = (x, x, x) if name == "nn.MultiheadAttention" else (x,)
        options = {"need_weights": False} if name == "nn.MultiheadAttention" else {}
        steps[name] = training_step(module, *arguments, **options)
    return take_turns(steps, seconds)


def layer_row(batch: int, n: int, seconds: float) -> dict[str, list[float]]:
    from x_transformers import Encoder as TheirEncoder

    x = torch.randn(batch, n, 512, requires_grad=True)
    config = TransformerConfig(d_model=512, n_heads=8, n_layers=1, d_ff=2048, backend="fused")
    layers: dict[str, nn.Module] = {
        OURS: EncoderLayer(config),
        "nn.TransformerEncoderLayer": nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True),
        # One layer after 2017: norm after the sum, no norm at the end, ReLU.
        "x-transformers": TheirEncoder(
            dim=512, depth=1, heads=8, attn_dim_head=64, attn_flash=True, pre_norm=False, ff_relu_squared=False,
            ff_custom_activation=nn.ReLU(),
        ),
    }  # fmt: skip
    return take_turns({name: training_step(layer, x) for name, layer in layers.items()}, seconds)


def base_model_row(seconds: float) -> dict[str, list[float]]:
    """The two stacks of the 2017 base model: nn.Transformer has no embedding (and one norm more at the end of each)."""
    source, target = torch.randn(4, 128, 512), torch.randn(4, 96, 512)
    config = TransformerConfig.preset("vaswani_base", backend="fused", dropout=0.0)
    encoder, decoder = Encoder(config), Decoder(config)
    theirs = nn.Transformer(512, 8, 6, 6, 2048, dropout=0.0, batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(96)

    def step_ours() -> None:
        memory, _ = encoder(source)
        decoder(target, memory)[0].square().mean().backward()

    def step_theirs() -> None:
        theirs(source, target, tgt_mask=causal, tgt_is_causal=True).square().mean().backward()

    return take_turns({OURS: step_ours, "nn.Transformer": step_theirs}, seconds)


def decoding_models() -> tuple[nn.Module, Any]:
    """Ours and that of transformers, with the same random weights of GPT-2 small's shape."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    theirs = GPT2LMHeadModel(GPT2Config()).eval()
    theirs.generation_config.eos_token_id = None
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return load_gpt2(folder, backend="fused"), theirs


def decoding_row(batch: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of 128 tokens; the floor reads every weight 128 times."""
    ours, theirs = decoding_models()
    prompt = torch.randint(50257, (batch, 8))
    matrices = [p for p in ours.parameters() if p.ndim == 2 and p.shape[0] != 1024]  # all but the position table
    vectors = {width: torch.randn(batch, width) for width in {w.shape[1] for w in matrices}}

    def decode_ours() -> Tensor:
        return generate(ours, prompt, TOKENS)

    @torch.no_grad()
    def decode_theirs() -> Tensor:
        mask = torch.ones_like(prompt)
        return theirs.generate(prompt, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)

    @torch.no_grad()
    def floor() -> None:
        for _ in range(TOKENS):
            for w in matrices:
                nn.functional.linear(vectors[w.shape[1]], w)

    assert torch.equal(decode_ours(), decode_theirs()), "both must write the same tokens"
    return take_turns({OURS: decode_ours, "transformers": decode_theirs, "floor": floor}, 0, rounds)


def import_row(rounds: int) -> dict[str, list[float]]:
    """Seconds of a fresh interpreter that imports everything a lesson takes from course_lib, and of one with torch."""
    course = (
        "import course_lib.attention, course_lib.transformer, course_lib.language_model, course_lib.generation, "
        "course_lib.training, course_lib.positions, course_lib.recurrent, course_lib.beyond, course_lib.vision"
    )

    def fresh(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    return take_turns({OURS: fresh(course), "import torch": fresh("import torch")}, 0, rounds)


def main(seconds: float = 20.0, rounds: int = 5) -> None:
    torch.manual_seed(0)
    here = machine()  # before anything runs
    measures: dict[str, Callable[[], dict[str, list[float]]]] = {}
    for batch, n in SHAPES:
        measures[f"training step, attention, B{batch} N{n}"] = lambda b=batch, n=n: attention_row(b, n, seconds)
        measures[f"training step, encoder layer, B{batch} N{n}"] = lambda b=batch, n=n: layer_row(b, n, seconds)
    measures["training step, 2017 base model (stacks), B4 N128/96"] = lambda: base_model_row(seconds)
    measures[f"decode {TOKENS} tokens, GPT-2 small, B1"] = lambda: decoding_row(1, rounds)
    measures[f"decode {TOKENS} tokens, GPT-2 small, B8"] = lambda: decoding_row(8, rounds)
    measures["import"] = lambda: import_row(rounds)
    write("models", {"machine": here, "rows": measured(measures)})


if __name__ == "__main__":
    main()
