"""Voices of VibeVoice-Realtime: `.pt` files with what the model remembers of a prompt.

A preset holds the keys and values of both language models after the prompt of a voice, and the last
hidden state. The files are pickles of classes of transformers; they are read with `weights_only`,
so that nothing in them is executed, and without transformers.
"""

from __future__ import annotations

import pickle
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyrig.errors import InvalidInputError
from anyrig.speech.models.vibevoice.model import TextShape

_OUTPUT_FIELDS = ("last_hidden_state", "past_key_values", "hidden_states", "attentions")
_HINT = "Use the presets of github.com/microsoft/VibeVoice: demo/voices/streaming_model/*.pt."


@dataclass(frozen=True)
class Preset:
    """A voice. Keys and values: layer, place, key or value, head."""

    text: Tensor
    """Of the text model."""
    speech: Tensor
    """Of the speech model."""
    negative: Tensor
    """Of the speech model, for the unconditional sequence."""
    hidden: Tensor
    """The last hidden states of the speech model: conditional, unconditional."""


def _build_output(*values: object) -> OrderedDict[str, Any]:
    """What transformers' outputs become: they are pickled as the values of these fields."""
    return OrderedDict(zip(_OUTPUT_FIELDS, values, strict=False))


class _KeyValues:
    """What transformers' cache becomes: lists `key_cache` and `value_cache`, one tensor a layer."""

    key_cache: list[Tensor]
    value_cache: list[Tensor]


def read_preset(path: Path, text: TextShape, speech: TextShape) -> Preset:
    """The voice in a file, for language models of these shapes."""
    stand_ins: list[Any] = [
        (_build_output, "transformers.modeling_outputs.BaseModelOutputWithPast"),
        (_KeyValues, "transformers.cache_utils.DynamicCache"),
    ]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(stand_ins):
            warnings.simplefilter("ignore")  # of pickles that are no presets
            found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error}", hint=_HINT) from error
    except (RuntimeError, pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
        raise InvalidInputError(
            f"{path} is not a voice preset: {type(error).__name__}", hint=_HINT
        ) from error
    try:
        return _build_preset(found, text, speech)
    except (KeyError, AttributeError, TypeError, IndexError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{path} does not fit this model: {error}", hint=_HINT) from error


def _build_preset(found: Mapping[str, Any], text: TextShape, speech: TextShape) -> Preset:
    hidden = [_last_hidden(found[name], speech) for name in ("tts_lm", "neg_tts_lm")]
    return Preset(
        text=_stack(found["lm"], text),
        speech=_stack(found["tts_lm"], speech),
        negative=_stack(found["neg_tts_lm"], speech),
        hidden=torch.stack(hidden),
    )


def _last_hidden(output: Mapping[str, Any], shape: TextShape) -> Tensor:
    states: Tensor = output["last_hidden_state"]
    if states.ndim != 3 or states.shape[0] != 1 or states.shape[2] != shape.hidden:
        raise ValueError(
            f"its hidden state is {tuple(states.shape)}, expected (1, *, {shape.hidden})"
        )
    return states[0, -1]


def _stack(output: Mapping[str, Any], shape: TextShape) -> Tensor:
    """Keys and values of all layers, as `LanguageModel` stores them."""
    cache: _KeyValues = output["past_key_values"]
    count = len(cache.key_cache)
    if count != shape.layers or len(cache.value_cache) != count:
        raise ValueError(f"it has {count} layers, expected {shape.layers}")
    length = output["last_hidden_state"].shape[1]
    expected = (1, shape.kv_heads, length, shape.head_dim)
    for tensor in (*cache.key_cache, *cache.value_cache):
        if tuple(tensor.shape) != expected:
            raise ValueError(f"keys or values are {tuple(tensor.shape)}, expected {expected}")
    keys, values = torch.cat(cache.key_cache), torch.cat(cache.value_cache)
    return torch.stack((keys, values), dim=1).permute(0, 3, 1, 2, 4)
