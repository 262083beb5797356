"""Reads files one after the other in a process of its own, and tells what came of each.

    python -m tests.text.hostile.reading 10 < paths

A line of JSON for each: the error or the number of segments, the CPU seconds, the peak of memory.
One that takes longer than the seconds given ends the process with a trace of where it was.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.text.sandbox import ReaderPool

_PATIENCE = 12  # how many times slower the clock may run than the CPU's


def main() -> None:
    """Read every path that the standard input names, as JSON strings in lines."""
    from anyrig.text import matter, sandbox  # noqa: F401 - so that the first file does not pay

    most_s = float(sys.argv[1])
    # By CPU time, as a machine may have much else to do; by the clock for what waits for ever.
    faulthandler.register(signal.SIGPROF, chain=True)
    pool = sandbox.ReaderPool()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, most_s)
        faulthandler.dump_traceback_later(_PATIENCE * most_s, exit=True)
        told = _read(Path(json.loads(line)), pool)
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(told), flush=True)


def _read(path: Path, pool: ReaderPool) -> dict[str, object]:
    from anyrig.errors import AnyrigError

    before, base = _cpu_s(), _peak(reset=True)
    told: dict[str, object] = {"outcome": "read", "said": "", "hint": ""}
    try:
        told |= _planned(path, pool)
    except AnyrigError as error:
        told |= {"outcome": "refused", "said": error.message, "hint": error.hint}
    except BaseException:  # noqa: BLE001 - whatever it is, the test must tell of it
        told |= {"outcome": "failed", "said": traceback.format_exc()[-2500:]}
    return told | {"cpu_s": _cpu_s() - before, "memory": _peak() - base}


def _planned(path: Path, pool: ReaderPool) -> dict[str, object]:
    from anyrig.audiobooks.options import ContentOptions
    from anyrig.audiobooks.plan import build_plan, select_chapters
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import check_script
    from anyrig.text.language import detect_document
    from anyrig.text.matter import apply_matter

    document = apply_matter(pool.read_file(path, form="book"))
    detect_document(document)
    ways = ContentOptions(foreign="skip")
    terms = SpeechOptions(languages=("en",))
    plan = build_plan(
        document, terms, language="en", content=ways, chapters=select_chapters(document, "", ways)
    )
    for part in plan.parts:
        check_script(part.script)
    titles = [
        document.metadata.title,
        *document.metadata.authors,
        *(part.title for part in plan.parts),
    ]
    return {"segments": plan.num_segments, "titles": [title[:500] for title in titles[:100]]}


def _list_pids() -> list[int]:
    """This process and those it started, which read the files."""
    import psutil

    return [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]


def _cpu_s() -> float:
    """Of this process, of those it started, and of those of them that have ended."""
    import psutil

    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = [psutil.Process(pid).cpu_times() for pid in _list_pids()]
    return ended.ru_utime + ended.ru_stime + sum(one.user + one.system for one in running)


def _peak(*, reset: bool = False) -> int:
    """The most bytes that one of the processes held since the last reset; 0 where nobody tells."""
    return max(_peak_of(pid, reset=reset) for pid in _list_pids())


def _peak_of(pid: int, *, reset: bool) -> int:
    try:
        if reset:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main()
