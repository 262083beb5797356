"""`anyrig train` as a person uses it, on a model so small that a step takes milliseconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from anyrig import Rig  # noqa: E402
from anyrig.app.training import TrainingRequest, choose_devices  # noqa: E402
from anyrig.cli.main import main  # noqa: E402
from anyrig.cli.train import TrainingPrinter  # noqa: E402
from anyrig.devices.machine import Machine  # noqa: E402
from anyrig.errors import DeviceUnusableError  # noqa: E402
from anyrig.training.metrics import Alert  # noqa: E402
from anyrig.training.train_run import TrainingEvent  # noqa: E402
from tests.training.test_metrics import metrics  # noqa: E402

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
steps = 12
precision = "fp32"
learning_rate = 3e-3
loading.num_workers = 0
"""
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def config() -> Path:
    lines = [f"The tide came in at {n} and went out at {n * 7 % 13}.\n" for n in range(150)]
    Path("tide.txt").write_text("".join(lines), encoding="utf-8")
    path = Path("tide.toml")
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """The command line in this process: code, output, errors."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_becomes_a_model_and_a_folder_that_tells_of_it(config: Path, said: Said) -> None:
    code, out, err = said("train", config)
    assert code == 0, err
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("tide-")
    assert f"language, in {run}" in out
    for row in ("steps        12", "loss", "validation", "tokens/s", "precision    fp32"):
        assert row in out
    assert str(run / "report.html") in out
    for name in ("model/config.json", "model/model.safetensors", "sample.txt", "report.html"):
        assert (run / name).is_file()
    assert (run / "config.toml").read_text(encoding="utf-8") == CONFIG
    assert "step 12/12" in err


def test_the_same_command_again_goes_on_and_another_task_is_refused(
    config: Path, said: Said
) -> None:
    assert said("train", config, "--folder", "r")[0] == 0
    code, out, _ = said("train", config, "--folder", "r")
    assert (code, "already finished" in out) == (0, True)
    code, _, err = said("train", config, "--folder", "r", "--set", "task.context=8")
    assert code == 2
    assert "another task: context" in err
    code, out, _ = said("train", config, "--folder", "r", "--set", "task.context=8", "--fresh")
    assert (code, "already finished" in out) == (0, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "train.btach=3"], "Did you mean 'batch'?"),
        (["--set", "train.loading.num_worker=0"], "Did you mean 'num_workers'?"),
        (["--set", "model.batch=3"], "The tables are [task] and [train]"),
        (["--strategy", "dp"], "DataParallel is not offered"),
        (["--export", "."], "already exists"),
        (["--folder", "."], "is not empty"),
        (["--resume", "r"], "both given"),
        (["--set", "task.text=nowhere.txt"], "nowhere.txt"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    config: Path, said: Said, words: list[str], message: str
) -> None:
    before = set(Path.cwd().rglob("*"))
    code, _, err = said("train", config, *words)
    assert code == 2
    assert message in err
    assert set(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[tsk]\n", "Did you mean [task]?"),
        (b"[task\n", "line 1"),
        (b'[task]\nkind = "\xff"\n', "not UTF-8"),
        (b"x = " + b"[" * 5000, "is not valid TOML"),
    ],
)
def test_broken_files_are_told_in_words(said: Said, text: bytes, message: str) -> None:
    Path("bad.toml").write_bytes(text)
    code, _, err = said("train", "bad.toml")
    assert code == 2
    assert message in err
    assert not Path("runs").exists()


def test_what_is_no_run_is_told_in_words(said: Said) -> None:
    assert "is not a training run" in said("train", "--resume", "nowhere")[2]
    Path("r").mkdir()
    Path("r/run.json").write_text("{}")
    code, _, err = said("train", "--resume", "r")
    assert (code, "is not valid" in err) == (2, True)
    assert "no configuration was given" in said("train")[2]


def test_files_that_cannot_be_read_are_named_and_the_rest_is_trained(
    config: Path, said: Said
) -> None:
    Path("texts").mkdir()
    Path("tide.txt").rename("texts/tide.txt")
    Path("texts/broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    code, out, err = said("train", config, "--set", "task.text=texts", "--folder", "r", "--json")
    last = events(out)[-1]
    assert (code, last["finished"]) == (1, True)
    assert "broken.pdf" in err
    assert any("broken.pdf" in name for name in last["left_out"])


def test_memory_is_measured_by_micro_batch(config: Path, said: Said) -> None:
    code, out, _ = said("train", config, "--profile-memory", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["size"] for one in found["tries"]] == [1, 2, 4]
    assert not Path("runs").exists()


def test_runs_are_listed_with_jobs(config: Path, said: Said) -> None:
    assert said("train", config, "--folder", "r")[0] == 0
    code, out, _ = said("jobs")
    assert code == 0
    assert "finished, step 12/12, loss" in out
    (found,) = json.loads(said("jobs", "--json")[1])
    assert (found["kind"], found["state"], found["step"]) == ("train", "finished", 12)
    assert "12 (" in said("jobs", "show", found["id"][:6])[1]
    assert "--resume r" in said("jobs", "resume", found["id"])[2]
    assert said("jobs", "delete", found["id"])[0] == 0
    assert "There are no jobs" in said("jobs")[1]
    assert Path("r/run.json").is_file()


def test_a_queued_run_is_worked_on_and_goes_on_in_its_own_folder(config: Path, said: Said) -> None:
    code, out, _ = said(
        "train", config, "--queue", "--steps", 6, "--set", "train.batch=2", "--json"
    )
    job = json.loads(out)
    assert (code, job["kind"]) == (0, "train")
    run = Path(job["arguments"]["run"])
    assert run.parent == Path("runs").absolute()
    assert said("train", config, "--queue", "--set", "train.btach=2")[0] == 2
    code, out, err = said("jobs", "run")
    assert code == 0, err
    (done,) = json.loads(said("jobs", "--json")[1])  # the run is the job's: listed once
    assert (done["state"], done["result"]["steps"]) == ("done", 6)
    assert str(run / "model") in done["result"]["files"]
    assert json.loads((run / "run.json").read_text())["train"]["batch"] == 2


@pytest.mark.parametrize(
    ("name", "device", "count", "number"),
    [
        ("no-gpu", "", "auto", 1), ("no-gpu", "", "3", 3), ("h200-linux", "", "auto", 1),
        ("rtx4090-rtxpro6000-wsl2", "", "auto", 2), ("rtx4090-rtxpro6000-wsl2", "cpu", "2", 2),
        ("rtx4090-rtxpro6000-wsl2", "all", "auto", 2),
    ],
)  # fmt: skip
def test_each_process_has_a_device_of_one_kind(
    name: str, device: str, count: str, number: int, machine: Callable[..., Machine]
) -> None:
    rig = Rig(machine=machine(name))
    found = choose_devices(rig, TrainingRequest(device=device, nproc=count))
    kinds = {rig.machine.find(one).kind for one in found}  # type: ignore[union-attr]
    assert (len(found), len(kinds)) == (number, 1)
    if kinds == {"gpu"}:
        assert len(set(found)) == number
        with pytest.raises(DeviceUnusableError, match="processes"):
            choose_devices(rig, TrainingRequest(device=device, nproc=str(number + 1)))


# -- processes of their own ------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_keeps_all_and_a_resume_ends_as_if_nothing_had_been(
    config: Path, said: Said
) -> None:
    whole = events(said("train", config, "--folder", "whole", "--steps", 400, "--json")[1])[-1]
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "train", str(config), "--folder", "r", "--steps", "400"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = Path("r/metrics.jsonl")
    wait_until(lambda: lines.exists() and b'"step"' in lines.read_bytes())
    code, out, err = said("train", "--resume", "r")
    assert (code, "another process is training" in err) == (1, True)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "To continue: anyrig train --resume r" in out
    (found,) = [one for one in json.loads(said("jobs", "--json")[1]) if one["run"].endswith("/r")]
    assert found["state"] == "stopped"
    assert 0 < found["step"] < 400
    last = events(said("train", "--resume", "r", "--json")[1])[-1]
    assert (last["steps"], last["resumed_from"]) == (400, found["step"])
    assert last["loss"] == whole["loss"]
    assert Path("r/model/model.safetensors").read_bytes() == (
        Path("whole/model/model.safetensors").read_bytes()
    )


@pytest.mark.skipif(sys.platform == "win32", reason="gloo's processes are slow to start there")
def test_two_processes_train_what_one_does_and_one_writes_the_results(
    config: Path, said: Said
) -> None:
    one = events(said("train", config, "--folder", "one", "--json")[1])[-1]
    process = subprocess.run(
        [sys.executable, "-m", "anyrig", "train", str(config), "--folder", "two", "--nproc", "2",
         "--strategy", "fsdp", "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    found = events(process.stdout)
    assert found[-1]["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert [event["event"] for event in found].count("done") == 1
    assert found[0]["processes"] == 2
    assert [one.get("stage") for one in found].count("reading the data") == 1  # the first tells
    assert found[-1]["made"]["model"] == str(Path("two/model").absolute())
    assert Path("two/model/model.safetensors").is_file()


@pytest.mark.parametrize("name", ["optimizer", "optimiser"])
def test_the_optimizer_has_two_spellings_in_a_file(config: Path, said: Said, name: str) -> None:
    config.write_text(config.read_text() + f'{name} = "sgd"\n')
    other = "optimiser" if name == "optimizer" else "optimizer"
    code, _, err = said("train", config, "--folder", "r", "-v", "--steps", "2")
    assert (code, "optimizer: sgd" in err) == (0, True)
    # The other spelling on the command line wins over the file's, as the same one would.
    more = ("--set", f"train.{other}=adafactor")
    code, _, err = said("train", config, "--folder", "s", "-v", "--steps", "2", *more)
    assert (code, "optimizer: adafactor" in err) == (0, True)
    assert json.loads(Path("s/run.json").read_text())["train"]["optimizer"] == "adafactor"


def test_a_run_of_an_older_spelling_goes_on_without_a_warning(config: Path, said: Said) -> None:
    config.write_text(config.read_text() + 'optimizer = "sgd"\noffload_optimizer = false\n')
    assert said("train", config, "--folder", "r", "--steps", "2")[0] == 0
    record = Path("r/run.json")
    record.write_text(record.read_text().replace("optimizer", "optimiser"))
    code, out, err = said("train", "--resume", "r")
    assert (code, "already finished" in out, "optimi" in err) == (0, True, False)
    code, _, err = said("train", "--resume", "r", "--steps", "3")
    assert (code, "optimi" in err) == (0, False)


def test_a_sample_that_is_text_is_printed(
    config: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anyrig.training.tasks.language import LanguageOutput

    monkeypatch.setattr(
        LanguageOutput, "sample", lambda self: "The tide came in.\x1b[31m\u202e\nYes \u9b9b"
    )
    code, out, _ = said("train", config, "--folder", "r", "--steps", "1")
    (row,) = [line for line in out.splitlines() if line.startswith("sample")]
    assert code == 0
    assert "The tide came in." in row
    assert "\u9b9b" in row
    assert "\x1b" not in row
    assert "\u202e" not in row


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_has_one_live_line_and_a_file_plain_ones(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with TrainingPrinter() as printer:
        for record in (
            metrics(1), Alert("loss-spike", "the loss jumped", 1, "Look."), metrics(2), metrics(3),
        ):  # fmt: skip
            printer(TrainingEvent(record, 4, "samples"))
    out = capsys.readouterr().err
    assert "step 1: warning: the loss jumped. Look.\n" in out
    assert out.count("step 1/4  loss") == 1
    assert out.splitlines()[-1].rpartition("[2K")[2].startswith("step 3/4  loss")
    assert ("\r" in out) == is_terminal
