"""Speech engines of this machine: which one speaks a text, and what could be installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingSampleError,
    MissingVoiceError,
    MissingWeightsError,
    OptionRef,
    UnspeakableTextError,
)
from anyrig.events import FasterVoice
from anyrig.install import localize_install_commands
from anyrig.options import Request, option
from anyrig.speech import engines
from anyrig.speech.choose import (
    EngineCatalog,
    EngineChoice,
    EngineReason,
    choose_by_language,
    choose_by_voices,
    find_engine_of_repository,
    list_infos,
    rank_engines,
    split_blend,
)
from anyrig.speech.engine import EngineInfo, EngineWeights, SpeechEngine, Voice
from anyrig.speech.voices import is_recording
from anyrig.storage.weights import find_cached_repository
from anyrig.text.language_names import language_code
from anyrig.units import format_download

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.errors import UnsupportedLanguageError

_DETECTION_CHARACTERS = 20_000
_MAX_SUGGESTIONS = 4
_SLOW_FACTOR, _FASTER_TIMES = 0.2, 5
"""Slow is an engine with this `real_time_factor`; one is far faster that takes so much less."""


@dataclass(frozen=True, kw_only=True)
class VoiceOptions(Request):
    """The voice."""

    engine: str = option(
        "", "speech engine; `anyrig engines` lists them", setting="speech.engine", fill=False,
        metavar="NAME",
    )  # fmt: skip
    voice: str = option(
        "", "voice; `anyrig voices` lists them; a:2+b blends two", setting="speech.voice",
        fill=False, metavar="NAME",
    )  # fmt: skip
    model: Path | None = option(
        None, "folder with the engine's weights", setting="speech.model", fill=False,
        metavar="FOLDER",
    )  # fmt: skip
    language: str = option(
        "auto", "language of the text, such as en, es or fr; auto detects it",
        setting="speech.language", normalize=language_code, metavar="CODE",
    )  # fmt: skip
    rate: float = option(
        1.0, "speaking rate; 2 is twice as fast", ge=0.25, le=4, setting="speech.rate"
    )
    seed: int = option(0, "random seed; another number gives another take", ge=0)
    set: Mapping[str, Any] = option(
        {}, "an option of the engine; `anyrig engines show NAME` lists them"
    )
    lexicon: Path | None = option(
        None, "lexicon file with pronunciations", setting="speech.lexicon", upload=True,
        metavar="FILE",
    )  # fmt: skip


EngineState = Literal[
    "ready", "needs extra", "needs environment", "needs weights", "needs voice", "broken"
]


@dataclass(frozen=True)
class EngineStatus:
    """Whether an engine can be used on this machine."""

    info: EngineInfo
    state: EngineState
    problem: str = ""
    fix: str = ""
    voices: tuple[Voice, ...] = ()
    languages: tuple[str, ...] = ()
    has_environment: bool = False
    """Whether it runs in an environment of its own."""
    unusable: tuple[str, ...] = ()
    """Voices that cannot be used, each with the reason."""

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"


def detect_language(text: str, options: VoiceOptions) -> str:
    """The text's language, as given or as detected, to choose an engine by; empty if unsure."""
    if options.language != "auto":
        return options.language
    from anyrig.text.language import detect

    return detect(text[:_DETECTION_CHARACTERS]).language


def choose_engine(
    rig: Rig, options: VoiceOptions, language: str = "", catalog: EngineCatalog | None = None
) -> EngineChoice:
    """The requested engine; else one that has the voice; else the best for the language.

    A catalog that was used for the same request before is not filled again.
    """
    catalog = catalog or open_catalog(rig, options)
    requested = find_requested_engine(rig, options)
    if requested:
        return replace(catalog.open(requested), reason_code=EngineReason.REQUESTED)
    if options.voice:
        if is_recording(options.voice):
            raise InvalidInputError(
                f"{options.voice} is a recording, and no engine was named that can clone it",
                hint=Message(
                    "Pass {engine}; `anyrig engines` lists them.", engine=OptionRef("engine")
                ),
            )
        return choose_by_voices(catalog, [options.voice])
    engine = _engine_of_model(rig.settings.speech.model)
    if engine and (choice := catalog.try_open(engine)) is not None:
        reason = f"its model is {choice.info.repository}"
        return replace(choice, reason_code=EngineReason.MODEL, reason=reason)
    return choose_by_language(catalog, language)


