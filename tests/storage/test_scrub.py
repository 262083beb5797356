"""What is dropped from the store is gone from the bytes of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.storage.key import key
from anyrig.storage.results import Store


@pytest.mark.parametrize("size", [12, 3_000, 200_000])
def test_no_byte_is_left_of_what_was_dropped(tmp_path: Path, size: int) -> None:
    secret = (b"the secret of %d bytes " % size * (size // 10))[:size]
    with Store(tmp_path / "results.sqlite") as store:
        for number in range(20):
            store.put(key(text=str(number)), b"%d" % number * 500, kind="embedding")
        store.put(key(text="secret"), secret, kind="embedding")
        for number in range(20, 40):
            store.put(key(text=str(number)), b"%d" % number * 500, kind="embedding")
        assert _found(tmp_path, secret[:12])
        assert store.drop(key(text="secret"))
        store.scrub()
        assert not _found(tmp_path, secret[:12])
        assert store.size().num_results == 40


def _found(folder: Path, needle: bytes) -> bool:
    return any(needle in path.read_bytes() for path in folder.glob("results.sqlite*"))
