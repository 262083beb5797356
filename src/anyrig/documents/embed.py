"""Texts to vectors: cut into tokens ahead of time, packed by budget, on every device placed.

    with Embedder(model, placed=placed, environment=environment) as embedder:
        for vector in embedder.embed(texts): ...

A text longer than the model takes is embedded in windows that overlap, and its vector is their
mean, each weighed by its tokens; or it is cut at that length, and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any, Literal

from anyrig.documents.bundle import Bundle, bundles, cost, text_bundles
from anyrig.documents.model import ENGINE, VERSION, Model
from anyrig.documents.tokenise import CHUNK, FEW, Chunk, Tokeniser, chunks_of_texts
from anyrig.errors import MORE_DETAILS, InvalidInputError, Message, WorkError
from anyrig.units import pluralize
from anyrig.work.engine import EngineFactory, load_engine
from anyrig.work.outcome import ItemOutcome, RunReport

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Use
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan
    from anyrig.work.engine import BaseEngine
    from anyrig.work.live import LiveQueue
    from anyrig.work.pool import WorkerPool
    from anyrig.work.protocol import WorkerStatus

LOOK_AHEAD, NEAR_AHEAD = 1024, 32
"""Bundles that may be made ahead; and on a CPU, where that many take a quarter of a minute.

