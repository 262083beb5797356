"""Recordings into text for the server, in a clerk's process; nothing of them is kept."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyrig.cli.transcribe import seats
from anyrig.errors import MissingWeightsError
from anyrig.recognise.forms import FormName, written

if TYPE_CHECKING:
    from anyrig.cli.clerk import ClerkRoom
    from anyrig.recognise.transcribe import Transcriber, Wishes

_KEPT = "transcription "


def transcribe(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in a recording.

    Args:
        room: the clerk's.
        arguments: `file` and the `name` it is called by; `language`, `model`, `translate`, `words`;
            `form` is srt or vtt where captions are wanted as well.
    """
    from anyrig.recognise.sound import opened
    from anyrig.recognise.transcribe import Wishes
    from anyrig.services.transcribe import verbose

    wishes = Wishes(
        language=str(arguments.get("language") or ""),
        model=str(arguments.get("model") or ""),
        translate=bool(arguments.get("translate")),
        words=bool(arguments.get("words")),
        fresh=True,
    )
    transcriber = _transcriber(room, wishes)
    with Path(arguments["file"]).open("rb") as file, opened(file, arguments["name"]) as sound:
        heard = transcriber.transcribe(sound, lambda _: room.check())
    told: dict[str, Any] = dict(verbose(heard, words=wishes.words))
    if arguments.get("form"):
        told["written"] = written(heard, cast("FormName", arguments["form"]))
    return told


def _transcriber(room: ClerkRoom, wishes: Wishes) -> Transcriber:
    """One for these wishes; only one is kept, as each holds a model."""
    from anyrig.recognise.model import find
    from anyrig.recognise.transcribe import Transcriber

    name = f"{_KEPT}{_called(wishes)}"
    for other in room.kept:
        if other.startswith(_KEPT) and other != name:
            room.let_go(other)
    try:
        find(wishes.model, language=wishes.language, engine="", translate=wishes.translate)
    except MissingWeightsError as error:  # nothing is fetched for a request
        raise MissingWeightsError(
            error.message,
            hint=f"`anyrig transcribe --fetch --model {wishes.model} FILE` gets it, on the server's"
            " machine; or name a folder below those of server.models.",
        ) from error
    context = room.context
    return room.keep(
        name,
        lambda: Transcriber(
            lambda need: seats(context, need), environment=context.environment,
            folder=str(Path(context.folders.models, "recognise")), wishes=wishes,
        ),
    )  # fmt: skip


def _called(wishes: Wishes) -> str:
    """What `/health` calls it: no two that differ in what is loaded have one name."""
    told = [Path(wishes.model).name or "by language", wishes.language]
    told += [word for word in ("translate", "words") if getattr(wishes, word)]
    if "/" in wishes.model:  # two folders may have one name
        told.append(sha256(wishes.model.encode()).hexdigest()[:6])
    return " ".join(filter(None, told))
