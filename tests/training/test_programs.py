"""Programs as people write them who have read docs/training-python.md and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import Callback, PrintLogger, Trainer, prepare_model

# -- a module, a data set and a loader of one's own ------------------------------------------------


class Points(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Items are dictionaries, which a criterion cannot read: the loss is a function."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(count)
        self.places = torch.randn(count, 2, generator=generator)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        place = self.places[number]
        return {"place": place, "inside": (place.norm() < 1).float()}


class Circle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, place: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(place).squeeze(1)
        return found


def compare(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model(batch["place"]), batch["inside"])


def right(model: nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, int]:
    hits = (model(batch["place"]) > 0) == batch["inside"].bool()
    return hits.sum(), len(hits)


def test_an_own_module_and_loader(tmp_path: Path) -> None:
    model = Circle()
    loader = torch.utils.data.DataLoader(Points(512), batch_size=64, shuffle=True)
    with Trainer(
        model, loader, loss=compare, optimizer=torch.optim.Adam(model.parameters(), 1e-2),
        validation=torch.utils.data.DataLoader(Points(128), batch_size=64),
        metrics={"accuracy": right}, best_metric="accuracy", load_best=True, patience=3,
        epochs=15, folder=tmp_path / "circle", device="cpu",
    ) as trainer:  # fmt: skip
        result = trainer.fit()
    assert result.validation["accuracy"] > 0.8
    assert result.report is not None


# -- a model of Hugging Face in a folder -----------------------------------------------------------


def write_language_model(folder: Path) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=32, n_layer=2, n_head=2, n_embd=32, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def test_a_folder_of_hugging_face(tmp_path: Path) -> None:
    import transformers

    write_language_model(tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokens = (torch.arange(16) * torch.arange(1, 33)[:, None]) % 64
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    with Trainer(
        model, rows, epochs=10, batch_size=8, lr=1e-2, validation=rows[:8], device="cpu",
        folder=tmp_path / "run",
    ) as trainer:  # fmt: skip
        result = trainer.fit()
        losses = [row.loss for row in trainer.history() if row.loss is not None]
    assert losses[-1] < 0.9 * losses[0]
    assert result.validation["loss"] < losses[0]
    model.save_pretrained(tmp_path / "trained")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    for name, value in again.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


# -- images ----------------------------------------------------------------------------------------


class Stripes(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 128

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        picture = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(number))
        across = number % 2
        (picture if across else picture.transpose(1, 2))[:, ::4] += 1
        return picture, across


def test_images() -> None:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3),
        nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip
    model = prepare_model(model, device="cpu", channels_last=True)

    def accuracy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (outputs.argmax(1) == labels).float().mean()

    data = Stripes()
    with Trainer(
        model, data, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.AdamW, lr=1e-2,
        batch_size=16, epochs=4, validation=data, metrics={"accuracy": accuracy}, ema=0.5,
        device="cpu",
    ) as trainer:  # fmt: skip
        assert trainer.fit().validation["accuracy"] > 0.9
        assert trainer.evaluate()["accuracy"] > 0.9


# -- a run that is stopped and goes on -------------------------------------------------------------


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer, result: Any) -> None:
        if trainer.step == self.step:
            trainer.stop()


@pytest.mark.parametrize("stop", [3, 8])
def test_a_run_is_stopped_and_goes_on(stop: int, tmp_path: Path) -> None:
    def run(folder: str, *callbacks: Callback) -> tuple[Any, nn.Module]:
        torch.manual_seed(0)
        model = Circle()
        loader = torch.utils.data.DataLoader(Points(128), batch_size=16, shuffle=True)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        trainer = Trainer(
            model, loader, loss=compare, optimizer=optimizer, max_epochs=2,
            folder=tmp_path / folder, callbacks=callbacks, device="cpu",
        )  # fmt: skip
        with trainer:
            return trainer.fit(), model

    from safetensors.torch import load_model

    whole, expected = run("whole")
    loaded = Circle()
    assert whole.checkpoint is not None
    load_model(loaded, whole.checkpoint / "weights.safetensors")
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name]), name
    stopped, _ = run("parts", StopAt(stop))
    assert (stopped.steps, stopped.finished) == (stop, False)
    assert stopped.checkpoint is not None
    rest, model = run("parts")
    assert (rest.resumed_from, rest.steps, rest.finished) == (stop, whole.steps, True)
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name]), name


# -- what people try as well -----------------------------------------------------------------------


def classify() -> tuple[nn.Module, torch.utils.data.TensorDataset]:
    torch.manual_seed(0)
    inputs = torch.randn(60, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())


def test_a_scheduler_of_torch_steps_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    from torch.optim.lr_scheduler import OneCycleLR

    def run(folder: str, steps: int) -> list[float]:
        model, data = classify()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with Trainer(
            model, data, loss=nn.CrossEntropyLoss(), optimizer=optimizer,
            scheduler=OneCycleLR(optimizer, max_lr=0.5, total_steps=12), steps=steps, batch_size=20,
            folder=tmp_path / folder, device="cpu",
        ) as trainer:  # fmt: skip
            trainer.fit()
            return [row.rate for row in trainer.history()]

    whole = run("whole", 12)
    assert len(set(whole)) > 6
    assert run("parts", 5) == whole[:5]
    assert run("parts", 12) == whole


def test_a_scheduler_made_of_the_optimizer_that_is_built() -> None:
    model, data = classify()
    with Trainer(
        model, data, loss=nn.CrossEntropyLoss(), steps=4, batch_size=20, lr=0.1, device="cpu",
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2),
    ) as trainer:  # fmt: skip
        trainer.fit()
        rates = [row.rate for row in trainer.history()]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])


@pytest.mark.parametrize("kind", ["plateau", "other", "both"])
def test_a_scheduler_that_cannot_be_used_is_refused(kind: str) -> None:
    from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

    model, data = classify()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.SGD(classify()[0].parameters(), lr=0.1)
    choices: dict[str, dict[str, Any]] = {
        "plateau": {"scheduler": ReduceLROnPlateau(optimizer)},
        "other": {"scheduler": StepLR(other, 2)},
        "both": {"scheduler": StepLR(optimizer, 2), "schedule": "cosine"},
    }
    options = choices[kind]
    trainer = Trainer(
        model, data, loss=nn.CrossEntropyLoss(), optimizer=optimizer, device="cpu", **options
    )
    with pytest.raises(InvalidSettingError, match="schedule"):
        trainer.fit()


def test_a_first_small_batch_does_not_cut_larger_ones() -> None:
    model, data = classify()

    class Sizes:
        def __iter__(self) -> Any:
            inputs, targets = data.tensors
            return iter([(inputs[:size], targets[:size]) for size in (3, 40, 7)])

    with Trainer(model, Sizes(), loss=nn.CrossEntropyLoss(), steps=3, device="cpu") as trainer:
        trainer.fit()
        assert [row.num_micro for row in trainer.history()] == [1, 1, 1]


def test_a_criterion_is_known_by_the_names_of_its_targets() -> None:
    model, data = classify()
    with Trainer(
        model, data, loss=lambda p, y: nn.functional.cross_entropy(p, y), steps=2, device="cpu"
    ) as trainer:
        assert trainer.fit().steps == 2


def test_starting_over_leaves_the_checkpoints_of_before_out(tmp_path: Path) -> None:
    def run(learning_rate: float) -> Any:
        model, data = classify()
        with Trainer(
            model, data, loss=nn.CrossEntropyLoss(), validation=data, lr=learning_rate, epochs=3,
            batch_size=20, load_best=True, folder=tmp_path, resume=False, device="cpu",
            checkpoints={"every_steps": 1},
        ) as trainer:  # fmt: skip
            result = trainer.fit()
            return result, trainer.evaluate()["loss"]

    good, loss = run(0.1)
    bad, worse = run(1e-6)
    assert worse > 1.5 * loss
    # Those of the first run are gone, or there would be a second folder for a step.
    names = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert names == ["step-00000008", "step-00000009"]
    assert good.steps == bad.steps == 9


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"metrics": [len]}, "metrics is a list", "names"),
        ({"val_loader": []}, "val_loader", "Use validation"),
        ({"validaton": []}, "validaton", "'validation'"),
        ({"loss_fn": nn.MSELoss()}, "loss_fn", "Use loss"),
    ],
)
def test_other_names_get_the_one_that_is_meant(
    options: dict[str, Any], problem: str, hint: str
) -> None:
    model, data = classify()
    with pytest.raises(InvalidSettingError, match=problem) as caught:
        Trainer(model, data, device="cpu", **options)
    assert hint in caught.value.hint


def test_columns_and_a_missing_loss_are_explained() -> None:
    model, data = classify()
    with pytest.raises(InvalidInputError, match="tuple of arrays"):
        Trainer(model, tuple(data.tensors), loss=nn.CrossEntropyLoss(), device="cpu").fit()
    with pytest.raises(InvalidSettingError, match="without a loss") as caught:
        Trainer(model, data, device="cpu").fit()
    assert "CrossEntropyLoss" in caught.value.hint


# -- wrong use -------------------------------------------------------------------------------------


def sort_points(data: Any = None, **options: Any) -> Trainer:
    torch.manual_seed(0)
    inputs = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    items = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    given = {"loss": nn.CrossEntropyLoss(), "device": "cpu", "batch": 8, **options}
    model = given.pop("model", None) or nn.Linear(4, 2)
    return Trainer(model, items if data is None else data, **given)


class Named(nn.Module):
    """Returns its logits by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.layer(inputs)}


