"""Lesson 02, Q/K/V: from one query's inner products to self-attention, unscaled as in the lecture.

Shapes: N queries, M keys, d_model, d_k, d_v; `...` stands for leading dimensions, none included.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION
from autograder.exercises.shared import float64, gradients, noncontiguous
from autograder.functions import Equivariant, PlaceScaled, Positional
from autograder.text import both

LESSON = "02_qkv"

# ------------------------------------------------------------------------------------------------ project_qkv


def project_qkv(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return X @ W_Q, X @ W_K, X @ W_V


def draw_projection(draw: Draw, d_model: int, d_k: int, d_v: int, *rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """X: [*rows, d_model], W_Q and W_K: [d_model, d_k], W_V: [d_model, d_v]."""
    return draw.normal(*rows, d_model), draw.normal(d_model, d_k), draw.normal(d_model, d_k), draw.normal(d_model, d_v)


exercise(
    name="project_qkv",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=project_qkv,
    results=("Q", "K", "V"),
    forbidden=ATTENTION,
    cases=[
        Case("matrix", both("one sequence", "一個序列"), lambda d: draw_projection(d, 4, 3, 2, 5), 2),
        Case(
            "square",
            both("N = d_model = d_k = d_v: every shape fits", "N = d_model = d_k = d_v：怎麼乘形狀都對"),
            lambda d: draw_projection(d, 4, 4, 4, 4),
            2,
        ),
        Case(
            "batch", both("a batch of sequences", "一個批次的序列"), lambda d: draw_projection(d, 5, 3, 6, 2, 3, 4), 2
        ),
        Case(
            "ones",
            both("one word in a batch of one, all other sizes 1 too", "批次只有一個、序列只有一個詞，其餘大小也都是 1"),
            lambda d: draw_projection(d, 1, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_projection(d, 6, 4, 5, 3, 2)),
        float64(lambda d: draw_projection(d, 4, 2, 3, 2, 5)),
        gradients(lambda d: draw_projection(d, 3, 4, 2, 2, 5)),
    ],
    mistakes=[
        Mistake(
            "weights_transposed",
            lambda X, W_Q, W_K, W_V: (X @ W_Q.mT, X @ W_K.mT, X @ W_V.mT),
            both(
                "You multiply by the transposed weights, which is what nn.Linear stores. Here W is used as it is: the "
                "rows of X have d_model entries, so look for the matrix that has d_model rows.",
                "你乘的是轉置過的權重（nn.Linear 存的是那種）。這裡的 W 直接使用：X 的每一列有 d_model 個數，"
                "要找的是有 d_model 列的矩陣。",
            ),
        ),
        Mistake(
            "keys_values_swapped",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_V, X @ W_K),
            both(
                "Your second and third results have changed places. The order is queries, keys, values; see which "
                "weight matrix each of them uses.",
                "第二個和第三個結果對調了。順序是查詢、鍵、值；看看各自用的是哪一個權重矩陣。",
            ),
        ),
        Mistake(
            "queries_keys_swapped",
            lambda X, W_Q, W_K, W_V: (X @ W_K, X @ W_Q, X @ W_V),
            both(
                "Your first and second results have changed places. The order is queries, keys, values.",
                "第一個和第二個結果對調了。順序是查詢、鍵、值。",
            ),
        ),
        Mistake(
            "shared_projection",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_Q, X @ W_V),
            both(
                "Your keys equal your queries: one weight matrix is used twice. What a word asks and what it answers "
                "to are two different things, with a matrix each.",
                "你的鍵和查詢一模一樣：同一個權重矩陣用了兩次。一個詞「要問什麼」和「能回答什麼」是兩回事，各有各的矩陣。",
            ),
        ),
        Mistake(
            "values_from_key_weights",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X @ W_K),
            both(
                "Your values equal your keys: one weight matrix is used twice. What a word is found by and what it hands "
                "over are two different things, with a matrix each.",
                "你的值和鍵一模一樣：同一個權重矩陣用了兩次。一個詞「靠什麼被找到」和「交出什麼」是兩回事，各有各的矩陣。",
            ),
        ),
        Mistake(
            "chained",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_Q @ W_K, X @ W_V),
            both(
                "Your keys are made from the queries. All three start from the same X, side by side, not one after "
                "another.",
                "你的鍵是從查詢再算出來的。三者都從同一個 X 出發，彼此並列，不是一個接一個。",
            ),
        ),
        Mistake(
            "values_unprojected",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X.clone()),
            both(
                "Your values are X itself. The content that a word hands over has a projection of its own too.",
                "你的值就是 X 本身。一個詞交出去的內容，也有自己的投影。",
            ),
        ),
        Mistake(
            "weights_on_the_left",
            lambda X, W_Q, W_K, W_V: (W_Q @ X, W_K @ X, W_V @ X),
            both(
                "The weights stand on the left. This course writes a word as a row, so the weight matrix belongs on "
                "the other side.",
                "權重寫在左邊了。這門課把一個詞寫成一列，所以權重矩陣要放在另一邊。",
            ),
        ),
    ],
    hints=[
        both(
            "Write down the shapes: X is [..., N, d_model] and Q is to be [..., N, d_k]. Which shape must stand between?",
            "先寫下形狀：X 是 [..., N, d_model]，Q 要是 [..., N, d_k]。中間該放什麼形狀的矩陣？",
        ),
        both(
            "Three matrix products, all of them starting from X. None needs a transpose.",
            "三個矩陣乘法，都從 X 出發，都不需要轉置。",
        ),
        both(
            "Matrix multiplication in torch treats leading dimensions as a batch by itself, so one expression serves "
            "a single sequence and a batch alike. Return the three as a tuple in the order Q, K, V.",
            "torch 的矩陣乘法會自動把前面的維度當成批次，所以同一個式子適用於單一序列和一個批次。依 Q、K、V 的順序以 tuple 回傳。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- relevance


def relevance(q: Tensor, K: Tensor) -> Tensor:
    return K @ q


def draw_query_and_keys(draw: Draw, M: int, d_k: int, std: float = 1.0) -> tuple[Tensor, Tensor]:
    return draw.normal(d_k, std=std), draw.normal(M, d_k, std=std)


exercise(
    name="relevance",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=relevance,
    results=("e",),
    forbidden=ATTENTION,
    cases=[
        Case("keys", both("five keys", "五個鍵"), lambda d: draw_query_and_keys(d, 5, 3), 2),
        Case(
            "square",
            both("as many keys as dimensions: M = d_k", "鍵的個數等於維度：M = d_k"),
            lambda d: draw_query_and_keys(d, 4, 4),
            2,
        ),
        Case(
            "long",
            both("long vectors, large scores", "長的向量、大的分數"),
            lambda d: draw_query_and_keys(d, 7, 6, 8.0),
            2,
        ),
        Case(
            "one_key",
            both("a single key: M = 1", "只有一個鍵：M = 1"),
            lambda d: draw_query_and_keys(d, 1, 4),
            trap=True,
        ),
        noncontiguous(lambda d: draw_query_and_keys(d, 6, 5)),
        float64(lambda d: draw_query_and_keys(d, 3, 5)),
        gradients(lambda d: draw_query_and_keys(d, 6, 2)),
    ],
    mistakes=[
        Mistake(
            "columns_of_K",
            lambda q, K: q @ K,
            both(
                "You multiply q by K itself, so q meets the columns of K. A key is a row: q has to meet each row.",
                "你用 q 乘以 K 本身，於是 q 遇到的是 K 的行（column）。一個鍵是一列（row）：q 要遇到的是每一列。",
            ),
        ),
        Mistake(
            "cosine_similarity",
            lambda q, K: torch.cosine_similarity(q[None], K, dim=-1),
            both(
                "Your scores are cosines: the lengths have been divided out. Here a longer key may score higher; keep "
                "the inner products as they are.",
                "你的分數是餘弦相似度：長度被除掉了。這裡較長的鍵可以得到較高的分數，內積要原樣保留。",
            ),
        ),
        Mistake(
            "scaled_too_early",
            lambda q, K: K @ q / q.shape[-1] ** 0.5,
            both(
                "You already divide by √d_k. That comes in lesson 03; this lesson works with the raw inner products.",
                "你已經除以 √d_k 了。那是第 03 課的事；這一課用的是原始的內積。",
            ),
        ),
        Mistake(
            "softmax_applied",
            lambda q, K: torch.softmax(K @ q, dim=-1),
            both(
                "Your scores sum to 1: a softmax has been applied. Here the raw scores are asked for; the weights come "
                "in the next exercise.",
                "你的分數加起來是 1：已經套用 softmax 了。這裡要的是原始分數，權重是下一題的事。",
            ),
        ),
        Mistake(
            "negative_distance",
            lambda q, K: -((q - K) ** 2).sum(dim=-1),
            both(
                "You compare by distance. That is a fair idea of likeness, but attention measures with inner products.",
                "你比較的是距離。拿距離當相似度也說得通，但注意力用的是內積。",
            ),
        ),
        Mistake(
            "not_summed",
            lambda q, K: q * K,
            both(
                "You multiplied entry by entry and stopped there: an inner product also adds up, one number a key.",
                "你只做了逐元素相乘就停下來：內積還要加總，一個鍵得到一個數。",
            ),
        ),
        Mistake(
            "squeezed",
            lambda q, K: (K @ q).squeeze(),
            both(
                "With a single key your result loses its axis. One key still makes a vector of length 1.",
                "只有一個鍵的時候，你的結果少了一個軸。一個鍵也要得到長度為 1 的向量。",
            ),
        ),
    ],
    hints=[
        both(
            "One number a key: how well does q agree with that key? Lesson 00 has the tool for it.",
            "每個鍵得到一個數：q 和這個鍵有多合？第 00 課有這個工具。",
        ),
        both(
            "The keys are the rows of K. The product of a row vector and a matrix works with its columns: what has to "
            "happen to K first?",
            "鍵是 K 的列（row）。列向量乘以矩陣時，碰到的是矩陣的行（column）：那麼 K 要先怎麼處理？",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------------- attend


def attend(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return torch.softmax(K @ q, dim=-1) @ V


def draw_lookup(draw: Draw, M: int, d_k: int, d_v: int, std: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q: [d_k], K: [M, d_k], V: [M, d_v]."""
    return draw.normal(d_k, std=std), draw.normal(M, d_k), draw.normal(M, d_v)


