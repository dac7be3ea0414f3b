// The threads of a launch: a grid of groups, whose lanes are contexts of one operating-system thread.
//
// A lane runs until it waits for others: at a barrier of its group, or in a function of its SIMD group. When no lane of
// the group can go on, the lanes of one SIMD group that wait in the same function are its active lanes, get each
// other's values, and go on; when all that are left wait at the barrier, they pass it.
#pragma once
#include <setjmp.h>
#include <sys/types.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace mpsprobe_metal {

constexpr int simd_width = 32;
// Not a power of two: the tops of all stacks would share a few lines of the processor's cache.
constexpr size_t stack_bytes = 64 * 1024 + 17 * 64;
constexpr int largest_group = 1024;

struct Position {
  uint32_t x = 0, y = 0, z = 0;
};

// One tensor, or the bytes of a number, as a kernel gets it.
struct Given {
  char* data;
  int64_t bytes;
};

// What Python asks for and is answered; `running.py` has the same fields.
struct Launch {
  const Given* given;
  int64_t number;        // of `given`
  uint32_t grid[3], group[3];
  int64_t most_steps;    // turns of loops, over all lanes
  int32_t backwards;     // lanes run in the opposite order
  int32_t outside;       // 1 + the parameter that was read or written outside its memory; 0: none
  int64_t index;         // where, in elements; of an atomic operation in bytes from its start
  uint32_t at[3];        // by which thread
  int32_t endless;       // more than `most_steps`
};

struct Snapshot {
  uint32_t mask = 0;
  char values[simd_width][16];
  bool active(int lane) const { return mask >> lane & 1; }
  template <class T>
  T of(int lane) const {
    T made;
    std::memcpy(static_cast<void*>(&made), values[lane], sizeof(T));
    return made;
  }
};

enum class State { ready, in_barrier, in_simd, ended };

struct Lane {
  jmp_buf at;
  bool begun = false;  // whether it has a context
  State state = State::ended;
  Position position, in_group;
  int index = 0;  // in the group
  const char* function = nullptr;
  size_t size = 0;  // of its value there
  char value[16];
};

struct Running {
  Launch* launch = nullptr;
  std::vector<Lane> lanes;
  std::unique_ptr<char[]> stacks;
  Snapshot got[largest_group / simd_width];  // by SIMD group, since its lanes last waited
  jmp_buf scheduler;
  Lane* now = nullptr;
  bool switching = false;  // whether lanes have contexts of their own
  bool alone = false;      // whether a lane computes what the others would, too
  int64_t barriers = 0;    // that groups have passed
  Position group_position, group_size;
  int64_t group_number = 0;
  std::vector<std::pair<void*, int64_t>> shared;  // memory of groups, and the group that has it
  int64_t steps = 0;
  void (*body)(Launch&, Running&) = nullptr;
};
inline Running running;

inline int lane() { return running.now->index % simd_width; }

