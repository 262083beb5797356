"""Keys: the same everywhere for the same parts, different for different ones."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError
from anyrig.storage.files import lock_file, read_versioned, write_atomic, write_versioned
from anyrig.storage.keys import CacheKey, make_key, make_key_function

_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
_PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
_PARTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), _PLAIN, max_size=4)


def _reorder(value: Any, chance: random.Random) -> Any:
    """The same value with every dict built in another order and every list a tuple."""
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {name: _reorder(inner, chance) for name, inner in items}
    if isinstance(value, list):
        return tuple(_reorder(inner, chance) for inner in value)
    return value


def _with_types(value: Any) -> Any:
    """The value with its types, to compare by: True is 1 to Python, and is not to us."""
    if isinstance(value, dict):
        return {name: _with_types(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_types(inner) for inner in value]
    return type(value).__name__, value


@given(_PARTS, st.randoms(use_true_random=False))
def test_the_order_of_names_does_not_matter(parts: dict[str, Any], chance: random.Random) -> None:
    assert make_key(**_reorder(parts, chance)) == make_key(**parts)


@given(_PARTS, _PARTS)
def test_different_parts_have_different_keys(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (make_key(**one) == make_key(**other)) == (_with_types(one) == _with_types(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True), (1, 1.0), (1, "1"), (None, "null"), ("\u00e9", "e\u0301"), ([], {}),
        ([[1], 2], [1, [2]]), (2**53, 2.0**53),
    ],
)  # fmt: skip
def test_similar_values_have_different_keys(one: Any, other: Any) -> None:
    assert make_key(part=one) != make_key(part=other)


@pytest.mark.parametrize(
    ("value", "words", "hint"),
    [
        (b"x", "options.x is of type bytes", "SHA-256"), ({1, 2}, "set", "sorted list"),
        (Path("x"), "pathlib", "content"), (float("nan"), "options.x is nan", "finite"),
        (float("inf"), "inf", "finite"), ({1: 2}, "a name in options.x is of type int", "JSON"),
        ([1, object()], "options.x[1]", "text, numbers"),
        (1 << 5000, "too large", "text"), (1j, "complex", "numbers"),
    ],
)  # fmt: skip
def test_values_that_are_not_json_are_refused(value: Any, words: str, hint: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make_key(options={"x": value})
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_recursive_values_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInputError, match="too deeply"):
        make_key(a=endless)


# The values were computed once and must never change: every result kept under them would be lost.
_FIXED: dict[str, Mapping[str, Any]] = {
    "k1-de9b183b0a230516eb9e8ea4b66de2db6bd7ddeb80bb977055b6d364318a806a": {},
    "k1-aa79f4b61ef38896b1bd479e945ed3777f3c65a9c478f723fdec32364c64cc64": {
        "text": "Zwölf Boxkämpfer 😀", "speed": 0.1, "big": 1e300, "small": 5e-324, "seed": 7,
        "options": {"b": [True, None, -1], "a": ""},
    },
}  # fmt: skip


@pytest.mark.parametrize("key", _FIXED)
def test_keys_never_change(key: str) -> None:
    assert make_key(**_FIXED[key]) == key


def test_every_field_of_a_cache_key_counts() -> None:
    base = CacheKey("speech", "Hello.", "tone", "1.0", "abc", "anna", "fp32", 1, {"speed": 1.0})
    other = CacheKey(
        "embedding", "Hello!", "piper", "1.1", "abd", "bert", "half", 2, {"speed": 1.1}
    )
    from dataclasses import fields, replace

    keys = {replace(base, **{f.name: getattr(other, f.name)}).digest for f in fields(CacheKey)}
    assert len(keys | {base.digest}) == len(fields(CacheKey)) + 1
    assert replace(base).digest == base.digest
    assert "device" not in {f.name for f in fields(CacheKey)}


@pytest.mark.parametrize("text", ["", "é", "\\", "\n\0\x7f\u2028", "\ud83d"])
def test_key_function(text: str) -> None:
    parts: dict[str, Any] = {"base": '""', "kind": "embedding", "n": [1, 1.0, {"text": '""'}]}
    assert make_key_function(**parts)(text) == make_key(text=text, **parts)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_atomic(path, "old")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == [path.name] or set(os.listdir(tmp_path)) == {
        path.name, "home", "work",
    }  # fmt: skip


def test_lock_file(tmp_path: Path) -> None:
    with lock_file(tmp_path / "lock", 0) as first, lock_file(tmp_path / "lock", 0.05) as second:
        assert (first, second) == (True, False)
    with lock_file(tmp_path / "lock", 0) as again, lock_file(tmp_path / "none" / "lock", 0) as none:
        assert (again, none) == (True, True)


def test_versioned_json(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    assert read_versioned(path, 1) == {}
    write_versioned(path, 1, {"limits": {"a": 1}})
    assert read_versioned(path, 1) == {"limits": {"a": 1}}
    assert read_versioned(path, 2) == {}
    for text in ("{", "[]", '"format"', "\x00"):
        path.write_text(text)
        assert read_versioned(path, 1) == {}
