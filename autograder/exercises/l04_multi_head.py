"""Lesson 04, multi-head attention: splitting and merging heads, the module, what it costs, grouped queries.

Shapes: B batch, N queries, M keys, h heads, n_kv key/value heads; d_model = h · d_head; d_k, d_v.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION, FLOP_COUNTERS
from autograder.exercises.l03_sqrt_dk import masked_weights
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous
from autograder.text import both

LESSON = "04_multi_head"

# ------------------------------------------------------------------------------------------------ split_heads


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    B, N, d_model = x.shape
    return x.reshape(B, N, n_heads, d_model // n_heads).transpose(1, 2)


def draw_to_split(draw: Draw, B: int, N: int, h: int, d_head: int) -> tuple[Tensor, int]:
    return draw.normal(B, N, h * d_head, mean=1.0), h


def split(x: Tensor, n_heads: int) -> tuple[int, int, int]:
    """B, N and d_head."""
    return x.shape[0], x.shape[1], x.shape[2] // n_heads


def split_without_transpose(x: Tensor, n_heads: int) -> Tensor:
    B, N, d_head = split(x, n_heads)
    return x.reshape(B, n_heads, N, d_head)


def split_interleaved(x: Tensor, n_heads: int) -> Tensor:
    B, N, d_head = split(x, n_heads)
    return x.reshape(B, N, d_head, n_heads).permute(0, 3, 1, 2)


def split_not_moved(x: Tensor, n_heads: int) -> Tensor:
    B, N, d_head = split(x, n_heads)
    return x.reshape(B, N, n_heads, d_head)


def split_keys_transposed(x: Tensor, n_heads: int) -> Tensor:
    B, N, d_head = split(x, n_heads)
    return x.reshape(B, N, n_heads, d_head).permute(0, 2, 3, 1)


def split_by_head_size(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], -1, n_heads).transpose(1, 2)


exercise(
    name="split_heads",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=split_heads,
    results=("heads",),
    forbidden=ATTENTION,
    cases=[
        Case(
            "batch", both("two sentences, three heads", "兩個句子、三個頭"), lambda d: draw_to_split(d, 2, 5, 3, 4), 3
        ),
        Case("one", both("one sentence, two heads", "一個句子、兩個頭"), lambda d: draw_to_split(d, 1, 4, 2, 5), 2),
        Case(
            "as_many_tokens_as_heads",
            both("as many tokens as heads (N = h)", "詞元和頭一樣多（N = h）"),
            lambda d: draw_to_split(d, 2, 3, 3, 5),
            2,
        ),
        Case(
            "square_heads",
            both("as many tokens as columns in a head (N = d_head)", "詞元數等於一個頭的寬度（N = d_head）"),
            lambda d: draw_to_split(d, 2, 4, 2, 4),
            2,
        ),
        Case("one_head", both("a single head", "只有一個頭"), lambda d: draw_to_split(d, 2, 3, 1, 4)),
        Case(
            "one_column",
            both("heads of one column each (d_head = 1)", "每個頭只有一行（d_head = 1）"),
            lambda d: draw_to_split(d, 2, 3, 4, 1),
            0.5,
            trap=True,
        ),
        *half_precision(lambda d: draw_to_split(d, 2, 4, 3, 2)),
        float64(lambda d: draw_to_split(d, 2, 3, 2, 4)),
        noncontiguous(lambda d: draw_to_split(d, 2, 6, 3, 4), 1.5),
        gradients(lambda d: draw_to_split(d, 2, 3, 2, 5)),
    ],
    mistakes=[
        Mistake(
            "view_without_transpose",
            split_without_transpose,
            both(
                "The shape is right, the numbers are not: reshaping reads memory on and on, so your first head holds all "
                "columns of the first tokens instead of a few columns of all tokens. Cut the columns first, move the "
                "axis afterwards.",
                "形狀對，數字不對：reshape 只是照記憶體的順序往下讀，所以你的第一個頭裝的是前幾個詞元的全部行，"
                "而不是全部詞元的前幾行。先切開行，再搬動軸。",
            ),
        ),
        Mistake(
            "heads_interleaved",
            split_interleaved,
            both(
                "You deal the columns out like cards: head j gets columns j, j + h, j + 2h and so on. A head owns "
                "neighbouring columns.",
                "你像發牌一樣分配各行：第 j 個頭拿到第 j、j + h、j + 2h⋯⋯行。一個頭擁有的是相鄰的行。",
            ),
        ),
        Mistake(
            "heads_not_moved",
            split_not_moved,
            both(
                "The columns are cut correctly, but the axis of the heads still stands behind that of the tokens. Each "
                "head should be a matrix: tokens down, its columns across.",
                "行切對了，但頭的軸還排在詞元的軸後面。每個頭應該是一個矩陣：往下是詞元，往右是它的行。",
            ),
        ),
        Mistake(
            "keys_transposed",
            split_keys_transposed,
            both(
                "Each head lies on its side: its columns go down and the tokens across. Transposing is for the moment "
                "when queries meet keys.",
                "每個頭都躺下了：往下是行，往右是詞元。轉置要留到查詢和鍵相遇的時候。",
            ),
        ),
        Mistake(
            "heads_for_head_size",
            split_by_head_size,
            both(
                "You made heads of n_heads columns. n_heads says how many heads there are; how wide is each?",
                "你把每個頭切成 n_heads 行寬。n_heads 是頭的個數；那每個頭有多寬？",
            ),
        ),
        Mistake(
            "heads_first",
            lambda x, n_heads: torch.stack(x.chunk(n_heads, dim=-1)),
            both(
                "The heads are right, but their axis stands before that of the batch. The batch comes first everywhere "
                "in this course.",
                "頭切對了，但頭的軸跑到批次的軸前面。在這門課，批次永遠排第一。",
            ),
        ),
        Mistake(
            "heads_as_a_tuple",
            lambda x, n_heads: x.chunk(n_heads, dim=-1),
            both(
                "You return the heads one by one. One tensor is asked for, with an axis for the heads, so that all of "
                "them can be computed in one product.",
                "你把頭一個一個分開回傳。這裡要的是一個張量，其中一個軸是頭，這樣才能一次乘法全部算完。",
            ),
        ),
        Mistake(
            "squeezed",
            lambda x, n_heads: split_not_moved(x, n_heads).transpose(1, 2).squeeze(),
            both(
                "Where there is one sentence, one head or one column, your result loses that axis. Its shape is [B, h, N, "
                "d_head], whatever the sizes.",
                "只有一個句子、一個頭或一行的時候，你的結果少了那個軸。不管大小是多少，形狀都是 [B, h, N, d_head]。",
            ),
        ),
        Mistake(
            "heads_folded_into_batch",
            lambda x, n_heads: split_not_moved(x, n_heads).transpose(1, 2).flatten(0, 1),
            both(
                "Your heads have become further sentences of the batch. Keep an axis of their own for them, [B, h, N, "
                "d_head]: masks and the merging need it.",
                "你的頭變成批次裡多出來的句子了。要替頭保留自己的軸，[B, h, N, d_head]：遮罩和合併都需要它。",
            ),
        ),
    ],
    hints=[
        both(
            "Two steps. First say that the last axis is really two axes; nothing moves in memory. Then change the order "
            "of the axes.",
            "分兩步。先說明最後一個軸其實是兩個軸，記憶體裡什麼都沒動；再調換軸的順序。",
        ),
        both(
            "Neighbouring columns stay together if the new axis of the heads stands in front of the new axis of their "
            "columns: [B, N, h, d_head] comes first, then [B, h, N, d_head].",
            "新的「頭」軸放在新的「行」軸前面，相鄰的行就會留在一起：先得到 [B, N, h, d_head]，再變成 [B, h, N, d_head]。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ merge_heads


def merge_heads(x: Tensor) -> Tensor:
    B, h, N, d_head = x.shape
    return x.transpose(1, 2).reshape(B, N, h * d_head)


def draw_heads(draw: Draw, B: int, h: int, N: int, d_head: int) -> tuple[Tensor]:
    return (draw.normal(B, h, N, d_head, mean=1.0),)


def draw_freshly_split(draw: Draw) -> tuple[Tensor]:
    """In memory as a split leaves them: the tokens' axis is the outer one."""
    return (draw.normal(2, 5, 3, 4, mean=1.0).transpose(1, 2),)


