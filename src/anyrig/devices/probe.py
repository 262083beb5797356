"""What is asked of the operating system, and who answers: this machine or a recorded one.

Discovery never opens a file or a library itself. It asks a `HostProbe`, which passes each query on:
to `LiveProbe` (this machine), `RecordedProbe` (a JSON file) or `RecordingProbe` (which writes the
answers down). So a recorded machine runs the same code as a real one. Queries and answers are plain
data; tests/machines/README.md describes the file.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from anyrig.errors import InvalidRecordError

_COMMAND_TIMEOUT_S = 10
_DXCORE = "/usr/lib/wsl/lib/libdxcore.so"
_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_AMDGPU_IDS = "/usr/share/libdrm/amdgpu.ids"
_RECORD_FORMAT = 1
_RECORD_HINT = (
    "Write one with `anyrig devices --record FILE`; tests/machines/README.md describes the format."
)
_RECORD_SECTIONS = frozenset(
    "format about cites host environment files folders links nodes catalogue nvml drm dxgi dxcore "
    "registry commands packages package_files disk probes".split()
)
_NO_PYNVML = "the package nvidia-ml-py is not installed"
PYNVML_MISSING = "PYNVML_MISSING"


class Unavailable(Exception):
    """An interface gave no answer: not installed, refused, or not on this platform."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """The library's own error name, such as NVML_ERROR_DRIVER_NOT_LOADED."""


class NotFound(Unavailable):
    """What was asked for does not exist on this machine."""


class Probe(Protocol):
    """Answers a query to an interface with plain data, or raises `Unavailable`."""

    def __call__(self, interface: str, *query: str) -> Any: ...


