# %% [markdown] lang="en"
# # 05 · Position clocks: a set of clocks, fast and slow
#
# "Dog bites man" and "man bites dog" hold the same three words. To the attention of lessons 02 to 04 they are the same set of vectors.
#
# The paper of 2017 adds to each word the hands of a few hundred clocks; today's models turn queries and keys by them (RoPE). You will build both, prove why it works, and measure how far it works.
#
# We test what some articles and lecture notes say; "the article" and "the lecture" are two of them.
#
# **You need** matrices, and the sum formulas of sine and cosine. **Time**: about two hours, 85 minutes of them for the exercises and the question.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `digit_periods` | 1 | 8 | 1 |
# | `angular_frequencies` | 2 | 8 | 1 |
# | `sinusoidal_positions` | 3 | 15 | 2 |
# | `shift_matrix` | 4 | 20 | 3 |
# | `relative_score` | 3 | 10 | 2 |
# | `rope_interleaved` | 3 | 12 | 3 |
# | `rope_half_split` | 3 | 10 | 3 |
# | question `05_q1` | | 2 | 1 |
# %% [markdown] lang="zh-TW"
# # 05 · 位置編碼：一組快慢不同的時鐘
#
# 「狗咬人」和「人咬狗」用的是同樣三個字。對第 02 到 04 課的注意力來說，它們就是同一組向量。
#
# 2017 年的論文替每個字加上幾百個時鐘的指針；現在的模型則拿時鐘去轉查詢和鍵（RoPE）。這一課兩種都自己做，證明它為什麼行得通，再量一量它能走多遠。
#
# 本課常提到的「講義」和「文章」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# **先備知識**：矩陣，以及 sin、cos 的和角公式。**時間**：約兩小時，其中練習和選擇題 85 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `digit_periods` | 1 | 8 | 1 |
# | `angular_frequencies` | 2 | 8 | 1 |
# | `sinusoidal_positions` | 3 | 15 | 2 |
# | `shift_matrix` | 4 | 20 | 3 |
# | `relative_score` | 3 | 10 | 2 |
# | `rope_interleaved` | 3 | 12 | 3 |
# | `rope_half_split` | 3 | 10 | 3 |
# | 選擇題 `05_q1` | | 2 | 1 |
# %% tags=["setup"]
import math

import torch

# %% [markdown] lang="en"
# ## 1. The question: who bit whom?
#
# Three words with made-up vectors, $d_\text{model} = 4$: 狗 (dog), 咬 (bites), 人 (man). Self-attention without any weights, $\mathrm{softmax}(XX^\top/\sqrt{d})\,X$, reads 狗咬人 (dog bites man) and 人咬狗 (man bites dog).
#
# Before you run the cell, guess: does 狗 come out differently when it is bitten?
# %% [markdown] lang="zh-TW"
# ## 1. 問題：誰咬了誰？
#
# 我們自己編三個字的向量，$d_\text{model} = 4$：狗、咬、人。拿沒有任何權重的自注意力 $\mathrm{softmax}(XX^\top/\sqrt{d})\,X$，去讀「狗咬人」和「人咬狗」。
#
# 執行之前先猜猜看：「狗」咬人的時候和被咬的時候，輸出會不一樣嗎？
# %%
import matplotlib.pyplot as plt

from course_lib import plots

torch.set_num_threads(1)  # matrices this small gain nothing from several threads

word_table = {"狗": [2.0, 1.0, 1.0, 0.0], "咬": [0.0, 2.0, 0.0, 1.0], "人": [1.0, 1.0, 0.0, 2.0]}
names = ["dog", "bites", "man"]


def vectors_of(sentence):
    return torch.tensor([word_table[word] for word in sentence], dtype=torch.float64)


def attend_to_itself(X):
    return torch.softmax(X @ X.T / math.sqrt(X.shape[-1]), dim=-1) @ X


def by_word(sentence, outputs):
    """The rows in the order dog, bites, man."""
    return outputs[[sentence.index(word) for word in word_table]]


def show_both(outputs, title):
    """The outputs of both sentences, each row under the name of its word."""
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDTH, 2.3))
    for ax, (sentence, order) in zip(axes, (("狗咬人", "dog bites man"), ("人咬狗", "man bites dog"))):
        plots.heat_map(by_word(sentence, outputs[sentence]), rows=names, title=order, ax=ax)
        ax.set(xlabel="coordinate of the output", ylabel="")
    figure.suptitle(title)
    gap = (outputs["狗咬人"].mean(dim=0) - outputs["人咬狗"].mean(dim=0)).norm()
    print(f"{title}: the mean vectors of the two sentences differ by {gap:.1e}")


plots.use_style()
show_both({s: attend_to_itself(vectors_of(s)) for s in ("狗咬人", "人咬狗")}, "Without positions")
# %% [markdown] lang="en"
# Every word has the same output in both sentences, to the last digit. Nobody can tell who bit whom, neither from 狗, nor from the mean of the sentence.
#
# This is not our small table's fault. Scores are inner products of two *contents*; the sum over keys does not ask in which order they come. If the input rows are permuted, so are the output rows, and nothing else happens.
# %% [markdown] lang="zh-TW"
# 每個字在兩句裡的輸出一模一樣。不管看「狗」的輸出，還是看整句的平均，都分不出誰咬了誰。
#
# 這不是因為表格太小。分數是兩份**內容**的內積；對鍵加總時，也不問它們的先後。輸入的列（row）換順序，輸出的列就跟著換，其他什麼都沒變。
# %% [markdown] lang="en"
# Is that so for every sentence and all weights? The next cell takes random words and matrices, shuffles, and reverses. The article claims that "The cat … mat" and the same words backwards are *the same* to attention. And a last line adds a causal mask (lesson 07): each word sees only itself and what came before.
# %% [markdown] lang="zh-TW"
# 任何句子、任何權重都這樣嗎？下一格用隨機的字和矩陣，試試打亂和倒過來。文章說「The cat … mat」和倒過來的句子，對注意力而言**完全一樣**。最後一行再加上因果遮罩（第 07 課）：每個字只看得到自己和前面的字。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(0)
X = torch.randn(12, 16, generator=generator, dtype=torch.float64)
W_Q, W_K, W_V = (torch.randn(16, 16, generator=generator, dtype=torch.float64) / 4 for _ in range(3))
earlier = torch.ones(12, 12, dtype=torch.bool).tril()


def self_attention(X, mask=None):
    scores = X @ W_Q @ (X @ W_K).T / 4
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ (X @ W_V)


shuffle, Y = torch.randperm(12, generator=generator), self_attention(X)
turned_round = self_attention(X.flip(0))
past_only = self_attention(X[shuffle], earlier) - self_attention(X, earlier)[shuffle]
for what, gap in {
    "shuffled input against shuffled output:": self_attention(X[shuffle]) - Y[shuffle],
    "sentence against its reverse, as it is:": turned_round - Y,
    "their means:": turned_round.mean(dim=0) - Y.mean(dim=0),
    "the first line again, with causal mask:": past_only,
}.items():
    print(f"{what:<41} {gap.abs().max():.2g}")