def choose_engine_with_voices(
    rig: Rig, options: VoiceOptions, voices: Sequence[str]
) -> EngineChoice:
    """The engine that has all of some voices; the default comes before the others."""
    return choose_by_voices(open_catalog(rig, options), voices)


def open_catalog(rig: Rig, options: VoiceOptions) -> EngineCatalog:
    return EngineCatalog(
        lambda name: find_weights(rig, options, name, engines.engine_class(name)), options.set
    )


def find_requested_engine(rig: Rig, options: VoiceOptions) -> str:
    """The engine that the request or the settings name; unknown ones in settings are warned of."""
    if options.engine:
        return options.engine
    name: str = rig.settings.speech.engine
    if not name or name in engines.list_names():
        return name
    import difflib

    near = difflib.get_close_matches(name, engines.list_names(), n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    rig.warn(
        f"{rig.describe_origin('speech.engine')}: unknown engine {name!r}; using the default."
        f" {guess}`anyrig engines` lists them."
    )
    return ""


def check_speech_settings(rig: Rig, options: VoiceOptions) -> None:
    """Warn about an engine, a model or a voice in the settings that does not exist."""
    find_requested_engine(rig, options)
    _find_model_setting(rig)
    try:
        resolve_voice(rig, options, choose_engine(rig, options))
    except AnyrigError as error:
        rig.warn(
            Message(
                "{problem}: there is no default voice. {hint}",
                problem=error.message,
                hint=error.hint,
            )
        )


# -- voices ----------------------------------------------------------------------------------------


def check_voice(voice: str, choice: EngineChoice, *, files: bool = True) -> str:
    """Check the name of a voice, a blend, or, for an engine that clones, the path of a recording
    if `files` are allowed.
    """
    from anyrig.speech.voices import unknown_voice_error

    known = [each.name for each in choice.weights.voices]
    if (files and not known) or voice in known:
        return voice
    if files and is_recording(voice) and Path(voice).is_file():
        if choice.engine_class.clones:
            return voice
        raise InvalidInputError(
            f"{voice} is a recording, and {choice.name} has no voice from a file",
            hint=f"`anyrig voices --engine {choice.name}` lists its voices; `anyrig engines show"
            f" {choice.name}` says how to add one.",
        )
    for name in split_blend(voice):
        if name not in known:
            raise unknown_voice_error(name, known)
    return voice


def resolve_voice(rig: Rig, options: VoiceOptions, choice: EngineChoice) -> str:
    """The requested voice; that of the settings only if this engine has it; else empty.

    A voice in the settings that the engine of the settings lacks is warned of. It says nothing
    about an engine that the request names, or that the language of a text needs.
    """
    if options.voice:
        return check_voice(options.voice, choice)
    saved: str = rig.settings.speech.voice
    if not saved or any(voice.name == saved for voice in choice.weights.voices):
        return saved
    if not options.engine and choice.reason_code is not EngineReason.LANGUAGE:
        rig.warn(
            f"{rig.describe_origin('speech.voice')}: {choice.name} has no voice {saved!r}; using"
            " its default. `anyrig voices` lists the voices of each engine: speech.engine must"
            " name theirs."
        )
    return ""


# -- what is installed -----------------------------------------------------------------------------


def find_weights(
    rig: Rig, options: VoiceOptions, name: str, engine_class: type[SpeechEngine]
) -> EngineWeights:
    """Find an engine's weights on this machine; the error names the folder to put them into."""
    folder, home = find_weights_folder(rig, options, name), rig.folders.environments
    try:
        try:
            return rig.engine_weights.find(engine_class, folder, home)
        except (InvalidInputError, MissingWeightsError):
            # A folder in the settings belongs to one engine, and this may be another.
            if folder is None or options.model or name == find_requested_engine(rig, options):
                raise
            return rig.engine_weights.find(engine_class, _find_downloaded(rig, name), home)
    except MissingSampleError:
        raise
    except MissingWeightsError as error:
        if engine_class.info.repository:
            get = describe_get(engine_class.info)
            error.hint = Message("{get}. {hint}", get=get, hint=error.hint)
        if folder is None:
            error.hint += f" Their folder is {rig.folders.models / name}."
        raise


def describe_get(info: EngineInfo) -> str:
    """The command that downloads the weights of an engine."""
    return f"anyrig engines get {info.name}" + (" --voice NAME" if info.has_voice_files else "")


def find_weights_folder(rig: Rig, options: VoiceOptions, name: str) -> Path | None:
    """The folder of an engine's weights: as requested, of the settings, or anyrig's own."""
    if options.model is not None and not options.model.is_dir():
        cached = find_cached_repository(options.model.as_posix())
        if cached is not None:
            return cached
    if options.model is not None:
        if not options.model.is_dir():
            raise InvalidInputError(
                f"no such folder: {options.model}",
                hint=Message("{model} must be a folder with weights.", model=OptionRef("model")),
            )
        return options.model
    return _find_model_setting(rig) or _find_downloaded(rig, name)


def _find_downloaded(rig: Rig, name: str) -> Path | None:
    """What `anyrig engines get` downloaded, or another program into the hub's cache."""
    folder = rig.folders.models / name
    return folder if folder.is_dir() else find_cached_weights(rig, name)


def find_cached_weights(rig: Rig, name: str) -> Path | None:
    """An engine's repository in the hub's cache, if the engine can use what is there of it."""
    engine_class = engines.engine_class(name)
    folder = find_cached_repository(engine_class.info.repository)
    if folder is None:
        return None
    try:
        if engine_class.environment is None:
            rig.engine_weights.find(engine_class, folder, rig.folders.environments)
        else:  # which may not be there yet
            engine_class.find_weights(folder)
    except MissingSampleError:
        return folder
    except AnyrigError:
        return None
    return folder


def _find_model_setting(rig: Rig) -> Path | None:
    """The folder that the settings name; one that does not exist is a warning."""
    path: Path | None = rig.settings.speech.model
    if path is None or path.is_dir():
        return path
    cached = find_cached_repository(path.as_posix())
    if cached is not None:
        return cached
    name = _engine_of_model(path)
    if name and _find_downloaded(rig, name) is not None:
        return None
    fix = (
        f"`anyrig engines get {name}` downloads that model."
        if name
        else "Name a folder with weights; `anyrig engines` lists what can be downloaded."
    )
    rig.warn(
        f"{rig.describe_origin('speech.model')}: the model {path.as_posix()} is not on this"
        f" machine; using the default voice. {fix}"
    )
    return None


def check_engine(rig: Rig, options: VoiceOptions, name: str) -> EngineStatus:
    """Whether an engine is ready, and what it lacks if not."""
    try:
        engine_class = engines.engine_class(name)
    except AnyrigError as error:
        info = EngineInfo(name, error.message, ())
        return EngineStatus(info, "broken", error.message, error.hint)
    info, own = engine_class.info, engine_class.environment is not None
    state: EngineState = "ready"
    try:
        found = find_weights(rig, options, name, engine_class)
        return EngineStatus(
            info, state, voices=found.voices, languages=found.languages, has_environment=own,
            unusable=found.unusable,
        )  # fmt: skip
    except AnyrigError as error:
        fix = error.hint
        if isinstance(error, MissingWeightsError):
            is_voice = isinstance(error, MissingSampleError)
            state = "needs voice" if is_voice else "needs weights"
        elif isinstance(error, MissingPackageError):
            state = "needs environment" if own else "needs extra"
            fix = localize_install_commands(fix)
        else:
            state = "broken"
        if state == "needs extra" and info.repository:
            fix = Message(
                "{get}. It installs the packages ({command}) and downloads the weights.",
                get=describe_get(info),
                command=fix,
            )
        return EngineStatus(info, state, error.message, fix, has_environment=own)


# -- how fast --------------------------------------------------------------------------------------


def find_faster_voice(
    rig: Rig, options: VoiceOptions, choice: EngineChoice, language: str
) -> FasterVoice | None:
    """An engine that takes far less time for a language, if the chosen one takes long."""
    factor = choice.info.real_time_factor
    if factor < _SLOW_FACTOR:
        return None
    infos = [engines.engine_class(name).info for name in rank_engines(language, known=True)]
    fast = [one for one in infos if 0 < one.real_time_factor <= factor / _FASTER_TIMES]
    if not fast:
        return None
    is_installed = open_catalog(rig, options).try_open(fast[0].name) is not None
    return FasterVoice(
        engine=fast[0].name,
        times_faster=factor / fast[0].real_time_factor,
        core_s_per_audio_s=factor,
        install="" if is_installed else localize_install_commands(fast[0].install),
    )


# -- what could be installed -----------------------------------------------------------------------


def suggest_engines(
    rig: Rig,
    error: UnsupportedLanguageError,
    options: VoiceOptions,
    choice: EngineChoice,
    *,
    text_language: str = "",
    override: str = "",
) -> UnspeakableTextError:
    """An error for a language that an engine does not speak, with engines that do.

    Args:
        rig: this machine.
        error: what the engine does not speak.
        options: of the request.
        choice: the engine.
        text_language: of the text as a whole; empty if unsure.
        override: how to have it spoken all the same; by naming the language, if empty.
    """
    from anyrig.speech.language import name_language

    own = choice.weights.languages[0] if choice.weights.languages else "en"
    base = error.language.partition("-")[0].lower()
    if (
        choice.reason_code is EngineReason.DEFAULT
        and base == text_language.partition("-")[0].lower()
    ):
        offer = find_offer(rig, base)
        if offer is not None and offer.size_bytes:
            return _offer_voice(offer, own)
    override = override or Message(
        "If that is wrong, pass {language}.", language=OptionRef("language", own)
    )
    names = [name for name in rank_engines(error.language, known=True) if name != choice.name]
    if not names:
        name = name_language(error.language)
        if name == error.language:  # not one that Babel knows either: a slip
            hint = "Use a code such as en, es or fr. " + override
            return UnspeakableTextError(f"unknown language {name!r}", hint=hint)
        return UnspeakableTextError(error.message, hint=f"No engine speaks {name}. " + override)
    hint = _describe_installation(rig, options, names[0], error.language)
    if len(names) > 1:
        hint += f" So do {', '.join(names[1:_MAX_SUGGESTIONS])}."
    return UnspeakableTextError(error.message, hint=hint + " " + override)


@dataclass(frozen=True)
class VoiceOffer:
    """Voices of a language that can be downloaded into anyrig's own folder."""

    language: str
    engine: str
    folder: Path
    licence: str
    size_bytes: int
    """What is still to be downloaded."""

    def describe(self) -> str:
        """`the Spanish voice (89 MB, Apache-2.0)`."""
        from anyrig.speech.language import name_language

        size = format_download(self.size_bytes)
        return f"the {name_language(self.language)} voice ({size}, {self.licence})"


def list_offers() -> list[str]:
    """The languages whose voices can be downloaded."""
    from anyrig.speech.engines import kokoro_voices

    return kokoro_voices.list_languages()


def find_offer(rig: Rig, language: str) -> VoiceOffer | None:
    """What `anyrig voices get` downloads for a language."""
    from anyrig.speech.engines import kokoro, kokoro_voices

    base = language.partition("-")[0].lower()
    if base not in list_offers():
        return None
    folder, needs_model = rig.folders.models / kokoro.INFO.name, not kokoro.has_model_packages()
    missing = kokoro_voices.list_missing(folder, [base], needs_model=needs_model)
    size_bytes = sum(file.size_bytes for file in missing)
    licence = kokoro_voices.describe_licence(base)
    return VoiceOffer(base, kokoro.INFO.name, folder, licence, size_bytes)


def _offer_voice(offer: VoiceOffer, own: str) -> MissingVoiceError:
    from anyrig.speech.language import name_language

    name = name_language(offer.language)
    return MissingVoiceError(
        f"no installed voice speaks {name}; `anyrig voices get {offer.language}` gets"
        f" {offer.describe()}",
        hint=Message(
            "If the text is not in {name}, pass {language}.",
            name=name,
            language=OptionRef("language", own),
        ),
        language=offer.language,
    )


def _describe_installation(rig: Rig, options: VoiceOptions, name: str, language: str) -> str:
    from anyrig.speech.language import match_language

    info = engines.engine_class(name).info
    licence = info.weights_licence or info.code_licence
    installed = open_catalog(rig, options).try_open(name)
    if installed is not None and match_language(language, installed.weights.languages):
        return Message(
            "{name} ({licence}) speaks it and is installed: pass {engine}.",
            name=name,
            licence=licence,
            engine=OptionRef("engine", name),
        )
    offer = find_offer(rig, language)
    if offer is not None and offer.engine == name:
        steps = [f"anyrig voices get {offer.language}"]
    elif info.weights and info.repository:
        steps = [describe_get(info)]  # it installs the packages as well
    else:
        needs_weights = f"its weights, see `anyrig engines show {name}`" if info.weights else ""
        steps = [localize_install_commands(info.install), needs_weights]
    return Message(
        "{name} ({licence}) speaks it: {steps}, then pass {engine}.",
        name=name,
        licence=licence,
        steps=", then ".join(filter(None, steps)),
        engine=OptionRef("engine", name),
    )


def _engine_of_model(model: Path | None) -> str:
    """The engine whose weights have this name on the model hub."""
    name = model.as_posix() if model else ""
    return find_engine_of_repository(name, list_infos()) if "/" in name else ""
