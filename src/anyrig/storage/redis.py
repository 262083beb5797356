"""A cache in Redis or Valkey, so that several machines share what each of them computed.

    cache = LayeredCache(ResultCache(path), RedisCache("redis://:password@host:6379/0"))

How much is kept, and for how long, is the server's setting: with `maxmemory` and
`maxmemory-policy allkeys-lru` the least recently used results go when it is full. With the policy
`noeviction` it refuses new results once it is full, which is a `StorageError`. Nothing is pinned
for jobs there: a job has to cope with a result that is gone.

A result is one string under `anyrig:KEY`: a header, the checksum that `cache` also uses, kind and
metadata, the data. The checksum is checked whenever it is read: a result that does not match is
deleted and counts as missing, as does whatever else has such a name. A claim is a second string,
`anyrig:claim:KEY`, that expires by itself.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from anyrig.errors import (
    MORE_DETAILS,
    InvalidInputError,
    InvalidSettingError,
    MissingPackageError,
    StorageError,
)
from anyrig.install import format_install
from anyrig.storage.cache import (
    Cache,
    CacheEntry,
    Claim,
    EncodedEntry,
    PruneResult,
    ResultCache,
    check_entry,
    encode_entry,
)
from anyrig.storage.keys import JsonValue, to_canonical_json

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_S = 30.0
"""How long a shared cache that failed is not asked."""
_SCHEMES = ("redis", "rediss", "unix")
_MAGIC = b"anyrig1\n"
_HEADER = struct.Struct("<8s32sdHI")
"""Magic, checksum, when it was cached, bytes of the kind and of the metadata."""
_GET_BATCH = 256
_SEND_BATCH, _SEND_BYTES = 1000, 8 << 20
_MAX_CONNECTIONS = 16
# Deletes a claim only where it is still the caller's own: after it expired it may be another's.
_RELEASE_SCRIPT = """
for _, name in ipairs(KEYS) do
  if redis.call('GET', name) == ARGV[1] then redis.call('DEL', name) end
end"""
# Deletes a damaged result only where another has not replaced it meanwhile.
_DELETE_SAME_SCRIPT = """
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end"""
_PREFIX, _CLAIM_PREFIX, _SOURCE_PREFIX = "anyrig:", "anyrig:claim:", "anyrig:source:"
_URL_HINT = "Set cache.url to redis://host:6379/0, or to rediss://:password@host:6379/0 for TLS."


@dataclass(frozen=True)
class RedisStats:
    """What a shared cache contains."""

    num_results: int
    used_bytes: int
    """The server's memory for all its data."""
    limit_bytes: int
    """`maxmemory`; 0 for no limit."""
    policy: str
    """`maxmemory_policy`: what is evicted when it is full."""
    version: str


