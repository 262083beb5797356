"""Utterances to audio with VibeVoice-Realtime: windows of text and speech, many rows at once.

All rows go in step: a window is up to five tokens of each row's text, then six frames of speech. A
new utterance takes a free row at the border of a window, one that ends leaves its row; one whose
text has not come yet rests. Nothing of a row depends on the others: it has its own positions, keys
and values, noise, guidance and steps, so its audio is the same alone and among many, and the same
whether its text came at once or word by word.

There is no thread behind it. Whoever waits for audio computes the next frames for all, while the
others wait.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from anyrig.audio.samples import Samples
from anyrig.speech.models.vibevoice.presets import Preset, read_preset
from anyrig.speech.models.vibevoice.windows import (
    WINDOW_FRAMES,
    WINDOW_POSITIONS,
    WINDOW_TOKENS,
    RealtimeModel,
    WindowInput,
    WindowLoop,
    round_batch,
)

RATE = 24000
_SEED_MASK = (1 << 64) - 1
_LAST_SPACE = re.compile(r".*\S(?= \S)", re.DOTALL)
"""Up to the last space between two words."""


# -- text ------------------------------------------------------------------------------------------


class TokenFeed:
    """Text that comes in parts, as the tokens of the whole.

    The last word is held back until more comes: a space between two words ends a token in every
    tokenizer of this model, the end of a part does not.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._rest = ""
        self._has_started = False

    def add(self, text: str) -> list[int]:
        self._rest += text.replace("’", "'")
        if not self._has_started:
            self._rest = self._rest.lstrip()
            self._has_started = bool(self._rest)
        found = _LAST_SPACE.match(self._rest)
        if found is None:
            return []
        self._rest = self._rest[found.end() :]
        return self._encode(found[0])

    def finish(self) -> list[int]:
        """The rest; a line's end tells the model that no more comes."""
        rest, self._rest = self._rest.rstrip(), ""
        return self._encode(rest + "\n")

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


# -- utterances ------------------------------------------------------------------------------------


class SpeechPart(NamedTuple):
    """A part of an utterance's audio; it follows the one before."""

    samples: Samples
    last: bool
    ended: bool = False
    """Whether the model itself ended, rather than the limit."""


@dataclass(eq=False)
class RealtimeSpeech:
    """An utterance. `add` its text, `finish` it, and read its audio with `RealtimeRuntime.read`."""

    feed: TokenFeed
    preset: Preset
    guidance: float
    num_steps: int
    sde: bool
    max_frames: int
    draw: Callable[[], NDArray[np.float32]]
    """The noise of a window: frame, step + 1, vector."""
    changed: threading.Condition
    """Of the runtime: notified when text comes."""
    tokens: deque[int] = field(default_factory=deque)
    finished: bool = False
    """Whether all text has come."""
    parts: deque[SpeechPart | BaseException] = field(default_factory=deque)
    done: bool = False
    """Whether its last part was made."""
    row: int = -1
    num_frames: int = 0
    """Heard so far."""
    length: int = 0
    """Of its conditional sequence at the border of a window."""
    negative_length: int = 0
    text_length: int = 0

    def add(self, text: str) -> None:
        """More text, in any parts."""
        with self.changed:
            self.tokens.extend(self.feed.add(text))
            self.changed.notify_all()

    def finish(self) -> None:
        """No more text comes."""
        with self.changed:
            self.tokens.extend(self.feed.finish())
            self.finished = True
            self.changed.notify_all()

    @property
    def is_ready(self) -> bool:
        """Whether its next window can be computed."""
        return self.finished or len(self.tokens) >= WINDOW_TOKENS

    def take_tokens(self) -> list[int]:
        """The text of its next window."""
        return [self.tokens.popleft() for _ in range(min(WINDOW_TOKENS, len(self.tokens)))]


