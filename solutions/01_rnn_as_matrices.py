# %% [markdown] lang="en"
# # 01 · First write the RNN as matrices
#
# Before attention there was memory: a network that reads one word after the other and carries a state along. Two complaints made the field give it up: it *forgets*, and it *cannot be computed in parallel*.
#
# Our documents repeat both sentences, and both are half true. You will write the network as matrices, take its gradient apart, and find out which half.
#
# We test what some articles and lecture notes say; "the lecture" is the one whose recurrent layer has two inputs and two neurons.
#
# **You need** lesson 00 (row first, then column), the derivative of tanh, and what a singular value is. **Time**: about two hours, 60 minutes of them for the exercises and the question.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `rnn_neuron` | 2 | 6 | 1 |
# | `rnn_step` | 2 | 6 | 2 |
# | `rnn_sequence` | 2 | 10 | 2 |
# | `gradient_through_time` | 4 | 20 | 3 |
# | `lstm_step` | 3 | 12 | 3 |
# | `sequential_steps` | 2 | 6 | 1 |
# | question `01_q1` | | 2 | 1 |
# %% [markdown] lang="zh-TW"
# # 01 · 先把 RNN 寫成矩陣
#
# 在注意力之前，靠的是記憶：網路一個字一個字讀，一路帶著一個狀態往前走。後來大家放棄它，理由有兩個：它**會忘**，而且**無法平行運算**。
#
# 這兩句話文件裡一再出現，卻都只對一半。這一課把這種網路寫成矩陣，拆開它的梯度，看看對的是哪一半。
#
# 本課常提到的「講義」「文章」和「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# **先備知識**：第 00 課的先列後行、tanh 的導數、奇異值是什麼。**時間**：約兩小時，其中練習和選擇題 60 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `rnn_neuron` | 2 | 6 | 1 |
# | `rnn_step` | 2 | 6 | 2 |
# | `rnn_sequence` | 2 | 10 | 2 |
# | `gradient_through_time` | 4 | 20 | 3 |
# | `lstm_step` | 3 | 12 | 3 |
# | `sequential_steps` | 2 | 6 | 1 |
# | 選擇題 `01_q1` | | 2 | 1 |
# %% tags=["setup"]
import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from course_lib.plots import BLUE, GREEN, ORANGE, bars, curves, heat_map, knob, use_style

# %% [markdown] lang="en"
# ## 1. The question
#
# > The cat that the dogs of our neighbours had chased around the garden all morning **was** tired.
#
# *Was*, not *were*: the subject stands fourteen words back. You read the sentence from left to right, and something of "cat" was still with you when "was" came.
#
# A network has to do the same with numbers. What does it carry from word to word, how long does it last, and what does it cost that each word waits for the one before?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# > The cat that the dogs of our neighbours had chased around the garden all morning **was** tired.
#
# 是 was，不是 were：主詞遠在十四個字之前。你從左讀到右，讀到「was」時，「cat」還有一點留在心裡。
#
# 網路要用數字做到同樣的事。從一個字讀到下一個字，它帶著什麼走？能留多久？每個字都得等前一個字算完，又要付出什麼代價？
# %% [markdown] lang="en"
# ## 2. The picture: a layer whose output comes back
#
# Take an ordinary dense layer. Feed it the word $x_t$, **and** what the layer itself put out a moment ago, $h_{t-1}$. Its new output $h_t$ is the **state**: what is remembered after word $t$. Such a network is called *recurrent*, RNN for short.
#
# Drawn in time, the loop becomes a row of copies. All copies share the same weights.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像：輸出會傳回來的一層
#
# 拿一個普通的全連接層。餵給它第 $t$ 個字 $x_t$，**再加上**這一層自己上一次的輸出 $h_{t-1}$。新的輸出 $h_t$ 就是**狀態**：讀完第 $t$ 個字之後記得的東西。這樣的網路叫循環神經網路（RNN）。
#
# 沿著時間攤開，迴路就變成一排複本。所有複本共用同一組權重。
# %%
torch.set_num_threads(1)  # matrices this small gain nothing from several threads that wait for each other

use_style()
_, ax = plt.subplots(figsize=(6.4, 2.7))
arrow, box = {"arrowstyle": "->", "lw": 2}, {"boxstyle": "round,pad=0.5", "fc": "white", "ec": BLUE}
for t in (1, 2, 3, 4):
    ax.text(2 * t, 1, "tanh", ha="center", va="center", bbox=box)
    ax.annotate("", (2 * t, 0.72), (2 * t, 0.1), arrowprops=arrow | {"color": GREEN})
    ax.annotate("", (2 * t, 1.9), (2 * t, 1.28), arrowprops=arrow | {"color": BLUE})
    ax.annotate("", (2 * t - 0.45, 1), (2 * t - 1.55, 1), arrowprops=arrow | {"color": ORANGE})
    ax.text(2 * t, -0.1, f"$x_{t}$", ha="center", va="center")
    ax.text(2 * t, 2.05, f"$h_{t}$", ha="center", va="center")
    ax.text(2 * t + 0.12, 0.4, "$W_X$", color=GREEN, va="center")
    ax.text(2 * t - 1, 1.18, "$W_H$", color=ORANGE, ha="center")
ax.text(0.3, 1, "$h_0$", ha="center", va="center")
ax.set(xlim=(0, 9), ylim=(-0.3, 2.3))
_ = ax.axis("off")
# %% [markdown] lang="en"
# Follow the orange arrows: the only way from $x_1$ to $h_4$ leads through every state in between. Remember this picture; both complaints are about that one row of arrows.
# %% [markdown] lang="zh-TW"
# 請看橘色的箭頭：從 $x_1$ 到 $h_4$ 只有一條路，得穿過中間的每一個狀態。記住這張圖；兩項批評說的都是這一排箭頭。
# %% [markdown] lang="en"
# ## 3. The formula
#
# $$h_t = \tanh\left(x_t W_X + h_{t-1} W_H + b\right)$$
#
# - $x_t$, shape $[d_\text{in}]$: the input at time $t$, a row vector
# - $h_{t-1}$ and $h_t$, shape $[d_h]$: the state before and after
# - $W_X$, shape $[d_\text{in}, d_h]$; $W_H$, shape $[d_h, d_h]$: the weights; column $j$ of each belongs to neuron $j$
# - $b$, shape $[d_h]$: one bias for each neuron
#
# tanh works on each entry and keeps the state between −1 and 1.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# $$h_t = \tanh\left(x_t W_X + h_{t-1} W_H + b\right)$$
#
# - $x_t$，形狀 $[d_\text{in}]$：時間 $t$ 的輸入，是列向量
# - $h_{t-1}$ 與 $h_t$，形狀 $[d_h]$：之前與之後的狀態
# - $W_X$，形狀 $[d_\text{in}, d_h]$；$W_H$，形狀 $[d_h, d_h]$：權重，兩者的第 $j$ 行（column）都屬於神經元 $j$
# - $b$，形狀 $[d_h]$：每個神經元一個偏置
#
# tanh 逐元素作用，讓狀態落在 −1 與 1 之間。
# %% [markdown] lang="en"
# **Rows or columns.** The lecture writes the same thing for column vectors:
#
# $$h_t = \sigma\left(W_X^\top x_t + W_H^\top h_{t-1} + b\right)$$
#
# Transpose both sides, and the matrices stand on the right without their ⊤. This course uses rows throughout, as the Transformer paper does. The lecture's $\sigma$ means *any* activation; ours is tanh, as in PyTorch.
# %% [markdown] lang="zh-TW"
# **列還是行**：講義用行向量寫同一件事：
#
# $$h_t = \sigma\left(W_X^\top x_t + W_H^\top h_{t-1} + b\right)$$
#
# 兩邊取轉置，矩陣就移到右邊，⊤ 也不見了。本課程一律用列（row）向量，和 Transformer 的論文一致。講義的 $\sigma$ 泛指激勵函數；我們用 tanh，和 PyTorch 一樣。
# %% [markdown] lang="en"
# ## 4. By hand: two inputs, two neurons
#
# The lecture writes out the first neuron of a layer with two inputs and two neurons:
#
# $$h_t^1 = \sigma\left(w_{11}^x x_t^1 + w_{21}^x x_t^2 + w_{11}^h h_{t-1}^1 + w_{21}^h h_{t-1}^2 + b_1\right)$$
#
# The numbers on top count components; they are not powers. Of the two below, the first says where a weight comes *from*, the second where it goes *to*. All four weights go to neuron 1: they are the first **columns** of $W_X$ and $W_H$.
# %% [markdown] lang="zh-TW"
# ## 4. 動手算：兩個輸入、兩個神經元
#
# 講義把兩個輸入、兩個神經元的第 1 號神經元展開：
#
# $$h_t^1 = \sigma\left(w_{11}^x x_t^1 + w_{21}^x x_t^2 + w_{11}^h h_{t-1}^1 + w_{21}^h h_{t-1}^2 + b_1\right)$$
#
# 上標是第幾個分量，不是次方。下標的第一個數是權重**從哪裡來**，第二個數是**到哪裡去**。四個權重都通往 1 號神經元：正是 $W_X$ 與 $W_H$ 的第一**行**（column）。
# %% [markdown] lang="en"
# The lecture stops at the letters. Here are numbers to go with them:
#
# $$x_t=(1,\,2),\quad h_{t-1}=(0.5,\,-0.5),\quad W_X=\begin{pmatrix}0.5&-1\\0.25&0.5\end{pmatrix},\quad W_H=\begin{pmatrix}1&0.4\\0.5&-0.6\end{pmatrix},\quad b=(-0.75,\,0.5)$$
#
# | neuron | from the input | from the state | bias | sum | tanh |
# |---|---|---|---|---|---|
# | 1 | $1\cdot0.5+2\cdot0.25=1$ | $0.5\cdot1-0.5\cdot0.5=0.25$ | −0.75 | 0.5 | **0.462** |
# | 2 | $1\cdot(-1)+2\cdot0.5=0$ | $0.5\cdot0.4-0.5\cdot(-0.6)=0.5$ | 0.5 | 1.0 | **0.762** |
# %% [markdown] lang="zh-TW"
# 講義只寫到字母，我們替它配上數字：
#
# $$x_t=(1,\,2),\quad h_{t-1}=(0.5,\,-0.5),\quad W_X=\begin{pmatrix}0.5&-1\\0.25&0.5\end{pmatrix},\quad W_H=\begin{pmatrix}1&0.4\\0.5&-0.6\end{pmatrix},\quad b=(-0.75,\,0.5)$$
#
# | 神經元 | 來自輸入 | 來自狀態 | 偏置 | 總和 | tanh |
# |---|---|---|---|---|---|
# | 1 | $1\cdot0.5+2\cdot0.25=1$ | $0.5\cdot1-0.5\cdot0.5=0.25$ | −0.75 | 0.5 | **0.462** |
# | 2 | $1\cdot(-1)+2\cdot0.5=0$ | $0.5\cdot0.4-0.5\cdot(-0.6)=0.5$ | 0.5 | 1.0 | **0.762** |
# %%
x_t, h_prev = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -0.5])
W_X = torch.tensor([[0.5, -1.0], [0.25, 0.5]])
W_H = torch.tensor([[1.0, 0.4], [0.5, -0.6]])
b = torch.tensor([-0.75, 0.5])

