"""How answers and figures of classifiers look: lines, JSON, tables."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import failed as lost
from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.show import paint, print_json, print_warning, table
from anyrig.text.labels import cell, one_line
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.decide import Answer
    from anyrig.documents.classify.head import About
    from anyrig.services.classify import Sorted

_NONE = "(none of these)"
_SNIPPET = 240
_MOST_LABELS = 12
"""Labels up to which all confusions are printed; beyond, the commonest."""


class Show:
    """Answers as they come, and everything at the end."""

    def __init__(self, context: Context, title: str, output: Path | None) -> None:
        self._json = bool(context.options.json)
        self._title, self._output = title, output
        self._done: list[Sorted] = []

    def one(self, found: Sorted) -> None:
        """One more is sorted."""
        self._done.append(found)
        for warning in found.warnings:
            self._clear()
            print_warning(f"{found.source.name}: {warning}")
        if found.answer is not None and not self._json and self._output is None:
            self._clear()
            print(f"{_labels_text(found.answer)}  {found.source.name}", flush=True)

    def end(self) -> int:
        """Write what is to be written; what failed, last; the exit code."""
        failed = [
            lost.Failed(one.source.name, one.error) for one in self._done if one.error is not None
        ]
        some = len(failed) < len(self._done)
        if self._output is not None and some:
            self._write(self._output)
        if self._json:
            print_json(
                {
                    "by": self._title,
                    "output": str(self._output) if self._output else None,
                    "results": [plain(one) for one in self._done if one.answer is not None],
                    "failed": lost.plain(failed),
                }
            )
        elif self._output is not None and some:
            count = pluralize(len(self._done) - len(failed), "text")
            print(f"{count} sorted by {self._title}, in {self._output}")
            for line in _summary(self._done):
                print(line)
        return lost.end(failed, len(self._done), "text")

    def _clear(self) -> None:
        """A progress line and an answer must not share a line of the terminal."""
        if sys.stderr.isatty():
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def _write(self, path: Path) -> None:
        from anyrig.storage.files import open_atomic

        made = _csv(self._done) if path.suffix.lower() == ".csv" else _jsonl(self._done)
        with open_atomic(path) as file:
            for piece in made:
                file.write(piece.encode("utf-8", "replace"))


def _labels_text(answer: Answer) -> str:
    """`0.93 invoice`, or several, or that none fits; as wide for any single label."""
    shares = dict(answer.told)
    told = [f"{shares[label]:.2f} {paint(label, 'bold')}" for label in answer.labels]
    if len(told) > 1:
        return ", ".join(told)
    shown = answer.labels[0] if told else _NONE
    wide = max(map(len, shares), default=0)
    return (told or [f"{answer.probability:.2f} {_NONE}"])[0] + " " * (wide - len(shown))


def _summary(done: Sequence[Sorted]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for one in done:
        if one.answer is not None:
            for label in one.answer.labels or (_NONE,):
                counts[label] = counts.get(label, 0) + 1
    for label, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"  {count:>6}  {label}"


def plain(one: Sorted) -> dict[str, Any]:
    """An answer as JSON has it."""
    answer = one.answer
    assert answer is not None
    shares = dict(answer.told)
    reason = answer.reason
    return {
        "name": one.source.name,
        "file": str(one.source.file) if one.source.file is not None else None,
        "label": answer.labels[0] if answer.labels else None,
        "labels": list(answer.labels),
        "probability": round(shares[answer.labels[0]] if answer.labels else answer.probability, 6),
        "probabilities": {label: round(share, 6) for label, share in answer.told},
        "calibrated": answer.calibrated,
        "passages": answer.num_passages,
        "why": reason
        and {
            "label": reason.label,
            "text": one_line(reason.text, _SNIPPET),
            "page": reason.page or None,
            "start": reason.start,
            "probability": round(reason.probability, 6),
        },
        "warnings": list(one.warnings),
    }


def _csv(done: Sequence[Sorted]) -> Iterator[str]:
    """A row for each text: what it is, how sure, every label's probability, what went wrong."""
    names = sorted({label for one in done if one.answer for label, _ in one.answer.told})
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["name", "label", "probability", *(f"p({name})" for name in names), "error"])
    for one in done:
        if one.answer is None:
            said = one.error.message if one.error is not None else ""
            rows.writerow([cell(one.source.name), "", "", *("" for _ in names), cell(said)])
            continue
        shares = dict(one.answer.told)
        best = shares[one.answer.labels[0]] if one.answer.labels else one.answer.probability
        cells = [f"{shares[name]:.6f}" for name in names]
        label = cell("|".join(one.answer.labels))
        rows.writerow([cell(one.source.name), label, f"{best:.6f}", *cells, ""])
    yield out.getvalue()


