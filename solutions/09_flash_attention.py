# %% [markdown] lang="en"
# # 09 · FlashAttention: never write the big matrix back
#
# **The question.** Attention compares every token with every token. What if the table of all those comparisons is larger than the memory? And does it have to exist at all?
#
# **You will** write a softmax that never sees its whole row, then attention that never holds its whole matrix, forward and backward, and count the bytes that this saves.
#
# We test what some articles and lecture notes say: "the documents" are those, "the lecture" is the one whose five scores lesson 03 used.
#
# **You need** lesson 03 (softmax, its Jacobian, √d_k) and lesson 07 (causal mask). **Time**: a good three hours, 140 minutes of them for the exercises and the question.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `attention_bytes` | 1 | 5 | 1 |
# | `online_softmax` | 3 | 20 | 3 |
# | `merge_blocks` | 3 | 20 | 3 |
# | `flash_forward` | 5 | 40 | 5 |
# | `flash_backward` | 5 | 40 | 5 |
# | `hbm_traffic` | 2 | 10 | 2 |
# | question `09_q1` | | 3 | 1 |
# %% [markdown] lang="zh-TW"
# # 09 · FlashAttention：不把大矩陣寫回去
#
# **問題。** 注意力要讓每個詞元（token）跟每個詞元比對。如果這張比對表比記憶體還大，怎麼辦？這張表又真的非存在不可嗎？
#
# **這一課**你會先寫一個從頭到尾沒看過整列的 softmax，再寫一個從頭到尾沒存過整個矩陣的注意力，前向和反向都寫，最後數一數省下多少位元組。
#
# 本課提到的「文件」，是網路上常見的教材，我們逐一檢驗它們的說法；「講義」是其中一份，第 03 課用過它的五個分數。
#
# **先備知識**是第 03 課（softmax、它的雅可比矩陣、√d_k）與第 07 課（因果遮罩）。**時間**三個多小時，其中練習和選擇題 140 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `attention_bytes` | 1 | 5 | 1 |
# | `online_softmax` | 3 | 20 | 3 |
# | `merge_blocks` | 3 | 20 | 3 |
# | `flash_forward` | 5 | 40 | 5 |
# | `flash_backward` | 5 | 40 | 5 |
# | `hbm_traffic` | 2 | 10 | 2 |
# | 選擇題 `09_q1` | | 3 | 1 |
# %% tags=["setup"]
import math

import torch
from torch import Tensor

from course_lib import plots

torch.set_num_threads(1)  # one thread: memory and time are easier to read


# %% [markdown] lang="en"
# ## 1. The question: a bill that grows with N²
#
# The scores $S = QK^{\top}/\sqrt{d_k}$ have one entry for each query and each key: shape $[B, h, N, M]$. In the textbook formula this matrix is written to memory, read by the softmax, written again as weights $P$, and read again to average the values.
#
# How large is it?
# %% [markdown] lang="zh-TW"
# ## 1. 問題：記憶體用量隨 N² 成長
#
# 分數 $S = QK^{\top}/\sqrt{d_k}$ 對每個查詢、每個鍵都有一個數，形狀是 $[B, h, N, M]$。照課本的公式，這個矩陣要先寫進記憶體，讓 softmax 讀出來，變成權重 $P$ 再寫一次，最後又讀回來，拿去平均各個值。
#
# 它到底有多大？
# %% [markdown] lang="en"
# ### Exercise `attention_bytes` · difficulty 1 of 5 · 5 minutes · 1 point
#
# The bytes of one score matrix, for all sequences of the batch and all heads together. A small example: $B=2$, $h=3$, $N=4$, $M=5$ in float16 is $2\cdot3\cdot4\cdot5 = 120$ entries of 2 bytes, 240 bytes.
#
# A causal mask hides half of the entries but saves no room: do not halve. `dtype.itemsize` is the number of bytes of an entry.
# %% [markdown] lang="zh-TW"
# ### 練習 `attention_bytes` · 難度 1／5 · 5 分鐘 · 滿分 1 分
#
# 一個分數矩陣占幾個位元組（byte），整個批次、所有的頭全部算進去。小例子：$B=2$、$h=3$、$N=4$、$M=5$，用 float16，共 $2\cdot3\cdot4\cdot5 = 120$ 個元素，每個 2 個位元組，就是 240 個位元組。
#
# 因果遮罩會遮住一半，但不會省下空間，所以不要除以 2。`dtype.itemsize` 是一個元素占的位元組數。
# %% exercise="attention_bytes"
def attention_bytes(batch: int, n_heads: int, n_queries: int, n_keys: int, dtype: torch.dtype) -> int:
    """Bytes of the score matrix [batch, n_heads, n_queries, n_keys].

    Args:
        batch: B, number of sequences.
        n_heads: h.
        n_queries: N.
        n_keys: M, may differ from N.
        dtype: of the entries: float16, bfloat16, float32 or float64.

    Returns:
        A Python int. Not halved for a causal mask.
    """
    ### BEGIN SOLUTION
    return batch * n_heads * n_queries * n_keys * dtype.itemsize
    ### END SOLUTION


# %%
check("attention_bytes", attention_bytes)
# %% [markdown] lang="en"
# One layer with 8 heads in float16, one sequence. The whole memory of a large GPU (80 GB) is drawn beside it. A model has dozens of layers.
# %% [markdown] lang="zh-TW"
# 下面是一層、8 個頭、float16、一個序列要占的記憶體，旁邊畫出一張高階 GPU 的全部記憶體（80 GB）。而一個模型有好幾十層。
# %%
bytes_of = use("attention_bytes", attention_bytes)
lengths = [512, 2048, 10_000, 32_768, 100_000]
bill = [bytes_of(1, 8, N, N, torch.float16) / 1e9 for N in lengths]
for N, gigabytes in zip(lengths, bill):
    print(f"N = {N:>7,}: {gigabytes:8.3f} GB; causal comparisons: {N * (N + 1) // 2:,} of {N * N:,}")
ax = plots.curves(
    lengths,
    {"one score matrix": bill},
    "N",
    "GB",
    "8 heads, float16, one layer",
    log_x=True,
    log_y=True,
    theory={"a GPU of 80 GB": [80.0] * len(lengths)},
)
# %% [markdown] lang="en"
# Memory is one side, arithmetic the other. Count 2 FLOPs for a multiply and an add, all heads together, $d$ = d_model.
#
# - The weight matrices of a layer: four of $d\times d$ (for Q, K, V and the output) and two of $d\times 4d$ in the network, $12d^2$ weights. Each token meets each of them once: $24Nd^2$.
# - Attention: $QK^{\top}$ and $PV$, $N^2d$ multiplications each: $4N^2d$.
#
# So attention's share is $4N^2d/(24Nd^2+4N^2d) = N/(6d+N)$:
# %% [markdown] lang="zh-TW"
# 記憶體是一面，運算量是另一面。乘一次加一次算 2 個 FLOP，所有的頭合計，$d$ 是 d_model。
#
# - 一層的權重矩陣：Q、K、V 與輸出共四個 $d\times d$，前饋網路兩個 $d\times 4d$，合起來 $12d^2$ 個權重。每個詞元各用一次：$24Nd^2$。
# - 注意力：$QK^{\top}$ 與 $PV$，各 $N^2d$ 次乘法：$4N^2d$。
#
# 所以注意力占的比例是 $4N^2d/(24Nd^2+4N^2d) = N/(6d+N)$：
# %%
d_model = 512
for N in (50, 512, 2048, 6 * d_model, 32_768):
    of_matrices, of_attention = 24 * N * d_model**2, 4 * N**2 * d_model
    print(f"d = {d_model}, N = {N:>6}: attention's share {of_attention / (of_matrices + of_attention):5.1%}")
# %% [markdown] lang="en"
# Equal at $N = 6d$; at $N = d$ it is a seventh, and only far below that is N² hardly noticed in the arithmetic. FlashAttention does not touch that arithmetic. It asks a different question: **must the matrix be stored?**
# %% [markdown] lang="zh-TW"
# 到 $N = 6d$ 時兩邊相等；$N = d$ 時占七分之一，要比這短得多，運算量裡才幾乎感覺不到 N²。FlashAttention 不動這些運算，它問的是另一件事：**這個矩陣非存下來不可嗎？**
# %% [markdown] lang="en"
# ## 2. The picture: a big slow memory and a small fast one
#
# A GPU of the A100 kind has 40 to 80 GB of main memory (HBM) that delivers about 1.5 to 2 TB a second, and beside each of its 108 processors 192 KB of on-chip memory (SRAM), about ten times faster.
#
# Multiplying is cheap, carrying is dear. So carry a block of queries and a block of keys onto the chip, do *everything* with that **tile** there, and throw the tile away.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像：又大又慢的記憶體，又小又快的記憶體
#
# A100 這類 GPU 有 40 到 80 GB 的主記憶體（HBM），每秒約能搬 1.5 到 2 TB；108 個處理器旁邊各有 192 KB 的晶片內記憶體（SRAM），大約快十倍。
#
# 乘法便宜，搬運貴。所以把一個區塊的查詢和一個區塊的鍵搬進晶片，在裡面把這個區塊（**tile**）該做的事**全部**做完，然後就把它丟掉。
# %%
plots.walking_tiles(3, 5)
# %% [markdown] lang="en"
# Light blue is what is read, red-orange the one tile that exists, light orange an output that is still growing, green one that is finished. With a causal mask the grey tiles are never visited:
# %% [markdown] lang="zh-TW"
# 淺藍色是正在讀的，橘紅色是唯一存在的那個區塊，淺橘色是還在累加的輸出，綠色是完成的輸出。有因果遮罩時，灰色的那些區塊根本不必去：
# %%
plots.walking_tiles(4, 4, causal=True)


