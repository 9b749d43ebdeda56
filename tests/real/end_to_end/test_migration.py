"""The page for whoever comes from MirrorMaker 2, typed beside a MirrorMaker of the newest release that runs."""

from collections.abc import Mapping
from pathlib import Path

from ledger.sandbox import SandboxCluster
from tests.support.clusters import servers_of
from tests.support.migrations import assert_migrated, migration


def test_a_flow_continues_in_what_a_running_mirror_maker_has_filled(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> None:
    with migration(servers_of(broker_pair), tmp_path) as made:
        assert_migrated(made)
