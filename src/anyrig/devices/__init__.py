"""What hardware is here, what can drive it, and which is chosen. No framework is imported."""

from anyrig.devices.describe import Device, Machine
from anyrig.devices.discover import discover

__all__ = ["Device", "Machine", "discover"]
