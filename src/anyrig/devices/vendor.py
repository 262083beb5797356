"""What the rest of anyrig asks about a vendor of GPUs: one subclass in each vendor's file.

`vendors.VENDORS` lists them. Nothing else names a vendor to decide something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anyrig.devices.findings import Findings
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    DeviceNote,
    Features,
    HostFacts,
    Machine,
    Memory,
    Platform,
    SourceReport,
    SystemName,
)
from anyrig.devices.pci import PciDevice
from anyrig.devices.probe import HostProbe


class VisibleOrder(NamedTuple):
    """How a library counts a vendor's devices."""

    library: str
    devices: Sequence[Device]
    visible: Sequence[Device]
    variables: tuple[str, ...] = ()
    """Those that are set and decide which devices are visible."""


class AdapterFacts(NamedTuple):
    """What a PCI number tells of a card that only DirectX lists."""

    architecture: str | None = None
    capability: str | None = None
    features: Features = Features()
    integrated: bool | None = None
    note: DeviceNote | None = None


class FlashAdvice(NamedTuple):
    """Which FlashAttention runs on a GPU."""

    text: str
    command: str = ""
    """Builds FlashAttention 2, if it runs."""


@dataclass(frozen=True)
class TorchWheel:
    """A build of torch that runs on a GPU."""

    flavour: str
    index: str = ""
    """The folder of torch's own index that has it; empty: the Python package index."""


class BackendSource:
    """Backends of a kind: what selects them, what they need, what the doctor says of them."""

    libraries: Mapping[str, str] = {}
    """Selectors, with what messages call such a device: `cuda` is a `CUDA device`."""
    synonyms: Mapping[str, str] = {}
    other_variables: tuple[str, ...] = ()
    """Variables that change how devices are found or used, but hide none."""
    packages: tuple[str, ...] = ()
    """Those that can use its devices, beside torch and ONNX Runtime."""
    onnx_packages: Mapping[str, tuple[str, ...]] = {}
    """Packages of ONNX Runtime with the providers that they add."""
    checks: Mapping[str, Callable[[Machine], Findings]] = {}
    """Of the doctor, by name; sources may share a name."""
    explaining_checks: tuple[str, ...] = ()
    """Those whose findings say why a GPU cannot be used."""
    obsolete_packages: Mapping[str, tuple[str, str]] = {}
    """Packages that should go: why, and the command."""

    def read_facts(self, system: HostProbe) -> Mapping[str, str]:
        """Facts about the host that decide which backends can use a device."""
        return {}

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        """The backends of a GPU, usable or not."""
        return []


class Vendor(BackendSource):
    """A vendor without devices or tools of its own: what the subclasses leave out."""

    name: str = "unknown"
    """Selects its GPUs: `amd`."""
    title: str = ""

    # -- discovery
    pci_vendors: tuple[int, ...] = ()
    makes_accelerators = False
    """Whether a PCI device of the class "processing accelerator" is one of its GPUs."""
    found_on: tuple[SystemName, ...] = ()
    """The systems where `find_devices` finds its GPUs; DirectX lists them on others."""
    device_nodes: tuple[str, ...] = ()
    """Device files that its driver makes, beside the render nodes."""
    needs_render_node = False
    """Whether every library opens the render nodes to use its GPUs."""

    # -- selectors and variables
    borrowed_libraries: Mapping[str, str] = {}
    """Another vendor's selector that users also type for its GPUs, and the one it means."""
    visibility_variables: tuple[str, ...] = ()
    """Those that hide its GPUs."""

    # -- torch
    torch_flavour = ""
    """What its builds of torch are called: `cuda`."""
    torch_title = ""
    torch_device = ""
    """What torch calls a GPU of its that is the only one visible: `cuda:0`."""
    torch_tag: re.Pattern[str] | None = None
    """The local version of its official wheels: `+cu130`."""
    allocator_variables: tuple[str, ...] = ()
    """Of torch's allocator: those that its builds of torch read."""

    wsl_advice = ""
    """What its GPUs need in WSL2."""

    def find_devices(
        self,
        system: HostProbe,
        pci_devices: tuple[PciDevice, ...],
        memory: Memory,
        platform: Platform,
    ) -> tuple[list[Device], SourceReport]:
        """Every GPU of the vendor, usable or not, and what its interface reported."""
        raise NotImplementedError

    def describe_adapter(self, pci_device: int) -> AdapterFacts:
        return AdapterFacts()

    def find_platform_problem(self, machine: Machine) -> tuple[str, str] | None:
        """Why anyrig's packages do not run on the vendor's platform, and what to do."""
        return None

    def find_order(self, devices: list[Device], environment: Mapping[str, str]) -> VisibleOrder:
        """The devices that variables leave visible, in the order of the vendor's main library."""
        return VisibleOrder("", devices, devices)

    def add_indices(self, devices: Sequence[Device]) -> Sequence[Device]:
        """The devices of all vendors, with the indices of the vendor's other libraries."""
        return devices

    def read_torch_runtime(self, facts: Mapping[str, str], tag: str, system: str) -> str | None:
        """The runtime that torch was built with, if it is a build for this vendor.

        Args:
            facts: names and values of torch's version.py.
            tag: its local version.
            system: `Linux`, `Windows` or `Darwin`.
        """
        return None

    def list_torch_kernels(
        self, torch: str, runtime: str, platform: Platform
    ) -> tuple[str, ...] | None:
        """The machine code in an official wheel of torch; None if unknown."""
        return None

    def find_torch_fix(self, device: Device, host: HostFacts) -> str:
        """What installs a torch for a GPU, or makes the installed one run; empty if none does."""
        return ""

    def find_torch_wheel(self, device: Device, host: HostFacts, torch: str) -> TorchWheel | None:
        """The build of a version of torch that runs on a GPU, whatever is installed."""
        return None

    def has_kernels(self, device: Device, kernels: tuple[str, ...] | None) -> bool:
        """Whether a build of torch runs on a GPU; one that is not listed may."""
        return True

    def describe_override(self, host: HostFacts) -> str:
        """A variable that makes a GPU run another's machine code: `NAME=value`."""
        return ""

    def advise_flash_attention(self, device: Device) -> FlashAdvice | None:
        return None

    def runs_flash_attention(self, device: Device, package: str, version: str) -> bool:
        return False
