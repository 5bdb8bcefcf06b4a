# %% [markdown] lang="en"
# # 03 · Why divide by √d_k
#
# Lesson 02 computed attention as softmax(QKᵀ)V. The paper of 2017 writes softmax(QKᵀ/√d_k)V. Our documents disagree about that root: one calls it a mathematical necessity, another says that any large enough number will do and that the root only looks learned.
#
# Who is right? You will answer with two short proofs, five functions of your own and a handful of measurements.
#
# We test what some articles and lecture notes say about attention; "the article" is one that uses the sentence "The cat sat on the mat because it was tired".
#
# **You need** matrices, the derivative of $e^x$, mean and variance. **Time**: about two and a quarter hours, 90 minutes of them for the exercises and questions.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `dot_product_variance` | 2 | 10 | 2 |
# | `temperature_softmax` | 2 | 10 | 2 |
# | `softmax_jacobian` | 3 | 20 | 3 |
# | `entropy` | 2 | 10 | 1 |
# | `scaled_dot_product_attention` | 3 | 25 | 4 |
# | question `03_q1` | | 3 | 1 |
# | written answer `03_w1` | | 12 | 2 |
# %% [markdown] lang="zh-TW"
# # 03 · 為什麼要除以 √d_k
#
# 第 02 課的注意力是 softmax(QKᵀ)V；2017 年的論文寫的卻是 softmax(QKᵀ/√d_k)V。這個根號從哪裡來？我們手上的文件說法不一：一份說它是數學上的必然，另一份說隨便一個夠大的數都行，寫成根號只是看起來比較有學問。
#
# 到底誰說得對？這一課用兩個簡短的證明、五個自己寫的函式，加上幾次實測來回答。
#
# 本課常提到的「講義」「文章」和「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# **先備知識**：矩陣、$e^x$ 的導數、平均與變異數。**時間**：約兩小時十五分，其中練習、選擇題和問答題 90 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `dot_product_variance` | 2 | 10 | 2 |
# | `temperature_softmax` | 2 | 10 | 2 |
# | `softmax_jacobian` | 3 | 20 | 3 |
# | `entropy` | 2 | 10 | 1 |
# | `scaled_dot_product_attention` | 3 | 25 | 4 |
# | 選擇題 `03_q1` | | 3 | 1 |
# | 問答題 `03_w1` | | 12 | 2 |
# %% tags=["setup"]
import math

import torch

# %% [markdown] lang="en"
# ## 1. The question
#
# A query is compared with ten keys. All components are drawn at random, so no key deserves to win: a sensible query would spread its attention over several of them.
#
# The next cell draws this 2000 times for three key dimensions $d_k$ and averages the sorted weights of softmax($q\cdot k$), with no scaling at all. Before you run it, guess: what does the largest weight do as $d_k$ grows?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 拿一個查詢（query）去跟十個鍵（key）比對。所有分量都是隨機抽的，所以沒有哪個鍵理當勝出：合理的查詢應該把注意力分給好幾個鍵。
#
# 下一格用三種鍵的維度 $d_k$ 各抽 2000 次，把完全沒縮放的 softmax($q\cdot k$) 權重由大到小排好再平均。執行之前先猜猜看：$d_k$ 變大時，最大的權重會怎麼變？
# %%
from course_lib import plots

torch.set_num_threads(1)  # matrices this small gain nothing from several threads that wait for each other

generator = torch.Generator().manual_seed(3)
sorted_weights = {}
for d_k in (4, 64, 512):
    queries = torch.randn(2000, 1, d_k, generator=generator)
    keys = torch.randn(2000, 10, d_k, generator=generator)
    weights = torch.softmax((queries @ keys.mT).squeeze(1), dim=-1)  # [2000, 10]
    ranked = weights.sort(dim=-1, descending=True).values.mean(dim=0)
    sorted_weights[f"d_k = {d_k}"] = [ranked[0], ranked[1], ranked[2:].sum()]

ax = plots.bars(
    ["largest", "second", "other eight together"],
    sorted_weights,
    "mean weight",
    "softmax(q·k) over ten random keys, not scaled",
)
# %% [markdown] lang="en"
# The wider the keys, the closer the softmax comes to picking one of them and ignoring the rest: *winner takes all*. The keys did not become better answers. Only $d_k$ changed.
#
# So two things need an explanation: why the scores drift apart when $d_k$ grows, and why that hurts.
# %% [markdown] lang="zh-TW"
# 鍵的維度愈大，softmax 就愈像只挑一個、其餘不理，也就是「贏者通吃」。這些鍵並沒有變成更好的答案，變的只有 $d_k$。
#
# 所以有兩件事要解釋：$d_k$ 變大時，分數為什麼會愈拉愈開？拉開了又有什麼壞處？
# %% [markdown] lang="en"
# ## 2. The formula
#
# This is the operation that the whole lesson is about. It scores every query against every key, scales, turns each row of scores into weights, and averages the values with them:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) V$$
#
# - $Q$, shape $[N, d_k]$: $N$ queries, one a row.
# - $K$, shape $[M, d_k]$, and $V$, shape $[M, d_v]$: $M$ keys and their values, one a row.
# - $QK^{\top}$, shape $[N, M]$: the raw scores. Softmax runs along each row, that is, over the keys.
# - $d_k$: the length of one key. Not the number of keys!
# %% [markdown] lang="zh-TW"
# ## 2. 公式
#
# 整堂課談的就是下面這個運算：讓每個查詢跟每個鍵算分數、縮放、把每一列（row）分數變成權重，再拿權重去平均各個值（value）。
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) V$$
#
# - $Q$，形狀 $[N, d_k]$：$N$ 個查詢，一列一個。
# - $K$，形狀 $[M, d_k]$；$V$，形狀 $[M, d_v]$：$M$ 個鍵與對應的值，一列一個。
# - $QK^{\top}$，形狀 $[N, M]$：原始分數。softmax 沿著每一列算，也就是對「鍵」做。
# - $d_k$：一個鍵的長度（有幾個分量），不是鍵的個數！
# %% [markdown] lang="en"
# ## 3. By hand: the lecture's five scores
#
# The lecture compares one query with five keys and gets the scores 3.9, 3.2, 1, 0.3, 1.1. Take exponentials, then divide each by their sum:
#
# | score $s$ | $e^{s}$ | weight | $s/\sqrt5$ | $e^{s/\sqrt5}$ | weight |
# |---|---|---|---|---|---|
# | 3.9 | 49.40 | **0.61** | 1.74 | 5.72 | **0.40** |
# | 3.2 | 24.53 | **0.30** | 1.43 | 4.18 | **0.29** |
# | 1.0 | 2.72 | **0.03** | 0.45 | 1.56 | **0.11** |
# | 0.3 | 1.35 | **0.02** | 0.13 | 1.14 | **0.08** |
# | 1.1 | 3.00 | **0.04** | 0.49 | 1.64 | **0.11** |
# | sum | 81.01 | 1 | | 14.25 | 1 |
#
# The first score leads the second by only 0.7, yet it gets twice the weight, because $e^{0.7} = 2.01$. After the division the lead is 0.31 and the ratio 1.37.
# %% [markdown] lang="zh-TW"
# ## 3. 用手算：講義的五個分數
#
# 講義拿一個查詢跟五個鍵比對，得到 3.9、3.2、1、0.3、1.1。先取指數，再各自除以總和：
#
# | 分數 $s$ | $e^{s}$ | 權重 | $s/\sqrt5$ | $e^{s/\sqrt5}$ | 權重 |
# |---|---|---|---|---|---|
# | 3.9 | 49.40 | **0.61** | 1.74 | 5.72 | **0.40** |
# | 3.2 | 24.53 | **0.30** | 1.43 | 4.18 | **0.29** |
# | 1.0 | 2.72 | **0.03** | 0.45 | 1.56 | **0.11** |
# | 0.3 | 1.35 | **0.02** | 0.13 | 1.14 | **0.08** |
# | 1.1 | 3.00 | **0.04** | 0.49 | 1.64 | **0.11** |
# | 總和 | 81.01 | 1 | | 14.25 | 1 |
#
# 第一名只領先第二名 0.7，權重卻是兩倍，因為 $e^{0.7} = 2.01$。除完之後差距剩 0.31，比值降到 1.37。
# %% [markdown] lang="en"
# The lecture jokes that $\sqrt{9487}$ would serve as well as $\sqrt{d_k}$. The cell below tries it, together with the two columns of the table.
#
# Look at the last line too. The lecture says that the numbers should be pulled back towards 0. But subtracting 100 from all five scores moves them far from 0 and changes nothing at all.
# %% [markdown] lang="zh-TW"
# 講義開了個玩笑，說用 $\sqrt{9487}$ 代替 $\sqrt{d_k}$ 也可以。下一格就真的試試看，並且重算表格裡的兩欄。
#
# 最後一行輸出也請留意。講義說要把數字拉回 0 附近；可是五個分數全部減 100，離 0 遠得很，權重卻一點也沒變。
# %%
five = torch.tensor([3.9, 3.2, 1.0, 0.3, 1.1], dtype=torch.float64)
for name, scores in {
    "s": five,
    "s / sqrt(5)": five / math.sqrt(5),
    "s / sqrt(9487)": five / math.sqrt(9487),
    "s - 100": five - 100,
}.items():
    weights = torch.softmax(scores, dim=-1)
    print(
        f"softmax({name:<14}) = {[round(w, 3) for w in weights.tolist()]}   1st / 2nd = {weights[0] / weights[1]:.2f}"
    )


