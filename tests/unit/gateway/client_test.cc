// SPDX-License-Identifier: Apache-2.0
// The client library, before a gateway that lies, is silent or has gone.
#include "gateway/client.h"

#include <gmock/gmock.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "frames.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;

// Answers each frame of its one client with what `answers` makes of it; an empty text: nothing.
class FakeGateway {
 public:
  using Answers = std::function<std::string(const Frame&)>;

  explicit FakeGateway(Answers answers) : answers_(std::move(answers)) {
    std::string folder = testing::TempDir() + "clientXXXXXX";
    folder_ = mkdtemp(folder.data());
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (folder_ + "/s").copy(address.sun_path, sizeof(address.sun_path) - 1);
    listener_ = base::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeGateway() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string address() const { return "unix:" + folder_ + "/s"; }

 private:
  void Run() {
    const base::Fd client(accept(listener_.get(), nullptr, nullptr));
    for (;;) {
      const Frame frame = ReceiveFrame(client.get());
      if (frame.header.type == 0) return;
      SendWhole(client.get(), answers_(frame));
    }
  }

  Answers answers_;
  std::string folder_;
  base::Fd listener_;
  std::thread thread_;
};

std::string FrameOf(FrameType type, const Frame& question, std::string_view meta = "{}", uint64_t data = 0) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.id = question.header.id;
  header.data_bytes = data;
  return EncodeFrame(header, meta);
}

std::string Welcomes(const Frame& frame) {
  return frame.Is(FrameType::kHello) ? FrameOf(FrameType::kWelcome, frame) : std::string();
}

TEST(Client, OfAGatewayThatNeverAnswersARequestIsGivenUpAfterItsDeadline) {
  const FakeGateway gateway(Welcomes);
  auto client = Client::Connect(gateway.address(), {.tenant = "", .token = "", .patience = 50ms});
  ASSERT_TRUE(client) << client.error().message;
  const auto result = client->Infer(0, 1, {}, 10ms);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the gateway does not answer");
}

TEST(Client, WaitsNoLongerOnceItIsInterrupted) {
  const FakeGateway gateway(Welcomes);
  bool is_interrupted = false;
  auto client = Client::Connect(gateway.address(), {.tenant = "", .token = "", .is_interrupted = [&] {
                                                      return std::exchange(is_interrupted, true);
                                                    }});
  ASSERT_TRUE(client) << client.error().message;
  const auto result = client->Infer(0, 1, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "interrupted");
}

TEST(Client, TakesNoMemoryForDataThatAHeaderPromises) {
  const FakeGateway gateway(
      [](const Frame& frame) { return FrameOf(FrameType::kWelcome, frame, "{}", uint64_t{1} << 32); });
  const auto client = Client::Connect(gateway.address(), {});
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("not a Spillway gateway: invalid reply"));
}

TEST(Client, AModelWhoseNumberIsNoneIsAnError) {
  const FakeGateway gateway([](const Frame& frame) {
    constexpr const char* kCard =
        R"({"name": "m", "version": "1", "platform": "p", "most_rows": 1, "gflop": 0, "gflop_per_row": 0,
            "index": "x", "ready": true,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1]}]})";
    return frame.Is(FrameType::kDescribe) ? FrameOf(FrameType::kModel, frame, kCard) : Welcomes(frame);
  });
  auto client = Client::Connect(gateway.address(), {});
  ASSERT_TRUE(client) << client.error().message;
  const auto model = client->Describe("m");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "unexpected reply from the gateway");
}

TEST(Client, ADeadlineBeyondWhatAFrameHoldsIsTheLongest) {
  InferMeta told;
  const FakeGateway gateway([&](const Frame& frame) {
    if (!frame.Is(FrameType::kInfer)) return Welcomes(frame);
    EXPECT_TRUE(ReadMeta(std::as_bytes(std::span(frame.meta)), told));
    return FrameOf(FrameType::kResult, frame, MetaBytes(ResultMeta{}));
  });
  auto client = Client::Connect(gateway.address(), {});
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(client->Infer(0, 1, {}, 4295s));
  EXPECT_EQ(told.deadline_us, UINT32_MAX);
}

TEST(Client, AConnectionThatIsClosedAtOnceIsToldWithItsAddress) {
  const FakeGateway gateway([](const Frame&) { return std::string(64, 'x'); });
  const auto client = Client::Connect(gateway.address(), {});
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr(gateway.address() + ": "));
  EXPECT_THAT(client.error().message, EndsWith("(expected an address that gateway.yaml's frames names)"));
}

}  // namespace
}  // namespace spillway::gateway
