"""Engines by name: a room's own first, then what other packages bring by an entry point.

A room lists its own as strings, so naming one imports that one and no other. The entry points are
scanned only for a name the room does not know, or for a listing: the scan costs 100 ms.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from anyrig.errors import BadInput, MissingPackage
from anyrig.install import install_line


def names(own: Mapping[str, str], group: str) -> tuple[str, ...]:
    """Every name: the room's own in its order, then the plugins' in the alphabet's."""
    plugged = sorted(found.name for found in entry_points(group=group))
    return (*own, *(name for name in plugged if name not in own))


def resolve(name: str, own: Mapping[str, str], group: str) -> Any:
    """The class that a name stands for.

    Args:
        name: what the person typed.
        own: the room's engines, as `module:Class`.
        group: the entry-point group of plugins, such as `anyrig.speech`.
    """
    if name in own:
        return _load(own[name], name)
    for found in entry_points(group=group):
        if found.name == name:
            return _plugin(found)
    known = names(own, group)
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise BadInput(f"no engine {name!r}", hint=f"{guess}There are: {', '.join(known)}.")


def _load(target: str, name: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "anyrig":
            raise
        raise MissingPackage(
            f"the engine {name} needs the package {error.name}",
            hint=f"`anyrig engines show {name}` prints the line that installs it.",
        ) from error


def _plugin(found: EntryPoint) -> Any:
    package = found.dist.name if found.dist else "its package"
    try:
        return found.load()
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"the engine {found.name} of {package} needs the package {error.name}",
            hint=install_line(str(error.name)),
        ) from error
    except AttributeError as error:
        raise BadInput(
            f"the engine {found.name} of {package} is not where its entry point says: {error}",
            hint=f"Its authors can mend that: {found.value} names nothing.",
        ) from error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken plugin is not everything
        said = f"{type(error).__name__}: {error}"
        raise BadInput(
            f"the engine {found.name} of {package} cannot be loaded: {said}",
            hint=f"Its authors can mend that. Without it: pip uninstall {package}",
        ) from error
