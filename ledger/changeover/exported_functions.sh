quoted() { printf ' %q' "$@"; }
people() { printf '%s\n' "$1"; read -r -p 'Enter when it is so '; }
# What the ledger has to know; without the program people see to it, and record it later
ledger() {
  if command -v mirror-ledger > /dev/null; then
    mirror-ledger "$@"
  else
    people "without the program; to be recorded before any mirror runs again: mirror-ledger$(quoted "$@")"
  fi
}
# FENCE_BY=tools where the program may not change the cluster that applications leave
by_program() { [ "${FENCE_BY:-program}" = program ] && command -v mirror-ledger > /dev/null; }
# How many members a group has, by what describes its state; none where there is no such group
members() {
  local state
  if ! state=$("$1" --describe --state --group "$2" 2>&1) && ! grep -qi "does not exist" <<< "$state"; then
    echo unknown
  else
    awk '$NF ~ /^[0-9]+$/ { n += $NF } END { print n + 0 }' <<< "$state"
  fi
}
no_members() {
  local group count
  while IFS= read -r -d "" group <&3; do
    until count=$(members "$1" "$group"); [ "$count" = 0 ]; do
      people "members of group$(quoted "$group"): $count; stop them first"
    done
  done 3< "$here/groups"
}
