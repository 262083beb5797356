"""A shipped fake: each word a short tone whose length follows its letters.

It needs nothing but numpy, is instant and gives equal samples everywhere, so everything around an
engine can be tried and tested with it. Its options rehearse what real engines do badly.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech import voices
from anyrig.speech.engine import (
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    TakePart,
    Utterance,
    Verification,
    Voice,
    whole_parts,
)
from anyrig.speech.engines import recordings

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement
    from anyrig.speech.engine import Take

RATE = 24000
VERSION = "1"
FAULTS = ("silence", "nan", "clipping", "short", "long", "repetition")
_LETTER_S, _WORD_S, _GAP_S, _FADE_S = 0.055, 0.06, 0.03, 0.005
_WORD = re.compile(r"\[\[(.+?)\]\]|[^\W_]+(?:['’][^\W_]+)*")

INFO = EngineInfo(
    name="tone",
    summary="A fake that says a tone for each word: for trials and tests",
    languages=("en", "es", "fr"),
    libraries=("onnx", "torch"),
    gpu=False,
    code_licence="MIT",
    weights_licence="none",
    modules=("numpy",),
    reads=("ipa",),
    word_times=True,
    varies_with_seed=True,
    options=(
        EngineOption(
            "bad", "", f"Faults by seed, as `0:silence,1:nan`; kinds: {', '.join(FAULTS)}"
        ),
        EngineOption("bad_word", "", "Only lines with this word are faulty; empty: all"),
        EngineOption("memory_items", 0, "Run out of memory above this batch size; 0: never", low=0),
        EngineOption("sleep_s", 0.0, "Seconds to sleep per character", low=0.0, high=10.0),
    ),
    verification=Verification("not needed"),
)


class Tone(SpeechEngine):
    """Words as tones."""

    info = INFO
    name = INFO.name
    version = VERSION
    voice_samples = True
    cores = 4
    pads = False
    batch_invariant = True
    sample_rate = RATE

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        super().__init__(placement, folder=folder)
        self._faults = _parse_faults(str(options.get("bad", "")))
        self._bad_word = str(options.get("bad_word", ""))
        self._memory_items = int(options.get("memory_items", 0))
        self._sleep_s = float(options.get("sleep_s", 0.0))
        self._voices = self.find_weights(Path(folder) if folder else None).voices

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """Nothing to find but voices from samples."""
        named = (("tone", "en"), ("tono", "es"), ("ton", "fr"))
        found = [Voice(name, language, cls.name, title="Tones") for name, language in named]
        samples = recordings.list_recordings(folder) if folder else {}
        found += [recordings.build_voice(INFO, *sample) for sample in samples.items()]
        return EngineWeights(
            cls.name, VERSION, f"tone-{VERSION}", tuple(found), str(folder) if samples else "",
            sample_rate=RATE,
        )  # fmt: skip

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        if self._memory_items and len(batch) > self._memory_items:
            raise MemoryError(f"{len(batch)} lines, and memory for {self._memory_items}")
        return whole_parts(self._speak(line) for line in batch)

    def _speak(self, line: Utterance) -> Take:
        import numpy as np

        from anyrig.speech.engine import Take, WordTime

        voice = voices.choose_voice(self._voices, line)
        if self._sleep_s:
            time.sleep(self._sleep_s * len(line.text))
        parts, times, position = [], [], 0
        for match in _WORD.finditer(line.text):
            word = match.group(1) or match.group()
            tone = _make_tone(word, voice.name + voice.digest, line)
            times.append(WordTime(word, position / RATE, (position + len(tone)) / RATE))
            parts += [tone, np.zeros(max(1, round(_GAP_S * RATE / line.rate)), np.float32)]
            position += len(tone) + len(parts[-1])
        if not parts:
            raise UnspeakableTextError(
                f"nothing to say in {line.text!r}", hint="Use a text with words."
            )
        samples = np.concatenate(parts)
        fault = self._faults.get(line.seed, "")
        if fault and self._bad_word in line.text:
            return Take(_spoil(samples, fault), RATE)
        return Take(samples, RATE, tuple(times))


def _make_tone(word: str, voice: str, line: Utterance) -> Samples:
    """Its pitch comes from the word and the voice, with a hair of the seed in it."""
    import numpy as np

    digest = hashlib.sha256(f"{voice} {word.lower()}".encode()).digest()
    pitch = 140 + digest[0] + (line.seed % 97) * 0.25
    seconds = (_WORD_S + _LETTER_S * len(word)) / line.rate
    at = np.arange(max(1, round(seconds * RATE))) / RATE
    fade = np.minimum(1.0, np.minimum(at, at[-1] - at) / _FADE_S)
    wave = 0.25 * fade * (np.sin(math.tau * pitch * at) + 0.3 * np.sin(2 * math.tau * pitch * at))
    toned: Samples = wave.astype(np.float32)
    return toned


def _spoil(samples: Samples, fault: str) -> Samples:
    import numpy as np

    if fault == "silence":
        return np.zeros_like(samples)
    if fault == "nan":
        spoilt = samples.copy()
        spoilt[len(spoilt) // 2] = np.nan
        return spoilt
    if fault == "clipping":
        return np.clip(samples * 50, -1.0, 1.0).astype(np.float32)
    if fault == "short":
        return samples[: max(1, len(samples) // 20)]
    if fault == "long":
        return np.concatenate([samples, np.zeros(8 * len(samples), np.float32)])
    return np.tile(samples, 8)


def _parse_faults(text: str) -> dict[int, str]:
    """`0:silence,1:nan` as a table."""
    found: dict[int, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        seed, _, kind = part.partition(":")
        if not seed.strip().isdigit() or kind not in FAULTS:
            raise InvalidInputError(
                f"tone: {part!r} is not a valid fault",
                hint=f"Write a seed and a kind, as 0:silence. Kinds: {', '.join(FAULTS)}.",
            )
        found[int(seed)] = kind
    return found
