"""What a browser plays and keeps: the player's own figures, and the files that were saved."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy

from tests.server.browsing import Browser


class Told(dict[str, str]):
    """What the player tells of itself."""

    def number(self, key: str) -> float:
        return float(self[key] or 0)


def player(browser: Browser) -> Told:
    element = browser.find(".player")
    keys = ("state", "samples", "peak", "seconds", "played", "pieces", "first-ms")
    return Told({key: element.get_attribute(f"data-{key}") or "" for key in keys})


def spoken(browser: Browser, text: str) -> Told:
    """Let it speak, and wait until all of it is there."""
    before = player(browser)["first-ms"], player(browser)["samples"]
    browser.write("[name=text]", text)
    browser.click("#speak")

    def another() -> bool:
        told = player(browser)
        return told["state"] != "done" or (told["first-ms"], told["samples"]) != before

    browser.until(another)
    browser.until(lambda: player(browser)["state"] == "done")
    return player(browser)


def heard(file: Path | io.BytesIO) -> tuple[float, float]:
    """How long a file sounds, and how loud it gets."""
    with av.open(file if isinstance(file, io.BytesIO) else str(file), "r") as container:
        resampler = av.AudioResampler("flt", "mono", 24000)
        pieces = [piece.to_ndarray().ravel() for frame in container.decode(audio=0)
                  for piece in resampler.resample(frame)]  # fmt: skip
    samples = numpy.concatenate(pieces)
    return len(samples) / 24000, float(abs(samples).max())


def saved(folder: Path, before: set[Path]) -> Path | None:
    """A file that was not there before, once it is whole."""
    found = [one for one in set(folder.iterdir()) - before
             if one.suffix not in (".crdownload", ".tmp") and one.name[0] != "."]  # fmt: skip
    return found[0] if found and found[0].stat().st_size else None


def states(browser: Browser) -> list[str]:
    return [one.get_attribute("data-state") or "" for one in browser.all(".line")]


def lengths(browser: Browser) -> list[float]:
    return [float(one.get_attribute("data-seconds") or 0) for one in browser.all(".line")]
