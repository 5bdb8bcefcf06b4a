import csv
import importlib
import importlib.util
import io
import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from course_lib import runs
from course_lib.config import TransformerConfig
from course_lib.tasks import CharTokenizer, dates
from course_lib.training import (
    Settings,
    batches,
    label_smoothing_loss,
    main,
    text_tensors,
    train,
    translate,
    translation_loss,
    warmup_schedule,
)
from course_lib.transformer import Transformer

PAIRS = dates(n_train=64, n_test=1).train


def make(dropout=0.0, n_layers=1):
    """A small model of dates, and its data."""
    torch.manual_seed(0)
    tokenizer = CharTokenizer([text for pair in PAIRS for text in pair])
    config = TransformerConfig.preset(
        "vaswani_base", d_model=32, n_heads=2, n_layers=n_layers, d_ff=64, vocab_size=tokenizer.vocab_size
    )
    model = Transformer(TransformerConfig(**(vars(config) | {"dropout": dropout, "placement": "pre"})))
    return model, tokenizer, text_tensors(tokenizer, PAIRS)


SETTINGS = Settings(steps=13, batch_size=24, d_model=32, warmup=10, cooldown=4, save_every=5)


# the schedule


def test_schedule_is_that_of_2017():
    """Equation 3; the values of the base model at 4000 steps of warm-up."""
    assert warmup_schedule(0) == 0
    assert warmup_schedule(1) == pytest.approx(1.7469e-7, rel=1e-4)
    assert warmup_schedule(2000) == pytest.approx(3.4939e-4, rel=1e-4)
    assert warmup_schedule(4000) == pytest.approx(6.9877e-4, rel=1e-4)
    assert warmup_schedule(16000) == pytest.approx(3.4939e-4, rel=1e-4)
    assert max(range(1, 900), key=lambda step: warmup_schedule(step, 64, 300)) == 300
    assert warmup_schedule(9, d_model=16, warmup=4) == pytest.approx(1 / 12)


def test_cooldown_ends_the_schedule():
    plain, cooled = Settings(steps=100, warmup=20), Settings(steps=100, warmup=20, cooldown=40)
    assert [plain.rate(step) for step in (1, 20, 100)] == [warmup_schedule(step, 512, 20) for step in (1, 20, 100)]
    assert all(cooled.rate(step) == plain.rate(step) for step in range(61))
    assert cooled.rate(61) / plain.rate(61) == pytest.approx(40 / 41)
    assert cooled.rate(100) / plain.rate(100) == pytest.approx(1 / 41)


# the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("ignore_index", [-100, 0])
def test_label_smoothing_agrees_with_pytorch(smoothing, ignore_index, device):
    logits = (3 * torch.randn(4, 6, 9, dtype=torch.float64, device=device)).requires_grad_()
    target = torch.randint(9, (4, 6), device=device)
    target[0, 3:] = ignore_index
    for reduction in ("mean", "sum"):
        theirs = nn.CrossEntropyLoss(label_smoothing=smoothing, ignore_index=ignore_index, reduction=reduction)
        ours = label_smoothing_loss(logits, target, smoothing, ignore_index, reduction)
        expected = theirs(logits.flatten(0, 1), target.flatten())
        torch.testing.assert_close(ours, expected)
        gradients = [torch.autograd.grad(loss, logits)[0] for loss in (ours, expected)]
        torch.testing.assert_close(*gradients)


def test_label_smoothing_at_the_edges():
    nothing = label_smoothing_loss(torch.randn(1, 2, 5), torch.full((1, 2), -100))
    assert nothing == 0
    far = label_smoothing_loss(torch.tensor([[[6000.0, -6000.0]]], dtype=torch.float64), torch.tensor([[1]]))
    assert far.item() == pytest.approx(0.95 * 12_000)
    logits, target = torch.randn(2, 3, 1000), torch.randint(1000, (2, 3))
    half = label_smoothing_loss(logits.bfloat16(), target)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, label_smoothing_loss(logits.bfloat16().float(), target))
    with pytest.raises(ValueError, match="'none'"):
        label_smoothing_loss(logits, target, reduction="none")


# the order of the data


