# %% [markdown] lang="en"
# # 02 · Q/K/V: take a question, find what answers it best
#
# **You will** write attention yourself, in six short functions, and read what a trained model does with it.
#
# **You need** lesson 00: a vector times a matrix is a combination of the matrix's rows, and softmax turns any
# numbers into weights.
#
# **Time** about 75 minutes: 40 for reading, 35 for the exercises and questions.
#
# We test what some articles and lecture notes say about attention; "the article" is one that uses the sentence about
# the cat below.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `project_qkv` | 1 | 4 | 1 |
# | `relevance` | 1 | 3 | 1 |
# | `attend` | 2 | 5 | 2 |
# | `attention_matrix` | 2 | 5 | 2 |
# | `self_attention` | 2 | 6 | 3 |
# | `permutation_gap` | 3 | 7 | 2 |
# | question `02_q1` | | 2 | 1 |
# | question `02_q2` | | 3 | 1 |
# %% [markdown] lang="zh-TW"
# # 02 · Q/K/V：拿問題去找最適合的答案
#
# **這一課**你會親手寫出注意力（attention）：六個短短的函式；最後再看看訓練好的模型怎麼用它。
#
# **先備知識**是第 00 課的兩件事：列向量乘矩陣，就是把矩陣的各列做線性組合；softmax 能把任意實數變成權重。
#
# **時間**約 75 分鐘：閱讀 40 分鐘，練習和選擇題 35 分鐘。
#
# 本課常提到的「講義」「文章」和「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `project_qkv` | 1 | 4 | 1 |
# | `relevance` | 1 | 3 | 1 |
# | `attend` | 2 | 5 | 2 |
# | `attention_matrix` | 2 | 5 | 2 |
# | `self_attention` | 2 | 6 | 3 |
# | `permutation_gap` | 3 | 7 | 2 |
# | 選擇題 `02_q1` | | 2 | 1 |
# | 選擇題 `02_q2` | | 3 | 1 |
# %% tags=["setup"]
import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from course_lib.plots import bars, heat_map, knob, soft_lookup, use_style

