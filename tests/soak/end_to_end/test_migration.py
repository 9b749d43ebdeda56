"""The page for whoever comes from MirrorMaker 2, typed beside one of the newest release and beside an older one."""

from collections.abc import Mapping
from pathlib import Path

from ledger.sandbox import SandboxCluster
from tests.support.clusters import servers_of
from tests.support.migrations import assert_migrated, migration
from tests.support.releases import BEFORE_4, old_clusters


def test_a_flow_continues_in_what_a_running_mirror_maker_has_filled(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> None:
    with migration(servers_of(broker_pair), tmp_path) as made:
        assert_migrated(made)


def test_a_flow_continues_in_what_an_older_mirror_maker_has_filled(tmp_path: Path) -> None:
    with (
        old_clusters(tmp_path, dict.fromkeys(("east", "west"), BEFORE_4)) as sandbox,
        migration(servers_of(sandbox.status()), tmp_path) as made,
    ):
        assert_migrated(made, release=BEFORE_4)
