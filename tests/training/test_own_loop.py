"""What a loop of one's own is given, and the calls of the older system as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Machine
from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.errors import DeviceNotFoundError, InvalidSettingError, OutOfMemoryError
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceSample, SampleTime, snapshot_to_json
from anyrig.training import (
    MixedPrecision,
    Monitor,
    Trainer,
    find_batch_size,
    gpu_info,
    memory_usage,
    optimize_dataloader,
    prepare_model,
    profile_memory,
    release_memory,
)
from anyrig.units import GIB, MIB


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def loader(count: int = 64) -> torch.utils.data.DataLoader[Any]:
    seed = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 784, generator=seed)
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=32)


def test_the_trainer_of_the_older_system() -> None:
    model = net()
    t = Trainer(
        model, loader(), loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adam(model.parameters(), 1e-3),
        epochs=10, dtype="float16", memory_fraction=0.9, recompute=True, device="cpu",
    )  # fmt: skip
    result = t.fit()
    assert (result.steps, result.epochs, result.precision) == (20, 10, "fp16")
    assert any("computed again in the backward pass" in reason for reason in result.reasons)
    assert any("90% of" in reason for reason in result.reasons)
    losses = [row.loss for row in t.history() if row.loss is not None]
    assert losses[-1] < 0.8 * losses[0]
    t.close()


class _Reader(DeviceReader):
    """A driver that tells of a card and of nothing that is in it."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.gpus, HostProbe(LiveProbe()))

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        return [DeviceSample(one.id, one.name, *at) for one in self.devices]


def _use_cuda(monkeypatch: pytest.MonkeyPatch, *, used: bool) -> None:
    stats = {"allocated_bytes.all.current": GIB, "reserved_bytes.all.current": 3 * GIB}
    properties = SimpleNamespace(uuid="")
    for name, value in {
        "is_available": True, "is_initialized": used, "device_count": 1,
        "get_device_properties": properties, "memory_stats": stats,
        "mem_get_info": (50 * GIB, 100 * GIB),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)


