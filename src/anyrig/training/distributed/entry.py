"""What each process of a launch runs first: the module or script asked for, its end written down.

    python -m anyrig.training.distributed.entry REPORTS -m MODULE ... | SCRIPT ...

An error is left as a small file in REPORTS, so that the launcher can say in words who failed first
and why.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from anyrig.errors import AnyrigError, dump_message
from anyrig.storage.files import write_atomic
from anyrig.training.distributed.orphans import end_with_parent

INTERRUPTED = 130


def main(words: Sequence[str]) -> int:
    """Run the words; the exit code."""
    reports, *words = words
    end_with_parent(lambda: os._exit(1))
    try:
        _run(words)
    except AnyrigError as error:
        _report(Path(reports), error.exit_code, type(error).__name__, error.message, error.hint)
        return error.exit_code
    except SystemExit as leaving:
        return _left(Path(reports), leaving.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  whatever the script raises ends this process
        told = "".join(traceback.format_exception_only(error)).strip()
        _report(Path(reports), 1, type(error).__name__, told, "")
        traceback.print_exc()
        return 1
    return 0


def _run(words: Sequence[str]) -> None:
    if words[0] == "-m":
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


def _left(reports: Path, code: object) -> int:
    if code is None or code == 0:
        return 0
    number = code if isinstance(code, int) else 1
    told = f"it ended with exit code {number}" if isinstance(code, int) else str(code)
    _report(reports, number, "SystemExit", told, "")
    return number


def _report(reports: Path, code: int, kind: str, message: str, hint: str) -> None:
    rank = int(os.environ["RANK"])  # torchrun's word on who this is; nothing else is read
    texts = {"message": dump_message(message), "hint": dump_message(hint)}
    told = {"rank": rank, "code": code, "kind": kind, **texts}
    write_atomic(reports / f"rank{rank}.json", json.dumps({**told, "time": time.time()}))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
