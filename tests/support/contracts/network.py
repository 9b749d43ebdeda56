"""What `Network` promises when brokers answer, hang, are cut off or refuse connections.

What a copy task rests on: every ticket comes back once, with an answer or with a failure that says that the outcome
is not known. Trouble with one broker is neither an exception of a request nor anybody else's trouble.
"""

import time
from dataclasses import dataclass, field
from typing import Protocol

from ledger.errors import ClusterUnavailableError
from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import batches
from ledger.kafka.copying import ClusterLink, Completion, Network
from ledger.kafka.requests import FetchItem, ProduceItem
from tests.support.contracts.broker_rules import NOW_MS, batch_of
from tests.support.contracts.cluster_admin import Site
from tests.support.waiting import eventually

_WITHIN_S = 20.0
_ENOUGH = 1 << 20


class Line(Protocol):
    """The way to the only broker of the target cluster, and what goes wrong there."""

    def hang(self) -> None:
        """Requests are taken, and connections; nothing is answered until `wake`."""
        ...

    def wake(self) -> None: ...

    def cut(self) -> None:
        """All connections end; new ones are taken."""
        ...

    def refuse(self) -> None:
        """All connections end, and new ones are refused until `accept`."""
        ...

    def accept(self) -> None: ...


@dataclass(slots=True)
class Far:
    """A network between clusters of one broker each; `source` and `target` are those clusters, reached without it.

    `at` is the topic's partition 0 at the target, `producer_id` one that has written nothing there.
    """

    network: Network
    line: Line
    source: Site
    target: Site
    at: TopicPartition = field(init=False)
    producer_id: int = field(init=False)
    returned: list[int] = field(default_factory=list)
    _done: dict[int, Completion] = field(default_factory=dict)

    def begin(self, partitions: int = 1) -> None:
        """Make the topic, and hear who leads it."""
        self.at = self.target.topic(partitions=partitions)
        self.producer_id = self.target.admin.allocate_producer_id()
        self.hear(self.network.target, self.at)

    def partition(self, number: int) -> TopicPartition:
        return TopicPartition(self.at.topic, self.at.topic_id, number)

    def hear(self, link: ClusterLink, partition: TopicPartition) -> int:
        """The node that leads, as soon as it is known."""

        def is_led() -> bool:
            try:
                link.refresh([partition.topic])
            except ClusterUnavailableError:  # a broker that is just back
                return False
            self.poll()
            return link.leader(partition) is not None

        eventually(is_led, "a leader is known")
        node = link.leader(partition)
        assert node is not None
        return node

    def produce(self, sequence: int, partition: int = 0) -> int:
        """Send a batch of one record; the ticket."""
        batch = memoryview(batch_of(self.producer_id, sequence, count=1))
        return self.network.target.produce(
            self._node(), [ProduceItem(self.partition(partition), batch)], timeout_ms=1_000
        )

    def fetch(self, *partitions: int, offset: int = 0, max_wait_ms: int = 0) -> int:
        items = [FetchItem(self.partition(number), offset, _ENOUGH, None) for number in partitions or (0,)]
        return self.network.target.fetch(
            self._node(), items, committed=True, max_wait_ms=max_wait_ms, max_bytes=_ENOUGH
        )

    def answers(self, *tickets: int) -> list[Completion]:
        """What came of these, as soon as all are back; nothing may come back twice, or unasked."""
        until = time.monotonic() + _WITHIN_S
        while not self._done.keys() >= set(tickets):
            assert time.monotonic() < until, f"{tickets} did not all come back"
            self.poll()
        return [self._done[ticket] for ticket in tickets]

    def stored(self) -> list[int]:
        """Sequences of the batches at partition 0, in the order of the log."""
        (answer,) = self.answers(self.fetch())
        (part,) = answer.fetched
        assert part is not None
        return [header.base_sequence for header, _ in batches(part.records)]

    def write_at_last(self, sequence: int) -> None:
        """Send a batch until it is answered: the first after trouble may meet what is left of it."""

        def is_answered() -> bool:
            (answer,) = self.answers(self.produce(sequence))
            if answer.failure is not None:
                return False
            assert [part and part.error for part in answer.produced] == [0]
            return True

        eventually(is_answered, "a broker that is back answers")

    def is_deleted(self, partition: TopicPartition) -> bool:
        self.network.target.refresh([partition.topic])
        self.poll()
        return self.network.target.is_deleted(partition)

    def is_told(self, told: list[str]) -> bool:
        """Whether asking for leaders says that no broker answers; what it says is added."""
        try:
            self.network.target.refresh([self.at.topic])
        except ClusterUnavailableError as error:
            told.append(str(error))
        self.poll()
        return bool(told)

    def poll(self) -> None:
        for completion in self.network.poll(0.05):
            assert completion.ticket not in self._done, "a ticket came back twice"
            self.returned.append(completion.ticket)
            self._done[completion.ticket] = completion

    def _node(self) -> int:
        node = self.network.target.leader(self.at)
        assert node is not None
        return node


