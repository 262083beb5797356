"""Tesseract's data for more languages, from npm's packages `@tesseract.js-data/...`.

They are the same files on every system: the tarball is checked against its published hash, and its
small LSTM model is put into a folder of our own, beside whatever Tesseract has by itself.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyrig.errors import InvalidInputError, Message, MissingWeightsError, OptionRef
from anyrig.storage.download import Downloader, DownloadProgress, check_space, describe_http_error
from anyrig.storage.files import make_folder, write_atomic

_SCOPE = "@tesseract.js-data"
_VERSION = "1.0.0"
_MODEL = "package/4.0.0_best_int/{code}.traineddata.gz"
_MAX_MODEL_BYTES = 64 << 20


@dataclass(frozen=True)
class LanguageData:
    """The package of a language."""

    code: str
    """As Tesseract names it."""
    size_bytes: int
    sha512: str
    """In base 64, as npm publishes it."""

    @property
    def archive(self) -> str:
        return f"{self.code}-{_VERSION}.tgz"


OFFERED = {
    "es": LanguageData(
        "spa",
        10_436_372,
        "9Ln+QKq/TNu4Hy4aOp5b4nXo9U0C6IqJMzNDpAJZe/fNtz6jXG9G/hQgR/Irxj+RGf0M7Xy1MNx1yl4wQUIfeg==",
    ),
    "fr": LanguageData(
        "fra",
        6_959_264,
        "pp58gMaoyidoBBLd5y5rnf0WW0Y1994QrGqZrYatITqIU/AReUJMykD+YY3JDgvnmgz7uAx1UmhjjuyEmV8JEA==",
    ),
    "it": LanguageData(
        "ita",
        8_567_364,
        "Sx19NVYve5VAxEBDL6CWTX+evlvzV+iAS5ejJywcHVsmir/C9Tzw2fExoh97QFc06t48tYZA8VrMobsBzMAEhA==",
    ),
    "pt": LanguageData(
        "por",
        8_124_452,
        "sQ7GqYUgKaMmV0vNujYoXLlXUp2e5RGGkJxQ3L59kUOaupIugLJeb1dqhrfgyb71XQw7ltdSuXdQIoaoS/rpsQ==",
    ),
    "de": LanguageData(
        "deu",
        8_411_089,
        "3ter1p2gFAiCd5CMC+PodZ9YY2UDomkKj+ytlKeeZqOUmhLx1SDnYPf5zog0g5MBbxYveW+8omI3PUflqHfZ4Q==",
    ),
    "nl": LanguageData(
        "nld",
        13_178_605,
        "Fq9TDxewYAw3YBLqLYEu3rziNUHq0F1NnnM49vI0E5o6S2oKcirhTumGvv8ws088+li1llyKXT9nfrHuxxetHQ==",
    ),
    "ca": LanguageData(
        "cat",
        3_346_386,
        "5tp/K5e7KKhJtWFJmJz01BydHth2blUVjsjVtsda2F5R4Zl0OElr5/jDvoDeZ9uoV2zHI7eQ4S2ClS0obZmqVQ==",
    ),
    "gl": LanguageData(
        "glg",
        5_633_721,
        "xCMRkIrwGgTiUoDsv7I15KzCTFXH7MfFmeKrYbwzPfwO59Fczp8Szl7AhWl1bvit1cOzrfvhL/Ksr8G1pmnVZg==",
    ),
    "pl": LanguageData(
        "pol",
        10_977_737,
        "e9naSi/5kIXIMsymriFMUXJ2XWxRY/09qU9pkmEN28nAeMyF70EYkn4G3iHoB2oF/HNhZpy8lCIe1/I2L/BqKA==",
    ),
}
"""By ISO 639-1."""


def install_language(
    language: str,
    folder: Path,
    *,
    environment: Mapping[str, str],
    source: Path | None = None,
    on_progress: DownloadProgress = lambda *_: None,
) -> Path:
    """Put the data of a language into a folder; what an interrupted call received is continued.

    Args:
        language: ISO 639-1.
        folder: of data files.
        environment: this process's own, with npm's settings.
        source: a folder with the package (`spa-1.0.0.tgz`), or with the data file itself, instead
            of the network.
        on_progress: called as data arrives.
    """
    data = OFFERED.get(language)
    if data is None:
        raise InvalidInputError(
            f"no OCR data for {language!r} can be downloaded",
            hint=f"There are data for {', '.join(OFFERED)}.",
        )
    target = folder / f"{data.code}.traineddata"
    if target.is_file():
        return target
    if source is not None:
        archive = source / data.archive
        if not archive.is_file():
            plain = source / target.name
            if not plain.is_file():
                raise InvalidInputError(
                    f"{source} has neither {data.archive} nor {target.name}",
                    hint=f"Get it on another machine: npm pack {_SCOPE}/{data.code}@{_VERSION}.",
                )
            make_folder(folder)
            write_atomic(target, plain.read_bytes())
            return target
        if not _is_intact(archive, data):
            raise MissingWeightsError(
                f"{archive} does not match its published checksum",
                hint="Copy it again, or leave the folder out to download it.",
            )
        _extract(archive, data, target)
        return target
    archive = folder / data.archive
    check_space(folder, [(archive, data.size_bytes), (target, data.size_bytes)])
    _download(archive, data, find_registry(environment), on_progress)
    _extract(archive, data, target)
    archive.unlink()
    return target


def find_registry(environment: Mapping[str, str]) -> str:
    """npm's registry: as its environment variable, `.npmrc` or npm itself says."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or "~").expanduser()
    named = {key.lower(): value for key, value in environment.items()}
    file = Path(named.get("npm_config_userconfig") or home / ".npmrc")
    settings: dict[str, str] = {}
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            key, equals, value = line.partition("=")
            if equals:
                settings[key.strip()] = value.strip().strip('"')
    except (OSError, ValueError):
        pass
    found = (
        settings.get(f"{_SCOPE}:registry")
        or named.get("npm_config_registry")
        or settings.get("registry")
        or _ask_npm(environment)
    )
    return found.rstrip("/") + "/"


