"""PDFs that are locked, scanned, damaged or hostile end in one clear sentence."""

from __future__ import annotations

import contextlib
import io
import random
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.document import Block, Document
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.pdf import draw_cover, read, read_pages
from anyrig.text.sandbox import read_book as read_any
from tests.text.formats.pdf_making import Leaf, broken, pdf, width_of, write

TEXT = "The harbour lay still under a low grey sky and the boats did not move at their ropes."


def leaf() -> Leaf:
    made = Leaf()
    made.set(60, 500, TEXT)
    return made


def scan(path: Path, pages: int) -> Path:
    """Pages that are pictures, as a scanner makes them."""
    sheets = [Image.new("RGB", (400, 600), (250, 250, 240)) for _ in range(pages)]
    sheets[0].save(path, "PDF", save_all=True, append_images=sheets[1:])
    return path


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    path = write(
        tmp_path / "book.pdf", [leaf()], language="en-GB",
        about={"Title": "The Nét", "Author": "Ann Writer; Bo Other", "Subject": "Of boats",
               "Keywords": "sea, boats", "CreationDate": "D:20190203120000Z"},
    )  # fmt: skip
    about = read_any(path).metadata
    assert (about.title, about.authors) == ("The Nét", ("Ann Writer", "Bo Other"))
    assert (about.language, about.year, about.description) == ("en-GB", "2019", "Of boats")
    assert about.subjects == ("sea", "boats")


def test_the_first_page_is_the_cover(tmp_path: Path) -> None:
    cover = draw_cover(write(tmp_path / "book.pdf", [leaf(), leaf()]))
    assert cover is not None
    image = Image.open(io.BytesIO(cover.data))
    assert image.format == "JPEG"
    assert max(image.size) == 1400
    assert abs(image.size[0] / image.size[1] - 420 / 600) < 0.01


def test_an_empty_password_opens(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()], password="", about={"Title": "The Net"})
    document = read(path, Limits())
    assert document.metadata.title == "The Net"
    assert document.chapters[0].blocks[0].text == TEXT


def test_a_password_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()], password="secret")
    with pytest.raises(ProtectedFileError, match="book.pdf is protected by a password") as caught:
        read_any(path)
    assert "without the password" in caught.value.hint


def test_an_unknown_lock_is_refused(tmp_path: Path) -> None:
    made = pdf([leaf()], password="").replace(b"/Filter /Standard", b"/Filter /EBX_HANDL")
    path = tmp_path / "book.pdf"
    path.write_bytes(made)
    with pytest.raises(ProtectedFileError, match="protected"):
        read_any(path)


def test_a_scan_is_named_with_its_pages(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pages 1-3 are pictures without text") as caught:
        read_any(scan(tmp_path / "scan.pdf", 3))
    assert "ocr" in caught.value.hint


def test_letters_without_meaning_are_refused(tmp_path: Path) -> None:
    codes = " ".join(f"<{code:02X}> <{0xE000 + code:04X}>" for code in range(32, 127))
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def"
        " 1 begincodespacerange <00> <FF> endcodespacerange"
        f" 95 beginbfchar {codes} endbfchar endcmap end end"
    ).encode()
    stream = f"<< /Length {len(table)} >>\nstream\n".encode() + table + b"\nendstream"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /ToUnicode 5 0 R >>"
    page = Leaf().put(60, 500, TEXT, font="F9")
    path = write(tmp_path / "book.pdf", [page], extra_fonts={"F9": font}, objects=[stream])
    with pytest.raises(InvalidInputError, match="does not say which letters it shows"):
        read_any(path)


def test_scanned_pages_among_others_are_a_warning(tmp_path: Path) -> None:
    wide = Leaf()
    wide.drawn.append("q 400 0 0 580 10 10 cm BI /W 2 /H 2 /CS /G /BPC 8 ID abcd EI Q")
    document = read_any(write(tmp_path / "book.pdf", [leaf(), wide, leaf()]))
    assert document.warnings == ("page 2 is pictures without text",)


@pytest.mark.parametrize("seed", range(2, 8))
def test_damaged_files_end_in_one_error_or_in_text(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(pdf([leaf(), leaf()], about={"Title": "The Net"}))
    if seed < 4:
        data = data[: chance.randrange(20, len(data))]
    else:
        for _ in range(40):
            data[chance.randrange(9, len(data))] = chance.randrange(256)
    path = tmp_path / "book.pdf"
    path.write_bytes(bytes(data))
    with contextlib.suppress(InvalidInputError):  # any other error fails the test
        assert read_any(path).chapters


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()] * 4)
    with pytest.raises(InvalidInputError, match="4 pages"):
        read(path, Limits(pages=3))


def test_a_page_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    drawn = (b"BT /F1 1 Tf 1 0 0 1 9 %d Tm (%s) Tj ET\n" % (n, b"ab" * 500) for n in range(600))
    packed = zlib.compress(b"".join(drawn), 9)
    bomb = Leaf()
    path = tmp_path / "book.pdf"
    data = pdf([bomb])
    old = zlib.compress(b"")
    path.write_bytes(data.replace(f"/Length {len(old)}".encode(), f"/Length {len(packed)}".encode())
                     .replace(old, packed))  # fmt: skip
    with pytest.raises(InvalidInputError, match="more than 400,000 letters on page 1|too long"):
        read_any(path)


def test_too_many_letters_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()] * 4)
    with pytest.raises(InvalidInputError, match="more than 100 letters"):
        read(path, Limits(characters=100))


HARBOUR = (
    "The harbour lay still un|der a low grey sky and the boats did not move at their ropes. An old"
    " man sat on the wall and mended a net that had seen better days, and he did not look up when"
    " the girl came down the steps with her basket of bread and ap|ples. She spoke to him of the"
    " weath|er and he spoke of the sea, as they did ev|ery morning, and nei|ther was in a hurry."
)
ROAD = (
    "Beyond the last house the road went up to the moor, where noth|ing grew but heath|er and the"
    " wind had the place to itself. Few peo|ple took it, and those who did kept their eyes on the"
    " ground and their hats in their hands un|til they had come to the other side of the hill."
)


def plain(text: str) -> str:
    return text.replace("|", "").rstrip("~")


def read_leaves(tmp_path: Path, leaves: list[Leaf], **options: object) -> Document:
    return read(write(tmp_path / "book.pdf", leaves, **options), Limits())


def blocks(document: Document, *kinds: str) -> list[Block]:
    return [b for c in document.chapters for b in c.blocks if not kinds or b.kind in kinds]


def texts(document: Document, *kinds: str) -> list[str]:
    return [block.text for block in blocks(document, *kinds)]


def test_lines_become_paragraphs_and_broken_words_whole(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 520, HARBOUR, indent=14)
    leaf.set(60, base, ROAD, indent=14)
    assert texts(read_leaves(tmp_path, [leaf])) == [plain(HARBOUR), plain(ROAD)]


