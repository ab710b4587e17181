// Aligned tables for people; the last column wraps at the edge of the terminal.
#pragma once

#include <string>
#include <vector>

#include "console.h"

namespace mla::cli {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

struct Cell {
  Cell(std::string text, Tone tone = Tone::kPlain) : text(std::move(text)), tone(tone) {}
  Cell(const char* text, Tone tone = Tone::kPlain) : text(text), tone(tone) {}
  std::string text;  // a newline starts another line of the same cell
  Tone tone;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines end with a newline; columns: 0 does not wrap.
  std::string text(const Style& style, int columns) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// "name   value" lines without a heading, the names dim.
class Facts {
 public:
  void add(std::string name, std::string value, Tone tone = Tone::kPlain);
  std::string text(const Style& style, int columns) const;

 private:
  std::vector<std::pair<std::string, Cell>> facts_;
};

// Columns a UTF-8 text takes, one for each code point.
std::size_t width(std::string_view text);

}  // namespace mla::cli
