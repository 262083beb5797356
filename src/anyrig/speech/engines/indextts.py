"""IndexTTS in the voice of any recording, each version in an environment of its own.

`indextts` is version 2.5, published for every system. `indextts2` is version 2.0, whose package
needs others that are published for Linux on x86_64 only; it alone takes an emotion as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anyrig.errors import InvalidInputError, Message, MissingWeightsError, OptionRef
from anyrig.speech.engine import (
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    TakePart,
    Utterance,
    Verification,
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

EMOTIONS = ("happy", "angry", "sad", "afraid", "disgusted", "melancholic", "surprised", "calm")
"""What the eight numbers of an emotion vector stand for."""
MAX_EMOTION = 0.8
"""Of their sum: with more of it the voice is no longer the recording's, say its authors."""
_MIN_DURATION, _MAX_DURATION = 0.5, 2.0
_TOKENIZER = "multilingual_zh_ja_yue_char_del.tiktoken"
_FILES = (
    "config.yaml", "gpt.pth", "s2mel.pth", "codec.pth", _TOKENIZER, "wav2vec2bert_stats.pt",
    "feat1.pt", "feat2.pt", "hf_cache/w2v-bert-2.0/config.json",
    "hf_cache/w2v-bert-2.0/preprocessor_config.json", "hf_cache/w2v-bert-2.0/model.safetensors",
    "hf_cache/campplus_cn_common.bin", "hf_cache/bigvgan/config.json",
    "hf_cache/bigvgan/bigvgan_generator.pt",
)  # fmt: skip
_FILES_2 = (
    "config.yaml", "gpt.pth", "s2mel.pth", "bpe.model", "wav2vec2bert_stats.pt", "feat1.pt",
    "feat2.pt", "qwen0.6bemo4-merge/config.json", "qwen0.6bemo4-merge/model.safetensors",
    "qwen0.6bemo4-merge/tokenizer.json",
)  # fmt: skip
_SOURCES = (
    WeightSource("IndexTeam/IndexTTS-2.5",
                 (*(name for name in _FILES if "/" not in name), "LICENSE*")),
    WeightSource("facebook/w2v-bert-2.0", ("config.json", "preprocessor_config.json",
                 "model.safetensors"), folder="hf_cache/w2v-bert-2.0"),
    WeightSource("funasr/campplus", ("campplus_cn_common.bin",), folder="hf_cache"),
    WeightSource("nvidia/bigvgan_v2_22khz_80band_256x", ("config.json", "bigvgan_generator.pt"),
                 folder="hf_cache/bigvgan"),
)  # fmt: skip
_HUB_FILES_2 = (
    ("facebook/w2v-bert-2.0", "model.safetensors"),
    ("amphion/MaskGCT", "semantic_codec/model.safetensors"),
    ("funasr/campplus", "campplus_cn_common.bin"),
)
"""What the package of version 2.0 downloads besides; and the vocoder that config.yaml names."""
_REPOSITORIES = {"2.5": "IndexTeam/IndexTTS-2.5", "2.0": "IndexTeam/IndexTTS-2"}
_NOTICE = (
    "IndexTTS is under bilibili's model licence: above 100 million monthly users or 1 billion yuan "
    "of yearly revenue a separate licence is needed, and its use policy applies to everyone. Read "
    "it: https://github.com/index-tts/index-tts/blob/main/LICENSE"
)
_OPTIONS = (
    EngineOption("temperature", 0.8, "Sampling temperature.", low=0.01, high=2.0),
    EngineOption("top_p", 0.8, "Nucleus sampling: cumulative probability.", low=0.01, high=1.0),
    EngineOption("top_k", 30, "Sample from the k most likely tokens.", low=1, high=1000),
    EngineOption("repetition_penalty", 10.0, "Penalty for repeated tokens.", low=1, high=20),
    EngineOption("num_beams", 3, "Number of beams.", low=1, high=10, saves_memory=1),
    EngineOption(
        "emo_audio_prompt", "", "Name of another recording in `voices`, whose emotion is used."
    ),
    EngineOption(
        "emo_vector", "", f"Emotion as eight numbers from 0, at most {MAX_EMOTION} together, with "
        f"commas between them: {', '.join(EMOTIONS)}.",
    ),
    EngineOption("emo_alpha", 1.0, "Strength of the emotion.", low=0, high=1),
    EngineOption(
        "duration", 1.0, "Duration factor: 1.2 is a fifth longer.",
        low=_MIN_DURATION, high=_MAX_DURATION,
    ),
    EngineOption(
        "max_mel_tokens", 1500, "Maximum length, in tokens of the model: 25 a second in 2.5, 50 in "
        "2.0.", low=10, high=5000, saves_memory=750,
    ),
    EngineOption(
        "max_text_tokens_per_sentence", 120, "Longer lines are split.",
        low=20, high=600, saves_memory=60,
    ),
)  # fmt: skip

