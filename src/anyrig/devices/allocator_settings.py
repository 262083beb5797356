"""The settings of torch's allocator in environment variables, as torch 2.6 to 2.13 reads them.

torch parses them when a GPU is first used. A key or value that it does not know is an error then,
so that no GPU can be used; `anyrig doctor` finds it before. Keys and ranges: c10's
AllocatorConfig.cpp and CUDAAllocatorConfig.cpp.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from anyrig.devices.findings import Findings, broken, good, warning
from anyrig.devices.machine import Machine
from anyrig.devices.vendors import VENDORS

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""In torch's order: the first that its build reads and that is set is used."""
# Variables that old guides set.
_HARMFUL_VARIABLES = {
    "TORCH_CUDNN_V8_API_ENABLED": "has no effect since torch 2.0",
    "CUDA_LAUNCH_BLOCKING": "waits for every kernel: for debugging only",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "disables the caching allocator: for debugging only",
}
# Blocks of up to this size are packed into one segment.
_LARGE_SEGMENT_MB = 20
_MAX_REGISTER_THREADS = 128


class _Key(NamedTuple):
    accepted: str
    """To follow "must be"."""
    is_valid: Callable[[str], bool]
    since: tuple[int, int] = (2, 6)
    """The torch that has it, of those that anyrig supports."""


def _at_least(minimum: int, since: tuple[int, int] = (2, 6)) -> _Key:
    return _Key(
        f"a whole number of at least {minimum}",
        lambda text: text.isdecimal() and minimum <= int(text) < 2**44,
        since,
    )


def _boolean(since: tuple[int, int] = (2, 6)) -> _Key:
    return _Key("True or False", lambda text: text in ("True", "False"), since)


def _is_fraction(text: str) -> bool:
    return re.fullmatch(r"\d{0,9}\.?\d{1,30}", text) is not None and 0 < float(text) < 1


def _is_power_of_two(text: str) -> bool:
    return text.isdecimal() and int(text).bit_count() == 1


def _are_divisions(text: str) -> bool:
    if not text.startswith("["):
        return _is_power_of_two(text)
    pairs = [pair.partition(":") for pair in text.strip("[]").split(",")]
    return text.endswith("]") and all(
        (size == ">" or _is_power_of_two(size)) and (count == "0" or _is_power_of_two(count))
        for size, _, count in pairs
    )


_KEYS = {
    "backend": _Key(
        "native or cudaMallocAsync",
        lambda text: text in ("native", "cudaMallocAsync", "hipMallocAsync"),
    ),
    "max_split_size_mb": _at_least(_LARGE_SEGMENT_MB),
    "max_non_split_rounding_mb": _at_least(_LARGE_SEGMENT_MB),
    "garbage_collection_threshold": _Key("a number between 0 and 1", _is_fraction),
    "roundup_power2_divisions": _Key(
        "a power of two, or a list such as [256:1,512:2,>:8]", _are_divisions
    ),
    "expandable_segments": _boolean(),
    "release_lock_on_cudamalloc": _boolean(),
    "release_lock_on_hipmalloc": _boolean(),
    "pinned_use_cuda_host_register": _boolean(),
    "pinned_use_hip_host_register": _boolean(),
    "pinned_use_background_threads": _boolean(),
    "pinned_num_register_threads": _Key(
        f"a power of two up to {_MAX_REGISTER_THREADS}",
        lambda text: _is_power_of_two(text) and int(text) <= _MAX_REGISTER_THREADS,
    ),
    "pinned_reserve_segment_size_mb": _at_least(1, since=(2, 10)),
    "graph_capture_record_stream_reuse": _boolean(since=(2, 10)),
    "per_process_memory_fraction": _Key(
        "a number from 0 to 1",
        lambda text: text in ("0", "1", "0.0", "1.0") or _is_fraction(text),
        since=(2, 10),
    ),
    "large_segment_size_mb": _at_least(_LARGE_SEGMENT_MB, since=(2, 10)),
    "throw_on_cudamalloc_oom": _boolean(since=(2, 12)),
    "pinned_free_catch_all": _boolean(since=(2, 12)),
    "pinned_max_round_threshold_mb": _at_least(1, since=(2, 12)),
    "pinned_max_cached_size_mb": _at_least(1, since=(2, 12)),
}


def split_settings(text: str) -> list[str]:
    """The items between commas; a value in brackets may contain commas. torch ignores spaces."""
    text = text.replace(" ", "").removesuffix(",")
    return re.split(r",(?![^\[\]]*\])", text) if text else []


def find_problems(text: str, torch_version: str = "") -> Iterator[str]:
    """What torch would refuse in the value of such a variable.

    Args:
        torch_version: `2.8.0+cu128`; empty if torch is not installed, when every key is accepted.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", torch_version)[:2])
    for item in split_settings(text):
        name, colon, value = item.partition(":")
        key = _KEYS.get(name)
        if not colon:
            yield f"{item[:60]!r} is not KEY:VALUE"
        elif key is None:
            near = difflib.get_close_matches(name, _KEYS, n=1)
            guess = f"; did you mean {near[0]}?" if near else ""
            yield f"unknown key {name[:60]!r}{guess}"
        elif version and version < key.since:
            needed = ".".join(map(str, key.since))
            yield f"{name} needs torch {needed}, and {torch_version} is installed"
        elif not key.is_valid(value):
            yield f"{name} must be {key.accepted}, not {value[:60]!r}"


def check_allocator(machine: Machine) -> Findings:
    """The check of the doctor."""
    environment = machine.host.environment
    unset = machine.platform.unset_command
    findings = [*_check_settings(machine)]
    for name, effect in _HARMFUL_VARIABLES.items():
        if environment.get(name, "0") not in ("", "0"):
            findings.append(warning(f"{name} {effect}", unset(name)))
    if not findings and _list_read(machine):
        settings = next((environment[name] for name in VARIABLES if environment.get(name)), "")
        findings.append(good(f"allocator settings are valid ({settings or 'torch defaults'})"))
    yield from findings


def _list_read(machine: Machine) -> tuple[str, ...]:
    """The variables that the installed torch reads; none if it is no build for such GPUs."""
    flavour = machine.host.torch_flavour
    vendors = (vendor for vendor in VENDORS.values() if vendor.torch_flavour == flavour)
    return next((vendor.allocator_variables for vendor in vendors), ())


def _check_settings(machine: Machine) -> Findings:
    unset = machine.platform.unset_command
    version = machine.packages.get("torch", "").partition(" ")[0]
    settings = {
        name: text for name in VARIABLES if (text := machine.host.environment.get(name, ""))
    }
    own = _list_read(machine)
    read = [name for name in settings if name in (own or VARIABLES)]
    if len(read) > 1:
        both = "both " if len(read) == 2 else ""
        yield warning(f"{' and '.join(read)} are {both}set: the first wins", unset(read[0]))
    for name, text in settings.items():
        problems = "; ".join(find_problems(text, version))
        if problems:
            # torch refuses it when it first uses a GPU.
            make = broken if own and name in read[:1] else warning
            yield make(f"{name}: {problems}", unset(name))
    windows = machine.platform.system == "Windows" or machine.platform.wsl
    if windows and read and "expandable_segments:True" in split_settings(settings[read[0]]):
        yield warning("expandable_segments is not supported on Windows or WSL2", unset(read[0]))
