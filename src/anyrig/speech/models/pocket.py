"""Pocket TTS through transformers' own modules, with a loop of ours around them.

transformers' `generate` draws the noise of a whole batch at once and gives nothing until all is
done. Here each row draws from its own seed, so it is the same in any company, ends by its own text,
and its sound is given out while the rest is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    AutoTokenizer,
    DynamicCache,
    PocketTTSAudioTokenizerModel,
    PocketTTSFeatureExtractor,
    PocketTTSForConditionalGeneration,
    PocketTTSProcessor,
)
from transformers.utils import logging as progress

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.recognise.resample import resample
from anyrig.speech.audio import Samples
from anyrig.speech.models.pocket_codec import Decoding

RATE = 24000
CODEC = "audio_tokenizer"
"""The folder of the codec, beside the weights."""
_SAMPLE_S = 20.0
_FIRST, _PIECE = 3, 12
_DEFAULTS = {"num_flow_steps": 1, "eos_threshold": -4.0, "min_frames_before_eos": 6}
_SETTINGS = (
    "short_text_max_words", "frames_after_eos_short_text", "frames_after_eos", "fade_in_duration",
)  # fmt: skip


@dataclass(frozen=True)
class Said:
    """A text to say."""

    text: str
    voice: str
    seed: int


@dataclass(frozen=True)
class Rules:
    """When a row ends, and how each frame is drawn."""

    num_flow_steps: int
    eos_threshold: float
    min_frames_before_eos: int


class Pocket:
    """A loaded model, its codec and the voices it has heard."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        dtype: torch.dtype,
        samples: Mapping[str, Path],
        *,
        temperature: float,
    ) -> None:
        progress.disable_progress_bar()  # type: ignore[no-untyped-call]
        loaded: Any = PocketTTSForConditionalGeneration.from_pretrained
        self._model = loaded(folder, dtype=dtype, local_files_only=True).to(device).eval()
        self._processor = _processor(folder, device)
        self._samples, self._heard = samples, dict[str, Tensor]()
        self._device, self._spread = device, math.sqrt(temperature)
        told = self._model.generation_config
        values = {name: getattr(told, name, None) for name in _DEFAULTS}
        self._rules = Rules(
            **{name: _DEFAULTS[name] if v is None else v for name, v in values.items()}  # type: ignore[arg-type]
        )

    def speak(self, batch: Sequence[Said]) -> list[Samples]:
        """The sound of each text, all of them at once."""
        pieces = list(self._pieces(batch)) if batch else []
        return [np.concatenate([piece[row] for piece in pieces]) for row in range(len(batch))]

    def stream(self, said: Said) -> Iterator[Samples]:
        """The sound of one text, about a second at a time."""
        for piece in self._pieces([said]):
            yield piece[0]

    def _pieces(self, batch: Sequence[Said]) -> Iterator[list[Samples]]:
        """What each row says next; nothing more of one that has ended."""
        codec = self._processor.audio_tokenizer
        decoding, size = Decoding(codec), codec.config.frame_size
        frames, kept, first = list[Tensor](), [0] * len(batch), True
        for latents, ended, last in self._frames(batch):
            frames.append(latents)
            kept = [count + (not done) for count, done in zip(kept, ended, strict=True)]
            if len(frames) == (_FIRST if first else _PIECE) or last:
                sound = decoding.feed(torch.stack(frames, dim=1)).numpy()
                if first:
                    sound = self._faded(sound)
                yield [row[: count * size].copy() for row, count in zip(sound, kept, strict=True)]
                frames, kept, first = [], [0] * len(batch), False

    def _faded(self, sound: Samples) -> Samples:
        """A fresh decoder begins with a small step, heard as a click."""
        count = min(int(self._processor.fade_in_duration * RATE), sound.shape[1])
        ramp = np.linspace(0, 1, count, dtype=np.float32)
        return np.concatenate((sound[:, :count] * ramp, sound[:, count:]), axis=1)

    @torch.inference_mode()
    def _frames(self, batch: Sequence[Said]) -> Iterator[tuple[Tensor, list[bool], bool]]:
        """Frame by frame: the latents, which rows had ended before it, and if it is the last."""
        model, config = self._model, self._model.config
        inputs = self._inputs(batch)
        mask, after = inputs["attention_mask"], inputs.pop("frames_after_eos").tolist()
        endings = [_Ending(self._rules, tail, most) for tail, most in
                   zip(after, self._limits(inputs), strict=True)]  # fmt: skip
        sources = [torch.Generator().manual_seed(said.seed) for said in batch]
        place = mask.cumsum(-1) - 1
        cache = DynamicCache(config=config)
        inputs.update(position_ids=place.clamp(min=0), past_key_values=cache, use_cache=True)
        waits = torch.full((len(batch), 1), config.audio_latent_token_id, device=self._device)
        place = place[:, -1:]
        while True:
            out = model(**inputs)
            thought = out.last_hidden_state[:, -1]
            noise = torch.stack([torch.randn(config.latent_dim, generator=one) for one in sources])
            latents = model.sample_latent(
                thought, (noise * self._spread).to(thought), self._rules.num_flow_steps
            )
            gone = [ending.done for ending in endings]
            for ending, score in zip(endings, out.logits[:, -1, 0].tolist(), strict=True):
                ending.hear(score)
            last = all(ending.done for ending in endings)
            yield model.denormalize_latents(latents), gone, last
            if last:
                return
            place, mask = place + 1, torch.cat((mask, torch.ones_like(mask[:, :1])), dim=1)
            inputs = {
                "input_ids": waits, "audio_latents": latents[:, None], "attention_mask": mask,
                "position_ids": place, "past_key_values": cache, "use_cache": True,
            }  # fmt: skip

    def _inputs(self, batch: Sequence[Said]) -> dict[str, Any]:
        """Prompts as the processor makes them, padded on the left, with each row's voice."""
        talks = [
            [{"role": "user", "content": [{"type": "audio"}, {"type": "text", "text": said.text}]}]
            for said in batch
        ]
        texts = [self._processor.apply_chat_template(talk, tokenize=False) for talk in talks]
        made = self._processor(
            text=texts,
            audio_prompt_latents=[self._voice(said.voice) for said in batch],
            padding=True, padding_side="left", return_tensors="pt",
        )  # fmt: skip
        return {name: value.to(self._device) for name, value in made.items()}

    def _limits(self, inputs: Mapping[str, Tensor]) -> list[int]:
        """Frames at most for each row, by its own text."""
        config = self._model.config
        others = torch.tensor(self._model._placeholder_token_ids(), device=self._device)
        words = ~torch.isin(inputs["input_ids"], others) & inputs["attention_mask"].bool()
        return [math.ceil((n / 3 + 2) * config.frame_rate) for n in words.sum(-1).tolist()]

    def _voice(self, name: str) -> Tensor:
        """A voice's latents, worked out once."""
        if name not in self._heard:
            path = self._samples[name]
            latents = _kept(path) if path.suffix == ".safetensors" else self._encoded(path)
            if latents.shape[-1] != self._model.config.latent_dim:
                raise InvalidInputError(
                    f"{path} holds a voice of another model",
                    hint="Give a sound file of the voice instead.",
                )
            self._heard[name] = latents
        return self._heard[name]

    @torch.inference_mode()
    def _encoded(self, path: Path) -> Tensor:
        made = self._processor.feature_extractor(_sample(path), sampling_rate=RATE)
        codec = self._processor.audio_tokenizer
        values = made["input_values"].to(codec.device, codec.dtype)
        heard = codec.encode(values, made["padding_mask"].to(codec.device))
        latents: Tensor = heard.latents[heard.latents_mask.bool()].float().cpu()
        return latents


