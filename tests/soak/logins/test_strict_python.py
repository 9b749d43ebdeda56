"""Python 3.13 verifies certificates more strictly: the wheel in an environment of one mirrors all the same.

The broker's certificate is of an authority that leaves out the identifiers of keys, as many in-house ones do.
"""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.doors import Doors, stores
from tests.support.guarded import lines_of
from tests.support.installed import Installed, wheel
from tests.support.key_stores import KEY_PASSWORD

__all__ = ["wheel"]
_CODE = "import ssl, sys; sys.exit(not ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT)"


def strict_python() -> str | None:
    """A Python of this machine that is strict by itself: a version manager's shim may be there and not run."""
    for name in ("python3.14", "python3.13"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", _CODE], capture_output=True, check=False).returncode == 0:
            return found
    return None


@pytest.mark.skipif(strict_python() is None, reason="no Python 3.13 or later on PATH that runs")
def test_in_house_certificates_are_taken_unless_strictness_is_asked_for(
    doors: Doors, wheel: Path, tmp_path: Path
) -> None:
    python = strict_python()
    assert python is not None
    user = Installed(tmp_path, wheel, python=python)
    topic, login = f"orders-{uuid.uuid4().hex[:8]}", lines_of(stores(doors, "pem"))
    create_topics(doors.open, [topic], partitions=1)
    producer = Producer({"bootstrap.servers": doors.open})
    for number in range(50):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0

    def typed(more: str, *words: str, code: int) -> str:
        clusters = "\n".join(
            f'[clusters.{alias}]\nbootstrap_servers = "{doors.over_tls}"\n{login}\n{more}'
            for alias in ("east", "west")
        )
        flow = f'[flows.flow]\nsource = "east"\ntarget = "west"\ntopics = ["{topic}"]'
        (tmp_path / "mirror.toml").write_text(f'[ledger]\npath = "ledger"\n{clusters}\n{flow}\n')
        done = user.typed("--config", "mirror.toml", *words, **{KEY_PASSWORD: os.environ[KEY_PASSWORD]})
        assert done.code == code, (words, done)
        assert "Traceback" not in done.err
        return done.out

    strict = '"ssl.verification.strict" = "true"'
    refused = json.loads(typed(strict, "doctor", "-o", "json", code=4))
    [found] = [
        row for row in refused if row["check"] == "bootstrap_address" and row["subject"] == "cluster east"
    ]
    assert found["verdict"] == "failed"
    assert "leave out ssl.verification.strict" in found["advice"]
    typed("", "init", code=0)
    typed("", "run", "flow", "--until-caught-up", code=0)
    there = read_topics(doors.open, [topic, f"east.{topic}"])
    values = {name: [placed.record.value for placed in there[name, 0]] for name in (topic, f"east.{topic}")}
    assert values[f"east.{topic}"] == values[topic] == [str(number).encode() for number in range(50)]
