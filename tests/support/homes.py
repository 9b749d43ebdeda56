"""Home folders of the tool."""

from pathlib import Path

from ledger.adapters import jvm


def home_with_jars(folder: Path, fetched: Path) -> Path:
    """A home folder below `folder` with the artifacts that are there already in `fetched`, and nothing else."""
    own = folder / "home"
    own.mkdir()
    jvm.kafka_jars()
    jvm.delta_jars()
    (own / "jars").symlink_to(fetched / "jars")
    return own
