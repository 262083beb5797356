"""A cache that may fail: lookups find nothing then, and the failure is reported once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from anyrig.errors import StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, ResultCache, TolerantCache


class Failing(ResultCache):
    """Its disk is gone."""

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        raise StorageError("the disk is gone", hint="Find it.")

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        raise StorageError("the disk is gone", hint="Find it.")

    def release(self, claim: Claim) -> None:
        raise StorageError("the disk is gone", hint="Find it.")


def test_a_good_cache_is_used(tmp_path: Path) -> None:
    errors: list[StorageError] = []
    with ResultCache(tmp_path / "results.sqlite") as inner:
        cache: Cache = TolerantCache(inner, errors.append)
        assert cache.put("a", b"1", kind="speech")
        assert cache.get_many(["a", "b"]).keys() == {"a"}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
    assert errors == []


def test_a_failure_is_reported_once(tmp_path: Path) -> None:
    errors: list[StorageError] = []
    with Failing(tmp_path / "results.sqlite") as inner:
        cache = TolerantCache(inner, errors.append)
        assert cache.get_many(["a"]) == {}
        assert cache.get_many(["a"]) == {}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
        cache.release(Claim("token", frozenset({"a"})))
    assert len(errors) == 1
