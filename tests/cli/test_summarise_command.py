from __future__ import annotations

from pathlib import Path

from tests.conftest import Anyrig
from tests.documents.marked_texts import load
from tests.text.formats.pdf_making import Leaf, pdf


def test_a_file_in_its_own_sentences(anyrig: Anyrig, tmp_path: Path) -> None:
    one = next(text for text in load() if text.name == "en_memo")
    path = tmp_path / "memo.txt"
    path.write_text(one.text, encoding="utf-8")
    done = anyrig("summarise", str(path), "--sentences", "3", "--places")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 3
    for line in lines:
        place, _, text = line.partition("] ")
        start, end = map(int, place.removeprefix("[").split("-"))
        assert one.text[start:end] == text


def test_a_summary_has_no_descriptions_of_pictures(anyrig: Anyrig, tmp_path: Path) -> None:
    text = (
        "# The Clock\n\nMr Hale opened the shop by the sea at ten past nine. Nobody spoke for a "
        "while after that, as the tide was in."
    )
    shown = "A tall wooden clock hangs on the wall of the shop, and its hands show ten past nine."
    sources = {
        "a.md": f"![{shown}](clock.png)\n\n{text}\n\n![{shown}](clock.png)\n",
        "b.html": f'<h1>The Clock</h1><p><img src="a.png" alt="{shown}"></p><p>{text[13:]}</p>',
    }
    for name, source in sources.items():
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")
        for more in ((), ("--by-chapter",)):
            done = anyrig("summarise", str(path), "--sentences", "5", *more)
            assert done.returncode == 0, done.stderr
            assert "opened the shop" in done.stdout
            assert "wooden" not in done.stdout
    alone = tmp_path / "c.md"
    alone.write_text(f"![{shown}](clock.png)\n", encoding="utf-8")
    assert "wooden" in anyrig("summarise", str(alone)).stdout


def test_a_folder_with_a_bad_file_goes_on(anyrig: Anyrig, tmp_path: Path) -> None:
    for one in load()[:2]:
        (tmp_path / f"{one.name}.txt").write_text(one.text, encoding="utf-8")
    (tmp_path / "empty.txt").write_text("")
    done = anyrig("summarise", str(tmp_path), "--type", "txt")
    assert done.returncode == 1
    assert "en_bees.txt" in done.stdout
    assert "empty.txt is empty" in done.stderr
    out = tmp_path / "all.md"
    done = anyrig("summarise", str(tmp_path), "--type", "txt", "-o", str(out))
    assert f"2 summaries in {out}" in done.stdout
    assert out.read_text(encoding="utf-8").count("\n# ") == 1
    done = anyrig("summarise", str(tmp_path / "empty.txt"), "-o", str(tmp_path / "no.json"))
    assert done.returncode == 2
    assert not (tmp_path / "no.json").exists()
    done = anyrig("summarise", str(tmp_path), "-o", str(tmp_path / "all.docx"))
    assert done.returncode == 2
    assert ".txt, .md, .json" in done.stderr


def test_bullets_have_the_page_of_each_sentence(anyrig: Anyrig) -> None:
    pages = [
        "The harbour was rebuilt after the flood. The harbour now has two walls. Boats are few.",
        "The council paid for the harbour walls. The walls of the harbour cost nine million.",
    ]
    leaves = []
    for text in pages:
        leaf = Leaf()
        leaf.set(60, 540, text)
        leaves.append(leaf)
    Path("report.pdf").write_bytes(pdf(leaves))
    done = anyrig("summarise", "report.pdf", "--bullets", "--sentences", "4")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    assert len(lines) == 4
    assert all(line.startswith("- ") for line in lines)
    assert any(line.endswith("(page 2)") for line in lines), done.stdout
