#!/usr/bin/env bash
# Programs of users' own that the controller places: added, asked, moved while asked, killed, and what they leave behind.
# Arguments: the build folder, and the Python that the module was built for.
set -euo pipefail
build=$1 bin=$1/bin python=$2
. "$(dirname "$0")/waiting.sh"
work=$(mktemp -d)
gateway= node1= node2= asker=
cleanup() {
  trap '' PIPE
  for pid in $asker $gateway $node1 $node2; do kill -9 "$pid" 2>/dev/null || true; done
  for pid in $(pgrep -f "$work/" || true) $(pgrep -f "^sleep 1000\.$$\$" || true); do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "placed_programs_test: $*" >&2
  show_logs
  exit 1
}
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import numpy' 2> /dev/null || { echo "skipped: this Python has no NumPy"; exit 77; }

cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
executors: $work/executors.sock
controller: {socket: $work/control.sock, state: $work/fleet.json, moves: false, start: 30s, silent_after: 2s}
limits: {deadline: 20s, stuck_after: 1s}
EOF
# Its second process shows what is left of a program; its environment, what it was told.
cat > "$work/double.py" <<'EOF'
import os
import subprocess
import sys
import spillway
folder = sys.argv[1]
os.chdir("/")
subprocess.Popen(["sleep", sys.argv[3]])
with open(f"{folder}/environment", "w") as file:
    for name in ("SPILLWAY_MODEL", "SPILLWAY_GPU", "CUDA_VISIBLE_DEVICES"):
        print(f"{name}={os.environ.get(name)}", file=file)
def model(x):
    if x[0, 0] == 13:
        return x[:, :1]  # another shape than it said
    return x * float(sys.argv[2])
spillway.serve(model, (1, 2))
EOF
cat > "$work/stubborn.py" <<'EOF'
import spillway
spillway.serve(lambda x: x, (1, 2), model="another")
EOF
for host in host1 host2; do
  cat > "$work/$host.yaml" <<EOF
name: $host
controller: $work/control.sock
gateway: executors.sock
state: $work/$host
gpus:
  - {name: gpu0, gflop_per_s: 1}
  - {name: gpu1, gflop_per_s: 1}
programs:
  - {name: double, run: ["$python", "$work/double.py", "$work", 2, "1000.$$"]}
  - {name: stubborn, run: ["$python", "$work/stubborn.py"]}
EOF
done
echo '{program: double, name: twice, share: 0.5}' > "$work/twice.yaml"
model() { "$bin/spillway" model "$@" --gateway "$work/control.sock"; }
fleet() {
  model list --json | python3 -c '
import json, sys
fleet = json.load(sys.stdin)
models = {m["name"]: m for m in fleet["models"]}
hosts = {h["name"]: h for h in fleet["hosts"]}
value = eval(sys.argv[1])
print(value)
sys.exit(0 if value else 1)' "$1"
}
ask() {
  curl -sf --max-time 30 "$(cat "$work/url")/v2/models/twice/infer" -d '{"inputs": [
    {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]}' | matches '"data":\[6.0,8.0\]'
}
programs() { pgrep -c -f "$work/double.py" || true; }
left_behind() { pgrep -c -f "^sleep 1000\.$$\$" || true; }
start_gateway() {
  : > "$work/gateway.log"
  "$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
  until_true 20 grep -q ready "$work/gateway.log"
  echo "http://127.0.0.1:$(sed -n 's/.* http on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")" > "$work/url"
}
start_node() { ( cd "$work"; exec "$bin/spillway-node" -c "$work/$1.yaml" 2>> "$work/$1.log" ) & }

# ---- bad input: one line, file and key, exit code 2
expect_bad() {  # WORDS COMMAND...
  local words=$1 code=0; shift
  "$@" > /dev/null 2> "$work/bad.err" || code=$?
  [ $code = 2 ] && [ "$(wc -l < "$work/bad.err")" = 1 ] && grep -qF -- "$words" "$work/bad.err" ||
    fail "$*: exit code $code, $(cat "$work/bad.err")"
}
sed "9s#run: \[\"$python\"#run: [\"/nowhere/python\"#" "$work/host1.yaml" > "$work/bad.yaml"
expect_bad "bad.yaml:9: programs[double].run: expected a program that can be executed, got /nowhere/python" \
  "$bin/spillway-node" --check -c "$work/bad.yaml"
"$bin/spillway-node" --check -c "$work/host1.yaml" > /dev/null || fail "--check refused a good file"

start_gateway
start_node host1; node1=$!
echo '{program: double, cells: 2}' > "$work/bad.yaml"
expect_bad "bad.yaml:1: cells: not allowed with \`program\`" model add "$work/bad.yaml"

# ---- it is served where a host lists it, under the model's name
model add "$work/twice.yaml" --wait | matches "^twice: 1 of 1 ready on host1/gpu" || fail "add --wait"
ask || fail "no answer after it was added"
[ "$(cat "$work/environment")" = "$(printf 'SPILLWAY_MODEL=twice\nSPILLWAY_GPU=none\nCUDA_VISIBLE_DEVICES=')" ] ||
  fail "what it was told: $(cat "$work/environment")"
fleet 'models["twice"]["program"] == "double" and hosts["host1"]["programs"] == ["double", "stubborn"]' > /dev/null || fail "the list"

