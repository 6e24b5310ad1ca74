// SPDX-License-Identifier: Apache-2.0
// A program is taken off an interface that traffic comes in on. Where that goes wrong the kernel goes down,
// so it is tried in the guest only (tests/guest/run), whose kernel may.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "switch/program_barrier.h"

namespace spillway::switching {
namespace {

// Stays in each packet for `calls` calls of a helper, then reads the interface's number, as the switch does
// last of all.
base::Fd LoadSlowReader(int calls) {
  auto one = [](int code, int dst, int src, int offset, int imm) {
    bpf_insn instruction{};
    instruction.code = static_cast<__u8>(code);
    instruction.dst_reg = static_cast<__u8>(dst & 15);
    instruction.src_reg = static_cast<__u8>(src & 15);
    instruction.off = static_cast<__s16>(offset);
    instruction.imm = imm;
    return instruction;
  };
  const std::array<bpf_insn, 8> instructions{
      one(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0),
      one(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_7, 0, 0, calls),
      one(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns),
      one(BPF_ALU64 | BPF_SUB | BPF_K, BPF_REG_7, 0, 0, 1),
      one(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_7, 0, -3, 0),
      one(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_6, offsetof(xdp_md, ingress_ifindex), 0),
      one(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_DROP),
      one(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  options.expected_attach_type = BPF_XDP;
  return base::Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, "slow_reader", "Dual BSD/GPL", instructions.data(),
                                instructions.size(), &options));
}

class DetachLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SPILLWAY_GUEST") == nullptr) GTEST_SKIP() << "in the guest only: tests/guest/run";
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    ASSERT_EQ(std::system("ip link add in type veth peer name out && ip link set in up &&"
                          "ip link set out up && ethtool -K in gro on"),
              0);
  }
  void TearDown() override { (void)setns(outside_.get(), CLONE_NEWNET); }

  base::Fd outside_{open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)};
};

TEST_F(DetachLinkTest, NoPacketIsInAProgramWhoseInterfaceLetsGoOfIt) {
  const int from = static_cast<int>(if_nametoindex("out"));
  const int to = static_cast<int>(if_nametoindex("in"));
  const base::Fd program = LoadSlowReader(200);
  ASSERT_TRUE(program);

  std::atomic<bool> over = false;
  std::atomic<uint64_t> sent = 0;
  std::thread traffic([&] {
    const base::Fd raw(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP)));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = from;
    std::array<unsigned char, 64> frame{};
    frame.fill(0xff);
    frame[12] = 0x08;
    frame[13] = 0x00;
    while (!over)
      if (sendto(raw.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) > 0)
        ++sent;
  });
  int attached = 0;
  for (int i = 0; i < 100; ++i) {
    LIBBPF_OPTS(bpf_link_create_opts, options);
    options.flags = 1U << 2U;  // XDP_FLAGS_DRV_MODE
    const base::Fd link(bpf_link_create(program.get(), to, BPF_XDP, &options));
    if (!link) break;
    ++attached;
    for (const uint64_t before = sent; sent < before + 20;) std::this_thread::yield();
    DetachLink(link.get());
  }
  over = true;
  traffic.join();
  EXPECT_EQ(attached, 100);
}

}  // namespace
}  // namespace spillway::switching
