"""Windows in which a broker has forgotten what a producer wrote, and what protects then.

A broker that remembers answers a batch written twice with its first offset. It forgets by the age of
record timestamps, when a partition is idle for long, and nearly all over a restart. A driver that died
before it recorded what it wrote is then protected by tail reconciliation alone; a driver that was
replaced and still sends (a zombie) gets through, and what it wrote is found.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from ledger.ports import ProduceItem
from ledger.sandbox import Sandbox
from ledger.wire.record_batch import patch_for_target
from ledger.wire.requests import Produced
from tests.support.copies import Pair, one_answer
from tests.support.elections import wait_for

DAY_MS = 86_400_000
EXPIRES_S = 3.0
FORGETFUL = {
    "producer.id.expiration.ms": str(int(EXPIRES_S * 1000)),
    "producer.id.expiration.check.interval.ms": "300",
}
RECORDS = 400
BATCHES = {"batch.num.messages": 20}  # twenty: more than the five that a broker remembers


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path_factory.mktemp("producer-state") / "sandbox")
    try:
        made.up(["lasting", "forgetful"], brokers=1, overrides={"forgetful": FORGETFUL})
        yield made
    finally:
        made.down()


@pytest.fixture
def pair_on(sandbox: Sandbox) -> Iterator[Callable[[str], Pair]]:
    """Source and target on one of the two clusters."""
    made: list[Pair] = []

    def make(alias: str) -> Pair:
        servers = sandbox.status()[alias].bootstrap_servers
        made.append(Pair({"source": servers, "target": servers}, {"source": servers, "target": servers}))
        return made[-1].__enter__()

    yield make
    for pair in made:
        pair.__exit__()


def open_nothing(pair: Pair, sandbox: Sandbox) -> None:
    assert pair.producer_is_remembered()


def open_by_idleness(pair: Pair, sandbox: Sandbox) -> None:
    assert pair.producer_is_remembered()
    wait_for(lambda: not pair.producer_is_remembered(), "the broker has forgotten the idle producer")


def open_by_restart(pair: Pair, sandbox: Sandbox) -> None:
    sandbox.stop("lasting")
    sandbox.start("lasting")


def open_by_age(pair: Pair, sandbox: Sandbox) -> None:
    """Timestamps of last week: forgotten at the next check although written a moment ago."""
    wait_for(
        lambda: not pair.producer_is_remembered(),
        "the broker has forgotten the old records' producer",
        EXPIRES_S / 2,
    )


WINDOWS = [
    pytest.param("lasting", 0, open_nothing, id="none", marks=pytest.mark.soak),
    pytest.param("forgetful", 0, open_by_idleness, id="idle"),
    pytest.param("forgetful", 7 * DAY_MS, open_by_age, id="old-timestamps"),
    pytest.param("lasting", 0, open_by_restart, id="restart"),
]


@pytest.mark.fault(30, 33)
@pytest.mark.parametrize(("alias", "age_ms", "window"), WINDOWS)
def test_a_crash_before_recording_leaves_no_duplicate_in_any_window(
    pair_on: Callable[[str], Pair],
    sandbox: Sandbox,
    alias: str,
    age_ms: int,
    window: Callable[[Pair, Sandbox], None],
) -> None:
    pair = pair_on(alias)
    pair.produce(RECORDS, age_ms=age_ms, **BATCHES)
    pair.run()
    pair.forget()
    window(pair, sandbox)
    pair.produce(100, start=RECORDS, age_ms=age_ms, **BATCHES)
    pair.run()
    assert pair.assert_same() == RECORDS + 100
    assert [(sync.recovered, sync.records) for sync in pair.syncs] == [(True, RECORDS), (False, 100)]


@pytest.mark.fault(33)
def test_a_zombie_is_answered_with_the_first_offset_while_the_broker_remembers(
    pair_on: Callable[[str], Pair],
) -> None:
    pair = pair_on("lasting")
    pair.produce(RECORDS, **BATCHES)
    pair.run()
    answer = resend_the_last_batch(pair)
    assert (answer.error, answer.base_offset) == (0, RECORDS - 20)
    assert pair.ends("target") == {0: RECORDS}
    assert pair.assert_same() == RECORDS


@pytest.mark.fault(33)
def test_a_zombie_gets_through_in_a_window_and_is_found(
    pair_on: Callable[[str], Pair], sandbox: Sandbox
) -> None:
    """The broker takes the batch a second time. The next task sees records that the ledger does not know."""
    pair = pair_on("forgetful")
    pair.produce(RECORDS, **BATCHES)
    pair.run()
    open_by_idleness(pair, sandbox)
    answer = resend_the_last_batch(pair)
    assert (answer.error, answer.base_offset) == (0, RECORDS)
    assert pair.ends("target") == {0: RECORDS + 20}, "this is what the window lets through"
    pair.produce(100, start=RECORDS, **BATCHES)
    (result,) = pair.run(seconds=10)
    assert result.stop is not None
    assert str(result.stop.cause) == "tail_mismatch"
    assert f"target offset {RECORDS} holds 20 records of this flow" in result.stop.message
    assert pair.ends("target") == {0: RECORDS + 20}, "nothing was written after it"


def resend_the_last_batch(pair: Pair) -> Produced:
    """Send again, as a replaced driver would, the bytes that the target holds as its last batch."""
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
        return produced
