# %% [markdown] lang="en"
# # 00 · Two facts to remember: linear algebra 101
#
# **You will** pass your first check within two minutes, and then write four more short functions: a matrix product
# in two ways, softmax, and the table that turns words into vectors.
#
# **You need** a little Python, and vectors and matrices as in school. No neural networks yet.
#
# **Time** about 70 minutes: 40 for reading, 30 for the exercises and the question.
#
# The course tests what some articles and lecture notes say about the Transformer: we call them "the lecture", "the
# article" and "the documents".
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `inner_product` | 1 | 2 | 1 |
# | `matmul_as_inner_products` | 2 | 8 | 2 |
# | `row_combination` | 1 | 4 | 1 |
# | `softmax` | 2 | 10 | 3 |
# | `embed` | 1 | 4 | 1 |
# | question `00_q1` | | 2 | 1 |
# %% [markdown] lang="zh-TW"
# # 00 · 先記兩件事：線性代數 101
#
# **這一課**你會在兩分鐘內通過第一個檢查，接著再寫四個短短的函式：用兩種方式算矩陣乘法、softmax，還有把字變成向量的那張表。
#
# **先備知識**是一點 Python，加上高中學過的向量與矩陣；還用不到神經網路。
#
# **時間**約 70 分鐘：閱讀 40 分鐘，練習和選擇題 30 分鐘。
#
# 本課程常提到的「講義」「文章」和「文件」，是網路上常見的教材；我們逐一檢驗它們對 Transformer 的說法。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `inner_product` | 1 | 2 | 1 |
# | `matmul_as_inner_products` | 2 | 8 | 2 |
# | `row_combination` | 1 | 4 | 1 |
# | `softmax` | 2 | 10 | 3 |
# | `embed` | 1 | 4 | 1 |
# | 選擇題 `00_q1` | | 2 | 1 |
# %% tags=["setup"]
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.plots import bars, heat_map, knob, product_two_ways

torch.set_num_threads(1)  # matrices this small gain nothing from several threads that wait for each other


# %% [markdown] lang="en"
# ## 1. The question
#
# A sentence goes into a Transformer, numbers come out. What is done to it on the way?
#
# Mostly one thing: matrices are multiplied. So the whole course stands on two facts about a matrix product, one
# function (softmax), and one table (the embedding). This lesson is those four, and nothing else.
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 一個句子進了 Transformer，出來的是一堆數字。中間對它做了什麼？
#
# 說穿了，幾乎只有一件事：矩陣相乘。所以整個課程的根基，是矩陣乘法的兩個事實、一個函數（softmax），再加一張表（嵌入）。這一課就只講這四樣。
# %% [markdown] lang="en"
# ## 2. Your first check
# ### Exercise `inner_product` · difficulty 1 of 5 · 2 minutes · 1 point
#
# An **inner product**: multiply partner by partner, then add up. With $u=(1,\,2,\,3)$ and $v=(4,\,0,\,-1)$:
# $1\cdot4+2\cdot0+3\cdot(-1)=1$. In general, for two vectors of $p$ entries,
#
# $$\langle u,v\rangle = u_1v_1+u_2v_2+\dots+u_pv_p$$
#
# Replace the line `raise NotImplementedError`, run the cell (Shift+Enter), and run the check under it. In torch,
# `u * v` multiplies entry by entry and `.sum()` adds up.
# %% [markdown] lang="zh-TW"
# ## 2. 你的第一個檢查
# ### 練習 `inner_product` · 難度 1／5 · 2 分鐘 · 滿分 1 分
#
# **內積**：同位置的兩兩相乘，再全部加起來。例如 $u=(1,\,2,\,3)$、$v=(4,\,0,\,-1)$，內積是 $1\cdot4+2\cdot0+3\cdot(-1)=1$。一般來說，兩個有 $p$ 個分量的向量：
#
# $$\langle u,v\rangle = u_1v_1+u_2v_2+\dots+u_pv_p$$
#
# 請把 `raise NotImplementedError` 那一行換成你的程式，按 Shift+Enter 執行，再執行下面的檢查。在 torch 裡，`u * v` 是逐元素相乘，`.sum()` 是全部加起來。
# %% exercise="inner_product"
def inner_product(u: Tensor, v: Tensor) -> Tensor:
    """The inner product of two vectors: u₁v₁ + u₂v₂ + … + u_p v_p.

    Args:
        u: a vector, [p].
        v: a vector, [p].

    Returns:
        A 0-d tensor, shape [] (not a Python number), in the dtype of u and v.

    Judged: value, shape and dtype; vectors of any length, p = 1 included; perpendicular
    ones (0); float32 and float64; gradients for u and v; inputs left unchanged.

    Not allowed: what does it all: @, dot, inner, matmul and their relatives, NumPy's
    included; torch.linalg, torch.sparse; convolutions, recurrent layers, solvers,
    cdist, cosine_similarity, cov.
    """
    ### BEGIN SOLUTION
    return (u * v).sum()
    ### END SOLUTION


# %%
check("inner_product", inner_product)


# %% [markdown] lang="en"
# A ✓ in every line? That was your first check. If not: the line with the arrow says what went wrong.
#
# Now see what a mistake looks like. Here is an answer that forgets to add up:
# %% [markdown] lang="zh-TW"
# 每一行都是 ✓ 嗎？恭喜，第一個檢查過關了。如果不是，箭頭那一行會告訴你哪裡出了問題。
#
# 先看一次「做錯」長什麼樣子。下面這個答案忘了加總：
# %%
def forgot_the_sum(u, v):
    return u * v


