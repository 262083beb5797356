"""`anyrig keys`, and what a server asks for before it listens to other machines."""

from __future__ import annotations

import json
import time

import pytest

from anyrig.app.keys import ensure_key, open_keys, parse_expiry
from anyrig.app.rig import Rig
from anyrig.errors import InvalidInputError
from tests.conftest import Anyrig


def test_add_list_remove(anyrig: Anyrig) -> None:
    assert "no keys" in anyrig("keys").stdout
    added = anyrig("keys", "add", "laptop", "--scopes", "speech,read", "--rate", "30")
    assert added.returncode == 0, added.stderr
    text = added.stdout.splitlines()[0]
    assert text.startswith("anyrig_")
    listed = anyrig("keys", "list").stdout
    assert "laptop" in listed
    assert "speech,read" in listed
    assert text not in listed
    (row,) = json.loads(anyrig("keys", "--json").stdout)["keys"]
    assert (row["name"], row["requests_per_minute"]) == ("laptop", 30)
    assert "refused from now on" in anyrig("keys", "remove", "laptop").stdout
    assert json.loads(anyrig("keys", "list", "--json").stdout) == {"keys": []}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["add"], "takes one name", "keys add laptop"),
        (["add", "a\u202eb"], "printable characters", "keys add laptop"),
        (["add", "a", "--rate", "2000000"], "between 0 and 1,000,000", "requests per minute"),
        (["forget", "a"], "unknown action", "add, list, remove"),
        (["remove", "nobody"], "unknown key 'nobody'", "none"),
        (["add", "a", "--scopes", "everything"], "unknown scope 'everything'", "speech"),
        (["add", "a", "--expires", "soon"], "--expires must be a time span or a date", "30d"),
        (["add", "a", "--expires", "2001-01-01"], "--expires is in the past", "later date"),
    ],
)
def test_mistakes(anyrig: Anyrig, words: list[str], message: str, hint: str) -> None:
    done = anyrig("keys", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert hint in done.stderr


def test_spans_and_days() -> None:
    now = time.mktime((2026, 11, 16, 0, 0, 0, 0, 0, -1))
    assert parse_expiry("", now) is None
    assert parse_expiry("12h", now) == now + 12 * 3600
    assert parse_expiry("1y", now) == now + 365 * 86400
    assert parse_expiry("2026-11-17", now) == now + 86400
    for word in ("0x1d", "-1d", "1.5d", "d", "2026-13-01", "9999999y"):
        with pytest.raises(InvalidInputError):
            parse_expiry(word, now)


def test_other_machines_need_keys(anyrig: Anyrig) -> None:
    done = anyrig("serve", "--host", "0.0.0.0", "--port", "0", "--no-page",
                  environment={"ANYRIG_CONTAINER": "0"})  # fmt: skip
    assert done.returncode == 2
    assert "need API keys" in done.stderr
    assert "anyrig keys add" in done.stderr
    assert "--insecure" in done.stderr


def test_a_server_whose_keys_have_expired_does_not_start() -> None:
    keys = open_keys(Rig())
    keys.add("old", expires_at=1.0)
    with pytest.raises(InvalidInputError, match="all keys have expired") as refused:
        ensure_key(keys, address="0.0.0.0", create=False)
    assert "anyrig keys add" in refused.value.hint
    keys.add("new", expires_at=time.time() + 600)
    assert ensure_key(keys, address="0.0.0.0", create=False) is None


def test_a_container_whose_keys_have_expired_makes_another() -> None:
    keys = open_keys(Rig())
    keys.add("container", expires_at=1.0)
    added = ensure_key(keys, address="0.0.0.0", create=True)
    assert added is not None
    text, key = added
    assert key.name == "container 2"
    assert keys.check(text) == key
    assert ensure_key(keys, address="0.0.0.0", create=True) is None


def test_a_port_that_is_taken(anyrig: Anyrig) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = anyrig("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert "--port 0" in done.stderr
