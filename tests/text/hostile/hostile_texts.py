"""Texts that are none, and texts made to keep an expression busy for ever."""

# ruff: noqa: E501 - a hostile text is a line, however long
from __future__ import annotations

import random
from functools import partial

from tests.text.epub_maker import PNG
from tests.text.hostile.hostile_kinds import Outcome, as_is

NOISE = random.Random(5).randbytes
RUNS = {
    "spaces": " " * 1_000_000, "tabs": "\t " * 300_000, "dots": "." * 300_000,
    "spaced_dots": ". " * 300_000, "dashes": "-" * 300_000, "long_dashes": "—" * 300_000,
    "digits": "7" * 100_000, "digits_and_commas": "1," * 100_000, "digits_and_dots": "1." * 100_000,
    "digits_and_spaces": "1 " * 200_000, "digits_and_colons": "1:" * 100_000,
    "digits_and_strokes": "1/" * 100_000, "digits_and_dashes": "1-" * 100_000,
    "quotes": '"' * 200_000, "curly_quotes": "“" * 200_000, "single_quotes": "'" * 200_000,
    "spaced_quotes": "' " * 200_000, "quoted_letters": '"a" ' * 100_000,
    "brackets": "(" * 200_000, "closed_brackets": "()" * 100_000, "square_brackets": "[" * 200_000,
    "letters_with_dots": "a." * 100_000, "capitals_with_dots": "A." * 100_000,
    "capitals_with_dots_and_spaces": "A. " * 100_000, "titles": "Mr. " * 100_000,
    "roman_numerals": "M" * 100_000, "roman_words": "XVI " * 100_000, "capitals": "A" * 300_000,
    "addresses": "http://a.b/c?d=e&f=g " * 40_000, "one_address": "http://" + "a." * 100_000,
    "slashes": "http:" + "/" * 200_000, "mails": "a@b.cd " * 60_000, "at_signs": "a@" * 100_000,
    "mail_tails": "a." * 50_000 + "@" + "b." * 50_000, "hyphens": "well-" * 60_000,
    "hyphens_at_lines": "well-\n" * 60_000, "money": "$1,000,000.00 " * 30_000,
    "dollars": "$" * 200_000, "per_cents": "5% " * 100_000, "ordinals": "1st " * 100_000,
    "times": "12:30:45 " * 50_000, "dates": "1/1/2000 " * 50_000, "exponents": "1e" * 100_000,
    "hashes": "#" * 300_000, "underscores": "_" * 300_000, "stars": "*" * 300_000,
    "ellipses": "…" * 200_000, "questions": "?!" * 150_000, "apostrophes": "a'" * 150_000,
    "ampersands": "a & " * 100_000, "accents": "\u0301" * 300_000, "joiners": "\u200d" * 300_000,
    "emoji": "\U0001f4a3" * 100_000, "emoji_families": "\U0001f468\u200d\U0001f469\u200d" * 40_000,
    "flags": "\U0001f1e9" * 100_000, "right_to_left": "\u202eabc\u202c" * 60_000,
    "chinese": "字" * 300_000, "thai": "ก" * 300_000, "hangul": "한" * 200_000,
    "controls": "\x01\x02\x03" * 50_000, "escapes": "\x1b[2J" * 50_000, "nuls": "a\x00" * 10_000,
    "soft_hyphens": "\u00ad" * 300_000, "private": "\ue000" * 100_000, "form_feeds": "\x0c" * 200_000,
    "replacements": "\ufffd" * 100_000, "one_sentence": "word " * 200_000,
    "one_word": "w" * 5_000_000, "no_full_stop": "word, " * 200_000, "colons": "word: " * 100_000,
    "semicolons": "a;" * 200_000, "units": "5 km " * 100_000, "fractions": "½" * 100_000,
    "superscripts": "x²" * 100_000, "plus_signs": "+1" * 100_000, "equals": "a=b" * 100_000,
    "minus_numbers": "-5" * 100_000, "phone": "555-" * 80_000, "versions": "1.2.3." * 50_000,
    "file_names": "C:\\a\\" * 60_000, "code": "a_b(c)[d]{e};" * 30_000, "ones": "1" * 5_000_000,
}  # fmt: skip
LINES = {
    "empty_lines": "\n" * 2_000_000, "lines_of_spaces": " \n" * 500_000, "returns": "\r" * 500_000,
    "one_letter_lines": "a\n" * 150_000, "one_letter_paragraphs": "a\n\n" * 200_000,
    "headings": "CHAPTER I\n\n" * 50_000, "numbered_headings": "CHAPTER 1\n\nText.\n\n" * 20_000,
    "rules": "* * *\n\n" * 100_000, "dashes_alone": "---\n" * 200_000, "notes": "[1]\n" * 100_000,
    "note_signs": "word[1] " * 60_000, "page_numbers": "\n- 7 -\n" * 50_000,
    "contents": "Chapter I ........ 7\n" * 30_000, "indented": "    code\n" * 150_000,
    "roman_lines": "IV.\n\n" * 80_000, "speech": '"Yes," said Anna.\n\n' * 30_000,
    "open_speech": '"Yes, said Anna.\n\n' * 30_000, "gutenberg": "*** START OF THE PROJECT GUTENBERG EBOOK X ***\n" * 20_000,
    "upper_case": "THE WORDS OF IT\n" * 60_000, "verse": "  A line of verse\n  and one\n\n" * 20_000,
}  # fmt: skip
MARKED = {
    "square_brackets": "[" * 100_000, "links": "[a](" * 50_000, "images": "![a](b" * 30_000,
    "stars": "*a" * 100_000, "double_stars": "**a **" * 50_000, "underscores": "_a_" * 80_000,
    "back_ticks": "`" * 100_001 + "a", "ticks": "`a" * 80_000, "quotes": ">" * 50_000 + " a",
    "quoted_lines": "> " * 5_000 + "a", "lists": "".join(" " * (2 * n) + "- a\n" for n in range(1500)),
    "signs": "<" * 100_000, "tags": "<a " * 50_000, "comments": "<!-- " * 40_000, "tables": "|" * 100_000,
    "table_rows": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 40_000, "notes": "[^1]: a\n\n" * 20_000,
    "note_signs": "a[^1] " * 40_000, "fences": "```\n" * 40_001, "hashes": "#" * 100_000 + " a",
    "headings": "# a\n\n" * 50_000, "underlines": "a\n===\n" * 40_000, "front_matter": "---\ntitle: " + "x" * 500_000,
    "yaml_bomb": "---\na: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(30)) + "---\n\nText.",
    "entities": "&amp" * 60_000, "references": "[a]: b\n" * 40_000, "escapes": "\\" * 200_000,
    "links_with_titles": '[a](b "' * 30_000, "autolinks": "<http://a" * 40_000, "definitions": "a\n: b\n" * 30_000,
    "math": "$a" * 80_000, "html": "<div>" * 30_000 + "\n\ntext", "hard_breaks": "a  \n" * 100_000,
}  # fmt: skip
BYTES: dict[str, tuple[bytes, Outcome]] = {
    "empty": (b"", "refused"), "one_nul": (b"\x00", "refused"), "a_space": (b" ", "refused"),
    "noise": (NOISE(300_000), "either"), "nuls": (bytes(5_000_000), "refused"),
    "controls_only": (b"\x01\x02\x07\x1b" * 1000, "refused"), "lone_mark": (b"\xff\xfe", "refused"),
    "odd_utf16": (b"\xff\xfea\x00b", "either"), "half_utf32": (b"\xff\xfe\x00\x00a\x00", "either"),
    "cesu": (b"\xed\xa0\xbd\xed\xb8\x80 words and more words." * 1000, "either"),
    "overlong": (b"\xc0\xaf\xc1\xbf words" * 500, "either"), "ebcdic": (("The words of it. " * 99).encode("cp037"), "either"),
    "utf7": (b"+AGE-+AGI- words +ZeVnLIqe-" * 500, "either"), "marks": (b"\xef\xbb\xbf" * 1000 + b"words", "either"),
    "utf16_without_mark": (("The words of it. " * 99).encode("utf-16-le"), "either"),
    "emoji_only": (("\U0001f600" * 99).encode(), "refused"),
    "punctuation_only": (b"?!.,;:" * 1000, "either"), "one_letter_50_MB": (b"a" * 50_000_000, "either"),
    "latin_50_MB": (b"\xe9" * 50_000_000, "either"), "broken_at_the_end": (b"words " * 50_000 + b"\xe2\x82", "either"),
    "mixed": (b"caf\xe9 and caf\xc3\xa9 and \x93so\x94. " * 2000, "either"),
}  # fmt: skip
FALSE_NAMES = {
    "png_called_pdf.pdf": PNG, "pdf_called_epub.epub": b"%PDF-1.4\n%%EOF", "text_called_epub.epub": b"words",
    "text_called_docx.docx": b"words", "text_called_odt.odt": b"words", "text_called_pdf.pdf": b"words",
    "text_called_mobi.mobi": b"words", "text_called_fb2.fb2": b"words", "ole_called_docx.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "head_of_ole.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "half_mobi.mobi": bytes(60) + b"BOOKMOBI" + b"\xff" * 20,
    "lying_mobi.azw3": bytes(60) + b"BOOKMOBI" + b"\xff" * 3000, "half_pdf.pdf": b"%PDF-1.7",
    "topaz.azw": b"TPZ0" + bytes(100), "local_header.epub": b"PK\x03\x04" + bytes(26), "zip_end.epub": b"PK\x05\x06" + b"\xff" * 18,
    "end_alone.docx": b"PK\x05\x06" + bytes(18), "gzip.fb2": b"\x1f\x8b\x08" + bytes(50),
}  # fmt: skip
RTF = {
    "groups": "{\\rtf1" + "{" * 10_000 + "x", "closed": "{\\rtf1 x" + "}" * 10_000,
    "binary": "{\\rtf1 \\bin2147483647 x}", "words": "{\\rtf1 " + "\\a" * 20_000 + " x}",
    "unicode": "{\\rtf1 " + "\\u-99999?" * 5_000 + "}", "signs": "{\\rtf1 " + "\\u55357?" * 2000 + "text}",
    "numbers": "{\\rtf1 \\fs" + "9" * 10_000 + " text}", "hex": "{\\rtf1 " + "\\'zz" * 5_000 + "text}",
    "cells": "{\\rtf1 " + "\\intbl a\\cell\\row " * 5_000 + "}", "pages": "{\\rtf1 \\ansicpg99999 text\\'e9}",
    "notes": "{\\rtf1 " + "{\\footnote " * 3000 + "x", "skips": "{\\rtf1 \\uc2147483647 \\u65 text}",
    "pictures": "{\\rtf1 {\\pict " + "0" * 500_000 + "} text}", "objects": "{\\rtf1 {\\object\\objdata " + "ff" * 50_000 + "} text}",
}  # fmt: skip


