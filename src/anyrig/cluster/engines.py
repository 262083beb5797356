"""The engines of a worker: loaded when the first task needs one, and kept."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.cluster.registry import EngineId
from anyrig.errors import InvalidInputError, mention

if TYPE_CHECKING:
    from anyrig.cluster.protocol import Codec, OptionValue, TaskRequest
    from anyrig.work.live import LiveQueue
    from anyrig.work.protocol import WorkerStatus

log = logging.getLogger(__name__)
_MAX_LOADED = 2


class LoadedEngine(Protocol):
    live: LiveQueue[Any, Any]

    def check(self, payload: Any) -> None:
        """Raise an error for an item that must not be computed here."""

    def close(self) -> None: ...


class Handler(Protocol):
    """One kind of work that a worker can do."""

    @property
    def codec(self) -> Codec: ...

    @property
    def engines(self) -> tuple[EngineId, ...]:
        """Those that are ready on this machine."""

    @property
    def precisions(self) -> Mapping[str, tuple[str, ...]]:
        """By engine: the classes of number formats it can compute in, the best first."""

    def open(
        self, engine: str, precision: str, options: Mapping[str, OptionValue]
    ) -> LoadedEngine: ...


class LoadedEngines:
    """Loads engines, and closes the least recently used one when there are too many.

    Args:
        handlers: what the worker can do.
        on_load: called with the facts of an engine that was loaded.
    """

    def __init__(
        self, handlers: Sequence[Handler], on_load: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._handlers = {one.codec.kind: one for one in handlers}
        self._on_load = on_load
        self._loaded: OrderedDict[tuple[str, ...], LoadedEngine] = OrderedDict()
        self._loading, self._lock = threading.Lock(), threading.Lock()

    @property
    def engines(self) -> tuple[EngineId, ...]:
        return tuple(one for handler in self._handlers.values() for one in handler.engines)

    @property
    def precisions(self) -> dict[str, tuple[str, ...]]:
        handlers = self._handlers.values()
        return {name: some for one in handlers for name, some in one.precisions.items()}

    def processes(self) -> list[WorkerStatus]:
        """Those of loaded engines that are ready, as last seen."""
        with self._lock:
            loaded = list(self._loaded.values())
        return [one for each in loaded for one in each.live.workers() if one.state == "ready"]

    def close(self) -> None:
        with self._lock, ExitStack() as stack:
            for engine in self._loaded.values():
                stack.callback(engine.close)
            self._loaded.clear()

    def find(self, request: TaskRequest) -> tuple[Codec, LoadedEngine]:
        """The engine of a task; an error if this worker's is not equal to the sender's."""
        handler, name = self._handlers.get(request.kind), request.engine.engine
        engines = handler.engines if handler is not None else ()
        mine = next((one for one in engines if one.engine == name), None)
        if handler is None or mine is None:
            raise InvalidInputError(f"this worker has no {name}", hint="Install it there.")
        if difference := request.engine.describe_difference(mine):
            raise InvalidInputError(difference, hint="Install the same one there.")
        classes = handler.precisions.get(name)
        if classes is not None and request.precision not in classes:
            raise InvalidInputError(
                f"this worker cannot compute {name} in {request.precision}, only in"
                f" {', '.join(classes)}",
                hint=f"Pass a {mention('precision')} that all workers have.",
            )
        options = repr(sorted(request.options.items()))
        key = (request.kind, name, request.precision, options)
        with self._loading:
            engine = self._loaded.get(key)
            if engine is None or not engine.live.open:
                engine = self._load(key, handler, request)
            self._loaded.move_to_end(key)
        return handler.codec, engine

    def _load(self, key: tuple[str, ...], handler: Handler, request: TaskRequest) -> LoadedEngine:
        with self._lock:
            before = self._loaded.pop(key, None)
        if before is not None:
            before.close()
        began, name = time.monotonic(), request.engine.engine
        engine = handler.open(name, request.precision, request.options)
        with self._lock:
            self._loaded[key] = engine
        word = next((one.word for one in engine.live.workers()), "")
        facts = {
            "model": name, "version": request.engine.version, "precision": request.precision,
            "word": word, "seconds": round(time.monotonic() - began, 2),
        }  # fmt: skip
        log.info("loaded: %s", facts)
        self._on_load(facts)
        while len(self._loaded) > _MAX_LOADED:
            with self._lock:  # not one that computes: its items would fail
                idle = next(
                    (
                        name for name, one in self._loaded.items()
                        if one is not engine and not one.live.running
                    ),
                    None,
                )  # fmt: skip
                if idle is None:
                    break
                oldest = self._loaded.pop(idle)
            oldest.close()
        return engine
