"""Results kept in Redis or Valkey, so that several machines share what each of them made.

    store = RedisStore("redis://:password@host:6379/0")        rediss:// speaks TLS

How much is kept, and for how long, is the server's business: set `maxmemory` and
`maxmemory-policy allkeys-lru` there, and the least recently used results go when it is full. A
server whose policy is `noeviction` refuses new results once it is full; that is a `StorageError`.
`holding` therefore promises nothing here, and a job has to bear that a result is gone.

A result is one string under `anyrig:KEY`: a header, the checksum that `results` also uses, kind and
note, the data. The checksum is looked at whenever it is read: a result that does not match is
dropped and counts as missing, as does whatever else lies under such a name. Who is making a result
is a second string, `anyrig:claim:KEY`, that lapses by itself.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from anyrig.errors import InvalidSettingError, MissingPackageError, StorageError
from anyrig.install import format_install
from anyrig.storage import rows
from anyrig.storage.key import Plain
from anyrig.storage.protocol import Claim, Entry, Result

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)
SCHEMES = ("redis", "rediss", "unix")
_MAGIC = b"anyrig1\n"
_HEAD = struct.Struct("<8s32sdHI")
"""Magic, checksum, when it was kept, bytes of the kind and of the note."""
_ASK = 256
_SEND, _SEND_BYTES = 1000, 8 << 20
_MOST_CONNECTIONS = 16
# Takes a claim back only where it is still the caller's own: after a lapse it may be another's.
_RELEASE = """
for _, name in ipairs(KEYS) do
  if redis.call('GET', name) == ARGV[1] then redis.call('DEL', name) end
