"""XTTS v2 of coqui-tts: its own speakers, or a voice from a recording, in 17 languages.

It runs in an environment of its own; of coqui-tts nothing is imported before it loads.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import MissingWeightsError
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
    stream_parts,
)
from anyrig.speech.engines import recordings
from anyrig.speech.environments import (
    GB,
    TORCH_28_INDEXES,
    EnvironmentSpec,
    install_command,
    open_torch,
    seed_everything,
)
from anyrig.storage.weights import WeightSource

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement

_FILES = ("config.json", "model.pth", "vocab.json")
_SPEAKERS = "speakers_xtts.pth"
# The most characters that the model was trained on, by language.
_LIMITS = {
    "en": 250, "de": 253, "fr": 273, "es": 239, "it": 213, "pt": 203, "pl": 224, "zh": 82,
    "ar": 166, "cs": 186, "ru": 182, "nl": 251, "tr": 226, "ja": 71, "hu": 224, "ko": 95, "hi": 150,
}  # fmt: skip

INFO = EngineInfo(
    name="xtts",
    summary="XTTS v2: 17 languages, its own speakers or a voice from a few seconds of sound",
    languages=(
        "en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh", "hu", "ko",
        "ja", "hi",
    ),
    quality=4,
    libraries=("torch",),
    code_licence="MPL-2.0",
    weights_licence="CPML (non-commercial)",
    licence_notice="The weights of xtts are under the Coqui Public Model License: non-commercial "
    "use only, the audio made with them as well. Read it: "
    "https://huggingface.co/coqui/XTTS-v2/blob/main/LICENSE.txt",
    install=install_command("xtts"),
    weights="Put config.json, model.pth, vocab.json and speakers_xtts.pth of coqui/XTTS-v2 into "
    "the folder.",
    repository="coqui/XTTS-v2",
    sources=(WeightSource("coqui/XTTS-v2", (*_FILES, _SPEAKERS, "LICENSE*")),),
    weights_bytes=1_900_000_000,
    max_chars=200,
    varies_with_seed=True,
    streams=True,
    options=(
        EngineOption("temperature", 0.75, "Sampling temperature.", low=0.01, high=2.0),
        EngineOption("top_k", 50, "Sample from the k most likely tokens.", low=1, high=1000),
        EngineOption("top_p", 0.85, "Nucleus sampling: cumulative probability.", low=0.01, high=1),
        EngineOption("repetition_penalty", 10.0, "Penalty for repeated tokens.", low=1, high=20),
        EngineOption("num_beams", 1, "Number of beams; not with `stream`.", low=1, high=10),
        EngineOption(
            "length_penalty", 1.0, "With beams: above 1 prefers longer output.", low=-5.0, high=5.0
        ),
        EngineOption("stream", False, "Generate in parts of half a second; first audio is faster."),
    ),
    verification=Verification(
        "small random", note="with coqui-tts 0.28.0 on the CPU; not on a GPU"
    ),
)  # fmt: skip


class Xtts(SpeechEngine):
    info = INFO
    name = INFO.name
    version = "1"
    clones = True
    voice_samples = True
    cores = None  # the model is large, and its own threads use the cores
    pads = False
    batch_invariant = True  # every utterance has its own seed
    max_items = 16
    environment = EnvironmentSpec(
        # six is needed and not declared; torch 2.9 and newer would need torchcodec as well.
        ("coqui-tts==0.28.0", "torch==2.8.0", "torchaudio==2.8.0", "transformers==5.22.2",
         "six==1.17.0"),
        max_python=(3, 13),
        torch_indexes=TORCH_28_INDEXES,
        disk_bytes=int(1.6 * GB),
        gpu_disk_bytes=int(7.5 * GB),
        notice=INFO.licence_notice,
        agreed_variables={"COQUI_TOS_AGREED": "1"},
        system_needs="a C compiler: one of its packages is published as source only",
    )  # fmt: skip

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        import torch
        from TTS.tts.configs.xtts_config import XttsConfig  # type: ignore[import-not-found]
        from TTS.tts.models.xtts import Xtts as XttsModel  # type: ignore[import-not-found]

        self._folder, self._options = Path(folder), options
        self._voices = self.find_weights(self._folder).voices
        self.handle = handle = open_torch(placement)
        config = XttsConfig()
        config.load_json(str(self._folder / "config.json"))
        self.sample_rate = int(config.model_args.output_sample_rate)
        self._model = XttsModel(config)
        self._model.load_checkpoint(
            config,
            checkpoint_dir=folder,
            speaker_file_path=str(self._folder / "not-read-by-coqui.pth"),
            use_deepspeed=False,
            eval=True,
        )
        self._model.to(handle.device)
        speakers = self._folder / _SPEAKERS
        self._speakers: dict[str, dict[str, Any]] = (
            torch.load(speakers, map_location=handle.device, weights_only=True)
            if speakers.is_file()
            else {}
        )
        self._recordings = recordings.list_recordings(self._folder)
        self._latents: dict[str, tuple[Any, Any]] = {}

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        return recordings.find_weights(cls, folder, _FILES, _list_speakers(folder))

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        for index, utterance in enumerate(batch):
            yield from stream_parts(index, self._generate(utterance))

    def _generate(self, utterance: Utterance) -> Iterator[Samples]:
        """Parts of half a second with the option `stream`, else what one call of the model gives:
        more calls where the language's limit is below the length of the text.
        """
        import torch

        utterance = recordings.resolve_utterance(INFO, self._voices, utterance)
        seed_everything(utterance.seed)
        options = self._options
        given = {
            "temperature": options["temperature"],
            "repetition_penalty": options["repetition_penalty"],
            "top_k": options["top_k"],
            "length_penalty": options["length_penalty"],
            "top_p": options["top_p"],
            "speed": utterance.rate,
            "enable_text_splitting": False,
        }
        language = utterance.language
        code = "zh-cn" if language == "zh" else language
        with torch.inference_mode():
            latent, embedding = self._find_voice(utterance.voice)
            for text in split_text(utterance.text, _LIMITS.get(language, 150)):
                if options["stream"]:
                    for part in self._model.inference_stream(
                        text, code, latent, embedding, stream_chunk_size=20, overlap_wav_len=1024,
                        **given,
                    ):  # fmt: skip
                        yield recordings.to_samples(part)
                else:
                    wave = self._model.inference(
                        text, code, latent, embedding, num_beams=options["num_beams"], **given
                    )
                    yield recordings.to_samples(wave["wav"])

    def _find_voice(self, name: str) -> tuple[Any, Any]:
        if name in self._speakers:
            speaker = self._speakers[name]
            return speaker["gpt_cond_latent"], speaker["speaker_embedding"]
        if name not in self._latents:
            self._latents[name] = self._model.get_conditioning_latents(
                audio_path=[str(self._recordings.get(name, name))],
                max_ref_length=30,
                gpt_cond_len=6,
                gpt_cond_chunk_len=6,
                sound_norm_refs=False,
                load_sr=22050,
            )
        return self._latents[name]


def _list_speakers(folder: Path | None) -> list[Voice]:
    """The published speakers."""
    path = folder / _SPEAKERS if folder else None
    if path is None or not path.is_file():
        return []
    return [recordings.build_voice(INFO, name, path) for name in list_pickled_names(path)]


class _Nothing:
    """Stands for every object in a pickle."""

    def __new__(cls, *_: object, **__: object) -> _Nothing:
        return object.__new__(cls)

    def __call__(self, *_: object, **__: object) -> _Nothing:
        return self

    def __setstate__(self, _: object) -> None: ...

    def __setitem__(self, *_: object) -> None: ...


class _NameReader(pickle._Unpickler):
    """Reads dictionaries and strings. It imports nothing, so nothing in a file can run.

    The unpickler in Python: the one in C reserves as much memory as a few bytes ask for.
    """

    def find_class(self, _module: str, _name: str) -> type:
        return _Nothing

    def persistent_load(self, _pid: object) -> None:
        return None


def list_pickled_names(path: Path) -> list[str]:
    """The keys of a dictionary that torch saved, read without torch."""
    try:
        with zipfile.ZipFile(path) as archive:
            (inside,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(inside) as file:
                names = list(_NameReader(file).load())
    except Exception as error:  # pickle raises whatever a damaged file makes it raise
        raise MissingWeightsError(
            f"{path} is damaged: {error}", hint="Download it again."
        ) from error
    return [name for name in names if isinstance(name, str)]


def split_text(text: str, limit: int) -> Iterator[str]:
    """Parts no longer than a limit, cut behind punctuation or at a space where there is one."""
    while len(text) > limit:
        marks = [text.rfind(mark, 0, limit) + 1 for mark in ",;:.!?\u3001\u3002\uff0c"]
        end = max(marks) or text.rfind(" ", 0, limit)
        end = end if end > 0 else limit
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text
