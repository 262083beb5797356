"""The engines of a worker: which it offers, in what precision, and loading one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.precision.profiles import get_profile

if TYPE_CHECKING:
    from anyrig.cli.worker import Post
    from anyrig.cluster.card import Offer
    from anyrig.cluster.loaded import Loaded
    from anyrig.devices.choose import DeviceChoice
    from anyrig.placement import PlacementOptions, PlacementPlan, Workload
    from anyrig.speech.protocol import Value
    from anyrig.speech.stage import Stage


class Shop:
    """What can be had on a worker's device.

    Args:
        context: of the command.
        choice: the device.
        post: the node, with its share of the device.
    """

    def __init__(self, context: Context, choice: DeviceChoice, post: Post) -> None:
        self._context, self._choice, self._post = context, choice, post
        self.offers: tuple[Offer, ...] = ()
        """The engines that are ready here."""
        self.precisions: dict[str, tuple[str, ...]] = {}
        """By engine: the classes of number format that it can compute in, the best first."""
        self._words: dict[tuple[str, str], str] = {}
        """By engine and class: the format to ask for."""
        self._find()

    def _find(self) -> None:
        from anyrig.cluster.card import offer_of
        from anyrig.speech import engines

        found = []
        for name in engines.names():
            try:
                kind = engines.engine_class(name)
                if kind.spec.cloud:
                    continue
                there = speaker.found(self._context, name, kind)
                classes = self._classes(kind.need(there))
            except (AnyrigError, ImportError):
                continue
            if not classes:
                continue
            found.append(offer_of(there))
            self.precisions[name] = tuple(classes)
            self._words |= {(name, one): word for one, word in classes.items()}
        self.offers = tuple(found)

    def _classes(self, need: Workload) -> dict[str, str]:
        """Classes of number format, its own choice first, with the format to ask for."""
        from anyrig.speech.stage import precision_class

        wanted = self._wanted()
        words = [wanted.precision]
        if wanted.precision == "auto":
            words += need.precisions
        found: dict[str, str] = {}
        for word in words:
            try:
                placed = self._placed(need, replace(wanted, precision=word))
            except AnyrigError:
                continue
            # What is merely possible here (slow, or found wrong by a test) is not offered.
            if word == wanted.precision or not placed.warnings:
                found.setdefault(precision_class(placed.placements), word)
        return found

    def _wanted(self) -> PlacementOptions:
        """What the operator asked for; a node that shares its device takes a part of its memory."""
        wanted = compute.wanted(self._context)
        share, asked = self._post.share, (wanted.memory_gb, wanted.memory_fraction)
        if share == 1:
            return wanted
        gb, fraction = asked
        if gb is not None:
            return replace(wanted, memory_gb=gb / share)
        whole = fraction or get_profile(wanted.profile).memory_share(self._post.device)
        return replace(wanted, memory_fraction=whole / share)

    def _placed(self, need: Workload, wanted: PlacementOptions) -> PlacementPlan:
        from anyrig.placement import plan_placement

        context = self._context
        return plan_placement(
            context.machine, self._choice, need, wanted,
            speeds=context.measurements.speeds(context.machine), failed=compute.failures(context),
            environment=context.environment,
        )  # fmt: skip

    def open(self, engine: str, precision: str, options: Mapping[str, Value]) -> Loaded:
        """An engine on this worker's device, in a class of number format."""
        from anyrig.cluster.card import offer_of
        from anyrig.memory.known_sizes import KnownBatchSizes
        from anyrig.speech.engines import engine_class
        from anyrig.speech.stage import Stage

        context = self._context
        word = self._words.get((engine, precision))
        if word is None:
            raise InvalidInputError(
                f"{engine} cannot compute in {precision} on {self._post.device.name}",
                hint="Name a --precision that all workers have.",
            )
        kind = engine_class(engine)
        found = speaker.found(context, engine, kind)
        placed = self._placed(kind.need(found), replace(self._wanted(), precision=word))
        for warning in placed.warnings:
            print_warning(warning)
        for placement in placed.placements:
            context.log_reasons(placement.title, placement.reasons)
        placed = compute.guard_workers(context, placed)
        stage = Stage(
            engine=engine, found=found, placed=placed, environment=context.environment,
            options=options, limits=KnownBatchSizes(context.folders.batch_limits),
            stamp=voicing.stamp(context, placed),
        )  # fmt: skip
        voices = frozenset(one.name for one in kind.voices_with(found, dict(options)))
        return _Engine(stage, offer_of(found), voices)


class _Engine:
    """A stage with a counter over it; fits `cluster.loaded.Loaded`."""

    def __init__(self, stage: Stage, offer: Offer, voices: frozenset[str]) -> None:
        from anyrig.work.live import LiveQueue

        self.offer, self.voices = offer, voices
        try:
            stage.crew.wait_ready()
        except BaseException:
            stage.crew.close()
            raise
        self.live: Any = LiveQueue(
            stage.crew, cost=lambda line: line.cost, max_in_flight=max(16, 4 * stage.lines_at_once)
        )

    def close(self) -> None:
        """End its processes."""
        self.live.close()


def small(data: bytes) -> bytes:
    """A take as FLAC, for the way."""
    from anyrig.speech.sound.pack import pack, unpack

    return pack(unpack(data), small=True)
