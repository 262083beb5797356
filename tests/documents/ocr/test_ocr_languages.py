"""Tesseract's data for a language: from npm's registry, from a folder, checked."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from anyrig.documents.ocr import languages, tesseract
from anyrig.documents.ocr.languages import find_registry, install_language
from anyrig.errors import InvalidInputError, MissingWeightsError

MODEL = b"a model of Spanish" * 1000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as npm publishes it, in the layout of a registry."""
    folder = tmp_path / "registry" / "@tesseract.js-data" / "spa" / "-"
    folder.mkdir(parents=True)
    packed = gzip.compress(MODEL)
    with tarfile.open(folder / "spa-1.0.0.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("package/4.0.0_best_int/spa.traineddata.gz")
        info.size = len(packed)
        archive.addfile(info, io.BytesIO(packed))
    data = (folder / "spa-1.0.0.tgz").read_bytes()
    digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
    offered = replace(languages.OFFERED["es"], size_bytes=len(data), sha512=digest)
    monkeypatch.setitem(languages.OFFERED, "es", offered)
    return folder / "spa-1.0.0.tgz"


@pytest.fixture
def registry(package: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(package.parents[3]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_language_is_downloaded_once_and_tesseract_has_it(tmp_path: Path, registry: str) -> None:
    folder = tmp_path / "data"
    done: list[tuple[int, int]] = []
    environment = {"HOME": str(tmp_path), "NPM_CONFIG_REGISTRY": registry}

    def report(_: str, done_bytes: int, total_bytes: int) -> None:
        done.append((done_bytes, total_bytes))

    path = install_language("es", folder, environment=environment, on_progress=report)
    assert path.read_bytes() == MODEL
    assert [one.name for one in folder.iterdir()] == ["spa.traineddata"]
    assert done[-1][0] == done[-1][1]
    nowhere = {"HOME": str(tmp_path), "NPM_CONFIG_REGISTRY": "http://127.0.0.1:9"}
    assert install_language("es", folder, environment=nowhere) == path
    own = "/usr/share/tessdata"
    program = tesseract.TesseractProgram("tesseract", own, "5", ("eng", "spa"), str(folder))
    assert program.environment("spa")["TESSDATA_PREFIX"] == str(folder)
    assert program.environment("eng")["TESSDATA_PREFIX"] == own


def test_without_a_network_it_is_taken_from_a_folder(tmp_path: Path, package: Path) -> None:
    folder = tmp_path / "data"
    path = install_language("es", folder, environment={}, source=package.parent)
    assert path.read_bytes() == MODEL
    path.unlink()
    (tmp_path / "spa.traineddata").write_bytes(MODEL)
    assert install_language("es", folder, environment={}, source=tmp_path).read_bytes() == MODEL
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"neither spa-1\.0\.0\.tgz nor spa\.traineddata"):
        install_language("es", folder, environment={}, source=folder)


def test_a_damaged_package_is_refused(tmp_path: Path, package: Path, registry: str) -> None:
    package.write_bytes(package.read_bytes()[:-1] + b"x")
    with pytest.raises(MissingWeightsError, match="checksum"):
        install_language("es", tmp_path / "data", environment={}, source=package.parent)
    environment = {"HOME": str(tmp_path), "npm_config_registry": registry}
    with pytest.raises(MissingWeightsError, match="checksum"):
        install_language("es", tmp_path / "data", environment=environment)
    assert not (tmp_path / "data" / "spa.traineddata").exists()


def test_no_network_and_other_languages_are_told_in_one_line(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "npm_config_registry": "http://127.0.0.1:9"}
    with pytest.raises(
        MissingWeightsError, match=r"fra-1\.0\.0\.tgz could not be downloaded"
    ) as caught:
        install_language("fr", tmp_path / "data", environment=environment)
    assert "fra-1.0.0.tgz" in caught.value.message
    assert "npm pack @tesseract.js-data/fra@1.0.0" in caught.value.hint
    with pytest.raises(InvalidInputError, match="no OCR data for 'xx'"):
        install_language("xx", tmp_path, environment={})


def test_the_registry_is_the_one_that_npm_uses(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    with pytest.raises(MissingWeightsError, match="npm is not installed"):
        find_registry(home)
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho https://npm.example.com/\n")
    npm.chmod(0o755)
    assert find_registry(home) == "https://npm.example.com/"
    (tmp_path / ".npmrc").write_text("fund=false\nregistry=https://npm.example.org/a\n")
    assert find_registry(home) == "https://npm.example.org/a/"
    assert find_registry({**home, "npm_config_registry": "https://b.org"}) == "https://b.org/"
    (tmp_path / ".npmrc").write_text('@tesseract.js-data:registry="https://c.org/"\n')
    assert find_registry({**home, "npm_config_registry": "https://b.org"}) == "https://c.org/"
