"""Lesson 03, why √d_k: variance of the dot product, temperature, the softmax's Jacobian, entropy, scaled attention.

Shapes: S samples, N queries, M keys, d_k, d_v; B batch, h heads; `...` stands for leading dimensions, none included.
"""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION, DERIVATIVES, ENTROPIES
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous
from autograder.text import both
from course_lib.attention import scaled_dot_product_attention

LESSON = "03_sqrt_dk"

# --------------------------------------------------------------------------------------- dot_product_variance


def dot_product_variance(q: Tensor, k: Tensor, sigma_q: float = 1.0, sigma_k: float = 1.0) -> tuple[float, Tensor]:
    products = (q * k).sum(dim=-1)
    theory = q.shape[-1] * sigma_q**2 * sigma_k**2
    return float(theory), ((products - products.mean()) ** 2).mean()


def sample_variance(q: Tensor, k: Tensor) -> Tensor:
    return (q * k).sum(dim=-1).var(correction=0)


def draw_pairs(draw: Draw, S: int, d_k: int, mean: float = 0.0, std: float = 1.0) -> tuple[Tensor, Tensor]:
    return draw.normal(S, d_k, mean=mean, std=std), draw.normal(S, d_k, mean=mean, std=std)


def draw_far_pairs(draw: Draw) -> tuple[Tensor, Tensor]:
    """Means so far from 0 that E[x²] − E[x]² keeps no digit in float32, and pairs enough to know the variance to 1 %.

    The two halves of a pair rise and fall together, so that pairing the rows otherwise shows.
    """
    a, b = draw.normal(64, 8).double(), draw.normal(64, 8).double()
    return (3000 + a).to(draw.dtype), (3000 + 0.6 * a + 0.8 * b).to(draw.dtype)


def draw_named_sigma(draw: Draw) -> tuple[Any, ...]:
    return draw_pairs(draw, 5, 3), {"sigma_k": draw.number(2.0, 3.0)}


THEORY_FROM_SAMPLE = both(
    "Your theory is measured from the numbers in q and k. Theory only knows d_k and the two σ that are handed in.",
    "你的理論值是從 q 和 k 的數字量出來的。理論只知道 d_k 和傳進來的兩個 σ。",
)
SCORES_SCALED = both(
    "Your dot products are divided by √d_k already. That is the cure; here the dot products themselves are measured, as "
    "they are.",
    "你的內積已經除以 √d_k 了。那是後面的解法；這裡要量的是內積本身，還沒縮放。",
)

