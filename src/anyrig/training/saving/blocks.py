"""Which modules of a model are its repeated blocks: layers of a transformer, units of a ResNet.

Found by type: a class that is there several times inside a list or a sequence, and holds most of
the parameters. Nothing is run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import nn

from anyrig.errors import InvalidSettingError

_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
# So few outer blocks are stages: the units inside them are taken when these hold most of them.
_STAGES, _MOST = 6, 0.7
# A second class of blocks counts from this share of the parameters on: a decoder's layers beside
# an encoder's, attention beside the units of a U-Net.
_ALSO = 0.05


class Kind(NamedTuple):
    """A class of modules that a model holds several times."""

    name: str
    members: Mapping[str, nn.Module]
    """By their names in the model."""
    num_parameters: int


def blocks_of(model: nn.Module, types: Sequence[str] = ()) -> dict[str, nn.Module]:
    """The repeated blocks by name, none inside another; an error with words where there are none.

    Args:
        model: any module.
        types: class names of the blocks, to say it oneself.
    """
    if types:
        return _named(model, types)
    found = _repeated(model)
    if not found:
        raise InvalidSettingError(
            f"{type(model).__name__} has no repeated blocks",
            hint="Name their classes in recompute_types.",
        )
    return found


def parts_of(model: nn.Module, types: Sequence[str] = ()) -> dict[str, nn.Module]:
    """What of a model can be computed again: of every model something, none inside another.

    Its repeated blocks; else a single block in a list, as in a model of one layer; else plain
    sequences of layers, which `recompute` cuts into segments; else the whole model.
    """
    if types:
        return _named(model, types)
    found = _repeated(model)
    if found:
        return found
    single = _outermost(dict(_candidates(model, in_containers=True)))
    sequences = _outermost({name: one for name, one in model.named_modules() if is_sequence(one)})
    # Embeddings and a head may well be larger than a single block, and keep next to nothing.
    for some, least in ((single, 0.1), (sequences, 0.5)):
        others = sequences if some is single else single
        share = _total(some) / max(1, _size(model))
        if some and share >= least and _total(some) >= _total(others):
            return some
    return {"": model}


def is_sequence(module: nn.Module) -> bool:
    """Whether a module only runs its layers one after another."""
    return (
        isinstance(module, nn.Sequential)
        and type(module).forward is nn.Sequential.forward
        and len(module) > 1
    )


def _repeated(model: nn.Module) -> dict[str, nn.Module]:
    for inside in (True, False):
        kinds = _kinds(model, in_containers=inside)
        if kinds:
            return _outermost(_chosen(kinds, _size(model)))
    return {}


def _chosen(kinds: Sequence[Kind], total: int) -> dict[str, nn.Module]:
    first = max(kinds, key=lambda kind: kind.num_parameters)
    while len(first.members) <= _STAGES:
        inner = [kind for kind in kinds if _finer(kind, first)]
        if not inner:
            break
        first = max(inner, key=lambda kind: kind.num_parameters)
    found = dict(first.members)
    for kind in sorted(kinds, key=lambda one: -one.num_parameters):
        if kind.num_parameters >= _ALSO * total and not _overlaps(kind.members, found):
            found.update(kind.members)
    return found


def _finer(kind: Kind, outer: Kind) -> bool:
    """Whether a kind's members are the units that stages are made of."""
    if kind is outer or len(kind.members) <= len(outer.members):
        return False
    inside = all(any(_within(name, stage) for stage in outer.members) for name in kind.members)
    return inside and kind.num_parameters >= _MOST * outer.num_parameters


def _kinds(model: nn.Module, *, in_containers: bool) -> list[Kind]:
    """Classes with several members that are worth a block; one that lies in its own kind is not."""
    members: dict[type[nn.Module], dict[str, nn.Module]] = {}
    for name, module in _candidates(model, in_containers=in_containers):
        members.setdefault(type(module), {})[name] = module
    found = []
    for kind, those in members.items():
        outer = _outermost(those)
        if len(outer) > 1:
            found.append(Kind(kind.__name__, outer, sum(_size(one) for one in outer.values())))
    return [kind for kind in found if kind.num_parameters]


def _candidates(model: nn.Module, *, in_containers: bool) -> Iterator[tuple[str, nn.Module]]:
    """Modules made of others. What is one layer saves nothing when it is computed again."""
    for name, module in model.named_modules():
        direct = isinstance(module, _CONTAINERS)
        if in_containers != direct:
            continue
        for inner, child in module.named_children():
            if isinstance(child, _CONTAINERS) or not any(True for _ in child.children()):
                continue
            yield f"{name}.{inner}" if name else inner, child


def _named(model: nn.Module, types: Sequence[str]) -> dict[str, nn.Module]:
    classes = {type(one).__name__ for one in model.modules()}
    for word in types:
        if word not in classes:
            near = difflib.get_close_matches(word, classes, n=1)
            there = ", ".join(sorted(classes)[:12])
            hint = f"Did you mean {near[0]!r}?" if near else f"It is made of: {there}."
            raise InvalidSettingError(
                f"{type(model).__name__} has no module of class {word!r}", hint=hint
            )
    wanted = set(types)
    return _outermost(
        {name: one for name, one in model.named_modules() if type(one).__name__ in wanted}
    )


def _outermost(found: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Without those that lie in another one."""
    return {
        name: one for name, one in found.items()
        if not any(_within(name, other) for other in found if other != name)
    }  # fmt: skip


def _overlaps(some: Mapping[str, nn.Module], others: Mapping[str, nn.Module]) -> bool:
    return any(
        name == other or _within(name, other) or _within(other, name)
        for name in some for other in others
    )  # fmt: skip


def _within(name: str, outer: str) -> bool:
    return not outer or name.startswith(f"{outer}.")


def _total(some: Mapping[str, nn.Module]) -> int:
    return sum(_size(one) for one in some.values())


def _size(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())
