"""Fine-tuning image classifiers of transformers and timm, on small random models in folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import Trainer
from anyrig.training.tasks import Task, build_task, images, pictures
from examples.train.make_images import make

transformers: Any = pytest.importorskip("transformers")
MEAN, STD = (0.2, 0.4, 0.6), (0.3, 0.2, 0.1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(tmp_path / "shapes", count=8, size=24)
    return tmp_path


def pretrained(folder: Path, family: str) -> Path:
    torch.manual_seed(0)
    if family == "vit":
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            image_size=24, patch_size=8, num_labels=7,
        )  # fmt: skip
        model = transformers.ViTForImageClassification(config)
    else:
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=7
        )
        model = transformers.ResNetForImageClassification(config)
    model.save_pretrained(folder)
    about = {"size": {"height": 24, "width": 24}, "image_mean": MEAN, "image_std": STD,
             "do_normalize": True, "rescale_factor": 1 / 255}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder


def built(place: Path, **values: Any) -> Task:
    table = {"kind": "images", "data": "shapes", "model": "base", "channels": 3, **values}
    return build_task(table, place, place / "run", 0)


@pytest.mark.parametrize("family", ["vit", "resnet"])
def test_a_folder_of_transformers_is_fine_tuned_and_opens_again(place: Path, family: str) -> None:
    pretrained(place / "base", family)
    task = built(place, validation=0.25)
    model: Any = task.model
    base = transformers.AutoModelForImageClassification.from_pretrained(place / "base")
    body, theirs = dict(model.body.model.named_parameters()), dict(base.named_parameters())
    kept = [name for name in theirs if not name.startswith("classifier")]
    assert all(torch.equal(body[name], theirs[name]) for name in kept)
    assert model.mean.flatten().tolist() == pytest.approx([255 * one for one in MEAN])
    assert model.std.flatten().tolist() == pytest.approx([255 * one for one in STD])
    with Trainer.of(
        task, folder=place / "run", device="cpu", batch=8, steps=6, learning_rate=3e-3,
        micro_batch=8, compile=False, precision="fp32",
    ) as trainer:  # fmt: skip
        result = trainer.fit()
    folder = Path(result.outputs["model"])
    files = sorted((place / "shapes").glob("*/*.png"))[:4]
    found = images.load(folder).predict(files)
    again = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    assert set(again.config.id2label.values()) == {"circle", "square", "star", "triangle"}
    for path, one in zip(files, found, strict=True):
        pixels = np.asarray(Image.open(path).convert("RGB"), dtype="float64") / 255
        values = torch.tensor((pixels - MEAN) / STD).permute(2, 0, 1)[None].float()
        with torch.no_grad():
            shares = again(pixel_values=values).logits.softmax(1)[0]
        assert again.config.id2label[int(shares.argmax())] == one.label
        assert one.probability == pytest.approx(float(shares.max()), abs=1e-3)


def test_the_size_is_the_models_own_unless_it_takes_another(place: Path) -> None:
    pretrained(place / "base", "vit")
    assert built(place).data[0]["image"].shape == (3, 24, 24)
    with pytest.raises(InvalidSettingError, match="takes no images of 40 pixels"):
        built(place, size=40)
    with pytest.raises(InvalidSettingError, match="channels is 1"):
        built(place, channels=1)
    pretrained(place / "base2", "resnet")
    assert built(place, model="base2", size=40).data[0]["image"].shape == (3, 40, 40)


def test_what_is_no_pretrained_model(place: Path) -> None:
    with pytest.raises(InvalidSettingError, match="no folder with a config.json"):
        built(place)
    (place / "base").mkdir()
    (place / "base" / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(InvalidInputError, match="cannot be fine-tuned"):
        built(place)
    (place / "base" / "preprocessor_config.json").write_text('{"image_mean": 3}')
    with pytest.raises(InvalidInputError, match="preprocessor_config.json is not valid"):
        built(place)


def test_a_model_of_timm_with_its_weights(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """timm itself is not installed here: what it is asked for is checked."""
    asked: list[dict[str, Any]] = []

    def create_model(name: str, **options: Any) -> nn.Module:
        asked.append({"name": name, **options})
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(options["num_classes"]))

    about = SimpleNamespace(mean=MEAN, std=STD, input_size=(3, 20, 20))
    timm = SimpleNamespace(create_model=create_model, get_pretrained_cfg=lambda name: about)
    monkeypatch.setitem(sys.modules, "timm", timm)
    model = {"kind": "timm", "preset": "resnet18", "pretrained": True}
    task = built(place, model=model)
    assert asked == [{"name": "resnet18", "pretrained": True, "num_classes": 4, "in_chans": 3}]
    assert task.data[0]["image"].shape == (3, 20, 20)
    found: Any = task.model
    assert found.mean.flatten().tolist() == pytest.approx([255 * one for one in MEAN])
    built(place, model="timm:resnet18")
    assert asked[-1]["pretrained"] is False
    assert isinstance(task.data, pictures.Pictures)
