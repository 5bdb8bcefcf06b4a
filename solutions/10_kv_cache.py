# %% [markdown] lang="en"
# # 10 · The KV cache: compute each token once
#
# A language model writes one token at a time, and each token looks back at all the tokens before it. One article says: without a cache a step costs $O(n^2)$, with one $O(n)$. What is kept, why may it be kept, what does it cost, and what do you really gain?
#
# You will write one step of GPT-2's attention with a cache, feed it a prompt in chunks, count bytes and operations, and draw the next token.
#
# "The documents" are some articles and lecture notes on the Transformer; we test what they say.
#
# **You need** lessons 03, 04 and 07 (√d_k, heads, masks). **Time**: about two and a half hours, 100 minutes of them for the exercises and the question.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `append_kv` | 1 | 8 | 1 |
# | `decode_step` | 3 | 20 | 3 |
# | `prefill_in_chunks` | 4 | 25 | 4 |
# | `cache_bytes` | 1 | 5 | 1 |
# | `decode_flops` | 2 | 10 | 2 |
# | `sample_top_k` | 3 | 15 | 2 |
# | `sample_top_p` | 3 | 15 | 3 |
# | question `10_q1` | | 3 | 1 |
# %% [markdown] lang="zh-TW"
# # 10 · KV 快取與生成：每個詞元只算一次
#
# 語言模型一次寫一個詞元，而每個詞元都要回頭看前面所有的詞元。有一篇文章說：沒有快取，一步要 $O(n^2)$；有快取，只要 $O(n)$。留下來的是什麼？為什麼可以留？要付出什麼？又真的省到多少？
#
# 你會寫出 GPT-2 注意力的一步（含快取）、把提示分塊餵進去、數位元組和運算次數，最後抽出下一個詞元。
#
# 本課說的「文件」，是網路上常見的 Transformer 教材；我們逐一檢驗它們的說法。
#
# **先備知識**：第 03、04、07 課（√d_k、多頭、遮罩）。**時間**：約兩個半小時，其中練習和選擇題 100 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `append_kv` | 1 | 8 | 1 |
# | `decode_step` | 3 | 20 | 3 |
# | `prefill_in_chunks` | 4 | 25 | 4 |
# | `cache_bytes` | 1 | 5 | 1 |
# | `decode_flops` | 2 | 10 | 2 |
# | `sample_top_k` | 3 | 15 | 2 |
# | `sample_top_p` | 3 | 15 | 3 |
# | 選擇題 `10_q1` | | 3 | 1 |
# %% tags=["setup"]
import math

import torch
from torch import Tensor

# %% [markdown] lang="en"
# ## 1. The question
#
# Here is a model of GPT-2's shape: 12 layers, 12 heads, $d_\text{model}=768$, a vocabulary of 50,257. Its weights are **random**, so what it writes is noise; but seconds do not depend on what the weights say, nor does the question whether two ways of computing agree.
#
# It reads a prompt of 128 tokens and writes 6 more, twice: once reading everything again for each token, once keeping something. The cell takes about 15 seconds. Guess first: which steps differ?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 這裡有一個和 GPT-2 一樣大的模型：12 層、12 個頭、$d_\text{model}=768$、詞彙表 50,257。權重是**隨機**的，所以寫出來的東西沒有意義；但是要花幾秒、兩種算法結果一不一樣，都和權重的內容無關。
#
# 它讀 128 個詞元的提示，再寫 6 個。寫兩遍：一遍是每寫一個就全部重讀，另一遍會留下一些東西。這一格大約要跑 15 秒。先猜猜看：哪幾步會不一樣？
# %% tags=["experiment"]
import time

from course_lib import plots
from course_lib.config import TransformerConfig
from course_lib.generation import Session
from course_lib.language_model import LanguageModel

torch.set_num_threads(1)
torch.manual_seed(0)
gpt2 = LanguageModel(TransformerConfig.preset("gpt2")).eval()  # random weights
prompt = torch.randint(gpt2.config.vocab_size, (1, 128))


@torch.no_grad()
def write(cached: bool, new_tokens: int = 6) -> tuple[Tensor, Tensor, list[float]]:
    session = Session(gpt2, prompt, prompt.shape[1] + new_tokens, cached=cached)
    tokens, logits, seconds = prompt, [], []
    for _ in range(new_tokens):
        begin = time.perf_counter()
        logits.append(session.next_logits(tokens))
        seconds.append(time.perf_counter() - begin)
        tokens = torch.cat((tokens, logits[-1].argmax(dim=-1, keepdim=True)), dim=1)
    return tokens, torch.stack(logits), seconds


write(cached=False, new_tokens=1)  # not timed: the very first pass is slower for reasons of its own
tokens_without, logits_without, seconds_without = write(cached=False)
tokens_with, logits_with, seconds_with = write(cached=True)
del gpt2

ax = plots.curves(
    range(1, 7),
    {"without a cache": seconds_without, "with a cache": seconds_with},
    "new token",
    "seconds",
    "One step of a model of GPT-2's shape (1 thread)",
)
ax.set_ylim(bottom=0)
usual = [sorted(seconds[1:])[2] for seconds in (seconds_without, seconds_with)]
print(f"a token, from the second on: {usual[0]:.2f} s without, {usual[1]:.2f} s with")
print(f"same tokens: {torch.equal(tokens_without, tokens_with)}")
gap = (logits_without - logits_with).abs().max()
print(f"logits differ by at most {gap:.1e} (largest {logits_with.abs().max():.2f})")
# %% [markdown] lang="en"
# The first step is the same: the prompt has to be read. From the second on, one way reads 129, 130, … tokens, the other reads **one**. And nothing is lost: the same tokens, the same logits up to the rounding of float32.
#
# So what was kept, and why is it allowed?
# %% [markdown] lang="zh-TW"
# 第一步都一樣：提示總得讀一遍。從第二步起，一種讀 129、130……個詞元，另一種只讀**一個**。而且什麼都沒少：詞元一樣，logits 也只差 float32 的捨入誤差。
#
# 那麼，留下來的是什麼？為什麼可以留？
# %% [markdown] lang="en"
# ## 2. The picture
#
# Eight tokens are written. Without a cache, step $n$ computes a full $n\times n$ table of scores. The map counts how often each score of query $i$ against key $j$ is computed in all eight steps together.
# %% [markdown] lang="zh-TW"
# ## 2. 圖像
#
# 假設要寫八個詞元。沒有快取時，第 $n$ 步要算一張完整的 $n\times n$ 分數表。下圖數的是：八步下來，查詢 $i$ 對鍵 $j$ 的分數一共被算了幾次。
# %%
import matplotlib.pyplot as plt

from course_lib import plots

steps = 8
without_cache, with_cache = torch.zeros(2, steps, steps, dtype=torch.long)
for n in range(1, steps + 1):
    without_cache[:n, :n] += 1  # all queries against all keys, the future ones masked away afterwards
    with_cache[n - 1, :n] += 1  # the new query against all keys so far

plots.use_style()
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6))
plots.heat_map(without_cache, title=f"without a cache: {without_cache.sum()} scores", ax=axes[0])
plots.heat_map(with_cache, title=f"with a cache: {with_cache.sum()} scores", ax=axes[1])
for ax in axes:
    ax.set(xlabel="key", ylabel="query")
