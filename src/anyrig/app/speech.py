"""Text to speech: one text in, audio out, in one piece or while it is made."""

from __future__ import annotations

import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from anyrig.app.cache import open_cache
from anyrig.app.cluster import (
    ClusterOptions,
    check_no_recordings,
    find_broker,
    open_cluster_pool,
    place_on_cluster,
)
from anyrig.app.compute import (
    ComputeOptions,
    DeviceOptions,
    format_stamp,
    place,
    test_devices,
)
from anyrig.app.engines import (
    VoiceOptions,
    check_voice,
    choose_engine,
    detect_language,
    resolve_voice,
    suggest_engines,
)
from anyrig.app.files import normalize_format
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import Request, option
from anyrig.speech.choose import EngineChoice, describe_restriction, split_blend
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.app.word_times import WordTimes
    from anyrig.audio.samples import Samples
    from anyrig.placement import PlacementPlan
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.engine import WordTime
    from anyrig.speech.lexicon import Lexicon
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import Script, Segment
    from anyrig.speech.synthesis import ScriptReading, SynthesisStats, Synthesizer
    from anyrig.speech.word_times import Timing, WrittenWord
    from anyrig.storage.cache import Cache
    from anyrig.transcription.models import RecognitionModel
    from anyrig.transcription.transcribe import TakeTranscriber
    from anyrig.work.live import Lane

_CHARACTERS_PER_WORKER = 250  # less than this is not worth the start of another process
LIVE_SILENCE_LIMIT_S = 15.0
"""A live worker without a heartbeat for so long, of which it sends one every two seconds, hangs: a
client waits for it. Engines compute outside the interpreter's lock."""
_READ_SAMPLES = 1 << 18
_MAX_WORKERS = 8  # named in a report


def pause_option(default_s: float, help: str, setting: str) -> Any:
    return option(default_s, help, ge=0, le=60, unit="seconds", flag=False, setting=setting)


@dataclass(frozen=True, kw_only=True)
class PauseOptions(Request):
    """Pauses, in seconds."""

    pause_clause: float = pause_option(
        0.12, "pause inside a long sentence, where it was split", "speech.pause_clause"
    )
    pause_sentence: float = pause_option(0.3, "pause after a sentence", "speech.pause_sentence")
    pause_paragraph: float = pause_option(0.6, "pause after a paragraph", "speech.pause_paragraph")
    pause_heading: float = pause_option(
        0.9, "pause before and after a heading", "speech.pause_heading"
    )
    pause_dialogue: float = pause_option(
        0.45, "pause between speakers of a dialogue", "speech.pause_dialogue"
    )


@dataclass(frozen=True, kw_only=True)
class SynthesisOptions(VoiceOptions, PauseOptions, ClusterOptions, ComputeOptions):
    """What decides how takes are made: voice, pauses, and where."""


@dataclass(frozen=True, kw_only=True)
class AudioOptions(Request):
    """The audio."""

    loudness: float = option(
        -19.0, "target loudness of files; 0: unchanged", ge=-70, le=0, unit="LUFS",
        setting="speech.loudness", metavar="LUFS",
    )  # fmt: skip
    fresh: bool = option(False, "ignore cached results")


@dataclass(frozen=True, kw_only=True)
class SpeechRequest(SynthesisOptions, AudioOptions):
    """Speech."""

    text: str = option(help="what to say", positional=True, metavar="TEXT")
    ssml: bool = option(False, "the text is SSML; detected if it begins with <speak")


@dataclass(frozen=True)
class TimedTake:
    """Where a segment is heard, in samples, and the spoken words with times, if any."""

    segment: Segment
    start: int
    end: int
    words: tuple[WordTime, ...] = ()
    """In seconds from the beginning of the audio."""


