// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/v2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "v2_cards.h"

namespace spillway::gateway {
namespace {

using testing::HasSubstr;

constexpr const char* kRequest = R"({"id": "42", "inputs": [
  {"name": "input0", "shape": [2, 2], "datatype": "UINT32", "data": [1, 2, 3, 4]},
  {"name": "input1", "shape": [3], "datatype": "BOOL", "data": [true, false, true]}],
  "outputs": [{"name": "output0"}]})";

std::string ErrorOf(const ModelCard& card, const std::string& body, std::optional<uint64_t> json = {}) {
  const auto request = ParseV2Request(card, body, json);
  EXPECT_FALSE(request) << body;
  return request ? "" : request.error().message;
}
std::string With(const std::string& input) { return "{\"inputs\": [" + input + "]}"; }

TEST(V2, ReadsTheProtocolsExample) {
  const auto request = ParseV2Request(ProtocolCard(), kRequest, {});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->id, "42");
  ASSERT_EQ(request->inputs.size(), 64u + 3u);
  uint32_t numbers[4];
  std::memcpy(numbers, request->inputs.data(), sizeof(numbers));
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(request->inputs[64], std::byte{1});
  EXPECT_EQ(request->inputs[65], std::byte{0});
}

// By another executor's card, or a broken executor's count: nothing behind what came is read.
TEST(V2, OutputsOfAnotherSizeThanTheModelsAreAnErrorAndNotCut) {
  const auto request = ParseV2Request(ProtocolCard(), kRequest, {});
  ASSERT_TRUE(request);
  for (const size_t bytes : {size_t{0}, size_t{23}, size_t{25}}) {
    const auto made = MakeV2Response(ProtocolCard(), *request, std::vector<std::byte>(bytes));
    ASSERT_FALSE(made) << bytes;
    EXPECT_THAT(made.error().message, HasSubstr("expected 24"));
  }
}

TEST(V2, NestedAndFlatDataAreTheSame) {
  const std::string entry = R"({"name": "input", "shape": [2, 2], "datatype": "FP32", "data": )";
  const auto flat = ParseV2Request(BatchedCard(3), With(entry + "[1, 2, 3.5, 4]}"), {});
  const auto nested = ParseV2Request(BatchedCard(3), With(entry + "[[1, 2], [3.5, 4]]}"), {});
  ASSERT_TRUE(flat && nested);
  EXPECT_EQ(flat->inputs, nested->inputs);
  for (const char* other :
       {"[[1, 2, 3.5, 4]]}", "[[1], [2], [3.5], [4]]}", "[[1, 2], 3.5, 4]}", "[1, [2, 3.5, 4]]}"})
    EXPECT_THAT(ErrorOf(BatchedCard(3), With(entry + other)), testing::HasSubstr("not nested as its shape"));
  EXPECT_EQ(flat->rows, 2);
}

TEST(V2, BinaryTensorsComeInTheRequestsOrder) {
  const std::string json = R"({"inputs": [
    {"name": "input1", "shape": [3], "datatype": "BOOL", "parameters": {"binary_data_size": 3}},
    {"name": "input0", "shape": [2, 2], "datatype": "UINT32", "parameters": {"binary_data_size": 16}}]})";
  std::string body = json + std::string("\1\0\1", 3) + std::string(16, 'x');
  const auto request = ParseV2Request(ProtocolCard(), body, json.size());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->inputs[0], std::byte{'x'});
  EXPECT_EQ(request->inputs[64], std::byte{1});
  EXPECT_THAT(ErrorOf(ProtocolCard(), body + "y", json.size()), HasSubstr("1 bytes are left"));
  body.pop_back();
  EXPECT_THAT(ErrorOf(ProtocolCard(), body, json.size()),
              HasSubstr("expected 16 bytes behind the JSON, got 15"));
  EXPECT_THAT(ErrorOf(ProtocolCard(), body, body.size() + 1), HasSubstr("Inference-Header-Content-Length"));
}

