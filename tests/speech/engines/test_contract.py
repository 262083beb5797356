"""Every engine that is ready on this machine keeps the contract."""

from __future__ import annotations

import pytest

from anyrig.devices.discover import discover
from anyrig.errors import MissingPackage
from anyrig.placement import Placement
from anyrig.speech import contract, engines

_subjects: dict[str, contract.Subject] = {}


def cpu(backends: tuple[str, ...]) -> Placement:
    """One thread of this machine's CPU, through the first of these backends that is here."""
    device = discover().cpu_device
    usable = {drive.backend: drive for drive in device.drives if drive.usable}
    drive = next(usable[backend] for backend in backends if backend in usable)
    return Placement(device, drive, threads=1)


def subject(name: str) -> contract.Subject:
    """An engine, loaded once for all checks."""
    if name not in _subjects:
        engine = engines.engine_class(name)
        try:
            engine.find()
        except MissingPackage as missing:
            pytest.skip(f"{name} is not ready: {missing.message}")
        _subjects[name] = contract.Subject(engine, cpu(engine.spec.backends))
    return _subjects[name]


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", list(engines.OWN))
def test_the_contract(name: str, check: contract.Check) -> None:
    check(subject(name))
