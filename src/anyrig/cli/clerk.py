"""A clerk: a worker process that does tasks on documents, one at a time, models kept loaded.

    live.submit({"task": "search", "arguments": {"index": "default", "question": "rent"}})

A task is a function of a module that is imported once it is asked for; it takes the clerk's room
and plain arguments, and answers plain JSON. What a person can mend comes back as an error of its
own class: `raised` raises it again in the process that asked.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyrig.cli.context import Context
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    WorkError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.work.engine import BaseEngine, EngineFactory
from anyrig.work.outcome import RunReport
from anyrig.work.protocol import NestedModel

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
T = TypeVar("T")
Task = Callable[["ClerkRoom", Mapping[str, Any]], Any]
TASKS: dict[str, str] = {
    "ready": "anyrig.cli.clerk:ready",
    "search": "anyrig.cli.clerk_search:search",
    "similar": "anyrig.cli.clerk_search:similar",
    "indexes": "anyrig.cli.clerk_index:indexes",
    "index_files": "anyrig.cli.clerk_index:files",
    "index_close": "anyrig.cli.clerk_index:close",
    "index_remove": "anyrig.cli.clerk_index:remove",
    "index_delete": "anyrig.cli.clerk_index:delete",
    "index_uploads": "anyrig.cli.clerk_index:uploads",
    "classifiers": "anyrig.cli.clerk_texts:classifiers",
    "passages": "anyrig.cli.clerk_texts:passages",
    "classify": "anyrig.cli.clerk_texts:classify",
    "entities": "anyrig.cli.clerk_texts:entities",
    "summarise": "anyrig.cli.clerk_texts:summarise",
    "analyse": "anyrig.cli.clerk_texts:analyse",
    "ocr": "anyrig.cli.clerk_ocr:ocr",
    # Not of documents, but work of the same kind: a file is opened, a model asked.
    "book_plan": "anyrig.cli.clerk_books:book_plan",
    "book_cover": "anyrig.cli.clerk_books:book_cover",
    "book_chapter": "anyrig.cli.clerk_books:book_chapter",
    "transcribe": "anyrig.cli.clerk_transcribe:transcribe",
}
"""Name -> `module:function`; imported when first asked for."""
MOST_KEPT = 8
"""Models in processes of their own that a clerk keeps, and as many models and indexes within its
own; the one not used for longest goes first."""
_OPTIONS: dict[str, Any] = {
    "no_bench": True, "json": False, "model": None, "fetch": False, "long": "windows",
    "deterministic": False, "no_cache": True, "ocr": None, "type": "", "language": "",
    "precision": None, "profile": None, "memory_gb": None, "memory_fraction": None,
    "workers_per_device": None,
}  # fmt: skip
"""What commands read of their flags. Nothing is measured, fetched or kept for a request."""


FACTORY = "anyrig.cli.clerk:Clerk"


def recipe(context: Context, *, bulk: bool, factory: str = FACTORY) -> EngineFactory:
    """How a worker process becomes a clerk, with this process's settings and environment."""
    plain = {
        name: value for name, value in vars(context.options).items()
        if value is None or isinstance(value, str | int | float)
    }  # fmt: skip
    return EngineFactory(
        factory,
        {"options": plain, "environment": dict(context.environment), "bulk": bulk},
        name="clerk",
        version="1",
    )


@dataclass(eq=False)
class _Opened:
    value: Any
    stack: ExitStack
    opened: float
    used: float
    """When a task last had it."""
    version: str = ""


