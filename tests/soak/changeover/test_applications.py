"""An application that writes what it reads fails over to where all that it had written was copied."""

from pathlib import Path

from ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.offsets.setting import TargetGroups
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, config_of, copying, name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, OFTEN, both_ways, lost_now
from tests.support.recorded import broken_invariants, operations, query
from tests.support.runs import running
from tests.support.shops import Shop, Workshop
from tests.support.site import RealSite
from tests.support.waiting import eventually

_OUTPUTS = "invoices"


def placed(config: MirrorConfig, group: str) -> tuple[int, int, set[str | None]]:
    """Sums of where the group has committed, by the answer, and of where it continues; what is said of its outputs."""
    found = [place for place in Ledger.open(config).translate("east", "west") if place.group_id == group]
    committed, target = (
        sum(getattr(place, name) or 0 for place in found) for name in ("committed_offset", "target_offset")
    )
    return committed, target, {place.outputs for place in found}


def test_what_was_written_for_records_below_its_place_is_at_the_target(site: RealSite) -> None:
    east, west = site.servers
    shop = Shop(name_of("orders"), 2)
    work = Workshop(name_of("billing"), shop.topic, name_of("invoices"))
    synced = ("sync_groups = true", "sync_groups_seconds = 1")
    outputs = copying(work.output, OFTEN, 'topic_naming = "identity"')
    flows = {**both_ways(shop.topic, *synced), _OUTPUTS: outputs}
    plain = config_of(site.folder, site.pair, flows)
    file = Path(plain.file)
    app = f'[apps.billing]\ngroups = ["{work.group}"]\noutputs = ["{work.output}"]\n'
    file.write_text(file.read_text(encoding="utf-8") + app, encoding="utf-8")
    config = load_config(file)
    init_ledger(config)
    create_topics(east, [shop.topic], partitions=2)
    create_topics(east, [work.output], partitions=1)

    def synced_to() -> int:
        with admin_of(config, "west") as admin:
            return sum(TargetGroups.read(admin, {work.group}).committed.values())

    with site.running(config), running(config, site.spark, _OUTPUTS):
        with work.open(east):
            shop.sell(east, 50)
            eventually(lambda: query(config, "flow_positions", flow=_OUTPUTS) != [], "its output is copied")
            eventually(lambda: placed(config, work.group) == (50, 50, {"copied"}), "to its end")
            assert len(values(west, work.output)) == 50
            site.done(config, "pause", _OUTPUTS, "--reason", "a drill", "--wait", "60")
            shop.sell(east, 30)
            eventually(lambda: len(values(east, work.output)) == 80, "it writes what is not copied")
        eventually(lambda: len(values(west, shop.topic)) == 80, "what it reads is copied")
        eventually(lambda: placed(plain, work.group)[0] == 80, "its commits are recorded")
        eventually(lambda: lost_now(config)[0]["known_end"] is not None, "the ends are recorded")
        assert placed(plain, work.group)[1] == 80, "there it would leave 30 invoices out"
        assert placed(config, work.group) == (50, 50, {"earlier_commit"})
        assert synced_to() == 50
        with lost(site.sandbox):
            plan_id = site.planned(
                config, "failover", *DEAD, "--accept=mirror_not_shut_out", "--topic", shop.topic
            )
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
            with work.open(west):
                eventually(lambda: len(set(values(west, work.output))) == 80, "it writes what is missing")
    assert sorted(values(west, work.output)) == sorted(shop.written)
    assert [one["forecast"]["groups_at_earlier_commits"] for one in operations(config, "plan")] == [1]
    [moved] = [one["read_back"] for one in operations(config, "step_done") if one["step"] == "move_groups"]
    assert moved["repeated"] == 30
    assert broken_invariants(config) == {}
