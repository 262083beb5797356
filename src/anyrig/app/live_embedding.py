"""Vectors for many clients at once: one model in its workers, the texts of all clients in batches.

A client may name a packaged model that is installed, one that was downloaded, or one in the folders
of `server.models`. No name is ever taken for a path.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.embedding import EmbeddingOptions, open_embedder, open_vector_cache
from anyrig.errors import (
    AnyrigError,
    DeviceError,
    InvalidInputError,
    ModelNotFoundError,
    OutOfMemoryError,
    OverloadedError,
    errors_of_option,
)
from anyrig.options import list_options
from anyrig.storage.weights import find_cached_repository

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from anyrig.app.rig import Rig
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import Matrix, TextBlock, Use
    from anyrig.documents.vector_cache import VectorCache
    from anyrig.work.live import Lane
    from anyrig.work.protocol import WorkerStatus

OPENAI_PREFIX = "text-embedding-"
"""OpenAI's names, which its clients send by default: they are the default model where no model has
the name."""
_DEFAULT_MODEL = "minilm"
_BLOCK, _CPU_BLOCK = (512, 65_536), (16, 2_048)
"""Texts and characters that go to a worker together: on a CPU little more than one batch, since a
request of one text waits for those that a worker has."""
_BLOCKS_AHEAD, _CPU_BLOCKS_AHEAD = 64, 2
"""Blocks that a worker has; a GPU joins them to batches."""
_WRITTEN_BLOCKS = 64
"""Blocks that are written to the cache at once."""


class ServedEmbeddingModel:
    """A model that clients may name, and its tokenizer."""

    def __init__(self, model: EmbeddingModel) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Without a limit of length; None if the model tokenizes by itself."""
        if not self.model.takes_tokens:
            return None
        from anyrig.documents.tokenizer import open_tokenizer

        tokenizer = open_tokenizer(self.model.tokenizer or self.model.folder / "tokenizer.json")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _vocabulary_size(self) -> int:
        return self.tokenizer.get_vocab_size() if self.tokenizer else 0

    @cached_property
    def _end_tokens(self) -> frozenset[int]:
        """Those that are set around every text."""
        return frozenset(self.tokenizer.encode("").ids) if self.tokenizer else frozenset()

    def count_tokens(self, texts: Sequence[str]) -> int:
        """Tokens of the texts, without those at the ends; words if there is no tokenizer."""
        if self.tokenizer is None:
            return sum(len(text.split()) for text in texts)
        from anyrig.documents.tokenizer import count_tokens

        return count_tokens(self.tokenizer, texts)

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        """The text of some tokens, without those at the ends."""
        if self.tokenizer is None:
            raise InvalidInputError(f"{self.name} has no tokenizer", hint="Send the text itself.")
        if max(tokens) >= self._vocabulary_size:
            raise InvalidInputError(
                f"{max(tokens)} is not a token of {self.name}",
                hint="Tokens must be those of the model, not OpenAI's. Send the text; LangChain "
                "does so with check_embedding_ctx_len=False.",
            )
        inner = list(tokens)
        while inner and inner[0] in self._end_tokens:
            del inner[0]
        while inner and inner[-1] in self._end_tokens:
            del inner[-1]
        text: str = self.tokenizer.decode(inner, skip_special_tokens=False)
        if not text:
            raise InvalidInputError("a list of tokens has no text", hint="Leave it out.")
        return text


_BlockKey = tuple[Any, ...]
"""Lane, use and texts."""


@dataclass(eq=False)
class _SharedBlock:
    """A block that is being made for every client that asks for its texts meanwhile."""

    made: Future[Matrix]
    num_clients: int = 1


