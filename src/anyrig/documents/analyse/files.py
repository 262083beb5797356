"""Files to the analysis of all of them together.

    found = analyse_files(files, root=folder, read=partial(read_all, ocr=ocr), model=model)

A file that cannot be read is named in the result, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.analyse import folder
from anyrig.documents.analyse.digest import DocumentDigest, digest_document, share_languages
from anyrig.documents.analyse.folder import Analysis, UnreadDocument
from anyrig.documents.reading import Unread, build_textless_error
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.text.labels import one_line

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document

Read = Callable[[Sequence[Path]], Iterable["Document | Unread"]]
"""Files to pages, in order, one for one."""
Open = Callable[[Mapping[str, float]], "Vectors"]
"""The model for texts in languages of such shares: it is chosen once they are known."""
Tell = Callable[[str, int, int], None]
"""What is done, how many steps are through, and of how many."""


def analyse_files(
    files: Sequence[Path],
    *,
    read: Read,
    root: Path | None = None,
    title: str = "",
    model: Open | None = None,
    similar_to: Path | None = None,
    seed: int = 0,
    tell: Tell = lambda *_: None,
) -> Analysis:
    """What files hold, each and together.

    Args:
        files: in the order in which they are shown.
        read: opens them; an `Unread` goes among those left out.
        root: the folder that names are shown from.
        title: of the report; the folder's name without it.
        model: opens the model to compare by; words alone without one.
        similar_to: one of the files, or another one, whose neighbours are wanted.
        seed: of the clusters' starts.
        tell: is told how far it is.
    """
    wanted = _with(files, similar_to)
    total = len(wanted) * (2 if model is not None else 1) + 1
    left: list[UnreadDocument] = []
    digests: list[DocumentDigest] = []
    if wanted:
        tell(f"reading {one_line(wanted[0].name, 80)}", 0, total)
    for number, (path, one) in enumerate(zip(wanted, read(wanted), strict=True), 1):
        report = partial(tell, f"reading {one_line(path.name, 80)}")
        step = partial(report, number - 1, total)
        digests.extend(_digest_file(path, one, root, model is not None, left, step))
        report(number, total)
    steps = iter(range(len(wanted) + 1, total + 2 * len(wanted) + 2))
    chosen = _index(digests, similar_to, left)
    shares = {one.language: one.share for one in share_languages(digests)}
    return folder.analyse(
        digests,
        title=one_line(title or (root.resolve().name if root else ""), 200) or "Documents",
        left=left,
        vectors=model(shares) if model is not None and digests else None,
        seed=seed,
        similar_to=chosen,
        done=lambda what: tell(what, min(total - 1, next(steps)), total),
    )


def _with(files: Sequence[Path], named: Path | None) -> list[Path]:
    known = {_real(path) for path in files}
    return [*files, *([named] if named is not None and _real(named) not in known else [])]


def _digest_file(
    path: Path,
    one: Document | Unread,
    root: Path | None,
    vectors: bool,
    left: list[UnreadDocument],
    on_step: Callable[[], None],
) -> Iterator[DocumentDigest]:
    name = show_name(path, root)
    if isinstance(one, Unread):
        left.append(_leave_out(name, one.error))
    elif not any(map(str.isalnum, one.text)):
        left.append(_leave_out(name, build_textless_error(one)))
    else:
        yield digest_document(one, name=name, vectors=vectors, on_step=on_step)


def _leave_out(name: str, error: AnyrigError) -> UnreadDocument:
    return UnreadDocument(name, one_line(error.message, 300), error.hint)


def _index(
    digests: Sequence[DocumentDigest], named: Path | None, left: Sequence[UnreadDocument]
) -> int | None:
    """Where the file stands whose neighbours are wanted; an error if it could not be read."""
    if named is None:
        return None
    for index, one in enumerate(digests):
        if _real(one.facts.path) == _real(named):
            return index
    why = next((one for one in left if one.name.endswith(one_line(named.name, 200))), None)
    raise InvalidInputError(
        f"{one_line(named.name, 200)} cannot be compared: {why.why if why else 'it was not read'}",
        hint=(why.hint if why else "") or "Name a file with text in it.",
    )


def show_name(path: Path, root: Path | None) -> str:
    """A file's name within the folder, as one harmless line."""
    try:
        inside = path.relative_to(root) if root is not None else Path(path.name)
    except ValueError:
        inside = path
    return one_line(inside.as_posix(), 200) or "(a name without letters)"


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
