"""The parts of a VibeVoice model together, from a folder or from tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.vibevoice import scheduler, shape, weights
from anyrig.speech.models.vibevoice.codec import Decoder, Encoder
from anyrig.speech.models.vibevoice.diffusion import Head
from anyrig.speech.models.vibevoice.language import Language
from anyrig.speech.models.vibevoice.shape import Shape
from anyrig.speech.models.vibevoice.weights import Weights

# A sample is encoded in pieces of so many frames: four seconds at the published sizes.
_PIECE = 30


class Connector:
    """What a codec gives, in the language model's words."""

    def __init__(self, given: Weights) -> None:
        self._first, self._first_bias = given["linear_1.weight"], given["linear_1.bias"]
        self._norm = given["act.weight"]
        self._second, self._second_bias = given["linear_2.weight"], given["linear_2.bias"]

    def __call__(self, x: Tensor) -> Tensor:
        """A vector for each."""
        hidden = F.linear(x, self._first, self._first_bias)
        hidden = F.rms_norm(hidden, hidden.shape[-1:], self._norm, 1e-6)
        return F.linear(hidden, self._second, self._second_bias)


class Heard(NamedTuple):
    """A frame's sound, and what the model goes on from."""

    sound: Tensor
    following: Tensor
    acoustic: Tensor
    semantic: Tensor


class VibeVoice:
    """A model, ready to be stepped by `frames.Frames`."""

    def __init__(self, sizes: Shape, given: Weights, *, num_steps: int = 10) -> None:
        self.shape = sizes
        self.device, self.dtype = given.device, given.dtype
        inner = given.under("model")
        self.language = Language(sizes.text, inner.under("language_model"))
        self.head = Head(sizes.head, inner.under("diffusion_head"), num_steps)
        self.decoder = Decoder(sizes.acoustic, inner.under("audio_tower.decoder"))
        self.listener = Encoder(sizes.semantic, inner.under("semantic_tokenizer_encoder"))
        self._sampler = Encoder(sizes.acoustic, inner.under("audio_tower.encoder"))
        self._acoustic = Connector(inner.under("multi_modal_projector"))
        self._semantic = Connector(inner.under("semantic_connector"))
        self._scale = inner.exact("latent_scaling_factor")
        self._offset = inner.exact("latent_bias_factor")
        words = torch.tensor(sizes.tokens.all, device=self.device)
        self.word_inputs = self.language.embedding[words]
        scores = self.language.embedding if sizes.text.tied else given["lm_head.weight"]
        self._word_scores = scores[words].float()

    def scores(self, thoughts: Tensor) -> Tensor:
        """How much each of `Tokens.all` is wanted next."""
        return F.linear(thoughts.float(), self._word_scores)

    def hear(self, latents: Tensor, acoustic: Tensor, semantic: Tensor) -> Heard:
        """Latents of one frame made sound, heard, and turned into the next input."""
        latents = latents[:, None]
        unscaled = (latents / self._scale - self._offset).to(self.dtype)
        sound, acoustic = self.decoder(unscaled, acoustic)
        features, semantic = self.listener(sound, semantic)
        following = self._acoustic(latents.to(self.dtype)) + self._semantic(features)
        return Heard(sound[..., 0], following[:, 0], acoustic, semantic)

    def words(self, tokens: Tensor) -> Tensor:
        """The inputs that stand for tokens."""
        return self.language.embedding[tokens.to(self.device)]

    @torch.inference_mode()
    def voice(self, samples: Tensor, *, seed: int = 0) -> Tensor:
        """The inputs that stand for a voice, from a sample of it: one a frame.

        Args:
            samples: mono, at the model's rate, of the loudness `prompt.loudness` gives.
            seed: of the noise that the model was trained to find on a sample.
        """
        hop, size = self.shape.acoustic.hop, self.shape.acoustic
        samples = F.pad(samples, (0, -len(samples) % hop)).to(self.device, self.dtype)
        past, made = self._sampler.silence(1), []
        for piece in torch.split(samples, _PIECE * hop):
            latents, past = self._sampler(piece[None, :, None], past)
            made.append(latents)
        latents = torch.cat(made, dim=1).float()
        source = torch.Generator().manual_seed(seed)
        spread = size.noise * torch.randn(1, generator=source)
        noise = spread * torch.randn(latents.shape, generator=source)
        latents = (latents + noise.to(self.device) + self._offset) * self._scale
        return self._acoustic(latents.to(self.dtype))[0]


def load(
    folder: Path, device: torch.device, dtype: torch.dtype, *, num_steps: int = 10
) -> VibeVoice:
    """The model of a folder: `config.json` and safetensors."""
    sizes = shape.read(json.loads((folder / "config.json").read_text()))
    settings = folder / "generation_config.json"
    if settings.is_file():
        told: dict[str, Any] = json.loads(settings.read_text())
        scheduler.check(told.get("noise_scheduler_config") or {})
    return VibeVoice(sizes, weights.of_folder(folder, device, dtype), num_steps=num_steps)
