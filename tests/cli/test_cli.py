"""The command line as a person meets it: help, mistakes, pipes, interrupts, choices."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from anyrig.cli.main import COMMANDS, main, wants_json
from anyrig.version import __version__
from tests.conftest import MACHINES, NAMES, Anyrig
from tests.waiting import wait_until

PAIR = str(MACHINES / "rtx4090-rtxpro6000-wsl2.json")
H200 = str(MACHINES / "h200-linux.json")


def test_help_lists_every_command(anyrig: Anyrig) -> None:
    for words in ((), ("--help",), ("help",)):
        done = anyrig(*words)
        assert done.returncode == 0
        assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_every_command_has_help_and_the_common_flags(
    anyrig: Anyrig, subtests: pytest.Subtests
) -> None:
    for name in COMMANDS:
        with subtests.test(name=name):
            done = anyrig(name, "--help")
            assert done.returncode == 0
            for flag in (
                "--device",
                "--gpu",
                "--strict",
                "--json",
                "--log-file",
                "--verbose",
                "--no-bench",
            ):
                assert flag in done.stdout
            assert anyrig("help", name).stdout == done.stdout


def test_version(anyrig: Anyrig) -> None:
    assert anyrig("--version").stdout == f"anyrig {__version__}\n"
    assert anyrig("-v", "--version").stdout == f"anyrig {__version__}\n"


def test_every_flag_may_stand_before_the_command(
    capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for name in COMMANDS:
        with subtests.test(name=name):

            def outcome(*words: str) -> tuple[object, str, str]:
                try:
                    code: object = main(words)
                except SystemExit as ended:
                    code = ended.code
                return code, *capsys.readouterr()

            _, shown, _ = outcome(name, "--help")
            flags = re.findall(r"^  (?:-\w[^,\n]*, )?(--[a-z-]+)( [A-Z{\[])?", shown, re.MULTILINE)
            assert len(flags) > 5
            for flag, value in flags:
                given = "speech" if flag == "--preload" else "1"
                words = (flag, given) if value else (flag,)
                assert outcome(*words, name, "--help") == outcome(name, *words, "--help")


MISTAKES = [
    (["devcies"], 2, "unknown command 'devcies'", "Did you mean `anyrig devices`?"),
    (["-v"], 2, "no command was given", "devices"),
    (["--device", "cpu", "devcies"], 2, "unknown command 'devcies'", "`anyrig devices`?"),
    (["--preload", "speech", "srve"], 2, "unknown command 'srve'", "`anyrig serve`?"),
    (["--prelod", "speech", "serve"], 2, "unrecognized arguments: --prelod", "--preload?"),
    (["--preload", "speech", "serve", "--port", "99999"], 2, "--port must be", "default is 3000"),
    (["--preload", "--port", "99999", "serve"], 2, "--port must be a", "default is 3000"),
    (["--preload", "serve", "--port=99999"], 2, "--port must be a", "default is 3000"),
    (["--preload", "all", "--port", "9", "serve"], 2, "--preload must be", "load models"),
    (["--format", "txt", "-vv", "--rate=9", "speak", "Hello."], 2, "and 4, not '9'", "speaking"),
    (["devices", "--fast"], 2, "unrecognized arguments: --fast", "--help"),
    (["devices", "--machine"], 2, "expected one argument", "--help"),
    (["devices", "--machine", "nowhere.json"], 2, "nowhere.json", "--record"),
    (["devices", "--device", "nonsense"], 2, "no device matches 'nonsense'", "cpu ("),
    (["devices", "--config", "none.toml"], 2, "settings file not found", "path"),
    (["devices", "--log-file", "/proc/nowhere/x.log"], 2, "cannot write the log", "--log-file"),
    (["devices", "--record", "/proc/nowhere/x.json"], 2, "cannot write", "Create the folder"),
    (["devices", "--machine", H200, "--device", "xpu:0"], 2, "no device matches", "H200"),
    (["devices", "--machine", H200, "--device", "xpu", "--strict"], 3, "no XPU", "H200"),
    (["use", "nonsense"], 2, "no device matches", "cpu ("),
    (["use", "directml", "--strict"], 3, "no DirectML device found", "doctor"),
    (["use", "cpu", "--device", "cpu"], 2, "named twice", "Once"),
    (["use", "cpu", "--reset"], 2, "cannot be combined", "Leave"),
    (["devices", "--devise", "cpu"], 2, "unrecognized", "Did you mean --device?"),
    (["speak", "Hi.", "--volume", "3"], 2, "--volume", "Did you mean --loudness? See"),
    (["speak", "Hi.", "--speed=2"], 2, "--speed", "Did you mean --rate? See"),
    (["speak", "Hi.", "--temperature", "1"], 2, "unrecognized", "--set temperature=VALUE"),
    (["speak", "Hi.", "--langauge", "en"], 2, "unrecognized", "Did you mean --language?"),
    (["speak", "Hi.", "--voice-name", "x"], 2, "unrecognized", "Did you mean --voice?"),
    (["speak", "Hi.", "--pitch", "2"], 2, "unrecognized", "hint: See `anyrig speak --help`."),
    (["devices", "--volume", "2"], 2, "unrecognized", "hint: See `anyrig devices --help`."),
    (["devices", "--gpu", "x"], 2, "--gpu must be a number", "numbers the GPUs"),
    (["devices", "--device", ""], 2, "no name", "auto"),
    (["devices", "--device", "cpu", "--gpu", "0"], 2, "not allowed with", "--help"),
    (["devices", "--record", "r.json", "--machine", H200], 2, "--record writes", "one of"),
    (["bench", "--plot", "/proc/nowhere/x.svg"], 2, "no folder", "Create the folder"),
    (["devices", "--machine", str(MACHINES / "rx7900xtx-windows.json"), "--strict",
      "--device", "rocm:0"], 3, "cannot be used as rocm:0", "docs/devices.md"),
    (["devices", "--machine", PAIR, "--device", "dml:7"], 2, "no device matches", "4090"),
    (["use"], 2, "no terminal", "anyrig use DEVICE"),
    (["bench", "--device", "dml:0"], 2, "no device matches", "cpu ("),
    (["devices", "--strict", "--machine", str(MACHINES / "gtx1080ti-linux.json"),
      "--device", "0"], 3, "cannot be used", "cu126"),
]  # fmt: skip


def test_a_mistake_is_one_error_with_a_hint(anyrig: Anyrig, subtests: pytest.Subtests) -> None:
    for words, code, message, hint in MISTAKES:
        with subtests.test(words=words, code=code):
            done = anyrig(*words, stdin=subprocess.DEVNULL)
            assert done.returncode == code
            assert done.stdout == ""
            first, second, *rest = done.stderr.splitlines()
            assert first.startswith("error: ")
            assert message in first
            assert second.startswith("  hint: ")
            assert hint in second
            assert not rest


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["devcies", "--json"], 2, "unknown command 'devcies'"),
        (["devices", "--fast", "--json"], 2, "unrecognized arguments: --fast"),
        (["--json", "devices", "--device", "nonsense"], 2, "no device matches 'nonsense'"),
        (["entities", "--json", "nowhere.txt"], 2, "nowhere.txt"),
        (["cache", "import", "nowhere.txt", "--json"], 2, "nowhere.txt"),
        (["jobs", "show", "abc", "--json"], 2, "abc"),
    ],
)
def test_a_program_reads_the_error_as_json(
    anyrig: Anyrig, words: list[str], code: int, message: str
) -> None:
    done = anyrig(*words, stdin=subprocess.DEVNULL)
    told = json.loads(done.stdout)
    assert done.returncode == told["exit_code"] == code
    assert message in told["error"]
    assert f"error: {told['error']}\n  hint: " in done.stderr
    assert told["hint"]


def test_an_error_after_the_document_adds_no_second_one(anyrig: Anyrig) -> None:
    """The document names the files that failed; the error is on the other stream alone."""
    Path("bad.pdf").write_bytes(b"%PDF-1.7 nothing")
    done = anyrig("entities", "bad.pdf", "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)
    assert "error" not in told
    assert told["failed"][0]["file"].endswith("bad.pdf")
    assert told["failed"][0].keys() == {"file", "error", "hint"}
    assert "error: " in done.stderr


def test_a_text_that_says_json_asks_for_none() -> None:
    assert wants_json(["devices", "--json"])
    assert not wants_json(["speak", "--", "--json"])


def test_a_refused_record_leaves_nothing_behind(anyrig: Anyrig, tmp_path: Path) -> None:
    done = anyrig("devices", "--record", str(tmp_path / "home"))  # a folder
    assert done.returncode == 2
    assert sorted(os.listdir(tmp_path)) == ["home", "work"]


# -- devices ---------------------------------------------------------------------------------------


def test_every_recorded_machine_prints(anyrig: Anyrig, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            path = str(MACHINES / f"{name}.json")
            done = anyrig("devices", "--machine", path)
            assert done.returncode == 0, done.stderr
            data = json.loads(anyrig("devices", "--machine", path, "--json").stdout)
            for gpu in data["gpus"]:
                assert gpu["name"] in done.stdout
                assert gpu["id"] in done.stdout
            assert data["cpu"]["name"] in done.stdout
            assert data["choice"]["devices"]
            assert "Using " in done.stdout


def test_variables_ask_a_recorded_machine_what_if(anyrig: Anyrig) -> None:
    done = anyrig("devices", "--machine", PAIR, environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert "hidden by CUDA_VISIBLE_DEVICES=1" in done.stdout


@pytest.mark.parametrize(
    ("variables", "word"),
    [({"ANYRIG_DEVICE": "rtx 4090"}, "4090"), ({"VIBEVOICE_DEVICE": "cuda:1"}, "4090"),
     ({"USE_GPU": "no"}, "the CPU"), ({"GPU_ID": "1"}, "PRO 6000")],
)  # fmt: skip
def test_the_environment_overrides(anyrig: Anyrig, variables: dict[str, str], word: str) -> None:
    done = anyrig("devices", "--machine", PAIR, environment=variables)
    last = done.stdout.strip().splitlines()[-1]
    assert word in last
    assert "environment variable" in last
    flag = anyrig("devices", "--machine", PAIR, "--device", "cuda:0", environment=variables)
    assert "PRO 6000" in flag.stdout.strip().splitlines()[-1]


def test_settings_files_are_read_and_refused(anyrig: Anyrig) -> None:
    Path("anyrig.toml").write_text('device = "rtx 4090"\n')
    done = anyrig("devices", "--machine", PAIR)
    assert "settings file" in done.stdout.strip().splitlines()[-1]
    Path("anyrig.toml").write_text('devise = "4090"\n')
    assert "Did you mean 'device'?" in anyrig("devices").stderr
    Path("anyrig.toml").unlink()
    Path(".env").write_text("ANYRIG_DEVICE=cpu\n")
    done = anyrig("devices", "--machine", PAIR)
    assert "the CPU" in done.stdout.strip().splitlines()[-1]


def test_a_recording_can_be_replayed(anyrig: Anyrig) -> None:
    assert "Recorded" in anyrig("devices", "--record", "me.json").stdout
    live = json.loads(anyrig("devices", "--json").stdout)
    replayed = json.loads(anyrig("devices", "--machine", "me.json", "--json").stdout)
    assert replayed["cpu"]["name"] == live["cpu"]["name"]
    assert replayed["gpus"] == live["gpus"]


# -- doctor ----------------------------------------------------------------------------------------


def test_doctor_runs_real_kernels_here_and_is_content(anyrig: Anyrig) -> None:
    done = anyrig("doctor", "--json")
    data = json.loads(done.stdout)
    proven = {(p["backend"], p["ok"]) for p in data["probes"] if p["device"] == "cpu"}
    assert proven == {("torch", True), ("onnx", True)}
    kernels = [f for f in data["findings"] if f["check"] == "kernel"]
    assert all(f["state"] == "good" for f in kernels)
    assert done.returncode == (1 if data["broken"] else 0)


@pytest.mark.parametrize(("name", "code"), [("macbook-m4", 0), ("gtx1080ti-linux", 1)])
def test_doctor_exits_with_1_when_something_is_broken(anyrig: Anyrig, name: str, code: int) -> None:
    done = anyrig("doctor", "--machine", str(MACHINES / f"{name}.json"))
    assert done.returncode == code
    assert ("broken" in done.stdout) == bool(code)


def test_doctor_and_a_device_that_answers_wrongly(anyrig: Anyrig, tmp_path: Path) -> None:
    record = json.loads(Path(H200).read_text())
    identity = record["nvml"]["devices"][0]["nvmlDeviceGetUUID"]
    record["probes"] = {f"torch {identity}": {"ok": True, "max_error": 0.2, "ran_on": "cuda:0"}}
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(record))
    done = anyrig("doctor", "--machine", str(path))
    assert done.returncode == 1
    assert "wrong results" in done.stdout


# -- use -------------------------------------------------------------------------------------------


def test_auto_is_a_word_of_every_command(anyrig: Anyrig) -> None:
    assert anyrig("devices", "--device", "auto").returncode == 0
    assert anyrig("doctor", "--device", "auto", "--no-kernels").returncode == 0
    assert anyrig("bench", "--device", "auto", "--quick", "--no-save").returncode == 0


def test_use_saves_tells_and_forgets(anyrig: Anyrig) -> None:
    assert anyrig("use", "cpu", "--no-bench").returncode == 0
    path = Path(os.environ["XDG_CONFIG_HOME"], "anyrig", "choice.json")
    assert json.loads(path.read_text())["device"] == "cpu"
    assert "saved by `anyrig use`" in anyrig("devices").stdout
    assert json.loads(anyrig("use", "--json").stdout)["saved"]["device"] == "cpu"
    assert "Deleted" in anyrig("use", "--reset").stdout
    assert not path.exists()
    assert "Nothing was saved" in anyrig("use", "--reset").stdout
    assert "Nothing is saved" in anyrig("use", "--list").stdout


def test_a_saved_device_that_is_gone_is_named(anyrig: Anyrig) -> None:
    path = Path(os.environ["XDG_CONFIG_HOME"], "anyrig", "choice.json")
    path.parent.mkdir(parents=True)
    path.write_text('{"device": "GPU-gone", "name": "NVIDIA GeForce RTX 2080 Ti"}')
    done = anyrig("devices")
    assert done.returncode == 0
    assert "RTX 2080 Ti no longer exists" in done.stderr


@pytest.mark.parametrize(
    "damaged",
    [b"", b"garbage", b'{"device": "cp', b"\xff\x00\xfe", b"[]", b"7", b'{"device": null}',
     b'{"device": ""}', b'{"name": "cpu"}', b"[" * 100_000, None],
)  # fmt: skip
def test_a_damaged_saved_device_is_ignored_until_the_next_use(
    anyrig: Anyrig, damaged: bytes | None
) -> None:
    path = Path(os.environ["XDG_CONFIG_HOME"], "anyrig", "choice.json")
    path.parent.mkdir(parents=True)
    path.mkdir() if damaged is None else path.write_bytes(damaged)
    done = anyrig("devices")
    assert done.returncode == 0
    assert done.stderr.count(str(path)) == 1
    assert "anyrig use" in done.stderr
    assert anyrig("speak", "--dry-run", "Hello.", "--engine", "tone").returncode == 0
    if damaged is not None:
        assert anyrig("use", "cpu", "--no-bench").returncode == 0
        assert json.loads(path.read_text())["device"] == "cpu"
        assert str(path) not in anyrig("devices").stderr


def test_the_first_use_of_a_device_measures_it_once(anyrig: Anyrig) -> None:
    first = anyrig("use", "cpu")
    assert "Measuring" in first.stderr
    book = json.loads(Path(os.environ["XDG_CACHE_HOME"], "anyrig", "figures.json").read_text())
    assert any(f["kernel"] == "product" for f in book["devices"]["cpu"]["figures"])
    assert "Measuring" not in anyrig("use", "cpu").stderr


# -- bench -----------------------------------------------------------------------------------------


def test_bench_prints_a_table_saves_figures_and_draws(anyrig: Anyrig) -> None:
    done = anyrig("bench", "--quick", "--plot", "plot.svg")
    assert done.returncode == 0, done.stderr
    assert "2000^2 product x10" in done.stdout
    assert "1x" in done.stdout
    assert "bandwidth" in done.stdout
    assert Path("plot.svg").read_text().startswith("<svg")
    data = json.loads(anyrig("bench", "--quick", "--no-save", "--json").stdout)
    (page,) = data["devices"]
    assert page["device"] == "cpu"
    assert {f["kernel"] for f in page["figures"]} == {"product", "bandwidth"}


# -- manners ---------------------------------------------------------------------------------------


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    command = f"{sys.executable} -m anyrig devices --machine {MACHINES / 'h100x8-mig.json'} --json"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -n 1"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "{\n"
    assert done.stderr == ""
    gone = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "devices", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert gone.stdout is not None
    assert gone.stderr is not None
    gone.stdout.close()
    assert gone.stderr.read() == b""
    gone.stderr.close()
    assert gone.wait() == 141


def test_an_interrupt_ends_with_130_and_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "bench"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: psutil.Process(process.pid).children())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert err.strip().endswith("interrupted")


@pytest.mark.parametrize("name", ["book", "speak", "index", "engines", "search"])
def test_ctrl_c_says_once_what_was_kept_and_how_to_continue(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    command = importlib.import_module(f"anyrig.cli.{name}")
    monkeypatch.setattr(command, "run", interrupt)
    assert main(["--json", name, "words"]) == 130
    message = capsys.readouterr().err
    assert message.count("interrupted") == 1
    assert message.count("the same command continues") == int(name != "search")


def test_the_log_file_and_verbosity(anyrig: Anyrig, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    quiet = anyrig("devices", "--machine", PAIR, "--log-file", str(log))
    assert quiet.stderr == ""
    assert "DEBUG" in log.read_text()
    assert "source nvidia: found" in log.read_text()
    told = anyrig("-v", "devices", "--machine", PAIR).stderr
    assert "INFO" in told
    assert "skipped: NVIDIA GeForce RTX 4090" in told
    assert "DEBUG" not in told
    assert "DEBUG" in anyrig("-vv", "devices", "--machine", PAIR).stderr


def test_folders_that_cannot_be_written_cost_no_figures(anyrig: Anyrig, tmp_path: Path) -> None:
    """Files stand where the folders should be: refused for root too."""
    (tmp_path / "blocked").write_text("")
    nowhere = {"XDG_CONFIG_HOME": str(tmp_path / "blocked"), "XDG_CACHE_HOME": "/proc/nowhere"}
    for words in (("use", "cpu", "--no-bench"), ("use", "auto")):
        done = anyrig(*words, environment=nowhere)
        assert done.returncode == 2
        assert done.stderr.startswith("error: cannot write")
        assert "Traceback" not in done.stderr
    done = anyrig("bench", "--quick", "--device", "cpu", environment=nowhere)
    assert done.returncode == 0
    assert "2000^2 product x10" in done.stdout
    assert "could not be saved" in done.stderr
    assert anyrig("devices", environment=nowhere).returncode == 0


def test_a_full_disk_and_a_closed_output_are_one_line() -> None:
    for sink, code in ((">/dev/full", 1), (">&-", 0)):
        command = f"{sys.executable} -m anyrig devices {sink}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_its_parent(signal_number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "bench"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (child,) = wait_until(lambda: children.read_text().split())
    time.sleep(1.0)
    process.send_signal(signal_number)
    process.wait(timeout=60)
    wait_until(lambda: not _runs(child))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_onnx_runtime_reports_to_nobody(anyrig: Anyrig) -> None:
    anyrig("doctor", "--device", "cpu")
    assert not [path for path in Path.home().rglob("*") if "Microsoft" in str(path)]


@pytest.mark.parametrize(
    "words", [["use", "cpu", "--no-bench"], ["use", "--reset"], ["devices", "--record", "r.json"],
              ["use"], ["devices"], ["doctor", "--no-kernels"]],
)  # fmt: skip
def test_json_is_json(anyrig: Anyrig, words: list[str]) -> None:
    json.loads(anyrig(*words, "--json").stdout)


def test_a_device_that_answers_with_nan_is_json_too(anyrig: Anyrig, tmp_path: Path) -> None:
    record = json.loads(Path(H200).read_text())
    identity = record["nvml"]["devices"][0]["nvmlDeviceGetUUID"]
    record["probes"] = {f"torch {identity}": {"ok": True, "max_error": float("nan")}}
    path = tmp_path / "nan.json"
    path.write_text(json.dumps(record))
    done = anyrig("doctor", "--machine", str(path), "--json")
    assert done.returncode == 1
    assert any("NaN" in finding["message"] for finding in json.loads(done.stdout)["findings"])


def test_bench_without_any_stream_to_ask_on() -> None:
    command = f"{sys.executable} -m anyrig bench --quick --no-save --device cpu <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_wrong_word_in_a_file_is_named_with_its_place(anyrig: Anyrig) -> None:
    Path("anyrig.toml").write_text('device = "dml:0"\n')
    done = anyrig("devices")
    assert done.returncode == 2
    assert "CPU  " in done.stdout
    assert "requested by anyrig.toml" in done.stderr
    doctor = anyrig("doctor", "--no-kernels")
    assert doctor.returncode == 1
    assert "requested by anyrig.toml" in doctor.stdout
    saved = anyrig("use", "cpu", "--no-bench")
    assert "anyrig.toml requests 'dml:0', which takes precedence" in saved.stderr


def test_harmless_warnings_are_silent_unless_verbose() -> None:
    code = """