end"""
# Drops a damaged result only where another has not replaced it meanwhile.
_DROP_SAME = """
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end"""
_CLAIM = "claim:"


@dataclass(frozen=True)
class SharedSize:
    """What a shared store holds."""

    num_results: int
    used_bytes: int
    """The memory that the server takes for all it holds."""
    limit_bytes: int
    """`maxmemory`; 0 where it has none."""
    policy: str
    """What goes when it is full."""
    version: str


class RedisStore:
    """Results by key on a server. Threads share it; fits `protocol.Results` and `protocol.Claims`.

    Nothing is asked of the server before the first result is. A lost connection is made again with
    the next question.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://`, with user and password where needed.
        prefix: what the names of all its keys begin with.
        timeout_s: how long an answer is waited for.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "anyrig:",
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.place = shown(url)
        """The URL without its password."""
        self._prefix, self._clock = prefix, clock
        self._client = _client(url, self.place, timeout_s)

    def __enter__(self) -> RedisStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        self._client.close()
        self._client.connection_pool.disconnect()

    # -- results -----------------------------------------------------------------------------------

    def get(self, key: str) -> Result | None:
        """A result, or None where there is none or only a damaged one."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Result]:
        """Those of the results that are kept, by key; all of them in memory at once."""
        asked = list(dict.fromkeys(keys))
        found: dict[str, Result] = {}
        for part in _parts(asked, _ASK):
            with self._translated():
                # MGET answers nothing for a name that holds no string.
                values = cast("list[bytes | None]", self._client.mget(self._names(part)))
            for key, value in zip(part, values, strict=True):
                result = None if value is None else unpacked(key, value)
                if result is not None:
                    found[key] = result
                elif value is not None:
                    self._drop_bad(key, value)
        return found

    def put(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> bool:
        """Keep a result unless one is kept already; whether it was kept."""
        return self.put_many((Entry(key, data, kind, note),)) == 1

    def put_many(self, entries: Iterable[Entry]) -> int:
        """Keep several, as `put` does; how many were kept. They are sent some at a time."""
        kept, waiting, size = 0, [], 0
        for entry in entries:
            packed_entry = packed(entry, self._clock())
            waiting.append((self._prefix + entry.key, packed_entry))
            size += len(packed_entry)
            if len(waiting) >= _SEND or size >= _SEND_BYTES:
                kept += self._send(waiting)
                waiting, size = [], 0
        return kept + self._send(waiting)

    def replace(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> None:
        """Keep a new take in the place of the old one."""
        value = packed(Entry(key, data, kind, note), self._clock())
        with self._translated():
            self._client.set(self._prefix + key, value)

    def drop(self, key: str) -> bool:
        """Forget a result; whether there was one."""
        with self._translated():
            return bool(self._client.delete(self._prefix + key))

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose results are kept; any may be evicted a moment later."""
        asked = list(dict.fromkeys(keys))
        found: set[str] = set()
        for part in _parts(asked, _SEND):
            with self._translated(), self._client.pipeline(transaction=False) as pipe:
                for name in self._names(part):
                    pipe.exists(name)
                found |= {key for key, there in zip(part, pipe.execute(), strict=True) if there}
        return found

    def holding(self, job: str, *, release: bool = True) -> AbstractContextManager[None]:
        """A block that changes nothing: what the server evicts is decided there."""
        return nullcontext()

    # -- who makes what ----------------------------------------------------------------------------

    def claim(self, keys: Iterable[str], *, lapse_s: float) -> Claim:
        """Those of the keys that nobody had claimed, now the caller's for so long."""
        asked, token = list(dict.fromkeys(keys)), secrets.token_hex(16)
        got: set[str] = set()
        for part in _parts(asked, _SEND):
            with self._translated(), self._client.pipeline(transaction=False) as pipe:
                for name in self._claims(part):
                    pipe.set(name, token, nx=True, px=max(1, int(lapse_s * 1000)))
                got |= {key for key, set_ in zip(part, pipe.execute(), strict=True) if set_}
        return Claim(token, frozenset(got))

    def release(self, claim: Claim) -> None:
        """Give up what of a claim still stands."""
        for part in _parts(sorted(claim.keys), _SEND):
            with self._translated():
                self._client.eval(_RELEASE, len(part), *self._claims(part), claim.token)

    # -- the whole ---------------------------------------------------------------------------------

    def size(self) -> SharedSize:
        """What the server holds of ours, and what it takes."""
        with self._translated():
            told = self._client.info()
            names = self._client.scan_iter(match=f"{_literal(self._prefix)}*", count=10_000)
            claims = (self._prefix + _CLAIM).encode()
            count = sum(not name.startswith(claims) for name in names)
        return SharedSize(
            count, int(told.get("used_memory", 0)), int(told.get("maxmemory", 0)),
            str(told.get("maxmemory_policy", "")),
            str(told.get("valkey_version") or told.get("redis_version", "")),
        )  # fmt: skip

    # -- beneath -----------------------------------------------------------------------------------

    def _names(self, keys: Sequence[str]) -> list[str]:
        return [self._prefix + key for key in keys]

    def _claims(self, keys: Sequence[str]) -> list[str]:
        return [self._prefix + _CLAIM + key for key in keys]

    def _send(self, values: Sequence[tuple[str, bytes]]) -> int:
        if not values:
            return 0
        with self._translated(), self._client.pipeline(transaction=False) as pipe:
            for name, value in values:
                pipe.set(name, value, nx=True)
            return sum(bool(kept) for kept in pipe.execute())

    def _drop_bad(self, key: str, value: bytes) -> None:
        log.warning("%s: the result %s is damaged and counts as missing", self.place, key)
        with contextlib.suppress(StorageError), self._translated():
            self._client.eval(_DROP_SAME, 1, self._prefix + key, value[: _HEAD.size])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The client's errors as ours."""
        import redis.exceptions as refusals

        try:
            yield
        except TypeError as error:  # an option of the URL that no connection takes
            raise InvalidSettingError(f"{self.place}: {error}", hint=URL_HINT) from error
        except (refusals.RedisError, OSError) as error:
            said, hint = _words(error)
            raise StorageError(f"{self.place} {said}", hint=hint) from error


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password and options."""
    scheme, _, rest = url.partition("://")
    place, _, options = rest.partition("?")
    if "@" in options:  # a password with a question mark in it, or one among the options
        return f"{scheme}://..."
    return f"{scheme}://{place.rpartition('@')[2]}"


def packed(entry: Entry, made: float) -> bytes:
    """An entry as the string that is kept; what cannot be kept is refused."""
    row = rows.written(entry)
    kind, note = row.kind.encode(), row.note.encode()
    head = _HEAD.pack(_MAGIC, row.digest, made, len(kind), len(note))
    return b"".join((head, kind, note, row.data))


def unpacked(key: str, value: bytes) -> Result | None:
    """The result of a string; None where it is not what was kept under this key."""
    if len(value) < _HEAD.size or not value.startswith(_MAGIC):
        return None
    _, digest, made, num_kind, num_note = _HEAD.unpack_from(value)
    start = _HEAD.size + num_kind
    kind, note = value[_HEAD.size : start], value[start : start + num_note]
    data = value[start + num_note :]
    try:
        row = rows.Row(0, key, kind.decode(), note.decode(), digest, made, data)
        return row.result
    except ValueError:  # no text, or no JSON
        return None


def _client(url: str, place: str, timeout_s: float) -> redis.Redis:
    try:
        import redis
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise MissingPackageError(
            "sharing results through Redis needs the package redis",
            hint=f"{format_install('anyrig[cluster]')}, or leave cache.url empty.",
        ) from error
    if url.partition("://")[0].lower() not in SCHEMES:
        raise InvalidSettingError(f"{place} is no address of a Redis server", hint=URL_HINT)
    # After a server's restart the first connection is a dead one: another try finds it. A server
    # that is silent stays so, and is not waited for three times.
    retry = Retry(ExponentialBackoff(0.2, 0.02), 2, supported_errors=(redis.ConnectionError,))
    try:
        pool = redis.BlockingConnectionPool.from_url(
            url, max_connections=_MOST_CONNECTIONS, timeout=timeout_s,
            socket_timeout=timeout_s, socket_connect_timeout=min(timeout_s, 2.0), retry=retry,
            protocol=2,  # older servers speak no other
        )  # fmt: skip
    except (ValueError, TypeError):  # whose words may quote a password with odd signs in it
        raise InvalidSettingError(
            f"{place} is no address of a Redis server", hint=URL_HINT
        ) from None
    pool.connection_kwargs["decode_responses"] = False  # an option of the URL would say otherwise
    return redis.Redis(connection_pool=pool)


URL_HINT = (
    "cache.url is written as redis://host:6379/0, or rediss://:password@host:6379/0 with TLS."
)


def _words(error: Exception) -> tuple[str, str]:
    """What the server or the way to it refused, and what can be done."""
    import redis.exceptions as refusals

    said = str(error).rstrip(".")
    if isinstance(error, (refusals.AuthenticationError, refusals.NoPermissionError)) or (
        said.startswith(("NOAUTH", "WRONGPASS", "NOPERM"))
    ):
        return (
            f"does not let us in: {said}",
            "Look at the user and the password in cache.url (ANYRIG_CACHE_URL).",
        )
    if isinstance(error, refusals.OutOfMemoryError) or said.startswith("OOM"):
        return (
            "is full",
            "Raise its maxmemory, or set maxmemory-policy allkeys-lru so that it makes room.",
        )
    if isinstance(error, (refusals.ReadOnlyError,)) or said.startswith(("READONLY", "MISCONF")):
        return f"takes nothing new: {said}", "Name its primary server, or look at its disk."
    if isinstance(error, (refusals.ConnectionError, refusals.TimeoutError, OSError)):
        return (
            f"does not answer: {said}",
            "Start the server or mend the way to it, or empty cache.url (ANYRIG_CACHE_URL).",
        )
    if isinstance(error, refusals.InvalidResponse):
        return f"is no Redis server: {said}", "Look at host and port in cache.url."
    return f"refused: {said}", "-vv says more."


def _parts(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _literal(text: str) -> str:
    """Text with the signs of a pattern taken as they are."""
    return "".join(f"\\{sign}" if sign in "*?[]\\^" else sign for sign in text)