@pytest.mark.parametrize("used", [True, False])
def test_a_monitor_tells_what_torch_holds_in_this_process(
    used: bool, machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    _use_cuda(monkeypatch, used=used)
    h200 = machine("h200-linux")
    with Monitor(h200, interval=2.0, readers=[_Reader(h200)]) as monitor:
        snapshot = monitor.sample()
    gpu, cpu = snapshot.devices
    found = gpu.memory_allocated_bytes, gpu.memory_reserved_bytes, gpu.memory_cached_bytes
    assert found == ((GIB, 3 * GIB, 2 * GIB) if used else (0, 0, 0))
    assert cpu.memory_cached_bytes is None
    data = snapshot_to_json(snapshot)["devices"]
    total = {"allocated_bytes": GIB, "reserved_bytes": 3 * GIB}
    assert data[0]["framework"] == (total if used else dict.fromkeys(total, 0))
    assert data[1]["framework"] is None


def test_gpus_are_told_of_and_a_machine_without_has_none(
    machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.monitor.monitor.discover", lambda _: machine("no-gpu"))
    assert gpu_info() == []
    h200 = machine("h200-linux")
    _use_cuda(monkeypatch, used=True)
    monkeypatch.setattr("anyrig.monitor.monitor.discover", lambda _: h200)
    monkeypatch.setattr("anyrig.monitor.monitor.open_readers", lambda *_: [_Reader(h200)])
    (gpu,) = gpu_info()
    assert gpu.name == h200.gpus[0].name
    assert gpu.memory_cached_bytes == 2 * GIB


def test_memory_of_this_process_is_told_and_released() -> None:
    held = torch.zeros(64 * MIB)  # 256 MiB
    before = memory_usage("cpu")
    assert before.allocated_bytes is not None
    assert before.allocated_bytes > 256 * MIB
    assert before.peak_bytes is not None
    assert before.peak_bytes >= before.allocated_bytes
    assert before.cached_bytes == 0
    del held
    assert release_memory("cpu") >= 0
    after = memory_usage(torch.device("cpu")).allocated_bytes
    assert after is not None
    assert after < before.allocated_bytes - 200 * MIB


def test_one_gpu_that_is_not_there_is_an_error() -> None:
    for call in (memory_usage, release_memory, lambda name: prepare_model(net(), name)):
        with pytest.raises(DeviceNotFoundError, match="cuda:7"):
            call("cuda:7")


def test_a_model_is_put_on_the_device(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    prepared = prepare_model(model, device="cpu", compile=False, channels_last=True)
    assert prepared is model
    weight = optimizer.param_groups[0]["params"][0]
    assert weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("works", [True, False])
def test_a_model_is_compiled_or_runs_as_it_is_where_that_fails(
    works: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    num_compiled = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nonlocal num_compiled
        num_compiled += 1
        if not works:
            raise RuntimeError("no compiler is installed")
        return graph.forward

    real: Any = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda target, **options: real(target, **{**options, "backend": backend})
    )
    model, plain = net().eval(), net().eval()
    inputs = torch.randn(2, 784)
    prepare_model(model, device="cuda", compile=True, channels_last=True)
    for _ in range(2):
        assert torch.equal(model(inputs), plain(inputs))
    assert num_compiled == 1
    assert ("no compiler is installed" in caplog.text) is not works
    assert "no CUDA device found; using the CPU" in caplog.text
    torch._dynamo.reset()


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: one.clone() for name, one in model.state_dict().items()}


@pytest.mark.parametrize("training", [True, False])
def test_a_search_leaves_the_model_as_it_was(training: bool) -> None:
    model = net()
    model(torch.randn(2, 784)).sum().backward()
    before, first = _state(model), model.get_parameter("0.weight")
    gradient = first.grad
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    size = find_batch_size(
        model, (784,), memory_gb=8.0, max_size=32, device="cpu", training=training, dtype="bfloat16"
    )
    assert size == 32
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    assert model.get_parameter("0.weight") is first
    assert first.grad is gradient
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_model_that_fits_no_batch_says_so() -> None:
    with pytest.raises(OutOfMemoryError, match="does not fit"):
        find_batch_size(net(), (784,), memory_gb=0.01, device="cpu")
    with pytest.raises(InvalidSettingError, match="are both set"):
        find_batch_size(net(), (784,), memory_gb=1, memory_fraction=0.5, device="cpu")


def test_a_profile_is_sizes_to_bytes_and_prints_and_plots(tmp_path: Path) -> None:
    profile = profile_memory(net(), (784,), sizes=(2, 8, 32), device="cpu", dtype="float32")
    assert list(profile) == [2, 8, 32]
    assert all(peak > MIB for peak in profile.values())
    text = str(profile)
    assert "training step in fp32" in text
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["2", "8", "32"]
    assert profile.plot(tmp_path / "memory.svg").startswith("<svg")
    assert (tmp_path / "memory.svg").read_text() == profile.plot()
    with pytest.raises(InvalidSettingError, match=r"does not end in \.svg"):
        profile.plot(tmp_path / "memory.png")


def test_mixed_precision_in_a_loop() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    precision = MixedPrecision("float16", device="cpu")
    losses = []
    for _ in range(5):
        for inputs, targets in loader():
            with precision.autocast():
                outputs = model(inputs)
                assert outputs.dtype == torch.float16
                loss = nn.functional.cross_entropy(outputs.float(), targets)
            precision.backward(loss, optimizer)  # drops the gradients of the step before
            assert not precision.step(optimizer).skipped
            losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert precision.precision == "fp16"
    other = MixedPrecision(torch.float16, device="cpu")
    other.load_state_dict(precision.state_dict())
    assert other.state_dict() == precision.state_dict()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_add_up_within_a_step_and_a_bad_step_is_skipped(dtype: str) -> None:
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    precision = MixedPrecision(dtype, device="cpu")
    nn.init.zeros_(model.weight)
    for _ in range(2):
        for _ in range(2):
            precision.backward(model.weight.sum(), optimizer)
        precision.step(optimizer)
    assert model.weight.item() == -4.0
    precision.backward(model.weight.sum() * float("inf"), optimizer)
    assert precision.step(optimizer).skipped
    assert model.weight.item() == -4.0
    precision.backward(model.weight.sum(), optimizer)
    assert not precision.step(optimizer, max_norm=0.5).skipped
    assert model.weight.item() == pytest.approx(-4.5)


def test_a_loader_comes_back_with_better_settings() -> None:
    better: Any = optimize_dataloader(loader())
    assert better.batch_size == 32
    assert any("pinned" in reason for reason in better.reasons)


def test_a_machine_of_one_gpu_without_torch_for_it(machine: Callable[..., Machine]) -> None:
    h200 = machine("h200-linux")
    blocked = replace(h200, gpus=tuple(replace(one, backends=()) for one in h200.gpus))
    with Monitor(blocked, readers=[_Reader(blocked)]) as monitor:
        assert monitor.sample().devices[0].memory_allocated_bytes is None
