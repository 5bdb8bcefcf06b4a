"""Lesson 09, FlashAttention: the bill of the matrix, the online softmax, merging, the whole algorithm and its backward.

Shapes: N queries, M keys, d_k, d_v; B batch, h heads, b scores in a block; `...` stands for leading dimensions, none
included.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import DERIVATIVES, TRANSFORMERS, WAYS_OUT_OF_TORCH
from autograder.exercises.shared import float64, half_precision, noncontiguous, smallest
from autograder.text import both

LESSON = "09_flash_attention"


def slips(wrong: Callable[..., Any]) -> Callable[[str, str, str], Mistake]:
    """Makes the mistakes of an exercise whose wrong answers are one function that is told which slip to make."""
    return lambda name, english, chinese: Mistake(name, partial(wrong, slip=name), both(english, chinese))


# -------------------------------------------------------------------------------------------- attention_bytes


def attention_bytes(batch: int, n_heads: int, n_queries: int, n_keys: int, dtype: torch.dtype) -> int:
    return batch * n_heads * n_queries * n_keys * dtype.itemsize


def draw_sizes(draw: Draw, dtype: torch.dtype, n_queries: int = 0) -> tuple[Any, ...]:
    """Sizes that no byte count (1, 2, 4, 8) and no other size equals."""
    return (
        draw.choice(3, 5, 7),
        draw.choice(6, 9, 12),
        n_queries or draw.integer(100, 400),
        draw.integer(500, 2000),
        dtype,
    )


exercise(
    name="attention_bytes",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=attention_bytes,
    results=("bytes",),
    cases=[
        Case("float32", both("entries in float32", "元素是 float32"), lambda d: draw_sizes(d, torch.float32), 2),
        Case("float16", both("entries in float16", "元素是 float16"), lambda d: draw_sizes(d, torch.float16), 2),
        Case("bfloat16", both("entries in bfloat16", "元素是 bfloat16"), lambda d: draw_sizes(d, torch.bfloat16)),
        Case("float64", both("entries in float64", "元素是 float64"), lambda d: draw_sizes(d, torch.float64)),
        Case("one_query", both("one query: N = 1", "只有一個查詢：N = 1"), lambda d: draw_sizes(d, torch.float16, 1)),
    ],
    mistakes=[
        Mistake(
            "square_of_queries",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_queries**2 * dtype.itemsize,
            both(
                "You squared the number of queries. The matrix has a row for each query and a column for each key, and "
                "the two numbers may differ.",
                "你把查詢的個數平方了。矩陣的列數是查詢的個數，行數是鍵的個數，兩者可以不同。",
            ),
        ),
        Mistake(
            "square_of_keys",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_keys**2 * dtype.itemsize,
            both(
                "You squared the number of keys. The matrix has a row for each query and a column for each key, and the "
                "two numbers may differ.",
                "你把鍵的個數平方了。矩陣的列數是查詢的個數，行數是鍵的個數，兩者可以不同。",
            ),
        ),
        Mistake(
            "one_head",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_queries * n_keys * dtype.itemsize,
            both(
                "That is the bill for a single head. Every head has a score matrix of its own.",
                "這只是一個頭的份。每個頭都有自己的分數矩陣。",
            ),
        ),
        Mistake(
            "one_sequence",
            lambda batch, n_heads, n_queries, n_keys, dtype: n_heads * n_queries * n_keys * dtype.itemsize,
            both(
                "That is the bill for one sequence of the batch. Every sequence has score matrices of its own.",
                "這只是批次裡一個序列的份。每個序列都有自己的分數矩陣。",
            ),
        ),
        Mistake(
            "elements",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_queries * n_keys,
            both(
                "You counted the entries. How many bytes does one entry of this dtype take?",
                "你數的是元素的個數。這種 dtype 的一個元素占幾個位元組？",
            ),
        ),
        Mistake(
            "four_bytes_always",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_queries * n_keys * 4,
            both(
                "Right for float32. Half precision takes 2 bytes an entry and float64 takes 8: ask the dtype.",
                "float32 時是對的。半精度每個元素占 2 個位元組，float64 占 8 個：要看 dtype。",
            ),
        ),
        Mistake(
            "two_bytes_always",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_queries * n_keys * 2,
            both(
                "Right for half precision, where an entry takes 2 bytes. float32 takes 4 and float64 takes 8: ask the dtype.",
                "半精度時是對的，每個元素占 2 個位元組。float32 占 4 個，float64 占 8 個：要看 dtype。",
            ),
        ),
        Mistake(
            "scores_and_weights",
            lambda batch, n_heads, n_queries, n_keys, dtype: 2 * batch * n_heads * n_queries * n_keys * dtype.itemsize,
            both(
                "That is twice the bill: room for the scores and for the weights. Only the score matrix is asked for.",
                "這是兩倍：分數和權重各占一份。這題只問分數矩陣。",
            ),
        ),
        Mistake(
            "bits",
            lambda batch, n_heads, n_queries, n_keys, dtype: (
                batch * n_heads * n_queries * n_keys * torch.finfo(dtype).bits
            ),
            both(
                "That is the number of bits, eight times too many. Bytes are asked for.",
                "這是位元數，是位元組數的八倍。題目要的是位元組（byte）。",
            ),
        ),
        Mistake(
            "halved",
            lambda batch, n_heads, n_queries, n_keys, dtype: batch * n_heads * n_queries * n_keys * dtype.itemsize // 2,
            both(
                "You halved it. A causal mask hides half of the entries, but a stored matrix keeps room for all of them.",
                "你除以 2 了。因果遮罩會遮住一半，但矩陣存下來時，每一格都要占位置。",
            ),
        ),
        Mistake(
            "float_result",
            lambda batch, n_heads, n_queries, n_keys, dtype: (
                batch * n_heads * n_queries * n_keys * torch.finfo(dtype).bits / 8
            ),
            both(
                "The number is right, but it is a float. Bytes are counted in whole numbers: return a Python int.",
                "數字對了，但型別是 float。位元組要用整數來數：請回傳 Python 的 int。",
            ),
        ),
    ],
    hints=[
        both(
            "First count the score matrices, then the entries of one, then the bytes of one entry.",
            "先數有幾個分數矩陣，再數一個矩陣有幾個元素，最後數一個元素占幾個位元組。",
        ),
        both(
            "A dtype knows its own size: look at its attribute itemsize.",
            "dtype 自己知道大小：看看它的 itemsize 屬性。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------- online_softmax


def online_softmax(running_max: Tensor, running_sum: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    new_max = torch.maximum(running_max, scores.amax(dim=-1))
    shift = new_max.masked_fill(new_max.isneginf(), 0.0)
    correction = torch.exp(running_max - shift)
    return new_max, correction * running_sum + torch.exp(scores - shift.unsqueeze(-1)).sum(dim=-1)


def state_of(seen: Tensor) -> tuple[Tensor, Tensor]:
    """The state (m, s) after scores that each row has at least one finite of."""
    m = seen.double().amax(dim=-1)
    return m.to(seen.dtype), (seen.double() - m.unsqueeze(-1)).exp().sum(dim=-1).to(seen.dtype)


def draw_step(draw: Draw, *shape: int, b: int, rise: float) -> tuple[Tensor, ...]:
    """A state after four scores a row, and a block that lies `rise` higher on the average."""
    return *state_of(draw.normal(*shape, 4)), draw.normal(*shape, b, mean=rise)


def draw_start(draw: Draw) -> tuple[Tensor, ...]:
    zeros = torch.zeros(2, 3, dtype=draw.dtype)
    return zeros - math.inf, zeros, draw.normal(2, 3, 4, std=2.0)


def draw_mixed_infinities(draw: Draw) -> tuple[Tensor, ...]:
    """Rows with a state and rows at the start; −inf here and there, in each row something finite."""
    m, s = state_of(draw.normal(4, 3))
    fresh = torch.tensor([False, True, False, True])
    return (
        m.masked_fill(fresh, -math.inf),
        s.masked_fill(fresh, 0.0),
        draw.normal(4, 5, std=2.0).masked_fill(~draw.mask(4, 5), -math.inf),
    )


def draw_nothing_seen(draw: Draw) -> tuple[Tensor, ...]:
    """Row 0: all −inf at the start. Row 1: all −inf after a state. Rows 2 and 3: as usual."""
    m, s, scores = draw_step(draw, 4, b=3, rise=1.0)
    m[0], s[0], scores[:2] = -math.inf, 0.0, -math.inf
    return m, s, scores


def draw_far(draw: Draw) -> tuple[Tensor, ...]:
    """Rows at +900, at −900, from −900 to +900 and back down."""
    before = torch.tensor([900.0, -900.0, -900.0, 900.0], dtype=draw.dtype).unsqueeze(-1)
    after = torch.tensor([900.0, -900.0, 900.0, -900.0], dtype=draw.dtype).unsqueeze(-1)
    return *state_of(before + draw.normal(4, 3)), after + draw.normal(4, 5)


def draw_half_scores(draw: Draw) -> tuple[Tensor, ...]:
    m, s, scores = draw_step(draw, 3, 2, b=5, rise=1.0)
    return m, s, scores.half()


def softmax_step(running_max: Tensor, running_sum: Tensor, scores: Tensor, *, slip: str) -> tuple[Tensor, Tensor]:
    """One step with a slip."""
    m, s = running_max, running_sum
    scores = scores if slip == "in_the_scores_dtype" else scores.to(m.dtype)
    block_max = scores.amax(dim=-1)
    new = block_max if slip == "block_max_only" else m if slip == "old_max_kept" else torch.maximum(m, block_max)
    shift = new if slip == "nan_at_minus_inf" else new.masked_fill(new.isneginf(), 0.0)
    block_shift = block_max.masked_fill(block_max.isneginf(), 0.0) if slip == "block_not_rescaled" else shift
    inside = torch.exp(scores - block_shift.unsqueeze(-1)).sum(dim=-1)
    exponent = shift - m if slip == "rescale_inverted" else m - shift
    before = 0 if slip == "sum_forgotten" else s if slip == "no_rescale" else torch.exp(exponent) * s
    if slip == "no_max_subtraction":
        before, inside = s * torch.exp(m) / torch.exp(shift), torch.exp(scores).sum(dim=-1) / torch.exp(shift)
    if slip == "in_the_scores_dtype":
        return new.to(scores.dtype), (before + inside).to(scores.dtype)
    return (before + inside, new) if slip == "parts_swapped" else (new, before + inside)


step_mistake = slips(softmax_step)


exercise(
    name="online_softmax",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=online_softmax,
    results=("new_max", "new_sum"),
    forbidden=TRANSFORMERS,
    cases=[
        Case("rises", both("the block lies higher", "這個區塊比較高"), lambda d: draw_step(d, 4, b=3, rise=2.0), 2),
        Case("falls", both("the block lies lower", "這個區塊比較低"), lambda d: draw_step(d, 4, b=5, rise=-3.0), 2),
        Case("start", both("the first block, from (−inf, 0)", "第一個區塊，從 (−inf, 0) 開始"), draw_start, 1.5),
        Case(
            "one_score",
            both("one score at a time, in a batch", "一次一個分數，有批次"),
            lambda d: draw_step(d, 2, 3, b=1, rise=0.5),
            1.5,
        ),
        Case(
            "one_row",
            both("one row: the state is 0-d", "只有一列：狀態是 0 維"),
            lambda d: draw_step(d, b=4, rise=1.0),
        ),
        Case("some_hidden", both("some scores are −inf", "有些分數是 −inf"), draw_mixed_infinities, 1.5),
        Case(
            "nothing_seen",
            both("a whole block of −inf, at the start and later", "整個區塊都是 −inf，出現在開頭或之後"),
            draw_nothing_seen,
            1.5,
            trap=True,
        ),
        Case("far", both("scores near ±900", "分數約 ±900"), draw_far, 1.5, torch.float64, trap=True),
        Case(
            "half_scores",
            both("scores in float16, the state in float32", "分數是 float16，狀態是 float32"),
            draw_half_scores,
            trap=True,
        ),
        smallest(lambda d: draw_step(d, 1, b=1, rise=1.0)),
        noncontiguous(lambda d: draw_step(d, 3, 4, b=2, rise=1.0)),
        float64(lambda d: draw_step(d, 5, b=3, rise=1.0)),
    ],
    mistakes=[
        step_mistake(
            "no_rescale",
            "You keep the old sum as it is. Its exponentials were taken against the old maximum; when the maximum rises, "
            "they are too large.",
            "舊的總和原封不動留了下來。那些指數是對舊的最大值算的；最大值升高之後，它們就太大了。",
        ),
        step_mistake(
            "rescale_inverted",
            "The old sum is corrected in the wrong direction: when the maximum rises, old exponentials must shrink, not "
            "grow.",
            "舊總和修正的方向反了：最大值升高時，舊的指數要縮小，不是放大。",
        ),
        step_mistake(
            "block_max_only",
            "Your new maximum is that of this block. The state covers all scores so far, and an earlier block may have "
            "held a larger one.",
            "你的新最大值只看了這個區塊。狀態要涵蓋到目前為止的所有分數，前面的區塊可能有更大的。",
        ),
        step_mistake(
            "old_max_kept",
            "Your maximum never changes. A block may hold a larger score than all before it.",
            "你的最大值一直沒變。新的區塊可能有比之前都大的分數。",
        ),
        step_mistake(
            "sum_forgotten",
            "Your sum covers this block only. What was summed before counts too, once it is corrected.",
            "你的總和只有這個區塊。之前累積的也要算進來，但要先修正。",
        ),
        step_mistake(
            "block_not_rescaled",
            "You took this block's exponentials against the block's own maximum and added them as they are. Both "
            "parts of the sum must refer to the same maximum.",
            "你讓這個區塊的指數減自己的最大值，就直接加進去。總和的兩部分必須以同一個最大值為準。",
        ),
        step_mistake(
            "no_max_subtraction",
            "Right for moderate scores. The exponential of a raw score overflows near 900, and near −900 it is 0: "
            "subtract before you take the exponential.",
            "分數不大時是對的。直接對原始分數取指數，900 附近會溢位，−900 附近會變成 0：要先減再取指數。",
        ),
        step_mistake(
            "nan_at_minus_inf",
            "Where nothing has been seen yet, you subtract −inf from −inf, and that is NaN. Which number may stand in for "
            "such a maximum?",
            "還沒看到任何分數的地方，你算了 −inf 減 −inf，結果是 NaN。這種最大值可以先換成什麼數？",
        ),
        step_mistake(
            "in_the_scores_dtype",
            "Your result is in the dtype of the scores. The state stays in its own dtype: it adds up many numbers and "
            "needs the digits.",
            "你的結果用了分數的 dtype。狀態要保持自己的 dtype：它累加很多數，需要那些位數。",
        ),
        step_mistake(
            "parts_swapped",
            "The two results have changed places: first the maximum, then the sum.",
            "兩個結果對調了：先最大值，再總和。",
        ),
    ],
    hints=[
        both(
            "Two numbers are enough: the largest score so far, and the sum of exponentials measured against it. What "
            "happens to the old exponentials when the largest score changes?",
            "兩個數就夠了：目前最大的分數，以及對它算的指數總和。最大的分數換了，舊的指數會怎樣？",
        ),
        both(
            "Every old exponential is off by the same factor, so one multiplication repairs the whole sum. The factor is "
            "1 when the maximum stays, and less than 1 when it rises.",
            "每個舊的指數都差同一個倍數，所以乘一次就能修好整個總和。最大值不變時倍數是 1，升高時小於 1。",
        ),
        both(
            "Three steps: the new maximum; the factor for the old sum; the sum of this block against the new maximum. "
            "Where the new maximum is −inf, subtract 0 instead.",
            "三步：新的最大值；舊總和的倍數；這個區塊對新最大值的指數總和。新最大值是 −inf 的地方，改減 0。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------- merge_blocks


def merge_blocks(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(lse_a, lse_b)
    total = lse.masked_fill(lse.isneginf(), 0.0)
    share_a, share_b = torch.exp(lse_a - total), torch.exp(lse_b - total)
    return share_a.unsqueeze(-1) * out_a + share_b.unsqueeze(-1) * out_b, lse


def draw_pair(draw: Draw, *shape: int, d_v: int, lead: float = 0.0) -> tuple[Tensor, ...]:
    """Two attentions; the second has `lead` more in its lse on the average. The lse stay well away from 0."""
    return (
        draw.normal(*shape, d_v),
        draw.uniform(1.0, 3.0, *shape),
        draw.normal(*shape, d_v),
        draw.uniform(1.0, 3.0, *shape) + lead,
    )


def draw_with_empty(draw: Draw, both_too: bool) -> tuple[Tensor, ...]:
    """Rows where a, where b and (if asked for) where neither has seen a key."""
    out_a, lse_a, out_b, lse_b = draw_pair(draw, 2, 5, d_v=3)
    empty_a, empty_b = torch.tensor([0, 1, 0, 0, both_too]).bool(), torch.tensor([0, 0, 1, 0, both_too]).bool()
    return (
        out_a.masked_fill(empty_a.unsqueeze(-1), 0.0),
        lse_a.masked_fill(empty_a, -math.inf),
        out_b.masked_fill(empty_b.unsqueeze(-1), 0.0),
        lse_b.masked_fill(empty_b, -math.inf),
    )


def draw_far_pair(draw: Draw) -> tuple[Tensor, ...]:
    """lse near +1000 in a row, near −1000 in the next, and on either side of 0; in most rows a and b are close."""
    out_a, lse_a, out_b, lse_b = draw_pair(draw, 4, d_v=3)
    far_a = torch.tensor([1000.0, -1000.0, -1000.0, 0.0], dtype=draw.dtype)
    far_b = torch.tensor([1000.0, -1000.0, 0.0, 0.0], dtype=draw.dtype)
    return out_a, lse_a + far_a, out_b, lse_b + far_b


def merge_with(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor, *, slip: str) -> tuple[Tensor, Tensor]:
    """Merging with a slip."""
    lse = torch.logaddexp(lse_a, lse_b)
    total = lse if slip == "nan_when_both_empty" else lse.masked_fill(lse.isneginf(), 0.0)
    a, b = torch.exp(lse_a - total), torch.exp(lse_b - total)
    if slip == "plain_average":
        a, b = torch.full_like(lse, 0.5), torch.full_like(lse, 0.5)
    elif slip == "outputs_summed":
        a, b = torch.ones_like(lse), torch.ones_like(lse)
    elif slip == "weights_by_lse":
        a, b = lse_a / (lse_a + lse_b), lse_b / (lse_a + lse_b)
    elif slip == "heavier_wins":
        a, b = (lse_a >= lse_b).to(lse.dtype), (lse_a < lse_b).to(lse.dtype)
    elif slip == "shares_swapped":
        a, b = b, a
    elif slip == "lse_added_throughout":
        a, b, lse = torch.exp(-lse_b), torch.exp(-lse_a), lse_a + lse_b
    elif slip == "lse_is_max_throughout":
        lse = torch.maximum(lse_a, lse_b)
        a, b = (torch.exp(x - lse.masked_fill(lse.isneginf(), 0.0)) for x in (lse_a, lse_b))
    elif slip in ("exp_overflow", "one_maximum_for_all"):
        top = torch.maximum(lse_a, lse_b).max() if slip == "one_maximum_for_all" else torch.zeros(())
        e_a, e_b = torch.exp(lse_a - top), torch.exp(lse_b - top)
        together = e_a + e_b
        below = together.masked_fill(together == 0, 1.0)
        a, b, lse = e_a / below, e_b / below, top + torch.log(together)
    out = a.unsqueeze(-1) * out_a + b.unsqueeze(-1) * out_b
    if slip == "lse_is_max":
        lse = torch.maximum(lse_a, lse_b)
    if slip == "lse_added":
        lse = lse_a + lse_b
    return out, lse


merge_mistake = slips(merge_with)


exercise(
    name="merge_blocks",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=merge_blocks,
    results=("out", "lse"),
    forbidden=TRANSFORMERS,
    cases=[
        Case("rows", both("four queries", "四個查詢"), lambda d: draw_pair(d, 4, d_v=3), 2),
        Case("heads", both("a batch with heads", "有批次與多頭"), lambda d: draw_pair(d, 2, 3, 5, d_v=2), 2),
        Case(
            "uneven",
            both("b holds most of the weight", "權重大多在 b"),
            lambda d: draw_pair(d, 3, 4, d_v=5, lead=2.5),
            1.5,
        ),
        Case("one_query", both("one query", "只有一個查詢"), lambda d: draw_pair(d, 1, d_v=4, lead=-1.5)),
        Case(
            "one_side_empty",
            both("rows where only a or only b has seen a key", "有些列只有 a 或只有 b 看過鍵"),
            lambda d: draw_with_empty(d, False),
            1.5,
        ),
        Case(
            "both_empty",
            both("rows where neither has seen a key", "有些列兩邊都沒看過鍵"),
            lambda d: draw_with_empty(d, True),
            1.5,
            trap=True,
        ),
        Case("far", both("lse near ±1000", "lse 約 ±1000"), draw_far_pair, 2, torch.float64, trap=True),
        noncontiguous(lambda d: draw_pair(d, 3, 4, d_v=2, lead=1.0)),
        float64(lambda d: draw_pair(d, 2, 4, d_v=3, lead=1.0)),
    ],
    mistakes=[
        merge_mistake(
            "plain_average",
            "You averaged the two outputs evenly. The part whose exponentials sum to more has more say.",
            "你把兩個輸出平均了。指數總和比較大的那一份，份量也要比較大。",
        ),
        merge_mistake(
            "outputs_summed",
            "You added the outputs. Each is an average already; the shares of the two must sum to 1.",
            "你把兩個輸出相加了。它們各自已經是平均；兩份的比例加起來要是 1。",
        ),
        merge_mistake(
            "weights_by_lse",
            "Your shares are taken from lse itself. lse is a logarithm: the sum that it stands for is what counts.",
            "你直接拿 lse 當比例。lse 是對數：該比的是它所代表的那個總和。",
        ),
        merge_mistake(
            "heavier_wins",
            "You take the output of the heavier part alone. The lighter one keeps a share, however small.",
            "你只取了比較重的那一份。比較輕的仍占一個比例，再小也要算。",
        ),
        merge_mistake(
            "shares_swapped",
            "Each output has the other one's share.",
            "兩個輸出的比例對調了。",
        ),
        merge_mistake(
            "exp_overflow",
            "Right for small numbers. The exponential of an lse of 1000 overflows and that of −1000 is 0: only "
            "differences may go into an exponential.",
            "數字小的時候是對的。lse 是 1000 時指數會溢位，−1000 時是 0：只有差可以拿去取指數。",
        ),
        merge_mistake(
            "one_maximum_for_all",
            "You measure all rows against one maximum. A row that lies 1000 below it underflows to 0: every row needs "
            "its own.",
            "你讓所有的列都跟同一個最大值比。低了 1000 的列會下溢位成 0：每一列要用自己的。",
        ),
        merge_mistake(
            "nan_when_both_empty",
            "Where neither part has seen a key, you subtract −inf from −inf: NaN. The output there is 0 and lse −inf.",
            "兩邊都沒看過鍵的列，你算了 −inf 減 −inf，得到 NaN。那裡的輸出是 0，lse 是 −inf。",
        ),
        merge_mistake(
            "lse_is_max",
            "The output is right; your lse is the larger of the two. It stands for the sum of both sums of exponentials.",
            "輸出對了，但你的 lse 只取了兩者中較大的。它代表的是兩個指數總和加起來。",
        ),
        merge_mistake(
            "lse_added",
            "The output is right; you added the two logarithms, which multiplies the sums that they stand for.",
            "輸出對了，但你把兩個對數相加，等於把它們代表的總和相乘。",
        ),
        merge_mistake(
            "lse_added_throughout",
            "Your lse is the sum of the two logarithms, and the shares are measured against it. Adding logarithms multiplies "
            "the sums that they stand for; it is those sums that have to be added.",
            "你的 lse 是兩個對數相加，份量也照它算。對數相加等於把它們代表的總和相乘；該相加的是那兩個總和。",
        ),
        merge_mistake(
            "lse_is_max_throughout",
            "Your lse is the larger of the two, and the shares are measured against it, so they do not sum to 1. It stands "
            "for the sum of both sums of exponentials.",
            "你的 lse 只取了兩者中較大的，份量也照它算，所以加起來不是 1。lse 代表的是兩個指數總和加起來。",
        ),
    ],
    hints=[
        both(
            "An output is a weighted sum divided by its sum of exponentials, and lse is the logarithm of that sum. Undo "
            "both divisions, add, and divide once.",
            "輸出是加權總和除以指數總和，lse 是那個總和的對數。把兩邊的除法還原、相加，再除一次。",
        ),
        both(
            "The share of a is its sum of exponentials over that of both. Written with logarithms, only the difference "
            "between lse of a and lse of the union enters an exponential.",
            "a 的比例是它的指數總和除以兩邊合起來的總和。用對數來寫，只有 a 的 lse 與聯集的 lse 之差會進入指數。",
        ),
        both(
            "torch has a function that adds numbers given by their logarithms: logaddexp. Take care of rows where the "
            "union's lse is −inf.",
            "torch 有個函式專門相加「以對數表示的數」：logaddexp。聯集的 lse 是 −inf 的列要另外處理。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- flash_forward


def flash_forward(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    Q = q.to(dtype) / math.sqrt(q.shape[-1])
    O = Q.new_zeros(*q.shape[:-1], v.shape[-1])
    s = Q.new_zeros(q.shape[:-1])
    m = s - math.inf
    position = torch.arange(N, device=q.device).unsqueeze(-1) + M - N
    for start in range(0, M, block_size):
        K, V = k[..., start : start + block_size, :].to(dtype), v[..., start : start + block_size, :].to(dtype)
        S = Q @ K.mT
        if is_causal:
            S = S.masked_fill(torch.arange(start, start + K.shape[-2], device=q.device) > position, -math.inf)
        new = torch.maximum(m, S.amax(dim=-1))
        shift = new.masked_fill(new.isneginf(), 0.0)
        P = torch.exp(S - shift.unsqueeze(-1))
        correction = torch.exp(m - shift)
        s = correction * s + P.sum(dim=-1)
        O = correction.unsqueeze(-1) * O + P @ V
        m = new
    return (O / s.masked_fill(s == 0, 1.0).unsqueeze(-1)).to(q.dtype), m + s.log()


def hidden_keys(N: int, M: int, start: int, width: int, shift: int | None = None) -> Tensor:
    """[N, width]: which of the keys start, start + 1, … a causal query may not see; query 0 stands at key `shift`."""
    shift = M - N if shift is None else shift
    return torch.arange(start, start + width) > torch.arange(N).unsqueeze(-1) + shift


def explicit_forward(
    q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Right values by way of the whole matrix."""
    wide = torch.promote_types(q.dtype, torch.float32)
    S = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
    if is_causal:
        S = S.masked_fill(hidden_keys(q.shape[-2], k.shape[-2], 0, k.shape[-2]), -math.inf)
    lse = S.logsumexp(dim=-1)
    P = torch.exp(S - lse.masked_fill(lse.isneginf(), 0.0).unsqueeze(-1))
    return (P @ v.to(wide)).to(q.dtype), lse


