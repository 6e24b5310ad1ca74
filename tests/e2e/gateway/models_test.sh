#!/usr/bin/env bash
# Models on GPU hosts, real processes on loopback: added, asked, moved while asked, with each program killed and begun
# again. Arguments: the folder of the programs.
set -euo pipefail
. "$(dirname "$0")/waiting.sh"
bin=$1
work=$(mktemp -d)
gateway= node1= node2= second= asker=
cleanup() {
  trap '' PIPE
  for pid in $asker $gateway $node1 $node2 $second; do kill -9 "$pid" 2>/dev/null || true; done
  # Executors outlive a node agent that is killed.
  for pid in $(ps -e -o pid=,args= | grep -- "-c $work/[h]ost" | awk '{print $1}'); do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "models_test: $*" >&2
  show_logs
  exit 1
}

port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
(umask 077; echo controllers-secret > "$work/token")
cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
executors: $work/executors.sock
controller: {socket: $work/control.sock, state: $work/fleet.json, moves: false, start: 30s, silent_after: 2s,
  listen: "127.0.0.1:$port", token_file: token}
limits: {deadline: 20s, request: 256KiB, memory: 1MiB}
EOF
for host in host1 host2; do
  cat > "$work/$host.yaml" <<EOF
name: $host
controller: $work/control.sock
gateway: $work/executors.sock
state: $work/$host
gpus:
  - {name: gpu0, gflop_per_s: 0.1, memory: 40GiB, mig: true, model: A100-40}
  - {name: gpu1, gflop_per_s: 0.1, memory: 40GiB, mig: true, model: A100-40}
EOF
done
# The second comes by TCP, as from another machine.
sed -i "s#^controller: .*#controller: \"tcp:127.0.0.1:$port\"\ncontroller_token_file: token#" "$work/host2.yaml"
cat > "$work/product.yaml" <<EOF
model: {name: product, kind: product, m: 1, k: 2, n: 1}
share: 0.25
memory: 4GiB
EOF
sed 's/name: product/name: other/' "$work/product.yaml" > "$work/other.yaml"

start_gateway() {
  : > "$work/gateway.log"
  "$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
  until_true 20 grep -q ready "$work/gateway.log"
  url=http://127.0.0.1:$(sed -n 's/.* http on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")
  echo "$url" > "$work/url.new"; mv "$work/url.new" "$work/url"
}
start_node() {  # HOST
  "$bin/spillway-node" -c "$work/$1.yaml" 2>> "$work/$1.log" &
}
model() { "$bin/spillway" model "$@" --gateway "$work/control.sock"; }
# Of the fleet as JSON, the answer of a Python expression.
fleet() {
  model list --json | python3 -c '
import json, sys
fleet = json.load(sys.stdin)
models = {m["name"]: m for m in fleet["models"]}
hosts = {h["name"]: h for h in fleet["hosts"]}
places = lambda name: [i["gpu"] for i in models[name]["instances"]]
phases = lambda name: [i["phase"] for i in models[name]["instances"]]
value = eval(sys.argv[1])
print(value)
sys.exit(0 if value else 1)' "$1"
}
ask() {
  curl -sf --max-time 30 "$(cat "$work/url")/v2/models/$1/infer" -d '{"inputs": [
    {"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]},
    {"name": "b", "datatype": "FP32", "shape": [2, 1], "data": [5, 6]}]}' | matches '"data":\[39.0\]'
}
executors() { ps -e -o pid=,args= | grep -F "$work/$1/" | grep -c '[s]pillway-executor' || true; }

