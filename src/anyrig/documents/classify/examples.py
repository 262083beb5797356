"""Examples to learn labels from: a folder of folders, or a manifest.

    folder/invoice/a.pdf, folder/letter/b.txt      a label is the name of a folder
    examples.csv, examples.jsonl                   see `anyrig.text.manifest`

A link that leads out of a folder of examples is reported and not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anyrig.errors import InvalidInputError
from anyrig.text.folder import LEADS_OUT, leads_out
from anyrig.text.manifest import Example, Manifest, Resolve, Trouble, read_manifest

_HINT = "A folder of folders, a CSV with the columns text,label or file,label, or JSON lines."


def list_examples(path: Path, *, resolve: Resolve | None = None) -> Manifest:
    """All examples of a folder or a manifest; InvalidInputError where there are none.

    `resolve` says where a file lies that a row of a manifest names.
    """
    path = Path(path)
    if not path.is_dir():
        return read_manifest(path, resolve=resolve)
    found = Manifest([], [])
    for one in _of_folder(path):
        if isinstance(one, Trouble):
            found.troubles.append(one)
        else:
            found.examples.append(one)
    if not found.examples:
        why = f": {found.troubles[0].place}: {found.troubles[0].said}" if found.troubles else ""
        raise InvalidInputError(f"there are no examples in {path}{why}", hint=_HINT)
    return found


def _of_folder(folder: Path) -> Iterator[Example | Trouble]:
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    for place in inside:
        if not place.is_dir():
            yield Trouble(place.name, "it is not in a label's folder")
            continue
        label = " ".join(place.name.split())
        empty = True
        for file in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
            if file.is_file() and not hidden:
                empty = False
                linked = place.is_symlink() or file.is_symlink()
                if linked and leads_out(file, folder):
                    yield Trouble(str(file.relative_to(folder)), LEADS_OUT)
                    continue
                yield Example((label,), str(file.relative_to(folder)), file=file)
        if empty:
            yield Trouble(place.name, "the folder is empty")
