"""Kokoro in batches, beside the published KModel with the same random weights, a row at a time.

Where noise is off and nothing is voiced, whole rows are compared. A voiced row's spectrum has bins
of almost nothing whose phase is chance: there the parts are compared, and whole rows with noise.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.speech.engines.kokoro import PhonemeInput
from anyrig.speech.models import kokoro
from anyrig.speech.models.kokoro import KokoroNet
from anyrig.speech.models.kokoro_decoder import FrameRows, Transform, TransformShape
from anyrig.speech.models.layers import PaddingMask, TensorFormat

CONFIG: dict[str, Any] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12], "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5, "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11], "upsample_initial_channel": 512,
    },
    "dropout": 0.2, "hidden_dim": 512, "max_dur": 50, "n_layer": 3, "n_mels": 80, "n_token": 178,
    "style_dim": 128, "text_encoder_kernel_size": 5, "vocab": {},
    "plbert": {
        "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 128,
        "max_position_embeddings": 64, "num_hidden_layers": 2,
    },
}  # fmt: skip
SHAPES = ((6, 1.0), (3, 1.2), (9, 0.8), (1, 1.0))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """KModel without what its package runs on import, which wants a phonemiser."""
    spec = importlib.util.find_spec("kokoro")
    assert spec is not None, "the test environment has the package kokoro"
    assert spec.submodule_search_locations
    package = types.ModuleType("kokoro")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules.setdefault("kokoro", package)
    empty = tmp_path_factory.mktemp("weights") / "empty.pth"
    torch.save({}, empty)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = importlib.import_module("kokoro.model").KModel
        model = make(repo_id="none", config=CONFIG, model=str(empty)).eval()
    with torch.no_grad():
        model.predictor.duration_proj.linear_layer.bias.fill_(-2.9)
        model.decoder.generator.conv_post.weight_g.mul_(0.05)
    return model


def rows() -> list[PhonemeInput]:
    numbers = np.random.default_rng(1)
    return [
        PhonemeInput(
            numbers.integers(1, 178, size).tolist(),
            (numbers.standard_normal(256) * 0.3).astype(np.float32), speed,
        )
        for size, speed in SHAPES
    ]  # fmt: skip


def together(net: KokoroNet) -> KokoroNet:
    """On a CPU rows go one by one; here they shall not."""
    net._one_by_one = False
    return net


def said(model: Any, row: PhonemeInput) -> tuple[torch.Tensor, list[int]]:
    samples, units = model.forward_with_tokens(
        torch.tensor([[0, *row.ids, 0]]), torch.from_numpy(row.style)[None], row.speed
    )
    return samples, units.tolist()


@pytest.mark.skipif(
    platform.machine().lower() in ("aarch64", "arm64"),
    reason="the source is constant here, and the phases of its silent bins are rounding errors, "
    "which an FFT of several rows makes others of on Arm",
)
def test_rows_in_company_are_what_the_published_model_says_alone(
    published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = together(KokoroNet(published.state_dict(), CONFIG, "cpu", noise=False))
    results = ours.run(rows())
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    for row, (samples, units) in zip(rows(), results, strict=True):
        right, right_units = said(published, row)
        assert units == right_units
        assert len(samples) == sum(units) * 600
        loudest = float(right.abs().max())
        np.testing.assert_allclose(samples, right.numpy(), atol=3e-3 * loudest)


def test_a_voiced_row_with_its_seed_sounds_the_same_in_any_company(published: Any) -> None:
    state = published.state_dict()
    state["predictor.F0_proj.bias"] = torch.full((1,), 150.0)
    ours = KokoroNet(state, CONFIG, "cpu")
    seeds = [4, 5, 6, 7]
    alone = [ours.run([row], [seed])[0][0] for row, seed in zip(rows(), seeds, strict=True)]
    other = ours.run(rows()[:1], [9])[0][0]
    assert np.abs(other - alone[0]).max() > 1e-3
    for single, (batched, _) in zip(alone, together(ours).run(rows(), seeds), strict=True):
        assert batched.shape == single.shape
        error = np.sqrt(np.mean((batched - single) ** 2) / np.mean(single**2))
        assert error < 0.05  # a phase that turns over changes a few samples


def test_curves_and_decoder_agree_with_the_published_ones(published: Any) -> None:
    """Rows of 9, 8 and 6 frames, padded: pitch, loudness and what the generator is given."""
    net = KokoroNet(published.state_dict(), CONFIG, "cpu", noise=False)
    frames = [9, 8, 6]
    torch.manual_seed(2)
    told, sound = torch.randn(3, 9, 640), torch.randn(3, 9, 512)
    style, given = torch.randn(3, 128) * 0.3, FrameRows(frames, torch.device("cpu"))
    given.at(1).padding(told)
    given.at(1).padding(sound)
    with torch.inference_mode():
        curves = net._curves(told, style, given)
        decoded = net._decoder(sound, curves, style, given)
        for number, count in enumerate(frames):
            one = slice(number, number + 1)
            right = published.predictor.F0Ntrain(told[one, :count].transpose(1, 2), style[one])
            for ours, theirs in zip(curves, right, strict=True):
                torch.testing.assert_close(ours[one, : 2 * count], theirs, atol=2e-5, rtol=1e-4)
                assert not ours[number, 2 * count :].any()
            caught: list[torch.Tensor] = []
            whole = published.decoder
            hook = whole.generator.register_forward_pre_hook(
                lambda _, inputs, into=caught: into.append(inputs[0])
            )
            whole(sound[one, :count].transpose(1, 2), *right, style[one])
            hook.remove()
            mine = decoded[number, : 2 * count].T
            torch.testing.assert_close(mine, caught[0][0], atol=1e-4, rtol=1e-3)


def test_the_buzz_is_the_published_ones(published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    net = KokoroNet(published.state_dict(), CONFIG, "cpu", noise=False)
    torch.manual_seed(3)
    pitch = torch.rand(1, 60) * 250 * (torch.rand(1, 60) > 0.3)
    generator = published.decoder.generator
    with torch.no_grad():
        theirs = generator.m_source(generator.f0_upsamp(pitch[:, None]).transpose(1, 2))[0]
        ours = net._generator._source(pitch, None, PaddingMask(None))
    # The published one sums its phase in fp32, up to thousands of turns.
    torch.testing.assert_close(ours[0], theirs[0, :, 0], atol=5e-4, rtol=0)


def test_the_transform_ends_each_row_as_torch_does() -> None:
    lengths = [300, 205, 40]
    transform = Transform(TransformShape(20, 5, 300), TensorFormat(torch.device("cpu")))
    torch.manual_seed(4)
    sound, window = torch.randn(3, 300), torch.hann_window(20)
    spectra = transform.forward(sound, torch.tensor(lengths))
    frames = torch.tensor([length // 5 + 1 for length in lengths])
    told = torch.randn(3, 61, 22)
    beyond = [row * 61 + place for row, count in enumerate(frames.tolist())
              for place in range(count, 61)]  # fmt: skip
    back = transform.backward(told, frames, PaddingMask(torch.tensor(beyond)))
    for row, length in enumerate(lengths):
        count = int(frames[row])
        right = torch.stft(sound[row, :length], 20, 5, window=window, return_complex=True)
        torch.testing.assert_close(spectra[row, :count, :11], right.abs().T, atol=1e-5, rtol=1e-5)
        mine = told[row, :count].T
        wave = torch.istft(torch.polar(mine[:11].exp(), mine[11:].sin()), 20, 5, window=window)
        torch.testing.assert_close(back[row, :length], wave, atol=1e-4, rtol=1e-4)


def test_weights_are_read_from_both_kinds_of_file(published: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    state = {name: tensor.contiguous() for name, tensor in published.state_dict().items()}
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in state.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[f"module.{rest}"] = tensor
    torch.save(parts, tmp_path / "kokoro-v1_0.pth")
    with pytest.raises(MissingWeightsError, match=r"config\.json"):
        kokoro.load_weights(tmp_path / "kokoro-v1_0.pth")
    (tmp_path / "config.json").write_text("{}")
    save_file(state, tmp_path / "model.safetensors")
    for name in ("kokoro-v1_0.pth", "model.safetensors"):
        tensors, _ = kokoro.load_weights(tmp_path / name)
        assert tensors.keys() == state.keys()
        assert torch.equal(tensors["bert_encoder.bias"], state["bert_encoder.bias"])


def test_too_many_phonemes_and_foreign_weights_are_refused(published: Any) -> None:
    state = published.state_dict()
    ours = KokoroNet(state, CONFIG, "cpu")
    with pytest.raises(InvalidInputError, match="62 phonemes"):
        ours.run([PhonemeInput([1] * 63, np.zeros(256, np.float32))])
    del state["bert_encoder.weight"]
    with pytest.raises(InvalidInputError, match=r"bert_encoder\.weight"):
        KokoroNet(state, CONFIG, "cpu")
