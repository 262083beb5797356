"""Which devices the environment leaves visible, and in which order each library counts them.

NVML counts by PCI address; CUDA counts the fastest first unless CUDA_DEVICE_ORDER says otherwise.
So an index in CUDA_VISIBLE_DEVICES is not an index of nvidia-smi. Everything here maps to the
device's id; CUDA's own order cannot be known without starting CUDA, so it is predicted from cores
and capability, and the torch backend finds its device by UUID whatever the prediction was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from anyrig.devices.machine import Device, NoteCode, Platform, UnmatchedEntry
from anyrig.devices.nvidia import parse_capability
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.units import is_whole_number

_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": ("nvidia", "amd"),
    "ROCR_VISIBLE_DEVICES": ("amd",),
    "HIP_VISIBLE_DEVICES": ("amd",),
    "ZE_AFFINITY_MASK": ("intel",),
}


class _Order(NamedTuple):
    """How a library counts a vendor's devices."""

    library: str
    devices: Sequence[Device]
    visible: Sequence[Device]
    variables: tuple[str, ...] = ()
    """Those that are set and decide which devices are visible."""


_FindOrder = Callable[[list[Device], Mapping[str, str]], _Order]


def apply_visibility(
    devices: Sequence[Device], environment: Mapping[str, str], platform: Platform
) -> tuple[Device, ...]:
    """The devices with their library indices; the hidden ones are blocked."""
    found = {device.id: device for device in devices}
    for vendor, order in (("nvidia", _order_nvidia), ("amd", _order_amd), ("intel", _order_intel)):
        own = [
            device for device in devices if device.vendor == vendor and not device.hardware_block
        ]
        for device in _number_devices(order, own, environment, platform):
            found[device.id] = device
    return tuple(_add_openvino([found[device.id] for device in devices]))


def _number_devices(
    find_order: _FindOrder,
    devices: list[Device],
    environment: Mapping[str, str],
    platform: Platform,
) -> Iterator[Device]:
    order = find_order(devices, environment)
    # A MIG instance has a number only if a variable gives it one.
    counted = [device for device in order.visible if device.part != "mig" or order.variables]
    index = {device.id: number for number, device in enumerate(counted)}
    visible = {device.id for device in order.visible}
    for device in order.devices:
        if device.id not in visible:
            hiding = _find_hiding(device, find_order, devices, environment)
            setting = " and ".join(f"{name}={environment[name]}" for name in hiding)
            fix = platform.unset_command(*hiding)
            hidden = explain(ReasonCode.HIDDEN, fix, setting=setting)
            yield replace(device, hardware_block=hidden)
        elif device.id in index:
            yield _add_index(device, order.library, index[device.id])
        else:
            yield device


