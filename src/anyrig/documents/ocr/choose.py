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
    if wanted not in ("auto", *ENGINES):
        raise InvalidInputError(
            f"unknown OCR engine {wanted!r}", hint=f"Valid engines: auto, {', '.join(ENGINES)}."
        )
    programs = tesseract.find_programs(environment, more_data)
    program = next((one for one in programs if one.reads(language or "en")), None)
    no_rapid = _describe_lack(language)
    no_tesseract = "" if program else tesseract.describe_lack(language or "en", programs)
    passed_over = tuple(filter(None, (no_rapid, no_tesseract)))
    engine: str
    if wanted == "auto":
        if len(passed_over) == len(ENGINES):
            raise MissingPackageError(
                f"{NO_OCR} that reads {language}" if language else NO_OCR,
                hint=_describe_install(language, passed_over),
            )
        engine, reason = _pick(language, no_rapid, no_tesseract, on_gpu=on_gpu)
    else:
        engine, reason, passed_over = wanted, "requested", ()
    if engine == "rapidocr":
        if find_spec("rapidocr") is None:
            raise MissingPackageError("RapidOCR needs the package rapidocr", hint=INSTALL)
        chosen = OcrChoice(
            "rapidocr", Rapid.version, Rapid.weights, reason, passed_over=passed_over
        )
    elif program is None:
        raise _build_missing_error(language, programs, no_tesseract)
    else:
        use_rapid = wanted == "auto" and not language and not no_rapid
        weights = ",".join([*program.languages, Rapid.weights] if use_rapid else program.languages)
        chosen = OcrChoice(
            "tesseract", program.version, weights, reason, program, use_rapid, passed_over
        )
    log.info("OCR by %s %s: %s", chosen.engine, chosen.version, chosen.reason)
    return chosen


def _pick(
    language: str, no_rapid: str, no_tesseract: str, *, on_gpu: bool
) -> tuple[EngineName, str]:
    """The better engine, and why; one of them cannot be used where a reason is given."""
    if no_tesseract:
        return "rapidocr", f"only RapidOCR can: {no_tesseract}"
    if no_rapid:
        return "tesseract", f"only Tesseract can: {no_rapid}"
    if on_gpu:
        return "rapidocr", "it is faster on a GPU"
    if language in _BETTER_BY_RAPID:
        return "rapidocr", f"it is more accurate in {language}"
    reason = "it takes less time than RapidOCR on a CPU"
    if not language:
        reason += "; RapidOCR reads the languages that it has no data for"
    return "tesseract", reason


def _describe_lack(language: str) -> str:
    """Why RapidOCR cannot read a language here; empty where it can."""
    if find_spec("rapidocr") is None:
        return "rapidocr is not installed"
    return f"rapidocr's model does not support {language}" if language in _NOT_RAPID else ""


def _build_missing_error(
    language: str, programs: Sequence[tesseract.TesseractProgram], lack: str
) -> MissingPackageError:
    if not programs:
        return MissingPackageError("Tesseract is not installed", hint=f"{tesseract.INSTALL}.")
    hint = Message(
        "{install}; or leave {engine} out.",
        install=tesseract.describe_install(language),
        engine=OptionRef("engine"),
    )
    return MissingPackageError(lack, hint=hint)


def _describe_install(language: str, reasons: Sequence[str]) -> str:
    if language in _NOT_RAPID:
        code = tesseract.CODES.get(language, language)
        return f"sudo apt install tesseract-ocr tesseract-ocr-{code} ({'; '.join(reasons)})."
    return INSTALL
