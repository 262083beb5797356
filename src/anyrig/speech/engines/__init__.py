"""The speech engines by name. Importing one of their files loads no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

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
    "xtts": "anyrig.speech.engines.hosted:Xtts",
    "indextts": "anyrig.speech.engines.hosted:IndexTts",
    "vibevoice-realtime": "anyrig.speech.engines.hosted:VibeVoiceRealtime",
    "tone": "anyrig.speech.engines.tone:Tone",
}
DEFAULT = "hibari"


def names() -> tuple[str, ...]:
    """Every engine, plugins included."""
    return plugins.list_names(OWN, GROUP)


def engine_class(name: str) -> type[SpeechEngine]:
    """The engine of a name."""
    found = plugins.load_class(name, OWN, GROUP)
    if not isinstance(getattr(found, "info", None), EngineInfo):
        raise InvalidInputError(
            f"the plugin {name} is not a speech engine: it has no `info`",
            hint="See `Write an engine` in docs/engines.md.",
        )
    return cast("type[SpeechEngine]", found)


def make(
    placement: Placement,
    *,
    engine: str,
    folder: str = "",
    environment: str = "",
    options: dict[str, OptionValue] | None = None,
) -> SpeechEngine:
    """An engine, loaded into a placement; `environment` is `EngineWeights.environment`."""
    found: Any = engine_class(engine)
    own = {"environment": environment} if environment else {}
    given = resolve_options(found.info, options or {})
    made = cast(SpeechEngine, found(placement, folder=folder, **own, **given))
    if not made.memory_options:
        made.memory_options = list_memory_options(found.info, placement, given, hosted=found.hosted)
    return made