@dataclass(repr=False)
class Speech:
    """Synthesised speech, held in a temporary file until it is saved or closed."""

    engine: EngineChoice
    script: Script
    sample_rate: int
    loudness: float
    stats: SynthesisStats
    chunks: list[dict[str, Any]] = field(default_factory=list)
    """Each segment's text and times."""
    workers: str = ""
    """How many segments each worker of a cluster made; empty without a cluster."""
    num_samples: int = 0
    wall_s: float = 0.0
    takes: list[TimedTake] = field(default_factory=list)
    """Where each segment is heard."""
    time_words: Callable[[Speech], WordTimes] | None = None
    """Finds `word_times`."""
    _file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self) -> None:
        weakref.finalize(self, self._file.close)

    @property
    def audio_s(self) -> float:
        """How long it is, pauses included."""
        return self.num_samples / self.sample_rate

    @property
    def words(self) -> tuple[WrittenWord, ...]:
        """The written words, each with its place in the text and when it is heard.

        Where the engine gives no durations, a recogniser listens to the audio first.
        """
        return self.word_times.words

    @property
    def timing(self) -> Timing:
        """Whether the times of `words` are `exact`, from the engine, or `aligned`."""
        return self.word_times.timing

    @cached_property
    def word_times(self) -> WordTimes:
        """`words` and `timing`; looked up once, before it is closed."""
        assert self.time_words is not None
        return self.time_words(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine.name, "reason": self.engine.reason or None,
            "languages": list(self.script.languages), "rate": self.sample_rate,
            "audio_s": round(self.audio_s, 4), "wall_s": round(self.wall_s, 3),
            "cached": self.stats.num_cached, "made_again": self.stats.num_retried,
            "devices": self.stats.devices, "segments": self.chunks,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Speech: {self.audio_s:.2f} s at {self.sample_rate} Hz by {self.engine.name}>"

    def read(self, start: int = 0, stop: int | None = None) -> Samples:
        """The samples (mono, fp32) from one to another."""
        import numpy as np

        return np.concatenate([np.zeros(0, np.float32), *self.blocks(start, stop)])

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Samples]:
        """The same in parts: long speech need not be in memory."""
        import numpy as np

        self._file.flush()
        stop = self.num_samples if stop is None else min(stop, self.num_samples)
        for position in range(start, stop, _READ_SAMPLES):
            self._file.seek(position * 4)
            count = min(_READ_SAMPLES, stop - position)
            yield np.frombuffer(self._file.read(count * 4), np.float32)

    def save(self, path: str | Path | BinaryIO, format: str | None = None) -> None:
        """Write it to a file at its target loudness: wav, flac, mp3, opus, m4a, aac or pcm."""
        from anyrig.audio.encode import open_encoder
        from anyrig.audio.loudness import level_parts

        if isinstance(path, str | Path):
            path = Path(path).expanduser()
            format = resolve_format(format, path)
        rate, loudness = self.sample_rate, self.loudness
        parts = level_parts(self.blocks, rate, target_lufs=loudness) if loudness else self.blocks()
        with open_encoder(path, format=format or "wav", rate=rate) as output:
            for part in parts:
                output.write(part)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, chunk: AudioChunk, segment: Segment) -> None:
        self._file.write(chunk.samples.tobytes())
        self.num_samples = chunk.start + len(chunk.samples)
        if chunk.segment == len(self.chunks):  # else it goes on
            self.chunks.append({
                "text": chunk.text, "spoken": segment.spoken, "span": list(chunk.span),
                "start_s": round(chunk.start_s, 4),
            })  # fmt: skip
        self.chunks[-1] |= {
            "end_s": round(chunk.start_s + chunk.duration_s, 4),
            "words": [[w.text, round(w.start_s, 3), round(w.end_s, 3)] for w in chunk.words],
        }
        if chunk.last:
            self.takes.append(TimedTake(segment, *chunk.take, chunk.words))


def describe_workers(stats: SynthesisStats) -> str:
    """How many segments each worker made."""
    counts = sorted(stats.devices.items(), key=lambda pair: (-pair[1], pair[0]))
    some = [f"{name} {count}" for name, count in counts[:_MAX_WORKERS]]
    more = [f"{len(counts) - _MAX_WORKERS} more"] if len(counts) > _MAX_WORKERS else []
    return ", ".join((*some, *more))


