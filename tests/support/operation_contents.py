"""One of each kind of operation, with something in every key."""

from collections.abc import Mapping

from ledger.facts.acls import denial
from ledger.facts.changeovers import (
    ApplyAlive,
    ApplyClaimed,
    ApplyEnded,
    PlanExported,
    PlanRecorded,
    RecordedBlocker,
    Sheet,
    StepBegun,
    StepDone,
    StepFailed,
    UndoBegun,
    Undone,
)
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.fences import (
    EpochMarker,
    Fence,
    FencedPartition,
    MirrorLetIn,
    MirrorShutOut,
    ShutOutProof,
    Unfenced,
)
from ledger.facts.group_offsets import (
    CommitResult,
    ExtraRange,
    ExtrasDecided,
    ExtrasPolicy,
    IntendedCommit,
    OffsetsSet,
    OffsetsSetResult,
    SeenAppend,
)
from ledger.facts.hand_overs import HandedOver, HandOverResult, HandOverUndone, TopicHandOver
from ledger.facts.identity import ClusterAcceptance
from ledger.facts.last_rows import (
    LastCheckpoints,
    LastHighWatermarks,
    LastOffsetSyncs,
    LastShareOffsets,
    LastWriters,
)
from ledger.facts.operations import (
    AclAction,
    AclsFollowed,
    ConfigurationChanged,
    DriverStarting,
    FindingCleared,
    FindingRaised,
    GivenUp,
    KeysResynced,
    LedgerRepaired,
    OperationContent,
    OperationKind,
    PartitionResumed,
    PartitionStopped,
    ScopeReduced,
    Settled,
    TailCopiedAgain,
    TopicAction,
    TopicFollowed,
)
from ledger.facts.permissions import Permission, PermissionKind, topic_acl
from ledger.facts.requests import (
    Acceptance,
    AcceptForeign,
    Pause,
    Receipt,
    RequestKind,
    RequestResult,
    Resume,
    Resync,
    SkipTo,
    StopRequest,
)
from ledger.topics.following import SettingsChange

SOURCE_ID, TARGET_ID = "0vKk3c8nTzWq5mJxY1bD2A", "pB7dR4xuQ1G9sLw2eZk6fQ"


def content_of(kind: OperationKind) -> OperationContent:
    """As PROTOCOL.md has it for an example."""
    return _CONTENTS[kind]


_DENY = denial("orders", "User:mirror")