def plain_forward(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> tuple[Tensor, Tensor]:
    """The formula in the inputs' own dtype. Its lse is asked for in float32 at least, so that is how it is computed."""
    S = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        S = S.masked_fill(hidden_keys(q.shape[-2], k.shape[-2], 0, k.shape[-2]), -math.inf)
    return torch.softmax(S, dim=-1).nan_to_num(0.0) @ v, explicit_forward(q, k, v, block_size, is_causal)[1]


def draw_qkv(draw: Draw, B: int, h: int, N: int, M: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    return draw.normal(B, h, N, d_k, std=2.0), draw.normal(B, h, M, d_k), draw.normal(B, h, M, d_v)


def draw_levels(
    draw: Draw, N: int, key_levels: list[float], rows: tuple[float, ...] = (1.0,)
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores near the level of their key, times the sign in `rows` that is the query's in turn."""
    M = len(key_levels)
    q, k, v = draw_qkv(draw, 1, 2, N, M, 4, 3)
    q[..., 0] = 20.0 * torch.tensor([rows[i % len(rows)] for i in range(N)], dtype=draw.dtype)
    k[..., 0] = torch.tensor(key_levels, dtype=draw.dtype) * math.sqrt(4) / 20.0
    return q, k, v


def draw_equal_keys(draw: Draw) -> tuple[Any, ...]:
    q, k, v = draw_qkv(draw, 2, 2, 3, 7, 4, 5)
    return q, k[..., :1, :].expand_as(k).contiguous(), v, 3


# A right answer that keeps every tile it makes under a name, copies of q, k, v and the gradients stays below N·M/2.
LONG = ((256, 1280, 64, False), (640, 640, 32, True), (64, 2048, 40, True))
# With vectors of length 1 a right answer stays below N·M/3 here; tiles of M/4 = 64 keys and more do not stay below N·M/2.
SMALL_BLOCKS = (32, 256, 4, False)
# So few queries that one after the other, each over all keys, stands out. N·M/2 is one and a half such rows forward: two
# are needed (scores and weights), one copy of the keys is not too much. Backward it is five and a half: the gradients of
# keys and values take two, four with the pieces that they are put together from, and a row over all keys four besides.
FEW_ROWS_FORWARD, FEW_ROWS_BACKWARD = (3, 4096, 64, False), (11, 4096, 64, False)


def long_cases(
    draw: Callable[[Draw, int, int, int, int, bool], tuple[Any, ...]], few_rows: tuple[int, int, int, bool]
) -> list[Case]:
    """Cases under the meter. The third has so few queries that blocks of queries alone do not help; the fourth has blocks so
    small that it shows whether block_size is kept, the last so few queries that not even one of them may meet all keys."""

    def case(name: str, N: int, M: int, b: int, causal: bool, d: int = 4, weight: float = 1.5) -> Case:
        label = both(
            f"memory: N = {N}, M = {M}, blocks of {b}{', causal' if causal else ''}",
            f"記憶體：N = {N}、M = {M}，每個區塊 {b}{'，因果' if causal else ''}",
        )
        return Case(name, label, lambda source: draw(source, N, M, d, b, causal), weight, meter=N * M // 2)

    long = [case(name, *sizes) for name, sizes in zip(("many_keys", "long_causal", "few_queries"), LONG)]
    return [
        *long,
        case("small_blocks", *SMALL_BLOCKS, d=1, weight=1.0),
        case("few_rows", *few_rows, d=1, weight=1.0),
    ]


LOW = [-800.0] * 7


def forward_with(
    q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False, *, slip: str
) -> tuple[Tensor, Tensor]:
    """The tiled forward pass with a slip."""
    wide = torch.promote_types(q.dtype, torch.float32)
    N, M, d_k = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = {"scale_missing": 1.0, "scale_by_d_k": d_k, "scale_by_d_v": math.sqrt(v.shape[-1])}.get(
        slip, math.sqrt(d_k)
    )
    Q, K, V = q.to(wide) / scale, k.to(wide), v.to(wide)
    if slip == "block_size_as_count":
        block_size = max(1, M // block_size)
    hidden_score = {"hidden_by_minus_1e9": -1e9, "hidden_by_the_smallest": torch.finfo(wide).min}.get(slip, -math.inf)
    if slip == "zero_padded_keys":
        K, V = (F.pad(x, (0, 0, 0, -M % block_size)) for x in (K, V))
    stop = M - M % block_size if slip == "last_block_dropped" else K.shape[-2]
    first = {"top_left": 0, "excludes_self": M - N - 1}.get(slip, M - N)
    O, s, n_blocks = Q.new_zeros(*q.shape[:-1], v.shape[-1]), Q.new_zeros(q.shape[:-1]), 0
    m = s - math.inf
    for start in range(0, stop, block_size):
        K_j, V_j = K[..., start : start + block_size, :], V[..., start : start + block_size, :]
        S = Q @ K_j.mT
        if slip == "half_products":
            S = (q @ k[..., start : start + block_size, :].mT).to(wide) / scale
        unmasked_max = S.amax(dim=-1)
        if is_causal and slip != "mask_forgotten":
            hidden = hidden_keys(N, M, 0 if slip == "mask_restarts" else start, S.shape[-1], first)
            S = S.masked_fill(hidden, hidden_score)
        new = torch.maximum(m, unmasked_max if slip == "max_before_mask" else S.amax(dim=-1))
        new = torch.zeros_like(new) if slip == "no_max_subtraction" else new
        new = torch.maximum(m, S.max()) if slip == "one_maximum_for_all" else new
        shift = new if slip == "nan_where_nothing_is_seen" else new.masked_fill(new.isneginf(), 0.0)
        P = torch.exp(S - shift.unsqueeze(-1))
        correction = torch.exp(m - shift)
        if slip == "rescale_inverted":
            correction = torch.exp(shift - m).masked_fill(m.isneginf(), 0.0)
        if slip == "nan_from_the_start":
            correction = torch.exp(new - m)
        s = (s if slip == "sum_not_rescaled" else correction * s) + P.sum(dim=-1)
        if slip in ("normalised_in_every_block", "softmax_of_every_block_added"):
            O = O + torch.softmax(S, dim=-1).nan_to_num(0.0) @ V_j
        elif slip == "divided_in_every_block":
            O = (correction.unsqueeze(-1) * O + P @ V_j) / s.masked_fill(s == 0, 1.0).unsqueeze(-1)
        else:
            O = (O if slip == "output_not_rescaled" else correction.unsqueeze(-1) * O) + P @ V_j
        m, n_blocks = new, n_blocks + 1
    below = s if slip == "nan_where_nothing_is_seen" else s.masked_fill(s == 0, 1.0)
    if slip == "normalised_in_every_block":
        below = torch.full_like(s, n_blocks)
    as_it_is = slip in ("not_normalised", "divided_in_every_block", "softmax_of_every_block_added")
    out = O if as_it_is else O / below.unsqueeze(-1)
    lse = s.log() if slip == "lse_without_max" else m if slip == "lse_is_max" else m + s.log()
    return out.to(q.dtype), lse.to(q.dtype) if slip == "lse_in_half" else lse


forward_mistake = slips(forward_with)


def forward_row_by_row(
    q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Right values, one query after the other, each over all keys."""
    rows = range(q.shape[-2])
    first = k.shape[-2] - q.shape[-2]
    seen = [first + i + 1 if is_causal else k.shape[-2] for i in rows]
    parts = [
        explicit_forward(q[..., i : i + 1, :], k[..., : max(n, 0), :], v[..., : max(n, 0), :], block_size)
        for i, n in zip(rows, seen)
    ]
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


# Said of all right numbers that take too much room, so of tiles that are far too wide as well.
FULL_MATRIX = both(
    "The numbers are right, but too much of the N × M matrix stood in memory at one time: all of it, or tiles far wider than "
    "block_size, or tiles that were kept. Work on one block of keys at a time and keep nothing that is as long as N times M.",
    "數字都對，但同時有太多 N × M 矩陣的內容留在記憶體：整個矩陣、遠比 block_size 寬的區塊，或用過卻沒丟的區塊。"
    "一次只處理一個區塊的鍵，不要留下任何大小和 N 乘 M 一樣的東西。",
)
WIDE_TILES = both(
    "The numbers are right, but with small blocks too much stands in memory: your tiles hold more than block_size keys (it is "
    "the most keys of a block, not the number of blocks), or you keep what is no longer needed.",
    "數字都對，但區塊很小時，記憶體還是用得太多：你的區塊超過 block_size 個鍵（它是一個區塊最多幾個鍵，不是要切成幾個區塊），"
    "或者留著用不到的東西。",
)
ROW_BY_ROW = both(
    "The numbers are right, but with few queries too much stands in memory: a query meets all keys at once, or you made whole "
    "copies of k and v. Tiles are at most block_size keys wide: go through the keys in blocks, and copy no more than a block.",
    "數字都對，但查詢很少時，記憶體用得太多：一個查詢一次就對上所有的鍵，或是你把整個 k 和 v 都複製了一份。"
    "每個區塊最多 block_size 個鍵：請把鍵分塊走過，要複製也只複製一塊。",
)
TOP_LEFT = both(
    "Your causal mask starts at the first key. With N ≠ M the last query belongs to the last key: query i stands at key "
    "i + M − N.",
    "你的因果遮罩從第一個鍵對齊。N ≠ M 時，最後一個查詢要對到最後一個鍵：第 i 個查詢站在第 i + M − N 個鍵的位置。",
)

exercise(
    name="flash_forward",
    lesson=LESSON,
    points=5,
    difficulty=5,
    reference=flash_forward,
    plain=plain_forward,
    results=("output", "lse"),
    forbidden=(*TRANSFORMERS, *WAYS_OUT_OF_TORCH),
    cases=[
        Case("whole_blocks", both("three whole blocks", "剛好三個區塊"), lambda d: (*draw_qkv(d, 2, 3, 5, 6, 4, 3), 2)),
        Case(
            "ragged",
            both("the last block is smaller", "最後一個區塊比較小"),
            lambda d: (*draw_qkv(d, 2, 3, 5, 7, 4, 3), 3),
        ),
        Case("causal", both("causal, N = M", "因果，N = M"), lambda d: (*draw_qkv(d, 2, 2, 6, 6, 3, 5), 4, True)),
        Case(
            "causal_more_keys",
            both("causal, more keys than queries", "因果，鍵比查詢多"),
            lambda d: ((*draw_qkv(d, 1, 3, 4, 9, 5, 2), 2), {"is_causal": True}),
        ),
        Case(
            "largest_last",
            both("the largest scores come last", "最大的分數在最後"),
            lambda d: (*draw_levels(d, 4, [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 8.0]), 2),
        ),
        Case(
            "largest_first",
            both("the largest scores come first", "最大的分數在最前面"),
            lambda d: (*draw_levels(d, 4, [8.0, 7.0, 6.0, 4.0, 3.0, 1.0, 0.0]), 2),
        ),
        Case("equal_keys", both("all keys are equal", "所有的鍵都一樣"), draw_equal_keys, 0.5),
        Case(
            "one_block",
            both("one block, larger than M", "只有一個區塊，比 M 還大"),
            lambda d: (*draw_qkv(d, 1, 2, 5, 3, 4, 6), 8),
            0.5,
        ),
        Case(
            "block_of_one",
            both("one query, blocks of one key", "一個查詢，每個區塊一個鍵"),
            lambda d: (*draw_qkv(d, 2, 2, 1, 5, 3, 4), 1, True),
            0.5,
        ),
        *long_cases(
            lambda source, N, M, d, b, causal: (*draw_qkv(source, 1, 1, N, M, d, d), b, causal), FEW_ROWS_FORWARD
        ),
        Case(
            "sees_nothing",
            both("causal, N > M: the first queries see nothing", "因果，N > M：前面的查詢什麼都看不到"),
            lambda d: (*draw_qkv(d, 1, 2, 7, 4, 3, 5), 2, True),
            trap=True,
        ),
        Case(
            "far",
            both("all scores of a row near −800, or near +800", "整列分數都約 −800，或都約 +800"),
            lambda d: (*draw_levels(d, 4, LOW, (1.0, -1.0)), 3),
            1,
            torch.float64,
            trap=True,
        ),
        Case(
            "hidden_far_above",
            both("hidden scores far above the visible ones", "被遮住的分數遠高於看得到的"),
            lambda d: (*draw_levels(d, 6, [*LOW, 800.0, 800.0]), 4, True),
            1,
            torch.float64,
            trap=True,
        ),
        *half_precision(lambda d: (*draw_qkv(d, 2, 2, 5, 7, 4, 3), 3)),
        noncontiguous(lambda d: (*draw_qkv(d, 2, 2, 5, 7, 4, 3), 3), 0.5),
        float64(lambda d: (*draw_qkv(d, 1, 2, 5, 7, 3, 4), 3), 0.5),  # √4 would be exact in any precision
    ],
    mistakes=[
        forward_mistake(
            "output_not_rescaled",
            "The sum is corrected when the maximum rises, the output is not. Everything that was added up against the "
            "old maximum needs the same factor.",
            "最大值升高時，你修正了總和，卻沒修正輸出。凡是對舊最大值累加的東西，都要乘同一個倍數。",
        ),
        forward_mistake(
            "sum_not_rescaled",
            "The output is corrected when the maximum rises, the sum of exponentials is not. Both were added up against "
            "the old maximum.",
            "最大值升高時，你修正了輸出，卻沒修正指數總和。兩者都是對舊最大值累加的。",
        ),
        forward_mistake(
            "no_max_subtraction",
            "Right for moderate scores. At −800 every exponential is 0 and at +800 it overflows: keep a running maximum.",
            "分數不大時是對的。−800 時每個指數都是 0，+800 時會溢位：要維護一個累積的最大值。",
        ),
        forward_mistake(
            "normalised_in_every_block",
            "You take a whole softmax in every block and average the results. A block with large scores must count for "
            "more: divide once, at the end.",
            "你在每個區塊裡各做一次完整的 softmax 再平均。分數大的那個區塊該占比較多：只在最後除一次。",
        ),
        forward_mistake(
            "softmax_of_every_block_added",
            "You take a whole softmax in every block and add the results up: the weights of a row then sum to the number of "
            "blocks. Keep the sum of exponentials and divide once, at the end.",
            "你在每個區塊裡各做一次完整的 softmax 再相加：一列的權重加起來就成了區塊的個數。要留著指數總和，只在最後除一次。",
        ),
        forward_mistake(
            "divided_in_every_block",
            "You divide the output inside the loop, and what has been divided is corrected and added to in the next round. The "
            "weighted sum stays undivided until the last block is in.",
            "你在迴圈裡就除了輸出，除過的結果下一圈又拿去修正、累加。加權總和要等最後一個區塊算完才除。",
        ),
        forward_mistake(
            "rescale_inverted",
            "What was added up before is corrected in the wrong direction: when the maximum rises, old exponentials must "
            "shrink, not grow.",
            "之前累加的東西，修正的方向反了：最大值升高時，舊的指數要縮小，不是放大。",
        ),
        forward_mistake(
            "nan_from_the_start",
            "Everything is NaN, so it goes wrong in the first block: the maximum starts at −∞, and 0 · ∞ or −∞ − (−∞) comes out "
            "as NaN. Is the factor for what was added before 0 there, or is its exponent the wrong way round?",
            "全部都是 NaN，所以第一個區塊就出了問題：最大值一開始是 −∞，而 0 · ∞ 或 −∞ − (−∞) 會變成 NaN。"
            "之前累加的東西，修正倍數在這裡是 0 嗎？還是指數裡的減法寫反了？",
        ),
        forward_mistake(
            "hidden_by_minus_1e9",
            "Hidden scores are −10⁹ in your answer, not −∞. A row that sees nothing then takes them for scores like any other "
            "and averages values that it may not see.",
            "你把被遮住的分數設成 −10⁹，不是 −∞。什麼都看不到的列，就會把它們當成一般的分數，平均了不該看到的值。",
        ),
        forward_mistake(
            "hidden_by_the_smallest",
            "Hidden scores are the smallest finite number in your answer, not −∞. A row that sees nothing then takes them for "
            "scores like any other and averages values that it may not see.",
            "你把被遮住的分數設成最小的有限數，不是 −∞。什麼都看不到的列，就會把它們當成一般的分數，平均了不該看到的值。",
        ),
        forward_mistake(
            "half_products",
            "In half precision your scores come from a product of half-precision tensors, so they are rounded before the "
            "softmax, and lse shows it. Convert queries, keys and values to float32 before the first product.",
            "半精度時，你的分數是半精度張量相乘的結果，進 softmax 之前就已經捨入，lse 看得出來。第一次相乘之前，就要把查詢、鍵、值轉成 float32。",
        ),
        forward_mistake(
            "not_normalised",
            "Your output is never divided by the sum of exponentials.",
            "你的輸出沒有除以指數總和。",
        ),
        forward_mistake(
            "last_block_dropped",
            "The keys behind the last whole block are missing. The last block may be smaller than the rest.",
            "最後一個完整的區塊之後，剩下的鍵不見了。最後一個區塊可以比較小。",
        ),
        forward_mistake(
            "zero_padded_keys",
            "You filled the last block up with zeros and counted them: a score of 0 weighs 1, not nothing.",
            "你把最後一個區塊補 0，又把它們算了進去：分數 0 的指數是 1，不是沒有份量。",
        ),
        Mistake(
            "top_left",
            partial(forward_with, slip="top_left"),
            TOP_LEFT,
        ),
        forward_mistake(
            "mask_forgotten",
            "The future is not hidden when is_causal is True.",
            "is_causal 是 True 時，你沒有把未來遮住。",
        ),
        forward_mistake(
            "mask_restarts",
            "Your causal mask counts the keys of every block from 0. What counts is a key's place in the whole sequence.",
            "你的因果遮罩在每個區塊都從 0 開始數鍵。要看的是鍵在整個序列裡的位置。",
        ),
        forward_mistake(
            "excludes_self",
            "A causal query sees everything up to its own place, its own key included.",
            "因果的查詢看得到自己位置為止的一切，包括自己那個鍵。",
        ),
        forward_mistake(
            "one_maximum_for_all",
            "You measure all queries against one maximum of the tile. Where a row of scores lies far below it, every "
            "exponential is 0: each query needs its own maximum.",
            "你讓所有的查詢都減同一個最大值（整個區塊的）。某一列的分數若遠低於它，指數就全變成 0：每個查詢要用自己的最大值。",
        ),
        forward_mistake(
            "max_before_mask",
            "You take the maximum before the mask. A hidden score far above the visible ones then turns all their "
            "exponentials into 0.",
            "你在遮罩之前就取了最大值。被遮住的分數若遠高於看得到的，看得到的指數就全變成 0。",
        ),
        forward_mistake(
            "nan_where_nothing_is_seen",
            "A row that sees nothing comes out as NaN: −inf minus −inf, or 0 divided by 0. Its output is 0 and its lse "
            "−inf.",
            "什麼都看不到的列變成 NaN 了：−inf 減 −inf，或 0 除以 0。它的輸出是 0，lse 是 −inf。",
        ),
        forward_mistake(
            "scale_missing",
            "The scores are not divided by the root of d_k.",
            "分數沒有除以 d_k 的平方根。",
        ),
        forward_mistake(
            "scale_by_d_k",
            "You divide by d_k itself. The root belongs there.",
            "你除的是 d_k 本身，應該除以它的平方根。",
        ),
        forward_mistake(
            "scale_by_d_v",
            "You divide by the root of d_v. Scores are inner products of queries and keys, so it is their width that counts.",
            "你除的是 d_v 的平方根。分數是查詢和鍵的內積，要看的是它們的寬度。",
        ),
        forward_mistake(
            "lse_without_max",
            "The output is right; lse lacks the maximum. The sum was taken of exponentials against it, so its logarithm "
            "is short by just that much.",
            "輸出對了，但 lse 少了最大值。總和裡的指數是減過最大值的，取對數之後正好少了它。",
        ),
        forward_mistake(
            "lse_is_max",
            "The output is right; your lse is only the maximum of the scores.",
            "輸出對了，但你的 lse 只是分數的最大值。",
        ),
        forward_mistake(
            "lse_in_half",
            "lse comes back in half precision. The backward pass takes its exponential: keep it in float32.",
            "lse 用半精度回傳了。反向傳播要對它取指數，請保持 float32。",
        ),
        Mistake("full_matrix", explicit_forward, FULL_MATRIX),
        Mistake("block_size_as_count", partial(forward_with, slip="block_size_as_count"), WIDE_TILES),
        Mistake("row_by_row", forward_row_by_row, ROW_BY_ROW),
    ],
    hints=[
        both(
            "Keep three things for each query while you walk over the blocks of keys: the maximum so far, the sum of "
            "exponentials, and the weighted sum of values that is not yet divided.",
            "走過一個個區塊的鍵的時候，每個查詢留三樣東西：目前的最大值、指數總和，以及還沒除的加權總和。",
        ),
        both(
            "Each block does what online_softmax does, and the weighted sum of values gets the same correction as the sum "
            "of exponentials. Divide once, behind the loop.",
            "每個區塊做的事和 online_softmax 一樣，加權總和的修正倍數和指數總和相同。迴圈結束後才除一次。",
        ),
        both(
            "For the causal mask you need the number of a key in the whole sequence: where the block starts plus its "
            "place in the block. Rows with a maximum of −inf subtract 0; rows with a sum of 0 divide by 1.",
            "因果遮罩要用鍵在整個序列裡的編號：這個區塊的起點，加上區塊內的位置。最大值是 −inf 的列改減 0；總和是 0 的列改除以 1。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------- flash_backward


def flash_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    block_size: int,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    Q, dO = q.to(dtype), d_out.to(dtype)
    delta = (dO * out).sum(dim=-1, keepdim=True)
    L = lse.masked_fill(lse.isneginf(), math.inf).unsqueeze(-1)
    position = torch.arange(N, device=q.device).unsqueeze(-1) + M - N
    dq = torch.zeros_like(Q)
    dk, dv = [], []
    for start in range(0, M, block_size):
        K, V = k[..., start : start + block_size, :].to(dtype), v[..., start : start + block_size, :].to(dtype)
        S = Q @ K.mT * scale
        if is_causal:
            S = S.masked_fill(torch.arange(start, start + K.shape[-2], device=q.device) > position, -math.inf)
        P = torch.exp(S - L)
        dS = P * (dO @ V.mT - delta) * scale
        dq = dq + dS @ K
        dk.append(dS.mT @ Q)
        dv.append(P.mT @ dO)
    return dq.to(q.dtype), torch.cat(dk, dim=-2).to(k.dtype), torch.cat(dv, dim=-2).to(v.dtype)


def explicit_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    block_size: int,
    is_causal: bool = False,
) -> tuple[Tensor, ...]:
    """Right values by way of the whole matrix, which is made again without lse."""
    wide = torch.promote_types(q.dtype, torch.float32)
    d_wide, q_wide, k_wide, v_wide, out_wide = (x.to(wide) for x in (d_out, q, k, v, out))
    gradients = plain_backward(d_wide, q_wide, k_wide, v_wide, out_wide, lse, block_size, is_causal)
    return tuple(x.to(q.dtype) for x in gradients)


def plain_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    block_size: int,
    is_causal: bool = False,
) -> tuple[Tensor, ...]:
    """The formula in the inputs' own dtype."""
    S = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        S = S.masked_fill(hidden_keys(q.shape[-2], k.shape[-2], 0, k.shape[-2]), -math.inf)
    P = torch.softmax(S, dim=-1).nan_to_num(0.0)
    dS = P * (d_out @ v.mT - (d_out * out).sum(dim=-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return dS @ k, dS.mT @ q, P.mT @ d_out


def with_forward(draw: Draw, q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Any:
    """The arguments of a backward pass: a gradient of the output that has nothing to do with it, and what the forward
    pass gave, computed in float64 and rounded once."""
    out, lse = explicit_forward(q.double(), k.double(), v.double(), block_size, is_causal)
    d_out = draw.normal(*out.shape)
    lse = lse.to(torch.promote_types(draw.dtype, torch.float32))
    return d_out, q, k, v, out.to(draw.dtype), lse, block_size, is_causal


def backward_with(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    block_size: int,
    is_causal: bool = False,
    *,
    slip: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The tiled backward pass with a slip."""
    wide = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    Q, K, V, O, dO = (x.to(wide) for x in (q, k, v, out, d_out))
    delta = (dO * O).sum(dim=-1, keepdim=True)
    delta = {"no_delta": 0 * delta, "delta_added": -delta, "delta_of_out": (O * O).sum(-1, keepdim=True)}.get(
        slip, delta
    )
    if slip == "block_size_as_count":
        block_size = max(1, M // block_size)
    L = lse if slip == "nan_where_nothing_is_seen" else lse.masked_fill(lse.isneginf(), math.inf)
    first = 0 if slip == "top_left" else M - N
    last_rows = slice((N - 1) // block_size * block_size, N)
    dq, dk, dv = torch.zeros_like(Q), [], []
    for start in range(0, M, block_size):
        K_j, V_j = K[..., start : start + block_size, :], V[..., start : start + block_size, :]
        S = Q @ K_j.mT * (1 if slip == "scores_not_scaled" else scale)
        hidden = hidden_keys(N, M, start, S.shape[-1], first)
        if is_causal and slip not in ("mask_forgotten", "hidden_after_the_exponential"):
            S = S.masked_fill(hidden, -math.inf)
        if slip in ("softmax_per_block", "softmax_per_block_with_nan"):
            P = torch.softmax(S, dim=-1)
            P = P.nan_to_num(0.0) if slip == "softmax_per_block" else P
        else:
            P = torch.exp(S - (0 if slip == "lse_forgotten" else L.unsqueeze(-1)))
        if is_causal and slip == "hidden_after_the_exponential":
            P = P * ~hidden
        dP = dO @ V_j.mT
        if slip == "delta_per_block":
            delta = (P * dP).sum(dim=-1, keepdim=True)
        dS = (1 if slip == "weights_forgotten" else P) * (dP - delta)
        dS = dS if slip == "scale_missing" else dS * scale
        dS = -dS if slip == "score_gradient_negated" else dS
        rows = last_rows if slip == "overwrites" else slice(None)
        dq = dS @ K_j + (0 if slip == "dq_overwritten" else dq)
        dk.append(dS[..., rows, :].mT @ Q[..., rows, :] * (scale if slip == "dk_scaled_twice" else 1))
        dv.append(P[..., rows, :].mT @ dO[..., rows, :])
    dq = dq / scale if slip == "dq_not_scaled" else dq
    return dq.to(q.dtype), torch.cat(dk, dim=-2).to(k.dtype), torch.cat(dv, dim=-2).to(v.dtype)


backward_mistake = slips(backward_with)


def backward_row_by_row(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    block_size: int,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Right values, one query after the other, each over all keys."""
    wide = torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
    first = k.shape[-2] - q.shape[-2]
    for i in range(q.shape[-2]):
        row, keys = slice(i, i + 1), slice(0, max(first + i + 1, 0) if is_causal else None)
        Q, K, V, O, dO = (
            x.to(wide) for x in (q[..., row, :], k[..., keys, :], v[..., keys, :], out[..., row, :], d_out[..., row, :])
        )
        S = Q @ K.mT / math.sqrt(q.shape[-1])
        P = torch.exp(S - lse[..., row].masked_fill(lse[..., row].isneginf(), math.inf).unsqueeze(-1))
        dS = P * (dO @ V.mT - (dO * O).sum(dim=-1, keepdim=True)) / math.sqrt(q.shape[-1])
        dq[..., row, :] = dS @ K
        dk[..., keys, :] += dS.mT @ Q
        dv[..., keys, :] += P.mT @ dO
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def draw_backward_by_name(draw: Draw) -> tuple[Any, ...]:
    *args, _ = with_forward(draw, *draw_qkv(draw, 1, 3, 4, 9, 5, 2), 2, True)
    return tuple(args), {"is_causal": True}


def draw_backward_by_default(draw: Draw) -> tuple[Any, ...]:
    return with_forward(draw, *draw_qkv(draw, 2, 3, 5, 6, 4, 3), 2)[:-1]


exercise(
    name="flash_backward",
    lesson=LESSON,
    points=5,
    difficulty=5,
    reference=flash_backward,
    plain=plain_backward,
    results=("dq", "dk", "dv"),
    forbidden=(*TRANSFORMERS, *WAYS_OUT_OF_TORCH, *DERIVATIVES),
    cases=[
        Case("whole_blocks", both("three whole blocks", "剛好三個區塊"), draw_backward_by_default, 1.5),
        Case(
            "ragged",
            both("the last block is smaller", "最後一個區塊比較小"),
            lambda d: with_forward(d, *draw_qkv(d, 2, 3, 5, 7, 4, 3), 3),
            1.5,
        ),
        Case(
            "causal",
            both("causal, N = M", "因果，N = M"),
            lambda d: with_forward(d, *draw_qkv(d, 2, 2, 6, 6, 3, 5), 4, True),
            1.5,
        ),
        Case(
            "causal_more_keys",
            both("causal, more keys than queries", "因果，鍵比查詢多"),
            draw_backward_by_name,
        ),
        Case(
            "one_block",
            both("one block, larger than N and M", "只有一個區塊，比 N 和 M 都大"),
            lambda d: with_forward(d, *draw_qkv(d, 1, 2, 5, 3, 4, 6), 8),
            0.5,
        ),
        Case(
            "block_of_one",
            both("blocks of one key", "每個區塊一個鍵"),
            lambda d: with_forward(d, *draw_qkv(d, 1, 2, 3, 4, 2, 3), 1, True),
            0.5,
        ),
        *long_cases(
            lambda source, N, M, d, b, causal: with_forward(source, *draw_qkv(source, 1, 1, N, M, d, d), b, causal),
            FEW_ROWS_BACKWARD,
        ),
        Case(
            "sees_nothing",
            both("causal, N > M: the first queries see nothing", "因果，N > M：前面的查詢什麼都看不到"),
            lambda d: with_forward(d, *draw_qkv(d, 1, 2, 7, 4, 3, 5), 2, True),
            1.5,
            trap=True,
        ),
        Case(
            "far",
            both("all scores of a row near −800, or near +800", "整列分數都約 −800，或都約 +800"),
            lambda d: with_forward(d, *draw_levels(d, 4, LOW, (1.0, -1.0)), 3),
            1,
            torch.float64,
            trap=True,
        ),
        Case(
            "hidden_far_above",
            both("hidden scores far above the visible ones", "被遮住的分數遠高於看得到的"),
            lambda d: with_forward(d, *draw_levels(d, 6, [*LOW, 800.0, 800.0]), 4, True),
            1,
            torch.float64,
            trap=True,
        ),
        *half_precision(lambda d: with_forward(d, *draw_qkv(d, 2, 2, 5, 7, 4, 3), 3)),
        noncontiguous(lambda d: with_forward(d, *draw_qkv(d, 2, 2, 5, 7, 4, 3), 3), 0.5),
        float64(lambda d: with_forward(d, *draw_qkv(d, 1, 2, 5, 7, 3, 4), 3, True), 0.5),
    ],
    mistakes=[
        backward_mistake(
            "no_delta",
            "The term delta is missing. Raising one score lowers every other weight of the row; delta is what accounts "
            "for that.",
            "少了 delta 這一項。一個分數升高，同一列其他的權重都會降低，delta 就是在算這件事。",
        ),
        backward_mistake(
            "delta_added",
            "delta has the wrong sign.",
            "delta 的正負號錯了。",
        ),
        backward_mistake(
            "delta_of_out",
            "Your delta multiplies the output with itself. It is the inner product of the output with the gradient that "
            "arrives.",
            "你的 delta 是輸出自己跟自己做內積。它應該是輸出與傳進來的梯度的內積。",
        ),
        backward_mistake(
            "delta_per_block",
            "Your delta is the row sum over this block of keys only. It belongs to the whole row: no block knows it, but "
            "the output does.",
            "你的 delta 只加了這個區塊的鍵。它屬於一整列：單獨一個區塊算不出來，但從輸出可以得到。",
        ),
        backward_mistake(
            "scale_missing",
            "dv is right. The scores were multiplied by a scale on the way forward, and the chain rule brings it out "
            "once more in dq and dk.",
            "dv 是對的。分數在前向時乘過縮放因子，連鎖律會讓它在 dq 和 dk 再出現一次。",
        ),
        backward_mistake(
            "dq_not_scaled",
            "dk and dv are right, dq lacks the scale. With queries that are scaled beforehand dk has it already, dq has "
            "not.",
            "dk 和 dv 對了，dq 少了縮放因子。如果先把查詢乘好縮放，dk 就已經有了，dq 卻沒有。",
        ),
        backward_mistake(
            "dk_scaled_twice",
            "dq and dv are right, dk has the scale twice: once from the scaled queries and once more.",
            "dq 和 dv 對了，dk 卻乘了兩次縮放因子：縮放過的查詢已經帶了一次。",
        ),
        backward_mistake(
            "overwrites",
            "dk and dv hold the share of the last block of queries only. Every query that looked at a key adds to its "
            "gradient.",
            "dk 和 dv 只剩最後一個查詢區塊的份。看過某個鍵的每個查詢，都要加進它的梯度。",
        ),
        backward_mistake(
            "dq_overwritten",
            "dq holds the share of the last block of keys only. Every key that a query looked at adds to its gradient.",
            "dq 只剩最後一個鍵區塊的份。查詢看過的每個鍵，都要加進它的梯度。",
        ),
        backward_mistake(
            "mask_forgotten",
            "The weights are computed again without the causal mask, so hidden keys get a share of the gradient.",
            "重算權重時忘了因果遮罩，被遮住的鍵也分到了梯度。",
        ),
        Mistake(
            "top_left",
            partial(backward_with, slip="top_left"),
            TOP_LEFT,
        ),
        backward_mistake(
            "softmax_per_block",
            "You take a softmax of each block by itself. The weights belong to the whole row; lse knows its sum.",
            "你對每個區塊各做一次 softmax。權重屬於一整列，而整列的總和在 lse 裡。",
        ),
        backward_mistake(
            "softmax_per_block_with_nan",
            "You take a softmax of each block by itself, and a block that a row may not see at all gives NaN. The weights "
            "belong to the whole row; lse knows its sum.",
            "你對每個區塊各做一次 softmax，某一列完全看不到的區塊就變成 NaN。權重屬於一整列，而整列的總和在 lse 裡。",
        ),
        backward_mistake(
            "scores_not_scaled",
            "The scores are computed again without the root of d_k, so the weights are not those of the forward pass.",
            "重算分數時沒有除以 d_k 的平方根，權重就和前向傳播時不一樣了。",
        ),
        backward_mistake(
            "score_gradient_negated",
            "dv is right; dq and dk have the wrong sign. Look at which of the two is subtracted from which in the gradient of "
            "the scores.",
            "dv 是對的；dq 和 dk 的正負號反了。看看分數的梯度裡，是誰減誰。",
        ),
        backward_mistake(
            "lse_forgotten",
            "Your weights are bare exponentials of the scores. What makes a row of them sum to 1 is lse.",
            "你的權重只是分數的指數，沒有除以總和。讓一列加起來是 1 的，是 lse。",
        ),
        backward_mistake(
            "weights_forgotten",
            "dv is right. On the way from the weights to the scores every entry is multiplied by its weight.",
            "dv 是對的。從權重的梯度走到分數的梯度時，每個數都要乘上自己的權重。",
        ),
        backward_mistake(
            "nan_where_nothing_is_seen",
            "A row that sees nothing gives NaN: its lse is −inf, and −inf minus −inf is not 0. Such a row adds nothing "
            "to any gradient.",
            "什麼都看不到的列產生了 NaN：它的 lse 是 −inf，而 −inf 減 −inf 不是 0。這種列對任何梯度都沒有貢獻。",
        ),
        backward_mistake(
            "hidden_after_the_exponential",
            "You hide by multiplying with 0, after the exponential. A hidden score may lie far above lse: its exponential is "
            "infinite, and infinity times 0 is NaN.",
            "你在取指數之後才乘 0 來遮。被遮住的分數可能遠高於 lse，指數就變成無限大，再乘 0 就是 NaN。",
        ),
        Mistake("full_matrix", explicit_backward, FULL_MATRIX),
        Mistake("block_size_as_count", partial(backward_with, slip="block_size_as_count"), WIDE_TILES),
        Mistake("row_by_row", backward_row_by_row, ROW_BY_ROW),
    ],
    hints=[
        both(
            "With lse a tile of weights takes one step: the exponential of scores minus lse. No maximum and no sum are "
            "needed any more.",
            "有了 lse，一個區塊的權重一步就能算出來：分數減 lse 再取指數，不必再找最大值與總和。",
        ),
        both(
            "Four products a tile: two of them give dv and the gradient of the weights, then the softmax's Jacobian turns "
            "that into the gradient of the scores, and two more give dq and dk.",
            "每個區塊四個乘積：兩個得到 dv 與權重的梯度；經過 softmax 的雅可比矩陣變成分數的梯度；再兩個得到 dq 與 dk。",
        ),
        both(
            "delta is one number a query, computed before the loop from the output and its gradient. dq adds up over the "
            "blocks of keys. Rows whose lse is −inf need a value that makes the exponential 0.",
            "delta 是每個查詢一個數，進迴圈之前就由輸出和它的梯度算好。dq 要沿著各區塊的鍵累加。lse 是 −inf 的列，要換成讓指數變成 0 的值。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ hbm_traffic


def hbm_traffic(n_queries: int, n_keys: int, d: int, block_q: int, bytes_per_element: int = 2) -> tuple[int, int]:
    queries, keys, scores = n_queries * d, n_keys * d, n_queries * n_keys
    explicit = 2 * queries + 2 * keys + 4 * scores
    tiled = 2 * queries + 2 * keys * math.ceil(n_queries / block_q)
    return explicit * bytes_per_element, tiled * bytes_per_element


def traffic_with(
    n_queries: int, n_keys: int, d: int, block_q: int, bytes_per_element: int = 2, *, slip: str
) -> tuple[Any, Any]:
    """The count with a slip."""
    queries, keys, scores = n_queries * d, n_keys * d, n_queries * n_keys
    blocks: Any = math.ceil(n_queries / block_q)
    if slip == "blocks_rounded_down":
        blocks = n_queries // block_q
    elif slip == "blocks_not_rounded":
        blocks = n_queries / block_q
    elif slip == "keys_read_once":
        blocks = 1
    elif slip in ("blocks_of_keys", "keys_outside"):
        blocks = math.ceil(n_keys / block_q)
    if slip == "keys_as_long_as_queries":
        keys = queries
    times = {"scores_written_once": 1, "scores_written_but_not_read": 2}.get(slip, 4)
    outputs = 0 if slip == "output_forgotten" else queries
    explicit = (
        queries + outputs + 2 * (queries if slip == "explicit_keys_as_long_as_queries" else keys) + times * scores
    )
    every_block = {"queries_for_every_block": queries, "all_for_every_block": queries, "full_query_blocks": block_q * d}
    read_queries = blocks * every_block[slip] if slip in every_block else queries
    tiled = read_queries + outputs + (1 if slip == "values_forgotten" else 2) * keys * blocks
    if slip == "all_for_every_block":
        tiled += (blocks - 1) * outputs
    elif slip == "keys_outside":
        tiled = 2 * queries * blocks + 2 * keys
    elif slip == "tiled_pays_for_the_matrix":
        tiled += 4 * scores
    size = 1 if slip == "elements" else bytes_per_element
    return (tiled * size, explicit * size) if slip == "parts_swapped" else (explicit * size, tiled * size)


traffic_mistake = slips(traffic_with)


exercise(
    name="hbm_traffic",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=hbm_traffic,
    results=("explicit", "tiled"),
    cases=[
        Case(
            "divides",
            both("the blocks fit", "剛好分完"),
            lambda d: (16 * d.integer(8, 20), d.integer(300, 500), 64, 16),
            2,
        ),
        Case(
            "ragged",
            both("the last block is smaller", "最後一個區塊比較小"),
            lambda d: (16 * d.integer(8, 20) + d.integer(1, 15), d.integer(300, 500), 32, 16),
            2,
        ),
        Case(
            "four_bytes",
            both("four bytes an element, by name", "每個元素 4 個位元組，用名稱給"),
            lambda d: ((d.integer(70, 90), d.integer(300, 500), 48, 24), {"bytes_per_element": 4}),
        ),
        Case(
            "one_block",
            both("one block holds all queries", "一個區塊就裝下所有查詢"),
            lambda d: (d.integer(20, 60), d.integer(300, 500), 16, 64, 8),
            trap=True,
        ),
        Case(
            "one_query",
            both("one query: N = 1", "只有一個查詢：N = 1"),
            lambda d: (1, d.integer(300, 500), 64, 32),
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        traffic_mistake(
            "scores_written_once",
            "You count the big matrix once. It passes through memory four times: scores written and read, weights "
            "written and read.",
            "大矩陣你只算了一次。它進出記憶體四趟：分數寫一次、讀一次，權重寫一次、讀一次。",
        ),
        traffic_mistake(
            "scores_written_but_not_read",
            "You count the big matrix twice. What is written is read again by the next step: scores and weights make "
            "four passes.",
            "大矩陣你算了兩次。寫出去的東西，下一步還要讀回來：分數與權重合起來共四趟。",
        ),
        traffic_mistake(
            "keys_read_once",
            "Tiled: K and V are read once in all. Every block of queries walks over all keys and values anew.",
            "分塊版裡，K 和 V 你只算讀一次。每個區塊的查詢都要把所有的鍵與值重走一遍。",
        ),
        traffic_mistake(
            "values_forgotten",
            "Tiled: each block of queries reads V as well as K.",
            "分塊版裡，每個區塊的查詢除了 K，還要讀 V。",
        ),
        traffic_mistake(
            "blocks_rounded_down",
            "The number of query blocks is rounded down. The queries that are left over make a block too.",
            "查詢的區塊數捨去了零頭。剩下的查詢也要自成一個區塊。",
        ),
        traffic_mistake(
            "blocks_not_rounded",
            "The number of query blocks is a fraction. Blocks come whole: a smaller last one reads all of K and V too, "
            "and bytes are a Python int.",
            "查詢的區塊數出現了小數。區塊數是整數：比較小的最後一個區塊也要讀完整的 K 和 V；位元組數是 Python 的 int。",
        ),
        traffic_mistake(
            "full_query_blocks",
            "The last block of queries is counted as a full one. Only its real rows are read.",
            "最後一個區塊的查詢被當成滿的。實際上只讀真正存在的列。",
        ),
        traffic_mistake(
            "explicit_keys_as_long_as_queries",
            "Explicit: you count four tensors with N rows. K and V have M rows, and M need not equal N.",
            "直接算的部分，你算了四個有 N 列的張量。K 和 V 有 M 列，而 M 不一定等於 N。",
        ),
        traffic_mistake(
            "keys_as_long_as_queries",
            "You count K and V with N rows, like Q. They have M rows, and M need not equal N.",
            "你把 K 和 V 也算成 N 列，和 Q 一樣。它們有 M 列，而 M 不一定等於 N。",
        ),
        traffic_mistake(
            "tiled_pays_for_the_matrix",
            "Tiled: you let the big matrix pass through memory as well. A tile of it is made, used and forgotten on the chip.",
            "分塊版裡，你還是讓大矩陣進出記憶體。它的每個區塊都在晶片裡算出來、用完就丟。",
        ),
        traffic_mistake(
            "blocks_of_keys",
            "Tiled: you count how many blocks the keys make. It is the queries that come in blocks of block_q here.",
            "分塊版裡，你數的是鍵可以切成幾個區塊。這裡每個區塊 block_q 個的是查詢。",
        ),
        traffic_mistake(
            "keys_outside",
            "Tiled: you read K and V once and go through all queries for each block of keys. Here it is the other way round: "
            "each block of queries goes through all keys and values.",
            "分塊版裡，你讓 K 和 V 只讀一次，每個區塊的鍵都把所有查詢走一遍。這裡相反：每個區塊的查詢都要把所有的鍵與值走一遍。",
        ),
        traffic_mistake(
            "queries_for_every_block",
            "Tiled: you read all of Q again for every block. A block of queries reads only its own rows of Q.",
            "分塊版裡，你讓每個區塊都重讀整個 Q。一個區塊的查詢只讀 Q 裡自己的那幾列。",
        ),
        traffic_mistake(
            "all_for_every_block",
            "Tiled: you read all of Q and write all of the output again for every block. A block of queries reads and writes "
            "only its own rows.",
            "分塊版裡，你讓每個區塊都重讀整個 Q、重寫整個輸出。一個區塊的查詢只讀寫自己的那幾列。",
        ),
        traffic_mistake(
            "elements",
            "You counted elements. How many bytes does each take?",
            "你數的是元素個數。一個元素占幾個位元組？",
        ),
        traffic_mistake(
            "output_forgotten",
            "The output has to be written too, in both ways of computing.",
            "輸出也要寫出去，兩種算法都是。",
        ),
        traffic_mistake(
            "parts_swapped",
            "The two results have changed places: first explicit, then tiled.",
            "兩個結果對調了：先直接算的，再分塊的。",
        ),
    ],
    hints=[
        both(
            "Write down the steps as a list of reads and writes, each with its number of elements, and add up.",
            "把每一步的讀與寫列成清單，各寫上元素個數，再加起來。",
        ),
        both(
            "Explicit: Q, K, V and the output once each, the big matrix four times. Tiled: Q and the output once each; "
            "how often K and V?",
            "直接算：Q、K、V 和輸出各一次，大矩陣四次。分塊：Q 和輸出各一次；K 和 V 呢？",
        ),
        both(
            "The number of query blocks is rounded up. Multiply by the bytes of an element last.",
            "查詢的區塊數要無條件進位。最後才乘上每個元素的位元組數。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------------ 09_q1

question(
    name="09_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "saves_arithmetic",
            "a",
            both(
                "Every query still meets every key, and the backward pass computes the weights a second time: a little "
                "more arithmetic, not less. What is saved is traffic and room.",
                "每個查詢還是要跟每個鍵相遇，反向傳播還要把權重再算一次：運算稍微變多，不是變少。省下的是搬運與空間。",
            ),
        ),
        Mistake(
            "trades_accuracy",
            "b",
            both(
                "Nothing is left out: rescaling makes the sums of all blocks those of the whole row. In float64 you found "
                "a difference of rounding only.",
                "沒有漏掉任何東西：修正倍數讓各區塊的總和恰好等於整列的總和。你在 float64 量到的只有捨入誤差。",
            ),
        ),
        Mistake(
            "linear_time",
            "c",
            both(
                "Memory grows with N, time does not: the number of tiles still grows with N times M.",
                "跟著 N 成長的是記憶體，不是時間：區塊的數目仍然跟 N 乘 M 成正比。",
            ),
        ),
    ],
    hints=[
        both(
            "Three different things could be saved: arithmetic, room, and trips to the large memory. Which did you count, "
            "and what came out?",
            "有三樣不同的東西可以省：運算、空間、往返大記憶體的次數。你數過哪些？結果如何？",
        ),
    ],
)
