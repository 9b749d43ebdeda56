"""The way back begins at the cut, beside the way there."""

from confluent_kafka import Producer

from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.facts.groups import NewCommit
from ledger.recorders.observation import Subject
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, config_of, copying, name_of, produce, values
from tests.support.recorded import broken_invariants, gaps, rows
from tests.support.runs import run
from tests.support.site import RealSite

THERE, BACK = "there", "back"


def test_the_way_back_begins_at_the_cut_and_the_way_there_continues_behind_it(site: RealSite) -> None:
    """Both sides end with the same records, each once; every offset has one place at the other side."""
    east, west = site.servers
    topic, group = name_of("orders"), name_of("billing")
    back = f'source = "west"\ntarget = "east"\nopposite = "{THERE}"'
    flows = {THERE: f'opposite = "{BACK}"', BACK: back}
    config = config_of(
        site.folder,
        site.pair,
        {name: copying(topic, 'topic_naming = "identity"', more) for name, more in flows.items()},
    )

    def told(*arguments: str) -> str:
        done = site.done(config, *arguments, "--topic", topic)
        return done.out.strip()

    def ends() -> list[list[bytes]]:
        return [values(east, topic), values(west, topic)]

    def place(way: tuple[str, str], offset: int) -> tuple[int | None, str]:
        [found] = Ledger.open(config).translate(*way, topic=topic, partition=0, offset=offset)
        return found.target_offset, str(found.status)

    init_ledger(config)
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "e0", "e1")
    aborted(east, topic)
    committed(config, "east", group, topic, 2)
    assert run(config, site.spark, THERE, recorded=frozenset(Subject)).records == 2
    told("offsets", "set", "--flow", THERE, "--group", group)
    told("promote", "west", "--over", "east", "--reason", "a fire")
    aborted(west, topic)
    cut = told("cut", "--from", "east", "--to", "west")
    produce(west, topic, "w2", "w3")
    committed(config, "west", group, topic, offsets_of(west, topic)[b"w3"])
    assert run(config, site.spark, BACK, from_cut=cut, recorded=frozenset(Subject)).records == 2
    assert ends() == [[b"e0", b"e1", b"w2", b"w3"]] * 2
    [started, *_] = [row for row in rows(config, "offset_syncs") if row["flow"] == BACK]
    assert (started["kind"], started["cause"], started["source_start"], started["target_start"]) == (
        "started",
        "cut",
        2,
        4,
    )
    told("demote", "west", "--over", "east", "--keep-ends", "--reason", "over")
    produce(east, topic, "e4")
    assert run(config, site.spark, THERE).records == 1
    assert ends() == [[b"e0", b"e1", b"w2", b"w3", b"e4"]] * 2
    assert gaps(config, THERE)["mirror_write"] == 2
    assert broken_invariants(config) == {}
    east_of, west_of = (offsets_of(servers, topic) for servers in (east, west))
    for value in (b"e1", b"w3", b"e4"):
        assert place(("east", "west"), east_of[value])[0] == west_of[value]
        assert place(("west", "east"), west_of[value])[0] == east_of[value]
    [moved] = Ledger.open(config).translate("west", "east", groups=[group], topic=topic)
    assert (moved.target_offset, str(moved.status), moved.repeated) == (east_of[b"w3"], "exact", 0)
    again = site.command(config, "run", BACK, "--from-cut", "none", "--until-caught-up")
    assert (again.code, "took no cut of flow there" in again.err) == (2, True)


def committed(config: MirrorConfig, alias: str, group: str, topic: str, offset: int) -> None:
    with admin_of(config, alias) as admin:
        assert admin.set_commits(group, [NewCommit(topic, 0, offset, None)]) == {}


def aborted(servers: str, topic: str) -> None:
    """A record and a marker that no reader sees."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)


def offsets_of(servers: str, topic: str) -> dict[bytes, int]:
    placed = [one for found in read_topics(servers, [topic]).values() for one in found]
    return {one.record.value or b"": one.offset for one in placed}
