"""Settings of torch's allocator: what doctor says of them, beside what torch itself says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.devices.allocator_settings import find_problems
from anyrig.devices.doctor import Finding, diagnose
from anyrig.devices.machine import Machine

Load = Callable[..., Machine]
NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
VALID = [
    "", "max_split_size_mb:512", "max_split_size_mb:20", "max_split_size_mb : 512 ",
    "expandable_segments:True,garbage_collection_threshold:0.8", "max_split_size_mb:128,",
    "roundup_power2_divisions:8", "roundup_power2_divisions:[64:8,256:4,1024:0,>:1]",
    "roundup_power2_divisions:[256:1,512:2],expandable_segments:False",
    "pinned_use_background_threads:True", "max_non_split_rounding_mb:64",
]  # fmt: skip
INVALID = {
    "expandable_segments:true": "expandable_segments must be True or False, not 'true'",
    "expandable_segments:1": "True or False",
    "max_split_size_mb:10": "max_split_size_mb must be a whole number of at least 20, not '10'",
    "max_split_size_mb:abc": "not 'abc'",
    "max_split_size_mb:": "not ''",
    "max_split_size_mb": "'max_split_size_mb' is not KEY:VALUE",
    "max_split_size_mb=512": "is not KEY:VALUE",
    "max_split_size_mb:512;expandable_segments:True": "not '512;expandable_segments:True'",
    "max_split_size_mb:512 expandable_segments:True": "max_split_size_mb must be",
    "garbage_collection_threshold:1.5": "between 0 and 1",
    "garbage_collection_threshold:0": "between 0 and 1",
    "roundup_power2_divisions:3": "a power of two",
    "roundup_power2_divisions:[64:3]": "a power of two",
}
# torch for the CPU leaves these to the parts for GPUs, which it does not have.
OF_GPUS = {
    "max_split_size_mb:512,,expandable_segments:True": "'' is not KEY:VALUE",
    "nonsense:1": "unknown key 'nonsense'",
    "max_split_size:512": "unknown key 'max_split_size'; did you mean max_split_size_mb?",
    "Expandable_Segments:True": "did you mean expandable_segments?",
    "backend:cudamallocasync": "backend must be native or cudaMallocAsync",
    "pinned_num_register_threads:3": "a power of two up to 128",
    "release_lock_on_cudamalloc:yes": "True or False",
}


@pytest.mark.parametrize("text", VALID)
def test_valid_settings(text: str) -> None:
    assert not [*find_problems(text)]


@pytest.mark.parametrize(("text", "problem"), [*INVALID.items(), *OF_GPUS.items()])
def test_invalid_settings(text: str, problem: str) -> None:
    assert problem in "; ".join(find_problems(text))


def test_torch_agrees(subtests: pytest.Subtests) -> None:
    import torch

    set_settings = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if set_settings is None:
        pytest.skip("this torch has no such function")
    for text in VALID:
        with subtests.test(text=text):
            set_settings(text)
    for text in INVALID:
        with subtests.test(text=text), pytest.raises((RuntimeError, ValueError, IndexError)):
            set_settings(text)
    set_settings("")


def test_keys_of_newer_torch() -> None:
    text = "per_process_memory_fraction:0.5"
    assert not [*find_problems(text, "2.10.0+cu128")]
    assert not [*find_problems(text)]
    (problem,) = find_problems(text, "2.8.0")
    assert problem == "per_process_memory_fraction needs torch 2.10, and 2.8.0 is installed"


def _allocator(machine: Machine) -> list[Finding]:
    return [one for one in diagnose(machine) if one.check == "allocator"]


@pytest.mark.parametrize("name", NAMES)
def test_doctor_finds_a_wrong_setting(machine: Load, name: str) -> None:
    (found,) = _allocator(machine("mi300x-linux", {name: "nonsense:1"}))
    assert found.state == "broken"  # torch for GPUs fails with it
    assert found.message == f"{name}: unknown key 'nonsense'"
    assert name in found.fix
    (found,) = _allocator(machine("mi300x-linux", {name: "max_split_size_mb:512"}))
    assert found.state == "good"
    assert "max_split_size_mb:512" in found.message
    (found,) = _allocator(machine("no-gpu", {name: "nonsense:1"}))
    assert found.state == "warning"


def test_only_the_setting_that_torch_reads_breaks_it(machine: Load) -> None:
    found = _allocator(machine("h200-linux", {"PYTORCH_HIP_ALLOC_CONF": "nonsense:1"}))
    assert [one.state for one in found] == ["warning"]
    both = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "PYTORCH_ALLOC_CONF": "nonsense:1"}
    found = _allocator(machine("h200-linux", both))
    assert [one.state for one in found] == ["warning", "warning"]
    assert "the first wins" in found[0].message
