#!/usr/bin/env bash
# A GPU falls off the bus: the node agent sees it, what was served there is served on another GPU, and the GPU is used again
# when it answers. The driver is a library that says what the test wants; its GPUs run nothing.
# Arguments: the build folder, the Python that the module was built for, and that library.
set -euo pipefail
build=$1 bin=$1/bin python=$2 driver=$3
. "$(dirname "$0")/waiting.sh"
work=$(mktemp -d)
gateway= node=
cleanup() {
  for pid in $gateway $node $(pgrep -f "$work/" || true); do kill -9 "$pid" 2> /dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "lost_gpu_test: $*" >&2
  show_logs
  exit 1
}
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import numpy' 2> /dev/null || { echo "skipped: this Python has no NumPy"; exit 77; }
mkdir "$work/driver"
ln -s "$driver" "$work/driver/libnvidia-ml.so.1"

cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
executors: $work/executors.sock
controller: {socket: $work/control.sock, state: $work/fleet.json, moves: false, start: 30s}
EOF
cat > "$work/double.py" <<'EOF'
import os
import sys
import spillway
with open(sys.argv[1], "w") as file:
    file.write(os.environ["CUDA_VISIBLE_DEVICES"])
spillway.serve(lambda x: x * 2, (1, 2))
EOF
cat > "$work/node.yaml" <<EOF
name: host
controller: $work/control.sock
gateway: $work/executors.sock
state: $work/state
gpus:
  - {name: first, device: GPU-11111111-2222-3333-4444-555555555555, gflop_per_s: 1}
  - {name: other, device: GPU-66666666-7777-8888-9999-aaaaaaaaaaaa, gflop_per_s: 1}
programs:
  - {name: double, run: ["$python", "$work/double.py", "$work/device"]}
EOF
echo '{program: double, share: 0.2}' > "$work/double.yaml"
model() { "$bin/spillway" model "$@" --gateway "$work/control.sock"; }
ask() {
  curl -sf --max-time 30 "$url/v2/models/double/infer" -d '{"inputs": [
    {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]}' | matches '"data":\[6.0,8.0\]'
}
list() { model list | matches "$1"; }
start_node() {
  ( export LD_LIBRARY_PATH=$work/driver SPILLWAY_FAKE_LOST=$work/lost
    exec "$bin/spillway-node" "$@" -c "$work/node.yaml" 2>> "$work/node.log" ) &
  node=$!
}

"$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
until_true 20 grep -q ready "$work/gateway.log"
url=http://127.0.0.1:$(sed -n 's/.* http on .*port \([0-9]*\)$/\1/p' "$work/gateway.log")
start_node
until_true 20 list "^host host: first 0 % other 0 %$"
model add "$work/double.yaml" --wait > /dev/null || fail "add"
list "1 of 1 ready on host/first" || model move double --to host/first --wait > /dev/null || fail "not on the first GPU"
[ "$(cat "$work/device")" = GPU-11111111-2222-3333-4444-555555555555 ] || fail "its device: $(cat "$work/device")"
ask || fail "no answer at first"

# ---- it falls off the bus: served on the other GPU
: > "$work/lost"
until_true 30 list "^double: 1 of 1 ready on host/other"
until_true 30 ask
[ "$(cat "$work/device")" = GPU-66666666-7777-8888-9999-aaaaaaaaaaaa ] || fail "its device: $(cat "$work/device")"
list "first [0-9]* % (lost: NVML: presence check: GPU is lost)" || fail "the list does not say that it is lost"
grep -q "GPU first is lost: NVML: presence check: GPU is lost" "$work/node.log" || fail "the node agent says nothing"
code=0; model move double --to host/first > /dev/null 2> "$work/refused" || code=$?
[ $code != 0 ] && grep -q "GPU host/first does not exist or cannot be used now" "$work/refused" || fail "moved onto a lost GPU: $(cat "$work/refused")"

# ---- it answers again, and is used
rm "$work/lost"
until_true 30 list "first 0 % other"
model move double --to host/first --wait > /dev/null || fail "not moved back"
ask || fail "no answer from the GPU that is back"
model move double --to host/other --wait > /dev/null || fail "not moved away again"

# ---- a node agent that is begun while it is lost serves with the other; --check names the file and the GPU
code=0; kill "$node"; wait "$node" || code=$?; [ $code = 0 ] || fail "the node agent's exit code $code"
: > "$work/lost"
code=0; start_node --check; wait "$node" || code=$?
[ $code = 2 ] && grep -q "node.yaml:6: gpus\[first\].device: this machine has no GPU GPU-11111111-.* that answers" "$work/node.log" ||
  fail "--check: exit code $code"
start_node
until_true 30 ask
list "first 0 % (lost: this machine has no GPU GPU-11111111-" || fail "begun while it is lost"
model remove double --wait > /dev/null || fail "remove"
kill "$node" "$gateway"
wait "$node" || fail "the node agent's exit code"
wait "$gateway" || fail "the gateway's exit code"
node= gateway=
