"""What devices a machine has, which backends can use them, and which one to use.

No framework is imported.
"""

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discover import discover
from anyrig.devices.machine import Device, Machine

__all__ = ["Device", "DeviceRequest", "Machine", "choose_device", "discover"]
