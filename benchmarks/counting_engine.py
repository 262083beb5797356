"""A speech engine `counting`, installed as a plugin: `tone`, slowed down, with a log of its calls.

COUNTING_LOG names the log, COUNTING_CHAR_S the seconds that it sleeps for each character,
COUNTING_VERSION its version. A line that contains `POISON` kills the worker that is given it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

POISON = "strychnine"
_PLUGIN = f"""
import json, os, signal, time
from dataclasses import replace
from anyrig.speech.engines.tone import INFO, Tone

class Counting(Tone):
    info = replace(INFO, name="counting", options=())
    name = "counting"
    version = os.environ.get("COUNTING_VERSION", "1")
    cores = 1

    @classmethod
    def find_weights(cls, folder=None):
        return replace(super().find_weights(folder), version=cls.version)

    def synthesize(self, batch):
        for index, line in enumerate(batch):
            self._log(line, len(batch))
            for part in super().synthesize([line]):
                yield replace(part, index=index)

    def _log(self, line, batch_size):
        if {POISON!r} in line.text:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        time.sleep(float(os.environ.get("COUNTING_CHAR_S", "0")) * (len(line.text) + 8))
        log = os.open(os.environ["COUNTING_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, (json.dumps([line.text, batch_size]) + chr(10)).encode())
        os.close(log)
"""


class SpokenLine(NamedTuple):
    """One call of the engine for one line."""

    text: str
    batch_size: int


def install_counting_engine(folder: Path) -> str:
    """Write it as an installed package; return the folder for PYTHONPATH."""
    info = folder / "counting-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / "counting.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[anyrig.speech]\ncounting = counting:Counting\n")
    return str(folder)


def read_log(path: Path) -> list[SpokenLine]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [SpokenLine(*json.loads(line)) for line in lines if line.endswith("]")]
