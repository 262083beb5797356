"""A diffusion model: the schedule, the loss by hand, samplers that recover a known picture."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.models.unet import PRESETS, Unet
from anyrig.training.tasks import Task, build_task
from anyrig.training.tasks.diffusion import (
    STEPS,
    Diffusion,
    DiffusionLoss,
    Finish,
    Predict,
    Sampler,
    kept_share,
    load,
    sample,
)
from examples.train.make_images import make


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shapes")
    make(place / "shapes", count=8, size=16)
    return place


def made(place: Path, run: Path, seed: int = 0, **values: Any) -> Task:
    config = {"kind": "diffusion", "data": "shapes", "size": 16, "model": "nano", **values}
    return build_task(config, place, run, seed)


def test_the_loss_falls_from_the_size_of_its_noise_and_by_seed(
    shapes: Path, tmp_path: Path
) -> None:
    curves = [_trained(made(shapes, tmp_path, predict="epsilon"), 25) for _ in range(2)]
    assert curves[0] == curves[1]
    assert abs(curves[0][0] - 1) < 0.1  # an untrained one answers nought: the noise is all error
    assert sum(curves[0][-5:]) / 5 < 0.75


def _trained(task: Task, steps: int) -> list[float]:
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(task.model.parameters(), 3e-3)
    losses = []
    for step in range(steps):
        items = [task.data[(step * 16 + i) % len(task.data)] for i in range(16)]
        loss = task.loss(task.model, torch.utils.data.default_collate(items))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
        losses.append(loss.item())
    return losses


class Says(torch.nn.Module):
    """Answers what it is told and keeps what it was asked."""

    def __init__(self, answer: float) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[torch.Tensor] = []

    def forward(self, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        self.asked += [noisy, times]
        return torch.full_like(noisy, self.answer)


def test_the_loss_is_what_a_hand_computes() -> None:
    picture, noise = torch.full((1, 1, 2, 2), 0.5), torch.full((1, 1, 2, 2), -2.0)
    time = torch.tensor([300])
    share = float(kept_share()[300])
    keep, add = math.sqrt(share), math.sqrt(1 - share)
    model = Says(0.25)
    found = DiffusionLoss("epsilon").at(model, picture, time, noise).item()
    assert found == pytest.approx((0.25 + 2) ** 2)
    assert model.asked[0].flatten()[0].item() == pytest.approx(keep * 0.5 - add * 2)
    found = DiffusionLoss("v").at(model, picture, time, noise).item()
    assert found == pytest.approx((0.25 - (keep * -2 - add * 0.5)) ** 2, rel=1e-5)


class Knows(Diffusion):
    """Knows the one picture there is: what it says is exact."""

    def __init__(self, picture: torch.Tensor, predict: Predict) -> None:
        super().__init__(Unet(PRESETS["nano"]), predict)
        self.picture = picture
        self.table = kept_share().float()

    def forward(self, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        share = self.table[times][:, None, None, None]
        keep, add = share.sqrt(), (1 - share).sqrt()
        noise = (noisy - keep * self.picture) / add
        return keep * noise - add * self.picture if self.predict == "v" else noise


@pytest.mark.parametrize("sampler", ["ddim", "ancestral"])
@pytest.mark.parametrize("steps", [1, 7])
def test_samplers_end_at_the_picture_that_the_model_knows(sampler: Sampler, steps: int) -> None:
    picture = torch.linspace(-1, 1, 256).view(1, 1, 16, 16)
    model = Knows(picture, "v")
    drawn = sample(model, 3, steps, sampler, torch.Generator().manual_seed(2))
    expected = ((picture + 1) * 127.5).round().to(torch.uint8).expand(3, -1, -1, -1)
    assert drawn.dtype == torch.uint8
    assert (drawn.int() - expected.int()).abs().max() <= 1


def test_what_is_written_can_be_drawn_from_again(shapes: Path, tmp_path: Path) -> None:
    (shapes / "shapes" / "star" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    task = made(shapes, tmp_path, samples=5, sample_steps=3, channels=3)
    assert [Path(one).name for one in task.skipped] == ["broken.png"]
    _trained(task, 2)
    assert isinstance(task.finish, Finish)
    said = task.finish(tmp_path / "out")
    with Image.open(said["samples"]) as sheet:
        assert sheet.size == (48, 32)
        assert sheet.mode == "RGB"
    again = load(tmp_path / "out" / "model")
    drawn = sample(again, 5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, task.finish.drawn())
    with pytest.raises(InvalidInputError, match="no diffusion model"):
        load(tmp_path)
    pickle.loads(pickle.dumps((task.data, task.loss)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"predicts": "v"}, "predicts"),
        ({"predict": "x"}, "predict"),
        ({"size": 15}, "halved"),
        ({"data": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_with_words(
    shapes: Path, tmp_path: Path, values: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidSettingError, InvalidInputError), match=said) as caught:
        made(shapes, tmp_path, **values)
    assert caught.value.hint


def test_a_measurement_is_the_same_however_it_is_cut(shapes: Path, tmp_path: Path) -> None:
    task = made(shapes, tmp_path, validation=0.5)
    task.model.eval()
    items = [task.validation[number] for number in range(len(task.validation))]
    assert len(items) == 16

    def measured(size: int) -> float:
        parts = [items[at : at + size] for at in range(0, len(items), size)]
        batches = [torch.utils.data.default_collate(part) for part in parts]
        with torch.no_grad():
            told = [float(task.loss(task.model, batch)) * len(batch["image"]) for batch in batches]
        return sum(told) / len(items)

    assert [measured(size) for size in (1, 3, 7)] == pytest.approx([measured(16)] * 3, rel=1e-5)
    times = sorted(int(item["time"]) for item in items)
    assert times[0] < STEPS // 8
    assert times[-1] > STEPS * 7 // 8
