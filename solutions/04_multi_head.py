# %% [markdown] lang="en"
# # 04 · Multi-head attention: eight readers, one page
#
# **You will** write the attention layer of the 2017 paper as a class, count what it costs, and look into the heads of a trained model.
#
# **You need** lessons 02 and 03: $\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$, and masks where True means "may attend".
#
# **Time** about 115 minutes: 50 for reading, 65 for the exercises and the question.
#
# "The article", "the guide", "the documents": teaching texts found on the web. We test what they say.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `split_heads` | 2 | 6 | 1 |
# | `merge_heads` | 2 | 5 | 1 |
# | `MultiHeadAttention` | 4 | 25 | 5 |
# | `attention_parameter_count` | 2 | 6 | 1 |
# | `attention_flops` | 3 | 10 | 2 |
# | `grouped_query_attention` | 3 | 10 | 3 |
# | question `04_q1` | | 2 | 1 |
# %% [markdown] lang="zh-TW"
# # 04 · 多頭注意力：八位讀者，同讀一頁
#
# **這一課**你會把 2017 年論文的注意力層寫成一個類別，算算它的成本，再打開一個訓練好的模型，看看裡面的頭。
#
# **先備知識**是第 02、03 課：$\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$，以及 True 代表「可以看」的遮罩。
#
# **時間**約 115 分鐘：閱讀 50 分鐘，練習和選擇題 65 分鐘。
#
# 本課說的「文章」「講義」「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `split_heads` | 2 | 6 | 1 |
# | `merge_heads` | 2 | 5 | 1 |
# | `MultiHeadAttention` | 4 | 25 | 5 |
# | `attention_parameter_count` | 2 | 6 | 1 |
# | `attention_flops` | 3 | 10 | 2 |
# | `grouped_query_attention` | 3 | 10 | 3 |
# | 選擇題 `04_q1` | | 2 | 1 |
# %% tags=["setup"]
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.plots import bars, curves, heat_map, use_style

torch.set_num_threads(1)  # small tensors: threads would only wait for each other, and times are those of one core

# %% [markdown] lang="en"
# ## 1. The question
#
# > The cat sat on the mat because it was tired.
#
# To understand "sat", two things matter: *who* sat (the cat), and *where* (on the mat). In lesson 02 the token has one row of weights, and that row must sum to 1. Give ½ to each and you get
#
# $$h = \tfrac12 v_\text{cat} + \tfrac12 v_\text{mat}$$
#
# Who sat, and on what? From the average you cannot tell: swap cat and mat, and $h$ is the same. The paper says it in three words: "averaging inhibits this".
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# > The cat sat on the mat because it was tired.
#
# 要讀懂「sat」，有兩件事要知道：**誰**坐（貓），坐在**哪裡**（墊子上）。可是照第 02 課的做法，一個詞元只有一列權重，加起來還得是 1。若各給 ½，得到
#
# $$h = \tfrac12 v_\text{cat} + \tfrac12 v_\text{mat}$$
#
# 誰坐在誰上面？從平均看不出來：cat 和 mat 對調，$h$ 一點都沒變。論文只用三個英文字：「averaging inhibits this」，平均會妨礙這件事。
# %% [markdown] lang="en"
# ## 2. The picture: several readers in one library
#
# Send not one visitor into the library of lesson 02 but eight. Each has a question of their own, looks at spines in their own way, and comes back with their own blend. Their notes are laid **side by side**, not averaged, and at the end one editor writes a single text from all of them.
#
# - a reader: a **head**, one attention with its own $W^Q, W^K, W^V$;
# - laying side by side: **concatenation**;
# - the editor: the output matrix $W^O$.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像：一座圖書館，好幾位讀者
#
# 第 02 課的圖書館，這次不派一位訪客，派八位。每位帶著自己的問題，用自己的方式看書背，帶回自己的一份混合。八份筆記**並排**放好，不取平均；最後由一位編輯把它們寫成一篇。
#
# - 一位讀者：一個**頭（head）**，就是一組有自己的 $W^Q, W^K, W^V$ 的注意力；
# - 並排：**拼接（concatenate）**；
# - 編輯：輸出矩陣 $W^O$。
# %% [markdown] lang="en"
# One article gives the readers jobs: the first looks for subject and verb, the second for what pronouns mean, the third for adjectives. Nobody hands out such jobs. All heads start as random matrices, and training may or may not make specialists of them. In section 7 we look.
# %% [markdown] lang="zh-TW"
# 有一篇文章替讀者分派了任務：第一位找主詞與動詞，第二位找代名詞指誰，第三位找形容詞修飾誰。其實沒有人分派任務。每個頭一開始都是隨機的矩陣，訓練之後會不會變成專家，要看了才知道。第 7 節就來看。
# %% [markdown] lang="en"
# ## 3. The formula
#
# $$\mathrm{head}_j = \mathrm{softmax}\!\left(\frac{(XW^Q_j)(XW^K_j)^\top}{\sqrt{d_\text{head}}}\right) XW^V_j, \qquad \mathrm{MultiHead}(X) = [\,\mathrm{head}_1\ \cdots\ \mathrm{head}_h\,]\,W^O$$
#
# - $X$: $[N, d_\text{model}]$, one token a row; in 2017 $d_\text{model} = 512$, $h = 8$
# - $W^Q_j, W^K_j, W^V_j$: $[d_\text{model}, d_\text{head}]$, with $d_\text{head} = d_\text{model}/h = 64$
# - $\mathrm{head}_j$: $[N, d_\text{head}]$; side by side $[N, h\,d_\text{head}]$
# - $W^O$: $[h\,d_\text{head}, d_\text{model}]$, back to where we came from
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# $$\mathrm{head}_j = \mathrm{softmax}\!\left(\frac{(XW^Q_j)(XW^K_j)^\top}{\sqrt{d_\text{head}}}\right) XW^V_j, \qquad \mathrm{MultiHead}(X) = [\,\mathrm{head}_1\ \cdots\ \mathrm{head}_h\,]\,W^O$$
#
# - $X$：$[N, d_\text{model}]$，一個詞元一列（row）；2017 年的模型取 $d_\text{model} = 512$、$h = 8$
# - $W^Q_j, W^K_j, W^V_j$：$[d_\text{model}, d_\text{head}]$，其中 $d_\text{head} = d_\text{model}/h = 64$
# - $\mathrm{head}_j$：$[N, d_\text{head}]$；並排之後是 $[N, h\,d_\text{head}]$
# - $W^O$：$[h\,d_\text{head}, d_\text{model}]$，回到原來的寬度
# %% [markdown] lang="en"
# **Eight small products are one large one.** Put the $h$ matrices side by side, $W^Q = [\,W^Q_1 \cdots W^Q_h\,]$: a square matrix, $[d_\text{model}, d_\text{model}]$. A product works column by column, so
#
# $$XW^Q = [\,XW^Q_1\ \cdots\ XW^Q_h\,]$$
#
# Project once, then cut the *result* into $h$ strips of columns. That is how every library does it, and it is your first exercise.
# %% [markdown] lang="zh-TW"
# **八個小乘法就是一個大乘法**。把 $h$ 個矩陣並排，$W^Q = [\,W^Q_1 \cdots W^Q_h\,]$，正好是方陣 $[d_\text{model}, d_\text{model}]$。矩陣乘法是一行（column）一行算的，所以
#
# $$XW^Q = [\,XW^Q_1\ \cdots\ XW^Q_h\,]$$
#
# 先一次投影，再把**結果**切成 $h$ 條，每條是相鄰的幾行。每個函式庫都這麼做，這也是你的第一個練習。
# %% [markdown] lang="en"
# **What is cut, and what is not.** One document says that the 512 dimensions are shared out, 64 to each head. Mind which 512: those of the *projected* queries, keys and values. The input is not cut. Every head reads all 512 numbers of a token through its own $512\times64$ matrix. The next cell changes a single input number and looks at which heads notice.
# %% [markdown] lang="zh-TW"
# **切的是什麼？** 有份文件說，512 維均分給各個頭，每個頭 64 維。要看清楚是哪個 512：是**投影之後**的查詢、鍵和值。輸入並沒有被切開；每個頭都透過自己的 $512\times64$ 矩陣，讀到一個詞元的全部 512 個數。下面只改動輸入的一個數，看看哪些頭會察覺。
# %%
generator = torch.Generator().manual_seed(4)
W_Q = torch.randn(512, 512, generator=generator) / math.sqrt(512)
x = torch.randn(512, generator=generator)
changed = x.clone()
changed[0] += 1.0  # one input number, in what would be "head 0's share" if the input were cut
moved = (changed @ W_Q - x @ W_Q).reshape(8, 64).norm(dim=-1)  # one length for each head's query
print("how far the query of each head moved:", [round(m, 2) for m in moved.tolist()])
# %% [markdown] lang="en"
# All eight notice. (Had the *input* been cut, seven zeros would stand there.)
#
# **The editor, written out.** Cut $W^O$ into $h$ strips of **rows**, $W^O_j$ of shape $[d_\text{head}, d_\text{model}]$. Then
#
# $$[\,\mathrm{head}_1 \cdots \mathrm{head}_h\,]\,W^O = \mathrm{head}_1 W^O_1 + \dots + \mathrm{head}_h W^O_h$$
#
# So heads *are* added up in the end, but each through a matrix of its own, which decides where in the 512 numbers it may write. Concatenation is only how this sum is organised.
# %% [markdown] lang="zh-TW"
# 八個都察覺了。（如果切的是**輸入**，會有七個 0。）
#
# **把編輯的工作寫開**：把 $W^O$ 切成 $h$ 段，每段是相鄰的幾**列**，$W^O_j$ 的形狀是 $[d_\text{head}, d_\text{model}]$，則
#
# $$[\,\mathrm{head}_1 \cdots \mathrm{head}_h\,]\,W^O = \mathrm{head}_1 W^O_1 + \dots + \mathrm{head}_h W^O_h$$
#
# 所以各個頭最後**確實**會相加，但各自先乘上自己的矩陣，由它決定寫進 512 個數的哪些地方。拼接只是整理這個總和的方式。
# %% [markdown] lang="en"
# ### By hand
#
# Two tokens, $A=(1,0)$ and $B=(0,1)$; all of $W^Q, W^K, W^V$ are the identity. What does $A$ get?
#
# **One head, $d_\text{head}=2$.** Scores $A\cdot A/\sqrt2=0.707$ and $A\cdot B/\sqrt2=0$; weights $(0.670,\ 0.330)$. Output $0.670\,(1,0)+0.330\,(0,1)=(0.670,\ 0.330)$.
#
# **Two heads, $d_\text{head}=1$.** Head 1 owns column 1, where $A=1$, $B=0$: scores $1, 0$, weights $(0.731, 0.269)$, result $0.731$. Head 2 owns column 2, where $A=0$, $B=1$: scores $0, 0$, weights $(0.5, 0.5)$, result $0.5$. Side by side: $(0.731,\ 0.5)$.
# %% [markdown] lang="zh-TW"
# ### 動手算一次
#
# 兩個詞元 $A=(1,0)$、$B=(0,1)$，$W^Q, W^K, W^V$ 都是單位矩陣。$A$ 會得到什麼？
#
# **一個頭，$d_\text{head}=2$**：分數 $A\cdot A/\sqrt2=0.707$、$A\cdot B/\sqrt2=0$，權重 $(0.670,\ 0.330)$，輸出 $0.670\,(1,0)+0.330\,(0,1)=(0.670,\ 0.330)$。
#
# **兩個頭，$d_\text{head}=1$**：第 1 個頭擁有第 1 行，那裡 $A=1$、$B=0$：分數 $1, 0$，權重 $(0.731, 0.269)$，結果 $0.731$。第 2 個頭擁有第 2 行，那裡 $A=0$、$B=1$：分數 $0, 0$，權重 $(0.5, 0.5)$，結果 $0.5$。並排得 $(0.731,\ 0.5)$。
# %% [markdown] lang="en"
# With one head, both columns of the output are mixed with the *same* weights. With two, each column has its own.
#
# Now the editor. Let $W^O$ have the rows $(1,1)$ and $(1,-1)$. The output is $0.731\,(1,1)+0.5\,(1,-1)=(1.231,\ 0.231)$. Only here does head 1 say something about column 2.
# %% [markdown] lang="zh-TW"
# 只有一個頭時，輸出的兩行用的是**同一組**權重；有兩個頭，每一行就各有各的。
#
# 再來是編輯：設 $W^O$ 的兩列是 $(1,1)$ 與 $(1,-1)$，輸出是 $0.731\,(1,1)+0.5\,(1,-1)=(1.231,\ 0.231)$。到了這一步，第 1 個頭才有機會影響第 2 行。
# %%
tokens = torch.eye(2)  # A and B
one_head = torch.softmax(tokens @ tokens.T / math.sqrt(2), dim=-1) @ tokens
columns = [tokens[:, [j]] for j in range(2)]
two_heads = torch.cat([torch.softmax(c @ c.T / math.sqrt(1), dim=-1) @ c for c in columns], dim=-1)
W_O = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
for name, result in (("one head", one_head), ("two heads", two_heads), ("two heads, then W_O", two_heads @ W_O)):
    print(f"{name:<20}", [round(number, 3) for number in result[0].tolist()])


