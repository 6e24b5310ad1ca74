#!/usr/bin/env bash
# The commands that a page of docs/ prints under "Try it", on the examples that it names, in a folder and on ports of
# their own. Arguments: the folder of the programs, the page, the folder of its examples.
set -euo pipefail
page=$2 examples=$3
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$work"' EXIT
export PATH=$1:$PATH

read -r http frames < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
place() { sed -e "s#/run/spillway-gateway#$work/run#g" -e "s#/var/lib/#$work/lib/#g" -e "s#127.0.0.1:8000#127.0.0.1:$http#g" -e "s#127.0.0.1:8001#127.0.0.1:$frames#g" "$@"; }
mkdir -p "$work/examples/$examples"
for file in "$root/examples/$examples"/*.yaml; do place "$file" > "$work/examples/$examples/$(basename "$file")"; done
# Blocks marked sh are run in one shell; those marked text say what they print.
blocks() { sed -n '/^## Try it/,/^## [^T]/p' "$root/docs/$page.md" | sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" | grep -v '^```'; }
blocks sh | place > "$work/commands"
grep -q infer "$work/commands" || { echo "docs_test: no commands under Try it" >&2; exit 1; }
cd "$work"
bash -euo pipefail commands > output 2> log || { echo "docs_test: exit code $?" >&2; cat output log >&2; exit 1; }
diff <(blocks text) <(sed '$a\' output) >&2 || { cat log >&2; exit 1; }
echo passed
