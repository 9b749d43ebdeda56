"""What the ledger of a simulation says to a commit, by the algebra of pairs of partitions."""

from ledger.facts.syncs import Checkpoint
from tests.support.algebra.first_unread import KnownPair, first_unread
from tests.support.algebra.read import KnownGroup
from tests.support.algebra.translation import Commit
from tests.support.group_ledgers import Log, PairLedger


class Answering:
    """For groups of one partition that continue at another."""

    def __init__(self, known: PairLedger, here: Log, there: Log) -> None:
        self._known = known
        self._here, self._there = here, there
        self._pair: KnownPair = known.pair(here, there)

    def of_offset(self, topic_id: str, offset: int, leader_epoch: int | None) -> int | None:
        """For a commit that was made just now on records of a leader epoch."""
        commit = Commit(offset=offset, topic_id=topic_id, leader_epoch=leader_epoch)
        return first_unread(self._pair, KnownGroup(here=commit, highest_seen=offset)).offset

    def of_checkpoint(self, commit: Checkpoint) -> int | None:
        """For what a group had committed when it was recorded last."""
        return first_unread(self._pair, self._known.group(commit.group_id, self._here, self._there)).offset
