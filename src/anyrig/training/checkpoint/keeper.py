"""The checkpoints of a run: written by a thread, kept by rules, found again.

    with Checkpoints(run / "checkpoints", config) as checkpoints:
        found = checkpoints.load(device="cuda")
        ...
        checkpoints.save(Saved(step=120, weights=..., optimizer=..., plain=..., random=...))

`save` copies the state to the host's memory and returns; a thread writes it. When the one before is
still being written, `save` waits for it first: the rhythm that was asked for holds, there is never
more than one copy in memory, and `news` tells how long training stood. A checkpoint that could not
be written raises at the next `save`, which has begun by then, or at `close`: whoever catches
`StorageError` goes on training, with the earlier checkpoints untouched.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch

from anyrig.errors import AnyrigError, StorageError
from anyrig.training.checkpoint import read
from anyrig.training.checkpoint.lock import FolderLock
from anyrig.training.checkpoint.read import Found, Kept
from anyrig.training.checkpoint.stage import Staging
from anyrig.training.checkpoint.state import Saved
from anyrig.training.checkpoint.write import TEMPORARY, Packed, pack, write
from anyrig.training.config import CheckpointConfig
from anyrig.units import format_bytes

log = logging.getLogger(__name__)
_WORTH_A_WORD_S = 0.05
_MOST_NEWS = 100


@dataclass(frozen=True)
class News:
    """What became of a checkpoint."""

    step: int
    path: Path | None
    """None when it could not be written."""
    num_bytes: int
    write_s: float
    waited_s: float
    """How long training stood because the one before was still being written."""
    error: BaseException | None = None

    @property
    def text(self) -> str:
        """A sentence."""
        if self.error is not None:
            return f"the checkpoint of step {self.step} could not be written: {self.error}"
        size = format_bytes(self.num_bytes)
        told = f"checkpoint of step {self.step}: {size} in {self.write_s:.1f} s"
        if self.waited_s > _WORTH_A_WORD_S:
            told += f"; training stood {self.waited_s:.1f} s for the one before: save less often"
        return told


class Checkpoints:
    """A folder of checkpoints."""

    def __init__(
        self, folder: Path, config: CheckpointConfig | None = None, *, patience_s: float = 10.0
    ) -> None:
        """Nothing is read or written yet.

        Args:
            folder: of the checkpoints of one run; made when the first is written.
            config: which stay.
            patience_s: how long to wait for a process that writes there and may be ending.
        """
        self.folder = folder
        self._config = config or CheckpointConfig()
        self._patience_s = patience_s
        self._lock = FolderLock(folder)
        self._staging = Staging()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._news: deque[News] = deque(maxlen=_MOST_NEWS)
        self._serial: int | None = None

    # ---------------------------------------------------------------- writing

    def hold(self) -> None:
        """Be the only process that writes here, and clear what a killed one left half written.

        `save` does it by itself; a run does it first, before it trains for nothing.
        """
        if self._serial is not None:
            return
        self._lock.take(self._patience_s)
        for stray in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(stray, ignore_errors=True)
        whole, _ = read.listed(self.folder)
        self._serial = max([kept.serial for kept in whole], default=0)

    def save(self, saved: Saved, *, wait: bool = False) -> None:
        """Begin to keep a state; it may be changed as soon as this returns.

        Args:
            saved: the state.
            wait: return when it is on the disk, as with `asynchronous = False`.
        """
        self.hold()
        began = time.monotonic()
        earlier = self._settled()
        waited_s = time.monotonic() - began
        packed = pack(saved, self._staging)
        assert self._serial is not None
        self._serial += 1
        # Not a daemon: a program that ends while it writes ends when it is written.
        self._thread = threading.Thread(
            target=self._write, args=(packed, self._serial, waited_s), name="checkpoint"
        )
        self._thread.start()
        if earlier is None and (wait or not self._config.asynchronous):
            earlier = self._settled()
        if earlier is not None:
            raise earlier

    def wait(self) -> None:
        """Return when what was begun is on the disk; raise if it could not be written."""
        failure = self._settled()
        if failure is not None:
            raise failure

    def news(self) -> list[News]:
        """What became of checkpoints since this was last asked; on the caller's thread."""
        return [self._news.popleft() for _ in range(len(self._news))]

    def close(self) -> None:
        """Wait for the last one and let go of the folder; raise if it could not be written."""
        try:
            self.wait()
        finally:
            if self._thread is None:  # it was not interrupted while waiting
                self._serial = None
                self._staging = Staging()
                self._lock.release()

    def _settled(self) -> BaseException | None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._staging.give_back()
        failure, self._failure = self._failure, None
        return failure

    def _write(self, packed: Packed, serial: int, waited_s: float) -> None:
        began = time.monotonic()
        path = None
        try:
            path = write(self.folder, packed, serial)
            self._tidy()
        except BaseException as error:  # noqa: BLE001  # raised again on the caller's thread
            self._failure = error
        spent = time.monotonic() - began
        news = News(packed.step, path, packed.num_bytes, spent, waited_s, self._failure)
        log.info("%s", news.text)
        self._news.append(news)

    # ---------------------------------------------------------------- which stay

    def _tidy(self) -> None:
        """Remove what no rule keeps. The newest is whole by now and always stays."""
        whole, _ = read.listed(self.folder)
        stay = staying(whole, self._config)
        for kept in whole:
            if kept.path not in stay:
                _remove(kept.path)

    # ---------------------------------------------------------------- finding

    def all(self) -> list[Kept]:
        """The whole ones, in the order they were written."""
        return read.listed(self.folder)[0]

    def latest(self) -> Kept | None:
        """The one that was written last."""
        return max(self.all(), key=lambda kept: kept.serial, default=None)

    def best(self) -> Kept | None:
        """The one with the lowest loss on the validation data, where that was measured."""
        ranked = _ranked(self.all())
        return ranked[0] if ranked else None

    def load(self, path: Path | None = None, *, device: torch.device | str = "cpu") -> Found | None:
        """The state to go on from: the given one, or the latest that is whole.

        None when there is no checkpoint at all. When there are some and none is whole, that is
        an error: to begin anew must be the person's wish.

        Args:
            path: of one checkpoint, which must be whole then.
            device: where weights and the optimiser's tensors go.
        """
        if path is not None:
            return Found(read.read(path, device), path)
        whole, damaged = read.listed(self.folder)
        passed_over = [error.message for error in damaged]
        for kept in reversed(whole):
            try:
                saved = read.read(kept.path, device)
            except read.Damaged as error:
                log.warning("%s", error.message)
                passed_over.append(error.message)
                continue
            return Found(saved, kept.path, tuple(passed_over))
        if passed_over:
            raise StorageError(
                f"no checkpoint in {self.folder} is valid: {passed_over[-1]}",
                hint="Start over in another folder, or restore the files from a backup.",
            )
        return None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except AnyrigError:
            if error is None:
                raise
            log.exception("the last checkpoint could not be written")


def staying(whole: Sequence[Kept], config: CheckpointConfig) -> set[Path]:
    """Which of the checkpoints stay under the rules; the newest always does."""
    newest = {kept.step: kept for kept in whole}  # in the order written: the later of two wins
    rows = sorted(newest.values(), key=lambda kept: kept.serial)
    stay = {kept.path for kept in rows[-config.last :]}
    if config.every_kept:
        stay |= {kept.path for kept in rows if kept.step % config.every_kept == 0}
    return stay | {kept.path for kept in _ranked(rows)[: config.best]}


def _ranked(whole: Sequence[Kept]) -> list[Kept]:
    """Those with a loss, lowest first, the later of equals first; nan is no loss."""
    measured = [kept for kept in whole if kept.loss is not None and kept.loss == kept.loss]
    return sorted(measured, key=lambda kept: (kept.loss, -kept.serial))


def _remove(path: Path) -> None:
    """Take a checkpoint away: a kill in between leaves a stray folder, no damaged checkpoint."""
    away = path.with_name(f"{TEMPORARY}{path.name}-{secrets.token_hex(4)}")
    try:
        path.rename(away)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror or error)
        return
    shutil.rmtree(away, ignore_errors=True)
