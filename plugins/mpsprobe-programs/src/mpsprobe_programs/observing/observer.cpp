// Counts every operator call of a process, on all of its threads, where PyTorch tells its profilers of them.
//
// A callback of at::RecordFunction gets a call at its first dispatch, with its arguments, before autograd and autocast
// have seen it; it changes neither the way that the call takes nor the life of its tensors. What is counted are calls
// that reach a backend: an operator that is made of others, or that autocast or a mode of Python calls again, is passed
// over, and so is everything inside a kernel. Copies inside a kernel are added up: a fallback is a kernel that copies.

#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

constexpr size_t kMostDistinct = 1 << 16; // from then on the tensors of new kinds of calls are left out
constexpr uint64_t kNodes = 1 << 17;      // of one thread, the latest, whose places are known
constexpr size_t kThreads = 64;           // likewise
constexpr int64_t kLeftOut = -1;          // in place of a count of tensors
enum Phase : int64_t { kForward, kBackward, kOptimizer };
enum Flag : int64_t { kFellBack = 1, kRegistered = 2, kRaised = 4, kThereAndBack = 8 };
enum class Copy : uint8_t { None, From, To, Number };

// Which key a call goes to is decided anew below these: it is called once more, and counted then.
const DispatchKeySet kCalledAgain(
    {DispatchKey::Python, DispatchKey::PythonDispatcher, DispatchKey::PreDispatch, DispatchKey::Functionalize,
     DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
     DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchBatchedDecomposition, DispatchKey::FuncTorchVmapMode,
     DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched, DispatchKey::VmapMode});

using Place = int64_t (*)(); // of the call that this thread makes; -1: a signal came meanwhile
using Interrupt = void (*)();
std::atomic<Place> place_of_call{nullptr};
std::atomic<Interrupt> interrupt{nullptr};
std::atomic<uint64_t> generation{0};
std::mutex mutex; // nothing that waits for Python's lock holds it

struct Operator {
  std::string name;
  std::optional<c10::OperatorHandle> handle; // none: a range that somebody named
  int64_t index = 0;
  size_t arguments = 0, returns = 0;
  bool composite = false;
  bool may_compute = false; // composite below autograd, and no view: some of these kernels call nothing
  bool to_cpu = false;
  Copy copy = Copy::None;
  std::array<std::atomic<int8_t>, static_cast<size_t>(DispatchKey::EndOfRuntimeBackendKeys) + 1> kernels{};

  bool has_kernel(DispatchKey key) {
    auto& known = kernels[static_cast<size_t>(key)];
    if (known == 0) {
      known = handle->hasKernelForDispatchKey(key) ? 1 : -1;
    }
    return known > 0;
  }
};

// Where the nodes of one thread were made, at their sequence numbers.
struct Nodes {
  std::array<std::atomic<int32_t>, kNodes> places;
  std::atomic<uint64_t> first{0}, end{0};

  int64_t place(uint64_t number) const {
    auto known = number >= first && number < end && end - number <= kNodes;
    return known ? places[number % kNodes].load(std::memory_order_relaxed) : 0;
  }
};

struct Frame;

struct Thread {
  uint64_t generation = 0;
  bool quiet = false;      // our own questions
  Frame* kernel = nullptr; // the counted call that runs
  bool copying = false;    // inside a copy that is in the sum
  int64_t optimizers = 0;
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

struct Key {
  uint64_t first, second;
  bool operator==(const Key& other) const { return first == other.first && second == other.second; }
};
struct KeyHash {
  size_t operator()(const Key& key) const { return key.first; }
};
struct Counted {
  std::vector<int64_t> words;
  int64_t calls = 0, to_cpu = 0, from_cpu = 0;
};
using Words = c10::SmallVector<int64_t, 96>;

// All below are guarded by `mutex`; they are never destroyed, since threads may outlive the end of `main`.
auto& known = *new ska::flat_hash_map<Key, size_t, KeyHash>;
auto& counts = *new std::vector<Counted>;
auto& operators = *new std::deque<Operator>;
auto& by_name = *new std::unordered_map<std::string, Operator*>;
auto& nodes_of_threads = *new std::deque<std::pair<uint64_t, std::shared_ptr<Nodes>>>;

Key hash_of(const Words& words) {
  Key key{words.size(), ~words.size()};
  for (auto word : words) {
    key.first = (key.first ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15ULL;
    key.first ^= key.first >> 29;
    key.second = (key.second + static_cast<uint64_t>(word)) * 0xC2B2AE3D27D4EB4FULL;
    key.second ^= key.second >> 31;
  }
  return key;
}

// Numbers of the program that PyTorch wraps are none of its tensors.
template <typename Visit>
void each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      visit(tensor);
    }
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) {
      each_tensor(one, visit);
    }
  }
}