def _jsonl(done: Sequence[Sorted]) -> Iterator[str]:
    for one in done:
        told: dict[str, Any] = {"name": one.source.name}
        if one.answer is not None:
            told = plain(one)
        elif one.error is not None:
            told["error"] = one.error.message
        yield json.dumps(told, ensure_ascii=False) + "\n"


# -- figures ---------------------------------------------------------------------------------------


def report(about: About) -> Iterator[str]:
    """What is known of a classifier, in lines."""
    many = "any number" if about.kind == "many" else "one"
    yield f"{paint(about.title, 'bold')}: {pluralize(len(about.labels), 'label')}, {many} a text"
    yield (
        f"{pluralize(about.num_examples, 'example')}, vectors of {about.embedding}"
        f" ({about.fingerprint[:12]}), strength {about.strength:g}, made {about.made}"
        f" by anyrig {about.anyrig}"
    )
    if about.figures is None:
        yield "accuracy: not measured, since no label has two examples; give more of each"
    else:
        yield from _figures(about.figures, about)
    if not about.calibrated:
        yield "its probabilities are not calibrated: there are too few examples"


def _figures(told: Mapping[str, Any], about: About) -> Iterator[str]:
    times = f", {told['repeats']} times" if told["repeats"] > 1 else ""
    yield (
        f"cross-validated accuracy {told['accuracy']:.3f} (95 %: {told['low']:.3f} to"
        f" {told['high']:.3f}) on {pluralize(told['num_tested'], 'example')} in"
        f" {told['folds']} folds{times}; always saying the commonest: {told['commonest']:.3f}"
    )
    yield (
        f"macro F1 {told['macro_f1']:.3f}, calibration error {told['ece']:.3f},"
        f" Brier {told['brier']:.3f}"
    )
    rows = [["label", "examples", "precision", "recall"]]
    rows += [
        [
            line["label"],
            str(line["num_examples"]),
            _share(line["precision"]),
            _share(line["recall"]),
        ]
        for line in told["lines"]
    ]
    yield table(rows, right=(1, 2, 3))
    if told["unmeasured"]:
        yield f"nothing can be said of: {', '.join(told['unmeasured'])} (one example is too few)"
    yield from _confusion(told["confusion"], about.labels)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _confusion(counts: Sequence[Sequence[int]], labels: Sequence[str]) -> Iterator[str]:
    """What is taken for what: all of it for a few labels, the commonest mistakes for many."""
    if not counts:
        return
    if len(labels) <= _MOST_LABELS:
        rows = [["true \\ given", *(label[:12] for label in labels)]]
        rows += [[label[:12], *map(str, row)] for label, row in zip(labels, counts, strict=True)]
        yield table(rows, right=range(1, len(labels) + 1))
        return
    wrong = [
        (count, true, given)
        for true, row in enumerate(counts)
        for given, count in enumerate(row)
        if count and true != given
    ]
    for count, true, given in sorted(wrong, reverse=True)[:_MOST_LABELS]:
        yield f"  {count:>4} of {labels[true]} taken for {labels[given]}"
