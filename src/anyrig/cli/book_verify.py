"""`anyrig book --verify BOOK.m4b SOURCE`: whether a finished book says what its source says."""

from __future__ import annotations

from pathlib import Path

from anyrig.cli import book
from anyrig.cli.book_order import ordered
from anyrig.cli.context import Context
from anyrig.cli.show import Progress, print_json
from anyrig.errors import InvalidInputError
from anyrig.units import format_duration


def run(context: Context) -> int:
    """Listen and compare; 1 when something is wrong."""
    from anyrig.audiobooks.check import verify
    from anyrig.audiobooks.check_hear import Listeners
    from anyrig.audiobooks.check_sound import preset

    options = context.options
    if len(options.files) != 2:
        raise InvalidInputError(
            "--verify takes the finished book and its source",
            hint="`anyrig book --verify BOOK.m4b SOURCE`; a folder of chapters will do as well.",
        )
    finished = Path(options.files[0]).expanduser()
    if not finished.exists():
        raise InvalidInputError(
            f"no file {finished}", hint="The finished book comes first, then its source."
        )
    levels = preset(options.levels)
    order = ordered(context)
    document = book.opened(order)
    plan = book.planned(context, order, document, book.teller_of(context, document))
    ears = Listeners(
        context.machine,
        environment=context.environment,
        folder=str(Path(context.folders.models, "recognise")),
    )
    with Progress(1, "checking") as progress:

        def tell(what: str, done_s: float, total_s: float) -> None:
            progress.step(f"{what} {format_duration(done_s)} of {format_duration(total_s)}")

        report = verify(finished, plan, words=options.words, levels=levels, ears=ears, tell=tell)
    if options.json:
        print_json(report.plain())
    else:
        for line in report.lines():
            print(line)
    return 0 if report.good else 1
