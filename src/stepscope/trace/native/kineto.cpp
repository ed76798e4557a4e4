// One pass over the events of a Kineto trace: text in, columns out.
//
// The caller finds the event array, feeds text in chunks and takes the columns. Which argument goes to which column
// comes in as a table (kineto_table.py), the one that the pure fallback reads too. Strings are interned as
// they are written; decoding happens once for each distinct one, outside. An event is parsed where it lies; one that the
// chunk cuts is parsed again when more text has come. A malformed event is given up, and parsing goes on at
// the next place where an event plausibly starts.
//
// Plain C interface, no dependency. SSE2 where there is, else plain C++.

#include "column.h"

#if defined(_WIN32)
#define API extern "C" __declspec(dllexport)
#else
#define API extern "C" __attribute__((visibility("default")))
#endif

namespace {

constexpr int64_t kMaxKey = 4096;

// The text between two values of an event: white space, commas, braces, a key and its colon. Writers repeat it to the byte,
// so each one seen is kept with what it means and with what followed it; comparing it stands for parsing it.
struct Glue {
  static constexpr int kSize = 64, kFollowers = 6;
  uint8_t text[kSize];
  uint8_t size;
  bool in_args;       // where it leads
  bool enters_args;   // the arguments begin in it
  bool is_end;        // it ends the event
  bool is_unique;     // not to be kept
  int16_t key;        // of the value behind it: a Member, or a position in the keys; -1: of no use
  int16_t follower[kFollowers];
};

struct Parser : Tokens {
  // configuration
  Keys keys;
  Table tables[kMaxTables];
  int num_tables = 0;

  // results
  Column ts, dur, name, cat, track, index;                      // complete events
  Column mark_ts, mark_name, mark_cat, mark_track, mark_index;  // instants
  Column pair_ts, pair_name, pair_cat, pair_track, pair_index, pair_phase;  // B and E
  Column flow_ts, flow_id, flow_track, flow_cat, flow_phase;
  Column meta_name, meta_track, meta_text;  // M
  Interner names, cats, texts, raws, tracks;
  int64_t counts[8] = {0, 0, 0, 0, 0, 0, 0, 0};  // kept, lost, repaired, bad time, no duration, counters, other, lost bytes
  int64_t first_lost = -1, first_repair = -1, first_bad_time = -1, mixed_at = -1;

  // state
  int64_t consumed = 0;  // bytes of the event text consumed by earlier feeds
  int64_t num_events = 0;
  bool is_lost = false, is_closed = false, force = false;
  int64_t lost_from = 0;
  uint8_t before_chunk = '[';  // the last byte before this chunk that is no white space

  // the event at hand
  uint64_t present;
  int64_t slots[kMaxSlots];
  bool repaired;

  // look-aside: events repeat their neighbours' strings
  int32_t last_cat = -1, last_name = -1, last_track = -1;
  Column track_key;
  size_t last_track_size = 0;
  uint8_t last_track_text[256];

  // ── one event ───────────────────────────────────────────────────────────────────────────────────

  void set(int slot, int64_t n) {
    slots[slot] = n;
    present |= 1ull << slot;
  }
  void unset(int slot) { present &= ~(1ull << slot); }
  void set_text(int slot, bool is_raw, const Value& v) {
    int i = 0;
    while (i < num_pending && pending[i] != slot) i++;
    if (i == num_pending) pending[num_pending++] = uint8_t(slot);
    pending_text[i] = v;
    pending_raw[i] = is_raw;
    present |= 1ull << slot;
  }
  void intern_pending() {
    for (int i = 0; i < num_pending; i++) {
      if (!(present >> pending[i] & 1)) continue;
      const Value& v = pending_text[i];
      slots[pending[i]] = (pending_raw[i] ? raws : texts).intern(v.begin, size_t(v.end - v.begin));
    }
  }

