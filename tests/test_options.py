"""Options that are defined once, and results as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import pytest

from anyrig.app import batch, books, speech
from anyrig.cli.flags import add_flags, read_flags
from anyrig.errors import InvalidInputError, InvalidOptionError, Message, OptionRef, render
from anyrig.options import (
    Request,
    json_schema,
    list_options,
    option,
    request_from_json,
    request_to_json,
)
from anyrig.results import fields_to_json, in_json, to_json


@dataclass(frozen=True, kw_only=True)
class VoiceOptions(Request):
    """The voice."""

    voice: str = option("", "which voice")
    rate: float = option(1.0, "speaking rate", ge=0.25, le=4, setting="speech.rate")
    set: Mapping[str, Any] = option({}, "an option of the engine")


@dataclass(frozen=True, kw_only=True)
class BookRequest(VoiceOptions):
    """The book."""

    file: Path = option(help="the book", positional=True, upload=True, metavar="FILE")
    output: Path | None = option(None, "where it goes", short="-o", http=False)
    notes: Literal["skip", "inline", "end"] = option("skip", "footnotes")
    chapters: tuple[int, ...] = option((), "which chapters", gt=0)
    read_along: bool = option(False, "an EPUB too")
    memory_gb: float | None = option(None, "no more than this", gt=0, unit="GiB")
    seed: int = option(0, "for another take", ge=0)


def parse(*words: str) -> BookRequest:
    parser = argparse.ArgumentParser()
    add_flags(parser, BookRequest)
    return BookRequest(**read_flags(parser.parse_args(words), BookRequest))


def test_flags() -> None:
    request = parse(
        "a.epub", "-o", "a.m4b", "--rate", "1.5", "--notes", "end", "--chapters", "1,2",
        "--chapters=5", "--read-along", "--set", "noise=0.5", "--set", "mode=a=b",
    )  # fmt: skip
    assert request == BookRequest(
        file=Path("a.epub"), output=Path("a.m4b"), rate=1.5, notes="end", chapters=(1, 2, 5),
        read_along=True, set={"noise": "0.5", "mode": "a=b"},
    )  # fmt: skip


def test_flags_that_are_not_given_are_left_to_settings_and_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, BookRequest)
    assert read_flags(parser.parse_args(["a.epub"]), BookRequest) == {"file": Path("a.epub")}


def test_flags_are_grouped_by_the_class_that_defines_them() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, BookRequest)
    text = parser.format_help().partition("options:")[2]
    assert text.index("The voice:") < text.index("--rate")
    assert "speaking rate" in text


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("rate", 9, "a number between 0.25 and 4"),
        ("rate", "fast", "a number between 0.25 and 4"),
        ("rate", True, "a number between 0.25 and 4"),
        ("rate", float("nan"), "a number between 0.25 and 4"),
        ("rate", 10**400, "a number between 0.25 and 4"),
        ("notes", "all", "one of skip, inline, end"),
        ("chapters", [0], "a whole number greater than 0"),
        ("chapters", {"a": 1}, "a whole number greater than 0"),
        ("read_along", 1, "true or false"),
        ("memory_gb", 0, "a number greater than 0 GiB"),
        ("seed", -1, "a whole number of at least 0"),
        ("file", "a\0b", "a path"),
        ("set", ["a=b"], "an object of texts and numbers"),
        ("set", {"a": [1]}, "an object of texts and numbers"),
        ("voice", None, "text"),
    ],
)
def test_wrong_values_are_refused_however_a_request_is_built(
    name: str, value: Any, accepted: str
) -> None:
    given = {"file": "a.epub", name: value}
    with pytest.raises(InvalidOptionError) as caught:
        BookRequest(**given)
    assert caught.value.option == name
    assert str(caught.value).startswith(f"`{name}` must be {accepted}")
    with pytest.raises(InvalidOptionError):
        request_from_json(BookRequest, given)


def test_an_error_spells_the_option_as_its_reader_types_it() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        BookRequest(file=Path("a"), memory_gb=0)
    message = caught.value.message
    assert render(message, "command").startswith("--memory-gb must be")
    assert render(message, "http").startswith("`memory_gb` must be")
    hint = Message("Pass {ocr}.", ocr=OptionRef("ocr", "never"))
    assert render(hint, "command") == "Pass --ocr never."
    assert render(hint, "http") == 'Pass "ocr": "never".'
    assert render(hint, "python") == 'Pass ocr="never".'
    assert render("{a}.pdf --x", "command") == "{a}.pdf --x"


@pytest.mark.parametrize("request_class", [speech.SpeechRequest, batch.BatchRequest,
                                           books.BookRequest])  # fmt: skip
def test_a_wrong_value_of_any_option_comes_with_a_hint(request_class: type) -> None:
    for name, one in list_options(request_class).items():
        with pytest.raises(InvalidOptionError) as caught:
            one.check([object()])
        assert f"`{name}`: " in caught.value.hint
        assert (one.help or one.describe_accepted()) in caught.value.hint


def test_json_and_back() -> None:
    request = BookRequest(file=Path("/a.epub"), chapters=(1, 2), memory_gb=2, set={"a": 1})
    data = request_to_json(request)
    assert data == {"file": "/a.epub", "chapters": [1, 2], "memory_gb": 2.0, "set": {"a": 1}}
    assert request_from_json(BookRequest, data) == request


def test_unknown_and_missing_names() -> None:
    with pytest.raises(InvalidInputError, match="unknown option 'voise'") as caught:
        request_from_json(BookRequest, {"file": "a", "voise": "x"})
    assert caught.value.hint.startswith("Did you mean 'voice'?")
    with pytest.raises(InvalidOptionError, match="`file` is required"):
        request_from_json(BookRequest, {})


def test_json_schema() -> None:
    schema = json_schema(BookRequest, http=True)
    assert schema["required"] == ["file"]
    assert "output" not in schema["properties"]
    assert schema["properties"]["file"]["pattern"].startswith("^upload:")
    assert schema["properties"]["rate"] == {
        "type": "number", "minimum": 0.25, "maximum": 4, "default": 1.0,
        "description": "speaking rate",
    }  # fmt: skip
    assert schema["properties"]["notes"]["enum"] == ["skip", "inline", "end"]


def test_settings_are_named() -> None:
    keys = {one.setting: name for name, one in list_options(BookRequest).items() if one.setting}
    assert keys == {"speech.rate": "rate"}


def test_a_home_that_does_not_exist_is_no_crash() -> None:
    @dataclass(frozen=True, kw_only=True)
    class FolderRequest(Request):
        folder: Path = option(help="a folder")

    assert FolderRequest(folder="~nobody-at-all/x").folder == Path("~nobody-at-all/x")  # type: ignore[arg-type]


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
