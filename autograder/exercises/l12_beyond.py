"""Lesson 12, beyond N² and beyond text: a sliding window, linear attention and its recurrent form, a scan, patches, digits.

Shapes: N queries (or steps of time), M keys, d_k, d_v; B batch, h heads; D channels with S states each; C colours, H × W pixels.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION, CONVOLUTIONS, PATCHES, WAYS_OUT_OF_TORCH
from autograder.exercises.shared import float64, gradients, noncontiguous, smallest
from autograder.functions import EncoderBlock
from autograder.text import both

LESSON = "12_beyond"

# ---------------------------------------------------------------------------------------- sliding_window_mask


def sliding_window_mask(n_queries: int, window: int, n_keys: int | None = None, device: Any = None) -> Tensor:
    n_keys = n_queries if n_keys is None else n_keys
    query = torch.arange(n_queries, device=device).unsqueeze(-1) + n_keys - n_queries
    key = torch.arange(n_keys, device=device)
    return (key <= query) & (key > query - window)


def steps_back(n_queries: int, n_keys: int | None, shift: int | None = None) -> Tensor:
    """How far key j lies before query i. `shift` is where the first query stands: M − N if not given."""
    n_keys = n_queries if n_keys is None else n_keys
    shift = n_keys - n_queries if shift is None else shift
    return torch.arange(n_queries).unsqueeze(-1) + shift - torch.arange(n_keys)


def inside(back: Tensor, window: int) -> Tensor:
    return (back >= 0) & (back < window)


exercise(
    name="sliding_window_mask",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=sliding_window_mask,
    results=("mask",),
    forbidden=ATTENTION,
    cases=[
        Case(
            "square",
            both("as many queries as keys", "查詢和鍵一樣多"),
            lambda d: (n := d.integer(6, 9), d.integer(2, n - 3)),
            3,
        ),
        Case(
            "more_keys",
            both("more keys than queries (a cache stands before them)", "鍵比查詢多（前面有快取）"),
            lambda d: (n := d.integer(3, 4), d.integer(2, 3), n + d.integer(3, 5)),
            3,
        ),
        Case(
            "named",
            both("n_keys and device by name", "用名稱給 n_keys 與 device"),
            lambda d: ((4, 3), {"n_keys": d.integer(6, 8), "device": "cpu"}),
        ),
        Case("only_itself", both("window = 1: only itself", "window = 1：只看自己"), lambda d: (d.integer(3, 6), 1)),
        Case(
            "wide",
            both("a window wider than everything: plain causal", "視窗比全部的鍵還寬：就是普通的因果遮罩"),
            lambda d: (n := d.integer(4, 6), n + d.integer(1, 3)),
        ),
        Case(
            "more_queries",
            both("more queries than keys: the first ones see nothing", "查詢比鍵多：最前面的幾個什麼都看不到"),
            lambda d: (m := d.integer(4, 5), 2, m - 2),
            trap=True,
        ),
        Case("one_query", both("one query, one key", "一個查詢、一個鍵"), lambda d: (1, 2), 0.5, trap=True),
    ],
    mistakes=[
        Mistake(
            "one_too_wide",
            lambda n_queries, window, n_keys=None, device=None: inside(steps_back(n_queries, n_keys), window + 1),
            both(
                "Your window is one key too wide: `window` keys before the query, and the query's own besides. Its own "
                "position counts.",
                "你的視窗多看了一個鍵：查詢之前 window 個，又加上自己。自己的位置也要算在內。",
            ),
        ),
        Mistake(
            "one_too_narrow",
            lambda n_queries, window, n_keys=None, device=None: inside(steps_back(n_queries, n_keys), window - 1),
            both(
                "Your window is one key too narrow: its oldest key is missing. With a window of 1 a query still sees itself.",
                "你的視窗少看了一個鍵：最舊的那個不見了。視窗是 1 時，查詢仍然看得到自己。",
            ),
        ),
        Mistake(
            "wrong_way_aligned",
            lambda n_queries, window, n_keys=None, device=None: inside(
                steps_back(n_queries, n_keys, n_queries - (n_keys or n_queries)), window
            ),
            both(
                "Right for N = M. With more keys than queries your queries stand before the first key, not at the end of the "
                "keys: look at the sign of M − N.",
                "N = M 時是對的。鍵比查詢多時，你的查詢站到第一個鍵前面去了，不是排在鍵的尾端：看看 M − N 的正負號。",
            ),
        ),
        Mistake(
            "two_sided",
            lambda n_queries, window, n_keys=None, device=None: steps_back(n_queries, n_keys).abs() < window,
            both(
                "Your window reaches as far ahead as it reaches back. This one is causal: nothing after the query.",
                "你的視窗往過去看多遠，就往未來看多遠。這裡要的是因果的：查詢之後的都不能看。",
            ),
        ),
        Mistake(
            "window_only",
            lambda n_queries, window, n_keys=None, device=None: steps_back(n_queries, n_keys) < window,
            both(
                "You cut off the distant past, but the whole future is open. Two conditions must hold at once.",
                "你切掉了太遠的過去，卻讓未來全部打開。兩個條件要同時成立。",
            ),
        ),
        Mistake(
            "causal_only",
            lambda n_queries, window, n_keys=None, device=None: steps_back(n_queries, n_keys) >= 0,
            both(
                "Your mask does not depend on the window: every earlier key stays open.",
                "你的遮罩和 window 無關：前面的鍵全都開著。",
            ),
        ),
        Mistake(
            "top_left",
            lambda n_queries, window, n_keys=None, device=None: inside(steps_back(n_queries, n_keys, 0), window),
            both(
                "Right for N = M. With more keys than queries you count the queries from the first key on; they stand at "
                "the end of the keys.",
                "N = M 時是對的。鍵比查詢多時，你讓查詢從第一個鍵算起；其實查詢排在鍵的尾端。",
            ),
        ),
        Mistake(
            "mask_inverted",
            lambda n_queries, window, n_keys=None, device=None: ~inside(steps_back(n_queries, n_keys), window),
            both(
                "Your mask says True where a key is hidden. In this course True means: may attend.",
                "你的遮罩把要遮住的地方設成 True。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "excludes_self",
            lambda n_queries, window, n_keys=None, device=None: inside(steps_back(n_queries, n_keys) - 1, window),
            both(
                "Your window ends one step too early: the query does not see its own position.",
                "你的視窗早了一步結束：查詢看不到自己的位置。",
            ),
        ),
        Mistake(
            "looks_ahead",
            lambda n_queries, window, n_keys=None, device=None: inside(-steps_back(n_queries, n_keys), window),
            both(
                "Your window opens towards the future: the query sees what comes after it and nothing before.",
                "你的視窗朝未來打開了：查詢看到的是後面，前面的一個都看不到。",
            ),
        ),
        Mistake(
            "float_mask",
            lambda n_queries, window, n_keys=None, device=None: torch.zeros(
                steps_back(n_queries, n_keys).shape
            ).masked_fill(~inside(steps_back(n_queries, n_keys), window), -torch.inf),
            both(
                "Your mask holds 0 and −∞, to be added to scores. A mask of this course is Boolean.",
                "你的遮罩裡是 0 和 −∞，那是拿來加在分數上的。這門課的遮罩是布林張量。",
            ),
        ),
        Mistake(
            "numbers",
            lambda n_queries, window, n_keys=None, device=None: inside(steps_back(n_queries, n_keys), window).float(),
            both(
                "Your entries are numbers, ones and zeros. A mask of this course is Boolean: True where a query may attend.",
                "你的遮罩裡是數字 1 和 0。這門課的遮罩是布林張量：可以看的地方是 True。",
            ),
        ),
    ],
    hints=[
        both(
            "Write the position of every query as a column and that of every key as a row; a comparison of the two "
            "broadcasts to [N, M].",
            "把每個查詢的位置寫成一行（column），每個鍵的位置寫成一列（row）；兩者一比較，就廣播成 [N, M]。",
        ),
        both(
            "Query i stands at key position i + M − N. How many steps back may a key lie, at least and at most?",
            "查詢 i 站在鍵的位置 i + M − N。從它往回數，鍵最少、最多可以隔幾步？",
        ),
        both(
            "The steps back run from 0 (itself) to window − 1: two comparisons, joined with &.",
            "往回的步數從 0（自己）到 window − 1：兩個比較，用 & 連起來。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- linear_attention


def feature_map(x: Tensor) -> Tensor:
    """elu(x) + 1 without its cancellation: x + 1 above 0, eˣ below."""
    return x.relu() + x.clamp(max=0).exp()


def linear_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    f_q, f_k = feature_map(q), feature_map(k)
    if is_causal:
        weights = (f_q @ f_k.mT).tril()
        return weights @ v / weights.sum(dim=-1, keepdim=True)
    S, z = f_k.mT @ v, f_k.sum(dim=-2).unsqueeze(-1)
    return f_q @ S / (f_q @ z)


def linear_attention_plainly(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """With elu(x) + 1 as it is written, which loses digits where x is far below 0."""
    return ratio(F.elu(q) + 1, F.elu(k) + 1, v, is_causal)


def numerator(f_q: Tensor, f_k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    return (f_q @ f_k.mT).tril() @ v if is_causal else f_q @ (f_k.mT @ v)


def ratio(f_q: Tensor, f_k: Tensor, v: Tensor, is_causal: bool, epsilon: float = 0.0) -> Tensor:
    one = v[..., :1].detach() * 0 + 1  # the value of the denominator
    return numerator(f_q, f_k, v, is_causal) / (numerator(f_q, f_k, one, is_causal) + epsilon)


EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)  # those that one meets in other people's programs
EPSILON_ADDED = both(
    "A small number is added to your denominator. φ is above 0, so the sum never is 0; and in float64, where rounding is "
    "smaller than that number, the weights no longer sum to 1.",
    "你在分母加了一個很小的數。φ 大於 0，總和不會是 0；而 float64 的捨入比那個數還小，權重加起來就不再是 1。",
)


def with_features(phi: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Linear attention with another feature map."""
    return lambda q, k, v, is_causal=False: ratio(phi(q), phi(k), v, is_causal)


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, scale: float) -> Tensor:
    scores = q @ k.mT * scale
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(scores, dim=-1) @ v


