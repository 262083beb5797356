"""Environments: made whole or not at all, with the pins of their recipe."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.devices.advice import find_torch_wheel
from anyrig.devices.discover import from_record
from anyrig.devices.machine import Machine
from anyrig.errors import InvalidInputError, MissingPackageError, StorageError, WorkError
from anyrig.speech.engine import Utterance
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Part
from anyrig.speech.hosting.recipes import RECIPES, Recipe, recipe_of
from tests.conftest import record_of
from tests.speech.hosting.standin import RECIPE, client

SMALL = Recipe("small", "nothing:Nothing", (), (3, 9), (3, 99))


def _install(
    home: Path, recipe: Recipe, told: list[str] | None = None, **more: object
) -> list[str]:
    told = [] if told is None else told
    given: dict[str, object] = {"yes": lambda notice: True, **more}
    environments.install(
        recipe.name, home, tell=told.append, environment=os.environ, recipe=recipe, **given  # type: ignore[arg-type]
    )  # fmt: skip
    return told


def test_a_ready_environment_is_known_and_left_alone(home: Path) -> None:
    assert environments.state("standin", home, recipe=RECIPE) == "ready"
    stamp = environments.stamp_of(home / "standin")
    assert stamp is not None
    assert stamp.versions["standin-tts"] == "1.0"
    assert stamp.python == sys.version.split()[0]
    before = (home / "standin" / "pyvenv.cfg").stat().st_mtime_ns
    told = _install(home, RECIPE, yes=lambda notice: False)
    assert told == [f"standin is ready in {home / 'standin'}"]
    assert (home / "standin" / "pyvenv.cfg").stat().st_mtime_ns == before
    assert environments.disk_bytes("standin", home) > 1_000_000


@pytest.mark.parametrize(
    ("made_for", "asked", "fits"),
    [("", "", True), ("cuda", "", True), ("cuda", "cpu", True), ("cpu", "cuda", False),
     ("cuda", "cuda", True), ("", "rocm", False)],
)  # fmt: skip
def test_an_environment_serves_the_devices_it_was_made_for(
    made_for: str, asked: str, fits: bool
) -> None:
    assert environments._fits(environments.Stamp("x", kind=made_for), asked) is fits


def test_other_pins_make_it_stale(home: Path) -> None:
    newer = replace(RECIPE, requirements=("standin-tts==2.0",))
    assert environments.state("standin", home, recipe=newer) == "stale"
    assert newer.fingerprint != RECIPE.fingerprint
    assert replace(RECIPE, notice="other words").fingerprint == RECIPE.fingerprint


def test_half_made_and_damaged_ones_are_broken(tmp_path: Path) -> None:
    assert environments.state("small", tmp_path, recipe=SMALL) == "absent"
    folder = environments.place(tmp_path, "small")
    folder.mkdir()
    assert environments.state("small", tmp_path, recipe=SMALL) == "broken"
    (folder / "anyrig-environment.json").write_text("{}")
    assert environments.state("small", tmp_path, recipe=SMALL) == "broken"
    stamp = f'{{"recipe": "{SMALL.fingerprint}"}}'
    (folder / "anyrig-environment.json").write_text(stamp)
    assert environments.state("small", tmp_path, recipe=SMALL) == "broken"  # no Python in it
    assert environments.remove("small", tmp_path)
    assert environments.state("small", tmp_path, recipe=SMALL) == "absent"
    assert not environments.remove("small", tmp_path)


def test_what_fails_half_way_is_told_and_leaves_no_stamp(index: Path, tmp_path: Path) -> None:
    """A requirement that is not to be had: pip's own words are shown."""
    wrong = replace(RECIPE, requirements=("standin-tts==9.9",), needs="a wand")
    told: list[str] = []
    with pytest.raises(WorkError, match=r"No matching distribution.*standin-tts==9\.9") as failed:
        _install(tmp_path, wrong, told, pip=("--no-index", "--find-links", str(index)))
    assert "It needs a wand." in failed.value.hint
    assert environments.state("standin", tmp_path, recipe=wrong) == "broken"
    assert told[0].startswith("standin takes about 19.1 MiB in")
    assert any("No matching distribution" in line for line in told)


