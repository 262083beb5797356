"""Python environments of engines whose packages clash with anyrig's or with each other's.

An environment is one folder with an interpreter and pinned packages. The worker of such an engine
is the ordinary one (`work/worker_main.py`), started with that interpreter: of this installation it
sees anyrig and the package of the engine, and nothing else, so both must import without anyrig's
dependencies.

pip installs the packages, because it follows what the user has set for it (indexes, mirrors,
constraints, certificates). An environment cannot be moved, so it is built in place and its stamp
is written last: a folder without a stamp is incomplete and is built again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.devices.machine import TORCH_INDEX_URL
from anyrig.devices.wheels import CPU_FLAVOUR
from anyrig.errors import (
    DeviceUnusableError,
    InvalidInputError,
    Message,
    MissingPackageError,
    OptionRef,
    StorageError,
    WorkError,
)
from anyrig.storage.files import lock_file, make_folder, write_atomic
from anyrig.units import format_bytes
from anyrig.work.engine import Interpreter

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle
    from anyrig.devices.vendor import TorchWheel
    from anyrig.placement import Placement

EnvironmentState = Literal["absent", "ready", "stale", "broken"]
"""`stale`: built with other pins, or with a Python that is too old. `broken`: incomplete."""
GB = 1_000_000_000
MIN_PYTHON = (3, 11)
"""The oldest Python that anyrig's own code runs on."""
TORCH_28_INDEXES = {"cpu": "cpu", "cuda": "cu128", "rocm": "rocm6.4", "xpu": "xpu"}
_STAMP = "anyrig-environment.json"
_LAST_LINES = 15
# Variables of the user that would lead pip or Python out of the new environment.
_MISLEADING = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV")
_DESCRIBE = (
    "import json, sys; from importlib.metadata import distributions\n"
    "versions = {}\n"
    "for one in distributions():\n"
    "    name = one.metadata['Name'].lower().replace('_', '-')\n"
    "    versions.setdefault(name, one.version)\n"
    "print(json.dumps([sys.version.split()[0], versions]))"
)


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an environment holds: pins that were chosen together, and their price."""

    requirements: tuple[str, ...]
    """As pip takes them; the engine's own package first."""
    max_python: tuple[int, int]
    """The newest Python that all of it is published for."""
    min_python: tuple[int, int] = MIN_PYTHON
    systems: tuple[tuple[str, str], ...] = ()
    """Operating system and machine that all of it is published for; empty: every one."""
    torch_indexes: Mapping[str, str] = field(default_factory=dict)
    """By flavour of torch: the folder of torch's own index that usually has the pinned torch."""
    disk_bytes: int = 0
    """Installed with torch for the CPU."""
    gpu_disk_bytes: int = 0
    """Installed with torch for a GPU."""
    notice: str = ""
    """What a person must agree to before the weights are used; empty if nothing is asked."""
    agreed_variables: Mapping[str, str] = field(default_factory=dict)
    """What tells the library of the agreement."""
    system_needs: str = ""
    """What must be on the system, in a sentence."""

    @property
    def torch(self) -> str:
        """The version of torch that is pinned."""
        pins = dict(requirement.partition("==")[::2] for requirement in self.requirements)
        return pins.get("torch", "")

    def estimate_disk(self, flavour: str) -> int:
        """About how much space it takes with a build of torch, in bytes."""
        on_gpu = flavour in self.torch_indexes and flavour != CPU_FLAVOUR
        return (self.gpu_disk_bytes or self.disk_bytes) if on_gpu else self.disk_bytes


@dataclass(frozen=True)
class EnvironmentStamp:
    """What a complete environment holds; the names are those in its file."""

    recipe: str
    """`Environment.fingerprint` when it was built."""
    python: str = ""
    kind: str = ""
    """The flavour of its torch: `cuda`, `cpu`."""
    agreed: bool = False
    """Whether the person agreed to the notice."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of everything installed."""


