"""Every field of a recorded machine matters: changing it changes the description; each is cited."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterator
from typing import Any

import pytest

from anyrig.devices.discover import from_record
from anyrig.devices.doctor import KernelResult, diagnose
from anyrig.devices.machine import machine_to_json
from tests.conftest import NAMES, record_of

Path = tuple[str | int, ...]
# Read for people, not for machines.
_UNREAD = ("format", "about", "cites")


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))
    else:
        yield path


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _broken(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The record with one value changed, in every way that suits its type."""
    changes: list[Any] = []
    old = _get(record, path)
    if isinstance(old, bool):
        changes = [not old]
    elif isinstance(old, int):
        changes = [old + 1, 0, old * 7 + 2**33]
    elif isinstance(old, str):
        changes = ["", "broken", old.replace("1", "7").replace("0", "3"), "0", "9" * 6]
    else:
        changes = [None, "broken"]
    for change in changes:
        if change != old:
            changed = copy.deepcopy(record)
            _get(changed, path[:-1])[path[-1]] = change
            yield changed
    removed = copy.deepcopy(record)
    del _get(removed, path[:-1])[path[-1]]
    yield removed


def _describe(record: dict[str, Any]) -> Any:
    machine = from_record(record)
    probes = [
        KernelResult(backend=key.split()[0], device=key.split()[1], **row)
        for key, row in record.get("probes", {}).items()
    ]
    return machine_to_json(machine), diagnose(machine, probes)


def test_every_field_matters(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            record = record_of(name)
            truth = _describe(record)
            idle = []
            for path in _leaves(record):
                if path[0] in _UNREAD:
                    continue
                if all(_describe(changed) == truth for changed in _broken(record, path)):
                    idle.append(".".join(map(str, path)))
            assert not idle, f"fields that change nothing: {idle}"


def test_every_field_cites_its_source(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            record = record_of(name)
            patterns = record["cites"]
            assert all(len(source) > 10 for source in patterns.values())
            uncited = []
            used: set[str] = set()
            for path in _leaves(record):
                if path[0] in _UNREAD:
                    continue
                text = ".".join(map(str, path))
                hits = [pattern for pattern in patterns if _matches(text, pattern)]
                used |= set(hits)
                if not hits:
                    uncited.append(text)
            assert not uncited, f"fields without a source: {uncited}"
            assert not set(patterns) - used, f"sources of nothing: {sorted(set(patterns) - used)}"


def _matches(text: str, pattern: str) -> bool:
    """Whether a field's path is the pattern's, or lies below it."""
    escaped = pattern.replace("**", "*").replace("[", "[[]")
    return fnmatch.fnmatchcase(text, escaped) or fnmatch.fnmatchcase(text, f"{escaped}.*")