def _find_hiding(
    device: Device, find_order: _FindOrder, devices: list[Device], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The fewest variables without which a device would be visible.

    Where one is read in place of another, or applies to what another leaves, removing the last one
    alone may change nothing.
    """
    names = [name for name in _VARIABLES if name in environment]
    for count in range(1, len(names)):
        for removed in combinations(names, count):
            left = {name: environment[name] for name in environment if name not in removed}
            if any(device.id == one.id for one in find_order(devices, left).visible):
                return removed
    return tuple(names)


def _add_index(device: Device, library: str, index: int) -> Device:
    return replace(device, indices={**device.indices, library: index})


def _add_openvino(devices: Sequence[Device]) -> Iterator[Device]:
    """OpenVINO counts the processor's own graphics first: `GPU.0` is the integrated one."""
    shown = [d for d in devices if "xpu" in d.indices and not d.hardware_block]
    shown.sort(key=lambda d: (d.memory.kind != "unified", d.indices["xpu"]))
    index = {device.id: number for number, device in enumerate(shown)}
    for device in devices:
        known = device.id in index
        yield _add_index(device, "openvino", index[device.id]) if known else device


def find_unmatched(
    devices: Sequence[Device], environment: Mapping[str, str]
) -> tuple[UnmatchedEntry, ...]:
    """The entries of visibility variables that match no device.

    An empty value, `-1`, or a word such as Slurm's `NoDevFiles` hides everything on purpose and
    refers to no device.
    """
    found = []
    for variable, vendors in _VARIABLES.items():
        for entry in (part.strip() for part in environment.get(variable, "").split(",")):
            number = entry.partition(".")[0] if variable == "ZE_AFFINITY_MASK" else entry
            if not is_whole_number(number) and not entry.startswith(("GPU-", "MIG-")):
                break
            if not any(_may_match(devices, vendor, number) for vendor in vendors):
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


def _order_nvidia(devices: list[Device], environment: Mapping[str, str]) -> _Order:
    order = _cuda_order(devices, environment.get("CUDA_DEVICE_ORDER", ""))
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return _Order("cuda", order, order)
    return _Order("cuda", order, _cuda_visible(order, value), ("CUDA_VISIBLE_DEVICES",))


def _cuda_order(devices: Sequence[Device], rule: str) -> list[Device]:
    """By PCI address, or the fastest first."""
    by_address = sorted(devices, key=lambda d: (d.indices.get("nvml", 0), d.indices.get("mig", -1)))
    if rule == "PCI_BUS_ID":
        return by_address
    # Stable: equal GPUs keep their address order, as in CUDA. MIG instances come last.
    return sorted(by_address, key=lambda d: (d.part == "mig", *_slowness(d)))


def _slowness(device: Device) -> tuple[float, float]:
    capability = parse_capability(device.capability) or (0, 0)
    generation = capability[0] + capability[1] / 10
    return (-(device.units or 0) * max(1.0, generation), -generation)


def _cuda_visible(order: Sequence[Device], value: str) -> list[Device]:
    """What CUDA_VISIBLE_DEVICES leaves, in its order.

    Entries are indices, UUIDs or MIG ids, or unambiguous beginnings of them. The first entry that
    matches nothing ends the list, and a repeated one empties it: that is CUDA's rule.
    """
    visible: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        device = _cuda_entry(order, entry)
        if device is None:
            break
        if device in visible:
            return []
        visible.append(device)
    return visible


def _cuda_entry(order: Sequence[Device], entry: str) -> Device | None:
    if is_whole_number(entry):
        # Indices count whole GPUs; a GPU in MIG mode is not among them.
        whole = [device for device in order if device.part != "mig"]
        if not whole:
            # Only cards in MIG mode: an index means a card's first instance.
            first = {device.parent: device for device in reversed(order)}
            whole = [first[parent] for parent in dict.fromkeys(d.parent for d in order)]
        return whole[int(entry)] if int(entry) < len(whole) else None
    if entry.startswith("MIG-GPU-"):
        # `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`, the form before driver 470.
        return next((device for device in order if device.id.lower() == entry.lower()), None)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [device for device in order if device.id.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else None


def _order_amd(devices: list[Device], environment: Mapping[str, str]) -> _Order:
    """ROCR_VISIBLE_DEVICES applies first, below HIP; then HIP's own list, or else CUDA's."""
    listed = [device for device in devices if not device.has_note(NoteCode.NOT_IN_KFD)]
    listed.sort(key=lambda d: d.indices.get("kfd", 0))
    hip = "HIP_VISIBLE_DEVICES" in environment
    names = ("ROCR_VISIBLE_DEVICES", f"{'HIP' if hip else 'CUDA'}_VISIBLE_DEVICES")
    variables = tuple(name for name in names if name in environment)
    visible = listed
    for name in variables:
        visible = _rocm_visible(visible, environment[name])
    return _Order("rocm", listed, visible, variables)


def _rocm_visible(devices: Sequence[Device], value: str) -> list[Device]:
    """Indices or `GPU-` ids, up to the first that matches nothing."""
    visible: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        if is_whole_number(entry) and int(entry) < len(devices):
            device: Device | None = devices[int(entry)]
        else:
            # To ROCm a partition has the id of its card.
            device = next((d for d in devices if entry.lower() in _rocm_ids(d)), None)
        if device is None:
            break
        visible.append(device)
    return visible


def _rocm_ids(device: Device) -> tuple[str, str]:
    return device.id.lower(), device.id.lower().partition("/")[0]


def _order_intel(devices: list[Device], environment: Mapping[str, str]) -> _Order:
    """ZE_AFFINITY_MASK lists devices, or tiles of them as `0.1`; Level Zero counts cards first."""
    order = sorted(devices, key=lambda d: d.memory.kind == "unified")
    order = [_add_index(device, "ze", number) for number, device in enumerate(order)]
    value = environment.get("ZE_AFFINITY_MASK", "")
    if not value.strip():  # an empty mask hides nothing
        return _Order("xpu", order, order)
    numbers = [entry.strip().partition(".")[0] for entry in value.split(",")]
    visible = [device for number, device in enumerate(order) if str(number) in numbers]
    return _Order("xpu", order, visible, ("ZE_AFFINITY_MASK",))