# %% [markdown] lang="en"
# ## 4. Exercises: a layer from four matrices
#
# What every check looks at:
#
# - type, shape, dtype and device of the result, then its values; float64 in means float64 precision out;
# - inputs unchanged, contiguous or not; optional arguments by position or by name;
# - where it says so, float16 and bfloat16, and gradients for every float input.
#
# `torch.softmax` is allowed. Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `F.multi_head_attention_forward`, `course_lib`. Best not to call your other answers: if one is wrong, both lose points. Stuck? `hint("split_heads")`.
# %% [markdown] lang="zh-TW"
# ## 4. 練習：用四個矩陣做出一層
#
# 每個檢查都會看：
#
# - 結果的型別、形狀、dtype、裝置，再看數值；輸入是 float64，就要有 float64 的精度；
# - 輸入不可更改，記憶體不一定連續；有預設值的引數可能按位置或按名稱給；
# - 題目有寫的，還會看 float16 與 bfloat16，以及對每個浮點數輸入的梯度。
#
# 可以用 `torch.softmax`。不能用 `F.scaled_dot_product_attention`、`nn.MultiheadAttention`、`F.multi_head_attention_forward` 與 `course_lib`。最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。卡住了？執行 `hint("split_heads")`。
# %% [markdown] lang="en"
# ### Exercise `split_heads` · difficulty 2 of 5 · 6 minutes · 1 point
#
# **Small first.** Two tokens $(1,2,3,4)$ and $(5,6,7,8)$, two heads. Head 0 owns the first two columns: its rows are $(1,2)$ and $(5,6)$. Head 1 gets $(3,4)$ and $(7,8)$.
#
# **In general** from $[B, N, d_\text{model}]$ to $[B, h, N, d_\text{head}]$: head $j$ owns columns $j\,d_\text{head}$ to $(j+1)\,d_\text{head}-1$, neighbours. Judged also: a single head; heads of one column; $N = h$ and $N = d_\text{head}$; float16, bfloat16; gradients.
# %% [markdown] lang="zh-TW"
# ### 練習 `split_heads` · 難度 2／5 · 6 分鐘 · 滿分 1 分
#
# **先看小例子**：兩個詞元 $(1,2,3,4)$ 與 $(5,6,7,8)$，兩個頭。第 0 個頭擁有前兩行，它的兩列是 $(1,2)$ 與 $(5,6)$；第 1 個頭拿到 $(3,4)$ 與 $(7,8)$。
#
# **一般情形**：從 $[B, N, d_\text{model}]$ 到 $[B, h, N, d_\text{head}]$，第 $j$ 個頭擁有第 $j\,d_\text{head}$ 到 $(j+1)\,d_\text{head}-1$ 行，彼此相鄰。也會檢查：只有一個頭；每個頭只有一行；$N = h$、$N = d_\text{head}$；float16、bfloat16；梯度。
# %% exercise="split_heads"
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut the columns into heads: [B, N, d_model] becomes [B, n_heads, N, d_head].

    Args:
        x: projected tokens, [B, N, d_model], any floating dtype, contiguous or not.
        n_heads: the number of heads h; it divides d_model, d_head = d_model / h.

    Returns:
        [B, h, N, d_head]: head j holds columns j·d_head … (j+1)·d_head − 1 of every token.
    """
    ### BEGIN SOLUTION
    B, N, d_model = x.shape
    heads_last = x.reshape(B, N, n_heads, d_model // n_heads)  # neighbouring columns stay together
    return heads_last.transpose(1, 2)  # [B, h, N, d_head]
    ### END SOLUTION


# %%
check("split_heads", split_heads)
# %% [markdown] lang="en"
# **Right shape, wrong numbers.** `x.view(B, h, N, d_head)` gives the shape that is asked for, too. `view` and `reshape` only read memory on and on, and memory holds token after token. The picture shows which head each number ends up in: 6 tokens, 8 columns, 2 heads. Left: a head has some columns of all tokens. Right: a head has all columns of some tokens, and can never look from token 0 to token 5.
# %% [markdown] lang="zh-TW"
# **形狀對，數字不對**。`x.view(B, h, N, d_head)` 也會給出要求的形狀。但 `view` 和 `reshape` 只是照記憶體的順序往下讀，而記憶體裡是一個詞元接著一個詞元。下圖標出每個數落在哪個頭：6 個詞元、8 行、2 個頭。左邊：一個頭有全部詞元的幾行；右邊：一個頭只有幾個詞元的全部行，永遠沒辦法從第 0 個詞元看到第 5 個。
# %%
split = use("split_heads", split_heads)

places = torch.arange(48.0).reshape(1, 6, 8)  # every number is its own place in memory
use_style()
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2))
for ax, name, heads in (
    (axes[0], "split_heads", split(places, 2)),
    (axes[1], "view without transpose", places.reshape(1, 2, 6, 4)),
):
    owner = torch.empty(48)
    for j in range(2):
        owner[heads[0, j].flatten().long()] = j
    heat_map(owner.reshape(6, 8), title=name, ax=ax)
    for text in ax.texts:
        text.set_text(text.get_text()[0])  # head 0 or 1, without decimals
    ax.set(xlabel="column", ylabel="token", xticks=range(8), yticks=range(6))


# %% [markdown] lang="en"
# ### Exercise `merge_heads` · difficulty 2 of 5 · 5 minutes · 1 point
#
# The way back. **Small first.** Head 0 says $(1,2)$ about token 0 and $(5,6)$ about token 1, head 1 says $(3,4)$ and $(7,8)$. Merged: $(1,2,3,4)$ and $(5,6,7,8)$.
#
# **In general** from $[B, h, N, d_\text{head}]$ to $[B, N, h\,d_\text{head}]$. The heads may lie in memory in any order; one case has them just as `split_heads` leaves them. Judged also: $N = h$; a single head; float16, bfloat16; gradients.
# %% [markdown] lang="zh-TW"
# ### 練習 `merge_heads` · 難度 2／5 · 5 分鐘 · 滿分 1 分
#
# 再合回去。**先看小例子**：第 0 個頭對兩個詞元說 $(1,2)$ 與 $(5,6)$，第 1 個頭說 $(3,4)$ 與 $(7,8)$；合併得 $(1,2,3,4)$ 與 $(5,6,7,8)$。
#
# **一般情形**：從 $[B, h, N, d_\text{head}]$ 到 $[B, N, h\,d_\text{head}]$。頭在記憶體裡的排列不一定；其中一種情況就是 `split_heads` 剛做完的樣子。也會檢查：$N = h$；只有一個頭；float16、bfloat16；梯度。
# %% exercise="merge_heads"
def merge_heads(x: Tensor) -> Tensor:
    """Put the heads side by side: [B, h, N, d_head] becomes [B, N, h·d_head]. The inverse of split_heads.

    Args:
        x: one matrix for each head, [B, h, N, d_head], any floating dtype, contiguous or not.

    Returns:
        [B, N, h·d_head]: row n holds what head 0, head 1, … say about token n, in this order.
    """
    ### BEGIN SOLUTION
    B, h, N, d_head = x.shape
    return x.transpose(1, 2).reshape(B, N, h * d_head)  # reshape copies: after transpose, view would raise
    ### END SOLUTION


# %%
check("merge_heads", merge_heads)
# %% [markdown] lang="en"
# **A test that proves nothing.** "I split and merge, and get my input back, so both are right." Try it with the wrong pair, `view` on the way in and `view` on the way out.
# %% [markdown] lang="zh-TW"
# **什麼都沒證明的測試**。「我切開再合併，得到原來的輸入，所以兩個都對。」拿錯的那一對試試：進去用 `view`，出來也用 `view`。
# %%
merge = use("merge_heads", merge_heads)

x = torch.randn(2, 6, 8, generator=generator)
print("right pair: input comes back", torch.equal(merge(split(x, 2)), x))
wrong_heads = x.view(2, 2, 6, 4)
print("wrong pair: input comes back", torch.equal(wrong_heads.view(2, 6, 8), x))
weights = torch.softmax(torch.randn(6, 6, generator=generator), dim=-1)
together = weights @ x  # what must come out if both heads use these same weights
for name, result in (
    ("right pair", merge(weights @ split(x, 2))),
    ("wrong pair", (weights @ wrong_heads).view(2, 6, 8)),
):
    print(f"with attention in between, {name}: off by {(result - together).abs().max():.1f}")


# %% [markdown] lang="en"
# Both round trips succeed. Only what happens *between* split and merge shows the mistake: that is why checks look at numbers inside the layer.
# %% [markdown] lang="zh-TW"
# 兩邊都能原樣復原。只有切開與合併**之間**發生的事，才會讓錯誤現形；所以檢查看的是這一層裡面的數字。
# %% [markdown] lang="en"
# ### Exercise `MultiHeadAttention` · difficulty 4 of 5 · 25 minutes · 5 points
#
# Now the whole layer, as a class. Its weights are four `nn.Parameter`s with exactly the names `W_Q`, `W_K`, `W_V`, `W_O`, each $[d_\text{model}, d_\text{model}]$, used as `x @ W`; no bias. Nothing else in `state_dict()`. (`nn.Linear` stores the transpose under other names: the check refuses it.)
#
# **Small first.** With the example above, identity for three matrices and rows $(1,1)$, $(1,-1)$ for $W_O$, two heads give token $A$ the output $(1.231,\ 0.231)$ and the weights $(0.731, 0.269)$ and $(0.5, 0.5)$.
# %% [markdown] lang="zh-TW"
# ### 練習 `MultiHeadAttention` · 難度 4／5 · 25 分鐘 · 滿分 5 分
#
# 現在把整層寫成一個類別。權重是四個 `nn.Parameter`，名字一定要是 `W_Q`、`W_K`、`W_V`、`W_O`，形狀都是 $[d_\text{model}, d_\text{model}]$，照 `x @ W` 使用，沒有偏置；`state_dict()` 裡不要有別的。（`nn.Linear` 存的是轉置，名字也不同，檢查不會接受。）
#
# **先看小例子**：用上面的例子，三個矩陣是單位矩陣，$W_O$ 的兩列是 $(1,1)$、$(1,-1)$；兩個頭時，詞元 $A$ 的輸出是 $(1.231,\ 0.231)$，權重是 $(0.731, 0.269)$ 與 $(0.5, 0.5)$。
# %% [markdown] lang="en"
# **In general** queries come from `query`, keys from `key`, values from `value`; these may be three different inputs, with $N$ rows on one side and $M$ on the other. Each head scales by $\sqrt{d_\text{head}}$. Return the output $[B, N, d_\text{model}]$ *and* the weights of every head, $[B, h, N, M]$.
#
# Judged: self-attention; three different inputs with $N \ne M$ and $N = M$; a single head; masks $[N, M]$, $[h, N, M]$, $[B, 1, 1, M]$, $[B, h, N, M]$; hidden keys weigh exactly 0; a row with nothing to attend to gives zero weights and (there being no bias) a zero row, and finite gradients; gradients for inputs and all four weights; weights that are replaced after the class was built.
# %% [markdown] lang="zh-TW"
# **一般情形**：查詢來自 `query`，鍵來自 `key`，值來自 `value`；三者可以是不同的輸入，一邊 $N$ 列，另一邊 $M$ 列。每個頭都除以 $\sqrt{d_\text{head}}$。輸出 $[B, N, d_\text{model}]$ **和**每個頭的權重 $[B, h, N, M]$ 都要回傳。
#
# 檢查會看：自注意力；三個不同的輸入，$N \ne M$ 與 $N = M$；只有一個頭；遮罩 $[N, M]$、$[h, N, M]$、$[B, 1, 1, M]$、$[B, h, N, M]$；被遮住的鍵權重恰為 0；沒有東西可看的列，權重全 0、輸出（因為沒有偏置）全 0、梯度有限；對輸入和四個權重的梯度；建好之後再換掉的權重。
# %% exercise="MultiHeadAttention"
class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h) W_O, each head softmax(q kᵀ / √d_head) v with its own columns of W_Q, W_K, W_V.

    Parameters: W_Q, W_K, W_V, W_O, each [d_model, d_model], used as x @ W. Initial values are free.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.n_heads = n_heads
        self.W_Q = nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model))
        self.W_K = nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model))
        self.W_V = nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model))
        self.W_O = nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model))
        ### END SOLUTION

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend from query [B, N, d_model] to key and value [B, M, d_model].

        mask: Boolean, True = may attend, broadcasts to [B, h, N, M]; None hides nothing.
        Returns (output [B, N, d_model], weights [B, h, N, M]).
        """
        ### BEGIN SOLUTION
        B, N, d_model = query.shape
        M, h = key.shape[1], self.n_heads
        d_head = d_model // h
        q = (query @ self.W_Q).reshape(B, N, h, d_head).transpose(1, 2)  # [B, h, N, d_head]
        k = (key @ self.W_K).reshape(B, M, h, d_head).transpose(1, 2)  # [B, h, M, d_head]
        v = (value @ self.W_V).reshape(B, M, h, d_head).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(d_head)  # [B, h, N, M]
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)  # also where a whole row is hidden and the softmax is NaN
        heads = (weights @ v).transpose(1, 2).reshape(B, N, d_model)
        return heads @ self.W_O, weights
        ### END SOLUTION


