from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from anyrig.results import fields_to_json, in_json, to_json


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


class Box(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True)
class Part:
    title: str
    length_s: float = field(default=0.0, metadata=in_json(digits=2))
    spread_s: tuple[float, float] | None = field(default=None, metadata=in_json(digits=1))
    rates: Mapping[str, float] = field(default_factory=dict, metadata=in_json(digits=1))
    is_spoken: bool = field(default=True, metadata=in_json("spoken"))
    digest: str = field(default="", metadata=in_json(omit=True))
    report: str | None = field(default=None, metadata=in_json(omit_empty=True))


@dataclass(frozen=True)
class Whole:
    json_properties: ClassVar = {"event": "kind", "count": "num_parts"}
    kind: ClassVar = "begin"
    parts: tuple[Part, ...]

    @property
    def num_parts(self) -> int:
        return len(self.parts)


@dataclass(frozen=True)
class Custom:
    name: str

    def to_json(self) -> dict[str, Any]:
        return {**fields_to_json(self), "more": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None), (True, True), (3, 3), ("a", "a"), (1.23456, 1.23456),
        (float("nan"), None), (float("inf"), None),
        (Path("a/b"), str(Path("a/b"))), (Colour.RED, "red"), (Level.HIGH, 3),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        ((1, [2, (3,)]), [1, [2, [3]]]), (Box(1, 2), {"left": 1, "right": 2}),
        ({Colour.RED: Path("a"), 2: (None,)}, {"red": "a", "2": [None]}),
    ],
)  # fmt: skip
def test_values(value: object, expected: object) -> None:
    assert to_json(value) == expected
    assert type(to_json(value)) is type(expected)


def test_a_field_can_have_another_name_be_rounded_and_be_left_out() -> None:
    part = Part("one", 1.23456, (0.123, 0.456), {"cuda:0": 3.14159}, False, "secret", "r.html")
    assert to_json(part) == {
        "title": "one", "length_s": 1.23, "spread_s": [0.1, 0.5], "rates": {"cuda:0": 3.1},
        "spoken": False, "report": "r.html",
    }  # fmt: skip
    assert to_json(Part("two")) == {
        "title": "two", "length_s": 0.0, "spread_s": None, "rates": {}, "spoken": True,
    }  # fmt: skip


def test_properties_and_nested_values() -> None:
    data = to_json(Whole((Part("one"),)))
    assert data["event"] == "begin"
    assert data["count"] == 1
    assert data["parts"] == [to_json(Part("one"))]
    json.dumps(data, allow_nan=False)


def test_a_method_decides_about_its_class() -> None:
    assert to_json([Custom("a")]) == [{"name": "a", "more": 1}]


def test_an_unknown_object_is_an_error() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json({"a": object()})