def _attributes(form: str) -> str:
    return " ".join(form.format(number) for number in range(60_000))


def _page(body: str) -> str:
    return f"<html><body><h1>A</h1>{body}<p>The words of it.</p></body></html>"


PAGES: dict[str, tuple[str, Outcome]] = {
    "attributes": ("<p " + _attributes("a{}=1") + ">x</p>", "refused"),
    "quoted_attributes": ("<p " + _attributes('a{}="1"') + ">x</p>", "refused"),
    "bare_attributes": ("<p " + _attributes("a{}") + ">x</p>", "refused"),
    "attributes_with_ends": ('<p q=">" ' + _attributes('a{}=">"') + ">x</p>", "refused"),
    "attributes_after_a_lone_quote": ('<script><x "</script><p ' + _attributes("a{}=1") + ">x</p>", "refused"),
    "attributes_never_closed": ("<p " + _attributes("a{}=1"), "refused"),
    "names": ("<b=" * 60_000, "either"), "open_tags": ("<b " * 60_000, "refused"),
    "note_signs": ("<p>" + "".join(f'<a href="#n{n}" epub:type="noteref">{n}</a>' for n in range(20_000)) + "</p>", "read"),
    "poem_with_languages": ("<pre class='poem'>" + '<span lang="fr">mot</span>\n' * 10_000 + "</pre>", "either"),
}  # fmt: skip


