"""Classes found by name: a package's own table first, then entry points of installed packages.

A table maps names to `module:Class` strings, so loading one engine imports no other. Entry points
are scanned only for a name that is not in the table, or for a listing: the scan costs 100 ms, and
is repeated when packages change.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def list_names(builtin: Mapping[str, str], group: str) -> tuple[str, ...]:
    """Every known name: the built-in ones in their order, then the plugins' in alphabetical order.

    Args:
        builtin: name to `module:Class`.
        group: the entry-point group of plugins, such as `anyrig.speech`.
    """
    plugins = sorted(entry_point.name for entry_point in _find_entry_points(group))
    return (*builtin, *(name for name in plugins if name not in builtin))


def load_class(name: str, builtin: Mapping[str, str], group: str) -> Any:
    """Import the class of a name. The arguments are those of `list_names`."""
    if name in builtin:
        return _load_builtin(builtin[name], name)
    for entry_point in _find_entry_points(group):
        if entry_point.name == name:
            return _load_plugin(entry_point)
    known = list_names(builtin, group)
    import difflib

    matches = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {matches[0]}? " if matches else ""
    raise InvalidInputError(
        f"unknown engine {name!r}", hint=f"{guess}Available: {', '.join(known)}."
    )


def _load_builtin(target: str, name: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "anyrig":
            raise
        raise MissingPackageError(
            f"engine {name} needs the package {error.name}",
            hint=f"`anyrig engines show {name}` prints the command that installs it.",
        ) from error


def read_import_state() -> tuple[tuple[str, int], ...]:
    """Changes when packages are installed, removed or added to the import path."""
    state = []
    for path in sys.path:
        with suppress(OSError):
            state.append((path, os.stat(path or ".").st_mtime_ns))
    return tuple(state)


def _find_entry_points(group: str) -> EntryPoints:
    return _scan_entry_points(group, read_import_state())


@lru_cache(maxsize=16)
def _scan_entry_points(group: str, _state: object) -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _load_plugin(entry_point: EntryPoint) -> Any:
    name, package = entry_point.name, entry_point.dist.name if entry_point.dist else "its package"
    try:
        return entry_point.load()
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"engine {name} of {package} needs the package {error.name}",
            hint=format_install(str(error.name)),
        ) from error
    except AttributeError as error:
        raise InvalidInputError(
            f"engine {name} of {package} has a broken entry point: {error}",
            hint=f"Report it to the authors: {entry_point.value} does not exist.",
        ) from error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken plugin must not end the program
        raise InvalidInputError(
            f"engine {name} of {package} could not be loaded: {type(error).__name__}: {error}",
            hint=f"Report it to the authors. To remove it: pip uninstall {package}",
        ) from error
