"""Small functions of tensors, each in one pass over memory where torch can compile them.

Plain torch makes a pass for every operation, and the vocoders wait for memory more than for
products. Compiling takes seconds once and wants Triton and a C compiler: without them the plain
function is used, and that is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

log = logging.getLogger(__name__)


class Fused:
    """A function, compiled if `on` and if that works."""

    def __init__(self, function: Callable[..., Any], on: bool) -> None:
        self._plain, self._on = function, on

    def __call__(self, *values: Any) -> Any:
        """What the function gives."""
        if not self._on:
            return self._plain(*values)
        try:
            return _compiled(self._plain)(*values)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self._on = False
            log.warning("torch cannot compile here, which costs speed: %s", str(error)[:200])
            return self._plain(*values)


@lru_cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True)
