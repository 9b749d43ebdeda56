"""One cluster as a configuration has it."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from ledger.config.secrets import PropertyValue
from ledger.config.values import Frozen, PlainName


class ClusterConfig(Frozen):
    """One Kafka cluster: its alias, where to find it, and client properties by their librdkafka names."""

    name: PlainName
    bootstrap_servers: Annotated[str, Field(min_length=1)]
    properties: Mapping[str, PropertyValue] = Field(default_factory=dict)
