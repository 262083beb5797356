"""What computes: an engine, and how a worker makes one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, OptionRef

OnPart = Callable[[Any], None]
"""Takes a part of an item's result, before the result is whole."""

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.placement import Placement
    from anyrig.work.protocol import NestedModel


class BaseEngine:
    """Turns a batch of items into as many results. A subclass need only define `run`."""

    name = "engine"
    version = "0"
    pads = True
    """Whether every item of a batch is padded to the longest."""
    batch_invariant = False
    """Whether an item's result is the same bytes in any batch."""
    max_items = 1 << 30
    """In one call."""
    concurrent_items = 1
    """How many items may be computed at the same time, by calls from several threads: more than one
    if items can join others that are being computed."""
    first_batch_cost = 0.0
    """Cost of the first batch; 0 starts with one item."""
    memory_options: Sequence[OptionRef | str] = ()
    """What needs less memory, for errors."""
    emits_parts = False
    """Whether `run` takes a second argument: of each item what to call with parts of its result
    while they are made, or None."""
    handle: DeviceHandle | None = None
    """The device, to synchronise with and to free memory of; None if there is nothing to do."""

    def __init__(self, placement: Placement) -> None:
        pass

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, in order."""
        raise NotImplementedError

    def prepare_item(self, item: Any) -> Any:
        """An item as `run` wants it; called when it arrives, from another thread, so that slow work
        of the host can be started while others are computed.
        """
        return item

    # An engine that keeps several models overrides these.

    def loaded_models(self) -> Sequence[str]:
        return (self.name,)

    def nested_models(self) -> Sequence[NestedModel]:
        """Those of its models that run in processes of their own."""
        return ()

    def unload_model(self, name: str) -> None:
        """Close one of its models, unless the current task uses it; from another thread."""


@dataclass(frozen=True)
class Interpreter:
    """Another Python to start workers with: it has packages of its own."""

    python: str
    """Its program."""
    packages: Mapping[str, str]
    """What it imports of this installation, and from which folder: anyrig, and the package of the
    engine. Their dependencies are not visible to it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its own."""


@dataclass(frozen=True)
class EngineFactory:
    """How a worker makes its engine."""

    target: str
    """`module:name` of something that takes a placement and the options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    """Name and version under which batch sizes are remembered; `target` if empty."""
    version: str = ""
    interpreter: Interpreter | None = None
    """Another one than this process's, if the engine needs it."""


def load_engine(target: str, placement: Placement, options: Mapping[str, Any]) -> BaseEngine:
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
    if not isinstance(engine, BaseEngine):
        raise InvalidInputError(
            f"{target} is not an engine", hint="Inherit from `anyrig.work.engine.BaseEngine`."
        )
    return engine
