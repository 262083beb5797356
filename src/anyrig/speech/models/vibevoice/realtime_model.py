"""VibeVoice-Realtime: a small VibeVoice that speaks while its text still comes.

The language model is split. Its lower layers (the text model) read text alone; their hidden states,
in the place of embeddings, and latents of speech go to the upper layers (the speech model). Five
tokens of text, six frames of speech, and so on. A frame's latent comes from the diffusion head,
guided by a second, unconditional sequence of the speech model that sees only speech.
`realtime.py` runs many utterances at once.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.vibevoice.checkpoint import published_name, read_config
from anyrig.speech.models.vibevoice.codec import Decoder, Weights
from anyrig.speech.models.vibevoice.model import (
    Connector,
    DiffusionHead,
    LanguageModel,
    open_weights,
)
from anyrig.speech.models.vibevoice.shapes import RealtimeShape, read_realtime_shape
from anyrig.speech.models.vibevoice.torch_windows import TorchWindowLoop

SPEECH, TEXT = 0, 1
"""Types of inputs of the speech model."""


class FrameDecoder:
    """From latents to the audio of a frame, and to the next input of the speech model."""

    def __init__(self, shape: RealtimeShape, weights: Weights) -> None:
        self.decoder = Decoder(shape.codec, weights.under("acoustic_decoder"))
        self._connector = Connector(weights.under("acoustic_connector"))
        self._type = weights["tts_input_types.weight"][SPEECH]
        self._scale = weights.read_fp32("speech_scaling_factor")
        self._offset = weights.read_fp32("speech_bias_factor")

    def decode(self, latents: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The audio of one frame of each row, and the decoder's state after it."""
        unscaled = (latents[:, None] / self._scale - self._offset).to(self._type.dtype)
        audio, state = self.decoder(unscaled, state)
        return audio[..., 0], state

    def connect(self, latents: Tensor) -> Tensor:
        """Inputs of the speech model, from latents."""
        return self._connector(latents.to(self._type.dtype)) + self._type


class EndClassifier:
    """Whether the speech ends with the frame of a hidden state: above 0."""

    def __init__(self, weights: Weights) -> None:
        self._first, self._first_bias = weights["fc1.weight"], weights["fc1.bias"]
        self._second, self._second_bias = weights["fc2.weight"], weights["fc2.bias"]

    def __call__(self, hidden: Tensor) -> Tensor:
        inner = torch.relu(F.linear(hidden, self._first, self._first_bias))
        return F.linear(inner, self._second, self._second_bias)[..., 0]


class RealtimeVoice:
    """A model, ready to be stepped by `TorchWindowLoop`.

    Args:
        weights: under the names of the published file.
        graphs: whether windows are captured on CUDA.
    """

    first_length = 2048  # two minutes of speech after a voice's prompt

    def __init__(self, shape: RealtimeShape, weights: Weights, *, graphs: bool = True) -> None:
        self.shape = shape
        self.device, self.dtype = weights.device, weights.dtype
        self.captures = graphs and self.device.type == "cuda"
        inner = weights.under("model")
        self.embedding = inner["language_model.embed_tokens.weight"]
        self.text = LanguageModel(shape.text, inner.under("language_model"), norm=False)
        self.text_type = inner["tts_input_types.weight"][TEXT]
        self.speech = LanguageModel(shape.speech, inner.under("tts_language_model"))
        self.head = DiffusionHead(shape.head, inner.under("diffusion_head"), 1)
        self.frames = FrameDecoder(shape, inner)
        self.compute_end = EndClassifier(weights.under("tts_eos_classifier"))

    def open_loop(self, rows: int, length: int) -> TorchWindowLoop:
        return TorchWindowLoop(self, rows, length)

    def sample(
        self, hidden: Tensor, noise: Tensor, times: Tensor, steps: Tensor, guidance: Tensor
    ) -> Tensor:
        """Latents, in single precision. Each row has steps of its own.

        Args:
            hidden: of the conditional and the unconditional sequence: row, 2, vector.
            noise: the start of each row, then what its steps add: step + 1, row, vector.
            times: of `DiffusionHead.embed_times`: step, row, vector.
            steps: of `stack_steps`: step, coefficient, row.
            guidance: of each row.
        """
        shifts = self.head.modulate(hidden.flatten(0, 1), times.repeat_interleave(2, 1))
        latent, last = noise[0], torch.zeros_like(noise[0])
        for modulation, numbers, fresh in zip(shifts, steps[..., None], noise[1:], strict=True):
            branches = self.head.predict(latent, modulation).view(-1, 2, latent.shape[-1])
            conditional, unconditional = branches.float().unbind(1)
            velocity = torch.lerp(unconditional, conditional, guidance[:, None])
            alpha, sigma, keep, now, before, spread = numbers
            clean = alpha * latent - sigma * velocity
            latent = keep * latent + now * clean + before * last + spread * fresh
            last = clean
        return latent


def load_realtime_model(
    folder: Path, device: torch.device, dtype: torch.dtype, *, graphs: bool = True
) -> RealtimeVoice:
    """The model of a folder: `config.json` and safetensors, as published."""
    shape = read_realtime_shape(read_config(folder))
    weights = rename_weights(open_weights(folder, device, dtype))
    return RealtimeVoice(shape, weights, graphs=graphs)


def rename_weights(published: Weights) -> Weights:
    """Published tensors under the names that the parts of the 1.5B model have."""
    return Weights(
        lambda name: published.read_fp32(published_name(name)), published.device, published.dtype
    )
