// SPDX-License-Identifier: Apache-2.0
#include "report/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace spillway::report {
namespace {

using std::string;

Table Levels() {
  Table table({{"policy", "", -1}, {"rps", "req/s", -1}, {"p99_ms", "p99 [ms]", 2}});
  table.AddRow({string("host-only"), std::int64_t{9100}, 12.3456});
  table.AddRow({string("größer"), std::int64_t{11}, NAN});
  return table;
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  EXPECT_EQ(Levels().Text(),
            "policy     req/s  p99 [ms]\n"
            "---------  -----  --------\n"
            "host-only   9100     12.35\n"
            "größer        11         -\n");
}

TEST(Table, SetsAWordAmongNumbersToTheRightToo) {
  Table table({{"load_pct", "", 0}, {"p99_ms", "", 2}});
  table.AddRow({80.0, 7.09});
  table.AddRow({90.0, string("loss")});
  EXPECT_EQ(table.Text(),
            "load_pct  p99_ms\n"
            "--------  ------\n"
            "      80    7.09\n"
            "      90    loss\n");
}

TEST(Table, LeavesNoTrailingBlanks) {
  Table table({{"a", "", -1}, {"b", "", -1}});
  table.AddRow({string("x"), string("long text")});
  table.AddRow({string("x"), string("y")});
  EXPECT_EQ(table.Text().find(" \n"), string::npos);
}

TEST(Table, QuotesCsvAsRfc4180Says) {
  Table table({{"name", "", -1}, {"value", "", -1}});
  table.AddRow({string("say \"hi\", twice"), 0.1});
  table.AddRow({string("two\nlines"), true});
  EXPECT_EQ(table.Csv(), "name,value\r\n\"say \"\"hi\"\", twice\",0.1\r\n\"two\nlines\",true\r\n");
}

TEST(Table, KeepsOneTsvRowPerLine) {
  Table table({{"a\tb", "", -1}});
  table.AddRow({string("c\nd\\")});
  EXPECT_EQ(table.Tsv(), "a\\tb\nc\\nd\\\\\n");
}

TEST(Table, GivesFlatJsonRowsWithNullForMissing) {
  EXPECT_EQ(
      Levels().JsonRows().dump(),
      R"([{"policy":"host-only","rps":9100,"p99_ms":12.3456},{"policy":"größer","rps":11,"p99_ms":null}])");
}

TEST(Table, ComesFromJsonRowsWithDifferingKeys) {
  const auto rows = nlohmann::ordered_json::parse(R"([{"b":1,"a":"x"},{"a":"y","c":2.5}])");
  const Table table = Table::FromRows(rows);
  EXPECT_EQ(table.Csv(), "b,a,c\r\n1,x,\r\n,y,2.5\r\n");
  EXPECT_EQ(Table::FromRows(rows, {{"c", 3}, {"d", 1}}).Text(),
            "b  a      c\n-  -  -----\n1  x      -\n-  y  2.500\n");
}

TEST(Table, EscapesHtml) {
  Table table({{"k", "<k>", -1}});
  table.AddRow({string("<script>&\"'")});
  const string html = table.Html();
  EXPECT_EQ(html.find("<script>"), string::npos);
  EXPECT_NE(html.find("&lt;script&gt;&amp;&quot;&#39;"), string::npos);
  EXPECT_NE(html.find("&lt;k&gt;"), string::npos);
}

TEST(Table, RefusesARowOfAnotherLength) {
  Table table({{"a", "", -1}});
  EXPECT_THROW(table.AddRow({1.0, 2.0}), std::invalid_argument);
}

TEST(FormatNumber, KeepsFourSignificantDigitsAndNoExponent) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(12.3456), "12.35");
  EXPECT_EQ(FormatNumber(123456.7), "123457");
  EXPECT_EQ(FormatNumber(0.00123456), "0.001235");
  EXPECT_EQ(FormatNumber(42), "42");
  EXPECT_EQ(FormatNumber(-0.001, 1), "0.0");
}

}  // namespace
}  // namespace spillway::report
