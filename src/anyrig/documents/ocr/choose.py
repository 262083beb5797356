"""Which engine reads pages: Tesseract on a CPU, RapidOCR on a GPU and for what Tesseract cannot."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from anyrig.documents.ocr import tesseract
from anyrig.documents.ocr.rapid import INSTALL, Rapid
from anyrig.documents.reading import NO_OCR
from anyrig.errors import InvalidInputError, Message, MissingPackageError, OptionRef
from anyrig.placement import Workload
from anyrig.work.engine import EngineFactory

log = logging.getLogger(__name__)
EngineName = Literal["rapidocr", "tesseract"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
_NOT_RAPID = {"ru", "uk", "be", "bg", "sr", "mk", "el", "ar", "he", "hi", "th", "ko", "vi"}
_BETTER_BY_RAPID = {"zh", "ja"}


@dataclass(frozen=True)
class OcrChoice:
    """An engine, with the reason."""

    engine: EngineName
    version: str
    weights: str
    reason: str
    program: tesseract.TesseractProgram | None = None
    use_rapid: bool = False
    """Whether RapidOCR reads the pages that Tesseract has no data for."""
    passed_over: tuple[str, ...] = ()

    def build_factory(self, language: str) -> EngineFactory:
        """How a worker makes it."""
        options: dict[str, Any] = {}
        target = "anyrig.documents.ocr.rapid:Rapid"
        if self.engine == "tesseract":
            target = "anyrig.documents.ocr.tesseract:Tesseract"
            options = {"program": self.program, "language": language, "use_rapid": self.use_rapid}
        return EngineFactory(target, options, f"ocr {self.engine}", self.version)

    def need(self, num_pages: int = 1 << 30) -> Workload:
        """What it asks of a device: on a CPU a process for each core, each a page at a time."""
        return Workload(
            f"OCR with {self.engine}", libraries=("onnx",), worker_bytes=600 << 20,
            gpu=self.engine == "rapidocr", cores=1, max_workers=max(1, num_pages),
        )  # fmt: skip


def choose(
    language: str,
    environment: Mapping[str, str],
    *,
    wanted: str = "auto",
    on_gpu: bool = False,
    more_data: Path | None = None,
) -> OcrChoice:
    """The engine for a language.

    Args:
        language: ISO 639-1; empty if it is unknown.
        environment: this process's own, in which Tesseract is looked for.
        wanted: the engine that was requested, or `auto`.
        on_gpu: whether there is a GPU for it.
        more_data: a folder with Tesseract's data for more languages.
    """
    if wanted == "auto":
        chosen = _choose_best(language, environment, on_gpu, more_data)
    else:
        chosen = _choose_named(wanted, language, environment, more_data)
    log.info("OCR by %s %s: %s", chosen.engine, chosen.version, chosen.reason)
    return chosen


def _choose_best(
    language: str, environment: Mapping[str, str], on_gpu: bool, more_data: Path | None
) -> OcrChoice:
    against_rapid = list(_list_reasons_against_rapid(language))
    against_tesseract = list(
        tesseract.list_reasons_against(language or "en", environment, more_data)
    )
    passed_over = (*against_rapid, *against_tesseract)
    if against_rapid and against_tesseract:
        raise MissingPackageError(
            f"{NO_OCR} that reads {language}" if language else NO_OCR,
            hint=_describe_install(language, passed_over),
        )
    if against_tesseract:
        return _choose_rapid(f"only RapidOCR can: {'; '.join(passed_over)}", passed_over)
    if not against_rapid and on_gpu:
        return _choose_rapid("it is faster on a GPU", passed_over)
    if not against_rapid and language in _BETTER_BY_RAPID:
        return _choose_rapid(f"it is more accurate in {language}", passed_over)
    program = tesseract.find_program(environment, language or "en", more_data)
    if against_rapid:
        return _choose_tesseract(program, f"only Tesseract can: {'; '.join(passed_over)}",
                                 passed_over=passed_over)  # fmt: skip
    reason = "it takes less time than RapidOCR on a CPU"
    if language:
        return _choose_tesseract(program, reason)
    reason += "; RapidOCR reads the languages that it has no data for"
    return _choose_tesseract(program, reason, use_rapid=True)


def _choose_named(
    wanted: str, language: str, environment: Mapping[str, str], more_data: Path | None
) -> OcrChoice:
    if wanted == "rapidocr":
        return _choose_rapid("requested")
    if wanted != "tesseract":
        raise InvalidInputError(
            f"unknown OCR engine {wanted!r}", hint=f"Valid engines: auto, {', '.join(ENGINES)}."
        )
    program = tesseract.find_program(environment, language or "en", more_data)
    if not program.reads(language or "en"):
        raise MissingPackageError(
            tesseract.describe_missing(language, program),
            hint=Message(
                "{install}; or leave {engine} out.",
                install=tesseract.describe_install(language),
                engine=OptionRef("engine"),
            ),
        )
    return _choose_tesseract(program, "requested")


def _choose_rapid(reason: str, passed_over: Sequence[str] = ()) -> OcrChoice:
    if find_spec("rapidocr") is None:
        raise MissingPackageError("RapidOCR needs the package rapidocr", hint=INSTALL)
    return OcrChoice(
        "rapidocr", Rapid.version, Rapid.weights, reason, passed_over=tuple(passed_over)
    )


def _choose_tesseract(
    program: tesseract.TesseractProgram,
    reason: str,
    *,
    use_rapid: bool = False,
    passed_over: Sequence[str] = (),
) -> OcrChoice:
    weights = ",".join([*program.languages, Rapid.weights] if use_rapid else program.languages)
    return OcrChoice("tesseract", program.version, weights, reason, program, use_rapid,
                  tuple(passed_over))  # fmt: skip


def _list_reasons_against_rapid(language: str) -> Sequence[str]:
    if find_spec("rapidocr") is None:
        return ["rapidocr is not installed"]
    return [f"rapidocr's model does not support {language}"] if language in _NOT_RAPID else []


def _describe_install(language: str, reasons: Sequence[str]) -> str:
    if language in _NOT_RAPID:
        code = tesseract.CODES.get(language, language)
        return f"sudo apt install tesseract-ocr tesseract-ocr-{code} ({'; '.join(reasons)})."
    return INSTALL
