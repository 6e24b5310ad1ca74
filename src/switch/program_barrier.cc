// SPDX-License-Identifier: Apache-2.0
#include "program_barrier.h"

#include <bpf/bpf.h>

#include <cerrno>
#include <cstdint>

#include "base/system_error.h"

namespace spillway::switching {

Result<ProgramBarrier> ProgramBarrier::Make() {
  ProgramBarrier barrier;
  LIBBPF_OPTS(bpf_map_create_opts, options);
  barrier.value_.Reset(bpf_map_create(BPF_MAP_TYPE_ARRAY, "spw_barrier_in", 4, 4, 1, nullptr));
  if (!barrier.value_) return FailSystem("creating map spw_barrier_in", errno);
  options.inner_map_fd = static_cast<uint32_t>(barrier.value_.get());
  barrier.map_.Reset(bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "spw_barrier", 4, 4, 1, &options));
  if (!barrier.map_) return FailSystem("creating map spw_barrier", errno);
  return barrier;
}

// An update of a map of maps returns when no program runs any more that may have met the value before
// (maybe_wait_bpf_programs of kernel/bpf/syscall.c, since Linux 4.20). membarrier(2) waits likewise, but not
// on kernels with tickless CPUs.
Result<void> ProgramBarrier::Await() {
  const uint32_t zero = 0;
  const int value = value_.get();
  if (bpf_map_update_elem(map_.get(), &zero, &value, BPF_ANY) != 0)
    return FailSystem("writing map spw_barrier", errno);
  return {};
}

}  // namespace spillway::switching
