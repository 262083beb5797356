"""Speech recognition engines: recordings in, transcripts out.

`Moonshine` (English, tiny), `FasterWhisper` (Whisper through CTranslate2, on CPUs and NVIDIA GPUs)
and `TransformersWhisper` (Whisper through torch, in batches, on any device). Joining the windows of
long recordings, and decoding texts that loop again, are the libraries' work.

Importing this module loads no model and no framework.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from anyrig.audio import SPEECH_RATE
from anyrig.errors import (
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingWeightsError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.memory import oom
from anyrig.storage.weights import check_hashes
from anyrig.transcription.segment import find_loud_frames, split_windows
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement

INSTALL = format_install("anyrig[recognise]")
Task = Literal["text", "lines", "translate", "language"]
"""Only the text; lines with times; those in English; the language."""
LANGUAGES = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he "
    "hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne "
    "nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk "
    "ur uz vi yi yo yue zh"
).split()
"""Of Whisper, in ISO 639-1."""
MAX_COMPRESSION_RATIO = 2.4
"""Above it a text repeats itself; Whisper's authors found it."""
MIN_LOGPROB = -1.0
_MAX_NO_SPEECH = 0.6
_MAX_LETTERS_PER_S = 40.0  # a fast reader says 20
_MIN_LETTERS = 40  # a shorter text may be anything
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_WINDOW_S = 30.0
_SLACK_FRAMES = 30  # of 10 ms: times of lines are not exact
_LEAD_S = 0.1


class Recording(NamedTuple):
    """Something to transcribe."""

    samples: Samples
    rate: int
    language: str = ""
    """ISO 639-1; detected when empty."""
    task: Task = "text"

    @property
    def cost(self) -> float:
        """Seconds, with a little for each call."""
        return len(self.samples) / self.rate + 0.3


class TranscribedWord(NamedTuple):
    """A word and when it is heard, in seconds."""

    text: str
    start_s: float
    end_s: float
    confidence: float | None = None
    """0 to 1, where the engine knows."""


@dataclass(frozen=True)
class TranscribedLine:
    """A stretch of speech, mostly a sentence or a clause, in seconds."""

    text: str
    start_s: float
    end_s: float
    words: tuple[TranscribedWord, ...] = ()
    """Where word times were requested."""
    avg_logprob: float | None = None
    """Of its tokens, where the engine knows: near 0 is sure, below -1 is doubtful."""
    no_speech_prob: float | None = None
    compression_ratio: float | None = None
    """Of its text: above 2.4 it most likely repeats itself."""
    temperature: float | None = None
    """At which it was decoded: above 0 a first try was rejected."""

    @property
    def confidence(self) -> float | None:
        """0 to 1, where the engine knows."""
        return None if self.avg_logprob is None else math.exp(min(0.0, self.avg_logprob))

    @property
    def doubt(self) -> str:
        """Why it may not be what was said; empty when nothing speaks against it."""
        if len(self.text) >= _MIN_LETTERS:
            ratio = self.compression_ratio or compression_ratio(self.text)
            if ratio > MAX_COMPRESSION_RATIO:
                return "the text repeats itself"
            if len(self.text) / max(self.end_s - self.start_s, 1.0) > _MAX_LETTERS_PER_S:
                return "the text is too long for its time"
        if self.avg_logprob is not None and self.avg_logprob < MIN_LOGPROB:
            return "low confidence"
        return ""

    def shift(self, seconds: float) -> TranscribedLine:
        words = tuple(
            word._replace(start_s=word.start_s + seconds, end_s=word.end_s + seconds)
            for word in self.words
        )
        return replace(
            self, start_s=self.start_s + seconds, end_s=self.end_s + seconds, words=words
        )


@dataclass(frozen=True)
class Transcript:
    """What is said in a recording."""

    text: str
    language: str
    lines: tuple[TranscribedLine, ...] = ()
    """With times, unless the task was `text`."""
    languages: tuple[tuple[str, float], ...] = ()
    """The likeliest with their probabilities, where the language was detected."""


