"""Who speaks: the engine, its weights and its voice; and the way out where none can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    MissingPackageError,
    MissingWeightsError,
    UnspeakableTextError,
)
from anyrig.install import localize_install_commands
from anyrig.speech import engines
from anyrig.speech.protocol import Found, Spec, SpeechEngine, Value, options_of

if TYPE_CHECKING:
    from anyrig.errors import UnsupportedLanguageError

_LOOKED_AT = 20_000  # characters of a text, to tell its language by
_RESTRICTED = ("GPL", "CPML", "-NC", "non-commercial", "bilibili")
_MOST_TOLD = 4
TRIAL = "tone"
"""It speaks no language: nobody is offered it."""


@dataclass(frozen=True)
class Chosen:
    """An engine that was found ready to speak."""

    name: str
    kind: type[SpeechEngine]
    found: Found
    options: dict[str, Value]
    asked: bool
    """Whether the person named it."""
    why: str = ""
    """Why it is another than the default, where the person named none."""

    @property
    def spec(self) -> Spec:
        """What it is."""
        return self.kind.spec


def language_of(context: Context, text: str) -> str:
    """The text's language, as told or as found, to choose an engine by; empty when unsure."""
    asked = context.options.language or context.loaded.settings.speech.language
    if asked != "auto":
        return str(asked)
    from anyrig.text.language import detect

    return detect(text[:_LOOKED_AT]).language


def is_told(context: Context) -> bool:
    """Whether the language was named, and not left to be found out."""
    return bool((context.options.language or context.loaded.settings.speech.language) != "auto")


def chosen(context: Context, language: str = "") -> Chosen:
    """The engine that was asked for; else one that has the voice; else one for the language."""
    asked = named_engine(context)
    if asked:
        return _ready(context, asked, asked=True)
    voice = getattr(context.options, "voice", None)
    if voice:
        return _with_voice(context, str(voice))
    hub = _engine_of(str(context.loaded.settings.speech.model or ""))
    if hub and (found := _if_ready(context, hub)) is not None:
        return replace(found, why=f"its model is {found.spec.repository}")
    return _of_language(context, language)


def named_engine(context: Context) -> str:
    """The engine of --engine or of the settings; one of the settings that nobody knows is not."""
    if flag := getattr(context.options, "engine", None):
        return str(flag)
    name: str = context.loaded.settings.speech.engine
    if not name or name in engines.names():
        return name
    import difflib

    near = difflib.get_close_matches(name, engines.names(), n=1)
    fix = f"Did you mean {near[0]}? " if near else ""
    context.warn_once(
        f"{_origin(context, 'speech.engine')} names the engine {name!r}, which does not exist: "
        f"the default one speaks. {fix}`anyrig engines` lists them."
    )
    return ""


def check_settings(context: Context) -> None:
    """Warn of an engine, a model or a voice of the settings that is not there."""
    named_engine(context)
    _model_setting(context)
    try:
        voice_of(context, chosen(context))
    except AnyrigError as error:
        context.warn_once(f"{error.message}: there is no default voice. {error.hint}")


def _origin(context: Context, key: str) -> str:
    """What a setting was given by: a variable's name, or a file and the key in it."""
    kind, place = context.loaded.origins.get(key, ("default", ""))
    return place if kind == "environment" else f"{key} in {place}" if place else key


def _of_language(context: Context, language: str) -> Chosen:
    from anyrig.speech.tongues import matched, title

    try:
        first = _ready(context, engines.DEFAULT, asked=False)
    except MissingPackageError:
        if not language:
            raise
        first = None
    if first is not None and (not language or matched(language, first.found.languages)):
        return first
    for name in _permissive_first(language):
        if name == engines.DEFAULT:
            continue
        other = _if_ready(context, name)
        if other is not None and matched(language, other.found.languages):
            lack = f"does not speak {title(language)}" if first else "is not installed"
            return replace(other, why=f"{engines.DEFAULT} {lack}")
    return first or _ready(context, engines.DEFAULT, asked=False)


