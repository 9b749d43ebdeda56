"""A failback with topics of every kind: what each policy makes of extras, at both sides and to groups."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer
from kafka.admin import ACLOperation, ResourceType

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.commands import Done, command
from tests.support.following import name_of, values
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
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, HookedStep, both_ways, planned, receipts
from tests.support.recorded import broken_invariants, operations, rows
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import BACK, WAY

KEYS = [f"key-{number}".encode() for number in range(40)]
Client = Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """A cluster as its applications reach it, and how everybody reads it."""

    servers: str
    open: str
    shop: Client = field(default_factory=dict)
    billing: Client = field(default_factory=dict)


@dataclass(frozen=True)
class Ground:
    """Both clusters; `dead`, `fence`: what plans are told of east while it is, and when it is back."""

    site: RealSite
    sandbox: Sandbox
    config: MirrorConfig
    east: Place
    west: Place
    topics: tuple[str, str, str]
    groups: tuple[str, str]
    dead: Sequence[str]
    fence: Sequence[str]
    let_in: Callable[[], None]

    def ask(self, *words: str) -> Done:
        return command(self.site.capsys, self.config, *words)

    def planned(self, kind: str, *options: str, way: tuple[str, str]) -> str:
        return planned(self.site.capsys, self.config, kind, *options, way=way)


def _names() -> tuple[tuple[str, str, str], tuple[str, str]]:
    base = name_of("shop")
    return (f"{base}-orders", f"{base}-prices", f"{base}-deals"), (name_of("billing"), name_of("audit"))


def open_ground(site: RealSite) -> Ground:
    """Clusters that ask nobody who he is."""
    topics, groups = _names()
    config = site.configured(both_ways(f"{topics[0].removesuffix('orders')}.*"))
    _create(site.servers[0], topics)
    east, west = (Place(servers, servers) for servers in site.servers)
    dead = (*DEAD, "--accept=mirror_not_shut_out")
    return Ground(site, site.sandbox, config, east, west, topics, groups, dead, SHUT, lambda: None)


def guarded_ground(site: RealSite, pair: GuardedPair, sandbox: Sandbox) -> Ground:
    """Clusters with an authorizer: the mirror, administrators and applications are principals of their own."""
    topics, groups = _names()
    flows = both_ways(f"{topics[0].removesuffix('orders')}.*")
    config = write_guarded_config(site.folder, pair, flows)
    init_ledger(config)
    do, every = ACLOperation, f"{topics[0].removesuffix('orders')}*"
    for cluster in pair.values():
        _let_in(cluster, every, groups)
        cluster.allow(SHOP, (ResourceType.TRANSACTIONAL_ID, topics[2], do.WRITE))
    pair["east"].allow(SHOP, *(rule for name in topics for rule in on_topic(name, do.WRITE)))
    pair["east"].allow(BILLING, *(rule for name in topics for rule in on_topic(name, do.READ)))
    pair["east"].allow(BILLING, *(rule for name in groups for rule in on_group(name, do.READ)))
    pair["west"].allow(MIRROR, *on_topic(every, do.CREATE, do.ALTER, do.ALTER_CONFIGS))
    writable = [*topics, *(f"{name}.salvaged" for name in topics)]
    pair["west"].allow(MIRROR, *(rule for name in writable for rule in on_topic(name, do.WRITE)))
    _create(pair["east"].open, topics)

    def let_in() -> None:
        pair["east"].allow(MIRROR, *(rule for name in topics for rule in on_topic(name, do.WRITE)))

    east, west = (
        Place(one.servers, one.open, one.login(SHOP), one.login(BILLING))
        for one in (pair["east"], pair["west"])
    )
    return Ground(site, sandbox, config, east, west, topics, groups, DEAD, (), let_in)


def _create(servers: str, topics: tuple[str, str, str]) -> None:
    orders, prices, deals = topics
    create_topics(servers, [orders], partitions=2)
    create_topics(servers, [prices], partitions=1, configuration={"cleanup.policy": "compact"})
    create_topics(servers, [deals], partitions=1)


def _let_in(cluster: GuardedCluster, every: str, groups: Sequence[str]) -> None:
    """The mirror and the administrator, as at any cluster of the pair."""
    do = ACLOperation
    of_groups = [rule for name in groups for rule in on_group(name, do.READ, do.DELETE)]
    cluster.allow(
        MIRROR,
        *on_topic(every, do.READ, do.DESCRIBE_CONFIGS),
        *of_groups,
        *on_cluster(do.DESCRIBE, do.DESCRIBE_CONFIGS),
    )
    cluster.allow(
        ADMINISTRATOR,
        *on_topic(every, do.ALTER_CONFIGS, do.DESCRIBE_CONFIGS, do.READ, do.CREATE, do.DELETE),
        *of_groups,
        *on_cluster(do.ALTER, do.DESCRIBE, do.DESCRIBE_CONFIGS, do.ALTER_CONFIGS),
    )


# -- Applications ----------------------------------------------------------------------------------


@dataclass
class Keyed:
    """Writes values of keys, each another one; `written`: acknowledged ones."""

    topic: str
    what: str
    written: list[bytes] = field(default_factory=list)

    def put(self, at: Place, keys: Sequence[bytes]) -> list[bytes]:
        """A new value of each, as acknowledged."""
        producer = Producer({"bootstrap.servers": at.servers, "enable.idempotence": "true", **at.shop})
        put = [key + f" {self.what} {len(self.written) + number}".encode() for number, key in enumerate(keys)]
        for key, value in zip(keys, put, strict=True):
            producer.produce(self.topic, value, key=key)
        assert producer.flush(30) == 0
        self.written += put
        return put

    def remove(self, at: Place, key: bytes) -> None:
        producer = Producer({"bootstrap.servers": at.servers, "enable.idempotence": "true", **at.shop})
        producer.produce(self.topic, None, key=key)
        assert producer.flush(30) == 0

    @contextmanager
    def putting(self, at: Place) -> Iterator[None]:
        """One key after the other, again and again, beside the body."""

        def work(ended: threading.Event) -> None:
            number = 0
            while not ended.wait(0.05):
                self.put(at, [KEYS[number % len(KEYS)]])
                number += 1

        with beside(work):
            yield


def deal(at: Place, topic: str, what: str) -> list[bytes]:
    """Two records in a transaction that is committed, between two of one that is aborted."""
    producer = Producer({"bootstrap.servers": at.servers, "transactional.id": topic, **at.shop})
    producer.init_transactions(30)
    dealt = [f"{what}-{number}".encode() for number in range(2)]
    for found, end in (
        ([b"never", b"never"], producer.abort_transaction),
        (dealt, producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in found:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        end(30)
    return dealt


@dataclass
class Applications:
    """What writes to all topics of a ground, and the groups that read them: `desk` has read no extra, `audit` all."""

    ground: Ground
    orders: Shop
    prices: Keyed
    desk: Desk
    audit: Desk
    dealt: list[bytes] = field(default_factory=list)

    @property
    def written(self) -> list[bytes]:
        return [*self.orders.written, *self.prices.written, *self.dealt]

    def are_read(self) -> bool:
        """All by both groups."""
        return all(set(one.processed) >= set(self.written) for one in (self.desk, self.audit))

    def write(self, at: Place, what: str) -> None:
        self.orders.sell(at.servers, 40, **at.shop)
        self.prices.put(at, KEYS[:30])
        self.dealt += deal(at, self.ground.topics[2], what)

    @contextmanager
    def reading(self, at: Place, *desks: Desk) -> Iterator[None]:
        with ExitStack() as stack:
            for one in desks or (self.desk, self.audit):
                stack.enter_context(one.open(at.servers, list(self.ground.topics), **at.billing))
            yield

    def travel(self, ended: threading.Event) -> None:
        """At west until hooks of an apply stop them, at east from when its hook starts them."""
        folder, ground = self.ground.site.folder, self.ground
        stop_producers, stop_groups, start = (
            HookedStep(folder, step) for step in ("stop_producers", "stop_groups", "start_applications")
        )
        with self.reading(ground.west):
            with (
                self.orders.selling(ground.west.servers, pause_s=0.05, properties=ground.west.shop),
                self.prices.putting(ground.west),
            ):
                if not stop_producers.wait(ended):
                    return
            stop_producers.done()
            if not stop_groups.wait(ended):
                return
        stop_groups.done()
        if not start.wait(ended):
            return
        self.write(ground.east, "home")
        start.done()


HOOKS = ("stop_producers", "stop_groups", "start_applications", "catch_up")


def mirroring_back(ground: Ground) -> Callable[[threading.Event], None]:
    """The driver of the way back, once an apply asks for it."""
    asked = HookedStep(ground.site.folder, "catch_up")

    def work(ended: threading.Event) -> None:
        if asked.wait(ended):
            ground.let_in()
            with running(ground.config, ground.site.spark, BACK, recorded=frozenset(Subject)):
                asked.done()
                ended.wait()

    return work


# -- The story -------------------------------------------------------------------------------------


def require_policy(ground: Ground, policy: str) -> None:
    """East is lost with records that were never copied, comes back, and applications go home by one plan."""
    east, west, config, spark = ground.east, ground.west, ground.config, ground.site.spark
    orders, prices, deals = ground.topics
    desk, audit = map(Desk, ground.groups)
    apps = Applications(ground, Shop(orders, 2), Keyed(prices, "own"), desk, audit)
    late, late_prices = Shop(orders, 2, _number=1_000_000), Keyed(prices, "late")
    with running(config, spark, recorded=frozenset(Subject)):
        with apps.reading(east):
            apps.write(east, "first")
            eventually(
                apps.are_read,
                "both are at work",
            )
        eventually(lambda: set(_all(west, ground)) >= set(apps.written), "all of it is copied")
        assert ground.ask("pause", FLOW, "--reason", "extras are made", "--wait", "60").code == 0
        late.sell(east.servers, 32, **east.shop)
        late_prices.put(east, KEYS[10:])
        late_prices.remove(east, KEYS[0])
        extras = [*late.written, *late_prices.written, *deal(east, deals, "late")]
        with apps.reading(east, audit):
            eventually(lambda: set(audit.processed) >= set(extras), "one group has read them")
        eventually(lambda: _committed(config, audit.group, orders) >= 36, "and that is recorded")
        with lost(ground.sandbox):
            groups = [word for one in (desk, audit) for word in ("--group", one.group)]
            plan_id = ground.planned("failover", *ground.dead, *groups, way=("east", "west"))
            done = ground.ask("apply", plan_id, "--reason", "east is dead", "--yes")
            assert done.code == 0, done.err
        with apps.reading(west):
            apps.write(west, "meanwhile")
            apps.prices.remove(west, KEYS[1])
            eventually(
                apps.are_read,
                "they are at work",
            )
        hooks = [word for step in HOOKS for word in HookedStep(ground.site.folder, step).option]
        asked = (
            *ground.fence,
            *groups,
            *hooks,
            *(word for one in ground.topics for word in ("--topic", one)),
        )
        with beside(apps.travel), beside(mirroring_back(ground)):
            refused = ground.ask("plan", "failback", *WAY, *asked, "--accept", "no_commit", "-o", "json")
            assert refused.code == 4, refused.err
            listed = [
                one["words"] for one in json.loads(refused.out)[0]["blockers"] if one["code"] == "extras"
            ]
            assert len(listed) == 4, listed
            assert all(f"'{audit.group}'" in one and f"'{desk.group}'" not in one for one in listed), listed
            of_keys = ("--extras", f"{prices}=keep") if policy == "replicate" else ()
            plan_id = ground.planned("failback", *asked, "--extras", policy, *of_keys, way=("west", "east"))
            done = ground.ask("apply", plan_id, "--reason", "east is back", "--yes")
            assert done.code == 0, done.err
    [operation] = done.out.split()
    with running(config, spark, from_cut=operation):
        assert ground.ask("resume", FLOW, "--reason", "they are made", "--wait", "60").code == 0
        with apps.reading(east):
            eventually(
                apps.are_read,
                "they have all at home",
            )
        eventually(
            lambda: set(_all(west, ground)) >= set(apps.written), "east is mirrored again", within_s=60
        )
    _require_records(ground, apps, extras, policy)
    _require_groups(ground, apps, extras)
    assert broken_invariants(config) == {}


def _require_records(ground: Ground, apps: Applications, extras: Sequence[bytes], policy: str) -> None:
    """Every acknowledged record is at both sides, or listed by decision."""
    east, west = Counter(_all(ground.east, ground)), Counter(_all(ground.west, ground))
    assert set(east) == {*apps.written, *(extras if policy != "recreate" else ())}
    stay = [value for value in extras if value not in west]
    assert set(west) == {*apps.written, *extras} - set(stay)
    decided = {one["policy"] for one in operations(ground.config, "extras_decided")}
    newest = {
        alias: _newest(at, ground.topics[1]) for alias, at in (("east", ground.east), ("west", ground.west))
    }
    differing = {key for key in KEYS if newest["east"].get(key) != newest["west"].get(key)}
    if policy == "replicate":
        assert decided == {"keep_local", "replicate"}
        assert all(value.startswith(b"key-") for value in stay), "those of the compacted topic"
    else:
        assert policy != "recreate" or (east == west and differing == set()), "both sides are alike"
        assert set(stay) == set(extras)
        assert decided == {{"keep": "keep_local"}.get(policy, policy)}
    if policy == "salvage":
        salvaged = [
            value for name in ground.topics for value in values(ground.west.open, f"{name}.salvaged") if value
        ]
        assert sorted(salvaged) == sorted(extras)


def _require_groups(ground: Ground, apps: Applications, extras: Sequence[bytes]) -> None:
    """Each record once, but for what the plan had counted: extras that were read at east."""
    west = Counter(_all(ground.west, ground))
    copied = Counter(value for value in extras if value in west)
    assert set(west.values()) == {1}
    own = Counter(apps.written)
    assert own.total() == len(set(own))
    assert Counter(filter(None, apps.desk.processed)) == own + copied
    assert Counter(filter(None, apps.audit.processed)) == own + Counter(extras) + copied
    assert receipts(ground.config)["catch_up"]["read_back"]["groups_before_extras"] == []


def _all(at: Place, ground: Ground) -> list[bytes]:
    return [value for name in ground.topics for value in values(at.open, name) if value]


def _newest(at: Place, topic: str) -> dict[bytes | None, bytes | None]:
    [placed] = read_topics(at.open, [topic]).values()
    return {one.record.key: one.record.value for one in placed}


def _committed(config: MirrorConfig, group: str, topic: str) -> int:
    """How far a group is recorded to be in the first partition at east."""
    own = [row for row in rows(config, "checkpoints") if (row["group_id"], row["topic"]) == (group, topic)]
    return max((row["committed_offset"] or 0 for row in own if row["partition"] == 0), default=0)
