"""Utterances in, pieces of sound out: the loop around the frame step.

Every few frames the host looks once at what was said: finished rows are dropped, the rest move up
when a smaller batch holds them. A row's noise comes from its own seed, frame by frame, so it is the
same in any company and in pieces of any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyrig.audio.samples import Samples
from anyrig.speech.models.vibevoice.frames import END, SPEAK, TICKS, Frames
from anyrig.speech.models.vibevoice.model import VibeVoice

_PLACES = 256


@dataclass(frozen=True)
class SpeechPrompt:
    """Something to say."""

    inputs: Tensor
    """The prompt: a vector a place."""
    seed: int
    most: int
    """Frames at most."""


@dataclass(frozen=True)
class Piece:
    """A stretch of an utterance's sound; it follows on the one before."""

    number: int
    """Of the utterance."""
    samples: Samples
    last: bool
    ended: bool
    """Whether the model itself came to an end, rather than the limit."""


class Speaker:
    """A model with room for its rows: made once, grown when a larger batch comes."""

    def __init__(self, model: VibeVoice, *, guidance: float = 1.3, graphs: bool = True) -> None:
        self.model = model
        self.leaning: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
        """Added to the scores of the four tokens."""
        self._guidance, self._graphs = guidance, graphs
        self._frames: Frames | None = None

    def speak(self, utterances: Sequence[SpeechPrompt], *, first: int = TICKS) -> Iterator[Piece]:
        """Sound as it is made, a few frames of every row at a time.

        Args:
            utterances: one row each.
            first: frames of the first pieces; fewer are heard sooner.
        """
        try:
            yield from self._spoken(utterances, first)
        except torch.OutOfMemoryError:
            self._frames = None  # a smaller batch shall find room
            raise

    def _spoken(self, utterances: Sequence[SpeechPrompt], first: int) -> Iterator[Piece]:
        places = max(len(one.inputs) + one.most for one in utterances) + TICKS
        frames = self._room(_rows(len(utterances)), places)
        frames.begin([one.inputs for one in utterances])
        longest = max(len(one.inputs) for one in utterances)
        sources = [torch.Generator().manual_seed(one.seed) for one in utterances]
        rows: list[int] = list(range(len(utterances)))
        gone: set[int] = set()
        done, batch = 0, _rows(len(rows))
        while len(gone) < len(rows):
            left = max(utterances[row].most for row in rows if row not in gone) - done
            ticks = max(1, min(TICKS if done else first, left))
            self._draw(frames, [sources[row] for row in rows], ticks)
            frames.run(batch, longest + done, ticks)
            done += ticks
            pieces = _pieces(frames, rows, [utterances[row].most for row in rows], done, ticks)
            pieces = [piece for piece in pieces if piece.number not in gone]
            yield from pieces
            gone.update(piece.number for piece in pieces if piece.last)
            stay = [place for place, row in enumerate(rows) if row not in gone]
            if stay and _rows(len(stay)) < batch:
                frames.keep(stay)
                rows, gone = [rows[place] for place in stay], set()
                batch = _rows(len(rows))

    def _room(self, rows: int, places: int) -> Frames:
        """Buffers large enough; the old ones go first, lest both be held."""
        places = -(-places // _PLACES) * _PLACES
        kept = self._frames
        if kept is None or kept.rows < rows or kept.length < places:
            if kept is not None:
                rows, places = _both((rows, places), (kept.rows, kept.length))
            del kept
            self._frames = None
            self._frames = kept = Frames(
                self.model, rows, places, guidance=self._guidance, graphs=self._graphs
            )
        kept.leaning.copy_(torch.tensor(self.leaning))
        return kept

    def _draw(self, frames: Frames, sources: Sequence[torch.Generator], ticks: int) -> None:
        """Noise for the next frames. One draw a frame: a longer draw would give other numbers."""
        latent = frames.noise.shape[-1]
        drawn = [
            torch.stack([torch.randn(latent, generator=source) for source in sources])
            for _ in range(ticks)
        ]
        frames.noise[:ticks, : len(sources)] = torch.stack(drawn).to(frames.noise.device)


def _pieces(
    frames: Frames, rows: Sequence[int], most: Sequence[int], done: int, ticks: int
) -> list[Piece]:
    """What each row said in the last frames, up to its end or its limit."""
    count = len(rows)
    said = frames.said[:ticks, :count].cpu().numpy()
    sound = frames.sound[:ticks, :count].cpu().numpy()
    made = []
    for place, (row, limit) in enumerate(zip(rows, most, strict=True)):
        words = said[: max(0, ticks - max(0, done - limit)), place]
        ended = bool((words == END).any())
        heard = np.ascontiguousarray(sound[: len(words), place][words == SPEAK]).reshape(-1)
        made.append(Piece(row, heard, ended or done >= limit, ended))
    return made


def _both(wanted: tuple[int, int], kept: tuple[int, int]) -> tuple[int, int]:
    """Room for what is wanted and for what came before, unless that is far more than either."""
    rows, places = max(wanted[0], kept[0]), max(wanted[1], kept[1])
    either = max(wanted[0] * wanted[1], kept[0] * kept[1])
    return (rows, places) if rows * places <= 2 * either else wanted


def _rows(count: int) -> int:
    """The batch that holds so many rows: few different ones, for each is captured by itself."""
    if count > 64:
        return -(-count // 32) * 32
    batch = 1
    while batch < count:
        batch *= 2
    return batch
