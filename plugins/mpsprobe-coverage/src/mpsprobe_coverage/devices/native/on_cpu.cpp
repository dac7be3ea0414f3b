// What a program computes on tensors of the CPU while the device is there, and where the results go.
//
// Such calls never come to the device. A callback of at::RecordFunction sees them: of each call that the program itself
// makes, how much it reads and writes, and whether its tensors are on the device. A storage of the CPU remembers the
// site (place and operator) that wrote it last. So the sites are a graph, which Python asks from where values came to the
// device: what prepares a batch does, a second model that nobody moved does not.

#include "device.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace mpsprobe {
namespace {

using c10::DispatchKey;
using c10::IValue;
using c10::StorageImpl;

constexpr int64_t kFewNumbers = 64; // a loss, a rate, a metric: tensors of fewer are not followed
constexpr int64_t kTheDevice = -1;  // in place of a site: values that were copied from there
enum Flag : int64_t { kMoved = 1, kFromDevice = 2, kWeights = 4 };

// Called once more below these, with plain tensors.
const c10::DispatchKeySet kCalledAgain(
    {DispatchKey::Python, DispatchKey::PythonDispatcher, DispatchKey::PreDispatch, DispatchKey::Functionalize,
     DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
     DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper});

// These compute nothing: they copy, or fill with a number or with random ones.
const std::unordered_set<std::string> kComputesNothing{
    "aten::to",      "aten::_to_copy", "aten::copy_",    "aten::clone",   "aten::contiguous",   "aten::fill_",
    "aten::zero_",   "aten::normal_",  "aten::uniform_", "aten::random_", "aten::exponential_", "aten::bernoulli_",
    "aten::set_",    "aten::resize_",  "aten::detach_",  "aten::_foreach_copy_",                "aten::_foreach_zero_"};

struct Site {
  int64_t place = 0, name = 0, calls = 0, bytes = 0, flags = 0;
};
struct Written {
  c10::weak_intrusive_ptr<StorageImpl> storage; // keeps the address from being used again, and not the memory
  int64_t site;
};

std::atomic<bool> listening{false};
std::atomic<int64_t> bytes_on_device{0};
std::mutex mutex; // all below are guarded by it; nothing that waits for Python's lock holds it
auto& sites = *new std::vector<Site>;
auto& names = *new std::vector<std::string>;
auto& by_name = *new std::unordered_map<std::string, int64_t>;
auto& by_place = *new std::map<std::pair<int64_t, int64_t>, int64_t>;
auto& flows = *new std::set<std::pair<int64_t, int64_t>>;
auto& written = *new std::unordered_map<StorageImpl*, Written>;
size_t sweep_at = 1 << 12;
std::optional<at::CallbackHandle> callback;
thread_local bool inside = false; // of a call of the program's

template <typename Visit>
void each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    // Symbolic sizes are those of a graph that is being compiled: there is no data.
    if (tensor.defined() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
      visit(tensor);
    }
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) {
      each_tensor(one, visit);
    }
  }
}

int64_t bytes(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided ? tensor.numel() * static_cast<int64_t>(tensor.itemsize()) : 0;
}

StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Guarded by `mutex`.
void write(const at::Tensor& tensor, int64_t site) {
  auto* storage = storage_of(tensor);
  if (storage == nullptr) {
    return;
  }
  auto found = written.find(storage);
  if (found != written.end()) {
    found->second.site = site;
    return;
  }
  if (written.size() >= sweep_at) {
    for (auto one = written.begin(); one != written.end();) {
      one = one->second.storage.expired() ? written.erase(one) : std::next(one);
    }
    sweep_at = std::max<size_t>(1 << 12, 2 * written.size());
  }
  auto owner = tensor.storage().getWeakStorageImpl();
  written.emplace(storage, Written{std::move(owner), site});
}

// Guarded by `mutex`.
int64_t site_at(int64_t place, const std::string& name) {
  auto [named, is_new_name] = by_name.emplace(name, names.size());
  if (is_new_name) {
    names.push_back(name);
  }
  auto [found, is_new] = by_place.emplace(std::pair(place, named->second), sites.size());
  if (is_new) {
    sites.push_back({place, named->second});
  }
  return found->second;
}

// A call of the program's, with the calls that it makes in turn.
struct Outermost final : at::ObserverContext {
  bool on_device = false, on_cpu = false, data = false, weights = false, in_place = false, first = true;
  int raising = std::uncaught_exceptions();
  int64_t read = 0;
  StorageImpl* viewed = nullptr; // of the first tensor: a view of it reads and writes nothing
  c10::SmallVector<at::Tensor, 2> changed; // those that it writes in place
  c10::SmallVector<int64_t, 4> sources;

  Outermost() { inside = true; }
  ~Outermost() override { inside = false; }

