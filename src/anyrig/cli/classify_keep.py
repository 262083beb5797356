"""Classifiers that are kept: trained, listed, shown, deleted, opened."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import classify_show, classify_tune, compute
from anyrig.cli.classify_read import Peeked
from anyrig.cli.context import Context
from anyrig.cli.pick import agreed, can_ask, pick
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.examples import Example, Found
    from anyrig.documents.classify.finetuned import FineTuned
    from anyrig.documents.classify.head import About, Head
    from anyrig.services.classify import Trained
    from anyrig.work.pool import WorkerPool

_MOST_NAMED = 10


def shelf_of(context: Context) -> Path:
    """Where classifiers are kept."""
    return context.folders.classifiers


def list_(context: Context) -> int:
    """What is kept."""
    from anyrig.documents.classify import shelf

    found = shelf.kept(shelf_of(context))
    if context.options.json:
        print_json({"folder": str(shelf_of(context)), "classifiers": [asdict(a) for a in found]})
        return 0
    if not found:
        print("Nothing is trained yet: `anyrig classify train EXAMPLES --name NAME` does that.")
        print("Without examples: `anyrig classify FILES --labels 'invoice,letter'`.")
        return 0
    rows = [["classifier", "labels", "examples", "accuracy", "embedding", "made"]]
    rows += [
        [a.title, str(len(a.labels)), str(a.num_examples), _accuracy(a), a.embedding, a.made[:10]]
        for a in found
    ]
    print(table(rows, right=(1, 2)))
    return 0


def _accuracy(about: About) -> str:
    if about.figures is None:
        return "not measured"
    told = about.figures
    return f"{told['accuracy']:.2f} ({told['low']:.2f} to {told['high']:.2f})"


def show(context: Context, title: str) -> int:
    """All that is known of one."""
    from anyrig.documents.classify import shelf

    folder = shelf_of(context)
    about = shelf.open_(folder, title).about
    numbers = shelf.versions(folder, about.name)
    if context.options.json:
        print_json({**asdict(about), "versions": numbers, "folder": str(shelf.find(folder, title))})
        return 0
    for line in classify_show.report(about):
        print(line)
    print(f"versions: {', '.join(f'{about.name}@{number}' for number in numbers)}")
    return 0


def delete(context: Context, title: str) -> int:
    """Delete a version, or all of a name."""
    from anyrig.documents.classify import shelf

    folder = shelf_of(context)
    shelf.find(folder, title)
    name, number = shelf.parted(title)
    count = 1 if number is not None else len(shelf.versions(folder, name))
    what = title if number is not None else f"all of {pluralize(count, 'version')} of {name}"
    asks = not context.options.yes and not context.options.json and can_ask()
    if asks and not agreed(f"Delete {what if count > 1 else title}?"):
        print("Nothing was deleted.")
        return 0
    gone = shelf.delete(folder, title)
    if context.options.json:
        print_json({"deleted": [about.title for about in gone]})
    else:
        print(f"Deleted {', '.join(about.title for about in gone)}.")
    return 0


def opened(context: Context) -> Head:
    """The classifier that --with names."""
    from anyrig.documents.classify import shelf

    return shelf.open_(shelf_of(context), context.options.by)


# -- training --------------------------------------------------------------------------------------


def train(context: Context, path: Path) -> int:
    """Learn from examples, say how well, and keep it."""
    from anyrig.documents.classify import shelf

    options = context.options
    if options.fine_tune is not None:
        found = _found(path)
        return classify_tune.fine_tune(context, found, _kind(context, found.examples))
    if not options.name:
        raise InvalidInputError(
            "what is it called?", hint="Say --name NAME; `--with NAME` sorts by it."
        )
    shelf.checked(options.name)
    trained = _learnt(context, _found(path))
    about, new = shelf.keep(shelf_of(context), options.name, trained.head)
    told = [{"place": one.place, "error": one.said} for one in trained.troubles]
    if options.json:
        print_json({**asdict(about), "new": new, "notes": trained.notes, "left_out": told})
    else:
        for line in classify_show.report(about):
            print(line)
        done = "kept" if new else "it is the same as before: nothing new is kept"
        print(f"{done}; sort by it with: anyrig classify FILES --with {about.name}")
    for note in trained.notes:
        print_warning(note)
    for one in trained.troubles[:_MOST_NAMED]:
        print_warning(f"{one.place}: {one.said}")
    if len(trained.troubles) > _MOST_NAMED:
        print_warning(f"and {len(trained.troubles) - _MOST_NAMED} more left out; --json has all")
    return 1 if trained.troubles else 0


def _found(path: Path) -> Found:
    from anyrig.documents.classify.examples import examples

    if not path.exists():
        raise InvalidInputError(
            f"there is no file {path}", hint="Name a folder of folders, a CSV or JSON lines."
        )
    return examples(path)


def _learnt(context: Context, found: Found) -> Trained:
    from anyrig.services import classify

    options = context.options
    shown: list[Progress] = []

    def tell(what: str, done: int, total: int) -> None:
        if done == 1 or not shown:
            _close(shown)
            shown.append(Progress(total, what))
        shown[-1].done()
        shown[-1].step("embedding" if what == "example" else "cross-validating")

    ordered, _ = classify.usable(found, kind := _kind(context, found.examples))
    sources = [classify.Source(one.place, one.file, one.text) for one in ordered]
    try:
        with ExitStack() as stack:
            peeked = Peeked(context, [one.file for one in ordered if one.file is not None])
            vectors = peeked.vectors(stack, sources)
            return classify.train(
                found, vectors, peeked, kind=kind, prior=options.prior,
                word=_word(options.model, vectors.model.name), tell=tell,
            )  # fmt: skip
    finally:
        _close(shown)


def _close(shown: list[Progress]) -> None:
    while shown:
        shown.pop().close()


def _kind(context: Context, found: list[Example]) -> Any:
    several = any(len(one.labels) > 1 for one in found)
    return "many" if context.options.multi or several else "one"


def _word(asked: str | None, name: str) -> str:
    """What the model is found by from any folder."""
    if asked and asked != "auto" and Path(asked).expanduser().exists():
        return str(Path(asked).expanduser().resolve())
    return asked if asked and asked != "auto" else name


# -- fine-tuned models -----------------------------------------------------------------------------


def fine_tuned(context: Context) -> FineTuned | None:
    """The model of transformers that --with names, by its folder or its name on the hub."""
    from anyrig.documents.classify import shelf
    from anyrig.documents.classify.finetuned import in_folder, is_one

    name: str = context.options.by
    folder = Path(name).expanduser()
    bare = folder.name == name
    if bare and shelf.versions(shelf_of(context), name.partition("@")[0]):
        return None  # the folder of its examples may have the same name
    if folder.is_dir() and (is_one(folder) or not bare):
        return in_folder(folder.resolve())
    if name.count("/") != 1 or name.startswith((".", "~", "/")):
        return None
    place = context.folders.models / "documents" / name.replace("/", "--")
    if not (place / "config.json").is_file():
        if not context.options.fetch:
            raise MissingWeightsError(
                f"{name} is not on this machine",
                hint=f"--fetch gets it from the hub, or put its files into {place}.",
            )
        from anyrig.cli.embedding import fetch

        fetch(name, place)
    return replace(in_folder(place), name=name)


def workers(context: Context, model: FineTuned) -> WorkerPool:
    """Processes that have the model loaded, on the devices chosen."""
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    placed = compute.placed(context, pick(context), model.need())
    placed = compute.guard_workers(context, placed)
    return WorkerPool(
        LocalWorkers(
            placed.placements,
            model.recipe(),
            environment=context.environment,
            fallback=placed.fallback,
            deterministic=context.options.deterministic,
        )
    )
