"""Speech for many clients at once: one live synthesizer for each engine, shared by all.

with open_live_speech(rig) as speech:
    with speech.start(speech.request(text="Hello.")) as session:
        while not session.done:
            samples = session.finish(session.next_part().result())
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.engines import (
    EngineStatus,
    check_engine,
    check_speech_settings,
    choose_engine,
    detect_language,
    find_requested_engine,
    open_catalog,
    resolve_voice,
)
from anyrig.app.lexicons import ClientLexicons
from anyrig.app.speech import (
    SpeechRequest,
    open_synthesizer,
    prepare_script,
)
from anyrig.errors import (
    AnyrigError,
    LimitExceededError,
    Message,
    ModelNotFoundError,
    UnspeakableTextError,
    errors_of_option,
)
from anyrig.options import list_options, option
from anyrig.speech import engines
from anyrig.speech.choose import TEST_ENGINE, EngineChoice, is_restricted, split_blend
from anyrig.work.fair import FairSlots
from anyrig.work.live import Lane

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyrig.app.rig import Rig
    from anyrig.app.word_times import WordTimer
    from anyrig.audio.loudness import Leveller
    from anyrig.audio.samples import Samples
    from anyrig.speech.choose import EngineCatalog
    from anyrig.speech.chunks import ChunkBuilder
    from anyrig.speech.engine import OptionValue, Voice
    from anyrig.speech.segment import Script
    from anyrig.speech.synthesis import ScriptReading, SegmentPart, Synthesizer
    from anyrig.storage.cache import Cache

OPENAI_VOICES = {
    "alloy": "female", "ash": "male", "ballad": "male", "cedar": "male", "coral": "female",
    "echo": "male", "fable": "male", "marin": "female", "nova": "female", "onyx": "male",
    "sage": "female", "shimmer": "female", "verse": "male",
}  # fmt: skip
"""Names that clients of OpenAI send: voices of the same name, else others of the same gender."""
_OPENAI_MODELS = re.compile(r"tts-1(-hd)?(-1106)?|gpt-4o-mini-tts(-\d{4}-\d\d-\d\d)?")
"""OpenAI's models: they are the default engine."""
_MAX_PREPARED_AT_ONCE = 2
"""Texts. It is pure Python: more at once would only take time from the event loop. Clients take
turns at each sentence, and a client's short texts come before its long ones."""
_ANY_NUMBER = 1 << 20  # characters: as many workers as the devices carry
_SHOWN_CHARACTERS = 80
_WARM_UP_TEXT = "Hello, it is half past 10."


@dataclass(frozen=True, kw_only=True)
class LiveSpeechRequest(SpeechRequest):
    """Speech for a client who listens."""

    lane: Lane = option("live", "`live`, or `bulk`: live requests are served first")
    timestamps: bool = option(False, "find when each written word is heard", flag=False)
    key: str = option(
        "", "id of the API key whose lexicon applies beside the owner's", http=False, flag=False
    )


@dataclass(eq=False)
class SpeechSession:
    """A text that is synthesised for one client. For one thread at a time."""

    engine: str
    voice: str
    """As a client may request it."""
    sample_rate: int
    _reading: ScriptReading
    _chunks: ChunkBuilder
    _leveller: Leveller | None
    words: WordTimer | None
    """When each word is heard, if that was requested."""
    _stack: ExitStack
    """Closed with the session: the reading, and the synthesizer that is borrowed."""

    @property
    def done(self) -> bool:
        """Whether everything was handed out."""
        return self._reading.done

    @property
    def num_samples(self) -> int:
        """Finished so far."""
        return self._chunks.num_samples

    def next_part(self) -> Future[SegmentPart]:
        """A future of the next segment, or of a part of it. Call it in a thread."""
        return self._reading.next()

    def finish(self, part: SegmentPart) -> Samples:
        """The audio of a part: trimmed, levelled, with its pauses. Call it in a thread."""
        chunk = self._chunks.add(part)
        if self.words is not None:
            self.words.add(chunk)
        samples = chunk.samples
        return self._leveller.apply(samples) if self._leveller else samples

    def close(self) -> None:
        """The end, or the client disconnected: what has not started is not made. Never blocks."""
        self._stack.close()

    def __enter__(self) -> SpeechSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def open_live_speech(
    rig: Rig, options: Mapping[str, Any] | None = None, *, use_cache: bool = True
) -> Iterator[LiveSpeech]:
    """Speech for clients; settings that name an engine or a voice that does not exist are reported.

    The options are those of every request, such as `device`; others are ignored.
    """
    with ExitStack() as stack:
        cache = stack.enter_context(open_cache(rig)) if use_cache else None
        speech = LiveSpeech(rig, options or {}, cache)
        check_speech_settings(rig, speech.request())
        yield speech


