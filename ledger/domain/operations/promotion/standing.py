"""What stands about a promoted topic: by which operation it was promoted, what keeps writers from where it was.

It is read from the rows of directions and fences in the order of the operators' serial, since what was said of a fence
before a topic was promoted says nothing about the promotion.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.domain.fences.receipts import FENCE_KINDS, Fence, Unfenced
from ledger.domain.operations.content import Row
from ledger.domain.operations.directions import DIRECTION_KINDS, Demoted, Promoted

STANDING_KINDS = (*DIRECTION_KINDS, *FENCE_KINDS)
"""Kinds of the rows that are read."""


class FenceStanding(StrEnum):
    """What became of the fence of a topic where applications wrote before."""

    NONE = "none"  # nobody has made one, or it was lifted before the promotion
    STANDS = "stands"  # proved or not: that is said of the fence itself
    LIFTED = "lifted"  # since the promotion: somebody has said that it need not be


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPromotion:
    """A topic that is promoted now, as the last promotion about it has it."""

    operation_id: str
    promoted_at_ms: int
    no_reverse: bool
    fence: FenceStanding


_Content = Promoted | Demoted | Fence | Unfenced
_CONTENT_OF: Mapping[str, type[_Content]] = {one.kind: one for one in (Promoted, Demoted, Fence, Unfenced)}


@dataclass(frozen=True, slots=True)
class StandingRows:
    """Rows of `STANDING_KINDS` with what they say, in order: read once, whatever number of topics is asked about."""

    rows: Sequence[tuple[Row, _Content]]

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> "StandingRows":
        return cls(
            [(row, _CONTENT_OF[row["kind"]].of_row(row)) for row in rows if row["kind"] in _CONTENT_OF]
        )

    def promotion(
        self, *, source: str, target: str, source_topic: str, topic: str
    ) -> StandingPromotion | None:
        """Of `topic` of `target` over `source_topic` of `source`; None: it is not promoted.

        Where it was promoted several times since it was demoted last, one that nothing is to be mirrored back by
        counts.
        """
        found: StandingPromotion | None = None
        fence = FenceStanding.NONE
        for row, content in self.rows:
            match content:
                case Promoted() if content.covers(source, target, topic):
                    fence = FenceStanding.NONE if found is None and fence is FenceStanding.LIFTED else fence
                    found = _promoted(row, content, found)
                case Demoted() if content.covers(source, target, topic):
                    found = None
                case Fence() if (content.cluster, content.topic) == (source, source_topic):
                    fence = FenceStanding.STANDS
                case Unfenced() if (content.cluster, content.topic) == (source, source_topic):
                    fence = FenceStanding.LIFTED
        return None if found is None else replace(found, fence=fence)


def _promoted(row: Row, promoted: Promoted, before: StandingPromotion | None) -> StandingPromotion:
    return StandingPromotion(
        operation_id=row["operation_id"],
        promoted_at_ms=row["recorded_at_ms"],
        no_reverse=promoted.no_reverse or (before is not None and before.no_reverse),
        fence=FenceStanding.NONE,
    )
