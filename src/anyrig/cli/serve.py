"""`anyrig serve`: the HTTP API and the web page."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from anyrig.app.keys import ensure_key, open_keys
from anyrig.app.rig import Rig, log_event
from anyrig.app.serve import ServeRequest
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.rig import open_rig
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    InvalidOptionError,
    Message,
    OptionRef,
    render,
)
from anyrig.options import list_options, request_to_json
from anyrig.storage.files import PRIVATE_UMASK, make_folder

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from anyrig.jobs import Job, JobHandler, JobQueue, ReportEvent, StopSignal
    from anyrig.server.state import ServerState
    from anyrig.storage.keys import JsonValue

log = logging.getLogger(__name__)
HELP = """Serve speech, books, documents, jobs and training over HTTP, with a web page. It listens
on this machine only, unless --host says otherwise; then clients need an API key (`anyrig keys
add`). Ctrl+C stops it; running jobs continue at the next start."""
_GRACE_S = 3
"""How long responses that are being sent may take after the server was told to stop."""
_KILL_S = 12.0
"""By then the process ends, whatever its workers do."""
_EVERY_ADDRESS = ("0.0.0.0", "::", "")
_HOSTS = "127.0.0.1 is this machine only, 0.0.0.0 is everyone who can reach it."


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, ServeRequest)
    parser.add_argument("--machine", help=argparse.SUPPRESS)  # show the page of a recorded machine


def run(arguments: argparse.Namespace) -> int:
    # What the start builds stays: looking for garbage in it would take a tenth of the start.
    gc.disable()
    # A server writes nothing that is for others; its children inherit that.
    umask = os.umask(PRIVATE_UMASK)
    try:
        return _run(arguments, umask)
    finally:
        os.umask(umask)
        gc.enable()


def _run(arguments: argparse.Namespace, umask: int) -> int:
    from anyrig.backends.memory import limit_arenas
    from anyrig.server.app import create_app
    from anyrig.server.log import configure_log

    limit_arenas()  # before there are threads
    # A container may have a terminal that nobody looks at.
    ask = not arguments.json and not in_container(os.environ)
    rig = open_rig(arguments, log_event, ask=ask)
    request = rig.request(ServeRequest, **read_flags(arguments, ServeRequest))
    rig.ask_device(request)
    for warning in rig.preview_device(request).warnings:
        rig.warn(warning)
    is_container = in_container(rig.environment)
    configure_log(
        as_json=request.log_json or is_container, verbose=arguments.verbose,
        texts=rig.settings.server.log_texts,
    )  # fmt: skip
    with _stop_on_signals(), ExitStack() as stack:
        listener = stack.enter_context(bind(request.host, request.port))
        server = build_state(rig, request, stack, umask)
        server.port = port = listener.getsockname()[1]
        if server.keys_required:
            address = _describe_address(rig, request.host)
            _print_key(ensure_key(server.keys, address=address, create=is_container), arguments)
        if server.insecure and not _is_local(request.host):
            log.warning(
                "everyone who can reach %s may use this server, and read and delete what was sent"
                " to it (--insecure)", request.host,
            )  # fmt: skip
        _log_start(rig, request, server)
        app = create_app(server, page=not request.no_page)
        gc.freeze()
        gc.enable()
        _serve(
            app,
            listener,
            lambda: _print_address(request.host, port, as_json=arguments.json),
            rig.settings.server.trusted_proxies,
        )
    return 0


def build_state(rig: Rig, request: ServeRequest, stack: ExitStack, umask: int = -1) -> ServerState:
    """Open everything a server works with, to be closed by the stack.

    Args:
        umask: for the files of jobs of the command line; -1 is this process's own.
    """
    from anyrig.app.cluster import ClusterOptions, find_broker
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.devices import MonitoredMachine
    from anyrig.app.document_worker import DocumentWorkers
    from anyrig.app.live_embedding import LiveEmbedding
    from anyrig.app.live_speech import open_live_speech
    from anyrig.app.models import ModelCache, list_all_workers
    from anyrig.app.uploads import Uploads
    from anyrig.server.metrics import Metrics
    from anyrig.server.routes.cluster import MonitoredCluster
    from anyrig.server.state import ServerState

    settings, folder = rig.settings.server, rig.folders.server
    make_folder(folder)
    models = rig.models = ModelCache(
        idle_s=settings.idle_s, max_models=settings.max_models, refuse=True,
        client_share=settings.client_share,
    )  # fmt: skip
    stack.callback(models.close)
    # The server's own options are those of every request, unless the request has others.
    shared = {*list_options(ComputeOptions), *list_options(ClusterOptions), "no_cache"}
    given = {name: value for name, value in request_to_json(request).items() if name in shared}
    machine = MonitoredMachine(
        rig, request, on_change=models.reload_all,
        list_workers=lambda: [
            worker for one in models.loaded_models()
            for worker in list_all_workers(one.name, one.model)
        ],
    )  # fmt: skip
    stack.callback(machine.close)
    cluster = None
    if broker := find_broker(rig, request):
        cluster = MonitoredCluster(broker)
        stack.callback(cluster.close)
    # A proxy leads other names here, and whoever uses this server's own name may come through it.
    is_proxied = settings.behind_proxy or bool(settings.hosts.strip())
    is_open = _is_local(request.host) and not request.require_keys and not is_proxied
    return ServerState(
        rig=rig,
        settings=settings,
        data_folder=folder,
        jobs=stack.enter_context(_open_jobs(rig, on_cluster=bool(broker))),
        metrics=Metrics(),
        models=models,
        keys=open_keys(rig),
        uploads=Uploads(
            folder / "uploads",
            max_bytes=int(settings.upload_mb * 1e6),
            max_files=settings.upload_files,
            max_total=int(settings.upload_total_mb * 1e6),
            owner_share=settings.client_share,
        ),
        machine=machine,
        speech=stack.enter_context(open_live_speech(rig, given, use_cache=not request.no_cache)),
        embedding=LiveEmbedding(rig, given),
        documents=stack.enter_context(DocumentWorkers(rig, request)),
        cluster=cluster,
        job_handler=None if request.no_jobs else _make_job_handler(rig, given, broker, umask),
        host=request.host,
        keys_required=not request.insecure and not is_open,
        insecure=bool(request.insecure),
        preload=request.preload,
    )


def _open_jobs(rig: Rig, *, on_cluster: bool) -> JobQueue:
    if on_cluster:
        from anyrig.app.jobs import ClusterJobQueue

        return ClusterJobQueue(rig.folders.jobs)
    from anyrig.jobs import JobQueue

    return JobQueue(rig.folders.jobs)


def _make_job_handler(rig: Rig, given: Mapping[str, Any], broker: str, umask: int) -> JobHandler:
    """Run jobs: those that came over HTTP with this server's options and settings, those of the
    command line with the settings of the folder they were queued from.
    """
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.jobs import came_over_http, list_settings, make_job_handler

    environment = dict(rig.environment)
    if broker:  # a URL with a password is for no command line
        environment["ANYRIG_CLUSTER_BROKER"] = broker
    computing = {
        name: value for name, value in given.items() if name in list_options(ComputeOptions)
    }
    # 0.1.0 did not store where the settings of a job come from.
    own = make_job_handler(environment, computing, list_settings(rig))
    queued = make_job_handler(rig.environment, umask=umask)

    def handle(job: Job, report_event: ReportEvent, stop: StopSignal) -> JsonValue:
        return (own if came_over_http(job) else queued)(job, report_event, stop)

    return handle


def in_container(environment: Mapping[str, str]) -> bool:
    """Whether this runs in a container, where nobody sits at a terminal."""
    given = environment.get("ANYRIG_CONTAINER", "").lower()
    return given not in ("0", "no", "false") if given else Path("/.dockerenv").exists()


# -- addresses -------------------------------------------------------------------------------------


@contextlib.contextmanager
def bind(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket before anything is loaded, so that errors come at once."""
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise InvalidOptionError(
            "host", "must be an address of this machine", value=host, hint=_HOSTS
        ) from None
    family, kind, protocol, _, address = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    with socket.socket(family, kind, protocol) as listener:
        if sys.platform != "win32":  # there it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise InvalidInputError(
                f"cannot listen on {host} port {port}: {error.strerror}", hint=_hint(error, port)
            ) from None
        yield listener


