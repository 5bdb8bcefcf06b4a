# %% [markdown] lang="en"
# # 07 · Masks and cross-attention
#
# Attention lets everybody read everybody. Sometimes that is wrong: a model that learns to write must not read the word it is about to guess, and nobody should read padding, the filler that makes short sentences as long as the longest. And sometimes the reader and the text are two different things: a translator reads the source while writing the target.
#
# **You will** write the masks, a softmax that keeps them in every precision, a *leak detector* that finds a misprint in a published article, cross-attention, and the decoder layer of 2017.
#
# **You need** lessons 02 to 04, and 06 for the decoder layer. **Time**: about two and a half hours, 97 minutes of them for the exercises and questions.
#
# We test what some articles and lecture notes say; "the article" is one that prints the causal mask as a formula.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `causal_mask` | 1 | 8 | 1 |
# | `padding_mask` | 1 | 6 | 1 |
# | `masked_softmax` | 3 | 18 | 3 |
# | `masked_attention` | 3 | 18 | 3 |
# | `find_the_leak` | 3 | 18 | 2 |
# | `cross_attention` | 2 | 10 | 2 |
# | `decoder_layer` | 3 | 15 | 4 |
# | question `07_q1` | | 2 | 1 |
# | question `07_q2` | | 2 | 1 |
# %% [markdown] lang="zh-TW"
# # 07 · 遮罩與交叉注意力
#
# 注意力讓大家互相看。有時候這樣不行：學寫作的模型不能先看到它要猜的字；用來把短句補齊的填補（padding），也不該有人讀。有時候讀的人和被讀的文章根本是兩回事：翻譯時，一邊寫譯文，一邊讀原文。
#
# **這一課**你會寫出各種遮罩、在每種精度都守得住遮罩的 softmax、一個找得出文章印錯公式的**洩漏偵測器**、交叉注意力，還有 2017 年的解碼器層。
#
# **先備知識**：第 02 到 04 課；解碼器層還要用到第 06 課。**時間**：約兩個半小時，其中練習和選擇題 97 分鐘。
#
# 本課常提到的「講義」和「文件」是網路上常見的教材，「那篇文章」則是把因果遮罩印成公式的一篇；我們逐一檢驗它們的說法。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `causal_mask` | 1 | 8 | 1 |
# | `padding_mask` | 1 | 6 | 1 |
# | `masked_softmax` | 3 | 18 | 3 |
# | `masked_attention` | 3 | 18 | 3 |
# | `find_the_leak` | 3 | 18 | 2 |
# | `cross_attention` | 2 | 10 | 2 |
# | `decoder_layer` | 3 | 15 | 4 |
# | 選擇題 `07_q1` | | 2 | 1 |
# | 選擇題 `07_q2` | | 2 | 1 |
# %% tags=["setup"]
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Lesson 04's: Concat(head_1 … head_h) W_O, with x @ W and no bias. A query that sees nothing gets zeros."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_model, d_model))) for _ in range(4)
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (
            (x @ W).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # [B, h, N, d_head]
            for x, W in ((query, self.W_Q), (key, self.W_K), (value, self.W_V))
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).masked_fill(~mask, 0.0)
        return (weights @ v).transpose(1, 2).flatten(2) @ self.W_O, weights


# %% [markdown] lang="en"
# ## 1. The question
#
# A decoder writes one word after another. In training the whole sentence is already there, and all positions are computed at once. So position 3 *could* read word 4, the very word that it is asked to guess.
#
# What must each position be allowed to see, and how do we make sure that it sees nothing else?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 解碼器一個字接一個字地寫。可是訓練時整句話早就在那裡，所有位置同時計算，所以第 3 個位置**可以**看到第 4 個字，也就是它要猜的那個字。
#
# 每個位置該看得到什麼？又要怎麼確定，除此之外它什麼都看不到？
# %% [markdown] lang="en"
# ## 2. The picture
#
# A mask is a Boolean matrix: queries down, keys across, and dark (1) where a query may look. The encoder of 2017 hides nothing but padding. The decoder's first attention hides the future. Its second one reads the encoder's output, which has a length of its own, and hides that side's padding.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像
#
# 遮罩是一個布林矩陣：往下是查詢（query），往右是鍵（key），深色（1）的地方可以看。2017 年的編碼器只遮填補；解碼器的第一個注意力遮住未來；第二個讀的是編碼器的輸出，它有自己的長度，遮的是那一邊的填補。
# %%
import matplotlib.pyplot as plt

from course_lib import plots

torch.set_num_threads(1)  # matrices this small gain nothing from several threads that wait for each other

source, target = ["the", "cat", "sat", "(pad)"], ["start", "le", "chat", "est", "assis"]
real = torch.tensor([True, True, True, False])  # one entry a token of the source
kinds = {
    "encoder": (real.expand(4, 4), source, source),
    "decoder: masked": (torch.ones(5, 5, dtype=torch.bool).tril(), target, target),
    "decoder: cross": (real.expand(5, 4), target, source),
}
plots.use_style()
_, panels = plt.subplots(1, 3, figsize=(6.4, 2.6), width_ratios=(4, 5, 4))
for ax, (title, (mask, rows, columns)) in zip(panels, kinds.items()):
    plots.heat_map(mask, rows, columns, title, ax=ax, values=False)
    ax.tick_params(axis="x", rotation=60)
    ax.set(xlabel="key", ylabel="query" if title == "encoder" else "")
# %% [markdown] lang="en"
# ## 3. The formula
#
# With scores $s_{ij}$ of query $i$ and key $j$, and a mask $m_{ij}$ that is 1 where $i$ may see $j$ and 0 elsewhere:
#
# $$A_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_{l} m_{il}\,e^{s_{il}}}$$
#
# - Hidden keys weigh exactly 0, and the visible ones still share out 1.
# - If row $i$ sees nothing at all, the fraction is 0/0. We *define* the row as zeros: nothing was read.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# 設 $s_{ij}$ 是第 $i$ 個查詢對第 $j$ 個鍵的分數；遮罩 $m_{ij}$ 在 $i$ 看得到 $j$ 時是 1，否則是 0：
#
# $$A_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_{l} m_{il}\,e^{s_{il}}}$$
#
# - 遮住的鍵權重恰為 0，看得到的仍然分完那個 1。
# - 如果第 $i$ 列（row）什麼都看不到，分式是 0/0。我們**規定**這一列是 0：什麼都沒讀到。
# %% [markdown] lang="en"
# Since $e^{-\infty} = 0$, the same thing is written with an added matrix $M$ that is 0 where $m = 1$ and $-\infty$ where $m = 0$: $A = \mathrm{softmax}(S + M)$, where $S$ holds the scores, one row a query and one column a key, like the mask. Papers print this form; programs keep the Boolean one.
#
# **Who says True?** In this course, and in `F.scaled_dot_product_attention`, True means *may attend*. In `nn.MultiheadAttention` it means *hide*. The articles' code hides where the mask is 0. Always ask before you pass a mask on.
# %% [markdown] lang="zh-TW"
# 因為 $e^{-\infty} = 0$，同一件事也可以寫成加上矩陣 $M$：$m = 1$ 的地方是 0，$m = 0$ 的地方是 $-\infty$，於是 $A = \mathrm{softmax}(S + M)$；$S$ 是分數，和遮罩一樣，一列一個查詢、一行（column）一個鍵。論文印這個寫法，程式則用布林遮罩。
#
# **True 是什麼意思？** 在這門課和 `F.scaled_dot_product_attention`，True 代表**可以看**；在 `nn.MultiheadAttention`，True 代表**遮住**；那些文章的程式則是遮住 0 的地方。傳遮罩給別人之前，一定要先問清楚。
# %% [markdown] lang="en"
# ## 4. By hand: the article's table, made causal
#
# Lesson 02 met a printed table of weights for "The cat sat on the mat". It is told as the story of a model that guesses the next word. Such a model would have to be causal. Hiding a key and sharing out the rest is the same as dividing the remaining weights by their sum:
#
# - "The" sees only itself: $0.1/0.1$, so its row is $(1, 0, 0, 0, 0, 0)$.
# - "sat" sees $0.0,\ 0.5,\ 0.2$, sum $0.7$: its row is $(0,\ 0.71,\ 0.29,\ 0, 0, 0)$.
# %% [markdown] lang="zh-TW"
# ## 4. 用手算：把文章的表變成因果的
#
# 第 02 課看過「The cat sat on the mat」的注意力權重表，文章說那是一個猜下一個字的模型。這種模型非得是因果的不可。遮住一些鍵、再把剩下的重新分配，就等於把剩下的權重除以它們的和：
#
# - 「The」只看得到自己：$0.1/0.1$，所以這一列是 $(1, 0, 0, 0, 0, 0)$。
# - 「sat」看得到 $0.0,\ 0.5,\ 0.2$，和是 $0.7$，這一列就是 $(0,\ 0.71,\ 0.29,\ 0, 0, 0)$。
# %%
words = ["The", "cat", "sat", "on", "the", "mat"]
printed = torch.tensor(
    [
        [0.1, 0.2, 0.1, 0.1, 0.3, 0.2],
        [0.1, 0.3, 0.2, 0.0, 0.1, 0.3],
        [0.0, 0.5, 0.2, 0.1, 0.0, 0.2],
        [0.1, 0.1, 0.2, 0.1, 0.1, 0.4],
        [0.2, 0.1, 0.1, 0.1, 0.2, 0.3],
        [0.1, 0.1, 0.1, 0.3, 0.2, 0.2],
    ]
)
past = printed.tril()
print(f"weight above the diagonal: {printed.triu(1).sum():.1f} of {printed.sum():.1f}")
ax = plots.heat_map(past / past.sum(dim=-1, keepdim=True), words, words, "the printed table, made causal")


