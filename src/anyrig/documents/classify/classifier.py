"""Trained classifiers: what one tells, and how it is saved.

    save_classifier(folder, "bills", head)     bills@1
    open_classifier(folder, "bills")           the newest; bills@1 that one

There is a folder for each name, in it one for each version, never a part. A version is two files:
`head.npz`, plain arrays that run nothing when they are opened, and `about.json`. The folder is made
aside and takes its name when it is whole.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.classify.figures import Array, Kind, probabilities
from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.files import make_folder, opener, write_atomic
from anyrig.version import __version__

_NAME = re.compile(r"[^\W_][\w.-]{0,63}")
_HEAD, _ABOUT, _LAST = "head.npz", "about.json", "last"


@dataclass(frozen=True)
class ClassifierRecord:
    """What is known of a classifier without opening it."""

    labels: tuple[str, ...]
    kind: Kind
    embedding: str
    """The model whose vectors it takes."""
    fingerprint: str
    """Of that model: no other's vectors will do."""
    dimension: int
    num_examples: int
    counts: Mapping[str, int]
    """Examples of each label."""
    strength: float
    calibrated: bool
    """Whether its probabilities were fitted to examples that it had not seen."""
    figures: Mapping[str, Any] | None = None
    """What cross-validation found; None where no example could be spared."""
    word: str = ""
    """What that model is found by: a name, or a folder."""
    prior: str = "even"
    """How common each label is taken to be: all alike, or as among the examples."""
    passages: str = "mean"
    """What stands for a long text: the mean of its passages' vectors."""
    name: str = ""
    version: int = 0
    made: str = ""
    anyrig: str = ""
    rejects: bool = False
    """Whether `none of these` is an answer by default; it is none in files of 0.1.0."""
    digest: str = ""
    """Of all that it computes with: the same examples give the same."""

    @property
    def title(self) -> str:
        """`bills@3`."""
        return f"{self.name}@{self.version}"


class HeadWeights(NamedTuple):
    """All numbers of a head, in float32 as they are kept."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    slope: NDArray[np.float32]
    shift: NDArray[np.float32]
    centres: NDArray[np.float32]
    """The mean of each label's examples, at length 1."""
    reach: NDArray[np.float32]
    """The least cosine to a label's centre that a text of its kind has."""


