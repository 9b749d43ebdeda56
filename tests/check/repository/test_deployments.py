"""Files of `conf/` that others read: systemd, container engines, Kubernetes. Their own rules are asked."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledger.config.file import load_config
from ledger.errors import MirrorLedgerError, PreconditionError, UnsafeError, UsageError
from tests.support.checkout import CHECKOUT
from tests.support.documents import parsed_line

CONF = CHECKOUT / "conf"
UNIT = CONF / "systemd" / "mirror-ledger@.service"
MANIFESTS = CONF / "kubernetes" / "mirror-ledger.yaml"
COMPOSE = CONF / "container" / "compose.yaml"
CONTAINERFILE = CONF / "container" / "Containerfile"


def documents(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one is not None]


def tool(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_manifests_keep_to_the_schema_of_kubernetes() -> None:
    tool("kubernetes_validate", "--strict", str(MANIFESTS))


def test_the_configuration_in_the_manifests_is_one(tmp_path: Path) -> None:
    [configuration] = [one for one in documents(MANIFESTS) if one["kind"] == "ConfigMap"]
    file = tmp_path / "mirror.toml"
    file.write_text(configuration["data"]["mirror.toml"])
    assert load_config(file).enabled_flows
    [runs] = [one for one in documents(MANIFESTS) if one["kind"] == "StatefulSet"]
    [container] = runs["spec"]["template"]["spec"]["containers"]
    assert parsed_line(" ".join(container["args"]))[0] == "run"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        program, *words = container[probe]["exec"]["command"]
        assert (program, parsed_line(" ".join(words))[0]) == ("mirror-ledger", "health")


def test_compose_keeps_to_its_schema_and_runs_a_flow_of_its_configuration() -> None:
    tool("check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE))
    [composed] = documents(COMPOSE)
    assert parsed_line(" ".join(composed["services"]["mirror"]["command"]))[0] == "run"
    config = load_config(CONF / "container" / "mirror.toml")
    [flow] = config.enabled_flows
    clusters = {flow.source, flow.target}
    assert clusters <= composed["services"].keys()
    for name in clusters:
        servers = composed["services"][name]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert servers == f"PLAINTEXT://{config.cluster(name).bootstrap_servers}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "mirror-ledger@east-to-west.service"
    program = tmp_path / "mirror-ledger"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit.write_text(UNIT.read_text().replace("/opt/mirror-ledger/bin/mirror-ledger", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    about = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, about) == (0, [])


def test_a_service_is_not_started_again_where_a_start_mends_nothing() -> None:
    lines = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"[A-Z]\w+=", line))
    codes = {int(code) for code in lines["RestartPreventExitStatus"].split()}
    assert codes == {UsageError.exit_code, UnsafeError.exit_code}
    assert not codes & {MirrorLedgerError.exit_code, PreconditionError.exit_code}
    words = lines["ExecStart"].removeprefix("/opt/mirror-ledger/bin/mirror-ledger ").replace("%i", "FLOW")
    assert parsed_line(words)[0] == "run"


def test_the_image_has_what_is_copied_into_it_and_its_commands() -> None:
    text = CONTAINERFILE.read_text()
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((CHECKOUT / name).exists() for name in source.split())
    [health] = re.findall(r'CMD \["mirror-ledger", "(\w+)"\]', text)
    assert parsed_line(health)[0] == "health"
    assert re.search(r"^USER 10001", text, re.MULTILINE)
