"""Whether a driver of a flow is at work now, as far as this host can see."""

from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.config.flow import FlowConfig
from ledger.domain.writer_roles import LastClaim, RoleVerdict
from ledger.mirror.driver.take_over import driver_verdict


def verdict_now(flow: FlowConfig, claim: LastClaim | None) -> RoleVerdict:
    """What is known of the driver that claimed the flow last; `claim` None: nobody ever did."""
    return driver_verdict(flow, claim, LocalProcesses(), now_ms=SystemClock().now_ms())


def is_at_work(flow: FlowConfig, claim: LastClaim | None) -> bool:
    """Whether it is alive, or was heard of too lately to be taken for dead."""
    return verdict_now(flow, claim) is RoleVerdict.IN_USE
