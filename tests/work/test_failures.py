"""Items that kill and devices that die are told apart."""

from __future__ import annotations

from anyrig.work.failures import FORGIVE_AFTER, FailureTracker


def test_an_item_that_kills_three_is_guilty_and_its_devices_are_forgiven() -> None:
    tracker = FailureTracker()
    for device in ("a", "a", "b"):
        assert not tracker.is_poison(7)
        tracker.record_crash(device, [7])
    assert tracker.is_poison(7)
    assert tracker.is_suspended("a")
    assert tracker.forgive_devices(7) == ["a"]
    assert not tracker.is_suspended("a")


def test_a_device_that_dies_twice_with_different_items_is_out() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [1, 2])
    tracker.record_crash("a", [3])
    assert tracker.is_suspended("a")
    assert not tracker.is_suspended("b")
    tracker.record_success(1, "b")
    assert tracker.forgive_devices(2) == ["a"]


def test_a_suspect_is_kept_from_the_device_it_died_on_twice() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [1])
    assert tracker.device_to_avoid(1) == ""
    tracker.record_crash("a", [1])
    assert tracker.device_to_avoid(1) == "a"
    assert tracker.device_to_avoid(2) == ""


def test_a_death_while_loading_counts_for_the_device_alone() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [])
    tracker.record_crash("a", [])
    assert tracker.is_suspended("a")
    assert not tracker.is_hopeless("a")
    for _ in range(4):
        tracker.record_crash("a", [])
    assert tracker.is_hopeless("a")
    tracker.record_success(1, "a")
    assert not tracker.is_hopeless("a")


def test_a_death_is_forgiven_after_much_good_work() -> None:
    tracker = FailureTracker()
    for week in range(3):  # in a pool that lives for weeks
        tracker.record_crash("a", [week])
        assert not tracker.is_suspended("a")
        for item in range(100, 100 + FORGIVE_AFTER):
            tracker.record_success(item, "a")
    tracker.record_crash("a", [1])
    for item in range(FORGIVE_AFTER - 1):  # not quite enough
        tracker.record_success(100 + item, "a")
        tracker.record_success(100 + item, "b")
    tracker.record_crash("a", [2])
    assert tracker.is_suspended("a")
    assert tracker.forgive_devices(2) == ["a"]
