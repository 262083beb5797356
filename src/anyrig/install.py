"""The pip commands that errors and diagnostics suggest.

Messages carry the portable form, `pip install 'anyrig[ocr]'`: pip takes the extra of the anyrig
that is installed. What is printed on this machine goes through `localize_install_commands`, which
names this interpreter, the tool that manages this environment (pip, uv or pipx), and the folder
that anyrig was installed from, so that it works without a package index that has anyrig.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

# Not after `-m `, `uv ` or a path: such a command names its interpreter already.
_PIP = re.compile(r"(?<![\w./\\-])(?<!-m )(?<!uv )pip (install|uninstall)\b")
_ANYRIG_EXTRAS = re.compile(r"""(?<=\s)(['"]?)anyrig\[([\w,-]+)\]\1(?=[\s.,;)`]|$)""")
_EXTRA_BY_MODULE = {
    "torch": "torch", "transformers": "torch", "accelerate": "torch",
    "tensorboard": "torch", "peft": "lora", "onnx": "torch", "onnxscript": "torch",
    "celery": "cluster", "kombu": "cluster", "redis": "cluster", "flower": "cluster",
    "rapidocr": "ocr", "pi_heif": "ocr", "spacy": "entities",
    "onnxruntime_extensions": "multilingual", "espeakng_loader": "espeak",
    "phonemizer": "espeak", "py_nanotts": "nanotts", "moonshine_voice": "recognise",
    "faster_whisper": "recognise",
}  # fmt: skip


def format_install(
    *requirements: str, options: str = "", index_url: str = "", uninstall: Sequence[str] = ()
) -> str:
    """Format a command such as `pip install 'anyrig[ocr]'`, quoted for the shell.

    Args:
        requirements: in pip's syntax: `anyrig[ocr]`, `timm`, `x>=1`.
        options: further options of pip.
        index_url: the package index to install from.
        uninstall: packages to remove first because they own the same files.
    """
    words = [quote_argument(requirement) for requirement in requirements]
    if index_url:
        words.append(f"--index-url {quote_argument(index_url)}")
    command = " ".join(filter(None, ["pip install", options, *words]))
    return f"pip uninstall -y {' '.join(uninstall)} && {command}" if uninstall else command


def format_install_for(module: str) -> str:
    """Format the command that installs a module which could not be imported."""
    root = module.partition(".")[0]
    extra = _EXTRA_BY_MODULE.get(root)
    return format_install(f"anyrig[{extra}]" if extra else root)


def localize_install_commands(text: str) -> str:
    """Rewrite the pip commands in a text for this environment. Idempotent."""
    if "pip " not in text:
        return text
    if _PIP.search(text):
        text = _ANYRIG_EXTRAS.sub(lambda match: _localize_extras(match[2]) or match[0], text)
    return _PIP.sub(lambda match: _localize_pip(match[1]), text)


def quote_argument(text: str) -> str:
    """An argument as it is typed into this system's shell."""
    if sys.platform == "win32":  # neither cmd nor pip removes single quotes there
        return f'"{text}"' if re.search(r"[^\w@%+=:,./\\-]", text) else text
    return shlex.quote(text)


def _localize_extras(extras: str) -> str:
    """Return the requirement of anyrig with extras from the folder that it was installed from."""
    checkout = _find_checkout()
    folder = checkout or _find_installed_folder()
    if folder is None:
        return ""
    constraints = f"-c {quote_argument(str(folder / 'constraints.txt'))} "
    return f"{constraints}{'-e ' if checkout else ''}{quote_argument(f'{folder}[{extras}]')}"


def _find_checkout() -> Path | None:
    """Find the project's folder, if this module is run from there."""
    return _check_project(Path(__file__).resolve().parents[2])


def _find_installed_folder() -> Path | None:
    """Find the project's folder that `pip install .` was given, if it still exists."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        source = json.loads(distribution("anyrig").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if "dir_info" not in source:  # from an index, an archive or a repository
        return None
    return _check_project(Path(url2pathname(urlsplit(source["url"]).path)))


def _check_project(folder: Path) -> Path | None:
    needed = ("pyproject.toml", "constraints.txt")
    return folder if all((folder / name).is_file() for name in needed) else None


def _localize_pip(verb: str) -> str:
    """Return `pip install` or `pip uninstall` for the environment of this process."""
    python = quote_argument(sys.executable)
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx runpip {quote_argument(prefix.name)} {verb}"
    if (prefix / "uv-receipt.toml").is_file() or not _has_pip():
        return f"uv pip {verb} --python {python}"
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return f"pip {verb}"
    return f"{python} -m pip {verb}"


@functools.cache
def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None