TEST(V2, EveryWrongThingHasItsName) {
  const auto fp32 = [](const char* shape, const char* data, const char* type = "FP32") {
    return With(std::string(R"({"name": "input", "shape": )") + shape + R"(, "datatype": ")" + type +
                R"(", "data": )" + data + "}");
  };
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{\"inputs\": ["), "invalid JSON at byte 12 of 12");
  EXPECT_THAT(ErrorOf(BatchedCard(3), fp32("[1, 2]", "[1, 1e999]")), HasSubstr(": number out of range"));
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{\n\n\n\n\"a  b\" : \n\n\t!}"), "invalid JSON at byte 18 of 19");
  for (const std::string& after : {std::string("\0garbage", 8), std::string("x"), std::string("{}")})
    EXPECT_THAT(ErrorOf(BatchedCard(3), fp32("[1, 2]", "[1, 2]") + after),
                HasSubstr("needs the header Inference-Header-Content-Length"));
  EXPECT_EQ(ErrorOf(BatchedCard(3), "[]"), "expected a JSON object, got []");
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{}"), "inputs: expected a list of tensors, got nothing");
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{\"inputs\": []}"), "input input: missing, expected inputs input");
  EXPECT_EQ(ErrorOf(BatchedCard(3), With("3")), "inputs: expected a tensor with a name, got 3");
  EXPECT_THAT(ErrorOf(BatchedCard(3), With(R"({"name": "other"})")),
              HasSubstr("model rows has no input \"other\", expected input"));
  EXPECT_THAT(ErrorOf(BatchedCard(3), fp32("[1, 2]", "[1, 2]", "INT8")),
              HasSubstr("input input: expected datatype FP32, got \"INT8\""));
  for (const char* shape : {"[1,3]", "[2]", "[0,2]", "[4,2]", "[1.5,2]", "\"[1, 2]\"", "[-1,2]"})
    EXPECT_EQ(ErrorOf(BatchedCard(3), fp32(shape, "[1, 2]")),
              std::string("input input: expected shape [-1,2] with 1 to 3 rows, got ") + shape);
  const std::pair<const char*, const char*> data[] = {
      {"[1]", "1"},
      {"[1, 2, 3]", "3"},
      {"[1, \"2\"]", "\"2\" as value 1"},
      {"[1, null]", "null as value 1"},
      {"[1, true]", "true as value 1"},
      {"[[1, 1e99]]", "1e+99 as value 1"},
  };
  for (const auto& [given, got] : data)
    EXPECT_EQ(ErrorOf(BatchedCard(3), fp32("[1, 2]", given)),
              std::string("input input: expected 2 values of FP32, got ") + got);
  EXPECT_EQ(ErrorOf(BatchedCard(3), fp32("[1, 2]", "7")), "input input: expected data, a list, got 7");
  EXPECT_EQ(ErrorOf(BatchedCard(3), With(R"({"name": "input", "shape": [1, 2], "datatype": "FP32"})")),
            "input input: expected data, a list, got nothing");
  EXPECT_EQ(ErrorOf(BatchedCard(3),
                    With(R"({"name": "input", "shape": [1, 2], "datatype": "FP32", "parameters": []})")),
            "input input: parameters: expected an object, got []");
}

TEST(V2, IntegersKeepTheirRange) {
  ModelCard card = BatchedCard(3);
  card.inputs = {{"input", DataType::kI8, {2}}};
  const auto request = [](const char* data) {
    return With(std::string(R"({"name": "input", "shape": [2], "datatype": "INT8", "data": )") + data + "}");
  };
  EXPECT_TRUE(ParseV2Request(card, request("[-128, 127]"), {}));
  EXPECT_FALSE(ParseV2Request(card, request("[-129, 0]"), {}));
  EXPECT_FALSE(ParseV2Request(card, request("[0, 128]"), {}));
  EXPECT_FALSE(ParseV2Request(card, request("[0, 1.0]"), {}));
}

TEST(V2, DeepNestingIsRefusedNotFollowed) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_THAT(
      ErrorOf(BatchedCard(3),
              With(R"({"name": "input", "shape": [1, 2], "datatype": "FP32", "data": )" + deep + "}")),
      HasSubstr("not nested as its shape"));
}

