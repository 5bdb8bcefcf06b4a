"""Training: one loop for every model of the course, on one process or, under ``torchrun``, on several.

    python -m course_lib.training dates                                       # Minguo and Western dates to ISO 8601
    torchrun --nproc-per-node 2 -m course_lib.training dates                  # the same losses on two processes
    python -m course_lib.training dates --folder runs/dates                   # killed, it goes on where it was

All that is random in a step (which rows, what dropout drops) follows from the seed and the step's number. So a run that
was killed goes on as if nothing had happened, with nothing to save but the model, the optimizer and the step.
"""

import argparse
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.config import TransformerConfig
from course_lib.generation import generate
from course_lib.masks import padding_mask
from course_lib.runs import best_device, join_processes, mean_over_processes, progress, resume, save
from course_lib.tasks import CharTokenizer, Pair, Split, dates, number_words
from course_lib.transformer import Transformer

Loss = Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, int]]  # model, batch to sum of losses, number of them


def warmup_schedule(step: int, d_model: int = 512, warmup: int = 4000) -> float:
    """The learning rate of 2017, d_model^−½ · min(step^−½, step · warmup^−3⁄2): it rises for ``warmup`` steps, then falls.

    Args:
        step: counted from 1; step 0 gives 0.
        d_model: width of the model.
        warmup: the step at which the two terms are equal and the rate is largest.

    Example:
        >>> f"{warmup_schedule(4000):.6f}"
        '0.000699'

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 5.3, equation 3.
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) if step > 0 else 0.0


def label_smoothing_loss(
    logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Cross-entropy against (1 − ε) · one-hot + ε/V: the model is kept from being certain.

    Args:
        logits: ``[B, N, V]``; half precision is computed in float32.
        target: token ids ``[B, N]``.
        smoothing: ε.
        ignore_index: targets that do not count, e.g. the padding.
        reduction: "mean" over the targets that count (0 if there are none), or "sum".

    Returns:
        One number ``[]``, in float32 or better.

    Raises:
        ValueError: if the reduction is unknown.

    Example:
        >>> label_smoothing_loss(torch.zeros(1, 2, 8), torch.tensor([[3, -100]]))
        tensor(2.0794)

    References: Szegedy et al. 2015, https://arxiv.org/abs/1512.00567, section 7; Vaswani et al. 2017 (ε = 0.1),
    https://arxiv.org/abs/1706.03762, section 5.4.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction must be "mean" or "sum", got {reduction!r}')
    counts = target != ignore_index
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    right = log_p.gather(-1, target.where(counts, 0)[..., None])[..., 0]  # [B, N]
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(-1)
    total = losses.where(counts, 0).sum()
    return total if reduction == "sum" else total / counts.sum().clamp(min=1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train.

    Args:
        steps: number of updates in all, those before a resume counted.
        batch_size: rows a step, over all processes.
        d_model, warmup: of :func:`warmup_schedule`.
        cooldown: over so many steps at the end the rate falls to 0 besides. 2017 did not do this; without it 2 % of the
            dates below come out wrong, with it nearly none, in as many steps.
        max_norm: longer gradients are cut to this length.
        seed: of the order of the data and of dropout.
        save_every: steps from one checkpoint to the next.
    """

    steps: int
    batch_size: int = 128
    d_model: int = 512
    warmup: int = 4000
    cooldown: int = 0
    max_norm: float = 1.0
    seed: int = 0
    save_every: int = 100

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        left = min(1.0, (self.steps + 1 - step) / (self.cooldown + 1))
        return left * warmup_schedule(step, self.d_model, self.warmup)


def train(
    model: nn.Module,
    data: tuple[Tensor, ...],
    loss: Loss,
    settings: Settings,
    folder: Path | None = None,
    device: torch.device | None = None,
) -> list[float]:
    """Update the model ``settings.steps`` times; if the folder holds a checkpoint, from there on.

    Args:
        model: is moved to the device, and left in evaluation mode.
        data: tensors with one row an example.
        loss: takes the model and a batch of ``data``; returns the sum of the losses and how many they are. It calls the
            model as a function, for that is what several processes can share.
        settings: how to train.
        folder: gets ``checkpoint.pt`` and ``log.csv``; nothing is written if not given.
        device: :func:`best_device` if not given.

    Returns:
        The mean loss of each step that was made in this call.

    Raises:
        ValueError: if the checkpoint is of a run with other settings, or a batch is larger than the data or smaller
            than the number of processes.
    """
    rank, world = join_processes()
    device = best_device() if device is None else device
    half = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    model.to(device)
    # 2017, section 5.3. The rate is set in every step.
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    first = resume(folder, model, optimizer, asdict(settings))
    shared = nn.parallel.DistributedDataParallel(model) if world > 1 else model
    shared.train()
    losses = []

    with progress(first, settings.steps, folder, silent=rank > 0) as report:
        for step, rows in enumerate(batches(len(data[0]), settings, first, rank, world), start=first + 1):
            torch.manual_seed(_mix(settings.seed, step * world + rank))  # what dropout drops
            rate = optimizer.param_groups[0]["lr"] = settings.rate(step)

            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                total, count = loss(shared, tuple(tensor[rows].to(device) for tensor in data))
            mean, all_counts = mean_over_processes(total, count)
            # DDP takes the mean of the processes' gradients; wanted is the sum of all losses over the number of all.
            (total * world / all_counts).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
            optimizer.step()
            optimizer.zero_grad()

            losses.append(mean)
            report(step, mean, rate)
            if folder is not None and rank == 0 and (step % settings.save_every == 0 or step == settings.steps):
                save(folder, model, optimizer, asdict(settings), step)
    model.eval()
    return losses


