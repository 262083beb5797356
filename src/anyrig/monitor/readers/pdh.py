"""Windows' performance counters (pdh.dll) through ctypes. Written from pdh.h, never run."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence

_DOUBLE = 0x00000200  # PDH_FMT_DOUBLE
_MORE_DATA = 0x800007D2
_VALID = (0, 1)  # PDH_CSTATUS_VALID_DATA, PDH_CSTATUS_NEW_DATA


class _Value(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE with its union read as a double."""

    _fields_ = [("status", ctypes.c_uint32), ("number", ctypes.c_double)]


class _Item(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W."""

    _fields_ = [("name", ctypes.c_wchar_p), ("value", _Value)]


def open_counters(paths: Sequence[str]) -> Callable[[], dict[str, dict[str, float]]]:
    """A call that gives every counter's value by instance; those that do not exist are left out."""
    if sys.platform != "win32":
        raise OSError("performance counters are only on Windows")
    library = ctypes.WinDLL("pdh.dll")
    query = ctypes.c_void_p()
    _check("PdhOpenQueryW", library.PdhOpenQueryW(None, None, ctypes.byref(query)))
    counters = {}
    for path in paths:
        counter = ctypes.c_void_p()
        # The English names hold whatever language Windows speaks.
        if library.PdhAddEnglishCounterW(query, path, None, ctypes.byref(counter)) == 0:
            counters[path] = counter
    library.PdhCollectQueryData(query)  # rates need two

    def read() -> dict[str, dict[str, float]]:
        _check("PdhCollectQueryData", library.PdhCollectQueryData(query))
        return {path: _values(library, counter) for path, counter in counters.items()}

    return read


def _values(library: ctypes.CDLL, counter: ctypes.c_void_p) -> dict[str, float]:
    size, count = ctypes.c_uint32(0), ctypes.c_uint32(0)
    get = library.PdhGetFormattedCounterArrayW
    result = get(counter, _DOUBLE, ctypes.byref(size), ctypes.byref(count), None)
    if result & 0xFFFFFFFF != _MORE_DATA:
        return {}
    room = ctypes.create_string_buffer(size.value)
    if get(counter, _DOUBLE, ctypes.byref(size), ctypes.byref(count), room) != 0:
        return {}
    items = ctypes.cast(room, ctypes.POINTER(_Item))
    found: dict[str, float] = {}
    for number in range(count.value):
        item = items[number]
        if item.value.status in _VALID and item.name:
            # Several counters may share an instance's name.
            found[item.name] = found.get(item.name, 0.0) + item.value.number
    return found


def _check(what: str, result: int) -> None:
    if result != 0:
        raise OSError(f"{what} answered 0x{result & 0xFFFFFFFF:08x}")
