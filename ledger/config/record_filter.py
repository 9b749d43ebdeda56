"""The part of a flow's configuration that leaves records out."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from pydantic import AwareDatetime, Field, model_validator

from ledger.config.values import Frozen, Pattern
from ledger.domain.filters import RecordFilter


class FilterConfig(Frozen):
    """Records that a flow leaves out; times are TOML's own, with an offset."""

    include_keys: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    exclude_keys: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    exclude_headers: Mapping[str, Pattern] = Field(default_factory=dict)
    from_time: AwareDatetime | None = None
    until_time: AwareDatetime | None = None

    @model_validator(mode="after")
    def _some_time_between(self) -> Self:
        if self.from_time is not None and self.until_time is not None and self.from_time >= self.until_time:
            raise ValueError(f"from_time {self.from_time} is not before until_time {self.until_time}")
        return self

    @property
    def record_filter(self) -> RecordFilter:
        return RecordFilter(
            include_keys=self.include_keys,
            exclude_keys=self.exclude_keys,
            exclude_headers=tuple(sorted(self.exclude_headers.items())),
            from_ms=_milliseconds(self.from_time),
            until_ms=_milliseconds(self.until_time),
        )


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
