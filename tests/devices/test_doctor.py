"""Every finding of the doctor: a machine that has it and one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.cli.main import main
from anyrig.devices.discovery import from_record
from anyrig.devices.doctor import Finding, KernelResult, diagnose
from anyrig.devices.machine import Machine
from anyrig.devices.reasons import ReasonCode
from tests.conftest import MACHINES, NAMES, record_of

Load = Callable[..., Machine]

# check, state, words in the message, words in the fix, machine that has it, machine that has not
FINDINGS = [
    ("platform", "good", "Linux", "", "h200-linux", "wsl1"),
    ("platform", "broken", "requires Python 3.11", "uv tool", "wsl1", "h200-linux"),
    ("platform", "broken", "no wheel for macOS on Intel", "silicon", "macbook-intel", "macbook-m4"),
    ("platform", "warning", "Windows on ARM", "x64", "snapdragon-windows", "rx7900xtx-windows"),
    ("platform", "warning", "unknown operating system", "bench", "freebsd", "no-gpu"),
    ("wsl", "broken", "WSL1", "set-version", "wsl1", "amd-wsl2"),
    ("wsl", "good", "never install a Linux driver", "", "rtx4090-rtxpro6000-wsl2", "h200-linux"),
    ("wsl", "warning", "librocdxg", "troubleshooting", "amd-wsl2", "rtx4090-rtxpro6000-wsl2"),
    ("sources", "good", "no source failed", "", "h200-linux", "nvidia-init-fails"),
    ("sources", "warning", "nvidia source failed", "reboot", "nvidia-init-fails", "h200-linux"),
    ("limits", "good", "no limits", "", "h200-linux", "cpu64-cgroup4"),
    ("limits", "warning", "quota allows 4 of 64", "--cpus", "cpu64-cgroup4", "h200-linux"),
    ("limits", "warning", "limits memory to 8 GiB", "--memory", "cpu64-cgroup4", "h200-linux"),
    ("limits", "warning", "affinity allows", "taskset", "a100-mig-empty", "h200-linux"),
    ("limits", "warning", "Rosetta", "arm64", "macbook-m1-rosetta", "macbook-m4"),
    ("disk", "good", "free in the home folder", "", "h200-linux", "low-disk"),
    ("disk", "warning", "2.8 GiB free", "purge", "low-disk", "h200-linux"),
    ("disk", "broken", "only 1.4 GiB", "purge", "pod-gpu-void", "h200-linux"),
    ("nvidia-driver", "good", "supports CUDA up to 13.0", "", "h200-linux", "nvidia-nouveau"),
    ("nvidia-driver", "broken", "nouveau", "nvidia-driver", "nvidia-nouveau", "h200-linux"),
    ("nvidia-driver", "broken", "MISMATCH", "reboot", "nvidia-init-fails", "h200-linux"),
    ("nvidia-driver", "warning", "fails to start", "modprobe", "driver-without-card", "no-gpu"),
    ("nvidia-driver", "warning", "registry", "", "rx640-session0-windows", "rx7900xtx-windows"),
    ("nvidia-container", "good", "mapped into the container", "", "rtx4070-laptop-docker",
     "docker-no-toolkit"),
    ("nvidia-container", "broken", "not available in this", "toolkit", "docker-no-toolkit",
     "h200-linux"),
    ("nvidia-container", "warning", "void", "--gpus all", "pod-gpu-void", "h200-linux"),
    ("nvidia-container", "broken", "excludes compute", "compute", "a10-docker-utility",
     "rtx4070-laptop-docker"),
    ("cuda-runtime", "good", "works with a driver", "", "h200-linux", "v100-linux"),
    ("cuda-runtime", "broken", "12.2 at most", "cu126", "v100-linux", "h200-linux"),
    ("torch-kernels", "good", "torch has kernels for", "", "h200-linux", "gtx1080ti-linux"),
    ("torch-kernels", "broken", "6.1; the torch wheel", "cu126", "gtx1080ti-linux", "t4-linux"),
    ("torch-kernels", "good", "gfx942", "", "mi300x-linux", "rx6700xt-linux"),
    ("torch-kernels", "broken", "gfx1031", "10.3.0", "rx6700xt-linux", "mi300x-linux"),
    ("torch-kernels", "broken", "gfx1151", "rocm7.2", "strix-halo-linux", "mi300x-linux"),
    ("torch-kernels", "warning", "own risk", "", "rx6700xt-override-linux", "rx6700xt-linux"),
    ("nvidia-parts", "good", "MIG instances: use those", "", "h100x8-mig", "h200-linux"),
    ("nvidia-parts", "broken", "no instance", "mig", "a100-mig-empty", "h100x8-mig"),
    ("nvidia-parts", "broken", "Prohibited", "-c DEFAULT", "a100-mig-empty", "h100x8-mig"),
    ("nvidia-parts", "warning", "Exclusive_Process", "-i 1 -c DEFAULT", "k80-exclusive-linux",
     "h100x8-mig"),
    ("torch-kernels", "broken", "and no other has them", "anyrig[webgpu]", "k80-exclusive-linux",
     "gh200-linux"),
    ("amd-access", "good", "accessible", "", "mi300x-linux", "rx7900xtx-linux"),
    ("amd-access", "broken", "/dev/kfd", "usermod", "rx7900xtx-linux", "mi300x-linux"),
    ("amd-container", "broken", "not mapped", "--device /dev/kfd", "mi210-docker-no-kfd",
     "mi210-docker"),
    ("amd-container", "good", "/dev/kfd is mapped", "", "mi210-docker", "mi210-docker-no-kfd"),
    ("intel-access", "good", "accessible", "", "arc-b580-linux", "arc-a770-closed-linux"),
    ("intel-access", "broken", "no permission", "usermod", "arc-a770-closed-linux",
     "arc-b580-linux"),
    ("visibility", "good", "no variable", "", "h200-linux", "hidden-gpu"),
    ("visibility", "warning", "hidden by CUDA_VISIBLE_DEVICES=1", "unset", "hidden-gpu",
     "h200-linux"),
    ("visibility", "warning", "CUDA_VISIBLE_DEVICES lists 0, which does not exist", "unset",
     "cpu-node-cuda-visible", "no-gpu"),
    ("torch", "good", "not installed", "anyrig[torch]", "core-ultra-linux", "h200-linux"),
    ("torch", "broken", "built for the CPU only", "cu130", "rtx5090-cpu-torch-windows",
     "h200-linux"),
    ("torch", "good", "CUDA 13.0", "", "h200-linux", "rtx5090-cpu-torch-windows"),
    ("onnx", "broken", "no onnxruntime package", "pip install", "freebsd", "no-gpu"),
    ("onnx", "warning", "no provider", "onnxruntime-gpu", "h200-linux", "rtx4070-laptop-docker"),
    ("onnx", "good", "CUDAExecutionProvider", "", "rtx4070-laptop-docker", "h200-linux"),
    ("onnx-conflict", "broken", "overwrite", "uninstall", "core-ultra-linux", "no-gpu"),
    ("onnx-conflict", "good", "one ONNX Runtime", "", "no-gpu", "core-ultra-linux"),
    ("obsolete-packages", "warning", "pynvml", "nvidia-ml-py", "low-disk", "h200-linux"),
    ("obsolete-packages", "warning", "intel-extension", "uninstall", "arc-a770-closed-linux",
     "arc-b580-linux"),
    ("flash-attention", "good", "in torch's SDPA", '"9.0"', "h200-linux", "t4-linux"),
    ("flash-attention", "warning", "2.8.3 has no kernels for 7.5", "", "t4-linux", "low-disk"),
    ("torch-kernels", "broken", "gfx1031", "HSA_OVERRIDE_GFX_VERSION=10.3.0",
     "rx6700xt-no-kfd-linux", "mi300x-linux"),
    ("flash-attention", "good", "2.8.3.post1", '"12.0"', "rtx4090-rtxpro6000-wsl2", "h200-linux"),
    ("flash-attention", "good", "no FlashAttention", "", "gtx1080ti-linux", "h200-linux"),
    ("bf16", "good", "natively", "", "h200-linux", "t4-linux"),
    ("bf16", "warning", "emulates bf16, whatever torch reports: use fp16", "", "t4-linux",
     "h200-linux"),
    ("bf16", "warning", "use fp32", "", "gtx1080ti-linux", "h200-linux"),
    ("bf16", "good", "unknown", "", "macbook-m4", "h200-linux"),
    ("allocator", "good", "valid", "", "h200-linux", "hidden-gpu"),
    ("allocator", "warning", "the first wins", "unset", "hidden-gpu", "h200-linux"),
    ("allocator", "warning", "CUDA_LAUNCH_BLOCKING", "unset", "a10-docker-utility", "h200-linux"),
    ("wsl", "warning", "no GPU in WSL2", "wsl --update", "wsl2-no-gpu", "amd-wsl2"),
    ("nvidia-parts", "warning", "next GPU reset", "gpu-reset", "a100-mig-empty", "h100x8-mig"),
    ("intel-access", "warning", "/dev/dri is not mapped", "--device /dev/dri",
     "rtx4070-laptop-docker", "arc-b580-linux"),
    ("amd-access", "broken", "/dev/kfd does not exist", "modprobe", "rx6700xt-no-kfd-linux",
     "rx6700xt-linux"),
    ("obsolete-packages", "warning", "torch-directml 0.2.5.dev240914 keeps torch at 2.4.1",
     "uninstall", "rtx3060-pair-windows", "rtx5090-cpu-torch-windows"),
    ("usable", "broken", "ROCm in WSL2 requires librocdxg", "troubleshooting", "amd-wsl2",
     "mi300x-linux"),
    ("usable", "warning", "no GPU can be used", "anyrig[webgpu]", "rx640-uhd750-windows",
     "vega8-directml-windows"),
    ("wsl", "warning", "several GPUs", "wsl --install", "rtx3060-pair-windows",
     "rtx5090-cpu-torch-windows"),
    ("wsl", "good", "FlashAttention", "wsl --install", "rtx5090-cpu-torch-windows",
     "rx7900xtx-windows"),
    ("flash-attention", "good", "flash-attn 2.8.3 is installed", "", "low-disk", "h200-linux"),
    ("torch", "warning", "built for the CPU only", "", "rx640-uhd750-windows", "h200-linux"),
    ("allocator", "warning", "expandable_segments", "Remove-Item", "rtx5090-cpu-torch-windows",
     "h200-linux"),
    ("allocator", "warning", "TORCH_CUDNN_V8", "unset", "a10-docker-utility", "h200-linux"),
    ("allocator", "warning", "CACHING", "unset", "a10-docker-utility", "h200-linux"),
    ("platform", "broken", "Rosetta translation", "aarch64", "macbook-m1-rosetta",
     "macbook-intel"),
    ("sysmem-fallback", "warning", "spills", "Sysmem", "rtx4090-rtxpro6000-wsl2", "h200-linux"),
]  # fmt: skip


def _found(
    here: Machine,
    check: str,
    state: str,
    message: str,
    fix: str,
    results: tuple[KernelResult, ...] = (),
) -> list[Finding]:
    return [
        finding
        for finding in diagnose(here, results)
        if (finding.check, finding.state) == (check, state)
        and message in finding.message
        and fix in finding.fix
    ]


def test_findings(machine: Load, subtests: pytest.Subtests) -> None:
    for row in FINDINGS:
        with subtests.test(row=row):
            check, state, message, fix, has, has_not = row
            assert _found(machine(has), check, state, message, fix)
            assert not _found(machine(has_not), check, state, message, fix)


def test_every_check_is_in_the_table(machine: Load) -> None:
    checks = {finding.check for name in NAMES for finding in diagnose(machine(name))}
    assert checks == {row[0] for row in FINDINGS}


def test_broken_findings_have_a_fix(machine: Load, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            for finding in diagnose(machine(name)):
                assert "\n" not in finding.message + finding.fix
                assert finding.message
                if finding.state == "broken":
                    assert finding.fix, finding


# -- kernels --------------------------------------------------------------------------------------


def _result(here: Machine, **answer: object) -> tuple[KernelResult, ...]:
    values: dict[str, object] = {"ok": True, "max_error": 3e-7, "ran_on": "cuda:0", **answer}
    return (KernelResult(backend="torch", device=here.gpus[0].id, **values),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ({}, "good", "agrees with the CPU"),
        ({"max_error": 0.12}, "broken", "wrong results: a matrix product differs"),
        ({"max_error": None, "finite": False}, "broken", "contains NaN"),
        ({"ok": False, "error": "CUDA error: no kernel image"}, "broken", "no kernel image"),
        ({"ran_on": "cpu"}, "broken", "silently fell back to the CPU"),
    ],
)
def test_kernels(machine: Load, answer: dict[str, object], state: str, words: str) -> None:
    here = machine("h200-linux")
    assert _found(here, "kernel", state, words, "", _result(here, **answer))
    assert not _found(here, "kernel", state, words, "")


# -- advice ----------------------------------------------------------------------------------------


def _changed(name: str, **packages: str | None) -> Machine:
    """A recorded machine with other packages."""
    record = record_of(name)
    for package, version in packages.items():
        record["packages"].pop(package.replace("_", "-"), None)
        if version is not None:
            record["packages"][package.replace("_", "-")] = version
    return from_record(record)


def test_fix_matches_the_finding(machine: Load, subtests: pytest.Subtests) -> None:
    """The fix of a finding mends what the finding says, whatever else is amiss."""
    for name in NAMES:
        with subtests.test(name=name):
            for finding in diagnose(machine(name)):
                if finding.check in ("torch-kernels", "torch", "cuda-runtime"):
                    for word in ("modprobe", "usermod", "docker run", "apt install"):
                        assert word not in finding.fix, finding


def test_unusable_gpu_is_always_reported(machine: Load, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            on_purpose = (ReasonCode.HIDDEN, ReasonCode.MIG_PARENT, ReasonCode.PASSED_THROUGH)
            mine = [
                g
                for g in here.gpus
                if not g.hardware_block or g.hardware_block.code not in on_purpose
            ]
            if not mine or any(gpu.usable for gpu in here.gpus):
                continue
            told = [f for f in diagnose(here) if f.state == "broken" or f.check == "usable"]
            assert told
            assert any(f.fix for f in told)


@pytest.mark.parametrize(
    ("name", "code", "last"),
    [
        ("amd-wsl2", 1, "1 thing broken"), ("rx640-uhd750-windows", 0, "No GPU can be used"),
        ("h200-linux", 0, "Nothing is broken"), ("no-gpu", 0, "No problems found"),
    ],
)  # fmt: skip
def test_doctor_summary_line(
    capsys: pytest.CaptureFixture[str], name: str, code: int, last: str
) -> None:
    assert main(["doctor", "--machine", str(MACHINES / f"{name}.json")]) == code
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("name", "package", "version", "state"),
    [
        ("h200-linux", "flash_attn", "2.8.3", "good"),
        ("h200-linux", "flash_attn_3", "3.0.0b1", "good"),
        ("rtx4090-rtxpro6000-wsl2", "flash_attn", "2.8.3.post2", "good"),
        ("rtx4090-rtxpro6000-wsl2", "flash_attn", "2.8.3", "warning"),
        ("mi300x-linux", "flash_attn", "2.8.3", "good"),
        ("rx6700xt-linux", "flash_attn", "2.8.3", "warning"),
        ("t4-linux", "flash_attn_4", "4.0.0b36", "warning"),
    ],
)
def test_installed_flash_attention_is_reported(
    name: str, package: str, version: str, state: str
) -> None:
    title = f"{package.replace('_', '-')} {version}"
    here = _changed(name, **{"flash_attn": None, package: version})
    found = [f for f in diagnose(here) if f.check == "flash-attention" and title in f.message]
    assert found
    if state == "warning":
        assert any(f.state == "warning" and "has no kernels" in f.message for f in found)
    else:
        assert all(f.state == "good" and "is installed" in f.message for f in found)
        assert not any("pip install flash-attn" in f.fix for f in found)


@pytest.mark.parametrize("name", ["rtx5090-cpu-torch-windows", "rtx3060-pair-windows"])
def test_wsl2_is_advised_for_nvidia_on_windows(machine: Load, name: str) -> None:
    found = diagnose(machine(name))
    told = [f for f in found if f.check == "wsl"]
    assert len(told) == 1
    assert "WSL2" in told[0].message
    assert "NCCL" in told[0].message
    # The build of flash-attn is for Linux: no such line on Windows.
    flash = [f for f in found if f.check == "flash-attention" and "NVIDIA" in f.message]
    assert flash
    assert all("WSL2" in f.message and "TORCH_CUDA_ARCH_LIST" not in f.fix for f in flash)


@pytest.mark.parametrize("name", ["rx7900xtx-linux", "arc-a770-closed-linux"])
def test_one_problem_has_one_fix(machine: Load, name: str) -> None:
    """The doctor and the list of devices advise the same."""
    here = machine(name)
    blocks = [b.blocked for g in here.gpus for b in g.backends if b.blocked]
    reasons = {(r.message, r.fix) for r in blocks if r.code is ReasonCode.NO_PERMISSION}
    found = {(f.message, f.fix) for f in diagnose(here) if f.check.endswith("-access")}
    assert reasons
    assert reasons <= found


def test_a_kernel_that_fails_on_a_card_of_one_process(machine: Load) -> None:
    error = "CUDA error: all CUDA-capable devices are busy or unavailable"
    for name, expected in (("k80-exclusive-linux", True), ("h200-linux", False)):
        here = machine(name)
        found = diagnose(here, _result(here, ok=False, error=error))
        (finding,) = [one for one in found if one.check == "kernel"]
        assert finding.state == "broken"
        assert ("another process may be using it" in finding.message) is expected
