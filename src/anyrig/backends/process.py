"""Child processes that compute: how they are started, bound to one device, watched and killed.

A driver that hangs or crashes takes down only a child. A child reads its standard input for as long
as its parent lives, and ends with it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from anyrig.backends import NO_TELEMETRY
from anyrig.devices.machine import Device

log = logging.getLogger(__name__)
KILL_TIMEOUT_S = 5.0
"""How long to wait for a killed process; one that is stuck in a driver may never end."""
_POLL_S = 0.05
_TAIL_LINES = 20
_CHILD_ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child_entry.py")


class ChildProcess(subprocess.Popen[bytes]):
    """A process that leads its own process group, where the system has groups.

    The group is killed before its leader is reaped: until then no other process can have the id.
    `wait`, `poll` and `send_signal` may be called from several threads.

    Args:
        own_group: Ctrl-C goes to the parent only, and the child's children end with it. Without,
            the child ends when somebody kills this process's group.
    """

    def __init__(self, command: Sequence[str], *, own_group: bool = True, **options: Any) -> None:
        self._lock = threading.RLock()
        """Held while the process is reaped or signalled."""
        self._leads_group = own_group and sys.platform != "win32"
        super().__init__(list(command), start_new_session=self._leads_group, **options)

    def poll(self) -> int | None:
        if sys.platform == "win32":
            return super().poll()
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            if not hasattr(os, "waitid"):  # macOS before Python 3.13
                code = super().poll()
                if code is not None:
                    self._kill_orphans()
                return code
            with contextlib.suppress(ChildProcessError):  # reaped by somebody else
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return None  # it runs
                self.kill_group()
            return super().poll()

    def wait(self, timeout: float | None = None) -> int:
        if sys.platform == "win32":
            return super().wait(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.0005
        while (code := self.poll()) is None:
            if deadline is None and hasattr(os, "waitid"):
                with contextlib.suppress(ChildProcessError):  # reaped by another thread
                    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                continue
            left = _POLL_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            pause = min(2 * pause, left, _POLL_S)
            time.sleep(pause)
        return code

    def send_signal(self, sig: int) -> None:
        with self._lock:
            super().send_signal(sig)

    def kill_group(self) -> None:
        """Kill the process and its descendants; does nothing once it has been reaped."""
        if sys.platform == "win32" or not self._leads_group:
            return
        with self._lock, contextlib.suppress(OSError):
            if self.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)

    def _kill_orphans(self) -> None:
        """Kill what a reaped leader left behind, unless its id is in use again."""
        if not self._leads_group:
            return
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass  # another process has the id


class ChildModule(ChildProcess):
    """A module in a child, with pipes for its streams unless others were given."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


def start_module(
    module: str,
    environment: Mapping[str, str],
    *arguments: str,
    cwd: str | None = None,
    own_group: bool = True,
    umask: int = -1,
    interpreter: tuple[str, Mapping[str, str]] | None = None,
    stdin: int | None = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
) -> ChildModule:
    """Start a module.

    Args:
        environment: the child's whole environment; `bind_device` adds what hides other devices.
        umask: of the child; -1 is this process's own.
        interpreter: another Python, and the packages of this installation that it may import, each
            with the folder that holds it; the module is in one of them.
        stdin: as `subprocess.Popen` takes it, like the other two; None inherits this process's.
    """
    command = module_command(module, *arguments)
    if interpreter is not None:
        python, packages = interpreter
        # -I: neither PYTHONPATH nor the user's own packages, which may be those that clash.
        command = [python, "-I", "-X", "utf8", _CHILD_ENTRY, json.dumps(dict(packages)), module]
        command += arguments
    return ChildModule(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=child_environment(environment),
        cwd=cwd,
        own_group=own_group,
        umask=umask,
    )


def module_command(module: str, *arguments: str) -> list[str]:
    """The command of every Python process that anyrig starts; see `child_environment`.

    Modules in the working directory must not shadow installed ones: a folder of somebody else's
    files may have a `secrets.py`.
    """
    return [sys.executable, "-P", _CHILD_ENTRY, module, *arguments]


