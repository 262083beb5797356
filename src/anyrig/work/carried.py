"""An error on its way from one process to another, and raised again there as what it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from anyrig import errors
from anyrig.errors import AnyrigError, WorkError, is_disk_full, to_disk_full_error


def told(error: AnyrigError) -> dict[str, str]:
    """An error as plain JSON; one of a class of its own counts as the nearest of the tree."""
    if is_disk_full(error):  # what it was raised from does not come along
        error = to_disk_full_error(error)
    name = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return {"class": name, "message": error.message, "hint": error.hint}


def revived(plain: Mapping[str, str]) -> AnyrigError:
    """The error that `told` wrote."""
    kind = getattr(errors, plain["class"], WorkError)
    return cast("AnyrigError", kind(plain["message"], hint=plain["hint"]))
