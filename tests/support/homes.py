"""Home folders of the tool."""

from pathlib import Path

from ledger import jvm


def home_with_jars(folder: Path, fetched: Path) -> Path:
    """A home folder below `folder` with what `fetched` has for JVMs already, and nothing else."""
    own = folder / "home"
    own.mkdir()
    jvm.kafka_jars()
    jvm.delta_jars()
    for made in ("jars", "classes"):
        (own / made).symlink_to(fetched / made)
    return own
