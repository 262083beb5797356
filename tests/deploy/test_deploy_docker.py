"""Dockerfile and compose files: linted, whole, safe, of the project's versions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from anyrig.app.settings import LOADER
from anyrig.cli.main import parse_command_line
from anyrig.devices.machine import TORCH_INDEX_URL
from anyrig.devices.nvidia import ONNX_RELEASES, find_onnx_gpu_build
from anyrig.devices.vendors import SOURCES
from anyrig.devices.wheels import list_onnx_packages
from anyrig.settings.load import variable_name
from anyrig.version import __version__
from tests.conftest import ROOT
from tests.deploy import files
from tests.deploy.files import COMPOSE, DOCKER, TARGETS, filled, services

INSTALL = DOCKER / "install"
_PROJECT = tomllib.loads(files.text(ROOT / "pyproject.toml"))["project"]


def tool(name: str) -> str:
    """A program that a package of the tests brings."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} has no wheel for this machine")
    return found


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [tool("hadolint"), "--failure-threshold", "style", str(DOCKER / "Dockerfile")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_whole(target: str, tmp_path: Path) -> None:
    rows = files.lineage(target)
    last = {word: rest for word, rest in rows if word not in ("COPY", "RUN", "ENV", "ARG")}
    assert last["USER"] == "10001:10001"
    assert last["ENTRYPOINT"] == '["/usr/local/lib/anyrig/entrypoint"]'
    assert last["CMD"] == '["serve"]'
    assert last["EXPOSE"] == "3000"
    assert last["WORKDIR"] == "/data"
    assert "healthcheck.py" in last["HEALTHCHECK"]
    assert f'version="{__version__}-{target}"' in last["LABEL"]
    assert ("COPY", f"--from=build-{target} /opt/anyrig /opt/anyrig") in rows
    # Made and run on the same base: an environment is of one Python.
    made = files.lineage(f"build-{target}")
    assert made[0][1].split(" AS ")[0] == rows[0][1].split(" AS ")[0]
    wanted, *more = [rest for word, rest in made if word == "ARG"]
    # Or a --build-arg of that name would be ignored.
    assert more == ["ANYRIG_EXTRAS=", "ANYRIG_LANGUAGES=yes", "ONNX_RUNTIME=cpu"]
    default = wanted.removeprefix("TORCH_VERSION=")
    assert default.startswith(target)
    (torch,) = [rest for word, rest in made if word == "RUN" and "install torch" in rest]
    assert torch.endswith(f'./install torch "${{TORCH_VERSION}}" {target}')
    assert _build(default, tmp_path, target=target).returncode == 0


def test_bases_are_named_by_exact_versions() -> None:
    given = dict(
        rest.split("=", 1) for word, rest in files.instructions()
        if word == "ARG" and rest.split("=")[0].endswith("_IMAGE")
    )  # fmt: skip
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", given["PYTHON_IMAGE"])
    assert re.fullmatch(r"ubuntu:[a-z]+-\d{8}", given["XPU_IMAGE"])
    own = {f"${{{name}}}" for name in given} | set(files.stages())
    for rows in files.stages().values():
        assert rows[0][1].split(" AS ")[0] in own
    # A Python that the project names as one of its own.
    minor = re.findall(r"python:(3\.\d+)", given["PYTHON_IMAGE"])[0]
    assert f"Programming Language :: Python :: {minor}" in _PROJECT["classifiers"]


def test_what_is_copied_passes_dockerignore() -> None:
    sources: set[str] = set()
    for word, rest in files.instructions():
        if word == "COPY" and "--from" not in rest:
            sources |= {one.removeprefix("./") for one in rest.split()[:-1]}
    lines = files.text(ROOT / ".dockerignore").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


def test_variables_are_known() -> None:
    """An ANYRIG_ variable that is no setting would be a warning of every command."""
    known = {variable_name(key) for key in LOADER.schema} | {
        "ANYRIG_CONFIG", "ANYRIG_CONTAINER", "ANYRIG_BEATS", "ANYRIG_PREFIX",
        "ANYRIG_CONSTRAINTS", "ANYRIG_EXTRAS", "ANYRIG_LANGUAGES",
    }  # fmt: skip
    paths = [path for path in files.DEPLOY.rglob("*") if path.is_file()]
    assert len(paths) > 20
    for path in paths:
        for name in re.findall(r"(?<!\$env:)\bANYRIG_[A-Z_]+\b", files.text(path)):
            assert name in known, f"{path}: {name}"


def test_versions_are_those_of_the_project() -> None:
    for path in (*files.COMPOSE, *files.MANIFESTS, DOCKER / "Dockerfile"):
        for found in re.findall(r"anyrig:(\d[\w.]*)-(?:cpu|cuda|rocm|xpu)", files.text(path)):
            assert found == __version__, path
    page = files.text(ROOT / "docs" / "deploy.md")
    assert set(re.findall(r"anyrig:(\d[\w.]*)-", page)) == {__version__}


# -- what the Dockerfile runs ----------------------------------------------------------------------


def _build(
    version: str, folder: Path, found: str = "", target: str = ""
) -> subprocess.CompletedProcess[str]:
    """`install torch`, with a python3 that writes down what it is asked for."""
    flavour = {"cuda130": "cu130", "cuda126": "cu126", "rocm": "rocm7.2"}.get(version, version)
    (folder / "bin").mkdir(exist_ok=True)
    made = folder / "opt"
    fake = folder / "bin" / "python3"
    fake.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {folder}/asked\n'
        f'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp {fake} "$3/bin/python"; fi\n'
        f'if [ "$1" = -c ]; then echo "{found or "2.13.0+" + flavour}"; fi\n'
        'case "$1$2" in -c*${LACKS:-nothing}*) exit 1 ;; esac\n'
    )
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                   "ANYRIG_PREFIX": str(made), "ANYRIG_CONSTRAINTS": "pins.txt"}  # fmt: skip
    done = subprocess.run(
        [str(INSTALL), "torch", version, *([target] if target else [])],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    if not (folder / "asked").exists():
        (folder / "asked").write_text("")
    return done


@pytest.mark.parametrize(
    ("version", "flavour"),
    [("cpu", "cpu"), ("cuda126", "cu126"), ("rocm", "rocm7.2"), ("xpu", "xpu")],
)
def test_torch_comes_from_its_own_index_as_pinned(
    version: str, flavour: str, tmp_path: Path
) -> None:
    done = _build(version, tmp_path)
    assert done.returncode == 0, done.stderr
    pip = (tmp_path / "asked").read_text().splitlines()[1]
    assert pip.startswith("-m pip install")
    assert f"--extra-index-url {TORCH_INDEX_URL}/{flavour} torch" in pip
    assert "-c pins.txt" in pip


def test_another_build_than_the_wanted_one_is_an_error(tmp_path: Path) -> None:
    """PyPI has a torch too: 3 GB with CUDA, where the CPU's was wanted."""
    done = _build("cpu", tmp_path, found="2.13.0")
    assert done.returncode == 1
    assert "torch 2.13.0 was found, and no build for cpu" in done.stderr


@pytest.mark.parametrize("version", ["cuda128", "cuda", ""])
def test_builds_that_are_not_there_are_refused(version: str, tmp_path: Path) -> None:
    done = _build(version, tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "asked").read_text() == ""
    if version.startswith("cuda1"):
        assert f"TORCH_VERSION={version} cannot be had" in done.stderr
        assert "cuda126" in done.stderr


@pytest.mark.parametrize(
    ("version", "target"),
    [("cuda126", "cpu"), ("none", "cuda"), ("rocm7.2", "cuda")],
)
def test_a_target_takes_no_build_of_another(version: str, target: str, tmp_path: Path) -> None:
    """One TORCH_VERSION over several services would put CUDA's torch into the image for CPUs."""
    done = _build(version, tmp_path, target=target)
    assert done.returncode == 2
    assert f"TORCH_VERSION={version} cannot be had: it is no build for the target" in done.stderr
    assert (tmp_path / "asked").read_text() == ""


def _rest(version: str, folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """`install anyrig`, over an environment that writes down what it is asked for."""
    assert _build(version, folder).returncode == 0
    program = folder / "opt" / "bin" / "anyrig"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\necho anyrig 0\n")
    program.chmod(0o755)
    return subprocess.run(
        [str(INSTALL), "anyrig", version], capture_output=True, text=True,
        env={**os.environ, "ANYRIG_PREFIX": str(folder / "opt"), **given},
    )  # fmt: skip


def test_the_rest_is_installed_as_pinned(tmp_path: Path) -> None:
    documents = "cluster,ocr,entities"  # scans and names are read in every image
    languages = "nanotts,multilingual"
    for given, spoken, version, extras in (
        ("", "yes", "none", f"{documents},{languages}"),
        ("voices", "no", "cpu", f"torch,{documents},voices"),
    ):
        done = _rest(version, tmp_path, ANYRIG_EXTRAS=given, ANYRIG_LANGUAGES=spoken)
        assert done.returncode == 0, done.stderr
        pip = (tmp_path / "asked").read_text().splitlines()[-1]
        assert pip.endswith(f"-c constraints.txt .[{extras}]")
        # ONNX models stay on the CPU unless it is asked for: one core was twice as fast as an H200.
        assert "onnxruntime" not in (tmp_path / "asked").read_text()
        assert set(extras.split(",")) <= set(_PROJECT["optional-dependencies"])


@pytest.mark.parametrize(
    ("version", "package", "provider"),
    [("cuda130", "onnxruntime-gpu==1.31.1", "CUDAExecutionProvider"),
     ("cuda126", "onnxruntime-gpu==1.26.0", "CUDAExecutionProvider"),
     ("xpu", "onnxruntime-openvino==1.24.1", "OpenVINOExecutionProvider")],
)  # fmt: skip
def test_an_onnx_runtime_that_drives_the_gpu_is_looked_at(
    version: str, package: str, provider: str, tmp_path: Path
) -> None:
    assert _rest(version, tmp_path, ONNX_RUNTIME="gpu").returncode == 0
    uninstall, install, look, *more = (tmp_path / "asked").read_text().splitlines()[-4:]
    assert uninstall == "-m pip uninstall -y onnxruntime"  # all of them write the same files
    assert install.endswith(f"-c constraints.txt {package}")
    assert look.startswith("-c import sys, onnxruntime")
    assert more == [f"sys.exit('{provider}' not in found.get_available_providers())"]
    name, number = package.split("==")
    assert provider in list_onnx_packages(SOURCES)[name]
    if version.startswith("cuda"):  # of torch's CUDA, and what `anyrig doctor` says of such a card
        cuda, kernels = find_onnx_gpu_build(number, arm=False, windows=False)
        assert version.removeprefix("cuda").startswith(cuda.partition(".")[0])
        assert kernels
        assert number in {release for _, release in ONNX_RELEASES}
    # One that came without it stops the build.
    done = _rest(version, tmp_path, ONNX_RUNTIME="gpu", LACKS=provider)
    assert (done.returncode, done.stderr) == (1, f"{package} is installed and has no {provider}.\n")


@pytest.mark.parametrize(
    ("version", "asked"), [("cpu", "gpu"), ("rocm7.2", "gpu"), ("cuda130", "tpu")]
)
def test_an_onnx_runtime_that_is_not_there_is_refused(
    version: str, asked: str, tmp_path: Path
) -> None:
    done = _rest(version, tmp_path, ONNX_RUNTIME=asked)
    assert done.returncode == 2
    assert f"ONNX_RUNTIME={asked} cannot be had with TORCH_VERSION={version}" in done.stderr
    assert ".[" not in (tmp_path / "asked").read_text()  # nothing was fetched


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


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_schema(path: Path, schema: Any) -> None:
    found = yaml.safe_load(files.text(path))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(found)] == []


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
        f"TORCH_VERSION={default}", "ANYRIG_EXTRAS=", "ANYRIG_LANGUAGES=yes", "ONNX_RUNTIME=cpu",
    ]  # fmt: skip
    assert filled(build["args"]["ANYRIG_EXTRAS"], {"ANYRIG_EXTRAS": "voices"}) == "voices"
    words = [filled(word, GIVEN) for word in row["command"]]
    assert parse_command_line(words)  # anyrig knows the command and its flags
    test = row["healthcheck"]["test"]
    assert test[1:3] == ["python", "/usr/local/lib/anyrig/healthcheck.py"]
    assert test[3] == {"serve": "server"}.get(words[0], words[0])


@pytest.mark.parametrize(("path", "name"), ALL, ids=lambda one: getattr(one, "name", one))
def test_settings_are_passed_on(path: Path, name: str) -> None:
    """Each is set inside if it is set outside, and only then: an empty one would be a setting."""
    row = services(path)[name]
    if not row["image"].startswith("valkey/"):
        for key in LOADER.schema:
            if key not in ("server.host", "server.port"):  # decided by the image and PORT
                assert row["environment"][variable_name(key)] is None


def test_the_port_is_3000_unless_it_is_changed() -> None:
    row = services(DOCKER / "docker-compose.yml")["anyrig"]
    for given, port in (({}, "3000"), ({"PORT": "8080"}, "8080")):
        assert filled(row["environment"]["PORT"], given) == port
        assert filled(row["ports"][0], given) == f"127.0.0.1:{port}:{port}"
    assert filled(row["ports"][0], {"PUBLISH": "0.0.0.0"}) == "0.0.0.0:3000:3000"


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
    [({}, "worker --device all"), ({"USE_GPU": "no"}, "worker"), ({"GPU_ID": "1"}, "worker"),
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
