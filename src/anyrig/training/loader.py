"""Batches from a data set, by workers or without, the same in both.

    with Loader(data, options=Options(num_workers=4)) as loader:
        for batch in loader.over(lists_of_item_numbers, epoch=3):
            ...

An item's random numbers come from (seed, epoch, item), wherever it is read. A worker that is
killed, hangs or meets a bad item ends in a `DataLoadingError` that says which and what to do; none
outlives the loader.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_sharer
from types import TracebackType
from typing import Any

import torch

from anyrig.errors import DataLoadingError
from anyrig.training.nests import pinned
from anyrig.training.protocol import Batch
from anyrig.training.reading import Collate, Failed, Picks, Reader, Stream
from anyrig.training.seeding import kept_random, mixed


@dataclass(frozen=True)
class Options:
    """How batches are read; `loading_plan.plan` measures what is best."""

    num_workers: int = 0
    pin_memory: bool = False
    prefetch_factor: int = 2
    """Batches that each worker makes ahead."""
    persistent_workers: bool = False
    """Workers stay from one epoch to the next."""
    seed: int = 0
    timeout_s: float = 300.0
    """After so long without a batch a worker counts as hung; 0 waits for ever."""
    worker_init_fn: Callable[[int], None] | None = None
    """Called in each worker with its number, before it reads."""
    multiprocessing_context: Any = None
    """How workers are started; torch's default when None."""


class _Lists:
    """The lists of the pass that begins next; a loader's workers outlive a pass."""

    def __init__(self) -> None:
        self.lists: Iterable[Sequence[int]] = ()
        self.epoch = 0

    def __iter__(self) -> Iterator[Picks]:
        for items in self.lists:
            yield items if isinstance(items, Picks) else Picks(items, self.epoch)


