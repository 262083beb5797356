"""Which engine speaks a text: the named one, one that has the voices, the best for the language.

Engines are looked up once per request and state of their folders (`EngineCatalog`); choosing is a
function of what is installed. Among engines that speak a language the best sounding one is chosen.
Weights whose licence restricts their use are left to the end: they are chosen only if no other
installed engine speaks the language.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from anyrig import plugins
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.speech import engines
from anyrig.speech.engine import (
    EngineInfo,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    resolve_options,
)
from anyrig.speech.environments import Environment
from anyrig.storage.weights import HASHES_FILE

TEST_ENGINE = "tone"
"""It speaks no language: it is never offered."""
_RESTRICTED_LICENCES = ("CPML", "-NC", "non-commercial", "bilibili")


class EngineReason(Enum):
    """Why an engine was chosen."""

    REQUESTED = "requested"
    DEFAULT = "default"
    MODEL = "model"
    """The settings name its model."""
    VOICES = "voices"
    """It has the requested voices."""
    LANGUAGE = "language"
    """The default engine does not speak the language."""
    NOT_INSTALLED = "not_installed"
    """The default engine is not installed."""


@dataclass(frozen=True)
class EngineChoice:
    """An engine that is ready to speak."""

    name: str
    engine_class: type[SpeechEngine]
    weights: EngineWeights
    options: dict[str, OptionValue]
    reason_code: EngineReason = EngineReason.DEFAULT
    reason: str = ""
    """The same for a person; empty if there is nothing to explain."""

    @property
    def info(self) -> EngineInfo:
        return self.engine_class.info

    @property
    def requested(self) -> bool:
        """Whether the user named it."""
        return self.reason_code is EngineReason.REQUESTED


# -- what is installed -----------------------------------------------------------------------------


class WeightsCache:
    """Weights as last found, for as long as their files and the installed packages are the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, EngineWeights | AnyrigError]] = {}

    def clear(self) -> None:
        self._known.clear()

    def find(self, engine: type[SpeechEngine], folder: Path | None, home: Path) -> EngineWeights:
        """The weights of an engine, with the interpreter of its environment if it has one.

        Args:
            engine: its class.
            folder: of its weights; None if a package holds them.
            home: the folder of all environments.
        """
        key = (engine.info.name, str(folder or ""))
        folders = [folder, folder / "voices"] if folder else []
        folders += [home / engine.info.name] if engine.environment else []
        state = (engine, plugins.read_import_state(), *map(_list_files, folders))
        known = self._known.get(key)
        if known is None or known[0] != state:
            known = self._known[key] = (state, _find(engine, folder, home))
        if isinstance(known[1], AnyrigError):
            raise _copy_error(known[1])
        return known[1]


def _find(
    engine: type[SpeechEngine], folder: Path | None, home: Path
) -> EngineWeights | AnyrigError:
    try:
        if engine.environment is None:
            return engine.find_weights(folder)
        environment = Environment(engine.info.name, engine.environment, home)
        stamp = environment.require()
        weights = engine.find_weights(folder)
        return replace(
            weights,
            version=f"{weights.version}/{environment.versions}",
            interpreter=environment.interpreter(engine),
            torch_flavour=stamp.kind,
        )
    except AnyrigError as error:
        return error


def _list_files(folder: Path) -> tuple[object, ...]:
    """What changes with the files of a folder, but for those that looking writes."""
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.is_file() and entry.name != HASHES_FILE]
            stats = [(entry.name, entry.stat()) for entry in files]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


