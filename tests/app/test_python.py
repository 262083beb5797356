"""`Rig` as a Python program uses it: typed options, models that stay loaded, errors, warnings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig import Rig
from anyrig.errors import InvalidInputError, InvalidOptionError
from anyrig.events import Event, ProgressEvent, WarningEvent
from tests.conftest import ROOT
from tests.waiting import wait_until


def list_workers(rig: Rig) -> list[int]:
    from anyrig.app.models import list_all_workers

    return [
        worker.pid
        for loaded in rig.models.loaded_models()
        for _, worker in list_all_workers(loaded.name, loaded.model)
        if worker.pid
    ]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


# -- models stay loaded ----------------------------------------------------------------------------


def test_a_voice_is_loaded_once_for_several_calls() -> None:
    with Rig() as rig:
        first = rig.speak("Hello.", engine="tone")
        workers = list_workers(rig)
        second = rig.speak("Goodbye.", engine="tone", rate=1.2)
        assert workers
        assert list_workers(rig) == workers
        assert rig.models.stats.loads == 1
        assert first.audio_s > 0 < second.audio_s
    wait_until(lambda: not any(map(is_running, workers)))


def test_a_closed_rig_loads_again() -> None:
    rig = Rig()
    rig.speak("Hello.", engine="tone")
    rig.close()
    assert rig.speak("Goodbye.", engine="tone").audio_s > 0
    rig.close()


def test_threads_may_speak_at_once() -> None:
    with Rig() as rig:
        spoken: list[float] = []

        def speak(number: int) -> None:
            spoken.append(rig.speak(f"Number {number}.", engine="tone").audio_s)

        threads = [threading.Thread(target=speak, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(spoken) == 3


def test_other_options_load_another_model() -> None:
    with Rig() as rig:
        one = rig.embed(["a cat"], model="hashing")
        rig.embed(["a dog"], model="hashing")
        loads = rig.models.stats.loads
        rig.embed(["a cat"], model="hashing", memory_gb=1)
        assert rig.models.stats.loads == loads + 1
        assert one.shape[0] == 1


def test_models_of_a_program_that_ends_are_closed() -> None:
    program = (
        "from anyrig import Rig\n"
        "from tests.app.test_python import list_workers\n"
        "rig = Rig()\n"
        "rig.speak('Hello.', engine='tone')\n"
        "print(*list_workers(rig))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    workers = [int(word) for word in done.stdout.split()]
    assert workers
    wait_until(lambda: not any(map(is_running, workers)))


def test_a_command_keeps_no_model() -> None:
    rig = Rig(keep_models=False)
    rig.speak("Hello.", engine="tone")
    assert rig.models.loaded_models() == []


# -- options and errors ----------------------------------------------------------------------------


def test_an_unknown_option_is_an_invalid_option() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Rig().speak("Hello.", ratee=1.1)  # type: ignore[call-arg]
    assert str(caught.value) == "unknown option 'ratee'"
    assert caught.value.option == "ratee"
    assert "Did you mean 'rate'?" in str(caught.value.hint)


@pytest.mark.parametrize("method", ["transcribe", "ocr", "find_entities", "classify"])
def test_nothing_to_do_is_an_error_with_a_hint(method: str) -> None:
    labels = {"labels": ["a", "b"]} if method == "classify" else {}
    with pytest.raises(InvalidInputError) as caught:
        getattr(Rig(), method)(**labels)
    assert "nothing to" in str(caught.value)
    assert caught.value.hint


def test_text_and_texts_are_the_same() -> None:
    found = Rig().find_entities(text="It costs 5 euros.")
    assert [row["kind"] for row in found.list_rows()]
    assert found.list_rows() == Rig().find_entities(texts=["It costs 5 euros."]).list_rows()


def test_the_options_are_typed(tmp_path: Path) -> None:
    """mypy checks this file: a wrong option that it does not find is an unused `type: ignore`."""
    rig = Rig()
    with pytest.raises(InvalidOptionError):
        rig.speak("Hello.", rate="fast")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError):
        rig.speak("Hello.", profile="quick")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError):
        rig.make_book("novel.epub", tmp_path / "novel.m4b", chapter=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidOptionError):
        rig.search("rent", limit="ten")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError):
        rig.train("run.toml", step=5)  # type: ignore[call-arg]


def test_generated_files_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "generate", "--check"], check=True)


# -- results and events ----------------------------------------------------------------------------


def test_speech_is_an_array() -> None:
    speech = Rig().speak("Hello there, and goodbye.", engine="tone")
    samples = speech.read()
    assert samples.dtype == np.float32
    assert len(samples) == speech.num_samples
    assert np.array_equal(samples[10:30], speech.read(10, 30))
    assert np.array_equal(np.concatenate(list(speech.blocks())), samples)
    assert repr(speech) == f"<Speech: {speech.audio_s:.2f} s at {speech.sample_rate} Hz by tone>"


def test_progress_is_a_fraction_from_the_first_event(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("One sentence. Another sentence.")
    fractions: list[float] = []

    def show(now: ProgressEvent) -> None:
        fractions.append(now.fraction)

    Rig().make_book(book, tmp_path / "book.m4b", engine="tone", on_progress=show)
    assert fractions[0] == 0
    assert max(fractions) == 1
    assert all(0 <= one <= 1 for one in fractions)


def test_every_call_gets_its_warnings_once() -> None:
    rig = Rig(on_event=lambda event: pytest.fail(f"not to the rig: {event}"))
    for _ in range(2):
        events: list[Event] = []
        rig.speak("Hello.", engine="tone", device="cuda", on_event=events.append)
        warnings = [str(one.message) for one in events if isinstance(one, WarningEvent)]
        assert len([text for text in warnings if "CUDA" in text or "cuda" in text]) == 1
    rig.close()


def test_warnings_of_no_call_are_not_remembered_for_ever() -> None:
    seen: list[Any] = []
    rig = Rig(on_event=seen.append)
    rig.warn("first")
    rig.warn("first")
    assert len(seen) == 1
    for number in range(1000):
        rig.warn(f"file {number}")
    rig.warn("first")
    assert len(seen) == 1002