class RedisCache(Cache):
    """A cache on a server; threads may share it.

    It connects on first use. A lost connection is opened again by the next call.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://`, with user and password where needed.
        timeout_s: how long to wait for an answer.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self.address = hide_password(url)
        self._client = _create_client(url, self.address, timeout_s)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        found: dict[str, CacheEntry] = {}
        for some in _split(keys, _GET_BATCH):
            with self._translate_errors():
                # MGET returns nothing for a name that holds no string.
                values = self._client.mget([_PREFIX + key for key in some])
            for key, value in zip(some, cast("list[bytes | None]", values), strict=True):
                entry = None if value is None else unpack(key, value)
                if entry is not None:
                    found[key] = entry
                elif value is not None:
                    self._delete_damaged(key, value)
        return found

    def has(self, keys: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for some in _split(keys, _SEND_BATCH):
            with self._translate_errors(), self._client.pipeline(transaction=False) as pipe:
                for key in some:
                    pipe.exists(_PREFIX + key)
                found |= {key for key, exists in zip(some, pipe.execute(), strict=True) if exists}
        return found

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        num_cached, size = 0, 0
        waiting: list[tuple[str, bytes]] = []
        for entry in entries:
            value = pack(entry, time.time())
            waiting.append((_PREFIX + entry.key, value))
            size += len(value)
            if len(waiting) >= _SEND_BATCH or size >= _SEND_BYTES:
                num_cached += self._send(waiting)
                waiting, size = [], 0
        return num_cached + self._send(waiting)

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        value = pack(CacheEntry(key, data, kind, metadata), time.time())
        with self._translate_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.set(_PREFIX + key, value)
            if source := metadata.get("source"):
                pipe.sadd(f"{_SOURCE_PREFIX}{source}", key)
            pipe.execute()

    def delete(self, key: str) -> bool:
        with self._translate_errors():
            return bool(self._client.delete(_PREFIX + key))

    def delete_from_source(self, source: str) -> int:
        with self._translate_errors():
            name = _SOURCE_PREFIX + source
            keys = cast("set[bytes]", self._client.smembers(name))
            count = sum(self.delete(key.decode()) for key in keys)
            self._client.delete(name)
        return count

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        token, claimed = secrets.token_hex(16), set[str]()
        for some in _split(keys, _SEND_BATCH):
            with self._translate_errors(), self._client.pipeline(transaction=False) as pipe:
                for key in some:
                    pipe.set(_CLAIM_PREFIX + key, token, nx=True, px=max(1, int(expires_s * 1000)))
                claimed |= {key for key, is_set in zip(some, pipe.execute(), strict=True) if is_set}
        return Claim(token, frozenset(claimed))

    def release(self, claim: Claim) -> None:
        for some in _split(sorted(claim.keys), _SEND_BATCH):
            names = [_CLAIM_PREFIX + key for key in some]
            with self._translate_errors():
                self._client.eval(_RELEASE_SCRIPT, len(names), *names, claim.token)

    def stats(self) -> RedisStats:
        """What the server holds of ours, and its memory."""
        with self._translate_errors():
            info = self._client.info()
            names = self._client.scan_iter(match=f"{_PREFIX}*", count=10_000)
            others = (_CLAIM_PREFIX.encode(), _SOURCE_PREFIX.encode())
            num_results = sum(not name.startswith(others) for name in names)
        return RedisStats(
            num_results, int(info.get("used_memory", 0)), int(info.get("maxmemory", 0)),
            str(info.get("maxmemory_policy", "")),
            str(info.get("valkey_version") or info.get("redis_version", "")),
        )  # fmt: skip

    def _send(self, values: Sequence[tuple[str, bytes]]) -> int:
        if not values:
            return 0
        with self._translate_errors(), self._client.pipeline(transaction=False) as pipe:
            for name, value in values:
                pipe.set(name, value, nx=True)
            return sum(bool(cached) for cached in pipe.execute())

    def _delete_damaged(self, key: str, value: bytes) -> None:
        log.warning("%s: the result %s is damaged and counts as missing", self.address, key)
        with contextlib.suppress(StorageError), self._translate_errors():
            start = value[: _HEADER.size]
            self._client.eval(_DELETE_SAME_SCRIPT, 1, _PREFIX + key, start)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import redis.exceptions

        try:
            yield
        except TypeError as error:  # an option of the URL that no connection accepts
            raise InvalidSettingError(f"{self.address}: {error}", hint=_URL_HINT) from error
        except (redis.exceptions.RedisError, OSError) as error:
            message, hint = _describe_error(error)
            raise StorageError(f"{self.address} {message}", hint=hint) from error


class LayeredCache(Cache):
    """A cache on this machine in front of a shared one; closing it closes both.

    What is found in the shared cache is copied to the local one. The shared cache may fail at any
    time: the local one then goes on alone, with one warning, and `RETRY_S` later the shared one is
    tried again.

    Args:
        local: its failures are raised.
        shared: its failures are not.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        local: ResultCache,
        shared: RedisCache,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.local, self.shared = local, shared
        self._clock = clock
        self._retry_at: float | None = None
        """When the shared cache, which failed, is asked again."""

    def close(self) -> None:
        try:
            self.shared.close()
        finally:
            self.local.close()

    def check_shared(self) -> StorageError | None:
        """Why the shared cache cannot be used; whoever asks reports it, so the log does not."""
        try:
            self.shared.has(("check",))
        except StorageError as error:
            self._retry_at = self._clock() + RETRY_S
            return error
        return None

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        requested = list(dict.fromkeys(keys))
        found = self.local.get_many(requested)
        missing = [key for key in requested if key not in found]
        if not missing:
            return found
        fetched = self._try_shared(lambda: self.shared.get_many(missing), dict[str, CacheEntry]())
        if fetched:
            try:
                self.local.put_many(fetched.values())
            except StorageError as error:  # a full disk: the results are there all the same
                log.warning("shared results are not copied to this machine: %s", error.message)
        return found | fetched

    def has(self, keys: Iterable[str]) -> set[str]:
        requested = set(keys)
        found = self.local.has(requested)
        missing = requested - found
        return (
            found | self._try_shared(lambda: self.shared.has(missing), set[str]())
            if missing
            else found
        )

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        """`put` several in both; how many were cached locally."""
        given = list(entries)
        try:
            return self.local.put_many(given)
        finally:  # a full disk here is no reason to keep it from the others
            self._try_shared(lambda: self.shared.put_many(given), 0)

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        self.local.replace(key, data, kind=kind, metadata=metadata)
        self._try_shared(lambda: self.shared.replace(key, data, kind=kind, metadata=metadata), None)

    def delete(self, key: str) -> bool:
        """Delete a result from both; whether there was one.

        A failure of the shared cache is raised: who wants a result gone must know that it is not.
        """
        deleted = self.local.delete(key)
        return self.shared.delete(key) or deleted

    def delete_from_worker(self, worker: str) -> PruneResult:
        """Delete what a worker computed, and the same keys from the shared cache.

        A failure of the shared cache is raised.
        """
        for key in self.local.list_keys_from_worker(worker):
            self.shared.delete(key)
        return self.local.delete_from_worker(worker)

    def delete_from_source(self, source: str) -> int:
        """Delete what was made of a source from both. A failure of the shared cache is raised."""
        return max(self.shared.delete_from_source(source), self.local.delete_from_source(source))

    def pin_for_job(self, job: str) -> AbstractContextManager[None]:
        return self.local.pin_for_job(job)

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        requested = list(keys)
        alone = Claim("", frozenset(requested))
        return self._try_shared(lambda: self.shared.claim(requested, expires_s=expires_s), alone)

    def release(self, claim: Claim) -> None:
        if claim.token:
            self._try_shared(lambda: self.shared.release(claim), None)

    def _try_shared(self, call: Callable[[], T], otherwise: T) -> T:
        """The shared cache's answer; `otherwise` if it fails, or did so a moment ago."""
        retry_at = self._retry_at
        if retry_at is not None and self._clock() < retry_at:
            return otherwise
        try:
            answer = call()
        except StorageError as error:
            self._retry_at = self._clock() + RETRY_S
            level = logging.WARNING if retry_at is None else logging.INFO
            log.log(level, "shared cache unavailable: %s", error.message)
            return otherwise
        if retry_at is not None:
            self._retry_at = None
            log.info("shared cache available again")
        return answer