print("input part ", [round(v, 3) for v in (x_t @ W_X).tolist()])
print("state part ", [round(v, 3) for v in (h_prev @ W_H).tolist()])
print("row instead of column of W_H, neuron 1:", round((h_prev @ W_H[0]).item(), 3))


# %% [markdown] lang="en"
# The last line is the classic slip: $W_H$ is square, so its rows fit as well as its columns, and nothing warns you. It gives 0.3 in place of 0.25.
# %% [markdown] lang="zh-TW"
# 最後一行是最常見的失誤：$W_H$ 是方陣，取列或取行都放得進去，不會有任何警告。取錯了，0.25 就變成 0.3。
# %% [markdown] lang="en"
# ## 5. Exercises: the network
#
# Rules that hold for all exercises of this lesson, and that the checks look at:
#
# - Tensors in, tensors out. The answer has the dtype and device of its inputs; float64 is computed in float64 all the way.
# - Do not change the inputs. They may be views (non-contiguous).
# - `[..., d]` means any number of leading dimensions, none included. Any size may be 1, and its axis stays.
# - Best not to call your other answers: if one is wrong, both lose points.
# - `nn.RNN`, `nn.LSTM`, `nn.GRU`, their cells and torch's functions under them are not allowed, nor is `course_lib`.
#
# Stuck? Run `hint("rnn_step")` in a cell of your own.
# %% [markdown] lang="zh-TW"
# ## 5. 練習：網路本身
#
# 下面的規則這一課每題通用，檢查時也都會看：
#
# - 收張量、回傳張量。答案的 dtype 與裝置跟輸入相同；float64 就全程用 float64 算。
# - 不可更改輸入。輸入可能是 view（記憶體不連續）。
# - `[..., d]` 表示前面可以有任意多個維度，也可以沒有。任何大小都可能是 1，那個軸也要留著。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。
# - `nn.RNN`、`nn.LSTM`、`nn.GRU`、它們的 cell，以及 torch 底層的同類函式都不能用，`course_lib` 也不行。
#
# 卡住了嗎？自己開一個儲存格，執行 `hint("rnn_step")`。
# %% [markdown] lang="en"
# ### Exercise `rnn_neuron` · difficulty 2 of 5 · 6 minutes · 1 point
#
# One neuron, written out as in the lecture, for any number of inputs and neurons.
#
# **Small first.** With the numbers above neuron `j = 0` gives $\tanh(0.5)=0.462$ and `j = 1` gives $\tanh(1)=0.762$. The lecture counts neurons from 1, Python from 0.
#
# **In general**
#
# $$h_j = \tanh\Bigl(\sum_{i} x_i\,(W_X)_{ij} + \sum_{i} h_i\,(W_H)_{ij} + b_j\Bigr)$$
#
# The first sum has $d_\text{in}$ terms, the second $d_h$: **every** neuron's last output comes back to neuron $j$.
# %% [markdown] lang="zh-TW"
# ### 練習 `rnn_neuron` · 難度 2／5 · 6 分鐘 · 滿分 1 分
#
# 照講義的樣子把一個神經元展開，但輸入與神經元的個數都不限。
#
# **先看小例子**：用上面的數字，`j = 0` 得到 $\tanh(0.5)=0.462$，`j = 1` 得到 $\tanh(1)=0.762$。講義的神經元從 1 數起，Python 從 0 數起。
#
# **一般情形**
#
# $$h_j = \tanh\Bigl(\sum_{i} x_i\,(W_X)_{ij} + \sum_{i} h_i\,(W_H)_{ij} + b_j\Bigr)$$
#
# 第一個總和有 $d_\text{in}$ 項，第二個有 $d_h$ 項：**每個**神經元上一次的輸出，都會傳回給神經元 $j$。
# %% exercise="rnn_neuron"
def rnn_neuron(x_t: Tensor, h_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor, j: int) -> Tensor:
    """Write neuron j out: tanh(Σᵢ xᵢ W_X[i, j] + Σᵢ hᵢ W_H[i, j] + b[j]).

    Args:
        x_t: the input, [d_in].
        h_prev: the state of the step before, [d_h].
        W_X: weights of the input, [d_in, d_h].
        W_H: weights of the state, [d_h, d_h].
        b: biases, [d_h].
        j: number of the neuron, counted from 0.

    Returns:
        The neuron's output, a 0-d tensor (not a Python number).

    Judged: value, shape [] and dtype; d_in smaller than, larger than and equal to d_h;
    j by position and by name; float32 and float64; gradients for all five tensors;
    inputs left unchanged, contiguous or not.

    Not allowed: nn.RNN, nn.LSTM, nn.GRU, their cells, torch.rnn_tanh and the like,
    course_lib.
    """
    ### BEGIN SOLUTION
    total = (x_t * W_X[:, j]).sum() + (h_prev * W_H[:, j]).sum() + b[j]
    return torch.tanh(total)
    ### END SOLUTION


# %%
check("rnn_neuron", rnn_neuron)


