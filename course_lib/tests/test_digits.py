"""A small Vision Transformer learns to read scikit-learn's digits."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.config import TransformerConfig
from course_lib.tasks import digits
from course_lib.training import Settings, train
from course_lib.vision import VisionTransformer


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
    images, labels = batch
    logits, _ = model(images)
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1), len(labels)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_reads_97_of_100_held_out_digits(seed):
    """Measured: 98.6 % and 98.9 % (seed 2, not run here: 97.5 %); without dropout 96 to 99 %."""
    data = digits(seed)
    torch.manual_seed(seed)
    config = TransformerConfig.preset(
        "vit", d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.2, attention_dropout=0.1
    )
    model = VisionTransformer(config, image_size=(8, 8), patch=4, n_channels=1, n_classes=10)
    train(model, data.train, loss, Settings(steps=600, batch_size=64, warmup=100, cooldown=400, seed=seed))
    images, labels = data.test
    with torch.no_grad():
        logits, _ = model(images)
    assert (logits.argmax(-1) == labels).float().mean() >= 0.97
