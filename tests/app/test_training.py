"""Training from Python: `Rig.train`, its events and its result."""

from __future__ import annotations

import json
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from anyrig import Rig  # noqa: E402
from anyrig.app.training import TrainingRequest  # noqa: E402
from anyrig.app.training_process import _receive_events, _send_events  # noqa: E402
from anyrig.errors import InvalidInputError, InvalidOptionError  # noqa: E402
from anyrig.events import Event, WarningEvent  # noqa: E402
from anyrig.options import json_schema, request_from_json, request_to_json  # noqa: E402
from anyrig.training.train_run import (  # noqa: E402
    RunEndedEvent,
    RunStartedEvent,
    TrainingEvent,
)

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
steps = 6
precision = "fp32"
loading.num_workers = 0
"""


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    lines = [f"The tide came in at {n} and went out at {n * 7 % 13}.\n" for n in range(150)]
    Path("tide.txt").write_text("".join(lines), encoding="utf-8")
    path = Path("tide.toml")
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_a_result_says_why_the_micro_batch_is_as_it_is(config: Path) -> None:
    result = Rig().train(config, folder="r", set={"train.micro_batch": "auto", "train.steps": 1})
    assert result.micro_batch_why.startswith(f"{result.micro_batch}: ")
    assert f"micro batch: {result.micro_batch_why}" in result.reasons
    assert Rig().train(resume="r", steps=2).micro_batch_why == f"{result.micro_batch}, as before"


def test_train_and_resume(config: Path) -> None:
    rig = Rig()
    events: list[Event] = []
    result = rig.train(config, run="r", set={"train.batch": 2}, on_event=events.append)
    assert (result.finished, result.steps, result.task) == (True, 6, "language")
    assert result.model == Path("r/model").absolute()
    assert result.loss is not None
    assert isinstance(events[0], RunStartedEvent)
    assert events[0].run.folder == Path("r").absolute()
    steps = [event for event in events if isinstance(event, TrainingEvent)]
    assert steps[-1].total_steps == 6
    assert steps[-1].unit == "tokens"
    assert events[-1] == RunEndedEvent(result)
    (run,) = rig.runs()
    assert (run.folder, run.state.status, run.state.step) == (Path("r").absolute(), "finished", 6)
    assert run.result == result

    assert result.micro_batch_why == ""  # it was set

    again = rig.train(resume="r")
    assert (again.already, again.loss) == (True, result.loss)
    events.clear()
    longer = rig.train(resume="r", steps=8, export="out", on_event=events.append)
    assert (longer.steps, longer.resumed_from, longer.already) == (8, 6, False)
    assert WarningEvent("train.steps was 6 and is now 8") in events
    assert longer.exported == "out"
    assert Path("out/model.safetensors").is_file()
    assert "exported" not in json.loads(Path("r/result.json").read_text())


def test_strangers_send_no_events() -> None:
    received: list[Event] = []
    with _receive_events(received.append) as channel:
        address = channel.partition(" ")[2]
        with pytest.raises(AuthenticationError):
            Client(address, authkey=b"wrong")
        with _send_events(channel, 0) as send:
            send(WarningEvent("ours"))
    assert received == [WarningEvent("ours")]


def test_options_that_contradict_each_other_are_refused(config: Path) -> None:
    rig = Rig()
    with pytest.raises(InvalidInputError, match="a file and `resume` were both given"):
        rig.train(config, resume="r")
    with pytest.raises(InvalidInputError, match="`resume` and `fresh` were both given"):
        rig.train(resume="r", fresh=True)
    with pytest.raises(InvalidInputError, match="no configuration"):
        rig.train()
    with pytest.raises(InvalidOptionError, match="`memory_gb` and `memory_fraction`"):
        rig.train(config, memory_gb=1, memory_fraction=0.5)
    with pytest.raises(InvalidOptionError, match="`nproc` must be a number from 1 to 1024"):
        rig.train(config, nproc="many")
    with pytest.raises(InvalidOptionError, match="`nproc` must be at most"):
        rig.train(config, device="cpu", nproc=1000)
    assert not Path("runs").exists()


def test_a_request_is_json() -> None:
    request = TrainingRequest(
        file=Path("/a.toml"), run=Path("/r"), set={"train.batch": 8}, nproc="2", precision="bf16"
    )
    data = request_to_json(request)
    assert data["set"] == {"train.batch": 8}
    assert request_from_json(TrainingRequest, data) == request
    properties = json_schema(TrainingRequest, http=True)["properties"]
    assert properties["file"]["pattern"].startswith("^upload:")
    assert not {"run", "resume", "export"} & set(properties)


def test_the_number_of_processes_may_be_a_number() -> None:
    assert request_from_json(TrainingRequest, {"file": "a.toml", "nproc": 2}).nproc == "2"
    with pytest.raises(InvalidOptionError):
        request_from_json(TrainingRequest, {"file": "a.toml", "nproc": 0})
