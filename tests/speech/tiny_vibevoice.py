"""A folder of VibeVoice-Realtime as a person would fill it, with small random weights."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from anyrig.speech.models.vibevoice import onnx_graphs
from benchmarks import vibevoice_realtime_reference as reference

RECORDED = Path(__file__).parent / "models" / "vibevoice_realtime"
"""What the original computed at this size, and two voices as it pickles them."""
GRAPHS = RECORDED / "onnx"
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


def copy_graphs(folder: Path) -> Path:
    """Put the ONNX graphs of such a folder there, as they were exported once: it takes half a
    minute. `python -m tests.speech.tiny_vibevoice` exports them again.
    """
    graphs = onnx_graphs.find_graphs(folder, "fp32")
    if not graphs.exists():
        shutil.copytree(GRAPHS, graphs)
    return graphs


def export_graphs(folder: Path, kind: onnx_graphs.WeightFormat) -> Path:
    """Export them, in this process: another one would load torch again."""
    from anyrig.speech.models.vibevoice import onnx_export

    graphs = onnx_graphs.find_graphs(folder, kind)
    graphs.mkdir(parents=True, exist_ok=True)
    onnx_export.export_graphs(folder, graphs, kind, lambda _message: None)
    return graphs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        exported = export_graphs(write_folder(Path(temporary) / "model"), "fp32")
        shutil.rmtree(GRAPHS, ignore_errors=True)
        shutil.copytree(exported, GRAPHS)