def with_voices(context: Context, voices: Sequence[str]) -> Chosen:
    """The engine that has all of some voices, the default before the others."""
    from anyrig.speech.voices import unknown

    wanted = [part for voice in voices for part in blended(voice)]
    known: list[str] = []
    for name in (engines.DEFAULT, *(n for n in engines.names() if n != engines.DEFAULT)):
        found = _if_ready(context, name)
        if found is None:
            continue
        own = [each.name for each in found.found.voices]
        if all(part in own for part in wanted):
            told = ", ".join(dict.fromkeys(wanted))
            return found if name == engines.DEFAULT else replace(found, why=f"it has {told}")
        known += own if name != TRIAL else []
    strange = next((part for part in wanted if part not in known), "")
    if strange:
        raise unknown(strange, known, more="`anyrig engines` says how to get more of them.")
    raise InvalidInputError(
        f"no engine has all of these voices: {', '.join(dict.fromkeys(wanted))}",
        hint="`anyrig voices` lists the voices of each; one engine reads a whole text.",
    )


def _with_voice(context: Context, voice: str) -> Chosen:
    """The engine that has a voice of that name; a recording needs an engine that was named."""
    if Path(voice).is_file():
        raise InvalidInputError(
            f"{voice} is a recording, and no engine was named that speaks in its voice",
            hint="Name one with --engine; `anyrig engines` lists them.",
        )
    return with_voices(context, [voice])


def blended(voice: str) -> list[str]:
    """The names in a blend such as `af_heart:2+am_michael`."""
    return [part.partition(":")[0].strip() for part in voice.split("+")]


def checked_voice(voice: str, chosen: Chosen, *, files: bool = True) -> str:
    """A voice's name, or a blend of several; for an engine that clones, a recording's path.

    Anything else is an error; so is a path, without `files`.
    """
    from anyrig.speech.voices import unknown

    known = [each.name for each in chosen.found.voices]
    if (files and not known) or voice in known:
        return voice
    if files and Path(voice).is_file():
        return _recording(voice, chosen)
    for name in blended(voice):
        if name not in known:
            raise unknown(name, known)
    return voice


def _recording(voice: str, chosen: Chosen) -> str:
    from anyrig.speech.hosting.engine import Hosted

    if issubclass(chosen.kind, Hosted) and chosen.kind.clones:
        return voice
    raise InvalidInputError(
        f"{voice} is a recording, and {chosen.name} takes voices by their names",
        hint=f"`anyrig voices --engine {chosen.name}` lists them; `anyrig engines show "
        f"{chosen.name}` says whether recordings can become some.",
    )


def voice_of(context: Context, chosen: Chosen) -> str:
    """The voice that was asked for; the setting's only where it is one of this engine's."""
    if context.options.voice:
        return checked_voice(str(context.options.voice), chosen)
    saved: str = context.loaded.settings.speech.voice
    if not saved or any(voice.name == saved for voice in chosen.found.voices):
        return saved
    others = (_if_ready(context, name) for name in engines.names())
    if not any(voice.name == saved for one in others if one for voice in one.found.voices):
        context.warn_once(
            f"{_origin(context, 'speech.voice')} names the voice {saved!r}, which no installed "
            "engine has: the default voice speaks. `anyrig voices` lists them."
        )
    return ""


# ---------------------------------------------------------------- what is on this machine


def settings_of(pairs: list[str]) -> dict[str, str]:
    """`--set key=value` as a mapping."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise InvalidInputError(
                f"--set {pair} is no key=value", hint="Such as --set noise=0.5."
            )
        found[key.strip()] = value.strip()
    return found


def _ready(context: Context, name: str, *, asked: bool) -> Chosen:
    kind = engines.engine_class(name)
    given = settings_of(getattr(context.options, "set", None) or [])
    options = options_of(kind.spec, given)
    there = found(context, name, kind)
    there = replace(there, voices=kind.voices_with(there, options))
    return Chosen(name, kind, there, options, asked)


def _if_ready(context: Context, name: str) -> Chosen | None:
    try:
        return _ready(context, name, asked=False)
    except AnyrigError:
        return None


def found(context: Context, name: str, kind: type[SpeechEngine]) -> Found:
    """An engine's weights on this machine; the error for none names the folder to fill."""
    from anyrig.speech.hosting.engine import Hosted

    folder = folder_of(context, name)
    try:
        if issubclass(kind, Hosted):
            return kind.find(folder, environments=context.folders.environments)
        try:
            return kind.find(folder)
        except (InvalidInputError, MissingWeightsError):
            # A folder of the settings belongs to one engine, and this may be another.
            if folder is None or getattr(context.options, "model", None):
                raise
            if name == named_engine(context):
                raise
            return kind.find(_fetched(context, name))
    except MissingWeightsError as error:
        if folder is None:
            error.hint += f" Their folder is {own_folder(context, name)}."
        raise


