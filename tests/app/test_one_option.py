"""One option, defined by one line of a request, reaches every surface."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import pytest

from anyrig.app.jobs import JOB_KINDS
from anyrig.app.rig import Rig
from anyrig.app.settings import SCHEMA, Settings
from anyrig.app.speech import SpeechRequest
from anyrig.cli.flags import add_flags, read_flags
from anyrig.errors import InvalidOptionError, InvalidSettingError, render
from anyrig.options import (
    docs_table,
    json_schema,
    list_options,
    option,
    request_from_json,
    request_to_json,
    settings_table,
)
from anyrig.settings.load import SettingsLoader, SettingsSchema


@dataclass(frozen=True, kw_only=True)
class WhisperedRequest(SpeechRequest):
    """Whispered speech."""

    breath: float = option(0.5, "how breathy", ge=0, le=1, setting="speech.breath")  # all of it


@pytest.fixture
def schema(monkeypatch: pytest.MonkeyPatch) -> SettingsSchema:
    found = SettingsSchema({"speech": [WhisperedRequest]})
    loader = SettingsLoader(found, lambda values: Settings(values, found))
    monkeypatch.setattr("anyrig.app.rig.LOADER", loader)
    return found


def test_flag() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, WhisperedRequest)
    assert "how breathy" in parser.format_help()
    given = read_flags(parser.parse_args(["Hello.", "--breath", "0.9"]), WhisperedRequest)
    assert given == {"text": "Hello.", "breath": 0.9}
    with pytest.raises(InvalidOptionError) as caught:
        parser.parse_args(["Hello.", "--breath", "9"])
    message = render(caught.value.message, "command")
    assert message == "--breath must be a number between 0 and 1, not '9'"


def test_http_schema() -> None:
    assert json_schema(WhisperedRequest, http=True)["properties"]["breath"] == {
        "type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "how breathy",
    }  # fmt: skip


def test_job() -> None:
    stored = request_to_json(WhisperedRequest(text="Hello.", breath=0.9))
    assert stored == {"text": "Hello.", "breath": 0.9}
    assert request_from_json(WhisperedRequest, stored).breath == 0.9
    with pytest.raises(InvalidOptionError):
        request_from_json(WhisperedRequest, {**stored, "breath": "much"})


def test_settings(schema: SettingsSchema, tmp_path: Path) -> None:
    file = tmp_path / "anyrig.toml"
    file.write_text("[speech]\nbreath = 0.2\n")
    rig = Rig(config=file, environment={})
    assert rig.settings.speech.breath == 0.2
    assert rig.request(WhisperedRequest, text="Hello.").breath == 0.2
    assert rig.request(WhisperedRequest, text="Hello.", breath=1.0).breath == 1.0
    louder = Rig(config=file, environment={"ANYRIG_SPEECH_BREATH": "0.8"})
    assert louder.request(WhisperedRequest, text="Hello.").breath == 0.8
    assert louder.describe_origin("speech.breath") == "ANYRIG_SPEECH_BREATH"
    file.write_text("[speech]\nbreath = 2\n")
    with pytest.raises(InvalidSettingError, match=r"speech.breath must be .* 1, not 2 \("):
        Rig(config=file, environment={})


def test_docs(schema: SettingsSchema) -> None:
    row = "| `breath` | `0.5` | how breathy (0 to 1) |"
    assert row in docs_table(list_options(WhisperedRequest).values())
    assert "| `speech.breath` | `0.5` | how breathy (0 to 1) |" in settings_table(schema)


def test_every_option_that_names_a_setting_is_one() -> None:
    requests = {kind.request for kind in JOB_KINDS.values()} | {SpeechRequest}
    pairs = [(option.setting, option) for one in requests for option in list_options(one).values()]
    for key, found in pairs:
        if key:
            assert key in SCHEMA
            assert (found.kind, found.le) == (SCHEMA[key].kind, SCHEMA[key].le), key