class RealtimeRuntime:
    """A loaded model, its voices, and the utterances that it speaks now.

    Args:
        presets: the file of each voice.
        max_rows: utterances at the same time; more wait.
    """

    def __init__(
        self,
        model: RealtimeModel,
        tokenizer: Tokenizer,
        presets: Mapping[str, Path],
        *,
        max_rows: int,
    ) -> None:
        self.model, self.max_rows = model, max_rows
        self._tokenizer, self._paths = tokenizer, presets
        self._presets: dict[str, Preset] = {}
        self._loop = self._open_loop(model.first_length)
        self._changed = threading.Condition()
        self._running = False
        """Whether somebody computes; whoever does has the rows, the loop and the window."""
        self._waiting: deque[RealtimeSpeech] = deque()
        self._rows: list[RealtimeSpeech | None] = [None] * max_rows
        self._window: _RunningWindow | None = None

    @property
    def frame_s(self) -> float:
        return self.model.shape.codec.hop / RATE

    def _open_loop(self, length: int) -> WindowLoop:
        return self.model.open_loop(self.max_rows, min(length, self.model.shape.max_positions))

    def warm_up(self, voice: str) -> None:
        """Speak a window with each number of rows that is captured, so that nobody waits for that
        later.
        """
        captured = range(1, self.max_rows + 1) if self.model.captures else (1,)
        counts = {round_batch(count) for count in captured}
        for count in sorted(counts):
            some = [
                self.open(voice, max_frames=WINDOW_FRAMES) for _ in range(min(count, self.max_rows))
            ]
            for speech in some:
                speech.tokens.extend([0] * WINDOW_TOKENS)
                speech.finished = True
            for _ in self.read(some):
                pass

    def open(
        self,
        voice: str,
        *,
        seed: int = 0,
        guidance: float = 1.5,
        num_steps: int = 5,
        sde: bool = True,
        max_frames: int = 1 << 30,
    ) -> RealtimeSpeech:
        """A new utterance, without text so far.

        Args:
            guidance: the guidance scale.
            num_steps: diffusion steps a frame.
            sde: whether each step adds noise.
            max_frames: the longest audio.
        """
        latent, source = self.model.shape.codec.latent, np.random.default_rng(seed & _SEED_MASK)
        draws = num_steps + 1 if sde else 1

        def draw() -> NDArray[np.float32]:
            noise = source.standard_normal((WINDOW_FRAMES, draws, latent), np.float32)
            return np.broadcast_to(noise, (WINDOW_FRAMES, num_steps + 1, latent))

        if voice not in self._presets:
            shape = self.model.shape
            self._presets[voice] = read_preset(self._paths[voice], shape.text, shape.speech)
        return RealtimeSpeech(
            TokenFeed(self._tokenizer), self._presets[voice], guidance, num_steps, sde, max_frames,
            draw, self._changed,
        )  # fmt: skip

    def read(self, speeches: Sequence[RealtimeSpeech]) -> Generator[tuple[int, SpeechPart]]:
        """The audio of some utterances as it is made: which one, and its next part.

        Text may still be added, by another thread. Several threads may read at the same time.
        """
        with self._changed:
            self._waiting.extend(speeches)
        left = set(range(len(speeches)))
        try:
            while left:
                for index in self._wait_for(speeches, left):
                    part = speeches[index].parts.popleft()
                    if isinstance(part, BaseException):
                        raise part
                    if part.last:
                        left.remove(index)
                    yield index, part
        finally:
            for index in left:
                self._drop(speeches[index])

    def _wait_for(self, speeches: Sequence[RealtimeSpeech], left: set[int]) -> list[int]:
        """Which of these have a part; computes until one has, unless somebody else does."""
        while True:
            with self._changed:
                while True:
                    if found := [index for index in sorted(left) if speeches[index].parts]:
                        return found
                    if not self._running and self._has_work():
                        break
                    self._changed.wait()
                self._running = True
            try:
                self._advance()
            except BaseException as error:
                self._fail_all(error)
                raise
            finally:
                with self._changed:
                    self._running = False
                    self._changed.notify_all()

    def _has_work(self) -> bool:
        rows = [speech for speech in self._rows if speech is not None and not speech.done]
        joining = self._waiting if len(rows) < self.max_rows else ()
        return self._window is not None or any(one.is_ready for one in (*rows, *joining))

    def _drop(self, speech: RealtimeSpeech) -> None:
        """Nobody reads it any more."""
        with self._changed:
            speech.done = True
            if speech in self._waiting:
                self._waiting.remove(speech)

    def _fail_all(self, error: BaseException) -> None:
        """What was being computed failed, for all; the buffers are freed for whoever comes next."""
        with self._changed:
            message = RuntimeError(f"{type(error).__name__}: {error}")
            for speech in self._rows:
                if speech is not None and not speech.done:
                    speech.done = True
                    speech.parts.append(error if isinstance(error, Exception) else message)
            self._rows = [None] * self.max_rows
            self._window = None
        length, self._loop = self._loop.length, None  # type: ignore[assignment]
        self._loop = self._open_loop(length)

    # -- by whoever computes

    def _advance(self) -> None:
        """Compute some frames: those of the window that has begun, or the first of the next one."""
        if self._window is None:
            self._window = self._begin_window()
            if self._window is None:
                return
        window = self._window
        count = WINDOW_FRAMES - window.done
        if window.has_new or not self.model.captures:
            count = min(count, 1)  # heard at once
            window.has_new = False
        audio, ended = self._loop.run_frames(count)
        window.done += count
        with self._changed:
            if window.done == WINDOW_FRAMES:
                self._window = None
            for speech in window.speeches:
                self._collect(speech, audio[:, speech.row], ended[:, speech.row])

    def _collect(self, speech: RealtimeSpeech, audio: Samples, ended: NDArray[np.bool_]) -> None:
        """What is heard of a row's last frames, up to its end or its limit."""
        if speech.done:
            return
        count = min(len(audio), speech.max_frames - speech.num_frames)
        ends = np.flatnonzero(ended[:count])
        count = int(ends[0]) + 1 if len(ends) else count
        speech.num_frames += count
        space = self.model.shape.max_positions - speech.length
        is_full = self._window is None and space < WINDOW_POSITIONS
        speech.done = bool(len(ends)) or speech.num_frames >= speech.max_frames or is_full
        samples = np.ascontiguousarray(audio[:count]).reshape(-1)
        speech.parts.append(SpeechPart(samples, speech.done, bool(len(ends))))

    def _begin_window(self) -> _RunningWindow | None:
        """Take in who waits, and read the next text of all rows that have it."""
        with self._changed:
            self._rows = [one if one and not one.done else None for one in self._rows]
            self._compact()
            new = self._admit()
            ready = [one for one in self._rows if one is not None and one.is_ready]
            if not ready:
                return None
            tokens = [speech.take_tokens() for speech in ready]
        longest = max(one.length for one in self._rows if one is not None)
        if longest + WINDOW_POSITIONS > self._loop.length:
            self._grow()
        self._loop.begin(self._build_window(ready, tokens))
        for speech, some in zip(ready, tokens, strict=True):
            speech.text_length += len(some)
            speech.length += len(some) + WINDOW_FRAMES
            speech.negative_length += WINDOW_FRAMES
        return _RunningWindow(ready, bool(new))

    def _compact(self) -> None:
        """Move rows down where a smaller batch holds them."""
        used = [row for row, one in enumerate(self._rows) if one is not None]
        while used and round_batch(len(used)) < round_batch(used[-1] + 1):
            source, target = used.pop(), self._rows.index(None)
            self._loop.move(source, target)
            speech = self._rows[source]
            assert speech is not None
            self._rows[source], self._rows[target], speech.row = None, speech, target
            used = sorted([*used, target])

    def _admit(self) -> list[RealtimeSpeech]:
        """Give those who wait a row; one without text need not have one."""
        new: list[RealtimeSpeech] = []
        for speech in [one for one in self._waiting if one.is_ready]:
            if None not in self._rows:
                break
            self._waiting.remove(speech)
            speech.row = self._rows.index(None)
            self._rows[speech.row] = speech
            preset = speech.preset
            speech.length, speech.text_length = preset.speech.shape[1], preset.text.shape[1]
            speech.negative_length = preset.negative.shape[1]
            self._loop.place(speech.row, preset, speech.guidance, speech.num_steps, speech.sde)
            new.append(speech)
        return new

    def _grow(self) -> None:
        """Longer buffers; the graphs of the old ones go with them."""
        longer = self._open_loop(2 * self._loop.length)
        longer.copy_rows(self._loop)
        self._loop = longer

    def _build_window(
        self, speeches: Sequence[RealtimeSpeech], tokens: Sequence[Sequence[int]]
    ) -> WindowInput:
        """What the rows of some utterances begin a window with."""
        rows = min(round_batch(max(speech.row for speech in speeches) + 1), self.max_rows)
        num_steps = max(speech.num_steps for speech in speeches)
        noise = (WINDOW_FRAMES, num_steps + 1, rows, self.model.shape.codec.latent)
        window = WindowInput(
            active=np.zeros(rows, np.bool_),
            tokens=np.zeros((rows, WINDOW_TOKENS), np.int64),
            num_tokens=np.zeros(rows, np.int64),
            lengths=np.zeros((rows, 2), np.int64),
            text_lengths=np.zeros(rows, np.int64),
            noise=np.zeros(noise, np.float32),
        )
        for row, one in enumerate(self._rows[:rows]):
            if one is not None:
                window.lengths[row] = one.length, one.negative_length
                window.text_lengths[row] = one.text_length
        for speech, some in zip(speeches, tokens, strict=True):
            row = speech.row
            window.active[row], window.num_tokens[row] = True, len(some)
            window.tokens[row, : len(some)] = some
            window.noise[:, : speech.num_steps + 1, row] = speech.draw()
        return window


@dataclass
class _RunningWindow:
    """A window that is being computed."""

    speeches: list[RealtimeSpeech]
    has_new: bool
    """Whether somebody waits for a first frame."""
    done: int = 0
    """Frames."""
