"""What `anyrig worker` makes of its flags, the environment and the settings, before it joins."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.cluster import (
    ClusterOptions,
    choose_cluster_precision,
    find_broker,
    find_default_broker,
)
from anyrig.app.cluster_engines import SpeechEngines
from anyrig.app.cluster_worker import (
    WorkerNode,
    WorkerRequest,
    choose_worker_device,
    plan_nodes,
)
from anyrig.app.rig import Rig
from anyrig.cli.flags import read_flags
from anyrig.cli.main import parse_command_line
from anyrig.cluster.registry import EngineId, WorkerInfo
from anyrig.devices.discovery import from_record
from anyrig.devices.machine import Device
from anyrig.devices.probe import load_record
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError, InvalidInputError
from anyrig.events import Event, WarningEvent
from anyrig.speech.engines.tone import Tone
from tests.conftest import MACHINES, Anyrig


class Planned:
    """A worker on a recorded machine: its rig, its request, and the warnings so far."""

    def __init__(
        self, *words: str, machine: str = "no-gpu", environment: Mapping[str, str] | None = None
    ) -> None:
        _, arguments = parse_command_line(["worker", *words])
        record = load_record(MACHINES / f"{machine}.json")
        self.warnings: list[str] = []
        whole = {**os.environ, **(environment or {})}
        self.rig = Rig(
            environment=whole, machine=from_record(record, _visible(whole)), on_event=self._note
        )
        self.request = self.rig.request(WorkerRequest, **read_flags(arguments, WorkerRequest))

    def _note(self, event: Event) -> None:
        if isinstance(event, WarningEvent):
            self.warnings.append(event.message)

    def nodes(self) -> list[WorkerNode]:
        return plan_nodes(self.rig, self.request)

    def device(self) -> Device:
        return choose_worker_device(self.rig, self.request).device

    def speech(self, node: WorkerNode | None = None) -> SpeechEngines:
        return SpeechEngines(self.rig, self.request, node or self.nodes()[0])


def _visible(environment: Mapping[str, str]) -> dict[str, str]:
    return {n: v for n, v in environment.items() if n == "CUDA_VISIBLE_DEVICES"}


made = Planned


def names(planned: Planned) -> list[str]:
    return [node.name for node in planned.nodes()]


def test_one_node_for_each_device_that_can_be_used() -> None:
    context = made("--name", "w", "--device", "all", machine="rtx4090-rtxpro6000-wsl2")
    posts = context.nodes()
    assert sorted(post.name for post in posts) == ["w-cpu", "w-cuda0", "w-cuda1"]
    assert len({post.device.id for post in posts}) == 3
    assert all(post.fixed_name for post in posts)


def test_a_machine_with_one_device_has_one_node_under_its_own_name() -> None:
    assert names(made("--name", "w", "--device", "all")) == ["w"]
    (post,) = made().nodes()
    assert post.name == socket.gethostname()
    assert not post.fixed_name


@pytest.mark.parametrize(
    ("words", "environment", "found"),
    [
        ((), {"WORKER_ID": "w7"}, ["w7"]),
        ((), {"WORKER_ID": "w7", "ANYRIG_CLUSTER_NAME": "weak"}, ["w7"]),
        (("--name", "w"), {"NUM_WORKERS": "3"}, ["w-1", "w-2", "w-3"]),
        (("--name", "w", "--nodes", "1"), {"NUM_WORKERS": "3"}, ["w"]),
    ],
)
def test_names_and_numbers_of_nodes(
    words: tuple[str, ...], environment: dict[str, str], found: list[str]
) -> None:
    assert names(made(*words, environment=environment)) == found


def test_a_name_that_is_none() -> None:
    with pytest.raises(InvalidInputError, match="not a valid name of a worker"):
        made("--name", "a name").nodes()


@pytest.mark.parametrize(
    ("words", "environment", "kind", "index"),
    [
        ((), {}, "gpu", None),
        ((), {"USE_GPU": "no"}, "cpu", None),
        ((), {"GPU_ID": "1"}, "gpu", 1),
        ((), {"GPU_ID": "1", "USE_GPU": "no"}, "cpu", None),
        ((), {"CUDA_VISIBLE_DEVICES": ""}, "cpu", None),
        (("--device", "cuda:0"), {"USE_GPU": "no"}, "gpu", 1),  # CUDA counts the fastest first
    ],
)
def test_the_device_that_operators_name(
    words: tuple[str, ...], environment: dict[str, str], kind: str, index: int | None
) -> None:
    context = made(*words, machine="rtx4090-rtxpro6000-wsl2", environment=environment)
    device = context.device()
    assert device.kind == kind
    assert index is None or device.indices["gpu"] == index


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--device", "cuda"), {}),
        ((), {"GPU_ID": "1"}),
        ((), {"USE_GPU": "yes"}),
    ],
)
def test_a_worker_without_the_gpu_joins_on_the_cpu_with_one_warning(
    words: tuple[str, ...], environment: dict[str, str]
) -> None:
    context = made(*words, environment=environment)
    assert context.device().kind == "cpu"
    assert len(context.warnings) == 1
    with pytest.raises((DeviceUnusableError, DeviceNotFoundError)):
        made(*words, "--strict", environment=environment).device()


@pytest.mark.parametrize("words", [("--device", "cuda:1"), ("--gpu", "0"), ("--device", "foo")])
def test_a_worker_refuses_one_gpu_that_is_not_there(words: tuple[str, ...]) -> None:
    with pytest.raises(DeviceNotFoundError):
        made(*words).device()


@pytest.mark.parametrize(
    ("flag", "environment", "found"),
    [
        (None, {}, "redis://127.0.0.1:6379/0"),
        (None, {"COORDINATOR_IP": "10.0.0.5"}, "redis://10.0.0.5:6379/0"),
        (None, {"COORDINATOR_IP": "10.0.0.5", "REDIS_URL": "redis://a/0"}, "redis://a/0"),
        (None, {"ANYRIG_CLUSTER_BROKER": "redis://b/0", "REDIS_URL": "redis://a/0"}, "redis://b/0"),
        ("redis://flag/0", {"REDIS_URL": "redis://a/0"}, "redis://flag/0"),
    ],
)
def test_the_broker(flag: str | None, environment: dict[str, str], found: str) -> None:
    rig = made(environment=environment).rig
    assert (flag or find_default_broker(rig)) == found


def test_the_settings_are_weaker_than_what_operators_set() -> None:
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "anyrig" / "anyrig.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[cluster]\nbroker = "redis://s/0"\n', encoding="utf-8")
    assert find_default_broker(made().rig) == "redis://s/0"
    assert find_default_broker(made(environment={"REDIS_URL": "redis://a/0"}).rig) == "redis://a/0"
    assert find_default_broker(made(environment={"COORDINATOR_IP": "h"}).rig) == "redis://h:6379/0"


def test_a_token_and_an_address_are_one_too_many(anyrig: Anyrig) -> None:
    done = anyrig("worker", "--join", "x", "--broker", "redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert "--join and --broker" in done.stderr
    done = anyrig("worker", "--join", "anyrig1_nothing")
    assert done.returncode == 2
    assert "not a valid token" in done.stderr


# -- precision -------------------------------------------------------------------------------------


def _card(
    name: str, *classes: str, kind: str = "cpu", speed: float = 0.0, **more: Any
) -> WorkerInfo:
    return WorkerInfo(
        name, "1", kind=kind, engines=(EngineId("e", "1", "f", "v"),), precisions={"e": classes},
        speeds={"e": speed} if speed else {}, **more,
    )  # fmt: skip


def test_the_precision_is_what_most_of_the_speed_prefers() -> None:
    offer = EngineId("e", "1", "f", "v")
    slow, fast = _card("a", "fp32", speed=10), _card("b", "half", "fp32", kind="gpu", speed=500)
    assert choose_cluster_precision("auto", offer, [slow, fast]) == "half"
    assert choose_cluster_precision("auto", offer, [slow, replace(fast, speeds={"e": 5})]) == "fp32"
    # Not all are measured: then a GPU counts for many CPUs.
    assert choose_cluster_precision("auto", offer, [slow, slow, replace(fast, speeds={})]) == "half"
    # Whoever has another engine has no voice in it.
    other = replace(fast, engines=(replace(offer, fingerprint="g"),))
    assert choose_cluster_precision("auto", offer, [slow, other]) == "fp32"
    assert choose_cluster_precision("auto", offer, []) == "fp32"
    assert choose_cluster_precision("bf16", offer, [slow]) == "half"
    assert choose_cluster_precision("tf32", offer, [fast]) == "fp32"


def test_a_worker_says_what_it_can_compute_in() -> None:
    speech = made("--name", "w", machine="h200-linux").speech()
    need = replace(Tone.need(Tone.find_weights()), precisions=("fp32", "bf16"), gpu=True)
    assert set(speech.find_formats(need)) == {"fp32", "half"}
    assert set(speech.find_formats(replace(need, precisions=("fp32",)))) == {"fp32"}
    named = made("--name", "w", "--precision", "fp32", machine="h200-linux").speech()
    assert set(named.find_formats(need)) == {"fp32"}
    alone = made("--name", "w").speech()
    assert "tone" in {engine.engine for engine in alone.engines}
    assert alone.precisions["tone"] == ("fp32",)
    with pytest.raises(InvalidInputError, match="cannot compute in half"):
        alone.open("tone", "half", {})


def test_nodes_that_share_a_gpu_share_its_memory() -> None:
    planned = made("--name", "w", "--nodes", "2", machine="h200-linux")
    nodes = planned.nodes()
    assert [node.number for node in nodes] == [0, 1]
    budgets = []
    for node in (replace(nodes[0], share=1), nodes[0]):
        speech = planned.speech(node)
        need = replace(Tone.need(Tone.find_weights()), gpu=True)
        plan = speech.place(need, speech.placement_options())
        budgets.append(plan.placements[0].budget_bytes or 0)
    assert budgets[1] == pytest.approx(budgets[0] / 2, rel=0.01)


# -- who gives it work -----------------------------------------------------------------------------


def _broker(cluster: str = "", environment: Mapping[str, str] | None = None) -> str:
    rig = Rig(environment={**os.environ, **(environment or {})})
    return find_broker(rig, ClusterOptions(cluster=cluster))


def test_which_commands_go_to_the_cluster() -> None:
    spread = {"ANYRIG_CLUSTER_SPREAD": "yes", "REDIS_URL": "redis://a/0"}
    named = {"REDIS_URL": "redis://a/0"}
    assert _broker() == ""
    assert _broker(environment=named) == ""
    assert _broker("redis://b/0") == "redis://b/0"
    assert _broker(environment=spread) == "redis://a/0"
    assert _broker("no", environment=spread) == ""
    assert _broker("yes", environment=named) == "redis://a/0"


def test_a_queued_book_does_not_show_the_brokers_password(anyrig: Anyrig) -> None:
    Path("b.txt").write_text("The tide came in.", encoding="utf-8")
    done = anyrig("book", "b.txt", "--queue", "--cluster", "redis://:secret@h:6379/0")
    assert done.returncode == 2
    assert "cluster.broker" in done.stderr
    done = anyrig("book", "b.txt", "--queue", "--cluster", "redis://h:6379/0", "--json")
    assert done.returncode == 0, done.stderr
    assert '"cluster": "redis://h:6379/0"' in done.stdout


@pytest.mark.parametrize("command", [("speak", "Hello."), ("book", "b.txt"), ("embed", "b.txt")])
def test_local_devices_join_no_cluster_that_was_not_named(
    anyrig: Anyrig, command: tuple[str, ...]
) -> None:
    Path("b.txt").write_text("The tide came in.", encoding="utf-8")
    done = anyrig(*command, "--cluster-local")
    assert done.returncode == 2, done.stdout
    assert "--cluster-local needs a cluster" in done.stderr


def test_embed_asks_the_cluster_only_if_it_shall(anyrig: Anyrig) -> None:
    Path("b.txt").write_text("The tide came in.", encoding="utf-8")
    spread = {"ANYRIG_CLUSTER_SPREAD": "yes", "REDIS_URL": "redis://127.0.0.1:9/0"}
    done = anyrig("embed", "b.txt", environment=spread)
    assert done.returncode != 0, done.stdout
    assert "127.0.0.1:9" in done.stderr
    done = anyrig("embed", "b.txt", "--cluster", "no", environment=spread)
    assert done.returncode == 0, done.stderr