INFO = EngineInfo(
    name="indextts",
    summary="IndexTTS 2.5: five languages in the voice of any recording, with emotion",
    languages=("en", "zh", "es", "ja", "ar"),
    quality=4,
    libraries=("torch",),
    precisions=("fp32", "fp16", "bf16"),
    code_licence="bilibili model licence",
    weights_licence="bilibili model licence",
    licence_notice=_NOTICE,
    install=install_command("indextts"),
    weights="Put the files of IndexTeam/IndexTTS-2.5 into the folder; w2v-bert-2.0, campplus and "
    "bigvgan into its folder `hf_cache`; and a recording into its folder `voices`.",
    repository="IndexTeam/IndexTTS-2.5",
    sources=_SOURCES,
    max_chars=300,
    varies_with_seed=True,
    streams=True,
    options=_OPTIONS,
    verification=Verification(
        "small random",
        note="with indextts25-inference 0.2.0, also over HTTP; on an H200 in fp32, fp16 and bf16",
    ),
)
INFO_2 = EngineInfo(
    name="indextts2",
    summary="IndexTTS 2.0: English and Chinese in the voice of any recording, emotion from a text",
    languages=("en", "zh"),
    quality=4,
    libraries=("torch",),
    precisions=("fp32", "fp16", "bf16"),
    code_licence="bilibili model licence",
    weights_licence="bilibili model licence",
    licence_notice=_NOTICE,
    install=install_command("indextts2"),
    weights="Put the files of IndexTeam/IndexTTS-2 into the folder, and a recording into its "
    "folder `voices`; the engine itself fetches what else it needs from the model hub.",
    repository="IndexTeam/IndexTTS-2",
    sources=(
        WeightSource("IndexTeam/IndexTTS-2", (*_FILES_2, "qwen0.6bemo4-merge/*", "LICENSE*")),
    ),
    max_chars=300,
    varies_with_seed=True,
    options=(
        *_OPTIONS,
        EngineOption("emo_text", "", "Emotion as a description: `tired, near tears`."),
    ),
    verification=Verification(
        "small random",
        note="with indextts2-inference 2.1.1, also over HTTP; on an H200 in fp32, fp16 and bf16",
    ),
)


class _RecordedVoiceEngine(SpeechEngine):
    """What both versions have in common: a voice is a recording, and each utterance has its own
    seed.
    """

    sample_rate = 22050
    clones = True
    voice_samples = True
    cores = None  # the model is large, and its own threads use the cores
    pads = False
    batch_invariant = True
    max_items = 16
    release: ClassVar[str]
    """Of IndexTTS."""

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        where = Path(folder)
        self._options = options
        self._voices = self.find_weights(where).voices
        self._recordings = recordings.list_recordings(where)
        self._emotion = _read_emotion(options, self._recordings)
        check_shapes(where, self.release)
        self.handle = handle = open_torch(placement)
        precision = "fp32" if handle.device.type in ("cpu", "mps") else placement.precision
        self._model = self._load_model(where, str(handle.device), precision)

    def _load_model(self, folder: Path, device: str, precision: str) -> Any:
        raise NotImplementedError

    def _find_recording(self, voice: str) -> str:
        return str(self._recordings.get(voice, voice))


