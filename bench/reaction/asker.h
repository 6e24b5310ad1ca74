// SPDX-License-Identifier: Apache-2.0
// How one question is put to a service and its answer recognised. One thread, in the client's namespace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "model/pool.h"

namespace spillway::bench {

class Asker {
 public:
  // `good`: the answer is no error.
  using OnAnswer = std::function<void(size_t question, bool good)>;

  virtual ~Asker() = default;
  [[nodiscard]] virtual Result<void> Open() = 0;
  // Readable when Read has something to do; after Open.
  [[nodiscard]] virtual int fd() const = 0;
  // Never blocks; a question that cannot be sent is one without an answer.
  virtual void Ask(size_t question) = 0;
  virtual void Read(const OnAnswer& on_answer) = 0;
  // Of a question without an answer: none is waited for any more.
  virtual void GiveUp(size_t question) = 0;
};

// "h1.example.org A" over UDP, all from one socket. Questions are told apart by their DNS id, so their
// numbers are below 65,536. An answer whose rcode is not NOERROR is an error.
std::unique_ptr<Asker> MakeDnsAsker(const model::Address& to, uint16_t port = 53);

// GET /unit by HTTP/1.1, each over a connection of its own, which the server closes. An answer whose status
// is not 200 is an error; a connection that is refused or reset has none.
std::unique_ptr<Asker> MakeHttpAsker(const model::Address& to, uint16_t port = 80);

}  // namespace spillway::bench