check("inner_product", forgot_the_sum)
hint("inner_product")
# %% [markdown] lang="en"
# ### How a lesson works
#
# - **`check("name", name)`** tries your function in several situations, one line each. The line with → names the
#   mistake, if it is a known one; for a matrix, a small picture shows yours beside what it should be. Run it as often
#   as you like: only what you hand in counts.
# - **`hint("name")`** gives one hint, and the next one when you call it again. Hints cost nothing.
# - **`use("name", name)`** appears in experiments. It takes your function if it passes its check, else the course's
#   own, and says which. So you may skip an exercise and read on.
# - **`progress()`**, in the last code cell, lists every exercise with your best check so far.
# - **To hand in**, download the notebook; the end of the notebook says how. Unfinished is fine: every exercise is graded by
#   itself.
# %% [markdown] lang="zh-TW"
# ### 一課怎麼上
#
# - **`check("名稱", 函式)`**：用好幾種情況試你的函式，一種情況一行。箭頭（→）那一行會指出是哪個常見的錯；答案是矩陣時，還會畫圖對照。想檢查幾次都可以，只有最後繳交的算數。
# - **`hint("名稱")`**：給一則提示，再呼叫一次給下一則。看提示不扣分。
# - **`use("名稱", 函式)`**：實驗裡會看到它。你的函式通過檢查就用你的，否則用課程的版本，並說明用了哪個。所以可以先跳過練習往下讀。
# - **`progress()`**：最後一個程式碼儲存格會用它列出每一題目前最好的檢查結果。
# - **繳交**：下載筆記本即可，做法寫在筆記本最後。沒寫完也可以交，每一題分開計分。
# %% [markdown] lang="en"
# ### Rules for all exercises
#
# - Tensors in, tensors out. The answer has the dtype and device of its inputs: float64 in means float64 precision
#   out.
# - Inputs stay as they are. They may be non-contiguous (stored in another order, as after a transpose).
# - A shape is written $[n, p]$; $[]$ is a single number in a tensor; `...` stands for any number of leading
#   dimensions, none included. Any size may be 1, and its axis stays.
# - Gradients are judged too. You get them for free as long as you stay with tensors: `.item()`, `.tolist()` and
#   NumPy cut them off.
# - Each exercise says what is not allowed: a call that does all of it. One such call, and it earns nothing.
# %% [markdown] lang="zh-TW"
# ### 每一題都適用的規則
#
# - 收張量、回傳張量。答案的 dtype 與裝置跟輸入相同；輸入是 float64，結果就要有 float64 的精度。
# - 不可更改輸入。輸入在記憶體中不一定連續（例如轉置之後）。
# - 形狀寫成 $[n, p]$；$[]$ 表示張量裡只有一個數；`...` 代表前面可以有任意多個維度，也可以沒有。任何大小都可能是 1，那個軸也要留著。
# - 梯度也會檢查。只要一路都用張量算，梯度自然就有；`.item()`、`.tolist()` 和 NumPy 會把它切斷。
# - 每一題都寫明哪些東西不可使用：那些一行就替你做完的。只要用了，那一題就不給分。
# %% [markdown] lang="en"
# ## 3. One product, seen in two ways
#
# Here is a matrix product $C=AB$, drawn twice. The numbers are the same; what differs is what you look at. Equal
# colours belong together. (Python counts rows and columns from 0.)
# %% [markdown] lang="zh-TW"
# ## 3. 同一個乘法，兩種看法
#
# 下面把同一個矩陣乘法 $C=AB$ 畫了兩次。數字一模一樣，不同的是你看哪裡；同色的是一組。（Python 的列與行都從 0 數起。）
# %%
A = torch.tensor([[2.0, -1.0, 0.0], [1.0, 3.0, 2.0]])
B = torch.tensor([[1.0, 0.0, 2.0, 1.0], [3.0, 1.0, -1.0, 0.0], [0.0, 2.0, 1.0, 4.0]])
picture = product_two_ways(A, B, row=0, column=1)


# %% [markdown] lang="en"
# **Above**, one *entry*: a row of $A$ runs across, a column of $B$ runs down, partners are multiplied and added up.
#
# **Below**, one *row*: the entries of a row of $A$ say how much of each row of $B$ goes into the pile.
#
# Move the sliders and follow one number through both pictures.
# %% [markdown] lang="zh-TW"
# **上圖**看一個「數」：$A$ 的一列（row）橫著走，$B$ 的一行（column）直著走，兩兩相乘再加總。
#
# **下圖**看一整「列」：$A$ 那一列的各個數，說的是 $B$ 的每一列各要拿多少來加。
#
# 拉動滑桿，盯住一個數，看它在兩張圖裡各怎麼來。
# %%
def look(row, column):
    product_two_ways(A, B, row, column)


knob(look, row=(0, 1, 1, 1), column=(0, 3, 1, 2))


# %% [markdown] lang="en"
# ### Fact 1: row first, then column
#
# $$C = AB, \qquad c_{ij} = \sum_{k=1}^{p} a_{ik}\,b_{kj} = \langle\,\text{row } i \text{ of } A,\ \text{column } j \text{ of } B\,\rangle$$
#
# - $A$: shape $[n, p]$, $B$: shape $[p, m]$, $C$: shape $[n, m]$
# - The $p$ in the middle must agree, since the two vectors of an inner product are equally long.
#
# The order is in the name of the Chinese rule 先列後行. Careful with texts from elsewhere: in Taiwan 列 is a row and
# 行 a column, in mainland China the reverse.
# %% [markdown] lang="zh-TW"
# ### 第一件事：先列後行
#
# $$C = AB, \qquad c_{ij} = \sum_{k=1}^{p} a_{ik}\,b_{kj} = \langle\, A \text{ 的第 } i \text{ 列},\ B \text{ 的第 } j \text{ 行}\,\rangle$$
#
# - $A$：形狀 $[n, p]$；$B$：形狀 $[p, m]$；$C$：形狀 $[n, m]$
# - 中間的 $p$ 必須一樣，因為做內積的兩個向量要一樣長。
#
# 臺灣的列是 row（橫的），行是 column（直的）；中國大陸的用法正好相反，讀別處的文章要留意。
# %% [markdown] lang="en"
# **By hand**, with the picture's numbers and its way of counting (from 0): row 1 of $A$ is $(1,3,2)$, column 2 of $B$ is
# $(2,-1,1)$, so $c_{12}=1\cdot2+3\cdot(-1)+2\cdot1=1$. Do one more yourself, row 1 and column 0, and compare with the picture.
# %% [markdown] lang="zh-TW"
# **動手算一次**，用圖裡的數字，也跟圖一樣從 0 數起：$A$ 的第 1 列是 $(1,3,2)$，$B$ 的第 2 行是 $(2,-1,1)$，所以 $c_{12}=1\cdot2+3\cdot(-1)+2\cdot1=1$。請再自己算一個：第 1 列、第 0 行，跟圖對照。
# %% [markdown] lang="en"
# ### Exercise `matmul_as_inner_products` · difficulty 2 of 5 · 8 minutes · 2 points
#
# Write the whole product by Fact 1: every row of $A$ with every column of $B$. Loops are welcome. `A[i]` is a row,
# `B[:, j]` a column, `torch.stack(list_of_tensors)` makes a tensor of a list.
#
# Not allowed is whatever multiplies for you: `@`, `matmul`, `mm`, `mv`, `bmm`, `dot`, `vdot`, `inner`, `outer`,
# `einsum`, `tensordot`, `F.linear` and their relatives (`addmm`, everything in `torch.linalg` and `torch.sparse`, the
# same in NumPy), and what multiplies on its way: convolutions, recurrent layers, solvers, determinants, decompositions
# (`qr`, `svd`), areas (`trapezoid`), distances (`dist`, `cdist`), `cosine_similarity`, `cov`, loss functions. `*` and
# sums are the point.
# %% [markdown] lang="zh-TW"
# ### 練習 `matmul_as_inner_products` · 難度 2／5 · 8 分鐘 · 滿分 2 分
#
# 照第一件事寫出整個乘法：$A$ 的每一列，配上 $B$ 的每一行。歡迎用迴圈：`A[i]` 是一列，`B[:, j]` 是一行，`torch.stack(張量的串列)` 把串列疊成張量。
#
# 不可以用替你乘好的東西：`@`、`matmul`、`mm`、`mv`、`bmm`、`dot`、`vdot`、`inner`、`outer`、`einsum`、`tensordot`、`F.linear` 以及它們的親戚（`addmm`、`torch.linalg` 與 `torch.sparse` 裡的一切、NumPy 的同類函式），還有過程中會替你乘的：卷積、循環層、解方程式的函式、行列式、矩陣分解（`qr`、`svd`）、面積（`trapezoid`）、距離（`dist`、`cdist`）、`cosine_similarity`、`cov`、損失函數。這題練的就是 `*` 和加總。
# %% exercise="matmul_as_inner_products"
def matmul_as_inner_products(A: Tensor, B: Tensor) -> Tensor:
    """The product C = AB, entry by entry: C[i, j] is row i of A times column j of B.

    Args:
        A: a matrix, [n, p].
        B: a matrix, [p, m].

    Returns:
        C, [n, m], in the dtype of A and B.

    Judged: values, shape and dtype; square and non-square matrices, one row times one
    column (C is then [1, 1]); float32 and float64; gradients for A and B; inputs left
    unchanged, contiguous or not.

    Not allowed: @, matmul, mm, mv, bmm, dot, vdot, inner, outer, einsum, tensordot,
    F.linear and their relatives, NumPy's included; torch.linalg, torch.sparse;
    convolutions, recurrent layers, solvers, cdist, cosine_similarity, cov.
    """
    ### BEGIN SOLUTION
    rows = []
    for i in range(A.shape[0]):
        rows.append(torch.stack([(A[i] * B[:, j]).sum() for j in range(B.shape[1])]))
    return torch.stack(rows)
    ### END SOLUTION


