// Tables: aligned, wrapped only in the last column, coloured only when asked, no blanks at line
// ends; and numbers as people read them.
#include "table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "units.h"

namespace mla::cli {
namespace {

const Style kPlain(false);

TEST(Table, AlignsColumns) {
  Table table({{"name"}, {"n", Align::kRight}, {"note"}});
  table.add({"a", "1", "x"});
  table.add({"longer", "1000", ""});
  EXPECT_EQ(table.text(kPlain, 0),
            "name       n  note\n"
            "a          1  x\n"
            "longer  1000\n");
}

TEST(Table, WrapsTheLastColumnAtTheEdge) {
  Table table({{"k"}, {"text"}});
  table.add({"a", "one two three four five six seven eight"});
  const std::string text = table.text(kPlain, 30);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width(line), 30U) << line;
  EXPECT_EQ(text.substr(0, text.find('\n', 8) + 1), "k  text\na  one two three four five six\n");
}

TEST(Table, ColourIsOnlyAroundText) {
  Table table({{""}, {""}});
  table.add({Cell("a", Tone::kGood), Cell("", Tone::kBad)});
  EXPECT_EQ(table.text(Style(true), 0), "\033[32ma\033[0m\n");
  EXPECT_EQ(table.text(kPlain, 0), "a\n");
}

TEST(Table, CountsCodePoints) { EXPECT_EQ(width("2·H"), 3U); }

TEST(Units, ReadLikePeopleWrite) {
  EXPECT_EQ(bytes_text(48 * 1024), "48 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(0), "unknown");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(percent_text(0.7234), "72.3 %");
  EXPECT_EQ(number_text(0.0), "0");
  EXPECT_EQ(number_text(2.41e-5), "2.41e-05");
  EXPECT_EQ(number_text(123.4), "123");
  EXPECT_EQ(plural(1, "row"), "1 row");
  EXPECT_EQ(plural(2, "row"), "2 rows");
}

}  // namespace
}  // namespace mla::cli
