"""Mark-up of others: bombs, broken tags, wrong encodings, depth."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.xml import decode_page, parse, parse_page, parse_page_text


def xml(data: bytes | str, limits: Limits = Limits()) -> str:  # noqa: B008 - it is frozen
    data = data.encode() if isinstance(data, str) else data
    return "".join(parse(data, name="a.xml", limits=limits).itertext())


def html(data: bytes | str, limits: Limits = Limits()) -> str:  # noqa: B008 - it is frozen
    data = data.encode() if isinstance(data, str) else data
    return "".join(parse_page(data, name="a.xhtml", limits=limits).itertext())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<a>x&nbsp;&eacute;&mdash;&amp;&#8212;</a>", "x\u00a0é—&—"),
        ('<!DOCTYPE a [<!ENTITY me "Anna &#38; Bo">]><a>&me;</a>', "Anna & Bo"),
        ("<a>R&D & more &unknown;</a>", "R&D & more &unknown;"),
        ("<a><b>never closed</a>", "never closed"),
        ("\ufeff\n <?xml version='1.0'?><a>after a gap</a>", "after a gap"),
        ("<a>bell\x07&#7;&#0;</a>", "bell"),
    ],
)
def test_xml_is_read_though_slightly_broken(data: str, text: str) -> None:
    assert xml(data) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'<?xml version="1.0" encoding="iso-8859-1"?><p>caf\xe9 \x93q\x94</p>', "café “q”"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><p>café</p>'.encode(), "café"),
        (b'<?xml version="1.0" encoding="utf-8"?><p>caf\xe9 na\xefve, d\xe9j\xe0 vu</p>',
         "café naïve, déjà vu"),
        ("<p>café</p>".encode("utf-16-le"), "café"),
        ('<meta charset="shift_jis"><p>日本語</p>'.encode("shift_jis"), "日本語"),
        (b'<?xml version="1.0" encoding="no-such"?><p>plain</p>', "plain"),
        ("<p>déjà vu, naïve, œuvre </p>".encode() * 20 + b"\xff", "déjà vu"),
    ],
)  # fmt: skip
def test_encodings_are_found_whatever_is_said_of_them(data: bytes, text: str) -> None:
    assert text in decode_page(data)
    assert html(data).strip().startswith(text)


def _laughs(depth: int) -> str:
    entities = "".join(
        f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, depth)
    )  # fmt: skip
    return f'<!DOCTYPE a [<!ENTITY l0 "ha">{entities}]><a>&l{depth - 1};</a>'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_laughs(10), "entity bomb"),
        (f'<!DOCTYPE a [<!ENTITY x "{"y" * 1900}">]><a>{"&x;" * 90_000}</a>', "grows without end"),
        ('<!DOCTYPE a [<!ENTITY % p "x"> %p; <!ENTITY q "%p;">]><a>&q;</a>', "entity bomb"),
        ("<!DOCTYPE a [<!ENTITY x 'y'", "without an end"),
        ("<a>" * 100_000, "too deep"),
        ("no mark-up at all", "not valid XML"),
        ("<a/>" * 300, "more than 200 tags"),
    ],
)
def test_bombs_end_in_one_error(data: str, message: str) -> None:
    limits = Limits(tags=200) if message.endswith("tags") else Limits()
    with pytest.raises(InvalidInputError, match=message):
        xml(data, limits)


def test_nothing_outside_is_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    for declared in (
        f'SYSTEM "{secret}"',
        f'SYSTEM "file://{secret}"',
        'SYSTEM "http://x.invalid/"',
    ):
        data = f"<!DOCTYPE a [<!ENTITY x {declared}>]><a>[&x;]</a>"
        assert xml(data) == "[&x;]"
        assert html(data) == "[&x;]"
    include = f'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="{secret}"/></a>'
    assert xml(include) == ""


def test_pages_may_nest_deeper_than_xml_and_not_without_end() -> None:
    assert html("<div>" * 1000 + "x" + "</div>" * 1000) == "x"
    assert html("<i>" * 1000 + "x") == "x"
    for tag in ("div", "span", "b", "ul"):
        with pytest.raises(InvalidInputError, match="too deep"):
            html(f"<{tag}>" * 100_000 + "x" + f"</{tag}>" * 100_000)


def test_sizes_are_held_to() -> None:
    with pytest.raises(InvalidInputError, match="larger than"):
        html("<p>x</p>" * 100, Limits(text_bytes=500))
    with pytest.raises(InvalidInputError, match="more than 100 tags"):
        html("<b/>" * 101, Limits(page_tags=100))


def test_a_tag_has_256_attributes_at_most() -> None:
    def tag(count: int) -> str:
        return "<p " + " ".join(f'a{number}="1"' for number in range(count)) + ">x</p>"

    assert html(tag(256)) == "x"
    assert xml(tag(256)) == "x"
    for read in (html, xml, lambda text: parse_page_text(text, name="a.html")):
        with pytest.raises(InvalidInputError, match="more than 256 attributes"):
            read(tag(257))


def test_a_long_value_is_not_many_attributes() -> None:
    words = "a=1 " * 1000
    assert html(f"<p title=\"{words}\" class='{words}'>x</p>") == "x"
    assert html(f"<p>{words}<b>{words}</b></p>") == words + words
