// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/link.h"

#include <fmt/format.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::gateway {
namespace {

// Beside those of requests that are under way: what breaks the rules is heard, too.
constexpr uint32_t kSpareBuffers = 2;
// A slice's memory is wiped by writes of zeros; of so many bytes, or an eighth of what a cell holds.
constexpr uint64_t kLeastZeros = 64 << 10;

uint64_t Parts(uint64_t bytes, uint64_t of) { return (bytes + of - 1) / of; }

}  // namespace

// How the memory of a slice's link is cut.
struct RdmaLink::Buffers {
  uint64_t inputs;       // of each cell
  uint64_t submissions;  // of each cell
  uint64_t given_up;     // of each cell, a request's number
  uint64_t zeros, zero_bytes;
  uint64_t answers, answer_bytes;  // `answer_count` of them
  uint32_t answer_count;
  uint64_t bytes;

  explicit Buffers(const SliceOffer& offer) {
    inputs = 0;
    submissions = offer.cells * Aligned(offer.input_bytes);
    given_up = submissions + offer.cells * sizeof(Submission);
    zeros = given_up + Aligned(offer.cells * sizeof(uint64_t));
    const uint64_t most = std::max(Aligned(offer.input_bytes), Aligned(offer.output_bytes));
    zero_bytes = std::min(most, std::max(kLeastZeros, Aligned(most / 8)));
    answers = zeros + zero_bytes;
    answer_bytes = sizeof(Completion) + Aligned(offer.output_bytes);
    answer_count = offer.cells + kSpareBuffers;
    bytes = answers + answer_count * answer_bytes;
  }
};

// Its members go in this order from the last: nothing is written to memory that is gone.
struct RdmaLink::Slice {
  Slice(const SliceOffer& slice, uint64_t key) : offer(slice), buffers(slice), cells(slice, key) {}

  // Work requests that may be under way.
  [[nodiscard]] uint32_t Depth(uint64_t most_at_once) const {
    const uint64_t writes = Parts(offer.input_bytes, most_at_once) + 1;
    const uint64_t wipes =
        Parts(offer.input_bytes, buffers.zero_bytes) + Parts(offer.output_bytes, buffers.zero_bytes);
    // Twice: an answer may be here before the device says that its request has left.
    return static_cast<uint32_t>(2 * offer.cells * (writes + wipes + 1));
  }

  // For a WRITE to `offset` of its memory. Nothing that is written lies in both parts.
  void Aim(ibv_send_wr& write, uint64_t offset) const {
    const uint64_t from = cells.layout().HostPart();
    if (offset < from)
      write.wr.rdma = {inputs + offset, inputs_key};
    else
      write.wr.rdma = {host + (offset - from), host_key};
  }

  SliceOffer offer;
  Buffers buffers;
  SliceCells cells;
  // Of its memory, there: the inputs' part, which may be a GPU's, and the rest.
  uint64_t inputs = 0, host = 0;
  uint32_t inputs_key = 0, host_key = 0;
  uint64_t most_message = 0;          // bytes that the device sends at once
  uint32_t depth = 0, under_way = 0;  // work requests
  bool established = false;
  Pages pages;  // until they are the memory
  PinnedMemory memory;
  rdma::Owned<rdma_cm_id> id;
};

RdmaLink::RdmaLink(const KeyedOffer& offer) {
  for (size_t i = 0; i < offer.offer.slices.size(); i++)
    slices_.emplace_back(offer.offer.slices[i], offer.keys[i]);
}

RdmaLink::~RdmaLink() {
  for (Slice& slice : slices_)
    if (slice.id != nullptr) rdma_disconnect(slice.id.get());
}

uint64_t RdmaLink::PinnedBytes(const ExecutorOffer& offer) {
  uint64_t bytes = 0;
  for (const SliceOffer& slice : offer.slices) bytes += Buffers(slice).bytes;
  return bytes;
}

Result<std::vector<Pages>> RdmaLink::MakePages(const ExecutorOffer& offer) {
  std::vector<Pages> all;
  for (const SliceOffer& slice : offer.slices) {
    auto pages = Pages::Make(Buffers(slice).bytes);
    if (!pages) return tl::make_unexpected(pages.error());
    all.push_back(std::move(*pages));
  }
  return all;
}

void RdmaLink::Hold(std::vector<Pages> pages) {
  for (size_t i = 0; i < slices_.size(); i++) slices_[i].pages = std::move(pages[i]);
}

Result<void> RdmaLink::Admit(rdma::Owned<rdma_cm_id>& id, const SliceHello& hello) {
  if (hello.slice >= slices_.size() || slices_[hello.slice].pages.bytes().empty())
    return Fail(ErrorCode::kBadInput, fmt::format("no slice {} is awaited", hello.slice));
  Slice& slice = slices_[hello.slice];
  const CellLayout& layout = slice.cells.layout();
  if (!IsRoomAt(hello.inputs, layout.HostPart()) || !IsRoomAt(hello.host, layout.Bytes() - layout.HostPart()))
    return Fail(ErrorCode::kBadInput, "the address of its memory is out of range");
  slice.inputs = hello.inputs;
  slice.host = hello.host;
  slice.inputs_key = hello.inputs_key;
  slice.host_key = hello.host_key;
  return Accept(slice, hello.slice, id);
}

