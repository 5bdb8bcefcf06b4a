# %% [markdown] lang="en"
# # 06 · Residual connections and normalisation
#
# Around every attention layer and every feed-forward network stand two words: *Add & Norm*. The lecture says that they were the best techniques for deep, stable networks in 2017 and more or less still are.
#
# Why should adding the input back help at all? And what exactly is normalised? You will write two feed-forward networks, the plus sign, three norms and one that normalises nothing, and then measure what each of them does.
#
# We test what some articles and lecture notes say: below they are "the lecture", "one article" and "the documents".
#
# **You need** mean, variance, the chain rule. **Time**: about two and a half hours, 90 minutes of them for the exercises and questions.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `feed_forward` | 2 | 10 | 2 |
# | `swiglu` | 3 | 10 | 2 |
# | `residual` | 1 | 3 | 1 |
# | `batch_norm` | 3 | 20 | 3 |
# | `layer_norm` | 3 | 15 | 3 |
# | `rms_norm` | 2 | 5 | 2 |
# | `dynamic_tanh` | 1 | 5 | 1 |
# | `encoder_sublayer` | 2 | 7 | 2 |
# | question `06_q1` | | 2 | 1 |
# | question `06_q2` | | 2 | 1 |
# | written answer `06_w1` | | 11 | 2 |
# %% [markdown] lang="zh-TW"
# # 06 · 殘差連結與正規化
#
# 每一層注意力、每一個前饋網路外面，都寫著 *Add & Norm*。講義說，這些是 2017 年讓神經網路更深、更穩定的最佳技術，現在也差不多。
#
# 把輸入再加回去，憑什麼有用？正規化的又到底是什麼？這一課要寫出兩種前饋網路、那個加號、三種正規化，外加一種什麼都不正規化的做法，再實際量出每一樣的效果。
#
# 本課常提到的「講義」「文章」和「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# **先備知識**：平均、變異數、連鎖律。**時間**：約兩個半小時，其中練習、選擇題和問答題 90 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `feed_forward` | 2 | 10 | 2 |
# | `swiglu` | 3 | 10 | 2 |
# | `residual` | 1 | 3 | 1 |
# | `batch_norm` | 3 | 20 | 3 |
# | `layer_norm` | 3 | 15 | 3 |
# | `rms_norm` | 2 | 5 | 2 |
# | `dynamic_tanh` | 1 | 5 | 1 |
# | `encoder_sublayer` | 2 | 7 | 2 |
# | 選擇題 `06_q1` | | 2 | 1 |
# | 選擇題 `06_q2` | | 2 | 1 |
# | 問答題 `06_w1` | | 11 | 2 |
# %% tags=["setup"]
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

# %% [markdown] lang="en"
# ## 1. The question
#
# Thirty layers, 24 numbers wide, learn to tell three spirals apart. Two networks: in the plain one each layer *replaces* its input, $z \leftarrow \ell(z)$. In the other each layer *adds* to it, $z \leftarrow z + \ell(z)$.
#
# Same data, same random start, same number of weights, same optimiser. The only difference is one plus sign. Guess before you run the cell: how much can it matter?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 三十層、每層 24 個數的網路，要學會分辨三條螺線。比較兩種網路：普通的，每一層都**換掉**輸入，$z \leftarrow \ell(z)$；另一種，每一層都**加**一點上去，$z \leftarrow z + \ell(z)$。
#
# 資料、隨機的起點、權重個數、最佳化器都一樣，差別只有一個加號。執行之前先猜：它能有多大的影響？
# %% tags=["experiment"]
from course_lib import plots

torch.set_num_threads(1)  # matrices this small gain nothing from several threads that wait for each other


def spirals(n=256):
    """n points (x, y, 1) on three arms, and the number of each point's arm."""
    generator = torch.Generator().manual_seed(1)
    t = 0.1 + 0.9 * torch.rand(n, generator=generator)
    arm = torch.randint(0, 3, (n,), generator=generator)
    angle = 5 * t + arm * 2 * math.pi / 3
    xy = torch.stack([t * angle.cos(), t * angle.sin()], dim=1) + 0.03 * torch.randn(n, 2, generator=generator)
    return torch.cat([xy, torch.ones(n, 1)], dim=1), arm


points, arms = spirals()


def rows_normalised(z):
    return F.layer_norm(z, z.shape[-1:])


def deep_network(weights, x, skip):
    z = x @ weights[0]
    for W in weights[1:-1]:
        branch = torch.relu(rows_normalised(z)) @ W
        z = z + branch if skip else branch  # the plus sign
    return rows_normalised(z) @ weights[-1]


def train_on_spirals(depth, skip, width=24, steps=120):
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, width), *[(width, width)] * depth, (width, 3)]
    gains = [1.0, *[math.sqrt(2)] * depth, 1.0]  # √2: ReLU keeps half of the variance
    weights = [
        (torch.randn(*shape, generator=generator) * gain / math.sqrt(shape[0])).requires_grad_()
        for shape, gain in zip(shapes, gains)
    ]
    optimizer = torch.optim.Adam(weights, lr=3e-3, fused=True)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(deep_network(weights, points, skip), arms)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [W.detach() for W in weights], losses


learned = {}
for name, skip in (("z ← l(z)", False), ("z ← z + l(z)", True)):
    _, losses = train_on_spirals(30, skip)
    learned[name] = losses
    print(f"{name:<13} loss at the start {losses[0]:.2f}, after 50 steps {losses[50]:.3f}, at the end {losses[-1]:.4f}")
ax = plots.curves(range(120), learned, "training step", "loss", "Thirty layers, one plus sign", log_y=True)


