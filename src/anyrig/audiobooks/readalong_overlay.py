"""Which words light up when: a part's clips, and the SMIL file that tells them to a reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.audiobooks.readalong_pages import Page, Piece

if TYPE_CHECKING:
    from anyrig.audiobooks.timeline import Cue, Timeline


@dataclass(frozen=True)
class Clip:
    """What of a part's audio belongs to a piece of its text, in milliseconds."""

    piece: Piece
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Track:
    """A part that is heard: its audio and its clips."""

    file: str
    media_type: str
    clips: tuple[Clip, ...]

    @property
    def duration_ms(self) -> int:
        """Of all clips: they follow on each other."""
        return sum(clip.end_ms - clip.start_ms for clip in self.clips)


def by_part(timeline: Timeline) -> dict[int, list[Cue]]:
    """The cues of each part, in the order in which they are heard."""
    found: dict[int, list[Cue]] = {}
    for cue in sorted(timeline.cues, key=lambda cue: cue.start):
        found.setdefault(cue.part, []).append(cue)
    return found


def clips(
    pieces: Sequence[Piece], cues: Sequence[Cue], timeline: Timeline, number: int
) -> tuple[Clip, ...]:
    """The clips of a part from its beginning to its end.

    A player goes from clip to clip and leaves out what lies between, so each lasts until the next
    begins: the pauses are heard as they are in the audiobook.
    """
    mark, rate = timeline.marks[number], timeline.rate
    whole_ms = round((mark.end - mark.start) * 1000 / rate)
    begun: list[tuple[int, Piece]] = []
    for start, piece in _begins(pieces, cues):
        start_ms = round((start - mark.start) * 1000 / rate) if begun else 0
        if start_ms < whole_ms and (not begun or start_ms > begun[-1][0]):
            begun.append((start_ms, piece))
    ends = [start_ms for start_ms, _ in begun[1:]] + [whole_ms]
    return tuple(
        Clip(piece, start_ms, end_ms)
        for (start_ms, piece), end_ms in zip(begun, ends, strict=bool(begun))
    )


def _begins(pieces: Sequence[Piece], cues: Sequence[Cue]) -> Iterator[tuple[float, Piece]]:
    """When each piece begins, in samples; pieces of one segment share its time by their length."""
    of: dict[int, list[Piece]] = {}
    for piece in pieces:
        of.setdefault(piece.segment, []).append(piece)
    for cue in cues:
        shared = of.get(cue.segment, [])
        weight, done = sum(piece.weight for piece in shared), 0
        for piece in shared:
            yield cue.start + (cue.end - cue.start) * done / weight, piece
            done += piece.weight


def clock(milliseconds: int) -> str:
    """A time as SMIL writes it: 1:02:03.456."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def overlay(page: Page, track: Track) -> str:
    """The SMIL file of a part."""
    text, sound = f"../text/{page.name}.xhtml", f"../{track.file}"
    pars = "".join(
        f'<par id="{clip.piece.id}"{_type(clip.piece)}>'
        f'<text src="{text}#{clip.piece.id}"/>'
        f'<audio src="{sound}" clipBegin="{clock(clip.start_ms)}" clipEnd="{clock(clip.end_ms)}"/>'
        "</par>\n"
        for clip in track.clips
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<smil xmlns="http://www.w3.org/ns/SMIL" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'version="3.0">\n<body>\n<seq id="all" epub:textref="{text}#part" epub:type="chapter">\n'
        f"{pars}</seq>\n</body>\n</smil>\n"
    )


def _type(piece: Piece) -> str:
    return f' epub:type="{piece.type}"' if piece.type else ""
