"""A document worker that does what a test says, and speech engines that die or load slowly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyrig.app.document_worker import DocumentWorker
from anyrig.errors import AnyrigError, WorkError, error_to_dict

FOLDER = "ODD_WORKER_FOLDER"
FACTORY = "tests.server.odd_worker:OddWorker"
ENGINES = """
import os, signal, time
from dataclasses import replace

from anyrig.speech.engines.tone import Tone
from anyrig.speech.engine import Voice


class Deadly(Tone):
    info = replace(Tone.info, name="deadly")
    name = "deadly"

    def synthesize(self, batch):
        if any("poison" in line.text for line in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        if any("nonsense" in line.text for line in batch):
            raise ValueError("that is not a word")
        return super().synthesize(batch)


class Choir(Tone):
    info = replace(Tone.info, name="choir", languages=("en",))
    name = "choir"

    @classmethod
    def find_weights(cls, folder=None):
        names = ("bella", "nova", "sarah", "adam", "onyx")
        voices = [
            Voice(f"c{gender[0]}_{name}", "en", "choir", name.title(), gender)
            for gender, name in zip(["female"] * 3 + ["male"] * 2, names)
        ]
        return replace(Tone.find_weights(folder), engine="choir", voices=tuple(voices))


class Slow(Tone):
    info = replace(Tone.info, name="slow")
    name = "slow"

    def __init__(self, *given, **more):
        time.sleep(3.0)
        super().__init__(*given, **more)
"""


def plugged(folder: Path) -> None:
    """Lay down the engines as pip would, with entry points."""
    (folder / "odd_engines.py").write_text(ENGINES)
    info = folder / "odd_engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd_engines\nVersion: 1.0\n")
    names = "deadly = odd_engines:Deadly\nslow = odd_engines:Slow\nchoir = odd_engines:Choir\n"
    (info / "entry_points.txt").write_text(f"[anyrig.speech]\n{names}")


class OddWorker(DocumentWorker):
    """A plain worker; a file with a task's name says that it dies, fails or goes on for long."""

    def run_task(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        folder, task = Path(os.environ[FOLDER]), str(payload["task"])
        way = (folder / task).read_text() if (folder / task).exists() else ""
        if way == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "fails":
            return {
                "error": error_to_dict(WorkError(f"{task} failed (KeyError)", hint="The log says."))
            }
        if way == "long":
            return self._endless(payload, folder / f"{task} begun", folder / f"{task} ended")
        return super().run_task(payload)

    def _endless(self, payload: Mapping[str, Any], begun: Path, ended: Path) -> dict[str, Any]:
        """Until nobody waits for it, or two minutes."""
        self.context.waiting_file = payload["waiting_file"]
        begun.touch()
        for _ in range(6000):
            try:
                self.context.check()
            except AnyrigError as error:
                ended.touch()
                return {"error": error_to_dict(error)}
            time.sleep(0.02)
        return {"result": None}
