"""Applications that were moved by a failover, and how they come home when the lost cluster is back."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import run, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

BACK = "west-to-east"
WHY = ("--reason", "east is back")
WAY = ("--from", "west", "--to", "east")


@dataclass(frozen=True)
class WayHome:
    """A topic of two partitions, what is written to it, `extra`: at east alone, and groups that read it."""

    site: RealSite
    config: MirrorConfig
    shop: Shop
    extra: Shop
    desk: Desk
    others: Sequence[Desk] = ()
    began_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    @classmethod
    def begun(cls, site: RealSite, *, nothing_recorded_by: str | None = None) -> "WayHome":
        """A group has read 100 records at east, and all of them are copied.

        `nothing_recorded_by`: a flow of which a driver does not live to see the end of a round.
        """
        topic = name_of("orders")
        flows = both_ways(topic)
        if nothing_recorded_by is not None:
            flows[nothing_recorded_by] = f"round_seconds = 120\n{flows[nothing_recorded_by]}"
        config, (east, _) = site.configured(flows), site.servers
        create_topics(east, [topic], partitions=2)
        way = cls(site, config, Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing")))
        with way.desk.open(east, [topic]):
            way.shop.sell(east, 100)
            eventually(lambda: len(way.desk.processed) == 100, "the group is at work")
        run(config, site.spark)
        return way

    @property
    def groups(self) -> list[str]:
        return [word for one in (self.desk, *self.others) for word in ("--group", one.group)]

    def fail_over(self) -> None:
        """East is lost, applications move, and east is there again."""
        with lost(self.site.sandbox):
            options = (*DEAD, "--accept=mirror_not_shut_out", *self.groups)
            plan_id = self.site.planned(self.config, "failover", *options)
            self.site.done(self.config, "apply", plan_id, "--reason", "east is dead", "--yes")

    def mirror_back(self, *expected: str, is_listed_first: bool, extras: str = "keep") -> str:
        """The cut at which the way back begins; `is_listed_first`: extras are shown before anybody decides."""
        early = self.site.command(self.config, "mirror-back", *WAY, "--extras", "keep", *WHY)
        assert (early.code, "is not fenced" in early.err) == (5, True), early.err
        shut = ("--how", "shut", "--accept=producers_stopped", "--hold-retention")
        self.site.done(self.config, "fence", "east", *shut, *WHY)
        words = ""
        if is_listed_first:
            listed = json.loads(self.site.done(self.config, "extras", *WAY, "-o", "json").out)
            assert [one["records"] for one in listed] == [len(self.extra.written) // 2] * 2, listed
            assert [one["is_whole"] for one in listed] == ["true", "true"]
            began_ms = self.began_ms
            assert all(began_ms <= one["first_timestamp_ms"] <= one["last_timestamp_ms"] for one in listed)
            refused = self.site.command(self.config, "mirror-back", *WAY, *WHY)
            assert (refused.code, refused.out, operations(self.config, "extras_decided")) == (4, "", [])
            words = " ".join(refused.err.split())
        done = self.site.done(self.config, "mirror-back", *WAY, "--extras", extras, *WHY)
        words += " ".join(done.err.split())
        assert [one for one in expected if one not in words] == [], words
        [cut] = done.out.split()
        assert f"then: mirror-ledger run {BACK}" in words
        return cut

    def settings_at_east(self) -> dict[str, str]:
        """The topic's own."""
        with admin_of(self.config, "east") as admin:
            return admin.configurations([self.shop.topic])[self.shop.topic]

    def go_home(self, cut: str) -> str:
        """All of it by a plan, once what was written at west is there; the cut at which east is mirrored again."""
        (east, west), site, config, topic = self.site.servers, self.site, self.config, self.shop.topic
        with running(config, site.spark, BACK, from_cut=cut, recorded=frozenset(Subject)):
            home = TravellingApplications(site.folder, self.shop, self.desk, west, east)
            with beside(home.work):
                before = len(self.shop.written)
                eventually(lambda: len(self.shop.written) > before + 100, "they are at work")
                assert self.settings_at_east()["retention.ms"] == "-1", "it is held while records come back"
                options = (*SHUT, "--topic", topic, *self.groups, *home.hooks)
                plan_id = site.planned(config, "switchover", *options, way=("west", "east"))
                [cut] = site.done(config, "apply", plan_id, "--reason", "home again", "--yes").out.split()
            assert "retention.ms" not in self.settings_at_east(), "as it was before"
            for one in self.others:
                with one.open(east, [topic]):
                    eventually(lambda one=one: set(one.processed) >= set(self.shop.written), "it has all")  # type: ignore[misc]
        return cut

    def require_all_once(self, *, are_replicated: bool = False) -> None:
        """Everything is at both sides but what stays at east; the group processed each record once."""
        (east, west), shop, extra = self.site.servers, self.shop, self.extra
        everywhere = sorted([*shop.written, *(extra.written if are_replicated else ())])
        eventually(
            lambda: sorted(values(west, shop.topic)) == everywhere,
            "what is written at home is copied, and what stays there is not",
            within_s=60,
        )
        assert sorted(values(east, shop.topic)) == sorted([*shop.written, *extra.written])
        assert shop.refused == []
        assert sorted(self.desk.processed) == everywhere
        assert operations(self.config, "apply_ended")[-1]["figures"]["records_lost"] == 0
        kept = query(self.config, "one_sided_records", from_cluster="west", to_cluster="east")
        assert {row["status"] for row in kept} == (set() if are_replicated else {"kept_local"})
        gaps = [gap for row in rows(self.config, "offset_syncs") for gap in row["gaps"]]
        stayed = [one["source_end"] - one["source_start"] for one in gaps if one["cause"] == "kept_local"]
        assert sum(stayed) == (0 if are_replicated else len(extra.written))
        assert broken_invariants(self.config) == {}
