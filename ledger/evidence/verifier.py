#!/usr/bin/env python3
"""Verify a bundle of evidence: python3 verify.py [FOLDER]. It needs Python 3.9 or later, nothing else and no network.

It checks that every file is the one that the manifest names, that every append is what its link was made of and follows
the one before, and that the last links are the heads, with their root; and it says how many these were. It computes no
report from the rows. What it cannot check itself, the signature and the time stamp of the manifest, it prints as lines
for openssl.

Exit code 0: all is as the manifest says, and the signature is left to you; 3: all is as the manifest says, and the
manifest is not signed, so anybody could have made it; 1: something is wrong, or nothing could be checked.

The format of links is described in the protocol of the ledger, "Links".
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

Heads = dict[tuple[str, str], tuple[int, int, str]]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def problems_of_files(folder: str, manifest: dict[str, Any]) -> Iterator[str]:
    """Files that are missing, are not what the manifest says, or are not named by it."""
    beside = {"manifest.json", "manifest.json.sig", "manifest.json.tsq", "manifest.json.tsr"}
    for name, said in sorted(manifest["files"].items()):
        if not os.path.isfile(os.path.join(folder, name)):
            yield f"{name!r} is missing"
        elif digest(read(folder, name)) != said:
            yield f"{name!r} is not the file that the manifest names"
    rows = {f"rows/{table}.jsonl" for table in manifest["tables"]}
    known = beside | {name for name in manifest["files"] if name in rows or not name.startswith("rows/")}
    for at, _, names in os.walk(folder):
        for name in (os.path.relpath(os.path.join(at, one), folder).replace(os.sep, "/") for one in names):
            if name not in known:
                yield f"{name!r} is not named by the manifest, or is of no table that it names"
    if manifest["signature"] is not None and not is_signed(folder):
        yield "the manifest says that it is signed, and key.pem or manifest.json.sig is missing"


def is_signed(folder: str) -> bool:
    """Whether there is a signature to check."""
    return all(os.path.isfile(os.path.join(folder, name)) for name in ("key.pem", "manifest.json.sig"))


def link_of(table: str, previous: str, columns: dict[str, Any]) -> str:
    content = json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = f"{table}\n{previous}\n{digest(content.encode())}"
    return "v1." + digest(text.encode())


def problems_of_rows(folder: str, manifest: Any, heads: Heads, counts: Counter[str]) -> Iterator[str]:
    """Appends that are not what their link says, or do not follow the one before; `heads` gets the last links."""
    for one in manifest["before"]:
        heads[one["table"], one["writer"]] = (one["epoch"], one["round"], one["link"])
    for table in manifest["tables"]:
        for line in read(folder, f"rows/{table}.jsonl").decode().splitlines():
            append = json.loads(line)
            chain = (table, append["writer"])
            what = f"{table!r}: epoch {append['epoch']!r} round {append['round']!r} of {append['writer']!r}"
            counts["appends"] += 1
            epoch, number, previous = heads.get(chain, (-1, -1, ""))
            if (append["epoch"], append["round"]) <= (epoch, number):
                yield f"{what} is not behind the one before it"
            if append["link"] is None:
                yield f"{what} has no link"
                continue
            stamp = {"writer": append["writer"], "writer_epoch": append["epoch"], "round": append["round"]}
            rows = append["columns"]
            if any({part} != set(rows[name]) for name, part in stamp.items()):
                yield f"{what} has rows of another append"
            if link_of(table, previous, rows) != append["link"]:
                yield f"{what}, or the one before it, is not what its link was made of"
            heads[chain] = (append["epoch"], append["round"], append["link"])
    if not counts["appends"]:
        yield "there is no append"


def problems_of_heads(folder: str, manifest: dict[str, Any], heads: Heads) -> Iterator[str]:
    said = json.loads(read(folder, "heads.json"))
    if said["ledger_id"] != manifest["ledger_id"]:
        yield "heads.json is of another ledger"
    known = {
        (one["table"], one["writer"]): (one["epoch"], one["round"], one["link"]) for one in said["heads"]
    }
    if known != heads:
        yield "the last links of the rows are not the heads in heads.json"
    lines = sorted((table, writer, *last) for (table, writer), last in known.items())
    root = digest("".join(f"{part}\n" for line in lines for part in line).encode())
    if root != manifest["root"]:
        yield "the root of the heads is not that of the manifest"


def problems(folder: str, counts: Counter[str]) -> list[str]:
    """What is wrong with a bundle, in words; `counts` gets how many `appends` were read."""
    try:
        manifest = json.loads(read(folder, "manifest.json"))
        if manifest["format"] != 1:
            return [f"the bundle has format {manifest['format']!r}, and this file verifies format 1"]
        heads: Heads = {}
        found = list(problems_of_files(folder, manifest))
        found += problems_of_rows(folder, manifest, heads, counts)
        found += problems_of_heads(folder, manifest, heads)
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"the bundle cannot be read: {type(error).__name__}: {str(error)!r}"]


def word(text: str) -> str:
    """As a shell reads it back, without a character that a terminal would obey."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(text)) + "'"


