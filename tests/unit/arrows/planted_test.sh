#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planted_test.sh ROOT PYTHON: the check of arrows sees one that is not allowed, and one that nobody uses; that of the
# precompiled headers sees missing ones, and so does that of the project's own.
set -euo pipefail
root=$1 python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root"/{core,bpf,src,lab,bench,ARCHITECTURE.md} "$work"
check() { "$python" "$root/tests/unit/arrows/check_arrows" "$work"; }
fail() { echo "$*" >&2; exit 1; }

echo '#include "switch/switch.h"' >> "$work/src/base/fd.cc"
! out=$(check) || fail "a planted include was not seen"
grep -q 'src/base/fd.cc: includes switch/switch.h: no arrow base -> switch' <<< "$out" || fail "said: $out"

cp "$root/src/base/fd.cc" "$work/src/base/fd.cc"
sed -i 's/^base: /base: lab /' "$work/ARCHITECTURE.md"
! out=$(check) || fail "an arrow that nobody uses was not seen"
grep -q 'arrow base -> lab: nothing includes it' <<< "$out" || fail "said: $out"

sed -i '/#include <cstdint>/d' "$work/src/base/random.h"
! out=$("$python" "$root/tests/unit/arrows/check_precompiled_includes" "$work") || fail "a missing standard header was not seen"
grep -qx 'src/base/random.h: uses uint64_t: expected #include <cstdint>' <<< "$out" || fail "said: $out"

sed -i 's/json.hpp>/json_fwd.hpp>/' "$work/src/api/json.h"
! out=$("$python" "$root/tests/unit/arrows/check_precompiled_includes" "$work") || fail "a missing library was not seen"
grep -qx 'src/api/json.h: uses nlohmann::json array =: expected #include <nlohmann/json.hpp>' <<< "$out" || fail "said: $out"

sed -i '/#include "command\/context.h"/d' "$work/src/cli/verbs.h"
! out=$("$python" "$root/tests/unit/arrows/check_own_includes" "$work") || fail "a missing header of the project was not seen"
grep -qx 'src/cli/verbs.h: uses Context: expected #include of src/command/context.h' <<< "$out" || fail "said: $out"
