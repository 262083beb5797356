"""Which devices the environment leaves visible, and in which order each library counts them.

NVML counts by PCI address; CUDA counts the fastest first unless CUDA_DEVICE_ORDER says otherwise.
So an index in CUDA_VISIBLE_DEVICES is not an index of nvidia-smi. Everything here maps to the
device's id; where CUDA's order cannot be known without starting CUDA it is predicted from cores and
capability, and the torch backend finds its device by UUID whatever the prediction was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyrig.devices.describe import Device, Unmatched
from anyrig.devices.parts import nvidia as nvidia_parts
from anyrig.units import is_whole_number

_MOST_DIGITS = 18


def apply(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices with their library indices, the hidden ones blocked with the variable's name."""
    found = {device.id: device for device in devices}
    for vendor, number in (("nvidia", _nvidia), ("amd", _amd), ("intel", _intel)):
        mine = [device for device in devices if device.vendor == vendor and not device.blocked]
        for device in number(mine, environment):
            found[device.id] = device
    return tuple(found[device.id] for device in devices)


_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": ("nvidia", "amd"),
    "HIP_VISIBLE_DEVICES": ("amd",),
    "ROCR_VISIBLE_DEVICES": ("amd",),
    "ZE_AFFINITY_MASK": ("intel",),
}


