"""The kinds of rows of `operations`."""

from enum import StrEnum


class OperationKind(StrEnum):
    """What a row says; `every_kind` has the class of its content, PROTOCOL.md the keys ("Operations")."""

    # Of operators: what they ask of a flow's driver.
    STOP = "stop"  # drivers that run end; it gets no receipt
    PAUSE = "pause"  # a topic or the whole flow: copy nothing until resumed
    RESUME = "resume"  # end a pause; let stopped partitions try again
    SKIP_TO = "skip_to"  # record the source offsets up to `offset` as lost and continue there
    ACCEPT_FOREIGN = "accept_foreign"  # continue after what the target holds now
    RESYNC = "resync"  # copy again what the source holds, from `offset` or its log start
    # Of operators: what they did, or declare.
    DRIVER_STARTING = "driver_starting"  # a process is about to run the flow: Spark starts before the claim
    SCOPE_REDUCED = "scope_reduced"  # topics that were mirrored are meant to be left out
    CLUSTER_ACCEPTED = "cluster_accepted"  # an alias stands for another Kafka cluster from now on
    OFFSETS_SET = "offsets_set"  # a group's offsets are about to be set at a target
    OFFSETS_SET_RESULT = "offsets_set_result"  # what became of that, as it was read back
    EXTRAS_DECIDED = "extras_decided"  # what becomes of records that one cluster alone has
    PROMOTED = "promoted"  # applications write at a cluster now: flows into it from the other one stop
    DEMOTED = "demoted"  # they do not any more: these flows continue
    FENCE = "fence"  # applications are kept from writing to a topic of a cluster, or are about to be
    UNFENCED = "unfenced"  # they are so no longer
    HANDED_OVER = "handed_over"  # settings and permissions of a cluster are about to be another one's
    HAND_OVER_UNDONE = "hand_over_undone"  # they are about to be as they were
    HAND_OVER_RESULT = "hand_over_result"  # what became of that, as it was read back
    SETTLED = "settled"  # the end of a target partition was recorded without its source
    MIRROR_SHUT_OUT = "mirror_shut_out"  # what keeps the mirror from writing to what is promoted
    MIRROR_LET_IN = "mirror_let_in"  # the rules of that were removed
    KEYS_RESYNCED = "keys_resynced"  # the keys of a partition were compared, and what was missing written
    # Of changes of direction.
    PLAN = "plan"  # what a change of direction would do, and what stands against it
    APPLY_CLAIMED = "apply_claimed"  # a process carries a plan out from now on
    APPLY_ALIVE = "apply_alive"  # it is at work
    STEP_BEGUN = "step_begun"
    STEP_DONE = "step_done"  # the receipt of a step
    STEP_FAILED = "step_failed"
    APPLY_ENDED = "apply_ended"
    PLAN_EXPORTED = "plan_exported"  # a plan was written down for people to carry out
    SHEET = "sheet"  # where a group is to continue by a plan
    UNDO_BEGUN = "undo_begun"  # a process undoes what an apply has changed
    UNDONE = "undone"  # what an apply had changed was undone
    # Of drivers and recorders.
    RECEIPT = "receipt"  # what became of a request
    CONFIGURATION_CHANGED = (
        "configuration_changed"  # the flow continues with another one than the last driver's
    )
    PARTITION_STOPPED = "partition_stopped"
    PARTITION_RESUMED = "partition_resumed"  # it makes progress again
    TAIL_COPIED_AGAIN = (
        "tail_copied_again"  # what may have been copied is copied again: nothing could be proved
    )
    TOPIC_FOLLOWED = "topic_followed"  # a target topic was created, changed or deleted
    ACLS_FOLLOWED = "acls_followed"  # access control lists were created or removed at the target
    FINDING_RAISED = "finding_raised"  # something needs attention, and nothing stopped
    FINDING_CLEARED = "finding_cleared"  # it does so no longer
    LEDGER_REPAIRED = "ledger_repaired"  # damaged files of the ledger were given up
    # Of maintenance.
    LAST_OFFSET_SYNCS = (
        "last_offset_syncs"  # last rows of that table, so that a start need not read all of it
    )
    LAST_CHECKPOINTS = "last_checkpoints"
    LAST_SHARE_OFFSETS = "last_share_offsets"
    LAST_HIGH_WATERMARKS = "last_high_watermarks"
    LAST_WRITERS = "last_writers"
