"""Lesson 07, masks and cross-attention: who may see whom, a detector for leaks, and the decoder's layer.

Shapes: N queries, M keys, d_k, d_v; B batch, h heads; `...` stands for leading dimensions, none included. True = may attend.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION, TRANSFORMERS
from autograder.exercises.l04_multi_head import MultiHeadAttention
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous, smallest, transposed_memory
from autograder.functions import SmallDecoder
from autograder.text import Text, both

LESSON = "07_masks_and_cross_attention"

# ------------------------------------------------------------------------------------------------ causal_mask


def causal_mask(n_queries: int, n_keys: int | None = None, device: Any = None) -> Tensor:
    n_keys = n_queries if n_keys is None else n_keys
    position = torch.arange(n_queries, device=device).unsqueeze(-1) + n_keys - n_queries
    return torch.arange(n_keys, device=device) <= position


def key_minus_query(n_queries: int, n_keys: int | None, shift: int | None = None) -> Tensor:
    """How far key j lies after query i. `shift` is where the first query stands: M − N if not given."""
    n_keys = n_queries if n_keys is None else n_keys
    shift = n_keys - n_queries if shift is None else shift
    return torch.arange(n_keys) - torch.arange(n_queries).unsqueeze(-1) - shift


UPSIDE_DOWN = both(
    "Your mask is upside down, like the article's: the first position sees all that follows, the last one sees only "
    "itself. Which of the two is the future of position i, a smaller j or a larger one?",
    "你的遮罩上下顛倒了，和那篇文章一樣：第一個位置看得到後面的一切，最後一個只看得到自己。對位置 i 來說，j 比較小的是未來，還是 j 比較大的？",
)
NEVER_NEGATIVE = both(
    "Right up to as many queries as keys. With more queries than keys the last query must still stand at the last key, so "
    "the first ones stand before all keys and see nothing.",
    "查詢不比鍵多時是對的。查詢比鍵多時，最後一個查詢還是要站在最後一個鍵，所以最前面的查詢排在所有鍵之前，什麼都看不到。",
)
NOT_BOOLEAN = both(
    "Your entries are numbers, ones and zeros. A mask of this course is Boolean: True where a query may attend.",
    "你的遮罩裡是數字 1 和 0。這門課的遮罩是布林張量：可以看的地方是 True。",
)

exercise(
    name="causal_mask",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=causal_mask,
    results=("mask",),
    forbidden=ATTENTION,
    cases=[
        Case("square", both("as many queries as keys", "查詢和鍵一樣多"), lambda d: (d.integer(3, 7),), 3),
        Case(
            "more_keys",
            both("more keys than queries (a cache stands before them)", "鍵比查詢多（前面有快取）"),
            lambda d: (n := d.integer(2, 4), n + d.integer(2, 4)),
            3,
        ),
        Case(
            "one_query",
            both("one query, many keys: it sees all of them", "一個查詢、很多鍵：全部都看得到"),
            lambda d: (1, d.integer(3, 7)),
            2,
        ),
        Case(
            "named",
            both("n_keys and device by name", "用名稱給 n_keys 與 device"),
            lambda d: ((3,), {"n_keys": d.integer(4, 6), "device": "cpu"}),
        ),
        Case(
            "more_queries",
            both("more queries than keys: the first ones see nothing", "查詢比鍵多：最前面的幾個什麼都看不到"),
            lambda d: (m := d.integer(2, 4), m + d.integer(1, 3))[::-1],
            2,
            trap=True,
        ),
        Case("one_by_one", both("one query, one key", "一個查詢、一個鍵"), lambda d: (1,), 0.5, trap=True),
    ],
    mistakes=[
        Mistake(
            "mask_inverted",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys) > 0,
            both(
                "Your mask says True where a key is hidden, as nn.MultiheadAttention wants it. In this course True means: "
                "may attend.",
                "你的遮罩把要遮住的地方設成 True，那是 nn.MultiheadAttention 的規矩。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "upside_down",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys, 0) >= 0,
            UPSIDE_DOWN,
        ),
        Mistake(
            "upside_down_bottom_right",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys) >= 0,
            UPSIDE_DOWN,
        ),
        Mistake(
            "top_left",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys, 0) <= 0,
            both(
                "Right for N = M. With more keys than queries you count the queries from the first key on; they stand at "
                "the end of the keys, so the last query sees them all.",
                "N = M 時是對的。鍵比查詢多時，你讓查詢從第一個鍵算起；其實查詢排在鍵的尾端，最後一個查詢要看得到所有的鍵。",
            ),
        ),
        Mistake(
            "shift_never_negative",
            lambda n_queries, n_keys=None, device=None: (
                key_minus_query(n_queries, n_keys, max(0, (n_keys or n_queries) - n_queries)) <= 0
            ),
            NEVER_NEGATIVE,
        ),
        Mistake(
            "shift_reversed",
            lambda n_queries, n_keys=None, device=None: (
                key_minus_query(n_queries, n_keys, n_queries - (n_keys or n_queries)) <= 0
            ),
            both(
                "Right for N = M. With more keys than queries your triangle moves the wrong way: the last query must see "
                "every key.",
                "N = M 時是對的。鍵比查詢多時，你的三角形往反方向移了：最後一個查詢要看得到所有的鍵。",
            ),
        ),
        Mistake(
            "excludes_self",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys) < 0,
            both(
                "Your queries do not see their own position. The present is not the future: query i sees key i.",
                "你的查詢看不到自己的位置。現在不是未來：第 i 個查詢看得到第 i 個鍵。",
            ),
        ),
        Mistake(
            "one_too_many",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, n_keys) <= 1,
            both(
                "Each of your queries sees one key of the future: one diagonal too many is open.",
                "你的每個查詢都多看了一個未來的鍵：多開了一條對角線。",
            ),
        ),
        Mistake(
            "float_mask",
            lambda n_queries, n_keys=None, device=None: torch.zeros(n_queries, n_keys or n_queries).masked_fill(
                key_minus_query(n_queries, n_keys) > 0, -math.inf
            ),
            both(
                "You return numbers to be added, 0 and −inf. A mask of this course is Boolean: True where a query may "
                "attend.",
                "你回傳的是要加上去的數，0 和 −inf。這門課的遮罩是布林張量：可以看的地方是 True。",
            ),
        ),
        Mistake(
            "ones_and_zeros",
            lambda n_queries, n_keys=None, device=None: (key_minus_query(n_queries, n_keys) <= 0).float(),
            NOT_BOOLEAN,
        ),
        Mistake(
            "whole_numbers",
            lambda n_queries, n_keys=None, device=None: (key_minus_query(n_queries, n_keys) <= 0).long(),
            NOT_BOOLEAN,
        ),
        Mistake(
            "n_keys_ignored",
            lambda n_queries, n_keys=None, device=None: key_minus_query(n_queries, None) <= 0,
            both(
                "Your mask is always square. With n_keys given it has one column for each key.",
                "你的遮罩永遠是方陣。有給 n_keys 時，每個鍵要有一行（column）。",
            ),
        ),
        Mistake(
            "extra_axes",
            lambda n_queries, n_keys=None, device=None: (key_minus_query(n_queries, n_keys) <= 0)[None, None],
            both(
                "Right entries, but with axes for batch and head in front. Asked for is [N, M]; broadcasting adds the "
                "rest by itself.",
                "內容是對的，但前面多了批次與頭的軸。這題要的是 [N, M]，其餘的軸廣播時會自動補上。",
            ),
        ),
    ],
    hints=[
        both(
            "Draw the 4 × 4 case on paper, queries down, keys across, and mark what query 1 may see. Which triangle is it?",
            "在紙上畫 4 × 4 的情況，查詢由上往下、鍵由左往右，標出第 1 個查詢看得到的。那是哪一個三角形？",
        ),
        both(
            "With more keys than queries, first write down at which key position query 0 stands, so that the last query "
            "stands at the last key.",
            "鍵比查詢多時，先寫下第 0 個查詢站在哪個鍵的位置，才能讓最後一個查詢剛好站在最後一個鍵。",
        ),
        both(
            "A column of query positions compared with a row of key positions makes the whole matrix by broadcasting. "
            "torch's function for a lower triangle also does it: it can move its diagonal, and it knows Boolean matrices.",
            "拿一行（column）查詢位置和一列（row）鍵位置比大小，廣播就得到整個矩陣。torch 取下三角的函式也可以：它的對角線可以移動，也認得布林矩陣。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------- padding_mask


def padding_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    return (tokens != pad_id)[:, None, None, :]


def draw_tokens(draw: Draw, B: int, M: int, lengths: list[int], pad_id: int = 0, left: bool = False) -> Tensor:
    """Token ids 0 … 9 without `pad_id`, padded on the right or on the left to M."""
    tokens = draw.integers(1, 9, B, M)
    tokens[tokens == pad_id] = 0 if pad_id else 9
    for row, length in zip(tokens, lengths):
        row[: M - length] = pad_id if left else row[: M - length]
        row[length:] = row[length:] if left else pad_id
    return tokens


def draw_inside_padding(draw: Draw) -> tuple[Tensor]:
    """Padding on the left, in the middle and on the right of one row; the row below has none in front."""
    tokens = draw.integers(1, 9, 2, 7)
    tokens[0, 0], tokens[0, draw.integer(2, 4)], tokens[0, 6] = 0, 0, 0
    tokens[1, draw.integer(2, 5)] = 0
    return (tokens,)


def draw_other_pad(draw: Draw) -> tuple[Tensor, int]:
    """A pad id in the middle of the ids, and a real token 0, a smaller and a larger one in each row."""
    pad_id = draw.integer(3, 6)
    tokens = draw_tokens(draw, 3, 6, [6, 6, 6], pad_id)
    tokens[:, 0], tokens[:, 1], tokens[:, 2], tokens[:, 3] = 0, pad_id, pad_id - 1, pad_id + 1
    return tokens[:, draw.permutation(6)], pad_id


exercise(
    name="padding_mask",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=padding_mask,
    results=("mask",),
    forbidden=ATTENTION,
    cases=[
        Case(
            "right",
            both("padding on the right, pad_id 0", "填補在右邊，pad_id 是 0"),
            lambda d: (draw_tokens(d, 3, 6, [d.integer(1, 2), d.integer(3, 5), 6]),),
            3,
        ),
        Case(
            "left",
            both("padding on the left", "填補在左邊"),
            lambda d: (draw_tokens(d, 2, 5, [d.integer(1, 2), d.integer(3, 4)], left=True),),
            2,
        ),
        Case("inside", both("padding inside too", "中間也有填補"), draw_inside_padding, 2),
        Case("other_pad", both("another pad_id; token 0 is real", "別的 pad_id，詞元 0 是真的"), draw_other_pad, 2),
        Case(
            "named",
            both("pad_id by name", "用名稱給 pad_id"),
            lambda d: ((draw_tokens(d, 2, 5, [2, 4], pad_id=9),), {"pad_id": 9}),
        ),
        Case(
            "all_padding",
            both("a row of nothing but padding, and a row without any", "整列都是填補的一列，和完全沒有填補的一列"),
            lambda d: (draw_tokens(d, 3, 4, [0, 4, 2]),),
            trap=True,
        ),
        smallest(lambda d: (draw_tokens(d, 1, 1, [1]),)),
        Case(
            "noncontiguous_tokens",
            both("tokens whose memory is not contiguous", "記憶體不連續的 tokens"),
            lambda d: (draw_tokens(d, 2, 5, [3, 5]).mT.contiguous().mT,),
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "mask_inverted",
            lambda tokens, pad_id=0: (tokens == pad_id)[:, None, None, :],
            both(
                "Your mask says True at the padding, as key_padding_mask of nn.MultiheadAttention wants it. In this "
                "course True means: may attend.",
                "你的遮罩把填補的地方設成 True，那是 nn.MultiheadAttention 的 key_padding_mask 的規矩。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "missing_axes",
            lambda tokens, pad_id=0: tokens != pad_id,
            both(
                "Right entries, but the axes for heads and queries are missing, so the batch axis would land on the "
                "queries when the mask meets scores [B, h, N, M].",
                "內容是對的，但少了頭與查詢的軸；遮罩碰到 [B, h, N, M] 的分數時，批次的軸就會對到查詢去。",
            ),
        ),
        Mistake(
            "missing_axis",
            lambda tokens, pad_id=0: (tokens != pad_id)[:, None, :],
            both(
                "Right entries, but one axis is missing, so the batch axis would land on the heads when the mask meets "
                "scores [B, h, N, M].",
                "內容是對的，但還少一個軸；遮罩碰到 [B, h, N, M] 的分數時，批次的軸就會對到頭去。",
            ),
        ),
        Mistake(
            "hides_queries",
            lambda tokens, pad_id=0: (tokens != pad_id)[:, None, :, None],
            both(
                "Your mask has shape [B, 1, M, 1]: it hides the padded queries, and every real query still reads the "
                "padding. The keys are the last axis.",
                "你的遮罩形狀是 [B, 1, M, 1]：遮住的是填補位置的查詢，真正的查詢照樣讀得到填補。鍵是最後一個軸。",
            ),
        ),
        Mistake(
            "pad_id_ignored",
            lambda tokens, pad_id=0: (tokens != 0)[:, None, None, :],
            both(
                "Right for pad_id 0. You compare with 0 whatever pad_id is, and where it is another id, token 0 is a word "
                "like any other.",
                "pad_id 是 0 時是對的。不管 pad_id 是多少，你都跟 0 比；pad_id 是別的數時，詞元 0 就只是普通的詞。",
            ),
        ),
        Mistake(
            "larger_than_pad",
            lambda tokens, pad_id=0: (tokens > pad_id)[:, None, None, :],
            both(
                "Right for pad_id 0. Ids below pad_id are real tokens as well.",
                "pad_id 是 0 時是對的。比 pad_id 小的也是真的詞元。",
            ),
        ),
        Mistake(
            "by_length",
            lambda tokens, pad_id=0: (torch.arange(tokens.shape[1]) < (tokens != pad_id).sum(dim=1, keepdim=True))[
                :, None, None, :
            ],
            both(
                "You count the real tokens and take them to stand first. Padding may be on the left or inside as well: "
                "look at each token itself.",
                "你數了真正的詞元有幾個，並假設它們都排在前面。填補也可能在左邊或中間：要看每個詞元自己。",
            ),
        ),
        Mistake(
            "ends_at_first_padding",
            lambda tokens, pad_id=0: (tokens != pad_id).long().cumprod(dim=1).bool()[:, None, None, :],
            both(
                "You hide everything after the first padding. Real tokens may follow it: look at each token itself.",
                "你把第一個填補之後的全部遮住了。後面可能還有真的詞元：要看每個詞元自己。",
            ),
        ),
        Mistake(
            "ones_and_zeros",
            lambda tokens, pad_id=0: (tokens != pad_id).float()[:, None, None, :],
            NOT_BOOLEAN,
        ),
        Mistake(
            "whole_numbers",
            lambda tokens, pad_id=0: (tokens != pad_id).long()[:, None, None, :],
            NOT_BOOLEAN,
        ),
    ],
    hints=[
        both(
            "Which comparison of each token with pad_id is True for a real token?",
            "每個詞元跟 pad_id 做哪一種比較，真的詞元會得到 True？",
        ),
        both(
            "The scores have axes batch, head, query, key. Which two of them does the mask not depend on? They have "
            "size 1, and indexing with None makes them.",
            "分數的軸依序是批次、頭、查詢、鍵。遮罩和其中哪兩個無關？那兩個軸的大小是 1，用 None 當索引就能補上。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------- masked_softmax


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    # In an empty row the softmax is NaN; both fills keep it from getting out, forwards and backwards.
    return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).masked_fill(~mask, 0.0)


def plain_masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Every step rounded to the dtype of the scores: the yardstick for half precision."""
    hidden = scores.masked_fill(~mask, -math.inf).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    e = torch.exp(hidden - hidden.amax(dim=-1, keepdim=True)).masked_fill(~mask, 0.0)
    return e / e.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


