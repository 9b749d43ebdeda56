"""A drill: groups' places as a failover would set them, committed under other names, read, compared, and removed.

No application is touched: its group is neither read nor written at the target, and nothing changes at the source.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from ledger.adopt.reading import LogRecord, PartitionLog
from ledger.changeover.losses import loss_words
from ledger.changeover.planning import Planned
from ledger.changeover.plans import BlockerCode, ChangeoverKind, DescribedName
from ledger.changeover.rehearsing import AskedRehearsal, stuck_groups
from ledger.changeover.seeing import make_plan
from ledger.changeover.text import causes_of
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError
from ledger.facts.drills import (
    Drilled,
    DrillVerdict,
    drill_group,
    drill_metadata,
    is_of_drill,
    may_be_of_drill,
)
from ledger.facts.groups import SHARE, NewCommit, has_members
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.cluster import PartitionEnds, topic_ids
from ledger.kafka.copying import ClusterLink
from ledger.kafka.leaders import KafkaFencing
from ledger.kafka.network import KafkaNetwork
from ledger.offsets.statuses import TranslationStatus
from ledger.store.session import random_id
from ledger.words import counted, some_of

# What a place comes to ----------------------------------------------------------------------------


class PlaceResult(DescribedName):
    """Of one place. The first that applies, in this order, is reported."""

    NOT_COMMITTED = "not_committed", "the target did not take the commit, or has another one"
    NO_PLACE = "no_place", "the log of the target does not reach to it, or not back to it"
    NOT_COMPARED = "not_compared", "the source does not answer, lacks the record, or it lies further behind"
    AT_END = "at_end", "nothing is unread at the source, and nothing lies behind the place"
    NOT_COPIED = "not_copied", "what is unread is not copied yet: a failover would lose it"
    SAME = "same", "the first record behind the place is the first one that is unread"
    REPEATED = "repeated", "the first unread one lies behind some that are read again, as the plan says"
    OTHER_RECORD = "other_record", "others are read first, of which the plan does not say so"
    MISSING = "missing", "what is unread is not behind the place: it would be skipped"

    @property
    def is_failure(self) -> bool:
        return self in _FAILURES


_FAILURES = (
    PlaceResult.NOT_COMMITTED,
    PlaceResult.NO_PLACE,
    PlaceResult.OTHER_RECORD,
    PlaceResult.MISSING,
)


@dataclass(frozen=True, slots=True)
class ReadThere:
    """The first records behind a place; `is_all`: there are no more."""

    records: Sequence[LogRecord]
    is_all: bool


@dataclass(frozen=True, slots=True)
class UnreadHere:
    """The first record at the source that a group has not read, None: there is none; `why`: why nobody knows."""

    record: LogRecord | None = None
    why: str | None = None


def judged(answer: Row, there: ReadThere, here: UnreadHere, *, copied_to: int | None) -> PlaceResult:
    """What the place of an answer comes to; `copied_to`: up to where its source partition was copied, as recorded."""
    if here.why is not None:
        return PlaceResult.NOT_COMPARED
    first = here.record
    if first is None:
        return _behind(answer, len(there.records)) if there.records else PlaceResult.AT_END
    at = next((index for index, one in enumerate(there.records) if _is_copy(one, first)), None)
    if at == 0:
        return PlaceResult.SAME
    if at is not None:
        return _behind(answer, at)
    if copied_to is not None and first.offset >= copied_to:
        return PlaceResult.NOT_COPIED
    is_certain = there.is_all and copied_to is not None
    return PlaceResult.MISSING if is_certain else PlaceResult.NOT_COMPARED


def _behind(answer: Row, number: int) -> PlaceResult:
    """Tell whether the plan says that so many records lie in front of the first unread one, or does not know."""
    said = [answer.get(name) for name in ("repeated", "others")]
    is_unknown = answer["committed_offset"] is None or answer["status"] == TranslationStatus.AHEAD
    is_said = is_unknown or None in said or number <= sum(one or 0 for one in said)
    return PlaceResult.REPEATED if is_said else PlaceResult.OTHER_RECORD


def _is_copy(there: LogRecord, here: LogRecord) -> bool:
    """Key, value and headers are the same, and the time where the target has not put its own in its place."""
    return there.content == here.content and (there.stamped or there.timestamp == here.timestamp)


# Drilling -----------------------------------------------------------------------------------------


_REQUEST_TIMEOUT_S = 10.0
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class AskedDrill:
    """`records`: how many are read at most behind each place."""

    failover: AskedRehearsal
    records: int = 100


@dataclass(slots=True)
class Drill:
    """What a drill has come to so far; `results`: by group and place at the target."""

    made: Planned
    operation_id: str
    removed: Sequence[str] = ()
    results: dict[tuple[str, str, int], PlaceResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    commit_seconds: float | None = None
    read_seconds: float | None = None
    is_interrupted: bool = False

    @property
    def stuck(self) -> dict[str, list[str]]:
        """By why they cannot move, groups; share groups are not drilled."""
        shared = {str(row["group_id"]) for row in _moving(self.made) if row.get("group_type") == SHARE}
        found = stuck_groups(self.made)
        return {**found, "share_group": sorted(shared)} if shared else found

    @property
    def against(self) -> list[str]:
        """Reasons against the failover beside its places: all that blocks the plan, and what it loses."""
        forecast, source = self.made.forecast, self.made.plan.from_cluster
        found = [f"blocked: {words}" for words in causes_of(self.made.recorded_blockers)]
        if forecast["records_at_least"] != 0:
            found.append(f"a failover would lose records: {loss_words(forecast)}")
        if left := Counter(self.results.values())[PlaceResult.NOT_COPIED]:
            found.append(f"what is unread at {counted(left, 'place')} is at {source} alone")
        if forecast["repeated"] is None:
            found.append("nobody knows how many records groups would read again")
        return found

    @property
    def verdict(self) -> DrillVerdict:
        if self.is_interrupted or any(one.is_failure for one in self.results.values()):
            return DrillVerdict.FAILED
        is_compared = self.results and PlaceResult.NOT_COMPARED not in self.results.values()
        if self.against or self.stuck or not is_compared:
            return DrillVerdict.INCOMPLETE
        return DrillVerdict.PASSED

    @property
    def by_group(self) -> dict[str, dict[str, int]]:
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for (group, _, _), result in sorted(self.results.items()):
            found[group][str(result)] += 1
        return {group: dict(counts) for group, counts in found.items()}

    @property
    def content(self) -> Drilled:
        forecast, plan = self.made.forecast, self.made.plan
        return Drilled(
            from_cluster=plan.from_cluster,
            to_cluster=plan.to_cluster,
            cut=self.made.seen.cut,
            verdict=str(self.verdict),
            groups=self.by_group,
            stuck=self.stuck,
            problems=[*self.against, *self.problems][:_MOST_PROBLEMS],
            records_lost=forecast["records_lost"],
            records_at_least=forecast["records_at_least"],
            records_at_most=forecast["records_at_most"],
            seconds_lost=forecast["seconds_lost"],
            apply_seconds=forecast["downtime"]["seconds"],
            commit_seconds=self.commit_seconds,
            read_seconds=self.read_seconds,
            removed=self.removed,
        )


def drill(context: Context, asked: AskedDrill, say: Callable[[str], None]) -> Drill:
    """Try where groups would continue, remove all of it again, and record what it came to.

    Raises `PreconditionError` where the target does not answer, is another cluster, has groups of others under the
    names of a drill, or where no group has a place: then nothing was committed. What it is interrupted by is recorded
    as well, and raised.
    """
    made = make_plan(context, ChangeoverKind.FAILOVER, asked.failover.way, asked.failover.choices, {})
    target = _target(context, made)
    done = Drill(made, random_id(), remove_remains(target))
    for group in done.removed:
        say(f"removed {group!r}, which an earlier drill had left at {target.alias}")
    answers = drilled_answers(made)
    if not answers:
        raise PreconditionError(
            f"no group has a place at {target.alias} that could be tried; nothing was committed"
        )
    require_free(target, _names(answers))
    try:
        tried_and_removed(context, target, done, asked, answers)
    except MirrorLedgerError as error:
        done.is_interrupted = True
        if str(error) not in done.problems:
            done.problems.append(str(error))
        context.part_of(done.operation_id).record(done.content)
        raise
    context.part_of(done.operation_id).record(done.content)
    return done


def tried_and_removed(
    context: Context, target: KafkaFencing, done: Drill, asked: AskedDrill, answers: Sequence[Row]
) -> None:
    """Commit and read; whatever that ends by, the groups of the drill are removed."""
    try:
        _commit(context, target, done, answers)
        _read(context, done, asked, answers)
    except MirrorLedgerError as error:
        done.problems.append(str(error))
        raise
    finally:
        _remove(target, _names(answers))


def _names(answers: Sequence[Row]) -> list[str]:
    return sorted({drill_group(str(row["group_id"])) for row in answers})


def _target(context: Context, made: Planned) -> KafkaFencing:
    seen = made.seen.target
    if seen.live_id is None:
        raise PreconditionError(f"{seen.alias} does not answer: {seen.trouble}; nothing was committed")
    if seen.identity_problem is not None:
        raise PreconditionError(f"{seen.identity_problem}; nothing was committed")
    return context.cluster(seen.alias)


def _moving(made: Planned) -> list[Row]:
    return [row for row in made.moving if row["group_id"] is not None]


def drilled_answers(made: Planned) -> list[Row]:
    """Of groups that a failover would give places to, their places."""
    unplaced = {one.group for one in made.blockers if one.code is BlockerCode.GROUP_WITHOUT_PLACE}
    return [
        row
        for row in _moving(made)
        if row["target_offset"] is not None
        and row["group_id"] not in unplaced
        and row.get("group_type") != SHARE
    ]


def remove_remains(target: KafkaFencing) -> list[str]:
    """Groups that an earlier drill has left at the target, once they are removed."""
    listed = {one.group_id: one for one in target.groups() if may_be_of_drill(one.group_id)}
    if not listed:
        return []
    read = target.group_commits(list(listed.values()), topic_ids=topic_ids(target))
    metadata: dict[str, list[str | None]] = defaultdict(list)
    for one in read.read:
        if one.committed_offset is not None:
            metadata[one.group_id].append(one.metadata)
    left = sorted(
        name
        for name, one in listed.items()
        if name not in read.refused
        and is_of_drill(name, metadata[name], has_members=has_members(one.group_state))
    )
    _remove(target, left)
    return left


def require_free(target: KafkaFencing, names: Sequence[str]) -> None:
    """Raise `PreconditionError` where the target has groups of these names."""
    taken = sorted({one.group_id for one in target.groups()} & set(names))
    if taken:
        raise PreconditionError(
            f"{target.alias} has {some_of([repr(name) for name in taken], 'group')}, which no drill has made; nothing "
            "was committed. Leave these groups out: --group names those that are to be tried"
        )


def _remove(target: KafkaFencing, names: Sequence[str]) -> None:
    """Raises `PreconditionError` where some could not be removed."""
    refused = target.delete_groups(names) if names else {}
    if refused:
        listed = "; ".join(f"{group!r}: {why}" for group, why in sorted(refused.items()))
        raise PreconditionError(
            f"groups of the drill could not be removed from {target.alias}: {listed}. They belong to no application; "
            "the next drill removes them, once the mirror's principal may DELETE groups"
        )


def _commit(context: Context, target: KafkaFencing, done: Drill, answers: Sequence[Row]) -> None:
    began_s = context.clock.monotonic()
    commits: dict[str, list[NewCommit]] = defaultdict(list)
    for row in answers:
        name = drill_group(str(row["group_id"]))
        _, topic, partition = _place(row)
        metadata = drill_metadata(done.operation_id)
        commits[name].append(NewCommit(topic, partition, row["target_offset"], metadata, replaces=(None,)))
    refused = target.set_commits_of_groups(commits)
    listed = [one for one in target.groups() if one.group_id in commits]
    found = {
        (one.group_id, one.topic, one.partition): one.committed_offset
        for one in target.commits(listed, topic_ids=topic_ids(target))
    }
    for row in answers:
        group, topic, partition = _place(row)
        name = drill_group(group)
        there = found.get((name, topic, partition))
        if there != row["target_offset"]:
            done.results[group, topic, partition] = PlaceResult.NOT_COMMITTED
            why = refused.get(name, {}).get((topic, partition))
            done.problems.append(f"{_words(row)}: {why or f'{there} was read back'}")
    done.commit_seconds = round(context.clock.monotonic() - began_s, 3)


def _place(row: Row) -> tuple[str, str, int]:
    return str(row["group_id"]), str(row["target_topic"]), int(row["target_partition"])


def _words(row: Row) -> str:
    return f"{row['group_id']!r} at {row['target_topic']} partition {row['target_partition']}"


# Reading ------------------------------------------------------------------------------------------


def _read(context: Context, done: Drill, asked: AskedDrill, answers: Sequence[Row]) -> None:
    """What lies behind each place, and at the source where it answers, for all places that were committed."""
    plan, began_s = done.made.plan, context.clock.monotonic()
    sides = plan.from_cluster, plan.to_cluster
    copied_to = {(row["source_topic"], row["partition"]): row["copied_to"] for row in done.made.losses}
    with context.network(*sides, request_timeout_s=_REQUEST_TIMEOUT_S) as network:
        rows = [row for row in answers if _place(row) not in done.results]
        here = _here(context, network, done, rows)
        ends = context.cluster(plan.to_cluster).ends(sorted({_place(row)[1:] for row in rows}))
        for (topic, partition, offset), of_place in groupby(sorted(rows, key=_read_from), key=_read_from):
            found, tried = ends.get((topic, partition)), list(of_place)
            if found is None or not found.log_start <= offset <= found.high_watermark:
                span = "no leader" if found is None else f"{found.log_start} to {found.high_watermark}"
                for row in tried:
                    done.results[_place(row)] = PlaceResult.NO_PLACE
                    done.problems.append(f"{_words(row)}: place {offset}, the log has {span}")
                continue
            at = TopicPartition(topic, str(tried[0]["target_topic_id"]), partition)
            read = _log(context, network, network.target, at)
            there = _first(read(offset, found.last_stable), asked.records)
            for row in tried:
                unread = here(row)
                source = (row["source_topic"], row["source_partition"])
                result = judged(row, there, unread, copied_to=copied_to.get(source))
                done.results[_place(row)] = result
                if result.is_failure or result is PlaceResult.NOT_COMPARED:
                    why = unread.why or f"first unread there: {_offset(unread)}"
                    done.problems.append(f"{_words(row)}, place {offset}: {result} ({why})")
    done.read_seconds = round(context.clock.monotonic() - began_s, 3)


def _read_from(row: Row) -> tuple[str, int, int]:
    """Groups of one place are judged by one reading, and no more than one is held."""
    return str(row["target_topic"]), int(row["target_partition"]), int(row["target_offset"])


def _offset(here: UnreadHere) -> str:
    return "none" if here.record is None else f"offset {here.record.offset}"


def _log(
    context: Context, network: KafkaNetwork, link: ClusterLink, partition: TopicPartition
) -> Callable[[int, int], Iterator[LogRecord]]:
    """Reads from one offset to another what a read_committed consumer is given."""

    def read(start: int, end: int) -> Iterator[LogRecord]:
        link.refresh([partition.topic])
        log = PartitionLog(
            *(network, link, context.clock, partition), start=start, end=end, mirror_producer_ids=frozenset()
        )
        return (one for one in log.read(start) if one.cause is None)

    return read


def _first(records: Iterator[LogRecord], most: int) -> ReadThere:
    found = list(islice(records, most + 1))
    return ReadThere(found[:most], len(found) <= most)


def _here(
    context: Context, network: KafkaNetwork, done: Drill, rows: Sequence[Row]
) -> Callable[[Row], UnreadHere]:
    """Of an answer the first record at the source that its group has not read; of the last commit it is kept."""
    seen = done.made.seen.source
    if seen.live_id is None:
        return lambda _row: UnreadHere(why=f"{seen.alias} does not answer")
    places = sorted({(str(row["source_topic"]), int(row["source_partition"])) for row in rows})
    try:
        ends = context.cluster(seen.alias).ends(places)
    except ClusterUnavailableError as error:
        trouble = str(error)
        return lambda _row: UnreadHere(why=trouble)
    last: list[tuple[tuple[str, int, int | None], UnreadHere]] = []

    def first(row: Row) -> UnreadHere:
        topic, partition, commit = row["source_topic"], row["source_partition"], row["committed_offset"]
        if not last or last[0][0] != (topic, partition, commit):
            at = TopicPartition(topic, seen.topic_ids.get(topic, ""), partition)
            read = _log(context, network, network.source, at)
            last[:] = [((topic, partition, commit), unread_from(commit, ends.get((topic, partition)), read))]
        return last[0][1]

    return first


def unread_from(
    commit: int | None, ends: PartitionEnds | None, read: Callable[[int, int], Iterator[LogRecord]]
) -> UnreadHere:
    """The first record from a commit on; without one, the first that there is."""
    if ends is None:
        return UnreadHere(why="its partition has no leader there")
    start = ends.log_start if commit is None else commit
    if not ends.log_start <= start <= ends.high_watermark:
        reach = f"{ends.log_start} to {ends.high_watermark}"
        return UnreadHere(why=f"committed was offset {start}, the source has {reach}")
    try:
        return UnreadHere(next(read(start, ends.last_stable), None))
    except MirrorLedgerError as error:
        return UnreadHere(why=str(error))