def _mix(seed: int, number: int) -> int:
    """One seed of two numbers, unlike its neighbours. PyTorch's CPU generator reads 32 bits of a seed, no more."""
    return zlib.crc32(f"{seed} {number}".encode())


def batches(n: int, settings: Settings, first: int, rank: int = 0, world: int = 1) -> Iterator[Tensor]:
    """The rows of each step after step ``first``. Every epoch has its own order; its last, incomplete batch is left out.

    The processes deal a batch out like cards, so that together they have the batch that one alone would have.
    """
    size = settings.batch_size
    if not world <= size <= n:
        raise ValueError(f"a batch of {size} rows cannot be dealt out to {world} processes, or taken from {n} rows")
    for step in range(first, settings.steps):
        epoch, i = divmod(step, n // size)
        if i == 0 or step == first:
            order = torch.randperm(n, generator=torch.Generator().manual_seed(_mix(settings.seed, epoch)))
        yield order[i * size : (i + 1) * size][rank::world]


# Text to text


def text_tensors(tokenizer: CharTokenizer, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Sources ``[B, M]`` and targets ``[B, N + 1]``, from the start token to the end token, padded."""
    sources, targets = zip(*pairs)
    return tokenizer.encode(sources), tokenizer.encode(targets)


def translation_loss(smoothing: float = 0.1, pad_id: int = 0) -> Loss:
    """The loss of a :class:`Transformer` on sources and targets: each token is told from the source and those before."""

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        source, target = batch
        labels = target[:, 1:]  # the decoder reads all but the last token and is to say all but the first
        logits, _ = model(source, target[:, :-1], padding_mask(source, pad_id))
        return label_smoothing_loss(logits, labels, smoothing, pad_id, "sum"), int((labels != pad_id).sum())

    return loss


def translate(
    model: Transformer, tokenizer: CharTokenizer, texts: Sequence[str], max_length: int = 16, batch_size: int = 500
) -> list[str]:
    """What the model writes for each text, greedily, at most ``max_length`` characters."""
    device = next(model.parameters()).device
    written: list[str] = []
    for i in range(0, len(texts), batch_size):
        source = tokenizer.encode(texts[i : i + batch_size]).to(device)
        start = torch.full((len(source), 1), tokenizer.bos_id, device=device)
        mask = padding_mask(source, tokenizer.pad_id)
        room = max_length + 1  # for the end token
        tokens = generate(model, start, room, eos_id=tokenizer.eos_id, source=source, source_mask=mask)
        written += tokenizer.decode(tokens)
    return written


def small_transformer(vocab_size: int, seed: int = 0) -> Transformer:
    """The model of 2017 at a size that two CPU cores train in minutes, with the norm in front and no dropout."""
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig.preset(
            "vaswani_base",
            d_model=64,
            n_heads=4,
            n_layers=1,
            d_ff=128,
            vocab_size=vocab_size,
            max_positions=128,
            placement="pre",
            dropout=0.0,
            backend="fused",
        )
    )


TASKS: dict[str, Callable[..., Split[list[Pair]]]] = {"dates": dates, "numbers": number_words}
SETTINGS = Settings(steps=1400, batch_size=128, d_model=64, warmup=200, cooldown=600)


def main(arguments: Sequence[str] | None = None) -> float:
    """Train a translator and print what it does with held-out texts; returns the share it translates exactly."""
    parser = argparse.ArgumentParser(prog="python -m course_lib.training", description=main.__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--steps", type=int, default=SETTINGS.steps, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=SETTINGS.seed, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="for checkpoint and log; a run found there is continued")
    options = parser.parse_args(arguments)

    split = TASKS[options.task](seed=options.seed)
    tokenizer = CharTokenizer([text for pair in split.train for text in pair])
    model = small_transformer(tokenizer.vocab_size, options.seed)
    settings = replace(SETTINGS, steps=options.steps, seed=options.seed)
    train(model, text_tensors(tokenizer, split.train), translation_loss(), settings, options.folder)

    sources, targets = zip(*split.test)
    written = translate(model, tokenizer, sources)
    exact = sum(map(str.__eq__, written, targets)) / len(targets)
    if join_processes()[0] == 0:
        for source, text, target in list(zip(sources, written, targets))[:8]:
            print(f"{source} → {text}" + ("" if text == target else f"  (should be {target})"))
        print(f"exact on {len(targets)} held-out texts: {exact:.2%}")
    return exact


if __name__ == "__main__":
    main()
