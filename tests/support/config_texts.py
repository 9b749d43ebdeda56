"""Configuration files as text, loaded, and what is wrong with them."""

from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.errors import ConfigurationError

BASE = """
[ledger]
path = "ledger"
[clusters.east]
bootstrap_servers = "east:9092"
[clusters.west]
bootstrap_servers = "west:9092"
"""
FLOW_TEXT = """
[flows.east-to-west]
source = "east"
target = "west"
topics = ["orders"]
"""


def load(folder: Path, text: str) -> MirrorConfig:
    file = folder / "mirror.toml"
    file.write_text(text)
    return load_config(file)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, text)
    assert all(line.startswith(str(folder / "mirror.toml")) for line in str(caught.value).splitlines())
    return caught.value.problems
