"""Which engine speaks, with which voice and weights, and where: shared by all that speaks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute
from anyrig.cli.context import Context
from anyrig.cli.pick import pick
from anyrig.cli.show import local_fix
from anyrig.errors import AnyrigError, BadInput, CannotSpeak
from anyrig.speech import engines
from anyrig.speech.protocol import Found, Spec, SpeechEngine, Value, options_of

if TYPE_CHECKING:
    from anyrig.placement import Placed
    from anyrig.speech.lexicon import Lexicon
    from anyrig.speech.script import Script
    from anyrig.speech.synthesise import Studio
    from anyrig.speech.tongues import ForeignText
    from anyrig.store.results import Store

_LOOKED_AT = 20_000  # characters of a text, to tell its language by
_CHARACTERS_PER_WORKER = 250  # less than this is not worth another process's start
_RESTRICTED = ("GPL", "AGPL", "CPML", "non-commercial", "bilibili")


@dataclass(frozen=True)
class Chosen:
    """An engine that was found ready to speak."""

    name: str
    kind: type[SpeechEngine]
    found: Found
    options: dict[str, Value]
    asked: bool
    """Whether the person named it."""

    @property
    def spec(self) -> Spec:
        """What it is."""
        return self.kind.spec


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that speaks."""
    group = parser.add_argument_group("the voice")
    group.add_argument("--engine", metavar="NAME", help="which engine; `anyrig engines` lists them")
    group.add_argument(
        "--voice", metavar="NAME", help="which voice; `anyrig voices` lists them; a:2+b blends two"
    )
    group.add_argument("--model", metavar="FOLDER", help="weights in a folder of your own")
    group.add_argument(
        "--language", metavar="CODE", help="en, es, fr ...; found out when not given"
    )
    group.add_argument("--rate", type=rate, metavar="X", help="2 is twice as fast; 0.25 to 4")
    group.add_argument("--seed", type=int, metavar="N", help="another take of the same words")
    group.add_argument(
        "--set", action="append", metavar="KEY=VALUE", default=[],
        help="an option of the engine; `anyrig engines show NAME` lists them",
    )  # fmt: skip
    group.add_argument("--lexicon", metavar="FILE", help="how words are pronounced")
    group.add_argument(
        "--ssml", action="store_true", help="the text is SSML; found out when it begins with <speak"
    )


def rate(text: str) -> float:
    """A speaking rate."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.25 <= value <= 4:
        raise BadInput(f"--rate {text}", hint="It goes from 0.25 to 4; 1 is the voice's own.")
    return value


def lufs(text: str) -> float:
    """A loudness."""
    try:
        value = float(text)
    except ValueError:
        value = 1.0
    if not -70 <= value <= 0:
        raise BadInput(f"--loudness {text}", hint="LUFS lie below 0, such as -19 or -16.")
    return value


def loudness(context: Context) -> float:
    """What a file should have, in LUFS; 0 leaves it alone."""
    asked = context.options.loudness
    return context.loaded.settings.speech.loudness if asked is None else float(asked)


def read_text(path: Path) -> str:
    """A text file, whatever its encoding."""
    from anyrig.text.decode import decode

    if not path.is_file():
        raise BadInput(f"no file {path}", hint="Look at its name; -f - reads the standard input.")
    return decode(path.read_bytes(), str(path))


def language_of(context: Context, text: str) -> str:
    """The text's language, as told or as found, to choose an engine by."""
    asked = context.options.language or context.loaded.settings.speech.language
    if asked != "auto":
        return str(asked)
    from anyrig.text.language import detect

    return detect(text[:_LOOKED_AT]).language


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """`--set key=value` as a mapping."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise BadInput(f"--set {pair} is no key=value", hint="Such as --set noise=0.5.")
        found[key.strip()] = value.strip()
    return found


def chosen(context: Context, language: str = "") -> Chosen:
    """The engine that was asked for; else the first that is ready and speaks the language."""
    asked = getattr(context.options, "engine", None) or context.loaded.settings.speech.engine
    if asked:
        return _ready(context, asked, asked=True)
    first = _ready(context, engines.DEFAULT, asked=False)
    if not language or language in first.found.languages:
        return first
    for name in _speaking(language):
        try:
            found = _ready(context, name, asked=False)
        except AnyrigError:
            continue
        if language in found.found.languages:
            context.log_reasons(f"{name} speaks", [f"{engines.DEFAULT} does not know {language}"])
            return found
    return first


def folder_of(context: Context, name: str) -> Path | None:
    """Where an engine's weights lie, if not in a package: as asked, or where they were fetched."""
    asked = getattr(context.options, "model", None) or context.loaded.settings.speech.model
    if asked:
        path = Path(asked).expanduser()
        if not path.is_dir():
            raise BadInput(f"no folder {path}", hint="--model names a folder with weights in it.")
        return path
    fetched = context.folders.models / name
    return fetched if fetched.is_dir() else None


def _ready(context: Context, name: str, *, asked: bool) -> Chosen:
    kind = engines.engine_class(name)
    given = settings_of(getattr(context.options, "set", None) or [])
    options = options_of(kind.spec, given)
    return Chosen(name, kind, found(context, name, kind), options, asked)