class LiveSpeech:
    """Speech for many clients. Safe to call from many threads; everything may block."""

    def __init__(self, rig: Rig, options: Mapping[str, Any], cache: Cache | None) -> None:
        known = list_options(LiveSpeechRequest)
        self._rig, self._cache = rig, cache
        self._options = {name: value for name, value in options.items() if name in known}
        self._settings = rig.settings.server
        self.lexicons = ClientLexicons(rig)
        self._preparing = FairSlots(_MAX_PREPARED_AT_ONCE)
        self._seconds_per_character: dict[str, float] = {}
        """What each engine was measured to need."""

    def request(self, *, text: str = "", **given: Any) -> LiveSpeechRequest:
        """A request with the options of the server, then the settings, filled in.

        OpenAI's names of models are the default engine. A lexicon takes the place of the owner's.
        """
        values = {"lexicon": None, **self._options, **given}
        values["engine"] = self._resolve_engine(given.get("engine", ""), openai=True)
        return self._rig.request(LiveSpeechRequest, text=text, **values)

    # -- speaking ----------------------------------------------------------------------------------

    def start(
        self,
        request: LiveSpeechRequest,
        *,
        client: str = "",
        check: Callable[[], None] | None = None,
    ) -> SpeechSession:
        """Prepare a text and ask for its first segments; loads the engine if it is not loaded.

        Errors name the option that is wrong: text, voice or engine. A voice is never taken for a
        path; OpenAI's names are voices of that name, or others.

        Args:
            request: of `request`.
            client: for whom it is; clients take turns.
            check: called while the text is prepared; it may raise an error to stop.
        """
        from anyrig.app.word_times import WordTimer, check_word_times
        from anyrig.audio.loudness import Leveller
        from anyrig.speech.chunks import ChunkBuilder
        from anyrig.speech.voices import choose_voice

        with errors_of_option("text"):
            self._check_text(request.text)
        language = detect_language(request.text, request)
        request, choice = self._choose(request, language)
        choice, own_options = _separate_options(choice)
        with self._preparing.hold(client, priority=len(request.text)) as give_way:

            def step() -> None:
                if check is not None:
                    check()
                give_way()

            with errors_of_option("text"):
                script = self._prepare(request, choice, step)
            if own_options:
                script = replace(script, segments=tuple(
                    replace(one, utterance=replace(one.utterance, options=own_options))
                    for one in script.segments
                ))  # fmt: skip
        if request.timestamps:
            check_word_times(choice, script)
        with ExitStack() as stack:
            synthesizer = stack.enter_context(self._borrow_synthesizer(request, choice, client))
            self._seconds_per_character[choice.name] = synthesizer.seconds_per_character
            reading = stack.enter_context(
                synthesizer.read(
                    script.segments, lane=request.lane, wait_s=self._settings.deadline_s,
                    client=client,
                )
            )  # fmt: skip
            first, voices = script.segments[0].utterance, choice.weights.voices
            voice = first.voice or (choose_voice(voices, first).name if voices else "")
            rate, loudness = synthesizer.rate, request.loudness
            leveller = Leveller(rate, target_lufs=loudness) if loudness else None
            chunks = ChunkBuilder(rate)
            words = WordTimer(self._rig, request, script, rate) if request.timestamps else None
            return SpeechSession(
                choice.name, voice, rate, reading, chunks, leveller, words, stack.pop_all()
            )

    def check(
        self,
        *,
        engine: str = "",
        voices: Sequence[str] = (),
        model: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Check that an engine and its voices exist, before a job is queued that needs them."""
        engine = self._resolve_engine(engine, openai=False)
        request = self.request(engine=engine, model=model or None, set=dict(options or {}))
        if find_requested_engine(self._rig, request):
            choose_engine(self._rig, request)
        catalog = open_catalog(self._rig, request)
        with errors_of_option("voice"):
            for voice in dict.fromkeys(voices):
                self._check_voice(request, voice, catalog)

    def find_utterance_options(self, request: LiveSpeechRequest) -> set[str]:
        """Names of the options that the engine of this request takes with each utterance; none if
        `start` will say what is wrong with the request.
        """
        try:
            _, choice = self._choose(request, detect_language(request.text, request))
        except AnyrigError:
            return set()
        return {one.name for one in choice.info.options if one.per_utterance}

    def load(self) -> None:
        """Load the default engine and use it once, so that the first client does not wait."""
        from anyrig.audio.encode import open_encoder

        request = self.request(text=_WARM_UP_TEXT)
        choice = choose_engine(self._rig, request)
        script = self._prepare(request, choice)
        with self._borrow_synthesizer(request, choice) as synthesizer:
            for segment in script.segments:  # not from the cache, which may have it
                synthesizer.live.submit(segment.utterance, lane="bulk").result()
        # From text to bytes: whatever is imported on the way is imported now.
        with (
            self.start(request) as session,
            open_encoder(io.BytesIO(), "mp3", session.sample_rate) as output,
        ):
            while not session.done:
                output.write(session.finish(session.next_part().result()))

    def _check_text(self, text: str) -> None:
        limit = self._settings.text_characters
        if len(text) > limit:
            raise LimitExceededError(
                f"the text has {len(text):,} characters",
                hint=f"The limit is {limit:,} (server.text_characters); POST /jobs speaks longer"
                " texts.",
            )
        if not text.strip():
            raise UnspeakableTextError("the text is empty", hint="Give some words.")

    def _resolve_engine(self, name: str, *, openai: bool) -> str:
        """An engine that exists, or empty for the default one; with `openai` OpenAI's are it."""
        known = self._engine_names
        if name in known or not name:
            return name
        if openai and _OPENAI_MODELS.fullmatch(name):
            return ""
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        guess = f"Did you mean {' or '.join(near)}? " if near else ""
        with errors_of_option("engine"):
            raise ModelNotFoundError(
                f"unknown speech model {name[:_SHOWN_CHARACTERS]!r}",
                hint=f"{guess}GET /v1/models lists them.",
            )

    def _choose(
        self, request: LiveSpeechRequest, language: str
    ) -> tuple[LiveSpeechRequest, EngineChoice]:
        """The request with its voice, and its engine; weights are looked up once.

        A voice is never taken for a path. Names of OpenAI's clients are voices that speak the
        language.
        """
        catalog = open_catalog(self._rig, request)
        voice = "" if request.voice == "default" else request.voice
        if voice:
            with errors_of_option("voice"):
                if not self._check_voice(request, voice, catalog, openai=True):
                    voice = self._find_openai_voice(request, voice, language, catalog)
        request = replace(request, voice=voice)
        with errors_of_option("engine"):
            return request, choose_engine(self._rig, request, language, catalog)

    def _check_voice(
        self,
        request: LiveSpeechRequest,
        voice: str,
        catalog: EngineCatalog,
        *,
        openai: bool = False,
    ) -> bool:
        """Whether a voice exists; raises an error if not, but for OpenAI's with `openai`."""
        if voice in ("", "default"):
            return True
        from anyrig.speech.voices import unknown_voice_error

        known: list[str] = []
        for one in self._list_voices(request, catalog):
            known.append(one.name)
            if one.name == voice:
                return True  # the other engines need not be looked at
        if openai and voice in OPENAI_VOICES:
            return False
        for name in split_blend(voice):
            if name not in known:
                raise unknown_voice_error(
                    name[:_SHOWN_CHARACTERS], known, more="GET /config describes each."
                )
        return True

    def _list_voices(self, request: LiveSpeechRequest, catalog: EngineCatalog) -> Iterator[Voice]:
        """The voices of the engine that is requested; of all that are installed, if none is."""
        if requested := find_requested_engine(self._rig, request):
            # An engine that is not installed raises its own error: it has no voices to name.
            yield from catalog.open(requested).weights.voices
            return
        names = [name for name in self._engine_names if name not in (TEST_ENGINE, engines.DEFAULT)]
        for name in (engines.DEFAULT, *names):
            if (choice := catalog.try_open(name)) is not None:
                yield from choice.weights.voices

    def _find_openai_voice(
        self, request: LiveSpeechRequest, name: str, language: str, catalog: EngineCatalog
    ) -> str:
        """The voice that is called so; else one of the default engine, as `OPENAI_VOICES` says.

        Voices of the same gender are dealt out in their order, so that names differ where they can.
        """
        from anyrig.speech.language import match_language

        def speaks(voice: Voice) -> bool:
            return not language or bool(match_language(language, (voice.language, *voice.also)))

        for one in self._list_voices(request, catalog):
            title = (one.short_title or one.title).lower()
            if (
                title == name
                and speaks(one)
                and not is_restricted(engines.engine_class(one.engine).info)
            ):
                return one.name
        plain = replace(request, voice="")
        choice = choose_engine(self._rig, plain, language, catalog)
        able = [one for one in choice.weights.voices if speaks(one)]
        default = resolve_voice(self._rig, plain, choice)
        able.sort(key=lambda one: one.name != default)  # it is the first of its gender
        gender = OPENAI_VOICES[name]
        same = [one for one in able if one.gender == gender]
        names = [one for one in OPENAI_VOICES if not same or OPENAI_VOICES[one] == gender]
        found = same or able
        return found[names.index(name) % len(found)].name if found else ""

    def _prepare(
        self,
        request: LiveSpeechRequest,
        choice: EngineChoice,
        on_step: Callable[[], None] | None = None,
    ) -> Script:
        lexicon = self.lexicons.load(request.key, owner_file=request.lexicon)
        if request.lexicon is not None:
            request = replace(request, lexicon=None)
        speed = self._seconds_per_character.get(choice.name, 0.0)
        return prepare_script(
            self._rig, request, choice, files=False, lexicon=lexicon, on_step=on_step,
            seconds_per_character=speed if request.lane == "live" else 0.0,
        )  # fmt: skip

    def _borrow_synthesizer(
        self, request: LiveSpeechRequest, choice: EngineChoice, client: str = ""
    ) -> AbstractContextManager[Synthesizer]:
        """The engine's synthesizer in the model cache; one for each set of its options."""

        def load() -> Synthesizer:
            self._rig.reload_saved_device()
            made = open_synthesizer(
                self._rig, request, choice, _ANY_NUMBER, self._cache, shared=True
            )
            try:
                made.wait_ready()
            except BaseException:
                made.close()
                raise
            return made

        defaults = {one.name: one.default for one in choice.info.options}
        changed = [f" {name}={value}" for name, value in sorted(choice.options.items())
                   if value != defaults[name]]  # fmt: skip
        name = f"speech {choice.name}{''.join(changed)}"
        version = choice.weights.voices_key
        return self._rig.models.borrow(name, load, version=version, client=client)

    # -- what exists -------------------------------------------------------------------------------

    @cached_property
    def _engine_names(self) -> tuple[str, ...]:
        return engines.list_names()  # 30 ms: it asks every installed package

    def list_engines(self) -> list[EngineStatus]:
        """Every engine, ready or not."""
        request = self.request()
        return [check_engine(self._rig, request, name) for name in self._engine_names]

    def find_default_voice(self) -> tuple[str, str]:
        """The engine and the voice that speak if a request names none; raises its error if no
        engine is installed.
        """
        request = self.request()
        choice = choose_engine(self._rig, request)
        first = next((voice.name for voice in choice.weights.voices), "")
        return choice.name, resolve_voice(self._rig, request, choice) or first

    def describe_default(self) -> str:
        """The same for the log."""
        try:
            engine, voice = self.find_default_voice()
        except AnyrigError as error:
            return Message("none ({problem})", problem=error.message)
        return f"{engine}, voice {voice or 'its first'}"


def _separate_options(
    choice: EngineChoice,
) -> tuple[EngineChoice, tuple[tuple[str, OptionValue], ...]]:
    """The engine with those options that a model is loaded with, and those of each utterance."""
    own = {one.name: one.default for one in choice.info.options if one.per_utterance}
    changed = [(name, choice.options[name]) for name in own if choice.options[name] != own[name]]
    return replace(choice, options={**choice.options, **own}), tuple(changed)