class _Source:
    """Where batches come from, and the end of it: shared by both loaders."""

    def __init__(self, reader: Reader | Stream, options: Options) -> None:
        self.options = options
        self._reader = reader
        self._lists = _Lists()
        self._loader: torch.utils.data.DataLoader[Any] | None = None
        self._running: Iterator[Any] | None = None

    def _pass(self) -> Generator[Batch, None, None]:
        raw = self._by_workers() if self.options.num_workers else self._here()
        with contextlib.closing(raw):
            for batch in raw:
                if isinstance(batch, Failed):
                    self.close()
                    raise batch.error()
                yield batch

    def _here(self) -> Generator[Any, None, None]:
        """Without workers, and without a trace in this process' random states."""
        running = self._read_here()
        # Tensors that are cut run nobody's code, so no state needs to be kept: that takes longer.
        draws = not (isinstance(self._reader, Reader) and self._reader.at_once)
        while True:
            with kept_random() if draws else contextlib.nullcontext():
                try:
                    batch = next(running)
                except StopIteration:
                    return
            yield pinned(batch) if self.options.pin_memory else batch

    def _read_here(self) -> Iterator[Any]:
        if isinstance(self._reader, Stream):
            yield from self._reader
        else:
            for picks in self._lists:
                yield self._reader[picks]

    def _by_workers(self) -> Generator[Any, None, None]:
        try:
            with failures_in_words(self.options.timeout_s), warnings.catch_warnings():
                # Workers that wait for a disk may well be more than there are cores.
                warnings.filterwarnings("ignore", message="This DataLoader will create")
                self._running = iter(self._made())
            while True:
                with failures_in_words(self.options.timeout_s):
                    try:
                        batch = next(self._running)
                    except StopIteration:
                        break
                yield batch
        except DataLoadingError:
            self._end(at_once=True)
            raise
        except BaseException:
            # Left half way, by an error, Ctrl-C or a `break`: batches are still on their way.
            self._end(at_once=False)
            raise
        if not self.options.persistent_workers:
            self._end(at_once=False)

    def _made(self) -> torch.utils.data.DataLoader[Any]:
        if self._loader is None:
            options = self.options
            # A generator of its own: torch would draw from the process' for each pass.
            generator = torch.Generator().manual_seed(mixed(options.seed) >> 1)
            self._loader = torch.utils.data.DataLoader(
                self._reader,
                batch_size=None,
                sampler=None if isinstance(self._reader, Stream) else self._lists,
                num_workers=options.num_workers,
                collate_fn=_as_it_is,
                pin_memory=options.pin_memory,
                timeout=options.timeout_s,
                worker_init_fn=_BeginWorker(options.worker_init_fn),
                multiprocessing_context=options.multiprocessing_context,
                prefetch_factor=options.prefetch_factor,
                persistent_workers=options.persistent_workers,
                generator=generator,
            )
        return self._loader

    def _end(self, *, at_once: bool) -> None:
        """End the workers; at once where one hangs, as torch waits five seconds for each."""
        running: Any = self._running
        self._running, self._loader = None, None
        if running is None:
            return
        if at_once:
            with contextlib.suppress(AttributeError, RuntimeError):
                # Without this torch's signal handler takes what comes now for a crash.
                handling: Any = torch.utils.data._utils.signal_handling
                handling._remove_worker_pids(id(running))
                running._worker_pids_set = False
            for worker in getattr(running, "_workers", ()):
                worker.terminate()
        with contextlib.suppress(AttributeError, RuntimeError):
            running._shutdown_workers()

    def close(self) -> None:
        """End the workers; the loader can be used again."""
        self._end(at_once=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Loader(_Source):
    """Batches of a data set whose items have numbers.

    Args:
        data: `data[number]` is an item.
        index_lists: the items of each batch, for `iter(loader)`; `Picks` name their epoch as well.
        collate: items to a batch; torch's when None.
        options: workers and the seed.
    """

    def __init__(
        self,
        data: Any,
        index_lists: Iterable[Sequence[int]] = (),
        collate: Collate | None = None,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        super().__init__(Reader(data, collate, options.seed), options)
        self._given = index_lists

    def __enter__(self) -> Loader:
        return self

    def __iter__(self) -> Iterator[Batch]:
        return self.over(self._given)

    def over(self, index_lists: Iterable[Sequence[int]], epoch: int = 0) -> Iterator[Batch]:
        """One pass over lists of items, which may come from a generator without an end.

        Close the iterator, or the loader, to leave a pass early.
        """
        self._lists.lists, self._lists.epoch = index_lists, epoch
        return self._pass()


class StreamLoader(_Source):
    """Batches of an iterable's items in the order they come, made here or by one worker.

    Several workers would each read the whole iterable. They are allowed for torch's
    IterableDataset, whose author can ask `get_worker_info` for a share.

    Args:
        data: gives items, anew for each pass.
        batch: items in a batch.
        collate: items to a batch; torch's when None.
        options: workers and the seed.
        drop_last: leave out a last, smaller batch.
    """

    def __init__(
        self,
        data: Iterable[Any],
        batch: int,
        collate: Collate | None = None,
        options: Options | None = None,
        *,
        drop_last: bool = False,
    ) -> None:
        options = options or Options()
        self._batch = batch
        self._stream = Stream(data, collate, options.seed, batch=batch, drop_last=drop_last)
        super().__init__(self._stream, options)

    def __enter__(self) -> StreamLoader:
        return self

    def __iter__(self) -> Iterator[Batch]:
        return self.over()

    def over(self, epoch: int = 0, skip: int = 0) -> Iterator[Batch]:
        """One pass, from the item after the first `skip` on, which are whole batches.

        Batches of several workers take turns, so it is batches that are passed over then.
        """
        several = self.options.num_workers > 1
        by_item, by_batch = (0, skip // self._batch) if several else (skip, 0)
        if (self._stream.epoch, self._stream.skip) != (epoch, by_item):
            self.close()  # workers hold a copy of the stream as it was
        self._stream.epoch, self._stream.skip = epoch, by_item
        return self._after(by_batch)

    def _after(self, num_batches: int) -> Generator[Batch, None, None]:
        with contextlib.closing(self._pass()) as batches:
            for number, batch in enumerate(batches):
                if number >= num_batches:
                    yield batch


def _as_it_is(batch: Batch) -> Batch:
    return batch


class _BeginWorker:
    """The beginning of a worker; a person's own function comes last."""

    def __init__(self, own: Callable[[int], None] | None) -> None:
        self.own = own

    def __call__(self, number: int) -> None:
        # A worker ends when it is told to: it must not run the signal handlers of its parent.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _show_own_data()
        if self.own is not None:
            self.own(number)


def _show_own_data() -> None:
    """`get_worker_info().dataset` is the person's data set, not what reads it here."""
    info: Any = torch.utils.data.get_worker_info()
    source = getattr(getattr(info, "dataset", None), "source", None)
    if source is None:
        return
    about = {name: getattr(info, name) for name in ("id", "num_workers", "seed")}
    worker: Any = torch.utils.data._utils.worker
    if dataclasses.is_dataclass(info) and not isinstance(info, type):
        worker._worker_info = dataclasses.replace(info, dataset=source)
    else:
        worker._worker_info = type(info)(**about, dataset=source)


# -- failures --------------------------------------------------------------------------------------


@contextlib.contextmanager
def failures_in_words(timeout_s: float = 0.0) -> Iterator[None]:
    """What torch says of workers that died or hang, as a `DataLoadingError`.

    A worker's death interrupts the main process wherever it is, also in the midst of a step: put
    this around the whole loop.
    """
    try:
        yield
    except RuntimeError as error:
        found = worker_failure(error, timeout_s)
        if found is None:
            raise
        raise found from error
    except (AttributeError, TypeError, OSError, EOFError) as error:
        if _is_receiving(error):
            raise DataLoadingError(
                "a worker that reads data ended unexpectedly while it sent a batch",
                hint=_why_killed(""),
            ) from error
        if "pickle" not in str(error):
            raise
        raise _unpicklable(error) from error
    except Exception as error:
        if type(error).__name__ != "PicklingError":
            raise
        raise _unpicklable(error) from error


def _is_receiving(error: BaseException) -> bool:
    """Whether a connection broke off on which a worker hands over the memory of its batch."""
    if not isinstance(error, ConnectionError | FileNotFoundError | EOFError):
        return False
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == resource_sharer.__name__ for frame, _ in frames)


def worker_failure(error: RuntimeError, timeout_s: float = 0.0) -> DataLoadingError | None:
    """What an error of torch's loader means; None for every other error."""
    text = str(error)
    if "DataLoader timed out" in text:
        return DataLoadingError(
            f"no batch came for {timeout_s:g} s: a worker hangs",
            hint="Read an item by itself (data[number]) to see what it waits for, or set "
            "loading.num_workers = 0; a library that locks itself in forked processes does this.",
        )
    if "Too many open files" in text or "ancdata" in text:
        return DataLoadingError(
            "workers cannot send batches: too many files are open",
            hint="Raise the limit (ulimit -n 65536), or set fewer loading.num_workers.",
        )
    died = re.search(r"DataLoader worker \(pid\(?s?\)?\s*([\d, ]+)\)(.*)", text, re.S)
    if died is None:
        return None
    return DataLoadingError(
        f"a worker that reads data ended unexpectedly (process {died[1].strip()}"
        f"{_signal_in(died[2])})",
        hint=_why_killed(died[2]),
    )


def _signal_in(text: str) -> str:
    named = re.search(r"killed by signal: ([^.]+)", text)
    return f", {named[1].strip()}" if named else ""


def _why_killed(text: str) -> str:
    if "Bus error" in text or "shared memory" in text:
        return "Shared memory is full: give the container more (--shm-size), or fewer workers."
    return (
        "The system ends a process like this when memory runs out: set fewer loading.num_workers "
        "or a smaller loading.prefetch_factor; 0 workers read in the main process."
    )


def _unpicklable(error: BaseException) -> DataLoadingError:
    return DataLoadingError(
        f"workers cannot be given the data set or collate: {error}",
        hint="Use functions and classes of a module instead of lambdas and open files, or set "
        "loading.num_workers = 0.",
    )