class Step(Callback):
    """Does nothing."""


def few(batch_size: int = 32) -> Any:
    items = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.zeros(24).long())
    return torch.utils.data.DataLoader(items, batch_size=batch_size, drop_last=True)


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ({"loss": nn.CrossEntropyLoss}, "CrossEntropyLoss is a class", "CrossEntropyLoss()"),
        ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "reduction='sum'", "mean"),
        ({"loss": lambda model, batch: None}, "the loss is None", "Return one number"),
        ({"loss": lambda model, batch: {"loss": model(batch[0]).mean()}}, "a dict", "LossOutput"),
        ({"model": Named()}, "the model returns a dict", "lambda model, batch"),
        ({"model": Named}, "Named is a class", "Named(...)"),
        ({"best_metric": "val_loss"}, "'val_loss', which is not measured", "Measured: loss."),
        ({"resume": "runs/a"}, "resume is 'runs/a'", "folder"),
        ({"callbacks": [Step]}, "Step is a class", "Step()"),
        ({"callbacks": [object()]}, "not a callback", "anyrig.training.Callback"),
        ({"callbacks": Step()}, "not a list", "callbacks=["),
        ({"optimizer": [torch.optim.Adam]}, "the optimizer is a list", "MixedPrecision"),
        ({"scheduler": "cosine"}, "the scheduler is 'cosine'", "`schedule`"),
        ({"data": few(), "batch": "auto"}, "fewer items than a batch of 32", "smaller batch"),
        ({"data": few(), "batch": "auto", "steps": 3}, "fewer items than a batch", "smaller batch"),
        ({"validation": few()}, "validation data has no batch", "drop_last"),
    ],
)
def test_wrong_use_is_explained(options: dict[str, Any], words: str, hint: str) -> None:
    with pytest.raises((InvalidInputError, InvalidSettingError)) as caught:
        sort_points(**options).fit()
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_batches_in_a_list_that_fail_are_explained() -> None:
    batches = [(torch.randn(8, 4), torch.zeros(8).long()) for _ in range(3)]
    with pytest.raises(RuntimeError) as caught:
        sort_points(data=batches).fit()
    assert "pass DataLoader(batches, batch_size=None)" in caught.value.__notes__[0]


