"""The model's flags and the vectors: what all commands on documents share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import compute
from anyrig.cli.context import Context
from anyrig.cli.pick import pick
from anyrig.cli.show import print_warning

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Cpu
    from anyrig.documents.cache.shelf import Marks
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Vectors
    from anyrig.placement import Workload

_WEIGHTS = ("*.safetensors", "*.json", "*.txt", "*.model", "LICENSE*")
"""What is fetched of a repository; an ONNX file only where it has no others."""
_FEW_CHARACTERS = 60_000
"""What is done in this process: another one takes as long to begin."""
TILES = "amx_bf16"
"""A CPU that multiplies half numbers in tiles does so several times as fast as whole ones."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that embeds."""
    group = parser.add_argument_group("the embedding model")
    group.add_argument(
        "--model", metavar="NAME",
        help="a name of `anyrig embed --models`, a folder, or owner/name on the hub",
    )  # fmt: skip
    group.add_argument(
        "--fetch", action="store_true", help="get a model of the hub that is not here yet"
    )
    group.add_argument(
        "--long", choices=("windows", "cut"), default="windows",
        help="texts longer than the model takes: windows, whose mean is taken, or cut",
    )  # fmt: skip
    group.add_argument(
        "--deterministic", action="store_true",
        help="the same bytes for a text in any company; slower",
    )  # fmt: skip
    group.add_argument("--no-cache", action="store_true", help="neither take nor keep vectors")


def model(context: Context, *, languages: Mapping[str, float] | None = None) -> Model:
    """The model that was asked for; a word about texts that it was not made for."""
    from anyrig.documents.model import find

    asked = getattr(context.options, "model", None) or context.loaded.settings.documents.model
    fetching = fetch if getattr(context.options, "fetch", False) else None
    found = find(asked, models=context.folders.models, languages=languages, fetch=fetching)
    advise(found, languages or {})
    return found


def advise(found: Model, languages: Mapping[str, float]) -> str:
    """Warn of texts that a model was not made for, before it is run; nothing where it was."""
    from anyrig.documents.model import advice

    told = advice(found, languages)
    if told:
        print_warning(told)
    return told


def fetch(repository: str, folder: Path) -> None:
    """Get a repository of the hub into a folder, and say how far that is."""
    from anyrig.storage.weights import download_weights

    last = ""

    def tell(name: str, done: int, total: int) -> None:
        nonlocal last
        if name != last:
            last = name
            print(f"fetching {name}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", file=sys.stderr)

    paths = download_weights(repository, folder, on_progress=tell, patterns=_WEIGHTS)
    if not any(path.suffix == ".safetensors" for path in paths):
        download_weights(
            repository,
            folder,
            on_progress=tell,
            patterns=(*_WEIGHTS, "model.onnx", "model.onnx_data"),
        )


@contextmanager
def embedder(
    context: Context,
    found: Model,
    *,
    num_characters: int | None = None,
    choice: DeviceChoice | None = None,
    shared: bool = False,
) -> Iterator[Embedder]:
    """A model on the devices chosen; few texts on the CPU alone are done in this process.

    Args:
        context: of the command.
        found: the model.
        num_characters: of all texts; None when there may be any number.
        choice: the devices; without it a person may be asked for them.
        shared: whether several threads use it at once.
    """
    from anyrig.bench.measurements import describe_versions
    from anyrig.documents.embed import Embedder
    from anyrig.memory.known_sizes import KnownBatchSizes

    few = num_characters is not None and num_characters <= _FEW_CHARACTERS
    options = context.options
    if few or not any(gpu.usable for gpu in context.machine.gpus):
        options.no_bench = True  # nothing to choose by figures, or nothing worth it
    need = needed(found, context.machine.cpu, num_characters=num_characters, shared=shared)
    placed = compute.placed(context, choice or pick(context), need)
    placed = compute.guard_workers(context, placed)
    stamps = {
        describe_versions(placement.device, context.machine) for placement in placed.placements
    }
    with Embedder(
        found,
        placed=placed,
        environment=context.environment,
        limits=KnownBatchSizes(context.folders.batch_limits),
        stamp=" | ".join(sorted(stamps)),
        here=few,
        shared=shared,
        long=getattr(options, "long", "windows"),
        deterministic=getattr(options, "deterministic", False),
    ) as made:
        yield made
        for warning in made.warnings:
            print_warning(warning)


def needed(found: Model, cpu: Cpu, *, num_characters: int | None, shared: bool) -> Workload:
    """What a model's workers ask for, by how much there is to do and for how long.

    A CPU with tiles is used as a GPU is, through torch and in half numbers, where it stays loaded:
    for a few texts, loading torch would take longer than all of them.
    """
    need = found.need()
    if shared and TILES in cpu.vectors:
        need = replace(need, libraries=need.gpu_libraries)
    if num_characters is not None:
        need = replace(need, most_workers=max(1, num_characters // _FEW_CHARACTERS))
    return need


@contextmanager
def vectors(
    context: Context,
    *,
    languages: Mapping[str, float] | None = None,
    num_characters: int | None = None,
    found: Model | None = None,
) -> Iterator[Vectors]:
    """Texts to vectors, those that are kept not made again.

    Args:
        context: of the command.
        languages: shares of the texts' languages, which decide for `auto`.
        num_characters: of all texts; None when there may be any number.
        found: the model, where it is known already.
    """
    found = found or model(context, languages=languages)
    with ExitStack() as stack:
        made = stack.enter_context(embedder(context, found, num_characters=num_characters))
        if getattr(context.options, "no_cache", False):
            yield made
            return
        yield kept(context, stack, made)


def kept(context: Context, stack: ExitStack, made: Embedder) -> Vectors:
    """The same with what is kept taken from the store."""
    from anyrig.cli.keep import keeping
    from anyrig.documents.cache.kept import Kept
    from anyrig.documents.cache.shelf import Shelf

    store = stack.enter_context(keeping(context))
    if store is None:
        return made
    return Kept(made, Shelf(store, marks(made), made.model.dimension), found=made.found)


def marks(made: Embedder) -> Marks:
    """Everything beside a text that shapes its vector."""
    from anyrig.documents.cache.shelf import Marks
    from anyrig.documents.model import VERSION

    model = made.model
    return Marks(
        weights=model.fingerprint,
        tokenizer="",  # in the fingerprint
        precision=made.precision,
        longest=model.longest,
        overlap=model.overlap,
        windows="pooled" if made.long == "windows" else "cut",
        pooling=model.pooling,
        normalise=model.normalise,
        deterministic=made.deterministic,
        prompts=model.prompts,
        engine=model.name,
        version=VERSION,
    )
