"""What `ClusterAdmin` promises of share groups, whichever cluster answers."""

from ledger.facts.groups import CommitRefusal, NewCommit
from tests.support.contracts.cluster_admin import Site


class ShareOffsetsContract:
    """Whoever inherits has the fixture `site`."""

    def test_start_offsets_are_set_for_a_share_group_without_members(self, site: Site) -> None:
        topic = site.topic(partitions=2)
        group = f"{site.name}-shared"
        for last in (7, 3):
            wanted = [NewCommit(site.name, at, offset, None) for at, offset in ((0, last), (1, 0), (9, 5))]
            refused = site.admin.set_share_offsets(group, wanted)
            assert refused == {(site.name, 9): CommitRefusal.NO_TOPIC}
            found = site.admin.share_offsets([group]).read
            assert [(one.topic_id, one.partition, one.start_offset) for one in found] == [
                (topic.topic_id, 0, last),
                (topic.topic_id, 1, 0),
            ]
        (listed,) = [one for one in site.admin.groups() if one.group_id == group]
        assert (listed.group_type, listed.group_state) == ("share", "Empty")

    def test_a_group_of_another_type_takes_none(self, site: Site) -> None:
        site.topic()
        wanted = [NewCommit(site.name, 0, 7, None)]
        refused = {(site.name, 0): CommitRefusal.OTHER}
        assert site.admin.set_commits(f"{site.name}-committing", wanted) == {}
        assert site.admin.set_share_offsets(f"{site.name}-committing", wanted) == refused
        assert site.admin.set_share_offsets(f"{site.name}-shared", wanted) == {}
        assert site.admin.set_commits(f"{site.name}-shared", wanted) == refused
