"""Tiny models that label tokens, made on the spot: nothing is fetched, nothing learnt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

LABELS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
WORDS = (
    "[PAD] [UNK] [CLS] [SEP] anna brown works for acme corp in paris and visits lyon the bob "
    "met green . , ##s ##ing"
).split()
# What a model of one table says of each word.
SAYS = {
    "anna": 1, "brown": 2, "acme": 3, "corp": 4, "paris": 5, "lyon": 5, "bob": 1, "green": 2,
}  # fmt: skip


def tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    made = Tokenizer(WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]",
            "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")


def random_bert(folder: Path, *, positions: int = 64) -> Path:
    import torch
    from transformers import BertConfig, BertForTokenClassification

    tokenizer(folder)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=positions, initializer_range=0.8,
        id2label=dict(enumerate(LABELS)), label2id={name: n for n, name in enumerate(LABELS)},
    )  # fmt: skip
    BertForTokenClassification(config).save_pretrained(folder)
    return folder


def table_graph(folder: Path, *, positions: int = 64) -> Path:
    """An ONNX model that looks each token's label up in a table."""
    from anyrig.backends.onnx_graph import GraphBuilder

    tokenizer(folder)
    table = np.zeros((len(WORDS), len(LABELS)), np.float32)
    table[:, 0] = 4.0
    for word, label in SAYS.items():
        table[WORDS.index(word), label] = 9.0
    graph = GraphBuilder()
    graph.add_input("input_ids", "int64", ["rows", "tokens"])
    graph.add_input("attention_mask", "int64", ["rows", "tokens"])
    graph.add_output("logits", "float32", ["rows", "tokens", len(LABELS)])
    graph.add_node("Gather", [graph.add_weight("table", table), "input_ids"], "picked")
    graph.add_node("Identity", ["picked"], "logits")
    (folder / "model.onnx").write_bytes(graph.build().model)
    told = {"architectures": ["BertForTokenClassification"], "model_type": "bert",
            "id2label": {str(n): name for n, name in enumerate(LABELS)},
            "max_position_embeddings": positions, "pad_token_id": 0}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def random_gliner(folder: Path) -> Path:
    from gliner import GLiNER, GLiNERConfig
    from transformers import BertConfig, BertModel

    bottom = folder / "backbone"
    tokenizer(bottom)
    encoder = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=512,
    )  # fmt: skip
    BertModel(encoder).save_pretrained(bottom)
    config = GLiNERConfig(
        model_name=str(bottom), hidden_size=32, span_mode="markerV0", max_width=4, max_len=64,
        dropout=0.0,
    )  # fmt: skip
    GLiNER.from_config(config).save_pretrained(str(folder))
    return folder
