"""Speech, documents and training on whatever hardware a person owns: `from anyrig import Rig`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyrig.version import __version__ as __version__

if TYPE_CHECKING:
    from anyrig.app.rig import Rig

__all__ = ["Rig"]


def __getattr__(name: str) -> Any:
    if name == "Rig":  # late: nothing below the application may import it
        from anyrig.app.rig import Rig

        return Rig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
