"""Pocket TTS's codec, decoded in pieces that follow on each other.

transformers decodes whole utterances. Its decoder is causal: one frame reaches the step before it
through the upsampling, the transformer keeps its keys, and the convolutions behind it look back a
few steps only. With these at hand a piece sounds as it does within the whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

# Steps of the transformer's output before a piece: the first convolution sees six of them and each
# transposed one a step more; one frame of the published model is sixteen.
_BACK = 16


class Decoding:
    """An utterance on its way from latents to sound."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec
        self._cache = DynamicCache(config=codec.decoder.config)
        self._frame: Tensor | None = None
        self._steps: Tensor | None = None

    @torch.inference_mode()
    def feed(self, latents: Tensor) -> Tensor:
        """The sound (row, samples) of the next frames (row, frame, size)."""
        codec, decoder = self._codec, self._codec.decoder
        count = latents.shape[1]
        frames = codec.latent_proj(latents.to(codec.device, codec.dtype).transpose(1, 2))
        steps = frames
        if decoder.upsample is not None:
            joined = frames if self._frame is None else torch.cat((self._frame, frames), dim=-1)
            steps = decoder.upsample(joined)
            steps = steps[..., steps.shape[-1] // joined.shape[-1] * (joined.shape[-1] - count) :]
        self._frame = frames[..., -1:]
        thought = decoder.decoder_transformer(
            steps.transpose(1, 2), past_key_values=self._cache, use_cache=True
        ).last_hidden_state.transpose(1, 2)
        joined = thought if self._steps is None else torch.cat((self._steps, thought), dim=-1)
        self._steps = joined[..., -_BACK:]
        sound: Tensor = decoder.decoder_seanet(joined)[:, 0, -count * codec.config.frame_size :]
        return sound.float().cpu()
