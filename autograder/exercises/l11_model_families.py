"""Lesson 11, the families: what each is trained to guess, how a text becomes one vector, which mask makes which family, and
a layer of Llama.

Shapes: B batch, N tokens, V vocabulary, d = d_model; h heads of width d_k, h_kv of them with keys and values.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.forbidden import TRANSFORMERS
from autograder.exercises.shared import float64, gradients, half_precision, noncontiguous, smallest
from autograder.text import both

LESSON = "11_model_families"

# ------------------------------------------------------------------------------------------------- mask_tokens


def mask_tokens(
    tokens: Tensor,
    special: Tensor,
    mask_id: int,
    random_tokens: Tensor,
    u_select: Tensor,
    u_action: Tensor,
    rate: float = 0.15,
) -> tuple[Tensor, Tensor]:
    selected = (u_select < rate) & ~special
    labels = torch.where(selected, tokens, -100)
    inputs = torch.where(selected & (u_action < 0.8), mask_id, tokens)
    inputs = torch.where(selected & (u_action >= 0.8) & (u_action < 0.9), random_tokens, inputs)
    return inputs, labels


def chosen(special: Tensor, u_select: Tensor, rate: float) -> Tensor:
    return (u_select < rate) & ~special


def corrupted(
    selected: Tensor, tokens: Tensor, mask_id: int, random_tokens: Tensor, u: Tensor, random_until: float = 0.9
) -> Tensor:
    """The inputs; mistakes elsewhere build on it."""
    swapped = torch.where(u < random_until, random_tokens, tokens)
    return torch.where(selected, torch.where(u < 0.8, mask_id, swapped), tokens)


def labelled(selected: Tensor, tokens: Tensor, other: int = -100) -> Tensor:
    return torch.where(selected, tokens, other)


def masked_with(
    select: Callable[..., Tensor] = chosen,
    corrupt: Callable[..., Tensor] = lambda selected, tokens, mask_id, random_tokens, u_select, u_action: corrupted(
        selected, tokens, mask_id, random_tokens, u_action
    ),
    label: Callable[..., Tensor] = lambda selected, tokens, inputs, u_action: labelled(selected, tokens),
) -> Callable[..., Any]:
    """Masking with one of its steps done otherwise."""

    def answer(
        tokens: Tensor,
        special: Tensor,
        mask_id: int,
        random_tokens: Tensor,
        u_select: Tensor,
        u_action: Tensor,
        rate: float = 0.15,
    ) -> Any:
        selected = select(special, u_select, rate)
        inputs = corrupt(selected, tokens, mask_id, random_tokens, u_select, u_action)
        return inputs, label(selected, tokens, inputs, u_action)

    return answer


def masked_in_place(
    tokens: Tensor,
    special: Tensor,
    mask_id: int,
    random_tokens: Tensor,
    u_select: Tensor,
    u_action: Tensor,
    rate: float = 0.15,
) -> tuple[Tensor, Tensor]:
    selected = chosen(special, u_select, rate)
    labels = labelled(selected, tokens)
    tokens.copy_(corrupted(selected, tokens, mask_id, random_tokens, u_action))
    return tokens, labels


N_TOKENS, MASK_ID = 90, 103


def draw_masking(draw: Draw, B: int, N: int, rate: float | None = None) -> tuple[Any, ...]:
    """Numbers on a grid that has no point at 0.8, 0.9 or the rate; tokens 1 … 90, others from 200 on, some special."""
    tokens, others = draw.integers(1, N_TOKENS, B, N), draw.integers(200, 290, B, N)
    u_select, u_action = ((draw.integers(0, 999, B, N).double() + 0.5).div(1000).to(draw.dtype) for _ in range(2))
    special = draw.integers(0, 4, B, N) == 0
    # Whatever else is drawn: each of the three fates, an unselected one, and a special one that the numbers would select.
    fates = torch.tensor([[0.0105, 0.4005], [0.0205, 0.8405], [0.0305, 0.9505], [0.9995, 0.1005], [0.0405, 0.2005]])
    place = draw.permutation(B * N)[:5]
    u_select.view(-1)[place], u_action.view(-1)[place] = fates.to(draw.dtype).unbind(1)
    special.view(-1)[place] = torch.tensor([False, False, False, False, True])
    given = tokens, special, MASK_ID + draw.integer(0, 9), others, u_select, u_action
    return given if rate is None else (*given, rate)


def draw_masking_at_the_rate(draw: Draw) -> tuple[Any, ...]:
    """Some numbers are the rate itself, which is a number without rounding."""
    tokens, special, mask_id, others, u_select, u_action, rate = draw_masking(draw, 2, 12, 0.25)
    u_select.view(-1)[draw.permutation(24)[:8]] = 0.25
    return tokens, special, mask_id, others, u_select, u_action, rate


def draw_masking_at_the_bounds(draw: Draw) -> tuple[Any, ...]:
    """Selected tokens with numbers that are the bounds themselves."""
    tokens, special, mask_id, others, u_select, u_action, rate = draw_masking(draw, 2, 20, 1.0)
    place = draw.permutation(40)[:16]
    u_action.view(-1)[place] = torch.tensor([0.8, 0.9], dtype=draw.dtype).repeat(8)
    special.view(-1)[place] = False
    return tokens, special, mask_id, others, u_select, u_action, rate


def draw_masking_strided(draw: Draw) -> tuple[Any, ...]:
    drawn = draw_masking(draw, 3, 11, 0.375)
    return tuple(item.mT.contiguous().mT if isinstance(item, Tensor) else item for item in drawn)


def draw_nothing_to_mask(draw: Draw) -> tuple[Any, ...]:
    tokens, special, *rest = draw_masking(draw, 2, 7, 0.5)
    return tokens, torch.ones_like(special), *rest


exercise(
    name="mask_tokens",
    lesson=LESSON,
    points=3,
    difficulty=2,
    reference=mask_tokens,
    results=("inputs", "labels"),
    cases=[
        Case("default_rate", both("rate not given: 15 %", "沒給 rate：15 %"), lambda d: draw_masking(d, 4, 30), 3),
        Case("half", both("half of the tokens selected", "選一半的詞元"), lambda d: draw_masking(d, 3, 14, 0.5), 3),
        Case(
            "all",
            both("rate 1: all but the special tokens", "rate 是 1：特殊詞元以外全選"),
            lambda d: draw_masking(d, 2, 20, 1.0),
            2,
        ),
        Case(
            "by_name",
            both("rate by name, one sequence", "用名稱給 rate，一個序列"),
            lambda d: (draw_masking(d, 1, 16), {"rate": 0.25 + 0.125 * d.integer(0, 2)}),
            1,
        ),
        Case(
            "none",
            both("rate 0: nothing selected", "rate 是 0：一個都不選"),
            lambda d: draw_masking(d, 2, 6, 0.0),
            1,
        ),
        Case("all_special", both("nothing but special tokens", "全是特殊詞元"), draw_nothing_to_mask, 0.5, trap=True),
        Case(
            "at_the_rate",
            both("some u_select equal to the rate: not selected", "有些 u_select 恰好等於 rate：不選"),
            draw_masking_at_the_rate,
            trap=True,
        ),
        Case(
            "float64",
            both("uniform numbers in float64", "亂數是 float64"),
            lambda d: draw_masking(d, 2, 15, 0.375),
            0.5,
            torch.float64,
            trap=True,
        ),
        Case(
            "at_the_bounds",
            both("float64, some u_action equal to 0.8 or 0.9", "float64，有些 u_action 恰好等於 0.8 或 0.9"),
            draw_masking_at_the_bounds,
            0.75,
            torch.float64,
            trap=True,
        ),
        Case(
            "noncontiguous",
            both("inputs whose memory is not contiguous (as after a transpose)", "記憶體不連續的輸入（例如轉置之後）"),
            draw_masking_strided,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "labels_everywhere",
            masked_with(label=lambda selected, tokens, inputs, u: tokens.clone()),
            both(
                "Your labels hold every token, so the model is graded on copying what it can see. Only selected tokens are to "
                "be guessed; all others are −100.",
                "你的 labels 每個詞元都有，等於考模型抄看得到的東西。只有被選中的詞元要猜，其他都是 −100。",
            ),
        ),
        Mistake(
            "labels_after_masking",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(selected, inputs)),
            both(
                "Your labels are taken from the corrupted input: the model would learn to say [MASK]. The label is what stood "
                "there before.",
                "你的 labels 取自弄亂之後的輸入，模型會學到回答 [MASK]。標籤應該是原本在那裡的詞元。",
            ),
        ),
        Mistake(
            "labels_of_the_masked_only",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(selected & (u < 0.8), tokens)),
            both(
                "Only tokens replaced by the mask have a label. The two other tenths, swapped or left alone, are guessed too: "
                "that is what they are for.",
                "只有換成 mask 的詞元有標籤。另外兩個十分之一（換成別的、或原樣保留）也要猜，這正是它們的用途。",
            ),
        ),
        Mistake(
            "unchanged_not_counted",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(selected & (u < 0.9), tokens)),
            both(
                "The tenth that stays as it is has lost its label. It is selected like the others; the model must say what "
                "stands there without knowing that it can trust its eyes.",
                "原樣保留的那十分之一失去了標籤。它們和其他被選中的一樣要猜：模型得說出那裡是什麼，卻不知道眼前看到的能不能相信。",
            ),
        ),
        Mistake(
            "labels_where_changed",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(inputs != tokens, tokens)),
            both(
                "You label the tokens that came out different. The tenth that is left unchanged was selected as well and has "
                "its label.",
                "你只標出變得不一樣的詞元。原樣保留的那十分之一也是被選中的，也要有標籤。",
            ),
            same_as=("unchanged_not_counted",),
        ),
        Mistake(
            "labels_of_the_others",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(~selected, tokens)),
            both(
                "Your labels are the wrong way round: −100 stands at the selected tokens, and the visible ones are to be guessed.",
                "你的 labels 反了：被選中的是 −100，看得到的反而要猜。",
            ),
        ),
        Mistake(
            "zero_for_ignored",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(selected, tokens, 0)),
            both(
                "Tokens that are not selected get label 0, which is a token too. What the loss must skip is marked −100.",
                "沒被選中的詞元標成 0，但 0 也是一個詞元。要讓損失跳過的位置，標成 −100。",
            ),
        ),
        Mistake(
            "minus_one_for_ignored",
            masked_with(label=lambda selected, tokens, inputs, u: labelled(selected, tokens, -1)),
            both(
                "Tokens that are not selected get label −1. PyTorch's losses skip −100 and stop with an error at −1.",
                "沒被選中的詞元標成 −1。PyTorch 的損失函數跳過的是 −100，遇到 −1 會出錯。",
            ),
        ),
        Mistake(
            "always_mask",
            masked_with(corrupt=lambda selected, tokens, mask_id, *rest: torch.where(selected, mask_id, tokens)),
            both(
                "Every selected token becomes the mask. Then the model meets [MASK] in each guess of its training and never "
                "afterwards: a tenth is swapped, a tenth stays.",
                "被選中的全換成 mask 了。這樣模型訓練時每次猜都看到 [MASK]，之後卻再也看不到；所以有一成換成別的詞元，一成原樣保留。",
            ),
        ),
        Mistake(
            "never_unchanged",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: corrupted(
                    selected, tokens, mask_id, others, u_action, 1.0
                )
            ),
            both(
                "Everything that is not masked is swapped. From 0.9 on the token stays what it is.",
                "沒換成 mask 的全換成別的詞元了。u_action 從 0.9 起，詞元要保持原樣。",
            ),
        ),
        Mistake(
            "never_random",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: corrupted(
                    selected, tokens, mask_id, others, u_action, 0.8
                )
            ),
            both(
                "Nothing is swapped for another token: between 0.8 and 0.9 the one of random_tokens at that place comes in.",
                "沒有任何詞元換成別的：u_action 在 0.8 與 0.9 之間時，要換成 random_tokens 同一個位置的詞元。",
            ),
        ),
        Mistake(
            "random_overwrites_the_mask",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: torch.where(
                    selected & (u_action < 0.9), others, tokens
                )
            ),
            both(
                "No mask is left: every u_action below 0.9 ends as the random token. A number below 0.8 is below 0.9 too, so the "
                "second choice must not touch what the first has decided.",
                "一個 mask 也沒留下：u_action 小於 0.9 的最後都成了隨機詞元。小於 0.8 的也小於 0.9，所以第二次選擇不能動到第一次決定的。",
            ),
        ),
        Mistake(
            "one_draw_for_both",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: corrupted(
                    selected, tokens, mask_id, others, u_select
                )
            ),
            both(
                "You let u_select decide what happens as well. Selected tokens all have a small u_select, so nearly all become "
                "the mask; the second draw is u_action.",
                "你連「怎麼處理」也用 u_select 決定。被選中的 u_select 都很小，於是幾乎全換成 mask；第二次抽的是 u_action。",
            ),
        ),
        Mistake(
            "shares_upside_down",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: torch.where(
                    selected & (u_action >= 0.9),
                    mask_id,
                    torch.where(selected & (u_action >= 0.8), others, tokens),
                )
            ),
            both(
                "Your shares are upside down: eight in ten stay, one in ten is masked.",
                "你的比例顛倒了：八成原樣保留，只有一成換成 mask。",
            ),
        ),
        Mistake(
            "special_tokens_masked",
            masked_with(select=lambda special, u_select, rate: u_select < rate),
            both(
                "Special tokens such as [CLS] and padding are selected too. There is nothing to learn from guessing them.",
                "[CLS]、填補這類特殊詞元也被選中了。猜它們學不到東西。",
            ),
        ),
        Mistake(
            "only_special",
            masked_with(select=lambda special, u_select, rate: (u_select < rate) & special),
            both(
                "You select among the special tokens alone. special = True means: leave it alone.",
                "你只在特殊詞元裡選。special 是 True，代表不要動它。",
            ),
        ),
        Mistake(
            "selects_the_others",
            masked_with(select=lambda special, u_select, rate: (u_select >= rate) & ~special),
            both(
                "You select where u_select is large: 85 in a hundred. The rate is the share that is selected.",
                "u_select 大的你才選，一百個選了 85 個。rate 是被選中的比例。",
            ),
        ),
        Mistake(
            "rate_ignored",
            masked_with(select=lambda special, u_select, rate: chosen(special, u_select, 0.15)),
            both(
                "You always select 15 %, whatever the rate.",
                "不管 rate 是多少，你都選 15 %。",
            ),
        ),
        Mistake(
            "rate_included",
            masked_with(select=lambda special, u_select, rate: (u_select <= rate) & ~special),
            both(
                "A token whose u_select equals the rate is selected as well. With uniform numbers from 0 on, strictly less gives "
                "exactly the share that is asked for, and none at rate 0.",
                "u_select 恰好等於 rate 的詞元也被你選了。從 0 開始的均勻亂數，要「嚴格小於」才剛好是那個比例，rate 為 0 時也才一個都不選。",
            ),
        ),
        Mistake(
            "bounds_included",
            masked_with(
                corrupt=lambda selected, tokens, mask_id, others, u_select, u_action: torch.where(
                    selected & (u_action <= 0.9), torch.where(u_action <= 0.8, mask_id, others), tokens
                )
            ),
            both(
                "A u_action equal to 0.8 becomes the mask with you, and one equal to 0.9 the random token. Both bounds belong to "
                "what comes next: below 0.8, below 0.9, else.",
                "u_action 恰好是 0.8 時你換成了 mask，恰好是 0.9 時換成了隨機詞元。兩個界線都屬於後面那一段：小於 0.8、小於 0.9、其他。",
            ),
        ),
        Mistake(
            "mutates",
            masked_in_place,
            both(
                "The values are right, but the tokens that were given have changed: the text itself is gone. Work on a copy.",
                "數值是對的，但你改動了傳進來的 tokens，原文就沒了。請用一份複本。",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda *args, **kwargs: masked_with()(*args, **kwargs)[::-1],
            both(
                "The two results have changed places: first the inputs, then the labels.",
                "兩個結果對調了：先 inputs，再 labels。",
            ),
        ),
        Mistake(
            "inputs_only",
            lambda *args, **kwargs: masked_with()(*args, **kwargs)[0],
            both(
                "You return the inputs alone. The labels are asked for as well, as the second part of a tuple.",
                "你只回傳 inputs。labels 也要回傳，放在 tuple 的第二個。",
            ),
        ),
    ],
    hints=[
        both(
            "One Boolean matrix decides everything: which tokens are selected. Labels and inputs both start from it.",
            "一切由一個布林矩陣決定：哪些詞元被選中。labels 和 inputs 都從它開始。",
        ),
        both(
            "Make the labels before you touch the inputs. For the inputs, a choice between two tensors by a Boolean one, used "
            "twice, is enough: first the mask, then the random tokens.",
            "先做 labels，再動 inputs。inputs 只要用兩次「依布林張量二選一」就夠了：先放 mask，再放隨機詞元。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- next_token_loss


def next_token_loss(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
    log_p = torch.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    counts = torch.ones_like(losses, dtype=torch.bool) if key_mask is None else key_mask[:, 1:]
    return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp(min=1)


def losses_of(logits: Tensor, targets: Tensor, log_p: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """−ln p of each target, [B, N]."""
    made = torch.log_softmax(logits, dim=-1) if log_p is None else log_p(logits)
    return -made.gather(-1, targets[..., None])[..., 0]


def mean_of(losses: Tensor, counts: Tensor) -> Tensor:
    return losses.where(counts, 0).sum() / counts.sum().clamp(min=1)


def loss_with(
    reduce: Callable[[Tensor, Tensor], Tensor] = mean_of,
    count: Callable[[Tensor], Tensor] = lambda real: real[:, 1:],
    log_p: Callable[[Tensor], Tensor] | None = None,
) -> Callable[..., Tensor]:
    """The loss with `count(key_mask)` saying which predictions count, put together by `reduce`."""

    def answer(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
        real = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
        return reduce(losses_of(logits[:, :-1], tokens[:, 1:], log_p), count(real))

    return answer


def loss_not_shifted(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
    real = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
    return mean_of(losses_of(logits, tokens), real)


def loss_of_the_token_before(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
    real = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
    return mean_of(losses_of(logits[:, 1:], tokens[:, :-1]), real[:, :-1])


def loss_rolled_around(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
    real = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
    return mean_of(losses_of(logits, tokens.roll(-1, 1)), real.roll(-1, 1))


def zero_for_nan(losses: Tensor, counts: Tensor) -> Tensor:
    n = counts.sum()
    return torch.where(n > 0, (losses * counts).sum() / n, 0.0)


def mean_of_rows(losses: Tensor, counts: Tensor) -> Tensor:
    return (losses.where(counts, 0).sum(dim=-1) / counts.sum(dim=-1).clamp(min=1)).mean()


def draw_prediction(draw: Draw, B: int, N: int, V: int) -> tuple[Tensor, Tensor]:
    return draw.normal(B, N, V, mean=1.0, std=2.0), draw.integers(0, V - 1, B, N)


def kept_lengths(draw: Draw, B: int, N: int) -> Tensor:
    """One full sequence, one of two tokens, the others in between, in any order."""
    return torch.tensor([N, 2, *[draw.integer(3, N - 1) for _ in range(B - 2)]])[draw.permutation(B)]


def draw_right_padding(draw: Draw, B: int, N: int, V: int) -> tuple[Tensor, ...]:
    return *draw_prediction(draw, B, N, V), torch.arange(N) < kept_lengths(draw, B, N)[:, None]


def draw_left_padding(draw: Draw, B: int, N: int, V: int) -> tuple[Tensor, ...]:
    return *draw_prediction(draw, B, N, V), torch.arange(N) >= N - kept_lengths(draw, B, N)[:, None]


def draw_one_target(draw: Draw) -> tuple[Tensor, ...]:
    """One real target in the whole batch."""
    real = torch.zeros(2, 5, dtype=torch.bool)
    real[draw.integer(0, 1), draw.integer(1, 4)] = True
    return *draw_prediction(draw, 2, 5, 6), real


def draw_only_first_real(draw: Draw) -> tuple[Tensor, ...]:
    """A first token is nobody's target."""
    real = torch.zeros(2, 4, dtype=torch.bool)
    real[:, 0] = True
    return *draw_prediction(draw, 2, 4, 5), real


