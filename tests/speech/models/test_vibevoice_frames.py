"""VibeVoice beside transformers' own model, on small random weights."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.errors import InvalidInputError
from anyrig.speech.models.vibevoice import model as models
from anyrig.speech.models.vibevoice.codec import LazyWeights
from anyrig.speech.models.vibevoice.generate import (
    BEGIN,
    END,
    SPEAK,
    STOP,
    FrameLoop,
    GenerationInput,
    SpeechGenerator,
)
from anyrig.speech.models.vibevoice.model import VibeVoiceModel
from anyrig.speech.models.vibevoice.solver import plan_steps
from benchmarks import vibevoice_reference as reference

SPEAKING = (-1e9, -1e9, -1e9, 0.0)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return reference.build(reference.TINY, "cpu", torch.float32)


@pytest.fixture(scope="module")
def mine(theirs: Any) -> VibeVoiceModel:
    return reference.build_ours(theirs)


def test_every_frame_is_transformers_own(theirs: Any, mine: VibeVoiceModel) -> None:
    prompts = reference.make_prompts(theirs, [9, 4, 23])
    found = reference.compare(theirs, mine, prompts, 50)
    assert max(found.largest.values()) < 1e-5


def test_every_frame_is_close_in_half_precision() -> None:
    model = reference.build(reference.TINY, "cpu", torch.bfloat16)
    found = reference.compare(
        model, reference.build_ours(model), reference.make_prompts(model, [9, 4, 23]), 50
    )
    assert min(found.cosine.values()) > 0.999


def test_audio_that_stops_and_begins_again(theirs: Any, mine: VibeVoiceModel) -> None:
    """The free sequence goes back to its beginning, and what is heard goes on."""
    said = [SPEAK, SPEAK, SPEAK, STOP, BEGIN, SPEAK, SPEAK, STOP, BEGIN, SPEAK, SPEAK]
    tokens = [mine.shape.tokens.all[word] for word in said]
    prompts = reference.make_prompts(theirs, [7])
    seen = reference.record(theirs, prompts, tokens)
    frames = FrameLoop(mine, 1, 512, guidance=1.3)
    frames.begin([mine.embed_tokens(prompts[0])])
    spoken: list[torch.Tensor] = []
    for word in said:
        frames.token_bias.fill_(-1e9)[word] = 0.0
        frames.noise[0] = seen.noise[min(len(spoken), len(seen.noise) - 1)]
        frames.run(1, 20, 1)
        assert frames.tokens[0, 0] == word
        if word == SPEAK:
            spoken.append(frames.audio[0].clone())
    assert len(spoken) == len(seen.sounds)
    torch.testing.assert_close(torch.stack(spoken), torch.stack(seen.sounds), atol=1e-5, rtol=1e-4)


def test_a_first_token_that_is_no_audio(theirs: Any, mine: VibeVoiceModel) -> None:
    said = [BEGIN, SPEAK, SPEAK]
    prompts = reference.make_prompts(theirs, [5])
    seen = reference.record(theirs, prompts, [mine.shape.tokens.all[word] for word in said])
    frames = FrameLoop(mine, 1, 512, guidance=1.3)
    frames.begin([mine.embed_tokens(prompts[0])])
    for word, noise in zip(said, [seen.noise[0], *seen.noise], strict=True):
        frames.token_bias.fill_(-1e9)[word] = 0.0
        frames.noise[0] = noise
        frames.run(1, 20, 1)
    torch.testing.assert_close(frames.audio[0], seen.sounds[-1], atol=1e-5, rtol=1e-4)


def test_a_row_sounds_the_same_in_any_company(theirs: Any, mine: VibeVoiceModel) -> None:
    """Rows of unequal length that end at different times, so that the others move up."""
    prompts = reference.make_prompts(theirs, [9, 4, 23, 12, 6])
    limits = [5, 21, 9, 30, 2]
    utterances = [
        GenerationInput(mine.embed_tokens(prompt), seed=row, max_frames=limit)
        for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    together = _spoken(mine, utterances)
    hop = mine.shape.acoustic.hop
    for utterance, sound, limit in zip(utterances, together, limits, strict=True):
        (alone,) = _spoken(mine, [utterance])
        assert len(sound) == limit * hop
        np.testing.assert_allclose(sound, alone, atol=1e-4)


def test_short_pieces_are_the_same_sound(theirs: Any, mine: VibeVoiceModel) -> None:
    utterance = GenerationInput(
        mine.embed_tokens(reference.make_prompts(theirs, [6])[0]), seed=3, max_frames=19
    )
    (usual,), (short,) = _spoken(mine, [utterance]), _spoken(mine, [utterance], first=3)
    np.testing.assert_array_equal(usual, short)
    (other,) = _spoken(mine, [dataclasses.replace(utterance, seed=4)])
    assert not np.allclose(usual, other)


def test_a_row_that_ends_is_heard_no_more(theirs: Any, mine: VibeVoiceModel) -> None:
    speaker = SpeechGenerator(mine)
    speaker.token_bias = (0.0, -1e9, -1e9, -1e9)
    utterance = GenerationInput(
        mine.embed_tokens(reference.make_prompts(theirs, [6])[0]), seed=3, max_frames=19
    )
    (piece,) = speaker.generate([utterance])
    assert piece.ended
    assert len(piece.samples) == 0
    assert speaker.token_bias[END] == 0.0


def test_rows_longer_than_the_first_span(theirs: Any, mine: VibeVoiceModel) -> None:
    """Attention widens in steps: crossing one changes nothing."""
    long = reference.make_prompts(theirs, [505, 11])
    found = reference.compare(theirs, mine, long, 12)
    assert max(found.largest.values()) < 1e-5


def test_a_voice_is_heard_as_transformers_hears_it(theirs: Any) -> None:
    quiet = dataclasses.replace(
        (sizes := models.read_shape(theirs.config.to_dict())),
        acoustic=dataclasses.replace(sizes.acoustic, noise=0.0),
    )
    given = LazyWeights(theirs.state_dict().__getitem__, torch.device("cpu"), torch.float32)
    model, hop = VibeVoiceModel(quiet, given), sizes.acoustic.hop
    sample = torch.randn(70 * hop - 3, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(sample, (0, 3))
    inner = theirs.model
    latents = inner.audio_tower.encode(padded[None, None], sample=False).latents
    latents = (latents + inner.latent_bias_factor) * inner.latent_scaling_factor
    wanted = inner.multi_modal_projector(latents)[0]
    torch.testing.assert_close(model.encode_voice(sample), wanted, atol=1e-5, rtol=1e-4)


# ------------------------------------------------------------ the solver


@pytest.mark.parametrize(
    ("num_steps", "wanted"),
    [
        (5, [-2.986012, -1.194056, -0.266614, 0.820586]),
        (10, [-2.667333, -0.779317, 0.010479, 1.378794]),
        (20, [-2.12416, -0.908167, 0.338148, 1.878729]),
    ],
)
def test_the_solver_is_the_published_one(num_steps: int, wanted: list[float]) -> None:
    """Numbers of DPMSolverMultistepScheduler in diffusers 0.42.1."""
    latent, last = torch.linspace(-2, 2, 4), torch.zeros(4)
    for number, step in enumerate(plan_steps(num_steps)):
        latent, last = models.advance(step, latent, torch.sin(3 * latent + number), last)
    torch.testing.assert_close(latent, torch.tensor(wanted), atol=3e-6, rtol=0)


def test_another_solver_is_refused() -> None:
    models.check_scheduler(
        {"beta_schedule": "squaredcos_cap_v2", "prediction_type": "v_prediction"}
    )
    with pytest.raises(InvalidInputError, match="sde-dpmsolver"):
        models.check_scheduler({"algorithm_type": "sde-dpmsolver++"})


def test_a_config_that_leaves_out_what_is_usual() -> None:
    """As transformers may write it: only what differs from its defaults."""
    config_class, _ = reference.import_classes()
    full = config_class(**reference.FULL)
    assert models.read_shape(json.loads(full.to_json_string(use_diff=True))) == models.read_shape(
        full.to_dict()
    )
    assert models.read_shape(full.to_dict()).acoustic.hop == 3200


def test_a_folder_of_another_form_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not a VibeVoice folder"):
        models.read_shape({"model_type": "vibevoice", "decoder_config": {}})
    strange = {**reference.TINY, "model_type": "vibevoice"}
    strange["audio_config"] = {**strange["audio_config"], "hidden_act": "relu"}
    with pytest.raises(InvalidInputError, match="relu"):
        models.read_shape(strange)


def _spoken(
    mine: VibeVoiceModel, utterances: list[GenerationInput], first: int = 8, graphs: bool = True
) -> list[Any]:
    speaker = SpeechGenerator(mine, graphs=graphs)
    speaker.token_bias = SPEAKING
    parts: list[list[Any]] = [[] for _ in utterances]
    for piece in speaker.generate(utterances, first_frames=first):
        parts[piece.index].append(piece.samples)
    return [np.concatenate(some) for some in parts]


@pytest.mark.gpu
def test_a_captured_step_is_the_step() -> None:
    """On a real GPU: replayed graphs beside the same code run as it is written."""
    model = reference.build(reference.TINY, "cuda", torch.float32)
    mine, prompts = reference.build_ours(model), reference.make_prompts(model, [505, 4, 23])
    utterances = [
        GenerationInput(mine.embed_tokens(one), n, 20 + n) for n, one in enumerate(prompts)
    ]
    captured, plain = _spoken(mine, utterances), _spoken(mine, utterances, graphs=False)
    for one, other in zip(captured, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
