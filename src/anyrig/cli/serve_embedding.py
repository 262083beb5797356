"""The server's embeddings: one desk for each model, lent by the keeper, its model in workers.

A request names a model of a list that is made here: packaged ones that are installed, fetched ones,
and those in the folders of `server.models`. No name is ever taken for a path.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import count as counted
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.embedding import EmbeddingOptions, build_marks, open_embedder
from anyrig.cli.context import Context
from anyrig.errors import AnyrigError, DeviceError, InvalidInputError, OutOfMemoryError
from anyrig.server.errors import Problem
from anyrig.server.keeper import Keeper
from anyrig.server.models import stood_in

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from anyrig.documents.cache.desk import Desk
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Use
    from anyrig.work.live import Lane
    from anyrig.work.protocol import WorkerStatus

log = logging.getLogger(__name__)
OTHERS = "text-embedding-"
"""How names begin that clients of OpenAI's interface send without being asked: they are the default
model's here, where no model is called so."""

_FULL, _FULL_HALF, _FULL_GPU = 4_096.0, 16_384.0, 65_536.0
"""Letters of a batch that a CPU in whole and in half numbers, and a GPU, makes about as fast a text
as any larger one."""


def made(context: Context, stack: ExitStack, keeper: Keeper) -> Embeddings:
    """The part; the keeper closes what it loads."""
    return Embeddings(context, keeper)


class Embeddings:
    """Fits `server.parts.Embedding`."""

    def __init__(self, context: Context, keeper: Keeper) -> None:
        self._context, self._keeper = context, keeper
        self._lock = threading.Lock()
        self._found: dict[str, Found] = {}

    # -- which -------------------------------------------------------------------------------------

    def models(self) -> list[Mapping[str, Any]]:
        """Those that can be asked for, the default first."""
        told: dict[str, Mapping[str, Any]] = {}
        for name in (self._default, *self._names()):
            with suppress(AnyrigError):  # one whose files are broken cannot be asked for
                one = self.named(name)
                told.setdefault(one["id"], one)
        return list(told.values())

    def named(self, model: str = "") -> Mapping[str, Any]:
        """The model that a name stands for."""
        found, note = self._known(model)
        told = {**found.told, "default": found is self._found.get(self._default)}
        return {**told, "note": note} if note else told

    def _known(self, name: str) -> tuple[Found, str]:
        note = ""
        if name.startswith(OTHERS) and name not in self._names():
            note = stood_in(name, self._default)
        if note or name in ("", "auto"):
            name = self._default
        with self._lock:
            found = self._found.get(name)
        if found is None:
            found = self._look(name)
            with self._lock:
                found = self._found.setdefault(found.model.name, found)
                self._found[name] = found  # the default may be named by its path, in the settings
        return found, note

    @cached_property
    def _default(self) -> str:
        asked = self._context.loaded.settings.documents.model
        return asked if asked not in ("", "auto") else "minilm"

    def _look(self, name: str) -> Found:
        from anyrig.documents.model import find, in_folder

        models = self._context.folders.models
        names = self._names()
        if name == self._default and name not in names:
            return Found(find(name, models=models))  # of the settings: a person wrote it there
        if name not in names:
            raise Problem(
                404, f"there is no embedding model {name[:200]!r} here",
                hint=f"There are: {', '.join(names)}.", param="model",
            )  # fmt: skip
        folder = names[name]
        return Found(in_folder(folder, name=name) if folder else find(name, models=models))

    def _names(self) -> dict[str, Path | None]:
        """Every name that may be said, and the folder of those that have one."""
        from anyrig.documents.packaged import PACKAGED

        names: dict[str, Path | None] = {n: None for n, one in PACKAGED.items() if not one.lack()}
        for folder in _models_in(self._context.folders.models / "documents"):
            names.setdefault(folder.name.replace("--", "/", 1), folder)
        for word in self._context.loaded.settings.server.models.split(","):
            if word.strip():
                root = Path(word.strip()).expanduser()
                for folder in _models_in(root, itself=True):
                    names.setdefault(folder.name, folder)
        return names

    # -- tokens ------------------------------------------------------------------------------------

    def tokens(self, texts: Sequence[str], *, model: str = "") -> int:
        """How many tokens these are, those at the ends not counted; words where it has none."""
        tokenizer = self._known(model)[0].tokenizer
        if tokenizer is None:
            return sum(len(text.split()) for text in texts)
        from anyrig.documents.tokenise import count

        return count(tokenizer, texts)

    def text_of(self, tokens: Sequence[int], *, model: str = "") -> str:
        """What a list of tokens stands for; those at the ends of it are left out."""
        found = self._known(model)[0]
        tokenizer = found.tokenizer
        if tokenizer is None:
            raise InvalidInputError(
                f"{found.model.name} has no tokens", hint="Send the text itself."
            )
        if max(tokens) >= found.num_tokens:
            raise InvalidInputError(
                f"{max(tokens)} is no token of {found.model.name}",
                hint="Tokens are those of the model itself, not OpenAI's. Send the text; LangChain "
                "does so with check_embedding_ctx_len=False.",
            )
        inner = list(tokens)
        while inner and inner[0] in found.ends:
            del inner[0]
        while inner and inner[-1] in found.ends:
            del inner[-1]
        text: str = tokenizer.decode(inner, skip_special_tokens=False)
        if not text:
            raise InvalidInputError(
                "there is a list of tokens without a text", hint="Leave it out."
            )
        return text

    # -- vectors -----------------------------------------------------------------------------------

    def submit(
        self, texts: Sequence[str], *, model: str = "", use: Use = "passage", lane: Lane = "live"
    ) -> list[Future[Any]]:
        """A future of each text's vector; the model stays loaded until all are done."""
        found = self._known(model)[0]
        name = f"embeddings {found.model.name}"
        with ExitStack() as stack:
            opened = stack.enter_context(self._keeper.lend(name, lambda: self._open(found.model)))
            futures = opened.desk.submit(texts, use=use, lane="bulk" if lane == "bulk" else None)
            lent = stack.pop_all()
        numbers = counted(1)

        def done(future: Future[Any]) -> None:
            if not future.cancelled() and _is_broken(future.exception()):
                self._forget(name, opened)
            if next(numbers) == len(futures):
                lent.close()

        for future in futures:
            future.add_done_callback(done)
        if not futures:
            lent.close()
        return futures

    def _open(self, model: Model) -> Opened:
        from anyrig.documents.cache.desk import Desk
        from anyrig.documents.cache.pace import Pace
        from anyrig.documents.cache.shelf import Shelf

        context, settings = self._context, self._context.loaded.settings.server
        with ExitStack() as stack:
            rig, options = context.rig, context.request(EmbeddingOptions)
            made = stack.enter_context(open_embedder(rig, options, model, rig.report, shared=True))
            made.wait_ready()
            shelf = None
            if not getattr(context.options, "no_cache", False):
                cache = stack.enter_context(open_cache(rig))
                marks = build_marks(
                    model, precision=made.precision, long=made.long,
                    deterministic=made.deterministic,
                )  # fmt: skip
                shelf = Shelf(cache, marks, model.dimension) if cache else None
            waiting = max(settings.queue, settings.texts)
            threads = max(1, len(made.workers()))
            on_cpu = all(worker.kind == "cpu" for worker in made.workers())
            on_cpu_full = _FULL if made.precision == "fp32" else _FULL_HALF
            pace = Pace(full=on_cpu_full if on_cpu else _FULL_GPU)
            desk = stack.enter_context(
                Desk(made, shelf, most_waiting=waiting, threads=threads, pace=pace)
            )
            return Opened(desk, made, stack.pop_all())

    def _forget(self, name: str, opened: Opened) -> None:
        """A model whose devices are gone: who asks next, loads it anew; the keeper closes it."""
        self._keeper.drop(name, opened)


