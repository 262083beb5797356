"""Small models in folders, as sentence-transformers and transformers save them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

WORDS = (
    "the a cat dog house river stone green small old runs sleeps opens under over with and of in "
    "el la casa perro verde corre le chat maison vert dort sous"
).split()


def tokenizer(folder: Path) -> None:
    """A WordPiece tokenizer of a few words, with letters for the rest."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = "abcdefghijklmnopqrstuvwxyzáéíóúñçèàêâûîô.,;:!?'-0123456789"
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters]
    names += [f"##{letter}" for letter in letters]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64,
            "unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "mask_token": "[MASK]"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


def encoder(folder: Path, family: str = "xlm-roberta", **more: Any) -> Any:
    import transformers

    t: Any = transformers
    kinds = {
        "xlm-roberta": (t.XLMRobertaConfig, t.XLMRobertaModel),
        "bert": (t.BertConfig, t.BertModel),
        "electra": (t.ElectraConfig, t.ElectraModel),
        "modernbert": (t.ModernBertConfig, t.ModernBertModel),
    }
    config, build = kinds[family]
    torch.manual_seed(5)
    offset = 2 if family == "xlm-roberta" else 0
    told: dict[str, Any] = {
        "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 48, "max_position_embeddings": 64 + offset, "pad_token_id": 0,
        "bos_token_id": 2, "eos_token_id": 3, **more,
    }  # fmt: skip
    if offset:
        told["pad_token_id"] = 1
    if family == "modernbert":
        told |= {"cls_token_id": 2, "sep_token_id": 3}
    made = build(config(**told))
    for parameter in made.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    tokenizer(folder)
    made.eval().save_pretrained(folder)
    return made.eval()


def sentence_transformer(
    folder: Path,
    family: str = "xlm-roberta",
    *,
    pooling: str = "pooling_mode_mean_tokens",
    normalise: bool = True,
    dense: bool = False,
    prompts: dict[str, str] | None = None,
) -> None:
    """A folder with modules.json, as sentence-transformers wrote them for years."""
    encoder(folder, family)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
    ]
    (folder / "1_Pooling").mkdir()
    told = {"word_embedding_dimension": 32, pooling: True}
    for name in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"):
        told.setdefault(f"pooling_mode_{name}", False)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    if dense:
        from safetensors.torch import save_file

        (folder / "2_Dense").mkdir()
        config = {"in_features": 32, "out_features": 16, "bias": True,
                  "activation_function": "torch.nn.modules.activation.Tanh"}  # fmt: skip
        (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
        torch.manual_seed(9)
        save_file({"linear.weight": torch.randn(16, 32), "linear.bias": torch.randn(16)},
                  folder / "2_Dense" / "model.safetensors")  # fmt: skip
        modules.append({"idx": 2, "name": "2", "path": "2_Dense",
                        "type": "sentence_transformers.models.Dense"})  # fmt: skip
    if normalise:
        number = str(len(modules))
        modules.append({"idx": len(modules), "name": number, "path": f"{number}_Normalize",
                        "type": "sentence_transformers.models.Normalize"})  # fmt: skip
        (folder / f"{number}_Normalize").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 48, "do_lower_case": False})
    )
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": prompts or {}, "default_prompt_name": None})
    )


def sentences(count: int, longest: int = 30, seed: int = 1) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, longest))) for _ in range(count)]
