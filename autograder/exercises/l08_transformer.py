"""Lesson 08, the whole of 2017: encoder, decoder, logits, what the decoder reads, loss, learning rate, decoding, size.

Shapes: B batch, M source tokens, N target tokens, L positions in the table, V vocabulary, d = d_model.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import LOSSES, TRANSFORMERS
from autograder.exercises.shared import float64, gradients, noncontiguous, smallest, transposed_memory
from autograder.functions import Copyist, DecoderBlock, EncoderBlock, SmallEncoder, TargetReader
from autograder.text import both

LESSON = "08_transformer"

LAYERS_WITHOUT_EFFECT = both(
    "Your result is what enters the first layer: the layers leave no trace in it. A layer changes nothing in place; look "
    "at what becomes of the result that it gives back.",
    "你的結果就是進入第一層之前的樣子，各層完全沒有影響。層不會就地修改輸入；看看它回傳的結果後來去了哪裡。",
)

# ----------------------------------------------------------------------------------------------------- encoder


def encoder(
    tokens: Tensor, embedding: Tensor, positions: Tensor, layers: list[Any], mask: Tensor | None = None
) -> Tensor:
    x = math.sqrt(embedding.shape[-1]) * embedding[tokens] + positions[: tokens.shape[-1]]
    for layer in layers:
        x = layer(x, mask)
    return x


def entered(tokens: Tensor, embedding: Tensor, positions: Tensor) -> Tensor:
    """What the first layer reads; mistakes elsewhere build on it."""
    return math.sqrt(embedding.shape[-1]) * embedding[tokens] + positions[: tokens.shape[-1]]


def through(layers: list[Any], x: Tensor, *others: Any) -> Tensor:
    for layer in layers:
        x = layer(x, *others)
    return x


def layer_normed(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def encoder_block(draw: Draw, d: int) -> EncoderBlock:
    return EncoderBlock(draw.normal(d, d, std=0.1), draw.normal(d, d))


def decoder_block(draw: Draw, d: int) -> DecoderBlock:
    return DecoderBlock(draw.normal(d, d, std=0.1), draw.normal(d, d), draw.normal(d, d, std=0.3), draw.normal(d, d))


def draw_encoder(
    draw: Draw, B: int, N: int, n_layers: int, mask_shape: tuple[int, ...] = (), L: int = 9, V: int = 8, d: int = 6
) -> tuple[Any, ...]:
    tokens = draw.integers(0, V - 1, B, N)
    layers = [encoder_block(draw, d) for _ in range(n_layers)]
    mask = draw.mask(*mask_shape) if mask_shape else None
    return tokens, draw.normal(V, d, std=0.5), draw.normal(L, d), layers, mask


def draw_encoder_named(draw: Draw) -> tuple[Any, ...]:
    *args, mask = draw_encoder(draw, 2, 4, 3, (2, 1, 4, 4))
    return tuple(args), {"mask": mask}


exercise(
    name="encoder",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=encoder,
    results=("x",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "two_layers",
            both("two layers, a padding mask [B, 1, 1, M]", "兩層，填補遮罩 [B, 1, 1, M]"),
            lambda d: draw_encoder(d, 2, 5, 2, (2, 1, 1, 5)),
            3,
        ),
        Case(
            "one_layer",
            both("one layer, no mask, as many tokens as positions", "一層，沒有遮罩，詞元和位置一樣多"),
            lambda d: draw_encoder(d, 3, 5, 1, L=5),
            2,
        ),
        Case(
            "three_layers",
            both("three layers, a mask [B, 1, M, M], by name", "三層，用名稱給遮罩 [B, 1, M, M]"),
            draw_encoder_named,
            2,
        ),
        Case("no_layers", both("no layers at all", "一層都沒有"), lambda d: draw_encoder(d, 2, 4, 0), 1, trap=True),
        smallest(lambda d: draw_encoder(d, 1, 1, 1, (1, 1, 1, 1), L=1, V=1, d=1)),
        float64(lambda d: draw_encoder(d, 2, 4, 2, (2, 1, 1, 4))),
        noncontiguous(lambda d: draw_encoder(d, 2, 6, 2, (2, 1, 1, 6))),
        gradients(lambda d: draw_encoder(d, 2, 5, 2, (2, 1, 1, 5))),
    ],
    mistakes=[
        Mistake(
            "no_sqrt_d_model",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, embedding[tokens] + positions[: tokens.shape[-1]], mask
            ),
            both(
                "The token vectors enter as they stand in the table. The paper makes them longer first, so that the "
                "positions do not drown them.",
                "詞元向量從表裡拿出來就直接用了。論文會先把它們放大，才不會被位置蓋過去。",
            ),
        ),
        Mistake(
            "times_d_model",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, embedding.shape[-1] * embedding[tokens] + positions[: tokens.shape[-1]], mask
            ),
            both(
                "You multiply the token vectors by d_model itself. It is its root that makes them as long as the positions.",
                "你把詞元向量乘上了 d_model 本身。讓它們和位置差不多長的，是它的平方根。",
            ),
        ),
        Mistake(
            "times_sqrt_vocabulary",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, math.sqrt(embedding.shape[0]) * embedding[tokens] + positions[: tokens.shape[-1]], mask
            ),
            both(
                "Your factor is the root of the number of rows of the table, the vocabulary. It is the length of a row that "
                "counts.",
                "你的因子是表的列數（詞彙數）的平方根。要看的是一列有多長。",
            ),
        ),
        Mistake(
            "divided_by_sqrt_d_model",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, embedding[tokens] / math.sqrt(embedding.shape[-1]) + positions[: tokens.shape[-1]], mask
            ),
            both(
                "You divide the token vectors by √d_model. Dividing belongs to the scores of attention; here the vectors "
                "are too short already.",
                "你把詞元向量除以 √d_model。要除的是注意力的分數；這裡的向量本來就太短了。",
            ),
        ),
        Mistake(
            "scaled_with_positions",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, math.sqrt(embedding.shape[-1]) * (embedding[tokens] + positions[: tokens.shape[-1]]), mask
            ),
            both(
                "The positions are multiplied by √d_model too. The factor belongs to the token vectors alone.",
                "位置也被乘上 √d_model 了。這個因子只屬於詞元向量。",
            ),
        ),
        Mistake(
            "positions_missing",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, math.sqrt(embedding.shape[-1]) * embedding[tokens], mask
            ),
            both(
                "The positions do not enter: your encoder reads a bag of words.",
                "位置沒有加進來：你的編碼器讀到的只是一袋字，沒有順序。",
            ),
        ),
        Mistake(
            "positions_from_one",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers,
                math.sqrt(embedding.shape[-1]) * embedding[tokens] + positions.roll(-1, 0)[: tokens.shape[-1]],
                mask,
            ),
            both(
                "Your first token gets the second row of the positions. They are counted from 0.",
                "你的第一個詞元拿到位置表的第二列。位置從 0 數起。",
            ),
        ),
        Mistake(
            "positions_in_every_layer",
            lambda tokens, embedding, positions, layers, mask=None: positions_each_time(
                tokens, embedding, positions, layers, mask
            ),
            both(
                "The positions are added again before every layer. They enter once, at the bottom; the residual paths "
                "carry them on.",
                "每一層之前又加了一次位置。位置只在最底下加一次，之後由殘差連結帶著走。",
            ),
        ),
        Mistake(
            "not_chained",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers[-1:], entered(tokens, embedding, positions), mask
            ),
            both(
                "Only your last layer counts: either every layer reads the embeddings, or the others do not run. Each "
                "layer reads what the one before it has written.",
                "只有你的最後一層有作用：要不是每一層讀的都是嵌入，就是其他層沒有執行。每一層應該讀前一層的輸出。",
            ),
        ),
        Mistake(
            "result_not_kept",
            lambda tokens, embedding, positions, layers, mask=None: entered(tokens, embedding, positions),
            LAYERS_WITHOUT_EFFECT,
        ),
        Mistake(
            "first_layer_only",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers[:1], entered(tokens, embedding, positions), mask
            ),
            both(
                "Your result is that of the first layer. Does your return stand inside the loop?",
                "你的結果是第一層的輸出。return 是不是寫在迴圈裡面了？",
            ),
        ),
        Mistake(
            "same_layer_again",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers[:1] * len(layers), entered(tokens, embedding, positions), mask
            ),
            both(
                "The first layer runs again and again. Each layer has weights of its own.",
                "你讓第一層重複執行。每一層都有自己的權重。",
            ),
        ),
        Mistake(
            "layers_backwards",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers[::-1], entered(tokens, embedding, positions), mask
            ),
            both(
                "The layers run from last to first. The first of the list reads the embeddings.",
                "層的順序顛倒了。串列裡的第一層要讀嵌入。",
            ),
        ),
        Mistake(
            "mask_dropped",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers, entered(tokens, embedding, positions), None
            ),
            both(
                "The mask does not reach the layers: they look at padding as if it were text.",
                "遮罩沒有傳到各層：它們把填補當成文字來看。",
            ),
        ),
        Mistake(
            "mask_in_first_layer_only",
            lambda tokens, embedding, positions, layers, mask=None: through(
                layers[1:], through(layers[:1], entered(tokens, embedding, positions), mask), None
            ),
            both(
                "Only the first layer gets the mask. Padding must stay hidden in every layer.",
                "只有第一層拿到遮罩。填補在每一層都要遮住。",
            ),
        ),
        Mistake(
            "residual_added",
            lambda tokens, embedding, positions, layers, mask=None: residual_each_time(
                layers, entered(tokens, embedding, positions), mask
            ),
            both(
                "You add each layer's input to its output. The layers you are given have their residual paths inside.",
                "你把每一層的輸入又加到輸出上。這些層裡面已經有殘差連結了。",
            ),
        ),
        Mistake(
            "final_norm",
            lambda tokens, embedding, positions, layers, mask=None: layer_normed(
                through(layers, entered(tokens, embedding, positions), mask)
            ),
            both(
                "You normalise the result once more. In the encoder of 2017 the last layer ends with its own norm; nothing "
                "follows it.",
                "你最後又做了一次正規化。2017 年的編碼器，最後一層自己就以正規化結尾，後面沒有東西了。",
            ),
        ),
    ],
    hints=[
        both(
            "Two parts: what the first layer reads, and a loop over the layers. Only one name is needed for what flows "
            "through the loop.",
            "分成兩部分：第一層讀到的東西，以及跑過各層的迴圈。在迴圈裡流動的東西，用一個名字就夠了。",
        ),
        both(
            "Indexing a table with a tensor of ids looks up a row for every id, whatever the shape of the ids. How many "
            "rows of the positions do M tokens need?",
            "用一個裝著編號的張量去取表，會替每個編號取出一列，編號是什麼形狀都可以。M 個詞元需要位置表的幾列？",
        ),
        both(
            "The factor is the root of the last size of the embedding. It stands before the token rows only. Hand the mask "
            "on as it is, None included.",
            "那個因子是嵌入最後一個大小的平方根，只乘在詞元那幾列前面。遮罩原樣傳下去，None 也一樣。",
        ),
    ],
)


def positions_each_time(
    tokens: Tensor, embedding: Tensor, positions: Tensor, layers: list[Any], mask: Tensor | None
) -> Tensor:
    x = math.sqrt(embedding.shape[-1]) * embedding[tokens]
    for layer in layers:
        x = layer(x + positions[: tokens.shape[-1]], mask)
    return x if layers else entered(tokens, embedding, positions)


def residual_each_time(layers: list[Any], x: Tensor, mask: Tensor | None) -> Tensor:
    for layer in layers:
        x = x + layer(x, mask)
    return x


# ----------------------------------------------------------------------------------------------------- decoder


def decoder(
    tokens: Tensor,
    memory: Tensor,
    embedding: Tensor,
    positions: Tensor,
    layers: list[Any],
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
) -> Tensor:
    x = math.sqrt(embedding.shape[-1]) * embedding[tokens] + positions[: tokens.shape[-1]]
    for layer in layers:
        x = layer(x, memory, mask, memory_mask)
    return x


def wrong_decoder(change: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A decoder whose way through the layers is `change(layers, x, memory, mask, memory_mask)`."""

    def answer(
        tokens: Tensor,
        memory: Tensor,
        embedding: Tensor,
        positions: Tensor,
        layers: list[Any],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        return change(layers, entered(tokens, embedding, positions), memory, mask, memory_mask)

    return answer


def memory_replaced(layers: list[Any], x: Tensor, memory: Tensor, mask: Any, memory_mask: Any) -> Tensor:
    for layer in layers:
        x = memory = layer(x, memory, mask, memory_mask)
    return x


def arguments_swapped(layers: list[Any], x: Tensor, memory: Tensor, mask: Any, memory_mask: Any) -> Tensor:
    for layer in layers:
        x = layer(memory, x, mask, memory_mask)
    return x


def with_causal(mask: Tensor | None, n: int) -> Tensor:
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return causal if mask is None else mask & causal


def draw_decoder(
    draw: Draw,
    B: int,
    N: int,
    M: int,
    n_layers: int,
    mask_shape: tuple[int, ...] = (),
    memory_mask_shape: tuple[int, ...] = (),
    V: int = 8,
    d: int = 6,
) -> tuple[Any, ...]:
    tokens = draw.integers(0, V - 1, B, N)
    layers = [decoder_block(draw, d) for _ in range(n_layers)]
    mask = draw.mask(*mask_shape) if mask_shape else None
    memory_mask = draw.mask(*memory_mask_shape) if memory_mask_shape else None
    return (
        tokens, draw.normal(B, M, d, std=1.5), draw.normal(V, d, std=0.5), draw.normal(9, d), layers, mask, memory_mask,
    )  # fmt: skip


def draw_square_decoder(draw: Draw) -> tuple[Any, ...]:
    """As many target as source tokens, and masks of the same shape that differ."""
    *args, mask, _ = draw_decoder(draw, 2, 5, 5, 3, (2, 1, 5, 5))
    return *args, mask, ~mask | torch.eye(5, dtype=torch.bool)[draw.permutation(5)]


def draw_memory_mask_by_name(draw: Draw) -> tuple[Any, ...]:
    *args, _, memory_mask = draw_decoder(draw, 3, 4, 6, 2, (), (3, 1, 1, 6))
    return tuple(args), {"memory_mask": memory_mask}


exercise(
    name="decoder",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=decoder,
    results=("x",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "two_layers",
            both("two layers, both masks, N ≠ M", "兩層，兩個遮罩都有，N ≠ M"),
            lambda d: draw_decoder(d, 2, 4, 6, 2, (2, 1, 4, 4), (2, 1, 1, 6)),
            3,
        ),
        Case(
            "square",
            both("three layers, N = M, two masks that differ", "三層，N = M，兩個不同的遮罩"),
            draw_square_decoder,
            2,
        ),
        Case(
            "one_layer",
            both("one layer, no masks", "一層，沒有遮罩"),
            lambda d: draw_decoder(d, 2, 5, 3, 1),
            1.5,
        ),
        Case(
            "memory_mask_alone",
            both("only the memory's mask, by name", "只用名稱給記憶的遮罩"),
            draw_memory_mask_by_name,
            1.5,
        ),
        Case("no_layers", both("no layers at all", "一層都沒有"), lambda d: draw_decoder(d, 2, 4, 3, 0), 1, trap=True),
        smallest(lambda d: draw_decoder(d, 1, 1, 1, 1, (1, 1), (1, 1, 1, 1), V=1, d=1)),
        float64(lambda d: draw_decoder(d, 2, 4, 5, 2, (4, 4), (2, 1, 1, 5))),
        noncontiguous(lambda d: draw_decoder(d, 2, 3, 5, 2, (3, 3), (2, 1, 1, 5))),
        gradients(lambda d: draw_decoder(d, 2, 4, 5, 2, (4, 4), (2, 1, 1, 5))),
    ],
    mistakes=[
        Mistake(
            "no_sqrt_d_model",
            lambda tokens, memory, embedding, positions, layers, mask=None, memory_mask=None: through(
                layers, embedding[tokens] + positions[: tokens.shape[-1]], memory, mask, memory_mask
            ),
            both(
                "The token vectors enter as they stand in the table. As in the encoder, they are made longer first.",
                "詞元向量從表裡拿出來就直接用了。和編碼器一樣，要先放大。",
            ),
        ),
        Mistake(
            "scaled_with_positions",
            lambda tokens, memory, embedding, positions, layers, mask=None, memory_mask=None: through(
                layers,
                math.sqrt(embedding.shape[-1]) * (embedding[tokens] + positions[: tokens.shape[-1]]),
                memory,
                mask,
                memory_mask,
            ),
            both(
                "The positions are multiplied by √d_model too. The factor belongs to the token vectors alone.",
                "位置也被乘上 √d_model 了。這個因子只屬於詞元向量。",
            ),
        ),
        Mistake(
            "positions_missing",
            lambda tokens, memory, embedding, positions, layers, mask=None, memory_mask=None: through(
                layers, math.sqrt(embedding.shape[-1]) * embedding[tokens], memory, mask, memory_mask
            ),
            both(
                "The positions do not enter. The decoder needs them for its own tokens, as the encoder does for the source.",
                "位置沒有加進來。解碼器自己的詞元也需要位置，和編碼器的來源一樣。",
            ),
        ),
        Mistake(
            "masks_swapped",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: through(layers, x, memory, memory_mask, mask)),
            both(
                "The two masks have changed places. The layer asks for the target's first, then for the memory's.",
                "兩個遮罩對調了。層要的順序是先目標的遮罩，再記憶的遮罩。",
            ),
        ),
        Mistake(
            "mask_dropped",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: through(layers, x, memory, None, memory_mask)),
            both(
                "The target's mask does not reach the layers: every position sees the ones that come later.",
                "目標的遮罩沒有傳到各層：每個位置都看得到後面的位置。",
            ),
        ),
        Mistake(
            "memory_mask_dropped",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: through(layers, x, memory, mask, None)),
            both(
                "The memory's mask does not reach the layers: they read the source's padding.",
                "記憶的遮罩沒有傳到各層：它們讀到來源的填補了。",
            ),
        ),
        Mistake(
            "causal_added",
            wrong_decoder(
                lambda layers, x, memory, mask, memory_mask: through(
                    layers, x, memory, with_causal(mask, x.shape[1]), memory_mask
                )
            ),
            both(
                "You add a causal mask of your own. This function hands on what it is given; the masks are made elsewhere.",
                "你自己加了一個因果遮罩。這個函式只負責把收到的東西傳下去，遮罩在別的地方做。",
            ),
        ),
        Mistake(
            "memory_replaced",
            wrong_decoder(memory_replaced),
            both(
                "After the first layer the memory is that layer's output. Every layer reads the same memory: the encoder's "
                "result.",
                "第一層之後，記憶就變成那一層的輸出了。每一層讀的都是同一份記憶：編碼器的結果。",
            ),
        ),
        Mistake(
            "memory_ignored",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: memory_ignored(layers, x, mask, memory_mask)),
            both(
                "Your layers look up their own input where the memory belongs: nothing of the source gets in.",
                "該放記憶的地方放了解碼器自己的輸入：來源的內容完全進不來。",
            ),
        ),
        Mistake(
            "not_chained",
            wrong_decoder(
                lambda layers, x, memory, mask, memory_mask: through(layers[-1:], x, memory, mask, memory_mask)
            ),
            both(
                "Only your last layer counts: either every layer reads the embeddings, or the others do not run. Each "
                "layer reads what the one before it has written.",
                "只有你的最後一層有作用：要不是每一層讀的都是嵌入，就是其他層沒有執行。每一層應該讀前一層的輸出。",
            ),
        ),
        Mistake(
            "result_not_kept",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: x),
            LAYERS_WITHOUT_EFFECT,
        ),
        Mistake(
            "arguments_swapped",
            wrong_decoder(arguments_swapped),
            both(
                "The layer gets the memory in the first place and the target in the second: then it is the memory that "
                "flows through. Look at the order that the layer asks for.",
                "你把記憶放在層的第一個引數、目標放在第二個，結果流過各層的變成記憶。看看層要的順序。",
            ),
        ),
        Mistake(
            "mask_passed_twice",
            wrong_decoder(lambda layers, x, memory, mask, memory_mask: through(layers, x, memory, mask, mask)),
            both(
                "The target's mask is handed on twice, and the memory's not at all. Each of the two attentions has a mask "
                "of its own.",
                "目標的遮罩傳了兩次，記憶的遮罩一次也沒傳。兩個注意力各有自己的遮罩。",
            ),
        ),
        Mistake(
            "first_layer_only",
            wrong_decoder(
                lambda layers, x, memory, mask, memory_mask: through(layers[:1], x, memory, mask, memory_mask)
            ),
            both(
                "Your result is that of the first layer. Does your return stand inside the loop?",
                "你的結果是第一層的輸出。return 是不是寫在迴圈裡面了？",
            ),
        ),
        Mistake(
            "final_norm",
            wrong_decoder(
                lambda layers, x, memory, mask, memory_mask: layer_normed(through(layers, x, memory, mask, memory_mask))
            ),
            both(
                "You normalise the result once more. In 2017 the last layer ends with its own norm; nothing follows it.",
                "你最後又做了一次正規化。2017 年的最後一層自己就以正規化結尾，後面沒有東西了。",
            ),
        ),
    ],
    hints=[
        both(
            "It is the encoder with two more things in each layer's brackets. What enters at the bottom is the same.",
            "它就是編碼器，只是每一層的括號裡多兩樣東西；最底下進來的東西是一樣的。",
        ),
        both(
            "One thing changes from layer to layer, three stay as they are. Which is the one?",
            "一層一層往上，只有一樣東西在變，三樣不變。變的是哪一樣？",
        ),
        both(
            "Mind the order of the four: what flows, the memory, the target's mask, the memory's mask.",
            "注意四個引數的順序：流動的東西、記憶、目標的遮罩、記憶的遮罩。",
        ),
    ],
)


