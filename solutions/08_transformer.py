# %% [markdown] lang="en"
# # 08 · Putting it together: Encoder–Decoder
#
# The lessons before have made parts: attention, heads, positions, residual paths and norms, masks. This one puts them together, counts the result, and trains it to read 民國114年3月18日 and write 2025-03-18.
#
# Padding, the start token, the output layer, label smoothing and the learning rate occur in none of "the documents", the articles and lecture notes that this course tests. Without most of them nothing runs, so they are the exercises here.
#
# **You need** lessons 03 to 07. **Time**: about two and a half hours, 105 minutes of them for the exercises and questions. Two cells train: one for 10 to 20 seconds, one for half a minute to two minutes, depending on the machine.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `encoder` | 2 | 8 | 2 |
# | `decoder` | 2 | 8 | 2 |
# | `shift_right` | 1 | 6 | 1 |
# | `transformer_logits` | 3 | 20 | 3 |
# | `label_smoothing_loss` | 3 | 20 | 3 |
# | `warmup_schedule` | 1 | 5 | 1 |
# | `greedy_decode` | 3 | 20 | 3 |
# | `parameter_count` | 2 | 10 | 2 |
# | question `08_q1` | | 3 | 1 |
# | question `08_q2` | | 3 | 1 |
# %% [markdown] lang="zh-TW"
# # 08 · 組起來：Encoder–Decoder
#
# 前面幾課做好了零件：注意力、多頭、位置、殘差與正規化、遮罩。這一課把它們組成一臺完整的機器，數一數它有多大，再訓練它讀「民國114年3月18日」、寫出 2025-03-18。
#
# 填補、開頭詞元、輸出層、標籤平滑、學習率，在本課程檢驗的「文件」（網路上常見的文章和講義）裡一個都沒出現。但其中大半，少了就跑不起來，所以這一課的練習就是它們。
#
# **先備知識**：第 03 到 07 課。**時間**：約兩個半小時，其中練習和選擇題 105 分鐘。有兩格要訓練：一格 10 到 20 秒，一格半分鐘到兩分鐘，看機器而定。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `encoder` | 2 | 8 | 2 |
# | `decoder` | 2 | 8 | 2 |
# | `shift_right` | 1 | 6 | 1 |
# | `transformer_logits` | 3 | 20 | 3 |
# | `label_smoothing_loss` | 3 | 20 | 3 |
# | `warmup_schedule` | 1 | 5 | 1 |
# | `greedy_decode` | 3 | 20 | 3 |
# | `parameter_count` | 2 | 10 | 2 |
# | 選擇題 `08_q1` | | 3 | 1 |
# | 選擇題 `08_q2` | | 3 | 1 |
# %% tags=["setup"]
import math
from collections.abc import Callable

import torch
from torch import Tensor

# %% [markdown] lang="en"
# ## 1. The question
#
# A date can be written in many ways. Minguo years count from 1912, so 民國114年 is 2025; English puts the month first, or the day. A program with a rule for each spelling is long and brittle.
#
# We want a machine that learns the rules from pairs of texts: one it reads, one it is to write. Reading is the **encoder**'s part, writing the **decoder**'s. Here are such pairs; a *token* is one character, the smallest useful choice.
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 同一個日期有許多寫法。民國紀年從 1912 年算起，民國114年就是 2025 年；英文有人先寫月、有人先寫日。要是每種寫法都寫一條規則，程式會又長又脆弱。
#
# 我們想要一臺機器，看著成對的文字自己學會規則：一邊是要讀的，一邊是要寫的。讀的部分是**編碼器**（encoder），寫的部分是**解碼器**（decoder）。下面就是這種資料；這裡一個字元就是一個詞元（token）。
# %%
from course_lib import plots
from course_lib.tasks import CharTokenizer, dates

torch.set_num_threads(1)  # small matrices: several threads would mostly wait for each other

split = dates()  # made on the spot; a tenth of all days is held out, in every spelling
tokenizer = CharTokenizer([text for pair in split.train for text in pair])
for source_text, target_text in split.train[:8]:
    print(f"{target_text}   ←   {source_text}")
print(f"{len(split.train):,} pairs to learn from, {len(split.test):,} to test with, {tokenizer.vocab_size} tokens")
# %% [markdown] lang="en"
# ## 2. The picture
#
# This is the model of 2017, at the paper's size, while it reads two dates. Click a block, or go to it with Tab and press Enter: it opens to its formula and to the shapes of *this* batch, as they were while the model ran.
#
# Start with the two attentions of the decoder: what do they read?
# %% [markdown] lang="zh-TW"
# ## 2. 圖像
#
# 這是 2017 年的模型，大小和論文一樣，正在讀兩個日期。點一個方塊（或用 Tab 移過去再按 Enter），就會看到它的公式，以及**這個**批次實際流過的形狀。
#
# 建議先打開解碼器的兩個注意力：它們各自讀什麼？
# %%
from IPython.display import HTML, display

from course_lib.config import TransformerConfig
from course_lib.explorer import explore
from course_lib.masks import padding_mask
from course_lib.transformer import Transformer

two_sources = tokenizer.encode(["民國114年3月18日", "114/3/18"])
two_targets = tokenizer.encode(["2025-03-18", "2025-03-18"])[:, :-1]
paper_size = Transformer(TransformerConfig.preset("vaswani_base", vocab_size=tokenizer.vocab_size))
display(HTML(explore(paper_size, two_sources, two_targets, padding_mask(two_sources), LANGUAGE)))
del paper_size
# %% [markdown] lang="en"
# ## 3. The formula
#
# The whole model is five lines. $s$ holds the source tokens, $t$ the target's; $P$ the positions; $E$ one row for each token.
#
# $$\begin{aligned}
# x &= \sqrt{d_\text{model}}\,E[s] + P && [B, M, d_\text{model}]\\
# \text{memory} &= \text{layer}_6(\dots\text{layer}_1(x)) && [B, M, d_\text{model}]\\
# y &= \sqrt{d_\text{model}}\,E[t] + P && [B, N, d_\text{model}]\\
# h &= \text{layer}'_6(\dots\text{layer}'_1(y, \text{memory})\dots, \text{memory}) && [B, N, d_\text{model}]\\
# \text{logits} &= h E^{\top}, \quad p = \mathrm{softmax}(\text{logits}) && [B, N, V]
# \end{aligned}$$
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# 整個模型只有五行。$s$ 是來源的詞元，$t$ 是目標的詞元，$P$ 是位置，$E$ 每個詞元一列（row）。
#
# $$\begin{aligned}
# x &= \sqrt{d_\text{model}}\,E[s] + P && [B, M, d_\text{model}]\\
# \text{memory} &= \text{layer}_6(\dots\text{layer}_1(x)) && [B, M, d_\text{model}]\\
# y &= \sqrt{d_\text{model}}\,E[t] + P && [B, N, d_\text{model}]\\
# h &= \text{layer}'_6(\dots\text{layer}'_1(y, \text{memory})\dots, \text{memory}) && [B, N, d_\text{model}]\\
# \text{logits} &= h E^{\top}, \quad p = \mathrm{softmax}(\text{logits}) && [B, N, V]
# \end{aligned}$$
# %% [markdown] lang="en"
# Two things in it surprise most readers.
#
# - **√d_model.** The documents write "embedding + position". The paper multiplies the embedding first.
# - **$E$ three times.** The table that turns source tokens into vectors also serves the target, and transposed it makes the logits: the score of a token is the inner product of $h$ with that token's own row.
#
# Both are about lengths, so let us compute some.
# %% [markdown] lang="zh-TW"
# 其中有兩點常讓人意外。
#
# - **√d_model**：文件寫的是「嵌入 + 位置」，論文卻先把嵌入放大。
# - **$E$ 用了三次**：把來源詞元變成向量的那張表，目標也用；轉置過來，還用來算 logits：一個詞元的分數，就是 $h$ 和它自己那一列的內積。
#
# 兩點都和長度有關，就來算算看。
# %% [markdown] lang="en"
# ## 4. By hand: three lengths at d_model = 512
#
# A position has 256 pairs $(\sin, \cos)$, and $\sin^2+\cos^2 = 1$: its length is $\sqrt{256} = 16$, at every place.
#
# A row of $E$ starts with 512 components of variance $1/512$: its squared length is about $512\cdot\frac1{512} = 1$. Next to a position of length 16 a word of length 1 is hardly there. Times $\sqrt{512} = 22.6$ it is the larger of the two.
# %% [markdown] lang="zh-TW"
# ## 4. 用手算：d_model = 512 時的三個長度
#
# 一個位置有 256 對 $(\sin, \cos)$，而 $\sin^2+\cos^2 = 1$，所以不管在哪裡，長度都是 $\sqrt{256} = 16$。
#
# $E$ 的一列剛開始有 512 個分量，變異數各 $1/512$，長度平方大約是 $512\cdot\frac1{512} = 1$。長度 1 的字放在長度 16 的位置旁邊，幾乎看不見；乘上 $\sqrt{512} = 22.6$ 之後，字就比位置長了。
# %% [markdown] lang="en"
# Why not start with longer rows, say components of variance 1? Because the same table makes the logits. After a LayerNorm $h$ has components of variance about 1, and lesson 03 says: the variance of the inner product is $512\,\sigma_E^2$. With $\sigma_E^2 = 1$ the logits spread by $\sqrt{512} = 22.6$, and softmax starts with one winner. With $1/512$ they spread by 1.
# %% [markdown] lang="zh-TW"
# 那為什麼不乾脆讓列一開始就長一點，例如變異數取 1？因為同一張表還要算 logits。
#
# 經過 LayerNorm，$h$ 的分量變異數約為 1；照第 03 課，內積的變異數是 $512\,\sigma_E^2$。$\sigma_E^2 = 1$ 的話，logits 的標準差是 $\sqrt{512} = 22.6$，softmax 一開始就只有一個贏家；取 $1/512$，標準差就是 1。
# %%
from course_lib.positions import sinusoidal_positions

