#!/usr/bin/env bash
# Python programs on one GPU, one of them on a MIG instance of it, under `isolation: gpu`: two tenants never run side by
# side there, and do on two GPUs. Arguments: the build folder, the Python that the module was built for, and a library
# with NVML's names.
set -euo pipefail
build=$1 python=$2 nvml=$3
work=$(mktemp -d)
programs=() gateway=
trap 'for pid in $gateway ${programs[@]+"${programs[@]}"}; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
fail() { echo "python_gpu_test: $*" >&2; cat "$work"/*.log >&2; exit 1; }
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import numpy' 2> /dev/null || { echo "skipped: this Python has no NumPy"; exit 77; }
mkdir "$work/lib"
ln -s "$nvml" "$work/lib/libnvidia-ml.so.1"

echo bobs-secret > "$work/bob"; chmod 600 "$work/bob"
cat > "$work/gateway.yaml" <<YAML
http: 127.0.0.1:0
frames: ["unix:$work/frames.sock"]
executors: $work/executors.sock
isolation: gpu
tenants: [{name: alice}, {name: bob, token_file: $work/bob}]
YAML
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
wait_for() { for _ in $(seq 500); do grep -q "$1" "$work/gateway.log" && return; read -rt 0.02 <> <(:) || true; done; fail "never said: $1"; }
wait_for ready
http=$(sed -n "s/.*http on [^,]*, port \([0-9]*\).*/127.0.0.1:\1/p" "$work/gateway.log" | head -1)
[ -n "$http" ] || fail "no address of HTTP in the log"
metric() { curl -sf "http://$http/metrics" | sed -n "s/^spillway_gateway_$1 //p"; }
until_metric() { for _ in $(seq 500); do [ "$(metric "$1")" = "$2" ] && return; read -rt 0.02 <> <(:) || true; done; fail "$1: $(metric "$1"), expected $2"; }

# A program that answers when it may.
cat > "$work/waits.py" <<'PY'
import os, sys, spillway
while True:
    x = spillway.tensor((1, 4), "float32", model="m")
    os.read(int(sys.argv[1]), 1)
    spillway.answer(x + 1)
PY
exec {go}<> <(:)
serve() {
  LD_LIBRARY_PATH=$work/lib SPILLWAY_GPU=$1 SPILLWAY_GATEWAY=$work/executors.sock \
    "$python" "$work/waits.py" "$go" 2> "$work/program-${#programs[@]}.log" & programs+=($!)
  for _ in $(seq 500); do [ "$(grep -c joined "$work/gateway.log")" = ${#programs[@]} ] && return; read -rt 0.02 <> <(:) || true; done
  fail "program ${#programs[@]} did not join"
}
ask() {
  "$python" - "unix:$work/frames.sock" "$@" <<'PY' & asked=$!
import sys, numpy, spillway
client = spillway.Client(sys.argv[1], *sys.argv[2:])
assert (client.infer("m", numpy.ones((1, 4), "float32")) == 2).all()
PY
}

# The whole GPU (not that one can be used while it is cut; NVML says so of it) and an instance of it.
serve GPU-66666666-7777-8888-9999-aaaaaaaaaaaa
serve MIG-00000000-0000-0000-0000-000000000002
id='gpu_id="GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"'
until_metric "gpu_slices{$id}" 2
ask alice; alices=$asked
until_metric running_requests 1
ask bob bobs-secret; bobs=$asked
until_metric 'queue_requests{tenant="bob"}' 1
[ "$(metric running_requests)" = 1 ] || fail "two tenants side by side on one GPU"
# Another GPU: bob need not wait any more.
serve GPU-11111111-2222-3333-4444-555555555555
until_metric running_requests 2
printf xx >&"$go"
wait "$alices" || fail "alice's request"
wait "$bobs" || fail "bob's request"
[ "$(metric "gpu_slice_seconds_total{$id,tenant=\"bob\"}")" = 0 ] || fail "bob is charged for alice's GPU"
[ "$(metric "gpu_slice_seconds_total{$id,tenant=\"alice\"}")" != 0 ] || fail "alice is not charged"
echo passed
