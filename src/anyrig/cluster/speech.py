"""Speech over a cluster: how utterances and takes travel, and how takes are checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from anyrig.cluster.protocol import EncodedResult, to_int, to_str
from anyrig.cluster.registry import EngineId
from anyrig.errors import InvalidInputError
from anyrig.speech.engine import Utterance
from anyrig.speech.quality import CheckedTake

if TYPE_CHECKING:
    from anyrig.speech.engine import EngineWeights, OptionValue

_MAX_LINE = 100_000
_MAX_SAMPLES = 50_000_000
"""Of a take: half an hour at 24 kHz."""
_MAX_SPEED = 100.0


def identify_engine(found: EngineWeights) -> EngineId:
    """An engine's weights and voices, as they are on this machine."""
    voices = sorted((voice.name, voice.digest) for voice in found.voices)
    digest = hashlib.sha256(json.dumps(voices).encode()).hexdigest()[:16]
    return EngineId(found.engine, found.version, found.fingerprint, digest)


def _to_option(value: Any) -> OptionValue:
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"an option of type {type(value).__name__}")
    return value


class SpeechCodec:
    """Utterances and takes.

    Args:
        repetition: whether a take may repeat itself: where takes vary with their seed.
    """

    kind = "speech"

    def __init__(self, *, repetition: bool = True) -> None:
        self._repetition = repetition

    def cost(self, payload: Utterance) -> float:
        return payload.cost

    def encode_item(self, payload: Utterance) -> dict[str, Any]:
        return {**asdict(payload), "options": [list(option) for option in payload.options]}

    def decode_item(self, value: Any) -> Utterance:
        text = to_str(value["text"])
        if len(text) > _MAX_LINE:
            raise ValueError(f"a line of {len(text)} characters")
        rate = float(value["rate"])
        if not 0 < rate <= _MAX_SPEED:
            raise ValueError(f"a rate of {rate}")
        return Utterance(
            text, to_str(value["language"]), to_str(value["voice"]), rate, to_int(value["seed"]),
            tuple((to_str(name), _to_option(one)) for name, one in value.get("options", ())),
        )  # fmt: skip

    def encode_result(self, result: CheckedTake, *, compress: bool) -> EncodedResult:
        from anyrig.speech.takes import decode_take, encode_take

        data = encode_take(decode_take(result.data), flac=True) if compress else result.data
        facts = {"tries": result.tries, "unusable": result.unusable}
        return EncodedResult(data, facts)

    def decode_result(self, encoded: EncodedResult) -> CheckedTake:
        facts = encoded.facts
        unusable = facts["unusable"] is True
        return CheckedTake(encoded.data, tries=to_int(facts["tries"]), unusable=unusable)

    def check(self, payload: Utterance, result: CheckedTake, worker: str) -> CheckedTake:
        from anyrig.speech.quality import check_take
        from anyrig.speech.takes import count_take_samples, decode_take

        if count_take_samples(result.data) > _MAX_SAMPLES:  # before they are in memory
            raise InvalidInputError("a take is too long", hint="Look at that worker.")
        found = check_take(decode_take(result.data), payload, repetition=self._repetition)
        unusable = found.score <= 0.0
        if unusable and not result.unusable:
            raise InvalidInputError("nothing is heard in a take", hint="Look at that worker.")
        problems = tuple(problem.message for problem in found.problems)
        return replace(result, problems=problems, unusable=unusable, worker=worker)
