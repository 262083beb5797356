"""Whisper base through torch and transformers' `generate`, beside CTranslate2 with its weights.

The weights that come with the `recognise` extra are those of CTranslate2 in half precision; here
they are written once more as transformers saves a Whisper. Five minutes of a novel, spoken by the
default voice: seconds of audio in a second, wrong words, and how far the times of words lie from
CTranslate2's. On a GPU: `benchmarks/run h200 --only transcribe_torch`. Without `hibari` or
`faster-whisper` on that machine, BENCHMARK_TALK names a folder with `talk.wav`, `talk.txt` and the
model's folder `whisper-torch`; `python -m benchmarks.transcribe_torch FOLDER` writes them.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.audio import SPEECH_RATE
from anyrig.audio.resample import resample
from anyrig.devices.choose import choose_device
from anyrig.devices.discovery import discover
from anyrig.placement import plan_placement
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.engines import FasterWhisper, Recording, Transcript, TransformersWhisper
from anyrig.transcription.models import assemble_whisper_base, find_model
from anyrig.transcription.segment import SpeechChunk, split_speech
from benchmarks.harness import Row

SECONDS = 300.0
_ALIGNMENT_HEADS = [[3, 1], [4, 2], [4, 3], [4, 7], [5, 1], [5, 2], [5, 4], [5, 6]]
_BATCH = 16


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(os.environ.get("BENCHMARK_TALK") or place)
        if not (folder / "talk.wav").exists():
            prepare(folder)
        return _measure(folder)


def prepare(folder: Path) -> None:
    """Write the recording, its text and the model."""
    from benchmarks.transcribe import speak_novel

    folder.mkdir(parents=True, exist_ok=True)
    text, _ = speak_novel(folder / "talk.wav", float(os.environ.get("BENCHMARK_SECONDS", SECONDS)))
    (folder / "talk.txt").write_text(text, encoding="utf-8")
    convert_whisper(assemble_whisper_base(folder / "whisper"), folder / "whisper-torch")


def _measure(folder: Path) -> list[Row]:
    import soundfile

    samples, rate = soundfile.read(folder / "talk.wav", dtype="float32")
    chunks = [
        part for part in split_speech([resample(samples, rate, SPEECH_RATE)])
        if isinstance(part, SpeechChunk)
    ]  # fmt: skip
    batch = [Recording(chunk.samples, SPEECH_RATE, "en", "lines") for chunk in chunks]
    machine, model = discover(), find_model(str(folder / "whisper-torch"))
    plan = plan_placement(machine, choose_device(machine, ()), model.describe_workload())
    placement = replace(plan.placements[0], threads=len(os.sched_getaffinity(0)))
    engine = TransformersWhisper(placement, model=model.folder, words=True)
    engine.run(batch[:1])
    began = time.perf_counter()
    made = [
        one for at in range(0, len(batch), _BATCH) for one in engine.run(batch[at : at + _BATCH])
    ]
    wall_s = time.perf_counter() - began
    text = (folder / "talk.txt").read_text(encoding="utf-8")
    wrong = 100 * count_word_errors(text, " ".join(one.text for one in made)).rate
    audio_s = len(samples) / rate
    rows = [Row("seconds of audio in a second, torch", audio_s / wall_s, "x")]
    if not (folder / "whisper").is_dir():
        return [*rows, Row("wrong words, torch", wrong, "%", high=5.0)]
    peer = FasterWhisper(model=str(folder / "whisper"), words=True)
    theirs = peer.run(batch)
    peer_wrong = 100 * count_word_errors(text, " ".join(one.text for one in theirs)).rate
    apart_s = float(np.median(_compare_words(made, theirs)))
    return [
        *rows,
        Row("wrong words, torch", wrong, "%", peer_wrong, "CTranslate2", high=peer_wrong + 1.0),
        Row("word times, median distance", 1000 * apart_s, "ms", high=150.0),
    ]


def _compare_words(ours: list[Transcript], theirs: list[Transcript]) -> list[float]:
    """How far the starts of equal words lie apart, in seconds."""
    from difflib import SequenceMatcher

    found: list[float] = []
    for one, other in zip(ours, theirs, strict=True):
        left, right = ([w for line in side.lines for w in line.words] for side in (one, other))
        names = [[word.text.strip(".,!?").lower() for word in side] for side in (left, right)]
        matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            pairs = zip(left[a : a + size], right[b : b + size], strict=True)
            found += [abs(w.start_s - v.start_s) for w, v in pairs]
    return found


def convert_whisper(source: Path, target: Path) -> None:
    """Whisper base of CTranslate2 (half precision) as transformers saves it."""
    import shutil

    import torch
    import transformers

    theirs: Any = transformers
    weights = {
        name: torch.from_numpy(array.astype(np.float32))
        for name, array in _read_ctranslate2(source / "model.bin").items()
    }
    config = theirs.WhisperConfig(
        vocab_size=51865, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, pad_token_id=50257, bos_token_id=50257, eos_token_id=50257,
        decoder_start_token_id=50258, suppress_tokens=None, begin_suppress_tokens=[220, 50257],
    )  # fmt: skip
    model = theirs.WhisperForConditionalGeneration(config)
    model.load_state_dict(_rename(weights), strict=False)
    options = model.generation_config
    options._from_model_config = False
    options.no_timestamps_token_id, options.max_initial_timestamp_index = 50363, 50
    options.alignment_heads, options.is_multilingual = _ALIGNMENT_HEADS, True
    options.lang_to_id = {"<|en|>": 50259, "<|es|>": 50262, "<|fr|>": 50265}
    options.task_to_id = {"translate": 50358, "transcribe": 50359}
    options.begin_suppress_tokens = [220, 50257]
    model.half().save_pretrained(target)
    shutil.copy(source / "tokenizer.json", target / "tokenizer.json")
    (target / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}'
    )


def _read_ctranslate2(path: Path) -> dict[str, NDArray[np.float16]]:
    found = {}
    with path.open("rb") as file:

        def read_name() -> str:
            (length,) = struct.unpack("<H", file.read(2))
            return file.read(length)[:-1].decode()

        file.read(4)
        read_name()
        _, count = struct.unpack("<II", file.read(8))
        for _ in range(count):
            name, (rank,) = read_name(), struct.unpack("<B", file.read(1))
            shape = struct.unpack(f"<{rank}I", file.read(4 * rank))
            kind, size = struct.unpack("<BI", file.read(5))
            data = file.read(size)
            if kind == 4:
                found[name] = np.frombuffer(data, np.float16).reshape(shape)
    return found


def _rename(weights: dict[str, Any]) -> dict[str, Any]:
    """CTranslate2 has queries, keys and values in one matrix."""
    import torch

    found: dict[str, Any] = {}
    for name, value in weights.items():
        side, _, rest = name.partition("/")
        rest = rest.replace("layer_norm/gamma", "layer_norm/weight")
        rest = rest.replace("layer_norm/beta", "layer_norm/bias")
        if rest == "embeddings/weight":
            found["model.decoder.embed_tokens.weight"] = found["proj_out.weight"] = value
            continue
        if rest == "position_encodings/encodings":
            found[f"model.{side}.embed_positions.weight"] = value
            continue
        parts = rest.split("/")
        kind = parts[-1]
        if not parts[0].startswith("layer_") or parts[0] == "layer_norm":
            found[f"model.{side}.{'.'.join(parts)}"] = value
            continue
        layer = f"model.{side}.layers.{parts[0].removeprefix('layer_')}"
        block, inner = parts[1], parts[2]
        if block == "ffn":
            names = {"layer_norm": "final_layer_norm", "linear_0": "fc1", "linear_1": "fc2"}
            found[f"{layer}.{names[inner]}.{kind}"] = value
            continue
        attention = "self_attn" if block == "self_attention" else "encoder_attn"
        if inner == "layer_norm":
            found[f"{layer}.{attention}_layer_norm.{kind}"] = value
            continue
        fused = {
            ("self_attn", "linear_0"): ("q_proj", "k_proj", "v_proj"),
            ("self_attn", "linear_1"): ("out_proj",),
            ("encoder_attn", "linear_0"): ("q_proj",),
            ("encoder_attn", "linear_1"): ("k_proj", "v_proj"),
            ("encoder_attn", "linear_2"): ("out_proj",),
        }[attention, inner]
        for projection, part in zip(fused, torch.chunk(value, len(fused)), strict=True):
            if (projection, kind) != ("k_proj", "bias"):
                found[f"{layer}.{attention}.{projection}.{kind}"] = part
    return found


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