_SHORT = 6_000  # characters: what grows with the square of them shows, and the rest is quick


def _text(name: str, file_name: str, text: str, end: str = "") -> None:
    """A text twice: short, and as long as it is."""
    as_is(name, file_name, "either", lambda: text[:_SHORT] + end)
    if len(text) > _SHORT:
        as_is(f"long_{name}", file_name, "either", lambda: text + end, slow=True)


def _listed() -> None:
    as_is("blank_lines_by_the_million", "book.txt", "refused", lambda: "a" + "\n" * 9_000_000)
    as_is("stars_by_the_million", "book.md", "refused", lambda: "*a " * 1_000_000)
    for name, text in RUNS.items():
        _text(f"text_of_{name}", "book.txt", text)
    for name, text in LINES.items():
        _text(f"lines_of_{name}", "book.txt", text)
    for name, text in MARKED.items():
        _text(f"markdown_of_{name}", "book.md", text, "\n\nThe end.\n")
    for name, text in RTF.items():
        as_is(f"rtf_of_{name}", "book.rtf", "either", partial(str, text))
    for name, (body, outcome) in PAGES.items():
        as_is(f"page_of_{name}", "book.html", outcome, partial(_page, body))
    as_is("markdown_of_attributes", "book.md", "refused", partial(str, PAGES["attributes"][0]))
    for name, (data, outcome) in BYTES.items():
        slow = len(data) > 20_000_000
        as_is(f"bytes_of_{name}", "book.txt", outcome, partial(bytes, data), slow=slow)
    for name, data in FALSE_NAMES.items():
        as_is(name.partition(".")[0], name, "either", partial(bytes, data))


_listed()
