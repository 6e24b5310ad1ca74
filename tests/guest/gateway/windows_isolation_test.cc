// SPDX-License-Identifier: Apache-2.0
// What the key of a client's window opens: that window, for writing, over its own connection, and nothing
// else; and what a client that keeps to no rule costs: itself. A client without our library, with raw work
// requests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/socket_address.h"
#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/pinned_memory.h"
#include "remote_bed.h"
#include "tests/unit/gateway/frames.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t kBareWindow = 64 << 10;
constexpr uint64_t kBareRow = 64;
constexpr uint32_t kBareSlots = 4;

std::chrono::steady_clock::time_point Soon() { return std::chrono::steady_clock::now() + 30s; }

GatewayConfig BareConfig() {
  GatewayConfig config = GatewayBed::Config();
  config.rdma.clients = DeviceAddress() + ":0";
  return config;
}

class BareClient {
 public:
  explicit BareClient(const GatewayBed& bed) {
    const auto frames = base::SocketAddress::Parse(bed.tcp_address);
    socket_ = base::Fd(::socket(AF_INET, SOCK_STREAM, 0));
    const timeval limit{60, 0};
    EXPECT_EQ(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    EXPECT_EQ(connect(socket_.get(), frames->get(), frames->length), 0);
    EXPECT_TRUE(SendWhole(socket_.get(), HelloFrame()));
    EXPECT_TRUE(ReceiveFrame(socket_.get()).Is(FrameType::kWelcome));
    FrameHeader header;
    header.type = static_cast<uint8_t>(FrameType::kOpenWindow);
    WindowMeta meta;
    meta.bytes = kBareWindow;
    meta.slots = kBareSlots;
    EXPECT_TRUE(SendWhole(socket_.get(), EncodeFrame(header, MetaBytes(meta))));
    const Frame answer = ReceiveFrame(socket_.get());
    EXPECT_TRUE(answer.Is(FrameType::kRemoteWindow)) << answer.meta;
    place = nlohmann::json::parse(answer.meta);
  }

  // What the connection manager says to it: 0 if it takes it.
  int Connect(const WindowHello& asked) {
    Forget();  // an earlier try
    channel_ = rdma::OpenEventChannel().value();
    id_ = rdma::MakeId(channel_.get()).value();
    const auto where =
        rdma::ParseAddress(place["address"].get<std::string>(), place["port"].get<uint16_t>()).value();
    EXPECT_TRUE(rdma::Resolve(channel_.get(), id_.get(), where, Soon()));
    domain_.reset(ibv_alloc_pd(id_->verbs));
    sends_.reset(ibv_create_cq(id_->verbs, 16, nullptr, nullptr, 0));
    receives_.reset(ibv_create_cq(id_->verbs, 16, nullptr, nullptr, 0));
    ibv_qp_init_attr queues{};
    queues.qp_type = IBV_QPT_RC;
    queues.send_cq = sends_.get();
    queues.recv_cq = receives_.get();
    queues.cap = {16, 16, 1, 1, 0};
    // Not the connection manager's, which would have it keep to what the gateway grants.
    pair_ = ibv_create_qp(domain_.get(), &queues);
    memory_ = PinnedMemory::Make(domain_.get(), Pages::Make(2 * kBareWindow).value(),
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                  .value();
    WindowHello hello = asked;
    if (hello.address == 0) hello.address = memory_.Address();
    if (hello.key == 0) hello.key = memory_.remote_key();
    rdma_conn_param request{};
    request.private_data = &hello;
    request.private_data_len = sizeof(hello);
    request.qp_num = pair_->qp_num;
    request.retry_count = 7;
    request.rnr_retry_count = kRetries;
    EXPECT_EQ(rdma_connect(id_.get(), &request), 0);
    const auto event = rdma::AwaitEvent(channel_.get(), Soon());
    if (!event) return -1;
    if (event->type != RDMA_CM_EVENT_CONNECT_RESPONSE) return event->type;
    welcome = event->As<WindowWelcome>().value();
    EXPECT_TRUE(IsUnderstood(welcome));
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ibv_qp_attr attributes{};
      attributes.qp_state = state;
      int which = 0;
      EXPECT_EQ(rdma_init_qp_attr(id_.get(), &attributes, &which), 0);
      if (state == IBV_QPS_RTS) attributes.max_rd_atomic = 1;
      EXPECT_EQ(ibv_modify_qp(pair_, &attributes, which), 0);
      if (state == IBV_QPS_INIT) Listen();
    }
    EXPECT_EQ(rdma_establish(id_.get()), 0);
    return 0;
  }
  ~BareClient() { Forget(); }
  WindowHello Hello() const {
    WindowHello hello;
    hello.ticket = place["ticket"].get<uint64_t>();
    return hello;
  }

  // How one work request ends, with `bytes` from the beginning of this client's memory.
  ibv_wc_status Do(ibv_wr_opcode what, uint64_t address, uint32_t key, uint32_t bytes) {
    ibv_sge local{memory_.Address(), bytes, memory_.local_key()};
    ibv_send_wr work{};
    work.opcode = what;
    work.send_flags = IBV_SEND_SIGNALED;
    work.sg_list = &local;
    work.num_sge = 1;
    work.wr.rdma = {address, key};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(pair_, &work, &bad), 0);
    return Next(sends_.get()).status;
  }
  ibv_wc_status Write(uint64_t offset, uint32_t bytes) {
    return Do(IBV_WR_RDMA_WRITE, welcome.address + offset, welcome.key, bytes);
  }
  ibv_wc_status Send(const Submission& submission) {
    std::memcpy(memory_.bytes().data(), &submission, sizeof(submission));
    return Do(IBV_WR_SEND, 0, 0, sizeof(submission));
  }
  // The next answer that comes; none once the connection is broken.
  std::optional<Completion> Hear() {
    if (Next(receives_.get()).status != IBV_WC_SUCCESS) return std::nullopt;
    Completion completion;
    std::memcpy(&completion, memory_.bytes().data() + kBareWindow + heard_++ * 64, sizeof(completion));
    return completion;
  }
  // Of a row at `input`, into this client's copy at `output`.
  Submission Echo(uint32_t model, uint64_t input, uint64_t output) const {
    Submission submission;
    submission.id = 1;
    submission.key = place["key"].get<uint64_t>();
    submission.input_offset = input;
    submission.output_offset = output;
    submission.input_bytes = submission.output_bytes = kBareRow;
    submission.model = model;
    submission.deadline_us = 30'000'000;
    return submission;
  }
  std::span<std::byte> copy() const { return memory_.bytes().first(kBareWindow); }
  // Until the gateway ends the session.
  void AwaitEnd() {
    char byte;
    EXPECT_EQ(recv(socket_.get(), &byte, 1, 0), 0);
  }
  int socket() const { return socket_.get(); }

