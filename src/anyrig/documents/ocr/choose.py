"""Which engine reads a page: the fastest here of those that read the language without mistakes.

Both are tried once per machine on a sample, one page clean and one small and dirty. What each cost
and got wrong is kept in a file, under the versions that it holds for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from anyrig.documents.ocr import tesseract
from anyrig.documents.ocr.rapid import INSTALL, Rapid
from anyrig.documents.reading import NO_OCR
from anyrig.errors import InvalidInputError, Message, MissingPackageError, OptionRef
from anyrig.placement import Workload
from anyrig.storage import files
from anyrig.work.engine import EngineFactory

log = logging.getLogger(__name__)
EngineName = Literal["rapidocr", "tesseract"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
MOST_WRONG = 0.002
"""The share of characters that an engine may get wrong on a sample, or its speed is no matter."""
_NOT_RAPID = {"ru", "uk", "be", "bg", "sr", "mk", "el", "ar", "he", "hi", "th", "ko", "vi"}
_FORMAT = 1


@dataclass(frozen=True)
class Trial:
    """What an engine did with the sample."""

    cpu_s: float
    """A page, in seconds of a processor."""
    wrong: float
    """The larger share of characters that it got wrong on either page."""


@dataclass(frozen=True)
class Chosen:
    """An engine, with the reason."""

    engine: EngineName
    version: str
    weights: str
    reason: str
    program: tesseract.Program | None = None
    passed_over: tuple[str, ...] = ()

    def recipe(self, language: str) -> EngineFactory:
        """How a worker makes it."""
        if self.engine == "rapidocr":
            return EngineFactory(
                "anyrig.documents.ocr.rapid:Rapid", {}, "ocr rapidocr", self.version
            )
        options = {"program": self.program, "language": language or "en"}
        factory = "anyrig.documents.ocr.tesseract:Tesseract"
        return EngineFactory(factory, options, "ocr tesseract", self.version)

    def need(self, num_pages: int = 1 << 30) -> Workload:
        """What it asks of a device: on a CPU a process for each core, each a page at a time."""
        gpu = self.engine == "rapidocr"
        return Workload(
            f"OCR with {self.engine}", libraries=("onnx",), worker_bytes=600 << 20, gpu=gpu,
            cores=1, max_workers=max(1, num_pages),
        )  # fmt: skip


Try = Callable[[Chosen], Trial]
"""Tries an engine on the sample."""


def choose(
    language: str,
    environment: Mapping[str, str],
    *,
    wanted: str = "",
    figures: Path | None = None,
    try_: Try | None = None,
    more_data: Path | None = None,
) -> Chosen:
    """The engine for a language.

    Args:
        language: ISO 639-1; empty where nobody knows it yet.
        environment: this process's own, in which Tesseract is looked for.
        wanted: an engine that must be taken; `auto` or nothing chooses.
        figures: where what was measured is kept.
        try_: measures an engine that was not measured before; without it none is.
        more_data: a folder with Tesseract's data for more languages.
    """
    if wanted and wanted != "auto":
        return _named(wanted, language, environment, more_data)
    able, passed = _able(language, environment, more_data)
    if not able:
        raise MissingPackageError(
            f"{NO_OCR} that reads {language}" if language else NO_OCR,
            hint=_remedy(language, passed),
        )
    if len(able) == 1:
        only = able[0]
        why = f"only {only.engine} can: {'; '.join(passed)}" if passed else "it is the only one"
        return _told(replace(only, reason=why, passed_over=tuple(passed)))
    return _told(_fastest(able, _trials(able, figures, try_), passed))


def _remedy(language: str, passed: Sequence[str]) -> str:
    """What to install so that a language is read."""
    if language in _NOT_RAPID:
        code = tesseract.CODES.get(language, language)
        return f"sudo apt install tesseract-ocr tesseract-ocr-{code} ({'; '.join(passed)})."
    return INSTALL


def _told(chosen: Chosen) -> Chosen:
    log.info("OCR by %s %s: %s", chosen.engine, chosen.version, chosen.reason)
    return chosen


def _named(
    wanted: str, language: str, environment: Mapping[str, str], more_data: Path | None
) -> Chosen:
    if wanted == "rapidocr":
        return _told(_rapid("asked for"))
    if wanted == "tesseract":
        program = tesseract.find(environment, language or "en", more_data)
        if not program.reads(language or "en"):
            raise MissingPackageError(
                tesseract.missing(language, program),
                hint=Message(
                    "{install}; or leave {engine} out.",
                    install=tesseract.describe_install(language),
                    engine=OptionRef("engine"),
                ),
            )
        return _told(_tesseract(program, "asked for"))
    raise InvalidInputError(
        f"unknown OCR engine {wanted!r}", hint=f"Valid engines: auto, {', '.join(ENGINES)}."
    )


def _rapid(reason: str) -> Chosen:
    if find_spec("rapidocr") is None:
        raise MissingPackageError("RapidOCR needs the package rapidocr", hint=INSTALL)
    return Chosen("rapidocr", Rapid.version, Rapid.weights, reason)


def _tesseract(program: tesseract.Program, reason: str) -> Chosen:
    return Chosen("tesseract", program.version, ",".join(program.languages), reason, program)


def _able(
    language: str, environment: Mapping[str, str], more_data: Path | None
) -> tuple[list[Chosen], list[str]]:
    """Engines that can read a language, and why others cannot."""
    able: list[Chosen] = []
    passed: list[str] = []
    if find_spec("rapidocr") is None:
        passed.append("rapidocr is not installed")
    elif language in _NOT_RAPID:
        passed.append(f"rapidocr's model does not support {language}")
    else:
        able.append(_rapid(""))
    if not language and able:
        passed.append("tesseract must be told the language")
        return able, passed
    lacks = list(tesseract.lacking(language or "en", environment, more_data))
    passed += lacks
    if not lacks:
        able.append(_tesseract(tesseract.find(environment, language or "en", more_data), ""))
    return able, passed


def _fastest(able: Sequence[Chosen], trials: Mapping[str, Trial], passed: list[str]) -> Chosen:
    """The fastest of those that made no mistakes; unmeasured, the first."""
    known = [one for one in able if one.engine in trials]
    right = [one for one in known if trials[one.engine].wrong <= MOST_WRONG]
    if not right:
        best = min(known, key=lambda one: trials[one.engine].wrong, default=able[0])
        why = (
            "it makes the fewest mistakes here"
            if known
            else "not measured; the most accurate by default"
        )
        return replace(best, reason=why, passed_over=tuple(passed))
    best = min(right, key=lambda one: trials[one.engine].cpu_s)
    for one in known:
        if one is not best:
            passed.append(f"{one.engine}: {_words(trials[one.engine])}")
    return replace(
        best, reason=f"measured {_words(trials[best.engine])}", passed_over=tuple(passed)
    )


def _words(trial: Trial) -> str:
    return f"{trial.cpu_s:.2f} CPU-s a sample page, {trial.wrong:.2%} of its characters wrong"


# ---------------------------------------------------------------- what was measured


def _trials(able: Sequence[Chosen], figures: Path | None, try_: Try | None) -> dict[str, Trial]:
    """What each did with the sample, from the file or now."""
    kept = load(figures) if figures else {}
    found: dict[str, Trial] = {}
    for one in able:
        stamp = _stamp(one)
        if stamp not in kept and try_ is not None:
            try:
                kept[stamp] = try_(one)
            except Exception as error:  # noqa: BLE001 - one that fails on the sample is not taken
                log.warning("%s could not be measured: %s", one.engine, error)
                kept[stamp] = Trial(0.0, 1.0)
                continue
            if figures:
                save(figures, kept)
        if stamp in kept:
            found[one.engine] = kept[stamp]
    return found


def _stamp(chosen: Chosen) -> str:
    try:
        runtime = version("onnxruntime")
    except PackageNotFoundError:
        runtime = "-"
    return f"{chosen.engine} {chosen.version} {chosen.weights} onnxruntime {runtime}"


def load(path: Path) -> dict[str, Trial]:
    """What is known; nothing where the file cannot be read."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return {}
        return {key: Trial(float(row["cpu_s"]), float(row["wrong"]))
                for key, row in data["trials"].items()}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def save(path: Path, trials: Mapping[str, Trial]) -> None:
    """Keep what was measured."""
    rows = {key: asdict(trial) for key, trial in trials.items()}
    files.write_atomic(path, json.dumps({"format": _FORMAT, "trials": rows}, indent=1) + "\n")
