"""torch.compile takes a model whole: no break in its graph, and one graph for texts of every length.

What a compiler makes of the graph needs a C++ compiler, and is PyTorch's; here it runs as it was captured.
"""

import pytest
import torch

from course_lib.config import TransformerConfig
from course_lib.language_model import LanguageModel
from course_lib.masked_language_model import MaskedLanguageModel
from course_lib.transformer import Transformer

MODELS = {"vaswani_base": Transformer, "gpt2": LanguageModel, "llama": LanguageModel, "bert": MaskedLanguageModel}


@pytest.mark.slow
@pytest.mark.parametrize("preset", MODELS)
def test_a_model_is_one_graph(preset):
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    config = TransformerConfig.preset(preset, d_model=16, n_heads=4, n_layers=1, d_ff=32, vocab_size=20)
    model = MODELS[preset](config).eval()
    compiled = torch.compile(model, backend=keep, fullgraph=True, dynamic=True)
    for n in (7, 10):
        tokens = torch.randint(20, (2, n))
        inputs = (tokens, tokens[:, :-1]) if isinstance(model, Transformer) else (tokens,)
        torch.testing.assert_close(compiled(*inputs)[0], model(*inputs)[0])
    assert len(graphs) == 1
