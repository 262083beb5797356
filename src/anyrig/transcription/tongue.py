"""In which language a recording is spoken: the first pieces are asked, and their votes counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anyrig.errors import Message, MissingPackageError
from anyrig.transcription.cut import Piece, Quiet
from anyrig.transcription.model import BASE, Model, find
from anyrig.transcription.protocol import Transcript

NUM_ASKED = 3
_SURE = 0.6


class Tongue(NamedTuple):
    """Who hears a recording, in which language, and why."""

    model: Model
    language: str
    """Empty: found out for each piece."""
    reason: str


def listener() -> tuple[Model | None, str]:
    """The model that tells languages apart; or why there is none, and English is taken."""
    try:
        return find(BASE), ""
    except MissingPackageError as error:
        find("moonshine")  # or nobody hears at all
        return None, Message(
            "assuming English: language detection is not installed ({problem})",
            problem=error.message,
        )


def first_pieces(parts: Iterator[Piece | Quiet]) -> tuple[list[Piece], list[Piece | Quiet]]:
    """The first pieces in which somebody speaks, and all that was taken to find them."""
    looked: list[Piece | Quiet] = []
    pieces: list[Piece] = []
    for part in parts:
        looked.append(part)
        if isinstance(part, Piece):
            pieces.append(part)
            if len(pieces) == NUM_ASKED:
                break
    return pieces, looked


def elected(votes: Sequence[Transcript]) -> tuple[str, str]:
    """The language of the first pieces, empty when there are several; and the reason."""
    told = [vote.languages[0] for vote in votes if vote.languages]
    if not told:
        return "", "language not detected; detecting it for each segment"
    sure = {code for code, share in told if share >= _SURE}
    if len(sure) > 1:
        names = ", ".join(sorted(sure))
        return (
            "",
            f"several languages in the first segments ({names}); detecting it for each segment",
        )
    weights: dict[str, float] = {}
    for vote in votes:
        for code, share in vote.languages:
            weights[code] = weights.get(code, 0.0) + share
    code, weight = max(weights.items(), key=lambda one: one[1])
    return code, f"detected from the first segments, {weight / len(told):.0%} confidence"
