"""A fake of the module `pynvml`: the calls that the reader makes, with settable answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NOT_FOUND, LOST, UNKNOWN = 3, 6, 15, 999
_WORDS = {3: "Not Supported", 6: "Not Found", 15: "GPU is lost", 999: "Unknown Error"}
GIB = 1024**3
# Numbers of nvmlDeviceGetFieldValues.
MEMORY_TEMPERATURE, POWER, ECC, TX, RX = 82, 185, 4, 197, 198
_PLAIN_ANSWERS = {
    "nvmlInit": None, "nvmlDeviceGetHandleByPciBusId": "h0", "nvmlDeviceGetTemperature": 54,
    "nvmlDeviceGetPowerUsage": 399_000, "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetCurrPcieLinkGeneration": 4, "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 8, "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetEncoderUtilization": [3, 100], "nvmlDeviceGetDecoderUtilization": [0, 100],
    "nvmlDeviceGetPcieThroughput": 2048, "nvmlDeviceGetGraphicsRunningProcesses": [],
}  # fmt: skip


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_WORDS[value])
        self.value = value


class FakeNvml:
    """One GPU, and perhaps a MIG instance; `errors` maps calls that fail to their error codes."""

    NVMLError = NVMLError

    def __init__(self, uuid: str = "GPU-1", mig: str = "") -> None:
        self.uuids = {uuid: "h0", **({mig: "h1"} if mig else {})}
        self.errors: dict[str, int] = {"nvmlDeviceGetFanSpeed": NOT_SUPPORTED}
        self.calls: list[str] = []
        self.used = 10 * GIB
        self.reasons = 0x4 | 0x20
        self.fields = {MEMORY_TEMPERATURE: 61, POWER: 412_000, ECC: 0, TX: 0, RX: 0}
        self.processes: list[tuple[int, int | None]] = []
        self.busy: list[tuple[int, int]] = []
        self.shutdowns = 0

    def nvmlShutdown(self) -> None:
        self.shutdowns += 1

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            code = self.errors.get(name, self.errors.get("*"))
            if code is not None:
                raise NVMLError(code)
            if name in _PLAIN_ANSWERS:
                return _PLAIN_ANSWERS[name]
            return getattr(self, f"_{name.removeprefix('nvmlDeviceGet')}")(*arguments)

        return call

    def _HandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids:
            raise NVMLError(NOT_FOUND)
        return self.uuids[uuid]

    def _MemoryInfo(self, handle: str) -> Any:
        total = 140 * GIB if handle == "h0" else 10 * GIB
        return SimpleNamespace(total=total, used=self.used, free=total - self.used)

    def _UtilizationRates(self, handle: str) -> Any:
        if handle == "h1":
            raise NVMLError(NOT_SUPPORTED)  # an instance has no load
        return SimpleNamespace(gpu=62, memory=31)

    def _FieldValues(self, handle: str, numbers: list[int]) -> list[Any]:
        found = []
        for number in numbers:
            value = self.fields.get(number)
            union = SimpleNamespace(ullVal=value or 0, uiVal=value or 0)
            code = NOT_SUPPORTED if value is None else 0
            wide = 3 if number in (TX, RX) else 1
            found.append(SimpleNamespace(nvmlReturn=code, valueType=wide, value=union))
        return found

    def _ComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.processes]

    def _ProcessUtilization(self, handle: str, since: int) -> list[Any]:
        if not self.busy:
            raise NVMLError(NOT_FOUND)
        return [
            SimpleNamespace(pid=pid, smUtil=share, timeStamp=number + 1)
            for number, (pid, share) in enumerate(self.busy)
        ]

    def _CurrentClocksEventReasons(self, handle: str) -> int:
        return self.reasons

    def _ClockInfo(self, handle: str, kind: int) -> int:
        return {1: 1755, 2: 3201}[kind]

    def _MaxClockInfo(self, handle: str, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]
