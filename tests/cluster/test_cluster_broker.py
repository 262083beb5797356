"""An address of a broker, and patience with one that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from anyrig.cluster import token
from anyrig.cluster.broker import BrokerClient, find_url, mask_password, normalize_url
from anyrig.errors import BrokerUnavailableError, InvalidInputError
from tests.cluster.conftest import Broker


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ("host", "redis://host:6379/0"), (" redis://host ", "redis://host:6379/0"),
        ("redis://host:1/", "redis://host:1/0"), ("host:7000/2", "redis://host:7000/2"),
        ("rediss://:pw@host:6380/3", "rediss://:pw@host:6380/3"),
        ("redis://[::1]", "redis://[::1]:6379/0"),
    ],
)  # fmt: skip
def test_an_address_has_one_form(given: str, whole: str) -> None:
    assert normalize_url(given) == whole
    assert normalize_url(whole) == whole


@pytest.mark.parametrize(
    "given", ["", "http://host", "unix:///run/x.sock", "redis://", "redis://host/x", "host:port"]
)
def test_what_is_no_address_is_refused_without_its_password(given: str) -> None:
    with pytest.raises(InvalidInputError):
        normalize_url(given)
    with pytest.raises(InvalidInputError) as told:
        normalize_url("amqp://user:secret@host")
    assert "secret" not in told.value.message


def test_a_password_is_never_shown() -> None:
    assert mask_password("redis://:secret@host:1/0") == "redis://:***@host:1/0"
    assert mask_password("redis://me:secret@host:1/0") == "redis://me:***@host:1/0"


def test_a_call_waits_for_a_broker_that_is_away(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker()
    with closing(BrokerClient(broker.url)) as client:
        client.redis.set("x", "1", ex=60)
        broker.stop(kill=True)
        back = threading.Timer(0.6, broker.start)
        back.start()
        assert client.retry(lambda: client.redis.set("x", "2", ex=60))
        back.join()  # the fixture must not end a broker that is still starting


def test_a_broker_is_not_waited_for_for_ever(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker()
    broker.stop(kill=True)
    with closing(BrokerClient(broker.url)) as client:
        with pytest.raises(BrokerUnavailableError, match="has been unavailable") as told:
            client.retry(client.redis.ping, timeout_s=0.5)
        assert told.value.hint
        with pytest.raises(BrokerUnavailableError, match="does not respond"):
            client.check()


def test_a_broker_whose_disk_is_full_is_waited_for_and_other_refusals_are_not() -> None:
    from redis.exceptions import ResponseError

    said = ["MISCONF Errors writing to the AOF file: No space left on device"] * 2

    def write() -> str:
        if said:
            raise ResponseError(said.pop())
        return "done"

    client = BrokerClient("redis://127.0.0.1:1/0")
    assert client.retry(write) == "done"
    said.append("WRONGTYPE Operation against a key")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        client.retry(write)


def test_a_machine_whose_name_is_too_long_is_none_and_may_be_a_part_of_a_token() -> None:
    whole = token.Token("redis://:secret@host:6379/0").text
    with pytest.raises(InvalidInputError) as told:
        normalize_url(whole[1:])
    assert whole[5:25] not in told.value.message
    assert normalize_url(f"anyrig worker --join {whole}") == "redis://:secret@host:6379/0"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"COORDINATOR_IP": "10.0.0.5"}, "redis://10.0.0.5:6379/0"),
        ({"COORDINATOR_IP": "10.0.0.5:7379"}, "redis://10.0.0.5:7379/0"),
        ({"COORDINATOR_IP": "fd00::5"}, "redis://[fd00::5]:6379/0"),
        ({"COORDINATOR_IP": "h", "REDIS_PASSWORD": "a/b"}, "redis://:a%2Fb@h:6379/0"),
        ({"COORDINATOR_IP": "rediss://h:1/0"}, "rediss://h:1/0"),
        ({"COORDINATOR_IP": "h", "REDIS_URL": "redis://other:1/0"}, "redis://other:1/0"),
        ({}, "redis://127.0.0.1:6379/0"),
    ],
)
def test_the_variables_that_operators_know(given: dict[str, str], url: str) -> None:
    assert find_url(given) == url