# %% [markdown] lang="en"
# The claim needs two conditions. As *matrices* the outputs differ: the rows come out in another order. What is the same is each word's row, hence the mean.
#
# And with a causal mask order does matter, because a word then has a past. Decoders without any position vectors can learn positions from that (Haviv et al. 2022). Without a mask there is no hope: we must put the position into the vectors.
# %% [markdown] lang="zh-TW"
# 這個說法要加兩個條件。把輸出看成**矩陣**，兩者不同，因為列的順序換了；相同的是每個字自己那一列，平均也就相同。
#
# 另外，有因果遮罩時順序就有影響，因為每個字有了「前面」。只有解碼器的模型不加位置向量，也能從這裡學到位置（Haviv et al. 2022）。沒有遮罩就沒辦法了：得把位置放進向量裡。
# %% [markdown] lang="en"
# ## 2. The picture: digits are clocks
#
# How do we write numbers? Count 0, 1, 2, … and watch the digits of 9487 tick. The ones digit moves at every step and comes round after 10. The tens digit moves every 10 steps and comes round after 100.
#
# | digit of 9487 | value | changes every | comes round after (period) |
# |---|---|---|---|
# | ones | 7 | 1 | 10 |
# | tens | 8 | 10 | 100 |
# | hundreds | 4 | 100 | 1000 |
# | thousands | 9 | 1000 | 10000 |
#
# Four clocks, each ten times slower than the one before it.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像：每一位數都是時鐘
#
# 我們怎麼寫數字？從 0、1、2 一路數下去，看 9487 的每一位怎麼跳。個位數每一步都動，10 步繞一圈；十位數每 10 步動一次，100 步繞一圈。
#
# | 9487 的哪一位 | 值 | 隔多久變一次 | 多久繞一圈（週期） |
# |---|---|---|---|
# | 個位 | 7 | 1 | 10 |
# | 十位 | 8 | 10 | 100 |
# | 百位 | 4 | 100 | 1000 |
# | 千位 | 9 | 1000 | 10000 |
#
# 四個鐘，一個比一個慢十倍。
# %% [markdown] lang="en"
# ### What every check looks at
#
# - The result's type, shape, dtype and device, then its values; arguments and global settings stay as they are.
# - Optional arguments may come by position or by name. `...` stands for any number of leading dimensions, also none.
# - Compute the angles of a float64 result in float64, those of every other result (half precision too) in float32 or better. In float32 an angle of 1000 is right to about four decimals; what that alone changes is no mistake.
# - Best not to call your other answers. `math` and `torch` are all you need. Calling the course's own version in `course_lib` ends the credit of that exercise.
# %% [markdown] lang="zh-TW"
# ### 每個檢查都看什麼
#
# - 先看回傳值的型別、形狀、dtype、裝置，再看數值；引數與全域設定要保持原樣。
# - 有預設值的引數，可能按位置或按名稱給。`...` 代表任意多個前置維度，也可能沒有。
# - 結果是 float64 時，角度用 float64 算；結果是其他 dtype（包括半精度）時，角度至少用 float32 算。float32 的角度到了 1000，大約只準到小數第四位；單單因此造成的差不算錯。
# - 最好不要呼叫其他儲存格的函式，用 `math` 和 `torch` 就夠了。呼叫 `course_lib` 裡課程自己的版本，該練習就不再給分。
# %% [markdown] lang="en"
# ### Exercise `digit_periods` · difficulty 1 of 5 · 8 minutes · 1 point
#
# Return the digits of $n \ge 0$ from the ones digit **up**, and the period of each: after how many steps does it repeat its whole pattern? For 9487 that is `[7, 8, 4, 9]` and `[10, 100, 1000, 10000]`. In base 2 the number 6 gives `[0, 1, 1]` and `[2, 4, 8]`. The number 0 has one digit.
#
# Whole numbers only: exact powers of the base, the numbers just below them, and numbers far beyond $2^{53}$ occur, where floats and logarithms lose digits.
# %% [markdown] lang="zh-TW"
# ### 練習 `digit_periods` · 難度 1／5 · 8 分鐘 · 滿分 1 分
#
# 回傳 $n \ge 0$ 的每一位數，從個位數**往上**排，以及每一位的週期：隔幾步會重複整個規律？9487 的答案是 `[7, 8, 4, 9]` 和 `[10, 100, 1000, 10000]`；二進位的 6 是 `[0, 1, 1]` 和 `[2, 4, 8]`。數字 0 有一位數。
#
# 請只用整數計算：會考剛好是底數次方、或只少 1 的數，也會考遠大於 $2^{53}$ 的數，浮點數和對數在那裡會掉位數。
# %% exercise="digit_periods"
def digit_periods(n: int, base: int = 10) -> tuple[list[int], list[int]]:
    """The digits of n as clocks.

    Args:
        n: a whole number, 0 or more; it may be far beyond 2**53.
        base: 2 or more.

    Returns:
        (digits, periods), two lists of int of the same length, the ones digit first. The period of
        a digit is the number of steps after which it repeats its whole pattern: base, base**2, …
        0 has one digit.
    """
    ### BEGIN SOLUTION
    digits, periods = [], []
    while True:
        n, digit = divmod(n, base)
        digits.append(digit)
        periods.append(base ** len(digits))
        if n == 0:
            return digits, periods
    ### END SOLUTION


# %%
check("digit_periods", digit_periods)