def _copy_error(error: AnyrigError) -> AnyrigError:
    """A fresh one to raise: callers add to the hint."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


Find = Callable[[str], EngineWeights]
"""Finds the weights of an engine by its name, or raises why it cannot be used."""


class EngineCatalog:
    """The engines as one request sees them.

    Args:
        find: called once for each engine that is looked at.
        options: of the engine, as the user gave them.
    """

    def __init__(self, find: Find, options: Mapping[str, object] | None = None) -> None:
        self._find, self._options = find, dict(options or {})
        self._opened: dict[str, EngineChoice | AnyrigError] = {}

    def open(self, name: str) -> EngineChoice:
        """An engine that is ready; raises why it is not."""
        if name not in self._opened:
            try:
                self._opened[name] = self._open(name)
            except AnyrigError as error:
                self._opened[name] = error
        found = self._opened[name]
        if isinstance(found, AnyrigError):
            raise _copy_error(found)
        return found

    def try_open(self, name: str) -> EngineChoice | None:
        try:
            return self.open(name)
        except AnyrigError:
            return None

    def without_options(self) -> EngineCatalog | None:
        """The same engines with their own options; None if this is that catalog."""
        return EngineCatalog(self._find) if self._options else None

    def _open(self, name: str) -> EngineChoice:
        engine = engines.engine_class(name)
        values = resolve_options(
            engine.info, {key: str(value) for key, value in self._options.items()}
        )
        return EngineChoice(name, engine, self._find(name), values)


# -- choosing --------------------------------------------------------------------------------------


def choose_by_language(catalog: EngineCatalog, language: str) -> EngineChoice:
    """The default engine if it speaks the language or the language is unknown; else the best that
    is installed; else the default all the same, which then says what it lacks.
    """
    from anyrig.errors import MissingPackageError
    from anyrig.speech.language import match_language, name_language

    default: EngineChoice | None = None
    try:
        default = catalog.open(engines.DEFAULT)
    except MissingPackageError:
        if not language:
            raise
    if default is not None and (
        not language or match_language(language, default.weights.languages)
    ):
        return default
    for name in rank_engines(language):
        other = catalog.try_open(name) if name != engines.DEFAULT else None
        if other is not None and match_language(language, other.weights.languages):
            if default is None:
                reason = f"{engines.DEFAULT} is not installed"
                return replace(other, reason_code=EngineReason.NOT_INSTALLED, reason=reason)
            reason = f"{engines.DEFAULT} does not speak {name_language(language)}"
            return replace(other, reason_code=EngineReason.LANGUAGE, reason=reason)
    return default or catalog.open(engines.DEFAULT)


def choose_by_voices(catalog: EngineCatalog, voices: Sequence[str]) -> EngineChoice:
    """The engine that has all of some voices; the default comes before the others."""
    from anyrig.speech.voices import unknown_voice_error

    requested = list(dict.fromkeys(part for voice in voices for part in split_blend(voice)))
    known: list[str] = []
    for name in _list_default_first():
        choice = catalog.try_open(name)
        if choice is None:
            continue
        own = [voice.name for voice in choice.weights.voices]
        if set(requested) <= set(own):
            if name == engines.DEFAULT:
                return choice
            reason = f"it has {', '.join(requested)}"
            return replace(choice, reason_code=EngineReason.VOICES, reason=reason)
        known += own if name != TEST_ENGINE else []
    if plain := catalog.without_options():
        # Opened again, the engine that has the voices says which option it does not have.
        return catalog.open(choose_by_voices(plain, voices).name)
    missing = next((part for part in requested if part not in known), "")
    if missing:
        raise unknown_voice_error(
            missing, known, more="`anyrig engines` lists engines with more voices."
        )
    raise InvalidInputError(
        f"no engine has all of these voices: {', '.join(requested)}",
        hint="`anyrig voices` lists the voices of each engine; one engine reads a whole text.",
    )


def _list_default_first() -> Iterator[str]:
    """The default engine is tried before plugins are looked for."""
    yield engines.DEFAULT
    yield from (name for name in engines.list_names() if name != engines.DEFAULT)


def rank_engines(language: str, *, known: bool = False) -> list[str]:
    """Engines that speak a language, the best first; or may, depending on their weights, unless
    the language must be `known`.
    """
    base = language.partition("-")[0].lower()
    found = [
        (is_restricted(info), -info.quality, name)
        for name, info in list_infos()
        if base in info.languages or (not info.languages and not known)
    ]
    return [name for _, _, name in sorted(found, key=lambda one: one[:2])]


def is_restricted(info: EngineInfo) -> bool:
    """Whether the licence of the weights restricts what may be done with them."""
    return any(word in info.weights_licence for word in _RESTRICTED_LICENCES)


def describe_restriction(info: EngineInfo) -> str:
    """What a person is shown before the weights are downloaded or used; empty if they are free."""
    if not is_restricted(info):
        return ""
    return info.licence_notice or f"The weights of {info.name} are under: {info.weights_licence}."


def list_infos() -> Iterator[tuple[str, EngineInfo]]:
    """Engines that may be chosen or offered."""
    for name in engines.list_names():
        try:
            info = engines.engine_class(name).info
        except AnyrigError:
            continue
        if not info.cloud and name != TEST_ENGINE:
            yield name, info


def find_engine_of_repository(repository: str, infos: Iterable[tuple[str, EngineInfo]]) -> str:
    """The engine whose weights have this name on the model hub; empty if there is none."""
    name = repository.lower()
    return next((one for one, info in infos if info.repository.lower() == name), "")


def split_blend(voice: str) -> list[str]:
    """The names in a blend such as `af_heart:2+am_michael`."""
    return [part.partition(":")[0].strip() for part in voice.split("+")]
