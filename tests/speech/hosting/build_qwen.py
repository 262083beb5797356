"""A tiny random Qwen3-TTS, built by the Python of its own environment.

    python build_qwen.py FOLDER KIND

KIND is custom_voice, with speakers of its own, or base, which takes recordings.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

_TEXT = {"im_start": 300, "im_end": 301, "tts_pad": 302, "tts_bos": 303, "tts_eos": 304}
# The last 1024 codes are the model's marks; those below are sounds.
_CODES = {
    "codec_eos_token_id": 70, "codec_think_id": 71, "codec_nothink_id": 72,
    "codec_think_bos_id": 73, "codec_think_eos_id": 74, "codec_pad_id": 75, "codec_bos_id": 76,
}  # fmt: skip
_SMALL = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 32, "num_code_groups": 4,
}  # fmt: skip


def tokenizer(folder: str) -> None:
    """Bytes, and the marks of a conversation."""
    from tokenizers.pre_tokenizers import ByteLevel  # type: ignore[import-untyped,unused-ignore]

    pieces = {piece: number for number, piece in enumerate(sorted(ByteLevel.alphabet()))}
    pieces["assistant"] = len(pieces)
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump(pieces, file)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n")
    library: Any = importlib.import_module("transformers")
    made = library.Qwen2TokenizerFast(
        os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt")
    )
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.save_pretrained(folder)
    _TEXT["im_start"] = made.convert_tokens_to_ids("<|im_start|>")
    _TEXT["im_end"] = made.convert_tokens_to_ids("<|im_end|>")


def codec(folder: str) -> None:
    """What turns codes into sound."""
    from qwen_tts.core.tokenizer_12hz import (  # type: ignore[import-not-found]
        configuration_qwen3_tts_tokenizer_v2 as settings,
    )
    from qwen_tts.core.tokenizer_12hz import (
        modeling_qwen3_tts_tokenizer_v2 as models,
    )
    from transformers import EncodecFeatureExtractor

    encoder = {
        "hidden_size": 32, "num_filters": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "codebook_size": 64,
        "codebook_dim": 16, "vector_quantization_hidden_dimension": 16, "num_quantizers": 4,
        "upsample_groups": 32,
    }  # fmt: skip
    decoder = {
        "codebook_size": 64, "codebook_dim": 32, "hidden_size": 32, "latent_dim": 32,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 64, "num_hidden_layers": 1, "num_quantizers": 4, "decoder_dim": 64,
    }  # fmt: skip
    config = settings.Qwen3TTSTokenizerV2Config(
        encoder_config=encoder, decoder_config=decoder, encoder_valid_num_quantizers=4
    )
    models.Qwen3TTSTokenizerV2Model(config).save_pretrained(folder)
    EncodecFeatureExtractor(feature_size=1, sampling_rate=24000).save_pretrained(folder)


def main(folder: str, kind: str) -> None:
    import torch
    from qwen_tts.core.models import (  # type: ignore[import-not-found]
        Qwen3TTSConfig,
        Qwen3TTSForConditionalGeneration,
    )

    torch.manual_seed(1)
    tokenizer(folder)
    codec(os.path.join(folder, "speech_tokenizer"))
    speakers = {"vivian": 77, "ryan": 78} if kind == "custom_voice" else {}
    encoder = {"enc_dim": 64, "enc_channels": [16, 16, 16, 16, 48], "enc_attention_channels": 8}
    rotary = {"rope_type": "default", "mrope_section": [8, 4, 4], "interleaved": True}
    talker = {
        **_SMALL, **_CODES, "vocab_size": 1088, "text_vocab_size": 400, "text_hidden_size": 64,
        "spk_id": speakers, "spk_is_dialect": dict.fromkeys(speakers, False),
        "codec_language_id": {"english": 79, "spanish": 80}, "rope_scaling": rotary,
        "code_predictor_config": {**_SMALL, "vocab_size": 64},
    }  # fmt: skip
    config = Qwen3TTSConfig(
        talker_config=talker, tokenizer_type="qwen3_tts_tokenizer_12hz", tts_model_size="0b6",
        tts_model_type=kind, speaker_encoder_config=encoder,
        **{f"{name}_token_id": n for name, n in _TEXT.items()},
    )  # fmt: skip
    model = Qwen3TTSForConditionalGeneration(config)
    model.save_pretrained(folder)
    place = os.path.join(folder, "config.json")
    with open(place, encoding="utf-8") as file:
        written = json.load(file)
    written["speaker_encoder_config"] = encoder  # its class does not read what it writes
    with open(place, "w", encoding="utf-8") as file:
        json.dump(written, file)
    with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
        json.dump({"max_new_tokens": 30, "do_sample": True}, file)
    print(sum(weight.numel() for weight in model.parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:])
