// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/v2_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "gateway/protocol/v2_entry.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;

// Of all that is no list of data. A request for 16 inputs and outputs, the most a model has, needs some 600
// values, and names of up to 64 characters.
constexpr size_t kMaxValues = 4096;
constexpr size_t kMaxText = 64 << 10;  // of names and texts together, and of one number
constexpr size_t kDeepest = 16;
constexpr uint64_t kCountedBeyond = 1000;  // values too many are told up to here

// The library keeps a token until it is whole: none may be as long as the body.
bool HasLongToken(std::string_view text) {
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (quoted && c == '\\') {
      i++;
    } else if (c == '"' ||
               (!quoted && (c == ',' || c == ':' || c == '[' || c == ']' || c == '{' || c == '}'))) {
      if (i - start > kMaxText) return true;
      start = i;
      if (c == '"') quoted = !quoted;
    }
  }
  return text.size() - start > kMaxText;
}

// A body's bytes as the parser reads them: what separates tokens is one space, however long it is. The parser
// keeps all that it has read since the last number or text, and writes it out, a control character as eight,
// where the next byte is wrong.
class Condensed {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  using iterator_category = std::input_iterator_tag;

  Condensed(const char* at, const char* end) : at_(at), end_(end) {}
  char operator*() const { return quoted_ || !IsSpace(*at_) ? *at_ : ' '; }
  Condensed& operator++() {
    if (quoted_) {
      if (!escaped_ && *at_ == '"') quoted_ = false;
      escaped_ = !escaped_ && *at_ == '\\';
    } else if (*at_ == '"') {
      quoted_ = true;
    } else if (IsSpace(*at_)) {
      while (at_ + 1 != end_ && IsSpace(at_[1])) ++at_;
    }
    ++at_;
    return *this;
  }
  bool operator==(const Condensed& other) const { return at_ == other.at_; }
  const char* at() const { return at_; }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  const char *at_, *end_;
  bool quoted_ = false, escaped_ = false;
};

// Of the byte that the parser calls the `read`-th, the number in the body.
size_t InBody(std::string_view text, size_t read) {
  const char* end = text.data() + text.size();
  Condensed at(text.data(), end);
  for (size_t i = 1; i < read && at.at() != end; i++) ++at;
  return std::min(static_cast<size_t>(at.at() - text.data()) + 1, text.size());
}

template <class T>
bool TakeValue(const json& value, T& into) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
    into = value.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return false;
    const auto number = value.get<double>();
    if (std::is_same_v<T, float> && std::abs(number) > std::numeric_limits<float>::max()) return false;
    into = static_cast<T>(number);
  } else if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
    into = static_cast<T>(number);
  } else {
    if (!value.is_number_integer() || std::is_unsigned_v<T>) return false;
    const auto number = value.get<int64_t>();
    if (number < static_cast<int64_t>(std::numeric_limits<T>::lowest())) return false;
    into = static_cast<T>(number);
  }
  return true;
}

// The values of one input, row-major: flat, or nested as the shape says, since as many numbers in other rows
// are other data. Every call is false as soon as something is wrong, which `wrong` then says.
class DataList {
 public:
  // `most_values`: as many as can still come.
  DataList(const TensorCard& card, int64_t rows, uint64_t most_values)
      : card_(card),
        shape_(card.ShapeOf(rows)),
        held_(shape_.size()),
        expected_(card.BytesFor(rows) / BytesOf(card.type)) {
    bytes_.reserve(std::min(expected_, most_values) * BytesOf(card.type));
  }

  bool Open() {
    if (depth_ > 0) {
      if (!nested_ && seen_ > 0) return Misnested();
      nested_ = true;
      if (!Hold()) return Misnested();
    }
    if (depth_ == shape_.size()) return Misnested();
    held_[depth_++] = 0;
    return true;
  }
  bool Close() {
    depth_--;
    if (nested_) return held_[depth_] == shape_[depth_] || Misnested();
    return seen_ == expected_ || Wrong(std::to_string(seen_));
  }
  bool Add(const json& value) {
    if (nested_ && (depth_ != shape_.size() || !Hold())) return Misnested();
    const bool good = WithType(card_.type, [&](auto typed) {
      if (!TakeValue(value, typed)) return false;
      const auto* at = reinterpret_cast<const std::byte*>(&typed);
      if (seen_ < expected_) bytes_.insert(bytes_.end(), at, at + sizeof(typed));
      return true;
    });
    if (!good) return Wrong(fmt::format("{} as value {}", Shown(value), seen_));
    if (++seen_ > expected_ + kCountedBeyond) return Wrong(fmt::format("more than {}", seen_ - 1));
    return true;
  }

