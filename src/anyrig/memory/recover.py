"""Getting memory back after it ran out.

A traceback holds every frame of the step that failed, and each frame its tensors. While it lives,
a framework can give nothing back: emptying its cache inside `except`, as is often done, empties
what was not needed anyway. So the frames go first, then what only they held, then the cache.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from anyrig.memory.oom import Shortage

log = logging.getLogger(__name__)
T = TypeVar("T")
Recognise = Callable[[BaseException], "Shortage | None"]


class Holder(Protocol):
    """What keeps memory of a device; `anyrig.backends.DeviceHandle` is one."""

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""

    def release(self) -> None:
        """Give back what the framework keeps and no tensor uses."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a step gave, or what it ran out of."""

    result: T | None = None
    shortage: Shortage | None = None

    @property
    def fitted(self) -> bool:
        """Whether the step ended."""
        return self.shortage is None


def clear(error: BaseException, *, keep_lines: bool = False) -> None:
    """Let go of everything that an error's frames hold, and those of all errors behind it.

    Frames that still run keep what they hold. An error that is being handled further out, while
    this one came and went, keeps its frames too.

    Args:
        error: whose tracebacks to clear.
        keep_lines: keep the lines of the tracebacks; only the variables go.
    """
    for link in _chain(error):
        traceback.clear_frames(link.__traceback__)
        if not keep_lines:
            link.__traceback__ = None


def release(bound: Holder) -> bool:
    """Collect what only dead frames held and give it back; whether the device still answers."""
    gc.collect()
    # Work that was under way when the step failed still uses what it was given. Its own failure
    # may be told now, once; one that is told twice is there to stay.
    answers = _awaited(bound) or _awaited(bound)
    with contextlib.suppress(Exception):
        bound.release()
    return answers


def _awaited(bound: Holder) -> bool:
    try:
        bound.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it is, recovery goes on
        log.warning("after memory ran out: %s", error)
        clear(error)
        return False
    return True


def recover(error: BaseException, bound: Holder | None = None) -> bool:
    """Everything a failed step held, given back; whether its device still answers.

    Best called after the `except` block has been left: until then, whoever handles the error may
    hold it as well.
    """
    clear(error)
    if bound is not None:
        return release(bound)
    gc.collect()
    return True


def attempt(step: Callable[[], T], recognise: Recognise, bound: Holder | None = None) -> Outcome[T]:
    """A step's result, or the shortage it ended in, with nothing of a failed step left alive.

    Args:
        step: what to run. Errors that are no shortage leave as they are.
        recognise: `anyrig.memory.oom.recognise`.
        bound: the device it runs on, to be awaited and relieved after a shortage.
    """
    try:
        return Outcome(step())
    except Exception as error:
        shortage = recognise(error)
        if shortage is None:
            raise
        failed = error
    # Outside the block, so that the interpreter does not hold the error as the one being handled.
    answers = recover(failed, bound)
    del failed
    return Outcome(shortage=shortage if answers else replace(shortage, fatal=True))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all behind it: causes, contexts, members of groups. Each one once."""
    handled = sys.exception()
    seen = set() if handled is None or handled is error else {id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += (link.__cause__, link.__context__)
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
