"""Batches that a real target refuses: only the record that it cannot take is not copied, and it is put aside."""

from confluent_kafka import Producer

from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, copying, name_of, values
from tests.support.recorded import broken_invariants, gaps, open_findings
from tests.support.runs import FLOW, run
from tests.support.site import RealSite

LARGE = b"x" * 30_000


def _write(servers: str, topic: str, *records: tuple[bytes | None, bytes]) -> None:
    """In one batch."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1000, "batch.num.messages": 10_000})
    for key, value in records:
        producer.produce(topic, value, key=key, partition=0)
    assert producer.flush(30) == 0


def test_one_refusal_is_about_one_record(site: RealSite) -> None:
    name = name_of("refused")
    large, mixed = f"{name}-large", f"{name}-mixed"
    east, west = (site.pair[alias].bootstrap_servers for alias in ("east", "west"))
    create_topics(east, [large], partitions=1)
    create_topics(west, [f"east.{large}"], partitions=1, configuration={"max.message.bytes": "20000"})
    small = [(b"k", b"%05d" % number * 200) for number in range(100)]
    _write(east, large, *small[:60], (b"large", LARGE), *small[60:])
    create_topics(east, [mixed], partitions=1)
    _write(east, mixed, (b"a", b"1"), (None, b"2"), (b"b", b"3"), (None, b"4"))
    _write(east, mixed, (None, b"5"))
    config = site.configured({FLOW: copying(f"{name}-.*", 'dead_letters = "aside.{topic}"')})
    with admin_of(config, "east") as admin:
        admin.change_settings(mixed, to_set={"cleanup.policy": "compact"}, to_remove=[])
    summary = run(config, site.spark)
    assert (summary.stopped, summary.blocked, str(summary.end)) == ([], {}, "caught_up")
    assert values(west, f"east.{large}") == [value for _, value in small]
    assert values(west, f"east.{mixed}") == [b"1", b"3"]
    [[aside]] = read_topics(west, [f"aside.east.{large}"]).values()
    assert aside.record.value == LARGE
    about = dict(aside.record.headers)
    assert (about["mirror-ledger.topic"], about["mirror-ledger.offset"]) == (large.encode(), b"60")
    assert about["mirror-ledger.cause"] == b"10 (MESSAGE_TOO_LARGE)"
    assert gaps(config, FLOW) == {"dead_letter": 1, "keyless": 3}
    assert {finding for finding, _ in open_findings(config)} == {"batches_cut", "records_put_aside"}
    assert broken_invariants(config) == {}