def test_an_epoch_has_each_row_once_and_its_own_order():
    settings = Settings(steps=8, batch_size=5)
    rows = list(batches(21, settings, first=0))
    first, second = torch.cat(rows[:4]), torch.cat(rows[4:])
    assert len(set(first.tolist())) == len(set(second.tolist())) == 20
    assert not first.equal(second)
    for start in range(8):
        assert all(map(torch.equal, batches(21, settings, start), rows[start:]))
    assert not rows[0].equal(next(batches(21, Settings(steps=8, batch_size=5, seed=1), 0)))


def test_processes_share_out_a_batch():
    settings = Settings(steps=6, batch_size=5)
    alone = list(batches(21, settings, 2))
    shares = [list(batches(21, settings, 2, rank, world=2)) for rank in (0, 1)]
    for whole, *parts in zip(alone, *shares):
        assert sorted(torch.cat(parts).tolist()) == sorted(whole.tolist())
    for n, world in ((4, 1), (21, 6)):
        with pytest.raises(ValueError, match="a batch of 5 rows cannot"):
            next(batches(n, settings, 0, 0, world))


# the loop


def test_one_step_is_adam_on_the_clipped_gradient_of_the_mean():
    """By hand, with PyTorch's loss: gradients of the mean over real tokens, cut to length 0.5, one step of Adam."""
    model, _, data = make()
    twin, _, _ = make()
    settings = Settings(steps=1, batch_size=64, d_model=32, warmup=1, max_norm=0.5)
    losses = train(model, data, translation_loss(0.1), settings)
    source, target = data
    logits, _ = twin(source, target[:, :-1], (source != 0)[:, None, None])
    loss = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)(logits.flatten(0, 1), target[:, 1:].flatten())
    loss.backward()
    assert nn.utils.clip_grad_norm_(twin.parameters(), 0.5) > 0.6
    torch.optim.Adam(twin.parameters(), lr=32**-0.5, betas=(0.9, 0.98), eps=1e-9).step()
    assert losses == [pytest.approx(loss.item(), rel=1e-5)]
    assert not model.training
    for ours, expected in zip(model.parameters(), twin.parameters()):
        # Adam's first step is the gradient's sign: where the gradient is all rounding, so is the sign.
        assert ((ours - expected).abs() < 1e-4).float().mean() > 0.99


class Killed(Exception):
    pass


def killed_at(step, loss):
    calls = 0

    def run(model, batch):
        nonlocal calls
        calls += 1
        if calls == step:
            raise Killed
        return loss(model, batch)

    return run


def read_log(folder):
    with (folder / "log.csv").open(encoding="utf-8", newline="") as file:
        return [(int(row["step"]), float(row["loss"]), float(row["learning_rate"])) for row in csv.DictReader(file)]


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    """With dropout; killed in step 8 of 13, in the fourth epoch, three steps after a checkpoint."""
    loss = translation_loss()
    model, _, data = make(dropout=0.2)
    expected = train(model, data, loss, SETTINGS, tmp_path / "whole")
    again, _, _ = make(dropout=0.2)
    with pytest.raises(Killed):
        train(again, data, killed_at(8, loss), SETTINGS, tmp_path / "killed")
    assert [step for step, _, _ in read_log(tmp_path / "killed")] == [*range(1, 8)]
    fresh, _, _ = make(dropout=0.2)
    nn.init.zeros_(fresh.embedding.token.weight)  # what the model starts as does not matter: the checkpoint does
    torch.manual_seed(99)
    losses = train(fresh, data, loss, SETTINGS, tmp_path / "killed")
    assert losses == expected[5:]
    for mine, theirs in zip(fresh.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    log = read_log(tmp_path / "killed")
    assert log == read_log(tmp_path / "whole")
    assert [(step, rate) for step, _, rate in log] == [(step, SETTINGS.rate(step)) for step in range(1, 14)]
    assert [loss for _, loss, _ in log] == expected
    assert not list(tmp_path.glob("*/*.new"))
    assert fresh.training is False
    assert train(fresh, data, loss, SETTINGS, tmp_path / "killed") == []  # finished: nothing is left to do


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    model, _, data = make()
    train(model, data, translation_loss(), Settings(steps=1, batch_size=8), tmp_path)
    with pytest.raises(ValueError, match=r"batch_size was 8, not 16; seed was 0, not 1"):
        train(model, data, translation_loss(), Settings(steps=1, batch_size=16, seed=1), tmp_path)


def test_dropout_and_order_follow_from_the_seed():
    all_losses = []
    for seed in (0, 0, 1):
        model, _, data = make(dropout=0.2)
        torch.manual_seed(123 + len(all_losses))  # what was drawn before has no say
        all_losses.append(train(model, data, translation_loss(), Settings(steps=3, batch_size=64, seed=seed)))
    assert all_losses[0] == all_losses[1] and all_losses[0] != all_losses[2]


def test_plain_lines_without_a_terminal(capsys):
    model, _, data = make()
    losses = train(model, data, translation_loss(), Settings(steps=3, batch_size=8))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[:2] for line in lines] == [
        [f"step {step}/3", f"loss {loss:.4f}"] for step, loss in enumerate(losses, start=1)
    ]


