"""How many examples a property is tried on: some in `make check`, the same each time; more in `make soak`."""

from hypothesis import settings


def examples(*, check: int, soak: int) -> int:
    """The long tests draw examples anew in each run, by another profile of hypothesis."""
    return check if settings.default is not None and settings.default.derandomize else soak
