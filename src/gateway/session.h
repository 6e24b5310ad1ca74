// SPDX-License-Identifier: Apache-2.0
// One client of the framed protocol: reads frames, holds its window, writes answers. What it asks goes to the
// SessionHost; its socket's bytes are moved by the reactor. Used by the gateway's one thread.
//
// Memory: a request's data is read only once its place in the limits, and its outputs', is taken, and
// straight to where it stays until the answer. Answers count in the limits until they are sent. While they
// pile up unread, nothing more is read; requests at hand are limited.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/fd.h"
#include "gateway/broker/broker.h"
#include "gateway/config.h"
#include "gateway/protocol/frame.h"
#include "gateway/reactor.h"
#include "gateway/transport/rdma/window_listener.h"
#include "gateway/transport/region_table.h"
#include "gateway/transport/window.h"
#include "gateway/window_memory.h"

namespace spillway::gateway {

// What sessions share.
struct SessionHost {
  const GatewayConfig& config;
  Broker& broker;
  RegionTable& regions;
  std::function<Time()> now;
  std::function<void(uint64_t session)> changed;  // it has answers to send, or a window, or is to be closed
  std::function<void(uint64_t session, std::string_view fault)> tell_fault;  // to the log, but not for ever
  std::function<bool(uint32_t tenant)> takes_another;                        // session of that tenant's
  WindowMemory& windows;
  WindowListener* remote_windows = nullptr;             // none: there are no windows over RDMA
  std::function<void(Status)> refused = [](Status) {};  // a request that the broker never saw
};

class Session : public Stream {
 public:
  Session(SessionHost& host, uint64_t number, base::Fd socket, bool is_unix);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::span<std::byte> NextRead() override;
  void Got(int64_t result) override;
  std::span<const std::byte> NextWrite() override;
  void Sent(int64_t result) override;
  // Takes what stands in the window, but no more than others may be kept waiting for. Whether there was any.
  bool TakeSubmissions();
  // Of its window over RDMA: it can be connected, is, or will not be.
  void HandleWindowNews();
  // A window over RDMA that nobody connects is given up after `most`.
  void EndLateWindow(Time now, Duration most);

  [[nodiscard]] bool over() const { return over_; }  // destroy it
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] bool idle() const { return asked_.empty() && window_asked_ == 0; }
  [[nodiscard]] Time last_heard() const { return last_heard_; }
  [[nodiscard]] const std::optional<uint32_t>& tenant() const { return tenant_; }  // none: no hello yet
  [[nodiscard]] bool is_unix() const { return is_unix_; }
  // It owes the rest of a frame, or its hello, for longer than `most`, while it may send; or reads more
  // slowly than kSlowestReader what is being sent to it, after `most`.
  [[nodiscard]] bool IsLate(Time now, Duration most);
  // What its buffers take while it has neither requests nor answers, which nobody counts. How much that was.
  size_t FreeIdleBuffers();
  // Whether what stands in its window will be taken: a closing session's is left there.
  [[nodiscard]] bool takes_submissions() const { return window_ && !closing_ && !over_; }
  [[nodiscard]] ServedWindow* window() { return window_.get(); }
  [[nodiscard]] const std::string& fault() const { return fault_; }  // for the log, once over

 private:
  static constexpr size_t kMaxUnread = 8 << 20;
  // While there is no room for its tenant: the answer to a describe or an error is memory that nobody agreed
  // to.
  static constexpr size_t kMaxUnreadWhenFull = 16 << 10;
  static constexpr size_t kMaxKept = 1 << 20;  // of a buffer that is empty
  // Bytes a second, once the first `most` is over; a byte now and then would keep what is being sent for as
  // long as its client likes.
  static constexpr size_t kSlowestReader = 64 << 10;
  static constexpr size_t kMaxAsked = 1024;
  static constexpr uint64_t kMaxWindow = uint64_t{1} << 30;
  static constexpr int kMaxOfATurn = 64;  // submissions from a window

  // Of a request; 0: the gateway's default.
  static std::optional<Duration> DeadlineOf(uint32_t us);

