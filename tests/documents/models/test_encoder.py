"""The packed encoders beside transformers' own, on tiny random models of every family."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from anyrig.documents.models.attend import Rows
from anyrig.documents.models.encoder import load_encoder
from anyrig.errors import InvalidInputError, MissingWeightsError

COMMON: Any = {
    "vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 80,
}  # fmt: skip


def model(family: str) -> Any:
    import transformers

    t: Any = transformers

    torch.manual_seed(3)
    if family == "distilbert":
        config: Any = t.DistilBertConfig(
            vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=48,
            max_position_embeddings=80,
        )  # fmt: skip
        made: Any = t.DistilBertModel(config)
    elif family == "modernbert":
        config = t.ModernBertConfig(
            **COMMON, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            cls_token_id=1, sep_token_id=2,
        )  # fmt: skip
        made = t.ModernBertModel(config)
    else:
        kinds = {
            "bert": (t.BertConfig, t.BertModel),
            "roberta": (t.RobertaConfig, t.RobertaModel),
            "xlm-roberta": (t.XLMRobertaConfig, t.XLMRobertaModel),
            "mpnet": (t.MPNetConfig, t.MPNetModel),
        }
        kind, build = kinds[family]
        made = build(kind(**COMMON))
    for parameter in made.parameters():  # so that no weight is idle, biases and norms included
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made.eval()


def texts(count: int = 12, longest: int = 70) -> list[list[int]]:
    dice = random.Random(4)
    return [[dice.randint(5, 119) for _ in range(dice.randint(1, longest))] for _ in range(count)]


FAMILIES = ["bert", "roberta", "xlm-roberta", "mpnet", "distilbert", "modernbert"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_what_transformers_gives(family: str, tmp_path: Path) -> None:
    theirs = model(family)
    theirs.save_pretrained(tmp_path)
    ours = load_encoder(tmp_path, torch.device("cpu"), torch.float32)
    batch = texts()
    rows = Rows(tuple(map(len, batch)), torch.device("cpu"))
    with torch.inference_mode():
        flat = torch.tensor([token for text in batch for token in text])
        hidden = ours.hidden(flat, rows)
        for number, text in enumerate(batch):
            alone = theirs(input_ids=torch.tensor([text])).last_hidden_state[0]
            start, end = int(rows.edges[number]), int(rows.edges[number + 1])
            torch.testing.assert_close(hidden[start:end], alone, atol=2e-5, rtol=1e-4)


def test_what_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError):
        load_encoder(tmp_path, torch.device("cpu"), torch.float32)
    made = model("bert")
    made.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"bert"', '"gpt2"'))
    with pytest.raises(InvalidInputError, match="gpt2"):
        load_encoder(tmp_path, torch.device("cpu"), torch.float32)