_CONTENTS: Mapping[OperationKind, OperationContent] = {
    OperationKind.STOP: StopRequest(),
    OperationKind.PAUSE: Pause(topic="orders"),
    OperationKind.RESUME: Resume(topic="orders", partition=0),
    OperationKind.SKIP_TO: SkipTo(topic="orders", partition=0, offset=1500),
    OperationKind.ACCEPT_FOREIGN: AcceptForeign(topic="orders", partition=0),
    OperationKind.RESYNC: Resync(topic="orders", partition=0, offset=1200),
    OperationKind.DRIVER_STARTING: DriverStarting("mirror-1:4711:1766303990:3c9e", until_caught_up=True),
    OperationKind.SCOPE_REDUCED: ScopeReduced({"audit": 25000, "orders": 1500}),
    OperationKind.SETTLED: Settled(
        topic="orders",
        topic_id=SOURCE_ID,
        partition=0,
        target_topic="east.orders",
        target_topic_id=TARGET_ID,
        source_start=1500,
        target_start=1480,
        target_end=1492,
        first_sequence=1480,
        producer_id=4000,
        records=10,
        others=2,
        others_start=1490,
    ),
    OperationKind.CLUSTER_ACCEPTED: ClusterAcceptance(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former_id="MkU3OEVBNTcwNTJENDM2Qg",
        rebuilt=True,
        retired_epochs={"flow:east-to-west": 3},
    ),
    OperationKind.OFFSETS_SET: OffsetsSet(
        group="billing",
        source_cluster="east",
        target_cluster="west",
        cut="v2.eJyrVspJTUlPLVKyUqpWykktLs5MzwMA",
        commits=(
            IntendedCommit(
                topic="east.orders",
                topic_id=TARGET_ID,
                partition=0,
                former=900,
                to=1380,
                source_topic="orders",
                source_topic_id=SOURCE_ID,
                source_partition=0,
                source_offset=1400,
                source_leader_epoch=5,
                source_made_after_ms=1766303980000,
                status="exact",
            ),
        ),
        seen=(SeenAppend(table="checkpoints", writer="recorder:west", epoch=3, round=210),),
    ),
    OperationKind.OFFSETS_SET_RESULT: OffsetsSetResult(
        group="billing",
        results=(
            CommitResult(
                source_topic="orders",
                source_partition=0,
                topic="east.orders",
                partition=0,
                former=900,
                to=1380,
                result="set",
            ),
        ),
    ),
    OperationKind.EXTRAS_DECIDED: ExtrasDecided(
        cluster="east",
        cluster_id="qN8sVYx4R0a2hT6cJmWl5w",
        topic="orders",
        topic_id=SOURCE_ID,
        policy=ExtrasPolicy.KEEP_LOCAL,
        ranges=(ExtraRange(partition=0, extra_start=1500, extra_end=1512),),
    ),
    OperationKind.PROMOTED: Promoted(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        former_id="qN8sVYx4R0a2hT6cJmWl5w",
        topics=("orders",),
        no_reverse=True,
    ),
    OperationKind.DEMOTED: Demoted(
        cut_operation="9f1d2c3b4a5e46708192a3b4c5d6e7f8",
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        former_id="qN8sVYx4R0a2hT6cJmWl5w",
        topics=None,
    ),
    OperationKind.HANDED_OVER: HandedOver(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        purpose="applications",
        topics=(
            TopicHandOver(
                topic="orders",
                topic_id=TARGET_ID,
                change=SettingsChange({"retention.ms": "86400000"}, ("compression.type",)),
                former={"retention.ms": None, "compression.type": "producer"},
            ),
        ),
        permissions=(
            Permission(
                kind=PermissionKind.ACL,
                entity="User:billing",
                host="*",
                operation="write",
                permission_type="allow",
                resource_type="topic",
                resource_name="orders",
                pattern_type="literal",
            ),
        ),
        unknown=("client quotas of east: never_recorded: no recorder has read them",),
        manual=("create SCRAM user billing (SCRAM-SHA-512) at west with its password",),
    ),
    OperationKind.HAND_OVER_UNDONE: HandOverUndone(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        purpose="applications",
        topics=(
            TopicHandOver(
                topic="orders",
                topic_id=TARGET_ID,
                change=SettingsChange({"compression.type": "producer"}, ("retention.ms",)),
                former={"compression.type": None, "retention.ms": "86400000"},
            ),
        ),
        permissions=(
            Permission(
                kind=PermissionKind.QUOTA,
                entity='{"client-id":"billing"}',
                setting="producer_byte_rate",
                value=1048576.0,
            ),
        ),
        handed_over="5d0c7a3e9b8f4c61a2d4e6f8091b3c5d",
        left=("max.message.bytes of orders",),
    ),
    OperationKind.HAND_OVER_RESULT: HandOverResult(
        of="handed_over", cluster="west", failed=("settings of orders: not as they were set",)
    ),
    OperationKind.KEYS_RESYNCED: KeysResynced(
        topic="customers", partition=0, source_keys=812, target_keys=815, tombstones=3
    ),
    OperationKind.RECEIPT: Receipt(
        request="5d0c7a3e9b8f4c61a2d4e6f8091b3c5d",
        request_kind=RequestKind.ACCEPT_FOREIGN,
        result=RequestResult.DONE,
        message="what the target holds is accepted: orders partition 0 below 1520",
        accepted={(SOURCE_ID, 0): Acceptance(TARGET_ID, target_end=1480, below=1520)},
    ),
    OperationKind.CONFIGURATION_CHANGED: ConfigurationChanged(
        old_hash="9b0f1c",
        new_hash="77ad02",
        changed=["topics"],
        configuration={"name": "east-to-west", "source": "east", "target": "west", "topics": ["orders"]},
    ),
    OperationKind.PLAN: PlanRecorded(
        plan_id="1e17325e88da7520",
        plan={
            "kind": "switchover",
            "from_cluster": "east",
            "to_cluster": "west",
            "steps": ["check", "fence"],
        },
        blockers=(
            RecordedBlocker(
                code="objective", words="41 s behind", advice="wait", cause="max_lag_seconds_exceeded"
            ),
        ),
        cut="v2.eJyrVspJTUlPLVKyUqpWykktLs5MzwMA",
        forecast={
            "records_lost": 0,
            "records_estimated": 2,
            "seconds_lost": 0,
            "repeated": 0,
            "groups": 3,
        },
    ),
    OperationKind.APPLY_CLAIMED: ApplyClaimed(
        plan_id="1e17325e88da7520", host="ops-1:4711:1766303990:3c9e", is_continued=False
    ),
    OperationKind.APPLY_ALIVE: ApplyAlive(step="drain"),
    OperationKind.STEP_BEGUN: StepBegun(step="drain"),
    OperationKind.STEP_DONE: StepDone(
        step="drain",
        words="1 partition copied to the end",
        read_back={"high_watermarks": {"orders-0": 1500}},
        hook={"command": "systemctl stop orders", "exit_code": 0, "output": ""},
    ),
    OperationKind.STEP_FAILED: StepFailed(step="drain", words="not within 300 s: 12 offsets to copy"),
    OperationKind.APPLY_ENDED: ApplyEnded(
        result="done", words="all steps are done", figures={"downtime_seconds": 14.2}
    ),
    OperationKind.PLAN_EXPORTED: PlanExported(
        plan_id="1e17325e88da7520",
        cut="v2.eJyrVspJTUlPLVKyUqpWykktLs5MzwMA",
        groups=3,
        left_out=["'audit' at orders partition 0: no_map"],
        from_cluster="east",
        denied={"orders": ["User:shop"]},
    ),
    OperationKind.SHEET: Sheet(
        plan_id="1e17325e88da7520",
        group="billing",
        source_cluster="east",
        target_cluster="west",
        group_type=None,
        cut="v2.eJyrVspJTUlPLVKyUqpWykktLs5MzwMA",
        commits=(
            IntendedCommit(
                topic="orders",
                topic_id=TARGET_ID,
                partition=0,
                former=None,
                to=1380,
                source_topic="orders",
                source_topic_id=SOURCE_ID,
                source_partition=0,
                source_offset=1400,
                source_leader_epoch=5,
                source_made_after_ms=1766303980000,
                status="exact",
            ),
        ),
    ),
    OperationKind.UNDO_BEGUN: UndoBegun(
        plan_id="1e17325e88da7520", host="ops-1:4711:1766303990:3c9e", is_continued=False
    ),
    OperationKind.UNDONE: Undone(
        steps={"promote": "all topics of west over east is promoted no more"},
        read_back={"promote": {"is_new": True}},
    ),
    OperationKind.PARTITION_STOPPED: PartitionStopped(
        topic="orders",
        topic_id=SOURCE_ID,
        partition=0,
        cause="foreign_write",
        message="somebody else wrote to the target; nothing was written after it",
        next="stop the other writer, then accept-foreign",
    ),
    OperationKind.PARTITION_RESUMED: PartitionResumed(topic="orders", topic_id=SOURCE_ID, partition=0),
    OperationKind.LEDGER_REPAIRED: LedgerRepaired(
        "checkpoints",
        [
            GivenUp(
                "part-7d0e.zstd.parquet",
                "is empty",
                {
                    "numRecords": 2,
                    "minValues": {"writer": "recorder:east", "round": 7},
                    "maxValues": {"writer": "recorder:east", "round": 7},
                },
            )
        ],
    ),
    OperationKind.TAIL_COPIED_AGAIN: TailCopiedAgain(
        topic="orders",
        topic_id=SOURCE_ID,
        partition=0,
        message="no record behind target offset 1480 can be proved to be a copy",
    ),
    OperationKind.MIRROR_SHUT_OUT: MirrorShutOut(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        principal="User:mirror",
        flows={"east-to-west": 4},
        topics=("orders",),
        rules=(_DENY,),
        markers=(
            EpochMarker(
                flow="east-to-west",
                producer_id=4000,
                producer_epoch=1,
                topic="orders",
                topic_id=TARGET_ID,
                partition=0,
            ),
        ),
        proof=(
            ShutOutProof(
                flow="east-to-west",
                topic="orders",
                partition=0,
                stopped="its driver stopped it for the promotion",
                fences=("deny", "marker"),
                reason=None,
            ),
        ),
    ),
    OperationKind.MIRROR_LET_IN: MirrorLetIn(
        cluster="west",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        former="east",
        topics=("orders",),
        rules=(_DENY,),
    ),
    OperationKind.FENCE: Fence(
        cluster="east",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        topic="orders",
        topic_id="jX1kTgB6QvmVbPfD0cZyHw",
        how="closed",
        proof="proven",
        denied=("User:billing", "User:shop"),
        former={},
        super_users=None,
        confirmed=("User:admin",),
        hook=None,
        partitions=(
            FencedPartition(
                partition=0,
                end=1200,
                last_stable=1200,
                quiet_ms=1000,
                is_telling=True,
                proof="proven",
                evidence="rules",
                leader_epoch=7,
            ),
        ),
        override=None,
    ),
    OperationKind.UNFENCED: Unfenced(
        cluster="east",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        topic="orders",
        topic_id="jX1kTgB6QvmVbPfD0cZyHw",
        how="shut",
        denied=(),
        restored={"max.message.bytes": None},
        hook=None,
    ),
    OperationKind.TOPIC_FOLLOWED: TopicFollowed(
        action=TopicAction.SETTINGS_CHANGED,
        topic="east.orders",
        topic_id=TARGET_ID,
        partitions=6,
        change=SettingsChange({"retention.ms": "86400000"}, ("cleanup.policy",)),
    ),
    OperationKind.ACLS_FOLLOWED: AclsFollowed(
        AclAction.CREATED,
        (topic_acl("east.orders", "User:billing", "read"),),
    ),
    OperationKind.FINDING_RAISED: FindingRaised(
        finding="source_unreachable",
        topic="orders",
        partition=0,
        message="orders partition 0 does not answer: no leader",
        next="check the brokers of the source",
        cluster="east",
        since_ms=1766390400000,
    ),
    OperationKind.FINDING_CLEARED: FindingCleared(finding="source_unreachable", topic="orders", partition=0),
    OperationKind.LAST_OFFSET_SYNCS: LastOffsetSyncs(
        table_id="8c1de3f0-6a57-4c2b-9d34-5ef1a7b02c66",
        of_each=[
            "flow",
            "source_cluster",
            "source_topic",
            "source_topic_id",
            "source_partition",
            "target_topic_id",
            "kind",
            "cause",
        ],
        rows=362880,
        until={"flow:east-to-west": [4, 17280, 1766390400000]},
        settled_ms=1766390399000,
        last="eNqrVirOLy1KTo1PzUtRsoo2NDUwiK0FAFPJBxw",
    ),
    OperationKind.LAST_CHECKPOINTS: LastCheckpoints(
        table_id="8c1de3f0-6a57-4c2b-9d34-5ef1a7b02c66",
        of_each=["cluster", "group_id", "topic", "partition"],
        rows=627840,
        until={"recorder:east": [3, 17280, 1766390400000]},
        settled_ms=1766390399000,
        last="eNqrVkrOz83NLClJTYnPT0srTi1Rsoo2NLEwiK0FAI-RCag",
    ),
    OperationKind.LAST_SHARE_OFFSETS: LastShareOffsets(
        table_id="8c1de3f0-6a57-4c2b-9d34-5ef1a7b02c66",
        of_each=["cluster", "group_id", "topic", "partition"],
        rows=410332,
        until={"recorder:east": [3, 17280, 1766390400000]},
        settled_ms=1766390399000,
        last="eNqrVkrOz83NLClJTYnPT0srTi1Rsoo2NLEwiK0FAI-RCag",
    ),
    OperationKind.LAST_HIGH_WATERMARKS: LastHighWatermarks(
        table_id="8c1de3f0-6a57-4c2b-9d34-5ef1a7b02c66",
        of_each=["cluster", "topic", "topic_id", "partition"],
        rows=725760,
        until={"recorder:east": [3, 17280, 1766390400000], "recorder:west": [2, 17278, 1766390399000]},
        settled_ms=1766390399000,
        last="eNqrVsrITM-IL08sSS3KTSzKVrKKNjQ1MIitBQB43gjC",
    ),
    OperationKind.LAST_WRITERS: LastWriters(
        table_id="8c1de3f0-6a57-4c2b-9d34-5ef1a7b02c66",
        of_each=["writer", "writer_epoch", "event", "flow"],
        rows=120960,
        until={"flow:east-to-west": [4, 17290, 1766390400000]},
        settled_ms=1766390399000,
        last="eNqrVsrILy5RsopWys0sKsov0jW0MjE3NLQyNDczM7Y0MDEwsDJOtkxViq0FABBYC90",
    ),
}
