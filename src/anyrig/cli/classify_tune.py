"""`anyrig classify train --fine-tune`: all weights of a model learn from examples."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, embedding
from anyrig.cli.classify_read import Peeked, languages
from anyrig.cli.context import Context
from anyrig.cli.pick import pick
from anyrig.cli.show import Progress, paint, print_json, print_warning
from anyrig.errors import InvalidInputError
from anyrig.text.labels import one_line
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.examples import Found
    from anyrig.documents.classify.solve import Kind
    from anyrig.documents.model import Model
    from anyrig.placement import Placement
    from anyrig.services.tune import Tuned
    from anyrig.services.tune_tasks import Tell
    from anyrig.training.settings import Settings

_MOST_NAMED = 10
_FOREIGN = 0.15
_WHAT = {"example": "reading", "step": "learning", "measuring": "measuring"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of fine-tuning."""
    group = parser.add_argument_group(
        "fine-tuning",
        "For some dozens of examples of each label and more, where how a thing is said matters as "
        "much as what it is about; it needs the torch extra and minutes, a GPU helps. With fewer "
        "examples leave --fine-tune out: a head on a model's vectors is trained in seconds.",
    )
    group.add_argument(
        "--fine-tune", metavar="FOLDER",
        help="train all weights of --model, and put the new model there",
    )  # fmt: skip
    group.add_argument("--epochs", metavar="N", type=_count, help="rounds over the examples (4)")
    group.add_argument("--batch", metavar="N", type=_count, help="examples in a step (16)")
    group.add_argument(
        "--learning-rate", metavar="X", type=_rate, help="how fast weights move (0.0002)"
    )
    group.add_argument("--seed", metavar="N", type=int, help="of the split, new layers and order")
    group.add_argument(
        "--held", metavar="X", type=_share, help="share of the examples that only measures (0.2)"
    )
    group.add_argument(
        "--balanced", action="store_true", help="rare labels count as much as common ones"
    )