def draw_shifted_lookup(draw: Draw, *shifts: float) -> tuple[Tensor, Tensor, Tensor]:
    """Scores near these numbers, keys with the same number so close that none wins alone."""
    q, K, V = (x.double() for x in draw_lookup(draw, len(shifts), 4, 3))
    K = 0.5 * K + torch.tensor(shifts)[:, None] * q / q.square().sum()
    return q.to(draw.dtype), K.to(draw.dtype), V.to(draw.dtype)


exercise(
    name="attend",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=attend,
    results=("h",),
    forbidden=ATTENTION,
    cases=[
        Case("lookup", both("one query, five keys", "一個查詢、五個鍵"), lambda d: draw_lookup(d, 5, 3, 4), 3),
        Case(
            "square",
            both("M = d_k = d_v: every shape fits", "M = d_k = d_v：怎麼乘形狀都對"),
            lambda d: draw_lookup(d, 4, 4, 4),
            3,
        ),
        Case(
            "close_scores",
            both("scores close together: no key wins alone", "分數很接近：沒有哪個鍵獨贏"),
            lambda d: draw_lookup(d, 6, 5, 2, 0.2),
            2,
        ),
        Case(
            "far_scores",
            both("scores near −150: every exp is 0", "分數約 −150：每個 exp 都是 0"),
            lambda d: draw_shifted_lookup(d, -150.0, -150.0, -150.0, -150.0, -300.0),
            1.5,
            trap=True,
        ),
        Case(
            "wide_scores",
            both("scores near −200 and near +200 side by side", "約 −200 與約 +200 的分數並存"),
            # The largest are neither first nor last, and far from the mean: nothing else is safe to subtract.
            lambda d: draw_shifted_lookup(d, -200.0, 200.0, 200.0, -200.0, -200.0),
            1.5,
            trap=True,
        ),
        Case(
            "ones",
            # Several keys: with one alone, any weights will do.
            both("vectors of one number: d_k = d_v = 1", "向量只有一個數：d_k = d_v = 1"),
            lambda d: draw_lookup(d, 5, 1, 1),
            0.5,
            trap=True,
        ),
        Case(
            "one_key",
            both("a single key: M = 1", "只有一個鍵：M = 1"),
            lambda d: draw_lookup(d, 1, 3, 4),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_lookup(d, 3, 5, 4)),
        float64(lambda d: draw_lookup(d, 6, 4, 5)),
        gradients(lambda d: draw_lookup(d, 5, 3, 2)),
    ],
    mistakes=[
        Mistake(
            "hard_choice",
            lambda q, K, V: V[(K @ q).argmax()],
            both(
                "You hand back the value of the best key alone. Attention is a soft choice: every value takes part, "
                "weighted.",
                "你只回傳最合的那個鍵的值。注意力是柔性的選擇：每個值都有份，只是權重不同。",
            ),
        ),
        Mistake(
            "averages_keys",
            lambda q, K, V: torch.softmax(K @ q, dim=-1) @ K,
            both(
                "Your weights are right, but they mix the keys. Keys are for finding; what is handed over are the values.",
                "權重是對的，但你混合的是鍵。鍵是用來找的，真正交出去的是值。",
            ),
        ),
        Mistake(
            "no_softmax",
            lambda q, K, V: K @ q @ V,
            both(
                "You use the raw scores as weights. Weights must be positive and sum to 1: a step is missing.",
                "你直接拿原始分數當權重。權重要是正數、加起來是 1：少了一個步驟。",
            ),
        ),
        Mistake(
            "weights_by_sum",
            lambda q, K, V: (K @ q) / (K @ q).sum() @ V,
            both(
                "You divide the scores by their sum. They do sum to 1 then, but some may be negative; the exponential "
                "is missing.",
                "你把分數除以總和。加起來雖然是 1，卻可能有負的；少了指數函數。",
            ),
        ),
        Mistake(
            "uniform_average",
            lambda q, K, V: V.mean(dim=0) + 0 * (K @ q).sum(),
            both(
                "Every value gets the same weight, as if the query did not matter. Let the scores decide.",
                "每個值的權重都一樣，好像查詢完全不重要。要讓分數來決定。",
            ),
        ),
        Mistake(
            "scaled_too_early",
            lambda q, K, V: torch.softmax(K @ q / q.shape[-1] ** 0.5, dim=-1) @ V,
            both(
                "You already divide by √d_k. That comes in lesson 03; this lesson takes the softmax of the raw scores.",
                "你已經除以 √d_k 了。那是第 03 課的事；這一課直接對原始分數取 softmax。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda q, K, V: torch.exp(K @ q) / torch.exp(K @ q).sum() @ V,
            both(
                "Right for small scores, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from all scores changes nothing in the weights: which number helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "所有分數同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "not_normalised",
            lambda q, K, V: torch.exp(K @ q) @ V,
            both(
                "Your weights are positive but do not sum to 1: something has to be divided by.",
                "權重是正數了，但加起來不是 1：還要除以某個東西。",
            ),
        ),
        Mistake(
            "squeezed_scores",
            lambda q, K, V: torch.softmax((K @ q[:, None]).squeeze(), dim=0) @ V,
            both(
                "With a single key your scores lose their axis: squeeze takes away every axis of length 1. One score is still "
                "a vector.",
                "只有一個鍵的時候，你的分數少了軸：squeeze 會拿掉每個長度為 1 的軸。只有一個分數，也還是向量。",
            ),
        ),
        Mistake(
            "values_not_added",
            lambda q, K, V: torch.softmax(K @ q, dim=-1).unsqueeze(-1) * V,
            both(
                "Each value is weighted, but the weighted values still stand side by side. Add them up: one vector comes "
                "back, not M.",
                "每個值都乘上了權重，但還是一個個並排著。要把它們加起來：回來的是一個向量，不是 M 個。",
            ),
        ),
        Mistake(
            "weights_returned",
            lambda q, K, V: torch.softmax(K @ q, dim=-1),
            both(
                "You return the weights. They are only the recipe: use them to mix the rows of V.",
                "你回傳的是權重。那只是配方：還要用它來混合 V 的各列。",
            ),
        ),
    ],
    hints=[
        both(
            "Three steps: scores, weights, mixture. Write the first one again, inside this function.",
            "三個步驟：分數、權重、混合。第一步在這個函式裡重新寫一次。",
        ),
        both(
            "Weights are positive and sum to 1, whatever the scores. Which function of lesson 00 does that?",
            "不管分數是多少，權重都是正數而且加起來是 1。第 00 課的哪個函數做得到？",
        ),
        both(
            "The mixture is the row combination of lesson 00: a row of M weights times a matrix with M rows.",
            "混合就是第 00 課的列組合：一列 M 個權重，乘以一個有 M 列的矩陣。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- attention_matrix


def attention_matrix(Q: Tensor, K: Tensor) -> Tensor:
    return torch.softmax(Q @ K.transpose(-2, -1), dim=-1)


def draw_queries_and_keys(draw: Draw, N: int, M: int, d_k: int, *leading: int) -> tuple[Tensor, Tensor]:
    """Q: [*leading, N, d_k], K: [*leading, M, d_k]."""
    return draw.normal(*leading, N, d_k), draw.normal(*leading, M, d_k)


def draw_far_queries_and_keys(draw: Draw) -> tuple[Tensor, Tensor]:
    """The first feature lifts all scores of a query together, by about +150 for some queries and −150 for others."""
    Q, K = draw.normal(2, 4, 3), draw.normal(2, 5, 3)
    Q[..., 0] = 10 * torch.tensor([1.0, -1.0, 1.0, -1.0]) + 0.1 * Q[..., 0]
    K[..., 0] = 15 + 0.1 * K[..., 0]
    return Q, K


def draw_wide_queries_and_keys(draw: Draw) -> tuple[Tensor, Tensor]:
    """Every query has keys near +200 and keys near −200; for some the first and the last key are low, for some high."""
    Q, K = draw.normal(2, 4, 3), draw.normal(2, 5, 3)
    Q[..., 0] = 10 * torch.tensor([1.0, -1.0, 1.0, -1.0])
    K[..., 0] = 20 * torch.tensor([-1.0, 1.0, 1.0, -1.0, -1.0]) + 0.1 * K[..., 0]
    return Q, K


exercise(
    name="attention_matrix",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=attention_matrix,
    results=("A",),
    forbidden=ATTENTION,
    cases=[
        Case("matrix", both("3 queries, 5 keys", "3 個查詢、5 個鍵"), lambda d: draw_queries_and_keys(d, 3, 5, 4), 2),
        Case(
            "square",
            both("as many queries as keys: N = M", "查詢和鍵一樣多：N = M"),
            lambda d: draw_queries_and_keys(d, 4, 4, 3),
            2,
        ),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: draw_queries_and_keys(d, 4, 6, 3, 2), 2),
        Case(
            "heads",
            both("a batch with heads (4-D)", "一個批次、多個頭（4 維）"),
            lambda d: draw_queries_and_keys(d, 4, 5, 6, 2, 3),
            2,
        ),
        Case(
            "far_scores",
            both("queries with scores near +150, others near −150", "有的查詢分數約 +150，有的約 −150"),
            draw_far_queries_and_keys,
            1.5,
            trap=True,
        ),
        Case(
            "wide_scores",
            both("scores near −200 and near +200 in one row", "同一列裡有約 −200 與約 +200 的分數"),
            draw_wide_queries_and_keys,
            1.5,
            trap=True,
        ),
        Case(
            "ones",
            both("one query, one key, a batch of one, d_k = 1", "一個查詢、一個鍵，批次只有一個，d_k = 1"),
            lambda d: draw_queries_and_keys(d, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_queries_and_keys(d, 3, 4, 5, 2)),
        float64(lambda d: draw_queries_and_keys(d, 5, 3, 4, 2)),
        gradients(lambda d: draw_queries_and_keys(d, 3, 5, 2, 2)),
    ],
    mistakes=[
        Mistake(
            "softmax_over_queries",
            lambda Q, K: torch.softmax(Q @ K.mT, dim=-2),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries. Each query shares out "
                "its attention among the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢的方向做了。每個查詢要把注意力分給各個鍵。",
            ),
        ),
        Mistake(
            "keys_by_queries",
            lambda Q, K: torch.softmax(K @ Q.mT, dim=-1),
            both(
                "Your matrix has a row for each key. Rows belong to the queries, columns to the keys: look at the order "
                "of the two factors.",
                "你的矩陣每一列對應一個鍵。列（row）屬於查詢，行（column）屬於鍵：看看兩個因子的順序。",
            ),
        ),
        Mistake(
            "softmax_over_everything",
            lambda Q, K: torch.softmax((Q @ K.mT).flatten(-2), dim=-1).unflatten(-1, (Q.shape[-2], K.shape[-2])),
            both(
                "The whole matrix sums to 1. Every query has its own budget of 1: the softmax belongs to each row.",
                "整個矩陣加起來才是 1。每個查詢都有自己的 1 可以分配：softmax 要各列分開做。",
            ),
        ),
        Mistake(
            "no_softmax",
            lambda Q, K: Q @ K.mT,
            both(
                "These are the raw scores. Weights are positive and every row sums to 1: a step is missing.",
                "這是原始分數。權重要是正數，每一列加起來是 1：少了一個步驟。",
            ),
        ),
        Mistake(
            "scaled_too_early",
            lambda Q, K: torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1),
            both(
                "You already divide by √d_k. That comes in lesson 03; this lesson takes the softmax of the raw scores.",
                "你已經除以 √d_k 了。那是第 03 課的事；這一課直接對原始分數取 softmax。",
            ),
        ),
        Mistake(
            "weights_by_sum",
            lambda Q, K: (Q @ K.mT) / (Q @ K.mT).sum(dim=-1, keepdim=True),
            both(
                "You divide each row by its sum. Rows do sum to 1 then, but with negative weights; the exponential is "
                "missing.",
                "你把每一列除以它的總和。加起來雖然是 1，卻有負的權重；少了指數函數。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda Q, K: torch.exp(Q @ K.mT) / torch.exp(Q @ K.mT).sum(dim=-1, keepdim=True),
            both(
                "Right for small scores, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "one_maximum_for_all",
            lambda Q, K: (
                torch.exp(Q @ K.mT - (Q @ K.mT).max())
                / torch.exp(Q @ K.mT - (Q @ K.mT).max()).sum(dim=-1, keepdim=True)
            ),
            both(
                "You subtract one maximum from the whole tensor. A row far below it underflows to 0/0: each row needs "
                "its own.",
                "你讓整個張量都減同一個最大值。離它很遠的列會下溢位成 0/0：每一列要用自己的最大值。",
            ),
        ),
        Mistake(
            "all_axes_reversed",
            lambda Q, K: torch.softmax(Q @ K.permute(*reversed(range(K.ndim))), dim=-1),
            both(
                "Right for a single matrix, wrong for a batch: only the last two axes are rows and columns.",
                "單一矩陣沒問題，批次就錯了：只有最後兩個軸才是列與行。",
            ),
        ),
    ],
    hints=[
        both(
            "Entry (n, m) belongs to query n and key m. How do you get all inner products of rows with rows at once?",
            "第 (n, m) 個數屬於查詢 n 和鍵 m。怎樣一次得到列與列的所有內積？",
        ),
        both(
            "One of the two matrices has to be transposed, in its last two axes only: there may be batch and head axes "
            "in front.",
            "兩個矩陣有一個要轉置，而且只轉最後兩個軸：前面可能還有批次和頭的軸。",
        ),
        both(
            "Each row shall sum to 1, so the softmax runs along a row, from key to key. Which axis is that, counted "
            "from the end?",
            "每一列加起來要是 1，所以 softmax 沿著一列走，從一個鍵到下一個鍵。從後面數，那是哪一個軸？",
        ),
    ],
)

# --------------------------------------------------------------------------------------------- self_attention


def self_attention(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    return torch.softmax(Q @ K.transpose(-2, -1), dim=-1) @ V


def draw_self_attention(
    draw: Draw, d_model: int, d_k: int, d_v: int, *rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projections small enough for scores of a few units, so that every weight counts."""
    size = d_model**-0.5
    return (
        draw.normal(*rows, d_model),
        draw.normal(d_model, d_k, std=size),
        draw.normal(d_model, d_k, std=size),
        draw.normal(d_model, d_v, std=size),
    )


def draw_far_self_attention(draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first feature of X is a constant that lifts all scores of the even rows by +150, of the odd rows by −150."""
    X, W_Q, W_K, W_V = draw_self_attention(draw, 4, 3, 2, 2, 6)
    X[..., 0] = 1.0
    X[..., 1] = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    W_Q[0], W_K[0], W_K[1] = 0.0, 0.0, 0.0
    W_Q[1] = torch.tensor([10.0, 0.0, 0.0])
    W_K[0, 0] = 15.0
    return X, W_Q, W_K, W_V


def draw_wide_self_attention(draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every row has scores near +200 and near −200; for some the first and the last are low, for some high."""
    X, W_Q, W_K, W_V = draw_self_attention(draw, 4, 3, 2, 2, 6)
    X[..., 0] = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    X[..., 1] = torch.tensor([-1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    W_Q[:, 0], W_K[:, 0] = 0.0, 0.0
    W_Q[0], W_K[1] = torch.tensor([10.0, 0.0, 0.0]), torch.tensor([20.0, 0.0, 0.0])
    return X, W_Q, W_K, W_V


exercise(
    name="self_attention",
    lesson=LESSON,
    points=3,
    difficulty=2,
    reference=self_attention,
    forbidden=ATTENTION,
    cases=[
        Case("matrix", both("one sequence", "一個序列"), lambda d: draw_self_attention(d, 4, 3, 2, 5), 3),
        Case(
            "square",
            both("N = d_model = d_k = d_v: every shape fits", "N = d_model = d_k = d_v：怎麼乘形狀都對"),
            lambda d: draw_self_attention(d, 4, 4, 4, 4),
            3,
        ),
        Case(
            "batch",
            both("a batch of sequences (4-D)", "一個批次的序列（4 維）"),
            lambda d: draw_self_attention(d, 6, 3, 5, 2, 3, 4),
            3,
        ),
        Case(
            "far_scores",
            both("rows with scores near +150, others near −150", "有的列分數約 +150，有的約 −150"),
            draw_far_self_attention,
            1.5,
            trap=True,
        ),
        Case(
            "wide_scores",
            both("scores near −200 and near +200 in one row", "同一列裡有約 −200 與約 +200 的分數"),
            draw_wide_self_attention,
            1.5,
            trap=True,
        ),
        Case(
            "ones",
            both("one word in a batch of one, all other sizes 1 too", "批次只有一個、序列只有一個詞，其餘大小也都是 1"),
            lambda d: draw_self_attention(d, 1, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_self_attention(d, 4, 2, 3, 2, 5)),
        float64(lambda d: draw_self_attention(d, 5, 4, 2, 2, 3)),
        gradients(lambda d: draw_self_attention(d, 3, 2, 4, 2, 5)),
    ],
    mistakes=[
        Mistake(
            "scaled_too_early",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT / W_Q.shape[-1] ** 0.5, dim=-1) @ (X @ W_V),
            both(
                "You already divide by √d_k. That comes in lesson 03; this lesson takes the softmax of the raw scores.",
                "你已經除以 √d_k 了。那是第 03 課的事；這一課直接對原始分數取 softmax。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT, dim=-2) @ (X @ W_V),
            both(
                "The columns of your attention matrix sum to 1, not its rows: the softmax runs over the queries. Each "
                "query shares out its attention among the keys.",
                "注意力矩陣裡加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢的方向做了。"
                "每個查詢要把注意力分給各個鍵。",
            ),
        ),
        Mistake(
            "roles_swapped",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_K @ (X @ W_Q).mT, dim=-1) @ (X @ W_V),
            both(
                "Keys and queries have changed roles: here the keys ask and the queries answer. A row of the attention "
                "matrix belongs to the word that asks.",
                "鍵和查詢的角色對調了：變成鍵在問、查詢在答。注意力矩陣的一列屬於發問的那個詞。",
            ),
        ),
        Mistake(
            "values_unprojected",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT, dim=-1) @ X,
            both(
                "Your weights mix the rows of X itself. The content that is handed over has a projection of its own.",
                "你的權重混合的是 X 本身的各列。交出去的內容還有自己的投影。",
            ),
        ),
        Mistake(
            "averages_keys",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT, dim=-1) @ (X @ W_K),
            both(
                "Your weights mix the keys. Keys are for finding; what is handed over are the values.",
                "你的權重混合的是鍵。鍵是用來找的，真正交出去的是值。",
            ),
        ),
        Mistake(
            "attention_transposed",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT, dim=-1).mT @ (X @ W_V),
            both(
                "The attention matrix is used transposed, so each word hands out what it should collect. Row n of the "
                "result is made with row n of the weights.",
                "注意力矩陣轉置了才用，於是每個詞把該收進來的東西發出去了。結果的第 n 列要用權重的第 n 列來算。",
            ),
        ),
        Mistake(
            "residual_added",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_K).mT, dim=-1) @ (X @ W_V) + X,
            both(
                "You add X at the end. That residual connection comes in lesson 06 and is not part of attention itself.",
                "你最後加上了 X。那個殘差連結是第 06 課的事，不屬於注意力本身。",
            ),
        ),
        Mistake(
            "shared_projection",
            lambda X, W_Q, W_K, W_V: torch.softmax(X @ W_Q @ (X @ W_Q).mT, dim=-1) @ (X @ W_V),
            both(
                "Queries and keys come from the same weight matrix, so every word suits itself best. Each role has a "
                "matrix of its own.",
                "查詢和鍵用了同一個權重矩陣，於是每個詞多半最合自己。每個角色各有自己的矩陣。",
            ),
        ),
        Mistake(
            "no_softmax",
            lambda X, W_Q, W_K, W_V: X @ W_Q @ (X @ W_K).mT @ (X @ W_V),
            both(
                "The raw scores serve as weights. Weights are positive and every row sums to 1: a step is missing.",
                "你直接拿原始分數當權重。權重要是正數，每一列加起來是 1：少了一個步驟。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda X, W_Q, W_K, W_V: (
                torch.exp(X @ W_Q @ (X @ W_K).mT)
                / torch.exp(X @ W_Q @ (X @ W_K).mT).sum(dim=-1, keepdim=True)
                @ (X @ W_V)
            ),
            both(
                "Right for small scores, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "all_axes_reversed",
            lambda X, W_Q, W_K, W_V: (
                torch.softmax(X @ W_Q @ (X @ W_K).permute(*reversed(range(X.ndim))), dim=-1) @ (X @ W_V)
            ),
            both(
                "Right for a single sequence, wrong for a batch: only the last two axes are rows and columns.",
                "單一序列沒問題，批次就錯了：只有最後兩個軸才是列與行。",
            ),
        ),
    ],
    hints=[
        both(
            "Write again, inside this function, the four steps: project, compare, share out, mix.",
            "在這個函式裡，重新寫一次這四個步驟：投影、比較、分配、混合。",
        ),
        both(
            "Everything is made from the same X: that is the “self”. The attention matrix is [..., N, N], one row for "
            "each word that asks.",
            "全部都從同一個 X 來：這就是「自」注意力。注意力矩陣是 [..., N, N]，每個發問的詞一列。",
        ),
        both(
            "Write it for one sequence first and check the shapes: [N, d_k] meets [d_k, N], then [N, N] meets [N, d_v]. "
            "For batches only the last two axes may change places.",
            "先寫單一序列並核對形狀：[N, d_k] 遇到 [d_k, N]，接著 [N, N] 遇到 [N, d_v]。有批次時，只有最後兩個軸可以對調。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------- permutation_gap


def permutation_gap(f: Callable[[Tensor], Tensor], X: Tensor, perm: Tensor) -> Tensor:
    """The largest |f(X[perm]) − f(X)[perm]|. Gradients are not judged."""
    return (f(X[perm]) - f(X)[perm]).abs().max()


def draw_order(draw: Draw, N: int) -> Tensor:
    """A permutation that moves every row and lets no two rows merely change places: its inverse is another one throughout."""
    while True:
        perm = draw.permutation(N)
        if bool((perm[perm] != torch.arange(N)).all()):
            return perm


def draw_equivariant(draw: Draw, N: int, d: int, d_out: int) -> tuple[Equivariant, Tensor, Tensor]:
    return Equivariant(draw.normal(d, d), draw.normal(d, d_out)), draw.normal(N, d), draw_order(draw, N)


def draw_placed(
    draw: Draw, kind: type[Positional | PlaceScaled], N: int, d: int, d_out: int
) -> tuple[Positional | PlaceScaled, Tensor, Tensor]:
    """An f that knows the places. The largest gap is in the middle: rows left out at the ends have a case of their own."""
    while True:
        f, X, perm = kind(draw.normal(N, d), draw.normal(d, d_out)), draw.normal(N, d), draw_order(draw, N)
        if (f(X[perm]) - f(X)[perm]).abs().amax(dim=-1).argmax() not in (0, N - 1):
            return f, X, perm


def draw_gap_in_row(draw: Draw, row: int, N: int, d: int) -> tuple[PlaceScaled, Tensor, Tensor]:
    """The largest gap is in this row, with both signs in it: a loop that leaves the row out must show."""
    P, X = draw.uniform(0.5, 1.5, N, d), draw.uniform(0.5, 1.5, N, d)
    P[row] *= 20
    X[row] *= 0.1  # the row that this one moves to has a large scale difference too: keep that gap small
    W = draw.uniform(0.5, 1.5, d, 1) * torch.tensor([1.0, -0.7, 0.5], dtype=draw.dtype)
    return PlaceScaled(P, W), X, draw_order(draw, N)


def draw_one_sided_gap(draw: Draw, step: int) -> tuple[Positional, Tensor, Tensor]:
    """Positions rise along an order of the rows, and every row moves by one place of it.

    step = 1: gaps of +w, but one of −(N−1)·w, in row 2. step = −1: gaps of −w, but one of +(N−1)·w, in row 1.
    """
    N, d, d_out = 5, 3, 2
    order = torch.tensor([2, 0, 4, 3, 1])  # the large gap stands in the middle, where no loop leaves it out
    P, perm = torch.zeros(N, d, dtype=draw.dtype), torch.zeros(N, dtype=torch.long)
    P[order] = torch.arange(N, dtype=draw.dtype)[:, None] * draw.uniform(0.5, 1.5, d)
    perm[order] = order.roll(step)
    return Positional(P, draw.uniform(0.5, 1.5, d, d_out)), draw.normal(N, d), perm


exercise(
    name="permutation_gap",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=permutation_gap,
    results=("gap",),
    forbidden=ATTENTION,
    # A gap of 0 is a difference of equal numbers of size 1: rounding is measured against those.
    cases=[
        Case(
            "attention",
            both("an f that looks at all rows alike, as self-attention does", "一視同仁看待每一列的 f，例如自注意力"),
            lambda d: draw_equivariant(d, 5, 3, 4),
            2,
            magnitude=1.0,
        ),
        Case(
            "positions",
            both("an f that knows the positions", "知道位置的 f"),
            lambda d: draw_placed(d, Positional, 5, 3, 4),
            2,
            magnitude=1.0,
        ),
        Case(
            "scales",
            both("an f that multiplies by place", "依位置乘上不同倍數的 f"),
            lambda d: draw_placed(d, PlaceScaled, 5, 3, 4),
            2,
            magnitude=1.0,
        ),
        Case(
            "square",
            both("N = d = d_out: every index fits", "N = d = d_out：怎麼取索引都對得上"),
            lambda d: draw_equivariant(d, 4, 4, 4),
            1,
            magnitude=1.0,
        ),
        Case(
            "negative",
            both("the largest difference is negative", "最大的差是負的"),
            lambda d: draw_one_sided_gap(d, 1),
            trap=True,
            magnitude=1.0,
        ),
        Case(
            "positive",
            both("the largest difference is positive", "最大的差是正的"),
            lambda d: draw_one_sided_gap(d, -1),
            trap=True,
            magnitude=1.0,
        ),
        replace(float64(lambda d: draw_gap_in_row(d, -1, 6, 2)), magnitude=1.0),
        replace(noncontiguous(lambda d: draw_gap_in_row(d, 0, 6, 4)), magnitude=1.0),
    ],
    mistakes=[
        Mistake(
            "expects_invariance",
            lambda f, X, perm: (f(X[perm]) - f(X)).abs().max(),
            both(
                "You compare with f(X) in its old order. When the words change places their results change places with "
                "them: compare each row with its own.",
                "你拿來比的是原來順序的 f(X)。詞換了位置，結果也跟著換位置：要讓每一列和自己的那一列比。",
            ),
        ),
        Mistake(
            "inverse_permutation",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm.argsort()]).abs().max(),
            both(
                "You undo the permutation on one side. Both sides must be in the same order: the same index on input "
                "and result.",
                "你在其中一邊把排列還原了。兩邊要用同樣的順序：輸入和結果用同一個索引。",
            ),
        ),
        Mistake(
            "inverse_on_both_sides",
            lambda f, X, perm: (f(X[perm.argsort()]) - f(X)[perm.argsort()]).abs().max(),
            both(
                "You use the inverse of the permutation. Both ways agree then, but with another order than the one "
                "that was asked for.",
                "你用的是反排列。兩條路雖然一致，卻不是題目給的那個順序。",
            ),
        ),
        Mistake(
            "permuted_input_unused",
            lambda f, X, perm: (f(X) - f(X)[perm]).abs().max(),
            both(
                "You compare f(X) with its own rows in another order. One of the two sides must be what f makes of the "
                "permuted X.",
                "你拿 f(X) 和它自己換了順序的各列相比。兩邊有一邊應該是 f 作用在排列過的 X 上。",
            ),
        ),
        Mistake(
            "rows_sorted",
            lambda f, X, perm: (f(X[perm]).sort(dim=0).values - f(X).sort(dim=0).values).abs().max(),
            both(
                "You sort both sides before comparing, and lose the order, which is what the question is about. Compare "
                "row by row.",
                "你在比較之前把兩邊都排序了，順序就不見了，而這一題問的正是順序。要一列對一列地比。",
            ),
        ),
        Mistake(
            "permutes_features",
            lambda f, X, perm: (f(X[:, perm]) - f(X)[:, perm]).abs().max(),
            both(
                "You permute the columns, the features. The words are the rows.",
                "你重新排列的是行（column），也就是特徵。詞是列（row）。",
            ),
        ),
        Mistake(
            "signed_difference",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm]).max(),
            both(
                "You take the largest signed difference, so a large negative gap goes unseen. A gap has a size, not a "
                "direction.",
                "你取的是帶正負號的最大差，於是很大的負差距就看不到了。差距只看大小，不看方向。",
            ),
        ),
        Mistake(
            "signed_difference_mirrored",
            lambda f, X, perm: (f(X)[perm] - f(X[perm])).max(),
            both(
                "You take the largest signed difference, so a gap of the other sign goes unseen. A gap has a size, not "
                "a direction.",
                "你取的是帶正負號的最大差，正負相反的差距就看不到了。差距只看大小，不看方向。",
            ),
        ),
        Mistake(
            "mean_instead_of_max",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm]).abs().mean(),
            both(
                "You average the differences. One bad entry among many good ones must show: take the worst.",
                "你取的是平均。好的裡面混著一個壞的也要看得出來：要取最差的那一個。",
            ),
        ),
        Mistake(
            "sum_instead_of_max",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm]).abs().sum(),
            both(
                "You add up the differences, so the result grows with the number of entries. The largest single entry "
                "is asked for.",
                "你把差都加起來，數愈多結果就愈大。題目要的只是最大的那一個差。",
            ),
        ),
        Mistake(
            "length_instead_of_max",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm]).norm(),
            both(
                "You take the length of the difference, which grows with the number of entries. The largest single "
                "entry is asked for.",
                "你取的是差的長度，數愈多就愈長。題目要的只是最大的那一個差。",
            ),
        ),
        Mistake(
            "always_zero",
            lambda f, X, perm: X.new_zeros(()),
            both(
                "Your result is 0 for every f. That holds for self-attention, but the function measures whatever f it "
                "is given: call it.",
                "不管 f 是什麼，你都回傳 0。自注意力確實是 0，但這個函式要量的是交給它的任何 f：要實際呼叫它。",
            ),
        ),
        Mistake(
            "yes_or_no",
            lambda f, X, perm: torch.allclose(f(X[perm]), f(X)[perm], atol=1e-5),
            both(
                "You answer yes or no. The question is how large the gap is: a number, 0 when there is none.",
                "你回答的是「是」或「否」。題目問的是差距有多大：一個數，沒有差距時是 0。",
            ),
        ),
        Mistake(
            "python_number",
            lambda f, X, perm: (f(X[perm]) - f(X)[perm]).abs().max().item(),
            both(
                "The number is right, but it comes back as a Python float. Keep it a 0-d tensor, in the dtype of X.",
                "數是對的，但回傳的是 Python 的 float。要保持 0 維張量，dtype 和 X 一樣。",
            ),
        ),
    ],
    hints=[
        both(
            "Two ways to the same place: permute, then apply f; or apply f, then permute. How far apart do they end?",
            "同一個地方有兩條路：先排列再套用 f，或先套用 f 再排列。兩條路的終點差多遠？",
        ),
        both(
            "Indexing a matrix with a LongTensor picks its rows in that order. Use the same index on both ways.",
            "用 LongTensor 當索引，會依那個順序取出矩陣的列。兩條路用同一個索引。",
        ),
        both(
            "The gap is the size of the largest difference, whatever its sign, over all entries: a 0-d tensor.",
            "每個數都算出差，不看正負，只取最大的那一個：結果是 0 維張量。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- questions

question(
    name="02_q1",
    lesson=LESSON,
    right="b",
    wrong=[
        Mistake(
            "roles_swapped",
            "a",
            both(
                "The keys do not ask. The word that is looking for something brings the query; the others are found by "
                "their keys.",
                "鍵不負責發問。正在找東西的詞帶來查詢，其他的詞靠鍵被找到。",
            ),
        ),
        Mistake(
            "value_as_score",
            "c",
            both(
                "The number that says how well two words fit is the score, the inner product of query and key. The "
                "value is a vector: what is handed over.",
                "說明兩者有多合的數字是分數，也就是查詢與鍵的內積。值是一個向量，是真正交出去的東西。",
            ),
        ),
        Mistake(
            "key_as_content",
            "d",
            both(
                "Key and value have changed places. Think of the library: the spine of a book is for finding it, the "
                "pages are what you take home.",
                "鍵和值對調了。想想圖書館：書背是用來找書的，帶回家的是書裡的內容。",
            ),
        ),
    ],
    hints=[
        both(
            "Follow one number through the formula: which two letters meet inside the softmax, and which one stands "
            "outside it?",
            "順著公式看：哪兩個字母在 softmax 裡面相遇，哪一個在外面？",
        ),
    ],
)

question(
    name="02_q2",
    lesson=LESSON,
    right="c",
    wrong=[
        Mistake(
            "next_word_model",
            "a",
            both(
                "Rows that sum to 1 are true of every attention matrix. A model that is choosing the next word cannot "
                "look at words that are not there yet: look above the diagonal.",
                "每一列加起來是 1，這對任何注意力矩陣都成立。正在挑下一個字的模型不能看還沒出現的字：看看對角線的右上方。",
            ),
        ),
        Mistake(
            "columns_sum_to_one",
            "b",
            both(
                "Add up a column and see. The softmax shares out each row; a word may receive more attention than 1 or "
                "less.",
                "把一行（column）加起來看看。softmax 分配的是每一列；一個詞收到的注意力可以超過 1，也可以不到 1。",
            ),
        ),
        Mistake(
            "symmetric",
            "d",
            both(
                "Compare two entries mirrored at the diagonal. Query and key come from different matrices, and each row "
                "is normalised by itself, so there is no reason for symmetry.",
                "比較對角線兩側互相對稱的兩個數。查詢和鍵來自不同的矩陣，而且每一列各自正規化，沒有理由對稱。",
            ),
        ),
    ],
    hints=[
        both(
            "Test each statement on the printed numbers: a row sum, a column sum, two mirrored entries, the corner at "
            "the upper right.",
            "用印出來的數字檢驗每一句：一列的和、一行的和、對稱的兩個數、右上角。",
        ),
    ],
)