  void see(const at::Tensor& tensor, bool is_changed) {
    if (tensor.device().type() == kDevice.type()) {
      on_device = true;
    } else if (tensor.is_cpu()) {
      on_cpu = true;
      data = data || tensor.numel() >= kFewNumbers;
    }
    read += bytes(tensor);
    // Weights that are filled or stepped are no input.
    weights = weights || (tensor.requires_grad() && !is_changed);
    if (std::exchange(first, false)) {
      viewed = storage_of(tensor);
    }
    if (is_changed && tensor.is_cpu()) {
      changed.push_back(tensor);
    }
  }

  void read_from(at::ArrayRef<const IValue> arguments) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto& argument : arguments) {
      each_tensor(argument, [&](const at::Tensor& tensor) {
        auto found = tensor.is_cpu() ? written.find(storage_of(tensor)) : written.end();
        if (found != written.end()) {
          sources.push_back(found->second.site);
        }
      });
    }
  }

  void end(const at::RecordFunction& fn) {
    if (std::uncaught_exceptions() > raising) {
      return;
    }
    auto made = changed;
    int64_t wrote = 0;
    bool computed = in_place, moved = on_device;
    for (const auto& result : fn.outputs()) {
      each_tensor(result, [&](const at::Tensor& tensor) {
        moved = moved || tensor.device().type() == kDevice.type();
        computed = computed || storage_of(tensor) == nullptr || storage_of(tensor) != viewed;
        wrote += bytes(tensor);
        if (tensor.is_cpu()) {
          made.push_back(tensor);
          data = data || tensor.numel() >= kFewNumbers;
        }
      });
    }
    std::string name = fn.name();
    computed = (computed || fn.outputs().empty()) && !first && kComputesNothing.count(name) == 0;
    if (moved) {
      bytes_on_device += computed ? read + wrote : 0;
      if (sources.empty() && made.empty()) {
        return;
      }
      std::lock_guard<std::mutex> lock(mutex);
      for (auto source : sources) {
        if (source >= 0) {
          sites[source].flags |= kMoved;
        }
      }
      for (const auto& tensor : made) {
        write(tensor, kTheDevice);
      }
      return;
    }
    if (!data || (sources.empty() && !computed)) {
      return;
    }
    auto place = place_of_now();
    std::lock_guard<std::mutex> lock(mutex);
    auto index = site_at(place, name);
    auto& site = sites[index];
    if (computed) {
      ++site.calls;
      site.bytes += read + wrote;
      site.flags |= weights ? kWeights : 0;
    }
    for (auto source : sources) {
      if (source < 0) {
        site.flags |= kFromDevice;
      } else if (source != index) {
        flows.emplace(source, index);
      }
    }
    for (const auto& tensor : made) {
      write(tensor, index);
    }
    pass_on_interrupt();
  }
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
  const char* name = fn.name();
  if (inside || !listening.load(std::memory_order_relaxed) || std::strstr(name, "::") == nullptr ||
      std::strncmp(name, "autograd::", 10) == 0) { // a range of autograd's engine
    return nullptr;
  }
  auto tls = c10::impl::tls_local_dispatch_key_set();
  auto keys = tls.included_;
  auto context = std::make_unique<Outermost>();
  auto length = std::strlen(name);
  context->in_place = name[length - 1] == '_' && name[length - 2] != '_';
  auto arguments = fn.inputs();
  for (size_t i = 0; i < arguments.size(); ++i) {
    each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      keys = keys | tensor.key_set();
      context->see(tensor, i == 0 && context->in_place);
    });
  }
  if ((keys - tls.excluded_).has_any(kCalledAgain)) {
    return nullptr;
  }
  if (context->on_cpu) {
    context->read_from(arguments);
  }
  return context;
}

void finish(const at::RecordFunction& fn, at::ObserverContext* context) {
  if (context != nullptr && listening.load(std::memory_order_relaxed)) {
    static_cast<Outermost*>(context)->end(fn);
  }
}

// A process that another one forked listens no more: a thread that it does not have may have held the lock.
void listen(bool now) {
  listening = now;
  if (!now || callback.has_value()) {
    return;
  }
  callback = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &finish)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
}

} // namespace
} // namespace mpsprobe

TORCH_LIBRARY_FRAGMENT(mpsprobe, m) {
  using namespace mpsprobe;
  m.def("follow_cpu(bool now) -> ()", [](bool now) { listen(now); });
  // For each site: its place, the position of its operator's name, calls, bytes and flags; then pairs of sites, the
  // second of which read what the first wrote; and the bytes that calls on the device read and wrote.
  m.def("on_cpu() -> (int[], str[], int[], int)", []() {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<int64_t> words, pairs;
    for (const auto& one : sites) {
      words.insert(words.end(), {one.place, one.name, one.calls, one.bytes, one.flags});
    }
    for (const auto& [source, reader] : flows) {
      pairs.insert(pairs.end(), {source, reader});
    }
    return std::tuple(words, names, pairs, bytes_on_device.load());
  });
}