class Endless:
    """Batches of a number that is not known."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.randn(8, 4), torch.zeros(8).long()


def test_batches_without_a_number_need_steps() -> None:
    with pytest.raises(InvalidSettingError, match="length of an epoch") as caught:
        sort_points(data=Endless(), epochs=2).fit()
    assert "__len__" in caught.value.hint
    assert sort_points(data=Endless(), steps=2).fit().steps == 2


def test_measuring_without_validation_data_is_an_error() -> None:
    with pytest.raises(InvalidSettingError, match="no validation data"):
        sort_points().evaluate()


def test_another_optimizer_does_not_continue_a_run(tmp_path: Path) -> None:
    with sort_points(folder=tmp_path) as one:
        one.fit()
    with (
        sort_points(folder=tmp_path, optimizer="sgd", epochs=2) as one,
        pytest.raises(InvalidInputError, match="of another optimizer than SGD") as caught,
    ):
        one.fit()
    assert "resume=False" in caught.value.hint


def test_a_metric_may_return_a_number_for_each_item(capsys: pytest.CaptureFixture[str]) -> None:
    def mean(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs.argmax(1) == targets).float().mean()

    def each(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return outputs.argmax(1) == targets

    with sort_points(
        validation=few(5), metrics={"mean": mean, "each": each}, loggers=[PrintLogger()]
    ) as one:
        figures = one.evaluate()
    assert capsys.readouterr().out == "", "nothing was started"
    assert figures["each"] == pytest.approx(figures["mean"])


# -- the end of a run, and after it ----------------------------------------------------------------


class GetWorse(Callback):
    """After the first validation the weights are spoilt."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_step(self, trainer: Trainer, result: Any) -> None:
        if trainer.step > 3:
            with torch.no_grad():
                next(trainer.model.parameters())[0].add_(10)

    def on_validate(self, trainer: Trainer, figures: Any) -> None:
        self.seen.append(figures["loss"])


