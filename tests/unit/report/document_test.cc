// SPDX-License-Identifier: Apache-2.0
#include "report/document.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace spillway::report {
namespace {

using nlohmann::ordered_json;

TEST(Document, HasTheAgreedShape) {
  Document document("switch", {"A CPU", 2, "6.1.0", 7.7}, "v1-2-gabc");
  document.SetRounds(5);
  document.AddRow({{"flows", 1000}, {"established_ns", 49.5}, {"p99_ms", NAN}});
  document.SetRatio("spillway_over_host", 1.22);
  EXPECT_EQ(document.Json().dump(),
            R"({"bench":"switch","commit":"v1-2-gabc","machine":{"cpu":"A CPU","cores":2,"kernel":"6.1.0",)"
            R"("memory_gib":7.7},"rounds":5,"rows":[{"flows":1000,"established_ns":49.5,"p99_ms":null}],)"
            R"("ratios":{"spillway_over_host":1.22}})");
}

TEST(Document, TakesFlatRowsOnly) {
  Document document("x", {}, "c");
  EXPECT_THROW(document.AddRow({{"list", {1, 2}}}), std::invalid_argument);
  EXPECT_THROW(document.AddRow(ordered_json::array()), std::invalid_argument);
}

TEST(Document, NamesNoHostAndNoPath) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const std::string text = Document("x").Dump();
  if (std::string(host).size() > 3) {
    EXPECT_EQ(text.find(host), std::string::npos);
  }
  EXPECT_EQ(text.find(std::filesystem::current_path().string()), std::string::npos);
  EXPECT_EQ(ordered_json::parse(text)["machine"].size(), 4u);
}

TEST(Document, SurvivesBytesThatAreNotUtf8) {
  EXPECT_FALSE(ordered_json::parse(Document("x", {"bad \xff name", 1, "k", 1}, "c").Dump()).is_discarded());
}

TEST(Document, IsWrittenWholeIntoNewFolders) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("spillway-document-" + std::to_string(::getpid()));
  const std::string path = folder / "deep" / "report.json";
  const Document document("x", {}, "c");
  ASSERT_TRUE(document.Write(path).has_value());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), document.Dump());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "deep"), {}), 1);  // no temporary left
  std::filesystem::remove_all(folder);
}

TEST(Document, SaysWhichPathCouldNotBeWritten) {
  const Result<void> written = Document("x", {}, "c").Write("/proc/nowhere/report.json");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kSystem);
  EXPECT_NE(written.error().message.find("/proc/nowhere"), std::string::npos);
}

TEST(Machine, IsReadFromTheKernelsTexts) {
  EXPECT_EQ(CpuModel("processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2 GHz \nprocessor\t: 1\n"),
            "Some CPU @ 2 GHz");
  EXPECT_EQ(CpuModel("nothing here\n"), "unknown");
  EXPECT_EQ(MemoryGib("MemTotal:        8039180 kB\nMemFree: 1 kB\n"), 7.7);
  EXPECT_EQ(MemoryGib(""), 0);
}

TEST(Machine, IsKnownHere) {
  const Machine machine = ReadMachine();
  EXPECT_GT(machine.cores, 0);
  EXPECT_GT(machine.memory_gib, 0);
  EXPECT_FALSE(machine.kernel.empty());
}

TEST(BuildCommit, IsOneWord) {
  EXPECT_FALSE(base::BuildCommit().empty());
  EXPECT_EQ(base::BuildCommit().find_first_of("/ \n"), std::string_view::npos);
}

}  // namespace
}  // namespace spillway::report
