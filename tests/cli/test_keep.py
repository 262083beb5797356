"""A store that may fail: what is asked of it is answered all the same, and that is told once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from anyrig.cli.keep import Forgiving
from anyrig.errors import StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, ResultCache


class Failing(ResultCache):
    """It knows who makes what, and cannot say."""

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        raise StorageError("the disk is gone", hint="Find it.")

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        raise StorageError("the disk is gone", hint="Find it.")

    def release(self, claim: Claim) -> None:
        raise StorageError("the disk is gone", hint="Find it.")


def test_a_good_store_is_asked(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "results.sqlite") as store:
        forgiving: Cache = Forgiving(store)
        assert forgiving.put("a", b"1", kind="speech")
        assert forgiving.get_many(["a", "b"]).keys() == {"a"}
        assert forgiving.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))


def test_a_failing_one_is_told_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Failing(tmp_path / "results.sqlite")
    with store:
        forgiving = Forgiving(store)
        assert forgiving.get_many(["a"]) == {}
        assert forgiving.get_many(["a"]) == {}
        assert forgiving.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
        forgiving.release(Claim("token", frozenset({"a"})))
    assert capsys.readouterr().err.count("the disk is gone") == 1
