"""Pickled voices to safetensors, once, inside the engine's own environment, after a yes.

A pickle may run code when it is read. First it is read as plain tensors, which runs none; one that
holds more is read only after a second yes that says so. From then on the pickle is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anyrig.errors import InvalidInputError, UnsafePickleError
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Client
from anyrig.speech.hosting.recipes import Recipe
from anyrig.units import pluralize


def convert(
    recipe: Recipe,
    pickles: Sequence[Path],
    environment_folder: Path,
    *,
    yes: Callable[[str], bool],
    tell: Callable[[str], None],
    environment: Mapping[str, str],
) -> list[Path]:
    """The files that were made, beside the pickles.

    Args:
        recipe: of the engine.
        pickles: from the engine's `pickles`.
        environment_folder: `environments.place`.
        yes: asks a person.
        tell: is given lines of progress.
        environment: this process's variables.
    """
    if not pickles:
        tell(f"{recipe.name} has no pickled voices to convert")
        return []
    names = ", ".join(path.name for path in pickles[:6]) + (", ..." if len(pickles) > 6 else "")
    if not yes(
        f"Convert {pluralize(len(pickles), 'pickled voice file')} of {recipe.name} ({names})? They "
        "are read as plain tensors, which runs no code."
    ):
        raise InvalidInputError("nothing was converted", hint="Pickled voices are not used.")
    python, made = environments.python_of(environment_folder), list[Path]()
    trusted: bool | None = None
    with Client(python, recipe.adapter, environment) as client:
        for path in pickles:
            target = path.with_suffix("")
            try:
                made += client.convert(path, target)
            except UnsafePickleError as error:
                trusted = yes(_warning(error)) if trusted is None else trusted
                if not trusted:
                    tell(f"skipped {path.name}")
                    continue
                made += client.convert(path, target, unsafe=True)
            tell(f"converted {path.name}")
    return made


def _warning(error: UnsafePickleError) -> str:
    return (
        f"{error.message}\nReading it can run any code of whoever made it, with your rights. Read "
        "it, and the others like it, only if you trust where they come from. Read them?"
    )