std::string Many(size_t count, const std::string& what) {
  std::string list = "[";
  for (size_t i = 0; i < count; i++) list += (i == 0 ? "" : ",") + what;
  return list + "]";
}
std::string Filled(const std::string& shape, const std::string& data) {
  return With(R"({"name": "input", "shape": )" + shape + R"(, "datatype": "FP32", "data": )" + data + "}");
}

TEST(V2, DataThatIsTooLongIsRefusedBeforeItsEnd) {
  // The texts break off: who reads to their ends says so.
  EXPECT_EQ(ErrorOf(BatchedCard(3), Filled("[1, 2]", "[" + std::string(100'000, '[')).substr(0, 50'000)),
            "input input: data is not nested as its shape [1,2] says");
  EXPECT_EQ(ErrorOf(BatchedCard(3), Filled("[1, 2]", Many(5000, "1")).substr(0, 9000)),
            "input input: expected 2 values of FP32, got more than 1002");
  EXPECT_EQ(ErrorOf(BatchedCard(3), Filled("[1, 2]", Many(5000, "[1, 2]")).substr(0, 9000)),
            "input input: data is not nested as its shape [1,2] says");
  EXPECT_EQ(ErrorOf(BatchedCard(3), Filled("[1, 2]", "[\"x\", ")),
            "input input: expected 2 values of FP32, got \"x\" as value 0");
  EXPECT_EQ(ErrorOf(BatchedCard(3), With("{\"data\": " + Many(5000, "1").substr(0, 9000))),
            "inputs: expected at most 6 values as data of an input, got more than 1006");
}

TEST(V2, WhatIsNoDataIsBounded) {
  EXPECT_EQ(ErrorOf(BatchedCard(3), std::string(1000, '[')),
            "expected a JSON object nested at most 16 deep, got a deeper one");
  EXPECT_EQ(ErrorOf(BatchedCard(3), With(R"({"name": "input", "shape": )" + std::string(1000, '['))),
            "expected a JSON object nested at most 16 deep, got a deeper one");
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{\"inputs\": [{}, {}, {"),
            "inputs: expected a tensor with a name, got name nothing");
  const std::string one = R"({"name": "input"})";
  EXPECT_EQ(ErrorOf(BatchedCard(3), With(one + "," + one + "," + one).substr(0, 55)),
            "input input: expected once, got it twice");
  EXPECT_EQ(ErrorOf(BatchedCard(3), "{\"other\": " + Many(5000, "{}").substr(0, 14'900)),
            "expected a JSON object of at most 4096 values apart from data, got more");
  EXPECT_EQ(ErrorOf(BatchedCard(3),
                    "{\"other\": " + Many(200, '"' + std::string(1000, 'x') + '"').substr(0, 150'000)),
            "expected a JSON object of at most 65536 bytes of names and texts, got more");
  for (const char* edge : {"\"", "", "\"\\\""})
    EXPECT_EQ(ErrorOf(BatchedCard(3), "{\"other\": " + (edge + std::string(70'000, '1'))),
              "expected a JSON object whose names, texts and numbers have at most 65536 bytes each, got a "
              "longer one");
  EXPECT_EQ(ErrorOf(BatchedCard(3), R"({"id": "a", "id": "b"})"),
            "expected each name once, got \"id\" twice");
}

TEST(V2, NamesMayComeInAnyOrder) {
  const char* parts[] = {R"("name": "input0")", R"("shape": [2, 2])", R"("datatype": "UINT32")",
                         R"("data": [[1, 2], [3, 4]])"};
  const auto wanted = ParseV2Request(ProtocolCard(), kRequest, {});
  ASSERT_TRUE(wanted);
  size_t order[] = {0, 1, 2, 3};
  do {
    std::string entry;
    for (const size_t i : order) entry += (entry.empty() ? "" : ", ") + std::string(parts[i]);
    const std::string body =
        R"({"inputs": [{"data": [true, false, true], "name": "input1", "datatype": "BOOL", "shape": [3]}, {)" +
        entry + "}]}";
    const auto request = ParseV2Request(ProtocolCard(), body, {});
    ASSERT_TRUE(request) << request.error().message << " in " << body;
    EXPECT_EQ(request->inputs, wanted->inputs) << body;
  } while (std::next_permutation(std::begin(order), std::end(order)));
  EXPECT_EQ(ErrorOf(BatchedCard(3),
                    With(R"({"data": [1, "2"], "name": "input", "datatype": "FP32", "shape": [1, 2]})")),
            "input input: expected 2 values of FP32, got \"2\" as value 1");
}

TEST(V2, InputsThatAreTooLargeAreNotRead) {
  for (const char* data : {"[1, 2, 3, 4, 5, 6]", "[1, "}) {
    const auto request = ParseV2Request(BatchedCard(3), Filled("[3, 2]", data), {}, 20);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->input_bytes, 24u);
    EXPECT_TRUE(request->inputs.empty());
  }
  EXPECT_EQ(ParseV2Request(BatchedCard(3), Filled("[2, 2]", "[1, 2, 3, 4]"), {}, 20)->inputs.size(), 16u);
}

TEST(V2, AnswersAsJsonOrBinaryAsAsked) {
  const float values[] = {0.5f, 1, 2, 3, 4, 5};
  const auto outputs = std::as_bytes(std::span(values));
  auto request = ParseV2Request(ProtocolCard(), kRequest, {});
  const V2Response json = MakeV2Response(ProtocolCard(), *request, outputs).value();
  EXPECT_FALSE(json.json_bytes);
  const auto parsed = nlohmann::json::parse(json.body);
  EXPECT_EQ(parsed["id"], "42");
  EXPECT_EQ(parsed["outputs"][0]["shape"], (std::vector<int>{3, 2}));
  EXPECT_EQ(parsed["outputs"][0]["data"], (std::vector<double>{0.5, 1, 2, 3, 4, 5}));
  request->outputs[0].binary = true;
  const V2Response binary = MakeV2Response(ProtocolCard(), *request, outputs).value();
  ASSERT_TRUE(binary.json_bytes);
  EXPECT_EQ(nlohmann::json::parse(
                binary.body.substr(0, *binary.json_bytes))["outputs"][0]["parameters"]["binary_data_size"],
            24);
  EXPECT_EQ(std::memcmp(binary.body.data() + *binary.json_bytes, values, 24), 0);
}

template <class Value>
void ExpectReadAgain(DataType type, const std::vector<Value>& values) {
  const auto count = static_cast<int64_t>(values.size());
  const ModelCard card{.name = "m", .outputs = {{"output", type, {count}}}};
  V2Request request;
  request.outputs = {{0, false}};
  std::vector<std::byte> outputs(values.size() * sizeof(Value));
  std::memcpy(outputs.data(), values.data(), outputs.size());
  const auto made = MakeV2Response(card, request, outputs);
  ASSERT_TRUE(made) << made.error().message;
  const auto data = nlohmann::json::parse(made->body)["outputs"][0]["data"];
  EXPECT_EQ(data.get<std::vector<Value>>(), values) << made->body;
  if (std::is_floating_point_v<Value>)
    for (const auto& value : data) EXPECT_TRUE(value.is_number_float()) << value;
  const uint64_t most = MostAnswerText(card, request);
  EXPECT_LE(made->body.size(), most) << made->body;
  request.outputs.clear();
  const size_t begin = made->body.find("data\":[") + 7;
  EXPECT_LE(made->body.find(']', begin) - begin, most - MostAnswerText(card, request) - 512) << made->body;
}

template <class Value>
std::vector<Value> Extremes() {
  using Limits = std::numeric_limits<Value>;
  return {Limits::lowest(),
          Limits::max(),
          Limits::min(),
          -Limits::min(),
          Value{0},
          Value{100},
          static_cast<Value>(-Limits::denorm_min()),
          static_cast<Value>(1) / 3,
          static_cast<Value>(16777217)};
}

TEST(V2, EveryValueIsReadAgainAsItWasAndIsNoLongerThanWasCounted) {
  ExpectReadAgain<int8_t>(DataType::kI8, {-128, 127, 0});
  ExpectReadAgain<uint8_t>(DataType::kU8, {255, 255, 255});
  ExpectReadAgain<int16_t>(DataType::kI16, {-32768, -32768});
  ExpectReadAgain<uint16_t>(DataType::kU16, {65535, 65535});
  ExpectReadAgain<int32_t>(DataType::kI32, {INT32_MIN, INT32_MIN});
  ExpectReadAgain<uint32_t>(DataType::kU32, {UINT32_MAX, UINT32_MAX});
  ExpectReadAgain<int64_t>(DataType::kI64, {INT64_MIN, INT64_MIN});
  ExpectReadAgain<uint64_t>(DataType::kU64, {UINT64_MAX, UINT64_MAX});
  ExpectReadAgain<float>(DataType::kF32, Extremes<float>());
  ExpectReadAgain<double>(DataType::kF64, Extremes<double>());
  // Those that take the most text: with all digits and an exponent, or just not longer without one.
  ExpectReadAgain(DataType::kF32, std::vector<float>(1000, -1.17549435e-38f));
  ExpectReadAgain(DataType::kF32, std::vector<float>(1000, -1234567561216.0f));
  ExpectReadAgain(DataType::kF64, std::vector<double>(1000, -2.2250738585072014e-308));
  ExpectReadAgain(DataType::kF64, std::vector<double>(1000, std::nextafter(-1.1e21, 0)));
}

TEST(V2, AByteThatIsNoBoolIsTrue) {
  const ModelCard card{.name = "m", .outputs = {{"output", DataType::kBool, {4}}}};
  V2Request request;
  request.outputs = {{0, false}};
  const std::byte outputs[] = {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}};
  EXPECT_THAT(MakeV2Response(card, request, outputs)->body, HasSubstr(R"("data":[false,true,true,true])"));
}

TEST(V2, WhatJsonCannotSayIsToldAndComesAsBinary) {
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    const float values[] = {0.5f, value, 2, 3, 4, 5};
    const auto outputs = std::as_bytes(std::span(values));
    auto request = ParseV2Request(ProtocolCard(), kRequest, {});
    const auto json = MakeV2Response(ProtocolCard(), *request, outputs);
    ASSERT_FALSE(json);
    EXPECT_EQ(json.error().message,
              "output output0: value 1 is infinite or NaN, which JSON cannot express; ask for binary_data");
    request->outputs[0].binary = true;
    EXPECT_TRUE(MakeV2Response(ProtocolCard(), *request, outputs));
  }
}

TEST(V2, OutputsAndTimeoutsAreChecked) {
  const std::string head =
      R"({"inputs": [{"name": "input", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}], )";
  EXPECT_THAT(ErrorOf(BatchedCard(3), head + R"("outputs": [{"name": "x"}]})"),
              HasSubstr("model rows has no output \"x\", expected output"));
  for (const char* timeout : {"-1", "\"5\"", "1.5", "3600000001", "18446744073709551615", "null"})
    EXPECT_EQ(
        ErrorOf(BatchedCard(3), head + R"("parameters": {"timeout": )" + timeout + "}}"),
        std::string("parameters.timeout: expected a whole number of microseconds, 0 to 3600000000, got ") +
            timeout);
  EXPECT_EQ(ErrorOf(BatchedCard(3), head + R"("parameters": [1]})"),
            "parameters: expected an object, got [1]");
  EXPECT_EQ(ErrorOf(BatchedCard(3), head + R"("parameters": {"binary_data_output": 1}})"),
            "parameters.binary_data_output: expected true or false, got 1");
  EXPECT_EQ(ErrorOf(BatchedCard(3),
                    head + R"("outputs": [{"name": "output", "parameters": {"binary_data": "no"}}]})"),
            "output output: parameters.binary_data: expected true or false, got \"no\"");
  const auto good = ParseV2Request(
      BatchedCard(3), head + R"("parameters": {"timeout": 1500, "binary_data_output": true}})", {});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->timeout, std::chrono::microseconds(1500));
  EXPECT_TRUE(good->outputs[0].binary);
}

}  // namespace
}  // namespace spillway::gateway