# %% [markdown] lang="en"
# Two lessons from four lines. First, softmax sees only *differences* between scores: $e^{s-100} = e^{s}e^{-100}$, and the common factor cancels. What the division shrinks is the **spread**, not the distance from 0.
#
# Second, "large enough" has a price: $\sqrt{9487}\approx 97.4$ leaves five weights of about 0.20. That is a plain average, and a query that averages everything has found nothing.
# %% [markdown] lang="zh-TW"
# 四行輸出教了兩件事。第一，softmax 只看分數之間的**差**：$e^{s-100} = e^{s}e^{-100}$，共同的因子約掉了。除法縮小的是分數的**離散程度**，不是離 0 的距離。
#
# 第二，「夠大」有代價：除以 $\sqrt{9487}\approx 97.4$ 之後，五個權重都差不多是 0.20，成了單純的平均。什麼都平均的查詢，等於什麼也沒找到。
# %% [markdown] lang="en"
# One warning about this example. The lecture writes $\tau=\sqrt5$, and five is the number of *scores*. The formula asks for the dimension of a key, which the example never states. With more keys, $d_k$ stays what it was.
# %% [markdown] lang="zh-TW"
# 這個例子有個容易誤會的地方：講義取 $\tau=\sqrt5$，而 5 是**分數的個數**。公式要的是鍵的維度，例子裡並沒有給。鍵變多時，$d_k$ 並不會跟著變。
# %% [markdown] lang="en"
# ## 4. Why the scores drift apart
#
# Start as small as possible: $d_k = 2$, and every component is $+1$ or $-1$ with a fair coin. Each product $q_i k_i$ is again $+1$ or $-1$. The sum of two of them is $-2, 0, 0, 2$, each with probability ¼.
#
# The mean is 0 and the variance is $(4 + 0 + 0 + 4)/4 = 2$. Two components, variance two. With three components the sums are $\pm3$ (once each of eight) and $\pm1$ (three times each): $(9\cdot2 + 1\cdot6)/8 = 3$.
# %% [markdown] lang="zh-TW"
# ## 4. 分數為什麼愈拉愈開
#
# 先看最小的例子：$d_k = 2$，每個分量都擲一枚公正的硬幣，得到 $+1$ 或 $-1$。每個乘積 $q_i k_i$ 也是 $+1$ 或 $-1$，兩個相加是 $-2, 0, 0, 2$，機率各 ¼。
#
# 平均是 0，變異數是 $(4 + 0 + 0 + 4)/4 = 2$。兩個分量，變異數就是 2。換成三個分量，八種情形中 $\pm3$ 各一次、$\pm1$ 各三次：$(9\cdot2 + 1\cdot6)/8 = 3$。
# %% [markdown] lang="en"
# ### Proof, step 1: one product
#
# Let all components of $q$ and $k$ (both of shape $[d_k]$) be independent, with mean 0 and standard deviations $\sigma_q$ and $\sigma_k$. Independence splits the mean of one product: $E[q_i k_i] = E[q_i]\,E[k_i] = 0$. With mean 0, a variance is simply the mean square:
#
# $$\mathrm{Var}(q_i k_i) = E[q_i^2 k_i^2] = E[q_i^2]\,E[k_i^2] = \sigma_q^2 \sigma_k^2$$
# %% [markdown] lang="zh-TW"
# ### 證明第一步：一個乘積
#
# 設 $q$ 與 $k$（形狀都是 $[d_k]$）的所有分量互相獨立、平均為 0，標準差分別是 $\sigma_q$ 與 $\sigma_k$。獨立讓乘積的期望值可以拆開：$E[q_i k_i] = E[q_i]\,E[k_i] = 0$。平均既然是 0，變異數就等於平方的期望值：
#
# $$\mathrm{Var}(q_i k_i) = E[q_i^2 k_i^2] = E[q_i^2]\,E[k_i^2] = \sigma_q^2 \sigma_k^2$$
# %% [markdown] lang="en"
# **The step where people stumble** is the second equals sign. The mean of a product is *not* the product of the means in general. Here it is, because $q_i^2$ depends on $q_i$ alone and $k_i^2$ on $k_i$ alone, and functions of independent variables are independent.
#
# The third equals sign has a condition as well: $E[q_i^2] = \sigma_q^2 + (E[q_i])^2$, and this is $\sigma_q^2$ only because the mean is 0.
# %% [markdown] lang="zh-TW"
# **最容易卡住的一步**是第二個等號。乘積的期望值一般**不等於**期望值的乘積。這裡可以拆，是因為 $q_i^2$ 只跟 $q_i$ 有關、$k_i^2$ 只跟 $k_i$ 有關，而獨立變數各自的函數仍然互相獨立。
#
# 第三個等號也有條件：$E[q_i^2] = \sigma_q^2 + (E[q_i])^2$，平均為 0 時才剛好是 $\sigma_q^2$。
# %% [markdown] lang="en"
# ### Proof, step 2: the sum
#
# The score is the sum of $d_k$ such products. Variances of a sum add up when the covariances are 0, and for $i \ne j$ they are: $E[q_i k_i\, q_j k_j] = E[q_i]E[k_i]E[q_j]E[k_j] = 0$. Hence
#
# $$\mathrm{Var}(q\cdot k) = \mathrm{Var}\Big(\sum_{i=1}^{d_k} q_i k_i\Big) = d_k\,\sigma_q^2\,\sigma_k^2$$
#
# Nothing here needs a normal distribution: the coins of the example will do.
# %% [markdown] lang="zh-TW"
# ### 證明第二步：加總
#
# 分數是 $d_k$ 個這種乘積的和。共變異數為 0 時，和的變異數就是變異數的和；而 $i \ne j$ 時共變異數確實是 0：$E[q_i k_i\, q_j k_j] = E[q_i]E[k_i]E[q_j]E[k_j] = 0$。所以
#
# $$\mathrm{Var}(q\cdot k) = \mathrm{Var}\Big(\sum_{i=1}^{d_k} q_i k_i\Big) = d_k\,\sigma_q^2\,\sigma_k^2$$
#
# 證明裡完全沒有用到常態分布，前面例子的硬幣也適用。
# %% [markdown] lang="en"
# ### Proof, step 3: the root
#
# Dividing a random number by $c$ divides its standard deviation by $c$ and its variance by $c^2$. So to bring the variance of unit components back to 1, we need $c^2 = d_k$:
#
# $$\mathrm{Var}\!\left(\frac{q\cdot k}{\sqrt{d_k}}\right) = \frac{d_k}{(\sqrt{d_k})^2} = 1$$
#
# The root is not there to look learned. $\sqrt{d_k}$ is the standard deviation of the score, and dividing by the standard deviation is what everyone does to numbers of unknown size. ∎
# %% [markdown] lang="zh-TW"
# ### 證明第三步：根號
#
# 隨機變數除以 $c$，標準差會除以 $c$，變異數會除以 $c^2$。分量的變異數都是 1 時，要讓分數的變異數回到 1，就得取 $c^2 = d_k$：
#
# $$\mathrm{Var}\!\left(\frac{q\cdot k}{\sqrt{d_k}}\right) = \frac{d_k}{(\sqrt{d_k})^2} = 1$$
#
# 所以根號不是擺著好看的：$\sqrt{d_k}$ 就是分數的標準差，而除以標準差，正是我們處理大小不明的數值時最常做的事。∎
# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - The result's type, shape, dtype and device, then its values. float64 in means float64 precision out.
# - The arguments must come back unchanged; they may be non-contiguous, and optional ones may come by position or by name. Global settings stay as they are.
# - `...` in a shape stands for any number of leading dimensions, also none. Any size may be 1, and its axis stays.
# - Gradients with respect to every float tensor are compared too.
# - Best not to call your other answers: if one is wrong, both lose points. `math` and `torch` are all you need.
# - Calling the course's own version in `course_lib` ends the credit of that exercise.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看回傳值的型別、形狀、dtype、裝置，再看數值。輸入是 float64，結果就要有 float64 的精度。
# - 引數不可被改動；它們在記憶體中不一定連續；有預設值的引數，可能按位置或按名稱給。全域設定也請保持原樣。
# - 形狀裡的 `...` 代表任意多個前置維度，也可能一個都沒有。任何大小都可能是 1，那個軸也要留著。
# - 也會比對對每個浮點數張量的梯度。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。用 `math` 和 `torch` 就夠了。
# - 呼叫 `course_lib` 裡課程自己的版本，該練習就不再給分。
# %% [markdown] lang="en"
# ### Exercise `dot_product_variance` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Small numbers first. Three pairs with $d_k = 2$: $q = (1,1), (1,0), (0,2)$ and $k = (1,2), (1,5), (3,1)$. Row with row, the products are 3, 1, 2. Their mean is 2, the squared deviations are 1, 1, 0, so the sample variance is $2/3 \approx 0.667$. The theory for $\sigma_q = 2$, $\sigma_k = 3$ says $2\cdot 4\cdot 9 = 72$.
#
# The two need not agree: theory speaks about the distribution you assume, the sample about the numbers you have.
# %% [markdown] lang="zh-TW"
# ### 練習 `dot_product_variance` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 先用小數字算一次。三對向量，$d_k = 2$：$q = (1,1), (1,0), (0,2)$，$k = (1,2), (1,5), (3,1)$。$q$ 和 $k$ 同一列的兩個向量做內積，得到 3、1、2；平均是 2，離差平方是 1、1、0，樣本變異數就是 $2/3 \approx 0.667$。若 $\sigma_q = 2$、$\sigma_k = 3$，理論值是 $2\cdot 4\cdot 9 = 72$。
#
# 兩個數不必相等：理論講的是你假設的分布，樣本講的是手上的數字。
# %% [markdown] lang="en"
# In general you get $S$ pairs. Return the pair (theory, sample):
#
# $$\text{theory} = d_k\,\sigma_q^2\,\sigma_k^2, \qquad \text{sample} = \frac1S\sum_{s=1}^{S}(x_s - \bar x)^2, \quad x_s = q_s\cdot k_s,\ \ \bar x = \frac1S\sum_{s=1}^{S} x_s$$
#
# Divide by $S$, not by $S-1$. Compute the mean first and subtract it: $E[x^2]-E[x]^2$ loses all digits when the components of $q$ and $k$ lie in the thousands, and the check has such a case.
# %% [markdown] lang="zh-TW"
# 一般情形有 $S$ 對向量，請回傳（理論值，樣本值）：
#
# $$\text{theory} = d_k\,\sigma_q^2\,\sigma_k^2, \qquad \text{sample} = \frac1S\sum_{s=1}^{S}(x_s - \bar x)^2, \quad x_s = q_s\cdot k_s,\ \ \bar x = \frac1S\sum_{s=1}^{S} x_s$$
#
# 請除以 $S$，不是 $S-1$。要先算平均再相減：$q$、$k$ 的分量上千時，用 $E[x^2]-E[x]^2$ 會把有效位數丟光，檢查裡就有這種資料。
# %% exercise="dot_product_variance"
def dot_product_variance(
    q: torch.Tensor, k: torch.Tensor, sigma_q: float = 1.0, sigma_k: float = 1.0
) -> tuple[float, torch.Tensor]:
    """Variance of the dot product of a query and a key: what theory says and what a sample shows.

    Args:
        q: S queries, [S, d_k], float32 or float64, S >= 2.
        k: S keys, [S, d_k]; row s of q belongs to row s of k.
        sigma_q: standard deviation of each component of a query (the components are independent, mean 0).
        sigma_k: the same for the keys.

    Returns:
        (theory, sample).
        theory: a Python float, the variance of q·k under these assumptions; it does not look at the numbers in q and k.
        sample: a 0-d tensor in q's dtype, the biased (1/S) variance of the S dot products about their own mean,
            computed in two passes. The samples need not follow the theory: means in the thousands occur.

    q and k stay unchanged. Gradients of sample with respect to q and k are compared.
    """
    ### BEGIN SOLUTION
    theory = q.shape[-1] * sigma_q**2 * sigma_k**2
    products = (q * k).sum(dim=-1)  # [S]: row s with row s
    deviations = products - products.mean()
    return float(theory), (deviations**2).mean()
    ### END SOLUTION


# %%
check("dot_product_variance", dot_product_variance)
# %% [markdown] lang="en"
# ## 6. Theory against sample
#
# The dashed lines are the theory, the markers are 20,000 random pairs for each $d_k$. The second series divides each score by $\sqrt{d_k}$ first.
#
# From here on, experiments call `use("name", yours)`: it takes your function if it passes its check, otherwise the course's own, and says which.
# %% [markdown] lang="zh-TW"
# ## 6. 理論對上樣本
#
# 虛線是理論，標記是每個 $d_k$ 各抽兩萬對的結果。第二組先把每個分數除以 $\sqrt{d_k}$。
#
# 從這裡開始，實驗會呼叫 `use("name", 你的函式)`：通過檢查就用你的版本，否則用課程的版本，並且會說明用了哪一個。
# %% tags=["experiment"]
variance_of = use("dot_product_variance", dot_product_variance)

generator = torch.Generator().manual_seed(0)
dimensions = [1, 4, 16, 64, 256, 512]
raw, scaled, theory = [], [], []
for d_k in dimensions:
    queries = torch.randn(20_000, d_k, generator=generator)
    keys = torch.randn(20_000, d_k, generator=generator)
    predicted, sampled = variance_of(queries, keys)
    theory.append(predicted)
    raw.append(sampled.item())
    scaled.append(variance_of(queries, keys / math.sqrt(d_k))[1].item())
    print(f"d_k = {d_k:>3}: theory {predicted:5.0f}   sample {sampled:7.2f}   divided by sqrt(d_k) {scaled[-1]:.3f}")