def resolve_format(format: str | None, path: Path | None = None) -> str:
    """The format that was requested, by its name or a suffix, or that the file's name implies."""
    from anyrig.audio.formats import FORMATS, find_format

    if not format:
        return find_format(path) if path is not None else "wav"
    name = normalize_format(format)
    for known in FORMATS.values():
        if name == known.name or f".{name}" in known.extensions:
            return known.name
    raise InvalidInputError(
        f"unknown format {format!r}", hint=f"Valid formats: {', '.join(FORMATS)}."
    )


def warn_of_seed(request: VoiceOptions, choice: EngineChoice, on_event: OnEvent) -> None:
    """Report a seed that changes nothing."""
    if request.seed and not choice.info.varies_with_seed:
        message = Message(
            "{seed} has no effect: {engine} gives the same take for every seed",
            seed=OptionRef("seed"),
            engine=choice.name,
        )
        on_event(WarningEvent(message))


def speak(rig: Rig, request: SpeechRequest, on_event: OnEvent) -> Speech:
    """Synthesise a text."""
    with stream(rig, request, on_event) as (speech, chunks):
        for _ in chunks:
            pass
    return speech


@contextmanager
def stream(
    rig: Rig, request: SpeechRequest, on_event: OnEvent, *, listening: bool = False
) -> Iterator[tuple[Speech, Iterator[AudioChunk]]]:
    """Synthesise a text chunk by chunk, each as soon as all before it are made.

    If somebody is `listening` meanwhile, the first chunk is made first, and cut at punctuation if
    the engine is slow.
    """
    if not request.text.strip():
        raise UnspeakableTextError("the text is empty", hint="Give some words.")
    began = time.monotonic()
    on_event(ProgressEvent("detecting the language"))
    choice = choose_engine(rig, request, detect_language(request.text, request))
    warn_of_seed(request, choice, on_event)
    with borrow_synthesizer(rig, request, choice, len(request.text)) as synthesizer:
        on_event(ProgressEvent("splitting the text"))
        num_warnings = len(synthesizer.warnings)  # those of earlier texts are not repeated
        speed = _find_seconds_per_character(rig, request, choice, synthesizer) if listening else 0.0
        script = prepare_script(rig, request, choice, seconds_per_character=speed)
        for warning in script.warnings:
            on_event(WarningEvent(warning))
        lane: Lane = "live" if listening else "bulk"
        with synthesizer.read(script.segments, lane=lane, fresh=request.fresh) as reading:
            speech = Speech(
                choice, script, synthesizer.rate, request.loudness, reading.stats,
                time_words=partial(_time_words, rig, request),
            )  # fmt: skip
            try:
                yield (
                    speech,
                    collect_speech(synthesizer, reading, speech, on_event, fresh=request.fresh),
                )
            except BaseException:
                speech.close()
                raise
        speech.wall_s = time.monotonic() - began
        if find_broker(rig, request):
            speech.workers = describe_workers(speech.stats)
        for warning in synthesizer.warnings[num_warnings:]:
            on_event(WarningEvent(warning))


def collect_speech(
    synthesizer: Synthesizer,
    reading: ScriptReading,
    speech: Speech,
    on_event: OnEvent,
    *,
    fresh: bool = False,
) -> Iterator[AudioChunk]:
    """The chunks of a reading, on their way into its `Speech`."""
    segments, stats = speech.script.segments, reading.stats
    on_event(ProgressEvent("loading the voice", 0, len(segments)))
    to_make = sum(len(segment.utterance.text) for segment in segments)
    to_make -= 0 if fresh else synthesizer.count_cached_characters(segments)
    made, num_cached = 0, 0
    for chunk in reading.chunks():
        segment = segments[chunk.segment]
        speech._append(chunk, segment)
        if chunk.last:
            if stats.num_cached == num_cached:
                made += len(segment.utterance.text)
            num_cached = stats.num_cached
            detail = " ".join(chunk.text.split())
            on_event(
                ProgressEvent(
                    "speaking", len(speech.chunks), len(segments), detail, speech.audio_s, made,
                    max(made, to_make),
                )
            )  # fmt: skip
        yield chunk
    for spoken in stats.doubtful:
        speech.chunks[spoken.index]["problems"] = list(spoken.problems)


