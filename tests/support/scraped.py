"""A mirror that is served and scraped: `serve` and drivers as processes of their own, and a real Prometheus."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ledger.config.mirror import MirrorConfig
from tests.support.asked_pages import OPEN_METRICS, Samples, samples_of
from tests.support.checkout import CHECKOUT
from tests.support.drivers import Command, ended_afterwards
from tests.support.waiting import eventually

PROMETHEUS = CHECKOUT / "conf" / "prometheus"
FIRES_WITHIN_S = 30.0

log = logging.getLogger(__name__)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def text_at(url: str, **headers: str) -> str:
    """What a server answers, which has to be there."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return str(answer.read().decode())


def samples_at(url: str) -> Samples:
    """Metrics as Prometheus scrapes them; none while nobody listens."""
    try:
        return samples_of(text_at(f"{url}/metrics", Accept=OPEN_METRICS))
    except OSError:
        return {}


@contextmanager
def serving(config: MirrorConfig, log: Path) -> Iterator[str]:
    """`mirror-ledger serve` for the body; its address."""
    process = Command(config, log, "serve", "--listen", "127.0.0.1:0")
    address = re.compile(r"shown at (http://[^/]+)/")
    try:
        eventually(lambda: address.search(log.read_text()) is not None, "it serves")
        [url] = address.findall(log.read_text())
        yield url
        assert process.ask_to_stop(signal.SIGTERM) == 0, log.read_text()
    finally:
        process.end()


# Prometheus ---------------------------------------------------------------------------------------


@contextmanager
def prometheus(folder: Path, drivers: str, served: str) -> Iterator[str]:
    """A Prometheus with the intervals and alerts of `conf/prometheus`, of these targets, for the body; its address."""
    configuration: dict[str, Any] = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())
    for job, target in zip(configuration["scrape_configs"], (drivers, served), strict=True):
        del job["authorization"]
        job["static_configs"] = [{"targets": [target]}]
    configuration["rule_files"] = [str(PROMETHEUS / "alerts.yaml")]
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    listen = f"127.0.0.1:{free_port()}"
    words = [
        *("prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'series'}"),
        *(f"--web.listen-address={listen}", "--log.level=warn"),
    ]
    with ended_afterwards(words, folder / "prometheus.log"):
        eventually(lambda: is_ready(f"http://{listen}"), "Prometheus answers")
        yield f"http://{listen}"


def is_ready(url: str) -> bool:
    """Whether it has read what it has stored."""
    try:
        text_at(f"{url}/-/ready")
    except OSError:
        return False
    return True


def firing(url: str) -> list[Mapping[str, str]]:
    """Labels of the alerts that fire."""
    found = json.loads(text_at(f"{url}/api/v1/alerts"))["data"]["alerts"]
    return [one["labels"] for one in found if one["state"] == "firing"]


def is_firing(url: str, alert: str, **labels: str) -> bool:
    """Whether one with this name and these labels does."""
    wanted = {"alertname": f"MirrorLedger{alert}", **labels}.items()
    return any(wanted <= one.items() for one in firing(url))


def fires(url: str, alert: str, since_s: float, **labels: str) -> None:
    """Within half a minute of that moment."""
    eventually(
        lambda: is_firing(url, alert, **labels),
        f"{alert} fires; others are {firing(url)}",
        within_s=max(1.0, FIRES_WITHIN_S - (time.monotonic() - since_s)),
    )
    log.info("%s fired within %.1f s", alert, time.monotonic() - since_s)


def promtool(*words: str) -> None:
    """It has to be content."""
    done = subprocess.run(
        ["promtool", *words], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
