"""docs/coming-from.md tells the truth: what it marks as working exists, and the aliases are run."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anyrig.app.settings import LOADER
from anyrig.cli.main import COMMANDS, build_parser
from anyrig.cluster.broker import find_url
from anyrig.devices.doctor import diagnose
from anyrig.devices.machine import Machine
from anyrig.errors import AnyrigError
from anyrig.settings.load import variable_name
from anyrig.speech.engines import engine_class
from tests.conftest import MACHINES, NAMES, ROOT, Anyrig, run_command
from tests.server import conftest as servers

PAGE = ROOT / "docs" / "coming-from.md"


def _rows() -> list[tuple[str, str]]:
    """The old name and what replaces it. What has no replacement stands below the tables."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line != "| old | anyrig |"]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [(old, here) for old, here in cells]


ROWS = _rows()


def test_the_table_is_whole() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^## [A-E]\. ", text, re.MULTILINE)) == 5
    assert len(ROWS) > 135
    for name in ("VIBEVOICE_MODEL", "VIBEVOICE_PORT", "VIBEVOICE_DEVICE", "DIRECTML_DEVICE",
                 "USE_GPU", "GPU_ID", "/config", "/stream", "/health", "/metrics/gpu"):  # fmt: skip
        assert any(name in old for old, _ in ROWS), name
    for old, here in ROWS:
        assert "`" in old
        assert len(here) > 3


# -- what a row names is there ---------------------------------------------------------------------


@lru_cache
def _flags(command: str) -> frozenset[str]:
    """Every flag of a command."""
    module: Any = importlib.import_module(f"anyrig.cli.{command}")
    return frozenset(build_parser(command, module)._option_string_actions)


@lru_cache
def _routes() -> frozenset[str]:
    files = (ROOT / "src" / "anyrig" / "server").rglob("*.py")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return frozenset(re.findall(r'"(/[a-z][\w/{}.-]*)"', text))


def _resolves(dotted: str) -> bool:
    try:
        pkgutil.resolve_name(dotted)
    except (AttributeError, ImportError):
        return False
    return True


def missing(here: str) -> list[str]:
    """What a row names in backticks as ours, and is not there."""
    return [quoted for quoted in re.findall(r"`([^`]+)`", here) if not _is_there(quoted)]


def _is_there(quoted: str) -> bool:
    words = quoted.split()
    name = words[0].split("=")[0]
    if re.match(r"anyrig [a-z]", quoted):
        return words[1] in COMMANDS and not _unknown_flags(words) and not _unknown_options(words)
    if re.match(r"--?[a-z]", name):
        return name in {"-vv"}.union(*(_flags(command) for command in COMMANDS))
    if name.startswith("ANYRIG_"):
        return name in {variable_name(key) for key in LOADER.schema} | {"ANYRIG_CONFIG"}
    if re.fullmatch(r"/[a-z][\w/{}.-]*", quoted):
        return any(route.startswith(quoted) for route in _routes())
    if re.match(r"(deploy|docs)/", quoted):
        return (ROOT / quoted).exists()
    return _resolves(quoted) if re.fullmatch(r"anyrig(\.\w+)+", quoted) else True


def _unknown_flags(words: list[str]) -> list[str]:
    flags = [word.split("=")[0] for word in words[2:] if re.match("--?[a-z]", word)]
    return [flag for flag in flags if flag not in _flags(words[1]) | {"-vv"}]


def _unknown_options(words: list[str]) -> list[str]:
    """Options behind --set that the named engine does not have."""
    if "--engine" not in words:
        return []
    info = engine_class(words[words.index("--engine") + 1]).info
    names = {option.name for option in info.options}
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--set"]
    return [one for one in given if one.split("=")[0] not in names]


def test_everything_that_replaces_an_old_name_is_there() -> None:
    assert {old: found for old, here in ROWS if (found := missing(here))} == {}


# -- the old names, run on recorded machines -------------------------------------------------------

TWO_NVIDIA = "rtx4090-rtxpro6000-wsl2"
DIRECTML = "vega8-directml-windows"
CPU = "Processor"