# %%
check("matmul_as_inner_products", matmul_as_inner_products)


# %% [markdown] lang="en"
# ### Fact 2: xA is a combination of the rows of A
#
# $$xA = x_1a_1+x_2a_2+\dots+x_ma_m$$
#
# - $x$: a row vector of $m$ entries, shape $[m]$
# - $A$: shape $[m, n]$; its rows are $a_1,\dots,a_m$, each of shape $[n]$
# - $xA$: shape $[n]$, one vector like the rows
#
# The entries of $x$ are the weights of the rows. This is *the* skill of the course: the "weighted average" of
# attention is just this, with weights that sum to 1.
# %% [markdown] lang="zh-TW"
# ### 第二件事：xA 是 A 的各列的線性組合
#
# $$xA = x_1a_1+x_2a_2+\dots+x_ma_m$$
#
# - $x$：有 $m$ 個分量的列向量，形狀 $[m]$
# - $A$：形狀 $[m, n]$；它的各列是 $a_1,\dots,a_m$，形狀都是 $[n]$
# - $xA$：形狀 $[n]$，跟 $A$ 的一列一樣長
#
# $x$ 的各個分量，就是各列的權重。整個課程最要緊的就是這個看法：注意力的「加權平均」正是它，只是權重加起來剛好是 1。
# %% [markdown] lang="en"
# **By hand.** The lecture has five weights, $0.61,\ 0.30,\ 0.03,\ 0.02,\ 0.04$ (section 4 shows where they come
# from). Give them five rows of our own, $(1,0)$, $(0,1)$, $(1,1)$, $(2,0)$, $(0,2)$:
#
# $$xA=0.61\,(1,0)+0.30\,(0,1)+0.03\,(1,1)+0.02\,(2,0)+0.04\,(0,2)=(0.68,\ 0.41)$$
#
# The first row has the largest weight, and the result lies closest to it. All five are in it.
# %% [markdown] lang="zh-TW"
# **動手算一次**：講義裡有五個權重：$0.61,\ 0.30,\ 0.03,\ 0.02,\ 0.04$（怎麼來的，第 4 節會看到）。配上我們自訂的五列：$(1,0)$、$(0,1)$、$(1,1)$、$(2,0)$、$(0,2)$，
#
# $$xA=0.61\,(1,0)+0.30\,(0,1)+0.03\,(1,1)+0.02\,(2,0)+0.04\,(0,2)=(0.68,\ 0.41)$$
#
# 第一列的權重最大，結果也最靠近它；但五列都有份。
# %% [markdown] lang="en"
# ### Exercise `row_combination` · difficulty 1 of 5 · 4 minutes · 1 point
#
# Write $xA$ by Fact 2: stretch each row by its weight, then add the rows up. Weights may be negative or 0, and need
# not sum to 1. What is not allowed is the same as in the exercise before.
# %% [markdown] lang="zh-TW"
# ### 練習 `row_combination` · 難度 1／5 · 4 分鐘 · 滿分 1 分
#
# 照第二件事寫出 $xA$：每一列先乘上自己的權重，再把各列加起來。權重可以是負數或 0，總和也不必是 1。不可使用的東西跟上一題一樣。
# %% exercise="row_combination"
def row_combination(x: Tensor, A: Tensor) -> Tensor:
    """xA as a combination of rows: x[0]·A[0] + x[1]·A[1] + …

    Args:
        x: the weights, one for each row of A, [m]; any numbers.
        A: the rows, [m, n].

    Returns:
        xA, [n], in the dtype of x and A.

    Judged: values, shape and dtype; m different from n, and equal to it; weights that
    are negative or 0; a single row (m = 1); float32 and float64; gradients for x and A;
    inputs left unchanged, contiguous or not.

    Not allowed: @, matmul, mm, mv, bmm, dot, vdot, inner, outer, einsum, tensordot,
    F.linear and their relatives, NumPy's included; torch.linalg, torch.sparse;
    convolutions, recurrent layers, solvers, cdist, cosine_similarity, cov.
    """
    ### BEGIN SOLUTION
    total = torch.zeros_like(A[0])
    for i in range(len(x)):
        total = total + x[i] * A[i]
    return total
    ### END SOLUTION


# %%
check("row_combination", row_combination)
# %% [markdown] lang="en"
# **One product after all.** Take the picture's $A$ and $B$. Fact 1 gives all entries; Fact 2, used on one row of $A$
# after another, gives all rows. Both must give what torch's own `@` gives.
# %% [markdown] lang="zh-TW"
# **終究是同一個乘法**：拿圖裡的 $A$ 與 $B$ 來驗。用第一件事算出每個數；用第二件事，一次一列，算出每一列。兩者都要跟 torch 內建的 `@` 一致。
# %%
multiply = use("matmul_as_inner_products", matmul_as_inner_products)
combine = use("row_combination", row_combination)

