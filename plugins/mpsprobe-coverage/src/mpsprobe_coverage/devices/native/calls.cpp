// Every call is counted under what makes it distinct. One like none before is shown to Python, which judges it.
//
// Distinct are the operator, the specs of tensors, the other arguments and the place in the program. Numbers that a
// program computes (a learning rate) would make every call a new one, so of those only the size counts.

#include "../interpreter.h"
#include "device.h"

#include <ATen/native/SparseTensorUtils.h>
#include <ATen/record_function.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace mpsprobe {
namespace {

using c10::IValue;
using torch::jit::Stack;

constexpr size_t kMostDistinct = 1 << 16; // then they are handed over, and forgotten

// Functions of Python, which leave `answer` as it is where Ctrl-C came first: it is raised in them, before their first line.
// Judges the call that is shown: the slot that calls like it are counted in, or -1. For operator -1: takes all counts.
// `asked`: what `Ask` said about the call.
using Judge = void (*)(int64_t operator_id, int64_t place, int64_t asked, int64_t* answer);
// A number for what a known wrong result asks of each call of some operators (offsets, values), before it is made.
using Ask = void (*)(int64_t operator_id, int64_t* answer);
using Place = void (*)(int64_t* answer);
constexpr int64_t kInterrupted = -2;

struct Key {
  uint64_t first, second;
  bool operator==(const Key& other) const { return first == other.first && second == other.second; }
};
struct KeyHash {
  size_t operator()(const Key& key) const { return key.first; }
};

std::atomic<Judge> judge{nullptr};
std::atomic<Ask> ask{nullptr};
std::vector<bool> asking; // by operator; set while nothing is recorded
std::atomic<Place> place{nullptr};
std::atomic<int64_t> opened{0}, threads{0}; // how often something was to be recorded; of the program, since then
std::atomic<bool> raising{false};
std::mutex mutex;
struct Count {
  int64_t slot, calls;
};
std::vector<Count> counts;
ska::flat_hash_map<Key, size_t, KeyHash> known; // → position in `counts`
struct Refusal {
  std::string type, message;
};
std::unordered_map<int64_t, Refusal> refused; // slot → what a Mac raises
thread_local bool muted = false;
thread_local bool interrupted = false;
thread_local int64_t counted_in = 0; // of `opened`: this thread is one of `threads`
thread_local bool in_optimizer = false; // Python says so
thread_local at::ArrayRef<IValue> shown_arguments, shown_results;
thread_local const char* shown_message = nullptr;

struct Hash {
  uint64_t &first, &second;

  void add(uint64_t value) {
    first = (first ^ value) * 0x9E3779B97F4A7C15ULL;
    first ^= first >> 29;
    second = (second + value) * 0xC2B2AE3D27D4EB4FULL;
    second ^= second >> 31;
  }

  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return add(1);
    }
    add(2 | static_cast<uint64_t>(tensor.scalar_type()) << 8 | static_cast<uint64_t>(tensor.layout()) << 16 |
        static_cast<uint64_t>(tensor.device().type()) << 24 | static_cast<uint64_t>(tensor.dim()) << 32);
    for (auto size : tensor.sizes()) {
      add(static_cast<uint64_t>(size));
    }
    if (tensor.layout() == c10::kStrided) {
      for (auto stride : tensor.strides()) {
        add(static_cast<uint64_t>(stride));
      }
    } else if (tensor.layout() == c10::kSparse) {
      auto* impl = at::sparse::get_sparse_impl(tensor);
      add(static_cast<uint64_t>(impl->nnz()) << 8 | static_cast<uint64_t>(impl->sparse_dim()));
    }
  }

  // Small whole numbers as they are (an exponent, a norm's order), others by their size.
  void add_number(double value) {
    if (std::abs(value) <= 16 && value == std::floor(value)) {
      return add(3 | static_cast<uint64_t>(static_cast<int64_t>(value)) << 8);
    }
    add(std::isnan(value) ? 4 : 5 | static_cast<uint64_t>(std::ilogb(value)) << 8 | static_cast<uint64_t>(value < 0) << 7);
  }

  void add(const IValue& value) {
    if (value.isTensor()) {
      return add(value.toTensor());
    }
    if (value.isInt()) {
      return add(6 | static_cast<uint64_t>(value.toInt()) << 8);
    }
    if (value.isBool()) {
      return add(7 | static_cast<uint64_t>(value.toBool()) << 8);
    }
    if (value.isDouble()) {
      return add_number(value.toDouble());
    }
    if (value.isNone()) {
      return add(8);
    }
    if (value.isIntList()) {
      auto list = value.toIntVector();
      add(9 | list.size() << 8);
      for (auto one : list) {
        add(static_cast<uint64_t>(one));
      }
      return;
    }
    if (value.isList()) {
      auto list = value.toListRef();
      add(10 | list.size() << 8);
      for (const auto& one : list) {
        add(one);
      }
      return;
    }
    if (value.isString()) {
      return add(std::hash<std::string>()(value.toStringRef()));
    }
    if (value.isDevice()) {
      return add(11 | static_cast<uint64_t>(value.toDevice().type()) << 8);
    }
    if (value.isGenerator()) {
      return add(12 | static_cast<uint64_t>(value.toGenerator().device().type()) << 8);
    }
    add(13);
  }
};

