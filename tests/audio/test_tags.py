"""Tags and pictures of mp3, flac, Ogg Opus and m4a, read back by FFmpeg; the sound is untouched."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np
import pytest
import soundfile

from anyrig.audio.encode import open_encoder
from anyrig.audio.formats import FORMATS
from anyrig.audio.samples import Samples
from anyrig.audio.tags import clean_tags, clean_text
from anyrig.text.document import Picture
from tests.speech.takes import RATE, sine

TAGS = {
    "title": "Kapitel 3: „Größe“ 🎉", "artist": "Zoë Ü", "album": "Das Buch", "album_artist": "Zoë",
    "composer": "Die Stimme", "genre": "Audiobook", "date": "1923", "track": "3/12",
    "comment": "Zeile 1\nZeile 2 = ;#\\", "description": "Kurz", "synopsis": "Lang",
    "publisher": "Haus", "language": "deu", "grouping": "Reise #2", "series": "Reise",
    "series_part": "2", "media_type": "2",
}  # fmt: skip
EVERYWHERE = ("title", "artist", "album", "genre", "date")
NAMES = ("mp3", "flac", "opus", "m4a", "wav")


def jpeg(size: int) -> Picture:
    """Bytes that begin and end as a JPEG of 16 by 16 does, blown up with a comment."""
    frame = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), dtype=np.uint8), format="rgb24")
    codec = av.CodecContext.create("mjpeg", "w")
    assert isinstance(codec, av.VideoCodecContext)
    codec.width = codec.height = 16
    codec.pix_fmt = "yuvj420p"
    codec.time_base = Fraction(1)
    data = b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])
    notes = b""
    while len(data) + len(notes) < size:
        notes += b"\xff\xfe" + struct.pack(">H", 60002) + b"x" * 60000
    return Picture(data[:2] + notes + data[2:], "image/jpeg")


def written(path: Path, sound: Samples, picture: Picture | None = None) -> Path:
    with open_encoder(path, rate=RATE, tags=TAGS, picture=picture) as out:
        for start in range(0, len(sound), 5000):
            out.write(sound[start : start + 5000])
    return path


def read(path: Path) -> tuple[dict[str, str], Samples, list[bytes]]:
    """Tags, sound and pictures, as FFmpeg finds them."""
    with av.open(str(path)) as file:
        tags = {name.lower(): text for name, text in file.metadata.items()}
        tags |= {name.lower(): text for name, text in file.streams.audio[0].metadata.items()}
        shown = [stream for stream in file.streams if stream.type == "video"]
        pictures = [bytes(packet) for packet in file.demux(shown) if packet.size] if shown else []
    with av.open(str(path)) as file:
        sound = [frame.to_ndarray().ravel() for frame in file.decode(audio=0)]
    return tags, np.concatenate(sound).astype(np.float32), pictures


@pytest.mark.parametrize("size", [0, 300, 64_000, 2_000_000])
@pytest.mark.parametrize("name", NAMES)
def test_tags_and_picture_come_back(tmp_path: Path, name: str, size: int) -> None:
    sound = sine(2.0)
    picture = jpeg(size) if size else None
    tags, heard, pictures = read(written(tmp_path / f"out.{name}", sound, picture))
    plain = tmp_path / f"plain.{name}"
    with open_encoder(plain, rate=RATE) as out:
        for start in range(0, len(sound), 5000):
            out.write(sound[start : start + 5000])
    _, bare, _ = read(plain)
    assert np.array_equal(heard, bare), "the sound is what it was without"
    assert pictures == ([picture.data] if picture and FORMATS[name].holds_cover else [])
    assert {key: tags.get(key) for key in EVERYWHERE} == {key: TAGS[key] for key in EVERYWHERE}
    assert tags["track"] == "3/12"
    if name in ("flac", "opus", "wav"):
        assert tags["comment"] == f"Narrated by {TAGS['composer']}\n{TAGS['comment']}"
        return
    assert tags["comment"] == TAGS["comment"]
    assert (tags["album_artist"], tags["composer"]) == (TAGS["album_artist"], TAGS["composer"])
    assert "Reise" in (tags.get("series"), tags.get("show"))
    assert tags["language"] == "deu"


@pytest.mark.parametrize("name", ["mp3", "flac", "opus"])
def test_libsndfile_reads_them_too(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / f"out.{name}", sine(1.0), jpeg(200_000))
    with soundfile.SoundFile(path) as file:
        assert (file.title, file.artist) == (TAGS["title"], TAGS["artist"])
        assert TAGS["comment"] in file.comment
        assert abs(len(file) - RATE) <= 1200
        assert len(file.read()) == len(file)


@pytest.mark.parametrize("name", ["mp3", "flac", "opus"])
def test_a_pipe_gets_them(tmp_path: Path, name: str) -> None:
    class Pipe(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            raise io.UnsupportedOperation("a pipe")

    pipe, picture = Pipe(), jpeg(100_000)
    with open_encoder(cast(BinaryIO, pipe), name, RATE, tags=TAGS, picture=picture) as out:
        out.write(sine(1.0))
    path = tmp_path / f"sent.{name}"
    path.write_bytes(pipe.getvalue())
    tags, heard, pictures = read(path)
    assert tags["title"] == TAGS["title"]
    assert pictures == ([picture.data] if name == "mp3" else [])
    assert abs(len(heard) - RATE * (2 if name == "opus" else 1)) < 5000


def test_values_are_cleaned() -> None:
    kept = clean_tags(
        {"title": "a\0b\r\nc\ud800", "comment": "x\r\n\ty ", "odd": "z", "album": " "}
    )
    assert kept == {"title": "a b c\ufffd", "comment": "x\ny"}
    assert clean_text("e\u0301 \u200d \u2028x") == "e\u0301 \u200d x"
