"""The live machine's answers: files, NVML, DRM, DXGI, DXCore, the registry, system programs.

Everything heavy or platform-bound is imported where it is asked for. A refused or missing
interface raises `Silent` with the reason; absence of a file or a library raises `NotThere`.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from anyrig.devices.sources.system import NotThere, Silent

_COMMAND_TIMEOUT_S = 10
_DXCORE = "/usr/lib/wsl/lib/libdxcore.so"
_PCI_LISTS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
# Packages that can drive a device; a record tells nothing else of what a person has installed.
_DRIVERS = (
    "torch",
    "onnxruntime",
    "nvidia-ml-py",
    "pynvml",
    "amdsmi",
    "triton",
    "flash-attn",
    "intel-extension",
)
_AMD_LIST = "/usr/share/libdrm/amdgpu.ids"


class LiveAnswers:
    """Asks the machine this process runs on.

    Args:
        root: where the file system begins; another folder holds a captured tree.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")
        self._nvml_answers: NvmlAnswers | None = None

    def __call__(self, interface: str, *question: str) -> Any:
        """The raw answer."""
        answer = getattr(self, f"_{interface}", None)
        if answer is None:
            raise NotThere(f"nothing here answers for {interface}")
        return answer(*question)

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
            "affinity": _affinity(),
        }
        if os.name == "posix":
            answer |= _posix_user()
        else:
            from anyrig.devices.sources.native import win32

            answer |= win32.host()
        return answer

    def _files(self, path: str) -> str:
        try:
            with open(self._path(path), "rb") as file:
                data = file.read(1 << 20)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotThere(f"{path} is not there") from error
        except OSError as error:
            raise Silent(f"{path}: {error.strerror}") from error
        text = data.decode("utf-8", "replace")
        return text.split("\n\n", 1)[0] if path == "/proc/cpuinfo" else text

    def _folders(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotThere(f"{path} is not there") from error
        except OSError as error:
            raise Silent(f"{path}: {error.strerror}") from error

    def _links(self, path: str) -> str:
        here = self._path(path)
        if not os.path.lexists(here):
            raise NotThere(f"{path} is not there")
        return os.path.realpath(here)[len(self._root) :]

    def _nodes(self, path: str) -> dict[str, str]:
        here = self._path(path)
        try:
            status = os.stat(here)
        except OSError as error:
            raise NotThere(f"{path} is not there") from error
        mode = ("r" if os.access(here, os.R_OK) else "") + ("w" if os.access(here, os.W_OK) else "")
        return {"access": mode, "group": _group_name(status.st_gid)}

    def _catalogue(self, list_name: str, part: str) -> str:
        lists = _PCI_LISTS if list_name == "pci" else (_AMD_LIST,)
        look_up = _pci_name if list_name == "pci" else _amd_name
        for path in lists:
            try:
                name = look_up(Path(self._path(path)).read_bytes(), part)
            except OSError:
                continue
            if name:
                return name
        raise NotThere(f"{part} is in no list here")

    def _nvml(self, function: str, handle: str) -> Any:
        if self._nvml_answers is None:
            self._nvml_answers = NvmlAnswers()
        return self._nvml_answers(function, handle)

    def _drm(self, node: str) -> dict[str, Any]:
        from anyrig.devices.sources.native import drm

        try:
            return drm.query(self._path(node))
        except FileNotFoundError as error:
            raise NotThere(f"{node} is not there") from error
        except (OSError, ValueError) as error:
            raise Silent(f"{node}: {getattr(error, 'strerror', None) or error}") from error

    def _dxgi(self) -> list[dict[str, Any]]:
        if sys.platform != "win32":
            raise NotThere("DXGI is only on Windows")
        from anyrig.devices.sources.native import dxgi

        try:
            return dxgi.adapters()
        except OSError as error:
            raise Silent(f"DXGI: {error}") from error

    def _dxcore(self) -> list[dict[str, Any]]:
        if not os.path.exists(self._path(_DXCORE)):
            raise NotThere("libdxcore.so is only in WSL2")
        from anyrig.devices.sources.native import dxcore

        try:
            return dxcore.adapters(self._path(_DXCORE))
        except OSError as error:
            raise Silent(f"DXCore: {error}") from error

    def _registry(self, key: str) -> dict[str, Any]:
        from anyrig.devices.sources.native import win32

        return win32.registry_values(key)

    def _subkeys(self, key: str) -> list[str]:
        from anyrig.devices.sources.native import win32

        return win32.registry_subkeys(key)

    def _commands(self, *command: str) -> str:
        import shutil
        import subprocess

        if shutil.which(command[0]) is None:
            raise NotThere(f"{command[0]} is not installed")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            raise Silent(f"{command[0]}: {error}") from error
        # sysctl exits 1 when one of several names is unknown, and still prints the others.
        if done.returncode and not done.stdout:
            raise Silent(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[:200]}")
        return done.stdout

    def _packages(self) -> dict[str, str]:
        found = installed(sys.path)
        return {name: found[name] for name in sorted(found) if name.startswith(_DRIVERS)}

    def _package_files(self, path: str) -> str:
        for folder in sys.path:
            file = Path(folder, path)
            if folder and file.is_file():
                return file.read_text(encoding="utf-8", errors="replace")
        raise NotThere(f"no installed package has {path}")

    def _disk(self, path: str) -> int:
        import shutil

        here = Path(path or Path.home())
        while not here.exists() and here != here.parent:
            here = here.parent
        return shutil.disk_usage(here).free


def installed(folders: list[str]) -> dict[str, str]:
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


class NvmlAnswers:
    """NVML through nvidia-ml-py, opened on the first question and not before."""

    def __init__(self) -> None:
        self._library: Any = None

    def __call__(self, function: str, handle: str) -> Any:
        """The answer of one NVML function as plain data."""
        if self._library is None:
            self._open()
        nvml = self._library
        if function == "nvmlInit":
            return None
        try:
            if not handle:
                return _plain(getattr(nvml, function)())
            if function == "mig":
                return self._num_mig(handle)
            return _plain(getattr(nvml, function)(self._handle(handle)))
        except nvml.NVMLError as error:
            raise Silent(_nvml_error(nvml, error)) from error
        except AttributeError as error:  # an older module in nvidia-ml-py's place
            raise Silent(f"NVML_ERROR_FUNCTION_NOT_FOUND: {error}") from error

    def _open(self) -> None:
        _load_nvml_library()
        try:
            import pynvml
        except ImportError as error:
            raise Silent("the package nvidia-ml-py is not installed") from error
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Silent(_nvml_error(pynvml, error)) from error
        self._library = pynvml

    def _handle(self, handle: str) -> Any:
        index, _, instance = handle.partition("/")
        device = self._library.nvmlDeviceGetHandleByIndex(int(index))
        if not instance:
            return device
        # Slots may be empty: the n-th instance is the n-th slot that answers.
        return self._mig_handles(device)[int(instance)]

    def _mig_handles(self, device: Any) -> list[Any]:
        handles = []
        for slot in range(self._library.nvmlDeviceGetMaxMigDeviceCount(device)):
            try:
                handles.append(self._library.nvmlDeviceGetMigDeviceHandleByIndex(device, slot))
            except self._library.NVMLError:
                continue
        return handles

    def _num_mig(self, handle: str) -> int:
        return len(self._mig_handles(self._library.nvmlDeviceGetHandleByIndex(int(handle))))


def _load_nvml_library() -> None:
    """Say at once that there is no NVIDIA library, before paying 60 ms for pynvml's import."""
    import ctypes

    if sys.platform == "win32":
        return  # pynvml knows where the driver keeps nvml.dll
    if sys.platform == "darwin":
        raise NotThere("macOS has no NVIDIA driver")
    for name in ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"):
        try:
            # RTLD_GLOBAL: pynvml's own dlopen of the plain name finds this copy.
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            if "cannot open shared object file: No such file" not in str(error):
                raise Silent(f"{name}: {error}") from error
        else:
            return
    raise NotThere("NVIDIA's library NVML is not on this machine")


def _nvml_error(nvml: Any, error: Any) -> str:
    """`NVML_ERROR_DRIVER_NOT_LOADED: Driver Not Loaded`."""
    names = {v: k for k, v in vars(nvml).items() if k.startswith("NVML_ERROR_")}
    return f"{names.get(error.value, 'NVML_ERROR')}: {error}"


def _plain(answer: Any) -> Any:
    """A ctypes structure as a dict of its fields; bytes as text; the rest as it is."""
    if hasattr(answer, "_fields_"):
        return {field[0]: _plain(getattr(answer, field[0])) for field in answer._fields_}
    if isinstance(answer, bytes):
        return answer.decode("utf-8", "replace")
    if isinstance(answer, (list, tuple)):
        return [_plain(item) for item in answer]
    return answer if isinstance(answer, (int, float, str, bool, type(None))) else str(answer)


def _affinity() -> int:
    # Windows and macOS have no sched_getaffinity; there the whole machine counts.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _posix_user() -> dict[str, Any]:
    names = {_group_name(gid) for gid in {*os.getgroups(), os.getegid()}}
    # Others may be named after the person.
    return {"root": os.geteuid() == 0, "groups": sorted(names & {"render", "video", "root"})}


def _group_name(gid: int) -> str:
    if os.name != "posix":
        return ""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _pci_name(data: bytes, part: str) -> str:
    """The entry of `10de:2684` in pci.ids: a vendor's line, then its devices behind a tab."""
    vendor, _, device = part.partition(":")
    start = data.find(f"\n{vendor}  ".encode())
    if start < 0:
        return ""
    found = re.search(rb"\n\t" + device.encode() + rb"  ([^\n]*)", data[start:])
    following = re.search(rb"\n[0-9a-f]{4}  ", data[start + 1 :])
    if not found or (following and found.start() > following.start() + 1):
        return ""
    return found[1].decode("utf-8", "replace").strip()


def _amd_name(data: bytes, part: str) -> str:
    """The entry of `744c:c8` (device and revision) in libdrm's amdgpu.ids."""
    device, _, revision = part.upper().partition(":")
    pattern = rb"^%s,\s*%s,\s*(.+)$" % (device.encode(), revision.encode())
    found = re.search(pattern, data, re.MULTILINE)
    return found[1].decode("utf-8", "replace").strip() if found else ""