def float32_where_nothing_counts(logits: Tensor, tokens: Tensor, key_mask: Tensor | None = None) -> Tensor:
    if logits.shape[1] == 1 or (key_mask is not None and not bool(key_mask[:, 1:].any())):
        return torch.zeros((), dtype=torch.float32)
    return loss_with()(logits, tokens, key_mask)


def draw_large_logits(draw: Draw) -> tuple[Tensor, Tensor]:
    """Logits near 1000, ordinary differences."""
    logits, tokens = draw_prediction(draw, 2, 4, 5)
    return logits + 1000.0, tokens


def draw_sure_prediction(draw: Draw) -> tuple[Tensor, Tensor]:
    """Logits near ±6000: some probabilities are exactly 0, also that of a right token."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=draw.dtype)[draw.permutation(5)]
    tokens = draw.integers(0, 4, 2, 4)
    tokens[draw.integer(0, 1), draw.integer(1, 3)] = int(signs.argmin())
    return draw.normal(2, 4, 5) + 6000.0 * signs, tokens


exercise(
    name="next_token_loss",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=next_token_loss,
    results=("loss",),
    forbidden=TRANSFORMERS,
    cases=[
        Case("all_real", both("no mask", "沒有遮罩"), lambda d: draw_prediction(d, 2, 5, 7), 3),
        Case(
            "right_padding",
            both("sequences of unequal length, padded on the right", "長度不同的序列，填補在右邊"),
            lambda d: draw_right_padding(d, 3, 6, 5),
            3,
        ),
        Case(
            "left_padding",
            both("padding on the left, mask by name", "填補在左邊，用名稱給遮罩"),
            lambda d: ((args := draw_left_padding(d, 3, 6, 8))[:2], {"key_mask": args[2]}),
            2,
        ),
        Case(
            "two_tokens",
            both("two tokens: one prediction", "兩個詞元：一個預測"),
            lambda d: draw_prediction(d, 1, 2, 9),
        ),
        Case("one_target", both("one real target in the whole batch", "整個批次只有一個真正的目標"), draw_one_target),
        Case(
            "no_target",
            both("only first tokens are real: 0 (float64)", "只有第一個詞元不是填補：0（float64）"),
            draw_only_first_real,
            1,
            torch.float64,
            trap=True,
            gradients=True,
        ),
        Case(
            "one_token",
            both("one token, nothing to predict: 0", "只有一個詞元，沒有東西要預測：0"),
            lambda d: draw_prediction(d, 2, 1, 4),
            trap=True,
        ),
        Case(
            "sure",
            both("logits near ±6000 (float64)", "logits 約 ±6000（float64）"),
            draw_sure_prediction,
            1.5,
            torch.float64,
            trap=True,
        ),
        Case(
            "large",
            both("all logits near 1000 (float64)", "所有 logits 都在 1000 左右（float64）"),
            draw_large_logits,
            0.5,
            torch.float64,
            trap=True,
        ),
        float64(lambda d: draw_right_padding(d, 3, 5, 6), 0.5),
        noncontiguous(lambda d: draw_right_padding(d, 2, 4, 5)),
        gradients(lambda d: draw_left_padding(d, 3, 5, 4)),
    ],
    mistakes=[
        Mistake(
            "not_shifted",
            loss_not_shifted,
            both(
                "Each position is graded on the token that it has just read, which is copying. It is to guess the one after.",
                "你考的是每個位置剛讀到的那個詞元，那只是抄寫。它要猜的是下一個。",
            ),
        ),
        Mistake(
            "shifted_the_wrong_way",
            loss_of_the_token_before,
            both(
                "Each position is graded on the token before it. Logits lose their last position, targets their first.",
                "你考的是前一個詞元。logits 要去掉最後一個位置，目標要去掉第一個。",
            ),
        ),
        Mistake(
            "rolled_around",
            loss_rolled_around,
            both(
                "The last position is graded on the first token of its own sequence: a roll brings it round to the end. The last "
                "position has nothing to guess.",
                "最後一個位置被拿去猜自己序列的第一個詞元：roll 會把它轉到尾巴。最後一個位置沒有東西要猜。",
            ),
        ),
        Mistake(
            "padding_counted",
            loss_with(count=lambda real: torch.ones_like(real[:, 1:])),
            both(
                "Predictions of padding count like all others.",
                "你把「預測填補」也算進去了。",
            ),
        ),
        Mistake(
            "divides_by_all",
            loss_with(reduce=lambda losses, counts: losses.where(counts, 0).sum() / max(counts.numel(), 1)),
            both(
                "Padding adds nothing to your sum, but you divide by its number as well. Then a batch with much padding learns "
                "less.",
                "填補對總和沒有貢獻，但你除的時候把它也算進去了。這樣填補多的批次就學得比較少。",
            ),
        ),
        Mistake(
            "divides_by_tokens",
            loss_with(
                reduce=lambda losses, counts: losses.where(counts[:, 1:], 0).sum() / counts.sum().clamp(min=1),
                count=lambda real: real,
            ),
            both(
                "You divide by the number of real tokens. The first token of a sequence is nobody's target: there is one "
                "prediction less.",
                "你除以真正詞元（非填補）的個數。序列的第一個詞元不是任何位置的目標，所以預測要少一個。",
            ),
        ),
        Mistake(
            "mean_of_rows",
            loss_with(reduce=mean_of_rows),
            both(
                "You take the mean of each sequence first, then the mean of those. A token of a short sequence then weighs more "
                "than one of a long one; here every prediction weighs the same.",
                "你先對每個序列取平均，再平均一次。這樣短序列的詞元就比長序列的重；這裡每個預測要一樣重。",
            ),
        ),
        Mistake(
            "mask_of_the_input",
            loss_with(count=lambda real: real[:, :-1]),
            both(
                "You ask whether the token that was read is real. What counts is whether the one to be guessed is.",
                "你看的是「讀到的詞元」是不是填補。該看的是「要猜的那個」是不是填補。",
            ),
        ),
        Mistake(
            "both_must_be_real",
            loss_with(count=lambda real: real[:, 1:] & real[:, :-1]),
            both(
                "You drop the first real token after left padding, because the position before it is padding. Only the target "
                "has to be real.",
                "左邊填補之後的第一個真正的詞元被你丟掉了，因為它前面是填補。只要目標不是填補就要算。",
            ),
        ),
        Mistake(
            "mask_inverted",
            loss_with(count=lambda real: ~real[:, 1:] if not bool(real.all()) else real[:, 1:]),
            both(
                "You count the predictions of padding and skip the real ones. True means: a real token.",
                "你算的是填補，跳過的是真正的詞元。True 代表真正的詞元。",
            ),
        ),
        Mistake(
            "mask_in_the_logits",
            lambda logits, tokens, key_mask=None: loss_with(count=lambda real: torch.ones_like(real[:, 1:]))(
                logits if key_mask is None else logits * key_mask.unsqueeze(-1), tokens
            ),
            both(
                "You set the logits of padding to 0, which is an even guess and costs ln V, not nothing. Leave predictions out "
                "of the mean instead.",
                "你把填補的 logits 設成 0，那是平均亂猜，損失是 ln V，不是 0。應該在取平均時把那些預測排除。",
            ),
        ),
        Mistake(
            "summed",
            loss_with(reduce=lambda losses, counts: losses.where(counts, 0).sum()),
            both(
                "You return the sum. The mean over the predictions that count is asked for.",
                "你回傳的是總和。這裡要的是有算的那些預測的平均。",
            ),
        ),
        Mistake(
            "per_position",
            loss_with(reduce=lambda losses, counts: losses.where(counts, 0)),
            both(
                "You return one loss a position. One number is asked for: their mean.",
                "你回傳的是每個位置各自的損失。這裡要的是一個數：它們的平均。",
            ),
        ),
        Mistake(
            "sign_missing",
            loss_with(reduce=lambda losses, counts: -mean_of(losses, counts)),
            both(
                "The sign is missing: a loss is −ln p, so it is positive and falls as the guess gets better.",
                "少了負號：損失是 −ln p，所以是正的，猜得愈準愈小。",
            ),
        ),
        Mistake(
            "in_bits",
            loss_with(reduce=lambda losses, counts: mean_of(losses, counts) / math.log(2)),
            both(
                "Your loss is in bits. The natural logarithm is asked for.",
                "你的損失單位是位元（以 2 為底）。這裡要自然對數。",
            ),
        ),
        Mistake(
            "nan_when_empty",
            loss_with(reduce=lambda losses, counts: losses.where(counts, 0).sum() / counts.sum()),
            both(
                "With nothing to predict your mean is 0/0. Such a batch has loss 0.",
                "沒有東西要預測時，你的平均是 0/0。這種批次的損失要是 0。",
            ),
        ),
        Mistake(
            "zero_for_nan",
            loss_with(zero_for_nan),
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
                "With nothing to predict you return a zero that you made yourself, in float32. It must have the dtype of the "
                "logits.",
                "沒有東西要預測時，你回傳的是自己造的 0，dtype 是 float32。它的 dtype 要和 logits 一樣。",
            ),
        ),
        Mistake(
            "log_of_softmax",
            loss_with(log_p=lambda logits: torch.softmax(logits, dim=-1).log()),
            both(
                "A probability that rounds to 0 has the logarithm −∞. Take the logarithm before rounding can happen: there is a "
                "function for both steps at once.",
                "捨入成 0 的機率，對數就是 −∞。要在捨入發生之前取對數：有一個函式把兩步合在一起做。",
            ),
        ),
        Mistake(
            "no_max_subtraction",
            loss_with(log_p=lambda logits: logits - logits.exp().sum(dim=-1, keepdim=True).log()),
            both(
                "The exponentials of large logits overflow. Subtract the largest first, or use the function that does.",
                "大的 logits 取指數會溢位。先減掉最大的，或用會這麼做的函式。",
            ),
        ),
    ],
    hints=[
        both(
            "Write the indices down for N = 4: which positions have something to guess, and which tokens are guessed?",
            "以 N = 4 為例把下標寫出來：哪些位置有東西要猜？要猜的又是哪些詞元？",
        ),
        both(
            "Three tensors of the same shape, one shorter than the sequence: log probabilities of the targets, whether each "
            "target is real, and their product. Then one sum divided by another, which is at least 1.",
            "三個形狀相同的張量，都比序列短 1：目標的對數機率、目標是不是填補、兩者合起來。最後是一個總和除以另一個至少為 1 的總和。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- span_corruption


def span_corruption(tokens: Tensor, hidden: Tensor, first_sentinel: int) -> tuple[Tensor, Tensor]:
    inputs, targets, sentinel = [], [], first_sentinel
    hidden_before = False
    for token, is_hidden in zip(tokens.tolist(), hidden.tolist()):
        if is_hidden and not hidden_before:
            inputs.append(sentinel)
            targets.append(sentinel)
            sentinel -= 1
        (targets if is_hidden else inputs).append(token)
        hidden_before = is_hidden
    targets.append(sentinel)
    return tokens.new_tensor(inputs), tokens.new_tensor(targets)


def spans_of(hidden: list[bool]) -> list[tuple[int, int]]:
    """Start and end of each maximal run of True."""
    edges = [False, *hidden, False]
    starts = [i for i in range(len(hidden)) if edges[i + 1] and not edges[i]]
    ends = [i for i in range(len(hidden) + 1) if edges[i] and not edges[i + 1]]
    return list(zip(starts, ends))


def corrupted_with(
    spans: Callable[[list[bool]], list[tuple[int, int]]] = spans_of,
    name: Callable[[int], int] = lambda s: -s,
    mark: Callable[[int, int], list[int]] = lambda sentinel, length: [sentinel],
    tell: Callable[[int, list[int]], list[int]] = lambda sentinel, span: [sentinel, *span],
    close: Callable[[int, int], list[int]] = lambda sentinel, last: [sentinel],
) -> Callable[..., Any]:
    """Span corruption with one of its steps done otherwise; span number s has sentinel first + name(s)."""

    def answer(tokens: Tensor, hidden: Tensor, first_sentinel: int) -> Any:
        inputs, targets, done = [], [], 0
        found = spans(hidden.tolist())
        for s, (start, end) in enumerate(found):
            sentinel = first_sentinel + name(s)
            inputs += [*tokens[done:start].tolist(), *mark(sentinel, end - start)]
            targets += tell(sentinel, tokens[start:end].tolist())
            done = end
        last = first_sentinel + name(len(found) - 1)
        inputs += tokens[done:].tolist()
        targets += close(first_sentinel + name(len(found)), last)
        return tokens.new_tensor(inputs), tokens.new_tensor(targets)

    return answer


def one_span_per_token(hidden: list[bool]) -> list[tuple[int, int]]:
    return [(i, i + 1) for i, is_hidden in enumerate(hidden) if is_hidden]


def spans_from_a_roll(tokens: Tensor, hidden: Tensor, first_sentinel: int) -> tuple[Tensor, Tensor]:
    """A start is where the token before is visible; before the first comes, by a roll, the last."""
    starts = hidden & ~hidden.roll(1)
    number = first_sentinel - starts.cumsum(0) + 1
    inputs, targets = [], []
    for i, token in enumerate(tokens.tolist()):
        if starts[i]:
            inputs.append(int(number[i]))
            targets.append(int(number[i]))
        (targets if hidden[i] else inputs).append(token)
    targets.append(first_sentinel - int(starts.sum()))
    return tokens.new_tensor(inputs), tokens.new_tensor(targets)


right_corruption = corrupted_with()


def draw_spans(draw: Draw, *lengths: int) -> tuple[Any, ...]:
    """Tokens with runs of the given lengths, visible and hidden in turn; 0 leaves the first visible run out."""
    runs = [torch.full((length,), i % 2 == 1) for i, length in enumerate(lengths)]
    hidden = torch.cat(runs)
    return draw.integers(1, 90, len(hidden)), hidden, draw.integer(200, 900)


def draw_random_spans(draw: Draw) -> tuple[Any, ...]:
    """Many runs of 1 to 4."""
    return draw_spans(draw, *[draw.integer(1, 4) for _ in range(9)])


def draw_repeated_tokens(draw: Draw) -> tuple[Any, ...]:
    """Equal neighbours, visible ones and hidden ones, and a visible token 0."""
    tokens, hidden, first = draw_spans(draw, 3, 2, 3, 2, 2)
    tokens[1], tokens[4], tokens[6], tokens[9] = tokens[0], tokens[3], 0, tokens[8]
    return tokens, hidden, first


def draw_spans_strided(draw: Draw) -> tuple[Any, ...]:
    """Every other entry of longer tensors."""
    tokens, hidden, first = draw_spans(draw, 1, 3, 2, 2, 1)
    return (*(torch.stack((x, x.flip(0)), dim=1)[:, 0] for x in (tokens, hidden)), first)


exercise(
    name="span_corruption",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=span_corruption,
    results=("inputs", "targets"),
    cases=[
        Case("two_spans", both("two spans inside", "中間有兩段"), lambda d: draw_spans(d, 2, 2, 3, 1, 2), 3),
        Case("one_span", both("one span of three", "一段，三個詞元"), lambda d: draw_spans(d, 2, 3, 2), 2),
        Case("many_spans", both("many spans of different lengths", "很多段，長短不一"), draw_random_spans, 3),
        Case("at_the_start", both("a span at the start", "開頭就是一段"), lambda d: draw_spans(d, 0, 2, 2, 2, 1)),
        Case("at_the_end", both("a span at the end", "結尾是一段"), lambda d: draw_spans(d, 3, 1, 1, 3)),
        Case("both_ends", both("spans at both ends", "頭尾各一段"), lambda d: draw_spans(d, 0, 1, 3, 2)),
        Case(
            "all_hidden", both("everything hidden", "全部遮住"), lambda d: draw_spans(d, 0, d.integer(3, 5)), trap=True
        ),
        Case(
            "nothing_hidden", both("nothing hidden", "什麼都沒遮"), lambda d: draw_spans(d, d.integer(3, 5)), trap=True
        ),
        Case("one_token", both("a single token, hidden", "只有一個詞元，被遮住"), lambda d: draw_spans(d, 0, 1), 0.5),
        Case(
            "repeated_tokens",
            both("tokens that stand twice in a row, and a token 0", "有連續出現兩次的詞元，也有詞元 0"),
            draw_repeated_tokens,
            trap=True,
        ),
        Case(
            "strided",
            both("tensors whose memory is not contiguous", "記憶體不連續的張量"),
            draw_spans_strided,
            0.5,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "one_sentinel_per_token",
            corrupted_with(spans=one_span_per_token),
            both(
                "Every hidden token has a sentinel of its own. Neighbours that are hidden together are one span and share one: "
                "the input gets shorter, and its length does not tell how many tokens are missing.",
                "你給每個被遮住的詞元各一個哨兵。連在一起的算一段，共用一個：輸入變短了，從長度也看不出少了幾個詞元。",
            ),
        ),
        Mistake(
            "as_many_sentinels_as_tokens",
            corrupted_with(mark=lambda sentinel, length: [sentinel] * length),
            both(
                "In your inputs the sentinel is repeated for each token of its span. It stands once, for the whole span.",
                "你的輸入裡，一段有幾個詞元，哨兵就重複幾次。整段只放一個。",
            ),
        ),
        Mistake(
            "same_sentinel",
            corrupted_with(name=lambda s: 0),
            both(
                "All spans have the same sentinel, so the target does not say which gap it fills. Each span has its own.",
                "所有段落用同一個哨兵，目標就分不出填的是哪一格。每一段要有自己的。",
            ),
        ),
        Mistake(
            "sentinels_count_up",
            corrupted_with(name=lambda s: s),
            both(
                "Your sentinels count up from the first. They are the last ids of the vocabulary and count down.",
                "你的哨兵往上數。哨兵是詞彙表最後面的編號，要往下數。",
            ),
        ),
        Mistake(
            "sentinels_count_up_and_the_last_is_repeated",
            corrupted_with(name=lambda s: s, close=lambda sentinel, last: [last]),
            both(
                "Your sentinels count up from the first; they are the last ids of the vocabulary and count down. And at the end "
                "of the targets stands the next one, not used yet.",
                "你的哨兵往上數；哨兵是詞彙表最後面的編號，要往下數。另外，目標的結尾要放下一個、還沒用過的。",
            ),
        ),
        Mistake(
            "sentinels_count_up_and_no_last",
            corrupted_with(name=lambda s: s, close=lambda sentinel, last: []),
            both(
                "Your sentinels count up from the first; they are the last ids of the vocabulary and count down. And one more "
                "sentinel closes the targets.",
                "你的哨兵往上數；哨兵是詞彙表最後面的編號，要往下數。另外，目標的結尾還要再放一個哨兵。",
            ),
        ),
        Mistake(
            "sentinels_from_one",
            corrupted_with(name=lambda s: -s - 1),
            both(
                "Your first span already has the second sentinel. Spans are counted from 0.",
                "你的第一段就用了第二個哨兵。段落從 0 開始數。",
            ),
        ),
        Mistake(
            "no_last_sentinel",
            corrupted_with(close=lambda sentinel, last: []),
            both(
                "Your targets end with the last span. One more sentinel, the next unused one, says that nothing follows.",
                "你的目標到最後一段就停了。後面還要一個哨兵（下一個沒用過的），表示沒有了。",
            ),
        ),
        Mistake(
            "last_sentinel_repeated",
            corrupted_with(close=lambda sentinel, last: [last]),
            both(
                "Your targets end with the sentinel of the last span once more. At the end stands the next one, not used yet.",
                "你的目標結尾重複了最後一段的哨兵。結尾要放下一個、還沒用過的。",
            ),
        ),
        Mistake(
            "deleted",
            corrupted_with(mark=lambda sentinel, length: []),
            both(
                "The spans are gone from your inputs without a trace. A sentinel has to mark each gap.",
                "你的輸入把整段刪掉，不留痕跡。每個缺口要有一個哨兵標出來。",
            ),
        ),
        Mistake(
            "repeats_merged",
            lambda tokens, hidden, first: (
                torch.unique_consecutive((corruption := right_corruption(tokens, hidden, first))[0]),
                corruption[1],
            ),
            both(
                "In your inputs a visible token that stands twice in a row has become one. Only a span shrinks to one; what is "
                "visible stays as it is.",
                "你的輸入把連續出現兩次的詞元併成一個了。只有遮住的一段才縮成一個，看得到的要原樣保留。",
            ),
        ),
        Mistake(
            "zero_as_a_placeholder",
            lambda *args: tuple(part[part != 0] for part in right_corruption(*args)),
            both(
                "Token 0 has vanished. It is an id like any other, so it cannot also mark the places that you drop.",
                "詞元 0 不見了。0 也是一個編號，不能又拿來標記要丟掉的位置。",
            ),
        ),
        Mistake(
            "no_sentinels_in_target",
            corrupted_with(tell=lambda sentinel, span: span),
            both(
                "Your targets hold the missing tokens one after the other, but not where each span belongs. Its sentinel stands in "
                "front of each.",
                "你的目標只把缺的詞元接起來，沒說哪一段屬於哪裡。每一段前面要放它的哨兵。",
            ),
        ),
        Mistake(
            "sentinel_behind_the_span",
            corrupted_with(tell=lambda sentinel, span: [*span, sentinel]),
            both(
                "In your targets the sentinel stands behind its span. It comes first: it is the question, the span is the answer.",
                "你的目標把哨兵放在段落後面。它要在前面：哨兵是題目，段落是答案。",
            ),
        ),
        Mistake(
            "all_tokens_in_target",
            lambda tokens, hidden, first: (right_corruption(tokens, hidden, first)[0], tokens.clone()),
            both(
                "Your targets are the whole text. T5 writes what is missing, not what it can see: that is why its targets are "
                "short.",
                "你的目標是整段文字。T5 只寫缺的部分，不抄看得到的，所以目標很短。",
            ),
        ),
        Mistake(
            "visible_in_target",
            lambda tokens, hidden, first: (
                right_corruption(tokens, hidden, first)[0],
                right_corruption(tokens, ~hidden, first)[0],
            ),
            both(
                "In your targets a sentinel stands for each visible part, as in the paper's picture, but the sentinels do not match "
                "those of the inputs, or the last one is missing. A span's sentinel is the same on both sides.",
                "你的目標用哨兵代表每個看得到的部分，但它和輸入的哨兵對不起來，或少了最後一個。同一段在兩邊要用同一個哨兵。",
            ),
        ),
        Mistake(
            "hidden_inverted",
            lambda tokens, hidden, first: right_corruption(tokens, ~hidden, first),
            both(
                "You hide what should be visible. hidden = True means: take it out of the inputs.",
                "你把該看得到的遮住了。hidden 是 True，代表要從輸入裡拿掉。",
            ),
        ),
        Mistake(
            "start_lost_by_roll",
            spans_from_a_roll,
            both(
                "When the first and the last token are both hidden, your first span loses its sentinel: a roll makes the last token "
                "the neighbour of the first. Nothing stands before the first token.",
                "頭尾都被遮住時，你的第一段少了哨兵：roll 把最後一個詞元變成第一個的鄰居。第一個詞元前面什麼都沒有。",
            ),
        ),
        Mistake(
            "parts_swapped",
            lambda tokens, hidden, first: right_corruption(tokens, hidden, first)[::-1],
            both(
                "The two results have changed places: first the inputs, then the targets.",
                "兩個結果對調了：先 inputs，再 targets。",
            ),
        ),
        Mistake(
            "lists",
            lambda tokens, hidden, first: tuple(part.tolist() for part in right_corruption(tokens, hidden, first)),
            both(
                "You return lists. Make tensors of them, in the dtype of the tokens.",
                "你回傳的是串列。請做成張量，dtype 和 tokens 一樣。",
            ),
        ),
    ],
    hints=[
        both(
            "Go through the tokens once, from left to right, with two growing lists. What do you have to remember from the token "
            "before?",
            "從左到右走一遍，手上有兩個愈來愈長的串列。關於前一個詞元，你得記住什麼？",
        ),
        both(
            "Where a span starts, the same sentinel goes to both lists and the number goes down by one; after that, each token goes "
            "to one of them. One thing is left to do at the end.",
            "一段開始時，兩個串列都放進同一個哨兵，編號減一；之後每個詞元各進其中一個。走完還有一件事要做。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- family_mask


def family_mask(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
    place = torch.arange(n_source + n_target, device=device)
    past = place <= place.unsqueeze(-1)
    if family == "bert":
        return torch.ones_like(past)
    if family == "gpt":
        return past
    if family == "t5":
        return past | (place < n_source)
    raise ValueError(f"unknown family {family!r}")


def full(n_source: int, n_target: int) -> Tensor:
    return torch.ones(n_source + n_target, n_source + n_target, dtype=torch.bool)


def causal(n_source: int, n_target: int) -> Tensor:
    return full(n_source, n_target).tril()


def source_first(n_source: int, n_target: int) -> Tensor:
    mask = causal(n_source, n_target)
    mask[:, :n_source] = True
    return mask


FAMILIES = {"bert": full, "gpt": causal, "t5": source_first}


def families(**other: Callable[[int, int], Tensor]) -> Callable[..., Tensor]:
    """The three masks with some of them made otherwise."""
    table = FAMILIES | other

    def answer(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
        if family not in table:
            raise ValueError("another family")
        return table[family](n_source, n_target)

    return answer


def changed_masks(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda family, n_source, n_target, device=None: change(families()(family, n_source, n_target))


def filled(n_source: int, n_target: int, rows: slice, columns: slice, value: bool) -> Tensor:
    """T5's mask with one block made of `value`."""
    mask = source_first(n_source, n_target)
    mask[rows, columns] = value
    return mask


