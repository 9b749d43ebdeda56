"""The image of `conf/container` is built, and a mirror runs in it as its user, with a read-only root."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ledger.sandbox.workload import create_topics
from tests.support import images
from tests.support.following import copied, name_of, produce, values
from tests.support.site import RealSite
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(images.missing() is not None, reason=str(images.missing()))
_USER = 10_001
_STATE = "/var/lib/mirror-ledger"


def test_a_mirror_runs_in_the_image_that_the_containerfile_makes(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, *map(str, range(100)))
    config, state = site.folder / "mirror.toml", site.folder / "state"
    config.write_text(
        f"""[ledger]
path = "{_STATE}/ledger"

[clusters.east]
bootstrap_servers = "{east}"

[clusters.west]
bootstrap_servers = "{west}"

[flows.east-to-west]
source = "east"
target = "west"
topics = ["{topic}"]
round_seconds = 1.0
"""
    )
    config.chmod(0o644)
    state.mkdir()
    state.chmod(0o777)  # a volume of an engine belongs to the user of the image
    mounts = {_STATE: state, "/etc/mirror-ledger/mirror.toml": config}
    with images.built() as image:
        assert image.config["User"] == f"{_USER}:{_USER}"
        with image.running(["init"], mounts, site.folder / "init.log") as (_, process):
            assert process.wait(120) == 0, (site.folder / "init.log").read_text()
        log = site.folder / "run.log"
        with image.running(["run", "east-to-west"], mounts, log) as (container, process):

            def has(records: int, process: "subprocess.Popen[bytes]" = process) -> bool:
                assert process.poll() is None, log.read_text()
                return len(copied(west, f"east.{topic}")) == records

            eventually(lambda: has(100), "it mirrors", within_s=240)
            eventually(lambda: container.health() == 0, "it is healthy")
            assert_shut_in(container)
            produce(east, topic, "the last one")
            eventually(lambda: has(101), "it mirrors what is new")
            os.kill(container.pid, signal.SIGTERM)  # as an engine stops one
            assert process.wait(120) == 0
        assert values(west, f"east.{topic}") == values(east, topic)
        with image.running(["health"], mounts, site.folder / "health.log") as (_, process):
            assert process.wait(120) == 4, "a probe says that nobody is at work"
    assert all(json.loads(line)["level"] for line in log.read_text().splitlines() if line)


def assert_shut_in(container: images.Container) -> None:
    """Process 1 of its own, nobody's user, and no file to write but below two folders."""
    status = Path(f"/proc/{container.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NSpid"].split()[-1] == "1"
    assert fields["Uid"].split() == [str(_USER)] * 4
    assert (fields["NoNewPrivs"], int(fields["CapEff"], 16)) == ("1", 0)
    for place in ("/opt/mirror-ledger", "/etc", "/opt/program/bin"):
        refused = container.done("touch", f"{place}/new")
        assert refused.returncode == 1
        assert "Read-only file system" in refused.stderr
    for place in ("/tmp", _STATE):
        assert container.done("touch", f"{place}/new").returncode == 0
