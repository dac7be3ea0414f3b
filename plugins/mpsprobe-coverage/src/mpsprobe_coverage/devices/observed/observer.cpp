// Counts every operator call of a process, on all of its threads, where PyTorch tells its profilers of them.
//
// A callback of at::RecordFunction gets a call at its first dispatch, with its arguments, before autograd and autocast
// have seen it; it changes neither the way that the call takes nor the life of its tensors. What is counted are calls
// that reach a backend: an operator that is made of others, or that autocast or a mode of Python calls again, is passed
// over, and so is everything inside a kernel. Copies inside a kernel are added up: a fallback is a kernel that copies.

#include "../interpreter.h"
#include "nodes.h"
#include "operators.h"
#include "table.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>

namespace mpsprobe::observing {
namespace {

using c10::DispatchKeySet;

constexpr size_t kThreads = 64; // the latest, whose nodes' places are known
enum Phase : int64_t { kForward, kBackward, kOptimizer };
enum Flag : int64_t { kFellBack = 1, kRegistered = 2, kRaised = 4, kThereAndBack = 8 };

// Which key a call goes to is decided anew below these: it is called once more, and counted then.
const DispatchKeySet kCalledAgain(
    {DispatchKey::Python, DispatchKey::PythonDispatcher, DispatchKey::PreDispatch, DispatchKey::Functionalize,
     DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
     DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchBatchedDecomposition, DispatchKey::FuncTorchVmapMode,
     DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched, DispatchKey::VmapMode});

// Of the call that this thread makes. A function of Python, which leaves `answer` as it is where Ctrl-C came first: it is
// raised in it, before its first line.
using Place = void (*)(int64_t* answer);
constexpr int64_t kInterrupted = -1;
std::atomic<Place> place_of_call{nullptr};
std::atomic<uint64_t> current{0}; // generation: it changes with each start
std::mutex mutex; // nothing that waits for Python's lock holds it

struct Frame;

struct Thread {
  uint64_t generation = 0;
  bool quiet = false;      // our own questions
  Frame* kernel = nullptr; // the counted call that runs
  bool copying = false;    // inside a copy that is in the sum
  uint64_t counted = 0;
  std::shared_ptr<Nodes> nodes;
  uint64_t nodes_known = 0;
  std::pair<uint64_t, std::shared_ptr<Nodes>> asked; // the thread whose nodes were asked for last
  ska::flat_hash_map<const char*, Operator*> operators;

  void renew(uint64_t now) {
    *this = Thread();
    generation = now;
    nodes_known = at::sequence_number::peek();
  }
};
thread_local Thread thread;
thread_local bool in_optimizer = false; // Python says so

// All below are guarded by `mutex`; they are never destroyed, since threads may outlive the end of `main`.
auto& table = *new Table;
auto& operators = *new std::deque<Operator>;
auto& by_name = *new std::unordered_map<std::string, Operator*>;
auto& nodes_of_threads = *new std::deque<std::pair<uint64_t, std::shared_ptr<Nodes>>>;

struct Frame : at::ObserverContext {
  virtual void end(const at::RecordFunction& call) = 0;
};

struct Copied final : Frame {
  void end(const at::RecordFunction&) override { thread.copying = false; }
};

struct Call : Frame {
  Operator* op;
  uint64_t generation = thread.generation;
  int64_t place = 0, phase = kForward, flags = 0, to_cpu = 0, from_cpu = 0;
  int raising = std::uncaught_exceptions();
  Words words;
  size_t tensors; // where in the words they begin

  explicit Call(Operator* called) : op(called) {}

  void end(const at::RecordFunction& call) override {
    thread.kernel = nullptr;
    thread.copying = false;
    count(call);
  }

  void count(const at::RecordFunction& call) {
    if (generation != current.load()) {
      return;
    }
    ++thread.counted;
    made_nodes();
    if (std::uncaught_exceptions() > raising) {
      flags |= kRaised;
    }
    if (to_cpu > 0 && from_cpu > 0 && op->copy == Copy::None) {
      flags |= kThereAndBack;
    }
    words[1] = place;
    words[2] = phase;
    words[3] |= flags << 8;
    add(words, last(call.outputs(), op->returns));
    std::lock_guard<std::mutex> lock(mutex);
    table.count(words, tensors, to_cpu, from_cpu);
  }

