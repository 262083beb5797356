"""`--verify`: each segment is listened to, and its wrong words are counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.show import Progress, print_warning
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.cli.deliver import Delivered, Spool
    from anyrig.speech.script import Script

_MOST_PAIRS = 6


@dataclass(frozen=True)
class Checked:
    """A segment, as it was heard."""

    segment: int
    said: str
    heard: str
    errors: int
    words: int
    pairs: tuple[tuple[str, str], ...]

    @property
    def rate(self) -> float:
        """Wrong words for each word."""
        return self.errors / self.words if self.words else 0.0

    def text(self) -> str:
        """In a line: its number, its share of wrong words, and which they are."""
        told = f"{self.segment:>4}  {self.rate:>6.1%}  {self.errors} of {self.words}"
        if not self.errors:
            return told
        wrong = [f"{said or '-'} / {heard or '-'}" for said, heard in self.pairs[:_MOST_PAIRS]]
        more = ", ..." if len(self.pairs) > _MOST_PAIRS else ""
        return f"{told}  {', '.join(wrong)}{more}"


@dataclass(frozen=True)
class Heard:
    """All segments, as they were heard."""

    checked: tuple[Checked, ...]
    recogniser: str

    @property
    def rate(self) -> float:
        """Wrong words for each word."""
        words = sum(one.words for one in self.checked)
        return sum(one.errors for one in self.checked) / words if words else 0.0

    def text(self) -> str:
        """Wrong words of each segment, and of all."""
        lines = [one.text() for one in self.checked]
        errors, words = (sum(getattr(one, k) for one in self.checked) for k in ("errors", "words"))
        differ = "differs" if errors == 1 else "differ"
        return "\n".join(
            [
                *lines,
                f"heard by {self.recogniser}: {errors} of {pluralize(words, 'word')} {differ} "
                f"({self.rate:.1%}), in {pluralize(len(self.checked), 'segment')}",
            ]
        )

    def plain(self) -> dict[str, Any]:
        """For programs."""
        rows = [
            {"segment": one.segment, "said": one.said, "heard": one.heard, "errors": one.errors,
             "words": one.words, "word_error_rate": one.rate} for one in self.checked
        ]  # fmt: skip
        return {"recogniser": self.recogniser, "word_error_rate": self.rate, "segments": rows}


def check_installed(languages: tuple[str, ...]) -> None:
    """That there is a recogniser for each language, before anything is spoken."""
    from anyrig.recognise.choose import choose

    for language in languages:
        choose(language)


def verify(context: Context, script: Script, delivered: Delivered, spool: Spool) -> Heard:
    """Listen to everything that was delivered, a process on each core."""
    found: dict[int, Checked] = {}
    names: list[str] = []
    languages = dict.fromkeys(segment.line.language for segment in script.segments)
    with Progress(len(script.segments), "listening") as progress:
        for language in languages:
            numbers = [n for n, s in enumerate(script.segments) if s.line.language == language]
            names.append(_hear(context, script, delivered, spool, numbers, found, progress))
    return Heard(tuple(found[n] for n in sorted(found)), ", ".join(dict.fromkeys(names)))


def _hear(
    context: Context,
    script: Script,
    delivered: Delivered,
    spool: Spool,
    numbers: list[int],
    found: dict[int, Checked],
    progress: Progress,
) -> str:
    from anyrig.recognise.choose import recipe
    from anyrig.recognise.compare import word_errors
    from anyrig.recognise.protocol import Recording, Transcript
    from anyrig.work.outcome import ItemOutcome
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    language = script.segments[numbers[0]].line.language
    how = recipe(language, folder=str(Path(context.folders.models, "recognise")))
    parts = [Recording(_audio(delivered, spool, n), delivered.rate, language) for n in numbers]
    with WorkerPool(
        LocalWorkers(_seats(context, len(parts)), how, environment=context.environment)
    ) as pool:
        outcomes: Any = pool.run(parts, cost=lambda part: part.cost)
        outcome: ItemOutcome[Transcript]
        for number, outcome in zip(numbers, outcomes, strict=True):
            said = script.segments[number].line.text
            heard = outcome.result.text if outcome.result is not None else ""
            if outcome.failure is not None:
                print_warning(f"segment {number} could not be heard: {outcome.failure.message}")
                continue
            counted = word_errors(said, heard, language)
            found[number] = Checked(
                number, said, heard, counted.errors, counted.words, counted.pairs
            )
            progress.done()
            progress.step(heard[:48])
    return how.name


def _audio(delivered: Delivered, spool: Spool, number: int) -> Any:
    import numpy as np

    told = delivered.chunks[number]
    start, stop = (round(told[name] * delivered.rate) for name in ("start_s", "end_s"))
    return np.concatenate(list(spool.parts(start, stop)) or [np.zeros(1, np.float32)])


def _seats(context: Context, num_parts: int) -> Any:
    """The CPU, whatever speaks: the recognisers are small."""
    from anyrig.placement import Workload, plan_placement

    need = Workload(
        "the recogniser", libraries=("onnx",), gpu=False, cores=1, worker_bytes=600 << 20,
        most_workers=max(1, num_parts // 4),
    )  # fmt: skip
    return plan_placement(
        context.machine, context.choose_cpu(), need, environment=context.environment
    ).placements