def test_a_compound_keeps_its_hyphen_at_the_line_s_end(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(60, 500, "It was well known, and he knew that the cooperation of a well-")
    leaf.put(60, 488, "known man would help: but coop-")
    leaf.put(60, 476, "eration, as he had found in a long life of it, and with-")
    leaf.put(60, 464, "out doubt in the years 1914-")
    leaf.put(60, 452, "1918 and in the Anglo-")
    leaf.put(60, 440, "Saxon world, has a price.")
    (text,) = texts(read_leaves(tmp_path, [leaf]), "paragraph", "poem")
    joined = text.replace("\n", " ")
    assert "a well-known man" in joined
    assert "but cooperation, as" in joined
    assert "without doubt" in joined
    assert "1914-1918" in joined
    assert "Anglo-Saxon" in joined


def test_halves_of_broken_compounds_and_names_are_joined(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(60, 500, "What is detected is in the Configuration as NormSetMode says it: auto-de-")
    leaf.put(60, 488, "tected boats, and all that is written down in Harbour-Configura-")
    leaf.put(60, 476, "tion of the old town, which is what is set with a call of Norm-")
    leaf.put(60, 464, "SetMode, so that nobody has to look for it in the Anglo-")
    leaf.put(60, 452, "Saxon chronicle.")
    (text,) = texts(read_leaves(tmp_path, [leaf]), "paragraph", "poem")
    joined = text.replace("\n", " ")
    for whole in ("auto-detected", "Harbour-Configuration of", "NormSetMode, so", "Anglo-Saxon"):
        assert whole in joined


def test_a_word_broken_before_a_line_of_fixed_width_is_one(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 520, HARBOUR)
    leaf.put(60, base - 12, "Who finds a fault in this book may send a report to Bug-")
    leaf.put(60, base - 24, "zilla: https://harbour.example/enter_bug?product=Har-", font="F3")
    leaf.put(60, base - 36, "bour&version=4.1.", font="F3")
    last = texts(read_leaves(tmp_path, [leaf]))[-1]
    assert "to Bugzilla: https://harbour.example/" in last
    assert last.endswith("version=4.1.")


def test_names_in_smaller_fixed_width_do_not_end_a_paragraph(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 520, HARBOUR)
    leaf.put(60, base - 20, "The use of these values is given where the harbour is described with")
    name = "SetAutoFlushOfTheHarbour()"
    leaf.put(60, base - 32, name, 8.3, "F3")
    leaf.put(63 + width_of(name, 8.3, "F3"), base - 32, "functions.")
    assert texts(read_leaves(tmp_path, [leaf]))[-1].endswith(f"described with {name} functions.")


def test_terms_beside_their_descriptions_are_no_column(tmp_path: Path) -> None:
    leaf = Leaf(width=500)
    names = [f"HARBOUR_EVENT_NUMBER_{word}" for word in ("OPEN", "FULL", "SHUT", "LOST", "CALM")]
    base = 540.0
    for at, name in enumerate(names):
        leaf.put(40, base, name, 8.3, "F3")
        base = leaf.set(180, base, f"Number {at} is sent. {ROAD}", measure=270) - 6
    text = "\n".join(texts(read_leaves(tmp_path, [leaf])))
    places = [text.index(part) for at, name in enumerate(names) for part in (name, f"Number {at}")]
    assert places == sorted(places)


def test_notes_that_text_goes_on_over_the_page_are_not_read(tmp_path: Path) -> None:
    leaves = []
    for number in range(3):
        leaf = Leaf()
        if number:
            leaf.put(240, 560, "(continued from previous page)", 9)
        base = leaf.set(60, 530, f"Page {number} has its own words. {HARBOUR} {ROAD * number}")
        leaf.put(260, base - 10, "(suite sur la page suivante)", 9)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert len(texts(document, "page")) == 5
    assert not any(
        "page suiv" in text or "previous" in text for text in texts(document, "paragraph")
    )


@pytest.mark.parametrize("num_pages", [2, 8])
def test_heads_and_page_numbers_are_set_apart(tmp_path: Path, num_pages: int) -> None:
    leaves = []
    for number in range(1, num_pages + 1):
        leaf = Leaf().centre(570, "THE HARBOUR", 9).centre(30, str(number + 10), 9)
        leaf.set(60, 530, f"Page number {number} begins with its own words. {HARBOUR}", indent=14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert Counter(texts(document, "page")) == Counter(
        ["THE HARBOUR"] * num_pages + [str(number + 10) for number in range(1, num_pages + 1)]
    )
    assert len(texts(document, "paragraph")) == num_pages
    assert [block.page for block in blocks(document, "paragraph")] == list(range(1, num_pages + 1))


def test_text_at_the_top_of_a_page_is_no_head(tmp_path: Path) -> None:
    leaves = []
    for number in range(6):
        leaf = Leaf()
        leaf.set(60, 575, f"{number + 1} is what she said first. {HARBOUR} {ROAD}", indent=14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert texts(document, "page") == []
    assert len(texts(document, "paragraph", "item")) == 6


def test_chapter_headings_at_one_height_are_no_heads(tmp_path: Path) -> None:
    leaves = []
    for number in range(1, 4):
        leaf = Leaf().centre(560, f"Chapter {number}", 16, "F2").centre(30, str(number), 9)
        leaf.centre(530, ["The Net", "The Storm", "The Calm"][number - 1], 13, "F2")
        leaf.set(60, 500, HARBOUR, indent=14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert [chapter.title for chapter in document.chapters] == [
        "Chapter 1: The Net", "Chapter 2: The Storm", "Chapter 3: The Calm",
    ]  # fmt: skip
    assert texts(document, "page") == ["1", "2", "3"]


def test_a_paragraph_goes_on_over_the_page(tmp_path: Path) -> None:
    one = Leaf().centre(570, "THE HARBOUR", 9).centre(30, "1", 9)
    two = Leaf().centre(570, "THE HARBOUR", 9).centre(30, "2", 9)
    one.set(60, 520, ROAD, indent=14)
    long = plain(f"{HARBOUR} {ROAD}")
    words = long.split()
    one.set(60, 460, " ".join(words[:40]) + "~", indent=14)
    base = two.set(60, 530, " ".join(words[40:]))
    two.set(60, base, ROAD, indent=14)
    document = read_leaves(tmp_path, [one, two])
    assert texts(document, "paragraph") == [plain(ROAD), long, plain(ROAD)]
    assert [block.page for block in blocks(document, "paragraph")] == [1, 1, 2]


def test_columns_are_read_one_after_the_other_under_a_title(tmp_path: Path) -> None:
    leaf = Leaf(width=500, height=700)
    leaf.centre(650, "A Paper on Harbours", 18, "F2")
    left = leaf.set(40, 600, HARBOUR, measure=200)
    leaf.set(40, left - 10, ROAD, measure=200)
    right = leaf.set(260, 606, "Second column. " + ROAD, measure=200)
    leaf.set(260, right - 10, "Last of all. " + HARBOUR, measure=200)
    document = read_leaves(tmp_path, [leaf])
    assert texts(document) == [
        "A Paper on Harbours", plain(HARBOUR), plain(ROAD), "Second column. " + plain(ROAD),
        "Last of all. " + plain(HARBOUR),
    ]  # fmt: skip


def test_an_outline_makes_chapters_with_levels(tmp_path: Path) -> None:
    leaves = []
    for title in ("Part One", "The Net", "The Storm"):
        leaf = Leaf().put(60, 540, title, 16, "F2")
        leaf.set(60, 510, f"{title} it is. {HARBOUR}", indent=14)
        leaves.append(leaf)
    leaves[2].put(60, 300, "Later", 12, "F2").set(60, 280, f"Then. {ROAD}", indent=14)
    document = read_leaves(
        tmp_path, leaves,
        outline=[
            (1, "Part One", 1, 560), (2, "1. The Net", 2, 560), (2, "2. The Storm", 3, 560),
            (3, "Later", 3, 315),
        ],
    )  # fmt: skip
    assert [(chapter.title, chapter.level) for chapter in document.chapters] == [
        ("Part One", 1), ("1. The Net", 2), ("2. The Storm", 2), ("Later", 3),
    ]  # fmt: skip
    assert [b.text for b in document.chapters[3].blocks] == ["Later", f"Then. {plain(ROAD)}"]
    assert [b.level for b in blocks(document, "heading")] == [1, 2, 2, 3]


def test_footnotes_and_their_references(tmp_path: Path) -> None:
    one, two = Leaf(), Leaf()
    base = one.set(60, 520, HARBOUR, indent=14)
    one.put(60, base, "He said so himself")
    one.put(60 + width_of("He said so himself", 10), base + 4, "1", 6)
    one.put(60 + width_of("He said so himself", 10) + 3, base, ", more than once.")
    one.put(60, 80, "1", 5).put(64, 77, "In a letter to his sister, which is lost but for", 8)
    one.put(60, 67, "one page, and that is hard to read.", 8)
    two.set(60, 520, ROAD, indent=14)
    document = read_leaves(tmp_path, [one, two])
    (note,) = blocks(document, "note")
    assert "In a letter to his sister" in note.text
    assert "hard to read" in note.text
    (said,) = [block for block in blocks(document, "paragraph") if "He said so" in block.text]
    (mark,) = said.inlines
    assert (mark.kind, mark.value) == ("noteref", note.id)
    assert said.text[mark.start : mark.end] == "1"
    assert said.text.startswith("He said so himself1, more")


def test_a_table_keeps_its_rows(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 520, HARBOUR)
    rows = [
        ("Boat", "Men", "Catch"),
        ("Anna", "4", "120"),
        ("Berta", "6", "95"),
        ("Clara", "3", "7"),
    ]
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            leaf.put(60 + 90 * column, base - 20 - 14 * number, cell)
    leaf.set(60, base - 100, ROAD)
    document = read_leaves(tmp_path, [leaf])
    assert texts(document, "table") == ["\n".join("\t".join(row) for row in rows)]
    assert texts(document, "paragraph") == [plain(HARBOUR), plain(ROAD)]


def test_watermarks_and_turned_text_stand_aside(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(100, 100, "CONFIDENTIAL", 60, turn="0.707 0.707 -0.707 0.707")
    leaf.put(20, 100, "arXiv:1234.5678", 9, turn="0 1 -1 0")
    leaf.put(60, 300, "hidden words", 10, mode=3)
    leaf.set(60, 500, HARBOUR)
    document = read_leaves(tmp_path, [leaf])
    assert texts(document, "paragraph") == [plain(HARBOUR)]
    aside = " ".join(texts(document, "page"))
    assert "CONFIDENTIAL" in aside
    assert "arXiv:1234.5678" in aside
    assert "hidden words" in aside


def test_an_unseen_text_layer_over_a_scan_is_the_text(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 500, "What a program read on the scanned page.", mode=3)
    assert texts(read_leaves(tmp_path, [leaf])) == ["What a program read on the scanned page."]


@pytest.mark.parametrize("quarter", [90, 180, 270])
def test_turned_pages_are_read_upright(tmp_path: Path, quarter: int) -> None:
    turn, place = {
        90: ("0 1 -1 0", (200, 60)), 180: ("-1 0 0 -1", (380, 300)), 270: ("0 -1 1 0", (200, 540)),
    }[quarter]  # fmt: skip
    marked, sideways = Leaf(rotate=quarter), Leaf()
    step = {90: (12, 0), 180: (0, 12), 270: (-12, 0)}[quarter]
    for leaf in (marked, sideways):
        for number, line in enumerate(["First of all the lines here,", "second of the lines."]):
            leaf.put(place[0] + number * step[0], place[1] + number * step[1], line, turn=turn)
    document = read_leaves(tmp_path, [marked, sideways])
    said = " ".join(texts(document)).replace("\n", " ")
    assert said == " ".join(["First of all the lines here, second of the lines."] * 2)


def test_a_large_initial_belongs_to_its_word(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 496, "O", 34)
    leaf.put(86, 508, "nce there was a king who had three sons and one boat")
    leaf.put(86, 496, "to leave to them, and he could not make up his mind on")
    leaf.put(60, 484, "which of the three was to have it, as each was as good a man as")
    leaf.put(60, 472, "the others were and none of them could swim.")
    (text,) = texts(read_leaves(tmp_path, [leaf]))
    assert text.startswith("Once there was a king who had three sons and one boat to leave")


def test_soft_hyphens_items_verse_and_code(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(60, 540, "He had always been a man of many parts, and his under\u00ad")
    leaf.put(60, 528, "standing of the sea was great, as was his love of ships and boats.")
    leaf.put(60, 500, "\u2022 Nets, which he mended on the wall by the harbour when the weather")
    leaf.put(70, 488, "was good.")
    leaf.put(60, 476, "\u2022 Ropes.")
    verse = ["Tiger, tiger, burning bright", "In the forests of the night,",
             "What immortal hand or eye", "Could frame thy fearful symmetry?"]  # fmt: skip
    for number, line in enumerate(verse):
        leaf.put(90, 440 - 12 * number, line)
    leaf.put(60, 380, "def main():", font="F3").put(84, 368, "return 1", font="F3")
    leaf.set(60, 340, HARBOUR)
    document = read_leaves(tmp_path, [leaf])
    assert "his understanding of the sea" in texts(document, "paragraph")[0]
    assert texts(document, "item") == [
        "\u2022 Nets, which he mended on the wall by the harbour when the weather was good.",
        "\u2022 Ropes.",
    ]
    assert texts(document, "poem") == ["\n".join(verse)]
    assert texts(document, "code") == ["def main():\n    return 1"]


def test_every_letter_of_a_page_is_somewhere(tmp_path: Path) -> None:
    """Whatever the layout makes of scattered words, none of them goes missing."""
    leaf = Leaf()
    words = [f"w{number:03}" for number in range(180)]
    for number, word in enumerate(words):
        leaf.put(20 + (number * 67) % 370, 20 + (number * 131) % 560, word, 6 + number % 7)
    said = " ".join(texts(read_leaves(tmp_path, [leaf])))
    assert Counter("".join(said.split())) == Counter("".join(words))


def test_words_of_a_tight_line_are_parted(tmp_path: Path) -> None:
    """A justified line may have spaces of an eighth of an em, which no character marks."""
    leaf = Leaf()
    place = 60.0
    words = "If you want to create a new package of the distribution you should first check".split()
    for word in words:
        leaf.put(place, 500, word, 9.96)
        place += width_of(word, 9.96) + 0.13 * 9.96
    (text,) = texts(read_leaves(tmp_path, [leaf]))
    assert text == " ".join(words)


def test_spaced_out_letters_are_one_word(tmp_path: Path) -> None:
    leaf, place = Leaf(), 60.0
    for letter in "ANNOUNCEMENT":
        leaf.put(place, 500, letter, 10)
        place += width_of(letter, 10) + 2.5
    assert texts(read_leaves(tmp_path, [leaf])) == ["ANNOUNCEMENT"]


def test_heads_of_chapters_with_page_numbers_are_no_text(tmp_path: Path) -> None:
    """A head that looks like a chapter's heading, and comes with its page's number, is a head."""
    leaves = []
    for number in range(1, 9):
        chapter = 1 + (number - 1) // 4
        leaf = Leaf(width=420)
        leaf.put(60, 548, f"Chapter {chapter}: Of Nets and Boats", 10).put(
            352, 548, str(number), 10
        )
        leaf.set(60, 524, f"Page {number} is here. {HARBOUR}~", indent=14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert not [text for text in texts(document, "paragraph", "heading") if "Chapter" in text]
    assert len([text for text in texts(document, "page") if "Of Nets" in text]) == 8


@pytest.mark.parametrize("dots", [True, False])
@pytest.mark.parametrize("outline", [True, False])
def test_contents_pages_are_a_chapter_that_nobody_hears(
    tmp_path: Path, dots: bool, outline: bool
) -> None:
    names = ["The Net", "The Storm", "The Calm", "The Road", "The Moor", "The End"]
    title, contents, more = Leaf(), Leaf(), Leaf()
    title.centre(400, "A Book of the Harbour", 24, "F2")
    contents.put(60, 540, "Contents", 16, "F2")
    for at in range(24):
        name = f"{names[at // 4]}, part {'one two three four'.split()[at % 4]}"
        leaf, base = (contents, 500 - 14 * at) if at < 20 else (more, 540 - 14 * (at - 20))
        leaf.put(60, base, name)
        if dots:
            leaf.put(60 + width_of(name, 10) + 8, base, ". " * 20)
        leaf.put(350, base, f"{1 + at // 2:2}")
    leaves = [title, contents, more]
    for name in names:
        leaf = Leaf().put(60, 540, name, 16, "F2")
        leaf.set(60, 510, f"{name} it is. {HARBOUR}", indent=14)
        leaves.append(leaf)
    entries = [(1, name, 4 + at, 560.0) for at, name in enumerate(names)] if outline else None
    document = read_leaves(tmp_path, leaves, outline=entries)
    listed = [chapter for chapter in document.chapters if chapter.role == "contents"]
    assert [chapter.title for chapter in listed] == ["Contents"]
    assert sum(block.text.count("part") for block in listed[0].blocks) == 24
    others = [chapter for chapter in document.chapters if chapter.role == "body" and chapter.title]
    assert [chapter.title for chapter in others][-6:] == names
    assert not any("part" in block.text for chapter in others for block in chapter.blocks)


def test_an_index_is_back_matter(tmp_path: Path) -> None:
    index = Leaf(width=500).put(60, 560, "Index", 16, "F2")
    words = [
        "anchor", "apple", "basket", "boat", "bread", "calm", "catch", "day", "east", "girl",
        "harbour", "heather", "hill", "king", "moor", "morning", "net", "oar", "rope", "sea",
        "sky", "steps", "storm", "wall", "weather", "wind",
    ]  # fmt: skip
    for at, word in enumerate(words):
        left, base = (60, 530 - 14 * at) if at < 13 else (280, 530 - 14 * (at - 13))
        index.put(left, base, f"{word}, {at + 1}, {at + 3}\u2013{at + 4}")
    leaves = []
    for name in ("The Net", "The Storm", "The Calm"):
        leaf = Leaf(width=500).put(60, 560, name, 16, "F2")
        leaf.set(60, 530, HARBOUR, indent=14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, [*leaves, index])
    assert [(one.title, one.role) for one in document.chapters] == [
        ("The Net", "body"), ("The Storm", "body"), ("The Calm", "body"), ("Index", "back"),
    ]  # fmt: skip


def test_a_table_with_a_column_of_rising_numbers_is_no_contents(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 540, HARBOUR)
    for row in range(6):
        leaf.put(60, base - 20 - 14 * row, "abcdef"[row] * 5).put(
            250, base - 20 - 14 * row, str(row + 1)
        )
    leaf.set(60, base - 130, f"{ROAD} {HARBOUR} {ROAD}")
    document = read_leaves(tmp_path, [leaf])
    assert [chapter.role for chapter in document.chapters] == ["body"]


def test_a_line_that_runs_over_the_edge_is_whole(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 540, HARBOUR)
    address = (
        "http://example.org/a/very/long/address/that/no/line/of/this/small/page/can/hold/whole"
    )
    leaf.put(60, base - 30, address)
    document = read_leaves(tmp_path, [leaf])
    assert texts(document, "page") == []
    assert address in texts(document)


def test_bullets_of_any_kind_begin_items(tmp_path: Path) -> None:
    """A bullet far before its text is no cell of a table; in a font of pictures, `q` is a box."""
    symbols = "<< /Type /Font /Subtype /Type1 /BaseFont /Wingdings /Encoding /WinAnsiEncoding >>"
    leaf = Leaf()
    base = leaf.set(60, 540, HARBOUR) - 12
    for at, (sign, font) in enumerate(
        [("\u2022", "F1"), ("\u2022", "F1"), ("q", "F9"), ("q", "F9")]
    ):
        leaf.put(70, base - 12 * at, sign, 10, font).put(90, base - 12 * at, f"Boat number {at}")
    document = read_leaves(tmp_path, [leaf], extra_fonts={"F9": symbols})
    assert texts(document, "item") == [f"\u2022 Boat number {at}" for at in range(4)]


def test_an_item_beside_a_picture_is_one_item(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 540, HARBOUR) - 12
    leaf.put(60, base, "\u2022").put(75, base, "This rule is used as the random number")
    leaf.put(75, base - 12, "generator used for")
    leaf.put(75, base - 24, "large integers in nets")
    expected = (
        "\u2022 This rule is used as the random number generator used for large integers in nets"
    )
    assert texts(read_leaves(tmp_path, [leaf]), "item") == [expected]


def test_a_number_in_a_sentence_begins_no_item(tmp_path: Path) -> None:
    leaf = Leaf()
    lines = ["There are three reasons why nobody went out there: (1) it was cold in the",
             "harbour and the nets were wet and there were no people who could do it and",
             "(2) the boats did not move at their ropes in the harbour and the captain (p.",
             "55) said that they had to wait for the others, who had not come as they said.",
    ]  # fmt: skip
    for at, line in enumerate(lines):
        leaf.put(60, 500 - 12 * at, line)
    assert texts(read_leaves(tmp_path, [leaf])) == [" ".join(lines)]


def test_capitals_are_broken_at_the_line_s_end_too(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(60, 500, "Without any warranty of fitness for a particular PUR-")
    leaf.put(60, 488, "POSE. See the licence for more of it, and what is said there.")
    (text,) = texts(read_leaves(tmp_path, [leaf]))
    assert "particular PURPOSE. See" in text


def test_a_power_behind_a_bracket_is_no_note(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 500, "It takes O(N").put(60 + width_of("It takes O(N", 10), 504, "2", 6)
    leaf.put(60 + width_of("It takes O(N", 10) + 3.2, 500, ") steps for all of the nets.")
    document = read_leaves(tmp_path, [leaf])
    assert texts(document) == ["It takes O(N2) steps for all of the nets."]
    assert not [one for block in document.blocks for one in block.inlines]


def test_a_cell_of_several_lines_is_one_cell(tmp_path: Path) -> None:
    leaf = Leaf()
    rows = [("RX8E", "controller with two drives and"), ("", "one cable"), ("RK", "disk"),
            ("DT", "tape that is"), ("", "wound up"), ("TT", "terminal")]  # fmt: skip
    for at, (name, text) in enumerate([("CPU", "the memory"), ("LPT", "printer"), *rows]):
        if name:
            leaf.put(60, 500 - 12 * at, name)
        leaf.put(140, 500 - 12 * at, text)
    (table,) = texts(read_leaves(tmp_path, [leaf]), "table")
    assert table.splitlines()[2:] == [
        "RX8E\tcontroller with two drives and one cable", "RK\tdisk",
        "DT\ttape that is wound up", "TT\tterminal",
    ]  # fmt: skip


def test_the_labels_of_a_drawing_are_a_picture_s(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.set(60, 540, HARBOUR, indent=14)
    for at, word in enumerate(["harbour", "boat", "net", "rope", "sea", "old pier", "gate"]):
        leaf.put(70 + (at * 83) % 240, 440 - 9 * at, word, 7)
    leaf.put(60, 350, "Figure 1: The harbour from above.")
    leaf.set(60, 320, HARBOUR, indent=14)
    document = read_leaves(tmp_path, [leaf])
    assert len(texts(document, "image")) == 1
    assert texts(document)[2] == "Figure 1: The harbour from above."


def test_an_outline_s_chapter_begins_at_its_number(tmp_path: Path) -> None:
    leaves = []
    for number, name in enumerate(("The Net", "The Storm"), 1):
        leaf = Leaf().put(60, 540, f"Chapter {number}", 14, "F2").put(60, 510, name, 18, "F2")
        leaf.set(60, 480, HARBOUR, indent=14)
        leaves.append(leaf)
    entries = [(1, "The Net", 1, 520.0), (1, "The Storm", 2, 520.0)]
    document = read_leaves(tmp_path, leaves, outline=entries)
    assert [(chapter.title, chapter.blocks[0].text) for chapter in document.chapters] == [
        ("The Net", "Chapter 1"), ("The Storm", "Chapter 2"),
    ]  # fmt: skip


def test_an_outline_may_word_its_titles_otherwise(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 550, "FIRST PART - WHO AM I THEN?", 14, "F2")
    leaf.set(60, 520, HARBOUR, indent=14)
    leaf.put(60, 400, "SECOND PART - WHERE AM I THEN?", 14, "F2")
    leaf.set(60, 370, f"There. {HARBOUR}", indent=14)
    entries = [(1, "I - Who am I then?", 1, 0.0), (1, "II - Where am I then?", 1, 0.0)]
    document = read_leaves(tmp_path, [leaf], outline=entries)
    assert [chapter.title for chapter in document.chapters] == [title for _, title, _, _ in entries]
    assert all(chapter.num_characters > 100 for chapter in document.chapters)


def test_heads_and_feet_are_in_one_order_whatever_the_hashes(tmp_path: Path) -> None:
    leaves = []
    for number in range(12):
        leaf = Leaf().put(60, 570, "Of Nets and Boats", 9).put(60, 556, "A Second Head", 9)
        leaf.set(60, 520, f"Page {number} is here. {HARBOUR}")
        leaves.append(leaf.put(60, 40, "The Publisher", 9).put(60, 26, str(number + 1), 9))
    document = read_leaves(tmp_path, leaves)
    for page in range(1, 13):
        aside = [block.text for block in blocks(document, "page") if block.page == page]
        assert aside == ["Of Nets and Boats", "A Second Head", "The Publisher", str(page)]


def test_titles_of_slides_are_no_running_heads(tmp_path: Path) -> None:
    leaves = []
    names = "nets ropes sails boats gulls piers nests stairs walls bread lamps doors".split()
    for number, name in enumerate(names):
        title = "The harbour, continued" if number in (3, 4, 5) else f"What is known of {name}"
        leaf = Leaf(width=600, height=420).put(40, 390, title, 11, "F2")
        leaf.set(40, 300, f"Boat {number}. {HARBOUR}", measure=500)
        leaves.append(leaf)
    found = texts(read_leaves(tmp_path, leaves), "heading", "paragraph")
    assert "What is known of ropes" in found
    assert "What is known of bread" in found


def test_a_title_on_two_pages_is_two_headings(tmp_path: Path) -> None:
    leaves = [Leaf().put(60, 540, "One and the same", 24, "F2") for _ in range(2)]
    leaves += [Leaf() for _ in range(4)]
    for leaf in leaves[1:]:
        leaf.set(60, 300, HARBOUR)
    assert texts(read_leaves(tmp_path, leaves), "heading") == ["One and the same"] * 2


def test_a_heading_of_two_lines_over_columns_is_one(tmp_path: Path) -> None:
    leaf = Leaf(width=600).put(60, 570, "Recovering the nets from a damaged harbour", 18, "F2")
    leaf.put(60, 548, "wall", 18, "F2")
    for left, name in ((60, "One"), (320, "Two")):
        leaf.set(left, 500, f"{name}. {HARBOUR} {ROAD}", measure=220)
    heading = "Recovering the nets from a damaged harbour wall"
    assert texts(read_leaves(tmp_path, [leaf]), "heading") == [heading]


def test_a_title_page_is_one_chapter(tmp_path: Path) -> None:
    title = Leaf().centre(500, "Manual of", 16, "F2").centre(460, "The Harbour", 26, "F2")
    title.centre(420, "for people with boats", 18, "F2")
    leaves = [title]
    for name in ("Nets", "Ropes", "Sails"):
        leaf = Leaf().put(60, 540, name, 16, "F2")
        leaf.set(60, 510, HARBOUR, indent=14)
        leaves.append(leaf)
    titles = [chapter.title for chapter in read_leaves(tmp_path, leaves).chapters]
    assert titles == ["The Harbour", "Nets", "Ropes", "Sails"]


def test_a_list_in_bold_is_no_row_of_headings(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 560, "What is in the box", 10, "F2")
    base = leaf.set(60, 530, HARBOUR)
    for at in range(5):
        leaf.put(60, base - 20 * at - 20, f"file_{at}.c", 10, "F2")
    for at in range(3):
        leaf.set(60, base - 140 - 90 * at, HARBOUR)
    assert texts(read_leaves(tmp_path, [leaf]), "heading") == ["What is in the box"]


def test_the_contents_of_one_chapter_are_not_read(tmp_path: Path) -> None:
    names = ["Limits of the net", "The mended rope", "Reports of the storm", "What is left"]
    leaf = Leaf().put(60, 560, "4. The Calm", 16, "F2")
    leaf.put(60, 536, "Table of Contents", 10, "F2")
    for at, name in enumerate(names):
        leaf.put(60, 520 - 13 * at, f"4.{at + 1}. {name} {'.' * 30} {31 + at}")
    leaf.set(60, 440, f"These are some thoughts. {HARBOUR} {ROAD}")
    leaves = [
        Leaf().put(60, 560, f"{at}. {name}", 16, "F2") for at, name in enumerate(names[1:], 1)
    ]
    for each in leaves:
        each.set(60, 530, HARBOUR)
    document = read_leaves(tmp_path, [*leaves, leaf])
    assert [chapter.title for chapter in document.chapters][-1] == "4. The Calm"
    assert {chapter.role for chapter in document.chapters} == {"body"}
    read = [block.text for block in blocks(document) if block.kind != "page"]
    assert not any("Contents" in text or "Limits" in text for text in read)
    assert any(text.startswith("These are some thoughts") for text in read)


def test_contents_may_have_a_title_in_any_language(tmp_path: Path) -> None:
    title, contents = Leaf().centre(400, "A Book", 24, "F2"), Leaf()
    contents.put(60, 540, "Cuprins pe scurt", 16, "F2")
    for at in range(8):
        contents.put(60, 500 - 14 * at, f"Chapter of boat {at}").put(
            350, 500 - 14 * at, f"{3 + at:2}"
        )
    text = Leaf().put(60, 540, "Chapter of boat 0", 16, "F2")
    text.set(60, 500, HARBOUR)
    document = read_leaves(tmp_path, [title, contents, text])
    listed = [chapter for chapter in document.chapters if chapter.role == "contents"]
    assert [chapter.title for chapter in listed] == ["Cuprins pe scurt"]


def test_contents_without_page_numbers_are_what_comes_again(tmp_path: Path) -> None:
    names = ["The Net", "The Storm", "The Calm", "The Road", "The Moor", "The End"]
    leaf = Leaf().put(60, 560, "Table of Contents", 16, "F2")
    for at, name in enumerate(names):
        leaf.put(60, 530 - 16 * at, f"{at + 1}. {name}")
    leaves = [leaf]
    for name in names:
        leaf = Leaf().put(60, 560, name, 16, "F2")
        leaf.set(60, 530, f"{name} it is. {HARBOUR}", indent=14)
        leaves.append(leaf)
    chapters = read_leaves(tmp_path, leaves).chapters
    assert [chapter.title for chapter in chapters] == ["Table of Contents", *names]
    assert [chapter.role for chapter in chapters] == ["contents", *["body"] * 6]
    assert chapters[0].blocks[-1].text == "6. The End"


def test_dots_that_lead_to_a_name_are_not_read(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 500, f"Nets {'.' * 40} Dave Cummins")
    assert texts(read_leaves(tmp_path, [leaf])) == ["Nets Dave Cummins"]


def test_letters_whose_boxes_overlap_have_spaces_between_words(tmp_path: Path) -> None:
    leaf, place = Leaf(), 60.0
    for word in ("Table", "And", "Contents"):
        for letter in word:
            leaf.put(place, 500, letter, 20)
            place += width_of(letter, 20) - 3
        place += 3.6
    assert texts(read_leaves(tmp_path, [leaf])) == ["Table And Contents"]


def test_text_from_right_to_left_with_numbers_and_foreign_words(tmp_path: Path) -> None:
    """Small letters stand for Hebrew; the line is drawn as one sees it, from the left."""
    letters = {code: chr(0x05D0 + code - 97) if 97 <= code <= 122 else chr(code)
               for code in range(32, 127)}  # fmt: skip
    codes = " ".join(f"<{code:02X}> <{ord(letter):04X}>" for code, letter in letters.items())
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def"
        " 1 begincodespacerange <00> <FF> endcodespacerange"
        f" 95 beginbfchar {codes} endbfchar endcmap end end"
    ).encode()
    stream = f"<< /Length {len(table)} >>\nstream\n".encode() + table + b"\nendstream"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /ToUnicode 5 0 R >>"
    page = Leaf().put(60, 500, "nmlk gf XYZ 1.5 (12 ed) cba", font="F9")
    path = write(tmp_path / "a.pdf", [page], extra_fonts={"F9": font}, objects=[stream])
    said = "abc (de 12) XYZ 1.5 fg klmn"
    expected = "".join(letters[ord(letter)] for letter in said)
    assert texts(read(path, Limits())) == [expected]


def test_words_of_a_justified_line_far_apart_are_no_cells(tmp_path: Path) -> None:
    leaf = Leaf()
    lines = ["Servers and clients are", "environment of a completely", "configured school network",
             "which implements a number", "of workstations inside it"]  # fmt: skip
    for number, line in enumerate(lines):
        place = 60.0
        slack = (150 - sum(width_of(word, 10) for word in line.split())) / (line.count(" ") or 1)
        for word in line.split():
            leaf.put(place, 500 - 12 * number, word)
            place += width_of(word, 10) + slack
    leaf.put(60, 440, "and ends here.")
    assert texts(read_leaves(tmp_path, [leaf])) == [" ".join([*lines, "and ends here."])]


def test_a_head_right_above_the_text_is_no_text(tmp_path: Path) -> None:
    leaves = []
    for number in range(1, 6):
        leaf = Leaf().put(60, 542, "The Harbour Manual, second edition")
        leaf.set(60, 530, f"{'abcde'[number - 1]} page of it. {HARBOUR}~")
        leaf.put(60, 30, "file:///home/ann/harbour.html", 8).put(340, 30, f"{number}/5", 8)
        leaves.append(leaf)
    said = " ".join(texts(read_leaves(tmp_path, leaves), "paragraph", "heading", "item"))
    assert "Manual" not in said
    assert "harbour.html" not in said
    assert "/5" not in said
    assert said.count("harbour lay") == 5


def test_a_list_without_page_numbers_is_contents_by_its_dots(tmp_path: Path) -> None:
    contents = Leaf().put(60, 560, "Table of Contents", 16, "F2")
    for at in range(8):
        contents.put(60, 530 - 14 * at, f"{at + 1}. Of boats and nets {'.' * 40}??")
    body = Leaf().put(60, 560, "The Net", 16, "F2")
    body.set(60, 530, HARBOUR)
    more = Leaf().put(60, 560, "The Storm", 16, "F2")
    more.set(60, 530, ROAD)
    document = read_leaves(tmp_path, [contents, body, more])
    assert [chapter.role for chapter in document.chapters][0] == "contents"
    assert not any("boats and nets" in b.text for c in document.chapters if c.role == "body"
                   for b in c.blocks)  # fmt: skip


def test_an_outline_entry_over_no_list_hides_no_text(tmp_path: Path) -> None:
    """A chapter with a small list of its sections, and an entry of the outline over it."""
    leaves = []
    for name in ("The Net", "The Storm", "The Calm"):
        leaf = Leaf().put(60, 560, name, 16, "F2")
        leaf.put(60, 530, "Table of Contents", 10, "F2").put(60, 514, "1.1 First of all")
        leaf.set(60, 490, HARBOUR)
        leaves.append(leaf)
    entries = []
    for number, name in enumerate(("The Net", "The Storm", "The Calm"), 1):
        entries += [(1, name, number, 575.0), (2, "Table of Contents", number, 540.0)]
    document = read_leaves(tmp_path, leaves, outline=entries)
    assert {chapter.role for chapter in document.chapters} == {"body"}
    assert [c.title for c in document.chapters] == ["The Net", "The Storm", "The Calm"]


def test_pages_and_books_have_one_layout(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 540, "Of Nets and Boats", 16, "F2")
    leaf.set(60, 510, HARBOUR)
    path = write(tmp_path / "a.pdf", [leaf])
    book, pages = read(path, Limits()), read_pages(path, Limits(), lambda _page, _of: None)
    assert [(b.kind, b.text) for b in pages.blocks] == [(b.kind, b.text) for b in book.blocks]
    assert pages.parts("page")[0].headings == ((0, 17),)


def test_lines_of_many_dots_are_read_at_once(tmp_path: Path) -> None:
    leaf = Leaf()
    for number in range(20):
        leaf.put(60, 540 - 14 * number, "Of boats" + " ." * 150 + " and no number at all", 4)
    document = read_any(write(tmp_path / "a.pdf", [leaf]), limits=Limits(seconds=20))
    assert "no number at all" in document.text


def test_page_numbers_under_a_small_block_of_text_are_no_text(tmp_path: Path) -> None:
    leaves = []
    for number in range(1, 7):
        leaf = Leaf(width=595, height=836).put(302, 201, str(number + 6))
        text = f"Sheet {number}. {ROAD} {HARBOUR} {ROAD}"
        leaf.set(127, 226 + 12 * (len(broken(text, 350, 10)) - 1), text, measure=350)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert texts(document, "page") == [str(number + 6) for number in range(1, 7)]
    assert not any(
        word.isdigit() and int(word) > 6
        for text in texts(document, "paragraph", "heading")
        for word in text.split()
    )


def test_accents_of_capitals_are_on_their_letters(tmp_path: Path) -> None:
    leaf = Leaf().put(62, 505, "\u00b4", 24).put(60, 500, "Electricit", 24)
    end = 60 + width_of("Electricit", 24)
    leaf.put(end, 500, "e", 24).put(end + 1.5, 500, "\u00b4", 24)
    leaf.set(60, 460, HARBOUR)
    assert texts(read_leaves(tmp_path, [leaf]), "heading") == ["\u00c9lectricit\u00e9"]


def test_a_letter_kerned_under_the_one_before_stays_in_its_word(tmp_path: Path) -> None:
    leaf, size = Leaf(), 10.0
    place = 60 + width_of("A text of T", size) - 0.17 * size
    leaf.put(60, 500, "A text of T", size).put(place, 500 - 0.215 * size, "E", size)
    place += width_of("E", size) - 0.125 * size
    leaf.put(place, 500, "X by its maker, set in one long line.", size)
    [text] = texts(read_leaves(tmp_path, [leaf]), "paragraph")
    assert text == "A text of TEX by its maker, set in one long line."


def test_the_numbers_of_lines_stand_aside(tmp_path: Path) -> None:
    leaf = Leaf()
    lines = broken(f"{HARBOUR} {ROAD}", 300, 10)
    for number, line in enumerate(lines):
        leaf.put(60, 500 - 12 * number, line)
        name = str(number + 8)
        leaf.put(50 - width_of(name, 5), 500 - 12 * number, name, 5)
    document = read_leaves(tmp_path, [leaf])
    assert texts(document, "paragraph") == [f"{HARBOUR} {ROAD}".replace("|", "")]
    assert texts(document, "page")[:2] == ["8", "9"]


def test_the_numbers_of_a_table_are_its_cells(tmp_path: Path) -> None:
    leaf = Leaf()
    below = leaf.set(60, 540, HARBOUR)
    for number in range(1, 9):
        leaf.put(62, below - 14 * number, str(number)).put(
            120, below - 14 * number, f"boat {number}"
        )
    [table] = texts(read_leaves(tmp_path, [leaf]), "table")
    assert table.startswith("1\tboat 1\n2\tboat 2")


def test_a_slide_that_is_built_up_is_read_once(tmp_path: Path) -> None:
    lines = ["The harbour", "Boats come in", "Nets are dried", "Bread is baked", "Lamps are lit"]
    leaves = []
    for shown in (2, 3, 5):
        leaf = Leaf(width=600, height=420)
        for at, line in enumerate(lines[:shown]):
            leaf.put(60, 380 - 40 * at, line, 24 if at == 0 else 14)
        leaves.append(leaf)
    document = read_leaves(tmp_path, [*leaves, Leaf(width=600, height=420).put(60, 380, "End", 24)])
    heard = [block.text for block in blocks(document) if block.kind != "page"]
    assert " ".join(heard).count("Boats come in") == 1
    assert "Lamps are lit" in " ".join(heard)
    pages = read_pages(tmp_path / "book.pdf", Limits(), None)
    assert sum(block.text.count("Boats come in") for block in blocks(pages)) == 3


def test_a_dash_in_a_sentence_begins_no_item(tmp_path: Path) -> None:
    leaf = Leaf()
    for at, line in enumerate(
        ("Boats that were built for the sea are called ships or by their names",
         "\u2013 and so are those that never left the river where they had been",
         "made.")
    ):  # fmt: skip
        leaf.put(60, 500 - 12 * at, line)
    assert len(texts(read_leaves(tmp_path, [leaf]), "paragraph", "item")) == 1


def test_a_word_broken_in_a_cell_is_whole(tmp_path: Path) -> None:
    leaf = Leaf()
    rows = [("CPU", "the memory"), ("LPT", "printer"), ("RX", "values in zig-zag or-"),
            ("", "der, all of them"), ("RK", "disk")]  # fmt: skip
    for at, (name, text) in enumerate(rows):
        if name:
            leaf.put(60, 500 - 12 * at, name)
        leaf.put(140, 500 - 12 * at, text)
    [table] = texts(read_leaves(tmp_path, [leaf]), "table")
    assert "RX\tvalues in zig-zag order, all of them" in table.splitlines()


def test_contents_whose_titles_leave_no_place_for_dots(tmp_path: Path) -> None:
    contents, more = Leaf().put(60, 560, "Contents", 16, "F2"), Leaf()
    for at in range(12):
        contents.put(60, 520 - 14 * at, f"The boat number {at} " + ". " * 20 + f" {at + 3}")
    contents.put(60, 352, "Widths and heights of the planes of each pixel of it . . . 16")
    contents.put(60, 338, "A title that was followed by none at all, for its length 17")
    for at in range(6):
        more.put(60, 540 - 14 * at, f"The net number {at} " + ". " * 20 + f" {at + 18}")
    text = Leaf()
    text.set(60, 500, HARBOUR)
    document = read_leaves(tmp_path, [contents, more, text])
    [listed] = [chapter for chapter in document.chapters if chapter.role == "contents"]
    assert sum("pixel" in block.text or "net" in block.text for block in listed.blocks) == 7
    body = [chapter for chapter in document.chapters if chapter.role == "body"]
    assert not any("title that" in block.text for one in body for block in one.blocks)


def test_an_outline_that_lost_letters_takes_them_from_the_page(tmp_path: Path) -> None:
    leaf = Leaf().put(60, 540, "1. \u00dcber Muttprint", 16, "F2")
    leaf.set(60, 510, HARBOUR)
    document = read_leaves(tmp_path, [leaf], outline=[(1, "1. ber Muttprint", 1, 560.0)])
    assert [chapter.title for chapter in document.chapters] == ["1. \u00dcber Muttprint"]


def test_a_foot_of_two_lines_that_a_full_page_runs_over(tmp_path: Path) -> None:
    leaves = []
    for number in range(8):
        leaf = Leaf().put(60, 40, "Written by Bo Larsen (bo at example", 9).put(60, 28, ")", 9)
        leaf.set(60, 540, f"Sheet {number}. {HARBOUR}")
        if number == 3:
            leaf.put(60, 14, "A line that runs over the foot of its page.")
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    heard = " ".join(block.text for block in blocks(document) if block.kind != "page")
    assert "Bo Larsen" not in heard
    assert " ) " not in heard
    assert "A line that runs over" in heard


def test_notes_in_the_margin_are_in_no_sentence(tmp_path: Path) -> None:
    leaves = []
    for number in range(4):
        leaf = Leaf(width=500)
        lines = broken(f"Sheet {number}. {HARBOUR} {ROAD}", 300, 10)
        for at, line in enumerate(lines):
            leaf.put(60, 500 - 12 * at, line)
            if at == 2:
                leaf.put(60 + width_of(line, 10), 480, str(number + 1), 6)
        leaf.put(390, 476, f"{number + 1} harbour.example", 7)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert [text.split()[0] for text in texts(document, "note")] == ["1", "2", "3", "4"]
    assert not any("example" in text for text in texts(document, "paragraph"))


def test_pages_full_of_accents_or_numbers_are_read_at_once(tmp_path: Path) -> None:
    accents, numbers = Leaf(), Leaf()
    for at in range(300):
        accents.put(20, 20 + at, "\u00b4a" * 200, 3)
    for at in range(9_000):
        numbers.put(20 + at % 90 * 4, 20 + at // 90 * 5, str(1000 - at // 90), 1.5)
    start = time.process_time()
    read_leaves(tmp_path, [accents, numbers])
    assert time.process_time() - start < 30


def test_a_paragraph_that_is_set_in_is_one_of_its_own(tmp_path: Path) -> None:
    """Also where the one before ends in a full line without a full stop."""
    title = "He quotes it from memory, as one quotes what was read when young [The Tides, page 106]"
    leaf = Leaf()
    base = leaf.set(60, 560, plain(HARBOUR), indent=14)
    base = leaf.set(60, base, f"{plain(ROAD)} {title}", indent=14)
    leaf.set(60, base, f"Notwithstanding that, {plain(HARBOUR)}", indent=14)
    assert texts(read_leaves(tmp_path, [leaf])) == [
        plain(HARBOUR), f"{plain(ROAD)} {title}", f"Notwithstanding that, {plain(HARBOUR)}",
    ]  # fmt: skip


def test_hyphens_belong_to_compounds_where_no_word_is_broken(tmp_path: Path) -> None:
    """As in what browsers and word processors set, which only break after written hyphens."""
    leaf = Leaf()
    halves = ["semi-/slaves", "wealth-/producers", "anti-/statism", "non-/profits", "sea-/farers"]
    base = 540.0
    for number, pair in enumerate(halves):
        one, two = pair.split("/")
        leaf.put(
            60, base, f"The tide of the day {number} was seen from the old stone wall by {one}"
        )
        leaf.put(60, base - 12, f"{two} and all the other people of the town who were there then.")
        base -= 24
    joined = " ".join(texts(read_leaves(tmp_path, [leaf])))
    assert all(pair.replace("/", "") in joined for pair in halves)


def test_words_broken_with_a_sign_of_its_own(tmp_path: Path) -> None:
    """Some programs break words with a hyphen that they write nowhere else."""
    font = (
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman"
        " /Encoding << /BaseEncoding /WinAnsiEncoding /Differences [150 /uni2010] >> >>"
    )
    leaf = Leaf()
    broken, written = ["ex/actly", "down/ward", "inter/view"], ["co/operative", "class/room"]
    base = 540.0
    for pair in broken + written:
        one, two = pair.split("/")
        sign = "\u2013" if pair in broken else "-"
        line = f"A view down the inter-island ferry in the ward of the old town {one}{sign}"
        leaf.put(60, base, line, font="F4")
        leaf.put(60, base - 12, f"{two} and all the other people of the town who were there then.")
        base -= 24
    joined = " ".join(texts(read_leaves(tmp_path, [leaf], extra_fonts={"F4": font})))
    assert all(pair.replace("/", "") in joined for pair in broken)
    assert all(pair.replace("/", "-") in joined for pair in written)


def test_other_endings_say_whether_a_word_has_a_hyphen(tmp_path: Path) -> None:
    leaf = Leaf()
    known = ["He moved downwards with co-operators", "He examines the direct light of it",
             "The ward is down, the direct road", "The directors were written of, and"]  # fmt: skip
    pairs = ["down/ward", "ex/amined", "co-oper/ating", "direct/or,"]
    base = 540.0
    for text, pair in zip(known, pairs, strict=True):
        one, two = pair.split("/")
        leaf.put(60, base, f"{text}, as he who told of it said {one}-")
        leaf.put(60, base - 12, f"{two} and all the other people of the town who were there then.")
        base -= 24
    joined = " ".join(texts(read_leaves(tmp_path, [leaf])))
    assert all(pair.replace("/", "") in joined for pair in pairs)


def test_columns_with_a_narrow_gutter(tmp_path: Path) -> None:
    """A full line leaves less than a wide space to the next column."""
    leaf = Leaf(width=460)
    left, right = plain(f"{HARBOUR} {ROAD}"), plain(f"{ROAD} {HARBOUR} {ROAD}")
    base = leaf.set(30, 560, f"{plain(HARBOUR)}~", measure=196, size=9, leading=11)
    leaf.set(30, base, plain(ROAD), measure=199, size=9, leading=11)
    leaf.set(234, 560, right, measure=196, size=9, leading=11)
    assert texts(read_leaves(tmp_path, [leaf])) == [left, right]


def test_lines_beside_a_figure_are_one_paragraph(tmp_path: Path) -> None:
    leaf = Leaf()
    base = leaf.set(60, 560, plain(HARBOUR))
    base = leaf.set(60, base - 6, plain(f"{ROAD} {HARBOUR}"), measure=150)
    leaf.set(60, base - 6, plain(ROAD))
    assert texts(read_leaves(tmp_path, [leaf])) == [
        plain(HARBOUR), plain(f"{ROAD} {HARBOUR}"), plain(ROAD)
    ]  # fmt: skip


def test_sentences_whose_lines_were_broken_before_are_whole(tmp_path: Path) -> None:
    leaf = Leaf()
    leaf.put(
        60, 540, "The programme is only a face for the order that does the work. Choose only a"
    )
    leaf.put(60, 528, "few of the boats")
    leaf.put(
        60, 516, "that you want to turn over, and it gives all the orders that are needed on a"
    )
    leaf.put(60, 504, "day like this.")
    assert len(texts(read_leaves(tmp_path, [leaf]))) == 1


def test_a_listing_that_runs_over_the_page_does_not_widen_its_column(tmp_path: Path) -> None:
    leaf = Leaf()
    base = 560.0
    for number in range(3):
        ragged = ["The ferry goes from the old quay on the days of the week that", "are even, when"]
        for at, line in enumerate(ragged):
            leaf.put(60 - at * 0, base - 12 * at, f"{line} {'x' * (3 * number)}".strip())
        leaf.put(60, base - 24, "the tide is high.")
        base -= 48
    leaf.put(60, base, "x" * 200, font="F3")
    first = texts(read_leaves(tmp_path, [leaf]), "paragraph")[0]
    assert first.endswith("the tide is high.")


def test_a_head_that_is_called_as_a_chapter_is_no_text(tmp_path: Path) -> None:
    """On one page only, in small type, where the other pages have their heads."""
    leaves = []
    for number in range(8):
        leaf = Leaf()
        leaf.put(60, 575, "Introduction" if number == 2 else "A Harbour Book", 8)
        leaf.set(60, 545, f"{plain(HARBOUR)} {plain(ROAD)}")
        leaf.centre(30, str(number + 1), 8)
        leaves.append(leaf)
    document = read_leaves(tmp_path, leaves)
    assert "Introduction" in texts(document, "page")
    assert "Introduction" not in texts(document, "paragraph", "heading")


def test_an_outline_of_the_last_pages_only_hides_no_chapters(tmp_path: Path) -> None:
    leaves = [
        Leaf().put(60, 560, f"The {name} Boat", 16, "F2") for name in ("Red", "Blue", "Old", "Last")
    ]
    for leaf in leaves:
        leaf.set(60, 530, plain(HARBOUR))
    outline = [(1, "Guarantee", 4, 570), (1, "Club", 4, 300)]
    chapters = read_leaves(tmp_path, leaves, outline=outline).chapters
    assert [one.title for one in chapters][:3] == ["The Red Boat", "The Blue Boat", "The Old Boat"]


def test_a_wide_stem_makes_no_roman_type_bold(tmp_path: Path) -> None:
    """Ghostscript guesses the width of stems; Times-Roman of 139 is not bold."""
    descriptor = b"<< /Type /FontDescriptor /FontName /Times-Roman /Flags 34 /StemV 139 >>"
    font = (
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding"
        " /FontDescriptor 5 0 R >>"
    )
    leaves = [Leaf(), Leaf()]
    leaves[0].put(
        60, 500, "The harbour lay still under a low grey sky and the boats did not", font="F4"
    )
    leaves[1].put(60, 500, "move at their ropes, and the sea was calm.")
    path = write(tmp_path / "a.pdf", leaves, extra_fonts={"F4": font}, objects=[descriptor])
    assert len(texts(read(path, Limits()))) == 1
