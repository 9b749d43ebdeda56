"""The error tree. Every message says which rule was broken, the values, and what was not done.

MirrorLedgerError             exit 1
├── UsageError                exit 2   bad arguments, an unknown flow, cluster, query or cut
│   ├── ConfigurationError    exit 2   every problem of a configuration file at once
│   └── SetupError     exit 2   Java, Python, artifacts, a path that is not a ledger
├── DifferenceError           exit 1   both sides of a flow do not hold the same
├── UnsafeError               exit 4   a check says not safe
├── PreconditionError         exit 5   a precondition is not met or has moved
│   ├── ShutOutError          exit 5   a later writer epoch has taken over
│   │   ├── ClaimBegunError    exit 5   a later epoch is known, whether it was claimed or not
│   │   └── OtherLedgerError   exit 5   another ledger lies where the one was that the role was claimed in
│   ├── StepRefusedError      exit 5   what a step of a plan rests on is not so: nothing of it was done
│   ├── FencedProducerError   exit 5   a flow's producer id was shut out of partitions that it is to write to
│   ├── RefusedIdError        exit 5   a target takes no producer id that it has not given
│   ├── OtherClusterError     exit 5   a recorder meets another cluster than the one that it claimed with
│   └── RefusedSettingError   exit 5   a cluster does not take a setting of a topic
├── ClusterUnavailableError   exit 1   retriable: a broker did not answer in time
│   ├── LoginRefusedError     exit 1   a broker refused the login, and again for some seconds
│   └── QuotaExceededError    exit 1   a quota on changes of topics: a broker says when it takes more
├── LedgerUnavailableError    exit 1   retriable: a table of the ledger could not be read, or not appended to
│   └── DamagedLedgerError    exit 1   a file of the ledger is missing, cut or overwritten
├── ProtocolError             exit 1   a broker answered what the protocol does not allow
│   └── UnpackedSizeError      exit 1   a compressed batch comes to more than is held of one
├── InvalidValueError         exit 1   a value breaks a rule of the domain
├── EndedBySigintError        exit 130 SIGINT came before there was anything to end properly
└── EndedBySigtermError       exit 143 SIGTERM came before there was anything to end properly
"""

from enum import StrEnum
from typing import ClassVar


class Trouble(StrEnum):
    """What keeps a cluster or the ledger from being used, as far as that is known; advice depends on it."""

    SECRET = "secret"
    """An environment variable is not set, or a file cannot be read."""
    TLS_FILES = "tls_files"
    """A file of certificates or keys cannot be used."""
    OWN_CERTIFICATE = "own_certificate"
    """The broker does not take the certificate that it was shown, or was shown none."""
    NAME = "name"
    """The host name has no address."""
    REFUSED = "refused"
    """The connection is refused."""
    UNREACHABLE = "unreachable"
    """No packet comes back."""
    NO_ANSWER = "no_answer"
    """Connections are accepted, requests are not answered in time."""
    CLOSED = "closed"
    """The broker closes the connection instead of answering."""
    NEEDS_TLS = "needs_tls"
    """The port speaks TLS, the configuration does not."""
    NO_TLS = "no_tls"
    """The configuration wants TLS, the port does not speak it."""
    TLS = "tls"
    """Both speak TLS, and do not agree."""
    AUTHORITY = "authority"
    """The broker's certificate is signed by nobody who is trusted."""
    STRICT = "strict"
    """The broker's certificates leave out what strict verification asks for."""
    HOST_NAME = "host_name"
    """The broker's certificate is for another name."""
    EXPIRED = "expired"
    """The broker's certificate is not valid at this time."""
    CREDENTIALS = "credentials"
    """The broker refuses the login."""
    LOGIN = "login"
    """The configuration lacks what the SASL mechanism needs, or it cannot be used."""
    TOKEN = "token"
    """The broker does not take the token."""
    TOKEN_EXPIRED = "token_expired"
    """The token of a file is no longer valid."""
    TOKEN_ENDPOINT = "token_endpoint"
    """The token endpoint is not reached, or does not answer as one."""
    TOKEN_CLIENT = "token_client"
    """The token endpoint gives this client no token."""
    AWS = "aws"
    """A token for AWS cannot be signed."""
    KERBEROS = "kerberos"
    """There is no Kerberos ticket, or the broker does not take it."""
    KDC = "kdc"
    """The Kerberos server (KDC) is not reached."""
    EXTRA = "extra"
    """A package that the login needs is not installed."""
    MECHANISM = "mechanism"
    """The broker does not offer the SASL mechanism, or none at all."""
    NOT_ALLOWED = "not_allowed"
    """The principal lacks a permission; the row has the `kafka-acls.sh` command that grants it."""
    NO_TOPIC_IDS = "no_topic_ids"
    """The brokers give no topic ids: they are older than Kafka 2.8, or run as if they were."""
    NOT_SPOKEN = "not_spoken"
    """The brokers do not know the request: they are of an earlier release, or of another make."""
    LEDGER = "ledger"
    """The ledger cannot be read."""


