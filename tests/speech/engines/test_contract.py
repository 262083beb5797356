"""The engines whose weights come from packages keep the contract.

The others keep it in files of their own, on small models that those make.
"""

from __future__ import annotations

import pytest

from anyrig.devices.discovery import discover
from anyrig.placement import Placement
from anyrig.speech import contract, engines

READY = ("hibari", "piper", "nanotts", "tone")
_subjects: dict[str, contract.Subject] = {}


def cpu(backends: tuple[str, ...]) -> Placement:
    """One thread of this machine's CPU, through the first of these backends that is here."""
    device = discover().cpu_device
    usable = {backend.library: backend for backend in device.backends if backend.usable}
    backend = next(usable[backend] for backend in backends if backend in usable)
    return Placement(device, backend, threads=1)


def subject(name: str) -> contract.Subject:
    """An engine, loaded once for all checks."""
    if name not in _subjects:
        engine = engines.engine_class(name)
        _subjects[name] = contract.Subject(engine, cpu(engine.info.libraries))
    return _subjects[name]


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", READY)
def test_the_contract(name: str, check: contract.Check) -> None:
    check(subject(name))
