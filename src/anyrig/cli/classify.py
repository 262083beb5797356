"""`anyrig classify`: which label a text has, by names, by examples, or by a fine-tuned model."""

from __future__ import annotations

import argparse
import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app import classify as app
from anyrig.app.classify import ClassifyRequest, ClassifyResult, TrainClassifierRequest
from anyrig.app.training import FineTuneRequest, fine_tune
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import (
    EventPrinter,
    failed_to_json,
    format_table,
    paint,
    print_json,
    print_warning,
    print_warnings,
    report_failed,
)
from anyrig.cli.rig import open_rig
from anyrig.cli.text_input import read_input, read_lines
from anyrig.documents.classify.labels import split_labels
from anyrig.errors import InvalidInputError, InvalidOptionError, Message
from anyrig.options import list_options
from anyrig.results import to_json
from anyrig.text.labels import one_line
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.classify.classifier import ClassifierRecord
    from anyrig.documents.classify.decide import LabelAnswer
    from anyrig.documents.classify.pipeline import ClassifiedText
    from anyrig.text.manifest import Trouble
    from anyrig.training.fine_tune import FineTuneResult

HELP = """Classify documents by labels. `--labels invoice,letter` needs no examples: the names
decide (add a description as 'invoice: a bill to pay', or use --labels @FILE with one label per
line). `train EXAMPLES --name bills` trains on a folder of folders, a CSV (text,label or file,label;
a|b is two labels) or JSON lines, and prints the result of cross-validation; `--with bills` then
uses it, `--with bills@2` an older version. `train EXAMPLES --fine-tune FOLDER` trains all weights
of a model instead, for dozens of examples per label or more. `--with FOLDER` uses such a model, or
one of transformers, or its name on the hub. A text that no label fits is
`none of these`, with the nearest label; --no-other always gives one. Without
arguments the command lists what was trained; `show NAME` and `delete NAME` manage it. A long text
counts as the mean of its passages. By names alone, probabilities are a guide; those of a trained
classifier are calibrated. A text in a language that the model was not trained on is marked."""
MIXED = True
_ACTIONS = ("train", "list", "show", "delete")
_NO_LABEL = "(none of these)"
_MAX_CONFUSION_LABELS = 12
"""Labels up to which all confusions are printed; beyond, the most frequent."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="FILE",
        help="files, folders, - for stdin; or train, list, show, delete",
    )  # fmt: skip
    parser.add_argument(
        "--labels",
        dest="label_list",
        metavar="LIST",
        help="labels to choose from: 'invoice,letter'",
    )
    parser.add_argument(
        "--with", "--classifier", dest="classifier", metavar="NAME",
        help="a trained classifier, a folder, or owner/name on the hub",
    )  # fmt: skip
    parser.add_argument(
        "--text", metavar="TEXT", action="append", default=[], help="also classify this text"
    )
    parser.add_argument("--lines", metavar="FILE", help="classify each line of a file; - is stdin")
    parser.add_argument(
        "--template", dest="templates", metavar="TEXT", action="append", default=[],
        help="with --labels: a sentence with {} for the label, instead of the defaults",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list trained classifiers")
    parser.add_argument("--yes", action="store_true", help="do not ask before deleting")
    parser.add_argument("--train", metavar="EXAMPLES", help="the same as `classify train EXAMPLES`")
    known: set[str] = set()
    for request in (ClassifyRequest, TrainClassifierRequest, FineTuneRequest):
        add_flags(parser, request, exclude=known)
        known |= set(list_options(request))


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        words = _list_words(arguments)
        action, *rest = words or [""]
        has_labels = arguments.label_list is not None or arguments.classifier is not None
        has_texts = words or arguments.text or arguments.lines
        if not has_labels and (arguments.list or action == "list" or not has_texts):
            return _list(rig, is_json=arguments.json)
        if has_labels or action not in _ACTIONS:
            if not has_labels:
                _check_typo(action)
            return _classify(rig, arguments, events)
        if len(rest) != 1:
            usage = "EXAMPLES --name NAME" if action == "train" else "NAME"
            raise InvalidInputError(
                f"`classify {action}` needs one more argument",
                hint=f"anyrig classify {action} {usage}",
            )
        if action == "train":
            return _train(rig, arguments, Path(rest[0]).expanduser(), events)
        return (_show if action == "show" else _delete)(rig, rest[0], arguments)


def _list_words(arguments: argparse.Namespace) -> list[str]:
    """The words of the command line; --train put into words."""
    words: list[str] = list(arguments.words)
    if arguments.train is not None:
        if words or arguments.label_list is not None or arguments.classifier is not None:
            raise InvalidOptionError(
                "train", "trains a classifier and does not classify",
                hint="Classify with a second command, --with NAME.",
            )  # fmt: skip
        return ["train", arguments.train]
    if hasattr(arguments, "fine_tune") and words[:1] != ["train"]:
        raise InvalidOptionError(
            "fine_tune", "is a way to train",
            hint="anyrig classify --train EXAMPLES --fine-tune FOLDER",
        )  # fmt: skip
    return words


def _check_typo(word: str) -> None:
    near = difflib.get_close_matches(word, _ACTIONS, n=1)
    if near and not Path(word).expanduser().exists():
        raise InvalidInputError(
            f"unknown action: `anyrig classify {word}`",
            hint=f"Did you mean `anyrig classify {near[0]}`?",
        )


# -- classifying -----------------------------------------------------------------------------------


def _classify(rig: Rig, arguments: argparse.Namespace, events: EventPrinter) -> int:
    texts = {f"text {number}": text for number, text in enumerate(arguments.text, 1)}
    if "-" in arguments.words:
        texts["standard input"] = read_input("-")
    if arguments.lines:
        lines = read_lines(arguments.lines)
        texts |= {f"line {number}": line for number, line in lines.items()}
    given = read_flags(arguments, ClassifyRequest)
    labels = split_labels(arguments.label_list) if arguments.label_list is not None else None
    request = rig.request(ClassifyRequest, **{
        **given, "labels": labels, "files": [word for word in arguments.words if word != "-"],
        "texts": list(texts.values()), "names": list(texts), "template": arguments.templates,
    })  # fmt: skip
    is_printed = request.output is None and not arguments.json

    def print_text(one: ClassifiedText) -> None:
        if is_printed and one.answer is not None:
            events.pause()
            print(f"{_format_answer(one.answer)}  {one.source.name}", flush=True)

    result = app.classify(rig, request, events, print_text)
    events.pause()
    num_read = len(result.texts) - len(result.failed)
    if arguments.json:
        print_json({
            "by": result.by, "output": str(request.output) if request.output else None,
            "results": result.list_rows(), "failed": failed_to_json(result.failed),
        })  # fmt: skip
    elif request.output is not None and num_read:
        print(f"{pluralize(num_read, 'text')} classified by {result.by}, in {request.output}")
        for line in _format_counts(result):
            print(line)
    return report_failed(result.failed, len(result.texts), "text")


def _format_answer(answer: LabelAnswer) -> str:
    """`0.93 invoice`, or several labels, or that none fits; single labels are padded alike.

    Without a number where the model does not know the text's language.
    """
    shares = dict(answer.probabilities)
    parts = [f"{_format_share(answer, label)} {paint(label, 'bold')}" for label in answer.labels]
    width = max(map(len, shares), default=0)
    if len(parts) > 1:
        text = ", ".join(parts)
    elif parts:
        text = parts[0] + " " * (width - len(answer.labels[0]))
    else:
        nearest = answer.probabilities[0][0]
        text = f"   - {_NO_LABEL}, nearest: {nearest} {_format_share(answer, nearest).strip()}"
    language = answer.unknown_language
    return f"{text}  [{language}: not a language of the model]" if language else text


def _format_share(answer: LabelAnswer, label: str) -> str:
    """A probability, which is never certainty."""
    if answer.unknown_language:
        return "   ?"
    share = dict(answer.probabilities)[label]
    return ">.99" if share > 0.99 else f"{share:.2f}"


def _format_counts(result: ClassifyResult) -> Iterator[str]:
    answers = [one.answer for one in result.texts if one.answer is not None]
    counts = Counter(label for one in answers for label in one.labels or (_NO_LABEL,))
    for label, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"  {count:>6}  {label}"


# -- trained classifiers ---------------------------------------------------------------------------


def _list(rig: Rig, *, is_json: bool) -> int:
    found = app.list_classifiers(rig)
    if is_json:
        folder = str(rig.folders.classifiers)
        print_json({"folder": folder, "classifiers": [asdict(about) for about in found]})
        return 0
    if not found:
        print("Nothing is trained yet: `anyrig classify train EXAMPLES --name NAME` does that.")
        print("Without examples: `anyrig classify FILES --labels 'invoice,letter'`.")
        return 0
    rows = [["classifier", "labels", "examples", "accuracy", "embedding", "made"]]
    for one in found:
        accuracy = "not measured"
        if one.figures is not None:
            low, high = one.figures["low"], one.figures["high"]
            accuracy = f"{one.figures['accuracy']:.2f} ({low:.2f} to {high:.2f})"
        rows.append(
            [one.title, str(len(one.labels)), str(one.num_examples), accuracy, one.embedding,
             one.made[:10]]
        )  # fmt: skip
    print(format_table(rows, right=(1, 2)))
    return 0


def _show(rig: Rig, title: str, arguments: argparse.Namespace) -> int:
    about, versions, folder = app.show_classifier(rig, title)
    if arguments.json:
        print_json({**asdict(about), "versions": versions, "folder": str(folder)})
        return 0
    for line in _format_about(about):
        print(line)
    print(f"versions: {', '.join(f'{about.name}@{number}' for number in versions)}")
    return 0


def _delete(rig: Rig, title: str, arguments: argparse.Namespace) -> int:
    from anyrig.cli.prompts import can_ask, confirm

    count = len(app.list_deleted(rig, title))
    what = f"all {count} versions of {title}" if count > 1 else title
    if not arguments.yes and not arguments.json and can_ask() and not confirm(f"Delete {what}?"):
        print("Nothing was deleted.")
        return 0
    deleted = [about.title for about in app.delete_classifier(rig, title)]
    if arguments.json:
        print_json({"deleted": deleted})
    else:
        print(f"Deleted {', '.join(deleted)}.")
    return 0


def _train(rig: Rig, arguments: argparse.Namespace, examples: Path, events: EventPrinter) -> int:
    if hasattr(arguments, "fine_tune"):
        given = read_flags(arguments, FineTuneRequest)
        tuned = fine_tune(rig, rig.request(FineTuneRequest, examples=examples, **given), events)
        events.pause()
        return _print_tuned(tuned, is_json=arguments.json)
    given = read_flags(arguments, TrainClassifierRequest)
    request = rig.request(TrainClassifierRequest, examples=examples, **given)
    result = app.train_classifier(rig, request, events)
    events.pause()
    if arguments.json:
        left_out = _left_out_to_json(result.notes, result.left_out)
        print_json({**asdict(result.about), "new": result.is_new, **left_out})
    else:
        for line in _format_about(result.about):
            print(line)
        done = "saved" if result.is_new else "it is the same as before: nothing new is saved"
        print(f"{done}; use it with: anyrig classify FILES --with {result.about.name}")
    return _report_left_out(result.notes, result.left_out)


def _report_left_out(notes: Sequence[str], left_out: Sequence[Trouble]) -> int:
    for note in notes:
        print_warning(note)
    print_warnings(
        [Message("{place}: {reason}", place=one.place, reason=one.reason) for one in left_out]
    )
    return 1 if left_out else 0


def _left_out_to_json(notes: Sequence[str], left_out: Sequence[Trouble]) -> dict[str, Any]:
    return {
        "notes": list(notes),
        "left_out": [{"place": one.place, "error": one.reason} for one in left_out],
    }


def _format_about(about: ClassifierRecord) -> Iterator[str]:
    count = "any number" if about.kind == "many" else "one"
    yield f"{paint(about.title, 'bold')}: {pluralize(len(about.labels), 'label')}, {count} per text"
    yield (
        f"{pluralize(about.num_examples, 'example')}, vectors of {about.embedding}"
        f" ({about.fingerprint[:12]}), strength {about.strength:g}, made {about.made}"
        f" by anyrig {about.anyrig}"
    )
    if about.figures is None:
        yield "accuracy: not measured, since no label has two examples; give more of each"
    else:
        yield from _format_figures(about.figures, about)
    if not about.calibrated:
        yield "its probabilities are not calibrated: there are too few examples"


def _format_figures(figures: Mapping[str, Any], about: ClassifierRecord) -> Iterator[str]:
    how = "each left out once"
    if figures.get("folds", figures["num_tested"]) != figures["num_tested"]:  # by 0.1.0
        how = f"in {figures['folds']} folds, {pluralize(figures['repeats'], 'time')}"
    yield (
        f"cross-validated accuracy {figures['accuracy']:.3f} (95 %: {figures['low']:.3f} to"
        f" {figures['high']:.3f}) on {pluralize(figures['num_tested'], 'example')}, {how};"
        f" majority class: {figures['commonest']:.3f}"
    )
    yield (
        f"macro F1 {figures['macro_f1']:.3f}, calibration error {figures['ece']:.3f},"
        f" Brier {figures['brier']:.3f}"
    )
    rows = [["label", "examples", "precision", "recall"]]
    for line in figures["lines"]:
        shares = ["-" if line[name] is None else f"{line[name]:.2f}"
                  for name in ("precision", "recall")]  # fmt: skip
        rows.append([line["label"], str(line["num_examples"]), *shares])
    yield format_table(rows, right=(1, 2, 3))
    if figures["unmeasured"]:
        yield f"not measured, with one example only: {', '.join(figures['unmeasured'])}"
    yield from _format_confusion(figures["confusion"], about.labels)


def _format_confusion(counts: Sequence[Sequence[int]], labels: Sequence[str]) -> Iterator[str]:
    """The confusion matrix for a few labels, the most frequent confusions for many."""
    if not counts:
        return
    if len(labels) <= _MAX_CONFUSION_LABELS:
        rows = [["true \\ predicted", *(label[:12] for label in labels)]]
        rows += [[label[:12], *map(str, row)] for label, row in zip(labels, counts, strict=True)]
        yield format_table(rows, right=range(1, len(labels) + 1))
        return
    wrong = [
        (count, true, predicted)
        for true, row in enumerate(counts)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    for count, true, predicted in sorted(wrong, reverse=True)[:_MAX_CONFUSION_LABELS]:
        yield f"  {count:>4} of {labels[true]} predicted as {labels[predicted]}"


# -- fine-tuning -----------------------------------------------------------------------------------


def _print_tuned(tuned: FineTuneResult, *, is_json: bool) -> int:
    if is_json:
        row = to_json(tuned)
        del row["troubles"]
        left_out = _left_out_to_json(tuned.notes, tuned.troubles)
        print_json({**row, "seconds": round(tuned.seconds, 3), **left_out})
    else:
        for line in _format_tuned(tuned):
            print(line)
    return _report_left_out(tuned.notes, tuned.troubles)


def _format_tuned(tuned: FineTuneResult) -> Iterator[str]:
    from anyrig.documents.classify.figures import wilson

    count = "any number" if tuned.kind == "many" else "one"
    labels = pluralize(len(tuned.labels), "label")
    yield f"{paint(tuned.folder.name, 'bold')}: {labels}, {count} per text, from {tuned.base}"
    yield (
        f"trained on {pluralize(tuned.num_learnt, 'example')} in"
        f" {pluralize(tuned.steps, 'step')}, {format_duration(tuned.seconds)}"
    )
    if tuned.num_held:
        accuracy = tuned.after["accuracy"]
        low, high = wilson(accuracy * tuned.num_held, tuned.num_held)
        yield (
            f"accuracy {accuracy:.3f} (95 %: {low:.3f} to {high:.3f}) on"
            f" {pluralize(tuned.num_held, 'held-out example')}, macro F1"
            f" {tuned.after['macro_f1']:.3f}; before: {tuned.before['accuracy']:.3f}; majority"
            f" class: {tuned.commonest:.3f}"
        )
    else:
        yield "accuracy: not measured, since no examples were held out"
    yield f"use it with: anyrig classify FILES --with {one_line(str(tuned.folder), 200)}"