// A boxed call shows its whole stack: what is below is not its own.
at::ArrayRef<IValue> last(at::ArrayRef<IValue> stack, size_t count) {
  return count < stack.size() ? stack.slice(stack.size() - count) : stack;
}

int64_t bytes(const at::Tensor& tensor) { return tensor.numel() * static_cast<int64_t>(tensor.itemsize()); }

// Dtype, layout, device and rank in one word, then sizes, then strides, or (sparse and dense ranks, nnz).
void add(Words& words, const at::Tensor& tensor) {
  bool plain = !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  auto rank = plain ? tensor.dim() : 1;
  words.push_back(
      static_cast<int64_t>(tensor.scalar_type()) | static_cast<int64_t>(tensor.layout()) << 8 |
      static_cast<int64_t>(tensor.device().type()) << 16 | rank << 24);
  if (!plain) {
    words.push_back(tensor.is_nested() ? tensor.numel() : 0);
    words.push_back(1);
    return;
  }
  words.append(tensor.sizes().begin(), tensor.sizes().end());
  if (tensor.layout() == c10::kStrided) {
    words.append(tensor.strides().begin(), tensor.strides().end());
  } else {
    words.append({tensor.sparse_dim(), tensor.dense_dim(), tensor._nnz()});
  }
}

void add(Words& words, at::ArrayRef<IValue> values) {
  auto count = words.size();
  words.push_back(0);
  for (const IValue& value : values) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      add(words, tensor);
      ++words[count];
    });
  }
}

struct Frame : at::ObserverContext {
  virtual void end(const at::RecordFunction& call) = 0;
};

struct Update final : Frame { // a step of an optimizer
  void end(const at::RecordFunction&) override { --thread.optimizers; }
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
    if (generation != ::generation.load()) {
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
    auto key = hash_of(words);
    std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(key);
    if (found == known.end()) {
      if (counts.size() >= kMostDistinct) {
        words.resize(tensors);
        words.append({kLeftOut, kLeftOut});
        key = hash_of(words);
      }
      found = known.emplace(key, counts.size()).first;
      if (found->second == counts.size()) {
        counts.push_back({std::vector<int64_t>(words.begin(), words.end())});
      }
    }
    auto& counted = counts[found->second];
    ++counted.calls;
    counted.to_cpu += to_cpu;
    counted.from_cpu += from_cpu;
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
  if (!is_new) {
    return found->second;
  }
  auto& op = operators.emplace_back();
  found->second = &op;
  op.index = static_cast<int64_t>(operators.size()) - 1;
  op.name = full;
  op.handle = name.has_value() ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op.handle.has_value()) {
    return &op;
  }
  const auto& schema = op.handle->schema();
  op.arguments = schema.arguments().size();
  op.returns = schema.returns().size();
  auto has = [&](DispatchKey key) { return op.handle->hasKernelForDispatchKey(key); };
  bool implicit = has(DispatchKey::CompositeImplicitAutograd) || has(DispatchKey::CompositeImplicitAutogradNestedTensor);
  bool below = has(DispatchKey::CompositeExplicitAutograd) || has(DispatchKey::CompositeExplicitAutogradNonFunctional);
  const auto& plain = name->name;
  // Its composite kernel copies by itself on most devices, and through another operator on some: one name for both.
  bool copies = plain == "aten::copy_";
  op.composite = (implicit || below) && !copies;
  bool view = op.handle->hasTag(at::Tag::inplace_view);
  for (const auto& result : schema.returns()) {
    view = view || (result.alias_info() != nullptr && !result.alias_info()->isWrite());
  }
  op.may_compute = below && !implicit && !copies && !view && op.returns > 0;
  op.to_cpu = plain == "aten::_to_cpu";
  op.copy = copies                                                                    ? Copy::From
      : plain == "aten::_copy_from" || plain == "aten::_copy_from_and_resize"         ? Copy::To
      : plain == "aten::_local_scalar_dense"                                          ? Copy::Number
                                                                                      : Copy::None;
  return &op;
}

