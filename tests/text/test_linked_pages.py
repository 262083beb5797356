"""Files in order, and the pages of a manual, as one document."""

from __future__ import annotations

from pathlib import Path

from anyrig.text.linked_pages import read_files
from anyrig.text.sandbox import ReaderPool


def list_linked_pages(path: Path) -> list[Path]:
    with ReaderPool() as pool:
        return pool.list_linked_pages(path)


WORDS = "The boats lay still under a low grey sky, and nobody spoke of the weather. " * 4


def _page(path: Path, title: str, *, head: str = "", body: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"<html><head><title>{title}</title>{head}</head><body>"
        '<div role="navigation"><h3>Navigation</h3><a href="index.html">The manual</a></div>'
        f"<h1>{title}<a class='headerlink' href='#x'>¶</a></h1><p>{WORDS}</p>{body}"
        "</body></html>"
    )
    return path


def _index(path: Path, *names: str, text: str = "") -> Path:
    links = "".join(f'<li><a href="{name}">The page on {name}</a></li>' for name in names)
    path.write_text(f"<html><body><h1>The manual</h1>{text}<ul>{links}</ul></body></html>")
    return path


def test_an_index_leads_to_its_pages_in_order(tmp_path: Path) -> None:
    for name in ("zebra", "apple", "mango"):
        _page(tmp_path / f"{name}.html", name.title())
    index = _index(
        tmp_path / "index.html", "zebra.html", "apple.html#top", "http://example.org/x.html",
        "mango.html", "gone.html", "apple.html",
    )  # fmt: skip
    pages = list_linked_pages(index)
    assert [page.name for page in pages] == ["index.html", "zebra.html", "apple.html", "mango.html"]
    document = read_files(pages)
    titles = [one.title for one in document.chapters if one.role == "body"]
    assert [title for title in titles if title != "The manual"] == ["Zebra", "Apple", "Mango"]
    assert document.text.count("Navigation") == 0


def test_pages_that_name_the_next_one_are_followed(tmp_path: Path) -> None:
    names = [f"page{number}.html" for number in range(6)]
    for name, following in zip(names, [*names[1:], ""], strict=True):
        head = f'<link rel="next" href="{following}">' if following else ""
        _page(tmp_path / name, name, head=head + '<link rel="prev" href="x.html">')
    index = _index(tmp_path / "index.html", *names[:3], text=f"<p>{WORDS * 9}</p>")
    text = index.read_text().replace("<body>", '<head><link rel="next" href="page0.html"></head>')
    index.write_text(text)
    assert [page.name for page in list_linked_pages(index)] == ["index.html", *names]
    middle = tmp_path / "page2.html"
    assert list_linked_pages(middle) == [middle]


def test_links_never_lead_out_of_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "manual"
    for name in ("a", "b", "c"):
        _page(inside / f"{name}.html", name)
    _page(tmp_path / "private.html", "Private")
    (inside / "link.html").symlink_to(tmp_path / "private.html")
    index = _index(
        inside / "index.html", "a.html", "../private.html", "link.html", "b.html", "c.html",
        str(tmp_path / "private.html"), "file:///etc/hosts.html", "%2e%2e/private.html",
    )  # fmt: skip
    assert [page.name for page in list_linked_pages(index)] == [
        "index.html", "a.html", "b.html", "c.html"
    ]  # fmt: skip


def test_a_page_with_a_few_links_is_a_page(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        _page(tmp_path / f"{name}.html", name)
    page = _index(tmp_path / "x.html", "a.html", "b.html", "c.html", text=f"<p>{WORDS * 9}</p>")
    assert list_linked_pages(page) == [page]
    text = tmp_path / "x.txt"
    text.write_text("words")
    assert list_linked_pages(text) == [text]


def test_notes_of_two_pages_are_two_notes(tmp_path: Path) -> None:
    note = '<p>See<a href="#n1"><sup>1</sup></a>.</p><p id="n1">1. Note of {}.</p>'
    paths = [_page(tmp_path / f"{n}.html", n, body=note.format(n)) for n in ("a", "b")]
    document = read_files(paths)
    notes = [block for block in document.blocks if block.kind == "note"]
    values = [one.value for b in document.blocks for one in b.inlines if one.kind == "noteref"]
    assert [note.text for note in notes] == ["1. Note of a.", "1. Note of b."]
    assert values == [note.id for note in notes]
    assert len(set(values)) == 2


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    first = _page(tmp_path / "a.html", "First")
    broken = tmp_path / "b.epub"
    broken.write_bytes(b"no book")
    document = read_files([first, broken])
    assert any("b.epub was left out" in warning for warning in document.warnings)
