// JSON tokens: where a string or value ends, and what a number is. The fallback's counterpart is kineto_token.py.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define HAS_SSE2 1
#endif
#if defined(_MSC_VER)
#include <intrin.h>
static inline int first_bit(unsigned mask) {
  unsigned long at;
  _BitScanForward(&at, mask);
  return int(at);
}
#else
static inline int first_bit(unsigned mask) { return __builtin_ctz(mask); }
#endif

namespace {

constexpr int64_t kAbsent64 = INT64_MIN;
constexpr int32_t kAbsent32 = INT32_MIN;
constexpr size_t kMaxNesting = 1024;

typedef const uint8_t* Text;

enum Result { kOk, kNeedMore, kBad };

inline uint64_t load64(Text p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

inline uint64_t hash_of(Text p, size_t n) {
  uint64_t h = 0x9E3779B97F4A7C15ull ^ (n * 0xff51afd7ed558ccdull);
  while (n >= 8) {
    h = (h ^ load64(p)) * 0x9FB21C651E98DF25ull;
    h ^= h >> 32;
    p += 8;
    n -= 8;
  }
  uint64_t last = 0;
  memcpy(&last, p, n);
  h = (h ^ last) * 0x9FB21C651E98DF25ull;
  return h ^ (h >> 29);
}

// Times beyond are no times; a base of the same size can be added without overflow.
constexpr uint64_t kMaxNanos = 1ull << 62;

// What a value was, as its bytes without quotes.
struct Value {
  Text begin, end;
  bool is_string;
};

// What a byte may mean: one look-up instead of a row of comparisons.
enum Class : uint8_t { kSpace = 1, kEndsBare = 2, kBreaksBare = 4, kBracketOrQuote = 8 };
struct Classes {
  uint8_t of[256];
  Classes() {
    memset(of, 0, sizeof of);
    for (const char* c = " \n\r\t"; *c; c++) of[uint8_t(*c)] |= kSpace | kEndsBare;
    for (const char* c = ",}]"; *c; c++) of[uint8_t(*c)] |= kEndsBare;
    for (const char* c = "\"{[:"; *c; c++) of[uint8_t(*c)] |= kBreaksBare;
    for (const char* c = "\"{[]}"; *c; c++) of[uint8_t(*c)] |= kBracketOrQuote;
  }
};
const Classes kClasses;

inline bool is_space(uint8_t c) { return kClasses.of[c] & kSpace; }
inline Text skip_space(Text p, Text end) {
  // Mostly there is none, or one blank.
  while (p < end && is_space(*p)) p++;
  return p;
}

// Reads tokens within limits. `open` is the stack of brackets of the value at hand.
struct Tokens {
  size_t max_string, max_nesting;
  uint8_t open[kMaxNesting];

  // p is behind the opening quote; *out is the closing quote.
  Result string_end(Text p, Text end, Text* out) {
    Text start = p;
    for (;;) {
#ifdef HAS_SSE2
      const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
      while (p + 16 <= end) {
        __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        int hit = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
        if (hit) {
          p += first_bit(unsigned(hit));
          break;
        }
        p += 16;
      }
#endif
      while (p < end && *p != '"' && *p != '\\') p++;
      if (size_t(p - start) > max_string) return kBad;
      if (p >= end) return kNeedMore;
      if (*p == '"') {
        *out = p;
        return kOk;
      }
      if (p + 1 >= end) return kNeedMore;
      p += 2;
    }
  }

  static bool starts_event(Text p, Text end) {
    p = skip_space(p + 1, end);
    return end - p > 4 && memcmp(p, "\"ph\"", 4) == 0;
  }

  // Any value; *next is behind it.
  Result value(Text p, Text end, Value* v, Text* next) {
    if (p >= end) return kNeedMore;
    uint8_t c = *p;
    if (c == '"') {
      Text close;
      Result r = string_end(p + 1, end, &close);
      if (r != kOk) return r;
      v->begin = p + 1;
      v->end = close;
      v->is_string = true;
      *next = close + 1;
      return kOk;
    }
    v->begin = p;
    v->is_string = false;
    if (c == '[' || c == '{') {
      size_t depth = 0;
      while (p < end) {
        uint8_t b = *p;
        if (!(kClasses.of[b] & kBracketOrQuote)) {
          p++;
          continue;
        }
        if (b == '"') {
          Text close;
          Result r = string_end(p + 1, end, &close);
          if (r != kOk) return r;
          p = close + 1;
          continue;
        }
        if (b == '[' || b == '{') {
          if (depth >= max_nesting) return kBad;
          // An event inside an argument: the argument was torn, and the events behind it must not drown in it.
          if (b == '{' && depth && starts_event(p, end)) return kBad;
          open[depth++] = b;
        } else {
          if (open[--depth] + 2 != b) return kBad;
          if (depth == 0) {
            v->end = p + 1;
            *next = p + 1;
            return kOk;
          }
        }
        p++;
      }
      return kNeedMore;
    }
    // A number, a word, or what other writers leave there (nan, inf, N/A).
    while (p < end && !(kClasses.of[*p] & (kEndsBare | kBreaksBare))) p++;
    if (p >= end) return kNeedMore;
    if (kClasses.of[*p] & kBreaksBare) return kBad;
    if (p == v->begin) return kBad;
    if (p - v->begin > 4096) return kBad;
    v->end = p;
    *next = p;
    return kOk;
  }

  // A whole number; fractions are cut. False where it is none. Beyond 64 bits signed, 64 bits unsigned wrap; beyond those none.
  static bool integer(const Value& v, int64_t* out) {
    Text p = v.begin, end = v.end;
    bool minus = false;
    if (p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
    if (p >= end || *p < '0' || *p > '9') return false;
    uint64_t n = 0;
    // ROCm writes some ids as "0x…".
    if (v.is_string && end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
      for (p += 2; p < end; p++) {
        int digit = *p >= '0' && *p <= '9'   ? *p - '0'
                    : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
                    : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
                                             : -1;
        if (digit < 0 || n >> 60) return false;
        n = n * 16 + uint64_t(digit);
      }
      *out = int64_t(minus ? 0 - n : n);
      return *out != kAbsent64;
    }
    while (p < end && *p >= '0' && *p <= '9') {
      uint64_t digit = uint64_t(*p++ - '0');
      if (n > (UINT64_MAX - digit) / 10) return false;
      n = n * 10 + digit;
    }
    if (p < end) {
      if (*p != '.') return false;
      for (p++; p < end; p++)
        if (*p < '0' || *p > '9') return false;
    }
    *out = int64_t(minus ? 0 - n : n);
    return *out != kAbsent64;
  }

  // Microseconds in decimal text to nanoseconds, ties to even. False where it is no number or does not fit.
  static bool nanoseconds(const Value& v, int64_t* out) {
    Text p = v.begin, end = v.end;
    bool minus = false;
    if (p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
    uint64_t whole = 0;
    int digits = 0;
    while (p < end && *p >= '0' && *p <= '9') {
      if (whole > 9223372036854774ull) return exponent(v, out);  // which is false where there is none
      whole = whole * 10 + uint64_t(*p++ - '0');
      digits++;
    }
    uint64_t nanos = 0;
    if (p < end && *p == '.') {
      p++;
      uint64_t part = 0;
      int places = 0;
      bool more = false, half = false;
      int first_dropped = -1;
      while (p < end && *p >= '0' && *p <= '9') {
        digits++;
        if (places < 3) {
          part = part * 10 + uint64_t(*p - '0');
          places++;
        } else if (first_dropped < 0) {
          first_dropped = *p - '0';
        } else if (*p != '0') {
          more = true;
        }
        p++;
      }
      while (places++ < 3) part *= 10;
      half = first_dropped == 5 && !more;
      if (first_dropped > 5 || (first_dropped == 5 && more)) part++;
      else if (half && (part & 1)) part++;
      nanos = part;
    }
    if (!digits) return false;
    if (p < end) return exponent(v, out);
    if (whole > 9223372036854774ull) return false;
    uint64_t n = whole * 1000 + nanos;
    if (n > kMaxNanos) return false;
    *out = minus ? -int64_t(n) : int64_t(n);
    return true;
  }

  // The rare form with an exponent: digits and a shifted point, exactly.
  static bool exponent(const Value& v, int64_t* out) {
    uint8_t digits[64];
    int n = 0, point = -1, exp10 = 0;
    Text p = v.begin, end = v.end;
    bool minus = false;
    if (*p == '-' || *p == '+') minus = *p++ == '-';
    for (; p < end && (*p == '.' || (*p >= '0' && *p <= '9')); p++) {
      if (*p == '.') {
        if (point >= 0) return false;
        point = n;
      } else {
        if (n >= 60) return false;
        digits[n++] = uint8_t(*p - '0');
      }
    }
    if (point < 0) point = n;
    if (p >= end || (*p != 'e' && *p != 'E')) return false;
    p++;
    bool down = false;
    if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
    if (p >= end) return false;
    for (; p < end; p++) {
      if (*p < '0' || *p > '9' || exp10 > 1000) return false;
      exp10 = exp10 * 10 + (*p - '0');
    }
    point += (down ? -exp10 : exp10) + 3;  // nanoseconds
    uint64_t whole = 0;
    for (int i = 0; i < point; i++) {
      if (whole > 922337203685477579ull) return false;
      whole = whole * 10 + (i < n ? digits[i] : 0);
    }
    int first = point >= 0 && point < n ? digits[point] : 0;
    bool more = false;
    for (int i = point + 1 > 0 ? point + 1 : 0; i < n; i++) more |= digits[i] != 0;
    if (point < 0) first = 0;
    if (first > 5 || (first == 5 && (more || (whole & 1)))) whole++;
    if (whole > kMaxNanos) return false;
    *out = minus ? -int64_t(whole) : int64_t(whole);
    return true;
  }

  // A decimal number, whatever the process's locale thinks of points. Exact up to 15 digits and a scale of 22.
  static bool real(const Value& v, double* out) {
    Text p = v.begin, end = v.end;
    bool minus = false;
    if (p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
    double mantissa = 0;
    int scale = 0, digits = 0, exp10 = 0;
    bool is_behind_point = false;
    for (; p < end; p++) {
      if (*p == '.' && !is_behind_point) {
        is_behind_point = true;
      } else if (*p >= '0' && *p <= '9') {
        if (++digits > 300) return false;
        mantissa = mantissa * 10 + (*p - '0');
        scale += is_behind_point;
      } else {
        break;
      }
    }
    if (!digits) return false;
    if (p < end) {
      if (*p != 'e' && *p != 'E') return false;
      p++;
      bool down = false;
      if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
      if (p >= end) return false;
      for (; p < end; p++) {
        if (*p < '0' || *p > '9' || exp10 > 300) return false;
        exp10 = exp10 * 10 + (*p - '0');
      }
      if (down) exp10 = -exp10;
    }
    double factor = 1;
    int by = exp10 - scale;
    if (mantissa == 0) by = 0;  // 0 times infinity is no number
    for (int i = by < 0 ? -by : by; i > 0; i--) factor *= 10;
    mantissa = by < 0 ? mantissa / factor : mantissa * factor;
    *out = minus ? -mantissa : mantissa;
    return true;
  }

  static bool is_null(const Value& v) { return !v.is_string && v.end - v.begin == 4 && memcmp(v.begin, "null", 4) == 0; }
};

}  // namespace