class IndexTts(_RecordedVoiceEngine):
    """Version 2.5."""

    info = INFO
    name = INFO.name
    version = "2"
    release = "2.5"
    environment = EnvironmentSpec(
        # A worker measures its memory with psutil, which nothing here brings.
        ("indextts25-inference==0.2.0", "torch==2.8.0", "transformers==5.22.2", "psutil==7.2.2"),
        max_python=(3, 13),
        torch_indexes=TORCH_28_INDEXES,
        disk_bytes=2 * GB,
        gpu_disk_bytes=8 * GB,
        notice=_NOTICE,
    )

    def _load_model(self, folder: Path, device: str, precision: str) -> Any:
        import torch
        from indextts25.infer_v2_5 import IndexTTS2  # type: ignore[import-not-found]

        model = IndexTTS2(
            cfg_path=str(folder / "config.yaml"),
            model_dir=str(folder),
            device=device,
            use_bf16=precision == "bf16",
        )
        if precision == "fp16":  # what `use_bf16` does for bf16; there is no `use_fp16`
            model.dtype = torch.float16
            model.gpt.half()
        _keep_random_state(model, "_speaker_conditioning", "_emotion_conditioning")
        return model

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        if folder and (folder / "bpe.model").is_file() and not (folder / "codec.pth").is_file():
            raise MissingWeightsError(
                f"{folder} has the files of IndexTTS 2.0; indextts is version 2.5",
                hint=Message(
                    "Pass {engine}, or put those of IndexTeam/IndexTTS-2.5 into another folder.",
                    engine=OptionRef("engine", "indextts2"),
                ),
            )
        return recordings.find_weights(cls, folder, _FILES)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        for index in _order_by_voice(batch):
            yield from stream_parts(index, self._generate(batch[index]))

    def _generate(self, utterance: Utterance) -> Iterator[Samples]:
        """A part for each sentence that the model is given."""
        from anyrig.audio.stretch import stretch

        utterance = recordings.resolve_utterance(INFO, self._voices, utterance)
        seed_everything(utterance.seed)
        factor = float(self._options["duration"]) / utterance.rate
        duration = min(max(factor, _MIN_DURATION), _MAX_DURATION)
        parts = self._model.infer_generator(
            self._find_recording(utterance.voice),
            utterance.text,
            None,
            utterance.language,
            duration_factor=duration,
            text_normalization=False,  # numbers are words by now
            stream_return=True,
            max_text_tokens_per_segment=self._options["max_text_tokens_per_sentence"],
            **self._emotion,
            **_list_sampling(self._options),
        )
        for part in parts:
            # Its samples are float32 in the range of 16 bits.
            samples = recordings.to_samples(part) / 32768.0
            yield stretch(samples, self.sample_rate, duration / factor)


class IndexTts2(_RecordedVoiceEngine):
    """Version 2.0."""

    info = INFO_2
    name = INFO_2.name
    version = "1"
    release = "2.0"
    environment = EnvironmentSpec(
        ("indextts2-inference==2.1.1", "torch==2.8.0", "torchaudio==2.8.0", "transformers==5.9.0"),
        max_python=(3, 12),
        systems=(("linux", "x86_64"),),
        torch_indexes=TORCH_28_INDEXES,
        disk_bytes=3 * GB,
        gpu_disk_bytes=9 * GB,
        notice=_NOTICE,
    )

    def _load_model(self, folder: Path, device: str, precision: str) -> Any:
        _check_hub_cache(folder)
        import torch
        from indextts.infer_v2 import IndexTTS2  # type: ignore[import-not-found]

        model = IndexTTS2(
            cfg_path=str(folder / "config.yaml"),
            model_dir=str(folder),
            use_fp16=precision == "fp16",
            device=device,
            use_cuda_kernel=False,
        )
        if precision == "bf16":  # what `use_fp16` does for fp16; there is no `use_bf16`
            model.dtype = torch.bfloat16
            model.gpt.bfloat16()
        _keep_random_state(model, "_get_speaker_conditioning", "_get_emotion_conditioning")
        return model

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        return recordings.find_weights(cls, folder, _FILES_2)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        for index in _order_by_voice(batch):
            yield TakePart(index, self._generate(batch[index]))

    def _generate(self, utterance: Utterance) -> Samples:
        import numpy as np

        from anyrig.audio.resample import resample
        from anyrig.audio.stretch import stretch

        utterance = recordings.resolve_utterance(INFO_2, self._voices, utterance)
        seed_everything(utterance.seed)
        made = self._model.infer(
            spk_audio_prompt=self._find_recording(utterance.voice),
            text=utterance.text,
            output_path=None,
            # The second version calls a sentence a segment.
            max_text_tokens_per_segment=self._options["max_text_tokens_per_sentence"],
            **self._emotion,
            **_list_sampling(self._options),
        )
        if made is None:  # its language model ended at once
            return np.zeros(0, np.float32)
        rate, audio = made
        # It has no duration factor of its own.
        speed = utterance.rate / float(self._options["duration"])
        samples = stretch(recordings.to_samples(audio), rate, speed)
        return resample(samples, rate, self.sample_rate)