by_entries = multiply(A, B)
by_rows = torch.stack([combine(row, B) for row in A])
print(by_entries)
print("Fact 1 and torch differ by", (by_entries - A @ B).abs().max().item())
print("Fact 2 and torch differ by", (by_rows - A @ B).abs().max().item())
# %% [markdown] lang="en"
# ### Rows here, columns in your textbook
#
# Most textbooks write vectors as columns and put the matrix on the left, $Ax$. The paper of 2017 writes them as rows,
# $xA$, and so does this course: one word is one row. The two say the same, mirrored: $(xA)^\top=A^\top x^\top$. An inner
# product of two rows is $\langle u,v\rangle=uv^\top$.
#
# > **Mind the transpose.** torch's layer `nn.Linear` computes $xW$ but *stores* $W^\top$, as
# > `[out_features, in_features]`. Whoever forgets this transposes twice. In our exercises you get the bare $W$.
# %% [markdown] lang="zh-TW"
# ### 這裡用列，課本用行
#
# 一般教科書把向量寫成直的（行向量），矩陣放左邊，寫作 $Ax$。2017 年的論文把向量寫成橫的（列向量），寫作 $xA$；本課程也是，一個字就是一列。兩種寫法說的是同一件事，只是互為轉置：$(xA)^\top=A^\top x^\top$。兩個列向量的內積則是 $\langle u,v\rangle=uv^\top$。
#
# > **當心轉置**：torch 的 `nn.Linear` 算的是 $xW$，**存**的卻是 $W^\top$，形狀是 `[out_features, in_features]`。忘了這點，就會多轉置一次。練習裡給你的都是 $W$ 本身。
# %%
x = torch.tensor([0.61, 0.30, 0.03, 0.02, 0.04])
five_rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
print("as rows    x @ A   =", x @ five_rows)
print("as columns A.T @ x =", five_rows.T @ x)
u, v = A[:1], A[1:]  # two rows, each a matrix of one row: [1, 3]
print("u @ v.T =", u @ v.T, " inner product", (u * v).sum().item())

linear = torch.nn.Linear(in_features=5, out_features=2, bias=False)
W = linear.weight.T
print("nn.Linear stores", list(linear.weight.shape), "and computes x @ W:", torch.allclose(linear(x), x @ W))
# %% [markdown] lang="en"
# ## 4. Softmax: from scores to shares
#
# The lecture compares one question with five words and gets five **scores**: $3.9,\ 3.2,\ 1,\ 0.3,\ 1.1$. To mix five
# vectors we need five *shares*: positive, with sum 1, larger where the score is larger.
#
# Dividing by the sum is no way out: scores may be negative, and their sum may be 0. The exponential makes any number
# positive and keeps the order; after it, dividing by the sum is safe:
#
# $$\mathrm{softmax}(s)_i=\frac{e^{s_i}}{e^{s_1}+e^{s_2}+\dots+e^{s_M}}$$
# %% [markdown] lang="zh-TW"
# ## 4. Softmax：把分數變成份量
#
# 講義拿一個問題跟五個字比對，得到五個**分數**：$3.9,\ 3.2,\ 1,\ 0.3,\ 1.1$。要把五個向量混合，需要的是五個**份量**：都是正數，加起來是 1，分數大的份量也大。
#
# 直接除以總和行不通：分數可能是負的，總和還可能是 0。指數函數把任何數都變成正數，大小順序不變；這時再除以總和就安全了：
#
# $$\mathrm{softmax}(s)_i=\frac{e^{s_i}}{e^{s_1}+e^{s_2}+\dots+e^{s_M}}$$
# %% [markdown] lang="en"
# **By hand**, the lecture's five:
#
# | score $s$ | $3.9$ | $3.2$ | $1.0$ | $0.3$ | $1.1$ | sum |
# |---|---|---|---|---|---|---|
# | $e^{s}$ | 49.40 | 24.53 | 2.72 | 1.35 | 3.00 | 81.01 |
# | weight | **0.61** | **0.30** | **0.03** | **0.02** | **0.04** | 1 |
#
# These are the five weights of section 3. The first score leads by only 0.7, yet its weight is twice the second,
# since $e^{0.7}=2.01$: what counts is the *difference* of two scores.
# %% [markdown] lang="zh-TW"
# **動手算一次**，講義的五個分數：
#
# | 分數 $s$ | $3.9$ | $3.2$ | $1.0$ | $0.3$ | $1.1$ | 總和 |
# |---|---|---|---|---|---|---|
# | $e^{s}$ | 49.40 | 24.53 | 2.72 | 1.35 | 3.00 | 81.01 |
# | 權重 | **0.61** | **0.30** | **0.03** | **0.02** | **0.04** | 1 |
#
# 這就是第 3 節那五個權重。第一名只領先 0.7 分，權重卻是第二名的兩倍，因為 $e^{0.7}=2.01$：重要的是兩個分數的**差**。
# %% [markdown] lang="en"
# ### A trap: exponentials explode
#
# On paper we are done. In a computer $e^{s}$ soon leaves the range of its numbers:
# %% [markdown] lang="zh-TW"
# ### 陷阱：指數會爆掉
#
# 紙上到此為止。可是電腦裡的 $e^{s}$ 很快就超出數字能表示的範圍：
# %%
edges = {torch.float16: (11.0, 12.0), torch.float32: (88.0, 89.0), torch.float64: (709.0, 710.0)}
for dtype, scores in edges.items():
    print(dtype, "exp of", scores, "=", torch.tensor(scores, dtype=dtype).exp().tolist())

large = torch.tensor([1000.0, 999.0])
print("naive softmax of (1000, 999):", (large.exp() / large.exp().sum()).tolist())


