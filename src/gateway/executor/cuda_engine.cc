// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/cuda_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "gateway/executor/loaded_model.h"

namespace spillway::gateway {
namespace {

using Kind = ModelSpec::Kind;

std::optional<uint32_t> IndexOf(const std::string& device) {
  uint32_t index = 0;
  const char* end = device.data() + device.size();
  const auto [rest, error] = std::from_chars(device.data(), end, index);
  return error == std::errc() && rest == end ? std::optional(index) : std::nullopt;
}

std::string Listed(const std::vector<CudaDevice>& devices) {
  std::string text;
  for (const CudaDevice& device : devices)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        device.is_instance() ? "" : fmt::format("{} = ", device.index), device.uuid);
  return text;
}

std::byte* BytesOf(float* numbers) { return reinterpret_cast<std::byte*>(numbers); }

// A slice's inputs, and the queue that they belong to, which runs the slice and does not end before them.
class CudaInputs : public DeviceMemory {
 public:
  CudaInputs(std::shared_ptr<CudaQueue> queue, std::span<std::byte> bytes)
      : queue_(std::move(queue)), bytes_(bytes) {}
  [[nodiscard]] std::span<std::byte> bytes() const override { return bytes_; }
  [[nodiscard]] Result<base::Fd> Export() override { return queue_->Export(bytes_); }
  [[nodiscard]] const std::shared_ptr<CudaQueue>& queue() const { return queue_; }

 private:
  std::shared_ptr<CudaQueue> queue_;
  std::span<std::byte> bytes_;
};

class CudaSlice : public SliceEngine {
 public:
  // Uploads the models; nothing is allocated later on.
  static Result<std::unique_ptr<SliceEngine>> Make(const std::vector<LoadedModel>& models,
                                                   std::shared_ptr<CudaQueue> queue,
                                                   const SliceMemory& memory) {
    std::unique_ptr<CudaSlice> slice(new CudaSlice(models, std::move(queue), memory.device != nullptr));
    if (auto ready = slice->Prepare(memory.host); !ready) return tl::make_unexpected(ready.error());
    return slice;
  }
  // The queue may go on, with the inputs, when the slice's memory on the host has gone.
  ~CudaSlice() override { queue_->Unpin(host_); }

  Result<void> Run(uint32_t model, int64_t rows, std::span<const std::byte> inputs,
                   std::span<std::byte> outputs) override {
    auto begun = Begin(model, rows, inputs, outputs);
    // Also after an error: what was begun must not write into a cell that another request gets.
    auto done = queue_->Wait();
    const Result<void>& told = !done && (begun || IsGone(done.error())) ? done : begun;
    if (told) return {};
    return Fail(told.error().code,
                fmt::format("model {}: {}", models_[model].card.name, told.error().message));
  }

 private:
  CudaSlice(const std::vector<LoadedModel>& models, std::shared_ptr<CudaQueue> queue, bool is_on_device)
      : models_(models), queue_(std::move(queue)), is_on_device_(is_on_device) {}

  static bool IsGone(const Error& error) { return error.code == ErrorCode::kUnavailable; }

  Result<float*> Room(uint64_t bytes, const std::string& what) {
    auto room = queue_->Allocate(std::max<uint64_t>(bytes, 1));
    if (!room)
      return Fail(room.error().code, fmt::format("{} bytes {}: {}", bytes, what, room.error().message));
    return reinterpret_cast<float*>(*room);
  }

  Result<void> Prepare(std::span<std::byte> host) {
    if (auto pinned = queue_->Pin(host); !pinned) return pinned;
    host_ = host;
    uint64_t most_in = 0, most_out = 0, most_hidden = 0;
    for (const LoadedModel& model : models_) {
      const int64_t rows = model.card.most_rows;
      most_in = std::max(most_in, model.card.InputBytes(rows));
      most_out = std::max(most_out, model.card.OutputBytes(rows));
      std::vector<float*> layers;
      for (size_t i = 0; i < model.weights.size(); i++) {
        const auto bytes = std::as_bytes(std::span(model.weights[i]));
        auto room = Room(bytes.size(), fmt::format("for model {}'s layer {}", model.card.name, i));
        if (!room) return tl::make_unexpected(room.error());
        if (auto copied = queue_->CopyIn(BytesOf(*room), bytes); !copied) return copied;
        layers.push_back(*room);
        if (i > 0)
          most_hidden = std::max(most_hidden, static_cast<uint64_t>(rows * model.spec.layers[i]) * 4);
      }
      weights_.push_back(std::move(layers));
    }
    for (auto& [buffer, bytes] : {std::pair(&in_, most_in), std::pair(&out_, most_out),
                                  std::pair(&hidden_[0], most_hidden), std::pair(&hidden_[1], most_hidden)}) {
      if (is_on_device_ && buffer == &in_) continue;
      auto room = Room(bytes, "for a request's tensors");
      if (!room) return tl::make_unexpected(room.error());
      *buffer = *room;
    }
    return queue_->Wait();
  }

