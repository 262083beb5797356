"""Tiny models that write, made on the spot: random weights, real tokenizers and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import ROOT

ALICE = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def tokenizer(folder: Path, *, begin: bool) -> int:
    """Pieces of words learnt from a novel; how many there are."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    made.train_from_iterator(ALICE.splitlines(), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if begin else "$A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    theirs: Any = transformers
    fast = theirs.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>",
    )  # fmt: skip
    fast.save_pretrained(folder)
    return int(made.get_vocab_size())


def bart(folder: Path, *, positions: int = 96) -> Path:
    import torch
    import transformers

    theirs: Any = transformers
    size = tokenizer(folder, begin=True)
    torch.manual_seed(1)
    config = theirs.BartConfig(
        vocab_size=size, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, max_position_embeddings=positions, bos_token_id=0, pad_token_id=1,
        eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2, init_std=0.8,
    )  # fmt: skip
    theirs.BartForConditionalGeneration(config).eval().save_pretrained(folder)
    return folder


def t5(folder: Path) -> Path:
    """A T5, which knows its task by a prefix and its places only relatively."""
    import torch
    import transformers

    theirs: Any = transformers
    size = tokenizer(folder, begin=False)
    torch.manual_seed(2)
    config = theirs.T5Config(
        vocab_size=size, d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=1, pad_token_id=1, eos_token_id=2,
        task_specific_params={"summarization": {"num_beams": 2, "prefix": "summarize: "}},
    )  # fmt: skip
    theirs.T5ForConditionalGeneration(config).eval().save_pretrained(folder)
    return folder
