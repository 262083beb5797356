"""Vectors for many clients at once: one model in its workers, the texts of all clients in batches.

A client may name a packaged model that is installed, one that was downloaded, or one in the folders
of `server.models`. No name is ever taken for a path.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.embedding import EmbeddingOptions, build_shelf, open_embedder
from anyrig.errors import (
    AnyrigError,
    DeviceError,
    InvalidInputError,
    ModelNotFoundError,
    OutOfMemoryError,
    errors_of_option,
)
from anyrig.options import list_options
from anyrig.storage.weights import find_cached_repository

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from anyrig.app.rig import Rig
    from anyrig.documents.cache.desk import Desk
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Use
    from anyrig.work.live import Lane
    from anyrig.work.protocol import WorkerStatus

OPENAI_PREFIX = "text-embedding-"
"""OpenAI's names, which its clients send by default: they are the default model where no model has
the name."""
_DEFAULT_MODEL = "minilm"
_FULL_BATCH, _FULL_BATCH_HALF, _FULL_BATCH_GPU = 4_096.0, 16_384.0, 65_536.0
"""Characters of a batch above which a CPU in fp32, a CPU in half precision, and a GPU get hardly
faster."""


class EmbeddingModel:
    """A model that clients may name, and its tokenizer."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Without a limit of length; None if the model tokenizes by itself."""
        if not self.model.takes_tokens:
            return None
        from anyrig.documents.tokenise import opened

        tokenizer = opened(self.model.tokenizer or self.model.folder / "tokenizer.json")
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
        from anyrig.documents.tokenise import count

        return count(self.tokenizer, texts)

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


class LiveEmbedder:
    """An embedding model that is loaded; a `ModelQueue`."""

    def __init__(self, desk: Desk, embedder: Embedder) -> None:
        self._desk, self._embedder = desk, embedder
        self.report = embedder.report
        self.is_open = True

    @property
    def running(self) -> int:
        return self._desk.running

    def waiting(self, lane: Lane) -> int:
        return self._desk.waiting("bulk" if lane == "bulk" else "single")

    def workers(self) -> tuple[WorkerStatus, ...]:
        return self._embedder.workers()

    def submit(self, texts: Sequence[str], use: Use, lane: Lane) -> list[Future[Any]]:
        return self._desk.submit(texts, use=use, lane="bulk" if lane == "bulk" else None)


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
        self._models: dict[str, EmbeddingModel] = {}
        """Those that were found, by the names they were asked for."""

    # -- which model -------------------------------------------------------------------------------

    @cached_property
    def default_name(self) -> str:
        name = self._rig.settings.documents.model
        return name if name not in ("", "auto") else _DEFAULT_MODEL

    def list_models(self) -> list[EmbeddingModel]:
        """Those that clients may name, the default first."""
        found: dict[str, EmbeddingModel] = {}
        for name in (self.default_name, *self._list_names()):
            with suppress(AnyrigError):  # its files are damaged
                one = self.find_model(name)
                found.setdefault(one.name, one)
        return list(found.values())

    def is_default(self, model: EmbeddingModel) -> bool:
        return self._models.get(self.default_name) is model

    def find_model(self, name: str = "") -> EmbeddingModel:
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

    def _look_up(self, name: str) -> EmbeddingModel:
        from anyrig.documents.model import find, in_folder

        models = self._rig.folders.models
        names = self._list_names()
        if name == self.default_name and name not in names:
            return EmbeddingModel(find(name, models=models))  # not of a client: of the settings
        if name not in names and find_cached_repository(name) is not None:
            return EmbeddingModel(find(name, models=models))
        if name not in names:
            raise ModelNotFoundError(
                f"unknown embedding model {name[:200]!r}", hint=f"Models: {', '.join(names)}."
            )
        folder = names[name]
        return EmbeddingModel(in_folder(folder, name=name) if folder else find(name, models=models))

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
    ) -> list[Future[Any]]:
        """A future of each text's vector (fp32); the model stays loaded until all are done.

        `client` is the key for which the model is loaded, if it is not.
        """
        found = self.find_model(model).model
        name = f"embeddings {found.name}"
        with ExitStack() as stack:
            embedder = stack.enter_context(
                self._rig.models.borrow(name, lambda: self._open(found), client=client)
            )
            futures = embedder.submit(texts, use, lane)
            borrowed = stack.pop_all()
        if not futures:
            borrowed.close()
        numbers = count(1)

        def finish(future: Future[Any]) -> None:
            if not future.cancelled() and _is_fatal(future.exception()):
                embedder.is_open = False  # no device is left: the next client loads it again
            if next(numbers) == len(futures):
                borrowed.close()

        for future in futures:
            future.add_done_callback(finish)
        return futures

    @contextmanager
    def _open(self, model: Model) -> Iterator[LiveEmbedder]:
        from anyrig.documents.cache.desk import Desk
        from anyrig.documents.cache.pace import Pace

        rig, settings = self._rig, self._rig.settings.server
        rig.reload_saved_device()
        options = rig.request(EmbeddingOptions, **self._options)
        with ExitStack() as stack:
            embedder = stack.enter_context(
                open_embedder(rig, options, model, rig.report, shared=True)
            )
            embedder.wait_ready()
            shelf = None
            if not options.no_cache:
                cache = stack.enter_context(open_cache(rig))
                if cache is not None:
                    shelf = build_shelf(
                        cache, model, embedder.precision, embedder.long, embedder.deterministic
                    )
            desk = stack.enter_context(
                Desk(
                    embedder, shelf, most_waiting=max(settings.queue, settings.texts),
                    threads=max(1, len(embedder.workers())), pace=Pace(full=_full_batch(embedder)),
                )
            )  # fmt: skip
            live = LiveEmbedder(desk, embedder)
            stack.callback(setattr, live, "is_open", False)
            yield live


def _full_batch(embedder: Embedder) -> float:
    if any(worker.kind != "cpu" for worker in embedder.workers()):
        return _FULL_BATCH_GPU
    return _FULL_BATCH if embedder.precision == "fp32" else _FULL_BATCH_HALF


def _find_models(root: Path, *, itself: bool = False) -> Iterator[Path]:
    """The folders below one that hold a model, and the folder itself if it does."""
    from anyrig.documents.st_folder import complete

    with suppress(OSError):
        below = sorted(one for one in root.iterdir() if one.is_dir()) if root.is_dir() else []
        for folder in [root, *below] if itself else below:
            with suppress(AnyrigError, OSError, ValueError):
                if complete(folder):
                    yield folder.resolve()


def _is_fatal(error: BaseException | None) -> bool:
    """Whether no device is left that could embed the next text."""
    return isinstance(error, DeviceError) and not isinstance(error, OutOfMemoryError)