  // Where they are on the device.
  Result<const float*> BringIn(std::span<const std::byte> inputs) {
    // They came by RDMA WRITEs, and then the message that this thread has seen, by one connection, which
    // keeps their order. But the message lies in the host's memory and they in the device's, two ways through
    // the machine: that they have come to the device's memory when the message has come to the host's is what
    // Acquire is for.
    auto here = is_on_device_ ? queue_->Acquire() : queue_->CopyIn(BytesOf(in_), inputs);
    if (!here) return tl::make_unexpected(here.error());
    return is_on_device_ ? reinterpret_cast<const float*>(inputs.data()) : in_;
  }

  Result<void> Begin(uint32_t index, int64_t rows, std::span<const std::byte> inputs,
                     std::span<std::byte> outputs) {
    const LoadedModel& model = models_[index];
    const auto brought = BringIn(inputs);
    if (!brought) return tl::make_unexpected(brought.error());
    const float* const in = *brought;
    const float* result = out_;
    switch (model.spec.kind) {
      case Kind::kEcho:
        result = in;
        break;
      case Kind::kProduct: {
        const ModelSpec& s = model.spec;
        const float* b = in + Aligned(model.card.inputs[0].BytesFor(rows)) / sizeof(float);
        if (auto ran = queue_->Multiply(in, b, out_, s.m, s.k, s.n, false); !ran) return ran;
        break;
      }
      case Kind::kMlp: {
        const auto& widths = model.spec.layers;
        const size_t layers = widths.size() - 1;
        const float* from = in;
        for (size_t i = 0; i < layers; i++) {
          const bool last = i + 1 == layers;
          float* to = last ? out_ : hidden_[i % 2];
          if (auto ran =
                  queue_->Multiply(from, weights_[index][i], to, rows, widths[i], widths[i + 1], !last);
              !ran)
            return ran;
          from = to;
        }
        break;
      }
    }
    return queue_->CopyOut(outputs, reinterpret_cast<const std::byte*>(result));
  }

  const std::vector<LoadedModel>& models_;
  std::shared_ptr<CudaQueue> queue_;
  const bool is_on_device_;                   // inputs are delivered there
  std::span<std::byte> host_;                 // pinned
  std::vector<std::vector<float*>> weights_;  // by model and layer, on the device
  // On the device, as large as the largest request needs; no `in_` where inputs are delivered there.
  float *in_ = nullptr, *out_ = nullptr;
  float* hidden_[2] = {nullptr, nullptr};
};

class CudaEngine : public Engine {
 public:
  CudaEngine(const std::vector<ModelSpec>& specs, std::vector<CudaPlace> places,
             std::vector<CudaDevice> devices, std::unique_ptr<CudaDriver> driver)
      : driver_(std::move(driver)),
        places_(std::move(places)),
        devices_(std::move(devices)),
        models_(LoadModels(specs)) {
    for (const LoadedModel& model : models_) cards_.push_back(model.card);
  }
  const std::vector<ModelCard>& models() const override { return cards_; }

  std::string GpuOf(const SliceOffer& offer) const override {
    const auto place = PlaceOf(offer);
    if (place == places_.end()) return {};
    const CudaDevice& device = devices_[static_cast<size_t>(place - places_.begin())];
    return device.is_instance() ? device.gpu : device.uuid;
  }

  // A slice whose memory cannot be pinned is none.
  std::string MemoryOf(const SliceOffer&) const override { return "pinned-host"; }

