"""Texts to vectors, on every device that was placed.

    with Embedder(model, placed=placed, environment=environment) as embedder:
        for block in embedder.embed(texts): ...

The workers tokenize (`engine`). A text longer than the model takes is embedded in windows that
overlap, and its vector is their mean, each weighed by its tokens; or it is cut at that length, and
counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.documents.model import ENGINE, VERSION, EmbeddingModel
from anyrig.documents.ordered import iter_chunks, run_ordered
from anyrig.documents.protocol import TextBlock, estimate_cost
from anyrig.documents.tokenizer import TextTokenizer
from anyrig.documents.vector_cache import stack_blocks
from anyrig.errors import MORE_DETAILS, InvalidInputError, Message, WorkError
from anyrig.units import pluralize
from anyrig.work.engine import EngineFactory, load_engine
from anyrig.work.outcome import ItemOutcome, RunReport

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.engine import TextEngine
    from anyrig.documents.protocol import LongTexts, Use
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan
    from anyrig.work.pool import WorkerPool
    from anyrig.work.protocol import WorkerStatus

    Matrix = NDArray[np.float32]

_AHEAD, _CPU_AHEAD = 1024, 32
"""Blocks that may be made ahead; and on a CPU, where that many take a quarter of a minute."""
_CHUNK, _CPU_CHUNK = 4096, 256
"""Texts whose vectors are returned together: sorted by length they make blocks of like texts."""
_CHARACTERS, _CPU_CHARACTERS = 65_536, 8_192
"""Of a block; and of texts up to so many: packing and splitting stay fine."""
_TEXTS, _CPU_TEXTS = 512, 64
FEW_SHAPES = {"LRU_CACHE_CAPACITY": "32", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32"}
"""For torch on a CPU, which keeps what it compiled for each shape of a batch, in two places and a
thousand times each: two workers grew by 1.2 GB over 1,700 requests. A forward pass needs four."""


class Embedder:
    """An embedding model on every device that was placed. Nothing is loaded before a text comes.

    Args:
        model: whose vectors.
        placed: where.
        environment: this process's own.
        limits: batch sizes that earlier runs found.
        stamp: driver and library versions, under which those hold.
        here: in this process, if one placement on the CPU is all there is: a few texts are done
            before another process has started.
        long: what is done with a text that is longer than the model takes.
        deterministic: whether a text's vector is the same bytes in any batch.
        open_pool: makes other workers than processes on the placed devices; the placements then
            only say in what precision vectors are made.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        *,
        placed: PlacementPlan,
        environment: Mapping[str, str],
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
        here: bool = False,
        long: LongTexts = "windows",
        deterministic: bool = False,
        open_pool: Callable[[EngineFactory], WorkerPool] | None = None,
    ) -> None:
        self.model, self.long, self.deterministic = model, long, deterministic
        self.report = RunReport()
        """The figures of everything so far."""
        self.num_cut = 0
        """Texts whose end was left out so far."""
        first = placed.placements[0]
        self.precision = "fp32" if first.precision in ("fp32", "tf32") else "half"
        """The precision class that vectors are made in."""
        self._placed, self._open_pool = placed, open_pool
        self._factory = make_factory(model, long=long, deterministic=deterministic)
        self.on_cpu = all(one.device.kind == "cpu" for one in placed.placements)
        self._here = here and len(placed.placements) == 1 and first.device.kind == "cpu"
        self._opening = threading.Lock()
        self._closed = False
        self._engine: TextEngine | None = None
        self._pool: WorkerPool | None = None
        self._start: dict[str, Any] = {
            "environment": {**FEW_SHAPES, **environment} if self.on_cpu else environment,
            "fallback": placed.fallback, "known_sizes": limits,
            "stamp": stamp, "deterministic": deterministic,
        }  # fmt: skip

    def wait_ready(self) -> None:
        """Load the model everywhere, and wait until that is done."""
        if self._here:
            self._open_engine()
        else:
            self.open_workers().wait_ready()

    @property
    def engine(self) -> TextEngine | None:
        """The engine, if it is in this process and loaded."""
        return self._engine

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices, and how many texts were cut."""
        found = list(self._pool.warnings) if self._pool is not None else []
        if self.num_cut:
            found.append(
                f"{pluralize(self.num_cut, 'text')} longer than the {self.model.longest} tokens "
                f"that {self.model.name} takes: what is behind them is not in the vector"
            )
        return found

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Its processes as last seen; none if the model is in this one."""
        return self._pool.workers() if self._pool is not None else ()

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, if it has any now."""
        return (self._pool,) if self._pool is not None else ()

    def close(self) -> None:
        """End every worker."""
        with self._opening:
            self._closed = True
        if self._pool is not None:
            self._pool.close()
        self._engine = None

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Matrix:
        """All vectors as the rows of one matrix."""
        return stack_blocks(self.embed(texts, use=use), self.model.dimension)

    def embed(
        self, texts: Iterable[str], *, use: Use = "passage", report: RunReport | None = None
    ) -> Iterator[Matrix]:
        """The vectors in order, in blocks of rows."""
        return run_ordered(
            iter_chunks(texts, _CPU_CHUNK if self.on_cpu else _CHUNK),
            lambda some: self._pack(some, use),
            lambda blocks: self._run(blocks, report if report is not None else RunReport()),
            self._join,
        )

    def count_cut(self, texts: Sequence[str], use: Use = "passage") -> None:
        """Count the texts that are longer than the model takes, if those are cut."""
        if self.long != "cut" or not self.model.takes_tokens:
            return
        tokenizer = TextTokenizer(**self.model.tokenizer_options())
        count = tokenizer.count_cut(texts, self.model.prompt(use))
        with self._opening:  # several threads may ask
            self.num_cut += count

    def pack(self, texts: Sequence[str], use: Use = "passage") -> list[tuple[list[int], TextBlock]]:
        """Texts of like length in blocks, each with the numbers of its texts."""
        most_texts, most = (_CPU_TEXTS, _CPU_CHARACTERS) if self.on_cpu else (_TEXTS, _CHARACTERS)
        return pack_texts(texts, use, most_texts, most)

    def _pack(self, texts: Sequence[str], use: Use) -> tuple[_Chunk, list[TextBlock]]:
        self.count_cut(texts, use)
        packed = self.pack(texts, use)
        return (len(texts), [rows for rows, _ in packed]), [block for _, block in packed]

    def _run(self, blocks: Iterator[TextBlock], report: RunReport) -> Iterator[Matrix]:
        try:
            for outcome in self._run_blocks(blocks, report):
                yield take_result(outcome)
        finally:
            self.report.merge(report)

    def _run_blocks(
        self, blocks: Iterator[TextBlock], report: RunReport
    ) -> Iterator[ItemOutcome[Matrix]]:
        ahead = _CPU_AHEAD if self.on_cpu else _AHEAD
        if not self._here:
            return self.open_workers().run(
                blocks, cost=estimate_cost, look_ahead=ahead, report=report
            )
        from anyrig.work.batching import BatchSizer
        from anyrig.work.retry import run_batches

        engine = self._open_engine()
        return run_batches(
            blocks, engine.run, cost=estimate_cost, handle=engine.handle, report=report,
            sizer=BatchSizer(grow=not self.deterministic), look_ahead=ahead,
        )  # fmt: skip

    def open_workers(self) -> WorkerPool:
        from anyrig.work.pool import WorkerPool
        from anyrig.work.worker import LocalWorkers

        with self._opening:
            self._check_open()
            if self._pool is None and self._open_pool is not None:
                self._pool = self._open_pool(self._factory)
            elif self._pool is None:
                self._pool = WorkerPool(
                    LocalWorkers(self._placed.placements, self._factory, **self._start)
                )
            return self._pool

    def _open_engine(self) -> TextEngine:
        from anyrig.documents.engine import TextEngine

        with self._opening:
            self._check_open()
            if self._engine is None:
                # One thread: a question of ten words is done before a second one is awake, and a
                # second one that waits for work takes the core from whatever runs beside.
                alone = replace(self._placed.placements[0], threads=1)
                engine = load_engine(self._factory.target, alone, self._factory.options)
                assert isinstance(engine, TextEngine)
                self._engine = engine
            return self._engine

    def _check_open(self) -> None:
        if self._closed:
            raise WorkError("the embedder is closed", hint="Make a new one.")

    def _join(self, chunk: _Chunk, results: list[Matrix]) -> Matrix:
        """The vectors of a chunk's texts, in order."""
        import numpy as np

        count, members = chunk
        found = np.empty((count, self.model.dimension), np.float32)
        for rows, vectors in zip(members, results, strict=True):
            if vectors.shape[1] != self.model.dimension:
                raise InvalidInputError(
                    f"{self.model.name} gives {vectors.shape[1]} numbers for a text, not the "
                    f"{self.model.dimension} that its folder says",
                    hint="Its files belong to different models.",
                )
            found[rows] = vectors
        return found


