"""A worker's answers on their way: takes beside them in the broker, too large ones in the box."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.cluster.link import RESULT_S, SOUND
from anyrig.cluster.shard import MOST_BYTES
from anyrig.errors import AnyrigError
from anyrig.work.outcome import ItemFailure

if TYPE_CHECKING:
    from anyrig.cluster.link import Link
    from anyrig.cluster.shard import Answer, Order
    from anyrig.speech.booth import Recording


def packed(link: Link, answer: Answer) -> dict[str, Any]:
    """An answer as it travels; its takes lie in the broker before it does."""
    sound = answer.sound
    if sound:
        key = link.name(SOUND + answer.id)
        link.patiently(lambda: link.redis.set(key, sound, ex=RESULT_S))
    return answer.plain(apart=True)


def fitting(link: Link, own_key: str, order: Order, answer: Answer) -> Answer:
    """An answer that the broker takes: what is too much goes to the box, or is left.

    Args:
        link: to the broker.
        own_key: of the coordinator's box, where a token brought it.
        order: what is answered.
        answer: whole.
    """
    size = sum(len(one.data) for one in answer.recordings.values())
    if size <= MOST_BYTES:
        return answer
    if order.box and (key := _box_key(link, own_key, order.box)):
        from anyrig.cluster.box import put

        with suppress(AnyrigError):  # it does not answer: then less is answered at once
            return put(order.box, key, answer)
    kept: dict[int, Recording] = {}
    size = 0
    for index, one in answer.recordings.items():
        size += len(one.data)
        if size > MOST_BYTES:
            break
        kept[index] = one
    left = tuple(index for index in answer.recordings if index not in kept)
    if kept:
        return replace(answer, recordings=kept, left=(*answer.left, *left))
    said = "its take is too large to be sent"
    failures = {
        **answer.failures,
        left[0]: ItemFailure("error", said, 1, "Cut it into shorter ones."),
    }
    return replace(answer, recordings={}, failures=failures, left=(*answer.left, *left[1:]))


def _box_key(link: Link, own_key: str, box: str) -> str:
    """Of the box of an order; empty where that is not the coordinator's: nothing goes there."""
    from anyrig.cluster import notice

    with suppress(Exception):  # the broker is away: then less is answered at once
        told = notice.read(link)
        if told is not None and told.box == box:
            return own_key or told.box_key
    return ""