  nlohmann::json place;
  WindowWelcome welcome;

 private:
  static ibv_wc Next(ibv_cq* queue) {
    ibv_wc done{};
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (ibv_poll_cq(queue, 1, &done) == 0) {
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "no completion within a minute";
      done.status = IBV_WC_GENERAL_ERR;
      return done;
    }
    return done;
  }
  void Listen() {
    for (uint64_t i = 0; i < 8; i++) {
      ibv_sge into{memory_.Address(kBareWindow + i * 64), 64, memory_.local_key()};
      ibv_recv_wr work{};
      work.sg_list = &into;
      work.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_recv(pair_, &work, &bad), 0);
    }
  }
  void Forget() {
    if (pair_ != nullptr) ibv_destroy_qp(std::exchange(pair_, nullptr));
    id_.reset();
    memory_ = PinnedMemory();
  }

  base::Fd socket_;
  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<ibv_pd> domain_;
  rdma::Owned<ibv_cq> sends_, receives_;
  PinnedMemory memory_;
  rdma::Owned<rdma_cm_id> id_;
  ibv_qp* pair_ = nullptr;
  uint64_t heard_ = 0;
};

class ClientWindowMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(mine_.Connect(mine_.Hello()), 0);
    ASSERT_EQ(other_.Connect(other_.Hello()), 0);
    AwaitExecutors(bed_, 1);
    auto client = bed_.Dial();
    model_ = client->Describe("echo")->index;
    // What of the other's window is asked to be echoed.
    std::fill_n(other_.copy().begin(), kBareRow, std::byte{0xAB});
    ASSERT_EQ(other_.Write(1024, kBareRow), IBV_WC_SUCCESS);
    std::fill_n(mine_.copy().begin(), kBareWindow, std::byte{0xEE});
  }
  // The other's window holds what the other wrote, and its connection works.
  void ExpectOtherIsWhole() {
    ASSERT_EQ(other_.Send(other_.Echo(model_, 1024, 2048)), IBV_WC_SUCCESS);
    const auto answer = other_.Hear();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 0u);
    EXPECT_EQ(
        std::count(other_.copy().begin() + 2048, other_.copy().begin() + 2048 + kBareRow, std::byte{0xAB}),
        static_cast<std::ptrdiff_t>(kBareRow));
  }

  GatewayBed bed_{BareConfig()};
  EchoExecutor executor_{{bed_.executors_path()}, 1, 2, 4096, kBareRow};
  BareClient mine_{bed_}, other_{bed_};
  uint32_t model_ = 0;
};

