from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.settings import LOADER, Settings
from anyrig.errors import InvalidSettingError, render
from anyrig.settings.load import variable_name
from tests.conftest import MACHINES, Anyrig


def _file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_stronger_sources_win(tmp_path: Path) -> None:
    user = _file(tmp_path / "user.toml", 'device = "cpu"\n[server]\nport = 1\nhost = "a"\n')
    project = _file(tmp_path / "project.toml", "[server]\nport = 2\n")
    dotenv = _file(tmp_path / ".env", "ANYRIG_SERVER_PORT=3\n")
    places: dict[str, Any] = {"user_file": user, "project_file": project, "dotenv": dotenv}
    loaded = LOADER.load({"ANYRIG_SERVER_PORT": "4"}, **places)
    assert loaded.settings.server.port == 4
    assert loaded.settings.server.host == "a"
    assert loaded.settings.device == "cpu"
    assert loaded.origins["server.port"] == ("environment", "ANYRIG_SERVER_PORT")
    assert loaded.origins["device"] == ("settings", str(user))
    assert LOADER.load({}, **places).settings.server.port == 3
    assert LOADER.load({}, user_file=user, project_file=project).settings.server.port == 2


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ('devise = "cpu"', "unknown key 'devise'", "'device'"),
        ("[server]\nprot = 1", "unknown key 'server.prot'", "'server.port'"),
        ("strict = 3.5", "strict must be true or false, not 3.5", "default"),
        ("[server]\nport = 70000", "and 65535, not 70000", "3000"),
        ("device = cpu", "not valid TOML", "quotes"),
        ("device = " + "[" * 3000 + "]" * 3000, "nested too deeply", "quotes"),
        (".".join("a" * 1000) + " = 1", "over 200 dots", "quotes"),
        ("server = 5", "must be a table, not 5", "[server]"),
    ],
)
def test_invalid_file_is_an_error(tmp_path: Path, text: str, words: str, hint: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        LOADER.load({}, project_file=_file(tmp_path / "anyrig.toml", text))
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_unknown_variables_are_warnings(tmp_path: Path) -> None:
    assert "ANYRIG_DEVICE" in LOADER.load({"ANYRIG_DEVCE": "cpu"}).warnings[0]
    assert LOADER.load({"PATH": "/bin", "DEVICE_X": "1"}).warnings == ()
    foreign = "DATABASE_URL=postgres://x\nSERVER_PORT=1\nGPU_IDS=0,1\nmy.key=1\n-----BEGIN KEY\n"
    assert LOADER.load({}, dotenv=_file(tmp_path / "a", foreign)).warnings == ()
    for line in ("ANYRIG_PROT=1", "VIBEVOICE_PRT=1", "ANYRG_DEVICE=cpu", "DIRECTML_DEVISE=1"):
        (warning,) = LOADER.load({}, dotenv=_file(tmp_path / "b", line)).warnings
        assert "unknown variable" in warning


def test_dotenv_syntax(tmp_path: Path) -> None:
    text = "\ufeff# comment\n\nexport ANYRIG_DEVICE='cuda:1' # one\nANYRIG_STRICT=yes # why\n"
    loaded = LOADER.load({}, dotenv=_file(tmp_path / ".env", text))
    assert (loaded.settings.device, loaded.settings.strict) == ("cuda:1", True)
    assert ".env" in loaded.origins["device"][1]
    with pytest.raises(InvalidSettingError, match="line 1"):
        LOADER.load({}, dotenv=_file(tmp_path / "bad", "ANYRIG_DEVICE cpu"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert LOADER.load({}, dotenv=tmp_path / "binary").settings == Settings()
    assert LOADER.load({}, dotenv=tmp_path).settings == Settings()  # a folder of that name


@pytest.mark.parametrize(
    ("variables", "device"),
    [
        ({"USE_GPU": "false"}, "cpu"), ({"USE_GPU": "no"}, "cpu"), ({"USE_GPU": "auto"}, "auto"),
        ({"USE_GPU": "TRUE"}, "gpu"), ({"USE_GPU": "yes", "GPU_ID": "1"}, "1"),
        ({"USE_GPU": "no", "GPU_ID": "1"}, "cpu"), ({"GPU_ID": "0"}, "0"),
        ({"DIRECTML_DEVICE": "1"}, "dml:1"), ({"VIBEVOICE_DEVICE": "cuda:1"}, "cuda:1"),
        ({"VIBEVOICE_DEVICE": "directml", "DIRECTML_DEVICE": "1"}, "dml:1"),
        ({"VIBEVOICE_DEVICE": "auto", "DIRECTML_DEVICE": "0"}, "dml:0"),
        ({"VIBEVOICE_DEVICE": "directml"}, "directml"), ({"USE_GPU": ""}, "auto"),
        ({"GPU_ID": "1", "ANYRIG_DEVICE": "xpu"}, "xpu"),
    ],
)  # fmt: skip
def test_legacy_device_variables(variables: dict[str, str], device: str) -> None:
    assert LOADER.load(variables).settings.device == device


def test_other_legacy_variables() -> None:
    settings = LOADER.load({"VIBEVOICE_MODEL": "models/x", "VIBEVOICE_PORT": "8080"}).settings
    assert (settings.speech.model, settings.server.port) == (Path("models/x"), 8080)
    assert set(LOADER.legacy_variables.values()) <= set(LOADER.schema)


# -- unknown variables -----------------------------------------------------------------------------

KUBERNETES = {
    "ANYRIG_SERVICE_HOST": "10.0.0.1", "ANYRIG_SERVICE_PORT": "8000",
    "ANYRIG_SERVICE_PORT_HTTP": "8000", "ANYRIG_PORT": "tcp://10.0.0.1:8000",
    "ANYRIG_PORT_8000_TCP": "tcp://10.0.0.1:8000", "ANYRIG_PORT_8000_TCP_PROTO": "tcp",
    "ANYRIG_PORT_8000_TCP_PORT": "8000", "ANYRIG_PORT_8000_TCP_ADDR": "10.0.0.1",
    "ANYRIG_SERVER_SERVICE_HOST": "10.0.0.2", "ANYRIG_SERVER_PORT": "tcp://10.0.0.2:80",
    "ANYRIG_SERVER_PORT_53_UDP_ADDR": "10.0.0.2", "VIBEVOICE_PORT": "tcp://10.0.0.3:80",
    "VIBEVOICE_SERVICE_HOST": "10.0.0.3",
}  # fmt: skip


@pytest.mark.parametrize("in_file", [False, True])
def test_kubernetes_service_variables_are_ignored(in_file: bool, tmp_path: Path) -> None:
    lines = "".join(f"{name}={value}\n" for name, value in KUBERNETES.items())
    dotenv = _file(tmp_path / ".env", lines if in_file else "")
    loaded = LOADER.load({} if in_file else KUBERNETES, dotenv=dotenv)
    assert loaded.settings == Settings()
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "line",
    ["GPU_ID=0,1", "GPU_ID=all", "GPU_ID=none", "GPU_ID=-1", "GPU_ID=GPU-8f3", "USE_GPU=perhaps",
     "USE_GPU=2", "DIRECTML_DEVICE=x"],
)  # fmt: skip
def test_foreign_values_of_shared_variables_are_ignored(anyrig_process: Anyrig, line: str) -> None:
    Path(".env").write_text(line + "\n")
    loaded = LOADER.load({}, dotenv=Path(".env"))
    assert loaded.settings == Settings()
    assert loaded.origins == {}
    name, _, value = line.partition("=")
    assert LOADER.load({name: value}).settings == Settings()
    if line == "GPU_ID=0,1":
        assert anyrig_process("devices", "--strict").returncode == 0


def test_invalid_legacy_value_is_a_warning() -> None:
    loaded = LOADER.load({"VIBEVOICE_PORT": "http", "VIBEVOICE_MODEL": "a"})
    assert loaded.settings.server.port == 3000
    assert loaded.settings.speech.model == Path("a")
    assert len(loaded.warnings) == 1
    assert loaded.warnings == ("ignored VIBEVOICE_PORT: 'http' is not a valid server.port",)
    with pytest.raises(InvalidSettingError):
        LOADER.load({"ANYRIG_SERVER_PORT": "http"})


@pytest.mark.parametrize(
    ("file", "own", "hidden"),
    [("CUDA_VISIBLE_DEVICES=1", {}, True), ("export CUDA_VISIBLE_DEVICES='1' # one", {}, True),
     ("CUDA_VISIBLE_DEVICES=", {}, True),
     ("CUDA_VISIBLE_DEVICES=1", {"CUDA_VISIBLE_DEVICES": "0"}, False)],
)  # fmt: skip
def test_dotenv_sets_visible_devices_below_the_environment(
    anyrig_process: Anyrig, file: str, own: dict[str, str], hidden: bool
) -> None:
    Path(".env").write_text(file + "\n")
    words = ("devices", "--json", "--machine", str(MACHINES / "h200-linux.json"))
    done = anyrig_process(*words, environment=own)
    (gpu,) = json.loads(done.stdout)["gpus"]
    assert bool(gpu["blocked"]) == hidden, gpu


def test_dotenv_device_variables_reach_child_processes(anyrig_process: Anyrig) -> None:
    Path(".env").write_text("CUDA_VISIBLE_DEVICES=7\n")
    program = (
        "import os; from anyrig import Rig; rig = Rig()\n"
        "print(os.environ['CUDA_VISIBLE_DEVICES'], rig.environment['CUDA_VISIBLE_DEVICES'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "7 7\n", done.stderr


# -- files in the working directory ----------------------------------------------------------------

RESTRICTED = {
    "log_file": "log.txt", "cluster.broker": "redis://127.0.0.1:1/0",
    "cache.url": "redis://127.0.0.1:1/0", "cache.folder": "here", "server.hosts": "evil.example",
    "server.cors": "https://evil.example", "server.folders": "/", "server.models": "/",
    "server.shared": "*", "server.trusted_proxies": "127.0.0.1",
}  # fmt: skip


def _toml(values: dict[str, str]) -> str:
    lines = []
    for key, value in values.items():
        group, _, name = key.rpartition(".")
        lines.append(f"{key} = '{value}'" if group else f"{name} = '{value}'")
    return "\n".join(sorted(lines, key=lambda line: "." in line.split(" ")[0])) + "\n"


def test_working_directory_files_cannot_set_restricted_settings(tmp_path: Path) -> None:
    """Everything that was ignored is one warning; other settings of the files are used."""
    toml = _file(tmp_path / "anyrig.toml", _toml(RESTRICTED) + "speech.rate = 2\n")
    lines = "".join(f"{variable_name(key)}={value}\n" for key, value in RESTRICTED.items())
    dotenv = _file(tmp_path / ".env", lines + "ANYRIG_STRICT=yes\n")
    user = tmp_path / "user" / "anyrig.toml"
    loaded = LOADER.load({}, user_file=user, project_file=toml, dotenv=dotenv)
    assert loaded.settings == Settings({"speech.rate": 2.0, "strict": True})
    assert set(loaded.origins) == {"speech.rate", "strict"}
    (warning,) = loaded.warnings
    assert all(f"{key} in {toml}" in warning for key in RESTRICTED)
    assert all(f"{variable_name(key)} in {dotenv}" in warning for key in RESTRICTED)
    assert "--config" in render(warning, "command")
    assert str(user) in warning


def test_named_and_user_files_and_environment_set_restricted_settings(tmp_path: Path) -> None:
    toml = _file(tmp_path / "anyrig.toml", _toml(RESTRICTED))
    named: tuple[dict[str, Any], ...] = (
        {"project_file": toml, "project_named": True},
        {"user_file": toml},
        {"user_file": toml, "project_file": tmp_path / "." / "anyrig.toml"},
    )
    for places in named:
        loaded = LOADER.load({}, **places)
        assert loaded.settings.cluster.broker == RESTRICTED["cluster.broker"]
        assert loaded.settings.log_file == "log.txt"
        assert loaded.warnings == ()
    own = LOADER.load({variable_name(key): value for key, value in RESTRICTED.items()}).settings
    assert own.cache.url == RESTRICTED["cache.url"]


def test_restricted_settings() -> None:
    found = {key for key, setting in LOADER.schema.items() if setting.restricted}
    assert found == {
        *RESTRICTED, "documents.llm", "server.behind_proxy", "server.trusted_proxies",
    }  # fmt: skip


def test_broker_from_the_working_directory_is_not_contacted(anyrig_process: Anyrig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        Path("anyrig.toml").write_text(
            f'[cluster]\nbroker = "{address}"\nspread = true\n[cache]\nurl = "{address}"\n'
        )
        Path(".env").write_text(f"ANYRIG_CLUSTER_BROKER={address}\nREDIS_URL={address}\n")
        done = anyrig_process("speak", "Hello.", "--engine", "tone", "-o", "hello.wav")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert "cluster.broker" in done.stderr
    assert "--config" in done.stderr
    assert done.returncode == 0, done.stderr  # spoken locally, without a broker
    assert Path("hello.wav").is_file()


def test_working_directory_file_may_only_tighten_behind_proxy(tmp_path: Path) -> None:
    asks = _file(tmp_path / "asks.toml", "[server]\nbehind_proxy = true\n")
    opens = _file(tmp_path / "opens.toml", "[server]\nbehind_proxy = false\n")
    dotenv = _file(tmp_path / "a.env", "ANYRIG_SERVER_BEHIND_PROXY=yes\n")
    for places in ({"project_file": asks}, {"dotenv": dotenv}):
        loaded = LOADER.load({}, **places)  # type: ignore[arg-type]
        assert loaded.settings.server.behind_proxy
        assert loaded.warnings == ()
    loaded = LOADER.load({}, user_file=asks, project_file=opens)
    assert loaded.settings.server.behind_proxy
    assert "server.behind_proxy" in loaded.warnings[0]


def test_spread_is_ignored_together_with_its_broker(tmp_path: Path) -> None:
    toml = _file(tmp_path / "anyrig.toml", '[cluster]\nbroker = "redis://a/0"\nspread = true\n')
    only = _file(tmp_path / "only.toml", "[cluster]\nspread = true\n")
    dotenv = _file(tmp_path / ".env", "ANYRIG_CLUSTER_BROKER=redis://a/0\n")
    assert not LOADER.load({}, project_file=toml).settings.cluster.spread
    assert not LOADER.load({}, project_file=only, dotenv=dotenv).settings.cluster.spread
    assert LOADER.load({}, project_file=only).settings.cluster.spread
    assert LOADER.load({}, project_file=toml, user_file=only).settings.cluster.spread
    assert LOADER.load({"ANYRIG_CLUSTER_SPREAD": "yes"}, project_file=toml).settings.cluster.spread
    assert LOADER.load({}, project_file=toml, project_named=True).settings.cluster.spread
