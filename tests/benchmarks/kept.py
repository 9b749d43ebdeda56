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


def keep(
    file: Path,
    results: Sequence[Mapping[str, Any]],
    key: str,
    maker: Mapping[str, str],
    *,
    kind: str = "results",
) -> None:
    """Write results of a kind with their day; those of before stay, with theirs, whose `key` none of these has.

    `maker`: how MirrorMaker 2 was set up.
    """
    before = json.loads(file.read_text()) if file.exists() else {}
    today, anew = datetime.now(UTC).date().isoformat(), {one[key] for one in results}
    every = [
        *(one for one in before.get(kind, ()) if one[key] not in anew),
        *({**one, "measured_on": today} for one in results),
    ]
    order = [one[key] for one in (*before.get(kind, ()), *results)]
    made = {
        **before,
        "machine": machine(),
        "measured_on": today,
        "maker": dict(maker),
        kind: sorted(every, key=lambda one: order.index(one[key])),
    }
    file.write_text(json.dumps(made, indent=1) + "\n")


def kept(file: Path, kind: str = "results") -> Sequence[Mapping[str, Any]]:
    """The results of a kind, each with the day on which it was measured."""
    found: Sequence[Mapping[str, Any]] = json.loads(file.read_text())[kind]
    return found


def measured(file: Path) -> str:
    """When and where results were measured, in a sentence."""
    found = json.loads(file.read_text())
    at, days = found["machine"], sorted({one["measured_on"] for one in found["results"]})
    when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    return (
        f"Measured {when}: {at['cpu']}, {at['cores']} cores for both brokers and the mirror, "
        f"{at['memory_gb']} GB, Linux {at['kernel']}, Python {at['python']}."
    )