# %% [markdown] lang="en"
# With the plus sign the loss is near zero after fifty steps. Without it the loss of the same thirty layers is then still more than a hundred times as large. From there on it jumps about: where it stands after 120 steps differs from machine to machine, but it is nowhere near zero.
#
# The plain network is not too small: it could represent the answer. It has trouble *finding* it. So this lesson is about what happens to gradients and to the shape of the loss, not about what a network can express.
# %% [markdown] lang="zh-TW"
# 有加號，五十步之後損失就接近 0；沒有加號，同樣的三十層這時的損失還有一百多倍，之後忽上忽下：走完 120 步落在哪裡，每臺電腦不同，但離 0 都還很遠。
#
# 普通網路並不是太小，它表示得出答案，只是很難**找到**。所以這一課談的不是網路能表達什麼，而是梯度和損失地形發生了什麼事。
# %% [markdown] lang="en"
# ## 2. The picture
#
# ```
#   post (2017)                          pre (GPT-2 and later)
#
#   x ───────────────┐                   x ───────────────────────┐
#   │                │                   │                        │
#   └─► sublayer ──► + ──► norm ──► y    └─► norm ──► sublayer ──► + ──► y
# ```
#
# The straight line is the **residual connection** (skip). The sublayer is attention or a feed-forward network. In the pre form nothing stands on the straight line; one more norm follows after the last layer. The documents show the post form only.
#
# In training, dropout acts on the sublayer's output just before the sum. This lesson leaves it out.
# %% [markdown] lang="zh-TW"
# ## 2. 圖
#
# ```
#   post (2017)                          pre (GPT-2 起)
#
#   x ───────────────┐                   x ───────────────────────┐
#   │                │                   │                        │
#   └─► sublayer ──► + ──► norm ──► y    └─► norm ──► sublayer ──► + ──► y
# ```
#
# 直直走的那條線就是**殘差連結**（捷徑）；子層（sublayer）是注意力或前饋網路。pre 的直線上什麼都沒有，最後一層之後再補一次正規化。文件只畫了 post。
#
# 訓練時，子層的輸出在相加之前還會過 dropout（隨機丟棄），這一課先略過。
# %% [markdown] lang="en"
# ## 3. The formula
#
# Let the whole layer be $f(z) = z + \ell(z)$, with $z$ a row of $d$ numbers. What the branch has to learn is then only $\ell(z) = f(z) - z$: **what is not there yet**. The derivative is
#
# $$\frac{\partial f}{\partial z} = I + \frac{\partial \ell}{\partial z} = I + J$$
#
# with $I$ and $J$ of shape $[d, d]$. If the layer has nothing to do, $\ell = 0$ is enough; a plain layer would have to learn the identity matrix.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# 設整層是 $f(z) = z + \ell(z)$，$z$ 是一列 $d$ 個數。分支要學的就只有 $\ell(z) = f(z) - z$，也就是**還沒有的那一部分**。導數是
#
# $$\frac{\partial f}{\partial z} = I + \frac{\partial \ell}{\partial z} = I + J$$
#
# $I$ 和 $J$ 的形狀都是 $[d, d]$。如果這一層沒事可做，$\ell = 0$ 就行了；普通的層卻得學出一個單位矩陣。
# %% [markdown] lang="en"
# ### Why the plus sign helps: multiply out
#
# Stack $L$ layers. By the chain rule the plain network has one product, and the other a product of sums:
#
# $$J_1 J_2 \cdots J_L \qquad\text{against}\qquad (I + J_1)(I + J_2)\cdots(I + J_L) = I + \sum_i J_i + \sum_{i<j} J_i J_j + \dots$$
#
# If every $J$ shrinks by ½, the left side has shrunk to $2^{-30}\approx 10^{-9}$ after thirty layers. On the right the first term is $I$: a path that no layer touches.
# %% [markdown] lang="zh-TW"
# ### 加號為什麼有用：乘開來看
#
# 疊 $L$ 層。由連鎖律，普通網路是一個連乘積，另一種則是許多「和」的連乘積：
#
# $$J_1 J_2 \cdots J_L \qquad\text{對}\qquad (I + J_1)(I + J_2)\cdots(I + J_L) = I + \sum_i J_i + \sum_{i<j} J_i J_j + \dots$$
#
# 如果每個 $J$ 都縮成一半，左邊三十層之後只剩 $2^{-30}\approx 10^{-9}$；右邊的第一項是 $I$：一條沒有任何一層碰過的路。
# %% [markdown] lang="en"
# The identity alone promises nothing about the other terms: there are $2^{30}$ of them, and if each $J$ *adds* in the same direction, the sum explodes. In one dimension with $J = \tfrac12$ for all layers: $0.5^{30} \approx 10^{-9}$ on the left and $1.5^{30} \approx 190{,}000$ on the right.
#
# So residuals cure vanishing and may cause exploding. That is what the norms are for, and we shall measure both.
# %% [markdown] lang="zh-TW"
# 光有 $I$，並不保證其他項都聽話：它們一共有 $2^{30}$ 個左右，要是每個 $J$ 都往同一邊加，總和就會爆炸。一維、每層 $J = \tfrac12$ 時，左邊是 $0.5^{30} \approx 10^{-9}$，右邊是 $1.5^{30} \approx 19$ 萬。
#
# 所以殘差能治梯度消失，卻可能引來梯度爆炸。正規化就是為此而來；兩者後面都會量。
# %% [markdown] lang="en"
# ## 4. By hand: one vector, four ways
#
# Take $x = (1, 2, 6)$: mean $\mu = 3$, deviations $-2, -1, 3$, variance $\sigma^2 = 14/3 = 4.667$, so $\sigma = 2.160$. The mean square is $41/3 = 13.667$, its root 3.697. With γ = 1, β = 0 and ε = 0:
#
# | | formula | result for (1, 2, 6) |
# |---|---|---|
# | LayerNorm | $(x-\mu)/\sigma$ | (−0.926, −0.463, 1.389) |
# | RMSNorm | $x/\mathrm{RMS}(x)$ | (0.271, 0.541, 1.623) |
# | DyT, α = ½ | $\tanh(x/2)$ | (0.462, 0.762, 0.995) |
# | BatchNorm | the same column, three samples | (−0.926, −0.463, 1.389) |
#
# BatchNorm reads 1, 2, 6 as *one feature of three samples*: same numbers, another axis.
# %% [markdown] lang="zh-TW"
# ## 4. 用手算：一個向量，四種算法
#
# 取 $x = (1, 2, 6)$：平均 $\mu = 3$，離差 $-2, -1, 3$，變異數 $\sigma^2 = 14/3 = 4.667$，$\sigma = 2.160$。平方的平均是 $41/3 = 13.667$，開根號得 3.697。取 γ = 1、β = 0、ε = 0：
#
# | | 公式 | (1, 2, 6) 的結果 |
# |---|---|---|
# | LayerNorm | $(x-\mu)/\sigma$ | (−0.926, −0.463, 1.389) |
# | RMSNorm | $x/\mathrm{RMS}(x)$ | (0.271, 0.541, 1.623) |
# | DyT，α = ½ | $\tanh(x/2)$ | (0.462, 0.762, 0.995) |
# | BatchNorm | 同一行（column）、三個樣本 | (−0.926, −0.463, 1.389) |
#
# BatchNorm 把 1、2、6 看成**三個樣本的同一個特徵**：數字相同，軸不同。
# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - The result's type, shape, dtype and device, then its values. float64 in means float64 precision out.
# - The arguments must come back unchanged; they may be non-contiguous, and optional ones may come by position or by name. Global settings stay as they are.
# - `...` in a shape stands for any number of leading dimensions, also none. Any size may be 1, and its axis stays.
# - Best not to call your other answers: if one is wrong, both lose points. `math`, `torch` and `F` (torch.nn.functional) are all you need.
# - Calling the course's own version in `course_lib` ends the credit of that exercise.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看回傳值的型別、形狀、dtype、裝置，再看數值。輸入是 float64，結果就要有 float64 的精度。
# - 引數不可被改動；它們在記憶體中不一定連續；有預設值的引數，可能按位置或按名稱給。全域設定也請保持原樣。
# - 形狀裡的 `...` 代表任意多個前置維度，也可能一個都沒有。任何大小都可能是 1，那個軸也要留著。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。用 `math`、`torch` 和 `F`（torch.nn.functional）就夠了。
# - 呼叫 `course_lib` 裡課程自己的版本，該練習就不再給分。
# %% [markdown] lang="en"
# ## 6. The feed-forward network
#
# After attention each token goes through the same two matrices, alone: widen to $d_\text{ff}$, activate, come back.
#
# $$\mathrm{FFN}(x) = \varphi(xW_1 + b_1)\,W_2 + b_2$$
#
# By hand, with $W_1$ the identity, $b_1 = (-1, -1)$, $W_2$ with rows $(0, 3)$ and $(5, 0)$, $b_2 = 0$: for $x = (2, 0.5)$ the hidden numbers are $(1, -0.5)$, ReLU makes them $(1, 0)$, and the result is $1\cdot(0, 3) + 0\cdot(5, 0) = (0, 3)$.
# %% [markdown] lang="zh-TW"
# ## 6. 前饋網路
#
# 注意力之後，每個詞元（token）各自通過同樣的兩個矩陣：放寬到 $d_\text{ff}$、過激勵函數、再縮回來。
#
# $$\mathrm{FFN}(x) = \varphi(xW_1 + b_1)\,W_2 + b_2$$
#
# 手算一次：$W_1$ 是單位矩陣，$b_1 = (-1, -1)$，$W_2$ 的兩列（row）是 $(0, 3)$ 與 $(5, 0)$，$b_2 = 0$。$x = (2, 0.5)$ 的隱藏值是 $(1, -0.5)$，ReLU 之後是 $(1, 0)$，結果是 $1\cdot(0, 3) + 0\cdot(5, 0) = (0, 3)$。
# %% [markdown] lang="en"
# ### Exercise `feed_forward` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Write $\varphi(xW_1 + b_1)W_2 + b_2$ with $x$ of shape $[..., d_\text{model}]$. The argument `activation` is `"relu"` (the default) or `"gelu"`; no other value is passed.
#
# GELU is $z\,\Phi(z)$, with Φ the distribution function of the standard normal: the exact form, not one of its approximations by tanh or by a sigmoid. The checks notice a difference of $5\cdot10^{-4}$, and in float64 also a √2 that is rounded to a few digits.
# %% [markdown] lang="zh-TW"
# ### 練習 `feed_forward` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 寫出 $\varphi(xW_1 + b_1)W_2 + b_2$，$x$ 的形狀是 $[..., d_\text{model}]$。引數 `activation` 是 `"relu"`（預設）或 `"gelu"`，不會有別的值。
#
# GELU 是 $z\,\Phi(z)$，Φ 是標準常態的累積分布函數：要用精確的形式，不是 tanh 或 sigmoid 的近似。$5\cdot10^{-4}$ 的差距，檢查看得出來；float64 時，連只取幾位數的 √2 也看得出來。
# %% exercise="feed_forward"
def feed_forward(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: str = "relu",
) -> torch.Tensor:
    """The position-wise feed-forward network.

    Args:
        x: [..., d_model], float32 or float64.
        W_1: [d_model, d_ff].
        b_1: [d_ff].
        W_2: [d_ff, d_model].
        b_2: [d_model].
        activation: "relu" or "gelu" (exact, x·Φ(x)).

    Returns:
        [..., d_model]. Differentiable in all tensors.
    """
    ### BEGIN SOLUTION
    hidden = x @ W_1 + b_1  # [..., d_ff]
    hidden = F.gelu(hidden) if activation == "gelu" else torch.relu(hidden)
    return hidden @ W_2 + b_2
    ### END SOLUTION


# %%
check("feed_forward", feed_forward)
# %% [markdown] lang="en"
# ### The network as a memory
#
# Write $k_i$ for column $i$ of $W_1$ and $v_i$ for row $i$ of $W_2$. Row combination (lesson 00) then says
#
# $$\mathrm{FFN}(x) = \sum_{i=1}^{d_\text{ff}} \mathrm{relu}(x\cdot k_i + b_i)\; v_i + b_2$$
#
# This is attention with ReLU in the place of softmax: $x$ is compared with $d_\text{ff}$ fixed keys, and the values of those that fire are added. One article calls it the model's memory of facts. The identity is algebra; "facts" is a thesis. Let us look at both.
# %% [markdown] lang="zh-TW"
# ### 把前饋網路看成記憶
#
# 令 $k_i$ 是 $W_1$ 的第 $i$ 行（column），$v_i$ 是 $W_2$ 的第 $i$ 列（row）。由第 00 課的列組合，
#
# $$\mathrm{FFN}(x) = \sum_{i=1}^{d_\text{ff}} \mathrm{relu}(x\cdot k_i + b_i)\; v_i + b_2$$
#
# 這就像把 softmax 換成 ReLU 的注意力：$d_\text{ff}$ 個固定的鍵去比對 $x$，有反應的就把對應的值加進來。有一份文件說它是模型的事實記憶庫。等式是代數，「事實」則是一種主張；兩件事都來看看。
# %% tags=["experiment"]
network = use("feed_forward", feed_forward)

generator = torch.Generator().manual_seed(0)
d_model, d_ff = 16, 64
W_1, b_1, W_2, b_2 = (
    torch.randn(*shape, generator=generator, dtype=torch.float64) / 4
    for shape in ((d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,))
)
x = torch.randn(5, d_model, generator=generator, dtype=torch.float64)
by_slots = b_2 + sum(torch.relu(x @ W_1[:, i] + b_1[i]).unsqueeze(-1) * W_2[i] for i in range(d_ff))
gap = (network(x, W_1, b_1, W_2, b_2) - by_slots).abs().max()
print(f"network against sum over {d_ff} slots: largest difference {gap:.1e}")
fires = x @ W_1 + b_1 > 0
print("slots that fire, token by token:", fires.sum(dim=-1).tolist(), "of", d_ff)
# %% [markdown] lang="en"
# The identity holds to rounding. Now the same question for a trained network: MiniLM, six layers with $d_\text{ff} = 1536$ slots each (it uses GELU, so a slot may also be slightly negative). For each token we keep only the slots that contribute most, and ask how well they point in the direction of the whole sum.
# %% [markdown] lang="zh-TW"
# 等式成立，只差捨入誤差。再問訓練好的網路同一個問題：MiniLM 有六層，每層 $d_\text{ff} = 1536$ 個記憶格（用 GELU，所以也可能略小於 0）。對每個詞元，只留貢獻最大的幾格，看它們的和與全部的和方向有多接近。
# %% tags=["experiment"]
from course_lib.pretrained.bert import CheckpointMissing, encode, load_minilm

paragraph = (
    "The Transformer is a neural network that relates every word of a sentence to every other word in a single "
    "step. It was proposed in 2017 to replace recurrent networks for machine translation, and it now stands "
    "behind nearly all large language models."
)
inside = {}  # (layer, part) -> what went in and what came out, for the paragraph


def remember(name):
    def hook(module, inputs, output):
        inside[name] = inputs[0].detach()[0], output.detach()[0]

    return hook


try:
    tokenizer, minilm = load_minilm()
except CheckpointMissing as missing:
    minilm = None
    print(missing)
else:
    handles = [
        getattr(layer, part).register_forward_hook(remember((i, part)))
        for i, layer in enumerate(minilm.encoder.layers)
        for part in ("feed_forward", "norm_2")
    ]
    encoded = encode(tokenizer, minilm, paragraph)
    for handle in handles:
        handle.remove()
    kept = (1, 10, 100, 400, 1536)
    agreement = {}
    for i, layer in enumerate(minilm.encoder.layers):
        into, _ = inside[i, "feed_forward"]
        activations = F.gelu(layer.feed_forward.w_1(into)).detach()  # [N, 1536]
        values = layer.feed_forward.w_2.weight.detach().T  # nn.Linear stores the transpose
        order = (activations.abs() * values.norm(dim=-1)).argsort(dim=-1, descending=True)
        whole = activations @ values
        cosines = []
        for k in kept:
            largest = torch.zeros_like(activations).scatter(-1, order[:, :k], 1.0)  # 1 for the k largest slots
            part = (activations * largest) @ values
            cosines.append(F.cosine_similarity(part, whole, dim=-1).mean().item())
        agreement[f"layer {i + 1}"] = cosines
        firing = (activations > 0).double().mean()
        print(f"layer {i + 1}: {firing:.0%} of the slots fire; the ten largest against all: cosine {cosines[1]:.2f}")
    title = "MiniLM: how many slots make the sum?"
    ax = plots.curves(kept, agreement, "slots kept", "cosine with the whole", title, log_x=True)
