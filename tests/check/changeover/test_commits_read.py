"""The age of commits in a plan is that of reads of commits, whatever else a recorder appends."""

from ledger.changeover.plans import ChangeoverKind
from ledger.changeover.seeing import see
from ledger.context import Context
from ledger.facts.ways import Direction
from tests.support.changing_pairs import FAILOVER, ChangingPair


def test_a_recorder_that_reads_ends_alone_makes_no_commit_younger() -> None:
    pair = ChangingPair()
    pair.lose_east(with_driver=False)

    def last(table: str) -> int:
        rows = [row for row in pair.ledger.rows(table) if row["writer"] == "recorder:east"]
        return int(max(row["recorded_at_ms"] for row in rows))

    newest = max(pair.ledger.rows("high_watermarks"), key=lambda row: row["recorded_at_ms"])
    pair.ledger.append(
        "high_watermarks",
        [{**newest, "cluster": "east", "writer": "recorder:east", "recorded_at_ms": pair.schedule.now_ms()}],
    )
    with pair.outside.seen_by(pair.outside.process()):
        way = Direction("east", "west")
        seen = see(Context(pair.config), ChangeoverKind.FAILOVER, way, FAILOVER)
    assert last("high_watermarks") > last("checkpoints")
    assert seen.commits.at_ms == last("checkpoints")
    pair.end()
