"""A stand-in engine whose pins clash with the main environment's, as wheels made by hand."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Client, Deadlines
from anyrig.speech.hosting.recipes import Recipe

RECIPE = Recipe(
    "standin", "standin_tts:Engine", ("standin-tts==1.0",), (3, 9), (3, 99), disk_bytes=20_000_000,
    notice="The stand-in is for tests only.", agreed={"STANDIN_AGREED": "1"},
)  # fmt: skip
QUICK = Deadlines(start_s=60, load_s=60, first_s=0, line_s=30, character_s=0.0, ping_s=30)

ENGINE = '''
"""Tones, and every way to go wrong."""
import array, math, os, stat, sys, time
import clashlib
import __main__

if clashlib.__version__ != "1.0":
    raise ImportError("standin_tts cannot live with clashlib " + clashlib.__version__)


class Engine(__main__.Adapter):
    rate = 16000
    packages = ("standin-tts", "clashlib")

    def load(self, ask):
        self.folder, self.options = ask["folder"], ask["options"]
        print("loading " * 1000)
        if self.options.get("load") == "refuse":
            raise __main__.Refused("no such weights")
        if self.options.get("load") == "die":
            os._exit(9)

    def voices(self):
        return ["low", "high"]

    def say(self, line):
        text = line["text"]
        act = getattr(self, "do_" + text.split()[0], None)
        if act is not None:
            act(line)
        print("saying", text, flush=True)
        pitch = {"low": 220, "high": 880}.get(line["voice"], 440) + line["seed"]
        count = int(1600 * len(text) / line["rate"])
        step = 2 * math.pi * pitch / self.rate
        return array.array("f", (math.sin(step * n) for n in range(count)))

    def parts(self, line):
        whole = self.say(line)
        for start in range(0, len(whole), 1600):
            time.sleep(float(self.options.get("pause", 0)))
            yield whole[start : start + 1600]

    def do_environment(self, line):
        line["text"] = os.environ.get("STANDIN_AGREED", "no")

    def do_die(self, line):
        marker = self.options.get("marker")
        if not marker or not os.path.exists(marker):
            if marker:
                open(marker, "w").close()
            sys.stderr.write("segmentation dreams\\n")
            sys.stderr.flush()
            os._exit(7)

    def do_hang(self, line):
        time.sleep(3600)

    def do_memory(self, line):
        raise MemoryError("no more")

    def do_cuda(self, line):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    def do_lost(self, line):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def do_wrong(self, line):
        raise ValueError("CUDA out of memory. is what the book is called")

    def do_raw(self, line):
        data = b"Loading checkpoint shards: 100%"
        for number in range(3, 64):
            try:
                if stat.S_ISFIFO(os.fstat(number).st_mode):
                    os.write(number, data)
            except OSError:
                pass
        time.sleep(60)
'''


def wheel(folder: Path, name: str, version: str, needs: str, source: str) -> Path:
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    files = {
        f"{name}/__init__.py": source,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    rows = [f"{path},{_hash(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for inside, text in files.items():
            made.writestr(inside, text)
    return path


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def wheels(folder: Path) -> Path:
    """A package index in a folder: the engine, and the library in the two versions."""
    folder.mkdir(exist_ok=True)
    wheel(folder, "standin_tts", "1.0", "clashlib==1.0", ENGINE)
    for version in ("1.0", "2.0"):
        wheel(folder, "clashlib", version, "", f"__version__ = {version!r}\n")
    return folder


@contextmanager
def client(
    home: Path, *, deadlines: Deadlines = QUICK, folder: str = "", **options: object
) -> Iterator[Client]:
    """A client of the stand-in."""
    place = environments.place(home, "standin")
    variables = {**os.environ, **environments.variables(place, RECIPE)}
    ask = {"folder": folder, "device": "cpu", "threads": 1, "options": options}
    python = environments.python_of(place)
    made = Client(python, RECIPE.adapter, variables, load=ask, deadlines=deadlines)
    with made:
        yield made
