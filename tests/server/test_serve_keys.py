"""Keys: shown once, kept as hashes, good for what they were made for, and gone when removed."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from anyrig.app.keys import ApiKeys
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.server.rates import RateLimiter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.json"


def test_a_key_is_known_again_and_its_text_is_kept_nowhere(path: Path) -> None:
    text, key = ApiKeys(path).add("laptop", scopes=("speech", "read"), requests_per_minute=7)
    found = ApiKeys(path).check(text)
    assert found == key
    assert found is not None
    assert (found.name, found.scopes, found.requests_per_minute) == (
        "laptop",
        ("speech", "read"),
        7,
    )
    kept = path.read_text()
    assert text not in kept
    assert text.split("_", 2)[2] not in kept  # the secret part may hold further underscores
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []


def test_texts_that_are_no_key(path: Path) -> None:
    keys = ApiKeys(path)
    text, key = keys.add("a")
    secret = text.split("_", 2)[2]
    start = text.removesuffix(f"_{secret}")
    other, _ = keys.add("b")
    for wrong in (
        "", "anyrig", text[:-1], text + "x", text.upper(), f" {text}", f"{text}\n",
        f"{start}_{'A' * 43}", f"anyrig_{'0' * 12}_{secret}", other.replace("anyrig_", ""),
        f"anyrig_{key.id}_{other.split('_', 2)[2]}", "\ud800" * 60, "é" * 60, key.digest,
    ):  # fmt: skip
        assert keys.check(wrong) is None, wrong
    assert keys.check(text) == key


def test_a_wrong_key_is_compared_as_a_right_one_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong, one digest of the same length is compared, in constant time."""
    import hmac

    from anyrig.app import keys as module

    keys = ApiKeys(path)
    text, key = keys.add("a")
    seen: list[tuple[int, int]] = []

    def compare(one: str, two: str) -> bool:
        seen.append((len(one), len(two)))
        return hmac.compare_digest(one, two)

    monkeypatch.setattr(module, "hmac", type("Module", (), {"compare_digest": compare}))
    for word in (text, text[:-1] + "_", "anyrig_" + "0" * 12 + "_" + "A" * 43, "nonsense", ""):
        keys.check(word)
    assert seen == [(64, 64)] * 5


def test_one_that_was_removed_is_refused_by_whoever_has_the_file_open(path: Path) -> None:
    here, there = ApiKeys(path), ApiKeys(path)
    text, key = here.add("laptop")
    assert there.check(text) == key
    here.remove("laptop")
    assert there.check(text) is None
    with pytest.raises(InvalidInputError, match="unknown key"):
        here.remove("laptop")
    again, _ = here.add("laptop")
    here.remove(again.split("_")[1])
    assert there.list_keys() == []


def test_one_that_expired_is_refused(path: Path) -> None:
    now = 1000.0
    keys = ApiKeys(path, clock=lambda: now)
    text, key = keys.add("guest", expires_at=1060.0)
    assert keys.check(text) == key
    now = 1060.0
    assert keys.check(text) is None
    assert keys.get(key.id) is None
    assert keys.list_keys() == [key]


def test_many_who_add_at_once_lose_none(path: Path) -> None:
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: texts.append(ApiKeys(path).add(f"key {n}")[0]))
        for n in range(12)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(texts) == 12
    assert all(ApiKeys(path).check(text) for text in texts)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 61, "\x1b[31m"])
def test_names_are_one_line(path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        ApiKeys(path).add(name)


def test_scopes_rates_and_names_that_cannot_be(path: Path) -> None:
    keys = ApiKeys(path)
    with pytest.raises(InvalidInputError, match="unknown scope 'speach'"):
        keys.add("a", scopes=("speach",))
    with pytest.raises(InvalidInputError, match="unknown scope"):
        keys.add("a", scopes=())
    with pytest.raises(InvalidInputError, match="rate"):
        keys.add("a", requests_per_minute=-1)
    keys.add("a")
    with pytest.raises(InvalidInputError, match="already"):
        keys.add("a")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": [{"id": 1}]}', "\x00"])
def test_a_broken_file_lets_nobody_in(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(InvalidSettingError, match="cannot read"):
        ApiKeys(path).check("anyrig_" + "0" * 12 + "_" + "A" * 43)


def test_the_file_tells_nothing_that_is_not_listed(path: Path) -> None:
    ApiKeys(path).add("a", scopes=("read",), expires_at=5.0)
    (row,) = json.loads(path.read_text())["keys"]
    assert set(row) == {"id", "name", "digest", "scopes", "requests_per_minute", "expires_at",
                        "made_at"}  # fmt: skip


def test_a_bucket_fills_at_an_even_pace() -> None:
    now = 0.0
    buckets = RateLimiter(clock=lambda: now)
    assert [buckets.take("a", 3) for _ in range(4)] == [0, 0, 0, 20]
    assert buckets.take("b", 3) == 0
    now = 10.0
    assert buckets.take("a", 3) == 10
    now = 20.0
    assert [buckets.take("a", 3), buckets.take("a", 3)] == [0, 20]
    now = 1000.0
    assert [buckets.take("a", 3) for _ in range(4)] == [0, 0, 0, 20]
    for number in range(5000):
        buckets.take(str(number), 3)
    assert len(buckets._buckets) <= 4096