class _Ending:
    """When a row is done: some frames after the model says so, or at its limit."""

    def __init__(self, rules: Rules, tail: int, most: int) -> None:
        self._rules, self._tail, self._most = rules, tail, most
        self._frame, self._left = 0, -1
        self.done = False

    def hear(self, score: float) -> None:
        """What the model thought of the frame just made."""
        can_end = self._frame >= self._rules.min_frames_before_eos
        self._frame += 1
        if self._left < 0 and can_end and score > self._rules.eos_threshold:
            self._left = self._tail
        elif self._left > 0:
            self._left -= 1
        self.done = self.done or self._left == 0 or self._frame >= self._most


def _processor(folder: Path, device: torch.device) -> Any:
    """transformers' processor from the folder alone: its own loading would ask the hub."""
    settings = folder / "processor_config.json"
    told = json.loads(settings.read_text()) if settings.is_file() else {}
    template = folder / "chat_template.jinja"
    codec_class: Any = PocketTTSAudioTokenizerModel
    extractor_class: Any = PocketTTSFeatureExtractor
    codec = codec_class.from_pretrained(folder / CODEC, dtype=torch.float32, local_files_only=True)
    return PocketTTSProcessor(
        extractor_class(**told.get("feature_extractor", {})),
        AutoTokenizer.from_pretrained(folder, local_files_only=True),
        audio_tokenizer=codec.to(device).eval(),
        chat_template=template.read_text(encoding="utf-8"),
        **{name: told[name] for name in _SETTINGS if name in told},
    )


def _kept(path: Path) -> Tensor:
    """Latents that were saved: one tensor of frames."""
    tensors = list(load_file(path).values())
    frames = tensors[0].squeeze(0) if len(tensors) == 1 else torch.zeros(())
    if frames.ndim != 2:
        raise InvalidInputError(
            f"{path} holds no frames of a voice", hint="Give a sound file of the voice instead."
        )
    return frames.float()


def _sample(path: Path) -> Samples:
    """A voice's sample, mono and at the model's rate."""
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise InvalidInputError(
            f"{path} cannot be read as sound: {error}",
            hint="A sample is a WAV or FLAC file of some ten seconds of one voice.",
        ) from error
    if not len(samples):
        raise UnspeakableTextError(f"{path} is empty", hint="Give some ten seconds of one voice.")
    mono = resample(np.ascontiguousarray(samples.mean(axis=1)), rate, RATE)
    return mono[: int(_SAMPLE_S * RATE)]
