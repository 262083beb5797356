"""A recording of any length into text with times: split, transcribed on every device, joined.

    with Transcriber(place, environment=environment, folder=folder, cache=cache) as transcriber:
        with open_audio(path) as file:
            transcription = transcriber.transcribe(file)

Every chunk is cached, so a run that was stopped continues where it was. A chunk that fails is
named, and the others go on.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from anyrig.audio import SPEECH_RATE
from anyrig.storage.keys import CacheKey
from anyrig.transcription.engines import Recording, Task, TranscribedLine, Transcript, has_cuda
from anyrig.transcription.formats import from_json, to_json
from anyrig.transcription.models import BASE, WHISPER_BASE, RecognitionModel, find_model
from anyrig.transcription.segment import SilentStretch, SpeechChunk, split_speech
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.audio.decode import AudioFile
    from anyrig.placement import Placement, PlacementPlan, Workload
    from anyrig.storage.cache import Cache
    from anyrig.storage.keys import JsonValue
    from anyrig.work.outcome import ItemOutcome

CACHE_KIND = "transcript"
_CHUNKS_PER_WORKER = 4  # waiting; one is 1.8 MB
_CHUNKS_PER_GPU = 64  # where batches are formed
_NUM_LANGUAGE_CHUNKS = 3
_SURE = 0.6

Place = Callable[["Workload"], "PlacementPlan"]
"""Where work runs on this machine."""


@dataclass(frozen=True)
class TranscriptionOptions:
    language: str = ""
    """ISO 639-1; detected when empty."""
    model: str = ""
    """A folder or a name; Whisper base when empty."""
    engine: str = ""
    translate: bool = False
    """Into English."""
    words: bool = False
    """With the times of words."""
    fresh: bool = False
    """Ignore what is cached."""
    fetch: bool = False
    """Download a model of the hub that is not here yet."""


@dataclass(frozen=True)
class RecordingProgress:
    done_s: float
    """Of the recording, silence included."""
    whole_s: float | None
    text: str = ""
    """The last line."""
    cached: bool = False
    """Whether that is from an earlier run."""


@dataclass(frozen=True)
class Gap:
    """A stretch that could not be transcribed."""

    start_s: float
    end_s: float
    reason: str


class ChosenLanguage(NamedTuple):
    """Who transcribes a recording, in which language, and why."""

    model: RecognitionModel
    code: str
    """Empty: detected for each chunk."""
    reason: str


@dataclass(frozen=True)
class Transcription:
    """All that is said in a recording."""

    name: str
    duration_s: float
    language: str
    """ISO 639-1; the most frequent where there are several."""
    language_reason: str
    languages: tuple[tuple[str, float], ...]
    """Those detected, with their share of what is said."""
    model: str
    engine: str
    lines: tuple[TranscribedLine, ...]
    translated: bool = False
    silences: tuple[SilentStretch, ...] = ()
    """Stretches in which nobody speaks, in samples of `SPEECH_RATE`."""
    chunks: tuple[tuple[float, float], ...] = ()
    """What was transcribed, in seconds."""
    gaps: tuple[Gap, ...] = ()
    num_cached: int = 0
    """Chunks of an earlier run."""
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line."""
        return " ".join(line.text for line in self.lines)

    @property
    def doubtful(self) -> tuple[TranscribedLine, ...]:
        return tuple(line for line in self.lines if line.doubt)