  Result<std::unique_ptr<DeviceMemory>> MakeInputs(const SliceOffer& offer, uint64_t bytes) override {
    auto queue = Open(offer);
    if (!queue) return tl::make_unexpected(queue.error());
    const auto memory = (*queue)->AllocateShared(bytes);
    if (!memory) return Fail(memory.error().code, fmt::format("{} bytes: {}", bytes, memory.error().message));
    return std::make_unique<CudaInputs>(std::move(*queue), *memory);
  }

  Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer& offer,
                                                 const SliceMemory& memory) override {
    Result<std::shared_ptr<CudaQueue>> queue =
        memory.device != nullptr ? static_cast<CudaInputs*>(memory.device)->queue() : Open(offer);
    if (!queue) return tl::make_unexpected(queue.error());
    if (auto entered = (*queue)->Enter(); !entered) return tl::make_unexpected(entered.error());
    return CudaSlice::Make(models_, std::move(*queue), memory);
  }

 private:
  Result<std::shared_ptr<CudaQueue>> Open(const SliceOffer& offer) {
    const auto place = PlaceOf(offer);
    if (place == places_.end()) return Fail(ErrorCode::kBadInput, "it has no place on a device");
    return driver_->Open(devices_[static_cast<size_t>(place - places_.begin())], place->sm_percent);
  }
  [[nodiscard]] std::vector<CudaPlace>::const_iterator PlaceOf(const SliceOffer& offer) const {
    return std::find_if(places_.begin(), places_.end(), [&](const CudaPlace& one) {
      return one.gpu == offer.gpu && one.slice == offer.name;
    });
  }

  std::unique_ptr<CudaDriver> driver_;  // outlives the slices' queues
  std::vector<CudaPlace> places_;
  std::vector<CudaDevice> devices_;  // of each place
  std::vector<LoadedModel> models_;
  std::vector<ModelCard> cards_;
};

}  // namespace

bool IsCudaDevice(const std::string& text) {
  if (IndexOf(text)) return text.size() <= 4;
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  constexpr size_t kUuid = 36;
  if (text.size() != 4 + kUuid) return false;
  for (size_t i = 0; i < kUuid; i++) {
    const auto c = static_cast<unsigned char>(text[4 + i]);
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : std::isxdigit(c) == 0) return false;
  }
  return true;
}

Result<std::vector<CudaDevice>> FindCudaDevices(CudaDriver& driver, const std::vector<CudaPlace>& places) {
  const auto devices = driver.Devices();
  if (!devices) return Fail(devices.error().code, "engine cuda: " + devices.error().message);
  if (devices->empty()) return Fail(ErrorCode::kUnavailable, "engine cuda: this machine has no GPU");
  std::vector<CudaDevice> found;
  for (const CudaPlace& place : places) {
    const auto wrong = [&](const std::string& text) {
      const std::string where =
          place.where.empty() ? fmt::format("slice {}/{}", place.gpu, place.slice) : place.where;
      return Fail(ErrorCode::kBadInput, fmt::format("{}: device {}: {}", where, place.device, text));
    };
    const auto index = IndexOf(place.device);
    const auto device = std::find_if(devices->begin(), devices->end(), [&](const CudaDevice& one) {
      return index ? !one.is_instance() && one.index == *index : one.uuid == place.device;
    });
    if (device == devices->end()) return wrong("no such device, expected one of " + Listed(*devices));
    if (device->in_instances)
      return wrong("it is divided into MIG instances, expected one of " + Listed(*devices));
    if (device->is_instance() && place.sm_percent != 100)
      return wrong("sm_percent is allowed only for a whole GPU: a MIG instance has its own multiprocessors");
    const bool same_kind =
        found.empty() || found[0].uuid == device->uuid || (!found[0].is_instance() && !device->is_instance());
    if (!same_kind)
      return wrong("a process can use one MIG instance and no other device: run an executor for each");
    found.push_back(*device);
  }
  return found;
}

Result<std::unique_ptr<Engine>> MakeCudaEngine(const std::vector<ModelSpec>& models,
                                               std::vector<CudaPlace> places,
                                               std::unique_ptr<CudaDriver> driver) {
  auto devices = FindCudaDevices(*driver, places);
  if (!devices) return tl::make_unexpected(devices.error());
  if (auto used = driver->Use(*devices); !used) return tl::make_unexpected(used.error());
  return std::make_unique<CudaEngine>(models, std::move(places), std::move(*devices), std::move(driver));
}

}  // namespace spillway::gateway