# %%
check("MultiHeadAttention", MultiHeadAttention)
# %% [markdown] lang="en"
# ### The same as PyTorch's
#
# `nn.MultiheadAttention` keeps $W_Q, W_K, W_V$ in one tall matrix, transposed; it adds biases unless told not to; it averages the weights over the heads unless told not to; and its masks say the opposite: **True hides**. With all that translated, the two must agree.
# %% [markdown] lang="zh-TW"
# ### 跟 PyTorch 的一樣
#
# `nn.MultiheadAttention` 把 $W_Q, W_K, W_V$ 轉置後疊成一個高高的矩陣；除非特別指定，它會加偏置，也會把各個頭的權重平均；它的遮罩意思相反：**True 代表遮住**。這些都翻譯好之後，兩邊應該一致。
# %%
Attention = use("MultiHeadAttention", MultiHeadAttention)

d_model, h = 512, 8
ours = Attention(d_model, h)
theirs = nn.MultiheadAttention(d_model, h, bias=False, batch_first=True)
with torch.no_grad():
    for weight in ours.parameters():
        weight.normal_(std=d_model**-0.5, generator=generator)
    theirs.in_proj_weight.copy_(torch.cat([ours.W_Q.T, ours.W_K.T, ours.W_V.T]))
    theirs.out_proj.weight.copy_(ours.W_O.T)

    query, memory = torch.randn(2, 5, d_model, generator=generator), torch.randn(2, 7, d_model, generator=generator)
    may_attend = torch.ones(2, 7, dtype=torch.bool)
    may_attend[1, 5:] = False  # the second sentence has five tokens, then padding
    output, weights = ours(query, memory, memory, may_attend[:, None, None, :])
    expected, expected_weights = theirs(query, memory, memory, key_padding_mask=~may_attend, average_attn_weights=False)
print(f"largest difference: output {(output - expected).abs().max():.0e}, ", end="")
print(f"weights of all heads {(weights - expected_weights).abs().max():.0e}")
for bias in (False, True):
    count = sum(p.numel() for p in nn.MultiheadAttention(d_model, h, bias=bias).parameters())
    print(f"nn.MultiheadAttention, bias={bias!s:<5}: {count:,} parameters")
# %% [markdown] lang="en"
# One shape is a trap, in our layer and in the one that a document prints: a mask $[B, N, M]$, "one matrix for each sentence". Broadcasting lines up axes from the right, so the first axis of the mask meets the axis of the **heads**. If $B = h$, nothing complains.
# %% [markdown] lang="zh-TW"
# 有一種形狀是陷阱，我們的層和文件印出的那一個都會中：遮罩 $[B, N, M]$，「每個句子一個矩陣」。廣播從右邊對齊，所以遮罩的第一個軸會對上**頭**的軸。要是剛好 $B = h$，連錯誤訊息都沒有。
# %%
small = Attention(8, 2)
sentences = torch.randn(2, 4, 8, generator=generator)  # B = 2 and h = 2
per_sentence = torch.ones(2, 4, 4, dtype=torch.bool)
per_sentence[1, :, 2:] = False  # sentence 1 is only two tokens long
for name, mask in (("[B, N, M]", per_sentence), ("[B, 1, N, M]", per_sentence[:, None])):
    with torch.no_grad():
        _, weights = small(sentences, sentences, sentences, mask)
    hidden = [[bool((weights[b, j, :, 2:] == 0).all()) for j in range(2)] for b in range(2)]
    print(f"mask {name:<13} last two keys hidden in sentence 0: heads {hidden[0]}, sentence 1: heads {hidden[1]}")
