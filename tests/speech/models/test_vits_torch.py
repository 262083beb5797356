"""VITS in batches: every row as it sounds alone and as transformers says it, to the last sample."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import VitsConfig

from anyrig.speech.models.layers import NamedTensors, TensorFormat, Upsample, draw_normal
from anyrig.speech.models.vits import VitsInput, VitsTorch, import_vits_model

SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 48, "flow_size": 16,
    "upsample_initial_channel": 32, "prior_encoder_num_wavenet_layers": 2,
    "posterior_encoder_num_wavenet_layers": 1,
}  # fmt: skip
KINDS = {
    "stochastic": {},
    "plain durations": {"use_stochastic_duration_prediction": False},
    "two speakers": {"num_speakers": 2, "speaker_embedding_size": 8},
}
SHAPES = ((21, 1.0, 0), (40, 1.5, 1), (5, 0.5, 1), (61, 2.0, 0), (1, 1.0, 0), (24, 1.0, 1))


def model(**changes: Any) -> Any:
    """Random weights that do not clip."""
    torch.manual_seed(0)
    made = import_vits_model()(VitsConfig(**SMALL, **changes)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.03)
        made.decoder.conv_post.weight.mul_(0.05)
    return made


def rows() -> list[VitsInput]:
    numbers = np.random.default_rng(3)
    return [
        VitsInput(numbers.integers(1, 38, size).tolist(), seed=size, rate=rate, speaker=speaker)
        for size, rate, speaker in SHAPES
    ]


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_a_row_in_company_is_what_transformers_says_alone(changes: dict[str, Any]) -> None:
    theirs = model(**changes)
    theirs.noise_scale = theirs.noise_scale_duration = 0.0
    ours = VitsTorch(copy.deepcopy(theirs), "cpu", noise=0.0, duration_noise=0.0, block_frames=700)
    for row, samples in zip(rows(), ours.run(rows()), strict=True):
        speaker = row.speaker if theirs.config.num_speakers > 1 else None
        with torch.no_grad():
            out = theirs(torch.tensor([row.ids]), speaker_id=speaker, speaking_rate=row.rate)
        np.testing.assert_allclose(samples, out.waveform[0].numpy(), atol=2e-5)


@pytest.mark.parametrize("block_frames", [1, 300, 100_000])
def test_a_row_sounds_the_same_in_any_company(block_frames: int) -> None:
    ours = VitsTorch(model(num_speakers=2, speaker_embedding_size=8), "cpu",
                     block_frames=block_frames)  # fmt: skip
    alone = [ours.run([row])[0] for row in rows()]
    for single, batched in zip(alone, ours.run(rows()), strict=True):
        np.testing.assert_allclose(batched, single, atol=2e-5)


def test_a_seed_makes_the_take() -> None:
    ours = VitsTorch(model(), "cpu", duration_noise=0.0)
    ids = rows()[0].ids
    first, again, other = ours.run([VitsInput(ids, 1), VitsInput(ids, 1), VitsInput(ids, -(2**70))])
    np.testing.assert_allclose(first, again, atol=2e-5)
    assert np.abs(first - other).max() > 1e-3


def test_given_durations_are_kept() -> None:
    ours = VitsTorch(model(), "cpu")
    (samples,) = ours.run([VitsInput([3, 4, 5], durations=[2, 0, 5])])
    assert len(samples) == 7 * 256


@pytest.mark.parametrize(("taps", "stride"), [(16, 8), (4, 2), (20, 10), (12, 6), (11, 5)])
def test_a_step_up_is_torchs_transposed_convolution(taps: int, stride: int) -> None:
    theirs = torch.nn.ConvTranspose1d(6, 4, taps, stride, padding=(taps - stride) // 2)
    ours = Upsample(
        NamedTensors(theirs.state_dict()), TensorFormat(torch.device("cpu")), stride=stride
    )
    sound = torch.randn(2, 6, 9)
    with torch.no_grad():
        torch.testing.assert_close(ours(sound.transpose(1, 2)), theirs(sound).transpose(1, 2))


def test_noise_is_normal_and_of_its_seed_and_place() -> None:
    steps = torch.arange(4000)
    drawn = draw_normal(torch.full_like(steps, 7), steps, 64, 0)
    assert abs(float(drawn.mean())) < 0.01
    assert abs(float(drawn.std()) - 1) < 0.01
    assert abs(float((drawn**4).mean()) - 3) < 0.1
    assert torch.equal(draw_normal(torch.full((1,), 7), steps[9:10], 64, 0)[0], drawn[9])
    for other in (draw_normal(torch.full_like(steps, 8), steps, 64, 0),
                  draw_normal(torch.full_like(steps, 7), steps, 64, 1)):  # fmt: skip
        assert abs(float((drawn * other).mean())) < 0.01
