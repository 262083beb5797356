"""What was heard of the pieces of a recording, put together in order: one text with times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anyrig.audio import SPEECH_RATE
from anyrig.transcription.cut import Piece, Quiet
from anyrig.transcription.protocol import Line, Transcript
from anyrig.transcription.stitch import stitched

if TYPE_CHECKING:
    from anyrig.audio.decode import AudioFile
    from anyrig.transcription.tongue import Tongue


class Span(NamedTuple):
    """Where a piece lies, in samples."""

    start: int
    end: int
    overlap: int = 0


@dataclass(frozen=True)
class Progress:
    """How far it is."""

    heard_s: float
    """Of the recording, silence included."""
    whole_s: float | None
    text: str = ""
    """What was heard last."""
    kept: bool = False
    """Whether that was kept from an earlier run."""


@dataclass(frozen=True)
class Gap:
    """A stretch that could not be heard."""

    start_s: float
    end_s: float
    why: str


@dataclass(frozen=True)
class Transcription:
    """All that is said in a recording."""

    name: str
    duration_s: float
    language: str
    """ISO 639-1; the most heard where there are several."""
    language_reason: str
    languages: tuple[tuple[str, float], ...]
    """Those found, with their share of what is said."""
    model: str
    engine: str
    lines: tuple[Line, ...]
    translated: bool = False
    quiet: tuple[Quiet, ...] = ()
    """Stretches in which nobody speaks, in samples of `SPEECH_RATE`."""
    pieces: tuple[tuple[float, float], ...] = ()
    """What was heard, in seconds."""
    gaps: tuple[Gap, ...] = ()
    num_kept: int = 0
    """Pieces that an earlier run had heard."""
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line."""
        return " ".join(line.text for line in self.lines)

    @property
    def doubtful(self) -> tuple[Line, ...]:
        """Lines that something speaks against."""
        return tuple(line for line in self.lines if line.doubt)


class Gathered:
    """A transcription while it grows."""

    def __init__(self, sound: AudioFile, tell: Callable[[Progress], None]) -> None:
        self._sound, self._tell = sound, tell
        self._quiet: list[Quiet] = []
        self._spans: list[Span] = []
        self._lines: list[list[Line]] = []
        """Of each piece."""
        self._gaps: list[Gap] = []
        self._spoken_s: dict[str, float] = {}
        self._end = self._num_kept = 0

    def watched(self, parts: Iterator[Piece | Quiet]) -> Iterator[Piece | Quiet]:
        """The same parts; what is quiet, and where the end is, is noted on the way."""
        for part in parts:
            self._end = part.end
            if isinstance(part, Quiet):
                self._note_quiet(part)
            yield part

    def _note_quiet(self, part: Quiet) -> None:
        last = self._quiet[-1] if self._quiet else None
        if last is not None and last.end == part.start and last.steady == part.steady:
            self._quiet[-1] = Quiet(last.start, part.end, part.steady)
        else:
            self._quiet.append(part)

    def add(self, span: Span, heard: Transcript | str, *, kept: bool) -> None:
        """What was heard of the next piece, or why nothing was."""
        lines: list[Line] = []
        if isinstance(heard, str):
            self._gaps.append(Gap(span.start / SPEECH_RATE, span.end / SPEECH_RATE, heard))
        else:
            lines = _ordered(heard.lines, span)
            self._num_kept += kept
            if lines:
                lasts = sum(line.end_s - line.start_s + 0.01 for line in lines)
                code = heard.language
                self._spoken_s[code] = self._spoken_s.get(code, 0.0) + lasts
        if span.overlap and lines and self._lines and self._lines[-1]:
            begin = span.start / SPEECH_RATE
            self._lines[-1], lines = stitched(
                self._lines[-1], lines, begin, begin + span.overlap / SPEECH_RATE
            )
        self._spans.append(span)
        self._lines.append(lines)
        text = lines[-1].text if lines else ""
        self._tell(Progress(span.end / SPEECH_RATE, self._sound.duration_s, text, kept))

    def finished(self, tongue: Tongue, *, translated: bool) -> Transcription:
        """All of it."""
        whole = sum(self._spoken_s.values())
        ranked = sorted(self._spoken_s.items(), key=lambda one: one[1], reverse=True)
        shares = tuple((code, time / whole) for code, time in ranked)
        return Transcription(
            name=self._sound.name,
            duration_s=self._end / SPEECH_RATE,
            language=tongue.language or (shares[0][0] if shares else ""),
            language_reason=tongue.reason,
            languages=shares,
            model=tongue.model.name,
            engine=tongue.model.engine,
            lines=tuple(_monotone([line for lines in self._lines for line in lines])),
            translated=translated,
            quiet=tuple(self._quiet),
            pieces=tuple(
                (span.start / SPEECH_RATE, span.end / SPEECH_RATE) for span in self._spans
            ),
            gaps=tuple(self._gaps),
            num_kept=self._num_kept,
            warnings=tuple(self._sound.warnings),
        )


def _ordered(lines: tuple[Line, ...], span: Span) -> list[Line]:
    """A piece's lines in the time of the whole, and within the piece."""
    begin, end = span.start / SPEECH_RATE, span.end / SPEECH_RATE
    found = []
    for line in lines:
        moved = line.later(begin)
        start_s = min(max(begin, moved.start_s), end)
        found.append(replace(moved, start_s=start_s, end_s=min(max(start_s, moved.end_s), end)))
    return found


def _monotone(lines: list[Line]) -> Iterator[Line]:
    """Lines that begin after each other; an end that reaches into the next one is drawn back."""
    at = 0.0
    for number, line in enumerate(lines):
        start_s = max(at, line.start_s)
        following = lines[number + 1].start_s if number + 1 < len(lines) else line.end_s
        end_s = max(start_s, min(line.end_s, max(following, start_s)))
        at = start_s
        yield replace(line, start_s=start_s, end_s=end_s)