class LiveEmbedder:
    """An embedding model that is loaded; a `ModelQueue`. Texts of many clients share batches.

    Args:
        embedder: of the model; closed by whoever opened it.
        cache: of its vectors.
        max_waiting: texts of a lane that may wait.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None, max_waiting: int) -> None:
        from anyrig.documents.protocol import estimate_cost
        from anyrig.work.live import LiveQueue

        pool = embedder.open_workers()
        ahead = _CPU_BLOCKS_AHEAD if embedder.on_cpu else _BLOCKS_AHEAD
        self._queue: LiveQueue[TextBlock, Matrix] = LiveQueue(
            pool, cost=estimate_cost, max_in_flight=ahead * pool.size, report=embedder.report
        )
        self._embedder, self._max_waiting = embedder, max_waiting
        self._size = _CPU_BLOCK if embedder.on_cpu else _BLOCK
        self._writer = None if cache is None else _CacheWriter(cache)
        self._lock = threading.Lock()
        self._pending: dict[Lane, dict[Future[Matrix], int]] = {"live": {}, "bulk": {}}
        """How many texts each future is of."""
        self._num_pending: Counter[Lane] = Counter()
        self._shared: dict[_BlockKey, _SharedBlock] = {}
        """Blocks that are being made, by what is in them."""
        self.report = embedder.report
        self._is_lost = False

    @property
    def is_open(self) -> bool:
        return self._queue.is_open and not self._is_lost

    @property
    def running(self) -> int:
        return self._queue.running

    def waiting(self, lane: Lane) -> int:
        """How many texts no worker has begun."""
        with self._lock:
            return sum(n for one, n in self._pending[lane].items() if not one.running())

    def workers(self) -> tuple[WorkerStatus, ...]:
        return self._embedder.workers()

    def mark_lost(self) -> None:
        """No device is left: the next client loads the model again."""
        self._is_lost = True

    def submit(
        self, texts: Sequence[str], use: Use, lane: Lane, client: str
    ) -> list[Future[Matrix]]:
        """Futures of blocks of rows, in order."""
        if self._num_pending[lane] + len(texts) > self._max_waiting:
            waiting = self.waiting(lane)
            if waiting + len(texts) > self._max_waiting:
                raise OverloadedError(
                    f"the queue is full: {waiting} texts are waiting", hint="Try again in a moment."
                )
        return [self._submit_block(block, use, lane, client) for block in _split(texts, self._size)]

    def _submit_block(
        self, texts: Sequence[str], use: Use, lane: Lane, client: str
    ) -> Future[Matrix]:
        from anyrig.documents.protocol import TextBlock

        if self._writer is None:
            return self._send(TextBlock(texts, use), lane, client)
        found, missing = self._writer.look_up(texts, use)
        if not missing:
            ready: Future[Matrix] = Future()
            ready.set_result(_join_rows(texts, found))
            return ready
        key = (lane, use, *missing)
        shared = self._join_block(key, TextBlock(missing, use), client)
        whole = _join_futures(texts, found, missing, shared.made)
        whole.add_done_callback(lambda one: self._leave_block(key, shared, one.cancelled()))
        return whole

    def _join_block(self, key: _BlockKey, block: TextBlock, client: str) -> _SharedBlock:
        """The block that another client waits for with the same texts, or one that is sent now."""
        with self._lock:
            if (shared := self._shared.get(key)) is not None:
                shared.num_clients += 1
                return shared
        shared = _SharedBlock(self._send(block, key[0], client))
        with self._lock:
            self._shared.setdefault(key, shared)
        if self._writer is not None:
            self._writer.write_when_made(block, shared.made)
        return shared

    def _leave_block(self, key: _BlockKey, shared: _SharedBlock, is_cancelled: bool) -> None:
        """Cancel a block that nobody waits for; no new client joins one that is done."""
        with self._lock:
            shared.num_clients -= is_cancelled
            is_over = not is_cancelled or not shared.num_clients
            if is_over and self._shared.get(key) is shared:
                del self._shared[key]
        if not shared.num_clients:
            shared.made.cancel()

    def _send(self, block: TextBlock, lane: Lane, client: str) -> Future[Matrix]:
        future = self._queue.submit(block, lane=lane, client=client, admitted=True)
        with self._lock:
            self._pending[lane][future] = len(block.texts)
            self._num_pending[lane] += len(block.texts)
        future.add_done_callback(lambda done: self._forget(done, lane))
        return future

    def _forget(self, future: Future[Matrix], lane: Lane) -> None:
        with self._lock:
            self._num_pending[lane] -= self._pending[lane].pop(future)

    def close(self) -> None:
        self._queue.close()
        if self._writer is not None:
            self._writer.close()


class _CacheWriter:
    """Writes vectors from a thread of its own, those of several requests at once."""

    def __init__(self, cache: VectorCache) -> None:
        self._cache = cache
        self._made: SimpleQueue[tuple[list[str], Matrix] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="anyrig-vectors", daemon=True)
        self._thread.start()

    def look_up(self, texts: Sequence[str], use: Use) -> tuple[dict[str, Matrix], list[str]]:
        """The vectors that are cached, by text, and the texts without, each once."""
        keys = {text: self._cache.make_key(text, use) for text in texts}
        cached = self._cache.get_many(keys.values())
        found = {text: cached[key] for text, key in keys.items() if key in cached}
        return found, [text for text in keys if text not in found]

    def write_when_made(self, block: TextBlock, made: Future[Matrix]) -> None:
        keys = [self._cache.make_key(text, block.use) for text in block.texts]

        def write(made: Future[Matrix]) -> None:
            if not made.cancelled() and made.exception() is None:
                self._made.put((keys, made.result()))

        made.add_done_callback(write)

    def close(self) -> None:
        """End once everything is written."""
        self._made.put(None)
        self._thread.join()

    def _write(self) -> None:
        ended = False
        while not ended:
            some = [self._made.get()]
            with suppress(Empty):
                while len(some) < _WRITTEN_BLOCKS:
                    some.append(self._made.get_nowait())
            keys: list[str] = []
            rows: list[Matrix] = []
            for one in some:
                if one is None:
                    ended = True
                else:
                    keys += one[0]
                    rows.extend(one[1])
            self._cache.put_many(keys, rows)


def _join_futures(
    texts: Sequence[str], found: dict[str, Matrix], missing: list[str], made: Future[Matrix]
) -> Future[Matrix]:
    """A future of all rows, found and made."""
    whole: Future[Matrix] = Future()

    def finish(made: Future[Matrix]) -> None:
        if made.cancelled() or not whole.set_running_or_notify_cancel():
            whole.cancel()
        elif (error := made.exception()) is not None:
            whole.set_exception(error)
        else:
            vectors = {**found, **dict(zip(missing, made.result(), strict=True))}
            whole.set_result(_join_rows(texts, vectors))

    made.add_done_callback(finish)
    return whole


def _join_rows(texts: Sequence[str], vectors: Mapping[str, Matrix]) -> Matrix:
    import numpy as np

    return np.stack([vectors[text] for text in texts])


def _split(texts: Sequence[str], size: tuple[int, int]) -> Iterator[list[str]]:
    """Consecutive texts, so many and so many characters at a time; a longer one goes alone."""
    max_texts, max_characters = size
    block: list[str] = []
    length = 0
    for text in texts:
        if block and (len(block) >= max_texts or length + len(text) > max_characters):
            yield block
            block, length = [], 0
        block.append(text)
        length += len(text)
    if block:
        yield block


class LiveEmbedding:
    """Vectors for many clients. Safe to call from many threads; everything may block.

    Args:
        rig: the machine; its model cache holds the models.
        options: of every request, such as `device` and `no_cache`; those that embedding does not
            have are ignored.
    """

    def __init__(self, rig: Rig, options: Mapping[str, Any] | None = None) -> None:
        known = list_options(EmbeddingOptions)
        self._rig = rig
        self._options = {name: one for name, one in (options or {}).items() if name in known}
        self._lock = threading.Lock()
        self._models: dict[str, ServedEmbeddingModel] = {}
        """Those that were found, by the names they were asked for."""

    # -- which model -------------------------------------------------------------------------------

    @cached_property
    def default_name(self) -> str:
        name = self._rig.settings.documents.model
        return name if name not in ("", "auto") else _DEFAULT_MODEL

    def list_models(self) -> list[ServedEmbeddingModel]:
        """Those that clients may name, the default first."""
        found: dict[str, ServedEmbeddingModel] = {}
        for name in (self.default_name, *self._list_names()):
            with suppress(AnyrigError):  # its files are damaged
                one = self.find_model(name)
                found.setdefault(one.name, one)
        return list(found.values())

    def is_default(self, model: ServedEmbeddingModel) -> bool:
        return self._models.get(self.default_name) is model

    def find_model(self, name: str = "") -> ServedEmbeddingModel:
        """The model of a name; the default one for OpenAI's names, unless a model is called so."""
        if name in ("", "auto") or self._is_openai(name):
            name = self.default_name
        with self._lock:
            found = self._models.get(name)
        if found is None:
            with errors_of_option("model"):
                found = self._look_up(name)
            with self._lock:
                found = self._models.setdefault(found.name, found)
                self._models[name] = found  # in the settings, the default may be a path
        return found

    def _is_openai(self, name: str) -> bool:
        return name.startswith(OPENAI_PREFIX) and name not in self._list_names()

    def _look_up(self, name: str) -> ServedEmbeddingModel:
        from anyrig.documents.model import find
        from anyrig.documents.model_folder import in_folder

        models = self._rig.folders.models
        names = self._list_names()
        if name == self.default_name and name not in names:
            return ServedEmbeddingModel(
                find(name, models=models)
            )  # not of a client: of the settings
        if name not in names and find_cached_repository(name) is not None:
            return ServedEmbeddingModel(find(name, models=models))
        if name not in names:
            raise ModelNotFoundError(
                f"unknown embedding model {name[:200]!r}", hint=f"Models: {', '.join(names)}."
            )
        folder = names[name]
        return ServedEmbeddingModel(
            in_folder(folder, name=name) if folder else find(name, models=models)
        )

    def _list_names(self) -> dict[str, Path | None]:
        """Every name that a client may use, with the folder of the model if it has one."""
        from anyrig.documents.packaged import PACKAGED

        names: dict[str, Path | None] = {n: None for n, one in PACKAGED.items() if not one.lack()}
        for folder in _find_models(self._rig.folders.models / "documents"):
            names.setdefault(folder.name.replace("--", "/", 1), folder)
        for word in self._rig.settings.server.models.split(","):
            if word.strip():
                root = Path(word.strip()).expanduser()
                for folder in _find_models(root, itself=True):
                    names.setdefault(folder.name, folder)
        return names

    # -- vectors -----------------------------------------------------------------------------------

    def submit(
        self,
        texts: Sequence[str],
        *,
        model: str = "",
        use: Use = "passage",
        lane: Lane = "live",
        client: str = "",
    ) -> list[Future[Matrix]]:
        """Futures of blocks of vectors, in order; the model stays loaded until all are done.

        `client` is the key that asks: clients take turns, and the model is loaded for it.
        """
        found = self.find_model(model).model
        name = f"embeddings {found.name}"
        with ExitStack() as stack:
            embedder = stack.enter_context(
                self._rig.models.borrow(name, lambda: self._open(found), client=client)
            )
            futures = embedder.submit(texts, use, lane, client)
            borrowed = stack.pop_all()
        if not futures:
            borrowed.close()
        numbers = count(1)

        def finish(future: Future[Any]) -> None:
            if not future.cancelled() and _is_fatal(future.exception()):
                embedder.mark_lost()
            if next(numbers) == len(futures):
                borrowed.close()

        for future in futures:
            future.add_done_callback(finish)
        return futures

    @contextmanager
    def _open(self, model: EmbeddingModel) -> Iterator[LiveEmbedder]:
        rig, settings = self._rig, self._rig.settings.server
        rig.reload_saved_device()
        options = rig.request(EmbeddingOptions, **self._options)
        with ExitStack() as stack:
            embedder = stack.enter_context(
                open_embedder(rig, options, model, rig.report, shared=True)
            )
            embedder.wait_ready()
            vectors = None
            if not options.no_cache:
                cache = stack.enter_context(open_cache(rig))
                if cache is not None:
                    vectors = open_vector_cache(
                        cache, model, embedder.precision, embedder.long, embedder.deterministic
                    )
            live = LiveEmbedder(embedder, vectors, max(settings.queue, settings.texts))
            stack.callback(live.close)
            yield live


def _find_models(root: Path, *, itself: bool = False) -> Iterator[Path]:
    """The folders below one that hold a model, and the folder itself if it does."""
    from anyrig.documents.model_folder import is_complete

    with suppress(OSError):
        below = sorted(one for one in root.iterdir() if one.is_dir()) if root.is_dir() else []
        for folder in [root, *below] if itself else below:
            with suppress(AnyrigError, OSError, ValueError):
                if is_complete(folder):
                    yield folder.resolve()


def _is_fatal(error: BaseException | None) -> bool:
    """Whether no device is left that could embed the next text."""
    return isinstance(error, DeviceError) and not isinstance(error, OutOfMemoryError)
