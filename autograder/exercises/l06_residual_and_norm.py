"""Lesson 06, residuals and norms: the feed-forward network, z + ℓ(z), four norms of which one normalises nothing, the sublayer.

Shapes: B batch, N tokens, d_model, d_ff, d; `...` stands for leading dimensions, none included.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import NORMS
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous
from autograder.functions import Equivariant, HandsBack, Perceptron, RowNorm
from autograder.text import both
from course_lib.norms import dynamic_tanh, layer_norm, rms_norm

LESSON = "06_residual_and_norm"


def raised(x: Tensor) -> Tensor:
    """Half precision in float32, the rest as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def variance_of(x: Tensor, axes: tuple[int, ...], correction: int) -> Tensor:
    """The variance along axes that are kept; of one number, not biased, it is NaN, and torch's own would warn."""
    count = math.prod(x.shape[axis] for axis in axes)
    return (x - x.mean(axes, keepdim=True)).square().sum(axes, keepdim=True) / (count - correction)


def divisor_of(variance: Tensor, eps: float, outside: bool, root: bool, how: str = "added") -> Tensor:
    """What mistaken norms divide by: with ε outside the root, squared or as a lower limit, with no root or with two."""
    if not root:
        return variance + eps
    if how == "limit of the variance":
        return variance.clamp(min=eps).sqrt()
    if how == "squared again":
        return (variance.sqrt().square() + eps).sqrt()
    if how == "limit of the root":
        return variance.sqrt().clamp(min=eps)
    if how == "squared":
        eps = eps**2
    return variance.sqrt() + eps if outside else (variance + eps).sqrt()


EPS_AS_LIMIT = both(
    "You use ε as a lower limit: it stands in for what is smaller and does nothing elsewhere. It is to be added "
    "everywhere.",
    "你把 ε 當成下限：比它小的換成它，其餘的它都不起作用。ε 應該一律加上去。",
)
ROOT_SQUARED_AGAIN = both(
    "The values are right, but you take a root and square it again before ε is added. In a row where nothing varies that "
    "root is 0 and its slope infinite: the gradient is NaN.",
    "數值是對的，但你先開了根號，又平方回去才加 ε。一列數字全都沒有變化時，那個根號是 0、斜率無限大，梯度就成了 NaN。",
)
EPS_SQUARED = both(
    "Your ε is squared before it is added, so there is next to nothing of it. It is added as it is handed in.",
    "你的 ε 先平方才加，幾乎等於沒有。ε 傳進來是多少，就加多少。",
)
EPS_MISTAKES = {"limit of the variance": EPS_AS_LIMIT, "limit of the root": EPS_AS_LIMIT, "squared": EPS_SQUARED}


# ----------------------------------------------------------------------------------------------- feed_forward


def feed_forward(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, activation: str = "relu") -> Tensor:
    hidden = x @ W_1 + b_1
    hidden = F.gelu(hidden) if activation == "gelu" else F.relu(hidden)
    return hidden @ W_2 + b_2


def phi(z: Tensor, activation: str) -> Tensor:
    return F.gelu(z) if activation == "gelu" else F.relu(z)