def own_folder(context: Context, name: str) -> Path:
    """Where anyrig keeps an engine's weights, whether it is there or not."""
    return context.folders.models / name


def folder_of(context: Context, name: str) -> Path | None:
    """Where an engine's weights lie, if not in a package: as asked, or where they were fetched."""
    if asked := getattr(context.options, "model", None):
        path = Path(asked).expanduser()
        if not path.is_dir():
            raise InvalidInputError(
                f"no folder {path}", hint="--model names a folder with weights in it."
            )
        return path
    return _model_setting(context) or _fetched(context, name)


def _fetched(context: Context, name: str) -> Path | None:
    folder = own_folder(context, name)
    return folder if folder.is_dir() else None


def _model_setting(context: Context) -> Path | None:
    """The folder of the settings; one that is not there is a warning, and the default speaks."""
    model = str(context.loaded.settings.speech.model or "")
    if not model:
        return None
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    name = _engine_of(model)
    if name and _fetched(context, name) is not None:
        return None
    fix = f"`anyrig engines get {name}` fetches that model." if name else (
        "Name a folder with weights in it; `anyrig engines` lists what can be fetched."
    )  # fmt: skip
    context.warn_once(
        f"{_origin(context, 'speech.model')} names the model {model}, which is not on this "
        f"machine: the default voice speaks. {fix}"
    )
    return None


def _engine_of(model: str) -> str:
    """The engine whose weights have this name on the model hub."""
    if "/" not in model:
        return ""
    return next((name for name, spec in _specs() if spec.repository.lower() == model.lower()), "")


# ---------------------------------------------------------------- what could be had


def refusal(
    context: Context, error: UnsupportedLanguageError, chosen: Chosen, *, insist: str = ""
) -> UnspeakableTextError:
    """Why a text is not read, with the way to an engine that can: permissive ones first.

    `insist` says how to have it read all the same; naming the language when it is empty.
    """
    from anyrig.speech.tongues import title

    language = error.language
    own = chosen.found.languages[0] if chosen.found.languages else "en"
    insist = insist or f"If that is wrong: --language {own}."
    speakers = [name for name in _permissive_first(language, said=True) if name != chosen.name]
    if not speakers:
        hint = f"No engine of anyrig speaks {title(language)}. {insist}"
        return UnspeakableTextError(error.message, hint=hint)
    hint = _offer(context, speakers[0], language)
    if len(speakers) > 1:
        hint += f" So do {', '.join(speakers[1:_MOST_TOLD])}."
    return UnspeakableTextError(error.message, hint=f"{hint} {insist}")


def _offer(context: Context, name: str, language: str) -> str:
    """An engine that speaks a language, and what is to be typed until it does so here."""
    from anyrig.speech.tongues import matched

    spec = engines.engine_class(name).spec
    licence = spec.weights_licence or spec.code_licence
    here = _if_ready(context, name)
    if here is not None and matched(language, here.found.languages):
        return f"{name} ({licence}) does, and is installed: --engine {name}."
    steps = [localize_install_commands(spec.install)]
    if spec.weights and spec.repository:
        steps.append(f"anyrig engines get {name}")
    elif spec.weights:  # nothing fetches them
        steps.append(f"its weights, as `anyrig engines show {name}` says")
    return f"{name} ({licence}) does: {', then '.join(filter(None, steps))}, then --engine {name}."


def _permissive_first(language: str, *, said: bool = False) -> list[str]:
    """Engines that speak a language, or may by their weights: free licences first.

    Args:
        language: what must be spoken.
        said: leave out those that say nothing of languages.
    """
    base = language.partition("-")[0].lower()
    pairs = [
        (is_restricted(spec, code=True), name)
        for name, spec in _specs()
        if base in spec.languages or (not spec.languages and not said)
    ]
    return [name for _, name in sorted(pairs, key=lambda pair: pair[0])]


def is_restricted(spec: Spec, *, code: bool = False) -> bool:
    """Whether the weights, or the code as well, are under a licence that binds who uses them."""
    licences = f"{spec.weights_licence} {spec.code_licence if code else ''}"
    return any(word in licences for word in _RESTRICTED)


def _specs() -> Iterator[tuple[str, Spec]]:
    for name in engines.names():
        try:
            spec = engines.engine_class(name).spec
        except AnyrigError:
            continue
        if not spec.cloud and name != TRIAL:
            yield name, spec