class NetworkContract:
    """Whoever inherits has the fixture `far`, whose network gives a request up after a second or two."""

    def test_what_one_broker_is_asked_is_answered_in_the_order_of_asking(self, far: Far) -> None:
        far.begin()
        tickets = [far.produce(0), far.produce(1), far.fetch(), far.produce(2)]
        answers = far.answers(*tickets)
        assert [answer.failure for answer in answers] == [None] * 4
        assert far.returned == tickets
        offsets = [[part.base_offset for part in answer.produced if part] for answer in answers]
        assert offsets == [[0], [1], [], [2]]
        assert far.stored() == [0, 1, 2]

    def test_partitions_come_in_the_order_asked(self, far: Far) -> None:
        far.begin(partitions=3)
        for sequence in (0, 1):
            far.answers(far.produce(sequence, partition=1))
        (answer,) = far.answers(far.fetch(2, 1, 0))
        assert [part and part.partition for part in answer.fetched] == [2, 1, 0]
        assert [part and part.high_watermark for part in answer.fetched] == [0, 2, 0]

    def test_where_nothing_was_asked_nothing_is_answered(self, far: Far) -> None:
        assert far.network.poll(0) == []
        assert far.network.poll(0.01) == []

    def test_a_read_that_finds_nothing_is_an_answer(self, far: Far) -> None:
        far.begin()
        (answer,) = far.answers(far.fetch(offset=0, max_wait_ms=50))
        (part,) = answer.fetched
        assert answer.failure is None
        assert part is not None
        assert (part.error, bytes(part.records)) == (0, b"")

    def test_what_a_broker_that_hangs_was_asked_fails_each_once(self, far: Far) -> None:
        far.begin()
        far.answers(far.produce(0))
        far.line.hang()
        answers = far.answers(far.produce(1), far.fetch())
        assert all(answer.failure for answer in answers)
        assert [(answer.produced, answer.fetched) for answer in answers] == [((), ())] * 2
        far.line.wake()

    def test_a_write_that_failed_may_come_yet_and_sent_again_is_there_once(self, far: Far) -> None:
        """Its outcome was not known: with the same sequence the broker tells which it was."""
        far.begin()
        far.answers(far.produce(0))
        far.line.hang()
        (failed,) = far.answers(far.produce(1))
        assert failed.failure
        far.line.wake()
        far.write_at_last(1)
        far.write_at_last(2)
        assert far.stored() == [0, 1, 2]

    def test_a_connection_that_is_cut_fails_what_is_under_way_and_there_is_another(self, far: Far) -> None:
        far.begin()
        far.answers(far.produce(0))
        far.line.hang()
        tickets = far.fetch(offset=1), far.produce(1)
        far.poll()
        far.line.cut()
        assert all(answer.failure for answer in far.answers(*tickets))
        far.line.wake()
        far.write_at_last(1)
        assert far.stored() == [0, 1]

    def test_a_broker_that_refuses_connections_fails_requests_and_is_told_by_whoever_asks_for_leaders(
        self, far: Far
    ) -> None:
        far.begin()
        far.answers(far.produce(0))
        led_by = far.network.target.leader(far.at)
        far.line.refuse()
        answers = far.answers(far.produce(1), far.fetch())
        assert all(answer.failure for answer in answers)
        told: list[str] = []
        eventually(lambda: far.is_told(told), "it is told that no broker answers")
        assert "'west'" in told[0]
        assert far.network.target.leader(far.at) == led_by, "what was heard last holds"
        assert not far.network.target.is_deleted(far.at), "silence is no word about a topic"
        far.line.accept()
        assert far.hear(far.network.target, far.at) == led_by
        far.write_at_last(1)
        assert far.stored() == [0, 1]

    def test_trouble_at_one_cluster_is_none_of_the_others(self, far: Far) -> None:
        far.begin()
        source = far.source.topic(partitions=1)
        far.source.applications.write(source.topic, 0, [NOW_MS] * 3)
        node = far.hear(far.network.source, source)
        far.answers(far.produce(0))
        far.line.hang()
        hanging = far.produce(1)
        item = FetchItem(source, 0, _ENOUGH, None)
        ticket = far.network.source.fetch(node, [item], committed=True, max_wait_ms=0, max_bytes=_ENOUGH)
        (answer,) = far.answers(ticket)
        assert [part and part.high_watermark for part in answer.fetched] == [3]
        assert far.returned[-1] == ticket
        (failed,) = far.answers(hanging)
        assert failed.failure
        far.line.wake()

    def test_leaders_that_are_known_stay_known_while_their_broker_hangs(self, far: Far) -> None:
        far.begin()
        led_by = far.network.target.leader(far.at)
        far.line.hang()
        far.network.target.refresh([far.at.topic])
        assert far.network.target.leader(far.at) == led_by
        assert not far.network.target.is_deleted(far.at)
        far.line.wake()

    def test_a_name_that_nobody_knows_is_gone_and_has_no_leader(self, far: Far) -> None:
        far.begin()
        unknown = TopicPartition(f"{far.at.topic}-not", far.at.topic_id, 0)
        eventually(lambda: far.is_deleted(unknown), "it is heard that there is no such topic")
        assert far.network.target.leader(unknown) is None
        assert not far.network.target.is_denied(unknown)