class ClerkRoom:
    """What tasks stand on: a context of their own, and what is kept loaded from one to the next.

    Attributes:
        context: as a command has it; its options are the server's, with defaults of commands.
        bulk: whether this clerk does long work, on the chosen device; the other one is on the CPU.

    Args:
        context: see above.
        bulk: see above.
        most_kept: models and indexes that stay open between tasks.
        idle_s: what no task had for so long is closed when another task ends; 0 never.
        clock: seconds that only go forward.
    """

    def __init__(
        self, context: Context, *, bulk: bool, most_kept: int = MOST_KEPT, idle_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.context, self.bulk = context, bulk
        self.leash = ""
        """A file that is there for as long as somebody waits for the task at hand."""
        self._most, self._idle_s, self._clock = most_kept, idle_s, clock
        self._kept: OrderedDict[str, _Opened] = OrderedDict()
        self._at_hand: set[str] = set()
        """What the task at hand has."""
        self._lock = threading.Lock()
        """For these two: a model may have to go while a task is at work with others."""

    def keep(
        self, name: str, load: Callable[[], AbstractContextManager[T]], *, version: str = ""
    ) -> T:
        """Something under a name: opened where it is not, and open until others take its place.

        It may be used until the task ends; the next one asks again.

        Args:
            name: for people: `/health` shows it.
            load: opens it.
            version: another one of the same name is opened anew.
        """
        with self._lock:
            self._at_hand.add(name)
            found = self._kept.get(name)
        if found is not None and found.version != version:
            self.let_go(name)
            found = None
        if found is None:
            with ExitStack() as stack:
                value, now = stack.enter_context(load()), self._clock()
                found = _Opened(value, stack.pop_all(), now, now, version)
        with self._lock:
            self._kept[name] = found
            self._kept.move_to_end(name)
            found.used = self._clock()
        return cast("T", found.value)

    def let_go(self, name: str) -> None:
        """Close what is kept under a name, if anything is."""
        with self._lock:
            found = self._kept.pop(name, None)
        if found is not None:
            found.stack.close()

    def spare(self, name: str) -> None:
        """Close a model from another thread than the tasks'; not one that the task at hand has.

        Only what works in processes of its own: other things are their own thread's.
        """
        with self._lock:
            found = self._kept.get(name)
            if found is None or name in self._at_hand or not _pools(found.value):
                return
            del self._kept[name]
        found.stack.close()

    def held(self) -> list[NestedModel]:
        """What works in processes of its own, from any thread."""
        with self._lock:
            rows = [(name, one, name in self._at_hand) for name, one in self._kept.items()]
        return [
            model for name, one, busy in rows if (model := _nested_model(name, one, busy)).workers
        ]

    def check(self) -> None:
        """Called between two steps of a long task: an error where nobody waits for it any more."""
        if self.leash and not os.path.exists(self.leash):
            raise WorkError("nobody waits for this any more", hint="Ask again.")

    @property
    def kept(self) -> list[str]:
        """The names of all that is open."""
        with self._lock:
            return list(self._kept)

    def tidy(self) -> None:
        """Between tasks: close what was not used for longest, where there is too much; and what
        was not used for too long.
        """
        now = self._clock()
        with self._lock:
            for name in self._at_hand & self._kept.keys():
                self._kept[name].used = now
            self._at_hand.clear()
            before = now - self._idle_s if self._idle_s else -1.0
            names = [name for name, one in self._kept.items() if one.used < before]
            # Apart: a plan that costs nothing must not take the place of a model that runs.
            for runs in (True, False):
                rest = [name for name, one in self._kept.items()
                        if name not in names and bool(_pools(one.value)) == runs]  # fmt: skip
                names += rest[: max(0, len(rest) - self._most)]
        for name in names:
            self.let_go(name)

    def options(self, **changed: Any) -> Context:
        """A context with other flags; machine and settings are not looked up again."""
        own = Context.__new__(Context)
        # A copy shares whatever was found already, as `cached_property` keeps it in there.
        own.__dict__.update(self.context.__dict__)
        own.options = argparse.Namespace(**{**vars(self.context.options), **changed})
        return own


def _pools(value: Any) -> tuple[WorkerPool, ...]:
    """The workers of something that is kept; most have none of their own."""
    pools = getattr(value, "pools", None)
    return tuple(pools()) if callable(pools) else ()


def _nested_model(name: str, one: _Opened, busy: bool) -> NestedModel:
    pools = _pools(one.value)
    total = RunReport()
    for pool in pools:
        total.merge(pool.total)
    return NestedModel(
        name, one.opened, one.used, busy, tuple(seen for pool in pools for seen in pool.workers()),
        total.num_batches, total.num_items, total.busy_s, total.num_out_of_memory,
    )  # fmt: skip


class Clerk(BaseEngine):
    """Does tasks.

    Args:
        placement: where the process sits.
        options: flags of the server, by name.
        environment: the server's own: this process's may have devices hidden from it.
        bulk: see `ClerkRoom`.
    """

    name = "clerk"
    version = "1"
    pads = False
    batch_invariant = True
    max_items = 1

    def __init__(
        self,
        placement: Placement,
        *,
        options: Mapping[str, Any],
        environment: Mapping[str, str],
        bulk: bool,
    ) -> None:
        given = {**_OPTIONS, **options, "no_bench": True}
        if not bulk:
            given["device"] = "cpu"  # a question is short: a GPU takes longer to open
        context = Context(argparse.Namespace(**given), environment)
        idle_s = context.loaded.settings.server.idle_s
        self.room = ClerkRoom(context, bulk=bulk, idle_s=idle_s)

    def loaded_models(self) -> tuple[str, ...]:
        """What is loaded, for those who look after the process."""
        return tuple(self.room.kept)

    def nested_models(self) -> tuple[NestedModel, ...]:
        """Those of them that work in processes of their own, and where."""
        return tuple(self.room.held())

    def unload_model(self, name: str) -> None:
        """Close one of these, whatever else goes on; not what the task at hand has."""
        self.room.spare(name)

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """What came of each task: `{"result": ...}` or `{"error": ...}`."""
        return [self._one(payload) for payload in batch]

    def _one(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        from anyrig.memory import oom

        self.room.leash = payload.get("leash", "")
        try:
            return {"result": task(payload["task"])(self.room, payload["arguments"])}
        except AnyrigError as error:
            return {"error": error_to_dict(error)}
        except Exception as error:  # noqa: BLE001 - whatever a task throws is its answer
            if oom.detect_oom(error) is not None or oom.detect_device_loss(error):
                raise  # the process's own rescue knows better
            if is_disk_full(error):
                return {"error": error_to_dict(to_disk_full_error(error))}
            # Without its words: they may hold somebody's text, and this is for the server's log.
            name = type(error).__name__
            trace = "".join([*traceback.format_tb(error.__traceback__), name])
            wrong = WorkError(f"{payload['task']} failed ({name})", hint="The log says more.")
            return {"error": error_to_dict(wrong), "trace": trace}
        finally:
            self.room.tidy()


def task(name: str) -> Task:
    """A task by its name."""
    if name not in TASKS:
        raise InvalidInputError(f"there is no task {name!r}", hint=f"{', '.join(TASKS)}.")
    module, _, function = TASKS[name].partition(":")
    return cast("Task", getattr(importlib.import_module(module), function))


def ready(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """That the process is there, and what it has open."""
    return {"kept": room.kept}


def raised(answer: Mapping[str, Any]) -> Any:
    """The result of a task; its error, of its own class, where it has one."""
    if "error" not in answer:
        return answer["result"]
    if trace := answer.get("trace"):
        log.warning("a task failed:\n%s", trace)
    raise error_from_dict(answer["error"])
