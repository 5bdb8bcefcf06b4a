"""Lesson 00, two facts: the inner product, a matrix product seen in two ways, softmax, and an embedding.

Shapes: p entries of a vector; n, p, m sizes of matrices; V vocabulary, d_model; `...` stands for leading dimensions,
none included.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import EMBEDDINGS, PRODUCTS, SOFTMAXES
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous
from autograder.text import both

LESSON = "00_two_facts"


def times(A: Tensor, B: Tensor) -> Tensor:
    """AB by broadcasting: not even a mistake may call what the exercises forbid."""
    return (A.unsqueeze(-1) * B).sum(dim=-2)


# ---------------------------------------------------------------------------------------------- inner_product


def inner_product(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum()


def draw_vectors(draw: Draw, p: int, std: float = 2.0) -> tuple[Tensor, Tensor]:
    return draw.normal(p, std=std), draw.normal(p, mean=0.5, std=std)


def draw_perpendicular(draw: Draw) -> tuple[Tensor, Tensor]:
    """(a, b, c, d) and (−b, a, −d, c): every product has its opposite, and the inner product is 0."""
    a, b, c, d = draw.uniform(1.0, 3.0, 4)
    return torch.stack([a, b, c, d]), torch.stack([-b, a, -d, c])


exercise(
    name="inner_product",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=inner_product,
    results=("the inner product",),
    forbidden=PRODUCTS,
    cases=[
        Case("short", both("two vectors of length 3", "兩個長度 3 的向量"), lambda d: draw_vectors(d, 3), 3),
        Case("long", both("two vectors of length 40", "兩個長度 40 的向量"), lambda d: draw_vectors(d, 40), 2),
        Case(
            "perpendicular",
            both("perpendicular vectors: the result is 0", "互相垂直的向量：結果是 0"),
            draw_perpendicular,
            magnitude=9.0,
        ),
        Case(
            "one_entry", both("a single entry: p = 1", "只有一個分量：p = 1"), lambda d: draw_vectors(d, 1), trap=True
        ),
        float64(lambda d: draw_vectors(d, 6)),
        gradients(lambda d: draw_vectors(d, 5)),
    ],
    mistakes=[
        Mistake(
            "no_sum",
            lambda u, v: u * v,
            both(
                "You multiplied entry by entry and stopped there. An inner product is one number: what is left to do with "
                "the products?",
                "你做完逐元素相乘就停下來了。內積是一個數：這些乘積接下來還要怎麼辦？",
            ),
        ),
        Mistake(
            "mean_instead_of_sum",
            lambda u, v: (u * v).mean(),
            both(
                "Your result is the average of the products, p times too small. An inner product adds them up and divides "
                "by nothing.",
                "你的結果是乘積的平均，小了 p 倍。內積只把乘積加起來，不除以任何數。",
            ),
        ),
        Mistake(
            "sum_times_sum",
            lambda u, v: u.sum() * v.sum(),
            both(
                "You added up each vector first and multiplied the two sums. Multiply first, partner by partner, and add "
                "up afterwards.",
                "你先把兩個向量各自加總，再把兩個和相乘。要先兩兩相乘，之後才加總。",
            ),
        ),
        Mistake(
            "sum_of_sums",
            lambda u, v: (u + v).sum(),
            both(
                "You added the entries where they should be multiplied.",
                "該相乘的地方，你用了相加。",
            ),
        ),
        Mistake(
            "cosine_similarity",
            lambda u, v: (u * v).sum() / (u.norm() * v.norm()),
            both(
                "Your result is the cosine of the angle: the lengths have been divided out. The inner product keeps them.",
                "你的結果是夾角的餘弦：長度被除掉了。內積要保留長度。",
            ),
        ),
        Mistake(
            "product_of_lengths",
            lambda u, v: u.norm() * v.norm(),
            both(
                "Your result is length times length, as if the two vectors pointed the same way.",
                "你的結果是長度乘長度，等於假設兩個向量方向相同。",
            ),
        ),
        Mistake(
            "squared_distance",
            lambda u, v: ((u - v) ** 2).sum(),
            both(
                "Your result is a squared distance: 0 when the vectors agree. An inner product multiplies, it does not "
                "subtract.",
                "你的結果是距離的平方：兩個向量一樣時會得到 0。內積用的是相乘，不是相減。",
            ),
        ),
        Mistake(
            "sizes_added",
            lambda u, v: (u * v).abs().sum(),
            both(
                "You add up the sizes of the products. A negative product counts as negative: it says that the two "
                "vectors disagree there.",
                "你把乘積的大小（絕對值）加起來了。負的乘積就要算負的：它表示兩個向量在那裡方向相反。",
            ),
        ),
        Mistake(
            "all_pairs",
            lambda u, v: u[:, None] * v,
            both(
                "You multiplied every entry of u with every entry of v. Only partners meet: the first with the first, "
                "the second with the second.",
                "你把 u 的每個分量和 v 的每個分量都乘了。只有同位置的才配對：第一個配第一個，第二個配第二個。",
            ),
        ),
        Mistake(
            "axis_kept",
            lambda u, v: (u * v).sum(dim=0, keepdim=True),
            both(
                "The number is right, but it sits in a vector of length 1. A 0-d tensor, of shape [], is asked for.",
                "數是對的，但它裝在長度為 1 的向量裡。要的是 0 維張量，形狀是 []。",
            ),
        ),
        Mistake(
            "python_number",
            lambda u, v: (u * v).sum().item(),
            both(
                "The number is right, but it comes back as a Python float, and no gradient can flow through that. Keep it "
                "a 0-d tensor.",
                "數是對的，但回傳的是 Python 的 float，梯度傳不過去。要保持 0 維張量。",
            ),
        ),
    ],
    hints=[
        both(
            "Do it by hand for two short vectors: which numbers meet, and what becomes of the products?",
            "先拿兩個短向量手算：哪些數會配對？得到的乘積再怎麼處理？",
        ),
        both(
            "In torch the star multiplies two vectors entry by entry. One more step makes one number of the result.",
            "在 torch 裡，星號會把兩個向量逐元素相乘。再一步，就能把結果變成一個數。",
        ),
    ],
)

# --------------------------------------------------------------------------------- matmul_as_inner_products


def matmul_as_inner_products(A: Tensor, B: Tensor) -> Tensor:
    return (A[:, None, :] * B.mT[None, :, :]).sum(dim=-1)


def draw_matrices(draw: Draw, n: int, p: int, m: int) -> tuple[Tensor, Tensor]:
    """A: [n, p], B: [p, m]."""
    return draw.normal(n, p, std=2.0), draw.normal(p, m, mean=0.5)


exercise(
    name="matmul_as_inner_products",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=matmul_as_inner_products,
    results=("C",),
    forbidden=PRODUCTS,
    cases=[
        Case(
            "rectangles",
            both("[2, 3] times [3, 4]", "[2, 3] 乘 [3, 4]"),
            lambda d: draw_matrices(d, 2, 3, 4),
            3,
        ),
        Case(
            "square",
            both("n = p = m = 4: every shape fits", "n = p = m = 4：怎麼乘形狀都對"),
            lambda d: draw_matrices(d, 4, 4, 4),
            3,
        ),
        Case(
            "tall",
            both("[5, 2] times [2, 3]", "[5, 2] 乘 [2, 3]"),
            lambda d: draw_matrices(d, 5, 2, 3),
            2,
        ),
        Case(
            "single",
            both("one row times one column: [1, 5] times [5, 1]", "一列乘一行：[1, 5] 乘 [5, 1]"),
            lambda d: draw_matrices(d, 1, 5, 1),
            trap=True,
        ),
        noncontiguous(lambda d: draw_matrices(d, 3, 5, 2)),
        float64(lambda d: draw_matrices(d, 3, 4, 2)),
        gradients(lambda d: draw_matrices(d, 2, 4, 3)),
    ],
    mistakes=[
        Mistake(
            "elementwise",
            lambda A, B: A * B,
            both(
                "You multiplied entry by entry, which fits only when both matrices have the same shape. Each entry of C "
                "needs a whole row and a whole column.",
                "你做的是逐元素相乘，只有兩個矩陣形狀相同時才行得通。C 的每一個數，都要用到一整列和一整行。",
            ),
        ),
        Mistake(
            "rows_of_B",
            lambda A, B: times(A, B.mT),
            both(
                "Your rows of A meet the rows of B. Row first, then column: what of B do they have to meet?",
                "你讓 A 的列（row）遇到 B 的列。口訣是先列後行：它們該遇到的是 B 的什麼？",
            ),
        ),
        Mistake(
            "columns_of_A",
            lambda A, B: times(A.mT, B),
            both(
                "Your columns of A meet the columns of B. Row first, then column: what of A has to go there?",
                "你讓 A 的行（column）遇到 B 的行。口訣是先列後行：A 該拿出來的是什麼？",
            ),
        ),
        Mistake(
            "columns_by_rows",
            lambda A, B: times(A.mT, B.mT),
            both(
                "Your columns of A meet the rows of B: the order is turned round. It is row first, then column.",
                "你讓 A 的行（column）遇到 B 的列（row），順序反了。應該是先列後行，而臺灣的列是 row，行是 column。",
            ),
        ),
        Mistake(
            "swapped_factors",
            lambda A, B: times(B, A),
            both(
                "You computed BA. The order of the factors matters: the rows come from the first one, A.",
                "你算的是 BA。矩陣乘法的順序不能對調：列要從前面的 A 取。",
            ),
        ),
        Mistake(
            "transposed_result",
            lambda A, B: times(A, B).mT,
            both(
                "The numbers are right, but they lie in the transposed places. Entry (i, j) stands in row i, and i counts "
                "the rows of A.",
                "數字都對，但放在轉置後的位置。第 (i, j) 個數在第 i 列，而 i 數的是 A 的列。",
            ),
        ),
        Mistake(
            "not_summed",
            lambda A, B: A[:, None, :] * B.mT[None, :, :],
            both(
                "All the products are there, in three dimensions, but they have not been added up. One axis has to go.",
                "所有的乘積都在，排成三個維度，但還沒加總。有一個軸要加掉。",
            ),
        ),
        Mistake(
            "summed_over_rows",
            lambda A, B: A.sum(dim=1, keepdim=True) * B.sum(dim=0),
            both(
                "You added up each row and each column first and multiplied the sums. Multiply first, partner by partner.",
                "你先把每一列、每一行各自加總，再把和相乘。要先兩兩相乘。",
            ),
        ),
        Mistake(
            "mean_instead_of_sum",
            lambda A, B: times(A, B) / A.shape[1],
            both(
                "Your entries are averages of products, p times too small. An inner product divides by nothing.",
                "你的每個數都是乘積的平均，小了 p 倍。內積不除以任何數。",
            ),
        ),
        Mistake(
            "first_row_only",
            lambda A, B: times(A[0], B),
            both(
                "Only the first row of C comes back. Does your function return too early, inside the loop?",
                "只回傳了 C 的第一列。是不是在迴圈裡太早 return 了？",
            ),
        ),
        Mistake(
            "last_column_only",
            # A matrix that is filled in a loop whose inner variable is left at its last value.
            lambda A, B: times(A, B[:, -1:]).expand(-1, B.shape[1]),
            both(
                "Every column of your C is the last one: all entries of a row meet the same column of B.",
                "你的 C 每一行都和最後一行相同：同一列的每個數，用的都是 B 的同一行。",
            ),
        ),
        Mistake(
            "flat_list",
            lambda A, B: times(A, B).flatten(),
            both(
                "The numbers are right and in the right order, but in one long vector. C has rows and columns.",
                "數字和順序都對，但全排成一長條向量。C 有列也有行。",
            ),
        ),
        Mistake(
            "squeezed",
            lambda A, B: times(A, B).squeeze(),
            both(
                "With a single row and a single column your result loses its axes. It is still a matrix, of shape [1, 1].",
                "只有一列一行的時候，你的結果少了軸。它仍是矩陣，形狀是 [1, 1]。",
            ),
        ),
    ],
    hints=[
        both(
            "Take one entry first, the one in row 0 and column 0. Which row and which column make it?",
            "先看一個數就好：第 0 列第 0 行的那個。它是由哪一列和哪一行做出來的？",
        ),
        both(
            "Two loops, one over the rows of A and one over the columns of B, and an inner product inside. A slice with a "
            "colon takes a whole column.",
            "兩層迴圈：一層走 A 的列，一層走 B 的行，裡面做一次內積。用冒號切片可以取出一整行。",
        ),
        both(
            "To keep gradients alive, collect the entries in lists and stack them into a tensor, or fill a new matrix that "
            "has the dtype of A. A tensor made of Python numbers is cut off from A and B.",
            "要讓梯度傳得回去，可以把各個數收進串列再疊成張量，或填進一個 dtype 與 A 相同的新矩陣。"
            "由 Python 的數做成的張量，會和 A、B 斷開。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- row_combination


def row_combination(x: Tensor, A: Tensor) -> Tensor:
    return (x[:, None] * A).sum(dim=0)


def draw_weights_and_rows(draw: Draw, m: int, n: int) -> tuple[Tensor, Tensor]:
    """x: [m], A: [m, n]."""
    return draw.normal(m, mean=0.5, std=1.5), draw.normal(m, n, std=2.0)


def draw_signed_weights(draw: Draw) -> tuple[Tensor, Tensor]:
    """Weights that are negative, zero and large, in an order that changes."""
    sizes = torch.tensor([-2.0, 0.0, 3.0, -0.5, 1.5], dtype=draw.dtype) * draw.uniform(0.8, 1.2, 5)
    return sizes[draw.permutation(5)], draw.normal(5, 3, std=2.0)


exercise(
    name="row_combination",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=row_combination,
    results=("xA",),
    forbidden=PRODUCTS,
    cases=[
        Case(
            "four_rows", both("four rows of length 3", "四列，每列長度 3"), lambda d: draw_weights_and_rows(d, 4, 3), 3
        ),
        Case(
            "square",
            both("as many rows as columns: m = n", "列數等於行數：m = n"),
            lambda d: draw_weights_and_rows(d, 4, 4),
            3,
        ),
        Case("signs", both("weights below 0 and equal to 0", "權重有負數，也有 0"), draw_signed_weights, 2),
        Case("one_row", both("one row: m = 1", "只有一列：m = 1"), lambda d: draw_weights_and_rows(d, 1, 4), trap=True),
        Case(
            "one_entry",
            both("one row of one entry: m = n = 1", "只有一列，列裡只有一個數：m = n = 1"),
            lambda d: draw_weights_and_rows(d, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_weights_and_rows(d, 3, 5)),
        float64(lambda d: draw_weights_and_rows(d, 5, 2)),
        gradients(draw_signed_weights),  # a weight of 0 has a gradient too
    ],
    mistakes=[
        Mistake(
            "column_combination",
            lambda x, A: times(x, A.mT),
            both(
                "You mixed the columns of A: that is Ax. With x on the left, each entry of x weighs a row.",
                "你混合的是 A 的行（column），那是 Ax。x 寫在左邊時，x 的每個分量是一列（row）的權重。",
            ),
        ),
        Mistake(
            "rows_not_summed",
            lambda x, A: x[:, None] * A,
            both(
                "Each row has its weight, but the rows are still apart. A combination is one vector: add them up.",
                "每一列都乘上權重了，但各列還分開放著。線性組合是一個向量：要把它們加起來。",
            ),
        ),
        Mistake(
            "summed_along_rows",
            lambda x, A: (x[:, None] * A).sum(dim=1),
            both(
                "You added up inside each row, one number a row. The rows themselves have to be added, entry by entry.",
                "你在每一列裡面加總，一列得到一個數。應該是列與列相加，逐元素地加。",
            ),
        ),
        Mistake(
            "weights_on_columns",
            lambda x, A: (x * A).sum(dim=0),
            both(
                "Your weights went to the columns: broadcasting lines x up with the last axis. Each entry of x belongs to "
                "one row.",
                "你的權重乘到行（column）上了：廣播（broadcasting）會讓 x 對齊最後一個軸。x 的每個分量屬於一列（row）。",
            ),
        ),
        Mistake(
            "unweighted_sum",
            lambda x, A: A.sum(dim=0) + 0 * x.sum(),
            both(
                "You added up the rows as they are. Where do the entries of x come in?",
                "你把各列原封不動加起來了。x 的分量要用在哪裡？",
            ),
        ),
        Mistake(
            "weights_normalised",
            lambda x, A: times(x / x.sum(), A),
            both(
                "You divided the weights by their sum. Weights of a combination may sum to anything; use them as they are.",
                "你把權重除以總和了。線性組合的權重加起來是多少都行，請直接使用。",
            ),
        ),
        Mistake(
            "weights_by_softmax",
            lambda x, A: times(torch.softmax(x, dim=0), A),
            both(
                "You applied a softmax to the weights. It has its own exercise further down; here x is used as it is.",
                "你先對權重做了 softmax。那是後面另一題的事，這裡的 x 直接使用。",
            ),
        ),
        Mistake(
            "mean_of_rows",
            lambda x, A: times(x, A) / A.shape[0],
            both(
                "You divided by the number of rows. A combination adds up and divides by nothing.",
                "你除以了列數。線性組合只相加，不除以任何數。",
            ),
        ),
        Mistake(
            "negative_weights_dropped",
            lambda x, A: times(x.clamp(min=0), A),
            both(
                "Right where all weights are positive. A negative weight counts too: it subtracts its row.",
                "權重都是正數時是對的。負的權重也算數：它會把那一列減掉。",
            ),
        ),
        Mistake(
            "sizes_as_weights",
            lambda x, A: times(x.abs(), A),
            both(
                "You used the sizes of the weights and lost their signs. A negative weight subtracts its row.",
                "你用的是權重的大小（絕對值），正負號不見了。負的權重會把那一列減掉。",
            ),
        ),
        Mistake(
            "zero_weights_skipped",
            lambda x, A: torch.where(x[:, None] != 0, x[:, None] * A, 0.0).sum(dim=0),
            both(
                "The values are right, but you leave out the rows whose weight is 0, and no gradient reaches such a weight. "
                "If it rose from 0, its row would come in: let every row take part.",
                "數值是對的，但你跳過了權重是 0 的列，梯度就傳不到那些權重。權重從 0 往上加，那一列就會進來：每一列都要參與計算。",
            ),
        ),
        Mistake(
            "row_matrix",
            lambda x, A: times(x[None], A),
            both(
                "The numbers are right, but they come as a matrix of one row. A vector of shape [n] is asked for.",
                "數字都對，但回傳的是只有一列的矩陣。要的是形狀 [n] 的向量。",
            ),
        ),
        Mistake(
            "squeezed_weights",
            # Adds up the weighted rows over whatever axis a single row leaves.
            lambda x, A: (x[:, None] * A).squeeze(0).sum(dim=0),
            both(
                "With a single row your result becomes one number. One weighted row is still a vector of length n.",
                "只有一列的時候，你的結果變成一個數。一列乘上權重，仍是長度 n 的向量。",
            ),
        ),
    ],
    hints=[
        both(
            "Start from the picture: row 0 of A stretched by the first entry of x, row 1 by the second, and then all of "
            "them on one pile.",
            "從圖想起：A 的第 0 列伸縮 x 的第一個分量倍，第 1 列伸縮第二個分量倍，最後全部疊在一起。",
        ),
        both(
            "A loop over the rows will do: start from zeros and add one weighted row after another. Without a loop, give x "
            "a second axis, so that each weight spreads along its row.",
            "寫迴圈走過每一列就行：從零向量開始，一列一列加上去。不用迴圈的話，替 x 多加一個軸，讓每個權重沿著自己那一列展開。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- softmax


def softmax(scores: Tensor, dim: int = -1) -> Tensor:
    e = torch.exp(scores - scores.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def exponentials(scores: Tensor, dim: int) -> Tensor:
    """exp(s), the largest of each row brought to 1 first: for mistakes that lie elsewhere."""
    return torch.exp(scores - scores.amax(dim, keepdim=True))


def draw_scores(draw: Draw, *shape: int, dim: int | None = None) -> tuple[Any, ...]:
    """Scores far from 0 with rows of different levels; dim by position."""
    scores = draw.normal(*shape, mean=1.0, std=2.0)
    return (scores,) if dim is None else (scores, dim)


# Along the last axis: nothing but the maximum is safe to subtract. The largest is neither first nor last, nor near the
# mean, the median or the largest size.
LEVELS = [
    [-1.0, 1.0, 1.0, -1.0, -1.0],
    [-1.0, -1.0, -1.0, -1.0, -2.0],
    [1.0, 1.0, -1.0, -1.0, -1.0],
    [-2.0, -2.0, 1.0, 1.0, -2.0],
]


def draw_far_scores(draw: Draw, level: float, dim: int = -1) -> tuple[Tensor, int]:
    """Scores near ±level, groups of them close together, so that a group shares its weight."""
    scores = level * torch.tensor(LEVELS, dtype=torch.float64) + draw.normal(4, 5).double()
    return (scores if dim == -1 else scores.mT.contiguous()).to(draw.dtype), dim


def draw_minus_infinity(draw: Draw) -> tuple[Tensor, int]:
    """Some scores −inf, never all of one column."""
    hidden = ~draw.mask(4, 6)
    return draw.normal(4, 6, std=2.0).masked_fill(hidden, -math.inf).mT, 0


def draw_middle_axis(draw: Draw) -> tuple[Any, ...]:
    return draw_scores(draw, 2, 4, 3), {"dim": 1}


exercise(
    name="softmax",
    lesson=LESSON,
    points=3,
    difficulty=2,
    reference=softmax,
    exact_zeros=True,
    results=("the weights",),
    forbidden=SOFTMAXES,
    cases=[
        Case("vector", both("one vector of scores", "一個分數向量"), lambda d: draw_scores(d, 5), 3),
        Case(
            "rows", both("a matrix, along its last axis", "一個矩陣，沿最後一個軸"), lambda d: draw_scores(d, 4, 6), 2
        ),
        Case(
            "columns",
            both("a matrix, along its first axis (dim = 0)", "一個矩陣，沿第一個軸（dim = 0）"),
            lambda d: draw_scores(d, 3, 5, dim=0),
            2,
        ),
        Case(
            "square",
            both("a square matrix, dim = 1", "方陣，dim = 1"),
            lambda d: draw_scores(d, 4, 4, dim=1),
            2,
        ),
        Case("middle", both("three axes, dim = 1 by name", "三個軸，用名稱給 dim = 1"), draw_middle_axis, 1.5),
        Case(
            "negative_dim",
            both("four axes, dim = −3", "四個軸，dim = −3"),
            lambda d: draw_scores(d, 2, 3, 4, 2, dim=-3),
            1.5,
        ),
        Case(
            "large_scores",
            both("scores near ±200 side by side", "約 ±200 的分數並存"),
            lambda d: draw_far_scores(d, 200.0),
            2,
            trap=True,
        ),
        Case(
            "huge_scores",
            both("scores near ±10000, dim = 0", "約 ±10000 的分數，dim = 0"),
            lambda d: draw_far_scores(d, 1e4, dim=0),
            1,
            trap=True,
        ),
        Case("minus_infinity", both("some scores are −inf", "有些分數是 −inf"), draw_minus_infinity, trap=True),
        Case(
            "one_score",
            both("one score in a matrix of shape [1, 1]", "形狀 [1, 1] 的矩陣裡只有一個分數"),
            lambda d: draw_scores(d, 1, 1, dim=0),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_scores(d, 3, 5, dim=0)),
        noncontiguous(lambda d: draw_scores(d, 3, 2, 4, dim=0)),
        Case(
            "float64",
            both(
                "float64: scores near ±1000, and float64 precision out",
                "float64：約 ±1000 的分數，結果也要有 float64 的精度",
            ),
            lambda d: draw_far_scores(d, 1e3),
            1,
            torch.float64,
            trap=True,
        ),
        gradients(lambda d: draw_scores(d, 4, 3, dim=0)),
    ],
    mistakes=[
        Mistake(
            "no_max_subtraction",
            lambda scores, dim=-1: torch.exp(scores) / torch.exp(scores).sum(dim, keepdim=True),
            both(
                "Right for small scores, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "one_maximum_for_all",
            lambda scores, dim=-1: (
                torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum(dim, keepdim=True)
            ),
            both(
                "You subtract one maximum from the whole tensor. A row far below it underflows to 0/0: each row needs "
                "its own.",
                "你讓整個張量都減同一個最大值。離它很遠的列會下溢位成 0/0：每一列要用自己的最大值。",
            ),
        ),
        Mistake(
            "mean_subtracted",
            lambda scores, dim=-1: (
                torch.exp(scores - scores.mean(dim, keepdim=True))
                / torch.exp(scores - scores.mean(dim, keepdim=True)).sum(dim, keepdim=True)
            ),
            both(
                "You subtract the mean. The largest score may still lie far above it and overflow: which number leaves "
                "nothing above 0?",
                "你減的是平均。最大的分數還是可能遠在平均之上而溢位：減哪個數，才能讓剩下的都不超過 0？",
            ),
        ),
        Mistake(
            "ignores_dim",
            lambda scores, dim=-1: exponentials(scores, -1) / exponentials(scores, -1).sum(-1, keepdim=True),
            both(
                "Right along the last axis, but your function does so whatever dim says.",
                "沿最後一個軸是對的，但不管 dim 是多少，你的函式都沿最後一個軸算。",
            ),
        ),
        Mistake(
            "always_first_axis",
            lambda scores, dim=-1: exponentials(scores, 0) / exponentials(scores, 0).sum(0, keepdim=True),
            both(
                "Your weights sum to 1 along the first axis, whatever dim says.",
                "不管 dim 是多少，你的權重都沿第一個軸加起來是 1。",
            ),
        ),
        Mistake(
            "sum_ignores_dim",
            lambda scores, dim=-1: exponentials(scores, dim) / exponentials(scores, dim).sum(-1, keepdim=True),
            both(
                "You subtract the maximum along dim but add up along the last axis. Both belong to the same axis.",
                "你沿 dim 減最大值，卻沿最後一個軸加總。兩者要用同一個軸。",
            ),
        ),
        Mistake(
            "normalises_everything",
            lambda scores, dim=-1: torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum(),
            both(
                "The whole tensor sums to 1. Each row along dim has its own budget of 1.",
                "整個張量加起來才是 1。沿著 dim，每一組都有自己的 1 可以分配。",
            ),
        ),
        Mistake(
            "missing_keepdim",
            lambda scores, dim=-1: exponentials(scores, dim) / exponentials(scores, dim).sum(dim),
            both(
                "Your sums have lost the axis they were taken over. Broadcasting then lines them up with another axis: an "
                "error for most shapes, wrong numbers for a square.",
                "加總之後那個軸不見了，廣播（broadcasting）就讓這些和對齊到別的軸：多數形狀會報錯，方陣則默默算錯。",
            ),
        ),
        Mistake(
            "missing_keepdim_of_maximum",
            lambda scores, dim=-1: torch.exp(scores - scores.amax(dim)) / torch.exp(scores - scores.amax(dim)).sum(dim),
            both(
                "Your maxima and sums have lost the axis they were taken over. Broadcasting then lines them up with another "
                "axis: an error for most shapes, wrong numbers for a square.",
                "取最大值和加總之後，那個軸不見了，廣播（broadcasting）就讓它們對齊到別的軸：多數形狀會報錯，方陣則默默算錯。",
            ),
        ),
        Mistake(
            "no_exp",
            lambda scores, dim=-1: scores / scores.sum(dim, keepdim=True),
            both(
                "You divide the scores by their sum. They do sum to 1 then, but a negative score gives a negative weight: "
                "the exponential is missing.",
                "你把分數除以總和。加起來雖然是 1，但負的分數會得到負的權重：少了指數函數。",
            ),
        ),
        Mistake(
            "shifted_without_exp",
            lambda scores, dim=-1: (
                (scores - scores.amin(dim, keepdim=True))
                / (scores - scores.amin(dim, keepdim=True)).sum(dim, keepdim=True)
            ),
            both(
                "You shift the scores until none is negative and divide by the sum. The smallest then weighs 0, whatever "
                "it is: the exponential is missing.",
                "你把分數平移到沒有負數，再除以總和。這樣最小的分數不論是多少，權重都是 0：少了指數函數。",
            ),
        ),
        Mistake(
            "not_normalised",
            exponentials,
            both(
                "Your weights are positive, but the largest is always 1 and they do not sum to 1: something has to be "
                "divided by.",
                "你的權重都是正數，但最大的永遠是 1，加起來也不是 1：還要除以一個東西。",
            ),
        ),
        Mistake(
            "sign_turned",
            lambda scores, dim=-1: (
                exponentials(-scores.clamp(min=-1e30), dim)
                / exponentials(-scores.clamp(min=-1e30), dim).sum(dim, keepdim=True)
            ),
            both(
                "Your largest score gets the smallest weight: a sign is turned round.",
                "分數最大的反而權重最小：有個正負號反了。",
            ),
        ),
        Mistake(
            "powers_of_two",
            lambda scores, dim=-1: (
                torch.exp2(scores - scores.amax(dim, keepdim=True))
                / torch.exp2(scores - scores.amax(dim, keepdim=True)).sum(dim, keepdim=True)
            ),
            both(
                "Your weights are powers of 2. Softmax takes powers of e.",
                "你的權重用的是 2 的次方。softmax 用的是 e 的次方。",
            ),
        ),
        Mistake(
            "logarithms",
            lambda scores, dim=-1: scores - torch.logsumexp(scores, dim, keepdim=True),
            both(
                "Your result holds the logarithms of the weights: none is positive. One step is missing.",
                "你的結果是權重的對數：沒有一個是正數。還差一步。",
            ),
        ),
        Mistake(
            "winner_takes_all",
            lambda scores, dim=-1: (
                (scores == scores.amax(dim, keepdim=True)).to(scores.dtype) + 0 * exponentials(scores, dim)
            ),
            both(
                "The largest score takes everything. A softmax is soft: every score gets a share.",
                "分數最大的全拿了。softmax 是「軟」的：每個分數都分得到一份。",
            ),
        ),
        Mistake(
            "scores_clamped",
            lambda scores, dim=-1: (
                torch.exp(scores.clamp(-80.0, 80.0)) / torch.exp(scores.clamp(-80.0, 80.0)).sum(dim, keepdim=True)
            ),
            both(
                "You cut large scores off, so all beyond the limit look alike, and −inf weighs a little. Nothing has to be "
                "cut: only differences between scores count, so shift them.",
                "你把大的分數截斷了，超過界限的看起來都一樣，−inf 也還有一點權重。不必截斷：softmax 只看分數的差，平移就好。",
            ),
        ),
    ],
    hints=[
        both(
            "Three steps: exponentials, their sum along the axis, a division. Which of the three needs to know about dim?",
            "三個步驟：取指數、沿軸加總、相除。其中哪些步驟要知道 dim？",
        ),
        both(
            "A sum along an axis loses that axis unless it is told to keep it with length 1. Keep it, and the division "
            "lines up by itself.",
            "沿著某個軸加總，那個軸會消失；除非要求保留，讓它的長度變成 1。保留下來，除法就會自己對齊。",
        ),
        both(
            "The same number subtracted from all scores of a row cancels in the fraction. Take the largest of each row, "
            "along the same axis: then no exponent is above 0, and one of them is exactly 0.",
            "同一列的分數都減去同一個數，分子分母會約掉。沿同一個軸取每一列的最大值來減：指數就不會超過 0，而且至少有一個剛好是 0。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------------- embed


def embed(ids: Tensor, W_E: Tensor) -> Tensor:
    return W_E[ids]


def one_hot(ids: Tensor, W_E: Tensor) -> Tensor:
    return F.one_hot(ids, W_E.shape[0]).to(W_E.dtype)


def draw_ids(draw: Draw, V: int, d_model: int, *shape: int, last: bool = True) -> tuple[Tensor, Tensor]:
    """Ids with a repeat and with 0 among them; the last id of the vocabulary is there or is not, as told.

    Whoever lets one_hot guess the vocabulary from the ids is right only where the last one occurs.
    """
    ids = draw.integers(1, V - 2, *shape)
    flat = ids.view(-1)
    places = draw.permutation(len(flat))
    flat[places[0]] = V - 1 if last else V - 2
    if len(flat) >= 4:
        flat[places[1]] = 0
        flat[places[2]] = flat[places[3]]
    return ids, draw.normal(V, d_model)


exercise(
    name="embed",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=embed,
    results=("the vectors",),
    forbidden=EMBEDDINGS,
    cases=[
        Case("sequence", both("a sequence of 5 ids", "5 個編號的序列"), lambda d: draw_ids(d, 9, 4, 5), 3),
        Case(
            "square",
            both("V = d_model: rows and columns are equally long", "V = d_model：列和行一樣長"),
            lambda d: draw_ids(d, 6, 6, 4),
            3,
        ),
        Case(
            "batch",
            both(
                "a batch of sequences, the last id of the vocabulary not among them",
                "一批序列，沒用到詞彙表的最後一個編號",
            ),
            lambda d: draw_ids(d, 8, 5, 2, 3, last=False),
            2,
        ),
        Case("one_id", both("a single id, of shape []", "單一個編號，形狀 []"), lambda d: draw_ids(d, 7, 3), trap=True),
        Case(
            "one_of_one",
            both("one id in a vector, V = d_model = 1", "向量裡只有一個編號，V = d_model = 1"),
            lambda d: (d.integers(0, 0, 1), d.normal(1, 1)),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_ids(d, 7, 4, 5)),
        noncontiguous(lambda d: draw_ids(d, 6, 3, 2, 4)),
        float64(lambda d: draw_ids(d, 5, 7, 2, 2)),
        gradients(lambda d: draw_ids(d, 8, 3, 6)),
    ],
    mistakes=[
        Mistake(
            "column_lookup",
            lambda ids, W_E: one_hot(ids, W_E) @ W_E.mT,
            both(
                "You took columns of W_E: that is W_E times one-hot, which fits only if V = d_model. A token's "
                "vector is a row.",
                "你取的是 W_E 的行（column）：那是 W_E 乘 one-hot，除非 V = d_model，否則形狀不合。詞元的向量是一列（row）。",
            ),
        ),
        Mistake(
            "column_lookup_by_index",
            lambda ids, W_E: W_E.mT[ids],
            both(
                "You took columns of W_E, by index. A token's vector is a row: the rows are as many as there are tokens in "
                "the vocabulary.",
                "你用索引取了 W_E 的行（column）。詞元的向量是一列（row）：詞彙表有幾個詞元，就有幾列。",
            ),
        ),
        Mistake(
            "columns_side_by_side",
            lambda ids, W_E: W_E[:, ids],
            both(
                "Your index picks columns of W_E. The first axis counts the tokens of the vocabulary: pick rows.",
                "你的索引取的是 W_E 的行（column）。第一個軸才是在數詞彙表的詞元：要取列（row）。",
            ),
        ),
        Mistake(
            "one_based_ids",
            lambda ids, W_E: W_E[ids - 1],
            both(
                "Every vector is its neighbour's: ids start at 0, so id 0 is the first row.",
                "每個向量都錯了一位：編號從 0 開始，編號 0 就是第一列。",
            ),
        ),
        Mistake(
            "scaled_by_sqrt_d_model",
            lambda ids, W_E: W_E[ids] * W_E.shape[1] ** 0.5,
            both(
                "You multiply by √d_model. The model of 2017 does so later, inside its input layer; here a row is taken as "
                "it is.",
                "你乘上了 √d_model。2017 年的模型是之後在輸入層才乘；這裡直接取出那一列就好。",
            ),
        ),
        Mistake(
            "one_hot_returned",
            one_hot,
            both(
                "You return the one-hot vectors themselves. They only point at a row: multiply them with W_E.",
                "你回傳的是 one-hot 向量本身。它只是指出哪一列，還要乘上 W_E。",
            ),
        ),
        Mistake(
            "one_hot_of_seen_ids",
            lambda ids, W_E: F.one_hot(ids).to(W_E.dtype) @ W_E,
            both(
                "Your one-hot vectors are only as long as the largest id needs. Their length is V, the number of rows "
                "of W_E, whatever ids occur.",
                "你的 one-hot 向量只有目前最大編號需要的長度。它的長度應該是 V，也就是 W_E 的列數，和出現哪些編號無關。",
            ),
        ),
        Mistake(
            "bag_of_words",
            lambda ids, W_E: W_E[ids].sum(dim=-2),
            both(
                "You added the vectors of the sequence together. Every token keeps a vector of its own.",
                "你把整個序列的向量加在一起了。每個詞元都要保有自己的向量。",
            ),
        ),
        Mistake(
            "mean_of_words",
            lambda ids, W_E: W_E[ids].mean(dim=-2),
            both(
                "You averaged the vectors of the sequence. Every token keeps a vector of its own.",
                "你把整個序列的向量平均了。每個詞元都要保有自己的向量。",
            ),
        ),
        Mistake(
            "ids_as_numbers",
            lambda ids, W_E: ids[..., None] * W_E.mean(dim=0),
            both(
                "You calculate with the ids as if they were amounts. An id is a name: token 6 is not twice token 3.",
                "你把編號當成數量來計算了。編號只是名字：6 號詞元並不是 3 號的兩倍。",
            ),
        ),
        Mistake(
            "unique_ids",
            lambda ids, W_E: W_E[ids.unique()],
            both(
                "Repeated ids have been dropped, or sorted. The result has one vector for each place, in the order of ids.",
                "重複的編號被拿掉或重新排序了。每個位置都要有一個向量，順序和 ids 相同。",
            ),
        ),
        Mistake(
            "flattened",
            lambda ids, W_E: W_E[ids.flatten()],
            both(
                "Right for one sequence, but the shape of ids is lost. The result has the axes of ids, and d_model behind "
                "them.",
                "單一序列時是對的，但 ids 的形狀不見了。結果要保留 ids 的各個軸，最後再加上 d_model。",
            ),
        ),
        Mistake(
            "rows_normalised",
            lambda ids, W_E: F.normalize(W_E[ids], dim=-1),
            both(
                "You brought every vector to length 1. The row of W_E is asked for as it is.",
                "你把每個向量都縮放成長度 1 了。要的是 W_E 原本的那一列。",
            ),
        ),
    ],
    hints=[
        both(
            "A one-hot row vector times a matrix: which combination of the rows is that?",
            "one-hot 列向量乘上一個矩陣：這是各列的哪一種線性組合？",
        ),
        both(
            "All weights are 0 but one, and that one is 1. You may build the one-hot vectors, or go straight to the row.",
            "權重除了一個是 1，其餘都是 0。可以真的做出 one-hot 向量，也可以直接去取那一列。",
        ),
        both(
            "A LongTensor of any shape may serve as an index of a matrix's first axis; the result then has that shape, "
            "and a row behind it.",
            "任何形狀的 LongTensor 都能當作矩陣第一個軸的索引；結果會有同樣的形狀，後面再接上一列的長度。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- question

question(
    name="00_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "columns",
            "a",
            both(
                "That is Ax, with x as a column on the right. On the left, x has one entry for each row: count them.",
                "那是 Ax，x 是寫在右邊的行向量。x 寫在左邊時，每一列對應 x 的一個分量：數數看個數。",
            ),
        ),
        Mistake(
            "products_of_entries",
            "b",
            both(
                "Multiplying is only the first half. What is stretched has to be added up: xA is one vector, not a matrix.",
                "相乘只做了一半，伸縮過的列還要加起來：xA 是一個向量，不是矩陣。",
            ),
        ),
        Mistake(
            "only_for_square",
            "c",
            both(
                "Nothing asks for a square. x needs as many entries as A has rows; how long the rows are is free.",
                "完全不需要是方陣。x 的分量個數只要等於 A 的列數；每一列多長都可以。",
            ),
        ),
    ],
    hints=[
        both(
            "Try x = (2, 3) and a matrix with two rows of length 3. How many entries does xA have, and what is each made of?",
            "用 x = (2, 3) 和一個兩列、每列長度 3 的矩陣試試看。xA 有幾個分量？每個分量是怎麼來的？",
        ),
    ],
)