def _hint(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"It is not an address of this machine. {_HOSTS}"
    if error.errno == errno.EACCES and port < 1024:
        return Message(
            "Ports below 1024 need privileges: choose another {port}.", port=OptionRef("port")
        )
    return Message(
        "Another server may be running: choose another {port}, or {any_port} for any free one.",
        port=OptionRef("port"),
        any_port=OptionRef("port", "0"),
    )


def list_urls(host: str, port: int) -> list[str]:
    """The URLs of the server, for this machine first; of 0.0.0.0, all addresses of the machine."""
    plain = host.strip("[]")
    if plain not in _EVERY_ADDRESS:
        return [_format_url(plain, port)]
    addresses = ["127.0.0.1", *_list_addresses(ipv6=plain == "::")]
    return [_format_url(address, port) for address in addresses]


def _format_url(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _list_addresses(*, ipv6: bool) -> list[str]:
    """The addresses of this machine that other machines can use."""
    import ipaddress

    import psutil

    families = (socket.AF_INET, socket.AF_INET6) if ipv6 else (socket.AF_INET,)
    try:
        interfaces = psutil.net_if_addrs().values()
    except OSError:
        return []
    found: dict[str, None] = {}
    for address in (one.address for rows in interfaces for one in rows if one.family in families):
        with contextlib.suppress(ValueError):  # fe80::1%eth0
            parsed = ipaddress.ip_address(address)
            if not parsed.is_loopback and not parsed.is_link_local:
                found[address] = None
    return list(found)


def _is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    from anyrig.server.security import is_loopback

    return is_loopback(host.strip("[]"))


def _describe_address(rig: Rig, host: str) -> str:
    """The address, with the setting that makes a local one require keys."""
    settings = rig.settings.server
    if not _is_local(host):
        return host
    if settings.behind_proxy:
        return f"{host} behind a proxy (server.behind_proxy)"
    return f"{host} under other names (server.hosts)" if settings.hosts.strip() else host


# -- output ----------------------------------------------------------------------------------------


def _print_key(added: tuple[str, Any] | None, arguments: argparse.Namespace) -> None:
    if added is None:
        return
    text, key = added
    if arguments.json:
        print(json.dumps({"event": "key", "name": key.name, "key": text}), flush=True)
    else:
        print(f"Created an API key. It is not shown again:\n\n  {text}\n", flush=True)


def _print_address(host: str, port: int, *, as_json: bool) -> None:
    urls = list_urls(host, port)
    if as_json:
        event = {"event": "listening", "url": urls[0], "host": host, "port": port, "urls": urls}
        print(json.dumps(event))
    else:
        print(format_address(host, port))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()


def format_address(host: str, port: int) -> str:
    first, *others = list_urls(host, port)
    if host.strip("[]") not in _EVERY_ADDRESS:
        return f"Listening on {first}  (Ctrl+C stops it)"
    lines = [f"Listening on every address of this machine, port {port}  (Ctrl+C stops it)"]
    lines += [f"  {first}  on this machine", *(f"  {url}  from others" for url in others)]
    return "\n".join(lines)


def _log_start(rig: Rig, request: ServeRequest, server: ServerState) -> None:
    """Log versions, devices and models."""
    import platform

    from anyrig.devices.choose import describe_memory
    from anyrig.server.log import startup_log
    from anyrig.version import __version__

    system = rig.machine.platform
    startup_log.info(
        "anyrig %s, Python %s, %s %s",
        __version__, platform.python_version(), system.title, system.machine,
    )  # fmt: skip
    try:
        choice = rig.preview_device(request)
        for device in choice.devices:
            driver = " ".join(filter(None, (device.driver, device.driver_version)))
            facts = [device.id, device.name, describe_memory(device), driver and f"driver {driver}"]
            # Warnings were logged already.
            reason = "" if choice.warnings else f" ({choice.reason})"
            startup_log.info("device %s%s", ", ".join(filter(None, facts)), reason)
        if rig.machine.gpus:
            startup_log.info("another device: `anyrig use`, or --device for this start")
    except AnyrigError as error:
        hint = render(error.hint, "command")
        startup_log.warning("no device: %s. %s", render(error.message, "command"), hint)
    packages = rig.machine.packages
    startup_log.info("torch %s", packages.get("torch", "is not installed"))
    names = [one for one in packages if one.startswith("onnxruntime") and "-ep-" not in one]
    runtimes = [f"ONNX Runtime {packages[name]} ({name})" for name in names]
    for line in runtimes or ["ONNX Runtime is not installed"]:
        startup_log.info("%s", line)
    startup_log.info("speech: %s", server.speech.describe_default())
    try:
        startup_log.info("embeddings: %s", server.embedding.find_model().name)
    except AnyrigError as error:
        startup_log.info("embeddings: none (%s)", error.message)


# -- start and stop --------------------------------------------------------------------------------


def _serve(
    app: FastAPI, listener: socket.socket, on_listening: Callable[[], None], trusted_proxies: str
) -> None:
    """Serve until a signal comes."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_listening()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            _exit_later()  # also if something blocks the event loop
            super().handle_exit(sig, frame)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.server.is_ending = True  # endless streams look at it
            await super().shutdown(sockets)

    Server(_configure(app, trusted_proxies)).run([listener])


def _configure(app: FastAPI, trusted_proxies: str = "") -> uvicorn.Config:
    import uvicorn

    try:
        from anyrig.server.protocol import LimitedHttpProtocol

        protocol: Any = LimitedHttpProtocol
    except ImportError:  # without httptools; h11 limits heads too
        protocol = "h11"
    return uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        # Else whoever connects from this machine could give itself any address.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=trusted_proxies,
        backlog=512,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_S,
        ws_max_size=1 << 20,
        ws_max_queue=16,
        ws_per_message_deflate=False,  # audio does not compress, and a bomb cannot unfold
        h11_max_incomplete_event_size=64 * 1024,
    )


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Let SIGTERM and Ctrl+C end the block and close everything; a second one exits at once.

    While it serves, uvicorn handles the signals, and raises them again when it is done.
    """
    is_stopping = False  # not an Event: a handler called within itself would wait for its lock

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            os._exit(128 + number)
        is_stopping = True
        _exit_later()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_later() -> None:
    """Exit some seconds from now, in case a worker keeps the process from ending."""
    timer = threading.Timer(_KILL_S, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
