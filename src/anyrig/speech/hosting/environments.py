"""Virtual environments of hosted engines: made, looked at, removed. One folder each.

An environment cannot be moved once it is made, so it is made in its place and a stamp is written
last: a folder without one is half made and made again. pip does the work, because it follows what
the person has set for it (indexes, mirrors, constraints, certificates); uv would not.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from anyrig.devices.machine import TORCH_INDEX_URL
from anyrig.devices.vendor import TorchWheel
from anyrig.devices.wheels import CPU_FLAVOUR
from anyrig.errors import InvalidInputError, MissingPackageError, StorageError, WorkError
from anyrig.speech.hosting.recipes import Recipe, recipe_of
from anyrig.storage.files import lock_file, make_folder, write_atomic
from anyrig.units import format_bytes

log = logging.getLogger(__name__)
State = Literal["absent", "ready", "stale", "broken"]
"""`stale`: another release of anyrig made it with other pins. `broken`: half made or damaged."""
_STAMP = "anyrig-environment.json"
_LAST_LINES = 15
# A person's variables that would lead pip or Python out of the new environment.
_LEADING_OUT = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV")
_VERSIONS = (
    "import json; from importlib.metadata import distributions\n"
    "found = {}\n"
    "for one in distributions():\n"
    "    name = one.metadata['Name'].lower().replace('_', '-')\n"
    "    found.setdefault(name, one.version)\n"
    "print(json.dumps(found))"
)


@dataclass(frozen=True)
class Stamp:
    """What was made."""

    recipe: str
    """The recipe's fingerprint."""
    python: str = ""
    kind: str = ""
    """The flavour of its torch: `cuda`, `cpu`."""
    agreed: bool = False
    """Whether the person agreed to the notice."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of everything installed."""


def place(home: Path, name: str) -> Path:
    """The folder of an engine's environment."""
    return home / name


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return folder.joinpath(*inside)


def stamp_of(folder: Path) -> Stamp | None:
    """What was written when it was done; None for one that is half made."""
    try:
        data = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
        return Stamp(**data)
    except (OSError, ValueError, TypeError):
        return None


def state(name: str, home: Path, *, recipe: Recipe | None = None) -> State:
    """Whether an engine's environment can be used, without starting it."""
    recipe = recipe or recipe_of(name)
    folder = place(home, name)
    if not folder.exists():
        return "absent"
    stamp = stamp_of(folder)
    if stamp is None or not python_of(folder).exists():
        return "broken"
    return "ready" if stamp.recipe == recipe.fingerprint else "stale"


def disk_bytes(name: str, home: Path) -> int:
    """What an environment takes on disk; 0 when it is absent."""
    total = 0
    for top, _, files in os.walk(place(home, name)):
        for file in files:
            path = Path(top, file)
            if not path.is_symlink():
                total += path.stat().st_size
    return total


def remove(name: str, home: Path) -> bool:
    """Take an environment away; False when there was none."""
    folder = place(home, name)
    if not folder.exists():
        return False
    with _alone(name, home):
        _clear(folder)
    return True


def install(
    name: str,
    home: Path,
    *,
    yes: Callable[[str], bool],
    tell: Callable[[str], None],
    environment: Mapping[str, str],
    torch: TorchWheel | None = None,
    recipe: Recipe | None = None,
    pip: Sequence[str] = (),
) -> Path:
    """An engine's environment, made unless it is ready; the folder.

    Args:
        name: the engine.
        home: the folder that holds all environments.
        yes: asks a person, who must agree to the notice.
        tell: is given lines of progress.
        environment: this process's variables, for pip.
        torch: the build of torch that is fetched; None takes what the package index gives.
        recipe: another recipe than ours.
        pip: more words for `pip install`.
    """
    recipe = recipe or recipe_of(name)
    folder = place(home, name)
    flavour = torch.flavour if torch else ""
    if state(name, home, recipe=recipe) == "ready" and _fits(stamp_of(folder), flavour):
        tell(f"{name} is ready in {folder}")
        return folder
    python = interpreter(recipe)
    _room(recipe, flavour, home, tell)
    agreed = _agreed(recipe, folder, yes)
    with _alone(name, home):
        _clear(folder)
        index = _index(recipe, torch) if torch else []
        _make(python, folder, recipe, [*index, *pip], _environment(environment), tell)
        _stamp(folder, recipe, flavour, agreed)
    tell(f"{name} is ready in {folder}")
    return folder


def variables(folder: Path, recipe: Recipe) -> Mapping[str, str]:
    """What a host's environment holds because a person agreed to the notice."""
    stamp = stamp_of(folder)
    return recipe.agreed if stamp is not None and stamp.agreed else {}


# -- which Python ----------------------------------------------------------------------------------


def interpreter(recipe: Recipe) -> list[str]:
    """The command of a Python that the recipe's packages are published for: this one if it may."""
    if recipe.lowest <= sys.version_info[:2] <= recipe.highest:
        return [sys.executable]
    for minor in range(recipe.highest[1], recipe.lowest[1] - 1, -1):
        for command in ([f"python3.{minor}"], ["py", f"-3.{minor}"]):
            if shutil.which(command[0]) and _is(command, (3, minor)):
                return command
    low, high = (".".join(map(str, version)) for version in (recipe.lowest, recipe.highest))
    raise MissingPackageError(
        f"{recipe.name} needs Python {low} to {high}; this is {sys.version.split()[0]} and no "
        "other was found",
        hint=f"Install Python {high} so that `python{high}` is on the PATH.",
    )


