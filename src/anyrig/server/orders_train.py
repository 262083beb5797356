"""A training run that came from outside: every path in its files must be allowed.

`upload:ID` stands for a file that was sent. Nothing else in the TOML file may look like a path,
unless it lies in a folder that the settings allow; nor may a file that its examples name. Where
those lie is written beside the TOML file, and the run opens no others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from anyrig.app.access import looks_like_path
from anyrig.app.training_config import TrainingConfig, read_config
from anyrig.errors import InvalidInputError
from anyrig.storage.keys import JsonValue
from anyrig.text import toml

FILES = "files.json"
"""Beside the TOML file: where the files lie that its examples name."""
_MOST_BYTES = 1 << 20
_UPLOAD = re.compile(r"""(["'])(upload:[0-9a-f]+)\1""")
Open = Callable[[str], Path]
"""The path that a request names, if it may be opened; `InvalidInputError` else."""


def copied(
    source: Path, target: Path, open_path: Open, options: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Write the file anew, its uploads as paths; `InvalidInputError` where it names others.

    Args:
        source: as it was sent.
        target: where it goes.
        open_path: the path that a word names, if it may be opened.
        options: values that come over the file's, by `[table.]name`.

    Returns:
        The options with which the run is started.
    """
    data = source.read_bytes()
    if len(data) > _MOST_BYTES:
        raise InvalidInputError("the file is too long for settings", hint="Send a TOML file.")
    paths: set[str] = set()

    def put(match: re.Match[str]) -> str:
        path = str(open_path(match[2]))
        paths.add(path)
        return json.dumps(path)

    try:
        text = _UPLOAD.sub(put, data.decode("utf-8-sig"))
        toml.read(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "the file is no TOML of a training run", hint="docs/training.md shows the layout."
        ) from error
    target.write_text(text, encoding="utf-8")
    checked = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("upload:"):
            checked[name] = str(open_path(value))
            paths.add(str(checked[name]))
    config = _effective(target, checked)
    for value in (*_texts(config.task), *_texts(config.train), *_texts(checked)):
        if value not in paths and looks_like_path(value):
            open_path(value)
    return {**checked, **_examples(config, open_path)}


def _effective(path: Path, options: Mapping[str, JsonValue]) -> TrainingConfig:
    """The run's tables, with the options in place of the file's values."""
    try:
        return read_config(path).with_values(options)
    except InvalidInputError as error:  # it names the file as it is kept
        raise InvalidInputError(
            error.message.replace(str(path), "the file"), hint=error.hint.replace(str(path), "it")
        ) from error


def _examples(config: TrainingConfig, open_path: Open) -> dict[str, JsonValue]:
    """Look at the files that examples name; an option that says where they lie."""
    if config.task.get("kind") != "classifier":
        return {}
    if "files" in config.task:
        raise InvalidInputError("'files' of [task] is not taken here", hint="Leave it out.")
    named = config.task.get("examples")
    files = _named_files(config.base / named, open_path) if isinstance(named, str) else {}
    (config.path.parent / FILES).write_text(json.dumps(files), encoding="utf-8")
    return {"task.files": FILES}


def _named_files(path: Path, open_path: Open) -> dict[str, str]:
    """Where the files lie that a file of examples names.

    `InvalidInputError` for one that may not be read.

    Whatever else is wrong with the examples is said by the run.
    """
    from anyrig.documents.classify.examples import examples

    if not path.is_file():
        return {}  # of a folder, a walk does not leave it
    files: dict[str, str] = {}
    refused: set[str] = set()

    def resolve(name: str) -> Path:
        try:
            found = open_path(name)
        except InvalidInputError as error:
            refused.add(error.message)
            raise
        files[name] = str(found)
        return found

    try:
        found = examples(path, resolve=resolve)
    except InvalidInputError:
        if refused:
            raise _not_allowed("the examples") from None
        return {}
    # The texts of a table without a header are tried as names: only rows that are files count.
    wrong = next((one for one in found.troubles if one.said in refused), None)
    if wrong is not None:
        raise _not_allowed(wrong.place.partition(", ")[2] or "the examples")
    used = {str(one.file) for one in found.examples if one.file is not None}
    return {name: path for name, path in files.items() if path in used}


def _not_allowed(place: str) -> InvalidInputError:
    """The answer to examples with a path that may not be opened, whether it is there or not."""
    return InvalidInputError(
        f"{place}: that file may not be named by a request",
        hint='Send each file and name it as "upload:ID".',
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
