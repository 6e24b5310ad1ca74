// SPDX-License-Identifier: Apache-2.0
#include "spillway_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>

#include "gateway/client.h"

namespace gw = spillway::gateway;

namespace {

constexpr uint64_t kLeastPiece = 256;  // an error's text goes where outputs do

std::string Text(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

struct spillway_client {
  explicit spillway_client(gw::Client connected) : client(std::move(connected)) {}

  [[nodiscard]] bool InFrames() const { return client.way() == gw::Client::Way::kFrames; }
  [[nodiscard]] const gw::ModelCard* CardOf(uint32_t model, uint32_t rows) const {
    const auto found = cards.find(model);
    return found != cards.end() && rows >= 1 && rows <= found->second.most_rows ? &found->second : nullptr;
  }
  int Fail(std::string text) {
    error = std::move(text);
    return -1;
  }

  gw::Client client;
  std::string error;
  std::map<uint32_t, gw::ModelCard> cards;
  struct Piece {
    uint64_t bytes = 0;
    uint64_t offset = 0;                         // in the window
    std::unique_ptr<std::byte[]> own = nullptr;  // where there is none
  };
  std::map<const void*, Piece> pieces;
};

// Memory that is short, or another surprise of the library's, ends a call and not the caller's program.
template <class Call>
int Guarded(spillway_client* client, Call call) noexcept {
  try {
    client->error.clear();
    return call();
  } catch (const std::exception& error) {
    return client->Fail(error.what());
  }
}

extern "C" {

spillway_client* spillway_connect(const char* address, const char* tenant, const char* token,
                                  uint64_t window_bytes, char* error, size_t error_bytes) {
  const auto fail = [&](const std::string& text) -> spillway_client* {
    if (error != nullptr && error_bytes > 0) {
      const size_t bytes = std::min(text.size(), error_bytes - 1);
      std::memcpy(error, text.data(), bytes);
      error[bytes] = '\0';
    }
    return nullptr;
  };
  try {
    auto connected = gw::Client::Connect(Text(address), {Text(tenant), Text(token)});
    if (!connected) return fail(connected.error().message);
    auto client = std::make_unique<spillway_client>(std::move(*connected));
    if (window_bytes == 0) return client.release();
    if (auto opened = client->client.OpenWindow(window_bytes); !opened) {
      if (Text(address).starts_with("unix:")) return fail(opened.error().message);
      client->error = opened.error().message;
    }
    return client.release();
  } catch (const std::exception& thrown) {
    return fail(thrown.what());
  }
}

void spillway_close(spillway_client* client) { delete client; }

int spillway_way(const spillway_client* client) {
  switch (client->client.way()) {
    case gw::Client::Way::kSharedMemory:
      return SPILLWAY_WINDOW;
    case gw::Client::Way::kRdma:
      return SPILLWAY_RDMA;
    case gw::Client::Way::kFrames:
      break;
  }
  return SPILLWAY_FRAMES;
}

const char* spillway_error(const spillway_client* client) { return client->error.c_str(); }

int spillway_describe(spillway_client* client, const char* model, uint32_t* number) {
  return Guarded(client, [&] {
    auto described = client->client.Describe(Text(model));
    if (!described) return client->Fail(described.error().message);
    *number = described->index;
    client->cards[described->index] = std::move(described->card);
    return 0;
  });
}

uint64_t spillway_input_bytes(const spillway_client* client, uint32_t model, uint32_t rows) {
  const gw::ModelCard* card = client->CardOf(model, rows);
  return card == nullptr ? 0 : card->InputBytes(rows);
}

uint64_t spillway_output_bytes(const spillway_client* client, uint32_t model, uint32_t rows) {
  const gw::ModelCard* card = client->CardOf(model, rows);
  return card == nullptr ? 0 : card->OutputBytes(rows);
}

void* spillway_allocate(spillway_client* client, uint64_t bytes) {
  void* memory = nullptr;
  Guarded(client, [&] {
    spillway_client::Piece piece;
    piece.bytes = std::max(bytes, kLeastPiece);
    if (client->InFrames()) {
      piece.own = std::make_unique_for_overwrite<std::byte[]>(piece.bytes);
      memory = piece.own.get();
    } else {
      const auto offset = client->client.Allocate(piece.bytes);
      if (!offset)
        return client->Fail(fmt::format("{} bytes do not fit into what is free of the window", bytes));
      piece.offset = *offset;
      memory = client->client.window().data() + *offset;
    }
    client->pieces[memory] = std::move(piece);
    return 0;
  });
  return memory;
}

void spillway_free(spillway_client* client, void* memory) {
  const auto found = client->pieces.find(memory);
  if (found == client->pieces.end()) return;
  if (found->second.own == nullptr) client->client.Free(found->second.offset);
  client->pieces.erase(found);
}

int spillway_infer(spillway_client* client, uint32_t model, uint32_t rows, const void* inputs, void* outputs,
                   uint32_t deadline_us) {
  return Guarded(client, [&] {
    const gw::ModelCard* card = client->CardOf(model, rows);
    if (card == nullptr) return client->Fail("expected a model that was described, and rows that it takes");
    const uint64_t input_bytes = card->InputBytes(rows), output_bytes = card->OutputBytes(rows);
    const auto in = client->pieces.find(inputs), out = client->pieces.find(outputs);
    if (in == client->pieces.end() || out == client->pieces.end() || in->second.bytes < input_bytes ||
        out->second.bytes < output_bytes)
      return client->Fail(
          fmt::format("expected memory of spillway_allocate, {} bytes for inputs and {} for outputs",
                      input_bytes, output_bytes));
    const std::chrono::microseconds deadline(deadline_us);
    auto result = client->InFrames()
                      ? client->client.Infer(model, rows,
                                             {static_cast<const std::byte*>(inputs), input_bytes}, deadline)
                      : client->client.InferInWindow(model, rows, in->second.offset, input_bytes,
                                                     out->second.offset, out->second.bytes, deadline);
    if (!result) return client->Fail(result.error().message);
    if (result->status != gw::Status::kOk) {
      client->error = result->message;
      return static_cast<int>(result->status);
    }
    if (result->output_bytes != output_bytes) return client->Fail("outputs of another size");
    if (client->InFrames()) std::memcpy(outputs, result->outputs.data(), output_bytes);
    return 0;
  });
}

}  // extern "C"