class TakeTranscriber:
    """A model for short recordings, in workers that stay for the next ones.

    Args:
        model: with word times if `words` is set.
        placements: where workers run.
        environment: this process's own.
        folder: where a model that comes in parts is put together.
        words: with the times of words.
    """

    def __init__(
        self,
        model: RecognitionModel,
        placements: Sequence[Placement],
        *,
        environment: Mapping[str, str],
        folder: str,
        words: bool = False,
    ) -> None:
        self._model = model
        self._ahead = _CHUNKS_PER_WORKER * sum(placement.workers for placement in placements)
        factory = model.build_factory(folder, words=words)
        workers = LocalWorkers(tuple(placements), factory, environment=environment)
        self._pool = WorkerPool(workers)
        self._lock = threading.Lock()

    def transcribe(self, recordings: Iterable[Recording]) -> Iterator[ItemOutcome[Transcript]]:
        """The outcome of each, in order; another thread waits for its turn."""
        with self._lock:
            yield from self._pool.run(
                recordings, cost=self._model.estimate_cost, look_ahead=self._ahead
            )

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self._pool,)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transcriber:
    """Models on this machine, kept from one recording to the next."""

    def __init__(
        self,
        place: Place,
        *,
        environment: Mapping[str, str],
        folder: str,
        cache: Cache | None = None,
        options: TranscriptionOptions = TranscriptionOptions(),  # noqa: B008 - it is frozen
    ) -> None:
        """Start nothing yet.

        Args:
            place: where work runs.
            environment: this process's own.
            folder: where a model that comes in parts is put together.
            cache: transcripts of earlier runs.
            options: what is wanted.
        """
        self._place, self._environment, self._folder = place, environment, folder
        self._cache, self._options = cache, options
        self._pools: dict[str, tuple[WorkerPool, int]] = {}
        self._model: RecognitionModel | None = None
        if options.model or options.engine or options.language:
            self._model = self._find_model(options.language)

    def _find_model(self, language: str) -> RecognitionModel:
        options = self._options
        return find_model(
            options.model, language=language, engine=options.engine, translate=options.translate,
            words=options.words, fetch=options.fetch,
        )  # fmt: skip

    def transcribe(
        self, file: AudioFile, on_progress: Callable[[RecordingProgress], None] = lambda _: None
    ) -> Transcription:
        """All that is said; `on_progress` is called for every chunk, in order."""
        result = _Result(file, on_progress)
        parts = result.watch(split_speech(file.blocks()))
        language, parts = self._choose_language(parts)
        task: Task = "translate" if self._options.translate else "lines"
        for start, end, made, cached in self._run(parts, language.model, language.code, task):
            result.add(start, end, made, cached=cached)
        return result.finish(language, translated=self._options.translate)

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, where it has any now."""
        return tuple(pool for pool, _ in list(self._pools.values()))

    def close(self) -> None:
        for pool, _ in self._pools.values():
            pool.close()
        self._pools.clear()

    def __enter__(self) -> Transcriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the language ----------------------------------------------------------------------------

    def _choose_language(
        self, parts: Iterator[SpeechChunk | SilentStretch]
    ) -> tuple[ChosenLanguage, Iterator[SpeechChunk | SilentStretch]]:
        """Who transcribes, in which language; and all parts, those looked at included."""
        requested, model = self._options.language, self._model
        if requested and model is not None:
            code = requested.partition("-")[0].lower()
            return ChosenLanguage(model, code, "requested"), parts
        if model is not None and not model.is_multilingual:
            reason = f"the only language of {model.name}"
            return ChosenLanguage(model, model.languages[0], reason), parts
        model = model or find_model(BASE)
        looked: list[SpeechChunk | SilentStretch] = []
        first: list[SpeechChunk] = []
        for part in parts:
            looked.append(part)
            if isinstance(part, SpeechChunk):
                first.append(part)
            if len(first) == _NUM_LANGUAGE_CHUNKS:
                break
        everything = chain(looked, parts)
        if not first:
            return ChosenLanguage(self._model or WHISPER_BASE, "", "no speech found"), everything
        votes = [
            made
            for _, _, made, _ in self._run(iter(first), model, "", "language")
            if isinstance(made, Transcript)
        ]
        code, reason = choose_language(votes)
        return ChosenLanguage(self._model or self._find_model(code), code, reason), everything

    # -- the chunks ------------------------------------------------------------------------------

    def _run(
        self,
        parts: Iterator[SpeechChunk | SilentStretch],
        model: RecognitionModel,
        language: str,
        task: Task,
    ) -> Iterator[tuple[int, int, Transcript | str, bool]]:
        """Start, end and transcript of each chunk, or why there is none; whether it was cached."""
        waiting: deque[tuple[int, int, Transcript | None]] = deque()
        keys: list[str] = []

        def list_missing() -> Iterator[Recording]:
            for part in parts:
                if isinstance(part, SpeechChunk):
                    key = self._build_key(part, model, language, task)
                    cached = self._load(key)
                    waiting.append((part.start, part.end, cached))
                    if cached is None:
                        keys.append(key)
                        yield Recording(part.samples, SPEECH_RATE, language, task)

        def save(outcome: ItemOutcome[Any]) -> None:
            if outcome.result is not None:
                self._save(keys[outcome.index], outcome.result, model)

        for outcome in self._transcribe_missing(list_missing(), model, task, save):
            yield from _take_cached(waiting)
            start, end, _ = waiting.popleft()
            failure = outcome.failure.message if outcome.failure else "no result"
            yield start, end, outcome.result if outcome.result is not None else failure, False
        yield from _take_cached(waiting)

    def _transcribe_missing(
        self,
        missing: Iterator[Recording],
        model: RecognitionModel,
        task: Task,
        save: Callable[[ItemOutcome[Any]], None],
    ) -> Iterator[ItemOutcome[Transcript]]:
        """No worker is started where everything is cached."""
        first = next(missing, None)
        if first is not None:
            pool, ahead = self._open_pool(model, task)
            yield from pool.run(
                chain([first], missing), cost=model.estimate_cost, look_ahead=ahead, on_outcome=save
            )

    def _open_pool(self, model: RecognitionModel, task: Task) -> tuple[WorkerPool, int]:
        """Workers of a model; one alone to detect the language where another may then be chosen."""
        name, alone = f"{model.name} {model.fingerprint}", False
        if name not in self._pools and task == "language" and self._model is None:
            name, alone = f"language by {name}", True
        if name not in self._pools:
            plan = self._plan_placement(model, 1 if alone else 1 << 30)
            factory = model.build_factory(self._folder, words=self._options.words)
            workers = LocalWorkers(
                plan.placements, factory, environment=self._environment, fallback=plan.fallback
            )
            batches = any(each.device.kind == "gpu" for each in plan.placements)
            num_workers = sum(each.workers for each in plan.placements)
            ahead = _CHUNKS_PER_GPU if batches else _CHUNKS_PER_WORKER * num_workers
            self._pools[name] = WorkerPool(workers), ahead
        return self._pools[name]

    def _plan_placement(self, model: RecognitionModel, max_workers: int) -> PlacementPlan:
        """CTranslate2 uses NVIDIA's GPUs only."""
        if model.engine != "whisper":
            return self._place(model.describe_workload(max_workers))
        plan = self._place(model.describe_workload(max_workers, cuda=True))
        gpus = [each.device for each in plan.placements if each.device.kind == "gpu"]
        if not gpus:
            return plan
        if any(gpu.vendor == "nvidia" for gpu in gpus) and has_cuda():
            others = {gpu.id for gpu in gpus if gpu.vendor != "nvidia"}
            fit = tuple(each for each in plan.placements if each.device.id not in others)
            return replace(plan, placements=fit)
        return self._place(model.describe_workload(max_workers))

    # -- the cache -------------------------------------------------------------------------------

    def _build_key(
        self, chunk: SpeechChunk, model: RecognitionModel, language: str, task: Task
    ) -> str:
        audio = (chunk.samples * 32767.0).astype("<i2").tobytes()
        options: dict[str, JsonValue] = {
            "language": language, "task": task, "words": self._options.words
        }  # fmt: skip
        return CacheKey(
            CACHE_KIND, hashlib.sha256(audio).hexdigest(), f"transcribe {model.engine}",
            model.version, model.fingerprint, options=options,
        ).digest  # fmt: skip

    def _load(self, key: str) -> Transcript | None:
        if self._cache is None or self._options.fresh:
            return None
        found = self._cache.get(key)
        return None if found is None else from_json(found.data)

    def _save(self, key: str, made: Transcript, model: RecognitionModel) -> None:
        if self._cache is not None:
            data = json.dumps(to_json(made), ensure_ascii=False).encode()
            put = self._cache.replace if self._options.fresh else self._cache.put
            put(key, data, kind=CACHE_KIND, metadata={"engine": model.name})


