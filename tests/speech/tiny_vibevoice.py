"""A folder of VibeVoice-Realtime as a person would fill it, with small random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from benchmarks import vibevoice_realtime_reference as reference

RECORDED = Path(__file__).parent / "models" / "vibevoice_realtime"
"""What the original computed at this size, and two voices as it pickles them."""
PRESETS = {path.stem: path for path in RECORDED.glob("*.pt")}


def build_tokenizer() -> Tokenizer:
    """A token for each byte."""
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({sign: 10 + n for n, sign in enumerate(signs)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def write_folder(folder: Path, voices: tuple[str, ...] = ("en-Carter_man", "en-Ada_woman")) -> Path:
    (folder / "voices").mkdir(parents=True)
    weights = reference.draw_weights(reference.TINY)
    for name, values in weights.items():
        if "decoder" in name and name.endswith("bias"):
            values.zero_()  # else most of the sound is the same in every frame
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(reference.TINY))
    (folder / "tokenizer.json").write_text(build_tokenizer().to_str())
    for name in voices:
        shutil.copy(PRESETS["en-Tiny_woman"], folder / "voices" / f"{name}.pt")
    return folder