# %% [markdown] lang="en"
# With $[B, N, M]$ head 1 of *both* sentences is masked, and head 0 of neither: padding leaks, without an error. Say which axis you mean: `mask[:, None]`.
#
# **Another silence.** Much code, that layer included, lets a −1 in `view` find the number of tokens. If $d_\text{model}$ is not divisible by $h$, −1 finds *something*. (That layer also hides with −1e9; the last line shows what float16 says to it.)
# %% [markdown] lang="zh-TW"
# 用 $[B, N, M]$ 時，**兩個**句子的第 1 個頭都被遮了，第 0 個頭都沒遮：填補漏了進來，而且沒有錯誤訊息。要說清楚是哪個軸：`mask[:, None]`。
#
# **另一個悶不吭聲的錯**：許多程式（文件那一層也是）在 `view` 裡寫 −1，讓它自己算出詞元數。$d_\text{model}$ 不能被 $h$ 整除時，−1 還是會算出**某個數**。（那一層還用 −1e9 來遮；最後一行看看 float16 怎麼說。）
# %%
d, n_heads, N = 10, 3, 9
as_heads = torch.zeros(1, N, d).view(1, -1, n_heads, d // n_heads)  # 90 numbers = 10 · 3 · 3
print(f"{N} tokens of {d} numbers went in, {as_heads.shape[1]} tokens of {n_heads} heads came out, no error")
try:
    torch.zeros(2, 2, dtype=torch.float16).masked_fill(torch.eye(2) > 0, -1e9)
except RuntimeError as problem:
    print("its −1e9 in float16:", str(problem).split("\n")[0])


# %% [markdown] lang="en"
# ### What one head cannot do
#
# Back to the question. A task in miniature: each of 8 tokens carries 8 random numbers and its place. Wanted at each place: the numbers of the token **before**, and, separately, those of the token **after** (in a circle). We train layers of the same size, $d_\text{model} = 16$ and $4\cdot16^2$ weights, that differ in $h$ only. Guess the order before you run it; an error of 1 means "learned nothing".
# %% [markdown] lang="zh-TW"
# ### 一個頭做不到的事
#
# 回到開頭的問題。一個迷你任務：8 個詞元，各帶 8 個隨機的數和自己的位置。每個位置要輸出**前一個**詞元的數，以及（分開放）**後一個**詞元的數（繞成一圈）。我們訓練幾個大小完全相同的層，$d_\text{model} = 16$、$4\cdot16^2$ 個權重，只有 $h$ 不同。執行之前先猜名次；誤差 1 代表「什麼都沒學到」。
# %% tags=["experiment"]
def learn(h: int, steps: int = 250) -> list[float]:
    """Train one layer with h heads to fetch both neighbours; the loss at every step."""
    generator = torch.Generator().manual_seed(0)
    layer = Attention(16, h)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(std=0.3, generator=generator)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    place = torch.eye(8).expand(32, 8, 8)
    losses = []
    for _ in range(steps):
        content = torch.randn(32, 8, 8, generator=generator)
        x = torch.cat([content, place], dim=-1)
        wanted = torch.cat([content.roll(1, dims=1), content.roll(-1, dims=1)], dim=-1)
        loss = F.mse_loss(layer(x, x, x)[0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = {f"{h} heads of {16 // h}" if h > 1 else "1 head of 16": learn(h) for h in (1, 2, 4, 16)}
ax = curves(range(250), losses, "step", "mean squared error", "Fetch both neighbours; same number of weights")
ax.set_ylim(-0.03, 1.4)
for name, values in losses.items():
    print(f"{name:<14} error at the end {sum(values[-20:]) / 20:.3f}")


# %% [markdown] lang="en"
# One head is stuck: it has one row of weights a token, so before and after reach the output in one blend, and no matrix can take them apart. Two heads learn it completely. Sixteen heads fail as well: each has a query of *one* number, too little to point at a place.
#
# The paper saw the same shape on translation, with $h\cdot d_\text{head}=512$ throughout (Table 3, rows A): BLEU 24.9 for 1 head, 25.5 for 4, 25.8 for 8 and for 16, 25.4 for 32.
# %% [markdown] lang="zh-TW"
# 一個頭卡住了：每個詞元只有一列權重，「前」和「後」是混在一起進到輸出的，沒有矩陣能把它們分開。兩個頭就完全學會。十六個頭也學不好：每個頭的查詢只剩**一個**數，不夠指出位置。
#
# 論文在翻譯上看到同樣的形狀，$h\cdot d_\text{head}$ 固定是 512（表 3，A 組）：1 個頭 BLEU 24.9，4 個 25.5，8 個和 16 個都是 25.8，32 個 25.4。
# %% [markdown] lang="en"
# ## 5. What it costs
#
# ### Exercise `attention_parameter_count` · difficulty 2 of 5 · 6 minutes · 1 point
#
# Does a layer of 8 heads have 8 times the weights? **Small first.** $d_\text{model}=4$, 2 heads: four $4\times4$ matrices, 64 weights. With biases 4 more each: 80.
#
# Keys and values may have *fewer* heads than the queries, `n_kv_heads`; section 6 shows what for. With one of them, $W_K$ and $W_V$ are $4\times2$: $16+8+8+16=48$, with biases $48+4+2+2+4=60$.
# %% [markdown] lang="zh-TW"
# ## 5. 要花多少成本
#
# ### 練習 `attention_parameter_count` · 難度 2／5 · 6 分鐘 · 滿分 1 分
#
# 8 個頭的層，參數是 8 倍嗎？**先看小例子**：$d_\text{model}=4$、2 個頭，四個 $4\times4$ 矩陣，共 64 個權重。有偏置的話每個再加 4，共 80。
#
# 鍵與值的頭可以比查詢的**少**，記作 `n_kv_heads`，第 6 節會說為什麼。只有一個時，$W_K$ 與 $W_V$ 是 $4\times2$：$16+8+8+16=48$；加上偏置是 $48+4+2+2+4=60$。
# %% [markdown] lang="en"
# **In general** $W_Q$ and $W_O$ are $d_\text{model}\times d_\text{model}$, $W_K$ and $W_V$ are $d_\text{model}\times(n_\text{kv}\,d_\text{head})$; `None` stands for $n_\text{kv}=h$. With `bias`, each of the four adds one number for each of its output columns. Return an `int`, by counting yourself: `nn.MultiheadAttention` is not allowed here either. Judged: 512 and 8, other sizes, with and without biases, fewer key/value heads, and both together.
# %% [markdown] lang="zh-TW"
# **一般情形**：$W_Q$ 與 $W_O$ 是 $d_\text{model}\times d_\text{model}$，$W_K$ 與 $W_V$ 是 $d_\text{model}\times(n_\text{kv}\,d_\text{head})$；`None` 表示 $n_\text{kv}=h$。有 `bias` 時，四個投影各替自己的每個輸出行多加一個數。回傳 `int`，請自己數：這題同樣不能用 `nn.MultiheadAttention`。檢查會看：512 與 8、其他大小、有無偏置、鍵與值的頭比較少，以及兩者同時出現。
# %% exercise="attention_parameter_count"
def attention_parameter_count(d_model: int, n_heads: int, n_kv_heads: int | None = None, bias: bool = False) -> int:
    """Count the numbers that a multi-head attention layer learns.

    Args:
        d_model: width of the model, divisible by n_heads; d_head = d_model / n_heads.
        n_heads: number of query heads h.
        n_kv_heads: number of key/value heads, divides n_heads; None means n_heads.
        bias: whether each of the four projections adds a bias, one number for each of its output columns.

    Returns:
        An int. 512, 8 gives 1 048 576, and 1 050 624 with bias.
    """
    ### BEGIN SOLUTION
    d_head = d_model // n_heads
    d_kv = d_head * (n_heads if n_kv_heads is None else n_kv_heads)
    weights = 2 * d_model * d_model + 2 * d_model * d_kv  # W_Q and W_O, W_K and W_V
    biases = 2 * d_model + 2 * d_kv
    return weights + biases if bias else weights
    ### END SOLUTION


# %%
check("attention_parameter_count", attention_parameter_count)
# %% [markdown] lang="en"
# $h\,d_\text{head}=d_\text{model}$ is the choice of 2017, not a law. Gemma's configuration has $d_\text{model}=3072$ and 16 heads of **256**, not of $3072/16=192$. Its $W^O$ is then no longer square:
# %% [markdown] lang="zh-TW"
# $h\,d_\text{head}=d_\text{model}$ 是 2017 年的選擇，不是定律。Gemma 的設定是 $d_\text{model}=3072$、16 個頭，每個頭 **256**，而不是 $3072/16=192$。這時 $W^O$ 就不是方陣了：
# %%
count = use("attention_parameter_count", attention_parameter_count)

for n_heads in (1, 8, 64):
    print(f"d_model = 512, {n_heads:>2} heads of {512 // n_heads:>3}: {count(512, n_heads):,} weights")
d, n_heads, d_head = 3072, 16, 256
print(f"Gemma: W_Q [{d}, {n_heads * d_head}], W_O [{n_heads * d_head}, {d}], ", end="")
print(f"{4 * d * n_heads * d_head:,} weights; with d_model / h it would be {count(d, n_heads):,}")


# %% [markdown] lang="en"
# ### Exercise `attention_flops` · difficulty 3 of 5 · 10 minutes · 2 points
#
# Count the work of all matrix products. A product of $[n,p]$ and $[p,m]$ fills $n\,m$ places with $p$ multiply-adds each. **Convention: one multiply-add is 2 operations**, so $2npm$. Texts that count it as 1 differ by a factor of 2: always say which.
#
# **Small first.** $N=2$ queries, $M=3$ keys, $d_\text{model}=4$, 2 heads. Projections: $2\cdot2\cdot4\cdot4=64$ for queries and for the output, $2\cdot3\cdot4\cdot4=96$ for keys and for values: 320. Scores: $2\cdot2\cdot2\cdot3=24$ a head, mixing the same: 96. Together 416.
# %% [markdown] lang="zh-TW"
# ### 練習 `attention_flops` · 難度 3／5 · 10 分鐘 · 滿分 2 分
#
# 數一數所有矩陣乘法的運算量。$[n,p]$ 乘 $[p,m]$ 要填 $n\,m$ 格，每格 $p$ 次乘加。**約定：一次乘加算 2 個運算**，所以是 $2npm$。有些文章算 1 個，差了兩倍；寫的時候一定要講清楚。
#
# **先看小例子**：$N=2$ 個查詢、$M=3$ 個鍵、$d_\text{model}=4$、2 個頭。投影：查詢與輸出各 $2\cdot2\cdot4\cdot4=64$，鍵與值各 $2\cdot3\cdot4\cdot4=96$，共 320。分數：每個頭 $2\cdot2\cdot2\cdot3=24$，混合也是 24，兩個頭共 96。總計 416。
# %% [markdown] lang="en"
# **In general** six products: four projections (two over the $N$ queries, two over the $M$ keys), and in each head $qk^\top$ and weights times $v$. One sentence, as many key/value heads as query heads. Softmax, scaling and masks are not counted. Return an exact `int`: counts beyond $2^{53}$ occur, where a float loses digits. Not allowed: torch's own counters (`FlopCounterMode`, the profiler). Judged: $N = M$, $N \ne M$, one query, one head.
# %% [markdown] lang="zh-TW"
# **一般情形**有六個乘積：四個投影（兩個對 $N$ 個查詢做，兩個對 $M$ 個鍵做），以及每個頭裡的 $qk^\top$ 和權重乘 $v$。只算一個句子，鍵與值的頭和查詢一樣多；softmax、縮放、遮罩都不算。回傳精確的 `int`：會出現超過 $2^{53}$ 的數，浮點數會丟掉位數。不可使用 torch 自己的計數工具（`FlopCounterMode`、profiler）。檢查會看：$N = M$、$N \ne M$、一個查詢、一個頭。
# %% exercise="attention_flops"
def attention_flops(n_queries: int, n_keys: int, d_model: int, n_heads: int) -> int:
    """Count the operations in the matrix products of a multi-head attention layer; one multiply-add counts 2.

    Args:
        n_queries: N.
        n_keys: M.
        d_model: width of the model, divisible by n_heads.
        n_heads: number of heads; there are as many key/value heads.

    Returns:
        An int: the four projections, and scores and mixing in all heads, for one sentence.
    """
    ### BEGIN SOLUTION
    d_head = d_model // n_heads
    projections = 2 * (2 * n_queries + 2 * n_keys) * d_model * d_model
    scores = 2 * n_queries * n_keys * d_head * n_heads  # [N, d_head] times [d_head, M], in every head
    mixing = 2 * n_queries * n_keys * d_head * n_heads  # [N, M] times [M, d_head], in every head
    return projections + scores + mixing
    ### END SOLUTION


# %%
check("attention_flops", attention_flops)
# %% [markdown] lang="en"
# **"Eight heads cost exactly what one costs."** The formula ends as $4Nd^2+4Md^2+4NMd$: the number of heads has dropped out, since $h\,d_\text{head}=d$. So far the document is right. But the matrix products are not all there is: every head makes its *own* $N\times M$ weights.
# %% [markdown] lang="zh-TW"
# **「8 個頭的計算量和單頭完全一致。」** 公式化簡之後是 $4Nd^2+4Md^2+4NMd$：因為 $h\,d_\text{head}=d$，頭的個數消失了。到這裡文件是對的。不過事情不只有矩陣乘法：每個頭都要做出**自己的** $N\times M$ 個權重。
# %%
flops = use("attention_flops", attention_flops)

N = 512
for n_heads in (1, 8):
    print(
        f"{n_heads} head(s) of {512 // n_heads:>3}: {flops(N, N, 512, n_heads):.2e} FLOPs, "
        f"{n_heads * N * N / 1e6:.2f} M weights to exponentiate and keep"
    )
print(f"8 heads of 64 against 1 head of 64: scores and mixing {8 * 4 * N * N * 64:.1e} to {4 * N * N * 64:.1e} FLOPs")


# %% [markdown] lang="en"
# Now measured, on one core: the whole layer with 8 heads against the same layer with 1, with the formula written out ("explicit") and with PyTorch's fused kernel, which never stores the weights. Times vary with the machine; look at the ratios.
# %% [markdown] lang="zh-TW"
# 再實際測量：用一個核心跑，同一層分別用 8 個頭與 1 個頭。一種照公式寫（explicit），一種用 PyTorch 的融合核心（fused，不會把權重存下來）。時間因機器而異，請看比值。
# %% tags=["experiment"]
def explicit(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def run_layer(x: Tensor, n_heads: int, core, repeats: int) -> float:
    """Processor time of the whole layer, in seconds: waiting for other programs does not count."""
    begin = time.thread_time()
    for _ in range(repeats):
        q, k, v = (split(x @ weight, n_heads) for weight in (ours.W_Q, ours.W_K, ours.W_V))
        merge(core(q, k, v)) @ ours.W_O
    return (time.thread_time() - begin) / repeats


ratios = {"explicit": [], "fused": []}
with torch.no_grad():
    for N, repeats in ((128, 40), (512, 8), (2048, 2)):
        x = torch.randn(1, N, 512, generator=generator)
        for name, core in (("explicit", explicit), ("fused", F.scaled_dot_product_attention)):
            run_layer(x, 8, core, 1)  # to warm up
            one, eight = (run_layer(x, n_heads, core, repeats) for n_heads in (1, 8))
            ratios[name].append(eight / one)
            print(
                f"N = {N:>4}, {name:<8}: 1 head {1000 * one:6.1f} ms, 8 heads {1000 * eight:6.1f} ms, "
                f"ratio {eight / one:.2f}"
            )
ax = bars(["N = 128", "N = 512", "N = 2048"], ratios, "time of 8 heads / time of 1", "Same FLOPs, same time?")
_ = ax.axhline(1, color="#444444", linestyle=":", linewidth=1.5)
# %% [markdown] lang="en"
# Written out, eight heads took about 1 to 1.1, 1.4 to 2, and 2 to 3 times as long on our machines: at large $N$ the layer mostly moves weights to memory and back, and there are eight times as many. Fused, the ratio stays between 1 and 1.3. Equal cost is true of the products, and of the clock only with the right kernel (lesson 09). The paper itself says "similar".
# %% [markdown] lang="zh-TW"
# 照公式寫，8 個頭在我們的機器上大約花了 1 到 1.1、1.4 到 2、2 到 3 倍的時間：$N$ 很大時，這一層多半在把權重搬進搬出記憶體，而權重有八倍多。用融合核心，比值在 1 到 1.3 之間。「成本相同」對矩陣乘法成立；對時鐘，要用對核心才成立（第 09 課）。論文自己的用詞也只是「相近」（similar）。
# %% [markdown] lang="en"
# **Trillions a second?** One article closes with the picture of a language model at work, doing "trillions of $QK^\top$ matrix products a second". You can now check such sentences. Take 1000 tokens, a head of 128, and a machine with $10^{15}$ operations a second:
# %% [markdown] lang="zh-TW"
# **每秒數兆次？** 有一篇文章最後說，語言模型運作時「每秒進行數兆次 $QK^\top$ 矩陣乘積」。這種話你現在可以自己驗算。取 1000 個詞元、寬 128 的頭，以及每秒 $10^{15}$ 個運算的機器：
# %%
one_product = 2 * 1000 * 128 * 1000  # [1000, 128] times [128, 1000]
print(f"one QKᵀ: {one_product:.2e} FLOPs, so at most {1e15 / one_product / 1e6:.1f} million a second")


# %% [markdown] lang="en"
# Millions, not trillions: off by a factor of about 250,000 at least. (Trillions of single *inner products* would be fair.)
# %% [markdown] lang="zh-TW"
# 是數百萬，不是數兆，至少差了二十五萬倍。（若說的是數兆次單一的**內積**，就合理了。）
# %% [markdown] lang="en"
# ## 6. Fewer keys and values: GQA and MQA
#
# A model that writes keeps the keys and values of everything it has read (lesson 10), for every head. That memory is the bottleneck. But who says that each query head needs keys and values of its own?
#
# - **MHA**, multi-head: $n_\text{kv}=h$, everyone has their own.
# - **MQA**, multi-query (2019): $n_\text{kv}=1$, all query heads read the same keys and values.
# - **GQA**, grouped-query (2023): in between; neighbouring query heads form a group and share.
# %% [markdown] lang="zh-TW"
# ## 6. 鍵與值少一點：GQA 與 MQA
#
# 寫文章的模型，會把讀過的每個詞元的鍵與值都留著（第 10 課），每個頭各留一份。這塊記憶體就是瓶頸。可是，誰規定每個查詢頭都要有自己的鍵與值？
#
# - **MHA**（多頭）：$n_\text{kv}=h$，人人自備一份。
# - **多查詢注意力（MQA）**，2019 年：$n_\text{kv}=1$，所有查詢頭讀同一份鍵與值。
# - **分組查詢注意力（GQA）**，2023 年：介於中間，相鄰的查詢頭編成一組，共用一份。
# %% [markdown] lang="en"
# ### Exercise `grouped_query_attention` · difficulty 3 of 5 · 10 minutes · 3 points
#
# **Small first.** Four query heads, two key/value heads, a single key, so that every weight is 1. The values are 10 in head 0 and 20 in head 1. Query heads 0 and 1 read head 0, query heads 2 and 3 read head 1: the outputs are 10, 10, 20, 20. (Not 10, 20, 10, 20!)
#
# **In general** query head $j$ reads key/value head $\lfloor j/(h/n_\text{kv})\rfloor$.
# %% [markdown] lang="zh-TW"
# ### 練習 `grouped_query_attention` · 難度 3／5 · 10 分鐘 · 滿分 3 分
#
# **先看小例子**：四個查詢頭、兩個鍵與值的頭，只有一個鍵，所以權重都是 1。值在第 0 個頭是 10，在第 1 個頭是 20。查詢頭 0、1 讀第 0 個頭，查詢頭 2、3 讀第 1 個頭：輸出是 10、10、20、20。（不是 10、20、10、20！）
#
# **一般情形**：第 $j$ 個查詢頭讀第 $\lfloor j/(h/n_\text{kv})\rfloor$ 個鍵與值的頭。
# %% [markdown] lang="en"
# Queries $[B, h, N, d_k]$, keys $[B, n_\text{kv}, M, d_k]$, values $[B, n_\text{kv}, M, d_v]$, already projected. Return the output $[B, h, N, d_v]$ and the weights $[B, h, N, M]$. Scale by $\sqrt{d_k}$. Judged: $n_\text{kv}=1$, $1<n_\text{kv}<h$, $n_\text{kv}=h$; $d_v \ne d_k$; masks $[N, M]$, $[h, N, M]$, $[B, 1, 1, M]$, $[B, h, N, M]$ with hidden keys at exactly 0; a row with nothing to attend to gives zeros; gradients, finite there too.
# %% [markdown] lang="zh-TW"
# 查詢 $[B, h, N, d_k]$、鍵 $[B, n_\text{kv}, M, d_k]$、值 $[B, n_\text{kv}, M, d_v]$，都已經投影好。回傳輸出 $[B, h, N, d_v]$ 與權重 $[B, h, N, M]$，除以 $\sqrt{d_k}$。檢查會看：$n_\text{kv}=1$、$1<n_\text{kv}<h$、$n_\text{kv}=h$；$d_v \ne d_k$；遮罩 $[N, M]$、$[h, N, M]$、$[B, 1, 1, M]$、$[B, h, N, M]$，被遮住的鍵權重恰為 0；沒有東西可看的列得到 0；梯度，遇到這種列也要有限。
# %% exercise="grouped_query_attention"
def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention where groups of neighbouring query heads share a key/value head.

    Args:
        q: queries, [B, h, N, d_k], float32 or float64.
        k: keys, [B, n_kv, M, d_k]; n_kv divides h.
        v: values, [B, n_kv, M, d_v].
        mask: Boolean, True = may attend, broadcasts to [B, h, N, M]; None hides nothing.

    Returns:
        (output [B, h, N, d_v], weights [B, h, N, M]).
    """
    ### BEGIN SOLUTION
    group = q.shape[1] // k.shape[1]  # query heads that share one key/value head
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # 0, 0, 1, 1, …
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights
    ### END SOLUTION


# %%
check("grouped_query_attention", grouped_query_attention)
# %% [markdown] lang="en"
# Who reads whom? Hand in values that carry the number of their head (as a one-hot vector), and the output says it. Beside it, the order that `repeat` would give. And PyTorch's own: `enable_gqa=True`.
# %% [markdown] lang="zh-TW"
# 誰讀了誰？把值設成自己的頭的編號（獨熱向量），輸出就會告訴你。旁邊是用 `repeat` 會得到的順序。最後跟 PyTorch 的 `enable_gqa=True` 對照。
# %%
grouped = use("grouped_query_attention", grouped_query_attention)

h, n_kv = 6, 2
q, k = torch.randn(1, h, 3, 4, generator=generator), torch.randn(1, n_kv, 5, 4, generator=generator)
names = torch.eye(n_kv)[None, :, None].expand(1, n_kv, 5, n_kv)  # every value says which head it is from
output, _ = grouped(q, k, names)
use_style()
figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2))
for ax, name, reads in (
    (axes[0], "grouped", output[0, :, 0]),
    (axes[1], "repeat: wrong order", torch.eye(n_kv).repeat(h // n_kv, 1)),
):
    heat_map(reads, title=name, ax=ax)
    ax.set(xlabel="key/value head", ylabel="query head")

v = torch.randn(1, n_kv, 5, 4, generator=generator)
expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
print(f"largest difference from PyTorch's: {(grouped(q, k, v)[0] - expected).abs().max():.0e}")
for kv in (64, 8, 1):  # Llama 2 70B: d_model 8192, 64 query heads, 8 key/value heads
    print(f"d_model 8192, 64 query heads, {kv:>2} key/value heads: {count(8192, 64, kv) / 1e6:.0f} M weights a layer")


# %% [markdown] lang="en"
# ## 7. On a real model
#
# MiniLM again: 6 layers, 12 heads of 32, $d_\text{model}=384$. If its weights are not on this machine, the next cell says how to get them, and the lesson goes on without.
# %% [markdown] lang="zh-TW"
# ## 7. 換成真的模型
#
# 再請出 MiniLM：6 層，每層 12 個寬 32 的頭，$d_\text{model}=384$。這臺電腦上若沒有它的權重，下一個儲存格會說明怎麼取得；課程照樣可以往下走。
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, encode, load_minilm

try:
    tokenizer, model = load_minilm()
except CheckpointMissing as missing:
    model = None
    print(missing)
# %% [markdown] lang="en"
# One heat map for each head of a layer, darker = more weight, each map on its own scale. Rows ask, columns answer. Change `LAYER` (1 to 6) and run again. `[CLS]` and `[SEP]` are the marks around every sentence: we leave them in, and you will see why.
# %% [markdown] lang="zh-TW"
# 一層裡每個頭一張熱圖，顏色愈深權重愈大（每張圖各有自己的色階）。列在發問，行在應答。改改 `LAYER`（1 到 6），再執行一次。`[CLS]` 與 `[SEP]` 是每句頭尾的記號；我們刻意留著，等一下就知道為什麼。
# %% tags=["experiment"]
LAYER = 1
SENTENCE = "The cat sat on the mat because it was tired."

if model is not None:
    seen = encode(tokenizer, model, SENTENCE)
    use_style()
    figure, axes = plt.subplots(3, 4, figsize=(9.6, 8.0))
    for j, ax in enumerate(axes.flat):
        first, bottom = j % 4 == 0, j >= 8
        heat_map(seen.attention[LAYER - 1, j], title=f"head {j + 1}", ax=ax, values=False)
        ticks = range(len(seen.tokens))
        ax.set_yticks(ticks if first else [], seen.tokens if first else [], fontsize=8)
        ax.set_xticks(ticks if bottom else [], seen.tokens if bottom else [], fontsize=8, rotation=90)
        ax.set(xlabel="key" if bottom else "", ylabel="query" if first else "")
    _ = figure.suptitle(f"MiniLM, layer {LAYER}: twelve heads, one sentence")
# %% [markdown] lang="en"
# **Is this really your layer?** Take the projected queries and keys out of the model, give them to *your* `split_heads`, and compute the weights. Then the same with `view` alone.
# %% [markdown] lang="zh-TW"
# **這真的就是你寫的東西嗎？** 把模型投影好的查詢與鍵取出來，交給**你的** `split_heads`，再算出權重。然後改用只有 `view` 的寫法比一比。
# %% tags=["experiment"]
if model is not None:
    attention = model.encoder.layers[LAYER - 1].attention
    projected = {}  # what each of the two projections puts out: [1, 13, 384]
    hooks = [
        part.register_forward_hook(lambda part, _, output: projected.update({part: output.detach()}))
        for part in (attention.w_q, attention.w_k)
    ]
    encode(tokenizer, model, SENTENCE)
    for hook in hooks:
        hook.remove()
    Q, K = projected[attention.w_q], projected[attention.w_k]
    for name, q, k in (
        ("split_heads", split(Q, 12), split(K, 12)),
        ("view alone", Q.reshape(1, 12, 13, 32), K.reshape(1, 12, 13, 32)),
    ):
        maps = torch.softmax(q @ k.mT / math.sqrt(32), dim=-1)[0]
        print(
            f"{name:<12} largest difference from the model's own maps: "
            f"{(maps - seen.attention[LAYER - 1]).abs().max():.0e}"
        )
# %% [markdown] lang="en"
# ### Do the heads have jobs?
#
# The article's three jobs, as weights: *sat*→*cat* (subject), *it*→*cat* (pronoun), *tired*→*it* (what is described). For each we take the best of all 72 heads. Then the counter-test for the first: put a word in between, "The cat **quietly** sat …".
# %% [markdown] lang="zh-TW"
# ### 頭真的各有任務嗎？
#
# 把文章說的三種任務寫成權重：*sat*→*cat*（主詞）、*it*→*cat*（代名詞）、*tired*→*it*（修飾對象）。每一種都從 72 個頭裡挑最好的。然後替第一種做個反面驗證：中間插一個字，「The cat **quietly** sat …」。
# %% tags=["experiment"]
if model is not None:

    def best_head(seen, asks: str, answers: str) -> tuple[int, int, float]:
        """Layer and head (from 1) with the largest weight asks → answers, and that weight."""
        weights = seen.attention[:, :, seen.tokens.index(asks), seen.tokens.index(answers)]  # [6, 12]
        place = int(weights.argmax())
        return place // 12 + 1, place % 12 + 1, weights.max().item()

    for asks, answers in (("sat", "cat"), ("it", "cat"), ("tired", "it")):
        layer, head, weight = best_head(seen, asks, answers)
        print(f"{asks:>5} → {answers}: best in layer {layer}, head {head}: {weight:.2f}")
    apart = encode(tokenizer, model, "The cat quietly sat on the mat because it was tired.")
    sat, cat, quietly = (apart.tokens.index(word) for word in ("sat", "cat", "quietly"))
    row = apart.attention[0, 2, sat]  # layer 1, head 3
    print(f"with 'quietly' in between, layer 1 head 3: sat → cat {row[cat]:.2f}, sat → quietly {row[quietly]:.2f}")
    it = seen.attention[:, :, seen.tokens.index("it")].argmax(dim=-1)  # where "it" looks most, in every head
    marks = (it == 0) | (it == len(seen.tokens) - 1)
    print(
        f"'it' looks most at 'cat' in {(it == seen.tokens.index('cat')).sum()} of 72 heads, "
        f"at [CLS] or [SEP] in {marks.sum()}"
    )
# %% [markdown] lang="en"
# The "subject head" was a fake: layer 1, head 3 gives everything to *the word before*, whatever it is. In our sentence that happened to be the subject. A head chosen because it fits one sentence tells you about the choosing.
#
# So measure over several sentences and over *all* heads: how much weight goes to the token before, to the one after, and to the two marks?
# %% [markdown] lang="zh-TW"
# 「主詞頭」露餡了：第 1 層第 3 個頭不管三七二十一，把權重全給**前一個字**；在原句裡，前一個字剛好是主詞。因為符合一個句子而挑出來的頭，說明的只是你挑了什麼。
#
# 所以要用好幾個句子、看**全部**的頭：前一個詞元、後一個詞元、兩個記號，各拿到多少權重？
# %% tags=["experiment"]
if model is not None:
    sentences = [
        SENTENCE,
        "She gave the old book to her brother before he left the house.",
        "When the rain stopped, the children ran outside and played football.",
        "My neighbour sold his red car last week, but nobody has come to collect it yet.",
    ]
    encoded = [encode(tokenizer, model, text) for text in sentences]
    habits = {"before": [], "after": [], "[CLS] or [SEP]": []}
    for s in encoded:
        words = torch.arange(1, len(s.tokens) - 1)  # rows of the words, without the marks
        habits["before"].append(s.attention[:, :, words, words - 1].mean(-1))
        habits["after"].append(s.attention[:, :, words, words + 1].mean(-1))
        habits["[CLS] or [SEP]"].append((s.attention[:, :, words, 0] + s.attention[:, :, words, -1]).mean(-1))
    habits = {name: torch.stack(shares).mean(0) for name, shares in habits.items()}  # each [6, 12]
    for name, share in habits.items():
        place = int(share.argmax())
        print(f"{name:<15} most in layer {place // 12 + 1}, head {place % 12 + 1}: {share.max():.2f}")
    on_marks = habits["[CLS] or [SEP]"]
    print(
        f"heads that give more than half to the marks: {(on_marks > 0.5).sum()} of 72; on average {on_marks.mean():.2f}"
    )
    ax = heat_map(
        on_marks, [f"layer {n}" for n in range(1, 7)], [str(n) for n in range(1, 13)], "weight on [CLS] and [SEP]"
    )
    ax.set(xlabel="head", ylabel="")
# %% [markdown] lang="en"
# There *are* specialists: one head looks back by one word, always; one tends to look ahead. But nearly half of all weight goes to two marks without meaning. Many heads rest there when they find nothing. Heat maps with the marks cut away hide this, and look wiser than the model is.
# %% [markdown] lang="zh-TW"
# 專家**確實**存在：有個頭永遠看前一個字，有個頭偏好看後一個。但將近一半的權重給了兩個沒有意義的記號，許多頭找不到東西時就停在那裡。把記號裁掉的熱圖會藏起這件事，看起來比模型本身還聰明。
# %% [markdown] lang="en"
# ### "Eight times the diversity"
#
# A document says that eight heads give eight times the diversity. Diversity is not a quantity, so let us offer two that can be computed.
#
# **First, what one head can express.** The scores of head $j$ are $X\,W^Q_j (W^K_j)^\top X^\top$. The matrix in the middle, $[d_\text{model}, d_\text{model}]$, has rank at most $d_\text{head}$. So there are more maps, but each of a simpler kind.
# %% [markdown] lang="zh-TW"
# ### 「8 倍的多樣性」
#
# 有份文件說，八個頭帶來 8 倍的多樣性。多樣性不是一個量，所以我們提出兩個算得出來的。
#
# **第一，一個頭能表達什麼**：第 $j$ 個頭的分數是 $X\,W^Q_j (W^K_j)^\top X^\top$，中間的矩陣是 $[d_\text{model}, d_\text{model}]$，秩最多是 $d_\text{head}$。所以圖變多了，但每一張都比較簡單。
# %%
with torch.no_grad():
    for n_heads in (1, 8):
        width = 512 // n_heads
        form = ours.W_Q[:, :width].double() @ ours.W_K[:, :width].double().T  # the first head's form
        rank = torch.linalg.matrix_rank(form)
        print(f"{n_heads} head(s): the score form of a head is {list(form.shape)}, rank {rank}")
# %% [markdown] lang="en"
# **Second, how different the maps are.** Lay each head's map out as one long vector and take the cosine of every pair: a $12\times12$ matrix. Its eigenvalues, divided by 12, are never negative and sum to 1, like weights; so the entropy $H$ of lesson 03 can read them. $e^{H}$ of these weights is an **effective number of different heads**: 12 if no two maps overlap, 1 if all are the same.
# %% [markdown] lang="zh-TW"
# **第二，這些圖有多不同**：把每個頭的圖攤成一個長向量，兩兩算餘弦相似度，得到 $12\times12$ 的矩陣。它的特徵值除以 12，都不是負的，加起來是 1，就像權重一樣；所以可以用第 03 課的熵 $H$ 來讀。這些權重的 $e^{H}$ 就是**有效的頭數**：任兩張圖都不重疊時是 12，全部相同時是 1。
# %% tags=["experiment"]
if model is not None:

    def effective_number(maps: Tensor) -> float:
        """exp of the entropy of the eigenvalues of the cosine matrix; maps: [h, anything]."""
        directions = F.normalize(maps.double(), dim=-1)
        shares = torch.linalg.eigvalsh(directions @ directions.T / len(maps)).clamp(min=1e-12)
        return float(torch.exp(-(shares * shares.log()).sum()))

    with_marks, words_only = [], []
    for layer in range(6):
        whole = [s.attention[layer].flatten(1) for s in encoded]
        inner = [F.normalize(s.attention[layer][:, 1:-1, 1:-1], p=1, dim=-1).flatten(1) for s in encoded]
        with_marks.append(effective_number(torch.cat(whole, dim=-1)))
        words_only.append(effective_number(torch.cat(inner, dim=-1)))
    ax = bars(
        [f"layer {n}" for n in range(1, 7)],
        {"whole maps": with_marks, "words only": words_only},
        "effective number of heads",
        "Twelve heads, how many different maps?",
    )
    ax.axhline(12, color="#444444", linestyle=":", linewidth=1.5)
    _ = ax.set_ylim(0, 14.5)
    print(
        f"whole maps {min(with_marks):.1f} to {max(with_marks):.1f}, "
        f"words only {min(words_only):.1f} to {max(words_only):.1f}, of 12"
    )
# %% [markdown] lang="en"
# Twelve heads behave like two to four, or like five to seven where only words count. More than one, which is the point; far from twelve. Another measure would give other numbers, and that *is* the answer to "eight times". What the paper measured is a gain of 0.9 BLEU.
# %% [markdown] lang="zh-TW"
# 十二個頭的表現像二到四個；只看字與字之間，像五到七個。比一個多，這正是多頭的用意；但離十二還很遠。換一種量法會得到別的數，這**就是**對「8 倍」的回答。論文真正量到的，是 BLEU 進步 0.9。
# %% [markdown] lang="en"
# ### Take one away
#
# The sum $\sum_j \mathrm{head}_j W^O_j$ lets us switch a head off: set its rows of $W^O$ to zero. (`nn.Linear` stores the transpose, so here they are columns.) We do this for each of the 72 heads and see how far the sentence's mean vector turns, as $1-\cos$.
# %% [markdown] lang="zh-TW"
# ### 拿掉一個試試
#
# 有了總和 $\sum_j \mathrm{head}_j W^O_j$，關掉一個頭很容易：把 $W^O$ 屬於它的列設成 0。（`nn.Linear` 存的是轉置，所以在程式裡是行。）我們對 72 個頭各做一次，看句子的平均向量轉了多少，用 $1-\cos$ 來量。
# %% tags=["experiment"]
if model is not None:
    usual = seen.states.mean(dim=0)
    turned = torch.zeros(6, 12)
    for layer in range(6):
        weight = model.encoder.layers[layer].attention.w_o.weight
        kept = weight.detach().clone()
        for j in range(12):
            with torch.no_grad():
                weight[:, 32 * j : 32 * (j + 1)] = 0.0
            without = encode(tokenizer, model, SENTENCE).states.mean(dim=0)
            turned[layer, j] = 1 - torch.cosine_similarity(usual, without, dim=0)
            with torch.no_grad():
                weight.copy_(kept)
    ax = heat_map(
        1000 * turned,
        [f"layer {n}" for n in range(1, 7)],
        [str(n) for n in range(1, 13)],
        "1000 (1 − cos) without this head",
    )
    ax.set(xlabel="head", ylabel="")
    place = int(turned.argmax())
    print(f"median {turned.median():.4f}, largest {turned.max():.3f}: layer {place // 12 + 1}, head {place % 12 + 1}")
# %% [markdown] lang="en"
# Most heads are hardly missed on this sentence. The last layer stands out, for nothing comes after it to make up for the loss; most of all its head 12, which in lesson 02 sent nearly every word to the cat. This does not say that all the others could go: they were removed one at a time.
#
# **And GQA?** The 2023 paper makes GQA out of a trained model by *averaging* the key and value matrices of each group, then trains on for 5 % of the original steps. What does the first half alone do to MiniLM?
# %% [markdown] lang="zh-TW"
# 就這個句子而言，大多數的頭少了也幾乎沒感覺。最後一層比較明顯，因為後面沒有別的層能補救；其中又以第 12 個頭為最，就是第 02 課裡幾乎把每個字都指向貓的那一個。這不代表其他的可以全部拿掉：我們一次只拿掉一個。
#
# **那 GQA 呢？** 2023 年的論文這樣把訓練好的模型改成 GQA：每一組的鍵矩陣與值矩陣各取**平均**，再用原來訓練步數的 5 % 繼續訓練。只做前半段，MiniLM 會怎樣？
# %% tags=["experiment"]
if model is not None:
    layers = [layer.attention for layer in model.encoder.layers]
    kept = [[(p, p.detach().clone()) for p in (*a.w_k.parameters(), *a.w_v.parameters())] for a in layers]
    for n_kv in (12, 6, 4, 2, 1):
        with torch.no_grad():
            for parameter, original in (pair for pairs in kept for pair in pairs):
                heads = original.unflatten(0, (n_kv, 12 // n_kv, 32))  # nn.Linear: output columns come first
                parameter.copy_(heads.mean(dim=1, keepdim=True).expand_as(heads).flatten(0, 2))
        averaged = encode(tokenizer, model, SENTENCE).states.mean(dim=0)
        print(
            f"{n_kv:>2} key/value heads: cos with the usual vector {torch.cosine_similarity(usual, averaged, dim=0):.2f}"
        )
    with torch.no_grad():
        for parameter, original in (pair for pairs in kept for pair in pairs):
            parameter.copy_(original)
# %% [markdown] lang="en"
# Not free: heads that were trained apart do not average well, and the further training is what repairs it. Models such as Llama 2 70B are trained with groups from the start.
# %% [markdown] lang="zh-TW"
# 不是白吃的午餐：分開訓練的頭，平均起來並不好用，要靠後續訓練補救。Llama 2 70B 這類模型則是從一開始就用分組來訓練。
# %% [markdown] lang="en"
# ## 8. What to remember
#
# - A head is one attention with its own columns of $W_Q, W_K, W_V$. Each reads the whole input; only the projections are cut.
# - Split: reshape, *then* transpose. The wrong order has the right shape, and survives a round trip.
# - $[\mathrm{head}_1\cdots\mathrm{head}_h]W^O=\sum_j\mathrm{head}_jW^O_j$. Scale by $\sqrt{d_\text{head}}$, not $\sqrt{d_\text{model}}$.
# - 8 heads of 64: the weights and matrix products of 1 of 512, but 8 times the attention weights, and rank 64 a head.
# - GQA: neighbouring query heads share keys and values: 0, 0, 1, 1.
# - Some heads specialise, many rest on marks, and no one gave them jobs.
# %% [markdown] lang="zh-TW"
# ## 8. 帶走這些
#
# - 一個頭就是一組注意力，擁有 $W_Q, W_K, W_V$ 的幾行。每個頭都讀完整的輸入，切的只是投影的結果。
# - 切頭：先 reshape，**再**轉置。順序錯了形狀照樣對，連切了再合的測試都通得過。
# - $[\mathrm{head}_1\cdots\mathrm{head}_h]W^O=\sum_j\mathrm{head}_jW^O_j$。縮放用 $\sqrt{d_\text{head}}$，不是 $\sqrt{d_\text{model}}$。
# - 8 個寬 64 的頭：參數與矩陣乘法和 1 個寬 512 的頭相同，但注意力權重是 8 倍，每個頭的秩只有 64。
# - GQA：相鄰的查詢頭共用鍵與值：0、0、1、1。
# - 有些頭成了專家，許多頭停在記號上，沒有人替它們分派任務。
# %% [markdown] lang="en"
# ## 9. Self-check: question `04_q1` · 1 point · 2 minutes
#
# Compare 8 heads of 64 with 1 head of 512, in a model of width 512. Which sentence is right?
#
# - **a**: The eight have 8 times the parameters of the one: each head needs its own three matrices.
# - **b**: Cost and parameters are the same, and the eight give 8 times the diversity.
# - **c**: The matrix products are equally many, so the two always take the same time.
# - **d**: Parameters and matrix products are the same; the eight make 8 times as many attention weights, and each has a score form of rank 64 at most.
# %% [markdown] lang="zh-TW"
# ## 9. 自我檢查：選擇題 `04_q1` · 滿分 1 分 · 2 分鐘
#
# 在寬度 512 的模型裡，比較 8 個 64 的頭與 1 個 512 的頭。哪一句對？
#
# - **a**：八個頭的參數是一個頭的 8 倍：每個頭都要有自己的三個矩陣。
# - **b**：成本與參數相同，而八個頭帶來 8 倍的多樣性。
# - **c**：矩陣乘法一樣多，所以兩者花的時間一定相同。
# - **d**：參數與矩陣乘法相同；八個頭產生的注意力權重是 8 倍，而每個頭的分數矩陣秩最多是 64。
# %% question="04_q1"
answer_04_q1 = ""
### BEGIN SOLUTION
answer_04_q1 = "d"
### END SOLUTION
# %%
check("04_q1", answer_04_q1)
# %% [markdown] lang="en"
# ## 10. What the documents claim, and what you measured
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | one head catches one kind of relation only | true with a condition: one *blend* a token | both neighbours: 1 head stuck near 0.47, 2 heads 0.00, 16 heads 0.6; BLEU (paper) 24.9, 25.8, 25.4 for 1, 8, 32 |
# | each head has its job: subject, pronoun, adjective | not so | the best head for sat→cat (1.00) is "the word before": 0.00 with "quietly" in between |
# | that weight shows how the model understands "it" | not so | "cat" leads in 3 of 72 heads, [CLS] or [SEP] in 48 |
# | heads, concatenation, $W^O$ back to $d_\text{model}$ | true with a condition: $W^O$ is $(h\,d_v)\times d_\text{model}$ | `nn.MultiheadAttention` to about 1e-6; Gemma's $W^O$ is 4096 × 3072 |
# | $d_k=d_v=d_\text{model}/h$ | true with a condition: as in 2017 | Gemma: 256, not 192 |
# %% [markdown] lang="zh-TW"
# ## 10. 文件怎麼說，你量到什麼
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 一個頭只能捕捉一種關係 | 有條件：每個詞元只有一份**混合** | 同時取前後鄰居：1 個頭卡在 0.47 附近，2 個頭 0.00，16 個頭 0.6；BLEU（論文）1、8、32 個頭：24.9、25.8、25.4 |
# | 每個頭有任務：主詞、代名詞、形容詞 | 不對 | sat→cat 最好的頭（1.00）其實是「看前一個字」：插入「quietly」就變成 0.00 |
# | 那個權重說明模型怎麼理解「it」 | 不對 | 72 個頭中「cat」居首的有 3 個，[CLS] 或 [SEP] 有 48 個 |
# | 各頭拼接，乘 $W^O$ 回到 $d_\text{model}$ | 有條件：$W^O$ 是 $(h\,d_v)\times d_\text{model}$ | 與 `nn.MultiheadAttention` 相差約 1e-6；Gemma 的 $W^O$ 是 4096 × 3072 |
# | $d_k=d_v=d_\text{model}/h$ | 有條件：2017 年的模型如此 | Gemma：256，不是 192 |
# %% [markdown] lang="en"
# | claim | verdict | what this lesson found |
# |---|---|---|
# | several Attention($QW_n, KW_n, VW_n$) are computed together | not complete: three matrices a head, then concatenation and $W^O$ | by hand: (0.731, 0.5) before $W^O$, (1.231, 0.231) after |
# | $d_\text{model}$ is shared out among the heads | not so for the input | one input number changed: all 8 queries moved |
# | 8 heads cost exactly what 1 costs | true with a condition: matrix products only | 1.61e9 FLOPs both; 2.10 against 0.26 M weights; time about × 1–1.1, 1.4–2, 2–3 written out, 1.0–1.3 fused |
# | … and give 8 times the diversity | not so | rank 64 against 512; 12 heads: effectively 2 to 4, words only 5 to 7 |
# | the printed module is correct | true with a condition: $h$ divides $d_\text{model}$, the mask has four axes | 9 tokens became 10 without an error; a mask $[B,N,M]$ hid heads instead of sentences; −1e9 raises in float16 |
# | trillions of $QK^\top$ a second | not so | 2.56e8 FLOPs each: at most 3.9 million |
#
# **Next:** lesson 05 gives the heads something that they have lacked so far: a sense of order.
# %% [markdown] lang="zh-TW"
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 多組 Attention($QW_n, KW_n, VW_n$) 一起算 | 不完整：每個頭有三個矩陣，之後還有拼接與 $W^O$ | 手算：乘 $W^O$ 之前 (0.731, 0.5)，之後 (1.231, 0.231) |
# | $d_\text{model}$ 均分給各個頭 | 就輸入而言不對 | 改動一個輸入的數，8 個查詢全都動了 |
# | 8 個頭的計算量和 1 個完全一致 | 有條件：只算矩陣乘法 | 都是 1.61e9 FLOPs；權重 2.10 M 對 0.26 M；時間照公式寫大約 1–1.1、1.4–2、2–3 倍，融合核心 1.0–1.3 倍 |
# | ……卻獲得 8 倍的多樣性 | 不對 | 秩 64 對 512；12 個頭，有效的有 2 到 4 個，只看字是 5 到 7 個 |
# | 印出的模組是正確的 | 有條件：$h$ 整除 $d_\text{model}$，遮罩有四個軸 | 9 個詞元變成 10 個也沒報錯；遮罩 $[B,N,M]$ 遮到頭而不是句子；float16 裡 −1e9 會出錯 |
# | 每秒數兆次 $QK^\top$ | 不對 | 一次 2.56e8 FLOPs：最多 390 萬次 |
#
# **下一課**要補上這些頭一直缺少的東西：順序。
