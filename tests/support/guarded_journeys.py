"""A switchover between clusters that know who their clients are: who may do what, and the commands in turn.

Applications and the mirror are principals of their own, and neither of them changes rules: an administrator does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.admin import ACLOperation

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.kafka.cluster import GroupListing
from tests.support.commands import Done, command
from tests.support.following import OFTEN, name_of, values
from tests.support.guarded import (
    ADMINISTRATOR,
    BILLING,
    MIRROR,
    SHOP,
    GuardedCluster,
    GuardedPair,
    on_cluster,
    on_group,
    on_topic,
    write_guarded_config,
)
from tests.support.plans import both_ways, planned
from tests.support.recorded import query
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop
from tests.support.waiting import eventually

OWN = {"retention.ms": "1209600000", "max.message.bytes": "2000000", "compression.type": "gzip"}
"""Settings of the topic at `east`: copying needs others."""
_WHY = ("--reason", "a drill", "--yes")
_REFUSED_ALONE = {"enable.idempotence": "false"}
"""A record that is refused is no reason for the client to give up all others."""
Standing = dict[str, frozenset[object]]


@dataclass(frozen=True)
class GuardedJourney:
    """A topic with a shop that writes it and a group that reads it."""

    pair: GuardedPair
    config: MirrorConfig
    shop: Shop
    desk: Desk
    capture: pytest.CaptureFixture[str]

    @property
    def topic(self) -> str:
        return self.shop.topic

    def ask(self, *arguments: str) -> Done:
        return command(self.capture, self.config, *arguments)

    def planned(self) -> str:
        options = ("--abort-marker", "--group", self.desk.group)
        return planned(self.capture, self.config, "switchover", *options)

    def apply(self, plan_id: str) -> Done:
        return self.ask("apply", plan_id, *_WHY)

    def undo(self, operation_id: str) -> Done:
        return self.ask("undo", operation_id, *_WHY)

    def applied(self, plan_id: str) -> str:
        """The operation id of an apply that comes to its end."""
        done = self.apply(plan_id)
        assert done.code == 0, done.err
        return done.out.strip()

    def undone(self, operation_id: str) -> None:
        """It is undone to its end."""
        done = self.undo(operation_id)
        assert done.code == 0, done.err

    @contextmanager
    def selling(self) -> Iterator[None]:
        """The shop writes at `east` beside the body, whatever becomes of it."""
        east = self.pair["east"]
        with self.shop.selling(east.servers, properties=east.login(SHOP) | _REFUSED_ALONE):
            yield

    def sell(self, alias: str, records: int) -> None:
        cluster = self.pair[alias]
        self.shop.sell(cluster.servers, records, **cluster.login(SHOP))

    def process(self, alias: str, holds: Callable[[], bool]) -> None:
        """The group is at work at a cluster until it holds."""
        cluster = self.pair[alias]
        with self.desk.open(cluster.servers, [self.topic], **cluster.login(BILLING)):
            eventually(holds, f"the group has processed it at {alias}")

    def is_under_way(self) -> None:
        """The group has processed something, and the ledger knows of copies."""
        self.process("east", lambda: self.desk.is_at_work(100))
        eventually(lambda: query(self.config, "flow_positions", flow=FLOW) != [], "the flow is at work")

    def holds_all(self, alias: str) -> bool:
        """Whether a cluster has exactly what the shop has written."""
        return sorted(values(self.pair[alias].open, self.topic)) == sorted(self.shop.written)

    def standing(self) -> Standing:
        """What brokers say now: all rules, the topic's own settings and the group's commits, of each cluster."""
        found: Standing = {}
        for alias, cluster in self.pair.items():
            with cluster.read() as admin:
                commits = admin.commits([GroupListing(self.desk.group, None, None)], topic_ids={})
                own = admin.configurations([self.topic])[self.topic]
            found[f"rules of {alias}"] = frozenset(cluster.rules())
            found[f"settings at {alias}"] = frozenset(own.items())
            found[f"commits at {alias}"] = frozenset(
                (one.topic, one.partition, one.committed_offset) for one in commits
            )
        return found


def journey(pair: GuardedPair, folder: Path, capture: pytest.CaptureFixture[str]) -> GuardedJourney:
    """The topic is at `east`; nobody has written, and no driver runs."""
    topic = name_of("orders")
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    _let_in(pair, topic, desk.group)
    config = _config(folder, pair, topic)
    init_ledger(config)
    pair["east"].create(topic, OWN)
    return GuardedJourney(pair, config, shop, desk, capture)


def _let_in(pair: GuardedPair, topic: str, group: str) -> None:
    """Applications at `east`, the mirror to `west`, the administrator at both."""
    do, east = ACLOperation, pair["east"]
    east.allow(SHOP, *on_topic(topic, do.WRITE))
    east.allow(BILLING, *on_topic(topic, do.READ), *on_group(group, do.READ))
    for cluster in pair.values():
        _let_in_who_are_no_applications(cluster, topic, group)
    pair["west"].allow(
        MIRROR,
        *on_topic(topic, do.WRITE, do.CREATE, do.ALTER, do.ALTER_CONFIGS),
        *on_group(group, do.DELETE),
    )


def _let_in_who_are_no_applications(cluster: GuardedCluster, topic: str, group: str) -> None:
    do = ACLOperation
    cluster.allow(
        MIRROR,
        *on_topic(topic, do.READ, do.DESCRIBE_CONFIGS),
        *on_group(group, do.READ),
        *on_cluster(do.DESCRIBE, do.DESCRIBE_CONFIGS),
    )
    cluster.allow(
        ADMINISTRATOR,
        *on_topic(topic, do.ALTER_CONFIGS, do.DESCRIBE_CONFIGS, do.READ),
        *on_group(group, do.READ),
        *on_cluster(do.ALTER, do.DESCRIBE, do.DESCRIBE_CONFIGS, do.ALTER_CONFIGS),
    )


def _config(folder: Path, pair: GuardedPair, topic: str) -> MirrorConfig:
    """Flows both ways, of which one holds."""
    flows = {name: OFTEN + lines for name, lines in both_ways(topic).items()}
    return write_guarded_config(folder, pair, flows)