exercise(
    name="merge_heads",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=merge_heads,
    results=("merged",),
    forbidden=ATTENTION,
    cases=[
        Case("batch", both("two sentences, three heads", "兩個句子、三個頭"), lambda d: draw_heads(d, 2, 3, 5, 4), 3),
        Case("one", both("one sentence, two heads", "一個句子、兩個頭"), lambda d: draw_heads(d, 1, 2, 3, 5), 2),
        Case(
            "as_many_tokens_as_heads",
            both("as many tokens as heads (N = h)", "詞元和頭一樣多（N = h）"),
            lambda d: draw_heads(d, 2, 3, 3, 2),
            2,
        ),
        Case("one_head", both("a single head", "只有一個頭"), lambda d: draw_heads(d, 2, 1, 4, 3)),
        Case(
            "freshly_split",
            both("heads in memory as split_heads leaves them", "記憶體裡的排列和剛做完 split_heads 時一樣"),
            draw_freshly_split,
            trap=True,
        ),
        *half_precision(lambda d: draw_heads(d, 2, 2, 4, 3)),
        float64(lambda d: draw_heads(d, 2, 4, 3, 2)),
        noncontiguous(lambda d: draw_heads(d, 2, 3, 4, 5)),
        gradients(lambda d: draw_heads(d, 2, 2, 3, 4)),
    ],
    mistakes=[
        Mistake(
            "reshape_without_transpose",
            lambda x: x.reshape(x.shape[0], x.shape[2], -1),
            both(
                "The shape is right, but reshaping reads memory on and on: your first row holds the first tokens of head 0 "
                "alone. A row should hold what all heads say about one token, so that token's pieces must be neighbours "
                "first.",
                "形狀對，但 reshape 只是照記憶體的順序往下讀：你的第一列裝的全是第 0 個頭的前幾個詞元。"
                "一列應該是所有頭對同一個詞元的結果，所以要先讓同一個詞元的各段排在一起。",
            ),
        ),
        Mistake(
            "heads_interleaved",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
            both(
                "You shuffle the heads into each other: column 0 of every head, then column 1 of every head. The heads "
                "stand side by side, each with all its columns together.",
                "你把各個頭交錯混在一起了：先是每個頭的第 0 行，再是每個頭的第 1 行。頭應該並排，各自的行連在一起。",
            ),
        ),
        Mistake(
            "heads_averaged",
            lambda x: x.mean(dim=1),
            both(
                "You average the heads, and what made them different is gone. They are placed side by side; mixing them "
                "is the job of the output matrix.",
                "你把頭平均了，它們的差別就沒了。頭要並排放；怎麼混合是輸出矩陣的工作。",
            ),
        ),
        Mistake(
            "heads_summed",
            lambda x: x.sum(dim=1),
            both(
                "You add the heads up. They are placed side by side, so the result is h times as wide as one head.",
                "你把頭加起來了。頭要並排放，結果的寬度是一個頭的 h 倍。",
            ),
        ),
        Mistake(
            "view_on_transposed",
            lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1),
            both(
                "Swapping axes moves nothing in memory, and view can only rename what lies in order. Something has to "
                "copy the numbers into their new order.",
                "交換軸並沒有搬動記憶體，而 view 只能替已經照順序排好的資料換個形狀。要有一步把數字抄成新的順序。",
            ),
        ),
        Mistake(
            "first_head_only",
            lambda x: x[:, 0],
            both(
                "Only the first head is left. The work of all of them belongs into the result.",
                "只剩下第一個頭。結果裡要有所有的頭。",
            ),
        ),
        Mistake(
            "heads_one_below_the_other",
            lambda x: x.flatten(1, 2),
            both(
                "You put the heads one below the other, as if there were h times as many tokens. They stand side by side: "
                "as many rows as tokens.",
                "你把頭上下疊起來，好像詞元多了 h 倍。頭要左右並排：有幾個詞元就有幾列。",
            ),
        ),
        Mistake(
            "axes_not_joined",
            lambda x: x.transpose(1, 2),
            both(
                "The axes are in the right order, but there are still four. Let the last two become one.",
                "軸的順序對了，但還是四個軸。把最後兩個軸併成一個。",
            ),
        ),
    ],
    hints=[
        both(
            "Undo split_heads step by step, last step first.",
            "把 split_heads 倒著做：最後做的先還原。",
        ),
        both(
            "Bring the pieces of one token next to each other: [B, N, h, d_head]. Only then join the last two axes. If "
            "view complains about memory, there is a function that copies when it has to.",
            "先讓同一個詞元的各段相鄰：[B, N, h, d_head]。然後才把最後兩個軸併起來。"
            "如果 view 抱怨記憶體，有另一個函式會在必要時自動複製。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------- MultiHeadAttention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.W_Q = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_model, d_model)))
        self.W_K = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_model, d_model)))
        self.W_V = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_model, d_model)))
        self.W_O = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_model, d_model)))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        B, N, d_model = query.shape
        M, h = key.shape[1], self.n_heads
        d_head = d_model // h
        q = (query @ self.W_Q).reshape(B, N, h, d_head).transpose(1, 2)
        k = (key @ self.W_K).reshape(B, M, h, d_head).transpose(1, 2)
        v = (value @ self.W_V).reshape(B, M, h, d_head).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(d_head)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = (weights @ v).transpose(1, 2).reshape(B, N, d_model)
        return heads @ self.W_O, weights


class Stepwise(nn.Module):
    """The same in small steps, so that a mistake can change one of them."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.scale = 1 / math.sqrt(d_model / n_heads)
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            self.register_parameter(name, nn.Parameter(torch.zeros(d_model, d_model)))

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    def sources(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What queries, keys and values are made from."""
        return query, key, value

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.n_heads)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return masked_weights(scores, mask)

    def merge(self, heads: Tensor) -> Tensor:
        return merge_heads(heads)

    def mix(self, merged: Tensor) -> Tensor:
        return self.project(merged, self.W_O)

    def results(self, output: Tensor, weights: Tensor) -> Any:
        return output, weights

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        query, key, value = self.sources(query, key, value)
        q, k, v = (
            self.split(self.project(x, weight)) for x, weight in ((query, self.W_Q), (key, self.W_K), (value, self.W_V))
        )
        weights = self.weigh(q @ k.mT * self.scale, mask)
        return self.results(self.mix(self.merge(weights @ v)), weights)


def with_step(**steps: Callable[..., Any]) -> type[nn.Module]:
    """The module with some of its steps done otherwise."""
    return type("Otherwise", (Stepwise,), dict(steps))


def with_scale(scale: Callable[[int, int], float]) -> type[nn.Module]:
    """The module with scores multiplied by `scale(d_model, n_heads)`."""

    def build(self: Any, d_model: int, n_heads: int) -> None:
        Stepwise.__init__(self, d_model, n_heads)
        self.scale = scale(d_model, n_heads)

    return with_step(__init__=build)


def filled_weights(scores: Tensor, mask: Tensor | None, value: float) -> Tensor:
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, value), dim=-1)


