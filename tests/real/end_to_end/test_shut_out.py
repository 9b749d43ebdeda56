"""A mirror that goes by an older copy of the ledger writes nothing to a promoted target, until it is demoted."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import ACLOperation

from ledger.answers.maintenance import init_ledger
from ledger.changeover.pairs import Pair as ChangedPair
from ledger.changeover.shut_out import let_in
from ledger.clock import SystemClock
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import ClusterConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.syncs import TopicPartition
from ledger.kafka.leaders import KafkaFencing
from ledger.sandbox.workload import create_topics
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.following import OFTEN, Pair, admin_of, copying, name_of, produce, values
from tests.support.guarded import Guarded, login_by_file
from tests.support.ledger_rows import copied_to
from tests.support.plans import both_ways
from tests.support.recorded import broken_invariants, operations, rows
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

IDENTITY = 'topic_naming = "identity"'
MIRROR, ADMINISTRATOR = "ada", "root"


def on_a_copy(config: MirrorConfig, folder: Path) -> MirrorConfig:
    """The configuration of a mirror whose ledger is a copy of what there is now."""
    path = copied_to(folder, Path(config.ledger.path))
    file = Path(config.file).with_name("zombie.toml")
    file.write_text(Path(config.file).read_text().replace(config.ledger.path, path))
    return load_config(file)


def ask(capsys: pytest.CaptureFixture[str], config: MirrorConfig, act: str, topic: str, *more: str) -> Done:
    told = ("west", "--over", "east", "--topic", topic, "--reason", "a fire", *more)
    return command(capsys, config, act, *told)


def guarded_config(
    folder: Path,
    pair: Pair,
    guarded: Guarded,
    topic: str,
    mirror: str,
    flows: Mapping[str, str] | None = None,
) -> MirrorConfig:
    """West is the guarded cluster: the mirror is one user there, another one changes rules."""
    login = login_by_file(folder, mirror, guarded.password)
    west = f'mirror_principal = "User:{mirror}"\n{login}admin.sasl.username = "{ADMINISTRATOR}"\n'
    servers = {"east": pair["east"].bootstrap_servers, "west": guarded.without_tls}
    flows = {FLOW: copying(topic, IDENTITY)} if flows is None else flows
    lines = {name: OFTEN + text for name, text in flows.items()}
    return write_config(folder, servers, lines, properties={"west": west})


def written_at_east(site: RealSite, guarded: Guarded) -> str:
    """A topic with two records, which the mirror may copy to the guarded cluster."""
    east, topic = site.pair["east"].bootstrap_servers, name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "e0", "e1")
    for operation in (
        ACLOperation.CREATE,
        ACLOperation.WRITE,
        ACLOperation.READ,
        ACLOperation.DESCRIBE_CONFIGS,
    ):
        guarded.allow(MIRROR, topic, operation)
    return topic


def test_a_rule_keeps_it_out_until_exactly_this_rule_is_removed(site: RealSite, guarded: Guarded) -> None:
    east, topic = site.pair["east"].bootstrap_servers, written_at_east(site, guarded)
    config = guarded_config(site.folder, site.pair, guarded, topic, MIRROR)
    init_ledger(config)
    assert run(config, site.spark).records == 2
    zombie = on_a_copy(config, site.folder / "older")
    with admin_of(config.model_copy(update={"clusters": as_administrator(config)}), "west") as west:
        before = west.topic_acls()

        done = ask(site.capsys, config, "promote", topic, "--shut-out")
        assert (done.code, len(done.out.split())) == (0, 1), done.err
        assert (
            f"proven: {topic} partition 0 of flow {FLOW}: its driver ended: epoch 1 was released; deny"
            in done.err
        )
        produce(east, topic, "e2")
        assert [one.cause for one in run(zombie, site.spark).stopped] == ["denied"]
        assert values(guarded.open, topic) == [b"e0", b"e1"]

        demoted = ask(site.capsys, config, "demote", topic)
        assert (demoted.code, "1 rule removed" in demoted.err) == (0, True), demoted.err
        assert west.topic_acls() == before
    assert run(config, site.spark).records == 1
    assert values(guarded.open, topic) == [b"e0", b"e1", b"e2"]
    [shut_out, proof] = operations(config, "mirror_shut_out")
    [let_in] = operations(config, "mirror_let_in")
    assert (shut_out["proof"], proof["rules"]) == (None, let_in["rules"])


def test_it_is_let_in_for_extras_alone_and_shut_out_again(site: RealSite, guarded: Guarded) -> None:
    east, topic = site.pair["east"].bootstrap_servers, written_at_east(site, guarded)
    config = guarded_config(site.folder, site.pair, guarded, topic, MIRROR, both_ways(topic))
    init_ledger(config)
    assert run(config, site.spark).records == 2
    why = ("--reason", "east is back")
    with admin_of(config.model_copy(update={"clusters": as_administrator(config)}), "west") as west:
        assert ask(site.capsys, config, "promote", topic, "--shut-out").code == 0
        shut_out = west.topic_acls()
        produce(east, topic, "e2", "e3")
        produce(guarded.open, topic, "w0")
        fence = ("fence", "east", "--topic", topic, "--how", "shut", "--accept=producers_stopped", *why)
        site.done(config, *fence)
        back = ("mirror-back", "--from", "west", "--to", "east", "--topic", topic, *why)
        site.done(config, *back, "--extras", "replicate")
        assert west.topic_acls() == shut_out
        with Context(config) as context:
            let_in(
                context, ChangedPair("west", "east", (topic,))
            )  # as a command leaves it that is killed behind its copies
        assert west.topic_acls() != shut_out
        site.done(config, *fence)
        done = site.done(config, *back)
        assert west.topic_acls() == shut_out
    assert "the mirror has stopped at 1 partition of west: 1 proven" in done.err, done.err
    with admin_of(config, "west") as mirror:
        assert mirror.writable_topics([topic]) == frozenset()
    assert values(guarded.open, topic) == [b"e0", b"e1", b"w0", b"e2", b"e3"]
    kinds = [row["kind"] for row in rows(config, "operations") if row["kind"].startswith("mirror_")]
    assert kinds == ["mirror_shut_out"] * 2 + (["mirror_let_in"] + ["mirror_shut_out"] * 2) * 2
    run(config, site.spark, "west-to-east", from_cut=done.out.strip())
    assert values(east, topic) == [b"e0", b"e1", b"e2", b"e3", b"w0"]
    assert broken_invariants(config) == {}


def as_administrator(config: MirrorConfig) -> dict[str, object]:
    return {**config.clusters, "west": config.cluster("west").for_administration}


def test_nothing_is_denied_to_a_super_user(
    broker_pair: Pair, guarded: Guarded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No driver ever ran."""
    topic = name_of("orders")
    create_topics(guarded.open, [topic], partitions=1)
    config = guarded_config(tmp_path, broker_pair, guarded, topic, ADMINISTRATOR)
    init_ledger(config)
    done = ask(capsys, config, "promote", topic, "--shut-out")
    assert (done.code, len(done.out.split())) == (4, 1), done.err
    assert "it is a super user" in done.err


