"""Figures that documents show: kept beside the benchmark that measures them, with the machine and the day."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine() -> dict[str, object]:
    """Where it was measured."""
    model = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": ", ".join(sorted(model)) or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory_kb / 1024**2),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
    }


def keep(file: Path, results: Sequence[Mapping[str, Any]], key: str, maker: Mapping[str, str]) -> None:
    """Write results; those of before stay whose `key` none of these has. `maker`: how MirrorMaker 2 was set up."""
    before = json.loads(file.read_text())["results"] if file.exists() else []
    anew = {one[key] for one in results}
    made = {
        "machine": machine(),
        "measured_on": datetime.now(UTC).date().isoformat(),
        "maker": dict(maker),
        "results": [*(one for one in before if one[key] not in anew), *results],
    }
    file.write_text(json.dumps(made, indent=1) + "\n")


def kept(file: Path) -> Sequence[Mapping[str, Any]]:
    """The results."""
    found: Sequence[Mapping[str, Any]] = json.loads(file.read_text())["results"]
    return found


def measured(file: Path) -> str:
    """When and where, in a sentence."""
    found = json.loads(file.read_text())
    at = found["machine"]
    return (
        f"Measured on {found['measured_on']}: {at['cpu']}, {at['cores']} cores for both brokers and the mirror, "
        f"{at['memory_gb']} GB, Linux {at['kernel']}, Python {at['python']}."
    )
