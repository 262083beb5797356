from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.devices.machine import BackendName, Machine, Precision
from anyrig.precision.presets import PRESETS, Profile, preset
from anyrig.precision.profiles import HEADER, describe, presets_table, profile_table, resolve
from tests.conftest import NAMES

Load = Callable[..., Machine]


def test_shares_of_memory(machine: Load) -> None:
    here = machine("h200-linux")
    gpu, cpu = here.gpus[0], here.cpu_device
    total = gpu.memory.total_bytes
    assert total is not None
    shares = {name: resolve(name, gpu, gpu.backends[0]).memory_fraction for name in PRESETS}
    assert shares == {"quality": 0.85, "balanced": 0.9, "fast": 0.92, "low-memory": 0.55}
    assert resolve("low-memory", gpu, gpu.backends[0]).memory_bytes == int(total * 0.55)
    assert resolve("balanced", cpu, cpu.backends[0]).memory_fraction == 0.7


def test_unified_memory_is_shared_with_the_system(machine: Load) -> None:
    gpu = machine("macbook-m4").gpus[0]
    found = resolve("low-memory", gpu, gpu.backends[0], training=True)
    assert found.memory_fraction == 0.4
    assert found.offload == "never"  # the host's memory is the same memory
    assert found.checkpointing == "always"


def test_offload_where_the_device_has_its_own_memory(machine: Load) -> None:
    gpu = machine("t4-linux").gpus[0]
    assert resolve("low-memory", gpu, gpu.backends[0], training=True).offload == "if needed"


def test_a_sentence_and_a_table(machine: Load) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    speeds: dict[Precision, float] = {"fp32": 51e12, "bf16": 785e12}
    text = describe(resolve("balanced", gpu, gpu.backends[0], speeds=speeds))
    assert text.startswith("balanced: bf16 (measured 785 TFLOP/s against 51.0 TFLOP/s in fp32")
    assert "90% of memory (126 GiB)" in text
    through: dict[tuple[BackendName, Precision], float] = {
        ("torch", "fp32"): 51e12, ("torch", "bf16"): 785e12, ("onnx", "bf16"): 1.0,
    }  # fmt: skip
    rows = profile_table(here, speeds={gpu.id: through})
    assert [row[1] for row in rows] == [*PRESETS, *PRESETS]
    assert all(len(row) == len(HEADER) for row in rows)
    assert rows[1][2] == "bf16"
    assert "785 TFLOP/s" in rows[1][-1]
    assert "NVIDIA H200 (torch)" in rows[0][0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [False, True])
def test_every_recorded_machine_has_a_table(machine: Load, name: str, training: bool) -> None:
    here = machine(name)
    rows = profile_table(here, training=training)
    usable = [device for device in here.devices if device.usable]
    assert len(rows) == len(PRESETS) * len(usable)
    assert all(cell for row in rows for cell in row)


def test_failed_formats_reach_the_table(machine: Load) -> None:
    here = machine("h200-linux")
    rows = profile_table(here, failed={here.gpus[0].id: {"bf16": "NaN", "fp16": "NaN"}})
    assert rows[1][2] == "tf32"


@pytest.mark.parametrize("word", ["low-memory", "LOW_MEMORY", " fast "])
def test_names_in_any_spelling(word: str) -> None:
    assert preset(word) in PRESETS.values()


def test_presets_speak(machine: Load) -> None:
    names: list[Profile] = list(PRESETS)
    assert [row[0] for row in presets_table()] == names
    assert "checkpointing always" in presets_table()[-1][-1]
