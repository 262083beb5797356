"""IndexTTS2: English and Chinese in the voice of any recording, in an environment of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.speech.engine import (
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    TakePart,
    Utterance,
    Verification,
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

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement

_FILES = ("config.yaml", "gpt.pth", "s2mel.pth", "bpe.model")

INFO = EngineInfo(
    name="indextts",
    summary="IndexTTS2: English and Chinese in the voice of any recording",
    languages=("en", "zh"),
    quality=4,
    libraries=("torch",),
    precisions=("fp32", "fp16", "bf16"),
    code_licence="bilibili model licence",
    weights_licence="bilibili model licence",
    install=install_command("indextts"),
    weights="Put the files of IndexTeam/IndexTTS-2 into the folder, and a recording into its "
    "folder `voices`; the engine itself fetches what else it needs from the model hub.",
    max_chars=300,
    varies_with_seed=True,
    options=(
        EngineOption("temperature", 0.8, "Sampling temperature.", low=0.01, high=2.0),
        EngineOption("top_p", 0.8, "Nucleus sampling: cumulative probability.", low=0.01, high=1.0),
        EngineOption("top_k", 30, "Sample from the k most likely tokens.", low=1, high=1000),
        EngineOption("repetition_penalty", 10.0, "Penalty for repeated tokens.", low=1, high=20),
        EngineOption("num_beams", 3, "Number of beams.", low=1, high=10, saves_memory=1),
        EngineOption("emo_alpha", 1.0, "Strength of the recording's emotion.", low=0, high=1),
        EngineOption("duration", 1.0, "Duration factor: 1.2 is a fifth longer.", low=0.5, high=2.0),
        EngineOption(
            "max_mel_tokens", 1500, "Maximum length; about 50 tokens per second.",
            low=50, high=5000, saves_memory=750,
        ),
        EngineOption(
            "max_text_tokens_per_sentence", 120, "Longer lines are split.",
            low=20, high=600, saves_memory=60,
        ),
    ),
    verification=Verification("not run", note="written after its package's source"),
)  # fmt: skip


class IndexTts(SpeechEngine):
    info = INFO
    name = INFO.name
    version = "1"
    sample_rate = 22050
    clones = True
    cores = None  # the model is large, and its own threads use the cores
    pads = False
    batch_invariant = True  # every utterance has its own seed
    max_items = 16
    environment = EnvironmentSpec(
        ("indextts2-inference==2.1.1", "torch==2.8.0", "torchaudio==2.8.0"),
        max_python=(3, 12),
        torch_indexes=TORCH_28_INDEXES,
        disk_bytes=3 * GB,
        gpu_disk_bytes=9 * GB,
        notice="IndexTTS2 is under bilibili's model licence: above 100 million monthly users or "
        "1 billion yuan of yearly revenue a separate licence is needed, and its use policy applies "
        "to everyone.",
    )

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        import torch
        from indextts.infer_v2 import IndexTTS2  # type: ignore[import-not-found]

        self._options = options
        self._voices = self.find_weights(Path(folder)).voices
        self._recordings = recordings.list_recordings(Path(folder))
        self.handle = handle = open_torch(placement)
        half = placement.precision if handle.device.type not in ("cpu", "mps") else "fp32"
        self._model = IndexTTS2(
            cfg_path=str(Path(folder) / "config.yaml"),
            model_dir=folder,
            use_fp16=half == "fp16",
            device=str(handle.device),
            use_cuda_kernel=False,
        )
        if half == "bf16":  # the format of its autocast regions; it has no argument for this one
            self._model.dtype = torch.bfloat16

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        return recordings.find_weights(cls, folder, _FILES)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        # The library caches one voice: utterances of one voice go together.
        order = sorted(range(len(batch)), key=lambda index: (batch[index].voice, index))
        for index in order:
            yield TakePart(index, self._generate(batch[index]))

    def _generate(self, utterance: Utterance) -> Samples:
        from anyrig.audio.stretch import stretch

        utterance = recordings.resolve_utterance(INFO, self._voices, utterance)
        seed_everything(utterance.seed)
        names = (
            "temperature", "top_p", "top_k", "num_beams", "repetition_penalty", "emo_alpha",
            "max_mel_tokens",
        )  # fmt: skip
        given = {name: self._options[name] for name in names}
        rate, audio = self._model.infer(
            spk_audio_prompt=str(self._recordings.get(utterance.voice, utterance.voice)),
            text=utterance.text,
            output_path=None,
            # The second version calls a sentence a segment.
            max_text_tokens_per_segment=self._options["max_text_tokens_per_sentence"],
            **given,
        )
        speed = utterance.rate / float(self._options["duration"])
        samples = stretch(recordings.to_samples(audio), rate, speed)
        if rate != self.sample_rate:
            from anyrig.audio.resample import resample

            samples = resample(samples, rate, self.sample_rate)
        return samples
