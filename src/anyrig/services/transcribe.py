"""Recordings in, transcripts out: files and folders for the command, bytes for the server.

with Transcriber(seats, environment=..., folder=..., store=store, wishes=wishes) as heard:
    for done in transcribe_files(order, heard): ...
    verbose(transcribe_bytes(data, "talk.mp3", heard))
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.recognise.forms import FormName, plain, written
from anyrig.recognise.gather import Progress, Transcription
from anyrig.recognise.plain import word_form
from anyrig.recognise.sound import ENDINGS, Sound, opened
from anyrig.recognise.stitch import timed
from anyrig.recognise.transcribe import Transcriber
from anyrig.storage.files import write_atomic

if TYPE_CHECKING:
    from anyrig.storage.keys import JsonValue

Tell = Callable[[Progress], None]


class Source(NamedTuple):
    """A recording, and what its transcript is called."""

    path: Path
    name: Path
    """Without an ending, below the folder of outputs."""


@dataclass(frozen=True)
class Order:
    """What shall be transcribed, and where it goes."""

    sources: tuple[Source, ...]
    output: Path | None = None
    """A file when `single`, else a folder; None writes nothing."""
    forms: tuple[FormName, ...] = ("txt",)
    single: bool = False

    def targets(self, source: Source) -> dict[FormName, Path]:
        """Where each form of a transcript goes."""
        if self.output is None:
            return {}
        if self.single:
            named = self.output
            if len(self.forms) == 1:
                return {self.forms[0]: named}
            return {form: named.with_name(f"{named.stem}.{form}") for form in self.forms}
        return {form: self.output / f"{source.name}.{form}" for form in self.forms}


@dataclass(frozen=True)
class Done:
    """A recording that is through."""

    source: Source
    heard: Transcription | None = None
    files: tuple[Path, ...] = ()
    error: AnyrigError | None = None


def sources_of(paths: Sequence[Path]) -> tuple[Source, ...]:
    """The recordings that files and folders hold; names that would be the same are told apart."""
    found: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir():
            out = set(links_out([path]))
            inside = [one for one in sorted(path.rglob("*"))
                      if _is_sound(one, path) and one not in out]  # fmt: skip
            if not inside:
                raise InvalidInputError(
                    f"{path} holds no recording", hint=f"They end in {' '.join(ENDINGS[:10])}..."
                )
            found += [(one, one.relative_to(path)) for one in inside]
        else:
            found.append((path, Path(path.name)))
    unique = dict(found)
    counts = Counter(name.with_suffix("") for name in unique.values())
    whole = Counter(unique.values())
    made = []
    for number, (path, name) in enumerate(unique.items()):
        short = name.with_suffix("")
        called = short if counts[short] == 1 else name
        if counts[short] > 1 and whole[name] > 1:
            called = name.with_name(f"{name.name}-{number + 1}")
        made.append(Source(path, called))
    return tuple(made)


def links_out(paths: Sequence[Path]) -> list[Path]:
    """Links in folders that lead out of them, which are not followed."""
    from anyrig.text.folder import leads_out

    return [
        one for path in paths if path.is_dir() for one in sorted(path.rglob("*"))
        if one.is_symlink() and _is_sound(one, path) and leads_out(one, path)
    ]  # fmt: skip


def _is_sound(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not hidden and path.suffix.lower() in ENDINGS and path.is_file()


def transcribe_files(
    order: Order,
    transcriber: Transcriber,
    *,
    begin: Callable[[Source, Sound], None] = lambda _, __: None,
    tell: Tell = lambda _: None,
) -> Iterator[Done]:
    """Each recording as it is through; one that cannot be read is an error, and the rest go on."""
    for source in order.sources:
        try:
            with opened(source.path) as sound:
                begin(source, sound)
                heard = transcriber.transcribe(sound, tell)
            files = []
            for form, path in order.targets(source).items():
                _check_target(path, order)
                write_atomic(path, written(heard, form))
                files.append(path)
            yield Done(source, heard, tuple(files))
        except InvalidInputError as error:
            yield Done(source, error=error)
        except OSError as error:
            said = error.strerror or str(error)
            yield Done(
                source,
                error=InvalidInputError(
                    f"{source.path}: {said}", hint="See whether it can be opened."
                ),
            )


def _check_target(path: Path, order: Order) -> None:
    if path.exists() and any(path.samefile(one.path) for one in order.sources):
        raise InvalidInputError(f"{path} is a recording itself", hint="Name another place with -o.")


def transcribe_bytes(
    data: bytes, name: str, transcriber: Transcriber, tell: Tell = lambda _: None
) -> Transcription:
    """A whole file that came over a wire; InvalidInputError when it is no sound."""
    if not data:
        raise InvalidInputError(f"{name} is empty", hint="Send a file of sound.")
    with opened(io.BytesIO(data), name) as sound:
        return transcriber.transcribe(sound, tell)


def verbose(heard: Transcription, *, words: bool = False) -> dict[str, JsonValue]:
    """The answer of OpenAI's `/v1/audio/transcriptions` as `verbose_json`, and what we know more.

    What an engine does not know is null. `words` puts all words in one list as well.
    """
    made = plain(heard)
    made["text"] = heard.text
    if words:
        made["words"] = [word_form(word) for line in heard.lines for word in timed(line)]
    return made
