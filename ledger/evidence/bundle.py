"""A bundle of evidence: the rows of a period with their links, what they follow, heads, a report, and a signature.

A folder that stands without the ledger and without this program: `verify.py` in it checks all of it with Python alone
(`verifier`). The signature is over the manifest, which has the SHA-256 of every other file.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import pyarrow as pa

from ledger.errors import PreconditionError, UnsafeError
from ledger.evidence import verifier
from ledger.facts.links import root_of
from ledger.facts.tables import TABLE_BY_NAME, TABLES, epoch_and_round
from ledger.signatures import Signer
from ledger.store.delta_tables import stored_schema
from ledger.store.heads import Anchor, heads_at, linked_rows
from ledger.store.snapshots import DeltaSnapshot, OpenedTables
from ledger.store.sql import bounds, connected, register
from ledger.store.verifying import Linked, appends_of

_FORMAT = 1
_COUNTED = """
select r.*
from linked as r
join last on last.writer = r.writer
left join first on first.writer = r.writer
where r.writer_epoch * 4294967296 + r.round <= last.last_epoch * 4294967296 + last.last_round
and r.writer_epoch * 4294967296 + r.round > coalesce(first.last_epoch * 4294967296 + first.last_round, -1)
"""


def write_bundle(
    to: Path,
    until: DeltaSnapshot,
    since: DeltaSnapshot | None,
    *,
    about: str,
    now_ms: int,
    reports: Mapping[str, str],
    approvals: Mapping[str, bytes],
    key: str | None,
) -> int:
    """Write what was appended between two cuts, `since` None: from the beginning, to a new folder; returns how many
    appends these are.

    `about`: what the bundle is of, in words. `reports`, `approvals`: files by name. `key`: a private key as PEM, RSA,
    EC or Ed25519.
    Raises `PreconditionError` where the folder is there, `UsageError` where the key is none, and `UnsafeError` where
    the bundle, once written, is not what its links say, or has none: rows were changed.
    """
    signer = None if key is None else Signer(key, "[evidence] key")
    if to.exists():
        raise PreconditionError(f"{to} is there already; nothing was written. Give another folder")
    opened, cut = OpenedTables.of(until.path), until.cut
    before = () if since is None else heads_at(opened, since.cut)
    heads = heads_at(opened, cut)
    content: dict[str, bytes] = {**{name: text.encode() for name, text in reports.items()}, **approvals}
    content["heads.json"] = Anchor(cut.ledger_id, now_ms, heads).text.encode()
    content["verify.py"] = files("ledger.evidence").joinpath("verifier.py").read_bytes()
    if signer is not None:
        content["key.pem"] = signer.public
    for table in TABLES:
        lines = (_line(writer, one) for writer, one in _appends(opened, table.name, until, since))
        content[f"rows/{table.name}.jsonl"] = "".join(lines).encode()
    manifest = {
        "format": _FORMAT,
        "about": about,
        "ledger_id": cut.ledger_id,
        "made_at_ms": now_ms,
        "since_cut": None if since is None else since.cut.token,
        "cut": cut.token,
        "tables": [table.name for table in TABLES],
        "before": [asdict(one) for one in before],
        "root": root_of(heads),
        "signature": None if signer is None else signer.kind,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(content.items())},
    }
    content["manifest.json"] = json.dumps(manifest, indent=1).encode()
    if signer is not None:
        content["manifest.json.sig"] = signer.sign(content["manifest.json"])
    for name, data in content.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(data)
    counts: Counter[str] = Counter()
    if found := verifier.problems(str(to), counts):
        raise UnsafeError(
            f"{to} was written, and its own check finds {len(found)} faults: {found[0]}. Where rows of the ledger are "
            "not those that were appended, mirror-ledger verify-ledger says which"
        )
    return counts.total()


def _appends(
    opened: OpenedTables, table: str, until: DeltaSnapshot, since: DeltaSnapshot | None
) -> Iterator[tuple[str, Linked]]:
    """What was appended to a table between two cuts, each writer's in its order."""
    version, last = opened.table(table), until.cut.of_table(table)
    if not last:
        return
    with connected() as connection:
        register(connection, "linked", linked_rows(version, table))
        connection.register("last", bounds(last))
        connection.register("first", bounds(() if since is None else since.cut.of_table(table)))
        rows: pa.Table = connection.sql(_COUNTED).to_arrow_table()
    schema = stored_schema(TABLE_BY_NAME[table])
    found = appends_of(table, rows.select(schema.names).cast(schema))
    yield from sorted(found, key=lambda one: (one[0], one[1].place))


def _line(writer: str, one: Linked) -> str:
    epoch, number = epoch_and_round(one.place)
    columns = {
        name: values for name, values in one.columns.items() if any(value is not None for value in values)
    }
    said = {"writer": writer, "epoch": epoch, "round": number, "link": one.link, "columns": columns}
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True) + "\n"
