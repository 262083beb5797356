"""NVIDIA's compute capabilities: architecture, features, and which machine code runs where.

Capabilities and names: NVIDIA's list of CUDA GPUs. fp16, TF32, bf16, FP8, FP4 by capability: CUDA
programming guide (arithmetic throughput, tensor-core input types). A capability that is not in the
table is described as unknown, not by its neighbours.
"""

from __future__ import annotations

from anyrig.devices.describe import Features

Capability = tuple[int, int]

_NONE = Features(fp16="none", tf32=False, bf16=False, fp8=False, fp4=False)
_SLOW = Features(fp16="slow", tf32=False, bf16=False, fp8=False, fp4=False)
_FAST = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_TENSOR = Features(fp16="matrix", tf32=False, bf16=False, fp8=False, fp4=False)
_AMPERE = Features(fp16="matrix", tf32=True, bf16=True, fp8=False, fp4=False)
_ADA = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=False)
_BLACKWELL = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=True)

_PARTS: dict[Capability, tuple[str, Features]] = {
    (3, 0): ("Kepler", _NONE),
    (3, 5): ("Kepler", _NONE),
    (3, 7): ("Kepler", _NONE),
    (5, 0): ("Maxwell", _NONE),
    (5, 2): ("Maxwell", _NONE),
    (5, 3): ("Maxwell", _FAST),
    (6, 0): ("Pascal", _FAST),
    (6, 1): ("Pascal", _SLOW),
    (6, 2): ("Pascal", _FAST),
    (7, 0): ("Volta", _TENSOR),
    (7, 2): ("Volta", _TENSOR),
    (7, 5): ("Turing", _TENSOR),
    (8, 0): ("Ampere", _AMPERE),
    (8, 6): ("Ampere", _AMPERE),
    (8, 7): ("Ampere", _AMPERE),
    (8, 9): ("Ada", _ADA),
    (9, 0): ("Hopper", _ADA),
    (10, 0): ("Blackwell", _BLACKWELL),
    (10, 1): ("Blackwell", _BLACKWELL),
    (10, 3): ("Blackwell Ultra", _BLACKWELL),
    (11, 0): ("Blackwell", _BLACKWELL),
    (12, 0): ("Blackwell", _BLACKWELL),
    (12, 1): ("Blackwell", _BLACKWELL),
}
_NO_TENSOR_CORES = (
    "GTX 16", "T400", "T500", "T550", "T600", "T1000", "T1200", "MX450", "MX550",
)  # fmt: skip
# Parts on a system-on-chip: their memory is the machine's.
INTEGRATED = frozenset({(3, 2), (5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
# Of these, the ones that share no machine code with the other parts of their major version.
_APART = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})
_RENAMED = ((10, 1), (11, 0))  # Thor: sm_101 in CUDA 12.9, sm_110 from 13 on
# pci.ids names the chip ("AD102 [GeForce RTX 4090]"); its letters tell the architecture of a card
# whose driver does not answer. GB10x and GB20x are both Blackwell, with unlike capabilities.
_CHIPS = {
    "GK": "Kepler", "GM": "Maxwell", "GP": "Pascal", "GV": "Volta", "TU": "Turing",
    "GA": "Ampere", "AD": "Ada", "GH": "Hopper", "GB": "Blackwell",
}  # fmt: skip


def describe(capability: Capability, name: str) -> tuple[str | None, Features]:
    """Architecture and features of a capability; nothing known of an unlisted one."""
    architecture, features = _PARTS.get(capability, (None, Features()))
    # The small Turing chips have no tensor cores; the capability alone does not tell.
    if capability == (7, 5) and any(part in name for part in _NO_TENSOR_CORES):
        features = _FAST
    return architecture, features


def architecture_of_chip(listed: str) -> str | None:
    """The architecture behind a chip's name in pci.ids."""
    return _CHIPS.get(listed[:2]) if listed[2:5].isalnum() and listed[2:3].isdigit() else None


def parse(text: str | None) -> Capability | None:
    """`8.9` as (8, 9)."""
    if not text or "." not in text:
        return None
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def runs(capability: Capability, kernels: tuple[str, ...]) -> bool:
    """Whether code for `kernels` (sm_86, compute_90) runs on a capability.

    Machine code runs on its own major version from its minor version up. Systems on a chip are
    apart: they run what was built for them and nothing else, and nothing else runs that (the table
    torch.cuda.DEVICE_REQUIREMENT). PTX (compute_) is compiled by the driver for anything newer.
    Suffixed code (sm_90a) runs on that one alone.
    """
    for kernel in kernels:
        form, _, number = kernel.partition("_")
        exact = number.rstrip("af") != number
        number = number.rstrip("af")
        if len(number) < 2 or not number.isdigit():
            continue
        built = (int(number[:-1]), int(number[-1]))
        if exact or form == "sm" and (built in _APART or capability in _APART):
            if built == capability or (built, capability) == _RENAMED:
                return True
        elif (
            form == "compute"
            and capability >= built
            or form == "sm"
            and capability[0] == built[0]
            and capability[1] >= built[1]
        ):
            return True
    return False