def _time_words(rig: Rig, request: SpeechRequest, speech: Speech) -> WordTimes:
    from anyrig.app.word_times import time_takes

    return time_takes(
        rig, request, speech.script.source, speech.takes, speech.read, speech.sample_rate
    )


def _find_seconds_per_character(
    rig: Rig, request: SpeechRequest, choice: EngineChoice, synthesizer: Synthesizer
) -> float:
    """What the engine was measured to need, by this synthesizer or by books; 0 if unknown."""
    measured = synthesizer.seconds_per_character
    if measured or not rig.folders.rates.is_file():
        return measured
    from anyrig.speech.voice_rates import VoiceRates

    voice = resolve_voice(rig, request, choice)
    rate = VoiceRates(rig.folders.rates).load(choice.name, voice)
    return rate.seconds_per_character / rate.times_real_time if rate.times_real_time else 0.0


def plan_speech(rig: Rig, request: SpeechRequest) -> tuple[EngineChoice, Script]:
    """What would be spoken, and by which engine."""
    choice = choose_engine(rig, request, detect_language(request.text, request))
    script = prepare_script(rig, request, choice)
    for warning in script.warnings:
        rig.warn(warning)
    return choice, script


def prepare_script(
    rig: Rig,
    request: SynthesisOptions,
    choice: EngineChoice,
    text: str | None = None,
    *,
    files: bool = True,
    **more: Any,
) -> Script:
    """Split and normalise a text, or that of the request, as an engine will speak it.

    With `files` voices may be paths of recordings; `more` are fields of `SpeechOptions`.
    """
    from anyrig.errors import UnsupportedLanguageError
    from anyrig.speech.prepare import prepare

    if text is None:
        assert isinstance(request, SpeechRequest)
        text = request.text
    is_ssml = True if getattr(request, "ssml", False) else "auto"
    fields = {"language": request.language, "ssml": is_ssml, **more}
    options = replace(build_speech_options(rig, request, choice), **fields)
    try:
        script = prepare(text, options)
    except UnsupportedLanguageError as error:
        whole = detect_language(text, request)
        raise suggest_engines(rig, error, request, choice, text_language=whole) from error
    check_voices(script.segments, choice, files=files)
    check_no_recordings(rig, request, script.segments)
    return script


def build_speech_options(
    rig: Rig, request: SynthesisOptions, choice: EngineChoice
) -> SpeechOptions:
    """How an engine reads: what is requested of it and what it can do."""
    from anyrig.speech.lexicon import Lexicon
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import Pauses

    voice = resolve_voice(rig, request, choice)
    return SpeechOptions(
        max_chars=choice.info.max_chars,
        reads=choice.info.reads,
        languages=choice.weights.languages,
        voice=voice,
        voices=_choose_voices(choice, voice),
        rate=request.rate,
        seed=request.seed,
        lexicon=load_lexicon(rig, request) or Lexicon(),
        pauses=Pauses(
            clause_s=request.pause_clause,
            sentence_s=request.pause_sentence,
            paragraph_s=request.pause_paragraph,
            heading_s=request.pause_heading,
            dialogue_s=request.pause_dialogue,
        ),
    )


def load_lexicon(rig: Rig, request: VoiceOptions) -> Lexicon | None:
    return None if request.lexicon is None else rig.lexicons.load(request.lexicon)[0]


def check_voices(segments: Sequence[Segment], choice: EngineChoice, *, files: bool = True) -> None:
    """Check that each segment's voice exists and speaks its language, before anything is loaded."""
    from anyrig.speech.engine import Utterance
    from anyrig.speech.voices import choose_voice, is_recording

    known = choice.weights.voices
    lines = [segment.utterance for segment in segments if segment.utterance.voice]
    for voice, language in dict.fromkeys((line.voice, line.language) for line in lines):
        check_voice(voice, choice, files=files)
        if known and not (files and is_recording(voice)):
            for name in split_blend(voice):
                choose_voice(known, Utterance("", language, name))


