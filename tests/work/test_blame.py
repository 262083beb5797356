"""Items that kill and devices that die are told apart."""

from __future__ import annotations

from anyrig.work.blame import FORGIVEN, Ledger


def test_an_item_that_kills_three_is_guilty_and_its_devices_are_forgiven() -> None:
    ledger = Ledger()
    for device in ("a", "a", "b"):
        assert not ledger.guilty(7)
        ledger.died(device, [7])
    assert ledger.guilty(7)
    assert ledger.out("a")
    assert ledger.convict(7) == ["a"]
    assert not ledger.out("a")


def test_a_device_that_dies_twice_with_different_items_is_out() -> None:
    ledger = Ledger()
    ledger.died("a", [1, 2])
    ledger.died("a", [3])
    assert ledger.out("a")
    assert not ledger.out("b")
    ledger.acquit(1, "b")
    assert ledger.convict(2) == ["a"]


def test_a_suspect_is_kept_from_the_device_it_died_on_twice() -> None:
    ledger = Ledger()
    ledger.died("a", [1])
    assert ledger.avoid(1) == ""
    ledger.died("a", [1])
    assert ledger.avoid(1) == "a"
    assert ledger.avoid(2) == ""


def test_a_death_while_loading_counts_for_the_device_alone() -> None:
    ledger = Ledger()
    ledger.died("a", [])
    ledger.died("a", [])
    assert ledger.out("a")
    assert not ledger.hopeless("a")
    for _ in range(4):
        ledger.died("a", [])
    assert ledger.hopeless("a")
    ledger.acquit(1, "a")
    assert not ledger.hopeless("a")


def test_a_death_is_forgiven_after_much_good_work() -> None:
    ledger = Ledger()
    for week in range(3):  # in a pool that lives for weeks
        ledger.died("a", [week])
        assert not ledger.out("a")
        for item in range(100, 100 + FORGIVEN):
            ledger.acquit(item, "a")
    ledger.died("a", [1])
    for item in range(FORGIVEN - 1):  # not quite enough
        ledger.acquit(100 + item, "a")
        ledger.acquit(100 + item, "b")
    ledger.died("a", [2])
    assert ledger.out("a")
    assert ledger.convict(2) == ["a"]
