"""What a user may call a device by, and which of several is the better by description.

A word is `cpu`, `all`, a kind of device (`gpu`, `cuda`, `amd`), an index (`1`, `6:1`), a library's
name for one device (`cuda:1`, `dml:0`), an id or its beginning, a PCI address, or part of a name.
Each form is looked up in its own way and in no other: a number never matches a name. Pure functions
of a `Machine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from anyrig.devices.describe import Device, Drive, Machine
from anyrig.errors import DeviceNotFoundError
from anyrig.units import GIB, is_whole_number, normalize_pci_address

_LIBRARY_WORDS = ("cuda", "tensorrt", "rocm", "xpu", "mps", "dml", "webgpu")
_SYNONYMS = {"directml": "dml", "trt": "tensorrt", "hip": "rocm", "metal": "mps"}
_VENDORS = {
    "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "qualcomm": "Qualcomm",
}  # fmt: skip
KINDS = {
    "gpu": "GPU",
    "cuda": "CUDA device",
    "tensorrt": "TensorRT device",
    "rocm": "ROCm device",
    "xpu": "XPU device",
    "mps": "Metal (MPS) device",
    "dml": "DirectML device",
    "webgpu": "WebGPU device",
    **{vendor: f"{title} GPU" for vendor, title in _VENDORS.items()},
}
"""Words for any device of a kind, with what to call one in a message."""
_INDEX = re.compile(r"[+-]?[0-9]+(:[0-9]*)?")
_FP16_RANK = {"matrix": 3, "fast": 2, "slow": 1, "none": 0, None: 0}
_MOST_LISTED = 8
_MOST_DIGITS = 18


def kind_of(word: str) -> str:
    """The kind that a word names (`directml` is `dml`); nothing for a word of one device."""
    plain = word.strip().lower()
    kind = _SYNONYMS.get(plain, plain)
    return kind if kind in KINDS else ""


def match(machine: Machine, word: str) -> tuple[Device, ...]:
    """The devices that a word names, best first; an error lists what is there."""
    plain = word.strip()
    lower = plain.lower()
    if lower == "cpu":
        return (machine.cpu_device,)
    if lower == "all":
        usable = tuple(device for device in machine.gpus if device.usable)
        return (*usable, machine.cpu_device)
    found = _found(machine, lower) if lower else ()
    if not found:
        raise DeviceNotFoundError(
            f"no device matches {plain!r}", hint=what_is_there(machine, lower)
        )
    return found


def _found(machine: Machine, word: str) -> tuple[Device, ...]:
    if word == "gpu":
        return ranked(machine.gpus)
    if _INDEX.fullmatch(word):
        return _by_index(machine, word)
    if word in _VENDORS:
        return ranked(d for d in machine.gpus if d.vendor == word)
    library, colon, number = word.partition(":")
    if _SYNONYMS.get(library, library) in _LIBRARY_WORDS and (not colon or is_whole_number(number)):
        return _by_library(machine, word) if len(number) <= _MOST_DIGITS else ()
    found = _by_id(machine, word)
    # `2.5` or `4,0` is no name either, though a CPU's name ends in 2.50GHz.
    return found if found or not any(map(str.isalpha, word)) else _by_name(machine, word)


def _by_index(machine: Machine, word: str) -> tuple[Device, ...]:
    """`2` is the third GPU, `6:1` the second MIG instance of the seventh."""
    number, colon, part = word.partition(":")
    if (
        not is_whole_number(number)
        or (colon and not is_whole_number(part))
        or len(word) > _MOST_DIGITS
    ):
        return ()
    wanted = (int(number), int(part) if colon else None)
    return tuple(d for d in machine.gpus if (d.indices.get("gpu"), d.indices.get("mig")) == wanted)


def _by_id(machine: Machine, word: str) -> tuple[Device, ...]:
    address = normalize_pci_address(word)
    exact = [d for d in machine.devices if word == d.id.lower()]
    exact = exact or [d for d in machine.gpus if address and address == d.pci_address]
    if exact:
        return tuple(exact[:1])
    if len(word) < 6:
        return ()
    forms = (word, f"gpu-{word}", f"mig-{word}")
    return _single([d for d in machine.gpus if d.id.lower().startswith(forms)], word)


def _by_library(machine: Machine, word: str) -> tuple[Device, ...]:
    library, colon, number = word.partition(":")
    library = _SYNONYMS.get(library, library)
    if library == "cuda" and not any(d.vendor == "nvidia" for d in machine.gpus):
        library = "rocm"  # torch's ROCm build calls its devices cuda
    if library == "mps":  # there is one, which torch calls mps or mps:0
        return tuple(d for d in machine.gpus if "mps" in d.words and int(number or 0) == 0)[:1]
    wanted = f"{library}:{number}"
    if colon:
        counted = [d for d in machine.gpus if wanted in d.words]
        # Cards that the library does not count (hidden, no driver) follow those it does.
        uncounted = [d for d in machine.gpus if library in d.words]
        if counted:
            return tuple(counted)[:1]
        instances = [d for d in machine.gpus if d.part == "mig" and d.usable]
        if library == "cuda" and instances:
            return tuple(instances[int(number) : int(number) + 1])
        number_left = int(number) - sum(any(w.startswith(f"{library}:") for w in d.words)
                                        for d in machine.gpus)  # fmt: skip
        return tuple(uncounted[number_left : number_left + 1]) if number_left >= 0 else ()
    return ranked(
        d
        for d in machine.gpus
        if any(w.split(":")[0] == library for w in d.words)
        or (library == "cuda" and d.part == "mig")
    )


def _by_name(machine: Machine, word: str) -> tuple[Device, ...]:
    # The CPU of a Mac or an APU has its GPU's name in its own: GPUs come first.
    named = [d for d in machine.gpus if word in d.name.lower()]
    named = named or [d for d in (machine.cpu_device,) if word in d.name.lower()]
    exact = [d for d in named if d.name.lower() == word]
    found = exact or named
    return _single([d for d in found if d.part != "mig"] or found, word)


def _single(found: Sequence[Device], word: str) -> tuple[Device, ...]:
    if len(found) > 1:
        names = ", ".join(f"{d.id} ({d.name})" for d in found)
        raise DeviceNotFoundError(
            f"{word!r} matches {len(found)} devices: {names}",
            hint="Name one by its number in `anyrig devices` or by its id.",
        )
    return tuple(found)


def what_is_there(machine: Machine, word: str = "") -> str:
    """The devices of a machine as a hint, with the word that was probably meant."""
    rows = [f"{number_text(gpu)} ({gpu.name}, {', '.join(gpu.words)})" for gpu in machine.gpus]
    if len(rows) > _MOST_LISTED:
        rest = len(rows) - _MOST_LISTED
        rows = [*rows[:_MOST_LISTED], f"{rest} more in `anyrig devices`"]
    listed = "; ".join([*rows, f"cpu ({machine.cpu.name})"])
    meant = _meant(machine, word)
    return f"{meant}There is: {listed}. `auto` picks the best, `all` takes every one."


def _meant(machine: Machine, word: str) -> str:
    if is_whole_number(word):
        # `4090` is an index that nobody has; the model's name needs a letter of its own.
        named = next((gpu for gpu in machine.gpus if re.search(rf"\b{word}\b", gpu.name)), None)
        if named is None or len(word) < 3:
            return ""
        return f"A number is an index: {named.name} is {number_text(named)!r}. "
    words = sorted({w for d in machine.devices for w in d.words} | {"auto", "all", "cpu"})
    import difflib  # 3 ms that only a mistake should cost

    near = difflib.get_close_matches(word, words, n=1, cutoff=0.7) if word else []
    return f"Did you mean {near[0]!r}? " if near else ""


def detour(device: Device, word: str) -> str:
    """What to say when a word asks for one way to a device and only another is open."""
    library = word.strip().lower().partition(":")[0]
    library = _SYNONYMS.get(library, library)
    if library not in _LIBRARY_WORDS or device.kind == "cpu":
        return ""
    same = {"cuda", "rocm"} if library in ("cuda", "rocm") else {library}
    asked = [d for d in device.drives if d.word.partition(":")[0] in same or d.word == device.id]
    if any(drive.usable for drive in asked):
        return ""
    other = next((drive.word for drive in device.drives if drive.usable), "another way")
    reason = asked[0].reason if asked else "it has no such backend"
    return f"{device.name} cannot be used as {word.strip()} ({reason}); using it as {other}"


def drive_for(device: Device, word: str = "") -> Drive | None:
    """The way to run on a device: what the word asks for, else torch, else whatever is open."""
    library = word.strip().lower().partition(":")[0]
    library = _SYNONYMS.get(library, library)
    usable = [drive for drive in device.drives if drive.usable]
    asked = [drive for drive in usable if drive.word.partition(":")[0] == library]
    for drives in (asked, usable):
        for backend in ("torch", "onnx"):
            for drive in drives:
                if drive.backend == backend:
                    return drive
    return None


def ranked(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The best described device first."""
    return tuple(sorted(devices, key=rank, reverse=True))


def rank(device: Device) -> tuple[bool, bool, bool, int, bool, int, float]:
    """A key that sorts devices: what can be used first, then cards, matrix units, memory."""
    return (
        device.usable,
        device.memory.kind == "dedicated",
        device.vendor not in ("unknown",),
        _FP16_RANK[device.features.fp16],
        bool(device.features.bf16),
        # In whole GiB: two equal cards with a few MiB between them are equal.
        (device.memory.total_bytes or 0) // GIB,
        float(device.units or 0),
    )


def number_text(device: Device) -> str:
    """What to call a GPU by: `0`, or `6:1` for a MIG instance."""
    number = str(device.indices.get("gpu", 0))
    return f"{number}:{device.indices['mig']}" if device.part == "mig" else number
