"""Lesson 10, the KV cache: growing it, one step, a prompt in chunks, its bytes, its operations, and drawing a token.

Shapes: B batch, N prompt tokens, t tokens in the cache, n new ones, L positions in the table, V vocabulary, h heads of
the queries, h_kv of keys and values, d = d_model.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import ATTENTION, FLOP_COUNTERS, WAYS_OUT_OF_TORCH
from autograder.exercises.shared import float64, noncontiguous, smallest, transposed_memory
from autograder.text import both

LESSON = "10_kv_cache"

# ------------------------------------------------------------------------------------------------------ append_kv

Entry = tuple[Tensor, Tensor] | None


def append_kv(cache: list[Entry], layer: int, k_new: Tensor, v_new: Tensor) -> list[Entry]:
    old = cache[layer]
    grown = (k_new, v_new) if old is None else (torch.cat((old[0], k_new), dim=2), torch.cat((old[1], v_new), dim=2))
    return [*cache[:layer], grown, *cache[layer + 1 :]]


Growing = Callable[[Entry, Tensor, Tensor], Any]


def grown(old: Entry, k_new: Tensor, v_new: Tensor, dim: int = 2) -> tuple[Tensor, Tensor]:
    if old is None:
        return k_new, v_new
    return torch.cat((old[0], k_new), dim=dim), torch.cat((old[1], v_new), dim=dim)


def growing(grow: Growing) -> Callable[..., list[Any]]:
    """`append_kv` with another way to make the layer's entry."""

    def answer(cache: list[Any], layer: int, k_new: Tensor, v_new: Tensor) -> list[Any]:
        return [grow(entry, k_new, v_new) if i == layer else entry for i, entry in enumerate(cache)]

    return answer


def append_in_place(cache: list[Entry], layer: int, k_new: Tensor, v_new: Tensor) -> list[Entry]:
    cache[layer] = grown(cache[layer], k_new, v_new)
    return cache


def draw_pair(draw: Draw, B: int, h: int, n: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor]:
    return draw.normal(B, h, n, d_k), draw.normal(B, h, n, d_v)


def draw_growth(
    draw: Draw, held: list[int], layer: int, n: int, B: int = 2, h: int = 3, d_k: int = 4, d_v: int = 5
) -> tuple[Any, ...]:
    """`held`: how many tokens each layer holds; 0 for None."""
    cache = [draw_pair(draw, B, h, t, d_k, d_v) if t else None for t in held]
    return cache, layer, *draw_pair(draw, B, h, n, d_k, d_v)


