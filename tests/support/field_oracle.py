"""What plain clients find of two clusters, and what of it the query `not_equal` does not tell."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from ledger.facts.findings import FindingName
from ledger.offsets.statuses import TranslationStatus
from ledger.sandbox.reading import Partition, PlacedRecord, Readings, Record, read_topics
from ledger.sandbox.workload import TIMEOUT_S
from ledger.topics.naming import KAFKAS_OWN
from tests.support.recorded import Row

_AT_ONCE = 100
Settings = Mapping[str, Mapping[str, str]]
Commits = Mapping[tuple[str, str, int], tuple[int, str]]
"""Offset and metadata by group, topic and partition."""


@dataclass(frozen=True)
class Seen:
    """A cluster: records of its topics, what is set on them, and commits of groups."""

    records: Readings
    settings: Settings
    commits: Commits

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self.records}


def seen(servers: str, of: Collection[str] | None = None) -> Seen:
    """All of a cluster, or of these topics as far as it has them."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = sorted(set(admin.list_topics(timeout=TIMEOUT_S).topics) - KAFKAS_OWN)
    topics = topics if of is None else [topic for topic in topics if topic in of]
    records: Readings = {}
    for first in range(0, len(topics), _AT_ONCE):
        records |= read_topics(servers, topics[first : first + _AT_ONCE])
    return Seen(records, _settings(admin, topics), _commits(admin))


def _settings(admin: AdminClient, topics: Sequence[str]) -> Settings:
    found = {}
    for first in range(0, len(topics), _AT_ONCE):
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics[first : first + _AT_ONCE]]
        for resource, answer in admin.describe_configs(asked).items():
            entries = answer.result(TIMEOUT_S).items()
            own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            found[resource.name] = _in_two_bounds(
                {name: one.value for name, one in entries if one.source == own}
            )
    return found


def _in_two_bounds(settings: dict[str, str]) -> dict[str, str]:
    """Before 3.6 one setting says how far times may be off in both directions, since then there are two."""
    if (both := settings.pop("message.timestamp.difference.max.ms", None)) is None:
        return settings
    return {f"message.timestamp.{way}.max.ms": both for way in ("before", "after")} | settings


def _commits(admin: AdminClient) -> Commits:
    found = {}
    for group in admin.list_consumer_groups().result(TIMEOUT_S).valid:
        [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group.group_id)]).values()
        for at in answer.result(TIMEOUT_S).topic_partitions or []:
            if at.offset >= 0:
                found[group.group_id, at.topic, at.partition] = (at.offset, at.metadata or "")
    return found