def found(context: Context, name: str, kind: type[SpeechEngine]) -> Found:
    """An engine's weights on this machine."""
    from anyrig.speech.hosting.engine import Hosted

    if issubclass(kind, Hosted):
        return kind.find(folder_of(context, name), environments=context.folders.environments)
    from anyrig.speech.hosting.engine import Hosted

    folder = folder_of(context, name)
    if issubclass(kind, Hosted):
        return kind.find(folder, environments=context.folders.environments)
    return kind.find(folder)


def refusal(error: ForeignText, chosen: Chosen) -> CannotSpeak:
    """Why a text is not read, with the way to an engine that can: permissive ones first."""
    from anyrig.speech.tongues import title

    language = error.language
    speakers = [name for name in _speaking(language) if name != chosen.name]
    own = chosen.found.languages[0] if chosen.found.languages else "en"
    insist = f"If that is wrong: --language {own}."
    if not speakers:
        hint = f"No engine of anyrig speaks {title(language)}. {insist}"
        return CannotSpeak(error.message, hint=hint)
    first = speakers[0]
    spec = engines.engine_class(first).spec
    install = f"{local_fix(spec.install)}, then " if spec.install else ""
    hint = f"{first} ({spec.weights_licence or spec.code_licence}) does: {install}--engine {first}."
    if len(speakers) > 1:
        hint += f" So do {', '.join(speakers[1:4])}."
    return CannotSpeak(error.message, hint=f"{hint} {insist}")


def _speaking(language: str) -> list[str]:
    """Engines that speak a language: the permissive first, then in the table's order."""
    found = []
    for name in engines.names():
        try:
            spec = engines.engine_class(name).spec
        except AnyrigError:
            continue
        if language in spec.languages and not spec.cloud and name != "tone":
            licence = f"{spec.code_licence} {spec.weights_licence}"
            found.append((any(word in licence for word in _RESTRICTED), name))
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def placed(context: Context, chosen: Chosen, num_characters: int) -> Placed:
    """Where the engine's workers sit; no more of them than the text keeps busy."""
    context.options.no_bench = context.options.no_bench or not any(
        gpu.usable for gpu in context.machine.gpus
    )  # with the CPU alone there is nothing to choose by figures
    need = replace(
        chosen.kind.need(chosen.found),
        most_workers=max(1, num_characters // _CHARACTERS_PER_WORKER),
    )
    return compute.placed(context, pick(context), need)


@contextmanager
def studio(
    context: Context, chosen: Chosen, num_characters: int, store: Store | None
) -> Iterator[Studio]:
    """A studio that loads while the text is prepared."""
    from anyrig.memory.limits import Limits
    from anyrig.speech.synthesise import Studio

    found = placed(context, chosen, num_characters)
    for placement in found.placements:
        compute.guard(context, placement)
    with Studio(
        engine=chosen.name,
        found=chosen.found,
        placed=found,
        environment=context.environment,
        options=chosen.options,
        store=store,
        limits=Limits.load(context.folders.limits),
        stamp=_stamp(context, found),
    ) as made:
        yield made


def _stamp(context: Context, found: Placed) -> str:
    from anyrig.bench.figures import stamp

    stamps = {stamp(placement.device, context.machine) for placement in found.placements}
    return " | ".join(sorted(stamps))


def script(context: Context, chosen: Chosen, text: str, **more: Any) -> Script:
    """A text as this engine will speak it."""
    from anyrig.speech.pauses import Pauses
    from anyrig.speech.prepare import prepare
    from anyrig.speech.tongues import ForeignText

    options, settings = context.options, context.loaded.settings.speech
    spec, found = chosen.spec, chosen.found
    arguments: dict[str, Any] = {
        "limit": spec.limit,
        "phonemes": spec.phonemes,
        "languages": found.languages,
        "language": options.language or settings.language,
        "voice": voice_of(context, chosen),
        "rate": options.rate or settings.rate,
        "seed": options.seed or 0,
        "lexicon": lexicon(context),
        "pauses": Pauses(
            clause_s=settings.pause_clause,
            sentence_s=settings.pause_sentence,
            paragraph_s=settings.pause_paragraph,
            heading_s=settings.pause_heading,
            dialogue_s=settings.pause_dialogue,
        ),
        "ssml": True if options.ssml else "auto",
    }
    try:
        return prepare(text, **(arguments | more))
    except ForeignText as error:
        raise refusal(error, chosen) from error


def voice_of(context: Context, chosen: Chosen) -> str:
    """The voice that was asked for; the setting's only where it is one of this engine's."""
    if context.options.voice:
        return checked_voice(str(context.options.voice), chosen)
    saved = context.loaded.settings.speech.voice
    return saved if any(voice.name == saved for voice in chosen.found.voices) else ""


def checked_voice(voice: str, chosen: Chosen) -> str:
    """A voice's name, or a blend of several, or the path of a recording; an error for none."""
    from anyrig.speech.voices import unknown

    known = [each.name for each in chosen.found.voices]
    if not known or voice in known or Path(voice).is_file():
        return voice
    for part in voice.split("+"):
        name = part.partition(":")[0].strip()
        if name not in known:
            raise unknown(name, known)
    return voice


def lexicon(context: Context) -> Lexicon | None:
    """The user's lexicon, if there is one."""
    named = context.options.lexicon or context.loaded.settings.speech.lexicon
    if not named:
        return None
    from anyrig.speech.lexicon import load

    return load(Path(named).expanduser())
