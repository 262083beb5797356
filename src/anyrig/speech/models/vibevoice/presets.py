"""Voices of VibeVoice-Realtime: `.pt` files with what the model remembers of a prompt.

A preset holds the keys and values of both language models after the prompt of a voice, and the last
hidden state. The files are what `torch.save` writes: a zip archive of plain numbers and a pickle
that says which tensor is where. That pickle may name tensors and two classes of transformers, for
which there are stand-ins here; anything else in it is refused, so that nothing of it is executed.
Neither torch nor transformers is needed.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.errors import InvalidInputError
from anyrig.speech.models.vibevoice.checkpoint import TextShape

Array = NDArray[np.float32]
_OUTPUT_FIELDS = ("last_hidden_state", "past_key_values", "hidden_states", "attentions")
_HINT = "Use the presets of github.com/microsoft/VibeVoice: demo/voices/streaming_model/*.pt."
_STORAGES = {"FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2"}
_NOT_PRESETS = (
    zipfile.BadZipFile, pickle.UnpicklingError, KeyError, ValueError, TypeError, AttributeError,
    EOFError, IndexError, RuntimeError, NotImplementedError, OverflowError, MemoryError,
)  # fmt: skip
"""What reading raises for an archive that is damaged, or of something else."""


@dataclass(frozen=True)
class Preset:
    """A voice, in single precision. Keys and values: layer, place, key or value, head."""

    text: Array
    """Of the text model."""
    speech: Array
    """Of the speech model."""
    negative: Array
    """Of the speech model, for the unconditional sequence."""
    hidden: Array
    """The last hidden states of the speech model: conditional, unconditional."""


def read_preset(path: Path, text: TextShape, speech: TextShape) -> Preset:
    """The voice in a file, for language models of these shapes."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = _TensorReader(archive).load()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error}", hint=_HINT) from error
    except _NOT_PRESETS as error:
        raise InvalidInputError(
            f"{path} is not a voice preset: {type(error).__name__}", hint=_HINT
        ) from error
    try:
        return _build_preset(found, text, speech)
    except (KeyError, AttributeError, TypeError, IndexError, ValueError) as error:
        raise InvalidInputError(f"{path} does not fit this model: {error}", hint=_HINT) from error


# -- reading ---------------------------------------------------------------------------------------


class _TensorReader(pickle._Unpickler):
    """Reads what `torch.save` wrote.

    The unpickler in Python, not the one in C, which reserves as much memory as a few bytes of a
    pickle ask for.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        entries = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        if any(info.compress_type != zipfile.ZIP_STORED for info in entries.values()):
            raise ValueError("it is compressed")
        self._read: Callable[[str], bytes] = lambda name: archive.read(entries[name])
        self._entries = entries
        if "byteorder" in entries and self._read("byteorder") != b"little":
            raise ValueError("its numbers are big-endian")
        super().__init__(io.BytesIO(self._read("data.pkl")))
        self._stand_ins = _build_stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return name
        try:
            return self._stand_ins[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed") from None

    def persistent_load(self, saved: Any) -> tuple[str, bytes]:
        """A storage: its type and its bytes."""
        kind, storage, key, *_ = saved
        if kind != "storage":
            raise pickle.UnpicklingError(f"{kind!r} is not a storage")
        return storage, self._read(f"data/{key}")


def widen_bfloat16(bits: NDArray[np.uint16]) -> Array:
    """Numbers of bfloat16, which are the upper half of single precision, as such."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _build_stand_ins() -> dict[str, Any]:
    """What the names in a preset's pickle become; new for each, as a pickle may change them."""

    def build_tensor(
        storage: tuple[str, bytes], offset: int, size: Sequence[int], stride: Sequence[int],
        *_: object,
    ) -> Array:  # fmt: skip
        kind, data = storage
        dtype = np.dtype(_STORAGES[kind])
        if math.prod(size) > len(data) // dtype.itemsize:
            raise ValueError("a tensor is larger than its storage")
        steps = [step * dtype.itemsize for step in stride]
        # NumPy checks that it stays within its storage.
        array: Any = np.ndarray(tuple(size), dtype, data, offset * dtype.itemsize, steps)
        return widen_bfloat16(array) if kind == "BFloat16Storage" else np.array(array, np.float32)

    def build_output(*values: object) -> OrderedDict[str, Any]:
        """What transformers' outputs become: they are pickled as the values of these fields."""
        return OrderedDict(zip(_OUTPUT_FIELDS, values, strict=False))

    def build_dict() -> OrderedDict[str, Any]:
        return OrderedDict()

    class KeyValues:
        """What transformers' cache becomes: lists `key_cache` and `value_cache`."""

    return {
        "torch._utils._rebuild_tensor_v2": build_tensor,
        "collections.OrderedDict": build_dict,
        "transformers.modeling_outputs.BaseModelOutputWithPast": build_output,
        "transformers.cache_utils.DynamicCache": KeyValues,
    }


# -- checking --------------------------------------------------------------------------------------


def _build_preset(found: Mapping[str, Any], text: TextShape, speech: TextShape) -> Preset:
    hidden = [_last_hidden(found[name], speech) for name in ("tts_lm", "neg_tts_lm")]
    return Preset(
        text=_stack(found["lm"], text),
        speech=_stack(found["tts_lm"], speech),
        negative=_stack(found["neg_tts_lm"], speech),
        hidden=np.stack(hidden),
    )


def _last_hidden(output: Mapping[str, Any], shape: TextShape) -> Array:
    states: Array = output["last_hidden_state"]
    if states.ndim != 3 or states.shape[0] != 1 or states.shape[2] != shape.hidden:
        raise ValueError(f"its hidden state is {states.shape}, expected (1, *, {shape.hidden})")
    return np.asarray(states[0, -1])


def _stack(output: Mapping[str, Any], shape: TextShape) -> Array:
    """Keys and values of all layers, in the order of `SpeechLanguageModel`'s cache."""
    cache = output["past_key_values"]
    count = len(cache.key_cache)
    if count != shape.layers or len(cache.value_cache) != count:
        raise ValueError(f"it has {count} layers, expected {shape.layers}")
    length = output["last_hidden_state"].shape[1]
    expected = (1, shape.kv_heads, length, shape.head_dim)
    for tensor in (*cache.key_cache, *cache.value_cache):
        if tensor.shape != expected:
            raise ValueError(f"keys or values are {tensor.shape}, expected {expected}")
    pairs = np.stack((np.concatenate(cache.key_cache), np.concatenate(cache.value_cache)), axis=1)
    return np.ascontiguousarray(pairs.transpose(0, 3, 1, 2, 4))
