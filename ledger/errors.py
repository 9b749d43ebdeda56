"""The error tree. Every message says which rule was broken, the values, and what was not done.

MirrorLedgerError             exit 1
├── UsageError                exit 2   bad arguments, an unknown flow, cluster, query or cut
│   ├── ConfigurationError    exit 2   every problem of a configuration file at once
│   └── EnvironmentError_     exit 2   Java, Python, artifacts, a path that is not a ledger
├── UnsafeError               exit 4   a check says not safe
├── PreconditionError         exit 5   a precondition is not met or has moved
│   └── ShutOutError          exit 5   a later writer epoch has taken over
├── ClusterUnavailableError   exit 1   retriable: a broker did not answer in time
├── LedgerUnavailableError    exit 1   retriable: a table of the ledger could not be read, or not appended to
├── ProtocolError             exit 1   a broker answered what the protocol does not allow
├── InvalidValueError         exit 1   a value breaks a rule of the domain
├── EndedBySigintError        exit 130 SIGINT came before there was anything to end properly
└── EndedBySigtermError       exit 143 SIGTERM came before there was anything to end properly
"""

from typing import ClassVar


class MirrorLedgerError(Exception):
    """Base of all errors that this project raises; entry points catch this one only."""

    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False


class UsageError(MirrorLedgerError):
    """The request cannot be carried out as asked."""

    exit_code = 2


class ConfigurationError(UsageError):
    """One or more keys of a configuration file are wrong; `problems` lists them all."""

    def __init__(self, file: str, problems: list[str]) -> None:
        self.file = file
        self.problems = problems
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))


class EnvironmentError_(UsageError):  # noqa: N801, N818  the builtin of this name is OSError
    """The machine lacks something: Java, Python, JVM artifacts, or the path is not a ledger."""


class UnsafeError(MirrorLedgerError):
    """A check came out against going on; nothing was changed after it."""

    exit_code = 4


class PreconditionError(MirrorLedgerError):
    """Something that the operation relies on is not so, or no longer so."""

    exit_code = 5


class ShutOutError(PreconditionError):
    """A later epoch of the same writer has been claimed, or this one by another process: it may append nothing more."""


class ClusterUnavailableError(MirrorLedgerError):
    """A broker could not be reached or did not answer before the deadline."""

    retriable = True


class LedgerUnavailableError(MirrorLedgerError):
    """A table of the ledger could not be read where it was needed, or not appended to."""

    retriable = True


class ProtocolError(MirrorLedgerError):
    """Bytes from a broker, or a response, that the Kafka protocol does not allow here."""


class InvalidValueError(MirrorLedgerError):
    """A value breaks a rule of the domain."""


class EndedBySigintError(MirrorLedgerError):
    """SIGINT came before there was anything to end properly."""

    exit_code = 130


class EndedBySigtermError(MirrorLedgerError):
    """SIGTERM came before there was anything to end properly."""

    exit_code = 143
