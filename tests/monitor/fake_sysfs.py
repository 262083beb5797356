"""Small sysfs and proc trees on disk for cards that do not exist, and a process table."""

from __future__ import annotations

from pathlib import Path

from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.monitor.processes import ProcessTable


def write_files(root: Path, files: dict[str, str | int]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def system_of(root: Path) -> HostProbe:
    return HostProbe(LiveProbe(str(root)))


def open_gpu(root: Path, pid: int, fd: int, fdinfo: str) -> None:
    """Let a process have a GPU open."""
    node = root / "dev/dri/renderD128"
    node.parent.mkdir(parents=True, exist_ok=True)
    node.touch()
    link = root / f"proc/{pid}/fd/{fd}"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(node)
    write_files(root, {f"proc/{pid}/fdinfo/{fd}": fdinfo})


def process_table(*ours: int, all_visible: bool = True) -> ProcessTable:
    table = ProcessTable(lambda: frozenset(ours))
    table.all_visible = all_visible
    table.refresh()
    return table