def _choose_voices(choice: EngineChoice, requested: str) -> dict[str, str]:
    """The voice of each language that the requested one does not speak: the engine's first.

    Named here, so that the default voice and the same voice requested by name share cached takes.
    """
    name = split_blend(requested)[0] if requested else ""
    own = next((voice for voice in choice.weights.voices if voice.name == name), None)
    spoken = {own.language, *own.also} if own is not None else set()
    voices: dict[str, str] = {}
    for voice in choice.weights.voices:
        if voice.language not in spoken and (own is not None or not requested):
            voices.setdefault(voice.language, voice.name)
    return voices


@contextmanager
def borrow_synthesizer(
    rig: Rig, request: SynthesisOptions, choice: EngineChoice, num_characters: int
) -> Iterator[Synthesizer]:
    """The synthesizer of `rig.models`: it may be kept for the next text."""
    plan = place_engine(rig, request, choice, num_characters)
    workers = [f"{one.title} {one.workers} {one.threads}" for one in plan.placements]
    limits = (request.memory_gb, request.memory_fraction, request.cluster, request.cluster_local)

    @contextmanager
    def load() -> Iterator[Synthesizer]:
        with (
            open_cache(rig) as cache,
            _open_synthesizer(rig, request, choice, plan, cache) as synthesizer,
        ):
            yield synthesizer

    with rig.models.borrow(
        f"speech {choice.name}, {pluralize(sum(one.workers for one in plan.placements), 'worker')}",
        load,
        version=f"{choice.weights.fingerprint} {choice.options} {workers} {limits}"
        f" {choice.weights.voices_key}",
        exclusive=True,
    ) as synthesizer:
        yield synthesizer


def open_synthesizer(
    rig: Rig,
    request: SynthesisOptions,
    choice: EngineChoice,
    num_characters: int,
    cache: Cache | None,
    *,
    shared: bool = False,
) -> Synthesizer:
    """An engine on every device that suits it; it loads while this goes on.

    Args:
        num_characters: that will be spoken: few are not worth many workers.
        shared: for the clients of a server.
    """
    plan = place_engine(rig, request, choice, num_characters)
    return _open_synthesizer(rig, request, choice, plan, cache, shared=shared)


def _open_synthesizer(
    rig: Rig,
    request: SynthesisOptions,
    choice: EngineChoice,
    plan: PlacementPlan,
    cache: Cache | None,
    *,
    shared: bool = False,
) -> Synthesizer:
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.speech.synthesis import Synthesizer
    from anyrig.work.dispatch import SILENCE_LIMIT_S
    from anyrig.work.live import MAX_WAITING

    if restriction := describe_restriction(choice.info):
        rig.notice(restriction)
    server = rig.settings.server
    if not find_broker(rig, request):
        choice.engine_class.prepare(choice.weights, plan.placements, choice.options, rig.notice)
    return Synthesizer(
        engine=choice.name, weights=choice.weights, plan=plan, environment=rig.environment,
        options=choice.options, cache=cache, stamp=format_stamp(rig, plan),
        known_sizes=KnownBatchSizes(rig.folders.batch_limits),
        silence_limit_s=LIVE_SILENCE_LIMIT_S if shared else SILENCE_LIMIT_S,
        open_pool=open_cluster_pool(
            rig, request, choice, plan, lane="live" if shared else "bulk"
        ),
        shared=shared, max_waiting=server.queue if shared else MAX_WAITING,
        client_share=server.client_share if shared else 1.0,
    )  # fmt: skip


