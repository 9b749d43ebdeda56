"""What somebody has who installs the program: the wheel in an empty environment, and nothing of the checkout."""

import os
import time
from pathlib import Path

from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, produce, values
from tests.support.installed import Installed, wheel
from tests.support.site import RealSite
from tests.support.stores import SECRET_VARIABLE, store

__all__ = ["wheel"]

_WITHIN_S = 300
"""From nothing installed to the first mirrored record of their own clusters, on a machine that nobody else uses."""


def test_the_first_record_of_their_own_clusters_is_mirrored_within_five_minutes(
    site: RealSite, wheel: Path
) -> None:
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "first")
    began = time.monotonic()
    user = Installed(site.folder, wheel)
    write_configuration(site, topic, 'path = "ledger"')
    user.command("--config", "mirror.toml", "init")
    user.command("--config", "mirror.toml", "run", "east-to-west", "--until-caught-up")
    took_s = time.monotonic() - began
    assert values(west, f"east.{topic}") == [b"first"]
    assert user.command("--config", "mirror.toml", "status", "--check")
    print(f"from nothing installed to the first record: {took_s:.0f} s")
    assert took_s < _WITHIN_S


def test_a_ledger_in_an_object_store_needs_nothing_of_the_machine(site: RealSite, wheel: Path) -> None:
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, *map(str, range(50)))
    user = Installed(site.folder, wheel, "[s3]")
    assert "does not provide the extra" not in user.words_of_pip
    with store(site.folder) as objects:
        write_configuration(site, topic, f'path = "{objects.path}"', *objects.lines)
        for words in ("init", "run east-to-west --until-caught-up", "status --check"):
            user.command(
                "--config", "mirror.toml", *words.split(), **{SECRET_VARIABLE: os.environ[SECRET_VARIABLE]}
            )
        assert (objects.folder / "offset_syncs" / "_delta_log").is_dir()
    assert values(west, f"east.{topic}") == values(east, topic)


def write_configuration(site: RealSite, topic: str, *ledger: str) -> None:
    east, west = site.servers
    lines = "\n".join(ledger)
    (site.folder / "mirror.toml").write_text(
        f"""[ledger]
{lines}

[clusters.east]
bootstrap_servers = "{east}"

[clusters.west]
bootstrap_servers = "{west}"

[flows.east-to-west]
source = "east"
target = "west"
topics = ["{topic}"]
"""
    )


def test_the_demo_runs_from_the_wheel_and_its_extra(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    told = Installed(folder, wheel, "[sandbox]").command("demo")
    assert told
