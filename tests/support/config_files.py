"""The configuration of flows under test, as a user would write it, and what is wrong with one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.errors import ConfigurationError
from tests.support.runs import FLOW
from tests.support.stores import Store

EAST_TO_WEST = 'source = "east"\ntarget = "west"\n'


def write_config(
    folder: Path,
    clusters: Mapping[str, str],
    flows: Mapping[str, str],
    *,
    properties: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> MirrorConfig:
    """`mirror.toml` in a folder, loaded; the ledger lies beside it, or in a store.

    `clusters` gives bootstrap servers by alias, `flows` the other lines of each flow by its name, and
    `properties` further lines of clusters by alias. A flow goes from `east` to `west` unless it names its source.
    """
    path = folder / "ledger" if store is None else store.path
    parts = ["\n".join(["[ledger]", f'path = "{path}"', *(store.lines if store is not None else ()), ""])]
    for alias, servers in clusters.items():
        more = (properties or {}).get(alias, "")
        parts.append(f'[clusters.{alias}]\nbootstrap_servers = "{servers}"\n{more}\n')
    for name, lines in flows.items():
        way = "" if "source = " in lines else EAST_TO_WEST
        parts.append(f"[flows.{name}]\n{way}{lines}\n")
    file = folder / "mirror.toml"
    file.write_text("".join(parts), encoding="utf-8")
    return load_config(file)


def write_flow(folder: Path, clusters: Mapping[str, str], *lines: str) -> MirrorConfig:
    """The configuration of one flow, from `east` to `west`, in rounds of a second; `lines` say the rest."""
    return write_config(folder, clusters, {FLOW: "\n".join(("round_seconds = 1.0", *lines))})


BASE = """
[ledger]
path = "ledger"
[clusters.east]
bootstrap_servers = "east:9092"
[clusters.west]
bootstrap_servers = "west:9092"
"""
FLOW_TEXT = """
[flows.east-to-west]
source = "east"
target = "west"
topics = ["orders"]
"""


def load(folder: Path, text: str) -> MirrorConfig:
    file = folder / "mirror.toml"
    file.write_text(text)
    return load_config(file)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, text)
    assert all(line.startswith(str(folder / "mirror.toml")) for line in str(caught.value).splitlines())
    return caught.value.problems