Result<void> RdmaLink::OpenDevice(const rdma_cm_id& id, uint64_t most_message) {
  uint64_t entries = 0;
  for (const Slice& slice : slices_) entries += slice.Depth(most_message) + slice.buffers.answer_count;
  auto completions =
      Completions::Make(id.verbs, static_cast<uint32_t>(std::min<uint64_t>(entries, INT32_MAX)));
  if (!completions) return tl::make_unexpected(completions.error());
  domain_.reset(ibv_alloc_pd(id.verbs));
  if (domain_ == nullptr) return rdma::FailRdma("protection domain");
  completions_ = std::move(*completions);
  device_ = id.verbs;
  return {};
}

Result<void> RdmaLink::Accept(Slice& slice, uint32_t number, rdma::Owned<rdma_cm_id>& id) {
  ibv_port_attr port{};
  if ((errno = ibv_query_port(id->verbs, id->port_num, &port)) != 0) return rdma::FailRdma("port");
  slice.most_message = port.max_msg_sz;
  if (slice.buffers.answer_bytes > slice.most_message)
    return Fail(ErrorCode::kBadInput,
                fmt::format("slice {}: cells with {} bytes of outputs; the RDMA device sends {} at once",
                            slice.offer.name, slice.offer.output_bytes, slice.most_message));
  if (!completions_)
    if (auto opened = OpenDevice(*id, slice.most_message); !opened) return opened;
  if (id->verbs != device_) return Fail(ErrorCode::kBadInput, "its slices use several RDMA devices");
  slice.depth = slice.Depth(slice.most_message);
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.send_cq = queues.recv_cq = completions_->queue();
  queues.cap.max_send_wr = slice.depth;
  queues.cap.max_recv_wr = slice.buffers.answer_count;
  queues.cap.max_send_sge = queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id.get(), domain_.get(), &queues) != 0)
    return rdma::FailRdma(
        fmt::format("slice {}: a queue pair for {} requests at once", slice.offer.name, slice.depth));
  auto memory = PinnedMemory::Make(domain_.get(), std::move(slice.pages), IBV_ACCESS_LOCAL_WRITE);
  if (!memory) return tl::make_unexpected(memory.error());
  slice.memory = std::move(*memory);
  slice.id = std::move(id);
  for (uint32_t i = 0; i < slice.buffers.answer_count; i++)
    if (!Listen(slice, number, i)) return rdma::FailRdma("posting");
  const SliceWelcome welcome;
  rdma_conn_param answer{};
  answer.private_data = &welcome;
  answer.private_data_len = sizeof(welcome);
  answer.rnr_retry_count = kRetries;
  if (rdma_accept(slice.id.get(), &answer) != 0) return rdma::FailRdma("accepting");
  return {};
}

bool RdmaLink::complete() const { return established_ == slices_.size(); }

bool RdmaLink::Has(const rdma_cm_id* id) const {
  return std::any_of(slices_.begin(), slices_.end(),
                     [&](const Slice& slice) { return slice.id.get() == id; });
}

void RdmaLink::Established(const rdma_cm_id* id) {
  for (Slice& slice : slices_)
    if (slice.id.get() == id && !std::exchange(slice.established, true)) established_++;
}

void RdmaLink::Break(const std::string& why) {
  if (fault_.empty()) fault_ = why;
}

bool RdmaLink::Listen(Slice& slice, uint32_t number, uint32_t buffer) {
  ibv_sge into{slice.memory.Address(slice.buffers.answers + buffer * slice.buffers.answer_bytes),
               static_cast<uint32_t>(slice.buffers.answer_bytes), slice.memory.local_key()};
  ibv_recv_wr work{};
  work.wr_id = (uint64_t{number} << 32) | buffer;
  work.sg_list = &into;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(slice.id->qp, &work, &bad);
  return errno == 0;
}

