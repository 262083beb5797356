"""What /openapi.json says, tried against a real server: nothing that is sent makes it fail."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from anyrig.server.auth import KEY_OPTIONAL_PATHS, PUBLIC_PATHS
from tests.server.conftest import Server, add_key, running

_NOT_THERE = 501
"""A model that is not installed: the answer says which, and how to get it."""
_NOT_CHECKED: list[Any] = [
    not_a_server_error,  # done here, as 501 and 503 have their places
    positive_data_acceptance,  # a voice or a job that fits the description need not be there
    negative_data_rejection,  # much of what does not fit is read kindly: "1" for 1
    unsupported_method,
    ignored_auth,  # on this machine none is needed; with keys it is done here
]
_MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
_NUM_EACH = 1
"""`make test-slow` sends a hundred of each mode."""
_NUM_MANY = 100
_NUM_KEYED = 3
_LONGEST_S = 3.0
"""For each operation and mode: models that speak and read take their time."""
SEED = int(os.environ.get("ANYRIG_TEST_SEED") or date.today().strftime("%Y%m%d"))
"""What the long walks draw their requests with: another each day, or that of ANYRIG_TEST_SEED."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: what is tried may delete, pause and choose. Jobs are queued and not run."""
    with running(tmp_path_factory.mktemp("tried"), "--no-jobs", "--no-page") as server:
        yield server


@dataclass
class Sweep:
    """Requests of every kind that the description knows, drawn at random.

    Args:
        server: that is asked.
        num: requests of each operation that fit its description, and as many that do not; fewer
            where they take long. With 1 they fit or do not, by turns.
        seed: what they are drawn with; None for the same ones each time.
        key: they carry it.
    """

    server: Server
    num: int
    seed: int | None = None
    key: str = ""
    names: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def run(self) -> None:
        """Send them all."""
        found = schemathesis.openapi.from_url(
            f"{self.server.url}/openapi.json", headers=self._headers
        )
        for number, result in enumerate(found.get_all_operations()):
            operation: Any = result.ok()
            self.names.append(operation.label)
            for mode in self._modes(operation, number):
                try:
                    self.wrong += self._tried(operation.as_strategy(generation_mode=mode))[:1]
                except Exception as error:  # noqa: BLE001 - some take nothing to get wrong
                    if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
                        raise

    def _modes(self, operation: Any, number: int) -> tuple[schemathesis.GenerationMode, ...]:
        if self.num > 1:
            return _MODES
        # Of a request that has a path alone, none that is wrong is found: a second of looking.
        can_be_wrong = any(operation.query) or any(operation.body)
        return _MODES[1:] if number % 2 and can_be_wrong else _MODES[:1]

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def _tried(self, strategy: SearchStrategy[schemathesis.Case[Any]]) -> list[str]:
        found: list[str] = []
        end = time.monotonic() + _LONGEST_S

        @settings(
            max_examples=self.num, deadline=None, database=None, derandomize=self.seed is None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=strategy)
        def attempt(case: schemathesis.Case[Any]) -> None:
            wrong = self._wrong(case) if time.monotonic() < end else ""
            if wrong:
                found.append(wrong)

        (attempt if self.seed is None else seed(self.seed)(attempt))()
        return found

    def _wrong(self, case: schemathesis.Case[Any]) -> str:
        """What is wrong about the answer to a case."""
        answer = case.call(timeout=60, headers=self._headers)
        self.statuses[answer.status_code] += 1
        said = f"{case.as_curl_command()}\n  -> {answer.status_code} {answer.content[:300]!r}"
        if answer.status_code == 503:
            return "" if "retry-after" in answer.headers else f"503 without Retry-After: {said}"
        if answer.status_code >= 500 and answer.status_code != _NOT_THERE:
            return said
        try:
            case.validate_response(answer, excluded_checks=_NOT_CHECKED)
        except (AssertionError, FailureGroup) as error:
            told = error.exceptions if isinstance(error, FailureGroup) else (error,)
            return "\n".join(map(str, (*told, said)))
        return ""

    def judge(self) -> None:
        """Nothing was wrong, and nothing was left out."""
        again = f"ANYRIG_TEST_SEED={self.seed} makes the same requests again.\n"
        told = "" if self.seed is None else again
        assert not self.wrong, f"{len(self.wrong)}: {told}" + "\n\n".join(self.wrong)
        assert "POST /v1/audio/speech" in self.names
        assert len(self.names) > 40


def test_whatever_is_sent_is_answered_as_described(tried: Server) -> None:
    sweep = Sweep(tried, _NUM_EACH)
    sweep.run()
    sweep.judge()


def test_whatever_else_is_sent_is_answered_as_described(tried: Server) -> None:
    print(f"ANYRIG_TEST_SEED={SEED}")
    sweep = Sweep(tried, _NUM_MANY, SEED)
    sweep.run()
    print(dict(sweep.statuses))
    sweep.judge()
    assert sweep.statuses.total() > 10 * len(sweep.names)


def test_with_a_key_the_same_is_answered_and_without_one_nothing(tmp_path: Path) -> None:
    print(f"ANYRIG_TEST_SEED={SEED}")
    home = tmp_path / "keyed"
    key = add_key(home, "ada")
    many = {"ANYRIG_SERVER_REQUESTS_PER_MINUTE": "1000000"}
    words = ("--require-keys", "--no-jobs", "--no-page")
    with running(home, *words, environment=many, key=key) as server:
        sweep = Sweep(server, _NUM_KEYED, SEED, key)
        sweep.run()
        sweep.judge()
        assert not {401, 403, 429} & set(sweep.statuses)
        paths = server.client.get("/openapi.json").json()["paths"]
        public = PUBLIC_PATHS | KEY_OPTIONAL_PATHS
        with httpx.Client(base_url=server.url, trust_env=False) as nobody:
            for path, methods in paths.items():
                for method in methods:
                    answer = nobody.request(method, path.replace("{", "").replace("}", ""))
                    assert (answer.status_code == 401) == (path not in public), f"{method} {path}"


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
        for name in example:
            value = _HOSTILE[what]
            if isinstance(example[name], list):
                value = [value]
            text = json.dumps({**example, name: value})
            answer = tried.client.request(
                method, path.replace("{name}", "x"), content=text,
                headers={"Content-Type": "application/json"},
            )  # fmt: skip
            known = answer.status_code < 500 or answer.status_code == _NOT_THERE
            if not (known or (answer.status_code == 503 and "retry-after" in answer.headers)):
                bad.append(f"{method} {path} {name}: {answer.status_code} {answer.text[:200]}")
            if b"root:" in answer.content:
                bad.append(f"{method} {path} {name}: told what is in a file")
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