// `swapcontext` would ask the system for the mask of signals each time, which takes longer than most lanes do.
__attribute__((noinline)) inline void leave(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

inline void wait(State state) {
  running.now->state = state;
  leave(running.now->at, running.scheduler);
}

inline void barrier() {
  if (!running.alone) wait(State::in_barrier);
}

// What each lane computes of the same memory of its group between two barriers: the first does, for all.
template <class T, class F>
auto once(const T* data, unsigned size, F compute) {
  static struct { const T* data; unsigned size; int64_t barriers; decltype(compute()) value; } made{};
  barrier();
  if (made.data != data || made.size != size || made.barriers != running.barriers) {
    running.alone = true;
    made = {data, size, running.barriers, compute()};
    running.alone = false;
  }
  const auto value = made.value;
  barrier();
  return value;
}

template <class T>
const Snapshot& exchanged(const T& value, const char* function) {
  static_assert(sizeof(T) <= sizeof(Lane::value));
  Lane& own = *running.now;
  own.function = function;
  own.size = sizeof(T);
  std::memcpy(own.value, static_cast<const void*>(&value), sizeof(T));
  wait(State::in_simd);
  return running.got[running.now->index / simd_width];
}

struct Endless {};

inline void tick() {
  if (++running.steps <= running.launch->most_steps) return;
  running.launch->endless = 1;
  if (running.switching) _longjmp(running.scheduler, 1);
  throw Endless();
}
constexpr void step() {
  if (!__builtin_is_constant_evaluated()) tick();
}

// Memory of a group holds what nothing wrote: NaN, for numbers with a point.
template <class T>
void unwritten(T& memory) {
  for (auto& [address, group] : running.shared) {
    if (address != &memory) continue;
    if (group != running.group_number) std::memset(static_cast<void*>(&memory), 0xff, sizeof(T));
    group = running.group_number;
    return;
  }
  running.shared.emplace_back(&memory, running.group_number);
  std::memset(static_cast<void*>(&memory), 0xff, sizeof(T));
}

inline void outside(int parameter, int64_t index) {
  Launch& launch = *running.launch;
  if (launch.outside) return;
  launch.outside = parameter + 1;
  launch.index = index;
  const Position& at = running.now->position;
  launch.at[0] = at.x, launch.at[1] = at.y, launch.at[2] = at.z;
}

// Whether an atomic is inside some tensor of the launch; what is far from all of them is memory of a group.
template <class A>
bool inside(const A* atomic) {
  const char* at = reinterpret_cast<const char*>(atomic);
  const Launch& launch = *running.launch;
  int nearest = -1;
  int64_t distance = 0;
  for (int64_t number = 0; number < launch.number; ++number) {
    const Given& given = launch.given[number];
    const int64_t from = at - given.data;
    // The last word of a tensor of halves or bytes may reach beyond it, inside the same allocation.
    if (from > -int64_t(sizeof(A)) && from < given.bytes) return true;
    const int64_t away = from < 0 ? -from : from - given.bytes;
    if (nearest < 0 || away < distance) nearest = int(number), distance = away;
  }
  const int64_t far = int64_t(1) << 40;
  if (nearest < 0 || distance > far) return true;
  outside(nearest, at - launch.given[nearest].data);
  return false;
}

// A parameter `device T*` or `constant T*`: an index outside its tensor is noted, and reads and writes nothing.
template <class T>
struct Buffer {
  T* data;
  int64_t size;
  int parameter;
  template <class I>
  T& operator[](I index) const {
    const int64_t at = int64_t(index);
    if (at >= 0 && at < size) [[likely]] return data[at];
    outside(parameter, at);
    static std::remove_const_t<T> nothing;
    nothing = std::remove_const_t<T>();
    return nothing;
  }
  T& operator*() const { return (*this)[0]; }
  T* operator->() const { return &(*this)[0]; }
  operator T*() const { return data; }
  template <class I>
  Buffer operator+(I by) const {
    return {data + by, size - int64_t(by), parameter};
  }
};

template <class T>
Buffer<T> buffer(Launch& launch, int parameter) {
  const Given& given = launch.given[parameter];
  return {reinterpret_cast<T*>(given.data), given.bytes / int64_t(sizeof(T)), parameter};
}

template <class T>
T* bare(const Buffer<T>& buffer) {
  return buffer.data;
}
template <class T>
T* bare(T* pointer) {
  return pointer;
}

template <class T, class U>
T* pointer_to(const Buffer<U>& buffer) {
  return reinterpret_cast<T*>(buffer.data);
}
template <class T, class U>
T* pointer_to(U* pointer) {
  return reinterpret_cast<T*>(pointer);
}

template <class T>
T& value(Launch& launch, int parameter) {
  return *reinterpret_cast<T*>(launch.given[parameter].data);
}

inline void enter() {
  for (;;) {
    running.body(*running.launch, running);
    wait(State::ended);
  }
}

__attribute__((noinline)) inline void begin(Lane& one) {
  ucontext_t made;
  getcontext(&made);
  made.uc_stack.ss_sp = running.stacks.get() + stack_bytes * one.index;
  made.uc_stack.ss_size = stack_bytes;
  made.uc_link = nullptr;
  makecontext(&made, enter, 0);
  one.begun = true;
  if (_setjmp(running.scheduler) == 0) setcontext(&made);
}

// Run the lanes from `first` to `end` that can go on; false: the launch has to end.
inline bool go_on(std::vector<Lane>& lanes, int first, int end) {
  for (int turn = first; turn < end; ++turn) {
    Lane& one = lanes[running.launch->backwards ? first + end - 1 - turn : turn];
    if (one.state != State::ready) continue;
    running.now = &one;
    if (one.begun) {
      leave(running.scheduler, one.at);
    } else {
      begin(one);
    }
    if (running.launch->endless) return false;
  }
  return true;
}

// Let the lanes of a SIMD group that wait in the function of its first waiting lane get each other's values.
inline bool exchange(std::vector<Lane>& lanes, int first, int end) {
  const Lane* leader = nullptr;
  Snapshot& made = running.got[first / simd_width];
  for (int number = first; number < end; ++number) {
    Lane& one = lanes[number];
    if (one.state != State::in_simd) continue;
    if (leader == nullptr) leader = &one, made.mask = 0;
    if (one.size != leader->size) continue;
    if (one.function != leader->function && std::strcmp(one.function, leader->function) != 0) continue;
    made.mask |= uint32_t(1) << (number - first);
    std::memcpy(made.values[number - first], one.value, one.size);
    one.state = State::ready;
  }
  return leader != nullptr;
}

// False: the launch has to end.
inline bool run_group(int count) {
  std::vector<Lane>& lanes = running.lanes;
  for (int number = 0; number < count; ++number) lanes[number].state = State::ready;
  const int groups = (count + simd_width - 1) / simd_width;
  for (bool any = true; any;) {
    if (!go_on(lanes, 0, count)) return false;
    for (int turn = 0; turn < groups; ++turn) {
      const int first = simd_width * (running.launch->backwards ? groups - 1 - turn : turn);
      const int end = first + simd_width < count ? first + simd_width : count;
      while (exchange(lanes, first, end)) {
        if (!go_on(lanes, first, end)) return false;
      }
    }
    any = false;
    ++running.barriers;
    for (int number = 0; number < count; ++number) {
      if (lanes[number].state == State::in_barrier) lanes[number].state = State::ready, any = true;
    }
  }
  return true;
}

inline void run(Launch& launch, void (*body)(Launch&, Running&), bool waits) {
  running.launch = &launch;
  running.body = body;
  running.switching = waits;
  running.alone = false;
  running.steps = 0;
  if (running.lanes.empty()) running.lanes.resize(largest_group);
  if (waits && running.stacks == nullptr) running.stacks.reset(new char[stack_bytes * largest_group]);
  const uint32_t* grid = launch.grid;
  const uint32_t* group = launch.group;
  for (uint32_t gz = 0; gz * group[2] < grid[2]; ++gz) {
    for (uint32_t gy = 0; gy * group[1] < grid[1]; ++gy) {
      for (uint32_t gx = 0; gx * group[0] < grid[0]; ++gx) {
        auto left = [&](uint32_t at, int d) { const uint32_t rest = grid[d] - at * group[d]; return rest < group[d] ? rest : group[d]; };
        const Position size{left(gx, 0), left(gy, 1), left(gz, 2)};
        running.group_position = {gx, gy, gz};
        ++running.group_number;
        running.group_size = size;
        int count = 0;
        for (uint32_t z = 0; z < size.z; ++z) {
          for (uint32_t y = 0; y < size.y; ++y) {
            for (uint32_t x = 0; x < size.x; ++x, ++count) {
              Lane& one = running.lanes[waits ? count : 0];
              one.in_group = {x, y, z};
              one.position = {gx * group[0] + x, gy * group[1] + y, gz * group[2] + z};
              one.index = count;
              if (waits) continue;
              running.now = &one;
              try {
                body(launch, running);
              } catch (const Endless&) {
                return;
              }
            }
          }
        }
        if (waits && !run_group(count)) {
          for (Lane& one : running.lanes) one.begun = false;  // they are in the midst of it
          return;
        }
      }
    }
  }
}

}  // namespace mpsprobe_metal