# %% [markdown] lang="en"
# ∞/∞ is not a number (`nan`). The way out is the sentence above: only differences count. Subtract any $c$ from *all*
# scores, and nothing changes, since the common factor cancels:
#
# $$\frac{e^{s_i-c}}{\sum_j e^{s_j-c}}=\frac{e^{-c}\,e^{s_i}}{e^{-c}\sum_j e^{s_j}}=\frac{e^{s_i}}{\sum_j e^{s_j}}$$
#
# So choose a good $c$. Which one makes sure that no exponent is above 0, and that the sum is at least 1?
# %% [markdown] lang="zh-TW"
# ∞/∞ 不是一個數（`nan`）。出路就在前面那句話：只有差才重要。**所有**分數同減一個 $c$，結果不變，因為共同的因子會約掉：
#
# $$\frac{e^{s_i-c}}{\sum_j e^{s_j-c}}=\frac{e^{-c}\,e^{s_i}}{e^{-c}\sum_j e^{s_j}}=\frac{e^{s_i}}{\sum_j e^{s_j}}$$
#
# 那就挑一個好的 $c$。減哪個數，能保證沒有任何指數大於 0，而且總和至少是 1？
# %% [markdown] lang="en"
# ### Along which axis?
#
# In a table of scores somebody must say *what* sums to 1. `dim` names the axis along which the shares are dealt out:
#
# $$\begin{pmatrix}0&\ln 3\\0&0\end{pmatrix}\quad\xrightarrow{\ \texttt{dim=-1}\ }\quad\begin{pmatrix}0.25&0.75\\0.5&0.5\end{pmatrix},\qquad\quad\xrightarrow{\ \texttt{dim=0}\ }\quad\begin{pmatrix}0.5&0.75\\0.5&0.25\end{pmatrix}$$
#
# With `dim=-1` (the last axis) each row sums to 1, with `dim=0` each column. One trick of torch helps:
# `scores.sum(dim, keepdim=True)` keeps the summed axis with length 1, so that a division lines up.
# %% [markdown] lang="zh-TW"
# ### 沿著哪個軸？
#
# 一張分數表，總得有人說清楚**什麼**加起來是 1。`dim` 指的就是沿著哪個軸分配：
#
# $$\begin{pmatrix}0&\ln 3\\0&0\end{pmatrix}\quad\xrightarrow{\ \texttt{dim=-1}\ }\quad\begin{pmatrix}0.25&0.75\\0.5&0.5\end{pmatrix},\qquad\quad\xrightarrow{\ \texttt{dim=0}\ }\quad\begin{pmatrix}0.5&0.75\\0.5&0.25\end{pmatrix}$$
#
# `dim=-1`（最後一個軸）讓每一列的和是 1，`dim=0` 讓每一行的和是 1。torch 有個好用的寫法：`scores.sum(dim, keepdim=True)` 把加總的軸留下來，長度變成 1，除法就會對齊。
# %% [markdown] lang="en"
# ### Exercise `softmax` · difficulty 2 of 5 · 10 minutes · 3 points
#
# What the check looks at, besides the formula:
#
# - **any axis**: `dim` may be 0, 1, −1, −3, …, by position or by name;
# - **scores of any size**, ±10,000 side by side included;
# - **−∞** among the scores, as long as something finite stands beside it along `dim`: its weight is exactly 0;
# - **half precision** (float16, bfloat16): the error may be twice that of the plain formula in the same dtype. The
#   formula as it stands passes.
#
# Every built-in softmax or log-softmax is forbidden here (SciPy's too), and so is what holds one: `cross_entropy` and
# ready-made attention. So are derivatives (`torch.autograd`, `.backward`, `torch.func.grad` and its like), for that of
# `logsumexp` is the softmax. `torch.exp`, `amax`, `sum` and even `logsumexp` are fine; `torch.vmap` is too.
# %% [markdown] lang="zh-TW"
# ### 練習 `softmax` · 難度 2／5 · 10 分鐘 · 滿分 3 分
#
# 除了公式本身，檢查還會看：
#
# - **任何軸**：`dim` 可能是 0、1、−1、−3 等，按位置或按名稱給；
# - **任何大小的分數**，包括 ±10,000 並存；
# - **−∞**：分數裡可能有，但沿著 `dim` 的同一組裡一定還有別的有限的數；−∞ 的權重恰為 0；
# - **半精度**（float16、bfloat16）：誤差最多是同 dtype 直接套公式的兩倍，照公式算就會過。
#
# 這一題不可使用任何現成的 softmax 或 log-softmax（SciPy 的也不行），也不可用裡面藏著它的東西：`cross_entropy` 和現成的注意力。求導數的也不行（`torch.autograd`、`.backward`、`torch.func.grad` 等），因為 `logsumexp` 的導數就是 softmax。`torch.exp`、`amax`、`sum`，甚至 `logsumexp` 都可以，`torch.vmap` 也可以。
# %% exercise="softmax"
def softmax(scores: Tensor, dim: int = -1) -> Tensor:
    """Shares exp(sᵢ) / Σⱼ exp(sⱼ) along one axis, for scores of any size.

    Args:
        scores: [...], any number of axes; float32, float64, float16 or bfloat16.
            An entry may be −inf where another one along dim is finite.
        dim: the axis along which the shares sum to 1; negative ones count from the end.

    Returns:
        The shares, of the shape and dtype of scores. A score of −inf has share 0.

    Judged: values, shape and dtype; one to four axes and any dim; scores near ±200 and
    ±10000 side by side (±1000 in float64); −inf; half precision, with at most twice the
    error of the plain formula; gradients; scores left unchanged, contiguous or not.

    Not allowed: any built-in softmax or log-softmax (functions, methods, modules),
    cross_entropy, ready-made attention, torch.autograd, .backward, torch.func.grad
    and its like.
    """
    ### BEGIN SOLUTION
    e = torch.exp(scores - scores.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)
    ### END SOLUTION


# %%
check("softmax", softmax)
# %% [markdown] lang="en"
# **Play with one score.** The lecture's five again; the slider moves the fourth. Watch how *all* the others pay for
# what it gains, and how far it must climb until it takes everything.
# %% [markdown] lang="zh-TW"
# **動動一個分數**：還是講義那五個，滑桿移動的是第四個。看看它多拿的份量，是怎麼由**所有**其他人分攤的；又要爬到多高，才會整碗端走。
# %%
share = use("softmax", softmax)


def move_the_fourth(fourth):
    scores = torch.tensor([3.9, 3.2, 1.0, fourth, 1.1])
    names = [f"{score:.1f}" for score in scores.tolist()]
    ax = bars(names, {"weight": share(scores)}, "weight", "softmax of five scores")
    ax.set(xlabel="score", ylim=(0, 1.08))


knob(move_the_fourth, fourth=(-2.0, 10.0, 0.1, 0.3))
# %% [markdown] lang="en"
# ### Between 0 and 1? And do they sum to 1?
#
# "Softmax turns scores into weights between 0 and 1 that sum to 1." On paper each weight lies *strictly* between: $e^s$
# is never 0. In a computer? Let a second score trail behind the first, further and further, and look for the first gap at
# which its weight is exactly 0.
# %% [markdown] lang="zh-TW"
# ### 在 0 與 1 之間？加起來是 1？
#
# 「softmax 把分數變成 0 與 1 之間、總和為 1 的權重。」在紙上，權重**嚴格**介於 0 與 1 之間，因為 $e^s$ 永遠不是 0。在電腦裡呢？讓第二個分數愈落愈後面，看差距多大時，它的權重會剛好變成 0。
# %%
gaps = torch.arange(0, 8000, dtype=torch.float64) / 10
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    weights = share(torch.stack([torch.zeros_like(gaps), -gaps], dim=-1).to(dtype))  # [8000, 2]
    first_zero = gaps[weights[:, 1] == 0][0].item()
    off = (weights.double().sum(dim=-1) - 1).abs().max().item()
    print(f"{dtype!s:15} weight 0 from a gap of {first_zero:5.1f} on; sums miss 1 by {off:.0e} at most")


