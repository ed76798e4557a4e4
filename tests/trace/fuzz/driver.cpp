// Feeds event arrays to the native parser, whole and in random pieces, and demands the same columns.
//
//   driver SPEC SEED MUTATIONS FILE…      mutated copies of every file, built with the sanitizers
//
// SPEC holds `spec_bytes()` of kineto_native.py. With -DLIBFUZZER the same check is a libFuzzer target, and
// the spec comes from the environment variable STEPSCOPE_FUZZ_SPEC.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" {
void* stepscope_kineto_new(const uint8_t* spec, int64_t max_string, int64_t max_nesting, int meta_slot);
int64_t stepscope_kineto_feed(void* parser, const uint8_t* text, int64_t size, int final, int force);
void stepscope_kineto_state(void* parser, int64_t* out);
int64_t stepscope_kineto_size(void* parser, int table, int column);
void* stepscope_kineto_take(void* parser, int table, int column);
void stepscope_kineto_drop(void* data);
void stepscope_kineto_free(void* parser);
}

namespace {

constexpr int kNumState = 15, kMaxEvent = 1 << 16;
typedef std::vector<uint8_t> Bytes;

uint64_t random_state = 1;
uint64_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

Bytes read_file(const char* name) {
  std::ifstream file(name, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Everything the parser says of a text. `piece` is the size of the chunks, 0 for one chunk.
std::string outcome(const Bytes& spec, const Bytes& text, size_t piece) {
  void* parser = stepscope_kineto_new(spec.data(), 1 << 12, 64, 49);
  Bytes buffer;
  size_t at = 0;
  int64_t state[kNumState];
  for (;;) {
    size_t more = piece ? 1 + next_random() % piece : text.size();
    if (more > text.size() - at) more = text.size() - at;
    buffer.insert(buffer.end(), text.begin() + at, text.begin() + at + more);
    at += more;
    bool is_final = at == text.size() && !more;
    // An exact copy, so that the sanitizer sees a read beyond it.
    Bytes exact(buffer);
    int64_t done = stepscope_kineto_feed(parser, exact.data(), int64_t(exact.size()), is_final, exact.size() > size_t(kMaxEvent));
    if (done < 0 || done > int64_t(exact.size())) abort();
    buffer.erase(buffer.begin(), buffer.begin() + done);
    stepscope_kineto_state(parser, state);
    if (is_final || state[8] || state[13] >= 0) break;
  }
  std::string found;
  for (int i = 0; i < kNumState; i++) found += std::to_string(state[i]) + " ";
  for (int table = -1; table < 16; table++) {
    for (int column = 0;; column++) {
      int64_t size = stepscope_kineto_size(parser, table, column);
      if (size < 0) break;
      void* data = stepscope_kineto_take(parser, table, column);
      found += "\n" + std::to_string(table) + "." + std::to_string(column) + " ";
      if (data) found.append(static_cast<char*>(data), size_t(size));
      stepscope_kineto_drop(data);
    }
  }
  stepscope_kineto_free(parser);
  return found;
}

Bytes mutated(const Bytes& text) {
  static const char* const kPieces[] = {"\"", "\\", "{", "}", "[", "]", ",", ":", "\x01", "\xff\xfe", "nan", "N/A", "null", "1e999", "\"ph\": \"X\"",
                                        "{\"schemaVersion\": 1, \"traceEvents\": [", "{\"ph\": \"X\", \"ts\": 1}", "99999999999999999999", "]}", "\\u12"};
  Bytes out(text);
  for (int n = 1 + int(next_random() % 4); n > 0 && !out.empty(); n--) {
    size_t at = next_random() % out.size();
    switch (next_random() % 6) {
      case 0: out[at] = uint8_t(next_random()); break;
      case 1: out.erase(out.begin() + at, out.begin() + at + (out.size() - at < 40 ? out.size() - at : next_random() % 40)); break;
      case 2: out.resize(at); break;
      case 3: {
        size_t from = next_random() % out.size(), size = next_random() % 200;
        if (size > out.size() - from) size = out.size() - from;
        Bytes copy(out.begin() + from, out.begin() + from + size);
        out.insert(out.begin() + at, copy.begin(), copy.end());
        break;
      }
      default: {
        const char* piece = kPieces[next_random() % (sizeof kPieces / sizeof *kPieces)];
        out.insert(out.begin() + at, piece, piece + strlen(piece));
      }
    }
  }
  return out;
}

bool is_same(const Bytes& spec, const Bytes& text) {
  if (text.size() > kMaxEvent / 2) return outcome(spec, text, 0), true;  // what is given up depends on the chunks there
  std::string whole = outcome(spec, text, 0);
  for (size_t piece : {size_t(7), size_t(200), size_t(1000)})
    if (outcome(spec, text, piece) != whole) return false;
  return true;
}

}  // namespace

#ifdef LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Bytes spec = read_file(getenv("STEPSCOPE_FUZZ_SPEC"));
  if (!is_same(spec, Bytes(data, data + size))) abort();
  return 0;
}
#else
int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Bytes spec = read_file(argv[1]);
  random_state = strtoull(argv[2], nullptr, 10) * 2654435761u + 1;
  long mutations = strtol(argv[3], nullptr, 10), count = 0;
  for (int i = 4; i < argc; i++) {
    Bytes text = read_file(argv[i]);
    for (long n = 0; n <= mutations; n++, count++) {
      Bytes input = n ? mutated(text) : text;
      if (!is_same(spec, input)) {
        std::ofstream("differs.bin", std::ios::binary).write(reinterpret_cast<char*>(input.data()), std::streamsize(input.size()));
        fprintf(stderr, "%s: mutation %ld differs by chunks (in differs.bin)\n", argv[i], n);
        return 1;
      }
    }
  }
  printf("%ld inputs\n", count);
  return 0;
}
#endif
