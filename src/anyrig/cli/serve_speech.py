"""Speech for the server: engines chosen as on the command line, one live studio for each."""

from __future__ import annotations

import argparse
import contextlib
import copy
import difflib
import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, fleet, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.keep import keeping
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, UnspeakableTextError
from anyrig.server.problems import Problem, about
from anyrig.server.speaking import OPENAI_MODELS, OPENAI_VOICES, Reading, Wish
from anyrig.speech import engines

if TYPE_CHECKING:
    from anyrig.cli.speaker import Chosen
    from anyrig.server.keeper import Keeper
    from anyrig.speech.live import LiveStudio
    from anyrig.speech.script import Script
    from anyrig.storage.cache import Cache

LEXICON = "lexicon.toml"
_PREPARED_AT_ONCE = 2
"""Texts. It is Python alone: more at once would only take the event loop's turns."""
_MANY = 1 << 20  # characters: as many workers as the devices carry
_LONGEST_LEXICON = 1_000_000
_OPENAI_FAMILIES = ("tts-", "gpt-")
_HELLO = "Hello, it is half past 10."
_LONGEST_TOLD = 80
_TAKEN: dict[str, Any] = {
    "engine": None, "voice": None, "model": None, "language": None, "rate": None, "seed": None,
    "set": [], "lexicon": None, "ssml": False,
}  # fmt: skip
"""The voice's options of the command line, as nobody gave them."""


def made(context: Context, stack: ExitStack, keeper: Keeper) -> Speech:
    """The part."""
    store = stack.enter_context(keeping(context))
    speech = Speech(context, keeper, store)
    speech.check_settings()
    return speech