# %% [markdown] lang="en"
# ### Exercise `rnn_step` · difficulty 2 of 5 · 6 minutes · 2 points
#
# All neurons at once. This is what the lecture calls the key to everything that follows: one product computes a whole layer.
#
# **Small first.** The two neurons above together: $x_tW_X=(1,\,0)$, $h_{t-1}W_H=(0.25,\,0.5)$, with the bias $(0.5,\,1)$, so $h_t=(0.462,\,0.762)$.
#
# **In general** $h_t = \tanh(x_t W_X + h_{t-1} W_H + b)$, for one vector $[d_\text{in}]$, a batch $[B, d_\text{in}]$, or more leading dimensions. The sums may be far from 0: tanh(120) is simply 1.
# %% [markdown] lang="zh-TW"
# ### 練習 `rnn_step` · 難度 2／5 · 6 分鐘 · 滿分 2 分
#
# 一次算完所有神經元。講義說，看懂這一步，是讀懂後面內容的關鍵：一次乘法，算出一整層。
#
# **先看小例子**：把上面兩個神經元放在一起：$x_tW_X=(1,\,0)$，$h_{t-1}W_H=(0.25,\,0.5)$，加上偏置是 $(0.5,\,1)$，所以 $h_t=(0.462,\,0.762)$。
#
# **一般情形**：$h_t = \tanh(x_t W_X + h_{t-1} W_H + b)$。輸入可以是一個向量 $[d_\text{in}]$、一個批次 $[B, d_\text{in}]$，或前面有更多維度。總和可能離 0 很遠：tanh(120) 就是 1。
# %% exercise="rnn_step"
def rnn_step(x_t: Tensor, h_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    """One step of the layer: h_t = tanh(x_t W_X + h_prev W_H + b).

    Args:
        x_t: the input, [..., d_in].
        h_prev: the state of the step before, [..., d_h].
        W_X: weights of the input, [d_in, d_h].
        W_H: weights of the state, [d_h, d_h].
        b: biases, [d_h].

    Returns:
        The new state h_t, [..., d_h].

    Judged: values and shape; one vector, a batch, two leading dimensions; all sizes
    equal; sums beyond ±100, where exp overflows and tanh does not; float32 and float64;
    gradients for all five tensors; inputs left unchanged, contiguous or not.

    Not allowed: nn.RNN, nn.LSTM, nn.GRU, their cells, torch.rnn_tanh and the like,
    course_lib.
    """
    ### BEGIN SOLUTION
    return torch.tanh(x_t @ W_X + h_prev @ W_H + b)
    ### END SOLUTION


# %%
check("rnn_step", rnn_step)
# %% [markdown] lang="en"
# **Three ways to the same numbers.** Neuron by neuron; all at once; and as *one* dense layer whose input is $x_t$ and $h_{t-1}$ side by side, with $W_X$ stacked on $W_H$. The last one is the claim "an RNN is a dense layer whose output comes back", in one line.
# %% [markdown] lang="zh-TW"
# **三條路，同樣的數**：逐個神經元算；一次全算；把 $x_t$ 與 $h_{t-1}$ 並排、$W_X$ 疊在 $W_H$ 上面，當成**一個**全連接層來算。最後一種就是「RNN 是輸出會傳回來的全連接層」這句話，一行寫完。
# %%
neuron, step = use("rnn_neuron", rnn_neuron), use("rnn_step", rnn_step)

one_by_one = torch.stack([neuron(x_t, h_prev, W_X, W_H, b, j) for j in range(2)])
at_once = step(x_t, h_prev, W_X, W_H, b)
joined, stacked = torch.cat([x_t, h_prev]), torch.cat([W_X, W_H])  # [4], [4, 2]
dense = torch.tanh(joined @ stacked + b)

print("neuron by neuron", [round(v, 3) for v in one_by_one.tolist()])
print("largest difference: written out - matrix", (one_by_one - at_once).abs().max().item())
print(f"largest difference: dense layer - matrix {(dense - at_once).abs().max():.0e}")

_, panels = plt.subplots(1, 3, figsize=(6.4, 2.6), width_ratios=(4, 2, 2))
titles = ("$[x_t, h_{t-1}]$", "$W_X$ on $W_H$", "$h_t$")
for ax, matrix, title in zip(panels, (joined[None], stacked, dense[None]), titles):
    heat_map(matrix, ax=ax, title=title)
    ax.set(xticks=[], yticks=[])
panels[1].axhline(1.5, color="black", lw=2)
_ = panels[0].axvline(1.5, color="black", lw=2)


# %% [markdown] lang="en"
# ### Exercise `rnn_sequence` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Now read a whole sequence, and keep every state.
#
# **Small first.** One input, one neuron, $W_X=1$, $W_H=0.5$, $b=0$, $h_0=0$. A single pulse $X=(1,\,0,\,0)$ gives
#
# $$h_1=\tanh(1)=0.762,\quad h_2=\tanh(0.5\cdot0.762)=0.363,\quad h_3=\tanh(0.5\cdot0.363)=0.180$$
#
# The input is over after the first step; what is left is an echo.
# %% [markdown] lang="zh-TW"
# ### 練習 `rnn_sequence` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 現在讀完整個序列，並留下每一個狀態。
#
# **先看小例子**：一個輸入、一個神經元，$W_X=1$、$W_H=0.5$、$b=0$、$h_0=0$。單一個脈衝 $X=(1,\,0,\,0)$ 會得到
#
# $$h_1=\tanh(1)=0.762,\quad h_2=\tanh(0.5\cdot0.762)=0.363,\quad h_3=\tanh(0.5\cdot0.363)=0.180$$
#
# 第一步之後就沒有輸入了，剩下的是回聲。
# %% [markdown] lang="en"
# **In general**, for $t = 1, \dots, T$ and all $B$ sequences of the batch together:
#
# $$h_t = \tanh\left(x_t W_X + h_{t-1} W_H + b\right)$$
#
# - `X`, shape $[B, T, d_\text{in}]$: time is the **second** axis
# - `h_0`, shape $[B, d_h]$: where the first step starts
# - the result, shape $[B, T, d_h]$: $h_1, \dots, h_T$. $h_0$ is not among them.
#
# The gradient must flow back through all steps, to `h_0`.
# %% [markdown] lang="zh-TW"
# **一般情形**：$t = 1, \dots, T$，批次裡的 $B$ 個序列同時走：
#
# $$h_t = \tanh\left(x_t W_X + h_{t-1} W_H + b\right)$$
#
# - `X`，形狀 $[B, T, d_\text{in}]$：時間是**第二個**軸
# - `h_0`，形狀 $[B, d_h]$：第一步從這裡出發
# - 結果的形狀是 $[B, T, d_h]$：$h_1, \dots, h_T$，不含 $h_0$
#
# 梯度要能穿過所有步，一路傳回 `h_0`。
# %% exercise="rnn_sequence"
def rnn_sequence(X: Tensor, h_0: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor) -> Tensor:
    """Read B sequences from left to right and return all states h_1 … h_T.

    Args:
        X: the inputs, [B, T, d_in].
        h_0: the state before the first step, [B, d_h].
        W_X: weights of the input, [d_in, d_h].
        W_H: weights of the state, [d_h, d_h].
        b: biases, [d_h].

    Returns:
        The states, [B, T, d_h]: entry [:, t] is the state after reading X[:, t].

    Judged: values, shape and order; B and T different, and equal; one sequence; one
    step (T = 1); h_0 far from 0; float32 and float64; gradients for all five tensors,
    through all steps; inputs left unchanged, contiguous or not.

    Not allowed: nn.RNN, nn.LSTM, nn.GRU, their cells, torch.rnn_tanh and the like,
    course_lib.
    """
    ### BEGIN SOLUTION
    h, states = h_0, []
    for x_t in X.unbind(dim=1):  # x_t: [B, d_in]
        h = torch.tanh(x_t @ W_X + h @ W_H + b)
        states.append(h)
    return torch.stack(states, dim=1)
    ### END SOLUTION


# %%
check("rnn_sequence", rnn_sequence)
# %% [markdown] lang="en"
# **Is this PyTorch's RNN?** It is, after three adjustments: `nn.RNN` *stores* $W_X^\top$ and $W_H^\top$ (shape "to × from"), it keeps *two* biases that are simply added, and its axes are time first unless you say `batch_first=True`. Its default activation is tanh, too.
# %% [markdown] lang="zh-TW"
# **這就是 PyTorch 的 RNN 嗎？** 是，但要先調整三件事：`nn.RNN` **存**的是 $W_X^\top$ 與 $W_H^\top$（「到」在前、「從」在後）；它有**兩個**偏置，直接相加即可；除非指定 `batch_first=True`，否則時間是第一個軸。預設的激勵函數同樣是 tanh。
# %%
read = use("rnn_sequence", rnn_sequence)

torch.manual_seed(1)
theirs = nn.RNN(32, 512, batch_first=True)  # real sizes: d_in = 32, d_h = 512
X, h_0 = torch.randn(8, 100, 32), torch.randn(8, 512)  # 8 sequences of 100 steps
print("stored shapes", {name: list(p.shape) for name, p in theirs.named_parameters()})
with torch.no_grad():
    W_X, W_H = theirs.weight_ih_l0.T, theirs.weight_hh_l0.T
    ours = read(X, h_0, W_X, W_H, theirs.bias_ih_l0 + theirs.bias_hh_l0)
    print(f"largest difference over 100 steps: {(ours - theirs(X, h_0[None])[0]).abs().max():.0e}")


# %% [markdown] lang="en"
# **Watch the echo.** One pulse at $t=1$, then silence, for 24 neurons and 60 steps. $W_H$ is $\rho$ times an orthogonal matrix (one that turns vectors and keeps their length), so $\rho$ says how much of the length survives one step. The heat maps show all states; time goes to the right.
# %% [markdown] lang="zh-TW"
# **看回聲**：$t=1$ 給一個脈衝，之後完全安靜；24 個神經元，走 60 步。$W_H$ 是 $\rho$ 乘上一個正交矩陣（只轉動向量、不改變長度），所以 $\rho$ 就是每一步留下幾成長度。熱圖畫出所有狀態，時間往右走。
# %%
generator = torch.Generator().manual_seed(4)


def orthogonal(d: int) -> Tensor:
    return torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q


turn, silence = orthogonal(24), torch.zeros(1, 60, 24, dtype=torch.float64)
pulse = silence.clone()
pulse[0, 0] = torch.randn(24, generator=generator, dtype=torch.float64)
_, panels = plt.subplots(3, 1, figsize=(6.4, 5.0), sharex=True)
for ax, rho in zip(panels, (0.5, 0.9, 1.2)):
    identity = torch.eye(24).double()  # each input goes to one neuron
    states = read(pulse, silence[:, 0], identity, rho * turn, silence[0, 0])[0]  # [60, 24]
    heat_map(states.T, ax=ax, values=False, title=f"ρ = {rho}: length after 60 steps {states[-1].norm():.2g}")
    ax.set(ylabel="neuron", yticks=[], xlabel="time step" if rho == 1.2 else "")


# %% [markdown] lang="en"
# With $\rho=0.5$ the pulse is gone after about ten steps. With $\rho=0.9$ it lasts longer, and goes the same way. With $\rho=1.2$ it never dies: tanh keeps it from growing without end, and the state goes on ringing, though nothing more comes in.
# %% [markdown] lang="zh-TW"
# $\rho=0.5$ 時，脈衝十步左右就沒了。$\rho=0.9$ 撐得久一點，下場相同。$\rho=1.2$ 則永遠不消失：tanh 不讓它無限變大，於是狀態一直迴盪，儘管後來什麼也沒再讀到。
# %% [markdown] lang="en"
# ## 6. The first complaint: it forgets
#
# Forgetting is one thing. *Not being able to learn to remember* is worse. Training changes the weights by the gradient of a loss at time $T$; if word $t$ mattered, that gradient has to travel back from $h_T$ to $h_t$. How much of it arrives is the Jacobian
#
# $$J_t = \frac{\partial h_T}{\partial h_t}, \qquad \text{shape } [d_h, d_h]$$
#
# In row form: a small change $\delta$ of $h_t$ changes $h_T$ by $\delta\,J_t$.
# %% [markdown] lang="zh-TW"
# ## 6. 第一項批評：它會忘
#
# 會忘是一回事，**學不會記住**更糟。訓練靠的是時間 $T$ 的損失的梯度；如果第 $t$ 個字很重要，這個梯度就得從 $h_T$ 一路傳回 $h_t$。能傳回多少，由雅可比矩陣決定
#
# $$J_t = \frac{\partial h_T}{\partial h_t}, \qquad \text{形狀 } [d_h, d_h]$$
#
# 用列向量的寫法：$h_t$ 改變一點點 $\delta$，$h_T$ 就改變 $\delta\,J_t$。
# %% [markdown] lang="en"
# ### One step
#
# Write $a_s = x_sW_X + h_{s-1}W_H + b$, so that $h_s=\tanh(a_s)$.
#
# 1. Changing $h_{s-1}$ by $\delta$ changes $a_s$ by $\delta W_H$.
# 2. tanh acts on each entry, with slope $1-\tanh^2$. That is $1-h_s^2$: **the slope can be read off from the output**.
# 3. So $h_s$ changes by $\delta\,W_H\,\mathrm{diag}(1-h_s^2)$.
#
# $$\frac{\partial h_s}{\partial h_{s-1}} = W_H\,\mathrm{diag}(1-h_s^2)$$
#
# Where people stumble: the slope belongs to the *new* state $h_s$, and it scales the **columns** of $W_H$.
# %% [markdown] lang="zh-TW"
# ### 走一步
#
# 令 $a_s = x_sW_X + h_{s-1}W_H + b$，於是 $h_s=\tanh(a_s)$。
#
# 1. $h_{s-1}$ 改變 $\delta$，$a_s$ 就改變 $\delta W_H$。
# 2. tanh 逐元素作用，斜率是 $1-\tanh^2$，也就是 $1-h_s^2$：**斜率可以直接從輸出讀出來**。
# 3. 所以 $h_s$ 改變 $\delta\,W_H\,\mathrm{diag}(1-h_s^2)$。
#
# $$\frac{\partial h_s}{\partial h_{s-1}} = W_H\,\mathrm{diag}(1-h_s^2)$$
#
# 最容易卡住的地方：斜率屬於**新的**狀態 $h_s$，而且乘在 $W_H$ 的各**行**（column）上。
# %% [markdown] lang="en"
# ### Many steps
#
# The chain rule multiplies the steps, from left to right in the order of time:
#
# $$J_t = \prod_{s=t+1}^{T} W_H\,\mathrm{diag}(1-h_s^2)$$
#
# A product of $T-t$ matrices. One number says how much it can stretch a change at most: its largest singular value, the **spectral norm** $\lVert J_t\rVert$. For $t=T$ there is no factor: $J_T=I$, norm 1.
#
# All slopes lie between 0 and 1. So if the largest singular value of $W_H$ is $\sigma<1$, then $\lVert J_t\rVert\le\sigma^{\,T-t}$: the gradient **must** vanish, exponentially. Only $\sigma>1$ lets it grow.
# %% [markdown] lang="zh-TW"
# ### 走很多步
#
# 連鎖律把每一步乘起來，由左到右，照時間先後：
#
# $$J_t = \prod_{s=t+1}^{T} W_H\,\mathrm{diag}(1-h_s^2)$$
#
# 這是 $T-t$ 個矩陣的乘積。它最多能把一個改變拉長幾倍，用一個數就說得清：最大的奇異值，也就是**譜範數** $\lVert J_t\rVert$。$t=T$ 時一個因子也沒有：$J_T=I$，範數是 1。
#
# 所有斜率都在 0 與 1 之間。所以 $W_H$ 的最大奇異值 $\sigma<1$ 時，$\lVert J_t\rVert\le\sigma^{\,T-t}$：梯度**必定**以指數速度消失。只有 $\sigma>1$ 才可能變大。
# %% [markdown] lang="en"
# ### Exercise `gradient_through_time` · difficulty 4 of 5 · 20 minutes · 3 points
#
# Compute $\lVert J_t\rVert$ for all $t$, from the states alone. Gradients are not judged.
#
# **Small first.** One neuron, $W_H=2$, states $H=(0.5,\ 0.8,\ 0)$. The step to $h_3$ has the factor $2\,(1-0^2)=2$, the step to $h_2$ has $2\,(1-0.8^2)=0.72$. From the end: $1$, then $2$, then $0.72\cdot2=1.44$. The result is $(1.44,\ 2,\ 1)$. The first state, 0.5, is not used: no step leads to it.
#
# **Two neurons.** $W_H=\begin{pmatrix}1&2\\3&4\end{pmatrix}$, $h_s=(0,\,0.5)$: the factor is $\begin{pmatrix}1&1.5\\3&3\end{pmatrix}$. The second column lost a quarter.
# %% [markdown] lang="zh-TW"
# ### 練習 `gradient_through_time` · 難度 4／5 · 20 分鐘 · 滿分 3 分
#
# 只用狀態，算出所有 $t$ 的 $\lVert J_t\rVert$。不看梯度。
#
# **先看小例子**：一個神經元，$W_H=2$，狀態 $H=(0.5,\ 0.8,\ 0)$。走到 $h_3$ 的因子是 $2\,(1-0^2)=2$，走到 $h_2$ 的是 $2\,(1-0.8^2)=0.72$。從尾端算起：$1$、$2$、$0.72\cdot2=1.44$。結果是 $(1.44,\ 2,\ 1)$。第一個狀態 0.5 用不到：沒有哪一步走到它。
#
# **兩個神經元**：$W_H=\begin{pmatrix}1&2\\3&4\end{pmatrix}$、$h_s=(0,\,0.5)$ 時，因子是 $\begin{pmatrix}1&1.5\\3&3\end{pmatrix}$，第二行（column）少了四分之一。
# %% exercise="gradient_through_time"
def gradient_through_time(H: Tensor, W_H: Tensor) -> Tensor:
    """How much of a change of h_t can arrive at h_T: the spectral norm of ∂h_T/∂h_t, for every t.

    Args:
        H: the states h_1 … h_T of a tanh RNN, one a row, [T, d_h].
        W_H: weights of the state, [d_h, d_h], used as h @ W_H.

    Returns:
        The norms, [T]: entry t is the largest singular value of the product over
        s = t+1 … T of W_H diag(1 − h_s²), multiplied from left to right. The last entry is 1.

    Judged: values, shape and order; T different from d_h, and equal to it; T = 1; weights
    that make the norms grow and weights that make them shrink; float32 and float64;
    inputs left unchanged, contiguous or not. Gradients are not judged.

    Not allowed: torch.autograd.functional.jacobian, torch.func.jacrev and their like (vjp,
    jvp, grad), nn.RNN, nn.LSTM, nn.GRU, their cells and torch's functions under them,
    course_lib.
    """
    ### BEGIN SOLUTION
    J = torch.eye(H.shape[1], dtype=H.dtype, device=H.device)
    norms = [torch.linalg.matrix_norm(J, ord=2)]
    for h in H[1:].flip(0):  # h_T, …, h_2: one factor more on the left each time
        J = (W_H * (1 - h**2)) @ J  # broadcasting scales the columns
        norms.append(torch.linalg.matrix_norm(J, ord=2))
    return torch.stack(norms).flip(0)
    ### END SOLUTION


# %%
check("gradient_through_time", gradient_through_time)
# %% [markdown] lang="en"
# **Trust, but check.** Autograd knows nothing of our derivation. It computes $\partial h_T/\partial h_1$ entry by entry from a run of the network; its largest singular value must be the first of our norms.
# %% [markdown] lang="zh-TW"
# **驗算**：autograd 不知道我們的推導，它直接從網路的執行過程逐個元素算出 $\partial h_T/\partial h_1$。這個矩陣的最大奇異值，應該就是我們的第一個數。
# %%
norms_of = use("gradient_through_time", gradient_through_time)

X = torch.randn(1, 8, 5, generator=generator, dtype=torch.float64)
W_X, W_H = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (5, 4))
zeros = torch.zeros(1, 4, dtype=torch.float64)
first = read(X[:, :1], zeros, W_X, W_H, zeros[0])[:, 0]  # h_1