# ---- bad input: one line, file and key, exit code 2
expect_bad() {  # WORDS COMMAND...
  local words=$1 code=0; shift
  "$@" > /dev/null 2> "$work/bad.err" || code=$?
  [ $code = 2 ] && [ "$(wc -l < "$work/bad.err")" = 1 ] && grep -qF -- "$words" "$work/bad.err" ||
    fail "$*: exit code $code, $(cat "$work/bad.err")"
}
sed 's/gpu1/gpu0/' "$work/host1.yaml" > "$work/bad.yaml"
expect_bad "duplicate name" "$bin/spillway-node" --check -c "$work/bad.yaml"
sed '/^state/d' "$work/host1.yaml" > "$work/bad.yaml"
expect_bad "state" "$bin/spillway-node" --check -c "$work/bad.yaml"
sed 's/moves: false/moves: maybe/' "$work/gateway.yaml" > "$work/bad.yaml"
expect_bad "controller.moves" "$bin/spillway-gateway" --check -c "$work/bad.yaml"
"$bin/spillway-node" --check -c "$work/host1.yaml" > /dev/null || fail "--check refused a good file"
code=0; model list > /dev/null 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "no spillway-gateway answers" "$work/bad.err" || fail "nobody there: $code, $(cat "$work/bad.err")"

start_gateway
start_node host1; node1=$!
sed 's/share: 0.25/share: 2/' "$work/product.yaml" > "$work/bad.yaml"
expect_bad "bad.yaml:2: share: " model add "$work/bad.yaml"
expect_bad "model nobody does not exist" model remove nobody
expect_bad "model nobody does not exist" model move nobody

head -c 70000 /dev/zero | tr '\0' '#' > "$work/bad.yaml"
expect_bad "model file: expected at most 65536 bytes" model add "$work/bad.yaml"

