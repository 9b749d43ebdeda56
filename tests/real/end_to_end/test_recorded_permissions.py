"""What a guarded cluster allows to whom, in the ledger: on change, and as `not_permitted` without the right to ask."""

import threading
import uuid
from pathlib import Path

from kafka.admin import ACLOperation, ResourceType, ScramMechanism, UserScramCredentialUpsertion

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.recorders.run import record_clusters
from tests.support.config_files import write_config
from tests.support.guarded import Guarded, lines_of
from tests.support.quotas import limit_producing
from tests.support.recorded import query, rows
from tests.support.waiting import eventually

KINDS = ("acl", "quota", "scram_user")


def config_of(guarded: Guarded, folder: Path, user: str) -> MirrorConfig:
    """The guarded cluster twice: as `east` for the super user, as `west` for this user."""
    servers = {"east": guarded.open, "west": guarded.over_tls}
    login = lines_of(guarded.scram_login(user))
    return write_config(folder, servers, {"f": 'topics = ["none"]'}, properties={"west": login})


def record(config: MirrorConfig, cluster: str) -> None:
    record_clusters(config, [cluster], stop=threading.Event(), once=True)


def told(config: MirrorConfig, entity: str) -> list[tuple[str, float | None]]:
    """Events of all that is recorded of one entity, with their values."""
    return [(row["event"], row["value"]) for row in rows(config, "permissions") if row["entity"] == entity]


def readings(config: MirrorConfig, cluster: str) -> set[tuple[str, str]]:
    """How each kind was read, each time that it changed."""
    recorded = (row for row in rows(config, "permissions") if row["entity"] is None)
    return {(row["kind"], row["event"]) for row in recorded if row["cluster"] == cluster}


def test_what_came_changed_and_went_is_recorded(guarded: Guarded, tmp_path: Path) -> None:
    config = config_of(guarded, tmp_path, "nobody")
    init_ledger(config)
    user = guarded.new_user()
    entity = f'{{"client-id":"{user}"}}'
    guarded.allow(user, user, ACLOperation.READ)
    limit_producing(guarded.open, user, 5e6)
    recorded: dict[str, list[tuple[str, float | None]]] = {
        f"User:{user}": [("present", None)],
        user: [("present", 4096.0)],
        entity: [("present", 5e6)],
    }

    def is_recorded() -> bool:
        record(config, "east")
        return {name: told(config, name) for name in recorded} == recorded

    eventually(is_recorded, "what came is recorded")
    assert readings(config, "east") == {(kind, "readable") for kind in KINDS}
    guarded.forbid(user, user)
    limit_producing(guarded.open, user, 6e6)
    credential = UserScramCredentialUpsertion(
        user, ScramMechanism.SCRAM_SHA_512, guarded.password, iterations=8192
    )
    with guarded.administered() as client:
        client.alter_user_scram_credentials([credential])
    recorded[f"User:{user}"].append(("removed", None))
    recorded[user].append(("present", 8192.0))
    recorded[entity].append(("present", 6e6))
    eventually(is_recorded, "what changed and went is recorded")
    assert guarded.password not in str(rows(config, "permissions"))


def test_without_the_right_to_ask_it_is_not_permitted_until_it_is_granted(
    guarded: Guarded, tmp_path: Path
) -> None:
    user, another = guarded.new_user(), f"only-{uuid.uuid4().hex[:8]}"
    config = config_of(guarded, tmp_path, user)
    init_ledger(config)
    guarded.allow(another, another, ACLOperation.READ)
    record(config, "east")
    record(config, "west")
    assert readings(config, "west") == {(kind, "not_permitted") for kind in KINDS}
    gaps = query(config, "permission_gaps", source="east", target="west")
    assert [(gap["kind"], gap["cluster"], gap["status"]) for gap in gaps] == [
        (kind, "west", "not_permitted") for kind in KINDS
    ]
    rights = (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    guarded.allow(user, "kafka-cluster", *rights, kind=ResourceType.CLUSTER)

    def is_readable() -> bool:
        record(config, "west")
        return readings(config, "west") >= {(kind, "readable") for kind in KINDS}

    eventually(is_readable, "all kinds are readable")
    record(config, "east")
    assert query(config, "permission_gaps", source="east", target="west") == []
    assert told(config, f"User:{another}") == [("present", None)] * 2