def last_from_first(h_1: Tensor) -> Tensor:
    return read(X[:, 1:], h_1[None], W_X, W_H, zeros[0])[0, -1]


by_autograd = torch.autograd.functional.jacobian(last_from_first, first[0]).T  # row form
H = read(X, zeros, W_X, W_H, zeros[0])[0]
print(f"by autograd {torch.linalg.matrix_norm(by_autograd, ord=2):.6f}")
print(f"by formula  {norms_of(H, W_H)[0]:.6f}")


# %% [markdown] lang="en"
# ### A hundred steps
#
# Now the measurement that the whole complaint rests on. 64 neurons, small random inputs, $W_H=\rho\cdot$orthogonal, and $h_0$ counted as a state: how large is $\lVert\partial h_T/\partial h_0\rVert$ after 10 steps and after 100? Guess before you run it: for which $\rho$ is the gradient still of size 1 after a hundred steps?
# %% [markdown] lang="zh-TW"
# ### 走一百步
#
# 接下來的測量，就是這項批評的依據。64 個神經元，小的隨機輸入，$W_H=\rho\cdot$正交矩陣，並把 $h_0$ 也算成一個狀態：走 10 步、100 步之後，$\lVert\partial h_T/\partial h_0\rVert$ 有多大？執行前先猜：哪個 $\rho$ 走了一百步，梯度還在 1 左右？
# %%
turn = orthogonal(64)
noise = 0.1 * torch.randn(1, 100, 64, generator=generator, dtype=torch.float64)  # the inputs' part


def history(W_H: Tensor, steps: int, size: float = 1.0) -> Tensor:
    """h_0 = 0, h_1, …, h_steps as rows."""
    rest = torch.zeros(1, len(W_H), dtype=torch.float64)
    states = read(size * noise[:, :steps], rest, torch.eye(len(W_H)).double(), W_H, rest[0])[0]
    return torch.cat([rest, states])


back, norm_label = "steps back from the end", r"$\|\partial h_T/\partial h_t\|$"
series = {}
print("rho    10 steps   100 steps   mean slope")
for rho in (0.5, 0.9, 1.0, 1.1, 1.5):
    W_H = rho * turn
    H = history(W_H, 100)
    norms = norms_of(H, W_H)
    ten = norms_of(history(W_H, 10), W_H)[0]
    print(f"{rho:<6} {ten:8.1e}   {norms[0]:8.1e}      {(1 - H[1:] ** 2).mean():.2f}")
    series[f"ρ = {rho}"] = norms.flip(0)

ax = curves(range(101), series, back, norm_label, "Vanishing and exploding", log_y=True)


# %% [markdown] lang="en"
# The answer: of these five only $\rho=1.1$ is still near 1 (0.86). Nearly straight lines on a logarithmic axis: exponentials. At $\rho=0.9$ a hundred steps leave a millionth. A gradient of $10^{-31}$ is not "small": added to a weight in float32 it changes no digit.
#
# And it **explodes**, too, if $\rho$ is well above 1. Even then tanh fights back: the states grow, the slopes shrink, and the line is flatter than $\rho^k$.
# %% [markdown] lang="zh-TW"
# 答案：五個之中只有 $\rho=1.1$ 還在 1 左右（0.86）。在對數軸上幾乎都是直線，也就是指數變化。$\rho=0.9$ 走一百步，只剩百萬分之一。$10^{-31}$ 的梯度不只是「小」：在 float32 裡加到權重上，一位數字都不會變。
#
# 而且 $\rho$ 明顯大於 1 時，它也會**爆炸**。不過 tanh 會把它壓住一些：狀態變大，斜率就變小，所以直線比 $\rho^k$ 平緩。
# %% [markdown] lang="en"
# **Turn it yourself.** Two sliders: $\rho$, and the size of the inputs. Larger inputs push tanh into its flat parts. Try to keep the curve level for a hundred steps: it is a knife's edge, and it moves with the inputs.
# %% [markdown] lang="zh-TW"
# **換你轉轉看**：兩個滑桿，一個是 $\rho$，一個是輸入的大小。輸入愈大，tanh 愈常落在平坦的地方。試著讓曲線一百步都保持水平：能保持水平的 $\rho$ 範圍很窄，輸入一變又不一樣。
# %%
def draw_norms(rho: float, size: float) -> None:
    norms = norms_of(history(rho * turn, 100, size), rho * turn).flip(0)
    title = f"ρ = {rho:.2f}, inputs × {size:.1f}"
    ax = curves(range(101), {"your ρ": norms}, back, norm_label, title, log_y=True)
    ax.set_ylim(1e-12, 1e8)


