"""An engine whose library clashes with the main environment's: tones, and every way to fail.

It is a plugin's file as its authors would write it: it imports anyrig and the standard library.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.speech.engine import (
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    Take,
    TakePart,
    Utterance,
    Voice,
    whole_parts,
)
from anyrig.speech.engines import recordings
from anyrig.speech.environments import EnvironmentSpec

if TYPE_CHECKING:
    from anyrig.placement import Placement

INFO = EngineInfo(
    name="standin",
    summary="tones",
    languages=("en", "es"),
    code_licence="MIT",
    weights_licence="MIT",
    weights="Make them.",
    max_chars=40,
    options=(EngineOption("load", "", "How loading fails."),),
)


class Standin(SpeechEngine):
    info = INFO
    name = "standin"
    version = "1"
    sample_rate = 16000
    clones = True
    pads = False
    batch_invariant = True
    environment = EnvironmentSpec(
        ("standin-tts==1.0",),
        max_python=(3, 99),
        disk_bytes=20_000_000,
        notice="The stand-in is for tests only.",
        agreed_variables={"STANDIN_AGREED": "1"},
    )

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        import clashlib  # type: ignore[import-not-found]

        if clashlib.__version__ != "1.0":
            raise ImportError(f"standin cannot run with clashlib {clashlib.__version__}")
        print("loading " * 1000)
        if options.get("load") == "exit":
            os._exit(9)
        self._voices = self.find_weights(Path(folder)).voices

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        own = [Voice(name, "en", "standin", also=("es",)) for name in ("low", "high")]
        return recordings.find_weights(cls, folder, ("weights.bin",), own)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        resolved = [recordings.resolve_utterance(INFO, self._voices, one) for one in batch]
        return whole_parts(self._speak(one) for one in resolved)

    def _speak(self, utterance: Utterance) -> Take:
        import numpy as np

        text = utterance.text
        first = text.split()[0]
        print("speaking", text, flush=True)
        if first == "exit":
            sys.stderr.write("last words\n")
            sys.stderr.flush()
            os._exit(7)
        elif first == "wrong":
            raise ValueError("CUDA out of memory. is the title of the book")
        elif first == "hang":
            time.sleep(3600)
        elif first == "agreed":
            text = "x" * len(os.environ.get("STANDIN_AGREED", ""))
        elif first == "modules":
            text = "x" * len({"soundfile", "torch", "onnxruntime", "httpx"} & set(_importable()))
        pitch = {"low": 220, "high": 880}.get(utterance.voice, 440) + utterance.seed
        at = np.arange(int(1600 * (1 + len(text)) / utterance.rate)) / self.sample_rate
        return Take((0.3 * np.sin(2 * math.pi * pitch * at)).astype(np.float32), self.sample_rate)


def _importable() -> list[str]:
    from importlib.util import find_spec

    return [name for name in ("soundfile", "torch", "onnxruntime", "httpx") if find_spec(name)]