def test_the_result_has_the_figures_of_the_weights_that_were_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = GetWorse()
    with sort_points(
        validation=few(8), epochs=9, patience=2, load_best=True, callbacks=[worse],
        folder=tmp_path, loggers=[PrintLogger()],
    ) as one:  # fmt: skip
        result = one.fit()
        assert len(worse.seen) == 3
        assert result.stopped_early
        assert result.validation["loss"] == pytest.approx(min(worse.seen))
        assert one.evaluate() == pytest.approx(result.validation)
    assert one.evaluate() == pytest.approx(result.validation), "closed, it is opened once more"
    one.close()
    assert len(worse.seen) == 3, "measuring by hand is no validation of the run"
    lines = capsys.readouterr().out.splitlines()
    assert sum("stopping" in line for line in lines) == 1
    end = next(number for number, line in enumerate(lines) if line.endswith(": finished"))
    assert [line for line in lines[end:] if " left" in line or "epoch" in line] == []
    assert any(line.startswith("step 9  loss") for line in lines[:end])


def test_a_notebook_runs_its_cell_again(tmp_path: Path) -> None:
    """The first trainer is not closed: its run is over, and the folder is free."""
    first = sort_points(folder=tmp_path)
    assert first.fit().steps == 3
    again = sort_points(folder=tmp_path, epochs=2)
    assert again.fit().resumed_from == 3
    for one in (first, again):
        one.close()


def test_a_stopped_trainer_goes_on(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_step(self, trainer: Trainer, result: Any) -> None:
            if trainer.step == 2:
                trainer.stop()

    with sort_points(folder=tmp_path, epochs=3, callbacks=[Stop()]) as one:
        assert not one.fit().finished
        assert one.fit().steps == 9
