"""Compose files: by the schema of the specification, and as safe as they say."""

from __future__ import annotations

import json
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from anyrig.cli.main import parse_command_line
from tests.conftest import ROOT
from tests.deploy import files
from tests.deploy.files import COMPOSE, DOCKER, filled, services
from tests.deploy.test_deploy_docker import tool

GIVEN = {
    "COORDINATOR_IP": "192.168.1.5", "VALKEY_PASSWORD": "secret", "RENDER_GROUP": "105",
    "VIDEO_GROUP": "44", "REDIS_URL": "redis://192.168.1.5:6379/0",
}  # fmt: skip
ALL = [(path, name) for path in COMPOSE for name in services(path)]


@pytest.fixture(scope="module")
def schema() -> Any:
    """Of the specification, as the package check-jsonschema has it."""
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    return json.loads((folder / "compose-spec.json").read_text(encoding="utf-8"))


def test_the_files_are_those_that_people_know() -> None:
    assert [path.name for path in COMPOSE] == [
        "docker-compose.coordinator.yml", "docker-compose.gpu.yml", "docker-compose.rocm.yml",
        "docker-compose.worker.yml", "docker-compose.xpu.yml", "docker-compose.yml",
    ]  # fmt: skip


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_schema(path: Path, schema: Any) -> None:
    found = yaml.safe_load(files.text(path))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(found)] == []
    found["services"]["more"] = {"imag": "typing mistake"}
    assert "'imag' was unexpected" in str(list(Draft202012Validator(schema).iter_errors(found)))


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_the_linter_finds_nothing_that_is_not_known(path: Path) -> None:
    """Known: no limits, as a worker may use the machine; tags without digests (docs/deploy.md)."""
    done = subprocess.run(
        [tool("compose-lint"), "--format", "json", str(path)], capture_output=True, text=True
    )
    found = json.loads(done.stdout)["findings"]
    told = [row for row in found if row["rule_id"] not in ("CL-0026", "CL-0019")]
    assert [row["message"] for row in told] == []