  void argument(const Key& key, const Value& v) {
    int64_t n;
    double x;
    switch (key.kind) {
      case kInt:
        if (integer(v, &n)) {
          set(key.slot, n);
        } else {
          unset(key.slot);
          if (!v.is_string && !is_null(v)) repaired = true;
        }
        break;
      case kString:
      case kRaw:
        if (is_null(v)) unset(key.slot);
        else set_text(key.slot, key.kind == kRaw, v);
        break;
      case kFloat:
      case kPercent:
        if (real(v, &x)) {
          float f = float(key.kind == kPercent ? x / 100.0 : x);
          int32_t bits;
          memcpy(&bits, &f, 4);
          set(key.slot, bits);
        } else {
          unset(key.slot);
        }
        break;
      case kTriple: {
        Text p = v.begin, end = v.end;
        if (p >= end || *p != '[') break;
        p++;
        int i = 0;
        while (i < 3) {
          p = skip_space(p, end);
          Value part = {p, p, false};
          while (p < end && *p != ',' && *p != ']' && !is_space(*p)) p++;
          part.end = p;
          if (integer(part, &n)) set(key.slot + i, n);
          else break;
          i++;
          p = skip_space(p, end);
          if (p >= end || *p != ',') break;
          p++;
        }
        break;
      }
    }
  }

  int32_t track_of(const Value& pid, const Value& tid) {
    size_t a = size_t(pid.end - pid.begin), b = size_t(tid.end - tid.begin), n = a + b + 5;
    uint8_t small[256];
    uint8_t* buffer = n <= sizeof small ? small : static_cast<uint8_t*>(malloc(n));
    if (!buffer) throw std::bad_alloc();
    buffer[0] = uint8_t('0' + pid.is_string * 2 + tid.is_string);
    for (int i = 0; i < 4; i++) buffer[1 + i] = uint8_t(a >> (8 * i));
    memcpy(buffer + 5, pid.begin, a);
    memcpy(buffer + 5 + a, tid.begin, b);
    int32_t id;
    if (last_track >= 0 && n == last_track_size && memcmp(buffer, last_track_text, n) == 0) {
      id = last_track;
    } else {
      id = tracks.intern(buffer, n);
      if (n <= sizeof last_track_text) {
        last_track = id;
        last_track_size = n;
        memcpy(last_track_text, buffer, n);
      }
    }
    if (buffer != small) free(buffer);
    return id;
  }

  static int32_t repeat_or_intern(Interner& in, int32_t* last, Text p, size_t n) {
    if (*last < 0 || !in.is(*last, p, n)) *last = in.intern(p, n);
    return *last;
  }

  void emit(uint8_t phase, int32_t row) {
    for (int t = 0; t < num_tables; t++) {
      Table& table = tables[t];
      if (table.phase != phase || !(present & table.trigger)) continue;
      table.row.push(row);
      for (int c = 0; c < table.num_columns; c++) {
        const ColumnSpec s = table.spec[c];
        bool has = present >> s.slot & 1;
        int64_t n = slots[s.slot];
        switch (s.type) {
          case kI64:
            table.columns[c].push(has ? n : kAbsent64);
            break;
          case kI32:
            table.columns[c].push(int32_t(has && n > INT32_MIN && n <= INT32_MAX ? n : kAbsent32));
            break;
          case kF32:
            table.columns[c].push(int32_t(has ? n : 0x7fc00000));
            break;
          default:
            table.columns[c].push(int32_t(has ? n : -1));
        }
      }
    }
  }

  enum Member : int16_t { kPh, kCat, kName, kPid, kTid, kTs, kDur, kIdMember, kNumMembers, kArgs = kNumMembers };

  static int member_of(Text p, size_t n) {
    if (n < 2 || n > 4) return -1;
    if (n == 4) return memcmp(p, "name", 4) == 0 ? kName : memcmp(p, "args", 4) == 0 ? kArgs : -1;
    if (n == 3) {
      if (memcmp(p, "pid", 3) == 0) return kPid;
      if (memcmp(p, "tid", 3) == 0) return kTid;
      if (memcmp(p, "dur", 3) == 0) return kDur;
      return memcmp(p, "cat", 3) == 0 ? kCat : -1;
    }
    if (p[0] == 'p' && p[1] == 'h') return kPh;
    if (p[0] == 't' && p[1] == 's') return kTs;
    return p[0] == 'i' && p[1] == 'd' ? kIdMember : -1;
  }

