import pytest
import torch
from torch import nn

from course_lib.config import TransformerConfig
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise
from course_lib.vision import PatchEmbedding, VisionTransformer, patchify

B, C, HEIGHT, WIDTH, PATCH = 2, 3, 6, 10, 2


def test_patches_pixel_by_pixel():
    images = torch.arange(B * C * HEIGHT * WIDTH).reshape(B, C, HEIGHT, WIDTH)
    patches = patchify(images, PATCH)
    assert patches.shape == (B, 15, 12)
    for row in range(3):
        for column in range(5):
            window = images[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            assert torch.equal(patches[:, 5 * row + column], window.reshape(B, 12))


def test_images_that_do_not_divide_are_refused():
    for images in (torch.zeros(1, 1, 7, 10), torch.zeros(1, 1, 6, 9)):
        with pytest.raises(ValueError, match="does not divide"):
            patchify(images, 2)
    with pytest.raises(ValueError, match="does not divide"):
        VisionTransformer(SMALL, (6, 9), 2, 1, 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("patch", [1, 2])
def test_patch_embedding_is_a_strided_convolution(patch, dtype, device):
    exact = randomise(nn.Conv2d(C, 7, patch, stride=patch)).to(device, torch.float64)
    theirs = nn.Conv2d(C, 7, patch, stride=patch).to(device, dtype)
    theirs.load_state_dict(exact.state_dict())
    exact.load_state_dict(theirs.state_dict())
    ours = PatchEmbedding(C, patch, 7).to(device, dtype)
    with torch.no_grad():
        ours.w.weight.copy_(theirs.weight.flatten(1))
        ours.w.bias.copy_(theirs.bias)
    x = torch.randn(B, C, HEIGHT, WIDTH, device=device, dtype=dtype)
    weight = torch.randn(B, HEIGHT * WIDTH // patch**2, 7, device=device, dtype=dtype)
    results = []
    for module in (ours, theirs, exact):
        parameters = list(module.parameters())
        images = x.to(parameters[0].dtype).requires_grad_()
        y = module(images) if module is ours else module(images).flatten(2).transpose(1, 2)
        by_images, by_weight, by_bias = gradients(y, weight.to(y.dtype), [images, *parameters])
        results.append((y, by_images, by_weight.flatten(1), by_bias))
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth)
        else:
            assert_close(mine, truth.to(dtype), dtype)


SMALL = TransformerConfig.preset("vit", d_model=12, n_heads=3, n_layers=2, d_ff=20, dropout=0.0)


def their_vision_transformer():
    vit = pytest.importorskip("transformers.models.vit.modeling_vit")
    from transformers import ViTConfig

    config = ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, num_channels=C,
        image_size=(HEIGHT, WIDTH), patch_size=PATCH, layer_norm_eps=1e-6, num_labels=4,
    )  # fmt: skip
    return randomise(vit.ViTForImageClassification(config)).double().eval()


def copy_vision_transformer(ours, theirs):
    """Weights of ``transformers`` into ours."""
    state = theirs.state_dict()
    names = {
        "classifier": "head", "vit.layernorm": "encoder.final_norm",
        "layernorm_before": "norm_1", "layernorm_after": "norm_2",
        "attention.q_proj": "attention.w_q", "attention.k_proj": "attention.w_k",
        "attention.v_proj": "attention.w_v", "attention.o_proj": "attention.w_o",
        "mlp.fc1": "feed_forward.w_1", "mlp.fc2": "feed_forward.w_2", "vit.layers": "encoder.layers",
    }  # fmt: skip
    copied = {
        "class_token": state.pop("vit.embeddings.cls_token").flatten(),
        "positions": state.pop("vit.embeddings.position_embeddings")[0],
        "patches.w.weight": state.pop("vit.embeddings.patch_embeddings.projection.weight").flatten(1),
        "patches.w.bias": state.pop("vit.embeddings.patch_embeddings.projection.bias"),
    }
    for name, value in state.items():
        for old, new in names.items():
            name = name.replace(old, new)
        copied[name] = value
    ours.load_state_dict(copied)


def test_agrees_with_the_vit_of_transformers():
    theirs = their_vision_transformer()
    ours = VisionTransformer(SMALL, (HEIGHT, WIDTH), PATCH, C, n_classes=4).double()
    copy_vision_transformer(ours, theirs)
    images = torch.randn(B, C, HEIGHT, WIDTH, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(B, 4, dtype=torch.float64)
    mine, maps = ours(images, return_weights=True)
    expected = theirs(images).logits
    assert_close(mine, expected, torch.float64)
    assert_close(gradients(mine, weight, [images])[0], gradients(expected, weight, [images])[0], torch.float64)
    theirs.set_attn_implementation("eager")  # shows its maps, but computes the softmax in float32 whatever the dtype
    their_maps = theirs(images, output_attentions=True).attentions
    torch.testing.assert_close(maps.transpose(0, 1), torch.stack(their_maps), atol=1e-6, rtol=0)


def test_positions_tell_patches_apart():
    """Without positions the class token sees a bag of patches: shuffled, they give the same logits."""
    model = randomise(VisionTransformer(SMALL, (HEIGHT, WIDTH), PATCH, C, n_classes=4)).double()
    images = torch.randn(B, C, HEIGHT, WIDTH, dtype=torch.float64)
    mirrored = images.unflatten(3, (-1, PATCH)).flip(3).flatten(3)  # whole patches change places
    assert not torch.allclose(model(images)[0], model(mirrored)[0])
    nn.init.zeros_(model.positions)
    torch.testing.assert_close(model(images)[0], model(mirrored)[0])
