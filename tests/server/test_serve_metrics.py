"""Figures for machines: what is counted, that Prometheus can read it, what dashboards name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import promql_parser  # type: ignore[import-not-found, unused-ignore]
import pytest
import yaml  # type: ignore[import-untyped]
from fastapi.testclient import TestClient
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from anyrig.cluster.registry import LOST_S, WorkerInfo, WorkerRegistry
from anyrig.monitor.prometheus import METRIC_NAMES
from anyrig.version import __version__
from tests.cluster.conftest import Broker
from tests.conftest import ROOT
from tests.server.conftest import Server, Start, running
from tests.waiting import wait_until

DASHBOARD = ROOT / "deploy" / "grafana" / "anyrig.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of this file's own: its figures are nobody else's."""
    quick = {"ANYRIG_SPEECH_ENGINE": "tone", "ANYRIG_DOCUMENTS_MODEL": "hashing"}
    with running(tmp_path_factory.mktemp("metrics"), "--no-page", environment=quick) as found:
        # A label shows only with its first sample, and tests come in any order.
        found.client.post("/v1/embeddings", json={"model": "hashing", "input": ["first"]})
        found.client.post(
            "/v1/audio/speech", json={"model": "tone", "voice": "alloy", "input": "A."}
        )
        until(found.client, lambda now: value(now, "anyrig_batches_total", model="speech tone") > 0)
        yield found


def figures(client: Any) -> dict[str, Metric]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)
    return {family.name: family for family in families}


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    family = found[name.removesuffix("_total").removesuffix("_count")]
    rows = [s for s in family.samples if s.name == name and labels.items() <= s.labels.items()]
    return sum(row.value for row in rows)


def until(client: Any, asked: Callable[[dict[str, Metric]], bool]) -> dict[str, Metric]:
    return wait_until(lambda: found if asked(found := figures(client)) else None)


def test_work_is_counted(served: Server) -> None:
    texts = {"model": "hashing", "input": [f"text number {i}" for i in range(40)]}
    assert served.client.post("/v1/embeddings", json=texts).status_code == 200
    wish = {"model": "tone", "input": "One sentence. And another one.", "voice": "alloy",
            "response_format": "pcm"}  # fmt: skip
    assert served.client.post("/v1/audio/speech", json=wish).status_code == 200
    found = until(
        served.client, lambda now: value(now, "anyrig_batches_total", model="speech tone") > 0
    )
    assert value(found, "anyrig_texts_embedded_total") == 41  # one was the first
    assert value(found, "anyrig_audio_seconds_total", engine="tone") > 0.5
    assert value(found, "anyrig_models_loaded") == 2
    assert value(found, "anyrig_jobs", state="queued") == 0  # what deploy/kubernetes scales by
    assert value(found, "anyrig_model_loads_total") == 2
    items = value(found, "anyrig_batch_items_total", model="speech tone")
    assert items >= value(found, "anyrig_batches_total", model="speech tone") > 0
    for lane in ("live", "bulk"):
        assert value(found, "anyrig_queue", model="speech tone", lane=lane) == 0
    states = {s.labels["status"]: s.value for s in found["anyrig_workers"].samples
              if s.labels["model"] == "speech tone"}  # fmt: skip
    assert states["ready"] + states["busy"] >= 1
    assert states["dead"] == states["hangs"] == 0


def test_the_cluster_has_figures(
    new_broker: Callable[..., Broker], start: Start, app_client: TestClient
) -> None:
    assert figures(app_client)["anyrig_cluster_up"].samples == []  # it has none
    over = new_broker()
    with over.client_open() as link:
        for name, version in (("w1", __version__), ("w2", "0.0.1"), ("w3", __version__)):
            WorkerRegistry(link).write(WorkerInfo(name, version))
            link.redis.expire(link.key("worker", name), 2 * LOST_S)
        link.redis.delete(link.key("worker", "w3"))  # as when it falls silent
    server = start("--cluster", over.url)
    found = until(server.client, lambda now: value(now, "anyrig_cluster_up") == 1)
    states = {s.labels["status"]: s.value for s in found["anyrig_cluster_workers"].samples}
    assert states == {
        "ready": 1, "busy": 0, "loading": 0, "draining": 0, "lost": 1, "refused": 1,
    }  # fmt: skip
    over.stop(kill=True)
    found = until(server.client, lambda now: value(now, "anyrig_cluster_up") == 0)
    assert value(found, "anyrig_cluster_workers", status="ready") == 1  # as it was last seen


def test_gpu_figures_have_a_history_that_has_an_end(served: Server) -> None:
    def asked() -> Any:
        answer = served.client.get("/metrics/gpu")
        assert answer.status_code == 200
        return answer.json()

    told = wait_until(lambda: now if len((now := asked())["history"]) >= 2 else None)
    times = [row["time"] for row in told["history"]]
    assert times == sorted(times)
    cpu = next(row for row in told["now"]["devices"] if row["device"] == "cpu")
    assert cpu["kind"] == "cpu"
    assert cpu["memory_total_bytes"] > cpu["memory_free_bytes"] > 0
    assert told["history"][-1]["devices"]["cpu"]["memory_used_bytes"] > 0
    assert all("command" not in process for process in told["now"]["host"]["processes"])


def test_the_page_tells_every_figure(app_client: TestClient) -> None:
    text = (ROOT / "docs" / "monitor.md").read_text(encoding="utf-8")
    for family in figures(app_client).values():
        if family.name not in METRIC_NAMES and not family.name.endswith("_created"):
            assert f"`{family.name}`" in text or f"`{family.name}_total`" in text
    named = set(re.findall(r"`(anyrig_\w+)`", text.partition("## A server")[2]))
    known = set(figures(app_client))
    assert {name.removesuffix("_total") for name in named} <= known


def expressions() -> Iterator[tuple[str, str]]:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_every_metric_of_dashboard_and_alerts_exists(served: Server) -> None:
    known = {"up"}
    for family in figures(served.client).values():
        known |= {family.name, f"{family.name}_total", f"{family.name}_bucket"}
    # Power and temperature are told where there is a GPU.
    known |= METRIC_NAMES
    named = 0
    for title, expression in expressions():
        plain = re.sub(r"\{[^}]*\}", "", expression)
        names = re.findall(r"\b(?:anyrig_\w+|up)\b", plain)
        assert names, title
        assert [name for name in names if name not in known] == [], title
        named += len(names)
    assert named > 50


def test_every_expression_is_valid() -> None:
    for title, expression in expressions():
        assert promql_parser.parse(expression), title
