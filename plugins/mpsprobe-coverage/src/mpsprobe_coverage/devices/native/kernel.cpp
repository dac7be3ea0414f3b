// The kernel of every operator: the CPU's, over the memory of the device's tensors.

#include "crossing.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

namespace mpsprobe {
namespace {

enum class Kind { Native, Fallback };

bool varies(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

struct Kernel final : c10::OperatorKernel {
  Kernel(int64_t id, int64_t derivative_id, Kind kind, bool varying, bool linear = false)
      : id(id), derivative_id(derivative_id), kind(kind), varying(varying), linear(linear) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    auto results = op.schema().returns().size();
    Recorded call(id, varying, *stack, op.schema().arguments().size());
    auto may_raise = call.may_raise();
    Crossing crossing(may_raise);
    try {
      if (kind == Kind::Fallback) {
        auto first_node = at::sequence_number::peek();
        at::native::cpu_fallback(op, stack);
        if (at::sequence_number::peek() > first_node) {
          watch_derivative(derivative_id, at::ArrayRef<IValue>(*stack).slice(stack->size() - results), first_node);
        }
      } else {
        crossing.run(op, stack, linear);
      }
    } catch (const std::exception& error) {
      call.raised(error.what());
      throw;
    }
    if (may_raise) {
      call.returned(*stack, results);
      return crossing.settle();
    }
    crossing.settle(); // what was resized is recorded so
    call.returned(*stack, results);
  }

  int64_t id, derivative_id;
  Kind kind;
  bool varying, linear;
};

std::mutex late_mutex;
std::vector<std::string> late_operators;
int64_t first_late = 0;

// The kernel of what no release knows: operators of libraries that are imported later, or of the program. As on a Mac it is the
// fallback of the key.
struct LateKernel final : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    Kernel(id_of(op), 0, Kind::Native, varies(op))(op, keys, stack);
  }

 private:
  static int64_t id_of(const c10::OperatorHandle& op) {
    auto name = c10::toString(op.operator_name());
    std::lock_guard<std::mutex> lock(late_mutex);
    auto found = std::find(late_operators.begin(), late_operators.end(), name);
    auto position = found - late_operators.begin();
    if (found == late_operators.end()) {
      late_operators.push_back(name);
    }
    return first_late + position;
  }
};

std::vector<std::unique_ptr<torch::Library>>& libraries() {
  static auto* all = new std::vector<std::unique_ptr<torch::Library>>;
  return *all;
}

// Registers the kernel of `names` (`aten::add.Tensor`) under `key`; the ids of their calls count from `first_id`, and after
// them those of derivatives of fallbacks.
void register_kernels(at::ArrayRef<std::string> names, const std::string& key, int64_t first_id, bool fallback) {
  std::unordered_map<std::string, torch::Library*> by_namespace;
  for (const auto& name : names) {
    auto space = name.substr(0, name.find("::"));
    auto dot = name.find('.');
    auto overload = dot == std::string::npos ? std::string() : name.substr(dot + 1);
    auto& library = by_namespace[space];
    if (library == nullptr) {
      libraries().push_back(std::make_unique<torch::Library>(
          torch::Library::IMPL, space, c10::parseDispatchKey(key), __FILE__, __LINE__));
      library = libraries().back().get();
    }
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(), overload.c_str());
    auto kernel = std::make_unique<Kernel>(
        first_id,
        first_id + static_cast<int64_t>(names.size()),
        fallback ? Kind::Fallback : Kind::Native,
        varies(op),
        name == "aten::linear");
    ++first_id;
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

void register_boxed(const c10::OperatorHandle&, Stack* stack) {
  auto fallback = torch::jit::pop(*stack).toBool();
  auto first_id = torch::jit::pop(*stack).toInt();
  auto key = torch::jit::pop(*stack).toStringRef();
  auto names = torch::jit::pop(*stack).to<std::vector<std::string>>();
  register_kernels(names, key, first_id, fallback);
}

} // namespace
} // namespace mpsprobe

TORCH_LIBRARY_FRAGMENT(mpsprobe, m) {
  m.def(
      "register_kernels(str[] names, str key, int first_id, bool fallback) -> ()",
      torch::CppFunction::makeFromBoxedFunction<&mpsprobe::register_boxed>());
  // For operators without a kernel under the key; the ids of their calls count from `first_id`.
  m.def("register_late(str key, int first_id) -> ()", [](const std::string& key, int64_t first_id) {
    using namespace mpsprobe;
    first_late = first_id;
    late_operators.clear();
    libraries().push_back(std::make_unique<torch::Library>(
        torch::Library::IMPL, "_", c10::parseDispatchKey(key), __FILE__, __LINE__));
    libraries().back()->fallback(torch::CppFunction::makeFromBoxedFunctor(std::make_unique<LateKernel>()));
  });
  m.def("late_operators() -> str[]", []() {
    std::lock_guard<std::mutex> lock(mpsprobe::late_mutex);
    return mpsprobe::late_operators;
  });
  // Other values, of the same type and size, in the memory of a tensor of the device; nothing is recorded.
  m.def("overwrite(Tensor(a!) tensor, Tensor values) -> ()", [](const at::Tensor& tensor, const at::Tensor& values) {
    TORCH_CHECK(tensor.nbytes() == values.nbytes() && tensor.scalar_type() == values.scalar_type());
    std::memcpy(tensor.mutable_data_ptr(), values.const_data_ptr(), values.nbytes());
  });
  m.def("unregister_kernels() -> ()", []() { mpsprobe::libraries().clear(); });
}