def compression_ratio(text: str) -> float:
    """How much smaller a text becomes when it is compressed; speech has 1 to 2."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data)) if data else 0.0


class SpeechRecognizer(BaseEngine):
    """One recording at a time."""

    modules: ClassVar[tuple[str, ...]]
    """What must be importable."""
    pads = False
    batch_invariant = True
    max_items = 1

    def run(self, batch: Sequence[Recording]) -> list[Transcript]:
        from anyrig.audio.resample import resample

        return [
            self.transcribe(
                recording._replace(
                    samples=resample(recording.samples, recording.rate, SPEECH_RATE),
                    rate=SPEECH_RATE,
                    language=recording.language.partition("-")[0].lower(),
                )
            )
            for recording in batch
        ]

    def transcribe(self, recording: Recording) -> Transcript:
        """What is said in a recording at `SPEECH_RATE`."""
        raise NotImplementedError


def _missing_package(name: str, error: ImportError) -> MissingPackageError:
    return MissingPackageError(f"{name} needs the package {error.name}", hint=INSTALL)


class Moonshine(SpeechRecognizer):
    """Moonshine tiny: English whatever the language. Its weights are in its package."""

    name = "moonshine"
    version = "0.1.0"
    modules = ("moonshine_voice",)
    PACKAGE = "moonshine-voice==0.1.0"
    HASHES: ClassVar[Mapping[str, str]] = {
        "decoder_model_merged.ort":
            "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        "encoder_model.ort":
            "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
        "tokenizer.bin":
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
    }  # fmt: skip
    _MIN_LINE_S = 0.1  # it says "You" in what is shorter
    _SILENCE = [0.0] * (3 * SPEECH_RATE)

    def __init__(self, placement: Placement | None = None) -> None:
        try:
            # The modules themselves: importing the package needs PortAudio.
            from moonshine_voice.moonshine_api import ModelArch
            from moonshine_voice.transcriber import Transcriber
            from moonshine_voice.utils import get_model_path
        except ImportError as error:
            raise _missing_package(self.name, error) from error
        model = get_model_path("tiny-en")
        check_hashes([(model / name, digest) for name, digest in self.HASHES.items()], self.PACKAGE)
        self._transcriber = Transcriber(str(model), ModelArch.TINY)

    def transcribe(self, recording: Recording) -> Transcript:
        samples = recording.samples
        if recording.task == "language" or not len(samples):
            return Transcript("", "en", languages=(("en", 1.0),))
        # Its voice detector keeps state between calls and objects: after speech, a recording that
        # begins at once began with a "You" that nobody says. Silence resets it, in 30 ms.
        self._transcriber.transcribe_without_streaming(self._SILENCE, SPEECH_RATE)
        # What ends at once with the last word can become a row of numbers that nobody says.
        padded = [*samples.tolist(), *self._SILENCE[: SPEECH_RATE // 2]]
        heard = self._transcriber.transcribe_without_streaming(padded, SPEECH_RATE)
        if recording.task == "text":
            return Transcript(" ".join(line.text.strip() for line in heard.lines).strip(), "en")
        whole_s = len(samples) / SPEECH_RATE
        lines = []
        for line in heard.lines:
            text, lasts_s = line.text.strip(), float(line.duration)
            if text and lasts_s >= self._MIN_LINE_S:
                start_s = min(max(0.0, float(line.start_time)), whole_s)
                lines.append(TranscribedLine(text, start_s, min(whole_s, start_s + lasts_s)))
        return Transcript(" ".join(line.text for line in lines), "en", tuple(lines))


class FasterWhisper(SpeechRecognizer):
    """Whisper through CTranslate2."""

    name = "whisper"
    version = "3"
    modules = ("faster_whisper",)

    def __init__(
        self, placement: Placement | None = None, *, model: str, words: bool = False
    ) -> None:
        """Load.

        Args:
            placement: the device, and how many threads it may use; one of the CPU without it.
            model: a folder with a Whisper for CTranslate2.
            words: lines have the times of their words; it takes a fifth longer.
        """
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            raise _missing_package("Whisper", error) from error
        self._words = words
        try:
            self._model = WhisperModel(model, **_ctranslate2_device(placement))
            if placement is not None and placement.device.kind == "gpu":
                # CTranslate2 looks for its CUDA libraries when it first computes.
                import numpy as np

                self._model.detect_language(np.zeros(SPEECH_RATE, np.float32))
        except (RuntimeError, ValueError) as error:
            raise MissingWeightsError(
                f"cannot load Whisper from {model}: {str(error).splitlines()[0][:200]}",
                hint="The folder needs model.bin, config.json and tokenizer.json for CTranslate2.",
            ) from error

    def transcribe(self, recording: Recording) -> Transcript:
        samples, code = recording.samples, recording.language or None
        if not len(samples):
            return Transcript("", code or "")
        if recording.task == "language":
            found = self._detect_language(samples)
            return Transcript("", found[0][0], languages=found)
        text_only = recording.task == "text"
        # Every recording is on its own: one before it must not colour it.
        heard, info = self._model.transcribe(
            samples, language=code, beam_size=5, condition_on_previous_text=False,
            task="translate" if recording.task == "translate" else "transcribe",
            temperature=0.0 if text_only else list(_TEMPERATURES),
            without_timestamps=text_only, word_timestamps=self._words and not text_only,
        )  # fmt: skip
        whole_s = len(samples) / SPEECH_RATE
        lines = tuple(_convert_segment(one, whole_s) for one in heard if one.text.strip())
        if not text_only:
            lines = tuple(_fit_to_sound(lines, samples))
        text = " ".join(line.text for line in lines)
        languages = _likeliest(info.all_language_probs or ()) if code is None else ()
        return Transcript(text, str(info.language), () if text_only else lines, languages)

    def _detect_language(self, samples: Samples) -> tuple[tuple[str, float], ...]:
        if not self._model.model.is_multilingual:
            return (("en", 1.0),)
        return _likeliest(self._model.detect_language(samples)[2])


def _fit_to_sound(lines: Iterable[TranscribedLine], samples: Samples) -> Iterable[TranscribedLine]:
    """Lines without the quiet at their ends, as Whisper often rounds its times to seconds; words
    that it hears where there is no sound are dropped.
    """
    loud = find_loud_frames(samples)
    for line in lines:
        start, end = round(line.start_s * 100), round(line.end_s * 100)
        if not loud[max(0, start - _SLACK_FRAMES) : end + _SLACK_FRAMES].any():
            continue
        places = loud[start:end].nonzero()[0]
        if line.words or not len(places):
            yield line
            continue
        first_s, last_s = (start + int(places[0])) / 100, (start + int(places[-1]) + 1) / 100
        yield replace(
            line,
            start_s=max(line.start_s, first_s - _LEAD_S),
            end_s=min(line.end_s, last_s + _LEAD_S),
        )


def has_cuda() -> bool:
    """Whether CTranslate2 finds a GPU that it can use."""
    try:
        library = importlib.import_module("ctranslate2")  # it has no types
        return int(library.get_cuda_device_count()) > 0
    except (ImportError, RuntimeError, OSError):
        return False


def _ctranslate2_device(placement: Placement | None) -> dict[str, Any]:
    """How CTranslate2 names a device and a precision: int8 on a CPU, half on a GPU."""
    threads = placement.threads if placement is not None else 1
    if placement is None or placement.device.kind != "gpu":
        return {"device": "cpu", "compute_type": "int8", "cpu_threads": threads}
    kinds = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
    number = placement.backend.selector.rpartition(":")[2]
    return {
        "device": "cuda",
        "device_index": int(number) if number.isdecimal() else 0,
        "compute_type": kinds.get(placement.precision, "default"),
        "cpu_threads": threads,
    }


def _likeliest(found: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    ordered = sorted(found, key=lambda one: one[1], reverse=True)
    return tuple((str(code), float(share)) for code, share in ordered[:5])


def _convert_segment(segment: Any, whole_s: float) -> TranscribedLine:
    """A segment of faster-whisper, within the recording."""

    def inside(seconds: float) -> float:
        return min(max(0.0, float(seconds)), whole_s)

    words = tuple(
        TranscribedWord(
            word.word.strip(), inside(word.start), inside(word.end), float(word.probability)
        )
        for word in segment.words or ()
    )
    return TranscribedLine(
        segment.text.strip(), inside(segment.start), inside(segment.end), words,
        avg_logprob=float(segment.avg_logprob), no_speech_prob=float(segment.no_speech_prob),
        compression_ratio=float(segment.compression_ratio), temperature=segment.temperature,
    )  # fmt: skip


class TransformersWhisper(BaseEngine):
    """Whisper through torch and transformers' `generate`, in batches."""

    name = "whisper-transformers"
    version = "2"
    pads = True
    batch_invariant = False
    max_items = 128
    memory_options = (
        OptionRef("precision", "fp16"),
        Message("{model} with a smaller Whisper", model=OptionRef("model")),
    )

    def __init__(self, placement: Placement, *, model: str, words: bool = False) -> None:
        """Load the model of a folder; `words`: lines have the times of their words."""
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self._device, self._words = self.handle.device, words
        self._model = _load_whisper(model, placement.precision).to(self._device).eval()
        self._config = self._model.generation_config
        if self._config.max_length is None:  # transformers would end after 20 tokens
            self._config.max_length = self._model.config.max_target_positions
        if words and not getattr(self._config, "alignment_heads", None):
            raise InvalidInputError(
                f"{model} has no word times: its generation_config.json names no alignment_heads",
                hint=Message(
                    "Leave {words} out, or pass another model.", words=OptionRef("word_times")
                ),
            )
        self._tokenizer, self._extractor = _load_processors(model, self._model.config)
        if placement.device.kind == "gpu":
            self.first_batch_cost = 8 * _WINDOW_S

    def run(self, batch: Sequence[Recording]) -> list[Transcript]:
        import torch

        from anyrig.audio.resample import resample

        done: dict[int, Transcript] = {}
        by_task: dict[Task, list[int]] = {}
        samples = [resample(one.samples, one.rate, SPEECH_RATE) for one in batch]
        with torch.inference_mode():
            for number, one in enumerate(batch):
                code = one.language.partition("-")[0].lower()
                languages: tuple[tuple[str, float], ...] = ()
                if len(samples[number]) and not code:
                    languages = self._detect_language(samples[number])
                    code = languages[0][0]
                done[number] = Transcript("", code, languages=languages)
                if len(samples[number]) and one.task != "language":
                    by_task.setdefault(one.task, []).append(number)
            for task, numbers in by_task.items():
                # Windows of our own: the library's long form takes one recording at a time.
                windows = [
                    (number, window)
                    for number in numbers
                    for window in split_windows(samples[number], _WINDOW_S)
                ]
                codes = [done[number].language for number, _ in windows]
                made = self._generate([window.samples for _, window in windows], task, codes)
                for (number, window), found in zip(windows, made, strict=True):
                    lines = tuple(line.shift(window.start / SPEECH_RATE) for line in found)
                    text = " ".join([done[number].text, *(line.text for line in lines)]).strip()
                    all_lines = () if task == "text" else (*done[number].lines, *lines)
                    done[number] = replace(done[number], text=text, lines=all_lines)
        return [done[number] for number in range(len(batch))]

    def _extract(self, samples: Sequence[Samples]) -> dict[str, Tensor]:
        features = self._extractor(
            list(samples), sampling_rate=SPEECH_RATE, return_tensors="pt", padding="max_length",
            return_attention_mask=True,
        )  # fmt: skip
        return {
            "input_features": features.input_features.to(self._device, self._model.dtype),
            "attention_mask": features.attention_mask.to(self._device),
        }

    def _generate(
        self, samples: Sequence[Samples], task: Task, codes: list[str]
    ) -> list[tuple[TranscribedLine, ...]]:
        """The lines of each recording; texts that loop are decoded again at other temperatures."""
        options: dict[str, Any] = {}
        if getattr(self._config, "is_multilingual", False):
            options = {
                "language": codes, "task": "translate" if task == "translate" else "transcribe"
            }  # fmt: skip
        words = self._words and task != "text"
        made = self._model.generate(
            **self._extract(samples), **options, return_timestamps=True, return_segments=True,
            return_token_timestamps=words, condition_on_prev_tokens=False,
            temperature=_TEMPERATURES, compression_ratio_threshold=MAX_COMPRESSION_RATIO,
            logprob_threshold=MIN_LOGPROB, no_speech_threshold=_MAX_NO_SPEECH,
        )  # fmt: skip
        return [
            tuple(_fit_to_sound(self._convert(segments, len(one) / SPEECH_RATE, words=words), one))
            for segments, one in zip(made["segments"], samples, strict=True)
        ]

    def _convert(
        self, segments: Iterable[Mapping[str, Any]], whole_s: float, *, words: bool
    ) -> Iterable[TranscribedLine]:
        for segment in segments:
            text = str(self._tokenizer.decode(segment["tokens"], skip_special_tokens=True)).strip()
            if not text:
                continue
            start_s = min(float(segment["start"]), whole_s)
            end_s = min(max(start_s, float(segment["end"])), whole_s)
            found = tuple(self._align_words(segment, whole_s)) if words else ()
            ratio = compression_ratio(text)
            yield TranscribedLine(text, start_s, end_s, found, compression_ratio=ratio)

    def _align_words(self, segment: Mapping[str, Any], whole_s: float) -> Iterable[TranscribedWord]:
        """Tokens with their times from the cross-attention, joined to words."""
        text, start_s, end_s = "", 0.0, 0.0
        for token, time_s in zip(
            segment["tokens"].tolist(), segment["token_timestamps"].tolist(), strict=False
        ):
            piece = self._tokenizer.decode([token], skip_special_tokens=True)
            if not piece:
                continue
            if text and piece.startswith(" "):
                yield TranscribedWord(text.strip(), start_s, min(max(start_s, time_s), whole_s))
                text = ""
            if not text:
                start_s = min(time_s, whole_s)
            text, end_s = text + piece, time_s
        if text.strip():
            last_s = max(start_s, end_s, float(segment["end"]))
            yield TranscribedWord(text.strip(), start_s, min(last_s, whole_s))

    def _detect_language(self, samples: Samples) -> tuple[tuple[str, float], ...]:
        import torch

        tokens: Mapping[str, int] = getattr(self._config, "lang_to_id", None) or {}
        if not tokens:
            return (("en", 1.0),)
        window = samples[: round(_WINDOW_S * SPEECH_RATE)]
        start = torch.tensor([[self._model.config.decoder_start_token_id]], device=self._device)
        features = self._extract([window])["input_features"]
        logits = self._model(input_features=features, decoder_input_ids=start).logits[0, -1]
        shares = logits[list(tokens.values())].float().softmax(dim=-1).tolist()
        return _likeliest(zip((token.strip("<|>") for token in tokens), shares, strict=True))


