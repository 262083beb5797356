"""coqui-tts called plainly, in the environment of the engine xtts.

    python xtts_reference.py build FOLDER    random weights of the published shape
    python xtts_reference.py speak FOLDER    reads a JSON line per utterance, answers with its cost

Random weights seldom end, so every utterance is as long as `TOKENS` allows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TOKENS = 72
"""Of about 46 ms each."""
SPEAKER = "Ana Florence"


def build(folder: Path) -> None:
    import torch
    from TTS.tts.configs.xtts_config import XttsConfig  # type: ignore[import-not-found]
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer  # type: ignore[import-not-found]
    from TTS.tts.models.xtts import Xtts  # type: ignore[import-not-found]

    torch.manual_seed(1)
    _write_tokenizer(folder / "vocab.json")
    config = XttsConfig()
    config.model_args.gpt_max_audio_tokens = TOKENS
    model = Xtts(config)
    model.tokenizer = VoiceBpeTokenizer(vocab_file=str(folder / "vocab.json"))
    model.init_models()
    config.save_json(str(folder / "config.json"))
    torch.save({"model": model.state_dict()}, folder / "model.pth")
    width = config.model_args.gpt_n_model_channels
    speaker = {
        "gpt_cond_latent": torch.randn(1, 32, width),
        "speaker_embedding": torch.randn(1, 512, 1),
    }
    torch.save({SPEAKER: speaker}, folder / "speakers_xtts.pth")
    print(json.dumps({"parameters": sum(one.numel() for one in model.parameters())}))


def _write_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    marks = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]"]
    pieces = {
        piece: number for number, piece in enumerate([*marks, *"abcdefghijklmnopqrstuvwxyz.,"])
    }
    tokenizer = Tokenizer(models.BPE(pieces, [], unk_token="[UNK]"))
    tokenizer.add_special_tokens(marks)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))


def speak(folder: Path) -> None:
    import torch
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    torch.set_num_threads(os.cpu_count() or 1)
    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    model = Xtts(config)
    model.load_checkpoint(config, checkpoint_dir=str(folder), eval=True)
    speaker = torch.load(folder / "speakers_xtts.pth", weights_only=True)[SPEAKER]
    voice = speaker["gpt_cond_latent"], speaker["speaker_embedding"]
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        text, seed, stream = json.loads(line)
        torch.manual_seed(seed)
        answer = _stream(model, text, voice) if stream else _generate(model, text, voice)
        print(json.dumps(answer), flush=True)


def _generate(model: Any, text: str, voice: tuple[Any, Any]) -> dict[str, float]:
    start = time.process_time()
    samples = model.inference(text, "en", *voice)["wav"]
    return {"cpu_s": time.process_time() - start, "audio_s": len(samples) / 24000}


def _stream(model: Any, text: str, voice: tuple[Any, Any]) -> dict[str, float]:
    start = time.process_time()
    parts = model.inference_stream(text, "en", *voice, stream_chunk_size=20)
    count = len(next(parts))
    first = time.process_time() - start
    count += sum(len(part) for part in parts)
    return {
        "first_cpu_s": first, "cpu_s": time.process_time() - start, "audio_s": count / 24000,
    }  # fmt: skip


if __name__ == "__main__":
    {"build": build, "speak": speak}[sys.argv[1]](Path(sys.argv[2]))
