"""The files of folders that are worth reading, in order; and what was passed over, and why.

Hidden files and what programs leave behind are not looked at. A file whose name says a format is
taken, whatever it holds: if that is a lie, its reader says so. Of the others a look inside tells
text from what no reader here knows, which is counted and not an error.

A link is followed where it leads to something inside the folder it was found in. One that leads
out of it is not, and is listed in `outside`; nor are the kernel's folders (/proc, /sys, /dev).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.text import files
from anyrig.text.formats import compressed, picture
from anyrig.text.labels import one_line

_JUNK = frozenset(
    "thumbs.db ehthumbs.db desktop.ini icon\r __pycache__ node_modules __macosx $recycle.bin"
    " lost+found".split(" ")
) | {"system volume information"}
_JUNK_STARTS = (".", "~$", ".~lock", "._")
_JUNK_ENDS = ("~", ".tmp", ".temp", ".part", ".partial", ".crdownload", ".download", ".swp",
              ".pyc", ".lock")  # fmt: skip
_HEAD_BYTES = 4096
_CONTROLS = frozenset((*range(7), *range(14, 27), *range(28, 32), 127))
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_KERNEL = ("/proc", "/sys", "/dev")
_NAMED = 3
LEADS_OUT = "a link that leads out of the folder"


@dataclass(frozen=True)
class Skipped:
    """Something that was passed over."""

    path: Path
    reason: str


@dataclass(frozen=True)
class FolderListing:
    """What is in some folders."""

    files: tuple[Path, ...] = ()
    """In order: by name within a folder, each once."""
    skipped: tuple[Skipped, ...] = ()
    """Files that no reader here knows; hidden ones and junk are not counted."""
    unreadable: tuple[Skipped, ...] = ()
    """Folders that could not be looked into, and files that the system does not show."""
    outside: tuple[Skipped, ...] = ()
    """Links that lead out of their folder, and folders of the kernel: not followed."""


def is_inside(path: Path | str, root: Path | str) -> bool:
    """Whether a path, after following all links, is a folder or lies in it."""
    try:
        there, top = os.path.realpath(path), os.path.realpath(root)
    except (OSError, ValueError):  # a null in its name
        return False
    return Path(there).is_relative_to(top)


def leads_out(path: Path, root: Path) -> bool:
    """Whether something found in a folder is a link (or behind one) to something outside it."""
    return not is_inside(path, root)


def not_followed(links: Sequence[Path]) -> list[str]:
    """A warning about links that lead out of their folder; none where there are none."""
    if not links:
        return []
    named = ", ".join(one_line(str(one), 80) for one in links[:_NAMED])
    more = f" and {len(links) - _NAMED} more" if len(links) > _NAMED else ""
    if len(links) == 1:
        return [f"a link that leads out of the folder was not followed: {named}"]
    return [f"{len(links)} links that lead out of the folder were not followed: {named}{more}"]


def find(
    places: Path | Sequence[Path], *, types: Collection[str] = (), hidden: bool = False
) -> FolderListing:
    """The files in folders and all below them; a file that is named itself is always taken.

    Args:
        places: folders and files; a folder that is reached twice, by a link or by name, is read
            once. Links that lead out of a folder are not followed.
        types: formats or endings (`pdf`, `.docx`, `picture`); all when empty.
        hidden: whether files and folders whose name begins with a dot are taken as well.
    """
    walk = _FolderWalk(parse_types(types), hidden)
    for place in [places] if isinstance(places, Path) else places:
        if os.path.isdir(place):
            walk.folder(place)
        else:
            walk.take(place)
    return FolderListing(
        tuple(walk.files), tuple(walk.skipped), tuple(walk.unreadable), tuple(walk.outside)
    )


def parse_types(types: Collection[str]) -> frozenset[str]:
    """Formats that were asked for, by whatever name."""
    made: set[str] = set()
    for each in types:
        word = each.strip().lower().removeprefix("*").removeprefix(".")
        by_name = files.guess_format(f"x.{word}")
        if word in ("picture", "pictures", "image", "images"):
            made.update(picture.FORMATS)
        elif by_name or word in files.FORMATS:
            made.add(by_name or word)
        else:
            known = ", ".join((*files.FORMATS, "picture"))
            raise InvalidInputError(
                f"there is no type {one_line(each, 40)!r}", hint=f"Valid types: {known}."
            )
    return frozenset(made)


class _FolderWalk:
    """A walk through folders: what was found so far."""

    def __init__(self, wanted: frozenset[str], hidden: bool) -> None:
        self.files: list[Path] = []
        self.skipped: list[Skipped] = []
        self.unreadable: list[Skipped] = []
        self.outside: list[Skipped] = []
        self._wanted = wanted
        self._hidden = hidden
        self._seen: set[tuple[int, int]] = set()
        self._taken: set[Path] = set()

    def take(self, path: Path) -> None:
        if path not in self._taken:
            self._taken.add(path)
            self.files.append(path)

    def folder(self, top: Path) -> None:
        """All of a folder, without recursion: paths may be deeper than Python's stack."""
        root = os.path.realpath(top)
        waiting = [top]
        while waiting:
            path = waiting.pop()
            if path is not top and (reason := _outside(path, root)):
                self.outside.append(Skipped(path, reason))
            elif os.path.isdir(path):  # `Path.is_dir` raises where nobody may look
                waiting += reversed(self._entries(path))
            else:
                self._judge(path)

    def _entries(self, folder: Path) -> list[Path]:
        """What is in a folder, by name; nothing if it was seen before."""
        try:
            status = folder.stat()
            key = (status.st_dev, status.st_ino)
            if key in self._seen:
                return []
            self._seen.add(key)
            names = sorted(os.listdir(folder))
        except OSError as error:
            self.unreadable.append(Skipped(folder, error.strerror or str(error)))
            return []
        return [folder / name for name in names if not self._is_junk(name)]

    def _is_junk(self, name: str) -> bool:
        low = name.lower()
        if low in _JUNK or low.endswith(_JUNK_ENDS) or low.startswith(_JUNK_STARTS[1:]):
            return True
        return low.startswith(".") and not self._hidden

    def _judge(self, path: Path) -> None:
        form = files.guess_format(path.name)
        if form and self._wanted and form not in self._wanted:
            return
        if not os.path.isfile(path):
            self._judge_other(path)
        elif form:
            self.take(path)
        else:
            self._look_inside(path)

    def _judge_other(self, path: Path) -> None:
        """Something that is not a regular file, or that the system does not show."""
        try:
            path.stat()
            self.skipped.append(Skipped(path, "not a regular file"))
        except OSError as error:
            if os.path.islink(path):
                self.skipped.append(Skipped(path, "a link that leads nowhere"))
            else:
                self.unreadable.append(Skipped(path, error.strerror or str(error)))

    def _look_inside(self, path: Path) -> None:
        """A file whose name says nothing."""
        try:
            form = files.detect_format(path)
            if form in ("txt", "gz") and not _is_text(path):
                self.skipped.append(Skipped(path, "of a kind that is not read here"))
                return
        except AnyrigError as error:
            self.skipped.append(Skipped(path, error.message))
            return
        except OSError:
            form = "txt"  # it may not be opened: its reader says so
        if not self._wanted or form in self._wanted:
            self.take(path)


def _outside(path: Path, root: str) -> str:
    """Why something found below a folder is not followed; empty where it is."""
    if _is_link(path):
        if not os.path.exists(path):
            return ""  # it leads nowhere, which is said of it later
        if leads_out(path, Path(root)):
            return LEADS_OUT
    elif str(path) not in _KERNEL:
        return ""
    # Only where the folder itself is above them, as `/` is.
    kernel = any(is_inside(path, one) and not is_inside(root, one) for one in _KERNEL)
    return "a folder of the kernel" if kernel else ""


def _is_link(path: Path) -> bool:
    return os.path.islink(path) or (hasattr(os.path, "isjunction") and os.path.isjunction(path))


def _is_text(path: Path) -> bool:
    """Whether the beginning of a file reads as text."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(compressed.MAGIC):
        head = compressed.read_head(path)
    if head.startswith(_WIDE):
        return True
    return bool(head.strip()) and sum(byte in _CONTROLS for byte in head) * 50 <= len(head)