knob(draw_norms, rho=(0.5, 1.6, 0.05, 1.05), size=(0.0, 10.0, 0.5, 1.0))
# %% [markdown] lang="en"
# **And a network as it comes?** `nn.RNN` draws the entries of $W_H$ evenly between $-1/\sqrt{d_h}$ and $1/\sqrt{d_h}$. Its largest *singular value* is about 1.1, so the bound above promises nothing. But in a long product the same matrix meets itself again and again, and there its largest *eigenvalue* counts.
# %% [markdown] lang="zh-TW"
# **剛初始化的網路呢？** `nn.RNN` 的 $W_H$，每個數都在 $-1/\sqrt{d_h}$ 與 $1/\sqrt{d_h}$ 之間均勻抽取。它最大的**奇異值**約 1.1，上面的界限什麼也沒保證。但同一個矩陣連乘很多次時，算數的是最大的**特徵值**。
# %%
fresh = nn.RNN(64, 64).weight_hh_l0.T.detach().double()
norms = norms_of(history(fresh, 100), fresh)
print(f"largest singular value {torch.linalg.matrix_norm(fresh, ord=2):.2f}")
print(f"largest eigenvalue     {torch.linalg.eigvals(fresh).abs().max():.2f}")
print(f"norm after 1, 10, 100 steps: {norms[-2]:.2f}, {norms[-11]:.0e}, {norms[0]:.0e}")


