// SPDX-License-Identifier: Apache-2.0
// One client of the framed protocol: reads frames, holds its window, writes answers. What it asks goes to the
// SessionHost. Used by the gateway's one thread.
//
// Memory: a request's data is read only once its place in the limits is taken; while answers pile up unread,
// nothing more is read; requests at hand are limited.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "gateway/broker.h"
#include "gateway/channel.h"
#include "gateway/config.h"
#include "gateway/frame.h"
#include "gateway/region_table.h"

namespace spillway::gateway {

// What sessions share.
struct SessionHost {
  const GatewayConfig& config;
  Broker& broker;
  RegionTable& regions;
  std::function<Time()> now;
  std::function<void(uint64_t session)> changed;  // it has answers to flush, or is to be closed
};

class Session {
 public:
  Session(SessionHost& host, uint64_t number, Descriptor socket, bool is_unix);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Each returns false once the session is over: destroy it.
  bool Readable();
  bool Writable();
  // Takes what stands in the window. Whether there was any.
  bool TakeSubmissions();

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] bool wants_to_write() const { return !out_.empty(); }
  [[nodiscard]] bool wants_to_read() const { return out_.size() < kMostUnread; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] bool idle() const { return asked_.empty() && window_asked_ == 0; }
  [[nodiscard]] Time last_heard() const { return last_heard_; }
  [[nodiscard]] Channel* window() { return window_ ? &window_->channel : nullptr; }
  [[nodiscard]] const std::string& fault() const { return fault_; }  // for the log, once over

 private:
  static constexpr size_t kMostUnread = 8 << 20;
  static constexpr size_t kMostAsked = 1024;
  static constexpr uint64_t kMostWindow = uint64_t{1} << 30;

  struct Window {
    Channel channel;
    std::shared_ptr<SharedMemory> memory;
    uint64_t key = 0;
  };

  bool ReadSome();
  bool HeaderDone();
  bool MetaDone();
  bool DataDone();
  void Handle();
  void HandleHello();
  void HandleDescribe();
  void HandleInfer();
  void HandleCancel();
  void HandleOpenWindow();
  void AnswerFrame(uint64_t id, const Answer& answer);
  void AnswerWindow(const Submission& asked, std::span<std::byte> outputs, const Answer& answer);
  void SubmitFromWindow(const Submission& asked);
  void SendFrame(FrameType type, uint64_t id, std::string_view meta, std::span<const std::byte> data = {});
  void SendError(uint64_t id, Status status, std::string_view text, uint32_t retry_after_ms = 0);
  void Fault(const std::string& text);  // the session ends once this is written
  bool Flush();
  void DropData();

  SessionHost& host_;
  const uint64_t number_;
  Descriptor socket_;
  const bool is_unix_;
  std::optional<uint32_t> tenant_;

  // The frame that is being read.
  enum class Part { kHeader, kMeta, kData, kDiscard };
  Part part_ = Part::kHeader;
  FrameHeader header_;
  std::string meta_;
  std::shared_ptr<std::vector<std::byte>> data_;
  uint64_t held_ = 0;  // of the broker's memory, for data_
  uint64_t got_ = 0;   // of the part
  uint64_t discard_ = 0;

  std::string out_;
  size_t out_done_ = 0;
  bool closing_ = false;  // once out_ is written
  bool over_ = false;
  std::string fault_;
  Time last_heard_{0};

  std::unordered_map<uint64_t, uint64_t> asked_;  // the client's id -> the broker's
  std::unordered_map<uint64_t, uint64_t> window_ids_;
  size_t window_asked_ = 0;
  std::unique_ptr<Window> window_;
  // Answers may come when the session is gone: they ask this first.
  std::shared_ptr<Session*> self_;
};

}  // namespace spillway::gateway