def _load_whisper(folder: str, precision: str) -> Any:
    import torch
    from transformers import WhisperForConditionalGeneration

    kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
    loader: Any = WhisperForConditionalGeneration
    try:
        return loader.from_pretrained(
            folder, dtype=kinds.get(precision, torch.float32), local_files_only=True
        )
    except Exception as error:  # whatever a damaged file makes its readers throw
        if oom.detect_oom(error) is not None:
            raise
        raise MissingWeightsError(
            f"cannot load Whisper from {folder}: {str(error).splitlines()[0][:200]}",
            hint="The folder needs config.json, *.safetensors and a tokenizer.",
        ) from error


def _load_processors(folder: str, config: Any) -> tuple[Any, Any]:
    """The tokenizer, and the feature extractor: the usual one where none is saved."""
    from transformers import AutoTokenizer, WhisperFeatureExtractor

    makers: tuple[Any, Any] = (AutoTokenizer, WhisperFeatureExtractor)
    reason = "the vocabulary is empty"
    try:
        tokenizer = makers[0].from_pretrained(folder, local_files_only=True)
        if len(tokenizer.get_vocab()) < config.eos_token_id:  # transformers makes one up
            tokenizer = None
    except (OSError, ValueError, KeyError) as error:
        tokenizer, reason = None, str(error).partition("\n")[0][:160]
    if tokenizer is None:
        raise MissingWeightsError(
            f"{folder} has no tokenizer: {reason}",
            hint="Copy tokenizer.json and tokenizer_config.json of the model into it.",
        )
    with contextlib.suppress(OSError, ValueError):
        return tokenizer, makers[1].from_pretrained(folder, local_files_only=True)
    return tokenizer, makers[1](feature_size=config.num_mel_bins)