def unmatched(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[Unmatched, ...]:
    """The devices that variables name and that are not there.

    An empty value, `-1`, or a word such as Slurm's `NoDevFiles` hides everything on purpose and
    names nothing.
    """
    found = []
    for variable, vendors in _VARIABLES.items():
        for entry in (part.strip() for part in environment.get(variable, "").split(",")):
            number = entry.partition(".")[0] if variable == "ZE_AFFINITY_MASK" else entry
            if not is_whole_number(number) and not entry.startswith(("GPU-", "MIG-")):
                break
            if not any(_names(devices, vendor, number) for vendor in vendors):
                found.append(Unmatched(variable, entry))
    return tuple(found)


def _names(devices: Sequence[Device], vendor: str, entry: str) -> bool:
    """Whether an entry may mean one of a vendor's devices, hidden and silent ones too."""
    mine = [device for device in devices if device.vendor == vendor]
    if is_whole_number(entry):
        cards = [d for d in mine if d.part != "mig"] or mine
        return len(entry) < _MOST_DIGITS and int(entry) < len(cards)
    known = [device.id.lower() for device in mine]
    silent = any(not name.startswith(("gpu-", "mig-")) for name in known)
    return silent or any(name.startswith(entry.lower()) for name in known)


def _numbered(
    order: Sequence[Device], shown: Sequence[Device], library: str, variable: str
) -> list[Device]:
    """Indices for what is shown; the rest blocked by the variable."""
    # A MIG instance has a number only where a variable gives it one.
    counted = [device for device in shown if device.part != "mig" or variable]
    place = {device.id: number for number, device in enumerate(counted)}
    seen = {device.id for device in shown}
    blocked, fix = f"hidden by {variable}", f"unset {variable.partition('=')[0]}"
    found = []
    for device in order:
        if device.id not in seen:
            found.append(replace(device, blocked=blocked, blocked_fix=fix))
        elif device.id in place:
            number = {**device.indices, library: place[device.id]}
            found.append(replace(device, indices=number))
        else:
            found.append(device)
    return found


def _nvidia(devices: list[Device], environment: Mapping[str, str]) -> list[Device]:
    order = cuda_order(devices, environment.get("CUDA_DEVICE_ORDER", ""))
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return _numbered(order, order, "cuda", "")
    return _numbered(order, cuda_visible(order, value), "cuda", f"CUDA_VISIBLE_DEVICES={value}")


def cuda_order(devices: Sequence[Device], rule: str) -> list[Device]:
    """NVIDIA devices as CUDA counts them: by address, or the fastest first."""
    by_address = sorted(
        devices,
        key=lambda d: (d.indices.get("nvml", 0), d.indices.get("mig", -1)),
    )
    if rule == "PCI_BUS_ID":
        return by_address
    # Stable: equal parts keep their address order, as CUDA does. MIG instances come last.
    return sorted(by_address, key=lambda d: (d.part == "mig", *_slowness(d)))


def _slowness(device: Device) -> tuple[float, float]:
    capability = nvidia_parts.parse(device.capability) or (0, 0)
    generation = capability[0] + capability[1] / 10
    return (-(device.units or 0) * max(1.0, generation), -generation)


def cuda_visible(order: Sequence[Device], value: str) -> list[Device]:
    """What CUDA_VISIBLE_DEVICES leaves, in its order.

    Entries are indices, UUIDs or MIG ids, or unambiguous beginnings of them. The first entry that
    means nothing ends the list, and one named twice empties it: that is CUDA's rule.
    """
    shown: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        device = _cuda_entry(order, entry)
        if device is None:
            break
        if device in shown:
            return []
        shown.append(device)
    return shown


def _cuda_entry(order: Sequence[Device], entry: str) -> Device | None:
    if is_whole_number(entry):
        # Indices count whole GPUs; a GPU in MIG mode is not among them.
        whole = [device for device in order if device.part != "mig"]
        if not whole:
            # Only cards in MIG mode: an index names a card and gives its first instance.
            first = {device.parent: device for device in reversed(order)}
            whole = [first[parent] for parent in dict.fromkeys(d.parent for d in order)]
        return whole[int(entry)] if int(entry) < len(whole) else None
    if entry.startswith("MIG-GPU-"):
        return _old_mig_entry(order, entry)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [device for device in order if device.id.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else None


def _old_mig_entry(order: Sequence[Device], entry: str) -> Device | None:
    """`MIG-GPU-<uuid>/<gpu instance>/<compute instance>`, the form before driver 470."""
    exact = [device for device in order if device.id.lower() == entry.lower()]
    return exact[0] if exact else None


def _amd(devices: list[Device], environment: Mapping[str, str]) -> list[Device]:
    """ROCR_VISIBLE_DEVICES cuts first, below HIP; then HIP's own list, or CUDA's in its absence."""
    listed = [d for d in devices if not any("kfd does not list" in note for note in d.notes)]
    listed.sort(key=lambda d: d.indices.get("kfd", 0))
    rest = [device for device in devices if device not in listed]
    shown, variable = list(listed), ""
    for name in ("ROCR_VISIBLE_DEVICES", _hip_variable(environment)):
        value = environment.get(name) if name else None
        if value is not None:
            shown = _pick(shown, value)
            variable = f"{name}={value}"
    return [*_numbered(listed, shown, "rocm", variable), *rest]


def _hip_variable(environment: Mapping[str, str]) -> str:
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    return next((name for name in names if name in environment), "")


def _intel(devices: list[Device], environment: Mapping[str, str]) -> list[Device]:
    """ZE_AFFINITY_MASK names devices, or tiles of them as `0.1`.

    Level Zero lists cards first. OpenVINO, behind the same mask, lists the processor's own graphics
    first.
    """
    order = [
        replace(device, indices={**device.indices, "ze": number})
        for number, device in enumerate(sorted(devices, key=lambda d: d.memory.kind == "unified"))
    ]
    value = environment.get("ZE_AFFINITY_MASK")
    if value is None or not value.strip():  # an empty mask hides nothing
        return _openvino(_numbered(order, order, "xpu", ""))
    wanted = [entry.strip().partition(".")[0] for entry in value.split(",")]
    shown = [d for number, d in enumerate(order) if str(number) in wanted]
    return _openvino(_numbered(order, shown, "xpu", f"ZE_AFFINITY_MASK={value}"))


def _openvino(devices: Sequence[Device]) -> list[Device]:
    """The devices with OpenVINO's numbers: `GPU.0` is the integrated one, where there is one."""
    shown = [device for device in devices if not device.blocked]
    shown.sort(key=lambda d: (d.memory.kind != "unified", d.indices["xpu"]))
    place = {device.id: number for number, device in enumerate(shown)}
    return [
        replace(device, indices={**device.indices, "openvino": place[device.id]})
        if device.id in place
        else device
        for device in devices
    ]


def _pick(devices: Sequence[Device], value: str) -> list[Device]:
    """Indices or `GPU-` ids, up to the first that means nothing."""
    shown: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        if is_whole_number(entry) and int(entry) < len(devices):
            device: Device | None = devices[int(entry)]
        else:
            same = [d for d in devices if entry and d.id.lower() == entry.lower()]
            device = same[0] if same else None
        if device is None:
            break
        shown.append(device)
    return shown
