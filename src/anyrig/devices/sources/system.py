"""The seam between the sources and the machine: one question, one raw answer.

A source never opens a file or a library by itself. It asks a `System`, which passes the
question to an `Answers`: the live machine (`live.py`), a recorded one (`recorded.py`), or a
recorder that stands between. So a machine nobody here owns drives the very same code.

Questions and answers are plain data (what JSON can hold), so that recording is writing them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Silent(Exception):
    """An interface has no answer, and why: not installed, refused, not on this platform."""


class NotThere(Silent):
    """The thing asked for does not exist here: an ordinary absence."""


class Answers(Protocol):
    """Whoever answers a question of an interface with plain data, or raises `Silent`."""

    def __call__(self, interface: str, *question: str) -> Any:
        """The raw answer."""


class System:
    """Typed questions to the machine."""

    def __init__(self, answers: Answers, environment: Mapping[str, str] | None = None) -> None:
        self._ask = answers
        self.environment: Mapping[str, str] = environment or {}

    def host(self) -> dict[str, Any]:
        """What the language runtime knows: system, machine, release, user, groups, affinity."""
        return dict(self._ask("host"))

    def read(self, path: str) -> str:
        """A file's text; of /proc/cpuinfo, the first processor's."""
        return str(self._ask("files", path))

    def peek(self, path: str) -> str:
        """A file's text without the white space around it, or nothing when it cannot be read."""
        try:
            return self.read(path).strip("\x00 \n\t")
        except Silent:
            return ""

    def number(self, path: str) -> int | None:
        """A file that holds one number, decimal or 0x."""
        text = self.peek(path)
        try:
            return int(text, 0)
        except ValueError:
            return None

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing when it is not there."""
        try:
            return sorted(self._ask("folders", path))
        except Silent:
            return []

    def link(self, path: str) -> str:
        """Where a link points, resolved, or nothing."""
        try:
            return str(self._ask("links", path))
        except Silent:
            return ""

    def catalogue(self, list_name: str, part: str) -> str:
        """What the system's own list (`pci` or `amdgpu`) calls a part, or nothing."""
        try:
            return str(self._ask("catalogue", list_name, part))
        except Silent:
            return ""

    def node(self, path: str) -> dict[str, str] | None:
        """What this user may do with a device file: {"access": "rw", "group": "render"}."""
        try:
            return dict(self._ask("nodes", path))
        except Silent:
            return None

    def nvml(self, function: str, handle: str = "") -> Any:
        """One call of NVIDIA's management library; handle "0" is a GPU, "0/1" a MIG instance."""
        return self._ask("nvml", function, handle)

    def drm(self, node: str) -> dict[str, Any]:
        """Driver name and memory regions of a DRM node, through its ioctls."""
        return dict(self._ask("drm", node))

    def adapters(self, interface: str) -> list[dict[str, Any]]:
        """Graphics adapters as `dxgi` (Windows) or `dxcore` (WSL2) lists them."""
        return list(self._ask(interface))

    def registry(self, key: str) -> dict[str, Any]:
        """The values of a key below HKEY_LOCAL_MACHINE."""
        return dict(self._ask("registry", key))

    def subkeys(self, key: str) -> list[str]:
        """The keys below a registry key."""
        try:
            return sorted(self._ask("subkeys", key))
        except Silent:
            return []

    def run(self, *command: str) -> str:
        """What a system program prints."""
        return str(self._ask("commands", *command))

    def packages(self) -> dict[str, str]:
        """Installed distributions, normalised name to version."""
        try:
            return {str(k): str(v) for k, v in dict(self._ask("packages")).items()}
        except Silent:
            return {}

    def package_file(self, path: str) -> str:
        """The text of a file inside site-packages, or nothing."""
        try:
            return str(self._ask("package_files", path))
        except Silent:
            return ""

    def disk_free(self, path: str) -> int | None:
        """Free bytes where `path` lives, for this user."""
        try:
            return int(self._ask("disk", path))
        except Silent:
            return None
