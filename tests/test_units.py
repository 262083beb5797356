from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrig.units import (
    format_bandwidth,
    format_bytes,
    format_download,
    format_duration,
    format_flops,
    format_speed,
    is_whole_number,
    normalize_pci_address,
    pluralize,
    shorten,
)


@pytest.mark.parametrize(
    ("count", "text"), [(300, "1 MB"), (89_298_636, "89 MB"), (5_041_000_000, "5.0 GB")]
)
def test_sizes_of_downloads(count: int, text: str) -> None:
    assert format_download(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (512 * 2**20, "512 MiB"),
        (25275125760, "23.5 GiB"), (24 * 2**30, "24 GiB"), (2**40 - 1, "1 TiB"),
        (150754820096, "140 GiB"), (5 * 2**50, "5120 TiB"),
    ],
)  # fmt: skip
def test_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(min_value=0, max_value=2**60))
def test_bytes_use_the_next_unit_instead_of_1024(count: int) -> None:
    number, unit = format_bytes(count).split()
    assert unit == "TiB" or float(number) < 1024


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.40 ms"), (0.42, "420 ms"), (3.21, "3.2 s"), (59.99, "1 min 00 s"),
     (245, "4 min 05 s"), (7800, "2 h 10 min"), (3599.7, "1 h 00 min")],
)  # fmt: skip
def test_seconds(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_rates() -> None:
    assert format_flops(788e12) == "788 TFLOP/s"
    assert format_flops(88.31e9) == "88.3 GFLOP/s"
    assert format_bandwidth(4.3e12) == "4.30 TB/s"
    assert format_bandwidth(18.24e9) == "18.2 GB/s"
    assert format_speed(88.2, 2.0) == "44.1 times real time"
    assert format_speed(0.4, 12.0) == "0.033 times real time"
    assert format_speed(0.4, 0.0) == "400.0 times real time"


def test_plural() -> None:
    assert (pluralize(1, "core"), pluralize(0, "core"), pluralize(4, "core")) == (
        "1 core", "0 cores", "4 cores",
    )  # fmt: skip


def test_whole_numbers() -> None:
    assert is_whole_number("12")
    assert not any(map(is_whole_number, ("", "-1", "1.0", "\u00b2", "\u0661")))


@pytest.mark.parametrize("address", ["00000000:01:00.0", "0000:01:00.0", "01:00.0", " 1:0.0 "])
def test_pci_addresses_have_one_form(address: str) -> None:
    assert normalize_pci_address(address) == "0000:01:00.0"


def test_other_text_is_no_pci_address() -> None:
    assert normalize_pci_address("GPU-1") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [("short", "short"), ("a  b\n c", "a b c"), ("1234567890", "1234567890"),
     ("The Adventures of", "The Adven…"), ("12345678 90", "12345678…")],
)  # fmt: skip
def test_what_is_cut_off_shows(text: str, shown: str) -> None:
    assert shorten(text, 10) == shown
