"""Live figures of every device: sampled, kept for a while, watched and reported.

`with Monitor(machine) as monitor:` samples in the background; `NullMonitor` has the same face and
does nothing. No framework is loaded: its own figures come in through a callable, where it runs.
"""

from anyrig.monitor.sample import HostSample, Sample, Snapshot
from anyrig.monitor.watch import Monitor, NullMonitor

__all__ = ["HostSample", "Monitor", "NullMonitor", "Sample", "Snapshot"]