def _take_cached(
    waiting: deque[tuple[int, int, Transcript | None]],
) -> Iterator[tuple[int, int, Transcript | str, bool]]:
    """The cached chunks that come before the next that is not."""
    while waiting and (cached := waiting[0][2]) is not None:
        start, end, _ = waiting.popleft()
        yield start, end, cached, True


def choose_language(votes: Sequence[Transcript]) -> tuple[str, str]:
    """The language of the first chunks, empty when there are several; and the reason."""
    likeliest = [vote.languages[0] for vote in votes if vote.languages]
    if not likeliest:
        return "", "language not detected; detecting it for each segment"
    sure = {code for code, share in likeliest if share >= _SURE}
    if len(sure) > 1:
        names = ", ".join(sorted(sure))
        return (
            "",
            f"several languages in the first segments ({names}); detecting it for each segment",
        )
    weights: dict[str, float] = {}
    for vote in votes:
        for code, share in vote.languages:
            weights[code] = weights.get(code, 0.0) + share
    code, weight = max(weights.items(), key=lambda one: one[1])
    return code, f"detected from the first segments, {weight / len(likeliest):.0%} confidence"


@dataclass
class _Result:
    """A transcription while it grows."""

    file: AudioFile
    on_progress: Callable[[RecordingProgress], None]
    silences: list[SilentStretch] = field(default_factory=list)
    chunks: list[tuple[float, float]] = field(default_factory=list)
    lines: list[TranscribedLine] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    spoken_s: dict[str, float] = field(default_factory=dict)
    end: int = 0
    num_cached: int = 0

    def watch(
        self, parts: Iterator[SpeechChunk | SilentStretch]
    ) -> Iterator[SpeechChunk | SilentStretch]:
        """The same parts; silences and the end are noted on the way."""
        for part in parts:
            self.end = part.end
            if isinstance(part, SilentStretch):
                last = self.silences[-1] if self.silences else None
                if last is not None and last.end == part.start and last.steady == part.steady:
                    self.silences[-1] = SilentStretch(last.start, part.end, part.steady)
                else:
                    self.silences.append(part)
            yield part

    def add(self, start: int, end: int, made: Transcript | str, *, cached: bool) -> None:
        """The transcript of the next chunk, or why there is none."""
        start_s, end_s = start / SPEECH_RATE, end / SPEECH_RATE
        text = ""
        if isinstance(made, str):
            self.gaps.append(Gap(start_s, end_s, made))
        else:
            self.num_cached += cached
            for line in made.lines:
                moved = line.shift(start_s)
                at_s = max(moved.start_s, self.lines[-1].end_s if self.lines else 0.0, start_s)
                at_s = min(at_s, end_s)
                self.lines.append(
                    replace(moved, start_s=at_s, end_s=min(max(at_s, moved.end_s), end_s))
                )
                lasts_s = self.lines[-1].end_s - at_s + 0.01
                self.spoken_s[made.language] = self.spoken_s.get(made.language, 0.0) + lasts_s
                text = line.text
        self.chunks.append((start_s, end_s))
        self.on_progress(RecordingProgress(end_s, self.file.duration_s, text, cached))

    def finish(self, language: ChosenLanguage, *, translated: bool) -> Transcription:
        whole_s = sum(self.spoken_s.values())
        ranked = sorted(self.spoken_s.items(), key=lambda one: one[1], reverse=True)
        shares = tuple((code, time / whole_s) for code, time in ranked)
        return Transcription(
            name=self.file.name,
            duration_s=self.end / SPEECH_RATE,
            language=language.code or (shares[0][0] if shares else ""),
            language_reason=language.reason,
            languages=shares,
            model=language.model.name,
            engine=language.model.engine,
            lines=tuple(self.lines),
            translated=translated,
            silences=tuple(self.silences),
            chunks=tuple(self.chunks),
            gaps=tuple(self.gaps),
            num_cached=self.num_cached,
            warnings=tuple(self.file.warnings),
        )