def _is(command: Sequence[str], version: tuple[int, int]) -> bool:
    """Whether a command really starts that Python: version managers leave names that do not."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [*command, "-I", "-c", code], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.split() == [str(part) for part in version]


# -- making ----------------------------------------------------------------------------------------


def _make(
    python: Sequence[str],
    folder: Path,
    recipe: Recipe,
    pip: Sequence[str],
    environment: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    tell(f"creating an environment for {recipe.name} with {' '.join(python)}")
    _run(
        [*python, "-I", "-m", "venv", str(folder)], environment, tell,
        hint="On Debian and Ubuntu `apt install python3-venv` installs what is missing.",
    )  # fmt: skip
    words = ["-I", "-u", "-X", "utf8", "-m", "pip", "install", "--no-input", *pip]
    needs = f" It needs {recipe.needs}." if recipe.needs else ""
    _run(
        [str(python_of(folder)), *words, *recipe.requirements], environment, tell,
        hint=f"The lines above are pip's.{needs} Check the network, then try again.",
    )  # fmt: skip


def _index(recipe: Recipe, torch: TorchWheel) -> list[str]:
    """torch's own index, for devices that the builds on the package index do not serve."""
    known = torch.index and torch.flavour in recipe.builds
    return ["--extra-index-url", f"{TORCH_INDEX_URL}/{torch.index}"] if known else []


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    tell: Callable[[str], None],
    *,
    hint: str,
) -> None:
    """Run a step; its lines are told as they come, the last of them again when it fails."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env=dict(environment), text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    try:
        with process.stdout:
            for line in process.stdout:
                if line.strip():
                    last.append(line.rstrip())
                    tell(line.rstrip())
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code:
        said = "\n".join(last)
        raise WorkError(f"`{_short(command)}` ended with code {code}:\n{said}", hint=hint)


def _short(command: Sequence[str]) -> str:
    first = command.index("-m")
    return " ".join([Path(command[0]).name, *command[first : first + 3]])


def _stamp(folder: Path, recipe: Recipe, flavour: str, agreed: bool) -> None:
    """The last thing that is written: what the environment holds."""
    python = str(python_of(folder))
    done = subprocess.run([python, "-I", "-c", _VERSIONS], capture_output=True, text=True)
    if done.returncode:
        raise WorkError(
            f"the new environment's Python does not start: {done.stderr.strip()[-300:]}",
            hint="Install the engine again; another Python on the PATH may do.",
        )
    code = "import sys; print(sys.version.split()[0])"
    version = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    data = {
        "recipe": recipe.fingerprint,
        "python": version.stdout.strip(),
        "kind": flavour,
        "agreed": agreed,
        "versions": json.loads(done.stdout),
    }
    write_atomic(folder / _STAMP, json.dumps(data, indent=1))


def _fits(stamp: Stamp | None, flavour: str) -> bool:
    """Whether an environment serves such devices: every build of torch serves the CPU."""
    return flavour in ("", CPU_FLAVOUR) or (stamp is not None and stamp.kind == flavour)


def _agreed(recipe: Recipe, folder: Path, yes: Callable[[str], bool]) -> bool:
    """Whether the notice was agreed to, now or before; InvalidInputError when it was refused."""
    stamp = stamp_of(folder)
    if not recipe.notice or (stamp is not None and stamp.agreed):
        return bool(recipe.notice)
    if not yes(recipe.notice):
        raise InvalidInputError(
            f"{recipe.name} was not installed: its licence was not accepted",
            hint="`anyrig engines` lists engines with other licences.",
        )
    return True


def _room(recipe: Recipe, flavour: str, home: Path, tell: Callable[[str], None]) -> None:
    """Say what it takes, and refuse when there is not so much."""
    make_folder(home)
    wanted, free = recipe.disk(flavour), shutil.disk_usage(home).free
    tell(
        f"{recipe.name} takes about {format_bytes(wanted)} in {home}; {format_bytes(free)} are free"
    )
    if free < wanted:
        raise StorageError(
            f"{recipe.name} needs about {format_bytes(wanted)}; {format_bytes(free)} are free",
            hint="Free disk space, or set another cache folder.",
        )


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name not in _LEADING_OUT}
    return {
        **kept,
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@contextmanager
def _alone(name: str, home: Path) -> Iterator[None]:
    """One process at a time makes or removes an environment."""
    make_folder(home)
    with lock_file(home / f"{name}.lock", wait_s=1.0) as mine:
        if not mine:
            raise StorageError(
                f"another process is installing or removing {name}",
                hint="Wait until it is done.",
            )
        yield


def _clear(folder: Path) -> None:
    """Take a folder away, its stamp first: what is left half removed is known as broken."""
    try:
        (folder / _STAMP).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be removed: {error}",
            hint="Another process may use it: stop it, then try again.",
        ) from error
