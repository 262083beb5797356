"""A speech engine `gated`, installed as a plugin: it streams, and waits between two parts.

The gate is a file, GATE_FILE: while it does not exist, the second part of an utterance is not made.
"""

from __future__ import annotations

from pathlib import Path

_PLUGIN = """
import os, time
from dataclasses import replace
from anyrig.speech.engine import TakePart
from anyrig.speech.engines.tone import INFO, Tone

class Gated(Tone):
    info = replace(INFO, name="gated", options=(), streams=True, varies_with_seed=False)
    name = "gated"
    cores = 1

    @classmethod
    def find_weights(cls, folder=None):
        found = super().find_weights(folder)
        voices = tuple(replace(one, engine="gated") for one in found.voices)
        return replace(found, engine="gated", voices=voices)

    def synthesize(self, batch):
        for index, utterance in enumerate(batch):
            take = next(super().synthesize([replace(utterance, seed=0)]))
            half = len(take.samples) // 2
            yield TakePart(index, take.samples[:half], last=False)
            end = time.monotonic() + 120
            while not os.path.exists(os.environ["GATE_FILE"]):
                if time.monotonic() > end:
                    raise RuntimeError("the gate stayed shut")
                time.sleep(0.01)
            yield TakePart(index, take.samples[half:], take.words)
"""


def install_gated_engine(folder: Path) -> dict[str, str]:
    """Write it as an installed package; the variables that a process needs to find it."""
    info = folder / "gated-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "gated.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gated\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[anyrig.speech]\ngated = gated:Gated\n")
    return {"PYTHONPATH": str(folder), "GATE_FILE": str(folder / "gate")}
