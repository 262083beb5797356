"""What computes: an engine, its defaults, and how a worker makes one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.placement import Placement


class Engine(Protocol):
    """Turns a batch of items into as many results."""

    name: str
    version: str
    pads: bool
    """Whether every item of a batch is padded to the longest."""
    batch_invariant: bool
    """Whether an item's result is the same bytes in any batch."""
    max_items: int
    """In one call."""
    memory_options: Sequence[str]
    """Command line options that need less memory, for errors."""
    handle: DeviceHandle | None
    """The device, to synchronise with and to free memory of; None if there is nothing to do."""

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, in order."""


class BaseEngine:
    """Defaults of an engine: a subclass need only define `run`.

    An engine that keeps several models may also define `loaded_models()` (their names),
    `nested_models()` (a `NestedModel` for each that runs in processes of its own) and
    `unload_model(name)`.
    """

    name = "engine"
    version = "0"
    pads = True
    batch_invariant = False
    max_items = 1 << 30
    first_batch_cost = 0.0
    """Cost of the first batch; 0 starts with one item."""
    memory_options: Sequence[str] = ()
    handle: DeviceHandle | None = None

    def __init__(self, placement: Placement) -> None:
        pass


@dataclass(frozen=True)
class EngineFactory:
    """How a worker makes its engine."""

    target: str
    """`module:name` of something that takes a placement and the options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    """Name and version under which batch sizes are remembered; `target` if empty."""
    version: str = ""


def load_engine(target: str, placement: Placement, options: Mapping[str, Any]) -> Engine:
    module_name, _, name = target.partition(":")
    try:
        made: Any = importlib.import_module(module_name)
        for part in name.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"cannot import engine {target}: {error}",
            hint="Use `module:name`, importable by a new process; not a name of `__main__`.",
        ) from error
    engine = made(placement, **options)
    missing = [name for name in (*Engine.__annotations__, "run") if not hasattr(engine, name)]
    if missing:
        raise InvalidInputError(
            f"{target} is not an engine: missing {', '.join(missing)}",
            hint="Inherit from `anyrig.work.engine.BaseEngine`; `Engine` documents each name.",
        )
    return cast(Engine, engine)
