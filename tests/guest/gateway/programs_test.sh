#!/usr/bin/env bash
# spillway-gateway, spillway-executor and a Python program, real processes, with RDMA between them, asked by curl.
# Arguments: the build folder, and a Python with NumPy, or none. In the guest; the last line says how it went.
set -euo pipefail
build=$1 python=${2:-}
address=${SPILLWAY_VERBS_ADDRESS:-192.0.2.1}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
gateway= executor= program=
trap 'for pid in $gateway $executor $program; do kill -9 "$pid" 2> /dev/null || true; done; rm -rf "$work"' EXIT
fail() {
  for log in "$work"/*.log; do echo "--- $log"; cat "$log"; done
  echo "gateway_programs: FAILED: $*"
  exit 1
}
until_true() {  # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "never came true: $*"
    read -rt 0.1 <> <(:) || true
  done
}

echo the-executors-token > "$work/token"
chmod 600 "$work/token"
cat > "$work/gateway.yaml" <<END
http: 127.0.0.1:8000
rdma: {listen: "$address:7410", token_file: token}
END
cat > "$work/executor.yaml" <<END
gateway: "rdma:$address:7410"
token_file: token
name: far
gpus: [{name: g, slices: [{name: s, gflop_per_s: 100}]}]
models: [{name: product, kind: product, m: 2, k: 3, n: 2}]
END
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" --check || fail "--check"
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
until_true 60 grep "executors over RDMA" "$work/gateway.log"
"$build/bin/spillway-executor" -c "$work/executor.yaml" 2> "$work/executor.log" & executor=$!
product() {
  curl -sf --max-time 60 http://127.0.0.1:8000/v2/models/product/infer -d '{"inputs": [
    {"name": "a", "datatype": "FP32", "shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]},
    {"name": "b", "datatype": "FP32", "shape": [3, 2], "data": [[1, 0], [0, 1], [1, 1]]}]}' \
    | grep -F '"data":[4.0,5.0,10.0,11.0]'
}
until_true 60 grep "joined with 1 slices" "$work/executor.log"
product || fail "the product"
# Neither end outlives the other's death in a wrong state.
kill -9 $executor; wait $executor 2> /dev/null || true
until_true 60 grep "executor far: gone" "$work/gateway.log"
"$build/bin/spillway-executor" -c "$work/executor.yaml" 2> "$work/executor2.log" & executor=$!
until_true 60 product
kill -9 $gateway; wait $gateway 2> /dev/null || true
until_true 60 grep "gateway disconnected; slices released" "$work/executor2.log"
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway2.log" & gateway=$!
until_true 60 product

if [ -n "$python" ] && [ -e "$build/python/spillway" ] && "$python" -c 'import numpy' 2> /dev/null; then
  SPILLWAY_GATEWAY=rdma:$address:7410 SPILLWAY_TOKEN_FILE=$work/token PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$here/../../../examples/python/serve_numpy.py" 2> "$work/program.log" & program=$!
  until_true 60 grep "executor serve_numpy-.*: joined" "$work/gateway2.log"
  curl -sf --max-time 60 http://127.0.0.1:8000/v2/models/serve_numpy/infer -d '{"inputs": [
    {"name": "input", "datatype": "FP32", "shape": [1, 16], "data": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}]}' \
    | grep -F '"shape":[1,4]' > /dev/null || fail "the Python program"
  kill -9 $program; wait $program 2> /dev/null || true
  program=
else
  echo "no Python with NumPy and the module: not asked"
fi
kill -TERM $executor; wait $executor || fail "the executor's end"
kill -TERM $gateway; wait $gateway || fail "the gateway's end"
executor= gateway=
echo "gateway_programs: passed"
