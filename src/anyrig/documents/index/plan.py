"""What has changed in a folder since it was indexed: by size and time first, then by content.

A file whose size and time are those that the index has is not opened. One that was changed within
two seconds of the look at it may have been changed again without a sign, as file systems keep time
in steps; it is opened again, and left if its content is the same. A time in the future is as good
as any: whoever writes the file again changes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from anyrig.documents.index.db import FailureReason, Known, Stamp, is_under
from anyrig.errors import InvalidInputError
from anyrig.text.folder import Skipped

_TICK_S = 2.0
NO_OCR = "without"
"""The way of reading where OCR was wanted and is not installed."""


@dataclass(frozen=True)
class RootListing:
    """What lies in a folder."""

    files: tuple[Path, ...]
    unseen: tuple[Skipped, ...] = ()
    """What could not be looked at: its files are not taken for deleted."""
    is_partial: bool = False
    """Whether some files were left out: what is not listed may be there still."""
    others: tuple[Path, ...] = ()
    """Files of kinds that are not read."""
    outside: tuple[Path, ...] = ()
    """Links that lead out of the folder: not followed."""


ListFiles = Callable[[Path], RootListing]
"""The files of a folder, or a file alone."""


@dataclass(frozen=True)
class Unseen:
    """A folder or file that could not be looked at."""

    path: Path
    reason: str
    num_files: int
    """Files of the index in it, which are kept."""


@dataclass(frozen=True)
class UpdatePlan:
    """What is to be done."""

    stamps: tuple[Stamp, ...]
    """New and changed files."""
    gone: tuple[bytes, ...]
    """Files that the index has and the disk has not."""
    seen: float
    """When the files were looked at."""
    num_same: int = 0
    num_excluded: int = 0
    old_errors: tuple[Known, ...] = ()
    """Files that could not be read before and have not changed since."""
    unseen: tuple[Unseen, ...] = ()
    found: dict[bytes, Stamp] = field(default_factory=dict)
    """All files as they were seen."""
    others: tuple[Path, ...] = ()
    """Files of kinds that are not read."""
    outside: tuple[Path, ...] = ()
    """Links that lead out of their folder: not followed."""


def resolve_path(path: Path) -> bytes:
    """A path as the index names it: absolute, links in it followed, so that it has one name."""
    try:
        return os.fsencode(path.expanduser().resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is not a valid path: {error}", hint="Name a folder."
        ) from error


def stamp_files(files: Iterable[Path]) -> tuple[list[Stamp], list[Skipped]]:
    """The files with size and time, sorted, each once, without those that are gone meanwhile; and
    those that the system does not let us look at.
    """
    found: dict[bytes, Stamp] = {}
    unseen = []
    for file in files:
        try:
            path = os.fsencode(file.absolute())
            state = os.stat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError as error:
            unseen.append(Skipped(file, error.strerror or str(error)))
            continue
        found[path] = Stamp(path, state.st_size, state.st_mtime_ns)
    return [found[path] for path in sorted(found)], unseen


def build_plan(
    roots: Sequence[bytes],
    list_files: ListFiles,
    known: Mapping[bytes, Known],
    excluded: Sequence[bytes],
    *,
    how: str,
    retry: bool = False,
    wait_for: Mapping[bytes, Stamp] | None = None,
) -> UpdatePlan:
    """What has to be read and what to be forgotten.

    Args:
        roots: the folders.
        list_files: of a folder.
        known: what the index has.
        excluded: what is left out.
        how: the way files are read now; files that another way may read better are read again.
        retry: also those that could not be read, or not wholly.
        wait_for: what the last look found; a file that differs from it is still being written.
    """
    seen = time.time()
    listings = [list_files(Path(os.fsdecode(root))) for root in roots]
    stamps, unseen = stamp_files(file for found in listings for file in found.files)
    unseen += [one for found in listings for one in found.unseen]
    unseen = [one for one in unseen if not _is_deleted_file(one.path, known)]
    there = {stamp.path for stamp in stamps}
    kept = [stamp for stamp in stamps if not is_under(stamp.path, excluded)]
    todo = [one for one in kept if _has_changed(one, known.get(one.path), how, retry)]
    if wait_for is not None:
        todo = [stamp for stamp in todo if wait_for.get(stamp.path) == stamp]
    hidden = [os.fsencode(one.path.absolute()) for one in unseen]
    is_partial = any(found.is_partial for found in listings)
    gone = [
        path for path in known
        if is_under(path, roots) and not is_under(path, hidden)
        and (is_under(path, excluded) or _is_gone(path, there, is_partial))
    ]  # fmt: skip
    chosen = {stamp.path for stamp in todo}
    errors = [
        known[stamp.path]
        for stamp in kept
        if stamp.path not in chosen and stamp.path in known and known[stamp.path].error
    ]
    return UpdatePlan(
        tuple(todo), tuple(gone), seen, num_same=len(kept) - len(todo) - len(errors),
        num_excluded=len(stamps) - len(kept), old_errors=tuple(errors),
        unseen=tuple(_count_files(unseen, known)),
        found={stamp.path: stamp for stamp in stamps},
        others=tuple(dict.fromkeys(file for found in listings for file in found.others)),
        outside=tuple(dict.fromkeys(link for found in listings for link in found.outside)),
    )  # fmt: skip


def _is_deleted_file(path: Path, known: Mapping[bytes, Known]) -> bool:
    """Whether it is a file of the index that was deleted: its folder is there, and it is not."""
    if os.fsencode(path.absolute()) not in known:
        return False
    try:
        os.stat(path)
    except FileNotFoundError:
        return os.path.isdir(path.parent)
    except OSError:
        pass
    return False


def _count_files(unseen: Iterable[Skipped], known: Mapping[bytes, Known]) -> Iterator[Unseen]:
    for one in {one.path: one for one in unseen}.values():
        folder = [os.fsencode(one.path.absolute())]
        num_files = sum(is_under(path, folder) for path in known)
        if num_files or not _is_absent(one.path):
            yield Unseen(one.path, one.reason, num_files)


def _is_absent(path: Path) -> bool:
    """Whether it is an empty folder, or missing from a folder that is there."""
    try:
        return not os.listdir(path)
    except FileNotFoundError:
        return os.path.isdir(path.parent)
    except OSError:
        return False


def _is_gone(path: bytes, there: Set[bytes], is_partial: bool) -> bool:
    return path not in there and not (is_partial and os.path.exists(path))


def _has_changed(stamp: Stamp, before: Known | None, how: str, retry: bool) -> bool:
    if before is None or before.stamp != stamp:
        return True
    if abs(stamp.mtime_ns / 1e9 - before.seen) < _TICK_S:
        return True
    if before.error or before.content is None:
        return retry or (how not in ("never", NO_OCR) and before.reason is FailureReason.NO_OCR)
    if retry and before.num_unread:
        return True
    if how == NO_OCR:  # what OCR read when it was there is better than nothing
        return False
    read_by = before.digest.rpartition(" ")[2]
    pictures = before.num_ocr or before.num_unread
    return read_by != how and bool(pictures or "always" in (read_by, how))