exercise(
    name="dot_product_variance",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=dot_product_variance,
    results=("theory", "sample"),
    forbidden=ATTENTION,
    cases=[
        Case("standard", both("six pairs, σ = 1", "六對向量，σ = 1"), lambda d: draw_pairs(d, 6, 4), 2),
        Case(
            "sigmas",
            both("other σ_q and σ_k", "其他的 σ_q 與 σ_k"),
            lambda d: (*draw_pairs(d, 7, 5, 0.5, 2.0), d.number(1.5, 3.0), d.number(0.3, 0.8)),
            2,
        ),
        Case("named", both("sigma_k alone, by name", "只用名稱給 sigma_k"), draw_named_sigma),
        Case(
            "two_pairs", both("only two pairs: S = 2", "只有兩對：S = 2"), lambda d: draw_pairs(d, 2, 3), 0.5, trap=True
        ),
        Case(
            "far_means",
            both("samples with means in the thousands", "平均上千的樣本"),
            draw_far_pairs,
            1.5,
            trap=True,
        ),
        noncontiguous(lambda d: draw_pairs(d, 4, 6)),
        float64(lambda d: (*draw_pairs(d, 5, 2, 1.0), 1.5)),
        gradients(lambda d: draw_pairs(d, 5, 3)),
    ],
    mistakes=[
        Mistake(
            "standard_deviation",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                math.sqrt(q.shape[-1] * sigma_q**2 * sigma_k**2),
                sample_variance(q, k).sqrt(),
            ),
            both(
                "Both numbers are standard deviations. The variance is asked for, before any root is taken.",
                "兩個數都是標準差。這裡要的是變異數，還沒開根號。",
            ),
        ),
        Mistake(
            "all_pairs",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q @ k.mT).var(correction=0),
            ),
            both(
                "You took the products of every q with every k. A sample is one pair: each row of q belongs to the same "
                "row of k, S products in all.",
                "你算了每個 q 對每個 k 的內積。一個樣本是一對：q 的每一列只配 k 的同一列，總共 S 個內積。",
            ),
        ),
        Mistake(
            "per_component",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q * k).var(correction=0),
            ),
            both(
                "This is the variance of single products of components. First add up each pair's d_k products, then ask "
                "how the sums vary.",
                "這是單一分量乘積的變異數。要先把每一對的 d_k 個乘積加起來，再看這些和的變異。",
            ),
        ),
        Mistake(
            "summed_down_columns",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q * k).sum(dim=0).var(correction=0),
            ),
            both(
                "You add up down the columns, over the pairs. A dot product adds up along a row: one sum for each pair.",
                "你沿著行（column）把各對加起來了。內積是沿著一列（row）加總：每一對得到一個和。",
            ),
        ),
        Mistake(
            "unbiased",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q * k).sum(dim=-1).var(),
            ),
            both(
                "Your sample variance divides by S − 1, torch's default. Here it is the mean of the squared deviations: "
                "divide by S.",
                "你的樣本變異數除以 S − 1，那是 torch 的預設。這裡要的是離差平方的平均：除以 S。",
            ),
        ),
        Mistake(
            "mean_not_subtracted",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q * k).sum(dim=-1).square().mean(),
            ),
            both(
                "You averaged the squares of the products. A variance measures deviations from the mean of the sample; "
                "that mean need not be 0.",
                "你直接平均了內積的平方。變異數量的是離樣本平均多遠，而樣本平均不一定是 0。",
            ),
        ),
        Mistake(
            "one_pass_variance",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                (q * k).sum(dim=-1).square().mean() - (q * k).sum(dim=-1).mean().square(),
            ),
            both(
                "Right on paper, but the difference of two huge numbers keeps no digits when the mean is large. Subtract "
                "the mean first, square afterwards.",
                "紙上是對的，但平均很大時，兩個巨大的數相減會把有效位數丟光。要先減平均，再平方。",
            ),
        ),
        Mistake(
            "sigma_ignored",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (float(q.shape[-1]), sample_variance(q, k)),
            both(
                "Your theory is right for σ = 1 only. How does each σ enter the variance of one product?",
                "你的理論值只在 σ = 1 時正確。每個 σ 怎麼進入一個乘積的變異數？",
            ),
        ),
        Mistake(
            "sigma_not_squared",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (float(q.shape[-1] * sigma_q * sigma_k), sample_variance(q, k)),
            both(
                "Your theory has the standard deviations where variances belong. Variance is the square of σ.",
                "你的理論值在該放變異數的地方放了標準差。變異數是 σ 的平方。",
            ),
        ),
        Mistake(
            "dimension_forgotten",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (float(sigma_q**2 * sigma_k**2), sample_variance(q, k)),
            both(
                "Your theory is the variance of one product of components. A dot product adds up how many of them?",
                "你的理論值是單一分量乘積的變異數。一個內積加了幾個這樣的乘積？",
            ),
        ),
        Mistake(
            "samples_for_dimension",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[0] * sigma_q**2 * sigma_k**2),
                sample_variance(q, k),
            ),
            both(
                "Your theory counts the pairs, S. How many pairs are drawn does not change the variance; how many products "
                "one dot product adds up does.",
                "你的理論值用的是 S，也就是有幾對。抽幾對不影響變異數；一個內積加了幾個乘積才有影響。",
            ),
        ),
        Mistake(
            "theory_as_tensor",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                q.new_tensor(q.shape[-1] * sigma_q**2 * sigma_k**2),
                sample_variance(q, k),
            ),
            both(
                "Your theory is a tensor. It is made of plain numbers only, so it comes back as a Python float; the sample "
                "is the tensor.",
                "你的理論值是張量。它只由一般的數字算出來，要回傳 Python 的 float；樣本值才是張量。",
            ),
        ),
        Mistake(
            "sample_as_number",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                sample_variance(q, k).item(),
            ),
            both(
                "Your sample is a Python number. Keep it a 0-d tensor, in the dtype of q; only the theory is a float.",
                "你的樣本值是 Python 的數。要保持 0 維張量，dtype 和 q 一樣；只有理論值是 float。",
            ),
        ),
        Mistake(
            "theory_from_sample",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                (q.shape[-1] * q.var(correction=0) * k.var(correction=0)).item(),
                sample_variance(q, k),
            ),
            THEORY_FROM_SAMPLE,
        ),
        Mistake(
            "theory_from_unbiased_sample",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: ((q.shape[-1] * q.var() * k.var()).item(), sample_variance(q, k)),
            THEORY_FROM_SAMPLE,
        ),
        Mistake(
            "scores_scaled",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
                sample_variance(q, k) / q.shape[-1],
            ),
            SCORES_SCALED,
        ),
        Mistake(
            "scores_scaled_in_theory_too",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                float(sigma_q**2 * sigma_k**2),
                sample_variance(q, k) / q.shape[-1],
            ),
            SCORES_SCALED,
        ),
        Mistake(
            "parts_swapped",
            lambda q, k, sigma_q=1.0, sigma_k=1.0: (
                sample_variance(q, k),
                float(q.shape[-1] * sigma_q**2 * sigma_k**2),
            ),
            both(
                "The two results have changed places: first the theory (a Python float), then the sample (a tensor).",
                "兩個結果對調了：先理論值（Python 的 float），再樣本值（張量）。",
            ),
        ),
    ],
    hints=[
        both(
            "Two separate questions: theory speaks about d_k and the two σ only, the sample about the numbers in q and k "
            "only.",
            "這是兩個不相干的問題：理論只談 d_k 和兩個 σ，樣本只談 q 和 k 裡的數字。",
        ),
        both(
            "For independent components of mean 0 the variance of one product is the product of the two variances, and "
            "variances of independent terms add up.",
            "分量獨立而且平均為 0 時，一個乘積的變異數等於兩個變異數相乘；獨立項的變異數可以相加。",
        ),
        both(
            "For the sample: S dot products, row with row; their mean; the deviations from it; the mean of the squares. "
            "In that order nothing large is ever subtracted.",
            "樣本這邊：列對列算出 S 個內積，求平均，求離差，再平均離差的平方。照這個順序，就不會有兩個大數相減。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------- temperature_softmax


def temperature_softmax(scores: Tensor, temperature: float) -> Tensor:
    return torch.softmax(scores / temperature, dim=-1)


def plain_temperature_softmax(scores: Tensor, temperature: float) -> Tensor:
    scaled = scores / temperature
    e = torch.exp(scaled - scaled.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


def draw_tiny_temperature(draw: Draw) -> tuple[Tensor, float]:
    """Scores of ±2, a row of −2 among them, in groups 0.01 apart: at τ = 0.01 that is ±200, and a group shares its weight.

    The largest is neither first nor last in row 0 and far from the mean: nothing else is safe to subtract.
    """
    levels = [[-2.0, 2.0, 2.0, -2.0, -2.0], [-2.0, -2.0, -2.0, -2.0, -4.0], [2.0, 2.0, -2.0, -2.0, -2.0]]
    return torch.tensor(levels, dtype=draw.dtype) + draw.normal(3, 5, std=0.01), draw.number(0.008, 0.012)


def draw_minus_infinity(draw: Draw) -> tuple[Tensor, float]:
    return draw.normal(3, 6, std=2.0).masked_fill(~draw.mask(3, 6), -math.inf), draw.number(1.5, 3.0)


def draw_scores(draw: Draw, low: float, high: float, *shape: int, std: float = 2.0) -> tuple[Tensor, float]:
    return draw.normal(*shape, std=std), draw.number(low, high)


exercise(
    name="temperature_softmax",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=temperature_softmax,
    plain=plain_temperature_softmax,
    exact_zeros=True,
    results=("p",),
    forbidden=ATTENTION,
    cases=[
        Case("hot", both("one row of scores, τ > 1", "一列分數，τ > 1"), lambda d: draw_scores(d, 1.5, 4.0, 5), 3),
        Case("cold", both("a matrix, τ < 1", "一個矩陣，τ < 1"), lambda d: draw_scores(d, 0.3, 0.7, 4, 6), 2),
        Case(
            "batch",
            both("a batch (3-D), a high temperature", "一個批次（3 維）、高溫"),
            lambda d: draw_scores(d, 4.0, 9.0, 2, 5, 3, std=6.0),
            2,
        ),
        Case(
            "tiny_temperature",
            both("τ near 0.01: scores / τ near ±200", "τ 約 0.01：scores / τ 約 ±200"),
            draw_tiny_temperature,
            1.5,
            trap=True,
        ),
        Case("minus_infinity", both("some scores are −inf", "有些分數是 −inf"), draw_minus_infinity, trap=True),
        Case(
            "one_score",
            both("one score in a matrix of shape [1, 1]", "形狀 [1, 1] 的矩陣裡只有一個分數"),
            lambda d: draw_scores(d, 1.5, 3.0, 1, 1),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_scores(d, 1.2, 3.0, 4, 5)),
        noncontiguous(lambda d: draw_scores(d, 0.5, 0.8, 2, 3, 4)),
        float64(lambda d: draw_scores(d, 1.5, 3.0, 3, 5)),
        gradients(lambda d: draw_scores(d, 1.5, 3.0, 4, 3)),
    ],
    mistakes=[
        Mistake(
            "multiplies",
            lambda scores, temperature: torch.softmax(scores * temperature, dim=-1),
            both(
                "You multiply by the temperature, so heat makes the weights sharper. A high temperature must make them "
                "more even.",
                "你乘上了溫度，於是溫度愈高權重愈尖。溫度高的時候，權重應該更平均。",
            ),
        ),
        Mistake(
            "temperature_ignored",
            lambda scores, temperature: torch.softmax(scores, dim=-1),
            both(
                "Your weights do not depend on the temperature. Where should it act?",
                "你的權重和溫度無關。溫度應該作用在哪裡？",
            ),
        ),
        Mistake(
            "temperature_below_one_ignored",
            lambda scores, temperature: torch.softmax(scores / max(temperature, 1.0), dim=-1),
            both(
                "Right for τ ≥ 1. A temperature below 1 counts too: it makes the weights sharper.",
                "τ ≥ 1 時是對的。小於 1 的溫度也算數：它會讓權重更尖。",
            ),
        ),
        Mistake(
            "temperature_after_softmax",
            lambda scores, temperature: torch.softmax(scores, dim=-1) / temperature,
            both(
                "You divide the weights after the softmax, so they no longer sum to 1. The temperature belongs to the "
                "scores.",
                "你在 softmax 之後才除，權重加起來就不是 1 了。溫度要作用在分數上。",
            ),
        ),
        Mistake(
            "square_root_of_temperature",
            lambda scores, temperature: torch.softmax(scores / temperature**0.5, dim=-1),
            both(
                "You divide by the root of the temperature. The root in √d_k is that of d_k; a temperature is used as it "
                "is.",
                "你除的是溫度的平方根。√d_k 的根號是 d_k 的；溫度本身直接使用。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda scores, temperature: (
                torch.exp(scores / temperature) / torch.exp(scores / temperature).sum(dim=-1, keepdim=True)
            ),
            both(
                "Right for small numbers, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "數字小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "logarithms",
            lambda scores, temperature: torch.log_softmax(scores / temperature, dim=-1),
            both(
                "You return the logarithms of the weights: they are negative. The weights themselves are asked for, which "
                "are positive and sum to 1.",
                "你回傳的是權重的對數，都是負的。這裡要的是權重本身：正的，加起來是 1。",
            ),
        ),
        Mistake(
            "one_maximum_for_all",
            lambda scores, temperature: (
                torch.exp((scores - scores.max()) / temperature)
                / torch.exp((scores - scores.max()) / temperature).sum(dim=-1, keepdim=True)
            ),
            both(
                "You subtract one maximum from the whole tensor. A row far below it underflows to 0/0: each row needs "
                "its own.",
                "你讓整個張量都減同一個最大值。離它很遠的列會下溢位成 0/0：每一列要用自己的最大值。",
            ),
        ),
        Mistake(
            "finite_for_minus_infinity",
            lambda scores, temperature: torch.softmax(scores.clamp(-100.0, 100.0) / temperature, dim=-1),
            both(
                "A score of −inf weighs exactly 0; yours weighs a little, so a finite number has taken its place.",
                "分數是 −inf 時，權重恰為 0；你的還有一點點權重，表示 −inf 被換成有限的數了。",
            ),
        ),
        Mistake(
            "softmax_over_everything",
            lambda scores, temperature: torch.softmax((scores / temperature).flatten(), dim=0).reshape(scores.shape),
            both(
                "The whole tensor sums to 1. Each row has its own budget of 1: the softmax belongs to the last axis.",
                "整個張量加起來才是 1。每一列都有自己的 1 可以分配：softmax 要沿著最後一個軸做。",
            ),
        ),
        Mistake(
            "first_axis",
            lambda scores, temperature: torch.softmax(scores / temperature, dim=0),
            both(
                "Your softmax runs along the first axis. Weights are shared out along the last one; with a single row "
                "the two are the same.",
                "你的 softmax 沿著第一個軸做。權重要沿著最後一個軸分配；只有一列時兩者才相同。",
            ),
        ),
    ],
    hints=[
        both(
            "The softmax stays the softmax. Only what goes into it changes.",
            "softmax 還是同一個 softmax，只是餵進去的東西不同。",
        ),
        both(
            "Which goes with the picture: a high temperature brings all scores closer together. Multiply or divide?",
            "和圖對照：溫度高，分數彼此靠近。是乘還是除？",
        ),
        both(
            "torch's softmax subtracts the maximum for you and knows −inf. For float16 and bfloat16 it is safest to "
            "compute in float32 and turn the result back into the dtype that came in.",
            "torch 的 softmax 會替你減掉最大值，也認得 −inf。輸入是 float16 或 bfloat16 時，建議用 float32 計算，再把結果轉回原來的 dtype。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- softmax_jacobian


def softmax_jacobian(scores: Tensor, temperature: float = 1.0) -> Tensor:
    p = torch.softmax(scores / temperature, dim=-1)
    return (torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)) / temperature


def outer(p: Tensor) -> Tensor:
    return p.unsqueeze(-1) * p.unsqueeze(-2)


def draw_large_scores(draw: Draw) -> tuple[Tensor, float]:
    """Rows near +300, near −300 and with both: exp overflows or underflows, the softmax itself is ordinary."""
    levels = [[300.0] * 4, [-300.0] * 4, [-300.0, 300.0, 300.0, -300.0]]
    return draw.normal(3, 4) + torch.tensor(levels, dtype=draw.dtype), draw.number(1.2, 1.8)


def draw_named_temperature(draw: Draw) -> tuple[Any, ...]:
    return (draw.normal(3, 4),), {"temperature": draw.number(0.4, 0.7)}


exercise(
    name="softmax_jacobian",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=softmax_jacobian,
    results=("J",),
    forbidden=(*ATTENTION, *DERIVATIVES),
    cases=[
        Case("one_row", both("one row of scores, τ = 1", "一列分數，τ = 1"), lambda d: (d.normal(4),), 3),
        Case("hot", both("one row, τ > 1", "一列，τ > 1"), lambda d: (d.normal(5, std=2.0), d.number(1.5, 3.0)), 2),
        Case("rows", both("a matrix, τ < 1 by name", "一個矩陣，用名稱給 τ < 1"), draw_named_temperature, 2),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: (d.normal(2, 4, 3), d.number(1.5, 3.0)), 2),
        Case(
            "large_scores",
            both("scores near ±300, also in one row", "分數約 ±300，也可能在同一列"),
            draw_large_scores,
            1.5,
            trap=True,
        ),
        Case(
            "one_score",
            both(
                "one score in a matrix of shape [1, 1]: nothing can change",
                "形狀 [1, 1] 的矩陣裡只有一個分數：什麼都不會變",
            ),
            lambda d: (d.normal(1, 1),),
            0.5,
            trap=True,
            magnitude=1.0,
        ),
        noncontiguous(lambda d: (d.normal(2, 3, 5), 2.0)),
        float64(lambda d: (d.normal(2, 5), d.number(1.5, 3.0))),
        gradients(lambda d: (d.normal(2, 4), d.number(1.5, 3.0))),
    ],
    mistakes=[
        Mistake(
            "diagonal_only",
            lambda scores, temperature=1.0: (
                torch.diag_embed(
                    torch.softmax(scores / temperature, dim=-1) * (1 - torch.softmax(scores / temperature, dim=-1))
                )
                / temperature
            ),
            both(
                "Your diagonal is right, everything else is 0. Raising one score also lowers every other weight.",
                "對角線是對的，其餘都是 0。一個分數升高，其他每個權重也會跟著降低。",
            ),
        ),
        Mistake(
            "elementwise_derivative",
            lambda scores, temperature=1.0: (
                torch.softmax(scores / temperature, dim=-1)
                * (1 - torch.softmax(scores / temperature, dim=-1))
                / temperature
            ),
            both(
                "You return one number for each score, as for a function that works entry by entry. Every weight depends "
                "on every score: M × M derivatives.",
                "你對每個分數只回傳一個數，把 softmax 當成逐元素的函數。其實每個權重都和每個分數有關：共有 M × M 個導數。",
            ),
        ),
        Mistake(
            "sign_flipped",
            lambda scores, temperature=1.0: (
                (
                    outer(torch.softmax(scores / temperature, dim=-1))
                    - torch.diag_embed(torch.softmax(scores / temperature, dim=-1))
                )
                / temperature
            ),
            both(
                "Every sign is turned round. Raising a score raises its own weight: the diagonal is positive.",
                "每個正負號都反了。分數升高，自己的權重也升高：對角線是正的。",
            ),
        ),
        Mistake(
            "missing_outer_product",
            lambda scores, temperature=1.0: torch.diag_embed(torch.softmax(scores / temperature, dim=-1)) / temperature,
            both(
                "Only the derivative of the numerator is there. The denominator depends on every score as well: the "
                "rows of J must sum to 0.",
                "只有分子的導數。分母也和每個分數有關：J 的每一列加起來應該是 0。",
            ),
        ),
        Mistake(
            "plus_outer_product",
            lambda scores, temperature=1.0: (
                (
                    torch.diag_embed(torch.softmax(scores / temperature, dim=-1))
                    + outer(torch.softmax(scores / temperature, dim=-1))
                )
                / temperature
            ),
            both(
                "The second term has the wrong sign. What one weight gains the others lose: off the diagonal all is "
                "negative.",
                "第二項的正負號錯了。一個權重多拿，其他就少拿：對角線以外都是負的。",
            ),
        ),
        Mistake(
            "temperature_factor_missing",
            lambda scores, temperature=1.0: (
                torch.diag_embed(torch.softmax(scores / temperature, dim=-1))
                - outer(torch.softmax(scores / temperature, dim=-1))
            ),
            both(
                "Right for τ = 1. The scores are divided by τ before the softmax, and the chain rule brings that factor "
                "out once more.",
                "τ = 1 時是對的。分數在 softmax 之前除過 τ，連鎖律會再帶出一個這樣的因子。",
            ),
        ),
        Mistake(
            "temperature_ignored",
            lambda scores, temperature=1.0: (
                torch.diag_embed(torch.softmax(scores, dim=-1)) - outer(torch.softmax(scores, dim=-1))
            ),
            both(
                "Your result does not depend on the temperature. It acts twice: inside the softmax and in the chain rule.",
                "你的結果和溫度無關。溫度有兩個作用：在 softmax 裡面，以及連鎖律帶出的因子。",
            ),
        ),
        Mistake(
            "temperature_only_outside",
            lambda scores, temperature=1.0: (
                (torch.diag_embed(torch.softmax(scores, dim=-1)) - outer(torch.softmax(scores, dim=-1))) / temperature
            ),
            both(
                "The factor of the chain rule is there, but the weights themselves are those of τ = 1.",
                "連鎖律的因子有了，但權重本身還是 τ = 1 的權重。",
            ),
        ),
        Mistake(
            "temperature_factor_inverted",
            lambda scores, temperature=1.0: (
                (
                    torch.diag_embed(torch.softmax(scores / temperature, dim=-1))
                    - outer(torch.softmax(scores / temperature, dim=-1))
                )
                * temperature
            ),
            both(
                "Right for τ = 1. The factor of the chain rule is upside down: the hotter, the less a weight answers.",
                "τ = 1 時是對的。連鎖律的因子顛倒了：溫度愈高，權重的反應愈小。",
            ),
        ),
        Mistake(
            "temperature_factor_twice",
            lambda scores, temperature=1.0: (
                (
                    torch.diag_embed(torch.softmax(scores / temperature, dim=-1))
                    - outer(torch.softmax(scores / temperature, dim=-1))
                )
                / temperature**2
            ),
            both(
                "Right for τ = 1. The chain rule brings the factor of τ out once, not twice.",
                "τ = 1 時是對的。連鎖律只會帶出一次 τ 的因子，不是兩次。",
            ),
        ),
        Mistake(
            "column_weight_squared",
            lambda scores, temperature=1.0: (
                torch.softmax(scores / temperature, dim=-1).unsqueeze(-2)
                * (
                    torch.eye(scores.shape[-1], dtype=scores.dtype)
                    - torch.softmax(scores / temperature, dim=-1).unsqueeze(-2)
                )
                / temperature
            ),
            both(
                "Your diagonal is right. Beside it each entry holds one weight twice: entry (i, j) is made of two "
                "different ones, of row i and of column j.",
                "對角線是對的。旁邊的每個數卻把同一個權重用了兩次：第 (i, j) 個數由兩個不同的權重組成，一個屬於第 i 列，一個屬於第 j 行。",
            ),
        ),
        Mistake(
            "row_weight_squared",
            lambda scores, temperature=1.0: (
                torch.softmax(scores / temperature, dim=-1).unsqueeze(-1)
                * (
                    torch.eye(scores.shape[-1], dtype=scores.dtype)
                    - torch.softmax(scores / temperature, dim=-1).unsqueeze(-1)
                )
                / temperature
            ),
            both(
                "Your diagonal is right. Beside it each entry holds one weight twice, that of its row: where does "
                "the other index enter?",
                "對角線是對的。旁邊的每個數卻把同一個權重（該列的）用了兩次：另一個下標要用在哪裡？",
            ),
        ),
        Mistake(
            "identity_for_diagonal",
            lambda scores, temperature=1.0: (
                (torch.eye(scores.shape[-1], dtype=scores.dtype) - outer(torch.softmax(scores / temperature, dim=-1)))
                / temperature
            ),
            both(
                "Beside the diagonal you are right; on it stands 1 where a weight belongs.",
                "對角線以外是對的；對角線上該放權重的地方，你放了 1。",
            ),
        ),
        Mistake(
            "scores_for_probabilities",
            lambda scores, temperature=1.0: (torch.diag_embed(scores) - outer(scores)) / temperature,
            both(
                "The formula is there, but with the scores in place of the weights.",
                "公式有了，但代進去的是分數，不是權重。",
            ),
        ),
        Mistake(
            "one_row_only",
            lambda scores, temperature=1.0: (
                (
                    torch.diag(torch.softmax(scores / temperature, dim=-1))
                    - torch.outer(
                        torch.softmax(scores / temperature, dim=-1), torch.softmax(scores / temperature, dim=-1)
                    )
                )
                / temperature
            ),
            both(
                "Right for a single row of scores. With leading dimensions there is one matrix for each row.",
                "只有一列分數時是對的。有前置維度時，每一列分數都要有一個自己的矩陣。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda scores, temperature=1.0: (
                (torch.diag_embed(exp_weights(scores / temperature)) - outer(exp_weights(scores / temperature)))
                / temperature
            ),
            both(
                "Right for small scores, but exp overflows above 89 in float32, and below −104 every exponential is 0. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89 就溢位，低於 −104 則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
    ],
    hints=[
        both(
            "Start with the weights; every derivative is made of them alone. What is the derivative on the diagonal, "
            "what beside it?",
            "先算權重，每個導數都只由權重組成。對角線上的導數是什麼？旁邊的又是什麼？",
        ),
        both(
            "The matrix is a difference: a diagonal one, and one whose entry (i, j) is a product of two weights.",
            "這個矩陣是兩個矩陣的差：一個對角矩陣，另一個的第 (i, j) 個數是兩個權重的乘積。",
        ),
        both(
            "For leading dimensions look for torch's function that puts a vector on the diagonal of a matrix for each "
            "row, and make the products by broadcasting a column against a row. Then think of τ and the chain rule.",
            "有前置維度時，找找 torch 裡替每一列把向量放到對角線上的函式；乘積則讓一行和一列互相廣播。最後想想 τ 和連鎖律。",
        ),
    ],
)


def exp_weights(x: Tensor) -> Tensor:
    """The softmax without care."""
    return torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True)


# ---------------------------------------------------------------------------------------------------- entropy


def entropy(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p).sum(dim=-1)


def plain_entropy(p: Tensor) -> Tensor:
    return -(p * p.masked_fill(p == 0, 1.0).log()).sum(dim=-1)


def draw_weights(draw: Draw, *shape: int) -> tuple[Tensor]:
    return (torch.softmax(draw.normal(*shape, std=1.5).double(), dim=-1).to(draw.dtype),)


def draw_weights_with_zeros(draw: Draw, *shape: int) -> tuple[Tensor]:
    scores = draw.normal(*shape).double().masked_fill(~draw.mask(*shape), -math.inf)
    return (torch.softmax(scores, dim=-1).to(draw.dtype),)


def draw_extremes(draw: Draw) -> tuple[Tensor]:
    """A one-hot row, a uniform one, and one between."""
    p = draw_weights(draw, 3, 4)[0]
    p[0] = torch.eye(4, dtype=draw.dtype)[draw.integer(0, 3)]
    p[1] = 0.25
    return (p,)


def draw_tiny_weights(draw: Draw) -> tuple[Tensor]:
    """Rows like (1 − 2·10⁻⁵, 10⁻⁵, 10⁻⁵), in any order: nearly all of the entropy comes from the tiny weights."""
    tiny = draw.uniform(0.5e-5, 2e-5, 3, 2)
    p = torch.cat([1 - tiny.sum(dim=-1, keepdim=True), tiny], dim=-1)
    return (p[:, draw.permutation(3)],)


exercise(
    name="entropy",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=entropy,
    plain=plain_entropy,
    results=("H",),
    forbidden=(*ATTENTION, *ENTROPIES),
    cases=[
        Case("one_row", both("one row of weights", "一列權重"), lambda d: draw_weights(d, 5), 3),
        Case("rows", both("a matrix", "一個矩陣"), lambda d: draw_weights(d, 3, 6), 2),
        Case("batch", both("a batch (3-D)", "一個批次（3 維）"), lambda d: draw_weights(d, 2, 4, 3), 2),
        Case(
            "extremes",
            both("a one-hot row (0) and a uniform one (ln M)", "獨熱的一列（0）與均勻的一列（ln M）"),
            draw_extremes,
            trap=True,
        ),
        Case(
            "zeros",
            both("some weights are exactly 0", "有些權重恰為 0"),
            lambda d: draw_weights_with_zeros(d, 3, 5),
            trap=True,
        ),
        Case(
            "tiny_weights",
            both("weights near 10⁻⁵ beside one near 1 (float64)", "約 10⁻⁵ 的權重，旁邊一個接近 1（float64）"),
            draw_tiny_weights,
            dtype=torch.float64,
            trap=True,
        ),
        Case(
            "one_weight",
            both("one weight in a matrix of shape [1, 1]", "形狀 [1, 1] 的矩陣裡只有一個權重"),
            lambda d: draw_weights(d, 1, 1),
            0.5,
            trap=True,
            magnitude=1.0,
        ),
        *[
            Case(
                name,
                both(f"half precision: {name}, some weights exactly 0", f"半精度：{name}，有些權重恰為 0"),
                lambda d: draw_weights_with_zeros(d, 4, 5),
                0.5,
                dtype,
                trap=True,
            )
            for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16))
        ],
        noncontiguous(lambda d: draw_weights(d, 2, 3, 4)),
        float64(lambda d: draw_weights_with_zeros(d, 4, 6)),
        gradients(lambda d: draw_weights(d, 3, 4), 0.5),
    ],
    mistakes=[
        Mistake(
            "base_two",
            lambda p: -torch.xlogy(p, p).sum(dim=-1) / math.log(2),
            both(
                "Your entropy is in bits: the logarithm has base 2. Here it is in nats, with the natural logarithm.",
                "你的熵以位元為單位：用的是以 2 為底的對數。這裡要用自然對數。",
            ),
        ),
        Mistake(
            "sign_missing",
            lambda p: torch.xlogy(p, p).sum(dim=-1),
            both(
                "Your entropy is negative. Logarithms of weights below 1 are negative; which sign makes up for that?",
                "你的熵是負的。權重小於 1，對數就是負的；要用什麼正負號補回來？",
            ),
        ),
        Mistake(
            "nan_at_zero",
            lambda p: -(p * p.log()).sum(dim=-1),
            both(
                "A weight of 0 makes NaN, because 0 times −inf is undefined on a computer. Its contribution must be 0.",
                "權重是 0 時變成 NaN，因為電腦上 0 乘以 −inf 沒有定義。它的貢獻應該是 0。",
            ),
        ),
        Mistake(
            "mean_instead_of_sum",
            lambda p: -torch.xlogy(p, p).mean(dim=-1),
            both(
                "You average over the keys. The weights inside the formula already average: add up.",
                "你對鍵取了平均。公式裡的權重已經在做平均了：這裡要加總。",
            ),
        ),
        Mistake(
            "summed_over_everything",
            lambda p: -torch.xlogy(p, p).sum(),
            both(
                "You return one number for the whole tensor. Each row is a distribution with an entropy of its own.",
                "你對整個張量只回傳一個數。每一列都是一個機率分布，有自己的熵。",
            ),
        ),
        Mistake(
            "squeezed",
            lambda p: -torch.xlogy(p, p).sum(dim=-1).squeeze(),
            both(
                "For a matrix of one row your result loses its axis. One row in a matrix still makes a vector of length 1.",
                "矩陣只有一列的時候，你的結果少了一個軸。矩陣裡的一列，也要得到長度為 1 的向量。",
            ),
        ),
        Mistake(
            "p_factor_missing",
            lambda p: -p.log().sum(dim=-1),
            both(
                "You add up the logarithms alone. Each counts as often as its weight says.",
                "你只把對數加起來。每個對數要按照它的權重計入。",
            ),
        ),
        Mistake(
            "epsilon_inside_log",
            lambda p: -(p * (p + 1e-9).log()).sum(dim=-1),
            both(
                "A small number added inside the logarithm avoids NaN, but it also changes every other term; in float64 "
                "that shows. Treat only the zeros differently.",
                "在對數裡加一個小數可以避開 NaN，但其他各項也跟著變了，float64 看得出來。只要另外處理 0 就好。",
            ),
        ),
        Mistake(
            "limit_lost_in_float16",
            lambda p: -(p * p.clamp(min=1e-12).log()).sum(dim=-1),
            both(
                "Right in float32. In float16 the small number that is to stand in for a weight of 0 is itself rounded to "
                "0, and its logarithm is −inf again: 0 times −inf makes NaN.",
                "float32 時是對的。在 float16 裡，你拿來代替 0 的那個小數，自己也被捨入成 0，對數又變回 −inf：0 乘以 −inf 就是 NaN。",
            ),
        ),
        Mistake(
            "first_axis",
            lambda p: -torch.xlogy(p, p).sum(dim=0),
            both(
                "You sum along the first axis. A row of weights lies along the last one; with a single row the two are "
                "the same.",
                "你沿著第一個軸加總。一列權重是沿著最後一個軸；只有一列時兩者才相同。",
            ),
        ),
        Mistake(
            "share_of_the_largest",
            lambda p: -torch.xlogy(p, p).sum(dim=-1) / math.log(p.shape[-1]),
            both(
                "You divide by ln M, so that every uniform row gives 1. Here it gives ln M: the entropy is not normalised.",
                "你除以 ln M 了，於是均勻的一列都得到 1。這裡均勻的一列要得到 ln M：熵不做正規化。",
            ),
        ),
        Mistake(
            "effective_number",
            lambda p: (-torch.xlogy(p, p).sum(dim=-1)).exp(),
            both(
                "You return the number of keys that are read, the exponential of the entropy. The entropy itself is "
                "asked for.",
                "你回傳的是「讀了幾個鍵」，也就是熵的指數。這裡要的是熵本身。",
            ),
        ),
    ],
    hints=[
        both(
            "One number for each row: the last axis disappears. Which operations of torch take an axis away?",
            "每一列得到一個數：最後一個軸消失。torch 的哪些運算會讓軸消失？",
        ),
        both(
            "Try your function on the row (1, 0). If you see NaN, ask what the product is made of.",
            "拿 (1, 0) 這一列試試你的函式。如果出現 NaN，看看那個乘積是由什麼組成的。",
        ),
        both(
            "Where a weight is 0, let the logarithm see a harmless number instead, or look for torch's function that "
            "already knows the limit of x ln x.",
            "權重是 0 的地方，讓對數改看一個無害的數；或者找找 torch 裡已經知道 x ln x 極限的函式。",
        ),
    ],
)

# ------------------------------------------------------------------------------- scaled_dot_product_attention


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The formula in the inputs' own dtype, every step rounded: the yardstick for half precision."""
    scores = scaled_scores(q, k, temperature)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
        scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = plain_temperature_softmax(scores, 1.0)
    weights = weights if mask is None else weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


def scaled_scores(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    return q @ k.mT / (math.sqrt(q.shape[-1]) * temperature)


def masked_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax with hidden keys at 0 and rows of zeros where nothing is open; mistakes elsewhere build on it."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, -math.inf).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)


def used(weights: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ v, weights


def exponentials_of_open_chosen(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax with hidden exponentials put aside after they were taken."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    top = scores.masked_fill(~mask, -math.inf).amax(dim=-1, keepdim=True)
    e = torch.where(mask, torch.exp(scores - top.masked_fill(top.isinf(), 0.0)), 0.0)
    return e / e.sum(dim=-1, keepdim=True).masked_fill(~mask.any(dim=-1, keepdim=True), 1.0)


def filled(scores: Tensor, mask: Tensor | None, value: float) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, value)


def zeroed(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def draw_attention(draw: Draw, N: int, M: int, d_k: int, d_v: int, *leading: int) -> tuple[Tensor, Tensor, Tensor]:
    return draw.normal(*leading, N, d_k), draw.normal(*leading, M, d_k), draw.normal(*leading, M, d_v)


def draw_masked_row(draw: Draw) -> tuple[Tensor, ...]:
    mask = draw.mask(2, 4, 5)
    mask[0, 1], mask[1, 3] = False, False
    return *draw_attention(draw, 4, 5, 3, 2, 2), mask


def draw_equal_scores(draw: Draw) -> tuple[Tensor, ...]:
    """Queries of 0 score all keys alike: one sees every key, one only two of them. Neither row is empty."""
    q, k, v = draw_attention(draw, 4, 4, 5, 3, 2)
    q[:, 0], q[:, 2] = 0.0, 0.0
    mask = draw.mask(4, 4)
    mask[0], mask[2] = True, torch.tensor([True, False, True, False])[draw.permutation(4)]
    return q, k, v, mask


def draw_named_mask_and_temperature(draw: Draw) -> tuple[Any, ...]:
    mask = draw.mask(2, 3, 4, 5)
    return draw_attention(draw, 4, 5, 6, 3, 2, 3), {"mask": mask, "temperature": draw.number(1.5, 3.0)}


def draw_huge_scores(draw: Draw) -> tuple[Tensor, ...]:
    """Scores near ±10⁴ and ±5·10³, with close rivals on each level; hidden keys on both, so above and below the open ones.

    The last query sees only keys at −10⁴, where a mask that merely lowers scores by some thousands fails.
    """
    q, k, v = draw_attention(draw, 4, 7, 4, 3)
    q[:, 0] = torch.tensor([100.0, -100.0, 100.0, -100.0])
    far = torch.tensor([True, True, True, True, False, False, False])
    k[:, 0] = torch.where(far, 200.0, 100.0)
    mask = torch.tensor([True, True, False, True, True, False, True]).repeat(4, 1)
    mask[3] &= far
    order = draw.permutation(7)
    return q, k[order], v[order], mask[:, order]


def draw_hidden_far_above(draw: Draw) -> tuple[Tensor, ...]:
    """Open keys score a few units, hidden ones 800, whose exponential is infinite in float64 too."""
    q, k, v = draw_attention(draw, 3, 5, 4, 2)
    hidden = torch.tensor([True, False, False, True, False])[draw.permutation(5)]
    q[:, 0] = 20.0
    k[:, 0] = torch.where(hidden, 80.0, 0.1 * k[:, 0])
    return q, k, v, (~hidden).repeat(3, 1)


exercise(
    name="scaled_dot_product_attention",
    lesson=LESSON,
    points=4,
    difficulty=3,
    reference=scaled_dot_product_attention,
    plain=plain_attention,
    exact_zeros=True,
    results=("output", "weights"),
    forbidden=ATTENTION,
    cases=[
        Case("matrix", both("3 queries, 5 keys", "3 個查詢、5 個鍵"), lambda d: draw_attention(d, 3, 5, 4, 2), 3),
        Case(
            "heads",
            both("a batch with heads (4-D)", "一個批次、多個頭（4 維）"),
            lambda d: draw_attention(d, 4, 6, 5, 3, 2, 3),
            3,
        ),
        Case(
            "no_mask_temperature",
            both("a temperature and no mask", "有溫度、沒有遮罩"),
            lambda d: (draw_attention(d, 3, 6, 4, 5, 2), {"temperature": d.number(0.4, 0.7)}),
            2,
        ),
        Case(
            "pair_mask",
            both("a mask [N, M] for the whole batch", "整個批次共用的遮罩 [N, M]"),
            lambda d: (*draw_attention(d, 4, 6, 3, 5, 2), d.mask(4, 6)),
            2,
        ),
        Case(
            "padding_mask",
            both("a padding mask [B, 1, 1, M]", "填補遮罩 [B, 1, 1, M]"),
            lambda d: (*draw_attention(d, 4, 5, 6, 2, 2, 3), d.mask(2, 1, 1, 5)),
            2,
        ),
        Case(
            "temperature",
            both("a mask [B, h, N, M] and a temperature, by name", "用名稱給遮罩 [B, h, N, M] 與溫度"),
            draw_named_mask_and_temperature,
            2,
        ),
        Case(
            "masked_row", both("a row with nothing to attend to", "有一列沒有東西可看"), draw_masked_row, 1.5, trap=True
        ),
        Case(
            "huge_scores",
            both("scores up to ±10⁴, masked keys among them (float64)", "分數到 ±10⁴，其中有被遮住的鍵（float64）"),
            draw_huge_scores,
            1.5,
            torch.float64,
            trap=True,
        ),
        Case(
            "equal_scores",
            both("rows whose open keys have equal scores among them", "有幾列看得到的鍵分數全部相等"),
            draw_equal_scores,
            trap=True,
        ),
        *half_precision(lambda d: (*draw_attention(d, 4, 6, 5, 3, 2), d.mask(4, 6)), 0.75),
        Case(
            "float16_no_mask",
            both("half precision: float16, a temperature, no mask", "半精度：float16，有溫度，沒有遮罩"),
            lambda d: (draw_attention(d, 5, 4, 6, 3, 2), {"temperature": 1.5}),
            0.5,
            torch.float16,
            trap=True,
        ),
        Case(
            "float16_masked_row",
            both("half precision: float16, a row with nothing to attend to", "半精度：float16，有一列沒有東西可看"),
            draw_masked_row,
            0.5,
            torch.float16,
            trap=True,
        ),
        Case(
            "ones",
            both("one query, one key, a batch of one, d_k = d_v = 1", "一個查詢、一個鍵，批次只有一個，d_k = d_v = 1"),
            lambda d: draw_attention(d, 1, 1, 1, 1, 1),
            0.5,
            trap=True,
        ),
        float64(lambda d: draw_attention(d, 4, 5, 3, 6, 2), 0.5),
        noncontiguous(lambda d: draw_attention(d, 3, 4, 5, 2, 2, 3), 0.75),
        gradients(lambda d: (*draw_attention(d, 3, 5, 4, 2, 2), d.mask(3, 5), 1.5)),
        Case(
            "masked_row_gradients",
            both("finite gradients with a fully masked row", "有整列被遮住時，梯度也要是有限值"),
            draw_masked_row,
            gradients=True,
            trap=True,
        ),
        Case(
            "hidden_far_above_gradients",
            both(
                "finite gradients where hidden keys score 800 (float64)",
                "被遮住的鍵分數約 800 時，梯度也要是有限值（float64）",
            ),
            draw_hidden_far_above,
            0.5,
            torch.float64,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "scale_missing",
            lambda q, k, v, mask=None, temperature=1.0: used(masked_weights(q @ k.mT / temperature, mask), v),
            both(
                "Your scores are not scaled: the factor this lesson is about is missing.",
                "你的分數沒有縮放：少了這一課在講的那個因子。",
            ),
        ),
        Mistake(
            "scale_d_k",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT / (q.shape[-1] * temperature), mask), v
            ),
            both(
                "You divide by d_k itself, so the weights come out too even. The spread of the scores grows more slowly "
                "than d_k.",
                "你除的是 d_k 本身，權重變得太平均。分數的離散程度成長得比 d_k 慢。",
            ),
        ),
        Mistake(
            "scale_d_v",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT / (math.sqrt(v.shape[-1]) * temperature), mask), v
            ),
            both(
                "You take the size of the values for the scale. Scores are inner products of queries and keys: it is "
                "their length that counts.",
                "你拿值的維度來縮放。分數是查詢與鍵的內積，要看的是它們的維度。",
            ),
        ),
        Mistake(
            "scale_number_of_keys",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT / (math.sqrt(k.shape[-2]) * temperature), mask), v
            ),
            both(
                "You take the number of keys for the scale. What counts is how long one key is, not how many there are.",
                "你拿鍵的個數來縮放。要看的是一個鍵有多長，不是有幾個鍵。",
            ),
        ),
        Mistake(
            "scale_multiplied",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT * math.sqrt(q.shape[-1]) / temperature, mask), v
            ),
            both(
                "You multiply by √d_k, so the scores spread even further and the winner takes all. It is there to bring "
                "them together.",
                "你乘上了 √d_k，分數拉得更開，贏者更通吃。它的作用是讓分數靠近。",
            ),
        ),
        Mistake(
            "temperature_under_the_root",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT / math.sqrt(q.shape[-1] * temperature), mask), v
            ),
            both(
                "Right for τ = 1. Your temperature stands under the root together with d_k; it is used as it is.",
                "τ = 1 時是對的。你把溫度和 d_k 一起放進根號了；溫度要直接使用。",
            ),
        ),
        Mistake(
            "scale_after_softmax",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(q @ k.mT / temperature, mask) / math.sqrt(q.shape[-1]), v
            ),
            both(
                "You scale after the softmax, so the rows no longer sum to 1, and the winner still takes all. Scale the "
                "scores.",
                "你在 softmax 之後才縮放，於是每一列加起來不是 1，而且贏者照樣通吃。要縮放的是分數。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(filled(scaled_scores(q, k, temperature), mask, -math.inf), dim=-2), v
            ),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "mask_inverted",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(scaled_scores(q, k, temperature), None if mask is None else ~mask), v
            ),
            both(
                "Your mask works the wrong way round: the hidden keys get all the weight. In this course True means: may "
                "attend.",
                "你的遮罩用反了：被遮住的鍵反而拿走全部權重。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "mask_ignored",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(scaled_scores(q, k, temperature), dim=-1), v
            ),
            both(
                "Your result does not depend on the mask. A hidden key must not get any weight: look at where scores "
                "become weights.",
                "你的結果和遮罩無關。被遮住的鍵不能分到權重：看看分數在哪裡變成權重。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            lambda q, k, v, mask=None, temperature=1.0: used(
                zeroed(torch.softmax(scaled_scores(q, k, temperature), dim=-1), mask), v
            ),
            both(
                "The hidden keys are removed after the softmax, so the open ones no longer sum to 1. Hide them before "
                "the weights are shared out.",
                "你在 softmax 之後才把遮住的鍵拿掉，剩下的權重加起來就不是 1 了。要在分配權重之前就遮住。",
            ),
        ),
        Mistake(
            "renormalised_after_softmax",
            lambda q, k, v, mask=None, temperature=1.0: used(
                renormalised(zeroed(torch.softmax(scaled_scores(q, k, temperature), dim=-1), mask)), v
            ),
            both(
                "Rows of NaN: you hide keys after the exponentials. By then a huge hidden score has overflowed or has pushed "
                "the open ones down to 0, and in a row with nothing to attend to there is nothing to divide by. Hide "
                "before; such a row gets zeros.",
                "整列變成 NaN：你在取指數之後才遮。這時很大的遮住分數已經溢位，或是把看得到的壓成 0 了；沒有東西可看的列，"
                "則沒有東西可以除。要先遮再取指數；沒有東西可看的列要得到 0。",
            ),
        ),
        Mistake(
            "mask_multiplied",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(filled(scaled_scores(q, k, temperature), mask, 0.0), dim=-1), v
            ),
            both(
                "A hidden key gets the score 0, and the exponential of 0 is 1, not 0: it still takes a share.",
                "被遮住的鍵得到分數 0，但 0 的指數是 1，不是 0：它還是分走了權重。",
            ),
        ),
        Mistake(
            "mask_only_lowers",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(
                    scaled_scores(q, k, temperature)
                    if mask is None
                    else scaled_scores(q, k, temperature) - 1e4 * ~mask,
                    dim=-1,
                ),
                v,
            ),
            both(
                "You subtract a large number from the hidden scores. Where scores are large too, or where all keys are "
                "hidden, that is not enough: no finite number is.",
                "你讓被遮住的分數減去一個大數。分數本身也很大、或整列都被遮住時就不夠了：任何有限的數都不夠。",
            ),
        ),
        Mistake(
            "masked_row_averages",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(filled(scaled_scores(q, k, temperature), mask, torch.finfo(q.dtype).min), dim=-1), v
            ),
            both(
                "In a row with nothing to attend to, your weights are spread evenly over the hidden keys: all scores are "
                "the same large negative number there. Such a row gets zeros.",
                "整列都被遮住時，你的權重平均分給了被遮住的鍵，因為那裡的分數全是同一個很大的負數。這種列要得到 0。",
            ),
        ),
        Mistake(
            "masked_row_nan",
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(filled(scaled_scores(q, k, temperature), mask, -math.inf), dim=-1), v
            ),
            both(
                "A row with nothing to attend to gives NaN: no exponential is left in it to divide by. Such a row gets "
                "zeros.",
                "整列都被遮住時出現 NaN：沒有任何指數可以拿來除。這種列要得到 0。",
            ),
        ),
        Mistake(
            "nan_repaired_afterwards",
            # masked_fill stops the NaN on its way back; a float mask of −inf that is added does not.
            lambda q, k, v, mask=None, temperature=1.0: used(
                torch.softmax(
                    scaled_scores(q, k, temperature)
                    + filled(torch.zeros((), dtype=q.dtype).expand(*q.shape[:-1], k.shape[-2]), mask, -math.inf),
                    dim=-1,
                ).nan_to_num(0.0),
                v,
            ),
            both(
                "The values are right, but the NaN is only painted over: backwards it is still there and spoils the "
                "gradients. Do not let it arise.",
                "數值是對的，但 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "hidden_exponentials_dropped",
            lambda q, k, v, mask=None, temperature=1.0: used(
                exponentials_of_open_chosen(scaled_scores(q, k, temperature), mask), v
            ),
            both(
                "The values are right, but you take the exponentials of hidden scores too and drop them afterwards. Far above "
                "the open ones such an exponential is infinite, and on the way back 0 times infinity is NaN. Hide before.",
                "數值是對的，但你連被遮住的分數也取了指數，之後才丟掉。這種分數若遠高於看得到的，指數就是無限大，"
                "反向傳播時 0 乘以無限大變成 NaN。要先遮再取指數。",
            ),
        ),
        Mistake(
            "minus_1e9_in_half",
            lambda q, k, v, mask=None, temperature=1.0: used(
                zeroed(torch.softmax(filled(scaled_scores(q, k, temperature), mask, -1e9), dim=-1), mask), v
            ),
            both(
                "You hide with a large negative number like −1e9. It does not fit into float16, whose largest number is "
                "65504. Is there a value that every dtype knows?",
                "你用 −1e9 這類很大的負數來遮。它放不進 float16，因為 float16 最大的數是 65504。有沒有一個每種 dtype 都認得的值？",
            ),
        ),
        Mistake(
            "divisor_lost_in_float16",
            lambda q, k, v, mask=None, temperature=1.0: used(
                weights_over_at_least(scaled_scores(q, k, temperature), mask, 1e-9), v
            ),
            both(
                "A row with nothing to attend to gives NaN in float16: the small number that is to keep you from dividing by 0 "
                "is itself rounded to 0 there. In float32 it is not.",
                "在 float16 裡，整列都被遮住時出現 NaN：你用來避免除以 0 的那個小數，在那裡自己也被捨入成 0。float32 就不會。",
            ),
        ),
        Mistake(
            "temperature_ignored",
            lambda q, k, v, mask=None, temperature=1.0: used(masked_weights(scaled_scores(q, k, 1.0), mask), v),
            both(
                "Right for τ = 1. Your result does not depend on the temperature.",
                "τ = 1 時是對的。你的結果和溫度無關。",
            ),
        ),
        Mistake(
            "temperature_only_without_mask",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(scaled_scores(q, k, temperature if mask is None else 1.0), mask), v
            ),
            both(
                "Right without a mask. Where there is one, your result does not depend on the temperature: the two have "
                "nothing to do with each other.",
                "沒有遮罩時是對的。有遮罩時，你的結果就和溫度無關了：這兩件事互不相干。",
            ),
        ),
        Mistake(
            "temperature_only_with_mask",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(scaled_scores(q, k, 1.0 if mask is None else temperature), mask), v
            ),
            both(
                "Right with a mask. Where there is none, your result does not depend on the temperature: the two have "
                "nothing to do with each other.",
                "有遮罩時是對的。沒有遮罩時，你的結果就和溫度無關了：這兩件事互不相干。",
            ),
        ),
        Mistake(
            "temperature_multiplies",
            lambda q, k, v, mask=None, temperature=1.0: used(
                masked_weights(scaled_scores(q, k, 1 / temperature), mask), v
            ),
            both(
                "You multiply by the temperature, so heat makes the weights sharper. It must make them more even.",
                "你乘上了溫度，於是溫度愈高權重愈尖。溫度應該讓權重更平均。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda q, k, v, mask=None, temperature=1.0: used(
                zeroed(exp_weights_of_open(scaled_scores(q, k, temperature), mask), mask), v
            ),
            both(
                "Right for small scores, but exp overflows (above 709 in float64) or gives nothing but zeros. "
                "Subtracting one number from a whole row changes nothing in its weights: which number helps?",
                "分數小的時候是對的，但 exp 會溢位（float64 超過 709）或全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda q, k, v, mask=None, temperature=1.0: used(masked_weights(scaled_scores(q, k, temperature), mask), v)[
                ::-1
            ],
            both(
                "The two results have changed places: first the output, then the weights.",
                "兩個結果對調了：先輸出，再權重。",
            ),
        ),
        Mistake(
            "output_only",
            lambda q, k, v, mask=None, temperature=1.0: masked_weights(scaled_scores(q, k, temperature), mask) @ v,
            both(
                "You return the output alone. The weights are asked for as well, as the second part of a tuple.",
                "你只回傳輸出。權重也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "Four steps: scores, hide, share out, mix. Check the shapes after each: [..., N, M] until the last.",
            "四個步驟：分數、遮住、分配、混合。每一步都核對形狀：最後一步之前都是 [..., N, M]。",
        ),
        both(
            "A key is hidden by a score that no open key can be below. Think about what the softmax makes of −inf, and "
            "what it makes of a row where every score is −inf.",
            "要遮住一個鍵，就給它低到不能再低的分數。想想 softmax 怎麼處理 −inf，又怎麼處理整列都是 −inf。",
        ),
        both(
            "For a row with nothing to attend to: give it harmless scores before the softmax, so that no NaN arises, "
            "and set its weights to zero afterwards. Half precision: turn all three into float32 first, and the results "
            "back at the end.",
            "沒有東西可看的列：在 softmax 之前先給它無害的分數，NaN 就不會出現，之後再把它的權重設成 0。"
            "半精度：先把三個輸入轉成 float32，最後再把結果轉回去。",
        ),
    ],
)


