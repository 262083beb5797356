"""What a finished book says of itself, and the names under which files carry it.

The names are those of `audio.tags`, which each format turns into its own: mp4 atoms, ID3
frames, Vorbis comments. The narrator is the composer, as in every player's list of audiobooks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_LONGEST_LINE = 255
"""Of a short description: iTunes cuts there."""

_THREE_LETTERS = dict(
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
class Tags:
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

    def of_chapter(self, title: str, track: int, num_tracks: int) -> Tags:
        """The same for a chapter's file; `track` is counted from 1."""
        book = self.album or self.title
        return replace(self, title=title, album=book, track=track, num_tracks=num_tracks)


def named(tags: Tags) -> dict[str, str]:
    """The tags by the names that an encoder takes; what is empty is left out."""
    found = {
        "title": tags.title,
        "artist": tags.author,
        "album_artist": tags.author,
        "album": tags.album or tags.title,
        "composer": tags.narrator,
        "genre": tags.genre,
        "date": tags.year,
        "track": _track(tags),
        "comment": tags.description,
        "description": shortened(tags.description, _LONGEST_LINE),
        "synopsis": tags.description,
        "publisher": tags.publisher,
        "language": three_letters(tags.language),
        "grouping": _grouping(tags),
        "series": tags.series,
        "series_part": tags.series_index if tags.series else "",
        "media_type": "2",  # an audiobook, to iTunes and those that follow it
    }
    return {name: text for name, text in found.items() if text.strip()}


def three_letters(language: str) -> str:
    """A language's code of ISO 639-2, as sound files want it; empty when it is not known."""
    first = language.strip().lower().replace("_", "-").partition("-")[0]
    if len(first) == 3 and first.isascii() and first.isalpha():
        return first
    return _THREE_LETTERS.get(first, "")


def shortened(text: str, most: int, *, num_bytes: int = 0) -> str:
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


def _track(tags: Tags) -> str:
    if not tags.track:
        return ""
    return f"{tags.track}/{tags.num_tracks}" if tags.num_tracks else str(tags.track)


def _grouping(tags: Tags) -> str:
    if not tags.series:
        return ""
    return f"{tags.series} #{tags.series_index}" if tags.series_index else tags.series
