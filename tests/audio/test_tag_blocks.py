"""Tags and pictures of mp3, flac, Ogg Opus and m4a, read back by FFmpeg; the sound is untouched."""

from __future__ import annotations

import hashlib
import io
import struct
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np
import pytest
import soundfile

from anyrig.audio.encode import encoder
from anyrig.audio.samples import Samples
from anyrig.audio.tags import clean, cleaned
from anyrig.audio.vorbis import checksum
from anyrig.text.document import Picture
from tests.speech.takes import RATE, sine

TAGS = {
    "title": "Kapitel 3: „Größe“ 🎉", "artist": "Zoë Ü", "album": "Das Buch", "album_artist": "Zoë",
    "composer": "Die Stimme", "genre": "Audiobook", "date": "1923", "track": "3/12",
    "comment": "Zeile 1\nZeile 2 = ;#\\", "description": "Kurz", "synopsis": "Lang",
    "publisher": "Haus", "language": "deu", "grouping": "Reise #2", "series": "Reise",
    "series_part": "2", "media_type": "2",
}  # fmt: skip
EVERYWHERE = ("title", "artist", "album", "album_artist", "composer", "genre", "date")
NAMES = ("mp3", "flac", "opus", "m4a")


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
    with encoder(path, rate=RATE, tags=TAGS, picture=picture) as out:
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


@pytest.mark.parametrize("size", [0, 300, 64_000, 300_000, 2_000_000])
@pytest.mark.parametrize("name", NAMES)
def test_tags_and_picture_come_back(tmp_path: Path, name: str, size: int) -> None:
    sound = sine(2.0)
    picture = jpeg(size) if size else None
    tags, heard, pictures = read(written(tmp_path / f"out.{name}", sound, picture))
    plain = tmp_path / f"plain.{name}"
    with encoder(plain, rate=RATE) as out:
        for start in range(0, len(sound), 5000):
            out.write(sound[start : start + 5000])
    _, bare, _ = read(plain)
    assert np.array_equal(heard, bare), "the sound is what it was without"
    assert pictures == ([picture.data] if picture else [])
    assert {key: tags.get(key) for key in EVERYWHERE} == {key: TAGS[key] for key in EVERYWHERE}
    # In Vorbis comments FFmpeg takes the description for the comment.
    assert tags["comment"] == TAGS["synopsis" if name in ("flac", "opus") else "comment"]
    assert "Reise" in (tags.get("series"), tags.get("show"))
    assert tags["language"] == "deu"
    assert tags["track"] in ("3/12", "3")


@pytest.mark.parametrize("name", ["mp3", "flac", "opus"])
def test_libsndfile_reads_them_too(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / f"out.{name}", sine(1.0), jpeg(200_000))
    with soundfile.SoundFile(path) as file:
        assert (file.title, file.artist) == (TAGS["title"], TAGS["artist"])
        assert file.comment == TAGS["comment"]
        assert abs(len(file) - RATE) <= 1200
        assert len(file.read()) == len(file)


@pytest.mark.parametrize("name", ["mp3", "flac", "opus"])
def test_a_pipe_gets_them(tmp_path: Path, name: str) -> None:
    class Pipe(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            raise io.UnsupportedOperation("a pipe")

    pipe, picture = Pipe(), jpeg(100_000)
    with encoder(cast(BinaryIO, pipe), name, RATE, tags=TAGS, picture=picture) as out:
        out.write(sine(1.0))
    path = tmp_path / f"sent.{name}"
    path.write_bytes(pipe.getvalue())
    tags, heard, pictures = read(path)
    assert tags["title"] == TAGS["title"]
    assert pictures == [picture.data]
    assert abs(len(heard) - RATE * (2 if name == "opus" else 1)) < 5000


@pytest.mark.parametrize("size", [300, 60_000, 400_000])
def test_pages_of_ogg_are_in_order_and_right(tmp_path: Path, size: int) -> None:
    data = written(tmp_path / "out.opus", sine(3.0), jpeg(size)).read_bytes()
    place, number, serials, packets = 0, 0, set(), 0
    while place < len(data):
        head = data[place : place + 27]
        lacing = data[place + 27 : place + 27 + head[26]]
        page = data[place : place + 27 + len(lacing) + sum(lacing)]
        assert head[:5] == b"OggS\0"
        assert int.from_bytes(head[18:22], "little") == number
        assert bool(head[5] & 2) == (number == 0)
        assert checksum(page[:22] + bytes(4) + page[26:]) == int.from_bytes(head[22:26], "little")
        serials.add(head[14:18])
        packets += sum(1 for length in lacing if length < 255)
        place += len(page)
        number += 1
    assert place == len(data)
    assert len(serials) == 1
    assert bool(head[5] & 4), "the last page says so"
    assert packets > 100


def test_flac_has_one_comment_block_and_right_sums(tmp_path: Path) -> None:
    data = written(tmp_path / "out.flac", sine(1.0), jpeg(5000)).read_bytes()
    place, kinds, last = 4, [], False
    while not last:
        last = bool(data[place] & 0x80)
        kinds.append(data[place] & 0x7F)
        place += 4 + int.from_bytes(data[place + 1 : place + 4], "big")
    assert kinds == [0, 4, 6]
    assert data[place : place + 2] in (b"\xff\xf8", b"\xff\xf9"), "sound follows"
    whole = np.rint(soundfile.read(tmp_path / "out.flac")[0] * 32768).astype("<i2")
    assert hashlib.md5(whole.tobytes()).digest() == data[26:42]
    assert int.from_bytes(data[21:26], "big") & 0xFFFFFFFFF == RATE


def test_values_are_cleaned() -> None:
    kept = cleaned({"title": "a\0b\r\nc\ud800", "comment": "x\r\n\ty ", "odd": "z", "album": " "})
    assert kept == {"title": "a b c\ufffd", "comment": "x\ny"}
    assert clean("e\u0301 \u200d \u2028x") == "e\u0301 \u200d x"
