// Where autograd's nodes were made.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace mpsprobe::observing {

constexpr uint64_t kNodes = 1 << 17; // of one thread, the latest, whose places are known

// Where the nodes of one thread were made, at their sequence numbers.
struct Nodes {
  std::array<std::atomic<int32_t>, kNodes> places;
  std::atomic<uint64_t> first{0}, end{0};

  int64_t place(uint64_t number) const {
    auto known = number >= first && number < end && end - number <= kNodes;
    return known ? places[number % kNodes].load(std::memory_order_relaxed) : 0;
  }
};

} // namespace mpsprobe::observing
