"""One flow as a configuration has it: what is copied, how, and what is done when something happens to it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from ledger.config.record_filter import FilterConfig
from ledger.config.renaming import RenameConfig
from ledger.config.values import Frozen, Pattern, PlainName
from ledger.domain.tail_policy import TailPolicy
from ledger.domain.topics.naming import NamePatterns, NamingKind, TopicNaming
from ledger.domain.topics.topic_acls import AclFollow
from ledger.domain.topics.topic_settings import ConfigurationFollow, SettingsFollowing


class Policy(StrEnum):
    """What a flow does about a partition after something happened to it; it is recorded either way."""

    STOP = "stop"  # stop the partition until an operator decides
    CONTINUE = "continue"


class StartAt(StrEnum):
    """Where a flow that never ran begins with the topics that exist then; a time is the third possibility."""

    EARLIEST = "earliest"
    LATEST = "latest"


def _valid_start(start: str) -> str:
    if start not in tuple(StartAt):
        try:
            at = datetime.fromisoformat(start)
        except ValueError:
            raise ValueError(f"is earliest, latest or a time with its offset, got {start!r}") from None
        if at.tzinfo is None:
            raise ValueError(f"a time is written with its offset (2026-01-31T12:00:00Z), got {start!r}")
    return start


class TargetMode(StrEnum):
    """Who else may write to the flow's target partitions."""

    EXCLUSIVE = "exclusive"  # nobody: a foreign record is a finding
    SHARED = "shared"  # other flows and applications


class FlowConfig(Frozen):
    """One direction of mirroring."""

    name: PlainName
    enabled: bool = True
    source: str
    target: str
    topics: Annotated[tuple[Pattern, ...], Field(min_length=1, strict=False)]
    exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    groups: Annotated[tuple[Pattern, ...], Field(strict=False)] = (".*",)
    groups_exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    sync_groups: bool = False
    sync_groups_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60.0
    topic_naming: Annotated[NamingKind, Field(strict=False)] = NamingKind.PREFIX
    prefix: PlainName | None = None
    rename: Annotated[tuple[RenameConfig, ...], Field(strict=False)] = ()
    start: Annotated[str, AfterValidator(_valid_start)] = StartAt.EARLIEST
    on_loss: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_source_truncated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_source_recreated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_target_truncated: Annotated[Policy, Field(strict=False)] = Policy.CONTINUE
    on_target_recreated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_tail_lost: Annotated[TailPolicy | None, Field(strict=False)] = None
    target_mode: Annotated[TargetMode, Field(strict=False)] = TargetMode.EXCLUSIVE
    opposite: PlainName | None = None
    relay: bool = False
    filter: FilterConfig = FilterConfig()
    round_seconds: Annotated[float, Field(gt=0.2, le=3600)] = 5.0
    tasks: Annotated[int, Field(ge=1, le=64)] = 1
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 5.0
    high_watermark_seconds: Annotated[float, Field(gt=0)] = 5.0
    full_sweep_seconds: Annotated[float, Field(gt=0)] = 300.0
    topic_refresh_seconds: Annotated[float, Field(gt=0)] = 10.0
    heartbeat_seconds: Annotated[float, Field(ge=1)] = 60.0
    open_transaction_seconds: Annotated[float, Field(gt=0)] = (
        900.0  # brokers end transactions after 15 minutes by default
    )
    replication_factor: Annotated[int, Field(ge=1, le=32767)] | None = None
    configuration_follow: Annotated[ConfigurationFollow | None, Field(strict=False)] = None
    configuration_include: Annotated[tuple[Pattern, ...], Field(strict=False)] = (".*",)
    configuration_exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    delete_topics: bool = False
    acls: Annotated[AclFollow, Field(strict=False)] = AclFollow.NONE

    @property
    def settings_following(self) -> SettingsFollowing:
        """By default changes follow, but not where several flows would each have their way."""
        is_own = self.target_mode is TargetMode.EXCLUSIVE
        by_default = ConfigurationFollow.INCREMENTAL if is_own else ConfigurationFollow.CREATE
        patterns = NamePatterns(self.configuration_include, self.configuration_exclude)
        return SettingsFollowing(self.configuration_follow or by_default, patterns)

    @property
    def naming(self) -> TopicNaming:
        if self.topic_naming is NamingKind.RENAME:
            return TopicNaming(NamingKind.RENAME, rules=tuple(rename.rule for rename in self.rename))
        if self.topic_naming is NamingKind.IDENTITY:
            return TopicNaming(NamingKind.IDENTITY)
        return TopicNaming(NamingKind.PREFIX, self.prefix or self.source)

    @property
    def start_at_ms(self) -> int | None:
        """The time to start at; None when `start` is not a time."""
        if self.start in tuple(StartAt):
            return None
        return int(datetime.fromisoformat(self.start).timestamp() * 1000)

    @property
    def group_patterns(self) -> NamePatterns:
        return NamePatterns(self.groups, self.groups_exclude)