  std::vector<std::byte>& bytes() { return bytes_; }
  const std::string& wrong() const { return wrong_; }

 private:
  bool Hold() { return ++held_[depth_ - 1] <= shape_[depth_ - 1]; }
  bool Misnested() {
    wrong_ = fmt::format("input {}: data is not nested as its shape {} says", card_.name, Shown(shape_));
    return false;
  }
  bool Wrong(const std::string& got) {
    wrong_ = fmt::format("input {}: expected {} values of {}, got {}", card_.name, expected_,
                         ToString(card_.type), got);
    return false;
  }

  const TensorCard& card_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> held_;  // by the lists that are open
  uint64_t expected_;
  uint64_t seen_ = 0;
  size_t depth_ = 0;
  bool nested_ = false;
  std::vector<std::byte> bytes_;
  std::string wrong_;
};

// What the library's parser calls, with the meaning that its names say; false ends it.
class Reader {
 public:
  // `known`: the head, from an earlier pass; without one, data that comes before the tensor's name, datatype
  // or shape is only counted, and `again()` says so.
  Reader(const ModelCard& model, std::string_view text, uint64_t most_bytes, const json* known)
      : model_(model), text_(text), most_bytes_(most_bytes), known_(known) {
    body_.data.resize(model.inputs.size());
    for (const TensorCard& card : model.inputs)
      most_values_ =
          std::max(most_values_, std::min(card.BytesFor(model.most_rows), most_bytes) / BytesOf(card.type));
  }

