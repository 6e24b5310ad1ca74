#!/usr/bin/env bash
# systemd understands the units and the users as they are installed. Argument: the folder of the sources.
set -euo pipefail
packaging=$1/packaging
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v systemd-analyze > /dev/null || { echo "skipped: there is no systemd-analyze"; exit 77; }
names=
for unit in "$packaging"/*.service; do
  name=$(basename "$unit")
  # The programs may not be installed here; what systemd says of their absence is not about the units.
  sed 's#=/usr/bin/[a-z-]*#=/bin/true#' "$unit" > "$work/$name"
  case $name in *@.service) ln -s "$name" "$work/${name%.service}x.service"; name=${name%.service}x.service ;; esac
  names="$names $work/$name"
done
# It ends with 0 over much that it does not understand, and says so.
systemd-analyze verify $names 2> "$work/said" || { cat "$work/said" >&2; exit 1; }
if grep -F "$work/" "$work/said" >&2; then exit 1; fi
mkdir -p "$work/root/etc"
systemd-sysusers --root="$work/root" "$packaging/sysusers.conf" 2> /dev/null
for user in $(sed -n 's/^\(User\|Group\|SupplementaryGroups\)=//p' "$packaging"/*.service | sort -u); do
  grep -q "^$user:" "$work/root/etc/group" || { echo "units_test: sysusers.conf makes no $user" >&2; exit 1; }
done
echo passed
