#!/usr/bin/env bash
# The Python examples, served through a gateway; a client's tensors in the window. Arguments: the build folder, and
# the Python that the module was built for.
set -euo pipefail
build=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../../examples/python
work=$(mktemp -d)
gateway= program=
trap 'for pid in $gateway $program; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
fail() { echo "python_test: $*" >&2; cat "$work"/*.log >&2; exit 1; }
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import numpy' 2> /dev/null || { echo "skipped: this Python has no NumPy"; exit 0; }

cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
frames: ["unix:$work/frames.sock"]
executors: $work/executors.sock
EOF
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
wait_for() { for _ in $(seq 500); do grep -q "$1" "$work/gateway.log" && return; read -rt 0.02 <> <(:) || true; done; fail "never said: $1"; }
wait_for ready
SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_numpy.py" 2> "$work/program.log" & program=$!
wait_for "executor serve_numpy-.*: joined"
"$python" - "unix:$work/frames.sock" <<'EOF' || fail "the client's checks"
import sys
import numpy
import spillway
client = spillway.Client(sys.argv[1])
random = numpy.random.default_rng(1)
weights = random.standard_normal((16, 4)).astype("float32")
x = client.tensor((1, 16), "float32")
assert x.flags.writeable and not x.flags.owndata, "a copy"
for seed in range(20):
    x[:] = numpy.random.default_rng(seed).standard_normal((1, 16))
    y = client.infer("serve_numpy", x)
    hidden = numpy.maximum(x @ weights, 0)
    assert numpy.allclose(y, hidden / (1 + hidden.sum())), (seed, y)
# Views of a tensor in the window are what they show, not what lies at their address.
wide = client.tensor((1, 32), "float32")
wide[:] = numpy.arange(32)
every_second = wide[:, ::2]
assert numpy.allclose(client.infer("serve_numpy", every_second), client.infer("serve_numpy", every_second.copy()))
client.free(wide)
# What is not in the window is copied there.
assert numpy.allclose(client.infer("serve_numpy", numpy.array(x)), y)
for wrong in (numpy.zeros((1, 15), "float32"), numpy.zeros((1, 16))):
    try:
        client.infer("serve_numpy", wrong)
    except ValueError:
        continue
    raise SystemExit("a wrong tensor was taken")
try:
    client.tensor((1 << 40,), "uint8")
except MemoryError:
    pass
else:
    raise SystemExit("more than the window holds")
client.free(x)
EOF
# The program's end is the model's: what is asked now waits, and is refused at its deadline.
kill $program; wait $program 2> /dev/null || true; program=
if "$python" -c 'import torch' 2> /dev/null; then
  SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_torch.py" 2> "$work/program.log" & program=$!
  wait_for "executor serve_torch-.*: joined"
  "$python" -c 'import sys, spillway, torch
c = spillway.Client(sys.argv[1]); x = c.tensor((1, 16), torch.float32); x[:] = 1
assert c.infer("serve_torch", x).shape == (1, 4)' "unix:$work/frames.sock" || fail "torch"
fi
# The gateway's end is the program's: it says so.
SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_numpy.py" 2> "$work/last.log" & last=$!
wait_for "joined.*"
for _ in $(seq 500); do [ "$(grep -c 'executor serve_numpy-.*joined' "$work/gateway.log")" = 2 ] && break; read -rt 0.02 <> <(:) || true; done
kill -9 $gateway; wait $gateway 2> /dev/null || true; gateway=
if wait $last; then fail "the program did not notice the gateway's end"; fi
grep -q "ConnectionError: the gateway has gone" "$work/last.log" || fail "$(cat "$work/last.log")"
echo passed