exercise(
    name="append_kv",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=append_kv,
    results=("cache",),
    cases=[
        Case(
            "one_token",
            both("three layers filled, one new token", "三層都有內容，一個新詞元"),
            lambda d: draw_growth(d, [4, 4, 4], 1, 1),
            3,
        ),
        Case(
            "several_tokens",
            both("several new tokens, the last layer", "好幾個新詞元，最後一層"),
            lambda d: draw_growth(d, [5, 5, 2], 2, 3),
            2,
        ),
        Case(
            "empty",
            both("an empty cache", "空的快取"),
            lambda d: draw_growth(d, [0, 0, 0], 0, 4),
            2,
        ),
        Case(
            "some_empty",
            both("this layer empty, others filled", "這一層是空的，其他層有內容"),
            lambda d: draw_growth(d, [3, 0, 0], 1, 3),
        ),
        Case(
            "all_sizes_equal",
            both("as many new tokens as old ones, heads and components", "新詞元、舊詞元、頭、分量都一樣多"),
            lambda d: draw_growth(d, [3, 3], 0, 3, B=3, h=3, d_k=3, d_v=3),
            2,
        ),
        Case(
            "float16",
            both("float16 stays float16", "float16 維持 float16"),
            lambda d: draw_growth(d, [2, 3, 2], 1, 2),
            0.5,
            torch.float16,
            trap=True,
        ),
        smallest(lambda d: draw_growth(d, [1], 0, 1, B=1, h=1, d_k=1, d_v=1)),
        float64(lambda d: draw_growth(d, [2, 2], 1, 1), 0.5),
        noncontiguous(lambda d: draw_growth(d, [3, 3], 0, 2), 0.5),
    ],
    mistakes=[
        Mistake(
            "mutates_the_cache",
            append_in_place,
            both(
                "You put the new entry into the list that was given. Whoever still holds that list (a beam that goes on "
                "another way) would find a token in it that is not its own.",
                "你把新的內容放進別人給你的串列。還拿著那個串列的人（例如走另一條路的束）會在裡面看到不屬於自己的詞元。",
            ),
        ),
        Mistake(
            "layers_share",
            lambda cache, layer, k_new, v_new: [grown(cache[layer], k_new, v_new)] * len(cache),
            both(
                "All layers get this layer's entry. Each layer has keys and values of its own.",
                "每一層都拿到了這一層的內容。每一層都有自己的鍵和值。",
            ),
        ),
        Mistake(
            "every_layer_grows",
            lambda cache, layer, k_new, v_new: [grown(entry, k_new, v_new) for entry in cache],
            both(
                "You append the new tokens to every layer. They are the keys and values of one layer; the others compute "
                "their own.",
                "你把新詞元接到每一層。這些鍵和值只屬於一層，其他層會算自己的。",
            ),
        ),
        Mistake(
            "prepends",
            growing(lambda old, k, v: (k, v) if old is None else grown((k, v), *old)),
            both(
                "The new tokens stand before the old ones. Time runs along the sequence axis: new ones go to the end.",
                "新詞元排到了舊詞元前面。序列軸就是時間順序，新的要放在最後。",
            ),
        ),
        Mistake(
            "replaces_the_past",
            growing(lambda old, k, v: (k, v)),
            both(
                "The layer holds nothing but the new tokens: the past is gone.",
                "這一層只剩新詞元，過去的都不見了。",
            ),
        ),
        Mistake(
            "past_only",
            growing(lambda old, k, v: old if old is not None else (k, v)),
            both(
                "The layer is what it was: the new tokens are missing.",
                "這一層和原來一樣：新詞元沒有放進去。",
            ),
        ),
        Mistake(
            "head_axis",
            growing(lambda old, k, v: grown(old, k, v, 1)),
            both(
                "You join along the heads, so that there are more heads, not more tokens. The axes are batch, heads, "
                "sequence, components.",
                "你沿著頭的軸接，結果變多的是頭，不是詞元。四個軸依序是批次、頭、序列、分量。",
            ),
        ),
        Mistake(
            "batch_axis",
            growing(lambda old, k, v: grown(old, k, v, 0)),
            both(
                "You join along the batch, so that there are more sequences, not longer ones. The axes are batch, heads, "
                "sequence, components.",
                "你沿著批次的軸接，結果是序列變多，不是變長。四個軸依序是批次、頭、序列、分量。",
            ),
        ),
        Mistake(
            "component_axis",
            growing(lambda old, k, v: grown(old, k, v, -1)),
            both(
                "You join along the last axis, so that the vectors get longer, not the sequence. The axes are batch, heads, "
                "sequence, components.",
                "你沿著最後一個軸接，結果變長的是向量，不是序列。四個軸依序是批次、頭、序列、分量。",
            ),
        ),
        Mistake(
            "keys_for_values",
            growing(lambda old, k, v: grown(old, k, k)),
            both(
                "You append the new keys to the values as well. Values have their own new tokens, and may have another width.",
                "你把新的鍵也接到值那邊。值有自己的新詞元，寬度也可能不同。",
            ),
        ),
        Mistake(
            "swapped",
            growing(lambda old, k, v: grown(old, k, v)[::-1]),
            both(
                "Keys and values have changed places: an entry is the keys first, then the values.",
                "鍵和值放反了：一層的內容是先鍵後值。",
            ),
        ),
        Mistake(
            "layer_added",
            lambda cache, layer, k_new, v_new: [*cache, grown(cache[layer], k_new, v_new)],
            both(
                "Your list is one entry longer. The layer's new entry takes the place of its old one.",
                "你的串列多了一個元素。這一層的新內容要放在原來的位置上。",
            ),
        ),
        Mistake(
            "entry_only",
            lambda cache, layer, k_new, v_new: grown(cache[layer], k_new, v_new),
            both(
                "You return the entry of one layer. What is asked for is the whole list, with all layers.",
                "你只回傳了一層的內容。要回傳的是整個串列，每一層都在。",
            ),
        ),
        Mistake(
            "none_forgotten",
            growing(lambda old, k, v: (torch.cat((old[0], k), dim=2), torch.cat((old[1], v), dim=2))),  # type: ignore[index]
            both(
                "Right for layers that hold something. An empty layer is None, and then there is nothing to join to.",
                "有內容的層是對的。空的層是 None，這時沒有東西可以接。",
            ),
        ),
    ],
    hints=[
        both(
            "What is the layer's new entry? Two cases: the layer was empty (None), or it held keys and values already.",
            "這一層的新內容是什麼？分兩種情況：原本是空的（None），或者已經有鍵和值。",
        ),
        both(
            "Joining two tensors makes a new one and leaves both as they are. Find out which of the four axes counts tokens.",
            "把兩個張量接起來會產生新的張量，原來兩個都不變。先看清楚四個軸裡哪一個在數詞元。",
        ),
        both(
            "Then build a new list from three pieces: the layers before, the new entry, the layers after.",
            "然後用三段組出新的串列：前面的層、新的內容、後面的層。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------------- decode_step


def decode_step(
    token: Tensor,
    cache: Entry,
    embedding: Tensor,
    positions: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    old_k, old_v = cache or (None, None)
    t = 0 if old_k is None else old_k.shape[2]
    if t >= len(positions):
        raise ValueError(f"position {t} is beyond the table of {len(positions)}")
    x = embedding[token] + positions[t]  # [B, 1, d_model]
    q = (x @ w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2)  # [B, h, 1, d_k]
    k = (x @ w_k).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)  # [B, h_kv, 1, d_k]
    v = (x @ w_v).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)
    k, v = joined(old_k, k), joined(old_v, v)  # [B, h_kv, t + 1, d_k]
    group = n_heads // n_kv_heads
    scores = q @ k.repeat_interleave(group, dim=1).mT / math.sqrt(q.shape[-1])  # [B, h, 1, t + 1]
    heads = torch.softmax(scores, dim=-1) @ v.repeat_interleave(group, dim=1)  # [B, h, 1, d_k]
    return heads.transpose(1, 2).flatten(2) @ w_o, (k, v)


def split(x: Tensor, n_heads: int) -> Tensor:
    """[B, n, h·d_k] → [B, h, n, d_k]."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def split_by_view(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(x.shape[0], n_heads, x.shape[1], -1)


def merged(heads: Tensor) -> Tensor:
    """[B, h, n, d_k] → [B, n, h·d_k]."""
    return heads.transpose(1, 2).flatten(2)


def merged_by_view(heads: Tensor) -> Tensor:
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


def joined(old: Tensor | None, new: Tensor) -> Tensor:
    return new if old is None else torch.cat((old, new), dim=2)


def only_old(old: Tensor | None, new: Tensor) -> Tensor:
    return new if old is None else old


def only_new(old: Tensor | None, new: Tensor) -> Tensor:
    return new


def new_first(old: Tensor | None, new: Tensor) -> Tensor:
    return new if old is None else torch.cat((new, old), dim=2)


def places(start: int, n: int) -> Tensor:
    return torch.arange(start, start + n)


def bottom_right(n: int, m: int) -> Tensor:
    return torch.arange(m) <= torch.arange(m - n, m)[:, None]


def weighed(scores: Tensor, visible: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)


def weighed_along(dim: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, visible: torch.softmax(scores.masked_fill(~visible, -math.inf), dim=dim)


@dataclass(frozen=True)
class Variant:
    """The layer of both exercises with parts that can be exchanged: a mistake exchanges one.

    Attributes:
        place: rows of the position table for n tokens after `start` others.
        enter: token rows and position rows to x.
        split, merge: into heads and back.
        expand: key–value heads to query heads.
        read: which keys (or values) are attended to, of the old and the new.
        keep: which are returned.
        visible: Boolean [n, m].
        weigh: scores [B, h, n, m] and `visible` to weights.
        scale: what scores are divided by, from d_k and d_model.
        value: x, w_k, w_v to values.
        finish: merged heads, x, w_o to the output.
        checks: whether too long a sequence is refused.
    """

    place: Callable[[int, int], Tensor] = places
    enter: Callable[[Tensor, Tensor], Tensor] = torch.add
    split: Callable[[Tensor, int], Tensor] = split
    merge: Callable[[Tensor], Tensor] = merged
    expand: Callable[[Tensor, int], Tensor] = lambda x, group: x.repeat_interleave(group, dim=1)
    read: Callable[[Tensor | None, Tensor], Tensor] = joined
    keep: Callable[[Tensor | None, Tensor], Tensor] = joined
    visible: Callable[[int, int], Tensor] = bottom_right
    weigh: Callable[[Tensor, Tensor], Tensor] = weighed
    scale: Callable[[int, int], float] = lambda d_k, d_model: math.sqrt(d_k)
    value: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, w_k, w_v: x @ w_v
    finish: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda heads, x, w_o: heads @ w_o
    checks: bool = True

    def chunk(
        self,
        tokens: Tensor,
        cache: Entry,
        embedding: Tensor,
        positions: Tensor,
        w_q: Tensor,
        w_k: Tensor,
        w_v: Tensor,
        w_o: Tensor,
        n_heads: int,
        n_kv_heads: int,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        old_k, old_v = cache or (None, None)
        start, n = (0 if old_k is None else old_k.shape[2]), tokens.shape[1]
        if self.checks and start + n > len(positions):
            raise ValueError("too long")
        x = self.enter(embedding[tokens], positions[self.place(start, n)])
        q = self.split(x @ w_q, n_heads)
        k, v = self.split(x @ w_k, n_kv_heads), self.split(self.value(x, w_k, w_v), n_kv_heads)
        seen_k, seen_v = self.read(old_k, k), self.read(old_v, v)
        group = n_heads // n_kv_heads
        scores = q @ self.expand(seen_k, group).mT / self.scale(q.shape[-1], x.shape[-1])
        heads = self.weigh(scores, self.visible(n, seen_k.shape[2])) @ self.expand(seen_v, group)
        return self.finish(self.merge(heads), x, w_o), (self.keep(old_k, k), self.keep(old_v, v))


def step(**changes: Any) -> Callable[..., Any]:
    """`decode_step` with parts of the layer exchanged."""
    variant = Variant(**changes)

    def answer(
        token: Tensor, cache: Entry, embedding: Tensor, positions: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
        w_o: Tensor, n_heads: int, n_kv_heads: int,
    ) -> Any:  # fmt: skip
        return variant.chunk(token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads)

    return answer


def all_heads_cached(
    token: Tensor, cache: Entry, embedding: Tensor, positions: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    w_o: Tensor, n_heads: int, n_kv_heads: int,
) -> Any:  # fmt: skip
    out, (k, v) = step()(token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads)
    group = n_heads // n_kv_heads
    return out, (k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))


def swapped_cache(*args: Any, **kwargs: Any) -> Any:
    out, (k, v) = step()(*args, **kwargs)
    return out, (v, k)


def place_counted_on(axis: int) -> Callable[..., Any]:
    """The place is the length of another axis of the cached keys [B, h_kv, t, d_k]."""

    def answer(
        token: Tensor, cache: Entry, embedding: Tensor, positions: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
        w_o: Tensor, n_heads: int, n_kv_heads: int,
    ) -> Any:  # fmt: skip
        t = 0 if cache is None else cache[0].shape[axis]
        if t >= len(positions):
            raise ValueError("too long")
        return step(checks=False, place=lambda start, n: places(t, n))(
            token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads
        )

    return answer


def with_transposed(*which: str) -> Callable[..., Any]:
    """`x @ w.T` for some of the four matrices; w_k and w_v are square only with as many key–value heads as query heads."""

    def answer(
        token: Tensor, cache: Entry, embedding: Tensor, positions: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
        w_o: Tensor, n_heads: int, n_kv_heads: int,
    ) -> Any:  # fmt: skip
        matrices = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
        turned = {name: w.T if name in which else w for name, w in matrices.items()}
        return step()(token, cache, embedding, positions, **turned, n_heads=n_heads, n_kv_heads=n_kv_heads)

    return answer


def draw_layer(draw: Draw, h: int, h_kv: int, d_k: int, L: int, V: int = 11) -> tuple[Any, ...]:
    """What follows the tokens (and the cache or the chunk size): tables, weights, heads."""
    d = h * d_k
    tables = draw.normal(V, d), draw.normal(L, d)
    weights = [draw.normal(d, columns, std=1.6 / math.sqrt(d)) for columns in (d, h_kv * d_k, h_kv * d_k, d)]
    return *tables, *weights, h, h_kv


def draw_step(draw: Draw, h: int, h_kv: int, d_k: int, t: int, L: int, B: int = 3) -> tuple[Any, ...]:
    """t and t − 1 should differ from B, h_kv and d_k: a place counted on a wrong axis is then no other mistake's."""
    layer = draw_layer(draw, h, h_kv, d_k, L)
    cache = draw_pair(draw, B, h_kv, t, d_k, d_k) if t else None
    return draw.integers(0, 10, B, 1), cache, *layer


STEP_NAMES = ("embedding", "positions", "w_q", "w_k", "w_v", "w_o", "n_heads", "n_kv_heads")


def draw_named_step(draw: Draw) -> tuple[Any, ...]:
    token, cache, *layer = draw_step(draw, 4, 2, 2, 5, 9)
    return (token, cache), dict(zip(STEP_NAMES, layer))


def draw_strided_step(draw: Draw) -> tuple[Any, ...]:
    token, (k, v), *layer = draw_step(draw, 4, 2, 3, 5, 7)
    return token, (transposed_memory(k), transposed_memory(v)), *map(transposed_memory, layer)


REPEAT = both(
    "You repeat the key–value heads in turn (0 1 0 1); neighbours share one (0 0 1 1). With one key–value head, or as many "
    "as query heads, there is no difference.",
    "你讓鍵值頭輪流重複（0 1 0 1）；其實相鄰的查詢頭才共用一個（0 0 1 1）。鍵值頭只有一個、或和查詢頭一樣多時，看不出差別。",
)
TRANSPOSED = both(
    "You multiply by a transpose. Which side x stands on, and which axis of the matrix meets it, the docstring says; a square matrix does not complain if it is turned.",
    "你乘的是轉置。x 站在哪一邊、和矩陣的哪一個軸相乘，docstring 寫得很清楚；方陣就算轉置了也不會報錯。",
)
NO_ROOT = both(
    "You divide the scores by d_k itself. What standardises them is its root.",
    "你把分數除以 d_k 本身。要用的是它的平方根。",
)
NO_SCALE = both("The scores are not divided by the root of d_k.", "分數沒有除以 d_k 的平方根。")
WIDE_SCALE = both(
    "You scale by the width of the model. What counts is d_k, the width of one head.",
    "你用整個模型的寬度來縮放。該用的是一個頭的寬度 d_k。",
)
NO_POSITIONS = both(
    "No position is added: x is the token's row plus the row of its place.",
    "沒有加上位置：x 是詞元那一列加上它所在位置的那一列。",
)
FROM_ONE = both(
    "Your positions count from 1. The first token stands at 0, and with t tokens before it a token stands at t.",
    "你的位置從 1 數起。第一個詞元在 0，前面有 t 個詞元的就在 t。",
)
ROOT_EMBEDDING = both(
    "You multiply the embedding by a root, as in 2017. GPT-2's layer, asked for here, does not.",
    "你把嵌入乘上一個平方根，那是 2017 年的做法。這裡要的是 GPT-2 的，不用乘。",
)
NO_OUTPUT = both(
    "The heads are joined but not mixed: the output matrix is missing.",
    "各個頭接起來了，卻沒有混合：少了輸出矩陣。",
)
RESIDUAL = both(
    "You add x to the result. No residual is asked for here, only the attention.",
    "你把 x 加到結果上。這裡只要注意力，不要殘差。",
)
KEYS_AS_VALUES = both(
    "Your values are made with the keys' matrix.",
    "你的值是用鍵的矩陣算出來的。",
)
NO_REFUSAL = both(
    "The position table has an end. Look at the number of tokens before you read the table: beyond its last row a "
    "ValueError is asked for.",
    "位置表是有盡頭的。讀表之前先看詞元數：超過最後一列時，要 raise ValueError。",
)

exercise(
    name="decode_step",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=decode_step,
    results=("out", "cache"),
    forbidden=ATTENTION,
    cases=[
        Case(
            "first",
            both("the first token, no cache yet", "第一個詞元，還沒有快取"),
            lambda d: draw_step(d, 2, 2, 3, 0, 5),
        ),
        Case(
            "mha",
            both("as many key–value heads as query heads", "鍵值頭和查詢頭一樣多"),
            lambda d: draw_step(d, 3, 3, 2, 5, 9),
            2,
        ),
        Case(
            "gqa",
            both("four query heads share two key–value heads", "四個查詢頭共用兩個鍵值頭"),
            lambda d: draw_step(d, 4, 2, 3, d.integer(5, 7), 9),
            3,
        ),
        Case(
            "mqa",
            both("all query heads share one", "所有查詢頭共用一個鍵值頭"),
            lambda d: draw_step(d, 3, 1, 4, 5, 8, B=2),
        ),
        Case("named", both("arguments by name", "用名稱給引數"), draw_named_step),
        Case(
            "last_place",
            both("the last row of the position table", "位置表的最後一列"),
            lambda d: draw_step(d, 2, 1, 4, 5, 6),
        ),
        Case(
            "table_full",
            both("no position left: ValueError", "位置用完了：ValueError"),
            lambda d: draw_step(d, 2, 1, 4, 5, 5),
            0.75,
            trap=True,
            raises="ValueError",
        ),
        Case(
            "one_row",
            both("a batch of one", "批次裡只有一列"),
            lambda d: draw_step(d, 4, 2, 3, 5, 9, B=1),
            0.5,
            trap=True,
        ),
        smallest(lambda d: draw_step(d, 1, 1, 1, 0, 1, B=1)),
        float64(lambda d: draw_step(d, 4, 2, 2, 5, 7), 0.5),
        Case(
            "noncontiguous",
            both(
                "inputs whose memory is not contiguous (as after a transpose)",
                "記憶體不連續的輸入（例如轉置之後）",
            ),
            draw_strided_step,
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "position_restarts",
            step(place=lambda start, n: places(0, n)),
            both(
                "Your token always stands at position 0. Its place is behind all tokens in the cache.",
                "你的詞元永遠站在位置 0。它的位置在快取裡所有詞元的後面。",
            ),
        ),
        Mistake("position_from_one", step(place=lambda start, n: places(start + 1, n)), FROM_ONE),
        Mistake(
            "position_of_the_newest",
            step(place=lambda start, n: places(max(start - 1, 0), n)),
            both(
                "Your token stands where the newest token of the cache stands already: one place too early.",
                "你的詞元站在快取裡最新那個詞元的位置上：早了一格。",
            ),
        ),
        Mistake(
            "place_from_the_heads",
            place_counted_on(1),
            both(
                "The place you read grows with the number of key–value heads, not with the text. Which axis of the cached "
                "keys counts tokens?",
                "你讀到的位置跟著鍵值頭的個數變，而不是跟著文字變長。快取裡的鍵，哪一個軸在數詞元？",
            ),
        ),
        Mistake(
            "place_from_the_batch",
            place_counted_on(0),
            both(
                "The place you read is the number of sequences in the batch. Which axis of the cached keys counts tokens?",
                "你讀到的位置是批次裡的序列數。快取裡的鍵，哪一個軸在數詞元？",
            ),
        ),
        Mistake("positions_missing", step(enter=lambda rows, where: rows), NO_POSITIONS),
        Mistake(
            "scaled_embedding", step(enter=lambda rows, where: rows * math.sqrt(rows.shape[-1]) + where), ROOT_EMBEDDING
        ),
        Mistake(
            "new_token_unseen",
            step(read=only_old),
            both(
                "The new token attends to the cache but not to itself. Append its key and value first.",
                "新詞元看得到快取，卻看不到自己。先把它的鍵和值接上去。",
            ),
        ),
        Mistake(
            "cache_unused",
            step(read=only_new),
            both(
                "The new token attends to itself alone: the cache is carried along but not read.",
                "新詞元只看自己：快取帶著走，卻沒有讀。",
            ),
        ),
        Mistake(
            "top_left",
            step(visible=lambda n, m: torch.arange(m) <= torch.arange(n)[:, None]),
            both(
                "The token sees the first key only: a causal mask counted from the first key. The one query stands at the "
                "end and sees all keys, so it needs no mask.",
                "這個詞元只看得到第一個鍵：因果遮罩從第一個鍵數起了。唯一的查詢站在最後，全部的鍵都看得到，不需要遮罩。",
            ),
        ),
        Mistake(
            "cache_not_grown",
            step(keep=only_old),
            both(
                "You return the cache as it came. The next step needs this token's key and value too.",
                "你把快取原樣還回去。下一步也需要這個詞元的鍵和值。",
            ),
        ),
        Mistake(
            "only_new_returned",
            step(keep=only_new),
            both(
                "You return the key and value of the new token alone. The cache holds all tokens so far.",
                "你只回傳新詞元的鍵和值。快取要有到目前為止的所有詞元。",
            ),
        ),
        Mistake(
            "prepends",
            step(keep=new_first),
            both(
                "The output is right, but in the returned cache the new token stands in front. It belongs at the end.",
                "輸出是對的，但在回傳的快取裡，新詞元排到了最前面。它要放在最後。",
            ),
        ),
        Mistake("repeat_for_interleave", step(expand=lambda x, group: x.repeat(1, group, 1, 1)), REPEAT),
        Mistake(
            "all_heads_cached",
            all_heads_cached,
            both(
                "You return keys and values repeated for every query head. Sharing saves memory only if the cache holds each "
                "key–value head once.",
                "你回傳的是替每個查詢頭重複過的鍵和值。每個鍵值頭只存一份，共用才省得到記憶體。",
            ),
        ),
        Mistake("keys_for_values", step(value=lambda x, w_k, w_v: x @ w_k), KEYS_AS_VALUES),
        Mistake(
            "cache_swapped",
            swapped_cache,
            both(
                "The returned cache has the values first. It is (k, v).",
                "回傳的快取把值放在前面了。順序是 (k, v)。",
            ),
        ),
        Mistake(
            "first_head_for_all",
            step(expand=lambda x, group: x[:, :1]),
            both(
                "All your query heads read key–value head 0. Each group of neighbours has a key–value head of its own.",
                "你的查詢頭全都讀第 0 個鍵值頭。每一組相鄰的查詢頭有自己的鍵值頭。",
            ),
        ),
        Mistake(
            "softmax_over_heads",
            step(weigh=weighed_along(1)),
            both(
                "Your softmax runs over the heads, so that heads compete. For one query the weights of its keys sum to 1: "
                "which axis of the scores counts keys?",
                "你的 softmax 沿著頭的軸做，變成頭和頭在競爭。同一個查詢對各個鍵的權重加起來才是 1：分數的哪一個軸在數鍵？",
            ),
        ),
        Mistake(
            "softmax_over_batch",
            step(weigh=weighed_along(0)),
            both(
                "Your softmax runs over the batch, so that sequences that know nothing of each other share a sum. Which "
                "axis of the scores counts keys?",
                "你的 softmax 沿著批次的軸做，讓互不相干的序列分同一個總和。分數的哪一個軸在數鍵？",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            step(weigh=weighed_along(-2)),
            both(
                "Every weight is 1, so the values are simply added up: the softmax runs over the queries, and there is "
                "only one. Which axis of the scores counts keys?",
                "每個權重都是 1，等於把值直接加起來：你的 softmax 沿著查詢的軸做，而查詢只有一個。分數的哪一個軸在數鍵？",
            ),
        ),
        Mistake(
            "no_softmax",
            step(weigh=lambda scores, visible: scores),
            both(
                "The scores themselves weigh the values. Weights are positive and sum to 1: the softmax is missing.",
                "你直接拿分數當權重。權重要是正的，加起來是 1：少了 softmax。",
            ),
        ),
        Mistake("query_matrix_transposed", with_transposed("w_q"), TRANSPOSED),
        Mistake("output_matrix_transposed", with_transposed("w_o"), TRANSPOSED),
        Mistake("square_matrices_transposed", with_transposed("w_q", "w_o"), TRANSPOSED),
        Mistake("every_matrix_transposed", with_transposed("w_q", "w_k", "w_v", "w_o"), TRANSPOSED),
        Mistake("divided_by_d_k", step(scale=lambda d_k, d_model: d_k), NO_ROOT),
        Mistake("scale_missing", step(scale=lambda d_k, d_model: 1.0), NO_SCALE),
        Mistake("scale_d_model", step(scale=lambda d_k, d_model: math.sqrt(d_model)), WIDE_SCALE),
        Mistake("no_output_projection", step(finish=lambda heads, x, w_o: heads), NO_OUTPUT),
        Mistake("residual_added", step(finish=lambda heads, x, w_o: x + heads @ w_o), RESIDUAL),
        Mistake("table_end_unnoticed", step(checks=False), NO_REFUSAL),
        Mistake(
            "last_place_again",
            lambda token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads: step(
                checks=False, place=lambda start, n: places(min(start, len(positions) - 1), n)
            )(token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads),
            NO_REFUSAL,
        ),
    ],
    hints=[
        both(
            "How many tokens does the cache hold? That number is the new token's place. Without a cache it is 0.",
            "快取裡有幾個詞元？這個數字就是新詞元的位置。沒有快取時是 0。",
        ),
        both(
            "Project x three times, split into heads, and append the new key and value to the cache before you attend: then "
            "the token sees itself as well.",
            "把 x 投影三次、切成頭，先把新的鍵和值接到快取，再算注意力：這樣詞元也看得到自己。",
        ),
        both(
            "Return the keys and values as they are stored, h_kv heads of them; repeat them for the query heads only on the "
            "way to the scores and to the average.",
            "回傳的鍵和值就是存起來的樣子，有 h_kv 個頭；只有在算分數和平均時，才替查詢頭重複。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ prefill_in_chunks


def prefill_in_chunks(
    tokens: Tensor,
    chunk_size: int,
    embedding: Tensor,
    positions: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    N = tokens.shape[1]
    if len(positions) < N:
        raise ValueError(f"{N} tokens, but {len(positions)} positions")
    group = n_heads // n_kv_heads
    keys, values, outputs = [], [], []
    for start in range(0, N, chunk_size):
        chunk = slice(start, start + chunk_size)
        x = embedding[tokens[:, chunk]] + positions[:N][chunk]  # [B, n, d_model]
        q = (x @ w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2)  # [B, h, n, d_k]
        keys.append((x @ w_k).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2))
        values.append((x @ w_v).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2))
        k, v = torch.cat(keys, dim=2), torch.cat(values, dim=2)  # [B, h_kv, start + n, d_k]
        place = torch.arange(k.shape[2], device=x.device)
        visible = place <= place[start:, None]  # [n, start + n]
        scores = q @ k.repeat_interleave(group, dim=1).mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)
        heads = weights @ v.repeat_interleave(group, dim=1)
        outputs.append(heads.transpose(1, 2).flatten(2) @ w_o)
    return torch.cat(outputs, dim=1), (k, v)


def prefill(
    starts: Callable[[int, int], range] = lambda N, size: range(0, N, size), **changes: Any
) -> Callable[..., Any]:
    """`prefill_in_chunks` with parts of the layer exchanged, or with other chunks."""
    variant = Variant(**changes)

    def answer(
        tokens: Tensor, chunk_size: int, embedding: Tensor, positions: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
        w_o: Tensor, n_heads: int, n_kv_heads: int,
    ) -> Any:  # fmt: skip
        N = tokens.shape[1]
        if variant.checks and len(positions) < N:
            raise ValueError("too long")
        cache: Entry = None
        outputs = []
        for start in starts(N, chunk_size):
            out, cache = variant.chunk(
                tokens[:, start : start + chunk_size], cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads
            )  # fmt: skip
            outputs.append(out)
        return torch.cat(outputs, dim=1), cache

    return answer


def last_chunk_only(tokens: Tensor, chunk_size: int, *layer: Any) -> Any:
    out, cache = prefill()(tokens, chunk_size, *layer)
    return out[:, (tokens.shape[1] - 1) // chunk_size * chunk_size :], cache


def last_token_only(tokens: Tensor, chunk_size: int, *layer: Any) -> Any:
    out, cache = prefill()(tokens, chunk_size, *layer)
    return out[:, -1:], cache


def heads_repeated(tokens: Tensor, chunk_size: int, *layer: Any) -> Any:
    out, cache = prefill()(tokens, chunk_size, *layer)
    group = layer[-2] // layer[-1]
    return out, tuple(x.repeat_interleave(group, 1) for x in cache)


def draw_prompt(
    draw: Draw, N: int, size: int, h: int, h_kv: int, d_k: int, L: int, B: int = 2
) -> tuple[Any, ...]:  # fmt: skip
    layer = draw_layer(draw, h, h_kv, d_k, L)
    return draw.integers(0, 10, B, N), size, *layer


def draw_long_prompt(draw: Draw) -> tuple[Any, ...]:
    return draw_prompt(draw, 512, 16, 2, 1, 4, 520, B=1)


LONG = 512
# Right answers stay below N²/5 here; 64 tokens at a time, chunk_size taken for a number of chunks, take more than N².
SMALL_CHUNKS = 256

exercise(
    name="prefill_in_chunks",
    lesson=LESSON,
    points=4,
    difficulty=4,
    reference=prefill_in_chunks,
    results=("out", "cache"),
    forbidden=(*ATTENTION, *WAYS_OUT_OF_TORCH),
    cases=[
        Case(
            "even",
            both("chunks that fill the prompt", "剛好切完的提示"),
            lambda d: draw_prompt(d, 6, 3, 3, 3, 2, 10),
            2,
        ),
        Case(
            "ragged",
            both("a last chunk that is shorter, two key–value heads", "最後一塊比較短，兩個鍵值頭"),
            lambda d: draw_prompt(d, 8, 3, 4, 2, 3, 10),
            3,
        ),
        Case(
            "one_chunk",
            both("a chunk larger than the prompt", "一塊就比整個提示還大"),
            lambda d: draw_prompt(d, 4, 7, 2, 2, 3, 11),
        ),
        Case(
            "one_by_one",
            both("chunks of one token", "一塊一個詞元"),
            lambda d: draw_prompt(d, 5, 1, 2, 1, 3, 9),
        ),
        Case(
            "whole_table",
            both("a prompt as long as the position table", "提示和位置表一樣長"),
            lambda d: draw_prompt(d, 7, 2, 4, 2, 2, 7, B=3),
        ),
        Case(
            "memory",
            both(
                "512 tokens in chunks of 16: no tensor of N² / 2 entries",
                "512 個詞元，一塊 16 個：不能有 N²／2 個元素的張量",
            ),
            draw_long_prompt,
            2,
            trap=True,
            meter=LONG * LONG // 2,
        ),
        Case(
            "memory_of_small_chunks",
            both(
                "256 tokens in chunks of 4: no more than 4 queries at a time",
                "256 個詞元，一塊 4 個：一次最多 4 個查詢",
            ),
            lambda d: draw_prompt(d, SMALL_CHUNKS, 4, 2, 1, 2, 260, B=1),
            1,
            trap=True,
            meter=SMALL_CHUNKS**2 // 2,
        ),
        smallest(lambda d: draw_prompt(d, 1, 1, 1, 1, 1, 1, B=1)),
        Case(
            "too_long",
            both("more tokens than positions: ValueError", "詞元比位置多：ValueError"),
            lambda d: draw_prompt(d, 7, 4, 2, 1, 3, 5),
            0.5,
            trap=True,
            raises="ValueError",
        ),
        float64(lambda d: draw_prompt(d, 5, 2, 4, 2, 2, 6), 0.5),
        noncontiguous(lambda d: draw_prompt(d, 5, 2, 4, 2, 3, 7), 0.5),
    ],
    mistakes=[
        Mistake(
            "position_restarts",
            prefill(place=lambda start, n: places(0, n)),
            both(
                "The positions begin at 0 in every chunk. They go on: a chunk's first token stands behind all tokens of the "
                "chunks before.",
                "每一塊的位置都從 0 開始。位置要接著數：一塊的第一個詞元，排在前面各塊所有詞元之後。",
            ),
        ),
        Mistake(
            "one_position_a_chunk",
            prefill(place=lambda start, n: torch.full((n,), start)),
            both(
                "All tokens of a chunk stand at the place of its first one. Each has a place of its own.",
                "一塊裡的詞元都站在第一個詞元的位置上。每個詞元都有自己的位置。",
            ),
        ),
        Mistake("positions_missing", prefill(enter=lambda rows, where: rows), NO_POSITIONS),
        Mistake(
            "scaled_embedding",
            prefill(enter=lambda rows, where: rows * math.sqrt(rows.shape[-1]) + where),
            ROOT_EMBEDDING,
        ),
        Mistake(
            "no_causal_in_chunk",
            prefill(visible=lambda n, m: torch.ones(n, m, dtype=torch.bool)),
            both(
                "Inside a chunk your tokens see later ones. Several queries at once need a causal mask, in a cache too.",
                "在同一塊裡，你的詞元看得到後面的詞元。一次好幾個查詢就需要因果遮罩，有快取也一樣。",
            ),
        ),
        Mistake(
            "top_left",
            prefill(visible=lambda n, m: torch.arange(m) <= torch.arange(n)[:, None]),
            both(
                "Your causal mask counts the queries from the first key on. They stand at the end of the keys: the chunk's "
                "first token sees the whole cache and itself.",
                "你的因果遮罩讓查詢從第一個鍵數起。查詢排在鍵的尾端：一塊的第一個詞元看得到整個快取和自己。",
            ),
        ),
        Mistake(
            "one_future_token",
            prefill(visible=lambda n, m: torch.arange(m) <= torch.arange(m - n, m)[:, None] + 1),
            both(
                "Every token of a chunk but its last sees one token of the future: your triangle begins one place too far "
                "to the right. Test the chunk's first query: how many keys may it see?",
                "一塊裡除了最後一個，每個詞元都多看到一個未來的詞元：你的三角形往右偏了一格。拿這一塊的第一個查詢核對：它看得到幾個鍵？",
            ),
        ),
        Mistake(
            "mask_inverted",
            prefill(visible=lambda n, m: ~bottom_right(n, m)),
            both(
                "You hide what may be seen and show the future. The last query of a chunk then sees nothing, which gives "
                "NaN. Is your mask True where a token may look, or where it may not?",
                "你把看得到的遮住，反而露出未來。每一塊最後的查詢就什麼都看不到，算出 NaN。你的遮罩裡，True 是可以看還是不可以看？",
            ),
        ),
        Mistake(
            "masked_scores_zero",
            prefill(weigh=lambda scores, visible: torch.softmax(scores.masked_fill(~visible, 0.0), dim=-1)),
            both(
                "You set the masked scores to 0. e to the power 0 is 1, so the future still gets weight. Which score "
                "becomes the weight 0?",
                "你把要遮住的分數設成 0。e 的 0 次方是 1，未來還是分到了權重。什麼分數才會變成權重 0？",
            ),
        ),
        Mistake(
            "masked_after_softmax",
            prefill(weigh=lambda scores, visible: torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)),
            both(
                "You mask after the softmax. The future is gone from the sum, but not from the denominator: the weights "
                "that are left do not sum to 1.",
                "你在 softmax 之後才遮。未來雖然不在加總裡，卻還在分母裡：剩下的權重加起來不是 1。",
            ),
        ),
        Mistake(
            "self_unseen",
            prefill(visible=lambda n, m: torch.arange(m) < torch.arange(m - n, m)[:, None]),
            both(
                "Your tokens do not see themselves, and the very first one sees nothing at all.",
                "你的詞元看不到自己，最前面那個更是什麼都看不到。",
            ),
        ),
        Mistake(
            "last_chunk_dropped",
            prefill(starts=lambda N, size: range(0, N - size + 1, size)),
            both(
                "The tokens that do not fill a whole chunk are left out. The last chunk may be shorter.",
                "湊不滿一塊的詞元被丟掉了。最後一塊可以比較短。",
            ),
        ),
        Mistake(
            "cache_not_read",
            prefill(read=only_new),
            both(
                "Each chunk attends to itself alone. It must see the keys of all chunks before it.",
                "每一塊都只看自己。它還要看得到前面所有塊的鍵。",
            ),
        ),
        Mistake(
            "chunk_unseen",
            prefill(read=only_old),
            both(
                "A chunk attends to the chunks before it but not to itself. Append its keys and values first.",
                "一塊只看得到前面各塊，看不到自己。先把它的鍵和值接上去。",
            ),
        ),
        Mistake(
            "repeat_for_interleave",
            prefill(expand=lambda x, group: x.repeat(1, group, 1, 1)),
            REPEAT,
        ),
        Mistake(
            "whole_at_once",
            lambda tokens, chunk_size, *layer: Variant().chunk(tokens, None, *layer),
            both(
                "Right numbers, but too much stands in memory at one time: all scores at once, one large mask, chunks far "
                "wider than chunk_size, or scores that are kept. The point of chunks is that nothing as large as N × N exists "
                "at any time.",
                "數字對了，但同時留在記憶體裡的太多：也許是一次算完所有分數、一個大遮罩、遠比 chunk_size 寬的一塊，或是用過卻沒丟的分數。"
                "分塊的用意，就是任何時候都沒有像 N × N 那麼大的東西。",
            ),
        ),
        Mistake(
            "chunk_size_as_count",
            lambda tokens, chunk_size, *layer: prefill()(tokens, -(-tokens.shape[1] // chunk_size), *layer),
            both(
                "Right numbers, but with small chunks too much stands in memory: your chunks hold more than chunk_size tokens (it "
                "is the most tokens of a chunk, not the number of chunks), or you keep what is no longer needed.",
                "數字對了，但一塊很小時，記憶體還是用得太多：你的一塊超過 chunk_size 個詞元（它是一塊最多幾個詞元，不是要切成幾塊），"
                "或者留著用不到的東西。",
            ),
        ),
        Mistake(
            "split_by_view",
            prefill(split=split_by_view),
            both(
                "The shapes are right, but your heads mix up tokens: split the last axis first, then exchange two axes.",
                "形狀對了，但你的頭把不同詞元混在一起了：先把最後一軸切開，再交換兩個軸。",
            ),
        ),
        Mistake(
            "merged_by_view",
            prefill(merge=merged_by_view),
            both(
                "The shape is right, but joining the heads mixes up tokens: bring the heads next to their components first.",
                "形狀對了，但合併各頭時把詞元混在一起了：先把頭的軸移到分量旁邊。",
            ),
        ),
        Mistake(
            "last_chunk_only",
            last_chunk_only,
            both(
                "You return the outputs of the last chunk. All N are asked for.",
                "你只回傳最後一塊的輸出。要回傳全部 N 個。",
            ),
        ),
        Mistake(
            "last_token_only",
            last_token_only,
            both(
                "You return the last token's output. That is all that writing needs; here all N are asked for.",
                "你只回傳最後一個詞元的輸出。接著寫的話這樣就夠了，但這裡要全部 N 個。",
            ),
        ),
        Mistake(
            "all_heads_cached",
            heads_repeated,
            both(
                "You return keys and values repeated for every query head. The cache holds each key–value head once.",
                "你回傳的是替每個查詢頭重複過的鍵和值。快取裡每個鍵值頭只存一份。",
            ),
        ),
        Mistake("keys_for_values", prefill(value=lambda x, w_k, w_v: x @ w_k), KEYS_AS_VALUES),
        Mistake("divided_by_d_k", prefill(scale=lambda d_k, d_model: d_k), NO_ROOT),
        Mistake("scale_missing", prefill(scale=lambda d_k, d_model: 1.0), NO_SCALE),
        Mistake("scale_d_model", prefill(scale=lambda d_k, d_model: math.sqrt(d_model)), WIDE_SCALE),
        Mistake("no_output_projection", prefill(finish=lambda heads, x, w_o: heads), NO_OUTPUT),
        Mistake("residual_added", prefill(finish=lambda heads, x, w_o: x + heads @ w_o), RESIDUAL),
        Mistake("table_end_unnoticed", prefill(checks=False), NO_REFUSAL),
        Mistake(
            "last_place_again",
            lambda tokens, chunk_size, embedding, positions, *weights: prefill(
                checks=False, place=lambda start, n: places(start, n).clamp(max=len(positions) - 1)
            )(tokens, chunk_size, embedding, positions, *weights),
            NO_REFUSAL,
        ),
    ],
    hints=[
        both(
            "Write one chunk as you wrote one step: positions go on behind the cache, keys and values are appended, then the "
            "chunk's queries attend to all of them.",
            "一塊的寫法和一步差不多：位置接在快取後面數，鍵和值接上去，再讓這一塊的查詢去看全部的鍵。",
        ),
        both(
            "What is new against one step: the chunk's tokens must not see each other's future. Query i of a chunk that "
            "starts at s sees the keys 0 … s + i.",
            "和一步不同的地方：同一塊的詞元不能看到未來。從 s 開始的一塊，第 i 個查詢看得到鍵 0 … s + i。",
        ),
        both(
            "Build the mask for this chunk only, with a row for each of its queries and a column for each key so far; slices "
            "of a large mask need the large mask. Slices that run beyond the end are simply shorter.",
            "只替這一塊造遮罩：每個查詢一列，到目前為止的每個鍵一行；從大遮罩切一塊，就得先有大遮罩。切片超出尾端時，只會自動變短。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------------- cache_bytes


def cache_bytes(
    batch: int, n_tokens: int, n_layers: int, n_heads: int, n_kv_heads: int, d_model: int, dtype: torch.dtype
) -> int:
    d_k = d_model // n_heads
    return 2 * batch * n_tokens * n_layers * n_kv_heads * d_k * dtype.itemsize


def draw_cache(draw: Draw, h: int, h_kv: int, dtype: torch.dtype) -> tuple[Any, ...]:
    d_model = h * draw.integer(3, 20)
    return draw.integer(2, 6), draw.integer(50, 5000), draw.integer(3, 40), h, h_kv, d_model, dtype


def draw_named_cache(draw: Draw) -> tuple[Any, ...]:
    batch, n_tokens, n_layers, h, h_kv, d_model, dtype = draw_cache(draw, 6, 2, torch.float32)
    sizes = {"n_layers": n_layers, "n_heads": h, "n_kv_heads": h_kv, "d_model": d_model, "dtype": dtype}
    return (batch, n_tokens), sizes


def bytes_of(
    batch: int, n_tokens: int, n_layers: int, n_heads: int, n_kv_heads: int, d_model: int, dtype: torch.dtype
) -> int:
    """The same once more: a mistake may not call the reference."""
    return d_model // n_heads * n_kv_heads * n_layers * n_tokens * batch * dtype.itemsize * 2


def bytes_with(**fixed: Any) -> Callable[..., int]:
    """A count in which some of the sizes are these, whatever is handed in."""

    def answer(*sizes: Any, **named: Any) -> int:
        return bytes_of(**{**inspect.signature(bytes_of).bind(*sizes, **named).arguments, **fixed})

    return answer


EVERY_QUERY_HEAD = both(
    "You store as much as if every query head had keys and values of its own. There are n_kv_heads of them, each as wide as "
    "a query head.",
    "你存的量，等於每個查詢頭都有自己的鍵和值。其實只有 n_kv_heads 個，每個和查詢頭一樣寬。",
)

exercise(
    name="cache_bytes",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=cache_bytes,
    results=("bytes",),
    cases=[
        Case(
            "mha",
            both("as many key–value heads as query heads, float32", "鍵值頭和查詢頭一樣多，float32"),
            lambda d: draw_cache(d, 4, 4, torch.float32),
            2,
        ),
        Case(
            "gqa",
            both("shared key–value heads, float16", "共用鍵值頭，float16"),
            lambda d: draw_cache(d, 12, 3, torch.float16),
            3,
        ),
        Case(
            "mqa",
            both("one key–value head, in int8: one byte a number", "只有一個鍵值頭，用 int8 存：一個數一個位元組"),
            lambda d: draw_cache(d, 8, 1, torch.int8),
            2,
        ),
        Case("named", both("sizes by name", "用名稱給各個大小"), draw_named_cache),
        Case(
            "bfloat16",
            both("keys and values in bfloat16", "鍵和值用 bfloat16 存"),
            lambda d: draw_cache(d, 6, 3, torch.bfloat16),
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "all_query_heads",
            lambda batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype: bytes_of(
                batch, n_tokens, n_layers, n_heads, n_heads, d_model, dtype
            ),
            EVERY_QUERY_HEAD,
            same_as=("d_model_over_kv_heads",),
        ),
        Mistake(
            "d_model_over_kv_heads",
            lambda batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype: (
                2 * batch * n_tokens * n_layers * n_kv_heads * (d_model // n_kv_heads) * dtype.itemsize
            ),
            EVERY_QUERY_HEAD,
            same_as=("all_query_heads",),
        ),
        Mistake(
            "keys_only",
            lambda *sizes, **named: bytes_of(*sizes, **named) // 2,
            both("Half of it: keys and values are both stored.", "只有一半：鍵和值都要存。"),
        ),
        Mistake(
            "counted_twice",
            lambda *sizes, **named: 2 * bytes_of(*sizes, **named),
            both(
                "Twice too much, whatever the dtype: a factor 2 is in it once too often.",
                "不管 dtype 是什麼，都多了一倍：有個 2 乘了兩次。",
            ),
        ),
        Mistake(
            "queries_too",
            lambda *sizes, **named: 3 * bytes_of(*sizes, **named) // 2,
            both(
                "You store three vectors for each token. Old queries are never asked again, so they are not kept.",
                "你替每個詞元存了三個向量。舊的查詢不會再用到，所以不存。",
            ),
        ),
        Mistake(
            "one_layer",
            bytes_with(n_layers=1),
            both("That is one layer. Every layer has its own cache.", "這只是一層。每一層都有自己的快取。"),
        ),
        Mistake(
            "one_sequence",
            bytes_with(batch=1),
            both(
                "That is one sequence. Weights are shared by the batch, the cache is not.",
                "這只是一個序列。權重是整個批次共用的，快取不是。",
            ),
        ),
        Mistake(
            "one_token",
            bytes_with(n_tokens=1),
            both("That is one token. All of them stay.", "這只是一個詞元。所有詞元都留著。"),
        ),
        Mistake(
            "one_head",
            bytes_with(n_kv_heads=1),
            both(
                "That is a single key–value head, whatever n_kv_heads says.",
                "不管 n_kv_heads 是多少，你都只算了一個鍵值頭。",
            ),
        ),
        Mistake(
            "whole_width_each",
            lambda batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype: (
                2 * batch * n_tokens * n_layers * n_kv_heads * d_model * dtype.itemsize
            ),
            both(
                "You give every key–value head the width of the whole model. A head is only d_k wide.",
                "你讓每個鍵值頭都和整個模型一樣寬。一個頭只有 d_k 那麼寬。",
            ),
        ),
        Mistake(
            "elements",
            bytes_with(dtype=torch.int8),
            both(
                "You count numbers. Bytes are asked for: a number takes as many as its dtype says.",
                "你算的是有幾個數。這裡要的是位元組：一個數占幾個，由 dtype 決定。",
            ),
        ),
        Mistake(
            "four_bytes_always",
            bytes_with(dtype=torch.float32),
            both(
                "You count four bytes for every number. That is float32; ask the dtype.",
                "每個數你都算四個位元組。那是 float32，要看 dtype 是什麼。",
            ),
        ),
        Mistake(
            "two_bytes_always",
            bytes_with(dtype=torch.float16),
            both(
                "You count two bytes for every number. That is half precision; ask the dtype.",
                "每個數你都算兩個位元組。那是半精度，要看 dtype 是什麼。",
            ),
        ),
        Mistake(
            "bits",
            lambda *sizes, **named: 8 * bytes_of(*sizes, **named),
            both("Those are bits, eight times as many as bytes.", "這是位元數，是位元組的八倍。"),
        ),
        Mistake(
            "true_division",
            lambda *sizes, **named: float(bytes_of(*sizes, **named)),
            both(
                "The number is right, but it is a float: a plain division makes one. Bytes are counted exactly, as an int.",
                "數字對了，型別卻是 float：用一般的除法就會這樣。位元組要精確地數，回傳 int。",
            ),
        ),
    ],
    hints=[
        both(
            "Count the numbers that one token leaves behind in one layer: how many vectors, and how long is each?",
            "先數一個詞元在一層裡留下幾個數：有幾個向量，每個多長？",
        ),
        both(
            "Then multiply: layers, tokens, sequences, bytes of a number. A dtype knows its itemsize.",
            "接著乘上層數、詞元數、序列數，以及一個數的位元組數。dtype 有 itemsize 可以問。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- decode_flops


def decode_flops(n: int, d_model: int, n_heads: int, cached: bool) -> int:
    rows = 1 if cached else n
    projections = 4 * 2 * rows * d_model**2
    scores = 2 * rows * d_model * n
    averages = 2 * rows * n * d_model
    return projections + scores + averages


def flops(
    n: int, d: int, projected: int, queries: int, projections: float = 4, products: int = 2, attention: float = 1
) -> int:
    """`projected` rows through the projections, `queries` rows of scores; `products` of two: scores, averages."""
    return int(2 * projections * projected * d * d + attention * products * 2 * queries * n * d)


def flops_of(n: int, d_model: int, cached: bool) -> int:
    return flops(n, d_model, 1, 1) if cached else flops(n, d_model, n, n)


def draw_flops(draw: Draw, cached: bool) -> tuple[Any, ...]:
    h = draw.integer(3, 12)
    return draw.integer(20, 2000), h * draw.integer(4, 64), h, cached


ONE_MORE = both(
    "You count one token too many: n already includes the token that is being made.",
    "多算了一個詞元：n 已經包含正在產生的這一個。",
)

exercise(
    name="decode_flops",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=decode_flops,
    results=("operations",),
    forbidden=FLOP_COUNTERS,
    cases=[
        Case("cached", both("with a cache", "有快取"), lambda d: draw_flops(d, True), 3),
        Case("uncached", both("without a cache", "沒有快取"), lambda d: draw_flops(d, False), 3),
        Case(
            "named",
            both("arguments by name", "用名稱給引數"),
            lambda d: (draw_flops(d, True)[:1], dict(zip(("d_model", "n_heads", "cached"), draw_flops(d, True)[1:]))),
        ),
        Case(
            "long_text",
            both("more tokens than the model is wide", "詞元數大於模型寬度"),
            lambda d: (d.integer(3000, 9000), 32, 4, d.choice(True, False)),
        ),
        Case(
            "first_token",
            both("the first token: a cache saves nothing", "第一個詞元：快取省不到什麼"),
            lambda d: (1, 4 * d.integer(4, 20), 4, d.choice(True, False)),
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "multiplications_only",
            lambda n, d_model, n_heads, cached: flops_of(n, d_model, cached) // 2,
            both(
                "You count multiplications only. Each comes with an addition: 2abc for a product of a × b by b × c.",
                "你只數了乘法。每個乘法都配一個加法：a × b 乘 b × c 算 2abc。",
            ),
        ),
        Mistake(
            "no_output_projection",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, 1 if cached else n, 3),
            both(
                "Three projections are counted. The output matrix is the fourth.",
                "你數了三個投影。輸出矩陣是第四個。",
            ),
        ),
        Mistake(
            "one_projection",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, 1 if cached else n, 1),
            both(
                "One projection is counted. There are four: for queries, keys, values, and for the output.",
                "你只數了一個投影。一共四個：查詢、鍵、值，還有輸出。",
            ),
        ),
        Mistake(
            "no_projections",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, 1 if cached else n, 0),
            both(
                "Scores and averages are counted, the four projections are not. In short texts they are most of the work.",
                "你數了分數和平均，沒有數四個投影。文字不長時，大部分的工作就在那裡。",
            ),
        ),
        Mistake(
            "times_heads",
            lambda n, d_model, n_heads, cached: flops(
                n, d_model, 1 if cached else n, 1 if cached else n, attention=n_heads
            ),
            both(
                "You give each head the whole width. The heads share d_model among them, so their number cancels.",
                "你讓每個頭都用整個寬度。各頭是分著用 d_model，所以頭數會約掉。",
            ),
        ),
        Mistake(
            "one_head",
            lambda n, d_model, n_heads, cached: flops(
                n, d_model, 1 if cached else n, 1 if cached else n, attention=1 / n_heads
            ),
            both(
                "That is the attention of one head. All heads together work on the whole width.",
                "這只是一個頭的注意力。所有頭合起來處理的是整個寬度。",
            ),
        ),
        Mistake(
            "scores_only",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, 1 if cached else n, products=1),
            both(
                "You count the scores but not the products of weights and values, which cost as much again.",
                "你數了分數，沒有數權重乘值，那又是同樣多。",
            ),
        ),
        Mistake(
            "cache_saves_projections_only",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, n),
            both(
                "With a cache you still count n rows of scores. There is one query: one row.",
                "有快取時，你還是算了 n 列分數。查詢只有一個，只有一列。",
            ),
        ),
        Mistake(
            "cache_saves_scores_only",
            lambda n, d_model, n_heads, cached: flops(n, d_model, n, 1 if cached else n),
            both(
                "With a cache you still project all n tokens. The old keys and values are in the cache: one row is projected.",
                "有快取時，你還是把 n 個詞元全部投影。舊的鍵和值在快取裡，只要投影一列。",
            ),
        ),
        Mistake(
            "one_row_projected_without",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1, 1 if cached else n),
            both(
                "Without a cache you project one row only. Nothing is kept then: the keys and values of all n tokens are "
                "made again.",
                "沒有快取時，你只投影了一列。那時什麼都沒留下來：全部 n 個詞元的鍵和值都要重算。",
            ),
        ),
        Mistake(
            "one_row_of_scores_without",
            lambda n, d_model, n_heads, cached: flops(n, d_model, 1 if cached else n, 1),
            both(
                "Without a cache you count one row of scores. Everything is done again then: n queries, n rows.",
                "沒有快取時，你只算了一列分數。那時全部都要重來：n 個查詢，n 列。",
            ),
        ),
        Mistake(
            "all_steps_together",
            lambda n, d_model, n_heads, cached: sum(flops_of(m, d_model, cached) for m in range(1, n + 1)),
            both(
                "You add up all steps from the first token to the n-th. Asked is one step, the n-th.",
                "你把第 1 個到第 n 個的每一步都加起來了。這裡只問一步，就是第 n 步。",
            ),
        ),
        Mistake(
            "all_steps_together_without",
            lambda n, d_model, n_heads, cached: (
                flops_of(n, d_model, True) if cached else sum(flops_of(m, d_model, False) for m in range(1, n + 1))
            ),
            both(
                "Without a cache you add up all steps from the first token to the n-th. Asked is one step, the n-th.",
                "沒有快取時，你把第 1 個到第 n 個的每一步都加起來了。這裡只問一步，就是第 n 步。",
            ),
        ),
        Mistake(
            "one_token_more",
            lambda n, d_model, n_heads, cached: flops_of(n + 1, d_model, cached),
            ONE_MORE,
        ),
        Mistake(
            "one_key_more",
            lambda n, d_model, n_heads, cached: flops_of(n + 1 if cached else n, d_model, cached),
            ONE_MORE,
        ),
        Mistake(
            "only_one_key",
            lambda n, d_model, n_heads, cached: flops(1, d_model, 1, 1) if cached else flops(n, d_model, n, n),
            both(
                "With a cache your token meets one key only. The one query is still compared with all n keys.",
                "有快取時，你的詞元只碰到一個鍵。那一個查詢還是要和全部 n 個鍵比。",
            ),
        ),
        Mistake(
            "itself_not_counted",
            lambda n, d_model, n_heads, cached: (
                flops(n - 1, d_model, 1, 1) if cached else flops(n - 1, d_model, n - 1, n - 1)
            ),
            both(
                "You count one token too few: n includes the token that is being made.",
                "少算了一個詞元：n 包含正在產生的這一個。",
            ),
        ),
        Mistake(
            "halved_for_causality",
            lambda n, d_model, n_heads, cached: (
                flops(n, d_model, 1, 1) if cached else flops(n, d_model, n, n) - 2 * n * (n - 1) * d_model
            ),
            both(
                "You count only the scores that causality allows. Here the full n × n are counted: the plain product makes "
                "them all and the mask throws half away.",
                "你只數了因果遮罩允許的分數。這裡要數完整的 n × n：一般的乘法全部都會算，遮罩再丟掉一半。",
            ),
        ),
        Mistake(
            "cache_ignored",
            lambda n, d_model, n_heads, cached: flops_of(n, d_model, False),
            both(
                "You give the same number with and without a cache, the one without.",
                "有沒有快取，你都給同一個數：沒有快取的那個。",
            ),
        ),
        Mistake(
            "always_cached",
            lambda n, d_model, n_heads, cached: flops_of(n, d_model, True),
            both(
                "You give the same number with and without a cache, the one with it.",
                "有沒有快取，你都給同一個數：有快取的那個。",
            ),
        ),
        Mistake(
            "cached_inverted",
            lambda n, d_model, n_heads, cached: flops_of(n, d_model, not cached),
            both(
                "With and without are exchanged.",
                "有快取和沒有快取弄反了。",
            ),
        ),
        Mistake(
            "float_result",
            lambda n, d_model, n_heads, cached: float(flops_of(n, d_model, cached)),
            both(
                "The number is right, but it is a float. Operations are counted exactly, as an int.",
                "數字對了，型別卻是 float。運算次數要精確地數，回傳 int。",
            ),
        ),
    ],
    hints=[
        both(
            "Write down the shapes of six products for one layer: three projections, scores, weights with values, the output.",
            "先寫下一層裡六個乘法的形狀：三個投影、分數、權重和值、輸出。",
        ),
        both(
            "How many rows go through the projections, and how many queries are there? With a cache both are 1; the keys "
            "are n either way.",
            "有幾列要投影、有幾個查詢？有快取時都是 1；鍵不管怎樣都是 n 個。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- sample_top_k


def sample_top_k(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    kept = logits.topk(min(k, logits.shape[-1]), dim=-1).indices  # [B, k]
    open_ = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    climbing = torch.softmax(open_ / temperature, dim=-1).cumsum(dim=-1)  # [B, V]
    return (climbing <= u[:, None]).sum(dim=-1)


def walk(probabilities: Tensor, u: Tensor) -> Tensor:
    """The first id whose cumulative probability exceeds u: as many ids as do not come before it."""
    return (probabilities.cumsum(dim=-1) <= u[:, None]).sum(dim=-1)


def walk_or_first(probabilities: Tensor, u: Tensor) -> Tensor:
    return (probabilities.cumsum(dim=-1) > u[:, None]).long().argmax(dim=-1)


def walk_one_early(probabilities: Tensor, u: Tensor) -> Tensor:
    return (walk(probabilities, u) - 1).clamp(min=0)


def rank_of(probabilities: Tensor, u: Tensor) -> Tensor:
    return walk(probabilities.sort(dim=-1, descending=True).values, u)


def by_probability(probabilities: Tensor, u: Tensor) -> Tensor:
    ordered, order = probabilities.sort(dim=-1, descending=True)
    return order.gather(-1, walk(ordered, u)[:, None])[:, 0]


def from_the_end(probabilities: Tensor, u: Tensor) -> Tensor:
    return probabilities.shape[-1] - 1 - walk(probabilities.flip(-1), u)


def likely_enough_first(probabilities: Tensor, u: Tensor) -> Tensor:
    """The first id whose own probability exceeds u; id 0 where none does."""
    return (probabilities > u[:, None]).long().argmax(dim=-1)


def unlikely_counted(probabilities: Tensor, u: Tensor) -> Tensor:
    return (probabilities <= u[:, None]).sum(dim=-1)


def one_u_for_all(probabilities: Tensor, u: Tensor) -> Tensor:
    return walk(probabilities, u[:1].expand_as(u))


def down_the_batch(probabilities: Tensor, u: Tensor) -> Tensor:
    """Cumulated along the rows of the batch."""
    return (probabilities.cumsum(dim=0) <= u[:, None]).sum(dim=-1)


def down_the_batch_first(probabilities: Tensor, u: Tensor) -> Tensor:
    return (probabilities.cumsum(dim=0) > u[:, None]).long().argmax(dim=-1)


Walk = Callable[[Tensor, Tensor], Tensor]


def kept_by_k(logits: Tensor, k: int) -> Tensor:
    kept = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
    return torch.zeros_like(logits, dtype=torch.bool).scatter(-1, kept, True)


def draws_top_k(
    keep: Callable[[Tensor, int], Tensor] = kept_by_k,
    fill: float = -math.inf,
    heat: Callable[[float], float] = lambda temperature: temperature,
    draw: Walk = walk,
) -> Callable[..., Tensor]:
    def answer(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
        scores = torch.where(keep(logits, k), logits, fill)
        return draw(torch.softmax(scores / heat(temperature), dim=-1), u)

    return answer


def top_k_not_renormalised(draw: Walk) -> Callable[..., Tensor]:
    return lambda logits, k, temperature, u: draw(torch.softmax(logits / temperature, dim=-1) * kept_by_k(logits, k), u)


def equal_chances(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    kept = kept_by_k(logits, k).double()
    return walk(kept / kept.sum(dim=-1, keepdim=True), u)


def equal_chances_by_rank(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    order = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
    return order.gather(-1, (u * order.shape[-1]).long()[:, None])[:, 0]


def softmax_down_the_batch(draw: Walk) -> Callable[..., Tensor]:
    return lambda logits, k, temperature, u: draw(
        torch.softmax(torch.where(kept_by_k(logits, k), logits, -math.inf) / temperature, dim=0), u
    )


def top_k_overflowing(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    """The exponentials of everything first, then the dropped ones set to 0."""
    e = (logits / temperature).exp() * kept_by_k(logits, k)
    return (e.cumsum(dim=-1) / e.sum(dim=-1, keepdim=True) > u[:, None]).long().argmax(dim=-1)


def top_k_in_float32(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    return draws_top_k()(logits.float(), k, temperature, u)


def top_k_too_large(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    smallest = logits.topk(k, dim=-1).values[:, -1:]
    return walk(torch.softmax(logits.masked_fill(logits < smallest, -math.inf) / temperature, dim=-1), u)


def exponentials(x: Tensor) -> Tensor:
    """A softmax that does not subtract the maximum."""
    return x.exp() / x.exp().sum(dim=-1, keepdim=True)


Place = Callable[[Draw, Tensor], Tensor]


def clear_of(draw: Draw, steps: Tensor) -> Tensor:
    """One u for each row, in [0.003, 0.996] and away from every step of the row, where rounding would decide."""
    candidates = 0.003 + 0.993 * torch.rand(8, steps.shape[0], generator=draw.generator, dtype=torch.float64)
    near = (candidates[..., None] - steps).abs().amin(dim=-1) < 1e-4
    return candidates.gather(0, near.long().argmin(dim=0, keepdim=True))[0]


def close_to(draw: Draw, steps: Tensor) -> Tensor:
    """As `clear_of`, but half of the u stand 1e-9 beside a step of their row: float32 sums would decide by chance."""
    u = clear_of(draw, steps)
    place = draw.integers(0, steps.shape[-1] - 1, *u.shape)
    beside = steps.gather(-1, place[:, None])[:, 0] + 1e-9 * (2 * draw.integers(0, 1, *u.shape) - 1)
    return torch.where((beside > 0.003) & (beside < 0.996) & (draw.integers(0, 1, *u.shape) == 0), beside, u)


def draw_logits(draw: Draw, V: int, mean: float, kinds: int = 4, each: int = 60) -> Tensor:
    """A few distributions, each many times, in no order."""
    return draw.normal(kinds, V, mean=mean, std=2.0).repeat(each, 1)[draw.permutation(kinds * each)]


def draw_top_k(
    draw: Draw, V: int, k: int, temperature: float, mean: float = 0.0, place: Place = clear_of
) -> tuple[Any, ...]:
    logits = draw_logits(draw, V, mean)
    wide = logits.double()
    scores = wide.masked_fill(~kept_by_k(wide, k), -math.inf) / temperature
    return logits, k, temperature, place(draw, scores.softmax(dim=-1).cumsum(dim=-1))


def first_row(drawn: tuple[Any, ...]) -> tuple[Any, ...]:
    logits, kept, temperature, u = drawn
    return logits[:1], kept, temperature, u[:1]


UNUSED_U = both(
    "You always take the likeliest token: u is not used. A draw depends on it.",
    "你每次都取最可能的詞元：u 沒有用到。抽樣要看 u。",
)
TIMES_TEMPERATURE = both(
    "You multiply by the temperature. Logits are divided by it: a high temperature makes the draw more even.",
    "你乘上了溫度。logits 要除以溫度：溫度高，抽樣才會更平均。",
)
NO_TEMPERATURE = both("The temperature is not used.", "沒有用到溫度。")
NOT_RENORMALISED = both(
    "The kept probabilities do not sum to 1: those that were dropped are still counted in the denominator. A large u then "
    "finds no token.",
    "留下的機率加起來不是 1：被丟掉的還算在分母裡。u 很大時就找不到詞元了。",
)
RANK = both(
    "You return a place in the sorted list. Asked for is the token's own id.",
    "你回傳的是排序之後的名次。要的是詞元自己的編號。",
)
BY_PROBABILITY = both(
    "A proper draw, but along the sorted list. Here the walk goes in the order of the ids, so that one u means one token.",
    "這樣抽也合理，但你是沿著排序後的順序走。這裡要照編號的順序走，同一個 u 才會對到同一個詞元。",
)
ONE_EARLY = both(
    "You stop one id too early: the token asked for is the first whose cumulative probability exceeds u, not the last that "
    "does not.",
    "你早了一個編號停下來：要的是第一個累積機率超過 u 的，不是最後一個還沒超過的。",
)
BACKWARDS = both(
    "You walk from the last id to the first. Cumulate from id 0 on.",
    "你從最後一個編號往前走。要從編號 0 開始累積。",
)
NO_MAXIMUM = both(
    "For large logits your exponentials overflow. Subtract the maximum, or let softmax do it.",
    "logits 很大時，你的指數會溢位。先減去最大值，或者交給 softmax。",
)

FLOAT32_SUMS = both(
    "Your probabilities are float32 even where the logits are float64. A u close to a step then lands on the wrong side.",
    "logits 是 float64 時，你的機率卻是 float32。u 很靠近階梯時，就會落到錯的一邊。",
)
EQUAL_CHANCES = both(
    "Among the k kept tokens you draw with equal chances. Their logits decide how likely each is.",
    "在留下的 k 個詞元裡，你讓每個的機會都一樣。各有多可能，要由 logits 決定。",
)
ALWAYS_0 = both(
    "You return id 0 in every row. Look at the comparison with u: does it hold from the first id on, or nowhere, as it "
    "would with NaN?",
    "每一列你都回傳編號 0。看看和 u 的比較：它是不是從第一個編號起就成立，或者因為 NaN 而處處不成立？",
)
NOT_CUMULATED = both(
    "You compare each probability by itself with u. The walk adds up what it has passed: it is the sum so far that is "
    "compared.",
    "你拿每個機率單獨去和 u 比。往前走的時候，走過的要加起來：和 u 比的是到目前為止的總和。",
)
ONE_U = both(
    "All rows are drawn with the u of the first row. Every row has a u of its own.",
    "每一列都用了第一列的 u。每一列都有自己的 u。",
)
DOWN_THE_BATCH = both(
    "You cumulate down the batch. The sum runs along the ids of one row.",
    "你沿著批次往下累積。要累積的是同一列裡的各個編號。",
)
SOFTMAX_DOWN_THE_BATCH = both(
    "Your softmax runs down the batch. In each row the probabilities of the ids sum to 1.",
    "你的 softmax 沿著批次的軸做。每一列裡，各個編號的機率加起來才是 1。",
)

exercise(
    name="sample_top_k",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=sample_top_k,
    results=("tokens",),
    cases=[
        Case(
            "plain",
            both("240 draws, temperature 1", "抽 240 次，溫度 1"),
            lambda d: draw_top_k(d, 9, d.integer(3, 5), 1.0),
            3,
        ),
        Case(
            "warm",
            both("a temperature above 1", "溫度高於 1"),
            lambda d: draw_top_k(d, 12, 4, d.number(1.6, 3.0)),
            2,
        ),
        Case(
            "cold",
            both("a temperature below 1", "溫度低於 1"),
            lambda d: draw_top_k(d, 9, 3, d.number(0.4, 0.7)),
        ),
        Case(
            "k_is_one",
            both("k = 1: the likeliest token, whatever u", "k = 1：不管 u 是多少，都是最可能的詞元"),
            lambda d: draw_top_k(d, 7, 1, d.number(0.8, 1.5)),
        ),
        Case("all", both("k = V: nothing is dropped", "k = V：一個都不丟"), lambda d: draw_top_k(d, 8, 8, 1.5)),
        Case(
            "k_over",
            both("k larger than the vocabulary", "k 比詞彙表還大"),
            lambda d: draw_top_k(d, 6, 10, 1.2),
            0.5,
            trap=True,
        ),
        Case(
            "one_row",
            both("a batch of one", "批次裡只有一列"),
            lambda d: first_row(draw_top_k(d, 9, 3, 1.0)),
            0.5,
            trap=True,
        ),
        Case(
            "large",
            both("logits near 100", "logits 接近 100"),
            lambda d: draw_top_k(d, 9, 4, 0.8, mean=100.0),
            0.5,
            trap=True,
        ),
        float64(lambda d: draw_top_k(d, 9, 4, 1.3, place=close_to), 0.5),
        noncontiguous(lambda d: draw_top_k(d, 10, 5, 1.0), 0.5),
    ],
    mistakes=[
        Mistake("argmax", lambda logits, k, temperature, u: logits.argmax(dim=-1), UNUSED_U),
        Mistake(
            "zero_logits",
            draws_top_k(fill=0.0),
            both(
                "You set the dropped logits to 0. That is no small number: e to the power 0 is 1, so they can still be "
                "drawn. Their probability must be 0.",
                "你把丟掉的 logits 設成 0。0 並不小：e 的 0 次方是 1，所以還是抽得到。它們的機率必須是 0。",
            ),
        ),
        Mistake("not_renormalised", top_k_not_renormalised(walk), NOT_RENORMALISED),
        Mistake("not_renormalised_first", top_k_not_renormalised(walk_or_first), NOT_RENORMALISED),
        Mistake(
            "not_renormalised_last",
            top_k_not_renormalised(lambda p, u: walk(p, u).clamp(max=p.shape[-1] - 1)),
            NOT_RENORMALISED,
        ),
        Mistake("times_temperature", draws_top_k(heat=lambda temperature: 1 / temperature), TIMES_TEMPERATURE),
        Mistake("temperature_ignored", draws_top_k(heat=lambda temperature: 1.0), NO_TEMPERATURE),
        Mistake("rank_for_id", draws_top_k(draw=rank_of), RANK),
        Mistake("by_probability", draws_top_k(draw=by_probability), BY_PROBABILITY),
        Mistake("one_id_early", draws_top_k(draw=walk_one_early), ONE_EARLY),
        Mistake("backwards", draws_top_k(draw=from_the_end), BACKWARDS),
        Mistake(
            "one_too_many",
            draws_top_k(keep=lambda logits, k: kept_by_k(logits, k + 1)),
            both("You keep k + 1 tokens.", "你留了 k + 1 個詞元。"),
        ),
        Mistake(
            "kth_dropped",
            draws_top_k(keep=lambda logits, k: logits > logits.topk(min(k, logits.shape[-1]), dim=-1).values[:, -1:]),
            both(
                "The k-th largest is dropped too: only what is larger than it stays. It belongs to the k.",
                "第 k 大的也被丟了：你只留下比它大的。它也算在 k 個裡面。",
            ),
        ),
        Mistake(
            "smallest_kept",
            draws_top_k(keep=lambda logits, k: kept_by_k(-logits, k)),
            both("You keep the k smallest.", "你留下的是最小的 k 個。"),
        ),
        Mistake(
            "nothing_dropped",
            draws_top_k(keep=lambda logits, k: torch.ones_like(logits, dtype=torch.bool)),
            both("Nothing is dropped: k is not used.", "一個都沒丟：k 沒有用到。"),
        ),
        Mistake(
            "first_k_ids",
            draws_top_k(keep=lambda logits, k: torch.arange(logits.shape[-1]).expand_as(logits) < k),
            both(
                "You keep the first k ids. The k largest logits stand anywhere.",
                "你留下的是前 k 個編號。最大的 k 個 logits 可能在任何地方。",
            ),
        ),
        Mistake(
            "uniform_among_k",
            equal_chances,
            EQUAL_CHANCES,
        ),
        Mistake("uniform_among_k_by_rank", equal_chances_by_rank, EQUAL_CHANCES),
        Mistake("always_id_0", lambda logits, k, temperature, u: torch.zeros_like(u, dtype=torch.long), ALWAYS_0),
        Mistake("not_cumulated", draws_top_k(draw=likely_enough_first), NOT_CUMULATED),
        Mistake("not_cumulated_counted", draws_top_k(draw=unlikely_counted), NOT_CUMULATED),
        Mistake("one_u_for_all", draws_top_k(draw=one_u_for_all), ONE_U),
        Mistake("cumulated_down_the_batch", draws_top_k(draw=down_the_batch), DOWN_THE_BATCH),
        Mistake("cumulated_down_the_batch_first", draws_top_k(draw=down_the_batch_first), DOWN_THE_BATCH),
        Mistake("softmax_down_the_batch", softmax_down_the_batch(walk), SOFTMAX_DOWN_THE_BATCH),
        Mistake("softmax_down_the_batch_first", softmax_down_the_batch(walk_or_first), SOFTMAX_DOWN_THE_BATCH),
        Mistake(
            "k_too_large",
            top_k_too_large,
            both(
                "Right as long as there are k tokens. With a smaller vocabulary all of them stay.",
                "詞元夠 k 個時是對的。詞彙表比較小時，要全部留下。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            lambda logits, k, temperature, u: walk(
                exponentials(torch.where(kept_by_k(logits, k), logits, -math.inf) / temperature), u
            ),
            NO_MAXIMUM,
        ),
        Mistake("no_max_subtraction_first", top_k_overflowing, NO_MAXIMUM),
        Mistake("float32_sums", top_k_in_float32, FLOAT32_SUMS),
    ],
    hints=[
        both(
            "Two halves. First make a distribution over all V ids in which everything but the k likeliest has probability 0. "
            "Then read off where u falls.",
            "分成兩半。先做出一個 V 個編號的分布，除了最可能的 k 個，其餘機率都是 0；再看 u 落在哪裡。",
        ),
        both(
            "Which logit gives probability 0 after softmax? Put it wherever a token is dropped; softmax renormalises for you.",
            "softmax 之後要得到機率 0，logit 該是多少？把它放在每個要丟掉的位置，softmax 會替你重新分配。",
        ),
        both(
            "Cumulate along the ids and compare with u, which needs an axis more. How many ids are passed before the sum "
            "exceeds u? That number is the id.",
            "沿著編號累積，再和 u 比較（u 要多一個軸）。總和超過 u 之前走過了幾個編號？這個數就是答案。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- sample_top_p


def sample_top_p(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    probabilities = torch.softmax(logits / temperature, dim=-1)
    ordered, order = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered  # what the more probable tokens have together
    kept = torch.zeros_like(ordered).scatter(-1, order, torch.where(before < p, ordered, 0.0))
    climbing = kept.cumsum(dim=-1) / kept.sum(dim=-1, keepdim=True)  # [B, V]
    return (climbing <= u[:, None]).sum(dim=-1)


def nucleus(probabilities: Tensor, p: float) -> Tensor:
    """Boolean [B, V]: the more probable ones together have less than p."""
    ordered, order = probabilities.sort(dim=-1, descending=True)
    inside = ordered.cumsum(dim=-1) - ordered < p
    return torch.zeros_like(inside).scatter(-1, order, inside)


def crossing_dropped(probabilities: Tensor, p: float) -> Tensor:
    ordered, order = probabilities.sort(dim=-1, descending=True)
    inside = ordered.cumsum(dim=-1) <= p
    return torch.zeros_like(inside).scatter(-1, order, inside)


def crossing_dropped_but_one(probabilities: Tensor, p: float) -> Tensor:
    return crossing_dropped(probabilities, p) | (probabilities == probabilities.amax(dim=-1, keepdim=True))


def one_beyond(probabilities: Tensor, p: float) -> Tensor:
    ordered, order = probabilities.sort(dim=-1, descending=True)
    inside = ordered.cumsum(dim=-1) - ordered < p
    inside[:, 1:] = inside[:, :-1].clone()
    return torch.zeros_like(inside).scatter(-1, order, inside)


def not_put_back(probabilities: Tensor, p: float) -> Tensor:
    ordered = probabilities.sort(dim=-1, descending=True).values
    return ordered.cumsum(dim=-1) - ordered < p


def gathered_back(probabilities: Tensor, p: float) -> Tensor:
    """The permutation instead of its inverse."""
    ordered, order = probabilities.sort(dim=-1, descending=True)
    return (ordered.cumsum(dim=-1) - ordered < p).gather(-1, order)


def in_id_order(probabilities: Tensor, p: float) -> Tensor:
    return probabilities.cumsum(dim=-1) - probabilities < p


def ascending(probabilities: Tensor, p: float) -> Tensor:
    ordered, order = probabilities.sort(dim=-1)
    inside = ordered.cumsum(dim=-1) - ordered < p
    return torch.zeros_like(inside).scatter(-1, order, inside)


def likely_enough(probabilities: Tensor, p: float) -> Tensor:
    return probabilities >= p


def likely_enough_but_one(probabilities: Tensor, p: float) -> Tensor:
    return (probabilities >= p) | (probabilities == probabilities.amax(dim=-1, keepdim=True))


def draws_top_p(
    keep: Callable[[Tensor, float], Tensor] = nucleus,
    heat: Callable[[float], float] = lambda temperature: temperature,
    draw: Walk = walk,
    normalised: bool = True,
) -> Callable[..., Tensor]:
    def answer(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
        probabilities = torch.softmax(logits / heat(temperature), dim=-1)
        kept = probabilities * keep(probabilities, p)
        return draw(kept / kept.sum(dim=-1, keepdim=True) if normalised else kept, u)

    return answer


def temperature_after(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    inside = nucleus(torch.softmax(logits, dim=-1), p)
    return walk(torch.softmax(torch.where(inside, logits, -math.inf) / temperature, dim=-1), u)


def temperature_for_nucleus_only(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    inside = nucleus(torch.softmax(logits / temperature, dim=-1), p)
    return walk(torch.softmax(torch.where(inside, logits, -math.inf), dim=-1), u)


def top_p_zero_logits(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    scores = logits / temperature
    return walk(torch.softmax(torch.where(nucleus(scores.softmax(dim=-1), p), scores, 0.0), dim=-1), u)


def top_p_without_maximum(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    probabilities = exponentials(logits / temperature)
    kept = probabilities * nucleus(probabilities, p)
    return walk(kept / kept.sum(dim=-1, keepdim=True), u)


def draw_top_p(
    draw: Draw, V: int, low: float, high: float, temperature: float, mean: float = 0.0, place: Place = clear_of
) -> tuple[Any, ...]:
    """p between low and high, away from every sum at which a token more would be kept."""
    logits = draw_logits(draw, V, mean)
    probabilities = (logits.double() / temperature).softmax(dim=-1)
    sums = probabilities.sort(dim=-1, descending=True).values.cumsum(dim=-1)[..., :-1]
    candidates = [draw.number(low, high) for _ in range(8)]
    p = max(candidates, key=lambda candidate: float((sums - candidate).abs().min())) if low < high else high
    kept = probabilities * nucleus(probabilities, p)
    return logits, p, temperature, place(draw, kept.cumsum(dim=-1) / kept.sum(dim=-1, keepdim=True))


CROSSING = both(
    "You drop the token that crosses p. It stays: a token is kept if the more probable ones together have less than p.",
    "你把跨過 p 的那個詞元丟了。它要留下：只要比它更可能的加起來小於 p，就留下。",
)
ABOVE_P = both(
    "You compare each probability with p. The sum of the more probable ones is what is compared with p.",
    "你拿每個機率去和 p 比。要和 p 比的，是所有更可能的詞元的機率總和。",
)

exercise(
    name="sample_top_p",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=sample_top_p,
    results=("tokens",),
    cases=[
        Case(
            "plain",
            both("240 draws, temperature 1", "抽 240 次，溫度 1"),
            lambda d: draw_top_p(d, 9, 0.6, 0.9, 1.0),
            3,
        ),
        Case(
            "warm",
            both("a temperature above 1", "溫度高於 1"),
            lambda d: draw_top_p(d, 12, 0.5, 0.85, d.number(1.8, 3.0)),
            2,
        ),
        Case(
            "cold",
            both("a temperature below 1", "溫度低於 1"),
            lambda d: draw_top_p(d, 12, 0.75, 0.95, d.number(0.45, 0.7)),
        ),
        Case(
            "small_p",
            both("a small p: at least one token stays", "p 很小：至少要留一個"),
            lambda d: draw_top_p(d, 8, 0.02, 0.09, 1.5),
        ),
        Case("all", both("p = 1 keeps all", "p = 1：全部留下"), lambda d: draw_top_p(d, 7, 1.0, 1.0, 1.4)),
        Case(
            "one_row",
            both("a batch of one", "批次裡只有一列"),
            lambda d: first_row(draw_top_p(d, 9, 0.6, 0.9, 1.0)),
            0.5,
            trap=True,
        ),
        Case(
            "large",
            both("logits near 100", "logits 接近 100"),
            lambda d: draw_top_p(d, 9, 0.6, 0.9, 0.8, mean=100.0),
            0.5,
            trap=True,
        ),
        float64(lambda d: draw_top_p(d, 9, 0.6, 0.9, 1.3, place=close_to), 0.5),
        noncontiguous(lambda d: draw_top_p(d, 10, 0.6, 0.9, 1.0), 0.5),
    ],
    mistakes=[
        Mistake("crossing_token_dropped", draws_top_p(crossing_dropped), CROSSING),
        Mistake("crossing_token_dropped_but_one", draws_top_p(crossing_dropped_but_one), CROSSING),
        Mistake(
            "one_beyond",
            draws_top_p(one_beyond),
            both(
                "You keep one token more than needed: the one that crosses p is the last to stay.",
                "你多留了一個：跨過 p 的那個就是最後一個。",
            ),
        ),
        Mistake(
            "unsorted",
            draws_top_p(in_id_order),
            both(
                "You cumulate in the order of the ids to find the nucleus. Which tokens stay is decided in the order of "
                "their probability; only the draw goes by ids.",
                "找核心的時候，你照編號累積。哪些要留，要照機率高低來看；只有抽樣才照編號走。",
            ),
        ),
        Mistake(
            "ascending",
            draws_top_p(ascending),
            both(
                "You begin with the least probable token. Begin with the most probable.",
                "你從最不可能的詞元開始。要從最可能的開始。",
            ),
        ),
        Mistake(
            "mask_not_put_back",
            draws_top_p(not_put_back),
            both(
                "What you keep is marked in sorted order but applied to the ids. Bring each mark back to its token.",
                "你在排序後的順序上做記號，卻直接用在編號上。要把每個記號送回它的詞元。",
            ),
        ),
        Mistake(
            "permuted_the_wrong_way",
            draws_top_p(gathered_back),
            both(
                "On the way back from sorted order you apply the same reordering once more. What takes it back is its "
                "inverse.",
                "從排序後的順序回來時，你把同一個排列又做了一次。要用它的反排列才回得來。",
            ),
        ),
        Mistake("not_renormalised", draws_top_p(normalised=False), NOT_RENORMALISED),
        Mistake("not_renormalised_first", draws_top_p(normalised=False, draw=walk_or_first), NOT_RENORMALISED),
        Mistake(
            "not_renormalised_last",
            draws_top_p(normalised=False, draw=lambda p, u: walk(p, u).clamp(max=p.shape[-1] - 1)),
            NOT_RENORMALISED,
        ),
        Mistake(
            "temperature_after",
            temperature_after,
            both(
                "You choose the nucleus at temperature 1 and warm it up afterwards. Temperature comes first.",
                "你先在溫度 1 選出核心，之後才套用溫度。溫度要先用。",
            ),
        ),
        Mistake(
            "temperature_for_nucleus_only",
            temperature_for_nucleus_only,
            both(
                "The nucleus is chosen with the temperature, but the draw inside it is not. Both use the same distribution.",
                "選核心時用了溫度，在核心裡抽的時候卻沒有。兩者用的是同一個分布。",
            ),
        ),
        Mistake("times_temperature", draws_top_p(heat=lambda temperature: 1 / temperature), TIMES_TEMPERATURE),
        Mistake("temperature_ignored", draws_top_p(heat=lambda temperature: 1.0), NO_TEMPERATURE),
        Mistake("probability_above_p", draws_top_p(likely_enough), ABOVE_P),
        Mistake("probability_above_p_but_one", draws_top_p(likely_enough_but_one), ABOVE_P),
        Mistake("rank_for_id", draws_top_p(draw=rank_of), RANK),
        Mistake("by_probability", draws_top_p(draw=by_probability), BY_PROBABILITY),
        Mistake("argmax", lambda logits, p, temperature, u: logits.argmax(dim=-1), UNUSED_U),
        Mistake("always_id_0", lambda logits, p, temperature, u: torch.zeros_like(u, dtype=torch.long), ALWAYS_0),
        Mistake("not_cumulated", draws_top_p(draw=likely_enough_first), NOT_CUMULATED),
        Mistake("not_cumulated_counted", draws_top_p(draw=unlikely_counted), NOT_CUMULATED),
        Mistake("one_u_for_all", draws_top_p(draw=one_u_for_all), ONE_U),
        Mistake("cumulated_down_the_batch", draws_top_p(draw=down_the_batch), DOWN_THE_BATCH),
        Mistake("one_id_early", draws_top_p(draw=walk_one_early), ONE_EARLY),
        Mistake("backwards", draws_top_p(draw=from_the_end), BACKWARDS),
        Mistake(
            "nothing_dropped",
            draws_top_p(lambda probabilities, p: torch.ones_like(probabilities, dtype=torch.bool)),
            both("Nothing is dropped: p is not used.", "一個都沒丟：p 沒有用到。"),
        ),
        Mistake(
            "zero_logits",
            top_p_zero_logits,
            both(
                "You set the dropped logits to 0. Their probability must be 0, and e to the power 0 is 1.",
                "你把丟掉的 logits 設成 0。要是 0 的是它們的機率，而 e 的 0 次方是 1。",
            ),
        ),
        Mistake("no_max_subtraction", top_p_without_maximum, NO_MAXIMUM),
        Mistake(
            "float32_sums",
            lambda logits, p, temperature, u: draws_top_p()(logits.float(), p, temperature, u),
            FLOAT32_SUMS,
        ),
    ],
    hints=[
        both(
            "Sort the probabilities from large to small. For each token you need the sum of those before it, its own not "
            "included.",
            "把機率由大排到小。對每個詞元，你需要排在它前面的機率總和，不含它自己。",
        ),
        both(
            "The tokens to keep are marked in sorted order; the draw needs them in the order of the ids. Sorting gives you "
            "the ids too: use them to scatter the marks back.",
            "要留的詞元是在排序後的順序上標的，抽樣卻要照編號。排序也會告訴你編號，用它把記號散回原位（scatter）。",
        ),
        both(
            "Set the others' probability to 0, divide by what is left, then draw as in the exercise before.",
            "其他詞元的機率設成 0，除以剩下的總和，再照上一題的方法抽。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------------- question

question(
    name="10_q1",
    lesson=LESSON,
    right="c",
    wrong=[
        Mistake(
            "weights_change",
            "a",
            both(
                "The cache holds results, keys and values, not weights. Nothing is approximated: cached and uncached agree to "
                "rounding.",
                "快取存的是算好的鍵和值，不是權重。沒有任何近似：有沒有快取，結果只差捨入誤差。",
            ),
        ),
        Mistake(
            "training_faster",
            "b",
            both(
                "In training all tokens of a text are there at once, and one pass makes all keys once. There is no step to "
                "repeat, so there is nothing to save.",
                "訓練時整段文字的詞元都已經在了，跑一次就把所有的鍵算完。沒有一步一步的重複，也就沒有東西可省。",
            ),
        ),
        Mistake(
            "constant_memory",
            "d",
            both(
                "The other way round: memory is the price. The cache grows by two vectors a layer and key–value head with "
                "every token, and the one query still meets all n keys.",
                "正好相反：記憶體就是代價。每多一個詞元，每一層的每個鍵值頭就多存兩個向量，而那一個查詢還是要碰到全部 n 個鍵。",
            ),
        ),
    ],
    hints=[
        both(
            "Go through one step with n tokens. What is computed anew, what is read, and what is longer afterwards?",
            "走一遍有 n 個詞元的一步。哪些要重新算、哪些要讀、哪些在這一步之後變長了？",
        ),
    ],
)
