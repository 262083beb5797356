"""Every way in follows one rule for a device that is not there.

DirectML is on no Linux host, whatever GPUs it has: `directml` is a kind that is absent, `dml:0` one
device that is.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig.cli.main import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="DirectML may be here")
Run = Callable[..., tuple[int, str]]
COMPUTING = {
    "speak": ("speak", "Hello.", "--engine", "tone", "-o", "out.wav", "--no-bench"),
    "embed": ("embed", "a text", "--no-bench", "--no-cache"),
    "devices": ("devices",),
    "doctor": ("doctor", "--no-kernels"),
    "top": ("top", "--once", "--interval", "0.2"),
    "use": ("use",),
}
ABSENT_KIND = "no DirectML device found"
ABSENT_ONE = "no device matches 'dml:0'"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """A command in this process: its exit code and what it wrote to both streams."""

    def run(*words: str) -> tuple[int, str]:
        code = main([*words])
        out, err = capfd.readouterr()
        return code, out + err

    return run


def _named(command: str, word: str) -> tuple[str, ...]:
    words = COMPUTING[command]
    return (*words, word) if command == "use" else (*words, "--device", word)


@pytest.mark.parametrize("command", COMPUTING)
def test_a_kind_on_the_command_line(run: Run, command: str) -> None:
    code, text = run(*_named(command, "directml"))
    assert code == 0, text
    assert text.count("warning: ") == text.count(f"warning: {ABSENT_KIND}") == 1
    code, text = run(*_named(command, "directml"), "--strict")
    assert code == 3, text
    assert f"error: {ABSENT_KIND}" in text


@pytest.mark.parametrize("command", COMPUTING)
def test_one_device_on_the_command_line(run: Run, command: str) -> None:
    for word in ("dml:0", "97", "GPU-ffffffff", "no such card"):
        code, text = run(*_named(command, word))
        assert code == 2, text
        assert f"error: no device matches {word!r}" in text
        assert "Devices: " in text


@pytest.mark.parametrize("command", ["devices", "speak", "embed"])
@pytest.mark.parametrize("in_file", [False, True])
def test_variables_of_ours(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, in_file: bool
) -> None:
    def put(value: str) -> None:
        if in_file:
            Path(".env").write_text(f"ANYRIG_DEVICE={value}\n")
        else:
            monkeypatch.setenv("ANYRIG_DEVICE", value)

    put("directml")
    code, text = run(*COMPUTING[command])
    assert (code, text.count(f"warning: {ABSENT_KIND}")) == (0, 1)
    assert run(*COMPUTING[command], "--strict")[0] == 3
    put("dml:0")
    code, text = run(*COMPUTING[command])
    assert code == 2
    assert f"error: {ABSENT_ONE} (requested by ANYRIG_DEVICE" in text


@pytest.mark.parametrize("command", ["devices", "speak", "embed"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [("GPU_ID", "97"), ("DIRECTML_DEVICE", "0"), ("CUDA_VISIBLE_DEVICES", "97")],
)  # fmt: skip
def test_variables_of_other_tools_warn(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    code, text = run(*COMPUTING[command])
    assert code == 0, text
    assert text.count("warning:") == 1
    assert variable in text
    code, text = run(*COMPUTING[command], "--strict")
    assert code in (2, 3)
    assert "error:" in text


# -- what runs on ----------------------------------------------------------------------------------


def _served(*words: str) -> tuple[int, str, str]:
    """A server that is stopped as soon as it says that it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "serve", "--port", "0", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    if first:
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    return process.returncode, first, errors


def test_a_server_follows_the_rule_before_it_listens() -> None:
    code, first, errors = _served("--device", "dml:0")
    assert (code, first) == (2, "")
    assert f"error: {ABSENT_ONE}" in errors
    assert _served("--device", "directml", "--strict")[0] == 3


def test_a_server_serves_on_the_cpu_where_the_kind_is_absent() -> None:
    code, first, errors = _served("--device", "directml")
    assert first, errors
    assert code == 0
    assert errors.count(ABSENT_KIND) == 1


# -- training, and Python --------------------------------------------------------------------------

CONFIG = """
[task]
kind = "language"
text = "tide.txt"
model = { preset = "tiny", layers = 1, width = 16, heads = 2, context = 16 }
context = 16
sample = 8
[train]
batch = 4
micro_batch = 4
steps = 1
precision = "fp32"
loading.num_workers = 0
"""


def test_training_follows_the_rule(run: Run) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    Path("tide.txt").write_text("The tide came in and went out.\n" * 99, encoding="utf-8")
    Path("tide.toml").write_text(CONFIG, encoding="utf-8")
    words = ("train", "tide.toml", "--no-bench")
    for word, code in (("dml:0", 2), ("97", 2)):
        assert run(*words, "--run", "a", "--device", word)[0] == code
    assert run(*words, "--run", "a", "--device", "directml", "--strict")[0] == 3
    code, text = run(*words, "--run", "b", "--device", "directml")
    assert code == 0, text
    assert text.count(ABSENT_KIND) == 1


def _trainer(**options: Any) -> Any:
    import torch
    from torch import nn

    from anyrig.training import Trainer

    rows = [(torch.zeros(2), torch.zeros(1)) for _ in range(4)]
    return Trainer(
        nn.Linear(2, 1), data=rows, loss=lambda model, batch: model(batch[0]).mean(), **options
    )


def test_a_trainer_in_python_follows_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch")
    from anyrig.errors import DeviceNotFoundError

    with caplog.at_level(logging.WARNING):
        trainer = _trainer(device="directml")
        assert trainer.open().device.type == "cpu"
        trainer.close()
    told = [record.message for record in caplog.records if ABSENT_KIND in record.message]
    assert told == [f"{ABSENT_KIND}; using the CPU"]
    for word in ("dml:0", "97", 97, "no such card"):
        with pytest.raises(DeviceNotFoundError) as caught:
            _trainer(device=word).open()
        assert "Devices: " in caught.value.hint
    with pytest.raises(DeviceNotFoundError):
        _trainer(devices=[97]).open()