# %% [markdown] lang="en"
# ### From digits to hands
#
# Digits jump: from 9499 to 9500 three of them change at once, though the numbers are neighbours. The lecture wishes for a "fantasy numeral system" that is **continuous**, **periodic** and **small**. A hand on a clock is all three: a digit that glides instead of jumping.
#
# A hand is a point on the unit circle, so it needs *two* numbers, $(\sin\theta, \cos\theta)$. With $x = \sin$ and $y = \cos$ it starts at twelve and turns clockwise, as clocks do.
# %% [markdown] lang="zh-TW"
# ### 從數字到指針
#
# 數字是用跳的：從 9499 到 9500，明明是鄰居，卻有三位同時變。講義想要一個「奇幻進位系統」：**連續**、**有週期**、**數值不大**。時鐘的指針三樣都有，等於是不跳、只滑動的數字。
#
# 指針是單位圓上的一點，所以要用**兩個**數 $(\sin\theta, \cos\theta)$。令 $x = \sin$、$y = \cos$，指針就從十二點出發、順時針轉，跟真的時鐘一樣。
# %% [markdown] lang="en"
# Why not the sine alone? Because $\sin\theta = \sin(\pi - \theta)$: one number cannot tell a hand that points up and right from one that points down and right. Positions 1 and 21 of the fastest clock have sines 0.841 and 0.837, nearly equal. Their cosines, 0.540 and −0.548, say which is which.
# %% [markdown] lang="zh-TW"
# 只用 sin 不行嗎？不行，因為 $\sin\theta = \sin(\pi - \theta)$：一個數分不出指針指的是右上還是右下。最快的鐘在位置 1 和 21，sin 是 0.841 和 0.837，幾乎一樣；cos 是 0.540 和 −0.548，這才分得出來。
# %% [markdown] lang="en"
# ## 3. The formula
#
# Clock number $i$ turns by $\omega_i$ radians at each step, and row $pos$ of the table $P$, shape $[n, d]$, holds the hands of all $d/2$ clocks side by side:
#
# $$\omega_i = 10000^{-2i/d},\quad i = 0, \dots, \tfrac d2-1, \qquad P_{pos,\,2i} = \sin(\omega_i\, pos), \quad P_{pos,\,2i+1} = \cos(\omega_i\, pos)$$
#
# - $d = d_\text{model}$ is even. **$i$ numbers the pairs**, not the columns (one article says "the dimension"): columns $2i$ and $2i+1$ share $\omega_i$.
# - Positions count from 0, so that row 0 is $(0, 1, 0, 1, \dots)$: all hands at twelve.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# 第 $i$ 個鐘每一步轉 $\omega_i$ 弧度；表 $P$ 的形狀是 $[n, d]$，第 $pos$ 列（row）把 $d/2$ 個鐘的指針並排放好：
#
# $$\omega_i = 10000^{-2i/d},\quad i = 0, \dots, \tfrac d2-1, \qquad P_{pos,\,2i} = \sin(\omega_i\, pos), \quad P_{pos,\,2i+1} = \cos(\omega_i\, pos)$$
#
# - $d = d_\text{model}$ 是偶數。**$i$ 數的是「第幾對」**，不是第幾行（column；有一篇文章寫成「維度」）：第 $2i$ 行和第 $2i+1$ 行共用 $\omega_i$。
# - 位置從 0 數起，所以第 0 列是 $(0, 1, 0, 1, \dots)$：所有指針都在十二點。
# %% [markdown] lang="en"
# ### By hand: d = 8 is a decimal system
#
# With $d = 8$ the frequencies are $10000^{-i/4} = 10^{-i}$, that is $1, \tfrac1{10}, \tfrac1{100}, \tfrac1{1000}$: each clock is ten times slower than the one before, like the digits of 9487. Position 2 is
#
# | clock | $\omega_i$ | angle at $pos = 2$ | sin | cos | period $2\pi/\omega_i$ |
# |---|---|---|---|---|---|
# | 0 | 1 | 2 | 0.909 | −0.416 | 6.28 |
# | 1 | 0.1 | 0.2 | 0.199 | 0.980 | 62.8 |
# | 2 | 0.01 | 0.02 | 0.020 | 1.000 | 628 |
# | 3 | 0.001 | 0.002 | 0.002 | 1.000 | 6283 |
# %% [markdown] lang="zh-TW"
# ### 用手算：d = 8 就是十進位
#
# $d = 8$ 時，頻率是 $10000^{-i/4} = 10^{-i}$，也就是 $1, \tfrac1{10}, \tfrac1{100}, \tfrac1{1000}$：一個鐘比一個慢十倍，就像 9487 的四位數。位置 2 是：
#
# | 鐘 | $\omega_i$ | 位置 2 的角度 | sin | cos | 週期 2π/ω |
# |---|---|---|---|---|---|
# | 0 | 1 | 2 | 0.909 | −0.416 | 6.28 |
# | 1 | 0.1 | 0.2 | 0.199 | 0.980 | 62.8 |
# | 2 | 0.01 | 0.02 | 0.020 | 1.000 | 628 |
# | 3 | 0.001 | 0.002 | 0.002 | 1.000 | 6283 |
# %% [markdown] lang="en"
# ### Exercise `angular_frequencies` · difficulty 2 of 5 · 8 minutes · 1 point
#
# Return $\omega_0, \dots, \omega_{d/2-1}$, shape $[d_\text{model}/2]$, for any even `d_model` (2 too), any `base`, in the `dtype` asked for. `angular_frequencies(4)` is `[1, 0.01]`, and `angular_frequencies(8)` the four numbers of the table.
# %% [markdown] lang="zh-TW"
# ### 練習 `angular_frequencies` · 難度 2／5 · 8 分鐘 · 滿分 1 分
#
# 回傳 $\omega_0, \dots, \omega_{d/2-1}$，形狀 $[d_\text{model}/2]$；`d_model` 是任意偶數（2 也算），`base` 任意，結果用指定的 `dtype`。`angular_frequencies(4)` 是 `[1, 0.01]`，`angular_frequencies(8)` 就是上表的四個數。
# %% exercise="angular_frequencies"
def angular_frequencies(d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """How far each clock turns in one step, in radians: base ** (-2 i / d_model).

    Args:
        d_model: even, 2 or more; hundreds occur.
        base: a positive number.
        dtype: of the result: float32, float64, float16 or bfloat16. float64 asks for float64 precision.

    Returns:
        [d_model / 2], one number for each pair of columns, the fastest clock (1.0) first.
    """
    ### BEGIN SOLUTION
    even_columns = torch.arange(0, d_model, 2, dtype=torch.float64)
    return (base ** (-even_columns / d_model)).to(dtype)
    ### END SOLUTION


# %%
check("angular_frequencies", angular_frequencies)
# %% [markdown] lang="en"
# ### Which dimensions turn fastest?
#
# The first ones. Now at the size of the 2017 model, $d = 512$: 256 clocks. The dotted lines are two lengths of text: clocks below a line have come round at least once within it, clocks above have not.
# %% [markdown] lang="zh-TW"
# ### 哪些維度轉得最快？
#
# 最前面的。換成 2017 年模型的大小，$d = 512$，有 256 個鐘。虛線是兩種文字長度：在線下面的鐘，讀完這麼長的文字至少繞過一圈；在線上面的還沒有。
# %%
frequencies_of = use("angular_frequencies", angular_frequencies)

omega = frequencies_of(512, dtype=torch.float64)
periods = 2 * math.pi / omega
print(f"fastest: omega_0 = {omega[0]:.0f}, period {periods[0]:.2f}")
print(f"slowest: omega_255 = {omega[-1]:.3e}, period {periods[-1]:,.0f}  (10000 · 2π would be {20000 * math.pi:,.0f})")
ax = plots.curves(range(256), {"period": periods}, "pair i", "steps for one turn", "d_model = 512", log_y=True)
for length in (64, 512):
    count = int((periods < length).sum())
    ax.axhline(length, color="#777777", linestyle=":")
    ax.annotate(f"{length} tokens: {count} of 256 clocks", (255, 1.15 * length), ha="right", fontsize=10)


# %% [markdown] lang="en"
# The periods form a straight line on a logarithmic scale, a geometric series from 6.28 to 60,611. The paper speaks of "$2\pi$ to $10000\cdot2\pi$"; the upper end is not quite reached, since $i$ stops at $d/2-1$.
#
# In a text of 512 tokens more than half of the clocks never come round. They are the high digits: they tell far from near, the fast ones tell neighbours apart.
# %% [markdown] lang="zh-TW"
# 在對數座標上，週期排成一條直線，是從 6.28 到 60,611 的等比數列。論文說「$2\pi$ 到 $10000\cdot2\pi$」，上限其實差一點，因為 $i$ 只到 $d/2-1$。
#
# 讀 512 個詞元（token），有一半以上的鐘繞不完一圈。它們是高位數，用來分辨遠近；快的鐘用來分辨鄰居。
# %% [markdown] lang="en"
# ### Exercise `sinusoidal_positions` · difficulty 3 of 5 · 15 minutes · 2 points
#
# Return the table $P$, shape $[n_\text{positions}, d_\text{model}]$. For `(3, 4)`, where $\omega = (1, \tfrac1{100})$:
#
# $$P = \begin{pmatrix} 0 & 1 & 0 & 1\\ 0.841 & 0.540 & 0.010 & 1.000\\ 0.909 & -0.416 & 0.020 & 1.000\end{pmatrix}$$
#
# One position, a single clock ($d = 2$) and thousands of positions occur. In bfloat16 and float16 with hundreds of positions the *result* has that dtype; angles need float32. bfloat16 cannot even write 257.
# %% [markdown] lang="zh-TW"
# ### 練習 `sinusoidal_positions` · 難度 3／5 · 15 分鐘 · 滿分 2 分
#
# 回傳表 $P$，形狀 $[n_\text{positions}, d_\text{model}]$。以 `(3, 4)` 為例，$\omega = (1, \tfrac1{100})$：
#
# $$P = \begin{pmatrix} 0 & 1 & 0 & 1\\ 0.841 & 0.540 & 0.010 & 1.000\\ 0.909 & -0.416 & 0.020 & 1.000\end{pmatrix}$$
#
# 會考只有一個位置、只有一個鐘（$d = 2$）、上千個位置。指定 bfloat16 或 float16、上百個位置時，**結果**用那個 dtype，角度仍要用 float32 算。bfloat16 連 257 都寫不出來。
# %% exercise="sinusoidal_positions"
def sinusoidal_positions(
    n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """The table of 2017: row pos is sin(w_0 pos), cos(w_0 pos), sin(w_1 pos), cos(w_1 pos), …

    Args:
        n_positions: 1 to a few thousand; positions are 0 … n_positions - 1.
        d_model: even, 2 or more.
        base: of the frequencies w_i = base ** (-2 i / d_model).
        dtype: of the result: float32, float64, float16 or bfloat16.

    Returns:
        [n_positions, d_model]. Angles are float64 for float64, float32 or better for every other dtype.
    """
    ### BEGIN SOLUTION
    omega = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * omega  # [n_positions, d_model/2]
    table = torch.empty(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table.to(dtype)
    ### END SOLUTION


# %%
check("sinusoidal_positions", sinusoidal_positions)
# %% [markdown] lang="en"
# ### Watch the clocks
#
# The four clocks of $d = 8$, one row of hands for each position. Down the first column the hand leaps about a sixth of a turn; in the last it hardly leaves twelve until position 512.
# %% [markdown] lang="zh-TW"
# ### 看時鐘走
#
# 這是 $d = 8$ 的四個鐘，一個位置一列。第一行（column）的指針每步跳將近六分之一圈；最後一行要到位置 512，才明顯離開十二點。
# %%
positions_of = use("sinusoidal_positions", sinusoidal_positions)

P = positions_of(1025, 8)
shown = [0, 1, 2, 3, 32, 512]
figure = plots.clocks(P[shown], rows=[f"pos {pos}" for pos in shown], columns=["ω = 1", "1/10", "1/100", "1/1000"])
# %% [markdown] lang="en"
# And moving, half a second a step. So that you need not wait 52 minutes for the slowest hand to come round, the base is 100 here: $\omega = 1, 0.316, 0.1, 0.0316$.
# %% [markdown] lang="zh-TW"
# 讓它們動起來，每步半秒。要是底數用 10000，最慢的指針得等 52 分鐘才繞一圈，所以這裡改用 100：$\omega = 1, 0.316, 0.1, 0.0316$。
# %%
plots.ticking_clocks(frequencies_of(8, base=100.0))


# %% [markdown] lang="en"
# ### Turn the knob: position and base
#
# Move `pos` and read it off the hands as you would read 9487 off its digits. Then change the base: a small one makes all clocks fast, so they run out of high digits; with a large one the slow ones stand still. Llama 3 uses 500,000 for its longer texts. (`log10_base` = 4 is 10000.)
# %% [markdown] lang="zh-TW"
# ### 轉轉看：位置與底數
#
# 移動 `pos`，試著從指針讀出位置，就像從四個數字讀出 9487。再調底數：太小，每個鐘都快，高位數不夠用；太大，慢的鐘幾乎不動。Llama 3 讀的文字比較長，用的是 500,000。（`log10_base` = 4 就是 10000。）
# %%
def draw_clocks(pos, log10_base):
    row = positions_of(pos + 1, 8, base=10.0**log10_base)[-1]
    plots.clocks(row, rows=[f"pos {pos}"], columns=[f"ω = {w:.2g}" for w in frequencies_of(8, base=10.0**log10_base)])


plots.knob(draw_clocks, pos=(0, 1000, 1, 487), log10_base=(1.0, 6.0, 0.5, 4.0))
# %% [markdown] lang="en"
# ### The whole table
#
# 128 positions and 128 columns, one row a position. On the left fast stripes, on the right columns that hardly change as you go down. Every row is one tick of 64 clocks.
# %% [markdown] lang="zh-TW"
# ### 整張表
#
# 128 個位置、128 行，一列一個位置。左邊是快速的條紋，右邊沿著位置（往下）幾乎不變。每一列就是 64 個鐘的一個時刻。
# %%
ax = plots.heat_map(positions_of(128, 128), title="P for 128 positions, d_model = 128", values=False)
ax.set(xlabel="column 2i (sin), 2i+1 (cos)", ylabel="position")
ax.figure.set_size_inches(6.4, 4.0)
# %% [markdown] lang="en"
# ### Who bit whom, once more
#
# The paper's input is $\sqrt{d}\cdot\text{embedding} + P$ (then dropout in training). On our small table we simply add $P$ to the words, and ask again.
# %% [markdown] lang="zh-TW"
# ### 再問一次：誰咬了誰
#
# 論文的輸入是 $\sqrt{d}\cdot\text{embedding} + P$（訓練時再做 dropout）。在我們的小表格上，直接把 $P$ 加到字的向量，再問一次。
# %%
show_both(
    {s: attend_to_itself(vectors_of(s) + positions_of(3, 4, dtype=torch.float64)) for s in ("狗咬人", "人咬狗")},
    "With positions",
)
# %% [markdown] lang="en"
# Now 狗 as the biter and 狗 as the bitten have different outputs, and the sentences different means. Nothing *says* yet who bites; that has to be learned. But now there is something to learn from.
# %% [markdown] lang="zh-TW"
# 這下咬人的「狗」和被咬的「狗」輸出不同了，兩句的平均也不同。當然，還沒有人**說**是誰咬的，那得靠訓練；但至少有東西可學了。
# %% [markdown] lang="en"
# ### Does the position drown the word?
#
# The lecture: sine and cosine are small, so they do not cover the embedding. Each clock contributes $\sin^2 + \cos^2 = 1$, hence $\lVert P_{pos}\rVert = \sqrt{d/2}$, at *every* position. At $d = 512$ that is 16. How long is a word?
# %% [markdown] lang="zh-TW"
# ### 位置會蓋過字嗎？
#
# 講義說，sin 和 cos 夠小，不會蓋過嵌入。每個鐘貢獻 $\sin^2 + \cos^2 = 1$，所以**每個**位置都是 $\lVert P_{pos}\rVert = \sqrt{d/2}$；$d = 512$ 時是 16。那一個字有多長？
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(1)
long_table = positions_of(5000, 512, dtype=torch.float64)
lengths = long_table.norm(dim=-1)
print(f"length of a position: {lengths.min():.4f} to {lengths.max():.4f}")
# The paper's own code draws embeddings with variance 1/d.
words = torch.randn(1000, 512, generator=generator) / math.sqrt(512)
torch.manual_seed(1)  # nn.Embedding takes no generator
default = torch.nn.Embedding(1000, 512).weight.detach()
for name, table in (("N(0, 1/d)", words), ("nn.Embedding's own N(0, 1)", default)):
    length = table.norm(dim=-1).mean()
    print(f"length of a word, {name}: {length:.1f}, times sqrt(512): {length * math.sqrt(512):.1f}")


# %% [markdown] lang="en"
# So the factor $\sqrt{d}$, which none of our documents mentions, decides it. Without it a word of length 1 stands against a position of length 16; with it 22.6 against 16. (PyTorch's `nn.Embedding` starts at $N(0,1)$ and brings the 22.6 along; there the factor would be too much.)
# %% [markdown] lang="zh-TW"
# 所以關鍵在 $\sqrt{d}$ 這個因子，而手上的文件都沒提到它。不乘，是長度 1 的字對上長度 16 的位置；乘了，是 22.6 對 16。（PyTorch 的 `nn.Embedding` 預設是 $N(0,1)$，本來就有 22.6，再乘就太大了。）
# %% [markdown] lang="en"
# ## 4. The proof: k steps are one rotation
#
# The article's claim: the position $k$ steps further on is a *linear* function of this one, with a matrix that does not depend on where you are. Take one clock, angle $\alpha = \omega_i\,pos$, and let it turn by $\theta = \omega_i k$. The sum formulas give
#
# $$\sin(\alpha+\theta) = \sin\alpha\cos\theta + \cos\alpha\sin\theta$$
# $$\cos(\alpha+\theta) = \cos\alpha\cos\theta - \sin\alpha\sin\theta$$
#
# Both right-hand sides are combinations of the old hand $(\sin\alpha, \cos\alpha)$. The weights contain $\theta$ only.
# %% [markdown] lang="zh-TW"
# ## 4. 證明：走 k 步就是一次旋轉
#
# 文章說：往後 $k$ 步的位置，是這個位置的**線性**函數，而且那個矩陣和你在哪裡無關。先看一個鐘，角度 $\alpha = \omega_i\,pos$，讓它再轉 $\theta = \omega_i k$。由和角公式：
#
# $$\sin(\alpha+\theta) = \sin\alpha\cos\theta + \cos\alpha\sin\theta$$
# $$\cos(\alpha+\theta) = \cos\alpha\cos\theta - \sin\alpha\sin\theta$$
#
# 兩個式子右邊都是舊指針 $(\sin\alpha, \cos\alpha)$ 的線性組合，權重裡只有 $\theta$。
# %% [markdown] lang="en"
# Written with rows, as in this course:
#
# $$\begin{pmatrix}\sin\alpha & \cos\alpha\end{pmatrix}\underbrace{\begin{pmatrix}\cos\theta & -\sin\theta\\ \sin\theta & \cos\theta\end{pmatrix}}_{R(\theta)} = \begin{pmatrix}\sin(\alpha+\theta) & \cos(\alpha+\theta)\end{pmatrix}$$
#
# **Where people stumble**: the article writes columns, $PE_{pos+k} = M_k\, PE_{pos}$. For columns the matrix is the *transpose*, $\begin{pmatrix}\cos\theta & \sin\theta\\ -\sin\theta & \cos\theta\end{pmatrix}$. Use it on rows, and every clock turns back instead of forward.
# %% [markdown] lang="zh-TW"
# 照本課程的習慣寫成列向量（row）：
#
# $$\begin{pmatrix}\sin\alpha & \cos\alpha\end{pmatrix}\underbrace{\begin{pmatrix}\cos\theta & -\sin\theta\\ \sin\theta & \cos\theta\end{pmatrix}}_{R(\theta)} = \begin{pmatrix}\sin(\alpha+\theta) & \cos(\alpha+\theta)\end{pmatrix}$$
#
# **最容易卡住的地方**：文章寫的是行向量（column），$PE_{pos+k} = M_k\, PE_{pos}$。行向量的矩陣是這個的**轉置** $\begin{pmatrix}\cos\theta & \sin\theta\\ -\sin\theta & \cos\theta\end{pmatrix}$。拿它來乘列向量，每個鐘就會倒著走。
# %% [markdown] lang="en"
# All clocks together: $M_k$ is block-diagonal with blocks $R(\omega_0 k), R(\omega_1 k), \dots$, shape $[d, d]$, and $P_{pos}\, M_k = P_{pos+k}$.
#
# Is it a rotation? $R(\theta)\,R(\theta)^\top$ has $\cos^2\theta + \sin^2\theta = 1$ on its diagonal and $\cos\theta\sin\theta - \sin\theta\cos\theta = 0$ off it, so $M_k M_k^\top = I$: lengths and angles are kept. The determinant of each block is $\cos^2\theta + \sin^2\theta = 1$, not $-1$: no reflection. And $M_k M_l = M_{k+l}$, $M_0 = I$, $M_{-k} = M_k^\top$. ∎
# %% [markdown] lang="zh-TW"
# 所有的鐘合起來：$M_k$ 是區塊對角矩陣，區塊是 $R(\omega_0 k), R(\omega_1 k), \dots$，形狀 $[d, d]$，而 $P_{pos}\, M_k = P_{pos+k}$。
#
# 它是旋轉嗎？$R(\theta)\,R(\theta)^\top$ 的對角線是 $\cos^2\theta + \sin^2\theta = 1$，其他是 $\cos\theta\sin\theta - \sin\theta\cos\theta = 0$，所以 $M_k M_k^\top = I$：長度和夾角不變。每個區塊的行列式是 $1$ 不是 $-1$：沒有翻面。還有 $M_k M_l = M_{k+l}$、$M_0 = I$、$M_{-k} = M_k^\top$。∎
# %% [markdown] lang="en"
# ### Exercise `shift_matrix` · difficulty 4 of 5 · 20 minutes · 3 points
#
# Return $M_k$, shape $[d_\text{model}, d_\text{model}]$, in the **row** form $P_{pos}\, M_k = P_{pos+k}$. For $d = 2$ and $k = 1$: $\cos 1 = 0.540$, $\sin 1 = 0.841$, so
#
# $$M_1 = \begin{pmatrix} 0.540 & -0.841\\ 0.841 & 0.540\end{pmatrix}, \qquad (0, 1)\,M_1 = (0.841, 0.540) = P_1.$$
#
# $k$ may be 0, negative or in the thousands; another base, a single clock and all four dtypes occur, half precision with $k$ in the hundreds.
# %% [markdown] lang="zh-TW"
# ### 練習 `shift_matrix` · 難度 4／5 · 20 分鐘 · 滿分 3 分
#
# 回傳 $M_k$，形狀 $[d_\text{model}, d_\text{model}]$，用**列向量**的形式 $P_{pos}\, M_k = P_{pos+k}$。$d = 2$、$k = 1$ 時，$\cos 1 = 0.540$、$\sin 1 = 0.841$，所以
#
# $$M_1 = \begin{pmatrix} 0.540 & -0.841\\ 0.841 & 0.540\end{pmatrix}, \qquad (0, 1)\,M_1 = (0.841, 0.540) = P_1.$$
#
# $k$ 可能是 0、負數或上千；會考其他底數、只有一個鐘、四種 dtype，半精度時 $k$ 會上百。
# %% exercise="shift_matrix"
def shift_matrix(k: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """M_k with P[pos] @ M_k = P[pos + k] for every pos, P as in sinusoidal_positions.

    Args:
        k: a whole number of any sign, 0 too; thousands occur.
        d_model: even, 2 or more.
        base: of the frequencies w_i = base ** (-2 i / d_model).
        dtype: of the result: float32, float64, float16 or bfloat16.

    Returns:
        [d_model, d_model], block-diagonal; block i turns by k w_i. It does not depend on pos.
        Angles are float64 for float64, float32 or better for every other dtype.
    """
    ### BEGIN SOLUTION
    theta = k * base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    M = torch.zeros(d_model, d_model, dtype=torch.float64)
    sines = torch.arange(0, d_model, 2)
    cosines = sines + 1
    M[sines, sines] = theta.cos()  # how much of the old sine the new sine takes
    M[cosines, sines] = theta.sin()  # ... and of the old cosine
    M[sines, cosines] = -theta.sin()
    M[cosines, cosines] = theta.cos()
    return M.to(dtype)
    ### END SOLUTION


# %%
check("shift_matrix", shift_matrix)
# %% [markdown] lang="en"
# ### The proof, measured
#
# 1000 positions, $d = 512$, float64. For each $k$: how far is $P_{pos}M_k$ from $P_{pos+k}$, how far is it with the transpose, and is $M_k$ orthogonal?
# %% [markdown] lang="zh-TW"
# ### 量一量這個證明
#
# 1000 個位置、$d = 512$、float64。對每個 $k$ 量：$P_{pos}M_k$ 離 $P_{pos+k}$ 多遠？換成轉置又多遠？$M_k$ 是正交矩陣嗎？
# %% tags=["experiment"]
shift_by = use("shift_matrix", shift_matrix)

here = long_table[:1000]
for k in (1, 7, 100):
    M, there = shift_by(k, 512, dtype=torch.float64), long_table[k : 1000 + k]
    orthogonal = (M @ M.T - torch.eye(512, dtype=torch.float64)).abs().max()
    print(
        f"k = {k:>3}: rows @ M_k off by {(here @ M - there).abs().max():.0e}, with the transpose by "
        f"{(here @ M.T - there).abs().max():.2f};  M M^T - I: {orthogonal:.0e}"
    )
ax = plots.heat_map(shift_by(3, 8), title="M_3 for d_model = 8")
_ = ax.set(xlabel="column", ylabel="row")


# %% [markdown] lang="en"
# ## 5. The inner product sees the distance
#
# For one clock, $\sin\alpha\sin\beta + \cos\alpha\cos\beta = \cos(\alpha - \beta)$. Add up all clocks:
#
# $$P_{pos}\cdot P_{pos+k} = \sum_{i=0}^{d/2-1}\cos(\omega_i k)$$
#
# $pos$ is gone: only the offset $k$ counts. For $d = 4$ and $k = 1$: $\cos 1 + \cos 0.01 = 0.540 + 1.000 = 1.540$. For $k = 0$: $2 = d/2$, the squared length.
# %% [markdown] lang="zh-TW"
# ## 5. 內積看得到距離
#
# 就一個鐘而言，$\sin\alpha\sin\beta + \cos\alpha\cos\beta = \cos(\alpha - \beta)$。把所有的鐘加起來：
#
# $$P_{pos}\cdot P_{pos+k} = \sum_{i=0}^{d/2-1}\cos(\omega_i k)$$
#
# $pos$ 不見了，只剩相對位置 $k$。$d = 4$、$k = 1$ 時：$\cos 1 + \cos 0.01 = 0.540 + 1.000 = 1.540$。$k = 0$ 時是 $2 = d/2$，也就是長度的平方。
# %% [markdown] lang="en"
# ### Exercise `relative_score` · difficulty 3 of 5 · 10 minutes · 2 points
#
# For integers `offsets` of any shape and sign (a 0-d one, several dimensions, thousands, memory not contiguous), return $P_{pos}\cdot P_{pos+\text{offset}}$ in the same shape, float32 or float64. `relative_score(torch.tensor([0, 1]), 4)` is `[2.0, 1.540]`.
# %% [markdown] lang="zh-TW"
# ### 練習 `relative_score` · 難度 3／5 · 10 分鐘 · 滿分 2 分
#
# `offsets` 是整數張量，形狀與正負不限（可能是 0 維、好幾維、上千的值、記憶體不連續）。請回傳同形狀的 $P_{pos}\cdot P_{pos+\text{offset}}$，dtype 是 float32 或 float64。`relative_score(torch.tensor([0, 1]), 4)` 是 `[2.0, 1.540]`。
# %% exercise="relative_score"
def relative_score(
    offsets: torch.Tensor, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """The inner product of two rows of the table that are `offset` positions apart.

    It is the same for every pos.

    Args:
        offsets: integers (LongTensor), [...], of any sign, up to thousands; 0-d and
            non-contiguous ones occur.
        d_model: even, 2 or more.
        base: of the frequencies w_i = base ** (-2 i / d_model).
        dtype: of the result, float32 or float64 (angles as precise as that).

    Returns:
        [...]: the sum over the d_model / 2 clocks of cos(w_i offset).
    """
    ### BEGIN SOLUTION
    omega = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return (offsets.unsqueeze(-1) * omega).cos().sum(dim=-1).to(dtype)
    ### END SOLUTION


# %%
check("relative_score", relative_score)
# %% [markdown] lang="en"
# ### How well does it see?
#
# The article concludes that attention can "easily" read the distance off the inner product. Look at the curve for $d = 512$ first, then at two doubts: does it fall all the way, and does it know *before* from *after*?
# %% [markdown] lang="zh-TW"
# ### 看得多清楚？
#
# 文章的結論是：注意力透過內積就能「輕鬆」辨識距離。先看 $d = 512$ 的曲線，再想兩個疑問：它一路往下嗎？它分得出**前**和**後**嗎？
# %%
score_at = use("relative_score", relative_score)

offsets = torch.arange(-120, 121)
scores = score_at(offsets, 512, dtype=torch.float64)
for k in (0, 1, 2, 5, 10, 100, -10):
    print(f"offset {k:>4}: {score_at(torch.tensor(k), 512):.1f}")
ahead = score_at(torch.arange(200), 512, dtype=torch.float64)
first_rise = int((ahead[1:] > ahead[:-1]).nonzero()[0])
print(f"falls up to offset {first_rise}, then rises: {ahead[first_rise]:.2f}, {ahead[first_rise + 1]:.2f}")
ax = plots.curves(
    offsets, {"P[pos] · P[pos + k]": scores}, "offset k", "inner product", "Relative score, d_model = 512"
)
# %% [markdown] lang="en"
# A cosine is even: $k$ and $-k$ score the same, so direction is lost. Far away the curve ripples and is no ruler.
#
# And there is a third doubt. Attention does not take $P\cdot P$ but $(x+P)W_Q\cdot(x+P)W_K$. Write it out, with $A = W_Q W_K^\top$, for a query at $m$ and a key at $n$:
#
# $$x_m A x_n^\top + x_m A P_n^\top + P_m A x_n^\top + P_m A P_n^\top$$
#
# *What* with *what*, what with where, where with what, where with where. Even the last is $\sum\cos$ only if $A$ is the identity.
# %% [markdown] lang="zh-TW"
# cos 是偶函數：$k$ 和 $-k$ 分數一樣，方向就不見了。遠一點的地方，曲線開始起伏，當不了尺。
#
# 還有第三個疑問。注意力算的不是 $P\cdot P$，而是 $(x+P)W_Q\cdot(x+P)W_K$。令 $A = W_Q W_K^\top$，查詢在 $m$、鍵在 $n$，展開就是：
#
# $$x_m A x_n^\top + x_m A P_n^\top + P_m A x_n^\top + P_m A P_n^\top$$
#
# 內容對內容、內容對位置、位置對內容、位置對位置。就連最後一項，也只有 $A$ 是單位矩陣時才是 $\sum\cos$。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(0)
W_Q, W_K = (torch.randn(512, 512, generator=generator, dtype=torch.float64) / math.sqrt(512) for _ in range(2))
where = long_table[:200]
plain, projected = where @ where.T, where @ W_Q @ (where @ W_K).T
for name, matrix in (("no projection", plain), ("random W_Q, W_K", projected)):
    equal_offset = torch.stack([matrix.diagonal(k).std() for k in range(-100, 101)]).mean()
    print(f"{name:<16} spread of all scores {matrix.std():5.1f}, of scores with equal offset {equal_offset:.2g}")

x = torch.randn(200, 512, generator=generator, dtype=torch.float64)
A = W_Q @ W_K.T
terms = x @ A @ x.T, x @ A @ where.T, where @ A @ x.T, where @ A @ where.T
whole = (x + where) @ W_Q @ ((x + where) @ W_K).T
print(
    f"four terms against the whole: {(sum(terms) - whole).abs().max():.0e}; "
    f"their spreads {[round(t.std().item(), 1) for t in terms]}"
)
# %% [markdown] lang="en"
# After a random projection, scores with equal offset spread as much as all scores: the distance is *not* visible any more, until training has shaped $W_Q$ and $W_K$. The paper itself says "we hypothesized it would allow the model to easily learn". Its learned position vectors did as well (25.7 BLEU, sinusoids 25.8): sine and cosine are one choice.
# %% [markdown] lang="zh-TW"
# 乘上隨機的投影之後，相對位置相同的分數，散得跟全部分數一樣開：距離**看不到**了，要等訓練把 $W_Q$、$W_K$ 調好。論文自己寫的也只是「我們假設」模型會容易學到。論文裡學出來的位置向量表現一樣好（25.7 BLEU，正弦波 25.8）：sin、cos 只是其中一種選擇。
# %% [markdown] lang="en"
# ### Does every position have its own vector?
#
# The article: however long the text, every position gets a unique vector. In exact arithmetic, yes: $\omega_0 = 1$ would need two positions a multiple of $2\pi$ apart, and $\pi$ is irrational. Computers round. Count how many of 4096 positions stay different.
# %% [markdown] lang="zh-TW"
# ### 每個位置都有自己的向量嗎？
#
# 文章說：文字再長，每個位置的向量都不同。精確計算時沒錯：要重複，$\omega_0 = 1$ 的鐘得讓兩個整數位置相差 $2\pi$ 的倍數，而 $\pi$ 是無理數。但電腦會捨入。數數看 4096 個位置還剩幾個不同。
# %% tags=["experiment"]
for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)):
    rows = [len(torch.unique(positions_of(4096, d, dtype=dtype).float(), dim=0)) for d in (512, 2)]
    counted = len(torch.arange(4096).to(dtype).unique())
    print(f"{name:<9} different rows: {rows[0]} (d = 512), {rows[1]} (d = 2);  positions held in it: {counted}")
print("in float32, 16777216 == 16777217:", bool(torch.tensor(16777216.0) == torch.tensor(16777217.0)))

far = score_at(torch.arange(1, 100_001), 512)  # which two positions are most alike?
print(f"closest of 100,000 offsets: {int(far.argmax()) + 1}, inner product {far.max():.1f} of 256")


# %% [markdown] lang="en"
# A *table* in bfloat16 is fine at $d = 512$. *Positions* in bfloat16 are not: from 256 on it cannot count, and 4096 positions collapse to 769. That is why the angles must be float32.
#
# A unique vector is also not a *trained* one: a model that has seen 512 positions knows nothing about the hands at 5000.
# %% [markdown] lang="zh-TW"
# bfloat16 的**表**在 $d = 512$ 時沒問題；用 bfloat16 存**位置**就不行：過了 256 它就數不準，4096 個位置只剩 769 個。所以角度一定要用 float32 算。
#
# 而且，向量不同不代表**訓練過**：只看過 512 個位置的模型，對位置 5000 的指針一無所知。
# %% [markdown] lang="en"
# ## 6. RoPE: turn, do not add
#
# Two troubles: the projections spoil the distance, and direction is lost. Rotary position embedding (RoPE; Su et al. 2021) mends both with the matrix of your proof. It adds nothing to the words. *After* the projection it turns each query and each key by its own position: $q_m R_m$ and $k_n R_n$, where $R_m$ is the rotation by all clocks at position $m$. Then
#
# $$(q R_m)\cdot(k R_n) = q\, R_m R_n^\top k^\top = q\, R_{m-n}\, k^\top$$
#
# and the score knows $m - n$, sign included. (RoPE turns counter-clockwise, so its $R_m$ is the transpose of $M_m$; the rules $R_mR_l = R_{m+l}$ and $R_{-m} = R_m^\top$ hold for both.)
# %% [markdown] lang="zh-TW"
# ## 6. RoPE：不用加的，用轉的
#
# 現在有兩個麻煩：投影會弄亂距離，而且方向不見了。旋轉位置編碼（RoPE；Su et al. 2021）用剛才證明的矩陣一次解決。它什麼都不加到字上，而是在投影**之後**，把每個查詢和鍵照自己的位置轉：$q_m R_m$ 和 $k_n R_n$，$R_m$ 就是所有的鐘走到位置 $m$ 的旋轉。於是
#
# $$(q R_m)\cdot(k R_n) = q\, R_m R_n^\top k^\top = q\, R_{m-n}\, k^\top$$
#
# 分數知道 $m - n$，連正負號都知道。（RoPE 是逆時針轉，所以它的 $R_m$ 是 $M_m$ 的轉置；$R_mR_l = R_{m+l}$、$R_{-m} = R_m^\top$ 兩者都成立。）
# %% [markdown] lang="en"
# By hand, $d_k = 2$, so one clock with $\omega_0 = 1$. RoPE turns a pair $(a, b)$ counter-clockwise, to $(a\cos\theta - b\sin\theta,\ a\sin\theta + b\cos\theta)$. Take $q = k = (1, 0)$, $q$ at position 5 and $k$ at 3:
#
# - $q$ becomes $(\cos 5, \sin 5) = (0.284, -0.959)$, $k$ becomes $(\cos 3, \sin 3) = (-0.990, 0.141)$.
# - Their product is $-0.281 - 0.135 = -0.416 = \cos 2$. At positions 105 and 103 it is $\cos 2$ again.
# %% [markdown] lang="zh-TW"
# 用手算：$d_k = 2$，只有一個鐘，$\omega_0 = 1$。RoPE 把一對 $(a, b)$ 逆時針轉成 $(a\cos\theta - b\sin\theta,\ a\sin\theta + b\cos\theta)$。取 $q = k = (1, 0)$，$q$ 在位置 5、$k$ 在位置 3：
#
# - $q$ 變成 $(\cos 5, \sin 5) = (0.284, -0.959)$，$k$ 變成 $(\cos 3, \sin 3) = (-0.990, 0.141)$。
# - 內積是 $-0.281 - 0.135 = -0.416 = \cos 2$。換成位置 105 和 103，還是 $\cos 2$。
# %% [markdown] lang="en"
# Which coordinates make a pair? Two layouts are in use, and mixing them up is a classic bug:
#
# - **interleaved** (the paper, GPT-J, Meta's own Llama): $(x_0, x_1), (x_2, x_3), \dots$
# - **half-split** (Hugging Face's Llama): $(x_0, x_{d_k/2}), (x_1, x_{d_k/2+1}), \dots$
#
# With $d_k = 4$ and $\omega = (1, \tfrac1{100})$, $x = (1, 0, 1, 0)$ at position 1 becomes $(0.540, 0.841, 1.000, 0.010)$ interleaved. The half-split pairs are $(1, 1)$ and $(0, 0)$: $(-0.301, 0, 1.382, 0)$.
# %% [markdown] lang="zh-TW"
# 哪兩個座標是一對？常見的排法有兩種，混用是經典的錯誤：
#
# - **交錯排列**（論文、GPT-J、Meta 自己的 Llama）：$(x_0, x_1), (x_2, x_3), \dots$
# - **前後對半**（Hugging Face 的 Llama）：$(x_0, x_{d_k/2}), (x_1, x_{d_k/2+1}), \dots$
#
# $d_k = 4$、$\omega = (1, \tfrac1{100})$，位置 1 的 $x = (1, 0, 1, 0)$：交錯排列得到 $(0.540, 0.841, 1.000, 0.010)$；前後對半的兩對是 $(1, 1)$ 和 $(0, 0)$，得到 $(-0.301, 0, 1.382, 0)$。
# %% [markdown] lang="en"
# ### Exercise `rope_interleaved` · difficulty 3 of 5 · 12 minutes · 3 points
#
# Turn the pair $(x_{2i}, x_{2i+1}) = (a, b)$ by $\theta = \omega_i\cdot\text{position}$ to $(a\cos\theta - b\sin\theta,\ a\sin\theta + b\cos\theta)$, with $\omega_i = \text{base}^{-2i/d_k}$.
#
# `positions` broadcasts to `x.shape[:-1]`: $[N]$, or, for sentences with positions of their own, $[B, 1, N]$ where $x$ is $[B, h, N, d_k]$ and $[B, N]$ where it is $[B, N, d_k]$. They may start anywhere, have gaps, and reach the thousands; one token alone and $d_k = 2$ occur. Gradients with respect to $x$ are compared. Half precision is judged by its error; angles in float32.
# %% [markdown] lang="zh-TW"
# ### 練習 `rope_interleaved` · 難度 3／5 · 12 分鐘 · 滿分 3 分
#
# 把 $(x_{2i}, x_{2i+1}) = (a, b)$ 轉 $\theta = \omega_i\cdot\text{position}$，變成 $(a\cos\theta - b\sin\theta,\ a\sin\theta + b\cos\theta)$，其中 $\omega_i = \text{base}^{-2i/d_k}$。
#
# `positions` 會廣播成 `x.shape[:-1]`：形狀是 $[N]$；每句各有位置時，$x$ 是 $[B, h, N, d_k]$ 就是 $[B, 1, N]$，$x$ 是 $[B, N, d_k]$ 就是 $[B, N]$。位置可以從任何數開始、有間隔、上千；會考只有一個詞元、$d_k = 2$。會比對對 $x$ 的梯度。半精度看誤差，角度用 float32 算。
# %% exercise="rope_interleaved"
def rope_interleaved(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """RoPE with neighbours as pairs: (x_0, x_1), (x_2, x_3), …

    Pair i is turned by the angle t = w_i * position.

    Args:
        x: queries or keys, [..., N, d_k], d_k even; float32, float64, float16 or bfloat16,
            contiguous or not.
        positions: integers (LongTensor) that broadcast to x.shape[:-1]: [N], [B, 1, N] for x
            [B, h, N, d_k], or [B, N] for x [B, N, d_k]. They may start anywhere, have gaps, differ between sentences and
            reach the thousands.
        base: of the frequencies w_i = base ** (-2 i / d_k).

    Returns:
        [..., N, d_k] in the dtype of x: a pair (a, b) becomes (a cos t - b sin t, a sin t + b cos t),
        each pair in its place.

    Angles are float64 for float64 and float32 or better for the rest; half precision is judged by
    its error: at most twice that of the plain formula with float32 angles. x and positions stay
    unchanged. Differentiable in x.
    """
    ### BEGIN SOLUTION
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    omega = base ** (-torch.arange(0, x.shape[-1], 2, dtype=wide) / x.shape[-1])
    angles = positions[..., None] * omega  # [..., N, d_k/2]
    a, b = x[..., 0::2], x[..., 1::2]
    first = a * angles.cos() - b * angles.sin()
    second = a * angles.sin() + b * angles.cos()
    return torch.stack((first, second), dim=-1).flatten(-2).to(x.dtype)
    ### END SOLUTION


# %%
check("rope_interleaved", rope_interleaved)


# %% [markdown] lang="en"
# ### Exercise `rope_half_split` · difficulty 3 of 5 · 10 minutes · 3 points
#
# The same with the pairs $(x_i, x_{i+d_k/2})$, each pair put back in its own two places. Everything else, and everything that is judged, is as before. The example from above: `rope_half_split` of $(1, 0, 1, 0)$ at position 1 is $(-0.301, 0, 1.382, 0)$.
# %% [markdown] lang="zh-TW"
# ### 練習 `rope_half_split` · 難度 3／5 · 10 分鐘 · 滿分 3 分
#
# 一樣，只是配對換成 $(x_i, x_{i+d_k/2})$，每一對放回自己原來的兩個位置。其他規則和評分都跟上一題相同。前面的例子：位置 1 的 $(1, 0, 1, 0)$ 經過 `rope_half_split` 是 $(-0.301, 0, 1.382, 0)$。
# %% exercise="rope_half_split"
def rope_half_split(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """RoPE with pairs across the halves: (x_0, x_{d_k/2}), (x_1, x_{d_k/2 + 1}), …

    Pair i is turned by the angle t = w_i * position.

    Args:
        x: queries or keys, [..., N, d_k], d_k even; float32, float64, float16 or bfloat16,
            contiguous or not.
        positions: integers (LongTensor) that broadcast to x.shape[:-1]: [N], [B, 1, N] for x
            [B, h, N, d_k], or [B, N] for x [B, N, d_k]. They may start anywhere, have gaps, differ between sentences and
            reach the thousands.
        base: of the frequencies w_i = base ** (-2 i / d_k).

    Returns:
        [..., N, d_k] in the dtype of x: a pair (a, b) becomes (a cos t - b sin t, a sin t + b cos t),
        each pair in its place.

    Angles are float64 for float64 and float32 or better for the rest; half precision is judged by
    its error: at most twice that of the plain formula with float32 angles. x and positions stay
    unchanged. Differentiable in x.
    """
    ### BEGIN SOLUTION
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    omega = base ** (-torch.arange(0, x.shape[-1], 2, dtype=wide) / x.shape[-1])
    angles = positions[..., None] * omega  # [..., N, d_k/2]
    a, b = x.chunk(2, dim=-1)
    first = a * angles.cos() - b * angles.sin()
    second = a * angles.sin() + b * angles.cos()
    return torch.cat((first, second), dim=-1).to(x.dtype)
    ### END SOLUTION


# %%
check("rope_half_split", rope_half_split)
# %% [markdown] lang="en"
# ### The hands of a query
#
# RoPE in pictures: one query with $d_k = 8$, its four pairs drawn as hands, turned to positions 0, 1, 10 and 100. The lengths stay, the directions move, the first pair fastest: at position 100 the last one has moved by 0.1 radian, less than 6 degrees.
# %% [markdown] lang="zh-TW"
# ### 查詢的指針
#
# 用圖看 RoPE：一個 $d_k = 8$ 的查詢，四對座標畫成指針，轉到位置 0、1、10、100。長度不變，方向在動，第一對最快：到了位置 100，最後一對只轉了 0.1 弧度，還不到 6 度。
# %%
turned_interleaved = use("rope_interleaved", rope_interleaved)
turned_half_split = use("rope_half_split", rope_half_split)

query = torch.tensor([0.6, 0.8, 1.0, -0.3, -0.7, 0.2, 0.4, 0.9])
shown = [0, 1, 10, 100]
figure = plots.clocks(
    turned_interleaved(query.expand(4, 8), torch.tensor(shown)),
    rows=[f"pos {pos}" for pos in shown],
    columns=[f"(x_{2 * i}, x_{2 * i + 1})" for i in range(4)],
)
# %% [markdown] lang="en"
# ### Its relative property, measured
#
# One random query and key, $d_k = 64$, moved together through positions up to 3000. If the score knows the offset only, it must not change. Then three things that could go wrong: turning *backwards*, *mixing* the layouts (q in one, k in the other), and positions rounded to bfloat16.
# %% [markdown] lang="zh-TW"
# ### 量一量它的相對性質
#
# 隨機取一個查詢和一個鍵，$d_k = 64$，一起移動到各個位置（到 3000）。分數若只知道相對位置，就不該變。再試三種出錯的情形：**倒著轉**、兩種排法**混用**（q 用一種、k 用另一種）、位置捨入成 bfloat16。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(3)
q, k = torch.randn(2, 1, 64, generator=generator, dtype=torch.float64)
places = torch.arange(0, 3000, 37)


def spread(turn_q, turn_k, offset, positions=places):
    """Smallest and largest score of q at each position with k at position + offset."""
    here, there = (
        turn_q(q.expand(len(positions), -1), positions),
        turn_k(k.expand(len(positions), -1), positions + offset),
    )
    at = (here * there).sum(dim=-1)
    return f"{at.min():8.3f} to {at.max():8.3f}"


def backwards(x, p):
    return turned_interleaved(x, -p)


def rounded(x, p):
    return turned_interleaved(x, p.bfloat16().long())


for offset in (0, 5, -5):
    print(f"offset {offset:>2}: interleaved {spread(turned_interleaved, turned_interleaved, offset)}", end="   ")
    print(f"half-split {spread(turned_half_split, turned_half_split, offset)}")
print(f"backwards, offset  5:    {spread(backwards, backwards, 5)}   (passes the test, and is -5)")
print(f"layouts mixed, offset 5: {spread(turned_interleaved, turned_half_split, 5)}")
print(f"positions in bfloat16:   {spread(rounded, rounded, 5)}")
# %% [markdown] lang="en"
# Both layouts pass, and $+5$ differs from $-5$: direction is kept. Turning backwards passes as well, which is why the checks compare values. Mixed layouts and bfloat16 positions fail badly.
#
# The two layouts give different numbers for the same $q$ and $k$, and yet they are one thing: put the columns in the order 0, 2, 4, …, 1, 3, 5, … and each becomes the other.
# %% [markdown] lang="zh-TW"
# 兩種排法都通過，而且 $+5$ 和 $-5$ 不同：方向留住了。倒著轉也會通過，所以檢查比的是數值。混用排法、bfloat16 的位置，都錯得離譜。
#
# 同樣的 $q$ 和 $k$，兩種排法的數字不同，其實是同一回事：把各行（column）排成 0、2、4、……、1、3、5、……，一種就變成另一種。
# %% tags=["experiment"]
order = torch.cat((torch.arange(0, 64, 2), torch.arange(1, 64, 2)))
x = torch.randn(3, 10, 64, generator=generator, dtype=torch.float64)
positions = torch.arange(100, 110)
one, other = turned_half_split(x[..., order], positions), turned_interleaved(x, positions)[..., order]
print(f"after the permutation the layouts differ by {(one - other).abs().max():.0e}, without by "
      f"{(turned_half_split(x, positions) - turned_interleaved(x, positions)).abs().max():.2f}")  # fmt: skip
print(f"lengths change by at most {(other.norm(dim=-1) - x.norm(dim=-1)).abs().max():.0e}")

# RoPE acts after the projection: W_Q and W_K cannot spoil it.
content_m, content_n = torch.randn(2, 1, 512, generator=generator, dtype=torch.float64)
q, k = content_m @ W_Q[:, :64], content_n @ W_K[:, :64]
print(f"any W_Q, W_K, offset 5:  {spread(turned_interleaved, turned_interleaved, 5)}")
# %% [markdown] lang="en"
# ## 7. On a real model: dog bites man
#
# MiniLM does not use sinusoids: like BERT, it has a *learned* table of 512 positions. We compare the mean vectors of "dog bites man" and "man bites dog", as it is and with the position table set to zero. (It does not know 狗 and 咬: the cell shows what it makes of 狗咬人.)
# %% [markdown] lang="zh-TW"
# ## 7. 在真的模型上：dog bites man
#
# MiniLM 不用正弦波，它跟 BERT 一樣，有一張**學出來的**表，512 個位置。我們比較「dog bites man」和「man bites dog」的平均向量，一次照原樣，一次把位置表設成 0。（它不認得「狗」和「咬」，輸出會顯示它把「狗咬人」看成什麼。）
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, encode, load_minilm

try:
    tokenizer, minilm = load_minilm()
except CheckpointMissing as missing:
    minilm = None
    print(missing)
if minilm is not None:
    learned = minilm.position.weight.detach().clone()  # [512, 384]

    def compare_sentences(name):
        dog, man = (encode(tokenizer, minilm, text).states.mean(dim=0) for text in ("dog bites man", "man bites dog"))
        cosine = torch.cosine_similarity(dog, man, dim=0)
        print(f"{name:<18} largest difference {(dog - man).abs().max():.2g}, cosine {cosine:.3f}")

    compare_sentences("as it is")
    with torch.no_grad():
        minilm.position.weight.zero_()
    compare_sentences("positions zeroed")
    with torch.no_grad():
        minilm.position.weight.copy_(learned)
    print(encode(tokenizer, minilm, "狗咬人").tokens)
# %% [markdown] lang="en"
# Without positions the trained model, all six layers of it, cannot tell the two sentences apart. With them, the cosine is 0.907: they remain much alike, since they share all words.
#
# What does a table look like that nobody prescribed? Compare how similar position 50 is to its neighbours, in MiniLM's learned table and in the sinusoidal one (each as a cosine).
# %% [markdown] lang="zh-TW"
# 拿掉位置，訓練好的模型（整整六層）就分不出這兩句。有位置時餘弦相似度是 0.907：畢竟用的是同樣的字，還是很像。
#
# 沒有人規定的表，會學成什麼樣子？看看位置 50 和鄰居有多像：一條是 MiniLM 學出來的表，一條是正弦波的表（都取餘弦相似度）。
# %% tags=["experiment"]
if minilm is not None:
    near = torch.arange(20, 81)
    tables = {"learned (MiniLM)": learned, "sinusoidal": positions_of(512, 384)}
    alike = {name: torch.cosine_similarity(table[near], table[50], dim=-1) for name, table in tables.items()}
    ax = plots.curves(near, alike, "position", "cosine with position 50", "Who looks like position 50?")
# %% [markdown] lang="en"
# Nobody told MiniLM about distances or waves. Yet neighbours are alike in its table, and the similarity goes up and down in waves. The lecture is right that sine and cosine are not the only way; training finds something related.
# %% [markdown] lang="zh-TW"
# 沒有人教過 MiniLM 什麼是距離、什麼是波。但在它的表裡，鄰居很像，而且相似度一波一波起伏。講義說得對，sin、cos 不是唯一的辦法；只是訓練也會找到類似的東西。
# %% [markdown] lang="en"
# ## 8. What to remember
#
# 1. Attention without a mask sees a set. Order must be put into the vectors.
# 2. Clock $i$ turns by $\omega_i = 10000^{-2i/d}$ a step: first pairs fast, last pairs slow, like the digits of a number.
# 3. A hand needs two numbers; $k$ steps turn all hands by a rotation $M_k$ that does not depend on $pos$. Rows: $P_{pos}M_k$; columns: the transpose.
# 4. $P\cdot P$ depends on $|k|$ only; projections spoil it, the sign is lost.
# 5. RoPE turns $q$ and $k$ after the projection: the score knows $m - n$. Two layouts; never mix them.
# 6. Angles in float32 or better, always.
# %% [markdown] lang="zh-TW"
# ## 8. 要記住的事
#
# 1. 沒有遮罩的注意力看到的是集合，順序要放進向量裡。
# 2. 第 $i$ 個鐘每步轉 $\omega_i = 10000^{-2i/d}$：前面的快、後面的慢，就像數字的低位與高位。
# 3. 一根指針要兩個數；走 $k$ 步是旋轉 $M_k$，和 $pos$ 無關。列向量用 $P_{pos}M_k$，行向量用它的轉置。
# 4. $P\cdot P$ 只和 $|k|$ 有關；正負號不見了，投影還會弄亂它。
# 5. RoPE 在投影之後轉 $q$ 和 $k$：分數知道 $m - n$。排法有兩種，千萬別混用。
# 6. 角度一律用 float32 或更高的精度。
# %% [markdown] lang="en"
# ## 9. Self-check: question `05_q1` · 1 point · 2 minutes
#
# Why does self-attention need positions, and which dimensions of the sinusoidal table turn fastest? Choose the best answer and put its letter between the quotation marks.
#
# - **a**: Scores and weighted sums do not depend on the order of the tokens; without a mask, attention sees a set. The last dimensions turn fastest.
# - **b**: Softmax divides by a sum over all keys, and in that sum it forgets which weight belongs to which key. The first dimensions turn fastest.
# - **c**: The mask hides the order of the tokens from the model, so that it has to be added again. The first dimensions turn fastest.
# - **d**: Scores and weighted sums do not depend on the order of the tokens; without a mask, attention sees a set. The first dimensions turn fastest.
# %% [markdown] lang="zh-TW"
# ## 9. 自我檢查：選擇題 `05_q1` · 滿分 1 分 · 2 分鐘
#
# 自注意力為什麼需要位置編碼？在 sin、cos 的表裡，哪些維度轉得最快？請選最好的答案，把字母填進引號裡。
#
# - **a**：分數和加權總和都與詞元的順序無關；沒有遮罩時，注意力看到的是一個集合。轉得最快的是最後面的維度。
# - **b**：softmax 要除以所有鍵的總和，加總時就忘了哪個權重屬於哪個鍵。轉得最快的是最前面的維度。
# - **c**：遮罩把詞元的順序藏了起來，所以要再補回去。轉得最快的是最前面的維度。
# - **d**：分數和加權總和都與詞元的順序無關；沒有遮罩時，注意力看到的是一個集合。轉得最快的是最前面的維度。
# %% question="05_q1"
answer_05_q1 = ""
### BEGIN SOLUTION
answer_05_q1 = "d"
### END SOLUTION
# %%
check("05_q1", answer_05_q1)
# %% [markdown] lang="en"
# ## 10. What the documents claim, and what you measured
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | Self-attention ignores order | true with a condition: no mask | shuffled in, shuffled out to 1e-16 or so; with a causal mask off by 2 |
# | A sentence and its reverse are the same to it | true with a condition: each word's row, and the mean | as matrices they differ by 1 |
# | 狗咬人 and 人咬狗: same words, other meaning | true | same outputs without positions; MiniLM on the English pair: 0.42 with (cosine 0.907), below 1e-6 without; MiniLM reads 狗 and 咬 as [UNK] |
# | $PE$: sine in $2i$, cosine in $2i+1$, $10000^{2i/d}$ | true with a condition: $d$ even | as in the paper |
# | $i$ is the dimension | imprecise | $i$ numbers pairs: $d/2$ frequencies |
# | Digits of 9487: the higher, the longer the period | true | a digit *changes* every 1, 10, 100, …; its period is 10, 100, 1000, … |
# | Low pairs turn fast, high pairs slowly | true | $d$ = 512: period 6.28 to 60,611 |
# | The longest wavelength is $10000\cdot2\pi$ | not quite | 60,611, not 62,832 |
# %% [markdown] lang="zh-TW"
# ## 10. 文件怎麼說，你量到什麼
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 自注意力不管順序 | 有條件：沒有遮罩 | 怎麼打亂進去就怎麼打亂出來，只差 1e-16 左右；加了因果遮罩就差 2 |
# | 句子和倒過來的句子完全一樣 | 有條件：每個字自己的列，以及平均 | 當成矩陣看，差 1 |
# | 狗咬人、人咬狗：字一樣、意思不同 | 對 | 沒有位置時輸出相同；MiniLM 讀英文那一對，有位置差 0.42（餘弦 0.907），沒有則小於 1e-6；它把「狗」「咬」讀成 [UNK] |
# | $PE$：$2i$ 是 sin，$2i+1$ 是 cos，$10000^{2i/d}$ | 有條件：$d$ 是偶數 | 與論文相同 |
# | $i$ 是維度的索引 | 不精確 | $i$ 是第幾對：共 $d/2$ 個頻率 |
# | 9487 愈高位週期愈長 | 對 | 每 1、10、100……**變**一次；週期是 10、100、1000…… |
# | 前面的對頻率高，後面的低 | 對 | $d$ = 512：週期從 6.28 到 60,611 |
# | 最長的波長是 $10000\cdot2\pi$ | 差一點 | 是 60,611，不是 62,832 |
# %% [markdown] lang="en"
# | claim | verdict | what this lesson found |
# |---|---|---|
# | sin and cos are small enough not to drown the word | true with a condition: the embedding is multiplied by $\sqrt d$ | position 16.0 everywhere; word 1.0, with the factor 22.6 |
# | Input = embedding + position | imprecise | paper: $\sqrt d\cdot$ embedding + position, then dropout |
# | "cat" in "The cat" is position 2 | imprecise | counted from 0 it is position 1 |
# | QK then weighs what and where together | true | four terms, which add up to the whole to rounding |
# | Positions are made of triangle waves (三角波) | not so | sines; 三角波 is another wave (三角函數 was meant) |
# | RoPE: Neurocomputing 568 (2024) | true | preprint April 2021; score depends on $m-n$ to rounding, in both layouts |
#
# **Next:** lesson 06: what keeps a deep stack of such layers trainable.
# %% [markdown] lang="zh-TW"
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | sin、cos 夠小，不會蓋過字 | 有條件：嵌入要乘 $\sqrt d$ | 位置處處是 16.0；字是 1.0，乘了之後 22.6 |
# | 輸入 = 嵌入 + 位置 | 不精確 | 論文：$\sqrt d\cdot$ 嵌入 + 位置，再 dropout |
# | 「The cat」的 cat 在位置 2 | 不精確 | 從 0 數起是位置 1 |
# | QK 同時考慮「是什麼」和「在哪裡」 | 對 | 四項相加等於整體，只差捨入誤差 |
# | 位置由三角形的波合成 | 不對 | 是正弦波；文章想說的是三角函數 |
# | RoPE：Neurocomputing 568（2024） | 對 | 預印本在 2021 年 4 月；兩種排法的分數都只和 $m-n$ 有關，只差捨入誤差 |
#
# **下一課**是第 06 課：這樣的層疊得很深時，靠什麼還訓練得動。