def _number(text: str, kind: type[Any], fits: Any, flag: str, hint: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise InvalidInputError(f"{flag} {text}", hint=hint)
    return value


def _count(text: str) -> int:
    return int(_number(text, int, lambda n: n >= 1, "the number", "Give a whole number above 0."))


def _rate(text: str) -> float:
    hint = "Give a small number above 0, such as 0.0002."
    return float(_number(text, float, lambda x: 0 < x < 1, "--learning-rate", hint))


def _share(text: str) -> float:
    hint = "Give a share such as 0.2; 0 holds nothing out."
    return float(_number(text, float, lambda x: 0 <= x < 1, "--held", hint))


def fine_tune(context: Context, found: Found, kind: Kind) -> int:
    """Learn from examples, say how well, and leave a folder."""
    from anyrig.services import tune
    from anyrig.services.tune_tasks import HELD
    from anyrig.training.tasks.texts import library

    options = context.options
    folder = Path(options.fine_tune).expanduser().resolve()
    tune.free(folder)
    library()  # rather say that a package is missing before files are read
    peeked = Peeked(context, [one.file for one in found.examples if one.file is not None])
    model = _base(context, peeked, [one.text for one in found.examples])
    placement = _placement(context)
    with _told() as tell:
        tuned = tune.tune_classifier(
            found, model, folder, peeked, kind=kind,
            held=HELD if options.held is None else options.held,
            class_weights="balanced" if options.balanced else "none",
            settings=_settings(options, placement), placement=placement, tell=tell,
        )  # fmt: skip
    return _show(context, tuned)


def _settings(options: argparse.Namespace, placement: Placement) -> Settings:
    from anyrig.services.tune import classifier_settings

    asked: dict[str, Any] = {
        "epochs": options.epochs,
        "batch": options.batch,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
        "precision": options.precision,
        "memory_gb": options.memory_gb,
        "memory_fraction": options.memory_fraction,
    }
    made = classifier_settings(**{name: one for name, one in asked.items() if one is not None})
    if placement.device.kind == "cpu":  # whose memory holds any such batch: nothing to fit
        made = replace(made, micro_batch=made.batch)
    return made


def _placement(context: Context) -> Placement:
    from anyrig.training.placing import need

    if not any(gpu.usable for gpu in context.machine.gpus):
        context.options.no_bench = True  # nothing to choose by figures
    placed = compute.placed(context, pick(context), need(context.options.precision or "auto"))
    placement = placed.placements[0]
    compute.guard(context, placement)
    return placement


def _base(context: Context, peeked: Peeked, texts: list[str]) -> Model:
    """The model to begin with; a word where it was made for other languages."""
    from anyrig.services.tune_tasks import trainable

    options = context.options
    asked = options.model or context.loaded.settings.documents.model
    options.model = "minilm" if asked in ("auto", "") else asked
    model = trainable(embedding.model(context))
    shares = languages([*peeked.texts(), *filter(None, texts)])
    foreign = {code: share for code, share in shares.items() if code not in model.languages}
    if model.languages and sum(foreign.values()) >= _FOREIGN * sum(shares.values()) > 0:
        print_warning(
            f"texts in {', '.join(sorted(foreign)[:5])}, and {model.name} was made for "
            f"{', '.join(model.languages)} alone: --model takes the folder of another encoder"
        )
    return model


@contextmanager
def _told() -> Iterator[Tell]:
    """Progress of whatever is told of, one line for each kind of work."""
    shown: list[Progress] = []
    last = ""

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        if what != last:
            while shown:
                shown.pop().close()
            shown.append(Progress(total, what))
            last = what
        shown[-1].reach(done)
        shown[-1].step(_WHAT.get(what, what))

    try:
        yield tell
    finally:
        while shown:
            shown.pop().close()


# -- what came of it -------------------------------------------------------------------------------


def _show(context: Context, tuned: Tuned) -> int:
    left_out = [{"place": one.place, "error": one.said} for one in tuned.troubles]
    if context.options.json:
        print_json(
            {
                "folder": str(tuned.folder), "base": tuned.base, "labels": list(tuned.labels),
                "kind": tuned.kind, "num_learnt": tuned.num_learnt, "num_held": tuned.num_held,
                "before": _finite(tuned.before), "after": _finite(tuned.after),
                "commonest": tuned.commonest,
                "steps": tuned.steps, "seconds": round(tuned.seconds, 3), "notes": tuned.notes,
                "left_out": left_out,
            }
        )  # fmt: skip
    else:
        for line in _lines(tuned):
            print(line)
    for note in tuned.notes:
        print_warning(note)
    for one in tuned.troubles[:_MOST_NAMED]:
        print_warning(f"{one.place}: {one.said}")
    if len(tuned.troubles) > _MOST_NAMED:
        print_warning(f"and {len(tuned.troubles) - _MOST_NAMED} more left out; --json has all")
    return 1 if tuned.troubles else 0


def _finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    """As JSON can have them."""
    return {name: one if math.isfinite(one) else None for name, one in figures.items()}


def _lines(tuned: Tuned) -> Iterator[str]:
    many = "any number" if tuned.kind == "many" else "one"
    labels = pluralize(len(tuned.labels), "label")
    yield f"{paint(tuned.folder.name, 'bold')}: {labels}, {many} a text, from {tuned.base}"
    yield (
        f"learnt from {pluralize(tuned.num_learnt, 'example')} in "
        f"{pluralize(tuned.steps, 'step')}, {format_duration(tuned.seconds)}"
    )
    if tuned.num_held:
        yield _measured(tuned.before, tuned.after, tuned)
    else:
        yield "accuracy: not measured, since nothing was held out"
    shown = one_line(str(tuned.folder), 200)
    yield f"sort by it with: anyrig classify FILES --with {shown}"


def _measured(before: Mapping[str, float], after: Mapping[str, float], tuned: Tuned) -> str:
    from anyrig.documents.classify.figures import wilson

    low, high = wilson(after["accuracy"] * tuned.num_held, tuned.num_held)
    return (
        f"accuracy {after['accuracy']:.3f} (95 %: {low:.3f} to {high:.3f}) on "
        f"{pluralize(tuned.num_held, 'example')} that were held out, macro F1 "
        f"{after['macro_f1']:.3f}; before: {before['accuracy']:.3f}; always saying the "
        f"commonest: {tuned.commonest:.3f}"
    )
