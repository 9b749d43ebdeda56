"""Which source topics and partitions the ledger knows: what was mirrored, and what recorders saw at the source."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.errors import UsageError


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """By topic name all partitions that any incarnation of the topic was seen to have."""

    by_topic: Mapping[str, frozenset[int]]

    @classmethod
    def of(
        cls, recorded: Iterable[tuple[str, int]], topic_rows: Iterable[Mapping[str, Any]]
    ) -> "KnownPartitions":
        """From what the flow recorded something about, and the rows of the table `topics` about its source."""
        found: dict[str, set[int]] = {}
        for topic, partition in recorded:
            found.setdefault(topic, set()).add(partition)
        for row in topic_rows:
            found.setdefault(row["topic"], set()).update(range(row["partitions"]))
        return cls({topic: frozenset(partitions) for topic, partitions in found.items()})

    def require(self, flow: str, topic: str, partition: int | None) -> None:
        """Raise `UsageError` for a topic, or a partition of it, that the ledger does not know."""
        known = self.by_topic.get(topic)
        if known is None:
            raise UsageError(
                f"the ledger knows no topic {topic!r} at the source of {flow}; it knows "
                f"{_listed(sorted(self.by_topic))}; nothing was translated"
            )
        if partition is not None and partition not in known:
            raise UsageError(
                f"topic {topic} at the source of {flow} has no partition {partition} as far as the ledger knows; it "
                f"has {_listed(list(map(str, sorted(known))))}; nothing was translated"
            )


_SHOWN = 20


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more