Work goes by length, not by order: what is asked first is done once all that is ahead may be.
"""
FEW_SHAPES = {"LRU_CACHE_CAPACITY": "32", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32"}
"""For torch on a CPU, which keeps what it compiled for each shape of a batch, in two places and a
thousand times each: two workers grew by 1.2 GB over 1,700 requests. A forward pass needs four."""
_WINDOW, _LONGEST = 4_000, 1 << 30
"""Characters that a model which takes texts as they are is given at once: 10,000 take it 200 MB."""
Long = Literal["windows", "cut"]


class Embedder:
    """A model on every device that was placed; fits `protocol.Vectors`."""

    def __init__(
        self,
        model: Model,
        *,
        placed: PlacementPlan,
        environment: Mapping[str, str],
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
        here: bool = False,
        shared: bool = False,
        long: Long = "windows",
        deterministic: bool = False,
        open_pool: Callable[[EngineFactory], WorkerPool] | None = None,
    ) -> None:
        """Nothing is loaded before a text comes: where all vectors are kept, none does.

        Args:
            model: whose vectors.
            placed: where.
            environment: this process's own.
            limits: batch sizes that earlier runs found.
            stamp: driver and library versions, under which those hold.
            here: in this process, where one placement on the CPU is all there is: a few texts are
                done before another process has begun.
            shared: threads may ask at the same time, a few texts each; the workers then are kept
                ready for the next, which is quicker than a run for each.
            long: what is done with a text that is longer than the model takes.
            deterministic: a text's vector must not depend on its company.
            open_pool: makes other workers than processes on the placed devices; the placements
                then only say in what precision vectors are made.
        """
        self.model, self.long = model, long
        self._counting = threading.Lock()
        self.num_cut = 0
        """Texts whose end was left out so far."""
        on_cpu = all(one.device.kind == "cpu" for one in placed.placements)
        self._chunk = FEW if on_cpu else CHUNK
        self._ahead = NEAR_AHEAD if on_cpu else LOOK_AHEAD
        self._tokeniser = _tokeniser(model, long, self._chunk)
        self.report = RunReport()
        """The figures of everything so far."""
        self._engine: BaseEngine | None = None
        self._pool: WorkerPool | None = None
        self._shared, self._opening = shared and not here, threading.Lock()
        self._live: LiveQueue[bytes, bytes] | None = None
        self._closed = False
        self.deterministic = deterministic
        self._placed = placed
        first = placed.placements[0]
        self.precision = "fp32" if first.precision in ("fp32", "tf32") else "half"
        """The precision class that vectors are made in."""
        self._recipe, self._open_pool = make_factory(model, deterministic), open_pool
        self._here = here and len(placed.placements) == 1 and first.device.kind == "cpu"
        self._start: dict[str, Any] = {
            "environment": {**FEW_SHAPES, **environment} if on_cpu else environment,
            "fallback": placed.fallback, "known_sizes": limits,
            "stamp": stamp, "deterministic": deterministic,
        }  # fmt: skip

    def wait_ready(self) -> None:
        """Load the model everywhere, and wait until that is done."""
        if self._here:
            self._in_process()
        else:
            self._workers().wait_ready()

    @property
    def engine(self) -> BaseEngine | None:
        """The engine, where it is in this process and loaded."""
        return self._engine

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices, and whose texts were cut."""
        found = list(self._pool.warnings) if self._pool is not None else []
        if self.num_cut:
            found.append(
                f"{pluralize(self.num_cut, 'text')} longer than the {self.model.longest} tokens "
                f"that {self.model.name} takes: what is behind them is not in the vector"
            )
        return found

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Its processes as last seen; none where the model is in this one."""
        return self._pool.workers() if self._pool is not None else ()

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, where it has any now."""
        return (self._pool,) if self._pool is not None else ()

    def found(self, texts: Sequence[str], use: Use = "passage") -> None:
        """Count those that were cut, of texts whose vectors were kept: that is told every time."""
        if self.long == "cut" and self._tokeniser is not None and texts:
            chunks = self._tokeniser.chunks(texts, self.model.prompt(use))
            self._cut(sum(chunk.num_cut for chunk in chunks))

    def _cut(self, count: int) -> None:
        with self._counting:  # kept ones may be found by another thread
            self.num_cut += count

    def close(self) -> None:
        """End every worker."""
        with self._opening:
            self._closed = True
        if self._live is not None:
            self._live.close()
        elif self._pool is not None:
            self._pool.close()
        self._engine = None

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> NDArray[np.float32]:
        """All vectors as the rows of one matrix."""
        import numpy as np

        rows = list(self.embed(texts, use=use))
        return np.stack(rows) if rows else np.empty((0, self.model.dimension), np.float32)

    def embed(
        self, texts: Iterable[str], *, use: Use = "passage", report: RunReport | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """A vector of each text, in order."""
        stream = iter(texts)
        try:
            begun = next(stream)
        except StopIteration:
            return  # nothing to do is no reason to load
        told: deque[tuple[Chunk, list[Bundle]]] = deque()
        asked = chain((begun,), stream)

        def parcels() -> Iterator[bytes]:
            for chunk, packed in self._packed(asked, self.model.prompt(use)):
                told.append((chunk, packed))
                yield from (bundle.data for bundle in packed)

        outcomes = self._outcomes(parcels(), report)
        for first in outcomes:
            chunk, packed = told.popleft()
            got = [first, *(next(outcomes) for _ in packed[1:])]
            self._cut(chunk.num_cut)
            yield from self._texts(chunk, packed, [_vectors(one) for one in got])

    def _packed(self, texts: Iterable[str], prompt: str) -> Iterator[tuple[Chunk, list[Bundle]]]:
        if self._tokeniser is not None:
            for chunk in self._tokeniser.chunks(texts, prompt):
                yield chunk, list(bundles(chunk.windows))
            return
        texts = (prompt + text for text in texts)
        most = _LONGEST if self.model.form == "hashing" else _WINDOW
        for chunk in chunks_of_texts(
            texts, chunk=self._chunk, most=most, windows=self.long == "windows"
        ):
            yield chunk, list(text_bundles(chunk.pieces))

    def _outcomes(
        self, parcels: Iterator[bytes], report: RunReport | None
    ) -> Iterator[ItemOutcome[bytes]]:
        if self._shared:
            yield from self._in_company(parcels)
            return
        report = report if report is not None else RunReport()
        try:
            yield from self._begun(parcels, report)
        finally:
            self.report.merge(report)

    def _begun(self, parcels: Iterator[bytes], report: RunReport) -> Iterator[ItemOutcome[bytes]]:
        if not self._here:
            return self._workers().run(parcels, cost=cost, look_ahead=self._ahead, report=report)
        from anyrig.work.batching import BatchSizer
        from anyrig.work.retry import run_batches

        engine = self._in_process()
        return run_batches(
            parcels, engine.run, cost=cost, handle=engine.handle, report=report,
            sizer=BatchSizer(grow=not self.deterministic), look_ahead=NEAR_AHEAD,
        )  # fmt: skip

    def _in_company(self, parcels: Iterator[bytes]) -> Iterator[ItemOutcome[bytes]]:
        """Parcels beside those of other threads."""
        live = self._counter()
        waiting: deque[Future[bytes]] = deque()
        try:
            for number in count():
                while len(waiting) < self._ahead and (parcel := next(parcels, None)) is not None:
                    waiting.append(live.submit(parcel, admitted=True))
                if not waiting:
                    return
                yield ItemOutcome(number, waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()

    def _counter(self) -> LiveQueue[bytes, bytes]:
        with self._opening:
            pool = self._workers()
            if self._live is None:
                from anyrig.work.live import LiveQueue

                self._live = LiveQueue(pool, cost=cost, report=self.report)
            return self._live

    def _workers(self) -> WorkerPool:
        from anyrig.work.pool import WorkerPool
        from anyrig.work.worker import LocalWorkers

        self._check_open()
        if self._pool is None and self._open_pool is not None:
            self._pool = self._open_pool(self._recipe)
        elif self._pool is None:
            self._pool = WorkerPool(
                LocalWorkers(self._placed.placements, self._recipe, **self._start)
            )
        return self._pool

    def _in_process(self) -> BaseEngine:
        self._check_open()
        if self._engine is None:
            # One thread: a question of ten words is done before a second one is awake, and a second
            # one that waits for work takes the core from whatever runs beside.
            alone = replace(self._placed.placements[0], threads=1)
            self._engine = load_engine(self._recipe.target, alone, self._recipe.options)
        return self._engine

    def _check_open(self) -> None:
        if self._closed:
            raise WorkError("the embedder is closed", hint="Make a new one.")

    def _texts(
        self, chunk: Chunk, packed: Sequence[Bundle], results: Sequence[bytes]
    ) -> Iterator[NDArray[np.float32]]:
        """The vectors of a chunk's texts, in order."""
        import numpy as np

        found = np.empty((len(chunk.owners), self.model.dimension), np.float32)
        for bundle, data in zip(packed, results, strict=True):
            vectors = np.frombuffer(data, np.float32).reshape(len(bundle.rows), -1)
            if vectors.shape[1] != self.model.dimension:
                raise InvalidInputError(
                    f"{self.model.name} gives {vectors.shape[1]} numbers for a text, not the "
                    f"{self.model.dimension} that its folder says",
                    hint="Its files belong to different models.",
                )
            found[bundle.rows] = vectors
        if len(chunk.owners) == chunk.num_texts:
            yield from found
            return
        lengths = chunk.lengths
        edges = np.searchsorted(chunk.owners, np.arange(chunk.num_texts + 1))
        for start, end in pairwise(edges):
            if end - start == 1:
                yield found[start]
            else:
                yield self._joined(found[start:end], lengths[start:end])

    def _joined(self, vectors: NDArray[np.float32], lengths: Sequence[int]) -> NDArray[np.float32]:
        """The vector of a text that was taken in windows."""
        import numpy as np

        mean = np.average(vectors, axis=0, weights=lengths)
        size = float(np.linalg.norm(mean)) if self.model.normalise else 1.0
        joined: NDArray[np.float32] = (mean / size if size else mean).astype(np.float32)
        return joined


def _tokeniser(model: Model, long: Long, chunk: int) -> Tokeniser | None:
    if not model.takes_tokens:
        return None
    file = model.tokenizer or model.folder / "tokenizer.json"
    return Tokeniser(
        file, longest=model.longest, overlap=model.overlap, windows=long == "windows",
        lower=model.lower,
        chunk=chunk,
    )  # fmt: skip


def make_factory(model: Model, deterministic: bool) -> EngineFactory:
    """How a worker makes the engine of a model."""
    options: dict[str, Any] = {
        "form": model.form, "folder": str(model.folder), "normalise": model.normalise,
        "deterministic": deterministic,
    }  # fmt: skip
    if model.takes_tokens:
        dense = str(model.dense) if model.dense else ""
        options |= {"pooling": model.pooling, "dense": dense, "longest": model.longest}
    elif model.form == "hashing":
        options["dimension"] = model.dimension
    return EngineFactory(
        ENGINE, options, name=f"embed {model.name}", version=f"{VERSION} {model.fingerprint[:12]}"
    )


def _vectors(outcome: ItemOutcome[bytes]) -> bytes:
    if outcome.result is None:
        said = outcome.failure.message if outcome.failure else "no vector"
        hint = outcome.failure.hint if outcome.failure else ""
        message = Message("a text could not be embedded: {problem}", problem=said)
        raise WorkError(message, hint=hint or MORE_DETAILS)
    return outcome.result