def verifying(folder: str, key: str, signature: str, signed: str) -> str:
    """What openssl is asked with: keys of Ed25519 have a way of their own, known by the key's beginning."""
    if b"MCowBQYDK2Vw" in read(folder, key):
        key_and_file = f"-inkey {word(key)} -rawin -in {word(signed)}"
        return f"pkeyutl -verify -pubin {key_and_file} -sigfile {word(signature)}"
    return f"dgst -sha256 -verify {word(key)} -signature {word(signature)} {word(signed)}"


def openssl_lines(folder: str) -> Iterator[tuple[str, str]]:
    """What checks the signatures and the time stamp, or asks for a time stamp."""
    at = f"cd {word(os.path.abspath(folder))} && openssl "
    if is_signed(folder):
        what = "signature, by the key in key.pem, which you compare with the signer's"
        yield what, at + verifying(folder, "key.pem", "manifest.json.sig", "manifest.json")
    approvals = os.path.join(folder, "approvals")
    for name in sorted(os.listdir(approvals) if os.path.isdir(approvals) else ()):
        one = "approvals/" + name[:-4]
        if name.endswith(".txt") and os.path.isfile(os.path.join(folder, f"{one}.pem")):
            what = f"approval in {one + '.txt'!r}, by the key beside it, which you compare with the person's"
            yield what, at + verifying(folder, f"{one}.pem", f"{one}.sig", f"{one}.txt")
    if os.path.isfile(os.path.join(folder, "manifest.json.tsr")):
        how = "ts -verify -data manifest.json -in manifest.json.tsr -CAfile CA.pem"
        yield "time stamp, by the certificates of the authority in CA.pem", at + how
    else:
        how = "ts -query -data manifest.json -sha256 -cert -out manifest.json.tsq"
        yield "to have it stamped: send manifest.json.tsq, keep the answer as manifest.json.tsr", at + how


def main(arguments: list[str]) -> int:
    folder = arguments[0] if arguments else os.path.dirname(os.path.abspath(__file__))
    counts: Counter[str] = Counter()
    found = problems(folder, counts)
    lines = [f"WRONG: {one}" for one in found] or [
        "every file, append, link and head is what the manifest says"
    ]
    lines += [
        f"checked: {counts['appends']} appends",
        "not checked: signatures and time stamps; whether report.html and report.json say what the rows say",
    ]
    if os.path.isfile(os.path.join(folder, "manifest.json")):
        lines += [part for what, line in openssl_lines(folder) for part in (f"# {what}", line)]
    if not is_signed(folder):
        stamped = os.path.isfile(os.path.join(folder, "manifest.json.tsr"))
        lines.append(f"NOT SIGNED{'' if stamped else ', NOT STAMPED'}: anybody could have made this")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if found else 0 if is_signed(folder) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
