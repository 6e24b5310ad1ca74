// SPDX-License-Identifier: Apache-2.0
// What python/spillway/__init__.py is made of: a slice that is a Python program (ProgramSlice), and a client,
// with a window or by frames (Client). Memory is handed out as memoryviews, without a copy.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "gateway/client.h"
#include "gateway/executor/nvml.h"
#include "gateway/executor/program_gpu.h"
#include "gateway/executor/program_slice.h"

namespace py = pybind11;
namespace gw = spillway::gateway;

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Where Python looks whether somebody pressed Ctrl-C, between waits.
constexpr milliseconds kWait{200};

// An exception of spillway/errors.py.
template <class... Arguments>
[[noreturn]] void Raise(const char* kind, const Arguments&... arguments) {
  const py::object type = py::module_::import("spillway.errors").attr(kind);
  PyErr_SetObject(type.ptr(), type(arguments...).ptr());
  throw py::error_already_set();
}

[[noreturn]] void Raise(const spillway::Error& error) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();  // a signal's handler raised
  switch (error.code) {
    case spillway::ErrorCode::kBadInput:
      Raise("BadArgument", error.message);
    case spillway::ErrorCode::kConflict:
      Raise("Refused", "conflict", error.message);
    default:
      Raise("GatewayGone", error.message);
  }
}

gw::TensorCard Card(const std::string& name, const std::string& type, std::vector<int64_t> shape) {
  const auto parsed = gw::ParseDataType(type);
  if (!parsed) Raise("BadArgument", "expected a datatype such as FP32, got " + type);
  return {name, *parsed, std::move(shape)};
}

std::span<const std::byte> BytesOf(const py::buffer_info& info) {
  return {static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize)};
}

// Of this process.
std::string GpuOf(const std::string& named, uint32_t ordinal) {
  gw::GpuWishes wishes{named};
  wishes.ordinal = ordinal;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) wishes.visible = visible;
  if (const char* order = std::getenv("CUDA_DEVICE_ORDER"))
    wishes.by_bus = std::string_view(order) == "PCI_BUS_ID";
  // No driver: no GPU.
  const auto devices = gw::ListNvmlDevices();
  const auto gpu = gw::ProgramGpu(wishes, devices ? *devices : std::vector<gw::CudaDevice>());
  if (!gpu) Raise(gpu.error());
  return *gpu;
}

class Program {
 public:
  Program(const std::string& gateway, const std::string& token, const std::string& name,
          const std::string& model, const std::string& type, std::vector<int64_t> shape,
          const std::string& output_type, std::vector<int64_t> output_shape, const std::string& gpu,
          uint32_t ordinal, uint32_t most_batch) {
    gw::ProgramSlice::Options options;
    options.gateway = {gateway, token};
    options.name = name;
    options.gpu_uuid = GpuOf(gpu, ordinal);
    options.cells = 2 * most_batch;  // the next batch's data comes while this one's is worked on
    options.model.name = model;
    options.model.platform = "python";
    options.model.inputs = {Card("input", type, std::move(shape))};
    options.model.outputs = {Card("output", output_type, std::move(output_shape))};
    // What the gateway would refuse is told here, in the caller's words.
    const auto card = gw::ParseModelCard(gw::ToJson(options.model));
    if (!card) Raise(card.error());
    auto joined = gw::ProgramSlice::Join(options);
    if (!joined) Raise(joined.error());
    slice_.emplace(std::move(*joined));
    most_batch_ = most_batch;
  }

  // The next requests' inputs, writable, where the gateway has put them: the first, and what comes within
  // `delay_us` after it.
  py::list Take(int64_t delay_us) {
    py::list batch;
    const auto take = [&](auto call) {
      spillway::Result<std::optional<gw::ProgramSlice::Taken>> taken =
          std::optional<gw::ProgramSlice::Taken>();
      {
        const py::gil_scoped_release others;
        taken = call();
      }
      if (!taken) Raise(taken.error());
      if (*taken)
        batch.append(py::memoryview::from_memory((*taken)->inputs.data(),
                                                 static_cast<py::ssize_t>((*taken)->inputs.size())));
      return taken->has_value();
    };
    while (!take([&] { return slice_->Take(kWait); }))
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    const auto end = std::chrono::steady_clock::now() + microseconds(delay_us);
    const auto left = [&] {
      return std::chrono::duration_cast<microseconds>(end - std::chrono::steady_clock::now());
    };
    while (batch.size() < most_batch_ && take([&] { return slice_->TakeAnother(left()); })) {
    }
    return batch;
  }
  size_t InHand() const { return slice_->in_hand(); }
  void Answer(const py::buffer& outputs) {
    const py::buffer_info info = outputs.request();
    if (auto answered = slice_->Answer(BytesOf(info)); !answered) Raise(answered.error());
  }
  void Refuse(const std::string& text) { slice_->Refuse(text); }
  void AnswerFirst(const py::buffer& outputs) {
    const py::buffer_info info = outputs.request();
    if (auto answered = slice_->AnswerFirst(BytesOf(info)); !answered) Raise(answered.error());
  }
  void RefuseFirst(const std::string& text) { slice_->RefuseFirst(text); }

 private:
  std::optional<gw::ProgramSlice> slice_;
  size_t most_batch_ = 1;
};

