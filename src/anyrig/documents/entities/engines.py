"""Engines that find names in windows of text: spaCy, GLiNER, token classification."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np  # noqa: TID253 - only workers import this file

from anyrig.documents.engine import TextEngine
from anyrig.documents.entities.ner_models import INSTALL_GLINER, INSTALL_SPACY
from anyrig.documents.entities.windows import NameSpan, resolve_overlaps
from anyrig.documents.model_folder import count_positions, find_onnx_file, read_config
from anyrig.documents.protocol import TextBlock
from anyrig.errors import MissingPackageError, MissingWeightsError, OptionRef
from anyrig.storage.weights import DEFAULT_PATTERNS
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from tokenizers import Encoding

    from anyrig.documents.entities.windows import NameWindow
    from anyrig.documents.networks import Network
    from anyrig.documents.protocol import Matrix
    from anyrig.documents.tokenizer import TextWindows
    from anyrig.placement import Placement

# -- token classification --------------------------------------------------------------------------

_MAX_TOKENS = 512
_OVERLAP = 64
_LABEL = re.compile(r"([BIOESLUM])[-_](.+)")
_BEGINS, _ENDS = frozenset("BSU"), frozenset("ESLU")


class TokenClassifier(TextEngine):
    """A token-classification model of any family, by torch or as ONNX.

    Args:
        placement: where it runs.
        model: a folder, or a name on the hub.
        threshold: the least score of a name.
    """

    name = "token-classes"
    memory_options = (OptionRef("precision", "bf16"), OptionRef("device", "cpu"))

    def __init__(self, placement: Placement, *, model: str, threshold: float = 0.5) -> None:
        from anyrig.documents.networks import OnnxNetwork, TransformersNetwork, open_onnx

        folder = _find_folder(model)
        config = read_config(folder, hint="It lies beside the model and names its labels.")
        pad = int(config.get("pad_token_id") or 0)
        file = find_onnx_file(folder, folder)
        network: Network
        if placement.backend.library == "onnx" and file is not None:
            network = OnnxNetwork(open_onnx(placement), file, pad=pad, per_token=True)
        else:
            network = TransformersNetwork(placement, folder, head="token", pad=pad)
        longest = max(8, min(_MAX_TOKENS, count_positions(config)))
        tokenizer = {
            "file": folder / "tokenizer.json", "longest": longest,
            "overlap": min(_OVERLAP, (longest - 2) // 4), "offsets": True,
        }  # fmt: skip
        super().__init__(network, TokenHead(_read_labels(config), threshold), tokenizer=tokenizer)

    def run(self, batch: Sequence[NameWindow]) -> list[list[NameSpan]]:  # type: ignore[override]
        return [spans for (spans,) in super().run([TextBlock([one.text]) for one in batch])]


class TokenHead:
    """The names of each text, from the scores of its tokens' labels."""

    def __init__(self, labels: Mapping[int, str], threshold: float) -> None:
        self._labels, self._threshold = labels, threshold

    def join(self, block: TextBlock, windows: TextWindows, rows: Matrix) -> list[list[NameSpan]]:
        best = rows.argmax(axis=1)
        scores = 1.0 / np.exp(rows - rows.max(axis=1, keepdims=True)).sum(axis=1)
        labels = [self._labels.get(number, "O") for number in best.tolist()]
        parts: list[list[tuple[int, int, list[NameSpan]]]] = [[] for _ in block.texts]
        end = 0
        for owner, length, encoding in zip(
            windows.owners.tolist(), windows.lengths.tolist(), windows.encodings, strict=True
        ):
            start, end = end, end + length
            text = block.texts[owner]
            words = join_tokens(encoding, labels[start:end], scores[start:end].tolist(), text)
            if words:
                spans = join_words(words, text, self._threshold)
                parts[owner].append((words[0].start, words[-1].end, spans))
        return [resolve_overlaps(some) for some in parts]


class LabelledWord(NamedTuple):
    """A word with the label of its first token."""

    start: int
    end: int
    label: str
    score: float