def test_who_may_not_alter_the_cluster_writes_no_marker(guarded: Guarded) -> None:
    topic, user = name_of("orders"), "guest"
    create_topics(guarded.open, [topic], partitions=1)
    guarded.allow(user, topic, ACLOperation.READ, ACLOperation.WRITE)
    cluster = ClusterConfig(
        name="west", bootstrap_servers=guarded.without_tls, properties=guarded.plain_login(user)
    )
    with closing(KafkaFencing("west", cluster, SystemClock())) as admin:
        at = TopicPartition(topic, admin.topics()[topic].topic_id, 0)
        with pytest.raises(PreconditionError, match="does not allow this principal to write abort markers"):
            admin.write_abort_markers([at], producer_id=1, producer_epoch=1)
        assert admin.producer_epochs([at], 1) == {}
        assert admin.writable_topics([topic, "none"]) == {topic}
        asked = ("read", "delete", "create")
        lacking = {topic: ["delete", "create"], "none": ["read", "delete", "create"]}
        assert admin.lacking_operations([topic, "none"], asked) == lacking
        guarded.allow(user, topic, ACLOperation.DELETE, ACLOperation.CREATE)
        eventually(lambda: admin.lacking_operations([topic], asked) == {}, "it may create the topic again")


def test_a_marker_alone_keeps_it_out_and_the_flow_continues_with_another_producer_id(site: RealSite) -> None:
    """A driver is at work all the time."""
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "e0", "e1")
    config = site.configured({FLOW: copying(topic, IDENTITY)}, 'mirror_principal = "User:mirror"')
    assert run(config, site.spark).records == 2
    zombie = on_a_copy(config, site.folder / "older")
    with running(config, site.spark):
        eventually(lambda: len(claims(config)) == 2, "the next driver is at work")
        done = ask(site.capsys, config, "promote", topic, "--shut-out", "--abort-marker")
        assert done.code == 0, done.err
        assert (
            f"proven: {topic} partition 0 of flow {FLOW}: its driver stopped it for the promotion; marker"
            in (done.err)
        )
        produce(east, topic, "e2", "e3")
        assert [one.cause for one in run(zombie, site.spark).stopped] == ["shut_out"]
        assert values(west, topic) == [b"e0", b"e1"]
        again = ask(site.capsys, config, "promote", topic, "--shut-out", "--abort-marker")
        assert (again.code, "abort markers: 0 written, 1 were there" in again.err) == (0, True), again.err

        assert ask(site.capsys, config, "demote", topic).code == 0
        eventually(lambda: values(west, topic) == [b"e0", b"e1", b"e2", b"e3"], "the driver continues")
    produce(east, topic, "e4")
    assert run(config, site.spark).records == 1
    assert values(west, topic) == [b"e0", b"e1", b"e2", b"e3", b"e4"]
    first, _, third, fourth = claims(config)
    assert (third[0] != first[0], third[1], fourth) == (True, first[0], (third[0], None))
    assert broken_invariants(config) == {}


def claims(config: MirrorConfig) -> list[tuple[int, int | None]]:
    """Producer id of each claim of the flow, and the one that it replaces."""
    claimed = sorted(
        (row for row in rows(config, "writers") if row["event"] == "claimed"),
        key=lambda row: row["writer_epoch"],
    )
    return [(row["producer_id"], row["former_producer_id"]) for row in claimed]
