"""The store in wrong hands: each slip is one error with a hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.results import Store


def _hold(store: Store) -> None:
    with store.holding("job"):
        pass


def test_a_path_of_text(tmp_path: Path) -> None:
    with Store(str(tmp_path / "r")) as store:
        assert store.put("a", b"1", kind="speech")
        assert store.path == tmp_path / "r"


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("a"),
        lambda store: store.get_many([]),
        lambda store: store.has(["a"]),
        lambda store: store.put("a", b"", kind="speech"),
        lambda store: store.put_many([]),
        lambda store: store.replace("a", b"", kind="speech"),
        lambda store: store.drop("a"),
        lambda store: store.size(),
        lambda store: store.prune(),
        lambda store: store.verify(),
        lambda store: list(store.each()),
        _hold,
    ],
)
def test_a_closed_store_refuses_everything(tmp_path: Path, call: Callable[[Store], object]) -> None:
    store = Store(tmp_path / "r")
    store.put("a", b"1", kind="speech")
    store.close()
    store.close()
    with pytest.raises(StorageError, match="the store is closed") as caught:
        call(store)
    assert "open another" in caught.value.hint


@pytest.mark.parametrize("limit", [0, -5, float("nan")])
def test_a_limit_below_a_byte(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="limit_bytes is") as caught:
        Store(tmp_path / "r", limit_bytes=limit)
    assert "10 GiB" in caught.value.hint


@pytest.mark.parametrize("data", ["x", 5, None, [1, 2]])
def test_data_that_is_not_bytes(tmp_path: Path, data: Any) -> None:
    with Store(tmp_path / "r") as store:
        with pytest.raises(
            InvalidInputError, match=f"data is {type(data).__name__}, not bytes"
        ) as caught:
            store.put("a", data, kind="speech")
        assert ".encode()" in caught.value.hint
        good: list[Any] = [bytearray(b"1"), memoryview(b"1")]
        assert [store.put(f"b{n}", data, kind="speech") for n, data in enumerate(good)] == [
            True
        ] * 2


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder") as caught:
        Store(tmp_path)
    assert str(tmp_path / "results.sqlite") in caught.value.hint
