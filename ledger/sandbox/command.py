"""`sandbox`: real Kafka clusters on loopback, to try things out."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click
import pyarrow as pa

from ledger import jvm
from ledger.cli.options import output_option
from ledger.cli.printing import put, rendered, say
from ledger.clock import SystemClock
from ledger.errors import PreconditionError, UsageError
from ledger.sandbox import BrokerState, Sandbox, SandboxCluster
from ledger.sandbox.groups import consume, plan_groups, resume
from ledger.sandbox.log_gaps import RECORDS_ARE_OLDER_BY_MS, produce
from ledger.sandbox.reading import ends
from ledger.sandbox.workload import Workload
from ledger.sandbox.writing import Traffic
from ledger.words import counted

root_option = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: jvm.home() / "sandbox",
    show_default="sandbox in the home folder",
    help="Where data, logs and the state of the sandbox are kept.",
)


@click.group()
def sandbox() -> None:
    """Start and stop real Kafka clusters on loopback."""


@sandbox.command()
@click.option("--clusters", default="east,west", show_default=True, help="Aliases, separated by commas.")
@click.option("--brokers", type=int, default=1, show_default=True, help="1 or 3 per cluster.")
@root_option
@output_option("json")
def up(clusters: str, brokers: int, root: Path, output: str) -> None:
    """Start clusters, or whatever is dead of them, and print where they listen."""
    aliases = [alias.strip() for alias in clusters.split(",") if alias.strip()]
    say(f"starting {', '.join(aliases)} under {root} ...")
    wanted = Sandbox(root)
    running = wanted.up(aliases, brokers)
    say(f"configuration: {wanted.configuration}")
    put(_rendered(running, output))


@sandbox.command()
@root_option
def configuration(root: Path) -> None:
    """Print the path of the configuration file that `up` wrote."""
    file = Sandbox(root).configuration
    if not file.is_file():
        raise PreconditionError(f"no sandbox under {root}; start one with `mirror-ledger sandbox up`")
    put(f"{file}\n")


@sandbox.command()
@root_option
@click.option("--cluster", default="east", show_default=True, help="Where to produce and consume.")
@click.option(
    "--records", type=click.IntRange(min=1_000), default=10_000, show_default=True, help="Per topic."
)
def fill(root: Path, cluster: str, records: int) -> None:
    """Produce topics of every kind into a cluster and let consumer groups commit a part of them."""
    servers = _servers(root, cluster)
    workload = Workload(
        records_per_topic=records, started_ms=SystemClock().now_ms() - RECORDS_ARE_OLDER_BY_MS
    )
    made = produce(servers, workload, say)
    groups = plan_groups(workload, ends(servers, workload.topics))
    for plan in groups:
        consume(servers, plan)
    say(f"{made:,} records in {len(workload.topics)} topics, {len(groups)} groups")


@sandbox.command()
@root_option
@click.option("--cluster", default="east", show_default=True, help="Where to produce.")
@click.option(
    "--rate", type=click.IntRange(1, 50_000), default=500, show_default=True, help="Records a second, in all."
)
@click.option(
    "--for", "length", default="5m", show_default=True, metavar="TIME", help="How long: 30s, 5m, 1h."
)
def write(root: Path, cluster: str, rate: int, length: str) -> None:
    """Write to the topics `events-*` at a steady rate until the time is over, or Ctrl-C."""
    if (given := re.fullmatch(r"([1-9]\d*)([smh])", length)) is None:
        raise UsageError(
            f"--for takes a number and s, m or h, such as 5m, got {length!r}; nothing was produced"
        )
    traffic = Traffic(_servers(root, cluster))
    say(f"writing {rate} records a second to {cluster} for {length}; Ctrl-C ends it")
    with suppress(KeyboardInterrupt):
        traffic.write(rate, int(given[1]) * {"s": 1, "m": 60, "h": 3600}[given[2]])
    traffic.finish()
    lost = traffic.sent - traffic.acknowledged
    say(f"{traffic.acknowledged:,} records written" + (f", {lost:,} not acknowledged" if lost else ""))


@sandbox.command()
@root_option
@click.option("--cluster", default="east", show_default=True, help="Where to read.")
@click.option("--group", required=True, help="A group of `fill`.")
def read(root: Path, cluster: str, group: str) -> None:
    """Let a group read on from where it has committed there, up to the end, and commit."""
    servers, workload = _servers(root, cluster), Workload(records_per_topic=0, started_ms=0)
    plans = {plan.group_id: plan for plan in plan_groups(workload, ends(servers, workload.topics))}
    if group not in plans:
        raise UsageError(f"{group!r} is no group of fill: {', '.join(plans)}; nothing was read")
    for (topic, partition), records in sorted(resume(servers, group, sorted(plans[group].stops)).items()):
        first = f" from offset {records[0].offset:,} on" if records else ""
        put(f"{topic} partition {partition}: {counted(len(records), 'record')}{first}\n")


def _servers(root: Path, cluster: str) -> str:
    found = Sandbox(root).status().get(cluster)
    if found is None or not any(broker.state is BrokerState.RUNNING for broker in found.brokers):
        raise PreconditionError(
            f"no cluster {cluster!r} runs in the sandbox under {root}: mirror-ledger sandbox up; nothing was produced"
        )
    return found.bootstrap_servers


@sandbox.command()
@root_option
def down(root: Path) -> None:
    """Kill all brokers and remove their folder, data included."""
    removed = Sandbox(root).down()
    say(f"removed {root}" if removed else f"no sandbox under {root}")


@sandbox.command()
@root_option
@click.option("--cluster", required=True, help="Whose brokers end.")
def kill(root: Path, cluster: str) -> None:
    """SIGKILL all brokers of a cluster, as a failure ends them; `up` starts them again with their data."""
    Sandbox(root).kill(cluster)
    say(f"killed {cluster}")


@sandbox.command()
@root_option
@output_option("json")
def status(root: Path, output: str) -> None:
    """Print what there is and whether it runs."""
    found = Sandbox(root).status()
    if not found:
        say(f"no sandbox under {root}")
    if found or output == "json":
        put(_rendered(found, output))


def _rendered(clusters: Mapping[str, SandboxCluster], output: str) -> str:
    if output == "json":
        return json.dumps([asdict(cluster) for cluster in clusters.values()], indent=2) + "\n"
    rows = [
        {
            "cluster": cluster.alias,
            "broker": broker.node_id,
            "address": f"127.0.0.1:{broker.port}",
            "pid": broker.pid,
            "state": broker.state.value,
            "cluster id": cluster.cluster_id,
        }
        for cluster in clusters.values()
        for broker in cluster.brokers
    ]
    return rendered(pa.Table.from_pylist(rows), "table", wide=True)
