// The 800 requests of tests/data/selection.jsonl with their right answers, through the text face.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "mla/selector.h"

namespace mla {
namespace {

using Json = nlohmann::json;

std::vector<Json> read_cases() {
  std::ifstream file(MLA_TEST_DATA "/selection.jsonl");
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

// [[backend, variant, [codes]], ...] of an answer, as the case file writes it.
Json short_form(const Json& rejected) {
  Json out = Json::array();
  for (const Json& row : rejected) {
    Json codes = Json::array();
    for (const Json& reason : row["reasons"]) codes.push_back(reason["code"]);
    out.push_back({row["backend"], row["variant"], codes});
  }
  return out;
}

void check(const Json& c) {
  const Json& expect = c["expect"];
  const Json answer = Json::parse(select_json(c["request"].dump()));
  SCOPED_TRACE(c.dump() + "\n" + answer.dump());
  if (expect.contains("error")) {
    ASSERT_TRUE(answer["error"].is_object());
    EXPECT_EQ(answer["error"]["code"], expect["error"]);
    EXPECT_TRUE(answer["selected"].is_null());
    EXPECT_TRUE(answer["note"].is_null());
  } else {
    EXPECT_TRUE(answer["error"].is_null());
    EXPECT_EQ(answer["note"], expect.value("note", Json()));
  }
  if (expect.contains("message")) {
    EXPECT_EQ(answer["error"]["message"], expect["message"]);
  }
  if (expect.contains("rejected")) {
    EXPECT_EQ(short_form(answer["rejected"]), expect["rejected"]);
  }
  for (const char* field : {"selected", "variant", "explicit", "fallback"}) {
    if (expect.contains(field)) {
      EXPECT_EQ(answer[field], expect[field]) << field;
    }
  }
}

TEST(SelectionCases, DefaultMode) {
  int count = 0;
  for (const Json& c : read_cases()) {
    if (c["request"].contains("compat")) continue;
    check(c);
    ++count;
  }
  EXPECT_EQ(count, 425);
}

TEST(SelectionCases, CompatMode) {
  int count = 0;
  for (const Json& c : read_cases()) {
    if (!c["request"].contains("compat")) continue;
    check(c);
    ++count;
  }
  EXPECT_EQ(count, 375);
}

}  // namespace
}  // namespace mla
