"""VITS from tokens to durations: the text encoder of transformers, and its duration predictors run
with noise that belongs to the row.

transformers' own predictor draws one block of noise for the whole batch, and asks the device for
answers at every step of its spline. Here a row's noise comes from its seed, and nothing is asked.
Always in fp32: a duration is rounded up, and a frame more or less is another length.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from anyrig.speech.models.noise import normal

DURATION_STREAM, PRIOR_STREAM = 0, 1
_LEAST_BIN = 1e-3
_LEAST_SLOPE = 1e-3


class Batch(NamedTuple):
    """Rows of tokens, padded to the longest."""

    ids: torch.Tensor
    """[rows, tokens]"""
    mask: torch.Tensor
    """1 where there is a token."""
    seeds: torch.Tensor
    """[rows]"""
    speakers: torch.Tensor | None
    """[rows, size], of a model with several."""


class Encoded(NamedTuple):
    """What the text says, a step for each token."""

    prior: torch.Tensor
    """[rows, tokens, 2 * flow]: means, then logarithms of deviations."""
    log_durations: torch.Tensor
    """[rows, tokens]"""


def encode(model: Any, batch: Batch, noise: float) -> Encoded:
    """Rows of tokens through the text encoder and the duration predictor.

    Args:
        model: a VitsModel.
        batch: the rows.
        noise: how much the durations vary.
    """
    padding = batch.mask.unsqueeze(-1).float()
    out = model.text_encoder(
        input_ids=batch.ids, padding_mask=padding, attention_mask=batch.mask.long()
    )
    hidden, mask = out.last_hidden_state.transpose(1, 2), padding.transpose(1, 2)
    speakers = None if batch.speakers is None else batch.speakers.unsqueeze(-1)
    if model.config.use_stochastic_duration_prediction:
        steps = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand(batch.ids.shape)
        seeds = batch.seeds.unsqueeze(1).expand(batch.ids.shape)
        drawn = normal(seeds, steps, 2, DURATION_STREAM).transpose(1, 2) * noise
        log_durations = _stochastic(model.duration_predictor, hidden, mask, speakers, drawn)
    else:
        log_durations = model.duration_predictor(hidden, mask, speakers)
    prior = torch.cat((out.prior_means, out.prior_log_variances), dim=-1)
    return Encoded(prior, log_durations[:, 0])


def _stochastic(
    predictor: Any,
    hidden: torch.Tensor,
    mask: torch.Tensor,
    speakers: torch.Tensor | None,
    drawn: torch.Tensor,
) -> torch.Tensor:
    """The flows of the predictor backwards, from noise to logarithms of durations."""
    hidden = predictor.conv_pre(hidden)
    if speakers is not None:
        hidden = hidden + predictor.cond(speakers)
    hidden = predictor.conv_proj(predictor.conv_dds(hidden, mask)) * mask
    affine, _, *flows = predictor.flows  # the second is of no use, says VITS
    for flow in reversed(flows):
        drawn = _bend(flow, drawn.flip(1), mask, hidden)
    drawn = drawn.flip(1)
    drawn = (drawn - affine.translate) * torch.exp(-affine.log_scale) * mask
    return drawn[:, :1]


def _bend(flow: Any, drawn: torch.Tensor, mask: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """One flow backwards: half of the channels say how the others are bent."""
    first, second = torch.split(drawn, flow.half_channels, dim=1)
    told = flow.conv_dds(flow.conv_pre(first), mask, hidden)
    told = flow.conv_proj(told) * mask
    rows, channels, length = first.shape
    told = told.reshape(rows, channels, -1, length).permute(0, 1, 3, 2)
    bins, size = flow.num_bins, math.sqrt(flow.filter_channels)
    bent = unbent(
        second, told[..., :bins] / size, told[..., bins : 2 * bins] / size,
        told[..., 2 * bins :], flow.tail_bound,
    )  # fmt: skip
    return torch.cat((first, bent), dim=1) * mask


def unbent(
    values: torch.Tensor,
    widths: torch.Tensor,
    heights: torch.Tensor,
    slopes: torch.Tensor,
    bound: float,
) -> torch.Tensor:
    """A rational quadratic spline backwards; outside of its bounds nothing changes.

    Args:
        values: what the spline gave.
        widths: of its bins, before they are made to add up.
        heights: of its bins, likewise.
        slopes: where bins meet, before they are made positive.
        bound: it runs from minus this to this.
    """
    left, widths = _edges(widths, bound)
    low, heights = _edges(heights, bound)
    edge = math.log(math.exp(1 - _LEAST_SLOPE) - 1)
    slopes = _LEAST_SLOPE + F.softplus(F.pad(slopes, (1, 1), value=edge))
    held = values.clamp(-bound, bound).unsqueeze(-1)
    which = (held >= low[..., 1:-1]).sum(-1, keepdim=True)

    def here(table: torch.Tensor) -> torch.Tensor:
        return table.gather(-1, which).squeeze(-1)

    width, height = here(widths), here(heights)
    slope, after = here(slopes[..., :-1]), here(slopes[..., 1:])
    steep = here(heights / widths)
    rise = held.squeeze(-1) - here(low[..., :-1])
    bow = rise * (slope + after - 2 * steep)
    a, b, c = height * (steep - slope) + bow, height * slope - bow, -steep * rise
    root = 2 * c / (-b - torch.sqrt((b * b - 4 * a * c).clamp(min=0)))
    return torch.where(values.abs() <= bound, root * width + here(left[..., :-1]), values)


def _edges(sizes: torch.Tensor, bound: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Where bins begin and end, and how large they then are."""
    num = sizes.shape[-1]
    shares = _LEAST_BIN + (1 - _LEAST_BIN * num) * F.softmax(sizes, dim=-1)
    inner = 2 * bound * shares.cumsum(-1)[..., :-1] - bound
    edges = F.pad(F.pad(inner, (1, 0), value=-bound), (0, 1), value=bound)
    return edges, edges[..., 1:] - edges[..., :-1]