@dataclass
class Comparison:
    """Two clusters beside the rows of `not_equal`: `problems` are what no row tells, and what a row tells wrongly."""

    source: Seen
    target: Seen
    rows: Sequence[Row]
    prefix: str
    problems: list[str] = field(default_factory=list)

    def compare(self) -> list[str]:
        """All that differs without a row, and rows without a difference."""
        self.problems.clear()
        self._topics()
        for at in sorted(self.source.records):
            if self._is_mirrored(at[0]):
                self.problems += self._partition(at)
        self._settings()
        self._groups()
        return self.problems

    def _of(self, subject: str, topic: str | None = None, partition: int | None = None) -> Iterator[Row]:
        for row in self.rows:
            if (
                row["subject"] == subject
                and topic in (None, row["source_topic"])
                and partition in (None, row["source_partition"])
            ):
                yield row

    def _is_mirrored(self, topic: str) -> bool:
        return self.prefix + topic in self.target.topics

    def _topics(self) -> None:
        told = {row["source_topic"] for row in self._of("topic") if row["status"] == "not_mirrored"}
        lacking = {topic for topic in self.source.topics if not self._is_mirrored(topic)}
        self.problems += [
            f"topic {topic} is not at the target, and no row" for topic in sorted(lacking - told)
        ]
        self.problems += [f"topic {topic} is at both sides, and a row" for topic in sorted(told - lacking)]
        deleted = {row["source_topic"] for row in self._of("topic") if row["status"] == "source_deleted"}
        made_of = {
            topic.removeprefix(self.prefix) for topic in self.target.topics if topic.startswith(self.prefix)
        }
        surplus = made_of - self.source.topics
        self.problems += [
            f"topic {topic} is at the target alone, and no row" for topic in sorted(surplus - deleted)
        ]

    def _partition(self, at: Partition) -> Iterator[str]:
        written = self.source.records[at]
        copied = self.target.records.get((self.prefix + at[0], at[1]))
        told = list(self._of("records", *at))
        if copied is None:
            if not told and not self._is_told("topic", at[0], "partly"):
                yield f"{at} is not at the target, and no row"
            return
        alone, surplus = (
            [(row[f"{side}_start"], row[f"{side}_end"], row) for row in told if row["held_by"] == side]
            for side in ("source", "target")
        )
        there = {placed.record for placed in copied}
        for placed in written:
            row = _covering(alone, placed.offset)
            if row is not None and placed.record in there and row["status"] != "waiting":
                yield f"{at} offset {placed.offset} is at both sides, and a row: {_short(row)}"
        rest = [placed.record for placed in written if _covering(alone, placed.offset) is None]
        rest_there = [placed.record for placed in copied if _covering(surplus, placed.offset) is None]
        if (
            cleaned := next((row for row in self._of("topic", at[0]) if row["status"] == "cleaned"), None)
        ) is not None:
            rest, rest_there = _last_of_keys(written, alone), _last_of_keys(copied, surplus)
            if cleaned["cause"] == FindingName.TOMBSTONES_MAY_BE_MISSING:
                keys = {placed.record.key for placed in written}
                rest_there = [one for one in rest_there if one.key in keys]
        if rest != rest_there:
            first = next(
                (n for n, (one, two) in enumerate(zip(rest, rest_there, strict=False)) if one != two),
                min(len(rest), len(rest_there)),
            )
            yield (
                f"{at}: {len(rest)} records at the source, {len(rest_there)} at the target besides rows; they part at "
                f"the {first}th: {_short_records(rest, first)} beside {_short_records(rest_there, first)}; rows: "
                f"{[_short(row) for row in told]}"
            )

    def _is_told(self, subject: str, topic: str, status: str) -> bool:
        return any(row["status"] == status for row in self._of(subject, topic))

    def _settings(self) -> None:
        told = {(row["source_topic"], row["name"]) for row in self._of("setting")}
        differing = {
            (topic, name)
            for topic in self.source.topics
            if self._is_mirrored(topic)
            for here, there in [(self.source.settings[topic], self.target.settings[self.prefix + topic])]
            for name in here.keys() | there.keys()
            if here.get(name) != there.get(name)
        }
        self.problems += [f"setting {one} differs, and no row" for one in sorted(differing - told)]
        self.problems += [f"setting {one} is equal, and a row" for one in sorted(told - differing)]

    def _groups(self) -> None:
        told = {(row["name"], row["source_topic"], row["source_partition"]): row for row in self._of("group")}
        for (group, topic, partition), (offset, metadata) in sorted(self.source.commits.items()):
            row = told.pop((group, topic, partition), None)
            there = self.target.commits.get((group, self.prefix + topic, partition))
            differs = (
                there is None
                or there[1] != metadata
                or self._unread_differs((topic, partition), offset, there[0])
            )
            if differs and row is None:
                self.problems.append(
                    f"group {group!r} on {topic} {partition}: {offset} and {there}, and no row"
                )
            is_told = row is not None and (self._is_apart((topic, partition)) or _is_below_what_is_left(row))
            if not differs and row is not None and not is_told:
                self.problems.append(
                    f"group {group!r} on {topic} {partition} is as at the source, and a row: {row}"
                )
        alone = {
            (group, topic.removeprefix(self.prefix), partition)
            for group, topic, partition in self.target.commits
            if topic.startswith(self.prefix) and topic.removeprefix(self.prefix) in self.source.topics
        } - self.source.commits.keys()
        said = {key for key, row in told.items() if key[1] is not None}
        self.problems += [
            f"group {one} has a commit at the target alone, and no row" for one in sorted(alone - said)
        ]
        self.problems += [f"a row of a group without a commit: {told[one]}" for one in sorted(said - alone)]

    def _is_apart(self, at: Partition) -> bool:
        """Whether what a group reads first differs though it stands where it should."""
        kinds = {row["status"] for row in self._of("records", *at)}
        return bool(kinds) or self._is_told("topic", at[0], "cleaned")

    def _unread_differs(self, at: Partition, offset: int, offset_there: int) -> bool:
        if self._is_apart(at):
            return False  # said by rows of records
        unread = [one.record for one in self.source.records.get(at, []) if one.offset >= offset]
        there = self.target.records.get((self.prefix + at[0], at[1]), [])
        return unread != [one.record for one in there if one.offset >= offset_there]


def _is_below_what_is_left(row: Row) -> bool:
    """Whether a group stands where the log there does not begin any more: no record parts it from where it would go."""
    is_expired = row["cause"] == TranslationStatus.EXPIRED_ON_TARGET and row["target_start"] is not None
    return bool(is_expired and row["target_start"] < row["target_end"])


def _covering(ranges: Sequence[tuple[int, int | None, Row]], offset: int) -> Row | None:
    return next(
        (row for start, end, row in ranges if start <= offset and (end is None or offset < end)), None
    )


def _last_of_keys(
    found: Sequence[PlacedRecord], ranges: Sequence[tuple[int, int | None, Row]]
) -> list[Record]:
    """Of each key the last record, less tombstones and records without a key, which cleaners remove in their time."""
    last = {placed.record.key: placed.record for placed in found if _covering(ranges, placed.offset) is None}
    return sorted((one for one in last.values() if None not in (one.key, one.value)), key=repr)


def _short(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value is not None and name != "flow")


def _short_records(records: Sequence[object], first: int) -> str:
    return repr(records[first])[:100] if first < len(records) else "the end"
