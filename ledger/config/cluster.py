"""One cluster as a configuration has it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated

from pydantic import Field

from ledger.config.secrets import PropertyValue, SecretReference
from ledger.config.values import Frozen, PlainName
from ledger.errors import UsageError

PRINCIPAL_PATTERN = r"[^\s:]+:\S(.*\S)?"
"""As Kafka writes one: a type, a colon, a name (`User:mirror`)."""


class ClusterConfig(Frozen):
    """One Kafka cluster: its alias, where to find it, and client properties by their librdkafka names.

    `mirror_principal`: whom the cluster takes the mirror for, None: not said. `admin_properties`: client properties
    of those credentials that change access control lists, given in place of the mirror's or beside them.
    """

    name: PlainName
    bootstrap_servers: Annotated[str, Field(min_length=1)]
    properties: Mapping[str, PropertyValue] = Field(default_factory=dict)
    mirror_principal: Annotated[str, Field(pattern=f"^{PRINCIPAL_PATTERN}$")] | None = None
    admin_properties: Mapping[str, PropertyValue] = Field(default_factory=dict)

    def secrets(self, environ: Mapping[str, str]) -> Iterator[str]:
        """The values of its secrets, as far as they are found here."""
        for value in (*self.properties.values(), *self.admin_properties.values()):
            if isinstance(value, SecretReference):
                with suppress(UsageError):
                    yield value.resolve(environ)

    @property
    def for_administration(self) -> "ClusterConfig":
        """The same cluster, reached with the credentials that change access control lists."""
        return self.model_copy(update={"properties": {**self.properties, **self.admin_properties}})
