"""What monitoring costs: CPU of a sample a second, of `anyrig top`, and of a training step.

Beside nvitop and nvidia-smi where they are installed, top(1) where there is no GPU. CPU time of
whole processes; training in turns with and without the monitor, since clocks drift.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from anyrig.backends import open_device
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend, Machine
from anyrig.monitor import Monitor
from benchmarks.harness import Row
from benchmarks.processes import ANYRIG, child_environment, children_cpu_seconds, measure_command

WATCH_S, PEER_S = 12.0, 8.0
NUM_ROUNDS, ROUND_S = 6, 2.0
_NVITOP = (
    "import time; from nvitop import Device\n"
    "devices = Device.all()\n"
    "def look():\n"
    "    for device in devices:\n"
    "        device.as_snapshot(); [p.as_snapshot() for p in device.processes().values()]\n"
    "look(); time.sleep(1); begin = time.process_time()\n"
    "for _ in range({count}):\n"
    "    look(); time.sleep(1)\n"
    "print((time.process_time() - begin) / {count})\n"
)


def run(hardware: str) -> list[Row]:
    machine = discover(os.environ)
    rows = [*_sampling(machine, hardware), *_live_view()]
    if hardware == "h200":
        gpu = next((gpu for gpu in machine.gpus_of("nvidia") if gpu.usable), None)
        backend = (
            next((d for d in gpu.backends if d.library == "torch" and d.usable), None)
            if gpu
            else None
        )
        if gpu is None or backend is None:
            print("no GPU that torch can use: the training step is left out")
        else:
            rows += _training(machine, gpu, backend)
    return rows


def _sampling(machine: Machine, hardware: str) -> list[Row]:
    """CPU time of a process that only monitors, at one sample a second."""
    with Monitor(machine, 1.0) as monitor:
        time.sleep(3.2)  # the first samples open devices
        begin, before = time.process_time(), len(monitor.history("cpu"))
        time.sleep(WATCH_S)
        spent = time.process_time() - begin
        num_samples = len(monitor.history("cpu")) - before
    ours = 1000 * spent / max(1, num_samples)
    single = _single_samples(machine)
    spread = f"{1000 * min(single):.2g}-{1000 * max(single):.2g} of {len(single)} back to back"
    what = "CPU time a sample, 1 s apart"
    rows = [Row(what, ours, "ms", high=10.0, spread=spread)]
    for name, peer in _measure_peers(hardware):
        rows.append(Row(what, ours, "ms", peer, name))
    return rows


def _single_samples(machine: Machine) -> list[float]:
    monitor = Monitor(machine)
    times = []
    for _ in range(20):
        begin = time.process_time()
        monitor.sample()
        times.append(time.process_time() - begin)
    monitor.stop()
    return times[3:]


def _measure_peers(hardware: str) -> list[tuple[str, float]]:
    """Milliseconds of CPU for a sample, by peer."""
    found = []
    peers: list[tuple[str, Callable[[], float | None]]] = [("top -b", _top)]
    if hardware == "h200":
        peers = [("nvitop snapshots", _nvitop), ("nvidia-smi -l 1", _nvidia_smi)]
    for name, measure in peers:
        try:
            seconds = measure()
        except (OSError, ValueError, RuntimeError) as error:
            print(f"{name}: {error}")
            continue
        if seconds is not None:
            found.append((name, 1000 * seconds))
    return found


def _nvitop() -> float | None:
    if importlib.util.find_spec("nvitop") is None:
        print("nvitop is not installed: no peer")
        return None
    code = _NVITOP.format(count=int(PEER_S))
    return float(measure_command([sys.executable, "-c", code]).output)


def _nvidia_smi() -> float | None:
    words = "--query-gpu=utilization.gpu,memory.used,power.draw,temperature.gpu,clocks.sm".split()
    command = ["nvidia-smi", *words, "--format=csv", "-l", "1"]
    return _cpu_per_sample(command, PEER_S)


def _top() -> float | None:
    return _cpu_per_sample(["top", "-b", "-d", "1"], PEER_S)


def _cpu_per_sample(command: Sequence[str], seconds: float) -> float | None:
    """CPU seconds a sample of a program that samples once a second, its start included."""
    if shutil.which(command[0]) is None:
        print(f"{command[0]} is not installed: no peer")
        return None
    before = children_cpu_seconds()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as program:
        time.sleep(seconds)
        program.terminate()
        program.wait(10)
    return (children_cpu_seconds() - before) / seconds


def _live_view() -> list[Row]:
    """`anyrig top`: what forty more frames take, so that the start does not count."""
    try:
        import pty
    except ImportError:
        return []
    costs = []
    for count in (2, 2, 2, 42):  # a start costs as much as sixty frames, and varies
        ours, theirs = pty.openpty()
        before = children_cpu_seconds()
        with subprocess.Popen(
            [*ANYRIG, "top", "--count", str(count)],
            stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
            env=child_environment(TERM="xterm"),
        ) as program:  # fmt: skip
            os.close(theirs)
            _drain(ours)
            program.wait(60)
        os.close(ours)
        if program.returncode:
            raise RuntimeError(f"anyrig top ended with {program.returncode}")
        costs.append(children_cpu_seconds() - before)
    share = 100 * (costs[-1] - min(costs[:-1])) / 40
    return [Row("anyrig top, live, of one core", max(0.0, share), "%", high=2.0, low=0.001)]


def _drain(terminal: int) -> None:
    """Read until the other end closes."""
    while True:
        try:
            if not os.read(terminal, 65536):
                return
        except OSError:
            return


def _training(machine: Machine, gpu: Device, backend: DeviceBackend) -> list[Row]:
    """Seconds of a training step in turns: without the monitor, with it."""
    handle = open_device(gpu, backend)
    step = _gpt_step(handle.name)
    for _ in range(10):
        step()
    handle.synchronize()
    plain: list[float] = []
    watched: list[float] = []
    for _ in range(NUM_ROUNDS):
        plain.append(_round(step, handle.synchronize))
        with Monitor(machine, 1.0):
            watched.append(_round(step, handle.synchronize))
    ratios = sorted(b / a for a, b in zip(plain, watched, strict=True))
    return [
        Row("training step of a GPT-2 size model, watched at 1 s",
            1000 * statistics.median(watched), "ms", 1000 * statistics.median(plain),
            "the same without", high=1.01, judge="ratio",
            spread=f"ratios {ratios[0]:.4f}-{ratios[-1]:.4f} of {NUM_ROUNDS} pairs"),
    ]  # fmt: skip


def _round(step: Callable[[], None], wait: Callable[[], None]) -> float:
    """Mean seconds of a step: a median would hide a sample that disturbs one step in ten."""
    wait()
    begin, num_steps = time.perf_counter(), 0
    while time.perf_counter() - begin < ROUND_S:
        for _ in range(4):
            step()
        wait()
        num_steps += 4
    return (time.perf_counter() - begin) / num_steps


def _gpt_step(where: str) -> Callable[[], None]:
    """One step of a decoder of 124 million weights, 8 x 1024 tokens in bf16."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(768), nn.LayerNorm(768)
            self.mix, self.out = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
            self.wide = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

        def forward(self, x: Any) -> Any:
            size, length, width = x.shape
            parts = self.mix(self.first(x)).view(size, length, 3, 12, width // 12)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(size, length, width))
            return x + self.wide(self.second(x))

    embed = nn.Embedding(50304, 768)
    model = nn.Sequential(embed, *(Block() for _ in range(12)), nn.LayerNorm(768)).to(where)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=where.startswith("cuda"))
    tokens = torch.randint(0, 50304, (8, 1024), device=where)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(where.partition(":")[0], torch.bfloat16):
            logits = model(tokens) @ embed.weight.t()
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        optimiser.step()

    return step
