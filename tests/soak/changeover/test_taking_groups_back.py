"""What an apply or an operator by hand has done with a group is verified, and taken back until it has read on."""

import json
import threading

from ledger.config.mirror import MirrorConfig
from ledger.facts.groups import NewCommit
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, consumed, copying, name_of, produce
from tests.support.plans import OFTEN, UNFENCED, verified
from tests.support.recorded import operations, query
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually


def commits(config: MirrorConfig, group: str) -> dict[tuple[str, int], int | None]:
    """At the target."""
    with admin_of(config, "west") as admin:
        listed = [one for one in admin.groups() if one.group_id == group]
        return {
            (one.topic, one.partition): one.committed_offset for one in admin.commits(listed, topic_ids={})
        }


def commit(config: MirrorConfig, group: str, topic: str, offset: int) -> None:
    with admin_of(config, "west") as admin:
        assert admin.set_commits(group, [NewCommit(topic, 0, offset, "")]) == {}


def read_but_the_last(site: RealSite) -> tuple[MirrorConfig, str, str, str]:
    """A configuration, a topic at east with four records, a group that has read three, and the copy's name."""
    east = site.pair["east"].bootstrap_servers
    topic, group = name_of("orders"), name_of("billing")
    config = site.configured({FLOW: copying(topic, OFTEN)})
    create_topics(east, [topic], partitions=1)
    produce(east, topic, *"abc")
    assert consumed(east, topic, group) == [b"a", b"b", b"c"]
    produce(east, topic, "d")
    return config, topic, group, f"east.{topic}"


def test_what_a_job_commits_between_the_reading_and_the_setting_stays(site: RealSite) -> None:
    config, _, group, copied = read_but_the_last(site)
    words = ("offsets", "set", "--from", "east", "--to", "west", "--group", group)

    def would_be_set() -> bool:
        return '"target_offset": 3' in site.command(config, *words, "--dry-run", "-o", "json").out

    with site.running(config):
        eventually(would_be_set, "the group is recorded, and what it has read is copied")
        job = threading.Timer(2.0, commit, [config, group, copied, 4])
        job.start()
        found = site.command(config, *words, "--watch", "6", "-o", "json")
        job.join()
    [line] = json.loads(found.out)
    assert (found.code, line["former_offset"], line["result"]) == (5, 4, "newer"), found.err
    assert commits(config, group) == {(copied, 0): 4}


def test_a_moved_group_is_verified_and_taken_back(site: RealSite) -> None:
    config, topic, group, copied = read_but_the_last(site)
    with site.running(config):
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        plan_id = site.planned(config, "switchover", *UNFENCED, "--group", group)
        applied = site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
        operation = applied.out.strip()

        def undo() -> int:
            return site.command(config, "undo", operation, "--reason", "back", "--yes").code

        fine = dict.fromkeys(("steps", "cluster", "late_write", "cut", "audit", "group"), "ok")
        assert verified(site.capsys, config, operation) == (0, {**fine, "fence": "accepted"}), "there is none"
        commit(config, group, copied, 2)
        found = verified(site.capsys, config, operation)
        assert (found[0], found[1]["group"]) == (4, "not_ok")
        commit(config, group, copied, 4)
        assert undo() == 5, "it has read on"
        assert commits(config, group) == {(copied, 0): 4}
        commit(config, group, copied, 3)
        assert (undo(), commits(config, group)) == (0, {})
        assert (undo(), len(operations(config, "undone"))) == (0, 1)
        by_hand = ("--group", group, "--watch", "0", "--reason", "by hand")
        site.done(config, "offsets", "set", "--from", "east", "--to", "west", *by_hand)
        [*_, recorded] = operations(config, "offsets_set")
        assert commits(config, group) == {(copied, 0): 3}
        asked = (
            "select operation_id, left_offset, arrived_offset, to_topic from group_moves order by moved_at_ms"
        )
        known = json.loads(site.command(config, "sql", asked, "-o", "json").out)
        assert known[-1] == {
            "operation_id": recorded["operation_id"],
            "left_offset": 3,
            "arrived_offset": 3,
            "to_topic": copied,
        }

        def way_back() -> list[object]:
            asked = ("offsets", "translate", "--from", "west", "--to", "east", "--group", group, "-o", "json")
            [place] = json.loads(site.command(config, *asked).out or "[{}]")
            return [place.get(name) for name in ("target_topic", "target_offset", "repeated")]

        eventually(lambda: way_back() == [topic, 3, 0], "it goes back to exactly where it was")
    for words in (("undo", "no-such", "--reason", "back", "--yes"), ("verify", "no-such")):
        assert site.command(config, *words).code == 2
