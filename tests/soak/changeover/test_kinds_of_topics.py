"""Changes of direction of compacted topics, and of one that is written in transactions."""

import threading
import time

import pytest
from confluent_kafka import KafkaException

from ledger.sandbox.log_gaps import CLEANED_QUICKLY, wait_until_cleaned
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import Delivery, RecordSource, Workload, create_topics
from tests.support.following import name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, both_ways, lost_now, receipts
from tests.support.recorded import broken_invariants, operations
from tests.support.runs import FLOW
from tests.support.shops import Desk, beside, transaction
from tests.support.site import RealSite
from tests.support.waiting import eventually


def test_groups_move_over_cleaned_offsets_and_transactions_that_were_open_at_the_fence(
    site: RealSite,
) -> None:
    east, west = site.servers
    name = name_of("shop")
    stock, deals = f"{name}-stock", f"{name}-deals"
    config = site.configured(both_ways(f"{name}-.*"))
    create_topics(east, [deals], partitions=1)
    create_topics(east, [stock], partitions=1, configuration=CLEANED_QUICKLY)
    desk = Desk(name_of("billing"))
    source = RecordSource(Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000 - 60_000))
    options = (*SHUT, "--group", desk.group, "--abort-open-transactions-after", "20")
    with site.running(config):
        overwrite(east, stock, source, 300)
        transaction(east, deals, f"{name}-1", b"deal-1", b"deal-2").commit_transaction(10)
        transaction(east, deals, f"{name}-2", b"never-1", b"never-2").abort_transaction(10)
        with desk.open(east, [stock, deals]):
            eventually(
                lambda: set(desk.processed) >= {*last(east, stock), b"deal-1", b"deal-2"}, "it is at work"
            )
        read = len(desk.processed)
        overwrite(east, stock, source, 1500)
        assert wait_until_cleaned(east, stock)[0] > 1000, "the commit lies where no record is any more"
        pending = transaction(east, deals, f"{name}-3", b"deal-3")
        left_open = transaction(east, deals, f"{name}-4", b"never-3")
        plan_id = site.planned(config, "switchover", *options)

        def commit(_is_over: threading.Event) -> None:
            eventually(lambda: operations(config, "fence") != [], "the fence is begun")
            pending.commit_transaction(10)

        with beside(commit):
            applied = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert applied.code == 0, applied.err
        with pytest.raises(KafkaException):
            left_open.commit_transaction(10)
        with desk.open(west, [stock, deals]):
            eventually(lambda: set(desk.processed) >= {*last(east, stock), b"deal-3"}, "nothing is lost")
    numbered = [value for value in desk.processed[read:] if value]
    assert len(numbered) == len(set(numbered) - set(desk.processed[:read])), "nothing is processed twice"
    assert not any(value.startswith(b"never") for value in desk.processed)
    assert values(west, deals) == [b"deal-1", b"deal-2", b"deal-3"]
    assert set(last(west, stock)) == set(last(east, stock))
    assert "not_ok" not in site.command(config, "verify", applied.out.strip()).out
    assert receipts(config)["cut"]["read_back"]["loss"]["records_lost"] == 0
    assert broken_invariants(config) == {}


def test_what_of_a_compacted_topic_was_copied_is_processed_after_a_failover(site: RealSite) -> None:
    east, west = site.servers
    stock, desk = name_of("stock"), Desk(name_of("billing"))
    config = site.configured(both_ways(stock))
    create_topics(east, [stock], partitions=1, configuration=CLEANED_QUICKLY)
    source = RecordSource(Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000 - 60_000))
    with site.running(config):
        overwrite(east, stock, source, 300)
        with desk.open(east, [stock]):
            eventually(lambda: set(desk.processed) >= {*last(east, stock)}, "it is at work")
        read = len(desk.processed)
        overwrite(east, stock, source, 1500)
        assert wait_until_cleaned(east, stock)[0] > 1000, "the commit lies where no record is any more"
        copied = set(last(east, stock))
        eventually(lambda: set(last(west, stock)) == copied, "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "a drill", "--wait", "60")
        overwrite(east, stock, source, 200)
        [ends] = read_topics(east, [stock]).values()
        eventually(lambda: (lost_now(config)[0]["known_end"] or 0) > ends[-1].offset, "its ends are recorded")
        behind = set(last(east, stock)) - copied
        with lost(site.sandbox):
            options = (*DEAD, "--accept=mirror_not_shut_out", "--group", desk.group)
            plan_id = site.planned(config, "failover", *options)
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
            with desk.open(west, [stock]):
                eventually(lambda: set(desk.processed) >= copied, "what was copied is processed")
    numbered = [value for value in desk.processed[read:] if value]
    assert len(numbered) == len(set(numbered) - set(desk.processed[:read])), "nothing is processed twice"
    assert behind - {b""}
    assert not (behind - {b""}) & set(desk.processed)
    [loss] = operations(config, "apply_ended")[-1]["figures"]["losses"]
    assert loss["copied_to"] <= min(
        one.offset for one in ends if (one.record.value or b"-") in behind - {b""}
    )
    assert loss["known_end"] > ends[-1].offset
    assert broken_invariants(config) == {}


def overwrite(servers: str, topic: str, source: RecordSource, records: int) -> None:
    """So many new values for few keys, in many small batches."""
    delivery = Delivery(servers, {"batch.num.messages": "50"})
    for record in source.overwrite(topic, records, keys=20):
        delivery.send(topic, 0, record)
    delivery.finish()


def last(servers: str, topic: str) -> list[bytes]:
    """The newest value of each key, empty where it was deleted."""
    [placed] = read_topics(servers, [topic]).values()
    newest = {one.record.key: one.record.value or b"" for one in placed}
    return list(newest.values())
