"""A tiny random XTTS checkpoint, built by the Python of its own environment.

    python build_xtts.py FOLDER

Beside it: pickled speakers as the published ones are.
"""

from __future__ import annotations

import json
import os
import sys


def tokenizer(folder: str) -> str:
    """Letters, and the marks that the model looks for."""
    marks = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]", "[es]"]
    letters = [*"abcdefghijklmnopqrstuvwxyz.,!?'"]
    vocabulary = {piece: number for number, piece in enumerate([*marks, *letters])}
    added = [
        {
            "id": vocabulary[mark], "special": True, "content": mark, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
        }
        for mark in marks
    ]  # fmt: skip
    model: dict[str, object] = {
        "type": "BPE", "dropout": None, "unk_token": "[UNK]", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "vocab": vocabulary, "merges": [],
    }  # fmt: skip
    table = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": None, "model": model,
    }  # fmt: skip
    path = os.path.join(folder, "vocab.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file)
    return path


def main(folder: str) -> None:
    import torch
    from TTS.tts.configs.xtts_config import XttsConfig  # type: ignore[import-not-found]
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer  # type: ignore[import-not-found]
    from TTS.tts.models.xtts import Xtts  # type: ignore[import-not-found]

    torch.manual_seed(1)
    config = XttsConfig()
    args = config.model_args
    args.gpt_layers, args.gpt_n_model_channels, args.gpt_n_heads = 2, 64, 2
    args.gpt_max_audio_tokens, args.gpt_use_perceiver_resampler = 40, True
    args.gpt_num_audio_tokens, args.gpt_start_audio_token, args.gpt_stop_audio_token = 66, 64, 65
    args.decoder_input_dim = 64
    model = Xtts(config)
    model.tokenizer = VoiceBpeTokenizer(vocab_file=tokenizer(folder))
    model.init_models()
    config.save_json(os.path.join(folder, "config.json"))
    torch.save({"model": model.state_dict()}, os.path.join(folder, "model.pth"))
    speakers = {
        name: {
            "gpt_cond_latent": torch.randn(1, 32, 64),
            "speaker_embedding": torch.randn(1, 512, 1),
        }
        for name in ("Ana Florence", "Viktor Eka")
    }
    torch.save(speakers, os.path.join(folder, "speakers_xtts.pth"))
    print(sum(weight.numel() for weight in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
