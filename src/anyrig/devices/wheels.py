"""Which machine code the official wheels of torch and ONNX Runtime carry, by version.

For the wheels of the Python index the lists were read out of the wheels themselves (the flags that
torch.cuda.get_arch_list() returns; the fat binaries of ONNX Runtime's CUDA provider) for torch 2.0
to 2.15 and onnxruntime-gpu 1.21 to 1.31; for torch's other CUDA and ROCm flavours from its build
scripts and release matrix. Release wheels carry no PTX, so nothing runs on a later major version. A
build that is not here is unknown: doctor asks the library itself.
"""

from __future__ import annotations

Version = tuple[int, int]

# First CUDA version and torch version of a row, to what Linux x86_64 wheels hold.
_MAXWELL_ON = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
_VOLTA_ON = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_TURING_ON = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_LINUX: tuple[tuple[Version, Version, Version, str], ...] = (
    # CUDA, first torch, last torch, kernels
    ((11, 7), (2, 0), (2, 0), "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"),
    ((11, 8), (2, 0), (2, 7), f"sm_37 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), _MAXWELL_ON),
    ((12, 4), (2, 4), (2, 6), _MAXWELL_ON),
    ((12, 6), (2, 6), (2, 14), _MAXWELL_ON),
    ((12, 8), (2, 7), (2, 7), _TURING_ON),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((12, 9), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 9), (2, 11), (2, 13), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
_ARM: tuple[tuple[Version, Version, Version, str], ...] = (
    ((12, 6), (2, 9), (2, 14), "sm_80 sm_90"),
    ((12, 8), (2, 7), (2, 7), "sm_90 sm_100 sm_120"),
    ((12, 8), (2, 9), (2, 11), "sm_80 sm_90 sm_100 sm_120"),
    ((12, 9), (2, 8), (2, 13), "sm_80 sm_90 sm_100 sm_120"),
    ((13, 0), (2, 9), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
    ((13, 2), (2, 12), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
)
_WINDOWS: tuple[tuple[Version, Version, Version, str], ...] = (
    ((11, 8), (2, 0), (2, 7), f"sm_37 sm_61 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), f"sm_61 {_MAXWELL_ON}"),
    ((12, 4), (2, 4), (2, 6), f"sm_61 {_MAXWELL_ON}"),
    ((12, 6), (2, 6), (2, 14), f"sm_61 {_MAXWELL_ON}"),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
_ROCM: tuple[tuple[Version, str], ...] = (
    # from this ROCm on; the last row that is not newer holds
    ((5, 4), "gfx900 gfx906 gfx908 gfx90a gfx1030"),
    ((5, 7), "gfx900 gfx906 gfx908 gfx90a gfx1030 gfx1100"),
    ((6, 0), "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100"),
    ((6, 3), "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1102 gfx1200 gfx1201"),
    (
        (7, 0),
        "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1150 gfx1151 "
        "gfx1200 gfx1201",
    ),
    (
        (7, 14),
        "gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 "
        "gfx1200 gfx1201",
    ),
)
# onnxruntime-gpu from this version on: CUDA, then kernels on Linux x86_64, Windows, Linux aarch64.
_ONNX_GPU: tuple[tuple[Version, str, str, str, str], ...] = (
    ((1, 18), "11.8", "", "", ""),
    ((1, 19), "12.2", "", "", ""),
    ((1, 21), "12.2", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 24), "12.8", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 27), "13.0", "", "", ""),
    ((1, 29), "13.0", "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120",
     "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120", "sm_89 sm_90 sm_120 sm_121"),
)  # fmt: skip
NEWEST_TORCH = (2, 15)
NEWEST_ONNX = (1, 31)


def version(text: str) -> Version | None:
    """The first two numbers of a version."""
    numbers = text.partition("+")[0].split(".")[:2]
    if len(numbers) < 2 or not all(number.isdigit() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def cuda_kernels(torch: str, cuda: str, *, arm: bool, windows: bool) -> tuple[str, ...] | None:
    """The sm_ names in torch's wheel of that version and CUDA; None where nobody read it."""
    built, runtime = version(torch), version(cuda)
    table = _ARM if arm else _WINDOWS if windows else _LINUX
    for row_cuda, first, last, kernels in table:
        if runtime == row_cuda and built is not None and first <= built <= last:
            return tuple(sorted(kernels.split(), key=lambda name: int(name[3:])))
    return None


def rocm_targets(rocm: str) -> tuple[str, ...] | None:
    """The gfx targets in torch's Linux wheel for that ROCm."""
    runtime = version(rocm)
    rows = [kernels for first, kernels in _ROCM if runtime is not None and first <= runtime]
    if not rows or (runtime and runtime > _ROCM[-1][0]):
        return None
    return tuple(rows[-1].split())


def onnx_gpu(onnxruntime: str, *, arm: bool, windows: bool) -> tuple[str, tuple[str, ...] | None]:
    """The CUDA that onnxruntime-gpu needs, and its kernels where they were read."""
    built = version(onnxruntime)
    rows = [row for row in _ONNX_GPU if built is not None and row[0] <= built]
    if not rows or built is None or built > NEWEST_ONNX:
        return "", None
    _, cuda, on_linux, on_windows, on_arm = rows[-1]
    kernels = on_arm if arm else on_windows if windows else on_linux
    return cuda, tuple(kernels.split()) or None
