"""Speech over a cluster: how lines and takes travel, and how takes of other machines are checked.

Every take is examined by the machine that asked for it, whatever its worker says about it. Where an
engine always speaks a line in the same way, some lines are also made here, the first of each worker
among them, and a worker whose takes differ is set aside.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cluster.protocol import EncodedResult, to_int, to_str
from anyrig.cluster.registry import EngineId
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.speech.booth import Recording
from anyrig.speech.protocol import Line

if TYPE_CHECKING:
    from anyrig.speech.protocol import Found
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
COMPARE_ONE_OF = 32
"""One line of so many is also made here."""
_MAX_COMPARED = 2
"""Lines of one task, at most."""
_MAX_LINE = 100_000
_MAX_SAMPLES = 50_000_000
"""Of a take: half an hour at 24 kHz."""
_QUOTED = 60


def identify_engine(found: Found) -> EngineId:
    """An engine's weights and voices, as they are on this machine."""
    voices = sorted((voice.name, voice.digest) for voice in found.voices)
    digest = hashlib.sha256(json.dumps(voices).encode()).hexdigest()[:16]
    return EngineId(found.engine, found.version, found.fingerprint, digest)


class SpeechCodec:
    kind = "speech"

    def encode_item(self, payload: Line) -> dict[str, Any]:
        return asdict(payload)

    def decode_item(self, value: Any) -> Line:
        text = to_str(value["text"])
        if len(text) > _MAX_LINE:
            raise ValueError(f"a line of {len(text)} characters")
        return Line(
            text, to_str(value["language"]), to_str(value["voice"]), float(value["rate"]),
            to_int(value["seed"]),
        )  # fmt: skip

    def cost(self, payload: Line) -> float:
        return payload.cost

    def encode_result(self, result: Recording, *, compress: bool) -> EncodedResult:
        from anyrig.speech.sound.pack import pack, unpack

        data = pack(unpack(result.data), small=True) if compress else result.data
        facts = {"problems": list(result.problems), "tries": result.tries,
                 "hopeless": result.hopeless}  # fmt: skip
        return EncodedResult(data, facts)

    def decode_result(self, encoded: EncodedResult) -> Recording:
        facts = encoded.facts
        return Recording(
            encoded.data, tuple(to_str(one) for one in facts["problems"]), to_int(facts["tries"]),
            facts["hopeless"] is True,
        )  # fmt: skip


class TakeChecker:
    """Checks takes of workers before they are used.

    Args:
        open_local: starts the engine on this machine, to compare; None if two takes of a line may
            differ.
        hold: whether takes wait until they were compared; not if somebody is listening.
    """

    def __init__(
        self, open_local: Callable[[], WorkerPool] | None = None, *, hold: bool = True
    ) -> None:
        self._open_local, self.hold = open_local, hold
        self._pool: WorkerPool | None = None
        self._confirmed: set[str] = set()
        """Instances of workers with a take that was equal to ours."""
        self._secret = f"{uuid.getnode()} {Path.home()}".encode()[:64]
        """Which lines are compared is known to this machine and to no worker."""

    def examine(
        self, lines: Mapping[int, Line], takes: Mapping[int, Recording], worker: str
    ) -> dict[int, Recording]:
        """The takes with our own judgement of each; an error for one that cannot be decoded."""
        from anyrig.speech.sound.check import examine
        from anyrig.speech.sound.pack import num_samples, unpack

        found = {}
        for index, take in takes.items():
            if num_samples(take.data) > _MAX_SAMPLES:  # before they are in memory
                raise InvalidInputError("a take is too long", hint="Look at that worker.")
            verdict = examine(unpack(take.data), lines[index])
            found[index] = replace(
                take, problems=tuple(problem.said for problem in verdict.problems),
                hopeless=verdict.score <= 0.0, made_by=worker,
            )  # fmt: skip
        return found

    def find_difference(
        self, lines: Mapping[int, Line], takes: Mapping[int, Recording], instance: str, *,
        hurry: bool = False,
    ) -> str:  # fmt: skip
        """How a take differs from one that was made here; empty if none was found to.

        Args:
            lines: what was to be said.
            takes: what came.
            instance: of the worker.
            hurry: many takes are waiting: only those of new workers are compared.
        """
        from anyrig.speech.sound.compare import difference
        from anyrig.speech.sound.pack import unpack

        known = instance in self._confirmed
        if self._open_local is None or (hurry and known):
            return ""
        for index in self._choose(lines, takes, known=known):
            mine = self._make(lines[index])
            if mine is None:
                continue
            found = difference(unpack(mine.data), unpack(takes[index].data))
            if found:
                return f"{lines[index].text.strip()[:_QUOTED]!r}: {found}"
            self._confirmed.add(instance)
        return ""

    def _choose(
        self, lines: Mapping[int, Line], takes: Mapping[int, Recording], *, known: bool
    ) -> Sequence[int]:
        """By a hash that others do not know, so always the same ones."""
        drawn = {index: self._draw(lines[index]) for index in takes}
        ordered = sorted(drawn, key=lambda index: drawn[index])
        chosen = [index for index in ordered if drawn[index] % COMPARE_ONE_OF == 0]
        return (chosen or ([] if known else ordered[:1]))[:_MAX_COMPARED]

    def _draw(self, line: Line) -> int:
        text = f"{line.voice} {line.language} {line.rate} {line.seed} {line.text}".encode()
        return int.from_bytes(hashlib.blake2b(text, key=self._secret).digest()[:4], "big")

    def _make(self, line: Line) -> Recording | None:
        """None if it cannot be made here: then nothing is known."""
        assert self._open_local is not None
        try:
            if self._pool is None:
                self._pool = self._open_local()
            (outcome,) = self._pool.run([line], cost=lambda one: one.cost)
        except AnyrigError as error:
            log.warning("takes of workers are not compared with our own: %s", error.message)
            self._open_local = None
            return None
        result: Recording | None = outcome.result
        return result

    def close(self) -> None:
        if self._pool is not None:
            with suppress(Exception):  # it ends with this process anyway
                self._pool.close()