# %% [markdown] lang="en"
# On the right each score that causality allows is computed once: 36 against 204. Without a cache the top left entry is computed eight times, with the same result each time.
#
# To compute only the last row, a step needs **one new query** and **all keys and values so far**. The old queries are never asked again. That is why the cache is called KV, not QKV.
# %% [markdown] lang="zh-TW"
# 右圖裡，因果遮罩允許的每個分數都只算一次：36 次對 204 次。左圖最左上角那個算了八次，每次結果都一樣。
#
# 只算最後一列（row）的話，一步需要的是**一個新的查詢**，加上**到目前為止所有的鍵和值**。舊的查詢不會再用到，所以叫 KV 快取，不是 QKV 快取。
# %% [markdown] lang="en"
# ## 3. The formula
#
# $$k_t = x_tW_K,\quad v_t=x_tW_V,\qquad K_t=\begin{pmatrix}K_{t-1}\\ k_t\end{pmatrix},\quad V_t=\begin{pmatrix}V_{t-1}\\ v_t\end{pmatrix},\qquad o_t=\mathrm{softmax}\!\left(\frac{q_tK_t^\top}{\sqrt{d_k}}\right)V_t$$
#
# - $x_t$: the new token's vector, shape $[d_\text{model}]$; $q_t=x_tW_Q$.
# - $K_{t-1}$, $V_{t-1}$: the cache, shapes $[t, d_k]$ and $[t, d_v]$ (positions count from 0, so there are $t$ old tokens).
# - $o_t$: shape $[d_v]$. One row of scores, $t+1$ of them. No mask: the newest token may see all.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# $$k_t = x_tW_K,\quad v_t=x_tW_V,\qquad K_t=\begin{pmatrix}K_{t-1}\\ k_t\end{pmatrix},\quad V_t=\begin{pmatrix}V_{t-1}\\ v_t\end{pmatrix},\qquad o_t=\mathrm{softmax}\!\left(\frac{q_tK_t^\top}{\sqrt{d_k}}\right)V_t$$
#
# - $x_t$：新詞元的向量，形狀 $[d_\text{model}]$；$q_t=x_tW_Q$。
# - $K_{t-1}$、$V_{t-1}$：快取，形狀 $[t, d_k]$ 與 $[t, d_v]$（位置從 0 數起，所以舊詞元有 $t$ 個）。
# - $o_t$：形狀 $[d_v]$。分數只有一列，共 $t+1$ 個。不需要遮罩，最新的詞元全部都能看。
# %% [markdown] lang="en"
# **Why the old keys stay valid.** In the first layer $k_j$ depends on token $j$ alone. Attention is causal, so output $j$ depends on tokens $0,\dots,j$ only; all else in a layer works row by row. So the next layer's $k_j$ depends on tokens $0,\dots,j$ as well, and so on upwards: **what is written later changes nothing of what stands before.**
#
# **The step where people stumble**: this needs the causal mask. In an encoder every token sees the later ones, and a new token changes all keys above the first layer.
# %% [markdown] lang="zh-TW"
# **舊的鍵為什麼一直有效？** 第一層的 $k_j$ 只和詞元 $j$ 有關。注意力有因果遮罩，所以輸出 $j$ 只和詞元 $0,\dots,j$ 有關；一層裡其他的運算都是一列一列各做各的。於是下一層的 $k_j$ 也只和詞元 $0,\dots,j$ 有關，一層層往上都成立：**後面寫了什麼，都不會改變前面。**
#
# **最容易忽略的一步**：這裡用到了因果遮罩。編碼器的每個詞元都看得到後面，多一個詞元，第二層以上的鍵就全變了。
# %% tags=["experiment"]
from course_lib.masked_language_model import MaskedLanguageModel

torch.manual_seed(0)
small = {"d_model": 64, "n_heads": 4, "n_layers": 3, "d_ff": 128, "vocab_size": 100}
words = torch.randint(100, (1, 9))
for name, model in (
    ("causal (GPT)", LanguageModel(TransformerConfig.preset("gpt2", **small)).eval()),
    ("both sides (BERT)", MaskedLanguageModel(TransformerConfig.preset("bert", **small)).eval()),
):
    with torch.no_grad():
        change = (model(words)[0][:, :5] - model(words[:, :5])[0]).abs().max()
    print(f"{name:<18} four more tokens change the first five outputs by {change:.1e}")
