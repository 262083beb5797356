"""Odd input that once was answered with 500, or took gigabytes."""

from __future__ import annotations

import tomllib

import pytest
from fastapi.testclient import TestClient

from anyrig.text import toml


def test_a_number_past_all_floats_is_refused(app_client: TestClient) -> None:
    arguments = {"lines": ["Hello."], "rate": 10**400}
    answer = app_client.post("/jobs", json={"kind": "batch", "arguments": arguments})
    assert answer.status_code == 400
    assert "'rate'" in answer.json()["title"]


@pytest.mark.parametrize(
    "body",
    ['{"text": "a = ' + "[" * 50_000 + '"}', '{"text": "# \\ud800"}',
     '{"text": "' + ".".join("a" * 20_000) + ' = 1"}'],
    ids=["nested", "half a character", "dots"],
)  # fmt: skip
def test_a_lexicon_that_nobody_can_read_is_refused(app_client: TestClient, body: str) -> None:
    kind = {"Content-Type": "application/json"}
    assert app_client.put("/lexicon", content=body, headers=kind).status_code in (400, 422)
    assert app_client.get("/lexicon").json()["entries"] == 0


def test_toml_of_strangers() -> None:
    assert toml.read('[a.b]\nc = "d. e. f."\n') == {"a": {"b": {"c": "d. e. f."}}}
    for text in (f"[{'.'.join('a' * 500)}]", f"a = {'[' * 50_000}"):
        with pytest.raises(tomllib.TOMLDecodeError):
            toml.read(text)
