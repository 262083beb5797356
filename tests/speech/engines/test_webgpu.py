"""The default voice through WebGPU, which drives any brand: here on a software adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import Utterance
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.engines import Moonshine, Recording

SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
SENTENCES = (
    "The old keeper walked slowly down the stairs.",
    "Nobody in the village had ever seen such heavy rain.",
    "She counted every coin twice and then closed the box.",
    "A quiet train crossed the bridge while the town slept.",
    "We shall meet again where the two small rivers join.",
)
CODE = """
import sys
sys.path[:0] = {paths!r}
import numpy as np
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import Utterance
backend = DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider")
seat = Placement(Device("x", "gpu", "other", "software"), backend, threads=1)
voice = engines.load_engine(seat, engine="hibari")
takes = voice.run([Utterance(text) for text in {texts!r}])
np.savez({out!r}, *(take.samples for take in takes))
print(voice.handle.name)
"""


@pytest.mark.slow
@pytest.mark.system("chromium", SWIFTSHADER)
def test_a_gpu_says_what_the_cpu_says(on_cpu: Placement, tmp_path: Path) -> None:
    """Samples differ, since durations round differently; what is heard hardly does."""
    root, out = Path(__file__).resolve().parents[3], tmp_path / "takes.npz"
    done = subprocess.run(
        [sys.executable, "-c",
         CODE.format(paths=[str(root / "src")], texts=SENTENCES, out=str(out))],
        capture_output=True, text=True, timeout=1200,
        env={**os.environ, "VK_ICD_FILENAMES": SWIFTSHADER,
             "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
             "LD_LIBRARY_PATH": str(Path(SWIFTSHADER).parent)},
    )  # fmt: skip
    assert done.stdout.split() == ["WebGpuExecutionProvider"], done.stderr[-800:]
    ears, voice = Moonshine(), engines.load_engine(on_cpu, engine="hibari")
    with np.load(out) as kept:
        there = [kept[name] for name in kept.files]
    for text, samples in zip(SENTENCES, there, strict=True):
        (take,) = voice.run([Utterance(text)])
        assert abs(len(samples) - len(take.samples)) < 0.1 * len(take.samples)
        heard = ears.run([Recording(samples, 24000)])[0].text
        assert count_word_errors(text, heard, "en").rate < 0.2
        there_and_here = count_word_errors(
            ears.run([Recording(take.samples, 24000)])[0].text, heard, "en"
        )
        assert there_and_here.rate < 0.2  # one word of them may come out differently
