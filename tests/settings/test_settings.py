from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import BadSetting
from anyrig.settings import Settings, folders, load, saved
from anyrig.settings.load import ALIASES, keys, variable


def _file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    loaded = load({})
    assert loaded.settings == Settings()
    assert loaded.settings.server.port == 3000
    assert loaded.origins == {}


def test_the_order_of_places(tmp_path: Path) -> None:
    user = _file(tmp_path / "user.toml", 'device = "cpu"\n[server]\nport = 1\nhost = "a"\n')
    project = _file(tmp_path / "project.toml", "[server]\nport = 2\n")
    dotenv = _file(tmp_path / ".env", "ANYRIG_SERVER_PORT=3\n")
    places = {"user_file": user, "project_file": project, "dotenv": dotenv}
    loaded = load({"ANYRIG_SERVER_PORT": "4"}, **places)
    assert loaded.settings.server.port == 4
    assert loaded.settings.server.host == "a"
    assert loaded.settings.device == "cpu"
    assert loaded.origins["server.port"] == ("environment", "ANYRIG_SERVER_PORT")
    assert loaded.origins["device"] == ("settings", str(user))
    assert load({}, **places).settings.server.port == 3
    assert load({}, user_file=user, project_file=project).settings.server.port == 2


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ('devise = "cpu"', "unknown key 'devise'", "'device'"),
        ("[server]\nprot = 1", "unknown key 'server.prot'", "'server.port'"),
        ("[sever]\nport = 1", "unknown key 'sever.port'", "'server.port'"),
        ("strict = 3.5", "strict = 3.5", "true or false"),
        ('[server]\nport = "x"', "server.port = 'x'", "whole number"),
        ("[server]\nport = 70000", "70000", "65535"),
        ("device = [1]", "device = [1]", "text"),
        ("device = cpu", "not TOML", "quotes"),
        ('[server]\nport = "--5"', "server.port = '--5'", "whole number"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, text: str, words: str, hint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load({}, project_file=_file(tmp_path / "anyrig.toml", text))
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_unknown_names_of_ours_are_refused_and_others_are_not(tmp_path: Path) -> None:
    with pytest.raises(BadSetting) as caught:
        load({"ANYRIG_DEVCE": "cpu"})
    assert "'ANYRIG_DEVICE'" in caught.value.hint
    load({"PATH": "/bin", "DEVICE_X": "1"})
    foreign = "DATABASE_URL=postgres://x\nSERVER_PORT=1\nGPU_IDS=0,1\nmy.key=1\n-----BEGIN KEY\n"
    load({}, dotenv=_file(tmp_path / "a", foreign))
    for line in ("ANYRIG_PROT=1", "VIBEVOICE_PRT=1", "ANYRG_DEVICE=cpu", "DIRECTML_DEVISE=1"):
        with pytest.raises(BadSetting, match="unknown variable"):
            load({}, dotenv=_file(tmp_path / "b", line))


def test_a_dotenv_file(tmp_path: Path) -> None:
    text = "\ufeff# comment\n\nexport ANYRIG_DEVICE='cuda:1' # one\nANYRIG_STRICT=yes # why\n"
    loaded = load({}, dotenv=_file(tmp_path / ".env", text))
    assert (loaded.settings.device, loaded.settings.strict) == ("cuda:1", True)
    assert ".env" in loaded.origins["device"][1]
    with pytest.raises(BadSetting, match="line 1"):
        load({}, dotenv=_file(tmp_path / "bad", "ANYRIG_DEVICE cpu"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert load({}, dotenv=tmp_path / "binary").settings == Settings()
    assert load({}, dotenv=tmp_path).settings == Settings()  # a folder of that name


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
def test_the_old_names_of_a_device(variables: dict[str, str], device: str) -> None:
    assert load(variables).settings.device == device


@pytest.mark.parametrize(
    "variables", [{"USE_GPU": "perhaps"}, {"GPU_ID": "first"}, {"DIRECTML_DEVICE": "x"}]
)
def test_old_names_with_nonsense(variables: dict[str, str]) -> None:
    with pytest.raises(BadSetting):
        load(variables)


def test_the_other_old_names() -> None:
    settings = load({"VIBEVOICE_MODEL": "models/x", "VIBEVOICE_PORT": "8080"}).settings
    assert (settings.speech.model, settings.server.port) == ("models/x", 8080)
    assert set(ALIASES.values()) <= set(keys())


def test_every_key_has_a_variable() -> None:
    assert variable("server.port") == "ANYRIG_SERVER_PORT"
    assert len({variable(key) for key in keys()}) == len(keys())


@pytest.mark.parametrize(
    ("platform", "environment", "config", "cache"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config/anyrig", "/h/.cache/anyrig"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"}, "/c/anyrig",
         "/k/anyrig"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/anyrig",
         "/h/Library/Caches/anyrig"),
        ("win32", {"USERPROFILE": "/u", "APPDATA": "/r", "LOCALAPPDATA": "/l"}, "/r/anyrig",
         "/l/anyrig/Cache"),
    ],
)  # fmt: skip
def test_folders(platform: str, environment: dict[str, str], config: str, cache: str) -> None:
    found = folders(environment, platform)
    assert (found.config, found.cache) == (Path(config), Path(cache))


def test_a_user_without_a_home_has_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert folders({}, "linux").config.name == "anyrig"


def test_a_choice_is_kept_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "choice.json"
    assert saved.load(path) is None
    saved.save(path, saved.SavedChoice("GPU-1", "card"))
    assert saved.load(path) == saved.SavedChoice("GPU-1", "card")
    assert saved.forget(path)
    assert not saved.forget(path)
    path.write_text("{")
    with pytest.raises(BadSetting) as caught:
        saved.load(path)
    assert "--reset" in caught.value.hint