def _ask_npm(environment: Mapping[str, str]) -> str:
    npm = shutil.which("npm", path=environment.get("PATH"))
    if npm is not None:
        command = [npm, "config", "get", "registry"]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(environment))
        if done.stdout.startswith("http"):
            return done.stdout.strip()
    raise MissingWeightsError(
        "cannot find npm's registry: npm is not installed",
        hint=Message(
            "Set npm_config_registry to its address, or download the package yourself and pass "
            "{source}.",
            source=OptionRef("from", "FOLDER"),
        ),
    )


def _download(
    archive: Path, data: LanguageData, registry: str, on_progress: DownloadProgress
) -> None:
    import httpx

    url = f"{registry}{_SCOPE}/{data.code}/-/{data.archive}"
    with httpx.Client(follow_redirects=True, timeout=httpx.Timeout(60)) as client:
        downloader = Downloader(client, data.size_bytes, on_progress)
        try:
            downloader.fetch(
                data.archive, url, archive, data.size_bytes, lambda path: _is_intact(path, data)
            )
        except httpx.HTTPError as error:
            raise MissingWeightsError(
                f"{data.archive} could not be downloaded: {describe_http_error(error)}",
                hint="Run the same command again to continue, or pass --from FOLDER with"
                f" {data.archive} (npm pack {_SCOPE}/{data.code}@{_VERSION}).",
            ) from error


def _is_intact(path: Path, data: LanguageData) -> bool:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    return base64.b64encode(digest).decode() == data.sha512


def _extract(archive: Path, data: LanguageData, target: Path) -> None:
    """The model out of a tarball whose hash was checked."""
    try:
        with tarfile.open(archive, "r:gz") as files:
            packed = files.extractfile(_MODEL.format(code=data.code))
            model = gzip.decompress(packed.read(_MAX_MODEL_BYTES)) if packed else b""
    except (OSError, KeyError, EOFError, tarfile.TarError, zlib.error) as error:
        raise MissingWeightsError(
            f"{archive.name} has no model in it: {error}", hint="Download it again."
        ) from error
    make_folder(target.parent)
    write_atomic(target, model)