import logging, sys, warnings
from anyrig.cli.rig import configure_log
configure_log(int(sys.argv[1]))
warnings.warn("APEX FusedLayerNorm not found, using native")
logging.getLogger("x").warning("APEX FusedLayerNorm not found")
warnings.warn("something that matters")
"""
    for verbose, expected in (("0", 0), ("1", 2)):
        done = subprocess.run([sys.executable, "-c", code, verbose], capture_output=True, text=True)
        assert done.stderr.count("APEX FusedLayerNorm not found") >= expected
        assert ("APEX" in done.stderr) == (verbose == "1")
        assert "something that matters" in done.stderr


HEAVY = (
    "torch", "numpy", "onnxruntime", "pydantic", "fastapi", "celery", "rich", "psutil",
    "importlib.metadata", "asyncio",
)  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["devices"], ["devices", "--json"],
     ["devices", "--machine", str(MACHINES / "h100x8-mig.json")],
     ["devices", "--machine", str(MACHINES / "rx640-uhd750-windows.json"), "--device", "0"],
     ["use", "--list"], ["use", "cpu", "--no-bench"], ["use", "cpu"]],
    ids=["plain", "json", "recorded", "asked", "use-list", "use", "measured"],
)  # fmt: skip
def test_devices_and_use_import_nothing_heavy(words: list[str]) -> None:
    code = (
        "import json, sys; from anyrig.cli.main import main; code = main(sys.argv[1:]);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.strip().splitlines()[-1]))
    assert not loaded & set(HEAVY)
    # Classes of events take 7 % of the CPU time of a list, which reports none.
    assert words[0] != "devices" or "anyrig.events" not in loaded


def test_commands_about_devices_never_import_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal too, where other commands draw their progress with it."""
    code = (
        "import sys; sys.modules['rich'] = None; sys.stderr.isatty = lambda: True\n"
        "from anyrig.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    recorded = ["--machine", str(MACHINES / "h100x8-mig.json")]
    for words in (["use", "cpu", "--no-bench"], ["doctor", *recorded], ["doctor", "--no-kernels"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert "rich" not in done.stderr, done.stderr
        assert done.returncode in (0, 1), done.stderr


# NVML's import and eight GPUs to describe: what a machine with NVML pays beside NVML's own answers,
# which `pytest -m gpu` and benchmarks/listing.py time on a real one.
_WITH_NVML = (
    "import pynvml, sys; from anyrig.cli.main import main;"
    f"sys.exit(main(['devices', '--machine', {str(MACHINES / 'h100x8-mig.json')!r}]))"
)
_PLAIN = ["-m", "anyrig", "devices"]


_LIBRARY = (
    "import argparse, asyncio, email.message, http.client, json, logging, subprocess, typing,"
    "unittest.mock"
)
"""Of Python's own: what a machine takes to load these tells how fast it is, and how busy."""


def _cpu_time(words: list[str]) -> float:
    """CPU time of a whole child, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        pytest.param(_PLAIN, 3.0, id="no-gpu"),
        pytest.param(["-c", _WITH_NVML], 4.5, id="nvml"),
        pytest.param(_PLAIN, 4.5, id="real-gpu", marks=pytest.mark.gpu),
    ],
)
def test_devices_stays_within_its_cpu_time(
    words: list[str], limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what Python takes for a part of its library, in turns; modules are compiled, as when
    installed."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    pairs = [(_cpu_time(words), _cpu_time(["-c", _LIBRARY])) for _ in range(8)][1:]
    ratio = statistics.median(mine / library for mine, library in pairs)
    assert ratio < limit, [(round(1000 * mine), round(1000 * library)) for mine, library in pairs]


ODD = "a\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\rover"
SEEN = r"a\u001b[31mred\u001b]0;title\u0007\u009b2J\u007f\u000dover"
UNSAFE = set(map(chr, (*range(9), *range(14, 32), *range(127, 160)))) | {"\r"}


@pytest.mark.parametrize(
    "words",
    [["entities"], ["book", "--list"], ["transcribe"], ["ocr"], ["summarise"],
     ["classify", "--labels", "a,b"], ["index"], ["analyse"], ["speak", "-f"], ["train"],
     ["cache", "import"], ["devices", "--machine"], ["devices", "--config"], ["jobs", "show"],
     ["speak", "Hello.", "--dry-run", "--voice"], ["keys", "remove"]],
    ids=" ".join,
)  # fmt: skip
def test_an_error_that_names_a_file_is_escaped(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*words, ODD]) != 0
    out, err = capsys.readouterr()
    assert not UNSAFE & {*out, *err}
    assert "red" in out + err


def test_a_file_that_is_read_is_named_without_its_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{ODD}.txt").write_text("CHAPTER I\n\nThe tide came in.")
    assert main(["book", "--list", f"{ODD}.txt"]) == 0
    out, err = capsys.readouterr()
    assert not UNSAFE & {*out, *err}
    assert main(["book", "--list", "--json", f"{ODD}.txt"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminals")
def test_colours_of_our_own_stay_on_a_terminal() -> None:
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "anyrig", "jobs", "show", ODD])
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:  # Linux's way to say that the other side has closed
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"\x1b[31merror\x1b[0m: " in said
    assert said.count(b"\x1b") == 2
    assert rb"\u001b[31mred" in said


def test_only_the_stream_s_own_mark_becomes_an_escape() -> None:
    from anyrig.cli.escape import EscapedStream, esc

    inner = io.StringIO()
    stream = EscapedStream(inner)
    mark = esc(stream)
    print(f"\r{mark}[2K{ODD}\tb\r\nc\x0c\ud800{mark}[0m", end="", file=stream)
    assert inner.getvalue() == f"\r\x1b[2K{SEEN}\tb\r\nc\x0c\\ud800\x1b[0m"
    assert esc(io.StringIO()) == "\x1b"
