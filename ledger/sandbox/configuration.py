"""The configuration file that makes a fresh sandbox usable at once."""

import json
from collections.abc import Mapping
from pathlib import Path

from ledger.sandbox.state import SandboxCluster

CONFIGURATION_FILE = "mirror-ledger.toml"


def render_configuration(root: Path, clusters: Mapping[str, SandboxCluster]) -> str:
    """All clusters, and a flow from the first to each of the others."""
    source, *targets = clusters
    sections = [
        _section("ledger", {"path": str(root / "ledger")}),
        *(
            _section(f"clusters.{cluster.alias}", {"bootstrap_servers": cluster.bootstrap_servers})
            for cluster in clusters.values()
        ),
        *(_flow(source, target) for target in targets),
    ]
    return "\n".join(sections)


def _flow(source: str, target: str) -> str:
    return _section(
        f"flows.{source}-to-{target}",
        {"source": source, "target": target, "topics": [".*"], "groups": [".*"], "topic_naming": "prefix"},
    )


def _section(name: str, values: Mapping[str, str | list[str]]) -> str:
    # JSON strings and lists of strings are TOML as well.
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[{name}]\n{lines}"
