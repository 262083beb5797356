"""VibeVoice-Realtime's own code beside ours: random weights, what it computed, and the difference.

The original runs from its source (github.com/microsoft/VibeVoice), with torch, transformers 4.51.3
and diffusers; none of it is needed to compare with what was recorded:

    python -m benchmarks.vibevoice_realtime_reference SOURCE FOLDER

writes a recording of its `generate` at a tiny shape to FOLDER: noise, latents, sound, and a voice
preset as it pickles one. Weights and noise are drawn from a seed under the names of the published
tensors, so that both sides have the same without storing them.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from anyrig.speech.models.vibevoice.checkpoint import list_tensors

if TYPE_CHECKING:
    from anyrig.speech.models.vibevoice.checkpoint import RealtimeShape
    from anyrig.speech.models.vibevoice.presets import Preset
    from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech
    from anyrig.speech.models.vibevoice.realtime_model import RealtimeVoice

# The sizes of the published model, as its config.json has them.
FULL: dict[str, Any] = {
    "model_type": "vibevoice_streaming", "tts_backbone_num_hidden_layers": 20,
    "decoder_config": {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
        "vocab_size": 151936, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
    },
    "acoustic_tokenizer_config": {
        "vae_dim": 64, "encoder_n_filters": 32, "decoder_n_filters": 32,
        "encoder_ratios": [8, 5, 5, 4, 2, 2], "encoder_depths": "3-3-3-3-3-3-8",
    },
    "diffusion_head_config": {
        "hidden_size": 896, "head_layers": 4, "head_ffn_ratio": 3.0, "latent_size": 64,
        "speech_vae_dim": 64,
    },
}  # fmt: skip
# The same, but small: for a CPU, in a second.
TINY: dict[str, Any] = {
    "model_type": "vibevoice_streaming", "tts_backbone_num_hidden_layers": 2,
    "decoder_config": {
        "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 300, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
    },
    "acoustic_tokenizer_config": {
        "vae_dim": 8, "encoder_n_filters": 4, "decoder_n_filters": 4,
        "encoder_ratios": [20, 20, 8], "encoder_depths": "1-1-1-2",
    },
    "diffusion_head_config": {
        "hidden_size": 32, "head_layers": 2, "head_ffn_ratio": 3.0, "latent_size": 8,
        "speech_vae_dim": 8,
    },
}  # fmt: skip
GUIDANCE, SDE_STEPS, ODE_STEPS = 1.5, 5, 7
NUM_FRAMES = 54
"""Nine windows."""
SOUND_EVERY = 6
"""Of the recorded frames, one in so many has its sound in the file."""
TOKENS = tuple(range(20, 43))
"""Four windows of text and a part of a fifth."""
_WEIGHT_SCALE = 0.6


# -- random weights --------------------------------------------------------------------------------


def draw_weights(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random weights under the published names, the same on every machine."""
    source = np.random.RandomState(seed)

    def draw(shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(np.asarray(source.standard_normal(shape), np.float32))

    return {name: _scale(name, draw(shape)) for name, shape in list_tensors(config).items()}


def draw_weights_on(device: str, config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """The like, drawn on a device: for large models."""
    source = torch.Generator(device).manual_seed(seed)
    return {
        name: _scale(name, torch.randn(shape, generator=source, device=device))
        for name, shape in list_tensors(config).items()
    }


def write_weights(folder: Path, config: dict[str, Any], seed: int = 0) -> None:
    """The same as a folder in the published form: bf16, one tensor in memory at a time in fp32."""
    from safetensors.torch import save_file

    source = torch.Generator().manual_seed(seed)
    tensors = {
        name: _scale(name, torch.randn(shape, generator=source)).bfloat16()
        for name, shape in list_tensors(config).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def _scale(name: str, values: Tensor) -> Tensor:
    """Normal values as weights. What a new model would have (layer scales of a millionth) would
    hide errors in half of its layers.
    """
    constants = {
        "model.speech_scaling_factor": 0.7, "model.speech_bias_factor": -0.1,
        "tts_eos_classifier.fc2.bias": -1e4,  # it never ends by itself
    }  # fmt: skip
    if name in constants:
        return torch.full_like(values, constants[name])
    if name.endswith("gamma"):
        return values.mul(0.03).add(0.3)
    if values.ndim == 1:
        return values.mul(0.1).add(1.0 if "norm" in name else 0.0)
    fan_in = values.shape[-1] if "embed" in name else values[0].numel()
    return values.mul(_WEIGHT_SCALE * fan_in**-0.5)


def draw_noise(num_frames: int, num_steps: int, latent: int, seed: int = 1) -> Tensor:
    """Frame, step + 1, vector."""
    size = (num_frames, num_steps + 1, latent)
    return torch.from_numpy(np.random.RandomState(seed).standard_normal(size).astype(np.float32))


def draw_preset(shape: RealtimeShape, seed: int = 2) -> Preset:
    """A voice of random numbers, as long as the published ones."""
    from anyrig.speech.models.vibevoice.presets import Preset

    source, size = np.random.RandomState(seed), shape.text

    def draw(*sizes: int) -> Any:
        return source.standard_normal(sizes).astype(np.float32)

    return Preset(
        draw(size.layers, 60, 2, size.kv_heads, size.head_dim),
        draw(shape.speech.layers, 183, 2, size.kv_heads, size.head_dim),
        draw(shape.speech.layers, 1, 2, size.kv_heads, size.head_dim),
        draw(2, size.hidden),
    )


# -- ours ------------------------------------------------------------------------------------------


def build_ours(
    config: dict[str, Any], weights: dict[str, Tensor], device: str, dtype: torch.dtype
) -> RealtimeVoice:
    """Our model on given weights."""
    from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
    from anyrig.speech.models.vibevoice.codec import LazyWeights
    from anyrig.speech.models.vibevoice.realtime_model import RealtimeVoice, rename_weights

    given = LazyWeights(weights.__getitem__, torch.device(device), dtype)
    return RealtimeVoice(read_realtime_shape(config), rename_weights(given))


def give(speech: RealtimeSpeech, tokens: Sequence[int], noise: Tensor) -> None:
    """Have an utterance say these tokens with this noise (frame, step + 1, vector)."""
    windows = iter([one.numpy() for one in torch.split(noise, 6)])
    speech.draw = lambda: next(windows)
    speech.tokens.extend(tokens)
    speech.finished = True


class Frames(NamedTuple):
    """Of one utterance: frame, vector."""

    latents: Tensor
    sounds: Tensor


def speak(runtime: RealtimeRuntime, speech: RealtimeSpeech) -> Frames:
    """All frames of an utterance that speaks alone, with any model."""
    return follow(runtime, speech, None)


def follow(runtime: RealtimeRuntime, speech: RealtimeSpeech, latents: Tensor | None) -> Frames:
    """The same; each frame goes on from the given latent of the frame before, not from its own."""
    model: Any = runtime.model
    sample, seen = model.sample, []

    def replaced(*given: Any) -> Any:
        own = sample(*given)
        seen.append(torch.as_tensor(own[0]).float().cpu())
        if latents is None:
            return own
        given_latents = latents[len(seen) - 1].expand(len(own), -1)
        return given_latents.to(own) if isinstance(own, Tensor) else given_latents.numpy()

    with mock.patch.object(model, "sample", replaced):
        sounds = [torch.from_numpy(part.samples) for _, part in runtime.read([speech])]
    count = min(len(seen), speech.num_frames)
    hop = runtime.model.shape.codec.hop
    return Frames(torch.stack(seen[:count]), torch.cat(sounds).view(-1, hop))


# -- the original ----------------------------------------------------------------------------------


def import_original(source: Path) -> Any:
    """Its inference module, from a checkout.

    VIBEVOICE_REFERENCE names a folder with the packages that it needs, where the installed
    transformers is another one.
    """
    carried = os.environ.get("VIBEVOICE_REFERENCE")
    sys.path[:0] = [str(Path(one).resolve()) for one in (carried, source) if one]
    return importlib.import_module("vibevoice.modular.modeling_vibevoice_streaming_inference")


def build_original(
    module: Any, config: dict[str, Any], device: str, dtype: torch.dtype, weights: dict[str, Tensor]
) -> Any:
    """The original's model on given weights."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            settings = module.VibeVoiceStreamingConfig(**copy.deepcopy(config))
            model = module.VibeVoiceStreamingForConditionalGenerationInference(settings).eval()
    finally:
        torch.set_default_dtype(before)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    assert all("encoder" in name or "tts_language_model.embed" in name for name in missing), missing
    for name in ("speech_scaling_factor", "speech_bias_factor"):
        getattr(model.model, name).data = getattr(model.model, name).data.to(dtype)
    return model.to(dtype).requires_grad_(False)


def set_solver(model: Any, num_steps: int, *, sde: bool) -> None:
    """As its server sets it (`sde`), or its script."""
    kind = "sde-dpmsolver++" if sde else "dpmsolver++"
    scheduler = model.model.noise_scheduler
    model.model.noise_scheduler = scheduler.from_config(
        scheduler.config, algorithm_type=kind, beta_schedule="squaredcos_cap_v2"
    )
    model.set_ddpm_inference_steps(num_steps=num_steps)


def make_preset(model: Any, seed: int = 2, lengths: tuple[int, int] = (5, 9)) -> dict[str, Any]:
    """A voice as its presets are: what the model remembers of a random prompt."""
    from transformers import DynamicCache
    from transformers.modeling_outputs import BaseModelOutputWithPast

    source = torch.Generator().manual_seed(seed)
    first = next(model.parameters())
    inner, hidden = model.model, model.config.decoder_config.hidden_size

    def run(language: Any, length: int) -> Any:
        inputs = torch.randn(1, length, hidden, generator=source).to(first)
        with torch.no_grad():
            out = language(
                inputs_embeds=inputs, use_cache=True, past_key_values=DynamicCache(),
                return_dict=True,
            )  # fmt: skip
        return BaseModelOutputWithPast(
            last_hidden_state=out.last_hidden_state, past_key_values=out.past_key_values
        )

    return {
        "lm": run(inner.language_model, lengths[0]),
        "tts_lm": run(inner.tts_language_model, lengths[1]),
        "neg_lm": run(inner.language_model, 1),
        "neg_tts_lm": run(inner.tts_language_model, 1),
    }


class StubTokenizer:
    """What `generate` asks a tokenizer for."""

    bos_token_id = eos_token_id = pad_token_id = 3
    speech_start_id, speech_end_id, speech_diffusion_id = 4, 5, 6

    def convert_tokens_to_ids(self, _name: str) -> int:
        return 7


@dataclass
class OriginalRecord:
    """What the original's `generate` computed, in order: all frames, heard or not."""

    latents: list[Tensor] = field(default_factory=list)
    sounds: list[Tensor] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    """What its classifier said after each frame, before the sigmoid."""
    speech: Tensor | None = None
    """What it returned: the sound that is heard."""


def run_original(
    model: Any, preset: dict[str, Any], tokens: Sequence[int], num_frames: int, **more: Any
) -> Any:
    """Its `generate`, stopped after some frames if it does not end before."""
    device = next(model.parameters()).device
    lengths = [preset[name]["last_hidden_state"].shape[1] for name in ("lm", "tts_lm")]
    ids = [torch.full((1, length), 3, device=device) for length in lengths]
    windows = -(-num_frames // 6)
    num_calls = [0]

    def stop() -> bool:
        num_calls[0] += 1
        return num_calls[0] > windows

    return model.generate(
        input_ids=ids[0], attention_mask=torch.ones_like(ids[0]), tts_lm_input_ids=ids[1],
        tts_lm_attention_mask=torch.ones_like(ids[1]),
        tts_text_ids=torch.tensor([list(tokens)], device=device), tokenizer=StubTokenizer(),
        all_prefilled_outputs=copy.deepcopy(preset), max_new_tokens=None, stop_check_fn=stop,
        generation_config={"do_sample": False}, show_progress_bar=False, **more,
    )  # fmt: skip


def record(
    model: Any, preset: dict[str, Any], tokens: Sequence[int], noise: Tensor, guidance: float
) -> OriginalRecord:
    """Run `generate` with this noise and record it."""
    seen = OriginalRecord()
    inner = model.model
    hooks = [
        inner.acoustic_connector.register_forward_pre_hook(
            lambda _module, args: seen.latents.append(args[0][0, 0].clone())
        ),
        inner.acoustic_tokenizer.decoder.register_forward_hook(
            lambda _module, _args, out: seen.sounds.append(out[0, 0].clone())
        ),
        model.tts_eos_classifier.register_forward_hook(_record_end(seen)),
    ]
    try:
        with torch.no_grad(), _fixed_noise(noise):
            made = run_original(model, preset, tokens, len(noise), cfg_scale=guidance)
    finally:
        for hook in hooks:
            hook.remove()
    seen.speech = made.speech_outputs[0]
    return seen


def _record_end(seen: OriginalRecord) -> Any:
    def note(_module: Any, _args: Any, out: Tensor) -> None:
        # It is called in each forward as well: the last call of a frame counts.
        while len(seen.ends) < len(seen.sounds):
            seen.ends.append(0.0)
        if seen.ends:
            seen.ends[-1] = float(out.flatten()[0])

    return note


@contextlib.contextmanager
def _fixed_noise(noise: Tensor) -> Iterator[None]:
    """Its draws, replaced: the start of each frame, then one for each step of the SDE."""
    at = {"frame": -1, "step": 0}

    def draw(size: Sequence[int]) -> Tensor:
        return noise[at["frame"], at["step"]].expand(size).clone()

    def start(*size: int, **_more: Any) -> Tensor:
        at["frame"], at["step"] = at["frame"] + 1, 0
        return draw(size)

    def add(size: Sequence[int], *, device: Any, dtype: Any, **_more: Any) -> Tensor:
        at["step"] += 1
        return draw(size).to(device, dtype)

    inference = sys.modules["vibevoice.modular.modeling_vibevoice_streaming_inference"]
    solver = sys.modules["vibevoice.schedule.dpm_solver"]
    fake = types.SimpleNamespace(**{name: getattr(torch, name) for name in dir(torch)})
    fake.randn = start
    with (
        mock.patch.object(inference, "torch", fake),
        mock.patch.object(solver, "randn_tensor", add),
    ):
        yield


def write_recording(source: Path, folder: Path) -> None:
    """Record the original at the tiny shape."""
    module = import_original(source)
    config, latent = TINY, TINY["acoustic_tokenizer_config"]["vae_dim"]
    model = build_original(module, config, "cpu", torch.float32, draw_weights(config))
    preset = make_preset(model)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(preset, folder / "en-Tiny_woman.pt")
    arrays: dict[str, Any] = {}
    for name, num_steps, sde in (("sde", SDE_STEPS, True), ("ode", ODE_STEPS, False)):
        set_solver(model, num_steps, sde=sde)
        noise = draw_noise(NUM_FRAMES, num_steps, latent)
        seen = record(model, preset, TOKENS, noise, GUIDANCE)
        arrays[f"{name}_latents"] = torch.stack(seen.latents).numpy()
        arrays[f"{name}_sound"] = torch.stack(seen.sounds[::SOUND_EVERY]).numpy()
    half = build_original(module, config, "cpu", torch.bfloat16, draw_weights(config))
    set_solver(half, SDE_STEPS, sde=True)
    preset_half = make_preset(half)
    noise_half = draw_noise(NUM_FRAMES, SDE_STEPS, latent)
    seen_half = record(half, preset_half, TOKENS, noise_half, GUIDANCE)
    torch.save(preset_half, folder / "en-Half_man.pt")
    arrays["half_latents"] = torch.stack(seen_half.latents).float().numpy()
    arrays["half_sound"] = torch.stack(seen_half.sounds[::SOUND_EVERY]).float().numpy()
    # Another end of speech: between the frames, where its classifier comes nearest to one.
    ends = torch.tensor(seen.ends)
    threshold = float(ends[14:].max())
    with torch.no_grad():
        model.tts_eos_classifier.fc2.bias += 1e-3 - threshold
    arrays["end_bias"] = model.tts_eos_classifier.fc2.bias.numpy()
    ended = record(model, preset, TOKENS, noise, GUIDANCE)
    assert ended.speech is not None
    arrays["end_frames"] = np.array(len(ended.speech[0]) // len(ended.sounds[0]))
    np.savez_compressed(folder / "original.npz", **arrays)
    print({name: value.shape for name, value in arrays.items()}, arrays["end_frames"])


if __name__ == "__main__":
    write_recording(Path(sys.argv[1]), Path(sys.argv[2]))
