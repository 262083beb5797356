"""Exported ONNX files give the model's own numbers, or are not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError
from anyrig.training.export import export_onnx

ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "exported"
    made.mkdir()
    return made


def largest_error(model: nn.Module, path: Path, *inputs: Mapping[str, torch.Tensor]) -> float:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for one in inputs:
        with torch.no_grad():
            right = model(**one).numpy()
        (got,) = session.run(None, {name: value.numpy() for name, value in one.items()})
        assert got.shape == right.shape
        worst = max(worst, float(np.abs(got - right).max() / np.abs(right).max()))
    return worst


class Grouped(nn.Module):
    """Grouped-query attention: eight heads of queries, two of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.both = nn.Linear(16, 32), nn.Linear(16, 16)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows, length, _ = input.shape
        queries = self.queries(input).view(rows, length, 8, 4).transpose(1, 2)
        keys, values = self.both(input).view(rows, length, 2, 8).transpose(1, 2).chunk(2, -1)
        found = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
        return found.transpose(1, 2).reshape(rows, length, 32)


class Pictures(nn.Module):
    """Layers that are easily written down wrong, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([
            nn.AvgPool2d(3, 2, padding=1),
            nn.AvgPool2d(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
            nn.MaxPool2d(3, 2, padding=1, dilation=2),
            nn.Conv2d(3, 4, 4, padding="same", dilation=2),
            nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
            nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
        ])  # fmt: skip
        self.rows = nn.ModuleList(
            [nn.AvgPool1d(4, 3, padding=2), nn.Conv1d(27, 4, 6, padding="same")]
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        flat = input.flatten(1, 2)
        found = [layer(input) for layer in self.layers] + [layer(flat) for layer in self.rows]
        return torch.cat([one.flatten(1) for one in found], 1)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("make", "shape"), [(Pictures, (2, 3, 9, 9)), (Grouped, (2, 5, 16))], ids=["layers", "grouped"]
)
def test_an_exported_file_gives_the_numbers_of_the_model(
    make: Callable[[], nn.Module], shape: tuple[int, ...], folder: Path
) -> None:
    torch.manual_seed(0)
    model = make().eval()
    path = export_onnx(model, {"input": torch.randn(shape)}, folder / "m.onnx")
    assert list(folder.iterdir()) == [path]  # no second file with the weights
    given = [{"input": torch.randn(rows, *shape[1:])} for rows in (1, 2, 7)]
    assert largest_error(model, path, *given) < 1e-5


def test_a_file_that_gives_other_numbers_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the exporter had a fault: what it writes is another model's."""
    path = folder / "m.onnx"
    path.write_bytes(b"before")
    model = nn.Linear(4, 3)
    usual = torch.onnx.export

    def wrong(model: nn.Module, *args: object, **options: object) -> object:
        with torch.no_grad():
            next(model.parameters())[0, 0] += 0.05
        return usual(model, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.onnx, "export", wrong)
    with pytest.raises(InvalidInputError, match="other numbers than the model") as caught:
        export_onnx(model, {"input": torch.randn(2, 4)}, path)
    assert "export_folder" in caught.value.hint
    assert path.read_bytes() == b"before"
    assert list(folder.iterdir()) == [path]


def test_a_file_of_one_batch_size_is_not_written(folder: Path) -> None:
    class Fixed(nn.Module):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input + torch.zeros(int(input.shape[0]), 4) + torch.ones(2, 4).sum(0)

    class OnlyTwo(nn.Module):
        """Written down with the number of items that it was shown."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(8.0).view(2, 4))

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input + torch.tensor(input.detach().shape[0] * [[1.0] * 4])

    export_onnx(Fixed(), {"input": torch.randn(2, 4)}, folder / "fine.onnx")
    with pytest.raises(InvalidInputError):
        export_onnx(OnlyTwo(), {"input": torch.randn(2, 4)}, folder / "m.onnx")
    assert not (folder / "m.onnx").exists()


def test_a_model_that_draws_numbers_is_not_exported(folder: Path) -> None:
    class Noisy(nn.Module):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input + torch.randn_like(input)

    with pytest.raises(InvalidInputError, match="other numbers than the model"):
        export_onnx(Noisy(), {"input": torch.randn(2, 4)}, folder / "m.onnx")
    assert list(folder.iterdir()) == []