# %% [markdown] lang="en"
# One thing stands in the way. Softmax divides by the sum over the **whole** row and subtracts the maximum of the **whole** row, and a tile knows only a piece of it. That knot has to be untied first.
# %% [markdown] lang="zh-TW"
# 只有一個難關：softmax 要除以**整列**的總和，還要減**整列**的最大值，而一個區塊只知道其中一段。得先解決這個問題。
# %% [markdown] lang="en"
# ## 3. Online softmax, from two numbers
#
# Two scores arrive one after the other: first 0.3, then 3.9. After the first, all we know is the maximum $m = 0.3$ and the sum $s = e^{0.3-0.3} = 1$.
#
# Now 3.9 arrives and becomes the maximum. The old term should have been $e^{0.3-3.9}$ and not $e^{0.3-0.3}$. It is wrong by a **factor**, $e^{0.3-3.9} = 0.027$, that needs nothing but the two maxima. So $s = 1\cdot0.027 + e^{3.9-3.9} = 1.027$.
# %% [markdown] lang="zh-TW"
# ## 3. 線上 softmax，從兩個數開始
#
# 兩個分數一前一後到來：先是 0.3，再是 3.9。看完第一個，我們知道的只有最大值 $m = 0.3$，以及總和 $s = e^{0.3-0.3} = 1$。
#
# 接著 3.9 來了，成為新的最大值。舊的那一項應該是 $e^{0.3-3.9}$，而不是 $e^{0.3-0.3}$。它只差一個**倍數** $e^{0.3-3.9} = 0.027$，而這個倍數只要知道新舊兩個最大值就能算。所以 $s = 1\cdot0.027 + e^{3.9-3.9} = 1.027$。
# %% [markdown] lang="en"
# ### The formula
#
# The same factor repairs a sum of *many* old terms at once, because $e^{x-m'} = e^{x-m}\cdot e^{m-m'}$ for each of them. For a block of scores $x_1, \dots, x_b$:
#
# $$m' = \max(m,\ \max_j x_j), \qquad s' = e^{\,m-m'}\, s + \sum_{j=1}^{b} e^{\,x_j-m'}$$
#
# - $m, s$, shape $[...]$: the state, one pair for each row. It starts as $(-\infty, 0)$.
# - $x$, shape $[..., b]$: this block's scores.
# - $m', s'$, shape $[...]$: the state with this block included.
# %% [markdown] lang="zh-TW"
# ### 公式
#
# 同一個倍數可以一次修好**許多**舊的項，因為每一項都是 $e^{x-m'} = e^{x-m}\cdot e^{m-m'}$。對一個區塊的分數 $x_1, \dots, x_b$：
#
# $$m' = \max(m,\ \max_j x_j), \qquad s' = e^{\,m-m'}\, s + \sum_{j=1}^{b} e^{\,x_j-m'}$$
#
# - $m, s$，形狀 $[...]$：狀態，每一列（row）一對。一開始是 $(-\infty, 0)$。
# - $x$，形狀 $[..., b]$：這個區塊的分數。
# - $m', s'$，形狀 $[...]$：把這個區塊算進去之後的狀態。
# %% [markdown] lang="en"
# ### By hand: the lecture's five scores, back to front
#
# Lesson 03 took the softmax of 3.9, 3.2, 1, 0.3, 1.1; the sum of exponentials was 81.01. Here they come from the back, in blocks of two, so that the maximum has to rise twice:
#
# | block | $m'$ | factor $e^{m-m'}$ | old part | new part | $s'$ |
# |---|---|---|---|---|---|
# | 1.1, 0.3 | 1.1 | 0 | 0 | $1 + e^{-0.8}$ | 1.449 |
# | 1, 3.2 | 3.2 | $e^{-2.1} = 0.122$ | 0.177 | $e^{-2.2} + 1$ | 1.288 |
# | 3.9 | 3.9 | $e^{-0.7} = 0.497$ | 0.640 | $1$ | 1.640 |
#
# And $1.640\cdot e^{3.9} = 81.0$: nothing was lost.
# %% [markdown] lang="zh-TW"
# ### 用手算：講義的五個分數，由後往前
#
# 第 03 課算過 3.9、3.2、1、0.3、1.1 的 softmax，指數總和是 81.01。這裡由後往前、每次兩個，最大值就得升高兩次：
#
# | 區塊 | $m'$ | 倍數 $e^{m-m'}$ | 舊的部分 | 新的部分 | $s'$ |
# |---|---|---|---|---|---|
# | 1.1、0.3 | 1.1 | 0 | 0 | $1 + e^{-0.8}$ | 1.449 |
# | 1、3.2 | 3.2 | $e^{-2.1} = 0.122$ | 0.177 | $e^{-2.2} + 1$ | 1.288 |
# | 3.9 | 3.9 | $e^{-0.7} = 0.497$ | 0.640 | $1$ | 1.640 |
#
# 而 $1.640\cdot e^{3.9} = 81.0$：什麼都沒漏掉。
# %% [markdown] lang="en"
# ### Rules for all checks of this lesson
#
# - Type, shape, dtype and device are compared, then values; float64 in means float64 precision out.
# - Arguments come back unchanged and may be non-contiguous; optional ones come by position or by name.
# - Any size may be 1, and its axis stays.
# - Gradients are not judged.
# - `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `nn.Transformer…` and the course's own `course_lib` are not allowed in answers; `math` and `torch` are all you need.
# - Best not to call your other answers: if one is wrong, both lose points.
# %% [markdown] lang="zh-TW"
# ### 這一課所有檢查的共同規則
#
# - 先比型別、形狀、dtype、裝置，再比數值；輸入是 float64，結果就要有 float64 的精度。
# - 引數不可被改動；它們在記憶體中不一定連續；有預設值的引數可能按位置或按名稱給。
# - 任何大小都可能是 1，那個軸也要留著。
# - 不看梯度。
# - 答案裡不能用 `F.scaled_dot_product_attention`、`nn.MultiheadAttention`、`nn.Transformer…`，也不能用課程自己的 `course_lib`；有 `math` 和 `torch` 就夠了。
# - 最好不要呼叫其他練習的函式：那個函式錯了，這一題也會跟著錯。
# %% [markdown] lang="en"
# ### Exercise `online_softmax` · difficulty 3 of 5 · 20 minutes · 3 points
#
# Write the step above for all rows at once. Three places where it can go wrong:
#
# - Scores near ±900 occur (in float64): never take the exponential of a bare score.
# - Scores may be $-\infty$. Where *everything* so far is $-\infty$, $m - m'$ would be $-\infty - (-\infty)$ = NaN. There the state stays $(-\infty, 0)$: subtract 0 instead of such a maximum.
# - The scores may be float16. The state stays in its own dtype, and so does the computation.
# %% [markdown] lang="zh-TW"
# ### 練習 `online_softmax` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# 把上面這一步寫出來，一次處理所有的列。有三個地方容易出錯：
#
# - 分數可能約 ±900（float64）：絕不可以直接對分數取指數。
# - 分數可能是 $-\infty$。如果到目前為止**全部**都是 $-\infty$，$m - m'$ 就成了 $-\infty - (-\infty)$，也就是 NaN。這時狀態維持 $(-\infty, 0)$：遇到這種最大值，改減 0。
# - 分數可能是 float16。狀態要保持自己的 dtype，計算也用那個 dtype。
# %% exercise="online_softmax"
def online_softmax(running_max: Tensor, running_sum: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """One step of the online softmax: include a block of scores in the state of each row.

    Args:
        running_max: the largest score so far, [...], float32 or float64; -inf at the start.
        running_sum: the sum of exp(score - running_max) over the scores so far, [...]; 0 at the start.
        scores: this block, [..., b] with any b >= 1; entries may be -inf.
            They may be float16 beside a float32 state.

    Returns:
        (new_max, new_sum), both [...] in the dtype of the state.
        Where all scores so far are -inf: (-inf, 0), not NaN.

    Judged: blocks that lie higher, lower, at the start; one score at a time; one row (`...` empty); -inf here
    and there and everywhere; scores near +-900 in float64; float16 scores; non-contiguous scores.
    The state given stays unchanged. Gradients are not judged.
    """
    ### BEGIN SOLUTION
    new_max = torch.maximum(running_max, scores.amax(dim=-1))  # float32 with float16 gives float32
    shift = new_max.masked_fill(new_max.isneginf(), 0.0)  # nothing seen yet: -inf - (-inf) would be NaN
    correction = torch.exp(running_max - shift)
    return new_max, correction * running_sum + torch.exp(scores - shift.unsqueeze(-1)).sum(dim=-1)
    ### END SOLUTION


# %%
check("online_softmax", online_softmax)
# %% [markdown] lang="en"
# The table by hand again, with your function. The last column is the logarithm of the whole sum, $m + \ln s$. It grows with every block and no longer depends on which number was subtracted; remember it.
# %% [markdown] lang="zh-TW"
# 用你的函式再走一遍上面的表。最後一欄是整個總和的對數 $m + \ln s$：每多一個區塊就變大，而且和減了哪個數無關。先記住它。
# %%
step = use("online_softmax", online_softmax)
m, s = torch.tensor(-math.inf), torch.tensor(0.0)
for block in ([1.1, 0.3], [1.0, 3.2], [3.9]):
    m, s = step(m, s, torch.tensor(block))
    print(f"block {block!s:<11} m = {m:.1f}   s = {s:.3f}   m + ln s = {m + s.log():.4f}")
everything = torch.logsumexp(torch.tensor([3.9, 3.2, 1.0, 0.3, 1.1]), dim=0)
print(f"all five at once, logarithm of the sum:   {everything:.4f}")


# %% [markdown] lang="en"
# ## 4. From weights to outputs: merging two attentions
#
# We do not want the weights, we want their average of the values. Cut the keys into two sets a and b, and do attention over each by itself. Each gives an output, and the logarithm of its sum of exponentials, $\mathrm{lse} = \ln\sum_j e^{x_j}$.
#
# The output is a sum divided by $e^{\mathrm{lse}}$. Undo the two divisions, add, divide once:
#
# $$\mathrm{lse} = \ln\!\left(e^{\mathrm{lse}_a} + e^{\mathrm{lse}_b}\right), \qquad o = e^{\,\mathrm{lse}_a-\mathrm{lse}}\; o_a + e^{\,\mathrm{lse}_b-\mathrm{lse}}\; o_b$$
# %% [markdown] lang="zh-TW"
# ## 4. 從權重到輸出：合併兩份注意力
#
# 我們要的不是權重，而是用權重平均出來的值。把鍵切成 a、b 兩堆，各自做注意力。每一份得到一個輸出，以及指數總和的對數 $\mathrm{lse} = \ln\sum_j e^{x_j}$。
#
# 輸出是一個總和除以 $e^{\mathrm{lse}}$。把兩邊的除法還原，相加，再除一次：
#
# $$\mathrm{lse} = \ln\!\left(e^{\mathrm{lse}_a} + e^{\mathrm{lse}_b}\right), \qquad o = e^{\,\mathrm{lse}_a-\mathrm{lse}}\; o_a + e^{\,\mathrm{lse}_b-\mathrm{lse}}\; o_b$$
# %% [markdown] lang="en"
# ### By hand
#
# The five scores with the values 10, 20, 30, 40, 50, cut behind the second:
#
# | | sum of $e^x$ | lse | output |
# |---|---|---|---|
# | a: 3.9, 3.2 | 73.93 | 4.303 | $(494.0 + 490.7)/73.93 = 13.32$ |
# | b: 1, 0.3, 1.1 | 7.07 | 1.956 | $(81.5 + 54.0 + 150.2)/7.07 = 40.40$ |
# | both | 81.01 | 4.395 | $0.913\cdot13.32 + 0.087\cdot40.40 = 15.68$ |
#
# The shares 0.913 and 0.087 are $e^{4.303-4.395}$ and $e^{1.956-4.395}$. A plain average would have given 26.86.
# %% [markdown] lang="zh-TW"
# ### 用手算
#
# 五個分數配上值 10、20、30、40、50，從第二個之後切開：
#
# | | $e^x$ 的總和 | lse | 輸出 |
# |---|---|---|---|
# | a：3.9、3.2 | 73.93 | 4.303 | $(494.0 + 490.7)/73.93 = 13.32$ |
# | b：1、0.3、1.1 | 7.07 | 1.956 | $(81.5 + 54.0 + 150.2)/7.07 = 40.40$ |
# | 合併 | 81.01 | 4.395 | $0.913\cdot13.32 + 0.087\cdot40.40 = 15.68$ |
#
# 比例 0.913 與 0.087 就是 $e^{4.303-4.395}$ 與 $e^{1.956-4.395}$。如果直接平均，會得到 26.86。
# %% [markdown] lang="en"
# ### Exercise `merge_blocks` · difficulty 3 of 5 · 20 minutes · 3 points
#
# Merge two attentions over disjoint keys. Both outputs are normalised already.
#
# - $\mathrm{lse} = -\infty$ says that no key was seen: that output (zeros) has no share. Where both are $-\infty$ the result is zeros and $-\infty$.
# - lse near ±1000 occurs (in float64), in different rows at once: only differences within a row may go into an exponential.
# %% [markdown] lang="zh-TW"
# ### 練習 `merge_blocks` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# 合併兩份注意力，它們看的鍵互不重疊，兩個輸出都已經除過總和。
#
# - $\mathrm{lse} = -\infty$ 表示沒看過任何鍵：那份輸出（都是 0）不占份量。兩邊都是 $-\infty$ 時，結果是 0 與 $-\infty$。
# - lse 可能約 ±1000（float64），而且會同時出現在不同的列：只有同一列裡的差可以拿去取指數。
# %% exercise="merge_blocks"
def merge_blocks(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over the union of two disjoint sets of keys, from the attentions over each.

    Args:
        out_a: output of attention over the keys of a, normalised, [..., N, d_v], float32 or float64.
        lse_a: log of the sum of exp(score) over the keys of a, [..., N]; -inf where no key was seen (out_a is 0).
        out_b: the same for b.
        lse_b: the same for b.

    Returns:
        (out, lse): [..., N, d_v] and [..., N], over the keys of both. 0 and -inf where neither has seen a key.

    Judged: with and without leading dimensions; one query; uneven shares; one side or both empty;
    lse near +-1000 (float64); non-contiguous inputs. Gradients are not judged.
    """
    ### BEGIN SOLUTION
    lse = torch.logaddexp(lse_a, lse_b)
    total = lse.masked_fill(lse.isneginf(), 0.0)  # neither has seen a key: both shares are exp(-inf) = 0
    share_a, share_b = torch.exp(lse_a - total), torch.exp(lse_b - total)
    return share_a.unsqueeze(-1) * out_a + share_b.unsqueeze(-1) * out_b, lse
    ### END SOLUTION


# %%
check("merge_blocks", merge_blocks)
# %% [markdown] lang="en"
# Merging is associative, so the keys may be cut anywhere, in any number of pieces, even over several machines (that is "ring attention"). The lecture's example, cut in two at every place, and in five pieces that are merged in two different orders:
# %% [markdown] lang="zh-TW"
# 合併滿足結合律，所以鍵可以從任何地方切、切成幾份都行，甚至分給好幾臺機器（這就是 ring attention）。把講義的例子從每個位置切成兩份，再切成五份，用兩種不同的順序合併：
# %%
merge = use("merge_blocks", merge_blocks)
five = torch.tensor([3.9, 3.2, 1.0, 0.3, 1.1], dtype=torch.float64)
worth = torch.tensor([[10.0], [20.0], [30.0], [40.0], [50.0]], dtype=torch.float64)


def attend_over(x, v):
    """Attention of one query with scores x over values v, and its lse."""
    return (torch.softmax(x, -1) @ v).unsqueeze(0), torch.logsumexp(x, -1).unsqueeze(0)


for cut in range(1, 5):
    out, lse = merge(*attend_over(five[:cut], worth[:cut]), *attend_over(five[cut:], worth[cut:]))
    print(f"cut behind {cut}: output {out.item():.10f}   lse {lse.item():.10f}")
a, b, c, d, e = (attend_over(five[i : i + 1], worth[i : i + 1]) for i in range(5))
one_by_one = merge(*merge(*merge(*merge(*a, *b), *c), *d), *e)
in_pairs = merge(*merge(*a, *b), *merge(*c, *merge(*d, *e)))
for way, (out, lse) in (("one by one", one_by_one), ("in pairs", in_pairs)):
    print(f"five pieces, {way}: output {out.item():.10f}   lse {lse.item():.10f}")
print(f"in one piece: output {attend_over(five, worth)[0].item():.10f}")


# %% [markdown] lang="en"
# ## 5. The whole algorithm
#
# Put the two ideas together and divide only once, at the end. For each query $i$ the state is a maximum $m_i$, a sum $s_i$, and a weighted sum of values $O_i$ that is *not yet divided*. For each block $j$ of keys:
#
# $$S = \tfrac{1}{\sqrt{d_k}}\,Q K_j^{\top}, \quad m' = \max(m, \mathrm{rowmax}\,S), \quad P = e^{S-m'}, \quad c = e^{m-m'}$$
#
# $$s \leftarrow c\,s + \mathrm{rowsum}\,P, \qquad O \leftarrow c\,O + P\,V_j, \qquad m \leftarrow m'$$
#
# Behind the last block: output $= O/s$, and $\mathrm{lse} = m + \ln s$.
# %% [markdown] lang="zh-TW"
# ## 5. 整個演算法
#
# 把兩個想法合起來，而且只在最後除一次。每個查詢 $i$ 的狀態是最大值 $m_i$、總和 $s_i$，以及**還沒除**的加權總和 $O_i$。對第 $j$ 個區塊的鍵：
#
# $$S = \tfrac{1}{\sqrt{d_k}}\,Q K_j^{\top}, \quad m' = \max(m, \mathrm{rowmax}\,S), \quad P = e^{S-m'}, \quad c = e^{m-m'}$$
#
# $$s \leftarrow c\,s + \mathrm{rowsum}\,P, \qquad O \leftarrow c\,O + P\,V_j, \qquad m \leftarrow m'$$
#
# 走完最後一個區塊：輸出 $= O/s$，而 $\mathrm{lse} = m + \ln s$。
# %% [markdown] lang="en"
# - $Q$, shape $[N, d_k]$ (all queries, or a block of them); $K_j$, $V_j$, shapes $[b, d_k]$ and $[b, d_v]$: block $j$.
# - $S$, $P$, shape $[N, b]$: the tile, forgotten after each step.
# - $m$, $s$, $c$, shape $[N]$; $O$, shape $[N, d_v]$.
#
# **Where people stumble**: everything that was added up against the old maximum needs the factor $c$, so both $s$ *and* $O$.
# %% [markdown] lang="zh-TW"
# - $Q$，形狀 $[N, d_k]$（全部的查詢，或其中一個區塊）；$K_j$、$V_j$，形狀 $[b, d_k]$ 與 $[b, d_v]$：第 $j$ 個區塊。
# - $S$、$P$，形狀 $[N, b]$：就是那個區塊，每步做完就丟。
# - $m$、$s$、$c$，形狀 $[N]$；$O$，形狀 $[N, d_v]$。
#
# **最容易錯的地方**：凡是對舊最大值累加的東西，都要乘上倍數 $c$，所以 $s$ **和** $O$ 都要。
# %% [markdown] lang="en"
# ### Exercise `flash_forward` · difficulty 5 of 5 · 40 minutes · 5 points
#
# Exact attention, divided by $\sqrt{d_k}$, in tiles at most `block_size` keys wide; the queries in blocks or all at once, as you like.
#
# - `block_size` need not divide $N$ or $M$ and may exceed both. The last block is simply smaller.
# - Causal is bottom-right: query $i$ sits at key position $i + M - N$. A row that sees nothing gives output 0 and lse $-\infty$.
# - All scores of a row may lie near −800 or +800 (float64), and hidden ones far above the visible ones.
# %% [markdown] lang="zh-TW"
# ### 練習 `flash_forward` · 難度 5／5 · 40 分鐘 · 滿分 5 分
#
# 精確的注意力，要除以 $\sqrt{d_k}$；每個區塊最多 `block_size` 個鍵。查詢可以分塊，也可以一次全算。
#
# - `block_size` 不一定整除 $N$ 或 $M$，也可能比兩者都大。最後一個區塊就小一點。
# - 因果遮罩對齊右下角：第 $i$ 個查詢站在第 $i + M - N$ 個鍵的位置。什麼都看不到的列，輸出是 0，lse 是 $-\infty$。
# - 整列分數可能都約 −800 或 +800（float64），被遮住的分數也可能遠高於看得到的。
# %% [markdown] lang="en"
# Two more demands:
#
# - **Memory is measured.** In five cases no tensor that you make, and no sum of those alive at one time, may exceed $NM/2$ entries; a Boolean mask counts too. Three are long; the fourth has blocks of 4 keys, where tiles much wider than `block_size` show; the last has 3 queries and 4096 keys of one number each: one query against all keys at once is too much there, and so are copies of all of $K$ and $V$. The meter sees torch only, so `.numpy()` and `.tolist()` are not allowed.
# - **Half precision**: convert to float32 *before the first product*, round the output at the end. lse comes back in float32 and is judged to float32's accuracy; the output may be off by at most twice the error of the plain formula in the same dtype.
#
# Gradients are not judged: the backward pass is the next exercise.
# %% [markdown] lang="zh-TW"
# 還有兩個要求：
#
# - **會量記憶體。** 有五種情況，你造出的任何張量，以及同時存在的總和，都不能超過 $NM/2$ 個元素；布林遮罩也算。其中三種是長序列；第四種每個區塊只有 4 個鍵，區塊做得遠比 `block_size` 寬就看得出來；最後一種有 3 個查詢、4096 個鍵，每個鍵只有一個數：一個查詢一次對上所有的鍵就太多了，把 $K$、$V$ 整個複製一份也太多。量測只看得到 torch，所以不能用 `.numpy()` 和 `.tolist()`。
# - **半精度**：**第一次相乘之前**就轉成 float32，輸出最後才轉回去。lse 以 float32 回傳，要有 float32 的精度；輸出的誤差最多是同 dtype 直接套公式的兩倍。
#
# 不看梯度：反向傳播是下一題。
# %% exercise="flash_forward"
def flash_forward(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> tuple[Tensor, Tensor]:
    """Exact attention softmax(q kᵀ / √d_k) v that never holds the [N, M] matrix.

    Args:
        q: queries, [B, h, N, d_k], float32, float64, float16 or bfloat16.
        k: keys, [B, h, M, d_k].
        v: values, [B, h, M, d_v].
        block_size: most keys in a tile; need not divide N or M and may exceed them.
        is_causal: hide the future, bottom-right: query i sees keys 0, …, i + M - N.

    Returns:
        (output, lse). A row that sees nothing: output 0, lse -inf.
        output: [B, h, N, d_v] in the dtype of q.
        lse: log of the sum of exp(scaled score), [B, h, N]; float32 for half precision, else as q.

    Judged: blocks that do and do not divide, one block, blocks of one key, one query; causal with N = M,
    N < M, N > M; the largest score first, last, nowhere; scores near +-800 and hidden ones far above
    (float64); float16 and bfloat16; non-contiguous inputs; memory: at most N·M/2 entries in any tensor
    made and in all alive together. Gradients are not judged.
    """
    ### BEGIN SOLUTION
    dtype = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    Q = q.to(dtype) / math.sqrt(q.shape[-1])
    O = Q.new_zeros(*q.shape[:-1], v.shape[-1])
    s = Q.new_zeros(q.shape[:-1])
    m = s - math.inf
    position = torch.arange(N, device=q.device).unsqueeze(-1) + M - N  # where each query stands among the keys
    for start in range(0, M, block_size):
        K, V = k[..., start : start + block_size, :].to(dtype), v[..., start : start + block_size, :].to(dtype)
        S = Q @ K.mT  # [B, h, N, b]
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
    ### END SOLUTION


# %%
check("flash_forward", flash_forward)
# %% [markdown] lang="en"
# ## 6. Is it exact?
#
# On paper, yes: nothing was approximated. On a machine the sums run in another order. Compare with the explicit formula, in float64 and float32, and count how many entries agree to the last bit.
# %% [markdown] lang="zh-TW"
# ## 6. 它精確嗎？
#
# 紙上是精確的：我們沒有做任何近似。但在機器上，加總的順序不同。拿它跟直接套公式的結果比，分別用 float64 與 float32，再數一數有多少個數連最後一個位元都相同。
# %% tags=["experiment"]
flash = use("flash_forward", flash_forward)


def explicit(q, k, v):
    """The textbook: the whole matrix."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


generator = torch.Generator().manual_seed(9)
q64, k64, v64 = torch.randn(3, 1, 4, 1024, 64, generator=generator, dtype=torch.float64).unbind(0)
q64 = 4 * q64  # scores of size 4: some weights are large
for dtype in (torch.float64, torch.float32):
    inputs = [x.to(dtype) for x in (q64, k64, v64)]
    tiled, whole = flash(*inputs, block_size=128)[0], explicit(*inputs)
    print(
        f"{dtype!s:<14} largest difference {(tiled - whole).abs().max():.0e}, "
        f"equal to the last bit {(tiled == whole).double().mean():.0%}"
    )
# %% [markdown] lang="en"
# Exact up to rounding, not bit by bit. Half precision shows why the sums must be kept in float32. Four ways in bfloat16, each against float64: the explicit formula; tiles whose state is bfloat16 too; tiles with a float32 state (yours); PyTorch's own.
# %% [markdown] lang="zh-TW"
# 只差捨入誤差，但不是每個位元都一樣。換成半精度，就看得出為什麼總和要用 float32。下面在 bfloat16 用四種算法，都跟 float64 比：直接套公式；連狀態都用 bfloat16 的分塊；狀態用 float32 的分塊（你的）；PyTorch 內建的。
# %% tags=["experiment"]
import torch.nn.functional as F


def tiled_with_sums_in_half(q, k, v, block_size):
    """As flash_forward, but nothing is raised to float32."""
    m, s, O = torch.full_like(q[..., 0], -math.inf), torch.zeros_like(q[..., 0]), torch.zeros_like(q)
    for K, V in zip(k.split(block_size, -2), v.split(block_size, -2)):
        S = q @ K.mT / math.sqrt(q.shape[-1])
        new = torch.maximum(m, S.amax(-1))
        P, c = torch.exp(S - new[..., None]), torch.exp(m - new)
        m, s, O = new, c * s + P.sum(-1), c[..., None] * O + P @ V
    return O / s[..., None]


inputs = [x.bfloat16() for x in (q64, k64, v64)]
true = explicit(*(x.double() for x in inputs))
ways = {
    "explicit": explicit(*inputs),
    "tiled, sums in bfloat16": tiled_with_sums_in_half(*inputs, 16),
    "tiled, sums in float32": flash(*inputs, block_size=16)[0],
    "PyTorch's": F.scaled_dot_product_attention(*inputs),
}
errors = {name: (out.double() - true).abs().max().item() for name, out in ways.items()}
for name, error in errors.items():
    print(f"{name:<24} largest error {error:.4f}")


# %% [markdown] lang="en"
# Tiling in itself costs no accuracy: with float32 sums the result is even better than the textbook formula's, because $S$ and $P$ are never rounded on their way to memory. With bfloat16 sums it is worse: every correction rounds again.
# %% [markdown] lang="zh-TW"
# 分塊本身不會損失精度：總和用 float32 時，反而比課本公式更準，因為 $S$ 和 $P$ 不必為了存進記憶體而捨入。總和用 bfloat16 就比較差：每修正一次，就多捨入一次。
# %% [markdown] lang="en"
# ## 7. The way back
#
# Training needs gradients. Autograd would keep $P$, $[N, M]$, until the backward pass, and the whole saving would be gone. So nothing is kept but $O$ and lse, and each tile of weights is **computed again**. With lse it takes one step, no maximum and no sum: $P = e^{\,S-\mathrm{lse}}$.
#
# Given $dO$, the gradient of the output $O = PV$:
#
# $$dV = P^{\top} dO, \qquad dP = dO\,V^{\top}$$
# %% [markdown] lang="zh-TW"
# ## 7. 反向傳播
#
# 訓練要有梯度。自動微分會把 $[N, M]$ 的 $P$ 一直留到反向傳播，前面省的就全白費了。所以只留下 $O$ 與 lse，每個區塊的權重都**重算一次**。有了 lse，一步就好，不必再找最大值與總和：$P = e^{\,S-\mathrm{lse}}$。
#
# 給定輸出 $O = PV$ 的梯度 $dO$：
#
# $$dV = P^{\top} dO, \qquad dP = dO\,V^{\top}$$
# %% [markdown] lang="en"
# ### The term delta
#
# From $P$ to $S$ leads the softmax's Jacobian of lesson 03, $\mathrm{diag}(p) - p^{\top}p$, for each row:
#
# $$dS_{ij} = P_{ij}\,\Big(dP_{ij} - \underbrace{\textstyle\sum_{k} P_{ik}\, dP_{ik}}_{\delta_i}\Big)$$
#
# $\delta_i$ needs the whole row again, and no tile has it. But look what it is:
#
# $$\delta_i = \sum_k P_{ik}\,(dO_i\cdot V_k) = dO_i\cdot\sum_k P_{ik} V_k = dO_i\cdot O_i$$
#
# One inner product with the output that we kept. This step makes the backward pass possible.
# %% [markdown] lang="zh-TW"
# ### delta 這一項
#
# 從 $P$ 到 $S$，每一列要經過第 03 課的雅可比矩陣 $\mathrm{diag}(p) - p^{\top}p$：
#
# $$dS_{ij} = P_{ij}\,\Big(dP_{ij} - \underbrace{\textstyle\sum_{k} P_{ik}\, dP_{ik}}_{\delta_i}\Big)$$
#
# $\delta_i$ 又需要整列，而單獨一個區塊沒有整列。但仔細看它是什麼：
#
# $$\delta_i = \sum_k P_{ik}\,(dO_i\cdot V_k) = dO_i\cdot\sum_k P_{ik} V_k = dO_i\cdot O_i$$
#
# 只要跟留下來的輸出做一次內積。就是這一步，讓反向傳播也能分塊。
# %% [markdown] lang="en"
# ### By hand
#
# One query, two keys with scores $\ln 3$ and 0, so $p = (\tfrac34, \tfrac14)$; values 2 and 6; $dO = 1$. The output is $\tfrac34\cdot2 + \tfrac14\cdot6 = 3$.
#
# $dP = (2, 6)$ and $\delta = \tfrac34\cdot2 + \tfrac14\cdot6 = 3$, which is $dO\cdot O$. So $dS = (\tfrac34(2-3),\ \tfrac14(6-3)) = (-\tfrac34, +\tfrac34)$: a larger output needs more attention on the larger value, and what one key gains the other loses. Without δ it would be $(1.5, 1.5)$: "raise both", which does nothing.
# %% [markdown] lang="zh-TW"
# ### 用手算
#
# 一個查詢、兩個鍵，分數是 $\ln 3$ 與 0，所以 $p = (\tfrac34, \tfrac14)$；值是 2 與 6；$dO = 1$。輸出是 $\tfrac34\cdot2 + \tfrac14\cdot6 = 3$。
#
# $dP = (2, 6)$，$\delta = \tfrac34\cdot2 + \tfrac14\cdot6 = 3$，正好是 $dO\cdot O$。所以 $dS = (\tfrac34(2-3),\ \tfrac14(6-3)) = (-\tfrac34, +\tfrac34)$：輸出要變大，注意力就得移向比較大的值，一邊多拿，另一邊就少拿。少了 δ 會變成 $(1.5, 1.5)$，也就是「兩個都升高」，等於沒動。
# %% [markdown] lang="en"
# Last, $S = QK^{\top}/\sqrt{d_k}$ gives two more products, and the scale comes out once more:
#
# $$dQ = \tfrac{1}{\sqrt{d_k}}\, dS\,K, \qquad dK = \tfrac{1}{\sqrt{d_k}}\, dS^{\top} Q$$
#
# In tiles: every block of keys adds its share to $dQ$; $dK_j$ and $dV_j$ collect the shares of all queries. Shapes: $dP$, $dS$ $[N, b]$; $\delta$, lse $[N]$; each gradient has the shape of its tensor.
# %% [markdown] lang="zh-TW"
# 最後，$S = QK^{\top}/\sqrt{d_k}$ 再給出兩個乘積，縮放因子又出現一次：
#
# $$dQ = \tfrac{1}{\sqrt{d_k}}\, dS\,K, \qquad dK = \tfrac{1}{\sqrt{d_k}}\, dS^{\top} Q$$
#
# 分塊來做：每個區塊的鍵都把自己的份加進 $dQ$；$dK_j$ 與 $dV_j$ 則要收齊所有查詢的份。形狀：$dP$、$dS$ 是 $[N, b]$；$\delta$、lse 是 $[N]$；每個梯度與它的張量同形狀。
# %% [markdown] lang="en"
# ### Exercise `flash_backward` · difficulty 5 of 5 · 40 minutes · 5 points
#
# Write it by hand: `torch.autograd`, `.backward()` and the derivatives in `torch.func` are not allowed. `out` and `lse` are those of the forward pass; `d_out` is any gradient and has nothing to do with `out`.
#
# - Tiles at most `block_size` keys wide; the same memory limit and the same rules for causal masks and half precision as before. The case with few queries has 11 of them here, for $dK$ and $dV$ take room too.
# - A row that saw nothing has lse $-\infty$ and adds 0 to every gradient. Its weights are all 0: put $+\infty$ in the place of such an lse, and the exponential says so by itself.
# %% [markdown] lang="zh-TW"
# ### 練習 `flash_backward` · 難度 5／5 · 40 分鐘 · 滿分 5 分
#
# 自己動手寫：不能用 `torch.autograd`、`.backward()`，以及 `torch.func` 裡求導數的函式。`out` 與 `lse` 是前向傳播的結果；`d_out` 是任意的梯度，跟 `out` 無關。
#
# - 每個區塊最多 `block_size` 個鍵；記憶體上限、因果遮罩、半精度的規則都和上一題相同。查詢很少的那一種情況，這裡有 11 個查詢，因為 $dK$ 和 $dV$ 也占空間。
# - 什麼都看不到的列，lse 是 $-\infty$，對每個梯度的貢獻都是 0。它的權重全是 0：把這種 lse 換成 $+\infty$，取指數就自然得到 0。
# %% exercise="flash_backward"
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
    """Gradients of attention, with the weights computed again from lse, tile by tile.

    Args:
        d_out: gradient of the output, [B, h, N, d_v], unrelated to out.
        q: queries, [B, h, N, d_k].
        k: keys, [B, h, M, d_k].
        v: values, [B, h, M, d_v].
        out: output of flash_forward, [B, h, N, d_v], in the dtype of q.
        lse: lse of flash_forward, [B, h, N], float32 for half precision, else in the dtype of q.
        block_size: most keys in a tile.
        is_causal: as in flash_forward.

    Returns:
        (dq, dk, dv) in the shapes and dtypes of q, k, v. Rows that see nothing (lse = -inf) contribute 0.

    Judged: the same situations as flash_forward, memory included (at most N·M/2 entries in any tensor
    made and in all alive together). Half precision is computed in float32 and rounded at the end.
    Gradients of the results are not judged.
    No torch.autograd, no .backward(), none of torch.func's derivatives.
    """
    ### BEGIN SOLUTION
    dtype = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    Q, dO = q.to(dtype), d_out.to(dtype)
    delta = (dO * out).sum(dim=-1, keepdim=True)  # [B, h, N, 1]: the row sum of P ∘ dP
    L = lse.masked_fill(lse.isneginf(), math.inf).unsqueeze(-1)
    position = torch.arange(N, device=q.device).unsqueeze(-1) + M - N
    dq = torch.zeros_like(Q)
    dk, dv = [], []
    for start in range(0, M, block_size):
        K, V = k[..., start : start + block_size, :].to(dtype), v[..., start : start + block_size, :].to(dtype)
        S = Q @ K.mT * scale  # [B, h, N, b]
        if is_causal:
            S = S.masked_fill(torch.arange(start, start + K.shape[-2], device=q.device) > position, -math.inf)
        P = torch.exp(S - L)
        dS = P * (dO @ V.mT - delta) * scale
        dq = dq + dS @ K
        dk.append(dS.mT @ Q)
        dv.append(P.mT @ dO)
    return dq.to(q.dtype), torch.cat(dk, dim=-2).to(k.dtype), torch.cat(dv, dim=-2).to(v.dtype)
    ### END SOLUTION


# %%
check("flash_backward", flash_backward)
# %% [markdown] lang="en"
# Against autograd through the textbook formula, in float64. The counter adds up the FLOPs of all matrix products on both sides.
# %% [markdown] lang="zh-TW"
# 跟自動微分直接穿過課本公式的結果比，用 float64。計數器會把兩邊所有矩陣乘積的 FLOP 加起來。
# %% tags=["experiment"]
from torch.utils.flop_counter import FlopCounterMode

flash_back = use("flash_backward", flash_backward)
q, k, v = (x[:, :2, :512].clone().requires_grad_() for x in (q64, k64, v64))
d_out = torch.randn(1, 2, 512, 64, generator=generator, dtype=torch.float64)
with FlopCounterMode(display=False) as of_the_textbook:
    true_gradients = torch.autograd.grad(explicit(q, k, v), (q, k, v), d_out)
q, k, v = (x.detach() for x in (q, k, v))
with FlopCounterMode(display=False) as of_the_tiles:
    out, lse = flash(q, k, v, 64)
    gradients = flash_back(d_out, q, k, v, out, lse, 64)
for name, mine, true_one in zip(("dq", "dk", "dv"), gradients, true_gradients):
    print(f"{name}: largest difference {(mine - true_one).abs().max():.0e}")
flops_explicit, flops_tiled = of_the_textbook.get_total_flops(), of_the_tiles.get_total_flops()
print(
    f"FLOPs of products: explicit {flops_explicit:,}, tiled {flops_tiled:,}: {flops_tiled / flops_explicit:.3f} times"
)
print(f"kept for the way back: explicit P, {512 * 512:,} numbers a head; tiled O and lse, {512 * 65:,}")
# %% [markdown] lang="en"
# Seven products instead of six (2 forward and 4 backward, plus $QK^{\top}$ once more): a sixth **more** arithmetic, not less. The paper's own count, for attention of GPT-2 medium's size, is 66.6 → 75.2 GFLOPs (1.13 times). Work stays proportional to $N^2$. What shrinks is the memory.
# %% [markdown] lang="zh-TW"
# 六個乘積變成七個（前向 2 個、反向 4 個，外加重算一次 $QK^{\top}$）：運算**多了**六分之一，不是變少。論文的統計（GPT-2 medium 的注意力）是 66.6 → 75.2 GFLOPs，1.13 倍。運算量仍然和 $N^2$ 成正比，縮小的是記憶體。
# %% [markdown] lang="en"
# ## 8. At real size: memory against N
#
# First the meter that also judges your exercise: entries of all tensors alive at one time, inputs not counted, for one head with $d = 64$ and blocks of 128. Forward only.
# %% [markdown] lang="zh-TW"
# ## 8. 實際規模：記憶體用量如何隨 N 成長
#
# 先用評分時也會用的量測工具：數「同時存在的張量共有幾個元素」，輸入不算。一個頭、$d = 64$、每個區塊 128 個鍵，只看前向。
# %% tags=["experiment"]
from autograder.meter import Meter


def most_alive(function, *tensors):
    with torch.no_grad(), Meter(list(tensors)) as meter:
        function(*tensors)
    return meter.reading.peak


sizes = [512, 1024, 2048, 4096]
counted = {"explicit": [], "tiled": []}
for N in sizes:
    q, k, v = torch.randn(3, 1, 1, N, 64, generator=generator).unbind(0)
    counted["explicit"].append(most_alive(explicit, q, k, v))
    counted["tiled"].append(most_alive(lambda q, k, v: flash(q, k, v, 128), q, k, v))
    print(f"N = {N:>4}: explicit {counted['explicit'][-1]:>12,}   tiled {counted['tiled'][-1]:>10,} entries")
for name, numbers in counted.items():
    print(f"{name}: doubling N from 2048 to 4096 multiplies the peak by {numbers[-1] / numbers[-2]:.2f}")
# %% [markdown] lang="en"
# The meter cannot look inside PyTorch's own fused function. So ask the operating system: a fresh Python process for the measurement, a child of it for each point, and the child's largest resident memory beyond what it held before. "Tiled" is the course's version in blocks of queries and keys. A few tenths of a MiB are noise. The cell takes some ten seconds.
# %% [markdown] lang="zh-TW"
# 這個工具看不進 PyTorch 內建的融合函式，所以改問作業系統：另開一個 Python 行程來量，每個點再分出一個子行程，看它的最大常駐記憶體比開始前多了多少。「tiled」用課程的版本，查詢和鍵都分塊。零點幾 MiB 的差異是雜訊。這一格大約要跑十秒。
# %% tags=["experiment"]
import json
import os
import subprocess
import sys
from pathlib import Path

import course_lib

MEASURE = """
import json, math, os, resource, sys, time, torch
import torch.nn.functional as F
from course_lib.flash.tiled import tiled_attention
torch.set_num_threads(1)
unit = 1 if sys.platform == "darwin" else 1024
explicit = lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
ways = {"explicit": explicit, "tiled": tiled_attention, "PyTorch's": F.scaled_dot_product_attention}

def in_a_child(way, N, backward):
    read, write = os.pipe()
    if os.fork() == 0:
        q, k, v = (torch.randn(1, 1, N, 64, requires_grad=backward) for _ in range(3))
        ones = torch.ones(1, 1, N, 64)
        warm_up = ways[way](q[..., :64, :], k[..., :64, :], v[..., :64, :])
        if backward:  # starts autograd's machinery, which is not what we measure
            warm_up.backward(ones[..., :64, :])
            q.grad = k.grad = v.grad = None
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        out = ways[way](q, k, v)
        if backward:
            out.backward(ones)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(write, json.dumps([(after - before) * unit / 2**20, seconds]).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    return json.loads(os.read(read, 1000))

sizes, backward_at = json.loads(sys.argv[1])
forward = {way: [in_a_child(way, N, False) for N in sizes] for way in ways}
both = {way: in_a_child(way, backward_at, True) for way in ways}
print(json.dumps([forward, both]))
"""
measured, with_backward = None, None
if hasattr(os, "fork"):
    paths = [str(Path(course_lib.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps([sizes, 2048])],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    if process.returncode == 0:
        measured, with_backward = json.loads(process.stdout)
if measured:
    print(f"{'N':>14}: {'  '.join(f'{N:6}' for N in sizes)}")
    for way, points in measured.items():
        print(f"{way:<10} MiB: {'  '.join(f'{mib:6.1f}' for mib, _ in points)}")
        print(f"{'':<10}  ms: {'  '.join(f'{1000 * seconds:6.0f}' for _, seconds in points)}")
else:
    print("This system does not let us measure (no fork): the two pictures below are left out.")
# %%
if measured:
    ax = plots.curves(
        sizes,
        {way: [max(mib, 0.1) for mib, _ in points] for way, points in measured.items()},
        "N",
        "peak memory, MiB",
        "Forward, one head, d = 64, float32",
        log_x=True,
        log_y=True,
        theory={"explicit": [2 * N * N * 4 / 2**20 for N in sizes]},
    )
# %% [markdown] lang="en"
# The dashed line is theory: $S$ and $P$ together, $2N^2$ numbers of 4 bytes. Doubling N multiplies it by four; for the other two by about two or less, noise apart.
#
# **Time** is another matter: all three do work that grows with N². On a CPU the caches do quietly what SRAM does on a GPU, and a loop in Python costs something, so who wins depends on the machine and on what else it is doing. The promise of speed is about GPUs (section 10).
# %% [markdown] lang="zh-TW"
# 虛線是理論值：$S$ 與 $P$ 合起來是 $2N^2$ 個數，每個 4 個位元組。N 變兩倍，它變四倍；另外兩種大約變兩倍，或更少（雜訊不計）。
#
# **時間**是另一回事：三種做法的工作量都跟著 N² 成長。在 CPU 上，快取已經默默做了 SRAM 在 GPU 上做的事，Python 迴圈又有額外成本，所以誰快要看機器，也要看它當時在忙什麼。FlashAttention 說的「快」，指的是在 GPU 上（見第 10 節）。
# %% [markdown] lang="en"
# A training step keeps more. Forward and backward together at N = 2048:
# %% [markdown] lang="zh-TW"
# 訓練的一步要留更多東西。N = 2048，前向加反向：
# %%
if with_backward:
    ax = plots.bars(
        list(with_backward),
        {"forward": [measured[way][sizes.index(2048)][0] for way in with_backward],
         "forward + backward": [mib for mib, _ in with_backward.values()]},
        "peak memory, MiB",
        "One head, N = 2048, float32",
    )  # fmt: skip


# %% [markdown] lang="en"
# ## 9. Counting the traffic
#
# Why is it faster on a GPU although it calculates more? Because of what passes between chip and HBM. The textbook: read Q, K; **write S; read S; write P; read P**; read V; write O. Four passes of an $N\times M$ matrix.
#
# Tiled, in FlashAttention-2's order: the queries come in $\lceil N/B_q\rceil$ blocks of at most $B_q$. For each block, read that block of Q, read *all* of K and V, write that block of O. S and P never pass at all.
# %% [markdown] lang="zh-TW"
# ## 9. 數一數搬運量
#
# 算得比較多，在 GPU 上卻比較快，為什麼？關鍵是晶片與 HBM 之間搬了多少。課本的做法：讀 Q、K；**寫 S；讀 S；寫 P；讀 P**；讀 V；寫 O。一個 $N\times M$ 的矩陣進出四趟。
#
# 分塊的做法（FlashAttention-2 的順序）：每 $B_q$ 個查詢一個區塊，共 $\lceil N/B_q\rceil$ 個；每個區塊讀自己那一段 Q，讀**全部**的 K 和 V，再寫出自己那一段 O。S 和 P 從來不進出。
# %% [markdown] lang="en"
# ### Exercise `hbm_traffic` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Bytes read and written, both ways, for one head: $d_k = d_v = d$, not causal, lse not counted. By hand for $N = M = 1024$, $d = 64$, blocks of 128 queries, 2 bytes: a tensor $[N, d]$ has 65,536 entries, the matrix 1,048,576.
#
# - Explicit: $4\cdot65{,}536 + 4\cdot1{,}048{,}576 = 4{,}456{,}448$ entries, 8,912,896 bytes.
# - Tiled, 8 blocks: $2\cdot65{,}536 + 8\cdot2\cdot65{,}536 = 1{,}179{,}648$ entries, 2,359,296 bytes.
#
# The last block of queries may be smaller: it reads all of K and V too, but only its own rows of Q.
# %% [markdown] lang="zh-TW"
# ### 練習 `hbm_traffic` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 兩種做法各讀寫多少位元組，只看一個頭：$d_k = d_v = d$，沒有因果遮罩，lse 不計。用手算一次：$N = M = 1024$、$d = 64$、每個區塊 128 個查詢、2 個位元組。$[N, d]$ 的張量有 65,536 個元素，大矩陣有 1,048,576 個。
#
# - 直接算：$4\cdot65{,}536 + 4\cdot1{,}048{,}576 = 4{,}456{,}448$ 個元素，8,912,896 個位元組。
# - 分成 8 個區塊：$2\cdot65{,}536 + 8\cdot2\cdot65{,}536 = 1{,}179{,}648$ 個元素，2,359,296 個位元組。
#
# 最後一個區塊的查詢可能比較小：它也要讀完整的 K 和 V，但 Q 只讀自己的那幾列。
# %% exercise="hbm_traffic"
def hbm_traffic(n_queries: int, n_keys: int, d: int, block_q: int, bytes_per_element: int = 2) -> tuple[int, int]:
    """Bytes that pass between the chip and HBM in one head's attention, explicit and tiled.

    Args:
        n_queries: N.
        n_keys: M, may differ from N.
        d: d_k = d_v.
        block_q: queries in a block; need not divide N and may exceed it.
        bytes_per_element: bytes of an entry.

    Returns:
        (explicit, tiled), Python ints.
        explicit: read Q, K; write S; read S; write P; read P, V; write O.
        tiled: for each block of queries read that block of Q, all of K and V, and write that block of O.

    Judged: blocks that do and do not divide N; one block; one query; bytes_per_element by default and by name.
    """
    ### BEGIN SOLUTION
    queries, keys, scores = n_queries * d, n_keys * d, n_queries * n_keys  # the outputs are as many as the queries
    explicit = 2 * queries + 2 * keys + 4 * scores
    tiled = 2 * queries + 2 * keys * math.ceil(n_queries / block_q)
    return explicit * bytes_per_element, tiled * bytes_per_element
    ### END SOLUTION


# %%
check("hbm_traffic", hbm_traffic)
# %% [markdown] lang="en"
# ### The theorem
#
# Block $B_q$ must fit the SRAM, which holds $M_s$ numbers: $B_q$ grows like $M_s/d$. Then K and V are read about $N/B_q = Nd/M_s$ times, and the traffic is
#
# $$\Theta\!\left(\frac{N^2d^2}{M_s}\right)\ \text{tiled}\qquad\text{against}\qquad \Theta\!\left(Nd + N^2\right)\ \text{explicit}$$
#
# With $d = 64$ to 128 and $M_s$ near 100,000, $d^2/M_s$ is far below 1. The paper also proves that no exact algorithm can be better for *all* sizes of SRAM.
# %% [markdown] lang="zh-TW"
# ### 定理
#
# SRAM 裝得下 $M_s$ 個數，一個區塊的查詢得放得進去，所以 $B_q$ 和 $M_s/d$ 成正比。於是 K 和 V 大約要讀 $N/B_q = Nd/M_s$ 遍，搬運量是
#
# $$\Theta\!\left(\frac{N^2d^2}{M_s}\right)\ \text{（分塊）}\qquad\text{對}\qquad \Theta\!\left(Nd + N^2\right)\ \text{（直接算）}$$
#
# $d$ 是 64 到 128、$M_s$ 約十萬時，$d^2/M_s$ 遠小於 1。論文還證明：沒有任何精確的演算法，能對**所有**的 SRAM 大小都做得更好。
# %%
traffic = use("hbm_traffic", hbm_traffic)
blocks = [16, 32, 64, 128, 256, 512]
for N in (1024, 4096, 16_384):
    explicit_bytes, tiled_bytes = traffic(N, N, 64, 128)
    print(f"N = {N:>6}: explicit {explicit_bytes / 1e6:8.1f} MB, tiled {tiled_bytes / 1e6:7.1f} MB", end="")
    print(f", {explicit_bytes / tiled_bytes:.1f} times less")
ax = plots.curves(
    blocks,
    {"tiled": [traffic(4096, 4096, 64, block)[1] / 1e6 for block in blocks]},
    "queries in a block",
    "MB through HBM",
    "One head, N = 4096, d = 64, 2 bytes",
    log_x=True,
    log_y=True,
    theory={"explicit": [traffic(4096, 4096, 64, 128)[0] / 1e6] * len(blocks)},
)
# %% [markdown] lang="en"
# Twice the block, half the traffic: the slope of the theorem. With 16 queries a block the tiled way moves even *more* than the explicit one, with 32 about as much; it pays from there on. Note that the tiled traffic is still quadratic in N, only with a much smaller factor. The paper measured attention of GPT-2 medium's size on an A100, forward and backward: 40.3 → 4.4 GB of traffic, 41.7 → 7.3 ms.
# %% [markdown] lang="zh-TW"
# 區塊大一倍，搬運少一半，這就是定理裡的斜率。每個區塊只有 16 個查詢時，分塊反而搬得**比直接算還多**，32 個時差不多，再大才划算。注意分塊的搬運量仍然是 N 的平方，只是係數小得多。論文在 A100 上，照 GPT-2 medium 的大小量了注意力的前向加反向：搬運 40.3 → 4.4 GB，時間 41.7 → 7.3 ms。
# %% [markdown] lang="en"
# ## 10. On a GPU: one kernel
#
# In PyTorch each operation is a kernel of its own: it reads from HBM and writes back. To keep a tile on the chip, the loop must live *inside one kernel*. The course has it in Triton, `course_lib/flash/triton_kernel.py`. Its forward loop, shortened:
#
# ```python
# rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)      # this program's block of queries
# for j in range(0, end, BLOCK):                             # walk over the keys
#     S = tl.dot(Q_i, tl.trans(K_j)) * SCALE                 # a tile, in registers
#     m_new = tl.maximum(m_i, tl.max(S, 1))
#     P = tl.exp(S - m_new[:, None])
#     correction = tl.exp(m_i - m_new)
#     l_i = correction * l_i + tl.sum(P, 1)
#     O_i = correction[:, None] * O_i + tl.dot(P, V_j)
#     m_i = m_new
# ```
# %% [markdown] lang="zh-TW"
# ## 10. 在 GPU 上：一個核心（kernel）
#
# PyTorch 的每個運算都是一個核心，各自從 HBM 讀、再寫回去。想把一個區塊留在晶片裡，迴圈就得住在**同一個核心裡面**。課程用 Triton 寫了一個：`course_lib/flash/triton_kernel.py`。前向的迴圈節錄如下：
#
# ```python
# rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)      # 這個程式負責的查詢區塊
# for j in range(0, end, BLOCK):                             # 走過所有的鍵
#     S = tl.dot(Q_i, tl.trans(K_j)) * SCALE                 # 一個區塊，放在暫存器
#     m_new = tl.maximum(m_i, tl.max(S, 1))
#     P = tl.exp(S - m_new[:, None])
#     correction = tl.exp(m_i - m_new)
#     l_i = correction * l_i + tl.sum(P, 1)
#     O_i = correction[:, None] * O_i + tl.dot(P, V_j)
#     m_i = m_new
# ```
# %% [markdown] lang="en"
# Line for line your `flash_forward`. One program runs for each block of queries of each head, hundreds side by side; only `Q_i`, `K_j`, `V_j` come from HBM and only `O_i` and lse go back. With a GPU the next cell runs it.
# %% [markdown] lang="zh-TW"
# 跟你的 `flash_forward` 逐行對應。每個頭、每個查詢區塊各由一個程式負責，幾百個同時跑；從 HBM 進來的只有 `Q_i`、`K_j`、`V_j`，出去的只有 `O_i` 和 lse。有 GPU 的話，下一格會執行它。
# %% tags=["experiment"]
if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    from course_lib.flash.triton_kernel import triton_attention

    q, k, v = torch.randn(3, 1, 8, 4096, 64, device="cuda", dtype=torch.float16).unbind(0)
    for name, way in (
        ("explicit", explicit),
        ("Triton kernel", triton_attention),
        ("PyTorch's", F.scaled_dot_product_attention),
    ):
        way(q, k, v)  # compiles on the first call
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        way(q, k, v)
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        seconds = Timer("way(q, k, v)", globals={"way": way, "q": q, "k": k, "v": v}).timeit(20).mean
        print(f"{name:<14} {1000 * seconds:7.3f} ms, peak {peak:7.1f} MiB")
else:
    print("No GPU here, so the kernel is not run. In Colab: Runtime > Change runtime type > T4 GPU.")
# %% [markdown] lang="en"
# ## 11. What to remember
#
# 1. A softmax needs two numbers of the past: $m$ and $s$. When the maximum rises, one factor $e^{m-m'}$ repairs all that was summed, $O$ included.
# 2. An attention is an output and its lse; two of them merge exactly.
# 3. Backward: keep $O$ and lse, compute the tiles again, and $\delta_i = dO_i\cdot O_i$.
# 4. Memory $O(N)$ instead of $O(N^2)$. Work stays $O(N^2)$ and even grows by a sixth: seven products for six.
# 5. The speed on a GPU comes from traffic: $N^2d^2/M_s$ instead of $Nd + N^2$.
# %% [markdown] lang="zh-TW"
# ## 11. 要記住的事
#
# 1. 要做 softmax，過去只需要留下兩個數：$m$ 與 $s$。最大值升高時，一個倍數 $e^{m-m'}$ 就能修好所有累加過的東西，包括 $O$。
# 2. 一份注意力就是輸出加上 lse；兩份可以精確地合併。
# 3. 反向：留下 $O$ 與 lse，區塊重算一次，而 $\delta_i = dO_i\cdot O_i$。
# 4. 記憶體從 $O(N^2)$ 變成 $O(N)$；運算仍是 $O(N^2)$，乘積還多了六分之一。
# 5. 在 GPU 上快，是因為搬得少：$N^2d^2/M_s$，而不是 $Nd + N^2$。
# %% [markdown] lang="en"
# ## 12. Self-check: question `09_q1` · 1 point · 3 minutes
#
# What does FlashAttention save? Put the letter of the best answer between the quotation marks.
#
# - **a**: Arithmetic. Working in tiles, it needs fewer multiplications than the full matrix.
# - **b**: Everything, at the price of accuracy: a softmax block by block is an approximation of the whole one.
# - **c**: Time. It turns the quadratic cost of attention into a linear one, so twice the tokens take twice as long.
# - **d**: Room and traffic. The N × M matrix is never stored, so memory grows with N and far fewer bytes pass through slow memory; the result is the same.
# %% [markdown] lang="zh-TW"
# ## 12. 自我檢查：選擇題 `09_q1` · 滿分 1 分 · 3 分鐘
#
# FlashAttention 省下的是什麼？請把最好的答案的字母填進引號裡。
#
# - **a**：運算。分塊之後，需要的乘法比算整個矩陣少。
# - **b**：什麼都省，代價是精確度：一個區塊一個區塊做的 softmax，只是整列 softmax 的近似。
# - **c**：時間。它把注意力的平方成本變成線性，詞元多一倍，時間也只多一倍。
# - **d**：空間與搬運。N × M 的矩陣從不存下來，所以記憶體只跟著 N 成長，進出慢速記憶體的位元組也少很多；結果則一樣。
# %% question="09_q1"
answer_09_q1 = ""
### BEGIN SOLUTION
answer_09_q1 = "d"
### END SOLUTION
# %%
check("09_q1", answer_09_q1)
# %% [markdown] lang="en"
# Two more to think about, without points. Could you run `merge_blocks` over the keys of two computers, each with half of the text? And why does `flash_backward` need lse, but not the maximum and the sum separately?
# %% [markdown] lang="zh-TW"
# 再想兩題，不計分。如果兩臺電腦各有半篇文章的鍵，能用 `merge_blocks` 合起來嗎？`flash_backward` 為什麼只要 lse，不必分別知道最大值與總和？
# %% [markdown] lang="en"
# ## 13. What the documents claim, and what you measured
#
# Figures come from cells of this lesson unless the row says otherwise; seeds and machines move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | Attention costs $O(N^2 d)$; time and memory grow with N² | true if all heads are added and the matrix is stored | attention's share of a layer's FLOPs at d = 512: 1.6 %, 14 %, 40 %, 50 %, 91 % for N = 50, 512, 2048, 3072, 32,768 |
# | At N = 10⁴ to 10⁵ memory bursts | true if the matrix is stored | one layer, 8 heads, float16: 1.6 GB, 17 GB (32,768), 160 GB |
# | FlashAttention tiles, keeps the matrix out of GPU memory and moves the fewest bytes | true | our count, N = 4096: 3.9 times less with blocks of 128; that none is better for all SRAM sizes, and 40.3 → 4.4 GB on an A100, are the paper's |
# | It is exact | true in exact arithmetic | tiled against explicit about 1e-14 (float64) and a few 1e-6 (float32), not one entry in ten equal to the last bit; error in bfloat16: explicit 0.076, tiles with bfloat16 sums 0.15, with float32 sums 0.010, PyTorch's 0.010 |
# | It lifts the O(N²) curse | imprecise | memory yes: doubling N multiplies the peak by about 2 instead of 4; work no: 7 products for 6, 1.17 times (the paper's count: 1.13) |
# | It made GPT-4 possible | cannot be checked | its maker has published neither architecture nor training |
# %% [markdown] lang="zh-TW"
# ## 13. 文件怎麼說，你量到什麼
#
# 除非註明，數字都來自這一課的儲存格；換亂數種子或電腦，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 注意力的成本是 $O(N^2 d)$；時間與記憶體跟著 N² 成長 | 有條件：所有的頭合計，而且矩陣有存下來 | d = 512 時，注意力占一層 FLOP 的比例：N = 50、512、2048、3072、32,768 時為 1.6 %、14 %、40 %、50 %、91 % |
# | N 到 10⁴–10⁵ 時記憶體會爆掉 | 有條件：矩陣有存下來 | 一層、8 個頭、float16：1.6 GB、17 GB（32,768）、160 GB |
# | FlashAttention 分塊計算，不讓矩陣進 GPU 記憶體，搬運最少 | 對 | 我們的計數，N = 4096、每個區塊 128 個查詢：只剩 1/3.9；「對所有 SRAM 大小沒有更好的」與 A100 上 40.3 → 4.4 GB 出自論文 |
# | 它是精確的 | 對，如果算術是精確的 | 分塊與直接算的差：約 1e-14（float64）、數個 1e-6（float32），連最後一個位元都相同的數不到一成；bfloat16 的誤差：直接算 0.076，總和用 bfloat16 的分塊 0.15，用 float32 的 0.010，PyTorch 0.010 |
# | 它解開了 O(N²) 的詛咒 | 不精確 | 記憶體是：N 變兩倍，峰值約變兩倍，不是四倍；運算不是：6 個乘積變 7 個，1.17 倍（論文的統計：1.13 倍） |
# | 它讓 GPT-4 成為可能 | 無法查證 | 開發者沒有公布架構與訓練方式 |
