"""A cache that fails costs a warning, once, and no work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from anyrig.app.cache import TolerantCache
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


def test_a_working_cache_is_used(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "results.sqlite") as store:
        failures: list[StorageError] = []
        cache: Cache = TolerantCache(store, failures.append)
        assert cache.put("a", b"1", kind="speech")
        assert cache.get_many(["a", "b"]).keys() == {"a"}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
    assert failures == []


def test_a_failure_is_reported_once(tmp_path: Path) -> None:
    failures: list[StorageError] = []
    with Failing(tmp_path / "results.sqlite") as store:
        cache = TolerantCache(store, failures.append)
        assert cache.get_many(["a"]) == {}
        assert cache.get_many(["a"]) == {}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
        cache.release(Claim("token", frozenset({"a"})))
    assert [error.message for error in failures] == ["the disk is gone"]