# %% [markdown] lang="en"
# A quarter of the slots fire for an average token, and in most layers the ten strongest of 1536 reach a cosine of only about ½. It takes hundreds to rebuild the sum. Whatever is stored here is spread over many slots.
#
# Geva et al. (2021) and Meng et al. (2022) found slots that act like keys and values of facts; Niu et al. (2024) call the picture "at best an oversimplification". Key–value *form*: proved above. Memory of *facts*: a thesis.
# %% [markdown] lang="zh-TW"
# 平均有四分之一左右的格子有反應；而多數層裡，1536 格中最強的十格，餘弦相似度只到 ½ 左右，要幾百格才拼得回整個和。不管存的是什麼，都分散在許多格子裡。
#
# Geva 等人（2021）和 Meng 等人（2022）找到像事實的鍵與值；Niu 等人（2024）則說這種看法「充其量是過度簡化」。鍵與值的**形式**，上面證明了；記住的是**事實**，則是一種主張。
# %% [markdown] lang="en"
# ### How much of the model is this?
#
# In the 2017 base model $d_\text{model} = 512$ and $d_\text{ff} = 2048$. Attention has $4d^2$ weights, the network $8d^2$. Count an encoder layer and both stacks; a decoder layer has two attentions.
# %% [markdown] lang="zh-TW"
# ### 它占模型的多少？
#
# 2017 年的 base 模型，$d_\text{model} = 512$、$d_\text{ff} = 2048$。注意力有 $4d^2$ 個權重，前饋網路有 $8d^2$ 個。數一數一個編碼器層，以及整個編碼器加解碼器；解碼器每層有兩個注意力。
# %%
d, wide = 512, 2048
attention_weights, network_weights = 4 * d * d, 2 * d * wide
encoder_layer, decoder_layer = attention_weights + network_weights, 2 * attention_weights + network_weights
print(f"encoder layer: {network_weights / encoder_layer:.1%}")
print(f"both stacks:   {2 * network_weights / (encoder_layer + decoder_layer):.1%}")


# %% [markdown] lang="en"
# Two thirds of an encoder layer, 57 % of both stacks. Is the widening a "leap", as one article says? In the paper's table 3, d_ff = 1024, 2048, 4096 gives 25.4, 25.8, 26.2 BLEU with 53, 65, 90 million weights: more helps, and costs.
#
# The same article gives the non-linear part to the network alone. But attention's weights are a softmax of products of $x$ with $x$; attention is linear in the values only.
# %% [markdown] lang="zh-TW"
# 編碼器層的三分之二，全部的 57 %。放寬真的讓表達能力「飛躍」嗎？論文的表 3：d_ff = 1024、2048、4096 的 BLEU 是 25.4、25.8、26.2，權重是 5300 萬、6500 萬、9000 萬個。愈寬愈好，但也愈貴。
#
# 同一篇文章把非線性的部分全歸給前饋網路。可是注意力的權重是 $x$ 和 $x$ 相乘再過 softmax；注意力只對「值」是線性的。
# %% [markdown] lang="en"
# ### Exercise `swiglu` · difficulty 3 of 5 · 10 minutes · 2 points
#
# Llama replaces the feed-forward network by a gated one with three matrices and no bias:
#
# $$\mathrm{SwiGLU}(x) = \big(\mathrm{SiLU}(xW_\text{gate}) \circ (xW_\text{up})\big)\,W_\text{down}, \qquad \mathrm{SiLU}(z) = \frac{z}{1 + e^{-z}}$$
#
# Small numbers: if $xW_\text{gate} = (2, -2)$ and $xW_\text{up} = (3, 3)$, then SiLU gives $(1.762, -0.238)$ and the elementwise product is $(5.285, -0.715)$. The gate's inputs range from near 0 to beyond ±10.
# %% [markdown] lang="zh-TW"
# ### 練習 `swiglu` · 難度 3／5 · 10 分鐘 · 滿分 2 分
#
# Llama 把前饋網路換成有閘門的版本，三個矩陣、沒有偏置：
#
# $$\mathrm{SwiGLU}(x) = \big(\mathrm{SiLU}(xW_\text{gate}) \circ (xW_\text{up})\big)\,W_\text{down}, \qquad \mathrm{SiLU}(z) = \frac{z}{1 + e^{-z}}$$
#
# 用小數字看：$xW_\text{gate} = (2, -2)$、$xW_\text{up} = (3, 3)$ 時，SiLU 得 $(1.762, -0.238)$，逐元素相乘得 $(5.285, -0.715)$。閘門的輸入從 0 附近到超出 ±10 都有。
# %% exercise="swiglu"
def swiglu(x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor) -> torch.Tensor:
    """The gated feed-forward network of Llama.

    Args:
        x: [..., d_model], float32 or float64.
        W_gate: [d_model, d_ff], the side that SiLU acts on.
        W_up: [d_model, d_ff], the side that stays linear.
        W_down: [d_ff, d_model].

    Returns:
        [..., d_model]. Differentiable in all tensors.
    """
    ### BEGIN SOLUTION
    gate = F.silu(x @ W_gate)  # [..., d_ff]
    return (gate * (x @ W_up)) @ W_down
    ### END SOLUTION


# %%
check("swiglu", swiglu)
# %% [markdown] lang="en"
# ### Four curves
#
# One article lists SwiGLU among the activation functions. It is not one: it is a gate with a third matrix, and SiLU is the curve inside it. With $d_\text{ff}$ cut to two thirds it has as many weights as before.
# %% [markdown] lang="zh-TW"
# ### 四條曲線
#
# 有一篇文章把 SwiGLU 列為激勵函數。其實不是：它是多一個矩陣的閘門，SiLU 才是裡面的那條曲線。把 $d_\text{ff}$ 減為三分之二，權重個數就和原來一樣。
# %%
z = torch.linspace(-4, 4, 81)
ax = plots.curves(
    z,
    {"ReLU": torch.relu(z), "GELU": F.gelu(z), "SiLU": F.silu(z), "tanh": torch.tanh(z)},
    "z",
    "φ(z)",
    "Activations",
)
exact = F.gelu(z)
for name, approximate in (("tanh", F.gelu(z, approximate="tanh")), ("sigmoid", z * torch.sigmoid(1.702 * z))):
    print(f"GELU's {name} form is off by up to {(approximate - exact).abs().max():.0e}")


