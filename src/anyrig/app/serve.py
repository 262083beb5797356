"""The options of `anyrig serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anyrig.app.cluster import ClusterOptions
from anyrig.app.compute import ComputeOptions
from anyrig.app.settings import ListenOptions
from anyrig.options import option

Preload = Literal["speech", "embeddings", "documents", "entities", "summarise", "classify"]
PRELOADS: tuple[str, ...] = get_args(Preload)


@dataclass(frozen=True, kw_only=True)
class ServeRequest(ListenOptions, ComputeOptions, ClusterOptions):
    """The server."""

    preload: tuple[Preload, ...] = option(
        (), "load models before the server is ready; default: speech,embeddings;"
        f" any of {', '.join(PRELOADS)}", metavar="NAMES", const="speech,embeddings",
    )  # fmt: skip
    insecure: bool | None = option(
        None, "allow access without an API key on any address",
        excludes="require_keys",
    )  # fmt: skip
    require_keys: bool | None = option(None, "require API keys on this machine too")
    no_page: bool = option(False, "serve the API only, without the web page")
    no_cache: bool = option(False, "do not read or write the result cache")
    no_jobs: bool = option(False, "queue jobs without running them")
    log_json: bool = option(False, "log requests and events as lines of JSON")
