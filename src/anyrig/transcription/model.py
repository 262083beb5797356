"""Which model hears, found without loading it: by language, by name, or by folder.

find("", language="en")                 moonshine, whose weights come with its package
find("", language="es")                 Whisper base, likewise
find("openai/whisper-small")            a name on the hub, fetched once when `fetch` is said
find("models/faster-whisper-small")     a folder, for CTranslate2 or for transformers
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from anyrig.errors import (
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingWeightsError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.placement import Workload
from anyrig.storage.weights import find_cached_repository
from anyrig.transcription import moonshine, whisper
from anyrig.transcription.choose import choose
from anyrig.transcription.protocol import INSTALL, Recording
from anyrig.work.engine import EngineFactory

log = logging.getLogger(__name__)
EngineName = Literal["moonshine", "whisper", "transformers"]
ENGINES: tuple[EngineName, ...] = ("moonshine", "whisper", "transformers")
BASE = "whisper-base"
_FACTORIES = {
    "moonshine": "anyrig.transcription.moonshine:Moonshine",
    "whisper": "anyrig.transcription.whisper:Whisper",
    "transformers": "anyrig.transcription.torch_whisper:TorchWhisper",
}
_SIZES = (
    "tiny tiny.en base base.en small small.en medium medium.en large-v1 large-v2 large-v3 "
    "large-v3-turbo turbo distil-small.en distil-medium.en distil-large-v2 distil-large-v3"
).split()
NAMES = ("moonshine", BASE, *_SIZES)
"""Words that stand for a model, wherever its weights may be."""
_WANTED = ["*.json", "*.txt", "*.safetensors", "model.bin", "*.model"]
_VERSION = "1"
_MULTILINGUAL = 51_865
"""Tokens of a Whisper of many languages; one for English has a token less."""
_RUNTIME_BYTES = 500 << 20
TORCH_INSTALL = format_install("anyrig[torch]")


@dataclass(frozen=True)
class Model:
    """A model that turns sound into words."""

    name: str
    engine: EngineName
    languages: tuple[str, ...]
    """ISO 639-1 codes."""
    folder: str = ""
    """Where its weights are; empty for those that come with packages."""
    fingerprint: str = ""
    """The hash of its weights."""
    weights_bytes: int = 0

    @property
    def multilingual(self) -> bool:
        """Whether the language must be told or found out."""
        return len(self.languages) > 1

    @property
    def translates(self) -> bool:
        """Whether it can say in English what is said in another language."""
        return self.multilingual

    def cost(self, recording: Recording) -> float:
        """What it costs to hear a recording: in batches every one is padded to half a minute."""
        return 30.0 if self.engine == "transformers" else recording.cost

    def need(self, max_workers: int = 1 << 30, *, cuda: bool = False) -> Workload:
        """What it asks of a machine.

        Args:
            max_workers: more processes would have nothing to do.
            cuda: whether CTranslate2 can drive a GPU here.
        """
        held = _RUNTIME_BYTES + round(1.3 * self.weights_bytes)
        if self.engine == "transformers":
            return Workload(
                self.name, libraries=("torch",), precisions=("fp16", "bf16", "fp32"),
                worker_bytes=held, cores=None, max_workers=max_workers,
            )  # fmt: skip
        return Workload(
            self.name, libraries=("torch", "onnx"), worker_bytes=held, max_workers=max_workers,
            precisions=("fp16", "fp32") if cuda else ("fp32",), gpu=cuda, cores=1,
        )  # fmt: skip

    def recipe(self, folder: str, *, words: bool = False) -> EngineFactory:
        """How a worker makes it.

        Args:
            folder: where a model that comes in parts may be put together.
            words: with the times of words, where it has them.
        """
        options: dict[str, Any] = {"folder": folder}
        if self.engine == "whisper":
            options |= {"model": self.folder, "words": words}
        if self.engine == "transformers":
            options = {"model": self.folder}
        return EngineFactory(_FACTORIES[self.engine], options, f"hear {self.name}", self.version)

    @property
    def version(self) -> str:
        """Of engine and weights, for what earlier runs learnt and kept."""
        return f"{_VERSION}-{self.fingerprint[:12]}"


def find(
    name: str = "",
    *,
    language: str = "",
    engine: str = "",
    translate: bool = False,
    fetch: bool = False,
) -> Model:
    """The model of a name, or the one that hears a language.

    Args:
        name: a folder, a name on the hub, `moonshine`, or a size of Whisper.
        language: ISO 639-1; what cannot hear it is refused.
        engine: one of `ENGINES`, where several can run a model.
        translate: whether it shall say in English what it hears.
        fetch: whether a name on the hub may be fetched; else only what is here is taken.
    """
    if engine and engine not in ENGINES:
        raise InvalidInputError(
            f"unknown engine {engine!r}", hint=f"Valid engines: {', '.join(ENGINES)}."
        )
    found = _named(name, engine, fetch) if name else _usual(language, engine, translate)
    if engine and found.engine != engine:
        raise InvalidInputError(
            f"{found.name} is run by {found.engine}, not by {engine}",
            hint=Message(
                "Leave {engine} out, or choose another model.", engine=OptionRef("engine")
            ),
        )
    code = language.partition("-")[0].lower()
    if code and code not in found.languages:
        heard = ", ".join(found.languages[:12]) + (", ..." if len(found.languages) > 12 else "")
        raise InvalidInputError(
            f"{found.name} does not support the language {language!r}",
            hint=f"It supports: {heard}.",
        )
    if translate and not found.translates:
        raise InvalidInputError(
            f"{found.name} cannot translate",
            hint=Message(
                "Pass {model}, or another multilingual Whisper.", model=OptionRef("model", BASE)
            ),
        )
    _installed(found)
    return found


def _usual(language: str, engine: str, translate: bool) -> Model:
    if engine == "transformers":
        raise InvalidInputError(
            "the engine transformers needs a model",
            hint=Message(
                "Pass {model} with a folder or a name on the hub.", model=OptionRef("model")
            ),
        )
    if engine:
        return MOONSHINE if engine == "moonshine" else WHISPER_BASE
    if not language or translate:
        return WHISPER_BASE
    return MOONSHINE if choose(language).name == "moonshine" else WHISPER_BASE


MOONSHINE = Model("moonshine", "moonshine", ("en",), "", moonshine.FINGERPRINT, 60 << 20)
WHISPER_BASE = Model(
    BASE, "whisper", tuple(whisper.LANGUAGES), "", whisper.FINGERPRINT, 148 << 20
)  # fmt: skip


def _named(name: str, engine: str, fetch: bool) -> Model:
    plain = name.strip()
    if plain.lower() in ("moonshine", "moonshine-tiny"):
        return MOONSHINE
    path = Path(plain).expanduser()
    if path.is_dir():
        return _in_folder(path, path.name or str(path))
    if plain.lower() in (BASE, "base") and engine != "transformers":
        return WHISPER_BASE
    if path.exists():
        raise InvalidInputError(
            f"{plain} is a file", hint="A model is a folder; pass the one that contains it."
        )
    if plain in _SIZES:
        names = {"turbo": "large-v3-turbo"}
        size = names.get(plain, plain)
        plain = f"openai/whisper-{size}" if engine == "transformers" else _systran(size)
    elif plain.count("/") != 1 or plain.startswith((".", "/", "~")):
        raise InvalidInputError(
            f"unknown model {name!r}",
            hint=f"Valid models: moonshine, {BASE}, a folder, a name on the hub such as"
            f" openai/whisper-small, or a size: {', '.join(_SIZES[:9])} ...",
        )
    return _in_folder(_of_hub(plain, fetch), plain)


def _systran(size: str) -> str:
    if size == "large-v3-turbo":
        return "mobiuslabsgmbh/faster-whisper-large-v3-turbo"
    return (
        f"Systran/faster-{size}" if size.startswith("distil") else f"Systran/faster-whisper-{size}"
    )


def _of_hub(name: str, fetch: bool) -> Path:
    """A model of the hub, from its cache, or fetched into it."""
    cached = find_cached_repository(name)
    if cached is not None and any((*cached.glob("*.safetensors"), *cached.glob("model.bin"))):
        return cached
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingPackageError(f"{name} is on the hub", hint=TORCH_INSTALL) from error
    try:
        return Path(snapshot_download(name, local_files_only=True, allow_patterns=_WANTED))
    except (OSError, ValueError) as error:
        if not fetch:
            raise MissingWeightsError(
                f"{name} is not on this machine",
                hint=Message(
                    "Pass {fetch} to download it, or a folder as {model}.",
                    fetch=OptionRef("fetch"),
                    model=OptionRef("model"),
                ),
            ) from error
    log.info("downloading %s from the hub", name)
    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED))
    except Exception as error:  # whatever the hub's client throws without a network
        said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise MissingWeightsError(
            f"{name} is not on this machine and cannot be downloaded: {said}",
            hint=Message(
                "Copy the model's folder to this machine, and pass it with {model}.",
                model=OptionRef("model"),
            ),
        ) from error


def _in_folder(folder: Path, name: str) -> Model:
    """A model by what lies in its folder."""
    config = _json(folder / "config.json")
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if (folder / "model.bin").is_file() and not weights:
        several = _num_tokens(folder) >= _MULTILINGUAL
        return Model(
            name, "whisper", tuple(whisper.LANGUAGES) if several else ("en",), str(folder),
            fingerprint([folder / "model.bin", folder / "config.json"]),
            (folder / "model.bin").stat().st_size,
        )  # fmt: skip
    kind = str(config.get("model_type", ""))
    if not config or not weights:
        raise InvalidInputError(
            f"{folder} contains no speech recognition model",
            hint="It must contain a Whisper for transformers (config.json, *.safetensors) or for"
            " CTranslate2 (model.bin, config.json).",
        )
    if kind != "whisper":
        raise InvalidInputError(
            f"{folder} contains a model of type {kind or 'unknown'!r}, not a Whisper",
            hint=Message("Pass a Whisper, or leave {model} out.", model=OptionRef("model")),
        )
    files = [path for path in (*weights, folder / "config.json") if path.is_file()]
    size = sum(path.stat().st_size for path in weights)
    held = _languages(folder, config)
    return Model(name, "transformers", held, str(folder), fingerprint(files), size)


def _languages(folder: Path, config: dict[str, Any]) -> tuple[str, ...]:
    """What a Whisper hears: its tokens for languages say it; English alone without them."""
    told = _json(folder / "generation_config.json").get("lang_to_id") or {}
    codes = tuple(str(token).strip("<|>") for token in told)
    if not codes and int(config.get("vocab_size", 0)) >= _MULTILINGUAL:
        codes = tuple(whisper.LANGUAGES)
    return codes or ("en",)


def _num_tokens(folder: Path) -> int:
    """Of a vocabulary as CTranslate2 keeps it: lines of text, or a list."""
    try:
        if (folder / "vocabulary.json").is_file():
            return len(json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
        with (folder / "vocabulary.txt").open("rb") as file:
            return sum(1 for _ in file)
    except (OSError, ValueError):
        return 0


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def fingerprint(files: list[Path]) -> str:
    """The hash of files with their names, in order of these."""
    whole = hashlib.sha256()
    for path in sorted(files):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(f"{path.name} {digest}\n".encode())
    return whole.hexdigest()


def _installed(model: Model) -> None:
    """MissingPackageError names what lacks, before hours of work."""
    wanted: tuple[str, ...] = {
        "moonshine": moonshine.Moonshine.modules,
        "whisper": whisper.Whisper.modules if not model.folder else ("faster_whisper",),
        "transformers": ("torch", "transformers"),
    }[model.engine]
    hint = TORCH_INSTALL if model.engine == "transformers" else INSTALL
    for module in wanted:
        if find_spec(module) is None:
            raise MissingPackageError(f"{model.name} needs the package {module}", hint=hint)
