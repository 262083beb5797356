"""What a studio stands on: an engine's workers, here or elsewhere, and the names of its takes.

stage = Stage(engine="hibari", found=found, placed=placed, environment=environment)
with Studio(stage) as studio: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anyrig.speech.engine import EngineWeights, OptionValue, Utterance, resolve_options
from anyrig.speech.engines import describe_engine, engine_class
from anyrig.speech.engines.packaged import hash_now
from anyrig.speech.shelf import KIND, Shelf
from anyrig.speech.voices import is_recording
from anyrig.storage import keys as keys
from anyrig.work.dispatch import SILENCE_LIMIT_S
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import Placement, PlacementPlan
    from anyrig.storage.cache import Cache
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers


@runtime_checkable
class Distrusting(Protocol):
    """A crew of workers elsewhere, that may find one whose takes are wrong."""

    on_distrust: Callable[[str], int]
    """Told the name of such a worker: drops what it made, and says how many takes that were."""


class Stage:
    """An engine on every device that was placed, or with whoever was hired elsewhere."""

    def __init__(
        self,
        *,
        engine: str,
        found: EngineWeights,
        placed: PlacementPlan,
        environment: Mapping[str, str],
        options: Mapping[str, OptionValue] | None = None,
        store: Cache | None = None,
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
        silence_limit_s: float = SILENCE_LIMIT_S,
        hire: Callable[[EngineFactory], WorkerPool] | None = None,
    ) -> None:
        """Start the workers; they load while this goes on.

        Args:
            engine: its name.
            found: its weights, from the engine's `find`.
            placed: where its workers sit.
            environment: this process's own.
            options: of the engine, as typed with `--set`.
            store: where takes are kept; none makes everything anew.
            limits: batch sizes that earlier runs found.
            stamp: driver and library versions, under which those hold.
            silence_limit_s: a worker without a heartbeat for so long is replaced.
            hire: makes other workers than processes on the placed devices, of the same recipe;
                the placements then only say in what precision takes are made.
        """
        kind = engine_class(engine)
        self.info, self.found = kind.info, found
        self.store = store
        self.shelf = Shelf(store, found.engine)
        self.names = Names(engine, found, placed, options)
        self.lines_at_once = sum(
            placement.workers * max(1, min(placement.threads, kind.cores or 1))
            for placement in placed.placements
        )
        """How many lines are made at the same moment on a CPU."""
        recipe = EngineFactory(
            "anyrig.speech.booth:Booth",
            {
                "engine": describe_engine(kind, engine),
                "folder": found.folder,
                "options": self.names.options,
            },
            name=f"speech {engine}",
            version=f"{found.version} {found.fingerprint[:12]}",
            interpreter=found.interpreter,
        )
        self.on_gpus = sum(one.workers for one in placed.placements if one.device.kind == "gpu")
        """Workers that have a GPU."""
        self.crew: WorkerPool = (
            hire(recipe)
            if hire is not None
            else WorkerPool(
                LocalWorkers(
                    placed.placements,
                    recipe,
                    environment=environment,
                    fallback=placed.fallback,
                    known_sizes=limits,
                    stamp=stamp,
                ),
                silence_limit_s=silence_limit_s,
            )
        )
        if isinstance(self.crew, Distrusting):
            self.crew.on_distrust = self.shelf.forget

    def key(self, line: Utterance) -> str:
        """What a line's take is kept under."""
        return self.names.key(line)


class Names:
    """What takes are kept under; no worker is needed to know that.

    Args:
        engine: its name.
        found: its weights.
        placed: where its workers sit, or would.
        options: of the engine, as typed with `--set`.
    """

    def __init__(
        self,
        engine: str,
        found: EngineWeights,
        placed: PlacementPlan,
        options: Mapping[str, OptionValue] | None = None,
    ) -> None:
        self.info, self.found = engine_class(engine).info, found
        self.options = resolve_options(self.info, options or {})
        self._precision = precision_class(placed.placements)

    def key(self, line: Utterance) -> str:
        """What a line's take is kept under: all that shapes it, and not the device."""
        found = self.found
        return keys.CacheKey(
            KIND, line.text, found.engine, found.version, found.fingerprint, line.voice,
            self._precision, line.seed if self.info.varies_with_seed else None,
            {"language": line.language, "rate": line.rate, **self.options, **self._made_of(line)},
        ).digest  # fmt: skip

    def _made_of(self, line: Utterance) -> dict[str, OptionValue]:
        """The recording behind a voice: another one under the same name is another voice."""
        if is_recording(line.voice) and Path(line.voice).is_file():
            return {"recording": hash_now(Path(line.voice))}
        for voice in self.found.voices:
            if voice.digest and line.voice in (voice.name, ""):
                return {"recording": voice.digest}
        return {}


def precision_class(placements: Sequence[Placement]) -> str:
    """The precision class that takes of some workers are kept under."""
    precision = placements[0].precision if placements else "fp32"
    return "half" if precision in ("fp16", "bf16") else precision.replace("tf32", "fp32")
