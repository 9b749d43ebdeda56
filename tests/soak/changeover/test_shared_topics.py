"""Switchovers where a topic is fed from several sides, all of which are written all the time."""

import json
from collections import Counter

from ledger.answers.maintenance import init_ledger
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import Pair, config_of, name_of, values
from tests.support.plans import BY_HOOK, SHUT, receipts, shared
from tests.support.recorded import broken_invariants, operations
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually


def test_groups_and_producers_of_an_active_active_pair_move_and_repeat_what_was_said(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    flows = {FLOW: shared(topic, "east", "west"), "west-to-east": shared(topic, "west", "east")}
    config = site.configured(flows)
    for servers in (east, west):
        create_topics(servers, [topic], partitions=2)
    here, there = Shop(topic, 2), Shop(topic, 2, _number=1_000_000)
    moving, staying = Desk(name_of("billing")), Desk(name_of("audit"))
    options = (*BY_HOOK, "--group", moving.group)
    with (
        site.running(config),
        site.running(config, "west-to-east"),
        staying.open(west, [topic]),
    ):
        with there.selling(west, pause_s=0.05):
            with moving.open(east, [topic]), here.selling(east, pause_s=0.05):
                eventually(lambda: moving.is_at_work(60), "the group is at work")
                eventually(lambda: any(one in moving.processed for one in there.written), "it reads of both")
                # What west writes now comes to it behind what east writes now: their orders differ.
                site.done(config, "pause", "west-to-east", "--reason", "a drill")
                sold, read = len(there.written), len(moving.processed)
                eventually(lambda: len(there.written) > sold + 30, "west sells")
                eventually(lambda: len(moving.processed) > read + 40, "east reads its own")

            def forecast() -> object:
                asked = ("plan", "switchover", *options, "--from", "east", "--to", "west", "-o", "json")
                [found] = json.loads(site.command(config, *asked).out)
                return found["forecast"]["repeated"]

            eventually(lambda: forecast() == repeats(west, topic, moving.processed), "what the logs say")
            site.done(config, "resume", "west-to-east", "--reason", "a drill")
            plan_id = site.planned(config, "switchover", *options)
            sold = len(there.written)
            site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
            assert len(there.written) > sold, "west is written all the while"
            expected = repeats(west, topic, moving.processed)
        with moving.open(west, [topic]):
            here.sell(west, 50)
            everything = {*here.written, *there.written}
            eventually(lambda: set(moving.processed) >= everything, "nothing is lost")
        eventually(lambda: set(staying.processed) >= everything, "nothing is lost at the other side")
        eventually(lambda: set(values(east, topic)) >= everything, "both flows go on")
    assert expected > 0
    assert moving.repeated.total() == expected
    assert receipts(config)["move_groups"]["read_back"]["repeated"] == expected
    assert staying.repeated == Counter()
    assert Counter(values(east, topic)) == Counter(values(west, topic)) == Counter(everything)
    assert operations(config, "promoted") == []
    assert broken_invariants(config) == {}


def test_of_a_fan_in_one_source_moves_and_nobody_notices_at_the_other(site: RealSite, north: Pair) -> None:
    clusters = {alias: site.pair[alias] for alias in ("east", "west")} | dict(north)
    east, west, far = (clusters[alias].bootstrap_servers for alias in ("east", "west", "north"))
    topic = name_of("orders")
    flows = {FLOW: shared(topic, "east", "west"), "other": shared(topic, "north", "west")}
    config = config_of(site.folder, clusters, flows)
    init_ledger(config)
    for servers in (east, west, far):
        create_topics(servers, [topic], partitions=2)
    here, there = Shop(topic, 2), Shop(topic, 2, _number=1_000_000)
    moving, staying, watching = (Desk(name_of(name)) for name in ("billing", "far-billing", "audit"))
    with (
        site.running(config),
        site.running(config, "other"),
        watching.open(west, [topic]),
        staying.open(far, [topic]),
    ):
        with there.selling(far, pause_s=0.05):
            with moving.open(east, [topic]):
                here.sell(east, 100)
                eventually(lambda: moving.is_at_work(100), "the group is at work")
            plan_id = site.planned(config, "switchover", *SHUT)
            sold = len(there.written)
            site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
            assert len(there.written) > sold, "the other source is written all the while"
        with moving.open(west, [topic]):
            here.sell(west, 50)
            everything = {*here.written, *there.written}
            eventually(lambda: set(moving.processed) >= set(here.written), "nothing of its source is lost")
            eventually(lambda: set(watching.processed) == everything, "the other flow goes on")
            eventually(lambda: set(staying.processed) == set(there.written), "so does the other group")
    own = Counter(one for one in moving.processed if one in set(here.written))
    assert (own.total(), receipts(config)["move_groups"]["read_back"]["repeated"]) == (150, 0)
    assert (watching.repeated, staying.repeated) == (Counter(), Counter())
    assert [one["group"] for one in operations(config, "offsets_set")] == [moving.group]
    assert operations(config, "promoted") == []
    assert broken_invariants(config) == {}


def repeats(servers: str, topic: str, processed: list[bytes]) -> int:
    """What somebody reads again who begins each partition at its first record that is not processed."""
    done, found = set(processed), 0
    for placed in read_topics(servers, [topic]).values():
        written = [one.record.value for one in placed]
        unread = next((at for at, value in enumerate(written) if value not in done), len(written))
        found += sum(value in done for value in written[unread:])
    return found
