"""What work asks of an engine, and how one is made from its name in another process."""

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
    """Something that turns a batch of items into as many results."""

    name: str
    version: str
    pads: bool
    """Whether every item of a batch is padded to the longest."""
    batch_invariant: bool
    """Whether an item's result is the same bytes in any company."""
    most_items: int
    """The most items one call takes."""
    relief: Sequence[str]
    """Options of its command that need less memory, as a person types them, for errors."""
    bound: DeviceHandle | None
    """The device, to wait for and to free; None when there is nothing to wait for."""

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, in order."""


class Usual:
    """What most engines are: a class that inherits this need only define `run`."""

    name = "engine"
    version = "0"
    pads = True
    batch_invariant = False
    most_items = 1 << 30
    first_cost = 0.0
    """The cost of a batch to begin with; 0, or none of this, begins with one item."""
    relief: Sequence[str] = ()
    bound: DeviceHandle | None = None

    def __init__(self, placement: Placement) -> None:
        """Load nothing."""


@dataclass(frozen=True)
class Recipe:
    """How a worker makes its engine."""

    factory: str
    """`module:name` of something that takes a placement and the options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    """The engine's name and version, to find what earlier runs learnt of batch sizes."""
    version: str = ""


def make(factory: str, placement: Placement, options: Mapping[str, Any]) -> Engine:
    """An engine from its recipe, in this process."""
    module_name, _, name = factory.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"no engine {factory}: {error}",
            hint="A factory is `module:name`, importable by a new process; not one of __main__.",
        ) from error
    engine = target(placement, **options)
    missing = [name for name in (*Engine.__annotations__, "run") if not hasattr(engine, name)]
    if missing:
        raise InvalidInputError(
            f"{factory} is no engine: it has no {', '.join(missing)}",
            hint="Inherit `anyrig.work.engine.Usual`; `Engine` there says what each is.",
        )
    return cast(Engine, engine)
