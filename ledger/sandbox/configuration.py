"""The configuration file that makes a fresh sandbox usable at once."""

import json
from collections.abc import Mapping
from pathlib import Path

from ledger.sandbox.state import SandboxCluster

CONFIGURATION_FILE = "mirror-ledger.toml"


def render_configuration(root: Path, clusters: Mapping[str, SandboxCluster]) -> str:
    """All clusters, and their flows.

    Of two clusters a flow each way, with the same names and one direction at a time, so that applications can move. Of
    more a flow from the first to each of the others, with prefixes.
    """
    sections = [
        _section("ledger", {"path": str(root / "ledger")}),
        *(
            _section(f"clusters.{cluster.alias}", {"bootstrap_servers": cluster.bootstrap_servers})
            for cluster in clusters.values()
        ),
        *_flows(*clusters),
    ]
    return "\n".join(sections)


def _flows(source: str, *targets: str) -> list[str]:
    if len(targets) == 1:
        [target] = targets
        return [_opposite_flow(source, target), _opposite_flow(target, source)]
    return [_flow(source, target, {"topic_naming": "prefix"}) for target in targets]


def _opposite_flow(source: str, target: str) -> str:
    return _flow(source, target, {"topic_naming": "identity", "opposite": f"{target}-to-{source}"})


def _flow(source: str, target: str, names: Mapping[str, str]) -> str:
    return _section(
        f"flows.{source}-to-{target}",
        {"source": source, "target": target, "topics": [".*"], "groups": [".*"], **names},
    )


def _section(name: str, values: Mapping[str, str | list[str]]) -> str:
    # JSON strings and lists of strings are TOML as well.
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[{name}]\n{lines}"