TEST_F(ClientWindowMemory, IsWrittenOverItsOwnConnection) {
  ASSERT_EQ(mine_.Write(kBareWindow - kBareRow, kBareRow), IBV_WC_SUCCESS);
  ASSERT_EQ(mine_.Send(mine_.Echo(model_, kBareWindow - kBareRow, 4096)), IBV_WC_SUCCESS);
  const auto answer = mine_.Hear();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 0u);
  EXPECT_EQ(answer->output_bytes, kBareRow);
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, IsNotWrittenByAnothersConnection) {
  ASSERT_EQ(mine_.Do(IBV_WR_RDMA_WRITE, other_.welcome.address + 1024, other_.welcome.key, kBareRow),
            IBV_WC_REM_ACCESS_ERR);
  mine_.AwaitEnd();
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, IsNotWrittenByAnothersKey) {
  EXPECT_EQ(mine_.Do(IBV_WR_RDMA_WRITE, other_.welcome.address + 1024, mine_.welcome.key, kBareRow),
            IBV_WC_REM_ACCESS_ERR);
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, IsNotWrittenBeyondItsEnd) {
  EXPECT_EQ(mine_.Write(kBareWindow - 32, kBareRow), IBV_WC_REM_ACCESS_ERR);
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, IsNotReadFromAfar) {
  EXPECT_NE(mine_.Do(IBV_WR_RDMA_READ, mine_.welcome.address, mine_.welcome.key, kBareRow), IBV_WC_SUCCESS);
  EXPECT_EQ(mine_.copy()[0], std::byte{0xEE});
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, IsNotNamedByAnothersRequests) {
  // The key of the region, which a request names: another session's is nobody's.
  Submission asked = mine_.Echo(model_, 1024, 2048);
  asked.key = other_.place["key"].get<uint64_t>();
  ASSERT_EQ(mine_.Send(asked), IBV_WC_SUCCESS);
  const auto answer = mine_.Hear();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, static_cast<uint32_t>(Status::kDenied));
  EXPECT_EQ(answer->output_bytes, 0u);
  ExpectOtherIsWhole();
}

TEST_F(ClientWindowMemory, AMessageOfAnotherLengthEndsItsSessionAlone) {
  EXPECT_EQ(mine_.Do(IBV_WR_SEND, 0, 0, 32), IBV_WC_SUCCESS);
  mine_.AwaitEnd();
  ExpectOtherIsWhole();
}

