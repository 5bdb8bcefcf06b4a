"""The clickable architecture: an encoder–decoder as a page of blocks that open to their formula and to real shapes.

The shapes are those of one batch, written down by forward hooks while the model reads it. The page is HTML and CSS alone
(`<details>`), so it works in a notebook, in a notebook saved as a page, without a network and with the keyboard.
"""

import html
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.layers import DecoderLayer, EncoderLayer
from course_lib.summary import count_parameters
from course_lib.transformer import Transformer

LANGUAGES = ("en", "zh-TW")
KINDS = {"table": "#f9dfe6", "attention": "#fde3c4", "norm": "#f4f1bb", "network": "#cfe6f5", "end": "#dcebd3"}
NORMS = {
    "layer": "(x − μ) ∕ √(σ² + ε) ⊙ γ + β",
    "rms": "x ∕ √(mean(x²) + ε) ⊙ γ",
    "batch": "(x − μ) ∕ √(σ² + ε) ⊙ γ + β",
    "dyt": "tanh(αx) ⊙ γ + β",
}
STYLE = """
.tx{background:#fff;color:#1a1a1a;font:15px/1.45 system-ui,sans-serif;padding:12px;max-width:900px}
.tx .two{display:grid;grid-template-columns:repeat(auto-fit,minmax(255px,1fr));gap:14px;align-items:start}
.tx .stack{border:2px solid #8a8a8a;border-radius:10px;padding:8px}
.tx .layers{border:2px dashed #8a8a8a;border-radius:10px;padding:6px 8px;margin:6px 0}
.tx h4{margin:0 0 6px;font-size:16px}.tx p{margin:4px 0}
.tx .arrow{text-align:center;color:#555;line-height:1.1}
.tx details{border:1px solid #767676;border-radius:8px}
.tx summary{cursor:pointer;padding:9px 10px;font-weight:600;border-radius:7px}
.tx summary:focus-visible{outline:3px solid #0050b3;outline-offset:2px}
.tx .inside{padding:2px 10px 8px;background:#fff;border-radius:0 0 8px 8px;overflow-x:auto}
.tx ul{margin:4px 0;padding:0;list-style:none;font-size:14px}.tx li{margin:2px 0;padding-left:1em;text-indent:-1em}
.tx .f{font-family:"Cambria Math",Cambria,"STIX Two Math","Times New Roman",serif;font-size:17px}
.tx code{font-size:13px;background:none;color:inherit;padding:0;white-space:nowrap}.tx .ids{white-space:normal}
"""


@dataclass(frozen=True)
class Seen:
    """The shapes that went into a part and came out of it, in order."""

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Block:
    """One block of the picture; ``rows`` holds what, its letters and its shape in this batch."""

    kind: str
    title: str
    formula: str
    rows: list[tuple[str, str, tuple[int, ...]]]
    notes: list[str] = field(default_factory=list)
    parameters: int = 0


def explore(
    model: Transformer, source: Tensor, target: Tensor, source_mask: Tensor | None = None, language: str = "en"
) -> str:
    """The page of a model that reads one batch.

    Args:
        model: reads tokens (not sound).
        source: token ids ``[B, M]``.
        target: token ids ``[B, N]``, shifted right, as the decoder reads them.
        source_mask: padding of the source ``[B, 1, 1, M]``, True = may attend.
        language: "en" or "zh-TW".

    Returns:
        HTML that needs nothing from outside; ``IPython.display.HTML`` shows it.

    Raises:
        ValueError: if the language is another, or the model reads sound.

    Example:
        >>> from course_lib.config import TransformerConfig
        >>> model = Transformer(TransformerConfig.preset("vaswani_base", n_layers=1, vocab_size=50))
        >>> page = explore(model, torch.tensor([[5, 7, 9]]), torch.tensor([[1, 6]]))
        >>> "[B, h, N, M]</code> = <code>[1, 8, 2, 3]" in page
        True
    """
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
    if model.audio_embedding is not None:
        raise ValueError("this model reads sound; the picture is of models that read tokens")
    seen = shapes_of(model, source, target, source_mask)
    writer = _Writer(model, seen, language)
    encoder, decoder = writer.encoder(source), writer.decoder(target)
    return (
        f'<div class="tx" lang="{"zh-Hant-TW" if language == "zh-TW" else "en"}"><style>{STYLE}</style>'
        f'{writer.head(source, target)}<div class="two">{encoder}{decoder}</div></div>'
    )


