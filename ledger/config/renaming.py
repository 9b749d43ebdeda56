"""Rules of renaming as a configuration has them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from ledger.config.values import Frozen, Pattern
from ledger.domain.topics.naming import RenameRule
from ledger.errors import InvalidValueError


class RenameConfig(Frozen):
    """A rule of `topic_naming = "rename"`: source names that match as a whole are called `to`."""

    match: Pattern
    to: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _renames(self) -> Self:
        try:
            _ = self.rule
        except InvalidValueError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def rule(self) -> RenameRule:
        return RenameRule(self.match, self.to)
