// Kinds of calls, with how often each was seen.

#pragma once

#include "tensors.h"

#include <c10/util/flat_hash_map.h>

namespace mpsprobe::observing {

constexpr size_t kMostDistinct = 1 << 16; // from then on the tensors of new kinds of calls are left out
constexpr int64_t kLeftOut = -1;          // in place of a count of tensors

struct Key {
  uint64_t first, second;
  bool operator==(const Key& other) const { return first == other.first && second == other.second; }
};
struct KeyHash {
  size_t operator()(const Key& key) const { return key.first; }
};
inline Key hash_of(const Words& words) {
  Key key{words.size(), ~words.size()};
  for (auto word : words) {
    key.first = (key.first ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15ULL;
    key.first ^= key.first >> 29;
    key.second = (key.second + static_cast<uint64_t>(word)) * 0xC2B2AE3D27D4EB4FULL;
    key.second ^= key.second >> 31;
  }
  return key;
}

class Table {
 public:
  // Counts a call; its tensors begin at `tensors` of `words`.
  void count(Words& words, size_t tensors, int64_t to_cpu, int64_t from_cpu) {
    auto key = hash_of(words);
    auto found = known_.find(key);
    if (found == known_.end()) {
      if (counts_.size() >= kMostDistinct) {
        words.resize(tensors);
        words.append({kLeftOut, kLeftOut});
        key = hash_of(words);
      }
      found = known_.emplace(key, counts_.size()).first;
      if (found->second == counts_.size()) {
        counts_.push_back({std::vector<int64_t>(words.begin(), words.end())});
      }
    }
    auto& counted = counts_[found->second];
    ++counted.calls;
    counted.to_cpu += to_cpu;
    counted.from_cpu += from_cpu;
  }

  // For each kind of call: how many words follow; calls, bytes to and from the CPU; operator, place, phase, device and
  // flags, tensors of arguments and of results. The table is empty then.
  std::vector<int64_t> take() {
    std::vector<int64_t> flat;
    for (const auto& one : counts_) {
      flat.insert(flat.end(), {static_cast<int64_t>(one.words.size()) + 3, one.calls, one.to_cpu, one.from_cpu});
      flat.insert(flat.end(), one.words.begin(), one.words.end());
    }
    counts_.clear();
    known_.clear();
    return flat;
  }

 private:
  struct Counted {
    std::vector<int64_t> words;
    int64_t calls = 0, to_cpu = 0, from_cpu = 0;
  };
  ska::flat_hash_map<Key, size_t, KeyHash> known_;
  std::vector<Counted> counts_;
};

} // namespace mpsprobe::observing
