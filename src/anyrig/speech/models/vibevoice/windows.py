"""Windows of VibeVoice-Realtime: a few tokens of each row's text, then a few frames of speech.

What a runtime must do with them. `realtime_model.py` does it with torch, `onnx_windows.py` with
ONNX Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from anyrig.speech.models.vibevoice.checkpoint import RealtimeShape
from anyrig.speech.models.vibevoice.presets import Preset

WINDOW_TOKENS, WINDOW_FRAMES = 5, 6
WINDOW_POSITIONS = WINDOW_TOKENS + WINDOW_FRAMES
MAX_STEPS = 100
_MIN_SPAN = 512


@dataclass(frozen=True)
class WindowInput:
    """What a window of the first rows begins with, an entry for each row; of a row that is free
    all are 0, so that it writes into no other.
    """

    active: NDArray[np.bool_]
    """Rows that take part; the others stay as they are."""
    tokens: NDArray[np.int64]
    """Row, token: padded at the end."""
    num_tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Places that are filled in a row's conditional and unconditional sequence: row, 2."""
    text_lengths: NDArray[np.int64]
    """The same of the text model."""
    noise: NDArray[np.float32]
    """Frame, step + 1, row, vector."""

    @property
    def rows(self) -> int:
        return len(self.active)

    @property
    def num_steps(self) -> int:
        """Diffusion steps; no row has more."""
        return int(self.noise.shape[1]) - 1

    @property
    def longest(self) -> int:
        """How long a row may be at the end of this window."""
        return int(self.lengths.max()) + WINDOW_POSITIONS

    @property
    def longest_text(self) -> int:
        return int(self.text_lengths.max()) + WINDOW_TOKENS


class WindowLoop(Protocol):
    """The rows of a model, in buffers of a certain length."""

    length: int

    def place(self, row: int, preset: Preset, guidance: float, num_steps: int, sde: bool) -> None:
        """Put a new utterance into a row."""

    def move(self, source: int, target: int) -> None:
        """Move a row into another's place."""

    def copy_rows(self, other: Self) -> None:
        """Take over the rows of a shorter loop."""

    def begin(self, window: WindowInput) -> None:
        """Read the window's tokens."""

    def run_frames(self, count: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Speak the next frames of the window: their audio (frame, row, sample), and whether the
        speech ends with them (frame, row).
        """


class RealtimeModel(Protocol):
    """A loaded model."""

    shape: RealtimeShape
    first_length: int
    """Of the first loop: a longer one follows where a row outgrows it."""
    captures: bool
    """Whether windows are captured as CUDA graphs, one for each number of rows: several frames in
    one call are faster then."""

    def open_loop(self, rows: int, length: int) -> WindowLoop: ...


def round_batch(count: int) -> int:
    """The batch that holds some rows: few different ones, as each is captured by itself."""
    return -(-count // 32) * 32 if count > 64 else 1 << (count - 1).bit_length()


def round_span(longest: int, length: int) -> int:
    """Places that attention looks at: few different numbers of them, each being compiled or
    captured by itself.
    """
    span = _MIN_SPAN
    while span < longest:
        span *= 2
    return min(span, length)
