"""Names by spaCy's small models, one for each language; nothing but their name finder is loaded."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from anyrig.documents.entities.spans import Span
from anyrig.errors import MissingPackageError, MissingWeightsError
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.documents.entities.stretches import Window
    from anyrig.placement import Placement

INSTALL = format_install("anyrig[entities]")
_NEEDLESS = ("tagger", "parser", "attribute_ruler", "lemmatizer", "morphologizer", "senter")
_SCORE = 0.8  # the models give none: their published F is 0.84 to 0.86


class SpacyNames(BaseEngine):
    """Windows to spans, each window by the model of its language."""

    name = "spacy-names"
    version = "1"
    pads = False
    max_items = 64

    def __init__(self, placement: Placement | None = None, *, models: Mapping[str, str]) -> None:
        """Load nothing yet: a language costs its model on its first text.

        Args:
            placement: where; these models run on the CPU.
            models: language to a package or folder; `*` for every other language.
        """
        self._models = dict(models)
        self._loaded: dict[str, Any] = {}
        if "*" in self._models:  # one that was named: whether it is any good is told at once
            self._pipeline(self._models["*"])

    def run(self, batch: Sequence[Window]) -> list[list[Span]]:
        """The spans of each window; none where there is no model of its language."""
        found: list[list[Span]] = [[] for _ in batch]
        groups: dict[str, list[int]] = {}
        for number, window in enumerate(batch):
            name = self._models.get(window.language.partition("-")[0]) or self._models.get("*")
            if name:
                groups.setdefault(name, []).append(number)
        for name, numbers in groups.items():
            texts = [batch[number].text for number in numbers]
            for number, document in zip(numbers, self._pipeline(name).pipe(texts), strict=True):
                found[number] = [
                    Span(one.start_char, one.end_char, one.label_, _SCORE) for one in document.ents
                ]
        return found

    def _pipeline(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load(name, lean="*" not in self._models)
        return self._loaded[name]


def load(name: str, *, lean: bool = False) -> Any:
    """A pipeline that finds names and does nothing else.

    Args:
        name: of a package, or a folder.
        lean: whether it is known to need neither torch nor another package's components, which
            spaCy else loads wherever they are: some seconds of a processor.
    """
    with warnings.catch_warnings(), _lean() if lean else nullcontext():
        warnings.simplefilter("ignore")  # W095: an older model says it may differ a little
        try:
            import spacy

            pipeline = spacy.load(name, exclude=_NEEDLESS)
        except ModuleNotFoundError as error:
            raise MissingPackageError(f"names need {error.name}", hint=f"{INSTALL}.") from error
        except (OSError, ValueError) as error:
            said = " ".join(str(error).split())[:160]
            raise MissingWeightsError(
                f"no spaCy model {name}: {said}", hint="`anyrig entities --models` lists them."
            ) from error
    if "ner" not in pipeline.pipe_names:
        raise MissingWeightsError(
            f"the spaCy model {name} finds no names", hint="Pass one with an `ner` component."
        )
    if not _listens(pipeline):
        pipeline.select_pipes(enable="ner")
    pipeline.max_length = 10_000_000
    return pipeline


@contextmanager
def _lean() -> Iterator[None]:
    """SpaCy as where neither torch nor what other packages add to it is installed."""
    hidden = [name for name in ("torch", "tensorflow") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        from spacy.util import registry
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"names need {error.name}", hint=f"{INSTALL}.") from error
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
    added = registry._entry_point_factories
    before, added.entry_points = added.entry_points, False
    try:
        yield
    finally:
        added.entry_points = before


def _listens(pipeline: Any) -> bool:
    """Whether the name finder stands on another component's vectors."""
    model = pipeline.get_pipe("ner").model
    return any("listener" in one.name for one in model.walk())


def is_there(name: str) -> bool:
    """Whether a package can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
