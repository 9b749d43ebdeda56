"""Partitions that another flow copies to the same target topic: begun once more, all would be there twice.

The ledger knows flows by their names: a flow of another name with the same topics has copied nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import PartitionPair
from ledger.mirror.partitions.flow_progress import PartitionKey, key_of
from ledger.ports.ledger import LedgerState

AlsoCopiedBy = Callable[[str], frozenset[str]]
"""By source topic: other flows of the configuration that copy it to the same target topic."""


@dataclass(frozen=True, slots=True)
class OtherFlows:
    """Finds them in the ledger and in the configuration."""

    flow: str
    state: LedgerState
    also_copied_by: AlsoCopiedBy

    def __call__(self, pairs: Sequence[PartitionPair]) -> Mapping[PartitionKey, str]:
        """What says that another flow copies a partition; those that this flow has to itself are left out."""
        recorded = self.state.copied_by_others(self.flow, {pair.source.topic_id for pair in pairs})
        found = {}
        for pair in pairs:
            source, target = pair.source, pair.target
            other = recorded.get((source.topic_id, source.partition, target.topic_id))
            if other is not None:
                found[key_of(pair)] = (
                    f"flow {other} has copied {source.topic} partition {source.partition} to {target.topic}, as the "
                    f"ledger has it: flow {self.flow} would copy all of it once more"
                )
            elif others := self.also_copied_by(source.topic):
                found[key_of(pair)] = (
                    f"the configuration lets flow {' and '.join(sorted(others))} copy {source.topic} to "
                    f"{target.topic}, too: every record would be there twice"
                )
        return found
