"""What all values of a configuration share."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """Values that cannot change; an unknown key or another type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _valid_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_valid_pattern)]

NAME_PATTERN = r"[A-Za-z0-9._-]+"

PlainName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
