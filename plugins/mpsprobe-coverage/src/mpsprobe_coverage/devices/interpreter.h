// What C++ asks of Python itself, by the addresses of its functions (`interpreter.py`): nothing here is compiled against Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
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
  int (*call_later)(int (*)(void*), void*);
  void* (*type_of)(void*);
  void (*set_error)(void*, void*);
  void (*forget)(void*);
} interpreter{};

// What a handler of a signal raised while Python was asked, of this thread: a new reference, or none.
thread_local void* raised_meanwhile = nullptr;

// In the order of the members above.
inline void know(const std::vector<int64_t>& addresses) {
  interpreter = {
      reinterpret_cast<void (*)()>(addresses.at(0)),
      reinterpret_cast<int (*)()>(addresses.at(1)),
      reinterpret_cast<void (*)(int)>(addresses.at(2)),
      reinterpret_cast<int (*)()>(addresses.at(3)),
      reinterpret_cast<void (*)(int)>(addresses.at(4)),
      reinterpret_cast<int (*)(int (*)(void*), void*)>(addresses.at(5)),
      reinterpret_cast<void* (*)(void*)>(addresses.at(6)),
      reinterpret_cast<void (*)(void*, void*)>(addresses.at(7)),
      reinterpret_cast<void (*)(void*)>(addresses.at(8))};
}

// `error` comes with a reference. Only the last one is kept, as of exceptions that are raised in handlers of others.
inline void raise_later(void* error) {
  auto* before = std::exchange(raised_meanwhile, error);
  if (before != nullptr) {
    auto lock = interpreter.take_lock();
    interpreter.forget(before);
    interpreter.give_lock(lock);
  }
}

inline int raise(void* error) {
  auto* type = interpreter.type_of(error);
  interpreter.set_error(type, error);
  interpreter.forget(type);
  interpreter.forget(error);
  return -1;
}

// In the program, before its next line: that exception, or Ctrl-C's.
inline void interrupt_program() {
  auto* error = std::exchange(raised_meanwhile, nullptr);
  if (error == nullptr || interpreter.call_later(&raise, error) != 0) {
    interpreter.interrupt();
  }
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
