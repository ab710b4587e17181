// The parts of a page are the files of html/, embedded by CMake (cli/embed.cmake).
#include "page.h"

#include "html_parts.h"
#include "mla/core.h"

namespace mla::cli {
namespace {

struct Parts {
  const char* title;
  const char* style;
  const char* body;
  const char* script;
};

// JSON may hold "</script>" inside a string; "<\/" means the same to JSON and nothing to HTML.
std::string inside_script(std::string json) {
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3) {
    json.insert(at + 1, "\\");
  }
  return json;
}

std::string page(const Parts& parts, const Json& data) {
  std::string html = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  html += parts.title;
  html += "</title>\n<style>\n";
  html += html::kPageCss;
  html += parts.style;
  html += "</style>\n<main>\n";
  html += parts.body;
  html += "<footer>libmla " + std::string(version()) + "</footer>\n</main>\n";
  html += "<script type=\"application/json\" id=\"data\">" + inside_script(compact(data));
  html += "</script>\n<script>\n";
  html += parts.script;
  return html + "</script>\n</html>\n";
}

}  // namespace

std::string matrix_page(const Json& matrix) {
  return page({"libmla: backends by model and platform", html::kMatrixCss, html::kMatrixHtml,
               html::kMatrixJs},
              matrix);
}

std::string bench_page(const Json& results) {
  return page({"libmla: attention as a share of the machine's peak", html::kBenchCss,
               html::kBenchHtml, html::kBenchJs},
              results);
}

std::string prefill_page(const Json& results) {
  return page(
      {"libmla: expanded or absorbed", html::kBenchCss, html::kPrefillHtml, html::kPrefillJs},
      results);
}

}  // namespace mla::cli
