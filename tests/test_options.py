"""Options that are defined once, and what is derived from them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from anyrig.cli.flags import add_flags, read_flags
from anyrig.errors import InvalidInputError, InvalidOptionError, format_mentions, mention
from anyrig.options import (
    Request,
    json_schema,
    list_options,
    option,
    request_from_json,
    request_to_json,
)


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
    assert format_mentions(message, "command").startswith("--memory-gb must be")
    assert format_mentions(message, "http").startswith("`memory_gb` must be")
    hint = f"Pass {mention('ocr', 'never')}."
    assert format_mentions(hint, "command") == "Pass --ocr never."
    assert format_mentions(hint, "http") == 'Pass "ocr": "never".'
    assert format_mentions(hint, "python") == 'Pass ocr="never".'
    assert format_mentions("{a}.pdf --x", "command") == "{a}.pdf --x"


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