def code_command(code: str) -> list[str]:
    """The command that runs a few lines, which import what is installed and nothing else."""
    return [sys.executable, "-P", "-c", code]


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child whose own children do not search the working directory either."""
    return {**NO_TELEMETRY, **environment, "PYTHONSAFEPATH": "1"}


def claim_stdio() -> tuple[IO[bytes], IO[bytes]]:
    """In a child: its pipes from and to the parent, before libraries load that read or print.

    What they print goes to stderr, and they find nothing to read. On Windows a thread that waits on
    stdin itself would keep other libraries from loading.
    """
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return reading, writing


class StderrTail:
    """The last lines that a child wrote to stderr, read by a thread."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """The last lines, once the child has ended."""
        self._thread.join(timeout=5)
        return list(self._lines)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._lines.append(line.decode("utf-8", "replace").rstrip())


def kill_process_group(process: ChildProcess, timeout_s: float | None = None) -> int | None:
    """Kill a child and its descendants; its exit code, or None if it did not end in time.

    Args:
        timeout_s: how long to wait for its end; None means `KILL_TIMEOUT_S`.
    """
    process.kill_group()
    process.kill()
    code: int | None = None
    try:
        code = process.wait(KILL_TIMEOUT_S if timeout_s is None else timeout_s)
    except subprocess.TimeoutExpired:
        log.warning("process %d was killed but has not ended; leaving it behind", process.pid)
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.close()
    return code  # the readers of the other pipes close them


def describe_exit(code: int, stderr_lines: Sequence[str]) -> str:
    """How a child ended, with the last line of its stderr."""
    last = next((line.strip() for line in reversed(stderr_lines) if line.strip()), "")
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    return how + (f": {last[:300]}" if last else "")


# -- binding a child to a device -------------------------------------------------------------------


def bind_device(device: Device, environment: Mapping[str, str]) -> tuple[dict[str, str], Device]:
    """The variables that show a child one device only, and the device as the child counts it.

    They must be set before the libraries load. A UUID is unambiguous whatever order CUDA counts in,
    and the only way to select a MIG instance.

    Args:
        environment: this process's own, whose variables may hide devices already.
    """
    if device.kind == "cpu":
        # HIP takes an empty value for an unset one.
        return {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}, device
    variables, indices = _hide_others(device, environment)
    if device.pci_address:
        # Mesa's Vulkan layer then lists this card first: WebGPU takes the first of equal ones.
        variables["DRI_PRIME"] = f"pci-{re.sub(r'[:.]', '_', device.pci_address)}"
    return variables, replace(device, indices={**device.indices, **indices})


def _hide_others(
    device: Device, environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, int]]:
    # An id that two cards share has a suffix, which CUDA does not know.
    if device.vendor == "nvidia" and re.fullmatch(r"(GPU|MIG)-[^@#]+", device.id):
        return {"CUDA_VISIBLE_DEVICES": device.id}, {"cuda": 0}
    if device.vendor == "amd" and "rocm" in device.indices:
        index = device.indices["rocm"]
        visible = environment.get("HIP_VISIBLE_DEVICES", environment.get("CUDA_VISIBLE_DEVICES"))
        entry = str(index)
        if visible:  # HIP skips repeated entries
            entry = list(dict.fromkeys(part.strip() for part in visible.split(",")))[index]
        return {"HIP_VISIBLE_DEVICES": entry}, {"rocm": 0}
    if device.vendor == "intel" and "xpu" in device.indices:
        index = device.indices.get("ze", device.indices["xpu"])
        variables = {"ZE_AFFINITY_MASK": str(index)}
        if environment.get("ONEAPI_DEVICE_SELECTOR"):  # its numbers count what the mask leaves
            variables["ONEAPI_DEVICE_SELECTOR"] = "level_zero:*"
        return variables, {"xpu": 0, "openvino": 0}
    return {}, {}
