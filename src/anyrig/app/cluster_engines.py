"""What a worker of a cluster can do on its device: which engines and models are ready, and loading
them when the first task needs one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import format_stamp, load_failed_formats, test_devices
from anyrig.app.engines import VoiceOptions, find_weights
from anyrig.app.models import ModelCache, list_workers
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.precision.profiles import get_profile

if TYPE_CHECKING:
    from anyrig.app.cluster_worker import WorkerNode, WorkerRequest
    from anyrig.app.rig import Rig
    from anyrig.cluster.protocol import Codec, TaskRequest
    from anyrig.cluster.registry import EngineId
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import LongTexts
    from anyrig.placement import PlacementOptions, PlacementPlan, Workload
    from anyrig.speech.engine import Utterance
    from anyrig.work.live import LiveQueue
    from anyrig.work.pool import WorkerPool
    from anyrig.work.protocol import WorkerStatus

_MAX_LOADED = 2


class DeviceEngines:
    """Everything that a worker can do on its device."""

    def __init__(self, rig: Rig, request: WorkerRequest, node: WorkerNode) -> None:
        kinds: tuple[type[EngineSource], ...] = (SpeechEngines, EmbeddingModels)
        sources = [kind(rig, request, node) for kind in kinds]
        self._sources = {one.codec.kind: one for one in sources}
        self._models = ModelCache(max_models=_MAX_LOADED)
        self.codecs = {one.codec.kind: one.codec for one in sources}
        self.engines = tuple(one for source in sources for one in source.engines)
        self.precisions = {n: some for one in sources for n, some in one.precisions.items()}

    @contextmanager
    def borrow(
        self, request: TaskRequest, on_load: Callable[[Mapping[str, Any]], None]
    ) -> Iterator[EngineQueue]:
        """An engine for a task, loaded unless it is; `on_load` gets the facts of one that was."""
        engine = request.engine

        def load() -> closing[EngineQueue]:
            began = time.monotonic()
            source = self._sources[request.kind]
            model = source.open(engine.engine, request.precision, request.options)
            word = next((one.selector for one in model.live.workers()), "")
            on_load({"model": engine.engine, "version": engine.version,
                     "precision": request.precision, "word": word,
                     "seconds": round(time.monotonic() - began, 2)})  # fmt: skip
            return closing(model)

        name = f"{engine.engine} {request.precision} {sorted(request.options.items())}"
        with self._models.borrow(name, load) as model:
            self._models.evict_idle()
            yield model

    def processes(self) -> list[WorkerStatus]:
        """Those of loaded engines that are ready, as last seen."""
        loaded = self._models.loaded_models()
        return [one for each in loaded for one in list_workers(each.model) if one.state == "ready"]

    def close(self) -> None:
        self._models.close()


class EngineSource:
    """Engines of one kind, and the precisions that each can compute in on the device."""

    codec: Codec

    def __init__(self, rig: Rig, request: WorkerRequest, node: WorkerNode) -> None:
        self.rig, self.request, self._node = rig, request, node
        self._choice = replace(
            rig.preview_device(replace(request, no_bench=True)), devices=(node.device,)
        )
        self.engines: tuple[EngineId, ...] = ()
        self.precisions: dict[str, tuple[str, ...]] = {}
        self._formats: dict[tuple[str, str], str] = {}
        """By engine and precision class: the precision to use."""
        for engine, workload in self.find_engines():
            formats = self.find_formats(workload)
            if formats:
                self.engines += (engine,)
                self.precisions[engine.engine] = tuple(formats)
                self._formats |= {(engine.engine, one): word for one, word in formats.items()}

    def find_engines(self) -> Iterator[tuple[EngineId, Workload]]:
        """Those that are installed, with what each needs."""
        raise NotImplementedError

    def open(self, engine: str, precision: str, options: Mapping[str, Any]) -> EngineQueue:
        raise NotImplementedError

    def find_formats(self, workload: Workload) -> dict[str, str]:
        """By precision class, the best first: the precision to use."""
        from anyrig.speech.takes import precision_class

        options = self.placement_options()
        formats = [options.precision]
        if options.precision == "auto":
            formats += workload.precisions
        found: dict[str, str] = {}
        for format in formats:
            try:
                plan = self.place(workload, replace(options, precision=format))
            except AnyrigError:
                continue
            # What is only possible here (slow, or found wrong by a test) is not offered.
            if format == options.precision or not plan.warnings:
                found.setdefault(precision_class(plan.placements), format)
        return found

    def placement_options(self) -> PlacementOptions:
        """As requested; nodes that share a device share its memory."""
        from anyrig.placement import PlacementOptions

        request, share = self.request, self._node.share
        options = PlacementOptions(
            precision=request.precision, profile=request.profile, memory_gb=request.memory_gb,
            memory_fraction=request.memory_fraction,
            workers_per_device=request.workers_per_device,
        )  # fmt: skip
        if share == 1:
            return options
        if options.memory_gb is not None:
            return replace(options, memory_gb=options.memory_gb / share)
        whole = options.memory_fraction
        whole = whole or get_profile(options.profile).memory_share(self._node.device)
        return replace(options, memory_fraction=whole / share)

    def place(self, workload: Workload, options: PlacementOptions) -> PlacementPlan:
        from anyrig.placement import plan_placement

        rig = self.rig
        return plan_placement(
            rig.machine, self._choice, workload, options,
            speeds=rig.measurements.speeds(rig.machine), failed=load_failed_formats(rig),
            environment=rig.environment,
        )  # fmt: skip

    def place_in(self, engine: str, precision: str, workload: Workload) -> PlacementPlan:
        """A placement in a precision class that the worker offers."""
        format = self._formats.get((engine, precision))
        if format is None:
            raise InvalidInputError(
                f"{engine} cannot compute in {precision} on {self._node.device.name}",
                hint=Message(
                    "Pass a {precision} that all workers have.", precision=OptionRef("precision")
                ),
            )
        plan = self.place(workload, replace(self.placement_options(), precision=format))
        for warning in plan.warnings:
            self.rig.warn(warning)
        return test_devices(self.rig, plan, self.request)


class SpeechEngines(EngineSource):
    def __init__(self, rig: Rig, request: WorkerRequest, node: WorkerNode) -> None:
        from anyrig.cluster.speech import SpeechCodec

        self.codec = SpeechCodec()
        self._voice_options = rig.request(VoiceOptions)
        super().__init__(rig, request, node)

    def find_engines(self) -> Iterator[tuple[EngineId, Workload]]:
        from anyrig.cluster.speech import identify_engine
        from anyrig.speech import engines

        for name in engines.list_names():
            try:
                engine_class = engines.engine_class(name)
                if not engine_class.info.cloud:
                    found = find_weights(self.rig, self._voice_options, name, engine_class)
                    yield identify_engine(found), engine_class.need(found)
            except (AnyrigError, ImportError):
                continue

    def open(self, engine: str, precision: str, options: Mapping[str, Any]) -> SpeechQueue:
        from anyrig.memory.known_sizes import KnownBatchSizes
        from anyrig.speech.engines import engine_class
        from anyrig.speech.synthesis import Synthesizer

        rig, kind = self.rig, engine_class(engine)
        found = find_weights(rig, self._voice_options, engine, kind)
        plan = self.place_in(engine, precision, kind.need(found))
        synthesizer = Synthesizer(
            engine=engine, weights=found, plan=plan, environment=rig.environment,
            options=options, known_sizes=KnownBatchSizes(rig.folders.batch_limits),
            stamp=format_stamp(rig, plan),
        )  # fmt: skip
        voices = frozenset(voice.name for voice in found.voices)
        return SpeechQueue(synthesizer.pool, 4 * synthesizer.num_parallel, engine, voices)


class EmbeddingModels(EngineSource):
    def __init__(self, rig: Rig, request: WorkerRequest, node: WorkerNode) -> None:
        from anyrig.cluster.embedding import EmbeddingCodec

        self.codec = EmbeddingCodec()
        self._models: dict[str, EmbeddingModel] = {}
        super().__init__(rig, request, node)

    def find_engines(self) -> Iterator[tuple[EngineId, Workload]]:
        from anyrig.cluster.embedding import identify_model
        from anyrig.documents.model import find, list_models

        folder = self.rig.folders.models / "documents"
        names = [one.name for one in list_models() if not one.lack]
        if folder.is_dir():
            names += [one.name.replace("--", "/") for one in sorted(folder.iterdir())]
        for name in names:
            try:
                model = find(name, models=self.rig.folders.models)
            except (AnyrigError, ImportError, OSError):
                continue
            engine = identify_model(model)
            self._models[engine.engine] = model
            yield engine, model.need()

    def open(self, engine: str, precision: str, options: Mapping[str, Any]) -> EngineQueue:
        from anyrig.documents.embed import FEW_SHAPES, make_factory
        from anyrig.memory.known_sizes import KnownBatchSizes
        from anyrig.work.pool import WorkerPool
        from anyrig.work.worker import LocalWorkers

        rig, model = self.rig, self._models[engine]
        deterministic = options.get("deterministic") is True
        long: LongTexts = "cut" if options.get("long") == "cut" else "windows"
        plan = self.place_in(engine, precision, model.need())
        on_cpu = all(one.device.kind == "cpu" for one in plan.placements)
        workers = LocalWorkers(
            plan.placements, make_factory(model, long=long, deterministic=deterministic),
            environment={**FEW_SHAPES, **rig.environment} if on_cpu else rig.environment,
            fallback=plan.fallback, known_sizes=KnownBatchSizes(rig.folders.batch_limits),
            stamp=format_stamp(rig, plan), deterministic=deterministic,
        )  # fmt: skip
        return EngineQueue(WorkerPool(workers), self.codec.cost)


class EngineQueue:
    """An engine's processes, with a queue in front."""

    def __init__(self, pool: WorkerPool, cost: Any, max_in_flight: int = 64) -> None:
        from anyrig.work.live import LiveQueue

        try:
            pool.wait_ready()
        except BaseException:
            pool.close()
            raise
        self.live: LiveQueue[Any, Any] = LiveQueue(pool, cost=cost, max_in_flight=max_in_flight)

    def check(self, payload: Any) -> None:
        pass

    def close(self) -> None:
        self.live.close()


class SpeechQueue(EngineQueue):
    def __init__(
        self, pool: WorkerPool, max_in_flight: int, engine: str, voices: frozenset[str]
    ) -> None:
        super().__init__(pool, lambda line: line.cost, max(16, max_in_flight))
        self._engine, self._voices = engine, voices

    def check(self, payload: Utterance) -> None:
        """Only voices of the engine itself: no file is ever opened because a task names it."""
        voice = payload.voice
        parts = [part.partition(":")[0].strip() for part in voice.split("+")]
        if voice and voice not in self._voices and not self._voices.issuperset(parts):
            raise InvalidInputError(
                f"this worker has no voice {voice[:60]!r} of {self._engine}",
                hint="Recordings of one machine are not voices of another.",
            )
