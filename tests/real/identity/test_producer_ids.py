"""Several flows into a cluster of three brokers: each broker gives producer ids from a block of its own."""

from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.roles import writer_of
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import live_cluster
from ledger.machine import LocalProcesses
from ledger.mirror.driver import claim_row
from ledger.store.log import DeltaFactLog
from ledger.store.session import FLOW_TABLES, WriterSession
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.config_files import write_config
from tests.support.following import name_of, produce, values
from tests.support.recorded import broken_invariants, rows
from tests.support.runs import run
from tests.support.trio import Trio

FLOWS = 24
"""At most: each asks one of three brokers, so that none gets a lower id than one before has a chance of 1 in 10^8."""


def claimed(config: MirrorConfig, name: str, server: str) -> int:
    """What the target gave to a flow that claims over a connection of its own, and ends at once."""
    flow, state = config.flow(name), DeltaLedgerState(open_ledger(config.ledger.path))
    trio = config.cluster("trio").model_copy(update={"bootstrap_servers": server})
    log = DeltaFactLog(config.ledger.path, SystemClock())
    with closing(KafkaAdmin("trio", trio, SystemClock())) as admin:
        row = claim_row(
            flow, source=live_cluster(admin), target=admin, state=state, host=str(LocalProcesses().own())
        )
    WriterSession.claimed(log, writer_of(name), FLOW_TABLES, row).release()
    return int(str(row["allocated_producer_id"]))


def test_flows_get_ids_of_any_brokers_block(trio: Trio, spark: SparkSession, tmp_path: Path) -> None:
    topic = name_of("orders")
    trio.create(topic, [[1]], {})
    produce(trio.servers, topic, "a", "b")
    flows = {
        f"flow-{number}": (
            f'source = "trio"\ntarget = "trio"\ntopics = ["{topic}"]\nprefix = "copy-{number}"\n'
            "replication_factor = 1\nround_seconds = 0.5\n"
        )
        for number in range(FLOWS)
    }
    config = write_config(tmp_path, {"trio": trio.servers}, flows)
    init_ledger(config)
    servers = trio.servers.split(",")
    ids: list[int] = []
    for place, name in enumerate(flows):
        ids.append(claimed(config, name, servers[place % len(servers)]))
        if ids[-1] < max(ids):
            break
    assert ids[-1] < max(ids), ids
    assert len(set(ids)) == len(ids)
    for place in (0, len(ids) - 1):
        name = f"flow-{place}"
        assert not run(config, spark, name).is_unfinished
        assert values(trio.servers, f"copy-{place}.{topic}") == [b"a", b"b"]
        claims = [row for row in rows(config, "writers") if row["flow"] == name]
        assert {row["allocated_producer_id"] for row in claims} <= {ids[place], None}
        [_] = {row["producer_id"] for row in claims}
    assert broken_invariants(config) == {}
