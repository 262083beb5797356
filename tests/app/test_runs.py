"""The configuration and the folder of a training run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.devices.machine import Machine
from anyrig.errors import InvalidInputError, OverloadedError
from anyrig.jobs.queue import make_owner_name
from anyrig.training import runs
from anyrig.training.config_file import ConfigFile, check_settings, read_config
from anyrig.training.runs import TrainingResult

CONFIG = '[task]\nkind = "language"\ntext = "a.txt"\n[train]\nbatch = 4\nloading.num_workers = 0\n'


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    path = tmp_path / "my run!.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return read_config(path)


def test_values_of_a_command_line_are_toml_or_texts(config: ConfigFile) -> None:
    found = config.with_values(
        {"train.learning_rate": "1e-3", "train.loading.pin_memory": False, "task.text": "b.txt",
         "task.model": '{ preset = "tiny" }', "train.betas": "[0.9, 0.99]",
         "task.prompt": "a = b"}
    )  # fmt: skip
    assert found.train["learning_rate"] == 1e-3
    assert found.train["loading"] == {"num_workers": 0, "pin_memory": False}
    assert found.train["betas"] == [0.9, 0.99]
    assert found.task["text"] == "b.txt"
    assert found.task["model"] == {"preset": "tiny"}
    assert found.task["prompt"] == "a = b"
    assert config.train == {"batch": 4, "loading": {"num_workers": 0}}
    check_settings(found.train)
    with pytest.raises(InvalidInputError, match="`set` train.batch.more: batch is 4"):
        config.with_values({"train.batch.more": 1})


def test_a_run_is_found_again_by_its_folder(config: ConfigFile, tmp_path: Path) -> None:
    run = runs.create_run(tmp_path / "r", config, config.train, {"device": "cpu"})
    assert runs.open_run(tmp_path / "r") == run
    registry = tmp_path / "registry"
    runs.register_run(registry, run)
    (listed,) = runs.list_runs(registry)
    assert listed.folder == run.folder
    (run.folder / runs.RECORD_FILE).unlink()
    assert runs.list_runs(registry) == []


def test_a_run_stands_as_its_process_left_it(config: ConfigFile, tmp_path: Path) -> None:
    run = runs.create_run(tmp_path / "r", config, config.train, {})
    assert runs.load_state(run.folder).status == "stopped"
    runs.write_state(run.folder, "running", steps=9)
    (run.folder / "metrics.jsonl").write_bytes(
        b'{"kind": "step", "step": 3, "loss": 2.5}\n{"kind": "step", "step": 4, "lo'
    )
    state = runs.load_state(run.folder)
    assert (state.status, state.step, state.steps, state.loss) == ("running", 3, 9, 2.5)
    with pytest.raises(OverloadedError):
        runs.check_not_running(run.folder)
    with pytest.raises(OverloadedError):
        runs.clear_run(run.folder)
    told = json.loads((run.folder / runs.STATE_FILE).read_text())
    here, pid, began, mark = told["owner"].split("/")
    told["owner"] = f"{here}/{pid}/1{began}/{mark}"  # another process that had the same number
    (run.folder / runs.STATE_FILE).write_text(json.dumps(told))
    if make_owner_name().partition("/")[0]:
        assert runs.load_state(run.folder).status == "stopped"
    told["owner"] = f"/{pid}//{mark}"  # as where the system does not tell: by its silence
    told["time"] = time.time() - 3600
    (run.folder / runs.STATE_FILE).write_text(json.dumps(told))
    assert runs.load_state(run.folder).status == "running"
    os.utime(run.folder / "metrics.jsonl", (1, 1))
    assert runs.load_state(run.folder).status == "stopped"


def test_a_run_that_was_moved_knows_its_files(config: ConfigFile, tmp_path: Path) -> None:
    run = runs.create_run(tmp_path / "r", config, config.train, {})
    made = {"model": str(run.folder / "model")}
    result = TrainingResult(str(run.folder), finished=True, made=made, loss=float("nan"))
    runs.write_result(run.folder, result)
    run.folder.rename(tmp_path / "moved")
    found = runs.load_result(tmp_path / "moved")
    assert found is not None
    assert found.made["model"] == str(tmp_path / "moved" / "model")
    assert found.loss is None


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("x")
    with pytest.raises(InvalidInputError, match="is not empty"):
        runs.check_folder(tmp_path)
    with pytest.raises(InvalidInputError, match="already exists"):
        runs.check_new_folder(tmp_path)
    runs.check_new_folder(tmp_path / "new")


# -- machines that are not here --------------------------------------------------------------------


def test_an_estimate_is_made_for_each_device_by_its_own_rules(
    tmp_path: Path, machine: Callable[..., Machine]
) -> None:
    pytest.importorskip("torch")
    from anyrig.app.training import build_task
    from anyrig.training.estimate import estimate_devices
    from anyrig.training.train_run import build_temporarily

    (tmp_path / "a.txt").write_text("The tide came in at noon.\n" * 200, encoding="utf-8")
    path = tmp_path / "a.toml"
    path.write_text(
        '[task]\nkind = "language"\ntext = "a.txt"\ncontext = 16\n'
        'model = { preset = "tiny", layers = 1, width = 16, heads = 2 }\n[train]\nbatch = 4\n',
        encoding="utf-8",
    )
    config = read_config(path)
    run = runs.Run(tmp_path / "r", "a", str(path), tmp_path, config.task, config.train, {}, 0.0)
    there = machine("h200-linux")
    with build_temporarily(run, build_task) as built:
        found = estimate_devices(
            *built, there.devices, lambda device: "bf16" if device.kind == "gpu" else "fp32"
        )
    assert [one.device.id for one in found] == [one.id for one in there.devices]
    kinds = {one.device.kind: one.estimate for one in found}
    assert (kinds["gpu"].device_type, kinds["gpu"].precision) == ("cuda", "bf16")
    assert (kinds["cpu"].device_type, kinds["cpu"].precision) == ("cpu", "fp32")
    assert all(one.fits and one.largest_micro_batch for one in found)
    assert not run.folder.exists()


def test_torch_is_loaded_only_after_its_allocator_was_told(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from anyrig import Rig\n"
        "from anyrig.app.training import TrainingRequest, merge_settings, place_training\n"
        "rig, request = Rig(), TrainingRequest(precision='bf16')\n"
        "settings = merge_settings(rig, request, {'memory_gb': 1})\n"
        "placement = place_training(rig, request, settings)\n"
        "assert 'torch' not in sys.modules\n"
        "print(placement.precision, placement.budget_bytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["bf16", str(1 << 30)]


def test_beginning_anew_forgets_the_data_of_before(tmp_path: Path) -> None:
    kept = ["run.json", "config.toml", "notes.txt"]
    gone = ["tokens-00.json", "tokens-00.uint16", "tokenizer-512.json", "pictures-00.json",
            "pictures-00.uint8", "before.json", "result.json", "metrics.jsonl"]  # fmt: skip
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-00000002").mkdir(parents=True)
    for name in (*kept, *gone):
        (folder / name).write_text("{}")
    runs.clear_run(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(kept)