# %% [markdown] lang="en"
# 2.6 of the table's 6.0 units look ahead, so it can only be an encoder's. Made causal, the first row has no choice left, and the last does not change at all.
# %% [markdown] lang="zh-TW"
# 整張表的 6.0 單位權重裡，有 2.6 在看後面的字，所以它只可能是編碼器的表。變成因果的之後，第一列毫無選擇，最後一列則完全不變。
# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - Type, shape, dtype and device of the result, then its values. float64 in means float64 precision out; float16 and bfloat16 keep their dtype and are judged by their error: at most twice that of the plain formula (best compute in float32 and convert back).
# - Arguments come back unchanged; they may be non-contiguous, and be passed by position or by name.
# - Any size may be 1, and its axis stays.
# - Best not to call your other answers: if one is wrong, both lose points.
# - Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `nn.Transformer` and its layers, `course_lib`. `torch.softmax` is fine.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看結果的型別、形狀、dtype、裝置，再看數值。輸入是 float64，結果就要有 float64 的精度；float16 與 bfloat16 要保持 dtype，檢查只看誤差：最多是直接套公式的兩倍（建議用 float32 計算再轉回去）。
# - 引數不可被改動；它們在記憶體中不一定連續，可能按位置或按名稱給。
# - 任何大小都可能是 1，那個軸也要留著。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。
# - 不可使用：`F.scaled_dot_product_attention`、`nn.MultiheadAttention`、`nn.Transformer` 及它的各種層、`course_lib`。可以用 `torch.softmax`。
# %% [markdown] lang="en"
# ### Exercise `causal_mask` · difficulty 1 of 5 · 8 minutes · 1 point
#
# **Small first.** Four positions: position 0 sees key 0; position 1 sees keys 0, 1; position 3 sees all four. A lower triangle, with its diagonal.
#
# **In general** there are $N$ queries and $M$ keys, and there may be more keys than queries: when a model writes, the keys of earlier words are kept (lesson 10) and the queries are the *last* $N$ positions. So query $i$ stands at key position $i + M - N$ and sees all keys up to and including that one. With 2 queries and 4 keys: $(1,1,1,0)$ and $(1,1,1,1)$. With $N > M$ the first $N - M$ rows see nothing.
# %% [markdown] lang="zh-TW"
# ### 練習 `causal_mask` · 難度 1／5 · 8 分鐘 · 滿分 1 分
#
# **先看小例子**：四個位置。位置 0 看得到鍵 0；位置 1 看得到鍵 0、1；位置 3 四個都看得到。這是包含對角線的下三角。
#
# **一般情形**有 $N$ 個查詢、$M$ 個鍵，鍵可以比查詢多：模型在寫的時候，前面的鍵會留著（第 10 課），查詢是**最後** $N$ 個位置。所以第 $i$ 個查詢站在鍵的位置 $i + M - N$，看得到這個位置和它之前的所有鍵。2 個查詢、4 個鍵就是 $(1,1,1,0)$ 和 $(1,1,1,1)$。$N > M$ 時，最前面的 $N - M$ 列什麼都看不到。
# %% exercise="causal_mask"
def causal_mask(n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Which keys each query may see when nobody may look ahead.

    Args:
        n_queries: N, at least 1.
        n_keys: M, at least 1; None means N.
        device: where the mask is made (hand it to torch's function).

    Returns:
        A Boolean tensor [N, M], True = may attend. Query i stands at key position i + M - N and sees the keys up to and
        including it (aligned at the bottom right). With N > M the first N - M rows are all False.

    Judged: N = M, N < M, N > M, one query, one key; n_keys and device by name.
    """
    ### BEGIN SOLUTION
    n_keys = n_queries if n_keys is None else n_keys
    everything = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return everything.tril(diagonal=n_keys - n_queries)
    ### END SOLUTION


# %%
check("causal_mask", causal_mask)
# %% [markdown] lang="en"
# ### PyTorch's corner
#
# `F.scaled_dot_product_attention` has a switch `is_causal`, and it aligns at the *top left*. For one new query against four kept keys, that query counts as position 0. What does it see?
# %% [markdown] lang="zh-TW"
# ### PyTorch 對齊的角落
#
# `F.scaled_dot_product_attention` 有個開關 `is_causal`，它對齊的是**左上角**。一個新的查詢碰上四個留著的鍵時，這個查詢會被當成位置 0。它看得到什麼？
# %%
mask_for = use("causal_mask", causal_mask)

generator = torch.Generator().manual_seed(7)
q = torch.randn(1, 1, 1, 8, generator=generator)  # one new query ...
k, v = torch.randn(2, 1, 1, 4, 8, generator=generator)  # ... four keys and values
switched = F.scaled_dot_product_attention(q, k, v, is_causal=True)
masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_for(1, 4))
print("is_causal=True returns the first value:", torch.equal(switched[0, 0, 0], v[0, 0, 0]))
unmasked = F.scaled_dot_product_attention(q, k, v)
print(f"your mask against no mask at all: largest difference {(masked - unmasked).abs().max():.1e}")


# %% [markdown] lang="en"
# It sees the first key only. With your mask the last query sees everything, which is the same as no mask: the future that training has to hide does not exist yet when a model writes.
# %% [markdown] lang="zh-TW"
# 它只看得到第一個鍵。用你的遮罩，最後一個查詢全部看得到，等於沒有遮罩：訓練時要遮住的未來，在真正寫作時根本還不存在。
# %% [markdown] lang="en"
# ### Exercise `padding_mask` · difficulty 1 of 5 · 6 minutes · 1 point
#
# Sentences of one batch have different lengths; a special token fills the short ones up. **Small first**: tokens $(7, 5, 0)$ with `pad_id` 0 give $(1, 1, 0)$.
#
# **In general** the mask is $[B, 1, 1, M]$: the two axes of size 1 broadcast over heads and over *queries*, so the last axis hides *keys*. $[B, 1, M, 1]$ would hide queries instead. Padding may stand anywhere, `pad_id` may be any id ≥ 0, and a sentence may be all padding.
# %% [markdown] lang="zh-TW"
# ### 練習 `padding_mask` · 難度 1／5 · 6 分鐘 · 滿分 1 分
#
# 同一批次的句子長短不一，短的用特殊詞元（token）填滿。**先看小例子**：詞元是 $(7, 5, 0)$，`pad_id` 是 0，遮罩就是 $(1, 1, 0)$。
#
# **一般情形**，遮罩的形狀是 $[B, 1, 1, M]$：兩個大小為 1 的軸會廣播（broadcasting）到頭和**查詢**，最後一軸遮的是**鍵**；寫成 $[B, 1, M, 1]$ 就變成遮查詢了。填補可能在任何位置，`pad_id` 可能是任何 ≥ 0 的數，也可能整句都是填補。
# %% exercise="padding_mask"
def padding_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    """Which keys are real tokens.

    Args:
        tokens: token ids, LongTensor [B, M], contiguous or not.
        pad_id: the id of the padding token. Where it is not 0, token 0 is a real one.

    Returns:
        A Boolean tensor [B, 1, 1, M], True = may attend: the token is not pad_id, wherever it stands.

    Judged: padding on the right, on the left, inside; a row of padding alone, a row without any; other pad ids.
    """
    ### BEGIN SOLUTION
    return (tokens != pad_id)[:, None, None, :]
    ### END SOLUTION


# %%
check("padding_mask", padding_mask)
# %% [markdown] lang="en"
# ### On a real model: what padding does to a sentence
#
# MiniLM turns a sentence into vectors. We give it one sentence alone, then the same with twelve padding tokens behind it: with your mask, with the wrong shape $[B, 1, M, 1]$, and without any. Do the vectors of the real tokens change?
# %% [markdown] lang="zh-TW"
# ### 在真的模型上：填補會怎麼影響句子
#
# MiniLM 把句子變成向量。先單獨給它一句話，再給同一句話加上十二個填補詞元：用你的遮罩、用形狀錯誤的 $[B, 1, M, 1]$、完全不用遮罩。真正詞元的向量會變嗎？
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, load_minilm

real_tokens = use("padding_mask", padding_mask)
try:
    tokenizer, minilm = load_minilm()
except CheckpointMissing as missing:
    print(missing)
else:
    ids = torch.tensor([tokenizer.encode("The cat sat on the mat because it was tired.").ids])
    padded = F.pad(ids, (0, 12))  # MiniLM's padding token has id 0
    keys_only = real_tokens(padded)
    with torch.no_grad():
        alone = minilm(ids)[0][0]
        for name, mask in (
            ("[B, 1, 1, M]", keys_only),
            ("[B, 1, M, 1]", keys_only.transpose(-2, -1)),
            ("no mask", None),
        ):
            states = minilm(padded, mask)[0][0, : len(alone)]
            cosine = torch.cosine_similarity(states, alone, dim=-1).min()
            print(f"{name:<13} largest change {(states - alone).abs().max():.1e}, least cosine {cosine:.3f}")


# %% [markdown] lang="en"
# With $[B, 1, 1, M]$ the padding is not there at all. With $[B, 1, M, 1]$ the result is no better than without a mask: every real query still reads the padding.
# %% [markdown] lang="zh-TW"
# 用 $[B, 1, 1, M]$，填補等於不存在。用 $[B, 1, M, 1]$，結果和沒有遮罩一樣糟：真正的查詢照樣讀到填補。
# %% [markdown] lang="en"
# ### Turn the knob: both masks together
#
# A decoder's own text may be padded as well. Then a key is visible if *both* masks allow it: $m = m_{\text{causal}} \wedge m_{\text{padding}}$. Set the number of queries, of keys, and of padding tokens in front. Some rows become empty; the next exercise must deal with them.
# %% [markdown] lang="zh-TW"
# ### 轉轉看：兩種遮罩一起用
#
# 解碼器自己的文字也可能有填補。這時要**兩個**遮罩都允許，鍵才看得到：$m = m_{\text{causal}} \wedge m_{\text{padding}}$。調調看查詢、鍵和前面填補的個數；有些列會變成全空，下一個練習就得處理它們。
# %%
def draw_masks(queries, keys, padding):
    tokens = torch.ones(1, keys, dtype=torch.long)
    tokens[:, :padding] = 0
    visible = (mask_for(queries, keys) & real_tokens(tokens))[0, 0]
    empty = int((~visible.any(dim=-1)).sum())
    ax = plots.heat_map(visible.int(), title=f"1 = may attend; empty rows: {empty}")
    ax.set(xlabel="key", ylabel="query")


plots.knob(draw_masks, queries=(1, 8, 1, 5), keys=(1, 8, 1, 5), padding=(0, 5, 1, 2))


# %% [markdown] lang="en"
# ### Exercise `masked_softmax` · difficulty 3 of 5 · 18 minutes · 3 points
#
# **Small first.** Scores $(2, 0, 1)$, the third hidden: $e^2 = 7.39$ and $e^0 = 1$ share out 1, so the weights are $(0.881,\ 0.119,\ 0)$. All three hidden: $(0, 0, 0)$.
#
# **In general**: the formula above, along the last axis, for scores $[\dots, N, M]$ and any Boolean mask that broadcasts to them. Three things to watch:
#
# - Hidden weights are exactly 0, and an empty row is all 0: not NaN, not an average.
# - Scores may be large (up to about 10⁴ in float64, 120 in float32), the hidden ones too.
# - Gradients are compared. They are finite everywhere, and 0 for hidden scores and empty rows.
# %% [markdown] lang="zh-TW"
# ### 練習 `masked_softmax` · 難度 3／5 · 18 分鐘 · 滿分 3 分
#
# **先看小例子**：分數 $(2, 0, 1)$，遮住第三個。$e^2 = 7.39$ 和 $e^0 = 1$ 分掉那個 1，權重是 $(0.881,\ 0.119,\ 0)$。三個都遮住，就是 $(0, 0, 0)$。
#
# **一般情形**：沿最後一軸套用上面的公式；分數是 $[\dots, N, M]$，遮罩是任何能廣播成這個形狀的布林張量。有三件事要注意：
#
# - 遮住的權重恰為 0；空的列全部是 0，不是 NaN，也不是平均。
# - 分數可能很大（float64 到 10⁴ 左右，float32 到 120），遮住的也是。
# - 會比較梯度：處處是有限值，遮住的分數和空的列梯度是 0。
# %% exercise="masked_softmax"
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis among the visible entries.

    Args:
        scores: [..., N, M], float32, float64, float16 or bfloat16, contiguous or not; visible and hidden ones up to
            ±1e4 in float64 and ±120 in float32.
        mask: Boolean, broadcasts to the scores ([N, M] or [B, 1, 1, M], for example). True = may attend.

    Returns:
        The weights, [..., N, M], in the dtype of the scores. Hidden entries weigh exactly 0, the visible ones of a row
        sum to 1 (equal scores share evenly); a row with nothing visible is all 0.

    Differentiable: gradients are compared; finite everywhere, also with empty rows. All sizes may be 1, and float16 has
    empty rows too.
    """
    ### BEGIN SOLUTION
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    hidden = wide.masked_fill(~mask, -math.inf)
    # A row of nothing but -inf would be NaN: give it harmless scores, and take its weights away afterwards.
    hidden = hidden.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return torch.softmax(hidden, dim=-1).masked_fill(~mask, 0.0).to(scores.dtype)
    ### END SOLUTION


# %%
check("masked_softmax", masked_softmax)
# %% [markdown] lang="en"
# ### −1e9, precision by precision
#
# The articles hide with −1e9. One row below sees three of four keys, the other none. We *fill* with −1e9, *add* −1e9, fill with −∞, and take yours, in four precisions. Guess where each of them breaks.
# %% [markdown] lang="zh-TW"
# ### −1e9，一種精度一種精度看
#
# 那些文章用 −1e9 來遮。下面一列看得到四個鍵中的三個，另一列什麼都看不到。我們分別**填入** −1e9、**加上** −1e9、填入 −∞，再用你的函式，各試四種精度。猜猜看各會壞在哪裡。
# %%
soft = use("masked_softmax", masked_softmax)

scores = torch.tensor([[2.0, 0.0, 1.0, -1.0], [2.0, 0.0, 1.0, -1.0]], dtype=torch.float64)
visible = torch.tensor([[True, True, False, True], [False, False, False, False]])
ways = {
    "fill -1e9": lambda s: torch.softmax(s.masked_fill(~visible, -1e9), dim=-1),
    "add -1e9": lambda s: torch.softmax(s + (~visible).to(s.dtype) * -1e9, dim=-1),
    "fill -inf": lambda s: torch.softmax(s.masked_fill(~visible, -math.inf), dim=-1),
    "yours": lambda s: soft(s, visible),
}
print("row 1: one key hidden; row 2: all hidden, and what it should be is 0 0 0 0\n")
for name, way in ways.items():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        label = f"{name:<10} {str(dtype).removeprefix('torch.'):<9}"
        try:
            rows = way(scores.to(dtype)).tolist()
            print(label, "   |   ".join(" ".join(f"{weight:5.2f}" for weight in row) for row in rows))
        except RuntimeError as error:
            print(label, f"{type(error).__name__}: {str(error).split('.')[0]}")
# %% [markdown] lang="en"
# - One key hidden: everything works, except that −1e9 does not fit into float16 (it ends at 65504). Filling raises an error; multiplied into a mask it turns into −∞ by itself.
# - All hidden, *filled*: every score is −1e9, so the row averages four keys that it must not see.
# - All hidden, *added*: in float32 and bfloat16 the same, because near 10⁹ neighbouring float32 numbers lie 64 apart and the scores are rounded away. In float64 they survive, and the row looks as if nothing were hidden.
# - −∞ gives NaN.
# %% [markdown] lang="zh-TW"
# - 只遮一個鍵：都沒問題，只是 −1e9 放不進 float16（它最大到 65504）。填入會報錯；先乘上遮罩則自動變成 −∞。
# - 全部遮住、用**填**的：每個分數都是 −1e9，這一列就平均了四個不該看的鍵。
# - 全部遮住、用**加**的：float32 和 bfloat16 也一樣，因為在 10⁹ 附近，相鄰的 float32 相差 64，分數被捨入掉了；float64 保得住，於是這一列像什麼都沒遮。
# - −∞ 得到 NaN。
# %% [markdown] lang="en"
# ### What PyTorch does
#
# Two questions to PyTorch's own attentions, `F.scaled_dot_product_attention` (SDPA for short) and `nn.MultiheadAttention`. What comes out for a query that sees nothing? And what happens if you hand the same Boolean mask to both? (All matrices of the second are set to the identity, so that the two compute the same.)
# %% [markdown] lang="zh-TW"
# ### PyTorch 怎麼做
#
# 拿兩個問題去問 PyTorch 內建的兩種注意力，`F.scaled_dot_product_attention`（簡稱 SDPA）和 `nn.MultiheadAttention`：什麼都看不到的查詢會得到什麼？同一個布林遮罩交給兩者，又會如何？（後者的矩陣全設成單位矩陣，兩者算的才是同一件事。）
# %%
with torch.no_grad():
    theirs = nn.MultiheadAttention(4, 1, bias=False, batch_first=True).eval()
    theirs.in_proj_weight.copy_(torch.eye(4).repeat(3, 1))
    theirs.out_proj.weight.copy_(torch.eye(4))
    q, k = torch.randn(1, 2, 4, generator=generator), torch.randn(1, 4, 4, generator=generator)
    one_empty = torch.tensor([[True, False, True, True], [False, False, False, False]])
    as_bool = F.scaled_dot_product_attention(q, k, k, attn_mask=one_empty)[0, 1]
    added = torch.zeros(2, 4).masked_fill(~one_empty, -math.inf)
    as_float = F.scaled_dot_product_attention(q, k, k, attn_mask=added)[0, 1]
    print("a row without keys: SDPA, Boolean mask  ", as_bool.tolist())
    print("                    SDPA, mask of -inf  ", as_float.tolist())
    print("                    nn.MultiheadAttention", theirs(q, k, k, attn_mask=~one_empty)[0][0, 1].tolist())

    some = torch.tensor([[True, False, True, True], [False, True, True, False]])
    ours = F.scaled_dot_product_attention(q, k, k, attn_mask=some)
    for name, mask in (("the same mask", some), ("its opposite", ~some)):
        difference = (theirs(q, k, k, attn_mask=mask)[0] - ours).abs().max()
        print(f"nn.MultiheadAttention with {name}: differs from SDPA by {difference:.1e}")


# %% [markdown] lang="en"
# SDPA answers zeros, `nn.MultiheadAttention` NaN (torch 2.13), and the two agree only if one of them gets the mask turned round.
#
# One more trap, from the printed module of the articles: a mask $[B, N, M]$, one for each sentence, meets scores $[B, h, N, M]$. With $B = h$ nothing complains: broadcasting takes the masks as one for each *head*.
# %% [markdown] lang="zh-TW"
# SDPA 回答 0，`nn.MultiheadAttention` 回答 NaN（torch 2.13）；而且其中一個要把遮罩反過來，兩者才會一致。
#
# 文章印的程式還有一個陷阱：遮罩 $[B, N, M]$（每句一個）碰上分數 $[B, h, N, M]$。當 $B = h$ 時沒有任何錯誤訊息：廣播把它當成每個**頭**一個遮罩。
# %%
B = h = 2
scores = torch.randn(B, h, 3, 4, generator=generator)
# Sentence 0 has no padding, the last two tokens of sentence 1 are padding.
each_sentence = torch.tensor([[[True, True, True, True]], [[True, True, False, False]]]).expand(B, 3, 4)
by_broadcasting = torch.softmax(scores.masked_fill(each_sentence == 0, -1e9), dim=-1)  # as printed
meant = soft(scores, each_sentence[:, None])
print("mean weight on the last two keys")
for b in range(B):
    for head in range(h):
        got, should = (weights[b, head, :, 2:].sum(-1).mean() for weights in (by_broadcasting, meant))
        print(f"  sentence {b}, head {head}: {got:.2f}, should be {should:.2f}")


# %% [markdown] lang="en"
# Head 1 of *both* sentences has lost its last two keys, and head 0 of sentence 1 reads the padding. Write $[B, 1, N, M]$ for a mask of sentences, and the axes say what they mean.
#
# One more question about the articles: they add the mask before the division by $\sqrt{d_k}$. Does the order matter? (Here $\sqrt{d_k} = 8$.)
# %% [markdown] lang="zh-TW"
# **兩句**的頭 1 都少了最後兩個鍵，第 1 句的頭 0 卻讀到填補。每句一個的遮罩要寫成 $[B, 1, N, M]$，哪一軸是什麼才清楚。
#
# 關於那些文章還有一個問題：它們在除以 $\sqrt{d_k}$ 之前就加上遮罩。先後有差嗎？（這裡 $\sqrt{d_k} = 8$。）
# %%
for name, value in (("-inf", -math.inf), ("-1e9", -1e9)):
    M = torch.zeros(4).masked_fill(torch.tensor([False, False, True, False]), value)
    raw = torch.tensor([16.0, 0.0, 8.0, -8.0])
    difference = (torch.softmax((raw + M) / 8, -1) - torch.softmax(raw / 8 + M, -1)).abs().max()
    print(f"M holds {name}: adding it before or after the division, the weights differ by {difference:.0e}")


# %% [markdown] lang="en"
# It does not: −∞ divided by 8 is −∞, and −1e9 divided by 8 is still so low that its exponential is 0.
# %% [markdown] lang="zh-TW"
# 沒有差：−∞ 除以 8 還是 −∞；−1e9 除以 8 也還是太低，指數照樣是 0。
# %% [markdown] lang="en"
# ### Exercise `masked_attention` · difficulty 3 of 5 · 18 minutes · 3 points
#
# **Small first.** Three tokens, the first is padding, causal. Query 0 sees nothing (its only key is padding): zeros. Query 1 sees key 1, query 2 sees keys 1 and 2.
#
# **In general**: $\text{output} = A\,v$ with $A = \mathrm{softmax}(q k^{\top}/\sqrt{d_k})$ over the visible keys. A key is visible if it is real (`key_mask`, one entry a key) **and**, with `is_causal`, not in the future (aligned at the bottom right). Either may be left out. Padded *queries* are computed like all others; nobody reads them later.
# %% [markdown] lang="zh-TW"
# ### 練習 `masked_attention` · 難度 3／5 · 18 分鐘 · 滿分 3 分
#
# **先看小例子**：三個詞元，第一個是填補，還加上因果遮罩。查詢 0 什麼都看不到（唯一的鍵是填補），得到 0；查詢 1 看得到鍵 1；查詢 2 看得到鍵 1 和 2。
#
# **一般情形**：$\text{output} = A\,v$，$A$ 是對看得到的鍵做 $\mathrm{softmax}(q k^{\top}/\sqrt{d_k})$。鍵要是真的（`key_mask`，一個鍵一項），**而且**在 `is_causal` 時不在未來（對齊右下角），才看得到。兩者都可以省略。填補位置的**查詢**照常計算，之後沒有人會讀。
# %% exercise="masked_attention"
def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention that hides padding and, if asked, the future.

    Args:
        q: queries [B, h, N, d_k], float32, float64, float16 or bfloat16, contiguous or not.
        k: keys [B, h, M, d_k].
        v: values [B, h, M, d_v].
        key_mask: Boolean [B, M], True = a real key; None: all are real.
        is_causal: hide the future as well; query i stands at key position i + M - N.

    Returns:
        (output [B, h, N, d_v], weights [B, h, N, M]) in the dtype of q. Hidden keys weigh exactly 0. A query that sees
        nothing (a sentence of padding alone, padding on the left, N > M) has zeros in both.

    Judged: each mask alone, both, none; N = M, N < M, N > M; gradients, finite also where queries see nothing;
    float16, there too; every size 1.
    """
    ### BEGIN SOLUTION
    dtype = q.dtype
    q, k, v = (x.to(torch.promote_types(dtype, torch.float32)) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # [B, h, N, M]
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if is_causal:
        visible = visible.tril(diagonal=k.shape[-2] - q.shape[-2])
    if key_mask is not None:
        visible = visible & key_mask[:, None, None, :]
    scores = scores.masked_fill(~visible, -math.inf).masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)
    ### END SOLUTION


# %%
check("masked_attention", masked_attention)
# %% [markdown] lang="en"
# The weights of a small batch with both masks, padding in front. And PyTorch's attention as a witness: same output, and the same zeros.
# %% [markdown] lang="zh-TW"
# 下面是一個小批次的權重，兩種遮罩都有，填補在前面。再請 PyTorch 的注意力作證：輸出相同，0 的地方也相同。
# %%
attention = use("masked_attention", masked_attention)

q, k = torch.randn(2, 2, 3, 6, 8, generator=generator)  # two sentences, three heads, six tokens
v = torch.randn(2, 3, 6, 4, generator=generator)
key_mask = torch.tensor([[False, False, True, True, True, True], [True, True, True, True, False, True]])
output, weights = attention(q, k, v, key_mask, is_causal=True)
both_masks = mask_for(6) & key_mask[:, None, None, :]
theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=both_masks)
print(f"largest difference from PyTorch: {(output - theirs).abs().max():.1e}")
ax = plots.heat_map(weights[0, 0], range(6), range(6), "sentence 0, head 0: two paddings in front")


# %% [markdown] lang="en"
# ## 6. The leak detector
#
# How would you find out whether somebody else's model looks ahead? You need not read its code. If output row $i$ depends on input row $j$, then some derivative $\partial y_{ic} / \partial x_{jd}$ is not 0. So compute them all and look above the diagonal:
#
# $$\text{leak}_{ij} = \Big[\, j > i \ \text{ and } \ \max_{c,d} \Big|\frac{\partial y_{ic}}{\partial x_{jd}}\Big| > 10^{-8} \,\Big]$$
#
# Here $x$ is $[N, d_\text{model}]$, $y$ is $[N, d_\text{out}]$, $c$ and $d$ run over their components.
# %% [markdown] lang="zh-TW"
# ## 6. 洩漏偵測器
#
# 別人的模型有沒有偷看後面，要怎麼知道？不必讀它的程式。如果輸出的第 $i$ 列和輸入的第 $j$ 列有關，就有某個導數 $\partial y_{ic} / \partial x_{jd}$ 不是 0。所以把導數全部算出來，再看對角線的右上方：
#
# $$\text{leak}_{ij} = \Big[\, j > i \ \text{ 而且 } \ \max_{c,d} \Big|\frac{\partial y_{ic}}{\partial x_{jd}}\Big| > 10^{-8} \,\Big]$$
#
# 其中 $x$ 是 $[N, d_\text{model}]$，$y$ 是 $[N, d_\text{out}]$，$c$、$d$ 是各自的分量編號。
# %% [markdown] lang="en"
# ### Exercise `find_the_leak` · difficulty 3 of 5 · 18 minutes · 2 points
#
# **Small first.** $N = 2$, one component each, $y_0 = x_0 + 3x_1$, $y_1 = x_0$. The derivatives are $\begin{pmatrix}1&3\\1&0\end{pmatrix}$. Only entry $(0, 1)$ lies above the diagonal, so the answer is $\begin{pmatrix}0&1\\0&0\end{pmatrix}$. The 1 below it is the past, and fine.
# %% [markdown] lang="zh-TW"
# ### 練習 `find_the_leak` · 難度 3／5 · 18 分鐘 · 滿分 2 分
#
# **先看小例子**：$N = 2$，各只有一個分量，$y_0 = x_0 + 3x_1$，$y_1 = x_0$。導數是 $\begin{pmatrix}1&3\\1&0\end{pmatrix}$，只有 $(0, 1)$ 在對角線右上方，所以答案是 $\begin{pmatrix}0&1\\0&0\end{pmatrix}$。左下角的 1 是過去，沒有問題。
# %% [markdown] lang="en"
# `torch.autograd` and `.backward()` are allowed: they are the point. Three warnings:
#
# - Behind a LayerNorm (with γ = 1) the *sum* of an output row never changes, so each component needs a gradient of its own. In front of one, moving all components of an input row by the same amount changes nothing.
# - Gradients add up in `.grad` until you clear them.
# - A leak may be faint (derivatives of 10⁻⁶), negative, or sit in one component only.
# %% [markdown] lang="zh-TW"
# 可以用 `torch.autograd` 和 `.backward()`，這題就是要用它們。有三點提醒：
#
# - 經過 LayerNorm（γ = 1）之後，一列輸出的**總和**永遠不變，所以每個分量要各自求梯度；在 LayerNorm 之前，一列輸入的分量全部加上同一個數，也不會有任何影響。
# - 梯度會在 `.grad` 裡累加，直到你把它清掉。
# - 洩漏可能很微弱（導數 10⁻⁶）、可能是負的，也可能只藏在一個分量裡。
# %% exercise="find_the_leak"
def find_the_leak(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Where an output position depends on a later input position.

    Args:
        model: maps [N, d_model] to [N, d_out] smoothly; d_out differs from d_model. Call it as often as you like.
        x: the input at which to look, float64 [N, d_model], contiguous or not.

    Returns:
        A Boolean tensor [N, N]: entry [i, j] is True if and only if j > i and some component of output row i depends on
        some component of input row j, with a derivative above 1e-8 in absolute value (models leak by more than 1e-6 or
        not at all). Everything on and below the diagonal is False.

    Judged: the right causal mask, the article's, one diagonal too many, one stray entry, no mask; with a LayerNorm at
    the input or the output; faint leaks; a leak in one component only, or with a negative derivative; a norm over all
    positions; a single position.
    """
    ### BEGIN SOLUTION
    derivatives = torch.autograd.functional.jacobian(model, x)  # [N, d_out, N, d_model]
    return (derivatives.abs().amax(dim=(1, 3)) > 1e-8).triu(diagonal=1)
    ### END SOLUTION


# %%
check("find_the_leak", find_the_leak)
# %% [markdown] lang="en"
# ### The article's formula on trial
#
# The article says, rightly, that the future is the *upper triangle* and must be hidden. Then it prints
#
# $$M_{ij} = \begin{cases} 0 & (i \le j) \\ -\infty & (i > j) \end{cases}$$
#
# We build exactly that mask, put it into an attention, and let your detector look.
# %% [markdown] lang="zh-TW"
# ### 檢驗文章的公式
#
# 那篇文章說，未來是**上三角**，必須遮住；這是對的。接著它印出
#
# $$M_{ij} = \begin{cases} 0 & (i \le j) \\ -\infty & (i > j) \end{cases}$$
#
# 我們照著做出這個遮罩，放進注意力裡，讓你的偵測器看一看。
# %%
detect = use("find_the_leak", find_the_leak)

N, d = 6, 4
i, j = torch.arange(N)[:, None], torch.arange(N)
M = torch.where(i <= j, 0.0, -math.inf)  # [N, N], as the article prints it
W_Q, W_K, W_V = torch.randn(3, d, d, generator=generator, dtype=torch.float64)
x = torch.randn(N, d, generator=generator, dtype=torch.float64)


def attention_under(mask: Tensor) -> Callable[[Tensor], Tensor]:
    """One head whose scores get the matrix `mask` added."""

    def model(x: Tensor) -> Tensor:
        return torch.softmax((x @ W_Q) @ (x @ W_K).mT / math.sqrt(d) + mask, dim=-1) @ (x @ W_V)

    return model


as_the_text_says = torch.where(i >= j, 0.0, -math.inf)
_, panels = plt.subplots(1, 3, figsize=(6.4, 2.5))
for ax, (title, matrix) in zip(
    panels,
    {
        "visible by the formula": M == 0,
        "leaks of the formula": detect(attention_under(M), x),
        "leaks of the text": detect(attention_under(as_the_text_says), x),
    }.items(),
):
    plots.heat_map(matrix, title=title, ax=ax, values=False)
    ax.set(xlabel="position j", ylabel="position i" if title.startswith("visible") else "")
    print(f"{title}: {int(matrix.sum())} entries")


# %% [markdown] lang="en"
# Every pair with $j > i$ leaks: 15 of 15. The formula is upside down, against its own sentence. Position 0 sees everything, and the last position sees only itself. With the inequality turned round there is no leak.
# %% [markdown] lang="zh-TW"
# 所有 $j > i$ 的配對都洩漏了：15 個裡有 15 個。公式上下顛倒，和它自己的文字矛盾：位置 0 什麼都看得到，最後一個位置只看得到自己。把不等號反過來，就沒有洩漏。
# %% [markdown] lang="en"
# ### What a leak costs
#
# A leak does not raise an error. It makes training look wonderful. We train a tiny model to guess the next token of **random** sequences of 16 symbols. Nothing can be learned: the best possible loss is $\ln 16 = 2.773$. Three set-ups: the right mask; the article's; the right mask, but with targets that are *not shifted*, so that position $t$ is asked for token $t$.
# %% [markdown] lang="zh-TW"
# ### 洩漏的代價
#
# 洩漏不會報錯，反而讓訓練看起來好極了。我們訓練一個小模型，猜**隨機**序列的下一個詞元，共 16 種符號。根本沒有規律可學：最好的損失就是 $\ln 16 = 2.773$。三種設定：正確的遮罩；文章的遮罩；正確的遮罩，但目標**沒有移一格**，也就是要第 $t$ 個位置回答第 $t$ 個詞元。
# %% tags=["experiment"]
symbols, length, width = 16, 12, 32


def train_with(mask: Tensor, shift: int = 1, steps: int = 400) -> tuple[list[float], Tensor]:
    """Loss during training, and at the end for each position."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"words": (symbols, width), "places": (length, width), "out": (width, symbols)}
    sizes |= {name: (width, width) for name in ("q", "k", "v")}
    weights = {
        name: torch.randn(*size, generator=generator) * (1 if name in ("words", "places") else width**-0.5)
        for name, size in sizes.items()
    }
    optimizer = torch.optim.Adam([w.requires_grad_() for w in weights.values()], lr=0.03)

    def losses(batch: int) -> Tensor:
        tokens = torch.randint(0, symbols, (batch, length + 1), generator=generator)
        x = weights["words"][tokens[:, :length]] + weights["places"]
        scores = (x @ weights["q"]) @ (x @ weights["k"]).mT / math.sqrt(width)
        x = x + torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ (x @ weights["v"])
        logits = (x @ weights["out"]).mT  # [batch, symbols, length]
        return F.cross_entropy(logits, tokens[:, shift : length + shift], reduction="none")

    history = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.03 * (1 - step / steps)
        loss = losses(32).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    with torch.no_grad():
        return history, losses(2000).mean(dim=0)


past_only = mask_for(length)
set_ups = {
    "right mask": (past_only, 1),
    "article's mask": (past_only.mT, 1),
    "right mask, not shifted": (past_only, 0),
}
histories = {}
for name, (mask, shift) in set_ups.items():
    histories[name], at_the_end = train_with(mask, shift)
    print(f"{name:<24} loss at positions 1-11: {at_the_end[:-1].mean():.3f}, at the last: {at_the_end[-1]:.2f}")
ax = plots.curves(range(400), histories, "training step", "loss", "Guessing random tokens")
ax.axhline(math.log(16), color="black", linestyle=":", linewidth=1)
_ = ax.annotate("ln 16: nothing learned", (230, math.log(16) + 0.1), fontsize=10)


# %% [markdown] lang="en"
# Under the article's mask the loss falls far below what is possible: positions 1 to 11 (of 12, counted from 1 here) copy the answer. The last one sees neither past nor future, and its loss stays *above* $\ln 16$: it guesses with too much confidence.
#
# The third curve is the other half of the story, which the article leaves out. The causal mask lets position $t$ see token $t$. It works only because the target is shifted by one (`shift_right` in lesson 08).
# %% [markdown] lang="zh-TW"
# 用文章的遮罩，損失遠低於可能的最小值：位置 1 到 11（共 12 個，這裡從 1 數起）都在抄答案。最後一個位置既看不到過去也看不到未來，損失還**高於** $\ln 16$：它猜得太有自信了。
#
# 第三條曲線是文章沒說的另一半：因果遮罩讓第 $t$ 個位置看得到第 $t$ 個詞元，所以目標一定要移一格（第 08 課的 `shift_right`），遮罩才有用。
# %% [markdown] lang="en"
# ## 7. Cross-attention: two sequences
#
# Until now query, key and value came from the same sequence. Nothing in the formula asks for that. Let the queries come from $x$, shape $[N, d_\text{model}]$, and keys and values from a *memory*, shape $[M, d_\text{mem}]$:
#
# $$Q = xW_Q, \qquad K = \text{memory}\,W_K, \qquad V = \text{memory}\,W_V$$
#
# The weights are $[N, M]$: how much each word that is being written reads of each word of the source. The two lengths have nothing to do with each other.
# %% [markdown] lang="zh-TW"
# ## 7. 交叉注意力：兩個序列
#
# 到目前為止，查詢、鍵、值（value）都來自同一個序列，但公式並沒有這樣要求。讓查詢來自 $x$（形狀 $[N, d_\text{model}]$），鍵與值來自一份**記憶** memory（形狀 $[M, d_\text{mem}]$）：
#
# $$Q = xW_Q, \qquad K = \text{memory}\,W_K, \qquad V = \text{memory}\,W_V$$
#
# 權重的形狀是 $[N, M]$：正在寫的每個字，各讀了原文的每個字多少。兩個長度互不相干。
# %% [markdown] lang="en"
# ### Exercise `cross_attention` · difficulty 2 of 5 · 10 minutes · 2 points
#
# **Small first.** All $W$ are 1 × 1 and equal to 1. $x = (1)$ asks a memory $(0,\ 2)$: scores $0, 2$, weights $0.119, 0.881$, output $1.76$. With the second place hidden: weights $(1, 0)$, output $0$.
#
# **In general**: one head, scaled by $\sqrt{d_k}$, for a batch. `key_mask` $[B, M]$ marks the real places of the memory; if none is real, output and weights are zeros. No causal mask: the whole source is known before the first word is written. No residual.
# %% [markdown] lang="zh-TW"
# ### 練習 `cross_attention` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# **先看小例子**：所有 $W$ 都是 1 × 1，等於 1。$x = (1)$ 去問 memory $(0,\ 2)$：分數 $0, 2$，權重 $0.119, 0.881$，輸出 $1.76$。遮住第二個位置：權重 $(1, 0)$，輸出 $0$。
#
# **一般情形**：單頭、除以 $\sqrt{d_k}$、整個批次一起算。`key_mask` $[B, M]$ 標出 memory 裡真的位置；全都不是真的，輸出和權重就是 0。不加因果遮罩：寫第一個字之前，整個原文就已經知道了。也不加殘差。
# %% exercise="cross_attention"
def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One head that asks from x and reads from memory.

    Args:
        x: [B, N, d_model], float32, float64, float16 or bfloat16, contiguous or not.
        memory: [B, M, d_mem]; d_mem may differ from d_model, M from N.
        w_q: [d_model, d_k].
        w_k: [d_mem, d_k].
        w_v: [d_mem, d_v]; d_v may differ from d_k.
        key_mask: Boolean [B, M], True = a real place of the memory; None: all are real.

    Returns:
        (output [B, N, d_v], weights [B, N, M]) in the dtype of x. Hidden places weigh exactly 0; where a memory is all
        padding, both are zeros. Row vectors (x @ w_q), scores divided by sqrt(d_k), no causal mask, no residual.

    Judged: all sizes different, and all equal; M = 1; every size 1; gradients for all five, finite also with a memory of
    padding, which comes in float16 too.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    x, memory, w_q, w_k, w_v = (t.to(torch.promote_types(dtype, torch.float32)) for t in (x, memory, w_q, w_k, w_v))
    scores = (x @ w_q) @ (memory @ w_k).mT / math.sqrt(w_q.shape[-1])  # [B, N, M]
    if key_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        visible = key_mask[:, None, :]
        scores = scores.masked_fill(~visible, -math.inf).masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
    return (weights @ (memory @ w_v)).to(dtype), weights.to(dtype)
    ### END SOLUTION


# %%
check("cross_attention", cross_attention)
# %% [markdown] lang="en"
# ### Facts about cross-attention
#
# Each output row is a weighted average of the $M$ value rows. So it cannot leave their range; and a memory of one single place gives every query the same vector, whatever it asked.
# %% [markdown] lang="zh-TW"
# ### 交叉注意力的幾件事
#
# 輸出的每一列都是 $M$ 列值的加權平均，所以跑不出它們的範圍；如果 memory 只有一個位置，不管問什麼，每個查詢得到的都是同一個向量。
# %%
cross = use("cross_attention", cross_attention)

x, memory = torch.randn(1, 7, 6, generator=generator), torch.randn(1, 3, 5, generator=generator)
w_q = torch.randn(6, 4, generator=generator)
w_k, w_v = torch.randn(5, 4, generator=generator), torch.randn(5, 2, generator=generator)
output, weights = cross(x, memory, w_q, w_k, w_v)
values = memory @ w_v
shapes = {"x": x, "memory": memory, "output": output, "weights": weights}
print("  ".join(f"{name} {list(tensor.shape)}" for name, tensor in shapes.items()))
inside = bool(((output >= values.amin(1) - 1e-6) & (output <= values.amax(1) + 1e-6)).all())
print("every output component lies between the smallest and the largest value:", inside)
one_word, _ = cross(x, memory[:, :1], w_q, w_k, w_v)
print(f"memory of one word: the seven outputs differ by {(one_word - one_word[:, :1]).abs().max():.0e}")
encoder_layers = decoder_layers = 6
total = encoder_layers + 2 * decoder_layers
print(f"2017: {encoder_layers} x 1 + {decoder_layers} x 2 = {total} attentions, {decoder_layers} of them cross")


# %% [markdown] lang="en"
# ## 8. Mixing in: a noise image asks, a text answers
#
# The lecture ends with a beautiful idea: a random image is Q, a text gives K and V, and the output has the meaning of the text mixed into it. Is that so? A small honest test:
#
# - images: scikit-learn's 8 × 8 digits, cut into 16 patches of 2 × 2 pixels: the queries;
# - texts: three tokens, such as "a thin seven" or "a thick two": keys and values;
# - the task: given a digit under noise (a share between 0 and 1) and its text, restore the digit.
# %% [markdown] lang="zh-TW"
# ## 8. 混入：雜訊圖像發問，文字回答
#
# 講義的結尾有個漂亮的想法：隨機的圖像當 Q，文字產生 K 和 V，輸出就混入了文字的意涵。真的嗎？做個誠實的小實驗：
#
# - 圖像：scikit-learn 的 8 × 8 手寫數字，切成 16 個 2 × 2 像素的圖塊（patch），當作查詢；
# - 文字：三個詞元，例如「a thin seven」、「a thick two」，當作鍵與值；
# - 任務：給一個被雜訊蓋住的數字（雜訊的比例在 0 與 1 之間）和它的文字，還原這個數字。
# %% [markdown] lang="en"
# No patch sees any other: each knows its four noisy pixels, its place, the share of noise, and **what your `cross_attention` brings back from the text**. In training a fifth of the texts is hidden by `key_mask`, so the model also learns to do without: an empty row brings zeros.
# %% [markdown] lang="zh-TW"
# 圖塊之間互相看不到：每個圖塊只知道自己的四個雜訊像素、自己的位置、雜訊的比例，以及**你的 `cross_attention` 從文字帶回來的東西**。訓練時有五分之一的文字被 `key_mask` 遮住，模型也就學會了沒有文字的情形：空的列帶回來的是 0。
# %% tags=["experiment"]
from course_lib.tasks import digits

words = ["a", "thin", "thick", "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def described(part):
    """Patches [B, 16, 4] with values from −1 to 1, and a text of three tokens for each."""
    images, labels = part
    patches = F.unfold(2 * images - 1, kernel_size=2, stride=2).mT
    ink = images.mean(dim=(1, 2, 3))
    usual = torch.stack([ink[labels == digit].median() for digit in range(10)])
    texts = torch.stack([torch.zeros_like(labels), 1 + (ink > usual[labels]).long(), 3 + labels], dim=1)
    return patches, texts


(train_images, train_texts), (test_images, test_texts) = map(described, digits())
generator = torch.Generator().manual_seed(0)
width = 48
shapes = {
    "image": (5, width), "places": (16, width), "words": (len(words), width), "w_q": (width, width),
    "w_k": (width, width), "w_v": (width, width), "up": (width, 256), "bias": (1, 256), "down": (256, width),
    "pixels": (width, 4),
}  # fmt: skip
net = {
    name: torch.randn(*shape, generator=generator) * (1 if name in ("places", "words") else shape[0] ** -0.5)
    for name, shape in shapes.items()
}


def under_noise(images: Tensor, share: Tensor) -> Tensor:
    return (1 - share).sqrt() * images + share.sqrt() * torch.randn(images.shape, generator=generator)


def restored(noisy: Tensor, share: Tensor, texts: Tensor, readable: Tensor) -> Tensor:
    x = torch.cat([noisy, share.expand(len(noisy), 16, 1)], dim=-1) @ net["image"] + net["places"]
    mixed_in, _ = cross(x, net["words"][texts], net["w_q"], net["w_k"], net["w_v"], readable)
    x = x + mixed_in  # the residual keeps the image
    x = x + torch.relu(x @ net["up"] + net["bias"]) @ net["down"]
    return x @ net["pixels"]


optimizer = torch.optim.Adam([w.requires_grad_() for w in net.values()], lr=0.006)
steps = 500
for step in range(steps):
    optimizer.param_groups[0]["lr"] = 0.006 * (1 - step / steps)
    chosen = torch.randint(0, len(train_images), (64,), generator=generator)
    share = torch.rand(64, 1, 1, generator=generator)
    readable = (torch.rand(64, 1, generator=generator) > 0.2).expand(64, 3)
    noisy = under_noise(train_images[chosen], share)
    loss = (restored(noisy, share, train_texts[chosen], readable) - train_images[chosen]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

errors = {"its own text": [], "no text": [], "another digit's text": []}
others = test_texts.clone()
others[:, 2] = 3 + (others[:, 2] - 3 + torch.randint(1, 10, (len(others),), generator=generator)) % 10
yes = torch.ones(len(test_texts), 3, dtype=torch.bool)
with torch.no_grad():
    for share in (0.1, 0.5, 1.0):
        share = torch.full((1, 1, 1), share)
        noisy = under_noise(test_images, share)
        for name, texts, readable in zip(errors, (test_texts, test_texts, others), (yes, ~yes, yes)):
            errors[name].append((restored(noisy, share, texts, readable) - test_images).square().mean().item())
for name, numbers in errors.items():
    print(f"{name:<21} error with 10 % noise {numbers[0]:.2f}, 50 % {numbers[1]:.2f}, 100 % {numbers[2]:.2f}")
average = (test_images - train_images.mean(dim=0)).square().mean()
print(f"for comparison, the average image of the training part: {average:.2f}")
ax = plots.bars(["10 % noise", "50 % noise", "100 % noise"], errors, "squared error", "Digits that it has never seen")
_ = ax.legend(loc="upper left")
# %% [markdown] lang="en"
# Under pure noise the text is all there is: with the right one the error is smaller than the average image's, with a wrong one larger. Under little noise the image itself says nearly everything, and only a *wrong* text still does harm. Without any text, pure noise ends up even worse than the average image: so small a network lets some noise through. Now one and the same noise, and six texts:
# %% [markdown] lang="zh-TW"
# 只剩雜訊時，文字就是一切：文字對，誤差比平均圖像小；文字錯，誤差更大。雜訊很少時，圖像自己幾乎說明了一切，只有**錯的**文字還會幫倒忙。純雜訊又沒有文字時，結果比平均圖像還差，因為網路太小，擋不住所有雜訊。接著用同一張純雜訊圖，換六種文字：
# %% tags=["experiment"]
wishes = [(1, 0), (2, 0), (1, 3), (2, 5), (1, 7), (2, 9)]  # (thin or thick, digit)
texts = torch.tensor([[0, weight, 3 + digit] for weight, digit in wishes])
noise = torch.randn(1, 16, 4, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    pictures = restored(noise.expand(6, 16, 4), torch.ones(1, 1, 1), texts, torch.ones(6, 3, dtype=torch.bool))
shown = {"the noise": noise}
shown |= {" ".join(words[t] for t in text): picture[None] for text, picture in zip(texts.tolist(), pictures)}
_, panels = plt.subplots(1, 7, figsize=(6.4, 1.5))
for ax, (title, patches) in zip(panels, shown.items()):
    ax.imshow(F.fold(patches.mT, (8, 8), kernel_size=2, stride=2)[0, 0], cmap="gray_r", vmin=-1, vmax=1)
    ax.set_title(title.replace(" ", "\n"), fontsize=9)
    ax.axis("off")


# %% [markdown] lang="en"
# The pictures are blurred, and thin or thick hardly shows: so small a net paints little more than the average of a digit. But is it the digit that was asked for? Count: 1000 pictures from pure noise, all 20 texts, and of the ten average digits of the training part the one that is nearest. Then once more with the feed-forward network switched off.
# %% [markdown] lang="zh-TW"
# 圖很模糊，粗細也幾乎看不出來：這麼小的網路，畫的差不多只是某個數字的平均。但畫的是指定的那個數字嗎？數數看：從純雜訊畫 1000 張，20 種文字都有，看訓練資料的十個平均數字中，哪一個離它最近；再把前饋網路關掉，重來一次。
# %% tags=["experiment"]
all_texts = torch.tensor([[0, weight, 3 + digit] for weight in (1, 2) for digit in range(10)]).repeat(50, 1)
averages = torch.stack([train_images[train_texts[:, 2] == 3 + digit].mean(dim=0) for digit in range(10)])
noises = torch.randn(50, 16, 4, generator=generator).repeat_interleave(20, dim=0)
readable = torch.ones(1000, 3, dtype=torch.bool)
trained = net["down"]
with torch.no_grad():
    for name, down in (("whole", trained), ("without its feed-forward network", torch.zeros_like(trained))):
        net["down"] = down
        painted = restored(noises, torch.ones(1, 1, 1), all_texts, readable)
        nearest = torch.cdist(painted.flatten(1), averages.flatten(1)).argmin(dim=1)
        share = (nearest == all_texts[:, 2] - 3).double().mean()
        print(f"the net {name}: {share:.0%} are nearest to the digit asked for")
net["down"] = trained


# %% [markdown] lang="en"
# The lecture's sentence holds, with conditions. The text does get in, but only as a weighted average of three value vectors, added to what the patch is. It is the *feed-forward network behind it* that makes pixels of "seven" and "place 3" together: without it 97 % become 14 %, hardly more than guessing. And in a real image generator Q is pure noise at the first of many steps only; afterwards it is the image so far.
# %% [markdown] lang="zh-TW"
# 講義的說法成立，但有條件。文字確實進來了，不過只是三個值向量的加權平均，加到圖塊自己身上；把「seven」和「第 3 塊」合起來變成像素，要靠後面的**前饋網路**：關掉它，97 % 就掉到 14 %，和亂猜差不多。而在真正的文字生圖裡，只有許多步驟中的第一步，Q 才是純雜訊；之後的 Q 是畫到一半的圖。
# %% [markdown] lang="en"
# ## 9. The decoder layer of 2017
#
# Three sublayers, each wrapped in the same way (lesson 06): $x \leftarrow \mathrm{LayerNorm}(x + \text{sublayer}(x))$.
#
# 1. **Masked self-attention**: the target reads what has been written so far.
# 2. **Cross-attention**: the result asks; the encoder's output answers. The query comes from sublayer 1 of the *same* layer, not straight from the layer before. All six layers read the same memory, each through its own $W_K, W_V$.
# 3. **Feed-forward**: $\mathrm{ReLU}(xW_1 + b_1)W_2 + b_2$, for each position by itself.
# %% [markdown] lang="zh-TW"
# ## 9. 2017 年的解碼器層
#
# 三個子層，外面包的都一樣（第 06 課）：$x \leftarrow \mathrm{LayerNorm}(x + \text{sublayer}(x))$。
#
# 1. **遮罩自注意力**：目標讀自己寫到目前為止的東西。
# 2. **交叉注意力**：上一步的結果發問，編碼器的輸出回答。查詢來自**同一層**的第 1 個子層，不是直接來自前一層。六層讀的是同一份 memory，但各有自己的 $W_K, W_V$。
# 3. **前饋網路**：$\mathrm{ReLU}(xW_1 + b_1)W_2 + b_2$，每個位置各算各的。
# %% [markdown] lang="en"
# ### Exercise `decoder_layer` · difficulty 3 of 5 · 15 minutes · 4 points
#
# Write the class `DecoderLayer`. `MultiHeadAttention(d_model, n_heads)` is lesson 04's; the set-up cell defines it, so you may use it. Called as `attention(query, key, value, mask)` it returns the pair (output, weights).
#
# The layer gets its masks from outside and makes none: `target_mask` broadcasts to $[B, h, N, N]$, `memory_mask` to $[B, h, N, M]$, True = may attend, None = everything is visible. No dropout. Only the new $x$, shape $[B, N, d_\text{model}]$, is returned.
# %% [markdown] lang="zh-TW"
# ### 練習 `decoder_layer` · 難度 3／5 · 15 分鐘 · 滿分 4 分
#
# 請寫出類別 `DecoderLayer`。`MultiHeadAttention(d_model, n_heads)` 是第 04 課的，設定儲存格裡已經定義好，可以直接用；呼叫 `attention(query, key, value, mask)` 會回傳（輸出，權重）。
#
# 這一層的遮罩由外面給，自己不做：`target_mask` 會廣播成 $[B, h, N, N]$，`memory_mask` 會廣播成 $[B, h, N, M]$；True 代表可以看，None 代表全部看得到。不用 dropout。只回傳新的 $x$，形狀 $[B, N, d_\text{model}]$。
# %% [markdown] lang="en"
# The check builds your class, loads its own numbers into the parameters and calls it. So their names must be these: `self_attention.W_Q` (and `W_K`, `W_V`, `W_O`), `cross_attention.W_Q` (and so on), `linear1.weight`, `linear1.bias` ($d_\text{model}$ to $d_\text{ff}$), `linear2.weight`, `linear2.bias` (back), and `norm1`, `norm2`, `norm3` with `.weight` and `.bias`. With `nn.Linear` and `nn.LayerNorm` (ε = 1e-5, the default) they come by themselves.
# %% [markdown] lang="zh-TW"
# 檢查會建立你的類別、載入它自己的參數再呼叫，所以參數要叫這些名字：`self_attention.W_Q`（以及 `W_K`、`W_V`、`W_O`）、`cross_attention.W_Q`（同樣四個）、`linear1.weight`、`linear1.bias`（$d_\text{model}$ 到 $d_\text{ff}$）、`linear2.weight`、`linear2.bias`（再回來），以及 `norm1`、`norm2`、`norm3` 的 `.weight` 和 `.bias`。用 `nn.Linear` 和 `nn.LayerNorm`（ε = 1e-5，也就是預設值），名字自然就對了。
# %% exercise="decoder_layer"
class DecoderLayer(nn.Module):
    """One decoder layer of 2017: masked self-attention, cross-attention, feed-forward; each x = norm(x + sublayer(x)).

    Parameters in state_dict(): self_attention.W_{Q,K,V,O}, cross_attention.W_{Q,K,V,O}, linear1.{weight,bias},
    linear2.{weight,bias}, norm1, norm2, norm3 .{weight,bias}. norm1 belongs to the self-attention, norm2 to the
    cross-attention, norm3 to the feed-forward network (ReLU).
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        ### END SOLUTION

    def forward(
        self, x: Tensor, memory: Tensor, target_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """x [B, N, d_model], memory [B, M, d_model], Boolean masks (True = may attend) -> [B, N, d_model].

        Judged: no masks, each alone (by name too), both; N = M and N ≠ M; a mask for each head; one head; a memory of
        padding alone; norms with scale 0, which hide what stands before them; gradients for every parameter, x and
        memory; float64; inputs contiguous or not.
        """
        ### BEGIN SOLUTION
        x = self.norm1(x + self.self_attention(x, x, x, target_mask)[0])
        x = self.norm2(x + self.cross_attention(x, memory, memory, memory_mask)[0])
        return self.norm3(x + self.linear2(torch.relu(self.linear1(x))))
        ### END SOLUTION


# %%
check("decoder_layer", DecoderLayer)
# %% [markdown] lang="en"
# ### At real size, against PyTorch
#
# The 2017 base model: $d_\text{model} = 512$, 8 heads, $d_\text{ff} = 2048$; a target of 40 tokens, a source of 50, of which 10 are padding. We copy your weights into `nn.TransformerDecoderLayer` and compare. Mind its polarity: True = hide.
# %% [markdown] lang="zh-TW"
# ### 真實大小，和 PyTorch 比
#
# 2017 年的 base 模型：$d_\text{model} = 512$、8 個頭、$d_\text{ff} = 2048$；目標 40 個詞元，來源 50 個，其中 10 個是填補。把你的權重抄進 `nn.TransformerDecoderLayer` 再比較。注意它的 True 代表遮住。
# %% tags=["experiment"]
Layer = use("decoder_layer", DecoderLayer)

torch.manual_seed(0)
layer = Layer(512, 8, 2048).eval()
theirs = nn.TransformerDecoderLayer(512, 8, 2048, dropout=0.0, batch_first=True).eval()
parameters = dict(layer.named_parameters())
with torch.no_grad():
    for name, attention in (("self_attention", theirs.self_attn), ("cross_attention", theirs.multihead_attn)):
        attention.in_proj_weight.copy_(torch.cat([parameters[f"{name}.W_{part}"].mT for part in "QKV"]))
        attention.out_proj.weight.copy_(parameters[f"{name}.W_O"].mT)
        attention.in_proj_bias.zero_()
        attention.out_proj.bias.zero_()
    for part in ("linear1", "linear2", "norm1", "norm2", "norm3"):
        getattr(theirs, part).load_state_dict(getattr(layer, part).state_dict())
    x, memory = torch.randn(2, 40, 512), torch.randn(2, 50, 512)
    real = torch.arange(50) < torch.tensor([[50], [40]])  # [2, 50]
    ours = layer(x, memory, mask_for(40), real[:, None, None, :])
    other = theirs(x, memory, tgt_mask=~mask_for(40), memory_key_padding_mask=~real)
print(f"parameters: {sum(p.numel() for p in layer.parameters()):,}")
print(f"largest difference from nn.TransformerDecoderLayer: {(ours - other).abs().max():.1e}")
# %% [markdown] lang="en"
# 4,199,936 parameters, six layers of which make up the decoder's 25 million. Last, your detector looks at your own layer: small, in float64, once with your causal mask, once with the article's, and once with none. It has to look through two attentions, three LayerNorms and a feed-forward network.
# %% [markdown] lang="zh-TW"
# 4,199,936 個參數，六層就是解碼器的兩千五百萬個。最後，讓你的偵測器看看你自己的這一層：縮小、用 float64，一次用你的因果遮罩，一次用文章的，一次不用。它得看穿兩個注意力、三個 LayerNorm 和一個前饋網路。
# %% tags=["experiment"]
small = Layer(8, 2, 16).double().eval()
x, memory = torch.randn(6, 8, dtype=torch.float64), torch.randn(1, 4, 8, dtype=torch.float64)
for name, mask in (("your causal mask", mask_for(6)), ("the article's", mask_for(6).mT), ("none", None)):
    leaks = detect(lambda rows, mask=mask: small(rows[None], memory, mask)[0], x)
    print(f"{name:<17} {int(leaks.sum())} leaks of 15 pairs")
# %% [markdown] lang="en"
# ## 10. What to remember
#
# 1. Causal means $j \le i$: a lower triangle with its diagonal; with more keys than queries it is aligned at the bottom right.
# 2. Padding masks hide keys, $[B, 1, 1, M]$. Two masks are joined by *and*.
# 3. Hide before the softmax, with −∞, and give an empty row zeros. −1e9 breaks in float16 and averages padding.
# 4. Ask which way round a library's True is.
# 5. A leak raises no error and makes training look good. Derivatives above the diagonal find it.
# 6. Cross-attention is the same formula: Q from one side, K and V from the other. It is the only one of the three that is not self-attention.
# %% [markdown] lang="zh-TW"
# ## 10. 要記住的事
#
# 1. 因果就是 $j \le i$：包含對角線的下三角；鍵比查詢多時，對齊右下角。
# 2. 填補遮罩遮的是鍵，形狀 $[B, 1, 1, M]$。兩個遮罩用「且」結合。
# 3. 在 softmax 之前用 −∞ 遮；空的列給 0。−1e9 在 float16 會壞，還會把填補平均進來。
# 4. 用別人的函式庫，先問清楚 True 是哪個意思。
# 5. 洩漏不會報錯，還讓訓練看起來很好。看對角線右上方的導數就找得到。
# 6. 交叉注意力是同一個公式：Q 來自一邊，K、V 來自另一邊。三種注意力裡，只有它不是自注意力。
# %% [markdown] lang="en"
# ## 11. Self-check: question `07_q1` · 1 point · 2 minutes
#
# Which attention layers do the encoder and the decoder of 2017 have, and which of them is **not** self-attention? Put the letter of the best answer between the quotation marks below.
#
# - **a**: Each encoder layer has one, each decoder layer two. The decoder's masked attention is not self-attention, since a mask keeps it from seeing all of itself.
# - **b**: Each encoder layer has one, each decoder layer two. The decoder's second is not self-attention: its queries come from the decoder, its keys and values from the encoder.
# - **c**: Each encoder layer has one, each decoder layer two. Neither of the decoder's two is self-attention, because the decoder reads the encoder.
# - **d**: Encoder and decoder layers have two each. All are self-attention, since query, key and value are always made by matrices of the same layer.
# %% [markdown] lang="zh-TW"
# ## 11. 自我檢查：選擇題 `07_q1` · 滿分 1 分 · 2 分鐘
#
# 2017 年的編碼器與解碼器各有哪些注意力？哪一個**不是**自注意力？請把最好的答案的字母填進下面的引號裡。
#
# - **a**：編碼器每層一個，解碼器每層兩個。解碼器加了遮罩的那個不是自注意力，因為遮罩讓它看不到完整的自己。
# - **b**：編碼器每層一個，解碼器每層兩個。解碼器的第二個不是自注意力：查詢來自解碼器，鍵和值來自編碼器。
# - **c**：編碼器每層一個，解碼器每層兩個。解碼器的兩個都不是自注意力，因為解碼器要讀編碼器。
# - **d**：編碼器和解碼器每層都是兩個。全部都是自注意力，因為查詢、鍵、值總是由同一層的矩陣做出來。
# %% question="07_q1"
answer_07_q1 = ""
### BEGIN SOLUTION
answer_07_q1 = "b"
### END SOLUTION
# %%
check("07_q1", answer_07_q1)
# %% [markdown] lang="en"
# ## 12. Self-check: question `07_q2` · 1 point · 2 minutes
#
# Row $i$ is the query, column $j$ the key. Which entries of the causal mask are open (may attend)?
#
# - **a**: $i \le j$
# - **b**: $j < i$
# - **c**: $j \le i$
# - **d**: all of them in training, because the whole target is known there; the mask is needed only when the model writes.
# %% [markdown] lang="zh-TW"
# ## 12. 自我檢查：選擇題 `07_q2` · 滿分 1 分 · 2 分鐘
#
# 第 $i$ 列是查詢，第 $j$ 行（column）是鍵。因果遮罩裡，哪些位置是打開的（可以看）？
#
# - **a**：$i \le j$
# - **b**：$j < i$
# - **c**：$j \le i$
# - **d**：訓練時全部打開，因為整個目標都已經知道；只有模型真的在寫時才需要遮罩。
# %% question="07_q2"
answer_07_q2 = ""
### BEGIN SOLUTION
answer_07_q2 = "c"
### END SOLUTION
# %%
check("07_q2", answer_07_q2)
# %% [markdown] lang="en"
# ## 13. What the documents claim, and what you measured
#
# Every figure comes from a cell of this lesson. Seeds move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | In training the future, the upper triangle, must be hidden | true, together with a shifted target | 0 leaks, loss 2.77 = ln 16 on random tokens; without the shift the loss is 0.00 |
# | $M_{ij} = 0$ for $i \le j$, $-\infty$ for $i > j$ | not so: upside down | 15 of 15 pairs leak; random tokens "guessed" with loss 0.05 at positions 1–11, 3.3 at the last |
# | The mask is added before dividing by √d_k | true for −∞ | the same weights before and after; with −1e9 as well |
# | exp(−∞) = 0, so hidden weights are exactly 0 | true if the row keeps one key | an empty row: NaN by softmax and `nn.MultiheadAttention`, zeros by SDPA (torch 2.13) |
# | Filling with −1e9 forces hidden weights to 0 | true with conditions: not float16, and the row keeps one key | float16: error; empty row: 0.25 each; added in float64: 0.64, 0.09, 0.24, 0.03, as if nothing were hidden |
# | The printed multi-head module is correct | true with conditions | a mask $[B, N, M]$ with $B = h$ hides in head 1 of *both* sentences; float16 raises |
# | A mask hides where it is 0 | true in that code | ask the library: with the same mask `nn.MultiheadAttention` and SDPA differ by 2, with opposite ones by 1e-7 |
# %% [markdown] lang="zh-TW"
# ## 13. 文件怎麼說，你量到什麼
#
# 下面每個數字都來自這一課的儲存格。換亂數種子，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 訓練時要遮住未來，也就是上三角 | 對，但目標也要移一格 | 0 個洩漏，隨機詞元的損失是 2.77 = ln 16；不移一格的話，損失是 0.00 |
# | $i \le j$ 時 $M_{ij} = 0$，$i > j$ 時 $-\infty$ | 不對：上下顛倒 | 15 對全部洩漏；隨機詞元竟然「猜」到損失 0.05（位置 1–11），最後一個位置 3.3 |
# | 遮罩在除以 √d_k 之前加上 | −∞ 時對 | 之前、之後加，權重都一樣；−1e9 也是 |
# | exp(−∞) = 0，所以遮住的權重恰為 0 | 對，只要那一列還有一個鍵 | 空的列：softmax 和 `nn.MultiheadAttention` 給 NaN，SDPA 給 0（torch 2.13） |
# | 填入 −1e9 會讓遮住的權重變成 0 | 有條件：不是 float16，而且那一列還有一個鍵 | float16 報錯；空的列各得 0.25；用 float64 加上去則得 0.64、0.09、0.24、0.03，像沒遮一樣 |
# | 印出來的多頭模組是對的 | 有條件 | 遮罩 $[B, N, M]$ 在 $B = h$ 時，**兩句**的頭 1 都被遮了；float16 報錯 |
# | 遮罩是 0 的地方遮住 | 在那段程式裡對 | 要問函式庫：同一個遮罩，`nn.MultiheadAttention` 和 SDPA 差 2；反過來給，差 1e-7 |
