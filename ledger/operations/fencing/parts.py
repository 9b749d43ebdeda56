"""What is asked of a fence, what it is carried out with, and what comes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.fences.proof import Proof, QuietBounds, least
from ledger.domain.fences.receipts import Fence, FenceHow, Fences, Unfenced
from ledger.ports.clock import Clock
from ledger.ports.fencing import FenceControl, FenceReader
from ledger.ports.hooks import HookCommand, Hooks
from ledger.ports.ledger import OperationLog

Say = Callable[[str], None]
"""Takes a line about progress."""
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFence:
    """A fence of topics of a cluster.

    `known_ids`: what the ledger knows of the topics' ids, for a cluster that does not answer. `producers_stopped`: the
    operator's word, which `shut` needs. `abort_after_s`: open transactions are aborted so long after the fence was
    closed, None: never. `unproven`: why to continue without a proof, None: without one it fails.
    """

    cluster: str
    topics: tuple[str, ...]
    how: FenceHow
    reason: str
    ticket: str | None = None
    known_ids: Mapping[str, str] = field(default_factory=dict)
    confirmed_super_users: tuple[str, ...] = ()
    producers_stopped: bool = False
    hook: HookCommand | None = None
    abort_after_s: float | None = None
    unproven: str | None = None
    quiet: QuietBounds = field(default_factory=QuietBounds)
    wait_s: float = 300.0


@dataclass(frozen=True, slots=True)
class FenceParts:
    """`mirror`: the principal that must not be denied. `pauses`: the longest, in seconds, by topic id and partition.

    `recorded_limits`: by topic its own `max.message.bytes`, None: the cluster's default, as it was recorded last when
    no fence had set it.
    """

    reader: FenceReader
    control: FenceControl
    operations: OperationLog
    hooks: Hooks
    clock: Clock
    sleep: Sleep
    say: Say
    mirror: str | None
    identities: ClusterIdentities
    fences: Fences
    pauses: Callable[[], Mapping[tuple[str, int], float]]
    recorded_limits: Callable[[], Mapping[str, str | None]] = dict

    @property
    def mirrors(self) -> frozenset[int]:
        """Producer ids of mirrors at the cluster: what they write there, no application wrote."""
        return self.identities.mirror_ids(self.reader.cluster_id())


@dataclass(frozen=True, slots=True)
class FenceResult:
    """What stands now, by topic; `operation_id` None: it stood like this before, and nothing was recorded."""

    operation_id: str | None
    words: str
    fences: tuple[Fence, ...]

    @property
    def proof(self) -> Proof:
        return least(Proof(one.proof) for one in self.fences)

    @property
    def facts(self) -> list[dict[str, object]]:
        """For a receipt, as JSON has it."""
        return [one.content() for one in self.fences]


@dataclass(frozen=True, slots=True)
class UnfenceResult:
    """What was lifted, by topic; `operation_id` None: nothing stood, and nothing was recorded."""

    operation_id: str | None
    words: str
    lifted: tuple[Unfenced, ...]

    @property
    def facts(self) -> list[dict[str, object]]:
        """For a receipt, as JSON has it."""
        return [one.content() for one in self.lifted]
