"""The promoted cluster is lost for good, a third one takes over from it, and the first one comes back."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.following import OFTEN, copying, name_of, values
from tests.support.outages import lost
from tests.support.plans import APPLIED, DEAD, SHUT, HookedStep, TravellingApplications
from tests.support.plans import OFTEN as RECORDED_OFTEN
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import run, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

FORWARD, REVERSE, ONWARD = "east-to-west", "west-to-east", "west-to-north"
AROUND, HOME = "east-to-north", "north-to-east"
_TO_THE_END_OF_A_ROUND = "round_seconds = 120\n"


@dataclass(frozen=True)
class Chain:
    """East is mirrored to west and west to north, by flows that are in the configuration as long as west is."""

    site: RealSite
    servers: Mapping[str, str]
    topic: str

    def flow(self, source: str, target: str, *lines: str) -> str:
        often = "" if any("round_seconds" in line for line in lines) else OFTEN
        same = copying(self.topic, 'topic_naming = "identity"', RECORDED_OFTEN)
        return "\n".join((f'{often}source = "{source}"\ntarget = "{target}"', *lines, same))

    def configured(self, flows: Mapping[str, str]) -> MirrorConfig:
        return write_config(self.site.folder, self.servers, flows)

    def begun(self, *, onward: str = "") -> MirrorConfig:
        """`onward`: further lines of the flow that leads on to north."""
        config = self.configured(
            {
                FORWARD: self.flow("east", "west", f'opposite = "{REVERSE}"'),
                REVERSE: self.flow("west", "east", f'opposite = "{FORWARD}"'),
                ONWARD: self.flow("west", "north", "relay = true", onward),
            }
        )
        init_ledger(config)
        return config

    def without_west(self) -> MirrorConfig:
        return self.configured(
            {
                AROUND: self.flow("east", "north", f'opposite = "{HOME}"'),
                HOME: self.flow("north", "east", f'opposite = "{AROUND}"'),
            }
        )


@pytest.mark.parametrize("driver", ["at work", "killed"])
def test_the_first_cluster_comes_back_to_a_third_one_that_took_over_from_the_second(
    site: RealSite, north: Mapping[str, SandboxCluster], driver: str
) -> None:
    """By the commands that plans and RUNBOOK.md say. `driver`: of the flow from west to north, when west is lost."""
    topic = name_of("orders")
    (east, west), third = site.servers, north["north"].bootstrap_servers
    chain = Chain(site, {"east": east, "west": west, "north": third}, topic)
    config = chain.begun(onward=_TO_THE_END_OF_A_ROUND if driver == "killed" else "")
    shop, extra, desk = Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing"))
    group = ("--group", desk.group)
    create_topics(east, [topic], partitions=2)
    with desk.open(east, [topic]):
        shop.sell(east, 100)
        eventually(lambda: len(desk.processed) == 100, "the group is at work at east")
    run(config, site.spark, FORWARD)
    run(config, site.spark, ONWARD)
    extra.sell(east, 32)
    for alias in ("east", "west"):
        site.done(config, "record", alias, "--once")
    site.sandbox.kill("east")
    try:
        away = (*DEAD, "--accept=mirror_not_shut_out", *group)
        site.done(config, "apply", site.planned(config, "failover", *away), *APPLIED)
        with desk.open(west, [topic]):
            shop.sell(west, 40)
            eventually(lambda: len(desk.processed) == 140, "the group is at work at west")
        at_west = desk.processed[100:]
        with _west_is_lost(site, config, chain, shop, desk, is_killed=driver == "killed"):
            plan_id = site.planned(config, "failover", *away, way=("west", "north"))
            site.done(config, "apply", plan_id, *APPLIED)
            alone = set(shop.written) - set(values(third, topic))
            figures = operations(config, "apply_ended")[-1]["figures"]
            assert figures["records_at_least"] <= len(alone), figures
            assert driver != "killed" or figures["records_lost"] == len(alone), figures
            steps = [one for one in operations(config, "step_done") if one["step"] == "move_groups"]
            moved = steps[-1]["read_back"]
            assert moved["repeated_bound"] == ("at_least" if driver == "killed" else None), moved
            shop.written = [one for one in shop.written if one not in alone]
            with desk.open(third, [topic]):
                shop.sell(third, 30)
                eventually(lambda: set(desk.processed) >= set(values(third, topic)), "it is at work at north")
            site.sandbox.start("east")
            _go_home(site, chain, shop, extra, desk, at_west if driver == "killed" else ())
    finally:
        for alias in ("east", "west"):
            site.sandbox.start(alias)


@contextmanager
def _west_is_lost(
    site: RealSite, config: MirrorConfig, chain: Chain, shop: Shop, desk: Desk, *, is_killed: bool
) -> Iterator[None]:
    """While the body runs; some of what was written there last may have come to north."""
    west, north, before = chain.servers["west"], chain.servers["north"], len(shop.written)
    if is_killed:
        driver = Driver(config, site.folder / "driver.log", flow=ONWARD)
        try:
            eventually(lambda: len(values(north, chain.topic)) == before, "what was written before has come")
            shop.sell(west, 20)
            eventually(lambda: len(values(north, chain.topic)) == before + 20, "and what came in its round")
            driver.kill_with_workers()
        finally:
            driver.end()
        recorded = query(config, "flow_status", flow=ONWARD)
        assert sum(row["records"] for row in recorded) < before + 20, "it has not lived to record all of it"
        shop.sell(west, 6)
        site.done(config, "record", "west", "--once")
        with lost(site.sandbox, "west"):
            yield
        return
    with running(config, site.spark, ONWARD, recorded=frozenset(Subject)) as ended:
        eventually(lambda: len(values(north, chain.topic)) == before, "what was written before has come")
        eventually(
            lambda: _committed(config, "west", desk) == before, "where the group is at west is recorded"
        )
        with shop.selling(west):
            eventually(lambda: len(values(north, chain.topic)) > before + 20, "what is written there comes")
            site.sandbox.kill("west")
        try:
            yield
        finally:
            site.sandbox.start("west")
            assert not ended.done() or ended.exception() is None


def _committed(config: MirrorConfig, cluster: str, desk: Desk) -> int:
    """The sum of the offsets that are recorded of the group last."""
    found = [one for one in rows(config, "checkpoints") if one["cluster"] == cluster]
    own = [one for one in found if one["group_id"] == desk.group]
    return sum({one["partition"]: one["committed_offset"] or 0 for one in own}.values())


def _go_home(
    site: RealSite, chain: Chain, shop: Shop, extra: Shop, desk: Desk, unpaired: Collection[bytes]
) -> None:
    """Applications are at north, and west never comes back; `unpaired`: records that the group had read there and that
    came to north by a driver which had not recorded them."""
    topic, east, north = chain.topic, chain.servers["east"], chain.servers["north"]
    config, way = chain.without_west(), ("north", "east")
    started = HookedStep(site.folder, "catch_up")
    home = TravellingApplications(site.folder, shop, desk, north, east)
    asked: tuple[str, ...] = (*SHUT, "--accept", "no_commit", "--topic", topic, "--group", desk.group)
    asked += (*home.hooks, *started.option)
    ways = ("--from", "north", "--to", "east")
    refused = site.command(config, "plan", "failback", *ways, *asked)
    assert (refused.code, refused.out) == (2, ""), refused.err
    [adopt] = re.findall(r"mirror-ledger (adopt \S+ --through \S+)[,;]", " ".join(refused.err.split()))
    assert adopt == f"adopt {AROUND} --through west"
    adopted = site.done(config, *shlex.split(adopt))
    then = re.search(r"then: mirror-ledger (plan failback [^;]*)", " ".join(adopted.err.split()))
    assert then is not None, adopted.err
    assert then[1].strip().startswith("plan failback --from north --to east"), adopted.err
    blocked = site.command(config, "plan", "failback", *ways, *asked, "-o", "json")
    codes = {one["code"] for one in json.loads(blocked.out)[0]["blockers"]}
    assert (blocked.code, codes) == (4, {"extras", "deficits"}), blocked.out

    def mirrored_back(ended: Event) -> None:
        if started.wait(ended):
            with running(config, site.spark, HOME, recorded=frozenset(Subject)):
                started.done()
                ended.wait()

    with beside(home.work), beside(mirrored_back):
        before = len(shop.written)
        eventually(lambda: len(shop.written) > before + 50, "applications are at work at north")
        decided = ("--extras", "keep", "--deficits", "return")
        plan_id = site.planned(config, "failback", *asked, *decided, way=way)
        [operation] = site.done(config, "apply", plan_id, *APPLIED).out.split()
    run(config, site.spark, AROUND, from_cut=operation)
    at_home = Counter(values(east, topic))
    everywhere = Counter(values(north, topic))
    assert at_home == everywhere + Counter(extra.written), "east has what north has, each once, and its own"
    assert set(shop.written) <= everywhere.keys(), "of what was acknowledged what west alone had is lost"
    assert desk.repeated == Counter(unpaired), "nobody could say where north has what was never recorded"
    assert set(desk.processed) >= set(everywhere)
    assert not set(desk.processed) & set(extra.written), "it passes what stays at east"
    assert broken_invariants(config) == {}
