"""A book to read while it is heard: an EPUB 3 with media overlays.

    write_readalong(Path("book.epub"), plan, timeline, audio, narrator="Aoede")

The text is the plan's own, all of it, spoken or not; what is spoken lights up as it is heard. The
same book gives the same bytes.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from anyrig.audiobooks import readalong_package as package
from anyrig.audiobooks.readalong_pages import Page, clean, pages, root, tag
from anyrig.errors import BadInput, StoreFailed
from anyrig.store.atomic import replacing
from anyrig.text.document import Picture

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.timeline import Timeline
    from anyrig.text.document import About

MEDIA_TYPES = {
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".opus": "audio/ogg; codecs=opus",
}
"""The audio that a reader of EPUB 3 must play; Opus came with EPUB 3.3, and older ones lack it."""
_PICTURES = {
    "JPEG": ("jpg", "image/jpeg"),
    "PNG": ("png", "image/png"),
    "GIF": ("gif", "image/gif"),
}
_EPOCH = "2000-01-01T00:00:00Z"


def write_readalong(
    path: Path,
    plan: Plan,
    timeline: Timeline,
    audio: Sequence[Path],
    *,
    about: About | None = None,
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
    about = about or plan.document.about
    language = tag(about.language) or _spoken_language(plan)
    written = list(pages(plan, language))
    tracks = [_track(page, timeline, number, audio[number]) for number, page in enumerate(written)]
    picture = _usable(cover or plan.document.cover)
    name = package.identifier(about, "\n".join(part.script.source for part in plan.parts))
    described = package.metadata(about, language, name, narrator=narrator, modified=modified)
    title = about.title.strip() or "Untitled"
    texts = {
        "META-INF/container.xml": package.CONTAINER,
        "EPUB/package.opf": package.package(
            written, tracks, described, language, (picture[0], picture[1]) if picture else None
        ),
        "EPUB/nav.xhtml": package.contents(written, language, title, cover=picture is not None),
        "EPUB/style.css": package.STYLE,
    }
    if picture:
        texts["EPUB/text/cover.xhtml"] = _cover_page(picture[0], title, language)
    for page, track in zip(written, tracks, strict=True):
        texts[f"EPUB/text/{page.name}.xhtml"] = page.xhtml
        if track:
            texts[f"EPUB/smil/{page.name}.smil"] = package.overlay(page, track)
    sounds = [
        (f"EPUB/{track.file}", each) for track, each in zip(tracks, audio, strict=True) if track
    ]
    pictures = {f"EPUB/{picture[0]}": picture[2]} if picture else {}
    try:
        with replacing(path) as file:
            _pack(file, texts, pictures, sounds)
    except OSError as error:
        raise StoreFailed(
            f"{path} was not written: {error}", hint="Free some room, or name another place for it."
        ) from error


def _spoken_language(plan: Plan) -> str:
    """What most of it is spoken in, where the file does not say."""
    heard = Counter(
        tag(segment.line.language) for part in plan.parts for segment in part.script.segments
    )
    return next((language for language, _ in heard.most_common() if language), "und")


def _track(page: Page, timeline: Timeline, number: int, audio: Path) -> package.Track | None:
    """The audio of a part, or nothing where none of its text is heard."""
    ending = audio.suffix.lower()
    if ending not in MEDIA_TYPES:
        raise BadInput(
            f"readers of EPUB do not play {ending or audio.name}",
            hint=f"A read-along book takes one of: {', '.join(MEDIA_TYPES)}.",
        )
    clips = package.clips(page.pieces, timeline, number)
    if not clips:
        return None
    return package.Track(f"audio/{page.name}{ending}", MEDIA_TYPES[ending], clips)


def _usable(picture: Picture | None) -> tuple[str, str, bytes] | None:
    """The cover's file, media type and bytes, as a JPEG where it is of a kind that EPUB lacks."""
    if picture is None:
        return None
    from PIL import Image

    try:
        with Image.open(io.BytesIO(picture.data)) as image:
            image.load()
            if image.format in _PICTURES:
                ending, media_type = _PICTURES[image.format]
                return f"cover.{ending}", media_type, picture.data
            made = io.BytesIO()
            image.convert("RGB").save(made, "JPEG", quality=90)
            return "cover.jpg", "image/jpeg", made.getvalue()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # a broken picture is no reason to have no book


def _cover_page(picture: str, title: str, language: str) -> str:
    body = f'<section class="cover">\n<img src="../{picture}" alt="{clean(title)}"/>\n</section>\n'
    return root(title, language, body, kind="cover")


def _pack(
    file: IO[bytes],
    texts: dict[str, str],
    pictures: dict[str, bytes],
    sounds: Sequence[tuple[str, Path]],
) -> None:
    """The archive: its type first, text packed, sound and pictures as they are."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_entry("mimetype"), "application/epub+zip")
        for name, text in texts.items():
            archive.writestr(_entry(name, zipfile.ZIP_DEFLATED), text.encode())
        for name, data in pictures.items():
            archive.writestr(_entry(name), data)
        for name, sound in sounds:
            entry = _entry(name)
            entry.file_size = sound.stat().st_size
            with sound.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target, 1 << 20)


def _entry(name: str, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    """An entry that carries nothing of the machine or the moment."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    entry.create_system = 3
    return entry