def pack(entry: CacheEntry, created: float) -> bytes:
    """An entry as one string; what cannot be cached is refused."""
    encoded = encode_entry(entry)
    kind, metadata = encoded.kind.encode(), encoded.metadata.encode()
    header = _HEADER.pack(_MAGIC, encoded.digest, created, len(kind), len(metadata))
    return b"".join((header, kind, metadata, encoded.data))


def unpack(key: str, value: bytes) -> CacheEntry | None:
    """The entry of a string; None where it is not what `pack` makes of this key.

    Anybody who may write to the server can compute the checksum.
    """
    if len(value) < _HEADER.size or not value.startswith(_MAGIC):
        return None
    _, digest, _, kind_bytes, metadata_bytes = _HEADER.unpack_from(value)
    start = _HEADER.size + kind_bytes
    kind, metadata = value[_HEADER.size : start], value[start : start + metadata_bytes]
    data = value[start + metadata_bytes :]
    try:
        entry = EncodedEntry(key, kind.decode(), metadata.decode(), digest, data).decode()
        if entry is not None:
            to_canonical_json(check_entry(entry).metadata)
        return entry
    except (ValueError, InvalidInputError):  # not text, or not what can be cached
        return None


def hide_password(url: str) -> str:
    """A URL as it may be shown: without user, password and options."""
    scheme, _, rest = url.partition("://")
    address, _, options = rest.partition("?")
    if "@" in options:  # a password with a question mark in it, or one among the options
        return f"{scheme}://..."
    return f"{scheme}://{address.rpartition('@')[2]}"


