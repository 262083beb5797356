"""Classifiers that are kept: a folder for each name, in it one for each version, never a part.

    shelf.keep(folder, "bills", head)      bills@1
    shelf.open_(folder, "bills")           the newest; bills@1 that one

A version is two files: `head.npz`, plain arrays that run nothing when they are opened, and
`about.json`. The folder is made aside and takes its name when it is whole.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from anyrig.documents.classify.head import About, Head, Weights, digest
from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.files import make_folder, opener, write_atomic
from anyrig.version import __version__

_NAME = re.compile(r"[^\W_][\w.-]{0,63}")
_HEAD, _ABOUT, _LAST = "head.npz", "about.json", "last"


def parted(title: str) -> tuple[str, int | None]:
    """Name and version of `bills@3`; no version of `bills`."""
    name, at, number = title.partition("@")
    checked(name)
    if at and not (number.isascii() and number.isdigit() and int(number)):
        raise InvalidInputError(f"{title!r} has no valid version", hint="Example: bills@3.")
    return name, int(number) if at else None


def checked(name: str) -> str:
    """The name, if a folder may have it."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise InvalidInputError(
            f"{name!r} is not a valid classifier name",
            hint="Letters, digits, dots, dashes; it begins with a letter or a digit.",
        )
    return name


def versions(folder: Path, name: str) -> list[int]:
    """The versions that are kept under a name, the oldest first."""
    try:
        there = list((folder / name).iterdir())
    except OSError:
        return []
    return sorted(int(p.name) for p in there if p.name.isdigit() and (p / _ABOUT).is_file())


def kept(folder: Path) -> list[About]:
    """All that is kept and can be read, by name and version."""
    try:
        names = sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []
    return [about for name in names for about in _abouts(folder, name)]


def _abouts(folder: Path, name: str) -> Iterator[About]:
    for number in versions(folder, name):
        try:
            yield _about(folder / name / str(number))
        except StorageError:
            continue  # a damaged one is told of when it is asked for


def find(folder: Path, title: str) -> Path:
    """Where a classifier lies; InvalidInputError with the names that there are."""
    name, number = parted(title)
    there = versions(folder, name)
    if not there:
        names = sorted({about.name for about in kept(folder)})
        known = f"Valid names: {', '.join(names)}." if names else "There are none yet: "
        known += "" if names else "`anyrig classify train EXAMPLES --name NAME` makes one."
        raise InvalidInputError(f"classifier {name!r} not found", hint=known)
    if number is not None and number not in there:
        told = ", ".join(f"{name}@{one}" for one in there)
        raise InvalidInputError(f"classifier {title!r} not found", hint=f"Valid names: {told}.")
    return folder / name / str(number or there[-1])


def open_(folder: Path, title: str) -> Head:
    """A classifier, whole; StorageError when its files are not what was kept."""
    import numpy as np

    place = find(folder, title)
    about = _about(place)
    try:
        with np.load(place / _HEAD, allow_pickle=False) as arrays:
            weights = Weights(*(arrays[name] for name in Weights._fields))
    except Exception as error:  # noqa: BLE001 - numpy raises of many kinds on a damaged file
        raise _damaged(about.title, f"{type(error).__name__}: {error}") from error
    if digest(weights, about.labels, about.kind, about.fingerprint) != about.digest:
        raise _damaged(about.title, "its numbers are not those that were kept")
    return Head(about, weights)


def keep(folder: Path, name: str, head: Head) -> tuple[About, bool]:
    """Keep a classifier as the next version; whether it is new: the newest may be the same."""
    checked(name)
    there = versions(folder, name)
    if there:
        try:
            newest = _about(folder / name / str(there[-1]))
        except StorageError:
            newest = None
        if newest is not None and newest.digest == head.about.digest:
            return newest, False
    number = max([*there, _last(folder / name)]) + 1
    while True:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        about = replace(head.about, name=name, version=number, made=now, anyrig=__version__)
        if _put(folder / name / str(number), Head(about, head.weights)):
            return about, True
        number += 1  # another process was faster


def _put(place: Path, head: Head) -> bool:
    """Write both files aside and give the folder its name; False when that is taken."""
    import numpy as np

    aside = place.parent / f".{place.name}.{secrets.token_hex(6)}"
    make_folder(aside)
    try:
        with open(aside / _HEAD, "wb", opener=opener) as file:
            np.savez(file, **head.weights._asdict())
            file.flush()
            os.fsync(file.fileno())
        text = json.dumps(asdict(head.about), indent=1, ensure_ascii=False)
        write_atomic(aside / _ABOUT, text + "\n")
        if place.exists():
            return False
        os.rename(aside, place)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if place.exists():
            return False
        raise StorageError(
            f"the classifier cannot be saved in {place.parent}: {error.strerror or error}",
            hint="Check the disk's space and the folder's permissions.",
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def delete(folder: Path, title: str) -> list[About]:
    """Delete a version, or all of a name; what was deleted. Their numbers are not given again."""
    name, number = parted(title)
    find(folder, title)
    numbers = versions(folder, name) if number is None else [number]
    gone = []
    write_atomic(folder / name / _LAST, str(max([_last(folder / name), *versions(folder, name)])))
    for one in numbers:
        place = folder / name / str(one)
        try:
            gone.append(_about(place))
        except StorageError:
            gone.append(_unread(name, one))
        aside = place.parent / f".{one}.{secrets.token_hex(6)}"
        os.rename(place, aside)
        shutil.rmtree(aside, ignore_errors=True)
    return gone


def _last(place: Path) -> int:
    """The highest number that was ever given, as far as is known."""
    try:
        return int((place / _LAST).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _unread(name: str, number: int) -> About:
    return About((), "one", "", "", 0, 0, {}, 0.0, False, name=name, version=number)


def _about(place: Path) -> About:
    title = f"{place.parent.name}@{place.name}"
    try:
        data: dict[str, Any] = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
        known = {field.name for field in fields(About)}
        data = {key: value for key, value in data.items() if key in known}
        data["labels"] = tuple(map(str, data["labels"]))
        return About(**{**data, "name": place.parent.name, "version": int(place.name)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(title, str(error)) from error


def _damaged(title: str, said: str) -> StorageError:
    return StorageError(
        f"the classifier {title} is damaged: {said}",
        hint=f"`anyrig classify delete {title}`, then train it again.",
    )
