#!/usr/bin/env bash
# spillway-kubernetes, asked as kube-scheduler does. Arguments: the folder of the programs, the repository.
set -euo pipefail
# To the end of the input: grep -q leaves sooner, and pipefail tells of the writer that finds nobody there.
matches() { grep "$@" > /dev/null; }
bin=$1
repository=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
daemon= server=
cleanup() {
  for pid in $daemon $server; do kill -9 "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "kubernetes_test: $*" >&2
  for log in "$work"/*.log; do echo "--- $log" >&2; cat "$log" >&2; done
  exit 1
}
until_true() {  # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "never came true: $*"
    read -rt 0.02 <> <(:) || true
  done
}

# What the examples say is what is understood.
for example in "$repository"/examples/kubernetes/extender*.yaml; do
  sed -e 's|/var/run/secrets[^ ]*/|'"$work"'/|' -e 's|cluster: |cluster: '"$repository"'/examples/kubernetes/|' \
    "$example" > "$work/example.yaml"
  echo the-token > "$work/token"; echo none > "$work/ca.crt"
  "$bin/spillway-kubernetes" --check -c "$work/example.yaml" > "$work/check.out" 2>&1 || fail "$example: $(cat "$work/check.out")"
done

refused() {  # TEXT YAML...: a file that is refused in one line with that text
  local text=$1 code=0; shift
  printf '%s\n' "$@" > "$work/bad.yaml"
  "$bin/spillway-kubernetes" --check -c "$work/bad.yaml" > /dev/null 2> "$work/bad.err" || code=$?
  [ $code = 2 ] && [ "$(wc -l < "$work/bad.err")" = 1 ] && grep -qF -- "$text" "$work/bad.err" ||
    fail "$*: exit code $code, $(cat "$work/bad.err")"
}
refused "extender: expected an api_server, a cluster, or both" "extender: {listen: '127.0.0.1:0'}"
refused "extender.listen: expected" "extender: {api_server: 'http://x.y'}"
refused "extender.listen: " "extender: {listen: '', api_server: 'http://x.y'}"
refused "extender.listen: localhost: expected ADDRESS:PORT" "extender: {listen: localhost, api_server: 'http://x.y'}"
refused "extender.api_server: expected a URL" "extender: {listen: '127.0.0.1:0', api_server: 'x'}"
refused "extender.resync: allowed only with api_server" "extender: {listen: '127.0.0.1:0', cluster: c, resync: 1s}"
refused "extender.cluster: expected a readable file, got" "extender: {listen: '127.0.0.1:0', cluster: c.yaml}"
refused 'unknown key "services"' "extender: {listen: '127.0.0.1:0', api_server: 'http://x.y'}" "services: []"

python3 "$here/api_server.py" > "$work/port" 2> "$work/server.log" & server=$!
until_true 20 test -s "$work/port"
api=http://127.0.0.1:$(cat "$work/port")
cat > "$work/extender.yaml" <<END
extender:
  listen: 127.0.0.1:0
  api_server: $api
  token_file: token
  resync: 200ms
END
start() {
  : > "$work/extender.log"  # here: the background shell may empty it only after grep saw the last daemon's lines
  "$bin/spillway-kubernetes" -c "$work/extender.yaml" 2> "$work/extender.log" & daemon=$!
  until_true 20 grep -q "extender on" "$work/extender.log"
  url=http://127.0.0.1:$(sed -n 's/.*extender on .*port \([0-9]*\)$/\1/p' "$work/extender.log")
  until_true 20 curl -sSf "$url/healthz"
}
ask() {  # PATH FILE: as kube-scheduler posts
  curl -sS --max-time 30 -H 'Content-Type: application/json' --data-binary "@$2" "$url/$1"
}
expect() {  # EXPRESSION on the reply r, PATH, FILE
  local reply; reply=$(ask "$2" "$3")
  python3 -c "import json,sys; r = json.loads(sys.argv[1]); assert ($1)" "$reply" 2> /dev/null ||
    fail "$2 $3: expected $1, got $reply"
}
requests=$here/requests
start
expect 'r["NodeNames"] == ["gpu-a", "gpu-b"] and r["Nodes"] is None and r["Error"] == "" and
        r["FailedAndUnresolvableNodes"] == {"cpu-1": "Spillway knows of no GPUs on this node"}' filter "$requests/filter_by_name.json"
expect '[h["Host"] for h in r] == ["gpu-a", "gpu-b", "cpu-1"] and sorted(h["Score"] for h in r)[2] == 10 and
        r[2]["Score"] == 0' prioritize "$requests/filter_by_name.json"
expect 'r == {"Error": ""}' bind "$requests/bind.json"
curl -sS "$url/bookings" | matches '"gpu":"0".*"node":"gpu-b".*"state":"confirmed"' || fail "bookings: $(curl -sS "$url/bookings")"
# Two GPUs by the device plugin do not go where it would not know of a part that is taken.
expect 'r["Nodes"]["items"] == [] and "gpu-b" in r["FailedNodes"] and "cpu-1" in r["FailedAndUnresolvableNodes"]' \
  filter "$requests/filter_whole_nodes.json"
sed -e s/bert-0/refused-0/ -e s/0001/0009/ "$requests/bind.json" > "$work/refused.json"
sed -e s/bert-0/refused-0/ -e s/0001/0009/ "$requests/filter_by_name.json" > "$work/refused_filter.json"
ask filter "$work/refused_filter.json" > /dev/null
expect '"403: pods/binding is forbidden" in r["Error"]' bind "$work/refused.json"
[ "$(curl -sS "$url/bookings" | grep -o '"pod"' | wc -l)" = 1 ] || fail "the refused one is still booked"
# A bind that no filter came before: the API server says what pod that is.
sed -e s/bert-0/nobody-0/ -e s/0001/0008/ "$requests/bind.json" > "$work/unknown.json"
expect '"bind ml/nobody-0 to gpu-b: " in r["Error"]' bind "$work/unknown.json"
echo '{"Pod": ' > "$work/cut.json"
expect '"expected a JSON object" in r["Error"]' filter "$work/cut.json"

# A kill loses nothing.
curl -sS "$url/metrics" > "$work/metrics"
grep -q '^spillway_extender_bookings{state="confirmed"} 1$' "$work/metrics" || fail "metrics: $(cat "$work/metrics")"
kill -9 "$daemon"; wait "$daemon" 2> /dev/null || true
start
curl -sS "$url/bookings" | matches '"gpu":"0".*"node":"gpu-b"' || fail "after a restart: $(curl -sS "$url/bookings")"
# What it asked for is what its role in the examples allows.
has_watched() { curl -sSf "$api/calls" | matches watch; }
until_true 20 has_watched
curl -sSf "$api/calls" > "$work/calls.json"
with_yaml=python3
python3 -c 'import yaml' 2> /dev/null || with_yaml=/usr/bin/python3
role=0; "$with_yaml" "$here/manifests_test.py" "$repository/examples/kubernetes" "$work/calls.json" 2> "$work/manifests.log" || role=$?
[ $role = 0 ] || [ $role = 77 ] || fail "examples/kubernetes; the extender's calls: $(cat "$work/calls.json")"
# A pod that goes frees its GPU.
curl -sS -X DELETE "$api/bert-0" > /dev/null
has_no_bookings() { curl -sS "$url/bookings" | matches -x '\[\]'; }
until_true 20 has_no_bookings
kill -TERM "$daemon"
code=0; wait "$daemon" || code=$?; daemon=
[ $code = 0 ] || fail "SIGTERM: exit code $code"
[ $role = 0 ] || { echo "skipped: whether the manifests are right; the rest passed"; exit $role; }
echo "kubernetes_test: ok"