def join_tokens(
    encoding: Encoding, labels: Sequence[str], scores: Sequence[float], text: str
) -> list[LabelledWord]:
    """The words of a window; special tokens, which belong to no word, are left out."""
    found: list[LabelledWord] = []
    last: int | None = None
    for (start, end), number, label, score in zip(
        encoding.offsets, encoding.word_ids, labels, scores, strict=False
    ):
        if number is None or end <= start:
            last = None if number is None else last
            continue
        while start < end and text[start].isspace():  # byte-level tokens hold the space before
            start += 1
        if number == last and found:
            found[-1] = found[-1]._replace(end=max(end, found[-1].end))
        elif start < end:
            found.append(LabelledWord(start, end, label, score))
            last = number
    return found


def join_words(words: Iterable[LabelledWord], text: str, threshold: float = 0.0) -> list[NameSpan]:
    """Runs of words with one label, in any scheme of prefixes; between two of them nothing but
    spaces may stand.
    """
    found: list[NameSpan] = []
    scores: list[float] = []
    open_label = ""
    for word in words:
        prefix, label = _split_label(word.label)
        if not label:
            open_label = ""
            continue
        is_near = found and not text[found[-1].end : word.start].strip()
        if open_label == label and prefix not in _BEGINS and is_near:
            scores.append(word.score)
            found[-1] = found[-1]._replace(end=word.end, score=sum(scores) / len(scores))
        else:
            scores = [word.score]
            found.append(NameSpan(word.start, word.end, label, word.score))
        open_label = "" if prefix in _ENDS else label
    return [span for span in found if span.score >= threshold]


def _split_label(label: str) -> tuple[str, str]:
    """`B-PER` to its prefix and `PER`; a plain label is inside, `O` is nothing."""
    if label in ("O", "", "o", "OUT"):
        return "", ""
    found = _LABEL.fullmatch(label)
    return (found[1], found[2]) if found else ("I", label)


def _read_labels(config: Mapping[str, Any]) -> dict[int, str]:
    return {int(number): str(name) for number, name in (config.get("id2label") or {}).items()}


def _find_folder(model: str) -> Path:
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download

    try:  # without pickles: loading one runs what is in it
        return Path(snapshot_download(model, allow_patterns=list(DEFAULT_PATTERNS)))
    except Exception as error:
        raise MissingWeightsError(
            f"no model {model}: {' '.join(str(error).split())[:200]}",
            hint="Pass the folder of a token-classification model, or its name on the hub.",
        ) from error


# -- GLiNER ----------------------------------------------------------------------------------------

_GLINER_ROWS = {"cpu": 8, "gpu": 64}
_GLINER_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")  # what the library counts as one
_GLINER_WORDS = 384


class Gliner(BaseEngine):
    """GLiNER: names of any sort, by labels in words.

    Args:
        placement: where it runs.
        model: a folder, or a name on the hub.
        labels: what it looks for.
        threshold: the least score of a name.
    """

    name = "gliner"
    version = "1"
    memory_options = (OptionRef("precision", "bf16"), OptionRef("device", "cpu"))

    def __init__(
        self, placement: Placement, *, model: str, labels: Sequence[str], threshold: float = 0.5
    ) -> None:
        from anyrig.documents.networks import get_torch_dtype, open_torch

        self.handle = open_torch(placement)
        self._labels, self._threshold = list(labels), threshold
        self._rows = _GLINER_ROWS["gpu" if placement.device.kind == "gpu" else "cpu"]
        self._model = _load_gliner(model).to(self.handle.device).eval()
        self._longest = int(getattr(self._model.config, "max_len", 0) or _GLINER_WORDS)
        if placement.precision in ("bf16", "fp16"):
            self._model = self._model.to(get_torch_dtype(placement.precision))

    def run(self, batch: Sequence[NameWindow]) -> list[list[NameSpan]]:
        import torch

        cut = [_split_words(window.text, self._longest) for window in batch]
        texts = [batch[n].text[low:high] for n, parts in enumerate(cut) for low, high in parts]
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            found = iter(self._model.inference(
                texts, self._labels, threshold=self._threshold, flat_ner=True,
                batch_size=self._rows,
            ) if texts else ())  # fmt: skip
        return [
            resolve_overlaps([(low, high, _shift_spans(next(found), low)) for low, high in parts])
            for parts in cut
        ]


def _shift_spans(found: Sequence[dict[str, Any]], by: int) -> list[NameSpan]:
    return [
        NameSpan(one["start"] + by, one["end"] + by, one["label"], float(one["score"]))
        for one in found
    ]


