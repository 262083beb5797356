"""The diffusion model of the examples, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from examples.train import diffusion
from examples.train.make_images import make


def test_the_program_trains_draws_and_continues(tmp_path: Path) -> None:
    make(tmp_path / "shapes", count=12, size=16)
    folder = tmp_path / "run"
    options = ["--data", str(tmp_path / "shapes"), "--folder", str(folder), "--width", "16"]
    first = diffusion.main([*options, "--steps", "10"])
    last = diffusion.main([*options, "--steps", "40"])
    assert last < first < 1.1
    assert last < 0.7
    with Image.open(folder / "samples.png") as sheet:
        assert sheet.size == (96, 96)


@pytest.mark.parametrize("steps", [1, 7])
def test_sampling_ends_at_the_picture_that_a_model_knows(steps: int) -> None:
    picture = torch.linspace(-1, 1, 256).view(1, 1, 16, 16)

    class Known(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
            share = diffusion.signal_shares()[times][:, None, None, None]
            noise = (noisy - share.sqrt() * picture) / (1 - share).sqrt()
            return share.sqrt() * noise - (1 - share).sqrt() * picture

    drawn = diffusion.sample(Known(), (3, 1, 16, 16), steps)
    assert (drawn - picture).abs().max() < 1 / 127


@pytest.mark.slow
def test_the_program_reaches_what_it_says(tmp_path: Path) -> None:
    make(tmp_path / "shapes")
    data = ["--data", str(tmp_path / "shapes"), "--folder", str(tmp_path / "run")]
    assert diffusion.main(data) < 0.12
