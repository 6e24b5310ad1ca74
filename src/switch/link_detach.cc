// SPDX-License-Identifier: Apache-2.0
#include "link_detach.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include <array>

#include "base/fd.h"
#include "program_barrier.h"

namespace spillway::switching {
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
