"""A book to read while it is heard: an EPUB 3 with media overlays.

    write_readalong(Path("book.epub"), plan, timeline, audio, narrator="Aoede")

The text is the plan's own, all of it, spoken or not; what is spoken lights up as it is heard. The
same book gives the same bytes.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.audiobooks import readalong_package as package
from anyrig.audiobooks.cover import prepare
from anyrig.audiobooks.readalong_overlay import Clip, Track, by_part, clips, overlay
from anyrig.audiobooks.readalong_pages import Page, pages
from anyrig.audiobooks.readalong_words import root, tag, words
from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.files import open_atomic

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.timeline import Timeline
    from anyrig.text.document import Metadata, Picture

MEDIA_TYPES = {
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".opus": "audio/ogg; codecs=opus",
}
"""The audio that a reader of EPUB 3 must play; Opus came with EPUB 3.3, and older ones lack it."""
_ENDINGS = {"image/jpeg": "jpg", "image/png": "png"}
_EPOCH = "2000-01-01T00:00:00Z"


def write_readalong(
    path: Path,
    plan: Plan,
    timeline: Timeline,
    audio: Sequence[Path],
    *,
    about: Metadata | None = None,
    cover: Picture | None = None,
    narrator: str = "",
    modified: str = _EPOCH,
) -> None:
    """Write the read-along book of a finished audiobook, whole or not at all.

    Args:
        path: of the new EPUB.
        plan: what was spoken.
        timeline: when it is heard.
        audio: one file for each part, from the part's mark to the next: m4a, mp3 or opus.
        about: in place of what the document says of itself.
        cover: in place of the document's.
        narrator: the voice.
        modified: the moment that the book carries, in UTC; always the same unless given, so that
            the same book is the same bytes.
    """
    assert plan.parts, "a book without parts"
    assert len(audio) == len(plan.parts) == len(timeline.marks), "one audio file for each part"
    about = about or plan.document.metadata
    language = _language(about, plan)
    written = list(pages(plan, language))
    heard = by_part(timeline)
    tracks = [
        _track(page, clips(page.pieces, heard.get(number, ()), timeline, number), audio[number])
        for number, page in enumerate(written)
    ]
    picture = prepare(cover or plan.document.cover).picture
    face = (f"cover.{_ENDINGS[picture.media_type]}", picture.media_type) if picture else None
    name = package.identifier(about, "\n".join(part.script.source for part in plan.parts))
    described = package.metadata(about, language, name, narrator=narrator, modified=modified)
    title = about.title if words(about.title) else "Untitled"
    files: dict[str, str | bytes | Path] = {
        "META-INF/container.xml": package.CONTAINER,
        "EPUB/package.opf": package.package(written, tracks, described, language, face),
        "EPUB/nav.xhtml": package.contents(written, language, title, cover=face is not None),
        "EPUB/style.css": package.STYLE,
    }
    if picture and face:
        files["EPUB/text/cover.xhtml"] = _cover_page(face[0], title, language)
        files[f"EPUB/{face[0]}"] = picture.data
    for page, track, sound in zip(written, tracks, audio, strict=True):
        files[f"EPUB/text/{page.name}.xhtml"] = page.xhtml
        if track:
            files[f"EPUB/smil/{page.name}.smil"] = overlay(page, track)
            files[f"EPUB/{track.file}"] = sound
    _write(path, files)


def _language(about: Metadata, plan: Plan) -> str:
    """As the file says, unless its text is in another."""
    main, said = tag(plan.main), tag(about.language)
    alike = said.lower().partition("-")[0] == main.lower().partition("-")[0]
    return said if said and (alike or not main) else main or "und"


def _track(page: Page, heard: tuple[Clip, ...], audio: Path) -> Track | None:
    """The audio of a part, or nothing where none of its text is heard."""
    ending = audio.suffix.lower()
    if ending not in MEDIA_TYPES:
        raise InvalidInputError(
            f"readers of EPUB do not play {ending or audio.name}",
            hint=f"A read-along book takes one of: {', '.join(MEDIA_TYPES)}.",
        )
    return Track(f"audio/{page.name}{ending}", MEDIA_TYPES[ending], heard) if heard else None


def _cover_page(picture: str, title: str, language: str) -> str:
    body = f'<section class="cover">\n<img src="../{picture}" alt="{words(title)}"/>\n</section>\n'
    return root(title, language, body, kind="cover")


def _write(path: Path, files: Mapping[str, str | bytes | Path]) -> None:
    """The archive: its type first, text packed, sound and pictures as they are."""
    try:
        with open_atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(_entry("mimetype"), "application/epub+zip")
            for name, content in files.items():
                if isinstance(content, Path):
                    _copy(archive, name, content)
                else:
                    packed = zipfile.ZIP_DEFLATED if isinstance(content, str) else 0
                    archive.writestr(_entry(name, packed), content)
    except OSError as error:
        raise StorageError(
            f"{path} was not written: {error}", hint="Free disk space, or write to another disk."
        ) from error


def _copy(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """A file into the archive, without having it in memory."""
    entry = _entry(name)
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _entry(name: str, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    """An entry that carries nothing of the machine or the moment."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    entry.create_system = 3
    return entry
