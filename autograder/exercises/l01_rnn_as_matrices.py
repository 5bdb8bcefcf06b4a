"""Lesson 01, RNNs as matrices: one neuron, one step, a sequence, the LSTM's step, the gradient through time, what must wait.

Shapes: B batch, T time steps, d_in inputs, d_h neurons; `...` stands for leading dimensions, none included.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import JACOBIANS, RECURRENCES
from autograder.exercises.shared import float64, gradients, noncontiguous
from autograder.text import both
from course_lib.recurrent import lstm_step, rnn_step

LESSON = "01_rnn_as_matrices"


def draw_step(draw: Draw, *leading: int, d_in: int, d_h: int, std: float = 0.8) -> tuple[Tensor, ...]:
    """x_t, h_prev, W_X, W_H, b; sums of a few units, so that no activation is nearly linear."""
    return (
        draw.normal(*leading, d_in),
        draw.uniform(-1.0, 1.0, *leading, d_h),
        draw.normal(d_in, d_h, std=std),
        draw.normal(d_h, d_h, std=std),
        draw.normal(d_h, std=std),
    )


def draw_far_step(draw: Draw, d_in: int, d_h: int) -> tuple[Tensor, ...]:
    """Biases of ±100 and more: there exp overflows in float32, while tanh is just ±1."""
    x_t, h_prev, W_X, W_H, b = draw_step(draw, 3, d_in=d_in, d_h=d_h)
    sign = torch.tensor([1.0, -1.0], dtype=b.dtype).repeat(len(b))[: len(b)]
    return x_t, h_prev, W_X, W_H, sign * draw.uniform(110.0, 150.0, *b.shape)


ALL_ONE = both("a batch of one, d_in = d_h = 1", "批次只有一個，d_in = d_h = 1")
FAR_FROM_ZERO = both("sums beyond ±100 inside the activation", "激勵函數裡的總和超過 ±100")


def tanh_by_exponentials(a: Tensor) -> Tensor:
    return (torch.exp(a) - torch.exp(-a)) / (torch.exp(a) + torch.exp(-a))


def tanh_by_one_exponential(a: Tensor) -> Tensor:
    return (torch.exp(2 * a) - 1) / (torch.exp(2 * a) + 1)


def tanh_by_one_fraction(a: Tensor) -> Tensor:
    """Right values everywhere, also where exp is infinite; but not backwards."""
    return 1 - 2 / (1 + torch.exp(2 * a))


def sigmoid_by_exponentials(a: Tensor) -> Tensor:
    return torch.exp(a) / (1 + torch.exp(a))


def sigmoid_by_one_fraction(a: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-a))


HUGE_TANH = both(
    "Right for small sums, but your tanh divides one huge exponential by another: beyond 88 they are infinite in float32. "
    "torch has a tanh that is safe.",
    "總和小的時候是對的，但你的 tanh 拿兩個巨大的指數相除：float32 超過 88 就是無限大。torch 有現成、安全的 tanh。",
)
HUGE_TANH_BACKWARDS = both(
    "The values are right, but your tanh passes an exponential that is infinite for large sums, and on the way back 0 times "
    "infinity is NaN. torch has a tanh that is safe.",
    "數值是對的，但總和很大時，你的 tanh 中途有個指數是無限大，反向傳播時 0 乘以無限大就變成 NaN。torch 有現成、安全的 tanh。",
)


# ------------------------------------------------------------------------------------------------ rnn_neuron


def rnn_neuron(x_t: Tensor, h_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor, j: int) -> Tensor:
    return torch.tanh((x_t * W_X[:, j]).sum() + (h_prev * W_H[:, j]).sum() + b[j])


def in_one_loop(length: Callable[[Tensor, Tensor], int]) -> Callable[..., Tensor]:
    """Input and state summed in one loop over as many terms as `length` says."""

    def answer(x_t: Tensor, h_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor, j: int) -> Tensor:
        total = b[j]
        for i in range(length(x_t, h_prev)):
            total = total + x_t[i] * W_X[i, j] + h_prev[i] * W_H[i, j]
        return torch.tanh(total)

    return answer


def draw_neuron(draw: Draw, d_in: int, d_h: int) -> tuple[Any, ...]:
    return (*draw_step(draw, d_in=d_in, d_h=d_h), draw.integer(0, d_h - 1))


def draw_named_neuron(draw: Draw) -> tuple[Any, ...]:
    return draw_step(draw, d_in=4, d_h=3), {"j": draw.integer(0, 2)}


exercise(
    name="rnn_neuron",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=rnn_neuron,
    results=("h",),
    forbidden=RECURRENCES,
    cases=[
        Case("two_and_two", both("two inputs, two neurons", "兩個輸入、兩個神經元"), lambda d: draw_neuron(d, 2, 2), 3),
        Case("more_neurons", both("more neurons than inputs", "神經元比輸入多"), lambda d: draw_neuron(d, 3, 5), 2),
        Case(
            "more_inputs",
            both("more inputs than neurons; j by name", "輸入比神經元多；用名稱給 j"),
            draw_named_neuron,
            2,
        ),
        noncontiguous(lambda d: draw_neuron(d, 4, 4)),
        float64(lambda d: draw_neuron(d, 3, 2)),
        gradients(lambda d: draw_neuron(d, 2, 3)),
    ],
    mistakes=[
        Mistake(
            "row_instead_of_column",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j] + h_prev @ W_H[j] + b[j]),
            both(
                "You take row j of W_H: the weights that lead away from neuron j. What arrives at neuron j stands in "
                "its column, as it does in W_X.",
                "你拿的是 W_H 的第 j 列（row），那是從神經元 j 出發的權重。送進神經元 j 的權重在第 j 行（column），和 W_X 一樣。",
            ),
        ),
        Mistake(
            "rows_of_both",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[j] + h_prev @ W_H[j] + b[j]),
            both(
                "You take row j of both matrices. Row vectors stand on the left here, so the weights of neuron j are "
                "column j; with unequal sizes the rows do not even fit.",
                "兩個矩陣你都拿了第 j 列（row）。這裡是列向量放在左邊，神經元 j 的權重是第 j 行（column）；大小不同時，列根本對不上。",
            ),
        ),
        Mistake(
            "own_state_only",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j] + h_prev[j] * W_H[j, j] + b[j]),
            both(
                "Your neuron hears only its own last output. Every neuron's last output comes back to every neuron.",
                "你的神經元只聽到自己上一次的輸出。其實每個神經元上一次的輸出，都會傳回給每個神經元。",
            ),
        ),
        Mistake(
            "one_loop_for_both",
            in_one_loop(lambda x_t, h_prev: len(x_t)),
            both(
                "Your sum over the state has as many terms as the input has entries. Input and state have lengths of their "
                "own, d_in and d_h: two sums.",
                "你對狀態的加總，項數和輸入的分量一樣多。輸入和狀態各有各的長度，d_in 與 d_h：要分成兩個加總。",
            ),
        ),
        Mistake(
            "one_loop_over_the_shorter",
            in_one_loop(lambda x_t, h_prev: min(len(x_t), len(h_prev))),
            both(
                "Your two sums end together, with the shorter one. Input and state have lengths of their own, d_in and d_h.",
                "你的兩個加總在短的那個結束時就一起停了。輸入和狀態各有各的長度，d_in 與 d_h。",
            ),
        ),
        Mistake(
            "one_loop_over_the_state",
            in_one_loop(lambda x_t, h_prev: len(h_prev)),
            both(
                "Your sum over the input has as many terms as the state has entries. Input and state have lengths of their "
                "own, d_in and d_h: two sums.",
                "你對輸入的加總，項數和狀態的分量一樣多。輸入和狀態各有各的長度，d_in 與 d_h：要分成兩個加總。",
            ),
        ),
        Mistake(
            "state_forgotten",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j] + b[j]),
            both(
                "This is a neuron of an ordinary dense layer: the state of the step before does not come in.",
                "這是一般全連接層的神經元：上一步的狀態沒有傳進來。",
            ),
        ),
        Mistake(
            "bias_missing",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j] + h_prev @ W_H[:, j]),
            both("Both sums are there, the bias is not.", "兩個加總都有了，少了偏置。"),
        ),
        Mistake(
            "bias_vector",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j] + h_prev @ W_H[:, j] + b),
            both(
                "You add the biases of all neurons to the sum of one. One neuron has one bias, and its output is one "
                "number.",
                "你把所有神經元的偏置都加到一個神經元的總和上。一個神經元只有一個偏置，輸出也只有一個數。",
            ),
        ),
        Mistake(
            "sigmoid_activation",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.sigmoid(x_t @ W_X[:, j] + h_prev @ W_H[:, j] + b[j]),
            both(
                "You used the logistic function. The lecture's σ stands for any activation; in this lesson it is tanh.",
                "你用的是 logistic 函數。講義的 σ 泛指激勵函數；這一課的是 tanh。",
            ),
        ),
        Mistake(
            "no_activation",
            lambda x_t, h_prev, W_X, W_H, b, j: x_t @ W_X[:, j] + h_prev @ W_H[:, j] + b[j],
            both(
                "The sum is right, but it has not gone through the activation yet.",
                "總和是對的，但還沒通過激勵函數。",
            ),
        ),
        Mistake(
            "one_based_j",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X[:, j - 1] + h_prev @ W_H[:, j - 1] + b[j - 1]),
            both(
                "This is the neuron before the one asked for. The lecture counts neurons from 1; here j counts from 0.",
                "這是前一個神經元。講義的神經元從 1 數起；這裡的 j 從 0 數起。",
            ),
        ),
        Mistake(
            "all_neurons",
            lambda x_t, h_prev, W_X, W_H, b, j: torch.tanh(x_t @ W_X + h_prev @ W_H + b),
            both(
                "You computed the whole layer. This exercise asks for neuron j alone: one number, as a 0-d tensor.",
                "你把整層都算出來了。這題只要神經元 j：一個數，0 維張量。",
            ),
        ),
        Mistake(
            "python_number",
            lambda x_t, h_prev, W_X, W_H, b, j: math.tanh((x_t @ W_X[:, j] + h_prev @ W_H[:, j] + b[j]).item()),
            both(
                "The number is right, but it is a Python float: dtype and gradient are gone. Keep it a 0-d tensor.",
                "數值是對的，但它是 Python 的 float：dtype 和梯度都丟了。要保持 0 維張量。",
            ),
        ),
    ],
    hints=[
        both(
            "Write the lecture's line for d_in = d_h = 2 on paper. Which index of w changes from term to term, and which "
            "stays?",
            "先在紙上寫出 d_in = d_h = 2 時講義的那一行。w 的兩個下標，哪個逐項改變，哪個不變？",
        ),
        both(
            "The index that stays is the neuron's. So neuron j needs one column of each matrix, and one entry of b.",
            "不變的那個下標就是神經元的編號。所以神經元 j 需要兩個矩陣各一行（column），以及 b 的一個分量。",
        ),
        both(
            "Two sums of products, of length d_in and d_h; add them and the bias; tanh last.",
            "兩個乘積的總和，長度分別是 d_in 與 d_h；相加，再加偏置；最後做 tanh。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- rnn_step

exercise(
    name="rnn_step",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=rnn_step,
    results=("h_t",),
    forbidden=RECURRENCES,
    cases=[
        Case("vector", both("one vector", "一個向量"), lambda d: draw_step(d, d_in=3, d_h=4), 2),
        Case("batch", both("a batch of vectors", "一批向量"), lambda d: draw_step(d, 5, d_in=4, d_h=2), 2),
        Case(
            "square",
            both("all sizes equal: B = d_in = d_h", "大小全部相等：B = d_in = d_h"),
            lambda d: draw_step(d, 3, d_in=3, d_h=3),
            2,
        ),
        Case(
            "deep_batch",
            both("two leading dimensions", "前面有兩個維度"),
            lambda d: draw_step(d, 2, 3, d_in=2, d_h=5),
        ),
        Case("ones", ALL_ONE, lambda d: draw_step(d, 1, d_in=1, d_h=1), 0.5, trap=True),
        Case("far", FAR_FROM_ZERO, lambda d: draw_far_step(d, 2, 4), gradients=True, trap=True),
        noncontiguous(lambda d: draw_step(d, 4, d_in=3, d_h=3)),
        float64(lambda d: draw_step(d, 2, d_in=3, d_h=4)),
        gradients(lambda d: draw_step(d, 3, d_in=2, d_h=3)),
    ],
    mistakes=[
        Mistake(
            "recurrent_weights_transposed",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X + h_prev @ W_H.mT + b),
            both(
                "W_H is transposed. It is square, so the shapes cannot warn you: neuron j must get column j of W_H, as "
                "it gets column j of W_X.",
                "W_H 被轉置了。它是方陣，形狀不會警告你：神經元 j 要用 W_H 的第 j 行（column），和 W_X 一樣。",
            ),
        ),
        Mistake(
            "input_weights_transposed",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X.mT + h_prev @ W_H + b),
            both(
                "W_X is transposed. In row form the vector stands on the left of the matrix as it is.",
                "W_X 被轉置了。列向量的寫法是向量放左邊，矩陣照原樣。",
            ),
        ),
        Mistake(
            "both_transposed",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X.mT + h_prev @ W_H.mT + b),
            both(
                "Both matrices are transposed. The lecture's formula has transposes because its vectors are columns on "
                "the right; rows on the left need none.",
                "兩個矩陣都被轉置了。講義的公式有轉置，是因為它的向量是放在右邊的行向量；列向量放在左邊，就不必轉置。",
            ),
        ),
        Mistake(
            "column_form",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(W_X.mT @ x_t + W_H.mT @ h_prev + b),
            both(
                "Right for a single vector. In a batch the vectors are rows, and a matrix on the left mixes the "
                "sequences of the batch instead of the entries of a vector.",
                "只有單一向量時是對的。批次裡的向量是一列一個，矩陣放在左邊，混在一起的就不是向量的分量，而是不同的序列。",
            ),
        ),
        Mistake(
            "matrices_swapped",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_H + h_prev @ W_X + b),
            both(
                "The two matrices have changed places: W_X belongs to the input, W_H to the state.",
                "兩個矩陣對調了：W_X 屬於輸入，W_H 屬於狀態。",
            ),
        ),
        Mistake(
            "state_forgotten",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X + b),
            both(
                "This is an ordinary dense layer. What makes it recurrent is the state of the step before, and yours "
                "does not come in.",
                "這是一般的全連接層。循環的關鍵在上一步的狀態，你的狀態沒有進來。",
            ),
        ),
        Mistake(
            "bias_missing",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X + h_prev @ W_H),
            both("Both products are there, the bias is not.", "兩個乘積都有了，少了偏置。"),
        ),
        Mistake(
            "bias_twice",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X + b + h_prev @ W_H + b),
            both(
                "The bias is in there twice, once for each product. PyTorch does keep two bias vectors, but they are two "
                "different ones; here there is one.",
                "偏置加了兩次，每個乘積各一次。PyTorch 確實存了兩個偏置，但那是兩個不同的向量；這裡只有一個。",
            ),
        ),
        Mistake(
            "sigmoid_activation",
            lambda x_t, h_prev, W_X, W_H, b: torch.sigmoid(x_t @ W_X + h_prev @ W_H + b),
            both(
                "You used the logistic function. The lecture's σ stands for any activation; in this lesson it is tanh, "
                "as in PyTorch's RNN.",
                "你用的是 logistic 函數。講義的 σ 泛指激勵函數；這一課的是 tanh，和 PyTorch 的 RNN 一樣。",
            ),
        ),
        Mistake(
            "no_activation",
            lambda x_t, h_prev, W_X, W_H, b: x_t @ W_X + h_prev @ W_H + b,
            both(
                "The sum is right, but it has not gone through the activation yet.",
                "總和是對的，但還沒通過激勵函數。",
            ),
        ),
        Mistake(
            "separate_activations",
            lambda x_t, h_prev, W_X, W_H, b: torch.tanh(x_t @ W_X + b) + torch.tanh(h_prev @ W_H),
            both(
                "Input and state go through an activation each. They meet before it: one sum, one activation.",
                "輸入和狀態各自通過激勵函數。它們應該先相加：一個總和、一次激勵。",
            ),
        ),
        Mistake(
            "no_care_for_overflow",
            lambda x_t, h_prev, W_X, W_H, b: tanh_by_exponentials(x_t @ W_X + h_prev @ W_H + b),
            HUGE_TANH,
        ),
        Mistake(
            "no_care_for_overflow_above",
            lambda x_t, h_prev, W_X, W_H, b: tanh_by_one_exponential(x_t @ W_X + h_prev @ W_H + b),
            HUGE_TANH,
        ),
        Mistake(
            "no_care_for_overflow_backwards",
            lambda x_t, h_prev, W_X, W_H, b: tanh_by_one_fraction(x_t @ W_X + h_prev @ W_H + b),
            HUGE_TANH_BACKWARDS,
        ),
    ],
    hints=[
        both(
            "You have one neuron. What has to be done so that all of them come out at once?",
            "一個神經元你已經會了。怎樣才能一次算出全部的神經元？",
        ),
        both(
            "Put the columns of the neurons side by side: that is the matrix, as it is handed in. No transpose is needed, "
            "and leading dimensions come along by themselves.",
            "把各神經元的行（column）並排起來，就是傳進來的矩陣。不需要轉置，前面的維度也會自動跟上。",
        ),
        both(
            "Two products of a row vector with a matrix, each of shape [..., d_h]; add both and the bias; one tanh.",
            "兩次「列向量乘矩陣」，形狀都是 [..., d_h]；兩者相加再加偏置；做一次 tanh。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- rnn_sequence


def rnn_sequence(X: Tensor, h_0: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    h, states = h_0, []
    for x_t in X.unbind(dim=1):
        h = torch.tanh(x_t @ W_X + h @ W_H + b)
        states.append(h)
    return torch.stack(states, dim=1)


def walked(X: Tensor, h_0: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> list[Tensor]:
    """h_0, h_1, …, h_T: what the mistakes choose from."""
    states = [h_0]
    for x_t in X.unbind(dim=1):
        states.append(torch.tanh(x_t @ W_X + states[-1] @ W_H + b))
    return states


def walked_in_reverse(X: Tensor, *rest: Tensor) -> list[Tensor]:
    return walked(X.flip(1), *rest)


def walked_along_batch(X: Tensor, h_0: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    h, states = h_0, []
    for x in X:
        h = torch.tanh(x @ W_X + h @ W_H + b)
        states.append(h)
    return torch.stack(states)


def walked_with_cuts(X: Tensor, h_0: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    h, states = h_0, []
    for x_t in X.unbind(dim=1):
        h = torch.tanh(x_t @ W_X + h.detach() @ W_H + b)
        states.append(h)
    return torch.stack(states, dim=1)


def draw_sequence(draw: Draw, B: int, T: int, d_in: int, d_h: int) -> tuple[Tensor, ...]:
    _, h_0, W_X, W_H, b = draw_step(draw, B, d_in=d_in, d_h=d_h)
    return draw.normal(B, T, d_in), h_0, W_X, W_H, b


exercise(
    name="rnn_sequence",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=rnn_sequence,
    results=("states",),
    forbidden=RECURRENCES,
    cases=[
        Case(
            "ordinary",
            both("three sequences of five steps", "三個序列，各五步"),
            lambda d: draw_sequence(d, 3, 5, 2, 4),
            3,
        ),
        Case("one_sequence", both("a single sequence", "只有一個序列"), lambda d: draw_sequence(d, 1, 4, 3, 2), 1.5),
        Case("square", both("as many sequences as steps", "序列數等於步數"), lambda d: draw_sequence(d, 4, 4, 3, 5), 2),
        Case(
            "one_step",
            both("a single step: T = 1", "只走一步：T = 1"),
            lambda d: draw_sequence(d, 2, 1, 3, 2),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_sequence(d, 2, 4, 3, 5)),
        float64(lambda d: draw_sequence(d, 2, 3, 4, 3)),
        gradients(lambda d: draw_sequence(d, 2, 4, 2, 3), 1.5),
    ],
    mistakes=[
        Mistake(
            "state_reset",
            lambda X, h_0, W_X, W_H, b: torch.tanh(X @ W_X + (h_0 @ W_H + b).unsqueeze(1)),
            both(
                "Every step starts from h_0 again, so nothing is remembered. Each step must start from the state that "
                "the step before has left.",
                "每一步都從 h_0 重新出發，什麼也沒記住。每一步都要從上一步留下的狀態出發。",
            ),
        ),
        Mistake(
            "initial_state_ignored",
            lambda X, h_0, W_X, W_H, b: torch.stack(walked(X, torch.zeros_like(h_0), W_X, W_H, b)[1:], dim=1),
            both(
                "You start from zeros. The first step starts from the h_0 that is handed in.",
                "你從 0 開始。第一步要從傳進來的 h_0 開始。",
            ),
        ),
        Mistake(
            "returns_shifted",
            lambda *args: torch.stack(walked(*args)[:-1], dim=1),
            both(
                "Everything is one step late: h_0 stands first and h_T is missing. Store the state after the step, not "
                "before it.",
                "全部晚了一步：第一個是 h_0，最後少了 h_T。要存的是走完這一步之後的狀態，不是之前的。",
            ),
        ),
        Mistake(
            "initial_state_included",
            lambda *args: torch.stack(walked(*args), dim=1),
            both(
                "There are T + 1 states in yours. h_0 was given; only the T new ones are asked for.",
                "你回傳了 T + 1 個狀態。h_0 是題目給的，只要 T 個新的狀態。",
            ),
        ),
        Mistake(
            "time_reversed",
            lambda *args: torch.stack(walked_in_reverse(*args)[1:], dim=1),
            both(
                "You read the sequence from its end. The first step must take the first token.",
                "你從序列的尾端開始讀。第一步要讀第一個。",
            ),
        ),
        Mistake(
            "reads_backwards_in_place",
            lambda *args: torch.stack(walked_in_reverse(*args)[:0:-1], dim=1),
            both(
                "You read from the end and put each state at the place of its token: a network that knows the future "
                "only. Read from the front.",
                "你從尾端讀起，再把狀態放回各自的位置：這樣的網路只知道未來。要從頭讀起。",
            ),
        ),
        Mistake(
            "result_reversed",
            lambda *args: torch.stack(walked(*args)[:0:-1], dim=1),
            both(
                "The states are right but stand in reverse order: h_T first. h_1 belongs at place 0.",
                "狀態都對，但順序顛倒了：h_T 排在最前面。位置 0 應該是 h_1。",
            ),
        ),
        Mistake(
            "batch_time_swapped",
            walked_along_batch,
            both(
                "You walk along the first axis, from one sequence of the batch to the next. Time is the second axis of X.",
                "你沿著第一個軸走，從一個序列走到另一個序列。X 的時間是第二個軸。",
            ),
        ),
        Mistake(
            "stacked_time_first",
            lambda *args: torch.stack(walked(*args)[1:]),
            both(
                "The states are right, but time has become the first axis: stacking puts the new axis in front unless "
                "told otherwise. The shape asked for is [B, T, d_h].",
                "狀態都對，但時間跑到第一個軸去了：疊起來時，新的軸預設放在最前面。要的形狀是 [B, T, d_h]。",
            ),
        ),
        Mistake(
            "last_state_only",
            lambda *args: walked(*args)[-1],
            both(
                "You return the last state alone. All T of them are asked for.",
                "你只回傳最後一個狀態。這題要全部 T 個。",
            ),
        ),
        Mistake(
            "last_state_repeated",
            lambda X, *rest: walked(X, *rest)[-1].unsqueeze(1).expand(-1, X.shape[1], -1),
            both(
                "The last state stands at all T places. Store the state of each step before you go on.",
                "T 個位置放的都是最後一個狀態。每走一步，都要先存下那一步的狀態。",
            ),
        ),
        Mistake(
            "recurrent_weights_transposed",
            lambda X, h_0, W_X, W_H, b: torch.stack(walked(X, h_0, W_X, W_H.mT, b)[1:], dim=1),
            both(
                "W_H is transposed. It is square, so the shapes cannot warn you; use it as it is.",
                "W_H 被轉置了。它是方陣，形狀不會警告你；照原樣使用即可。",
            ),
        ),
        Mistake(
            "bias_missing",
            lambda X, h_0, W_X, W_H, b: torch.stack(walked(X, h_0, W_X, W_H, torch.zeros_like(b))[1:], dim=1),
            both("The bias is missing: it is added in every step.", "少了偏置：每一步都要加。"),
        ),
        Mistake(
            "gradient_cut_between_steps",
            walked_with_cuts,
            both(
                "The states are right, but the gradient ends at each step: the state is cut off from the one before. "
                "It must flow back through all steps, to h_0.",
                "狀態都對，但梯度每一步就斷了：狀態和上一步斷開。梯度要一路傳回去，直到 h_0。",
            ),
        ),
    ],
    hints=[
        both(
            "Here a loop over the tokens cannot be avoided. What does each round need from the one before?",
            "這裡避不開沿著詞元走的迴圈。每一圈需要上一圈的什麼？",
        ),
        both(
            "Keep one state of shape [B, d_h], beginning with h_0. In each round replace it, and put the new one on a "
            "list.",
            "手上保留一個形狀 [B, d_h] 的狀態，一開始是 h_0。每一圈都換成新的，並把新的放進串列。",
        ),
        both(
            "The token of time t, of all sequences, is a slice along the second axis of X. At the end stack the list so "
            "that time is the second axis again.",
            "所有序列在時間 t 的輸入，是 X 沿第二個軸的一片。最後把串列疊起來，讓時間回到第二個軸。",
        ),
    ],
)

# ------------------------------------------------------------------------------------- gradient_through_time


def gradient_through_time(H: Tensor, W_H: Tensor) -> Tensor:
    """Spectral norms of ∂h_T/∂h_t, for every t. Gradients are not judged."""
    J = torch.eye(H.shape[1], dtype=H.dtype, device=H.device)
    norms = [torch.linalg.matrix_norm(J, ord=2)]
    for h in H[1:].flip(0):  # h_T, …, h_2
        J = (W_H * (1 - h**2)) @ J
        norms.append(torch.linalg.matrix_norm(J, ord=2))
    return torch.stack(norms).flip(0)


def through_time(
    factor: Callable[[Tensor, Tensor], Tensor] = lambda W, h: W * (1 - h**2),
    size: Callable[[Tensor], Tensor] = lambda J: torch.linalg.matrix_norm(J, ord=2),
    states: Callable[[Tensor], Tensor] = lambda H: H[1:],
    join: Callable[[Tensor, Tensor], Tensor] = lambda new, J: new @ J,
) -> Callable[[Tensor, Tensor], Tensor]:
    """The norms with one thing done otherwise; `states` are those the factors use, from early to late."""

    def answer(H: Tensor, W_H: Tensor) -> Tensor:
        J = torch.eye(H.shape[1], dtype=H.dtype)
        norms = [size(J)]
        for h in states(H).flip(0):
            J = join(factor(W_H, h), J)
            norms.append(size(J))
        return torch.stack(norms).flip(0)

    return answer


def norms_of_single_steps(H: Tensor, W_H: Tensor) -> list[Tensor]:
    return [torch.linalg.matrix_norm(W_H * (1 - h**2), ord=2) for h in H[1:]]


def product_of_norms(H: Tensor, W_H: Tensor) -> Tensor:
    one = H.new_ones(1)
    singles = torch.stack([one[0], *reversed(norms_of_single_steps(H, W_H))])
    return singles.cumprod(0).flip(0)


def from_the_start(H: Tensor, W_H: Tensor) -> Tensor:
    J = torch.eye(H.shape[1], dtype=H.dtype)
    norms = [torch.linalg.matrix_norm(J, ord=2)]
    for h in H[1:]:
        J = J @ (W_H * (1 - h**2))
        norms.append(torch.linalg.matrix_norm(J, ord=2))
    return torch.stack(norms)


def frobenius_after_one(H: Tensor, W_H: Tensor) -> Tensor:
    """The last entry is 1 as asked for; the others are Frobenius norms."""
    norms = through_time(size=torch.linalg.matrix_norm)(H, W_H)
    return torch.cat([norms[:-1], torch.ones_like(norms[-1:])])


def draw_history(draw: Draw, T: int, d_h: int, std: float) -> tuple[Tensor, Tensor]:
    """States between −0.9 and 0.9, far enough from ±1 for 1 − h² to keep its digits."""
    return draw.uniform(-0.9, 0.9, T, d_h), draw.normal(d_h, d_h, std=std)


exercise(
    name="gradient_through_time",
    lesson=LESSON,
    points=3,
    difficulty=4,
    reference=gradient_through_time,
    results=("norms",),
    forbidden=(*RECURRENCES, *JACOBIANS),
    cases=[
        Case(
            "ordinary",
            both("five states of three neurons", "三個神經元、五個狀態"),
            lambda d: draw_history(d, 5, 3, 0.9),
            3,
        ),
        Case(
            "square", both("as many states as neurons", "狀態數等於神經元數"), lambda d: draw_history(d, 4, 4, 0.7), 2
        ),
        Case(
            "exploding",
            both("large weights: the norms grow", "權重大：範數會變大"),
            lambda d: draw_history(d, 6, 2, 2.5),
            2,
        ),
        Case(
            "vanishing",
            both("small weights: the norms shrink", "權重小：範數會變小"),
            lambda d: draw_history(d, 6, 5, 0.35),
        ),
        Case(
            "one_state",
            both("a single state: T = 1", "只有一個狀態：T = 1"),
            lambda d: draw_history(d, 1, 3, 0.9),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_history(d, 4, 3, 0.9)),
        float64(lambda d: draw_history(d, 4, 2, 1.2)),
    ],
    mistakes=[
        Mistake(
            "derivative_forgotten",
            through_time(factor=lambda W, h: W),
            both(
                "These are the norms of powers of W_H. Each step also passes a tanh, and its slope belongs to the factor.",
                "這是 W_H 各次方的範數。每一步還要經過 tanh，它的斜率也是因子的一部分。",
            ),
        ),
        Mistake(
            "derivative_at_old_state",
            through_time(states=lambda H: H[:-1]),
            both(
                "You take the slope of tanh at the state before the step. The slope is read off from what the step has "
                "put out.",
                "你用的是走這一步之前的狀態來算 tanh 的斜率。斜率要從這一步的輸出讀出來。",
            ),
        ),
        Mistake(
            "tanh_twice",
            through_time(factor=lambda W, h: W * (1 - torch.tanh(h) ** 2)),
            both(
                "You send the states through tanh once more. H holds what has come out of tanh already.",
                "你又把狀態送進 tanh 一次。H 裡的數已經是 tanh 的輸出。",
            ),
        ),
        Mistake(
            "square_forgotten",
            through_time(factor=lambda W, h: W * (1 - h)),
            both(
                "The slope of tanh is not 1 − h: it must be the same for h and −h.",
                "tanh 的斜率不是 1 − h：h 與 −h 的斜率應該相同。",
            ),
        ),
        Mistake(
            "sigmoid_derivative",
            through_time(factor=lambda W, h: W * h * (1 - h)),
            both(
                "h(1 − h) is the slope of the logistic function. The activation of this lesson is tanh.",
                "h(1 − h) 是 logistic 函數的斜率。這一課的激勵函數是 tanh。",
            ),
        ),
        Mistake(
            "slope_on_the_wrong_side",
            through_time(factor=lambda W, h: W * (1 - h**2).unsqueeze(1)),
            both(
                "You multiply the rows of W_H by the slopes. In row form the slope of neuron j belongs to what arrives "
                "at j: a column.",
                "你把斜率乘在 W_H 的列（row）上。列向量的寫法裡，神經元 j 的斜率屬於送進 j 的權重，也就是一行（column）。",
            ),
        ),
        Mistake(
            "recurrent_weights_transposed",
            through_time(factor=lambda W, h: W.mT * (1 - h**2)),
            both(
                "W_H is transposed while the rest is in row form. Either all of the product is transposed, or none of it.",
                "W_H 被轉置了，其餘卻是列向量的寫法。乘積要嘛全部轉置，要嘛都不轉置。",
            ),
        ),
        Mistake(
            "multiplied_in_reverse",
            through_time(join=lambda new, J: J @ new),
            both(
                "The factors are right, their order is not: from left to right the steps follow each other in time.",
                "因子都對，順序不對：由左到右，要照時間先後排。",
            ),
        ),
        Mistake(
            "product_of_norms",
            product_of_norms,
            both(
                "You multiply norms. That is an upper bound: first multiply the matrices, then take one norm.",
                "你把範數相乘，那只是上界。要先把矩陣相乘，再取一次範數。",
            ),
        ),
        Mistake(
            "frobenius_norm",
            through_time(size=lambda J: torch.linalg.matrix_norm(J)),
            both(
                "This is the Frobenius norm, torch's default for matrices. The largest singular value is asked for; "
                "look at your last entry.",
                "這是 Frobenius 範數，也就是 torch 對矩陣的預設。這題要的是最大奇異值；看看你的最後一個數。",
            ),
        ),
        Mistake(
            "frobenius_norm_of_products",
            frobenius_after_one,
            both(
                "Where steps are taken, this is the Frobenius norm, torch's default for matrices: the root of the sum of all "
                "squares. The largest singular value is asked for.",
                "走了至少一步之後，你算的是 Frobenius 範數（所有數的平方和開根號），也就是 torch 對矩陣的預設。這題要的是最大奇異值。",
            ),
        ),
        Mistake(
            "eigenvalue_for_singular_value",
            through_time(size=lambda J: torch.linalg.eigvals(J).abs().max()),
            both(
                "You take the largest eigenvalue. How much a matrix can stretch a vector is its largest singular value.",
                "你取的是最大的特徵值。矩陣最多能把向量拉長幾倍，是最大的奇異值。",
            ),
        ),
        Mistake(
            "single_steps",
            lambda H, W_H: torch.stack([*norms_of_single_steps(H, W_H), H.new_ones(())]),
            both(
                "Each of your entries belongs to one step only. Entry t must look all the way from h_t to the end.",
                "你的每個數都只看一步。第 t 個數要從 h_t 一路看到最後。",
            ),
        ),
        Mistake(
            "reversed_in_time",
            lambda H, W_H: through_time()(H, W_H).flip(0),
            both(
                "The norms are right but stand in reverse order: the last state is nearest to the end, so the 1 stands "
                "last.",
                "範數都對，但順序顛倒了：最後一個狀態離終點最近，所以 1 要排在最後。",
            ),
        ),
        Mistake(
            "from_the_start",
            from_the_start,
            both(
                "You follow the influence of h_1 forwards. Asked for is what each state can still do to the last one.",
                "你算的是 h_1 一路往後的影響。題目問的是每個狀態對最後一個狀態的影響。",
            ),
        ),
        Mistake(
            "one_factor_too_many",
            lambda H, W_H: through_time(states=lambda H: H)(H, W_H)[:-1],
            both(
                "There is one factor too many in every entry. From the last state to itself no step is taken.",
                "每個數都多乘了一個因子。從最後一個狀態到它自己，一步也沒走。",
            ),
        ),
    ],
    hints=[
        both(
            "Begin at the end: what is the derivative of the last state with respect to itself?",
            "從尾端開始想：最後一個狀態對自己的導數是什麼？",
        ),
        both(
            "Going back by one step puts one more factor on the left. The slope of tanh can be read off from its output, "
            "so H is all you need.",
            "往回走一步，就在左邊多乘一個因子。tanh 的斜率可以直接從它的輸出讀出來，所以有 H 就夠了。",
        ),
        both(
            "A matrix times a diagonal matrix: each column gets its own factor, which broadcasting does. Keep the product, "
            "store its spectral norm, and turn the list round at the end.",
            "矩陣乘對角矩陣：每一行（column）各乘一個因子，用廣播就做得到。手上保留乘積，存下它的譜範數，最後把串列倒過來。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------- lstm_step


def draw_lstm(draw: Draw, *leading: int, d_in: int, d_h: int) -> tuple[Tensor, ...]:
    """Cells of size 2, so that tanh(c) is far from c."""
    return (
        draw.normal(*leading, d_in),
        draw.uniform(-1.0, 1.0, *leading, d_h),
        draw.normal(*leading, d_h, std=2.0),
        draw.normal(d_in, 4 * d_h, std=0.8),
        draw.normal(d_h, 4 * d_h, std=0.8),
        draw.normal(4 * d_h, std=0.8),
    )


def draw_far_lstm(draw: Draw) -> tuple[Tensor, ...]:
    """In the first column all gates are shut, in the other two one is open: what overflows where tells gates from tanh."""
    x_t, h_prev, c_prev, W_X, W_H, b = draw_lstm(draw, 3, d_in=2, d_h=3)
    gate_i, gate_f, content, gate_o = [-1, -1, 1], [-1, 1, -1], [1, -1, 1], [-1, -1, 1]
    sign = torch.tensor([*gate_i, *gate_f, *content, *gate_o], dtype=b.dtype)
    return x_t, h_prev, c_prev, W_X, W_H, sign * draw.uniform(110.0, 150.0, 12)


def lstm(
    order: str = "ifgo",
    gate: Callable[[Tensor], Tensor] = torch.sigmoid,
    candidate: Callable[[Tensor], Tensor] = torch.tanh,
    squash: Callable[[Tensor], Tensor] = torch.tanh,
    update: Callable[..., Tensor] = lambda i, f, g, c: f * c + i * g,
    split: Callable[[Tensor], Any] = lambda z: z.chunk(4, dim=-1),
    result: Callable[..., Any] = lambda o, c_prev, c, squash: (o * squash(c), c),
    bias: float = 1.0,
    state: float = 1.0,
) -> Callable[..., Any]:
    """An LSTM step with one thing done otherwise."""

    def step(x_t: Tensor, h_prev: Tensor, c_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Any:
        z = dict(zip(order, split(x_t @ W_X + state * (h_prev @ W_H) + bias * b)))
        c = update(gate(z["i"]), gate(z["f"]), candidate(z["g"]), c_prev)
        return result(gate(z["o"]), c_prev, c, squash)

    return step


exercise(
    name="lstm_step",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=lstm_step,
    results=("h_t", "c_t"),
    forbidden=RECURRENCES,
    cases=[
        Case("vector", both("one vector", "一個向量"), lambda d: draw_lstm(d, d_in=3, d_h=2), 3),
        Case("batch", both("a batch of vectors", "一批向量"), lambda d: draw_lstm(d, 4, d_in=2, d_h=5), 2),
        Case(
            "equal_sizes",
            both("d_in = d_h, a batch of four", "d_in = d_h，批次為四"),
            lambda d: draw_lstm(d, 4, d_in=4, d_h=4),
        ),
        Case(
            "deep_batch", both("two leading dimensions", "前面有兩個維度"), lambda d: draw_lstm(d, 2, 3, d_in=5, d_h=3)
        ),
        Case("ones", ALL_ONE, lambda d: draw_lstm(d, 1, d_in=1, d_h=1), 0.5, trap=True),
        Case("far", FAR_FROM_ZERO, draw_far_lstm, gradients=True, trap=True),
        noncontiguous(lambda d: draw_lstm(d, 3, d_in=2, d_h=4)),
        float64(lambda d: draw_lstm(d, 2, d_in=3, d_h=3)),
        gradients(lambda d: draw_lstm(d, 2, d_in=3, d_h=2)),
    ],
    mistakes=[
        Mistake(
            "gate_order_ifog",
            lstm(order="ifog"),
            both(
                "You read the blocks as i, f, o, g. PyTorch's order is i, f, g, o: the candidate stands third.",
                "你把四塊讀成 i、f、o、g。PyTorch 的順序是 i、f、g、o：候選值排第三。",
            ),
        ),
        Mistake(
            "input_forget_swapped",
            lstm(order="figo"),
            both(
                "Input gate and forget gate have changed places. The first block decides what comes in, the second what "
                "stays.",
                "輸入閘和遺忘閘對調了。第一塊決定放多少進來，第二塊決定留下多少。",
            ),
        ),
        Mistake(
            "gate_order_fiog",
            lstm(order="fiog"),
            both(
                "You read the blocks as f, i, o, g, gates first. PyTorch's order is i, f, g, o.",
                "你把四塊讀成 f、i、o、g，閘門排在前面。PyTorch 的順序是 i、f、g、o。",
            ),
        ),
        Mistake(
            "candidate_first",
            lstm(order="gfio"),
            both(
                "You read the first block as the candidate and the third as the input gate. PyTorch's order is i, f, g, o.",
                "你把第一塊當成候選值、第三塊當成輸入閘。PyTorch 的順序是 i、f、g、o。",
            ),
        ),
        Mistake(
            "gates_interleaved",
            lstm(split=lambda z: z.unflatten(-1, (-1, 4)).unbind(-1)),
            both(
                "You take every fourth column. A gate is a block of d_h columns side by side.",
                "你每四行（column）取一行。一個閘門是相鄰的 d_h 行，自成一塊。",
            ),
        ),
        Mistake(
            "candidate_sigmoid",
            lstm(candidate=torch.sigmoid),
            both(
                "Your candidate goes through the logistic function like a gate. It is content, not a gate, and may be "
                "negative.",
                "你的候選值和閘門一樣通過了 logistic 函數。它是內容、不是閘門，可以是負的。",
            ),
        ),
        Mistake(
            "candidate_without_tanh",
            lstm(candidate=lambda g: g),
            both(
                "The candidate goes into the cell as it is. It has an activation of its own, which keeps it between −1 "
                "and 1.",
                "候選值原封不動就進了記憶細胞。它有自己的激勵函數，讓它落在 −1 與 1 之間。",
            ),
        ),
        Mistake(
            "gates_tanh",
            lstm(gate=torch.tanh),
            both(
                "Your gates can be negative. A gate says how much to let through, from 0 to 1.",
                "你的閘門可能是負的。閘門說的是放行多少，從 0 到 1。",
            ),
        ),
        Mistake(
            "nothing_forgotten",
            lstm(update=lambda i, f, g, c: c + i * g),
            both(
                "The old cell is kept whole. The forget gate decides, entry by entry, how much of it stays.",
                "舊的記憶細胞整個留了下來。遺忘閘要逐元素決定留下多少。",
            ),
        ),
        Mistake(
            "coupled_gates",
            lstm(update=lambda i, f, g, c: (1 - i) * c + i * g),
            both(
                "You keep what the input gate leaves room for. Here the forget gate decides on its own.",
                "你留下的是輸入閘剩下的份量。在這裡，遺忘閘是自己決定的。",
            ),
        ),
        Mistake(
            "forgets_the_rest",
            lstm(update=lambda i, f, g, c: (1 - f) * c + i * g),
            both(
                "You keep 1 minus the forget gate. In spite of its name the gate says how much of the old cell is kept: 1 "
                "keeps all.",
                "你留下的是 1 減遺忘閘。它雖然叫遺忘閘，說的卻是舊的記憶細胞留下多少：1 表示全部留下。",
            ),
        ),
        Mistake(
            "gates_added",
            lstm(update=lambda i, f, g, c: f + c + i * g),
            both(
                "The forget gate is added to the old cell. A gate multiplies.",
                "遺忘閘被加到舊的記憶細胞上了。閘門要用乘的。",
            ),
        ),
        Mistake(
            "output_without_tanh",
            lstm(squash=lambda c: c),
            both(
                "The cell leaves through the output gate as it is, so your state can grow beyond 1. It goes through an "
                "activation first.",
                "記憶細胞原封不動就通過輸出閘，你的狀態可能大過 1。它要先通過激勵函數。",
            ),
        ),
        Mistake(
            "old_cell_in_output",
            lstm(result=lambda o, c_prev, c, squash: (o * squash(c_prev), c)),
            both(
                "Your state shows the old cell. First renew the cell, then let the new one out.",
                "你的狀態用的是舊的記憶細胞。要先更新，再把新的送出去。",
            ),
        ),
        Mistake(
            "states_swapped",
            lstm(result=lambda o, c_prev, c, squash: (c, o * squash(c))),
            both(
                "The two results have changed places: first the state h, then the cell c.",
                "兩個結果對調了：先狀態 h，再記憶細胞 c。",
            ),
        ),
        Mistake(
            "state_only",
            lstm(result=lambda o, c_prev, c, squash: o * squash(c)),
            both(
                "You return the state alone. The cell is asked for as well, as the second part of a tuple.",
                "你只回傳狀態。記憶細胞也要回傳，放在 tuple 的第二個。",
            ),
        ),
        Mistake(
            "bias_missing",
            lstm(bias=0.0),
            both("Both products are there, the bias is not.", "兩個乘積都有了，少了偏置。"),
        ),
        Mistake(
            "state_forgotten",
            lstm(state=0.0),
            both(
                "The gates see the input only. The state of the step before helps to decide too.",
                "閘門只看到輸入。上一步的狀態也要參與決定。",
            ),
        ),
        Mistake(
            "no_care_for_overflow",
            lstm(candidate=tanh_by_exponentials, squash=tanh_by_exponentials),
            HUGE_TANH,
        ),
        Mistake(
            "no_care_for_overflow_above",
            lstm(candidate=tanh_by_one_exponential, squash=tanh_by_one_exponential),
            HUGE_TANH,
        ),
        Mistake(
            "no_care_for_overflow_backwards",
            lstm(candidate=tanh_by_one_fraction, squash=tanh_by_one_fraction),
            HUGE_TANH_BACKWARDS,
        ),
        Mistake(
            "sigmoid_overflows_backwards",
            lstm(gate=sigmoid_by_one_fraction),
            both(
                "The values are right, but where a gate is shut your logistic function passes an infinite exponential, and on "
                "the way back 0 times infinity is NaN. torch has one that is safe.",
                "數值是對的，但閘門關上時，你的 logistic 函數中途有個指數是無限大，反向傳播時 0 乘以無限大就變成 NaN。"
                "torch 有現成、安全的。",
            ),
        ),
        Mistake(
            "sigmoid_overflows",
            lstm(gate=sigmoid_by_exponentials),
            both(
                "Right for small sums, but your logistic function divides one huge exponential by another: beyond 88 they are "
                "infinite in float32. torch has one that is safe.",
                "總和小的時候是對的，但你的 logistic 函數拿兩個巨大的指數相除：float32 超過 88 就是無限大。torch 有現成、安全的。",
            ),
        ),
    ],
    hints=[
        both(
            "One product gives all four blocks at once, of shape [..., 4 d_h]. What comes first is cutting it into four.",
            "一次乘法就得到四塊，形狀 [..., 4 d_h]。第一件事是把它切成四塊。",
        ),
        both(
            "Three of the four are gates and lie between 0 and 1; one is content and lies between −1 and 1. Which "
            "activation does which?",
            "四塊之中，三塊是閘門，落在 0 與 1 之間；一塊是內容，落在 −1 與 1 之間。各該用哪個激勵函數？",
        ),
        both(
            "Renew the cell first: what stays of the old one plus what comes in. Then the state: the new cell, squashed, "
            "through the output gate. All of it entry by entry.",
            "先更新記憶細胞：舊的留下多少，加上新的放進多少。再算狀態：新的記憶細胞壓縮之後通過輸出閘。全部都是逐元素運算。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------ sequential_steps


def sequential_steps(n_tokens: int, n_layers: int = 1) -> tuple[int, int]:
    return n_tokens + n_layers - 1, n_layers


exercise(
    name="sequential_steps",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=sequential_steps,
    results=("rnn", "attention"),
    cases=[
        Case("one_layer", both("a sentence, one layer", "一個句子、一層"), lambda d: (d.integer(5, 40),), 2),
        Case(
            "layers",
            both("a sentence, several layers", "一個句子、好幾層"),
            lambda d: (d.integer(10, 40), d.integer(2, 8)),
            3,
        ),
        Case(
            "by_name",
            both("more layers than tokens, by name", "層數比詞元多，用名稱傳入"),
            lambda d: ((d.integer(2, 6),), {"n_layers": d.integer(7, 12)}),
            2,
        ),
        Case(
            "long", both("a long document", "一份很長的文件"), lambda d: (d.integer(10_000, 99_999), d.integer(20, 96))
        ),
        Case(
            "one_token",
            both("a single token, several layers", "只有一個詞元、好幾層"),
            lambda d: (1, d.integer(2, 9)),
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "counts_all_cells",
            lambda n_tokens, n_layers=1: (n_tokens * n_layers, n_layers),
            both(
                "You counted all cells of the RNN. While layer 2 reads token 1, layer 1 already reads token 2: not all of "
                "them wait for each other.",
                "你數了 RNN 的所有格子。第 2 層在讀第 1 個詞元時，第 1 層已經在讀第 2 個：它們並不是全都要互相等。",
            ),
        ),
        Mistake(
            "rnn_ignores_depth",
            lambda n_tokens, n_layers=1: (n_tokens, n_layers),
            both(
                "Right for one layer. After the last token has gone through the lowest layer, the layers above it still "
                "have to read it.",
                "只有一層時是對的。最後一個詞元通過最底層之後，上面各層還得讀它。",
            ),
        ),
        Mistake(
            "depth_ignored",
            lambda n_tokens, n_layers=1: (n_tokens, 1),
            both(
                "Right for one layer. With several, a layer needs what the layer below has put out, in an RNN and in attention.",
                "只有一層時是對的。疊了好幾層時，每一層都要等下面那一層的輸出，RNN 和注意力都一樣。",
            ),
        ),
        Mistake(
            "off_by_one",
            lambda n_tokens, n_layers=1: (n_tokens + n_layers, n_layers),
            both(
                "One too many for the RNN. Try one token and one layer: how many evaluations are there?",
                "RNN 的步數多了一步。試試一個詞元、一層：總共要算幾次？",
            ),
        ),
        Mistake(
            "attention_counts_pairs",
            lambda n_tokens, n_layers=1: (n_tokens + n_layers - 1, n_tokens**2),
            both(
                "You counted the pairs of tokens. That is attention's work; none of the pairs has to wait for another.",
                "你數的是詞元的配對數。那是注意力的工作量；沒有任何一對需要等另一對。",
            ),
        ),
        Mistake(
            "attention_counts_pairs_of_all_layers",
            lambda n_tokens, n_layers=1: (n_tokens + n_layers - 1, n_tokens**2 * n_layers),
            both(
                "For attention you counted all pairs in all layers. That is its work; inside a layer no pair has to wait "
                "for another.",
                "注意力那邊你數了每一層的所有配對。那是它的工作量；同一層裡沒有任何一對需要等另一對。",
            ),
        ),
        Mistake(
            "attention_walks_along_tokens",
            lambda n_tokens, n_layers=1: (n_tokens + n_layers - 1, n_tokens + n_layers - 1),
            both(
                "Your attention waits along the tokens, as an RNN does. A layer of attention evaluates all positions at "
                "once.",
                "你的注意力和 RNN 一樣，一個詞元等一個詞元。一層注意力是所有位置同時算的。",
            ),
        ),
        Mistake(
            "attention_always_one",
            lambda n_tokens, n_layers=1: (n_tokens + n_layers - 1, 1),
            both(
                "Right for one layer. A second layer of attention needs what the first has put out.",
                "只有一層時是對的。第二層注意力要等第一層的輸出。",
            ),
        ),
        Mistake(
            "pair_swapped",
            lambda n_tokens, n_layers=1: (n_layers, n_tokens + n_layers - 1),
            both(
                "The two numbers have changed places: first the RNN, then attention.",
                "兩個數對調了：先 RNN，再注意力。",
            ),
        ),
    ],
    hints=[
        both(
            "Draw the cells as a grid, tokens to the right and layers upwards, with an arrow wherever one waits for "
            "another. What is the longest path along arrows?",
            "把格子畫成方格：詞元往右、層往上，誰要等誰就畫一個箭頭。沿著箭頭走，最長的路有多長？",
        ),
        both(
            "In the grid of an RNN a path goes right or up. From the lower left corner to the upper right one all longest "
            "paths have the same length. For attention, all arrows go up.",
            "RNN 的方格裡，路只能往右或往上。從左下角到右上角，最長的路都一樣長。注意力的箭頭則全部往上。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- question

question(
    name="01_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "weights_change",
            "a",
            both(
                "The same W_X, W_H and b serve every step; they change only between training steps. What is new at each "
                "step is the state.",
                "每一步用的都是同一組 W_X、W_H 與 b，只有訓練更新時才會變。每一步在變的是狀態。",
            ),
        ),
        Mistake(
            "softmax",
            "b",
            both(
                "An RNN has no softmax between its steps. Attention has one, and computes all positions at once all the "
                "same.",
                "RNN 的步與步之間沒有 softmax。注意力才有，卻照樣所有位置一起算。",
            ),
        ),
        Mistake(
            "memory",
            "c",
            both(
                "In training all T states are kept anyway, for the way back; and attention needs more memory, not less. "
                "It is not space that is missing.",
                "訓練時 T 個狀態本來就全部留著，好做反向傳播；而且注意力要的記憶體只多不少。缺的不是空間。",
            ),
        ),
    ],
    hints=[
        both(
            "Which numbers must be known before h_t can be computed? And which for another sequence, or another neuron of "
            "the same step?",
            "要算 h_t 之前，必須先知道哪些數？換成另一個序列，或同一步的另一個神經元呢？",
        ),
    ],
)