ax = plots.curves(
    dimensions,
    {"q·k": raw, "q·k / √d_k": scaled},
    "d_k",
    "variance",
    "Variance of the score",
    log_x=True,
    log_y=True,
    theory={"q·k": theory, "q·k / √d_k": [1.0] * len(dimensions)},
)
# %% [markdown] lang="en"
# ### What each assumption is worth
#
# A proof tells you what it needs. Break its assumptions one at a time, at $d_k = 64$, and see what happens to the 64:
#
# - other distributions (a uniform $q$, a coin for $k$), still mean 0 and variance 1;
# - means of ½ instead of 0: by step 1 each product has variance $(1+\tfrac14)^2-(\tfrac14)^2 = 1.5$;
# - $q = k$, the same vector twice: no independence at all.
# %% [markdown] lang="zh-TW"
# ### 每個假設值多少
#
# 證明會告訴你它需要什麼。在 $d_k = 64$ 時逐一打破假設，看看 64 變成多少：
#
# - 換分布（$q$ 用均勻分布、$k$ 用硬幣），平均仍是 0、變異數仍是 1；
# - 平均改成 ½：照第一步，每個乘積的變異數是 $(1+\tfrac14)^2-(\tfrac14)^2 = 1.5$；
# - $q = k$，同一個向量用兩次，完全不獨立。
# %% tags=["experiment"]
d_k, samples = 64, 20_000
normal = torch.randn(2, samples, d_k, generator=generator)
uniform = (2 * torch.rand(samples, d_k, generator=generator) - 1) * math.sqrt(3)  # mean 0, variance 1
coins = torch.randint(0, 2, (samples, d_k), generator=generator) * 2.0 - 1
for name, queries, keys in (
    ("normal, as assumed", normal[0], normal[1]),
    ("uniform q, coin k", uniform, coins),
    ("means of 1/2", normal[0] + 0.5, normal[1] + 0.5),
    ("q = k", normal[0], normal[0]),
):
    print(f"{name:<20} mean {(queries * keys).sum(-1).mean():6.2f}   variance {variance_of(queries, keys)[1]:6.1f}")
# %% [markdown] lang="en"
# The distribution does not matter; the mean and the independence do. Means of ½ give about 96 ($= 64\cdot1.5$), and $q = k$ gives about 128 around a mean of 64.
#
# This already answers part of the title question. $\sqrt{d_k}$ fits *fresh* random weights. Nothing promises that a trained layer keeps to the assumptions; we shall measure one below.
# %% [markdown] lang="zh-TW"
# 用哪種分布沒關係，平均和獨立才有關係。平均 ½ 時大約是 96（$= 64\cdot1.5$）；$q = k$ 時平均是 64，變異數大約 128。
#
# 標題的問題已經回答了一部分：$\sqrt{d_k}$ 適合**剛初始化**的隨機權重。沒有人保證訓練好的層還會符合這些假設，後面會實際量一個。
# %% [markdown] lang="en"
# ### How often is a score "extreme"?
#
# "Large $d_k$ makes the products extremely large or small", says one document. How often, exactly? Count the share of scores beyond ±10. A lead of 10 means a weight ratio of $e^{10} \approx 22{,}000$.
# %% [markdown] lang="zh-TW"
# ### 分數多常「極端」？
#
# 有一份文件說，$d_k$ 大的時候內積會極大或極小。到底多常發生？數一數超出 ±10 的分數占多少比例就知道。領先 10 分，權重比就是 $e^{10} \approx 22{,}000$ 倍。
# %% tags=["experiment"]
beyond = {"q·k": [], "q·k / √d_k": []}
shown = [4, 16, 64, 512]
for d_k in shown:
    queries = torch.randn(20_000, d_k, generator=generator)
    keys = torch.randn(20_000, d_k, generator=generator)
    scores = (queries * keys).sum(-1)
    beyond["q·k"].append((scores.abs() > 10).double().mean().item())
    beyond["q·k / √d_k"].append((scores.abs() / math.sqrt(d_k) > 10).double().mean().item())
print("share beyond 10, not scaled:", dict(zip(shown, [round(share, 4) for share in beyond["q·k"]])))
ax = plots.bars([f"d_k = {d_k}" for d_k in shown], beyond, "share of scores", "Scores beyond ±10")
# %% [markdown] lang="en"
# ### Turn the knob: d_k
#
# One query, ten keys, always the same random numbers: a larger $d_k$ only lets more of their components take part. Where there are no widgets you see the picture at $d_k = 64$.
# %% [markdown] lang="zh-TW"
# ### 轉轉看：d_k
#
# 一個查詢、十個鍵，隨機數固定不變；$d_k$ 調大，只是讓更多分量加入內積。若環境沒有互動元件，會看到 $d_k = 64$ 的靜態圖。
# %%
generator = torch.Generator().manual_seed(5)
one_query, ten_keys = torch.randn(512, generator=generator), torch.randn(10, 512, generator=generator)


def draw_d_k(d_k):
    scores = ten_keys[:, :d_k] @ one_query[:d_k]
    ax = plots.bars(
        [f"{j}" for j in range(1, 11)],
        {"softmax(s)": torch.softmax(scores, -1), "softmax(s / √d_k)": torch.softmax(scores / math.sqrt(d_k), -1)},
        "weight",
        f"One query, ten keys, d_k = {d_k}",
    )
    ax.set(xlabel="key", ylim=(0, 1.05))


plots.knob(draw_d_k, d_k=(4, 512, 4, 64))


# %% [markdown] lang="en"
# ## 7. Temperature
#
# Dividing scores before a softmax has a name of its own: the divisor is the **temperature** $\tau$. Two scores, 2 and 0, show what it does:
#
# - $\tau = 1$: softmax(2, 0) = (0.881, 0.119)
# - $\tau = 2$: softmax(1, 0) = (0.731, 0.269): warmer, softer
# - $\tau = \tfrac12$: softmax(4, 0) = (0.982, 0.018): colder, harder
#
# $\sqrt{d_k}$ is a temperature that is chosen before training starts.
# %% [markdown] lang="zh-TW"
# ## 7. 溫度
#
# softmax 之前先除以一個數，這個除數有自己的名字：**溫度** $\tau$。用兩個分數 2 和 0 就能看出它的作用：
#
# - $\tau = 1$：softmax(2, 0) = (0.881, 0.119)
# - $\tau = 2$：softmax(1, 0) = (0.731, 0.269)，溫度高，比較平
# - $\tau = \tfrac12$：softmax(4, 0) = (0.982, 0.018)，溫度低，比較尖
#
# $\sqrt{d_k}$ 就是一個在訓練開始之前選定的溫度。
# %% [markdown] lang="en"
# ### Exercise `temperature_softmax` · difficulty 2 of 5 · 10 minutes · 2 points
#
# For scores $s$ of shape $[..., M]$ and a number $\tau > 0$, return the weights along the last axis:
#
# $$p_i = \frac{e^{s_i/\tau}}{\sum_{j=1}^{M} e^{s_j/\tau}}$$
#
# The lecture's five scores must give .61 .30 .03 .02 .04 at $\tau = 1$ and .40 .29 .11 .08 .11 at $\tau = \sqrt5$.
# %% [markdown] lang="zh-TW"
# ### 練習 `temperature_softmax` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 給定形狀 $[..., M]$ 的分數 $s$ 與一個數 $\tau > 0$，回傳沿最後一軸的權重：
#
# $$p_i = \frac{e^{s_i/\tau}}{\sum_{j=1}^{M} e^{s_j/\tau}}$$
#
# 講義的五個分數在 $\tau = 1$ 時要得到 .61 .30 .03 .02 .04，在 $\tau = \sqrt5$ 時要得到 .40 .29 .11 .08 .11。
# %% [markdown] lang="en"
# Three things to take care of:
#
# - **Large numbers.** At $\tau = 0.01$ a score of 5 becomes 500, and $e^{500}$ overflows. `torch.softmax` is allowed here and subtracts the maximum for you; if you write exponentials yourself, subtract it.
# - **$-\infty$.** A score may be $-\infty$ as long as its row has a finite one; its weight is exactly 0.
# - **Half precision.** For float16 and bfloat16 it is best to compute in float32 and convert the result back. Only the error is judged: at most twice that of the plain formula in the same dtype.
# %% [markdown] lang="zh-TW"
# 有三件事要顧到：
#
# - **大的數。** $\tau = 0.01$ 時，分數 5 會變成 500，而 $e^{500}$ 會溢位。這裡可以用 `torch.softmax`，它會先減掉最大值；自己寫指數的話，記得也要減。
# - **$-\infty$。** 同一列只要還有一個有限的分數，其他分數就可能是 $-\infty$，這些分數的權重恰為 0。
# - **半精度。** 輸入是 float16 或 bfloat16 時，建議用 float32 計算再轉回去；檢查只看誤差：最多是同 dtype 直接套公式的兩倍。
# %% exercise="temperature_softmax"
def temperature_softmax(scores: torch.Tensor, temperature: float) -> torch.Tensor:
    """softmax(scores / temperature) over the last axis.

    Args:
        scores: [..., M], float32, float64, float16 or bfloat16. Entries may be -inf where the row has a finite one.
        temperature: a positive number, below or above 1.

    Returns:
        The weights, [..., M], in the dtype of the scores. Each row sums to 1; a score of -inf weighs exactly 0.

    Stable for any scores / temperature (scores of 2 and -2 in one row at a temperature of 0.01, for example). Half
    precision is judged by its error: at most twice that of the plain formula in the same dtype; best computed in
    float32. The scores may have 3 dimensions in any memory order (non-contiguous). Differentiable:
    the gradient with respect to the scores is compared. The scores stay unchanged. torch.softmax is allowed.
    """
    ### BEGIN SOLUTION
    half = scores.dtype in (torch.float16, torch.bfloat16)
    wide = scores.float() if half else scores
    return torch.softmax(wide / temperature, dim=-1).to(scores.dtype)
    ### END SOLUTION


# %%
check("temperature_softmax", temperature_softmax)
# %% [markdown] lang="en"
# ### Turn the knob: temperature
#
# The lecture's five scores again. Slide towards 0 and the first takes everything; slide up and all five meet at 0.20. The picture without widgets stands near $\tau = \sqrt5$.
# %% [markdown] lang="zh-TW"
# ### 轉轉看：溫度
#
# 還是講義的五個分數。往 0 滑，第一名全拿；往上滑，五個都靠近 0.20。沒有互動元件時，圖停在 $\tau = \sqrt5$ 附近。
# %%
softmax_at = use("temperature_softmax", temperature_softmax)


def draw_temperature(temperature):
    ax = plots.bars(
        [f"{score:.1f}" for score in five.tolist()],
        {"τ = 1": softmax_at(five, 1.0), f"τ = {temperature:.2f}": softmax_at(five, temperature)},
        "weight",
        "The lecture's five scores",
    )
    ax.set(xlabel="score", ylim=(0, 1.08))


plots.knob(draw_temperature, temperature=(0.1, 10.0, 0.1, 2.2))