class MirrorLedgerError(Exception):
    """Base of all errors that this project raises; entry points catch this one only.

    `lines` is the message as people read it: names in it may have line feeds of their own. `trouble` is set where it is
    known what kept something from being used.

    Exit code 1: failed. A broker did not answer, an append could not be made. The message says what was not done; start
    it again.
    """

    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False

    def __init__(self, *lines: str, trouble: Trouble | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.trouble = trouble


class UsageError(MirrorLedgerError):
    """The request cannot be carried out as asked.

    Exit code 2: usage, configuration or environment. An unknown flow, a bad file, no Java, a path that is not a ledger.
    Correct it; nothing was done.
    """

    exit_code = 2


class ConfigurationError(UsageError):
    """One or more keys of a configuration file are wrong; `problems` lists them all."""

    def __init__(self, file: str, problems: list[str]) -> None:
        self.file = file
        self.problems = problems
        super().__init__(*(f"{file}: {problem}" for problem in problems))


class SetupError(UsageError):
    """The machine lacks something: Java, Python, JVM artifacts, or the path is not a ledger."""


class UnsafeError(MirrorLedgerError):
    """A check was against continuing; nothing was changed after it.

    Exit code 4: a check found something unsafe. A partition stopped, commits have no target offset, a flow that was to
    catch up selects no topic, an audit found rows, a request was refused, `--check`. See `mirror-ledger status`.
    """

    exit_code = 4


class DifferenceError(MirrorLedgerError):
    """Both sides of a flow were read, and a record that both should hold is not the same."""


class PreconditionError(MirrorLedgerError):
    """Something that the operation relies on is not so, or no longer so.

    Exit code 5: a precondition is not met or has changed. Shut out or in use by another driver, a flow that never ran,
    a ledger of another format, no receipt in time. The message names it.
    """

    exit_code = 5


class ShutOutError(PreconditionError):
    """A later epoch of the same writer has been claimed, or this one by another process: it may append nothing more."""


class ClaimBegunError(ShutOutError):
    """A table knows of a later epoch than the one that was to be followed: of `epoch`, claimed by now or only begun."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class OtherLedgerError(ShutOutError):
    """Another ledger lies at the path than the one in which the writer claimed its role."""


class StepRefusedError(PreconditionError):
    """What a step of a plan rests on is not so: neither the step nor its hook has done anything."""


class FencedProducerError(PreconditionError):
    """Partitions of a flow refuse its producer id for ever: it continues with another one, which a claim names."""


class RefusedIdError(PreconditionError):
    """A target takes no producer id that it has not given: a flow continues with one that it gives."""


class OtherClusterError(PreconditionError):
    """Another cluster answers than the one that a recorder claimed its role with."""


class RefusedSettingError(PreconditionError):
    """A cluster does not take a setting of a topic, for a `reason` in its own words; nothing of what was asked for was
    done."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClusterUnavailableError(MirrorLedgerError):
    """A broker could not be reached or did not answer before the deadline."""

    retriable = True


class LoginRefusedError(ClusterUnavailableError):
    """A broker refused a login, in its own words; a cluster that never accepted it ends a command with exit code 5."""


class QuotaExceededError(ClusterUnavailableError):
    """A quota on changes of topics is used up for the next `wait_s` seconds; nothing was changed."""

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class LedgerUnavailableError(MirrorLedgerError):
    """A table of the ledger could not be read where it was needed, or not appended to."""

    retriable = True


class DamagedLedgerError(LedgerUnavailableError):
    """A file of the ledger is not what its log has it to be: it has to be put back, or given up."""


class ProtocolError(MirrorLedgerError):
    """Bytes from a broker, or a response, that the Kafka protocol does not allow here."""


class UnpackedSizeError(ProtocolError):
    """A compressed batch comes to more than is held of one."""


class InvalidValueError(MirrorLedgerError):
    """A value breaks a rule of the domain."""


class EndedBySigintError(MirrorLedgerError):
    """The process was to end before there was anything to end properly.

    Exit code 130: SIGINT before there was anything to end properly.
    """

    exit_code = 130


class EndedBySigtermError(MirrorLedgerError):
    """The process was to end before there was anything to end properly.

    Exit code 143: SIGTERM before there was anything to end properly.
    """

    exit_code = 143


class RefusedPartitionError(MirrorLedgerError):
    """The partition cannot be taken over; the message says why and where. Nothing of it is recorded."""