class Speech:
    """Fits `server.speaking.Speaking`."""

    def __init__(self, context: Context, keeper: Keeper, store: Cache | None) -> None:
        self._context, self._keeper, self._store = context, keeper, store
        self._settings = context.loaded.settings.server
        self._loudness = context.loaded.settings.speech.loudness
        self._path = context.folders.server / LEXICON
        self._writing = threading.Lock()
        self._preparing = threading.Semaphore(_PREPARED_AT_ONCE)

    def check_settings(self) -> None:
        """Warn at the start of what is set and not there."""
        speaker.check_settings(self._asking(Wish("")))

    def described(self) -> str:
        """The engine and the voice that speak when none is named."""
        context = self._asking(Wish(""))
        try:
            default = speaker.chosen(context)
        except AnyrigError as error:
            return f"none ({error.message})"
        voice = self._default_voice(context) or "its first"
        return f"{default.name}, voice {voice}"

    # -- speaking ----------------------------------------------------------------------------------

    def begin(self, wish: Wish) -> Reading:
        """Prepare a text and ask for its first segments; loads the engine where it is not."""
        with about("input"):
            self._check_text(wish.text)
        context = self._asking(wish)
        with self._preparing:
            language = speaker.language_of(context, wish.text)
            with about("voice"):
                context.options.voice = self._voice(context, wish.voice, stand_in=True)
            with about("model"):
                chosen = speaker.chosen(context, language)
            ignored = self._set(chosen, wish.options or {})
            with about("input"):
                script = voicing.script(
                    context, chosen, wish.text, files=False, first_short=wish.lane == "live"
                )
        voice = script.segments[0].line.voice or _first_voice(chosen, script)
        with ExitStack() as stack:
            studio = stack.enter_context(self._lent(context, chosen))
            recital = stack.enter_context(
                studio.read(script.segments, lane=wish.lane, wait_s=self._settings.deadline_s)
            )
            return Reading(
                recital, engine=chosen.name, voice=voice, rate=studio.rate, ignored=ignored,
                loudness=self._loudness, release=stack.pop_all().close,
            )  # fmt: skip

    def _check_text(self, text: str) -> None:
        if len(text) > self._settings.text_characters:
            raise LimitExceededError(
                f"the text has {len(text):,} characters",
                hint=f"At most {self._settings.text_characters:,} are taken at once "
                "(server.text_characters); POST /jobs makes longer ones.",
            )
        if not text.strip():
            raise UnspeakableTextError("the text is empty", hint="Give some words.")

    def check(
        self, *, engine: str = "", voices: Sequence[str] = (), model: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """That what a job will ask for is here, so that nobody waits for it to fail."""
        context = self._asking(Wish(""))
        context.options.engine = self._engine(engine) if engine else None
        context.options.model = model or None
        context.options.set = [f"{key}={value}" for key, value in (options or {}).items()]
        if speaker.named_engine(context):
            speaker.chosen(context)
        with about("voice"):
            for voice in dict.fromkeys(voices):
                self._voice(context, voice, stand_in=False)

    def load(self) -> None:
        """Load the default engine and let it say something, so that the first client waits less."""
        context = self._asking(Wish(_HELLO))
        chosen = speaker.chosen(context)
        script = voicing.script(context, chosen, _HELLO, files=False)
        with self._lent(context, chosen) as studio:
            for segment in script.segments:  # past the store, which may have it from last time
                studio.live.submit(segment.line, lane="bulk").result()
        self._rehearse()

    def _rehearse(self) -> None:
        """A request from its text to its bytes: what is imported on the way is there afterwards."""
        from anyrig.speech.sound.encode import encoder

        reading = self.begin(Wish(_HELLO))
        try:
            with encoder(io.BytesIO(), "mp3", reading.rate) as out:
                while not reading.done:
                    out.write(reading.sound(reading.next().result()))
        finally:
            reading.close()

    def _asking(self, wish: Wish) -> Context:
        """The command line as though somebody had typed this wish."""
        context = copy.copy(self._context)  # with all that it has found out already
        options = argparse.Namespace(**{**vars(self._context.options), **_TAKEN})
        options.engine = None if _is_openai(wish.engine) else self._engine(wish.engine)
        options.language = wish.language or None
        options.rate = wish.speed if wish.speed != 1.0 else None
        options.lexicon = str(self._path) if self._path.is_file() else None
        options.unattended = True
        context.options = options
        return context

    def _engine(self, name: str) -> str | None:
        if not name:
            return None
        known = engines.names()
        if name in known:
            return name
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        guess = f"Did you mean {' or '.join(near)}? " if near else ""
        raise Problem(
            404, f"there is no speech model {name!r:.80} here",
            hint=f"{guess}GET /v1/models lists them.", param="model",
        )  # fmt: skip

    def _voice(self, context: Context, wanted: str, *, stand_in: bool) -> str | None:
        """A voice that is here; with `stand_in` OpenAI's names are the default where none has them.

        A request names no file: neither whether one is there is told, nor is it read.
        """
        if not wanted or wanted == "default":
            return None
        from anyrig.speech.voices import unknown

        if speaker.named_engine(context):
            # Its own error where it is not installed: that there are no voices is no help.
            known = [voice.name for voice in speaker.chosen(context).found.voices]
        else:
            others = [name for name in engines.names() if name != speaker.TRIAL]
            known = [voice.name for name in others for voice in self._found(context, name)]
        for name in [wanted] if wanted in known else speaker.blended(wanted):
            if name in known:
                continue
            if stand_in and wanted in OPENAI_VOICES:
                return None
            raise unknown(name[:_LONGEST_TOLD], known, more="GET /config tells more of each.")
        return wanted

    def _found(self, context: Context, name: str) -> Sequence[Any]:
        try:
            return speaker.found(context, name, engines.engine_class(name)).voices
        except AnyrigError:
            return ()

    def _set(self, chosen: Chosen, wanted: Mapping[str, str]) -> list[str]:
        """Take the options that the engine has; those that it has not."""
        from anyrig.speech.protocol import options_of

        known = {option.name for option in chosen.spec.options}
        taken = {name: value for name, value in wanted.items() if name in known}
        chosen.options.update(options_of(chosen.spec, taken) if taken else {})
        return [name for name in wanted if name not in known]

    @contextlib.contextmanager
    def _lent(self, context: Context, chosen: Chosen) -> Iterator[LiveStudio]:
        """The engine's studio, loaded where it is not, anew where it has failed."""
        options = "".join(f" {key}={value}" for key, value in sorted(chosen.options.items())
                          if value != _default(chosen, key))  # fmt: skip
        name = f"speech {chosen.name}{options}"
        with ExitStack() as stack:
            studio = stack.enter_context(
                self._keeper.lend(name, lambda: self._studio(context, chosen))
            )
            if not studio.open:
                self._keeper.drop(name, studio)
                stack.close()
                studio = stack.enter_context(
                    self._keeper.lend(name, lambda: self._studio(context, chosen))
                )
            yield studio

    def _studio(self, context: Context, chosen: Chosen) -> LiveStudio:
        from anyrig.memory.known_sizes import KnownBatchSizes
        from anyrig.speech.live import LiveStudio
        from anyrig.speech.stage import Stage

        context.__dict__.pop("saved", None)  # another device may have been chosen meanwhile
        found = voicing.placed(context, chosen, _MANY)
        hire = fleet.hired(context, chosen, found, lane="live")
        if hire is None:
            found = compute.guard_workers(context, found)
        stage = Stage(
            engine=chosen.name, found=chosen.found, placed=found, environment=context.environment,
            options=chosen.options, store=self._store,
            limits=KnownBatchSizes(context.folders.batch_limits),
            stamp=voicing.stamp(context, found), hire=hire,
        )  # fmt: skip
        return LiveStudio(stage, most_waiting=self._settings.queue)

    # -- what there is -----------------------------------------------------------------------------

    def config(self) -> Mapping[str, Any]:
        """Voices, the default one, engines, as `GET /config` tells them."""
        from anyrig.app.engines import VoiceOptions, check_engine

        context = self._asking(Wish(""))
        rows = [check_engine(context.rig, VoiceOptions(), name) for name in engines.names()]
        details = [voice for row in rows for voice in self._voices(context, row)]
        first = self._default_voice(context)
        return {
            "voices": list(dict.fromkeys(one["name"] for one in details)),
            "default_voice": first,
            "engines": [
                {
                    "name": row.spec.name, "summary": row.spec.summary,
                    "languages": list(row.languages or row.spec.languages),
                    "ready": row.state == "ready",
                    "why": _why(row.problem, row.fix),
                    "licence": row.spec.weights_licence or row.spec.code_licence,
                }
                for row in rows
            ],
            "details": details,
        }  # fmt: skip

    def _default_voice(self, context: Context) -> str:
        try:
            default = speaker.chosen(context)
        except AnyrigError:  # not installed: `engines` says so
            return ""
        saved = speaker.voice_of(context, default)
        return saved or next((voice.name for voice in default.found.voices), "")

    def _voices(self, context: Context, row: Any) -> list[dict[str, Any]]:
        if row.state != "ready" or row.spec.name == speaker.TRIAL:
            return []
        return [
            {
                "name": voice.name, "engine": voice.engine, "language": voice.language,
                "gender": voice.gender or None, "title": voice.title or None,
            }
            for voice in self._found(context, row.spec.name)
        ]  # fmt: skip

    def models(self) -> Sequence[Mapping[str, Any]]:
        """Engines that can be asked for here."""
        from anyrig.app.engines import VoiceOptions, check_engine

        context = self._asking(Wish(""))
        rows = (check_engine(context.rig, VoiceOptions(), name) for name in engines.names())
        return [
            {
                "id": row.spec.name, "languages": list(row.languages),
                "summary": row.spec.summary,
                "voices": [voice.name for voice in self._found(context, row.spec.name)],
            }
            for row in rows
            if row.state == "ready"
        ]  # fmt: skip

    # -- pronunciations ----------------------------------------------------------------------------

    def lexicon(self) -> str:
        """The text of the user's lexicon; empty where there is none."""
        if self._path.is_file():
            return self._path.read_text(encoding="utf-8")
        named = self._context.loaded.settings.speech.lexicon
        if not named or Path(named).suffix.lower() != ".toml":
            return ""
        return voicing.read_text(Path(named).expanduser())

    def set_lexicon(self, text: str) -> int:
        """Take another one, checked; how many entries it has."""
        from anyrig.speech.lexicon import parse
        from anyrig.storage.files import write_atomic

        if len(text) > _LONGEST_LEXICON:
            raise LimitExceededError(
                f"the lexicon has {len(text):,} characters",
                hint=f"At most {_LONGEST_LEXICON:,} are taken.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                "the lexicon holds half a character", hint="Send whole ones."
            ) from None
        found = parse(text, name="the lexicon")
        with self._writing:
            write_atomic(self._path, text)
        return len(found.entries)


def _is_openai(name: str) -> bool:
    """Whether clients of OpenAI's interface send this name, whatever there is."""
    return name in OPENAI_MODELS or name.startswith(_OPENAI_FAMILIES)


def _why(lacks: str, fix: str) -> str | None:
    """What an engine lacks and how to get it, as two sentences; a command among them is marked."""
    first, dot, rest = fix.partition(". ")
    if first.startswith("anyrig "):
        fix = f"`{first}`{dot}{rest}"
    found = [one.rstrip(". ") for one in (lacks, fix) if one]
    return ". ".join(found) + "." if found else None


def _default(chosen: Chosen, key: str) -> object:
    return next(option.default for option in chosen.spec.options if option.name == key)


def _first_voice(chosen: Chosen, script: Script) -> str:
    from anyrig.speech.voices import pick

    return pick(chosen.found.voices, script.segments[0].line).name if chosen.found.voices else ""