def shapes_of(model: Transformer, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> dict[str, Seen]:
    """Run the model on a batch and note, for each of its parts, which shapes went in and came out.

    Attention weights are among them where the backend forms them ("explicit").
    """
    seen: dict[str, Seen] = {}
    explicit = model.config.backend == "explicit" and all(
        part.backend == "explicit" for part in model.modules() if hasattr(part, "backend")
    )
    with _watched(model, seen), torch.no_grad():
        model(source, target, source_mask, return_weights=explicit)
    return seen


@contextmanager
def _watched(model: nn.Module, seen: dict[str, Seen]) -> Iterator[None]:
    def note(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, named: dict[str, Any], output: Any) -> None:
            given = [shape for value in (*arguments, named.get("projected")) for shape in _shapes(value)]
            seen[name] = Seen(tuple(given), tuple(_shapes(output)))

        return hook

    hooks = [part.register_forward_hook(note(name), with_kwargs=True) for name, part in model.named_modules()]
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()


def _shapes(value: Any) -> Iterator[tuple[int, ...]]:
    if isinstance(value, Tensor):
        yield tuple(value.shape)
    elif isinstance(value, tuple):
        for item in value:
            yield from _shapes(item)


class _Writer:
    """Words and formulas for one model; shapes come from what was seen."""

    def __init__(self, model: Transformer, seen: dict[str, Seen], language: str) -> None:
        self.model, self.config, self.seen = model, model.config, seen
        self.chinese = language == "zh-TW"

    def say(self, english: str, chinese: str) -> str:
        return chinese if self.chinese else english

    # ------------------------------------------------------------------------------------------ the two stacks

    def head(self, source: Tensor, target: Tensor) -> str:
        c = self.config
        sizes = (
            f"B = {source.shape[0]}, M = {source.shape[1]}, N = {target.shape[1]}, d<sub>model</sub> = {c.d_model}, "
            f"h = {c.n_heads}, d<sub>ff</sub> = {c.d_ff}, V = {c.vocab_size:,}"
        )
        count = f"{count_parameters(self.model):,}"
        return self.say(
            f"<p><b>Open a block</b> (click it, or Tab and Enter): its formula, and the shapes of this batch.</p>"
            f"<p>{sizes}. {count} parameters.</p>",
            f"<p><b>打開方塊</b>（點一下，或用 Tab 與 Enter）：看公式，以及這個批次的形狀。</p>"
            f"<p>{sizes}。共 {count} 個參數。</p>",
        )

    def encoder(self, source: Tensor) -> str:
        layers = self.model.encoder.layers
        blocks = self.sublayers("encoder.layers.0", layers[0])
        below = [self.tokens(source, "M"), self.embedding("M")]
        above = [*self.final_norm("encoder", "M"), self.memory()]
        return self.stack(self.say("Encoder", "編碼器（encoder）"), below, blocks, len(layers), above)

    def decoder(self, target: Tensor) -> str:
        layers = self.model.decoder.layers
        blocks = self.sublayers("decoder.layers.0", layers[0])
        below = [self.tokens(target, "N"), self.embedding("N")]
        above = [*self.final_norm("decoder", "N"), self.logits()]
        return self.stack(self.say("Decoder", "解碼器（decoder）"), below, blocks, len(layers), above)

    def stack(self, title: str, below: list[Block], blocks: list[Block], times: int, above: list[Block]) -> str:
        repeated = (
            self.say("one layer", "一層")
            if times == 1
            else self.say(f"{times} × this layer, each with weights of its own", f"同樣的層 × {times}，各有各的權重")
        )
        arrow = '<div class="arrow" aria-hidden="true">↓</div>'
        layers = f'<div class="layers"><p>{repeated}</p>{arrow.join(map(self.draw, blocks))}</div>'
        parts = [*map(self.draw, below), layers, *map(self.draw, above)]
        return f'<section class="stack"><h4>{title}</h4>{arrow.join(parts)}</section>'

    def draw(self, block: Block) -> str:
        rows = "".join(
            f"<li>{what}{self.say(': ', '：')}<code>[{letters}]</code> = <code>{list(shape)}</code></li>"
            for what, letters, shape in block.rows
        )
        notes = [*block.notes]
        if block.parameters:
            notes.append(self.say(f"{block.parameters:,} parameters", f"{block.parameters:,} 個參數"))
        return (
            f'<details><summary style="background:{KINDS[block.kind]}">{block.title}</summary><div class="inside">'
            f'<p class="f">{block.formula}</p><ul>{rows}</ul>{"".join(f"<p>{note}</p>" for note in notes)}'
            "</div></details>"
        )

    # ------------------------------------------------------------------------------------- what is not repeated

    def tokens(self, ids: Tensor, n: str) -> Block:
        start = self.say("the start token, then the target without its last", "開頭詞元，再接上去掉最後一個的目標")
        formula = self.say("the text, as numbers of its tokens", "文字，換成詞元的編號") if n == "M" else start
        first = html.escape(" ".join(map(str, ids[0].tolist())))
        note = self.say("first row: ", "第一列：") + f'<code class="ids">{first}</code>'
        title = (
            self.say("Source tokens", "來源詞元")
            if n == "M"
            else self.say("Target tokens, shifted right", "右移後的目標詞元")
        )
        return Block("end", title, formula, [(self.say("ids", "編號"), f"B, {n}", tuple(ids.shape))], [note])

    def embedding(self, n: str) -> Block:
        scale = "√d<sub>model</sub> · " if self.config.scale_embedding else ""
        added = {"sinusoidal": " + P", "learned": " + P"}.get(self.config.positions, "")
        how = {
            "sinusoidal": self.say("P: fixed sines and cosines, nothing to learn", "P：固定的正弦與餘弦，不必學"),
            "learned": self.say("P: one learned row for each position", "P：每個位置一列，學來的"),
            "rotary": self.say("positions turn queries and keys in every layer", "位置在每一層轉動查詢與鍵"),
            "relative": self.say("positions add a learned number to the scores", "位置在分數上加一個學來的數"),
        }.get(self.config.positions, "")
        shared = self.say("one table E for source, target and output", "來源、目標、輸出共用一張表 E")
        table = tuple(self.model.embedding.token.weight.shape)
        notes = [how, *([shared] if self.config.tied else [])]
        # The embedding runs twice, and the hook keeps the last run: what the first layer of this stack read is its own.
        read = self.seen[f"{'encoder' if n == 'M' else 'decoder'}.layers.0"].inputs[0]
        rows = [("E", "V, d", table), ("x", f"B, {n}, d", read)]
        count = count_parameters(self.model.embedding) if n == "M" else 0
        return Block(
            "table", self.say("Embedding + positions", "嵌入 + 位置"), f"x = {scale}E[ids]{added}", rows, notes, count
        )

    def final_norm(self, stack: str, n: str) -> list[Block]:
        name = f"{stack}.final_norm"
        if self.config.placement != "pre":
            return []
        title = self.say("Last norm", "最後的正規化")
        count = count_parameters(self.model.get_submodule(name))
        return [Block("norm", title, self.norm_formula(), [("x", f"B, {n}, d", self.seen[name].outputs[0])], [], count)]

    def memory(self) -> Block:
        where = self.say("every decoder layer reads it", "解碼器的每一層都會讀它")
        shape = self.seen["encoder"].outputs[0]
        return Block(
            "end", self.say("Memory", "記憶（memory）"), where, [(self.say("memory", "記憶"), "B, M, d", shape)]
        )

    def logits(self) -> Block:
        B, N, _ = self.seen["decoder"].outputs[0]
        matrix = "E<sup>⊤</sup>" if self.config.tied else "W<sub>out</sub>"
        formula = f"logits = x {matrix} &nbsp; p = softmax(logits)"
        count = 0 if self.model.embedding.output is None else count_parameters(self.model.embedding.output)
        rows = [
            ("x", "B, N, d", self.seen["decoder"].outputs[0]),
            ("logits", "B, N, V", self.seen[""].outputs[0]),
        ]
        note = self.say(f"{B} × {N} guesses of the next token, all at once", f"一次做 {B} × {N} 個「下一個詞元」的預測")
        return Block("end", self.say("Logits", "logits（輸出分數）"), formula, rows, [note], count)

    # ------------------------------------------------------------------------------------------- inside a layer

    def sublayers(self, path: str, layer: nn.Module) -> list[Block]:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        n, decoder = ("N", True) if isinstance(layer, DecoderLayer) else ("M", False)
        middle = [self.attention(f"{path}.attention", n, n, decoder)]
        if decoder:
            middle.append(self.attention(f"{path}.cross_attention", "N", "M", False))
        middle.append(self.network(f"{path}.feed_forward", n))
        blocks: list[Block] = []
        for i, block in enumerate(middle, start=1):
            norm = self.around(f"{path}.norm_{i}", n)
            blocks += [norm[0], block, *norm[1:]] if self.config.placement == "pre" else [block, *norm]
        return blocks

    def around(self, name: str, n: str) -> list[Block]:
        """The norm and the sum: after the sublayer together (2017), or the norm before it and the sum after it."""
        shape = self.seen[name].outputs[0]
        rows = [("x", f"B, {n}, d", shape)]
        count = count_parameters(self.model.get_submodule(name))
        add = "x + sublayer(x)"
        if self.config.placement == "post":
            formula = f"x ← norm({add})<br>norm(x) = {self.norm_formula()}"
            return [Block("norm", self.say("Add & norm", "相加與正規化"), formula, rows, [], count)]
        residual = self.say("the path past the sublayer: nothing on it but sums", "繞過子層的路：上面只有加法")
        return [
            Block("norm", self.say("Norm", "正規化"), f"norm(x) = {self.norm_formula()}", rows, [], count),
            Block("norm", self.say("Add", "相加"), "x ← x + sublayer(norm(x))", rows, [residual]),
        ]

    def norm_formula(self) -> str:
        return NORMS[self.config.norm]

    def attention(self, name: str, n: str, m: str, causal: bool) -> Block:
        part: Any = self.model.get_submodule(name)
        cross = n != m
        title = (
            self.say("Cross-attention: reads the memory", "交叉注意力：讀記憶")
            if cross
            else self.say("Masked self-attention", "有遮罩的自注意力")
            if causal
            else self.say("Self-attention", "自注意力")
        )
        source = self.say("memory", "記憶") if cross else "x"
        inner = "QK<sup>⊤</sup>" + (" ∕ √d<sub>k</sub>" if self.config.attention_scale is None else "")
        formula = (
            f"Q = x W<sub>Q</sub><br>K = {source} W<sub>K</sub><br>V = {source} W<sub>V</sub><br>"
            f"head = softmax({inner}) V<br>output = [head<sub>1</sub> … head<sub>h</sub>] W<sub>O</sub>"
        )
        q = self.seen[f"{name}.w_q"].outputs[0]
        k = self.seen[f"{name}.w_k"].outputs[0]
        out, *weights = self.seen[name].outputs
        h, g = part.n_heads, part.n_kv_heads
        rows = [
            ("x", f"B, {n}, d", self.seen[f"{name}.w_q"].inputs[0]),
            *([(source, f"B, {m}, d", self.seen[f"{name}.w_k"].inputs[0])] if cross else []),
            ("Q", f"B, h, {n}, d<sub>k</sub>", (q[0], h, q[1], q[2] // h)),
            ("K, V", f"B, h, {m}, d<sub>k</sub>", (k[0], g, k[1], k[2] // g)),
        ]
        notes = []
        if weights:
            rows.append((self.say("weights", "權重"), f"B, h, {n}, {m}", weights[0]))
        else:
            notes.append(self.say("the fused kernel never stores the weights", "融合的核心不會把權重存下來"))
        rows.append((self.say("output", "輸出"), f"B, {n}, d", out))
        if causal:
            notes.append(self.say("position t sees positions 0 … t", "位置 t 看得到位置 0 … t"))
        if cross:
            notes.append(self.say("the only place where the source comes in", "來源只從這裡進來"))
        return Block("attention", title, formula, rows, notes, count_parameters(part))

    def network(self, name: str, n: str) -> Block:
        part = self.model.get_submodule(name)
        gated = hasattr(part, "w_gate")
        bias = (" + b<sub>1</sub>", " + b<sub>2</sub>") if self.config.bias else ("", "")
        first, last = ("w_gate", "w_down") if gated else ("w_1", "w_2")
        act = {"relu": "max(0, {})", "swiglu": "SiLU({})"}.get(self.config.activation, "GELU({})")
        formula = (
            f"({act.format('x W<sub>gate</sub>')} ⊙ x W<sub>up</sub>) W<sub>down</sub>"
            if gated
            else f"{act.format(f'x W<sub>1</sub>{bias[0]}')} W<sub>2</sub>{bias[1]}"
        )
        rows = [
            ("x", f"B, {n}, d", self.seen[f"{name}.{first}"].inputs[0]),
            (self.say("inside", "中間"), f"B, {n}, d<sub>ff</sub>", self.seen[f"{name}.{first}"].outputs[0]),
            (self.say("output", "輸出"), f"B, {n}, d", self.seen[f"{name}.{last}"].outputs[0]),
        ]
        note = self.say("each position on its own", "每個位置各算各的")
        return Block(
            "network", self.say("Feed-forward", "前饋網路（FFN）"), formula, rows, [note], count_parameters(part)
        )