generator = torch.Generator().manual_seed(8)
d_model = 512
positions_table = sinusoidal_positions(64, d_model)
table = torch.randn(1000, d_model, generator=generator) / math.sqrt(d_model)
h = torch.nn.functional.layer_norm(torch.randn(200, d_model, generator=generator), (d_model,))
root = math.sqrt(d_model)
row, spread = table.norm(dim=-1).mean(), (h @ table.T).std()
print(f"length of a position: {positions_table[0].norm():.1f} at place 0, {positions_table[63].norm():.1f} at place 63")
print(f"length of a row of E: {row:.1f}; times sqrt(512) = {root:.1f} it is {root * row:.1f}")
print("spread (standard deviation) of the logits,")
print(f"  if the entries of E have variance 1/512: {spread:.1f}")
print(f"  if they have variance 1 (the same rows, times sqrt(512)): {root * spread:.1f}")


# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - The result's type, shape, dtype and device, then its values. float64 in means float64 precision out.
# - Arguments come back unchanged, lists included; they may be non-contiguous; optional ones come by position or by name.
# - Any size may be 1, and its axis stays.
# - Masks are Boolean, **True = may attend**.
# - Layers and models that you are given are functions: call them, nothing else.
# - Not allowed: `nn.Transformer` and its layers, `nn.MultiheadAttention`, `F.scaled_dot_product_attention`, `course_lib`.
# - Best not to call your other answers: if one is wrong, both lose points.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看型別、形狀、dtype、裝置，再看數值。輸入是 float64，結果就要有 float64 的精度。
# - 引數不可被改動，串列（list）也一樣；記憶體不一定連續；有預設值的引數，可能按位置或按名稱給。
# - 任何大小都可能是 1，那個軸也要留著。
# - 遮罩是布林張量，**True 代表可以看**。
# - 傳進來的層和模型都是函式：呼叫它們就好。
# - 不可使用 `nn.Transformer` 及其各層、`nn.MultiheadAttention`、`F.scaled_dot_product_attention`、`course_lib`。
# - 最好不要呼叫其他儲存格的函式：那個錯了，這一題也會跟著錯。
# %% [markdown] lang="en"
# ### Exercise `encoder` · difficulty 2 of 5 · 8 minutes · 2 points
#
# **Small first.** $d_\text{model} = 4$, the token 7 stands at place 0, $E[7] = (1, 0, 0, 0)$, $P_0 = (0, 1, 0, 1)$. Then $\sqrt4\,E[7] + P_0 = (2, 1, 0, 1)$ goes into the first layer.
#
# **In general** look up all tokens, scale, add the first $M$ rows of $P$ for $M$ tokens (the table has $L \ge M$). Then `layer(x, mask)` in order, each reading what the one before it wrote. The mask goes to each layer as it came, `None` too. There may be no layer at all. No norm at the end: the layers of 2017 end with their own.
# %% [markdown] lang="zh-TW"
# ### 練習 `encoder` · 難度 2／5 · 8 分鐘 · 滿分 2 分
#
# **先看小例子**：$d_\text{model} = 4$，詞元 7 在位置 0，$E[7] = (1, 0, 0, 0)$，$P_0 = (0, 1, 0, 1)$。那麼 $\sqrt4\,E[7] + P_0 = (2, 1, 0, 1)$ 進入第一層。
#
# **一般情形**：查表、放大，有 $M$ 個詞元就加上 $P$ 的前 $M$ 列（表有 $L \ge M$ 列）。接著依序呼叫 `layer(x, mask)`，每層讀前一層的輸出。遮罩原樣傳給每一層，`None` 也一樣。可能一層都沒有。最後不必再正規化：2017 年的層，自己就以正規化結尾。
# %% exercise="encoder"
def encoder(
    tokens: Tensor, embedding: Tensor, positions: Tensor, layers: list[Callable], mask: Tensor | None = None
) -> Tensor:
    """Read the source: embed, add positions, run the layers.

    Args:
        tokens: token ids of the source, Long [B, M].
        embedding: the table E, [V, d_model], float32 or float64.
        positions: the table P, [L, d_model], L >= M; place 0 is row 0.
        layers: functions layer(x, mask) -> x of the same shape, to be run in order; the list may be empty.
        mask: handed to every layer as it is: Boolean, or None.

    Returns:
        [B, M, d_model]: sqrt(d_model) * E[tokens] + P[0 .. M-1], then through all layers. No norm behind them.

    Judged: zero, one, two and three layers; masks [B, 1, 1, M], [B, 1, M, M] and None; M smaller than L and equal to it;
    every size 1; float64; gradients with respect to embedding and positions; inputs left unchanged, contiguous or not.
    """
    ### BEGIN SOLUTION
    d_model = embedding.shape[-1]
    x = math.sqrt(d_model) * embedding[tokens] + positions[: tokens.shape[1]]
    for layer in layers:
        x = layer(x, mask)
    return x
    ### END SOLUTION


# %%
check("encoder", encoder)


# %% [markdown] lang="en"
# ### Exercise `decoder` · difficulty 2 of 5 · 8 minutes · 2 points
#
# The decoder is built alike, with two additions in each layer's brackets: `layer(x, memory, mask, memory_mask)`. The `memory` is what the encoder wrote, $[B, M, d_\text{model}]$. **Every** layer reads the same memory, and it reaches each unchanged; `memory_mask` tells which of its rows are real.
#
# **Small first.** With the numbers above and no layers the result is again $(2, 1, 0, 1)$, whatever the memory. This function makes no masks of its own.
# %% [markdown] lang="zh-TW"
# ### 練習 `decoder` · 難度 2／5 · 8 分鐘 · 滿分 2 分
#
# 解碼器的構造一樣，只是每一層的括號裡多兩樣東西：`layer(x, memory, mask, memory_mask)`。`memory`（記憶）是編碼器寫下的結果，$[B, M, d_\text{model}]$。**每一層**讀的都是同一份記憶，原封不動；`memory_mask` 說明其中哪些列是真的。
#
# **先看小例子**：沿用上面的數字，一層都沒有時，不管記憶是什麼，結果還是 $(2, 1, 0, 1)$。這個函式自己不做遮罩。
# %% exercise="decoder"
def decoder(
    tokens: Tensor,
    memory: Tensor,
    embedding: Tensor,
    positions: Tensor,
    layers: list[Callable],
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
) -> Tensor:
    """Read the target so far, with the memory of the source at hand.

    Args:
        tokens: token ids of the target, Long [B, N].
        memory: what the encoder returned, [B, M, d_model].
        embedding: the table E, [V, d_model], float32 or float64.
        positions: the table P, [L, d_model], L >= N.
        layers: functions layer(x, memory, mask, memory_mask) -> x, to be run in order; the list may be empty.
        mask: of the target, handed to every layer as it is: Boolean, or None.
        memory_mask: of the memory, likewise.

    Returns:
        [B, N, d_model]: as in the encoder, through all layers. Every layer gets the same memory.

    Judged: zero to three layers; every size 1; N different from M, and equal to it with two different masks; each mask alone, and
    none; float64; gradients with respect to memory, embedding and positions; inputs left unchanged, contiguous or not.
    """
    ### BEGIN SOLUTION
    d_model = embedding.shape[-1]
    x = math.sqrt(d_model) * embedding[tokens] + positions[: tokens.shape[1]]
    for layer in layers:
        x = layer(x, memory, mask, memory_mask)
    return x
    ### END SOLUTION


# %%
check("decoder", decoder)