def _create_client(url: str, address: str, timeout_s: float) -> redis.Redis:
    try:
        import redis
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise MissingPackageError(
            "sharing results through Redis requires the package redis",
            hint=f"{format_install('anyrig[cluster]')}, or leave cache.url empty.",
        ) from error
    if url.partition("://")[0].lower() not in _SCHEMES:
        raise InvalidSettingError(f"{address} is not the URL of a Redis server", hint=_URL_HINT)
    # After a server's restart the first connection is a dead one: another attempt finds it. A
    # server that is silent stays so, and is not waited for three times.
    retry = Retry(ExponentialBackoff(0.2, 0.02), 2, supported_errors=(redis.ConnectionError,))
    try:
        pool = redis.BlockingConnectionPool.from_url(
            url, max_connections=_MAX_CONNECTIONS, timeout=timeout_s,
            socket_timeout=timeout_s, socket_connect_timeout=min(timeout_s, 2.0), retry=retry,
            protocol=2,  # older servers speak no other
        )  # fmt: skip
    except (ValueError, TypeError):  # whose text may quote a password with odd characters in it
        raise InvalidSettingError(
            f"{address} is not the URL of a Redis server", hint=_URL_HINT
        ) from None
    pool.connection_kwargs["decode_responses"] = False  # an option of the URL may say otherwise
    return redis.Redis(connection_pool=pool)


def _describe_error(error: Exception) -> tuple[str, str]:
    """What the server, or the connection to it, refused, and what can be done."""
    import redis.exceptions as errors

    text = str(error).rstrip(".")
    # Servers begin their errors with a code, which the library has no class for inside pipelines.
    cases: list[tuple[tuple[type[Exception], ...], tuple[str, ...], str, str]] = [
        ((errors.AuthenticationError, errors.NoPermissionError), ("NOAUTH", "WRONGPASS", "NOPERM"),
         f"denied access: {text}",
         "Check the user and the password in cache.url (ANYRIG_CACHE_URL)."),
        ((errors.OutOfMemoryError,), ("OOM",),
         "is full", "Raise its maxmemory, or set maxmemory-policy allkeys-lru."),
        ((errors.ReadOnlyError,), ("READONLY", "MISCONF"),
         f"accepts no writes: {text}", "Use its primary server, or check its disk."),
        ((errors.ConnectionError, errors.TimeoutError, OSError), (),
         f"does not answer: {text}",
         "Start the server, fix the connection to it, or empty cache.url (ANYRIG_CACHE_URL)."),
        ((errors.InvalidResponse,), (),
         f"is not a Redis server: {text}", "Check host and port in cache.url."),
    ]  # fmt: skip
    for classes, codes, message, hint in cases:
        if isinstance(error, classes) or text.partition(" ")[0] in codes:
            return message, hint
    return f"failed: {text}", MORE_DETAILS


def _split(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), size):
        yield unique[start : start + size]