struct Muted {
  bool before = muted;
  Muted() { muted = true; }
  ~Muted() { muted = before; }
};

// A tensor that keeps its sizes when the operator resizes the argument.
IValue kept(const IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) {
    return value;
  }
  const auto& tensor = value.toTensor();
  auto version = tensor.is_inference() ? c10::VariableVersion(c10::VariableVersion::DISABLED) : c10::VariableVersion(0);
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version, false));
}

int64_t judged(int64_t operator_id, int64_t place, int64_t asked = 0) {
  auto answer = kInterrupted;
  in_python(judge.load(), operator_id, place, asked, &answer);
  interrupted = interrupted || answer == kInterrupted;
  return answer;
}

void raise(const Refusal& refusal) {
  TORCH_CHECK_TYPE(refusal.type != "TypeError", refusal.message);
  TORCH_CHECK_NOT_IMPLEMENTED(refusal.type != "NotImplementedError", refusal.message);
  TORCH_CHECK(false, refusal.message);
}

} // namespace

int64_t place_of_now() {
  if (auto ask = place.load()) {
    Muted quiet;
    auto answer = kInterrupted;
    in_python(ask, &answer);
    interrupted = interrupted || answer == kInterrupted;
    return std::max<int64_t>(answer, 0);
  }
  return torch::autograd::get_current_node() ? 1 : in_optimizer ? 2 : 0; // without lines, the phases
}

Recorded::Recorded(int64_t operator_id, bool varying, const Stack& stack, size_t arguments, int64_t place)
    : operator_(operator_id), muted_before_(muted), varying_(varying) {
  if (muted || judge.load() == nullptr || copies_for_derivative()) {
    return;
  }
  if (counted_in != opened && !torch::autograd::get_current_node()) {
    counted_in = opened;
    ++threads;
  }
  place_ = place < 0 ? place_of_now() : place;
  Hash hash{first_, second_};
  hash.add(static_cast<uint64_t>(operator_id) << 32 | static_cast<uint64_t>(place_));
  for (auto value = stack.end() - arguments; value != stack.end(); ++value) {
    hash.add(*value);
  }
  if (static_cast<size_t>(operator_id) < asking.size() && asking[static_cast<size_t>(operator_id)]) {
    Muted quiet;
    shown_arguments = at::ArrayRef<IValue>(stack).slice(stack.size() - arguments);
    asked_ = kInterrupted;
    in_python(ask.load(), operator_id, &asked_);
    shown_arguments = {};
    interrupted = interrupted || asked_ == kInterrupted;
    hash.add(static_cast<uint64_t>(asked_));
  }
  if (!varying) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(Key{first_, second_});
    if (found != known.end()) {
      // Before it runs: while it does, another thread may take all counts.
      known_ = true;
      auto& count = counts[found->second];
      ++count.calls;
      auto refusal = refused.find(count.slot);
      if (refusal != refused.end()) {
        raise(refusal->second);
      }
    }
  }
  if (!known_) {
    arguments_.reserve(arguments);
    for (auto value = stack.end() - arguments; value != stack.end(); ++value) {
      arguments_.push_back(kept(*value));
    }
  }
  muted = true; // what it calls in turn is no call of the program's
}

bool Recorded::may_raise() const {
  return raising && !known_ && muted && !muted_before_;
}

void pass_on_interrupt() {
  if (std::exchange(interrupted, false)) {
    interrupt_program();
  }
}

Recorded::~Recorded() {
  muted = muted_before_;
  if (!muted) {
    pass_on_interrupt();
  }
}

void Recorded::returned(const Stack& stack, size_t results) {
  if (muted && !muted_before_) {
    count(at::ArrayRef<IValue>(stack).slice(stack.size() - results), nullptr);
  }
}

void Recorded::raised(const char* message) {
  if (muted && !muted_before_) {
    count({}, message);
  }
}

