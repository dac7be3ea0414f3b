// The kernel of every operator: the CPU's, over the memory of the device's tensors.
//
// Arguments become tensors of the CPU that share their memory, results become tensors of the device. A result that is
// a view of an argument, or the argument itself, is so on the device too; an argument that the operator resized is
// resized there.

#include "device.h"

#include <ATen/SequenceNumber.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/clone.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

namespace mpsprobe {
namespace {

using c10::IValue;
using c10::StorageImpl;
using c10::TensorImpl;
using torch::jit::Stack;

const c10::DispatchKeySet kAutocast = c10::autocast_dispatch_keyset;

c10::DispatchKeySet with_backend(c10::DispatchKeySet keys, c10::BackendComponent from, c10::BackendComponent to) {
  keys = keys - c10::getAutocastRelatedKeySetFromBackend(from);
  return keys.remove_backend(from) | c10::DispatchKeySet(to) | c10::getAutocastRelatedKeySetFromBackend(to);
}

at::Tensor over(const c10::Storage& storage, const at::Tensor& like, c10::DispatchKeySet keys) {
  // As a view it has these keys and no others, also in inference mode.
  auto made = at::detail::make_tensor<TensorImpl>(TensorImpl::VIEW, c10::Storage(storage), keys, like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_storage_offset(like.storage_offset());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return made;
}

// The tensors of one call on their way to the CPU and back. With `copied`, it works on copies until `settle`, so that a call
// that turns out to raise has changed nothing.
class Crossing {
 public:
  explicit Crossing(bool copied) : copied_(copied) {}

  void run(const c10::OperatorHandle& op, Stack* stack, bool linear) {
    auto first = stack->size() - op.schema().arguments().size();
    auto folded = linear && is_folded((*stack)[first].toTensor(), (*stack)[first + 1].toTensor());
    for (size_t i = first; i < stack->size(); ++i) {
      to_cpu((*stack)[i]);
    }
    {
      at::AutoDispatchBelowADInplaceOrView below;
      c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
      if (folded) {
        run_folded(stack);
      } else {
        op.callBoxed(stack);
      }
    }
    results_ = at::ArrayRef<IValue>(*stack).slice(first);
    c10::SmallVector<IValue, 4> back(results_.begin(), results_.end());
    for (auto& value : back) {
      to_device(value);
    }
    std::move(back.begin(), back.end(), stack->begin() + static_cast<std::ptrdiff_t>(first));
  }

  // What the operator did to its arguments besides writing into their memory.
  void settle() {
    for (auto& [ours, theirs] : tensors_) {
      if (ours.layout() != c10::kStrided) {
        auto back = to_device(theirs);
        ours.unsafeGetTensorImpl()->shallow_copy_from(back.getIntrusivePtr());
        continue;
      }
      auto* impl = ours.unsafeGetTensorImpl();
      const c10::Storage& there = theirs.storage();
      if (const c10::Storage* known = ours_of(there)) {
        if (known->unsafeGetStorageImpl() != ours.storage().unsafeGetStorageImpl()) {
          impl->set_storage_keep_dtype(*known); // by set_
        }
      } else {
        impl->set_storage_keep_dtype(adopted(there));
      }
      if (!theirs.sizes().equals(ours.sizes()) || !theirs.strides().equals(ours.strides()) ||
          theirs.storage_offset() != ours.storage_offset()) {
        impl->set_storage_offset(theirs.storage_offset());
        impl->set_sizes_and_strides(theirs.sizes(), theirs.strides());
      }
    }
    for (auto& [ours, theirs] : storages_) {
      auto *here = ours.unsafeGetStorageImpl(), *there = theirs.unsafeGetStorageImpl();
      if (here->data() != there->data() || here->nbytes() != there->nbytes()) { // resized
        auto bytes = there->nbytes();
        auto memory = there->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU));
        here->set_data_ptr_noswap(taken_over(std::move(memory), static_cast<int64_t>(bytes)));
        here->set_nbytes(bytes);
      }
    }
  }