def renormalised(weights: Tensor) -> Tensor:
    """Rows divided by their sums, without care for a sum of 0."""
    return weights / weights.sum(dim=-1, keepdim=True)


def weights_over_at_least(scores: Tensor, mask: Tensor | None, least: float) -> Tensor:
    """The weights with a lower limit for the sum that they are divided by."""
    scores = filled(scores, mask, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - largest.masked_fill(largest.isinf(), 0.0))
    return e / e.sum(dim=-1, keepdim=True).clamp(min=least)


def exp_weights_of_open(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The weights by exponentials and a sum, without care for their size; a row with nothing open sums to 1."""
    e = torch.exp(scores) if mask is None else torch.exp(scores) * mask
    total = e.sum(dim=-1, keepdim=True)
    return e / (total if mask is None else total.masked_fill(~mask.any(dim=-1, keepdim=True), 1.0))


# -------------------------------------------------------------------------------------------------- questions

question(
    name="03_q1",
    lesson=LESSON,
    right="c",
    wrong=[
        Mistake(
            "shifts_scores",
            "a",
            both(
                "Softmax sees differences only: subtracting a constant from all scores changes nothing. Dividing changes "
                "their spread, and that is what matters.",
                "softmax 只看差：所有分數同減一個常數，什麼都不會變。除法改變的是離散程度，這才是重點。",
            ),
        ),
        Mistake(
            "makes_rows_sum_to_one",
            "b",
            both(
                "The rows sum to 1 because of the softmax, whatever the scores are divided by.",
                "每一列加起來是 1，是 softmax 的功勞，和分數除以什麼無關。",
            ),
        ),
        Mistake(
            "must_be_exactly_sqrt_d_k",
            "d",
            both(
                "The proof speaks about independent components of mean 0, that is, about a fresh layer. Training moves "
                "the weights, and they can absorb a constant factor.",
                "證明講的是獨立、平均為 0 的分量，也就是剛初始化的層。訓練會改變權重，而權重可以吸收一個常數倍。",
            ),
        ),
    ],
    hints=[
        both(
            "Which of the claims would still hold if all scores were moved by the same amount? And which if W_Q were "
            "multiplied by 2?",
            "如果所有分數都平移同一個量，哪些說法仍然成立？如果 W_Q 乘以 2 呢？",
        ),
    ],
)