# %% [markdown] lang="en"
# So the sentence is true, with some small print: a score that trails by 17.4 (float16), 104 (float32) or 745.2
# (float64) gets a weight of exactly 0, and its partner exactly 1. And the sums are 1 up to rounding.
# %% [markdown] lang="zh-TW"
# 所以那句話成立，但有附註：分數落後 17.4（float16）、104（float32）或 745.2（float64）時，權重剛好是 0，另一個剛好是 1；總和是 1，但有捨入誤差。
# %% [markdown] lang="en"
# ## 5. The embedding: words become rows
#
# A text is cut into **tokens**: words, or pieces of words. Every token has a number, its **id**. All $V$ tokens of the
# vocabulary own one row each of a big matrix, the embedding $W_E$ of shape $[V, d_\text{model}]$. To embed a token is
# to take its row.
#
# **Small first.** Let $V=3$, and let $W_E$ have the rows $(5,1)$, $(2,7)$, $(4,4)$. The text with the ids $(2,0,2)$
# becomes
#
# $$X=\begin{pmatrix}4&4\\5&1\\4&4\end{pmatrix}$$
#
# A text of $N$ tokens is a matrix of shape $[N, d_\text{model}]$: one token, one row.
# %% [markdown] lang="zh-TW"
# ## 5. 嵌入：把字變成列
#
# 文字會先切成**詞元（token）**：整個字，或字的一段。每個詞元有個編號（id）。詞彙表共有 $V$ 個詞元，每個在一個大矩陣裡占一列，這就是嵌入矩陣 $W_E$，形狀 $[V, d_\text{model}]$。所謂嵌入，就是取出那一列。
#
# **先看小例子**：$V=3$，$W_E$ 的三列是 $(5,1)$、$(2,7)$、$(4,4)$。編號為 $(2,0,2)$ 的文字就變成
#
# $$X=\begin{pmatrix}4&4\\5&1\\4&4\end{pmatrix}$$
#
# $N$ 個詞元的文字，就是形狀 $[N, d_\text{model}]$ 的矩陣：一個詞元一列。
# %% [markdown] lang="en"
# **Why this is Fact 2.** Write id 2 as a **one-hot** row vector: $(0,0,1)$, one 1 at place 2. Then
#
# $$(0,0,1)\,W_E=0\,(5,1)+0\,(2,7)+1\,(4,4)=(4,4)$$
#
# A combination whose weights are all 0 but a single 1 is a look-up. So looking up is a matrix product like all others,
# and the table can be learned like all other matrices.
# %% [markdown] lang="zh-TW"
# **為什麼這是第二件事**：把編號 2 寫成**獨熱向量（one-hot）** $(0,0,1)$，只有第 2 個位置是 1。於是
#
# $$(0,0,1)\,W_E=0\,(5,1)+0\,(2,7)+1\,(4,4)=(4,4)$$
#
# 權重除了一個 1、其餘全是 0 的線性組合，就是查表。所以查表跟其他部分一樣，也是矩陣乘法；這張表也就跟其他矩陣一樣，能夠學出來。
# %% [markdown] lang="en"
# ### Exercise `embed` · difficulty 1 of 5 · 4 minutes · 1 point
#
# Ids in, vectors out. Both ways are right, the product with one-hot vectors and the direct look-up. The shape of the ids is
# kept, and one axis of length $d_\text{model}$ is added behind: a batch $[B, N]$ gives $[B, N, d_\text{model}]$.
# `F.embedding`, `nn.Embedding` and their relatives are not allowed; `@` is allowed again.
# %% [markdown] lang="zh-TW"
# ### 練習 `embed` · 難度 1／5 · 4 分鐘 · 滿分 1 分
#
# 給編號，還向量。乘上 one-hot 向量，或直接查表，兩種都對。編號的形狀要保留，後面多一個長度 $d_\text{model}$ 的軸：一個批次 $[B, N]$ 會得到 $[B, N, d_\text{model}]$。不可用 `F.embedding`、`nn.Embedding` 這一類現成的；`@` 則又可以用了。
# %% exercise="embed"
def embed(ids: Tensor, W_E: Tensor) -> Tensor:
    """The vectors of tokens: one_hot(id) W_E, that is, row id of W_E, for every id.

    Args:
        ids: LongTensor of any shape [...], entries 0 … V−1; repeats allowed.
        W_E: the embedding matrix, one row for each token of the vocabulary, [V, d_model].

    Returns:
        The vectors, [..., d_model], in the dtype of W_E.

    Judged: values, shape and dtype; a single id (shape []), sequences and batches; ids 0
    and V−1, also texts without V−1; V different from d_model, and equal to it; float32,
    float64, float16 and bfloat16; the gradient for W_E; inputs left unchanged, W_E
    contiguous or not.

    Not allowed: F.embedding, F.embedding_bag, torch.embedding, nn.Embedding,
    nn.EmbeddingBag.
    """
    ### BEGIN SOLUTION
    return W_E[ids]
    ### END SOLUTION


# %%
check("embed", embed)
# %% [markdown] lang="en"
# **The article's formula.** One article writes the embedding as $x_i=W_E\cdot\text{one-hot}(w_i)$, with $W_E$ of shape
# $V\times d_\text{model}$. Try it, with $V=5$ and $d_\text{model}=3$:
# %% [markdown] lang="zh-TW"
# **文章的公式**：有一篇文章把嵌入寫成 $x_i=W_E\cdot\text{one-hot}(w_i)$，而 $W_E$ 的形狀是 $V\times d_\text{model}$。取 $V=5$、$d_\text{model}=3$ 試試看：
# %%
look_up = use("embed", embed)

W_E = torch.arange(15.0).reshape(5, 3)
pointer = F.one_hot(torch.tensor(2), num_classes=5).float()  # [5]
try:
    W_E @ pointer
except RuntimeError as error:
    print("W_E @ one_hot   ", error)
print("one_hot @ W_E   ", pointer @ W_E)
print("W_E.T @ one_hot ", W_E.T @ pointer)
print("embed           ", look_up(torch.tensor(2), W_E))


