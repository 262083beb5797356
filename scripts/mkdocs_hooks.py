"""Links from docs/ to other files of the repository work in the site: these become part of it.

`../benchmarks/results/x.md` is a page at `repository/benchmarks/results/x.md`, any other file a
download, a folder a page that lists its files. A link to what does not exist is left as it is, and
fails the strict build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_PREFIX, _INDEX = "repository/", "/index.md"


def on_files(files: Files, *, config: Any) -> Files:
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for _, target, _ in _LINK.findall(_read(page)):
            uri = _find(page, target)
            if uri and uri.startswith(_PREFIX) and files.get_file_from_path(uri) is None:
                files.append(_add(uri, config))
                if uri.endswith(".md"):
                    waiting.append(uri)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    here = page.file.src_uri

    def rewrite(found: re.Match[str]) -> str:
        uri = _find(here, found[2])
        if uri is None:
            return found[0]
        return found[1] + posixpath.relpath(uri, posixpath.dirname(here) or ".") + found[3]

    return _LINK.sub(rewrite, markdown)


def _add(uri: str, config: Any) -> File:
    level = InclusionLevel.NOT_IN_NAV
    path = ROOT / _repository_path(uri)
    if path.is_file():
        return File.generated(config, uri, abs_src_path=str(path), inclusion=level)
    return File.generated(config, uri, content=_read(uri), inclusion=level)


def _find(page: str, target: str) -> str | None:
    """Where the file that a page links to is in the site."""
    if "://" in target:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(_repository_path(page)), target))
    if (ROOT / path).is_dir() and path != "docs":
        return _PREFIX + path + _INDEX
    if not (ROOT / path).is_file():
        return None
    return path.removeprefix("docs/") if path.startswith("docs/") else _PREFIX + path


def _read(page: str) -> str:
    path = ROOT / _repository_path(page)
    if path.is_file():
        return path.read_text(encoding="utf-8")
    names = sorted(one.name for one in path.parent.iterdir() if one.is_file())
    title = path.parent.relative_to(ROOT).as_posix()
    return f"# {title}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def _repository_path(page: str) -> str:
    return page.removeprefix(_PREFIX) if page.startswith(_PREFIX) else f"docs/{page}"
