// What C++ asks of Python itself, by the addresses of its functions (`interpreter.py`): nothing here is compiled against Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace mpsprobe {
namespace { // each library has its own

constexpr int kRoom = 500; // calls, with those of modules that are imported on the way

struct Interpreter {
  void (*interrupt)(); // as Ctrl-C does
  int (*take_lock)();
  void (*give_lock)(int);
  int (*recursion_limit)();
  void (*set_recursion_limit)(int);
} interpreter{};

// In the order of the members above.
inline void know(const std::vector<int64_t>& addresses) {
  interpreter = {
      reinterpret_cast<void (*)()>(addresses.at(0)),
      reinterpret_cast<int (*)()>(addresses.at(1)),
      reinterpret_cast<void (*)(int)>(addresses.at(2)),
      reinterpret_cast<int (*)()>(addresses.at(3)),
      reinterpret_cast<void (*)(int)>(addresses.at(4))};
}

// Calls a function of Python, which may go deeper than the program: one that recurses until Python ends it calls operators
// right at the limit. Numbers are added and taken away, as other threads do so meanwhile.
template <typename Function, typename... Arguments>
void in_python(Function function, Arguments... arguments) {
  auto lock = interpreter.take_lock();
  auto room = std::min(kRoom, std::numeric_limits<int>::max() - interpreter.recursion_limit());
  interpreter.set_recursion_limit(interpreter.recursion_limit() + room);
  function(arguments...);
  interpreter.set_recursion_limit(interpreter.recursion_limit() - room);
  interpreter.give_lock(lock);
}

} // namespace
} // namespace mpsprobe
