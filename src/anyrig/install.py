"""The commands that install a package, as a person has to type them.

Errors and findings carry the portable form, `pip install 'anyrig[ocr]'`, from `install_line`. What
is printed on the terminal of this machine goes through `localize_install_lines`, which names this
interpreter and this checkout, and the tool that manages this environment (pip, uv or pipx).
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

# Not behind `-m `, `uv ` or a path: such a command names its interpreter already.
_PIP = re.compile(r"(?<![\w./\\-])(?<!-m )(?<!uv )pip (install|uninstall)\b")
_OURS = re.compile(r"""(?<=\s)(['"]?)anyrig\[([\w,-]+)\]\1(?=[\s.,;)`]|$)""")


def install_line(
    *requirements: str, options: str = "", index_url: str = "", uninstall: Sequence[str] = ()
) -> str:
    """The command that installs packages: `pip install 'anyrig[ocr]'`.

    Args:
        requirements: as pip takes them (`anyrig[ocr]`, `timm`, `x>=1`); quoted where a shell asks.
        options: pip's own, before them.
        index_url: the package index that they come from.
        uninstall: packages that must go first, because they own the same files.
    """
    words = [quote_word(one) for one in requirements]
    if index_url:
        words.append(f"--index-url {quote_word(index_url)}")
    line = " ".join(filter(None, ["pip install", options, *words]))
    return f"pip uninstall -y {' '.join(uninstall)} && {line}" if uninstall else line


_EXTRAS = {
    "torch": "torch", "transformers": "torch", "accelerate": "torch", "torchao": "torch",
    "tensorboard": "torch", "onnx": "torch", "onnxscript": "torch",
    "celery": "cluster", "kombu": "cluster", "redis": "cluster", "flower": "cluster",
    "rapidocr": "ocr", "faiss": "faiss", "spacy": "entities",
    "onnxruntime_extensions": "multilingual", "espeakng_loader": "espeak",
    "phonemizer": "espeak", "py_nanotts": "nanotts", "moonshine_voice": "recognise",
    "faster_whisper": "recognise",
}  # fmt: skip
"""By module: the extra of ours that brings it."""


def install_line_for(module: str) -> str:
    """The command that brings a module which cannot be imported."""
    root = module.partition(".")[0]
    return install_line(f"anyrig[{_EXTRAS[root]}]" if root in _EXTRAS else root)


def localize_install_lines(text: str) -> str:
    """A text with its install commands as they must be typed here.

    Doing it twice changes nothing more.
    """
    if "pip " not in text:
        return text
    root = _checkout()
    if root is not None and _PIP.search(text):
        text = _OURS.sub(lambda found: _from_checkout(root, found[2]), text)
    return _PIP.sub(lambda found: _pip_words(found[1]), text)


def quote_word(text: str) -> str:
    """Text as one word of a command line, in quotes where it needs them."""
    if sys.platform == "win32":  # neither cmd nor pip there takes single quotes off
        return f'"{text}"' if re.search(r"[^\w@%+=:,./\\-]", text) else text
    return shlex.quote(text)


def _from_checkout(root: Path, extras: str) -> str:
    constraints = quote_word(str(root / "constraints.txt"))
    return f"-c {constraints} -e {quote_word(f'{root}[{extras}]')}"


def _checkout() -> Path | None:
    """The folder of a source checkout that this package runs from."""
    root = Path(__file__).resolve().parents[2]
    there = (root / "pyproject.toml").is_file() and (root / "constraints.txt").is_file()
    return root if there else None


def _pip_words(verb: str) -> str:
    """`pip install` or `pip uninstall` for the environment that this process runs in."""
    python = quote_word(sys.executable)
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx runpip {quote_word(Path(sys.prefix).name)} {verb}"
    if (Path(sys.prefix) / "uv-receipt.toml").is_file() or not _has_pip():
        return f"uv pip {verb} --python {python}"
    mine = shutil.which("pip")
    if mine is not None and Path(mine).parent == Path(sys.executable).parent:
        return f"pip {verb}"
    return f"{python} -m pip {verb}"


@functools.cache
def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None
