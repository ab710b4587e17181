// Widths are the widest line of each column; only the last column is ever wrapped.
#include "table.h"

#include <algorithm>

namespace mla::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 24;  // a last column narrower than this is not worth wrapping

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    lines.push_back(text.substr(start, end - start));
  }
  lines.push_back(text.substr(start));
  return lines;
}

// Breaks at spaces; a word longer than the limit stays whole.
std::vector<std::string> wrap(const std::string& text, std::size_t limit) {
  std::vector<std::string> wrapped;
  for (const std::string& line : split_lines(text)) {
    std::string current;
    std::size_t start = 0;
    while (start <= line.size()) {
      const std::size_t end = std::min(line.find(' ', start), line.size());
      const std::string word = line.substr(start, end - start);
      if (!current.empty() && width(current) + 1 + width(word) > limit) {
        wrapped.push_back(std::move(current));
        current.clear();
      }
      if (!current.empty() || start > 0) current += current.empty() ? "" : " ";
      current += word;
      start = end + 1;
    }
    wrapped.push_back(std::move(current));
  }
  return wrapped;
}

struct Layout {
  std::vector<Column> columns;
  std::vector<std::size_t> widths;
};

std::string render_line(const Layout& layout, const std::vector<std::string>& texts,
                        const std::vector<Tone>& tones, const Style& style) {
  std::string line;
  std::size_t pending = 0;  // spaces owed before the next visible text: no blanks at line ends
  for (std::size_t c = 0; c < texts.size(); ++c) {
    const std::size_t pad = layout.widths[c] - std::min(layout.widths[c], width(texts[c]));
    const bool right = layout.columns[c].align == Align::kRight;
    if (!texts[c].empty()) {
      line.append(pending + (right ? pad : 0), ' ');
      line += style(tones[c], texts[c]);
      pending = right ? 0 : pad;
    } else {
      pending += layout.widths[c];
    }
    pending += kGap;
  }
  return line + "\n";
}

}  // namespace

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

std::string Table::text(const Style& style, int columns) const {
  const std::size_t count = columns_.size();
  Layout layout{columns_, std::vector<std::size_t>(count, 0)};
  bool titled = false;
  for (std::size_t c = 0; c < count; ++c) {
    layout.widths[c] = width(columns_[c].title);
    titled = titled || !columns_[c].title.empty();
    for (const auto& row : rows_) {
      for (const std::string& line : split_lines(row[c].text)) {
        layout.widths[c] = std::max(layout.widths[c], width(line));
      }
    }
  }
  std::size_t before = 0;
  for (std::size_t c = 0; c + 1 < count; ++c) before += layout.widths[c] + kGap;
  std::size_t limit = layout.widths[count - 1];
  if (columns > 0 && before + kNarrowest <= static_cast<std::size_t>(columns)) {
    limit = std::min(limit, static_cast<std::size_t>(columns) - before);
  }
  layout.widths[count - 1] = limit;

  std::string out;
  if (titled) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    out += render_line(layout, titles, std::vector<Tone>(count, Tone::kStrong), style);
  }
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> lines;
    std::vector<Tone> tones;
    std::size_t height = 1;
    for (std::size_t c = 0; c < count; ++c) {
      lines.push_back(c + 1 == count ? wrap(row[c].text, limit) : split_lines(row[c].text));
      tones.push_back(row[c].tone);
      height = std::max(height, lines.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::vector<std::string> texts;
      for (const auto& cell : lines) texts.push_back(l < cell.size() ? cell[l] : "");
      out += render_line(layout, texts, tones, style);
    }
  }
  return out;
}

void Facts::add(std::string name, std::string value, Tone tone) {
  facts_.emplace_back(std::move(name), Cell(std::move(value), tone));
}

std::string Facts::text(const Style& style, int columns) const {
  Table table({{""}, {""}});
  for (const auto& [name, value] : facts_) table.add({Cell(name, Tone::kDim), value});
  return table.text(style, columns);
}

}  // namespace mla::cli