def weights_with_nan_repaired(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # masked_fill stops the NaN on its way back; a float mask of −inf that is added does not.
    added = torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    return torch.softmax(scores + added, dim=-1).nan_to_num(0.0)


def weights_masked_afterwards(scores: Tensor, mask: Tensor | None) -> Tensor:
    weights = torch.softmax(scores, dim=-1)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


def draw_module(draw: Draw, h: int, d_head: int) -> tuple[tuple[int, int], dict[str, Tensor]]:
    """Sizes and weights; large enough for the softmax to prefer some keys clearly."""
    d_model = h * d_head
    std = 1.6 / math.sqrt(d_model)
    return (d_model, h), {name: draw.normal(d_model, d_model, std=std) for name in WEIGHTS}


def draw_self(draw: Draw, B: int, N: int, h: int, d_head: int) -> tuple[Any, ...]:
    x = draw.normal(B, N, h * d_head)
    return *draw_module(draw, h, d_head), x, x, x


def draw_cross(draw: Draw, B: int, N: int, M: int, h: int, d_head: int) -> tuple[Any, ...]:
    d_model = h * d_head
    inputs = draw.normal(B, N, d_model), draw.normal(B, M, d_model), draw.normal(B, M, d_model)
    return *draw_module(draw, h, d_head), *inputs


def draw_module_masked_row(draw: Draw) -> tuple[Any, ...]:
    mask = draw.mask(2, 1, 4, 5)
    mask[0, 0, 1], mask[1, 0, 3] = False, False
    return *draw_cross(draw, 2, 4, 5, 3, 2), mask


def with_an_axis_for_heads(mask: Tensor | None) -> Tensor | None:
    """Whatever has three axes taken for [B, N, M]."""
    return mask if mask is None or mask.ndim != 3 else mask.unsqueeze(1)


MASK_OF_HEADS = both(
    "You read a mask of three axes as [B, N, M]. It broadcasts to [B, h, N, M], and broadcasting lines axes up from the "
    "last one: three axes are [h, N, M].",
    "你把三個軸的遮罩當成 [B, N, M] 了。它要廣播成 [B, h, N, M]，而廣播是從最後一個軸對齊的：三個軸就是 [h, N, M]。",
)

exercise(
    name="MultiHeadAttention",
    lesson=LESSON,
    points=5,
    difficulty=4,
    driver="module",
    reference=MultiHeadAttention,
    exact_zeros=True,
    results=("output", "weights"),
    forbidden=ATTENTION,
    cases=[
        Case(
            "self_attention",
            both("self-attention: query = key = value", "自注意力：query = key = value"),
            lambda d: draw_self(d, 2, 5, 3, 4),
            3,
        ),
        Case(
            "cross_attention",
            both("three different inputs, N ≠ M", "三個輸入都不同，N ≠ M"),
            lambda d: draw_cross(d, 2, 4, 6, 2, 5),
            3,
        ),
        Case(
            "as_many_keys_as_queries",
            both("three different inputs, N = M", "三個輸入都不同，N = M"),
            lambda d: draw_cross(d, 2, 5, 5, 3, 2),
            2,
        ),
        Case(
            "pair_mask",
            both("a mask [N, M] for all sentences and heads", "所有句子與頭共用的遮罩 [N, M]"),
            lambda d: (*draw_cross(d, 2, 4, 5, 3, 2), d.mask(4, 5)),
            2,
        ),
        Case(
            "padding_mask",
            both("a padding mask [B, 1, 1, M], by name", "用名稱給填補遮罩 [B, 1, 1, M]"),
            lambda d: (draw_cross(d, 2, 3, 5, 2, 4), {"mask": d.mask(2, 1, 1, 5)}),
            2,
        ),
        Case(
            "mask_per_head",
            both("a mask [B, h, N, M] that differs from head to head", "每個頭都不同的遮罩 [B, h, N, M]"),
            lambda d: (*draw_cross(d, 2, 3, 4, 2, 3), d.mask(2, 2, 3, 4)),
            1,
        ),
        Case(
            "mask_of_heads",
            both(
                "a mask [h, N, M] for all sentences, as many heads as sentences",
                "所有句子共用的遮罩 [h, N, M]，頭和句子一樣多",
            ),
            lambda d: (*draw_cross(d, 2, 4, 3, 2, 2), d.mask(2, 4, 3)),
            0.5,
            trap=True,
        ),
        Case("one_head", both("a single head", "只有一個頭"), lambda d: draw_cross(d, 2, 4, 3, 1, 5), 1),
        Case(
            "masked_row",
            both("a row with nothing to attend to", "有一列沒有東西可看"),
            draw_module_masked_row,
            2,
            trap=True,
        ),
        float64(lambda d: draw_cross(d, 2, 3, 4, 2, 3)),
        noncontiguous(lambda d: draw_cross(d, 2, 4, 3, 3, 2)),
        gradients(lambda d: (*draw_cross(d, 2, 4, 5, 2, 3), d.mask(4, 5)), 2),
        Case(
            "masked_row_gradients",
            both("finite gradients with a fully masked row", "有整列被遮住時，梯度也要是有限值"),
            draw_module_masked_row,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "scale_missing",
            with_scale(lambda d_model, h: 1.0),
            both(
                "Your scores are not scaled. The factor of lesson 03 belongs into every head.",
                "你的分數沒有縮放。第 03 課的那個因子，每個頭都要有。",
            ),
        ),
        Mistake(
            "scale_sqrt_d_model",
            with_scale(lambda d_model, h: 1 / math.sqrt(d_model)),
            both(
                "You scale by the width of the whole model, so the weights come out too even. A score is an inner product "
                "inside one head: how many products does it add up?",
                "你用整個模型的寬度來縮放，權重變得太平均。分數是在一個頭裡面做的內積：它加了幾個乘積？",
            ),
        ),
        Mistake(
            "scale_d_head",
            with_scale(lambda d_model, h: h / d_model),
            both(
                "You divide by the width of a head itself. The spread of the scores grows with its root.",
                "你除的是頭的寬度本身。分數的離散程度是隨它的平方根成長的。",
            ),
        ),
        Mistake(
            "scale_sqrt_heads",
            with_scale(lambda d_model, h: 1 / math.sqrt(h)),
            both(
                "You scale by the number of heads. What counts is how wide one head is, not how many there are.",
                "你用頭的個數來縮放。要看的是一個頭有多寬，不是有幾個頭。",
            ),
        ),
        Mistake(
            "view_without_transpose",
            with_step(split=lambda self, x: split_without_transpose(x, self.n_heads)),
            both(
                "The heads are split by reshaping alone: the shapes fit, but each head gets whole rows of a few tokens "
                "instead of its own columns of all tokens. Look at your split_heads.",
                "你只用 reshape 切頭：形狀對得上，但每個頭拿到的是少數詞元的整列，而不是所有詞元裡屬於它的行。看看你的 split_heads。",
            ),
        ),
        Mistake(
            "merge_without_transpose",
            with_step(merge=lambda self, heads: heads.reshape(heads.shape[0], heads.shape[2], -1)),
            both(
                "The weights are right, the output is not: the heads are put together by reshaping alone, which mixes up "
                "the tokens. Look at your merge_heads.",
                "權重是對的，輸出不對：你只用 reshape 併頭，把詞元弄混了。看看你的 merge_heads。",
            ),
        ),
        Mistake(
            "view_on_transposed",
            with_step(merge=lambda self, heads: heads.transpose(1, 2).view(heads.shape[0], heads.shape[2], -1)),
            both(
                "Putting the heads together, you call view on memory that is out of order. Something has to copy the numbers "
                "into their new order, as in merge_heads.",
                "併頭的時候，你對還沒照順序排好的記憶體用了 view。要有一步把數字抄成新的順序，和 merge_heads 一樣。",
            ),
        ),
        Mistake(
            "views_both_ways",
            with_step(
                split=lambda self, x: split_without_transpose(x, self.n_heads),
                merge=lambda self, heads: heads.reshape(heads.shape[0], heads.shape[2], -1),
            ),
            both(
                "You split and merge by reshaping alone. The two undo each other, so all shapes fit, and still every head "
                "reads a jumble of tokens: an axis must be moved on the way in and back on the way out.",
                "切和併你都只用 reshape。兩者剛好互相抵消，形狀都對，但每個頭讀到的是一堆混在一起的詞元：進去時要搬動一個軸，出來時要搬回去。",
            ),
        ),
        Mistake(
            "heads_interleaved",
            with_step(split=lambda self, x: split_interleaved(x, self.n_heads)),
            both(
                "Your heads own every h-th column. A head owns neighbouring columns of W_Q, W_K and W_V.",
                "你的頭每 h 行取一行。一個頭擁有的是 W_Q、W_K、W_V 裡相鄰的行。",
            ),
        ),
        Mistake(
            "output_projection_missing",
            with_step(mix=lambda self, merged: merged),
            both(
                "The heads stand side by side, but nothing mixes them: one more matrix is missing after the merge.",
                "頭並排好了，但沒有東西把它們混合：合併之後還少一個矩陣。",
            ),
        ),
        Mistake(
            "mask_inverted",
            with_step(weigh=lambda self, scores, mask: masked_weights(scores, None if mask is None else ~mask)),
            both(
                "Your mask works the wrong way round: the hidden keys get all the weight. In nn.MultiheadAttention True "
                "means hide; in this course it means: may attend.",
                "你的遮罩用反了：被遮住的鍵反而拿走全部權重。nn.MultiheadAttention 的 True 代表遮住；在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "mask_ignored",
            with_step(weigh=lambda self, scores, mask: torch.softmax(scores, dim=-1)),
            both(
                "Your result does not depend on the mask. Hide the keys before scores become weights.",
                "你的結果和遮罩無關。要在分數變成權重之前把鍵遮住。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            with_step(weigh=lambda self, scores, mask: weights_masked_afterwards(scores, mask)),
            both(
                "The hidden keys are removed after the softmax, so the open ones no longer sum to 1. Hide them before "
                "the weights are shared out.",
                "你在 softmax 之後才把遮住的鍵拿掉，剩下的權重加起來就不是 1 了。要在分配權重之前就遮住。",
            ),
        ),
        Mistake(
            "masked_row_nan",
            with_step(weigh=lambda self, scores, mask: filled_weights(scores, mask, -math.inf)),
            both(
                "A row with nothing to attend to gives NaN: the softmax of nothing but −inf is 0/0. Such a row gets "
                "zeros.",
                "整列都被遮住時出現 NaN：全是 −inf 的 softmax 是 0/0。這種列要得到 0。",
            ),
        ),
        Mistake(
            "masked_row_averages",
            with_step(weigh=lambda self, scores, mask: filled_weights(scores, mask, -1e9)),
            both(
                "In a row with nothing to attend to, your weights are spread evenly over the hidden keys: all scores are "
                "the same large negative number there. Such a row gets zeros.",
                "整列都被遮住時，你的權重平均分給了被遮住的鍵，因為那裡的分數全是同一個很大的負數。這種列要得到 0。",
            ),
        ),
        Mistake(
            "nan_repaired_afterwards",
            with_step(weigh=lambda self, scores, mask: weights_with_nan_repaired(scores, mask)),
            both(
                "The values are right, but the NaN is only painted over: backwards it is still there and spoils the "
                "gradients. Do not let it arise.",
                "數值是對的，但 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            with_step(
                weigh=lambda self, scores, mask: torch.softmax(
                    scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=-2
                )
            ),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "softmax_over_heads",
            with_step(
                weigh=lambda self, scores, mask: torch.softmax(
                    scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=1
                )
            ),
            both(
                "Your heads compete: for each pair of tokens the weights of all heads sum to 1. Every head has a budget of "
                "its own, shared out over the keys.",
                "你的頭在互相競爭：每一對詞元，所有頭的權重加起來是 1。每個頭都有自己的 1，分配給各個鍵。",
            ),
        ),
        Mistake(
            "key_ignored",
            with_step(sources=lambda self, query, key, value: (query, query, query)),
            both(
                "Your answer is self-attention on the query, whatever comes in as key and value. Keys are made from key, "
                "values from value.",
                "不管 key 和 value 給什麼，你做的都是 query 的自注意力。鍵要由 key 做出來，值要由 value 做出來。",
            ),
        ),
        Mistake(
            "value_ignored",
            with_step(sources=lambda self, query, key, value: (query, key, key)),
            both(
                "The weights are right, but your values are made from the key. What is found by and what is handed over may "
                "come from two different inputs.",
                "權重是對的，但你的值是由 key 做出來的。「靠什麼被找到」和「交出什麼」可以來自兩個不同的輸入。",
            ),
        ),
        Mistake(
            "mask_of_heads_read_as_batch",
            with_step(weigh=lambda self, scores, mask: masked_weights(scores, with_an_axis_for_heads(mask))),
            MASK_OF_HEADS,
        ),
        Mistake(
            "squeezed",
            with_step(results=lambda self, output, weights: (output.squeeze(), weights.squeeze())),
            both(
                "With a single head your results lose an axis. A size of 1 is a size like any other: weights have the shape "
                "[B, h, N, M].",
                "只有一個頭的時候，你的結果少了一個軸。大小是 1 也要留著：權重的形狀是 [B, h, N, M]。",
            ),
        ),
        Mistake(
            "weights_averaged",
            with_step(results=lambda self, output, weights: (output, weights.mean(dim=1))),
            both(
                "You return the average over the heads as the weights. Each head keeps its own map: [B, h, N, M].",
                "你回傳的權重是各個頭的平均。每個頭都要保留自己的那張圖：[B, h, N, M]。",
            ),
        ),
        Mistake(
            "weights_transposed",
            with_step(project=lambda self, x, weight: x @ weight.mT),
            both(
                "You multiply by the transposed matrices. That is how nn.Linear stores its weights; here the bare matrices "
                "stand to the right of the rows, as in the formula.",
                "你乘的是轉置後的矩陣。nn.Linear 才是那樣存權重；這裡的矩陣照公式放在列向量的右邊就好。",
            ),
        ),
        Mistake(
            "keys_values_swapped",
            type(
                "Otherwise",
                (Stepwise,),
                {
                    "forward": lambda self, query, key, value, mask=None: stepwise_with_swapped_weights(
                        self, query, key, value, mask
                    )
                },
            ),
            both(
                "W_K and W_V have changed places: keys come from key and W_K, values from value and W_V.",
                "W_K 和 W_V 對調了：鍵來自 key 和 W_K，值來自 value 和 W_V。",
            ),
        ),
        Mistake(
            "parts_swapped",
            with_step(results=lambda self, output, weights: (weights, output)),
            both(
                "The two results have changed places: first the output, then the weights.",
                "兩個結果對調了：先輸出，再權重。",
            ),
        ),
        Mistake(
            "output_only",
            with_step(results=lambda self, output, weights: output),
            both(
                "You return the output alone. The weights are asked for as well, as the second part of a tuple.",
                "你只回傳輸出。權重也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "In __init__: the number of heads, and four parameters by exactly these names. In forward: project, split, "
            "attend in each head, merge, project once more. Write the shape beside every line.",
            "__init__ 裡：頭的個數，以及名字一字不差的四個參數。forward 裡：投影、切頭、每個頭各做注意力、併頭、再投影一次。"
            "每一行旁邊都寫下形狀。",
        ),
        both(
            "After the split, nothing needs a loop: what you wrote in lesson 03 works on the last two axes, whatever stands "
            "in front. Queries have N rows, keys and values M.",
            "切頭之後不需要迴圈：第 03 課寫的東西作用在最後兩個軸，前面有什麼都沒關係。查詢有 N 列，鍵與值有 M 列。",
        ),
        both(
            "The mask is already in a shape that broadcasts to the scores. For a row with nothing open, let the softmax see "
            "harmless numbers and set its weights to zero afterwards.",
            "遮罩的形狀本來就能廣播到分數上。沒有東西可看的列，讓 softmax 先看無害的數，之後再把權重設成 0。",
        ),
    ],
)


def stepwise_with_swapped_weights(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    q = split_heads(query @ module.W_Q, module.n_heads)
    k, v = split_heads(key @ module.W_V, module.n_heads), split_heads(value @ module.W_K, module.n_heads)
    weights = masked_weights(q @ k.mT * module.scale, mask)
    return merge_heads(weights @ v) @ module.W_O, weights


# ---------------------------------------------------------------------------------- attention_parameter_count


def attention_parameter_count(d_model: int, n_heads: int, n_kv_heads: int | None = None, bias: bool = False) -> int:
    d_head = d_model // n_heads
    d_kv = d_head * (n_heads if n_kv_heads is None else n_kv_heads)
    weights = 2 * d_model * d_model + 2 * d_model * d_kv
    biases = 2 * d_model + 2 * d_kv
    return weights + biases if bias else weights


def parameters(d_model: int, n_heads: int, n_kv_heads: int | None, bias: bool) -> int:
    """The right count, for mistakes to build on."""
    return 2 * (d_model + bias) * (d_model + kv_width(d_model, n_heads, n_kv_heads))


def kv_width(d_model: int, n_heads: int, n_kv_heads: int | None) -> int:
    return d_model // n_heads * (n_kv_heads or n_heads)


def draw_sizes(draw: Draw) -> tuple[int, int]:
    """d_model and n_heads: heads are many and wide, so that counts that differ on paper differ in numbers."""
    h = draw.integer(5, 16)
    return h * draw.integer(20, 64), h


def draw_grouped_sizes(draw: Draw) -> tuple[int, int, int]:
    n_kv = draw.integer(2, 4)
    h = n_kv * draw.integer(3, 5)
    return h * draw.integer(20, 64), h, n_kv


exercise(
    name="attention_parameter_count",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=attention_parameter_count,
    results=("count",),
    forbidden=ATTENTION,
    cases=[
        Case("paper", both("the model of 2017: 512, 8", "2017 年的模型：512、8"), lambda d: (512, 8), 2),
        Case("plain", both("other sizes", "其他大小"), draw_sizes, 2),
        Case("with_bias", both("with biases", "有偏置"), lambda d: (draw_sizes(d), {"bias": True}), 2),
        Case("grouped", both("grouped: fewer key/value heads", "分組：鍵與值的頭比較少"), draw_grouped_sizes, 2),
        Case(
            "one_kv_head",
            both("a single key/value head, by name", "用名稱給：鍵與值只有一個頭"),
            lambda d: (draw_sizes(d), {"n_kv_heads": 1}),
        ),
        Case(
            "grouped_with_bias",
            both("fewer key/value heads, with biases", "鍵與值的頭比較少，而且有偏置"),
            lambda d: (*draw_grouped_sizes(d), True),
            1.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "times_heads",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                2 * n_heads * d_model**2
                + 2 * (n_kv_heads or n_heads) * d_model**2
                + bias * (2 * d_model + 2 * kv_width(d_model, n_heads, n_kv_heads))
            ),
            both(
                "You count a full square matrix for every head. The heads share it out among themselves: each owns d_head "
                "of its columns.",
                "你替每個頭都算了一整個方陣。那個方陣是所有頭分著用的：每個頭只擁有其中 d_head 行。",
            ),
        ),
        Mistake(
            "output_projection_missing",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                parameters(d_model, n_heads, n_kv_heads, bias) - d_model**2 - bias * d_model
            ),
            both(
                "One matrix is missing: the one that mixes the heads after they have been put side by side.",
                "少了一個矩陣：頭並排之後，負責把它們混合的那一個。",
            ),
        ),
        Mistake(
            "kv_heads_ignored",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: parameters(d_model, n_heads, None, bias),
            both(
                "Your count does not depend on n_kv_heads. With fewer key/value heads, W_K and W_V have fewer columns.",
                "你的結果和 n_kv_heads 無關。鍵與值的頭變少，W_K 和 W_V 的行數也會變少。",
            ),
        ),
        Mistake(
            "bias_ignored",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: parameters(d_model, n_heads, n_kv_heads, False),
            both(
                "Your count is the same with and without biases. A bias adds one number to each output column.",
                "有沒有偏置，你的結果都一樣。偏置替每個輸出的行加上一個數。",
            ),
        ),
        Mistake(
            "bias_always",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: parameters(d_model, n_heads, n_kv_heads, True),
            both(
                "You count biases although there are none: bias is False unless someone asks.",
                "沒有偏置，你卻算進去了：除非特別指定，bias 就是 False。",
            ),
        ),
        Mistake(
            "one_bias_only",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                parameters(d_model, n_heads, n_kv_heads, False) + bias * d_model
            ),
            both(
                "You count the bias of one projection. There are four, and each has its own.",
                "你只算了一個投影的偏置。投影有四個，各有各的偏置。",
            ),
        ),
        Mistake(
            "one_head_only",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                parameters(d_model, n_heads, n_kv_heads, bias) // n_heads
            ),
            both(
                "You count a single head. All of them stand side by side in each matrix.",
                "你只算了一個頭。每個矩陣裡並排著所有的頭。",
            ),
        ),
        Mistake(
            "kv_bias_not_shrunk",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                parameters(d_model, n_heads, n_kv_heads, False) + bias * 4 * d_model
            ),
            both(
                "The matrices are right. With fewer key/value heads, their biases become shorter too: one number for each "
                "output column.",
                "矩陣都對。鍵與值的頭變少時，它們的偏置也會變短：每個輸出的行一個數。",
            ),
        ),
        Mistake(
            "kv_heads_as_columns",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                parameters(d_model, n_heads, None, bias)
                if n_kv_heads is None
                else 2 * d_model**2 + 2 * d_model * n_kv_heads + bias * (2 * d_model + 2 * n_kv_heads)
            ),
            both(
                "You give each key/value head one column. A head is d_head columns wide.",
                "你只給每個鍵與值的頭一行。一個頭有 d_head 行寬。",
            ),
        ),
        Mistake(
            "four_squares_only",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: 4 * d_model**2,
            both(
                "Right for the model of 2017. Your count depends neither on n_kv_heads nor on bias.",
                "對 2017 年的模型是對的。你的結果和 n_kv_heads、bias 都無關。",
            ),
        ),
        Mistake(
            "everything_shrinks",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: (
                4 * d_model * kv_width(d_model, n_heads, n_kv_heads)
                + bias * (3 * kv_width(d_model, n_heads, n_kv_heads) + d_model)
            ),
            both(
                "With fewer key/value heads you let all four matrices shrink. There are as many query heads as before, so "
                "W_Q and W_O stay what they were.",
                "鍵與值的頭變少時，你讓四個矩陣都縮小了。查詢的頭沒有變少，所以 W_Q 和 W_O 維持原樣。",
            ),
        ),
        Mistake(
            "float_count",
            lambda d_model, n_heads, n_kv_heads=None, bias=False: float(parameters(d_model, n_heads, n_kv_heads, bias)),
            both(
                "The number is right, but it is a float: a single slash makes one. Counts are whole numbers.",
                "數值是對的，但它是 float：單斜線的除法會變成浮點數。個數要用整數。",
            ),
        ),
    ],
    hints=[
        both(
            "Write down the shape of each of the four matrices, for (512, 8) first. Where does the number of heads come in?",
            "先以 (512, 8) 寫下四個矩陣各自的形狀。頭的個數出現在哪裡？",
        ),
        both(
            "Only W_K and W_V care about n_kv_heads. A bias has as many entries as its matrix has columns.",
            "只有 W_K 和 W_V 在乎 n_kv_heads。矩陣有幾行，偏置就有幾個數。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------- attention_flops


def attention_flops(n_queries: int, n_keys: int, d_model: int, n_heads: int) -> int:
    d_head = d_model // n_heads
    projections = 2 * (2 * n_queries + 2 * n_keys) * d_model * d_model
    scores = 2 * n_queries * n_keys * d_head * n_heads
    mixing = 2 * n_queries * n_keys * d_head * n_heads
    return projections + scores + mixing


def projection_flops(n_rows: int, d_model: int) -> int:
    return 2 * n_rows * d_model**2


def pair_flops(n_queries: int, n_keys: int, width: int) -> int:
    """Scores and mixing."""
    return 4 * n_queries * n_keys * width


def draw_flops(draw: Draw, same: bool = False) -> tuple[int, int, int, int]:
    h = draw.integer(4, 12)
    n_queries = draw.integer(30, 200)
    n_keys = n_queries if same else n_queries + draw.choice(-1, 1) * draw.integer(7, 23)
    return n_queries, n_keys, h * draw.integer(16, 64), h


def all_flops(n_queries: int, n_keys: int, d_model: int) -> int:
    """The right count, for mistakes to build on."""
    return projection_flops(2 * n_queries + 2 * n_keys, d_model) + pair_flops(n_queries, n_keys, d_model)


exercise(
    name="attention_flops",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=attention_flops,
    results=("flops",),
    forbidden=FLOP_COUNTERS,
    cases=[
        Case(
            "paper",
            both("512 tokens in the model of 2017", "2017 年的模型，512 個詞元"),
            lambda d: (512, 512, 512, 8),
            2,
        ),
        Case("self", both("as many keys as queries", "鍵和查詢一樣多"), lambda d: draw_flops(d, True), 3),
        Case("cross", both("N ≠ M", "查詢與鍵不一樣多（N ≠ M）"), draw_flops, 3),
        Case(
            "one_query",
            both("one query, many keys", "一個查詢、許多鍵"),
            lambda d: (1, draw_flops(d)[0], *draw_flops(d)[2:]),
            1.5,
        ),
        Case(
            "one_head",
            both("a single head, by name", "用名稱給，只有一個頭"),
            lambda d: ((), dict(zip(("n_queries", "n_keys", "d_model", "n_heads"), (*draw_flops(d)[:3], 1)))),
            1,
        ),
        Case(
            "long",
            both(
                "a long text: the answer has more digits than a float holds", "很長的文字：答案的位數超過浮點數能存的"
            ),
            lambda d: (10**6 + d.integer(1, 999) * 2 + 1, 10**6 + d.integer(1, 999) * 2 + 1, 4099 * 16, 16),
            1,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "multiply_adds_once",
            lambda n_queries, n_keys, d_model, n_heads: all_flops(n_queries, n_keys, d_model) // 2,
            both(
                "You get exactly half: a multiplication and an addition are two operations here.",
                "你的結果剛好是一半：這裡一次乘法加一次加法算兩個運算。",
            ),
        ),
        Mistake(
            "times_heads",
            lambda n_queries, n_keys, d_model, n_heads: n_heads * all_flops(n_queries, n_keys, d_model),
            both(
                "You count the whole layer once for every head. A head is only d_head wide, so all of them together do the "
                "work of one that is d_model wide.",
                "你替每個頭都算了一整層。一個頭只有 d_head 寬，所有的頭加起來，只做了一個 d_model 寬的頭的工作。",
            ),
        ),
        Mistake(
            "scores_times_heads",
            lambda n_queries, n_keys, d_model, n_heads: (
                projection_flops(2 * n_queries + 2 * n_keys, d_model) + pair_flops(n_queries, n_keys, d_model) * n_heads
            ),
            both(
                "The projections are right. In scores and mixing you count every head as if it were d_model wide.",
                "投影的部分對了。算分數與混合時，你把每個頭都當成 d_model 寬。",
            ),
        ),
        Mistake(
            "projections_missing",
            lambda n_queries, n_keys, d_model, n_heads: pair_flops(n_queries, n_keys, d_model),
            both(
                "You count what happens between tokens. The four projections, token by token, are missing.",
                "你只算了詞元之間的部分。少了每個詞元各自要做的四個投影。",
            ),
        ),
        Mistake(
            "only_projections",
            lambda n_queries, n_keys, d_model, n_heads: projection_flops(2 * n_queries + 2 * n_keys, d_model),
            both(
                "You count the four projections. The two products between tokens are missing: scores, and weights with "
                "values.",
                "你算了四個投影，但少了詞元之間的兩個乘積：分數，以及權重乘上值。",
            ),
        ),
        Mistake(
            "square_of_queries",
            lambda n_queries, n_keys, d_model, n_heads: (
                projection_flops(2 * n_queries + 2 * n_keys, d_model) + pair_flops(n_queries, n_queries, d_model)
            ),
            both(
                "Right when there are as many keys as queries. The score matrix has a row for each query and a column for "
                "each key.",
                "鍵和查詢一樣多時是對的。分數矩陣的列數是查詢數，行數是鍵數。",
            ),
        ),
        Mistake(
            "keys_projected_from_queries",
            lambda n_queries, n_keys, d_model, n_heads: (
                projection_flops(4 * n_queries, d_model) + pair_flops(n_queries, n_keys, d_model)
            ),
            both(
                "Right when there are as many keys as queries. Keys and values are projections of the M rows, not of the "
                "N.",
                "鍵和查詢一樣多時是對的。鍵與值是由 M 那邊的列投影出來的，不是 N 那邊。",
            ),
        ),
        Mistake(
            "self_attention_only",
            lambda n_queries, n_keys, d_model, n_heads: all_flops(n_queries, n_queries, d_model),
            both(
                "Right for self-attention. Your count does not depend on n_keys: which of the six products have to do with "
                "the M rows?",
                "自注意力時是對的。你的結果和 n_keys 無關：六個乘積裡，哪些和那 M 列有關？",
            ),
        ),
        Mistake(
            "output_projected_over_keys",
            lambda n_queries, n_keys, d_model, n_heads: (
                projection_flops(n_queries + 3 * n_keys, d_model) + pair_flops(n_queries, n_keys, d_model)
            ),
            both(
                "Right when there are as many keys as queries. The output has one row for each query, so its projection runs "
                "over the queries.",
                "鍵和查詢一樣多時是對的。輸出的列數等於查詢數，所以輸出的投影是對查詢那邊做的。",
            ),
        ),
        Mistake(
            "one_head_scores",
            lambda n_queries, n_keys, d_model, n_heads: (
                projection_flops(2 * n_queries + 2 * n_keys, d_model)
                + pair_flops(n_queries, n_keys, d_model // n_heads)
            ),
            both(
                "The projections are right, but scores and mixing are those of a single head. There are n_heads of them.",
                "投影的部分對了，但分數與混合只算了一個頭。頭有 n_heads 個。",
            ),
        ),
        Mistake(
            "output_projection_missing",
            lambda n_queries, n_keys, d_model, n_heads: (
                all_flops(n_queries, n_keys, d_model) - projection_flops(n_queries, d_model)
            ),
            both(
                "One projection is missing: after the heads have been merged, one more matrix mixes them.",
                "少了一個投影：頭合併之後，還有一個矩陣把它們混合。",
            ),
        ),
        Mistake(
            "mixing_missing",
            lambda n_queries, n_keys, d_model, n_heads: (
                all_flops(n_queries, n_keys, d_model) - pair_flops(n_queries, n_keys, d_model) // 2
            ),
            both(
                "You count one product between tokens. There are two: queries with keys, and weights with values.",
                "詞元之間的乘積你只算了一個。其實有兩個：查詢乘鍵，以及權重乘值。",
            ),
        ),
        Mistake(
            "float_count",
            lambda n_queries, n_keys, d_model, n_heads: float(all_flops(n_queries, n_keys, d_model)),
            both(
                "Your result is a float: a single slash makes one, and large counts lose digits in it. Counts are whole "
                "numbers.",
                "你的結果是 float：單斜線的除法會變成浮點數，數字一大就會丟掉位數。個數要用整數。",
            ),
        ),
    ],
    hints=[
        both(
            "A product of an n × p and a p × m matrix fills n·m entries, each with p multiply-adds. List the six products "
            "and their shapes.",
            "n × p 矩陣乘 p × m 矩陣，要填 n·m 格，每格做 p 次乘加。把六個乘積和它們的形狀列出來。",
        ),
        both(
            "Four products are projections with a square matrix; sort them by the number of rows that go in. Two are done in "
            "every head, with d_head in the place of p or m.",
            "其中四個是乘上方陣的投影，按照輸入有幾列來分。另外兩個每個頭都要做，d_head 出現在 p 或 m 的位置。",
        ),
    ],
)

# ------------------------------------------------------------------------------------ grouped_query_attention


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


def grouped(x: Tensor, like: Tensor) -> Tensor:
    """Each key/value head once for every query head of its group."""
    return x.repeat_interleave(like.shape[1] // x.shape[1], dim=1)


def repeated(x: Tensor, like: Tensor) -> Tensor:
    return x.repeat(1, like.shape[1] // x.shape[1], 1, 1)


def averaged(x: Tensor, like: Tensor) -> Tensor:
    return x.mean(dim=1, keepdim=True)


def first_only(x: Tensor, like: Tensor) -> Tensor:
    return x[:, :1]


Spread = Callable[[Tensor, Tensor], Tensor]
Weigh = Callable[[Tensor, Tensor | None], Tensor]


def attention_with(
    keys: Spread = grouped,
    values: Spread = grouped,
    weigh: Weigh = masked_weights,
    scale: Callable[[Tensor, Tensor], float] = lambda q, v: 1 / math.sqrt(q.shape[-1]),
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Grouped attention with some of its steps done otherwise."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        weights = weigh(q @ keys(k, q).mT * scale(q, v), mask)
        weights = weights.expand(-1, q.shape[1], -1, -1)
        return weights @ values(v, q), weights

    return attention


right_attention = attention_with()


def queries_averaged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    n_kv = k.shape[1]
    q = q.unflatten(1, (n_kv, q.shape[1] // n_kv)).mean(dim=2)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = masked_weights(scores, mask if mask is None or mask.ndim < 4 else mask[:, :1])
    return weights @ v, weights


def with_an_axis_for_groups(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scores [B, n_kv, h / n_kv, N, M], and only a mask of four axes brought into that form."""
    q = q.unflatten(1, (k.shape[1], -1))
    if mask is not None and mask.ndim == 4:
        mask = mask.unsqueeze(2) if mask.shape[1] == 1 else mask.unflatten(1, q.shape[1:3])
    weights = masked_weights(q @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1]), mask)
    return (weights @ v.unsqueeze(2)).flatten(1, 2), weights.flatten(1, 2)


def draw_grouped(draw: Draw, B: int, h: int, n_kv: int, N: int, M: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    return draw.normal(B, h, N, d_k, std=1.5), draw.normal(B, n_kv, M, d_k, std=1.5), draw.normal(B, n_kv, M, d_v)


def draw_grouped_masked_row(draw: Draw) -> tuple[Tensor, ...]:
    mask = draw.mask(2, 1, 3, 5)
    mask[0, 0, 1], mask[1, 0, 2] = False, False
    return *draw_grouped(draw, 2, 4, 2, 3, 5, 3, 2), mask


exercise(
    name="grouped_query_attention",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=grouped_query_attention,
    exact_zeros=True,
    results=("output", "weights"),
    forbidden=ATTENTION,
    cases=[
        Case(
            "two_groups",
            both("6 query heads, 2 key/value heads", "6 個查詢頭、2 個鍵與值的頭"),
            lambda d: draw_grouped(d, 2, 6, 2, 3, 5, 4, 3),
            3,
        ),
        Case(
            "three_groups",
            both("6 query heads, 3 key/value heads", "6 個查詢頭、3 個鍵與值的頭"),
            lambda d: draw_grouped(d, 1, 6, 3, 4, 3, 2, 5),
            2,
        ),
        Case(
            "multi_query",
            both("one key/value head for all (MQA)", "全部共用一個鍵與值的頭（MQA）"),
            lambda d: draw_grouped(d, 2, 4, 1, 5, 3, 6, 2),
            1.5,
        ),
        Case(
            "multi_head",
            both("as many key/value heads as query heads (MHA)", "鍵與值的頭和查詢頭一樣多（MHA）"),
            lambda d: draw_grouped(d, 2, 3, 3, 4, 6, 5, 2),
        ),
        Case(
            "pair_mask",
            both("groups and a mask [N, M]", "有分組，以及遮罩 [N, M]"),
            lambda d: (*draw_grouped(d, 2, 4, 2, 3, 5, 6, 4), d.mask(3, 5)),
            2,
        ),
        Case(
            "padding_mask",
            both("groups and a padding mask [B, 1, 1, M], by name", "有分組，用名稱給填補遮罩 [B, 1, 1, M]"),
            lambda d: (draw_grouped(d, 2, 6, 2, 4, 5, 3, 2), {"mask": d.mask(2, 1, 1, 5)}),
            1.5,
        ),
        Case(
            "mask_per_head",
            both("groups and a mask [B, h, N, M]", "有分組，以及遮罩 [B, h, N, M]"),
            lambda d: (*draw_grouped(d, 2, 4, 2, 3, 5, 2, 3), d.mask(2, 4, 3, 5)),
        ),
        Case(
            "mask_of_heads",
            both("groups and a mask [h, N, M] for all sentences", "有分組，以及所有句子共用的遮罩 [h, N, M]"),
            lambda d: (*draw_grouped(d, 4, 4, 2, 3, 5, 3, 2), d.mask(4, 3, 5)),
            0.5,
            trap=True,
        ),
        Case(
            "masked_row",
            both("a row with nothing to attend to", "有一列沒有東西可看"),
            draw_grouped_masked_row,
            1.5,
            trap=True,
        ),
        float64(lambda d: draw_grouped(d, 2, 6, 3, 3, 4, 2, 5)),
        noncontiguous(lambda d: draw_grouped(d, 2, 4, 2, 5, 3, 4, 2)),
        gradients(lambda d: (*draw_grouped(d, 2, 6, 2, 3, 5, 4, 2), d.mask(3, 5)), 1.5),
        Case(
            "masked_row_gradients",
            both("finite gradients with a fully masked row", "有整列被遮住時，梯度也要是有限值"),
            draw_grouped_masked_row,
            gradients=True,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "repeat_for_interleave",
            attention_with(keys=repeated, values=repeated),
            both(
                "You repeat the whole row of key/value heads, so neighbours read different ones: 0, 1, 0, 1. Query heads "
                "of one group stand side by side: 0, 0, 1, 1.",
                "你把整排鍵與值的頭重複了，於是相鄰的查詢頭讀到不同的頭：0、1、0、1。同一組的查詢頭是相鄰的：0、0、1、1。",
            ),
        ),
        Mistake(
            "values_not_grouped",
            attention_with(values=repeated),
            both(
                "The weights are right, but the values are handed out in another order than the keys. A query head reads "
                "keys and values of the same head.",
                "權重是對的，但值的分配順序和鍵不同。一個查詢頭讀的鍵和值要來自同一個頭。",
            ),
        ),
        Mistake(
            "keys_not_grouped",
            attention_with(keys=repeated),
            both(
                "Your values are handed out in groups, your keys in another order. A query head reads keys and values of "
                "the same head.",
                "你的值有照組分配，鍵的順序卻不同。一個查詢頭讀的鍵和值要來自同一個頭。",
            ),
        ),
        Mistake(
            "first_kv_head_only",
            attention_with(keys=first_only, values=first_only),
            both(
                "All your query heads read the first key/value head. Each group has its own.",
                "你的查詢頭全都讀第一個鍵與值的頭。每一組有自己的頭。",
            ),
        ),
        Mistake(
            "kv_heads_averaged",
            attention_with(keys=averaged, values=averaged),
            both(
                "You average the key/value heads into one. Each group of query heads reads its own.",
                "你把鍵與值的頭平均成一個了。每一組查詢頭各讀自己的。",
            ),
        ),
        Mistake(
            "queries_averaged",
            queries_averaged,
            both(
                "You average the queries of a group, and the query heads are gone. Keys and values are shared, queries are "
                "not: all h heads come out.",
                "你把同一組的查詢平均了，查詢頭就消失了。共用的是鍵與值，不是查詢：h 個頭都要出現在結果裡。",
            ),
        ),
        Mistake(
            "groups_left_open",
            lambda q, k, v, mask=None: tuple(
                part.unflatten(1, (k.shape[1], -1)) for part in right_attention(q, k, v, mask)
            ),
            both(
                "Your result still has an axis for the groups and one for the heads inside them. Join the two: [B, h, N, "
                "…].",
                "你的結果還分成「組」和「組內的頭」兩個軸。把它們併起來：[B, h, N, …]。",
            ),
        ),
        Mistake(
            "scale_missing",
            attention_with(scale=lambda q, v: 1.0),
            both(
                "Your scores are not scaled: the root of lesson 03 is missing.",
                "你的分數沒有縮放：少了第 03 課的根號。",
            ),
        ),
        Mistake(
            "scale_d_v",
            attention_with(scale=lambda q, v: 1 / math.sqrt(v.shape[-1])),
            both(
                "You take the size of the values for the scale. Scores are inner products of queries and keys.",
                "你拿值的維度來縮放。分數是查詢與鍵的內積。",
            ),
        ),
        Mistake(
            "scale_all_heads",
            attention_with(scale=lambda q, v: 1 / math.sqrt(q.shape[1] * q.shape[-1])),
            both(
                "You scale by the width of all heads together. A score is an inner product inside one head.",
                "你用所有頭加起來的寬度來縮放。分數是在一個頭裡面做的內積。",
            ),
        ),
        Mistake(
            "mask_inverted",
            attention_with(weigh=lambda scores, mask: masked_weights(scores, None if mask is None else ~mask)),
            both(
                "Your mask works the wrong way round: the hidden keys get all the weight. In this course True means: may "
                "attend.",
                "你的遮罩用反了：被遮住的鍵反而拿走全部權重。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "mask_ignored",
            attention_with(weigh=lambda scores, mask: torch.softmax(scores, dim=-1)),
            both(
                "Your result does not depend on the mask. Hide the keys before scores become weights.",
                "你的結果和遮罩無關。要在分數變成權重之前把鍵遮住。",
            ),
        ),
        Mistake(
            "mask_after_softmax",
            attention_with(weigh=weights_masked_afterwards),
            both(
                "The hidden keys are removed after the softmax, so the open ones no longer sum to 1. Hide them before "
                "the weights are shared out.",
                "你在 softmax 之後才把遮住的鍵拿掉，剩下的權重加起來就不是 1 了。要在分配權重之前就遮住。",
            ),
        ),
        Mistake(
            "masked_row_nan",
            attention_with(weigh=lambda scores, mask: filled_weights(scores, mask, -math.inf)),
            both(
                "A row with nothing to attend to gives NaN: the softmax of nothing but −inf is 0/0. Such a row gets "
                "zeros.",
                "整列都被遮住時出現 NaN：全是 −inf 的 softmax 是 0/0。這種列要得到 0。",
            ),
        ),
        Mistake(
            "masked_row_averages",
            attention_with(weigh=lambda scores, mask: filled_weights(scores, mask, -1e9)),
            both(
                "In a row with nothing to attend to, your weights are spread evenly over the hidden keys: all scores are "
                "the same large negative number there. Such a row gets zeros.",
                "整列都被遮住時，你的權重平均分給了被遮住的鍵，因為那裡的分數全是同一個很大的負數。這種列要得到 0。",
            ),
        ),
        Mistake(
            "nan_repaired_afterwards",
            attention_with(weigh=weights_with_nan_repaired),
            both(
                "The values are right, but the NaN is only painted over: backwards it is still there and spoils the "
                "gradients. Do not let it arise.",
                "數值是對的，但 NaN 只是被蓋掉：反向傳播時它還在，梯度就壞了。不要讓它出現。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            attention_with(
                weigh=lambda scores, mask: torch.softmax(
                    scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=-2
                )
            ),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda q, k, v, mask=None: right_attention(q, k, v, mask)[::-1],
            both(
                "The two results have changed places: first the output, then the weights.",
                "兩個結果對調了：先輸出，再權重。",
            ),
        ),
        Mistake(
            "mask_of_heads_read_as_batch",
            lambda q, k, v, mask=None: right_attention(q, k, v, with_an_axis_for_heads(mask)),
            MASK_OF_HEADS,
        ),
        Mistake(
            "mask_of_heads_not_grouped",
            with_an_axis_for_groups,
            both(
                "A mask [h, N, M] stops your function: your scores have an axis for the groups and one for the heads inside "
                "a group, and a mask of three axes has not been brought into that form.",
                "遇到遮罩 [h, N, M]，你的函式會中斷：你的分數有組的軸，還有組內的頭的軸，三個軸的遮罩卻還沒排成這個樣子。",
            ),
        ),
        Mistake(
            "output_only",
            lambda q, k, v, mask=None: right_attention(q, k, v, mask)[0],
            both(
                "You return the output alone. The weights are asked for as well, as the second part of a tuple.",
                "你只回傳輸出。權重也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "How many query heads share one key/value head? Everything else is attention as you know it.",
            "幾個查詢頭共用一個鍵與值的頭？其餘就是你已經會的注意力。",
        ),
        both(
            "Write down, for h = 6 and n_kv = 2, which key/value head each query head reads: 0, 0, 0, 1, 1, 1. Which of "
            "torch's two ways of repeating gives this order?",
            "以 h = 6、n_kv = 2 為例，寫下每個查詢頭讀哪個鍵與值的頭：0、0、0、1、1、1。torch 有兩種重複的函式，哪一種會得到這個順序？",
        ),
        both(
            "Nothing is copied if you give the queries an axis for the groups, [B, n_kv, h / n_kv, N, d_k], and keys and "
            "values an axis of length 1 at that place. Mind the mask, and join the axes at the end.",
            "也可以不複製：替查詢加一個組的軸，[B, n_kv, h / n_kv, N, d_k]，鍵與值在同一個位置加長度為 1 的軸。"
            "遮罩也要顧到，最後再把軸併回去。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- questions

question(
    name="04_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "eight_times_the_parameters",
            "a",
            both(
                "Each of the eight is only 64 wide: 8 · 512 · 64 = 512 · 512. Side by side they fill the very same matrices.",
                "八個頭每個只有 64 寬：8 · 512 · 64 = 512 · 512。並排起來，剛好填滿同樣的矩陣。",
            ),
        ),
        Mistake(
            "eight_times_the_diversity",
            "b",
            both(
                "Diversity is a number only once someone says how to count it. There are eight maps instead of one, but "
                "each with a score form of rank 64 at most instead of 512, and trained heads are often alike.",
                "「多樣性」要先說好怎麼量，才談得上幾倍。注意力圖確實從一張變成八張，但每一張的分數矩陣秩最多 64，不是 512；訓練好的頭也常常很像。",
            ),
        ),
        Mistake(
            "always_the_same_time",
            "c",
            both(
                "The matrix products are the same, but there are eight times as many weights to make and to move through memory. "
                "What you have measured above depends on N and on the kernel.",
                "矩陣乘法一樣多，但要產生、要搬進搬出記憶體的權重是八倍。上面量到的時間會隨 N 與核心（kernel）而變。",
            ),
        ),
    ],
    hints=[
        both(
            "Go through four things one by one: the weights of the layer, the matrix products, the entries of the attention "
            "maps, the rank of one map's scores.",
            "四樣東西一個一個看：這一層的參數、矩陣乘法、注意力圖的格數、一張圖的分數的秩。",
        ),
    ],
)