# ---- what it does wrong, its client and the list say in a line; the log of one that failed is kept
code=$(curl -s -o "$work/body" -w "%{http_code}" "$(cat "$work/url")/v2/models/twice/infer" -d '{"inputs": [
  {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [13, 0]}]}')
[ "$code" = 500 ] && grep -qF "double.py:15: answer: expected shape (1, 2), got (1, 1)" "$work/body" || fail "a wrong shape: $code $(cat "$work/body")"
until_true 20 fleet '"its program double exited: exit code 1; its last line: " in models["twice"].get("trouble", "") and models["twice"]["ready"] == 1'
grep -q "expected shape (1, 2)" "$work/host1/failed-twice.log" || fail "no log of it: $(ls "$work/host1")"
ask || fail "no answer after one ended"

# ---- nowhere else: another host has no such program
sed -e "s#\"$work/double.py\", ##;s#name: double, run: \[\"$python\"#name: double, run: [\"$work/nothing\"#" "$work/host2.yaml" > "$work/host2.new"; mv "$work/host2.new" "$work/host2.yaml"
start_node host2; node2=$!
until_true 20 grep -q "host2.yaml:9: programs\[double\].run: expected a program that can be executed, got $work/nothing; not listed" "$work/host2.log"
until_true 20 fleet 'hosts.get("host2", {}).get("up")'
expect_bad "model twice: host host2 does not list the program double" model move twice --to host2/gpu0

# ---- moved while it is asked: no request is lost, and nothing of the old one stays
( failed=0; asked=0
  while [ ! -e "$work/enough" ]; do ask || failed=$((failed + 1)); asked=$((asked + 1)); done
  echo "$asked $failed" > "$work/asked" ) & asker=$!
for to in $(fleet '" ".join(["host1/gpu1", "host1/gpu0"] * 2)'); do
  [ "$(fleet 'models["twice"]["instances"][0]["gpu"]')" = "$to" ] ||
    model move twice --to "$to" --wait | matches "^twice: 1 of 1 ready on $to" || fail "move to $to"
done
: > "$work/enough"; wait $asker; asker=
read -r asked failed < "$work/asked"
[ "$failed" = 0 ] && [ "$asked" -gt 0 ] || fail "of $asked requests during moves $failed failed"
until_true 20 eval '[ "$(programs) $(left_behind)" = "1 1" ]'

# ---- the node agent is killed: the program goes on, and is its successor's
pid=$(pgrep -f "$work/double.py")
kill -9 $node1; wait $node1 2>/dev/null || true
until_true 20 fleet 'not hosts["host1"]["up"]'
ask || fail "no answer without the node agent"
start_node host1; node1=$!
until_true 20 fleet 'hosts["host1"]["up"] and models["twice"]["ready"] == 1'
[ "$(pgrep -f "$work/double.py")" = "$pid" ] || fail "another program was begun"

# ---- the program is killed: another takes its place, and what it had begun is gone
kill -9 "$pid"
until_true 20 ask
until_true 20 eval '[ "$(programs) $(left_behind)" = "1 1" ]'

# ---- it hangs with a request in hand: that request is answered by another, and it is killed though it hears nothing
old=$(pgrep -f "$work/double.py")
kill -STOP "$old"
ask || fail "no answer to a request that met a program that hangs"
until_true 40 eval '! kill -0 $old'
until_true 20 eval '[ "$(programs) $(left_behind)" = "1 1" ]'
ask || fail "no answer after a program hung"

# ---- the gateway is killed: programs end with it, and are begun anew
kill -9 $gateway; wait $gateway 2>/dev/null || true
start_gateway
until_true 20 ask
until_true 20 eval '[ "$(programs) $(left_behind)" = "1 1" ]'

# ---- a program that offers another name says why it cannot
echo '{program: stubborn}' > "$work/stubborn.yaml"
model add "$work/stubborn.yaml" > /dev/null || fail "add stubborn"
until_true 20 fleet '"its program stubborn exited: exit code 1" in models["stubborn"].get("trouble", "") and "expected stubborn" in models["stubborn"]["trouble"]'
model remove stubborn --wait > /dev/null || fail "remove stubborn"
# ---- one that no host has
echo '{program: nobodys}' > "$work/nobodys.yaml"
model add "$work/nobodys.yaml" > /dev/null || fail "add nobodys"
until_true 20 fleet 'models["nobodys"].get("trouble") == "no host that is up lists the program nobodys"'
model remove nobodys --wait > /dev/null || fail "remove nobodys"
ask || fail "no answer beside programs that cannot be served"

# ---- a host that goes takes all of it along, and a removed model leaves nothing
kill $node1; wait $node1 || fail "the node agent's exit code"
node1=
[ "$(programs) $(left_behind)" = "0 0" ] || fail "orphans: $(programs) $(left_behind)"
start_node host1; node1=$!
until_true 20 ask
model remove twice --wait | matches "^twice: removed$" || fail "remove"
until_true 20 eval '[ "$(programs) $(left_behind)" = "0 0" ]'
for pid in $node1 $node2 $gateway; do kill "$pid"; wait "$pid" || fail "an exit code"; done
node1= node2= gateway=
[ -z "$(ls "$work"/host?/*.json 2>/dev/null)" ] || fail "books of nothing: $(ls "$work"/host?)"
