"""Transcription for the server, in a clerk's process; nothing of a recording is kept."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyrig.app.transcription import (
    TranscriptionRequest,
    check_model,
    open_transcriber,
    to_verbose_json,
)
from anyrig.errors import MissingWeightsError
from anyrig.recognise.forms import FormName, written

if TYPE_CHECKING:
    from anyrig.cli.clerk import ClerkRoom
    from anyrig.recognise.transcribe import Transcriber

_KEPT = "transcription "


def transcribe(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in a recording.

    Args:
        room: the clerk's.
        arguments: `file` and the `name` it is called by; `language`, `model`, `translate`, `words`;
            `form` is srt or vtt where captions are wanted as well.
    """
    from anyrig.recognise.sound import opened

    request = room.context.request(
        TranscriptionRequest,
        files=(arguments["file"],),
        language=str(arguments.get("language") or ""),
        model=str(arguments.get("model") or ""),
        translate=bool(arguments.get("translate")),
        word_times=bool(arguments.get("words")),
        fresh=True,
    )
    transcriber = _transcriber(room, request)
    with request.files[0].open("rb") as file, opened(file, arguments["name"]) as sound:
        transcript = transcriber.transcribe(sound, lambda _: room.check())
    answer: dict[str, Any] = dict(to_verbose_json(transcript, words=request.word_times))
    if arguments.get("form"):
        answer["written"] = written(transcript, cast("FormName", arguments["form"]))
    return answer


def _transcriber(room: ClerkRoom, request: TranscriptionRequest) -> Transcriber:
    """One for these options; only one is kept, as each holds a model."""
    name = f"{_KEPT}{_called(request)}"
    for other in room.kept:
        if other.startswith(_KEPT) and other != name:
            room.let_go(other)
    try:
        check_model(request)
    except MissingWeightsError as error:  # nothing is downloaded for a request
        raise MissingWeightsError(
            error.message,
            hint=f"`anyrig transcribe --fetch --model {request.model} FILE` downloads it on the"
            " server's machine; or name a folder below those of server.models.",
        ) from error
    return room.keep(name, lambda: open_transcriber(room.context.rig, request))


def _called(request: TranscriptionRequest) -> str:
    """What `/health` calls it: no two that differ in what is loaded have one name."""
    words = [Path(request.model).name or "by language", request.language]
    words += ["translate"] if request.translate else []
    words += ["words"] if request.word_times else []
    if "/" in request.model:  # two folders may have one name
        words.append(sha256(request.model.encode()).hexdigest()[:6])
    return " ".join(filter(None, words))