  // The nodes of autograd that this thread has made since the last call are from this place.
  void made_nodes() const {
    auto end = at::sequence_number::peek();
    if (end == thread.nodes_known || place_of_call.load() == nullptr) {
      return;
    }
    if (!thread.nodes) {
      thread.nodes = std::make_shared<Nodes>();
      thread.nodes->first = thread.nodes_known;
      std::lock_guard<std::mutex> lock(mutex);
      nodes_of_threads.emplace_back(at::RecordFunction::currentThreadId(), thread.nodes);
      if (nodes_of_threads.size() > kThreads) {
        nodes_of_threads.pop_front();
      }
    }
    auto& nodes = *thread.nodes;
    for (auto number = std::max(thread.nodes_known, end - std::min(end, kNodes)); number < end; ++number) {
      nodes.places[number % kNodes].store(static_cast<int32_t>(place), std::memory_order_relaxed);
    }
    nodes.end = thread.nodes_known = end;
  }
};

// A composite kernel that may compute by itself: a call that counts, if nothing is counted inside.
struct Maybe final : Call {
  using Call::Call;
  uint64_t counted_before = thread.counted;
  void end(const at::RecordFunction& call) override {
    if (thread.counted == counted_before) {
      count(call);
    }
  }
};

int64_t place_of_node(const torch::autograd::Node& node) {
  if (thread.asked.first != node.thread_id() || !thread.asked.second) {
    std::lock_guard<std::mutex> lock(mutex);
    thread.asked = {};
    for (auto& [id, nodes] : nodes_of_threads) {
      if (id == node.thread_id()) {
        thread.asked = {id, nodes};
      }
    }
  }
  return thread.asked.second ? thread.asked.second->place(node.sequence_nr()) : 0;
}

Operator* resolved(const at::RecordFunction& fn) {
  auto name = fn.operator_name();
  std::string full = name.has_value() ? c10::toString(*name) : fn.name();
  std::lock_guard<std::mutex> lock(mutex);
  auto [found, is_new] = by_name.emplace(full, nullptr);
  if (is_new) {
    found->second = &operators.emplace_back();
    found->second->index = static_cast<int64_t>(operators.size()) - 1;
    found->second->full_name = full;
    describe(*found->second, fn);
  }
  return found->second;
}

Operator* operator_of(const at::RecordFunction& fn) {
  const char* name = fn.name();
  auto found = thread.operators.find(name);
  if (found != thread.operators.end() && found->second->name == name) { // another one may have the address by now
    return found->second;
  }
  if (std::strstr(name, "::") == nullptr) {
    return nullptr;
  }
  auto* op = resolved(fn);
  if (!op->id.has_value()) {
    return nullptr;
  }
  thread.operators[name] = op;
  return op;
}

// The bytes that a copy moves between the CPU and another device; whether it does.
bool add_copy(Call& to, const Operator& op, at::ArrayRef<IValue> arguments) {
  auto number = op.copy == Copy::Number;
  for (size_t i = 0; i < (number ? 1 : 2); ++i) {
    if (i >= arguments.size() || !arguments[i].isTensor()) {
      return false;
    }
  }
  const auto& source = arguments[op.copy == Copy::From ? 1 : 0].toTensor();
  bool from_cpu = source.is_cpu();
  bool to_cpu = number || arguments[op.copy == Copy::From ? 0 : 1].toTensor().is_cpu();
  if (from_cpu == to_cpu) {
    return false;
  }
  (to_cpu ? to.to_cpu : to.from_cpu) += number ? static_cast<int64_t>(source.itemsize()) : bytes(source);
  return true;
}

std::unique_ptr<at::ObserverContext> in_kernel(Operator& op, at::ArrayRef<IValue> arguments) {
  auto& call = static_cast<Call&>(*thread.kernel);
  if (op.to_cpu) {
    call.flags |= kFellBack;
  } else if (op.copy != Copy::None && add_copy(call, op, arguments)) {
    thread.copying = true;
    return std::make_unique<Copied>();
  }
  return nullptr;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
  auto now = current.load(std::memory_order_relaxed);
  if (thread.generation != now) {
    thread.renew(now);
  }
  if (thread.quiet || thread.copying) {
    return nullptr;
  }
  auto* op = operator_of(fn);
  if (op == nullptr) {
    return nullptr;
  }
  auto arguments = last(fn.inputs(), op->arguments);
  if (thread.kernel != nullptr) {
    return in_kernel(*op, arguments);
  }
  auto tls = c10::impl::tls_local_dispatch_key_set();
  DispatchKeySet keys = tls.included_;
  std::optional<c10::Device> device, named;
  DispatchKeySet of_device;
  for (const IValue& argument : arguments) {
    if (argument.isDevice()) {
      named = argument.toDevice();
    }
    each_tensor(argument, [&](const at::Tensor& tensor) {
      keys = keys | tensor.key_set();
      if (!device.has_value() || (device->is_cpu() && !tensor.is_cpu())) {
        device = tensor.device();
        of_device = tensor.key_set();
      } else if (tensor.device() == *device) {
        of_device = of_device | tensor.key_set();
      }
    });
  }
  keys = keys - tls.excluded_;
  if (keys.has_any(kCalledAgain)) {
    return nullptr;
  }
  auto autocast = keys & c10::autocast_dispatch_keyset;
  for (auto key : autocast) {
    if (op->has_kernel(key)) {
      return nullptr; // called again with the arguments that it casts
    }
  }
  auto on = device.value_or(named.value_or(c10::Device(c10::kCPU)));
  auto functionality = DispatchKey::Dense;
  for (auto one : {DispatchKey::Quantized, DispatchKey::Sparse, DispatchKey::SparseCsr, DispatchKey::NestedTensor}) {
    functionality = of_device.has(one) ? one : functionality;
  }
  auto backend = c10::toBackendComponent(c10::computeDispatchKey(std::nullopt, std::nullopt, on));
  auto key = c10::toRuntimePerBackendFunctionalityKey(functionality, backend);
  bool registered = op->has_kernel(key);
  if (!registered && op->composite && !op->may_compute) {
    return nullptr;
  }
  bool counts_for_sure = registered || !op->composite;
  std::unique_ptr<Call> call;
  if (counts_for_sure) {
    call = std::make_unique<Call>(op);
  } else {
    call = std::make_unique<Maybe>(op);
  }
  call->words = {op->index, 0, 0, static_cast<int64_t>(on.type())};
  call->tensors = call->words.size();
  add(call->words, arguments);
  call->flags = registered || op->composite ? kRegistered : 0;
  if (auto node = torch::autograd::get_current_node()) {
    call->phase = kBackward;
    call->place = place_of_node(*node);
  } else {
    call->phase = in_optimizer ? kOptimizer : kForward;
    if (auto ask = place_of_call.load()) {
      thread.quiet = true;
      auto answer = kInterrupted;
      in_python(ask, &answer);
      thread.quiet = false;
      call->place = std::max<int64_t>(answer, 0);
      if (answer == kInterrupted) {
        interrupt_program();
      }
    }
  }
  if (counts_for_sure) {
    thread.kernel = call.get();
    thread.copying = op->copy != Copy::None && add_copy(*call, *op, arguments);
  }
  return call;
}

void finish(const at::RecordFunction& fn, at::ObserverContext* context) {
  if (context != nullptr) {
    static_cast<Frame*>(context)->end(fn);
  }
}

std::optional<at::CallbackHandle> callback;

void stop() {
  if (callback.has_value()) {
    at::removeCallback(*callback);
    callback.reset();
  }
}

// Counts from now on. `place` is the address of a function of C that says where the program is (0: nobody is asked);
// `python` has those of Python's own.
void start(int64_t place, std::vector<int64_t> python) {
  stop();
  place_of_call = reinterpret_cast<Place>(place);
  know(python);
  {
    std::lock_guard<std::mutex> lock(mutex);
    table.take();
    nodes_of_threads.clear();
    for (auto& op : operators) { // kernels may have been registered meanwhile
      for (auto& one : op.kernels) {
        one = 0;
      }
    }
  }
  ++current;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &finish)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
}

std::vector<int64_t> take() {
  std::lock_guard<std::mutex> lock(mutex);
  return table.take();
}

std::vector<std::string> names() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> all;
  for (const auto& op : operators) {
    all.push_back(op.full_name);
  }
  return all;
}

} // namespace
} // namespace mpsprobe::observing

TORCH_LIBRARY(mpsprobe_observer, m) {
  using namespace mpsprobe::observing;
  m.def("start(int place, int[] python) -> ()", &start);
  // The address of an exception that the program gets when Python is asked no more, with a reference.
  m.def("raise_later(int error) -> ()", [](int64_t error) { mpsprobe::raise_later(reinterpret_cast<void*>(error)); });
  m.def("stop() -> ()", &stop);
  m.def("in_optimizer(bool now) -> ()", [](bool now) { in_optimizer = now; });
  m.def("take() -> int[]", &take);
  m.def("operators() -> str[]", &names);
  m.def("device_name(int type) -> str", [](int64_t type) {
    return c10::DeviceTypeName(static_cast<c10::DeviceType>(type), true);
  });
  m.def("dtype_name(int type) -> str", [](int64_t type) {
    return std::string(c10::toString(static_cast<c10::ScalarType>(type)));
  });
  // Around a fork: nobody else is inside when the process is copied.
  m.def("hold(bool held) -> ()", [](bool held) { held ? mutex.lock() : mutex.unlock(); });
}