# %% [markdown] lang="en"
# ## 1. The question
#
# > The cat sat on the mat because **it** was tired.
#
# Who is tired? You knew at once, and you did not compare every word with every other to find out. Something in
# "it" asked for an animal, "cat" offered itself as one, and "mat" did not.
#
# A model has one vector for each word, and nothing else. How can the vector of "it" *ask*, how can the other
# vectors *answer*, and how does the answer get back into "it"?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# > The cat sat on the mat because **it** was tired.
#
# 誰累了？讀到這裡你早就知道，也沒有真的把每個字兩兩比過。是「it」在找一隻動物，「cat」站出來應聲，「mat」則默不作聲。
#
# 模型手上只有向量，一個字一個。那麼，「it」的向量要怎麼**發問**？其他向量要怎麼**應答**？答案又怎麼回到「it」身上？
# %% [markdown] lang="en"
# ### Token
#
# Models cut a text into **tokens**: words, pieces of words, punctuation. In this lesson each token is one word,
# so you may read "word". We write $N$ for the number of tokens.
# %% [markdown] lang="zh-TW"
# ### 詞元
#
# 模型會先把文字切成**詞元（token）**：可能是整個字、字的一段，或標點符號。這一課的詞元剛好都是一個完整的字，讀成「字」也無妨。詞元的個數記作 $N$。
# %% [markdown] lang="en"
# ## 2. The picture: a library that lends you a blend
#
# You walk into a library with a question. You do not read every book: you look at the *spines*, and take the
# *contents* of the books whose spine fits.
#
# - **query** $q$: your question;
# - **key** $k_j$: the spine of book $j$, what it can be found by;
# - **value** $v_j$: the pages of book $j$, what you take home.
#
# One thing is odd about this library. It never hands you *one* book. It hands you a blend of *all* books, each
# in proportion to how well its spine fits.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像：每本書都借你一點的圖書館
#
# 你帶著問題走進圖書館。你不會每本都讀，只會掃過**書背**，挑書背對得上的，讀它的**內容**。
#
# - **查詢（query）** $q$：你的問題；
# - **鍵（key）** $k_j$：第 $j$ 本書的書背，別人靠它找到這本書；
# - **值（value）** $v_j$：第 $j$ 本書的內容，你真正帶走的東西。
#
# 這座圖書館有個怪脾氣：它從不只借你一本，而是**每一本**都借你一點；書背愈對得上的借得愈多，最後混成一份交給你。
# %% [markdown] lang="en"
# The picture below shows one visit. The thicker the line, the more of that book ends up in the blend; the
# weights $\alpha_j$ sum to 1.
# %% [markdown] lang="zh-TW"
# 下圖就是這樣的一趟。線愈粗，那本書在答案裡占的份量愈多；權重 $\alpha_j$ 加起來等於 1。
# %%
picture = soft_lookup(
    query="who can be\ntired?",
    keys=["animals", "floors", "sleep"],
    values=["about cats", "about mats", "about naps"],
    weights=[0.67, 0.09, 0.24],
)
# %% [markdown] lang="en"
# A Python dictionary is the hard version of this: `shelf["cat"]` gives one value or an error. A hard choice has
# no useful derivative, so nothing could be learned through it. The blend has derivatives everywhere: that is why
# it is a blend.
# %% [markdown] lang="zh-TW"
# Python 的字典是「硬」的版本：`shelf["cat"]` 不是給你唯一的值，就是報錯。硬選沒有可用的導數，模型無從學起；混合則處處可微。這正是不硬選、而要混合的理由。
# %% [markdown] lang="en"
# ## 3. The formula, for one query
#
# Three steps turn the picture into linear algebra. First we need one number that says how well the question
# fits book $j$. Any sensible measure would do; the 2017 paper took the inner product, because all of them together
# are then a single matrix product. With the keys as the **rows** of $K$:
#
# $$e = qK^\top, \qquad e_j = q\cdot k_j$$
#
# - $q$: the query, shape $[d_k]$
# - $K$: the $M$ keys, one a row, shape $[M, d_k]$
# - $e$: the **scores**, shape $[M]$. A score is any real number, negative ones included.
# %% [markdown] lang="zh-TW"
# ## 3. 公式：先看一個查詢
#
# 把圖像變成線性代數，只要三步。第一步，要有一個數字說明問題跟第 $j$ 本書有多合。合理的算法不只一種；2017 年的論文選了內積，因為這樣所有數字一次矩陣乘法就算完。把鍵一個個擺成 $K$ 的**列（row）**：
#
# $$e = qK^\top, \qquad e_j = q\cdot k_j$$
#
# - $q$：查詢，形狀 $[d_k]$
# - $K$：$M$ 個鍵，一個一列，形狀 $[M, d_k]$
# - $e$：**分數**，形狀 $[M]$。分數可以是任何實數，負的也行。
# %% [markdown] lang="en"
# Scores cannot be portions yet: they may be negative, and they sum to anything. Softmax (lesson 00) makes them
# portions:
#
# $$\alpha = \mathrm{softmax}(e), \qquad \alpha_j = \frac{\exp(e_j)}{\sum_{m=1}^{M}\exp(e_m)}$$
#
# - $\alpha$: the **attention weights**, shape $[M]$; each lies between 0 and 1, together they sum to 1.
# %% [markdown] lang="zh-TW"
# 分數還不能當份量：可能是負的，加起來也不知道是多少。第二步，用第 00 課的 softmax 把它變成份量：
#
# $$\alpha = \mathrm{softmax}(e), \qquad \alpha_j = \frac{\exp(e_j)}{\sum_{m=1}^{M}\exp(e_m)}$$
#
# - $\alpha$：**注意力權重**，形狀 $[M]$；每個都在 0 與 1 之間，總和是 1。
# %% [markdown] lang="en"
# Last, pour the blend. A vector times a matrix is a combination of the matrix's rows, so the weighted sum of the
# values is one more product:
#
# $$h = \alpha V = \alpha_1 v_1 + \alpha_2 v_2 + \dots + \alpha_M v_M$$
#
# - $V$: the $M$ values, one a row, shape $[M, d_v]$
# - $h$: the answer to the query, shape $[d_v]$. Values may have another length than keys.
# %% [markdown] lang="zh-TW"
# 第三步，按份量混合。列向量乘矩陣就是各列的線性組合，所以值的加權總和，也只是再乘一次矩陣：
#
# $$h = \alpha V = \alpha_1 v_1 + \alpha_2 v_2 + \dots + \alpha_M v_M$$
#
# - $V$：$M$ 個值，一個一列，形狀 $[M, d_v]$
# - $h$：這個查詢得到的答案，形狀 $[d_v]$。值的長度不必跟鍵一樣。
# %% [markdown] lang="en"
# > **Unscaled.** The paper also divides the scores by $\sqrt{d_k}$. In *this* lesson we never do: all checks here
# > expect $\mathrm{softmax}(qK^\top)V$ as it stands. Lesson 03 brings the factor in and shows what it is for.
# %% [markdown] lang="zh-TW"
# > **這一課不縮放**。論文裡的分數還會除以 $\sqrt{d_k}$。**這一課**從頭到尾都不除，所有檢查要的都是 $\mathrm{softmax}(qK^\top)V$ 原式。第 03 課才請它出場，並說明它的用處。
# %% [markdown] lang="en"
# ### By hand
#
# Take $q=(1,\,1)$ and three keys $(2,0)$, $(0,1)$, $(1,-1)$. The scores are $1\cdot2+1\cdot0=2$, then $1$, then
# $1-1=0$.
#
# Softmax: $e^2=7.39$, $e^1=2.72$, $e^0=1$, sum $11.11$; so the weights are $0.665,\ 0.245,\ 0.090$.
#
# With values $(10,0)$, $(0,10)$, $(10,10)$ the answer is
# $0.665\,(10,0)+0.245\,(0,10)+0.090\,(10,10)=(7.55,\ 3.35)$.
# %% [markdown] lang="zh-TW"
# ### 動手算一次
#
# 取 $q=(1,\,1)$，三個鍵是 $(2,0)$、$(0,1)$、$(1,-1)$。分數依序是 $1\cdot2+1\cdot0=2$、$1$、$1-1=0$。
#
# 做 softmax：$e^2=7.39$、$e^1=2.72$、$e^0=1$，總和 $11.11$，所以權重是 $0.665,\ 0.245,\ 0.090$。
#
# 值若是 $(10,0)$、$(0,10)$、$(10,10)$，答案就是
# $0.665\,(10,0)+0.245\,(0,10)+0.090\,(10,10)=(7.55,\ 3.35)$。
# %%
q = torch.tensor([1.0, 1.0])
K = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
V = torch.tensor([[10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])

e = q @ K.T
alpha = torch.softmax(e, dim=-1)
print("scores ", e.tolist())
print("weights", [round(a, 3) for a in alpha.tolist()])
print("answer ", [round(h, 2) for h in (alpha @ V).tolist()])


# %% [markdown] lang="en"
# ## 4. Exercises
#
# Rules that hold for all six, and that the checks look at:
#
# - Tensors in, tensors out. The answer has the dtype and device of its inputs: float32 stays float32, and float64
#   is computed in float64 all the way.
# - Do not change the inputs. They may be views (non-contiguous).
# - `[..., N, d]` means any number of leading dimensions, none included. Any size may be 1, and its axis stays.
# - Best not to call your other answers: if one is wrong, both lose points.
# - `torch.softmax` is allowed from here on. Ready-made attention is not, nor is `course_lib`.
#
# Stuck? Run `hint("attend")` in a cell of your own.
# %% [markdown] lang="zh-TW"
# ## 4. 練習
#
# 下面的規則六題通用，檢查時也都會看：
#
# - 收張量、回傳張量。答案的 dtype 與裝置跟輸入相同：float32 還是 float32，float64 就全程用 float64 算。
# - 不可更改輸入。輸入可能是 view（記憶體不連續）。
# - `[..., N, d]` 表示前面可以有任意多個維度，也可以沒有。任何大小都可能是 1，那個軸也要留著。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。
# - 從這一課起可以用 `torch.softmax`；現成的注意力與 `course_lib` 不行。
#
# 卡住了嗎？自己開一個儲存格，執行 `hint("attend")`。
# %% [markdown] lang="en"
# ### Exercise `project_qkv` · difficulty 1 of 5 · 4 minutes · 1 point
#
# Every token plays all three parts: it asks, it is found, and it gives. One vector cannot be good at all of
# them, so each part gets a learned matrix of its own.
#
# **Small first.** Let $x=(1,\,2)$ and let $W_Q$ have the rows $(1,0)$ and $(1,1)$. Then
# $xW_Q = 1\,(1,0)+2\,(1,1)=(3,\,2)$: the entries of $x$ weigh the rows of $W_Q$.
# %% [markdown] lang="zh-TW"
# ### 練習 `project_qkv` · 難度 1／5 · 4 分鐘 · 滿分 1 分
#
# 每個詞元都身兼三職：發問、被找到、給內容。一個向量很難三樣都做好，所以每個職務各配一個學來的矩陣。
#
# **先看小例子**：設 $x=(1,\,2)$，$W_Q$ 的兩列是 $(1,0)$ 與 $(1,1)$，則 $xW_Q = 1\,(1,0)+2\,(1,1)=(3,\,2)$：$x$ 的分量，就是 $W_Q$ 各列的權重。
# %% [markdown] lang="en"
# **In general**, stack the $N$ token vectors as the rows of $X$, and all of them are projected at once:
#
# $$Q = XW_Q, \qquad K = XW_K, \qquad V = XW_V$$
#
# - $X$: $[\dots, N, d_\text{model}]$, one token a row
# - $W_Q, W_K$: $[d_\text{model}, d_k]$, the same $d_k$, since queries and keys meet in an inner product
# - $W_V$: $[d_\text{model}, d_v]$; $d_v$ may differ from $d_k$
#
# > **Mind the transpose.** `nn.Linear` computes the same $xW$ but *stores* $W^\top$, as
# > `[out_features, in_features]`. In this course you get the bare matrix and write `X @ W_Q`.
# %% [markdown] lang="zh-TW"
# **一般情形**：把 $N$ 個詞元的向量擺成 $X$ 的列，一次全部投影：
#
# $$Q = XW_Q, \qquad K = XW_K, \qquad V = XW_V$$
#
# - $X$：$[\dots, N, d_\text{model}]$，一個詞元一列
# - $W_Q, W_K$：$[d_\text{model}, d_k]$，兩者的 $d_k$ 必須相同，因為查詢與鍵要做內積
# - $W_V$：$[d_\text{model}, d_v]$；$d_v$ 可以跟 $d_k$ 不同
#
# > **當心轉置**：`nn.Linear` 算的也是 $xW$，但它**存**的是 $W^\top$，形狀是 `[out_features, in_features]`。本課程直接給你矩陣，照公式寫 `X @ W_Q` 就對了。
# %% exercise="project_qkv"
def project_qkv(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make a query, a key and a value of every row of X: Q = X W_Q, K = X W_K, V = X W_V.

    Args:
        X: token vectors, one a row, [..., N, d_model].
        W_Q: weights of the queries, [d_model, d_k].
        W_K: weights of the keys, [d_model, d_k].
        W_V: weights of the values, [d_model, d_v].

    Returns:
        The tuple (Q, K, V), of shapes [..., N, d_k], [..., N, d_k] and [..., N, d_v].

    Judged: values, shapes and order of the three; X with and without leading
    dimensions; d_v different from d_k, and all sizes equal (square weights); float32
    and float64; gradients for all four arguments; inputs left unchanged, contiguous or
    not.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    return X @ W_Q, X @ W_K, X @ W_V
    ### END SOLUTION


# %%
check("project_qkv", project_qkv)
# %% [markdown] lang="en"
# Two things to see in the next cell: the shapes when $d_v \ne d_k$, and `nn.Linear` with its transpose.
# %% [markdown] lang="zh-TW"
# 下一個儲存格要看兩件事：$d_v \ne d_k$ 時的形狀，以及 `nn.Linear` 的轉置。
# %%
project = use("project_qkv", project_qkv)

generator = torch.Generator().manual_seed(2)
X = torch.randn(6, 8, generator=generator)  # N = 6 tokens, d_model = 8
linear = torch.nn.Linear(8, 3, bias=False)  # d_k = 3
W_K, W_V = torch.randn(8, 3, generator=generator), torch.randn(8, 5, generator=generator)
Q, K, V = project(X, linear.weight.T, W_K, W_V)
print("Q", list(Q.shape), " K", list(K.shape), " V", list(V.shape))
same = torch.allclose(linear(X), Q, atol=1e-6)
print("nn.Linear stores", list(linear.weight.shape), "and computes the same:", same)


# %% [markdown] lang="en"
# ### Exercise `relevance` · difficulty 1 of 5 · 3 minutes · 1 point
#
# Now the question meets the spines. We want one raw score for each key.
#
# **Small first.** With $q=(1,1)$ and keys $(2,0)$, $(0,1)$, $(1,-1)$ the scores were $2, 1, 0$.
#
# **In general** $e = qK^\top$: entry $j$ is the inner product of $q$ with row $j$ of $K$. No scaling, no softmax:
# just the products.
# %% [markdown] lang="zh-TW"
# ### 練習 `relevance` · 難度 1／5 · 3 分鐘 · 滿分 1 分
#
# 問題要跟書背碰面了。每個鍵都要有一個原始分數。
#
# **先看小例子**：$q=(1,1)$，鍵是 $(2,0)$、$(0,1)$、$(1,-1)$，分數就是 $2, 1, 0$。
#
# **一般情形**：$e = qK^\top$，第 $j$ 個分量是 $q$ 與 $K$ 第 $j$ 列的內積。不縮放、不做 softmax，只要內積。
# %% exercise="relevance"
def relevance(q: Tensor, K: Tensor) -> Tensor:
    """Score one query against every key: e = q Kᵀ.

    Args:
        q: the query, [d_k].
        K: the keys, one a row, [M, d_k].

    Returns:
        The scores e, [M]: e[j] is the inner product of q and K[j]. Raw: no scale, no softmax.

    Judged: values and shape [M], a single key (M = 1) included; M different from d_k, and
    equal to it; long and short vectors; float32 and float64; gradients for q and K; inputs left unchanged,
    contiguous or not.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    return q @ K.T
    ### END SOLUTION


# %%
check("relevance", relevance)
# %% [markdown] lang="en"
# **Alike, or long?** One often reads "the more alike $q$ and $k$, the larger their product". Since
# $q\cdot k=\lVert q\rVert\,\lVert k\rVert\cos\theta$, the *lengths* count as well. Which of these two keys does the query
# $(0.1,\ 0.1)$ prefer: its own twin, or a long vector 45° away?
# %% [markdown] lang="zh-TW"
# **比較像，還是比較長？** 常聽人說「$q$ 與 $k$ 愈像，內積愈大」。但 $q\cdot k=\lVert q\rVert\,\lVert k\rVert\cos\theta$，**長度**也算在內。查詢 $(0.1,\ 0.1)$ 會偏愛哪一個鍵：跟它一模一樣的，還是差了 45° 的長向量？
# %%
score = use("relevance", relevance)

q = torch.tensor([0.1, 0.1])
K = torch.tensor([[0.1, 0.1], [10.0, 0.0]])
angle = torch.rad2deg(torch.acos(torch.cosine_similarity(q[None], K).clamp(-1, 1)))
for name, degrees, e_j in zip(("twin", "long"), angle.tolist(), score(q, K).tolist()):
    print(f"{name}: angle {degrees:2.0f}°, score {e_j:.2f}")


# %% [markdown] lang="en"
# The long key wins, 1.00 to 0.02. A model uses this freedom: a key can shout (long) or whisper (short), whatever
# its direction.
# %% [markdown] lang="zh-TW"
# 長的贏了，1.00 比 0.02。模型會善用這份自由：不論方向如何，鍵都可以大聲（長）或小聲（短）。
# %% [markdown] lang="en"
# ### Exercise `attend` · difficulty 2 of 5 · 5 minutes · 2 points
#
# Score, turn into portions, pour: the whole visit to the library in one function.
#
# **Small first.** Scores $2, 1, 0$ gave weights $0.665, 0.245, 0.090$ and, with values $(10,0)$, $(0,10)$,
# $(10,10)$, the answer $(7.55,\ 3.35)$. All three books are in it; the best one did not take all.
#
# **In general** $h=\mathrm{softmax}(qK^\top)\,V$.
# %% [markdown] lang="zh-TW"
# ### 練習 `attend` · 難度 2／5 · 5 分鐘 · 滿分 2 分
#
# 打分數、換成份量、再混合：一趟圖書館之旅，寫成一個函式。
#
# **先看小例子**：分數 $2, 1, 0$ 給出權重 $0.665, 0.245, 0.090$；值是 $(10,0)$、$(0,10)$、$(10,10)$，答案是 $(7.55,\ 3.35)$。三本書都有份，最合的那本也沒有整碗端走。
#
# **一般情形**：$h=\mathrm{softmax}(qK^\top)\,V$。
# %% exercise="attend"
def attend(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Ask one query and bring back the blend of the values: h = softmax(q Kᵀ) V.

    Args:
        q: the query, [d_k].
        K: the keys, one a row, [M, d_k].
        V: the values, one a row, [M, d_v].

    Returns:
        The answer h, [d_v]. Unscaled: nothing is divided by √d_k in this lesson.

    Judged: values and shape [d_v]; d_v different from d_k, and equal to it; scores
    close together, scores far from 0 (beyond ±100, where exp alone overflows or is 0),
    and scores of −200 and +200 side by side; float32 and float64; gradients for q, K
    and V; inputs left unchanged, contiguous or not.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    weights = torch.softmax(q @ K.T, dim=-1)
    return weights @ V
    ### END SOLUTION


# %%
check("attend", attend)
# %% [markdown] lang="en"
# **Turn the query yourself.** Three keys in the plane, and one query that you turn and stretch. The bars are its
# weights. Watch two things: direction decides *who* wins, length decides *by how much*. At length 0 the query
# asks nothing, and everyone gets a third.
#
# (A trick in the code: with the identity matrix for $V$, the answer $\alpha V$ *is* the weights.)
# %% [markdown] lang="zh-TW"
# **換你轉轉看**：平面上有三個鍵，查詢由你來轉、由你來拉長，長條是它的權重。看兩件事：方向決定**誰**贏，長度決定**贏多少**。長度是 0 時等於什麼都沒問，大家各分三分之一。
#
# （程式裡有個小技巧：$V$ 取單位矩陣，答案 $\alpha V$ **就是**權重本身。）
# %%
ask = use("attend", attend)
three_keys = torch.tensor([[1.5, 0.0], [-0.5, 1.2], [-0.6, -1.2]])


def draw_arrow(ax, tip: list[float], color: str, width: float) -> None:
    ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": color, "lw": width})


def turn_query(angle: float, length: float) -> None:
    use_style()
    radians = math.radians(angle)
    query = length * torch.tensor([math.cos(radians), math.sin(radians)])
    weights = ask(query, three_keys, torch.eye(3))
    _, (plane, chart) = plt.subplots(1, 2, figsize=(6.4, 3.0))
    for j, key in enumerate(three_keys.tolist()):
        draw_arrow(plane, key, f"C{j}", 2)
        plane.text(1.2 * key[0], 1.2 * key[1], f"$k_{j + 1}$", color=f"C{j}", ha="center", va="center")
        bar = chart.bar(f"$k_{j + 1}$", weights[j].item(), color=f"C{j}")
        chart.bar_label(bar, fmt="%.2f")
    draw_arrow(plane, query.tolist(), "black", 3)
    plane.set(xlim=(-2.4, 2.4), ylim=(-2.4, 2.4), aspect="equal", title="keys; query in black")
    chart.set(ylim=(0, 1.1), ylabel="weight", title=f"angle {angle:.0f}°, length {length:.1f}")


knob(turn_query, angle=(0, 360, 15, 45), length=(0.0, 2.0, 0.25, 1.5))
# %% [markdown] lang="en"
# **The article's own numbers.** For "it" the article gives the scores 8.2 (cat), 1.1 (mat) and 0.3 (the). These
# are scores, not weights: 8.2 is far above 1. What does softmax make of them?
# %% [markdown] lang="zh-TW"
# **用文章自己的數字**：文章替「it」列出三個分數：cat 8.2、mat 1.1、the 0.3。這些是分數，不是權重：8.2 遠大於 1。softmax 會把它們變成什麼？
# %%
scores = torch.tensor([8.2, 1.1, 0.3], dtype=torch.float64)
for name, weight in zip(("cat", "mat", "the"), torch.softmax(scores, dim=-1).tolist()):
    print(f"{name}: {weight:.4f}")


# %% [markdown] lang="en"
# "cat" takes 0.9988, not the 0.85 that the article prints: this winner takes nearly all. Where a 0.85 could come
# from, and why scores of this size are a problem, is the subject of lesson 03.
# %% [markdown] lang="zh-TW"
# 「cat」拿走 0.9988，不是文章印的 0.85：贏者幾乎通吃。0.85 要怎麼來、分數太大為什麼麻煩，正是第 03 課的主題。
# %% [markdown] lang="en"
# ### Exercise `attention_matrix` · difficulty 2 of 5 · 5 minutes · 2 points
#
# One visitor is not enough: every token has its question. Stack the $N$ queries as the rows of $Q$, and the
# scores of all against all are one product.
#
# **Small first.** Queries $(1,1)$ and $(0,0)$, keys $(2,0)$, $(0,1)$, $(1,-1)$. Row 1 is the old one:
# $0.665, 0.245, 0.090$. The second query asks nothing, its scores are $0,0,0$, and its row is
# $\tfrac13,\tfrac13,\tfrac13$. Each **row** sums to 1. The columns do not: $0.998$, $0.578$, $0.423$.
# %% [markdown] lang="zh-TW"
# ### 練習 `attention_matrix` · 難度 2／5 · 5 分鐘 · 滿分 2 分
#
# 訪客不只一位：每個詞元都有自己的問題。把 $N$ 個查詢擺成 $Q$ 的列，所有人對所有書的分數，一次乘完。
#
# **先看小例子**：查詢是 $(1,1)$ 與 $(0,0)$，鍵是 $(2,0)$、$(0,1)$、$(1,-1)$。第一列就是剛才的 $0.665, 0.245, 0.090$；第二個查詢什麼都沒問，分數是 $0,0,0$，那一列是 $\tfrac13,\tfrac13,\tfrac13$。每一**列**的和是 1；各**行**（column）則不然：$0.998$、$0.578$、$0.423$。
# %% [markdown] lang="en"
# **In general**
#
# $$A = \mathrm{softmax}(QK^\top), \qquad A_{nm} = \frac{\exp(q_n\cdot k_m)}{\sum_{j=1}^{M}\exp(q_n\cdot k_j)}$$
#
# - $Q$: $[\dots, N, d_k]$, $K$: $[\dots, M, d_k]$, $A$: $[\dots, N, M]$
# - row $n$ belongs to query $n$; the softmax runs along the row, over the **keys**.
# %% [markdown] lang="zh-TW"
# **一般情形**
#
# $$A = \mathrm{softmax}(QK^\top), \qquad A_{nm} = \frac{\exp(q_n\cdot k_m)}{\sum_{j=1}^{M}\exp(q_n\cdot k_j)}$$
#
# - $Q$：$[\dots, N, d_k]$，$K$：$[\dots, M, d_k]$，$A$：$[\dots, N, M]$
# - 第 $n$ 列屬於第 $n$ 個查詢；softmax 沿著列做，也就是對**鍵**做。
# %% exercise="attention_matrix"
def attention_matrix(Q: Tensor, K: Tensor) -> Tensor:
    """Weights of every query over the keys: A = softmax(Q Kᵀ), each row summing to 1.

    Args:
        Q: the queries, one a row, [..., N, d_k].
        K: the keys, one a row, [..., M, d_k]; its leading dimensions are those of Q.

    Returns:
        The attention matrix A, [..., N, M]: row n holds the weights of query n over the M keys.
        Unscaled: nothing is divided by √d_k in this lesson.

    Judged: values and shape; 2-D, 3-D and 4-D inputs; N different from M, and equal to
    it; scores far from 0, in one row up to 400 apart; float32 and float64; gradients
    for Q and K; inputs left unchanged, contiguous or not.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    scores = Q @ K.transpose(-2, -1)  # not K.T: only the last two axes change places
    return torch.softmax(scores, dim=-1)
    ### END SOLUTION


# %%
check("attention_matrix", attention_matrix)
# %% [markdown] lang="en"
# ## 5. Read a matrix: the article's six words
#
# The article prints such a matrix for "The cat sat on the mat". Read it row by row: the row of "sat" says where
# "sat" looks. It gives 0.5 to "cat": who sat? The cat.
# %% [markdown] lang="zh-TW"
# ## 5. 讀一張矩陣：文章裡的六個字
#
# 文章替「The cat sat on the mat」印了這樣一張矩陣。請一列一列讀：「sat」那一列，說的是「sat」往哪裡看。它把 0.5 給了「cat」：誰坐著？貓。
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
    ],
    dtype=torch.float64,
)
ax = heat_map(printed, words, words, "The printed matrix: who looks where")
# %% [markdown] lang="en"
# Before you believe a matrix, do the sums: along each row (over the keys), down each column (over the queries),
# and above the diagonal, where a word looks at words that come *later*.
# %% [markdown] lang="zh-TW"
# 相信一張矩陣之前，先加加看：沿著每一列加（對鍵）、沿著每一行加（對查詢），再看對角線上方，也就是看向**後面**的字，共有多少。
# %%
ahead = torch.triu(printed, diagonal=1)
print("row sums     ", [round(s, 1) for s in printed.sum(dim=1).tolist()])
print("column sums  ", [round(s, 1) for s in printed.sum(dim=0).tolist()])
print(f"looking ahead {ahead.sum():.1f} of {printed.sum():.1f}; 'The' gives 'mat' {printed[0, 5]:.1f}")
print(f"not symmetric: sat→cat {printed[2, 1]}, cat→sat {printed[1, 2]}")
# %% [markdown] lang="en"
# **Rows sum to 1, columns do not.** A row is one reader's attention: a whole, shared out. A column is what one
# word *receives*, and "mat" receives 1.6 while "The" gets 0.6. Nothing is conserved downwards.
#
# Careful in Chinese texts: in Taiwan 列 is a row and 行 a column; in mainland China the reverse. One of the Chinese
# articles says that softmax runs on each 行. Read as in Taiwan, the columns would sum to 1; it means the rows.
# %% [markdown] lang="zh-TW"
# **列的和是 1，行的和不是**。一列是一位讀者的注意力：總量固定，分給大家。一行則是某個字**收到**的份量：「mat」收到 1.6，「The」只有 0.6。直的方向沒有守恆這回事。
#
# 臺灣的說法是先列後行：列 = row、行 = column。有一篇文章寫 softmax 作用在每一「行」，照字面讀，就成了各行的和是 1；它要說的其實是「列」。
# %% [markdown] lang="en"
# **It looks ahead.** 2.6 of its 6 units lie above the diagonal: "The", the first word, already looks at "mat",
# the last. The story around the matrix is about choosing the *next* word. A model that does so has not read the
# later words yet, so this cannot be its matrix. It can only belong to an **encoder**, which reads the whole
# sentence at once.
# %% [markdown] lang="zh-TW"
# **它看得到後面**。總量 6 之中有 2.6 落在對角線上方：第一個字「The」已經在看最後的「mat」。文章講的卻是怎麼挑**下一個**字；這種模型還沒讀到後面，不可能有這樣的矩陣。它只能屬於**編碼器**，也就是一次讀完整句的模型。
# %% [markdown] lang="en"
# What would be left for a next-word model? Set everything above the diagonal to 0 and share each row out anew.
# Lesson 07 does this properly, with a mask *before* the softmax.
# %% [markdown] lang="zh-TW"
# 換成猜下一個字的模型，還剩下什麼？把對角線上方全設為 0，每一列重新分配。第 07 課會用正式的做法：在 softmax **之前**加遮罩。
# %%
past_only = torch.tril(printed)
past_only = past_only / past_only.sum(dim=1, keepdim=True)
ax = heat_map(past_only, words, words, "The same, made causal: only the past")


