"""How the tests compare numbers, and how they copy weights from PyTorch's modules."""

import torch

HALF = (torch.float16, torch.bfloat16)
DTYPES = (torch.float64, torch.float32, *HALF)


def largest(x):
    return x.abs().max()


def typical(x):
    """Root mean square: after several roundings in a row the single largest error is a matter of luck."""
    return x.square().mean().sqrt()


def assert_as_good(actual, plain, exact, size=largest):
    """The 2× rule: an error against float64 of at most twice the plain same-dtype formula's.

    The floor is two units in the last place of the largest entry, for the cases where the plain formula is lucky.
    """
    assert actual.dtype == plain.dtype and actual.shape == exact.shape
    assert actual.isfinite().all()
    error, allowed = size(actual.double() - exact), 2 * size(plain.double() - exact)
    floor = 2 * torch.finfo(actual.dtype).eps * size(exact)
    assert error <= max(allowed, floor), f"error {error:.3g}, plain formula {allowed / 2:.3g}, floor {floor:.3g}"


def assert_close(actual, expected, dtype):
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-5}[dtype]
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def gradients(output, weight, inputs):
    """Gradients of a weighted sum of the output: unlike a plain sum, it makes every entry matter differently."""
    return torch.autograd.grad((output * weight).sum(), inputs)


def copy_attention(ours, theirs):
    """Weights of ``nn.MultiheadAttention`` into ours: it packs the three projections into one matrix."""
    with torch.no_grad():
        for linear, weight in zip((ours.w_q, ours.w_k, ours.w_v), theirs.in_proj_weight.chunk(3)):
            linear.weight.copy_(weight)
        ours.w_o.weight.copy_(theirs.out_proj.weight)
        if theirs.in_proj_bias is not None:
            for linear, bias in zip((ours.w_q, ours.w_k, ours.w_v), theirs.in_proj_bias.chunk(3)):
                linear.bias.copy_(bias)
            ours.w_o.bias.copy_(theirs.out_proj.bias)


def randomise(module):
    """Every parameter random, those that start at 0 or 1 too: else a forgotten bias goes unnoticed."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    return module
