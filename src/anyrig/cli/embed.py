"""`anyrig embed`: vectors of texts and files."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from anyrig.cli import compute, embedding, reading
from anyrig.cli.context import Context
from anyrig.cli.failed import Failed, end, plain
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.errors import InvalidInputError
from anyrig.text.labels import cell, one_line
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors

HELP = """Make vectors of texts: words given, lines of a file (--lines), or whole files and folders,
one vector each. Written as .npy, .npz, .jsonl or .csv by the name of the output; printed as JSON
lines without one. What was made before is taken from the store. --models lists the models that need
no hub; --model takes a folder as sentence-transformers or transformers save it, or its name on the
hub. --similar compares the texts with each other."""
MIXED = True
_FEW = 20
"""Texts up to here are judged by their common words: the model of languages takes half a second."""
_SCREEN = 40
_FORMATS = (".npy", ".npz", ".jsonl", ".csv")


class Item(NamedTuple):
    """A text to embed, and what it is called."""

    name: str
    text: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("words", nargs="*", metavar="TEXT", help="texts, or files and folders")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"one of {', '.join(_FORMATS)}")
    parser.add_argument("--lines", metavar="FILE", help="a text a line; - is the standard input")
    parser.add_argument("--query", action="store_true", help="as questions, where a model tells")
    parser.add_argument("--similar", action="store_true", help="print how near the texts are")
    parser.add_argument("--models", action="store_true", help="list the models that have names")
    embedding.arguments(parser)
    reading.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Embed, or list the models."""
    context = Context(options)
    if options.models:
        return _list(options.json)
    began = time.perf_counter()
    output = _output(options.output)
    items, failed = _items(context)
    _check(items, failed, similar=options.similar)
    size = sum(len(item.text) for item in items)
    with embedding.vectors(context, languages=_languages(items), num_characters=size) as vectors:
        made = _made(items, vectors, "query" if options.query else "passage")
        name = vectors.model.name
    if options.similar:
        _similar(items, made, as_json=options.json)
    elif output is None:
        _print(items, made, name)
    else:
        _write(output, items, made, name)
        told = {
            "file": str(output), "texts": len(items), "dimension": int(made.shape[1]),
            "model": name, "wall_s": round(time.perf_counter() - began, 3),
            "failed": plain(failed),
        }  # fmt: skip
        _tell(told, as_json=options.json)
    return end(failed, len(items) + len(failed), "text")


def _check(items: Sequence[Item], failed: Sequence[Failed], *, similar: bool) -> None:
    """That there is something to do."""
    if not items and failed:
        end(failed, len(failed))
    if not items:
        raise InvalidInputError(
            "there is nothing to embed", hint='anyrig embed "some words", or a file.'
        )
    if similar and len(items) < 2:
        raise InvalidInputError(
            "one text alone has nothing to be compared with", hint="--similar takes two or more."
        )


