"""Kafka's own tools, as scripts in a folder that a shell finds; the sandbox has their jars alone."""

import os
import shlex
from collections.abc import Collection
from pathlib import Path

from ledger.jvm import archived, check_java
from ledger.sandbox.brokers import KAFKA_CLASSES, QUICK_JVM, kafka_jars

KAFKA_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}


def write_tools(folder: Path, names: Collection[str] = tuple(KAFKA_TOOLS)) -> None:
    """Write those of the tools that are named."""
    for name in names:
        write_script(folder / name, f'exec {shlex.join(tool(name))} "$@"')


def tool(name: str) -> list[str]:
    """The command of one of them, without arguments."""
    jars = kafka_jars()
    classpath = os.pathsep.join(map(str, jars))
    return [
        str(check_java()),
        *QUICK_JVM,
        *archived(KAFKA_CLASSES, jars),
        "-cp",
        classpath,
        KAFKA_TOOLS[name],
    ]


def write_script(file: Path, line: str) -> None:
    """A program of one line."""
    file.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    file.chmod(0o755)
