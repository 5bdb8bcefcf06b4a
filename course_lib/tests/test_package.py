import doctest
import importlib
import math
import subprocess
import sys

import pytest
import torch

import course_lib.config
import course_lib.masks

MODULES = (
    "attention", "beam", "beyond", "cache", "config", "embedding", "feedforward", "flash.tiled", "generation",
    "language_model", "layers", "linear", "masked_language_model", "masks", "norms", "positions", "recurrent", "stacks",
    "runs", "summary", "tasks", "training", "transformer", "vision",
    "pretrained.bert", "pretrained.checkpoint", "pretrained.gpt2", "pretrained.llama", "pretrained.t5",
    "pretrained.whisper",
)  # fmt: skip


def test_import_is_light():
    """All modules without any of the heavy packages; benchmarks/ has the seconds."""
    code = (
        "import sys, torch\n"
        f"import course_lib, {', '.join(f'course_lib.{m}' for m in MODULES)}\n"
        "print(*(sys.modules.keys() & {'matplotlib', 'tokenizers', 'safetensors', 'transformers', 'triton', 'autograder'}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(f"course_lib.{name}")
    names = {"torch": torch, "math": math, "nn": torch.nn, "padding_mask": course_lib.masks.padding_mask}
    names |= {"TransformerConfig": course_lib.config.TransformerConfig} | vars(module)
    tests = doctest.DocTestFinder().find(module, globs=names)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        runner.run(test)
    assert runner.summarize().failed == 0
