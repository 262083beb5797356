"""Speech as the routes know it: a wish in, a reading out; who speaks is decided elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyrig.speech.audio import Samples
    from anyrig.speech.live import Given, Recital
    from anyrig.work.live import Lane

OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip
"""Names that clients of OpenAI's interface send, and that stand for the voice there is."""
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""The same for models; newer ones of that family too."""


@dataclass(frozen=True)
class Wish:
    """What a client wants to hear."""

    text: str
    voice: str = ""
    """Of `GET /config`, a blend of some, or one of OpenAI's; the default when empty."""
    engine: str = ""
    """Of `GET /config`; the one that has the voice, or speaks the language, when empty."""
    language: str = ""
    """As en, es, fr; found out when empty."""
    speed: float = 1.0
    options: Mapping[str, str] | None = None
    """Of the engine, where it has them; others are left out."""
    lane: Lane = "live"


class Reading:
    """A text that is being spoken for one client. For one thread at a time.

    Args:
        recital: its segments on their way.
        engine: who speaks.
        voice: which voice, as the client may name it.
        rate: samples per second.
        loudness: in LUFS; 0 leaves it alone.
        ignored: what of the wish has no effect here.
        release: is called once, when it is over.
    """

    def __init__(
        self,
        recital: Recital,
        *,
        engine: str,
        voice: str,
        rate: int,
        loudness: float,
        ignored: Sequence[str] = (),
        release: Callable[[], None],
    ) -> None:
        from anyrig.speech.sound.loudness import Leveller

        self.engine, self.voice, self.rate, self.ignored = engine, voice, rate, tuple(ignored)
        self.num_samples = 0
        """Given so far."""
        self._recital, self._release = recital, release
        self._leveller = Leveller(rate, target_lufs=loudness) if loudness else None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def done(self) -> bool:
        """Whether all of it was given."""
        return self._recital.done

    def next(self) -> Future[Given]:
        """A future of the next segment. Call it in a thread, as it may read the store."""
        return self._recital.next()

    def sound(self, given: Given) -> Samples:
        """A segment's finished audio: trimmed, levelled, with its pauses. Call it in a thread."""
        from anyrig.speech.synthesise import chunk_of

        chunk = chunk_of(given.spoken(), self.rate, self.num_samples)
        self.num_samples += len(chunk.samples)
        return self._leveller.apply(chunk.samples) if self._leveller else chunk.samples

    @property
    def audio_s(self) -> float:
        """How much was given so far."""
        return self.num_samples / self.rate

    def close(self) -> None:
        """It is over, or the client left: what has not begun is not made. Takes no time."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            self._recital.close()
        finally:
            self._release()


class Speaking(Protocol):
    """Who speaks. Safe to call from many threads; call everything in one of them."""

    def begin(self, wish: Wish) -> Reading:
        """Prepare a text and ask for its first segments; loads the engine where it is not."""

    def check(
        self, *, engine: str = "", voices: Sequence[str] = (), model: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """That an engine and its voices are here, without asking for anything to be said.

        Args:
            engine: of `GET /config`; that of the settings, or any, when empty.
            voices: names and blends.
            model: a folder with an engine's weights.
            options: of the engine.
        """

    def load(self) -> None:
        """Load the default engine and let it say something, so that the first client waits less."""

    def described(self) -> str:
        """The engine and the voice that speak when none is named, for the log."""

    def config(self) -> Mapping[str, Any]:
        """Voices, the default one, engines, as `GET /config` tells them."""

    def models(self) -> Sequence[Mapping[str, Any]]:
        """Engines that can be asked for here: `id`, `languages`, `voices`, `summary`."""

    def lexicon(self) -> str:
        """The text of the user's lexicon; empty where there is none."""

    def set_lexicon(self, text: str) -> int:
        """Take another one, checked; how many entries it has."""
