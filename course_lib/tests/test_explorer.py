import re
from html.parser import HTMLParser

import pytest
import torch

from course_lib.config import TransformerConfig
from course_lib.explorer import LANGUAGES, explore, shapes_of
from course_lib.masks import padding_mask
from course_lib.summary import count_parameters
from course_lib.transformer import Transformer


def small(preset="vaswani_base", **changes):
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": 17}
    return Transformer(TransformerConfig.preset(preset, **(sizes | changes)))


def batch():
    return torch.tensor([[5, 7, 9, 4, 0], [6, 6, 3, 0, 0]]), torch.tensor([[1, 6, 8], [1, 5, 0]])


class Tree(HTMLParser):
    """Whether every tag is closed, and what the page refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.summaries, self.references, self.scripts = [], 0, [], 0

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)
        self.summaries += tag == "summary"
        self.scripts += tag == "script"
        self.references += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page):
    tree = Tree()
    tree.feed(page)
    assert tree.open == []
    return tree


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_stands_alone_and_every_block_opens(language):
    source, target = batch()
    page = explore(small(), source, target, padding_mask(source), language)
    tree = read(page)
    assert tree.references == [] and tree.scripts == 0 and "url(" not in page and "@import" not in page
    # Tokens, embedding and what comes out of each stack, 2 + 2 blocks in an encoder layer, 3 + 3 in a decoder layer.
    assert tree.summaries == page.count("<details>") == 2 * 3 + 4 + 6
    chinese = re.search("[\u4e00-\u9fff]", page)
    assert bool(chinese) == (language == "zh-TW")


def test_the_shapes_are_those_of_the_batch():
    source, target = batch()
    page = explore(small(), source, target, padding_mask(source))
    for letters, shape in (
        ("B, h, M, M", [2, 3, 5, 5]),
        ("B, h, N, N", [2, 3, 3, 3]),
        ("B, h, N, M", [2, 3, 3, 5]),
        ("B, N, d<sub>ff</sub>", [2, 3, 20]),
        ("B, N, V", [2, 3, 17]),
        ("B, M, d", [2, 5, 12]),
        ("V, d", [17, 12]),
    ):
        assert f"[{letters}]</code> = <code>{shape}" in page


def test_the_hooks_see_what_runs_and_leave_the_model_as_it_was():
    source, target = batch()
    model = small(dropout=0.5).train()
    seen = shapes_of(model, source, target)
    assert seen["decoder.layers.1.cross_attention"].outputs == ((2, 3, 12), (2, 3, 3, 5))
    assert seen["decoder.layers.1.cross_attention"].inputs == ((2, 3, 12), (2, 3, 5, 4), (2, 3, 5, 4))
    assert model.training and not any(part._forward_hooks for part in model.modules())


def test_the_parameters_of_the_blocks_add_up():
    source, target = batch()
    model = small(n_layers=1)
    page = explore(model, source, target)
    counts = [int(n.replace(",", "")) for n in re.findall(r"<p>([\d,]+) parameters</p>", page)]
    assert sum(counts) == count_parameters(model)
    assert f"{count_parameters(model):,} parameters" in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"placement": "pre"}, ["Last norm", "x ← x + sublayer(norm(x))"]),
        ({"backend": "fused"}, ["never stores the weights"]),
        (
            {"positions": "learned", "activation": "gelu", "tied": False},
            ["one learned row", "GELU(", "W<sub>out</sub>"],
        ),
        ({"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1}, ["SiLU(", "[2, 1, 5, 4]"]),
    ],
)
def test_other_models(changes, words):
    source, target = batch()
    page = explore(small(**changes), source, target)
    read(page)
    for word in words:
        assert word in page


def test_t5():
    source, target = batch()
    model = small("t5", d_head=4)
    page = explore(model, source, target)
    assert "softmax(QK<sup>⊤</sup>) V" in page and "add a learned number to the scores" in page


def test_it_refuses_what_it_cannot_draw():
    source, target = batch()
    with pytest.raises(ValueError, match="language"):
        explore(small(), source, target, language="fr")
    whisper = Transformer(TransformerConfig.preset("whisper", n_layers=1, d_model=12, n_heads=3, d_ff=8, vocab_size=9))
    with pytest.raises(ValueError, match="sound"):
        explore(whisper, source, target)
