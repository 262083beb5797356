"""Checking speech by listening to it: a recogniser transcribes each segment; errors are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import DeviceOptions
from anyrig.app.events import OnEvent, ProgressEvent, WarningEvent

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.app.speech import Speech
    from anyrig.placement import Placement


@dataclass(frozen=True)
class SegmentCheck:
    """A segment and what the recogniser heard."""

    segment: int
    said: str
    heard: str
    errors: int
    words: int
    differences: tuple[tuple[str, str], ...]
    """Words as they should be and as they were heard."""

    @property
    def word_error_rate(self) -> float:
        return self.errors / self.words if self.words else 0.0


@dataclass(frozen=True)
class WordCheck:
    """All segments of a text and what the recogniser heard."""

    segments: tuple[SegmentCheck, ...]
    recogniser: str

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.segments)

    @property
    def words(self) -> int:
        return sum(one.words for one in self.segments)

    @property
    def word_error_rate(self) -> float:
        return self.errors / self.words if self.words else 0.0

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"segment": one.segment, "said": one.said, "heard": one.heard, "errors": one.errors,
             "words": one.words, "word_error_rate": one.word_error_rate} for one in self.segments
        ]  # fmt: skip
        return {
            "recogniser": self.recogniser, "word_error_rate": self.word_error_rate,
            "segments": rows,
        }  # fmt: skip


def check_recognisers(languages: Iterable[str]) -> None:
    """Check that there is a recogniser for each language, before anything is spoken."""
    from anyrig.recognise.choose import choose

    for language in dict.fromkeys(languages):
        choose(language)


def check_words(rig: Rig, speech: Speech, options: DeviceOptions, on_event: OnEvent) -> WordCheck:
    """Listen to everything that was synthesised, with a process on each core."""
    segments = speech.script.segments
    checks: dict[int, SegmentCheck] = {}
    recognisers: list[str] = []
    for language in dict.fromkeys(segment.line.language for segment in segments):
        numbers = [n for n, s in enumerate(segments) if s.line.language == language]
        recognisers.append(
            _check_language(rig, speech, options, language, numbers, checks, on_event)
        )
    names = ", ".join(dict.fromkeys(recognisers))
    return WordCheck(tuple(checks[number] for number in sorted(checks)), names)


def _check_language(
    rig: Rig,
    speech: Speech,
    options: DeviceOptions,
    language: str,
    numbers: Sequence[int],
    checks: dict[int, SegmentCheck],
    on_event: OnEvent,
) -> str:
    from anyrig.recognise.choose import recipe
    from anyrig.recognise.compare import word_errors
    from anyrig.recognise.protocol import Recording
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    factory = recipe(language, folder=str(Path(rig.folders.models, "recognise")))
    recordings = [
        Recording(_read_segment(speech, number), speech.sample_rate, language) for number in numbers
    ]
    placements = _place_recogniser(rig, options, len(recordings))
    workers = LocalWorkers(placements, factory, environment=rig.environment)
    with WorkerPool(workers) as pool:
        outcomes: Any = pool.run(recordings, cost=lambda recording: recording.cost)
        for number, outcome in zip(numbers, outcomes, strict=True):
            if outcome.failure is not None:
                message = f"segment {number} could not be recognised: {outcome.failure.message}"
                on_event(WarningEvent(message))
                continue
            said, heard = speech.script.segments[number].line.text, outcome.result.text
            found = word_errors(said, heard, language)
            checks[number] = SegmentCheck(
                number, said, heard, found.errors, found.words, found.pairs
            )
            total = len(speech.script.segments)
            on_event(ProgressEvent("listening", len(checks), total, heard))
    return factory.name


def _read_segment(speech: Speech, number: int) -> Any:
    import numpy as np

    chunk = speech.chunks[number]
    start, stop = (round(chunk[name] * speech.sample_rate) for name in ("start_s", "end_s"))
    return np.concatenate(list(speech.read(start, stop)) or [np.zeros(1, np.float32)])


def _place_recogniser(
    rig: Rig, options: DeviceOptions, num_recordings: int
) -> tuple[Placement, ...]:
    """On the CPU, whatever speaks: the recognisers are small."""
    from anyrig.placement import Workload, plan_placement

    workload = Workload(
        "the recogniser", libraries=("onnx",), gpu=False, cores=1, worker_bytes=600 << 20,
        most_workers=max(1, num_recordings // 4),
    )  # fmt: skip
    plan = plan_placement(
        rig.machine, rig.choose_cpu(options), workload, environment=rig.environment
    )
    return plan.placements
