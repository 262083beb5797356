"""COM objects through ctypes, which knows none: methods by their index in the method table.

DXGI and DXCore share it. Every object is released on every way out.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

_RELEASE = 2


def guid(text: str) -> bytes:
    """A GUID as memory holds it: the first three groups are little-endian."""
    return UUID(text).bytes_le


def check(what: str, result: int) -> None:
    """A failed HRESULT as an error that says which call failed."""
    if result < 0:
        raise OSError(f"{what} failed with HRESULT 0x{result & 0xFFFFFFFF:08X}")


def version_text(number: int) -> str:
    """A driver version the way Windows shows it: four words, highest first."""
    return ".".join(str(number >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


def method(this: int, index: int, result: Any, *arguments: Any) -> Callable[..., int]:
    """A method made callable. Stdcall on Windows, where 32-bit code tells it apart."""
    convention: Any = ctypes.CFUNCTYPE
    if sys.platform == "win32":
        convention = ctypes.WINFUNCTYPE
    call: Callable[..., int] = convention(result, ctypes.c_void_p, *arguments)(_slot(this, index))
    return call


@contextmanager
def owned(pointer: ctypes.c_void_p) -> Iterator[int]:
    """Hold an object and release it on every way out."""
    this = pointer.value
    if not this:
        raise OSError("a null object came with a successful HRESULT")
    try:
        yield this
    finally:
        method(this, _RELEASE, ctypes.c_uint32)(this)


def _slot(this: int, index: int) -> int:
    """A method's address: an object begins with the pointer to its method table."""
    table = ctypes.c_void_p.from_address(this).value or 0
    return ctypes.c_void_p.from_address(table + index * ctypes.sizeof(ctypes.c_void_p)).value or 0