# %% [markdown] lang="en"
# ## 4. By hand: the lecture's five scores
#
# The lecture scores one query against five keys: 3.9, 3.2, 1, 0.3, 1.1. Let the fifth be the new token itself; four keys and values are cached. With values that are plain numbers, $v=(2,1,0,0,1)$, of our own:
#
# $$o_4 = 0.61\cdot2+0.30\cdot1+0.03\cdot0+0.02\cdot0+0.04\cdot1= 1.56$$
#
# Computed anew: 1 query, 1 key, 1 value, 5 scores. Without a cache: 5 queries, 5 keys, 5 values, 25 scores, of which 10 are masked and 10 belong to tokens written long ago.
# %% [markdown] lang="zh-TW"
# ## 4. 用手算：講義的五個分數
#
# 講義拿一個查詢和五個鍵比，分數是 3.9、3.2、1、0.3、1.1。假設第五個就是新詞元自己，前四個的鍵和值都在快取裡。值就用我們自訂的數 $v=(2,1,0,0,1)$：
#
# $$o_4 = 0.61\cdot2+0.30\cdot1+0.03\cdot0+0.02\cdot0+0.04\cdot1= 1.56$$
#
# 重新算的只有：1 個查詢、1 個鍵、1 個值、5 個分數。沒有快取的話：5 個查詢、5 個鍵、5 個值、25 個分數，其中 10 個會被遮住，10 個屬於早就寫好的詞元。
# %%
five = torch.tensor([3.9, 3.2, 1.0, 0.3, 1.1], dtype=torch.float64)
weights = torch.softmax(five, dim=-1)
values = torch.tensor([2.0, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
print(f"weights {[round(w, 2) for w in weights.tolist()]}, output {weights @ values:.3f}")


# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - Type, shape, dtype and device, then values. float64 in means float64 precision out; a Python `int` must be exact.
# - The arguments come back unchanged, lists and what is in them included. They may be non-contiguous and may come by name.
# - Any size may be 1, and its axis stays.
# - Gradients are not judged.
# - Best not to call your other answers: if one is wrong, both lose points. `math` and `torch` are all you need.
# - Calling `course_lib`'s version ends the credit of that exercise. For the two attention exercises, `F.scaled_dot_product_attention` and `nn.MultiheadAttention` are not allowed.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看型別、形狀、dtype、裝置，再看數值。輸入是 float64，就要有 float64 的精度；Python 的 `int` 必須完全正確。
# - 引數不可被改動，串列和裡面的東西也是。它們在記憶體中不一定連續，也可能按名稱給。
# - 任何大小都可能是 1，那個軸也要留著。
# - 不看梯度。
# - 最好不要呼叫其他儲存格的函式：那個錯了，這一題也會跟著錯。用 `math` 和 `torch` 就夠了。
# - 呼叫 `course_lib` 的版本，該練習就不再給分。兩題注意力的練習，不可使用 `F.scaled_dot_product_attention` 和 `nn.MultiheadAttention`。
# %% [markdown] lang="en"
# ### Exercise `append_kv` · difficulty 1 of 5 · 8 minutes · 1 point
#
# A cache is a list with one entry for each layer: `None` while the layer is empty, else a pair $(k, v)$, of shapes $[B, h, t, d_k]$ and $[B, h, t, d_v]$. Axis 2 counts tokens. New keys and values arrive for **one** layer, $n$ tokens of them.
#
# Return a **new list** in which only that layer has grown, the new tokens after the old ones. The given list and its tensors stay as they are: in beam search several texts go on from one cache. Judged: an empty layer, full ones, one new token and several, first and last layers, float16 too.
# %% [markdown] lang="zh-TW"
# ### 練習 `append_kv` · 難度 1／5 · 8 分鐘 · 滿分 1 分
#
# 快取是一個串列，一層一個元素：還沒有內容時是 `None`，否則是一對 $(k, v)$，形狀 $[B, h, t, d_k]$ 與 $[B, h, t, d_v]$；第 2 軸在數詞元。現在**某一層**來了 $n$ 個新詞元的鍵和值。
#
# 請回傳一個**新的串列**，只有那一層變長，新詞元接在舊的後面。原來的串列和張量都不能動，因為束搜尋會讓好幾段文字從同一份快取接下去。檢查會試：空的層、有內容的層、一個或多個新詞元、第一層與最後一層，也有 float16。
# %% exercise="append_kv"
def append_kv(
    cache: list[tuple[Tensor, Tensor] | None], layer: int, k_new: Tensor, v_new: Tensor
) -> list[tuple[Tensor, Tensor] | None]:
    """The cache after one layer has got the keys and values of n more tokens.

    Args:
        cache: one entry for each layer, None or (k, v); k is [B, h, t, d_k], v is [B, h, t, d_v].
        layer: the layer that grows, counted from 0.
        k_new: new keys, [B, h, n, d_k].
        v_new: new values, [B, h, n, d_v].

    Returns:
        A new list as long as cache. Entry `layer` holds the old tokens and then the new ones; the others are
        as they were. dtype kept. cache and all tensors stay unchanged.

    Gradients are not judged.
    """
    ### BEGIN SOLUTION
    if cache[layer] is None:
        entry = (k_new, v_new)
    else:
        k, v = cache[layer]
        entry = (torch.cat((k, k_new), dim=2), torch.cat((v, v_new), dim=2))
    return [*cache[:layer], entry, *cache[layer + 1 :]]
    ### END SOLUTION


# %%
check("append_kv", append_kv)


# %% [markdown] lang="en"
# (Joining copies the whole past at every step. Real systems set the memory aside once and write into it, as `course_lib/cache.py` does; what is stored is the same.)
#
# ### Exercise `decode_step` · difficulty 3 of 5 · 20 minutes · 3 points
#
# One attention layer of GPT-2's kind makes one step. With $t$ tokens in the cache (0 for `None`):
#
# 1. $x=\text{embedding}[\text{token}]+\text{positions}[t]$. If $t\ge L$ there is no such row: raise a `ValueError`.
# 2. Project with $W_Q, W_K, W_V$, split into $h$ query heads and $h_{kv}$ key–value heads of $d_k=d_\text{model}/h$.
# 3. Append the new key and value, attend to all of them (scores divided by √d_k), merge, multiply by $W_O$.
#
# No √d_model, no residual, no norm. Query head $j$ uses key–value head $\lfloor j/(h/h_{kv})\rfloor$: neighbours share.
# %% [markdown] lang="zh-TW"
# （每一步都接一次，等於每次都把過去複製一遍。真實的系統會先留好記憶體，再往裡面寫，`course_lib/cache.py` 就是這樣；存的內容是一樣的。）
#
# ### 練習 `decode_step` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# 一層 GPT-2 式的注意力走一步。快取裡有 $t$ 個詞元（`None` 就是 0）：
#
# 1. $x=\text{embedding}[\text{token}]+\text{positions}[t]$。若 $t\ge L$，表裡沒有這一列：請 raise `ValueError`。
# 2. 用 $W_Q, W_K, W_V$ 投影，切成 $h$ 個查詢頭、$h_{kv}$ 個鍵值頭，每個寬 $d_k=d_\text{model}/h$。
# 3. 接上新的鍵和值，對全部算注意力（除以 √d_k），合併，再乘 $W_O$。
#
# 不乘 √d_model，沒有殘差，也沒有正規化。查詢頭 $j$ 用鍵值頭 $\lfloor j/(h/h_{kv})\rfloor$：相鄰的共用。
# %% [markdown] lang="en"
# Return the output and the grown cache $(k, v)$ with its $h_{kv}$ heads, not repeated for the query heads. The given cache stays unchanged. Judged: no cache yet, a filled one, $h_{kv}=h$ (MHA), $1<h_{kv}<h$ (GQA), $h_{kv}=1$ (MQA), the last row of the table, and the `ValueError` behind it.
#
# **By hand**: $h=4$, $h_{kv}=2$: query heads 0, 1, 2, 3 use key–value heads 0, 0, 1, 1.
# %% [markdown] lang="zh-TW"
# 回傳輸出，以及變長的快取 $(k, v)$；快取裡是 $h_{kv}$ 個頭，不要替查詢頭重複。給你的快取不能改動。檢查會試：還沒有快取、已有快取、$h_{kv}=h$（MHA）、$1<h_{kv}<h$（GQA）、$h_{kv}=1$（MQA）、表的最後一列，以及用完之後的 `ValueError`。
#
# **用手算**：$h=4$、$h_{kv}=2$ 時，查詢頭 0、1、2、3 分別用鍵值頭 0、0、1、1。
# %% exercise="decode_step"
def decode_step(
    token: Tensor,
    cache: tuple[Tensor, Tensor] | None,
    embedding: Tensor,
    positions: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One step of one attention layer with a cache.

    Args:
        token: the new token's ids, [B, 1].
        cache: None, or (k, v), each [B, h_kv, t, d_k].
        embedding: [V, d_model].
        positions: [L, d_model]; row t belongs to the token with t others before it.
        w_q, w_o: [d_model, d_model]; w_k, w_v: [d_model, h_kv·d_k]. Used as x @ w.
        n_heads, n_kv_heads: h and h_kv; h_kv divides h.

    Returns:
        (out, (k, v)): out [B, 1, d_model]; k and v [B, h_kv, t + 1, d_k], the new token last.

    Raises:
        ValueError: if t >= L.

    Gradients are not judged.
    """
    ### BEGIN SOLUTION
    t = 0 if cache is None else cache[0].shape[2]
    if t >= len(positions):
        raise ValueError(f"position {t} is beyond the table of {len(positions)}")

    def split(x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # [B, heads, 1, d_k]

    x = embedding[token] + positions[t]  # [B, 1, d_model]
    q, k, v = split(x @ w_q, n_heads), split(x @ w_k, n_kv_heads), split(x @ w_v, n_kv_heads)
    if cache is not None:
        k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)  # [B, h_kv, t + 1, d_k]
    group = n_heads // n_kv_heads
    scores = q @ k.repeat_interleave(group, dim=1).mT / math.sqrt(q.shape[-1])  # [B, h, 1, t + 1]
    heads = torch.softmax(scores, dim=-1) @ v.repeat_interleave(group, dim=1)  # [B, h, 1, d_k]
    return heads.transpose(1, 2).flatten(2) @ w_o, (k, v)
    ### END SOLUTION


# %%
check("decode_step", decode_step)
# %% [markdown] lang="en"
# **A trap with a name.** A flag called `is_causal` looks safe: "the future is hidden". But with one query and four keys PyTorch aligns its triangle at the top left: the query counts as token 0. Compare the result with the values:
# %% [markdown] lang="zh-TW"
# **一個有名字的陷阱。** `is_causal` 這個開關看起來很安全：「把未來遮住」。可是一個查詢配四個鍵時，PyTorch 把三角形對齊左上角，等於把這個查詢當成第 0 個詞元。拿結果和各個值比比看：
# %%
import torch.nn.functional as F

generator = torch.Generator().manual_seed(1)
one_query, four_keys, four_values = (torch.randn(1, n, 3, generator=generator) for n in (1, 4, 4))
print("v_0             ", [round(x, 3) for x in four_values[0, 0].tolist()])
for flag in (True, False):
    out = F.scaled_dot_product_attention(one_query, four_keys, four_values, is_causal=flag)
    print(f"is_causal={flag!s:<5} ", [round(x, 3) for x in out[0, 0].tolist()])
# %% [markdown] lang="en"
# ## 6. Several tokens at once: the prompt
#
# A prompt of $N$ tokens could go through in one causal pass: this is called *prefill*. But one pass makes $N\times N$ scores. So long prompts are cut into chunks: each chunk appends its keys and values, then its queries look at the cache and at their own chunk.
#
# Now a mask is needed again. The query at place $s+i$, token $i$ of a chunk that starts at $s$, sees the keys $0,\dots,s+i$. For a chunk of 3 behind 4 cached tokens:
# %% [markdown] lang="zh-TW"
# ## 6. 一次好幾個詞元：提示
#
# $N$ 個詞元的提示，可以用一次帶因果遮罩的計算全部讀完，這叫**預填**（prefill）。可是一次算完就有 $N\times N$ 個分數。所以長的提示會切成一塊一塊：每一塊先接上自己的鍵和值，再讓這一塊的查詢去看快取和自己這塊。
#
# 這時又需要遮罩了。從 $s$ 開始的一塊，第 $i$ 個詞元站在位置 $s+i$，看得到鍵 $0,\dots,s+i$。例如快取有 4 個、一塊 3 個：
# %%
place = torch.arange(7)
chunk_mask = place <= place[4:, None]  # rows: the queries at places 4, 5, 6
ax = plots.heat_map(chunk_mask, rows=["q 4", "q 5", "q 6"], columns=[f"k {j}" for j in range(7)], title="1: may attend")


# %% [markdown] lang="en"
# ### Exercise `prefill_in_chunks` · difficulty 4 of 5 · 25 minutes · 4 points
#
# The layer of `decode_step` reads a whole prompt from an empty cache, with the scores of at most `chunk_size` queries at a time. The result must equal one causal pass: all $N$ outputs, and the full cache. Positions run on from chunk to chunk; the last chunk may be shorter. $N>L$: a `ValueError`.
#
# **Memory is metered** in two cases: $N=512$ in chunks of 16, and $N=256$ in chunks of 4. No tensor you make, nor all that are alive at one moment together, may have more than $N^2/2$ entries. An $N\times N$ mask counts too, even if you only take slices of it; $K$ and $V$ of all $N$ at once are small and may be made so. The meter sees torch only: `.numpy()` and `.tolist()` are not allowed. Chunks smaller than `chunk_size` are fine.
# %% [markdown] lang="zh-TW"
# ### 練習 `prefill_in_chunks` · 難度 4／5 · 25 分鐘 · 滿分 4 分
#
# 讓 `decode_step` 的那一層從空的快取開始，讀完整個提示，一次最多算 `chunk_size` 個查詢的分數。結果要等於一次算完的因果注意力：全部 $N$ 個輸出，加上完整的快取。位置一塊接一塊地數下去；最後一塊可以比較短。$N>L$ 時要 raise `ValueError`。
#
# 其中兩種情況會**量記憶體**：$N=512$，一塊 16 個；以及 $N=256$，一塊 4 個。你造出的任何一個張量，以及同一時刻存在的全部加起來，都不能超過 $N^2/2$ 個元素。$N\times N$ 的遮罩也算，就算只取其中一塊；全部的 $K$、$V$ 不大，一次算完沒關係。量測只看得到 torch，不能用 `.numpy()` 和 `.tolist()`。一塊比 `chunk_size` 小也可以。
# %% exercise="prefill_in_chunks"
def prefill_in_chunks(
    tokens: Tensor,
    chunk_size: int,
    embedding: Tensor,
    positions: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The layer of decode_step over a whole prompt, the scores of at most chunk_size queries at a time.

    Args:
        tokens: ids of the prompt, [B, N].
        chunk_size: the most queries at once, at least 1; need not divide N, may exceed it.
        embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads: as in decode_step.

    Returns:
        (out, (k, v)): out [B, N, d_model], as of one causal pass; k and v [B, h_kv, N, d_k].

    Raises:
        ValueError: if N > L, the number of positions.

    Gradients are not judged.
    """
    ### BEGIN SOLUTION
    N = tokens.shape[1]
    if len(positions) < N:
        raise ValueError(f"{N} tokens, but {len(positions)} positions")
    group = n_heads // n_kv_heads

    def split(x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # [B, heads, n, d_k]

    keys, values, outputs = [], [], []
    for start in range(0, N, chunk_size):
        x = embedding[tokens[:, start : start + chunk_size]] + positions[:N][start : start + chunk_size]
        keys.append(split(x @ w_k, n_kv_heads))
        values.append(split(x @ w_v, n_kv_heads))
        k, v = torch.cat(keys, dim=2), torch.cat(values, dim=2)  # [B, h_kv, start + n, d_k]
        place = torch.arange(k.shape[2], device=x.device)
        visible = place <= place[start:, None]  # [n, start + n]
        q = split(x @ w_q, n_heads)
        scores = q @ k.repeat_interleave(group, dim=1).mT / math.sqrt(q.shape[-1])  # [B, h, n, start + n]
        weights = torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)
        heads = weights @ v.repeat_interleave(group, dim=1)  # [B, h, n, d_k]
        outputs.append(heads.transpose(1, 2).flatten(2) @ w_o)
    return torch.cat(outputs, dim=1), (k, v)
    ### END SOLUTION


# %%
check("prefill_in_chunks", prefill_in_chunks)
# %% [markdown] lang="en"
# **One layer, three ways.** The same prompt in one pass, in chunks of 5, and token by token. The last line breaks a rule on purpose: every step gets the row of position 0, which is what happens when positions restart.
# %% [markdown] lang="zh-TW"
# **同一層，三種讀法**：一次讀完、一塊 5 個、一個一個讀。最後一行故意犯規：每一步都給位置 0 那一列，也就是位置重新數起會發生的事。
# %% tags=["experiment"]
step, prefill = use("decode_step", decode_step), use("prefill_in_chunks", prefill_in_chunks)

generator = torch.Generator().manual_seed(0)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


d_model, n_heads, n_kv_heads, N = 64, 8, 2, 24
table, where = drawn(50, d_model), drawn(N, d_model)
matrices = [drawn(d_model, width) / 8 for width in (d_model, 16, 16, d_model)]
ids = torch.randint(50, (2, N), generator=generator)


def token_by_token(where: Tensor) -> Tensor:
    cache, outputs = None, []
    for i in range(N):
        out, cache = step(ids[:, i : i + 1], cache, table, where, *matrices, n_heads, n_kv_heads)
        outputs.append(out)
    return torch.cat(outputs, dim=1)


whole, _ = prefill(ids, N, table, where, *matrices, n_heads, n_kv_heads)
for name, other in {
    "chunks of 5": prefill(ids, 5, table, where, *matrices, n_heads, n_kv_heads)[0],
    "token by token": token_by_token(where),
    "positions restart": token_by_token(where[:1].expand(N, -1)),
}.items():
    print(f"{name:<18} off by {(other - whole).abs().max():.1e} (largest output {whole.abs().max():.1f})")


# %% [markdown] lang="en"
# ## 7. The price: bytes
#
# Each token leaves two vectors behind, a key and a value, in every layer and every key–value head: $2\,L\,h_{kv}\,d_k$ numbers. Llama 2 7B has $L=32$ layers, $h_{kv}=h=32$ heads of $d_k=128$, and two bytes a number in float16:
#
# $$2\cdot32\cdot32\cdot128\cdot2 = 524{,}288\ \text{bytes} = 0.5\ \text{MiB a token}$$
#
# 4096 tokens: 2.15 GB, for **one** text. Weights are shared by all texts of a batch, the cache is not.
# %% [markdown] lang="zh-TW"
# ## 7. 代價：位元組
#
# 每個詞元在每一層、每個鍵值頭都留下兩個向量，一個鍵、一個值，共 $2\,L\,h_{kv}\,d_k$ 個數。Llama 2 7B 有 $L=32$ 層、$h_{kv}=h=32$ 個頭、$d_k=128$，float16 一個數占兩個位元組：
#
# $$2\cdot32\cdot32\cdot128\cdot2 = 524{,}288\ \text{位元組} = \text{每個詞元}\ 0.5\ \text{MiB}$$
#
# 4096 個詞元就是 2.15 GB，而且只是**一段**文字。權重是整個批次共用的，快取不是。
# %% [markdown] lang="en"
# The number of query heads does not matter for the cache. So let several query heads share one key–value head: **GQA** (grouped-query attention); all of them one: **MQA** (multi-query). $d_k$ stays $d_\text{model}/h$.
#
# ### Exercise `cache_bytes` · difficulty 1 of 5 · 5 minutes · 1 point
#
# Return the bytes of a full cache as an `int`: all layers, all sequences, keys and values. `dtype.itemsize` is the number of bytes of a number; the cases use float32, float16, bfloat16 and int8.
# %% [markdown] lang="zh-TW"
# 快取有多大，和查詢頭有幾個無關。那就讓好幾個查詢頭共用一個鍵值頭：這是 **GQA**（分組查詢注意力）；全部共用一個，是 **MQA**（多查詢注意力）。$d_k$ 仍然是 $d_\text{model}/h$。
#
# ### 練習 `cache_bytes` · 難度 1／5 · 5 分鐘 · 滿分 1 分
#
# 回傳裝滿的快取占幾個位元組，型別是 `int`：所有層、所有序列、鍵和值都算。`dtype.itemsize` 是一個數占的位元組數；檢查會用 float32、float16、bfloat16 和 int8。
# %% exercise="cache_bytes"
def cache_bytes(
    batch: int, n_tokens: int, n_layers: int, n_heads: int, n_kv_heads: int, d_model: int, dtype: torch.dtype
) -> int:
    """Bytes of the keys and values of n_tokens tokens in all layers, for a batch of sequences.

    Args:
        batch: number of sequences.
        n_tokens: tokens in each.
        n_layers: layers, each with its own cache.
        n_heads: query heads; they share d_model.
        n_kv_heads: key-value heads, each as wide as a query head.
        d_model: width of the model, a multiple of n_heads.
        dtype: of the keys and values.

    Returns:
        A Python int, exact.
    """
    ### BEGIN SOLUTION
    d_k = d_model // n_heads
    return 2 * batch * n_tokens * n_layers * n_kv_heads * d_k * dtype.itemsize
    ### END SOLUTION


# %%
check("cache_bytes", cache_bytes)
# %% tags=["experiment"]
size_of, grow = use("cache_bytes", cache_bytes), use("append_kv", append_kv)

shapes = {"MHA, 32": 32, "GQA, 8": 8, "GQA, 4": 4, "MQA, 1": 1}
gigabytes = [size_of(1, 4096, 32, 32, h_kv, 4096, torch.float16) / 1e9 for h_kv in shapes.values()]
ax = plots.bars(list(shapes), {"cache": gigabytes}, "GB", "Llama 2 7B's shape, 4096 tokens, float16")
print("a token, MHA:", size_of(1, 1, 32, 32, 32, 4096, torch.float16) / 2**20, "MiB")

held: list = [None] * 3  # a real cache: three layers, 2 texts, 5 tokens and then one more, 2 heads of 16
for n in (5, 1):
    for layer in range(3):
        held = grow(held, layer, torch.zeros(2, 2, n, 16), torch.zeros(2, 2, n, 16))
measured = sum(x.nbytes for pair in held for x in pair)
print("counted", size_of(2, 6, 3, 8, 2, 128, torch.float32), "measured", measured)


# %% [markdown] lang="en"
# Eight key–value heads for 32 query heads: a quarter of the bytes. One: 1/32. (Llama 2's 7B model itself uses all 32; its 70B model and later Llamas share.)
#
# The price of sharing is that the queries of a group search the same keys. How much quality that costs only training can say, and no cell of this lesson trains.
# %% [markdown] lang="zh-TW"
# 32 個查詢頭配 8 個鍵值頭：位元組是四分之一；只有一個：1/32。（Llama 2 的 7B 本身用了全部 32 個；70B 和之後的 Llama 才共用。）
#
# 共用的代價，是同一組的查詢只能找同一批鍵。品質會差多少，要訓練才知道，這一課沒有訓練任何模型。
# %% [markdown] lang="en"
# ## 8. The gain: operations
#
# A product of an $a\times b$ and a $b\times c$ matrix costs $2abc$: a multiplication and an addition for each triple. Take one attention layer that makes the $n$-th token, with a cache:
#
# - four projections of one row, $[1,d]\times[d,d]$: $4\cdot2d^2=8d^2$
# - scores, for each head $[1,d_k]\times[d_k,n]$; all $h$ heads: $2nd$
# - weights times values, $[1,n]\times[n,d_k]$ for each head: $2nd$ again
#
# With $d=4$ and $n=3$: $128+24+24=176$.
# %% [markdown] lang="zh-TW"
# ## 8. 好處：運算次數
#
# $a\times b$ 的矩陣乘 $b\times c$ 的矩陣，要 $2abc$ 次運算：每一組都是一次乘、一次加。一層注意力產生第 $n$ 個詞元，有快取時：
#
# - 四個投影，都只有一列，$[1,d]\times[d,d]$：$4\cdot2d^2=8d^2$
# - 分數，每個頭 $[1,d_k]\times[d_k,n]$；$h$ 個頭合計 $2nd$
# - 權重乘值，每個頭 $[1,n]\times[n,d_k]$：又是 $2nd$
#
# $d=4$、$n=3$ 時：$128+24+24=176$。
# %% [markdown] lang="en"
# ### Exercise `decode_flops` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Count the operations of one attention layer for the $n$-th token ($n$ counts it). With a cache: as above. Without: all $n$ rows again, with full $n\times n$ scores (not halved for causality, since the plain product makes them all). The softmax is not counted. Return an exact `int`; torch's own counters (`FlopCounterMode`, the profiler) are not allowed.
#
# The number of heads is an argument. Think about whether you need it.
# %% [markdown] lang="zh-TW"
# ### 練習 `decode_flops` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 數一層注意力產生第 $n$ 個詞元的運算次數（$n$ 包含它自己）。有快取：如上。沒有快取：$n$ 列全部重來，分數是完整的 $n\times n$（不因為因果遮罩減半，一般的乘法全部都會算）。softmax 不算。回傳完全正確的 `int`；不可使用 torch 自己的計數工具（`FlopCounterMode`、profiler）。
#
# 頭的個數也是引數。想一想：真的用得到嗎？
# %% exercise="decode_flops"
def decode_flops(n: int, d_model: int, n_heads: int, cached: bool) -> int:
    """Operations of one attention layer to make the n-th token.

    Args:
        n: tokens so far, the one that is being made included.
        d_model: width; the four projections are d_model by d_model.
        n_heads: heads, which share d_model.
        cached: True: one new row. False: all n rows again, n by n scores.

    Returns:
        A Python int. A product [a, b] times [b, c] costs 2abc; projections, scores, weights times values.
    """
    ### BEGIN SOLUTION
    rows = 1 if cached else n
    projections = 4 * 2 * rows * d_model**2
    scores = 2 * rows * d_model * n  # n_heads · (2 · rows · d_k · n): the heads share d_model
    averages = 2 * rows * n * d_model
    return projections + scores + averages
    ### END SOLUTION


# %%
check("decode_flops", decode_flops)
# %% [markdown] lang="en"
# So without a cache a step costs $n\,(8d^2+4nd)$, with one $8d^2+4nd$: exactly $n$ times less. Look at the term that belongs to attention proper: $4n^2d$ became $4nd$. **That** is the article's $O(n^2)\to O(n)$.
#
# But it is not the whole step. The whole layer, with its feed-forward network ($2\cdot2\cdot4d^2=16d^2$), costs $24d^2+4nd$ with a cache. At GPT-2's $d=768$ the second term would catch up at $n=6d=4608$; GPT-2's table ends at 1024 positions. So in every text it can read, the term in $n$ adds at most 22 % to a step with a cache; without one the step costs $n$ times as much. In practice $O(n)$ became nearly $O(1)$.
# %% [markdown] lang="zh-TW"
# 所以沒有快取時，一步要 $n\,(8d^2+4nd)$；有快取時是 $8d^2+4nd$，剛好是 $n$ 分之一。看屬於注意力本身的那一項：$4n^2d$ 變成 $4nd$。文章說的 $O(n^2)\to O(n)$，指的是**這一項**。
#
# 但一步不只這些。整層加上前饋網路（$2\cdot2\cdot4d^2=16d^2$），有快取時是 $24d^2+4nd$。GPT-2 的 $d=768$，第二項要到 $n=6d=4608$ 才追上第一項，可是 GPT-2 只有 1024 個位置。所以在它讀得到的長度裡，有快取的一步頂多因為 $n$ 多出 22 %；沒有快取，則是它的 $n$ 倍。實際上，就是從 $O(n)$ 變成幾乎 $O(1)$。
# %% tags=["experiment"]
flops = use("decode_flops", decode_flops)

d = 768
lengths = [2**i for i in range(15)]
counted = {
    "step, without a cache": [flops(n, d, 12, False) + 16 * n * d**2 for n in lengths],
    "step, with a cache": [flops(n, d, 12, True) + 16 * d**2 for n in lengths],
    "attention's term, without": [4 * n**2 * d for n in lengths],
    "attention's term, with": [4 * n * d for n in lengths],
}
ax = plots.curves(
    lengths,
    counted,
    "n",
    "operations",
    "One layer of GPT-2's width: operations of a step",
    log_x=True,
    log_y=True,
)
for name, numbers in counted.items():
    print(f"{name:<25} from n = 512 to 1024: {numbers[10] / numbers[9]:.2f} x")
# %% [markdown] lang="en"
# ### The same on the clock
#
# One layer of GPT-2's width with random weights, one thread. For each $n$: the seconds to make token $n$, everything read again or only one token. The best of a few runs counts, since other programs disturb.
# %% [markdown] lang="zh-TW"
# ### 用時鐘再量一次
#
# 一層和 GPT-2 一樣寬的模型，權重隨機，一個執行緒。對每個 $n$，量產生第 $n$ 個詞元要幾秒：全部重讀，或者只讀一個。各跑幾次取最快的，因為其他程式會干擾。
# %% tags=["experiment"]
torch.manual_seed(0)
wide = LanguageModel(TransformerConfig.preset("gpt2", n_layers=1, vocab_size=1000)).eval()


@torch.no_grad()
def seconds_of_step(n: int) -> tuple[float, float]:
    text = torch.randint(1000, (1, n + 20))
    cache = wide.new_cache(batch=1, length=n + 20)

    def timed(tokens: Tensor, cache=None) -> float:
        begin = time.perf_counter()
        wide(tokens, cache=cache, last_only=True)
        return time.perf_counter() - begin

    without = min(timed(text[:, :n]) for _ in range(2))
    timed(text[:, : n - 1], cache)
    return without, min(timed(text[:, i : i + 1], cache) for i in range(n - 1, n + 20))


measured_at = [128, 256, 512, 1000]
without_seconds, with_seconds = zip(*map(seconds_of_step, measured_at))
ax = plots.curves(
    measured_at,
    {"without a cache": without_seconds, "with a cache": with_seconds},
    "n",
    "seconds",
    "One step of one layer, measured",
    log_x=True,
    log_y=True,
)
for name, seconds in (("without", without_seconds), ("with", with_seconds)):
    print(f"{name:<8} from n = 512 to 1000: {seconds[3] / seconds[2]:.2f} x")
print(f"at n = 1000: 1000 times fewer operations, {without_seconds[3] / with_seconds[3]:.0f} times faster")
# %% [markdown] lang="en"
# Two things to notice. Without a cache the seconds grow at least like $n$ once $n$ is large. With one they grow far more slowly.
#
# And the gain in seconds is far below $n$. A step with one row multiplies a *vector* by each matrix: all weights must come from memory for two operations a number. That step waits for memory, not for arithmetic. It is why servers write many texts at once, and why a smaller cache (GQA) makes them faster too.
# %% [markdown] lang="zh-TW"
# 有兩件事值得注意。沒有快取時，$n$ 夠大之後，秒數至少和 $n$ 成正比地增加；有快取時，增加得慢多了。
#
# 另外，秒數省下的倍數遠小於 $n$。只有一列的一步，是拿一個**向量**去乘每個矩陣：所有權重都得從記憶體搬來，每個數只做兩次運算。這一步等的是記憶體，不是算術。所以伺服器會同時寫很多段文字，而快取變小（GQA）也能讓它們變快。
# %% [markdown] lang="en"
# ## 9. Which token? Sampling
#
# A step ends with logits: one number for each token. *Greedy* takes the largest, always. Usually one draws instead, from $\mathrm{softmax}(\text{logits}/\tau)$ with a temperature $\tau$ (lesson 03), and cuts off the unlikely tail first:
#
# - **top-k**: keep the $k$ likeliest tokens;
# - **top-p** (nucleus): keep the fewest likeliest tokens that together have $p$ or more.
#
# What is kept is divided by its sum, so that it is a distribution again.
# %% [markdown] lang="zh-TW"
# ## 9. 選哪個詞元？取樣
#
# 一步的結尾是 logits：每個詞元一個數。**貪婪**的做法永遠取最大的。通常則是用抽的：從 $\mathrm{softmax}(\text{logits}/\tau)$ 抽，$\tau$ 是溫度（第 03 課），並且先切掉不太可能的尾巴：
#
# - **top-k**：留下最可能的 $k$ 個詞元；
# - **top-p**（核心取樣）：從最可能的留起，機率總和一達到 $p$ 就停。
#
# 留下來的要除以它們的總和，才又是一個機率分布。
# %%
percents = {tau: (100 * torch.softmax(five / tau, dim=-1)).round().long().tolist() for tau in (0.5, 1, 2)}
spread = {f"temperature {tau:g}": numbers for tau, numbers in percents.items()}
ax = plots.bars([f"token {i}" for i in range(5)], spread, "probability in %, rounded", "Logits 3.9, 3.2, 1, 0.3, 1.1")


# %% [markdown] lang="en"
# **By hand**, at $\tau=1$: probabilities 0.61, 0.30, 0.03, 0.02, 0.04.
#
# - Top-k with $k=2$ keeps tokens 0 and 1: $0.61/0.91=0.67$ and $0.33$.
# - Top-p with $p=0.92$ goes from the likeliest down: 0.61, then 0.91, then token 4 brings 0.95. It crosses $p$ and stays; tokens 3 and 2 go.
#
# To draw, take $u$ between 0 and 1, walk through the ids from 0 on, and stop at the first whose cumulative probability exceeds $u$. Top-k, $u=0.7$: after token 0 the sum is 0.67, after token 1 it is 1, so token 1.
# %% [markdown] lang="zh-TW"
# **用手算**，$\tau=1$：機率是 0.61、0.30、0.03、0.02、0.04。
#
# - top-k，$k=2$：留下詞元 0 和 1，$0.61/0.91=0.67$ 與 $0.33$。
# - top-p，$p=0.92$：從最可能的往下加，0.61、0.91，再加上詞元 4 是 0.95。它跨過了 $p$，要留；詞元 3 和 2 丟掉。
#
# 抽的時候，取一個介於 0 和 1 之間的 $u$，從編號 0 開始走，停在第一個累積機率超過 $u$ 的編號。例如 top-k、$u=0.7$：走過詞元 0 是 0.67，走過詞元 1 是 1，所以抽到詞元 1。
# %% [markdown] lang="en"
# ### Exercise `sample_top_k` · difficulty 3 of 5 · 15 minutes · 2 points
#
# For each row: the distribution $\mathrm{softmax}(\text{logits}/\tau)$ among the $k$ largest logits (all of them if $k\ge V$), renormalised; then walk through the ids **in their own order**, as above. The random numbers $u$ are given, so that there is one right answer.
#
# Judged: many draws from a few distributions, $\tau$ above and below 1, $k=1$, $k=V$ and beyond, logits near 100. No two logits are equal, and no $u$ lies on a step; but with float64 logits some come within $10^{-9}$ of one, so float32 sums would not do there.
# %% [markdown] lang="zh-TW"
# ### 練習 `sample_top_k` · 難度 3／5 · 15 分鐘 · 滿分 2 分
#
# 對每一列：在最大的 $k$ 個 logits 之間（$k\ge V$ 就是全部）做 $\mathrm{softmax}(\text{logits}/\tau)$，重新正規化成總和 1；再照**編號本身的順序**走，如上所述。亂數 $u$ 是給定的，所以正確答案只有一個。
#
# 檢查會試：幾種分布各抽很多次、$\tau$ 大於或小於 1、$k=1$、$k=V$ 以及更大、logits 接近 100。不會有兩個相等的 logits，$u$ 也不會剛好落在階梯上；但 logits 是 float64 時，有些 $u$ 離階梯不到 $10^{-9}$，用 float32 加總就會抽錯。
# %% exercise="sample_top_k"
def sample_top_k(logits: Tensor, k: int, temperature: float, u: Tensor) -> Tensor:
    """One token for each row, drawn among the k likeliest.

    Args:
        logits: [B, V].
        k: tokens that may be drawn, at least 1; all if k >= V.
        temperature: above 0; logits are divided by it.
        u: numbers between 0 and 1, float64, [B].

    Returns:
        Token ids, int64, [B]: the first id, in id order, whose cumulative probability exceeds u.
    """
    ### BEGIN SOLUTION
    kept = logits.topk(min(k, logits.shape[-1]), dim=-1).indices  # [B, k]
    scores = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    climbing = torch.softmax(scores / temperature, dim=-1).cumsum(dim=-1)  # [B, V]
    return (climbing <= u[:, None]).sum(dim=-1)  # as many ids as are passed before the sum exceeds u
    ### END SOLUTION


# %%
check("sample_top_k", sample_top_k)


# %% [markdown] lang="en"
# ### Exercise `sample_top_p` · difficulty 3 of 5 · 15 minutes · 3 points
#
# Temperature first. Then keep a token if and only if the **more probable ones together have less than $p$**. So the token that crosses $p$ stays, at least one token stays, and $p=1$ keeps all. Renormalise, and draw as before, in the order of the ids.
#
# Judged: $\tau$ above and below 1, a $p$ smaller than any first probability, $p=1$, logits near 100, and float64 logits with $u$ close to a step as before. No sum lies on $p$.
# %% [markdown] lang="zh-TW"
# ### 練習 `sample_top_p` · 難度 3／5 · 15 分鐘 · 滿分 3 分
#
# 先用溫度。接著，一個詞元要留下，若且唯若**比它更可能的詞元加起來小於 $p$**。所以跨過 $p$ 的那個會留下，至少留一個，$p=1$ 則全部留下。重新正規化之後，照前一題的方法按編號順序抽。
#
# 檢查會試：$\tau$ 大於或小於 1、比最大機率還小的 $p$、$p=1$、logits 接近 100，以及 logits 是 float64、$u$ 緊靠著階梯（同上一題）。不會有總和剛好等於 $p$。
# %% exercise="sample_top_p"
def sample_top_p(logits: Tensor, p: float, temperature: float, u: Tensor) -> Tensor:
    """One token for each row, drawn from the nucleus.

    Args:
        logits: [B, V].
        p: above 0, at most 1. A token is kept if the more probable ones together have less than p.
        temperature: above 0; applied before the nucleus is chosen.
        u: numbers between 0 and 1, float64, [B].

    Returns:
        Token ids, int64, [B]: the first id, in id order, whose cumulative probability exceeds u.
    """
    ### BEGIN SOLUTION
    probabilities = torch.softmax(logits / temperature, dim=-1)
    ordered, order = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered  # what the more probable tokens have together
    kept = torch.zeros_like(ordered).scatter(-1, order, torch.where(before < p, ordered, 0.0))
    climbing = kept.cumsum(dim=-1) / kept.sum(dim=-1, keepdim=True)  # [B, V]
    return (climbing <= u[:, None]).sum(dim=-1)
    ### END SOLUTION


# %%
check("sample_top_p", sample_top_p)
# %% [markdown] lang="en"
# **Why two ways?** Draw 20,000 times from a peaked and from a flat distribution over twelve tokens, and count which tokens ever appear. Top-k keeps four of them, whatever they are worth. Top-p keeps few where the model is sure and many where it is not.
# %% [markdown] lang="zh-TW"
# **為什麼要有兩種？** 十二個詞元，一個尖的分布、一個平的分布，各抽 20,000 次，看哪些詞元出現過。top-k 不管機率高低，一律留四個。top-p 則是模型有把握時留得少，沒把握時留得多。
# %% tags=["experiment"]
draw_k, draw_p = use("sample_top_k", sample_top_k), use("sample_top_p", sample_top_p)

generator = torch.Generator().manual_seed(0)
u = torch.rand(20_000, generator=generator, dtype=torch.float64)
shares, exact_gap = {}, 0.0
for shape, slope in (("peaked", 1.2), ("flat", 0.1)):
    scores = -slope * torch.arange(12.0)
    rows = scores.expand(len(u), -1)
    exact = torch.softmax(scores, dim=-1)
    for rule, drawn_ids in {
        "top-k, k = 4": draw_k(rows, 4, 1.0, u),
        "top-p, p = 0.9": draw_p(rows, 0.9, 1.0, u),
    }.items():
        share = torch.bincount(drawn_ids, minlength=12) / len(u)
        kept = share > 0
        mass = exact[kept].sum()
        exact_gap = max(exact_gap, float((share - exact * kept / mass).abs().max()))
        shares[f"{shape}, {rule}"] = share.tolist()
        print(f"{shape:<7} {rule:<15} {int(kept.sum()):>2} tokens appear, which had {mass:.2f} together")
ax = plots.curves(range(12), shares, "token", "share of the draws", "Drawn 20,000 times, temperature 1")
print(f"shares differ from the renormalised softmax by at most {exact_gap:.3f}")
# %% [markdown] lang="en"
# ## 10. What to remember
#
# 1. What is kept: keys and values, a pair for each token, layer and key–value head. Old queries are never asked again.
# 2. It is allowed because attention is causal: what comes later changes nothing before it. Nothing is approximated.
# 3. Positions go on; each layer has its own cache; one new token needs no mask, a chunk needs one, aligned bottom-right.
# 4. A step's attention falls from $4n^2d$ to $4nd$, the whole layer from $n(24d^2+4nd)$ to $24d^2+4nd$.
# 5. The price is memory, $2Lh_{kv}d_k$ numbers a token. GQA and MQA lower $h_{kv}$.
# 6. Sampling: temperature, cut the tail, renormalise, draw.
# %% [markdown] lang="zh-TW"
# ## 10. 要記住的事
#
# 1. 留下來的是鍵和值：每個詞元、每一層、每個鍵值頭各一對。舊的查詢不會再用。
# 2. 可以留，是因為注意力有因果遮罩：後面的不會改變前面。沒有任何近似。
# 3. 位置要接著數；每一層有自己的快取；一個新詞元不需要遮罩，一整塊就需要，而且對齊右下角。
# 4. 一步的注意力從 $4n^2d$ 降到 $4nd$，整層從 $n(24d^2+4nd)$ 降到 $24d^2+4nd$。
# 5. 代價是記憶體：每個詞元 $2Lh_{kv}d_k$ 個數。GQA 和 MQA 減少的是 $h_{kv}$。
# 6. 取樣：套用溫度、切掉尾巴、重新正規化、抽。
# %% [markdown] lang="en"
# ## 11. Self-check: question `10_q1` · 1 point · 3 minutes
#
# A model writes with a KV cache. What does the cache change in a step?
#
# - **a**: It replaces weights by simpler ones, so the step is faster, and the text may come out a little different.
# - **b**: It makes training faster above all, since there every token is a step of its own.
# - **c**: Keys and values are computed for the new token only, and one row of scores instead of $n$; the result is the same, and memory grows with the text.
# - **d**: It makes a step independent of the length of the text, in time and in memory.
# %% [markdown] lang="zh-TW"
# ## 11. 自我檢查：選擇題 `10_q1` · 滿分 1 分 · 3 分鐘
#
# 模型用 KV 快取寫文字。快取改變了一步裡的什麼？
#
# - **a**：它用比較簡單的權重代替原來的，所以快，寫出來的文字可能略有不同。
# - **b**：它主要讓訓練變快，因為訓練時每個詞元就是一步。
# - **c**：只有新詞元要算鍵和值，分數只算一列，不是 $n$ 列；結果一樣，記憶體則隨文字變長。
# - **d**：它讓一步的時間和記憶體都和文字長度無關。
# %% question="10_q1"
answer_10_q1 = ""
### BEGIN SOLUTION
answer_10_q1 = "c"
### END SOLUTION
# %%
check("10_q1", answer_10_q1)
# %% [markdown] lang="en"
# ## 12. What the documents claim, and what you measured
#
# Every figure comes from a cell of this lesson. Seconds are from one thread of a quiet machine; yours differ, and more so on a busy one.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | The cache avoids computing old keys and values again | true, for causal attention | GPT-2's shape: the same 6 tokens, logits within 3·10⁻⁶; with both sides visible four more tokens change the first five outputs by 0.005 |
# | It turns $O(n^2)$ a step into $O(n)$ | true with a condition: only attention's term is counted | $4n^2d\to4nd$; the whole layer from 512 to 1024: 2.20 × without, 1.10 × with; on the clock, from 512 to 1000: 2.2 to 3.2 × without, 1 to 1.5 × with |
# %% [markdown] lang="zh-TW"
# ## 12. 文件怎麼說，你量到什麼
#
# 每個數字都來自這一課的儲存格。秒數是在沒有其他工作的機器上用一個執行緒量的；你的會不同，機器忙的時候差得更多。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | 快取避免重複計算舊的鍵和值 | 對，前提是因果注意力 | GPT-2 的形狀：同樣的 6 個詞元，logits 相差不到 3·10⁻⁶；兩邊都看得到的話，多四個詞元就讓前五個輸出改變 0.005 |
# | 每步從 $O(n^2)$ 降為 $O(n)$ | 有條件：只算注意力那一項 | $4n^2d\to4nd$；整層從 512 到 1024：沒有快取 2.20 倍，有快取 1.10 倍；用時鐘量，從 512 到 1000：沒有快取 2.2 到 3.2 倍，有快取 1 到 1.5 倍 |
# %% [markdown] lang="en"
# What none of the documents says, and this lesson needed:
#
# | unsaid | what this lesson found |
# |---|---|
# | with a cache a causal mask is aligned bottom-right | `is_causal` with one query and four keys gives $v_0$ exactly |
# | positions go on | restarted at 0: outputs off by 4.5, the right way by 10⁻¹⁵ |
# | a chunk needs a mask, and each layer its own cache | chunks of 5 equal one pass; bytes counted = bytes measured |
# | it costs memory | 0.5 MiB a token at Llama 2 7B's shape, 2.15 GB for 4096; 8 of 32 key–value heads: a quarter |
# | how the next token is drawn | four tokens with top-k; two (peaked) or ten (flat) with top-p 0.9 |
#
# **Next:** lesson 11 compares the families: who uses which mask, and what changed from 2017 to Llama.
# %% [markdown] lang="zh-TW"
# 這些文件都沒說、這一課卻用到的：
#
# | 沒說的 | 這一課的結果 |
# |---|---|
# | 有快取時，因果遮罩要對齊右下角 | 一個查詢、四個鍵，`is_causal` 的結果剛好是 $v_0$ |
# | 位置要接著數 | 從 0 重新數：輸出差 4.5；正確的做法差 10⁻¹⁵ |
# | 一整塊需要遮罩，每一層要有自己的快取 | 一塊 5 個和一次讀完相同；數出來的位元組 = 量到的 |
# | 要付出記憶體 | Llama 2 7B 的形狀，每個詞元 0.5 MiB，4096 個 2.15 GB；32 個鍵值頭只留 8 個：四分之一 |
# | 下一個詞元怎麼抽 | top-k 留四個；top-p 0.9 留兩個（尖）或十個（平） |
#
# **下一課**比較各個家族：誰用哪一種遮罩，從 2017 年到 Llama 又改了什麼。