def test_progress_bar(monkeypatch):
    """Where rich is installed and there is a terminal."""
    console = pytest.importorskip("rich.console")
    bar = importlib.import_module("rich.progress").Progress(
        console=console.Console(file=io.StringIO(), force_terminal=True, width=100)
    )
    monkeypatch.setattr(runs, "_rich_bar", lambda: bar)
    model, _, data = make()
    losses = train(model, data, translation_loss(), Settings(steps=3, batch_size=8))
    assert f"step 3/3  loss {losses[-1]:.4f}" in bar.console.file.getvalue()
    assert bar.finished


def test_no_bar_without_rich(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert runs._rich_bar() is None


# several processes

SCRIPT = """
import sys
from pathlib import Path

import torch

from course_lib.runs import join_processes
from course_lib.tests.test_training import train_unevenly

torch.save(train_unevenly(Path(sys.argv[1]), rank=join_processes()[0]), f"{sys.argv[1]}/{join_processes()}.pt")
"""


def train_unevenly(folder, rank=0):
    model, _, data = make()
    data[1][::2, 4:] = 0  # half of the targets are short, so that the processes count different numbers of tokens
    if rank == 1:
        nn.init.zeros_(model.embedding.token.weight)  # the first process's model is everyone's
    return train(model, data, translation_loss(), SETTINGS, folder), model.state_dict()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without torch.distributed")
def test_two_processes_are_one(tmp_path):
    """The same losses, weights and log from two processes under ``torchrun`` as from one."""
    (tmp_path / "run.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "two").mkdir()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(tmp_path / "run.py"), str(tmp_path / "two")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    expected, model = train_unevenly(tmp_path / "one")
    for rank in (0, 1):
        losses, shared = torch.load(tmp_path / "two" / f"({rank}, 2).pt")
        torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
        for name, weight in shared.items():
            torch.testing.assert_close(weight, model[name], rtol=1e-3, atol=1e-3)
    assert [row[0] for row in read_log(tmp_path / "two")] == [row[0] for row in read_log(tmp_path / "one")]


# what it learns


def test_a_handful_of_dates_is_learned_by_heart():
    model, tokenizer, data = make()
    settings = Settings(steps=180, batch_size=64, d_model=32, warmup=30, cooldown=80)
    losses = train(model, data, translation_loss(0.0), settings)
    sources, targets = zip(*PAIRS)
    assert translate(model, tokenizer, sources, batch_size=50) == list(targets)
    assert losses[-1] < 0.02 and losses[0] == pytest.approx(math.log(tokenizer.vocab_size), rel=0.3)


def test_command_line(tmp_path, capsys):
    exact = main(["numbers", "--steps", "1", "--seed", "3", "--folder", str(tmp_path)])
    out = capsys.readouterr().out
    assert exact < 0.1 and f"exact on 2000 held-out texts: {exact:.2%}" in out
    assert len(read_log(tmp_path)) == 1 and (tmp_path / "checkpoint.pt").exists()


@pytest.mark.slow
def test_unseen_dates_are_translated():
    assert main(["dates"]) >= 0.99
