#!/usr/bin/env bash
# An executor is killed in the middle of a move, real processes on loopback: the new one before it is ready and after, the
# old one while the new one starts and while it drains. Clients ask all the while, and none of them may notice: what the
# dead executor had in hand is begun anew by the other. Arguments: the folder of the programs.
#
# Nothing here depends on who is quicker. Executors reach the gateway by a link, the gate: one that is started while it is
# shut does not become ready. One that is stopped (SIGSTOP) keeps what it has in hand, and so drains until it is killed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/waiting.sh"
bin=$1
work=$(mktemp -d)
gateway= node1= node2= askers= mover=
cleanup() {
  trap '' PIPE
  for pid in $askers $mover $gateway $node1 $node2; do kill -9 "$pid" 2>/dev/null || true; done
  for pid in $(executors); do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
executors() { ps -e -o pid=,args= | grep -- "-c $work/[h]ost" | awk '/spillway-executor/ {print $1}' || true; }
trap cleanup EXIT
fail() {
  echo "killed_in_a_move_test: $*" >&2
  show_logs
  exit 1
}

# Limits that none of this reaches: what an executor has is to be begun anew because that one is dead, not because it is slow.
cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
executors: $work/executors.sock
controller: {socket: $work/control.sock, state: $work/fleet.json, moves: false}
limits: {deadline: 60s, stuck_after: 60s}
EOF
for host in host1 host2; do
  cat > "$work/$host.yaml" <<EOF
name: $host
controller: $work/control.sock
gateway: $work/gate.sock
state: $work/$host
gpus: [{name: gpu0, gflop_per_s: 1}, {name: gpu1, gflop_per_s: 1}]
EOF
done
# Two cells: of four clients two have their requests in hand of an instance that is stopped, and two go on.
cells=2 clients=4
cat > "$work/product.yaml" <<EOF
model: {name: product, kind: product, m: 1, k: 2, n: 1}
cells: $cells
EOF

model() { "$bin/spillway" model "$@" --gateway "$work/control.sock"; }
# Of the fleet as JSON, the answer of a Python expression.
fleet() {
  model list --json | python3 -c '
import json, sys
fleet = json.load(sys.stdin)
hosts = {h["name"]: h for h in fleet["hosts"]}
model = {m["name"]: m for m in fleet["models"]}["product"]
phases = {i["gpu"]: i["phase"] for i in model["instances"]}
ids = {i["gpu"]: i["id"] for i in model["instances"]}
used = {h["name"] + "/" + g["id"]: g["share_used"] for h in fleet["hosts"] for g in h["gpus"] if g["share_used"] > 0}
value = eval(sys.argv[1])
print(value)
sys.exit(0 if value else 1)' "$1"
}
# Sum of the gateway's metrics whose text begins so.
metric() { curl -sf "$url/metrics" | awk -v name="$1" 'index($0, name) == 1 {sum += $NF} END {print sum + 0}'; }
start_askers() {
  rm -f "$work/enough"
  before=$(answered) anew=$(begun_anew)
  "$here/askers.py" "$url" $clients "$work/enough" "$work/asked" & askers=$!
}
answered() { metric 'spillway_gateway_requests_total{tenant="default",status="ok"}'; }
more_than() { [ "$(answered)" -gt "$1" ]; }
goes_on() { until_true 20 more_than "$(answered)"; }  # requests are answered from now on
# Ends them: every request that was sent was answered, once.
stop_askers() {
  goes_on
  : > "$work/enough"; wait $askers; askers=
  [ "$(cat "$work/asked")" = "$(($(answered) - before)) 0" ] ||
    fail "$1: $(cat "$work/asked") asked and failed, $(($(answered) - before)) answered"
}
begun_anew() { metric 'spillway_gateway_replacements_total '; }
in_hand() { metric "spillway_gateway_slice_busy_cells{executor=\"instance-$1\""; }
has_in_hand() { [ "$(in_hand "$1")" = "$2" ]; }
id_at() { fleet "ids['$1']"; }
pid_of() { sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$work"/host?/"$1.json"; }
# A move of which the new instance's number is then known.
begin_move() {  # FROM TO
  from=$1 to=$2
  old=$(id_at "$from")
  model move product --to "$to" --wait > "$work/moved" 2>&1 & mover=$!
  until_true 20 id_at "$to"
  new=$(id_at "$to")
}
is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
stop_and_fill() {  # INSTANCE
  kill -STOP "$(pid_of "$1")"
  until_true 20 is_stopped "$(pid_of "$1")"
  [ -n "$askers" ] || start_askers
  until_true 20 has_in_hand "$1" $cells
}
is_moved() {
  local code=0
  wait "$mover" || code=$?
  mover=
  [ $code = 0 ] && matches "^product: 1 of 1 ready on $to" < "$work/moved" || fail "$1: exit code $code, $(cat "$work/moved")"
}
is_not_moved() {
  local code=0
  wait "$mover" || code=$?
  mover=
  [ $code = 1 ] && matches "product: not moved to $to: 1 of 1 ready on $from" < "$work/moved" ||
    fail "$1: exit code $code, $(cat "$work/moved")"
}
# One replica there, as was asked for, and of the others nothing: neither in the list, nor as a process, a slice's record
# or a slice that the gateway has.
is_alone() {  # GPU INSTANCE
  fleet "phases == {'$1': 'ready'} and ids == {'$1': $2} and not model['moving'] and used == {'$1': 1}" || return 1
  [ "$(executors)" = "$(pid_of "$2")" ] && [ "$(ls "$work"/host?/*.json)" = "$work/${1%/*}/$2.json" ] || return 1
  [ "$(metric 'spillway_gateway_slice_info{')" = 1 ] && [ "$(metric 'spillway_gateway_executors ')" = 1 ]
}
moves_are() { fleet "(fleet['moves']['done'], fleet['moves']['failed']) == ($1, $2)" > /dev/null || fail "$3: moves $(fleet 'fleet["moves"]')"; }

"$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
until_true 20 grep -q ready "$work/gateway.log"
url=http://127.0.0.1:$(sed -n 's/.* http on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")
open_gate() { ln -sf "$work/executors.sock" "$work/gate.sock"; }
shut_gate() { rm "$work/gate.sock"; }
open_gate
"$bin/spillway-node" -c "$work/host1.yaml" 2> "$work/host1.log" & node1=$!
model add "$work/product.yaml" --wait | matches "^product: 1 of 1 ready on host1/gpu" || fail "add"
"$bin/spillway-node" -c "$work/host2.yaml" 2> "$work/host2.log" & node2=$!
until_true 20 fleet 'hosts.get("host2", {}).get("up")'
home=$(fleet 'list(phases)[0]')

# ---- the new one, before it is ready: the old one serves on, and nothing is begun anew
what="the new one killed before it was ready"
shut_gate
begin_move "$home" host2/gpu0
start_askers
until_true 20 grep -q "trying again" "$work/host2/$new.log"
goes_on
kill -9 "$(pid_of "$new")"
is_not_moved "$what"
until_true 20 is_alone "$home" "$old"
stop_askers "$what"
[ "$(begun_anew)" = "$anew" ] || fail "$what: $(begun_anew) requests begun anew, before $anew"
moves_are 0 1 "$what"
open_gate

# ---- the new one, when it is ready and the old one drains: the old one finishes what it had, and serves again
what="the new one killed while the old one drained"
stop_and_fill "$(id_at "$home")"
begin_move "$home" host2/gpu0
until_true 20 fleet "phases == {'$home': 'draining', 'host2/gpu0': 'ready'}"
goes_on
stop_and_fill "$new"
kill -9 "$(pid_of "$new")"
is_not_moved "$what"
until_true 20 is_alone "$home" "$old"
has_in_hand "$old" $cells || fail "$what: the old one has $(in_hand "$old") in hand"
kill -CONT "$(pid_of "$old")"
stop_askers "$what"
# Of what the new one had, one may have been done as it was stopped; its answer is not lost.
again=$(($(begun_anew) - anew))
[ $again = $cells ] || [ $again = $((cells - 1)) ] || fail "$what: $again requests begun anew"
moves_are 0 2 "$what"

# ---- the old one, while it drains with requests in hand: those, and no others, are begun anew by the new one
what="the old one killed while it drained"
stop_and_fill "$(id_at "$home")"
begin_move "$home" host2/gpu0
until_true 20 fleet "phases == {'$home': 'draining', 'host2/gpu0': 'ready'}"
goes_on
has_in_hand "$old" $cells || fail "$what: it has $(in_hand "$old") in hand"
kill -9 "$(pid_of "$old")"
is_moved "$what"
until_true 20 is_alone host2/gpu0 "$new"
stop_askers "$what"
[ "$(begun_anew)" = $((anew + cells)) ] || fail "$what: $(($(begun_anew) - anew)) requests begun anew"
moves_are 1 2 "$what"

# ---- the old one, before the new one is ready: requests wait for the new one
what="the old one killed before the new one was ready"
shut_gate
stop_and_fill "$(id_at host2/gpu0)"
begin_move host2/gpu0 host1/gpu1
until_true 20 grep -q "trying again" "$work/host1/$new.log"
kill -9 "$(pid_of "$old")"
until_true 20 fleet "phases == {'host1/gpu1': 'starting'}"
open_gate
is_moved "$what"
until_true 20 is_alone host1/gpu1 "$new"
stop_askers "$what"
[ "$(begun_anew)" = $((anew + cells)) ] || fail "$what: $(($(begun_anew) - anew)) requests begun anew"
# It died by itself: that is no move, and what it cost is not of one.
moves_are 1 2 "$what"
[ "$(grep -c "model product: moved from " "$work/gateway.log")" = 1 ] || fail "$what: $(grep "model product: moved from " "$work/gateway.log")"

# ---- removed, and nothing is left
model remove product --wait | matches "^product: removed$" || fail "remove"
[ -z "$(executors)" ] || fail "executors are left: $(executors)"
for pid in $node1 $node2 $gateway; do kill "$pid"; wait "$pid" || fail "an exit code"; done
gateway= node1= node2=
[ -z "$(ls "$work"/host?/*.json 2>/dev/null)" ] || fail "records are left: $(ls "$work"/host?)"
