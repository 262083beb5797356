"""A model that counts what it is asked for, through the protocol that everything uses."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.model import EmbeddingModel
from anyrig.errors import WorkError

if TYPE_CHECKING:
    from anyrig.documents.protocol import Use

DIMENSION = 16
MODEL = EmbeddingModel("counting", Path(), 512, DIMENSION, fingerprint="weights", overlap=0)


def vector_of(text: str, use: str = "passage") -> NDArray[np.float32]:
    seed = hashlib.sha256(f"{use} {text}".encode("utf-8", "surrogatepass")).digest()
    found = np.frombuffer(seed, np.uint16).astype(np.float32) + 1
    return (found / np.linalg.norm(found)).astype(np.float32)


class Counting:
    """Takes texts a few at a time, as a real one does; a text with `bad` in it fails its batch."""

    def __init__(
        self,
        *,
        batch: int = 8,
        ahead: int = 1,
        each_s: float = 0.0,
        before: Callable[[list[str]], None] = lambda texts: None,
    ) -> None:
        self.seen: Counter[str] = Counter()
        self.batches: list[int] = []
        self.calls: list[int] = []
        self.model = MODEL
        self._batch, self._ahead, self._each_s, self._before = batch, ahead, each_s, before
        self._lock = threading.Lock()
        self.most_at_once = 0
        self._at_once = 0

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[NDArray[np.float32]]:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.calls.append(0)
        try:
            yield from self._embed(iter(texts), use)
        finally:
            with self._lock:
                self._at_once -= 1

    def _embed(self, texts: Iterator[str], use: Use) -> Iterator[NDArray[np.float32]]:
        while some := list(islice(texts, self._batch * self._ahead)):
            done: list[NDArray[np.float32]] = []
            for start in range(0, len(some), self._batch):
                done.extend(self._run(some[start : start + self._batch], use))
            yield np.stack(done)

    def _run(self, texts: list[str], use: Use) -> Iterator[NDArray[np.float32]]:
        with self._lock:
            self.seen.update(texts)
            self.batches.append(len(texts))
            self.calls[-1] += len(texts)
        self._before(texts)
        if self._each_s:
            time.sleep(self._each_s * len(texts))
        if any("bad" in text for text in texts):
            raise WorkError("a text could not be embedded", hint="Leave it out.")
        return (vector_of(text, use) for text in texts)

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> NDArray[np.float32]:
        return np.concatenate(list(self.embed(texts, use=use)))


class Threaded(Counting):
    """Takes its texts from a thread of its own, some ahead."""

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[NDArray[np.float32]]:
        import queue

        waiting: queue.Queue[str | None] = queue.Queue(200)

        def read() -> None:
            for text in texts:
                waiting.put(text)
            waiting.put(None)

        reader = threading.Thread(target=read)
        reader.start()
        yield from super().embed(iter(waiting.get, None), use=use)
        reader.join()
