"""Monitor the devices and the host: load, memory, power, temperature, processes, alerts.

`with Monitor(machine) as monitor:` samples in the background. No framework is loaded.
"""

from anyrig.monitor.monitor import Monitor
from anyrig.monitor.sample import DeviceSample, HostSample, MachineSnapshot

__all__ = ["DeviceSample", "HostSample", "MachineSnapshot", "Monitor"]
