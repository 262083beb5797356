"""Every format read back: as long as it was, the same sound, whole or not there at all."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
import wave
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from anyrig.audio import encode
from anyrig.audio.decode import open_audio
from anyrig.audio.encode import AudioEncoder, open_encoder
from anyrig.audio.formats import FORMATS, find_format
from anyrig.audio.samples import Samples
from anyrig.errors import InvalidInputError, StorageError
from anyrig.text.document import Picture
from tests.speech.takes import RATE, said, sine

TAGS = {"title": "Ein Märchen", "artist": "anyrig"}
FILES = ("wav", "flac", "mp3", "opus", "m4a")
LOSSY_FRAME = {"wav": 0, "flac": 0, "mp3": 1152, "opus": 960, "m4a": 1024}


def written(path: Path, sound: Samples, rate: int = RATE, **options: object) -> Path:
    with open_encoder(path, rate=rate, **options) as out:  # type: ignore[arg-type]
        for start in range(0, len(sound), 7001):
            out.write(sound[start : start + 7001])
    assert out.num_samples == len(sound)
    return path


def read(path: Path) -> tuple[Samples, int]:
    """As another program reads it: libsndfile, or FFmpeg for m4a."""
    if path.suffix not in (".m4a", ".mp4"):
        sound, rate = soundfile.read(path, dtype="float32")
        return sound, rate
    import av

    with av.open(str(path)) as file:
        parts = [frame.to_ndarray()[0] for frame in file.decode(audio=0)]
        return np.concatenate(parts).astype(np.float32), int(file.streams.audio[0].rate)


def likeness(one: Samples, other: Samples) -> float:
    """The best correlation of the two within 100 ms of delay: codecs may begin a little late."""
    middle = one[2400:-2400]
    return max(
        float(np.corrcoef(middle, other[start : start + len(middle)])[0, 1])
        for start in range(0, len(other) - len(middle), 1)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one."""
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def sound() -> Samples:
    return said("The old lighthouse keeper climbed the stairs.").samples


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_read_back(folder: Path, sound: Samples, name: str) -> None:
    path = written(folder / f"out.{name}", sound)
    back, rate = read(path)
    assert rate == RATE
    assert abs(len(back) - len(sound)) <= LOSSY_FRAME[name]
    voiced = slice(12000, 12000 + 24000)
    assert likeness(sound[voiced], back[voiced]) > 0.95
    assert sorted(os.listdir(folder)) == [path.name], "nothing else is left"


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_lossless_formats_lose_nothing(folder: Path, sound: Samples, name: str) -> None:
    back, _ = read(written(folder / f"out.{name}", sound))
    assert float(np.abs(back - sound).max()) < 1 / 32000