 private:
  void to_cpu(IValue& value) {
    if (value.isTensor()) {
      value = to_cpu(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList();
      c10::List<at::Tensor> there;
      there.reserve(list.size());
      for (const at::Tensor& one : list) {
        there.push_back(to_cpu(one));
      }
      value = std::move(there);
    } else if (value.isOptionalTensorList()) {
      auto list = value.toOptionalTensorList();
      c10::List<std::optional<at::Tensor>> there;
      there.reserve(list.size());
      for (const std::optional<at::Tensor>& one : list) {
        there.push_back(one.has_value() ? std::optional(to_cpu(*one)) : std::nullopt);
      }
      value = std::move(there);
    } else if (value.isDevice()) {
      if (value.toDevice().type() == kDevice.type()) {
        value = c10::Device(c10::kCPU);
      }
    } else if (value.isGenerator()) {
      value = generator_of_cpu(value.toGenerator());
    } else if (value.isStorage()) {
      auto storage = value.toStorage();
      if (storage.device_type() == kDevice.type()) {
        value = shared(storage);
      }
    }
  }

  void to_device(IValue& value) {
    if (value.isTensor()) {
      value = to_device(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> back;
      for (const at::Tensor& one : value.toTensorList()) {
        back.push_back(to_device(one));
      }
      value = std::move(back);
    }
  }

  at::Tensor to_cpu(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return tensor;
    }
    if (!tensor.device().is_mps()) {
      if (tensor.has_storage()) {
        passed_.push_back(tensor.storage().unsafeGetStorageImpl());
      }
      return tensor;
    }
    for (auto& [ours, theirs] : tensors_) {
      if (ours.is_same(tensor)) {
        return theirs;
      }
    }
    at::Tensor there;
    if (tensor.layout() == c10::kStrided) {
      auto keys = with_backend(tensor.key_set(), c10::BackendComponent::MPSBit, c10::BackendComponent::CPUBit);
      there = over(shared(tensor.storage()), tensor, keys);
    } else {
      there = sparse(tensor, c10::kCPU, [this](const at::Tensor& part) { return to_cpu(part); });
    }
    tensors_.emplace_back(tensor, there);
    return there;
  }

  at::Tensor to_device(const at::Tensor& result) {
    if (!result.defined() || !result.device().is_cpu()) {
      return result;
    }
    for (auto& [ours, theirs] : tensors_) {
      if (theirs.is_same(result) && ours.layout() == c10::kStrided) {
        return ours;
      }
    }
    if (result.layout() != c10::kStrided) {
      return sparse(result, kDevice, [this](const at::Tensor& part) { return to_device(part); });
    }
    const c10::Storage& storage = result.storage();
    for (auto* one : passed_) {
      if (one == storage.unsafeGetStorageImpl()) {
        return result;
      }
    }
    auto keys = with_backend(result.key_set(), c10::BackendComponent::CPUBit, c10::BackendComponent::MPSBit);
    const c10::Storage* known = ours_of(storage);
    if (known == nullptr && storage.use_count() > 1 && !of_results_only(storage)) {
      auto copied = result.clone(); // somebody else keeps this memory
      return over(adopted(copied.storage()), copied, keys);
    }
    return over(known == nullptr ? adopted(storage) : *known, result, keys);
  }

  template <typename Convert>
  static at::Tensor sparse(const at::Tensor& tensor, c10::Device device, const Convert& converted) {
    auto to = device.is_cpu() ? c10::BackendComponent::CPUBit : c10::BackendComponent::MPSBit;
    auto from = device.is_cpu() ? c10::BackendComponent::MPSBit : c10::BackendComponent::CPUBit;
    auto keys = with_backend(tensor.key_set(), from, to);
    // Read and made here and not by operators: those are what this is the kernel of.
    if (tensor.layout() == c10::kSparse) {
      auto* from_impl = at::sparse::get_sparse_impl(tensor);
      auto made = at::detail::make_tensor<at::SparseTensorImpl>(keys, tensor.dtype());
      auto* impl = at::sparse::get_sparse_impl(made);
      impl->raw_resize_(from_impl->sparse_dim(), from_impl->dense_dim(), tensor.sizes());
      impl->set_indices_and_values_unsafe(converted(from_impl->indices()), converted(from_impl->values()));
      impl->set_coalesced(from_impl->coalesced());
      return made;
    }
    auto* from_impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    auto made = at::detail::make_tensor<at::SparseCsrTensorImpl>(keys, device, tensor.layout(), tensor.dtype());
    at::sparse_csr::get_sparse_csr_impl(made)->set_member_tensors(
        converted(from_impl->compressed_indices()),
        converted(from_impl->plain_indices()),
        converted(from_impl->values()),
        tensor.sizes());
    return made;
  }

  c10::Storage shared(const c10::Storage& ours) {
    for (auto& [known, theirs] : storages_) {
      if (known.unsafeGetStorageImpl() == ours.unsafeGetStorageImpl()) {
        return theirs;
      }
    }
    auto* impl = ours.unsafeGetStorageImpl();
    c10::DataPtr data(impl->mutable_data(), c10::kCPU);
    if (copied_) {
      data = c10::GetCPUAllocator()->clone(impl->data(), impl->nbytes());
    }
    storages_.emplace_back(
        ours,
        c10::make_intrusive<StorageImpl>(
            StorageImpl::use_byte_size_t(), impl->nbytes(), std::move(data), c10::GetCPUAllocator(), true));
    return storages_.back().second;
  }

  const c10::Storage* ours_of(const c10::Storage& theirs) const {
    for (auto& [ours, known] : storages_) {
      if (known.unsafeGetStorageImpl() == theirs.unsafeGetStorageImpl()) {
        return &ours;
      }
    }
    return nullptr;
  }

  // A storage of the device with the memory of one of the CPU, which is empty afterwards.
  c10::Storage adopted(const c10::Storage& theirs) {
    auto* impl = theirs.unsafeGetStorageImpl();
    auto bytes = impl->nbytes();
    auto data = taken_over(impl->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU)), static_cast<int64_t>(bytes));
    c10::DataPtr seen(data.get(), c10::kCPU); // `settle` compares
    c10::Storage ours(
        c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes, std::move(data), allocator(), true));
    impl->set_data_ptr_noswap(std::move(seen));
    storages_.emplace_back(ours, theirs);
    return ours;
  }

  bool of_results_only(const c10::Storage& storage) const {
    size_t count = 0;
    for (const IValue& value : results_) {
      if (value.isTensor()) {
        count += value.toTensor().defined() && value.toTensor().has_storage() &&
            value.toTensor().storage().is_alias_of(storage);
      } else if (value.isTensorList()) {
        for (const at::Tensor& one : value.toTensorList()) {
          count += one.has_storage() && one.storage().is_alias_of(storage);
        }
      }
    }
    return count >= storage.use_count();
  }

  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 6> tensors_;
  c10::SmallVector<std::pair<c10::Storage, c10::Storage>, 6> storages_;
  c10::SmallVector<StorageImpl*, 4> passed_;
  at::ArrayRef<IValue> results_;
  bool copied_;
};

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