# %% [markdown] lang="en"
# ## 6. What the decoder reads
#
# In training the whole target is known: 2025-03-18. For each place the decoder is to name the *next* token. So its input is the target, moved one place to the right, behind a start token (here `^`; `~` is the end):
#
# | place | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |
# |---|---|---|---|---|---|---|---|---|---|---|---|
# | it reads | ^ | 2 | 0 | 2 | 5 | - | 0 | 3 | - | 1 | 8 |
# | label | 2 | 0 | 2 | 5 | - | 0 | 3 | - | 1 | 8 | ~ |
#
# At place 3 it has read `^202` and is to say 5.
# %% [markdown] lang="zh-TW"
# ## 6. 解碼器讀什麼
#
# 訓練時整個目標都已知：2025-03-18。每個位置要說出的是**下一個**詞元。所以解碼器的輸入是目標往右移一格，最前面放一個開頭詞元（這裡寫成 `^`；`~` 是結尾）：
#
# | 位置 | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |
# |---|---|---|---|---|---|---|---|---|---|---|---|
# | 讀到 | ^ | 2 | 0 | 2 | 5 | - | 0 | 3 | - | 1 | 8 |
# | 標籤 | 2 | 0 | 2 | 5 | - | 0 | 3 | - | 1 | 8 | ~ |
#
# 在位置 3，它讀過 `^202`，要說出 5。
# %% [markdown] lang="en"
# ### Exercise `shift_right` · difficulty 1 of 5 · 6 minutes · 1 point
#
# **Small first.** Labels $(5, 6, 7)$, start 1: the decoder reads $(1, 5, 6)$. The last label is read by no one.
#
# Labels often contain $-100$: "this place does not count in the loss". An embedding has no row $-100$, so in the input it becomes `pad_id`: labels $(5, 6, -100, -100)$ give $(1, 5, 6, 0)$ with padding 0.
# %% [markdown] lang="zh-TW"
# ### 練習 `shift_right` · 難度 1／5 · 6 分鐘 · 滿分 1 分
#
# **先看小例子**：標籤 $(5, 6, 7)$，開頭是 1，解碼器讀到 $(1, 5, 6)$。最後一個標籤沒有人讀。
#
# 標籤裡常有 $-100$，意思是「這個位置不算進損失」。嵌入沒有第 $-100$ 列，所以在輸入裡要換成 `pad_id`：標籤 $(5, 6, -100, -100)$、填補是 0 時，得到 $(1, 5, 6, 0)$。
# %% exercise="shift_right"
def shift_right(labels: Tensor, start_id: int, pad_id: int = 0) -> Tensor:
    """What the decoder reads in training: the start token, then all labels but the last.

    Args:
        labels: Long [B, N]; entries are token ids or -100 (not counted in the loss). N may be 1.
        start_id: the start token, may be 0.
        pad_id: what a -100 becomes, may differ from 0 and from start_id.

    Returns:
        Long [B, N].

    Judged: start and padding of different ids, each of them 0 or not; -100 at the end and inside; N = 1; labels left
    unchanged, contiguous or not.
    """
    ### BEGIN SOLUTION
    start = torch.full_like(labels[:, :1], start_id)
    inputs = torch.cat([start, labels[:, :-1]], dim=1)
    return inputs.masked_fill(inputs == -100, pad_id)
    ### END SOLUTION


# %%
check("shift_right", shift_right)


# %% [markdown] lang="en"
# ## 7. Which mask goes where
#
# Three attentions, three masks. Each hides **keys**, so ask: whose keys are read?
#
# | attention | keys of | hidden |
# |---|---|---|
# | encoder's self-attention | source | the source's padding |
# | decoder's self-attention | target | what comes later, and the target's padding |
# | cross-attention | source | the source's padding, once more |
#
# **Small first.** A target of three tokens, the first of them padding. Rows are queries, 1 = open:
# $\begin{pmatrix}0&0&0\\0&1&0\\0&1&1\end{pmatrix}$. The first row has nothing to see; lesson 07 made such rows zeros.
# %% [markdown] lang="zh-TW"
# ## 7. 哪個遮罩放哪裡
#
# 三種注意力，三個遮罩。遮的都是**鍵**，所以先問：讀的是誰的鍵？
#
# | 注意力 | 誰的鍵 | 遮住什麼 |
# |---|---|---|
# | 編碼器的自注意力 | 來源 | 來源的填補 |
# | 解碼器的自注意力 | 目標 | 後面的詞元，以及目標的填補 |
# | 交叉注意力 | 來源 | 還是來源的填補 |
#
# **先看小例子**：目標有三個詞元，第一個是填補。列是查詢，1 表示看得到：$\begin{pmatrix}0&0&0\\0&1&0\\0&1&1\end{pmatrix}$。第一列沒有東西可看；第 07 課讓這種列得到 0。
# %% [markdown] lang="en"
# ### Exercise `transformer_logits` · difficulty 3 of 5 · 20 minutes · 3 points
#
# You are given `encoder(tokens, mask)` and `decoder(tokens, memory, mask, memory_mask)` as functions, with tables and layers inside. Make the masks, run both, and turn hidden states into logits with the tied table:
#
# $$\text{logits} = h E^{\top}, \qquad \text{logits}_{bnv} = h_{bn}\cdot E_v$$
#
# - Masks may have any shape that broadcasts to $[B, 1, N, M]$ (for the memory), $[B, 1, M, M]$, $[B, 1, N, N]$.
# - A padding token is hidden from everyone, itself included. Padded *queries* are treated like others; their logits are compared too.
# - `target` is the decoder's input: shifted already. Padding may stand on the left.
# %% [markdown] lang="zh-TW"
# ### 練習 `transformer_logits` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# 傳進來的 `encoder(tokens, mask)` 和 `decoder(tokens, memory, mask, memory_mask)` 是函式，表和層都在裡面。請做好遮罩、執行兩者，再用共用的表把隱藏狀態變成 logits：
#
# $$\text{logits} = h E^{\top}, \qquad \text{logits}_{bnv} = h_{bn}\cdot E_v$$
#
# - 遮罩的形狀，只要能廣播成 $[B, 1, N, M]$（記憶）、$[B, 1, M, M]$、$[B, 1, N, N]$ 就行。
# - 填補對所有位置都遮住，對它自己也一樣。填補位置的**查詢**照常計算，它的 logits 也會比對。
# - `target` 是解碼器的輸入，已經右移過了。填補可能在左邊。
# %% exercise="transformer_logits"
def transformer_logits(
    source: Tensor, target: Tensor, encoder: Callable, decoder: Callable, embedding: Tensor, pad_id: int = 0
) -> Tensor:
    """The whole model: masks, encoder, decoder, output layer.

    Args:
        source: token ids, Long [B, M].
        target: the decoder's input, shifted right already, Long [B, N].
        encoder: encoder(tokens, mask) -> [B, M, d_model].
        decoder: decoder(tokens, memory, mask, memory_mask) -> [B, N, d_model].
        embedding: the table E, [V, d_model], float32 or float64.
        pad_id: the padding token; it may stand on the right or on the left.

    Returns:
        Raw logits [B, N, V], for all positions: no softmax.

    A key is open iff it is not padding and, in the decoder's self-attention, not later than the query (a position sees
    itself). Masks are Boolean, True = may attend.

    Judged: padding on the right, on the left and none; a pad_id that is not 0, where 0 is a word; N different from M and
    equal to it; one token each; float64; gradients with respect to the embedding; inputs left unchanged, contiguous or
    not.
    """
    ### BEGIN SOLUTION
    source_mask = (source != pad_id)[:, None, None, :]  # [B, 1, 1, M]
    n = target.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool, device=target.device).tril()
    target_mask = (target != pad_id)[:, None, None, :] & causal  # [B, 1, N, N]
    memory = encoder(source, source_mask)
    hidden = decoder(target, memory, target_mask, source_mask)
    return hidden @ embedding.T
    ### END SOLUTION


# %%
check("transformer_logits", transformer_logits)
# %% [markdown] lang="en"
# ### The same as the course's model
#
# `course_lib`'s layers return their attention weights as well, so they are wrapped first. Then your three functions, run over the layers of a `course_lib` model, must give the very logits of that model.
# %% [markdown] lang="zh-TW"
# ### 跟課程的模型一樣
#
# `course_lib` 的層還會回傳注意力權重，所以先包裝一下。接著讓你的三個函式跑在 `course_lib` 模型的層上，得到的 logits 應該跟那個模型一模一樣。
# %%
my_encoder, my_decoder = use("encoder", encoder), use("decoder", decoder)
my_logits = use("transformer_logits", transformer_logits)


def assembled(model: Transformer) -> Callable:
    """model(source, target) -> logits: the functions of this lesson over the layers and tables of a course_lib model."""
    E, P = model.embedding.token.weight, model.embedding.table
    read_layers = [lambda x, mask, layer=layer: layer(x, mask)[0] for layer in model.encoder.layers]
    write_layers = [
        lambda x, memory, mask, memory_mask, layer=layer: layer(x, memory, mask, memory_mask)[0]
        for layer in model.decoder.layers
    ]

    def run(source: Tensor, target: Tensor) -> Tensor:
        def read(tokens, mask):
            return my_encoder(tokens, E, P, read_layers, mask)

        def write(tokens, memory, mask, memory_mask):
            return my_decoder(tokens, memory, E, P, write_layers, mask, memory_mask)

        return my_logits(source, target, read, write, E, tokenizer.pad_id)

    return run


def small_2017(seed: int = 0) -> Transformer:
    """The model of 2017 with its norms behind the sublayers, two layers of each kind, 32 wide."""
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64, "vocab_size": tokenizer.vocab_size}
    return Transformer(TransformerConfig.preset("vaswani_base", dropout=0.0, **sizes))


model = small_2017()
with torch.no_grad():
    theirs, _ = model(two_sources, two_targets, padding_mask(two_sources))
    ours = assembled(model)(two_sources, two_targets)
print(f"logits {list(ours.shape)}, largest difference {(ours - theirs).abs().max():.1e}")


