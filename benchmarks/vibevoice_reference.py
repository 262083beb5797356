"""transformers' VibeVoice beside ours: random weights, what it computed, and the difference.

The reference is `generate` itself, recorded with hooks: the inputs and outputs of its language
model, the noise it drew, the latents and the audio. Ours is given the same inputs and the same
noise, frame by frame, and must compute the same.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyrig.speech.models.vibevoice import model as models
from anyrig.speech.models.vibevoice.codec import LazyWeights
from anyrig.speech.models.vibevoice.generate import SPEAK, FrameLoop
from anyrig.speech.models.vibevoice.model import VibeVoiceModel
from anyrig.speech.models.vibevoice.solver import SolverStep, plan_steps

# The sizes of the published 1.5B model, as its config.json has them.
FULL: dict[str, Any] = {
    "text_config": {
        "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960,
        "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
        "vocab_size": 151936, "max_position_embeddings": 65536, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "tie_word_embeddings": True,
    },
    "audio_config": {"model_type": "vibevoice_acoustic_tokenizer"},
    "semantic_model_config": {
        "model_type": "vibevoice_acoustic_tokenizer_encoder", "hidden_size": 128,
    },
    "diffusion_head_config": {
        "hidden_size": 1536, "latent_size": 64, "num_hidden_layers": 4, "intermediate_size": 4608,
    },
}  # fmt: skip
# The same, but small: for a CPU, in a second.
TINY: dict[str, Any] = {
    "text_config": {
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 64, "max_position_embeddings": 4096, "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
    "audio_config": {
        "model_type": "vibevoice_acoustic_tokenizer", "hidden_size": 16, "num_filters": 4,
        "downsampling_ratios": [2, 4], "depths": [1, 2, 2],
    },
    "semantic_model_config": {
        "model_type": "vibevoice_acoustic_tokenizer_encoder", "hidden_size": 8,
        "num_filters": 4, "downsampling_ratios": [2, 4], "depths": [1, 2, 2],
    },
    "diffusion_head_config": {
        "hidden_size": 64, "latent_size": 16, "num_hidden_layers": 2, "intermediate_size": 96,
        "frequency_embedding_size": 32,
    },
    "pad_token_id": 3, "eos_token_id": 3,
    "audio_bos_token_id": 4, "audio_eos_token_id": 5, "audio_token_id": 6,
}  # fmt: skip


WEIGHT_SCALE = 0.6
"""Of random weights, relative to what keeps the variance of a signal."""


def import_classes() -> tuple[Any, Any]:
    """transformers' configuration and model.

    VIBEVOICE_REFERENCE names a folder that holds a `transformers` package which has them, for a
    machine whose own is too old.
    """
    carried = os.environ.get("VIBEVOICE_REFERENCE")
    if carried and "transformers" not in sys.modules:
        sys.path.insert(0, str(Path(carried).resolve()))
    transformers = importlib.import_module("transformers")
    try:
        return transformers.VibeVoiceConfig, transformers.VibeVoiceForConditionalGeneration
    except AttributeError:
        raise SystemExit(
            f"transformers {transformers.__version__} at {transformers.__file__} has no VibeVoice. "
            "Set VIBEVOICE_REFERENCE to a folder that holds transformers 5.17 or newer."
        ) from None


def build(sizes: dict[str, Any], device: str, dtype: torch.dtype, seed: int = 0) -> Any:
    """transformers' model with random weights.

    A new model's layer scales are a millionth: errors in half of its layers would not show.
    """
    config_class, model_class = import_classes()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = model_class(config_class(**sizes)).eval()
    finally:
        torch.set_default_dtype(before)
    source = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _fill(name, parameter, source)
    return model.requires_grad_(False)


def recast(model: Any, dtype: torch.dtype) -> Any:
    """The model with weights of another dtype; buffers stay as they are, as after loading."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def _fill(name: str, parameter: Tensor, source: torch.Generator) -> None:
    last = name.rsplit(".", 1)[-1]
    if name.endswith("latent_scaling_factor"):
        parameter.fill_(0.7)
    elif name.endswith("latent_bias_factor"):
        parameter.fill_(-0.1)
    elif "gamma" in last:
        parameter.uniform_(0.2, 0.4, generator=source)
    elif parameter.ndim == 1:
        wide = "norm" in name or ".act." in name
        parameter.normal_(1.0 if wide else 0.0, 0.1, generator=source)
    else:
        fan_in = parameter[0].numel() if "embed" not in name else parameter.shape[-1]
        parameter.normal_(0.0, WEIGHT_SCALE * fan_in**-0.5, generator=source)


def build_ours(model: Any, num_steps: int = 10) -> VibeVoiceModel:
    """Our model on the same weights."""
    first = next(model.parameters())
    given = LazyWeights(model.state_dict().__getitem__, first.device, first.dtype)
    return VibeVoiceModel(models.read_shape(model.config.to_dict()), given, num_steps=num_steps)


class _StepOutput(NamedTuple):
    prev_sample: Tensor


class SchedulerAdapter:
    """Our scheduler with the interface that generate expects, without diffusers."""

    def __init__(self) -> None:
        self._steps: tuple[SolverStep, ...] = ()
        self.timesteps = torch.zeros(0, dtype=torch.int64)

    def set_timesteps(self, num_inference_steps: int) -> None:
        if len(self._steps) != num_inference_steps:  # called for every frame
            self._steps = plan_steps(num_inference_steps)
            self.timesteps = torch.tensor([step.time for step in self._steps])
        self._at, self._last = 0, torch.zeros(())

    def step(self, velocity: Tensor, _time: object, latent: Tensor) -> _StepOutput:
        following, self._last = models.advance(
            self._steps[self._at], latent.float(), velocity.float(), self._last
        )
        self._at += 1
        return _StepOutput(following.to(velocity.dtype))


