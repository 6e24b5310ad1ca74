#!/usr/bin/env bash
# A gateway and its executor, real processes, asked by curl; then killed. Arguments: the folder of the programs.
set -euo pipefail
. "$(dirname "$0")/waiting.sh"
bin=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
gateway= executor= second=
cleanup() {
  for pid in $gateway $executor $second; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "gateway_test: $*" >&2
  for log in "$work"/*.log; do echo "--- $log" >&2; cat "$log" >&2; done
  exit 1
}

echo alices-secret-token > "$work/alice.token"
chmod 600 "$work/alice.token"
cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
health: 127.0.0.1:0
frames: ["unix:$work/frames.sock"]
executors: $work/executors.sock
limits: {request: 96KiB, memory: 1MiB, deadline: 10s, stuck_after: 1m}
drain: {finish: 1m}
tenants:
  - {name: alice, token_file: alice.token}
  - {name: everybody, queue: 2}
EOF
executor_yaml() {  # NAME SPEED of the slow model's slice
  cat <<EOF
gateway: $work/executors.sock
name: $1
gpus: [{name: g, slices: [{name: s, gflop_per_s: $2, cells: 1}]}]
models:
  - {name: product, kind: product, m: 2, k: 3, n: 2}
  - {name: wide, kind: echo, row_bytes: 1000, rows: 120}
  - {name: tall, kind: product, m: 1, k: 1, n: 1}
EOF
}
executor_yaml fast 1000 > "$work/fast.yaml"
# 24 flop at 2e-9 GFLOP/s would be 12 s: the smallest speed is 0.001, so the slow model is larger.
cat > "$work/slow.yaml" <<EOF
gateway: $work/executors.sock
name: slow
gpus: [{name: g, slices: [{name: s, gflop_per_s: 0.001, cells: 1}]}]
models:
  - {name: big, kind: product, m: 100, k: 100, n: 100}
cell: {input: 128KiB, output: 64KiB}
EOF
sed -e 's/name: slow/name: quick/' -e 's/0.001/1000/' "$work/slow.yaml" > "$work/quick.yaml"

"$bin/spillway-gateway" --check -c "$work/gateway.yaml" > /dev/null || fail "--check refused a good file"
echo "http: [" > "$work/bad.yaml"
code=0; "$bin/spillway-gateway" -c "$work/bad.yaml" 2> "$work/bad.err" || code=$?
[ $code = 2 ] && [ "$(wc -l < "$work/bad.err")" = 1 ] || fail "a bad file: exit code $code, $(cat "$work/bad.err")"
# Each problem on a line of its own, with the program's name and the file.
printf 'http: 127.0.0.1:0\nhtpp: x\nspin: 1h\n' > "$work/bad.yaml"
code=0; "$bin/spillway-gateway" -c "$work/bad.yaml" 2> "$work/bad.err" || code=$?
[ $code = 2 ] && [ "$(wc -l < "$work/bad.err")" = 3 ] && [ "$(grep -c "^spillway-gateway: $work/bad.yaml:[0-9]*: " "$work/bad.err")" = 3 ] ||
  fail "three problems: exit code $code, $(cat "$work/bad.err")"
for wrong in 'http: 127.0.0.1' 'http: 127.0.0.1:99999' 'frames: ["nix:/x"]' 'frames: ["unix:"]' "frames: [\"unix:$work/e.sock\"]"; do
  printf '%s\nexecutors: %s\n' "$wrong" "$work/e.sock" > "$work/bad.yaml"
  code=0; "$bin/spillway-gateway" --check -c "$work/bad.yaml" > /dev/null 2> "$work/bad.err" || code=$?
  [ $code = 2 ] && grep -q "^spillway-gateway: $work/bad.yaml:1: ${wrong%%:*}" "$work/bad.err" || fail "$wrong: exit code $code, $(cat "$work/bad.err")"
done
printf 'http: 127.0.0.1:0\nexecutors: %s/mistyped/e.sock\n' "$work" > "$work/bad.yaml"
code=0; "$bin/spillway-gateway" -c "$work/bad.yaml" 2> "$work/bad.err" || code=$?
[ $code = 2 ] && grep -q "bad.yaml:2: executors: .*directory $work/mistyped does not exist" "$work/bad.err" && [ ! -e "$work/mistyped" ] || fail "a folder that is not there: exit code $code, $(cat "$work/bad.err")"
printf 'http: 127.0.0.1:0\nexecutors: %s/e.sock\ncontroller:\n  socket: %s/c.sock\n  state: %s/mistyped/state\n' "$work" "$work" "$work" > "$work/bad.yaml"
code=0; "$bin/spillway-gateway" -c "$work/bad.yaml" 2> "$work/bad.err" || code=$?
[ $code = 2 ] && grep -q "bad.yaml:5: controller.state: .*directory $work/mistyped does not exist" "$work/bad.err" || fail "a state's folder that is not there: exit code $code, $(cat "$work/bad.err")"
mkfifo "$work/fifo"
printf 'http: 127.0.0.1:0\nexecutors: %s/e.sock\ncontroller:\n  socket: %s/c.sock\n  state: %s/fifo\n' "$work" "$work" "$work" > "$work/bad.yaml"
code=0; timeout 20 "$bin/spillway-gateway" -c "$work/bad.yaml" 2> "$work/bad.err" || code=$?
[ $code = 2 ] && grep -q "bad.yaml:5: controller.state: $work/fifo: expected a regular file" "$work/bad.err" || fail "a FIFO as the state: exit code $code, $(cat "$work/bad.err")"
for program in gateway executor agent; do
  [ ! -e "$bin/spillway-$program" ] || "$bin/spillway-$program" --help | tail -1 | matches '^Exit codes: 0 ok' || fail "spillway-$program --help"
done
sed 's/gpus/engine: cuda\ngpus/' "$work/fast.yaml" > "$work/cuda.yaml"
if ! ls /dev/nvidia0 > /dev/null 2>&1; then
  code=0; "$bin/spillway-executor" --check -c "$work/cuda.yaml" > /dev/null 2>&1 || code=$?
  [ $code = 1 ] || fail "--check without a GPU: exit code $code"
  code=0; "$bin/spillway-executor" -c "$work/cuda.yaml" 2> "$work/cuda.err" || code=$?
  [ $code = 1 ] && grep -q "engine cuda: " "$work/cuda.err" || fail "no GPU: exit code $code, $(cat "$work/cuda.err")"
  code=0; "$bin/spillway-executor" --list-devices 2> "$work/cuda.err" || code=$?
  [ $code = 1 ] && grep -q "no NVIDIA driver" "$work/cuda.err" || fail "no GPU: exit code $code, $(cat "$work/cuda.err")"
fi

# Who may ask is one group, who may offer slices another.
group=$(id -G | tr ' ' '\n' | grep -vx "$(id -g)" | head -1 || true)
[ "$(id -u)" != 0 ] || group=65534
if [ -n "$group" ]; then
  printf 'frames: ["unix:%s/f.sock"]\nexecutors: {socket: %s/e.sock, group: %s}\n' "$work" "$work" "$group" > "$work/groups.yaml"
  "$bin/spillway-gateway" -c "$work/groups.yaml" 2> "$work/groups.log" & gateway=$!
  until_true 20 grep -q ready "$work/groups.log"
  [ "$(stat -c '%g %a' "$work/e.sock")" = "$group 660" ] || fail "executors.group: $group, got $(stat -c '%g %a' "$work/e.sock")"
  [ "$(stat -c '%g %a' "$work/f.sock")" = "$(id -g) 660" ] || fail "frames: $(stat -c '%g %a' "$work/f.sock")"
  kill -TERM $gateway; wait $gateway || fail "gateway: exit code $? on SIGTERM"
fi

# Its load goes to a switch as an agent's does; the switch is a socket here.
echo 000102030405060708090a0b0c0d0e0f > "$work/server.key"
chmod 644 "$work/server.key"
python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True: print(s.recv(2048).hex(), flush=True)' > "$work/reports" & second=$!
until_true 20 test -s "$work/reports"
cat > "$work/agent.yaml" <<EOF
switches: ["127.0.0.1:$(head -1 "$work/reports")"]
server: {code: 7, key_file: server.key}
unit: 2
meter: {kind: cpu}
trigger: {threshold: 50%}
EOF
"$bin/spillway-gateway" -c "$work/gateway.yaml" --report "$work/agent.yaml" 2> "$work/gateway.log" & gateway=$!
until_true 20 grep -q ready "$work/gateway.log"
grep -q "server.key holds a secret and any user may read it" "$work/gateway.log" || fail "no warning of a key that anybody may read"
url=http://127.0.0.1:$(sed -n 's/.*http on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")
ask() { curl -sS --max-time 30 "$@"; }
status() { ask -o "$work/body" -D "$work/headers" -w '%{http_code}' "$@"; }
expect() {  # STATUS TEXT-IN-BODY CURL-ARGUMENTS...
  local want=$1 text=$2 got; shift 2
  got=$(status "$@")
  [ "$got" = "$want" ] || fail "expected $want, got $got for $*: $(cat "$work/body")"
  grep -qF -- "$text" "$work/body" || fail "expected $text in the answer to $*, got $(cat "$work/body")"
}

# Before any executor: alive, not ready.
expect 200 live "$url/v2/health/live"
expect 503 false "$url/v2/health/ready"
expect 200 binary_tensor_data "$url/v2"
expect 404 "no executor has a model" "$url/v2/models/product"
expect 503 "no executor connected yet" -d "@$here/requests/product.json" "$url/v2/models/product/infer"
# A client that is refused again and again does not fill the log.
for ((i = 0; i < 200; i++)); do echo "url=$url/v3/again"; done > "$work/again.curl"
curl -s -K "$work/again.curl" > /dev/null
lines=$(grep -c "/v3/again" "$work/gateway.log")
[ "$lines" -ge 1 ] && [ "$lines" -lt 150 ] || fail "$lines lines in the log about 200 wrong requests"

# Magic, some version, unit 2, server 7; level 255 and busy while no slice lives, 0 once one does.
until_true 20 grep -qE '^53505752..020007.{24}ff01' "$work/reports"
"$bin/spillway-executor" -c "$work/fast.yaml" 2> "$work/executor.log" & executor=$!
until_true 20 grep -qE '^53505752..020007.{24}0000' "$work/reports"
kill $second; wait $second 2> /dev/null || true; second=
until_true 20 grep -q "executor fast: joined" "$work/gateway.log"
expect 200 true "$url/v2/health/ready"
expect 200 '"ready":true' "$url/v2/models/product/ready"
expect 200 '"platform":"spillway_product"' "$url/v2/models/product/versions/1"

# Health and metrics have a listener of their own, which serves nothing else.
health=http://127.0.0.1:$(sed -n 's/.*health on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")
expect 200 true "$health/v2/health/ready"
expect 200 spillway_gateway_executors "$health/metrics"
expect 404 "not found" -d "@$here/requests/product.json" "$health/v2/models/product/infer"
expect 413 "expected no body" -d "$(printf '%5000s' x)" "$url/v2/health/ready"

# The recorded requests. [[1 2 3][4 5 6]] x [[1 0][0 1][1 1]] = [[4 5][10 11]].
infer=$url/v2/models/product/infer
expect 200 '"data":[4.0,5.0,10.0,11.0]' -d "@$here/requests/product.json" "$infer"
grep -q '"id":"r1"' "$work/body" || fail "the id did not come back"
json=$(($(stat -c %s "$here/requests/product.bin") - 48))
expect 200 '"binary_data_size":16' -H "Inference-Header-Content-Length: $json" \
  -H 'Content-Type: application/octet-stream' --data-binary "@$here/requests/product.bin" "$infer"
length=$(tr -d '\r' < "$work/headers" | sed -n 's/^Inference-Header-Content-Length: //Ip')
tail -c +$((length + 1)) "$work/body" | od -An -tf4 -v | tr -s ' ' | matches '4 5 10 11' || fail "binary outputs: $(od -tf4 "$work/body")"
expect 200 '"data":[4.0' -H 'Authorization: Bearer alices-secret-token' -d "@$here/requests/product.json" "$infer"

# What is wrong is told, and the gateway goes on.
expect 200 '"data":[4.0' -H 'Authorization: bearer  alices-secret-token' -d "@$here/requests/product.json" "$infer"
expect 401 token -H 'Authorization: Basic alices-secret-token' -d "@$here/requests/product.json" "$infer"
expect 401 token -H 'Authorization: Bearer ' -d "@$here/requests/product.json" "$infer"
gzip -c "$here/requests/product.json" > "$work/product.gz"
expect 415 "Content-Encoding: expected none, got" -H 'Content-Encoding: gzip' --data-binary "@$work/product.gz" "$infer"
expect 200 '"data":[4.0' -H 'Content-Encoding: identity' -d "@$here/requests/product.json" "$infer"
expect 401 token -H 'Authorization: Bearer wrong' -d "@$here/requests/product.json" "$infer"
expect 404 "no executor has a model" -d '{}' "$url/v2/models/other/infer"
expect 400 "invalid JSON at byte 12 of 12" -d '{"inputs": [' "$infer"
expect 400 "expected shape" -d '{"inputs": [{"name": "a", "shape": [3, 2], "datatype": "FP32", "data": []}, {"name": "b", "shape": [3, 2], "datatype": "FP32", "data": []}]}' "$infer"
expect 400 "Inference-Header-Content-Length" -H 'Inference-Header-Content-Length: 99999' -d '{}' "$infer"
expect 404 "not found" "$url/v3"
expect 405 "expected POST" "$infer"
# A body is limited as the document says, four times a request and 64 KiB, and so is what it decodes to.
head -c 458753 /dev/zero | tr '\0' ' ' > "$work/large"
expect 413 '{"error":"the body is larger than 458752 bytes"}' --data-binary "@$work/large" "$infer"
wide='{"inputs": [{"name": "input", "shape": [120, 1000], "datatype": "UINT8", "parameters": {"binary_data_size": 120000}}]}'
{ printf %s "$wide"; head -c 120000 /dev/zero; } > "$work/wide"
expect 413 '{"error":"the inputs are 120000 bytes, larger than limits.request, 98304 bytes"}' \
  -H "Inference-Header-Content-Length: ${#wide}" --data-binary "@$work/wide" "$url/v2/models/wide/infer"
one() { echo '{"name": "'"$1"'", "shape": [1, 1], "datatype": "FP32", "data": [3e38]}'; }
expect 500 "output c: value 0 is infinite" -d "{\"inputs\": [$(one a), $(one b)]}" "$url/v2/models/tall/infer"
for cut in 1 100 200; do
  head -c $cut "$here/requests/product.bin" > "$work/cut"
  expect 400 "" -H "Inference-Header-Content-Length: $json" --data-binary "@$work/cut" "$infer"
done
expect 200 '"data":[4.0' -d "@$here/requests/product.json" "$infer"

# A request of 2e6 flop on a slice of 1e6 flop/s takes 2 s. Its executor is killed meanwhile; another one answers.
python3 - "$work/big.json" <<'EOF'
import json, sys
ones = [1.0] * 10000
tensor = lambda name: {"name": name, "shape": [100, 100], "datatype": "FP32", "data": ones}
json.dump({"inputs": [tensor("a"), tensor("b")]}, open(sys.argv[1], "w"))
EOF
"$bin/spillway-executor" -c "$work/slow.yaml" 2> "$work/slow.log" & second=$!
until_true 20 grep -q "executor slow: joined" "$work/gateway.log"
metric() { ask "$url/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }
metric_is() { [ "$(metric "$1")" = "$2" ]; }
ask -d "@$work/big.json" -o "$work/answer" -w '%{http_code}' "$url/v2/models/big/infer" > "$work/code" & asked=$!
until_true 20 metric_is spillway_gateway_running_requests 1
kill -9 $second; wait $second 2>/dev/null || true
until_true 20 metric_is spillway_gateway_replacements_total 1
"$bin/spillway-executor" -c "$work/quick.yaml" 2> "$work/quick.log" & second=$!
wait $asked
[ "$(cat "$work/code")" = 200 ] || fail "after the executor's death: $(cat "$work/code") $(cat "$work/answer")"
grep -q '"data":\[100.0,100.0' "$work/answer" || fail "a wrong result after the executor's death"

# Nobody has the model any more: queued to its deadline, then refused with the reason; the queue is limited.
kill -9 $second; wait $second 2>/dev/null || true; second=
until_true 20 metric_is spillway_gateway_executors 1
sed 's/^{/{"parameters": {"timeout": 300000}, /' "$work/big.json" > "$work/hasty.json"
expect 503 "no living slice has the model" -d "@$work/hasty.json" "$url/v2/models/big/infer"
grep -qi '^Retry-After: ' "$work/headers" || fail "503 without Retry-After"
waiting=
for i in 1 2; do
  ask -d "@$work/big.json" -o /dev/null "$url/v2/models/big/infer" & waiting="$waiting $!"
done
until_true 20 metric_is 'spillway_gateway_queue_requests{tenant="everybody"}' 2
expect 503 "queue of 2 requests is full" -d "@$work/big.json" "$url/v2/models/big/infer"
# The gateway dies: clients see it, the executor lets go and comes back to the next one.
kill -9 $gateway; wait $gateway 2>/dev/null || true
for pid in $waiting; do code=0; wait "$pid" || code=$?; [ $code != 0 ] || fail "a client was told of success"; done
until_true 20 grep -q "slices released" "$work/executor.log"
sed -i "s|^http: 127.0.0.1:0|http: ${url#http://}|" "$work/gateway.yaml"
"$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway2.log" & gateway=$!
until_true 30 grep -q "executor fast: joined" "$work/gateway2.log"
expect 200 '"data":[4.0,5.0,10.0,11.0]' -d "@$here/requests/product.json" "$infer"

# Told to end, it is not ready any more, takes no new requests and answers the one that it has; its slice stands still
# until that was seen.
health=http://127.0.0.1:$(sed -n 's/.*health on .*port \([0-9]*\)$/\1/p' "$work/gateway2.log")
kill -STOP $executor
sed 's/^{/{"parameters": {"timeout": 60000000}, /' "$here/requests/product.json" > "$work/patient.json"
ask -d "@$work/patient.json" -o "$work/answer" -w '%{http_code}' "$infer" > "$work/code" & asked=$!
until_true 20 metric_is spillway_gateway_running_requests 1
expect 200 true "$health/v2/health/ready"
kill -TERM $gateway
is_not_ready() { [ "$(ask -o "$work/body" -w '%{http_code}' "$health/v2/health/ready")" = 503 ]; }
until_true 20 is_not_ready
expect 503 "" "$url/v2/health/ready"
expect 200 live "$url/v2/health/live"
is_refused() { ask -d "@$here/requests/product.json" "$infer" | matches -F "the gateway is shutting down"; }
until_true 20 is_refused
expect 503 "the gateway is shutting down" -d "@$here/requests/product.json" "$infer"
kill -CONT $executor
wait $asked || fail "the request in hand: exit code $?"
[ "$(cat "$work/code")" = 200 ] && grep -qF '"data":[4.0,5.0,10.0,11.0]' "$work/answer" || fail "the request in hand: $(cat "$work/code") $(cat "$work/answer")"
wait $gateway || fail "gateway: exit code $? on SIGTERM"
gateway=
[ ! -e "$work/frames.sock" ] || fail "a socket was left behind"
kill -TERM $executor; wait $executor || fail "executor: exit code $? on SIGTERM"
executor=

# The benchmark checks every answer itself; here, that its document has every mode at every load, and of lists every point.
if [ "$(nproc)" -ge 2 ]; then
  "$bin/spillway-bench" gateway --loopback --quick --ms 30 --variants --json > "$work/bench.json" 2> "$work/bench.log" || fail "bench gateway"
  python3 - "$work/bench.json" <<'EOF' || fail "bench gateway: its document"
import json, sys
document = json.load(open(sys.argv[1]))
rows = {(row["mode"], row["load_pct"]): row for row in document["rows"]}
assert document["bench"] == "gateway" and document["rounds"] == 2
modes = {mode for mode, _ in rows}
gateways = {"conspirator", "conspirator-asleep", "frames"}
assert modes == {"tcp-host", "direct", "host-memory"} | gateways, rows
assert set(rows) == {(mode, load) for mode, _ in rows for load in (0, 80)}, rows
assert all(row["requests"] > 0 and 0 < row["p50_us"] <= row["p99_us"] for row in rows.values()), rows
assert all((row["nic_cpu_us"] > 0) == (mode in gateways) for (mode, _), row in rows.items()), rows
assert {(row["bytes"], row["kernel_us"], row["concurrency"]) for row in rows.values()} == {(588 * 1024, 500, 1)}, rows
EOF
  "$bin/spillway-bench" gateway --loopback --quick --ms 30 --bytes 4096,65536 --kernel-us 50 --concurrency 1,5 --loads 0,40,90 \
    --awake none --out "$work" --json > "$work/sweep.json" 2> "$work/bench.log" || fail "bench gateway with lists"
  python3 - "$work/sweep.json" <<'EOF' || fail "bench gateway: its document of lists"
import itertools, json, sys
document = json.load(open(sys.argv[1]))
points = [(row["mode"], row["bytes"], row["kernel_us"], row["concurrency"], row["load_pct"]) for row in document["rows"]]
modes = "tcp-host", "direct", "host-memory", "conspirator"
assert sorted(points) == sorted(itertools.product(modes, (4096, 65536), (50,), (1, 5), (0, 40, 90))), points
for row in document["rows"]:
    assert row["requests"] >= row["concurrency"] and row["requests_per_s"] > 0, row
    assert row["awake"] == "none" and row["network"] == "loopback", row
assert "conspirator_over_host_memory_p99_90_65536_50_5" in document["ratios"], document["ratios"].keys()
EOF
  for file in gateway.json gateway.html gateway.svg; do [ -s "$work/$file" ] || fail "bench gateway --out: no $file"; done
  # One that is interrupted leaves no folder behind. The gateway of its first round is long there.
  mkdir "$work/tmp"
  TMPDIR="$work/tmp" "$bin/spillway-bench" gateway --loopback --ms 200 2> "$work/cut.log" > /dev/null & second=$!
  until_true 60 grep -q "tcp-host at 80" "$work/cut.log"
  kill -TERM $second; wait $second 2>/dev/null && fail "bench gateway did not end" || true
  second=
  [ -z "$(ls "$work/tmp")" ] || fail "bench gateway left $(ls "$work/tmp")"
fi
echo passed