class HostProbe:
    """Typed queries to a machine; to this one without a probe."""

    def __init__(
        self, probe: Probe | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ask = probe or LiveProbe()
        self.environment: Mapping[str, str] = environment or {}

    def host(self) -> dict[str, Any]:
        """What Python knows: system, machine, release, user, groups, affinity."""
        return dict(self._ask("host"))

    def read_text(self, path: str) -> str:
        """A file's text, stripped, of /proc/cpuinfo the first processor's; empty if unreadable."""
        return str(self._ask_or("", "files", path)).strip("\x00 \n\t")

    def read_number(self, path: str) -> int | None:
        """A file that contains one number, decimal or 0x."""
        try:
            return int(self.read_text(path), 0)
        except ValueError:
            return None

    def list_names(self, path: str) -> list[str]:
        """The entries of a folder, sorted; empty if it does not exist."""
        return sorted(self._ask_or([], "folders", path))

    def link(self, path: str) -> str:
        """The resolved target of a link, or an empty string."""
        return str(self._ask_or("", "links", path))

    def hardware_name(self, database: str, number: str) -> str:
        """The name of a device in the system's own list (`pci` or `amdgpu`), or an empty string."""
        return str(self._ask_or("", "catalogue", database, number))

    def read_node(self, path: str) -> dict[str, str] | None:
        """This user's access to a device file: {"access": "rw", "group": "render"}."""
        found = self._ask_or(None, "nodes", path)
        return None if found is None else dict(found)

    def nvml(self, function: str, handle: str = "") -> Any:
        """One NVML call; handle "0" is a GPU, "0/1" a MIG instance."""
        return self._ask("nvml", function, handle)

    def drm(self, node: str) -> dict[str, Any]:
        """Driver name and memory regions of a DRM node, through its ioctls."""
        return dict(self._ask("drm", node))

    def list_adapters(self, interface: str) -> list[dict[str, Any]]:
        """Graphics adapters as `dxgi` (Windows) or `dxcore` (WSL2) lists them."""
        return list(self._ask(interface))

    def registry(self, key: str) -> dict[str, Any]:
        """The values of a key below HKEY_LOCAL_MACHINE."""
        return dict(self._ask("registry", key))

    def subkeys(self, key: str) -> list[str]:
        return sorted(self._ask_or([], "subkeys", key))

    def run(self, *command: str) -> str:
        """The output of a system program."""
        return str(self._ask("commands", *command))

    def package_version(self, name: str) -> str:
        """The version of an installed distribution, or an empty string."""
        return str(self._ask_or("", "packages", name))

    def package_file(self, path: str) -> str:
        """The text of a file inside site-packages, or an empty string."""
        return str(self._ask_or("", "package_files", path))

    def disk_free(self) -> int | None:
        """Free bytes on the file system of the home folder, for this user."""
        free = self._ask_or(None, "disk", "")
        return None if free is None else int(free)

    def _ask_or(self, default: Any, interface: str, *query: str) -> Any:
        try:
            return self._ask(interface, *query)
        except Unavailable:
            return default


# -- this machine --------------------------------------------------------------------------------


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{name} does not exist") from error
    except (OSError, ValueError) as error:
        raise Unavailable(f"{name}: {getattr(error, 'strerror', None) or error}") from error


class LiveProbe:
    """Asks the machine that this process runs on.

    Everything heavy or platform-bound is imported where it is used.

    Args:
        root: where the file system begins; another folder contains a captured tree.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")
        self._library: Any = None  # pynvml, loaded on the first NVML query
        self._distributions: dict[str, str] | None = None

    def __call__(self, interface: str, *query: str) -> Any:
        answer = getattr(self, f"_{interface}", None)
        if answer is None:
            raise NotFound(f"unknown interface {interface}")
        return answer(*query)

    def _path(self, path: str) -> str:
        return self._root + path if path.startswith("/") else path

    def _host(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "system": platform.system(),
            "release": platform.release(),
            "version": platform.version(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpu_count": os.cpu_count() or 1,
            "affinity": os.cpu_count() or 1,
        }
        if hasattr(os, "sched_getaffinity"):  # neither Windows nor macOS has it
            answer["affinity"] = len(os.sched_getaffinity(0))
        if os.name == "posix":
            names = {_group_name(gid) for gid in {*os.getgroups(), os.getegid()}}
            # Other groups may be named after the person.
            groups = sorted(names & {"render", "video", "root"})
            return answer | {"root": os.geteuid() == 0, "groups": groups}
        from anyrig.devices.native import win32

        return answer | win32.host()

    def _files(self, path: str) -> str:
        with _translate_errors(path), open(self._path(path), "rb") as file:
            data = file.read(1 << 20)
        text = data.decode("utf-8", "replace")
        return text.split("\n\n", 1)[0] if path == "/proc/cpuinfo" else text

    def _folders(self, path: str) -> list[str]:
        with _translate_errors(path):
            return sorted(os.listdir(self._path(path)))

    def _links(self, path: str) -> str:
        real = self._path(path)
        if not os.path.lexists(real):
            raise NotFound(f"{path} does not exist")
        return os.path.realpath(real)[len(self._root) :]

    def _nodes(self, path: str) -> dict[str, str]:
        real = self._path(path)
        try:
            status = os.stat(real)
        except OSError as error:
            raise NotFound(f"{path} does not exist") from error
        mode = ("r" if os.access(real, os.R_OK) else "") + ("w" if os.access(real, os.W_OK) else "")
        return {"access": mode, "group": _group_name(status.st_gid)}

    def _catalogue(self, database: str, number: str) -> str:
        paths = _PCI_IDS if database == "pci" else (_AMDGPU_IDS,)
        look_up = _find_pci_name if database == "pci" else _find_amdgpu_name
        for path in paths:
            try:
                name = look_up(Path(self._path(path)).read_bytes(), number)
            except OSError:
                continue
            if name:
                return name
        raise NotFound(f"{number} is not listed")

    def _drm(self, node: str) -> dict[str, Any]:
        from anyrig.devices.native import drm

        with _translate_errors(node):
            return drm.query(self._path(node))

    def _dxgi(self) -> list[dict[str, Any]]:
        if sys.platform != "win32":
            raise NotFound("DXGI is available on Windows only")
        from anyrig.devices.native import directx

        try:
            return directx.list_dxgi_adapters()
        except OSError as error:  # FileNotFoundError: a library that dxgi.dll depends on
            raise Unavailable(f"DXGI: {error}") from error

    def _dxcore(self) -> list[dict[str, Any]]:
        if not os.path.exists(self._path(_DXCORE)):
            raise NotFound("libdxcore.so is available in WSL2 only")
        from anyrig.devices.native import directx

        try:
            return directx.list_dxcore_adapters(self._path(_DXCORE))
        except OSError as error:
            raise Unavailable(f"DXCore: {error}") from error

    def _registry(self, key: str) -> dict[str, Any]:
        from anyrig.devices.native import win32

        return win32.registry_values(key)

    def _subkeys(self, key: str) -> list[str]:
        from anyrig.devices.native import win32

        return win32.registry_subkeys(key)

    def _commands(self, *command: str) -> str:
        import shutil
        import subprocess

        if shutil.which(command[0]) is None:
            raise NotFound(f"{command[0]} is not installed")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            raise Unavailable(f"{command[0]}: {error}") from error
        # sysctl exits with 1 if one of several names is unknown, and still prints the others.
        if done.returncode and not done.stdout:
            error_text = done.stderr.strip()[:200]
            raise Unavailable(f"{command[0]} exited with {done.returncode}: {error_text}")
        return done.stdout

    def _packages(self, name: str) -> str:
        if self._distributions is None:
            self._distributions = list_distributions(sys.path)
        if name not in self._distributions:
            raise NotFound(f"{name} is not installed")
        return self._distributions[name]

    def _package_files(self, path: str) -> str:
        for folder in sys.path:
            file = Path(folder, path)
            if folder and file.is_file():
                return file.read_text(encoding="utf-8", errors="replace")
        raise NotFound(f"no installed package contains {path}")

    def _disk(self, _: str) -> int:
        import shutil

        home = Path.home()  # which need not exist yet
        return shutil.disk_usage(next(f for f in (home, *home.parents) if f.exists())).free

    def _nvml(self, function: str, handle: str) -> Any:
        if self._library is None:
            self._library = load_pynvml()
        nvml = self._library
        if function == "nvmlInit":
            return None
        try:
            if not handle:
                return _to_plain(getattr(nvml, function)())
            index, _, instance = handle.partition("/")
            device = nvml.nvmlDeviceGetHandleByIndex(int(index))
            if function == "mig":
                return len(_mig_handles(nvml, device))
            if instance:
                device = _mig_handles(nvml, device)[int(instance)]
            return _to_plain(getattr(nvml, function)(device))
        except nvml.NVMLError as error:
            raise _nvml_unavailable(nvml, error) from error
        except AttributeError as error:  # an older module in nvidia-ml-py's place
            code = "NVML_ERROR_FUNCTION_NOT_FOUND"
            raise Unavailable(f"{code}: {error}", code) from error


def list_distributions(folders: list[str]) -> dict[str, str]:
    """Distributions by the names of their metadata folders.

    importlib.metadata gives the same for 30 ms more of CPU: it imports email and zipfile.
    """
    found: dict[str, str] = {}
    for folder in folders:
        try:
            entries = os.listdir(folder) if folder else []
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(".dist-info"):
                name, _, version = entry.removesuffix(".dist-info").partition("-")
                found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return found


def load_pynvml() -> Any:
    """pynvml, initialised.

    Looks for the driver's library first: without it, importing pynvml would waste 60 ms.
    """
    if sys.platform == "darwin":
        raise NotFound("macOS has no NVIDIA driver")
    if sys.platform != "win32":  # there pynvml knows where the driver keeps nvml.dll
        _load_nvml_library()
    try:
        import pynvml
    except ImportError as error:
        raise Unavailable(_NO_PYNVML, PYNVML_MISSING) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _nvml_unavailable(pynvml, error) from error
    return pynvml


def _load_nvml_library() -> None:
    import ctypes

    for name in ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"):
        try:
            # RTLD_GLOBAL: pynvml's own dlopen of the plain name finds this copy.
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            # dlopen reports an error only as text.
            if "cannot open shared object file: No such file" not in str(error):
                raise Unavailable(f"{name}: {error}") from error
        else:
            return
    raise NotFound("the NVIDIA driver library (NVML) is not installed")


def _mig_handles(nvml: Any, device: Any) -> list[Any]:
    """Slots may be empty: instance n is the n-th slot that answers."""
    handles = []
    for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            handles.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, slot))
        except nvml.NVMLError:
            continue
    return handles


def _nvml_unavailable(nvml: Any, error: Any) -> Unavailable:
    names = {v: k for k, v in vars(nvml).items() if k.startswith("NVML_ERROR_")}
    code = names.get(error.value, "NVML_ERROR")
    return Unavailable(f"{code}: {error}", code)


def _to_plain(answer: Any) -> Any:
    """A ctypes structure as a dict of its fields; bytes as text."""
    if hasattr(answer, "_fields_"):
        return {field[0]: _to_plain(getattr(answer, field[0])) for field in answer._fields_}
    if isinstance(answer, bytes):
        return answer.decode("utf-8", "replace")
    if isinstance(answer, (list, tuple)):
        return [_to_plain(item) for item in answer]
    return answer if isinstance(answer, (int, float, str, bool, type(None))) else str(answer)


def _group_name(gid: int) -> str:
    if os.name != "posix":
        return ""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _find_pci_name(data: bytes, number: str) -> str:
    """The entry of `10de:2684` in pci.ids: a vendor's line, then its devices behind a tab."""
    vendor, _, device = number.partition(":")
    start = data.find(f"\n{vendor}  ".encode())
    if start < 0:
        return ""
    found = re.search(rb"\n\t" + device.encode() + rb"  ([^\n]*)", data[start:])
    following = re.search(rb"\n[0-9a-f]{4}  ", data[start + 1 :])
    if not found or (following and found.start() > following.start() + 1):
        return ""
    return found[1].decode("utf-8", "replace").strip()


def _find_amdgpu_name(data: bytes, number: str) -> str:
    """The entry of `744c:c8` (device and revision) in libdrm's amdgpu.ids."""
    device, _, revision = number.upper().partition(":")
    pattern = rb"^%s,\s*%s,\s*(.+)$" % (device.encode(), revision.encode())
    found = re.search(pattern, data, re.MULTILINE)
    return found[1].decode("utf-8", "replace").strip() if found else ""


# -- recorded machines ---------------------------------------------------------------------------


def load_record(path: Path) -> dict[str, Any]:
    """A recorded machine's data, validated."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRecordError(
            f"cannot read {path}: {error.strerror}", hint=_RECORD_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError(f"{path} is not valid JSON: {error}", hint=_RECORD_HINT) from error
    problem = ""
    if not isinstance(record, dict) or record.get("format") != _RECORD_FORMAT:
        problem = f" is not a recorded machine of format {_RECORD_FORMAT}"
    elif unknown := sorted(set(record) - _RECORD_SECTIONS):
        problem = f": unknown section {', '.join(unknown)}"
    else:
        for section in _RECORD_SECTIONS - {"format", "about", "dxgi", "dxcore"}:
            if not isinstance(record.get(section, {}), dict):
                problem = f": {section} must be an object"
    if problem:
        raise InvalidRecordError(f"{path}{problem}", hint=_RECORD_HINT)
    return dict(record)


def _check_recorded(answer: Any) -> Any:
    """Raise the failure that was recorded in place of an answer.

    The file keeps only an error's text; NVML's begins with its name.
    """
    if isinstance(answer, dict) and set(answer) == {"error"}:
        message = str(answer["error"])
        name = re.match(r"NVML_ERROR\w*", message)
        code = PYNVML_MISSING if message == _NO_PYNVML else name[0] if name else ""
        raise Unavailable(message, code)
    return answer


class RecordedProbe:
    """Answers from a record; what was not recorded does not exist."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record

    def __call__(self, interface: str, *query: str) -> Any:
        special = getattr(self, f"_{interface}", None)
        if special is not None:
            return _check_recorded(special(*query))
        section = self._record.get(interface)
        if section is None:
            raise NotFound(f"no {interface} on this machine")
        if not query:
            return _check_recorded(section)
        key = " ".join(query)
        if key not in section:
            raise NotFound(f"{key} does not exist")
        return _check_recorded(section[key])

    def _folders(self, path: str) -> Any:
        """Recorded folders, and those that other recorded paths imply."""
        listed = self._record.get("folders", {}).get(path)
        if listed is not None:
            return listed
        sections = ("files", "folders", "links", "nodes")
        paths = [recorded for name in sections for recorded in self._record.get(name, {})]
        if names := _names_below(paths, path.rstrip("/") + "/", "/"):
            return names
        raise NotFound(f"{path} does not exist")

    def _subkeys(self, key: str) -> Any:
        return _names_below(self._record.get("registry", {}), key + "\\", "\\")

    def _nvml(self, function: str, handle: str) -> Any:
        library = self._record.get("nvml")
        if library is None:
            raise NotFound("the NVIDIA driver library (NVML) is not installed")
        _check_recorded(library)
        answers: Any = library
        if handle:
            index, _, instance = handle.partition("/")
            answers = library["devices"][int(index)]
            if instance:
                answers = answers["mig"][int(instance)]
        if function == "mig":
            return len(answers.get("mig", []))
        defaults = {"nvmlInit": None, "nvmlDeviceGetCount": len(library.get("devices", []))}
        if function in defaults:
            return library.get(function, defaults[function])
        if function not in answers:
            code = "NVML_ERROR_FUNCTION_NOT_FOUND"
            raise Unavailable(code, code)
        return answers[function]


def _names_below(paths: Mapping[str, Any] | list[str], start: str, separator: str) -> list[str]:
    return sorted({p[len(start) :].split(separator, 1)[0] for p in paths if p.startswith(start)})


class RecordingProbe:
    """Passes every query on and records the answer, failures included."""

    def __init__(self, probe: Probe, environment: Mapping[str, str]) -> None:
        self._probe = probe
        self.record: dict[str, Any] = {
            "format": _RECORD_FORMAT,
            "about": "Recorded by `anyrig devices --record`.",
            "cites": {"**": "capture: anyrig devices --record on this machine"},
            "environment": dict(environment),
        }

    def __call__(self, interface: str, *query: str) -> Any:
        try:
            answer = self._probe(interface, *query)
        except NotFound:
            raise
        except Unavailable as failure:
            self._add(interface, query, {"error": str(failure)})
            raise
        self._add(interface, query, answer)
        return answer

    def _add(self, interface: str, query: tuple[str, ...], answer: Any) -> None:
        if interface == "nvml":
            function, handle = query
            self._add_nvml(function, handle, answer)
        elif interface == "subkeys":
            pass  # implied by the keys below, which are queried next
        elif query:
            self.record.setdefault(interface, {})[" ".join(query)] = answer
        else:
            self.record[interface] = answer

    def _add_nvml(self, function: str, handle: str, answer: Any) -> None:
        if function == "nvmlInit" and answer is not None:
            self.record["nvml"] = {"nvmlInit": answer}
            return
        answers = self.record.setdefault("nvml", {"devices": []})
        if function == "mig":
            return
        if handle:
            index, _, instance = handle.partition("/")
            answers = _row(answers["devices"], int(index))
            if instance:
                answers = _row(answers.setdefault("mig", []), int(instance))
        answers[function] = answer


def _row(rows: list[dict[str, Any]], index: int) -> dict[str, Any]:
    while len(rows) <= index:
        rows.append({})
    return rows[index]
