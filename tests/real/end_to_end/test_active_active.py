"""The same topic names mirrored in all directions: each side ends up with everything once, and nothing loops."""

import threading
import time
from collections.abc import Mapping

from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from ledger.sandbox.log_gaps import (
    CLEANED_AGAIN,
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    wait_until_cleaned,
)
from ledger.sandbox.workload import Delivery, RecordSource, Workload
from tests.support.mesh import (
    BOTH_WAYS,
    PARTITIONS,
    mesh_of,
)
from tests.support.recorded import broken_invariants, query
from tests.support.site import RealSite

Pair = Mapping[str, SandboxCluster]


def test_what_a_mirror_wrote_is_known_after_the_cleaner_came(site: RealSite) -> None:
    mesh = mesh_of(
        site.pair, site.spark, site.folder, BOTH_WAYS, configuration={**CLEANED_QUICKLY, **KEPT_AS_IT_IS}
    )
    workload = Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000 - 60_000)
    delivery = Delivery(mesh.servers["east"], {"batch.num.messages": "50"})
    for number, record in enumerate(RecordSource(workload).overwrite(mesh.topic, 2_000, keys=20)):
        delivery.send(mesh.topic, number % PARTITIONS, record)
    delivery.finish()
    mesh.run("west-to-east")
    assert mesh.run("east-to-west").records == 2_000
    ends = frozenset({Subject.HIGH_WATERMARKS, Subject.SWEEP})
    record_clusters(mesh.config, ["west"], ends, stop=threading.Event(), once=True)
    lag = query(mesh.config, "replication_lag", flow="west-to-east")
    assert sum(row["last_stable"] - row["mirrored_end"] for row in lag) == 2_000
    assert {(row["lag_records"], row["status"]) for row in lag} == {(0, "caught_up")}, (
        "mirrors wrote all of it"
    )
    configure(mesh.servers["west"], mesh.topic, CLEANED_AGAIN)
    holes = sum(wait_until_cleaned(mesh.servers["west"], mesh.topic).values())
    assert holes > 500
    assert mesh.run("west-to-east").records == 0
    gaps = mesh.gaps("west-to-east")
    assert gaps["mirror_write"] > 0
    assert set(gaps) <= {"mirror_write", "compacted"}
    assert sum(gaps.values()) == 2_000
    assert broken_invariants(mesh.config) == {}