# By TCP only who shows the token.
[ "$(curl -s -o "$work/body" -w "%{http_code}" "http://127.0.0.1:$port/v1/models")" = 401 ] && grep -q "controller's token" "$work/body" || fail "without a token: $(cat "$work/body")"
[ "$(curl -s -o "$work/body" -w "%{http_code}" -H "Authorization: Bearer wrong-secret" "http://127.0.0.1:$port/v1/models")" = 401 ] || fail "with another token"
curl -sf -H "Authorization: Bearer controllers-secret" "http://127.0.0.1:$port/v1/models" | matches gpu_hours || fail "with the token"
# Unauthenticated connections keep nobody out: the oldest are closed for new ones.
python3 - "$port" <<'EOF' || fail "unauthenticated connections"
import http.client, socket, sys
address = ("127.0.0.1", int(sys.argv[1]))
def ask(connection, headers):
    connection.request("GET", "/v1/models", headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status
first = http.client.HTTPConnection(*address, timeout=60)
first.auto_open = False
first.connect()
assert ask(first, {}) == 401
others = [socket.create_connection(address) for _ in range(300)]  # more than there can be
cut = False
for _ in range(5000):
    try:
        ask(first, {})
    except (OSError, http.client.HTTPException):
        cut = True
        break
assert cut, "the first of 301 connections is still there"
assert ask(http.client.HTTPConnection(*address, timeout=60), {"Authorization": "Bearer controllers-secret"}) == 200
EOF

# What is no report of a host makes no host.
curl -s --unix-socket "$work/control.sock" http://x/v1/hosts/a%20b -d '{}' | matches "expected a host's name" || fail "a host's name"
curl -s --unix-socket "$work/control.sock" http://x/v1/hosts/rubbish -d '{"agent": 1}' | matches bad_input || fail "a rubbish report"
fleet '"rubbish" not in hosts' > /dev/null || fail "a host by rubbish"

# Of two gateways with one state the second refuses.
sed -e "s#$work/control.sock#$work/control2.sock#" -e "s#$work/executors.sock#$work/executors2.sock#" -e "s#127.0.0.1:$port#127.0.0.1:0#" "$work/gateway.yaml" > "$work/second.yaml"
code=0; "$bin/spillway-gateway" -c "$work/second.yaml" 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "fleet.json: in use by another spillway-gateway" "$work/bad.err" || fail "two gateways: $code, $(cat "$work/bad.err")"
ln -s fleet.json "$work/link.json"
sed -i "s#$work/fleet.json#$work/link.json#" "$work/second.yaml"
code=0; "$bin/spillway-gateway" -c "$work/second.yaml" 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "link.json: in use by another spillway-gateway" "$work/bad.err" || fail "by a link: $code, $(cat "$work/bad.err")"
# So does a second node agent of one folder, and of one name.
code=0; "$bin/spillway-node" -c "$work/host1.yaml" 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "state directory in use by another node agent" "$work/bad.err" || fail "two agents: $code, $(cat "$work/bad.err")"
until_true 20 fleet 'hosts["host1"]["up"]'
sed "s#^state: .*#state: $work/host9#" "$work/host1.yaml" > "$work/twin.yaml"
"$bin/spillway-node" -c "$work/twin.yaml" 2> "$work/twin.log" & second=$!
until_true 20 grep -q "another node agent already registered this host" "$work/twin.log"
kill "$second"; wait "$second" || fail "the twin's exit code"
second=

# ---- a model is added, and asked
model add "$work/product.yaml" --wait | matches "^product: 1 of 1 ready on host1/gpu" || fail "add --wait"
ask product || fail "no answer after it was added"
model add "$work/product.yaml" > /dev/null || fail "the same again"
sed 's/share: 0.25/share: 0.5/' "$work/product.yaml" > "$work/changed.yaml"
code=0; model add "$work/changed.yaml" > /dev/null 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "exists already with other settings" "$work/bad.err" || fail "another of that name: $code"

# ---- moved while it is asked: no request is lost
start_node host2; node2=$!
until_true 20 fleet 'hosts.get("host2", {}).get("up")'
( failed=0; asked=0
  while [ ! -e "$work/enough" ]; do ask product || failed=$((failed + 1)); asked=$((asked + 1)); done
  echo "$asked $failed" > "$work/asked" ) & asker=$!
for to in host2/gpu0 host2/gpu1 host1/gpu1; do
  model move product --to $to --wait | matches "^product: 1 of 1 ready on $to\( (.*)\)\?$" || fail "move to $to"
done
: > "$work/enough"; wait $asker; asker=
read -r asked failed < "$work/asked"
[ "$failed" = 0 ] && [ "$asked" -gt 0 ] || fail "of $asked requests during moves $failed failed"
fleet 'fleet["moves"]["done"] == 3 and models["product"]["downtime_ms"] == 0' > /dev/null || fail "moves: $(fleet 'fleet["moves"]')"
[ "$(executors host1) $(executors host2)" = "1 0" ] || fail "executors after the moves: $(executors host1) $(executors host2)"

# What an instance has in hand it finishes before it ends: no request, of 80 ms each, is begun anew elsewhere.
cat > "$work/slow.yaml" <<EOF
model: {name: slow, kind: mlp, layers: [2, 1000, 1000, 1], rows: 1}
share: 0.25
EOF
model add "$work/slow.yaml" --wait > /dev/null || fail "a slow model"
ask_slow() { curl -sf --max-time 30 "$(cat "$work/url")/v2/models/slow/infer" -d '{"inputs": [
  {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}' > /dev/null; }
rm "$work/enough"
slow_asker() { local failed=0; while [ ! -e "$work/enough" ]; do ask_slow || failed=$((failed + 1)); done; echo "$failed" > "$work/failed$1"; }
for n in 1 2 3 4; do slow_asker $n & asker="$asker $!"; done  # so that each instance has something in hand
for to in host2/gpu0 host2/gpu1 host2/gpu0 host2/gpu1; do
  model move slow --to $to --wait > /dev/null || fail "move of slow to $to"
done
: > "$work/enough"; wait $asker; asker=
[ "$(cat "$work"/failed? | sort -u)" = 0 ] || fail "requests of slow failed: $(cat "$work"/failed?)"
curl -sf "$(cat "$work/url")/metrics" | matches "^spillway_gateway_replacements_total 0$" ||
  fail "requests were begun anew: $(curl -sf "$(cat "$work/url")/metrics" | grep replacements)"
until_true 20 fleet 'all(i["service_ms"] > 10 and i["gpu_model"] == "A100-40" for i in models["slow"]["instances"])' > /dev/null ||
  fail "what requests of slow take: $(fleet 'models["slow"]')"
model remove slow --wait > /dev/null || fail "remove slow"
# On which GPU model they take longer is learnt once there were a hundred.
for _ in $(seq 120); do printf 'url = "%s/v2/models/product/infer"\noutput = "%s/answer"\n' "$(cat "$work/url")" "$work"; done |
  curl -sf -K - -d '{"inputs": [{"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]},
    {"name": "b", "datatype": "FP32", "shape": [2, 1], "data": [5, 6]}]}' || fail "a hundred requests"
until_true 20 fleet 'models["product"].get("slowness") == {"A100-40": 1}' || fail "slowness: $(fleet 'models["product"]')"
expect_bad "GPU host7/gpu0 does not exist or cannot be used now; others are host" model move product --to host7/gpu0
expect_bad "to: expected HOST/GPU, such as host1/gpu0, got gpu0" model move product --to gpu0
# A mistyped parameter is not a move to wherever there is room.
code=$(curl -s -o "$work/body" -w "%{http_code}" -X POST --unix-socket "$work/control.sock" "http://gateway/v1/models/product/move?too=host1/gpu0")
[ "$code" = 400 ] && grep -q "unknown parameter too, expected to" "$work/body" || fail "a mistyped parameter: $code $(cat "$work/body")"

# ---- the node agent is killed: requests go on, and the executor is its successor's
pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$work"/host1/*.json)
kill -9 $node1; wait $node1 2>/dev/null || true
until_true 20 fleet 'not hosts["host1"]["up"]'
ask product || fail "no answer without the node agent"
start_node host1; node1=$!
until_true 20 fleet 'hosts["host1"]["up"]'
[ "$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$work"/host1/*.json)" = "$pid" ] || fail "another executor was begun"
fleet 'phases("product") == ["ready"]' > /dev/null || fail "it is not ready any more"
ask product || fail "no answer with the next node agent"

# ---- the executor is killed: another takes its place
kill -9 "$pid"
until_true 20 ask product
until_true 20 fleet 'models["product"]["ready"] == 1 and len(models["product"]["instances"]) == 1'
metered() { curl -s "$url/metrics" | grep -q 'spillway_gateway_model_ready_replicas{model="product",tenant="[a-z]*"} 1'; }
until_true 20 metered
[ "$(executors host1) $(executors host2)" != "0 0" ] || fail "no executor"

# ---- the gateway is killed: it goes on where it was, and nothing is begun twice
before=$(fleet 'places("product")')
kill -9 $gateway; wait $gateway 2>/dev/null || true
start_gateway
until_true 20 ask product
until_true 20 fleet 'phases("product") == ["ready"]'
[ "$(fleet 'places("product")')" = "$before" ] || fail "it moved: $before, $(fleet 'places("product")')"
[ $(($(executors host1) + $(executors host2))) = 1 ] || fail "executors: $(executors host1) $(executors host2)"

# ---- both are killed
kill -9 $gateway $node1 $node2; wait $gateway $node1 $node2 2>/dev/null || true
start_gateway; start_node host1; node1=$!; start_node host2; node2=$!
until_true 20 ask product
until_true 20 fleet 'phases("product") == ["ready"] and hosts["host1"]["up"] and hosts["host2"]["up"]'
[ $(($(executors host1) + $(executors host2))) = 1 ] || fail "executors: $(executors host1) $(executors host2)"

# ---- gateway and node agent are killed in the middle of a move: the model is served on, in the end by one executor
# (executors: killed_in_a_move_test.sh)
settled() { fleet 'phases("product") == ["ready"] and not models["product"]["moving"]'; }
one_executor() { [ $(($(executors host1) + $(executors host2))) = 1 ]; }
other_gpu() { case $(fleet 'places("product")[0]') in *gpu0) echo "$1/gpu1" ;; *) echo "$1/gpu0" ;; esac; }
model move product --to "$(other_gpu host2)" > /dev/null || fail "a move before the gateway's death"
kill -9 $gateway; wait $gateway 2>/dev/null || true
start_gateway
until_true 20 ask product
until_true 20 settled; until_true 20 one_executor
model move product --to "$(other_gpu host2)" > /dev/null || fail "a move before the node agent's death"
kill -9 $node2; wait $node2 2>/dev/null || true
ask product || fail "no answer as a node agent died in the middle of a move"
start_node host2; node2=$!
until_true 20 settled; until_true 20 one_executor
ask product || fail "no answer after the move that a node agent's death met"

# ---- a power cut: of a host nothing runs, and its record is empty
host=$(fleet 'places("product")[0].split("/")[0]')
case $host in host1) pid=$node1 ;; *) pid=$node2 ;; esac
kill -9 "$pid"; wait "$pid" 2>/dev/null || true
for pid in $(ps -e -o pid=,args= | grep -F -- "-c $work/$host/" | grep '[s]pillway-executor' | awk '{print $1}'); do kill -9 "$pid"; done
for record in "$work/$host"/*.json; do : > "$record"; done
start_node "$host"; case $host in host1) node1=$! ;; *) node2=$! ;; esac
until_true 20 ask product
until_true 20 settled; until_true 20 one_executor
ls "$work/$host"/*.json.bad > /dev/null || fail "the record was not set aside"

# ---- a record is damaged whose executor still runs: that one is ended, another takes its place
host=$(fleet 'places("product")[0].split("/")[0]')
case $host in host1) pid=$node1 ;; *) pid=$node2 ;; esac
kill -9 "$pid"; wait "$pid" 2>/dev/null || true
old=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$work/$host"/*.json)
for record in "$work/$host"/*.json; do : > "$record"; done
start_node "$host"; case $host in host1) node1=$! ;; *) node2=$! ;; esac
until_true 20 eval '! kill -0 $old'
until_true 20 ask product
until_true 20 settled; until_true 20 one_executor

# ---- a model that never becomes ready says why, and keeps no other from its place
cat > "$work/large.yaml" <<EOF
model: {name: large, kind: product, m: 1, k: 200000, n: 1}
cell: {input: 2MiB}
EOF
code=0; model add "$work/large.yaml" --wait --limit 1 > /dev/null 2> "$work/bad.err" || code=$?
[ $code = 1 ] && grep -q "model large: not done within 1 s" "$work/bad.err" || fail "large --wait: $code, $(cat "$work/bad.err")"
until_true 30 fleet '"model large: one row" in models["large"].get("trouble", "")'
ask product || fail "no answer beside a model that cannot be served"
model remove large --wait > /dev/null || fail "remove large"
until_true 20 one_executor

# ---- a host that is told to go takes nothing with it: its models run on the other
model add "$work/other.yaml" --wait > /dev/null || fail "a second model"
kill $node1; wait $node1 || fail "the node agent's exit code"
node1=
[ "$(executors host1)" = 0 ] || fail "orphans on host1"
until_true 20 fleet 'all(p.startswith("host2/") for p in places("product") + places("other")) and models["product"]["ready"] == models["other"]["ready"] == 1'
ask product && ask other || fail "no answer after host1 went"

# ---- a state file that is none
printf '{"spillway_fleet": 0}' > "$work/old.json"
sed -e "s#fleet.json#old.json#" -e "s#$work/control.sock#$work/control2.sock#" -e "s#$work/executors.sock#$work/executors2.sock#" "$work/gateway.yaml" > "$work/second.yaml"
expect_bad "old.json: " "$bin/spillway-gateway" -c "$work/second.yaml"

# ---- removed, and nothing is left
model remove product --wait | matches "^product: removed$" || fail "remove"
model remove other --wait > /dev/null || fail "remove"
until_true 20 fleet 'fleet["models"] == [] and fleet["gpus_on"] == 0'
[ "$(executors host2)" = 0 ] || fail "orphans on host2"
kill $node2; wait $node2 || fail "the node agent's exit code"
node2=
kill $gateway; wait $gateway || fail "the gateway's exit code"
gateway=
[ -z "$(ls "$work"/host?/*.json 2>/dev/null)" ] || fail "books of nothing: $(ls "$work"/host?)"
