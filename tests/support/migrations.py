"""From a MirrorMaker 2 that runs to a flow that continues in its topics, by the commands that OPERATIONS prints.

The oracle is what consumers read: records at both sides, and what a group that moves reads at the target.
"""

import json
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ledger.config.file import load_config
from ledger.jvm import home
from ledger.sandbox.groups import GroupPlan, consume, resume
from ledger.sandbox.reading import ends, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.checkout import CHECKOUT
from tests.support.commands import Done
from tests.support.documents import section
from tests.support.drivers import ended_afterwards
from tests.support.following import produce
from tests.support.mirror_maker import maker_of
from tests.support.readers import Reader
from tests.support.recorded import broken_invariants
from tests.support.waiting import eventually

_MANUAL = (CHECKOUT / "ledger" / "OPERATIONS.md").read_text(encoding="utf-8")
_COMMANDS = [
    line
    for heading in ("Coming from MirrorMaker 2", "Taking over what MirrorMaker 2 mirrored")
    for block in re.findall(r"^```\n(.*?)^```$", section(_MANUAL, heading), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
"""In the order of the page, whose clusters are east and west."""
_PARTITIONS = 2
_RECORDS = 60
_MORE = 25


@dataclass(frozen=True)
class Migration:
    """Topics and groups of one migration alone, on clusters that others may use too."""

    servers: Mapping[str, str]
    reader: Reader
    name: str

    @property
    def topics(self) -> list[str]:
        return [f"{self.name}-orders", f"{self.name}-payments"]

    @property
    def copies(self) -> list[str]:
        return [f"east.{topic}" for topic in self.topics]

    def group(self, kind: str) -> str:
        return f"{self.name}-{kind}"

    @property
    def properties(self) -> str:
        """The file of somebody whose groups follow, with times that a test waits for."""
        one_copy = "".join(
            f"{name}replication.factor = 1\n"
            for name in ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
        ) + "".join(f"{name}.storage.replication.factor = 1\n" for name in ("offset", "status", "config"))
        return f"""# Two data centres: what is at east is at west too, and so are its consumers' places.
clusters = east, west
east.bootstrap.servers = {self.servers["east"]}
west.bootstrap.servers = {self.servers["west"]}

east->west.enabled = true
east->west.topics = {self.name}-orders, {self.name}-pay.*
east->west.groups = {self.name}-.*
east->west.groups.exclude = .*-outside
west->east.enabled = false

tasks.max = 2
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 1
sync.topic.acls.enabled = false
{one_copy}"""

    # -- What is there ---------------------------------------------------------------------------------

    def source(self) -> dict[tuple[str, int], list[bytes | None]]:
        """By copy and partition, what consumers read at east."""
        return {(f"east.{topic}", part): of for (topic, part), of in self._read("east", self.topics).items()}

    def target(self) -> dict[tuple[str, int], list[bytes | None]]:
        """The same at west; nothing of topics that are not there yet."""
        there = AdminClient({"bootstrap.servers": self.servers["west"]}).list_topics(timeout=30).topics
        return self._read("west", [copy for copy in self.copies if copy in there])

    def _read(self, alias: str, topics: list[str]) -> dict[tuple[str, int], list[bytes | None]]:
        found = read_topics(self.servers[alias], topics) if topics else {}
        return {at: [placed.record.value for placed in records] for at, records in found.items()}

    def committed(self, kind: str, alias: str) -> dict[tuple[str, int], int]:
        """Where a group stands in the topics, or in their copies, as a member of it is told."""
        topics = self.topics if alias == "east" else self.copies
        consumer = Consumer({"bootstrap.servers": self.servers[alias], "group.id": self.group(kind)})
        try:
            asked = [TopicPartition(topic, part) for topic in topics for part in range(_PARTITIONS)]
            answer = consumer.committed(asked, timeout=30)
        finally:
            consumer.close()
        return {(one.topic, one.partition): one.offset for one in answer if one.offset >= 0}

    def everything(self) -> object:
        """What nobody may change who only looks: where both sides end, groups, and the files of the ledger."""
        files = sorted(path for path in self.reader.folder.glob("ledger*/**/*") if path.is_file())
        return (
            ends(self.servers["east"], self.topics),
            ends(self.servers["west"], self.copies),
            [(kind, alias, self.committed(kind, alias)) for kind in _KINDS for alias in self.servers],
            [(path, path.read_bytes()) for path in files],
        )


_KINDS = ("billing", "early", "outside")


@contextmanager
def migration(servers: Mapping[str, str], folder: Path) -> Iterator[Migration]:
    """Topics with records, and groups that have read a part of them; nothing is mirrored yet."""
    environment = {**os.environ, "MIRROR_LEDGER_HOME": str(home()), "COLUMNS": "200"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment.pop("MIRROR_LEDGER_CONFIG", None)
    made = Migration(servers, Reader(folder, environment), f"m{uuid.uuid4().hex[:6]}")
    create_topics(servers["east"], made.topics, partitions=_PARTITIONS)
    write(made, 0, _RECORDS)
    for kind, stop in (("billing", 20), ("outside", 20), ("early", 10)):
        read_up_to(made, kind, "east", stop)
    (folder / "mm2.properties").write_text(made.properties, encoding="utf-8")
    yield made


def write(made: Migration, start: int, stop: int) -> None:
    for topic in made.topics:
        for partition in range(_PARTITIONS):
            values = (f"{topic}/{partition}/{number}" for number in range(start, stop))
            produce(made.servers["east"], topic, *values, partition=partition)


def read_up_to(made: Migration, kind: str, alias: str, stop: int) -> None:
    topics = made.topics if alias == "east" else made.copies
    places = {(topic, partition): stop for topic in topics for partition in range(_PARTITIONS)}
    consume(made.servers[alias], GroupPlan(made.group(kind), places))


def assert_migrated(made: Migration, *, release: str | None = None) -> None:
    """Everything of the page, in its order; `release`: of MirrorMaker, where it is not the newest."""
    commands = iter(_COMMANDS)

    def next_done(wanted: str, *codes: int) -> Done:
        line = next(commands)
        assert line.startswith(wanted), line
        line += " -o json" if "adopt" in line else ""
        if release is not None:
            line = line.replace("mm2.properties", f"mm2.properties --release {release}")
        done = made.reader.typed(line)
        assert done.code in (codes or (0,)), (line, done)
        assert "Traceback" not in done.err
        return done

    with maker_of(made.properties, made.reader.folder, release=release):
        eventually(lambda: made.target() == made.source(), "MirrorMaker has copied everything")
        eventually(lambda: len(made.committed("billing", "west")) == 4, "it has synced the group")
        at_east = topics_at(made, "east")
        next_done("mirror-ledger import mm2.properties > ")
        next_done("mirror-ledger import mm2.properties --check")
        next_done("export MIRROR_LEDGER_CONFIG")
        next_done("mirror-ledger init")
        found = next_done("mirror-ledger doctor", 4)
        assert "adopt east-to-west takes them over" in " ".join(found.out.split()), found.out
        assert topics_at(made, "east") == at_east, "nothing was made at the source"
        write(made, _RECORDS, _RECORDS + _MORE)
        eventually(lambda: made.target() == made.source(), "MirrorMaker is at work all the time")
    read_up_to(made, "early", "west", 40)
    write(made, _RECORDS + _MORE, _RECORDS + 2 * _MORE)
    taken_over(made, next_done)
    running(made, next(commands))
    assert next(commands, None) is None, "all of the page was typed"


def topics_at(made: Migration, alias: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": made.servers[alias]}).list_topics(timeout=30).topics)


def taken_over(made: Migration, next_done: Callable[..., Done]) -> None:
    before, places = made.everything(), made.committed("billing", "west")
    preview = next_done("mirror-ledger adopt east-to-west --dry-run")
    assert made.everything() == before, "a dry run changes nothing"
    copied = made.target()
    adopted = next_done("mirror-ledger adopt east-to-west")
    expected = {(at.removeprefix("east."), part): ("exact", len(of)) for (at, part), of in copied.items()}
    assert verdicts(adopted.out) == verdicts(preview.out) == expected
    assert made.target() == copied, "nothing is written to the target"
    assert made.committed("billing", "west") == places, "no group is touched"


def verdicts(answer: str) -> dict[tuple[str, int], tuple[str, int]]:
    """By source partition, and how many records have their copy."""
    rows = json.loads(answer)
    return {(row["source_topic"], row["partition"]): (row["verdict"], row["paired"]) for row in rows}


def running(made: Migration, line: str) -> None:
    """The flow continues where MirrorMaker had stopped, and so do groups."""
    assert line == "mirror-ledger run east-to-west"
    own = made.committed("early", "west")
    log = made.reader.folder / "run.log"
    with ended_afterwards(made.reader.shell(f"exec {line}"), log) as driver:

        def has_copied() -> bool:
            assert driver.poll() is None, log.read_text()
            return made.target() == made.source()

        eventually(has_copied, "the flow has copied what is new")
        write(made, _RECORDS + 2 * _MORE, _RECORDS + 3 * _MORE)
        read_up_to(made, "billing", "east", _RECORDS)
        eventually(
            lambda: set(made.committed("billing", "west").values()) == {_RECORDS},
            "the group is where it is at east",
        )
        eventually(has_copied, "and follows")
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(120) == 0
    target = made.target()
    assert {at: [*dict.fromkeys(values)] for at, values in target.items()} == target, "no record twice"
    assert {len(values) for values in target.values()} == {_RECORDS + 3 * _MORE}, "and none lost"
    assert made.committed("early", "west") == own, "who reads at the target already is not moved"
    assert set(own.values()) == {40}
    assert made.committed("outside", "west") == {}, "a group that is left out is not there"
    read = resume(made.servers["west"], made.group("billing"), list(target))
    assert {at: [placed.record.value for placed in records] for at, records in read.items()} == {
        at: values[_RECORDS:] for at, values in target.items()
    }, "a group that moves reads what it has not read, each once"
    assert broken_invariants(load_config(made.reader.folder / "mirror.toml")) == {}