def test_nothing_is_made_without_a_yes(tmp_path: Path) -> None:
    asked: list[str] = []

    def no(notice: str) -> bool:
        asked.append(notice)
        return False

    with pytest.raises(InvalidInputError, match="licence was not accepted"):
        _install(tmp_path, RECIPE, yes=no)
    assert asked == [RECIPE.notice]
    assert environments.state("standin", tmp_path, recipe=RECIPE) == "absent"


def test_the_host_hears_of_the_yes(home: Path) -> None:
    """Only where the stamp says so is the library told."""
    with client(home) as made:
        parts: list[Part] = list(made.speak([Utterance("environment")]))
    assert sum(len(part.data) for part in parts) // 4 == 1600 * len("environment")
    assert environments.variables(home / "standin", RECIPE) == {"STANDIN_AGREED": "1"}
    assert environments.variables(home / "nowhere", RECIPE) == {}


def test_a_disk_too_small_is_refused_before_anything(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="needs about"):
        _install(tmp_path, replace(SMALL, disk_bytes=1 << 60))
    assert environments.state("small", tmp_path, recipe=SMALL) == "absent"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_two_do_not_make_the_same_one(tmp_path: Path) -> None:
    from anyrig.storage.files import lock_file

    with lock_file(tmp_path / "small.lock", 0) as mine:
        assert mine
        with pytest.raises(StorageError, match="another process"):
            _install(tmp_path, SMALL)


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
def test_another_python_is_sought_and_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name on the PATH that does not start that Python, as version managers leave, is passed."""
    for name, body in (("python3.8", "exit 127"), ("python3.7", "echo 3 7")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    old = replace(SMALL, lowest=(3, 6), highest=(3, 8))
    assert environments.interpreter(old) == ["python3.7"]
    (tmp_path / "python3.7").unlink()
    with pytest.raises(MissingPackageError, match=r"needs Python 3\.6 to 3\.8") as missing:
        environments.interpreter(old)
    assert "python3.8" in missing.value.hint


def test_every_recipe_is_pinned_and_known_to_the_host() -> None:
    from anyrig.speech.hosting.host import ADAPTERS

    assert set(RECIPES) == set(ADAPTERS)
    for recipe in RECIPES.values():
        assert recipe.adapter in ADAPTERS
        assert all("==" in row or " @ " in row for row in recipe.requirements)
        assert recipe.disk("cpu") < recipe.disk("cuda")
    with pytest.raises(InvalidInputError, match="no environment of its own"):
        recipe_of("hibari")


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    ("machine_name", "flavour", "index"),
    [
        ("no-gpu", "cpu", ["cpu"]),
        ("h200-linux", "cuda", []),  # the package index has it
        ("gtx1080ti-linux", "cuda", ["cu126"]),  # the last with its kernels
        ("rtx5090-cpu-torch-windows", "cuda", ["cu128"]),
        ("jetson-orin-linux", "cpu", ["cpu"]),
        ("mi300x-linux", "rocm", ["rocm6.4"]),
        ("rx6700xt-linux", "cpu", ["cpu"]),  # no kernels in that build ...
        ("rx6700xt-override-linux", "rocm", ["rocm6.4"]),  # ... but a sibling's
        ("rx7900xtx-windows", "cpu", ["cpu"]),  # builds for Linux alone
        ("arc-b580-linux", "xpu", ["xpu"]),
        ("core-ultra-linux", "xpu", ["xpu"]),
        ("rx640-uhd750-windows", "cpu", ["cpu"]),
        ("macbook-m4", "mac", []),
        ("macbook-intel", "cpu", ["cpu"]),
    ],
)  # fmt: skip
def test_torch_comes_for_the_device(
    machine: Callable[..., Machine], name: str, machine_name: str, flavour: str, index: list[str]
) -> None:
    recipe = RECIPES[name]
    wheel = find_torch_wheel(machine(machine_name), recipe.torch)
    assert wheel.flavour == flavour
    words = environments._index(recipe, wheel)
    assert [word.rpartition("/")[2] for word in words[1:]] == index


def test_an_arc_on_windows_gets_the_build_for_it() -> None:
    record = record_of("rx640-uhd750-windows")
    record["dxgi"] = [{**record["dxgi"][0], "VendorId": 0x8086, "DeviceId": 0xE20B}]
    wheel = find_torch_wheel(from_record(record), RECIPES["xtts"].torch)
    assert (wheel.flavour, wheel.index) == ("xpu", "xpu")
