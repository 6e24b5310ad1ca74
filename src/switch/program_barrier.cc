// SPDX-License-Identifier: Apache-2.0
#include "switch/program_barrier.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/fd.h"
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

namespace {

// Hands every packet to the kernel's stack.
base::Fd LoadPassAll() {
  bpf_insn set_verdict{};
  set_verdict.code = BPF_ALU64 | BPF_MOV | BPF_K;
  set_verdict.dst_reg = BPF_REG_0;
  set_verdict.imm = XDP_PASS;
  bpf_insn leave{};
  leave.code = BPF_JMP | BPF_EXIT;
  const std::array<bpf_insn, 2> instructions{set_verdict, leave};
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  options.expected_attach_type = BPF_XDP;    // as the one that it replaces, or the kernel refuses
  options.prog_flags = BPF_F_XDP_HAS_FRAGS;  // so that jumbo frames are no reason to refuse it
  return base::Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, "spw_pass_all", "Dual BSD/GPL", instructions.data(),
                                instructions.size(), &options));
}

}  // namespace

void DetachLink(int link_fd) {
  const base::Fd pass_all = LoadPassAll();
  if (pass_all && bpf_link_update(link_fd, pass_all.get(), nullptr) == 0) {
    if (auto barrier = ProgramBarrier::Make()) (void)barrier->Await();
  }
  bpf_link_detach(link_fd);
}

void DetachPinnedLink(const char* pin) {
  const base::Fd link(bpf_obj_get(pin));
  if (link) DetachLink(link.get());
}

}  // namespace spillway::switching
