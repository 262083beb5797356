"""The diffusion head: a frame's latent from noise, led by what the language model thinks.

Both branches of the guidance are rows of one batch, a row of each in turn. All that depends on the
branch and on the time, but not on the latent, is worked out for all steps at once beforehand: half
of the head's weights are then read once a frame and not once a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.vibevoice import scheduler
from anyrig.speech.models.vibevoice.shape import HeadShape
from anyrig.speech.models.vibevoice.weights import Weights


@dataclass(frozen=True)
class Layer:
    """One layer's weights, but for those that modulate it."""

    norm: Tensor
    gate_up: Tensor
    down: Tensor


class Head:
    """The head and its solver, for a number of steps."""

    def __init__(self, shape: HeadShape, weights: Weights, num_steps: int) -> None:
        self.shape = shape
        self.steps = scheduler.steps(num_steps)
        self._enter = weights["noisy_images_proj.weight"]
        self._condition = weights["cond_proj.weight"]
        parts = [weights.under(f"layers.{n}") for n in range(shape.layers)]
        self._modulate = torch.cat(
            [*(part["linear.weight"] for part in parts), weights["final_layer.linear_1.weight"]]
        )
        self._layers = [
            Layer(
                part["norm.weight"],
                part.packed("ffn.gate_proj.weight", "ffn.up_proj.weight"),
                part["ffn.down_proj.weight"],
            )
            for part in parts
        ]
        self._leave = weights["final_layer.linear_2.weight"]
        self._times = self._embed_times(weights)

    def sample(self, thoughts: Tensor, noise: Tensor, guidance: Tensor) -> Tensor:
        """Latents, in single precision.

        Args:
            thoughts: of the led and of the free branch of each row: row, 2, vector.
            noise: where each row begins.
            guidance: how far beyond the free branch the led one leads.
        """
        shifts = self._modulations(thoughts.flatten(0, 1))
        latent, last = noise, torch.zeros_like(noise)
        for step, modulation in zip(self.steps, shifts, strict=True):
            led, free = (
                self._velocity(latent, modulation).view(-1, 2, noise.shape[-1]).float().unbind(1)
            )
            velocity = torch.lerp(free, led, guidance)
            latent, last = scheduler.advance(step, latent, velocity, last)
        return latent

    def _velocity(self, latent: Tensor, modulation: Tensor) -> Tensor:
        shape = self.shape
        x = F.linear(latent.to(self._enter.dtype), self._enter).repeat_interleave(2, 0)
        parts = modulation.chunk(3 * shape.layers + 2, dim=-1)
        for n, layer in enumerate(self._layers):
            shift, scale, gate = parts[3 * n : 3 * n + 3]
            normed = F.rms_norm(x, x.shape[-1:], layer.norm, shape.eps)
            opened, up = F.linear(torch.addcmul(shift, normed, scale), layer.gate_up).chunk(2, -1)
            x = torch.addcmul(x, gate, F.linear(F.silu(opened) * up, layer.down))
        shift, scale = parts[-2:]
        normed = F.rms_norm(x, x.shape[-1:], eps=shape.eps)
        return F.linear(torch.addcmul(shift, normed, scale), self._leave)

    def _modulations(self, thoughts: Tensor) -> Tensor:
        """Shifts, scales (with their one) and gates: step, row, all of them side by side."""
        condition = F.linear(thoughts, self._condition) + self._times[:, None]
        made = F.linear(F.silu(condition), self._modulate)
        size = thoughts.shape[-1]
        scales = made.view(*made.shape[:2], -1, size)
        # Layers have shift, scale, gate; the last part has shift, scale.
        scales[..., 1::3, :] += 1
        return made

    def _embed_times(self, weights: Weights) -> Tensor:
        """The embedding of each step's time, rounded as the model was trained to see it."""
        half = self.shape.frequencies // 2
        power = torch.arange(half, device=weights.device, dtype=torch.float32) / half
        frequencies = torch.exp(-math.log(self.shape.max_period) * power)
        times = torch.tensor([step.time for step in self.steps], device=weights.device)
        angles = times.to(weights.dtype).float()[:, None] * frequencies
        waves = torch.cat((angles.cos(), angles.sin()), dim=-1).to(weights.dtype)
        hidden = F.silu(F.linear(waves, weights["timestep_proj.fc1.weight"]))
        return F.linear(hidden, weights["timestep_proj.fc2.weight"])