TEST(BareClientWindow, IsConnectedByItsTicketOnceAndByNothingElse) {
  GatewayBed bed(BareConfig());
  BareClient first(bed), second(bed);
  WindowHello wrong = first.Hello();
  wrong.ticket++;
  EXPECT_EQ(first.Connect(wrong), RDMA_CM_EVENT_REJECTED);
  wrong = first.Hello();
  wrong.version++;
  EXPECT_EQ(first.Connect(wrong), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(first.Connect(first.Hello()), 0);
  EXPECT_EQ(second.Connect(first.Hello()), RDMA_CM_EVENT_REJECTED) << "the ticket is used up";
  EXPECT_EQ(second.Connect(second.Hello()), 0);
}

TEST(BareClientWindow, OfWrongAddressIsRefusedAndItsMemoryGivenBack) {
  GatewayConfig config = BareConfig();
  config.receive = 5s;
  GatewayBed bed(config);
  BareClient client(bed);
  WindowHello nowhere = client.Hello();
  nowhere.address = UINT64_MAX - 10;
  EXPECT_EQ(client.Connect(nowhere), RDMA_CM_EVENT_REJECTED);
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
  // The session goes on, in frames.
  EXPECT_TRUE(SendWhole(client.socket(), DescribeFrame(7, "nobody")));
  EXPECT_TRUE(ReceiveFrame(client.socket()).Is(FrameType::kError));
}

TEST(BareClientWindow, ThatItsClientCancelsIsGivenUp) {
  GatewayBed bed(BareConfig());
  BareClient client(bed);
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kCancel);
  EXPECT_TRUE(SendWhole(client.socket(), EncodeFrame(header, "")));
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
  EXPECT_EQ(client.Connect(client.Hello()), RDMA_CM_EVENT_REJECTED);
}

TEST(BareClientWindow, ThatNobodyConnectsIsGivenUp) {
  GatewayConfig config = BareConfig();
  config.receive = 1s;
  GatewayBed bed(config);
  BareClient client(bed);
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
  EXPECT_EQ(client.Connect(client.Hello()), RDMA_CM_EVENT_REJECTED);
  EXPECT_TRUE(SendWhole(client.socket(), DescribeFrame(7, "nobody")));
  EXPECT_TRUE(ReceiveFrame(client.socket()).Is(FrameType::kError));
}

TEST(BareClientWindow, WithMoreRequestsThanSlotsEndsItsSessionAlone) {
  GatewayBed bed(BareConfig());
  auto program = ProgramSlice::Join({{bed.executors_path()}, "slow", ProgramModel(kBareRow, 1)});
  ASSERT_TRUE(program) << program.error().message;
  auto good = bed.Dial();
  const auto model = good->Describe("program");
  BareClient greedy(bed);
  ASSERT_EQ(greedy.Connect(greedy.Hello()), 0);
  for (uint64_t id = 0; id <= kBareSlots; id++) {
    Submission asked = greedy.Echo(model->index, 0, 1024);
    asked.id = id;
    ASSERT_EQ(greedy.Send(asked), IBV_WC_SUCCESS);
  }
  greedy.AwaitEnd();
  bed.Until([](Server& server) {
    return server.counts().sessions == 1 && server.broker().windows_held() == 0 &&
           server.broker().queued() == 0;
  });
  EXPECT_EQ(bed.Ask([](Server& server) { return server.counts().faults; }), 1u);
}

TEST(BareClientWindow, WhoseClientTakesNoAnswersEndsItsSessionAlone) {
  GatewayBed bed(BareConfig());
  const EchoExecutor executor({bed.executors_path()}, 1, 2, 4096, kBareRow);
  AwaitExecutors(bed, 1);
  auto good = bed.Dial();
  const auto model = good->Describe("echo");
  BareClient deaf(bed);
  ASSERT_EQ(deaf.Connect(deaf.Hello()), 0);
  // It has room for eight answers, and makes no more.
  for (uint64_t id = 0; id <= 8; id++) {
    Submission asked = deaf.Echo(model->index, 0, 1024);
    asked.id = id;
    ASSERT_EQ(deaf.Send(asked), IBV_WC_SUCCESS);
    if (id < 8) {
      ASSERT_TRUE(deaf.Hear());
    }
  }
  deaf.AwaitEnd();
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
  const auto input = Pattern(kBareRow);
  EXPECT_EQ(good->Infer(model->index, 1, input, 30s)->outputs, input);
}

}  // namespace
}  // namespace spillway::gateway
