"""Applications of a pair of clusters in memory that change sides again and again, at work all the time."""

import json
from collections import Counter
from collections.abc import Callable

from ledger.changeover.plans import Apply, ChangeoverKind
from ledger.changeover.seeing import read_applies
from tests.simulation.kafka.administered import AdministeredCluster
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import GROUPS, SHOP, SWITCHOVER, TOPICS, ChangingPair
from tests.support.operator_processes import Strikes, never

PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]


class TravellingPair(ChangingPair):
    """Both drivers are supervised, the one of the way back from the first change of sides on."""

    def __init__(self) -> None:
        super().__init__()
        self.home = self.east
        self._is_reverse_begun = False

    def other(self, cluster: AdministeredCluster) -> AdministeredCluster:
        return self.west if cluster is self.east else self.east

    def planned_way(self) -> str:
        """A plan to leave the cluster where applications are."""
        target = self.other(self.home)
        self.outside.hooks["start-applications"] = self._starts_at(target)
        return self.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER, way=(self.home.alias, target.alias))

    def switch(self, *, before: Strikes = never, behind: Strikes = never) -> str:
        """By a plan alone, and as many processes as it takes; returns the operation."""
        operation = self.apply_by_many(self.planned_way(), before=before, behind=behind)
        if not self._is_reverse_begun:
            self._is_reverse_begun = True
            self.let_mirror_write_at_east()
            self.reverse.from_cut = MemoryLedgerState(self.ledger).cut(operation)
            self.schedule.spawn("reverse", self.reverse.supervise)
        return operation

    def _starts_at(self, cluster: AdministeredCluster) -> Callable[[], None]:
        def start() -> None:
            if self.home is not cluster:
                self.home = cluster
                for place in PLACES:
                    self.until(lambda at=place: cluster.lets_write(SHOP, *at), "rules are carried")  # type: ignore[misc]
            if not self._consumers:
                self.consume(cluster, dict.fromkeys(GROUPS, 3))

        return start

    def applies(self) -> list[Apply]:
        return list(read_applies(OpenedSnapshot(self.ledger)).by_id.values())  # type: ignore[arg-type]

    def start_again(self) -> None:
        """Groups where applications are, after a plan was given up."""
        self.consume(self.home, dict.fromkeys(GROUPS, 3))

    def work(self, records: int = 9) -> None:
        """Producers write where applications are, and groups read on, a little behind."""
        for number in range(records):
            assert self.produce(*PLACES[number % len(PLACES)], at=self.home)
            if number % 2:
                for consumer in self._consumers:
                    consumer.poll(2)
            self.schedule.wait(0.2)

    def come_together(self) -> None:
        """Groups read to the end, and both clusters have all."""
        for consumer in self._consumers:
            consumer.poll()
        self.until(lambda: self.values(self.east) == self.values(self.west), "all is copied")

    def require_once_each(self) -> None:
        """Every record that a cluster took lies once at each, and every group has processed it once."""
        east, west = self.values(self.east), self.values(self.west)
        assert east == west
        every = Counter((*place, value) for place, values in east.items() for value in values)
        assert sum(every.values()) == self._written
        assert set(every.values()) == {1}
        for group in GROUPS:
            assert Counter(self.processed[group]) == every, group

    def told(self, operation: str) -> dict[str, str]:
        """By step what its receipt says."""
        rows = [row for row in self.rows("operations", operation) if row["kind"] == "step_done"]
        return {content["step"]: content["words"] for content in (json.loads(row["content"]) for row in rows)}

    def end(self) -> None:
        self.reverse.end()
        super().end()
