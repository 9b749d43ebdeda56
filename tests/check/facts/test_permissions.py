"""What changed of permissions: what came, changed and went, and what is known while a kind may not be read."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ledger.facts.permissions import (
    Permission,
    PermissionChange,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    known_after,
    permission_changes,
    quota_entity,
)

READABLE, NOT_PERMITTED = PermissionEvent.READABLE, PermissionEvent.NOT_PERMITTED
PRESENT, REMOVED = PermissionEvent.PRESENT, PermissionEvent.REMOVED
USER = PermissionKind.SCRAM_USER


def user(name: str, iterations: int = 4096) -> Permission:
    return Permission(kind=USER, entity=name, setting="SCRAM-SHA-256", value=iterations)


def users(*found: Permission, reading: PermissionEvent = READABLE) -> Permissions:
    return {USER: PermissionsOfKind(reading, frozenset(found))}


REFUSED = users(reading=NOT_PERMITTED)


def test_the_first_read_tells_all_and_that_nothing_is_there() -> None:
    assert permission_changes({}, users(user("b"), user("a"))) == [
        (READABLE, USER, None),
        (PRESENT, USER, user("a")),
        (PRESENT, USER, user("b")),
    ]
    assert permission_changes({}, users()) == [(READABLE, USER, None)]
    assert permission_changes({}, REFUSED) == [(NOT_PERMITTED, USER, None)]


def test_what_came_changed_and_went_is_told_once() -> None:
    last, now = users(user("a"), user("b"), user("c")), users(user("b", 8192), user("c"), user("d"))
    assert permission_changes(last, now) == [
        (REMOVED, USER, user("a")),
        (PRESENT, USER, user("b", 8192)),
        (PRESENT, USER, user("d")),
    ]
    assert permission_changes(known_after(last, now), now) == []


def test_a_right_that_was_lost_is_one_row_and_removes_nothing() -> None:
    last = users(user("a"), user("b"))
    assert permission_changes(last, REFUSED) == [(NOT_PERMITTED, USER, None)]
    meanwhile = known_after(last, REFUSED)
    assert permission_changes(meanwhile, REFUSED) == []
    assert permission_changes(meanwhile, users(user("b"))) == [
        (READABLE, USER, None),
        (REMOVED, USER, user("a")),
    ]


def test_a_kind_that_was_not_read_stays_as_it_was() -> None:
    assert permission_changes(users(user("a")), {}) == []
    assert known_after(users(user("a")), {}) == users(user("a"))


def test_a_quota_for_a_default_is_not_one_for_a_name() -> None:
    assert quota_entity({"user": "a", "client-id": None}) == '{"client-id":null,"user":"a"}'
    assert quota_entity({"user": None}) != quota_entity({"user": "null"})


reads = st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), max_size=3))


@given(st.lists(reads, max_size=6))
def test_replaying_the_changes_gives_what_was_read(looks: list[Mapping[str, int] | None]) -> None:
    """None: the kind could not be read."""
    known: Permissions = {}
    replayed: dict[Permission, Permission] = {}
    readings: list[PermissionEvent] = []
    for look in looks:
        found = REFUSED if look is None else users(*(user(*entry) for entry in look.items()))
        changes = permission_changes(known, found)
        readings += _replay(changes, replayed)
        known = known_after(known, found)
        assert readings[-1] is found[USER].reading
        if look is not None:
            assert frozenset(replayed.values()) == found[USER].found
        assert permission_changes(known, found) == []


def _replay(changes: list[PermissionChange], replayed: dict[Permission, Permission]) -> list[PermissionEvent]:
    """Apply what rows say; returns how the kind was read."""
    readings = []
    for event, _, permission in changes:
        if permission is None:
            readings.append(event)
        elif event is PRESENT:
            replayed[permission.identity] = permission
        else:
            del replayed[permission.identity]
    return readings
