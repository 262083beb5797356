"""The store that several machines share, where the settings name one: opened, and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.show import print_warning
from anyrig.errors import StorageError
from anyrig.units import format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.storage.cache import ResultCache
    from anyrig.storage.redis import LayeredCache


def open_results(context: Context) -> ResultCache | LayeredCache:
    """Where this user's results are kept: on this machine, and on the shared server if any."""
    from anyrig.cli.cache import open_store

    url = context.loaded.settings.cache.url
    if not url:
        return open_store(context)
    from anyrig.storage.redis import LayeredCache, RedisCache

    far = RedisCache(url)  # first: an address that is none opens nothing
    store = LayeredCache(open_store(context), far)
    failed = store.check_shared()
    if failed is not None:
        print_warning(f"results are not shared: {failed.message}. {failed.hint}")
    return store


def shared(context: Context) -> dict[str, Any] | None:
    """What the shared server says of itself, or why it does not; None where there is none."""
    url = context.loaded.settings.cache.url
    if not url:
        return None
    from anyrig.storage.redis import RedisCache

    with RedisCache(url) as store:
        try:
            size = store.stats()
        except StorageError as error:
            return {"place": store.address, "error": error.message, "hint": error.hint}
    return {
        "place": store.address, "results": size.num_results, "used_bytes": size.used_bytes,
        "limit_bytes": size.limit_bytes, "policy": size.policy, "version": size.version,
    }  # fmt: skip


def shared_text(told: dict[str, Any]) -> str:
    """The same in a line for a person, of a server that answered."""
    count = pluralize(told["results"], "result").replace(
        str(told["results"]), f"{told['results']:,}"
    )
    limit = (
        f" of {format_bytes(told['limit_bytes'])}" if told["limit_bytes"] else ", without a limit"
    )
    full = f" ({told['policy']})" if told["limit_bytes"] else ""
    used = f"{format_bytes(told['used_bytes'])} of memory{limit}{full}"
    return f"Shared through {told['place']}: {count}, {used}."