class ForcedTokens:
    """A logits processor that allows only the given tokens, one a step."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens, self._at = tokens, 0

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        self._at += 1
        forced = torch.full_like(scores, -math.inf)
        forced[:, token] = 0.0
        return forced


def generate(model: Any, prompts: Sequence[Tensor], tokens: Sequence[int]) -> Any:
    """transformers' generate on prompts of unequal length, padded on the left."""
    longest = max(len(prompt) for prompt in prompts)
    device = next(model.parameters()).device
    ids = torch.full((len(prompts), longest), model.config.pad_token_id)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return model.generate(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        max_new_tokens=len(tokens),
        logits_processor=[ForcedTokens(tokens)],
        noise_scheduler=SchedulerAdapter(),
        num_diffusion_steps=10,
        guidance_scale=1.3,
        do_sample=False,
    )


@dataclass
class GenerateRecord:
    """What transformers' generate computed, in order."""

    inputs: list[Tensor] = field(default_factory=list)
    """Of the language model: the last position of each call."""
    noise: list[Tensor] = field(default_factory=list)
    latents: list[Tensor] = field(default_factory=list)
    sounds: list[Tensor] = field(default_factory=list)

    def input_of(self, frame: int) -> Tensor:
        """The input of a frame.

        A frame has three calls: the conditional one, one that guides the token scores (neither the
        published model's own code nor ours has it), and the unconditional one.
        """
        return self.inputs[frame * (len(self.inputs) // len(self.noise))]


def record(model: Any, prompts: Sequence[Tensor], tokens: Sequence[int]) -> GenerateRecord:
    """Run generate with these tokens and record it."""
    torch.manual_seed(1)  # transformers draws its noise from the generator of the process
    seen, head_calls = GenerateRecord(), [0]

    def language(_module: object, _args: object, given: Any) -> None:
        seen.inputs.append(given["inputs_embeds"][:, -1])

    def head(_module: object, args: Any) -> None:
        if head_calls[0] % 10 == 0:
            seen.noise.append(args[0][: len(args[0]) // 2].clone())
        head_calls[0] += 1

    inner = model.model
    hooks = [
        inner.language_model.register_forward_pre_hook(language, with_kwargs=True),
        inner.diffusion_head.register_forward_pre_hook(head),
        inner.multi_modal_projector.register_forward_pre_hook(
            lambda _module, args: seen.latents.append(args[0][:, 0])
        ),
        inner.audio_tower.decoder.register_forward_hook(
            lambda _module, _args, out: seen.sounds.append(out.audio[:, 0])
        ),
    ]
    try:
        with torch.no_grad():
            generate(model, prompts, tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


class Difference(NamedTuple):
    """The largest over all frames and rows, relative to the reference's largest value, and the
    smallest cosine, of each of latents, sound and next inputs."""

    largest: dict[str, float]
    cosine: dict[str, float]


def compare(
    model: Any, ours: VibeVoiceModel, prompts: Sequence[Tensor], num_frames: int
) -> Difference:
    """Our frames beside transformers' on the same inputs and noise."""
    seen = record(model, prompts, [model.config.audio_token_id] * (num_frames + 1))
    rows, longest = len(prompts), max(len(prompt) for prompt in prompts)
    frames = FrameLoop(ours, rows, _round_up(longest + num_frames), guidance=1.3)
    frames.token_bias[:] = torch.tensor([-1e9, -1e9, -1e9, 0.0])
    frames.begin([ours.embed_tokens(prompt) for prompt in prompts])
    largest: dict[str, float] = {}
    cosine: dict[str, float] = {}
    for n in range(num_frames):
        if n:
            frames.state.inputs.copy_(seen.input_of(n).repeat_interleave(2, 0))
        frames.noise[0] = seen.noise[n].float()
        frames.run(rows, longest + n, 1)
        assert frames.tokens[0].eq(SPEAK).all()
        pairs = {
            "latents": (frames.latents[0], seen.latents[n]),
            "sound": (frames.audio[0], seen.sounds[n]),
            "next input": (frames.state.inputs[::2], seen.input_of(n + 1)),
        }
        for name, (actual, expected) in pairs.items():
            difference, similarity = _compare(actual.float(), expected.float())
            largest[name] = max(largest.get(name, 0.0), difference)
            cosine[name] = min(cosine.get(name, 1.0), similarity)
    return Difference(largest, cosine)


def _compare(actual: Tensor, expected: Tensor) -> tuple[float, float]:
    difference = float((actual - expected).abs().max() / expected.abs().max())
    return difference, float(torch.cosine_similarity(actual, expected, dim=-1).min())


def _round_up(length: int) -> int:
    return -(-length // 512) * 512


def make_prompts(model: Any, lengths: Sequence[int], seed: int = 1) -> list[Tensor]:
    """Random prompts that end, like real ones, with the token that starts the audio."""
    source = torch.Generator().manual_seed(seed)
    # Special tokens are the first few of the small model, the last of the large one.
    words = model.config.text_config.vocab_size
    low, high = (10, words) if words < 1000 else (0, words - 1000)
    made = []
    for length in lengths:
        prompt = torch.randint(low, high, (length,), generator=source)
        prompt[-1] = model.config.audio_bos_token_id
        made.append(prompt)
    return made
