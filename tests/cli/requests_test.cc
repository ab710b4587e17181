// The request list: what it takes, and that every fault is named with its place.
#include "requests.h"

#include <gtest/gtest.h>

#include <string>

namespace mla::cli {
namespace {

std::string error_of(const std::string& text) {
  const auto requests = parse_requests(text);
  return requests ? "" : requests.error().message;
}

TEST(Requests, TakesNewTokensAndContext) {
  const auto requests = parse_requests("512,17,1000+2048");
  ASSERT_TRUE(requests) << requests.error().message;
  const std::vector<RequestLengths> wanted = {{512, 0}, {17, 0}, {1000, 2048}};
  EXPECT_EQ(*requests, wanted);
}

TEST(Requests, ZerosAndSpacesAreLegal) {
  const auto requests = parse_requests(" 0 , 0+7 ,3 + 0 ");
  ASSERT_TRUE(requests) << requests.error().message;
  const std::vector<RequestLengths> wanted = {{0, 0}, {0, 7}, {3, 0}};
  EXPECT_EQ(*requests, wanted);
}

TEST(Requests, FaultsNameTheItemAndItsPlace) {
  for (const char* text : {"x", "1,", ",1", "1,,2", "-1", "+5", "5+", "5+-1", "1.5", "1e3", "1+2+3",
                           "0x10", "1 2", "\t1", "1\n", "５"}) {
    const std::string message = error_of(text);
    EXPECT_NE(message.find("--requests: request "), std::string::npos) << text << ": " << message;
  }
  EXPECT_NE(error_of("1,2,zz").find("request 3 is 'zz'"), std::string::npos);
}

TEST(Requests, EmptyIsAFault) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("   ").find("is empty"), std::string::npos);
}

TEST(Requests, SizesAreBounded) {
  EXPECT_TRUE(parse_requests(std::to_string(kMaxTokens)));
  EXPECT_NE(error_of(std::to_string(kMaxTokens + 1)).find("2^40"), std::string::npos);
  EXPECT_NE(error_of("1+99999999999999999999999").find("2^40"), std::string::npos);
  std::string list = "1";
  for (std::size_t i = 1; i < kMaxRequests; ++i) list += ",1";
  EXPECT_TRUE(parse_requests(list));
  EXPECT_NE(error_of(list + ",1").find("has more than"), std::string::npos);
}

TEST(Requests, LongItemsAreCutInTheMessage) {
  EXPECT_LT(error_of(std::string(100000, 'x')).size(), 200U);
}

}  // namespace
}  // namespace mla::cli
