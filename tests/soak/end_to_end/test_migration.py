"""The page for whoever comes from MirrorMaker 2, typed beside a MirrorMaker and brokers of Kafka 3.9."""

from pathlib import Path

from tests.support.clusters import servers_of
from tests.support.migrations import assert_migrated, migration
from tests.support.releases import BEFORE_4, old_clusters


def test_a_flow_continues_in_what_an_older_mirror_maker_has_filled(tmp_path: Path) -> None:
    with (
        old_clusters(tmp_path, dict.fromkeys(("east", "west"), BEFORE_4)) as sandbox,
        migration(servers_of(sandbox.status()), tmp_path) as made,
    ):
        assert_migrated(made, release=BEFORE_4)