def place_engine(
    rig: Rig, request: SynthesisOptions, choice: EngineChoice, num_characters: int
) -> PlacementPlan:
    """Where the engine's workers run; no more of them than the text keeps busy."""
    if find_broker(rig, request):
        return place_on_cluster(rig, request, choice)
    if not any(gpu.usable for gpu in rig.machine.gpus):
        request = replace(request, no_bench=True)  # nothing to choose between
    workload = replace(
        choice.engine_class.need(choice.weights),
        max_workers=max(1, num_characters // _CHARACTERS_PER_WORKER),
    )
    plan = place(rig, rig.choose_device(request), workload, request)
    return test_devices(rig, plan, request)


# -- checking by listening -------------------------------------------------------------------------


@dataclass(frozen=True)
class SegmentCheck:
    """A segment and what the recogniser heard."""

    segment: int
    expected: str
    heard: str
    errors: int
    words: int
    differences: tuple[tuple[str, str], ...]
    """Words as they should be and as they were heard."""

    json_properties: ClassVar = {"word_error_rate": "word_error_rate"}

    @property
    def word_error_rate(self) -> float:
        return self.errors / self.words if self.words else 0.0


@dataclass(frozen=True)
class WordCheck:
    """All segments of a text and what the recogniser heard."""

    segments: tuple[SegmentCheck, ...]
    recogniser: str

    json_properties: ClassVar = {"word_error_rate": "word_error_rate"}

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.segments)

    @property
    def words(self) -> int:
        return sum(one.words for one in self.segments)

    @property
    def word_error_rate(self) -> float:
        return self.errors / self.words if self.words else 0.0


def check_recognisers(script: Script) -> None:
    """Check that there is a recogniser for each language, before anything is spoken."""
    from anyrig.transcription.models import find_verifier

    for language in dict.fromkeys(segment.utterance.language for segment in script.segments):
        find_verifier(language)


def check_words(rig: Rig, speech: Speech, options: DeviceOptions, on_event: OnEvent) -> WordCheck:
    """Listen to everything that was synthesised, with a process on each core."""
    from anyrig.transcription.compare import count_word_errors
    from anyrig.transcription.engines import Recording
    from anyrig.transcription.models import find_verifier

    segments, checks, recognisers = speech.script.segments, {}, []
    for language in dict.fromkeys(segment.utterance.language for segment in segments):
        numbers = [
            n for n, segment in enumerate(segments) if segment.utterance.language == language
        ]
        model = find_verifier(language)
        recognisers.append(model.name)
        recordings = [
            Recording(_read_segment(speech, number), speech.sample_rate, language)
            for number in numbers
        ]
        with open_recogniser(rig, options, model, len(recordings)) as recogniser:
            for number, outcome in zip(numbers, recogniser.transcribe(recordings), strict=True):
                if outcome.result is None:
                    problem = outcome.failure.message if outcome.failure else "no result"
                    message = Message(
                        "segment {number} could not be recognised: {problem}",
                        number=number, problem=problem,
                    )  # fmt: skip
                    on_event(WarningEvent(message))
                    continue
                text, transcript = segments[number].spoken, outcome.result.text
                found = count_word_errors(text, transcript, language)
                checks[number] = SegmentCheck(
                    number, text, transcript, found.errors, found.words, found.pairs
                )
                on_event(ProgressEvent("listening", len(checks), len(segments), transcript))
    names = ", ".join(dict.fromkeys(recognisers))
    return WordCheck(tuple(checks[number] for number in sorted(checks)), names)


def _read_segment(speech: Speech, number: int) -> Samples:
    import numpy as np

    chunk = speech.chunks[number]
    start, stop = (round(chunk[name] * speech.sample_rate) for name in ("start_s", "end_s"))
    samples = speech.read(start, stop)
    return samples if len(samples) else np.zeros(1, np.float32)


def open_recogniser(
    rig: Rig, options: DeviceOptions, model: RecognitionModel, num_recordings: int, *,
    words: bool = False,
) -> TakeTranscriber:  # fmt: skip
    """A recogniser of takes, on the CPU whatever speaks: its models are small."""
    from anyrig.placement import Workload, plan_placement
    from anyrig.transcription.transcribe import TakeTranscriber

    workload = Workload(
        "the recogniser", libraries=("onnx",), gpu=False, cores=1, worker_bytes=600 << 20,
        max_workers=max(1, num_recordings // 4),
    )  # fmt: skip
    plan = plan_placement(
        rig.machine, rig.choose_cpu(options), workload, environment=rig.environment
    )
    return TakeTranscriber(
        model, plan.placements, environment=rig.environment,
        folder=str(rig.folders.models / "recognise"), words=words,
    )  # fmt: skip
