"""IndexTTS on a GPU in fp32, fp16 and bf16, on random weights of about the published shape.

Each version speaks through our engine in a process of its own, with its package in this Python or
in the engine's environment (`BENCHMARK_ENVIRONMENTS` keeps that), and where the package has the
precision too, it is called plainly after it. Random weights seldom end, so every utterance is as
long as `max_mel_tokens` allows. What they show of a precision is the first distribution over sound
tokens beside that of fp32, and that the same seed gives the same sound.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np

from anyrig.devices.machine import Precision
from benchmarks.harness import ROOT, Row

BUILDER = ROOT / "tests" / "speech" / "engines"
"""Where the script is that writes a random checkpoint."""
VERSIONS = {"indextts": "indextts25", "indextts2": "indextts"}
"""Our name of a version and its package's."""
PLAIN = {"indextts": {"fp32": {}, "bf16": {"use_bf16": True}},
         "indextts2": {"fp32": {}, "fp16": {"use_fp16": True}}}  # fmt: skip
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16")
TEXT = "the keeper walked down the stairs and counted them, one by one."
TOKENS = 100
SIZES: dict[str, Any] = {
    "gpt": {
        "model_dim": 1280, "max_mel_tokens": 1815, "max_text_tokens": 600, "heads": 20,
        "layers": 24, "number_text_tokens": 12000, "number_mel_codes": 8194,
        "start_mel_token": 8192, "stop_mel_token": 8193,
        "emo_condition_module": {"output_size": 512, "linear_units": 1024, "attention_heads": 4,
                                 "num_blocks": 4},
    },
    "semantic_codec": {"codebook_size": 8192, "vocos_dim": 384, "vocos_intermediate_dim": 2048,
                       "vocos_num_layers": 12},
    "s2mel": {
        "length_regulator": {"channels": 512, "content_codebook_size": 2048},
        "DiT": {"hidden_dim": 512, "num_heads": 8, "depth": 13, "content_dim": 512,
                "content_codebook_size": 1024},
        "wavenet": {"hidden_dim": 512, "num_layers": 8},
    },
    "vocoder": {
        "upsample_initial_channel": 1536, "upsample_rates": [4, 4, 2, 2, 2, 2],
        "upsample_kernel_sizes": [8, 8, 4, 4, 4, 4], "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    },
}  # fmt: skip
SIZES_2: dict[str, Any] = {
    "gpt": {"condition_module": {"output_size": 512, "linear_units": 2048, "attention_heads": 8,
                                 "num_blocks": 6}},
}  # fmt: skip


def run(_hardware: str) -> list[Row]:
    rows = []
    for name in VERSIONS:
        with tempfile.TemporaryDirectory() as temporary:
            found = _run_in_its_python(name, Path(temporary))
        rows += _build_rows(name, found)
    return rows


def _run_in_its_python(name: str, folder: Path) -> dict[str, Any]:
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "src"), str(BUILDER), os.environ.get("PYTHONPATH", "")]
    )
    command = [_find_python(name, folder), "-m", "benchmarks.speech_indextts", name, str(folder)]
    done = subprocess.run(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _find_python(name: str, folder: Path) -> str:
    if importlib.util.find_spec(VERSIONS[name]):
        return sys.executable
    from anyrig.speech.engines.indextts import IndexTts, IndexTts2
    from anyrig.speech.environments import Environment

    spec = (IndexTts if name == "indextts" else IndexTts2).environment
    assert spec
    kept = os.environ.get("BENCHMARK_ENVIRONMENTS")
    environment = Environment(name, spec, Path(kept) if kept else folder / "environments")
    environment.install(agree=lambda notice: True, on_line=print, variables=os.environ)
    return str(environment.python)


def _build_rows(name: str, found: dict[str, Any]) -> list[Row]:
    rows = []
    for precision, one in found.items():
        what, plain = f"{name}, {precision}", one["plain_rate"]
        rows.append(
            Row(f"{what}: audio made", one["rate"], "s/s", plain, "the package called plainly",
                low=0.95, judge="ratio", spread=f"{one['audio_s']:.1f} s of audio each")
            if plain else Row(f"{what}: audio made", one["rate"], "s/s")
        )  # fmt: skip
        rows += [
            Row(f"{what}: GPU memory", one["peak_bytes"] / 2**30, "GiB"),
            Row(f"{what}: the same seed twice, largest difference", one["repeat"], "", high=1e-3),
        ]
        if precision != "fp32":
            rows.append(Row(f"{what}: first tokens beside fp32, cosine", one["cosine"], "",
                            low=0.999))  # fmt: skip
    return rows


# -- in the process of a version ------------------------------------------------------------------


def measure(name: str, folder: Path) -> dict[str, Any]:
    import torch

    from anyrig.devices.discovery import discover
    from anyrig.placement import Placement
    from anyrig.speech.engine import Utterance
    from anyrig.speech.engines.indextts import IndexTts, IndexTts2

    _write_checkpoint(name, folder)
    engine: Any = IndexTts if name == "indextts" else IndexTts2
    options = {one.name: one.default for one in engine.info.options} | {"max_mel_tokens": TOKENS}
    device, backend = next(
        (device, backend)
        for device in discover().devices
        for backend in device.backends
        if backend.library == "torch" and backend.selector.startswith("cuda")
    )
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        _release_memory()
        model = engine(Placement(device, backend, precision=precision), folder=folder, **options)
        first: list[Any] = []
        hook = model._model.gpt.mel_head.register_forward_hook(
            lambda _module, _given, out, kept=first: kept.append(out.detach().float().flatten())
            if not kept else None
        )  # fmt: skip

        def speak(seed: int, model: Any = model) -> Any:
            parts = list(model.synthesize([Utterance(TEXT, voice="low", seed=seed)]))
            return np.concatenate([one.samples for one in parts])

        once = speak(1)
        hook.remove()
        assert np.isfinite(once).all()
        assert np.abs(once).max() > 1e-4
        twice = speak(1)
        same = len(once) == len(twice)
        times = [_time(speak, seed, engine.sample_rate) for seed in (2, 3, 4)]
        found[precision] = {
            "rate": sum(audio_s for audio_s, _ in times) / sum(wall_s for _, wall_s in times),
            "audio_s": times[0][0],
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "repeat": float(np.abs(once - twice).max()) if same else 1.0,
            "cosine": 1.0,
            "plain_rate": None,
            "first": first[0],
        }
        del model, speak, hook
        if precision in PLAIN[name]:
            _release_memory()
            found[precision]["plain_rate"] = _speak_plainly(name, folder, PLAIN[name][precision])
    exact = found["fp32"]["first"]
    for one in found.values():
        one["cosine"] = torch.nn.functional.cosine_similarity(exact, one.pop("first"), 0).item()
    return found


def _time(speak: Any, seed: int, rate: int) -> tuple[float, float]:
    """Seconds of audio, and of the clock."""
    start = time.perf_counter()
    samples = speak(seed)
    return len(samples) / rate, time.perf_counter() - start


def _speak_plainly(name: str, folder: Path, given: dict[str, bool]) -> float:
    """Seconds of audio a second."""
    module = "indextts25.infer_v2_5" if name == "indextts" else "indextts.infer_v2"
    plain: Any = importlib.import_module(module).IndexTTS2(
        cfg_path=str(folder / "config.yaml"), model_dir=str(folder), device="cuda:0", **given
    )
    voice = str(folder / "voices" / "low.wav")
    language: dict[str, Any] = (
        {"lang": "en", "text_normalization": False} if name == "indextts" else {}
    )
    audio_s = wall_s = 0.0
    for number in range(4):
        start = time.perf_counter()
        rate, samples = plain.infer(
            spk_audio_prompt=voice, text=TEXT, output_path=None, max_mel_tokens=TOKENS, **language
        )
        if number:  # the first one warms up
            audio_s += len(np.asarray(samples).reshape(-1)) / rate
            wall_s += time.perf_counter() - start
    return audio_s / wall_s


def _release_memory() -> None:
    from benchmarks.torch_tools import release_memory

    release_memory("cuda")


def _write_checkpoint(name: str, folder: Path) -> None:
    import build_indextts as build  # type: ignore[import-not-found]
    import torch
    from omegaconf import OmegaConf

    torch.manual_seed(1)
    sizes = SIZES if name == "indextts" else OmegaConf.merge(SIZES, SIZES_2)
    own = OmegaConf.create({key: one for key, one in sizes.items() if key != "vocoder"})
    build.CONFIG = OmegaConf.to_yaml(OmegaConf.merge(OmegaConf.create(build.CONFIG), own))
    build.BIGVGAN.update(SIZES["vocoder"])
    build.SHARPNESS = 1.0  # at these widths sharper layers differ in their last bits by much
    if name == "indextts":
        build.build_25(str(folder))
    else:
        build.build_20(str(folder), str(folder / "hub" / "hub"))
    (folder / "voices").mkdir()
    moment = np.arange(3 * 24000) / 24000
    buzz = np.sum([np.sin(2 * np.pi * 110 * n * moment) / n for n in range(1, 20)], axis=0)
    with wave.open(str(folder / "voices" / "low.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes((6000 * buzz).astype("<i2").tobytes())


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
