"""Kokoro at full size, random weights: ours in batches beside the published KModel, row by row.

From lists of phonemes to arrays on the host; audio of the rows is counted. The published model
(package `kokoro`, 0.9.4) must be importable: its `model.py`, `modules.py`, `istftnet.py` and
`custom_stft.py` are enough. Its own `__init__` is not run, since it needs a phonemiser; loguru,
huggingface_hub and attrs are replaced by stubs where they are missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anyrig.audio.samples import Samples
from anyrig.devices.machine import Precision
from anyrig.speech.engines.kokoro import UNIT, PhonemeInput
from anyrig.speech.models.kokoro import KokoroNet
from benchmarks.harness import Row, median_and_range, time_calls
from benchmarks.torch_tools import release_memory

NUM_ROWS = {"cpu": 2, "h200": 512}
NUM_PEER_ROWS = {"cpu": 2, "h200": 48}
ROUNDS = {"cpu": 1, "h200": 3}
NUM_FP32 = 24
# Of the published weights: hexgrad/Kokoro-82M, config.json, less the table of phonemes.
CONFIG: dict[str, Any] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12], "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5, "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11], "upsample_initial_channel": 512,
    },
    "dim_in": 64, "dropout": 0.2, "hidden_dim": 512, "max_conv_dim": 512, "max_dur": 50,
    "multispeaker": True, "n_layer": 3, "n_mels": 80, "n_token": 178, "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 2048,
        "max_position_embeddings": 512, "num_hidden_layers": 12, "dropout": 0.1,
    },
    "vocab": {},
}  # fmt: skip


def run(hardware: str) -> list[Row]:
    device = torch.device("cuda" if hardware == "h200" else "cpu")
    peer = build_published()
    state = {name: tensor.clone() for name, tensor in peer.state_dict().items()}
    rows = _draw_rows(NUM_ROWS[hardware])
    rate = _measure_peer(peer.to(device), rows[: NUM_PEER_ROWS[hardware]], device, ROUNDS[hardware])
    del peer
    figures: list[Row] = []
    outputs: dict[str, list[Samples]] = {}
    precisions: list[Precision] = ["fp32"]
    if device.type == "cuda":
        precisions += ["fp16", "bf16", "tf32"]
    for precision in precisions:
        start = time.perf_counter()
        ours = KokoroNet(state, CONFIG, device, precision)
        # Exact fp32 is there to be compared with: a few rows are enough.
        used = rows[:NUM_FP32] if precision == "fp32" else rows
        results = ours.run(used)
        print(f"{precision}: first run {time.perf_counter() - start:.1f} s", flush=True)
        outputs[precision] = [samples for samples, _ in results]
        audio = sum(len(samples) for samples in outputs[precision]) / 24000
        if precision != "fp32" or hardware == "cpu":
            figures.append(_speed(ours, precision, used, audio, rate, hardware))
            print(figures[-1], flush=True)
        figures.append(_error(precision, ours, outputs, used))
        del ours
        release_memory(device)
    return figures


def build_published() -> Any:
    """The published model with random weights of a natural pace and pitch."""
    model_class = import_published()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        empty = Path(folder) / "empty.pth"
        torch.save({}, empty)
        torch.manual_seed(0)
        model = model_class(repo_id="none", config=CONFIG, model=str(empty)).eval()
    with torch.no_grad():
        model.predictor.duration_proj.linear_layer.bias.fill_(-2.8)
        model.predictor.F0_proj.bias.fill_(150.0)
        model.decoder.generator.conv_post.weight_g.mul_(0.05)
    return model


def import_published() -> Any:
    """KModel, without running its package's `__init__`."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the package kokoro must be on PYTHONPATH: its folder of sources")
        package = types.ModuleType("kokoro")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = package
    for name, attributes in (
        ("loguru", {"logger": types.SimpleNamespace(debug=lambda *_: None)}),
        ("huggingface_hub", {"hf_hub_download": None}),
        ("attr", {"attr": None}),
    ):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(attributes)
    return importlib.import_module("kokoro.model").KModel


def _draw_rows(count: int) -> list[PhonemeInput]:
    """20 to 200 phonemes each."""
    rng, numbers = random.Random(0), np.random.default_rng(0)
    return [
        PhonemeInput(
            [rng.randint(1, 177) for _ in range(rng.randint(20, 200))],
            (numbers.standard_normal(256) * 0.3).astype(np.float32),
        )
        for _ in range(count)
    ]


def _measure_peer(
    peer: Any, rows: Sequence[PhonemeInput], device: torch.device, rounds: int
) -> float:
    def one(row: PhonemeInput) -> int:
        ids = torch.tensor([[0, *row.ids, 0]]).to(device)
        style = torch.from_numpy(row.style).unsqueeze(0).to(device)
        samples, _ = peer.forward_with_tokens(ids, style, row.speed)
        return len(samples.cpu().numpy())

    times = time_calls(lambda: [one(row) for row in rows], rounds)
    audio = sum(one(row) for row in rows) / 24000
    rate = audio / median_and_range(times)[0]
    print(f"KModel a row at a time: {rate:.1f} s of audio per second", flush=True)
    return rate


def _speed(
    ours: KokoroNet, precision: str, rows: Sequence[PhonemeInput], audio: float, rate: float,
    hardware: str,
) -> Row:  # fmt: skip
    times = time_calls(lambda: ours.run(rows), ROUNDS[hardware])
    seconds, _ = median_and_range(times)
    spread = f"{audio / max(times):.5g}-{audio / min(times):.5g} of {len(times)}"
    if hardware == "h200":
        spread += f"; peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GB"
    low = 20.0 if hardware == "h200" and precision == "fp16" else None
    return Row(f"audio per second, {precision}, {len(rows)} rows", audio / seconds, "s/s", rate,
               "KModel, a row at a time", low=low, judge="ratio", spread=spread)  # fmt: skip


def _error(
    precision: str,
    ours: KokoroNet,
    outputs: dict[str, list[Samples]],
    rows: Sequence[PhonemeInput],
) -> Row:
    """fp32: rows in a batch beside single ones. Others: the error beside fp32."""
    if precision == "fp32":
        some = list(range(0, len(rows), max(1, len(rows) // 8)))
        expected = [ours.run([rows[number]])[0][0] for number in some]
        got = [outputs["fp32"][number] for number in some]
        what = "signal over difference, rows in company and alone, fp32"
    else:
        expected, got = outputs["fp32"], outputs[precision]
        what = f"signal over error, {precision} beside fp32"
    power = error = 0.0
    for right, actual in zip(expected, got, strict=False):
        assert abs(len(right) - len(actual)) <= UNIT
        size = min(len(right), len(actual))
        power += float(np.square(right[:size], dtype=np.float64).sum())
        error += float(np.square(right[:size] - actual[:size], dtype=np.float64).sum())
    return Row(what, 10 * math.log10(power / max(error, 1e-30)), "dB")
