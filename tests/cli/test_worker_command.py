"""What `anyrig worker` makes of its flags, the environment and the settings, before it joins."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.cluster import ClusterOptions, find_broker
from anyrig.app.rig import Rig
from anyrig.cli.cluster_link import broker_of
from anyrig.cli.context import Context
from anyrig.cli.fleet import precision_of
from anyrig.cli.main import parse_command_line
from anyrig.cli.worker import _posts, chosen
from anyrig.cli.worker_engine import Shop
from anyrig.cli.worker_look import Look
from anyrig.cluster.card import Card, Offer
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError, InvalidInputError
from anyrig.speech.engines.tone import Tone
from tests.conftest import MACHINES, Anyrig


def made(
    *words: str, machine: str = "no-gpu", environment: Mapping[str, str] | None = None
) -> Context:
    """The context of a worker on a recorded machine."""
    _, options = parse_command_line(["worker", *words])
    options.machine = str(MACHINES / f"{machine}.json")
    options.unattended = True
    return Context(options, {**os.environ, **(environment or {})})


def names(context: Context) -> list[str]:
    return [post.name for post in _posts(context)]


def test_one_node_for_each_device_that_can_be_used() -> None:
    context = made("--name", "w", "--device", "all", machine="rtx4090-rtxpro6000-wsl2")
    posts = _posts(context)
    assert sorted(post.name for post in posts) == ["w-cpu", "w-cuda0", "w-cuda1"]
    assert len({post.device.id for post in posts}) == 3
    assert all(post.named for post in posts)


def test_a_machine_with_one_device_has_one_node_under_its_own_name() -> None:
    assert names(made("--name", "w", "--device", "all")) == ["w"]
    (post,) = _posts(made())
    assert post.name == socket.gethostname()
    assert not post.named


@pytest.mark.parametrize(
    ("words", "environment", "found"),
    [
        ((), {"WORKER_ID": "w7"}, ["w7"]),
        (("--name", "mine"), {"WORKER_ID": "w7"}, ["mine"]),
        ((), {"WORKER_ID": "w7", "ANYRIG_CLUSTER_NAME": "weak"}, ["w7"]),
        ((), {"ANYRIG_CLUSTER_NAME": "weak"}, ["weak"]),
        (("--name", "w"), {"NUM_WORKERS": "3"}, ["w-1", "w-2", "w-3"]),
        (("--name", "w", "--nodes", "1"), {"NUM_WORKERS": "3"}, ["w"]),
        (("--name", "w"), {"ANYRIG_CLUSTER_NODES": "2"}, ["w-1", "w-2"]),
    ],
)
def test_names_and_numbers_of_nodes(
    words: tuple[str, ...], environment: dict[str, str], found: list[str]
) -> None:
    assert names(made(*words, environment=environment)) == found


@pytest.mark.parametrize("number", ["0", "many", "65"])
def test_a_number_of_nodes_that_is_none(number: str) -> None:
    with pytest.raises(InvalidInputError, match="NUM_WORKERS"):
        _posts(made(environment={"NUM_WORKERS": number}))


def test_a_name_that_is_none() -> None:
    with pytest.raises(InvalidInputError, match="no name for a worker"):
        _posts(made("--name", "a name"))


@pytest.mark.parametrize(
    ("words", "environment", "kind", "index"),
    [
        ((), {}, "gpu", None),
        ((), {"USE_GPU": "no"}, "cpu", None),
        ((), {"USE_GPU": "yes"}, "gpu", None),
        ((), {"USE_GPU": "auto"}, "gpu", None),
        ((), {"GPU_ID": "1"}, "gpu", 1),
        ((), {"GPU_ID": "0", "USE_GPU": "auto"}, "gpu", 0),
        ((), {"GPU_ID": "1", "USE_GPU": "no"}, "cpu", None),
        ((), {"CUDA_VISIBLE_DEVICES": ""}, "cpu", None),
        (("--device", "cuda:0"), {"USE_GPU": "no"}, "gpu", 1),  # CUDA counts the fastest first
        (("--device", "cpu"), {"GPU_ID": "1"}, "cpu", None),
    ],
)
def test_the_device_that_operators_name(
    words: tuple[str, ...], environment: dict[str, str], kind: str, index: int | None
) -> None:
    context = made(*words, machine="rtx4090-rtxpro6000-wsl2", environment=environment)
    device = chosen(context).device
    assert device.kind == kind
    assert index is None or device.indices["gpu"] == index


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--device", "cuda"), {}),
        ((), {"GPU_ID": "1"}),
        ((), {"GPU_ID": "0"}),
        ((), {"USE_GPU": "yes"}),
        ((), {"VIBEVOICE_DEVICE": "cuda"}),
    ],
)
def test_a_worker_without_the_gpu_joins_on_the_cpu_with_one_warning(
    words: tuple[str, ...], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    context = made(*words, environment=environment)
    assert chosen(context).device.kind == "cpu"
    assert chosen(context, quiet=True).device.kind == "cpu"
    assert capsys.readouterr().err.count("warning:") == 1
    with pytest.raises((DeviceUnusableError, DeviceNotFoundError)):
        chosen(made(*words, "--strict", environment=environment))


@pytest.mark.parametrize("words", [("--device", "cuda:1"), ("--gpu", "0")])
def test_a_worker_refuses_one_gpu_that_is_not_there(words: tuple[str, ...]) -> None:
    with pytest.raises(DeviceNotFoundError):
        chosen(made(*words))


def test_a_word_that_names_no_device_is_a_mistake() -> None:
    with pytest.raises(DeviceNotFoundError):
        chosen(made("--device", "foo"))


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
    assert broker_of(made(environment=environment), flag) == found


def test_the_settings_are_weaker_than_what_operators_set() -> None:
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "anyrig" / "anyrig.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[cluster]\nbroker = "redis://s/0"\n', encoding="utf-8")
    assert broker_of(made(), None) == "redis://s/0"
    assert broker_of(made(environment={"REDIS_URL": "redis://a/0"}), None) == "redis://a/0"
    assert broker_of(made(environment={"COORDINATOR_IP": "h"}), None) == "redis://h:6379/0"


def test_a_token_and_an_address_are_one_too_many(anyrig: Anyrig) -> None:
    done = anyrig("worker", "--join", "x", "--broker", "redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert "--join and --broker" in done.stderr
    done = anyrig("worker", "--join", "anyrig1_nothing")
    assert done.returncode == 2
    assert "no token" in done.stderr


def test_a_broker_that_is_not_there(anyrig: Anyrig) -> None:
    done = anyrig("worker", "--broker", "redis://127.0.0.1:1/0", "--wait", "0", "--json")
    assert done.returncode == 1
    assert "does not answer" in done.stdout
    assert done.stderr.count("does not answer") == 1


# -- precision -------------------------------------------------------------------------------------


def _card(name: str, *classes: str, kind: str = "cpu", speed: float = 0.0, **more: Any) -> Card:
    return Card(
        name, "1", kind=kind, offers=(Offer("e", "1", "f", "v"),), precisions={"e": classes},
        speeds={"e": speed} if speed else {}, **more,
    )  # fmt: skip


def test_the_precision_is_what_most_of_the_speed_prefers() -> None:
    offer = Offer("e", "1", "f", "v")
    slow, fast = _card("a", "fp32", speed=10), _card("b", "half", "fp32", kind="gpu", speed=500)
    assert precision_of("auto", offer, [slow, fast]) == "half"
    assert precision_of("auto", offer, [slow, replace(fast, speeds={"e": 5})]) == "fp32"
    # Not all are measured: then a GPU counts for many CPUs.
    assert precision_of("auto", offer, [slow, slow, replace(fast, speeds={})]) == "half"
    # Whoever has another engine has no voice in it.
    other = replace(fast, offers=(replace(offer, fingerprint="g"),))
    assert precision_of("auto", offer, [slow, other]) == "fp32"
    assert precision_of("auto", offer, []) == "fp32"
    assert precision_of("bf16", offer, [slow]) == "half"
    assert precision_of("tf32", offer, [fast]) == "fp32"


def test_a_worker_says_what_it_can_compute_in() -> None:
    context = made("--name", "w", machine="h200-linux")
    (post,) = _posts(context)
    shop = Shop(context, chosen(context), post)
    need = replace(Tone.need(Tone.find()), precisions=("fp32", "bf16"), gpu=True)
    assert set(shop._classes(need)) == {"fp32", "half"}
    assert set(shop._classes(replace(need, precisions=("fp32",)))) == {"fp32"}
    named = made("--name", "w", "--precision", "fp32", machine="h200-linux")
    assert set(Shop(named, chosen(named), post)._classes(need)) == {"fp32"}
    alone = made("--name", "w")
    shop = Shop(alone, chosen(alone), _posts(alone)[0])
    assert "tone" in {offer.engine for offer in shop.offers}
    assert shop.precisions["tone"] == ("fp32",)
    with pytest.raises(InvalidInputError, match="cannot compute in half"):
        shop.open("tone", "half", {})


def test_nodes_that_share_a_gpu_share_its_memory() -> None:
    context = made("--name", "w", "--nodes", "2", machine="h200-linux")
    posts = _posts(context)
    assert [post.number for post in posts] == [0, 1]
    budgets = []
    for post in (replace(posts[0], share=1), posts[0]):
        shop = Shop(context, chosen(context), post)
        need = replace(Tone.need(Tone.find()), gpu=True)
        budgets.append(shop._placed(need, shop._wanted()).placements[0].budget_bytes or 0)
    assert budgets[1] == pytest.approx(budgets[0] / 2, rel=0.01)


def test_nothing_is_told_of_gpus_that_did_not_answer() -> None:
    context = made(machine="h200-linux")
    look = Look(context, context.machine.gpus[0])
    look.start()
    assert look() == {"gpu_available": False, "gpu_count": 0, "gpu_memory_free_mb": 0}
    look.close()


# -- who gives it work -----------------------------------------------------------------------------


def _find_broker(cluster: str = "", environment: Mapping[str, str] | None = None) -> str:
    rig = Rig(environment={**os.environ, **(environment or {})})
    return find_broker(rig, ClusterOptions(cluster=cluster))


def test_which_commands_go_to_the_cluster() -> None:
    named = {"REDIS_URL": "redis://a/0"}
    spread = {**named, "ANYRIG_CLUSTER_SPREAD": "yes"}
    assert _find_broker() == ""
    assert _find_broker(environment=named) == ""
    assert _find_broker("redis://b/0") == "redis://b/0"
    assert _find_broker(environment=spread) == "redis://a/0"
    assert _find_broker("no", spread) == ""
    assert _find_broker("yes", named) == "redis://a/0"


def test_a_queued_book_does_not_show_the_brokers_password(anyrig: Anyrig) -> None:
    Path("b.txt").write_text("The tide came in.", encoding="utf-8")
    done = anyrig("book", "b.txt", "--queue", "--cluster", "redis://:secret@h:6379/0")
    assert done.returncode == 2
    assert "cluster.broker" in done.stderr
    done = anyrig("book", "b.txt", "--queue", "--cluster", "redis://h:6379/0", "--json")
    assert done.returncode == 0, done.stderr
    assert '"cluster": "redis://h:6379/0"' in done.stdout