def draw_qkv(d: Draw, N: int, M: int, d_k: int, d_v: int, std: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Two sequences, three heads; the values far from 0, so that a wrong sum of weights shows."""
    return d.normal(2, 3, N, d_k, std=std), d.normal(2, 3, M, d_k, std=std), d.normal(2, 3, M, d_v, mean=1.5)


N_LONG, M_LONG = 1024, 900
IS_SOFTMAX = both(
    "These are the values of softmax attention. There is no softmax here: the weight of a key is φ(q)·φ(k), divided by "
    "the sum of these products.",
    "這是 softmax 注意力的值。這裡沒有 softmax：一個鍵的權重是 φ(q)·φ(k)，再除以這些內積的總和。",
)

exercise(
    name="linear_attention",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=linear_attention,
    plain=linear_attention_plainly,
    results=("output",),
    forbidden=(*ATTENTION, *WAYS_OUT_OF_TORCH),
    cases=[
        Case("ordinary", both("N queries, M keys", "N 個查詢、M 個鍵"), lambda d: draw_qkv(d, 4, 6, 5, 3), 3),
        Case(
            "causal",
            both("causal: position i sees j ≤ i", "因果：位置 i 只看 j ≤ i"),
            lambda d: (draw_qkv(d, 5, 5, 3, 4), {"is_causal": True}),
            3,
        ),
        Case(
            "one_key",
            both("a single key: its value comes back", "只有一個鍵：它的值原樣回來"),
            lambda d: draw_qkv(d, 3, 1, 4, 2),
            0.5,
        ),
        Case(
            "little_memory",
            both(
                "1024 queries, 900 keys, without making an N × M matrix", "1024 個查詢、900 個鍵，不能做出 N × M 矩陣"
            ),
            lambda d: (d.normal(1, 1, N_LONG, 4), d.normal(1, 1, M_LONG, 4), d.normal(1, 1, M_LONG, 3, mean=1.5)),
            2,
            trap=True,
            meter=N_LONG * M_LONG // 16,  # right answers stay below half of it, 64 queries at a time need twice as much
        ),
        Case(
            "float64",
            both(
                "float64 in, float64 precision out; entries from −10 to 10",
                "輸入是 float64，結果也要有 float64 的精度；元素從 −10 到 10",
            ),
            lambda d: (d.uniform(-10, 10, 2, 3, 5, 4), d.uniform(-10, 10, 2, 3, 5, 4), d.normal(2, 3, 5, 3), True),
            dtype=torch.float64,
            trap=True,
        ),
        Case(
            "float64_not_causal",
            both("float64 without is_causal", "float64，沒有 is_causal"),
            lambda d: draw_qkv(d, 4, 5, 3, 2),
            0.75,
            torch.float64,
            trap=True,
        ),
        noncontiguous(lambda d: draw_qkv(d, 3, 5, 4, 2), 0.75),
        gradients(lambda d: draw_qkv(d, 3, 5, 4, 2)),
        Case(
            "causal_gradients",
            both("gradients flow back in the causal form too", "因果的形式也要讓梯度傳回去"),
            lambda d: (*draw_qkv(d, 4, 4, 3, 2), True),
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "softmax_attention",
            lambda q, k, v, is_causal=False: softmax_attention(q, k, v, is_causal, q.shape[-1] ** -0.5),
            IS_SOFTMAX,
        ),
        Mistake(
            "softmax_unscaled", lambda q, k, v, is_causal=False: softmax_attention(q, k, v, is_causal, 1.0), IS_SOFTMAX
        ),
        Mistake(
            "no_features",
            with_features(lambda x: x),
            both(
                "You use q and k as they are. Their products can be negative or add up to almost 0: φ must make every "
                "entry positive first.",
                "你直接用 q 和 k。它們的內積可能是負的，加起來也可能接近 0：要先用 φ 讓每個元素都變成正的。",
            ),
        ),
        Mistake(
            "relu_features",
            with_features(torch.relu),
            both(
                "Your φ turns negative entries into 0, and a query or key without positive ones gets weights of 0/0. "
                "φ(x) = elu(x) + 1 is above 0 everywhere.",
                "你的 φ 把負的元素變成 0；整個向量都不是正的時候，權重就成了 0/0。φ(x) = elu(x) + 1 處處大於 0。",
            ),
        ),
        Mistake(
            "relu_plus_one",
            with_features(lambda x: x.relu() + 1),
            both(
                "Your φ is right for positive entries, but all others become 1. Below 0 it should fall, towards 0: is your "
                "function elu?",
                "你的 φ 在正的元素是對的，其他卻都變成 1。小於 0 時它應該往 0 下降：你用的是 elu 嗎？",
            ),
        ),
        Mistake(
            "elu_without_one",
            with_features(F.elu),
            both(
                "Your φ goes below 0: elu alone reaches down to −1. What is added to it?",
                "你的 φ 會小於 0：elu 本身最低到 −1。還要加上什麼？",
            ),
        ),
        Mistake(
            "exponential_features",
            with_features(torch.exp),
            both(
                "Your φ is eˣ for positive entries too. There it grows much faster than elu(x) + 1 = x + 1.",
                "你的 φ 在正的元素也用 eˣ，比 elu(x) + 1 = x + 1 長得快多了。",
            ),
        ),
        Mistake(
            "queries_without_features",
            lambda q, k, v, is_causal=False: ratio(q, feature_map(k), v, is_causal),
            both(
                "Only your keys went through φ. The weight is φ(q)·φ(k): the queries need it too.",
                "只有鍵經過 φ。權重是 φ(q)·φ(k)：查詢也要經過。",
            ),
        ),
        Mistake(
            "keys_without_features",
            lambda q, k, v, is_causal=False: ratio(feature_map(q), k, v, is_causal),
            both(
                "Only your queries went through φ. The weight is φ(q)·φ(k): the keys need it too.",
                "只有查詢經過 φ。權重是 φ(q)·φ(k)：鍵也要經過。",
            ),
        ),
        Mistake(
            "features_of_scores",
            lambda q, k, v, is_causal=False: (
                (w := feature_map(q @ k.mT).tril() if is_causal else feature_map(q @ k.mT))
                @ v
                / w.sum(-1, keepdim=True)
            ),
            both(
                "You put the scores q·k through φ. It belongs to q and k, before they are multiplied: only then can the "
                "bracket move.",
                "你把分數 q·k 放進 φ。φ 屬於相乘之前的 q 和 k：這樣括號才能移動。",
            ),
        ),
        *[
            Mistake(
                f"epsilon_{epsilon:g}",
                lambda q, k, v, is_causal=False, epsilon=epsilon: ratio(
                    feature_map(q), feature_map(k), v, is_causal, epsilon
                ),
                EPSILON_ADDED,
            )
            for epsilon in EPSILONS
        ],
        Mistake(
            "scaled",
            lambda q, k, v, is_causal=False: ratio(feature_map(q * q.shape[-1] ** -0.5), feature_map(k), v, is_causal),
            both(
                "You divide by √d_k before φ. That root belongs to the softmax; here nothing is scaled.",
                "你在 φ 之前除以 √d_k。那個根號是給 softmax 用的，這裡不縮放。",
            ),
        ),
        Mistake(
            "not_normalised",
            lambda q, k, v, is_causal=False: (
                numerator(feature_map(q), feature_map(k), v, is_causal)
                / (
                    torch.arange(1, v.shape[-2] + 1, dtype=v.dtype, device=v.device).unsqueeze(-1)
                    if is_causal
                    else v.shape[-2]
                )
            ),
            both(
                "You divide by the number of keys. The weights must sum to 1: divide by the sum of φ(q)·φ(k).",
                "你除以鍵的個數。權重加起來要是 1：要除以 φ(q)·φ(k) 的總和。",
            ),
        ),
        Mistake(
            "numerator_only",
            lambda q, k, v, is_causal=False: numerator(feature_map(q), feature_map(k), v, is_causal),
            both(
                "This is the numerator alone. Without the denominator the weights do not sum to 1, and the output grows "
                "with the number of keys.",
                "這只是分子。少了分母，權重加起來不是 1，鍵愈多輸出就愈大。",
            ),
        ),
        Mistake(
            "whole_normaliser",
            lambda q, k, v, is_causal=False: (
                numerator(feature_map(q), feature_map(k), v, is_causal)
                / numerator(feature_map(q), feature_map(k), torch.ones_like(v[..., :1]), False)
            ),
            both(
                "Your causal numerator stops at i, but your denominator sums over all keys, the future included. Both "
                "sums run over the same keys.",
                "因果時你的分子只加到 i，分母卻加了所有的鍵，連未來也算進去。兩個總和要用同一批鍵。",
            ),
        ),
        Mistake(
            "causal_ignored",
            lambda q, k, v, is_causal=False: ratio(feature_map(q), feature_map(k), v, False),
            both(
                "Your result does not depend on is_causal: position i sees the keys after it.",
                "你的結果和 is_causal 無關：位置 i 看得到後面的鍵。",
            ),
        ),
        Mistake(
            "future_only",
            lambda q, k, v, is_causal=False: (
                (w := (feature_map(q) @ feature_map(k).mT).triu()) @ v / w.sum(-1, keepdim=True)
                if is_causal
                else linear_attention_plainly(q, k, v)
            ),
            both(
                "Your triangle is the upper one: position i sees itself and what comes later. Rows are queries.",
                "你留下的是上三角：位置 i 看到的是自己和後面。列是查詢。",
            ),
        ),
        Mistake(
            "excludes_self",
            lambda q, k, v, is_causal=False: (
                (w := (feature_map(q) @ feature_map(k).mT).tril(-1)) @ v / w.sum(-1, keepdim=True)
                if is_causal
                else linear_attention_plainly(q, k, v)
            ),
            both(
                "Your sums stop before position i itself, so the first position has nothing to look at: 0/0.",
                "你的總和在位置 i 之前就停了，第一個位置沒有東西可看：0/0。",
            ),
        ),
        Mistake(
            "full_matrix",
            lambda q, k, v, is_causal=False: (
                (w := (feature_map(q) @ feature_map(k).mT).tril() if is_causal else feature_map(q) @ feature_map(k).mT)
                @ v
                / w.sum(-1, keepdim=True)
            ),
            both(
                "The numbers are right, but you made the N × M matrix, so nothing is saved. A product of three matrices "
                "may be bracketed in two ways.",
                "數字都對，但你做出了 N × M 的矩陣，什麼也沒省到。三個矩陣相乘，括號有兩種放法。",
            ),
        ),
    ],
    hints=[
        both(
            "Numerator: φ(Q) φ(K)ᵀ V. Which two of the three would you multiply first, if N and M are large and the "
            "other sizes small? Compare the shapes.",
            "分子是 φ(Q) φ(K)ᵀ V。如果 N、M 很大而其他都很小，三個之中你會先乘哪兩個？比比看形狀。",
        ),
        both(
            "The denominator is the same expression with a 1 in the place of every value: φ(q_i) times the sum of all "
            "φ(k_j). Keep the last axis, so that it broadcasts.",
            "分母是同一個式子，只是把每個值換成 1：φ(q_i) 乘上所有 φ(k_j) 的總和。保留最後一軸，才能廣播。",
        ),
        both(
            "Causal: here the N × N matrix of φ(q)·φ(k) is allowed. Keep its lower triangle (tril), and use that same "
            "matrix for both sums.",
            "因果：這裡可以做出 φ(q)·φ(k) 的 N × N 矩陣。只留下三角（tril），分子和分母都用同一個矩陣。",
        ),
    ],
)

# -------------------------------------------------------------------------------------- linear_attention_step


def linear_attention_step(
    state: tuple[Tensor, Tensor] | None, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    f_q, f_k = feature_map(q), feature_map(k)
    S, z = f_k.unsqueeze(-1) * v.unsqueeze(-2), f_k
    if state is not None:
        S, z = state[0] + S, state[1] + z
    out = (f_q.unsqueeze(-2) @ S).squeeze(-2) / (f_q * z).sum(dim=-1, keepdim=True)
    return out, (S, z)


def written(state: tuple[Tensor, Tensor] | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    S, z = feature_map(k).unsqueeze(-1) * v.unsqueeze(-2), feature_map(k)
    return (S, z) if state is None else (state[0] + S, state[1] + z)


def read(q: Tensor, S: Tensor, z: Tensor, epsilon: float = 0.0) -> Tensor:
    return read_with(feature_map(q), S, z, epsilon)


def read_with(f_q: Tensor, S: Tensor, z: Tensor, epsilon: float = 0.0) -> Tensor:
    return (f_q.unsqueeze(-2) @ S).squeeze(-2) / ((f_q * z).sum(dim=-1, keepdim=True) + epsilon)


def nothing_yet(state: tuple[Tensor, Tensor] | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The state before this token; zeros at the start."""
    return (k.unsqueeze(-1) * v.unsqueeze(-2) * 0, k * 0) if state is None else state


def write_into_state(state: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    if state is None:
        return linear_attention_step_of_all(None, q, k, v)
    S, z = state
    S += feature_map(k).unsqueeze(-1) * v.unsqueeze(-2)
    z += feature_map(k)
    return read(q, S, z), (S, z)


def linear_attention_step_of_all(state: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    S, z = written(state, k, v)
    return read(q, S, z), (S, z)


def step_without_features(state: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    S, z = k.unsqueeze(-1) * v.unsqueeze(-2), k
    if state is not None:
        S, z = state[0] + S, state[1] + z
    return (q.unsqueeze(-2) @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True), (S, z)


def draw_token(d: Draw, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    return d.normal(2, 3, d_k), d.normal(2, 3, d_k), d.normal(2, 3, d_v, mean=1.5)


def draw_step(d: Draw, d_k: int, d_v: int, past: int = 3) -> tuple[Any, ...]:
    """A token, after a state that so many tokens have left behind."""
    k, v = d.normal(2, 3, past, d_k), d.normal(2, 3, past, d_v, mean=1.5)
    return (feature_map(k).mT @ v, feature_map(k).sum(dim=-2)), *draw_token(d, d_k, d_v)


exercise(
    name="linear_attention_step",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=linear_attention_step,
    results=("out", "state"),
    forbidden=ATTENTION,
    cases=[
        Case(
            "first",
            both("the first token: state is None", "第一個詞元：state 是 None"),
            lambda d: (None, *draw_token(d, 4, 5)),
            2,
        ),
        Case("later", both("a later token", "後面的詞元"), lambda d: draw_step(d, 4, 3), 3),
        Case("long_past", both("after 200 tokens", "已經讀過 200 個詞元"), lambda d: draw_step(d, 3, 5, 200)),
        Case(
            "square", both("keys as long as values: d_k = d_v", "鍵和值一樣長：d_k = d_v"), lambda d: draw_step(d, 4, 4)
        ),
        Case(
            "one_head",
            both("one head", "只有一個頭"),
            lambda d: (None, d.normal(2, 1, 4), d.normal(2, 1, 4), d.normal(2, 1, 3, mean=1.5)),
            0.75,
            trap=True,
        ),
        noncontiguous(lambda d: draw_step(d, 5, 2), 0.75),
        float64(lambda d: draw_step(d, 3, 4)),
        gradients(lambda d: draw_step(d, 4, 3)),
    ],
    mistakes=[
        Mistake(
            "reads_before_writing",
            lambda state, q, k, v: (read(q, *nothing_yet(state, k, v)), written(state, k, v)),
            both(
                "You read from the state before this token is in it; at the start that is 0/0. The token sees itself: "
                "write first, then read.",
                "你在寫入這個詞元之前就去讀狀態；一開始就成了 0/0。詞元看得到自己：先寫，再讀。",
            ),
        ),
        Mistake(
            "past_forgotten",
            lambda state, q, k, v: linear_attention_step_of_all(None, q, k, v),
            both(
                "Your result does not depend on the state that comes in: every token starts anew.",
                "你的結果和傳進來的狀態無關：每個詞元都從頭開始。",
            ),
        ),
        Mistake(
            "normaliser_not_carried",
            lambda state, q, k, v: (
                read(q, written(state, k, v)[0], feature_map(k)),
                (written(state, k, v)[0], feature_map(k)),
            ),
            both(
                "Your S adds up, but z holds this token's φ(k) only. Numerator and denominator need the same past.",
                "你的 S 有累加，z 卻只有這個詞元的 φ(k)。分子和分母要有同樣的過去。",
            ),
        ),
        Mistake(
            "values_not_carried",
            lambda state, q, k, v: (
                read(q, written(None, k, v)[0], written(state, k, v)[1]),
                (written(None, k, v)[0], written(state, k, v)[1]),
            ),
            both(
                "Your z adds up, but S holds this token's φ(k)ᵀv only. Numerator and denominator need the same past.",
                "你的 z 有累加，S 卻只有這個詞元的 φ(k)ᵀv。分子和分母要有同樣的過去。",
            ),
        ),
        Mistake(
            "not_normalised",
            lambda state, q, k, v: (
                (feature_map(q).unsqueeze(-2) @ written(state, k, v)[0]).squeeze(-2),
                written(state, k, v),
            ),
            both(
                "Your output is φ(q)S alone. It is divided by φ(q)·z, or it grows with every token.",
                "你的輸出只有 φ(q)S。還要除以 φ(q)·z，否則每來一個詞元它就變大。",
            ),
        ),
        Mistake(
            "writes_into_state",
            write_into_state,
            both(
                "The numbers are right, but you change the state that was handed in. Whoever still holds it (a beam, say) "
                "finds it altered: make new tensors.",
                "數字都對，但你改動了傳進來的狀態。別人（例如束搜尋）可能還要用它：請建立新的張量。",
            ),
        ),
        Mistake(
            "no_features",
            step_without_features,
            both(
                "You use q and k as they are: both go through φ(x) = elu(x) + 1 first.",
                "你直接用 q 和 k：兩個都要先經過 φ(x) = elu(x) + 1。",
            ),
        ),
        Mistake(
            "queries_without_features",
            lambda state, q, k, v: (read_with(q, *written(state, k, v)), written(state, k, v)),
            both(
                "Your state is right, but you read it with q as it is: the query goes through φ too.",
                "狀態是對的，但你直接用 q 去讀：查詢也要經過 φ。",
            ),
        ),
        Mistake(
            "normaliser_without_features",
            lambda state, q, k, v: (
                read(q, (S := written(state, k, v)[0]), (z := k if state is None else state[1] + k)),
                (S, z),
            ),
            both(
                "Your z adds up k as it is. Like S, it holds φ(k).",
                "你的 z 直接加上 k。它和 S 一樣，裝的是 φ(k)。",
            ),
        ),
        *[
            Mistake(
                f"epsilon_{epsilon:g}",
                lambda state, q, k, v, epsilon=epsilon: (
                    read(q, *written(state, k, v), epsilon),
                    written(state, k, v),
                ),
                EPSILON_ADDED,
            )
            for epsilon in EPSILONS
        ],
        Mistake(
            "old_state_returned",
            lambda state, q, k, v: (read(q, *written(state, k, v)), nothing_yet(state, k, v)),
            both(
                "Your output is right, but the state that you return lacks this token: the next one will not see it.",
                "輸出是對的，但你回傳的狀態裡沒有這個詞元：下一個詞元就看不到它。",
            ),
        ),
        Mistake(
            "state_swapped",
            lambda state, q, k, v: (read(q, *written(state, k, v)), written(state, k, v)[::-1]),
            both(
                "The two parts of your state have changed places: first S, then z.",
                "狀態的兩個部分對調了：先 S，再 z。",
            ),
        ),
        Mistake(
            "output_only",
            lambda state, q, k, v: read(q, *written(state, k, v)),
            both(
                "You return the output alone. The next token needs the new state: return (out, (S, z)).",
                "你只回傳輸出。下一個詞元需要新的狀態：要回傳 (out, (S, z))。",
            ),
        ),
    ],
    hints=[
        both(
            "φ(k)ᵀv is a column times a row: shape [d_k, d_v]. Make it with unsqueeze and a product that broadcasts.",
            "φ(k)ᵀv 是一行（column）乘一列（row），形狀 [d_k, d_v]。用 unsqueeze 加上會廣播的乘法就做得出來。",
        ),
        both(
            "Three lines: the new S, the new z, the output from these two. Where state is None, the sums start with this "
            "token.",
            "三行：新的 S、新的 z，再由它們算輸出。state 是 None 時，總和就從這個詞元開始。",
        ),
        both(
            "φ(q)S: give φ(q) an axis to become a 1 × d_k matrix, multiply, and take the axis away again. φ(q)·z is a sum "
            "over the last axis, kept for the division.",
            "φ(q)S：替 φ(q) 加一軸變成 1 × d_k 的矩陣，乘完再把那一軸拿掉。φ(q)·z 沿最後一軸加總，並保留這一軸以便相除。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- state_space_scan


def state_space_scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    h = torch.zeros_like(a) if state is None else state
    y = []
    for x_t in x.unbind(1):
        h = a * h + b * x_t.unsqueeze(-1)
        y.append((c * h).sum(dim=-1))
    return torch.stack(y, dim=1), h


Update = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # h, x_t [B, D, 1], a, b to the new h


def scanned(update: Update, before: bool = False) -> Callable[..., tuple[Tensor, Tensor]]:
    """A scan with another update; `before` reads out the state that the update found."""

    def scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h = torch.zeros_like(a).expand(len(x), *a.shape) if state is None else state
        y = []
        for x_t in x.unbind(1):
            new = update(h, x_t.unsqueeze(-1), a, b)
            y.append((c * (h if before else new)).sum(dim=-1))
            h = new
        return torch.stack(y, dim=1), h

    return scan


right_scan = scanned(lambda h, x, a, b: a * h + b * x)


def all_states(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    states = [right_scan(x[:, : t + 1], a, b, c, state)[1] for t in range(x.shape[1])]
    return right_scan(x, a, b, c, state)[0], torch.stack(states, dim=1)


def squeezed_scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Reads with a product of matrices, and takes away more axes than that has put in."""
    h = torch.zeros_like(a).expand(len(x), *a.shape) if state is None else state
    y = []
    for x_t in x.unbind(1):
        h = a * h + b * x_t.unsqueeze(-1)
        y.append((h.unsqueeze(-2) @ c.unsqueeze(-1)).squeeze())
    return torch.stack(y, dim=1), h


def by_powers(powers_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """h_t = aᵗ (a h_{−1} + Σ_j b x_j a^{−j}): a running sum, if only a⁻ʲ stayed finite."""

    def scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        t = torch.arange(x.shape[1], dtype=x.dtype).reshape(-1, 1, 1)
        powers = powers_of(a, t)  # [N, D, S]
        sums = (b * x.unsqueeze(-1) / powers).cumsum(dim=1)
        h = powers * (sums if state is None else sums + (a * state).unsqueeze(1))
        return (c * h).sum(dim=-1), h[:, -1]

    return scan


def by_signed_logarithm(
    x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """h_t = Σ_j aᵗ⁻ʲ b x_j with powers sign(a)ᵗ · exp(t ln |a|): right values, but no gradient where a is 0."""
    h = torch.zeros_like(b * x[:, 0, :, None]) if state is None else state
    t = torch.arange(x.shape[1] + 1).reshape(-1, 1, 1)
    powers = torch.where(t == 0, 1.0, torch.where((t % 2 == 1) & (a < 0), -1, 1) * torch.exp(t * torch.log(a.abs())))
    entered = torch.cat((h.unsqueeze(1), b * x.unsqueeze(-1)), dim=1)  # [B, 1 + N, D, S]
    states = [(powers[: n + 1].flip(0) * entered[:, : n + 1]).sum(dim=1) for n in range(1, x.shape[1] + 1)]
    return torch.stack([(c * h).sum(dim=-1) for h in states], dim=1), states[-1]


def draw_scan(d: Draw, N: int, D: int = 3, S: int = 4, state: bool = False, negative: bool = False) -> tuple[Any, ...]:
    a = d.uniform(0.3, 0.95, D, S)
    if negative:
        a = a * (1 - 2 * d.integers(0, 1, D, S))
        a[0, 0], a[1, 1] = -a[0, 0].abs(), a[1, 1].abs()  # one of each sign at least
    x = d.normal(2, N, D, mean=0.5)
    drawn = (x, a, d.normal(D, S), d.normal(D, S))
    return (*drawn, d.normal(2, D, S)) if state else drawn


def draw_with_zeros(d: Draw) -> tuple[Any, ...]:
    x, a, b, c = draw_scan(d, 6, negative=True)
    a[2, d.integer(0, 3)] = 0.0
    return x, a, b, c


def draw_zero_for_gradients(d: Draw) -> tuple[Any, ...]:
    x, a, b, c, state = draw_scan(d, 4, 3, 2, state=True, negative=True)
    a[2, d.integer(0, 1)] = 0.0
    return x, a, b, c, state


def draw_named_state(d: Draw) -> tuple[Any, ...]:
    *drawn, state = draw_scan(d, 4, 2, 5, state=True)
    return tuple(drawn), {"state": state}


exercise(
    name="state_space_scan",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=state_space_scan,
    results=("y", "state"),
    forbidden=ATTENTION,
    cases=[
        Case("ordinary", both("from a state of zeros", "從全是 0 的狀態開始"), lambda d: draw_scan(d, 5), 3),
        Case("with_state", both("a state is handed in", "有給狀態"), lambda d: draw_scan(d, 4, 2, 3, state=True), 3),
        Case("named", both("state by name", "用名稱給 state"), draw_named_state),
        Case("negative", both("a may be negative or 0", "a 可能是負的或 0"), draw_with_zeros, 1.5, trap=True),
        Case(
            "long", both("400 steps", "400 步"), lambda d: draw_scan(d, 400, 2, 3, state=True, negative=True), trap=True
        ),
        Case(
            "one_step",
            both("a single step: N = 1", "只有一步：N = 1"),
            lambda d: draw_scan(d, 1, state=True),
            0.5,
            trap=True,
        ),
        smallest(lambda d: (d.normal(1, 1, 1), d.uniform(0.3, 0.95, 1, 1), d.normal(1, 1), d.normal(1, 1))),
        noncontiguous(lambda d: draw_scan(d, 3, 4, 2), 0.75),
        float64(lambda d: draw_scan(d, 6, 2, 3, negative=True), 0.75),
        gradients(draw_zero_for_gradients),
    ],
    mistakes=[
        Mistake(
            "no_decay",
            scanned(lambda h, x, a, b: h + b * x),
            both(
                "Nothing fades: your state adds up its inputs and a plays no part.",
                "什麼都沒有衰減：你的狀態把輸入一直加上去，a 沒有用到。",
            ),
        ),
        Mistake(
            "reads_before_writing",
            scanned(lambda h, x, a, b: a * h + b * x, before=True),
            both(
                "Your y_t is read from h of the step before, so it lags one step behind. Update first, then read.",
                "你的 y_t 讀的是上一步的 h，晚了一步。先更新，再讀出。",
            ),
        ),
        Mistake(
            "decay_on_input",
            scanned(lambda h, x, a, b: a * (h + b * x)),
            both(
                "Your a shrinks the new input as well. It is the old state that fades; the input enters in full.",
                "你的 a 連新的輸入也縮小了。會衰減的是舊的狀態；輸入要完整進來。",
            ),
        ),
        Mistake(
            "state_ignored",
            lambda x, a, b, c, state=None: right_scan(x, a, b, c),
            both(
                "Right from a state of zeros. Your result does not depend on the state that is handed in.",
                "從 0 開始時是對的。你的結果和傳進來的狀態無關。",
            ),
        ),
        Mistake(
            "nonlinear",
            scanned(lambda h, x, a, b: torch.tanh(a * h + b * x)),
            both(
                "There is a tanh in your step, as in an RNN. Here nothing but a factor stands between one state and the "
                "next; that is what makes a scan possible.",
                "你的每一步多了 tanh，那是 RNN。這裡前後兩個狀態之間只有一個因子；這正是能夠掃描的原因。",
            ),
        ),
        Mistake(
            "forgets_at_once",
            scanned(lambda h, x, a, b: b * x),
            both(
                "Your state is this step's input alone: h_{t−1} has no part in h_t.",
                "你的狀態只有這一步的輸入：h_t 裡沒有 h_{t−1}。",
            ),
        ),
        Mistake(
            "sign_lost",
            scanned(lambda h, x, a, b: a.abs() * h + b * x),
            both(
                "Right where a is positive. A negative a lets a state change its sign at every step; yours has lost the "
                "sign.",
                "a 是正的時候是對的。a 是負的時候，狀態每一步都會變號；你的符號不見了。",
            ),
        ),
        Mistake(
            "squeezed",
            squeezed_scan,
            both(
                "Where B or D is 1, your y loses that axis: squeeze without an axis takes away every axis of length 1.",
                "B 或 D 是 1 的時候，你的 y 少了那個軸：squeeze 不指定軸，就會拿掉每個長度為 1 的軸。",
            ),
        ),
        Mistake(
            "logarithm_of_a",
            by_powers(lambda a, t: torch.exp(t * torch.log(a))),
            both(
                "You compute powers of a as exp(t ln a), and divide by them. A negative a has no logarithm, and aᵗ "
                "vanishes over many steps: 0/0.",
                "你用 exp(t ln a) 算 a 的次方，還拿它當除數。負的 a 沒有對數，而且步數一多，aᵗ 就變成 0：0/0。",
            ),
        ),
        Mistake(
            "logarithm_of_zero",
            by_signed_logarithm,
            both(
                "The values are right, but where a is 0 you take the logarithm of 0 on the way: backwards that gives NaN. "
                "A power is a product and needs no logarithm.",
                "數值是對的，但 a 是 0 的時候，你中途取了 0 的對數：反向傳播時就變成 NaN。次方就是連乘，用不到對數。",
            ),
        ),
        Mistake(
            "divides_by_powers",
            by_powers(lambda a, t: a**t),
            both(
                "You divide by powers of a. They are 0 where a is 0, and vanish over many steps even where it is not. "
                "Multiply only.",
                "你除以 a 的次方。a 是 0 時它就是 0；就算不是，步數一多也會消失。請只用乘法。",
            ),
        ),
        Mistake(
            "mean_over_states",
            lambda x, a, b, c, state=None: (
                right_scan(x, a, b, c / a.shape[-1], state)[0],
                right_scan(x, a, b, c, state)[1],
            ),
            both(
                "You average over the S states of a channel. y is their sum, weighted with c.",
                "你對一個通道的 S 個狀態取了平均。y 是用 c 加權的總和。",
            ),
        ),
        Mistake(
            "input_unweighted",
            scanned(lambda h, x, a, b: a * h + x),
            both(
                "Your input enters every state alike: b is not used.",
                "你的輸入原樣進入每個狀態：b 沒有用到。",
            ),
        ),
        Mistake(
            "states_unweighted",
            lambda x, a, b, c, state=None: right_scan(x, a, b, torch.ones_like(c), state),
            both(
                "You add up the states as they are: c, which says how each is read out, is not used.",
                "你直接把狀態加起來：決定怎麼讀出的 c 沒有用到。",
            ),
        ),
        Mistake(
            "b_and_c_swapped",
            lambda x, a, b, c, state=None: right_scan(x, a, c, b, state),
            both(
                "b and c have changed places. From zeros y is the same either way, but the state is not: b lets the input "
                "in, c reads the state out.",
                "b 和 c 對調了。從 0 開始時 y 剛好一樣，狀態卻不同：b 管輸入怎麼進來，c 管狀態怎麼讀出。",
            ),
        ),
        Mistake(
            "all_states",
            all_states,
            both(
                "You return the states of all times. The last one is enough to go on: [B, D, S].",
                "你回傳了每個時刻的狀態。要接著算，最後一個就夠了：[B, D, S]。",
            ),
        ),
        Mistake(
            "output_only",
            lambda x, a, b, c, state=None: right_scan(x, a, b, c, state)[0],
            both(
                "You return y alone. The last state is asked for too, so that reading can go on later.",
                "你只回傳 y。最後的狀態也要回傳，之後才能接著讀。",
            ),
        ),
    ],
    hints=[
        both(
            "It is lesson 01's loop with a product of entries in the place of the matrix, and without the tanh. Start "
            "with a state of zeros of shape [B, D, S], if none is given.",
            "這就是第 01 課的迴圈，只是矩陣換成逐元素的乘法，也沒有 tanh。沒給狀態時，從形狀 [B, D, S] 的 0 開始。",
        ),
        both(
            "x_t has shape [B, D], the state [B, D, S]: give x_t one more axis at the end, then b and a broadcast.",
            "x_t 的形狀是 [B, D]，狀態是 [B, D, S]：替 x_t 在最後加一軸，b 和 a 就能廣播。",
        ),
        both(
            "In each step: the new state, then the sum of c times the new state over the last axis. Collect these sums "
            "in a list and stack them along axis 1.",
            "每一步：先算新的狀態，再把 c 乘上新狀態、沿最後一軸加總。把這些和收進 list，最後沿第 1 軸疊起來。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- patchify


def patchify(images: Tensor, patch: int) -> Tensor:
    B, C, H, W = images.shape
    if H % patch != 0 or W % patch != 0:
        raise ValueError(f"{H} × {W} does not divide into patches of {patch} × {patch}")
    tiles = images.reshape(B, C, H // patch, patch, W // patch, patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * patch**2)


def arranged(*order: int) -> Callable[[Tensor, int], Tensor]:
    """Patches with their axes (B, C, row of patches, row, column of patches, column) in another order."""

    def cut(images: Tensor, patch: int) -> Tensor:
        B, C, H, W = checked(images, patch).shape
        tiles = images.reshape(B, C, H // patch, patch, W // patch, patch)
        return tiles.permute(*order).reshape(B, -1, C * patch**2)

    return cut


def checked(images: Tensor, patch: int) -> Tensor:
    if images.shape[-2] % patch != 0 or images.shape[-1] % patch != 0:
        raise ValueError
    return images


by_rows = arranged(0, 2, 4, 1, 3, 5)


def sizes_swapped(images: Tensor, patch: int) -> Tensor:
    B, C, H, W = checked(images, patch).shape
    tiles = images.reshape(B, C, W // patch, patch, H // patch, patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * patch**2)


def places_and_pixels_swapped(images: Tensor, patch: int) -> Tensor:
    B, C, H, W = checked(images, patch).shape
    tiles = images.reshape(B, C, patch, H // patch, patch, W // patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * patch**2)


def area_checked(images: Tensor, patch: int) -> Tensor:
    if images.shape[-2] * images.shape[-1] % patch**2:
        raise ValueError
    return unchecked(images, patch)


def whole_patches(images: Tensor, patch: int) -> Tensor:
    H, W = images.shape[-2] // patch * patch, images.shape[-1] // patch * patch
    return by_rows(images[..., :H, :W], patch)


def unchecked(images: Tensor, patch: int) -> Tensor:
    B, C, H, W = images.shape
    tiles = images.reshape(B, C, H // patch, patch, W // patch, patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * patch**2)


def draw_images(d: Draw, C: int, rows: int, columns: int, patch: int) -> tuple[Tensor, int]:
    return d.normal(2, C, rows * patch, columns * patch), patch


exercise(
    name="patchify",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=patchify,
    results=("patches",),
    forbidden=(*PATCHES, *CONVOLUTIONS),
    cases=[
        Case(
            "wide",
            both("wider than high, three colours", "寬比高大、三個顏色"),
            lambda d: draw_images(d, 3, 2, 3, 2),
            3,
        ),
        Case("high", both("higher than wide", "高比寬大"), lambda d: draw_images(d, 2, 4, 2, 3), 2),
        Case("grey", both("one colour, square", "單色、正方形"), lambda d: draw_images(d, 1, 4, 4, 2), 2),
        Case(
            "whole",
            both("a single patch: the whole image", "只有一個圖塊：整張圖"),
            lambda d: draw_images(d, 2, 1, 1, 4),
            0.5,
        ),
        Case("pixels", both("patches of one pixel", "一個像素就是一個圖塊"), lambda d: draw_images(d, 3, 2, 4, 1), 0.5),
        Case(
            "height_does_not_divide",
            both("the height is no multiple of the patch: ValueError", "高不是圖塊的整數倍：ValueError"),
            lambda d: (d.normal(2, 1, 5, 6), 2),
            trap=True,
            raises="ValueError",
        ),
        Case(
            "width_does_not_divide",
            both("the width is no multiple of the patch: ValueError", "寬不是圖塊的整數倍：ValueError"),
            lambda d: (d.normal(2, 1, 6, 8), 3),
            trap=True,
            raises="ValueError",
        ),
        Case(
            "area_divides",
            both(
                "neither side is a multiple of the patch, though the number of pixels is one of its: ValueError",
                "高和寬都不是圖塊的整數倍，像素總數卻是圖塊像素數的整數倍：ValueError",
            ),
            lambda d: (d.normal(2, d.integer(1, 3), 4, 9), 6),
            trap=True,
            raises="ValueError",
        ),
        noncontiguous(lambda d: draw_images(d, 2, 3, 2, 2)),
        float64(lambda d: draw_images(d, 2, 2, 3, 2), 0.5),
        gradients(lambda d: draw_images(d, 2, 2, 3, 2), 0.5),
    ],
    mistakes=[
        Mistake(
            "plain_reshape",
            lambda images, patch: checked(images, patch).reshape(len(images), -1, images.shape[1] * patch**2),
            both(
                "Right shape, wrong pixels: a reshape alone cuts the image into runs of neighbours in memory, not into "
                "squares. Axes must change places in between.",
                "形狀對了，像素不對：單用 reshape 會把記憶體裡相鄰的一串切開，切不出方塊。中間還要調換軸的順序。",
            ),
        ),
        Mistake(
            "column_by_column",
            arranged(0, 4, 2, 1, 3, 5),
            both(
                "Each patch is right, but they come column by column. Read the image like a page: row by row.",
                "每個圖塊都對，但你是一行（column）一行往右排的。要像讀書一樣，一列（row）一列往下。",
            ),
        ),
        Mistake(
            "channels_last",
            arranged(0, 2, 4, 3, 5, 1),
            both(
                "Inside a patch your colours come last, pixel by pixel. First all pixels of one channel, then the next.",
                "圖塊裡面你把顏色排在最後，逐個像素放。應該先放一個通道的全部像素，再放下一個。",
            ),
        ),
        Mistake(
            "patch_transposed",
            arranged(0, 2, 4, 1, 5, 3),
            both(
                "Inside a patch your pixels run down the columns. Row first, then column.",
                "圖塊裡面你的像素是沿著行（column）往下讀的。先列，再行。",
            ),
        ),
        Mistake(
            "sizes_swapped",
            sizes_swapped,
            both(
                "Right for square images. Height and width have changed places: the shape is [B, C, H, W].",
                "正方形的圖是對的。高和寬對調了：形狀是 [B, C, H, W]。",
            ),
        ),
        Mistake(
            "places_and_pixels_swapped",
            places_and_pixels_swapped,
            both(
                "You split each side into p parts of H/p and W/p pixels. A patch has p pixels a side: the outer of the two "
                "axes counts patches, the inner one pixels.",
                "你把每一邊拆成 p 段，每段 H/p、W/p 個像素。一個圖塊每邊是 p 個像素：兩個軸裡，外面的數圖塊，裡面的數像素。",
            ),
        ),
        Mistake(
            "remainder_of_the_area",
            area_checked,
            both(
                "You check the number of pixels in the whole image. It may divide although height and width do not: 4 × 9 "
                "pixels and patches of 6 × 6. Each side is to be checked.",
                "你檢查的是整張圖的像素總數。它可能整除，高和寬卻不能：例如 4 × 9 像素、6 × 6 的圖塊。兩邊要分別檢查。",
            ),
        ),
        Mistake(
            "remainder_dropped",
            whole_patches,
            both(
                "Where the image does not divide, you silently drop its border. Raise a ValueError instead.",
                "圖不能整除時，你默默丟掉了邊緣。應該 raise ValueError。",
            ),
        ),
        Mistake(
            "remainder_unchecked",
            unchecked,
            both(
                "Where the image does not divide, torch stops with an error about shapes that nobody understands. Check "
                "first, and raise a ValueError that says what is wrong.",
                "圖不能整除時，torch 會停在一個看不懂的形狀錯誤。請先檢查，並 raise ValueError 說明哪裡不對。",
            ),
        ),
    ],
    hints=[
        both(
            "Split H into (rows of patches, rows inside) and W likewise: six axes. Which of them say *where* a patch is, "
            "and which *what* is in it?",
            "把 H 拆成（第幾列圖塊、圖塊裡第幾列），W 也一樣：總共六個軸。哪幾個說圖塊**在哪裡**，哪幾個說裡面**有什麼**？",
        ),
        both(
            "permute the place to the front and the content to the back, then let one reshape join each group.",
            "用 permute 把「在哪裡」移到前面、「有什麼」移到後面，再用一次 reshape 把兩組各自合起來。",
        ),
        both(
            "The order after permute: B, row of patches, column of patches, C, row inside, column inside. Check both "
            "remainders before you start.",
            "permute 之後的順序：B、第幾列圖塊、第幾行圖塊、C、裡面的列、裡面的行。開始之前先檢查兩個餘數。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------- classify_digits


def classify_digits(
    images: Tensor,
    patch: int,
    w_patch: Tensor,
    class_token: Tensor,
    positions: Tensor,
    layers: list[Callable[[Tensor], Tensor]],
    w_head: Tensor,
    b_head: Tensor,
) -> Tensor:
    B, H, W = images.shape
    tiles = (images / 16).reshape(B, H // patch, patch, W // patch, patch).transpose(2, 3)
    x = tiles.reshape(B, -1, patch**2) @ w_patch
    x = torch.cat((class_token.expand(B, 1, -1), x), dim=1) + positions
    for layer in layers:
        x = layer(x)
    return x[:, 0] @ w_head + b_head


Cut = Callable[[Tensor, int], Tensor]


def small_vit(
    scale: float = 16.0,
    cut: Cut = by_rows,
    placed: Callable[[Tensor, Tensor], Tensor] = torch.add,
    last: bool = False,
    chained: bool = True,
    residual: bool = False,
    pooled: Callable[[Tensor], Tensor] = lambda x: x[:, 0],
    bias: float = 1.0,
) -> Callable[..., Tensor]:
    """The forward pass with one part done in another way."""

    def classify(
        images: Tensor, patch: int, w_patch: Tensor, class_token: Tensor, positions: Tensor,
        layers: list[Any], w_head: Tensor, b_head: Tensor,
    ) -> Tensor:  # fmt: skip
        x = cut(images.unsqueeze(1) / scale, patch) @ w_patch
        parts = [class_token.expand(len(images), 1, -1), x]
        first = x = placed(torch.cat(parts[::-1] if last else parts, dim=1), positions)
        for layer in layers:
            x = layer(x if chained else first) + residual * x
        return pooled(x) @ w_head + bias * b_head

    return classify


def draw_vit(
    d: Draw, rows: int, columns: int, patch: int, n_layers: int, width: int = 6, B: int = 3
) -> tuple[Any, ...]:
    images = d.integers(0, 16, B, rows * patch, columns * patch).to(d.dtype)
    layers = [EncoderBlock(d.normal(width, width, std=0.4), d.normal(width, width, std=0.6)) for _ in range(n_layers)]
    return (
        images, patch, d.normal(patch**2, width, std=0.8), d.normal(width), d.normal(1 + rows * columns, width),
        layers, d.normal(width, 10), d.normal(10),
    )  # fmt: skip


exercise(
    name="classify_digits",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=classify_digits,
    results=("logits",),
    forbidden=(*ATTENTION, *PATCHES),
    cases=[
        Case("wide", both("wider than high, two layers", "寬比高大、兩層"), lambda d: draw_vit(d, 2, 3, 2, 2), 3),
        Case(
            "square",
            both("8 × 8 pixels in patches of 2 × 2", "8 × 8 像素，切成 2 × 2 的圖塊"),
            lambda d: draw_vit(d, 4, 4, 2, 1),
            2,
        ),
        Case("high", both("higher than wide, three layers", "高比寬大、三層"), lambda d: draw_vit(d, 3, 2, 3, 3), 2),
        Case("no_layers", both("no layers at all", "一層也沒有"), lambda d: draw_vit(d, 2, 3, 2, 0), 0.5, trap=True),
        Case(
            "smallest",
            both("one image of one pixel, d = 1", "一張圖、一個像素，d = 1"),
            lambda d: draw_vit(d, 1, 1, 1, 1, width=1, B=1),
            0.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_vit(d, 2, 2, 3, 2)),
        float64(lambda d: draw_vit(d, 3, 2, 2, 2)),
        gradients(lambda d: draw_vit(d, 2, 3, 2, 2)),
    ],
    mistakes=[
        Mistake(
            "unscaled_pixels",
            small_vit(scale=1.0),
            both(
                "Your pixels run from 0 to 16 as they come. Divide them by 16 first, or the patches drown class token and "
                "positions.",
                "你的像素直接用 0 到 16。先除以 16，不然圖塊會蓋過分類詞元和位置。",
            ),
        ),
        Mistake(
            "divided_by_255",
            small_vit(scale=255.0),
            both(
                "You divide by 255, as for photographs. These pixels run from 0 to 16.",
                "你除以 255，那是一般照片的做法。這裡的像素是 0 到 16。",
            ),
        ),
        Mistake(
            "divided_by_16_twice",
            small_vit(scale=256.0),
            both(
                "Your pixels are 16 times too small: it looks as if they were divided by 16 twice.",
                "你的像素小了 16 倍：看起來像是除以 16 除了兩次。",
            ),
        ),
        Mistake(
            "positions_missing",
            small_vit(placed=lambda x, positions: x),
            both(
                "Your result does not depend on the positions: the model cannot tell where a patch was.",
                "你的結果和位置無關：模型分不出圖塊原本在哪裡。",
            ),
        ),
        Mistake(
            "class_token_without_position",
            small_vit(placed=lambda x, positions: torch.cat((x[:, :1], x[:, 1:] + positions[1:]), dim=1)),
            both(
                "Your patches get positions, the class token none. Row 0 of the positions is its.",
                "你的圖塊有加位置，分類詞元卻沒有。positions 的第 0 列就是給它的。",
            ),
        ),
        Mistake(
            "mean_of_tokens",
            small_vit(pooled=lambda x: x.mean(dim=1)),
            both(
                "You classify the mean of all tokens. Here the class token alone is read: it has gathered what it needs.",
                "你拿所有詞元的平均來分類。這裡只讀分類詞元：它已經收集好需要的東西。",
            ),
        ),
        Mistake(
            "reads_last_token",
            small_vit(pooled=lambda x: x[:, -1]),
            both(
                "You read the last patch. The class token stands in front.",
                "你讀的是最後一個圖塊。分類詞元站在最前面。",
            ),
        ),
        Mistake(
            "class_token_last",
            small_vit(last=True, pooled=lambda x: x[:, -1]),
            both(
                "You put the class token at the end, so every position is off by one. It stands in front: token 0.",
                "你把分類詞元放在最後，於是每個位置都錯開一格。它要站在最前面：第 0 個詞元。",
            ),
        ),
        Mistake(
            "plain_reshape",
            small_vit(cut=lambda images, patch: images.reshape(len(images), -1, patch**2)),
            both(
                "Your patches are not squares: a reshape alone cuts the image into runs of neighbours in memory.",
                "你的圖塊不是方塊：單用 reshape 只會把記憶體裡相鄰的一串切開。",
            ),
        ),
        Mistake(
            "column_by_column",
            small_vit(cut=arranged(0, 4, 2, 1, 3, 5)),
            both(
                "Your patches come column by column, so each gets another one's position. Read the image like a page.",
                "你的圖塊是一行（column）一行排的，於是每個都拿到別人的位置。要像讀書一樣一列（row）一列來。",
            ),
        ),
        Mistake(
            "patch_transposed",
            small_vit(cut=arranged(0, 2, 4, 1, 5, 3)),
            both(
                "Inside a patch your pixels run down the columns: they meet the wrong rows of w_patch.",
                "圖塊裡面你的像素是沿著行（column）往下讀的：它們遇到了 w_patch 裡不對的列。",
            ),
        ),
        Mistake(
            "probabilities",
            lambda *args: torch.softmax(small_vit()(*args), dim=-1),
            both(
                "You return probabilities. The raw logits are asked for: a loss takes its own softmax.",
                "你回傳的是機率。這裡要的是原始的 logits：損失函數會自己做 softmax。",
            ),
        ),
        Mistake(
            "not_chained",
            small_vit(chained=False),
            both(
                "Only your last layer counts: either every layer reads the embeddings, or the others do not run. Each reads "
                "what the one before it made.",
                "只有你的最後一層算數：要不是每一層讀的都是最初的嵌入，就是其他層沒有執行。每一層要讀前一層的輸出。",
            ),
        ),
        Mistake(
            "residual_added",
            small_vit(residual=True),
            both(
                "You add each layer's input to its output. The layers you are given have their residual connections inside.",
                "你把每一層的輸入又加到輸出上。這些層裡面已經有殘差連結了。",
            ),
        ),
        Mistake(
            "final_norm",
            small_vit(pooled=lambda x: F.layer_norm(x, x.shape[-1:])[:, 0]),
            both(
                "You normalise before the head. A norm at the end, where a model has one, comes in the list of layers; the "
                "head reads what the last of them made.",
                "你在 head 之前多做了一次正規化。模型結尾若有正規化，會放在 layers 裡；head 讀的就是最後一層的輸出。",
            ),
        ),
        Mistake(
            "times_sqrt_d",
            small_vit(placed=lambda x, positions: x * x.shape[-1] ** 0.5 + positions),
            both(
                "You multiply the tokens by √d before the positions are added. That belongs to the word table of lesson 08; "
                "here nothing is scaled but the pixels.",
                "你在加上位置之前，把詞元乘了 √d。那屬於第 08 課的詞表；這裡只有像素要縮放。",
            ),
        ),
        Mistake(
            "layers_forgotten",
            lambda images, patch, w_patch, class_token, positions, layers, w_head, b_head: small_vit()(
                images, patch, w_patch, class_token, positions, [], w_head, b_head
            ),
            both(
                "Your result does not depend on the layers, so the class token never sees a patch.",
                "你的結果和 layers 無關，分類詞元根本沒看到任何圖塊。",
            ),
        ),
        Mistake(
            "bias_forgotten",
            small_vit(bias=0.0),
            both("b_head is not added.", "b_head 沒有加上去。"),
        ),
    ],
    hints=[
        both(
            "One line for each step of the picture: scale, cut, times w_patch, class token in front, plus positions, "
            "layers, read token 0. Check the shape after each.",
            "圖上每一步一行：縮放、切塊、乘 w_patch、前面放分類詞元、加位置、過每一層、讀第 0 個詞元。每一步都核對形狀。",
        ),
        both(
            "Patches of grey images: five axes, and two of them change places. class_token is one vector; expand makes a "
            "row of it for every image.",
            "灰階圖的圖塊：五個軸，其中兩個要對調。class_token 只有一個向量；用 expand 讓每張圖都有一份。",
        ),
        both(
            "Joined along axis 1 the tokens are [B, 1 + n, d], and positions [1 + n, d] broadcasts onto them. At the end "
            "token 0 of every image is read: [B, d].",
            "沿第 1 軸接起來，詞元是 [B, 1 + n, d]，positions [1 + n, d] 會廣播上去。最後讀每張圖的第 0 個詞元：[B, d]。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- question

question(
    name="12_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "same_function_faster",
            "a",
            both(
                "Moving brackets changes no product of matrices, but a softmax stands between QKᵀ and V, and nothing can be "
                "moved past it. It has to go first, and with it the function changes.",
                "移動括號不會改變矩陣乘積，但 QKᵀ 和 V 之間隔著 softmax，括號移不過去。要先拿掉 softmax，而函數也就變了。",
            ),
        ),
        Mistake(
            "only_local",
            "b",
            both(
                "That is a sliding window. In linear attention every earlier token adds to S and z, however far away it is.",
                "那是滑動視窗。線性注意力裡，前面的每個詞元不管多遠，都會加進 S 和 z。",
            ),
        ),
        Mistake(
            "sparse_mask",
            "c",
            both(
                "That is sparse attention: the same softmax over fewer keys. Linear attention gives every key a weight "
                "above 0 and hides none.",
                "那是稀疏注意力：同樣的 softmax，鍵比較少。線性注意力給每個鍵大於 0 的權重，一個也不遮。",
            ),
        ),
    ],
    hints=[
        both(
            "Look at your own cells: which two things gave the same numbers to rounding, and which two did not?",
            "看看你自己執行過的儲存格：哪兩個東西的數字只差捨入誤差，哪兩個不一樣？",
        ),
    ],
)
