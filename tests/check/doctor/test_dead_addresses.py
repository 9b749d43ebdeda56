"""`doctor` where nobody answers at a configured address, and the cluster is reached at another."""

from collections.abc import Sequence
from contextlib import closing

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.cluster import cluster_findings, measured_cluster
from ledger.doctor.probes import ClusterProbe
from ledger.doctor.results import CheckResult
from tests.support.small_brokers import CLUSTER_ID, small_broker


def gone() -> str:
    """An address at which nobody listens any more."""
    with small_broker() as broker:
        return broker.address


def addresses(
    bootstrap: str, *seen: str, cluster_id: str = CLUSTER_ID
) -> tuple[list[CheckResult], list[CheckResult]]:
    """What is said of configured addresses and of which cluster it is, where the ledger has seen these brokers."""
    cluster = ClusterConfig(name="east", bootstrap_servers=bootstrap)
    with closing(ClusterProbe(cluster, SystemClock())) as probe:
        brokers: Sequence[Sequence[str]] = [[f"PLAINTEXT://{one}" for one in seen]] if seen else []
        probe.admin.connection.known = lambda: (cluster_id, brokers)
        found = list(
            cluster_findings(measured_cluster(probe), {"east": cluster_id}, is_target=False, now_ms=0)
        )
    of = {check: [one for one in found if one.check is check] for check in Check}
    return of[Check.BOOTSTRAP_ADDRESS], of[Check.CLUSTER_IDENTITY]


@pytest.mark.parametrize("is_configured", [True, False])
def test_a_dead_address_of_a_cluster_that_is_reached_is_a_warning(*, is_configured: bool) -> None:
    with small_broker() as broker:
        dead, alive = gone(), broker.address
        found, identity = addresses(f"{dead},{alive}") if is_configured else addresses(dead, alive)
        assert [one.verdict for one in identity] == [Verdict.OK]
    assert [one.verdict for one in found] == [Verdict.WARNING, Verdict.OK][: 1 + is_configured]
    assert dead in found[0].measured
    assert found[0].advice == (f"change bootstrap_servers of [clusters.east]: brokers are reached at {alive}")


def test_a_cluster_that_nobody_reaches_has_failed() -> None:
    dead, former = gone(), gone()
    for found, identity in (addresses(dead), addresses(dead, former)):
        assert [(one.verdict, dead in one.measured) for one in found] == [(Verdict.FAILED, True)]
        assert [one.verdict for one in identity] == [Verdict.UNKNOWN]


def test_another_cluster_at_a_recorded_address_is_not_this_one() -> None:
    with small_broker(cluster_id="another") as other:
        found, identity = addresses(gone(), other.address)
    assert [one.verdict for one in (*found, *identity)] == [Verdict.FAILED, Verdict.UNKNOWN]
