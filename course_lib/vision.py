"""Images as sequences: cut into patches, a picture is a sentence of tokens, and the encoder need not know."""

import torch
from torch import Tensor, nn

from course_lib.config import TransformerConfig
from course_lib.stacks import Encoder


def patchify(images: Tensor, patch: int) -> Tensor:
    """Cut images into square patches and lay each out as a row.

    Args:
        images: ``[B, C, H, W]``.
        patch: side p of a patch.

    Returns:
        ``[B, (H/p)·(W/p), C·p·p]``: the patches row by row; inside one, channel, then row, then column, the order of a
        flattened convolution kernel.

    Raises:
        ValueError: if H or W is not a multiple of ``patch``.

    Example:
        >>> patchify(torch.arange(8.0).reshape(1, 1, 2, 4), 2)
        tensor([[[0., 1., 4., 5.],
                 [2., 3., 6., 7.]]])

    Reference: Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929, section 3.1.
    """
    height, width = images.shape[-2:]
    if height % patch != 0 or width % patch != 0:
        raise ValueError(f"an image of {height} × {width} does not divide into patches of {patch} × {patch}")
    tiles = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # [B, C, H/p, p, W/p, p]
    return tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # place first, then what is there


class PatchEmbedding(nn.Module):
    """patchify(images) W + b: what a token's embedding is to a word.

    A convolution whose stride is its kernel's size does the same; its weight ``[d_model, C, p, p]``, flattened, is this
    one's.

    Args:
        n_channels: C.
        patch: side of a patch.
        d_model: width of a patch's vector.

    Example:
        >>> PatchEmbedding(n_channels=3, patch=4, d_model=10)(torch.randn(2, 3, 8, 12)).shape
        torch.Size([2, 6, 10])

    Reference: Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929, section 3.1, equation 1.
    """

    def __init__(self, n_channels: int, patch: int, d_model: int) -> None:
        super().__init__()
        self.patch = patch
        self.w = nn.Linear(n_channels * patch * patch, d_model)

    def forward(self, images: Tensor) -> Tensor:
        """``[B, C, H, W]`` to ``[B, (H/p)·(W/p), d_model]``."""
        return self.w(patchify(images, self.patch))


class VisionTransformer(nn.Module):
    """A learned class token in front of the patches, learned positions on all, an encoder, and a linear classifier that
    reads the class token.

    Args:
        config: what the encoder needs, e.g. the preset "vit".
        image_size: H and W of the images.
        patch: side of a patch, divides both.
        n_channels: C.
        n_classes: number of classes.

    Raises:
        ValueError: if H or W is not a multiple of ``patch``.

    Example:
        >>> config = TransformerConfig.preset("vit", d_model=16, n_heads=4, n_layers=2, d_ff=32)
        >>> model = VisionTransformer(config, image_size=(8, 8), patch=2, n_channels=1, n_classes=10)
        >>> logits, _ = model(torch.rand(5, 1, 8, 8))
        >>> logits.shape
        torch.Size([5, 10])

    Reference: Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929, section 3.1, equations 1 to 4.
    """

    def __init__(
        self, config: TransformerConfig, image_size: tuple[int, int], patch: int, n_channels: int, n_classes: int
    ) -> None:
        super().__init__()
        height, width = image_size
        if height % patch != 0 or width % patch != 0:
            raise ValueError(f"an image of {height} × {width} does not divide into patches of {patch} × {patch}")
        n_patches = (height // patch) * (width // patch)
        self.patches = PatchEmbedding(n_channels, patch, config.d_model)
        self.class_token = nn.Parameter(torch.empty(config.d_model).normal_(std=0.02))
        self.positions = nn.Parameter(torch.empty(1 + n_patches, config.d_model).normal_(std=0.02))
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.head = nn.Linear(config.d_model, n_classes)

    def forward(self, images: Tensor, *, return_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """Classify the images.

        Args:
            images: ``[B, C, H, W]``.
            return_weights: whether the attention weights of all layers are returned.

        Returns:
            The logits ``[B, n_classes]``, and the weights ``[B, n_layers, h, N, N]`` or ``None``; token 0 is the class
            token, so row 0 shows which patches it looked at.
        """
        patches = self.patches(images)  # [B, N − 1, d_model]
        class_token = self.class_token.expand(len(images), 1, -1)
        x = torch.cat((class_token, patches), dim=1) + self.positions  # [B, N, d_model]
        x, weights = self.encoder(self.dropout(x), return_weights=return_weights)
        return self.head(x[:, 0]), weights
