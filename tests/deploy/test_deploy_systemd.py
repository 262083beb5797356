"""systemd's units: checked by systemd itself, and by what anyrig takes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.cli.main import parse_command_line
from anyrig.errors import MissingPackageError
from tests.conftest import ROOT
from tests.deploy import files
from tests.deploy.files import UNITS

OWN = "/opt/anyrig/bin/anyrig"


def keys(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in files.text(path).splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.system("systemd", "systemd-analyze")
def test_systemd_takes_them(tmp_path: Path) -> None:
    names = []
    for path in UNITS:
        # A program that is there, as it looks for it.
        (tmp_path / path.name).write_text(files.text(path).replace(OWN, sys.executable))
        names.append(path.name.replace("@.", "@gpu0."))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(f"./{name}" for name in names)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "anyrig" in line]
    assert (ours, done.returncode) == ([], 0)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_shut_in_and_sees_gpus(path: Path) -> None:
    found = keys(path)
    assert found["User"] == ["anyrig"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["CapabilityBoundingSet"] == [""]
    # Each of these takes the devices away; the clock's own does it without saying so.
    assert not {"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock"} & set(found)
    assert "MemoryDenyWriteExecute" not in found
    homes = dict(one.split("=", 1) for one in found["Environment"] if not one.startswith("WORKER"))
    xdg = {f"XDG_{name}_HOME" for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    assert set(homes) == {"HOME", *xdg}
    assert all(value.startswith("/var/lib/anyrig") for value in homes.values())
    assert found["StateDirectory"] == ["anyrig"]


def test_secrets_are_for_their_owner_alone_and_need_no_folder_before() -> None:
    page = files.text(ROOT / "docs" / "deploy.md")
    for whole in (page, *map(files.text, UNITS)):
        lines = [line.lstrip("# ") for line in whole.splitlines()]
        assert not [line for line in lines if "tee /etc/anyrig" in line]
        made = [at for at, line in enumerate(lines) if "install -d -m 700 /etc/anyrig" in line]
        used = [at for at, line in enumerate(lines) if "| sudo install" in line]
        assert all("-m 600 /dev/stdin /etc/anyrig/" in lines[at] for at in used)
        assert not used or made[0] < used[0]


def test_a_unit_starts_without_its_file_and_not_again_without_a_package() -> None:
    for path in UNITS:
        found = keys(path)
        assert all(one.startswith("-/etc/anyrig/") for one in found["EnvironmentFile"])
        assert found["RestartPreventExitStatus"] == [str(MissingPackageError.exit_code)]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_anyrig_knows_what_it_is_told(path: Path) -> None:
    (line,) = keys(path)["ExecStart"]
    program, *words = shlex.split(re.sub(r"\$COORDINATOR_OPTIONS", "--flower", line))
    assert program == OWN
    assert parse_command_line(words)