@pytest.mark.parametrize(("path", "name"), ALL, ids=lambda one: getattr(one, "name", one))
def test_a_service_is_shut_in(path: Path, name: str) -> None:
    row = services(path)[name]
    assert row["read_only"] is True
    assert "/tmp" in row["tmpfs"]
    assert int(row["user"].split(":")[0]) > 0
    assert row["cap_drop"] == ["ALL"]
    assert row["security_opt"] == ["no-new-privileges:true"]
    assert row["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert row["restart"] == "unless-stopped"
    assert "privileged" not in row
    declared = yaml.safe_load(files.text(path)).get("volumes", {})
    for volume in row["volumes"]:
        source, _, target = volume.partition(":")
        assert source in declared  # a named one, no folder of the host
        assert target.startswith("/data")
    assert any(volume.endswith(":/data") for volume in row["volumes"])


@pytest.mark.parametrize(("path", "name"), ALL, ids=lambda one: getattr(one, "name", one))
def test_an_image_is_built_by_its_target(path: Path, name: str) -> None:
    row = services(path)[name]
    if row["image"].startswith("valkey/"):
        assert row["image"].count(".") == 2  # an exact version
        return
    build = row["build"]
    assert (DOCKER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert build["target"] in files.TARGETS
    assert row["image"].endswith(f"-{build['target']}")
    default = filled(build["args"]["TORCH_VERSION"], {})
    stage = files.stages()[f"build-{build['target']}"]
    assert [rest for word, rest in stage if word == "ARG"] == [
        f"TORCH_VERSION={default}", "ANYRIG_EXTRAS=", "ONNX_RUNTIME=cpu",
    ]  # fmt: skip
    assert filled(build["args"]["ANYRIG_EXTRAS"], {"ANYRIG_EXTRAS": "voices"}) == "voices"
    words = [filled(word, GIVEN) for word in row["command"]]
    assert parse_command_line(words)  # anyrig knows the command and its flags
    test = row["healthcheck"]["test"]
    assert test[1:3] == ["python", "/usr/local/lib/anyrig/healthcheck.py"]
    assert test[3] == {"serve": "server"}.get(words[0], words[0])


def test_the_port_is_3000_unless_it_is_changed() -> None:
    row = services(DOCKER / "docker-compose.yml")["anyrig"]
    for given, port in (({}, "3000"), ({"PORT": "8080"}, "8080")):
        assert filled(row["environment"]["PORT"], given) == port
        assert filled(row["ports"][0], given) == f"127.0.0.1:{port}:{port}"
    assert filled(row["ports"][0], {"PUBLISH": "0.0.0.0"}) == "0.0.0.0:3000:3000"


def test_a_version_of_torch_is_meant_for_one_image_of_a_file() -> None:
    rows = services(DOCKER / "docker-compose.worker.yml")
    given = {"TORCH_VERSION": "cuda126"}
    found = {name: filled(row["build"]["args"]["TORCH_VERSION"], given)
             for name, row in rows.items()}  # fmt: skip
    assert found == {"worker": "cpu", "worker-gpu": "cuda126"}


def test_flower_listens_where_it_says() -> None:
    row = services(DOCKER / "docker-compose.coordinator.yml")["coordinator"]
    for more, port in (({}, "5555"), ({"FLOWER_PORT": "5556"}, "5556")):
        words = [filled(word, GIVEN | more) for word in row["command"]]
        assert words[words.index("--flower-port") + 1] == port
        assert filled(row["ports"][-1], GIVEN | more) == f"192.168.1.5:{port}:{port}"


def test_the_gpus_are_handed_in() -> None:
    for path, name in ((DOCKER / "docker-compose.gpu.yml", "anyrig"),
                       (DOCKER / "docker-compose.worker.yml", "worker-gpu")):  # fmt: skip
        row = services(path)[name]
        (device,) = row["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]
        assert (device["driver"], filled(device["count"], {})) == ("nvidia", "all")
    amd = services(DOCKER / "docker-compose.rocm.yml")["anyrig"]
    assert {one.split(":")[0] for one in amd["devices"]} == {"/dev/kfd", "/dev/dri"}
    assert [filled(one, GIVEN) for one in amd["group_add"]] == ["105", "44"]
    intel = services(DOCKER / "docker-compose.xpu.yml")["anyrig"]
    assert intel["devices"] == ["/dev/dri:/dev/dri"]


@pytest.mark.parametrize(
    ("file", "name"),
    [("docker-compose.gpu.yml", "anyrig"), ("docker-compose.worker.yml", "worker-gpu")],
)
def test_what_chooses_a_gpu_is_handed_in(file: str, name: str) -> None:
    """Unset outside is unset inside: an empty CUDA_VISIBLE_DEVICES hides every GPU."""
    given = services(DOCKER / file)[name]["environment"]
    for variable in ("GPU_ID", "WORKER_ID", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF"):
        assert given[variable] is None
    assert given["USE_GPU"] is None or filled(given["USE_GPU"], {"USE_GPU": "no"}) == "no"


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "worker --device all"), ({"USE_GPU": "yes"}, "worker --device all"),
     ({"USE_GPU": "no"}, "worker"), ({"GPU_ID": "1"}, "worker"),
     ({"DEVICE": "cuda:1"}, "worker --device cuda:1")],
)  # fmt: skip
def test_a_worker_in_a_container_takes_what_its_variables_name(
    given: dict[str, str], words: str, tmp_path: Path
) -> None:
    row = services(DOCKER / "docker-compose.worker.yml")["worker-gpu"]
    inside = {name: filled(value, GIVEN | given) if value is not None else given.get(name)
              for name, value in row["environment"].items()}  # fmt: skip
    (tmp_path / "anyrig").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "anyrig").chmod(0o755)
    done = subprocess.run(
        ["sh", str(DOCKER / "entrypoint"), *row["command"]], capture_output=True, text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **{n: v for n, v in inside.items() if v}},
    )  # fmt: skip
    assert done.stdout.strip() == words, done.stderr


@pytest.mark.parametrize(
    ("file", "name", "missing"),
    [("docker-compose.coordinator.yml", "valkey", "VALKEY_PASSWORD"),
     ("docker-compose.coordinator.yml", "coordinator", "COORDINATOR_IP"),
     ("docker-compose.worker.yml", "worker", "REDIS_URL"),
     ("docker-compose.rocm.yml", "anyrig", "RENDER_GROUP")],
)  # fmt: skip
def test_what_must_be_given_has_no_default(file: str, name: str, missing: str) -> None:
    whole = json.dumps(services(DOCKER / file)[name])
    filled(whole, GIVEN)
    with pytest.raises(KeyError, match=missing):
        filled(whole, {key: value for key, value in GIVEN.items() if key != missing})