def _split_words(text: str, longest: int) -> list[tuple[int, int]]:
    """Parts of at most so many words: what is longer the library would cut off silently."""
    words = [found.span() for found in _GLINER_WORD.finditer(text)]
    parts, first = [], 0
    step = max(1, longest - max(4, longest // 8))
    while first < len(words):
        last = min(len(words), first + longest)
        parts.append((words[first][0], words[last - 1][1]))
        if last == len(words):
            break
        first += step
    return parts


def _load_gliner(model: str) -> Any:
    logging.getLogger("gliner").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from gliner import GLiNER

            return GLiNER.from_pretrained(model, local_files_only=Path(model).is_dir())
        except ImportError as error:
            raise MissingPackageError(
                f"gliner cannot be loaded: {error}", hint=INSTALL_GLINER
            ) from error
        except (OSError, ValueError) as error:
            raise MissingWeightsError(
                f"no GLiNER model {model}: {' '.join(str(error).split())[:200]}",
                hint="Pass the folder of one, or its name on the hub.",
            ) from error


# -- spaCy -----------------------------------------------------------------------------------------

_SPACY_UNUSED = ("tagger", "parser", "attribute_ruler", "lemmatizer", "morphologizer", "senter")
_SPACY_SCORE = 0.8  # the models give none: their published F is 0.84 to 0.86


class Spacy(BaseEngine):
    """Small models of spaCy, one for each language. A language costs its model on its first text.

    Args:
        placement: these models run on the CPU.
        models: language to a package or folder; `*` for every other language.
    """

    name = "spacy-names"
    version = "1"
    pads = False
    max_items = 64

    def __init__(self, placement: Placement | None = None, *, models: Mapping[str, str]) -> None:
        self._models = dict(models)
        self._loaded: dict[str, Any] = {}
        if "*" in self._models:  # one that the user named: checked at once
            self._get_pipeline(self._models["*"])

    def run(self, batch: Sequence[NameWindow]) -> list[list[NameSpan]]:
        """The spans of each window; none if there is no model of its language."""
        found: list[list[NameSpan]] = [[] for _ in batch]
        groups: dict[str, list[int]] = {}
        for number, window in enumerate(batch):
            name = self._models.get(window.language.partition("-")[0]) or self._models.get("*")
            if name:
                groups.setdefault(name, []).append(number)
        for name, numbers in groups.items():
            documents = self._get_pipeline(name).pipe([batch[number].text for number in numbers])
            for number, document in zip(numbers, documents, strict=True):
                found[number] = [
                    NameSpan(one.start_char, one.end_char, one.label_, _SPACY_SCORE)
                    for one in document.ents
                ]
        return found

    def _get_pipeline(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load_spacy(name, lean="*" not in self._models)
        return self._loaded[name]


def load_spacy(name: str, *, lean: bool = False) -> Any:
    """A pipeline that finds names and does nothing else.

    Args:
        name: of a package, or a folder.
        lean: whether it is known to need neither torch nor another package's components, which
            spaCy else loads wherever they are: some seconds of a processor.
    """
    with warnings.catch_warnings(), _hide_torch() if lean else nullcontext():
        warnings.simplefilter("ignore")  # W095: an older model says it may differ a little
        try:
            import spacy

            pipeline = spacy.load(name, exclude=_SPACY_UNUSED)
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                f"names need {error.name}", hint=f"{INSTALL_SPACY}."
            ) from error
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise MissingWeightsError(
                f"no spaCy model {name}: {reason}", hint="`anyrig entities --models` lists them."
            ) from error
    if "ner" not in pipeline.pipe_names:
        raise MissingWeightsError(
            f"the spaCy model {name} finds no names", hint="Pass one with an `ner` component."
        )
    if not _has_listener(pipeline):
        pipeline.select_pipes(enable="ner")
    pipeline.max_length = 10_000_000
    return pipeline


@contextmanager
def _hide_torch() -> Iterator[None]:
    """SpaCy as if neither torch nor what other packages add to it was installed."""
    hidden = [name for name in ("torch", "tensorflow") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        from spacy.util import registry
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"names need {error.name}", hint=f"{INSTALL_SPACY}.") from error
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
    added = registry._entry_point_factories
    before, added.entry_points = added.entry_points, False
    try:
        yield
    finally:
        added.entry_points = before


def _has_listener(pipeline: Any) -> bool:
    """Whether the name finder stands on another component's vectors."""
    model = pipeline.get_pipe("ner").model
    return any("listener" in one.name for one in model.walk())