@pytest.mark.parametrize(
    ("name", "rate", "kept"),
    [("opus", 22050, 24000), ("mp3", 96000, 48000), ("mp3", 23000, 24000), ("m4a", 23000, 24000)],
)
def test_rates_that_a_format_lacks_are_changed(
    folder: Path, name: str, rate: int, kept: int
) -> None:
    tone = sine(1.0, 300.0, rate)
    back, found = read(written(folder / f"out.{name}", tone, rate))
    assert found == kept
    assert abs(len(back) / kept - 1.0) <= LOSSY_FRAME[name] / kept + 1e-3
    middle = back[kept // 4 : kept // 4 * 3]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(int(spectrum.argmax()) * kept / len(middle) - 300.0) < 4.0


@pytest.mark.parametrize("name", ["mp3", "opus", "m4a"])
def test_a_bitrate_is_kept_to(folder: Path, sound: Samples, name: str) -> None:
    low = written(folder / f"low.{name}", sound, bitrate=32000).stat().st_size
    high = written(folder / f"high.{name}", sound, bitrate=96000).stat().st_size
    seconds = len(sound) / RATE
    assert 8 * low / seconds == pytest.approx(32000, rel=0.35)
    assert 8 * high / seconds == pytest.approx(96000, rel=0.35)


class Pipe(io.RawIOBase):
    """Takes bytes in order and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.sent += bytes(cast(bytes, data))
        return len(bytes(cast(bytes, data)))

    def seek(self, offset: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation("a pipe")


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus", "aac"])
def test_a_pipe_gets_what_players_read(folder: Path, sound: Samples, name: str) -> None:
    import av

    pipe = Pipe()
    with open_encoder(cast(BinaryIO, pipe), name, RATE) as out:
        out.write(sound[:20000])
        begun = len(pipe.sent)
        out.write(sound[20000:])
    assert not pipe.closed
    assert name == "flac" or begun > 0, "sent while it is made"
    path = folder / f"sent.{name}"
    path.write_bytes(pipe.sent)
    with av.open(str(path)) as file:  # FFmpeg: libsndfile cannot read flac of unknown length
        frames = [frame.to_ndarray().ravel() for frame in file.decode(audio=0)]
        scale = len(np.concatenate(frames)) / int(file.streams.audio[0].rate)
    assert scale == pytest.approx(len(sound) / RATE, abs=0.1)


def test_raw_samples_are_just_that() -> None:
    pipe = Pipe()
    with open_encoder(cast(BinaryIO, pipe), "pcm", RATE) as out:
        out.write(np.array([0.0, 1.0, -1.0, 5.0, -5.0], dtype=np.float32))
    assert np.frombuffer(pipe.sent, dtype="<i2").tolist() == [0, 32767, -32767, 32767, -32767]


def _stop(out: AudioEncoder, sound: Samples) -> None:
    out.write(sound)
    raise RuntimeError("stop")


def test_an_aborted_file_leaves_what_was_there(folder: Path, sound: Samples) -> None:
    for name in FILES:
        path = folder / f"out.{name}"
        path.write_bytes(b"before")
        with pytest.raises(RuntimeError, match="stop"), open_encoder(path, rate=RATE) as out:
            _stop(out, sound)
        assert path.read_bytes() == b"before"
    assert sorted(os.listdir(folder)) == sorted(f"out.{name}" for name in FILES)


def test_a_file_appears_only_when_it_is_whole(folder: Path, sound: Samples) -> None:
    path = folder / "out.wav"
    out = open_encoder(path, rate=RATE)
    out.write(sound)
    assert not path.exists()
    out.close()
    out.close()
    assert path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_nothing_is_a_file(folder: Path, name: str) -> None:
    path = folder / f"out.{name}"
    open_encoder(path, rate=RATE).close()
    assert path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus"])
def test_a_full_disk_is_told(sound: Samples, name: str) -> None:
    with pytest.raises(StorageError, match="disk is full") as caught:
        open_encoder("/dev/full", name, RATE).write(np.tile(sound, 10))
    assert caught.value.hint


def test_a_disk_that_fills_up_leaves_nothing(folder: Path, sound: Samples) -> None:
    out = open_encoder(folder / "out.flac", rate=RATE)
    out._sink._raw = cast(BinaryIO, _Full(out._sink._raw))
    with pytest.raises(StorageError, match="disk is full"):
        out.write(np.tile(sound, 5))
    assert os.listdir(folder) == []


class _Full:
    """A file on a disk without room."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw

    def write(self, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def seek(self, offset: int) -> int:
        return self.raw.seek(offset)


def test_a_closed_pipe_stays_one(sound: Samples) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as pipe, pytest.raises(BrokenPipeError):
        open_encoder(pipe, "wav", RATE).write(sound)


def test_a_fifo_is_written_as_it_goes(folder: Path, sound: Samples) -> None:
    path = folder / "queue.wav"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    with open_encoder(path, rate=RATE) as out:
        out.write(sound)
    reader.join(20)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert len(got[0]) > 2 * len(sound)


def test_bad_places_and_names(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="unknown audio format .xyz") as caught:
        open_encoder(folder / "out.xyz")
    assert all(made.extensions[0] in caught.value.hint for made in FORMATS.values())
    with pytest.raises(InvalidInputError, match="no suffix"):
        find_format("out")
    with pytest.raises(InvalidInputError, match="no format 'aiff'"):
        open_encoder(folder / "out.wav", "aiff")
    with pytest.raises(InvalidInputError, match="does not exist"):
        open_encoder(folder / "nowhere" / "out.wav")
    (folder / "folder.wav").mkdir()
    with pytest.raises(InvalidInputError, match="is a folder"):
        open_encoder(folder / "folder.wav")
    with pytest.raises(InvalidInputError, match="to a pipe"):
        open_encoder(cast(BinaryIO, Pipe()), "m4a")
    with pytest.raises(InvalidInputError, match="no bitrate"):
        open_encoder(folder / "out.wav", bitrate=64000)
    with pytest.raises(InvalidInputError, match="bits a second"):
        open_encoder(folder / "out.mp3", bitrate=64)
    with pytest.raises(InvalidInputError, match="sample rate"):
        open_encoder(folder / "out.mp3", rate=0)
    assert os.listdir(folder) == ["folder.wav"]


def test_a_wav_over_4_gb_is_written_and_read(
    folder: Path, sound: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hole in the middle takes no room on the disk."""
    hole = 2**31
    write = encode.Sink.write

    def write_or_skip(sink: encode.Sink, data: bytes) -> int:
        if len(data) != 2 * len(silence):
            return write(sink, data)
        sink.seek(2 * hole, 1)
        return 2 * hole

    silence = np.zeros(77, np.float32)
    monkeypatch.setattr(encode.Sink, "write", write_or_skip)
    path = folder / "long.wav"
    with open_encoder(path, rate=RATE, tags={"title": "A long tale"}) as output:
        for part in (sound, silence, sound):
            output.write(part)
    num_samples = hole + 2 * len(sound)
    assert path.stat().st_size > 2 * num_samples > 2**32
    info = soundfile.info(str(path))
    assert (info.format, info.frames) == ("RF64", num_samples)
    with soundfile.SoundFile(str(path)) as file:
        assert file.title == "A long tale"
        file.seek(hole + len(sound))
        assert np.abs(file.read(dtype="float32") - sound).max() < 1e-4
    with open_audio(path) as audio:
        assert audio.duration_s == pytest.approx(num_samples / RATE)
        assert audio.warnings == []


def test_a_wav_is_read_by_those_who_know_no_rf64(folder: Path, sound: Samples) -> None:
    path = written(folder / "out.wav", sound, tags={"title": "A tale", "artist": "Ánna"})
    assert path.read_bytes()[:4] == b"RIFF"
    with wave.open(str(path)) as file:
        assert (file.getnframes(), file.getframerate()) == (len(sound), RATE)
    with soundfile.SoundFile(str(path)) as file:
        assert (file.title, file.artist) == ("A tale", "Ánna")


def test_a_damaged_cover_or_a_kind_that_mp4_lacks_spoils_no_file(
    folder: Path, sound: Samples
) -> None:
    path = written(folder / "out.m4a", sound, picture=Picture(b"GIF89a", "image/gif"))
    assert len(read(path)[0]) >= len(sound)