  [[nodiscard]] bool HasTooMuchUnread() const;  // for what memory there is
  [[nodiscard]] uint64_t PartBytes() const;
  void TakeFrames();
  bool Advance();
  void HeaderDone();
  void MetaDone();
  void DataDone();
  void Handle();
  void HandleHello();
  void HandleDescribe();
  void HandleInfer();
  [[nodiscard]] uint64_t OutputBytes() const;
  void HandleCancel();
  void AnswerFrame(uint64_t id, const Answer& answer);
  // session_window.cc
  struct AskedWindow {
    uint64_t id;  // of the frame
    uint64_t bytes;
    uint32_t slots;
  };
  void HandleOpenWindow();
  void OpenWindow(const AskedWindow& asked, bool has_waited);
  void AwaitRoom(const AskedWindow& asked);
  void OpenSharedWindow(const AskedWindow& asked);
  void OpenRemoteWindow(const AskedWindow& asked);
  void EndWindow();
  void SubmitFromWindow(const Submission& asked);
  void AnswerWindow(const Submission& asked, std::span<std::byte> outputs, const Answer& answer);
  void SendFrame(FrameType type, uint64_t id, std::string_view meta, std::span<const std::byte> data = {});
  // Of what the broker never saw; the answer of one that it did, where that is an error.
  void SendError(uint64_t id, Status status, std::string_view text, uint32_t retry_after_ms = 0);
  void SendAnswer(uint64_t id, Status status, std::string_view text, uint32_t retry_after_ms);
  void Fault(const std::string& text);  // the session ends once this is written
  void Append(const FrameHeader& header, std::string_view meta, std::span<const std::byte> data = {});
  [[nodiscard]] size_t unsent() const { return out_.size() + sending_.size(); }
  void DropData();
  [[nodiscard]] Account account() const { return {tenant_.value_or(scheduler::kNobody), Front::kFrames}; }

  SessionHost& host_;
  const uint64_t number_;
  base::Fd socket_;
  const bool is_unix_;
  std::optional<uint32_t> tenant_;

  // What was read of the socket and is not looked at yet: headers and metas, and as much of the data as came
  // with them. The rest of the data is read to where it stays.
  size_t TakeAhead(std::byte* into, size_t most);
  std::array<std::byte, 4096> ahead_;
  size_t ahead_begin_ = 0, ahead_end_ = 0;

  // The frame that is being read.
  enum class Part { kHeader, kMeta, kData, kDiscard };
  Part part_ = Part::kHeader;
  FrameHeader header_;
  std::string meta_;
  std::shared_ptr<std::byte[]> data_;
  uint64_t held_ = 0;    // of the broker's memory, for data_ and the outputs to come
  uint64_t got_ = 0;     // of the part
  uint64_t frames_ = 0;  // whose headers came, ever
  uint64_t discard_ = 0;

  std::string out_;       // not on its way yet
  std::string sending_;   // on its way
  size_t sent_ = 0;       // of it
  bool closing_ = false;  // once out_ is written
  bool over_ = false;
  std::string fault_;
  Time last_heard_{0};
  std::optional<Time> owes_since_;    // the frame that has begun to come
  std::optional<Time> unread_since_;  // that what is being sent, or would be next, waits for its client

  std::unordered_map<uint64_t, uint64_t> asked_;  // the client's id -> the broker's
  std::unordered_map<uint64_t, uint64_t> window_ids_;
  size_t window_asked_ = 0;
  std::unique_ptr<ServedWindow> window_;
  WindowMemory::Held window_held_;
  uint64_t window_key_ = 0;
  // One is asked for that has no room before others' are free. Nothing further is read until then.
  bool awaits_room_ = false;
  // Over RDMA, until it is connected.
  struct Awaited {
    RemoteWindow* window;  // window_
    uint64_t id;           // of the frame that asked for it
    bool is_told;          // where to connect
    Time since;
  };
  std::optional<Awaited> awaited_;
  // Answers may come when the session is gone: they ask this first.
  std::shared_ptr<Session*> self_;
};

}  // namespace spillway::gateway