Operator* operator_of(const at::RecordFunction& fn) {
  const char* name = fn.name();
  auto found = thread.operators.find(name);
  if (found != thread.operators.end()) {
    auto& op = *found->second;
    // The address may be that of another name by now.
    if (op.handle.has_value() && op.handle->schema().name().c_str() == name) {
      return &op;
    }
  }
  if (std::strstr(name, "::") == nullptr) {
    return nullptr;
  }
  auto* op = resolved(fn);
  if (op->handle.has_value()) {
    thread.operators[name] = op;
  }
  return op->handle.has_value() ? op : nullptr;
}

// The bytes that a copy moves between the CPU and another device; whether it does.
bool add_copy(Call& to, const Operator& op, at::ArrayRef<IValue> arguments) {
  auto number = op.copy == Copy::Number;
  if (arguments.empty() || !arguments[0].isTensor() || (!number && (arguments.size() < 2 || !arguments[1].isTensor()))) {
    return false;
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
  auto now = generation.load(std::memory_order_relaxed);
  if (thread.generation != now) {
    thread.renew(now);
  }
  if (thread.quiet || thread.copying) {
    return nullptr;
  }
  if (fn.scope() == at::RecordScope::USER_SCOPE) {
    if (std::strncmp(fn.name(), "Optimizer.step#", 15) != 0) {
      return nullptr;
    }
    ++thread.optimizers;
    return std::make_unique<Update>();
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
    if (op->handle->hasKernelForDispatchKey(key)) {
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
    call->phase = thread.optimizers > 0 ? kOptimizer : kForward;
    if (auto ask = place_of_call.load()) {
      thread.quiet = true;
      auto answer = ask();
      thread.quiet = false;
      call->place = std::max<int64_t>(answer, 0);
      if (answer < 0) {
        interrupt.load()();
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

// Counts from now on. `place` and `interrupt` are addresses of functions of C: the first says where the program is (0:
// nobody is asked), the second tells Python of a signal that came in between.
void start(int64_t place, int64_t interrupting) {
  stop();
  place_of_call = reinterpret_cast<Place>(place);
  interrupt = reinterpret_cast<Interrupt>(interrupting);
  {
    std::lock_guard<std::mutex> lock(mutex);
    known.clear();
    counts.clear();
    nodes_of_threads.clear();
    for (auto& op : operators) { // kernels may have been registered meanwhile
      for (auto& one : op.kernels) {
        one = 0;
      }
    }
  }
  ++generation;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &finish)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
}

// For each kind of call: how many words follow; calls, bytes to and from the CPU; operator, place, phase, device and
// flags, tensors of arguments and of results.
std::vector<int64_t> take() {
  std::vector<Counted> taken;
  {
    std::lock_guard<std::mutex> lock(mutex);
    taken.swap(counts);
    known.clear();
  }
  std::vector<int64_t> flat;
  for (const auto& one : taken) {
    flat.insert(flat.end(), {static_cast<int64_t>(one.words.size()) + 3, one.calls, one.to_cpu, one.from_cpu});
    flat.insert(flat.end(), one.words.begin(), one.words.end());
  }
  return flat;
}

std::vector<std::string> names() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> all;
  for (const auto& op : operators) {
    all.push_back(op.name);
  }
  return all;
}

} // namespace

TORCH_LIBRARY(mpsprobe_observer, m) {
  m.def("start(int place, int interrupt) -> ()", &start);
  m.def("stop() -> ()", &stop);
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