def _tell(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    print(
        f"{pluralize(told['texts'], 'vector')} of {told['dimension']} numbers by {told['model']} "
        f"in {told['file']}, after {format_duration(told['wall_s'])}"
    )


def _list(as_json: bool) -> int:
    from anyrig.documents.model import listed

    found = listed()
    if as_json:
        print_json([one.__dict__ for one in found])
        return 0
    for one in found:
        print(f"{one.name}: {one.summary}; {one.hint or 'ready'}")
    return 0


def _output(path: str | None) -> Path | None:
    if path is None:
        return None
    found = Path(path)
    if found.suffix.lower() not in _FORMATS:
        raise InvalidInputError(
            f"{found.name} is no format for vectors",
            hint=f"End it in one of {', '.join(_FORMATS)}.",
        )
    if not found.absolute().parent.is_dir():
        raise InvalidInputError(f"there is no folder {found.parent}", hint="Make it first.")
    return found


def _items(context: Context) -> tuple[list[Item], list[Failed]]:
    """The texts, and the files that could not be read."""
    options = context.options
    items: list[Item] = []
    failed: list[Failed] = []
    if options.lines:
        items += _lines(options.lines)
    items += [Item(_short(word), word) for word in options.words if not _is_path(word)]
    paths = [word for word in options.words if _is_path(word)]
    for found in _read(context, paths) if paths else ():
        if isinstance(found, Item):
            items.append(found)
        else:
            failed.append(found)
    return items, failed


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_path(word: str) -> bool:
    """Whether a word names a file: one that is there, or one that plainly was meant to be."""
    if not word:
        return False
    try:
        if Path(word).expanduser().exists():
            return True
    except (OSError, ValueError):  # too long for a name, or with a zero byte: a text
        return False
    if any(letter.isspace() for letter in word):
        return False
    from anyrig.text.files import format_of_name

    return word.startswith(("/", "./", "../", "~/")) or bool(format_of_name(word))


def _lines(name: str) -> list[Item]:
    if name == "-":
        lines: Sequence[str] = sys.stdin.read().splitlines()
    else:
        from anyrig.text.decode import decode

        if not Path(name).is_file():
            raise InvalidInputError(f"there is no file {name}", hint="- reads the standard input.")
        lines = decode(Path(name).read_bytes(), name).splitlines()
    return [Item(str(n), line) for n, line in enumerate(lines, 1) if line.strip()]


def _read(context: Context, words: Sequence[str]) -> Iterator[Item | Failed]:
    """The files' texts, and those that cannot be read."""
    from anyrig.documents.reading import textless
    from anyrig.text.pages import Paged

    files = reading.paths(context, words)
    with Progress(len(files), "reading") as progress:
        for file, found in zip(files, reading.read(context, files), strict=True):
            progress.step(file.name)
            if isinstance(found, Paged) and found.text.strip():
                yield Item(str(found.file), found.text)
                progress.clear()
                for warning in found.warnings:
                    print_warning(f"{one_line(found.file.name, 80)}: {one_line(warning, 300)}")
            elif isinstance(found, Paged):
                yield Failed(str(found.file), textless(found))
            else:
                yield Failed(str(found.file), InvalidInputError(found.message, hint=found.hint))
            progress.done()


def _languages(items: Sequence[Item]) -> dict[str, float]:
    """Shares of the texts' languages, by a look at some of them."""
    from anyrig.text.language import detect

    shares: dict[str, float] = {}
    for item in items[:: max(1, len(items) // 50)]:
        found = detect(item.text, thorough=len(items) > _FEW)
        if found.sure:
            shares[found.language] = shares.get(found.language, 0.0) + 1.0
    return shares


def _made(items: Sequence[Item], vectors: Vectors, use: str) -> NDArray[np.float32]:
    import numpy as np

    rows = []
    with Progress(len(items), "embedding") as progress:
        for item, vector in zip(
            items,
            vectors.embed((item.text for item in items), use=use),  # type: ignore[arg-type]
            strict=True,
        ):
            rows.append(vector)
            progress.done()
            progress.step(item.name)
    return np.stack(rows)


def _print(items: Sequence[Item], made: NDArray[np.float32], model: str) -> None:
    for item, vector in zip(items, made, strict=True):
        told = {"name": item.name, "model": model, "vector": _numbers(vector)}
        print(json.dumps(told, ensure_ascii=False))


def _numbers(vector: NDArray[np.float32]) -> list[float]:
    """With as many digits as a number of 32 bits has."""
    return [float(f"{value:.9g}") for value in vector.tolist()]


def _similar(items: Sequence[Item], made: NDArray[np.float32], *, as_json: bool) -> None:
    import numpy as np

    sizes = np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
    near = (made / sizes) @ (made / sizes).T
    if as_json:
        print_json({"names": [item.name for item in items], "similarity": near.round(4).tolist()})
        return
    pairs = _pairs(near)
    if not pairs:
        raise InvalidInputError("there is one text alone", hint="--similar compares two or more.")
    print(table([(f"{near[a, b]:.3f}", items[a].name, items[b].name) for a, b in pairs]))
    count = len(items) * (len(items) - 1) // 2
    if len(pairs) < count:
        print(f"The {len(pairs)} nearest of {count} pairs; --json has all.")


def _pairs(near: NDArray[np.float32]) -> list[tuple[int, int]]:
    """The nearest pairs first, a screen of them."""
    import numpy as np

    first, second = np.triu_indices(len(near), 1)
    order = np.argsort(-near[first, second], kind="stable")[:_SCREEN]
    return [(int(first[n]), int(second[n])) for n in order]


def _write(path: Path, items: Sequence[Item], made: NDArray[np.float32], model: str) -> None:
    from anyrig.storage.files import open_atomic

    with open_atomic(path) as file:
        if path.suffix.lower() in (".npy", ".npz"):
            _arrays(file, path.suffix.lower(), items, made, model)
        else:
            for line in _lines_of(path.suffix.lower(), items, made, model):
                file.write(line.encode("utf-8", "replace"))


def _arrays(
    file: BinaryIO, kind: str, items: Sequence[Item], made: NDArray[np.float32], model: str
) -> None:
    import numpy as np

    if kind == ".npy":
        np.save(file, made)
    else:
        np.savez(file, vectors=made, names=np.array([item.name for item in items]), model=model)


def _lines_of(
    kind: str, items: Sequence[Item], made: NDArray[np.float32], model: str
) -> Iterator[str]:
    if kind == ".jsonl":
        for item, vector in zip(items, made, strict=True):
            told = {"name": item.name, "model": model, "vector": _numbers(vector)}
            yield json.dumps(told, ensure_ascii=False) + "\n"
        return
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["name", *range(made.shape[1])])
    for item, vector in zip(items, made, strict=True):
        rows.writerow([cell(item.name), *_numbers(vector)])
    yield out.getvalue()