class PyClient {
 public:
  // `rdma`: over TCP, whether there must be a window, may be one (no value), or is to be none.
  PyClient(const std::string& address, const std::string& tenant, const std::string& token, uint64_t window,
           std::optional<bool> rdma) {
    gw::Client::Options options{tenant, token};
    options.is_interrupted = [] {
      const py::gil_scoped_acquire gil;
      return PyErr_CheckSignals() != 0;  // sets what is to be raised
    };
    auto client = WithoutGil([&] { return gw::Client::Connect(address, options); });
    if (!client) Raise(client.error());
    client_ = std::make_unique<gw::Client>(std::move(*client));
    const bool is_tcp = !address.starts_with("unix:");
    why_frames_ = is_tcp && rdma == false ? "rdma=False" : "";
    if (!why_frames_.empty()) return;
    if (auto opened = WithoutGil([&] { return client_->OpenWindow(window); }); !opened) {
      if (!is_tcp || rdma == true) Raise(opened.error());
      why_frames_ = opened.error().message;
    }
  }

  std::string Way() const {
    constexpr const char* kWords[] = {"frames", "window", "rdma"};
    return kWords[static_cast<size_t>(client_->way())];
  }
  std::string WhyFrames() const { return why_frames_; }

  // [(name, datatype, shape)] of inputs and of outputs, and the model's number.
  py::tuple Describe(const std::string& name) {
    const auto model = WithoutGil([&] { return client_->Describe(name); });
    if (!model) Raise(model.error());
    const auto list = [](const std::vector<gw::TensorCard>& cards) {
      py::list out;
      for (const gw::TensorCard& card : cards)
        out.append(py::make_tuple(card.name, std::string(gw::ToString(card.type)), card.shape));
      return out;
    };
    cards_[model->index] = model->card;
    return py::make_tuple(model->index, list(model->card.inputs), list(model->card.outputs));
  }

  py::tuple Allocate(uint64_t bytes) {
    const auto offset = WithoutGil([&] { return client_->Allocate(bytes); });
    if (!offset)
      Raise("WindowFull", fmt::format("{} bytes do not fit into what is free of the window's {}", bytes,
                                      client_->window().size()));
    return py::make_tuple(*offset, py::memoryview::from_memory(client_->window().data() + *offset,
                                                               static_cast<py::ssize_t>(bytes)));
  }
  void Free(uint64_t offset) {
    WithoutGil([&] { client_->Free(offset); });
  }

  // Bytes that were written at `output`.
  uint64_t Infer(uint32_t model, uint32_t rows, uint64_t input, uint64_t bytes, uint64_t output,
                 uint64_t output_bytes, uint64_t deadline_us) {
    const auto result = WithoutGil([&] {
      return client_->InferInWindow(model, rows, input, bytes, output, output_bytes,
                                    std::chrono::microseconds(deadline_us));
    });
    RaiseUnlessOk(result);
    return result->output_bytes;
  }

  // The same by frames: the outputs.
  py::bytes InferInFrames(uint32_t model, uint32_t rows, const py::buffer& inputs, uint64_t deadline_us) {
    const py::buffer_info info = inputs.request();
    const auto bytes = BytesOf(info);
    const auto result = WithoutGil(
        [&] { return client_->Infer(model, rows, bytes, std::chrono::microseconds(deadline_us)); });
    RaiseUnlessOk(result);
    return py::bytes(reinterpret_cast<const char*>(result->outputs.data()), result->outputs.size());
  }

 private:
  // Other threads of Python go on; those that use this client wait for one another.
  template <class Work>
  std::invoke_result_t<const Work&> WithoutGil(const Work& work) {
    const py::gil_scoped_release others;
    const std::lock_guard one(mutex_);
    return work();
  }
  static void RaiseUnlessOk(const spillway::Result<gw::InferResult>& result) {
    if (!result) Raise(result.error());
    if (result->status == gw::Status::kBadRequest) Raise("BadArgument", result->message);
    if (result->status != gw::Status::kOk)
      Raise("Refused", std::string(gw::FactsOf(result->status).word), result->message,
            static_cast<double>(result->retry_after.count()) / 1000);
  }

  std::mutex mutex_;  // a client is used by one thread at a time
  std::unique_ptr<gw::Client> client_;
  std::string why_frames_;
  std::map<uint32_t, gw::ModelCard> cards_;
};

}  // namespace

PYBIND11_MODULE(_spillway, module) {
  py::class_<Program>(module, "Program")
      .def(py::init<const std::string&, const std::string&, const std::string&, const std::string&,
                    const std::string&, std::vector<int64_t>, const std::string&, std::vector<int64_t>,
                    const std::string&, uint32_t, uint32_t>())
      .def("take", &Program::Take)
      .def("in_hand", &Program::InHand)
      .def("answer", &Program::Answer)
      .def("refuse", &Program::Refuse)
      .def("answer_first", &Program::AnswerFirst)
      .def("refuse_first", &Program::RefuseFirst);
  py::class_<PyClient>(module, "Client")
      .def(py::init<const std::string&, const std::string&, const std::string&, uint64_t,
                    std::optional<bool>>())
      .def("way", &PyClient::Way)
      .def("why_frames", &PyClient::WhyFrames)
      .def("describe", &PyClient::Describe)
      .def("allocate", &PyClient::Allocate)
      .def("free", &PyClient::Free)
      .def("infer", &PyClient::Infer)
      .def("infer_in_frames", &PyClient::InferInFrames);
}
