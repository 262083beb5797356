"""What the work with documents needs beside the default install: is it there, and how to get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anyrig.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Mapping

FeatureName = Literal["ocr", "transcription", "names"]


@dataclass(frozen=True)
class Feature:
    name: FeatureName
    installed: bool
    reason: str = ""
    """What is missing; empty if it is installed."""
    fix: str = ""
    """The command that installs it."""


def list_features(environment: Mapping[str, str], language: str = "en") -> list[Feature]:
    """OCR, transcription and the finding of names in a language, each installed or not.

    Args:
        environment: of this process, in which programs are looked for.
        language: ISO 639-1.
    """
    from anyrig.documents.entities import names
    from anyrig.documents.ocr import choose as ocr
    from anyrig.recognise.choose import choose as choose_recogniser

    found = []
    try:
        ocr.choose(language, environment)
        found.append(Feature("ocr", True))
    except MissingPackageError as error:
        found.append(Feature("ocr", False, error.message, error.hint))
    try:
        choose_recogniser(language)
        found.append(Feature("transcription", True))
    except MissingPackageError as error:
        found.append(Feature("transcription", False, error.message, error.hint))
    namer = names.choose()
    if namer is not None and namer.reads(language):
        found.append(Feature("names", True))
    else:
        reason = f"no model that finds names in {language!r} is installed"
        found.append(Feature("names", False, reason, _format_names_fix(language)))
    return found


def _format_names_fix(language: str) -> str:
    """The commands that install a model that finds names; empty for a language without one."""
    from anyrig.documents.entities.engines.spacy_names import INSTALL, is_there
    from anyrig.documents.entities.names import OFFERED

    offered = [one.install for one in OFFERED if one.language == language]
    if not offered:
        return ""
    first = [] if is_there("spacy") or offered[0] == INSTALL else [INSTALL]
    return " && ".join([*first, offered[0]])