# %% [markdown] lang="en"
# ## 8. Why a hard softmax hurts: its derivative
#
# Training needs to know how the weights change when a score changes. Take the scores (2, 0), so $p = (0.881, 0.119)$, and raise the first one by 0.01. The weights become (0.88184, 0.11816).
#
# The first gained 0.00104, the second lost exactly as much. Per unit of score that is ±0.104, and $p_1(1-p_1) = 0.881\cdot0.119 = 0.105$. This is the pattern we now prove.
# %% [markdown] lang="zh-TW"
# ## 8. softmax 太尖有什麼壞處：看導數
#
# 訓練要知道分數動一點、權重會動多少。取分數 (2, 0)，也就是 $p = (0.881, 0.119)$，把第一個分數加 0.01，權重變成 (0.88184, 0.11816)。
#
# 第一個多了 0.00104，第二個剛好少了一樣多。換算成每單位分數是 ±0.104，而 $p_1(1-p_1) = 0.881\cdot0.119 = 0.105$。接下來就證明這個規律。
# %% [markdown] lang="en"
# ### Proof: the softmax Jacobian
#
# Write $z_i = s_i/\tau$ and $Z = \sum_k e^{z_k}$, so that $p_i = e^{z_i}/Z$. A logarithm turns the fraction into a difference, which is easier to differentiate: $\ln p_i = z_i - \ln Z$. Then
#
# $$\frac{\partial \ln p_i}{\partial z_j} = \delta_{ij} - \frac{e^{z_j}}{Z} = \delta_{ij} - p_j$$
#
# Here $\delta_{ij}$ is 1 for $i = j$ and 0 otherwise: it is just $\partial z_i/\partial z_j$.
# %% [markdown] lang="zh-TW"
# ### 證明：softmax 的雅可比矩陣
#
# 令 $z_i = s_i/\tau$、$Z = \sum_k e^{z_k}$，那麼 $p_i = e^{z_i}/Z$。取對數可以把分式變成差，微分起來輕鬆得多：$\ln p_i = z_i - \ln Z$。於是
#
# $$\frac{\partial \ln p_i}{\partial z_j} = \delta_{ij} - \frac{e^{z_j}}{Z} = \delta_{ij} - p_j$$
#
# 其中 $\delta_{ij}$ 在 $i = j$ 時是 1、否則是 0，它其實就是 $\partial z_i/\partial z_j$。
# %% [markdown] lang="en"
# The left side is $\frac{1}{p_i}\frac{\partial p_i}{\partial z_j}$, so multiply by $p_i$. Then go from $z_j$ to $s_j = \tau z_j$ with the chain rule, which adds a factor $1/\tau$. The Jacobian, shape $[M, M]$, is
#
# $$J_{ij} = \frac{\partial p_i}{\partial s_j} = \frac{p_i(\delta_{ij} - p_j)}{\tau}, \qquad J = \frac{\mathrm{diag}(p) - p^{\top}p}{\tau} \ \text{ for a row } p.$$
#
# ∎
# %% [markdown] lang="zh-TW"
# 左邊就是 $\frac{1}{p_i}\frac{\partial p_i}{\partial z_j}$，所以兩邊同乘 $p_i$。再用連鎖律從 $z_j$ 換到 $s_j = \tau z_j$，會多出一個 $1/\tau$。雅可比矩陣的形狀是 $[M, M]$：
#
# $$J_{ij} = \frac{\partial p_i}{\partial s_j} = \frac{p_i(\delta_{ij} - p_j)}{\tau}, \qquad p \text{ 是一列時，}\ J = \frac{\mathrm{diag}(p) - p^{\top}p}{\tau}.$$
#
# ∎
# %% [markdown] lang="en"
# **The step where people stumble**: why is $J_{ij}$ not 0 for $i \ne j$? Because $s_j$ also sits in the shared denominator $Z$. Raise one score and every other weight must give something up. Softmax is not an elementwise function, so its derivative is a matrix and not a vector.
# %% [markdown] lang="zh-TW"
# **最容易卡住的一步**：$i \ne j$ 時，$J_{ij}$ 為什麼不是 0？因為 $s_j$ 也藏在大家共用的分母 $Z$ 裡。一個分數升高，其他權重都得讓出一點。softmax 不是逐元素的函數，所以導數是矩陣，不是向量。
# %% [markdown] lang="en"
# Three facts can be read off the formula.
#
# - Every row of $J$ sums to 0: raising all scores together changes nothing.
# - Every column sums to 0: what one weight gains, the others lose.
# - If $p$ is one-hot, $J = 0$, **all of it**. Off the winner $p_i = 0$; at the winner $p_i(1-p_i) = 1\cdot 0$.
#
# One document says that the gradients of all *but* the largest vanish. The winner's vanishes as well.
# %% [markdown] lang="zh-TW"
# 從公式可以讀出三件事：
#
# - $J$ 的每一列加起來是 0：所有分數一起升高，什麼都不變。
# - 每一行（column）加起來也是 0：一個權重多拿的，就是其他權重少拿的。
# - $p$ 若是獨熱向量（one-hot），$J$ **整個**是 0：輸家的 $p_i = 0$；贏家的 $p_i(1-p_i) = 1\cdot 0$。
#
# 有一份文件說，消失的是「最大值以外」的梯度。其實贏家的也一樣消失。
# %% [markdown] lang="en"
# ### Exercise `softmax_jacobian` · difficulty 3 of 5 · 20 minutes · 3 points
#
# Small numbers first: scores (2, 0) at $\tau = 1$ must give, as we saw, about
#
# $$J = \begin{pmatrix} 0.105 & -0.105 \\ -0.105 & 0.105 \end{pmatrix}$$
#
# At $\tau = 2$ the weights are (0.731, 0.269), $0.731\cdot0.269 = 0.197$, and the entries are $\pm 0.197/2 = \pm 0.098$.
# %% [markdown] lang="zh-TW"
# ### 練習 `softmax_jacobian` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# 先用小數字：分數 (2, 0)、$\tau = 1$，剛才算過，大約是
#
# $$J = \begin{pmatrix} 0.105 & -0.105 \\ -0.105 & 0.105 \end{pmatrix}$$
#
# $\tau = 2$ 時權重是 (0.731, 0.269)，$0.731\cdot0.269 = 0.197$，所以各元素是 $\pm 0.197/2 = \pm 0.098$。
# %% [markdown] lang="en"
# In general the scores have shape $[..., M]$ and you return one matrix for each row of scores, $[..., M, M]$. Use the formula: `torch.autograd.*`, `.backward` and the derivatives in `torch.func` (`grad`, `vjp`, `jacrev`, …) are not allowed. `torch.softmax` and `torch.vmap` are, and scores may be large.
# %% [markdown] lang="zh-TW"
# 一般情形的分數形狀是 $[..., M]$，每一列分數要回傳一個矩陣，所以結果是 $[..., M, M]$。請用公式寫：不可使用 `torch.autograd.*`、`.backward`，以及 `torch.func` 裡求導數的函式（`grad`、`vjp`、`jacrev` 等）。可以用 `torch.softmax` 和 `torch.vmap`；分數可能很大。
# %% exercise="softmax_jacobian"
def softmax_jacobian(scores: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """All derivatives of softmax(scores / temperature) with respect to the scores.

    Args:
        scores: [..., M], float32 or float64, finite, contiguous or not; scores of 300 and -300 occur, also in one row.
        temperature: a positive number.

    Returns:
        J, [..., M, M], in the dtype of the scores: J[..., i, j] = d p_i / d s_j = p_i (delta_ij - p_j) / temperature,
        where p = softmax(scores / temperature) over the last axis.

    Not allowed: torch.autograd.*, .backward, torch.func's derivatives (grad, vjp, jacrev, ...). torch.softmax and
    torch.vmap are allowed. The scores stay unchanged. Differentiable: the gradient with respect to them is compared.
    """
    ### BEGIN SOLUTION
    p = torch.softmax(scores / temperature, dim=-1)
    outer = p.unsqueeze(-1) * p.unsqueeze(-2)  # [..., M, M]: p_i p_j
    return (torch.diag_embed(p) - outer) / temperature
    ### END SOLUTION


# %%
check("softmax_jacobian", softmax_jacobian)
# %% [markdown] lang="en"
# ### Test it with a nudge
#
# A formula for a derivative can always be tested: move each score by a tiny $\pm\varepsilon$ and look. The heat map shows $10\,J$ for the lecture's five scores at $\tau = \sqrt5$. The two colours are the two signs (orange positive, purple negative): the diagonal is positive, everything else negative.
# %% [markdown] lang="zh-TW"
# ### 輕推一下來驗證
#
# 導數公式都能這樣驗證：把每個分數輕推 $\pm\varepsilon$，看結果怎麼變。熱圖是講義五個分數在 $\tau = \sqrt5$ 時的 $10\,J$，兩種顏色代表正負（橘色為正，紫色為負）：對角線是正的，其餘都是負的。
# %%
jacobian_of = use("softmax_jacobian", softmax_jacobian)

tau, nudge = math.sqrt(5), 1e-6
columns = []
for j in range(len(five)):
    step = torch.zeros_like(five)
    step[j] = nudge
    columns.append((softmax_at(five + step, tau) - softmax_at(five - step, tau)) / (2 * nudge))
by_nudging = torch.stack(columns, dim=-1)
jacobian = jacobian_of(five, tau)
print(f"largest difference between formula and nudges: {(jacobian - by_nudging).abs().max():.1e}")
print(f"largest row sum: {jacobian.sum(-1).abs().max():.1e}, largest column sum: {jacobian.sum(-2).abs().max():.1e}")

names = [f"{score:.1f}" for score in five.tolist()]
ax = plots.heat_map(10 * jacobian, title="10 · ∂p_i / ∂s_j at τ = √5", rows=names, columns=names)
ax.set(xlabel="score s_j that is nudged", ylabel="weight p_i that answers")
ax.figure.set_size_inches(4.8, 3.6)
# %% [markdown] lang="en"
# ### At real size: what is left of the gradient
#
# Now $d_k = 512$ and ten keys. Softmax receives either $s$ or $s/\sqrt{d_k}$; we look at the derivative with respect to what it receives, and take medians over 2000 random draws (the first figure of this lesson showed means): at the winner, at the runner-up, and over the other eight.
# %% [markdown] lang="zh-TW"
# ### 真實大小：梯度還剩多少
#
# 這次 $d_k = 512$，十個鍵。softmax 收到的是 $s$ 或 $s/\sqrt{d_k}$；我們看權重對「它收到的數」的導數，取 2000 次隨機抽樣的中位數（本課第一張圖是平均），分成第一名、第二名、其餘八個。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(1)
queries = torch.randn(2000, 1, 512, generator=generator, dtype=torch.float64)
keys = torch.randn(2000, 10, 512, generator=generator, dtype=torch.float64)
raw_scores = (queries @ keys.mT).squeeze(1)  # [2000, 10]
left = {}
for name, scores in (("not scaled", raw_scores), ("divided by √d_k", raw_scores / math.sqrt(512))):
    top = softmax_at(scores, 1.0).max(dim=-1).values.median()
    # Sorted scores: entry 0 of the diagonal is the winner's own derivative, entry 1 the runner-up's.
    own = jacobian_of(scores.sort(dim=-1, descending=True).values).diagonal(dim1=-2, dim2=-1)
    left[name] = [own[:, 0].median(), own[:, 1].median(), own[:, 2:].median()]
    print(
        f"{name:<16} largest weight {top:.5f}   dp/ds: winner {left[name][0]:.1e}, "
        f"runner-up {left[name][1]:.1e}, others {left[name][2]:.1e}"
    )
ax = plots.bars(["winner", "runner-up", "others"], left, "∂p_i / ∂s_i (median)", "d_k = 512, ten keys")
_ = ax.set(yscale="log", ylim=(1e-19, 1e3))
_ = ax.legend(ncols=2, loc="upper center")


# %% [markdown] lang="en"
# Without the division the winner's own derivative is about $10^{-4}$, a two-thousandth of what it is with it; the runner-up's is about as small, and those of the other eight are zero for all purposes. Whatever the loss would like to change, almost nothing passes through the softmax. If the winner is the wrong key, the layer is stuck with it.
# %% [markdown] lang="zh-TW"
# 不縮放時，贏家自己的導數大約只有 $10^{-4}$，是縮放後的兩千分之一；第二名的也差不多小，其餘八個則幾乎就是 0。不管損失函數想改什麼，幾乎沒有東西能穿過 softmax。要是贏家剛好是錯的鍵，這一層就卡住了。
# %% [markdown] lang="en"
# ## 9. Entropy: how many keys does a query really read?
#
# "Hard" and "soft" deserve a number. The **entropy** of a row of weights $p$, shape $[M]$, is $H(p) = -\sum_i p_i \ln p_i$. Some values:
#
# - (1, 0): one key takes all, $H = 0$.
# - (½, ½): $H = \ln 2 = 0.693$.
# - (½, ¼, ¼): $\tfrac12\ln2 + \tfrac14\ln4 + \tfrac14\ln4 = 1.5\ln 2 = 1.040$.
# - $M$ equal weights: $H = \ln M$, the largest value possible.
#
# So $e^{H}$ reads as a number of keys: 1, 2, 2.83, $M$.
# %% [markdown] lang="zh-TW"
# ## 9. 熵：一個查詢到底讀了幾個鍵？
#
# 「尖」和「平」該有個數字。一列權重 $p$（形狀 $[M]$）的**熵**是 $H(p) = -\sum_i p_i \ln p_i$。先看幾個值：
#
# - (1, 0)：一個鍵全拿，$H = 0$。
# - (½, ½)：$H = \ln 2 = 0.693$。
# - (½, ¼, ¼)：$\tfrac12\ln2 + \tfrac14\ln4 + \tfrac14\ln4 = 1.5\ln 2 = 1.040$。
# - $M$ 個權重都相等：$H = \ln M$，這是最大值。
#
# 所以 $e^{H}$ 可以讀成「鍵的個數」：1、2、2.83、$M$。
# %% [markdown] lang="en"
# ### Exercise `entropy` · difficulty 2 of 5 · 10 minutes · 1 point
#
# Return $H$ for each row of $p$, shape $[..., M]$, with the natural logarithm. The result has one dimension less, $[...]$.
#
# The trap is a weight of exactly 0: $\ln 0 = -\infty$, and $0\cdot(-\infty)$ is NaN on a computer. In the limit $p\ln p \to 0$, so a zero weight contributes 0. Small weights count too, those near $10^{-5}$ for example. `torch.distributions`, `cross_entropy`, `kl_div` and SciPy's `entropy` are not allowed; `torch.special.entr` is. For float16 and bfloat16 it is best to compute in float32 and convert back; only the error is judged: at most twice that of the plain formula.
# %% [markdown] lang="zh-TW"
# ### 練習 `entropy` · 難度 2／5 · 10 分鐘 · 滿分 1 分
#
# 給定形狀 $[..., M]$ 的 $p$，對每一列回傳 $H$，用自然對數。結果少一個維度，形狀是 $[...]$。
#
# 陷阱是權重恰為 0：$\ln 0 = -\infty$，而 $0\cdot(-\infty)$ 在電腦上是 NaN。極限是 $p\ln p \to 0$，所以權重 0 的貢獻就是 0。很小的權重也要算，例如 $10^{-5}$。不可使用 `torch.distributions`、`cross_entropy`、`kl_div` 與 SciPy 的 `entropy`；可以用 `torch.special.entr`。float16 與 bfloat16 建議用 float32 計算再轉回去；檢查只看誤差：最多是直接套公式的兩倍。
# %% exercise="entropy"
def entropy(p: torch.Tensor) -> torch.Tensor:
    """Entropy of each row of weights, in nats: -sum p_i ln p_i over the last axis, with 0 ln 0 = 0.

    Args:
        p: weights, [..., M], float32, float64, float16 or bfloat16; rows sum to 1, entries may be exactly 0, or as
            small as 1e-5 beside one near 1 (those count). Contiguous in memory or not.

    Returns:
        [...], in the dtype of p: 0 for a one-hot row, ln M for a uniform one.

    Half precision is judged by its error: at most twice that of the plain formula in the same dtype; best computed in
    float32. p stays unchanged. Differentiable: the gradient with respect to p is compared where no weight is 0.
    Not allowed: torch.distributions, cross_entropy, kl_div, scipy.stats.entropy.
    """
    ### BEGIN SOLUTION
    half = p.dtype in (torch.float16, torch.bfloat16)
    wide = p.float() if half else p
    logarithms = torch.where(wide > 0, wide, 1.0).log()  # ln 1 = 0 stands in for ln 0
    return -(wide * logarithms).sum(dim=-1).to(p.dtype)
    ### END SOLUTION


# %%
check("entropy", entropy)
# %% [markdown] lang="en"
# ### Entropy and gradient against temperature
#
# For the lecture's five scores: the entropy as a share of its maximum $\ln 5$, and the size of the gradient, measured by the Frobenius norm $\lVert J\rVert = \sqrt{\sum_{ij} J_{ij}^2}$ with respect to the raw scores. What do you expect at the two ends?
# %% [markdown] lang="zh-TW"
# ### 熵、梯度與溫度
#
# 拿講義的五個分數，畫出熵占最大值 $\ln 5$ 的比例，以及梯度的大小：對原始分數的雅可比矩陣取 Frobenius 範數 $\lVert J\rVert = \sqrt{\sum_{ij} J_{ij}^2}$。你猜兩端會是什麼樣子？
# %% tags=["experiment"]
entropy_of = use("entropy", entropy)

temperatures = torch.logspace(-1.5, 2.5, 161, dtype=torch.float64).tolist()
share = [entropy_of(softmax_at(five, tau)).item() / math.log(5) for tau in temperatures]
size = [jacobian_of(five, tau).norm().item() for tau in temperatures]
ax = plots.curves(
    temperatures,
    {"entropy / ln 5": share, "size of the gradient": size},
    "temperature τ",
    "",
    "The lecture's five scores",
    log_x=True,
)
for name, tau in (("1", 1.0), ("√5", math.sqrt(5)), ("√9487", math.sqrt(9487))):  # three temperatures to mark
    ax.axvline(tau, color="#777777", linewidth=1, linestyle=":")
    ax.annotate(name, (tau, 1.1), ha="center", backgroundcolor="white", fontsize=10)
    h = entropy_of(softmax_at(five, tau))
    print(
        f"tau = {name:>5}: entropy {h:.2f} of {math.log(5):.2f}, reads {h.exp():.1f} keys, "
        f"gradient {jacobian_of(five, tau).norm():.4f}"
    )
print(f"the gradient is largest, {max(size):.2f}, at tau = {temperatures[size.index(max(size))]:.2f}")
ax.set_ylim(-0.05, 1.22)
_ = ax.legend(loc="upper left")
# %% [markdown] lang="en"
# The gradient dies at **both** ends. Cold: one winner, $J \to 0$ because $p$ is one-hot. Hot: an even average, $J \to 0$ because of the factor $1/\tau$. At $\sqrt{9487}$ it is 45 times smaller than at $\sqrt5$.
#
# An honest remark: for these five scores the gradient at $\tau = 1$ is larger than at $\sqrt5$. Their spread is small already. What $\sqrt5$ mends here is the winner's share, not the gradient; the gradient trouble begins with large $d_k$.
# %% [markdown] lang="zh-TW"
# 梯度在**兩端**都會消失。太冷：只剩一個贏家，$p$ 接近獨熱向量，所以 $J \to 0$；太熱：變成平均，因子 $1/\tau$ 讓 $J \to 0$。在 $\sqrt{9487}$ 的梯度只有 $\sqrt5$ 時的 1/45。
#
# 老實說一句：就這五個分數而言，$\tau = 1$ 的梯度其實比 $\sqrt5$ 大，因為它們本來就不太分散。$\sqrt5$ 在這裡改善的是贏家占的比例，不是梯度；$d_k$ 很大時，梯度的麻煩才真正開始。
# %% [markdown] lang="en"
# ### What √d_k achieves
#
# The last picture was one set of scores. Now average over many: ten random keys and three key dimensions. Watch where each curve stands at its own $\tau = \sqrt{d_k}$ (the dots).
# %% [markdown] lang="zh-TW"
# ### √d_k 做到了什麼
#
# 上一張圖只有一組分數。這次對許多組取平均：十個隨機的鍵、三種維度。請看每條曲線在自己的 $\tau = \sqrt{d_k}$（圓點）時站在哪裡。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(2)
temperatures = torch.logspace(-1, 2.5, 50, dtype=torch.float64).tolist()
series, dots = {}, []
for d_k in (4, 64, 512):
    queries = torch.randn(1000, 1, d_k, generator=generator, dtype=torch.float64)
    keys = torch.randn(1000, 10, d_k, generator=generator, dtype=torch.float64)
    scores = (queries @ keys.mT).squeeze(1)
    series[f"d_k = {d_k}"] = [entropy_of(softmax_at(scores, tau)).mean().item() / math.log(10) for tau in temperatures]
    dots.append((math.sqrt(d_k), entropy_of(softmax_at(scores, math.sqrt(d_k))).mean().item() / math.log(10)))
    unscaled = entropy_of(softmax_at(scores, 1.0)).mean() / math.log(10)
    print(f"d_k = {d_k:>3}: entropy / ln 10 at tau = 1: {unscaled:.2f}   at tau = sqrt(d_k): {dots[-1][1]:.2f}")
ax = plots.curves(
    temperatures, series, "temperature τ", "mean entropy / ln 10", "Ten random keys; dots at τ = √d_k", log_x=True
)
_ = ax.scatter(*zip(*dots), s=90, color="black", zorder=5)
# %% [markdown] lang="en"
# All dots stand at nearly the same height, about 0.84. That is the whole achievement: **after dividing by $\sqrt{d_k}$, a fresh layer behaves the same whatever its width.** At $\tau = 1$ the three layers would start at very different places.
#
# It is not claimed, and not true, that $\sqrt{d_k}$ maximises the gradient or anything else.
# %% [markdown] lang="zh-TW"
# 三個圓點的高度幾乎相同，都在 0.84 左右。它做到的就是這件事：**除以 $\sqrt{d_k}$ 之後，剛初始化的一層不管多寬，行為都一樣。** 若取 $\tau = 1$，三種寬度的起點就差很多。
#
# 沒有人說 $\sqrt{d_k}$ 會讓梯度最大，事實上也不是。
# %% [markdown] lang="en"
# ## 10. All together: scaled dot-product attention
#
# Small numbers first, with $d_k = 4$: $q = (1,1,1,1)$, $k_1 = (1,1,1,1)$, $k_2 = (0,0,0,0)$, and values $v_1 = 10$, $v_2 = 0$. The scores are 4 and 0. Divided by $\sqrt4$ they are 2 and 0, so the weights are (0.881, 0.119) and the output is 8.81.
#
# Without the division the weights would be (0.982, 0.018) and the output 9.82.
# %% [markdown] lang="zh-TW"
# ## 10. 組起來：縮放內積注意力
#
# 先用小數字，$d_k = 4$：$q = (1,1,1,1)$、$k_1 = (1,1,1,1)$、$k_2 = (0,0,0,0)$，值是 $v_1 = 10$、$v_2 = 0$。分數是 4 和 0，除以 $\sqrt4$ 得 2 和 0，權重是 (0.881, 0.119)，輸出 8.81。
#
# 如果不除，權重會是 (0.982, 0.018)，輸出 9.82。
# %% [markdown] lang="en"
# ### Masks
#
# Often a query must not see every key: padding at the end of a sentence, or words that come later. A **mask** is a Boolean tensor, and in this course **True always means "may attend"**. It broadcasts to the scores' shape:
#
# - $[N, M]$: the same mask for the whole batch.
# - $[B, 1, 1, M]$: one padding mask for each of $B$ sentences, for all heads and queries.
# - $[B, h, N, M]$: one entry for every sentence, head, query and key.
#
# What a head is comes in lesson 04; here batch and head are just leading dimensions.
# %% [markdown] lang="zh-TW"
# ### 遮罩
#
# 查詢常常不能看到所有的鍵：句尾的填補（padding），或是後面才出現的字。**遮罩**是布林張量，本課程一律規定 **True 代表「可以看」**，並且會廣播（broadcasting）成分數的形狀：
#
# - $[N, M]$：整個批次共用一個遮罩。
# - $[B, 1, 1, M]$：$B$ 個句子各有一個填補遮罩，適用於所有頭和查詢。
# - $[B, h, N, M]$：每個句子、頭、查詢、鍵各有一項。
#
# 「頭」第 04 課才會細講，這裡把它當成前置維度就好。
# %% [markdown] lang="en"
# A hidden key weighs exactly 0, and the remaining weights still sum to 1: the mask works **before** the softmax. In the small example, hide $k_2$: the weights become (1, 0) and the output 10.
#
# And if *both* are hidden? There is nothing to read, so the weights are (0, 0) and the output is 0. The usual tricks fail here, as the next cell shows.
# %% [markdown] lang="zh-TW"
# 被遮住的鍵權重恰為 0，剩下的權重加起來還是 1，所以遮罩要在 softmax **之前**作用。在剛才的小例子裡遮住 $k_2$，權重變成 (1, 0)，輸出 10。
#
# 那兩個**都**遮住呢？沒有東西可讀，權重就是 (0, 0)，輸出 0。常見的寫法在這裡會失敗，下一格就看得到。
# %%
example = torch.tensor([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
may_attend = torch.tensor([[True, True, False], [False, False, False]])  # the second query sees nothing
for name, fill in (("-1e9", -1e9), ("-inf", -math.inf)):
    weights = torch.softmax(example.masked_fill(~may_attend, fill), dim=-1)
    print(
        f"fill with {name:>4}:  some keys open {[round(w, 3) for w in weights[0].tolist()]}   "
        f"no key open {[round(w, 3) for w in weights[1].tolist()]}"
    )


# %% [markdown] lang="en"
# With $-10^9$ a row with nothing to see becomes the average of what it must not see. With $-\infty$ it becomes NaN, since $-\infty$ minus the maximum $-\infty$ has no value. One NaN is enough to ruin every weight of a network in the next step.
# %% [markdown] lang="zh-TW"
# 填 $-10^9$，什麼都不該看的那一列，變成了「不該看的東西」的平均。填 $-\infty$ 則變成 NaN，因為 $-\infty$ 減去最大值 $-\infty$ 沒有意義。只要一個 NaN，下一步就能毀掉整個網路的權重。
# %% [markdown] lang="en"
# ### Exercise `scaled_dot_product_attention` · difficulty 3 of 5 · 25 minutes · 4 points
#
# Return both the output and the weights. With a temperature $\tau$ (1 unless given) on top of the root:
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^{\top}}{\sqrt{d_k}\,\tau}\right), \qquad \text{output} = A\,v$$
#
# $q$ has shape $[..., N, d_k]$, $k$ $[..., M, d_k]$, $v$ $[..., M, d_v]$, so the weights $A$ have shape $[..., N, M]$ and the output $[..., N, d_v]$.
# %% [markdown] lang="zh-TW"
# ### 練習 `scaled_dot_product_attention` · 難度 3／5 · 25 分鐘 · 滿分 4 分
#
# 輸出和權重都要回傳。除了根號，還有一個溫度 $\tau$（沒給就是 1）：
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^{\top}}{\sqrt{d_k}\,\tau}\right), \qquad \text{output} = A\,v$$
#
# $q$ 的形狀是 $[..., N, d_k]$，$k$ 是 $[..., M, d_k]$，$v$ 是 $[..., M, d_v]$；所以權重 $A$ 是 $[..., N, M]$，輸出是 $[..., N, d_v]$。
# %% [markdown] lang="en"
# The check looks at all of this:
#
# - $d_k$, $d_v$, $N$, $M$ all different; 2-D, 3-D and 4-D inputs; the three mask shapes above; temperatures other than 1.
# - Masked keys weigh exactly 0, however large their scores or those of the others are.
# - A row with nothing to attend to: zero weights, zero output, no NaN.
# - Scores up to ±10⁴ in float64, up to ±100 in float32; float16 and bfloat16 by the rule of twice the plain formula's error (best compute the softmax in float32).
# - Every dtype and the temperature with a mask and without; a row whose open keys all score the same.
# - Gradients with respect to $q$, $k$ and $v$, finite also with a fully masked row.
# %% [markdown] lang="zh-TW"
# 檢查會看以下各點：
#
# - $d_k$、$d_v$、$N$、$M$ 都不同；2、3、4 維的輸入；上述三種遮罩形狀；溫度不是 1。
# - 被遮住的鍵權重恰為 0，不管它或別人的分數有多大。
# - 沒有東西可看的列：權重全 0、輸出全 0、沒有 NaN。
# - float64 的分數到 ±10⁴，float32 到 ±100；float16 與 bfloat16 的檢查只看誤差：最多是直接套公式的兩倍（softmax 建議用 float32 算）。
# - 每種 dtype 與溫度，有遮罩、沒有遮罩都會試；也有看得到的鍵分數全部相等的列。
# - 對 $q$、$k$、$v$ 的梯度；有整列被遮住時，梯度也要是有限值。
# %% [markdown] lang="en"
# Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `F.multi_head_attention_forward`, and the course's own version. `torch.softmax` is allowed.
# %% [markdown] lang="zh-TW"
# 不可使用：`F.scaled_dot_product_attention`、`nn.MultiheadAttention`、`F.multi_head_attention_forward`，以及課程自己的版本。可以用 `torch.softmax`。
# %% exercise="scaled_dot_product_attention"
def scaled_dot_product_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    temperature: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of 2017: weights = softmax(q k^T / (sqrt(d_k) * temperature)) over the keys, output = weights v.

    Args:
        q: queries, [..., N, d_k], float32, float64, float16 or bfloat16.
        k: keys, [..., M, d_k].
        v: values, [..., M, d_v]. The leading dimensions of q, k and v agree.
        mask: Boolean, broadcasts to [..., N, M]: [N, M], [B, 1, 1, M] or [B, h, N, M], for example.
            True = may attend. None = every query sees every key.
        temperature: a positive number, divides the scores in addition to sqrt(d_k).

    Returns:
        (output, weights), [..., N, d_v] and [..., N, M], in the dtype of q.
        A masked key weighs exactly 0, whatever the size of its score and of the others; the open ones sum to 1.
        A row with nothing to attend to has zero weights and zero output; a row with equal scores shares evenly.

    Scores up to ±1e4 in float64 and ±100 in float32 occur. Half precision is judged by its error: at most twice that
    of the plain formula in the same dtype; best compute the softmax in float32. Every dtype occurs with a mask and
    without, and so do temperatures. Differentiable in q, k and v: gradients are compared, and they are finite also
    where a row is fully masked. The inputs, the mask too, stay unchanged.
    Not allowed: F.scaled_dot_product_attention, nn.MultiheadAttention, F.multi_head_attention_forward.
    """
    ### BEGIN SOLUTION
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.mT / (math.sqrt(q.shape[-1]) * temperature)  # [..., N, M]
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        scores = scores.masked_fill(~mask, -math.inf)
        # A row of nothing but -inf would be NaN, backwards too: give it zeros, and take its weights away afterwards.
        scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)
    ### END SOLUTION


# %%
check("scaled_dot_product_attention", scaled_dot_product_attention)
# %% [markdown] lang="en"
# ### The same as PyTorch's
#
# PyTorch has this very operation as one call. Yours and PyTorch's should agree to rounding, with a mask and without.
# %% [markdown] lang="zh-TW"
# ### 跟 PyTorch 的一樣
#
# PyTorch 把這個運算做成一個函式。不管有沒有遮罩，你的結果跟它應該只差捨入誤差。
# %%
attention = use("scaled_dot_product_attention", scaled_dot_product_attention)

generator = torch.Generator().manual_seed(4)
q, k, v = (torch.randn(2, 3, size, width, generator=generator) for size, width in ((5, 16), (7, 16), (7, 8)))
padding = torch.arange(7) < torch.tensor([7, 4]).view(2, 1, 1, 1)  # [B, 1, 1, M]: the second sentence has four words
for name, mask in (("no mask", None), ("padding mask", padding)):
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    print(f"{name:<13} largest difference {(attention(q, k, v, mask)[0] - theirs).abs().max():.1e}")
# %% [markdown] lang="en"
# ### The lecture's homework: three words, d_k = 4
#
# The lecture suggests three words with $d_k = 4$ and a look at the weights with and without the root. One draw can mislead, so take 20,000, and $d_k = 64$ as well. Dividing by more than 1 can only lower the top weight; the question is by how much.
# %% [markdown] lang="zh-TW"
# ### 講義的小作業：三個字、d_k = 4
#
# 講義建議拿三個字、$d_k = 4$，比較有沒有根號的權重。只抽一次可能看走眼，所以抽兩萬次，再加上 $d_k = 64$。除以大於 1 的數，最大的權重只會變小；問題是小多少。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(0)
tops = {"divided by √d_k": [], "not scaled": []}
for d_k in (4, 64):
    q, k = torch.randn(20_000, 3, d_k, generator=generator), torch.randn(20_000, 3, d_k, generator=generator)
    v = torch.eye(3).expand(20_000, 3, 3)
    with_root = attention(q, k, v)[1].amax(-1)
    without = attention(q, k, v, temperature=1 / math.sqrt(d_k))[1].amax(-1)  # the root cancels
    tops["divided by √d_k"].append(with_root.mean())
    tops["not scaled"].append(without.mean())
    never_lower = (without >= with_root - 1e-6).double().mean()
    print(
        f"d_k = {d_k:>2}: mean top weight {with_root.mean():.2f} with the root, {without.mean():.2f} without; "
        f"not lower without in {never_lower:.0%} of the rows"
    )
ax = plots.bars(["d_k = 4", "d_k = 64"], tops, "mean of the largest weight", "Three words, 20,000 draws")
# %% [markdown] lang="en"
# True every time, but mild at $d_k = 4$: the root there is only 2. At $d_k = 64$ you cannot miss it.
# %% [markdown] lang="zh-TW"
# 每一次都成立，但 $d_k = 4$ 時差得不多，因為根號只有 2。到了 $d_k = 64$，差別就一目了然。
# %% [markdown] lang="en"
# ## 11. A detective story: 8.2, 1.1, 0.3
#
# The article on "it" gives three scores for the query *it*: cat 8.2, mat 1.1, the 0.3. After softmax it prints cat 0.85, mat 0.08, the 0.02 (and three more small weights). It never mentions a division. Can these weights come from these scores?
#
# Every pair is a witness. With a temperature, $p_a/p_b = e^{(s_a - s_b)/\tau}$, and solving for $\tau$ gives
#
# $$\tau = \frac{s_a - s_b}{\ln (p_a/p_b)}$$
# %% [markdown] lang="zh-TW"
# ## 11. 一樁小懸案：8.2、1.1、0.3
#
# 談「it」的那篇文章給了查詢 *it* 的三個分數：cat 8.2、mat 1.1、the 0.3。經過 softmax，它印出 cat 0.85、mat 0.08、the 0.02（另有三個小權重），從頭到尾沒提過要除以什麼。這些權重真的來自這些分數嗎？
#
# 每一對都是證人。有溫度時，$p_a/p_b = e^{(s_a - s_b)/\tau}$，解出 $\tau$ 就是
#
# $$\tau = \frac{s_a - s_b}{\ln (p_a/p_b)}$$
# %%
words = ["cat", "mat", "the"]
it_scores = torch.tensor([8.2, 1.1, 0.3], dtype=torch.float64)
printed = [0.85, 0.08, 0.02]

print("softmax of the scores as printed:", dict(zip(words, [round(p, 4) for p in softmax_at(it_scores, 1.0).tolist()])))
print("divided by sqrt(64) = 8:         ", dict(zip(words, [round(p, 2) for p in softmax_at(it_scores, 8.0).tolist()])))

# Bisection for the temperature that gives cat its 0.85: the hotter, the less cat gets.
low, high = 1.0, 10.0
for _ in range(50):
    middle = (low + high) / 2
    low, high = (middle, high) if softmax_at(it_scores, middle)[0] > 0.85 else (low, middle)
print(
    f"tau = {low:.2f} gives:               ",
    dict(zip(words, [round(p, 3) for p in softmax_at(it_scores, low).tolist()])),
)

for a, b in ((0, 1), (0, 2), (1, 2)):
    gap = (it_scores[a] - it_scores[b]).item()
    needed = gap / math.log(printed[a] / printed[b])
    # 0.85 may stand for anything from 0.845 to 0.855, and so on.
    least = gap / math.log((printed[a] + 0.005) / (printed[b] - 0.005))
    most = gap / math.log((printed[a] - 0.005) / (printed[b] + 0.005))
    print(f"{words[a]}:{words[b]} needs tau = {needed:.2f} (rounding allows {least:.2f} to {most:.2f})")
# %% [markdown] lang="en"
# The witnesses contradict each other: 3.00, 2.11 and 0.58, and rounding cannot reconcile them. So **no temperature gives the printed list**. The picture shows it: a solution would be one vertical line that crosses all three curves at the heights of their dashes.
# %% [markdown] lang="zh-TW"
# 三位證人的說法互相矛盾：3.00、2.11、0.58，就算考慮四捨五入也對不起來。所以**沒有任何溫度能得到印出來的那一串**。看圖更清楚：若有解，就會有一條鉛直線，在三條曲線上同時碰到各自的虛線高度。
# %%
temperatures = torch.linspace(0.3, 8.0, 78, dtype=torch.float64).tolist()
tempered = torch.stack([softmax_at(it_scores, tau) for tau in temperatures])  # [78, 3]
ax = plots.curves(
    temperatures,
    {word: tempered[:, j] for j, word in enumerate(words)},
    "temperature τ",
    "weight",
    "softmax((8.2, 1.1, 0.3) / τ); dashed: as printed",
)
for line, weight in zip(ax.get_lines(), printed):
    ax.axhline(weight, color=line.get_color(), linestyle="--", linewidth=1.2)
ax.axvline(low, color="#777777", linewidth=1, linestyle=":")
_ = ax.annotate(f" τ = {low:.2f}: cat 0.85", (low, 0.5), fontsize=10)
# %% [markdown] lang="en"
# The article's weights are an illustration, not a computation. The lesson to keep: a softmax can be checked. Ratios of weights are exponentials of differences of scores, nothing else.
# %% [markdown] lang="zh-TW"
# 那篇文章的權重是示意，不是算出來的。值得記住的是：softmax 可以檢查。權重的比值就是分數差的指數，沒有別的。
# %% [markdown] lang="en"
# ## 12. May it be another constant?
#
# The lecture asks this in its self-check. Algebra first: with $q = x W_Q$, dividing by $c$ instead of $\sqrt{d_k}$ is the same as using $W_Q\cdot\sqrt{d_k}/c$ with the usual root. So for every network with $\sqrt{d_k}$ there is one with $c$ that computes **the same function**: its query matrix is larger by $c/\sqrt{d_k}$.
#
# The constant takes nothing away from what the layer can express. The cell checks it for $c = \sqrt{9487}$.
# %% [markdown] lang="zh-TW"
# ## 12. 可以換成別的常數嗎？
#
# 講義的自學檢查也問了這一題。先做一點代數：$q = x W_Q$，改除以 $c$，等於照樣除以根號、但查詢矩陣換成 $W_Q\cdot\sqrt{d_k}/c$。所以每個用 $\sqrt{d_k}$ 的網路，都有一個用 $c$ 的網路算出**同一個函數**，只要把它的查詢矩陣放大 $c/\sqrt{d_k}$ 倍。
#
# 換常數並不會減少這一層能表達的東西。下一格用 $c = \sqrt{9487}$ 驗證。
# %%
generator = torch.Generator().manual_seed(6)
d_model = d_k = 64
c = math.sqrt(9487)
x = torch.randn(10, d_model, generator=generator, dtype=torch.float64)
W_Q, W_K, W_V = (torch.randn(d_model, d_k, generator=generator, dtype=torch.float64) / 8 for _ in range(3))
usual, _ = attention(x @ W_Q, x @ W_K, x @ W_V)
# temperature = c / sqrt(d_k), so that the scores are divided by c.
same_weights, _ = attention(x @ W_Q, x @ W_K, x @ W_V, temperature=c / math.sqrt(d_k))
larger_W_Q, _ = attention(x @ (W_Q * c / math.sqrt(d_k)), x @ W_K, x @ W_V, temperature=c / math.sqrt(d_k))
print(f"divide by sqrt(9487), same W_Q:   outputs differ by {(usual - same_weights).abs().max():.2f}")
print(f"divide by sqrt(9487), larger W_Q: outputs differ by {(usual - larger_W_Q).abs().max():.1e}")


# %% [markdown] lang="en"
# ### What training absorbs, and what it does not
#
# A trained $W_Q$ can absorb any constant. A *fresh* one has not done so yet, and has to learn through the softmax that the constant gave it. So let us train: $d_k = 256$, 16 keys, and a layer that must learn which key a noisy, rotated query means. Four constants: 1, $\sqrt{d_k} = 16$, $\sqrt{9487} \approx 97$, and 9487 itself. All else is equal, the seeds too.
# %% [markdown] lang="zh-TW"
# ### 訓練能吸收什麼，不能吸收什麼
#
# 訓練好的 $W_Q$ 可以吸收任何常數；**剛初始化**的還沒有，它得隔著那個常數造成的 softmax 慢慢學。那就來訓練看看：$d_k = 256$、16 個鍵，這一層要學會認出一個旋轉過又帶雜訊的查詢指的是哪個鍵。常數有四種：1、$\sqrt{d_k} = 16$、$\sqrt{9487} \approx 97$、9487，其他條件連同亂數種子都相同。
# %% tags=["experiment"]
def train_with(divisor, steps=240, d_k=256, n_keys=16):
    """Squared error of each step of an attention layer that learns a look-up; its scores are divided by divisor."""
    generator = torch.Generator().manual_seed(0)
    memory = torch.randn(n_keys, d_k, generator=generator)
    rotation = torch.linalg.qr(torch.randn(d_k, d_k, generator=generator)).Q
    W_Q, W_K = (torch.randn(d_k, d_k, generator=generator) / math.sqrt(d_k) for _ in range(2))
    optimizer = torch.optim.Adam([W_Q.requires_grad_(), W_K.requires_grad_()], lr=3e-4)
    answers, errors = torch.eye(n_keys), []
    for _ in range(steps):
        meant = torch.randint(0, n_keys, (64,), generator=generator)
        x = (memory[meant] + 0.5 * torch.randn(64, d_k, generator=generator)) @ rotation
        output, _ = attention(x @ W_Q, memory @ W_K, answers, temperature=divisor / math.sqrt(d_k))
        loss = (output - answers[meant]).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    return errors


divisors = {"1": 1.0, "√d_k = 16": 16.0, "√9487": math.sqrt(9487), "9487": 9487.0}
learned = {f"c = {name}": train_with(divisor) for name, divisor in divisors.items()}
for name, errors in learned.items():
    print(
        f"{name:<13} error at the start {errors[0]:.2f}, after 40 steps {sum(errors[35:45]) / 10:.2f}, "
        f"at the end {sum(errors[-10:]) / 10:.3f}"
    )
ax = plots.curves(range(240), learned, "training step", "squared error", "Scores divided by c, d_k = 256")
_ = ax.legend(loc="center right", bbox_to_anchor=(1, 0.25))
# %% [markdown] lang="en"
# - $c = \sqrt{d_k}$ learns at once.
# - $c = \sqrt{9487}$ starts as a plain average, learns later, and gets there: training absorbed the constant. The lecture's joke is nearly right.
# - $c = 1$ starts with a random winner in every row and a small gradient; the error falls to a little over 1 and stays there.
# - $c = 9487$ starts flat. Adam moves each weight only a little in every step, and divided by 9487 that hardly moves the scores.
#
# So the constant may be another one of the same order. It decides where training starts, not where it can go.
# %% [markdown] lang="zh-TW"
# - $c = \sqrt{d_k}$：馬上就學會。
# - $c = \sqrt{9487}$：一開始只是平均，學得晚，但還是到了，因為訓練把常數吸收了。講義的玩笑差不多是對的。
# - $c = 1$：一開始每一列都有個隨機的贏家，梯度很小；誤差降到 1 出頭就卡住了。
# - $c = 9487$：一開始太平，而 Adam 每步只把權重改動一點點，除以 9487 之後分數幾乎不動。
#
# 所以可以換成大小相近的常數。常數決定訓練從哪裡出發，不決定能走到哪裡。
# %% [markdown] lang="en"
# ## 13. On a real model: does the variance stay 1?
#
# One document says that the division keeps the variance at 1, always. MiniLM is a small trained model (6 layers, 12 heads, $d_k = 32$). We read its attention weights and recover the scaled scores from them: $\ln p_j = s_j - \ln Z$, and $\ln Z$ is the same along a row. So the variance of $\ln p$ in a row **is** the variance of the scaled scores.
# %% [markdown] lang="zh-TW"
# ## 13. 在真的模型上：變異數一直是 1 嗎？
#
# 有一份文件說，除完之後變異數始終是 1。MiniLM 是一個訓練好的小模型（6 層、12 個頭、$d_k = 32$）。我們讀出它的注意力權重，再還原縮放後的分數：$\ln p_j = s_j - \ln Z$，同一列的 $\ln Z$ 都一樣，所以一列 $\ln p$ 的變異數**就是**縮放後分數的變異數。
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, encode, load_minilm

paragraph = (
    "The Transformer is a neural network that relates every word of a sentence to every other word in a single step. "
    "It was proposed in 2017 to replace recurrent networks for machine translation, and it now stands behind nearly "
    "all large language models. Its central operation takes inner products of queries and keys, divides them by a "
    "constant, and turns them into weights with a softmax. Why that constant is the square root of the key dimension "
    "is the question of this lesson."
)
try:
    tokenizer, minilm = load_minilm()
except CheckpointMissing as missing:
    print(missing)
else:
    measured = {}
    for name, text in (
        ("one sentence", "The cat sat on the mat because it was tired."),
        ("a paragraph", paragraph),
    ):
        encoded = encode(tokenizer, minilm, text)
        in_row = encoded.attention.double().log().var(dim=-1, unbiased=False)  # [layers, heads, N]
        measured[name] = in_row.mean(dim=(1, 2))
        heads = in_row.mean(dim=-1)
        print(
            f"{name} ({len(encoded.tokens)} tokens): layers 1-6 {[round(x, 1) for x in measured[name].tolist()]}, "
            f"single heads from {heads.min():.2f} to {heads.max():.0f}"
        )
    ax = plots.bars(
        [f"layer {i}" for i in range(1, 7)],
        measured,
        "variance within a row",
        "Scaled scores of a trained model (fresh: about 1)",
    )
    ax.axhline(1, color="black", linestyle="--", linewidth=1)
# %% [markdown] lang="en"
# Not 1, and not constant: large in the first layer, falling towards the last, and from ¼ to over 100 between single heads. Longer texts give larger figures. The trained model has chosen its own temperatures by scaling its $W_Q$ and $W_K$.
#
# "Variance 1" is a promise about the first step of training. After that, the model decides.
# %% [markdown] lang="zh-TW"
# 不是 1，也不是定值：第一層很大，愈往後愈小；單看各個頭，從 ¼ 到一百多都有。文字愈長，數值愈大。訓練好的模型藉由縮放 $W_Q$ 與 $W_K$，替自己選了溫度。
#
# 「變異數是 1」只是訓練第一步的承諾，之後就由模型決定。
# %% [markdown] lang="en"
# ## 14. −1e9 in half precision
#
# Two documents fill masked scores with −1e9. Large models run in float16 or bfloat16, and float16 ends at 65504. Four attempts at masking, on one row that sees two of three keys and one that sees nothing:
# %% [markdown] lang="zh-TW"
# ## 14. 半精度裡的 −1e9
#
# 有兩份文件把被遮住的分數填成 −1e9。大型模型用 float16 或 bfloat16 執行，而 float16 最大只到 65504。下面試四種遮法：一列看得到三個鍵中的兩個，另一列什麼都看不到。
# %%
half_scores = example.half()
for name, fill in (("-1e9", -1e9), ("-65504", -65504.0), ("-inf", -math.inf)):
    try:
        weights = torch.softmax(half_scores.masked_fill(~may_attend, fill), dim=-1)
        print(f"float16, fill {name:>6}: {[[round(w, 2) for w in row] for row in weights.tolist()]}")
    except RuntimeError as error:
        print(f"float16, fill {name:>6}: {type(error).__name__}: {error}")
# k is a square matrix of which q @ k^T / sqrt(d_k) gives back the scores of the example.
q, k = half_scores, math.sqrt(3) * torch.eye(3, dtype=torch.float16)
_, weights = attention(q, k, torch.eye(3, dtype=torch.float16), mask=may_attend)
print(f"float16, this lesson's: {[[round(w, 2) for w in row] for row in weights.tolist()]}")
# %% [markdown] lang="en"
# −1e9 cannot even be written in float16. The largest float16 number works until a row has nothing open, and then averages what is hidden. −∞ gives NaN there. The function of this lesson gives zeros.
# %% [markdown] lang="zh-TW"
# float16 連 −1e9 都存不下。改填 float16 的極值，平常沒事，遇到整列都被遮住，就把不該看的平均起來；填 −∞ 則得到 NaN。這一課的函式得到的是 0。
# %% [markdown] lang="en"
# ## 15. What to remember
#
# 1. Independent components of mean 0 and variance 1: $\mathrm{Var}(q\cdot k) = d_k$. $\sqrt{d_k}$ is the score's standard deviation.
# 2. Softmax sees differences. Dividing changes the spread, subtracting changes nothing.
# 3. $J = (\mathrm{diag}(p) - p^{\top}p)/\tau$. One winner: all of $J$ is 0. Too hot: $1/\tau$ makes it 0.
# 4. $\sqrt{d_k}$ is a choice of where training starts, not a theorem about where it ends. A constant of the same order is absorbed by $W_Q$.
# 5. Mask before the softmax, True = may attend, and a row with nothing to see gives zeros.
# %% [markdown] lang="zh-TW"
# ## 15. 要記住的事
#
# 1. 分量獨立、平均 0、變異數 1 時，$\mathrm{Var}(q\cdot k) = d_k$；$\sqrt{d_k}$ 就是分數的標準差。
# 2. softmax 只看差。除法改變離散程度，減法什麼都不改變。
# 3. $J = (\mathrm{diag}(p) - p^{\top}p)/\tau$。只剩一個贏家時，$J$ 整個是 0；太熱時，$1/\tau$ 讓它變成 0。
# 4. $\sqrt{d_k}$ 是選擇訓練從哪裡出發，不是關於終點的定理；大小相近的常數，$W_Q$ 都能吸收。
# 5. 遮罩在 softmax 之前作用，True 代表可以看；沒東西可看的列得到 0。
# %% [markdown] lang="en"
# ## 16. Self-check: question `03_q1` · 1 point · 3 minutes
#
# What does dividing by $\sqrt{d_k}$ solve, and what would another constant do? Choose the best answer and put its letter between the quotation marks below.
#
# - **a**: It moves the scores back to near 0, because softmax works well only with small numbers. Subtracting one large enough constant from all scores would do the same.
# - **b**: It makes the weights of each query sum to 1, so that the output is an average of the values. With another constant the sums would be larger or smaller than 1.
# - **c**: It keeps the spread of a fresh layer's scores near 1, whatever $d_k$, so that softmax does not start with one winner and no gradient. Another constant of the same order would do: $W_Q$ can absorb it.
# - **d**: It keeps the variance of the scores at 1, at the start and after training. The proof gives exactly $\sqrt{d_k}$, so every other constant makes the attention wrong.
# %% [markdown] lang="zh-TW"
# ## 16. 自我檢查：選擇題 `03_q1` · 滿分 1 分 · 3 分鐘
#
# 除以 $\sqrt{d_k}$ 解決了什麼問題？換成別的常數會怎樣？請選最好的答案，把字母填進下面的引號裡。
#
# - **a**：它把分數移回 0 附近，因為 softmax 只適合處理小的數。把所有分數都減去同一個夠大的常數，效果也一樣。
# - **b**：它讓每個查詢的權重加起來是 1，輸出才會是值的平均。換成別的常數，權重的總和就會比 1 大或比 1 小。
# - **c**：不管 $d_k$ 多大，它都讓剛初始化的分數離散程度維持在 1 左右，softmax 才不會一開始就只有一個贏家、又沒有梯度。換成大小相近的常數也行，$W_Q$ 可以吸收。
# - **d**：它讓分數的變異數維持在 1，訓練前後都是如此。證明得到的正好是 $\sqrt{d_k}$，所以換成任何別的常數，注意力都會算錯。
# %% question="03_q1"
answer_03_q1 = ""
### BEGIN SOLUTION
answer_03_q1 = "c"
### END SOLUTION
# %%
check("03_q1", answer_03_q1)
# %% [markdown] lang="en"
# ## 17. Written answer `03_w1` · 2 points · 12 minutes
#
# **May another constant stand in place of $\sqrt{d_k}$?** Argue in five to eight sentences, with the variance of the scores and with what training can absorb. Support your argument with at least one figure that you measured in this lesson. Your instructor reads this answer.
#
# How it is graded:
#
# - **1 point, variance.** Says what variance $q\cdot k$ has and under which assumptions, and what a constant much smaller or much larger does to softmax and its gradient at the start. Half a point if the assumptions or one of the two sides is missing.
# - **1 point, training.** Says that $W_Q$ (or $W_K$) can absorb a constant so that the same function remains possible, *and* why a fresh layer may still fail to get there; with a figure. Half a point for one of the two, or without a figure.
# %% [markdown] lang="zh-TW"
# ## 17. 問答題 `03_w1` · 滿分 2 分 · 12 分鐘
#
# **$\sqrt{d_k}$ 可以換成別的常數嗎？** 請用五到八句話論述，要談到分數的變異數，以及訓練能吸收什麼，並至少引用一個你在這一課量到的數字。這一題由授課教師批閱。
#
# 評分方式：
#
# - **變異數，1 分。** 說出 $q\cdot k$ 的變異數與所需的假設，並說明常數太小或太大時，一開始的 softmax 與梯度各會如何。沒提假設，或只談到其中一邊，給 0.5 分。
# - **訓練，1 分。** 說出 $W_Q$（或 $W_K$）可以吸收常數，所以同一個函數仍然做得到，**而且**說明為什麼剛初始化的層還是可能學不到，並引用數字。只談到其中一項，或沒有數字，給 0.5 分。
# %% [markdown] lang="en" written="03_w1" points=2
# *Write your answer here.*
# %% [markdown] lang="zh-TW" written="03_w1" points=2
# *請在這裡寫下你的答案。*
# %% [markdown] lang="en"
# ## 18. What the documents claim, and what you measured
#
# Every figure below comes from a cell of this lesson (or from the proof, where it says so). Seeds and machines move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | Independent standard normal components: mean 0, variance $d_k$ | true | sampled 64.2 for 64, 513 for 512; no normal distribution needed (uniform and coin: about 64), but means ½ give 97 (theory 96), $q = k$ gives 128 |
# | For large $d_k$ the products become extreme | true with a condition: the components keep size 1 | share beyond ±10: 0.0003, 0.016, 0.21, 0.65 for $d_k$ = 4, 16, 64, 512 |
# | The gradients of all but the largest vanish | not so: all vanish | $d_k$ = 512: the winner's own derivative falls from 0.2 to about 10⁻⁴ |
# | Dividing keeps the variance at 1, always | true with a condition: at the start of training | trained MiniLM, layers 1–6, a paragraph: 14, 7, 7, 4, 4, 2; heads from ¼ to over 100 |
# | Inner products do worse than a learned scorer, because softmax takes the winner | true with a condition: large $d_k$, nothing scaled | largest of ten weights at $d_k$ = 512, median: 0.9999 without, 0.3 with the root |
# | 3.9, 3.2, 1, 0.3, 1.1 give 61 %, 30 %, …; the first has twice the second | true | 0.610, 0.303, 0.034, 0.017, 0.037; ratio 2.01 |
# | Divided by √5: 40, 29, 11, 8, 11 % | true | 0.402, 0.294, 0.110, 0.080, 0.115; entropy from 0.97 to 1.42 |
# | τ = √5 in that example is $\sqrt{d_k}$ | not so | five is the number of scores; $d_k$ is not given |
# | Pulling the numbers back to 0 solves it | not so: the spread matters | $s - 100$ gives the same weights to the last digit |
# %% [markdown] lang="zh-TW"
# ## 18. 文件怎麼說，你量到什麼
#
# 下面每個數字都來自這一課的儲存格（或來自證明，會註明）。換亂數種子或電腦，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 分量是獨立的標準常態時，平均 0、變異數 $d_k$ | 對 | 抽樣：$d_k$ = 64 得 64.2，512 得 513；不需要常態分布（均勻與硬幣也約 64），但平均 ½ 得 97（理論 96），$q = k$ 得 128 |
# | $d_k$ 大時，內積會極大或極小 | 有條件：分量的大小仍是 1 | 超出 ±10 的比例：$d_k$ = 4、16、64、512 時為 0.0003、0.016、0.21、0.65 |
# | 最大值以外的梯度會消失 | 不對：全部都會消失 | $d_k$ = 512：贏家自己的導數從 0.2 降到約 10⁻⁴ |
# | 除完之後變異數始終是 1 | 有條件：訓練剛開始時 | 訓練好的 MiniLM 讀一段文字，第 1–6 層：14、7、7、4、4、2；各頭從 ¼ 到一百多 |
# | 內積不如訓練出來的評分方式，因為 softmax 贏者通吃 | 有條件：$d_k$ 大且沒有縮放 | $d_k$ = 512，十個權重中最大的（中位數）：沒有根號 0.9999，有根號 0.3 |
# | 3.9、3.2、1、0.3、1.1 得 61 %、30 %……，第一名是第二名的兩倍 | 對 | 0.610、0.303、0.034、0.017、0.037；比值 2.01 |
# | 除以 √5 得 40、29、11、8、11 % | 對 | 0.402、0.294、0.110、0.080、0.115；熵從 0.97 升到 1.42 |
# | 例子裡的 τ = √5 就是 $\sqrt{d_k}$ | 不對 | 5 是分數的個數；沒有給 $d_k$ |
# | 把數字拉回 0 附近就解決了 | 不對：重點是離散程度 | $s - 100$ 的權重完全相同 |
