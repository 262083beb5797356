"""DRM nodes of the Linux kernel: the driver, and an Intel GPU's memory regions.

By ioctl and not from sysfs, because i915 and xe publish their memory only there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

# Native layouts of the structures in drm.h, i915_drm.h and xe_drm.h.
_VERSION = "@3iNPNPNP"  # three ints, then length and pointer of name, date and desc
_I915_QUERY = "=IIQ"  # num_items, flags, items_ptr
_I915_ITEM = "=QiIQ"  # query_id, length, flags, data_ptr
_XE_QUERY = "=QIIQ16x"  # extensions, query, size, data, reserved

_VERSION_NUMBER = 0x00
_DRIVER_NUMBER = 0x40  # DRM_COMMAND_BASE: a driver's own numbers begin here
_I915_QUERY_NUMBER = _DRIVER_NUMBER + 0x39
_XE_QUERY_NUMBER = _DRIVER_NUMBER + 0x00

_I915_MEMORY_REGIONS = 4
_XE_MEMORY_REGIONS = 1

# By driver: bytes before the first region, bytes of one region, its leading fields and their names.
_LAYOUTS = {
    "i915": (16, 88, "=HH4xQQ", "memory_class memory_instance probed_size unallocated_size"),
    "xe": (8, 88, "=HH4xQQQQ",
           "mem_class instance total_size used cpu_visible_size cpu_visible_used"),
}  # fmt: skip


def decode(driver: str, data: bytes) -> list[dict[str, int]]:
    first, stride, layout, names = _LAYOUTS[driver]
    if len(data) < first:
        raise ValueError(f"{driver}: {len(data)} bytes of memory regions are shorter than a header")
    (count,) = struct.unpack_from("=I", data)
    if first + count * stride > len(data):
        raise ValueError(f"{driver}: {count} memory regions do not fit into {len(data)} bytes")
    return [
        dict(
            zip(
                names.split(), struct.unpack_from(layout, data, first + index * stride), strict=True
            )
        )
        for index in range(count)
    ]


def query(node: str) -> dict[str, object]:
    """A node's driver and its memory regions; no regions for other drivers than i915 and xe.

    Without CAP_PERFMON the kernel hides what is in use: i915 then reports unallocated_size equal
    to probed_size, and xe reports used as 0. Neither means that all of it is free.
    """
    descriptor = os.open(node, os.O_RDWR)
    try:
        driver = _driver(descriptor)
        regions: list[dict[str, int]] = []
        if driver == "i915":
            regions = decode(driver, _i915(descriptor))
        elif driver == "xe":
            regions = decode(driver, _xe(descriptor))
        return {"driver": driver, "regions": regions}
    finally:
        os.close(descriptor)


def _ioctl(descriptor: int, number: int, layout: str, *fields: int) -> tuple[int, ...]:
    """Send a structure both ways and return its fields."""
    if sys.platform == "win32":
        raise OSError("DRM nodes are only on Linux")
    # Imported here, because Windows has no fcntl and must still be able to import decode.
    import fcntl

    data = bytearray(struct.pack(layout, *fields))
    # _IOWR with DRM's letter; the size is part of the number, so it follows the layout.
    request = 0xC0000000 | len(data) << 16 | ord("d") << 8 | number
    fcntl.ioctl(descriptor, request, data, True)
    return struct.unpack(layout, data)


def _driver(descriptor: int) -> str:
    """The driver's name, which the kernel truncates to the buffer."""
    name = ctypes.create_string_buffer(64)
    version = (0, 0, 0, len(name), ctypes.addressof(name), 0, 0, 0, 0)
    fields = _ioctl(descriptor, _VERSION_NUMBER, _VERSION, *version)
    return name.raw[: fields[3]].decode("utf-8", "replace")


def _i915(descriptor: int) -> bytes:
    """Query the length, then the regions.

    An item's own failure comes back as a negative length while the ioctl itself succeeds, and
    the buffer must be zero beforehand, because the kernel refuses any other header.
    """
    length = _i915_item(descriptor, 0, 0)
    data = ctypes.create_string_buffer(length)
    _i915_item(descriptor, length, ctypes.addressof(data))
    return data.raw


def _i915_item(descriptor: int, length: int, address: int) -> int:
    """Send one query item and return the length that the kernel set."""
    packed = struct.pack(_I915_ITEM, _I915_MEMORY_REGIONS, length, 0, address)
    item = ctypes.create_string_buffer(packed, len(packed))
    _ioctl(descriptor, _I915_QUERY_NUMBER, _I915_QUERY, 1, 0, ctypes.addressof(item))
    answer = int(struct.unpack(_I915_ITEM, item.raw)[1])
    if answer <= 0:
        code = -answer or errno.ENODATA
        raise OSError(code, f"i915 memory regions: {os.strerror(code)}")
    return answer


def _xe(descriptor: int) -> bytes:
    """Query the size, then the regions; xe refuses any size but the exact one."""
    size = _ioctl(descriptor, _XE_QUERY_NUMBER, _XE_QUERY, 0, _XE_MEMORY_REGIONS, 0, 0)[2]
    data = ctypes.create_string_buffer(size)
    fields = (0, _XE_MEMORY_REGIONS, size, ctypes.addressof(data))
    _ioctl(descriptor, _XE_QUERY_NUMBER, _XE_QUERY, *fields)
    return data.raw
