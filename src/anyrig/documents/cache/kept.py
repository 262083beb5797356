"""Vectors of a stream of texts, the kept ones taken from the shelf and only the rest made.

    with Embedder(...) as embedder:
        vectors = Kept(embedder, Shelf(store, marks, embedder.model.dimension))
        for vector in vectors.embed(texts): ...

Texts are looked up a thousand at a time, ahead of the model, which gets what lacks as one stream
and so never runs dry between two thousands. What is found waits in memory for what is made before
it, `HELD` at most; no more than that is ever in memory, however long the stream. A text that stands
in it twice is made once. What is made is kept within a second, so a kill loses no more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING

from anyrig.documents.cache.shelf import Shelf
from anyrig.errors import MORE_DETAILS, WorkError
from anyrig.storage.cache import Claim

if TYPE_CHECKING:
    from anyrig.documents.cache.shelf import Vector
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Use, Vectors

CHUNK = 1000
"""Texts that are looked up at once."""
HELD = 8192
"""Vectors that may wait for one that is made before them."""
KEEP_EVERY, KEEP_EVERY_S = 256, 1.0
"""After how many new vectors, and how many seconds, they are written."""
WAIT_S = 10.0
"""How long another machine's vectors are waited for while none of them comes."""
Told = Callable[[Sequence[str], "Use"], None]
_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.1


class Kept:
    """Fits `protocol.Vectors`. As many threads may share it as may share what it stands on."""

    def __init__(
        self, vectors: Vectors, shelf: Shelf, *, wait_s: float = WAIT_S, found: Told | None = None
    ) -> None:
        """`found` is told the texts whose vectors were kept, and for what they were asked."""
        self.shelf, self.found = shelf, found
        self.num_found = self.num_made = 0
        """What it came to so far, over all streams: from the shelf, and made."""
        self.wait_s = wait_s
        """How long another machine's vector is waited for."""
        self._vectors = vectors
        self._lock = threading.Lock()

    @property
    def model(self) -> Model:
        """Whose vectors they are."""
        return self._vectors.model

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[Vector]:
        """A vector of each text, in order."""
        return _Stream(self, texts, use).run()

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Vector:
        """All vectors as the rows of one matrix."""
        return gathered(self.embed(texts, use=use), texts, self.shelf.dimension)

    def make(self, texts: Iterable[str], use: Use) -> Iterator[Vector]:
        """New vectors, whatever is kept."""
        return self._vectors.embed(texts, use=use)

    def count(self, *, found: int = 0, made: int = 0) -> None:
        """Add to the figures."""
        with self._lock:
            self.num_found += found
            self.num_made += made


def gathered(vectors: Iterator[Vector], texts: Iterable[str], dimension: int) -> Vector:
    """Vectors as rows of one matrix, which is made at once where their number is known."""
    import numpy as np

    if not isinstance(texts, Sized):
        rows = list(vectors)
        return np.stack(rows) if rows else np.empty((0, dimension), np.float32)
    matrix = np.empty((len(texts), dimension), np.float32)
    for number, vector in enumerate(vectors):
        matrix[number] = vector
    return matrix


class _Slot:
    """The place of a text in the stream."""

    __slots__ = ("vector",)

    def __init__(self) -> None:
        self.vector: Vector | None = None


