"""Speech over a cluster: how lines and takes travel, and how takes are checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from anyrig.cluster.protocol import EncodedResult, to_int, to_str
from anyrig.cluster.registry import EngineId
from anyrig.errors import InvalidInputError
from anyrig.speech.booth import Recording
from anyrig.speech.engine import Utterance

if TYPE_CHECKING:
    from anyrig.speech.engine import EngineWeights, Take

_MAX_LINE = 100_000
_MAX_SAMPLES = 50_000_000
"""Of a take: half an hour at 24 kHz."""
_MAX_SPEED = 100.0
_QUOTED = 60


def identify_engine(found: EngineWeights) -> EngineId:
    """An engine's weights and voices, as they are on this machine."""
    voices = sorted((voice.name, voice.digest) for voice in found.voices)
    digest = hashlib.sha256(json.dumps(voices).encode()).hexdigest()[:16]
    return EngineId(found.engine, found.version, found.fingerprint, digest)


class SpeechCodec:
    kind = "speech"

    def cost(self, payload: Utterance) -> float:
        return payload.cost

    def encode_item(self, payload: Utterance) -> dict[str, Any]:
        return asdict(payload)

    def decode_item(self, value: Any) -> Utterance:
        text = to_str(value["text"])
        if len(text) > _MAX_LINE:
            raise ValueError(f"a line of {len(text)} characters")
        rate = float(value["rate"])
        if not 0 < rate <= _MAX_SPEED:
            raise ValueError(f"a rate of {rate}")
        return Utterance(
            text, to_str(value["language"]), to_str(value["voice"]), rate, to_int(value["seed"])
        )

    def encode_result(self, result: Recording, *, compress: bool) -> EncodedResult:
        from anyrig.speech.pack import pack, unpack

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

    def check(self, payload: Utterance, result: Recording, worker: str) -> Recording:
        self._unpack(result)
        return replace(result, made_by=worker)

    def examine(self, payload: Utterance, result: Recording, worker: str) -> Recording:
        from anyrig.speech.check import examine

        verdict = examine(self._unpack(result), payload)
        return replace(
            result, problems=tuple(problem.said for problem in verdict.problems),
            hopeless=verdict.score <= 0.0, made_by=worker,
        )  # fmt: skip

    def _unpack(self, result: Recording) -> Take:
        from anyrig.speech.pack import num_samples, unpack

        if num_samples(result.data) > _MAX_SAMPLES:  # before they are in memory
            raise InvalidInputError("a take is too long", hint="Look at that worker.")
        return unpack(result.data)

    def compare(self, payload: Utterance, mine: Recording, theirs: Recording) -> str:
        from anyrig.speech.compare import difference
        from anyrig.speech.pack import unpack

        found = difference(unpack(mine.data), unpack(theirs.data))
        return f"{payload.text.strip()[:_QUOTED]!r}: {found}" if found else ""
