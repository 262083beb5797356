"""Small sysfs and proc trees on disk: the files are real, the cards are not."""

from __future__ import annotations

from pathlib import Path

from anyrig.devices.probe import LiveProbe, System


def write(root: Path, files: dict[str, str | int]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def system_of(root: Path) -> System:
    return System(LiveProbe(str(root)))


def open_gpu(root: Path, pid: int, fd: int, fdinfo: str) -> None:
    """A process that has a GPU open."""
    node = root / "dev/dri/renderD128"
    node.parent.mkdir(parents=True, exist_ok=True)
    node.touch()
    door = root / f"proc/{pid}/fd/{fd}"
    door.parent.mkdir(parents=True, exist_ok=True)
    if not door.is_symlink():
        door.symlink_to(node)
    write(root, {f"proc/{pid}/fdinfo/{fd}": fdinfo})