class _Stream:
    """One stream of texts on its way. The model may ask for texts from a thread of its own."""

    def __init__(self, kept: Kept, texts: Iterable[str], use: Use) -> None:
        self._kept, self._shelf, self._use = kept, kept.shelf, use
        self._texts = iter(texts)
        self._lock = threading.RLock()
        self._slots: deque[_Slot] = deque()
        """The texts that were looked up and not handed out, in order."""
        self._lacking: deque[tuple[str, str]] = deque()
        """Key and text of what is to be made."""
        self._making: dict[str, list[_Slot]] = {}
        self._order: deque[str] = deque()
        """The keys whose vectors come next."""
        self._made: dict[str, Vector] = {}
        """Made and not yet written."""
        self._others: dict[str, str] = {}
        """Key to text of what another machine is making."""
        self._tokens: dict[str, str] = {}
        self._num_held = 0
        self._written = time.monotonic()

    def run(self) -> Iterator[Vector]:
        """The vectors in order."""
        try:
            while self._look():
                yield from self._ready()
                if self._slots:
                    yield from self._make()
        finally:
            self._write()
            self._release(list(self._tokens))

    # -- looking up --------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look the next texts up; False where there are none."""
        texts = list(islice(self._texts, CHUNK))
        named = [(self._shelf.key(text, self._use), text) for text in texts]
        with self._lock:  # throughout: what is made may not be written and forgotten meanwhile
            new = dict(pair for pair in named if not self._at_hand(pair[0]))
            found = self._shelf.find(new) if new else {}
            found |= self._share({name: new[name] for name in new if name not in found})
            self._kept.count(found=sum(self._place(name, found) for name, _ in named))
        if self._kept.found is not None:
            self._kept.found([text for name, text in named if name in found], self._use)
        return bool(texts)

    def _at_hand(self, name: str) -> bool:
        return name in self._made or name in self._making

    def _share(self, lacking: dict[str, str]) -> dict[str, Vector]:
        """Note what is to be made, here or elsewhere; what has come meanwhile."""
        claim = self._shelf.claim(lacking)
        # Between the look and the claim another may have made it, and let go of it.
        found = self._shelf.find(claim.keys) if claim.token and claim.keys else {}
        self._tokens |= dict.fromkeys(claim.keys, claim.token) if claim.token else {}
        self._release([name for name in found if name in self._tokens])
        for name, text in lacking.items():
            if name in found:
                continue
            self._making[name] = []
            if name in claim.keys:
                self._lacking.append((name, text))
            else:
                self._others[name] = text
        return found

    def _place(self, name: str, found: dict[str, Vector]) -> bool:
        """A place in the stream for a text, filled where its vector is at hand."""
        slot = _Slot()
        self._slots.append(slot)
        if name in self._making:
            self._making[name].append(slot)
            return False
        vector = self._made.get(name)
        if vector is None:
            vector, found[name] = found[name], found[name].copy()
        else:
            vector = vector.copy()  # a caller may write into what it is given
        self._fill(slot, vector)
        return True

    # -- making ------------------------------------------------------------------------------------

    def _make(self) -> Iterator[Vector]:
        """Run what lacks through the model, and hand out what can be."""
        yield from self._run_model()
        self._write()
        while self._others:
            self._ask_others()
            yield from self._run_model()
            self._write()
        yield from self._ready()

    def _run_model(self) -> Iterator[Vector]:
        vectors = self._kept.make(self._feed(), self._use)
        try:
            for vector in vectors:
                self._settle(self._order.popleft(), vector)
                if self._due():
                    self._write()
                yield from self._ready()
        finally:
            close = getattr(vectors, "close", None)
            if close is not None:
                close()
        if self._order:
            raise WorkError(f"{len(self._order)} texts got no vector", hint=MORE_DETAILS)

    def _feed(self) -> Iterator[str]:
        """What the model is to make, as long as what waits behind it stays little."""
        while True:
            while self._lacking:
                name, text = self._lacking.popleft()
                self._order.append(name)
                yield text
            if self._others or self._num_held >= HELD or not self._look():
                return

    def _settle(self, name: str, vector: Vector) -> None:
        """A vector has come: it goes to every place that waits for it, and to the shelf."""
        with self._lock:
            places = self._making.pop(name, [])
            self._made[name] = vector.copy()  # a row would hold on to the whole batch
            for number, slot in enumerate(places):
                self._fill(slot, vector.copy() if number else vector)
        self._kept.count(made=1, found=len(places) - 1)

    def _fill(self, slot: _Slot, vector: Vector) -> None:
        slot.vector = vector
        self._num_held += 1

    def _ready(self) -> Iterator[Vector]:
        """What can be handed out by now."""
        while self._slots:
            vector = self._slots[0].vector
            if vector is None:
                return
            with self._lock:
                self._slots.popleft()
                self._num_held -= 1
            yield vector

    # -- writing, and other machines ---------------------------------------------------------------

    def _due(self) -> bool:
        late = time.monotonic() - self._written > KEEP_EVERY_S
        return bool(self._made) and (late or len(self._made) >= KEEP_EVERY)

    def _write(self) -> None:
        """Keep what was made, and only then let go of it."""
        self._written = time.monotonic()
        with self._lock:
            made = dict(self._made)
            self._shelf.keep(made)
            self._made.clear()
        self._release([name for name in made if name in self._tokens])

    def _release(self, names: list[str]) -> None:
        by_token: dict[str, set[str]] = {}
        for name in names:
            by_token.setdefault(self._tokens.pop(name), set()).add(name)
        for token, keys in by_token.items():
            self._shelf.release(Claim(token, frozenset(keys)))

    def _ask_others(self) -> None:
        """Wait for what other machines are making; what does not come is to be made here.

        What this machine had claimed is made and written by now, so no two wait for each other.
        """
        end, pause = time.monotonic() + self._kept.wait_s, _PAUSE_S
        while self._others and not self._lacking:
            if self._take(self._shelf.find(self._others)):
                end = time.monotonic() + self._kept.wait_s  # they are at it
            late = time.monotonic() >= end
            claim = self._shelf.claim(self._others)
            self._tokens |= dict.fromkeys(claim.keys, claim.token) if claim.token else {}
            self._take(self._shelf.find(claim.keys & self._others.keys()))
            for name in list(self._others) if late else claim.keys & self._others.keys():
                self._lacking.append((name, self._others.pop(name)))
            if self._others and not self._lacking:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _take(self, found: dict[str, Vector]) -> bool:
        """Another machine made these."""
        for name, vector in found.items():
            del self._others[name]
            for number, slot in enumerate(self._making.pop(name)):
                self._fill(slot, vector.copy() if number else vector)
                self._kept.count(found=1)
        self._release([name for name in found if name in self._tokens])
        return bool(found)