@dataclass(frozen=True)
class TrainedHead:
    """A trained classifier."""

    about: ClassifierRecord
    weights: HeadWeights = field(repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Their names."""
        return self.about.labels

    @property
    def kind(self) -> Kind:
        """Whether a text has one of them, or any number."""
        return self.about.kind

    @property
    def calibrated(self) -> bool:
        """Whether its probabilities hold on examples that it had not seen."""
        return self.about.calibrated

    @property
    def rejects(self) -> bool:
        """Whether its reach was made to lose few texts of its kinds."""
        return self.about.rejects

    def predict_proba(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector."""
        its = self.weights
        scores = vectors @ its.weights.T.astype(np.float64) + its.bias
        return probabilities(scores * its.slope + its.shift, self.kind)

    def is_near(self, vectors: Array) -> Array:
        """Whether each text is as close to each label's examples as these are to each other."""
        found: Array = (vectors @ self.weights.centres.T >= self.weights.reach).astype(np.float64)
        return found


def digest_weights(
    weights: HeadWeights, labels: tuple[str, ...], kind: Kind, fingerprint: str
) -> str:
    """One name for all that a head computes with."""
    found = hashlib.sha256(repr((labels, kind, fingerprint)).encode())
    for part in weights:
        found.update(repr(part.shape).encode())
        found.update(part.tobytes())
    return found.hexdigest()


# -- saved classifiers -----------------------------------------------------------------------------


def split_title(title: str) -> tuple[str, int | None]:
    """Name and version of `bills@3`; no version of `bills`."""
    name, at, number = title.partition("@")
    validate_name(name)
    if at and not (number.isascii() and number.isdigit() and int(number)):
        raise InvalidInputError(f"{title!r} has no valid version", hint="Example: bills@3.")
    return name, int(number) if at else None


def validate_name(name: str) -> str:
    """The name, if a folder may have it."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise InvalidInputError(
            f"{name!r} is not a valid classifier name",
            hint="Letters, digits, dots, dashes; it begins with a letter or a digit.",
        )
    return name


def list_versions(folder: Path, name: str) -> list[int]:
    """The saved versions of a name, the oldest first."""
    try:
        there = list((folder / name).iterdir())
    except OSError:
        return []
    return sorted(int(p.name) for p in there if p.name.isdigit() and (p / _ABOUT).is_file())


def list_classifiers(folder: Path) -> list[ClassifierRecord]:
    """All that can be read, by name and version."""
    try:
        names = sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []
    return [about for name in names for about in _read_versions(folder, name)]


def _read_versions(folder: Path, name: str) -> Iterator[ClassifierRecord]:
    for number in list_versions(folder, name):
        try:
            yield _read_about(folder / name / str(number))
        except StorageError:
            continue  # reported when it is opened


def find_version(folder: Path, title: str) -> Path:
    """Where a classifier lies; InvalidInputError with the names that there are."""
    name, number = split_title(title)
    there = list_versions(folder, name)
    if not there:
        names = sorted({about.name for about in list_classifiers(folder)})
        known = f"Valid names: {', '.join(names)}." if names else "There are none yet: "
        known += "" if names else "`anyrig classify train EXAMPLES --name NAME` makes one."
        raise InvalidInputError(f"classifier {name!r} not found", hint=known)
    if number is not None and number not in there:
        valid = ", ".join(f"{name}@{one}" for one in there)
        raise InvalidInputError(f"classifier {title!r} not found", hint=f"Valid names: {valid}.")
    return folder / name / str(number or there[-1])


def open_classifier(folder: Path, title: str) -> TrainedHead:
    """A classifier, whole; StorageError where its files are damaged."""
    place = find_version(folder, title)
    about = _read_about(place)
    try:
        with np.load(place / _HEAD, allow_pickle=False) as arrays:
            weights = HeadWeights(*(arrays[name] for name in HeadWeights._fields))
    except Exception as error:  # noqa: BLE001 - numpy raises of many kinds on a damaged file
        raise _build_damaged_error(about.title, f"{type(error).__name__}: {error}") from error
    if digest_weights(weights, about.labels, about.kind, about.fingerprint) != about.digest:
        raise _build_damaged_error(about.title, "its numbers are not those that were saved")
    return TrainedHead(about, weights)


def save_classifier(folder: Path, name: str, head: TrainedHead) -> tuple[ClassifierRecord, bool]:
    """Save a classifier as the next version; whether it is new: the newest may be the same."""
    validate_name(name)
    there = list_versions(folder, name)
    if there:
        try:
            newest = _read_about(folder / name / str(there[-1]))
        except StorageError:
            newest = None
        if newest is not None and newest.digest == head.about.digest:
            return newest, False
    number = max([*there, _read_last_number(folder / name)]) + 1
    while True:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        about = replace(head.about, name=name, version=number, made=now, anyrig=__version__)
        if _write(folder / name / str(number), TrainedHead(about, head.weights)):
            return about, True
        number += 1  # another process was faster


def _write(place: Path, head: TrainedHead) -> bool:
    """Write both files aside and give the folder its name; False when that is taken."""
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


def delete_versions(folder: Path, title: str) -> list[ClassifierRecord]:
    """Delete a version, or all of a name; what was deleted. Their numbers are not given again."""
    name, number = split_title(title)
    find_version(folder, title)
    numbers = list_versions(folder, name) if number is None else [number]
    gone = []
    write_atomic(
        folder / name / _LAST,
        str(max([_read_last_number(folder / name), *list_versions(folder, name)])),
    )
    for one in numbers:
        place = folder / name / str(one)
        try:
            gone.append(_read_about(place))
        except StorageError:
            gone.append(_describe_unread(name, one))
        aside = place.parent / f".{one}.{secrets.token_hex(6)}"
        os.rename(place, aside)
        shutil.rmtree(aside, ignore_errors=True)
    return gone


def _read_last_number(place: Path) -> int:
    """The highest number that was ever given, as far as is known."""
    try:
        return int((place / _LAST).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _describe_unread(name: str, number: int) -> ClassifierRecord:
    return ClassifierRecord((), "one", "", "", 0, 0, {}, 0.0, False, name=name, version=number)


def _read_about(place: Path) -> ClassifierRecord:
    title = f"{place.parent.name}@{place.name}"
    try:
        data: dict[str, Any] = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
        known = {field.name for field in fields(ClassifierRecord)}
        data = {key: value for key, value in data.items() if key in known}
        data["labels"] = tuple(map(str, data["labels"]))
        return ClassifierRecord(**{**data, "name": place.parent.name, "version": int(place.name)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _build_damaged_error(title, str(error)) from error


def _build_damaged_error(title: str, reason: str) -> StorageError:
    return StorageError(
        f"the classifier {title} is damaged: {reason}",
        hint=f"`anyrig classify delete {title}`, then train it again.",
    )
