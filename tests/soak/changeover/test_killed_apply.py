"""The process of an apply is killed by kill -9 again and again: whoever continues it comes to the same end.

Who comes beside it, or to another cluster, is refused.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.commands import Done, command
from tests.support.following import Pair, name_of
from tests.support.plans import SHUT, HookedStep, applying, both_ways, has_recorded, receipts, verified
from tests.support.recorded import broken_invariants, operations, rows
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually

_KILLED = -9
_WHY = ("--reason", "a drill", "--yes")


def elsewhere(config: MirrorConfig, pair: Pair) -> MirrorConfig:
    """The same configuration with the addresses of east behind the alias of west."""
    east, west = (pair[alias].bootstrap_servers for alias in ("east", "west"))
    file = Path(config.file).with_name("elsewhere.toml")
    file.write_text(Path(config.file).read_text().replace(west, east))
    return load_config(file)


def assert_shown(capsys: pytest.CaptureFixture[str], config: MirrorConfig, plan_id: str) -> None:
    """As a ticket has it; and asked as of when it was recorded it is the same, whatever happened since."""
    shown = command(capsys, config, "plan", "show", plan_id, "-o", "md")
    assert shown.code == 0, shown.err
    assert shown.out.startswith(f"# Plan {plan_id}: switchover from east to west\n")
    assert "| promote | promote the target |" in shown.out
    recorded = [row for row in rows(config, "operations") if row["kind"] == "plan"][-1]
    asked = json.loads(recorded["content"])["plan"]["choices"]
    options = [*SHUT, "--watch", "2", "--topic", *asked["topics"], "--group", *asked["groups"]]
    hooks = [
        word
        for step, line in json.loads(recorded["content"])["plan"]["hooks"].items()
        for word in ("--hook", f"{step}={line}")
    ]
    way = ("--from", "east", "--to", "west", "--accept", "no_commit", "-o", "json")
    again = command(
        capsys, config, "plan", "switchover", *way, *options, *hooks, "--as-of", recorded["operation_id"]
    )
    assert [one["plan_id"] for one in json.loads(again.out)] == [plan_id], again.err


def assert_refused(done: Done, words: str) -> None:
    assert (done.code, done.out) == (5, ""), done.err
    assert words in done.err


def test_an_apply_that_is_killed_while_it_waits_and_while_it_acts_is_continued(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    stop_groups, start = (HookedStep(site.folder, step) for step in ("stop_groups", "start_applications"))
    deaths: list[tuple[str, Callable[[], bool]]] = [
        ("its hook stops groups", stop_groups.is_asked),
        ("the target was promoted", has_recorded(config, "promoted")),
        ("the cut is begun", lambda: rows(config, "cut_offsets") != []),
        ("groups are being set", has_recorded(config, "offsets_set")),
        ("its hook starts applications", start.is_asked),
    ]
    with site.running(config):
        with desk.open(east, [topic]):
            shop.sell(east, 200)
            eventually(lambda: desk.is_at_work(100), "the group is at work")
        shop.sell(east, 40)
        plan_id = site.planned(
            config,
            *("switchover", *SHUT, "--watch", "2"),
            *("--topic", topic, "--group", desk.group, *stop_groups.option, *start.option),
        )
        assert_shown(site.capsys, config, plan_id)
        refused = site.command(elsewhere(config, site.pair), "apply", plan_id, *_WHY)
        assert_refused(refused, "another cluster answers behind west")
        assert operations(config, "apply_claimed") == []
        try:
            for what, has_come in deaths:
                with applying(config, plan_id, site.folder / "apply.log") as process:
                    eventually(lambda: has_come() or process.poll() is not None, what)  # noqa: B023
                    if has_come == stop_groups.is_asked:
                        both = site.command(config, "apply", plan_id, *_WHY)
                        assert_refused(both, "another process carries out a plan")
                    process.kill()
                    assert process.wait() == _KILLED, (what, (site.folder / "apply.log").read_text())
                stop_groups.done()
        finally:
            stop_groups.done()
            start.done()
        ended = site.done(config, "apply", plan_id, *_WHY)
        with desk.open(west, [topic]):
            shop.sell(west, 50)
            eventually(lambda: set(desk.processed) >= set(shop.written), "all is processed")
            _, found = verified(site.capsys, config, ended.out.strip())
    assert sorted(desk.processed) == sorted(shop.written)
    assert len(desk.processed) == 290
    kinds = Counter(row["kind"] for row in rows(config, "operations"))
    assert (kinds["promoted"], kinds["apply_ended"], kinds["apply_claimed"]) == (1, 1, len(deaths) + 1)
    assert (
        len({row["operation_id"] for row in rows(config, "operations") if row["kind"] == "step_begun"}) == 1
    )
    assert receipts(config).keys() == set(operations(config, "plan")[0]["plan"]["steps"])
    assert len(rows(config, "cut_offsets")) == 4, "each side of each partition once"
    assert {check for check, status in found.items() if status != "ok"} == {"shut_out"}, found
    assert broken_invariants(config) == {}
