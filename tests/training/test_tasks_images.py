"""An image classifier: reading pictures, the split, the loss by hand, what is written."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from anyrig.errors import (
    InvalidInputError,
    InvalidSettingError,
    LimitExceededError,
)
from anyrig.training.tasks import Task, build_task, images, pictures
from examples.train.make_images import SHAPES, draw, make


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shapes")
    make(place / "shapes", count=20, size=24)
    return place


def made(place: Path, run: Path, seed: int = 0, **values: Any) -> Task:
    config = {"kind": "images", "data": "shapes", "size": 24, "model": "convnet:nano", **values}
    return build_task(config, place, run, seed)


def png(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def test_the_loss_falls_and_the_same_seed_gives_the_same_curve(
    shapes: Path, tmp_path: Path
) -> None:
    curves = [_trained(made(shapes, tmp_path, crop=1, flip=True), 30) for _ in range(2)]
    assert curves[0] == curves[1]
    assert abs(curves[0][0] - math.log(4)) < 0.8
    assert min(curves[0][-3:]) < 0.8


def _trained(task: Task, steps: int) -> list[float]:
    random.seed(0)
    optimiser = torch.optim.AdamW(task.model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        items = [task.data[i * 3] for i in range(24)]
        loss = task.loss(task.model, torch.utils.data.default_collate(items))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_a_manifest_names_files_and_labels(shapes: Path, tmp_path: Path) -> None:
    files = sorted((shapes / "shapes").glob("*/*.png"))
    rows = [f"{path},{path.parent.name}" for path in files]
    (tmp_path / "notes.txt").write_text("no picture")
    rows += [f"{files[0]},other", "gone.png,disc", "notes.txt,disc", f"{files[1]},a|b", "x.png"]
    manifest = tmp_path / "labels.csv"
    manifest.write_text("\n".join(["file,label", *rows]))
    task = made(tmp_path, tmp_path, data="labels.csv")
    assert task.validation is not None
    by_folder = made(shapes, tmp_path / "other")
    assert len(task.data) + len(task.validation) == len(files)
    assert task.data.gathered.mean == by_folder.data.gathered.mean
    labels = [path.parent.name for path in files]
    assert list(task.data.gathered.labels) == labels
    first = len(files) + 2
    said = {place.partition(", ")[2]: why for place, why in task.skipped.items()}
    assert said[f"line {first}"] == "the file is listed already: labels.csv, line 2"
    assert "gone.png is not a file" in said[f"line {first + 1}"]
    assert "notes.txt is no picture" in said[f"line {first + 2}"]
    assert said[f"line {first + 3}"] == "it has 2 labels, and must have one"
    assert said[f"line {first + 4}"] == "it has 1 columns"
    again = made(tmp_path, tmp_path, data="labels.csv")
    assert again.data.gathered == task.data.gathered


def test_a_manifest_that_names_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "words", "label": "x"}\n')
    (tmp_path / "a.csv").write_text("file,label\n,x\n")
    for name, line in (("a.jsonl", 1), ("a.csv", 2)):
        with pytest.raises(InvalidInputError, match=f"{name}, line {line}: it names no file"):
            made(tmp_path, tmp_path, data=name)
    (tmp_path / "a.txt").write_text("a.png")
    with pytest.raises(InvalidInputError, match="neither a folder nor a manifest"):
        made(tmp_path, tmp_path, data="a.txt")


def test_only_files_that_are_allowed_are_opened(shapes: Path, tmp_path: Path) -> None:
    files = sorted((shapes / "shapes").glob("*/*.png"))
    rows = [f"{number},{path.parent.name}" for number, path in enumerate(files)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows, f"{files[0]},disc"]))
    allowed = {str(number): str(path) for number, path in enumerate(files)}
    (tmp_path / "files.json").write_text(json.dumps(allowed))
    task = made(tmp_path, tmp_path, data="labels.csv", files="files.json")
    assert len(task.data.gathered.names) == len(files)
    assert list(task.skipped.values()) == ["that file may not be read"]


class Fixed(torch.nn.Module):
    def __init__(self, logits: list[list[float]]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.logits[: len(image)]


def _batch(labels: list[int]) -> dict[str, torch.Tensor]:
    return {
        "image": torch.zeros(len(labels), 3, 8, 8, dtype=torch.uint8),
        "label": torch.tensor(labels),
    }


def test_the_loss_is_what_a_hand_computes() -> None:
    # Shares 1/4, 3/4 and 1/2, 1/2.
    model = Fixed([[0.0, math.log(3.0)], [0.0, 0.0]])
    batch = _batch([1, 0])
    plain = images.PictureLoss()(model, batch).item()
    assert plain == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    smooth = images.PictureLoss(smoothing=0.2)(model, batch).item()
    first = 0.9 * math.log(4 / 3) + 0.1 * math.log(4)
    assert smooth == pytest.approx((first + math.log(2)) / 2)
    heavy = images.PictureLoss(torch.tensor([3.0, 0.5]))(model, batch).item()
    assert heavy == pytest.approx((0.5 * math.log(4 / 3) + 3 * math.log(2)) / 2)
    right, count = images.accuracy(model, _batch([1, 1]))
    assert (int(right), count) == (1, 2.0)  # a draw goes to the first class


def test_weights_are_balanced_over_all_pictures(shapes: Path, tmp_path: Path) -> None:
    place = tmp_path / "uneven"
    for name, count in (("few", 4), ("many", 12)):
        (place / "shapes" / name).mkdir(parents=True)
        for number in range(count):
            draw("star", number, 16).save(place / "shapes" / name / f"{number}.png")
    task = made(place, tmp_path / "run", class_weights="balanced", validation=0)
    assert isinstance(task.loss, images.PictureLoss)
    assert task.loss.weights is not None
    assert task.loss.weights.tolist() == pytest.approx([2.0, 2 / 3])
    total = sum(float(task.loss.weights[label]) for label in task.data.labels)
    assert total == pytest.approx(16)


def test_each_class_is_split_alike_and_by_seed(shapes: Path, tmp_path: Path) -> None:
    task = made(shapes, tmp_path, validation=0.2)
    assert task.validation is not None
    assert len(task.data) == 64
    assert sorted(task.validation.labels) == sorted([0, 1, 2, 3] * 4)
    assert not set(task.data.numbers) & set(task.validation.numbers)
    again = made(shapes, tmp_path / "again", validation=0.2)
    assert again.validation.numbers == task.validation.numbers
    other = made(shapes, tmp_path / "other", seed=1, validation=0.2)
    assert other.validation.numbers != task.validation.numbers


def test_augmentation_draws_from_the_random_state_alone(shapes: Path, tmp_path: Path) -> None:
    task = made(shapes, tmp_path, crop=3, flip=True)
    seen = []
    for seed in (1, 1, 2):
        random.seed(seed)
        seen.append(task.data[0]["image"])
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert task.validation is not None
    assert torch.equal(task.validation[0]["image"], task.validation[0]["image"])


def test_what_is_written_predicts_as_the_model_does(shapes: Path, tmp_path: Path) -> None:
    task = made(
        shapes, tmp_path, model={"kind": "convnet", "preset": "nano", "blocks": 2}, channels=1
    )
    assert task.finish is not None
    said = task.finish(tmp_path / "out")
    assert said["classes"] == list(SHAPES)
    classifier = images.load(str(tmp_path / "out" / "model"))
    paths = sorted((shapes / "shapes" / "star").glob("*.png"))[:3]
    found = classifier.predict([*paths, paths[0].read_bytes()], batch=2)
    assert found[0] == found[3]
    number = task.data.gathered.names.index(f"star/{paths[0].name}")
    image = pictures.Pictures(task.data.gathered, [number])[0]["image"]
    task.model.eval()
    shares = task.model(image[None]).softmax(1)[0].detach()
    assert found[0].label == SHAPES[int(shares.argmax())]
    assert found[0].probability == pytest.approx(float(shares.max()), rel=1e-5)
    about = json.loads((tmp_path / "out/model/labels.json").read_text())
    assert about["size"] == 24
    assert said["onnx"] == "model.onnx"
    with pytest.raises(InvalidInputError, match="no image classifier"):
        images.load(tmp_path)


def test_items_travel_to_another_process_and_large_sets_are_read_each_time(
    shapes: Path, tmp_path: Path
) -> None:
    task = made(shapes, tmp_path)
    task.data[0]
    assert len(pickle.dumps(task.data)) < 20_000
    pickle.loads(pickle.dumps((task.loss, task.metrics)))
    fresh = made(shapes, tmp_path, cache_gb=0.0)
    assert fresh.data.gathered.array is None
    assert list(tmp_path.glob("*.uint8")) == [task.data.gathered.array]
    assert torch.equal(fresh.data[5]["image"], task.data[5]["image"])


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims many pixels and holds few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def test_broken_and_hostile_files_are_named_and_the_rest_is_trained(tmp_path: Path) -> None:
    make(tmp_path / "shapes", count=3, size=16)
    star = tmp_path / "shapes" / "star"
    whole = png(draw("star", 1, 64), "JPEG")
    (star / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (star / "bomb.png").write_bytes(bomb(60_000, 60_000))
    (star / "lie.png").write_bytes(b"GIF89a" + bytes(20))
    (star / "empty.png").write_bytes(b"")
    (star / "head.jpg").write_bytes(b"\xff\xd8\xff" + bytes(100))
    (star / "page.png").write_text("<html>not found</html>")
    (star / "notes.txt").write_text("no picture, and not called one")
    draw("star", 0).save(tmp_path / "shapes" / "stray.png")
    for _ in range(2):  # the second time from the run's folder
        task = made(tmp_path, tmp_path / "run", validation=0)
        names = {Path(one).name for one in task.skipped}
        assert names == {"cut.jpg", "bomb.png", "lie.png", "empty.png", "head.jpg", "page.png",
                         "stray.png"}  # fmt: skip
        assert len(task.data) == 12
    with pytest.raises(LimitExceededError, match="60,000"):
        pictures.read(bomb(60_000, 60_000), 8, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_names_that_are_no_text_are_names_all_the_same(tmp_path: Path) -> None:
    for name in (b"one", b"tw\xff"):
        place = os.fsencode(tmp_path) + b"/shapes/" + name
        os.makedirs(place)
        for number in range(2):
            with open(place + b"/%d\xfe.png" % number, "wb") as file:
                file.write(png(Image.new("RGB", (8, 8), (90 * number, 0, 0))))
    task = made(tmp_path, tmp_path / "run", size=16, model="convnet:nano")
    assert len(task.data) == len(task.validation) == 2
    assert task.finish is not None
    task.finish(tmp_path / "run")
    assert images.load(tmp_path / "run" / "model").classes == ("one", "tw\udcff")


def test_pictures_of_all_kinds_are_read_alike() -> None:
    colour = Image.new("RGB", (40, 30), (200, 100, 50))
    for form in ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP"):
        seen = pictures.read(png(colour, form), 8, 3)
        assert seen.shape == (3, 8, 8)
        assert abs(seen[:, 4, 4].astype(int) - (200, 100, 50)).max() < 8, form
    clear = pictures.read(png(Image.new("RGBA", (9, 9), (0, 0, 0, 0))), 8, 3)
    assert clear.min() == 255
    pale = Image.new("P", (9, 9))
    assert pictures.read(png(pale, transparency=0), 8, 1).min() == 255
    deep = Image.new("I;16", (16, 16))
    deep.putpixel((0, 0), 40_000)
    assert pictures.read(png(deep), 16, 1)[0, 0, 0] == 255
    cmyk = pictures.read(png(Image.new("CMYK", (9, 9), (0, 255, 255, 0)), "JPEG"), 8, 3)
    assert cmyk[0].min() > 200
    assert cmyk[1].max() < 60


def test_a_photograph_on_its_side_is_turned_upright() -> None:
    image = Image.new("L", (16, 16), 0)
    image.paste(255, (0, 0, 16, 8))  # light above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    seen = pictures.read(png(image.convert("RGB"), "JPEG", exif=exif, quality=95), 16, 1)
    assert seen[0, 2, 8] < 40
    assert seen[0, 13, 8] > 200


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"modle": "x"}, "modle"),
        ({"model": "resnet"}, "kind"),
        ({"model": "vit:tiny"}, "vision transformers of version 0.1.0 are gone"),
        ({"data": "nowhere"}, "nowhere"),
        ({"data": "shapes/star"}, "0 classes"),
    ],
)
def test_what_cannot_be_is_refused_with_words(
    shapes: Path, tmp_path: Path, values: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidSettingError, InvalidInputError), match=said) as caught:
        made(shapes, tmp_path, **values)
    assert caught.value.hint
