"""What a finished book says of itself: tags, cover, titles of chapters, names of files.

The tags have the names of `audio.tags`, which each format turns into its own: mp4 atoms, ID3
frames, Vorbis comments. The narrator is the composer, as in every player's list of audiobooks. A
cover is never worth a book: one that cannot be used is left out with a warning.
"""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anyrig.audio.tags import clean_text
from anyrig.text.document import Picture
from anyrig.text.formats.picture import (
    MOST_DECODE_BYTES,
    estimate_decode_bytes,
    lay_on_white,
    list_pillow_formats,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from anyrig.audiobooks.options import ContentOptions
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.audiobooks.record import ChapterSpan

_MAX_TITLE = 120
_TITLE_BYTES = 250  # a list of chapters in mp4 holds 255
_NAME_BYTES = 140  # leaves room for an ending, a name beside it, and encrypted folders
_FORBIDDEN = set('<>:"/\\|?*')
_RESERVED = {"con", "prn", "aux", "nul", "clock$", "conin$", "conout$"} | {
    f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"
}
MAX_COVER_PIXELS = 1600
"""Pixels of the longer side; larger ones are scaled down."""
_MAX_BYTES = 4_000_000
_MAX_PIXELS = 40_000_000  # some 160 MB while they are scaled
_ACCEPTED = {"JPEG": "image/jpeg", "PNG": "image/png"}
_MAX_DESCRIPTION = 255
"""Of a short description: iTunes cuts there."""

_ISO_639_2 = dict(
    pair.split(":")
    for pair in (
        "af:afr sq:sqi am:amh ar:ara hy:hye az:aze eu:eus be:bel bn:ben bs:bos br:bre bg:bul "
        "my:mya ca:cat zh:zho hr:hrv cs:ces da:dan nl:nld en:eng eo:epo et:est fo:fao fi:fin "
        "fr:fra fy:fry gl:glg ka:kat de:deu el:ell gu:guj ht:hat ha:hau he:heb iw:heb hi:hin "
        "hu:hun is:isl ig:ibo id:ind ia:ina ga:gle it:ita ja:jpn jv:jav kn:kan kk:kaz km:khm "
        "rw:kin ky:kir ko:kor ku:kur lo:lao la:lat lv:lav lt:lit lb:ltz mk:mkd mg:mlg ms:msa "
        "ml:mal mt:mlt mi:mri mr:mar mn:mon ne:nep no:nor nb:nob nn:nno oc:oci or:ori pa:pan "
        "fa:fas pl:pol ps:pus pt:por ro:ron rm:roh ru:rus gd:gla sr:srp si:sin sk:slk sl:slv "
        "so:som es:spa su:sun sw:swa sv:swe tl:tgl tg:tgk ta:tam tt:tat te:tel th:tha bo:bod "
        "tr:tur tk:tuk uk:ukr ur:urd uz:uzb vi:vie cy:cym wo:wol xh:xho yi:yid yo:yor zu:zul "
        "sa:san as:asm co:cos kl:kal qu:que sd:snd sc:srd "
    ).split()
)


@dataclass(frozen=True)
class BookTags:
    """A book, or one chapter's file of it; empty where nothing is known."""

    title: str = ""
    """The book's; in a chapter's file the chapter's."""
    author: str = ""
    narrator: str = ""
    series: str = ""
    series_index: str = ""
    year: str = ""
    language: str = ""
    """As books give it: `en`, `de-AT`, `eng`."""
    description: str = ""
    publisher: str = ""
    genre: str = "Audiobook"
    album: str = ""
    """The book, in a chapter's file."""
    track: int = 0
    num_tracks: int = 0

    def for_chapter(self, title: str, track: int, num_tracks: int) -> BookTags:
        """The same for a chapter's file; `track` is counted from 1."""
        book = self.album or self.title
        return replace(self, title=title, album=book, track=track, num_tracks=num_tracks)


def build_tags(plan: NarrationPlan, narrator: str = "", genre: str = "Audiobook") -> BookTags:
    """The tags of a whole book."""
    known = plan.document.metadata
    return BookTags(
        title=known.title, author=", ".join(known.authors), narrator=narrator,
        series=known.series, series_index=known.series_index, year=known.year,
        language=known.language or plan.language, description=known.description,
        publisher=known.publisher, genre=genre,
    )  # fmt: skip


def encode_tags(tags: BookTags) -> dict[str, str]:
    """The tags by the names that an encoder takes; what is empty is left out."""
    found = {
        "title": tags.title,
        "artist": tags.author,
        "album_artist": tags.author,
        "album": tags.album or tags.title,
        "composer": tags.narrator,
        "genre": tags.genre,
        "date": tags.year,
        "track": _format_track(tags),
        "comment": tags.description,
        "description": cut_text(tags.description, _MAX_DESCRIPTION),
        "synopsis": tags.description,
        "publisher": tags.publisher,
        "language": to_iso_639_2(tags.language),
        "grouping": _format_series(tags),
        "series": tags.series,
        "series_part": tags.series_index if tags.series else "",
        "media_type": "2",  # an audiobook, to iTunes and those that follow it
    }
    return {name: text for name, text in found.items() if text.strip()}


def to_iso_639_2(language: str) -> str:
    """A language's code of ISO 639-2, as sound files want it; empty when it is not known."""
    first = language.strip().lower().replace("_", "-").partition("-")[0]
    if len(first) == 3 and first.isascii() and first.isalpha():
        return first
    return _ISO_639_2.get(first, "")


def cut_text(text: str, most: int, *, num_bytes: int = 0) -> str:
    """The text in at most so many characters (and bytes, if told), cut between words, with dots."""
    if len(text) <= most and not (num_bytes and len(text.encode("utf-8", "replace")) > num_bytes):
        return text
    cut = text[: most - 1]
    while num_bytes and len(cut.encode("utf-8", "replace")) > num_bytes - 3:
        cut = cut[:-1]
    space = cut.rfind(" ")
    if space > len(cut) * 2 // 3:
        cut = cut[:space]
    return cut.rstrip(" ,;:.-") + "…"


def _format_track(tags: BookTags) -> str:
    if not tags.track:
        return ""
    return f"{tags.track}/{tags.num_tracks}" if tags.num_tracks else str(tags.track)


def _format_series(tags: BookTags) -> str:
    if not tags.series:
        return ""
    return f"{tags.series} #{tags.series_index}" if tags.series_index else tags.series


# -- titles and names ------------------------------------------------------------------------------


def build_chapter_titles(marks: Sequence[ChapterSpan]) -> list[str]:
    """A title for each mark, in one flat list.

    A nested chapter keeps its own title as long as no other has the same: players show the
    beginning of a title. Where two are alike ("Chapter 1" of each part), their parents' stand in
    front ("Part Two: Chapter 1"). One without a title is called by its number.
    """
    own = [clean_text(mark.title) or f"Chapter {number}" for number, mark in enumerate(marks, 1)]
    seen = Counter(title.casefold() for title in own)
    titles = []
    above: list[tuple[int, str]] = []
    for mark, title in zip(marks, own, strict=True):
        above = [(level, over) for level, over in above if level < mark.level]
        parents = [over for _, over in above] if seen[title.casefold()] > 1 else []
        whole = ": ".join([*parents, title])
        if len(whole) > _MAX_TITLE and parents:
            whole = f"{cut_text(': '.join(parents), 50)}: {title}"
        titles.append(cut_text(whole, _MAX_TITLE, num_bytes=_TITLE_BYTES))
        above.append((mark.level, title))
    return titles


class Tracks(NamedTuple):
    """The chapters that become files, as they stand in the whole book."""

    numbers: tuple[int, ...]
    """From 1; a chapter has the same whether it is written alone or with all others."""
    titles: tuple[str, ...]
    num_all: int
    """How many the whole book has."""

    @property
    def is_whole(self) -> bool:
        """Whether they are all."""
        return len(self.numbers) == self.num_all


def number_tracks(plan: NarrationPlan, content: ContentOptions, *, selected: bool) -> Tracks:
    """Number and name chapters as in the whole book, so that one can be written again.

    Args:
        plan: of all chapters, or of some.
        content: decides which chapters the whole book has.
        selected: whether chapters were selected by number.
    """
    from anyrig.audiobooks.plan import choose_titles, select_chapters
    from anyrig.audiobooks.record import ChapterSpan

    chapters = plan.document.chapters
    whole = select_chapters(plan.document, "", content)
    titles = choose_titles(plan.document)
    spans = [ChapterSpan(titles[n], 0, 0, chapters[n].level) for n in whole]
    known = dict(zip(whole, enumerate(build_chapter_titles(spans), 1), strict=True))
    found = [known.get(part.number - 1, (part.number, part.title)) for part in plan.parts]
    silent = {part.number - 1 for part in plan.silent}
    return Tracks(
        tuple(number for number, _ in found), tuple(title for _, title in found),
        len(set(whole) - silent) if selected else len(found),
    )  # fmt: skip


def number_all_tracks(marks: Sequence[ChapterSpan]) -> Tracks:
    """The tracks of a book that is written whole."""
    titles = tuple(build_chapter_titles(marks))
    return Tracks(tuple(range(1, len(titles) + 1)), titles, len(titles))


def build_file_names(tracks: Tracks) -> list[str]:
    """A safe name for each, the same in every run: its number, which makes it unique, and title."""
    width = max(2, len(str(tracks.num_all)))
    return [
        make_file_name(f"{number:0{width}d} {make_file_name(title) if title else ''}")
        for number, title in zip(tracks.numbers, tracks.titles, strict=True)
    ]


def make_file_name(text: str) -> str:
    """One file name of a text: no folder, nothing hidden, nothing that Windows keeps to itself."""
    text = unicodedata.normalize("NFC", clean_text(text))
    cleaned = "".join(" " if sign in _FORBIDDEN or _is_invisible(sign) else sign for sign in text)
    cleaned = " ".join(cleaned.split()).strip(" .").lstrip("#-~ .")
    if cleaned.partition(".")[0].rstrip().casefold() in _RESERVED:
        cleaned = f"_{cleaned}"
    while len(cleaned.encode()) > _NAME_BYTES:
        cleaned = cleaned[:-1]
    return cleaned.rstrip(" .") or "untitled"


def _is_invisible(sign: str) -> bool:
    """Marks that turn the direction of writing and the like: two names must not look alike."""
    return unicodedata.category(sign) in ("Cf", "Co") and sign not in "\u200c\u200d"


# -- the cover -------------------------------------------------------------------------------------


class PreparedCover(NamedTuple):
    """What became of a cover."""

    picture: Picture | None
    warning: str = ""


def prepare_cover(picture: Picture | None) -> PreparedCover:
    """The picture as it is, if it is a sound JPEG or PNG; else made into one, or left out."""
    if picture is None:
        return PreparedCover(None)
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # we have our own bound
            with Image.open(io.BytesIO(picture.data), formats=list_pillow_formats()) as image:
                return _convert(picture, image)
    except MemoryError:
        return PreparedCover(None, "the cover is left out: it is too large")
    except Exception as error:  # noqa: BLE001  # decoders raise anything on broken files
        return PreparedCover(
            None, f"the cover is left out: it cannot be read ({_describe_error(error)})"
        )


def _convert(picture: Picture, image: Image) -> PreparedCover:
    width, height = image.size
    kind = image.format or ""
    if min(width, height) < 1 or width * height > _MAX_PIXELS:
        return PreparedCover(None, f"the cover is left out: it has {width:,} by {height:,} pixels")
    if estimate_decode_bytes(image) > MOST_DECODE_BYTES:
        return PreparedCover(
            None,
            f"the cover is left out: it takes too much memory ({kind} of {width:,} by {height:,}"
            " pixels)",
        )
    small = max(width, height) <= MAX_COVER_PIXELS and len(picture.data) <= _MAX_BYTES
    upright = image.getexif().get(0x0112, 1) in (0, 1)
    plain = image.mode in ("RGB", "L", "RGBA", "LA", "P", "1")
    if not small:
        # A JPEG is read at a fraction of its size.
        image.draft("RGB", (MAX_COVER_PIXELS, MAX_COVER_PIXELS))
    image.load()
    if kind in _ACCEPTED and small and upright and plain:
        return PreparedCover(Picture(picture.data, _ACCEPTED[kind]))
    return PreparedCover(Picture(_encode_jpeg(image), "image/jpeg"))


def _encode_jpeg(image: Image) -> bytes:
    """Upright, on white where one sees through it, at most `MAX_COVER_PIXELS` wide and high."""
    from PIL import ImageOps

    image.thumbnail((MAX_COVER_PIXELS, MAX_COVER_PIXELS))
    turned = ImageOps.exif_transpose(image)
    out = io.BytesIO()
    lay_on_white(turned, "RGB").save(out, "JPEG", quality=88)
    return out.getvalue()


def _describe_error(error: Exception) -> str:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "no picture" if "cannot identify" in message else message[:80]
