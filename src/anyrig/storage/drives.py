"""Whether a path lies on a network drive, where SQLite's write-ahead log must not be used.

The log is shared through memory, which two machines do not have in common; SQLite does not notice.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p afs ceph fuse.ceph glusterfs fuse.glusterfs lustre gpfs beegfs "
    "fuse.sshfs fuse.rclone fuse.s3fs fuse.gcsfuse fuse.goofys ncpfs davfs fuse.davfs2 drvfs "
    "vboxsf fuse.vmhgfs-fuse virtiofs prl_fs".split()
)
_DRIVE_REMOTE = 4


def network_drive(path: Path, mounts: str | None = None) -> str:
    """The kind of network drive that a path lies on; nothing for a disk of this machine.

    On macOS nothing is known, and the disk is taken to be this machine's.

    Args:
        path: a file or folder; it need not exist.
        mounts: the text of Linux' list of mounts, where it is not this machine's own.
    """
    if sys.platform == "win32":
        return _windows(path)
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    place = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if not after or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        # The last of several mounts on one point covers the others.
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split(" ")[0]
    return kind if kind in _REMOTE else ""


def _unescaped(text: str) -> str:
    r"""The list writes a space as \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _windows(path: Path) -> str:
    anchor = path.resolve().anchor
    if anchor.startswith("\\\\"):
        return "network share"
    import ctypes

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]  # Windows alone
    return "network drive" if kernel.GetDriveTypeW(anchor) == _DRIVE_REMOTE else ""
