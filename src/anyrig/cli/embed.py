"""`anyrig embed`: vectors of texts and files."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from anyrig.app.embedding import EmbedRequest, embed
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import (
    EventPrinter,
    failed_to_json,
    format_table,
    print_json,
    report_failed,
)
from anyrig.cli.rig import open_rig
from anyrig.cli.text_input import looks_like_path, read_lines
from anyrig.errors import render
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.embedding import Embeddings

HELP = """Embed texts: those on the command line, the lines of a file (--lines), or whole files and
folders, with one vector for each. The output's name decides the format: .npy, .npz, .jsonl or .csv;
without one, vectors are printed as JSON lines. Vectors that were made before come from the cache.
--models lists the models that are installed by name; --model also takes a folder that
sentence-transformers or transformers saved, or its name on the hub. --similar compares the texts
with each other."""
RESUME = "Finished vectors are cached: the same command continues."
MIXED = True
_MAX_PAIRS = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TEXT", help="texts, or files and folders")
    parser.add_argument("--lines", metavar="FILE", help="embed each line of a file; - is stdin")
    parser.add_argument("--models", action="store_true", help="list the models by name")
    add_flags(parser, EmbedRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        if arguments.models:
            return _list_models(as_json=arguments.json)
        lines = read_lines(arguments.lines) if arguments.lines else {}
        texts = [word for word in arguments.words if not looks_like_path(word)]
        request = rig.request(
            EmbedRequest,
            texts=[*lines.values(), *texts],
            names=[*map(str, lines), *("" for _ in texts)],
            files=[word for word in arguments.words if looks_like_path(word)],
            **read_flags(arguments, EmbedRequest),
        )
        result = embed(rig, request, events)
    _print(result, request, as_json=arguments.json)
    return report_failed(result.failed, len(result.names) + len(result.failed), "text")


def _print(result: Embeddings, request: EmbedRequest, *, as_json: bool) -> None:
    if result.similarity is not None:
        _print_similar(result, as_json=as_json)
    elif request.output is None:
        for row in result.iter_rows():
            print(json.dumps(row, ensure_ascii=False))
    elif as_json:
        print_json({
            "file": str(request.output), "texts": len(result.names),
            "dimension": int(result.vectors.shape[1]), "model": result.model,
            "wall_s": round(result.wall_s, 3), "failed": failed_to_json(result.failed),
        })  # fmt: skip
    else:
        print(
            f"{pluralize(len(result.names), 'vector')} of {result.vectors.shape[1]} dimensions from"
            f" {result.model} in {request.output} ({format_duration(result.wall_s)})"
        )


def _print_similar(result: Embeddings, *, as_json: bool) -> None:
    assert result.similarity is not None
    if as_json:
        similarity = result.similarity.round(4).tolist()
        print_json({"names": list(result.names), "similarity": similarity})
        return
    pairs = result.list_nearest_pairs(_MAX_PAIRS)
    print(format_table([(f"{cosine:.3f}", a, b) for cosine, a, b in pairs]))
    count = len(result.names) * (len(result.names) - 1) // 2
    if len(pairs) < count:
        print(f"The {len(pairs)} nearest of {count} pairs; --json lists all.")


def _list_models(*, as_json: bool) -> int:
    from anyrig.documents.model import list_models

    models = list_models()
    if as_json:
        print_json([one.__dict__ for one in models])
        return 0
    for one in models:
        print(f"{one.name}: {one.summary}; {render(one.hint, 'command') or 'ready'}")
    return 0
