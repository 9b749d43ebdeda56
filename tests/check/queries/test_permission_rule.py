"""Which rule of the target covers one of the source: the query permission_gaps and `covers` say the same."""

import random
from dataclasses import asdict, replace
from itertools import product

from ledger.changeover.permissions import covers
from ledger.facts.permissions import Permission, PermissionKind
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

OPERATIONS = ("read", "write", "describe", "all", "alter", "alter_configs", "describe_configs", "create")
NAMES = (
    ("orders", "literal"),
    ("*", "literal"),
    ("users", "literal"),
    ("ord", "prefixed"),
    ("o", "prefixed"),
)
RULES = [
    Permission(
        kind=PermissionKind.ACL,
        entity="",
        host=host,
        operation=operation,
        permission_type=does,
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
    )
    for does, operation, resource, (name, pattern), host in product(
        ("allow", "deny"), OPERATIONS, ("topic", "group"), NAMES, ("*", "10.0.0.1")
    )
]


def test_the_query_and_the_rule_agree_on_what_is_covered() -> None:
    chosen = random.Random(7)
    pairs = [
        # Half of them differ in one thing alone.
        (one, replace(one, operation=other.operation) if number % 2 else other)
        for number in range(600)
        for one, other in [chosen.sample(RULES, 2)]
    ]
    ledger = MemoryLedger()
    of_side = {"east": 0, "west": 1}
    rows = [
        row(
            "permissions",
            writer_epoch=1,
            round=1,
            cluster=cluster,
            cluster_id=cluster,
            event="present",
            **{**asdict(pair[side]), "kind": "acl", "entity": f"User:{number}"},
        )
        for cluster, side in of_side.items()
        for number, pair in enumerate(pairs)
    ]
    readings = [
        row("permissions", writer_epoch=1, cluster=cluster, cluster_id=cluster, kind="acl", event="readable")
        for cluster in of_side
    ]
    ledger.append("permissions", [*rows, *readings])
    params = {"source": "east", "target": "west"}
    gaps = run_query(catalog.query("permission_gaps"), params, ledger.at(ledger.latest())).to_pylist()
    missing = {gap["entity"] for gap in gaps if gap["status"] == "missing"}
    expected = {
        f"User:{number}"
        for number, (wanted, there) in enumerate(pairs)
        if not covers(replace(there, entity="User:a"), replace(wanted, entity="User:a"))
    }
    assert 300 < len(expected) < 590
    assert missing == expected
