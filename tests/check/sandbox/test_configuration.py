"""The configuration of a fresh sandbox is one that commands take."""

from pathlib import Path

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.sandbox.configuration import render_configuration
from ledger.sandbox.state import SandboxCluster


def configured(folder: Path, *aliases: str) -> MirrorConfig:
    clusters = {alias: SandboxCluster(alias, f"{alias}:9092", f"{alias}-id", ()) for alias in aliases}
    file = folder / "mirror-ledger.toml"
    file.write_text(render_configuration(folder, clusters), encoding="utf-8")
    return load_config(file)


def test_two_clusters_are_opposite_with_the_same_names(tmp_path: Path) -> None:
    config = configured(tmp_path, "east", "west")
    assert {flow.name: flow.opposite for flow in config.enabled_flows} == {
        "east-to-west": "west-to-east",
        "west-to-east": "east-to-west",
    }
    assert config.flow("west-to-east").naming.target_name("orders") == "orders"


def test_more_clusters_get_prefixed_copies_of_the_first(tmp_path: Path) -> None:
    config = configured(tmp_path, "east", "west", "north")
    assert {flow.name: flow.naming.target_name("orders") for flow in config.enabled_flows} == {
        "east-to-west": "east.orders",
        "east-to-north": "east.orders",
    }
