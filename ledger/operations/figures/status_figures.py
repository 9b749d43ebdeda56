"""What `status` knows of a flow that objectives are about: its lag, and what a failover would lose."""

from collections.abc import Iterator, Sequence

from ledger.domain.objectives import Figure, Objective
from ledger.operations.figures.failover_loss import Row, loss_objectives
from ledger.operations.flow_lag import Lag, LagState


def figures_of(flow: str, lag: Lag, losses: Sequence[Row], *, fresh_seconds: float) -> Iterator[Figure]:
    """Those of lag and loss; `losses`: of the partitions that the flow still copies."""
    yield _lag_records(flow, lag)
    yield _lag_seconds(flow, lag)
    if lag.state is LagState.CAUGHT_UP and not lag.partitions:
        yield Figure(Objective.MAX_LOSS_RECORDS, 0, flow)  # all its topics have ended
        yield Figure(Objective.MAX_LOSS_SECONDS, 0, flow)
        return
    yield from loss_objectives(losses, of=flow, fresh_seconds=fresh_seconds)


def _lag_records(flow: str, lag: Lag) -> Figure:
    value = 0 if lag.state is LagState.CAUGHT_UP else lag.records
    return Figure(Objective.MAX_LAG_RECORDS, value, flow, is_at_least=lag.state is LagState.UNKNOWN)


def _lag_seconds(flow: str, lag: Lag) -> Figure:
    if lag.state is LagState.CAUGHT_UP:
        return Figure(Objective.MAX_LAG_SECONDS, 0, flow)
    is_at_least = lag.state is LagState.UNKNOWN or lag.seconds_bound != "at_most"
    return Figure(Objective.MAX_LAG_SECONDS, lag.seconds, flow, is_at_least=is_at_least)