# %% [markdown] lang="en"
# ## 7. The residual connection
#
# ### Exercise `residual` · difficulty 1 of 5 · 3 minutes · 1 point
#
# Return $x + \ell(x)$, where ℓ is the function `sublayer` that is handed in: it maps a tensor of any shape to one of the same shape and leaves its argument alone. Your function must leave x alone too, and the gradient must pass along both ways.
# %% [markdown] lang="zh-TW"
# ## 7. 殘差連結
#
# ### 練習 `residual` · 難度 1／5 · 3 分鐘 · 滿分 1 分
#
# 回傳 $x + \ell(x)$，ℓ 就是傳進來的函式 `sublayer`：它把任何形狀的張量變成同樣形狀的張量，而且不改動引數。你的函式也不可以改動 x，而且兩條路都要傳得回梯度。
# %% exercise="residual"
def residual(x: torch.Tensor, sublayer: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A residual connection around a sublayer.

    Args:
        x: [...], float32 or float64; stays unchanged.
        sublayer: maps a tensor to one of the same shape.

    Returns:
        [...]: the sublayer's result added to its input, a new tensor.
        Gradients pass through the skip and the sublayer.
    """
    ### BEGIN SOLUTION
    return x + sublayer(x)
    ### END SOLUTION


# %%
check("residual", residual)
# %% [markdown] lang="en"
# ### What is left of a gradient after 30 layers
#
# The formula again, now with matrices: thirty layers $\ell(z) = zA$ with random $A$ of shape $[32, 32]$, whose entries have standard deviation $s/\sqrt{32}$. How long is the gradient at the input, compared with the one at the output?
# %% [markdown] lang="zh-TW"
# ### 三十層之後，梯度剩多少
#
# 把前面的公式換成矩陣：三十層 $\ell(z) = zA$，$A$ 是 $[32, 32]$ 的隨機矩陣，元素的標準差是 $s/\sqrt{32}$。輸入端的梯度，長度是輸出端的幾倍？
# %% tags=["experiment"]
add_back = use("residual", residual)


def gradient_left(s, skip, layers=30, d=32):
    generator = torch.Generator().manual_seed(0)
    z = start = torch.randn(d, generator=generator, dtype=torch.float64).requires_grad_()
    for _ in range(layers):
        A = torch.randn(d, d, generator=generator, dtype=torch.float64) * s / math.sqrt(d)

        def branch(z, A=A):
            return z @ A

        z = add_back(z, branch) if skip else branch(z)
    at_the_end = torch.randn(d, generator=generator, dtype=torch.float64)
    (at_the_start,) = torch.autograd.grad(z @ at_the_end, start)
    return (at_the_start.norm() / at_the_end.norm()).item()


sizes = [0.0, 0.1, 0.2, 0.5, 1.0]
for s in sizes:
    plain_length, skip_length = gradient_left(s, skip=False), gradient_left(s, skip=True)
    print(f"s = {s:.1f}: plain {plain_length:8.1e}   with skip {skip_length:8.1e}")


# %% [markdown] lang="en"
# The plain product needs $s$ to be just right: at ½ the gradient is gone. With the skip it is there even for $s = 0$, but at $s = 1$ it has grown ten-thousand-fold and more. **Vanishing cured, exploding not.** The remedy is to keep the stream, or what the branch reads of it, at a fixed size. Enter normalisation.
# %% [markdown] lang="zh-TW"
# 單純的連乘需要 $s$ 剛剛好：½ 時梯度就沒了。有捷徑時，連 $s = 0$ 都有梯度；可是 $s = 1$ 時，梯度放大到上萬倍。**消失治好了，爆炸沒有。** 解法是讓主幹、或分支讀到的東西，維持固定的大小，這就是正規化。
# %% [markdown] lang="en"
# ## 8. Four ways to normalise
#
# Which numbers share a mean is the whole difference. Rows are tokens (or samples), columns are features:
#
# | | mean and deviation over | learned | used in |
# |---|---|---|---|
# | BatchNorm | a column: one feature of the whole batch | γ, β (+ running averages) | vision |
# | LayerNorm | a row: the $d$ numbers of one token | γ, β | the 2017 Transformer, BERT, GPT-2 |
# | RMSNorm | a row; no mean is subtracted | γ | Llama and most LLMs since |
# | DyT | nothing | α, γ, β | a proposal of 2025 |
# %% [markdown] lang="zh-TW"
# ## 8. 四種正規化
#
# 哪些數共用一個平均，就是全部的差別。列（row）是詞元或樣本，行（column）是特徵：
#
# | | 平均與標準差沿著 | 學來的 | 用在 |
# |---|---|---|---|
# | BatchNorm（批次正規化） | 一行：整個批次的同一個特徵 | γ、β（加上累積的統計量） | 影像 |
# | LayerNorm（層正規化） | 一列：一個詞元的 $d$ 個數 | γ、β | 2017 年的 Transformer、BERT、GPT-2 |
# | RMSNorm | 一列，不減平均 | γ | Llama 和之後多數的 LLM |
# | DyT | 什麼都不量 | α、γ、β | 2025 年的提議 |
# %% [markdown] lang="en"
# ### Exercise `batch_norm` · difficulty 3 of 5 · 20 minutes · 3 points
#
# For $x$ of shape $[B, d]$, as `nn.BatchNorm1d` but without changing its arguments: return `(y, new_running_mean, new_running_var)` with
#
# $$y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}\,\gamma + \beta \qquad (\mu, \sigma^2, \gamma, \beta \text{ of shape } [d])$$
#
# - **Training** ($B \ge 2$): μ and σ² are the batch's, σ² biased (divided by $B$). Each running value becomes $(1-m)\cdot\text{old} + m\cdot\text{batch}$ with $m$ = momentum, and for the variance the batch's **unbiased** one (divided by $B-1$).
# - **Otherwise**: μ and σ² are the running ones, which are returned as they were.
# %% [markdown] lang="zh-TW"
# ### 練習 `batch_norm` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# $x$ 的形狀是 $[B, d]$，和 `nn.BatchNorm1d` 一樣，但不改動引數：回傳 `(y, new_running_mean, new_running_var)`，其中
#
# $$y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}\,\gamma + \beta \qquad (\mu, \sigma^2, \gamma, \beta \text{ 的形狀是 } [d])$$
#
# - **訓練時**（$B \ge 2$）：μ 與 σ² 取自這一批，σ² 除以 $B$。累積值變成 $(1-m)\cdot\text{舊} + m\cdot\text{這一批}$，$m$ 是 momentum；變異數這邊要用**除以 $B-1$** 的不偏變異數。
# - **其他時候**：μ 與 σ² 用累積的，並原樣回傳。
# %% [markdown] lang="en"
# Small numbers: the batch 1, 2, 6 of one feature. $y$ uses $\sigma^2 = 4.667$, the running variance takes in 7.0. From (0, 1) and $m = 0.1$ the running values become 0.3 and $0.9 + 0.7 = 1.6$.
#
# The checks use means of ten thousand (subtract first, square afterwards), variances near ε, other values of momentum and eps, and as many samples as features. In evaluation there may be a single sample. Gradients of $y$ with respect to x, gamma and beta are compared, in evaluation those with respect to the running values too.
# %% [markdown] lang="zh-TW"
# 小數字：一個特徵的批次 1、2、6。$y$ 用 $\sigma^2 = 4.667$，累積的變異數納入 7.0。從 (0, 1) 出發、$m = 0.1$，累積值變成 0.3 與 $0.9 + 0.7 = 1.6$。
#
# 檢查裡有一萬左右的平均（先減再平方）、和 ε 差不多大的變異數、其他的 momentum 與 eps，以及樣本數等於特徵數的情形；評估模式下可能只有一個樣本。也會比較 $y$ 對 x、gamma、beta 的梯度，評估模式下還有對累積值的。
# %% exercise="batch_norm"
def batch_norm(
    x: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """BatchNorm in training and in evaluation.

    Args:
        x: [B, d], float32 or float64; B >= 2 in training.
        gamma: [d], the learned scale.
        beta: [d], the learned shift.
        running_mean: [d], the average so far; stays unchanged.
        running_var: [d], likewise.
        training: the batch's own statistics (True) or the running ones.
        momentum: the share of the new batch in the running values.
        eps: added to the variance, under the root.

    Returns:
        (y, new_running_mean, new_running_var): [B, d], [d], [d]. Without training the last two equal the old ones.
        y is differentiable in x, gamma and beta, without training in the running values too.
        Not allowed: built-in norms of any kind (F.batch_norm, F.layer_norm, F.rms_norm, F.normalize,
        torch.renorm and their like).
    """
    ### BEGIN SOLUTION
    mean, variance = running_mean, running_var
    if training:
        mean = x.mean(dim=0)
        variance = (x - mean).square().mean(dim=0)  # biased
        unbiased = variance * len(x) / (len(x) - 1)
        running_mean = (1 - momentum) * running_mean + momentum * mean
        running_var = (1 - momentum) * running_var + momentum * unbiased
    y = (x - mean) / torch.sqrt(variance + eps) * gamma + beta
    return y, running_mean, running_var
    ### END SOLUTION


# %%
check("batch_norm", batch_norm)
# %% [markdown] lang="en"
# ### Who else is in the batch?
#
# One document says that BatchNorm suffers from changing batches and LayerNorm does not. Test it: eight samples, and then the same first sample with the other seven multiplied by 5. Does the result for sample 0 move?
# %% [markdown] lang="zh-TW"
# ### 同一批還有誰？
#
# 有一份文件說，批次一變，BatchNorm 就不穩，LayerNorm 不會。試試看：八個樣本，再把另外七個都乘以 5，第 0 個不變。它的結果會動嗎？
# %% tags=["experiment"]
by_batch = use("batch_norm", batch_norm)

generator = torch.Generator().manual_seed(0)
samples = torch.randn(8, 16, generator=generator)
others_larger = torch.cat([samples[:1], 5 * samples[1:]])
plain = torch.ones(16), torch.zeros(16)
averages = torch.zeros(16), torch.ones(16)
moved = {
    "BatchNorm, training": lambda x: by_batch(x, *plain, *averages)[0],
    "BatchNorm, evaluation": lambda x: by_batch(x, *plain, *averages, training=False)[0],
    "LayerNorm": rows_normalised,
}
for name, norm in moved.items():
    print(f"{name:<22} sample 0 moves by up to {(norm(others_larger)[0] - norm(samples)[0]).abs().max():.2f}")

one_feature = torch.tensor([[1.0], [2.0], [6.0]])
_, stored_mean, stored_variance = by_batch(one_feature, torch.ones(1), *torch.zeros(3, 1), momentum=1.0)
print(
    f"batch 1, 2, 6 stores mean {stored_mean.item():.1f}, variance {stored_variance.item():.1f}; "
    f"normalises with {14 / 3:.3f}"
)
try:
    torch.nn.BatchNorm1d(16)(samples[:1])
except ValueError as error:
    print("a batch of one, in training:", error)


# %% [markdown] lang="en"
# True. In training, sample 0's result depends on its neighbours; LayerNorm's does not. And a batch of one has no variance at all. Sentences of different lengths make it worse, because late positions then have few samples.
# %% [markdown] lang="zh-TW"
# 說得對。訓練時，第 0 個樣本的結果會被同批的鄰居牽動，LayerNorm 不會；只有一個樣本的批次則根本沒有變異數。句子長短不一時更糟，因為後面的位置樣本很少。
# %% [markdown] lang="en"
# ### Exercise `layer_norm` · difficulty 3 of 5 · 15 minutes · 3 points
#
# $$\mathrm{LN}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}\,\gamma + \beta, \qquad \mu = \frac1d\sum_i x_i,\quad \sigma^2 = \frac1d\sum_i (x_i - \mu)^2$$
#
# over the last axis of $[..., d]$: every row by itself, variance divided by $d$. ε stands **inside** the root. Three traps are checked:
#
# - means of $10^4$ in float32: subtract first, square afterwards;
# - σ² near ε, σ near ε, and a row of equal numbers, whose gradient is finite;
# - float16 and bfloat16, with values whose squares overflow float16: compute in float32, round once at the end. The error may be two units in the last place.
# %% [markdown] lang="zh-TW"
# ### 練習 `layer_norm` · 難度 3／5 · 15 分鐘 · 滿分 3 分
#
# $$\mathrm{LN}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}\,\gamma + \beta, \qquad \mu = \frac1d\sum_i x_i,\quad \sigma^2 = \frac1d\sum_i (x_i - \mu)^2$$
#
# 沿 $[..., d]$ 的最後一軸：每一列自己算，變異數除以 $d$，ε 在根號**裡面**。檢查有三個陷阱：
#
# - float32 而平均是 $10^4$：先減平均，再平方；
# - σ² 接近 ε、σ 接近 ε，以及一整列都是同一個數，這時梯度也要是有限值；
# - float16 與 bfloat16，而且平方會讓 float16 溢位：用 float32 計算，最後才轉回來；容許最後一位差兩個單位。
# %% exercise="layer_norm"
def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """LayerNorm over the last axis.

    Args:
        x: [..., d], float32, float64, float16 or bfloat16. Means may be 10⁴, rows may be constant;
            in half precision squares may overflow.
        gamma: [d], the learned scale, in the dtype of x.
        beta: [d], the learned shift, in the dtype of x.
        eps: added to the biased variance, under the root.

    Returns:
        [..., d] in the dtype of x. Differentiable in x, gamma and beta. Not allowed: built-in norms of any kind
        (F.layer_norm, F.rms_norm, F.batch_norm, F.normalize, torch.renorm and their like).
    """
    ### BEGIN SOLUTION
    half = x.dtype in (torch.float16, torch.bfloat16)
    centred = x.float() if half else x
    centred = centred - centred.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1], biased
    return (centred / torch.sqrt(variance + eps) * gamma + beta).to(x.dtype)
    ### END SOLUTION


# %%
check("layer_norm", layer_norm)
# %% [markdown] lang="en"
# ### (σ + ε) or √(σ² + ε)?
#
# The lecture writes $(x-\mu)/(\sigma+\varepsilon)$; another document and PyTorch write $\sqrt{\sigma^2+\varepsilon}$. Both prevent 0/0. How far apart are they? With ε = 1e-5 and σ = 0.1 the two divisors agree to within 0.04 %; below, their ratio for smaller σ.
# %% [markdown] lang="zh-TW"
# ### (σ + ε) 還是 √(σ² + ε)？
#
# 講義寫 $(x-\mu)/(\sigma+\varepsilon)$；另一份文件和 PyTorch 寫 $\sqrt{\sigma^2+\varepsilon}$。兩者都避開了 0/0，差多少呢？ε = 1e-5、σ = 0.1 時，兩個分母只差 0.04 %；σ 更小時的比值，看下面。
# %% tags=["experiment"]
by_layer = use("layer_norm", layer_norm)

eps = 1e-5
pattern = rows_normalised(torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64))  # mean 0, variance 1
deviations = torch.logspace(-6, 0, 25, dtype=torch.float64)
ones, zeros = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
inside_root = torch.stack([by_layer(s * pattern, ones, zeros, eps).std(correction=0) for s in deviations])
outside_root = torch.stack([(s * pattern / (s + eps)).std(correction=0) for s in deviations])
for s in (0.1, math.sqrt(eps), 1e-3, 1e-6):
    print(f"σ = {s:.1e}: √(σ² + ε) / (σ + ε) = {math.sqrt(s**2 + eps) / (s + eps):.4f}")
ax = plots.curves(
    deviations,
    {"√(σ² + ε)": inside_root, "σ + ε": outside_root},
    "σ of the input",
    "σ of the output",
    "ε = 1e-5, inside and outside the root",
    log_x=True,
    log_y=True,
)
# %% [markdown] lang="en"
# For ordinary activations it does not matter. Where a row hardly varies (σ ≤ √ε ≈ 0.003) it does: a factor 1.41 at √ε, 3.28 at 1e-3, 287 at 1e-6. Whoever loads weights trained with one form into the other gets other numbers there.
#
# ε itself differs too: PyTorch's default is 1e-5, the 2017 code 1e-6, BERT 1e-12. And the widely read *Annotated Transformer* puts ε outside **and** divides by $d-1$.
# %% [markdown] lang="zh-TW"
# 平常的激勵值看不出差別。一列幾乎不變化時（σ ≤ √ε ≈ 0.003）就有差：σ = √ε 時差 1.41 倍，1e-3 時 3.28 倍，1e-6 時 287 倍。用一種寫法訓練、換另一種寫法載入，這些地方的數字就不同。
#
# ε 的大小也各家不同：PyTorch 預設 1e-5，2017 年的程式 1e-6，BERT 1e-12。很多人讀過的 *Annotated Transformer* 則是 ε 在外面，**而且**除以 $d-1$。
# %% [markdown] lang="en"
# ### Three more ways to get a variance wrong
#
# Unbiased instead of biased; one pass, $E[x^2]-E[x]^2$, instead of two; and squares in float16. Each on a row where the answer is known.
# %% [markdown] lang="zh-TW"
# ### 變異數的另外三種錯法
#
# 除以 $d-1$；用一次掃描的 $E[x^2]-E[x]^2$；在 float16 裡平方。各拿一列已知答案的資料來試。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(0)
for d in (4, 512):
    row = torch.randn(d, generator=generator)
    shrunk = ((row - row.mean()) / row.std()).norm() / ((row - row.mean()) / row.std(correction=0)).norm()
    print(f"d = {d:>3}: the unbiased variance shrinks the result by {1 - shrunk:.1%}")
deviation = torch.randn(512, generator=generator)
for mean in (0.0, 1e3, 1e5):
    row = mean + deviation
    one_pass, two_pass = (row**2).mean() - row.mean() ** 2, row.var(correction=0)
    print(f"mean {mean:>8.0f}, float32: two passes {two_pass:.3f}, one pass {one_pass:.3f}")
print("float16: 300² =", (torch.tensor([300.0], dtype=torch.float16) ** 2).item())


# %% [markdown] lang="en"
# Thirteen per cent at width 4 and nothing to speak of at 512; garbage, even negative, where the mean is large (a root of that is NaN); and infinity at 300.
# %% [markdown] lang="zh-TW"
# 寬度 4 時差一成多，512 時幾乎沒差；平均很大時，一次掃描得到的是垃圾，甚至是負數（開根號就成了 NaN）；而 float16 的 300 平方就是無限大。
# %% [markdown] lang="en"
# ### Exercise `rms_norm` · difficulty 2 of 5 · 5 minutes · 2 points
#
# $$\mathrm{RMSNorm}(x) = \frac{x}{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}}\;\gamma$$
#
# over the last axis: no mean is subtracted and there is no β. ε stands inside the root (default 1e-6). The checks use a row of zeros (the gradient too is finite there), a mean square near ε, and in half precision values whose squares overflow float16, as in `layer_norm`.
# %% [markdown] lang="zh-TW"
# ### 練習 `rms_norm` · 難度 2／5 · 5 分鐘 · 滿分 2 分
#
# $$\mathrm{RMSNorm}(x) = \frac{x}{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}}\;\gamma$$
#
# 沿最後一軸，不減平均，也沒有 β；ε 在根號裡面（預設 1e-6）。檢查裡有一整列 0（梯度也要是有限值）、和 ε 差不多大的均方；半精度時，平方會讓 float16 溢位，和 `layer_norm` 一樣。
# %% exercise="rms_norm"
def rms_norm(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """RMSNorm over the last axis.

    Args:
        x: [..., d], float32, float64, float16 or bfloat16. A row may be zero;
            in half precision squares may overflow.
        gamma: [d], the learned scale, in the dtype of x.
        eps: added to the mean square, under the root.

    Returns:
        [..., d] in the dtype of x. Differentiable in x and gamma. Not allowed: built-in norms of any kind
        (F.rms_norm, F.layer_norm, F.normalize, torch.renorm and their like).
    """
    ### BEGIN SOLUTION
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if half else x
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return (wide / torch.sqrt(mean_square + eps) * gamma).to(x.dtype)
    ### END SOLUTION


# %%
check("rms_norm", rms_norm)
# %% [markdown] lang="en"
# ### When is it the same as LayerNorm?
#
# If $\mu = 0$, then $\sigma^2$ *is* the mean square, and the two agree up to β. How much does a mean change? Two more questions at once: what the lecture's formula without ε does with zeros, and what float16 squares do to the result.
# %% [markdown] lang="zh-TW"
# ### 什麼時候和 LayerNorm 一樣？
#
# 如果 $\mu = 0$，$\sigma^2$ **就是**平方的平均，除了 β 以外兩者相同。有了平均會差多少？順便再看兩件事：講義沒寫 ε 的公式遇到零向量會怎樣，以及在 float16 裡平方，結果會怎樣。
# %% tags=["experiment"]
by_rms = use("rms_norm", rms_norm)

generator = torch.Generator().manual_seed(0)
row = torch.randn(512, generator=generator)
row = row - row.mean()
ones, zeros = torch.ones(512), torch.zeros(512)
for mean in (0.0, 1.0, 5.0):
    gap = (by_rms(row + mean, ones) - by_layer(row + mean, ones, zeros, 1e-6)).abs().max()
    print(f"mean {mean:.0f}: RMSNorm and LayerNorm differ by up to {gap:.1e}")
nothing = torch.zeros(3)
print("zeros, without ε:", (nothing / nothing.square().mean().sqrt()).tolist())
print("zeros, with ε:   ", by_rms(nothing, torch.ones(3)).tolist())
large = torch.tensor([300.0, -400.0, 500.0], dtype=torch.float16)
print("float16 all the way:", (large / (large.square().mean() + 1e-6).sqrt()).tolist())
print("float32 inside:     ", [round(y, 2) for y in by_rms(large, torch.ones(3, dtype=torch.float16)).tolist()])
print("nn.RMSNorm's default eps:", torch.nn.RMSNorm(3).eps)


# %% [markdown] lang="en"
# The overflow is silent: not NaN, but an output of **zeros**, $x/\infty$. And `nn.RMSNorm` by default has `eps=None`, which means the machine epsilon of the dtype, not 1e-6. A reader of the formula would not guess either.
# %% [markdown] lang="zh-TW"
# 溢位是無聲的：不是 NaN，而是整列變成 **0**，因為 $x/\infty = 0$。另外，`nn.RMSNorm` 預設 `eps=None`，意思是該 dtype 的機器精度，不是 1e-6。光看公式，這兩件事都猜不到。
# %% [markdown] lang="en"
# ### Exercise `dynamic_tanh` · difficulty 1 of 5 · 5 minutes · 1 point
#
# $$\mathrm{DyT}(x) = \gamma\,\tanh(\alpha x) + \beta$$
#
# with γ and β of shape $[d]$ and α **one** learned number, a tensor of shape `[]`, which may have any sign. No mean, no variance. Gradients must reach α as well. Half precision is judged by its error: at most twice that of the plain formula in the same dtype.
# %% [markdown] lang="zh-TW"
# ### 練習 `dynamic_tanh` · 難度 1／5 · 5 分鐘 · 滿分 1 分
#
# $$\mathrm{DyT}(x) = \gamma\,\tanh(\alpha x) + \beta$$
#
# γ、β 的形狀是 $[d]$，α 是**一個**學來的數（形狀 `[]` 的張量），正負都可能。不量平均，也不量變異數。梯度也要傳得到 α。半精度看誤差：最多是同 dtype 直接套公式的兩倍。
# %% exercise="dynamic_tanh"
def dynamic_tanh(x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """Dynamic tanh: an S-curve in the place of a norm.

    Args:
        x: [..., d], float32, float64, float16 or bfloat16.
        alpha: [], one learned number of any sign, in the dtype of x, as gamma and beta are.
        gamma: [d], the learned scale.
        beta: [d], the learned shift.

    Returns:
        [..., d] in the dtype of x. Differentiable in all four. No statistics of x are taken; no built-in norm is called.
    """
    ### BEGIN SOLUTION
    return gamma * torch.tanh(alpha * x) + beta
    ### END SOLUTION


# %%
check("dynamic_tanh", dynamic_tanh)
# %% [markdown] lang="en"
# ### Where it saturates
#
# "Normalisation is not needed", says a slide about DyT. Two measurements on what that can mean. First: a norm is blind to the size of its input, $\mathrm{LN}(10x) = \mathrm{LN}(x)$. Is DyT? And what slope is left for the gradient?
# %% [markdown] lang="zh-TW"
# ### 在哪裡飽和
#
# 有一張談 DyT 的投影片說「不用做 normalization」。這句話能成立到什麼程度？量兩件事。第一：正規化看不見輸入的大小，$\mathrm{LN}(10x) = \mathrm{LN}(x)$；DyT 也是嗎？還剩多少斜率給梯度？
# %% tags=["experiment"]
squash = use("dynamic_tanh", dynamic_tanh)

x = torch.tensor([0.0, 1.0, 2.0, 4.0, 10.0], requires_grad=True)
squash(x, torch.tensor(0.5), torch.ones(5), torch.zeros(5)).sum().backward()
print("slope of tanh(x/2) at 0, 1, 2, 4, 10:", [float(f"{slope:.2g}") for slope in x.grad.tolist()])

generator = torch.Generator().manual_seed(0)
row = torch.randn(512, generator=generator)
scales = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
half = torch.tensor(0.5)
output_size = {
    "LayerNorm": [by_layer(scale * row, ones, zeros).std().item() for scale in scales],
    "RMSNorm": [by_rms(scale * row, ones).std().item() for scale in scales],
    "DyT, α = ½": [squash(scale * row, half, ones, zeros).std().item() for scale in scales],
}
title = "Who forgets the size of the input?"
ax = plots.curves(scales, output_size, "σ of the input", "σ of the output", title, log_x=True)
saturated = (squash(10 * row, half, ones, zeros).abs() > 0.99).double().mean()
print(f"inputs of size 10: {saturated:.0%} of DyT's outputs are beyond ±0.99, where the slope is below 0.01")


# %% [markdown] lang="en"
# LayerNorm and RMSNorm lie on one line, at 1. DyT bounds its output, which prevents explosion, but it does not forget scale: small inputs stay small (halved, at α = ½), large ones saturate, and then no gradient comes back. α has to be learned to fit.
# %% [markdown] lang="zh-TW"
# LayerNorm 與 RMSNorm 的線疊在一起，都是 1。DyT 把輸出框住，所以不會爆炸；可是它忘不掉大小：小的輸入還是小（α = ½ 時減半），大的飽和，梯度就回不來了。α 必須學到合適的值。
# %% [markdown] lang="en"
# ### Turn the knob: α
#
# The curve and its slope, which is what the gradient is multiplied by on its way back. Where there are no widgets you see the picture at α = ½.
# %% [markdown] lang="zh-TW"
# ### 轉轉看：α
#
# 曲線和它的斜率；梯度回來時要乘上的就是斜率。若環境沒有互動元件，會看到 α = ½ 的靜態圖。
# %%
def draw_dyt(alpha):
    x = torch.linspace(-10, 10, 201)
    y = torch.tanh(alpha * x)
    ax = plots.curves(x, {"tanh(αx)": y, "slope": alpha * (1 - y**2)}, "x", "y", f"DyT, α = {alpha:.1f}")
    ax.set_ylim(-1.1, 2.1)


plots.knob(draw_dyt, alpha=(0.1, 2.0, 0.1, 0.5))


# %% [markdown] lang="en"
# ### Where the idea comes from
#
# Second: Zhu et al. (2025) saw that over a whole text, LayerNorm's outputs plotted against its inputs trace an S. Here are MiniLM's six layers: the best-fitting $s\tanh(\alpha x)$ and, for comparison, the best straight line. The picture shows the last layer.
# %% [markdown] lang="zh-TW"
# ### 這個想法怎麼來的
#
# 第二：Zhu 等人（2025）發現，把一整段文字在 LayerNorm 的輸出對輸入畫出來，會是一條 S 形。下面看 MiniLM 的六層，各配上最合的 $s\tanh(\alpha x)$，再拿最合的直線來比；圖是最後一層。
# %% tags=["experiment"]
def share_explained(curve, outputs):
    """R² of the best multiple of `curve`, and that multiple."""
    scale = (curve * outputs).sum() / curve.square().sum()
    return 1 - ((scale * curve - outputs).square().mean() / outputs.square().mean()).item(), scale.item()


if minilm is not None:
    for i in range(6):
        into, _ = inside[i, "norm_2"]
        outputs = rows_normalised(into)  # before γ and β
        fits = {a / 100: share_explained(torch.tanh(a / 100 * into), outputs) for a in range(2, 60, 2)}
        alpha = max(fits, key=lambda a: fits[a][0])
        line, line_without = share_explained(into, outputs)[0], share_explained(into[1:], outputs[1:])[0]
        deviation = into.std(dim=-1)
        print(
            f"layer {i + 1}: tanh explains {fits[alpha][0]:.1%} (α = {alpha}), a straight line {line:.1%}, "
            f"without [CLS] {line_without:.1%}; tokens' σ {deviation.min():.1f} to {deviation.max():.1f}"
        )
    reach = torch.linspace(into.min().item(), into.max().item(), 200)
    ax = plots.curves(
        reach,
        {},
        "input x",
        "output (x − μ)/σ",
        "LayerNorm in MiniLM, layer 6",
        theory={"s·tanh(αx)": fits[alpha][1] * torch.tanh(alpha * reach)},
    )
    ax.scatter(into, outputs, s=6, color=plots.BLUE, alpha=0.5, label="one number of one token")
    _ = ax.legend()


# %% [markdown] lang="en"
# Each token is scaled by its own $1/\sigma$, so its points lie on a straight line; tokens with large inputs have a large σ, hence a flatter line, and together they bend into an S. In the early layers only [CLS] does so. tanh explains most of it, **not all**: in the last two layers 8 to 10 % is left, which a statistic knows and a fixed curve cannot.
#
# Whether the rest matters is a question of training. Zhu et al. report no loss on their tasks; a re-test on GPT-2 of 64 million weights (arXiv 2604.23434) finds the loss 27 % better on 1 million tokens and 19 % worse on 118 million.
# %% [markdown] lang="zh-TW"
# 每個詞元各自乘上 $1/\sigma$，點落在一條直線上；輸入大的詞元 σ 也大，直線就比較平，合起來便彎成 S 形。前幾層只有 [CLS] 是這樣。tanh 解釋了大部分，但**不是全部**：最後兩層還剩 8 到 10 %，那是量了才知道、固定的曲線給不出來的。
#
# 剩下的重不重要，要看訓練。Zhu 等人在他們的任務上沒有變差；另一份用 6400 萬參數 GPT-2 的重測（arXiv 2604.23434）則是：100 萬個詞元時損失好 27 %，1.18 億個詞元時差 19 %。
# %% [markdown] lang="en"
# ## 9. Putting them together: Add & Norm
#
# ### Exercise `encoder_sublayer` · difficulty 2 of 5 · 7 minutes · 2 points
#
# Two functions are handed in, `sublayer` and `norm`; each maps $[..., N, d_\text{model}]$ to the same shape and leaves its argument alone. With `placement="post"` (the default, 2017) normalise the sum of input and sublayer. With `placement="pre"` the sublayer reads the normalised input, and its result is added to the input as it was. No other value is passed.
#
# The norm has a γ and β of its own: applying it twice is not the same as once.
# %% [markdown] lang="zh-TW"
# ## 9. 合在一起：Add & Norm
#
# ### 練習 `encoder_sublayer` · 難度 2／5 · 7 分鐘 · 滿分 2 分
#
# 傳進來兩個函式 `sublayer` 與 `norm`，都把 $[..., N, d_\text{model}]$ 變成同樣的形狀，而且不改動引數。`placement="post"`（預設，2017 年）：把輸入與子層的和拿去正規化。`placement="pre"`：子層讀正規化過的輸入，結果加回原本的輸入。不會有別的值。
#
# `norm` 有自己的 γ 與 β：做兩次和做一次不同。
# %% exercise="encoder_sublayer"
def encoder_sublayer(
    x: torch.Tensor,
    sublayer: Callable[[torch.Tensor], torch.Tensor],
    norm: Callable[[torch.Tensor], torch.Tensor],
    placement: str = "post",
) -> torch.Tensor:
    """A sublayer with its residual connection and its norm.

    Args:
        x: [..., N, d_model], float32 or float64; stays unchanged.
        sublayer: attention or a feed-forward network.
        norm: a normalisation.
        placement: "post", the norm acts on the sum (2017), or "pre", on what the sublayer reads.

    Returns:
        [..., N, d_model]. Differentiable in x.
    """
    ### BEGIN SOLUTION
    if placement == "pre":
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))
    ### END SOLUTION


# %%
check("encoder_sublayer", encoder_sublayer)
# %% [markdown] lang="en"
# ## 10. At real depth: gradients layer by layer
#
# Now 24 encoder layers, that is, 48 sublayers, at their random start (PyTorch's own layers with the 2017 code's Xavier weights). Five ways to wire the same sublayers: nothing, residual only, norm only, post, pre. The measure is the length of the gradient of each layer's $W_1$.
#
# The last figure printed says how far apart the output's tokens are, $\lVert X - \bar X\rVert / \lVert X\rVert$ with $\bar X$ their mean. At 10⁻⁷, the rounding of float32, all rows are the same vector, and nothing can be learned from them.
# %% [markdown] lang="zh-TW"
# ## 10. 真的疊深：逐層看梯度
#
# 現在疊 24 個編碼器層，也就是 48 個子層，停在隨機的起點（PyTorch 自己的層，用 2017 年程式的 Xavier 權重）。同樣的子層有五種接法：什麼都不加、只有殘差、只有正規化、post、pre。量的是每層 $W_1$ 的梯度長度。
#
# 最後印出的數，是輸出的詞元彼此離多遠：$\lVert X - \bar X\rVert / \lVert X\rVert$，$\bar X$ 是它們的平均。到了 10⁻⁷，也就是 float32 的捨入誤差，每一列都是同一個向量，什麼都學不到。
# %% tags=["experiment"]
from functools import partial

placed = use("encoder_sublayer", encoder_sublayer)
wirings = {
    "neither": lambda x, f: f(x),
    "residual only": lambda x, f: add_back(x, f),
    "norm only": lambda x, f: rows_normalised(f(x)),
    "post": lambda x, f: placed(x, f, rows_normalised, "post"),
    "pre": lambda x, f: placed(x, f, rows_normalised, "pre"),
}


def fresh_layers(n_layers, d_model=64, seed=0):
    torch.manual_seed(seed)
    layers = []
    for _ in range(n_layers):
        layers.append(torch.nn.TransformerEncoderLayer(d_model, 4, 4 * d_model, dropout=0, batch_first=True))
    for layer in layers:
        for parameter in layer.parameters():
            if parameter.ndim > 1:
                torch.nn.init.xavier_uniform_(parameter)
    return layers


def attention_of(layer, x):
    return layer.self_attn(x, x, x, need_weights=False)[0]


def network_of(layer, x):
    return layer.linear2(torch.relu(layer.linear1(x)))


def gradients_by_layer(name, n_layers=24):
    layers = fresh_layers(n_layers)
    x = torch.randn(2, 16, 64)  # two sentences of 16 tokens
    for layer in layers:
        for sublayer in (partial(attention_of, layer), partial(network_of, layer)):
            x = wirings[name](x, sublayer)
    if name == "pre":
        x = rows_normalised(x)  # the one norm after the last layer
    direction = torch.randn(x.shape)
    gradients = torch.autograd.grad((x * direction).sum() / 16, [layer.linear1.weight for layer in layers])
    apart = (x[0] - x[0].mean(dim=0)).norm() / x[0].norm()
    return [gradient.norm().item() for gradient in gradients], apart.item()


lengths = {}
for name in wirings:
    lengths[name], apart = gradients_by_layer(name)
    first, last = lengths[name][0], lengths[name][-1]
    print(f"{name:<14} first {first:8.2g}, last {last:8.2g}, ratio {first / last:8.2g};  tokens apart {apart:.1g}")
title = "24 layers at the start"
ax = plots.curves(range(1, 25), lengths, "layer", "length of the gradient of W_1", title, log_y=True)
# %% [markdown] lang="en"
# - *neither*: vanished by more than eight orders of magnitude.
# - *residual only*: exploded, as $(1 + \tfrac12)^{30}$ warned.
# - *norm only*: a healthy length, but to rounding every token has become the same vector (a few 10⁻⁷ apart). A useless gradient.
# - *post* and *pre*: all layers within a factor of a few, because **both** parts are there. (At this start post's tokens are alike to 2 %, far above rounding; pre's are 0.5 apart.)
#
# "Residual and LayerNorm prevent vanishing and exploding" is true if both are there; "the skip carries the gradient directly to the first layer" is not the whole story. Next cell.
# %% [markdown] lang="zh-TW"
# - **什麼都不加**：消失了八個數量級以上。
# - **只有殘差**：爆炸了，正如 $(1 + \tfrac12)^{30}$ 的警告。
# - **只有正規化**：長度正常，可是每個詞元都成了同一個向量，只差捨入誤差（10⁻⁷ 上下），這種梯度沒有用。
# - **post 與 pre**：各層只差幾倍，因為**兩樣都有**。（剛起步時，post 的詞元只差 2 %，但遠大於捨入誤差；pre 差 0.5。）
#
# 「殘差加 LayerNorm 能防止梯度消失與爆炸」，兩樣都在時成立；「捷徑把梯度直接送到淺層」則不是全貌，看下一格。
# %% [markdown] lang="en"
# ### Is the straight path really straight?
#
# In the pre form the straight line carries $x$ untouched from the first layer to the last: factor 1. In the post form it passes a norm in every sublayer, which divides by the σ of the sum. Multiply the 48 factors $1/\sigma$.
# %% [markdown] lang="zh-TW"
# ### 直線真的是直的嗎？
#
# pre 的直線把 $x$ 從第一層原封不動帶到最後一層：倍數是 1。post 的直線在每個子層都要通過一次正規化，也就是除以那個和的 σ。把 48 個 $1/\sigma$ 乘起來看看。
# %% tags=["experiment"]
factors = []


def recording_norm(x):
    factors.append(1 / x.std(dim=-1, correction=0).mean().item())
    return rows_normalised(x)


with torch.no_grad():
    layers = fresh_layers(24)
    x = torch.randn(2, 16, 64)
    for layer in layers:
        for sublayer in (partial(attention_of, layer), partial(network_of, layer)):
            x = placed(x, sublayer, recording_norm, "post")
print(f"post: {len(factors)} norms on the straight path, each ×{min(factors):.2f} to ×{max(factors):.2f}")
print(f"      all together ×{math.prod(factors):.1e}")
print("pre:  no norm on the straight path, ×1")


# %% [markdown] lang="en"
# At the start the post form's own shortcut keeps about a thousandth of the gradient; the rest of what we saw above arrives through the branches. Only the pre form has the clean path. This is one reason why post-norm models need a learning-rate warm-up (Xiong et al. 2020, lesson 08), and why nearly all models since GPT-2 use pre.
#
# So of the lecture's "best techniques, more or less still today": the residual stayed, the norm moved, and in most LLMs LayerNorm became RMSNorm.
# %% [markdown] lang="zh-TW"
# post 的捷徑，一開始只留下梯度的千分之一左右；前面看到的梯度，其餘是從分支傳回來的。只有 pre 有乾淨的直線。這是 post 需要學習率暖身（warm-up）的原因之一（Xiong 等人 2020，第 08 課），也是 GPT-2 之後幾乎都用 pre 的原因。
#
# 所以講義說的「最佳技術，現在也差不多」：殘差留下了，正規化換了位置，多數 LLM 的 LayerNorm 也換成了 RMSNorm。
# %% [markdown] lang="en"
# ## 11. The shape of the loss
#
# Li et al. (2018) drew what an optimiser walks on. Take trained weights $\theta$ and two random directions $\delta_1, \delta_2$, and plot $L(\theta + a\,\delta_1 + b\,\delta_2)$. Networks have weights of different sizes, so each direction is **filter-normalised**: every neuron's column of δ is scaled to the length of that neuron's column of θ. A step of 1 then means "as large as the weights themselves".
#
# Back to the spirals, with 20 layers, which both networks can learn.
# %% [markdown] lang="zh-TW"
# ## 11. 損失的地形
#
# Li 等人（2018）把最佳化器腳下的地形畫了出來：取訓練好的權重 $\theta$ 和兩個隨機方向 $\delta_1, \delta_2$，畫 $L(\theta + a\,\delta_1 + b\,\delta_2)$。各處權重大小不同，所以要做**濾波器正規化**（filter normalisation）：δ 中每個神經元的那一行（column），長度縮放到和 θ 的那一行一樣。於是步長 1 就是「和權重本身一樣大」。
#
# 回到螺線的資料，這次用 20 層，兩種網路都學得會。
# %% tags=["experiment"]
def filter_normalised(weights, generator):
    random = [torch.randn(W.shape, generator=generator) for W in weights]
    return [r * W.norm(dim=0) / r.norm(dim=0) for r, W in zip(random, weights)]


def loss_at(weights, skip):
    return F.cross_entropy(deep_network(weights, points, skip), arms).item()


def stepped(weights, *moves):
    return [W + sum(a * direction[i] for a, direction in moves) for i, W in enumerate(weights)]


trained = {(depth, skip): train_on_spirals(depth, skip) for depth in (3, 20) for skip in (False, True)}
places = torch.linspace(-0.5, 0.5, 21)
surfaces = {}
for skip in (False, True):
    weights, _ = trained[20, skip]
    generator = torch.Generator().manual_seed(5)
    across, up = filter_normalised(weights, generator), filter_normalised(weights, generator)
    surfaces["20 layers, " + ("z + l(z)" if skip else "l(z)")] = torch.tensor(
        [[loss_at(stepped(weights, (a, across), (b, up)), skip) for a in places] for b in places]
    )
figure = plots.loss_surfaces(places, surfaces)
# %% [markdown] lang="en"
# Both valleys have their bottom in the middle, at a loss near 0. A picture of two directions can deceive, so let us also measure along eight other random lines from the minimum: how far until the loss has climbed to half of chance ($\tfrac12\ln 3 = 0.55$), and how often it turns on the way to step 1.
# %% [markdown] lang="zh-TW"
# 兩個谷底都在正中央，損失都接近 0。只看兩個方向可能會被騙，所以再沿另外八條隨機直線從最低點走出去，量兩件事：走多遠損失會爬到亂猜的一半（$\tfrac12\ln 3 = 0.55$），以及走到 1 之前轉彎幾次。
# %% tags=["experiment"]
steps = torch.linspace(0, 1, 41)
slices = {}
for (depth, skip), (weights, losses) in trained.items():
    generator = torch.Generator().manual_seed(11)
    lines = []
    for _ in range(8):
        direction = filter_normalised(weights, generator)
        lines.append([loss_at(stepped(weights, (a, direction)), skip) for a in steps])
    lines = torch.tensor(lines)  # [8, 41]
    left = torch.stack([steps[(line > 0.55).nonzero()[0, 0]] for line in lines]).mean()
    turns = ((lines.diff()[:, 1:] * lines.diff()[:, :-1]) < 0).double().sum(dim=1).mean()
    print(
        f"{depth:>2} layers, {'with' if skip else 'no  '} skip: loss {losses[-1]:.4f}, "
        f"valley left at {left:.2f}, {turns:.1f} turns a line"
    )
    if depth == 20:
        slices["z + l(z)" if skip else "l(z)"] = lines[1]
title = "20 layers: a walk out of the valley"
ax = plots.curves(steps, slices, "step along one random direction", "loss", title)
# %% [markdown] lang="en"
# With three layers the plus sign changes little. With twenty, both reached a loss near 0, but the valley without it is less than half as wide (0.08 against 0.18), and the way out turns about three times as often (7 to 8 against 2.4). This is what Li et al. saw in ResNets: skips smooth the surface **if the net is deep** (their 20-layer net was fine without, the 56-layer one chaotic).
#
# Smooth, because near $\ell = 0$ a deep stack is nearly $z + \sum\ell_i(z)$: layers side by side rather than in a chain.
# %% [markdown] lang="zh-TW"
# 三層時，加號沒什麼影響。二十層時，兩者的損失都接近 0，沒有加號的谷卻不到一半寬（0.08 對 0.18），路上轉彎的次數約是三倍（7 到 8 次對 2.4 次）。Li 等人在 ResNet 看到的正是這樣：**網路很深時**，捷徑會把地形變平滑（他們的 20 層不加也還好，56 層就一片混亂）。
#
# 為什麼平滑？$\ell$ 很小時，深深一疊差不多就是 $z + \sum\ell_i(z)$：各層像是並排，而不是一個接一個。
# %% [markdown] lang="en"
# ## 12. Is attention all you need?
#
# The 2017 title refers to recurrence and convolution. What would a stack of attention layers do with neither residual nor network? Each output row is an average of value rows, so rows move together. Measure the distance from "all rows equal" again, $\lVert X - \bar X\rVert / \lVert X\rVert$, in float64, random weights.
# %% [markdown] lang="zh-TW"
# ## 12. 只要注意力就夠了嗎？
#
# 2017 年的標題，指的是不需要循環與卷積。如果只疊注意力，沒有殘差也沒有前饋網路，會怎樣？每一列輸出都是值的平均，於是各列愈來愈像。用 float64 與隨機權重，再量一次離「每列都相同」多遠：$\lVert X - \bar X\rVert / \lVert X\rVert$。
# %% tags=["experiment"]
generator = torch.Generator().manual_seed(0)


def bare_attention(x, weights):
    W_Q, W_K, W_V = weights
    return torch.softmax((x @ W_Q) @ (x @ W_K).T / math.sqrt(x.shape[-1]), dim=-1) @ (x @ W_V)


x = with_skip = torch.randn(16, 64, generator=generator, dtype=torch.float64)
apart = {"attention only": [], "pre, with skip": []}
for _ in range(6):
    weights = torch.randn(3, 64, 64, generator=generator, dtype=torch.float64) / 8
    x = bare_attention(x, weights)
    with_skip = placed(with_skip, partial(bare_attention, weights=weights), rows_normalised, "pre")
    for name, rows in (("attention only", x), ("pre, with skip", with_skip)):
        apart[name].append(((rows - rows.mean(dim=0)).norm() / rows.norm()).item())
print("attention only:", [float(f"{distance:.2g}") for distance in apart["attention only"]])
ax = plots.curves(
    range(1, 7), apart, "layer", "distance from equal rows", "Attention alone forgets who is who", log_y=True
)
# %% [markdown] lang="en"
# After three layers the rows are equal to five digits, after four to machine precision. With the skip they stay apart. The residual is not decoration.
# %% [markdown] lang="zh-TW"
# 三層之後，各列已有五位數相同；四層就到機器精度了。有捷徑時，各列仍然分得開。殘差並不是裝飾。
# %% [markdown] lang="en"
# ## 13. On a real model: does "it" become "cat"?
#
# One document says that the output at *it* is nearly the meaning of *cat*. But *it* gets 0.85 of a **projected** value, then $W^O$, and then the residual adds *it* itself. MiniLM's last vectors:
# %% [markdown] lang="zh-TW"
# ## 13. 在真的模型上：it 變成 cat 了嗎？
#
# 有一份文件說，it 的輸出幾乎就是 cat 的意思。可是它拿到的是 0.85 倍、**投影過的**值，還要乘上 $W^O$，最後殘差又把 it 自己加回來。看 MiniLM 最後一層的向量：
# %% tags=["experiment"]
if minilm is not None:
    for word in ("tired", "soft"):
        encoded = encode(tokenizer, minilm, f"The cat sat on the mat because it was {word}.")
        vectors = dict(zip(encoded.tokens, F.normalize(encoded.states, dim=-1)))
        to_cat, to_mat = vectors["it"] @ vectors["cat"], vectors["it"] @ vectors["mat"]
        print(f"… because it was {word}: cos(it, cat) = {to_cat:.2f}, cos(it, mat) = {to_mat:.2f}")
# %% [markdown] lang="en"
# Similar, far from equal, and hardly different with "soft", where *it* is the mat. The residual stream keeps each token itself and adds context to it.
# %% [markdown] lang="zh-TW"
# 相近，但離相等還很遠；換成 soft（這時 it 指的是 mat）也幾乎沒變。殘差主幹保留每個詞元自己，再把上下文加上去。
# %% [markdown] lang="en"
# ## 14. The same as PyTorch's
#
# Last, your functions against PyTorch's modules: the three norms, and a whole encoder layer in both placements, put together from your `encoder_sublayer`, `feed_forward` and `layer_norm` with the module's own attention and weights.
# %% [markdown] lang="zh-TW"
# ## 14. 和 PyTorch 一樣
#
# 最後拿你的函式和 PyTorch 的模組比：三種正規化，以及兩種順序的整個編碼器層。後者用你的 `encoder_sublayer`、`feed_forward`、`layer_norm` 組起來，注意力與權重取自那個模組。
# %% tags=["experiment"]
torch.manual_seed(0)
x = 3 + 2 * torch.randn(5, 16)
gamma, beta = torch.rand(16) + 0.5, torch.randn(16)
print(f"LayerNorm      {(by_layer(x, gamma, beta) - F.layer_norm(x, (16,), gamma, beta)).abs().max():.0e}")
print(f"RMSNorm        {(by_rms(x, gamma) - F.rms_norm(x, (16,), gamma, 1e-6)).abs().max():.0e}")
module, mean, variance = torch.nn.BatchNorm1d(16), torch.zeros(16), torch.ones(16)
for batch in (x, 2 * x, x - 1):
    y, mean, variance = by_batch(batch, torch.ones(16), torch.zeros(16), mean, variance)
    gap = (y - module(batch)).abs().max()
gap = max(gap, (mean - module.running_mean).abs().max(), (variance - module.running_var).abs().max())
print(f"BatchNorm1d    {gap:.0e} after three batches")
for placement in ("post", "pre"):
    first = placement == "pre"
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True, norm_first=first)
    sentence = torch.randn(2, 5, 16)

    def of_layer(norm, layer=layer):
        return lambda x: by_layer(x, norm.weight, norm.bias, norm.eps)

    def of_network(x, layer=layer):
        W_1, W_2 = layer.linear1.weight.T, layer.linear2.weight.T  # nn.Linear stores the transpose
        return network(x, W_1, layer.linear1.bias, W_2, layer.linear2.bias)

    mine = placed(sentence, partial(attention_of, layer), of_layer(layer.norm1), placement)
    mine = placed(mine, of_network, of_layer(layer.norm2), placement)
    print(f"encoder layer  {(mine - layer(sentence)).abs().max():.0e} ({placement})")
# %% [markdown] lang="en"
# ## 15. What to remember
#
# 1. $z + \ell(z)$: the branch learns $f(z) - z$. The derivative is $I + J$, so one path back is touched by no layer.
# 2. Residuals cure vanishing, not exploding. Norms fix the size. Deep stacks need both.
# 3. Post (2017) puts a norm on the straight path, pre does not. Modern models use pre, and one last norm.
# 4. BatchNorm mixes samples, LayerNorm and RMSNorm stay inside one token, DyT measures nothing and saturates.
# 5. Variance: biased, two passes, ε inside the root, float32 for half precision.
# 6. The feed-forward network holds two thirds of an encoder layer's weights; it is a sum of $d_\text{ff}$ values weighted by how well their keys match.
# %% [markdown] lang="zh-TW"
# ## 15. 要記住的事
#
# 1. $z + \ell(z)$：分支學的是 $f(z) - z$。導數是 $I + J$，所以有一條回去的路沒有任何一層碰過。
# 2. 殘差治梯度消失，不治爆炸；正規化固定大小。疊得深，兩樣都要。
# 3. post（2017 年）在直線上放了正規化，pre 沒有。現在的模型用 pre，最後再補一次正規化。
# 4. BatchNorm 會混到別的樣本；LayerNorm 與 RMSNorm 只看一個詞元；DyT 什麼都不量，而且會飽和。
# 5. 變異數：除以 $d$、先減平均再平方、ε 在根號裡、半精度用 float32 算。
# 6. 前饋網路占編碼器層權重的三分之二；它是 $d_\text{ff}$ 個值的加權和，鍵愈合，權重愈大。
# %% [markdown] lang="en"
# ## 16. Self-check: question `06_q1` · 1 point · 2 minutes
#
# A layer is to compute $f(z)$, and it is built as $z + \ell(z)$. What does $\ell$ have to learn? Put the letter between the quotation marks below.
#
# - **a**: $f(z)$
# - **b**: $f(z) + z$
# - **c**: nothing, because a sum has no weights
# - **d**: $f(z) - z$
# %% [markdown] lang="zh-TW"
# ## 16. 自我檢查：選擇題 `06_q1` · 滿分 1 分 · 2 分鐘
#
# 有一層要算出 $f(z)$，做成 $z + \ell(z)$ 的樣子。$\ell$ 要學的是什麼？請把字母填進下面的引號裡。
#
# - **a**：$f(z)$
# - **b**：$f(z) + z$
# - **c**：什麼都不用學，因為加法沒有權重
# - **d**：$f(z) - z$
# %% question="06_q1"
answer_06_q1 = ""
### BEGIN SOLUTION
answer_06_q1 = "d"
### END SOLUTION
# %%
check("06_q1", answer_06_q1)
# %% [markdown] lang="en"
# ## 17. Self-check: question `06_q2` · 1 point · 2 minutes
#
# During training, one sentence of a batch is replaced by another. For which norm does this change the result of the sentences that stayed?
#
# - **a**: LayerNorm
# - **b**: BatchNorm
# - **c**: RMSNorm
# - **d**: DyT
# %% [markdown] lang="zh-TW"
# ## 17. 自我檢查：選擇題 `06_q2` · 滿分 1 分 · 2 分鐘
#
# 訓練時，把同一批裡的一個句子換掉。用哪一種正規化，會讓沒換的句子結果也跟著變？
#
# - **a**：LayerNorm
# - **b**：BatchNorm
# - **c**：RMSNorm
# - **d**：DyT
# %% question="06_q2"
answer_06_q2 = ""
### BEGIN SOLUTION
answer_06_q2 = "b"
### END SOLUTION
# %%
check("06_q2", answer_06_q2)
# %% [markdown] lang="en"
# ## 18. Written answer `06_w1` · 2 points · 11 minutes
#
# **Why does $z + \ell(z)$ train better in deep networks?** Argue in five to eight sentences, with the derivative and with your own plot of gradients by layer. Say also what the residual alone does *not* solve. Your instructor reads this answer.
#
# How it is graded:
#
# - **1 point, the argument.** Gives the derivative $I + J$ and says what multiplying out $L$ layers leaves that a plain product does not (or: that the layer starts near the identity and ℓ learns only $f(z) - z$). Half a point if it only says "the gradient flows better".
# - **1 point, the measurement.** Quotes figures from the gradient plot for at least one wiring with and one without residuals, *and* says what goes wrong with the residual alone (it explodes) or what the norm's place changes. Half a point for one of the two.
# %% [markdown] lang="zh-TW"
# ## 18. 問答題 `06_w1` · 滿分 2 分 · 11 分鐘
#
# **在很深的網路裡，$z + \ell(z)$ 為什麼比較好訓練？** 請用五到八句話論述，要用到導數，也要用到你自己畫的逐層梯度圖；並說明殘差單獨**解決不了**什麼。這一題由授課教師批閱。
#
# 評分方式：
#
# - **論證，1 分。** 寫出導數 $I + J$，並說明 $L$ 層乘開之後，比單純的連乘多留下了什麼（或：這一層從接近恆等出發，ℓ 只要學 $f(z) - z$）。只說「梯度比較容易傳」，給 0.5 分。
# - **測量，1 分。** 從梯度圖引用數字，有殘差與沒有殘差的接法至少各一種，**而且**說明只有殘差會出什麼問題（爆炸），或正規化的位置改變了什麼。只做到其中一項，給 0.5 分。
# %% [markdown] lang="en" written="06_w1" points=2
# *Write your answer here.*
# %% [markdown] lang="zh-TW" written="06_w1" points=2
# *請在這裡寫下你的答案。*
# %% [markdown] lang="en"
# ## 19. What the documents claim, and what you measured
#
# Figures come from the cells of this lesson unless a paper is named. Seeds and machines move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | FFN(x) = max(0, xW₁ + b₁)W₂ + b₂, the same at each position, 512 → 2048 → 512 | true | 66.7 % of an encoder layer's weights, 57.1 % of both stacks; newer models: GELU, or SwiGLU, a gate with three matrices |
# | Widening makes the model leap forward | imprecise | the paper's table 3: 25.4, 25.8, 26.2 BLEU for d_ff = 1024, 2048, 4096 |
# | Attention relates tokens, the network does the non-linear part | imprecise | attention's weights are a softmax of products of x with x; it is linear in V only |
# | The network is a memory of facts | imprecise | sum over slots: exact (9e-16). MiniLM: 18 to 30 % of the slots fire, the ten largest reach a cosine of about ½ in most layers; "facts" is a thesis |
# | Attention alone is enough | not so without skips and networks | distance from equal rows after 1–4 layers: 0.78, 0.056, 6e-6, 2e-16 |
# | Depth makes gradients vanish or explode; residual and LayerNorm prevent it | true with a condition: both are there | 24 layers, first ÷ last: neither 3e-9, residual only about 1e3 to 1e4, post 0.46, pre 2.9; norm only 1.9, but the tokens are equal to rounding (a few 1e-7 apart; post 0.02, pre 0.5) |
# | Output = LayerNorm(x + Sublayer(x)) | true for 2017 | that is post; since GPT-2 mostly pre, with one last norm. Dropout before the sum is left out |
# | The shortcut carries the gradient directly to shallow layers | imprecise | pre: ×1; post: 48 norms on the way, ×1e-3 in all |
# | With skips the loss is much smoother; ℓ learns f(z) − z | true with a condition: the net is deep | 3 layers: no difference; 20: valley 0.08 against 0.18 wide, 7 to 8 against 2.4 turns |
# | Those were the best techniques and more or less still are | imprecise | the residual stayed; the norm moved (pre), and in most LLMs is RMSNorm |
# %% [markdown] lang="zh-TW"
# ## 19. 文件怎麼說，你量到什麼
#
# 除了註明論文的以外，數字都來自這一課的儲存格。換亂數種子或電腦，末幾位會不同。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | FFN(x) = max(0, xW₁ + b₁)W₂ + b₂，每個位置都一樣，512 → 2048 → 512 | 對 | 占編碼器層權重的 66.7 %，編碼器加解碼器的 57.1 %；較新的模型用 GELU，或 SwiGLU（三個矩陣的閘門） |
# | 放寬讓表達能力飛躍 | 不精確 | 論文表 3：d_ff = 1024、2048、4096 的 BLEU 是 25.4、25.8、26.2 |
# | 注意力負責關聯，前饋網路負責非線性 | 不精確 | 注意力的權重是 x 和 x 相乘再過 softmax；它只對 V 是線性的 |
# | 前饋網路是事實的記憶庫 | 不精確 | 逐格相加完全相等（9e-16）。MiniLM：18 到 30 % 的格子有反應，多數層中最大的十格餘弦約 ½；「事實」是一種主張 |
# | 只要注意力就夠了 | 沒有殘差與前饋網路就不行 | 1 到 4 層後，離「每列相同」0.78、0.056、6e-6、2e-16 |
# | 深度讓梯度消失或爆炸，殘差與 LayerNorm 能防止 | 有條件：兩樣都在 | 24 層，第一層 ÷ 最後一層：什麼都不加 3e-9，只有殘差約 1e3 到 1e4，post 0.46，pre 2.9；只有正規化 1.9，但詞元全都一樣，只差捨入誤差（1e-7 上下；post 0.02，pre 0.5） |
# | 輸出 = LayerNorm(x + Sublayer(x)) | 2017 年是這樣 | 這是 post；GPT-2 之後多半用 pre，最後再補一次正規化。相加前的 dropout 沒有寫出來 |
# | 捷徑把梯度直接送到淺層 | 不精確 | pre：×1；post：路上有 48 次正規化，合計 ×1e-3 |
# | 有捷徑時損失地形平滑得多；ℓ 學的是 f(z) − z | 有條件：網路很深 | 3 層：沒有差別；20 層：谷寬 0.08 對 0.18，轉彎 7 到 8 次對 2.4 次 |
# | 這些是最佳技術，現在也差不多 | 不精確 | 殘差留下了；正規化換了位置（pre），多數 LLM 改用 RMSNorm |