# %% [markdown] lang="en"
# $[V, d_\text{model}]$ times $[V]$ does not fit. As rows it is $\text{one-hot}\,W_E$, as columns
# $W_E^\top\,\text{one-hot}$; the article mixes the two. When a formula confuses you, write the shapes under it.
# %% [markdown] lang="zh-TW"
# $[V, d_\text{model}]$ 乘 $[V]$ 根本乘不起來。寫成列是 $\text{one-hot}\,W_E$，寫成行是 $W_E^\top\,\text{one-hot}$；文章把兩種混在一起了。被公式弄糊塗時，就在下面寫出形狀。
# %% [markdown] lang="en"
# ## 6. At real size
#
# MiniLM is a small model trained on real English text; it will come back in other lessons. If its weights are not on
# this machine, the next cell says how to get them, and the lesson goes on without.
# %% [markdown] lang="zh-TW"
# ## 6. 真實的大小
#
# MiniLM 是個用真實英文訓練過的小模型，後面幾課還會遇到。這臺電腦上若沒有它的權重，下一個儲存格會印出取得的方法；課程照樣可以往下走。
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, load_minilm

try:
    tokenizer, model = load_minilm()
except CheckpointMissing as missing:
    model = None
    print(missing)

if model is not None:
    W_E = model.token.weight.detach()
    numbers = sum(weight.numel() for weight in model.parameters())
    in_matrices = sum(weight.numel() for weight in model.parameters() if weight.ndim == 2)
    print(f"MiniLM has learned {numbers:,} numbers; {in_matrices / numbers:.1%} of them stand in matrices")
    print("its embedding W_E:", list(W_E.shape), " (the model of 2017 had d_model = 512)")

    text = "The Transformer outperforms recurrent networks, unbelievably."
    seen = tokenizer.encode(text)
    print(f"{len(text.split())} words, {len(seen.ids)} tokens:", *seen.tokens)
    print("as a matrix:", list(look_up(torch.tensor(seen.ids), W_E).shape))
# %% [markdown] lang="en"
# Two things to take from here. $N$ counts *tokens*, not words: rare words fall into pieces (`##` marks a piece that goes
# on), punctuation counts, and this model adds two marks of its own. And nearly all that it knows stands in matrices.
# %% [markdown] lang="zh-TW"
# 這裡有兩件事值得記。第一，$N$ 數的是**詞元**，不是字：少見的字會被切成幾段（`##` 表示接著前一段），標點也算，這個模型還會在頭尾各加一個記號。第二，它學到的東西，幾乎全放在矩陣裡。
# %% [markdown] lang="en"
# **Fact 1 on real words.** $EE^\top$ holds the inner products of all rows with all rows. (The rows are first brought to
# length 1, so that the numbers compare directions.) Who is close to whom?
# %% [markdown] lang="zh-TW"
# **第一件事用在真的字上**：$EE^\top$ 裝的是所有列兩兩的內積。（這裡先把每一列縮放成長度 1，比的才是方向。）誰跟誰靠得近？
# %% tags=["experiment"]
if model is not None:
    some = ["cat", "dog", "mat", "rug", "tired", "sleepy", "the"]
    E = look_up(torch.tensor([tokenizer.token_to_id(word) for word in some]), W_E)  # [7, 384]
    E = E / E.norm(dim=1, keepdim=True)
    ax = heat_map(multiply(E, E.T), some, some, "inner products of rows of W_E")
    ax.set(xlabel="", ylabel="")
# %% [markdown] lang="en"
# Cat and dog, mat and rug, tired and sleepy: nobody told the model that these belong together. It learned rows whose
# inner products say so.
#
# **Fact 2 on a real sentence.** The article prints a table of who looks where in "the cat sat on the mat". Its row of
# "sat" is $(0,\ 0.5,\ 0.2,\ 0.1,\ 0,\ 0.2)$. Use it as $x$, and the six real vectors as the rows of $V$. What is $xV$ close to?
# %% [markdown] lang="zh-TW"
# cat 與 dog、mat 與 rug、tired 與 sleepy：沒有人告訴模型它們是一對，是它自己學出了這樣的列，內積一算就看得出來。
#
# **第二件事用在真的句子上**：文章印了一張表，說「the cat sat on the mat」裡誰看誰。「sat」那一列是 $(0,\ 0.5,\ 0.2,\ 0.1,\ 0,\ 0.2)$。把它當作 $x$，六個字真正的向量當作 $V$ 的各列，$xV$ 會靠近誰？
# %% tags=["experiment"]
if model is not None:
    sentence = ["the", "cat", "sat", "on", "the", "mat"]
    V = look_up(torch.tensor([tokenizer.token_to_id(word) for word in sentence]), W_E)  # [6, 384]
    weights = torch.tensor([0.0, 0.5, 0.2, 0.1, 0.0, 0.2])
    mixed = combine(weights, V)
    closeness = torch.cosine_similarity(mixed, W_E, dim=-1)  # with all rows of the vocabulary
    best = closeness.topk(4).indices.tolist()
    print("of all", len(W_E), "tokens the closest are", [tokenizer.id_to_token(i) for i in best])
    ax = bars(
        [f"{word}\n{weight:.1f}" for word, weight in zip(sentence, weights.tolist())],
        {"cos": torch.cosine_similarity(mixed, V, dim=-1)},
        "cosine with the mixture",
        "xV: half cat, a little sat and mat",
    )


# %% [markdown] lang="en"
# The mixture is mostly cat, with something of "mat" and "sat" in it. This is the heart of attention: for each word, a
# combination of rows. *Which* weights, and rows of what, is the story of lesson 02.
# %% [markdown] lang="zh-TW"
# 混出來的向量大半是 cat，帶一點「mat」和「sat」。這就是注意力的核心：替每個字做一次各列的線性組合。權重**怎麼來**、又是誰的列，是第 02 課的故事。
# %% [markdown] lang="en"
# ### What is fast, and what is only right
#
# Your functions are right. Are they fast? We time your product against torch's `@`, and the two forms of the embedding
# against each other. Times depend on the machine; the ratio is what to look at.
# %% [markdown] lang="zh-TW"
# ### 對是一回事，快是另一回事
#
# 你的函式是對的，但快不快？拿你的矩陣乘法跟 torch 的 `@` 比，再拿嵌入的兩種寫法互比。秒數因電腦而異，看比例就好。
# %% tags=["experiment"]
def milliseconds(work) -> float:
    """The best of three, so that a busy moment does not count."""
    times = []
    for _ in range(3):
        start_time = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start_time))
    return min(times)


square = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
print(f"[64, 64] times [64, 64]:  yours {milliseconds(lambda: multiply(square, square)):.2f} ms", end="")
print(f",  torch's @ {milliseconds(lambda: square @ square):.3f} ms")
print(f"largest difference: {(multiply(square, square) - square @ square).abs().max():.0e}")

