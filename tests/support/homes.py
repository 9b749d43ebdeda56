"""Home folders of the tool."""

from pathlib import Path

from ledger import jvm
from ledger.sandbox.brokers import kafka_jars


def home_with_jars(folder: Path, fetched: Path) -> Path:
    """A home folder below `folder` with what `fetched` has for JVMs already, and nothing else."""
    own = folder / "home"
    own.mkdir()
    kafka_jars()
    jvm.delta_jars()
    for made in ("jars", "classes"):
        (own / made).symlink_to(fetched / made)
    return own
