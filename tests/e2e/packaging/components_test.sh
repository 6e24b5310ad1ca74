#!/usr/bin/env bash
# A switch and a unit are installed apart, without the other programs or their libraries. Argument: the build folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "components_test: $*" >&2; exit 1; }

# component PROGRAM... : these and no others
component() {
  local name=$1; shift
  cmake --install "$build" --component "$name" --prefix "$work/$name" > /dev/null
  local found
  found=$(ls "$work/$name/bin" | tr '\n' ' ')
  [ "$found" = "$(printf '%s ' "$@")" ] || fail "$name brings $found, not $*"
  for program in "$@"; do
    ldd "$work/$name/bin/$program" > "$work/libraries"
    if grep -E 'librte_|libibverbs|librdmacm|libdnnl|libfaiss|libtbb' "$work/libraries"; then fail "$program loads these"; fi
  done
}

build=$1
component switch spillway spillwayd
component agent spillway-agent
component kubernetes spillway-kubernetes
if grep -E 'libbpf|libmnl' "$work/libraries"; then fail "the extender loads what the switch needs"; fi
for file in switch/lib/systemd/system/spillwayd.service switch/share/spillway/pool/dns-dsr.yaml \
            switch/share/spillway/pool/keys agent/lib/systemd/system/spillway-agent@.service \
            agent/share/spillway/agent/dns.yaml \
            agent/share/doc/spillway/docs/agent.md switch/share/doc/spillway/README.md \
            kubernetes/lib/systemd/system/spillway-kubernetes.service; do
  [ -e "$work/$file" ] || fail "no $file"
done
"$work/switch/bin/spillway" check "$work/switch/share/spillway/pool/dns-dsr.yaml" > /dev/null
echo passed
