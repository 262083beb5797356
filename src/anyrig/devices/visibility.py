"""Which devices the environment leaves visible, and in which order each library counts them.

The vendors know their variables and orders; everything here maps to the device's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from anyrig.devices.machine import Device, Platform, UnmatchedEntry
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.devices.vendor import Vendor
from anyrig.devices.vendors import VENDORS
from anyrig.units import is_whole_number


def apply_visibility(
    devices: Sequence[Device], environment: Mapping[str, str], platform: Platform
) -> tuple[Device, ...]:
    """The devices with their library indices; the hidden ones are blocked."""
    found = {device.id: device for device in devices}
    for vendor in VENDORS.values():
        own = [d for d in devices if d.vendor == vendor.name and _is_counted(d)]
        for device in _number_devices(vendor, own, environment, platform):
            found[device.id] = device
    numbered: Sequence[Device] = [found[device.id] for device in devices]
    for vendor in VENDORS.values():
        numbered = vendor.add_indices(numbered)
    return tuple(numbered)


def _is_counted(device: Device) -> bool:
    """Whether libraries count it: CUDA also counts a GPU that its compute mode forbids to use."""
    block = device.hardware_block
    return block is None or block.code is ReasonCode.COMPUTE_PROHIBITED


def _number_devices(
    vendor: Vendor,
    devices: list[Device],
    environment: Mapping[str, str],
    platform: Platform,
) -> Iterator[Device]:
    order = vendor.find_order(devices, environment)
    # A MIG instance has a number only if a variable gives it one.
    counted = [device for device in order.visible if device.part != "mig" or order.variables]
    index = {device.id: number for number, device in enumerate(counted)}
    visible = {device.id for device in order.visible}
    for device in order.devices:
        if device.id not in visible:
            if device.hardware_block:
                yield device
                continue
            hiding = _find_hiding(device, vendor, devices, environment)
            setting = " and ".join(f"{name}={environment[name]}" for name in hiding)
            fix = platform.unset_command(*hiding)
            hidden = explain(ReasonCode.HIDDEN, fix, setting=setting)
            yield replace(device, hardware_block=hidden)
        elif device.id in index and order.library:
            yield device.with_index(order.library, index[device.id])
        else:
            yield device


def _find_hiding(
    device: Device, vendor: Vendor, devices: list[Device], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The fewest variables without which a device would be visible.

    Where one is read in place of another, or applies to what another leaves, removing the last one
    alone may change nothing.
    """
    names = [name for name in vendor.visibility_variables if name in environment]
    for count in range(1, len(names)):
        for removed in combinations(names, count):
            left = {name: environment[name] for name in environment if name not in removed}
            if any(device.id == one.id for one in vendor.find_order(devices, left).visible):
                return removed
    return tuple(names)


def find_unmatched(
    devices: Sequence[Device], environment: Mapping[str, str]
) -> tuple[UnmatchedEntry, ...]:
    """The entries of visibility variables that match no device.

    An empty value, `-1`, or a word such as Slurm's `NoDevFiles` hides everything on purpose and
    refers to no device.
    """
    found = []
    variables: dict[str, list[Vendor]] = {}
    for vendor in VENDORS.values():
        for variable in vendor.visibility_variables:
            variables.setdefault(variable, []).append(vendor)
    for variable, vendors in variables.items():
        for entry in (part.strip() for part in environment.get(variable, "").split(",")):
            number = entry.partition(".")[0]  # `0.1` is a tile of the first
            if not is_whole_number(number) and not entry.startswith(("GPU-", "MIG-")):
                break
            meant = number if is_whole_number(number) else entry
            if not any(_may_match(devices, vendor.name, meant) for vendor in vendors):
                found.append(UnmatchedEntry(variable, entry))
    return tuple(found)


def _may_match(devices: Sequence[Device], vendor: str, entry: str) -> bool:
    """Whether an entry may mean one of a vendor's devices, including those without a driver."""
    own = [device for device in devices if device.vendor == vendor]
    if is_whole_number(entry):
        cards = [d for d in own if d.part != "mig"] or own
        return int(entry) < len(cards)
    ids = [device.id.lower() for device in own]
    any_without_uuid = any(not device_id.startswith(("gpu-", "mig-")) for device_id in ids)
    return any_without_uuid or any(device_id.startswith(entry.lower()) for device_id in ids)
