// SPDX-License-Identifier: Apache-2.0
// What a slice's key opens: its own memory, for writing, over its own connection, and nothing else. A
// stand-in for a faulty gateway tries the rest, with raw work requests.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <future>

#include "base/socket_address.h"
#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/inlet.h"
#include "remote_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

// Takes slices' connections, and posts whatever it likes on them.
class MadGateway {
 public:
  MadGateway() : channel_(rdma::OpenEventChannel().value()), listener_(rdma::MakeId(channel_.get()).value()) {
    sockaddr_storage where = rdma::ParseAddress(DeviceAddress(), 0).value();
    EXPECT_EQ(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr*>(&where)), 0);
    EXPECT_EQ(rdma_listen(listener_.get(), 8), 0);
  }

  struct Line {
    SliceHello hello;
    rdma::Owned<rdma_cm_id> id;
    PinnedMemory memory;
    std::unique_ptr<RdmaInlet> inlet;
    std::unique_ptr<int> broken = std::make_unique<int>(0);  // how often it was told
  };
  Line Connect(const SliceOffer& offer) {
    RdmaInlet::Place place{
        rdma::ParseAddress(DeviceAddress(), ntohs(rdma_get_src_port(listener_.get()))).value(), 1, 0};
    Line line;
    auto inlet = std::async(std::launch::async, [&] {
      return RdmaInlet::Connect(offer, 7, place, std::chrono::steady_clock::now() + 30s,
                                [broken = line.broken.get()] { ++*broken; });
    });
    for (bool established = false; !established;) {
      const auto event = rdma::AwaitEvent(channel_.get(), std::chrono::steady_clock::now() + 30s);
      if (!event) {
        ADD_FAILURE() << event.error().message;
        return line;
      }
      established = event->type == RDMA_CM_EVENT_ESTABLISHED;
      if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) Accept(*event, line);
    }
    line.inlet = inlet.get().value();
    return line;
  }

  // How one work request over `line` ends.
  static ibv_wc_status Do(const Line& line, ibv_wr_opcode what, uint64_t address, uint32_t key,
                          uint32_t bytes) {
    ibv_sge local{line.memory.Address(), bytes, line.memory.local_key()};
    ibv_send_wr work{};
    work.opcode = what;
    work.send_flags = IBV_SEND_SIGNALED;
    work.sg_list = &local;
    work.num_sge = 1;
    work.wr.rdma = {address, key};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(line.id->qp, &work, &bad), 0);
    ibv_wc done{};
    while (ibv_poll_cq(line.id->send_cq, 1, &done) == 0) {
    }
    return done.status;
  }

 private:
  void Accept(const rdma::Event& event, Line& line) {
    line.hello = event.As<SliceHello>().value();
    line.id.reset(event.id);
    ibv_qp_init_attr queues{};
    queues.qp_type = IBV_QPT_RC;
    queues.cap = {4, 4, 1, 1, 0};
    ASSERT_EQ(rdma_create_qp(event.id, nullptr, &queues), 0);
    line.memory =
        PinnedMemory::Make(event.id->pd, Pages::Make(64 << 10).value(), IBV_ACCESS_LOCAL_WRITE).value();
    std::fill(line.memory.bytes().begin(), line.memory.bytes().end(), std::byte{0xEE});
    const SliceWelcome welcome;
    rdma_conn_param answer{};
    answer.private_data = &welcome;
    answer.private_data_len = sizeof(welcome);
    answer.initiator_depth = answer.responder_resources = 1;
    ASSERT_EQ(rdma_accept(event.id, &answer), 0);
  }

  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<rdma_cm_id> listener_;
};

bool Untouched(const MadGateway::Line& line) {
  const auto memory = line.inlet->memory().host;
  return std::all_of(memory.begin(), memory.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

class SliceMemory : public testing::Test {
 protected:
  const SliceOffer offer_{"s", "g", 1, 2, 4096, 4096};
  const uint64_t bytes_ = CellLayout(offer_).Bytes();
  MadGateway gateway_;
  MadGateway::Line mine_ = gateway_.Connect(offer_), other_ = gateway_.Connect(offer_);
};

TEST_F(SliceMemory, IsWrittenOverItsOwnConnection) {
  ASSERT_EQ(MadGateway::Do(mine_, IBV_WR_RDMA_WRITE, mine_.hello.inputs, mine_.hello.inputs_key, 4096),
            IBV_WC_SUCCESS);
  EXPECT_EQ(mine_.inlet->memory().host[4095], std::byte{0xEE});
  EXPECT_EQ(mine_.inlet->memory().host[4096], std::byte{0});
  EXPECT_TRUE(Untouched(other_));
}

TEST_F(SliceMemory, IsNotWrittenOverAnothers) {
  EXPECT_EQ(MadGateway::Do(mine_, IBV_WR_RDMA_WRITE, other_.hello.inputs, other_.hello.inputs_key, 64),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(Untouched(other_));
}

TEST_F(SliceMemory, IsNotWrittenByAnothersKey) {
  EXPECT_EQ(MadGateway::Do(mine_, IBV_WR_RDMA_WRITE, other_.hello.inputs, mine_.hello.inputs_key, 64),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(Untouched(other_));
}

TEST_F(SliceMemory, IsNotWrittenBeyondItsEnd) {
  EXPECT_EQ(
      MadGateway::Do(mine_, IBV_WR_RDMA_WRITE, mine_.hello.inputs + bytes_ - 32, mine_.hello.inputs_key, 64),
      IBV_WC_REM_ACCESS_ERR);
}

TEST_F(SliceMemory, IsNotReadFromAfar) {
  EXPECT_NE(MadGateway::Do(mine_, IBV_WR_RDMA_READ, mine_.hello.inputs, mine_.hello.inputs_key, 64),
            IBV_WC_SUCCESS);
  EXPECT_EQ(mine_.memory.bytes()[0], std::byte{0xEE});
}

TEST_F(SliceMemory, AMessageOfAnotherLengthEndsTheConnection) {
  EXPECT_EQ(MadGateway::Do(mine_, IBV_WR_SEND, 0, 0, 32), IBV_WC_SUCCESS);
  Submission submission;
  EXPECT_FALSE(mine_.inlet->TakeSubmission(submission));
  while (*mine_.broken == 0) EXPECT_FALSE(mine_.inlet->TakeSubmission(submission));
  EXPECT_FALSE(mine_.inlet->TakeSubmission(submission));
  EXPECT_EQ(*mine_.broken, 1);
  // The other one's goes on.
  EXPECT_EQ(MadGateway::Do(other_, IBV_WR_SEND, 0, 0, sizeof(Submission)), IBV_WC_SUCCESS);
  while (!other_.inlet->TakeSubmission(submission)) other_.inlet->Wait(-1);
  EXPECT_EQ(submission.id, 0xEEEEEEEEEEEEEEEE);
}

}  // namespace
}  // namespace spillway::gateway
