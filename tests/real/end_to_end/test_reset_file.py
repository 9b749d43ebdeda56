"""Groups of any name move: by the file that Kafka's own tool reads, typed as the manual has it, or by `offsets set`."""

import json
import os
import re
import shlex
import subprocess
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.tables import Row
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from ledger.store.delta_tables import create_tables
from tests.support.checkout import CHECKOUT
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.hostile_names import HOSTILE, UNWRITABLE
from tests.support.kafka_tools import write_tools
from tests.support.ledger_rows import copied_to
from tests.support.operated import FLOW, LaterClock, Operated, own_mark
from tests.support.shops import send, small_source

MANUAL = (CHECKOUT / "ledger" / "OPERATIONS.md").read_text(encoding="utf-8")
TRANSLATE = ("offsets", "translate", "--flow", FLOW)

UNWRITABLE_LINES = ('"line\nfeed"', "carriage\rreturn", '""')
"""Groups as a file might have them: a carriage return is taken in quotes."""


@dataclass(frozen=True)
class Groups:
    """A ledger in which each group has committed at an offset of its own, and the real target topic."""

    flow: Operated
    topic: str
    offsets: Mapping[str, int]

    def at_target(self) -> dict[str, int | None]:
        """What each group has committed there."""
        listed = [GroupListing(group, None, None) for group in self.offsets]
        with closing(KafkaAdmin("west", self.flow.config.cluster("west"), SystemClock())) as admin:
            commits = admin.commits(listed, topic_ids={})
        return {one.group_id: one.committed_offset for one in commits if one.topic == f"east.{self.topic}"}


@pytest.fixture
def groups(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Groups:
    topic, servers = f"named-{uuid.uuid4().hex[:6]}", servers_of(broker_pair)
    offsets = {group: number for number, group in enumerate((*HOSTILE, *UNWRITABLE), start=1)}
    create_topics(servers["west"], [f"east.{topic}"], partitions=1)
    send(servers["west"], f"east.{topic}", 0, small_source(topic), len(offsets))
    create_tables(str(tmp_path / "empty"), now_ms=1)
    config = write_config(tmp_path, servers, {FLOW: 'topics = [".*"]'})
    flow = Operated(copied_to(tmp_path, tmp_path / "empty"), LaterClock(), config, capfd)
    flow.writer("claimed", own_mark(), epoch=1)
    whole = copied(topic, topic_id_of(config, f"east.{topic}"), len(offsets))
    started = {"kind": "started", "cause": "earliest", "source_end": 0, "target_end": 0, "records": 0}
    flow.append("offset_syncs", {**whole, **started}, whole)
    at = {"cluster": "east", "topic": topic, "topic_id": f"id-of-{topic}", "partition": 0, "read_at_ms": 1}
    flow.append(
        "checkpoints",
        *({**at, "group_id": group, "committed_offset": offset} for group, offset in offsets.items()),
    )
    flow.append("groups", {"cluster": "east", "event": "all_listed", "read_at_ms": 1})
    return Groups(flow, topic, offsets)


def topic_id_of(config: MirrorConfig, topic: str) -> str:
    with closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as admin:
        return admin.topics()[topic].topic_id


def copied(topic: str, target_topic_id: str, records: int) -> Row:
    """All source offsets of its one partition, each at the same target offset."""
    source = {"source_topic": topic, "source_topic_id": f"id-of-{topic}", "source_partition": 0}
    target = {"target_topic": f"east.{topic}", "target_topic_id": target_topic_id, "target_partition": 0}
    ends = {"source_end": records, "target_end": records, "records": records, "kind": "copied"}
    stamp = {"flow": FLOW, "writer": f"flow:{FLOW}", "writer_epoch": 1}
    return {**stamp, "source_cluster": "east", "target_cluster": "west", **source, **target, **ends}


def typed_in(folder: Path, block: str) -> str:
    """What a block of the manual prints in a shell that finds Kafka's tool."""
    write_tools(folder, ["kafka-consumer-groups.sh"])
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_kafkas_own_tool_sets_groups_of_any_name_that_it_can_be_given(groups: Groups, tmp_path: Path) -> None:
    done = groups.flow.command(*TRANSLATE, "-o", "kafka-reset")
    assert done.code == 4
    assert f"{len(UNWRITABLE)} offsets cannot be given to Kafka's tool" in done.err
    (tmp_path / "reset.csv").write_text(done.out, encoding="utf-8", newline="")
    [block] = [
        found
        for found in re.findall(r"^```\n(.*?)^```$", MANUAL, re.M | re.S)
        if "--from-file reset.csv" in found
    ]
    typed_in(tmp_path, block.replace("WEST", groups.flow.config.cluster("west").bootstrap_servers))
    assert groups.at_target() == {name: offset for name, offset in groups.offsets.items() if name in HOSTILE}


@pytest.mark.parametrize("group", UNWRITABLE_LINES)
def test_the_tool_stops_at_a_line_that_it_cannot_take(groups: Groups, tmp_path: Path, group: str) -> None:
    """Why such lines are left out: groups behind it are not set either, and the exit code is 0 all the same."""
    place = f"east.{groups.topic},0,1\n"
    (tmp_path / "reset.csv").write_text(f"{group},{place}", encoding="utf-8", newline="")
    servers = groups.flow.config.cluster("west").bootstrap_servers
    asked = ["kafka-consumer-groups.sh", "--bootstrap-server", servers, "--reset-offsets", "--execute"]
    asked += ["--from-file", "reset.csv", "--group", group.strip('"')]
    assert "Error: " in typed_in(tmp_path, shlex.join(asked))
    assert groups.at_target() == {}


def test_offsets_set_takes_groups_that_the_file_cannot_hold(groups: Groups) -> None:
    done = groups.flow.command("offsets", "set", "--flow", FLOW, "--all-groups", "-o", "json")
    results = {row["group_id"]: row["result"] for row in json.loads(done.out)}
    assert (done.code, results) == (0, dict.fromkeys(groups.offsets, "set"))
    assert groups.at_target() == groups.offsets
