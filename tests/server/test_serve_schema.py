"""What /openapi.json says, tried against a real server: nothing that is sent makes it fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from tests.server.conftest import Server, running

_NOT_THERE = 501
"""A model that is not installed: the answer says which, and how to get it."""
_NOT_CHECKED: list[Any] = [
    not_a_server_error,  # done here, as 501 and 503 have their places
    positive_data_acceptance,  # a voice or a job that fits the description need not be there
    negative_data_rejection,  # much of what does not fit is read kindly: "1" for 1
    unsupported_method,
    ignored_auth,  # on this machine none is needed
]
_MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
_NUM_EACH = 2
"""Of each mode: enough to have found what there was to find, in half a minute."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: what is tried may delete, pause and choose. Jobs are queued and not run."""
    with running(tmp_path_factory.mktemp("tried"), "--no-jobs", "--no-page") as server:
        yield server


def _wrong(case: schemathesis.Case[Any]) -> str:
    """What is wrong about the answer to a case."""
    answer = case.call(timeout=60)
    said = f"{case.as_curl_command()}\n  -> {answer.status_code} {answer.content[:300]!r}"
    if answer.status_code == 503:
        return "" if "retry-after" in answer.headers else f"503 without Retry-After: {said}"
    if answer.status_code >= 500 and answer.status_code != _NOT_THERE:
        return said
    try:
        case.validate_response(answer, excluded_checks=_NOT_CHECKED)
    except (AssertionError, ExceptionGroup) as error:
        return f"{error}\n{said}"
    return ""


def _tried(strategy: SearchStrategy[schemathesis.Case[Any]], num: int) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=num, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def attempt(case: schemathesis.Case[Any]) -> None:
        wrong = _wrong(case)
        if wrong:
            found.append(wrong)

    attempt()
    return found


def test_whatever_is_sent_is_answered_as_described(tried: Server) -> None:
    described = schemathesis.openapi.from_url(f"{tried.url}/openapi.json")
    wrong: list[str] = []
    names: list[str] = []
    for result in described.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]  # it is our own description
        names.append(operation.label)
        for mode in _MODES:
            try:
                wrong += _tried(operation.as_strategy(generation_mode=mode), _NUM_EACH)[:1]
            except Exception as error:  # noqa: BLE001 - some operations take nothing to get wrong
                if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
                    raise
    assert not wrong, f"{len(wrong)}:\n" + "\n\n".join(wrong)
    assert "POST /v1/audio/speech" in names
    assert len(names) > 40


def test_every_route_has_a_summary_and_tells_its_problems(tried: Server) -> None:
    found = tried.client.get("/openapi.json").json()
    assert "Problem" in found["components"]["schemas"]
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            here = f"{method} {path}"
            assert one.get("summary"), here
            assert "application/problem+json" in one["responses"]["422"]["content"], here
            assert "application/problem+json" in one["responses"]["default"]["content"], here
            assert [status for status in one["responses"] if status.startswith("2")], here


_HOSTILE: dict[str, Any] = {
    "half a character": "\ud800",
    "nothing visible": "\u200b\u202e\ufeff\x00",
    "a path": "../../../../etc/passwd",
    "a device": "/dev/zero",
    "an address": "http://169.254.169.254/latest/",
    "a number": 10**400,
    "no number": float("nan"),
    "without end": float("inf"),
    "a list": [[]] * 50,
    "nothing": None,
    "a long word": "x" * 3_000,
}


def _bodies(found: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each route that takes JSON, with an example of what it takes."""
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            content = one.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            schema = content["schema"]
            name = schema.get("$ref", "").rpartition("/")[2]
            full = found["components"]["schemas"].get(name, schema)
            fields = {
                n: one["examples"][0] for n, one in full["properties"].items() if "examples" in one
            }
            example = (full.get("examples") or [fields])[0]
            assert example, f"{method} {path} has no example"
            yield method, path, example


@pytest.mark.parametrize("what", _HOSTILE)
def test_hostile_values_in_any_field_are_refused_or_survived(tried: Server, what: str) -> None:
    found = tried.client.get("/openapi.json").json()
    bad = []
    for method, path, example in _bodies(found):
        for field in example:
            value = _HOSTILE[what]
            if isinstance(example[field], list):
                value = [value]
            text = json.dumps({**example, field: value})
            answer = tried.client.request(
                method, path.replace("{name}", "x"), content=text,
                headers={"Content-Type": "application/json"},
            )  # fmt: skip
            known = answer.status_code < 500 or answer.status_code == _NOT_THERE
            if not (known or (answer.status_code == 503 and "retry-after" in answer.headers)):
                bad.append(f"{method} {path} {field}: {answer.status_code} {answer.text[:200]}")
            if b"root:" in answer.content:
                bad.append(f"{method} {path} {field}: told what is in a file")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 100_000, b"", b"null", b"\xff\xfe{}", b"{", b'"' + b"\\" * 9,
     b"9" * 5_000, b"[]", b'{"input": NaN}', b"\x00"],
    ids=["lists", "objects", "empty", "null", "bytes", "broken", "slashes", "digits", "list", "nan",
         "nul"],
)  # fmt: skip
def test_bodies_that_are_no_json_are_refused(tried: Server, body: bytes) -> None:
    for path in ("/v1/audio/speech", "/v1/embeddings", "/jobs", "/documents/embed", "/books/plan"):
        answer = tried.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), f"{path} {answer.status_code} {answer.text[:300]}"
        assert answer.headers["content-type"] == "application/problem+json"
