"""A recording of any length into text with times: cut, heard on every device, put together.

    with Transcriber(seats, environment=environment, folder=folder, store=store) as transcriber:
        with opened(path) as sound:
            transcription = transcriber.transcribe(sound)

What was heard once is kept in the store piece by piece, so a run that was stopped goes on where it
was. A piece that cannot be heard is named, and the rest go on.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.audio import SPEECH_RATE
from anyrig.storage.keys import CacheKey
from anyrig.transcription import tongue
from anyrig.transcription.cut import Piece, Quiet, cut
from anyrig.transcription.gather import Gathered, Progress, Span, Transcription
from anyrig.transcription.model import MOONSHINE, WHISPER_BASE, Model, find
from anyrig.transcription.plain import kept_form, opened_form
from anyrig.transcription.protocol import Recording, Task, Transcript
from anyrig.transcription.tongue import Tongue
from anyrig.transcription.whisper import drives_cuda
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.audio.decode import AudioFile
    from anyrig.placement import PlacementPlan, Workload
    from anyrig.storage.cache import Cache
    from anyrig.work.outcome import ItemOutcome

KIND = "transcript"
_LOOK_AHEAD = 4  # pieces for each worker: one is 1.8 MB
_BATCH_AHEAD = 64  # pieces where a GPU takes them in batches


class Seats(Protocol):
    """Where work runs on this machine."""

    def __call__(self, need: Workload) -> PlacementPlan:
        """The places for a need."""


@dataclass(frozen=True)
class Wishes:
    """What a person wants of a transcript."""

    language: str = ""
    """ISO 639-1; found out when empty."""
    model: str = ""
    """A folder or a name; chosen by the language when empty."""
    engine: str = ""
    translate: bool = False
    """Into English."""
    words: bool = False
    """With the times of words, where the engine has them."""
    fresh: bool = False
    """Hear again what is kept already."""
    fetch: bool = False
    """Get a model of the hub that is not here yet."""


class Transcriber:
    """Recognisers on this machine, kept from one recording to the next."""

    def __init__(
        self,
        seats: Seats,
        *,
        environment: Mapping[str, str],
        folder: str,
        store: Cache | None = None,
        wishes: Wishes = Wishes(),  # noqa: B008 - it is frozen
    ) -> None:
        """Start nothing yet.

        Args:
            seats: where work runs.
            environment: this process's own.
            folder: where a model that comes in parts may be put together.
            store: what was heard before.
            wishes: what is wanted.
        """
        self._seats, self._environment, self._folder = seats, environment, folder
        self._store, self._wishes = store, wishes
        self._pools: dict[str, tuple[WorkerPool, int]] = {}
        self._model: Model | None = None
        if wishes.model or wishes.engine or wishes.language:
            self._model = find(
                wishes.model, language=wishes.language, engine=wishes.engine,
                translate=wishes.translate, fetch=wishes.fetch,
            )  # fmt: skip

    def transcribe(
        self, sound: AudioFile, tell: Callable[[Progress], None] = lambda _: None
    ) -> Transcription:
        """All that is said; `tell` is told of every piece, in order."""
        gathered = Gathered(sound, tell)
        parts = gathered.watched(cut(sound.blocks()))
        found, parts = self._tongue(parts)
        task: Task = "translate" if self._wishes.translate else "lines"
        for piece, heard, kept in self._heard(parts, found.model, found.language, task):
            gathered.add(piece, heard, kept=kept)
        return gathered.finished(found, translated=self._wishes.translate)

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, where it has any now."""
        return tuple(pool for pool, _ in list(self._pools.values()))

    def close(self) -> None:
        """End every worker."""
        for pool, _ in self._pools.values():
            pool.close()
        self._pools.clear()

    def __enter__(self) -> Transcriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the language ----------------------------------------------------------------------------

    def _tongue(self, parts: Iterator[Piece | Quiet]) -> tuple[Tongue, Iterator[Piece | Quiet]]:
        """Who hears it, and in which language; and all parts, those looked at included."""
        asked, model = self._wishes.language, self._model
        if asked and model is not None:
            return Tongue(model, asked.partition("-")[0].lower(), "requested"), parts
        if model is not None and not model.multilingual:
            code = model.languages[0]
            return Tongue(model, code, f"the only language of {model.name}"), parts
        listener, missing = (model, "") if model is not None else tongue.listener()
        if missing:
            return Tongue(MOONSHINE, "en", missing), parts
        assert listener is not None
        first, looked = tongue.first_pieces(parts)
        everything = chain(looked, parts)
        if not first:
            return Tongue(model or WHISPER_BASE, "", "no speech found"), everything
        votes = [heard for heard in self._votes(first, listener) if heard is not None]
        code, reason = tongue.elected(votes)
        chosen = model
        if chosen is None:
            chosen = find(language=code, translate=self._wishes.translate)
        return Tongue(chosen, code, reason), everything

    def _votes(self, pieces: list[Piece], model: Model) -> Iterator[Transcript | None]:
        for _, heard, _ in self._heard(iter(pieces), model, "", "language"):
            yield heard if isinstance(heard, Transcript) else None

    # -- the pieces ------------------------------------------------------------------------------

    def _heard(
        self, parts: Iterator[Piece | Quiet], model: Model, language: str, task: Task
    ) -> Iterator[tuple[Span, Transcript | str, bool]]:
        """Each piece with what was heard, or why nothing could be; and whether it was kept."""
        waiting: deque[tuple[Span, Transcript | None]] = deque()
        keys: list[str] = []

        def unheard() -> Iterator[Recording]:
            for part in parts:
                if isinstance(part, Quiet):
                    continue
                span = Span(part.start, part.end, part.overlap)
                key = self._key(part, model, language, task)
                kept = None if self._wishes.fresh else self._kept(key)
                if kept is None:
                    keys.append(key)
                waiting.append((span, kept))
                if kept is None:
                    yield Recording(part.samples, SPEECH_RATE, language, task)

        def keep(outcome: ItemOutcome[Any]) -> None:
            if outcome.result is not None:
                self._keep(keys[outcome.index], outcome.result, model)

        for outcome in self._run(model, task, unheard(), keep):
            yield from _kept_first(waiting)
            span, _ = waiting.popleft()
            if outcome.result is not None:
                yield span, outcome.result, False
            else:
                yield span, outcome.failure.message if outcome.failure else "nothing came", False
        yield from _kept_first(waiting)

    def _run(
        self,
        model: Model,
        task: Task,
        recordings: Iterator[Recording],
        keep: Callable[[ItemOutcome[Any]], None],
    ) -> Iterator[ItemOutcome[Transcript]]:
        """No worker is started where everything is kept."""
        first = next(recordings, None)
        if first is None:
            return
        pool, ahead = self._pool(model, task)
        yield from pool.run(
            chain([first], recordings), cost=model.cost, look_ahead=ahead, on_outcome=keep
        )

    def _pool(self, model: Model, task: Task) -> tuple[WorkerPool, int]:
        """Workers of a model; one alone to find out the language where another may then hear."""
        name, alone = f"{model.name} {model.fingerprint}", False
        if name not in self._pools and task == "language" and self._model is None:
            name, alone = f"language by {name}", True
        if name not in self._pools:
            placed = self._placed(model, 1 if alone else 1 << 30)
            pool = WorkerPool(
                LocalWorkers(
                    placed.placements,
                    model.recipe(self._folder, words=self._wishes.words),
                    environment=self._environment,
                    fallback=placed.fallback,
                )
            )
            batches = any(seat.device.kind == "gpu" for seat in placed.placements)
            workers = sum(seat.workers for seat in placed.placements)
            self._pools[name] = (pool, _BATCH_AHEAD if batches else _LOOK_AHEAD * workers)
        return self._pools[name]

    def _placed(self, model: Model, max_workers: int) -> PlacementPlan:
        """Where a model is heard with; CTranslate2 drives the GPUs of one maker only."""
        if model.engine != "whisper":
            return self._seats(model.need(max_workers))
        placed = self._seats(model.need(max_workers, cuda=True))
        gpus = [seat.device for seat in placed.placements if seat.device.kind == "gpu"]
        if not gpus:
            return placed
        if any(gpu.vendor == "nvidia" for gpu in gpus) and drives_cuda():
            others = {gpu.id for gpu in gpus if gpu.vendor != "nvidia"}
            fit = tuple(seat for seat in placed.placements if seat.device.id not in others)
            return replace(placed, placements=fit)
        return self._seats(model.need(max_workers))

    # -- what is kept ----------------------------------------------------------------------------

    def _key(self, piece: Piece, model: Model, language: str, task: Task) -> str:
        sound = (piece.samples * 32767.0).astype("<i2").tobytes()
        words = self._wishes.words and model.engine == "whisper"
        return CacheKey(
            KIND, hashlib.sha256(sound).hexdigest(), f"hear {model.engine}", model.version,
            model.fingerprint, options={"language": language, "task": task, "words": words},
        ).digest  # fmt: skip

    def _kept(self, key: str) -> Transcript | None:
        found = self._store.get(key) if self._store is not None else None
        return None if found is None else opened_form(found.data)

    def _keep(self, key: str, heard: Transcript, model: Model) -> None:
        if self._store is not None:
            data = json.dumps(kept_form(heard), ensure_ascii=False).encode()
            put = self._store.replace if self._wishes.fresh else self._store.put
            put(key, data, kind=KIND, metadata={"engine": model.name})


def _kept_first(
    waiting: deque[tuple[Span, Transcript | None]],
) -> Iterator[tuple[Span, Transcript | str, bool]]:
    """Those that are kept and come before the next that is not."""
    while waiting and (kept := waiting[0][1]) is not None:
        yield waiting.popleft()[0], kept, True
