"""Why a plan may not be carried out as things stand, and what to do about each reason."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class BlockerCode(StrEnum):
    """The code is part of the plan; the words beside it may differ from one reading to the next."""

    TARGET_UNREACHABLE = "target_unreachable"
    SOURCE_UNREACHABLE = "source_unreachable"
    SOURCE_ANSWERS = "source_answers"
    OTHER_CLUSTER = "other_cluster"
    NOT_MIRRORED = "not_mirrored"
    NOT_COPIED_ANY_MORE = "not_copied_any_more"
    OTHER_TOPIC = "other_topic"
    PARTITION_STOPPED = "partition_stopped"
    PROMOTED_ALREADY = "promoted_already"
    OPPOSITE_PROMOTED = "opposite_promoted"  # of earlier programs
    EXTRAS_AT_TARGET = "extras_at_target"
    DRIVER_NOT_RUNNING = "driver_not_running"
    UNRECORDED_COPIES = "unrecorded_copies"
    OBJECTIVE = "objective"
    GROUP_WITHOUT_PLACE = "group_without_place"
    GROUP_ACTIVE_AT_TARGET = "group_active_at_target"
    GROUP_HINDERED_AT_TARGET = "group_hindered_at_target"
    CHANGELOG = "changelog"
    GROUPS_UNKNOWN = "groups_unknown"
    FENCE = "fence"
    TARGET_FENCED = "target_fenced"
    MIRROR_NOT_SHUT_OUT = "mirror_not_shut_out"
    NO_REVERSE_FLOW = "no_reverse_flow"

    @property
    def advice(self) -> str:
        """What to do about it."""
        return _ADVICE[self]


_ADVICE: Mapping[BlockerCode, str] = {
    BlockerCode.TARGET_UNREACHABLE: "nothing can move to a cluster that does not answer: repair it, or plan for "
    "another one",
    BlockerCode.SOURCE_UNREACHABLE: "plan a failover, or wait until the source answers",
    BlockerCode.SOURCE_ANSWERS: "plan a switchover, which loses nothing; or fence the source (--fence hook "
    "--hook fence=COMMAND) and give --source-given-up",
    BlockerCode.OTHER_CLUSTER: "correct bootstrap_servers; where it is meant: mirror-ledger accept-cluster "
    "ALIAS --cluster-id ID --reason WHY",
    BlockerCode.NOT_MIRRORED: "let the flow copy them first, or name the topics that shall move (--topic), or those "
    "that shall not (--leave-out)",
    BlockerCode.NOT_COPIED_ANY_MORE: "let a flow that is enabled copy it again (topics, exclude, enabled), or plan "
    "without it: --leave-out TOPIC; then no group gets a place there",
    BlockerCode.OTHER_TOPIC: "a topic was recreated since: let the flow decide about it first (status says how)",
    BlockerCode.PARTITION_STOPPED: "resume what has stopped (status says how), or leave the topic out (--topic)",
    BlockerCode.PROMOTED_ALREADY: "nothing is to be done; where it was a mistake: mirror-ledger demote "
    "TARGET --over SOURCE --keep-ends --reason WHY",
    BlockerCode.OPPOSITE_PROMOTED: "the other direction holds: plan again with this program, which allows it",
    BlockerCode.EXTRAS_AT_TARGET: 'no plan decides about them yet: by hand, RUNBOOK.md, "The source comes back"',
    BlockerCode.DRIVER_NOT_RUNNING: "mirror-ledger run FLOW: without a driver nothing is drained",
    BlockerCode.UNRECORDED_COPIES: "the ledger is behind the target, and no driver is known to be at work: use "
    "the newest copy of the ledger; if this is the newest one, mirror-ledger settle FLOW --reason WHY",
    BlockerCode.OBJECTIVE: "wait until it is met, or plan with --despite-objectives",
    BlockerCode.GROUP_WITHOUT_PLACE: "choose the place by hand (offsets translate says why there is none), leave the "
    "group out (--group), or --accept its status",
    BlockerCode.GROUP_ACTIVE_AT_TARGET: "stop its consumers at the target",
    BlockerCode.GROUP_HINDERED_AT_TARGET: "do what is said of it, leave the group out (--group), or take a newer one "
    "back (--overwrite-newer)",
    BlockerCode.CHANGELOG: "let the application rebuild its state at the target "
    "(kafka-streams-application-reset.sh, local stores removed), and --accept changelog",
    BlockerCode.GROUPS_UNKNOWN: "let a recorder read the groups (mirror-ledger record SOURCE), with the "
    "right to describe them",
    BlockerCode.FENCE: "choose another fence (--fence shut, hook or none), or say why none is enough "
    "(--unproven REASON)",
    BlockerCode.TARGET_FENCED: "mirror-ledger unfence TARGET --reason WHY, with --hook where a hook made it",
    BlockerCode.MIRROR_NOT_SHUT_OUT: "give the mirror a principal of its own (mirror_principal), or "
    "--accept-unproven-shut-out",
    BlockerCode.NO_REVERSE_FLOW: "configure the opposite flow, or --no-reverse",
}


def advice_for(blocker: "Blocker", *, source: str, target: str, flows: Collection[str]) -> str:
    """What to do about it, with names in the commands: of clusters by alias, of a flow where the words have it."""
    named = [flow for flow in sorted(flows) if flow in blocker.words] or sorted(flows)
    known = {"SOURCE": source, "TARGET": target, "FLOW": named[0] if named else "FLOW"}
    return re.sub(r"\b(SOURCE|TARGET|FLOW)\b", lambda found: known[found[0]], blocker.advice)


@dataclass(frozen=True, slots=True, order=True)
class Blocker:
    """One reason, in words; `cause`: what it has in common with others of its code, empty: the code says it."""

    code: BlockerCode
    words: str
    cause: str = ""

    @property
    def advice(self) -> str:
        return self.code.advice
