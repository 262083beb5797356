"""RapidOCR through WebGPU, which drives any brand of GPU: here on a software adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.ocr.ocr_pages import page, png

SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
TEXT = "The device that really ran is told."
CODE = """
import sys
sys.path[:0] = {paths!r}
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.documents.ocr.engine import PagePicture
from anyrig.documents.ocr.rapid import Rapid
from anyrig.placement import Placement
backend = DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider")
seat = Placement(Device("x", "gpu", "other", "software"), backend, threads=1)
(found,) = Rapid(seat).run([PagePicture(open({file!r}, "rb").read(), "en")])
print(found.device)
print(found.text)
"""


@pytest.mark.slow
@pytest.mark.system("chromium", SWIFTSHADER)
def test_a_gpu_reads_what_the_cpu_reads(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    pytest.importorskip("onnxruntime_ep_webgpu")
    root, file = Path(__file__).resolve().parents[3], tmp_path / "page.png"
    file.write_bytes(png(page(TEXT, dpi=90, name="", inches=4)[0]))
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(paths=[str(root / "src")], file=str(file))],
        capture_output=True, text=True, timeout=1200,
        env={**os.environ, "VK_ICD_FILENAMES": SWIFTSHADER,
             "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
             "LD_LIBRARY_PATH": str(Path(SWIFTSHADER).parent)},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["WebGpuExecutionProvider", TEXT], done.stderr[-800:]
