"""Any Whisper of transformers, through torch: recordings of unequal length in batches.

A batch is encoded once, in half precision where the placement says so; what comes out not finite
is made again in full. Decoding is greedy at first; rows that loop or are doubtful are tried again
at higher temperatures on the same encoding, the others are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.audio import SPEECH_RATE
from anyrig.errors import DeviceError, Message, MissingWeightsError, OptionRef
from anyrig.memory import oom
from anyrig.transcription.guard import MOST_COMPRESSED, careful, compression_ratio
from anyrig.transcription.protocol import Line, Recording, Transcript
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from anyrig.placement import Placement
    from anyrig.transcription.whisper_decode import Decoded, Vocabulary

    Samples = NDArray[np.float32]

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_LEAST_LOGPROB = -1.0
_MOST_SILENT = 0.6
_WINDOW_S = 30.0
_MOST_ITEMS = 128


class _Heard(NamedTuple):
    """A try, and what it came to."""

    decoded: Decoded
    lines: list[Line]
    ratio: float
    temperature: float

    @property
    def good(self) -> bool:
        return self.ratio <= MOST_COMPRESSED and self.decoded.avg_logprob >= _LEAST_LOGPROB


class TorchWhisper(BaseEngine):
    """Hears what its model hears."""

    name = "whisper-transformers"
    version = "1"
    pads = True
    batch_invariant = False
    max_items = _MOST_ITEMS
    memory_options = (
        OptionRef("precision", "fp16"),
        Message("{model} with a smaller Whisper", model=OptionRef("model")),
    )

    def __init__(self, placement: Placement, *, model: str) -> None:
        """Load the model of a folder."""
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle
        from anyrig.transcription.whisper_decode import Vocabulary

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self._folder, self._device = model, self.handle.device
        self._model = self._load(placement.precision)
        self._full: Any = None
        self._tokenizer, self._extractor = _readers(model, self._model.config)
        self.vocabulary: Vocabulary = Vocabulary.of(self._model, self._tokenizer)
        if placement.device.kind == "gpu":
            self.first_batch_cost = 8 * _WINDOW_S

    def _load(self, precision: str) -> Any:
        import torch
        from transformers import WhisperForConditionalGeneration

        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        loader: Any = WhisperForConditionalGeneration
        try:
            model = loader.from_pretrained(
                self._folder, dtype=kinds.get(precision, torch.float32), local_files_only=True
            )
        except Exception as error:  # whatever a damaged file makes its readers throw
            if oom.detect_oom(error) is not None:
                raise
            raise MissingWeightsError(
                f"cannot load Whisper from {self._folder}: {str(error).splitlines()[0][:200]}",
                hint="The folder needs config.json, *.safetensors and a tokenizer.",
            ) from error
        return model.to(self._device).eval()

    def run(self, batch: Sequence[Recording]) -> list[Transcript]:
        """What is said in each."""
        import torch

        with torch.inference_mode():
            return self._run(list(batch))

    def _run(self, batch: list[Recording]) -> list[Transcript]:
        from anyrig.audio.resample import resample

        sounds = [resample(one.samples, one.rate, SPEECH_RATE) for one in batch]
        model, hidden = self._encoded(sounds)
        silent, languages = self._first_step(model, hidden)
        found: list[Transcript] = []
        codes = [_code(one, told) for one, told in zip(batch, languages, strict=True)]
        rows = [n for n, one in enumerate(batch) if one.task != "language" and len(sounds[n])]
        heard = self._heard(model, hidden, rows, batch, codes, sounds)
        for number, one in enumerate(batch):
            told = () if one.language else tuple(languages[number])
            if number not in heard:
                found.append(Transcript("", codes[number], languages=told))
                continue
            lines = _told(heard[number], silent[number])
            text = " ".join(line.text for line in lines)
            made = Transcript(text, codes[number], lines, told)
            found.append(self._careful(one, sounds[number], made))
        return found

    def _careful(self, one: Recording, sound: Samples, made: Transcript) -> Transcript:
        """Looked at for nonsense, and heard again in two parts where it is."""
        if one.task == "words":
            return made
        return careful(
            lambda part: self._run([one._replace(samples=part, rate=SPEECH_RATE, task="words")])[0],
            sound,
            first=made,
        )

    def _encoded(self, sounds: list[Samples]) -> tuple[Any, Tensor]:
        """The encoder's answer for a batch, with the model that gave it."""
        import numpy as np

        most = round(_WINDOW_S * SPEECH_RATE)
        padded = [
            sound[:most] if len(sound) else np.zeros(SPEECH_RATE, np.float32) for sound in sounds
        ]
        features = self._extractor(
            padded, sampling_rate=SPEECH_RATE, return_tensors="pt", padding="max_length"
        ).input_features.to(self._device)
        hidden = self._model.model.encoder(features.to(self._model.dtype)).last_hidden_state
        if bool(hidden.isfinite().all()):
            return self._model, hidden
        if self._full is None:
            self._full = self._load("fp32")
        hidden = self._full.model.encoder(features.float()).last_hidden_state
        if not bool(hidden.isfinite().all()):
            raise DeviceError(
                "the model's output is not finite", hint="Its weights may be damaged."
            )
        return self._full, hidden

    def _first_step(
        self, model: Any, hidden: Tensor
    ) -> tuple[list[float], list[list[tuple[str, float]]]]:
        """How likely nobody speaks in each row, and its likeliest languages."""
        import torch

        known = self.vocabulary
        start = torch.full((len(hidden), 1), known.start, device=hidden.device)
        logits = model(encoder_outputs=(hidden,), decoder_input_ids=start).logits[:, -1].float()
        silent = logits.softmax(dim=-1)[:, known.no_speech].tolist()
        if not known.languages:
            return silent, [[("en", 1.0)] for _ in silent]
        codes = list(known.languages)
        shares = logits[:, [known.languages[code] for code in codes]].softmax(dim=-1)
        best = shares.topk(min(5, len(codes)), dim=-1)
        told = [
            [(codes[n], float(share)) for n, share in zip(row, of, strict=True)]
            for row, of in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return silent, told

    def _heard(
        self,
        model: Any,
        hidden: Tensor,
        rows: list[int],
        batch: list[Recording],
        codes: list[str],
        sounds: list[Samples],
    ) -> dict[int, _Heard]:
        """Each row's best try; those that are not good are tried again, hotter."""
        from anyrig.transcription.whisper_decode import decode, lines_of

        found: dict[int, _Heard] = {}
        for temperature in TEMPERATURES:
            if not rows:
                break
            lasts = [min(_WINDOW_S, len(sounds[n]) / SPEECH_RATE) for n in rows]
            prompts = [self._prompt(batch[n], codes[n]) for n in rows]
            tries = decode(
                model, hidden[rows], prompts, lasts, self.vocabulary, temperature=temperature
            )
            for number, decoded, lasts_s in zip(rows, tries, lasts, strict=True):
                lines = lines_of(decoded.tokens, self.vocabulary, self._tokenizer, lasts_s)
                ratio = compression_ratio(" ".join(line.text for line in lines))
                now = _Heard(decoded, lines, ratio, temperature)
                found[number] = _better(found.get(number), now)
            rows = [n for n in rows if not found[n].good]
        return found

    def _prompt(self, one: Recording, code: str) -> list[int]:
        known = self.vocabulary
        if not known.languages:
            return [known.start]
        task = "translate" if one.task == "translate" else "transcribe"
        return [known.start, known.languages[code], *([known.tasks[task]] if known.tasks else [])]


def _code(one: Recording, told: list[tuple[str, float]]) -> str:
    return one.language.partition("-")[0].lower() or told[0][0]


def _better(before: _Heard | None, now: _Heard) -> _Heard:
    """The first good one; else one that does not loop, then the likelier one."""
    if before is None or now.good:
        return now
    ranks = [(one.ratio <= MOST_COMPRESSED, one.decoded.avg_logprob) for one in (before, now)]
    return now if ranks[1] > ranks[0] else before


def _told(heard: _Heard, silent: float) -> tuple[Line, ...]:
    """The lines with what is known of them; none where the model itself hears nobody."""
    if silent > _MOST_SILENT and heard.decoded.avg_logprob < _LEAST_LOGPROB:
        return ()
    return tuple(
        replace(
            line, avg_logprob=heard.decoded.avg_logprob, no_speech_prob=silent,
            temperature=heard.temperature, compression_ratio=heard.ratio,
        )
        for line in heard.lines
    )  # fmt: skip


def _readers(folder: str, config: Any) -> tuple[Any, Any]:
    """What turns tokens into text, and sound into features; the usual ones where none are saved."""
    from transformers import AutoTokenizer, WhisperFeatureExtractor

    makers: tuple[Any, Any] = (AutoTokenizer, WhisperFeatureExtractor)
    why = "the vocabulary is empty"
    try:
        tokenizer = makers[0].from_pretrained(folder, local_files_only=True)
        if len(tokenizer.get_vocab()) < config.eos_token_id:  # one is made up where none is
            tokenizer = None
    except (OSError, ValueError, KeyError) as error:
        tokenizer, why = None, str(error).partition("\n")[0][:160]
    if tokenizer is None:
        raise MissingWeightsError(
            f"{folder} has no tokenizer: {why}",
            hint="Copy tokenizer.json and tokenizer_config.json of the model into it.",
        )
    try:
        extractor = makers[1].from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError):
        extractor = makers[1](feature_size=config.num_mel_bins)
    return tokenizer, extractor