# %% [markdown] lang="en"
# The first row becomes $(1,0,0,0,0,0)$: the first word has no one but itself to look at.
# %% [markdown] lang="zh-TW"
# 第一列變成 $(1,0,0,0,0,0)$：第一個字除了自己，沒有別人可看。
# %% [markdown] lang="en"
# ### Exercise `self_attention` · difficulty 2 of 5 · 6 minutes · 3 points
#
# Now the tokens ask *each other*: queries, keys and values are all made from the same $X$. That is all that
# "self" means.
#
# **Small first.** Two tokens $x_1=(1,0)$, $x_2=(0,1)$; $W_Q$ has the rows $(0,1)$ and $(1,0)$ and so swaps the
# two coordinates; $W_K=W_V=I$. Then $q_1=(0,1)$, which is just $k_2$: token 1 looks for token 2. Its scores are
# $0, 1$, its weights $0.27, 0.73$, and its new vector is $h_1=0.27\,x_1+0.73\,x_2=(0.27,\ 0.73)$.
# %% [markdown] lang="zh-TW"
# ### 練習 `self_attention` · 難度 2／5 · 6 分鐘 · 滿分 3 分
#
# 現在讓詞元**互相**發問：查詢、鍵、值都由同一個 $X$ 做出來。「自注意力」的「自」，就只是這個意思。
#
# **先看小例子**：兩個詞元 $x_1=(1,0)$、$x_2=(0,1)$；$W_Q$ 的兩列是 $(0,1)$ 與 $(1,0)$，也就是把兩個座標對調；$W_K=W_V=I$。於是 $q_1=(0,1)$，剛好等於 $k_2$：詞元 1 在找詞元 2。它的分數是 $0, 1$，權重 $0.27, 0.73$，新的向量 $h_1=0.27\,x_1+0.73\,x_2=(0.27,\ 0.73)$。
# %% [markdown] lang="en"
# **In general**
#
# $$H = \mathrm{softmax}(QK^\top)\,V, \qquad Q=XW_Q,\ K=XW_K,\ V=XW_V$$
#
# - $X$: $[\dots, N, d_\text{model}]$, $H$: $[\dots, N, d_v]$: as many vectors come out as go in.
# - Row $n$ of $H$ answers the question of token $n$. Every token is scored against all $N$, itself included.
# %% [markdown] lang="zh-TW"
# **一般情形**
#
# $$H = \mathrm{softmax}(QK^\top)\,V, \qquad Q=XW_Q,\ K=XW_K,\ V=XW_V$$
#
# - $X$：$[\dots, N, d_\text{model}]$，$H$：$[\dots, N, d_v]$；進去幾個向量，出來就是幾個。
# - $H$ 的第 $n$ 列回答詞元 $n$ 的問題。每個詞元都對全部 $N$ 個打分數，包括自己。
# %% exercise="self_attention"
def self_attention(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    """Let every token ask all tokens: softmax(Q Kᵀ) V with Q = X W_Q, K = X W_K, V = X W_V.

    Args:
        X: token vectors, one a row, [..., N, d_model].
        W_Q: weights of the queries, [d_model, d_k].
        W_K: weights of the keys, [d_model, d_k].
        W_V: weights of the values, [d_model, d_v].

    Returns:
        The new vectors, [..., N, d_v]: row n answers token n. Unscaled, and nothing of X is added.

    Judged: values and shape; X with and without leading dimensions; d_v different from
    d_model, and equal to it; scores far from 0, in one row up to 400 apart; float32 and
    float64; gradients for all four arguments; inputs left unchanged, contiguous or not.
    Best not to call your other answers: if one is wrong, both lose points.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    weights = torch.softmax(Q @ K.transpose(-2, -1), dim=-1)
    return weights @ V
    ### END SOLUTION


# %%
check("self_attention", self_attention)
# %% [markdown] lang="en"
# **All of it in one picture.** A toy sentence with made-up vectors: the scores $QK^\top$ on the left (any numbers,
# and not symmetric), the weights in the middle (rows sum to 1), the answers on the right.
# %% [markdown] lang="zh-TW"
# **一張圖看完**：句子是玩具，向量是隨手造的：左邊是分數 $QK^\top$（什麼數都有，也不對稱），中間是權重（每列的和是 1），右邊是答案。
# %%
weigh = use("attention_matrix", attention_matrix)
attend_all = use("self_attention", self_attention)

generator = torch.Generator().manual_seed(3)
sentence = ["the", "cat", "sat", "on", "the", "mat"]
vocabulary = {word: torch.randn(4, generator=generator) for word in sorted(set(sentence))}
X = torch.stack([vocabulary[word] for word in sentence])  # [6, 4]: one vector for both "the"
W_Q, W_K = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
W_V = torch.randn(4, 2, generator=generator)
Q, K, V = project(X, W_Q, W_K, W_V)

use_style()
_, panels = plt.subplots(1, 3, figsize=(6.4, 2.9), width_ratios=(6, 6, 2.6))
H = attend_all(X, W_Q, W_K, W_V)
for ax, matrix, title in zip(panels, (Q @ K.T, weigh(Q, K), H), ("scores", "weights", "H")):
    keys = ["1", "2"] if title == "H" else sentence
    heat_map(matrix, sentence, keys, title, ax=ax, values=False)
    ax.set(xlabel="" if title == "H" else "key", ylabel="query" if title == "scores" else "")
for ax in panels[1:]:
    ax.set(yticks=[])
# %% [markdown] lang="en"
# Three facts about this toy, in numbers: the scores are not symmetric (asking is not being asked), the two "the"
# get *the same* row, and PyTorch's own attention agrees once its scale is set to 1.
# %% [markdown] lang="zh-TW"
# 再用數字說三件事：分數不對稱（發問和被問是兩回事）；兩個「the」得到**同樣**的一列；把 PyTorch 內建注意力的縮放設成 1，結果跟我們的一致。
# %%
S = Q @ K.T
print(f"score cat→sat {S[1, 2]:.2f}, sat→cat {S[2, 1]:.2f}; cat→cat {S[1, 1]:.2f}")
print(f"rows of the two 'the' differ by {(weigh(Q, K)[0] - weigh(Q, K)[4]).abs().max():.1e}")

built_in = torch.nn.functional.scaled_dot_product_attention
theirs = built_in(Q[None], K[None], V[None], scale=1.0)[0]
print(f"largest difference from PyTorch {(theirs - H).abs().max():.1e}")


# %% [markdown] lang="en"
# The two equal rows tell us something about the printed matrix: there "The" and "the" have *different* rows. A
# model that does not see capitals could not tell them apart by content alone; it must also know **where** they
# stand. So far, ours does not.
# %% [markdown] lang="zh-TW"
# 兩列相同這件事，讓我們回頭看印出來的矩陣：那裡的「The」與「the」是**不同**的兩列。不分大小寫的模型光看內容分不出這兩個字，它一定還知道字**站在哪裡**。我們的模型到目前為止並不知道。
# %% [markdown] lang="en"
# ### Exercise `permutation_gap` · difficulty 3 of 5 · 7 minutes · 2 points
#
# Does a function care about order? Shuffle the rows before it, or shuffle them after it: if it does not care, the
# two ways meet.
#
# **Small first.** $X=(1,\,2,\,4)^\top$ and `perm = [2, 0, 1]`, so `X[perm]` is $(4,1,2)^\top$. Take
# $f(X)=X+(0,10,20)^\top$, which adds something by place. Shuffled before: $f(X[\text{perm}])=(4,11,22)^\top$.
# Shuffled after: $f(X)=(1,12,24)^\top$, so $f(X)[\text{perm}]=(24,1,12)^\top$. The differences are $-20, 10, 10$: the gap is
# $20$. For $f(X)=10X$ it is $0$.
# %% [markdown] lang="zh-TW"
# ### 練習 `permutation_gap` · 難度 3／5 · 7 分鐘 · 滿分 2 分
#
# 一個函數在不在乎順序？先把各列打亂再送進去，或先算完再用同樣的方式打亂：不在乎的話，兩條路會走到同一處。
#
# **先看小例子**：$X=(1,\,2,\,4)^\top$，`perm = [2, 0, 1]`，所以 `X[perm]` 是 $(4,1,2)^\top$。取 $f(X)=X+(0,10,20)^\top$，也就是按位置加數字。先打亂：$f(X[\text{perm}])=(4,11,22)^\top$。後打亂：$f(X)=(1,12,24)^\top$，$f(X)[\text{perm}]=(24,1,12)^\top$。差是 $-20, 10, 10$，差距取 $20$。若 $f(X)=10X$，差距是 $0$。
# %% [markdown] lang="en"
# **In general**
#
# $$\text{gap} = \max_{n,j}\ \bigl|\, f(X[\text{perm}])_{nj} - f(X)[\text{perm}]_{nj} \,\bigr|$$
#
# - `f` takes $[N, d]$ and gives $[N, d_\text{out}]$; `perm` is a LongTensor $[N]$ holding each of $0,\dots,N-1$ once;
#   `X[perm]` takes the rows in that order.
# - The gap is 0 (up to rounding) if shuffling the tokens only shuffles the answers.
# - Gradients are not judged.
# %% [markdown] lang="zh-TW"
# **一般情形**
#
# $$\text{gap} = \max_{n,j}\ \bigl|\, f(X[\text{perm}])_{nj} - f(X)[\text{perm}]_{nj} \,\bigr|$$
#
# - `f` 收 $[N, d]$、回傳 $[N, d_\text{out}]$；`perm` 是 LongTensor $[N]$，$0,\dots,N-1$ 各出現一次；`X[perm]` 依這個順序取出各列。
# - 打亂詞元如果只是把答案跟著打亂，差距就是 0（捨入誤差不計）。
# - 不看梯度。
# %% exercise="permutation_gap"
def permutation_gap(f: Callable[[Tensor], Tensor], X: Tensor, perm: Tensor) -> Tensor:
    """How far f is from "shuffle in, shuffled out": the largest |f(X[perm]) − f(X)[perm]|.

    Args:
        f: maps [N, d] to [N, d_out].
        X: rows to be shuffled, [N, d].
        perm: a permutation of 0 … N−1, LongTensor [N].

    Returns:
        The gap, a 0-d tensor (not a Python number), never negative.

    Judged: values, shape [] and dtype; functions that do not care about order (gap 0 up
    to rounding) and functions that do (they add or multiply by place; the largest gap
    may be in any row and of either sign); permutations that are not their own inverse;
    N, d and d_out different, and all equal; X contiguous or not; float32 and float64; X
    and perm left unchanged. Gradients are not judged.

    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention,
    F.multi_head_attention_forward, course_lib.
    """
    ### BEGIN SOLUTION
    return (f(X[perm]) - f(X)[perm]).abs().max()
    ### END SOLUTION


# %%
check("permutation_gap", permutation_gap)
# %% [markdown] lang="en"
# **Turn the sentence round.** For attention, is "the cat sat on the mat" the same as "mat the on sat cat the"? We
# measure three things: the gap, the difference of the two outputs as they stand, and the difference of their
# averages. Then we add a number to each row by its place, and measure the gap again.
# %% [markdown] lang="zh-TW"
# **把句子倒過來**：對注意力來說，「the cat sat on the mat」與「mat the on sat cat the」一樣嗎？量三樣：差距、兩份輸出直接相減、兩份輸出的平均相減。然後按位置在每一列加一點數字，再量一次差距。
# %%
gap = use("permutation_gap", permutation_gap)

X64, W64 = X.double(), [W.double() for W in (W_Q, W_K, W_V)]
backwards = torch.arange(len(sentence) - 1, -1, -1)


def no_positions(rows: Tensor) -> Tensor:
    return attend_all(rows, *W64)


def with_positions(rows: Tensor) -> Tensor:
    place = torch.arange(rows.shape[0], dtype=rows.dtype)[:, None]
    return attend_all(rows + 0.3 * place, *W64)


there, back = no_positions(X64), no_positions(X64[backwards])
print(f"gap without positions       {gap(no_positions, X64, backwards):.1e}")
print(f"outputs as they stand       {(there - back).abs().max():.2f}")
print(f"averages of the outputs     {(there.mean(0) - back.mean(0)).abs().max():.1e}")
print(f"gap with a number for place {gap(with_positions, X64, backwards):.2f}")
# %% [markdown] lang="en"
# So self-attention sees a *bag* of tokens. Shuffle them, and the same answers come out, shuffled. As matrices the
# two outputs differ, since each answer sits with its token; anything that averages them cannot notice. Word order
# has to be put into $X$: lesson 05 does so with clocks.
# %% [markdown] lang="zh-TW"
# 可見自注意力眼中只有一**袋**詞元。打亂它們，出來的還是那些答案，只是跟著打亂。兩份輸出當作矩陣並不相等，因為答案跟著詞元走；但只要取平均，就看不出差別。語序必須另外放進 $X$：第 05 課會用時鐘來做。
# %% [markdown] lang="en"
# ## 6. The same on a real model
#
# MiniLM is a small encoder: 6 layers, 12 heads in each (a head is one such attention with its own matrices;
# lesson 04). It was trained on real text, and reads the whole sentence at once.
#
# > Its scores **are** scaled: $\mathrm{softmax}(QK^\top/\sqrt{32})$ with $d_k = 32$. For reading its matrices this
# > makes no difference.
#
# If the weights are not on this machine, the next cell prints how to get them, and the lesson goes on without.
# %% [markdown] lang="zh-TW"
# ## 6. 換成真的模型
#
# MiniLM 是個小型編碼器：6 層，每層 12 個頭（一個頭就是一組有自己矩陣的注意力，見第 04 課）。它用真實文字訓練過，一次讀完整句。
#
# > 它的分數**有**縮放：$\mathrm{softmax}(QK^\top/\sqrt{32})$，$d_k = 32$。讀它的矩陣時，這點沒有影響。
#
# 這臺電腦上若沒有它的權重，下一個儲存格會印出取得的方法；課程照樣可以往下走。
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, encode, load_minilm

try:
    tokenizer, model = load_minilm()
except CheckpointMissing as missing:
    model = None
    print(missing)
# %% [markdown] lang="en"
# Layer 6, head 12 is the one to look at (we searched; layers and heads are counted from 1). Find the row of "it".
# `[CLS]` and `[SEP]` are marks that the model puts around every sentence.
# %% [markdown] lang="zh-TW"
# 值得看的是第 6 層第 12 個頭（我們找過了；層與頭都從 1 數起）。請找「it」那一列。`[CLS]` 與 `[SEP]` 是模型加在每句頭尾的記號。
# %% tags=["experiment"]
LAYER, HEAD = 6, 12

if model is not None:
    tired = encode(tokenizer, model, "The cat sat on the mat because it was tired.")
    A = tired.attention[LAYER - 1, HEAD - 1]  # [13, 13]
    ax = heat_map(A, tired.tokens, tired.tokens, f"MiniLM, layer {LAYER}, head {HEAD}")
    it, cat, mat = (tired.tokens.index(word) for word in ("it", "cat", "mat"))
    print(f"it→cat {A[it, cat]:.2f}, it→mat {A[it, mat]:.2f}")
# %% [markdown] lang="en"
# **Is this really your formula?** Take out the queries and keys that this head has just computed, and give them to
# *your* `attention_matrix`. The scale goes into the queries beforehand: $(q/\sqrt{32})\cdot k = (q\cdot k)/\sqrt{32}$.
# %% [markdown] lang="zh-TW"
# **這真的就是你寫的公式嗎？** 把這個頭剛算好的查詢與鍵取出來，交給**你的** `attention_matrix`。縮放先併進查詢裡：$(q/\sqrt{32})\cdot k = (q\cdot k)/\sqrt{32}$。
# %% tags=["experiment"]
if model is not None:
    attention = model.encoder.layers[LAYER - 1].attention
    seen_by = {}  # what each of the two projections puts out: [1, 13, 384]
    hooks = [
        part.register_forward_hook(lambda part, _, output: seen_by.update({part: output.detach()}))
        for part in (attention.w_q, attention.w_k)
    ]
    encode(tokenizer, model, "The cat sat on the mat because it was tired.")
    for hook in hooks:
        hook.remove()

    d_k = 32
    columns = slice((HEAD - 1) * d_k, HEAD * d_k)  # head 12 owns the last 32 of the 384 columns
    Q, K = (seen_by[part][0, :, columns] for part in (attention.w_q, attention.w_k))
    yours = weigh(Q / math.sqrt(d_k), K)
    print(f"it→cat by attention_matrix: {yours[it, cat]:.2f}")
    print(f"largest difference from the model's own matrix: {(yours - A).abs().max():.0e}")
# %% [markdown] lang="en"
# 0.71 of the weight of "it" goes to "cat". It is tempting to say: the model has *understood* the word. A single
# number that fits a story proves little. What should happen if the story is true?
# %% [markdown] lang="zh-TW"
# 「it」把 0.71 的權重給了「cat」。看到這裡很想說：模型**懂了**。不過，一個剛好符合故事的數字證明不了什麼。故事如果是真的，還應該看到什麼？
# %% [markdown] lang="en"
# ### The counter-test
#
# The story says that "tired" is the clue. So change the clue:
#
# - **soft** for "tired": now "it" is the *mat*. The weight should move.
# - **cut off** after "it": there is no clue at all yet. This is what a next-word model would have at that point.
# - **swapped**: "The mat lay under the cat because it was tired."
#
# Guess the four pairs of bars before you run the cell.
# %% [markdown] lang="zh-TW"
# ### 反過來驗證
#
# 故事說線索是「tired」，那就動動線索：
#
# - **soft**：把「tired」換成「soft」，這時「it」是**墊子**，權重應該跟著移動。
# - **cut off**：句子停在「it」，線索還沒出現。猜下一個字的模型走到這裡，手上就只有這些。
# - **swapped**：改成「The mat lay under the cat because it was tired.」
#
# 執行之前，先猜猜這四組長條。
# %% tags=["experiment"]
if model is not None:
    sentences = {
        "tired": "The cat sat on the mat because it was tired.",
        "soft": "The cat sat on the mat because it was soft.",
        "cut off": "The cat sat on the mat because it",
        "swapped": "The mat lay under the cat because it was tired.",
    }
    to_cat, to_mat = [], []
    for text in sentences.values():
        seen = encode(tokenizer, model, text)
        row = seen.attention[LAYER - 1, HEAD - 1, seen.tokens.index("it")]
        to_cat.append(row[seen.tokens.index("cat")].item())
        to_mat.append(row[seen.tokens.index("mat")].item())
    pairs = {"it → cat": to_cat, "it → mat": to_mat}
    ax = bars(list(sentences), pairs, "attention weight", "Does the clue matter?")
# %% [markdown] lang="en"
# It hardly matters: 0.71 with "tired", still 0.68 with "soft", where "it" is the mat, and 0.60 with no clue at all.
#
# **Read the column, too.** A row says where "it" looks. The column of "cat" says who else looks there, and in the
# map above nearly the whole column is dark.
# %% [markdown] lang="zh-TW"
# 幾乎沒影響：「tired」是 0.71，換成「soft」（it 已是墊子）還有 0.68，完全沒有線索也有 0.60。
#
# **也讀讀那一行**。一列說的是「it」看哪裡；「cat」那一行說的則是還有誰也看那裡。上面的熱圖裡，那一行幾乎整行都是深色。
# %% tags=["experiment"]
if model is not None:
    leaders = (A.argmax(dim=-1) == cat).sum()
    others = A[torch.arange(len(A)) != it, cat]
    print(f"{leaders} of the {len(A)} tokens give their largest weight to 'cat'")
    print(f"all but 'it' give it {others.mean():.2f} on average; 'mat' gives {A[mat, cat]:.2f}")
# %% [markdown] lang="en"
# So this head does not work out what "it" means. Nearly everyone who asks, even "mat", is sent to the cat, and "it" is
# one of the crowd. We had read one row of a matrix and seen in it what we were looking for.
#
# A weight tells you **where** a head looks. It does not tell you **why**, nor what the model concludes.
# %% [markdown] lang="zh-TW"
# 所以這個頭並沒有在推敲「it」指誰。幾乎不論誰來問，連「mat」也一樣，都被指向那隻貓；「it」只是其中之一。我們只讀了矩陣的一列，就從中看到自己想看的東西。
#
# 權重告訴你一個頭**看哪裡**，沒有告訴你**為什麼**，更不是模型的結論。
# %% [markdown] lang="en"
# ### And the other 71 heads?
#
# We chose the head that fits. Here is the weight it→cat in all 72. In how many is "cat" the token that "it" looks
# at most? And where do the others look?
# %% [markdown] lang="zh-TW"
# ### 其他 71 個頭呢？
#
# 剛才那個頭是挑出來的。下面是全部 72 個頭的 it→cat。有幾個頭裡，「it」看得最多的是「cat」？其他的又在看哪裡？
# %% tags=["experiment"]
if model is not None:
    from_it = tired.attention[:, :, it]  # [6, 12, 13]: the row of "it" in every head
    ax = heat_map(
        from_it[:, :, cat],
        [f"layer {n}" for n in range(1, 7)],
        [str(n) for n in range(1, 13)],
        "it → cat in all 72 heads",
    )
    ax.set(xlabel="head", ylabel="")
    favourite = from_it.argmax(dim=-1)
    marks = (favourite == 0) | (favourite == len(tired.tokens) - 1)
    print(f"of 72 heads, 'it' looks most at 'cat' in {(favourite == cat).sum()}")
    print(f"and at [CLS] or [SEP] in {marks.sum()}")
# %% [markdown] lang="en"
# Three numbers more, each for a sentence you will meet elsewhere. *"What is not chosen contributes nothing"*: how
# many weights are small, is any 0? *"The output at 'it' is nearly the meaning of 'cat'"*: how close are the two
# final vectors? *"q, k, v are made from the word alone"*: do the two "the" have the same row in layer 1?
# %% [markdown] lang="zh-TW"
# 再量三個數字，各對應一句你會在別處讀到的話。「沒被選中的就沒有貢獻」：小的權重有多少，有沒有 0？「it 的輸出幾乎就是 cat 的語意」：兩個最後的向量有多近？「q、k、v 只由字本身做出來」：兩個「the」在第 1 層的列相同嗎？
# %% tags=["experiment"]
if model is not None:
    every = tired.attention
    small, zeros = (every < 0.005).double().mean(), (every == 0).sum()
    print(f"weights below 0.005: {small:.0%}; exactly 0: {zeros}; the smallest is {every.min():.0e}")

    close = torch.cosine_similarity(tired.states[it], tired.states, dim=-1)  # [13]
    print(f"final vectors: cos(it, cat) = {close[cat]:.2f}, cos(it, mat) = {close[mat]:.2f}")
    first, second = (n for n, token in enumerate(tired.tokens) if token == "the")
    difference = (every[0, :, first] - every[0, :, second]).abs().max()
    print(f"layer 1: the rows of the two 'the' differ by up to {difference:.2f}")
# %% [markdown] lang="en"
# Everyone contributes something: no weight is 0. The final vector of "it" leans towards "cat" (0.62 against 0.47), and
# is far from being it: the answer $h$ is projected, and added to what "it" was before (lessons 04 and 06). And the two
# "the" differ from the first layer on, because MiniLM adds a position to each word before it asks.
# %% [markdown] lang="zh-TW"
# 每個詞元都有貢獻：沒有任何權重是 0。「it」最後的向量偏向「cat」（0.62 對 0.47），但離「就是 cat」還遠：答案 $h$ 要再投影，並加回「it」原本的向量（第 04、06 課）。兩個「the」從第 1 層就不同，因為 MiniLM 在發問之前，已經把位置加進每個字。
# %% [markdown] lang="en"
# ## 7. What to remember
#
# - Query asks, key is what one is found by, value is what one gives. All three are $X$ times a learned matrix.
# - $H=\mathrm{softmax}(QK^\top)V$: inner products, portions, then a combination of the rows of $V$.
# - One row, one reader: **rows** sum to 1. Columns may sum to anything, and the matrix is not symmetric.
# - It is a *soft* look-up: all values contribute, none is fetched.
# - Alone it ignores order: shuffle in, shuffled out.
# - A weight says where a head looks, not why.
# %% [markdown] lang="zh-TW"
# ## 7. 帶走這些
#
# - 查詢發問，鍵讓人找到，值給出內容。三者都是 $X$ 乘上一個學來的矩陣。
# - $H=\mathrm{softmax}(QK^\top)V$：先內積，再變份量，最後把 $V$ 的各列做線性組合。
# - 一列是一位讀者：**列**的和是 1。行的和什麼都可能，矩陣也不對稱。
# - 這是**軟**的查找：每個值都有份，不是只取一個。
# - 單靠它看不出順序：怎麼打亂進去，就怎麼打亂出來。
# - 權重說的是一個頭看哪裡，不是為什麼。
# %% [markdown] lang="en"
# ## 8. Self-check: question `02_q1` · 1 point · 2 minutes
#
# Write the letter between the quotation marks, for example `"a"`, and run the check.
#
# What do query, key and value do?
#
# - **a**: The key asks, the query is what a token is found by, and the value is what the token hands over.
# - **b**: The query asks, the key is what a token is found by, and the value is what the token hands over.
# - **c**: The query asks, the key is what a token is found by, and the value is the number that says how well the two fit.
# - **d**: The query asks, the value is what a token is found by, and the key is what the token hands over.
# %% [markdown] lang="zh-TW"
# ## 8. 自我檢查：選擇題 `02_q1` · 滿分 1 分 · 2 分鐘
#
# 把字母寫在引號之間，例如 `"a"`，然後執行檢查。
#
# 查詢（query）、鍵（key）、值（value）各做什麼？
#
# - **a**：鍵負責發問，查詢讓詞元被找到，值是詞元交出來的內容。
# - **b**：查詢負責發問，鍵讓詞元被找到，值是詞元交出來的內容。
# - **c**：查詢負責發問，鍵讓詞元被找到，值是說明兩者有多合的數字。
# - **d**：查詢負責發問，值讓詞元被找到，鍵是詞元交出來的內容。
# %% question="02_q1"
answer_02_q1 = ""
### BEGIN SOLUTION
answer_02_q1 = "b"
### END SOLUTION
# %%
check("02_q1", answer_02_q1)
# %% [markdown] lang="en"
# ## 9. Self-check: question `02_q2` · 1 point · 3 minutes
#
# Look again at the printed 6 × 6 matrix of section 5. What can be said about it?
#
# - **a**: It can belong to a model that is choosing the next word: each of its rows sums to 1, as it must.
# - **b**: Its columns sum to 1 as well: a token cannot receive more attention than it gives.
# - **c**: It can only belong to an encoder: words give weight to words that come after them.
# - **d**: Apart from rounding it is symmetric: "cat" is as relevant to "sat" as "sat" is to "cat".
# %% [markdown] lang="zh-TW"
# ## 9. 自我檢查：選擇題 `02_q2` · 滿分 1 分 · 3 分鐘
#
# 再看一次第 5 節印出來的 6 × 6 矩陣。關於它，哪句話對？
#
# - **a**：它可以屬於正在挑下一個字的模型：每一列的和都是 1，符合要求。
# - **b**：它每一行的和也是 1：一個詞元收到的注意力，不會比它給出去的多。
# - **c**：它只能屬於編碼器：前面的字把權重給了後面的字。
# - **d**：不計捨入誤差的話，它是對稱的：「cat」對「sat」有多相關，「sat」對「cat」就有多相關。
# %% question="02_q2"
answer_02_q2 = ""
### BEGIN SOLUTION
answer_02_q2 = "c"
### END SOLUTION
# %%
check("02_q2", answer_02_q2)
# %% [markdown] lang="en"
# ## 10. What the documents claim, and what you measured
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | q, k, v are made from the word embedding | true with a condition: in the first layer, and the position is already in it | MiniLM, layer 1: the two "the" have different rows |
# | $W_Q, W_K, W_V$ are all $d_\text{model}\times d_k$ | not so: $W_V$ is $d_\text{model}\times d_v$ | Q, K `[6, 3]`, V `[6, 5]` |
# | each token is scored against all *others* | not so: against all, itself included; and not symmetrically | cat→cat has a score; cat→sat ≠ sat→cat |
# | the more alike q and k, the larger the product | true with a condition: at equal lengths | 0° apart: 0.02; 45° apart: 1.00 |
# | scores lie between 0 and 1 | not so: weights do, scores are any number | its own example: 8.2 |
# | 8.2, 1.1, 0.3 give the weight 0.85 | not so | 0.9988; lesson 03 goes on |
# | a token contributes *if* it is chosen | not so: all do | MiniLM: 21 % of weights below 0.005, none 0 |
# | $\mathrm{softmax}(QK^\top)V$, scaled later, is PyTorch's attention | true | at scale 1 the two differ by rounding at most |
# %% [markdown] lang="zh-TW"
# ## 10. 文件怎麼說，你量到什麼
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | q、k、v 由詞嵌入做出來 | 有條件：僅限第一層，而且位置已經加進去了 | MiniLM 第 1 層：兩個「the」的列不同 |
# | $W_Q, W_K, W_V$ 都是 $d_\text{model}\times d_k$ | 不對：$W_V$ 是 $d_\text{model}\times d_v$ | Q、K 為 `[6, 3]`，V 為 `[6, 5]` |
# | 每個詞元對**其他**詞元打分數 | 不對：對全部打，包括自己；而且不對稱 | cat→cat 也有分數；cat→sat ≠ sat→cat |
# | q 與 k 愈像，內積愈大 | 有條件：長度相等時 | 夾角 0°：0.02；45°：1.00 |
# | 分數在 0 與 1 之間 | 不對：權重才是，分數可以是任何數 | 文章自己的例子：8.2 |
# | 8.2、1.1、0.3 得到權重 0.85 | 不對 | 0.9988；第 03 課接著談 |
# | 詞元**被選中**才有貢獻 | 不對：全部都有 | MiniLM：21 % 的權重低於 0.005，沒有一個是 0 |
# | $\mathrm{softmax}(QK^\top)V$（縮放以後再談）就是 PyTorch 的注意力 | 對 | 縮放設為 1 時，頂多差捨入誤差 |
# %% [markdown] lang="en"
# | claim | verdict | what this lesson found |
# |---|---|---|
# | softmax runs on each 行 (in Taiwan: column) | not so: on each row (列) | column sums 0.6, 1.3, 0.9, 0.7, 0.9, 1.6 |
# | each row of the 6 × 6 table sums to 1, "sat" gives 0.5 to "cat" | true | six sums of 1.0; 0.5 |
# | the table shows a next-word model | not so: an encoder | 2.6 of 6.0 look ahead |
# | "tired" is what sends "it" to "cat" | not so, for this head | 0.71; 0.68 with "soft"; 0.60 cut off; 0.60 swapped; 12 of 13 tokens look most at "cat" |
# | the output at "it" is nearly "cat" | not so | cos 0.62 with "cat", 0.47 with "mat" |
# | that weight is how the model understands | not so | "cat" leads in 3 of 72 heads, [CLS] or [SEP] in 48 |
# | attention does not see order | true with a condition: no mask, no positions | gap below 1e-14; with places it is not 0 |
#
# **Next:** lesson 03 asks why a score of 8.2 is too large, and what $\sqrt{d_k}$ does about it.
# %% [markdown] lang="zh-TW"
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | softmax 作用在每一「行」 | 不對：是列（row）；行是 column | 各行的和 0.6、1.3、0.9、0.7、0.9、1.6 |
# | 6 × 6 表格每列的和是 1，「sat」給「cat」0.5 | 對 | 六個和都是 1.0；0.5 |
# | 這張表來自猜下一個字的模型 | 不對：是編碼器 | 6.0 之中有 2.6 看向後面 |
# | 因為「tired」，「it」才看「cat」 | 就這個頭而言不對 | 0.71；「soft」0.68；停在 it 0.60；名詞對調 0.60；13 個詞元有 12 個最看「cat」 |
# | 「it」的輸出幾乎就是「cat」 | 不對 | 與「cat」的餘弦相似度 0.62，與「mat」0.47 |
# | 那個權重就是模型理解的方式 | 不對 | 72 個頭中「cat」居首的有 3 個，[CLS] 或 [SEP] 居首的有 48 個 |
# | 注意力看不到順序 | 有條件：沒有遮罩、沒有位置 | 差距小於 1e-14；加上位置就不是 0 |
#
# **下一課**要問：8.2 這樣的分數為什麼太大，$\sqrt{d_k}$ 又做了什麼。