  bool null() { return Value(nullptr); }
  bool boolean(bool value) { return Value(value); }
  bool number_integer(json::number_integer_t value) { return Value(value); }
  bool number_unsigned(json::number_unsigned_t value) { return Value(value); }
  bool number_float(json::number_float_t value, const std::string&) { return Value(value); }
  bool string(std::string& value) { return Spend(value) && Value(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // no JSON

  bool start_object(size_t) {
    if (data_depth_ > 0)
      return data_ ? Added(data_->Add(json::object()))
                   : Refuse("inputs: expected numbers as data, got an object");
    return Enter(json::object());
  }
  bool key(std::string& name) {
    if (path_.back()->contains(name))
      return Refuse(fmt::format("expected each name once, got {} twice", Shown(json(name))));
    if (path_.size() == 1) section_ = name;
    key_ = std::move(name);
    return Spend(key_);
  }
  bool end_object() { return Leave(); }
  bool start_array(size_t) {
    if (data_depth_ > 0) {
      // Nothing is known of a list that is only counted, but no tensor has more extents.
      if (++data_depth_ > kDeepest) return TooDeep();
      return !data_ || Added(data_->Open());
    }
    const bool is_data = path_.size() == 3 && section_ == "inputs" && path_[1]->is_array() &&
                         path_[2]->is_object() && key_ == "data";
    return is_data ? Put(json::array()) != nullptr && StartData() : Enter(json::array());
  }
  bool end_array() {
    if (data_depth_ == 0) return Leave();
    data_depth_--;
    if (!data_) return true;
    if (!Added(data_->Close())) return false;
    if (data_depth_ == 0) {
      body_.data[input_] = std::move(data_->bytes());
      data_.reset();
    }
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const json::exception& error) {
    constexpr int kNumberTooLarge = 406;
    if (path_.empty() && body_.head.is_object()) return Refuse(BytesAfter());
    return Refuse(fmt::format("invalid JSON at byte {} of {}{}", InBody(text_, byte), text_.size(),
                              error.id == kNumberTooLarge ? ": number out of range" : ""));
  }

  // The parser takes a zero byte for the end; within a JSON object it has refused it.
  bool ReachedTheEnd() { return text_.find('\0') == std::string_view::npos || Refuse(BytesAfter()); }

  const std::optional<Error>& refused() const { return refused_; }
  bool again() const { return again_; }
  V2Body& body() { return body_; }

 private:
  bool Refuse(const std::string& text) {
    refused_ = Fail(ErrorCode::kBadInput, text).value();
    return false;
  }
  static std::string BytesAfter() {
    return "expected a JSON object and nothing after it, got further bytes (binary data after it needs the "
           "header Inference-Header-Content-Length, the size of the JSON object)";
  }
  bool TooDeep() {
    return Refuse(fmt::format("expected a JSON object nested at most {} deep, got a deeper one", kDeepest));
  }
  bool Added(bool good) { return good || Refuse(data_->wrong()); }

  bool Spend(const std::string& text) {
    spent_ += text.size();
    return spent_ <= kMaxText ||
           Refuse(fmt::format("expected a JSON object of at most {} bytes of names and texts, got more",
                              kMaxText));
  }

  json* Put(json value) {
    if (path_.empty()) return &(body_.head = std::move(value));
    json& top = *path_.back();
    // One too many is one that the model has not, or has it twice, or names none.
    if (path_.size() == 2 && section_ == "inputs" && top.is_array() && top.size() > model_.inputs.size()) {
      const auto found = FindInputs(model_, body_.head);
      Refuse(found ? "inputs: expected fewer" : found.error().message);
      return nullptr;
    }
    if (++values_ > kMaxValues) {
      Refuse(
          fmt::format("expected a JSON object of at most {} values apart from data, got more", kMaxValues));
      return nullptr;
    }
    if (top.is_object()) return &(top[key_] = std::move(value));
    top.push_back(std::move(value));
    return &top.back();
  }
  bool Value(json value) {
    if (data_depth_ == 0) return Put(std::move(value)) != nullptr;
    if (data_) return Added(data_->Add(value));
    return ++counted_ <= most_values_ + kCountedBeyond ||
           Refuse(fmt::format("inputs: expected at most {} values as data of an input, got more than {}",
                              most_values_, counted_ - 1));
  }
  bool Enter(json empty) {
    if (path_.size() == kDeepest) return TooDeep();
    json* put = Put(std::move(empty));
    if (put == nullptr) return false;
    path_.push_back(put);
    return true;
  }
  bool Leave() {
    if (data_depth_ == 0) path_.pop_back();
    return true;
  }

  bool StartData() {
    data_depth_ = 1;
    counted_ = 0;
    const json& entry = known_ == nullptr ? *path_.back() : (*known_)["inputs"][path_[1]->size() - 1];
    if (known_ == nullptr &&
        !(entry.contains("name") && entry.contains("datatype") && entry.contains("shape"))) {
      again_ = true;
      return true;
    }
    const auto input = InputOf(model_, entry);
    if (!input) return Refuse(input.error().message);
    const TensorCard& card = model_.inputs[*input];
    const auto rows = RowsOf(model_, card, entry);
    if (!rows) return Refuse(rows.error().message);
    if (card.type == DataType::kF16 || card.type == DataType::kBf16)
      return Refuse(fmt::format("input {}: {} has no JSON form, expected binary_data_size", card.name,
                                ToString(card.type)));
    if (const uint64_t bytes = model_.InputBytes(*rows); bytes > most_bytes_) {
      body_.too_large = bytes;
      return false;
    }
    input_ = *input;
    data_.emplace(card, *rows, text_.size() / 2 + 1);
    return Added(data_->Open());
  }

  const ModelCard& model_;
  std::string_view text_;
  uint64_t most_bytes_;
  const json* known_;
  uint64_t most_values_ = 0;

  V2Body body_;
  std::vector<json*> path_;  // what is open, apart from data; pointers hold, since only the last one grows
  std::string section_;      // the key of the object itself under which we are
  std::string key_;
  size_t values_ = 0, spent_ = 0;
  size_t data_depth_ = 0;  // of lists in a list of data; 0: in none
  uint64_t counted_ = 0;   // values of data that are only counted
  std::optional<DataList> data_;
  size_t input_ = 0;
  bool again_ = false;
  std::optional<Error> refused_;
};

}  // namespace

Result<V2Body> ReadV2Body(const ModelCard& model, std::string_view text, uint64_t most_bytes) {
  if (HasLongToken(text))
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("expected a JSON object whose names, texts and numbers have at most {} bytes each, got a "
                    "longer one",
                    kMaxText));
  std::optional<json> known;
  while (true) {
    Reader reader(model, text, most_bytes, known ? &*known : nullptr);
    const char* end = text.data() + text.size();
    if (json::sax_parse(Condensed(text.data(), end), Condensed(end, end), &reader)) reader.ReachedTheEnd();
    if (reader.refused()) return tl::make_unexpected(*reader.refused());
    if (!reader.body().head.is_object())
      return Fail(ErrorCode::kBadInput, "expected a JSON object, got " + Shown(reader.body().head));
    if (!reader.again() || reader.body().too_large) return std::move(reader.body());
    known = std::move(reader.body().head);
  }
}

}  // namespace spillway::gateway