  static constexpr int kMaxGlues = 2048;
  Glue glues[kMaxGlues];
  int num_glues = 0;
  int16_t first_glue[Glue::kFollowers];

  // Whether the text at p, 64 bytes of which can be read, is this glue.
  static bool is_at(const Glue& g, Text p) {
#ifdef HAS_SSE2
    int n = g.size;
    for (int i = 0;; i += 16) {
      unsigned same = unsigned(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)),
                                                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(g.text + i)))));
      int left = n - i;
      if (left <= 16) return ((same | (0xffffffffu << left)) & 0xffff) == 0xffff || (left == 16 && same == 0xffff);
      if (same != 0xffff) return false;
    }
#else
    return memcmp(p, g.text, g.size) == 0;
#endif
  }

  // What stands between two values, parsed. p is where the last value ended, or the event's brace.
  Result parse_glue(Text p, Text end, bool is_start, bool in_args, Glue* g, Text* next) {
    bool need_comma = !is_start, enters = false;
    g->is_unique = false;
    if (is_start) p++;
    for (;;) {
      p = skip_space(p, end);
      if (p >= end) return kNeedMore;
      if (*p == '}') {
        p++;
        if (in_args) {
          in_args = false;
          need_comma = true;
          continue;
        }
        g->is_end = true;
        g->key = -1;
        break;
      }
      if (*p == ',') {
        if (!need_comma) repaired = true;
        need_comma = false;
        p++;
        continue;
      }
      if (*p != '"' || need_comma) return kBad;
      Text key = p + 1, close;
      Result r = string_end(key, end, &close);
      if (r != kOk) return r;
      if (close - key > kMaxKey) return kBad;  // a hole that begins inside a key
      p = skip_space(close + 1, end);
      if (p >= end) return kNeedMore;
      if (*p != ':') return kBad;
      p = skip_space(p + 1, end);
      if (p >= end) return kNeedMore;
      size_t n = size_t(close - key);
      if (in_args) {
        g->key = int16_t(keys.find(key, n));
      } else {
        g->key = int16_t(member_of(key, n));
        if (g->key == kArgs) {
          enters = true;
          if (*p == '{') {
            p++;
            in_args = true;
            need_comma = false;
            continue;
          }
          g->key = -1;
          g->is_unique = true;  // the same text in front of a brace means something else
        }
      }
      g->is_end = false;
      break;
    }
    g->in_args = in_args;
    g->enters_args = enters;
    *next = p;
    return kOk;
  }

  // The glue at p: one that followed before, or parsed anew and kept. Returns its position, or a result below zero.
  int glue_at(Text p, Text end, bool is_start, bool in_args, int16_t* followers, Text* next, Glue* fresh) {
    if (end - p > Glue::kSize) {
      for (int i = 0; i < Glue::kFollowers && followers[i] >= 0; i++) {
        const Glue& g = glues[followers[i]];
        // A glue ends where its value starts: white space more makes it another one.
        if (is_at(g, p) && (g.is_end || !is_space(p[g.size]))) {
          *next = p + g.size;
          int16_t found = followers[i];
          if (i) {
            followers[i] = followers[i - 1];
            followers[i - 1] = found;
          }
          return found;
        }
      }
    }
    bool was_repaired = repaired;
    repaired = false;
    Result r = parse_glue(p, end, is_start, in_args, fresh, next);
    bool is_plain = !repaired;
    repaired |= was_repaired;
    if (r != kOk) return -1 - int(r);
    size_t n = size_t(*next - p);
    if (n > Glue::kSize || !is_plain || fresh->is_unique || num_glues == kMaxGlues || end - p < Glue::kSize) return kMaxGlues;
    int16_t at = int16_t(num_glues++);
    Glue& g = glues[at];
    g = *fresh;
    memset(g.text, 0, sizeof g.text);
    memcpy(g.text, p, n);
    g.size = uint8_t(n);
    for (int i = 0; i < Glue::kFollowers; i++) g.follower[i] = -1;
    int i = 0;
    while (i < Glue::kFollowers - 1 && followers[i] >= 0) i++;
    followers[i] = at;
    return at;
  }

  // The value of a whole number in place. False: not in the plain form, or not wholly in this chunk.
  static bool plain_integer(Text p, Text end, int64_t* out, Text* next) {
    if (end - p < 24) return false;
    bool minus = *p == '-';
    p += minus;
    Text start = p;
    int64_t n = 0;
    while (uint8_t(*p - '0') < 10 && p - start < 18) n = n * 10 + (*p++ - '0');
    if (p == start || !(kClasses.of[*p] & kEndsBare)) return false;
    *out = minus ? -n : n;
    *next = p;
    return true;
  }

  // Microseconds with up to three decimals in place, as nanoseconds. False as above.
  static bool plain_time(Text p, Text end, int64_t* out, Text* next) {
    if (end - p < 32) return false;
    bool minus = *p == '-';
    p += minus;
    Text start = p;
    int64_t n = 0;
    while (uint8_t(*p - '0') < 10 && p - start < 15) n = n * 10 + (*p++ - '0');
    if (p == start) return false;
    if (*p == '.') {
      Text dot = p++;
      while (uint8_t(*p - '0') < 10 && p - dot < 4) n = n * 10 + (*p++ - '0');
      switch (p - dot) {
        case 2: n *= 100; break;
        case 3: n *= 10; break;
        case 4: break;
        default: return false;
      }
    } else {
      n *= 1000;
    }
    if (!(kClasses.of[*p] & kEndsBare)) return false;
    *out = minus ? -n : n;
    *next = p;
    return true;
  }

  // Texts of the event at hand, in order of appearance; they are interned once the event is kept.
  int num_pending;
  uint8_t pending[kMaxSlots];
  bool pending_raw[kMaxSlots];
  Value pending_text[kMaxSlots];

  // `{` to `}` of one event, and its row.
  Result event(Text p, Text end, Text* next) {
    static const uint8_t zero[] = "0";
    Value members[kNumMembers + 1];
    for (int i = 0; i < kNumMembers; i++) members[i] = {zero, zero + (i == kPid || i == kTid), false};
    unsigned has = 0;
    int64_t at = consumed_at(p), when = 0, length = 0;
    bool has_when = false, has_length = false;
    present = 0;
    repaired = false;
    num_pending = 0;
    int16_t* followers = first_glue;
    bool is_start = true, in_args = false;
    Glue fresh;
    for (;;) {
      int found = glue_at(p, end, is_start, in_args, followers, &p, &fresh);
      if (found < 0) return Result(-1 - found);
      is_start = false;
      Glue* g = found == kMaxGlues ? &fresh : &glues[found];
      if (found == kMaxGlues) memset(fresh.follower, 0xff, sizeof fresh.follower);
      followers = g->follower;
      if (g->enters_args) {
        present = 0;
        num_pending = 0;
      }
      if (g->is_end) break;
      in_args = g->in_args;
      const int key = g->key;
      if (in_args) {
        if (key >= 0) {
          const Key& k = keys.key[key];
          int64_t n;
          if (k.kind == kInt && plain_integer(p, end, &n, &p)) {
            set(k.slot, n);
            continue;
          }
          Value v;
          Result r = value(p, end, &v, &p);
          if (r != kOk) return r;
          argument(k, v);
          continue;
        }
      } else if (key == kTs || key == kDur) {
        int64_t& t = key == kTs ? when : length;
        bool& is_known = key == kTs ? has_when : has_length;
        is_known = plain_time(p, end, &t, &p);
        has |= 1u << key;
        if (is_known) continue;
        Result r = value(p, end, &members[key], &p);
        if (r != kOk) return r;
        if (is_null(members[key])) has &= ~(1u << key);
        continue;
      }
      Value ignored;
      Value* v = key >= 0 && !in_args ? &members[key] : &ignored;
      Result r = value(p, end, v, &p);
      if (r != kOk) return r;
      if (key >= 0 && !in_args) has |= 1u << key;
    }
    const Value &v_name = members[kName], &v_cat = members[kCat], &v_pid = members[kPid], &v_tid = members[kTid];
    const Value &v_id = members[kIdMember], &v_ph = members[kPh];
    const bool has_ts = has >> kTs & 1, has_dur = has >> kDur & 1, has_id = has >> kIdMember & 1;
    const uint8_t phase = v_ph.end - v_ph.begin == 1 ? *v_ph.begin : 0;
    if (!phase) return kBad;
    *next = p;
    int32_t position = int32_t(num_events);
    bool needs_time = phase != 'M';
    bool has_time = has_when || (has_ts && nanoseconds(members[kTs], &when));
    if (repaired) {
      counts[2]++;
      if (first_repair < 0) first_repair = at;
    }
    if (needs_time && phase != 'C' && !has_time) {
      counts[3]++;
      if (first_bad_time < 0) first_bad_time = at;
      return kOk;
    }
    switch (phase) {
      case 'X': {
        if (!has_dur || (!has_length && !nanoseconds(members[kDur], &length))) {
          length = 0;
          counts[4]++;
        }
        int32_t row = int32_t(ts.size / 8);
        ts.push(when);
        dur.push(length);
        name.push(repeat_or_intern(names, &last_name, v_name.begin, size_t(v_name.end - v_name.begin)));
        cat.push(repeat_or_intern(cats, &last_cat, v_cat.begin, size_t(v_cat.end - v_cat.begin)));
        track.push(track_of(v_pid, v_tid));
        index.push(position);
        intern_pending();
        emit('X', row);
        break;
      }
      case 'i':
      case 'I':
      case 'R': {
        bool is_memory = v_name.end - v_name.begin == 8 && memcmp(v_name.begin, "[memory]", 8) == 0;
        int32_t row = int32_t(mark_ts.size / 8);
        mark_ts.push(when);
        mark_name.push(names.intern(v_name.begin, size_t(v_name.end - v_name.begin)));
        mark_cat.push(cats.intern(v_cat.begin, size_t(v_cat.end - v_cat.begin)));
        mark_track.push(track_of(v_pid, v_tid));
        mark_index.push(position);
        if (is_memory) {
          intern_pending();
          emit('i', row);
        }
        break;
      }
      case 'B':
      case 'E':
        pair_ts.push(when);
        pair_name.push(names.intern(v_name.begin, size_t(v_name.end - v_name.begin)));
        pair_cat.push(cats.intern(v_cat.begin, size_t(v_cat.end - v_cat.begin)));
        pair_track.push(track_of(v_pid, v_tid));
        pair_index.push(position);
        pair_phase.push(phase);
        break;
      case 's':
      case 't':
      case 'f': {
        int64_t id = kAbsent64;
        if (has_id) integer(v_id, &id);
        flow_ts.push(when);
        flow_id.push(id);
        flow_track.push(track_of(v_pid, v_tid));
        flow_cat.push(repeat_or_intern(cats, &last_cat, v_cat.begin, size_t(v_cat.end - v_cat.begin)));
        flow_phase.push(phase);
        break;
      }
      case 'M':
        intern_pending();
        meta_name.push(names.intern(v_name.begin, size_t(v_name.end - v_name.begin)));
        meta_track.push(track_of(v_pid, v_tid));
        meta_text.push(int32_t(present >> meta_slot & 1 ? slots[meta_slot] : -1));
        break;
      case 'C':
        counts[5]++;
        break;
      default:
        counts[6]++;
    }
    counts[0]++;
    return kOk;
  }
  int meta_slot = 63;

  // ── the array ───────────────────────────────────────────────────────────────────────────────────

  Text chunk = nullptr;
  int64_t consumed_at(Text p) const { return consumed + (p - chunk); }

  static bool is_one_of(Text p, Text end, const char* const* words, Text* close) {
    for (const char* const* w = words; *w; w++) {
      size_t n = strlen(*w);
      if (p + n < end && p[n] == '"' && memcmp(p, *w, n) == 0) {
        *close = p + n + 1;
        return true;
      }
    }
    return false;
  }

  // `"word" :` at p, one of the words.
  static bool has_member(Text p, Text end, const char* const* words) {
    if (p >= end || *p != '"') return false;
    Text close;
    if (!is_one_of(p + 1, end, words, &close)) return false;
    close = skip_some_space(close, end);
    return close < end && *close == ':';
  }

  static constexpr const char* const kEvent[] = {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "s", "bp", nullptr};
  // Members that stand around the events, never in one.
  static constexpr const char* const kTop[] = {
      "schemaVersion", "deviceProperties", "distributedInfo", "traceEvents", "traceName", "displayTimeUnit",
      "baseTimeNanoseconds", "trace_id", "record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules",
      "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version",
      "roctracer_version", "metadata", "host_name", "username", "logical_server_subtype", "INFO", "WARNING", "ERROR",
      "otherData", "systemTraceEvents", nullptr};

  // White space, but no more than a writer would leave: what is decided must not depend on where a chunk ends.
  static Text skip_some_space(Text p, Text end) {
    Text stop = end - p > 256 ? p + 256 : end;
    return skip_space(p, stop);
  }

  // Looks for the next event from p on. Returns where it starts, or the end of the array. Null: not in this chunk, and
  // *undecided is the place from which it has to be sought once there is more text.
  // `events_only`: the array's end is not looked for.
  Text resume(Text p, Text end, bool final, bool events_only, Text* undecided) {
    const int64_t kReach = 1024;  // room for braces, white space and a key
    for (; p < end; p++) {
      if (*p != '{' && *p != ']') continue;
      if (!final && end - p < kReach) break;
      Text inside = skip_some_space(p + 1, end);
      if (*p == '{') {
        if (has_member(inside, end, kTop)) {
          mixed_at = consumed_at(p);
          return p;
        }
        Text before = p;
        while (before > chunk && is_space(before[-1])) before--;
        uint8_t last = before > chunk ? before[-1] : before_chunk;
        if ((last == ',' || last == '[' || last == '}') && has_member(inside, end, kEvent)) return p;
      } else if (events_only) {
        continue;
      } else if (inside < end && *inside == ',' && has_member(skip_some_space(inside + 1, end), end, kTop)) {
        return p;
      } else if (final && (inside == end || (*inside == '}' && skip_space(inside + 1, end) == end))) {
        return p;
      }
    }
    *undecided = p;
    return nullptr;
  }

  void lose(Text p) {
    is_lost = true;
    lost_from = consumed_at(p);
    counts[1]++;
    if (first_lost < 0) first_lost = lost_from;
    num_events++;
  }

  // Parses what can be parsed; returns the bytes it is done with.
  size_t feed(Text text, size_t size, bool final) {
    chunk = text;
    Text p = text, end = text + size;
    while (!is_closed && mixed_at < 0) {
      if (is_lost) {
        // The place itself failed: look behind it.
        Text from = p + (consumed_at(p) == lost_from ? 1 : 0);
        Text undecided = end;
        Text found = from < end ? resume(from, end, final, false, &undecided) : nullptr;
        if (!found) {
          counts[7] += undecided - p;
          p = undecided;
          break;
        }
        counts[7] += found - p;
        p = found;
        is_lost = false;
        if (mixed_at >= 0) break;
      }
      p = skip_space(p, end);
      if (p >= end) break;
      if (*p == ',') {
        p++;
        continue;
      }
      if (*p == ']') {
        p++;
        is_closed = true;
        break;
      }
      if (*p != '{') {
        lose(p);
        continue;
      }
      Text next = p;
      Result r = event(p, end, &next);
      if (r == kOk) {
        num_events++;
        p = next;
        continue;
      }
      // Only what fills the chunk from its start is too large; another event at its end is just cut.
      if (r == kNeedMore && !final && !(force && p == text)) break;
      if (r == kNeedMore && final && !looks_broken(p, end)) break;
      if (has_member(skip_space(p + 1, end), end, kTop)) {
        mixed_at = consumed_at(p);
        break;
      }
      lose(p);
    }
    for (Text last = p; last > text; last--) {
      if (!is_space(last[-1])) {
        before_chunk = last[-1];
        break;
      }
    }
    consumed += p - text;
    return size_t(p - text);
  }

  // At the end of the text: does another event start behind an unfinished one? Then it is broken, not cut.
  bool looks_broken(Text p, Text end) {
    int64_t saved = mixed_at;
    Text undecided;
    Text found = resume(p + 1, end, true, true, &undecided);
    bool broken = found != nullptr;
    mixed_at = saved;
    return broken;
  }
};

}  // namespace

