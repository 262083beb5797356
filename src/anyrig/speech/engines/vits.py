"""VITS through torch: any model in transformers' form, such as the thousand languages of MMS.

A folder holds one model; its tokenizer says the language. A line sounds the same in any batch:
its noise comes from its own seed (`speech/models/vits.py`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import MissingPackageError, MissingWeightsError, UnspeakableTextError
from anyrig.install import format_install
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
)
from anyrig.speech.engines import installed
from anyrig.speech.engines.installed import require_files, require_model
from anyrig.storage import weights
from anyrig.storage.files import read_json

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.speech.models.vits import VitsInput

ADAPTER = "1"
_FILES = ("config.json", "model.safetensors", "vocab.json", "tokenizer_config.json")
_OWN = "below 0: the model's default"
# What a frame takes at full size while it is decoded, in fp32.
_FRAME_BYTES = 220_000
_MIN_FRAMES, _MAX_FRAMES = 2048, 16384

INFO = EngineInfo(
    name="vits",
    summary="VITS and MMS: one small model for each of a thousand languages",
    languages=(),
    quality=2,
    libraries=("torch",),
    precisions=("fp32", "tf32", "fp16", "bf16"),
    code_licence="Apache-2.0",
    weights_licence="by model (facebook/mms-tts-*: CC-BY-NC-4.0)",
    modules=("torch", "transformers", "safetensors"),
    install=format_install("anyrig[torch]"),
    weights="A model in transformers' form with model.safetensors: facebook/mms-tts-eng, -fra, "
    "-spa and so on, on the model hub.",
    repository="facebook/mms-tts-eng",
    weights_bytes=145_000_000,
    max_chars=400,
    varies_with_seed=True,
    options=(
        EngineOption("noise", -1.0, f"Variation of the sound; {_OWN}", low=-1, high=2),
        EngineOption("duration_noise", -1.0, f"Variation of the rhythm; {_OWN}", low=-1, high=2),
    ),
    verification=Verification(
        "random", "transformers' VitsModel", "samples differ by at most 2.8e-6 in fp32"
    ),
)


class Vits(SpeechEngine):
    """Lines in batches without padding on a GPU, one by one on a CPU."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    pads = False

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        super().__init__(placement, folder=folder)
        where = _require_model(Path(folder) if folder else None)
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        _check_tools(where)

        from transformers import VitsTokenizer

        from anyrig.speech.models.vits import VitsTorch

        self._tokenizer: Any = VitsTokenizer.from_pretrained(where, local_files_only=True)
        self._model = VitsTorch.load(
            where, self.handle.device, placement.precision,
            noise=_read_option(options, "noise"),
            duration_noise=_read_option(options, "duration_noise"),
            block_frames=_choose_block_frames(placement),
        )  # fmt: skip
        self.sample_rate = self._model.sample_rate
        self._voices = _list_voices(where)
        if self.handle.on_host:
            self.max_items = 1  # a CPU gains nothing from a batch

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The model in `folder`."""
        for module in INFO.modules:
            installed.find_folder(INFO, module)
        where = _require_model(folder)
        return EngineWeights(
            engine=cls.name,
            version=f"{ADAPTER}/{installed.read_version(INFO, 'transformers')}",
            fingerprint=weights.hash_files(where / name for name in _FILES),
            voices=_list_voices(where),
            folder=str(where),
            sample_rate=int(read_json(where / "config.json").get("sampling_rate", 16000)),
            worker_bytes=2 * (where / "model.safetensors").stat().st_size + (500 << 20),
        )

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        sounds = self._model.run([self._encode(line) for line in batch])
        return (TakePart(index, samples) for index, samples in enumerate(sounds))

    def _encode(self, line: Utterance) -> VitsInput:
        from anyrig.speech.models.vits import VitsInput

        voice = voices.choose_voice(self._voices, line)
        ids: list[int] = self._tokenizer(line.text)["input_ids"]
        blank = 0 if self._tokenizer.add_blank else -1
        if not any(token != blank for token in ids):
            raise UnspeakableTextError(
                f"this model supports no character of {line.text!r}",
                hint="Use a text in the letters of its vocab.json.",
            )
        return VitsInput(ids, line.seed, line.rate, self._voices.index(voice))


def _read_option(options: Mapping[str, OptionValue], name: str) -> float | None:
    """An option's value; None leaves it to the model."""
    value = float(options.get(name, -1.0))
    return value if value >= 0 else None


def _require_model(folder: Path | None) -> Path:
    """A folder that holds a VITS model whose weights are safe to open."""
    if folder and not any(folder.glob("*.safetensors")) and any(folder.glob("*.bin")):
        raise MissingWeightsError(
            f"{folder} has pickled weights, which can run arbitrary code when loaded",
            hint="Use the repository's model.safetensors instead of pytorch_model.bin.",
        )
    folder = require_files(INFO, folder, _FILES)
    require_model(folder, INFO, "text_encoder.embed_tokens.weight")
    return folder


def _list_voices(folder: Path) -> tuple[Voice, ...]:
    """The speakers of the model, in its language."""
    count = max(1, int(read_json(folder / "config.json").get("num_speakers", 1)))
    language = _read_language(folder)
    return tuple(
        Voice(f"speaker{number}", language, INFO.name, title=folder.name)
        for number in range(count)
    )  # fmt: skip


def _read_language(folder: Path) -> str:
    """As the tokenizer says it, or the end of the folder's name: `mms-tts-fra`. English if none.

    Codes of three letters become those of two where there are such.
    """
    from babel.core import get_global

    code = str(read_json(folder / "tokenizer_config.json").get("language") or "")
    known = get_global("language_aliases")
    if not code:
        last = folder.name.rpartition("-")[2].lower()
        code = last if last in known else "en"
    return str(known.get(code, code))


def _check_tools(folder: Path) -> None:
    """That what the model's tokenizer leans on is here: some read phonemes, some roman letters."""
    settings = read_json(folder / "tokenizer_config.json")
    if settings.get("phonemize") and importlib.util.find_spec("phonemizer") is None:
        raise MissingPackageError(
            f"the model in {folder} reads phonemes, and phonemizer is not installed",
            hint=f"{format_install('anyrig[espeak]')} (espeak-ng is GPL-3), or use an MMS model.",
        )
    if settings.get("is_uroman") and importlib.util.find_spec("uroman") is None:
        raise MissingPackageError(
            f"the model in {folder} needs the package uroman",
            hint=format_install("uroman"),
        )


def _choose_block_frames(placement: Placement) -> int:
    """How many frames are decoded at a time: one line on a CPU, else what half the budget holds."""
    if placement.backend.provider == "cpu":
        return 1
    if placement.budget_bytes is None:
        return _MIN_FRAMES * 2
    return min(_MAX_FRAMES, max(_MIN_FRAMES, placement.budget_bytes // 2 // _FRAME_BYTES))
