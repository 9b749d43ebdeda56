"""One application that writes what it reads: its groups, and the topics that it writes to."""

from typing import Annotated

from pydantic import Field

from ledger.config.values import Frozen

_Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


class AppConfig(Frozen):
    """A declared application, by the names that its groups and topics have where it runs.

    Its commits stand for what it wrote: at another cluster none of them is to run ahead of its outputs.
    """

    groups: _Names
    outputs: _Names
