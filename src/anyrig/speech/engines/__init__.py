"""The speech engines by name. Importing one of their files loads no framework."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from anyrig import plugins
from anyrig.errors import InvalidInputError
from anyrig.speech.engine import (
    EngineInfo,
    OptionValue,
    SpeechEngine,
    list_memory_options,
    resolve_options,
)

if TYPE_CHECKING:
    from anyrig.placement import Placement

GROUP = "anyrig.speech"
# The first is the default; the others in the order in which they are offered to a person.
OWN: dict[str, str] = {
    "hibari": "anyrig.speech.engines.hibari:Hibari",
    "kokoro": "anyrig.speech.engines.kokoro:Kokoro",
    "piper": "anyrig.speech.engines.piper:Piper",
    "nanotts": "anyrig.speech.engines.nanotts:NanoTts",
    "vits": "anyrig.speech.engines.vits:Vits",
    "vibevoice": "anyrig.speech.engines.vibevoice:VibeVoice",
    "vibevoice-realtime": "anyrig.speech.engines.vibevoice_realtime:VibeVoiceRealtime",
    "xtts": "anyrig.speech.engines.xtts:Xtts",
    "indextts": "anyrig.speech.engines.indextts:IndexTts",
    "indextts2": "anyrig.speech.engines.indextts:IndexTts2",
    "tone": "anyrig.speech.engines.tone:Tone",
}
DEFAULT = "hibari"
REMOVED: dict[str, str] = {
    "pocket": "Use kokoro, or xtts to clone a voice.",
    "chatterbox": "Use xtts or indextts to clone a voice.",
    "qwen-tts": "Use kokoro, or vibevoice on a GPU.",
}
"""Engines of earlier releases, and what to use instead; a plugin may bring one back."""


def list_names() -> tuple[str, ...]:
    """Every engine, plugins included."""
    return plugins.list_names(OWN, GROUP)


def engine_class(name: str) -> type[SpeechEngine]:
    """The engine of a name."""
    if name in REMOVED and name not in list_names():
        raise InvalidInputError(
            f"the engine {name} is not part of this release",
            hint=f"{REMOVED[name]} A plugin can add it: see `Write an engine` in docs/engines.md.",
        )
    found = plugins.load_class(name, OWN, GROUP)
    if not isinstance(getattr(found, "info", None), EngineInfo):
        raise InvalidInputError(
            f"the plugin {name} is not a speech engine: it has no `info`",
            hint="See `Write an engine` in docs/engines.md.",
        )
    return cast("type[SpeechEngine]", found)


def load_engine(
    placement: Placement,
    *,
    engine: str,
    folder: str = "",
    options: dict[str, OptionValue] | None = None,
) -> SpeechEngine:
    """An engine, loaded into a placement; `engine` is its name, or `module:Class` in an environment
    where plugins are not installed (`describe_engine`).
    """
    found: type[SpeechEngine]
    if ":" in engine:
        module, _, attribute = engine.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    else:
        found = engine_class(engine)
    values = resolve_options(found.info, options or {})
    loaded = found(placement, folder=folder, **values)
    if not loaded.memory_options:
        loaded.memory_options = list_memory_options(found, placement, values)
    return loaded


def describe_engine(engine: type[SpeechEngine], name: str) -> str:
    """What `load_engine` takes in a worker of this engine."""
    return f"{engine.__module__}:{engine.__qualname__}" if engine.environment else name
