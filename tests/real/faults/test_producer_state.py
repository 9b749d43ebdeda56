"""Windows in which a broker has forgotten what a producer wrote, and what protects then.

A broker that remembers answers a batch written twice with its first offset. It forgets by the age of
record timestamps, when a partition is idle for long, and nearly all over a restart. A driver that died
before it recorded what it wrote is then protected by tail reconciliation alone; a driver that was
replaced and still sends (a zombie) gets through, and what it wrote is found.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ledger.kafka.batches import BatchHeader, patch_for_target
from ledger.kafka.requests import Produced, ProduceItem
from ledger.sandbox import Sandbox
from tests.support.copies import Pair, one_answer
from tests.support.waiting import eventually

DAY_MS = 86_400_000
IDLE_MS = 3_000
WATCHFUL = {"producer.id.expiration.check.interval.ms": "300"}
RECORDS = 400
BATCHES = {"batch.num.messages": 20}  # at least twenty batches: more than the five that a broker remembers


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A cluster that looks every moment whether producers have expired: after a day, unless told otherwise."""
    made = Sandbox(tmp_path_factory.mktemp("producer-state") / "sandbox")
    try:
        made.up(["solo"], brokers=1, overrides={"solo": WATCHFUL})
        yield made
    finally:
        made.down()


@pytest.fixture
def pair(sandbox: Sandbox) -> Iterator[Pair]:
    """Source and target on that cluster."""
    servers = sandbox.status()["solo"].bootstrap_servers
    both = {"source": servers, "target": servers}
    with Pair(both, both) as made:
        yield made


def set_broker_setting(servers: str, name: str, value: str) -> None:
    """Set a dynamic setting of broker 1."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": servers})  # held until it has answered
    client.incremental_alter_configs([resource])[resource].result(30)


@contextmanager
def forgetting_after(pair: Pair, idle_ms: int) -> Iterator[None]:
    """The broker forgets producers that are idle for this long, until the body ends."""
    name = "producer.id.expiration.ms"
    set_broker_setting(pair.near["target"], name, str(idle_ms))
    try:
        yield
    finally:
        set_broker_setting(pair.near["target"], name, str(DAY_MS))


@contextmanager
def open_by_idleness(pair: Pair, sandbox: Sandbox) -> Iterator[None]:
    assert pair.producer_is_remembered()
    with forgetting_after(pair, IDLE_MS):
        eventually(lambda: not pair.producer_is_remembered(), "the broker has forgotten the idle producer")
        yield


@contextmanager
def open_by_restart(pair: Pair, sandbox: Sandbox) -> Iterator[None]:
    sandbox.stop("solo")
    sandbox.start("solo")
    yield


@contextmanager
def open_by_age(pair: Pair, sandbox: Sandbox) -> Iterator[None]:
    """Timestamps of the day before yesterday: forgotten at the next check although written a moment ago."""
    eventually(
        lambda: not pair.producer_is_remembered(), "the broker has forgotten the old records' producer"
    )
    yield


Window = Callable[[Pair, Sandbox], AbstractContextManager[None]]
# Records of two days: older than producers are remembered, younger than topics keep them.
WINDOWS = [
    pytest.param(0, open_by_idleness, id="idle"),
    pytest.param(2 * DAY_MS, open_by_age, id="old-timestamps"),
    pytest.param(0, open_by_restart, id="restart"),
]


def crash_before_recording(pair: Pair, age_ms: int) -> None:
    pair.produce(RECORDS, age_ms=age_ms, client=BATCHES)
    pair.run()
    pair.forget()


def assert_recovered(pair: Pair, age_ms: int) -> None:
    pair.produce(100, start=RECORDS, age_ms=age_ms, client=BATCHES)
    pair.run()
    assert pair.assert_same() == RECORDS + 100
    assert [(sync.recovered, sync.records) for sync in pair.syncs] == [(True, RECORDS), (False, 100)]


@pytest.mark.fault(30, 33)
def test_a_crash_before_recording_leaves_no_duplicate_while_the_broker_remembers(pair: Pair) -> None:
    crash_before_recording(pair, 0)
    assert pair.producer_is_remembered()
    assert_recovered(pair, 0)


@pytest.mark.fault(30, 33)
@pytest.mark.parametrize(("age_ms", "window"), WINDOWS)
def test_a_crash_before_recording_leaves_no_duplicate_in_any_window(
    pair: Pair, sandbox: Sandbox, age_ms: int, window: Window
) -> None:
    crash_before_recording(pair, age_ms)
    with window(pair, sandbox):
        assert_recovered(pair, age_ms)


@pytest.mark.fault(33)
def test_a_zombie_is_answered_with_the_first_offset_while_the_broker_remembers(pair: Pair) -> None:
    pair.produce(RECORDS, client=BATCHES)
    pair.run()
    last, answer = resend_the_last_batch(pair)
    assert (answer.error, answer.base_offset) == (0, last.base_offset)
    assert pair.ends("target") == {0: RECORDS}
    assert pair.assert_same() == RECORDS


@pytest.mark.fault(33)
def test_a_zombie_gets_through_in_a_window_and_is_found(pair: Pair, sandbox: Sandbox) -> None:
    """The broker takes the batch a second time. The next task sees records that the ledger does not know."""
    pair.produce(RECORDS, client=BATCHES)
    pair.run()
    with open_by_idleness(pair, sandbox):
        last, answer = resend_the_last_batch(pair)
        assert (answer.error, answer.base_offset) == (0, RECORDS)
        assert pair.ends("target") == {0: RECORDS + last.count}, "this is what the window lets through"
        pair.produce(100, start=RECORDS, client=BATCHES)
        (result,) = pair.run(seconds=10)
    assert result.stop is not None
    assert str(result.stop.cause) == "tail_mismatch"
    assert f"target offset {RECORDS} holds {last.count} records" in result.stop.message
    assert pair.ends("target") == {0: RECORDS + last.count}, "nothing was written after it"


def resend_the_last_batch(pair: Pair) -> tuple[BatchHeader, Produced]:
    """Send again, as a replaced driver would, the bytes that the target holds as its last batch.

    How many records that batch holds depends on how fast the client was: its header says it.
    """
    target = pair.at("target")
    with closing(pair.network()) as network:
        header, batch = pair.stored("target", network=network)[-1]
        patch_for_target(
            batch, header.attributes, producer_id=header.producer_id, sequence=header.base_sequence
        )
        node = network.target.leader(target)
        assert node is not None
        network.target.produce(node, [ProduceItem(target, batch)], timeout_ms=5_000)
        (produced,) = one_answer(network).produced
        assert produced is not None
        return header, produced