_Chunk = tuple[int, list[list[int]]]
"""How many texts it has, and which of them are in each of its blocks."""


def pack_texts(
    texts: Sequence[str], use: Use, max_texts: int, max_characters: int
) -> list[tuple[list[int], TextBlock]]:
    """Texts of like length in blocks of so many at most; a longer text has one of its own."""
    found: list[tuple[list[int], TextBlock]] = []
    rows: list[int] = []
    size = 0
    for number in sorted(range(len(texts)), key=lambda number: len(texts[number])):
        length = len(texts[number])
        if rows and (size + length > max_characters or len(rows) >= max_texts):
            found.append((rows, TextBlock([texts[n] for n in rows], use)))
            rows, size = [], 0
        rows.append(number)
        size += length
    if rows:
        found.append((rows, TextBlock([texts[n] for n in rows], use)))
    return found


def make_factory(model: EmbeddingModel, *, long: LongTexts, deterministic: bool) -> EngineFactory:
    """How a worker makes the engine of a model."""
    options = {"model": model, "long": long, "deterministic": deterministic}
    return EngineFactory(
        ENGINE, options, name=f"embed {model.name}", version=f"{VERSION} {model.fingerprint[:12]}"
    )


def take_result(outcome: ItemOutcome[Matrix]) -> Matrix:
    """The vectors of a block, or its error."""
    if outcome.result is None:
        problem = outcome.failure.message if outcome.failure else "no vector"
        hint = outcome.failure.hint if outcome.failure else ""
        message = Message("a text could not be embedded: {problem}", problem=problem)
        raise WorkError(message, hint=hint or MORE_DETAILS)
    return outcome.result


def document_vectors(passages: Sequence[Sequence[str]], vectors: Sequence[NDArray[Any]]) -> Matrix:
    """A vector of length 1 for each document: the mean of its passages' vectors, each weighed by
    its characters; zeros for a document without passages.

    Args:
        passages: of each document.
        vectors: of the passages of each document.
    """
    import numpy as np

    dimension = next((some.shape[1] for some in vectors if len(some)), 0)
    found = np.zeros((len(passages), dimension), np.float32)
    for row, texts, some in zip(found, passages, vectors, strict=True):
        if len(texts):
            weights = np.array([max(1, len(text)) for text in texts], np.float64)
            mean = weights @ some.astype(np.float64) / weights.sum()
            size = float(np.linalg.norm(mean))
            row[:] = mean / size if size > 1e-12 else mean
    return found