@pytest.mark.parametrize(
    ("machine", "environment", "words", "chosen"),
    [
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda"}, ["--device", "cpu"], CPU),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda", "ANYRIG_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "false"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "no", "VIBEVOICE_DEVICE": "cuda"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "yes"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"USE_GPU": "auto"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"GPU_ID": "0"}, [], "RTX 4090"),
        (TWO_NVIDIA, {"GPU_ID": "1"}, [], "RTX PRO 6000"),
        (TWO_NVIDIA, {"GPU_ID": "1", "VIBEVOICE_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {}, ["--gpu", "1"], "RTX PRO 6000"),
        (TWO_NVIDIA, {"CUDA_VISIBLE_DEVICES": ""}, [], CPU),
        (DIRECTML, {"DIRECTML_DEVICE": "0"}, [], "Vega 8"),
        (DIRECTML, {"DIRECTML_DEVICE": "0", "VIBEVOICE_DEVICE": "directml"}, [], "Vega 8"),
        (DIRECTML, {"DIRECTML_DEVICE": "0", "VIBEVOICE_DEVICE": "cpu"}, [], "Ryzen"),
        (DIRECTML, {}, ["--device", "dml:0"], "Vega 8"),
        (DIRECTML, {}, ["--device", "directml"], "Vega 8"),
    ],
)  # fmt: skip
def test_an_old_name_chooses_a_device(
    anyrig: Anyrig, machine: str, environment: dict[str, str], words: list[str], chosen: str
) -> None:
    record = str(MACHINES / f"{machine}.json")
    done = anyrig("devices", "--machine", record, "--json", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (id,) = told["choice"]["devices"]
    names = {one["id"]: one["name"] for one in [*told["gpus"], told["cpu_device"]]}
    assert chosen in names[id]


def test_a_dot_env_file_of_the_old_tools_is_read(anyrig: Anyrig) -> None:
    Path(".env").write_text("VIBEVOICE_DEVICE=cpu\nVIBEVOICE_THREADS=4\nDATABASE_URL=x\n")
    record = str(MACHINES / f"{TWO_NVIDIA}.json")
    done = anyrig("devices", "--machine", record, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["choice"]["devices"] == ["cpu"]
    assert "VIBEVOICE_THREADS" in done.stderr  # not known: said, and nothing stops
    assert "DATABASE_URL" not in done.stderr


def test_a_gpu_that_must_be_there_and_is_not_is_an_error(anyrig: Anyrig) -> None:
    record = str(MACHINES / "no-gpu.json")
    done = anyrig("devices", "--machine", record, "--device", "cuda", "--strict")
    assert done.returncode in (2, 3)
    done = anyrig("devices", "--machine", record, "--device", "cuda")
    assert done.returncode == 0


# -- every row is run ------------------------------------------------------------------------------

BOOK = "Chapter one. The rent is due on the first of the month.\n"
NO_ENVIRONMENT = 4
RUN: dict[str, tuple[list[str], int]] = {
    "anyrig book FILE": (["book", "book.txt", "--list"], 0),
    "anyrig book FILE --queue": (["book", "book.txt", "--engine", "tone", "--queue"], 0),
    "anyrig book book.epub --list": (["book", "book.txt", "--list"], 0),
    "anyrig book book.epub --chapters 4-20": (
        ["book", "book.txt", "--chapters", "1-1", "--list"], 0,
    ),
    "anyrig book --rate 1.1": (
        ["book", "book.txt", "--engine", "tone", "--rate", "1.1", "--list"], 0,
    ),
    "anyrig book --verify BOOK.m4b SOURCE": (["book", "--verify", "none.m4b", "book.txt"], 2),
    "anyrig cache": (["cache"], 0),
    "anyrig classify": (["classify", "--text", "x", "--labels", "a,b", "--model", "hashing"], 0),
    "anyrig devices": (["devices"], 0),
    "anyrig devices --json": (["devices", "--json"], 0),
    "anyrig devices --profiles": (["devices", "--profiles", "--machine", f"@{TWO_NVIDIA}"], 0),
    "anyrig devices --device cuda --strict": (
        ["devices", "--device", "cuda", "--strict", "--machine", "@no-gpu"], 3,
    ),
    "anyrig doctor": (["doctor", "--machine", "@no-gpu"], 0),
    "anyrig embed": (["embed", "x", "--model", "hashing", "--json"], 0),
    "anyrig embed --lines": (["embed", "--lines", "lines.txt", "--model", "hashing"], 0),
    "anyrig engines": (["engines"], 0),
    "anyrig engines show indextts": (["engines", "show", "indextts"], 0),
    "anyrig engines show xtts": (["engines", "show", "xtts"], 0),
    "anyrig entities": (["entities", "--text", "Due 12 %.", "--engine", "grammar"], 0),
    "anyrig index": (["index", "docs", "--model", "hashing", "--ocr", "never"], 0),
    "anyrig jobs": (["jobs"], 0),
    "anyrig jobs show ID": (["jobs", "show", "unknown"], 2),
    "anyrig jobs delete ID": (["jobs", "delete", "unknown"], 2),
    "anyrig keys": (["keys"], 0),
    "anyrig search": (["search", "rent", "--mode", "keywords"], 2),
    "anyrig train --resume RUN": (["train", "--resume", "RUN"], 2),
    "anyrig use --list": (["use", "--list"], 0),
    "anyrig use --reset": (["use", "--reset"], 0),
    "anyrig voices": (["voices"], 0),
    **{
        command: (command.split()[1:] + ["Hello."], NO_ENVIRONMENT)
        for command in (
            "anyrig speak --engine indextts", "anyrig speak --engine indextts --precision fp16",
            "anyrig speak --engine indextts --set top_k=30",
            "anyrig speak --engine indextts --set emo_alpha=0.7 --set duration=1.2 --set"
            " max_mel_tokens=800 --set max_text_tokens_per_sentence=100 --seed 3",
            "anyrig speak --engine vibevoice-realtime",
        )
    },
}  # fmt: skip
"""What is run for a command of the page, and its exit code. Of the others, which take long or need
other machines, the help is printed, and `missing` checks their flags."""

client = servers.shared_client
NOT_RUN = re.compile(
    r"not (included|needed|read|accepted)|unchanged|unverified|never run|cannot be"
)
"""A row that says itself what differs."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands of the page name."""
    folder = tmp_path_factory.mktemp("coming-from")
    (folder / "docs").mkdir()
    for name in ("book.txt", "lines.txt", "docs/a.txt"):
        (folder / name).write_text(BOOK, encoding="utf-8")
    return folder


@lru_cache
def run_once(command: str, home: Path) -> str:
    """Run what the page names, once; what is wrong with it, or nothing."""
    words, expected = RUN.get(command, ([command.split()[1], "--help"], 0))
    given = [str(MACHINES / f"{word[1:]}.json") if word[:1] == "@" else word for word in words]
    done = run_command(*given)
    is_parsed = "unrecognized" not in done.stderr and "invalid choice" not in done.stderr
    if done.returncode == expected and is_parsed:
        return ""
    return f"{' '.join(words)}: exit code {done.returncode}, not {expected}: {done.stderr}"


def check_variable(name: str) -> str:
    """What is wrong with a setting's variable that is set, or nothing."""
    key = next((key for key in LOADER.schema if variable_name(key) == name), "")
    default = _get(key, {})
    for value in ("1", "0.5", "off", "cpu", "http://localhost:1", "redis://localhost:6379/1"):
        try:
            if _get(key, {name: value}) != default:
                return ""
        except AnyrigError:
            continue
    return f"{name} changes nothing"


def _get(key: str, environment: dict[str, str]) -> Any:
    settings: Any = LOADER.load(environment).settings
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


def check_route(client: TestClient, route: str) -> str:
    """What is wrong with a route that is requested, or nothing."""
    if route == "/stream":  # a WebSocket: see tests/server/test_serve_stream.py
        return ""
    answers = [client.get(route).status_code, client.post(route, json={}).status_code]
    return "" if any(code not in (404, 405) for code in answers) else f"{route}: {answers}"


@pytest.mark.parametrize(("old", "here"), ROWS, ids=[old[:60] for old, _ in ROWS])
def test_a_row_holds(
    old: str,
    here: str,
    home: Path,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command of the row is run with the fakes, or its help is printed; every variable is
    set, every route requested, every name imported.
    """
    monkeypatch.chdir(home)
    problems = missing(here)
    num_checked = 0
    for quoted in re.findall(r"`([^`]+)`", here):
        if re.match(r"anyrig [a-z]", quoted):
            problems.append(run_once(quoted, home))
        elif quoted.startswith("ANYRIG_"):
            problems.append(check_variable(quoted.partition("=")[0]))
        elif re.fullmatch(r"/[a-z][\w/.-]*", quoted):
            problems.append(check_route(client, quoted))
        elif not re.match(r"(deploy|docs)/|anyrig\.|--?[a-z]", quoted):
            continue
        num_checked += 1
    assert not any(problems), problems
    assert num_checked or NOT_RUN.search(here) or "](" in here or "the extra" in here, here


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("anyrig.training.Trainer", "open fit close"),
        ("anyrig.monitor.Monitor", "start stop latest history on_alert"),
        ("anyrig.precision.policy.PrecisionPolicy", "autocast backward step state_dict"),
    ],
)
def test_a_class_has_what_its_row_names(name: str, attributes: str) -> None:
    one = pkgutil.resolve_name(name)
    assert [word for word in attributes.split() if not hasattr(one, word)] == []


def test_training_options_have_the_names_of_their_rows() -> None:
    from anyrig.precision.settings import ScalerSettings
    from anyrig.training import Trainer
    from anyrig.training.config import LoadingConfig, TrainConfig

    assert {"devices", "loss"} <= set(inspect.signature(Trainer).parameters)
    train = {one.name for one in dataclasses.fields(TrainConfig)}
    assert {"epochs", "learning_rate", "warmup", "batch", "micro_batch", "recompute"} <= train
    assert 0 < TrainConfig().warmup < 1, "a share"
    assert {one.name for one in dataclasses.fields(LoadingConfig)} >= {
        "pin_memory", "num_workers", "prefetch_factor", "persistent_workers",
    }  # fmt: skip
    scaler = ScalerSettings()
    assert (scaler.hysteresis, scaler.floor, scaler.ceiling) == (2, 1, 2**24)
    assert scaler.initial > scaler.growth > scaler.backoff > 0 < scaler.interval


def test_doctor_has_the_checks_that_rows_name(machine: Callable[..., Machine]) -> None:
    found = {one.check for name in NAMES for one in diagnose(machine(name))}
    assert {"wsl", "flash-attention", "nvidia-container", "allocator"} <= found


@pytest.mark.parametrize(
    ("environment", "key", "value"),
    [
        ({"VIBEVOICE_PORT": "3001"}, "server.port", 3001),
        ({"VIBEVOICE_VOICE": "Emma"}, "speech.voice", "Emma"),
        ({"VIBEVOICE_MODEL": "owner/name"}, "speech.model", Path("owner/name")),
        ({"VIBEVOICE_DEVICE": "cpu"}, "device", "cpu"),
        ({"GPU_ID": "1"}, "device", "1"),
        ({"GPU_ID": "0,1"}, "device", "auto"),
        ({"USE_GPU": "perhaps"}, "device", "auto"),
        ({"DIRECTML_DEVICE": "2"}, "device", "dml:2"),
        ({"DIRECTML_DEVICE": "x"}, "device", "auto"),
        ({"DIRECTML_DEVICE": "2", "VIBEVOICE_DEVICE": "auto"}, "device", "dml:2"),
        ({"DIRECTML_DEVICE": "2", "VIBEVOICE_DEVICE": "cuda"}, "device", "cuda"),
    ],
)  # fmt: skip
def test_an_old_variable_is_read(environment: dict[str, str], key: str, value: Any) -> None:
    assert _get(key, environment) == value


@pytest.mark.parametrize(
    "name",
    ["GPU_ENABLED", "TORCH_DEVICE", "VOICE_PRESET", "WORKER_GPU_ID", "MODEL_PATH", "MODEL_DEVICE",
     "CELERY_BROKER_URL", "CELERY_RESULT_BACKEND", "EMBEDDING_MODEL", "LOG_LEVEL"],
)  # fmt: skip
def test_an_old_variable_that_is_not_read_changes_nothing(name: str) -> None:
    assert LOADER.load({name: "1"}).settings == LOADER.load({}).settings
    assert find_url({name: "redis://elsewhere:6379/0"}) == find_url({})


def test_old_variables_name_the_broker() -> None:
    assert find_url({"REDIS_URL": "redis://one:6379/0"}) == "redis://one:6379/0"
    assert find_url({"COORDINATOR_IP": "10.0.0.1"}).startswith("redis://10.0.0.1:6379")
    with_password = find_url({"COORDINATOR_IP": "10.0.0.1", "REDIS_PASSWORD": "word"})
    assert with_password.startswith("redis://:word@10.0.0.1:6379")