def _keep_random_state(model: Any, *names: str) -> None:
    """What these methods compute of a voice is cached, and draws random numbers without using
    them: the first utterance of a voice would be another take than the same one later.
    """
    import torch

    def wrap(compute: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **given: Any) -> Any:
            with torch.random.fork_rng():
                return compute(*args, **given)

        return run

    for name in names:
        setattr(model, name, wrap(getattr(model, name)))


def _order_by_voice(batch: Sequence[Utterance]) -> list[int]:
    """The package caches what it computes of a voice: utterances of one voice go together."""
    return sorted(range(len(batch)), key=lambda index: (batch[index].voice, index))


def _list_sampling(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    names = ("temperature", "top_p", "top_k", "num_beams", "repetition_penalty", "max_mel_tokens")
    return {name: options[name] for name in names}


def _read_emotion(
    options: Mapping[str, OptionValue], known: Mapping[str, Path]
) -> dict[str, OptionValue | list[float]]:
    """The arguments of the package for an emotion."""
    given: dict[str, OptionValue | list[float]] = {"emo_alpha": options["emo_alpha"]}
    name, vector = str(options["emo_audio_prompt"]), str(options["emo_vector"])
    if name and vector:
        raise InvalidInputError(
            "emo_audio_prompt and emo_vector cannot be combined", hint="Set one of the two."
        )
    if vector:
        given["emo_vector"] = parse_emotion(vector)
    if name:
        if name not in known:
            raise InvalidInputError(
                f"emo_audio_prompt: there is no recording {name}",
                hint=f"Recordings in `voices`: {', '.join(known) or 'none'}.",
            )
        given["emo_audio_prompt"] = str(known[name])
    if text := options.get("emo_text"):  # of version 2.0
        given |= {"use_emo_text": True, "emo_text": text}
    return given


def parse_emotion(vector: str) -> list[float]:
    """Eight numbers with commas between them."""
    hint = f"Eight numbers, for {', '.join(EMOTIONS)}: emo_vector=0,0,0.6,0,0,0,0,0"
    try:
        numbers = [float(number) for number in vector.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"emo_vector is not a list of numbers: {vector}", hint=hint
        ) from None
    if len(numbers) != len(EMOTIONS):
        raise InvalidInputError(f"emo_vector has {len(numbers)} numbers; expected 8", hint=hint)
    total = sum(numbers)
    if not all(number >= 0 for number in numbers) or not total <= MAX_EMOTION + 1e-9:
        raise InvalidInputError(
            f"emo_vector must not have negative numbers or a sum above {MAX_EMOTION}; this is "
            f"{vector}",
            hint=hint,
        )
    return numbers


# -- files ----------------------------------------------------------------------------------------


class _Expected(NamedTuple):
    file: str
    path: tuple[str, ...]
    """Of the tensor in the file, dictionary by dictionary."""
    shape: tuple[int | None, ...]
    """None: any."""


def check_shapes(folder: Path, version: str) -> None:
    """Compare the files of a version with its config.yaml, before any of them is loaded.

    The package would notice some of it after a minute of loading, and would not name the file.
    """
    import torch
    from omegaconf import OmegaConf

    config: Any = OmegaConf.load(folder / "config.yaml")
    try:
        expected = _list_expected(config, version)
    except Exception as error:  # whatever a damaged or foreign file makes omegaconf raise
        raise MissingWeightsError(
            f"{folder / 'config.yaml'} is not a configuration of IndexTTS {version}: {error}",
            hint=f"Download it again from {_REPOSITORIES[version]}.",
        ) from error
    opened: dict[str, Any] = {}
    for file, path, shape in expected:
        if file not in opened:
            try:
                content = torch.load(folder / file, map_location="meta", weights_only=True)
            except Exception as error:  # zip, pickle and torch raise what they like
                raise MissingWeightsError(
                    f"{folder / file} cannot be read: {error}", hint="Download it again."
                ) from error
            # Some of its files have the weights beside the state of the optimizer.
            opened[file] = content.get("model", content) if isinstance(content, dict) else content
        tensor = opened[file]
        for key in path:
            tensor = tensor.get(key) if isinstance(tensor, Mapping) else None
        actual = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else None
        fits = actual is not None and len(actual) == len(shape) and all(
            size in (None, found) for size, found in zip(shape, actual, strict=True)
        )  # fmt: skip
        if not fits:
            name = ".".join(path) or "it"
            sizes = ", ".join("any" if size is None else str(size) for size in shape)
            state = "is missing" if actual is None else f"has the shape {list(actual)}"
            raise MissingWeightsError(
                f"{folder / file} does not fit config.yaml: {name} {state}; expected [{sizes}]",
                hint="Both must be of one release: download them again.",
            )


def _list_expected(config: Any, version: str) -> list[_Expected]:
    gpt, codec, regulator = config.gpt, config.semantic_codec, config.s2mel.length_regulator
    weights, width, kinds = config.gpt_checkpoint, int(gpt.model_dim), sum(config.emo_num)
    last = f"gpt.h.{int(gpt.layers) - 1}.ln_1.weight"
    if version == "2.0":
        layer = ("net", "gpt_layer", "0.weight")
        own = [_Expected(config.s2mel_checkpoint, layer, (None, width))]
    else:
        codebook = (codec.codebook_size, codec.codebook_dim)
        own = [_Expected("codec.pth", ("quantizer.quantizers.0.codebook.weight",), codebook)]
    return [
        _Expected(weights, ("text_embedding.weight",), (gpt.number_text_tokens + 1, width)),
        _Expected(weights, ("mel_embedding.weight",), (gpt.number_mel_codes, width)),
        _Expected(weights, (last,), (width,)),
        _Expected(config.s2mel_checkpoint, ("net", "length_regulator", "content_in_proj.weight"),
                  (regulator.channels, regulator.in_channels)),
        *own,
        _Expected(config.emo_matrix, (), (kinds, None)),
        _Expected(config.spk_matrix, (), (kinds, 192)),
    ]  # fmt: skip


def _check_hub_cache(folder: Path) -> None:
    """Name what version 2.0 would download, where downloads are off."""
    from huggingface_hub import constants, try_to_load_from_cache
    from omegaconf import OmegaConf

    if not constants.HF_HUB_OFFLINE:
        return
    needed = list(_HUB_FILES_2)
    vocoder = str(OmegaConf.select(OmegaConf.load(folder / "config.yaml"), "vocoder.name"))
    if not Path(vocoder).is_dir():
        needed.append((vocoder, "bigvgan_generator.pt"))
    missing = [
        f"{repository}/{file}"
        for repository, file in needed
        if not isinstance(try_to_load_from_cache(repository, file), str)
    ]
    if missing:
        raise MissingWeightsError(
            f"indextts2 needs files that are not in the cache of the model hub: "
            f"{', '.join(missing)}",
            hint="Unset HF_HUB_OFFLINE for the first use, or copy the cache of another machine "
            "(HF_HOME).",
        )
