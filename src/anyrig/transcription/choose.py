"""Which recogniser hears a language: moonshine for English, Whisper base for the others."""

from __future__ import annotations

from importlib.util import find_spec

from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.transcription.moonshine import Moonshine
from anyrig.transcription.protocol import INSTALL, Recogniser
from anyrig.transcription.whisper import Whisper
from anyrig.work.engine import EngineFactory

ALL: tuple[type[Recogniser], ...] = (Moonshine, Whisper)


def choose(language: str) -> type[Recogniser]:
    """The recogniser of a language; MissingPackageError when it is not installed."""
    code = language.partition("-")[0].lower()
    for kind in ALL:
        if code in kind.languages:
            for module in kind.modules:
                if find_spec(module) is None:
                    raise MissingPackageError(
                        f"{kind.name} needs the package {module}", hint=INSTALL
                    )
            return kind
    raise InvalidInputError(
        f"no speech recognition model supports the language {language!r}",
        hint="Use an ISO 639-1 code that Whisper supports: en, es, fr, de ...",
    )


def recipe(language: str, *, folder: str) -> EngineFactory:
    """How a worker makes the recogniser of a language.

    Args:
        language: ISO 639-1.
        folder: where a model that comes in parts may be put together.
    """
    kind = choose(language)
    return EngineFactory(
        f"{kind.__module__}:{kind.__qualname__}", {"folder": folder}, kind.name, kind.version
    )
