import doctest
import importlib
import math
import subprocess
import sys

import pytest
import torch

import course_lib.masks

MODULES = (
    "attention", "config", "feedforward", "layers", "masks", "norms", "transformer",
    "pretrained.bert", "pretrained.checkpoint",
)  # fmt: skip


def test_import_is_light():
    """All modules: at most 0.3 s more than torch itself, and none of the heavy packages."""
    code = (
        "import torch, sys, time\n"
        "start = time.perf_counter()\n"
        f"import course_lib, {', '.join(f'course_lib.{m}' for m in MODULES)}\n"
        "print(time.perf_counter() - start)\n"
        "print(*(sys.modules.keys() & {'matplotlib', 'tokenizers', 'safetensors', 'transformers', 'autograder'}))\n"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    seconds, heavy = zip(*(run.stdout.split("\n")[:2] for run in runs))
    assert heavy == ("", "")
    assert min(map(float, seconds)) < 0.3


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(f"course_lib.{name}")
    names = {"torch": torch, "math": math, "padding_mask": course_lib.masks.padding_mask} | vars(module)
    tests = doctest.DocTestFinder().find(module, globs=names)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        runner.run(test)
    assert runner.summarize().failed == 0