bool RdmaLink::Deliver(const Delivery& delivery, uint32_t number) {
  Slice& slice = slices_[number];
  const auto submission = slice.cells.Describe(delivery);
  if (!submission || broken()) return false;
  std::vector<ibv_send_wr> work;
  std::vector<ibv_sge> local;
  // To `to` of the slice's memory, or as a message.
  const auto add = [&](ibv_wr_opcode what, uint64_t from, uint64_t bytes, uint64_t to) {
    local.push_back({slice.memory.Address(from), static_cast<uint32_t>(bytes), slice.memory.local_key()});
    ibv_send_wr& one = work.emplace_back();
    one = {};
    one.opcode = what;
    if (what == IBV_WR_RDMA_WRITE) slice.Aim(one, to);
  };
  if (delivery.wipe)
    for (const SliceCells::Range& range : slice.cells.TakeDirty())
      for (uint64_t done = 0; done < range.bytes; done += slice.buffers.zero_bytes)
        add(IBV_WR_RDMA_WRITE, slice.buffers.zeros, std::min(range.bytes - done, slice.buffers.zero_bytes),
            range.offset + done);
  const uint64_t inputs = slice.buffers.inputs + delivery.cell * Aligned(slice.offer.input_bytes);
  CopyInputs(delivery, slice.memory.bytes().data() + inputs);
  for (uint64_t done = 0; done < submission->input_bytes; done += slice.most_message)
    add(IBV_WR_RDMA_WRITE, inputs + done, std::min(submission->input_bytes - done, slice.most_message),
        submission->input_offset + done);
  const uint64_t message = slice.buffers.submissions + delivery.cell * sizeof(Submission);
  std::memcpy(slice.memory.bytes().data() + message, &*submission, sizeof(Submission));
  add(IBV_WR_SEND, message, sizeof(Submission), 0);
  for (size_t i = 0; i < work.size(); i++) {
    work[i].sg_list = &local[i];
    work[i].num_sge = 1;
    if (i + 1 < work.size()) work[i].next = &work[i + 1];
  }
  work.back().send_flags = IBV_SEND_SIGNALED;
  work.back().wr_id = (uint64_t{number} << 32) | work.size();
  if (slice.under_way + work.size() > slice.depth) Poll();
  ibv_send_wr* bad = nullptr;
  if (slice.under_way + work.size() > slice.depth || ibv_post_send(slice.id->qp, work.data(), &bad) != 0) {
    Break("its connection accepts no more work");
    return false;
  }
  slice.under_way += static_cast<uint32_t>(work.size());
  slice.cells.Fill(delivery);
  return true;
}

// Where there is no room for it, the slice runs what nobody wants.
void RdmaLink::GiveUp(uint32_t number, uint32_t cell, uint64_t id) {
  Slice& slice = slices_[number];
  if (broken()) return;
  if (slice.under_way + 1 > slice.depth) Poll();
  if (slice.under_way + 1 > slice.depth) return;
  const uint64_t from = slice.buffers.given_up + cell * sizeof(id);
  std::memcpy(slice.memory.bytes().data() + from, &id, sizeof(id));
  ibv_sge local{slice.memory.Address(from), sizeof(id), slice.memory.local_key()};
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE;
  work.sg_list = &local;
  work.num_sge = 1;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr_id = (uint64_t{number} << 32) | 1;
  slice.Aim(work, slice.cells.layout().GivenUp(cell));
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(slice.id->qp, &work, &bad) != 0) return Break("its connection accepts no more work");
  slice.under_way++;
}

void RdmaLink::Poll() {
  const bool good = completions_->Poll([&](const ibv_wc& done) {
    const auto number = static_cast<uint32_t>(done.wr_id >> 32), low = static_cast<uint32_t>(done.wr_id);
    if (done.status != IBV_WC_SUCCESS) return Break(fmt::format("RDMA: {}", ibv_wc_status_str(done.status)));
    if ((done.opcode & IBV_WC_RECV) != 0) {
      heard_.push_back({number, low, done.byte_len});
    } else {
      slices_[number].under_way -= low;
    }
  });
  if (!good) Break("RDMA: completions cannot be read");
}

bool RdmaLink::HasCompletions() {
  if (heard_.empty() && completions_) Poll();
  return !heard_.empty() || broken();
}

// What came before the end counts.
bool RdmaLink::TakeCompletions(const OnCompletion& on_completion) {
  // Those of requests that this leads to are for the next turn: others wait as well.
  if (!HasCompletions()) return !broken();
  for (size_t left = heard_.size(); left > 0; left--) {
    const Heard heard = heard_.front();
    heard_.pop_front();
    if (TakeOne(heard, on_completion)) continue;
    Break("it sent invalid messages");
    heard_.clear();
    return false;
  }
  return !broken();
}

bool RdmaLink::TakeOne(const Heard& heard, const OnCompletion& on_completion) {
  Slice& slice = slices_[heard.slice];
  const auto answer = slice.memory.bytes().subspan(
      slice.buffers.answers + heard.buffer * slice.buffers.answer_bytes, heard.bytes);
  Completion completion;
  if (answer.size() < sizeof(completion)) return false;
  std::memcpy(&completion, answer.data(), sizeof(completion));
  if (completion.output_bytes != answer.size() - sizeof(completion) ||
      completion.output_bytes > slice.offer.output_bytes || !slice.cells.Free(completion.id))
    return false;
  on_completion(heard.slice, completion, answer.subspan(sizeof(completion)));
  if (!broken() && !Listen(slice, heard.slice, heard.buffer)) Break("its connection accepts no more work");
  return true;
}

bool RdmaLink::PrepareToWait() {
  completions_->Arm();
  if (!HasCompletions()) return true;
  DoneWaiting();
  return false;
}

}  // namespace spillway::gateway