def memory_ignored(layers: list[Any], x: Tensor, mask: Any, memory_mask: Any) -> Tensor:
    for layer in layers:
        x = layer(x, x, mask, memory_mask)
    return x


# ------------------------------------------------------------------------------------------------- shift_right


def shift_right(labels: Tensor, start_id: int, pad_id: int = 0) -> Tensor:
    start = labels.new_full((labels.shape[0], 1), start_id)
    shifted = torch.cat([start, labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad_id)


def filled(labels: Tensor, pad_id: int) -> Tensor:
    return labels.masked_fill(labels == -100, pad_id)


def beginning(labels: Tensor, token: int) -> Tensor:
    return labels.new_full((labels.shape[0], 1), token)


def shift_in_place(labels: Tensor, start_id: int, pad_id: int = 0) -> Tensor:
    labels[labels == -100] = pad_id
    return torch.cat([beginning(labels, start_id), labels[:, :-1]], 1)


def draw_labels(draw: Draw, B: int, N: int, ignored: bool = False) -> Tensor:
    """Tokens from 3 up, rows that begin and end differently; with `ignored`, −100 at the end of a row, and inside one."""
    labels = draw.integers(3, 90, B, N)
    labels[:, 0], labels[:, -1] = draw.integers(3, 40, B), draw.integers(50, 90, B)
    if ignored:
        labels[0, -2:] = -100
        labels[1, draw.integer(1, N - 2)] = -100
    return labels


def draw_start_of_zero(draw: Draw) -> tuple[Any, ...]:
    return draw_labels(draw, 3, 5, True), 0, draw.integer(1, 2)


def draw_strided_labels(draw: Draw) -> tuple[Any, ...]:
    return draw_labels(draw, 4, 5, True).mT.contiguous().mT, draw.integer(1, 2)


exercise(
    name="shift_right",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=shift_right,
    results=("inputs",),
    cases=[
        Case("plain", both("labels, start 1", "標籤，開頭 1"), lambda d: (draw_labels(d, 3, 5), 1), 2),
        Case(
            "ignored",
            both("labels of −100, by name pad_id", "有 −100 的標籤，用名稱給 pad_id"),
            lambda d: ((draw_labels(d, 2, 6, True), d.integer(1, 2)), {"pad_id": 95 + d.integer(0, 4)}),
            2,
        ),
        Case("start_of_zero", both("start 0, padding not 0", "開頭是 0，填補不是 0"), draw_start_of_zero, 2),
        Case(
            "one_label",
            both("one label: only the start remains", "只有一個標籤：只剩開頭"),
            lambda d: (draw_labels(d, 3, 1), d.integer(1, 2)),
            trap=True,
        ),
        smallest(lambda d: (draw_labels(d, 1, 1), d.integer(1, 2))),
        Case(
            "strided",
            both("labels whose memory is not contiguous, pad_id not given", "記憶體不連續的標籤，沒有給 pad_id"),
            draw_strided_labels,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "shift_left",
            lambda labels, start_id, pad_id=0: filled(torch.cat([labels[:, 1:], beginning(labels, pad_id)], 1), pad_id),
            both(
                "You shift to the left. Then each position reads the token after the one that it is to predict.",
                "你往左移了。這樣每個位置讀到的，是它要預測的那個的下一個詞元。",
            ),
        ),
        Mistake(
            "too_long",
            lambda labels, start_id, pad_id=0: filled(torch.cat([beginning(labels, start_id), labels], 1), pad_id),
            both(
                "Your result has one column too many. The last label has nothing left to predict.",
                "結果多了一行（column）。最後一個標籤後面沒有東西要預測了。",
            ),
        ),
        Mistake(
            "roll_around",
            lambda labels, start_id, pad_id=0: filled(labels.roll(1, 1), pad_id),
            both(
                "The last token has come round to the front. In front stands the start token, and the last token falls off.",
                "最後一個詞元繞到最前面了。最前面應該是開頭詞元，最後一個要丟掉。",
            ),
        ),
        Mistake(
            "overwrites_first",
            lambda labels, start_id, pad_id=0: filled(
                torch.cat([beginning(labels, start_id), labels[:, 1:]], 1), pad_id
            ),
            both(
                "Nothing has moved: you have only put the start over the first label. Each position then reads its own "
                "answer.",
                "什麼都沒有移動：你只是用開頭蓋掉第一個標籤。這樣每個位置讀到的就是自己的答案。",
            ),
        ),
        Mistake(
            "keeps_minus_100",
            lambda labels, start_id, pad_id=0: torch.cat([beginning(labels, start_id), labels[:, :-1]], 1),
            both(
                "A −100 is still there. It is a sign for the loss; no embedding has a row of that number.",
                "−100 還在裡面。它是給損失函數看的記號，嵌入裡沒有這一列。",
            ),
        ),
        Mistake(
            "minus_100_to_zero",
            lambda labels, start_id, pad_id=0: filled(torch.cat([beginning(labels, start_id), labels[:, :-1]], 1), 0),
            both(
                "A −100 becomes 0, whatever pad_id says.",
                "不管 pad_id 是多少，你都把 −100 換成 0。",
            ),
        ),
        Mistake(
            "minus_100_to_start",
            lambda labels, start_id, pad_id=0: filled(
                torch.cat([beginning(labels, start_id), labels[:, :-1]], 1), start_id
            ),
            both(
                "A −100 becomes the start token. It stands for padding.",
                "−100 被換成開頭詞元了。它代表的是填補。",
            ),
        ),
        Mistake(
            "pad_for_start",
            lambda labels, start_id, pad_id=0: filled(
                torch.cat([beginning(labels, pad_id), labels[:, :-1]], 1), pad_id
            ),
            both(
                "In front stands padding instead of the start token.",
                "最前面放的是填補，不是開頭詞元。",
            ),
        ),
        Mistake(
            "mutates",
            shift_in_place,
            both(
                "Your result is right, but the labels given to you have changed: the loss would now count what it was to "
                "ignore. Work on a copy.",
                "結果是對的，但傳進來的 labels 被改掉了：損失函數本來該忽略的，現在會被算進去。請在複本上改。",
            ),
        ),
    ],
    hints=[
        both(
            "Write one row on paper, the labels above, what the decoder reads below. Which label does nobody need to read?",
            "在紙上寫一列：上面是標籤，下面是解碼器要讀的。哪個標籤沒有人需要讀？",
        ),
        both(
            "A column of start tokens of the same dtype and on the same device, joined with all labels but the last. "
            "Then look for −100 in a new tensor.",
            "做一行同 dtype、同裝置的開頭詞元，接上最後一個以外的標籤；再到新的張量裡找 −100。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------ transformer_logits


def transformer_logits(
    source: Tensor, target: Tensor, encoder: Any, decoder: Any, embedding: Tensor, pad_id: int = 0
) -> Tensor:
    source_mask = (source != pad_id)[:, None, None, :]
    n = target.shape[-1]
    causal = torch.ones(n, n, dtype=torch.bool, device=target.device).tril()
    target_mask = (target != pad_id)[:, None, None, :] & causal
    memory = encoder(source, source_mask)
    return decoder(target, memory, target_mask, source_mask) @ embedding.mT


def keys_open(tokens: Tensor, pad_id: int) -> Tensor:
    return (tokens != pad_id)[:, None, None, :]


def lower_triangle(tokens: Tensor, diagonal: int = 0) -> Tensor:
    n = tokens.shape[-1]
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal)


def with_masks(
    masks: Callable[[Tensor, Tensor, int], tuple[Any, Any, Any]],
    end: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Callable[..., Tensor]:
    """A model whose masks of encoder, target and memory are `masks(source, target, pad_id)`; `end` changes the logits."""

    def answer(
        source: Tensor, target: Tensor, encoder: Any, decoder: Any, embedding: Tensor, pad_id: int = 0
    ) -> Tensor:
        encoder_mask, target_mask, memory_mask = masks(source, target, pad_id)
        hidden = decoder(target, encoder(source, encoder_mask), target_mask, memory_mask)
        return end(hidden @ embedding.mT)

    return answer


def right_masks(source: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    return keys_open(source, pad_id), keys_open(target, pad_id) & lower_triangle(target), keys_open(source, pad_id)


def padded(draw: Draw, B: int, N: int, V: int, pad_id: int, side: str) -> Tensor:
    """Tokens of which each row has its own amount of padding, on the right or the left; one row has none."""
    tokens = draw.integers(0, V - 1, B, N)
    tokens = torch.where(tokens == pad_id, (tokens + 1) % V, tokens)
    lengths = torch.tensor([N, *[draw.integer(2, N - 1) for _ in range(B - 1)]])[draw.permutation(B)]
    place = torch.arange(N) if side == "right" else torch.arange(N).flip(0)
    return tokens.masked_fill(place >= lengths[:, None], pad_id)


def draw_model(draw: Draw, V: int = 8, d: int = 5, L: int = 8) -> tuple[Any, ...]:
    """A small encoder and a small decoder, and the table that makes logits."""
    first = SmallEncoder(
        draw.normal(V, d), draw.normal(L, d), EncoderBlock(draw.normal(d, d, std=0.3), draw.normal(d, d))
    )
    block = DecoderBlock(*(draw.normal(d, d, std=std) for std in (0.3, 1.0, 0.3, 1.0)))
    return first, TargetReader(draw.normal(V, d), draw.normal(L, d), block), draw.normal(V, d)


def draw_logits(draw: Draw, B: int, M: int, N: int, side: str = "right") -> tuple[Any, ...]:
    return padded(draw, B, M, 8, 0, side), padded(draw, B, N, 8, 0, side), *draw_model(draw)


def draw_left_padding(draw: Draw) -> tuple[Any, ...]:
    """Padding on the left, its id not 0, and the id 0 is a word like any other."""
    pad_id = draw.integer(2, 7)
    source, target = padded(draw, 3, 6, 8, pad_id, "left"), padded(draw, 3, 5, 8, pad_id, "left")
    source[:, -1], target[:, -2] = 0, 0
    return (source, target, *draw_model(draw)), {"pad_id": pad_id}


def draw_same_sizes(draw: Draw) -> tuple[Any, ...]:
    """As many source as target tokens, padded at different ends."""
    return padded(draw, 2, 5, 8, 0, "left"), padded(draw, 2, 5, 8, 0, "right"), *draw_model(draw)


def draw_without_padding(draw: Draw) -> tuple[Any, ...]:
    return draw.integers(1, 7, 2, 3), draw.integers(1, 7, 2, 6), *draw_model(draw)


exercise(
    name="transformer_logits",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=transformer_logits,
    results=("logits",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "right_padding",
            both("padding on the right, N ≠ M", "填補在右邊，N ≠ M"),
            lambda d: draw_logits(d, 3, 7, 4),
            3,
        ),
        Case(
            "left_padding",
            both("padding on the left, another pad_id", "填補在左邊，pad_id 不是 0"),
            draw_left_padding,
            2,
        ),
        Case(
            "same_sizes",
            both("N = M, padding at different ends", "N = M，填補在不同的兩端"),
            draw_same_sizes,
            2,
        ),
        Case("no_padding", both("no padding", "沒有填補"), draw_without_padding, 2),
        Case(
            "smallest",
            both("one sentence of one token each, d_model = 1", "來源和目標都只有一句、一個詞元，d_model = 1"),
            lambda d: (torch.ones(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.long), *draw_model(d, 2, 1, 1)),
            0.5,
            trap=True,
        ),
        float64(lambda d: draw_logits(d, 2, 5, 4)),
        noncontiguous(lambda d: draw_logits(d, 2, 4, 6, "left")),
        gradients(lambda d: draw_logits(d, 2, 5, 4)),
    ],
    mistakes=[
        Mistake(
            "no_causal",
            with_masks(lambda s, t, pad: (keys_open(s, pad), keys_open(t, pad), keys_open(s, pad))),
            both(
                "Your decoder sees the tokens that come later, so it can copy the answer instead of guessing it. "
                "Generation has no later tokens.",
                "你的解碼器看得到後面的詞元，抄答案就好，不必猜。生成的時候可沒有後面的詞元。",
            ),
        ),
        Mistake(
            "upside_down",
            with_masks(
                lambda s, t, pad: (keys_open(s, pad), keys_open(t, pad) & lower_triangle(t).mT, keys_open(s, pad))
            ),
            both(
                "Your causal mask is upside down: each position sees itself and what comes later.",
                "你的因果遮罩上下顛倒了：每個位置看到的是自己和後面。",
            ),
        ),
        Mistake(
            "excludes_self",
            with_masks(
                lambda s, t, pad: (keys_open(s, pad), keys_open(t, pad) & lower_triangle(t, -1), keys_open(s, pad))
            ),
            both(
                "A position does not see itself. The target is shifted already, so its own token is not the answer.",
                "每個位置看不到自己。target 已經右移過了，自己的詞元並不是答案。",
            ),
        ),
        Mistake(
            "one_too_many",
            with_masks(
                lambda s, t, pad: (keys_open(s, pad), keys_open(t, pad) & lower_triangle(t, 1), keys_open(s, pad))
            ),
            both(
                "Each position sees one token too many, the next one: and that is the very token it is to guess.",
                "每個位置多看了一個詞元，也就是下一個，而那正是它要猜的。",
            ),
        ),
        Mistake(
            "no_target_padding",
            with_masks(lambda s, t, pad: (keys_open(s, pad), lower_triangle(t), keys_open(s, pad))),
            both(
                "Padding in the target is not hidden. With padding on the left, real tokens read it.",
                "target 裡的填補沒有遮住。填補在左邊時，真正的詞元會讀到它。",
            ),
        ),
        Mistake(
            "either_mask",
            with_masks(lambda s, t, pad: (keys_open(s, pad), keys_open(t, pad) | lower_triangle(t), keys_open(s, pad))),
            both(
                "A target token is open to you if it is real or if it is not later. Both conditions must hold at once.",
                "你讓「不是填補」或「不在後面」的詞元都看得到。這兩個條件要同時成立。",
            ),
        ),
        Mistake(
            "encoder_unmasked",
            with_masks(lambda s, t, pad: (None, *right_masks(s, t, pad)[1:])),
            both(
                "The encoder gets no mask: real source tokens read the padding.",
                "編碼器沒有拿到遮罩：來源裡真正的詞元讀到填補了。",
            ),
        ),
        Mistake(
            "decoder_memory_unmasked",
            with_masks(lambda s, t, pad: (*right_masks(s, t, pad)[:2], None)),
            both(
                "The decoder gets no mask for the memory. The encoder gives a vector for padding too, and it must not be "
                "read.",
                "解碼器沒有拿到記憶的遮罩。編碼器對填補也會給出向量，那些不能讀。",
            ),
        ),
        Mistake(
            "memory_mask_from_target",
            with_masks(lambda s, t, pad: (*right_masks(s, t, pad)[:2], keys_open(t, pad))),
            both(
                "The mask for the memory tells where the target has padding. The memory belongs to the source.",
                "記憶的遮罩是照 target 的填補做的。記憶屬於來源。",
            ),
        ),
        Mistake(
            "masks_inverted",
            with_masks(
                lambda s, t, pad: (~keys_open(s, pad), ~keys_open(t, pad) & lower_triangle(t), ~keys_open(s, pad))
            ),
            both(
                "Your padding masks work the wrong way round: only padding is open. In this course True means: may attend.",
                "你的填補遮罩用反了：只有填補看得到。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "true_means_hidden",
            with_masks(
                lambda s, t, pad: (
                    ~keys_open(s, pad),
                    ~(keys_open(t, pad) & lower_triangle(t)),
                    ~keys_open(s, pad),
                )
            ),
            both(
                "All your masks work the wrong way round: they are True where a key is to be hidden. In this course True "
                "means: may attend.",
                "你的遮罩全都用反了：該遮住的鍵才是 True。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "padded_queries_hidden_too",
            with_masks(
                lambda s, t, pad: (
                    keys_open(s, pad) & keys_open(s, pad).mT,
                    keys_open(t, pad) & keys_open(t, pad).mT & lower_triangle(t),
                    keys_open(s, pad),
                )
            ),
            both(
                "Your masks hide the padding as a key, which is right, but they also leave padded queries nothing to see. "
                "Those are computed like all others, and their logits are compared.",
                "你的遮罩把填補當成鍵遮住，這是對的，但也讓填補位置的查詢什麼都看不到。它們要照常計算，logits 也會比對。",
            ),
        ),
        Mistake(
            "encoder_causal",
            with_masks(lambda s, t, pad: (keys_open(s, pad) & lower_triangle(s), *right_masks(s, t, pad)[1:])),
            both(
                "Your encoder's mask is causal: source tokens do not see what comes after them. The source is there as a "
                "whole; only the target is written one by one.",
                "你的編碼器遮罩是因果的：來源的詞元看不到後面的詞元。來源一開始就全部都在，只有目標才是一個一個寫的。",
            ),
        ),
        Mistake(
            "padding_hides_queries",
            with_masks(
                lambda s, t, pad: (
                    keys_open(s, pad).mT,
                    keys_open(t, pad).mT & lower_triangle(t),
                    keys_open(s, pad).mT,
                )
            ),
            both(
                "Your padding masks have the shape [B, 1, N, 1]: they silence the padded queries, and the padding is read "
                "all the same. It is the keys that must be hidden.",
                "你的填補遮罩形狀是 [B, 1, N, 1]：讓填補的查詢什麼都看不到，填補本身卻還是被讀到。要遮住的是鍵。",
            ),
        ),
        Mistake(
            "pad_id_ignored",
            lambda source, target, encoder, decoder, embedding, pad_id=0: (
                decoder(
                    target,
                    encoder(source, keys_open(source, 0)),
                    keys_open(target, 0) & lower_triangle(target),
                    keys_open(source, 0),
                )
                @ embedding.mT
            ),
            both(
                "You take 0 for the padding, whatever pad_id says.",
                "不管 pad_id 是多少，你都把 0 當成填補。",
            ),
        ),
        Mistake(
            "probabilities",
            with_masks(right_masks, lambda logits: torch.softmax(logits, dim=-1)),
            both(
                "You return probabilities. Logits are asked for: the raw inner products, before any softmax. The loss takes "
                "care of the rest.",
                "你回傳的是機率。這裡要的是 logits：還沒做 softmax 的內積，後面交給損失函數處理。",
            ),
        ),
        Mistake(
            "log_probabilities",
            with_masks(right_masks, lambda logits: torch.log_softmax(logits, dim=-1)),
            both(
                "You return logarithms of probabilities. Logits are asked for, before any softmax.",
                "你回傳的是機率的對數。這裡要的是還沒做 softmax 的 logits。",
            ),
        ),
        Mistake(
            "logits_scaled",
            lambda source, target, encoder, decoder, embedding, pad_id=0: with_masks(
                right_masks, lambda logits: logits * math.sqrt(embedding.shape[-1])
            )(source, target, encoder, decoder, embedding, pad_id),
            both(
                "Your logits are √d_model times too large. That factor belongs to the inputs of encoder and decoder; the "
                "output layer has none.",
                "你的 logits 大了 √d_model 倍。那個因子屬於編碼器和解碼器的輸入，輸出層沒有。",
            ),
        ),
        Mistake(
            "last_position_only",
            with_masks(right_masks, lambda logits: logits[:, -1:]),
            both(
                "Only the last position's logits come back. In training every position predicts, all at once.",
                "你只回傳最後一個位置的 logits。訓練時每個位置都要預測，而且一次算完。",
            ),
        ),
        Mistake(
            "shifted_again",
            lambda source, target, encoder, decoder, embedding, pad_id=0: with_masks(right_masks)(
                source, torch.cat([target[:, :1], target[:, :-1]], dim=1), encoder, decoder, embedding, pad_id
            ),
            both(
                "You shift the target once more. It is the decoder's input already.",
                "你又把 target 右移了一次。傳進來的就已經是解碼器的輸入。",
            ),
        ),
    ],
    hints=[
        both(
            "Three masks are needed, but only two are different. Write down for each attention whose keys it reads: the "
            "source's or the target's?",
            "需要三個遮罩，但只有兩種。替每個注意力寫下來：它讀的是誰的鍵？來源的，還是目標的？",
        ),
        both(
            "A padding mask has one entry for each key, so the axes of heads and queries have size 1. A causal mask has one "
            "entry for each pair. Broadcasting combines the two.",
            "填補遮罩是每個鍵一個值，所以頭和查詢的軸大小都是 1。因果遮罩是每一對一個值。兩者靠廣播結合。",
        ),
        both(
            "A token is open if it is real and not later: both at once. At the end, the inner product of each hidden row "
            "with each row of the embedding is one matrix product with a transpose.",
            "看得到的條件是「不是填補」而且「不在後面」，兩者同時成立。最後，每一列隱藏狀態和嵌入每一列的內積，就是乘上一個轉置。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------- label_smoothing_loss


def label_smoothing_loss(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
    counts = target != ignore_index
    log_p = torch.log_softmax(logits, dim=-1)
    right = log_p.gather(-1, target.masked_fill(~counts, 0).unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(dim=-1)
    return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp(min=1)


def smoothed(
    reduce: Callable[[Tensor, Tensor], Tensor],
    of_right: Callable[[float, int], float] = lambda epsilon, V: 1 - epsilon,
    of_all: Callable[[float, int], float] = lambda epsilon, V: epsilon / V,
    log_p: Callable[[Tensor], Tensor] = lambda logits: torch.log_softmax(logits, dim=-1),
) -> Callable[..., Tensor]:
    """A loss −of_right·ln p_right − of_all·Σ ln p at every position, put together by `reduce(losses, counts)`."""

    def answer(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
        counts = target != ignore_index
        logarithms, V = log_p(logits), logits.shape[-1]
        right = logarithms.gather(-1, target.where(counts, 0)[..., None])[..., 0]
        losses = -of_right(smoothing, V) * right - of_all(smoothing, V) * logarithms.sum(dim=-1)
        return reduce(losses, counts)

    return answer


def mean_of_counted(losses: Tensor, counts: Tensor) -> Tensor:
    return losses.where(counts, 0).sum() / counts.sum().clamp(min=1)


def zero_for_nan(losses: Tensor, counts: Tensor) -> Tensor:
    n = counts.sum()
    return torch.where(n > 0, (losses * counts).sum() / n, 0.0)


def mean_of_rows(losses: Tensor, counts: Tensor) -> Tensor:
    return (losses.where(counts, 0).sum(dim=-1) / counts.sum(dim=-1).clamp(min=1)).mean()


def ignored_places_smoothed(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
    """Leaves the ignored places out of the first part of the loss only."""
    counts = target != ignore_index
    log_p = torch.log_softmax(logits, dim=-1)
    right = log_p.gather(-1, target.where(counts, 0)[..., None])[..., 0]
    losses = -(1 - smoothing) * right.where(counts, 0) - smoothing * log_p.mean(dim=-1)
    return losses.sum() / counts.sum().clamp(min=1)


def only_minus_100_replaced(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
    log_p = torch.log_softmax(logits, dim=-1)
    right = log_p.gather(-1, target.masked_fill(target == -100, 0)[..., None])[..., 0]
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(dim=-1)
    return mean_of_counted(losses, target != ignore_index)


def float32_where_nothing_counts(
    logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100
) -> Tensor:
    if not bool((target != ignore_index).any()):
        return torch.zeros((), dtype=torch.float32)
    return smoothed(mean_of_counted)(logits, target, smoothing, ignore_index)


def smoothed_prediction(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
    counts = target != ignore_index
    p = (1 - smoothing) * torch.softmax(logits, dim=-1) + smoothing / logits.shape[-1]
    return mean_of_counted(-p.gather(-1, target.where(counts, 0)[..., None])[..., 0].log(), counts)


def draw_loss(draw: Draw, B: int, N: int, V: int, ignore_index: int | None = None) -> tuple[Any, ...]:
    """Logits far from 0 on average; with `ignore_index`, rows that end early, each at another place."""
    logits, target = draw.normal(B, N, V, mean=1.0, std=2.0), draw.integers(1, V - 1, B, N)
    if ignore_index is None:
        return logits, target
    kept = torch.tensor([N, 1, *[draw.integer(2, N - 1) for _ in range(B - 2)]])[:B][draw.permutation(B)]
    return logits, target.masked_fill(torch.arange(N) >= kept[:, None], ignore_index)


def draw_class_ignored(draw: Draw) -> tuple[Any, ...]:
    """The class that is ignored is one of the vocabulary's, and other ε."""
    return draw_loss(draw, 3, 5, 6, 0), {"smoothing": draw.number(0.2, 0.4), "ignore_index": 0}


def draw_sure(draw: Draw) -> tuple[Any, ...]:
    """Logits near ±6000: some probabilities are exactly 0, also that of a right class."""
    logits = (
        draw.normal(2, 3, 5) + 6000.0 * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=draw.dtype)[draw.permutation(5)]
    )
    return logits, draw.integers(0, 4, 2, 3)


def draw_nothing_counts(draw: Draw) -> tuple[Any, ...]:
    return draw.normal(2, 3, 5), torch.full((2, 3), -100)


exercise(
    name="label_smoothing_loss",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=label_smoothing_loss,
    results=("loss",),
    forbidden=(*TRANSFORMERS, *LOSSES),
    cases=[
        Case(
            "all_count",
            both("every position counts, ε = 0.1", "每個位置都算，ε = 0.1"),
            lambda d: draw_loss(d, 2, 4, 7),
            2,
        ),
        Case(
            "unequal_lengths",
            both("sequences of unequal length (−100 at their ends)", "長度不同的序列（結尾是 −100）"),
            lambda d: draw_loss(d, 3, 6, 5, -100),
            3,
        ),
        Case(
            "class_ignored",
            both("another ε, ignore_index = 0, a valid class", "別的 ε，ignore_index = 0 也是有效的類別"),
            draw_class_ignored,
            2,
        ),
        Case(
            "no_smoothing",
            both("ε = 0: the ordinary cross-entropy", "ε = 0：一般的交叉熵"),
            lambda d: (*draw_loss(d, 2, 5, 6, -100), 0.0),
            1,
        ),
        Case(
            "one_position",
            both("one sequence of one token", "一個序列、一個詞元"),
            lambda d: (*draw_loss(d, 1, 1, 9), d.number(0.2, 0.5)),
            1,
        ),
        Case(
            "sure",
            both("logits near ±6000 (float64)", "logits 約 ±6000（float64）"),
            draw_sure,
            1.5,
            torch.float64,
            trap=True,
        ),
        Case(
            "minus_one_ignored",
            both("ignore_index = −1, which is no class", "ignore_index = −1，不是任何類別"),
            lambda d: (draw_loss(d, 3, 5, 6, -1), {"ignore_index": -1}),
            0.75,
            trap=True,
        ),
        Case(
            "nothing_counts",
            both("no position counts: 0 (float64)", "沒有任何位置計入：0（float64）"),
            draw_nothing_counts,
            1,
            torch.float64,
            trap=True,
            gradients=True,
        ),
        float64(lambda d: draw_loss(d, 3, 4, 6, -100)),
        noncontiguous(lambda d: draw_loss(d, 2, 3, 5, -100)),
        gradients(lambda d: draw_loss(d, 3, 4, 5, -100)),
    ],
    mistakes=[
        Mistake(
            "no_smoothing",
            smoothed(mean_of_counted, lambda epsilon, V: 1.0, lambda epsilon, V: 0.0),
            both(
                "Your loss does not depend on the smoothing: it is the ordinary cross-entropy.",
                "你的損失和 smoothing 無關：這是一般的交叉熵。",
            ),
        ),
        Mistake(
            "spread_over_others",
            smoothed(
                mean_of_counted,
                lambda epsilon, V: 1 - epsilon - epsilon / (V - 1),
                lambda epsilon, V: epsilon / (V - 1),
            ),
            both(
                "You share ε among the wrong classes only. In PyTorch's convention, and here, all V classes get a share, "
                "the right one too.",
                "你只把 ε 分給錯的類別。照 PyTorch 的慣例（這裡也是），V 個類別都有一份，正確的那個也有。",
            ),
        ),
        Mistake(
            "own_share_missing",
            smoothed(mean_of_counted, lambda epsilon, V: 1 - epsilon - epsilon / V),
            both(
                "Your target is 1 − ε on the right class and ε/V on each of the others, which sums to less than 1. ε is shared "
                "by all classes: does the right one have its share?",
                "你的目標在正確類別是 1 − ε，其他每類 ε/V，加起來不到 1。ε 是所有類別一起分的：正確類別拿到自己那份了嗎？",
            ),
        ),
        Mistake(
            "nothing_spread",
            smoothed(mean_of_counted, of_all=lambda epsilon, V: 0.0),
            both(
                "You take ε away from the right class and give it to no one: the part with the sum over all classes is "
                "missing.",
                "你從正確類別拿走了 ε，卻沒有分給任何類別：少了對所有類別加總的那一部分。",
            ),
        ),
        Mistake(
            "even_part_subtracted",
            smoothed(mean_of_counted, of_all=lambda epsilon, V: -epsilon / V),
            both(
                "The two parts of your loss have different signs. Both are minus a share of the target times a logarithm.",
                "你的損失兩部分正負號不同。兩部分都是負的：目標的一份乘上對數，再加負號。",
            ),
        ),
        Mistake(
            "smoothing_not_divided",
            smoothed(mean_of_counted, of_all=lambda epsilon, V: epsilon),
            both(
                "Every class gets a whole ε, so your target sums to more than 1. One ε is shared by all.",
                "每個類別都拿到一整個 ε，目標加起來就超過 1 了。是大家一起分一個 ε。",
            ),
        ),
        Mistake(
            "one_hot_not_lowered",
            smoothed(mean_of_counted, of_right=lambda epsilon, V: 1.0),
            both(
                "The right class keeps its whole 1 and ε comes on top. A target distribution sums to 1: what the others "
                "get, it gives.",
                "正確類別留著完整的 1，ε 是另外加上去的。目標分布加起來要是 1：其他類別拿到的，要由它讓出來。",
            ),
        ),
        Mistake(
            "shares_swapped",
            smoothed(mean_of_counted, lambda epsilon, V: epsilon, lambda epsilon, V: (1 - epsilon) / V),
            both(
                "The two shares have changed places: most of your target is spread evenly, and ε is left for the right "
                "class.",
                "兩份對調了：你的目標大部分平均分給所有類別，正確類別只剩 ε。",
            ),
        ),
        Mistake(
            "smooths_probabilities",
            smoothed_prediction,
            both(
                "You smooth the model's prediction. It is the target that is smoothed; the prediction stays as it is.",
                "你把模型的預測弄平了。要平滑的是目標，預測保持原樣。",
            ),
        ),
        Mistake(
            "ignored_counted",
            smoothed(lambda losses, counts: losses.where(counts, 0).sum() / counts.numel()),
            both(
                "The ignored positions add nothing, but you divide by their number as well. Then a batch with much padding "
                "learns less.",
                "被忽略的位置沒有貢獻，但你除的時候把它們也算進去了。這樣填補多的批次就學得比較少。",
            ),
        ),
        Mistake(
            "ignored_added",
            smoothed(lambda losses, counts: losses.mean()),
            both(
                "The ignored positions count like all others, as if their target were class 0.",
                "被忽略的位置和其他位置一樣被算進去了，好像它們的目標是類別 0。",
            ),
        ),
        Mistake(
            "ignored_places_smoothed",
            ignored_places_smoothed,
            both(
                "At ignored places you leave out the right class's part, but the part with all classes is still added. "
                "Such a place adds nothing at all.",
                "在被忽略的位置，你拿掉了正確類別那部分，對所有類別的那部分卻還是加了進去。這種位置什麼都不能加。",
            ),
        ),
        Mistake(
            "mean_of_rows",
            smoothed(mean_of_rows),
            both(
                "You take the mean of each sequence first, then the mean of those. A token of a short sequence then weighs "
                "more than one of a long one; here every token weighs the same.",
                "你先對每個序列取平均，再平均一次。這樣短序列的詞元就比長序列的重；這裡每個詞元要一樣重。",
            ),
        ),
        Mistake(
            "summed",
            smoothed(lambda losses, counts: losses.where(counts, 0).sum()),
            both(
                "You return the sum. The mean over the positions that count is asked for.",
                "你回傳的是總和。這裡要的是所有計入位置的平均。",
            ),
        ),
        Mistake(
            "per_position",
            smoothed(lambda losses, counts: losses.where(counts, 0)),
            both(
                "You return a loss for every position. One number is asked for: their mean.",
                "你回傳了每個位置的損失。這裡要一個數：它們的平均。",
            ),
        ),
        Mistake(
            "sign_missing",
            smoothed(lambda losses, counts: -mean_of_counted(losses, counts)),
            both(
                "Your loss is negative. Logarithms of probabilities are negative; training makes the loss small, so the "
                "sign has to be turned.",
                "你的損失是負的。機率的對數是負的；訓練會讓損失變小，所以要變號。",
            ),
        ),
        Mistake(
            "ignore_index_fixed",
            lambda logits, target, smoothing=0.1, ignore_index=-100: smoothed(mean_of_counted)(
                logits, target, smoothing
            ),
            both(
                "You leave out −100, whatever ignore_index says.",
                "不管 ignore_index 是多少，你都只忽略 −100。",
            ),
        ),
        Mistake(
            "only_minus_100_replaced",
            only_minus_100_replaced,
            both(
                "Your look-up stops at an ignored label that is no class: you put something harmless in the place of −100 only, "
                "and ignore_index may be another negative number.",
                "被忽略的標籤不是有效的類別時，你的查表就出錯了：你只把 −100 換成無害的類別，但 ignore_index 也可能是別的負數。",
            ),
        ),
        Mistake(
            "zero_for_nan",
            smoothed(zero_for_nan),
            both(
                "Where nothing counts you divide 0 by 0 and put a 0 in the place of the result. The value is right then, but "
                "its gradient is NaN. Let the divisor be at least 1 instead.",
                "沒有任何位置計入時，你用 0 除以 0，再把結果換成 0。值對了，梯度卻是 NaN。請改成讓除數至少是 1。",
            ),
        ),
        Mistake(
            "float32_where_nothing_counts",
            float32_where_nothing_counts,
            both(
                "Where nothing counts, you return a zero that you made yourself, in float32. It must have the dtype of the "
                "logits.",
                "沒有任何位置計入時，你回傳的是自己造的 0，dtype 是 float32。它的 dtype 要和 logits 一樣。",
            ),
        ),
        Mistake(
            "softmax_over_places",
            smoothed(mean_of_counted, log_p=lambda logits: torch.log_softmax(logits, dim=1)),
            both(
                "Your probabilities sum to 1 along the places, not along the classes. Which axis of the logits holds the "
                "classes?",
                "你的機率是沿著位置加起來等於 1，不是沿著類別。logits 的哪一軸是類別？",
            ),
        ),
        Mistake(
            "logits_as_logarithms",
            smoothed(mean_of_counted, log_p=lambda logits: logits),
            both(
                "You use the logits as if they were log-probabilities. They still need their softmax: a probability depends "
                "on all classes.",
                "你把 logits 直接當成對數機率。還要先經過 softmax：機率和所有類別都有關。",
            ),
        ),
        Mistake(
            "log_of_softmax",
            smoothed(mean_of_counted, log_p=lambda logits: torch.softmax(logits, dim=-1).log()),
            both(
                "A probability of 0 has the logarithm −inf. It is only 0 because the softmax was rounded: there is a "
                "function that gives the logarithm directly.",
                "機率 0 的對數是 −inf。它會變成 0 只是因為 softmax 捨入了：有函式可以直接給出對數。",
            ),
        ),
        Mistake(
            "nan_when_empty",
            smoothed(lambda losses, counts: losses.where(counts, 0).sum() / counts.sum()),
            both(
                "Where nothing counts, you divide 0 by 0. The loss is 0 there.",
                "沒有任何位置計入時，你算了 0 除以 0。這時損失是 0。",
            ),
        ),
    ],
    hints=[
        both(
            "Per position the loss has two parts: one looks at the right class alone, one at the mean over all classes.",
            "每個位置的損失有兩部分：一部分只看正確的類別，另一部分看所有類別的平均。",
        ),
        both(
            "An ignored target may be no valid class: put a harmless one in its place before you look up, and take its loss "
            "away afterwards.",
            "被忽略的目標可能不是有效的類別：查表之前先換成無害的類別，之後再把它的損失拿掉。",
        ),
        both(
            "Take the logarithm of the softmax in one step. Count the positions that are not ignored, all sequences "
            "together, and never divide by less than 1.",
            "softmax 和對數要一步完成。把所有序列裡沒有被忽略的位置合起來數，而且除數至少是 1。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------- warmup_schedule


def warmup_schedule(step: int, d_model: int = 512, warmup: int = 4000) -> float:
    if step == 0:
        return 0.0
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def draw_step(draw: Draw, low: float, high: float) -> tuple[int, int, int]:
    """A step between these multiples of the warm-up."""
    warmup = draw.integer(50, 900)
    return draw.integer(max(2, int(low * warmup)), int(high * warmup)), draw.integer(16, 900), warmup


def draw_first_steps(draw: Draw) -> tuple[int, int, int]:
    return draw.integer(2, 4), draw.integer(16, 900), draw.integer(500, 4000)


exercise(
    name="warmup_schedule",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=warmup_schedule,
    results=("rate",),
    cases=[
        Case("first_steps", both("the first steps", "最初幾步"), draw_first_steps),
        Case("rising", both("before the end of the warm-up", "暖身結束之前"), lambda d: draw_step(d, 0.1, 0.8), 2),
        Case("falling", both("long after the warm-up", "暖身結束很久之後"), lambda d: draw_step(d, 3.0, 9.0), 2),
        Case(
            "defaults",
            both("d_model and warmup not given", "沒有給 d_model 和 warmup"),
            lambda d: (d.integer(2, 3900),),
        ),
        Case(
            "named",
            both("only warmup, by name", "只用名稱給 warmup"),
            lambda d: ((d.integer(2, 9000),), {"warmup": d.integer(100, 8000)}),
        ),
        Case(
            "step_zero", both("step 0: 0.0", "第 0 步：0.0"), lambda d: (0, *draw_step(d, 0.5, 2.0)[1:]), 1.5, trap=True
        ),
    ],
    mistakes=[
        Mistake(
            "max_not_min",
            lambda step, d_model=512, warmup=4000: (
                d_model**-0.5 * max(step**-0.5, step * warmup**-1.5) if step else 0.0
            ),
            both(
                "You take the larger of the two terms: the rate starts high, falls until the end of the warm-up and then grows "
                "without end. Which of the two is small at the start, which later?",
                "你取了兩項中較大的：學習率一開始很大，到暖身結束前一路下降，之後又無止境地上升。一開始哪一項小？後來又是哪一項小？",
            ),
        ),
        Mistake(
            "no_d_model",
            lambda step, d_model=512, warmup=4000: min(step**-0.5, step * warmup**-1.5) if step else 0.0,
            both(
                "The width of the model does not enter. A wider model takes smaller steps.",
                "模型的寬度沒有用到。模型愈寬，步子要愈小。",
            ),
        ),
        Mistake(
            "times_sqrt_d_model",
            lambda step, d_model=512, warmup=4000: d_model**0.5 * min(step**-0.5, step * warmup**-1.5) if step else 0.0,
            both(
                "You multiply by √d_model. The power is −½: a wider model takes smaller steps.",
                "你乘上了 √d_model。次方是 −½：模型愈寬，步子愈小。",
            ),
        ),
        Mistake(
            "d_model_not_rooted",
            lambda step, d_model=512, warmup=4000: min(step**-0.5, step * warmup**-1.5) / d_model if step else 0.0,
            both(
                "You divide by d_model itself. It is its root that counts.",
                "你除的是 d_model 本身。要用它的平方根。",
            ),
        ),
        Mistake(
            "warmup_power",
            lambda step, d_model=512, warmup=4000: (
                d_model**-0.5 * min(step**-0.5, step * warmup**-0.5) if step else 0.0
            ),
            both(
                "The two terms do not meet at the end of the warm-up: look at the power of warmup once more.",
                "兩項在暖身結束時沒有接起來：再看一次 warmup 的次方。",
            ),
        ),
        Mistake(
            "straight_to_one",
            lambda step, d_model=512, warmup=4000: d_model**-0.5 * min(step**-0.5, step / warmup) if step else 0.0,
            both(
                "Your rise goes up to 1 at the end of the warm-up. It should meet the other term there, which is much "
                "smaller.",
                "你的上升段在暖身結束時會到 1。它應該在那裡和另一項接上，而另一項小得多。",
            ),
        ),
        Mistake(
            "constant_after",
            lambda step, d_model=512, warmup=4000: d_model**-0.5 * min(step, warmup) * warmup**-1.5,
            both(
                "After the warm-up your rate stays where it is. It should fall again, with the root of the step.",
                "暖身之後，你的學習率就停在那裡了。它應該再降下來，跟步數的平方根成反比。",
            ),
        ),
        Mistake(
            "no_warmup",
            lambda step, d_model=512, warmup=4000: d_model**-0.5 * step**-0.5 if step else 0.0,
            both(
                "Your rate is largest at the first step and only falls. The warm-up is missing.",
                "你的學習率第一步最大，之後只會下降。少了暖身。",
            ),
        ),
        Mistake(
            "falls_with_the_step",
            lambda step, d_model=512, warmup=4000: (
                d_model**-0.5 * min(warmup**0.5 / step, step * warmup**-1.5) if step else 0.0
            ),
            both(
                "After the warm-up your rate falls with the step. It falls more slowly: with its root.",
                "暖身之後，你的學習率跟步數成反比。它應該降得慢一點：跟步數的平方根成反比。",
            ),
        ),
        Mistake(
            "step_zero_as_one",
            lambda step, d_model=512, warmup=4000: (
                d_model**-0.5 * min(max(step, 1) ** -0.5, max(step, 1) * warmup**-1.5)
            ),
            both(
                "You treat step 0 as step 1: the division is safe, but the rate comes out above 0. Which value does step 0 "
                "have?",
                "你把第 0 步當成第 1 步：是不會除以 0 了，但學習率變得大於 0。第 0 步該是多少？",
            ),
        ),
        Mistake(
            "zero_division",
            lambda step, d_model=512, warmup=4000: d_model**-0.5 * min(step**-0.5, step * warmup**-1.5),
            both(
                "0 to the power −½ cannot be computed. Step 0 has the rate 0.0.",
                "0 的 −½ 次方算不出來。第 0 步的學習率是 0.0。",
            ),
        ),
    ],
    hints=[
        both(
            "Two curves, one rising in a straight line, one falling: at every step the lower one counts.",
            "兩條曲線，一條直線上升，一條下降：每一步都取比較低的那條。",
        ),
        both(
            "Check that both terms are equal at step = warmup. One step needs care of its own.",
            "檢查 step = warmup 時兩項是否相等。有一個步數要另外處理。",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ greedy_decode


def greedy_decode(
    model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0
) -> Tensor:
    tokens = torch.full((source.shape[0], 1), start_id, device=source.device)
    ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
    for _ in range(max_new_tokens):
        if ended.all():
            break
        chosen = model(source, tokens)[:, -1].argmax(dim=-1)
        chosen = torch.where(ended, pad_id, chosen)
        tokens = torch.cat([tokens, chosen.unsqueeze(1)], dim=1)
        ended = ended | (chosen == end_id)
    return tokens


def decoded(
    model: Any,
    source: Tensor,
    start_id: int,
    end_id: int,
    max_new_tokens: int,
    pad_id: int = 0,
    *,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1].argmax(dim=-1),
    fed: Callable[[Tensor], Tensor] = lambda tokens: tokens,
    stop: Callable[[Tensor], Any] = torch.all,
    after_end: int | None = None,
    fills: bool = True,
    start_may_end: bool = False,
    padding_ends: bool = False,
) -> Tensor:
    """Greedy decoding with its turns as options; mistakes build on it."""
    tokens = torch.full((len(source), 1), start_id)
    ended = (tokens[:, 0] == end_id) & start_may_end
    for _ in range(max_new_tokens):
        if bool(stop(ended)):
            break
        chosen = choose(model(source, fed(tokens)))
        if fills:
            chosen = chosen.masked_fill(ended, pad_id if after_end is None else after_end)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id) | ((chosen == pad_id) & padding_ends)
    return tokens


def decoding(**options: Any) -> Callable[..., Tensor]:
    def answer(model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0) -> Tensor:
        return decoded(model, source, start_id, end_id, max_new_tokens, pad_id, **options)

    return answer


def trimmed(model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0) -> Tensor:
    return decoded(model, source, start_id, end_id, max_new_tokens, pad_id)[:, 1:]


def one_step_late(
    model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0
) -> Tensor:
    """Looks whether all have ended before it takes note of the newest token."""
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_new_tokens):
        chosen = model(source, tokens)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        if bool(ended.all()):
            break
        ended = ended | (chosen == end_id)
    return tokens


def end_as_padding(
    model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0
) -> Tensor:
    tokens = decoded(model, source, start_id, end_id, max_new_tokens, pad_id)
    return torch.cat([tokens[:, :1], tokens[:, 1:].masked_fill(tokens[:, 1:] == end_id, pad_id)], dim=1)


def two_axes_expected(
    model: Any, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0
) -> Tensor:
    _, _ = source.shape
    return decoded(model, source, start_id, end_id, max_new_tokens, pad_id)


def draw_decoding(
    draw: Draw, ends: list[int], max_new_tokens: int, start_id: int = 1, end_id: int = 2, pad_id: int = 0, V: int = 11
) -> tuple[Any, ...]:
    """A copyist and sources whose rows end at the given steps (counted from 1; beyond `max_new_tokens`: never).

    Behind the end it would go on with ordinary tokens, none of which is padding, start or end. No two tokens in a row
    are the same.
    """
    B, S = len(ends), max_new_tokens + 3
    ordinary = torch.tensor([token for token in range(V) if token not in (start_id, end_id, pad_id)])
    steps = draw.integers(1, len(ordinary) - 1, B, S).cumsum(dim=1)
    answers = ordinary[steps % len(ordinary)]
    for row, end in enumerate(ends):
        if end <= max_new_tokens:
            answers[row, end - 1] = end_id
    table = draw.uniform(0.0, 1.0, V, V) + 2 * torch.eye(V, dtype=draw.dtype)
    source = (answers[draw.permutation(B)] - start_id) % V
    return Copyist(table), source, start_id, end_id, max_new_tokens, pad_id


def draw_padding_written(draw: Draw) -> tuple[Any, ...]:
    """Every row writes padding at its second step, before it ends."""
    model, source, start_id, end_id, max_new_tokens, pad_id = draw_decoding(draw, [5, 6], 8)
    source[:, 1] = (pad_id - start_id) % 11
    return model, source, start_id, end_id, max_new_tokens


def draw_int32_source(draw: Draw) -> tuple[Any, ...]:
    model, source, *rest, _ = draw_decoding(draw, [4, 2], 6)
    return model, source.int(), *rest


def draw_source_of_scores(draw: Draw) -> tuple[Any, ...]:
    """A source with a third axis: for each place a row that is largest at its token."""
    model, source, *rest, _ = draw_decoding(draw, [3, 5], 7)
    return model, transposed_memory(torch.eye(11, dtype=draw.dtype)[source]), *rest


def draw_pad_by_name(draw: Draw) -> tuple[Any, ...]:
    *args, pad_id = draw_decoding(draw, [5, 2, 3], 8, 3, 0, 7)
    return tuple(args), {"pad_id": pad_id}


exercise(
    name="greedy_decode",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=greedy_decode,
    results=("tokens",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "different_ends",
            both("rows that end at different steps", "各列在不同步數結束"),
            lambda d: draw_decoding(d, [2, 4, 6], 9)[:-1],
            3,
        ),
        Case(
            "nobody_ends",
            both("one row never ends: max_new_tokens counts", "有一列一直沒有結束：以 max_new_tokens 為限"),
            lambda d: draw_decoding(d, [3, 99], 6)[:-1],
            2,
        ),
        Case("pad_by_name", both("padding that is not 0, by name", "填補不是 0，用名稱給"), draw_pad_by_name, 2),
        Case(
            "one_row",
            both("a batch of one", "批次裡只有一列"),
            lambda d: draw_decoding(d, [4], 7)[:-1],
            1,
        ),
        Case(
            "start_is_end",
            both("the start token is the end token", "開頭詞元就是結束詞元"),
            lambda d: draw_decoding(d, [3, 5], 7, 2, 2),
            1.5,
            trap=True,
        ),
        Case(
            "padding_written",
            both("rows that write pad_id before they end", "還沒結束就寫出 pad_id 的列"),
            draw_padding_written,
            trap=True,
        ),
        Case(
            "int32_source",
            both("a source that is not int64; the result still is", "source 不是 int64，結果仍然是"),
            draw_int32_source,
            0.5,
            trap=True,
        ),
        Case(
            "source_of_scores",
            both("a source of shape [B, S, d], not [B, S]", "source 的形狀是 [B, S, d]，不是 [B, S]"),
            draw_source_of_scores,
            0.5,
            trap=True,
        ),
        Case(
            "nothing_new",
            both("max_new_tokens = 0: the start alone", "max_new_tokens = 0：只有開頭"),
            lambda d: draw_decoding(d, [9, 9], 0)[:-1],
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "first_position",
            decoding(choose=lambda logits: logits[:, 0].argmax(dim=-1)),
            both(
                "You read the logits of the first position, which predict the token after the start, again and again. The "
                "newest token's place predicts the next one.",
                "你每次都讀第一個位置的 logits，也就是開頭後面那個詞元的預測。要讀最新那個詞元的位置。",
            ),
        ),
        Mistake(
            "last_token_only",
            decoding(fed=lambda tokens: tokens[:, -1:]),
            both(
                "You feed the newest token alone. Without a cache the model must read all that is written so far.",
                "你只餵給模型最新的詞元。沒有快取的話，模型每次都要讀到目前為止的全部。",
            ),
        ),
        Mistake(
            "stops_at_first_end",
            decoding(stop=torch.any),
            both(
                "You stop as soon as one row has ended. The others are not finished.",
                "只要有一列結束，你就停了。其他列還沒寫完。",
            ),
        ),
        Mistake(
            "writes_on",
            decoding(fills=False),
            both(
                "A row goes on writing behind its end token. From there on it gets padding.",
                "有的列在結束詞元之後還繼續寫。從那裡開始要填補。",
            ),
        ),
        Mistake(
            "end_again",
            lambda model, source, start_id, end_id, max_new_tokens, pad_id=0: decoded(
                model, source, start_id, end_id, max_new_tokens, pad_id, after_end=end_id
            ),
            both(
                "Behind the end you write the end token again and again. Padding belongs there.",
                "結束之後，你一直重複寫結束詞元。那裡要放填補。",
            ),
        ),
        Mistake(
            "zeros_for_padding",
            decoding(after_end=0),
            both(
                "Behind the end you write 0, whatever pad_id says.",
                "不管 pad_id 是多少，結束之後你都寫 0。",
            ),
        ),
        Mistake(
            "never_stops",
            decoding(stop=lambda ended: False),
            both(
                "You always make max_new_tokens columns. Once every row has ended there is nothing left to write.",
                "你一定會做滿 max_new_tokens 行。每一列都結束之後，就沒有東西要寫了。",
            ),
        ),
        Mistake(
            "no_limit",
            lambda model, source, start_id, end_id, max_new_tokens, pad_id=0: decoded(
                model, source, start_id, end_id, 2 * source.numel(), pad_id
            ),
            both(
                "Your loop only ends when every row has ended, and a row may never end. Where does max_new_tokens stop you?",
                "你的迴圈要等每一列都結束才停，可是有的列可能永遠不結束。max_new_tokens 在哪裡讓你停下來？",
            ),
        ),
        Mistake(
            "one_too_many",
            lambda model, source, start_id, end_id, max_new_tokens, pad_id=0: decoded(
                model, source, start_id, end_id, max_new_tokens + 1, pad_id
            ),
            both(
                "A row that does not end gets one token too many: count the new columns, without the start.",
                "沒有結束的列多寫了一個詞元：要數的是新增的行（column），開頭不算。",
            ),
        ),
        Mistake(
            "two_axes_expected",
            two_axes_expected,
            both(
                "You unpack the source's shape into two sizes, so your function stops where it has a third axis. All that is "
                "promised of the source is its B rows; the rest concerns the model alone.",
                "你把 source 的形狀拆成兩個數，多一個軸就停了。題目只保證 source 有 B 列，其餘是模型的事。",
            ),
        ),
        Mistake(
            "one_step_late",
            one_step_late,
            both(
                "You notice one step late that all rows have ended: a column of nothing but padding stands at the end.",
                "你晚了一步才發現每一列都結束了：最後多出一行，全是填補。",
            ),
        ),
        Mistake(
            "start_counted",
            lambda model, source, start_id, end_id, max_new_tokens, pad_id=0: decoded(
                model, source, start_id, end_id, max_new_tokens - 1, pad_id
            ),
            both(
                "One token too few: the start token is not one of the new ones.",
                "少了一個詞元：開頭詞元不算新的詞元。",
            ),
        ),
        Mistake(
            "start_ends",
            decoding(start_may_end=True),
            both(
                "Where start and end are the same token, your rows have ended before they begin. The start never counts as "
                "an end.",
                "開頭和結束是同一個詞元時，你的每一列還沒開始就結束了。開頭不算結束。",
            ),
        ),
        Mistake(
            "padding_ends",
            decoding(padding_ends=True),
            both(
                "A row of yours is over as soon as it writes pad_id. A model may write that token too: only end_id ends a row.",
                "有一列寫出 pad_id，你就當它結束了。模型也可能寫出那個詞元：只有 end_id 才算結束。",
            ),
        ),
        Mistake(
            "dtype_of_the_source",
            lambda model, source, *rest, **named: decoded(model, source, *rest, **named).to(source.dtype),
            both(
                "Your tokens have the dtype of the source. Whatever the source holds, the result holds token ids: int64.",
                "你的詞元跟著 source 的 dtype 走。不管 source 是什麼，結果是詞元的編號，要是 int64。",
            ),
        ),
        Mistake(
            "start_dropped",
            trimmed,
            both(
                "The start token is missing in your result. It is kept, as the first column.",
                "結果裡少了開頭詞元。要保留它，放在第一行。",
            ),
        ),
        Mistake(
            "end_as_padding",
            end_as_padding,
            both(
                "The end token is missing: padding stands in its place. It is kept, and padding follows it.",
                "結束詞元不見了，變成填補。它要保留，後面才是填補。",
            ),
        ),
        Mistake(
            "least_likely",
            decoding(choose=lambda logits: logits[:, -1].argmin(dim=-1)),
            both(
                "You take the token with the smallest logit. Greedy means: the largest.",
                "你取了 logit 最小的詞元。貪婪的意思是取最大的。",
            ),
        ),
    ],
    hints=[
        both(
            "Keep two things from step to step: all tokens so far, and which rows have ended.",
            "一步一步之間要記住兩件事：到目前為止的所有詞元，以及哪些列已經結束。",
        ),
        both(
            "In every step: ask the model about all tokens so far, look at the last position, replace the choice by padding "
            "in the rows that had ended before, append.",
            "每一步：拿目前所有的詞元問模型，看最後一個位置，在先前就結束的列把選擇換成填補，接上去。",
        ),
        both(
            "Look at the new column only to find out who has ended: then the start cannot count. Ask whether all have ended "
            "before you call the model, so that nothing comes after the last end.",
            "只看新的那一行來判斷誰結束了，這樣開頭就不會被算進去。呼叫模型之前先問是不是都結束了，最後一個結束之後就不會再多東西。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- parameter_count


def parameter_count(
    vocab_size: int, d_model: int = 512, n_heads: int = 8, d_ff: int = 2048, n_layers: int = 6, tied: bool = True
) -> int:
    attention = 4 * d_model * d_model
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    tables = 1 if tied else 3
    return tables * vocab_size * d_model + n_layers * (encoder_layer + decoder_layer)


def counted(
    vocab_size: int,
    d_model: int,
    d_ff: int,
    n_layers: int,
    tables: int,
    *,
    matrix: int | None = None,
    matrices: int = 4,
    matrix_bias: int = 0,
    biases: bool = True,
    inner_bias: bool = True,
    cross: int = 1,
    norm: int = 2,
    norms: int = 5,
    stacks: tuple[int, int] = (1, 1),
    final: int = 0,
) -> int:
    """The count with its parts as options; mistakes build on it."""
    attention = matrices * ((d_model * d_model if matrix is None else matrix) + matrix_bias)
    feed_forward = 2 * d_model * d_ff + (d_ff * inner_bias + d_model if biases else 0)
    first = attention + feed_forward + 2 * norm * d_model
    second = (1 + cross) * attention + feed_forward + (norms - 2) * norm * d_model
    return tables * vocab_size * d_model + n_layers * (stacks[0] * first + stacks[1] * second) + final


def counting(**options: Any) -> Callable[..., int]:
    def answer(
        vocab_size: int, d_model: int = 512, n_heads: int = 8, d_ff: int = 2048, n_layers: int = 6, tied: bool = True
    ) -> int:
        return counted(vocab_size, d_model, d_ff, n_layers, 1 if tied else 3, **options)

    return answer


def draw_sizes(draw: Draw) -> tuple[int, ...]:
    n_heads = draw.integer(2, 5)
    return draw.integer(50, 900), n_heads * draw.integer(3, 9), n_heads, draw.integer(30, 90), draw.integer(2, 5)


exercise(
    name="parameter_count",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=parameter_count,
    results=("count",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "paper",
            both("the paper's sizes, only V given", "論文的大小，只給 V"),
            lambda d: (d.integer(20_000, 40_000),),
            2,
        ),
        Case("sizes", both("other sizes", "其他的大小"), lambda d: draw_sizes(d), 2),
        Case(
            "untied",
            both("three tables: tied = False, by name", "三張表：用名稱給 tied = False"),
            lambda d: (draw_sizes(d), {"tied": False}),
            2,
        ),
        Case("one_layer", both("one layer of each kind", "兩種各一層"), lambda d: (*draw_sizes(d)[:4], 1), 1),
    ],
    mistakes=[
        Mistake(
            "no_cross_attention",
            counting(cross=0),
            both(
                "A decoder layer has two attentions; one of them is missing in your count.",
                "解碼器的每一層有兩個注意力，你少數了一個。",
            ),
        ),
        Mistake(
            "no_biases",
            counting(biases=False),
            both(
                "The biases of the feed-forward network are missing: one for each inner number, one for each output.",
                "少了前饋網路的偏置：內層每個數一個，輸出每個數一個。",
            ),
        ),
        Mistake(
            "inner_bias_missing",
            counting(inner_bias=False),
            both(
                "The feed-forward network has two biases. The one of its inner layer, d_ff long, is missing.",
                "前饋網路有兩個偏置。你少了內層那個，長度是 d_ff。",
            ),
        ),
        Mistake(
            "three_matrices",
            counting(matrices=3),
            both(
                "Your attention has three matrices. Queries, keys and values have one each; what else is multiplied, after "
                "the heads have been joined?",
                "你的注意力只有三個矩陣。查詢、鍵、值各一個；各個頭接起來之後，還要乘什麼？",
            ),
        ),
        Mistake(
            "attention_biases",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 1 if tied else 3, matrix_bias=d_model
            ),
            both(
                "Your attention matrices have biases. As the paper writes it, queries, keys, values and output have none.",
                "你替注意力的矩陣加了偏置。論文裡的查詢、鍵、值和輸出都沒有偏置。",
            ),
        ),
        Mistake(
            "no_norms",
            counting(norm=0),
            both(
                "The norms have numbers to learn too: a scale and a shift for each feature.",
                "正規化也有要學的數：每個特徵各一個縮放和一個平移。",
            ),
        ),
        Mistake(
            "norm_scale_only",
            counting(norm=1),
            both(
                "A LayerNorm learns a scale and a shift; you count one of the two.",
                "LayerNorm 學縮放和平移兩樣，你只數了一樣。",
            ),
        ),
        Mistake(
            "one_norm_or_bias_missing",
            counting(norms=4),
            both(
                "You are 2·d_model short for each pair of layers. So much is one norm, in an encoder layer (two sublayers) or "
                "in a decoder layer (three); so much are also the output biases of the two feed-forward networks.",
                "編碼器、解碼器每一對層，你少數了 2·d_model 個。這可能是一個正規化（編碼器一層有兩個子層，解碼器一層有三個），也可能是兩個前饋網路輸出端的偏置。",
            ),
        ),
        Mistake(
            "final_norms",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 1 if tied else 3, final=4 * d_model
            ),
            both(
                "You count a norm behind each stack. The model of 2017 has none there: its layers end with one.",
                "你在兩個堆疊後面各數了一個正規化。2017 年的模型沒有：它的每一層本來就以正規化結尾。",
            ),
        ),
        Mistake(
            "embeddings_always_thrice",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 3
            ),
            both(
                "Source, target and output share one table when tied is True; you count it three times.",
                "tied 是 True 時，來源、目標和輸出共用一張表；你數了三次。",
            ),
        ),
        Mistake(
            "embeddings_always_once",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 1
            ),
            both(
                "Without sharing there are three tables: for the source, for the target and for the output.",
                "不共用的話有三張表：來源、目標、輸出各一張。",
            ),
        ),
        Mistake(
            "two_tables",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 1 if tied else 2
            ),
            both(
                "Without sharing you count two tables. The output has one of its own as well.",
                "不共用時你只數了兩張表。輸出自己也有一張。",
            ),
        ),
        Mistake(
            "times_heads",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: counted(
                vocab_size, d_model, d_ff, n_layers, 1 if tied else 3, matrix=n_heads * d_model * d_model
            ),
            both(
                "You count full matrices for every head. All heads share d_model columns: each has its part of them.",
                "你替每個頭都算了一整個矩陣。所有的頭合起來分 d_model 行，每個頭只占一部分。",
            ),
        ),
        Mistake(
            "one_stack",
            counting(stacks=(1, 0)),
            both(
                "You count the encoder's layers alone. The decoder has as many of its own.",
                "你只數了編碼器的層。解碼器也有同樣多層。",
            ),
        ),
        Mistake(
            "as_float",
            lambda vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True: float(
                counted(vocab_size, d_model, d_ff, n_layers, 1 if tied else 3)
            ),
            both(
                "The number is right, but it is a float. A count is an int.",
                "數字是對的，但型別是 float。個數要用 int。",
            ),
        ),
    ],
    hints=[
        both(
            "Count one attention, one feed-forward network and one norm. Then ask how many of each stand in an encoder "
            "layer, and in a decoder layer.",
            "先數一個注意力、一個前饋網路、一個正規化；再問編碼器的一層各有幾個，解碼器的一層各有幾個。",
        ),
        both(
            "A matrix that turns vectors of length a into vectors of length b has a times b numbers, and its bias b more. "
            "How often heads divide the columns changes nothing.",
            "把長度 a 的向量變成長度 b 的矩陣有 a 乘 b 個數，偏置再加 b 個。行（column）怎麼分給各個頭，都不影響個數。",
        ),
        both(
            "For V = 37000 and the paper's sizes the answer is 63,045,632: 18,944,000 in the table, 3,150,336 in an encoder "
            "layer, 4,199,936 in a decoder layer.",
            "V = 37000、論文的大小時，答案是 63,045,632：表 18,944,000，編碼器一層 3,150,336，解碼器一層 4,199,936。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------------- questions

question(
    name="08_q1",
    lesson=LESSON,
    right="b",
    wrong=[
        Mistake(
            "mask_alone",
            "a",
            both(
                "The causal mask lets a position see itself. Without the shift its own token is the very label that it is "
                "to predict.",
                "因果遮罩讓每個位置看得到自己。不右移的話，自己的詞元正是要預測的標籤。",
            ),
        ),
        Mistake(
            "shift_alone",
            "c",
            both(
                "After the shift the label of position t stands at position t + 1. Without the mask it is there to be read.",
                "右移之後，位置 t 的標籤就在位置 t + 1。沒有遮罩的話，一看就看到了。",
            ),
        ),
        Mistake(
            "cross_attention",
            "d",
            both(
                "Cross-attention adds the source; it takes nothing away. What the target's own attention sees is decided by "
                "its mask and by the shift.",
                "交叉注意力只是加入來源，不會拿走任何東西。目標自己的注意力看得到什麼，由遮罩和右移決定。",
            ),
        ),
    ],
    hints=[
        both(
            "Write down for one position which token it reads, which it must predict, and where that one stands.",
            "拿一個位置寫下來：它讀哪個詞元、要預測哪個，而要預測的那個又放在哪裡。",
        ),
    ],
)

question(
    name="08_q2",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "always_parallel",
            "a",
            both(
                "Parallel holds for training, where all target tokens are known. In generation a token can only be fed "
                "back after it has been chosen.",
                "平行只適用於訓練，那時所有目標詞元都已知。生成時，詞元要先選出來才能餵回去。",
            ),
        ),
        Mistake(
            "never_parallel",
            "b",
            both(
                "In training the true tokens are all there; the causal mask lets one run answer for every position as if it "
                "came alone.",
                "訓練時真正的詞元都在手上；有了因果遮罩，跑一次就等於每個位置各自回答。",
            ),
        ),
        Mistake(
            "encoder_every_time",
            "c",
            both(
                "The source does not change while the target grows, and the encoder does not look at the target: one run of "
                "it is enough.",
                "目標變長時，來源沒有變，編碼器也不看目標：跑一次就夠了。",
            ),
        ),
    ],
    hints=[
        both(
            "What does the run for the next token need that is not known before the token was chosen? And what does the "
            "encoder read?",
            "要跑下一個詞元時，有什麼是前一個選出來之前還不知道的？編碼器讀的又是什麼？",
        ),
    ],
)