class Found:
    """A model, and what is told of it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def told(self) -> dict[str, Any]:
        """As `Embedding.models` has it."""
        one = self.model
        return {"id": one.name, "dimension": one.dimension, "longest": one.longest,
                "languages": list(one.languages), "licence": one.licence}  # fmt: skip

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """What cuts its texts, without an end to their length; none where the graph does it."""
        if not self.model.takes_tokens:
            return None
        from anyrig.documents.tokenise import opened

        made = opened(self.model.tokenizer or self.model.folder / "tokenizer.json")
        made.no_padding()
        made.no_truncation()
        return made

    @cached_property
    def num_tokens(self) -> int:
        """How many tokens it knows."""
        return self.tokenizer.get_vocab_size() if self.tokenizer else 0

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that are set around every text."""
        return frozenset(self.tokenizer.encode("").ids) if self.tokenizer else frozenset()


class Opened:
    """A desk and all it stands on; a `keeper.Counter`."""

    def __init__(self, desk: Desk, embedder: Embedder, stack: ExitStack) -> None:
        self.desk, self._embedder, self._stack = desk, embedder, stack
        self._lock = threading.Lock()
        self._ended = False
        self.report = embedder.report

    @property
    def open(self) -> bool:
        """Whether it takes anything."""
        return not self._ended

    @property
    def running(self) -> int:
        """Texts that are being made."""
        return self.desk.running

    def waiting(self, lane: Lane) -> int:
        """Texts that wait."""
        return self.desk.waiting("bulk" if lane == "bulk" else "single")

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Its processes, as last seen."""
        return self._embedder.workers()

    def close(self) -> None:
        """End it, once."""
        with self._lock:
            stack, self._stack = self._stack, ExitStack()
            self._ended = True
        stack.close()


def _models_in(root: Path, *, itself: bool = False) -> Iterator[Path]:
    """The folders below one that hold a model, and the folder itself where it does."""
    from anyrig.documents.st_folder import complete

    with suppress(OSError):
        below = sorted(one for one in root.iterdir() if one.is_dir()) if root.is_dir() else []
        for folder in [root, *below] if itself else below:
            with suppress(AnyrigError, OSError, ValueError):
                if complete(folder):
                    yield folder.resolve()


def _is_broken(error: BaseException | None) -> bool:
    """Whether no device is left that could do the next one."""
    return isinstance(error, DeviceError) and not isinstance(error, OutOfMemoryError)