class Environment:
    """The environment of one engine, whether it exists or not.

    Args:
        name: of the engine.
        spec: what it should hold.
        home: the folder of all environments.
    """

    def __init__(self, name: str, spec: EnvironmentSpec, home: Path) -> None:
        self.name, self.spec, self._home = name, spec, home
        self.folder = home / name

    @property
    def fingerprint(self) -> str:
        """Changes when what is installed does."""
        # `adapter` and `builds` are what 0.1.0 called them: what it built remains usable.
        content = {
            "name": self.name,
            "adapter": self.name,
            "requirements": self.spec.requirements,
            "builds": self.spec.torch_indexes,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
        return self.folder.joinpath(*inside)

    @property
    def stamp(self) -> EnvironmentStamp | None:
        """None if it is incomplete."""
        try:
            return EnvironmentStamp(
                **json.loads((self.folder / _STAMP).read_text(encoding="utf-8"))
            )
        except (OSError, ValueError, TypeError):
            return None

    @property
    def state(self) -> EnvironmentState:
        """Whether it can be used, found out without starting it."""
        if not self.folder.exists():
            return "absent"
        stamp = self.stamp
        if stamp is None or not self.python.exists():
            return "broken"
        is_current = stamp.recipe == self.fingerprint and _parse(stamp.python) >= MIN_PYTHON
        return "ready" if is_current else "stale"

    def require(self) -> EnvironmentStamp:
        """What it holds; MissingPackageError if it cannot be used."""
        state, stamp = self.state, self.stamp
        if state != "ready" or stamp is None:
            problems = {
                "absent": "is not installed",
                "broken": "is installed incompletely, or its environment is damaged",
                "stale": "was installed for another release of anyrig",
            }
            problem = problems.get(state, problems["broken"])
            raise MissingPackageError(f"{self.name} {problem}", hint=install_command(self.name))
        return stamp

    @property
    def versions(self) -> str:
        """Its libraries that decide how the engine sounds, for the version of the engine."""
        stamp = self.require()
        first = self.spec.requirements[0].partition("==")[0].partition("[")[0].partition(" ")[0]
        names = [one for one in (first, "torch", "transformers") if one in stamp.versions]
        return "+".join(f"{one}-{stamp.versions[one]}" for one in names) or stamp.recipe

    def interpreter(self, engine: type) -> Interpreter:
        """For the workers of an engine's class."""
        agreed = self.spec.agreed_variables if self.require().agreed else {}
        return Interpreter(
            str(self.python),
            {package: _find_package(package) for package in ("anyrig", _top_package(engine))},
            # Published weights are often pickles: torch reads the tensors in them, and no code.
            {**agreed, "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"},
        )

    # -- building -------------------------------------------------------------------------------

    def install(
        self,
        *,
        agree: Callable[[str], bool],
        on_line: Callable[[str], None],
        variables: Mapping[str, str],
        torch: TorchWheel | None = None,
        pip_options: Sequence[str] = (),
    ) -> None:
        """Build it, unless it is ready.

        Args:
            agree: shows the notice to a person, and returns whether they agree.
            on_line: is called with lines of progress.
            variables: this process's environment variables, for pip.
            torch: the build of torch to install; None takes what the package index gives.
            pip_options: more arguments of `pip install`.
        """
        flavour = torch.flavour if torch else ""
        if self.state == "ready" and self._has_torch_for(flavour):
            on_line(f"{self.name} is ready in {self.folder}")
            return
        self.check_system()
        python = self.find_python()
        self._check_disk(flavour, on_line)
        agreed = self._require_agreement(agree)
        with self._lock():
            self._clear()
            index = list_index_options(self.spec, torch) if torch else []
            self._build(python, [*index, *pip_options], _clean_variables(variables), on_line)
            self._write_stamp(flavour, agreed)
        on_line(f"{self.name} is ready in {self.folder}")

    def remove(self) -> bool:
        """Delete it; False if there was none."""
        if not self.folder.exists():
            return False
        with self._lock():
            self._clear()
        return True

    def check_system(self) -> None:
        """MissingPackageError where the packages are not published for this system."""
        here = platform.system().lower(), platform.machine().lower().replace("amd64", "x86_64")
        systems = self.spec.systems
        if systems and here not in systems:
            published = " and ".join(f"{system} on {machine}" for system, machine in systems)
            raise MissingPackageError(
                f"{self.name} is published for {published} only; this is {here[0]} on {here[1]}",
                hint="`anyrig engines` lists the engines that can be used here.",
            )

    def find_python(self) -> list[str]:
        """The command of a Python that the packages are published for: this one if it will do."""
        low, high = max(self.spec.min_python, MIN_PYTHON), self.spec.max_python
        if low <= sys.version_info[:2] <= high:
            return [sys.executable]
        for minor in range(high[1], low[1] - 1, -1):
            for command in ([f"python3.{minor}"], ["py", f"-3.{minor}"]):
                if shutil.which(command[0]) and _is_python(command, (3, minor)):
                    return command
        oldest, newest = (".".join(map(str, version)) for version in (low, high))
        raise MissingPackageError(
            f"{self.name} needs Python {oldest} to {newest}; this is {sys.version.split()[0]} and "
            "no other was found",
            hint=f"Install Python {newest} so that `python{newest}` is on the PATH.",
        )

    def _has_torch_for(self, flavour: str) -> bool:
        """Whether its torch is for such devices: every build of torch serves the CPU."""
        stamp = self.stamp
        return flavour in ("", CPU_FLAVOUR) or (stamp is not None and stamp.kind == flavour)

    def _check_disk(self, flavour: str, on_line: Callable[[str], None]) -> None:
        make_folder(self._home)
        needed = self.spec.estimate_disk(flavour)
        free = shutil.disk_usage(self._home).free
        on_line(
            f"{self.name} takes about {format_bytes(needed)} in {self._home};"
            f" {format_bytes(free)} are free"
        )
        if free < needed:
            raise StorageError(
                f"{self.name} needs about {format_bytes(needed)}; {format_bytes(free)} are free",
                hint="Free disk space, or set another cache folder.",
            )

    def _require_agreement(self, agree: Callable[[str], bool]) -> bool:
        """Whether the notice was agreed to, now or before; InvalidInputError if it was refused."""
        stamp = self.stamp
        if not self.spec.notice or (stamp is not None and stamp.agreed):
            return bool(self.spec.notice)
        if not agree(self.spec.notice):
            raise InvalidInputError(
                f"{self.name} was not installed: its licence was not accepted",
                hint="`anyrig engines` lists engines with other licences.",
            )
        return True

    def _build(
        self,
        python: Sequence[str],
        pip_options: Sequence[str],
        variables: Mapping[str, str],
        on_line: Callable[[str], None],
    ) -> None:
        on_line(f"creating an environment for {self.name} with {' '.join(python)}")
        _run(
            [*python, "-I", "-m", "venv", str(self.folder)], variables, on_line,
            hint="On Debian and Ubuntu `apt install python3-venv` installs what is missing.",
        )  # fmt: skip
        pip = [str(self.python), "-I", "-u", "-X", "utf8", "-m", "pip", "install", "--no-input"]
        needs = f" It needs {self.spec.system_needs}." if self.spec.system_needs else ""
        if self.spec.requirements:
            _run(
                [*pip, *pip_options, *self.spec.requirements], variables, on_line,
                hint=f"The lines above are pip's.{needs} Check the network, then try again.",
            )  # fmt: skip

    def _write_stamp(self, flavour: str, agreed: bool) -> None:
        command = [str(self.python), "-I", "-c", _DESCRIBE]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise WorkError(
                f"the new environment's Python does not start: {done.stderr.strip()[-300:]}",
                hint="Install the engine again, or put another Python on the PATH first.",
            )
        python, versions = json.loads(done.stdout)
        data = {
            "recipe": self.fingerprint, "python": python, "kind": flavour, "agreed": agreed,
            "versions": versions,
        }  # fmt: skip
        write_atomic(self.folder / _STAMP, json.dumps(data, indent=1))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One process at a time builds or removes an environment."""
        make_folder(self._home)
        with lock_file(self._home / f"{self.name}.lock", wait_s=1.0) as is_mine:
            if not is_mine:
                raise StorageError(
                    f"another process is installing or removing {self.name}",
                    hint="Wait until it is done.",
                )
            yield

    def _clear(self) -> None:
        """Delete the folder, its stamp first: what is left of it then counts as broken."""
        try:
            (self.folder / _STAMP).unlink(missing_ok=True)
            if self.folder.exists():
                shutil.rmtree(self.folder)
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be removed: {error}",
                hint="Another process may use it: stop it, then try again.",
            ) from error


def install_command(name: str) -> str:
    return f"anyrig engines install {name}"


def list_index_options(spec: EnvironmentSpec, torch: TorchWheel) -> list[str]:
    """torch's own index, for devices that the builds on the package index do not serve."""
    has_index = torch.index and torch.flavour in spec.torch_indexes
    return ["--extra-index-url", f"{TORCH_INDEX_URL}/{torch.index}"] if has_index else []


def _parse(version: str) -> tuple[int, ...]:
    """(3, 11) of `3.11.7`; stamps of 0.1.0 always have one."""
    try:
        return tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        return (0,)


def _top_package(engine: type) -> str:
    return engine.__module__.partition(".")[0]


def _find_package(name: str) -> str:
    """The folder that a package, or a module that is one file, lies in."""
    from importlib.util import find_spec

    spec = find_spec(name)
    assert spec is not None, "the engine was imported from it"
    if spec.submodule_search_locations:
        return str(Path(next(iter(spec.submodule_search_locations))).parent)
    return str(Path(str(spec.origin)).parent)


def _is_python(command: Sequence[str], version: tuple[int, int]) -> bool:
    """Whether a command really starts that Python: version managers leave names that do not."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [*command, "-I", "-c", code], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.split() == [str(part) for part in version]


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    on_line: Callable[[str], None],
    *,
    hint: str,
) -> None:
    """Run a step; its lines are passed on as they come, and the last of them if it fails."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env=dict(variables), text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    try:
        with process.stdout:
            for line in filter(str.strip, process.stdout):
                last.append(line.rstrip())
                on_line(line.rstrip())
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code:
        start = command.index("-m")
        shown = " ".join([Path(command[0]).name, *command[start : start + 3]])
        output = "\n".join(last)
        raise WorkError(f"`{shown}` ended with code {code}:\n{output}", hint=hint)


def _clean_variables(variables: Mapping[str, str]) -> dict[str, str]:
    clean = {name: value for name, value in variables.items() if name not in _MISLEADING}
    return {
        **clean,
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def open_torch(placement: Placement) -> TorchHandle:
    """The placement's device through the torch of the environment that this worker runs in.

    Placements are planned for the libraries that anyrig has: theirs may be another one.
    """
    from anyrig.backends.torch import TorchHandle
    from anyrig.devices.machine import DeviceBackend
    from anyrig.devices.vendors import vendor_of

    device = placement.device
    selector = "cpu" if device.kind == "cpu" else vendor_of(device).torch_device or "cpu"
    provider = selector.partition(":")[0]
    import torch

    library = torch.backends.mps if provider == "mps" else getattr(torch, provider, None)
    if provider != "cpu" and (library is None or not library.is_available()):
        raise DeviceUnusableError(
            f"torch {torch.__version__} of this environment cannot use {device.name}",
            hint=Message(
                "Install the engine again, or pass {cpu}.", cpu=OptionRef("device", "cpu")
            ),
        )
    backend = DeviceBackend("torch", selector, provider)
    return TorchHandle(device, backend, threads=placement.threads)


def seed_everything(seed: int) -> None:
    """Seed every source of randomness: a take must not depend on what was spoken before it."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)