# %% [markdown] lang="en"
# A fresh RNN can pass on a little more than it gets for *one* step, and passes on nothing over a hundred. So "after some tens of steps the gradient vanishes" is right for the usual start, and it is a statement about $W_H$, not about every RNN: a matrix that expands makes it explode, and one on the edge keeps it alive for a while.
# %% [markdown] lang="zh-TW"
# 剛初始化的 RNN，走**一步**時傳回去的還可能比收到的多一點；走一百步，什麼也沒剩。所以「數十步之後梯度消失」對一般的起點是對的，但那是 $W_H$ 的性質，不是所有 RNN 的宿命：會擴張的矩陣讓它爆炸，剛好在邊界上的還能撐一陣子。
# %% [markdown] lang="en"
# ## 7. The cure of 1997: a cell that adds
#
# The trouble is one matrix and one tanh in *every* step of the only path. The LSTM (long short-term memory) lays a second path beside it: a **cell** $c$ that is carried on by multiplying entry by entry and adding, with no matrix in between.
#
# Three **gates**, numbers between 0 and 1, decide what happens on that path: how much comes **i**n, how much is kept (the **f**orget gate: 1 keeps all), how much is let **o**ut. The fourth part, **g**, is the content offered.
# %% [markdown] lang="zh-TW"
# ## 7. 1997 年的解方：靠加法累積的記憶細胞
#
# 問題出在唯一的那條路上，**每一步**都有一個矩陣和一個 tanh。LSTM（長短期記憶）在旁邊鋪了第二條路：**記憶細胞** $c$，只靠逐元素相乘與相加往前帶，中間沒有矩陣。
#
# 三個**閘門**都是 0 到 1 之間的數，決定這條路上的事：放多少進來（輸入閘 i）、留下多少（遺忘閘 f，1 表示全部留下）、送多少出去（輸出閘 o）。第四部分 g 是要寫入的內容，也就是候選值。
# %% [markdown] lang="en"
# $$(z_i,\,z_f,\,z_g,\,z_o) = x_tW_X + h_{t-1}W_H + b$$
#
# $$c_t = \sigma(z_f)\odot c_{t-1} + \sigma(z_i)\odot\tanh(z_g), \qquad h_t = \sigma(z_o)\odot\tanh(c_t)$$
#
# - $W_X$: $[d_\text{in}, 4d_h]$, $W_H$: $[d_h, 4d_h]$, $b$: $[4d_h]$; four blocks of $d_h$ columns side by side, in PyTorch's order **i, f, g, o**
# - $c_t, h_t$: $[\dots, d_h]$
# - here $\sigma(z)=1/(1+e^{-z})$, the logistic function; $\odot$ multiplies entry by entry
#
# Along the cell alone, $\partial c_t/\partial c_{t-1}=\mathrm{diag}(\sigma(z_f))$: with the gate near 1, hardly anything is lost.
# %% [markdown] lang="zh-TW"
# $$(z_i,\,z_f,\,z_g,\,z_o) = x_tW_X + h_{t-1}W_H + b$$
#
# $$c_t = \sigma(z_f)\odot c_{t-1} + \sigma(z_i)\odot\tanh(z_g), \qquad h_t = \sigma(z_o)\odot\tanh(c_t)$$
#
# - $W_X$：$[d_\text{in}, 4d_h]$，$W_H$：$[d_h, 4d_h]$，$b$：$[4d_h]$；四塊並排，每塊 $d_h$ 行（column），依 PyTorch 的順序 **i、f、g、o**
# - $c_t, h_t$：$[\dots, d_h]$
# - 這裡的 $\sigma(z)=1/(1+e^{-z})$ 是 logistic 函數；$\odot$ 是逐元素相乘
#
# 只看記憶細胞這條路，$\partial c_t/\partial c_{t-1}=\mathrm{diag}(\sigma(z_f))$：閘門接近 1 時，幾乎什麼都沒少。
# %% [markdown] lang="en"
# ### Exercise `lstm_step` · difficulty 3 of 5 · 12 minutes · 3 points
#
# **Small first.** One neuron; the four sums are $z=(0,\,2,\,1,\,0)$ and the old cell is $c_{t-1}=2$.
#
# - gates: $\sigma(0)=0.5$ in, $\sigma(2)=0.881$ kept, $\sigma(0)=0.5$ out; content $\tanh(1)=0.762$
# - $c_t = 0.881\cdot2 + 0.5\cdot0.762 = 2.142$
# - $h_t = 0.5\cdot\tanh(2.142) = 0.486$
#
# **In general** the two formulas above, for one vector or any leading dimensions. The cell may be large and the sums far from 0. Return $h_t$ first, then $c_t$.
# %% [markdown] lang="zh-TW"
# ### 練習 `lstm_step` · 難度 3／5 · 12 分鐘 · 滿分 3 分
#
# **先看小例子**：一個神經元，四個總和是 $z=(0,\,2,\,1,\,0)$，舊的記憶細胞 $c_{t-1}=2$。
#
# - 閘門：放進 $\sigma(0)=0.5$，留下 $\sigma(2)=0.881$，送出 $\sigma(0)=0.5$；內容 $\tanh(1)=0.762$
# - $c_t = 0.881\cdot2 + 0.5\cdot0.762 = 2.142$
# - $h_t = 0.5\cdot\tanh(2.142) = 0.486$
#
# **一般情形**就是上面兩條公式，可以是一個向量，也可以前面有任意多個維度。記憶細胞可能很大，總和可能離 0 很遠。先回傳 $h_t$，再回傳 $c_t$。
# %% exercise="lstm_step"
def lstm_step(
    x_t: Tensor, h_prev: Tensor, c_prev: Tensor, W_X: Tensor, W_H: Tensor, b: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: renew the cell, then let it out through the output gate.

    Args:
        x_t: the input, [..., d_in].
        h_prev: the state of the step before, [..., d_h].
        c_prev: the cell of the step before, [..., d_h].
        W_X: weights of the input, [d_in, 4·d_h]: column blocks in the order i, f, g, o.
        W_H: weights of the state, [d_h, 4·d_h].
        b: biases, [4·d_h].

    Returns:
        The tuple (h_t, c_t), each [..., d_h].

    Judged: values, shapes and order of the two; one vector, a batch, two leading
    dimensions; d_in different from d_h, and equal to it; cells far from 0; sums beyond
    ±100; float32 and float64; gradients for all six tensors; inputs left unchanged,
    contiguous or not.

    Not allowed: nn.RNN, nn.LSTM, nn.GRU, their cells, torch.lstm_cell and the like,
    course_lib.
    """
    ### BEGIN SOLUTION
    i, f, g, o = (x_t @ W_X + h_prev @ W_H + b).chunk(4, dim=-1)
    c_t = torch.sigmoid(f) * c_prev + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_t), c_t
    ### END SOLUTION


# %%
check("lstm_step", lstm_step)
# %% [markdown] lang="en"
# **Parity with `nn.LSTM`**, at real size: the same two adjustments as before, transposed weights and two biases.
# %% [markdown] lang="zh-TW"
# **和 `nn.LSTM` 對照**，用實際的大小。要調整的和前面一樣：權重轉置，兩個偏置相加。
# %%
renew = use("lstm_step", lstm_step)

theirs = nn.LSTM(32, 512, batch_first=True)
X = torch.randn(8, 100, 32)
with torch.no_grad():
    W_X, W_H = theirs.weight_ih_l0.T, theirs.weight_hh_l0.T
    h = c = torch.zeros(8, 512)
    for x in X.unbind(1):
        h, c = renew(x, h, c, W_X, W_H, theirs.bias_ih_l0 + theirs.bias_hh_l0)
    _, (their_h, their_c) = theirs(X)
    print(f"after 100 steps, h differs by {(h - their_h[0]).abs().max():.0e}", end=", ")
    print(f"c by {(c - their_c[0]).abs().max():.0e}")


# %% [markdown] lang="en"
# **Does the gradient survive?** We measure how much of a change of $c_t$ arrives at $c_{100}$ (in a random direction, by autograd). PyTorch starts with forget gates near $\sigma(0)=\tfrac12$: the cell loses half of itself in every step! Adding a constant to the forget gate's bias opens it. Dashed: the cell's own path alone, $\sigma(\text{bias})^k$.
# %% [markdown] lang="zh-TW"
# **梯度留得住嗎？** 我們量 $c_t$ 的一點改變有多少能傳到 $c_{100}$（隨機取一個方向，用 autograd 算）。PyTorch 一開始的遺忘閘接近 $\sigma(0)=\tfrac12$：每一步，記憶細胞都丟掉一半！在遺忘閘的偏置加上一個常數，就能把它打開。虛線只計記憶細胞自己那條路：$\sigma(\text{偏置})^k$。
# %%
cell = nn.LSTM(8, 64).double()
words = torch.randn(100, 8, generator=generator, dtype=torch.float64)
direction = torch.randn(64, generator=generator, dtype=torch.float64)
survival, alone = {}, {}
for bias in (0.0, 1.0, 3.0):
    W_X, W_H = cell.weight_ih_l0.T.detach(), cell.weight_hh_l0.T.detach()
    shift = torch.zeros(4, 64, dtype=torch.float64)
    shift[1] = bias  # the second block: the forget gate
    b = (cell.bias_ih_l0 + cell.bias_hh_l0).detach() + shift.flatten()
    h = torch.zeros(64, dtype=torch.float64)
    cells = [torch.zeros(64, dtype=torch.float64, requires_grad=True)]
    for x in words:
        h, c = renew(x, h, cells[-1], W_X, W_H, b)
        cells.append(c)
    arrived = torch.autograd.grad(cells[-1] @ direction, cells)
    name = f"forget bias +{bias:.0f}"
    survival[name] = [(g.norm() / direction.norm()).item() for g in reversed(arrived)]
    alone[name] = [torch.sigmoid(torch.tensor(bias)).item() ** k for k in range(101)]
    print(f"{name}: 10 steps {survival[name][10]:.1e}, 100 steps {survival[name][100]:.1e}")

ax = curves(range(101), survival, back, "gradient of the cell", "LSTM", log_y=True, theory=alone)


# %% [markdown] lang="en"
# So the LSTM is a cure, *if the gate is open*. With PyTorch's start, the gradient of its cell vanishes about as fast as that of the fresh RNN above. The forget gate came three years after the LSTM (Gers et al. 2000); to start it open is common advice, but PyTorch does not do it for you.
# %% [markdown] lang="zh-TW"
# 所以 LSTM 是解方，**前提是閘門開著**。照預設的起點，記憶細胞的梯度消失得和前面剛初始化的 RNN 差不多快。遺忘閘是 LSTM 發表三年後才加的（Gers 等人，2000）；「一開始先把它打開」是常見的建議，但 PyTorch 不會替你做。
# %% [markdown] lang="en"
# ### Does it matter? Train them
#
# A task that needs memory and nothing else: the first token is one of four symbols, then comes noise. At the end, say which symbol it was. Guessing gives 0.25.
#
# Four networks, 32 wide, 200 training steps each: an RNN, an LSTM as it comes, an LSTM with its forget gate opened (bias +4.5), and one query of attention. Lesson 02 builds it; here it is enough that it looks at all tokens directly. The cell takes some 10 to 20 seconds.
# %% [markdown] lang="zh-TW"
# ### 有差嗎？訓練看看
#
# 一個只考記憶的任務：第一個詞元是四種符號之一，後面全是雜訊；最後要說出那個符號。用猜的，正確率 0.25。
#
# 四個網路，寬度 32，各訓練 200 步：RNN、預設的 LSTM、打開遺忘閘的 LSTM（偏置 +4.5），以及只有一個查詢的注意力。第 02 課會親手寫它；現在只要知道，它直接看得到每一個詞元。這一格要跑 10 到 20 秒。
# %% tags=["experiment"]
class OneQuery(nn.Module):
    """One learned query against all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.w_k, self.w_v = nn.Parameter(torch.randn(32)), nn.Linear(6, 32), nn.Linear(6, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        weights = torch.softmax(self.w_k(x) @ self.q, dim=-1)  # [B, T]
        return weights[:, None] @ self.w_v(x), None  # [B, 1, 32]


def opened_lstm() -> nn.LSTM:
    lstm = nn.LSTM(6, 32, batch_first=True)
    with torch.no_grad():
        lstm.bias_hh_l0[32:64] += 4.5
    return lstm


def remembers(make, length: int, seed: int = 1) -> float:
    """Train on fresh sequences; the share of right answers in the last 20 batches."""
    torch.manual_seed(seed)
    body, head, right = make(), nn.Linear(32, 4), []
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=5e-3)
    for _ in range(200):
        symbol = torch.randint(0, 4, (32,))
        tokens = torch.cat([symbol[:, None], torch.randint(4, 6, (32, length - 1))], dim=1)
        logits = head(body(nn.functional.one_hot(tokens, 6).float())[0][:, -1])
        adam.zero_grad()
        nn.functional.cross_entropy(logits, symbol).backward()
        nn.utils.clip_grad_norm_(body.parameters(), 1.0)
        adam.step()
        right.append((logits.argmax(-1) == symbol).float().mean().item())
    return sum(right[-20:]) / 20


networks = {
    "RNN": lambda: nn.RNN(6, 32, batch_first=True),
    "LSTM": lambda: nn.LSTM(6, 32, batch_first=True),
    "LSTM, gate open": opened_lstm,
    "attention": OneQuery,
}
found = {f"{n} tokens": [remembers(make, n) for make in networks.values()] for n in (10, 50)}
ax = bars(list(networks), found, "right answers", "Which symbol came first?")
ax.axhline(0.25, color="#777777", linewidth=1, linestyle=":")
ax.set_ylim(0, 1.3)
_ = ax.legend(loc="upper right", ncol=2)


# %% [markdown] lang="en"
# With 10 tokens all four learn it. With 50 the RNN and the LSTM as it comes are still guessing. The open gate solves it; so does attention, for which the first token is no farther away than the last.
#
# The cell trains with seed 1. Seeds 2 and 3 gave the same picture when we tried them. With seed 4 two were slower on our machine: the LSTM as it comes reached 0.52 with 10 tokens, the open one 0.77 with 50. Try it: `remembers(make, n, seed=4)`.
#
# More patient training helps all of them: the gradient is small, not zero. What was measured is how *soon* a network learns to remember.
# %% [markdown] lang="zh-TW"
# 10 個詞元時，四個都學得會。50 個詞元時，RNN 與預設的 LSTM 還在亂猜。閘門打開就解決了；注意力也是，對它來說，第一個詞元並不比最後一個遠。
#
# 這一格只用了亂數種子 1。我們另外試過 2 和 3，結果一樣；4 在我們的電腦上有兩個學得慢些：預設的 LSTM 在 10 個詞元時只到 0.52，打開閘門的在 50 個詞元時到 0.77。可以用 `remembers(make, n, seed=4)` 試試。
#
# 訓練得更久，大家都會進步：梯度只是小，不是零。這裡量到的是，一個網路**多快**學會記住。
# %% [markdown] lang="en"
# ## 8. The second complaint: it cannot run in parallel
#
# Look at the formula again and ask of each number: what must be known before it can be computed?
#
# - Another **sequence** of the batch: nothing of ours. Parallel.
# - Another **neuron** of the same step: nothing. Parallel; that is the matrix product.
# - The products $x_tW_X$ of **all** times: nothing. Parallel.
# - $h_t$ itself: $h_{t-1}$, which needs $h_{t-2}$, and so on. **This chain, and only this, has to wait.**
# %% [markdown] lang="zh-TW"
# ## 8. 第二項批評：無法平行運算
#
# 再看一次公式，對每個數都問一句：算它之前，必須先知道什麼？
#
# - 批次裡的另一個**序列**：和我們無關。可以平行。
# - 同一步的另一個**神經元**：無關。可以平行，這就是矩陣乘法。
# - **所有**時間的 $x_tW_X$：無關。可以平行。
# - $h_t$ 自己：要先有 $h_{t-1}$，它又要先有 $h_{t-2}$……**要等的就是這一串，也只有這一串。**
# %% [markdown] lang="en"
# ### Exercise `sequential_steps` · difficulty 2 of 5 · 6 minutes · 1 point
#
# How long is the longest chain of evaluations that wait for each other, for a stack of layers? One RNN cell counts as one evaluation, and so does one layer of attention at one position.
#
# **Small first.** Four tokens, two layers of RNN. Cell $(t, l)$ needs cell $(t-1, l)$ and cell $(t, l-1)$. At moment 1 only cell (1, 1) can run; at moment 2 both (2, 1) and (1, 2); and so on in diagonals. Cell (4, 2) runs at moment **5**, not 8.
#
# A layer of **attention** evaluates all positions at once, from the layer below. Two layers: **2**.
# %% [markdown] lang="zh-TW"
# ### 練習 `sequential_steps` · 難度 2／5 · 6 分鐘 · 滿分 1 分
#
# 疊好幾層時，必須互相等待的計算，最長的一串有多長？RNN 的一格算一次，注意力的一層在一個位置上也算一次。
#
# **先看小例子**：四個詞元、兩層 RNN。格子 $(t, l)$ 要等 $(t-1, l)$ 和 $(t, l-1)$。時刻 1 只有 (1, 1) 能算；時刻 2 是 (2, 1) 和 (1, 2)；之後沿著對角線往前推。格子 (4, 2) 在時刻 **5** 算完，不是 8。
#
# 一層**注意力**則是從下面那一層，一次算完所有位置。兩層就是 **2**。
# %% exercise="sequential_steps"
def sequential_steps(n_tokens: int, n_layers: int = 1) -> tuple[int, int]:
    """Length of the longest chain of evaluations that must wait for each other.

    Args:
        n_tokens: length of the sequence, at least 1.
        n_layers: number of layers, at least 1.

    Returns:
        The tuple (rnn, attention) of two Python ints.

    Judged: both numbers and their order; one layer (n_layers left out) and several;
    n_layers by name; more layers than tokens; a single token; long documents.
    """
    ### BEGIN SOLUTION
    return n_tokens + n_layers - 1, n_layers
    ### END SOLUTION


# %%
check("sequential_steps", sequential_steps)
# %% [markdown] lang="en"
# **The wave.** Each cell of the map says at which moment it can run. In the RNN a diagonal wave rolls over the grid; in attention whole rows light up.
# %% [markdown] lang="zh-TW"
# **一道波**：每一格寫的是它最早在哪個時刻能算。RNN 是一道斜的波掃過方格；注意力則是一整列一整列亮起來。
# %%
steps_of = use("sequential_steps", sequential_steps)

n, layers = 7, 3
moments = {
    "RNN": [[steps_of(t, l)[0] for t in range(1, n + 1)] for l in range(layers, 0, -1)],
    "attention": [[steps_of(n, l)[1] for t in range(1, n + 1)] for l in range(layers, 0, -1)],
}
use_style()
_, panels = plt.subplots(1, 2, figsize=(6.4, 2.4))
for ax, (name, grid) in zip(panels, moments.items()):
    heat_map(grid, ax=ax, values=False, title=f"{name}: {grid[0][-1]} moments")
    ax.images[0].set_clim(0, n + layers)
    for row in range(layers):
        for column in range(n):
            value = grid[row][column]
            ax.text(column, row, value, ha="center", va="center", color="white" if value > 5 else "black")
    ax.set_xticks(range(n), range(1, n + 1))
    ax.set_yticks(range(layers), range(layers, 0, -1))
    ax.set(xlabel="token", ylabel="layer")


# %% [markdown] lang="en"
# **Counted, not believed.** While PyTorch computes, it writes down which result needs which. In that graph we count the most tanh (for the RNN) or softmax (for attention) on any one path, and compare with your function.
# %% [markdown] lang="zh-TW"
# **不必相信，直接數**：PyTorch 一邊算，一邊記下哪個結果需要哪個。我們在這張圖上數：任何一條路徑上，最多有幾個 tanh（RNN）或 softmax（注意力），再和你的函式比對。
# %%
def most_on_a_path(result: Tensor, kind: str) -> int:
    """The largest number of operations of one kind that wait for each other, in autograd's graph."""
    most: dict = {}
    waiting = [result.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        unknown = [other for other in before if other not in most]
        if unknown:
            waiting += unknown
        else:
            most[node] = max((most[other] for other in before), default=0) + node.name().startswith(kind)
            waiting.pop()
    return most[result.grad_fn]


def rnn_stack(X: Tensor, layers: int) -> Tensor:
    """The last layer's last state; token by token, each layer reads the one below."""
    states = [torch.zeros(8) for _ in range(layers)]
    for below in X:
        for l in range(layers):
            states[l] = below = step(below, states[l], *weights, torch.zeros(8))
    return states[-1]


def attention_stack(X: Tensor, layers: int) -> Tensor:
    for _ in range(layers):
        X = torch.softmax(X @ weights[0] @ X.T, dim=-1) @ X @ weights[1]
    return X[-1]


weights = [0.3 * torch.randn(8, 8, generator=generator) for _ in range(2)]
print("tokens layers   RNN: counted, yours   attention: counted, yours")
for n, layers in ((4, 1), (4, 2), (64, 1), (64, 6), (256, 6)):
    X = torch.randn(n, 8, generator=generator).requires_grad_()
    tanhs = most_on_a_path(rnn_stack(X, layers), "Tanh")
    softmaxes = most_on_a_path(attention_stack(X, layers), "Softmax")
    yours = steps_of(n, layers)
    print(f"{n:6} {layers:6}   {tanhs:12}, {yours[0]:5}   {softmaxes:18}, {yours[1]:5}")


# %% [markdown] lang="en"
# ### What it costs, and what it does not
#
# One article says that the sequence forces the *time complexity* O(n) on an RNN. That mixes up two things. **Work** is the number of multiplications; **sequential steps** are how long you wait with unlimited hardware. For one layer of width $d$ on $n$ tokens (the paper, Table 1):
#
# | | work | sequential steps | longest path between two tokens |
# |---|---|---|---|
# | recurrent | $O(n\,d^2)$ | $O(n)$ | $O(n)$ |
# | self-attention | $O(n^2\,d)$ | $O(1)$ | $O(1)$ |
#
# Attention does *more* work once $n>d$. It buys the right to do it all at once.
# %% [markdown] lang="zh-TW"
# ### 代價：工作量和等待是兩回事
#
# 有一篇文章說，序列逼得 RNN 的**時間複雜度**只能是 O(n)。這混淆了兩件事。**工作量**是要做多少次乘法；**循序步數**是就算硬體無限多，還是得等多久。寬度 $d$ 的一層讀 $n$ 個詞元（論文的表 1）：
#
# | | 工作量 | 循序步數 | 兩個詞元之間的最長路徑 |
# |---|---|---|---|
# | 循環 | $O(n\,d^2)$ | $O(n)$ | $O(n)$ |
# | 自注意力 | $O(n^2\,d)$ | $O(1)$ | $O(1)$ |
#
# $n>d$ 之後，注意力的工作量其實**更多**。它換到的，是可以全部同時做。
# %% [markdown] lang="en"
# Count the multiplications of both: an RNN's two products a token, together $2\,d^2$; attention's two products over all pairs of tokens, $n^2d$ each. (It also multiplies each token with weights, some multiples of $n\,d^2$; the picture leaves them out.)
# %% [markdown] lang="zh-TW"
# 數一數兩邊的乘法次數：RNN 每個詞元兩次乘積，共 $2\,d^2$；注意力對所有詞元配對做兩次乘積，各 $n^2d$。（它另外還要把每個詞元乘上權重，是 $n\,d^2$ 的幾倍；圖裡先不計。）
# %%
d = 512
lengths = [2**k for k in range(5, 14)]
work = {"RNN": [2 * n * d**2 for n in lengths], "attention": [2 * n**2 * d for n in lengths]}
waits = {"RNN": [steps_of(n)[0] for n in lengths], "attention": [steps_of(n)[1] for n in lengths]}
_, panels = plt.subplots(1, 2, figsize=(6.4, 3.0))
for ax, ylabel, series in zip(panels, ("multiplications", "sequential steps"), (work, waits)):
    for (name, y), mark in zip(series.items(), "os"):
        ax.plot(lengths, y, marker=mark, label=name)
    ax.set(xscale="log", yscale="log", xlabel="tokens n", ylabel=ylabel)
panels[0].set_title(f"one layer, d = {d}")
panels[0].axvline(d, color="#777777", linewidth=1, linestyle=":")
_ = panels[0].legend()
# %% [markdown] lang="en"
# **Does waiting hurt?** Same network, same 4096 tokens, same multiplications; only the shape changes: from 4096 sequences of one token to one sequence of 4096. Sequences run side by side, the steps of one sequence one after the other.
# %% [markdown] lang="zh-TW"
# **等待真的有影響嗎？** 同一個網路、同樣 4096 個詞元、同樣多的乘法，只改形狀：從 4096 個長度 1 的序列，到一個長度 4096 的序列。不同序列可以同時算，同一序列的各步得一步一步來。
# %% tags=["experiment"]
import time

device = "cuda" if torch.cuda.is_available() else "cpu"
network = nn.RNN(256, 256, batch_first=True).to(device)


def seconds(B: int, T: int) -> float:
    """The fastest of three runs."""
    X, best = torch.randn(B, T, 256, device=device), math.inf
    with torch.no_grad():
        for _ in range(3):
            began = time.perf_counter()
            network(X)[0].sum().item()  # reading a number waits for the device
            best = min(best, time.perf_counter() - began)
    return best


seconds(64, 64)  # the first run prepares things
print("sequences x tokens   milliseconds on", device)
for T in (1, 16, 256, 4096):
    print(f"{4096 // T:9} x {T:<6}   {1e3 * seconds(4096 // T, T):8.1f}")


# %% [markdown] lang="en"
# On a processor the long sequence takes only a few times as long: one core has hardly anything that it could do side by side. Open this lesson on a GPU and run the cell again. A GPU has thousands of arithmetic units; a single sequence keeps one row of them busy and lets the others wait. The complaint is about hardware of *that* kind.
# %% [markdown] lang="zh-TW"
# 在一般的處理器上，長序列頂多花幾倍的時間：單一核心本來就沒什麼能同時做。換到 GPU 上再跑一次這個儲存格看看。GPU 有上千個運算單元，單一序列只用得到其中一小排，其餘都在等。這項批評說的，是**那種**硬體。
# %% [markdown] lang="en"
# ### Is it the recurrence? No: it is the tanh
#
# Leave the tanh out, and keep a recurrence that is linear, with one factor per entry:
#
# $$h_t = a_t\odot h_{t-1} + u_t$$
#
# Two such steps make one step of the *same kind*: $h_t = (a_ta_{t-1})\odot h_{t-2} + (a_tu_{t-1}+u_t)$. So neighbours can be joined in pairs, the pairs in fours, and so on: $\log_2 T$ rounds in place of $T$ steps. This is called a **scan**. Two steps with a tanh between them do not become one tanh.
# %% [markdown] lang="zh-TW"
# ### 問題出在循環嗎？不，出在 tanh
#
# 拿掉 tanh，留下線性的循環，每個分量各有一個因子：
#
# $$h_t = a_t\odot h_{t-1} + u_t$$
#
# 兩步合起來，還是**同一種**步：$h_t = (a_ta_{t-1})\odot h_{t-2} + (a_tu_{t-1}+u_t)$。所以相鄰的兩步可以合併，再四步、八步……只要 $\log_2 T$ 輪，不必走 $T$ 步。這叫**掃描**（scan）。中間夾著 tanh 的兩步，合不成一個 tanh。
# %%
def scan(a: Tensor, u: Tensor) -> tuple[Tensor, int]:
    """h_t = a_t ∘ h_{t−1} + u_t for all t, from h_0 = 0, in rounds that double the reach: a, u [T, d]."""
    reach, rounds = 1, 0
    while reach < len(a):
        u = torch.cat([u[:reach], a[reach:] * u[:-reach] + u[reach:]])
        a = torch.cat([a[:reach], a[reach:] * a[:-reach]])
        reach, rounds = 2 * reach, rounds + 1
    return u, rounds


a = 0.5 + 0.5 * torch.rand(1024, 64, generator=generator, dtype=torch.float64)
u = torch.randn(1024, 64, generator=generator, dtype=torch.float64)
h, loop = torch.zeros(64, dtype=torch.float64), []
for a_t, u_t in zip(a, u):
    h = a_t * h + u_t
    loop.append(h)
at_once, rounds = scan(a, u)
print(f"1024 steps in {rounds} rounds; largest difference {(at_once - torch.stack(loop)).abs().max():.0e}")


# %% [markdown] lang="en"
# Keep this in mind for lesson 12: models that came *after* the Transformer brought the recurrence back, in just this linear form.
# %% [markdown] lang="zh-TW"
# 先記著，第 12 課會用到：比 Transformer **更晚**的一些模型又把循環找了回來，用的正是這種線性的形式。
# %% [markdown] lang="en"
# ### The third complaint, and what attention changes
#
# One article adds that an RNN squeezes the whole sentence into *one* fixed vector. The next cell prints the shapes: $h_T$ has the same size for 5 tokens and for 500. But all the other states are there as well, and since 2014 translation networks looked back at all of them *with attention*. That was before the Transformer; new in 2017 was to drop the recurrence.
#
# It also measures how much the last output still depends on the first token, for a fresh RNN and for one layer of attention.
# %% [markdown] lang="zh-TW"
# ### 第三項批評，以及注意力改變了什麼
#
# 有一篇文章還說，RNN 把整句話硬塞進**一個**固定的向量。下一格印出形狀：不管 5 個還是 500 個詞元，$h_T$ 都一樣大。可是其他狀態也都還在；從 2014 年起，翻譯網路就**用注意力**回頭看每一個狀態。那時還沒有 Transformer；2017 年的新意，是把循環拿掉。
#
# 同一格也量：最後的輸出還有多依賴第一個詞元？比較剛初始化的 RNN 和一層注意力。
# %%
def influence(result: Tensor, X: Tensor) -> list[float]:
    """Size of the gradient of a result with respect to each token."""
    (gradient,) = torch.autograd.grad(result.sum(), X)
    return gradient.norm(dim=-1).tolist()


torch.manual_seed(2)
fresh = nn.RNN(8, 8)
for n in (5, 500):
    X = torch.randn(n, 8).requires_grad_()
    states, last = fresh(X)
    matrix = torch.softmax(X @ weights[0] @ X.T, dim=-1)
    by_rnn, by_attention = influence(states[-1], X), influence(matrix[-1] @ X, X)
    print(f"{n:3} tokens: all states {list(states.shape)}, last {list(last[0].shape)}", end="; ")
    print(f"first token → last output: RNN {by_rnn[0]:.0e}, attention {by_attention[0]:.0e}")

future = torch.ones(n, n).triu(1).bool()
past_only = torch.softmax((X @ weights[0] @ X.T).masked_fill(future, -math.inf), dim=-1)
print("causal attention: last token → first output", influence(past_only[0] @ X, X)[-1])


# %% [markdown] lang="en"
# At 500 tokens nothing of the first is left in the RNN's last output: the gradient underflows to exactly 0 in float32. In attention its share is small, because 500 tokens share one sum of weights, but it is there, and it took **one** step. The last line is the condition: a decoder sees only the past, so there the path from a later token to an earlier one does not exist (lesson 07).
# %% [markdown] lang="zh-TW"
# 500 個詞元時，RNN 最後的輸出裡已經沒有第一個詞元的痕跡：梯度在 float32 裡下溢位，恰為 0。注意力那邊，500 個詞元分同一份權重，份量雖小，但確實還在，而且只走了**一步**。最後一行是條件：解碼器只看得到過去，從後面通往前面的路並不存在（第 07 課）。
# %% [markdown] lang="en"
# ## 9. What to remember
#
# 1. $h_t=\tanh(x_tW_X+h_{t-1}W_H+b)$: a dense layer on $[x_t,\,h_{t-1}]$. One product, all neurons; column $j$ is neuron $j$.
# 2. $\partial h_T/\partial h_t=\prod W_H\,\mathrm{diag}(1-h_s^2)$: a product of many like factors vanishes or explodes. The slope is read off from the output.
# 3. The LSTM's cell is carried on by multiplying and adding. It keeps the gradient if its forget gate is open.
# 4. What cannot be parallel is time, because of the tanh between the steps. Batch, neurons and $x_tW_X$ are.
# 5. Work and waiting are two things: $O(n\,d^2)$ in $O(n)$ steps against $O(n^2d)$ in one.
# %% [markdown] lang="zh-TW"
# ## 9. 要記住的事
#
# 1. $h_t=\tanh(x_tW_X+h_{t-1}W_H+b)$：對 $[x_t,\,h_{t-1}]$ 的全連接層。一次乘法算完所有神經元；第 $j$ 行（column）就是神經元 $j$。
# 2. $\partial h_T/\partial h_t=\prod W_H\,\mathrm{diag}(1-h_s^2)$：許多相似的因子相乘，不是消失就是爆炸。斜率從輸出就讀得出來。
# 3. LSTM 的記憶細胞靠乘與加往前帶。遺忘閘開著，梯度就留得住。
# 4. 不能平行的只有時間，因為步與步之間有 tanh。批次、神經元、$x_tW_X$ 都可以平行。
# 5. 工作量和等待是兩回事：$O(n\,d^2)$ 分 $O(n)$ 步，對上 $O(n^2d)$ 一步做完。
# %% [markdown] lang="en"
# ## 10. Self-check: question `01_q1` · 1 point · 2 minutes
#
# Why can an RNN not be computed in parallel along time, though it can over the batch and over the neurons? Choose the best answer and put its letter between the quotation marks below.
#
# - **a**: Each time step has weights of its own, and they are known only when the step before has been computed. The sequences of a batch share them.
# - **b**: The softmax between the steps needs the sum over all tokens before it. Neurons and sequences have no such sum.
# - **c**: The states of all time steps do not fit into memory at once, so they are computed one by one. The neurons of one step do fit.
# - **d**: $h_t$ needs $h_{t-1}$, through a tanh that does not let two steps be merged into one. Neurons of one step and sequences of a batch do not need each other.
# %% [markdown] lang="zh-TW"
# ## 10. 自我檢查：選擇題 `01_q1` · 滿分 1 分 · 2 分鐘
#
# RNN 為什麼不能沿著時間平行運算，卻可以在批次與神經元之間平行？請選最好的答案，把字母填進下面的引號裡。
#
# - **a**：每個時間步各有自己的權重，要等前一步算完才知道。批次裡的序列則共用權重。
# - **b**：步與步之間的 softmax，要先把前面所有詞元加總。神經元之間、序列之間沒有這種加總。
# - **c**：所有時間步的狀態沒辦法同時放進記憶體，只好一個一個算。同一步的神經元則放得下。
# - **d**：$h_t$ 要用到 $h_{t-1}$，中間又隔著 tanh，兩步無法合併成一步。同一步的神經元之間、批次的序列之間，則不需要彼此。
# %% question="01_q1"
answer_01_q1 = ""
### BEGIN SOLUTION
answer_01_q1 = "d"
### END SOLUTION
# %%
check("01_q1", answer_01_q1)
# %% [markdown] lang="en"
# ## 11. What the documents claim, and what you measured
#
# Every figure comes from a cell of this lesson, or from the paper where it says so. Seeds and machines move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | The expanded neuron and the matrix formula are the same; a dense layer whose output comes back | true | difference 0.0; dense layer on $[x, h]$: the same to rounding. `nn.RNN` stores the transposes and has two biases; then equal to rounding over 100 steps |
# | Over long sequences an RNN's gradient vanishes after some tens of steps (one article: or explodes) | true with a condition: $W_H$ contracts (or expands) | after 10 and 100 steps: ρ = 0.5: 9e-4, 3e-31; 0.9: 0.3, 1e-6; 1.0: 0.85, 5e-3; 1.5: 23, 8e3. `nn.RNN` as it comes: about 1e-20 |
# | The LSTM is listed next to the RNN with the same weakness | true with a condition: forget gate half open, as PyTorch starts | cell's gradient after 100 steps: 1e-20 at bias +0, above 1 at bias +3; trained on 50 tokens: about 0.25 against 1.0 |
# | An RNN cannot be computed in parallel | true with a condition: along time, with a nonlinear step | longest chain counted: n + l − 1; a linear recurrence: 1024 steps in 10 rounds |
# %% [markdown] lang="zh-TW"
# ## 11. 文件怎麼說，你量到什麼
#
# 每個數字都來自這一課的儲存格，或來自論文（會註明）。換亂數種子或電腦，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 展開的神經元和矩陣公式相同；就是輸出會傳回來的全連接層 | 對 | 差 0.0；對 $[x, h]$ 的全連接層只差捨入誤差。`nn.RNN` 存的是轉置，而且有兩個偏置；調整後走 100 步只差捨入誤差 |
# | 序列一長，RNN 的梯度數十步就消失（有一篇說：或爆炸） | 有條件：$W_H$ 會收縮（或擴張） | 走 10 步與 100 步：ρ = 0.5：9e-4、3e-31；0.9：0.3、1e-6；1.0：0.85、5e-3；1.5：23、8e3。預設的 `nn.RNN` 約 1e-20 |
# | LSTM 和 RNN 並列，有同樣的弱點 | 有條件：遺忘閘半開，也就是 PyTorch 的起點 | 100 步後記憶細胞的梯度：偏置 +0 是 1e-20，偏置 +3 大於 1；用 50 個詞元訓練：約 0.25 對 1.0 |
# | RNN 無法平行運算 | 有條件：沿著時間，而且每一步是非線性的 | 數出來最長的一串是 n + l − 1；線性的循環，1024 步只要 10 輪 |
# %% [markdown] lang="en"
# | claim | verdict | what this lesson found |
# |---|---|---|
# | The sequence forces the time complexity O(n) | not so: O(n) is the number of sequential steps | n steps for the RNN, 1 for attention; work $2nd^2$ against $2n^2d$: beyond n = d attention multiplies more |
# | The whole sentence is squeezed into one vector | true with a condition: no attention on top of the RNN | $h_T$ has 8 numbers for 5 and for 500 tokens; the n states beside it are there |
# | Attention relates any two positions in one step | true with a condition: within one layer and one window | first token of 500: RNN 0, attention not; a causal one sees no later token: exactly 0 |
# | Before 2017 the best models in language processing were nearly all RNNs | nearly true, and its end was in sight | not measured here; the paper's Table 2, English to German: of 2016 the recurrent GNMT 24.6 BLEU, the convolutional ByteNet 23.75; in May 2017, a month before the paper, the convolutional ConvS2S 25.16 |
#
# **Next:** lesson 02 takes the step that needs no chain: a query that asks all tokens at once.
# %% [markdown] lang="zh-TW"
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 序列逼得時間複雜度只能是 O(n) | 不對：O(n) 是循序步數 | RNN 要 n 步，注意力 1 步；工作量是 $2nd^2$ 對 $2n^2d$，n 超過 d 之後注意力的乘法更多 |
# | 整句話被塞進一個向量 | 有條件：RNN 上面沒有再加注意力 | 5 個和 500 個詞元，$h_T$ 都是 8 個數；旁邊的 n 個狀態都還在 |
# | 注意力一步就連起任何兩個位置 | 有條件：同一層、同一個視窗之內 | 500 個詞元的第一個：RNN 是 0，注意力不是；因果注意力看不到後面的詞元：恰為 0 |
# | 2017 年以前，語言處理的頂尖模型幾乎都是 RNN | 大致對，但當時已近尾聲 | 這裡沒有測量；論文表 2，英翻德：2016 年，循環的 GNMT 得 24.6 BLEU，卷積的 ByteNet 得 23.75；2017 年 5 月，比論文早一個月，卷積的 ConvS2S 得 25.16 |
#
# **下一課**：第 02 課換一種走法，不需要一步等一步：一個查詢，同時問所有的詞元。