def gpt_for_any_other(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
    return FAMILIES.get(family, causal)(n_source, n_target)


def bert_for_any_other(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
    return FAMILIES.get(family, full)(n_source, n_target)


def t5_for_any_other(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
    return FAMILIES.get(family, source_first)(n_source, n_target)


def nothing_for_any_other(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor | None:
    return FAMILIES[family](n_source, n_target) if family in FAMILIES else None


def key_error(family: str, n_source: int, n_target: int, device: Any = None) -> Tensor:
    return FAMILIES[family](n_source, n_target)


def draw_family(family: str) -> Callable[[Draw], tuple[Any, ...]]:
    """More source than target."""
    return lambda d: (family, d.integer(4, 6), d.integer(2, 3))


exercise(
    name="family_mask",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=family_mask,
    results=("mask",),
    cases=[
        Case("bert", both('family "bert"', "bert 家族"), draw_family("bert"), 2),
        Case("gpt", both('family "gpt"', "gpt 家族"), draw_family("gpt"), 2),
        Case("t5", both('"t5", more source than target', "t5，來源比目標長"), draw_family("t5"), 3),
        Case(
            "long_target",
            both('"t5", more target than source', "t5，目標比來源長"),
            lambda d: ("t5", d.integer(2, 3), d.integer(4, 6)),
            2,
        ),
        Case(
            "equal",
            both('"t5", source and target of equal length', "t5，來源與目標一樣長"),
            lambda d: ("t5", n := d.integer(2, 4), n),
        ),
        Case(
            "one_each",
            both("one token of each, device by name", "各一個詞元，用名稱給 device"),
            lambda d: ((d.choice("gpt", "t5"), 1, 1), {"device": "cpu"}),
            0.5,
        ),
        Case(
            "unknown",
            both("another name: ValueError", "別的名稱：ValueError"),
            lambda d: (d.choice("rnn", "mamba", "lstm"), 3, 2),
            1,
            raises="ValueError",
            trap=True,
        ),
        Case(
            "capitals",
            both("a name in capitals: ValueError", "大寫的名稱：ValueError"),
            lambda d: (d.choice("BERT", "GPT", "T5"), 3, 2),
            0.5,
            raises="ValueError",
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "capitals_accepted",
            lambda family, n_source, n_target, device=None: families()(family.lower(), n_source, n_target),
            both(
                "You accept names in capitals as well. There are three names, all in small letters; any other is a ValueError.",
                "你連大寫的名稱也接受。名稱只有三個，都是小寫；其他一律 ValueError。",
            ),
        ),
        Mistake(
            "bert_and_gpt_swapped",
            families(bert=causal, gpt=full),
            both(
                "BERT and GPT have changed masks. Which of the two writes from left to right?",
                "BERT 和 GPT 的遮罩對調了。哪一個是從左往右寫的？",
            ),
        ),
        Mistake(
            "gpt_sees_all",
            families(gpt=full),
            both(
                "Your GPT sees the token that it is to guess. It reads from the left: the future is hidden.",
                "你的 GPT 看得到它要猜的詞元。它從左往右讀，未來要遮住。",
            ),
        ),
        Mistake(
            "bert_is_causal",
            families(bert=causal),
            both(
                "Your BERT reads from the left only. It guesses from both sides, so every token sees every other.",
                "你的 BERT 只從左邊讀。它是看兩邊來猜的，所以每個詞元都看得到其他所有詞元。",
            ),
        ),
        Mistake(
            "gpt_has_a_prefix",
            families(gpt=source_first),
            both(
                "Your GPT reads the source in both directions. To GPT there is no source: it is one text, causal throughout.",
                "你的 GPT 雙向讀來源。對 GPT 來說沒有什麼來源：整個就是一段文字，從頭到尾都是因果的。",
            ),
        ),
        Mistake(
            "source_causal",
            families(t5=causal),
            both(
                "In your T5 the source is causal too: that is GPT. The encoder reads the source in both directions.",
                "你的 T5 連來源都是因果的，那就是 GPT 了。編碼器是雙向讀來源的。",
            ),
        ),
        Mistake(
            "source_sees_target",
            families(t5=lambda s, t: filled(s, t, slice(None, s), slice(None), True)),
            both(
                "In your T5 the source sees the target, and through it every target token sees its own future. The encoder knows "
                "nothing of the target.",
                "你的 T5 裡，來源看得到目標；目標詞元就會透過來源看到自己的未來。編碼器對目標一無所知。",
            ),
        ),
        Mistake(
            "target_not_causal",
            families(t5=lambda s, t: filled(s, t, slice(s, None), slice(None), True)),
            both(
                "In your T5 the target sees its own future. The decoder writes from left to right.",
                "你的 T5 裡，目標看得到自己的未來。解碼器是從左往右寫的。",
            ),
        ),
        Mistake(
            "t5_sees_all",
            families(t5=full),
            both(
                "In your T5 everything sees everything, as in BERT. The target is written from left to right, and the source knows "
                "nothing of it.",
                "你的 T5 全部都看得到，和 BERT 一樣。目標是從左往右寫的，來源也不該知道目標。",
            ),
        ),
        Mistake(
            "target_blind_to_source",
            families(t5=lambda s, t: filled(s, t, slice(s, None), slice(None, s), False)),
            both(
                "In your T5 the target does not see the source: the cross-attention is missing.",
                "你的 T5 裡，目標看不到來源：少了交叉注意力。",
            ),
        ),
        Mistake(
            "target_blind_to_itself",
            families(t5=lambda s, t: filled(s, t, slice(s, None), slice(s, None), False)),
            both(
                "In your T5 the target sees the source only. The decoder reads what it has written so far as well.",
                "你的 T5 裡，目標只看得到來源。解碼器也會讀自己寫到目前為止的內容。",
            ),
        ),
        Mistake(
            "target_first",
            families(t5=lambda s, t: source_first(t, s)),
            both(
                "In your T5 the first n_target tokens are the source. The source comes first and has n_source tokens.",
                "你的 T5 把前 n_target 個詞元當成來源。來源排在前面，有 n_source 個。",
            ),
        ),
        Mistake(
            "excludes_self",
            families(
                gpt=lambda s, t: causal(s, t).tril(-1),
                t5=lambda s, t: source_first(s, t) & ~torch.diag(torch.arange(s + t) >= s),
            ),
            both(
                "No token sees itself where you hide the future. A token may look at itself: it is read already, what is guessed is "
                "the next.",
                "你遮住未來時，詞元連自己都看不到。詞元可以看自己：它已經讀進來了，要猜的是下一個。",
            ),
        ),
        Mistake(
            "upside_down",
            families(gpt=lambda s, t: causal(s, t).mT, t5=lambda s, t: source_first(s, t).mT),
            both(
                "Rows and columns are swapped: row i says what token i sees, column j by whom token j is seen.",
                "列和行對調了：第 i 列是詞元 i 看得到誰，第 j 行是誰看得到詞元 j。",
            ),
        ),
        Mistake(
            "mask_inverted",
            changed_masks(lambda mask: ~mask),
            both(
                "Your masks are the wrong way round. In this course True means: may attend.",
                "你的遮罩反了。在這門課，True 代表可以看。",
            ),
        ),
        Mistake(
            "float_mask",
            changed_masks(lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -math.inf)),
            both(
                "You return numbers to be added to the scores. A Boolean mask is asked for, True = may attend.",
                "你回傳的是要加到分數上的數。這裡要布林遮罩，True 代表可以看。",
            ),
        ),
        Mistake(
            "ones_and_zeros",
            changed_masks(lambda mask: mask.float()),
            both(
                "You return ones and zeros. A Boolean mask is asked for, True = may attend.",
                "你回傳的是 1 和 0。這裡要布林遮罩，True 代表可以看。",
            ),
        ),
        Mistake(
            "integer_mask",
            changed_masks(lambda mask: mask.long()),
            both(
                "You return ones and zeros. A Boolean mask is asked for, True = may attend.",
                "你回傳的是 1 和 0。這裡要布林遮罩，True 代表可以看。",
            ),
        ),
        Mistake(
            "gpt_for_any_other",
            gpt_for_any_other,
            both(
                "A name that is no family gets a mask as well. Refuse it with a ValueError: a typing error should not go unnoticed.",
                "不是家族的名稱也拿到了遮罩。請 raise ValueError：打錯字不該沒人發現。",
            ),
        ),
        Mistake(
            "t5_for_any_other",
            t5_for_any_other,
            both(
                "A name that is no family gets a mask as well. Refuse it with a ValueError: a typing error should not go unnoticed.",
                "不是家族的名稱也拿到了遮罩。請 raise ValueError：打錯字不該沒人發現。",
            ),
            same_as=("gpt_for_any_other",),
        ),
        Mistake(
            "bert_for_any_other",
            bert_for_any_other,
            both(
                "A name that is no family gets a mask as well. Refuse it with a ValueError: a typing error should not go unnoticed.",
                "不是家族的名稱也拿到了遮罩。請 raise ValueError：打錯字不該沒人發現。",
            ),
            same_as=("gpt_for_any_other", "t5_for_any_other"),
        ),
        Mistake(
            "nothing_for_any_other",
            nothing_for_any_other,
            both(
                "For a name that is no family you return None in silence. Raise a ValueError.",
                "不是家族的名稱，你默默回傳 None。請 raise ValueError。",
            ),
        ),
        Mistake(
            "key_error",
            key_error,
            both(
                "An unknown name stops with another error than the one asked for: a ValueError.",
                "遇到不認得的名稱時，停下來的錯誤不是指定的那一種：要用 ValueError。",
            ),
        ),
    ],
    hints=[
        both(
            "Draw the n × n square and cut it after n_source rows and columns: four blocks. Which are full, which are a triangle, "
            "which are empty?",
            "畫出 n × n 的方格，在第 n_source 列和行之後切開，分成四塊。哪些全滿、哪些是三角形、哪些全空？",
        ),
        both(
            "T5's mask is GPT's with something added: the columns of the source are open to everyone.",
            "T5 的遮罩就是 GPT 的再多開放一塊：來源的那幾行，大家都能看。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------------- mean_pool


def mean_pool(hidden: Tensor, key_mask: Tensor) -> Tensor:
    real = key_mask.unsqueeze(-1)
    total = hidden.masked_fill(~real, 0.0).sum(dim=1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / real.sum(dim=1).clamp(min=1)).to(hidden.dtype)


def real_sum(hidden: Tensor, key_mask: Tensor) -> Tensor:
    """In float32 at least, [B, d]."""
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    return wide.where(key_mask[..., None], 0).sum(dim=1)


def pooled(
    total: Callable[[Tensor, Tensor], Tensor] = real_sum,
    count: Callable[[Tensor], Any] = lambda key_mask: key_mask.sum(dim=1, keepdim=True).clamp(min=1),
    finish: Callable[[Tensor], Tensor] = lambda mean: mean,
) -> Callable[[Tensor, Tensor], Tensor]:
    """total / count, with one of its steps done otherwise."""
    return lambda hidden, key_mask: finish(total(hidden, key_mask) / count(key_mask)).to(hidden.dtype)


def pooled_in_own_dtype(hidden: Tensor, key_mask: Tensor) -> Tensor:
    return (hidden * key_mask.unsqueeze(-1)).sum(dim=1) / key_mask.sum(dim=1, keepdim=True).clamp(min=1)


def small_floor_under_the_count(hidden: Tensor, key_mask: Tensor) -> Tensor:
    """In float16 the floor of 1e-9 is 0."""
    count = key_mask.to(hidden.dtype).sum(dim=1, keepdim=True).clamp(min=1e-9)
    return (real_sum(hidden, key_mask) / count).to(hidden.dtype)


def first_places(hidden: Tensor, key_mask: Tensor) -> Tensor:
    """The mean over as many places from the left as there are real tokens."""
    kept = torch.arange(hidden.shape[1]) < key_mask.sum(dim=1, keepdim=True)
    return pooled()(hidden, kept)


def last_real(hidden: Tensor, key_mask: Tensor) -> Tensor:
    place = (torch.arange(hidden.shape[1], device=hidden.device) * key_mask).amax(dim=1)
    return hidden[torch.arange(len(hidden)), place]


def draw_right_padded(draw: Draw, B: int, N: int, d: int) -> tuple[Tensor, Tensor]:
    """Means far from 0; each sequence has padding of its own length, the first not padded."""
    kept = torch.tensor([N, 1, *[draw.integer(2, N - 1) for _ in range(B - 2)]])[draw.permutation(B)]
    return draw.normal(B, N, d, mean=2.0), torch.arange(N) < kept[:, None]


def draw_left_padded(draw: Draw, B: int, N: int, d: int) -> tuple[Tensor, Tensor]:
    hidden, real = draw_right_padded(draw, B, N, d)
    return hidden, real.flip(1)


def draw_one_empty(draw: Draw) -> tuple[Tensor, Tensor]:
    hidden, real = draw_right_padded(draw, 3, 5, 4)
    real[draw.integer(0, 2)] = False
    return hidden, real


def draw_long(draw: Draw) -> tuple[Tensor, Tensor]:
    """300 vectors near 400, whose sum is beyond float16."""
    return draw.normal(2, 300, 3, mean=400.0, std=4.0), draw.mask(2, 300, keep=0.9)


exercise(
    name="mean_pool",
    lesson=LESSON,
    points=2,
    difficulty=2,
    reference=mean_pool,
    results=("vectors",),
    forbidden=("torch.masked.*",),
    cases=[
        Case("right", both("padding on the right", "填補在右邊"), lambda d: draw_right_padded(d, 3, 6, 4), 3),
        Case("left", both("padding on the left", "填補在左邊"), lambda d: draw_left_padded(d, 4, 5, 3), 2.5),
        Case(
            "no_padding",
            both("no padding, as many tokens as columns", "沒有填補，詞元數等於寬度"),
            lambda d: (d.normal(2, 4, 4, mean=1.0), torch.ones(2, 4, dtype=torch.bool)),
            2,
        ),
        Case(
            "square",
            both("as many sequences as tokens", "序列數等於詞元數"),
            lambda d: draw_right_padded(d, 4, 4, 3),
        ),
        Case(
            "one_empty",
            both("one sequence without any token: zeros", "有一個序列沒有任何詞元：0"),
            draw_one_empty,
            trap=True,
        ),
        Case(
            "long_float16",
            both("float16: 300 vectors near 400", "float16：300 個 400 左右的向量"),
            draw_long,
            1,
            torch.float16,
            trap=True,
        ),
        Case(
            "one_empty_float16",
            both("float16: one sequence without any token", "float16：有一個序列沒有任何詞元"),
            draw_one_empty,
            0.5,
            torch.float16,
            trap=True,
        ),
        smallest(lambda d: (d.normal(1, 1, 1), torch.ones(1, 1, dtype=torch.bool))),
        *half_precision(lambda d: draw_right_padded(d, 3, 7, 4)),
        float64(lambda d: draw_right_padded(d, 3, 4, 5), 0.5),
        noncontiguous(lambda d: draw_left_padded(d, 2, 5, 3), 0.5),
        gradients(lambda d: draw_one_empty(d)),
    ],
    mistakes=[
        Mistake(
            "padding_counted",
            lambda hidden, key_mask: hidden.mean(dim=1),
            both(
                "Padding is averaged in. The same sentence then has another vector in every batch.",
                "你把填補也平均進去了。這樣同一個句子在每個批次裡的向量都不同。",
            ),
        ),
        Mistake(
            "first_places",
            first_places,
            both(
                "You average the first places of each sequence, as many as it has real tokens. With padding on the left these are "
                "not the real ones: the mask says where they stand.",
                "你平均的是每個序列最前面的幾個位置，個數等於真正的詞元數。填補在左邊時，那些並不是真正的詞元：它們在哪裡，要看遮罩。",
            ),
        ),
        Mistake(
            "divides_by_length",
            pooled(count=lambda key_mask: key_mask.shape[1]),
            both(
                "You sum the real tokens, but divide by the length with padding. Divide by how many were summed.",
                "你加的是真正的詞元，除的卻是含填補的長度。加了幾個就除以幾。",
            ),
        ),
        Mistake(
            "one_count_for_all",
            pooled(count=lambda key_mask: key_mask.sum().clamp(min=1)),
            both(
                "You divide every sequence by the number of real tokens of the whole batch. Each has its own count.",
                "你把每個序列都除以整個批次的真正詞元數。每個序列有自己的數目。",
            ),
        ),
        Mistake(
            "summed",
            pooled(count=lambda key_mask: 1),
            both(
                "You return the sum. A long sentence then has a longer vector; divide by the number of real tokens.",
                "你回傳的是總和。這樣句子愈長，向量就愈長；要除以真正詞元的個數。",
            ),
        ),
        Mistake(
            "divides_by_root",
            pooled(count=lambda key_mask: key_mask.sum(dim=1, keepdim=True).clamp(min=1).sqrt()),
            both(
                "You divide by the root of the count. Some models were trained to be read that way, this one takes the mean.",
                "你除的是個數的平方根。有些模型訓練時是那樣讀的，這裡要的是平均。",
            ),
        ),
        Mistake(
            "first_token",
            lambda hidden, key_mask: hidden[:, 0],
            both(
                "You return the first token's vector, [CLS]. Some models are read that way; here the mean is asked for.",
                "你回傳的是第一個詞元（[CLS]）的向量。有些模型是那樣讀的；這裡要的是平均。",
            ),
        ),
        Mistake(
            "last_token",
            last_real,
            both(
                "You return the last real token's vector. The mean over all real ones is asked for.",
                "你回傳的是最後一個真正的詞元的向量。這裡要所有真正詞元的平均。",
            ),
        ),
        Mistake(
            "maximum",
            lambda hidden, key_mask: hidden.masked_fill(~key_mask[..., None], -math.inf).amax(dim=1),
            both(
                "You return the maximum of each column. The mean is asked for.",
                "你回傳的是每一行的最大值。這裡要的是平均。",
            ),
        ),
        Mistake(
            "mask_inverted",
            lambda hidden, key_mask: pooled()(hidden, ~key_mask),
            both(
                "You average the padding and leave the text out. True means: a real token.",
                "你平均的是填補，文字反而沒算。True 代表真正的詞元。",
            ),
        ),
        Mistake(
            "nan_when_empty",
            pooled(count=lambda key_mask: key_mask.sum(dim=1, keepdim=True)),
            both(
                "A sequence without any token gives 0/0. Its vector is all zeros.",
                "沒有任何詞元的序列會變成 0/0。它的向量應該全是 0。",
            ),
        ),
        Mistake(
            "small_floor_under_the_count",
            small_floor_under_the_count,
            both(
                "In float16, and only there, a sequence without any token gives NaN. You keep its count from 0 by a number like "
                "1e-9, and float16 rounds that to 0. What is the smallest count that there is something to divide by?",
                "只有 float16 的時候，沒有任何詞元的序列會變成 NaN。你用 1e-9 這類很小的數來避免除以 0，可是 float16 會把它捨入成 0。"
                "只要有詞元，個數最少是多少？",
            ),
        ),
        Mistake(
            "unit_length",
            pooled(finish=lambda mean: F.normalize(mean, dim=-1)),
            both(
                "You scale the vectors to length 1. That is the next step of the pipeline and not part of the mean.",
                "你把向量縮放成長度 1。那是流程的下一步，不屬於平均。",
            ),
        ),
        Mistake(
            "sums_in_half",
            pooled_in_own_dtype,
            both(
                "You sum in half precision: 300 numbers near 400 make 120,000, and float16 ends at 65,504. Sum in float32 and "
                "convert the mean.",
                "你用半精度加總：300 個 400 左右的數加起來是 12 萬，而 float16 只到 65504。用 float32 加，平均完再轉回去。",
            ),
        ),
        Mistake(
            "axis_kept",
            pooled(finish=lambda mean: mean.unsqueeze(1)),
            both(
                "The axis of the tokens is still there, with length 1. One vector a sequence: [B, d].",
                "詞元的軸還在，長度是 1。一個序列一個向量：[B, d]。",
            ),
        ),
        Mistake(
            "mean_over_columns",
            lambda hidden, key_mask: hidden.mean(dim=-1) * key_mask,
            both(
                "You average over the columns and get one number a token. Average over the tokens: one vector a sequence.",
                "你沿著寬度平均，得到每個詞元一個數。要沿著詞元平均：每個序列一個向量。",
            ),
        ),
    ],
    hints=[
        both(
            "A mean is a sum divided by a count. Both are over the real tokens, and both differ from sequence to sequence.",
            "平均是總和除以個數。兩者都只看真正的詞元，而且每個序列各不相同。",
        ),
        both(
            "Give the mask one more axis at its end, so that it broadcasts over the columns. Keep the count at least 1, and mind "
            "the dtype in which you sum.",
            "替遮罩在最後加一個軸，讓它沿著寬度廣播。個數至少要是 1；還要注意用什麼 dtype 加總。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- llama_block


class LlamaBlock(nn.Module):
    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        eps: float = 1e-5,
        rope_base: float = 10000.0,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_k, self.rope_base = n_heads, n_kv_heads, d_model // n_heads, rope_base
        self.norm1, self.norm2 = nn.RMSNorm(d_model, eps=eps), nn.RMSNorm(d_model, eps=eps)
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def turned(self, heads: Tensor) -> Tensor:
        a, b = heads.chunk(2, dim=-1)
        i = torch.arange(self.d_k // 2, dtype=heads.dtype, device=heads.device)
        positions = torch.arange(heads.shape[-2], dtype=heads.dtype, device=heads.device)
        angles = positions.unsqueeze(-1) * self.rope_base ** (-2 * i / self.d_k)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    def attention(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (-1, self.d_k)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        group = self.n_heads // self.n_kv_heads
        k, v = self.turned(k).repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = self.turned(q) @ k.mT / math.sqrt(self.d_k)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        normed = self.norm2(x)
        return x + self.w_down(F.silu(self.w_gate(normed)) * self.w_up(normed))


class Gain(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))


class Stepwise(nn.Module):
    """The same in small steps, so that a mistake can change one of them."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        eps: float = 1e-5,
        rope_base: float = 10000.0,
    ) -> None:
        super().__init__()
        self.h, self.h_kv, self.d_k, self.eps, self.base = n_heads, n_kv_heads, d_model // n_heads, eps, rope_base
        self.norm1, self.norm2 = Gain(d_model), Gain(d_model)
        kv = n_kv_heads * self.d_k
        self.w_q, self.w_k, self.w_v, self.w_o, self.w_gate, self.w_up, self.w_down = (
            nn.Linear(a, b, bias=False)
            for a, b in (
                (d_model, d_model), (d_model, kv), (d_model, kv), (d_model, d_model),
                (d_model, d_ff), (d_model, d_ff), (d_ff, d_model),
            )
        )  # fmt: skip

    def norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt() * gain

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def angles(self, n: int, x: Tensor) -> Tensor:
        frequencies = self.base ** (-torch.arange(0, self.d_k, 2, dtype=x.dtype) / self.d_k)
        return torch.arange(n, dtype=x.dtype)[:, None] * frequencies

    def pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=-1)
        return a, b

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat((a, b), dim=-1)

    def turn(self, x: Tensor) -> Tensor:
        (a, b), angles = self.pair(x), self.angles(x.shape[-2], x)
        return self.join(a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())

    def turn_all(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.turn(q), self.turn(k), v

    def share(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.h // self.h_kv, dim=1)

    def scale(self) -> float:
        return 1 / math.sqrt(self.d_k)

    def visible(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril()

    def weigh(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores.masked_fill(~self.visible(scores.shape[-1]), -math.inf), dim=-1)

    def mix(self, merged: Tensor) -> Tensor:
        return self.w_o(merged)

    def attention(self, x: Tensor) -> Tensor:
        q, k, v = self.turn_all(self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x)))
        return self.mix(self.merge(self.weigh(q @ self.share(k).mT * self.scale()) @ self.share(v)))

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate) * up

    def network(self, x: Tensor) -> Tensor:
        return self.w_down(self.gated(self.w_gate(x), self.w_up(x)))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x, self.norm1.weight))
        return x + self.network(self.norm(x, self.norm2.weight))


def with_step(**steps: Callable[..., Any]) -> type[nn.Module]:
    """The block with some of its steps done otherwise."""
    return type("Otherwise", (Stepwise,), dict(steps))


def post_normed(self: Any, x: Tensor) -> Tensor:
    x = self.norm(x + self.attention(x), self.norm1.weight)
    return self.norm(x + self.network(x), self.norm2.weight)


def norm_on_the_shortcut(self: Any, x: Tensor) -> Tensor:
    normed = self.norm(x, self.norm1.weight)
    x = normed + self.attention(normed)
    normed = self.norm(x, self.norm2.weight)
    return normed + self.network(normed)


def no_residual(self: Any, x: Tensor) -> Tensor:
    return self.network(self.norm(self.attention(self.norm(x, self.norm1.weight)), self.norm2.weight))


def one_residual(self: Any, x: Tensor) -> Tensor:
    return x + self.network(self.norm(x + self.attention(self.norm(x, self.norm1.weight)), self.norm2.weight))


def side_by_side(self: Any, x: Tensor) -> Tensor:
    attended = self.attention(self.norm(x, self.norm1.weight))
    return x + attended + self.network(self.norm(x, self.norm2.weight))


def network_first(self: Any, x: Tensor) -> Tensor:
    x = x + self.network(self.norm(x, self.norm2.weight))
    return x + self.attention(self.norm(x, self.norm1.weight))


def one_norm(self: Any, x: Tensor) -> Tensor:
    x = x + self.attention(self.norm(x, self.norm1.weight))
    return x + self.network(self.norm(x, self.norm1.weight))


def first_residual_missing(self: Any, x: Tensor) -> Tensor:
    x = self.attention(self.norm(x, self.norm1.weight))
    return x + self.network(self.norm(x, self.norm2.weight))


def second_residual_missing(self: Any, x: Tensor) -> Tensor:
    return self.network(self.norm(x + self.attention(self.norm(x, self.norm1.weight)), self.norm2.weight))


def first_norm_missing(self: Any, x: Tensor) -> Tensor:
    x = x + self.attention(x)
    return x + self.network(self.norm(x, self.norm2.weight))


def second_norm_missing(self: Any, x: Tensor) -> Tensor:
    x = x + self.attention(self.norm(x, self.norm1.weight))
    return x + self.network(x)


def layer_normed(self: Any, x: Tensor, gain: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=self.eps) * gain


def norm_of_length(self: Any, x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().sum(dim=-1, keepdim=True) + self.eps).sqrt() * gain


def norm_with_eps_outside(self: Any, x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + self.eps) * gain


def norm_with_fixed_eps(self: Any, x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() * gain


def norm_with_torch_eps(self: Any, x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], gain)


def neighbours(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., 0::2], x[..., 1::2]


def interleaved(self: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.stack((a, b), dim=-1).flatten(-2)


def angles_with(exponent: Callable[[Any, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Angles with frequency base^exponent(block, i), i = 0 … d_k/2 − 1."""

    def angles(self: Any, n: int, x: Tensor) -> Tensor:
        i = torch.arange(self.d_k // 2, dtype=x.dtype)
        return torch.arange(n, dtype=x.dtype)[:, None] * self.base ** exponent(self, i)

    return angles


def angles_of_fixed_base(self: Any, n: int, x: Tensor) -> Tensor:
    return torch.arange(n, dtype=x.dtype)[:, None] * 10000.0 ** (
        -torch.arange(0, self.d_k, 2, dtype=x.dtype) / self.d_k
    )


def one_angle(self: Any, n: int, x: Tensor) -> Tensor:
    return torch.arange(n, dtype=x.dtype)[:, None].expand(n, self.d_k // 2)


def positions_of_heads(self: Any, x: Tensor) -> Tensor:
    """Turned by the number of the head: the axis in front of the tokens' when nothing was transposed."""
    angles = self.angles(x.shape[1], x)[:, None]
    a, b = self.pair(x)
    return self.join(a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())


BLOCK_WEIGHTS = ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down")


def draw_block(
    draw: Draw,
    B: int,
    N: int,
    sizes: tuple[int, int, int, int],
    options: tuple[float, ...] = (),
    size: float = 1.5,
    mean: float = 0.8,
) -> tuple[Any, ...]:
    """Weights large enough for the softmax to prefer some keys clearly; gains that differ; rows with a mean."""
    d_model, h, h_kv, d_ff = sizes
    kv = h_kv * (d_model // h)
    shapes = dict(
        zip(
            BLOCK_WEIGHTS,
            (
                (d_model, d_model), (kv, d_model), (kv, d_model), (d_model, d_model),
                (d_ff, d_model), (d_ff, d_model), (d_model, d_ff),
            ),
        )
    )  # fmt: skip
    state = {f"norm{i}.weight": draw.uniform(0.5, 1.6, d_model) for i in (1, 2)}
    for name, shape in shapes.items():
        std = 1.6 if name in ("w_q", "w_k") else 1.0
        state[f"{name}.weight"] = draw.normal(*shape, std=std / math.sqrt(shape[1]))
    return (*sizes, *options), state, size * draw.normal(B, N, d_model, mean=mean)


exercise(
    name="llama_block",
    lesson=LESSON,
    points=5,
    difficulty=4,
    driver="module",
    reference=LlamaBlock,
    results=("output",),
    forbidden=TRANSFORMERS,
    cases=[
        Case(
            "multi_head",
            both("as many key/value heads as heads", "鍵與值的頭和查詢頭一樣多"),
            lambda d: draw_block(d, 2, 5, (8, 2, 2, 12)),
            3,
        ),
        Case(
            "grouped",
            both("four heads, two key/value heads", "四個頭，兩個鍵與值的頭"),
            lambda d: draw_block(d, 2, 6, (16, 4, 2, 10)),
            3,
        ),
        Case(
            "multi_query",
            both("one key/value head for three heads", "三個頭共用一個鍵與值的頭"),
            lambda d: draw_block(d, 1, 7, (18, 3, 1, 14)),
            2,
        ),
        Case(
            "eps",
            both("small x and ε = 0.01", "很小的 x，ε = 0.01"),
            lambda d: draw_block(d, 2, 4, (8, 2, 1, 6), (1e-2,), 0.08),
            2,
        ),
        Case(
            "base",
            both("rotary frequencies of base 500", "旋轉頻率的底（rope_base）是 500"),
            lambda d: draw_block(d, 2, 8, (16, 2, 1, 12), (1e-5, 500.0)),
            2,
        ),
        Case(
            "as_many_tokens_as_heads",
            both("as many tokens as heads", "詞元和頭一樣多"),
            lambda d: draw_block(d, 2, 4, (16, 4, 2, 8)),
            1,
        ),
        Case("one_token", both("one token", "只有一個詞元"), lambda d: draw_block(d, 2, 1, (8, 2, 1, 6)), 0.5),
        Case(
            "small",
            both("very small x, ε not given", "極小的 x，沒給 ε"),
            lambda d: draw_block(d, 1, 4, (8, 2, 2, 6), (), 3e-3),
            1,
            trap=True,
        ),
        smallest(lambda d: draw_block(d, 1, 1, (2, 1, 1, 1))),
        float64(lambda d: draw_block(d, 2, 6, (16, 2, 1, 10)), 1.5),
        noncontiguous(lambda d: draw_block(d, 2, 4, (8, 2, 1, 6))),
        gradients(lambda d: draw_block(d, 2, 5, (8, 2, 1, 6)), 2),
    ],
    mistakes=[
        Mistake(
            "post_norm",
            with_step(forward=post_normed),
            both(
                "You normalise after adding, as in 2017. Llama normalises what a sublayer reads, and the sum passes on untouched.",
                "你在相加之後才正規化，那是 2017 年的做法。Llama 是把子層要讀的東西先正規化，相加的結果原封不動往下傳。",
            ),
        ),
        Mistake(
            "norm_on_the_shortcut",
            with_step(forward=norm_on_the_shortcut),
            both(
                "You add the sublayer's result to the normalised input. The shortcut carries x itself, as it came in.",
                "你把子層的結果加到正規化之後的輸入上。捷徑傳的是 x 本身，進來什麼樣就什麼樣。",
            ),
        ),
        Mistake(
            "no_residual",
            with_step(forward=no_residual),
            both(
                "Nothing is added back: both shortcuts are missing.",
                "什麼都沒有加回去：兩條捷徑都不見了。",
            ),
        ),
        Mistake(
            "first_residual_missing",
            with_step(forward=first_residual_missing),
            both(
                "The first shortcut is missing: x is not added to what attention found.",
                "少了第一條捷徑：注意力的結果沒有加上 x。",
            ),
        ),
        Mistake(
            "second_residual_missing",
            with_step(forward=second_residual_missing),
            both(
                "The second shortcut is missing: the sum after attention is not added to what the network gives.",
                "少了第二條捷徑：前饋網路的結果沒有加上注意力之後的和。",
            ),
        ),
        Mistake(
            "one_residual",
            with_step(forward=one_residual),
            both(
                "The second shortcut starts from the block's input, so what attention found is read by the network but not passed on. "
                "It starts from the sum after attention.",
                "第二條捷徑從整個區塊的輸入出發，注意力找到的東西網路讀得到，卻沒有往下傳。它應該從注意力之後的和出發。",
            ),
        ),
        Mistake(
            "side_by_side",
            with_step(forward=side_by_side),
            both(
                "Your network reads the block's input beside the attention (some models do that). In Llama it reads the sum after "
                "attention.",
                "你的前饋網路和注意力並排，讀的都是區塊的輸入（有些模型這麼做）。Llama 的網路讀的是注意力之後的和。",
            ),
        ),
        Mistake(
            "network_first",
            with_step(forward=network_first),
            both(
                "Your network comes before the attention. First the tokens look at each other, then each one thinks.",
                "你的前饋網路排在注意力前面。先讓詞元互相看，再各自運算。",
            ),
        ),
        Mistake(
            "one_norm_for_both",
            with_step(forward=one_norm),
            both(
                "Both sublayers read through norm1. The second has gains of its own.",
                "兩個子層都用 norm1。第二個有自己的增益。",
            ),
        ),
        Mistake(
            "first_norm_missing",
            with_step(forward=first_norm_missing),
            both(
                "Your attention reads x as it is. norm1 stands in front of it.",
                "你的注意力直接讀 x。它前面要先經過 norm1。",
            ),
        ),
        Mistake(
            "second_norm_missing",
            with_step(forward=second_norm_missing),
            both(
                "Your network reads the sum as it is. norm2 stands in front of it.",
                "你的前饋網路直接讀相加的結果。它前面要先經過 norm2。",
            ),
        ),
        Mistake(
            "layer_norm",
            with_step(norm=layer_normed),
            both(
                "Your norm subtracts the mean: that is LayerNorm. RMSNorm only divides.",
                "你的正規化減掉了平均，那是 LayerNorm。RMSNorm 只做除法。",
            ),
        ),
        Mistake(
            "norm_of_length",
            with_step(norm=norm_of_length),
            both(
                "You divide by the length of the vector, the root of the sum of squares. RMS is the root of their mean.",
                "你除的是向量的長度，也就是平方和的根號。RMS 是平方的「平均」再開根號。",
            ),
        ),
        Mistake(
            "gain_ignored",
            with_step(norm=lambda self, x, gain: Stepwise.norm(self, x, torch.ones_like(gain))),
            both(
                "The gains norm1.weight and norm2.weight are not used. Each column is multiplied by its own.",
                "norm1.weight 和 norm2.weight 沒有用到。每一行要乘上自己的增益。",
            ),
        ),
        Mistake(
            "eps_outside",
            with_step(norm=norm_with_eps_outside),
            both(
                "ε stands outside the root in your norm. It is added to the mean square, under the root.",
                "你的正規化把 ε 放在根號外面。它要加在平方平均上，放進根號裡。",
            ),
        ),
        Mistake(
            "eps_fixed",
            with_step(norm=norm_with_fixed_eps),
            both(
                "Your norm always takes ε = 1e-5, whatever eps is given.",
                "不管給的 eps 是多少，你的正規化都用 1e-5。",
            ),
        ),
        Mistake(
            "eps_of_torch",
            with_step(norm=norm_with_torch_eps),
            both(
                "eps never reaches your norm: without it torch's RMSNorm takes the smallest step of the dtype.",
                "eps 沒有傳到你的正規化：沒給的話，torch 的 RMSNorm 會用該 dtype 的最小間距。",
            ),
        ),
        Mistake(
            "interleaved_rope",
            with_step(pair=neighbours, join=interleaved),
            both(
                "You turn neighbouring coordinates. In this layout coordinate i is turned together with coordinate i + d_k/2.",
                "你轉的是相鄰的座標。在這種排法裡，第 i 個座標是和第 i + d_k/2 個一起轉的。",
            ),
        ),
        Mistake(
            "values_turned",
            with_step(turn_all=lambda self, q, k, v: (self.turn(q), self.turn(k), self.turn(v))),
            both(
                "You turn the values too. Positions belong into the scores; what is handed over stays as it is.",
                "你把值也轉了。位置只影響分數；交出去的內容要保持原樣。",
            ),
        ),
        Mistake(
            "keys_not_turned",
            with_step(turn_all=lambda self, q, k, v: (self.turn(q), k, v)),
            both(
                "Only the queries are turned. Scores depend on the distance alone if both are.",
                "只有查詢轉了。兩邊都轉，分數才會只跟距離有關。",
            ),
        ),
        Mistake(
            "no_positions",
            with_step(turn_all=lambda self, q, k, v: (q, k, v)),
            both(
                "Nothing is turned: your block does not know where its tokens stand.",
                "什麼都沒轉：你的區塊不知道詞元站在哪裡。",
            ),
        ),
        Mistake(
            "turned_backwards",
            with_step(angles=lambda self, n, x: -Stepwise.angles(self, n, x)),
            both(
                "Your scores are those of turning the other way round, as if every angle were negative. Look at the signs of the "
                "two sine terms, and at which of the two tables is the cosine.",
                "你的分數等於往反方向轉的結果，好像每個角度都是負的。看看兩個正弦項的正負號，還有哪一張表才是餘弦。",
            ),
        ),
        Mistake(
            "exponent_doubled",
            with_step(angles=angles_with(lambda self, i: -4 * i / self.d_k)),
            both(
                "Your frequencies fall too fast: the exponent is −2i / d_k with i counting the pairs and d_k the whole width of a "
                "head, not half of it.",
                "你的頻率降得太快：指數是 −2i / d_k，i 數的是第幾對，d_k 是一個頭的全寬，不是一半。",
            ),
        ),
        Mistake(
            "exponent_halved",
            with_step(angles=angles_with(lambda self, i: -i / self.d_k)),
            both(
                "Your frequencies fall too slowly: the exponent is −2i / d_k with i counting the pairs.",
                "你的頻率降得太慢：指數是 −2i / d_k，i 數的是第幾對。",
            ),
        ),
        Mistake(
            "frequencies_of_the_model",
            with_step(angles=angles_with(lambda self, i: -2 * i / (self.d_k * self.h))),
            both(
                "Your frequencies are spread over d_model. Every head has its own set of frequencies, spread over d_k.",
                "你的頻率是照 d_model 分配的。每個頭有自己的一組頻率，照 d_k 分配。",
            ),
        ),
        Mistake(
            "one_frequency",
            with_step(angles=one_angle),
            both(
                "All your pairs turn at the same speed. Each has a frequency of its own.",
                "你的每一對都轉得一樣快。每一對要有自己的頻率。",
            ),
        ),
        Mistake(
            "base_ignored",
            with_step(angles=angles_of_fixed_base),
            both(
                "Your frequencies always have base 10,000, whatever rope_base is given.",
                "不管給的 rope_base 是多少，你的頻率都用 10000 當底。",
            ),
        ),
        Mistake(
            "positions_of_heads",
            with_step(turn=positions_of_heads),
            both(
                "Each head is turned by its own number instead of each token by its position. Positions run along the axis in "
                "front of the columns.",
                "你照頭的編號來轉，而不是照詞元的位置。位置要沿著詞元的軸數（倒數第二個軸），不是頭的軸。",
            ),
        ),
        Mistake(
            "repeat_for_interleave",
            with_step(share=lambda self, x: x.repeat(1, self.h // self.h_kv, 1, 1)),
            both(
                "You repeat the whole row of key/value heads: 0, 1, 0, 1. Heads of one group stand side by side: 0, 0, 1, 1.",
                "你把整排鍵與值的頭重複了：0、1、0、1。同一組的頭是相鄰的：0、0、1、1。",
            ),
        ),
        Mistake(
            "view_without_transpose",
            with_step(split=lambda self, x: x.reshape(x.shape[0], -1, x.shape[1], self.d_k)),
            both(
                "The heads are split by reshaping alone: the shapes fit, but each head gets whole rows of a few tokens. The axes of "
                "tokens and heads have to change places.",
                "你只用 reshape 切頭：形狀對得上，但每個頭拿到的是少數詞元的整列。詞元的軸和頭的軸要交換。",
            ),
        ),
        Mistake(
            "merge_without_transpose",
            with_step(merge=lambda self, heads: heads.reshape(heads.shape[0], heads.shape[2], -1)),
            both(
                "The heads are put together by reshaping alone, which mixes up the tokens. The axes have to change back first.",
                "你只用 reshape 併頭，把詞元弄混了。要先把軸換回來。",
            ),
        ),
        Mistake(
            "output_projection_missing",
            with_step(mix=lambda self, merged: merged),
            both(
                "w_o is not used: nothing mixes the heads before they are added to x.",
                "沒有用到 w_o：頭還沒混合就加到 x 上了。",
            ),
        ),
        Mistake(
            "scale_missing",
            with_step(scale=lambda self: 1.0),
            both(
                "Your scores are not scaled: the root of lesson 03 is missing.",
                "你的分數沒有縮放：少了第 03 課的根號。",
            ),
        ),
        Mistake(
            "scale_d_model",
            with_step(scale=lambda self: 1 / math.sqrt(self.h * self.d_k)),
            both(
                "You scale by the width of the whole model. A score is an inner product inside one head.",
                "你用整個模型的寬度來縮放。分數是在一個頭裡面做的內積。",
            ),
        ),
        Mistake(
            "no_causal",
            with_step(visible=lambda self, n: torch.ones(n, n, dtype=torch.bool)),
            both(
                "Your tokens see the future. A Llama reads from the left: hide what comes later.",
                "你的詞元看得到未來。Llama 從左往右讀，後面的要遮住。",
            ),
        ),
        Mistake(
            "excludes_self",
            with_step(visible=lambda self, n: torch.ones(n, n, dtype=torch.bool).tril(-1)),
            both(
                "Your tokens do not see themselves, so the first one sees nothing and becomes NaN. Only what comes later is hidden.",
                "你的詞元看不到自己，第一個就什麼都看不到，變成 NaN。要遮的只有後面的。",
            ),
        ),
        Mistake(
            "mask_upside_down",
            with_step(visible=lambda self, n: torch.ones(n, n, dtype=torch.bool).triu()),
            both(
                "Your mask is upside down: tokens see the future and not the past.",
                "你的遮罩上下顛倒：詞元看得到未來，看不到過去。",
            ),
        ),
        Mistake(
            "softmax_over_queries",
            with_step(
                weigh=lambda self, scores: torch.softmax(
                    scores.masked_fill(~self.visible(scores.shape[-1]), -math.inf), dim=-2
                )
            ),
            both(
                "Your columns sum to 1 instead of your rows: the softmax runs over the queries instead of the keys.",
                "加起來是 1 的是行（column），不是列（row）：softmax 沿著查詢做了，應該沿著鍵。",
            ),
        ),
        Mistake(
            "gate_up_swapped",
            with_step(gated=lambda self, gate, up: gate * F.silu(up)),
            both(
                "SiLU is applied to up. It belongs to the gate: SiLU(gate) ⊙ up.",
                "SiLU 用在 up 上了。它是閘門的：SiLU(gate) ⊙ up。",
            ),
        ),
        Mistake(
            "silu_of_the_product",
            with_step(gated=lambda self, gate, up: F.silu(gate * up)),
            both(
                "SiLU is applied to the product. Only the gate passes through it.",
                "SiLU 用在乘積上了。只有閘門要經過它。",
            ),
        ),
        Mistake(
            "no_silu",
            with_step(gated=lambda self, gate, up: gate * up),
            both(
                "Your gate is a plain product: SiLU is missing.",
                "你的閘門只是相乘：少了 SiLU。",
            ),
        ),
        Mistake(
            "sigmoid_for_silu",
            with_step(gated=lambda self, gate, up: torch.sigmoid(gate) * up),
            both(
                "Your gate is a sigmoid. SiLU(x) is x times that.",
                "你的閘門是 sigmoid。SiLU(x) 還要再乘上 x。",
            ),
        ),
        Mistake(
            "gelu_for_silu",
            with_step(gated=lambda self, gate, up: F.gelu(gate) * up),
            both(
                "Your gate is GELU (some models have that). Llama's is SiLU.",
                "你的閘門用 GELU（有些模型是這樣）。Llama 用的是 SiLU。",
            ),
        ),
        Mistake(
            "relu_for_silu",
            with_step(gated=lambda self, gate, up: F.relu(gate) * up),
            both(
                "Your gate is ReLU. Llama's is SiLU.",
                "你的閘門用 ReLU。Llama 用的是 SiLU。",
            ),
        ),
        Mistake(
            "network_without_up",
            with_step(gated=lambda self, gate, up: F.silu(gate)),
            both(
                "w_up is not used. The network has two ways in, which are multiplied.",
                "沒有用到 w_up。這個網路有兩個入口，要相乘。",
            ),
        ),
        Mistake(
            "network_without_gate",
            with_step(gated=lambda self, gate, up: F.silu(up)),
            both(
                "w_gate is not used. The network has two ways in, which are multiplied.",
                "沒有用到 w_gate。這個網路有兩個入口，要相乘。",
            ),
        ),
    ],
    hints=[
        both(
            "Two lines of forward, each x plus something of norm(x). Write attention and network as methods of their own and test "
            "them one by one on small tensors.",
            "forward 只有兩行，每行都是 x 加上某個 norm(x) 的函數。把注意力和前饋網路寫成各自的方法，用小張量分開測試。",
        ),
        both(
            "Order inside attention: project, split into heads, turn queries and keys, share key/value heads among groups, score, "
            "hide the future, weigh, merge, project. The values are not turned.",
            "注意力裡的順序：投影、切頭、轉查詢與鍵、把鍵與值的頭分給各組、算分數、遮住未來、加權、併頭、投影。值不用轉。",
        ),
        both(
            "For the turning make angles of shape [N, d_k/2] (positions down, pairs across) in the dtype of x, and cut the last axis "
            "of a head into its two halves.",
            "旋轉時，用 x 的 dtype 做出形狀 [N, d_k/2] 的角度（往下是位置，往右是第幾對），並把頭的最後一個軸切成前後兩半。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------------- question

question(
    name="11_q1",
    lesson=LESSON,
    right="c",
    wrong=[
        Mistake(
            "bert_and_gpt_swapped",
            "a",
            both(
                "A model that sees both sides while it trains has seen the word that it is to continue with; and a causal token knows "
                "nothing of what follows it. These two masks have changed places.",
                "訓練時兩邊都看得到的模型，早就看過要接的那個詞了；而因果遮罩下的詞元，不知道後面是什麼。這兩種遮罩對調了。",
            ),
        ),
        Mistake(
            "t5_swapped_with_gpt",
            "b",
            both(
                "A causal source is possible, but then its first word is read without knowing the rest; and a text without a source has "
                "nothing for an encoder to read. These two have changed places.",
                "來源也可以用因果遮罩，但開頭的詞就只能在不知道後文的情況下讀；而沒有來源的文字，編碼器無從讀起。這兩個對調了。",
            ),
        ),
        Mistake(
            "t5_swapped_with_bert",
            "d",
            both(
                "If a target may look at all of itself, it copies in training what it ought to guess, and has learned nothing when it "
                "must write. And a search vector needs no target at all.",
                "目標如果看得到整個自己，訓練時就只是在抄本來該猜的東西，真的要寫時什麼都沒學到。而搜尋用的向量根本不需要目標。",
            ),
        ),
    ],
    hints=[
        both(
            "Ask two things of each job: is there a text that is complete before anything is written? And what must a position not see "
            "because it is to be guessed?",
            "每種工作問兩件事：有沒有一段文字在開始寫之前就已經完整？哪些東西因為要猜，所以位置不能看到？",
        ),
    ],
)
