"""What tasks of a clerk share: the models they ask for, and the files and texts they are given.

A request may name a model of a package, one that was fetched into the user's folder of models, or
a folder below those that `server.models` lists; no other path is looked at.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.access import is_allowed, parse_folders
from anyrig.app.embedding import EmbeddingOptions, find_model, open_embedder
from anyrig.cli import reading
from anyrig.cli.clerk import ClerkRoom
from anyrig.cli.context import Context
from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    LimitExceededError,
    MissingPackageError,
    MissingWeightsError,
)
from anyrig.text.labels import one_line

if TYPE_CHECKING:
    from anyrig.documents.model import Model
    from anyrig.documents.ocr.run import Pages
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import Mode, ReadPicture, Reads, Unread
    from anyrig.text.formats.limits import Limits
    from anyrig.text.pages import Paged

OCR_PAGES = 200
"""Pictures of pages that one task reads: more are asked for by their numbers."""
OCR_S = 600.0
"""How long it may read them; a task that says nothing for much longer is taken to hang."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


# -- what is given ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """A text, or a file, and what its sender calls it."""

    name: str
    text: str = ""
    file: Path | None = None

    def told(self, words: str) -> str:
        """An error's words with the file's own name instead of the one it is kept under."""
        return words.replace(self.file.name, self.name) if self.file is not None else words


def given(arguments: Mapping[str, Any]) -> list[Given]:
    """The sources of a task: `{"name", "text"}` or `{"name", "file"}` each."""
    found = []
    for one in arguments["sources"]:
        file = Path(one["file"]) if one.get("file") else None
        found.append(Given(one_line(one["name"], 200), one.get("text", ""), file))
    return found


def read(room: ClerkRoom, sources: Sequence[Given], mode: str | None) -> Iterator[Paged | Unread]:
    """Each source in pages, in order: files in processes of their own, pictures by OCR."""
    from anyrig.documents.reading import read_all
    from anyrig.text.pages import Page, Paged

    how = reading.mode(room.options(ocr=mode))
    paths = [one.file for one in sources if one.file is not None]
    reads = ocr_reads(room) if how != "never" and paths else None
    if len(paths) == 1:
        files = iter([_one(room, paths[0], reads, how)])
    else:
        files = read_all(paths, ocr=reads, limits=limits(room), mode=how)
    for one in sources:
        room.check()
        if one.file is not None:
            yield next(files)
        else:
            yield Paged(Path(one.name), "txt", (Page(one.text),))


def _one(room: ClerkRoom, path: Path, reads: Reads | None, mode: Mode) -> Paged | Unread:
    """A file by the process that is kept for that: starting one takes longer than most files."""
    from anyrig.documents.reading import Unread
    from anyrig.documents.reading import read as read_file
    from anyrig.text.apart import Apart

    apart = room.keep("file reader", lambda: Apart(limits(room)))
    try:
        return read_file(path, ocr=reads, mode=mode, apart=apart)
    except (MissingPackageError, DeviceLostError):
        raise
    except AnyrigError as error:
        return Unread(path, error.message, error.hint, isinstance(error, LimitExceededError))


def limits(room: ClerkRoom) -> Limits:
    """How much a file may ask of the machine."""
    return reading.limits(room.context)


# -- models ----------------------------------------------------------------------------------------


def allowed(context: Context, word: str) -> str:
    """A model's name or folder as the rest of us take it.

    `InvalidInputError` for any other path.
    """
    from anyrig.documents.packaged import PACKAGED

    if word in ("", "auto") or word in PACKAGED:
        return word
    for root in parse_folders(context.loaded.settings.server.models) if word.isprintable() else ():
        place = root / word
        if is_allowed(place, [root]) and place.exists() and not place.samefile(root):
            return str(place.resolve())
    if _HUB.fullmatch(word):
        place = context.folders.models / "documents" / word.replace("/", "--")
        if not place.is_dir():
            raise MissingWeightsError(
                f"{word} is not on this machine",
                hint=f"`anyrig embed --model {word} --fetch` gets it from the hub.",
            )
        return str(place)
    raise InvalidInputError(
        f"there is no model {word!r} to be asked for here",
        hint=f"There are: {', '.join(PACKAGED)}; folders below `server.models` may be named too.",
    )


