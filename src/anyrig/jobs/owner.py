"""Who works on a job, and whether that process is certainly dead.

A lease that is not renewed is enough everywhere. On Linux a killed process is known at once: its
number is free, or belongs to one that began later. Numbers are compared only within one boot of one
machine and one namespace, as containers count their processes for themselves.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DEAD = ("Z", "X")


def mine() -> str:
    """A name for this process that no other ever has."""
    here = _here()
    began = _began(os.getpid())
    return "/".join((here, str(os.getpid()), began or "", secrets.token_hex(6)))


def dead(owner: str) -> bool:
    """Whether the process of that name is gone; False where that cannot be known."""
    parts = owner.split("/")
    if len(parts) != 4:
        return False
    here, pid, began, _ = parts
    if not here or here != _here() or not pid.isdecimal() or not began:
        return False
    return _began(int(pid)) != began


def _here() -> str:
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process began, in the kernel's own count; None for one that is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may hold spaces
    return None if fields[0] in _DEAD else fields[19]
