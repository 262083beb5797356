"""Kubernetes manifests: by the types of its interface, and fitting together."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import promql_parser  # type: ignore[import-not-found, unused-ignore]
import pytest

from anyrig.cli.main import parse_command_line
from tests.deploy import files
from tests.deploy.files import MANIFESTS, manifests, pods

OBJECTS = [(row["kind"], row) for path, row in manifests() if path.name != "keda.yaml"]
GROUPS = {"apps/v1": "apps_v1", "v1": "core_v1", "networking.k8s.io/v1": "networking_v1"}


def wrong(value: Any, kind: Any, where: str) -> Iterator[str]:
    """What of a manifest is not as the interface has it: names, types, what must be there."""
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        found = [list(wrong(value, one, where)) for one in inner]
        yield from min(found, key=len)
    elif typing.get_origin(kind) is list:
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for number, one in enumerate(value):
            yield from wrong(one, inner[0], f"{where}[{number}]")
    elif is_dataclass(kind):
        yield from _fields(value, kind, where)
    elif kind in (str, int, bool) and type(value) is not kind:
        yield f"{where} is {value!r}, no {kind.__name__}"


def _fields(value: Any, kind: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is no mapping"
        return
    hints = typing.get_type_hints(kind, vars(importlib.import_module(kind.__module__)))
    # A name that is a word of Python has another one there.
    known = {one.metadata.get("json", one.name): one for one in fields(kind)}
    for name in value:
        if name not in known:
            yield f"{where} has no {name}"
        else:
            yield from wrong(value[name], hints[known[name].name], f"{where}.{name}")
    for name, one in known.items():
        if one.default is one.default_factory and name not in value:
            yield f"{where} lacks {name}"


def _kind(row: dict[str, Any]) -> Any:
    """The class of an object. The package is types alone, and takes three names from the client's
    own package, which we do not need.
    """
    stand_in: Any = types.ModuleType("lightkube.core.schema")
    stand_in.dataclass, stand_in.field = dataclasses.dataclass, dataclasses.field
    stand_in.DictMixin = object
    sys.modules.setdefault("lightkube.core", types.ModuleType("lightkube.core"))
    sys.modules.setdefault("lightkube.core.schema", stand_in)
    module = importlib.import_module(f"lightkube.models.{GROUPS[row['apiVersion']]}")
    return getattr(module, row["kind"])


@pytest.mark.parametrize(
    ("name", "row"), OBJECTS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_types(name: str, row: dict[str, Any]) -> None:
    assert list(wrong(row, _kind(row), name)) == []


@pytest.mark.parametrize(
    ("name", "pod"), pods(), ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_pod_is_shut_in(name: str, pod: dict[str, Any]) -> None:
    # Without this a service called anyrig-server sets ANYRIG_SERVER_PORT=tcp://... everywhere.
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    (box,) = pod["containers"]
    assert box["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert {"/data", "/tmp"} <= {one["mountPath"] for one in box["volumeMounts"]}
    assert "livenessProbe" in box
    assert box["resources"]["requests"]["memory"]
    assert box["resources"]["limits"]["memory"]
    secret = [one["valueFrom"]["secretKeyRef"] for one in box["env"] if "valueFrom" in one]
    assert secret == [{"name": "anyrig-broker", "key": "password"}]


@pytest.mark.parametrize(
    ("name", "pod"), pods(), ids=lambda one: one if isinstance(one, str) else ""
)
def test_anyrig_knows_what_it_is_told(name: str, pod: dict[str, Any]) -> None:
    (box,) = pod["containers"]
    if not box["image"].startswith("anyrig:"):
        assert re.fullmatch(r"valkey/valkey:\d+\.\d+\.\d+-alpine", box["image"])
        return
    assert pod["securityContext"]["runAsUser"] == 10001
    words = [word.replace("$(BROKER_PASSWORD)", "secret") for word in box["args"]]
    assert parse_command_line(words)
    names = [one["name"] for one in box["env"]]
    for one in box["env"]:  # a variable is known to those that come after it
        if "$(" in one.get("value", ""):
            assert names.index("BROKER_PASSWORD") < names.index(one["name"])


def test_services_lead_to_pods_and_ports() -> None:
    labels = [(row["spec"]["template"]["metadata"]["labels"], row) for _, row in OBJECTS
              if "template" in row["spec"]]  # fmt: skip
    named = {row["metadata"]["name"] for kind, row in OBJECTS if kind == "Service"}
    for kind, row in OBJECTS:
        if kind != "Service":
            continue
        (target,) = [one for has, one in labels if row["spec"]["selector"].items() <= has.items()]
        (box,) = target["spec"]["template"]["spec"]["containers"]
        ports = {one["name"]: one["containerPort"] for one in box["ports"]}
        assert {one["targetPort"] for one in row["spec"]["ports"]} <= set(ports)
    whole = "".join(map(files.text, MANIFESTS))
    assert set(re.findall(r"@([\w-]+):6379", whole)) <= named
    claims = {row["metadata"]["name"] for kind, row in OBJECTS if kind == "PersistentVolumeClaim"}
    assert set(re.findall(r"claimName: ([\w-]+)", whole)) == claims


def test_nothing_is_ended_because_the_broker_is_away() -> None:
    check = "/usr/local/lib/anyrig/healthcheck.py"
    found = {name: pod["containers"][0] for name, pod in pods()}
    for name, role in (("anyrig-worker-cpu", "worker"), ("anyrig-worker-gpu", "worker"),
                       ("anyrig-coordinator", "coordinator")):  # fmt: skip
        for probe in ("startupProbe", "livenessProbe"):  # tests/deploy/test_deploy_health.py
            assert found[name][probe]["exec"]["command"] == ["python", check, role]
    for name in ("anyrig-worker-cpu", "anyrig-worker-gpu"):
        assert found[name]["readinessProbe"]["exec"]["command"] == ["python", check, "joined"]


def test_the_broker_has_time_to_read_its_data() -> None:
    (box,) = dict(pods())["anyrig-broker"]["containers"]
    begin, live = box["startupProbe"], box["livenessProbe"]
    assert "PONG" in begin["exec"]["command"][2]
    assert begin["periodSeconds"] * begin["failureThreshold"] >= 1800
    # With a full disk it answers MISCONF: a new start would not mend that.
    assert "PONG" not in live["exec"]["command"][2]


def test_keda_scales_what_is_there_by_a_figure_that_is_there() -> None:
    (row,) = [row for path, row in manifests() if path.name == "keda.yaml"]
    assert (row["apiVersion"], row["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = row["spec"]
    target = next(one for kind, one in OBJECTS
                  if one["metadata"]["name"] == spec["scaleTargetRef"]["name"])  # fmt: skip
    assert target["kind"] == "Deployment"
    assert "replicas" not in target["spec"]  # or each `kubectl apply` would set it back
    assert 0 <= spec["minReplicaCount"] < spec["maxReplicaCount"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    given = trigger["metadata"]
    assert all(isinstance(value, str) for value in given.values())
    assert float(given["threshold"]) > 0
    promql_parser.parse(given["query"])
    # tests/server/test_serve_metrics.py has the figure and its states.
    assert given["query"] == 'sum(anyrig_jobs{state=~"queued|running"})'