# %% [markdown] lang="en"
# ## 8. The loss
#
# For each place the model gives $V$ log-probabilities, and one class is right. Cross-entropy is minus the log-probability of that class. **Label smoothing** asks for a little less certainty: the target is $1-\varepsilon$ on the right class, plus $\varepsilon/V$ on every class, the right one too.
#
# **Small first**: $V = 4$, $\varepsilon = 0.1$. The target is $(0.925, 0.025, 0.025, 0.025)$. If the model says $(0.7, 0.1, 0.1, 0.1)$, the loss is $-0.925\ln 0.7 - 3\cdot0.025\ln 0.1 = 0.330 + 0.173 = 0.503$. Without smoothing it would be $0.357$.
# %% [markdown] lang="zh-TW"
# ## 8. 損失
#
# 模型在每個位置給出 $V$ 個對數機率，其中一類是對的；交叉熵就是那一類的對數機率加上負號。**標籤平滑**要模型別太有把握：目標在正確類別是 $1-\varepsilon$，再加上每一類（包括正確的）各 $\varepsilon/V$。
#
# **先看小例子**：$V = 4$、$\varepsilon = 0.1$，目標是 $(0.925, 0.025, 0.025, 0.025)$。模型說 $(0.7, 0.1, 0.1, 0.1)$ 時，損失是 $-0.925\ln 0.7 - 3\cdot0.025\ln 0.1 = 0.330 + 0.173 = 0.503$；不平滑是 $0.357$。
# %% [markdown] lang="en"
# ### Exercise `label_smoothing_loss` · difficulty 3 of 5 · 20 minutes · 3 points
#
# $$\ell = -(1-\varepsilon)\ln p_{y} - \frac{\varepsilon}{V}\sum_{v=1}^{V}\ln p_v, \qquad \text{loss} = \text{mean of } \ell \text{ over the places that count}$$
#
# A place counts if its label is not `ignore_index`, which may be $-100$ or a valid class, for example the padding. The mean is over **all** counting places of the batch together, not row by row. If none counts, the loss is 0.
#
# Logits near ±6000 occur: take the logarithm together with the softmax. `F.cross_entropy`, `nn.CrossEntropyLoss`, `F.kl_div`, `nn.KLDivLoss` and their like (`F.linear_cross_entropy`) are not allowed; `torch.log_softmax` is.
# %% [markdown] lang="zh-TW"
# ### 練習 `label_smoothing_loss` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# $$\ell = -(1-\varepsilon)\ln p_{y} - \frac{\varepsilon}{V}\sum_{v=1}^{V}\ln p_v, \qquad \text{loss} = \text{所有計入位置的 } \ell \text{ 的平均}$$
#
# 標籤不等於 `ignore_index` 的位置才計入；它可能是 $-100$，也可能是有效的類別，例如填補。平均是對整個批次**所有**計入的位置一起算，不是一列一列算。都不計入時，損失是 0。
#
# logits 可能到 ±6000：對數要跟 softmax 一起算。不可使用 `F.cross_entropy`、`nn.CrossEntropyLoss`、`F.kl_div`、`nn.KLDivLoss` 這一類（包括 `F.linear_cross_entropy`）；可以用 `torch.log_softmax`。
# %% exercise="label_smoothing_loss"
def label_smoothing_loss(logits: Tensor, target: Tensor, smoothing: float = 0.1, ignore_index: int = -100) -> Tensor:
    """Cross-entropy against (1 - smoothing) * one-hot + smoothing / V, as a mean over the places that count.

    Args:
        logits: [B, N, V], float32 or float64, V >= 2.
        target: labels, Long [B, N]: classes 0 .. V-1, or ignore_index.
        smoothing: epsilon, from 0 to below 1.
        ignore_index: label of the places that do not count; negative, or one of the classes.

    Returns:
        A 0-d tensor in the dtype of the logits: the mean over all places that count, 0 if none does.

    Judged: all places counting, sequences of unequal length, nothing counting, one place alone; epsilon 0 and others;
    ignore_index = 0 and -1; logits near 6000 and -6000 (float64); float64; gradients with respect to the logits; inputs left
    unchanged, contiguous or not.
    """
    ### BEGIN SOLUTION
    counts = target != ignore_index
    log_p = torch.log_softmax(logits, dim=-1)
    # An ignored label may be no class at all: class 0 stands in for it, and its loss is taken away below.
    right = log_p.gather(-1, target.masked_fill(~counts, 0).unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(dim=-1)
    return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp(min=1)
    ### END SOLUTION


# %%
check("label_smoothing_loss", label_smoothing_loss)
# %% [markdown] lang="en"
# ### What smoothing does
#
# Let the logit be $z$ for the right class and 0 for nine others. Without smoothing the loss falls for ever as $z$ grows; the model is paid for being certain. With $\varepsilon = 0.1$ there is a best $z$, where $p$ equals the target: $0.91$ on the right class.
#
# The paper says of it: worse perplexity, better translations.
# %% [markdown] lang="zh-TW"
# ### 平滑做了什麼
#
# 正確類別的 logit 是 $z$，另外九個類別都是 0。不平滑時，$z$ 愈大損失愈小，沒有盡頭：模型愈有把握，獎勵愈多。$\varepsilon = 0.1$ 時有一個最好的 $z$，在那裡 $p$ 恰好等於目標：正確類別 $0.91$。
#
# 論文對它的評語是：困惑度變差，翻譯變好。
# %%
loss_of = use("label_smoothing_loss", label_smoothing_loss)

z = torch.linspace(-1, 10, 111, dtype=torch.float64)
series = {}
for epsilon in (0.0, 0.1):
    logits = torch.zeros(len(z), 1, 1, 10, dtype=torch.float64)
    logits[:, 0, 0, 0] = z
    series[f"ε = {epsilon}"] = [loss_of(one, torch.tensor([[0]]), epsilon).item() for one in logits]
best = z[torch.tensor(series["ε = 0.1"]).argmin()]
p_best = torch.softmax(torch.tensor([best, *[0.0] * 9]), -1)[0]
print(f"smallest loss with smoothing: {min(series['ε = 0.1']):.3f} at z = {best:.1f}, where p = {p_best:.3f}")
ax = plots.curves(z, series, "logit z of the right class", "loss", "Label smoothing, V = 10")


# %% [markdown] lang="en"
# ### Exercise `warmup_schedule` · difficulty 1 of 5 · 5 minutes · 1 point
#
# The learning rate of the paper, for step 1, 2, 3, …:
#
# $$\eta(\text{step}) = d_\text{model}^{-1/2}\cdot\min\!\left(\text{step}^{-1/2},\ \text{step}\cdot\text{warmup}^{-3/2}\right)$$
#
# **Small first**: $d_\text{model} = 4$, warmup $= 4$. Step 1: $\frac12\min(1, \frac18) = 0.0625$. Step 4: $\frac12\min(\frac12, \frac12) = 0.25$, the peak. Step 16: $\frac12\min(\frac14, 2) = 0.125$. Step 0 gives 0.0.
# %% [markdown] lang="zh-TW"
# ### 練習 `warmup_schedule` · 難度 1／5 · 5 分鐘 · 滿分 1 分
#
# 論文的學習率，步數從 1 數起：
#
# $$\eta(\text{step}) = d_\text{model}^{-1/2}\cdot\min\!\left(\text{step}^{-1/2},\ \text{step}\cdot\text{warmup}^{-3/2}\right)$$
#
# **先看小例子**：$d_\text{model} = 4$、暖身（warm-up）4 步。第 1 步：$\frac12\min(1, \frac18) = 0.0625$。第 4 步：$\frac12\min(\frac12, \frac12) = 0.25$，最高點。第 16 步：$\frac12\min(\frac14, 2) = 0.125$。第 0 步是 0.0。
# %% exercise="warmup_schedule"
def warmup_schedule(step: int, d_model: int = 512, warmup: int = 4000) -> float:
    """The learning rate of 2017: it rises in a straight line for `warmup` steps, then falls with the root of the step.

    Args:
        step: 0, 1, 2, …; step 0 gives 0.0.
        d_model: width of the model, at least 1.
        warmup: number of steps it rises for, at least 1.

    Returns:
        A Python float.

    Judged: the first steps, before and after the peak, step 0, the defaults, an argument by name.
    """
    ### BEGIN SOLUTION
    if step == 0:
        return 0.0
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


# %%
check("warmup_schedule", warmup_schedule)
# %% [markdown] lang="en"
# Adam divides each gradient by its typical size, which it has to estimate first: from a handful of steps the estimate is poor. Besides, with norms behind the sublayers the gradient has no clean path through the model (lesson 06). So the rate starts near 0. The paper: Adam with $\beta = (0.9, 0.98)$, $\varepsilon = 10^{-9}$.
# %% [markdown] lang="zh-TW"
# Adam 會把每個梯度除以它平常的大小，但這要先估計：只走幾步，估得很粗；而且正規化放在子層後面時，梯度沒有一條乾淨的直線可走（第 06 課）。所以學習率從接近 0 開始。論文的設定是 Adam，$\beta = (0.9, 0.98)$、$\varepsilon = 10^{-9}$。
# %%
rate_of = use("warmup_schedule", warmup_schedule)

steps = range(1, 20_001, 50)
rates = {
    f"d_model = {d}, warmup = {w}": [rate_of(step, d, w) for step in steps]
    for d, w in ((512, 4000), (512, 8000), (1024, 4000))
}
print(f"the base model's peak: {rate_of(4000):.6f} at step 4000")
ax = plots.curves(steps, rates, "step", "learning rate", "The schedule of 2017")


# %% [markdown] lang="en"
# ## 9. Writing: one token at a time
#
# After training there is no target to shift. The decoder gets the start token alone and says what comes next; that token is appended and all is read again, until the end token comes. **Greedy** means: always the most likely token.
#
# **Small first**, two rows, end $= 2$, padding $= 0$:
#
# | | start | 1st | 2nd | 3rd |
# |---|---|---|---|---|
# | row A | 1 | 7 | 2 | 0 |
# | row B | 1 | 5 | 6 | 2 |
#
# A has ended after two tokens and waits for B with padding.
# %% [markdown] lang="zh-TW"
# ## 9. 寫：一次一個詞元
#
# 訓練完之後，就沒有目標可以右移了。解碼器先只拿到開頭詞元，說出下一個；把它接上去，再從頭讀一遍，直到出現結束詞元。**貪婪解碼**的意思是：每次都取最可能的詞元。
#
# **先看小例子**，兩列，結束是 2、填補是 0：
#
# | | 開頭 | 第 1 個 | 第 2 個 | 第 3 個 |
# |---|---|---|---|---|
# | A 列 | 1 | 7 | 2 | 0 |
# | B 列 | 1 | 5 | 6 | 2 |
#
# A 寫兩個就結束了，用填補等 B。
# %% [markdown] lang="en"
# ### Exercise `greedy_decode` · difficulty 3 of 5 · 20 minutes · 3 points
#
# `model(source, tokens)` returns logits $[B, n, V]$ for the $n$ tokens so far; the last place predicts the next one.
#
# - Stop as soon as every row has ended, or after `max_new_tokens` new columns (0 is allowed).
# - A row that has produced `end_id` gets `pad_id` from then on. The end token itself stays.
# - The start never counts as an end, even where both have the same id (BART does that).
# - There are no ties.
# %% [markdown] lang="zh-TW"
# ### 練習 `greedy_decode` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# `model(source, tokens)` 對目前的 $n$ 個詞元回傳 logits $[B, n, V]$；最後一個位置預測下一個。
#
# - 每一列都結束就停，或者新增了 `max_new_tokens` 行（column）就停（可以是 0）。
# - 產生過 `end_id` 的列，之後都填 `pad_id`；結束詞元本身要保留。
# - 開頭不算結束，就算兩者編號相同也一樣（BART 就是這樣）。
# - 不會有同分。
# %% exercise="greedy_decode"
def greedy_decode(
    model: Callable, source: Tensor, start_id: int, end_id: int, max_new_tokens: int, pad_id: int = 0
) -> Tensor:
    """Write the most likely token, again and again.

    Args:
        model: model(source, tokens: Long [B, n]) -> logits [B, n, V]; it is to read all tokens so far.
        source: what the model reads, a tensor with B rows; handed on as it is.
        start_id: the first token of every row; may equal end_id.
        end_id: ends a row.
        max_new_tokens: the most columns that are added to the start, 0 or more.
        pad_id: fills a row behind its end; may differ from 0.

    Returns:
        Long [B, 1 + T] with the start, all that was written, end tokens and padding. T is the number of steps until every
        row has ended, at most max_new_tokens.

    Judged: rows that end at different steps, a row that never ends, one row alone; padding that is not 0; start and end
    of the same id; rows that write pad_id before they end; a source that is not int64, or of shape [B, S, d];
    max_new_tokens = 0; source left unchanged.
    """
    ### BEGIN SOLUTION
    tokens = torch.full((source.shape[0], 1), start_id, device=source.device)
    ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
    for _ in range(max_new_tokens):
        if ended.all():
            break
        chosen = model(source, tokens)[:, -1].argmax(dim=-1)
        chosen = chosen.masked_fill(ended, pad_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    return tokens
    ### END SOLUTION


# %%
check("greedy_decode", greedy_decode)


# %% [markdown] lang="en"
# ## 10. How large is it?
#
# The convention of this course for 2017: attention is four $d_\text{model}\times d_\text{model}$ matrices without biases; the feed-forward network has both its biases; a LayerNorm has a scale and a shift. Positions are sines: nothing to learn.
#
# **Small first**: $d_\text{model} = 2$, $d_\text{ff} = 3$. Attention: $4\cdot2\cdot2 = 16$. Feed-forward: $2\cdot3 + 3 + 3\cdot2 + 2 = 17$. A norm: 4. Encoder layer: $16 + 17 + 2\cdot4 = 41$. Decoder layer: $2\cdot16 + 17 + 3\cdot4 = 61$.
# %% [markdown] lang="zh-TW"
# ## 10. 它有多大？
#
# 本課程計算 2017 年模型的約定：注意力是四個 $d_\text{model}\times d_\text{model}$ 矩陣，沒有偏置；前饋網路的兩個偏置都有；LayerNorm 有縮放和平移。位置是正弦波，沒有要學的東西。
#
# **先看小例子**：$d_\text{model} = 2$、$d_\text{ff} = 3$。注意力 $4\cdot2\cdot2 = 16$；前饋 $2\cdot3 + 3 + 3\cdot2 + 2 = 17$；一個正規化 4。編碼器一層 $16 + 17 + 2\cdot4 = 41$，解碼器一層 $2\cdot16 + 17 + 3\cdot4 = 61$。
# %% [markdown] lang="en"
# ### Exercise `parameter_count` · difficulty 2 of 5 · 10 minutes · 2 points
#
# `n_layers` encoder layers and as many decoder layers. An encoder layer has one attention, a decoder layer two; each sublayer is followed by one norm; nothing stands behind the stacks. Count yourself, without `nn.Transformer` and its layers. `tied`: one table of $V\times d_\text{model}$ for source, target and output; otherwise three (and no bias in the output).
#
# With one layer of each and five words the small model has $41 + 61 + 5\cdot2 = 112$.
# %% [markdown] lang="zh-TW"
# ### 練習 `parameter_count` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 編碼器和解碼器各 `n_layers` 層。編碼器的一層有一個注意力，解碼器有兩個；每個子層後面有一個正規化；兩個堆疊的最後面沒有別的。請自己數，不能用 `nn.Transformer` 及其各層。`tied` 為真時，來源、目標、輸出共用一張 $V\times d_\text{model}$ 的表，否則有三張（輸出沒有偏置）。
#
# 兩種各一層、詞彙五個字的話，上面的小模型有 $41 + 61 + 5\cdot2 = 112$ 個參數。
# %% exercise="parameter_count"
def parameter_count(
    vocab_size: int, d_model: int = 512, n_heads: int = 8, d_ff: int = 2048, n_layers: int = 6, tied: bool = True
) -> int:
    """Numbers that the model of 2017 learns.

    Args:
        vocab_size: V.
        d_model: width; a multiple of n_heads.
        n_heads: number of heads.
        d_ff: inner width of the feed-forward network.
        n_layers: encoder layers, and as many decoder layers.
        tied: one table for source, target and output, or three.

    Returns:
        A Python int. Attention without biases, feed-forward with both, LayerNorms with scale and shift (two in an encoder
        layer, three in a decoder layer), positions without parameters.

    Judged: the paper's sizes, other sizes, one layer, three tables.
    """
    ### BEGIN SOLUTION
    attention = 4 * d_model**2
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    tables = 1 if tied else 3
    return tables * vocab_size * d_model + n_layers * (encoder_layer + decoder_layer)
    ### END SOLUTION


# %%
check("parameter_count", parameter_count)
# %% [markdown] lang="en"
# ### The base model, part by part
#
# The paper's vocabulary has about 37,000 tokens. Your count, and the count of a real model (built on PyTorch's *meta* device, which makes shapes but no numbers), should agree to the last digit.
# %% [markdown] lang="zh-TW"
# ### 一部分一部分數
#
# 論文的詞彙表大約有 37,000 個詞元。你數的結果，和一個真的模型（建在 PyTorch 的 *meta* 裝置上，只有形狀、沒有數字）應該一個都不差。
# %%
from course_lib.summary import count_parameters

count = use("parameter_count", parameter_count)
with torch.device("meta"):
    base = Transformer(TransformerConfig.preset("vaswani_base"))
parts = {"table E": count_parameters(base.embedding), "attention": 0, "feed-forward": 0, "norms": 0}
for name, module in base.named_modules():
    kind = {"attention": "attention", "cross_attention": "attention", "feed_forward": "feed-forward"}.get(
        name.split(".")[-1]
    )
    kind = "norms" if "norm_" in name else kind
    if kind is not None:
        parts[kind] += count_parameters(module)
for name, number in parts.items():
    print(f"{name:<13} {number:>11,}  {number / count_parameters(base):6.2%}")
print(
    f"{'all':<13} {sum(parts.values()):>11,}   your count: {count(37_000):,}   "
    f"three tables: {count(37_000, tied=False):,}"
)
print(f"layers: {len(base.encoder.layers)} + {len(base.decoder.layers)}; dropout {base.config.dropout}")
ax = plots.bars(
    list(parts),
    {"parameters": [number / 1e6 for number in parts.values()]},
    "million parameters",
    "The base model of 2017",
)
# %% [markdown] lang="en"
# 63,045,632. The paper's Table 3 prints 65 million (and 213 for the large model). The exact figure depends on the exact vocabulary and on biases, and it states neither.
#
# Where is the largest part? Not in attention: the feed-forward networks hold 40 %.
# %% [markdown] lang="zh-TW"
# 63,045,632。論文的表 3 印的是 6500 萬（大模型 2 億 1300 萬）。確切的數字取決於詞彙表的精確大小和有沒有偏置，論文都沒有寫。
#
# 最大的一塊在哪裡？不是注意力：前饋網路占了 40 %。
# %% [markdown] lang="en"
# ## 11. What keeps the decoder from copying?
#
# Shift and causal mask belong together. One document shows the mask and never mentions the shift. What if it is left out, so that the decoder's input *is* the labels? At place $t$ it then sees its own answer.
#
# We train the small model of 2017 twice for 80 steps, with the shift and without, all through your functions. Before you run it: which loss falls faster?
# %% [markdown] lang="zh-TW"
# ## 11. 是什麼讓解碼器不能用抄的？
#
# 右移和因果遮罩是一組的。有一份文件畫了遮罩，卻沒提右移。如果省掉右移，讓解碼器的輸入**就是**標籤，會怎樣？在位置 $t$，它會直接看到自己的答案。
#
# 我們用你的函式把 2017 年的小模型各訓練 80 步，一次有右移，一次沒有。執行之前先猜：哪一個的損失降得快？
# %% tags=["experiment"]
from course_lib.training import text_tensors

shift = use("shift_right", shift_right)
decode = use("greedy_decode", greedy_decode)
sources, targets = text_tensors(tokenizer, split.train)
labels = targets[:, 1:]  # without the start token: what is to be said
test_sources, test_targets = text_tensors(tokenizer, split.test)


def exact_share(run: Callable, n: int) -> float:
    """The share of the first n held-out dates that `run` writes without a mistake."""
    with torch.no_grad():
        written = decode(run, test_sources[:n], tokenizer.bos_id, tokenizer.eos_id, 11, tokenizer.pad_id)
    texts = tokenizer.decode(written)
    return sum(text == pair[1] for text, pair in zip(texts, split.test)) / n


leaks = {}
for name, inputs in (("shifted", shift(labels, tokenizer.bos_id)), ("not shifted", labels)):
    model = small_2017()
    run, losses = assembled(model), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 81):
        rows = slice(32 * step - 32, 32 * step)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, 32, 60)
        loss = loss_of(run(sources[rows], inputs[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    leaks[name] = losses
    print(
        f"{name:<12} loss {losses[0]:.2f} at first, {sum(losses[-10:]) / 10:.2f} at last; "
        f"exact dates {exact_share(run, 200):.0%}"
    )
ax = plots.curves(range(1, 81), leaks, "step", "loss", "The same model, with and without the shift")
# %% [markdown] lang="en"
# Without the shift the loss soon comes close to its lowest possible value, and the model has learned nothing: it copies its input. When it has to write by itself there is nothing to copy, and no date is right. The honest model is slower; 80 steps are far too few for it. **A loss that falls too well is a warning.**
# %% [markdown] lang="zh-TW"
# 沒有右移時，損失很快就接近可能的最小值，模型卻什麼也沒學到：它只是照抄輸入。輪到自己寫的時候沒東西可抄，一個日期都不對。老實的模型慢得多，80 步還差得遠。**損失降得太漂亮，是個警訊。**
# %% [markdown] lang="en"
# ## 12. Train it for real
#
# Now the model that `course_lib` uses for this task: one layer of each kind, $d_\text{model} = 64$, 4 heads, 87,744 parameters; the norms stand in front, which trains faster. The loop is the one above, with your schedule, your shift and your loss. Two additions: a gradient longer than 1 is cut to length 1, and over the last 300 steps the rate is brought down to 0.
#
# It takes half a minute to a minute on a quiet computer, two on a busy one. The picture is drawn anew every few seconds.
#
# There is no **dropout** here; 40,000 pairs are plenty for so small a model. The paper drops one number in ten at random in training: of embedding + position, and of each sublayer's output before it is added.
# %% [markdown] lang="zh-TW"
# ## 12. 真正訓練一次
#
# 換成 `course_lib` 為這個任務準備的模型：兩種各一層，$d_\text{model} = 64$，4 個頭，87,744 個參數；正規化放前面，訓練比較快。迴圈和上面一樣，用你的學習率、你的右移、你的損失；只多兩件事：梯度的長度超過 1 就截到 1；最後 300 步把學習率慢慢降到 0。
#
# 電腦空閒時半分鐘到一分鐘，忙的時候要兩分鐘；圖每隔幾秒更新一次。
#
# 這裡沒有 **dropout**（隨機丟棄）：模型這麼小，四萬筆資料夠用了。論文在訓練時會隨機丟掉十分之一的數：嵌入加位置之後的，以及每個子層相加之前的輸出。
# %% tags=["experiment"]
from course_lib.training import Settings, batches, small_transformer

settings = Settings(steps=700, batch_size=128, d_model=64, warmup=200, cooldown=300)
model = small_transformer(tokenizer.vocab_size)
optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
inputs = shift(labels, tokenizer.bos_id)


def run(source: Tensor, target: Tensor) -> Tensor:
    return model(source, target, padding_mask(source, tokenizer.pad_id))[0]


report = plots.live_curve(settings.steps, "loss", "Dates to ISO:")
for step, rows in enumerate(batches(len(sources), settings, first=0), start=1):
    remaining = min(1.0, (settings.steps + 1 - step) / (settings.cooldown + 1))
    for group in optimizer.param_groups:
        group["lr"] = remaining * rate_of(step, settings.d_model, settings.warmup)
    loss = loss_of(run(sources[rows], inputs[rows]), labels[rows])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
    optimizer.step()
    optimizer.zero_grad()
    report(step, loss.item())
model = model.eval()
print(f"loss at the end: {loss.item():.3f}")
# %% [markdown] lang="en"
# The loss does not go to 0, and it should not: with $\varepsilon = 0.1$ and $V = 71$ even a perfect model pays for the smoothing. The smallest possible value is the entropy of the smoothed target, about 0.74.
#
# What counts is whether the dates are right. None of the days below was seen in training, in any spelling.
# %% [markdown] lang="zh-TW"
# 損失不會降到 0，也不該降到 0：$\varepsilon = 0.1$、$V = 71$ 時，再完美的模型也要付平滑的代價。最小可能的值是平滑後目標的熵，大約 0.74。
#
# 真正要看的是日期寫對沒有。下面這些日子，訓練時不論哪種寫法都沒出現過。
# %% tags=["experiment"]
smoothed_target = torch.full((tokenizer.vocab_size,), 0.1 / tokenizer.vocab_size)
smoothed_target[0] += 0.9
print(f"the smallest loss possible: {-(smoothed_target * smoothed_target.log()).sum():.2f}")

with torch.no_grad():
    written = decode(run, test_sources, tokenizer.bos_id, tokenizer.eos_id, 12, tokenizer.pad_id)
texts = tokenizer.decode(written)
right = [text == wanted for text, (_, wanted) in zip(texts, split.test)]
for i in range(6):
    print(f"{texts[i]} {'✓' if right[i] else '✗'}  {split.test[i][0]}")
for i in [i for i, ok in enumerate(right) if not ok][:3]:
    print(f"{texts[i]} ✗  {split.test[i][0]} (should be {split.test[i][1]})")
print(f"exact on {len(right):,} held-out dates: {sum(right) / len(right):.2%}")
# %% [markdown] lang="en"
# ### How often does each half run?
#
# "The Transformer is parallel", say the documents. Count the runs: once in training, where all places are answered at once, and in writing.
# %% [markdown] lang="zh-TW"
# ### 兩半各跑幾次？
#
# 文件說「Transformer 可以平行」。那就數數看：訓練時所有位置一次回答，要跑幾次？寫的時候又是幾次？
# %% tags=["experiment"]
runs = {"encoder": 0, "decoder": 0}


def counting(name: str) -> Callable:
    def hook(module, arguments, output):
        runs[name] += 1

    return hook


hooks = [
    model.encoder.register_forward_hook(counting("encoder")),
    model.decoder.register_forward_hook(counting("decoder")),
]
with torch.no_grad():
    at_once = run(test_sources[:1], test_targets[:1, :-1])
    print(f"training, {at_once.shape[1]} tokens:   {runs}")
    runs.update(encoder=0, decoder=0)
    alone = decode(run, test_sources[:1], tokenizer.bos_id, tokenizer.eos_id, 12)
    print(f"writing, {alone.shape[1] - 1} tokens:    {runs}")
    runs.update(encoder=0, decoder=0)
    mask = padding_mask(test_sources[:1], tokenizer.pad_id)
    memory, _ = model.encode(test_sources[:1], mask)  # once; from here on the memory is what the decoder reads
    once = decode(
        lambda memory, tokens: model.decode(tokens, memory, None, mask)[0],
        memory,
        tokenizer.bos_id,
        tokenizer.eos_id,
        12,
    )
    print(f"with the memory kept: {runs}; same tokens: {torch.equal(alone, once)}")
for hook in hooks:
    hook.remove()
# %% [markdown] lang="en"
# Training is parallel along the target; writing is not: eleven tokens, eleven runs of the decoder, one behind the other. The encoder needs to run once, since the source does not change. Lesson 10 saves the rest of the repeated work with a cache. (The paper follows four texts at once instead of one, which is called *beam search*, and averages its last checkpoints.)
# %% [markdown] lang="zh-TW"
# 訓練時，沿著目標是平行的；寫的時候不是：十一個詞元，解碼器就得一次接一次跑十一遍。來源不變，所以編碼器跑一次就夠了。其餘重複的計算，第 10 課用快取省下來。（論文寫的時候同時留四條路，不只一條，這叫束搜尋；另外還把最後幾個檢查點平均。）
# %% [markdown] lang="en"
# ## 13. Where the decoder looks: alignment
#
# Cross-attention has one row for each token that is written and one column for each token of the source. The four heads, for 114/3/18 and for March 18, 2025. (Only the explicit backend forms these matrices, so we switch to it; the numbers are the same.)
#
# In the first, find the day: where do the rows of its two digits look? And the year, which must be *computed*: 114 + 1911?
# %% [markdown] lang="zh-TW"
# ## 13. 解碼器看哪裡：對齊
#
# 交叉注意力的矩陣，寫出的詞元一個一列，來源的詞元一個一行（column）。下面是讀 114/3/18 和 March 18, 2025 時的四個頭。（只有 explicit 後端會做出這些矩陣，所以先切換過去，數字不變。）
#
# 先看前者，找找「日」：它的兩個數字，那兩列看向哪裡？還有「年」，它得**算**出來：114 + 1911？
# %% tags=["experiment"]
import matplotlib.pyplot as plt

for part in model.modules():
    if hasattr(part, "backend"):
        part.backend = "explicit"


def alignment(text: str) -> tuple[Tensor, list[str], list[str]]:
    """Cross-attention [h, N, M] while the model writes the date by itself, with names of rows and columns."""
    source = tokenizer.encode([text])
    with torch.no_grad():
        tokens = decode(run, source, tokenizer.bos_id, tokenizer.eos_id, 12)
        _, maps = model(source, tokens[:, :-1], return_weights=True)
    return maps.cross[0, 0], [*tokenizer.decode(tokens)[0], "~"], ["^", *text, "~"]


for text in ("114/3/18", "March 18, 2025"):
    heads, rows, columns = alignment(text)
    plots.use_style()
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.6))
    for j, (ax, weights) in enumerate(zip(axes.flat, heads), start=1):
        plots.heat_map(weights, rows, columns, f"head {j}", ax=ax, values=False)
        ax.set(xlabel="read", ylabel="written")
    figure.suptitle(f"{text} → {''.join(rows[:-1])}     (^ start, ~ end)")
# %% [markdown] lang="en"
# ### How much of it is real?
#
# A picture of one date proves little. So measure over sixty held-out dates: for each written character, the share of attention (mean of the heads) on the part of the source it comes from. Take the spelling "114/3/18", where the parts are easy to find: before the first slash, between the two, behind the last.
# %% [markdown] lang="zh-TW"
# ### 有多少是真的？
#
# 一個日期的圖證明不了什麼。所以拿六十個留著測試的日期來量：寫每個字元時，注意力（各頭平均）有多少落在它所來自的那一段。我們挑「114/3/18」這種寫法，因為三段好找：第一條斜線前、兩條中間、最後一條後面。
# %% tags=["experiment"]
slashed = [text for text, _ in split.test if text.count("/") == 2 and len(text.split("/")[0]) < 4][:60]
on = torch.zeros(3, 3)  # written part × read part
for text in slashed:
    heads, _, _ = alignment(text)
    weights = heads.mean(dim=0)  # [11, M]
    first, last = text.index("/") + 1, text.rindex("/") + 1  # the start token comes before the text
    read = (slice(1, first), slice(first + 1, last), slice(last + 1, len(text) + 1))
    for i, rows in enumerate((slice(0, 4), slice(5, 7), slice(8, 10))):
        for j, columns in enumerate(read):
            on[i, j] += weights[rows, columns].sum(dim=-1).mean() / len(slashed)
names = ["year", "month", "day"]
ax = plots.heat_map(on, names, names, f"attention on each part, {len(slashed)} dates")
ax.set(xlabel="read", ylabel="written")
ax.figure.set_size_inches(4.8, 3.2)
print(f"on the rest (slashes, start, end): {[round(1 - share, 2) for share in on.sum(dim=1).tolist()]}")
# %% [markdown] lang="en"
# The parts keep apart: what is written for the day hardly looks at the year at all. The decoder found the alignment by itself; nobody told it where the day stands.
#
# But the rows do not sum to 1 in this map. While the year is written, about two thirds of the attention lie on none of the three parts: mostly, as the maps show, on the start token, which is no part of the date. Lesson 02 saw the same with [CLS]. And the weights show where the decoder looks, not what it finds there: the encoder has mixed the characters before, so even the start's vector may hold some of the date.
# %% [markdown] lang="zh-TW"
# 三段分得很清楚：寫「日」的時候，幾乎完全不看「年」。這種對齊是解碼器自己找到的，沒有人告訴它「日」在哪裡。
#
# 不過，這張圖的各列加起來不是 1。寫「年」的時候，大約三分之二的注意力不在這三段裡，從前面的圖看，多半停在開頭詞元上，而它不是日期的一部分；第 02 課的 [CLS] 也是這樣。而且權重只說明解碼器看哪裡，沒說它在那裡找到什麼：編碼器早就把各個字元混在一起，連開頭的向量都可能帶著日期的內容。
# %% [markdown] lang="en"
# ## 14. The same on several computers
#
# The loop is in `course_lib/training.py`. On one process, on two, and (third line) with checkpoints that a killed run continues from:
#
# ```
# python -m course_lib.training dates
# torchrun --nproc-per-node 2 -m course_lib.training dates
# torchrun --nproc-per-node 2 -m course_lib.training dates --folder runs/dates
# ```
#
# The script does not change. `torchrun` starts it twice and tells each its number; each takes every second row of the batch; DDP (`DistributedDataParallel`) averages the gradients after each `backward`. On GPUs there is one process a GPU.
# %% [markdown] lang="zh-TW"
# ## 14. 同一份程式，好幾臺電腦
#
# 這個迴圈就在 `course_lib/training.py`。可以用一個行程，或兩個；第三行還會存檢查點，被中斷也能接著跑：
#
# ```
# python -m course_lib.training dates
# torchrun --nproc-per-node 2 -m course_lib.training dates
# torchrun --nproc-per-node 2 -m course_lib.training dates --folder runs/dates
# ```
#
# 程式不用改。`torchrun` 會啟動兩次並各給一個編號；每個行程取批次裡隔一列的資料；每次 `backward` 之後，DDP（`DistributedDataParallel`）把梯度平均。有 GPU 時，一個 GPU 一個行程。
# %% [markdown] lang="en"
# One trap is hidden in "averages": if the halves hold different numbers of counting tokens, the mean of two means is not the mean of all. The cell splits a batch in two and compares gradients. The script multiplies each half's *sum* by 2 and divides by the count of **all** tokens, so that DDP's mean comes out right.
# %% [markdown] lang="zh-TW"
# 「平均」裡藏著一個陷阱：兩半計入的詞元數不同時，兩個平均的平均，不等於全部的平均。下一格把一個批次分成兩半，比較梯度。訓練程式的做法是：每一半的損失**總和**乘 2，再除以**全部**的詞元數，DDP 平均之後就剛好正確。
# %% tags=["experiment"]
batch_sources, batch_labels = sources[:8], labels[:8].clone()
batch_labels[4:, 3:] = -100  # the second half has fewer tokens that count
batch_inputs = shift(batch_labels, tokenizer.bos_id)
halves = (slice(0, 4), slice(4, 8))
counted = [(batch_labels[half] != -100).sum().item() for half in halves]


def gradient(half: slice, factor: float) -> Tensor:
    model.zero_grad()
    (factor * loss_of(run(batch_sources[half], batch_inputs[half]), batch_labels[half])).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


whole = gradient(slice(0, 8), 1.0)
mean_of_means = (gradient(halves[0], 1.0) + gradient(halves[1], 1.0)) / 2
by_count = sum(gradient(half, 2 * n / sum(counted)) for half, n in zip(halves, counted)) / 2
print(f"tokens that count in the halves: {counted}")
for name, other in (("mean of the two means", mean_of_means), ("sums over all counts", by_count)):
    print(f"{name:<22} off by {(other - whole).norm() / whole.norm():.1e} of the gradient's length")
# %% [markdown] lang="en"
# ### A program whose indentation is lost
#
# One article prints attention as a program, and in the copy that we have, the line under the `if` begins in the same column as the `if`. Python reads structure from columns:
# %% [markdown] lang="zh-TW"
# ### 縮排不見了的程式
#
# 有一篇文章把注意力印成一段程式；在我們手上的版本裡，`if` 下面那一行和 `if` 對齊在同一欄。Python 正是靠縮排讀出結構的：
# %%
for layout in ("if hidden:\n scores = 0", "if hidden:\nscores = 0"):
    try:
        compile(layout, "<article>", "exec")
        print(repr(layout), "compiles")
    except IndentationError as error:
        print(repr(layout), f"{type(error).__name__}: {error.msg}")
# %% [markdown] lang="en"
# ## 15. What to remember
#
# 1. The model is five lines: embed, encode, embed, decode, multiply by $E^\top$. The embedding is scaled by $\sqrt{d_\text{model}}$, for its rows start with length 1 and positions have $\sqrt{d_\text{model}/2}$.
# 2. The memory reaches every decoder layer unchanged.
# 3. Shift **and** causal mask: one without the other leaks the answer.
# 4. Padding is hidden as a key, three times: in the encoder, in the target, in the memory.
# 5. The loss is a mean over the tokens that count, never a mean of means.
# 6. Training is one run for all places; writing is one run for each token.
# %% [markdown] lang="zh-TW"
# ## 15. 要記住的事
#
# 1. 模型只有五行：嵌入、編碼、嵌入、解碼、乘 $E^\top$。嵌入要乘 $\sqrt{d_\text{model}}$，因為它的列一開始長度是 1，位置卻有 $\sqrt{d_\text{model}/2}$。
# 2. 記憶原封不動地到達解碼器的每一層。
# 3. 右移**和**因果遮罩要一起用，少一個就會洩漏答案。
# 4. 填補要當成鍵遮住，一共三處：編碼器、目標、記憶。
# 5. 損失是所有計入詞元的平均，不是平均的平均。
# 6. 訓練時所有位置一次跑完；寫的時候一個詞元跑一次。
# %% [markdown] lang="en"
# ## 16. Self-check: question `08_q1` · 1 point · 3 minutes
#
# In training the decoder is handed the whole target at once. What keeps it from copying the answer?
#
# - **a**: The causal mask alone. It hides everything that comes later; where the target is fed in does not matter.
# - **b**: The shift and the causal mask together: at place $t$ stands the token before the label, and the label itself, one place further on, is hidden.
# - **c**: The shift alone. After it no position holds its own label any more, so a mask would only slow training down.
# - **d**: Cross-attention: the decoder reads the memory, and the memory holds nothing of the target.
# %% [markdown] lang="zh-TW"
# ## 16. 自我檢查：選擇題 `08_q1` · 滿分 1 分 · 3 分鐘
#
# 訓練時，解碼器一次拿到整個目標。是什麼讓它不能抄答案？
#
# - **a**：只靠因果遮罩。後面的都遮住了，目標從哪一格放進去都沒關係。
# - **b**：右移和因果遮罩一起。位置 $t$ 放的是標籤的前一個詞元，標籤本身在下一格，被遮住了。
# - **c**：只靠右移。移過之後，每個位置上都不再是自己的標籤，遮罩只會拖慢訓練。
# - **d**：交叉注意力。解碼器讀的是記憶，而記憶裡沒有目標的內容。
# %% question="08_q1"
answer_08_q1 = ""
### BEGIN SOLUTION
answer_08_q1 = "b"
### END SOLUTION
# %%
check("08_q1", answer_08_q1)
# %% [markdown] lang="en"
# ## 17. Self-check: question `08_q2` · 1 point · 3 minutes
#
# A target has 11 tokens, the end included. How often must encoder and decoder run, at least, in one training step on it, and to write it without a cache?
#
# - **a**: Training: each once. Writing: each once as well, for nothing is recurrent.
# - **b**: Training and writing: the decoder 11 times, since each token depends on the ones before.
# - **c**: Training: each once. Writing: encoder and decoder 11 times each.
# - **d**: Training: each once. Writing: the encoder once, the decoder 11 times.
# %% [markdown] lang="zh-TW"
# ## 17. 自我檢查：選擇題 `08_q2` · 滿分 1 分 · 3 分鐘
#
# 目標有 11 個詞元（含結束）。拿它訓練一步，以及不用快取把它寫出來，編碼器和解碼器各至少要跑幾次？
#
# - **a**：訓練各一次；寫也各一次，因為沒有循環結構。
# - **b**：訓練和寫都一樣：解碼器 11 次，因為每個詞元都取決於前面的。
# - **c**：訓練各一次；寫的時候編碼器和解碼器各 11 次。
# - **d**：訓練各一次；寫的時候編碼器一次，解碼器 11 次。
# %% question="08_q2"
answer_08_q2 = ""
### BEGIN SOLUTION
answer_08_q2 = "d"
### END SOLUTION
# %%
check("08_q2", answer_08_q2)
# %% [markdown] lang="en"
# ## 18. What the documents claim, and what you measured
#
# Every figure comes from a cell of this lesson; seeds move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | Encoder and decoder of 6 layers each, 65 million weights | true with a condition: the count depends on the exact vocabulary and on biases, which are not stated | 6 + 6 layers; 63,045,632 with $V$ = 37,000 and one table, 100,933,632 with three |
# | The Transformer is parallel | true with a condition: in training | 11 tokens: one run of the decoder in training, 11 to write them |
# | Input = embedding + position | not quite: the paper multiplies the embedding by √d_model first | lengths at 512: row 1.0, position 16.0, row × √512 22.6 |
# | Sines and cosines are too small to drown the embedding | true with a condition: that factor | without it 16 to 1 for the position |
# | In training the mask keeps the future hidden | true with a condition: the target is shifted as well | without the shift the loss sinks to 0.75 in 80 steps (its floor is 0.74), and 0 % of the dates are right |
# | The diagram of the encoder shows all of it | not quite: no dropout | the preset of 2017 drops 0.1 |
# | The decoder learns which part of the source belongs to what it writes | true with a condition: attention also rests on tokens that belong to no part | day on day about 0.65, day on year 0.00; about 0.35 (day) to 0.7 (year, month) rest on slashes, start and end |
# | The printed program | not so, in the copy we have: its indentation is lost | IndentationError at the `if` |
# %% [markdown] lang="zh-TW"
# ## 18. 文件怎麼說，你量到什麼
#
# 每個數字都來自這一課的儲存格；換亂數種子，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 編碼器、解碼器各 6 層，6500 萬個權重 | 有條件：個數取決於詞彙表的精確大小與偏置，而這兩樣都沒有寫明 | 6 + 6 層；$V$ = 37,000、一張表是 63,045,632，三張表是 100,933,632 |
# | Transformer 可以平行 | 有條件：訓練時 | 11 個詞元：訓練時解碼器跑 1 次，寫的時候跑 11 次 |
# | 輸入 = 嵌入 + 位置 | 不完全對：論文先把嵌入乘 √d_model | 512 維時的長度：一列 1.0，位置 16.0，一列 × √512 是 22.6 |
# | 正弦與餘弦夠小，不會蓋過嵌入 | 有條件：要有那個因子 | 沒有的話，位置是 16 比 1 |
# | 訓練時靠遮罩擋住未來 | 有條件：目標也要右移 | 沒有右移，80 步就沉到 0.75（最小值 0.74），日期 0 % 正確 |
# | 編碼器的圖畫出了全部 | 不完全對：沒有 dropout | 2017 年的設定丟棄 0.1 |
# | 解碼器學會來源的哪一段和正在寫的有關 | 有條件：注意力也會停在不屬於任何一段的詞元上 | 寫日看日約 0.65，寫日看年 0.00；停在斜線、開頭、結尾的約有 0.35（日）到 0.7（年、月） |
# | 印出來的程式 | 不對（就我們手上的版本）：縮排不見了 | `if` 那裡出現 IndentationError |
# %% [markdown] lang="en"
# What none of the documents says, and this lesson needed:
#
# | unsaid | what this lesson found |
# |---|---|
# | one table $E$ for both inputs and the output | logits spread 1.0 with rows of length 1, 22.7 with components of variance 1 |
# | from the decoder to a word: $hE^\top$, then softmax | the same logits as `course_lib`'s model |
# | label smoothing | the best $p$ is 0.91, not 1; no loss below 0.74 for these dates |
# | the learning rate's warm-up | peak 0.000699 at step 4000 |
# | padding, three masks; the mean over all tokens that count | a mean of two means gives another gradient; sums over all counts the same to 10⁻⁶ |
#
# **Next:** lesson 09 asks what becomes of the $N\times N$ matrices when $N$ is large.
# %% [markdown] lang="zh-TW"
# 這些文件都沒說、這一課卻用到的：
#
# | 沒說的 | 這一課的結果 |
# |---|---|
# | 兩邊的輸入和輸出共用一張表 $E$ | 列的長度是 1 時，logits 的標準差 1.0；分量變異數是 1 時，22.7 |
# | 從解碼器到一個字：$hE^\top$，再 softmax | 和 `course_lib` 的模型得到同樣的 logits |
# | 標籤平滑 | 最好的 $p$ 是 0.91，不是 1；這些日期的損失不會低於 0.74 |
# | 學習率的暖身 | 最高點 0.000699，在第 4000 步 |
# | 填補與三個遮罩；對所有計入的詞元平均 | 兩個平均的平均會得到另一個梯度；總和除以全部個數，相差 10⁻⁶ |
#
# **下一課**要問：$N$ 很大時，那些 $N\times N$ 的矩陣怎麼辦？