def filled_softmax(scores: Tensor, mask: Tensor, value: float, dim: int = -1) -> Tensor:
    """The softmax with a number in place of the hidden scores; an empty row is left to its fate."""
    return torch.softmax(scores.masked_fill(~mask, value), dim=dim)


def cleared_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax of everything, hidden weights taken away afterwards."""
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)


def renormalised(weights: Tensor) -> Tensor:
    """Rows divided by their sums, without care for a sum of 0."""
    return weights / weights.sum(dim=-1, keepdim=True)


def shared_out(e: Tensor, mask: Tensor) -> Tensor:
    """Rows of exponentials divided by their sums; only a row with nothing visible is spared the division by 0."""
    return e / e.sum(dim=-1, keepdim=True).masked_fill(~mask.any(dim=-1, keepdim=True), 1.0)


def under_one_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    """Exponentials against the largest of all visible scores instead of each row's own."""
    hidden = scores.masked_fill(~mask, -math.inf)
    return torch.exp(hidden - hidden.max())


def hidden_exponentials_dropped(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden exponentials are put aside only after they were taken."""
    top = scores.masked_fill(~mask, -math.inf).amax(dim=-1, keepdim=True)
    return shared_out(torch.where(mask, torch.exp(scores - top.masked_fill(top.isinf(), 0.0)), 0.0), mask)


def painted_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """−inf is added, and NaN painted over: right values, NaN on the way back."""
    bias = torch.zeros((), dtype=scores.dtype).expand(scores.shape).masked_fill(~mask, -math.inf)
    return torch.softmax(scores + bias, dim=-1).nan_to_num(0.0)


def draw_scores(
    draw: Draw, *shape: int, mask: tuple[int, ...] | None = None, std: float = 2.0
) -> tuple[Tensor, Tensor]:
    return draw.normal(*shape, std=std), draw.mask(*(mask or shape))


def draw_masked_row(draw: Draw) -> tuple[Tensor, Tensor]:
    scores, mask = draw_scores(draw, 2, 4, 5)
    mask[0, draw.integer(0, 3)], mask[1, draw.integer(0, 3)] = False, False
    return scores, mask


def draw_huge_scores(draw: Draw) -> tuple[Tensor, Tensor]:
    """Rows near ±10⁴ in groups of close rivals, hidden entries above and below the visible ones, and an empty row."""
    levels = torch.tensor([
        [-1e4, -1e4, 1e4, -1e4, 5e3, -1e4],
        [1e4, 1e4, -1e4, 1e4, 1e4, 9e3],
        [-9e3, -9e3, -9e3, -9e3, -9e3, 0.0],
        [1e4, -1e4, 1e4, 0.0, 5e3, -5e3],
    ])  # fmt: skip
    visible = torch.tensor([
        [True, True, False, True, False, False],
        [True, False, True, True, True, True],
        [True, True, True, False, True, False],
        [False] * 6,
    ])  # fmt: skip
    order = draw.permutation(6)
    return (levels.to(draw.dtype) + draw.normal(4, 6))[:, order], visible[:, order]


def draw_hundreds(draw: Draw) -> tuple[Tensor, Tensor]:
    """float32 scores near ±100: exp overflows at 89 and is 0 below −104."""
    scores, mask = draw_scores(draw, 4, 6)
    return scores + torch.tensor([[100.0], [-110.0], [100.0], [-110.0]], dtype=draw.dtype), mask


def draw_equal_scores(draw: Draw) -> tuple[Tensor, Tensor]:
    """A row of equal scores of which all are visible, and one of which two are."""
    scores, mask = draw_scores(draw, 3, 4)
    scores[0], scores[1] = draw.number(1.0, 2.0), draw.number(1.0, 2.0)
    mask[0], mask[1] = True, torch.tensor([True, False, True, False])[draw.permutation(4)]
    return scores, mask


def small_number_added(scores: Tensor, mask: Tensor, small: float) -> Tensor:
    """A softmax among the visible whose sum is kept from 0 by a small number."""
    hidden = scores.masked_fill(~mask, -math.inf)
    top = hidden.amax(dim=-1, keepdim=True).detach()
    e = torch.exp(hidden - top.masked_fill(top.isinf(), 0.0))
    return e / (e.sum(dim=-1, keepdim=True) + small)


def small_floor_under_the_sum(scores: Tensor, mask: Tensor) -> Tensor:
    """A softmax among the visible, in the dtype of the scores; in float16 the floor of 1e-9 is 0."""
    hidden = scores.masked_fill(~mask, -math.inf)
    top = hidden.amax(dim=-1, keepdim=True).detach()
    e = torch.exp(hidden - top.masked_fill(top.isinf(), 0.0))
    return e / e.sum(dim=-1, keepdim=True).clamp(min=1e-9)


SMALL_NUMBERS = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
ZERO_TIMES_INFINITY = both(
    "NaN everywhere: you multiply the mask by −inf, and where nothing is hidden that is 0 times infinity. Put −inf in the "
    "hidden places only.",
    "到處都是 NaN：你用遮罩去乘 −inf，沒遮住的地方就是 0 乘以無限大。−inf 只能放在被遮住的地方。",
)
ONE_MAXIMUM = both(
    "You measure all rows against one maximum. In a row that lies far below it every exponential is 0: each row needs its own.",
    "你讓所有的列都減同一個最大值。離它很遠的列，每個指數都變成 0：每一列要用自己的最大值。",
)
EMPTY_ROW_LABEL = both("a row with nothing visible", "有一列什麼都看不到")
FLOOR_IS_ZERO = both(
    "In float16, and only there, a row with nothing visible gives NaN. You keep its sum from 0 by a number like 1e-9, and "
    "float16 rounds that to 0. In which dtype do you divide?",
    "只有 float16 的時候，什麼都看不到的列會變成 NaN。你用 1e-9 這類很小的數來避免除以 0，可是 float16 會把它捨入成 0。"
    "你是用哪一種 dtype 在除？",
)

exercise(
    name="masked_softmax",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=masked_softmax,
    plain=plain_masked_softmax,
    exact_zeros=True,
    results=("weights",),
    forbidden=ATTENTION,
    cases=[
        Case("matrix", both("a matrix of scores", "一個矩陣的分數"), lambda d: draw_scores(d, 4, 6), 3),
        Case(
            "batch",
            both("scores [B, h, N, M], a padding mask [B, 1, 1, M]", "分數 [B, h, N, M]，填補遮罩 [B, 1, 1, M]"),
            lambda d: draw_scores(d, 2, 3, 4, 5, mask=(2, 1, 1, 5)),
            3,
        ),
        Case(
            "pair_mask",
            both("one mask [N, M] for the whole batch", "整個批次共用的遮罩 [N, M]"),
            lambda d: draw_scores(d, 3, 5, 4, mask=(5, 4)),
            2,
        ),
        Case(
            "all_visible",
            both("nothing is hidden", "什麼都沒遮"),
            lambda d: (d.normal(3, 5), torch.ones(3, 5, dtype=torch.bool)),
        ),
        Case("masked_row", EMPTY_ROW_LABEL, draw_masked_row, 2),
        Case(
            "huge_scores",
            both("scores near ±10⁴, hidden ones too (float64)", "分數約 ±10⁴，被遮住的也是（float64）"),
            draw_huge_scores,
            1.5,
            torch.float64,
            gradients=True,
            trap=True,
        ),
        Case("hundreds", both("scores near ±100", "分數約 ±100"), draw_hundreds, trap=True),
        Case(
            "equal_scores",
            both("visible scores that are all equal", "看得到的分數全部相等"),
            draw_equal_scores,
            trap=True,
        ),
        *half_precision(lambda d: draw_scores(d, 4, 6), 0.75),
        Case(
            "masked_row_float16",
            both("float16: a row with nothing visible", "float16：有一列什麼都看不到"),
            draw_masked_row,
            0.5,
            torch.float16,
            trap=True,
        ),
        smallest(lambda d: draw_scores(d, 1, 1)),
        noncontiguous(lambda d: draw_scores(d, 2, 4, 5, mask=(4, 5))),
        float64(lambda d: draw_scores(d, 3, 6)),
        gradients(lambda d: draw_scores(d, 3, 4, 5, mask=(4, 5))),
        Case(
            "masked_row_gradients",
            both("finite gradients where a row has nothing visible", "有一列什麼都看不到時，梯度也要是有限值"),
            draw_masked_row,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "mask_inverted",
            lambda scores, mask: shared_out(
                torch.exp(scores - scores.masked_fill(mask, -math.inf).amax(-1, keepdim=True).clamp(min=-1e30)) * ~mask,
                ~mask,
            ),
            both(
                "Your mask works the wrong way round: the hidden entries get all the weight. In this course True means: "
                "may attend.",
                "你的遮罩用反了：被遮住的反而拿走全部權重。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "mask_ignored",
            lambda scores, mask: torch.softmax(scores, dim=-1),
            both(
                "Your weights do not depend on the mask. A hidden entry must not get any weight.",
                "你的權重和遮罩無關。被遮住的不能分到權重。",
            ),
        ),
        Mistake(
            "minus_1e9",
            lambda scores, mask: filled_softmax(scores, mask, -1e9),
            both(
                "The hidden scores become a large negative number like −1e9. In a row with nothing visible they are then "
                "all equal and the row averages what it must not see; and float16 ends at 65504, so there it does not "
                "even run.",
                "你把被遮住的分數換成 −1e9 這類很大的負數。整列都看不到時，它們全部相等，這一列就平均了不該看的東西；"
                "而 float16 最大只到 65504，連跑都跑不動。",
            ),
        ),
        Mistake(
            "finite_fill",
            lambda scores, mask: filled_softmax(scores, mask, torch.finfo(scores.dtype).min),
            both(
                "In a row with nothing visible your weights are spread evenly over the hidden entries: all their scores "
                "are the same large negative number. Such a row gets zeros.",
                "整列都看不到時，你的權重平均分給了被遮住的：它們的分數全是同一個很大的負數。這種列要得到 0。",
            ),
        ),
        Mistake(
            "small_fill",
            lambda scores, mask: filled_softmax(scores, mask, -1e4),
            both(
                "The hidden scores become −10⁴. A visible score may be as low as that, or a whole row hidden: a finite "
                "number is never low enough.",
                "你把被遮住的分數換成 −10⁴。看得到的分數可能也這麼低，也可能整列都遮住：有限的數再低都不夠。",
            ),
        ),
        Mistake(
            "minus_1e9_in_half",
            lambda scores, mask: filled_softmax(scores, mask, -1e9).masked_fill(~mask, 0.0),
            both(
                "You hide with a large negative number like −1e9. It does not fit into float16, whose largest number is "
                "65504. Is there a value that every dtype knows?",
                "你用 −1e9 這類很大的負數來遮。它放不進 float16，因為 float16 最大的數是 65504。有沒有一個每種 dtype 都認得的值？",
            ),
        ),
        Mistake(
            "masked_row_nan",
            lambda scores, mask: filled_softmax(scores, mask, -math.inf),
            both(
                "A row with nothing visible gives NaN: no exponential is left in it to divide by. Such a row gets zeros.",
                "整列都看不到時出現 NaN：沒有任何指數可以拿來除。這種列要得到 0。",
            ),
        ),
        Mistake(
            "nan_repaired_afterwards",
            painted_softmax,
            both(
                "The values are right, but the NaN is only painted over: backwards it is still there and spoils the "
                "gradients. Do not let it arise.",
                "數值是對的，但 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "zeroed_scores",
            lambda scores, mask: torch.softmax(scores.masked_fill(~mask, 0.0), dim=-1),
            both(
                "A hidden entry gets the score 0, and the exponential of 0 is 1, not 0: it still takes a share.",
                "被遮住的分數變成 0，但 0 的指數是 1，不是 0：它還是分走了權重。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            cleared_softmax,
            both(
                "The hidden weights are removed after the softmax, so the visible ones no longer sum to 1. Hide before "
                "the weights are shared out.",
                "你在 softmax 之後才把遮住的權重拿掉，剩下的加起來就不是 1 了。要在分配權重之前就遮住。",
            ),
        ),
        Mistake(
            "renormalised_after_softmax",
            lambda scores, mask: renormalised(cleared_softmax(scores, mask)),
            both(
                "Rows of NaN: you hide after the exponentials. By then a huge hidden score has overflowed or has pushed "
                "the visible ones down to 0, and in a row with nothing visible there is nothing to divide by. Hide before.",
                "整列變成 NaN：你在取指數之後才遮。這時很大的遮住分數已經溢位，或是把看得到的壓成 0 了；什麼都看不到的列，"
                "則沒有東西可以除。要先遮再取指數。",
            ),
        ),
        Mistake(
            "maximum_of_the_hidden",
            lambda scores, mask: shared_out(cleared_softmax(scores, mask), mask),
            both(
                "Where a hidden score is the largest of its row by far, your visible exponentials are all 0. The maximum "
                "that you subtract must be that of the visible scores.",
                "被遮住的分數遠大於同列其他分數時，看得到的那些指數全變成 0。要減的最大值，只能從看得到的分數裡找。",
            ),
        ),
        Mistake(
            "maximum_of_the_hidden_with_a_floor",
            lambda scores, mask: (
                cleared_softmax(scores, mask)
                / cleared_softmax(scores, mask).sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
            ),
            both(
                "Where a hidden score is the largest of its row by far, your visible weights are all 0: the hidden one "
                "took part in the maximum or in the softmax before it was taken away.",
                "被遮住的分數遠大於同列其他分數時，看得到的權重全變成 0：它被拿掉之前，已經參與了最大值或 softmax。",
            ),
        ),
        Mistake(
            "one_maximum_for_all",
            lambda scores, mask: shared_out(under_one_maximum(scores, mask), mask),
            ONE_MAXIMUM,
        ),
        Mistake(
            "one_maximum_for_all_with_a_floor",
            lambda scores, mask: (
                under_one_maximum(scores, mask)
                / under_one_maximum(scores, mask).sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
            ),
            ONE_MAXIMUM,
        ),
        Mistake(
            "hidden_exponentials_dropped",
            hidden_exponentials_dropped,
            both(
                "The values are right, but you take the exponentials of hidden scores too and drop them afterwards. Far above "
                "the visible ones such an exponential is infinite, and on the way back 0 times infinity is NaN. Hide before.",
                "數值是對的，但你連被遮住的分數也取了指數，之後才丟掉。這種分數若遠高於看得到的，指數就是無限大，"
                "反向傳播時 0 乘以無限大變成 NaN。要先遮再取指數。",
            ),
        ),
        Mistake("small_floor_under_the_sum", small_floor_under_the_sum, FLOOR_IS_ZERO),
        *(
            Mistake(
                f"small_number_in_the_sum_{small:g}",
                lambda scores, mask, small=small: small_number_added(scores, mask, small),
                both(
                    "You add a small number to the sum of the exponentials, and every weight comes out too small by that "
                    "share; in float64 it shows. Only a row with nothing visible needs help.",
                    "你在指數的和加了一個小數，於是每個權重都小了一點，float64 看得出來。需要幫忙的只有什麼都看不到的列。",
                ),
                same_as=tuple(f"small_number_in_the_sum_{other:g}" for other in SMALL_NUMBERS if other != small),
            )
            for small in SMALL_NUMBERS
        ),
        Mistake(
            "zero_times_infinity",
            lambda scores, mask: torch.softmax(scores + (~mask) * -math.inf, dim=-1),
            ZERO_TIMES_INFINITY,
        ),
        Mistake(
            "softmax_over_queries",
            lambda scores, mask: filled_softmax(scores, mask, -math.inf, dim=-2),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda scores, mask: shared_out(torch.exp(scores).masked_fill(~mask, 0.0), mask),
            both(
                "Right for small scores, but exp overflows above 89 in float32 (709 in float64), and far below 0 every "
                "exponential is 0. Subtracting one number from a whole row changes nothing in its weights: which number "
                "helps?",
                "分數小的時候是對的，但 float32 的 exp 超過 89（float64 超過 709）就溢位，太負則全部變成 0。"
                "整列同減一個數，權重不變：減哪個數最好？",
            ),
        ),
    ],
    hints=[
        both(
            "A hidden entry needs a score whose exponential is exactly 0 in every dtype. Which score is that?",
            "被遮住的分數，要換成在每種 dtype 裡指數都恰好是 0 的值。那是什麼值？",
        ),
        both(
            "Then look at a row in which every score is that value. What does the softmax divide there?",
            "再看看整列都是這個值的情況。softmax 在那裡是什麼除以什麼？",
        ),
        both(
            "Give an empty row harmless scores before the softmax, so that no NaN arises, forwards or backwards, and take "
            "its weights away afterwards. The method any() of a Boolean tensor finds the rows.",
            "在 softmax 之前，先給空的列一些無害的分數，正向反向都不會出現 NaN，之後再拿掉它的權重。布林張量的 any() 可以找出這些列。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- masked_attention


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    if is_causal:
        visible = visible.tril(k.shape[-2] - q.shape[-2])
    if key_mask is not None:
        visible = visible & key_mask[:, None, None, :]
    weights = masked_softmax(scaled_scores(q, k), visible)
    return weights @ v, weights


def plain_masked_attention(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    return mixed(plain_masked_softmax(scaled_scores(q, k), visible_keys(q, k, key_mask, is_causal)), v)


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1])


def mixed(weights: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ v, weights


def visible_keys(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    """[..., N, M] that can be spoiled on its way into a mistake."""
    N, M = q.shape[-2], k.shape[-2]
    causal = key_minus_query(N, M) <= 0 if is_causal else torch.ones(N, M, dtype=torch.bool)
    return causal if key_mask is None else causal & key_mask[:, None, None, :]


Softmax = Callable[[Tensor, Tensor], Tensor]
Visible = Callable[[Tensor, Tensor, Tensor | None, bool], Tensor]
Divisor = Callable[[Tensor, Tensor, Tensor], float]


def attention_with(
    softmax: Softmax = masked_softmax, visible: Visible = visible_keys, divisor: Divisor | None = None
) -> Any:
    """An attention like the reference, with one part exchanged for a wrong one."""

    def answer(
        q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None, is_causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        scores = scaled_scores(q, k) if divisor is None else q @ k.mT / divisor(q, k, v)
        return mixed(softmax(scores, visible(q, k, key_mask, is_causal)), v)

    return answer


def either(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    if key_mask is None or not is_causal:
        return visible_keys(q, k, key_mask, is_causal)
    return visible_keys(q, k, None, True) | key_mask[:, None, None, :]


def queries_hidden(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    causal = visible_keys(q, k, None, is_causal)
    return causal if key_mask is None else causal & key_mask[:, None, :, None]


def queries_hidden_too(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    """As it should be, and the padded queries see nothing either, where there are as many queries as keys."""
    visible = visible_keys(q, k, key_mask, is_causal)
    return visible if key_mask is None or q.shape[-2] != k.shape[-2] else visible & key_mask[:, None, :, None]


def from_top_left(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    if not is_causal:
        return visible_keys(q, k, key_mask, False)
    causal = key_minus_query(q.shape[-2], k.shape[-2], 0) <= 0
    return causal if key_mask is None else causal & key_mask[:, None, None, :]


def never_before_the_first(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    if not is_causal:
        return visible_keys(q, k, key_mask, False)
    causal = key_minus_query(q.shape[-2], k.shape[-2], max(0, k.shape[-2] - q.shape[-2])) <= 0
    return causal if key_mask is None else causal & key_mask[:, None, None, :]


def from_above(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    if not is_causal:
        return visible_keys(q, k, key_mask, False)
    causal = key_minus_query(q.shape[-2], k.shape[-2], 0) >= 0
    return causal if key_mask is None else causal & key_mask[:, None, None, :]


def without_self(q: Tensor, k: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    if not is_causal:
        return visible_keys(q, k, key_mask, False)
    causal = key_minus_query(q.shape[-2], k.shape[-2]) < 0
    return causal if key_mask is None else causal & key_mask[:, None, None, :]


Attention = tuple[Any, ...]


def draw_heads(draw: Draw, N: int, M: int, d_k: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Two sentences, three heads, d_v = 6; scores far enough from 0 for a missing scale to show."""
    return draw.normal(2, 3, N, d_k, std=1.3), draw.normal(2, 3, M, d_k, std=1.3), draw.normal(2, 3, M, 6)


def draw_left_padded(draw: Draw) -> Attention:
    """Causal, padding on the left: the first queries of a sentence see nothing at all."""
    key_mask = torch.tensor([[False, False, True, True, True], [False, True, True, False, True]])
    return *draw_heads(draw, 5, 5), key_mask, True


def draw_all_padding(draw: Draw) -> Attention:
    key_mask = draw.mask(2, 5)
    key_mask[draw.integer(0, 1)] = False
    return *draw_heads(draw, 4, 5), key_mask


def draw_right_padded(draw: Draw, N: int, M: int, d_k: int = 4) -> Attention:
    """One sentence padded on the right, the other inside: something that causality alone does not hide."""
    key_mask = torch.ones(2, M, dtype=torch.bool)
    key_mask[0, M - 2 :] = False
    key_mask[1, draw.integer(1, M - 3)] = False
    return *draw_heads(draw, N, M, d_k), key_mask


exercise(
    name="masked_attention",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=masked_attention,
    plain=plain_masked_attention,
    exact_zeros=True,
    results=("output", "weights"),
    forbidden=ATTENTION,
    cases=[
        Case("no_mask", both("no mask at all", "完全沒有遮罩"), lambda d: draw_heads(d, 3, 5, 7), 2),
        Case("key_mask", both("a key mask, N ≠ M", "有 key_mask，N ≠ M"), lambda d: draw_right_padded(d, 4, 6), 2),
        Case(
            "square_key_mask",
            both(
                "a key mask, N = M: padded queries are computed like others",
                "有 key_mask，N = M：填補位置的查詢照常計算",
            ),
            lambda d: draw_right_padded(d, 5, 5),
            2,
        ),
        Case("causal", both("causal, N = M", "因果，N = M"), lambda d: (draw_heads(d, 5, 5), {"is_causal": True}), 2),
        Case(
            "causal_cache",
            both("causal, more keys than queries", "因果，鍵比查詢多"),
            lambda d: (draw_heads(d, 2, 6), {"is_causal": True}),
            2,
        ),
        Case(
            "both_masks",
            both("causal and a key mask together", "因果與 key_mask 同時"),
            lambda d: (*draw_right_padded(d, 5, 5), True),
            3,
        ),
        Case(
            "both_masks_cache",
            both("both together, N ≠ M, by name", "兩者同時，N ≠ M，用名稱給"),
            lambda d: ((*(x := draw_right_padded(d, 3, 6))[:3],), {"is_causal": True, "key_mask": x[3]}),
        ),
        Case(
            "all_padding",
            both("a sentence of nothing but padding", "整句都是填補"),
            draw_all_padding,
            1.5,
            trap=True,
        ),
        Case(
            "left_padding",
            both("causal with padding on the left: some queries see nothing", "因果加上左邊填補：有些查詢什麼都看不到"),
            draw_left_padded,
            1.5,
            trap=True,
        ),
        Case(
            "more_queries",
            both("causal, more queries than keys: the first see nothing", "因果，查詢比鍵多：最前面的什麼都看不到"),
            lambda d: (draw_heads(d, 6, 4), {"is_causal": True}),
            trap=True,
        ),
        *half_precision(lambda d: (*draw_right_padded(d, 4, 5), True), 0.75),
        Case(
            "left_padding_float16",
            both("float16: some queries see nothing", "float16：有些查詢什麼都看不到"),
            draw_left_padded,
            0.5,
            torch.float16,
            trap=True,
        ),
        smallest(lambda d: (d.normal(1, 1, 1, 1), d.normal(1, 1, 1, 1), d.normal(1, 1, 1, 1))),
        float64(lambda d: draw_right_padded(d, 3, 5, 3), 0.75),  # √4 would be exact in any precision
        noncontiguous(lambda d: (*draw_right_padded(d, 4, 5), True), 0.75),
        gradients(lambda d: (*draw_right_padded(d, 4, 5), True)),
        Case(
            "left_padding_gradients",
            both("finite gradients where queries see nothing", "有查詢什麼都看不到時，梯度也要是有限值"),
            draw_left_padded,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "mask_inverted",
            attention_with(
                visible=lambda q, k, key_mask, is_causal: visible_keys(
                    q, k, None if key_mask is None else ~key_mask, is_causal
                )
            ),
            both(
                "Your key mask works the wrong way round: the padding is read and the real keys are hidden. True means: a "
                "real key.",
                "你的 key_mask 用反了：讀的是填補，遮住的是真的鍵。True 代表真的鍵。",
            ),
        ),
        Mistake(
            "either_mask",
            attention_with(visible=either),
            both(
                "With both masks a key is visible to you if one of them allows it. Each of the two may forbid.",
                "兩種遮罩同時出現時，你只要其中一個允許就讓鍵看得到。其實任何一個都可以禁止。",
            ),
        ),
        Mistake(
            "one_mask_only",
            attention_with(
                visible=lambda q, k, key_mask, is_causal: visible_keys(q, k, key_mask, is_causal and key_mask is None)
            ),
            both(
                "With both given, only the key mask works and the future is open. Can both branches of your code run?",
                "兩者都給時，只有 key_mask 起作用，未來全看得到。你程式裡的兩個分支能同時執行嗎？",
            ),
        ),
        Mistake(
            "key_mask_forgotten_when_causal",
            attention_with(
                visible=lambda q, k, key_mask, is_causal: visible_keys(q, k, None if is_causal else key_mask, is_causal)
            ),
            both(
                "With both given, only causality works and the padding is read. Can both branches of your code run?",
                "兩者都給時，只有因果遮罩起作用，填補照樣被讀。你程式裡的兩個分支能同時執行嗎？",
            ),
        ),
        Mistake(
            "key_mask_ignored",
            attention_with(visible=lambda q, k, key_mask, is_causal: visible_keys(q, k, None, is_causal)),
            both("Your result does not depend on key_mask.", "你的結果和 key_mask 無關。"),
        ),
        Mistake(
            "causal_ignored",
            attention_with(visible=lambda q, k, key_mask, is_causal: visible_keys(q, k, key_mask, False)),
            both("Your result does not depend on is_causal.", "你的結果和 is_causal 無關。"),
        ),
        Mistake(
            "padding_hides_queries",
            attention_with(visible=queries_hidden),
            both(
                "Your key mask lies along the queries, [B, 1, N, 1]: real queries still read the padding. The keys are the "
                "last axis of the scores.",
                "你的 key_mask 放在查詢的軸上了（[B, 1, N, 1]）：真的查詢照樣讀得到填補。鍵是分數的最後一個軸。",
            ),
        ),
        Mistake(
            "padded_queries_emptied",
            attention_with(visible=queries_hidden_too),
            both(
                "The padding is hidden as a key, as it should be, but you also empty the rows of padded queries. They are "
                "computed like any other; nobody reads them later.",
                "填補當作鍵時有遮住，這是對的；但你連填補位置的查詢也清成 0 了。那些列照常計算就好，之後沒有人會讀。",
            ),
        ),
        Mistake(
            "top_left",
            attention_with(visible=from_top_left),
            both(
                "Right for N = M. With more keys than queries your queries count from the first key on; they stand at the "
                "end, so the last query sees all keys.",
                "N = M 時是對的。鍵比查詢多時，你讓查詢從第一個鍵算起；其實查詢排在尾端，最後一個查詢看得到所有的鍵。",
            ),
        ),
        Mistake("shift_never_negative", attention_with(visible=never_before_the_first), NEVER_NEGATIVE),
        Mistake(
            "upside_down",
            attention_with(visible=from_above),
            both(
                "Your causal mask is upside down: the future is visible and the past hidden.",
                "你的因果遮罩上下顛倒了：看得到未來，卻看不到過去。",
            ),
        ),
        Mistake(
            "excludes_self",
            attention_with(visible=without_self),
            both(
                "With is_causal your queries do not see their own position. The present is not the future.",
                "is_causal 時，你的查詢看不到自己的位置。現在不是未來。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            attention_with(softmax=cleared_softmax),
            both(
                "The hidden keys are removed after the softmax, so the visible weights no longer sum to 1. Hide them "
                "before the weights are shared out.",
                "你在 softmax 之後才把遮住的鍵拿掉，剩下的權重加起來就不是 1 了。要在分配權重之前就遮住。",
            ),
        ),
        Mistake(
            "minus_1e9",
            attention_with(softmax=lambda scores, mask: filled_softmax(scores, mask, -1e9)),
            both(
                "The hidden scores become a large negative number like −1e9. A query that sees nothing then averages what "
                "it must not see; and in float16, which ends at 65504, it does not even run.",
                "你把被遮住的分數換成 −1e9 這類很大的負數。什麼都看不到的查詢，就平均了不該看的東西；"
                "而 float16 最大只到 65504，連跑都跑不動。",
            ),
        ),
        Mistake(
            "finite_fill",
            attention_with(softmax=lambda scores, mask: filled_softmax(scores, mask, torch.finfo(scores.dtype).min)),
            both(
                "A query that sees nothing averages the hidden values: all its scores are the same large negative number. "
                "Weights and output of such a query are zeros.",
                "什麼都看不到的查詢，平均了被遮住的值：它的分數全是同一個很大的負數。這種查詢的權重和輸出都要是 0。",
            ),
        ),
        Mistake(
            "masked_row_nan",
            attention_with(softmax=lambda scores, mask: filled_softmax(scores, mask, -math.inf)),
            both(
                "A query that sees nothing gives NaN: no exponential is left to divide by. Its weights and output are "
                "zeros.",
                "什麼都看不到的查詢得到 NaN：沒有任何指數可以拿來除。它的權重和輸出都要是 0。",
            ),
        ),
        Mistake("small_floor_under_the_sum", attention_with(softmax=small_floor_under_the_sum), FLOOR_IS_ZERO),
        Mistake(
            "zero_times_infinity",
            attention_with(softmax=lambda scores, mask: torch.softmax(scores + (~mask) * -math.inf, dim=-1)),
            ZERO_TIMES_INFINITY,
        ),
        Mistake(
            "nan_repaired_afterwards",
            attention_with(softmax=painted_softmax),
            both(
                "The values are right, but the NaN is only painted over: backwards it is still there and spoils the "
                "gradients. Do not let it arise.",
                "數值是對的，但 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            attention_with(softmax=lambda scores, mask: filled_softmax(scores, mask, -math.inf, dim=-2)),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "scale_missing",
            attention_with(divisor=lambda q, k, v: 1.0),
            both("Your scores are not divided by √d_k (lesson 03).", "你的分數沒有除以 √d_k（第 03 課）。"),
        ),
        Mistake(
            "scale_number_of_keys",
            attention_with(divisor=lambda q, k, v: math.sqrt(k.shape[-2])),
            both(
                "You take the number of keys for the scale. What counts is how long one key is, not how many there are.",
                "你拿鍵的個數來縮放。要看的是一個鍵有多長，不是有幾個鍵。",
            ),
        ),
        Mistake(
            "scale_d_v",
            attention_with(divisor=lambda q, k, v: math.sqrt(v.shape[-1])),
            both(
                "You take the length of the values for the scale. Scores are products of queries and keys: theirs counts.",
                "你拿值的長度來縮放。分數是查詢與鍵的內積，要看的是它們的長度。",
            ),
        ),
        Mistake(
            "scale_d_k",
            attention_with(divisor=lambda q, k, v: q.shape[-1]),
            both(
                "You divide by d_k itself, so the weights come out too even (lesson 03).",
                "你除的是 d_k 本身，權重變得太平均（第 03 課）。",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda q, k, v, key_mask=None, is_causal=False: attention_with()(q, k, v, key_mask, is_causal)[::-1],
            both(
                "The two results have changed places: first the output, then the weights.",
                "兩個結果對調了：先輸出，再權重。",
            ),
        ),
        Mistake(
            "output_only",
            lambda q, k, v, key_mask=None, is_causal=False: attention_with()(q, k, v, key_mask, is_causal)[0],
            both(
                "You return the output alone. The weights are asked for as well, as the second part of a tuple.",
                "你只回傳輸出。權重也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "First make one Boolean matrix of what is visible, and only then think of scores.",
            "先做出一個「看得到什麼」的布林矩陣，再去想分數。",
        ),
        both(
            "Start with everything visible. Each of the two masks, if it is there, takes something away. key_mask needs "
            "two more axes before it meets [B, h, N, M].",
            "從全部看得到開始。兩種遮罩只要存在，就各自拿掉一些。key_mask 碰到 [B, h, N, M] 之前，還要多兩個軸。",
        ),
        both(
            "The rest is scaled scores, your masked softmax written out once more (with its empty rows), and a product "
            "with the values. Half precision: compute in float32, turn the results back at the end.",
            "剩下的是縮放過的分數、把你的 masked softmax 再寫一次（別忘了空的列），最後乘上值。半精度：用 float32 計算，最後再轉回去。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- find_the_leak

LEAK = 1e-8
COARSE = (1e-2, 1e-3, 1e-4)  # thresholds that miss faint leaks
Model = Callable[[Tensor], Tensor]


def find_the_leak(model: Model, x: Tensor) -> Tensor:
    jacobian = torch.autograd.functional.jacobian(model, x)
    return (jacobian.abs().amax(dim=(1, 3)) > 1e-8).triu(diagonal=1)


def derivatives(model: Model, x: Tensor) -> Tensor:
    """[N, d_out, N, d]: of every number that comes out with respect to every number that goes in."""
    jacobian: Tensor = torch.autograd.functional.jacobian(model, x, vectorize=True)
    return jacobian


def dependency(model: Model, x: Tensor) -> Tensor:
    return derivatives(model, x).abs().amax(dim=(1, 3)) > LEAK


def by_piled_gradients(model: Model, x: Tensor) -> Tensor:
    """x.grad is never cleared: row i reports whatever rows 0 … i have left there."""
    jacobian = derivatives(model, x)
    piled = jacobian.flatten(0, 1).cumsum(dim=0).view_as(jacobian)
    return (piled.abs().amax(dim=(1, 3)) > LEAK).triu(1)


def draw_model(
    draw: Draw,
    strength: Tensor,
    norm: str = "none",
    d: int = 4,
    d_out: int = 5,
    bypass: Tensor | None = None,
    corner: int = -1,
) -> tuple[SmallDecoder, Tensor]:
    """`strength` says how openly row i sees row j; `bypass` lets one component through, past the attention."""
    N = strength.shape[0]
    L = torch.zeros(N, N, dtype=draw.dtype) if bypass is None else bypass.to(draw.dtype)
    P = torch.zeros(d, d_out, dtype=draw.dtype)
    P[corner, corner] = 1.0
    model = SmallDecoder(draw.normal(d, d, std=0.4), draw.normal(d, d_out), strength.to(draw.dtype), L, P, norm)
    return model, draw.normal(N, d)


def causal_strength(N: int, leak: float = 0.0, where: Tensor | None = None) -> Tensor:
    """1 for the past and the present, `leak` for the future (or for a part of it)."""
    causal = torch.ones(N, N, dtype=torch.float64).tril()
    return causal + leak * (1 - causal) * (1.0 if where is None else where)


def one_entry(draw: Draw, N: int) -> Tensor:
    """A stray entry above the diagonal, at least two places to the right, in any row but the last two."""
    where = torch.zeros(N, N, dtype=torch.float64)
    row = draw.integer(0, N - 4)
    where[row, draw.integer(row + 2, N - 1)] = 1.0
    return where


def diagonal(N: int) -> Tensor:
    return torch.ones(N - 1, dtype=torch.float64).diag(1)


def leaky(label: Text, name: str, draw: Callable[[Draw], Any], weight: float = 1.0, trap: bool = False) -> Case:
    return Case(name, label, draw, weight, torch.float64, trap=trap)


exercise(
    name="find_the_leak",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=find_the_leak,
    results=("leaks",),
    forbidden=ATTENTION,
    cases=[
        leaky(
            both("the right causal mask: no leak", "正確的因果遮罩：沒有洩漏"),
            "right_mask",
            lambda d: draw_model(d, causal_strength(5)),
            2,
        ),
        leaky(
            both("the article's mask, upside down", "文章那個顛倒的遮罩"),
            "upside_down",
            lambda d: draw_model(d, causal_strength(5).mT),
            2,
        ),
        leaky(
            both("one diagonal too many", "多開了一條對角線"),
            "one_diagonal",
            lambda d: draw_model(d, causal_strength(6, 1.0, diagonal(6)), d=3),
            1.5,
        ),
        leaky(
            both("one stray entry", "只有一個位置洩漏"),
            "stray_entry",
            lambda d: draw_model(d, causal_strength(6, 1.0, one_entry(d, 6)), d=5, d_out=3),
            2,
        ),
        leaky(both("no mask", "沒有遮罩"), "no_mask", lambda d: draw_model(d, causal_strength(4, 1.0)), 1.5),
        leaky(
            both("a LayerNorm at the output", "輸出有 LayerNorm"),
            "output_norm",
            lambda d: draw_model(d, causal_strength(5, 1.0, one_entry(d, 5)), "output"),
            1.5,
            trap=True,
        ),
        leaky(
            both("a LayerNorm at the input", "輸入有 LayerNorm"),
            "input_norm",
            lambda d: draw_model(d, causal_strength(5).mT, "input"),
            1.5,
            trap=True,
        ),
        leaky(
            both("a leak ten thousand times fainter, LayerNorm at the output", "弱一萬倍的洩漏，輸出有 LayerNorm"),
            "faint_output_norm",
            lambda d: draw_model(d, causal_strength(6, 1e-4, one_entry(d, 6)), "output"),
            trap=True,
        ),
        leaky(
            both("a leak ten thousand times fainter, LayerNorm at the input", "弱一萬倍的洩漏，輸入有 LayerNorm"),
            "faint_input_norm",
            lambda d: draw_model(d, causal_strength(5, 1e-4), "input", d=3, d_out=4),
            trap=True,
        ),
        leaky(
            both("a leak through one component only", "只從一個分量洩漏"),
            "one_component",
            lambda d: draw_model(d, causal_strength(6), bypass=0.5 * one_entry(d, 6)),
            trap=True,
        ),
        leaky(
            both("a leak with a negative derivative", "導數是負的洩漏"),
            "negative",
            lambda d: draw_model(d, causal_strength(5), bypass=-0.5 * one_entry(d, 5), corner=0),
            0.5,
            trap=True,
        ),
        leaky(
            both("the right mask, but a norm over all positions", "遮罩正確，但對所有位置做正規化"),
            "norm_over_positions",
            lambda d: draw_model(d, causal_strength(5), "positions"),
            trap=True,
        ),
        leaky(
            both("a single position: nothing comes later", "只有一個位置：後面什麼都沒有"),
            "one_position",
            lambda d: draw_model(d, causal_strength(1), d=1, d_out=2),
            0.5,
            trap=True,
        ),
        leaky(
            both("x whose memory is not contiguous", "記憶體不連續的 x"),
            "noncontiguous",
            lambda d: (draw_model(d, causal_strength(6, 1.0, one_entry(d, 6)))[0], transposed_memory(d.normal(6, 4))),
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "whole_dependency",
            dependency,
            both(
                "You report every dependency, the past and the position itself too. A leak is one from the future: j > i.",
                "你把所有的相依關係都回報了，連過去和自己也算進去。洩漏指的是來自未來：j > i。",
            ),
        ),
        Mistake(
            "self_included",
            lambda model, x: dependency(model, x).triu(),
            both(
                "Your diagonal is True: a position that sees itself is no leak. Only j > i counts.",
                "你的對角線是 True：看得到自己不算洩漏。只有 j > i 才算。",
            ),
        ),
        Mistake(
            "transposed",
            lambda model, x: dependency(model, x).triu(1).mT,
            both(
                "Rows and columns have changed places. Row i is the output that must not know, column j the input that it "
                "knows.",
                "列（row）與行（column）對調了。第 i 列是不該知道的輸出，第 j 行是被它知道的輸入。",
            ),
        ),
        Mistake(
            "past_reported",
            lambda model, x: dependency(model, x).tril(-1),
            both(
                "You report the past, which a position may see. The leak is on the other side of the diagonal.",
                "你回報的是過去，那是可以看的。洩漏在對角線的另一邊。",
            ),
        ),
        *(
            Mistake(
                f"threshold_{threshold:g}",
                lambda model, x, threshold=threshold: (derivatives(model, x).abs().amax(dim=(1, 3)) > threshold).triu(
                    1
                ),
                both(
                    "A faint leak is a leak: training will find it. Your threshold is far above the 1e-8 asked for.",
                    "微弱的洩漏也是洩漏，訓練會把它找出來。你的門檻比題目的 1e-8 高太多了。",
                ),
                same_as=tuple(f"threshold_{other:g}" for other in COARSE if other != threshold),
            )
            for threshold in COARSE  # before those that may miss the same faint leaks for other reasons
        ),
        Mistake(
            "sums_the_outputs",
            lambda model, x: (derivatives(model, x).sum(dim=1).abs().amax(dim=-1) > LEAK).triu(1),
            both(
                "You differentiate the sum of output row i. After a LayerNorm that sum never changes, whatever leaks: each "
                "component needs a gradient of its own.",
                "你微分的是第 i 列輸出的總和。經過 LayerNorm 之後，總和永遠不變，洩漏了也看不出來：每個分量要各自求梯度。",
            ),
        ),
        Mistake(
            "whole_row_nudged",
            lambda model, x: (derivatives(model, x).sum(dim=-1).abs().amax(dim=1) > LEAK).triu(1),
            both(
                "You move all components of an input row by the same amount. A LayerNorm at the input takes that away: "
                "move one component at a time.",
                "你把一列輸入的所有分量移動同樣的量。輸入端的 LayerNorm 會把它抵消掉：要一次只動一個分量。",
            ),
        ),
        Mistake(
            "gradients_pile_up",
            by_piled_gradients,
            both(
                "A leak of one row shows up in the rows below it as well: gradients add up in x.grad until someone clears "
                "them.",
                "一列的洩漏，在它下面的列也出現了：梯度會在 x.grad 裡累加，直到有人把它清掉。",
            ),
        ),
        Mistake(
            "next_token_only",
            lambda model, x: dependency(model, x).triu(1).tril(1),
            both(
                "You look at the next position only. A leak may come from any j > i.",
                "你只看下一個位置。洩漏可能來自任何 j > i。",
            ),
        ),
        Mistake(
            "first_component_only",
            lambda model, x: (derivatives(model, x)[:, 0].abs().amax(dim=-1) > LEAK).triu(1),
            both(
                "You look at one component only, of the output row or of the input row. A leak may sit in any of them.",
                "輸出或輸入的那一列，你只看了一個分量。洩漏可能藏在任何一個分量裡。",
            ),
        ),
        Mistake(
            "sign_kept",
            lambda model, x: (derivatives(model, x).amax(dim=(1, 3)) > LEAK).triu(1),
            both(
                "A negative derivative is a dependency too: look at its size, not at its sign.",
                "負的導數也是相依：要看大小，不看正負。",
            ),
        ),
        Mistake(
            "sizes_returned",
            lambda model, x: derivatives(model, x).abs().amax(dim=(1, 3)).triu(1),
            both(
                "You return how large the derivatives are. Asked for is a Boolean matrix: leak or no leak.",
                "你回傳的是導數有多大。題目要的是布林矩陣：有洩漏或沒有。",
            ),
        ),
    ],
    hints=[
        both(
            "“Output i depends on input j” is a statement about a derivative. How many numbers has the derivative of one "
            "row with respect to another?",
            "「輸出 i 和輸入 j 有關」說的是導數。一列對另一列的導數有幾個數？",
        ),
        both(
            "All of them together form a tensor [N, d_out, N, d_model]; a loop over rows and components of the output, "
            "each with one backward pass, fills it. torch's autograd may do it for you.",
            "全部的導數合起來是 [N, d_out, N, d_model] 的張量；對輸出的每一列、每個分量各做一次反向傳播，就能填滿。torch 的 autograd 也能替你做。",
        ),
        both(
            "Take the largest size over the two axes of components, compare it with the threshold, and keep what lies "
            "strictly above the diagonal.",
            "對兩個分量軸取大小的最大值，和門檻比較，最後只留下對角線右上方（不含對角線）的部分。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------- cross_attention


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    scores = (x @ w_q) @ (memory @ w_k).mT / math.sqrt(w_q.shape[-1])
    visible = torch.ones_like(scores, dtype=torch.bool) if key_mask is None else key_mask.unsqueeze(1)
    weights = masked_softmax(scores, visible)
    return weights @ (memory @ w_v), weights


def plain_cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return cross_with(plain_masked_softmax)(x, memory, w_q, w_k, w_v, key_mask)


def as_mask(scores: Tensor, key_mask: Tensor | None) -> Tensor:
    return torch.ones_like(scores, dtype=torch.bool) if key_mask is None else key_mask[:, None, :].expand(scores.shape)


def cross_with(softmax: Softmax = masked_softmax, divisor: Divisor | None = None) -> Any:
    """A cross-attention like the reference, with the softmax or the scale exchanged for a wrong one."""

    def answer(
        x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        scores = (
            (x @ w_q) @ (memory @ w_k).mT / (math.sqrt(w_q.shape[-1]) if divisor is None else divisor(x, memory, w_q))
        )
        return mixed(softmax(scores, as_mask(scores, key_mask)), memory @ w_v)

    return answer


def cross_from(asks: str, offers: str, gives: str) -> Any:
    """Queries, keys and values from x or from memory, by name."""

    def answer(
        x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        side = {"x": x, "memory": memory}
        scores = scaled_scores(side[asks] @ w_q, side[offers] @ w_k)
        return mixed(masked_softmax(scores, as_mask(scores, key_mask)), side[gives] @ w_v)

    return answer


def cross_hiding_queries(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    scores = scaled_scores(x @ w_q, memory @ w_k)
    visible = torch.ones_like(scores, dtype=torch.bool)
    visible = visible if key_mask is None else visible & key_mask[:, :, None]
    return mixed(masked_softmax(scores, visible), memory @ w_v)


def with_residual(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    output, weights = cross_with()(x, memory, w_q, w_k, w_v, key_mask)
    return x + output, weights


def draw_cross(
    draw: Draw, N: int, M: int, d_model: int, d_mem: int, d_k: int, d_v: int, B: int = 2
) -> tuple[Tensor, ...]:
    """Weights of the usual size, 1/√(rows), times 1.3, so that scores are not all near 0."""
    return (
        draw.normal(B, N, d_model),
        draw.normal(B, M, d_mem),
        draw.normal(d_model, d_k, std=1.3 / math.sqrt(d_model)),
        draw.normal(d_mem, d_k, std=1.3 / math.sqrt(d_mem)),
        draw.normal(d_mem, d_v, std=1 / math.sqrt(d_mem)),
    )


def top_left_of(scores: Tensor) -> Tensor:
    N, M = scores.shape[-2:]
    return key_minus_query(N, M, 0) <= 0


CAUSAL_TOO = both(
    "You put a causal mask on the memory. The whole source is known before the first word is written: nothing there is the "
    "future.",
    "你在 memory 上加了因果遮罩。寫第一個字之前，整個來源就已經知道了：那裡沒有未來可言。",
)


def draw_all_padding_memory(draw: Draw) -> tuple[Tensor, ...]:
    key_mask = draw.mask(2, 5)
    key_mask[draw.integer(0, 1)] = False
    return *draw_cross(draw, 3, 5, 6, 4, 5, 3), key_mask


exercise(
    name="cross_attention",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=cross_attention,
    plain=plain_cross_attention,
    exact_zeros=True,
    results=("output", "weights"),
    forbidden=ATTENTION,
    cases=[
        Case(
            "ordinary",
            both("all sizes different, no mask", "所有維度都不同，沒有遮罩"),
            lambda d: draw_cross(d, 4, 6, 5, 7, 3, 2),
            3,
        ),
        Case(
            "masked",
            both("with a key_mask, by name", "有 key_mask，用名稱給"),
            lambda d: (draw_cross(d, 3, 5, 6, 4, 3, 5), {"key_mask": d.mask(2, 5)}),
            2,
        ),
        Case(
            "same_width",
            both("memory as wide as x, N ≠ M", "memory 和 x 一樣寬，N ≠ M"),
            lambda d: draw_cross(d, 3, 5, 4, 4, 6, 3),
            2,
        ),
        Case(
            "square",
            both("N = M, all widths equal, a key_mask", "N = M，維度全都相等，有 key_mask"),
            lambda d: (*draw_cross(d, 5, 5, 4, 4, 4, 4), d.mask(2, 5)),
            2,
        ),
        Case(
            "square_no_mask",
            both("N = M, all widths equal, no mask", "N = M，維度全都相等，沒有遮罩"),
            lambda d: draw_cross(d, 4, 4, 5, 5, 5, 5, B=3),
            2,
        ),
        Case(
            "one_memory",
            both("one memory vector: every query gets the same", "memory 只有一個向量：每個查詢得到的都一樣"),
            lambda d: draw_cross(d, 4, 1, 3, 5, 4, 6),
        ),
        Case(
            "all_padding",
            both("a memory of nothing but padding", "memory 全部是填補"),
            draw_all_padding_memory,
            1.5,
            trap=True,
        ),
        *half_precision(lambda d: (*draw_cross(d, 4, 5, 6, 3, 4, 2), d.mask(2, 5))),
        Case(
            "all_padding_float16",
            both("float16: a memory of nothing but padding", "float16：memory 全部是填補"),
            draw_all_padding_memory,
            0.5,
            torch.float16,
            trap=True,
        ),
        smallest(lambda d: draw_cross(d, 1, 1, 1, 1, 1, 1, B=1)),
        float64(lambda d: draw_cross(d, 3, 4, 5, 6, 2, 3), 0.75),
        noncontiguous(lambda d: draw_cross(d, 4, 3, 5, 2, 6, 3), 0.75),
        gradients(lambda d: (*draw_cross(d, 3, 4, 5, 3, 2, 6), d.mask(2, 4))),
        Case(
            "all_padding_gradients",
            both("finite gradients where the memory is all padding", "memory 全部是填補時，梯度也要是有限值"),
            draw_all_padding_memory,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "self_attention",
            cross_from("x", "x", "x"),
            both(
                "Your result does not depend on memory: x asks itself. Keys and values come from the other side.",
                "你的結果和 memory 無關：x 在問自己。鍵和值要來自另一邊。",
            ),
        ),
        Mistake(
            "roles_swapped",
            cross_from("memory", "x", "x"),
            both(
                "The memory asks and x answers. It is the other way round: one output row for each row of x.",
                "變成 memory 發問、x 回答了。應該反過來：x 的每一列得到一列輸出。",
            ),
        ),
        Mistake(
            "values_from_x",
            cross_from("x", "memory", "x"),
            both(
                "The keys come from memory, but the values come from x: you look at one shelf and take the books from "
                "another.",
                "鍵來自 memory，值卻來自 x：看的是這個書架的書背，拿的是另一個書架的書。",
            ),
        ),
        Mistake(
            "keys_from_x",
            cross_from("x", "x", "memory"),
            both(
                "The values come from memory, but the keys come from x: you look at one shelf and take the books from "
                "another.",
                "值來自 memory，鍵卻來自 x：看的是這個書架的書背，拿的是另一個書架的書。",
            ),
        ),
        Mistake(
            "causal_too",
            cross_with(lambda scores, mask: masked_softmax(scores, mask & causal_mask(*scores.shape[-2:]))),
            CAUSAL_TOO,
        ),
        Mistake(
            "causal_from_top_left",
            cross_with(lambda scores, mask: masked_softmax(scores, mask & top_left_of(scores))),
            CAUSAL_TOO,
        ),
        Mistake(
            "softmax_over_queries",
            cross_with(lambda scores, mask: filled_softmax(scores, mask, -math.inf, dim=-2)),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake("small_floor_under_the_sum", cross_with(small_floor_under_the_sum), FLOOR_IS_ZERO),
        Mistake(
            "mask_inverted",
            lambda x, memory, w_q, w_k, w_v, key_mask=None: cross_with()(
                x, memory, w_q, w_k, w_v, None if key_mask is None else ~key_mask
            ),
            both(
                "Your key_mask works the wrong way round: only the padding of the memory is read. True means: real.",
                "你的 key_mask 用反了：只讀到 memory 的填補。True 代表真的。",
            ),
        ),
        Mistake(
            "key_mask_ignored",
            lambda x, memory, w_q, w_k, w_v, key_mask=None: cross_with()(x, memory, w_q, w_k, w_v),
            both("Your result does not depend on key_mask.", "你的結果和 key_mask 無關。"),
        ),
        Mistake(
            "mask_hides_queries",
            cross_hiding_queries,
            both(
                "Your key_mask lies along the queries. It marks places of the memory, and those are the last axis of the "
                "scores.",
                "你的 key_mask 放在查詢的軸上了。它標的是 memory 的位置，也就是分數的最後一個軸。",
            ),
        ),
        Mistake(
            "masked_row_nan",
            cross_with(lambda scores, mask: filled_softmax(scores, mask, -math.inf)),
            both(
                "A memory of nothing but padding gives NaN: no exponential is left to divide by. Weights and output are "
                "zeros there.",
                "memory 全部是填補時出現 NaN：沒有任何指數可以拿來除。這時權重和輸出都要是 0。",
            ),
        ),
        Mistake(
            "minus_1e9",
            cross_with(lambda scores, mask: filled_softmax(scores, mask, -1e9)),
            both(
                "The hidden scores become a large negative number like −1e9. A memory of nothing but padding is then "
                "averaged; and in float16, which ends at 65504, it does not even run.",
                "你把被遮住的分數換成 −1e9 這類很大的負數。memory 全部是填補時，填補就被平均了；"
                "而 float16 最大只到 65504，連跑都跑不動。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            cross_with(cleared_softmax),
            both(
                "The padding is removed after the softmax, so the remaining weights no longer sum to 1.",
                "你在 softmax 之後才拿掉填補，剩下的權重加起來就不是 1 了。",
            ),
        ),
        Mistake(
            "scale_missing",
            cross_with(divisor=lambda x, memory, w_q: 1.0),
            both("Your scores are not divided by √d_k (lesson 03).", "你的分數沒有除以 √d_k（第 03 課）。"),
        ),
        Mistake(
            "scale_d_model",
            cross_with(divisor=lambda x, memory, w_q: math.sqrt(x.shape[-1])),
            both(
                "You divide by the root of the width of x. The scores are products of projected queries and keys: their "
                "length counts.",
                "你除的是 x 寬度的平方根。分數是投影後的查詢與鍵的內積，要看的是它們的長度。",
            ),
        ),
        Mistake(
            "scale_number_of_keys",
            cross_with(divisor=lambda x, memory, w_q: math.sqrt(memory.shape[1])),
            both(
                "You take the number of places in memory for the scale. What counts is how long one key is, not how many "
                "there are.",
                "你拿 memory 有幾個位置來縮放。要看的是一個鍵有多長，不是有幾個鍵。",
            ),
        ),
        Mistake(
            "scale_d_k",
            cross_with(divisor=lambda x, memory, w_q: w_q.shape[-1]),
            both(
                "You divide by d_k itself, so the weights come out too even (lesson 03).",
                "你除的是 d_k 本身，權重變得太平均（第 03 課）。",
            ),
        ),
        Mistake(
            "zero_times_infinity",
            cross_with(lambda scores, mask: torch.softmax(scores + (~mask) * -math.inf, dim=-1)),
            ZERO_TIMES_INFINITY,
        ),
        Mistake(
            "residual_added",
            with_residual,
            both(
                "You add x to the output. The residual connection belongs to the layer around it; here only what was "
                "read from memory is asked for.",
                "你把 x 加到輸出上了。殘差連結屬於外面那一層；這裡只要從 memory 讀到的東西。",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda x, memory, w_q, w_k, w_v, key_mask=None: cross_with()(x, memory, w_q, w_k, w_v, key_mask)[::-1],
            both(
                "The two results have changed places: first the output, then the weights.",
                "兩個結果對調了：先輸出，再權重。",
            ),
        ),
        Mistake(
            "output_only",
            lambda x, memory, w_q, w_k, w_v, key_mask=None: cross_with()(x, memory, w_q, w_k, w_v, key_mask)[0],
            both(
                "You return the output alone. The weights are asked for as well, as the second part of a tuple.",
                "你只回傳輸出。權重也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "Only one thing differs from self-attention: which of the two, x or memory, each of Q, K and V is made of.",
            "和自注意力只差一件事：Q、K、V 各由 x 還是 memory 做出來。",
        ),
        both(
            "Check the shapes: weights [B, N, M], so rows belong to x and columns to memory. The values must have M rows.",
            "核對形狀：權重是 [B, N, M]，列屬於 x，行屬於 memory。值要有 M 列。",
        ),
        both(
            "key_mask [B, M] needs one more axis, in the middle. A memory of nothing but padding: treat it as in your "
            "masked softmax.",
            "key_mask [B, M] 中間還要多一個軸。memory 全部是填補時，處理方式和你的 masked softmax 一樣。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- decoder_layer


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Tensor, target_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.self_attention(x, x, x, target_mask)[0])
        x = self.norm2(x + self.cross_attention(x, memory, memory, memory_mask)[0])
        result: Tensor = self.norm3(x + self.linear2(torch.relu(self.linear1(x))))
        return result


class Parts(nn.Module):
    """The same parameters, and the three sublayers to build wrong layers of."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = (MultiHeadAttention(d_model, n_heads) for _ in range(2))
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def reads_itself(self, x: Tensor, mask: Tensor | None) -> Tensor:
        output: Tensor = self.self_attention(x, x, x, mask)[0]
        return output

    def reads(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        output: Tensor = self.cross_attention(x, memory, memory, mask)[0]
        return output

    def feeds(self, x: Tensor) -> Tensor:
        output: Tensor = self.linear2(torch.relu(self.linear1(x)))
        return output

    def layer(self, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.reads_itself(x, target_mask))
        x = self.norm2(x + self.reads(x, memory, memory_mask))
        output: Tensor = self.norm3(x + self.feeds(x))
        return output


def layer_with(
    forward: Callable[[Any, Tensor, Tensor, Tensor | None, Tensor | None], Any] = Parts.layer,
    **sublayers: Callable[..., Any],
) -> type[nn.Module]:
    """The layer with its forward pass, or some of its sublayers, done otherwise."""

    def keeping_the_signature(
        self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Any:
        return forward(self, x, memory, target_mask, memory_mask)

    return type("Otherwise", (Parts,), {"forward": keeping_the_signature, **sublayers})


def pre_norm(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
    x = x + self.reads_itself(self.norm1(x), target_mask)
    x = x + self.reads(self.norm2(x), memory, memory_mask)
    return x + self.feeds(self.norm3(x))


def no_residual(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
    x = self.norm1(self.reads_itself(x, target_mask))
    x = self.norm2(self.reads(x, memory, memory_mask))
    return self.norm3(self.feeds(x))


def residual_of_the_input(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    y = self.norm1(x + self.reads_itself(x, target_mask))
    y = self.norm2(x + self.reads(y, memory, memory_mask))
    return self.norm3(x + self.feeds(y))


def norm_before_the_sum(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    x = x + self.norm1(self.reads_itself(x, target_mask))
    x = x + self.norm2(self.reads(x, memory, memory_mask))
    return x + self.norm3(self.feeds(x))


def cross_first(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
    x = self.norm1(x + self.reads(x, memory, memory_mask))
    x = self.norm2(x + self.reads_itself(x, target_mask))
    return self.norm3(x + self.feeds(x))


def one_norm_for_all(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    x = self.norm1(x + self.reads_itself(x, target_mask))
    x = self.norm1(x + self.reads(x, memory, memory_mask))
    return self.norm1(x + self.feeds(x))


def last_norm_missing(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    x = self.norm1(x + self.reads_itself(x, target_mask))
    x = self.norm2(x + self.reads(x, memory, memory_mask))
    return x + self.feeds(x)


def cross_first_with_its_norm(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    x = self.norm2(x + self.reads(x, memory, memory_mask))
    x = self.norm1(x + self.reads_itself(x, target_mask))
    return self.norm3(x + self.feeds(x))


def asks_with_the_input(
    self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None
) -> Any:
    y = self.norm1(x + self.reads_itself(x, target_mask))
    y = self.norm2(y + self.reads(x, memory, memory_mask))
    return self.norm3(y + self.feeds(y))


def without_residual(sublayer: int) -> Callable[..., Any]:
    """The layer with the residual connection of one sublayer left out."""

    def forward(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
        x = self.norm1(self.reads_itself(x, target_mask) + (0 if sublayer == 1 else x))
        x = self.norm2(self.reads(x, memory, memory_mask) + (0 if sublayer == 2 else x))
        return self.norm3(self.feeds(x) + (0 if sublayer == 3 else x))

    return forward


def with_norms(*order: int) -> Callable[..., Any]:
    """The layer with its norms in another order."""

    def forward(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
        first, second, third = (getattr(self, f"norm{i}") for i in order)
        x = first(x + self.reads_itself(x, target_mask))
        x = second(x + self.reads(x, memory, memory_mask))
        return third(x + self.feeds(x))

    return forward


def with_masks_turned(which: str) -> Callable[..., Any]:
    """The layer with one of its masks, or both, the wrong way round."""

    def turned(mask: Tensor | None, name: str) -> Tensor | None:
        return mask if mask is None or name not in which else ~mask

    def forward(self: Any, x: Tensor, memory: Tensor, target_mask: Tensor | None, memory_mask: Tensor | None) -> Any:
        return self.layer(x, memory, turned(target_mask, "target"), turned(memory_mask, "memory"))

    return forward


def painted_over(attention: Any, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
    """−inf is added, and NaN painted over: right values, NaN on the way back."""
    q, k, v = (
        (y @ W).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
        for y, W in ((x, attention.W_Q), (memory, attention.W_K), (memory, attention.W_V))
    )
    visible = torch.ones((), dtype=torch.bool) if mask is None else mask
    heads = painted_softmax(scaled_scores(q, k), visible) @ v
    output: Tensor = heads.transpose(1, 2).flatten(2) @ attention.W_O
    return output


def draw_layer(draw: Draw, h: int, d_head: int, d_ff: int) -> tuple[tuple[int, int, int], dict[str, Tensor]]:
    """Sizes, and weights large enough for every part to show; norms whose scales and shifts differ."""
    d = h * d_head
    state = {
        f"{attention}.{name}": draw.normal(d, d, std=1.5 / math.sqrt(d))
        for attention in ("self_attention", "cross_attention")
        for name in ("W_Q", "W_K", "W_V", "W_O")
    }
    state |= {
        "linear1.weight": draw.normal(d_ff, d, std=1.5 / math.sqrt(d)),
        "linear1.bias": draw.normal(d_ff, std=0.5),
        "linear2.weight": draw.normal(d, d_ff, std=1.5 / math.sqrt(d_ff)),
        "linear2.bias": draw.normal(d, std=0.5),
    }
    for i in (1, 2, 3):
        state |= {f"norm{i}.weight": draw.uniform(0.5, 1.5, d), f"norm{i}.bias": draw.normal(d, std=0.5)}
    return (d, h, d_ff), state


def draw_decoding(
    draw: Draw, N: int, M: int, h: int = 2, d_head: int = 3, d_ff: int = 8, B: int = 2
) -> tuple[Any, ...]:
    d = h * d_head
    return *draw_layer(draw, h, d_head, d_ff), draw.normal(B, N, d), draw.normal(B, M, d)


def draw_after_norm(draw: Draw, i: int, N: int, M: int, same: bool = False) -> tuple[Any, ...]:
    """Norm i has scale 0: what stands before it does not show. With one and the same shift for all columns, the third
    residual connection does not show either: the next norm takes away what all columns share.
    """
    sizes, state, *inputs = draw_decoding(draw, N, M)
    state[f"norm{i}.weight"] = torch.zeros_like(state[f"norm{i}.weight"])
    if same:
        state[f"norm{i}.bias"] = torch.full_like(state[f"norm{i}.bias"], draw.number(0.8, 1.2))
    return sizes, state, *inputs


def causal(N: int) -> Tensor:
    return torch.ones(N, N, dtype=torch.bool).tril()


def draw_memory_of_padding(draw: Draw) -> tuple[Any, ...]:
    """One sentence has no source at all: its cross-attention adds nothing."""
    memory_mask = draw.mask(2, 1, 1, 4)
    memory_mask[draw.integer(0, 1)] = False
    return *draw_decoding(draw, 3, 4), causal(3), memory_mask


exercise(
    name="decoder_layer",
    lesson=LESSON,
    points=4,
    difficulty=3,
    driver="module",
    reference=DecoderLayer,
    results=("output",),
    forbidden=TRANSFORMERS,
    cases=[
        Case("no_mask", both("no masks, N ≠ M", "沒有遮罩，N ≠ M"), lambda d: draw_decoding(d, 3, 5), 3),
        Case(
            "target_mask",
            both("a causal target_mask [N, N]", "因果的 target_mask [N, N]"),
            lambda d: (*draw_decoding(d, 5, 3, 3, 2, 7), causal(5)),
            2,
        ),
        Case(
            "memory_mask",
            both("a memory_mask [B, 1, 1, M] alone, by name", "只用名稱給 memory_mask [B, 1, 1, M]"),
            lambda d: (draw_decoding(d, 4, 6, 2, 4, 5), {"memory_mask": d.mask(2, 1, 1, 6)}),
            2,
        ),
        Case(
            "both_masks",
            both("both masks, N = M", "兩個遮罩都有，N = M"),
            lambda d: (*draw_decoding(d, 5, 5), causal(5), d.mask(2, 1, 1, 5)),
            3,
        ),
        Case(
            "mask_per_head",
            both("masks with an entry for each head", "每個頭各有一份的遮罩"),
            lambda d: (*draw_decoding(d, 3, 4, 3, 2, 9), d.mask(2, 3, 3, 3), d.mask(2, 3, 3, 4)),
        ),
        Case(
            "one_query",
            both("one position of the target, one head", "目標只有一個位置，只有一個頭"),
            lambda d: draw_decoding(d, 1, 4, 1, 5, 6, B=3),
        ),
        Case(
            "after_the_first_norm",
            both(
                "norm1 with scale 0: only the second and the third sublayer show",
                "norm1 的縮放是 0：只看得到第二、第三個子層",
            ),
            lambda d: draw_after_norm(d, 1, 4, 5),
            2,
        ),
        Case(
            "feed_forward_only",
            both(
                "norm2 gives the same number everywhere: only the feed-forward network shows",
                "norm2 處處給同一個數：只看得到前饋網路",
            ),
            lambda d: draw_after_norm(d, 2, 3, 4, same=True),
            2,
        ),
        Case(
            "memory_of_padding",
            both("a sentence whose memory is all padding", "有一句的 memory 全部是填補"),
            draw_memory_of_padding,
            trap=True,
        ),
        Case(
            "one_of_each",
            both(
                "one sentence of one token, one head, one place in the memory",
                "一句、一個詞元、一個頭，memory 只有一個位置",
            ),
            lambda d: draw_decoding(d, 1, 1, 1, 2, 1, B=1),
            0.5,
            trap=True,
        ),
        float64(lambda d: (*draw_decoding(d, 4, 3), causal(4))),
        noncontiguous(lambda d: (*draw_decoding(d, 3, 4), causal(3))),
        gradients(lambda d: (*draw_decoding(d, 4, 4), causal(4), d.mask(2, 1, 1, 4))),
        Case(
            "memory_of_padding_gradients",
            both("finite gradients where the memory is all padding", "memory 全部是填補時，梯度也要是有限值"),
            draw_memory_of_padding,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "pre_norm",
            layer_with(pre_norm),
            both(
                "You normalise before each sublayer. That is what GPT-2 and Llama do; the layer of 2017 normalises the "
                "sum.",
                "你在每個子層之前做正規化。那是 GPT-2 和 Llama 的做法；2017 年的層正規化的是相加之後的結果。",
            ),
        ),
        Mistake(
            "no_residual",
            layer_with(no_residual),
            both(
                "The residual connections are missing: each sublayer only adds something to what was there.",
                "少了殘差連結：每個子層都只是在原來的東西上再加一點。",
            ),
        ),
        Mistake(
            "residual_of_the_input",
            layer_with(residual_of_the_input),
            both(
                "You add the layer's input three times. Each sublayer adds to what the one before it has made.",
                "你三次加的都是整層的輸入。每個子層要加在前一個子層的結果上。",
            ),
        ),
        Mistake(
            "norm_before_the_sum",
            layer_with(norm_before_the_sum),
            both(
                "You normalise what the sublayer returns and add afterwards. The sum is what gets normalised.",
                "你先把子層的結果正規化，再相加。要正規化的是相加之後的和。",
            ),
        ),
        Mistake(
            "last_norm_missing",
            layer_with(last_norm_missing),
            both(
                "Nothing normalises the sum after the feed-forward network.",
                "前饋網路之後的和沒有做正規化。",
            ),
        ),
        Mistake(
            "one_norm_for_all",
            layer_with(one_norm_for_all),
            both(
                "One and the same norm is used three times. Each sublayer has its own, with its own scale and shift.",
                "同一個 norm 用了三次。每個子層都有自己的，縮放和平移也各自不同。",
            ),
        ),
        Mistake(
            "memory_ignored",
            layer_with(reads=lambda self, x, memory, mask: self.cross_attention(x, x, x, mask)[0]),
            both(
                "Your second attention reads x again. Its keys and values come from memory, only the query from x.",
                "你的第二個注意力又讀了 x。它的鍵和值要來自 memory，只有查詢來自 x。",
            ),
        ),
        Mistake(
            "roles_swapped",
            layer_with(reads=lambda self, x, memory, mask: self.cross_attention(memory, x, x, mask)[0]),
            both(
                "In your second attention the memory asks and x answers. The decoder asks.",
                "你的第二個注意力是 memory 發問、x 回答。發問的應該是解碼器。",
            ),
        ),
        Mistake(
            "one_attention_for_both",
            layer_with(reads=lambda self, x, memory, mask: self.self_attention(x, memory, memory, mask)[0]),
            both(
                "Both attentions use the weights of self_attention. The second has weights of its own.",
                "兩個注意力都用了 self_attention 的權重。第二個有自己的權重。",
            ),
        ),
        Mistake(
            "cross_first",
            layer_with(cross_first),
            both(
                "You read the memory first. The layer first lets the target read itself, then the memory.",
                "你先讀了 memory。這一層要先讓目標讀自己，再讀 memory。",
            ),
        ),
        Mistake(
            "cross_first_with_its_norm",
            layer_with(cross_first_with_its_norm),
            both(
                "You read the memory first, and its norm came with it. The layer first lets the target read itself, then "
                "the memory.",
                "你先讀了 memory，norm 也跟著換了順序。這一層要先讓目標讀自己，再讀 memory。",
            ),
        ),
        Mistake(
            "nan_repaired_afterwards",
            layer_with(
                reads_itself=lambda self, x, mask: painted_over(self.self_attention, x, x, mask),
                reads=lambda self, x, memory, mask: painted_over(self.cross_attention, x, memory, mask),
            ),
            both(
                "The values are right, but where the memory is all padding the NaN of your attention is only painted over: "
                "backwards it is still there and spoils the gradients. Do not let it arise.",
                "數值是對的，但 memory 全部是填補時，你的注意力裡的 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "asks_with_the_input",
            layer_with(asks_with_the_input),
            both(
                "Your second attention asks with the input of the layer. What asks is the result of the first sublayer of "
                "the same layer.",
                "你的第二個注意力拿整層的輸入去發問。發問的應該是同一層第一個子層的結果。",
            ),
        ),
        *(
            Mistake(f"residual_{i}_missing", layer_with(without_residual(i)), both(en, zh))
            for i, en, zh in (
                (
                    1,
                    "One residual connection is missing, that around the self-attention.",
                    "少了一個殘差連結：自注意力外面的那一個。",
                ),
                (
                    2,
                    "One residual connection is missing, that around the cross-attention.",
                    "少了一個殘差連結：交叉注意力外面的那一個。",
                ),
                (
                    3,
                    "One residual connection is missing, that around the feed-forward network.",
                    "少了一個殘差連結：前饋網路外面的那一個。",
                ),
            )
        ),
        *(
            Mistake(
                f"norms_{'_'.join(map(str, order))}",
                layer_with(with_norms(*order)),
                both(
                    "Your norms have changed places: norm1 belongs to the self-attention, norm2 to the cross-attention, "
                    "norm3 to the feed-forward network.",
                    "你的 norm 對調了：norm1 屬於自注意力，norm2 屬於交叉注意力，norm3 屬於前饋網路。",
                ),
            )
            for order in ((1, 3, 2), (2, 1, 3), (3, 2, 1))
        ),
        *(
            Mistake(
                name,
                layer_with(with_masks_turned(which)),
                both(
                    f"You turn {which} round. In this course, and in MultiHeadAttention of the set-up cell, True means: may "
                    "attend.",
                    f"你把 {which.replace(' and ', ' 和 ')} 反過來了。在這門課（設定儲存格的 MultiHeadAttention 也是），True 代表可以看。",
                ),
            )
            for name, which in (
                ("masks_turned", "target_mask and memory_mask"),
                ("target_mask_turned", "target_mask"),
                ("memory_mask_turned", "memory_mask"),
            )
        ),
        Mistake(
            "masks_swapped",
            layer_with(
                lambda self, x, memory, target_mask, memory_mask: self.layer(x, memory, memory_mask, target_mask)
            ),
            both(
                "The masks have changed places: target_mask belongs to the self-attention, memory_mask to the "
                "cross-attention.",
                "兩個遮罩對調了：target_mask 屬於自注意力，memory_mask 屬於交叉注意力。",
            ),
        ),
        Mistake(
            "target_mask_forgotten",
            layer_with(lambda self, x, memory, target_mask, memory_mask: self.layer(x, memory, None, memory_mask)),
            both(
                "Your result does not depend on target_mask: the decoder sees the future.",
                "你的結果和 target_mask 無關：解碼器看到未來了。",
            ),
        ),
        Mistake(
            "memory_mask_forgotten",
            layer_with(lambda self, x, memory, target_mask, memory_mask: self.layer(x, memory, target_mask, None)),
            both(
                "Your result does not depend on memory_mask: the decoder reads the padding of the source.",
                "你的結果和 memory_mask 無關：解碼器讀到來源的填補了。",
            ),
        ),
        Mistake(
            "own_causal_mask",
            layer_with(
                lambda self, x, memory, target_mask, memory_mask: self.layer(
                    x,
                    memory,
                    causal(x.shape[1]) if target_mask is None else causal(x.shape[1]) & target_mask,
                    memory_mask,
                )
            ),
            both(
                "Your layer hides the future by itself. It uses the masks it is given and makes none of its own.",
                "你的層自己把未來遮住了。它只用別人給的遮罩，不另外做。",
            ),
        ),
        Mistake(
            "relu_missing",
            layer_with(feeds=lambda self, x: self.linear2(self.linear1(x))),
            both(
                "Two linear maps in a row are one linear map. What stands between them in 2017?",
                "連續兩個線性轉換等於一個線性轉換。2017 年的版本在它們中間放了什麼？",
            ),
        ),
        Mistake(
            "gelu_for_relu",
            layer_with(feeds=lambda self, x: self.linear2(nn.functional.gelu(self.linear1(x)))),
            both(
                "Your feed-forward network uses GELU, as GPT-2 and BERT do. In 2017 it was ReLU.",
                "你的前饋網路用的是 GELU，那是 GPT-2 和 BERT 的做法。2017 年用的是 ReLU。",
            ),
        ),
        Mistake(
            "weights_returned_too",
            layer_with(
                lambda self, x, memory, target_mask, memory_mask: (
                    self.layer(x, memory, target_mask, memory_mask),
                    self.cross_attention(x, memory, memory, memory_mask)[1],
                )
            ),
            both(
                "You return the attention weights as well. A layer returns the new x alone, so that layers can be stacked.",
                "你連注意力權重也回傳了。一層只回傳新的 x，這樣才能一層層疊起來。",
            ),
        ),
    ],
    hints=[
        both(
            "Three sublayers, one line each in forward, and all three lines look alike. What is the pattern?",
            "三個子層，forward 裡各一行，三行長得很像。共同的樣子是什麼？",
        ),
        both(
            "MultiHeadAttention returns two things, the output and the weights; a layer goes on with the first. In the "
            "second attention three arguments are the query, the keys and the values: which of them are memory?",
            "MultiHeadAttention 會回傳兩樣：輸出和權重，這一層只用第一樣。第二個注意力的三個引數是查詢、鍵、值：哪幾個是 memory？",
        ),
        both(
            "If the check complains about parameters, compare the names of your attributes with the list in the docstring: "
            "the names in a state_dict are the names of the attributes, joined by dots.",
            "如果檢查說參數不對，就拿你的屬性名稱對照 docstring 裡的清單：state_dict 裡的名稱，就是用點串起來的屬性名稱。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- questions

question(
    name="07_q1",
    lesson=LESSON,
    right="b",
    wrong=[
        Mistake(
            "masked_one",
            "a",
            both(
                "A mask changes what may be seen, not who asks: in masked self-attention query, key and value still come "
                "from one and the same sequence.",
                "遮罩改變的是能看什麼，不是誰在問：加了遮罩的自注意力，查詢、鍵、值仍然來自同一個序列。",
            ),
        ),
        Mistake(
            "all_of_the_decoder",
            "c",
            both(
                "The decoder's first attention reads what the decoder itself has written so far; only its second reads "
                "the encoder's output.",
                "解碼器的第一個注意力，讀的是解碼器自己寫到目前為止的東西；只有第二個才讀編碼器的輸出。",
            ),
        ),
        Mistake(
            "none",
            "d",
            both(
                "Follow the arrows of the 2017 drawing: one attention of the decoder has an arrow coming in from the "
                "encoder. Whose keys and values are those?",
                "順著 2017 年那張圖的箭頭看：解碼器有一個注意力，箭頭是從編碼器來的。那裡的鍵和值是誰的？",
            ),
        ),
    ],
    hints=[
        both(
            "For each attention ask two questions: where does its query come from, and where do its keys and values?",
            "對每個注意力問兩件事：查詢從哪裡來？鍵和值又從哪裡來？",
        ),
    ],
)

question(
    name="07_q2",
    lesson=LESSON,
    right="c",
    wrong=[
        Mistake(
            "article",
            "a",
            both(
                "That is the article's formula. Put in i = 0: it opens every later word to the first position, and the "
                "last position sees only itself. It contradicts its own sentence.",
                "這是那篇文章的公式。代入 i = 0：第一個位置看得到後面所有的字，最後一個只看得到自己。它和自己寫的文字矛盾。",
            ),
        ),
        Mistake(
            "strict",
            "b",
            both(
                "Then position 0 would see nothing at all. A position may see itself: the target is shifted, so the word "
                "at i is known when the word after it is guessed.",
                "那樣第一個位置就什麼都看不到了。位置可以看自己：目標已經移了一格，猜下一個字時，第 i 個字是已知的。",
            ),
        ),
        Mistake(
            "all",
            "d",
            both(
                "With everything open, the word to be guessed stands among the inputs of the position that guesses it, and "
                "the loss falls to 0 by copying.",
                "全部打開的話，要猜的字就在輸入裡，照抄就能讓損失變成 0。",
            ),
        ),
    ],
    hints=[
        both(
            "Try the smallest positions: what may position 0 see, and what position 1?",
            "試最小的位置：位置 0 可以看什麼？位置 1 呢？",
        ),
    ],
)
