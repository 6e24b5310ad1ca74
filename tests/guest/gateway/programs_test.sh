#!/usr/bin/env bash
# spillway-gateway, spillway-executor, a Python program and Python clients, real processes, with RDMA between them; asked by
# curl as well.
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
frames: ["127.0.0.1:8001", "unix:$work/frames.sock"]
rdma: {listen: "$address:7410", token_file: token, clients: "$address:7411"}
END
cat > "$work/executor.yaml" <<END
gateway: "rdma:$address:7410"
token_file: token
name: far
gpus: [{name: g, slices: [{name: s, gflop_per_s: 100}]}]
models: [{name: product, kind: product, m: 2, k: 3, n: 2}, {name: echo, kind: echo, row_bytes: 64}]
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
until_true 60 grep "joined with 1 slice" "$work/executor.log"
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

# A client's window over RDMA from C.
"$build/bin/c_client" 127.0.0.1:8001 65536 rdma 2> "$work/c.log" || fail "the C client"

if [ -n "$python" ] && [ -e "$build/python/spillway" ] && "$python" -c 'import numpy' 2> /dev/null; then
  SPILLWAY_GATEWAY=rdma:$address:7410 SPILLWAY_TOKEN_FILE=$work/token PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$here/../../../examples/python/serve_numpy.py" 2> "$work/program.log" & program=$!
  until_true 60 grep "executor serve_numpy-.*: joined" "$work/gateway2.log"
  curl -sf --max-time 60 http://127.0.0.1:8000/v2/models/serve_numpy/infer -d '{"inputs": [
    {"name": "input", "datatype": "FP32", "shape": [1, 16], "data": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}]}' \
    | grep -F '"shape":[1,4]' > /dev/null || fail "the Python program"
  # The same by a client's window over RDMA, by frames and by a window of this host.
  PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 "$python" - "$work" 2> "$work/client.log" <<'END' || fail "Python clients"
import sys
import numpy
import spillway
clients = [spillway.Client("127.0.0.1:8001", rdma=True), spillway.Client("127.0.0.1:8001", rdma=False),
           spillway.Client(f"unix:{sys.argv[1]}/frames.sock"), spillway.Client("127.0.0.1:8001")]
assert [client.way for client in clients] == ["rdma", "frames", "window", "rdma"], [client.way for client in clients]
for seed in range(5):
    given = numpy.random.default_rng(seed).standard_normal((1, 16)).astype("float32")
    answers = []
    for client in clients:
        x = client.tensor((1, 16), "float32")
        x[:] = given
        answers += [client.infer("serve_numpy", x, deadline_s=30), client.infer("serve_numpy", given, deadline_s=30)]
        client.free(x)
    assert all(numpy.array_equal(answer, answers[0]) for answer in answers), answers
END
  kill -9 $program; wait $program 2> /dev/null || true
  program=
else
  echo "no Python with NumPy and the module: not asked"
fi
kill -TERM $executor; wait $executor || fail "the executor's end"
kill -TERM $gateway; wait $gateway || fail "the gateway's end"
executor= gateway=
echo "gateway_programs: passed"
