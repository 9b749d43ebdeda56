"""Options that name a partition or an offset, within what Kafka has."""

import click

PARTITION = click.IntRange(0, 2**31 - 1)
OFFSET = click.IntRange(0, 2**63 - 1)

partition_option = click.option("--partition", type=PARTITION, help="Only this partition of the topic.")
