"""Calls that do all of an exercise, in families: what is one way to cheat in one exercise is one in its neighbours too.

Names of torch are found by pattern, so that none of a call's forms is forgotten (function, method, in place, module) and
a newer torch brings its own.
"""

import re
from collections.abc import Iterator
from fnmatch import translate
from importlib import import_module
from types import ModuleType

from autograder.watch import find

TORCH = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.special", "torch.linalg", "torch.sparse",
)  # fmt: skip
NUMPY = ("numpy", "numpy.linalg")


def all_named(*patterns: str, owners: tuple[str, ...] = TORCH) -> tuple[str, ...]:
    """Dotted names of the public callables that fit a pattern, and of those that work in place (`addmm_`).

    >>> all_named("addmv")
    ('torch.addmv', 'torch.addmv_', 'torch.Tensor.addmv', 'torch.Tensor.addmv_')
    """
    return tuple(names_like(re.compile("|".join(map(translate, patterns))), owners))


def names_like(pattern: re.Pattern[str], owners: tuple[str, ...]) -> Iterator[str]:
    for owner in owners:
        holder = find(owner)
        for name in dir(holder):
            if name.startswith("_") or not (pattern.match(name) or pattern.match(name.removesuffix("_"))):
                continue
            thing = getattr(holder, name, None)
            if callable(thing) and not isinstance(thing, ModuleType):
                yield f"{owner}.{name}"


ATTENTION = (
    *all_named("scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention"),
    "torch.nn.attention.flex_attention.flex_attention",
    "torch.masked.*",
    "torch.sparse.softmax",  # over the entries that a mask leaves
    "torch.sparse.log_softmax",
    "torch.nn.Transformer.generate_square_subsequent_mask",
    "torch.nn.modules.transformer._generate_square_subsequent_mask",
)
TRANSFORMERS = (*ATTENTION, *all_named("Transformer", "TransformerEncoder*", "TransformerDecoder*"))

RECURRENCES = all_named("*rnn*", "*lstm*", "*gru*", "RNN*", "LSTM*", "GRU*")

CONVOLUTIONS = all_named(
    "conv[123]d", "conv_transpose[123]d", "conv_tbc", "*convolution*", "Conv[123]d", "ConvTranspose[123]d", "LazyConv*"
)

OF_PYTHON = {"math": ("sumprod", "dist"), "statistics": ("fmean", "covariance", "correlation", "linear_regression")}
# Whatever multiplies matrices or vectors by itself, be it on the way to something else.
PRODUCTS = (
    "torch.Tensor.__matmul__",
    "torch.Tensor.__rmatmul__",
    *all_named(
        "*matmul", "*mm", "mv", "addmv", "dot", "vdot", "inner", "outer", "ger", "addr", "kron", "einsum", "tensordot",
        "vecdot", "multi_dot", "linear", "bilinear", "fbgemm_linear_*_weight*", "Linear", "LazyLinear", "Bilinear",
    ),
    *all_named("embedding_bag", "EmbeddingBag"),
    # From the angle or the distance of two vectors, or how they vary together, it is one step to their inner product.
    *all_named("cosine_similarity", "CosineSimilarity", "*dist", "pairwise_distance", "PairwiseDistance", "cov", "corrcoef"),
    # So it is from most losses, which sum squares of differences, or targets times logarithms.
    *all_named("*_loss", "*Loss", "*cross_entropy*", "kl_div"),
    # A determinant bordered with two vectors holds minus their inner product.
    *all_named("*det"),
    # A triangular matrix of blocks A and B: its inverse, powers and exponential hold AB.
    *all_named("matrix_power", "matrix_exp", "*inverse", "*solve", "lstsq", "ormqr"),
    # An area is a sum of products.
    *all_named("*trapezoid", "trapz", owners=(*TORCH, *NUMPY)),
    # What takes a matrix apart multiplies its rows or columns with each other.
    *all_named("qr", "geqrf", "orgqr", "svd", "svd_lowrank", "cholesky", "lu", "eig*", "pca_lowrank", "lobpcg"),
    "torch.linalg.*",
    "torch.sparse.*",
    *(f"{module}.{name}" for module, names in OF_PYTHON.items() for name in names if hasattr(import_module(module), name)),
    *CONVOLUTIONS,
    *RECURRENCES,
    *all_named(
        "dot", "vdot", "inner", "outer", "matmul", "vecdot", "matvec", "vecmat", "einsum", "tensordot", "kron", "convolve",
        "correlate", "average", "cov", "corrcoef", "matrix", "asmatrix", "bmat", "multi_dot", "matrix_power", "inv", "solve", "lstsq",
        owners=NUMPY,
    ),
    "torch.autograd.Function",  # for what torch could not differentiate
)  # fmt: skip

# vmap is a loop, no derivative.
DERIVATIVES = (
    "torch.autograd.*",
    "torch.Tensor.backward",
    *(
        f"torch.func.{name}"
        for name in ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize"]
    ),
)

JACOBIANS = ("torch.autograd.functional.*", *(name for name in DERIVATIVES if name.startswith("torch.func.")))

CROSS_ENTROPIES = all_named("cross_entropy", "linear_cross_entropy", "CrossEntropyLoss", "LinearCrossEntropyLoss")
LOSSES = (*CROSS_ENTROPIES, *all_named("kl_div", "KLDivLoss"))

SOFTMAXES = (
    *all_named("*softmax", "softmin", "Softmax", "LogSoftmax", "Softmin", "Softmax2d", "AdaptiveLogSoftmaxWithLoss"),
    "scipy.special.softmax",
    "scipy.special.log_softmax",
    *CROSS_ENTROPIES,  # of one class after the other: minus its log-softmax
    *DERIVATIVES,  # the gradient of logsumexp is the softmax
    *ATTENTION,
)
ENTROPIES = ("torch.distributions.*", "scipy.stats.entropy", *LOSSES)

# Each of them, fed with the right thing, is every other one.
NORMS = all_named(
    "*batch_norm*", "*layer_norm", "*group_norm", "instance_norm", "rms_norm", "local_response_norm", "normalize",
    "renorm", "*BatchNorm[123]d", "SyncBatchNorm", "*InstanceNorm[123]d", "LayerNorm", "GroupNorm", "RMSNorm", "LocalResponseNorm",
    "CrossMapLRN2d",
)  # fmt: skip

EMBEDDINGS = all_named("embedding", "embedding_bag", "Embedding", "EmbeddingBag")

# A tensor's own `unfold` cuts along one axis only.
PATCHES = (
    "torch.nn.functional.unfold",
    "torch.nn.Unfold",
    *all_named("pixel_unshuffle", "PixelUnshuffle"),
)

FLOP_COUNTERS = (
    "torch.utils.flop_counter.FlopCounterMode",
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
)

# The meter sees torch only.
WAYS_OUT_OF_TORCH = ("torch.Tensor.numpy", "torch.Tensor.tolist", "torch.Tensor.__array__", "torch.Tensor.__dlpack__")