def with_gelu(gelu: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The network with another function where "gelu" is asked for."""

    def answer(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, activation: str = "relu") -> Tensor:
        z = x @ W_1 + b_1
        return (gelu(z) if activation == "gelu" else F.relu(z)) @ W_2 + b_2

    return answer


def gelu_by_erf(factor: float) -> Callable[[Tensor], Tensor]:
    """GELU with erf of z times a factor that should be 1/√2."""
    return lambda z: 0.5 * z * (1 + torch.erf(z * factor))


def draw_network(draw: Draw, *sizes: int) -> tuple[Tensor, ...]:
    """x [..., d_model] and the weights of a network; the last two sizes are d_model and d_ff."""
    *lead, d_model, d_ff = sizes
    return (
        draw.normal(*lead, d_model),
        draw.normal(d_model, d_ff),
        draw.normal(d_ff),
        draw.normal(d_ff, d_model),
        draw.normal(d_model),
    )


exercise(
    name="feed_forward",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=feed_forward,
    results=("y",),
    cases=[
        Case("vector", both("one token, ReLU by default", "一個詞元，預設的 ReLU"), lambda d: draw_network(d, 3, 8)),
        Case("relu", both("a sentence, ReLU", "一個句子，ReLU"), lambda d: (*draw_network(d, 5, 4, 7), "relu"), 2),
        Case(
            "gelu",
            both("a sentence, GELU, by name", "一個句子，用名稱給 GELU"),
            lambda d: (draw_network(d, 4, 3, 9), {"activation": "gelu"}),
            2,
        ),
        Case(
            "batch",
            both("a batch (3-D), GELU", "一個批次（3 維），GELU"),
            lambda d: (*draw_network(d, 2, 3, 5, 6), "gelu"),
        ),
        Case(
            "square",
            both("as many hidden numbers as inputs", "隱藏的數和輸入一樣多"),
            lambda d: draw_network(d, 3, 4, 4),
        ),
        Case(
            "ones",
            both("one token in a batch of one, d_model = d_ff = 1", "批次只有一個，一個詞元，d_model = d_ff = 1"),
            lambda d: draw_network(d, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: (*draw_network(d, 4, 3, 5), "relu")),
        float64(lambda d: (*draw_network(d, 3, 4, 6), "gelu")),
        gradients(lambda d: (*draw_network(d, 2, 4, 3, 5), "gelu")),
        Case(
            "gradients_relu",
            both("gradients through ReLU", "穿過 ReLU 的梯度"),
            lambda d: draw_network(d, 4, 3, 6),
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "activation_missing",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": (x @ W_1 + b_1) @ W_2 + b_2,
            both(
                "There is no activation: two matrices in a row are one matrix, and the network is linear.",
                "少了激勵函數：兩個矩陣連乘還是一個矩陣，整個網路就只是線性的。",
            ),
        ),
        Mistake(
            "activation_at_the_end",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi((x @ W_1 + b_1) @ W_2 + b_2, activation),
            both(
                "The activation stands after the second matrix. It belongs between the two, on the d_ff hidden numbers.",
                "激勵函數放到第二個矩陣之後了。它應該在兩個矩陣之間，作用在 d_ff 個隱藏的數上。",
            ),
        ),
        Mistake(
            "activation_twice",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(
                phi(x @ W_1 + b_1, activation) @ W_2 + b_2, activation
            ),
            both(
                "The activation acts twice. The output is not activated: it must be able to point anywhere.",
                "激勵函數用了兩次。輸出不再經過激勵函數：它必須能指向任何方向。",
            ),
        ),
        Mistake(
            "activation_on_input",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": (phi(x, activation) @ W_1 + b_1) @ W_2 + b_2,
            both(
                "You activate the input, before the first matrix. What is activated are the d_ff hidden numbers.",
                "你在第一個矩陣之前就對輸入用了激勵函數。該經過激勵函數的，是 d_ff 個隱藏的數。",
            ),
        ),
        Mistake(
            "biases_missing",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(x @ W_1, activation) @ W_2,
            both("Both biases are missing.", "兩個偏置都不見了。"),
        ),
        Mistake(
            "first_bias_missing",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(x @ W_1, activation) @ W_2 + b_2,
            both(
                "The first bias is missing. It sets how far a pattern must match before its neuron fires.",
                "少了第一個偏置。它決定圖樣要多像，神經元才會有反應。",
            ),
        ),
        Mistake(
            "first_bias_after_activation",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": (phi(x @ W_1, activation) + b_1) @ W_2 + b_2,
            both(
                "You add the first bias after the activation, so it no longer moves the threshold.",
                "第一個偏置加在激勵函數之後了，這樣就移不動門檻。",
            ),
        ),
        Mistake(
            "second_bias_missing",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(x @ W_1 + b_1, activation) @ W_2,
            both("The second bias is missing.", "少了第二個偏置。"),
        ),
        Mistake(
            "weights_transposed",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(x @ W_1.mT + b_1, activation) @ W_2.mT + b_2,
            both(
                "You transpose the weights, as nn.Linear does with what it stores. Here a matrix is used as it is "
                "written: rows go in, columns come out.",
                "你把權重轉置了，那是 nn.Linear 的儲存方式。這裡的矩陣照寫的用：列（row）是輸入，行（column）是輸出。",
            ),
        ),
        Mistake(
            "always_relu",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": F.relu(x @ W_1 + b_1) @ W_2 + b_2,
            both(
                'Right for ReLU. With activation="gelu" your result is still that of ReLU.',
                'ReLU 的情形是對的。activation="gelu" 時，你的結果還是 ReLU 的。',
            ),
        ),
        Mistake(
            "always_gelu",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": F.gelu(x @ W_1 + b_1) @ W_2 + b_2,
            both(
                "Right for GELU. ReLU is the default, and your result is GELU's there too.",
                "GELU 的情形是對的。預設是 ReLU，這時你的結果卻還是 GELU 的。",
            ),
        ),
        Mistake(
            "gelu_tanh",
            with_gelu(lambda z: F.gelu(z, approximate="tanh")),
            both(
                "Your GELU is the tanh approximation (GPT-2's), up to 5·10⁻⁴ away. The exact one multiplies z by the "
                "normal distribution function of z.",
                "你的 GELU 是 tanh 近似（GPT-2 用的），最多差 5·10⁻⁴。精確的版本是 z 乘以常態分布的累積分布函數。",
            ),
        ),
        Mistake(
            "gelu_sigmoid",
            with_gelu(lambda z: z * torch.sigmoid(1.702 * z)),
            both(
                "Your GELU is the approximation with a sigmoid of 1.702 z, up to 0.02 away. The exact one uses the normal "
                "distribution function.",
                "你的 GELU 是用 1.702 z 的 sigmoid 做的近似，最多差 0.02。精確的版本用常態分布的累積分布函數。",
            ),
        ),
        Mistake(
            "gelu_is_silu",
            with_gelu(F.silu),
            both(
                "Your GELU is SiLU: z times a logistic function. GELU takes the normal distribution function instead.",
                "你的 GELU 其實是 SiLU：z 乘上 logistic 函數。GELU 用的是常態分布的累積分布函數。",
            ),
        ),
        *(
            Mistake(
                f"gelu_root_{rounded:g}",
                with_gelu(gelu_by_erf(factor)),
                both(
                    "Your GELU has the right form, but its √2 is rounded to a few digits. Let the machine compute the root.",
                    "你的 GELU 形式是對的，但裡面的 √2 只取了幾位數。請讓程式自己開根號。",
                ),
            )
            for rounded, factor in [(r, 1 / r) for r in (1.41, 1.414, 1.4142)] + [(r, r) for r in (0.707, 0.7071)]
        ),
        Mistake(
            "gelu_root_missing",
            with_gelu(gelu_by_erf(1.0)),
            both(
                "In your GELU, erf is taken of z itself. The normal distribution function is not erf alone: what must "
                "its argument be divided by?",
                "你的 GELU 直接對 z 取 erf。常態分布的累積分布函數不就是 erf：它的引數要先除以什麼？",
            ),
        ),
        Mistake(
            "gelu_half_missing",
            with_gelu(lambda z: z * (1 + torch.erf(z / math.sqrt(2)))),
            both(
                "Your GELU is twice as large as it should be: 1 + erf goes up to 2, a distribution function up to 1.",
                "你的 GELU 是正確值的兩倍：1 + erf 最大到 2，累積分布函數最大到 1。",
            ),
        ),
        Mistake(
            "residual_added",
            lambda x, W_1, b_1, W_2, b_2, activation="relu": phi(x @ W_1 + b_1, activation) @ W_2 + b_2 + x,
            both(
                "You add the input. That is the residual connection around the network, which comes two exercises later.",
                "你把輸入也加上去了。那是網路外面的殘差連結，再過兩題才會用到。",
            ),
        ),
    ],
    hints=[
        both(
            "Three steps: widen, activate, narrow. The shapes are [..., d_model], [..., d_ff], [..., d_ff], [..., d_model].",
            "三個步驟：放寬、過激勵函數、縮回來。形狀依序是 [..., d_model]、[..., d_ff]、[..., d_ff]、[..., d_model]。",
        ),
        both(
            "Both activations are in nn.functional. GELU has an approximate form too; it is not the default.",
            "兩個激勵函數都在 torch 的 nn.functional 裡。GELU 另有近似的算法，但那不是預設。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------------- swiglu


def swiglu(x: Tensor, W_gate: Tensor, W_up: Tensor, W_down: Tensor) -> Tensor:
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def gated_by(gate: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The network with another function of the gate."""

    def answer(x: Tensor, W_gate: Tensor, W_up: Tensor, W_down: Tensor) -> Tensor:
        return (gate(x @ W_gate) * (x @ W_up)) @ W_down

    return answer


def draw_gated(draw: Draw, *sizes: int, gate: float = 1.0) -> tuple[Tensor, ...]:
    """x [..., d_model] and three matrices; the last two sizes are d_model and d_ff; `gate` scales W_gate."""
    *lead, d_model, d_ff = sizes
    return (
        draw.normal(*lead, d_model),
        draw.normal(d_model, d_ff, std=gate),
        draw.normal(d_model, d_ff),
        draw.normal(d_ff, d_model),
    )


exercise(
    name="swiglu",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=swiglu,
    results=("y",),
    cases=[
        Case("vector", both("one token", "一個詞元"), lambda d: draw_gated(d, 3, 8)),
        Case("sentence", both("a sentence", "一個句子"), lambda d: draw_gated(d, 5, 4, 7), 2),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: draw_gated(d, 2, 3, 5, 6), 2),
        Case(
            "square", both("as many hidden numbers as inputs", "隱藏的數和輸入一樣多"), lambda d: draw_gated(d, 3, 4, 4)
        ),
        Case(
            "wide_gate",
            both("gates beyond ±10", "閘門的輸入超出 ±10"),
            lambda d: draw_gated(d, 4, 5, 8, gate=6.0),
            trap=True,
        ),
        Case(
            "ones",
            both("one token in a batch of one, d_model = d_ff = 1", "批次只有一個，一個詞元，d_model = d_ff = 1"),
            lambda d: draw_gated(d, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_gated(d, 4, 3, 5)),
        float64(lambda d: draw_gated(d, 3, 4, 6)),
        gradients(lambda d: draw_gated(d, 2, 4, 3, 5)),
    ],
    mistakes=[
        Mistake(
            "gate_up_swapped",
            lambda x, W_gate, W_up, W_down: ((x @ W_gate) * F.silu(x @ W_up)) @ W_down,
            both(
                "Gate and up have changed places: SiLU belongs on the side of the gate.",
                "gate 和 up 對調了：SiLU 應該作用在閘門那一邊。",
            ),
        ),
        Mistake(
            "sigmoid_gate",
            gated_by(torch.sigmoid),
            both(
                "Your gate is a plain sigmoid (GLU). SiLU multiplies it by its own input.",
                "你的閘門只是 sigmoid（那是 GLU）。SiLU 還要再乘上自己的輸入。",
            ),
        ),
        Mistake(
            "gelu_gate",
            gated_by(F.gelu),
            both(
                "Your gate is GELU (GEGLU). SwiGLU takes SiLU, with a logistic function.",
                "你的閘門是 GELU（那是 GEGLU）。SwiGLU 用的是 SiLU，裡面是 logistic 函數。",
            ),
        ),
        Mistake(
            "relu_gate",
            gated_by(F.relu),
            both(
                "Your gate is ReLU (ReGLU). SwiGLU takes SiLU, which is smooth and a little negative below 0.",
                "你的閘門是 ReLU（那是 ReGLU）。SwiGLU 用的是 SiLU，它是平滑的，0 以下會略小於 0。",
            ),
        ),
        Mistake(
            "sign_in_the_exponent",
            gated_by(lambda z: z * torch.sigmoid(-z)),
            both(
                "The sign in your exponent is turned round: your gate closes for large z and opens for negative ones.",
                "你的指數正負號反了：z 很大時閘門反而關上，z 是負的反而打開。",
            ),
        ),
        Mistake(
            "tanh_gate",
            gated_by(torch.tanh),
            both("Your gate is tanh. SwiGLU takes SiLU.", "你的閘門是 tanh。SwiGLU 用的是 SiLU。"),
        ),
        Mistake(
            "both_activated",
            lambda x, W_gate, W_up, W_down: (F.silu(x @ W_gate) * F.silu(x @ W_up)) @ W_down,
            both(
                "Both sides are activated. Only the gate is; the other side stays linear.",
                "兩邊都過了激勵函數。只有閘門要，另一邊保持線性。",
            ),
        ),
        Mistake(
            "activation_missing",
            lambda x, W_gate, W_up, W_down: ((x @ W_gate) * (x @ W_up)) @ W_down,
            both("Nothing is activated: the gate needs its SiLU.", "完全沒有激勵函數：閘門要經過 SiLU。"),
        ),
        Mistake(
            "activation_after_product",
            lambda x, W_gate, W_up, W_down: F.silu((x @ W_gate) * (x @ W_up)) @ W_down,
            both(
                "SiLU acts on the product of both sides. It belongs on the gate alone, before the product.",
                "SiLU 作用在兩邊的乘積上了。它應該在相乘之前，只作用在閘門。",
            ),
        ),
        Mistake(
            "sum_for_product",
            lambda x, W_gate, W_up, W_down: (F.silu(x @ W_gate) + x @ W_up) @ W_down,
            both(
                "You add the two sides. A gate lets through by multiplying, number by number.",
                "你把兩邊相加了。閘門是靠逐元素相乘來決定放行多少。",
            ),
        ),
        Mistake(
            "up_missing",
            lambda x, W_gate, W_up, W_down: F.silu(x @ W_gate) @ W_down,
            both(
                "W_up is not used: this is an ordinary network with SiLU. A gate needs something to let through.",
                "沒有用到 W_up：這只是用 SiLU 的普通網路。閘門要有東西可以放行。",
            ),
        ),
        Mistake(
            "weights_transposed",
            lambda x, W_gate, W_up, W_down: (F.silu(x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT,
            both(
                "You transpose the weights, as nn.Linear does with what it stores. Here a matrix is used as it is written.",
                "你把權重轉置了，那是 nn.Linear 的儲存方式。這裡的矩陣照寫的用。",
            ),
        ),
        Mistake(
            "residual_added",
            lambda x, W_gate, W_up, W_down: (F.silu(x @ W_gate) * (x @ W_up)) @ W_down + x,
            both(
                "You add the input. That is the residual connection around the network, the next exercise.",
                "你把輸入也加上去了。那是網路外面的殘差連結，是下一題的事。",
            ),
        ),
    ],
    hints=[
        both(
            "Two roads lead from x to the d_ff hidden numbers. They meet in an elementwise product, and one matrix leads "
            "back.",
            "從 x 到 d_ff 個隱藏的數有兩條路，兩條路逐元素相乘，再用一個矩陣走回來。",
        ),
        both(
            "Only one of the two roads passes SiLU, the one whose matrix is called gate. SiLU of z is z times the logistic "
            "function of z; torch has it too.",
            "兩條路只有一條要過 SiLU，就是矩陣叫 gate 的那一條。z 的 SiLU 是 z 乘上 z 的 logistic 函數；torch 也有現成的。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- residual


def residual(x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    return x + sublayer(x)


def draw_perceptron(draw: Draw, d: int, d_ff: int = 5) -> Perceptron:
    return Perceptron(draw.normal(d, d_ff), draw.normal(d_ff), draw.normal(d_ff, d))


def draw_residual(draw: Draw, *shape: int) -> tuple[Any, ...]:
    return draw.normal(*shape, mean=0.5), draw_perceptron(draw, shape[-1])


def draw_residual_attention(draw: Draw, *shape: int) -> tuple[Any, ...]:
    d = shape[-1]
    return draw.normal(*shape, mean=0.5), Equivariant(draw.normal(d, d), draw.normal(d, d))


def added_in_place(x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    x += sublayer(x)
    return x


def added_to_the_result(x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    y = sublayer(x)
    y += x
    return y


HANDED_BACK = both("the sublayer hands back x itself", "子層把 x 原封不動地回傳")
WRITES_INTO_THE_RESULT = both(
    "The values are right, but += writes into what the sublayer handed back. That may be x itself (Dropout does so outside "
    "training), and then x changes.",
    "數值是對的，但 += 會寫進子層回傳的張量。那可能就是 x 本身（不在訓練時，Dropout 就會這樣），於是 x 被改掉了。",
)


exercise(
    name="residual",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=residual,
    results=("y",),
    cases=[
        Case("vector", both("one vector", "一個向量"), lambda d: draw_residual(d, 4)),
        Case(
            "sentence",
            both("a sentence, a feed-forward sublayer", "一個句子，子層是前饋網路"),
            lambda d: draw_residual(d, 5, 3),
            2,
        ),
        Case(
            "attention",
            both("a batch, an attention sublayer", "一個批次，子層是注意力"),
            lambda d: draw_residual_attention(d, 2, 4, 3),
            2,
        ),
        Case(
            "ones",
            both("one token of one number: shape [1, 1]", "一個詞元、一個數：形狀 [1, 1]"),
            lambda d: draw_residual(d, 1, 1),
            0.5,
            trap=True,
        ),
        Case("handed_back", HANDED_BACK, lambda d: (d.normal(2, 3), HandsBack()), 0.5, trap=True),
        noncontiguous(lambda d: draw_residual(d, 3, 4)),
        float64(lambda d: draw_residual(d, 2, 3, 4)),
        gradients(lambda d: draw_residual(d, 3, 5)),
    ],
    mistakes=[
        Mistake(
            "skip_missing",
            lambda x, sublayer: sublayer(x),
            both(
                "This is the sublayer alone. A residual connection also lets its input pass unchanged.",
                "這只是子層本身。殘差連結還要讓輸入原封不動地通過。",
            ),
        ),
        Mistake(
            "difference",
            lambda x, sublayer: sublayer(x) - x,
            both(
                "You subtract the input. f(z) − z is what the layer has to learn, not what the connection computes.",
                "你減掉了輸入。f(z) − z 是這一層要學的東西，不是這個連結要算的東西。",
            ),
        ),
        Mistake(
            "difference_reversed",
            lambda x, sublayer: x - sublayer(x),
            both(
                "You subtract what the sublayer found. It is added to the input.",
                "你把子層的結果減掉了。它是要加到輸入上的。",
            ),
        ),
        Mistake(
            "product",
            lambda x, sublayer: x * sublayer(x),
            both(
                "You multiply input and sublayer. Then a sublayer that returns 0 would wipe out everything.",
                "你把輸入和子層相乘了。這樣只要子層回傳 0，就什麼都沒了。",
            ),
        ),
        Mistake(
            "adds_in_place",
            added_in_place,
            both(
                "The values are right, but x itself has changed: += writes into the tensor that was handed in.",
                "數值是對的，但 x 本身被改掉了：+= 會寫進傳進來的那個張量。",
            ),
        ),
        Mistake("adds_to_the_result_in_place", added_to_the_result, WRITES_INTO_THE_RESULT),
        Mistake(
            "skip_detached",
            lambda x, sublayer: x.detach() + sublayer(x),
            both(
                "The values are right, but the gradient does not pass along the skip, and that path is the whole point.",
                "數值是對的，但梯度走不過捷徑，而殘差連結要的正是這條路。",
            ),
        ),
        Mistake(
            "branch_detached",
            lambda x, sublayer: x + sublayer(x).detach(),
            both(
                "The values are right, but no gradient passes through the sublayer: it could never learn.",
                "數值是對的，但梯度進不了子層：它永遠學不到東西。",
            ),
        ),
        Mistake(
            "sum_normalised",
            lambda x, sublayer: F.layer_norm(x + sublayer(x), x.shape[-1:]),
            both(
                "You normalise the sum as well. That is the other half of Add & Norm, which comes in later exercises.",
                "你連正規化也做了。那是 Add & Norm 的另一半，後面的練習才會用到。",
            ),
        ),
        Mistake(
            "input_normalised",
            lambda x, sublayer: x + sublayer(F.layer_norm(x, x.shape[-1:])),
            both(
                "Your sublayer reads a normalised input. No norm is asked for here: it reads x as it is.",
                "你的子層讀的是正規化過的輸入。這題不做正規化：它讀的就是 x。",
            ),
        ),
        Mistake(
            "averaged",
            lambda x, sublayer: (x + sublayer(x)) / 2,
            both(
                "You take the mean of the two. The sum is asked for: after 20 halvings nothing of the input would be left.",
                "你取了兩者的平均。要的是和：連續取半 20 次，輸入就什麼都不剩了。",
            ),
        ),
        Mistake(
            "sublayer_twice",
            lambda x, sublayer: x + sublayer(sublayer(x)),
            both(
                "The sublayer is applied to its own result. It runs once, on x.",
                "子層又套用在自己的結果上了。它只對 x 算一次。",
            ),
        ),
        Mistake(
            "input_twice",
            lambda x, sublayer: x + x + sublayer(x),
            both(
                "The input enters twice. The sublayer that is handed in has no skip of its own; still, you add x only once.",
                "輸入被加了兩次。傳進來的子層自己沒有捷徑，但 x 還是只加一次。",
            ),
        ),
    ],
    hints=[
        both(
            "If the sublayer returned nothing but zeros, the whole layer should return its input.",
            "如果子層回傳的全是 0，整層就應該回傳它的輸入。",
        ),
        both(
            "One line: call the sublayer once, and make a new tensor out of its result and the input.",
            "一行就好：呼叫子層一次，用它的結果和輸入做出新的張量。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------- batch_norm


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    mean, variance = running_mean, running_var
    if training:
        B = x.shape[0]
        mean = x.mean(dim=0)
        variance = (x - mean).square().mean(dim=0)
        running_mean = (1 - momentum) * running_mean + momentum * mean
        running_var = (1 - momentum) * running_var + momentum * variance * B / (B - 1)
    return (x - mean) / (variance + eps).sqrt() * gamma + beta, running_mean, running_var


def mistaken_batch_norm(
    *,
    axis: int = 0,
    correction: int = 0,
    running_correction: int = 1,
    running_axis: int | None = 0,
    reverse: bool = False,
    fixed_momentum: bool = False,
    fixed_eps: bool = False,
    outside: bool = False,
    root: bool = True,
    ignore_training: bool = False,
    batch_in_eval: bool = False,
    running_in_training: bool = False,
    keep: bool = False,
    detach: bool = False,
    one_pass: bool = False,
    scaled: bool = True,
    whole: bool = False,
    no_eps_in: tuple[bool, ...] = (),
    eps_as: str = "added",
    updated: bool = False,
    whole_old: bool = False,
    swapped: bool = False,
) -> Callable[..., Any]:
    """BatchNorm with one thing done differently; the defaults are the right ones."""

    def answer(
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        training: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> tuple[Tensor, Tensor, Tensor]:
        learns = training or ignore_training
        if fixed_momentum:
            momentum = 0.1
        if fixed_eps:
            eps = 1e-5
        axes = (0, 1) if whole else (axis,)
        mean, variance = x.mean(axes, keepdim=True), variance_of(x, axes, correction)
        if one_pass:
            variance = x.square().mean(axes, keepdim=True) - mean.square()
        if detach:
            mean, variance = mean.detach(), variance.detach()
        own = learns or batch_in_eval
        if running_axis is None:
            new_mean, new_var = x.mean(axis, keepdim=True), variance_of(x, (axis,), 1)
        else:
            new_mean = x.mean(running_axis)
            new_var = variance_of(x, (running_axis,), running_correction).squeeze(running_axis)
        share = 1 - momentum if reverse else momentum
        old = 1.0 if whole_old else 1 - share
        running = (running_mean, running_var)
        if learns and not keep:
            running = (old * running_mean + share * new_mean, old * running_var + share * new_var)
        if not own or (running_in_training and training):
            mean, variance = running_mean, running_var
        if updated:
            mean, variance = running
        divisor = divisor_of(variance, 0.0 if training in no_eps_in else eps, outside, root, eps_as)
        y = (x - mean) / divisor
        y = y * gamma + beta if scaled else y
        return (y, *(running[::-1] if swapped else running))

    return answer


def batch_norm_in_place(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    mean, variance = running_mean, running_var
    if training:
        mean, variance = x.mean(dim=0), x.var(dim=0, correction=0)
        with torch.no_grad():
            running_mean.mul_(1 - momentum).add_(momentum * mean)
            running_var.mul_(1 - momentum).add_(momentum * x.var(dim=0))
    return (x - mean) / (variance + eps).sqrt() * gamma + beta, running_mean, running_var


def batch_norm_cut_off_in_evaluation(*args: Any, training: bool = True, **kwargs: Any) -> Any:
    y, *running = mistaken_batch_norm()(*args, training, **kwargs)
    return (y if training else y.detach(), *running)


def batch_norm_counting_first(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    len(x) / (len(x) - 1)  # the factor of the unbiased variance, made before anyone knows whether it is needed
    return mistaken_batch_norm()(x, *args, **kwargs)


def only_y(*args: Any, **kwargs: Any) -> Any:
    return mistaken_batch_norm()(*args, **kwargs)[0]


def scale_and_shift(draw: Draw, d: int) -> tuple[Tensor, Tensor]:
    """γ and β that no one would mistake for 1 and 0."""
    return draw.uniform(0.5, 2.0, d), draw.normal(d)


def draw_batch(draw: Draw, B: int, d: int, mean: float = 3.0, std: float = 2.0) -> tuple[Any, ...]:
    """A batch, γ, β and running statistics of about the batch's size."""
    running_mean = draw.normal(d, mean=mean, std=std)
    running_var = draw.uniform(0.5 * std**2, 2.0 * std**2, d)
    return draw.normal(B, d, mean=mean, std=std), *scale_and_shift(draw, d), running_mean, running_var


FEATURES_OF_ONE = both(
    "You normalise each sample over its own features: that is LayerNorm. BatchNorm takes each feature over the batch.",
    "你讓每個樣本對自己的各個特徵做正規化：那是 LayerNorm。BatchNorm 是每個特徵沿著批次來算。",
)

exercise(
    name="batch_norm",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=batch_norm,
    results=("y", "new_running_mean", "new_running_var"),
    forbidden=NORMS,
    cases=[
        Case(
            "training",
            both("training, everything by default", "訓練模式，其餘用預設值"),
            lambda d: draw_batch(d, 7, 3),
            2,
        ),
        Case(
            "small_batch",
            both("training with three samples, momentum and eps by name", "訓練，三個樣本，用名稱給 momentum 與 eps"),
            lambda d: (draw_batch(d, 3, 5), {"momentum": d.number(0.2, 0.4), "eps": d.number(0.3, 0.8)}),
            1.5,
        ),
        Case("evaluation", both("evaluation", "評估模式"), lambda d: (draw_batch(d, 6, 4), {"training": False}), 2),
        Case(
            "evaluation_eps",
            both("evaluation, momentum and eps by position", "評估模式，按位置給 momentum 與 eps"),
            lambda d: (*draw_batch(d, 2, 3), False, 0.3, d.number(3.0, 5.0)),
        ),
        Case("square", both("as many samples as features", "樣本數等於特徵數"), lambda d: draw_batch(d, 4, 4)),
        Case("pair", both("two samples", "只有兩個樣本"), lambda d: draw_batch(d, 2, 5), 0.5, trap=True),
        Case(
            "one_sample",
            both("evaluation of one sample with one feature", "評估模式，一個樣本、一個特徵"),
            lambda d: (draw_batch(d, 1, 1), {"training": False}),
            0.5,
            trap=True,
        ),
        Case(
            "variance_near_eps",
            both("variances near eps", "變異數和 eps 差不多大"),
            lambda d: draw_batch(d, 6, 3, 0.0, 2e-3),
            trap=True,
        ),
        Case(
            "far_mean",
            both("means of ten thousand", "平均約一萬"),
            lambda d: draw_batch(d, 8, 3, 1e4, 1.0),
            trap=True,
        ),
        noncontiguous(lambda d: draw_batch(d, 5, 4)),
        float64(lambda d: (*draw_batch(d, 5, 3), True, 0.3)),
        Case(
            "gradients",
            both(
                "gradients of y flow back to x, gamma and beta (the batch's mean and variance depend on x)",
                "y 的梯度傳得回 x、gamma、beta（批次的平均與變異數也和 x 有關）",
            ),
            lambda d: draw_batch(d, 5, 3),
            gradients=True,
            gradients_of=(0,),
            trap=True,
        ),
        Case(
            "gradients_in_evaluation",
            both("gradients of y in evaluation", "評估模式下 y 的梯度"),
            lambda d: (draw_batch(d, 4, 3), {"training": False}),
            gradients=True,
            gradients_of=(0,),
            trap=True,
        ),
    ],
    mistakes=[
        Mistake("normalises_features", mistaken_batch_norm(axis=1, running_axis=None), FEATURES_OF_ONE),
        Mistake("normalises_features_only", mistaken_batch_norm(axis=1), FEATURES_OF_ONE),
        Mistake("all_statistics_of_features", mistaken_batch_norm(axis=1, running_axis=1), FEATURES_OF_ONE),
        Mistake(
            "normalises_everything",
            mistaken_batch_norm(whole=True),
            both(
                "One mean and one variance for the whole batch. Each feature has its own.",
                "整個批次只用了一個平均和一個變異數。每個特徵都有自己的。",
            ),
        ),
        Mistake(
            "unbiased_normalisation",
            mistaken_batch_norm(correction=1),
            both(
                "You normalise with the unbiased variance (torch's default). y takes the biased one, divided by B; only the "
                "running variance takes the other.",
                "你用不偏的變異數（torch 的預設）做正規化。y 要用除以 B 的那一種；只有 running_var 才用另一種。",
            ),
        ),
        Mistake(
            "biased_running_variance",
            mistaken_batch_norm(running_correction=0),
            both(
                "y is right. The running variance takes the unbiased variance, divided by B − 1, because it estimates that "
                "of the population.",
                "y 是對的。running_var 要用除以 B − 1 的不偏變異數，因為它估計的是整個母體的變異數。",
            ),
        ),
        Mistake(
            "variances_swapped",
            mistaken_batch_norm(correction=1, running_correction=0),
            both(
                "The two variances have changed places: y takes the biased one, the running variance the unbiased one.",
                "兩種變異數用反了：y 用有偏的（除以 B），running_var 用不偏的（除以 B − 1）。",
            ),
        ),
        Mistake(
            "batch_statistics_in_eval",
            mistaken_batch_norm(batch_in_eval=True),
            both(
                "In evaluation you still normalise with the batch at hand, so an answer depends on who else is in it. Use "
                "the running statistics there.",
                "評估時你還是用手上這一批來正規化，於是結果取決於同批有誰。這時要用累積下來的統計量。",
            ),
        ),
        Mistake(
            "training_ignored",
            mistaken_batch_norm(ignore_training=True),
            both(
                "Your result does not depend on `training`: in evaluation it still learns from the batch.",
                "你的結果和 `training` 無關：評估時還在向這一批學。",
            ),
        ),
        Mistake(
            "running_statistics_in_training",
            mistaken_batch_norm(running_in_training=True),
            both(
                "In training you normalise with the running statistics. They are for evaluation; in training the batch "
                "itself is measured.",
                "訓練時你用累積的統計量做正規化。那是評估用的；訓練時要量這一批本身。",
            ),
        ),
        Mistake(
            "updated_statistics_in_training",
            mistaken_batch_norm(updated=True),
            both(
                "In training you update the running values first and then normalise with them. y takes the mean and "
                "variance of the batch itself; was a name used twice?",
                "訓練時，你先更新累積值，再用新的累積值做正規化。y 要用這一批自己的平均與變異數；是不是同一個名稱用了兩次？",
            ),
        ),
        Mistake(
            "old_value_kept_whole",
            mistaken_batch_norm(whole_old=True),
            both(
                "Your running values keep the whole old value and add a share of the batch, so they grow without end. The "
                "two shares sum to 1.",
                "你的累積值保留了整個舊值，再加上這一批的一部分，會愈加愈大。兩邊的比重加起來應該是 1。",
            ),
        ),
        Mistake(
            "running_values_swapped",
            mistaken_batch_norm(swapped=True),
            both(
                "The new running mean and the new running variance have changed places: first y, then the mean, then the "
                "variance.",
                "新的 running_mean 和 running_var 對調了：先 y，再平均，最後變異數。",
            ),
        ),
        Mistake(
            "running_statistics_kept",
            mistaken_batch_norm(keep=True),
            both(
                "y is right, but in training the running statistics come back unchanged: they should take in the batch.",
                "y 是對的，但訓練時累積的統計量原封不動地回來了：它們應該納入這一批。",
            ),
        ),
        Mistake(
            "momentum_reversed",
            mistaken_batch_norm(reverse=True),
            both(
                "Your momentum is the share of the old value. In PyTorch it is the share of the new batch.",
                "你的 momentum 是舊值的比重。PyTorch 的 momentum 是新批次的比重。",
            ),
        ),
        Mistake(
            "momentum_ignored",
            mistaken_batch_norm(fixed_momentum=True),
            both("Right for the default momentum only.", "只有 momentum 是預設值時才對。"),
        ),
        Mistake(
            "updates_in_place",
            batch_norm_in_place,
            both(
                "The values are right, but running_mean and running_var themselves have changed. Return new ones.",
                "數值是對的，但 running_mean 和 running_var 本身被改掉了。請回傳新的張量。",
            ),
        ),
        Mistake(
            "eps_outside_root",
            mistaken_batch_norm(outside=True),
            both(
                "Your ε stands outside the root, as in the lecture. Here it is added to the variance; the difference shows "
                "where σ is small.",
                "你的 ε 在根號外面，和講義一樣。這裡的 ε 要加在變異數上；σ 很小時兩者差很多。",
            ),
        ),
        Mistake(
            "eps_missing_in_training",
            mistaken_batch_norm(no_eps_in=(True,)),
            both(
                "In training your y does not depend on the eps that is handed in; in evaluation it does, as it should.",
                "訓練時，你的 y 和傳進來的 eps 無關；評估時有用到，那是對的。",
            ),
        ),
        Mistake(
            "eps_missing_in_evaluation",
            mistaken_batch_norm(no_eps_in=(False,)),
            both(
                "In evaluation your y does not depend on the eps that is handed in. The formula for y is the same in both.",
                "評估時，你的 y 和傳進來的 eps 無關。兩種情形的 y 是同一個公式。",
            ),
        ),
        Mistake(
            "eps_missing",
            mistaken_batch_norm(no_eps_in=(True, False)),
            both(
                "There is no ε under your root, in training as in evaluation: where a variance is near 0, that shows.",
                "你的根號裡沒有 ε，訓練和評估都是：變異數接近 0 時就看得出來。",
            ),
        ),
        *(
            Mistake(f"eps_{name.replace(' ', '_')}", mistaken_batch_norm(eps_as=name), message)
            for name, message in EPS_MISTAKES.items()
        ),
        Mistake(
            "eps_ignored",
            mistaken_batch_norm(fixed_eps=True),
            both("Right for the default eps only.", "只有 eps 是預設值時才對。"),
        ),
        Mistake(
            "variance_for_deviation",
            mistaken_batch_norm(root=False),
            both(
                "You divide by the variance. The root is missing.",
                "你除以變異數了。少開了根號。",
            ),
        ),
        Mistake(
            "one_pass_variance",
            mistaken_batch_norm(one_pass=True),
            both(
                "Right on paper, but the difference of two huge numbers keeps no digits when the mean is large. Subtract "
                "the mean first, square afterwards.",
                "紙上是對的，但平均很大時，兩個巨大的數相減會把有效位數丟光。要先減平均，再平方。",
            ),
        ),
        Mistake(
            "statistics_detached",
            mistaken_batch_norm(detach=True),
            both(
                "The values are right, but mean and variance are cut off from x. They depend on x too, and their part of "
                "the gradient is missing.",
                "數值是對的，但平均和變異數跟 x 斷開了。它們也取決於 x，這部分的梯度不見了。",
            ),
        ),
        Mistake(
            "cut_off_in_evaluation",
            batch_norm_cut_off_in_evaluation,
            both(
                "The values are right, but in evaluation y is cut off from x, gamma and beta. Whoever asks there how y "
                "depends on them gets no gradient.",
                "數值是對的，但評估模式下，y 和 x、gamma、beta 斷開了。這時想知道 y 怎麼隨它們改變，就得不到梯度。",
            ),
        ),
        Mistake(
            "unbiased_in_evaluation",
            batch_norm_counting_first,
            both(
                "In evaluation a single sample stops your function: there B − 1 is 0, and you divide by it. Only training "
                "needs the batch's own variances.",
                "評估模式下只有一個樣本時，你的函式會中斷：B − 1 等於 0，而你拿它來除。只有訓練時才用得到這一批的變異數。",
            ),
        ),
        Mistake(
            "scale_and_shift_missing",
            mistaken_batch_norm(scaled=False),
            both(
                "y has mean 0 and variance 1, and stops there: γ and β are missing.",
                "y 的平均是 0、變異數是 1，就停在這裡了：還少了 γ 與 β。",
            ),
        ),
        Mistake(
            "y_only",
            only_y,
            both(
                "You return y alone. The new running mean and variance belong to the result, in this order.",
                "你只回傳了 y。新的 running_mean 與 running_var 也要依序回傳。",
            ),
        ),
    ],
    hints=[
        both(
            "First decide whose mean and variance are used: the batch's in training, the running ones otherwise. The "
            "formula for y is the same.",
            "先決定用誰的平均與變異數：訓練時用這一批的，否則用累積的。y 的公式都一樣。",
        ),
        both(
            "In training there are two variances: divided by B for y, divided by B − 1 for the running one. Both are over "
            "the batch, one number for each feature.",
            "訓練時有兩種變異數：y 用除以 B 的，累積的用除以 B − 1 的。兩者都沿著批次算，每個特徵一個數。",
        ),
        both(
            "A running value moves a little towards the batch: it keeps the share 1 − momentum of itself. Make a new "
            "tensor instead of writing into the old one.",
            "累積值每次往這一批靠一點：自己保留 1 − momentum 的比重。請做出新的張量，不要寫進舊的。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------- layer_norm


def mistaken_layer_norm(
    *,
    correction: int = 0,
    whole: bool = False,
    batch: bool = False,
    outside: bool = False,
    root: bool = True,
    centre: bool = True,
    one_pass: bool = False,
    wide: bool = True,
    fixed_eps: float | None = None,
    eps_as: str = "added",
    detach: bool = False,
    scale: str = "both",
) -> Callable[..., Tensor]:
    """LayerNorm with one thing done differently; the defaults are the right ones."""

    def answer(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
        z = raised(x) if wide else x
        if fixed_eps is not None:
            eps = fixed_eps
        axes: tuple[int, ...] = (z.ndim - 1,)
        if whole:
            axes = tuple(range(min(1, z.ndim - 1), z.ndim))
        if batch:
            axes = (0,)
        mean, variance = z.mean(axes, keepdim=True), variance_of(z, axes, correction)
        if one_pass:
            variance = z.square().mean(axes, keepdim=True) - mean.square()
        if detach:
            mean, variance = mean.detach(), variance.detach()
        divisor = divisor_of(variance, eps, outside, root, eps_as)
        normalised = ((z - mean) if centre else z) / divisor
        if scale == "none":
            return normalised.to(x.dtype)
        if scale == "swapped":
            return (normalised * beta + gamma).to(x.dtype)
        if scale == "gamma":
            return (normalised * gamma).to(x.dtype)
        if scale == "shifted first":
            return ((normalised + beta) * gamma).to(x.dtype)
        return (normalised * gamma + beta).to(x.dtype)

    return answer


def row_cases(draw: Callable[..., tuple[Any, ...]]) -> list[Case]:
    """Rows that are normalised one by one: alone, in a sentence, in a batch."""
    return [
        Case("vector", both("one vector, d = 4", "一個向量，d = 4"), lambda d: draw(d, 4), 2),
        Case("sentence", both("a sentence", "一個句子"), lambda d: draw(d, 5, 7), 2),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: draw(d, 2, 3, 5), 2),
    ]


def draw_rows(draw: Draw, *shape: int, mean: float = 3.0, std: float = 2.0) -> tuple[Any, ...]:
    """Rows with means and spreads of their own, γ and β."""
    rows = draw.normal(*shape, std=std) * draw.uniform(0.5, 2.0, *shape[:-1], 1)
    return rows + draw.normal(*shape[:-1], 1, mean=mean, std=abs(mean) / 3), *scale_and_shift(draw, shape[-1])


def draw_constant_row(draw: Draw) -> tuple[Any, ...]:
    x, gamma, beta = draw_rows(draw, 3, 5)
    x[1] = float(draw.integer(2, 9))
    return x, gamma, beta


def draw_far_rows(draw: Draw) -> tuple[Any, ...]:
    """A mean of 10⁴ and a spread of about 1: squares of 10⁸, whose neighbours in float32 are 8 apart."""
    return draw.normal(4, 6, mean=1e4), *scale_and_shift(draw, 6)


def draw_large_halves(draw: Draw) -> tuple[Any, ...]:
    """Numbers of several hundred: their squares do not fit into float16."""
    return draw.normal(4, 6, mean=400.0, std=700.0), *scale_and_shift(draw, 6)


exercise(
    name="layer_norm",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=layer_norm,
    results=("y",),
    forbidden=NORMS,
    cases=[
        *row_cases(draw_rows),
        Case(
            "large_eps",
            both("another eps", "其他的 eps"),
            lambda d: (*draw_rows(d, 3, 6), d.number(0.5, 2.0)),
            3,
        ),
        Case(
            "variance_near_eps",
            both("σ² near eps", "σ² 和 eps 差不多大"),
            lambda d: draw_rows(d, 4, 5, mean=0.0, std=3e-3),
            trap=True,
        ),
        Case(
            "deviation_near_eps",
            both("σ near eps", "σ 和 eps 差不多大"),
            lambda d: draw_rows(d, 4, 5, mean=0.0, std=1e-5),
            0.5,
            trap=True,
        ),
        # The lesson's traps weigh more than the demands that hold everywhere.
        Case("far_mean", both("means of ten thousand", "平均約一萬"), draw_far_rows, 2, trap=True),
        Case(
            "constant_row",
            both("a row of equal numbers, and its gradient", "有一列全是同一個數，梯度也看"),
            draw_constant_row,
            0.5,
            gradients=True,
            trap=True,
        ),
        Case(
            "ones",
            both("one token of one number: shape [1, 1]", "一個詞元、一個數：形狀 [1, 1]"),
            lambda d: draw_rows(d, 1, 1),
            0.5,
            trap=True,
        ),
        *half_precision(draw_large_halves, 1.25),
        noncontiguous(lambda d: draw_rows(d, 4, 6), 0.5),
        float64(lambda d: draw_rows(d, 3, 5), 0.5),
        gradients(lambda d: draw_rows(d, 3, 4)),
    ],
    mistakes=[
        Mistake(
            "eps_outside_root",
            mistaken_layer_norm(outside=True),
            both(
                "Your ε stands outside the root, as in the lecture: σ + ε. Here it is added to the variance; the difference "
                "shows where σ is small.",
                "你的 ε 在根號外面，和講義的 σ + ε 一樣。這裡的 ε 要加在變異數上；σ 很小時兩者差很多。",
            ),
        ),
        Mistake(
            "unbiased_variance",
            mistaken_layer_norm(correction=1),
            both(
                "Your variance divides by d − 1, torch's default. LayerNorm divides by d; at d = 4 that is 13 % in the "
                "result.",
                "你的變異數除以 d − 1，那是 torch 的預設。LayerNorm 除以 d；d = 4 時，結果差 13 %。",
            ),
        ),
        Mistake(
            "one_pass_variance",
            mistaken_layer_norm(one_pass=True),
            both(
                "Right on paper, but the mean of the squares minus the square of the mean keeps no digits when the mean is "
                "large. Subtract the mean first, square afterwards.",
                "紙上是對的，但平均很大時，平方的平均減平均的平方會把有效位數丟光。要先減平均，再平方。",
            ),
        ),
        Mistake(
            "variance_for_deviation",
            mistaken_layer_norm(root=False),
            both("You divide by the variance. The root is missing.", "你除以變異數了。少開了根號。"),
        ),
        Mistake(
            "normalises_whole_sequence",
            mistaken_layer_norm(whole=True),
            both(
                "One mean and variance for a whole sentence. Each token has its own: only the last axis is averaged.",
                "整個句子共用了一個平均和變異數。每個詞元都有自己的：只沿最後一軸平均。",
            ),
        ),
        Mistake(
            "batch_axis",
            mistaken_layer_norm(batch=True),
            both(
                "You average along the first axis, over the samples: that is BatchNorm. LayerNorm stays inside one vector.",
                "你沿著第一軸、跨樣本平均：那是 BatchNorm。LayerNorm 只看一個向量自己。",
            ),
        ),
        Mistake(
            "mean_not_subtracted",
            mistaken_layer_norm(centre=False),
            both(
                "You divide by the deviation but never subtract the mean.",
                "你除了標準差，卻沒有減平均。",
            ),
        ),
        Mistake(
            "half_precision_statistics",
            mistaken_layer_norm(wide=False),
            both(
                "Right in float32. In half precision the squares overflow (float16 ends at 65504) or lose their digits: "
                "compute in float32 and round once, at the end.",
                "float32 時是對的。半精度下平方會溢位（float16 最大到 65504）或失去位數：請用 float32 計算，最後再轉回來。",
            ),
        ),
        Mistake(
            "eps_missing",
            mistaken_layer_norm(fixed_eps=0.0),
            both(
                "There is no ε: a row of equal numbers has σ = 0 and becomes 0/0.",
                "少了 ε：一列全是同一個數時 σ = 0，就變成 0/0。",
            ),
        ),
        *(
            Mistake(f"eps_{name.replace(' ', '_')}", mistaken_layer_norm(eps_as=name), message)
            for name, message in EPS_MISTAKES.items()
        ),
        Mistake("root_squared_again", mistaken_layer_norm(eps_as="squared again"), ROOT_SQUARED_AGAIN),
        Mistake(
            "eps_ignored",
            mistaken_layer_norm(fixed_eps=1e-5),
            both("Right for the default eps only.", "只有 eps 是預設值時才對。"),
        ),
        Mistake(
            "statistics_detached",
            mistaken_layer_norm(detach=True),
            both(
                "The values are right, but mean and deviation are cut off from x, and their part of the gradient is missing.",
                "數值是對的，但平均和標準差跟 x 斷開了，這部分的梯度不見了。",
            ),
        ),
        Mistake(
            "scale_and_shift_missing",
            mistaken_layer_norm(scale="none"),
            both(
                "The rows have mean 0 and variance 1, and stop there: γ and β are missing.",
                "每一列的平均是 0、變異數是 1，就停在這裡了：還少了 γ 與 β。",
            ),
        ),
        Mistake("shift_missing", mistaken_layer_norm(scale="gamma"), both("β is missing.", "少了 β。")),
        Mistake(
            "scale_and_shift_swapped",
            mistaken_layer_norm(scale="swapped"),
            both("γ and β have changed places: γ scales, β shifts.", "γ 和 β 對調了：γ 負責縮放，β 負責平移。"),
        ),
        Mistake(
            "shifted_before_scaling",
            mistaken_layer_norm(scale="shifted first"),
            both("You scale β too. First multiply by γ, then add β.", "β 也被 γ 縮放了。要先乘 γ，再加 β。"),
        ),
    ],
    hints=[
        both(
            "Mean and variance are those of one row: [..., 1], ready to be broadcast over its d numbers.",
            "平均與變異數都是一列自己的，形狀是 [..., 1]，可以直接廣播到那一列的 d 個數。",
        ),
        both(
            "Subtract the mean, then average the squares of what is left, then add ε, then take the root.",
            "先減平均，再把剩下的平方平均，加上 ε，最後開根號。",
        ),
        both(
            "Half precision: turn x into float32 first and the result back at the end. float64 stays float64.",
            "半精度：先把 x 轉成 float32，最後再轉回去。float64 就保持 float64。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- rms_norm


def mistaken_rms_norm(
    *,
    centre: bool = False,
    outside: bool = False,
    total: bool = False,
    wide: bool = True,
    plus_one: bool = False,
    root: bool = True,
    fixed_eps: float | None = None,
    eps_as: str = "added",
    detach: bool = False,
    scaled: bool = True,
    batch: bool = False,
    whole: bool = False,
    sizes: bool = False,
    deviation: int | None = None,
) -> Callable[..., Tensor]:
    """RMSNorm with one thing done differently; the defaults are the right ones."""

    def answer(x: Tensor, gamma: Tensor, eps: float = 1e-6) -> Tensor:
        z = raised(x) if wide else x
        if fixed_eps is not None:
            eps = fixed_eps
        axes: tuple[int, ...] = (z.ndim - 1,)
        if whole:
            axes = tuple(range(min(1, z.ndim - 1), z.ndim))
        if batch:
            axes = (0,)
        if centre:
            z = z - z.mean(axes, keepdim=True)
        squares = z.square().sum(axes, keepdim=True) if total else z.square().mean(axes, keepdim=True)
        if sizes:
            squares = z.abs().mean(axes, keepdim=True).square()
        if deviation is not None:
            squares = variance_of(z, axes, deviation)
        if detach:
            squares = squares.detach()
        divisor = divisor_of(squares, eps, outside, root, eps_as)
        normalised = z / divisor
        if not scaled:
            return normalised.to(x.dtype)
        return (normalised * (1 + gamma if plus_one else gamma)).to(x.dtype)

    return answer


def draw_rms_rows(draw: Draw, *shape: int, mean: float = 2.0, std: float = 2.0) -> tuple[Any, ...]:
    return draw_rows(draw, *shape, mean=mean, std=std)[:2]


def draw_zero_row(draw: Draw) -> tuple[Any, ...]:
    x, gamma = draw_rms_rows(draw, 3, 5)
    x[1] = 0.0
    return x, gamma


DIVIDES_BY_DEVIATION = both(
    "You divide by the standard deviation, so a mean is subtracted inside your divisor. RMSNorm knows no mean, above as "
    "below: squares of x itself.",
    "你除以的是標準差，分母裡還是減了平均。RMSNorm 的分子和分母都不看平均：要平方的是 x 本身。",
)

exercise(
    name="rms_norm",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=rms_norm,
    results=("y",),
    forbidden=NORMS,
    cases=[
        *row_cases(draw_rms_rows),
        Case(
            "large_eps",
            both("another eps", "其他的 eps"),
            lambda d: (*draw_rms_rows(d, 3, 6), d.number(0.5, 2.0)),
        ),
        Case(
            "mean_square_near_eps",
            both("mean(x²) near eps", "mean(x²) 和 eps 差不多大"),
            lambda d: draw_rms_rows(d, 4, 5, mean=0.0, std=1e-3),
            trap=True,
        ),
        Case(
            "zero_row",
            both("a row of zeros, and its gradient", "有一列全是 0，梯度也看"),
            draw_zero_row,
            gradients=True,
            trap=True,
        ),
        Case(
            "ones",
            both("one token of one number: shape [1, 1]", "一個詞元、一個數：形狀 [1, 1]"),
            lambda d: draw_rms_rows(d, 1, 1),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_large_halves(d)[:2], 0.75),
        noncontiguous(lambda d: draw_rms_rows(d, 4, 6)),
        float64(lambda d: draw_rms_rows(d, 3, 5)),
        gradients(lambda d: draw_rms_rows(d, 3, 4)),
    ],
    mistakes=[
        Mistake(
            "mean_subtracted",
            mistaken_rms_norm(centre=True),
            both(
                "You subtract the mean: that is LayerNorm without β. RMSNorm leaves the mean where it is.",
                "你減了平均：那是沒有 β 的 LayerNorm。RMSNorm 不動平均。",
            ),
        ),
        Mistake(
            "eps_outside_root",
            mistaken_rms_norm(outside=True),
            both(
                "Your ε stands outside the root. Here it is added to the mean square; the difference shows where x is small.",
                "你的 ε 在根號外面。這裡的 ε 要加在平方的平均上；x 很小時兩者差很多。",
            ),
        ),
        Mistake(
            "sum_for_mean",
            mistaken_rms_norm(total=True),
            both(
                "You divide by the length of the vector: the squares are summed instead of averaged, so the result is "
                "smaller by √d.",
                "你除以向量的長度了：平方用的是總和，不是平均，所以結果小了 √d 倍。",
            ),
        ),
        Mistake(
            "half_precision_squares",
            mistaken_rms_norm(wide=False),
            both(
                "Right in float32. In half precision 300² is already beyond float16's 65504, and dividing by ∞ gives 0: "
                "compute in float32 and round once, at the end.",
                "float32 時是對的。半精度下，300² 就超過 float16 的上限 65504，除以 ∞ 得到 0：請用 float32 計算，最後再轉回來。",
            ),
        ),
        Mistake(
            "one_plus_gamma",
            mistaken_rms_norm(plus_one=True),
            both(
                "You multiply by 1 + γ, as Gemma does. Here it is γ itself.",
                "你乘上了 1 + γ，那是 Gemma 的做法。這裡乘的是 γ 本身。",
            ),
        ),
        Mistake(
            "root_missing",
            mistaken_rms_norm(root=False),
            both(
                "You divide by the mean square. The R of RMS, the root, is missing.",
                "你除以平方的平均了。少了 RMS 的 R，也就是開根號。",
            ),
        ),
        Mistake(
            "mean_of_sizes",
            mistaken_rms_norm(sizes=True),
            both(
                "You average the absolute values. Squares are averaged, and then comes the root.",
                "你平均的是絕對值。要平均的是平方，再開根號。",
            ),
        ),
        Mistake(
            "eps_missing",
            mistaken_rms_norm(fixed_eps=0.0),
            both(
                "There is no ε, as in the lecture's formula: a vector of zeros becomes 0/0.",
                "少了 ε，和講義的公式一樣：零向量會變成 0/0。",
            ),
        ),
        *(
            Mistake(f"eps_{name.replace(' ', '_')}", mistaken_rms_norm(eps_as=name), message)
            for name, message in EPS_MISTAKES.items()
        ),
        Mistake("root_squared_again", mistaken_rms_norm(eps_as="squared again"), ROOT_SQUARED_AGAIN),
        Mistake("divides_by_deviation", mistaken_rms_norm(deviation=0), DIVIDES_BY_DEVIATION),
        Mistake("divides_by_unbiased_deviation", mistaken_rms_norm(deviation=1), DIVIDES_BY_DEVIATION),
        Mistake(
            "eps_ignored",
            mistaken_rms_norm(fixed_eps=1e-6),
            both("Right for the default eps only.", "只有 eps 是預設值時才對。"),
        ),
        Mistake(
            "normalises_whole_sequence",
            mistaken_rms_norm(whole=True),
            both(
                "One mean square for a whole sentence. Each token has its own: only the last axis is averaged.",
                "整個句子共用了一個均方。每個詞元都有自己的：只沿最後一軸平均。",
            ),
        ),
        Mistake(
            "batch_axis",
            mistaken_rms_norm(batch=True),
            both(
                "You average along the first axis. RMSNorm stays inside one vector: the last axis.",
                "你沿著第一軸平均了。RMSNorm 只看一個向量自己：最後一軸。",
            ),
        ),
        Mistake(
            "statistics_detached",
            mistaken_rms_norm(detach=True),
            both(
                "The values are right, but the mean square is cut off from x, and its part of the gradient is missing.",
                "數值是對的，但平方的平均跟 x 斷開了，這部分的梯度不見了。",
            ),
        ),
        Mistake(
            "scale_missing",
            mistaken_rms_norm(scaled=False),
            both("γ is missing.", "少了 γ。"),
        ),
    ],
    hints=[
        both(
            "Read the name backwards: square, then mean, then root. ε joins before the root.",
            "把名字倒著讀：先平方（square），再平均（mean），再開根號（root）。ε 在開根號之前加進去。",
        ),
        both(
            "The mean is over the last axis and keeps it, so that [..., 1] divides [..., d]. Half precision: float32 "
            "inside, back at the end.",
            "平均沿著最後一軸，而且要保留那一軸，[..., 1] 才能去除 [..., d]。半精度：裡面用 float32，最後轉回去。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------- dynamic_tanh


def mistaken_dynamic_tanh(f: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """f(x, α, γ, β) with half precision raised, and rounded once."""

    def answer(x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return f(raised(x), raised(alpha), raised(gamma), raised(beta)).to(x.dtype)

    return answer


def draw_dyt(draw: Draw, *shape: int, negative: bool = False) -> tuple[Tensor, ...]:
    """α well away from 0, ½ and ±1, so that leaving it out, squaring it or dividing by it shows."""
    alpha = draw.uniform(0.6, 0.9)
    return draw.normal(*shape, mean=0.5, std=1.5), -alpha if negative else alpha, *scale_and_shift(draw, shape[-1])


exercise(
    name="dynamic_tanh",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=dynamic_tanh,
    plain=lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta,
    results=("y",),
    forbidden=NORMS,
    cases=[
        Case("vector", both("one vector", "一個向量"), lambda d: draw_dyt(d, 4), 2),
        Case("sentence", both("a sentence", "一個句子"), lambda d: draw_dyt(d, 5, 3), 2),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: draw_dyt(d, 2, 3, 5), 1.5),
        Case("negative_alpha", both("α below 0", "α 是負的"), lambda d: draw_dyt(d, 4, 3, negative=True), trap=True),
        Case(
            "ones",
            both("one token of one number: shape [1, 1]", "一個詞元、一個數：形狀 [1, 1]"),
            lambda d: draw_dyt(d, 1, 1),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_dyt(d, 4, 5)),
        noncontiguous(lambda d: draw_dyt(d, 4, 6)),
        float64(lambda d: draw_dyt(d, 3, 5)),
        gradients(lambda d: draw_dyt(d, 3, 4)),
    ],
    mistakes=[
        Mistake(
            "alpha_outside",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * alpha * torch.tanh(x) + beta),
            both(
                "Your α scales the result. It belongs inside: it decides how early tanh saturates.",
                "你的 α 縮放的是結果。它應該在裡面：它決定 tanh 多早飽和。",
            ),
        ),
        Mistake(
            "alpha_ignored",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(x) + beta),
            both("Your result does not depend on α.", "你的結果和 α 無關。"),
        ),
        Mistake(
            "alpha_fixed",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(0.5 * x) + beta),
            both(
                "You always use ½ for α. That is only where it usually starts; the learned one is handed in.",
                "你的 α 一律用 ½。那只是常用的初值；學到的 α 已經傳進來了。",
            ),
        ),
        Mistake(
            "divides_by_alpha",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(x / alpha) + beta),
            both("You divide by α. It multiplies x.", "你除以 α 了。應該是用它去乘 x。"),
        ),
        Mistake(
            "alpha_without_sign",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha.abs() * x) + beta),
            both(
                "Right for positive α. A learned number may become negative, and then the curve is mirrored.",
                "α 是正的時候是對的。學出來的數也可能是負的，這時曲線會翻過來。",
            ),
        ),
        Mistake(
            "gamma_inside",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: torch.tanh(alpha * gamma * x) + beta),
            both(
                "Your γ stands inside tanh, so the result can never leave (−1, 1) around β. It scales the result.",
                "你的 γ 放在 tanh 裡面，結果就離不開 β 左右的 (−1, 1)。γ 縮放的是結果。",
            ),
        ),
        Mistake(
            "beta_inside",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x + beta)),
            both("Your β stands inside tanh. It shifts the result.", "你的 β 放在 tanh 裡面。它平移的是結果。"),
        ),
        Mistake(
            "shifted_before_scaling",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * (torch.tanh(alpha * x) + beta)),
            both("You scale β too. First multiply by γ, then add β.", "β 也被 γ 縮放了。要先乘 γ，再加 β。"),
        ),
        Mistake(
            "scale_and_shift_missing",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: torch.tanh(alpha * x)),
            both("γ and β are missing.", "少了 γ 與 β。"),
        ),
        Mistake(
            "shift_missing",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x)),
            both("β is missing.", "少了 β。"),
        ),
        Mistake(
            "normalises_first",
            mistaken_dynamic_tanh(
                lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * layer_norm(x, one(x), 0 * one(x))) + beta
            ),
            both(
                "You normalise first. DyT uses no statistics at all: each number goes through the curve alone.",
                "你先做了正規化。DyT 完全不用統計量：每個數各自通過那條曲線。",
            ),
        ),
        Mistake(
            "sigmoid_for_tanh",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.sigmoid(alpha * x) + beta),
            both(
                "Your curve is the logistic one, between 0 and 1. tanh runs from −1 to 1 and through 0.",
                "你的曲線是 logistic，在 0 與 1 之間。tanh 從 −1 到 1，而且通過原點。",
            ),
        ),
        Mistake(
            "alpha_as_number",
            mistaken_dynamic_tanh(lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha.item() * x) + beta),
            both(
                "The values are right, but α has become a plain number and gets no gradient: it could never be learned.",
                "數值是對的，但 α 變成了普通的數，得不到梯度：它永遠學不到東西。",
            ),
        ),
    ],
    hints=[
        both(
            "Nothing is averaged here. Each number of x goes through the same S-curve.",
            "這裡什麼都不平均。x 的每個數都各自通過同一條 S 形曲線。",
        ),
        both(
            "From the inside out: stretch by α, bend with tanh, scale each feature by γ, shift it by β.",
            "由內而外：用 α 拉伸，用 tanh 彎曲，每個特徵乘上 γ，再平移 β。",
        ),
    ],
)


def one(x: Tensor) -> Tensor:
    return torch.ones(x.shape[-1], dtype=x.dtype)


# ------------------------------------------------------------------------------------------- encoder_sublayer

Map = Callable[[Tensor], Tensor]


def encoder_sublayer(x: Tensor, sublayer: Map, norm: Map, placement: str = "post") -> Tensor:
    if placement == "pre":
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))


def placed(
    post: Callable[[Tensor, Map, Map], Tensor], pre: Callable[[Tensor, Map, Map], Tensor]
) -> Callable[..., Tensor]:
    """A sublayer from its two forms."""

    def answer(x: Tensor, sublayer: Map, norm: Map, placement: str = "post") -> Tensor:
        return pre(x, sublayer, norm) if placement == "pre" else post(x, sublayer, norm)

    return answer


def right_post(x: Tensor, sublayer: Map, norm: Map) -> Tensor:
    return norm(x + sublayer(x))


def right_pre(x: Tensor, sublayer: Map, norm: Map) -> Tensor:
    return x + sublayer(norm(x))


def draw_sublayer(draw: Draw, *shape: int) -> tuple[Any, ...]:
    d = shape[-1]
    return draw.normal(*shape, mean=1.0), draw_perceptron(draw, d), RowNorm(*scale_and_shift(draw, d))


def draw_attention_sublayer(draw: Draw, *shape: int) -> tuple[Any, ...]:
    x, attention = draw_residual_attention(draw, *shape)
    return x, attention, RowNorm(*scale_and_shift(draw, shape[-1]))


exercise(
    name="encoder_sublayer",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=encoder_sublayer,
    results=("y",),
    cases=[
        Case("post", both("post by default", "預設的 post"), lambda d: draw_sublayer(d, 5, 4), 2),
        Case("pre", both("pre", "指定 pre"), lambda d: (*draw_sublayer(d, 4, 5), "pre"), 2),
        Case(
            "pre_attention",
            both("pre, by name, a batch, attention as sublayer", "用名稱給 pre，一個批次，子層是注意力"),
            lambda d: (draw_attention_sublayer(d, 2, 4, 3), {"placement": "pre"}),
        ),
        Case(
            "post_attention",
            both("post, a batch, attention as sublayer", "post，一個批次，子層是注意力"),
            lambda d: (*draw_attention_sublayer(d, 2, 3, 4), "post"),
        ),
        Case(
            "ones",
            both("one token of one number: shape [1, 1]", "一個詞元、一個數：形狀 [1, 1]"),
            lambda d: draw_sublayer(d, 1, 1),
            0.5,
            trap=True,
        ),
        Case(
            "handed_back",
            HANDED_BACK,
            lambda d: (d.normal(3, 4), HandsBack(), RowNorm(*scale_and_shift(d, 4))),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: (*draw_sublayer(d, 3, 4), "post")),
        float64(lambda d: (*draw_sublayer(d, 2, 3, 4), "pre")),
        gradients(lambda d: (*draw_sublayer(d, 4, 3), "pre")),
        Case(
            "gradients_post",
            both("gradients in the post form", "post 的梯度"),
            lambda d: draw_sublayer(d, 4, 3),
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "always_post",
            placed(right_post, right_post),
            both(
                'Right for "post". With placement="pre" your norm still stands after the sum.',
                '"post" 是對的。placement="pre" 時，你的正規化還是在相加之後。',
            ),
        ),
        Mistake(
            "always_pre",
            placed(right_pre, right_pre),
            both(
                'Right for "pre". By default the order is that of 2017: the norm stands after the sum.',
                '"pre" 是對的。預設是 2017 年的順序：正規化在相加之後。',
            ),
        ),
        Mistake(
            "placements_swapped",
            placed(right_pre, right_post),
            both(
                "The two have changed places: post normalises after the sum, pre normalises what the sublayer reads.",
                "兩種順序對調了：post 是相加之後才正規化，pre 是先正規化再給子層讀。",
            ),
        ),
        Mistake(
            "residual_from_normed",
            placed(right_post, lambda x, sublayer, norm: norm(x) + sublayer(norm(x))),
            both(
                "In your pre form the skip carries the normalised x. It must carry x itself: that is the path that no norm "
                "touches.",
                "你的 pre 讓捷徑帶著正規化過的 x。它要帶 x 本身：這條路上不能有任何正規化。",
            ),
        ),
        Mistake(
            "norm_inside_branch",
            placed(lambda x, sublayer, norm: x + norm(sublayer(x)), right_pre),
            both(
                "In your post form the norm acts on the branch alone. It comes after the sum, on the whole stream.",
                "你的 post 只對分支做正規化。它應該在相加之後，作用在整條主幹上。",
            ),
        ),
        Mistake(
            "norm_after_branch_in_pre",
            placed(right_post, lambda x, sublayer, norm: x + norm(sublayer(x))),
            both(
                "In your pre form the norm acts on what the sublayer returns. It acts on what the sublayer reads.",
                "你的 pre 正規化的是子層的輸出。要正規化的是子層讀進去的東西。",
            ),
        ),
        Mistake(
            "skip_normed_in_pre",
            placed(right_post, lambda x, sublayer, norm: norm(x) + sublayer(x)),
            both(
                "In your pre form the norm stands on the skip, and the sublayer reads x as it was. It is the other way "
                "round.",
                "你的 pre 把正規化放在捷徑上，子層讀的卻是原來的 x。應該反過來。",
            ),
        ),
        Mistake(
            "skip_normed_in_post",
            placed(lambda x, sublayer, norm: norm(x) + sublayer(x), right_pre),
            both(
                "In your post form only the skip is normalised, before the sum. The sum is what gets normalised.",
                "你的 post 在相加之前只正規化了捷徑。要正規化的是相加之後的和。",
            ),
        ),
        Mistake(
            "both_normalised_then_added",
            placed(lambda x, sublayer, norm: norm(x) + norm(sublayer(x)), right_pre),
            both(
                "In your post form input and branch are normalised apart and then added. Add first, normalise the sum.",
                "你的 post 把輸入和分支分開正規化才相加。要先相加，再對和做正規化。",
            ),
        ),
        Mistake(
            "normalised_twice",
            placed(
                lambda x, sublayer, norm: norm(x + sublayer(norm(x))),
                lambda x, sublayer, norm: norm(x + sublayer(norm(x))),
            ),
            both(
                "You normalise both before the sublayer and after the sum. Each form has one norm.",
                "你在子層之前和相加之後都做了正規化。兩種順序都只有一次正規化。",
            ),
        ),
        Mistake(
            "skip_missing",
            placed(lambda x, sublayer, norm: norm(sublayer(x)), lambda x, sublayer, norm: sublayer(norm(x))),
            both(
                "The residual connection is missing: x itself is never added.",
                "少了殘差連結：從頭到尾都沒有加上 x 本身。",
            ),
        ),
        Mistake(
            "norm_missing",
            placed(lambda x, sublayer, norm: x + sublayer(x), lambda x, sublayer, norm: x + sublayer(x)),
            both("The norm is missing.", "少了正規化。"),
        ),
        Mistake(
            "adds_to_the_result_in_place",
            placed(
                lambda x, sublayer, norm: norm(added_to_the_result(x, sublayer)),
                lambda x, sublayer, norm: x + sublayer(norm(x)),
            ),
            WRITES_INTO_THE_RESULT,
        ),
        Mistake(
            "skip_detached",
            placed(
                lambda x, sublayer, norm: norm(x.detach() + sublayer(x)),
                lambda x, sublayer, norm: x.detach() + sublayer(norm(x)),
            ),
            both(
                "The values are right, but the gradient does not pass along the skip.",
                "數值是對的，但梯度走不過捷徑。",
            ),
        ),
    ],
    hints=[
        both(
            "Draw it: a straight line from x to the sum, and a branch through the sublayer. Where does the norm stand, on "
            "the branch before the sublayer, or on the line after the sum?",
            "畫出來：一條直線從 x 到加號，一條分支經過子層。正規化站在哪裡？是分支上、子層之前，還是直線上、加號之後？",
        ),
        both(
            "In both forms the sum has x itself on one side. Post: the norm is the last thing that happens. Pre: the norm "
            "is the first thing that happens on the branch.",
            "兩種形式的加號，一邊都是 x 本身。post：正規化是最後一步。pre：正規化是分支上的第一步。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- questions

question(
    name="06_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "learns_the_target",
            "a",
            both(
                "f(z) is what the whole layer must give. The skip already brings z, so the branch learns less than that.",
                "f(z) 是整層該給出的結果。捷徑已經帶來了 z，分支要學的比這更少。",
            ),
        ),
        Mistake(
            "learns_the_sum",
            "b",
            both(
                "That adds z twice: once by the skip, once by the branch. Solve z + ℓ(z) = f(z) for ℓ(z) instead.",
                "這樣 z 會加兩次：捷徑一次，分支一次。請從 z + ℓ(z) = f(z) 解出 ℓ(z)。",
            ),
        ),
        Mistake(
            "learns_nothing",
            "c",
            both(
                "The sum has no weights, true, but the branch has, and they must make up for what z is not yet.",
                "加號確實沒有權重，但分支有，而且它們要補上 z 還缺的部分。",
            ),
        ),
    ],
    hints=[
        both(
            "What should the branch return if f(z) = z, that is, if the layer has nothing to do?",
            "如果 f(z) = z，也就是這一層沒事可做，分支應該回傳什麼？",
        ),
    ],
)

question(
    name="06_q2",
    lesson=LESSON,
    right="b",
    wrong=[
        Mistake(
            "layer_norm_mixes",
            "a",
            both(
                "LayerNorm's mean and variance are those of one token's own d numbers. Change the neighbours: nothing moves.",
                "LayerNorm 的平均與變異數只看一個詞元自己的 d 個數。換掉旁邊的句子，它一點也不動。",
            ),
        ),
        Mistake(
            "rms_norm_mixes",
            "c",
            both(
                "RMSNorm divides by the root mean square of one token's own numbers, no one else's.",
                "RMSNorm 除以的是一個詞元自己的均方根，和別人無關。",
            ),
        ),
        Mistake(
            "dyt_mixes",
            "d",
            both(
                "DyT has learned numbers only and measures nothing: α, γ and β are the same whatever the batch.",
                "DyT 只有學來的數，什麼都不量：不管這一批是什麼，α、γ、β 都一樣。",
            ),
        ),
    ],
    hints=[
        both(
            "Over which axis is each mean taken? Only one of the four crosses from one sample to another.",
            "每一種的平均是沿哪一軸算的？四個之中只有一個會跨過樣本。",
        ),
    ],
)
