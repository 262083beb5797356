"""What a profile comes to on a device: format, share of memory, batch, and hints for training.

Pure functions of a machine and figures; `anyrig devices --profiles` prints `profile_table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anyrig.devices.machine import BackendName, Device, DeviceBackend, Machine, Precision
from anyrig.precision.choose import USUAL, Chosen, choose
from anyrig.precision.presets import PRESETS, Preset, Profile, When, preset
from anyrig.units import format_bytes

HEADER = ("device", "profile", "format", "memory", "batch", "why")


@dataclass(frozen=True)
class Resolved:
    """A profile on a device."""

    profile: Profile
    chosen: Chosen
    memory_fraction: float
    """The share of the device's memory that work may fill."""
    memory_bytes: int | None
    """The same in bytes, where the device's memory is known."""
    batch_speed: float
    """The smallest batch is taken that keeps this share of the best speed."""
    checkpointing: When
    offload: When

    @property
    def precision(self) -> Precision:
        """The number format to work in."""
        return self.chosen.precision


def resolve(
    profile: Profile,
    device: Device,
    drive: DeviceBackend,
    allowed: Sequence[Precision] = USUAL,
    speeds: Mapping[Precision, float] | None = None,
    *,
    asked: str = "auto",
    failed: Mapping[Precision, str] | None = None,
    training: bool = False,
) -> Resolved:
    """What a profile comes to for a model on a device. The arguments are those of `choose`."""
    wanted = preset(profile)
    chosen = choose(
        device, drive, allowed,
        asked=asked, profile=profile, speeds=speeds, failed=failed, training=training,
    )  # fmt: skip
    share = _share(wanted, device)
    total = device.memory.total_bytes
    return Resolved(
        profile,
        chosen,
        share,
        int(total * share) if total is not None else None,
        wanted.batch,
        wanted.checkpointing,
        _offload(wanted, device),
    )


def _shares_memory(device: Device) -> bool:
    return device.kind == "cpu" or device.memory.kind == "unified"


def _share(wanted: Preset, device: Device) -> float:
    return wanted.memory_shared if _shares_memory(device) else wanted.memory


def _offload(wanted: Preset, device: Device) -> When:
    """Moving state to the host's memory frees nothing where both are the same."""
    return "never" if _shares_memory(device) else wanted.offload


def describe(resolved: Resolved) -> str:
    """A resolved profile in one sentence."""
    room = f"{resolved.memory_fraction:.0%} of memory"
    if resolved.memory_bytes is not None:
        room += f" ({format_bytes(resolved.memory_bytes)})"
    return (
        f"{resolved.profile}: {resolved.precision} ({resolved.chosen.reason}), {room}, "
        f"{_batch_text(resolved.batch_speed)}; in training, checkpointing "
        f"{resolved.checkpointing}, offload {resolved.offload}"
    )


def _batch_text(keep: float) -> str:
    if keep >= 1.0:
        return "the fastest batch"
    return f"the smallest batch at {keep:.0%} of full speed"


def profile_table(
    machine: Machine,
    *,
    allowed: Sequence[Precision] = USUAL,
    speeds: Mapping[str, Mapping[tuple[BackendName, Precision], float]] | None = None,
    failed: Mapping[str, Mapping[Precision, str]] | None = None,
    training: bool = False,
) -> list[tuple[str, ...]]:
    """Every profile on every usable device, as rows of text under `HEADER`.

    Args:
        machine: the devices.
        allowed: what the model bears, its author's best first.
        speeds: measured FLOP/s by device id, then by backend and format.
        failed: what the self-test found, by device id, then by format.
        training: whether gradients will flow.
    """
    rows: list[tuple[str, ...]] = []
    for device, drive in _driven(machine):
        known = (speeds or {}).get(device.id, {})
        mine = {p: value for (backend, p), value in known.items() if backend == drive.backend}
        for name in PRESETS:
            found = resolve(
                name, device, drive, allowed, mine,
                failed=(failed or {}).get(device.id), training=training,
            )  # fmt: skip
            rows.append(_row(device, drive, found))
    return rows


def _driven(machine: Machine) -> Iterator[tuple[Device, DeviceBackend]]:
    """Each usable device with the drive that training and most engines would take."""
    for device in machine.devices:
        ready = [drive for drive in device.backends if drive.usable and not device.blocked]
        if ready:
            yield device, next((d for d in ready if d.backend == "torch"), ready[0])


def _row(device: Device, drive: DeviceBackend, found: Resolved) -> tuple[str, ...]:
    room = f"{found.memory_fraction:.0%}"
    if found.memory_bytes is not None:
        room += f", {format_bytes(found.memory_bytes)}"
    batch = "fastest" if found.batch_speed >= 1 else f"{found.batch_speed:.0%} of speed"
    name = f"{device.name} ({drive.backend})"
    return (name, found.profile, found.precision, room, batch, found.chosen.reason)


def presets_table() -> list[tuple[str, ...]]:
    """What each profile asks for before it meets a device: name, sentence, training hints."""
    return [
        (name, row.says, f"checkpointing {row.checkpointing}, offload {row.offload}")
        for name, row in PRESETS.items()
    ]
