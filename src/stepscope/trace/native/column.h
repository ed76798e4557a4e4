// Columns that grow, strings that are kept once, and the tables the arguments go to (kineto_table.py).

#pragma once

#include "token.h"

namespace {

constexpr int kMaxSlots = 64;
constexpr int kMaxTables = 16;
constexpr int kMaxColumns = 20;

enum Kind : uint8_t { kInt, kString, kRaw, kFloat, kPercent, kTriple, kUnused };
enum Type : uint8_t { kI64, kI32, kF32, kId };

// A growing column. realloc moves pages instead of copying for large blocks, and pages never written are never resident.
struct Column {
  uint8_t* data = nullptr;
  size_t size = 0, room = 0;

  void* grow(size_t bytes) {
    if (size + bytes > room) {
      size_t wanted = room + room / 2 + 4096;
      if (wanted < size + bytes) wanted = size + bytes;
      void* moved = realloc(data, wanted);
      if (!moved) throw std::bad_alloc();
      data = static_cast<uint8_t*>(moved);
      room = wanted;
    }
    void* at = data + size;
    size += bytes;
    return at;
  }
  template <class T>
  void push(T value) {
    memcpy(grow(sizeof(T)), &value, sizeof(T));
  }
  ~Column() { free(data); }
};

// Distinct byte strings in order of first appearance.
struct Interner {
  Column text, ends;
  struct Cell {
    uint64_t hash;
    int32_t id;
  };
  Cell* cells = nullptr;
  size_t mask = 0, used = 0;

  ~Interner() { free(cells); }
  int32_t count() const { return int32_t(ends.size / 8); }
  size_t begin_of(int32_t id) const { return id == 0 ? 0 : size_t(reinterpret_cast<uint64_t*>(ends.data)[id - 1]); }
  size_t end_of(int32_t id) const { return size_t(reinterpret_cast<uint64_t*>(ends.data)[id]); }
  bool is(int32_t id, Text p, size_t n) const {
    size_t b = begin_of(id);
    return end_of(id) - b == n && (n == 0 || memcmp(text.data + b, p, n) == 0);
  }
  void rehash() {
    size_t size = cells ? (mask + 1) * 2 : 4096;
    Cell* bigger = static_cast<Cell*>(malloc(size * sizeof(Cell)));
    if (!bigger) throw std::bad_alloc();
    for (size_t i = 0; i < size; i++) bigger[i].id = -1;
    for (size_t i = 0; cells && i <= mask; i++) {
      if (cells[i].id < 0) continue;
      size_t at = cells[i].hash & (size - 1);
      while (bigger[at].id >= 0) at = (at + 1) & (size - 1);
      bigger[at] = cells[i];
    }
    free(cells);
    cells = bigger;
    mask = size - 1;
  }
  int32_t intern(Text p, size_t n) {
    if (!cells || used * 2 > mask) rehash();
    uint64_t h = hash_of(p, n);
    size_t at = h & mask;
    while (cells[at].id >= 0) {
      if (cells[at].hash == h && is(cells[at].id, p, n)) return cells[at].id;
      at = (at + 1) & mask;
    }
    int32_t id = count();
    if (n) memcpy(text.grow(n), p, n);
    ends.push(uint64_t(text.size));
    cells[at].hash = h;
    cells[at].id = id;
    used++;
    return id;
  }
};

// Keys of the arguments: a small hash table of those that have a column.
struct Key {
  uint8_t kind, slot, size;
  uint8_t text[56];
};

struct Keys {
  static constexpr int kRoom = 128, kCells = 512;
  Key key[kRoom];
  int count = 0;
  int16_t cells[kCells];

  Keys() { memset(cells, 0xff, sizeof cells); }
  void add(Text p, uint8_t n, uint8_t kind, uint8_t slot) {
    if (count == kRoom || n > sizeof key[0].text) return;
    Key& k = key[count];
    k.kind = kind;
    k.slot = slot;
    k.size = n;
    memcpy(k.text, p, n);
    size_t at = hash_of(p, n) % kCells;
    while (cells[at] >= 0) at = (at + 1) % kCells;
    cells[at] = int16_t(count++);
  }
  // The position of the key [p, p + n), -1 where it has no column.
  int find(Text p, size_t n) const {
    for (size_t at = hash_of(p, n) % kCells; cells[at] >= 0; at = (at + 1) % kCells) {
      const Key& k = key[cells[at]];
      if (k.size == n && memcmp(k.text, p, n) == 0) return cells[at];
    }
    return -1;
  }
};

struct ColumnSpec {
  uint8_t slot, type;
};

struct Table {
  uint8_t phase;
  uint64_t trigger = 0;
  int num_columns = 0;
  ColumnSpec spec[kMaxColumns];
  Column row, columns[kMaxColumns];
};

}  // namespace
