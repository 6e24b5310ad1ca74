// SPDX-License-Identifier: Apache-2.0
// What an executor says over TCP, as a stream of messages: each, where it is an offer, is the same after it
// was written again; and what a gateway answers to it.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gateway/transport/executor_offer.h"
#include "gateway/transport/rdma/messages.h"

using namespace spillway::gateway;

namespace {

void Read(const std::string& text) {
  (void)ParseAnswer(text);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return;
  const auto offer = ParseOffer(json);
  if (!offer) return;
  const auto again = ParseOffer(ToJson(*offer));
  if (!again || again->keys != offer->keys) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  Read(std::string(reinterpret_cast<const char*>(bytes), size));
  int ends[2];
  if (size > 4096 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  if (write(ends[0], bytes, size) != static_cast<ssize_t>(size)) std::abort();
  close(ends[0]);
  MessageReader reader;
  for (bool open = true; open;) {
    const auto more = reader.ReadFrom(ends[1]);
    open = more && *more;
    while (const auto text = reader.Next()) {
      if (text->size() > kMaxExecutorMessage) std::abort();
      Read(*text);
    }
  }
  close(ends[1]);
  return 0;
}
