"""The Dockerfile: linted, whole, and of the versions that the project has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from anyrig.app.settings import LOADER
from anyrig.devices.machine import TORCH_INDEX_URL
from anyrig.devices.nvidia import ONNX_RELEASES
from anyrig.devices.wheels import ONNX_PACKAGES, find_onnx_gpu_build
from anyrig.settings.load import variable_name
from anyrig.speech.engines import OWN, engine_class
from anyrig.version import __version__
from tests.conftest import ROOT
from tests.deploy import files
from tests.deploy.files import DOCKER, TARGETS

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


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nRUN cd /tmp && sudo true\n")
    assert subprocess.run([tool("hadolint"), str(bad)], capture_output=True).returncode == 1


def test_every_target_is_there_and_cpu_is_the_last() -> None:
    found = files.stages()
    assert set(TARGETS) <= set(found)
    assert list(found)[-1] == "cpu"  # what is built when no target is named


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
    assert more == ["ANYRIG_EXTRAS=", "ONNX_RUNTIME=cpu"]
    default = wanted.removeprefix("TORCH_VERSION=")
    assert default.startswith(target)
    (torch,) = [rest for word, rest in made if word == "RUN" and "install torch" in rest]
    assert torch.endswith(f'./install torch "${{TORCH_VERSION}}" {target}')
    assert _build(default, tmp_path, target=target).returncode == 0


def test_every_target_has_the_same_environment() -> None:
    plain = files.variables("cpu")
    assert files.variables("rocm") == files.variables("xpu") == plain
    more = files.variables("cuda").items() - plain.items()
    assert dict(more) == {
        "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }  # fmt: skip
    assert plain["PORT"] == "3000"
    assert plain["ANYRIG_CONTAINER"] == "1"
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        assert plain[name].startswith("/data")


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
        "ANYRIG_CONSTRAINTS", "ANYRIG_EXTRAS",
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


def test_the_page_says_of_every_voice_where_it_runs() -> None:
    page = files.text(ROOT / "docs" / "deploy.md").partition("### Which voices use the GPU")[2]
    on_gpu, on_cpu = page.split("For the default voice")[0].split("use the GPU of their image.")
    for name in OWN:
        spec = engine_class(name).spec
        if name == "tone":  # of the tests
            continue
        uses_torch = spec.gpu and "torch" in spec.libraries
        assert (name in on_gpu) == uses_torch, name
        assert (name in on_cpu) == (not uses_torch or "onnx" in spec.libraries), name


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
    [("cpu", "cpu"), ("cuda130", "cu130"), ("cuda126", "cu126"), ("rocm", "rocm7.2"),
     ("rocm7.2", "rocm7.2"), ("xpu", "xpu")],
)  # fmt: skip
def test_torch_comes_from_its_own_index_as_pinned(
    version: str, flavour: str, tmp_path: Path
) -> None:
    done = _build(version, tmp_path)
    assert done.returncode == 0, done.stderr
    pip = (tmp_path / "asked").read_text().splitlines()[1]
    assert pip.startswith("-m pip install")
    assert f"--extra-index-url {TORCH_INDEX_URL}/{flavour} torch" in pip
    assert "-c pins.txt" in pip


def test_no_torch_is_a_build_too(tmp_path: Path) -> None:
    assert _build("none", tmp_path).returncode == 0
    assert (tmp_path / "asked").read_text().splitlines() == [f"-m venv {tmp_path}/opt"]


def test_another_build_than_the_wanted_one_is_an_error(tmp_path: Path) -> None:
    """PyPI has a torch too: 3 GB with CUDA, where the CPU's was wanted."""
    done = _build("cpu", tmp_path, found="2.13.0")
    assert done.returncode == 1
    assert "torch 2.13.0 was found, and no build for cpu" in done.stderr


@pytest.mark.parametrize("version", ["cuda118", "cuda124", "cuda128", "cuda", "12.4", ""])
def test_builds_that_are_not_there_are_refused(version: str, tmp_path: Path) -> None:
    done = _build(version, tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "asked").read_text() == ""
    if version.startswith("cuda1"):
        assert f"TORCH_VERSION={version} cannot be had" in done.stderr
        assert "cuda126" in done.stderr


@pytest.mark.parametrize(
    ("version", "target"),
    [("cuda126", "cpu"), ("cpu", "cuda"), ("none", "cuda"), ("rocm7.2", "cuda"), ("xpu", "cpu")],
)
def test_a_target_takes_no_build_of_another(version: str, target: str, tmp_path: Path) -> None:
    """One TORCH_VERSION over several services would put CUDA's torch into the image for CPUs."""
    done = _build(version, tmp_path, target=target)
    assert done.returncode == 2
    assert f"TORCH_VERSION={version} cannot be had: it is no build for the target" in done.stderr
    assert (tmp_path / "asked").read_text() == ""


def test_the_pins_are_for_a_torch_that_these_builds_have() -> None:
    """`install` says that CUDA 12.8 ended with 2.11, and doctor that CUDA 12.6 ends with 2.14."""
    (pin,) = re.findall(r"^torch==(\d+)\.(\d+)", files.text(ROOT / "constraints.txt"), re.MULTILINE)
    assert (2, 11) < tuple(map(int, pin)) < (2, 15)


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
    for given, version, extras in (
        ("", "cpu", f"torch,{documents}"), ("", "none", documents),
        ("voices", "cpu", f"torch,{documents},voices"), ("voices", "none", f"{documents},voices"),
    ):  # fmt: skip
        done = _rest(version, tmp_path, ANYRIG_EXTRAS=given)
        assert done.returncode == 0, done.stderr
        pip = (tmp_path / "asked").read_text().splitlines()[-1]
        assert pip.endswith(f"-c constraints.txt .[{extras}]")
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
    assert provider in ONNX_PACKAGES[name]
    if version.startswith("cuda"):  # of torch's CUDA, and what `anyrig doctor` says of such a card
        cuda, kernels = find_onnx_gpu_build(number, arm=False, windows=False)
        assert version.removeprefix("cuda").startswith(cuda.partition(".")[0])
        assert kernels
        assert number in {release for _, release in ONNX_RELEASES}
    # One that came without it stops the build.
    done = _rest(version, tmp_path, ONNX_RUNTIME="gpu", LACKS=provider)
    assert (done.returncode, done.stderr) == (1, f"{package} is installed and has no {provider}.\n")


@pytest.mark.parametrize("version", ["none", "cpu", "cuda126", "cuda130", "rocm7.2", "xpu"])
def test_unless_it_is_asked_for_onnx_models_stay_on_the_cpu(version: str, tmp_path: Path) -> None:
    """The default voice among them: one core of a CPU was twice as fast as an H200."""
    assert _rest(version, tmp_path).returncode == 0
    assert "onnxruntime" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("version", "asked"), [("none", "gpu"), ("cpu", "gpu"), ("rocm7.2", "gpu"), ("cuda130", "tpu")]
)
def test_an_onnx_runtime_that_is_not_there_is_refused(
    version: str, asked: str, tmp_path: Path
) -> None:
    done = _rest(version, tmp_path, ONNX_RUNTIME=asked)
    assert done.returncode == 2
    assert f"ONNX_RUNTIME={asked} cannot be had with TORCH_VERSION={version}" in done.stderr
    assert ".[" not in (tmp_path / "asked").read_text()  # nothing was fetched
