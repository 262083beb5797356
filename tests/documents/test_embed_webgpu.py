"""The default model through WebGPU, which drives any brand of GPU: here on a software adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
CODE = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
import numpy as np
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.devices.discovery import discover
from anyrig.documents.engine import open_embedding_engine
from anyrig.documents.model import find
from anyrig.documents.protocol import TextBlock
from anyrig.placement import Placement
model = find("minilm", models=Path())
cpu = discover().cpu_device
seats = [
    Placement(Device("x", "gpu", "other", "software"),
              DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider"), threads=1),
    Placement(cpu, next(d for d in cpu.backends if d.library == "onnx"), threads=1),
]
found = []
for seat in seats:
    engine = open_embedding_engine(seat, model=model)
    found.append(engine.run([TextBlock(["The cat.", "Hello"])])[0])
    print(engine.handle.name)
print(float(np.abs(found[0] - found[1]).max()) < 1e-4)
"""


@pytest.mark.slow
@pytest.mark.system("chromium", SWIFTSHADER)
def test_a_gpu_embeds_what_the_cpu_embeds() -> None:
    pytest.importorskip("onnxruntime_ep_webgpu")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(paths=[str(root / "src")])],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "VK_ICD_FILENAMES": SWIFTSHADER,
             "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
             "LD_LIBRARY_PATH": str(Path(SWIFTSHADER).parent)},
    )  # fmt: skip
    told = done.stdout.splitlines()
    assert told == ["WebGpuExecutionProvider", "CPUExecutionProvider", "True"], done.stderr[-800:]