def vectors(
    room: ClerkRoom,
    word: str = "",
    texts: Sequence[str] = (),
    *,
    shares: Mapping[str, float] | None = None,
    trusted: bool = False,
) -> Vectors:
    """The embedding model of a word, loaded; without one, the model for the texts' languages.

    Args:
        room: keeps it.
        word: as a request names it.
        texts: whose language decides.
        shares: of the texts' languages, where they are known.
        trusted: whether the word is the user's own, of an index or a classifier, and may be a path.
    """
    from anyrig.app.embedding import detect_languages

    known = word if trusted else allowed(room.context, word)
    asked = known or room.context.loaded.settings.documents.model
    if asked not in ("", "auto"):
        shares = {}
    return loaded(room, _model(room, known, detect_languages(texts) if shares is None else shares))


def advice(made: Vectors, texts: Sequence[str]) -> list[str]:
    """What to tell of texts that a model was not made for."""
    from anyrig.app.embedding import detect_languages
    from anyrig.documents.model import advice

    told = advice(made.model, detect_languages(texts)) if made.model.languages else ""
    return [told] if told else []


def _model(room: ClerkRoom, word: str, shares: Mapping[str, float]) -> Model:
    """A model's description; looking one up reads its files, so it is kept as well."""
    foreign = sum(share for code, share in shares.items() if code and code != "en")
    mostly = "other languages" if foreign > sum(shares.values()) / 2 else "English"
    key = f"choice of model ({word or 'default'}, {mostly})"
    rig, named = room.context.rig, {"model": word} if word else {}
    options = room.context.request(EmbeddingOptions, **named)
    return room.keep(
        key,
        lambda: nullcontext(find_model(rig, options, shares, rig.report)),
    )


def loaded(room: ClerkRoom, found: Model) -> Vectors:
    """A model that makes vectors: in this process on a CPU, in one of its own on a GPU."""
    gpu = room.bulk and any(gpu.usable for gpu in room.context.machine.gpus)
    rig, options = room.context.rig, room.context.request(EmbeddingOptions)
    size = None if gpu else 0
    return room.keep(
        f"embeddings {found.name}",
        lambda: open_embedder(rig, options, found, rig.report, num_characters=size),
        version=found.fingerprint,
    )


# -- reading pictures ------------------------------------------------------------------------------


def pages(room: ClerkRoom, language: str = "", engine: str = "auto") -> Pages:
    """The OCR engine; `MissingPackageError` if none is installed. Its results are not cached."""
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.documents import build_ocr_reader, choose_ocr_engine

    rig, options = room.context.rig, room.context.request(ComputeOptions)
    chosen = choose_ocr_engine(rig, options, language, engine)
    return room.keep(
        f"OCR {chosen.engine} {language}".rstrip(),
        lambda: build_ocr_reader(rig, options, chosen, language),
        version=str(chosen.version),
    )


def ocr_reads(room: ClerkRoom) -> Reads | None:
    """The same for whoever reads files; None where no engine is installed."""
    try:
        return Bounded(pages(room))
    except MissingPackageError:
        return None


class Bounded:
    """Reads pictures up to so many and so long; the rest are pages that could not be read."""

    def __init__(self, inner: Reads, most: int = OCR_PAGES, seconds: float = OCR_S) -> None:
        self._inner, self._left = inner, most
        self._most, self._end = most, time.monotonic() + seconds

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        """What stands on each picture, in order."""
        from anyrig.documents.reading import ReadPicture

        waiting = iter(pictures)
        yield from self._inner.read(self._some(waiting))
        for _ in waiting:
            yield ReadPicture("", failure=f"one request reads {self._most} pictures of pages")

    def _some(self, pictures: Iterator[bytes]) -> Iterator[bytes]:
        while self._left > 0 and time.monotonic() < self._end:
            picture = next(pictures, None)
            if picture is None:
                return
            self._left -= 1
            yield picture