table = torch.randn(30522, 384, generator=torch.Generator().manual_seed(1))  # as large as MiniLM's W_E
ids = torch.arange(0, 30000, 2000)  # 15 tokens
one_hot = F.one_hot(ids, num_classes=len(table)).float()  # [15, 30522]
print(f"15 tokens by one_hot @ W_E: {milliseconds(lambda: one_hot @ table):.2f} ms", end="")
print(f",  by W_E[ids]: {milliseconds(lambda: table[ids]):.3f} ms")
print("and the results are equal:", torch.equal(one_hot @ table, table[ids]))
# %% [markdown] lang="en"
# The formula tells you *what* comes out. How to get it is another matter: libraries look the row up, and use `@` for the
# rest, which is Fact 1 in machine code. From the next lesson on, so do we.
# %% [markdown] lang="zh-TW"
# 公式說的是**結果**，怎麼算出來是另一回事。函式庫的做法是：嵌入直接查表，其餘一律用 `@`，而 `@` 就是用機器語言寫的第一件事。從下一課起，我們也這麼做。
# %% [markdown] lang="en"
# ## 7. What to remember
#
# - **Fact 1.** $c_{ij}$ is row $i$ of $A$ times column $j$ of $B$: row first, then column.
# - **Fact 2.** $xA$ is a combination of the rows of $A$, weighted by the entries of $x$.
# - Softmax turns any scores into shares along one axis. Only differences count, so subtract the largest first.
# - A token is a row of $W_E$; a text of $N$ tokens is a matrix $[N, d_\text{model}]$.
# - Lost in a formula? Write the shapes under it.
# %% [markdown] lang="zh-TW"
# ## 7. 帶走這些
#
# - **第一件事**：$c_{ij}$ 是 $A$ 的第 $i$ 列與 $B$ 的第 $j$ 行的內積，先列後行。
# - **第二件事**：$xA$ 是 $A$ 的各列的線性組合，權重是 $x$ 的分量。
# - softmax 沿著一個軸，把任何分數變成份量。只有差才重要，所以先減掉最大的。
# - 一個詞元是 $W_E$ 的一列；$N$ 個詞元的文字是 $[N, d_\text{model}]$ 的矩陣。
# - 看公式看昏了？在下面寫出形狀。
# %% [markdown] lang="en"
# ## 8. Self-check: question `00_q1` · 1 point · 2 minutes
#
# Write the letter between the quotation marks, for example `"a"`, and run the check.
#
# Let $x$ be a row vector of $m$ entries and $A$ a matrix with $m$ rows. What is $xA$?
#
# - **a**: A combination of the columns of $A$; the entries of $x$ are the weights.
# - **b**: All the products of an entry of $x$ with an entry of its row: a matrix of the same shape as $A$.
# - **c**: A combination of the rows of $A$ with the entries of $x$ as weights, provided that $A$ is square.
# - **d**: A combination of the rows of $A$ with the entries of $x$ as weights; its entry $j$ is also the inner product of
#   $x$ with column $j$.
# %% [markdown] lang="zh-TW"
# ## 8. 自我檢查：選擇題 `00_q1` · 滿分 1 分 · 2 分鐘
#
# 把字母寫在引號之間，例如 `"a"`，然後執行檢查。
#
# $x$ 是有 $m$ 個分量的列向量，$A$ 是有 $m$ 列的矩陣。$xA$ 是什麼？
#
# - **a**：$A$ 的各行（column）的線性組合，權重是 $x$ 的分量。
# - **b**：$x$ 的每個分量，跟對應那一列的每個數相乘：一個跟 $A$ 形狀相同的矩陣。
# - **c**：$A$ 的各列（row）的線性組合，權重是 $x$ 的分量；但 $A$ 必須是方陣。
# - **d**：$A$ 的各列（row）的線性組合，權重是 $x$ 的分量；它的第 $j$ 個分量，也是 $x$ 與第 $j$ 行的內積。
# %% question="00_q1"
answer_00_q1 = ""
### BEGIN SOLUTION
answer_00_q1 = "d"
### END SOLUTION
# %%
check("00_q1", answer_00_q1)
# %% [markdown] lang="en"
# ## 9. What the documents claim, and what you measured
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | $c_{ij}$ is row $i$ of $A$ times column $j$ of $B$ | true | section 3: differs from torch's `@` by 0; at 64 × 64 by rounding only |
# | $xA$ is a combination of the rows of $A$ with the entries of $x$ as weights | true | section 3: difference 0; the real "sat" row gives a vector closest to "cat" |
# | textbooks write $Ax$, the paper $xA$ | true | `x @ A` equals `A.T @ x`; but `nn.Linear` stores `[2, 5]` for 5 in, 2 out |
# | the embedding is $W_E\cdot\text{one-hot}$ with $W_E$ of $V\times d_\text{model}$ | not so: the shapes do not fit | "size mismatch"; `one_hot @ W_E` is the row |
# | a text is an $N\times d_\text{model}$ matrix, one fixed-length vector a token | true, if $N$ counts tokens, not words | 6 words, 18 tokens, `[18, 384]` (512 in 2017) |
# | softmax gives weights between 0 and 1 that sum to 1 | true with a condition: strictly between only in exact arithmetic | exactly 0 from a gap of 17.4, 104 and 745.2 on (float16, float32, float64); sums 1 up to rounding |
#
# **Next:** lesson 01 writes a recurrent network with these two facts, and finds out why it cannot be computed all at once.
# %% [markdown] lang="zh-TW"
# ## 9. 文件怎麼說，你量到什麼
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | $c_{ij}$ 是 $A$ 的第 $i$ 列與 $B$ 的第 $j$ 行做內積 | 對 | 第 3 節：與 torch 的 `@` 相差 0；64 × 64 時只差捨入誤差 |
# | $xA$ 是 $A$ 的各列的線性組合，權重是 $x$ 的分量 | 對 | 第 3 節：相差 0；用「sat」那一列混出的向量，最靠近「cat」 |
# | 教科書寫 $Ax$，論文寫 $xA$ | 對 | `x @ A` 等於 `A.T @ x`；但 5 進 2 出的 `nn.Linear` 存的是 `[2, 5]` |
# | 嵌入是 $W_E\cdot\text{one-hot}$，$W_E$ 為 $V\times d_\text{model}$ | 不對：形狀不合 | 「size mismatch」；`one_hot @ W_E` 才是那一列 |
# | 每個詞元是固定長度的向量，整篇文字是 $N\times d_\text{model}$ 的矩陣 | 對，只要 $N$ 數的是詞元，不是字 | 6 個字、18 個詞元，`[18, 384]`（2017 年是 512） |
# | softmax 給出 0 與 1 之間、總和為 1 的權重 | 有條件：精確計算時才嚴格介於兩者之間 | 差距達 17.4、104、745.2（float16、float32、float64）時剛好是 0；總和是 1，但有捨入誤差 |
#
# **下一課**用這兩件事寫出循環神經網路，看看它為什麼沒辦法一次算完。