void Recorded::count(at::ArrayRef<IValue> results, const char* message) {
  if (known_) {
    return;
  }
  if (varying_) {
    Hash hash{first_, second_};
    for (const auto& one : results) {
      hash.add(one);
    }
  }
  Key key{first_, second_};
  if (varying_) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(key);
    if (found != known.end()) {
      ++counts[found->second].calls;
      return;
    }
  }
  shown_arguments = arguments_;
  shown_results = results;
  shown_message = message;
  auto slot = judged(operator_, place_, asked_);
  shown_arguments = shown_results = {};
  if (slot < 0) {
    return;
  }
  std::optional<Refusal> refusal;
  bool full;
  {
    std::lock_guard<std::mutex> lock(mutex);
    known[key] = counts.size();
    counts.push_back({slot, 1});
    full = counts.size() >= kMostDistinct;
    auto found = refused.find(slot);
    if (found != refused.end()) {
      refusal = found->second;
    }
  }
  if (full) {
    judged(-1, 0);
  }
  if (refusal.has_value()) {
    raise(*refusal);
  }
}

namespace {

IValue as_list(at::ArrayRef<IValue> values) {
  c10::impl::GenericList list(c10::AnyType::get());
  list.reserve(values.size());
  for (const auto& one : values) {
    list.push_back(one);
  }
  return list;
}

void shown(const c10::OperatorHandle&, Stack* stack) {
  stack->emplace_back(as_list(shown_arguments));
  stack->emplace_back(as_list(shown_results));
  stack->emplace_back(std::string(shown_message == nullptr ? "" : shown_message));
}

std::vector<int64_t> take_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<int64_t> taken;
  for (const auto& one : counts) {
    taken.insert(taken.end(), {one.slot, one.calls});
    refused.erase(one.slot);
  }
  counts.clear();
  known.clear();
  return taken;
}

} // namespace
} // namespace mpsprobe

TORCH_LIBRARY_FRAGMENT(mpsprobe, m) {
  using namespace mpsprobe;
  // Addresses of functions of C: what judges (0: nothing is recorded), what says where the program is (0: nothing does),
  // what is asked about calls of the operators `asked_about`, and Python's own.
  m.def("record(int judge, int place, int ask, int[] asked_about, int[] python) -> ()",
        [](int64_t judging, int64_t placing, int64_t asked, std::vector<int64_t> asked_about, std::vector<int64_t> python) {
    asking.clear();
    for (auto id : asked_about) {
      asking.resize(std::max(asking.size(), static_cast<size_t>(id) + 1));
      asking[static_cast<size_t>(id)] = true;
    }
    ask = reinterpret_cast<Ask>(asked);
    if (judging != 0) {
      know(python);
      ++opened;
      threads = 0;
    }
    place = reinterpret_cast<Place>(placing);
    judge = reinterpret_cast<Judge>(judging);
  });
  // Arguments and results of the call that is being judged, and what it raised.
  m.def("shown() -> (Any[], Any[], str)", torch::CppFunction::makeFromBoxedFunction<&shown>());
  // Calls of this slot raise; `type` is that of Python's exception.
  m.def("refuse(int slot, str type, str message) -> ()", [](int64_t slot, std::string type, std::string message) {
    std::lock_guard<std::mutex> lock(mutex);
    refused[slot] = {std::move(type), std::move(message)};
  });
  // Whether nothing is recorded in this thread; what it was before.
  m.def("mute(bool muted) -> bool", [](bool now) { return std::exchange(muted, now); });
  m.def("set_raising(bool raising) -> ()", [](bool now) { raising = now; });
  // The address of an exception that the program gets when Python is asked no more, with a reference.
  m.def("raise_later(int error) -> ()", [](int64_t error) {
    raise_later(reinterpret_cast<void*>(error));
    interrupted = true;
  });
  // Slots, each with the number of its calls; they are not used again.
  m.def("take_counts() -> int[]", &take_counts);
  // Threads that called an operator since recording began, without those of autograd.
  m.def("threads() -> int", []() { return threads.load(); });
  // PyTorch's numbers of this thread, and of the one that made the autograd node that runs (0: none does).
  m.def("thread_now() -> int", []() { return static_cast<int64_t>(at::RecordFunction::currentThreadId()); });
  m.def("thread_of_node() -> int", []() {
    auto node = torch::autograd::get_current_node();
    return node ? static_cast<int64_t>(node->thread_id()) : 0;
  });
  // Whether this thread is in the step of an optimizer.
  m.def("in_optimizer(bool now) -> ()", [](bool now) {
    in_optimizer = now;
    if (!now) {
      mpsprobe::updated();
    }
  });
}