// Table blob: keys as (kind, slot, size, text), a zero-size key ends them; tables as (phase, columns, (slot, type)…, triggers,
// slot…), a zero phase ends them.
API void* stepscope_kineto_new(const uint8_t* spec, int64_t max_string, int64_t max_nesting, int meta_slot) {
  Parser* p = new (std::nothrow) Parser();
  if (!p) return nullptr;
  p->max_string = size_t(max_string);
  p->max_nesting = size_t(max_nesting) < kMaxNesting ? size_t(max_nesting) : kMaxNesting;
  p->meta_slot = meta_slot;
  while (spec[2]) {
    p->keys.add(spec + 3, spec[2], spec[0], spec[1]);
    spec += 3 + spec[2];
  }
  spec += 3;
  memset(p->first_glue, 0xff, sizeof p->first_glue);
  while (*spec) {
    Table& t = p->tables[p->num_tables++];
    t.phase = *spec++;
    t.num_columns = *spec++;
    for (int c = 0; c < t.num_columns; c++) {
      t.spec[c].slot = *spec++;
      t.spec[c].type = *spec++;
    }
    int triggers = *spec++;
    for (int i = 0; i < triggers; i++) t.trigger |= 1ull << *spec++;
  }
  return p;
}

// Bytes consumed, -1 when memory ran out.
API int64_t stepscope_kineto_feed(void* parser, const uint8_t* text, int64_t size, int final, int force) {
  Parser* p = static_cast<Parser*>(parser);
  try {
    p->force = force != 0;
    return int64_t(p->feed(text, size_t(size), final != 0));
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

API void stepscope_kineto_state(void* parser, int64_t* out) {
  Parser* p = static_cast<Parser*>(parser);
  for (int i = 0; i < 8; i++) out[i] = p->counts[i];
  out[8] = p->is_closed;
  out[9] = p->is_lost;
  out[10] = p->first_lost;
  out[11] = p->first_repair;
  out[12] = p->first_bad_time;
  out[13] = p->mixed_at;
  out[14] = p->num_events;
}

namespace {
Column* column_of(Parser* p, int table, int column) {
  Column* fixed[] = {&p->ts,         &p->dur,        &p->name,      &p->cat,        &p->track,      &p->index,
                     &p->mark_ts,    &p->mark_name,  &p->mark_cat,  &p->mark_track, &p->mark_index, &p->pair_ts,
                     &p->pair_name,  &p->pair_cat,   &p->pair_track, &p->pair_index, &p->pair_phase, &p->flow_ts,
                     &p->flow_id,    &p->flow_track, &p->flow_cat,  &p->flow_phase, &p->meta_name,  &p->meta_track,
                     &p->meta_text,  &p->names.text, &p->names.ends, &p->cats.text, &p->cats.ends,  &p->texts.text,
                     &p->texts.ends, &p->raws.text, &p->raws.ends, &p->tracks.text, &p->tracks.ends};
  if (table < 0) return column >= 0 && column < int(sizeof fixed / sizeof *fixed) ? fixed[column] : nullptr;
  if (table >= p->num_tables) return nullptr;
  Table& t = p->tables[table];
  if (column == 0) return &t.row;
  return column <= t.num_columns ? &t.columns[column - 1] : nullptr;
}
}  // namespace

API int64_t stepscope_kineto_size(void* parser, int table, int column) {
  Column* c = column_of(static_cast<Parser*>(parser), table, column);
  return c ? int64_t(c->size) : -1;
}

// Hands a column's memory over; null where it is empty. The caller gives it back with stepscope_kineto_drop.
API void* stepscope_kineto_take(void* parser, int table, int column) {
  Column* c = column_of(static_cast<Parser*>(parser), table, column);
  if (!c || !c->size) return nullptr;
  void* fitted = realloc(c->data, c->size);
  void* data = fitted ? fitted : c->data;
  c->data = nullptr;
  c->size = c->room = 0;
  return data;
}

API void stepscope_kineto_drop(void* data) { free(data); }

API void stepscope_kineto_free(void* parser) { delete static_cast<Parser*>(parser); }
