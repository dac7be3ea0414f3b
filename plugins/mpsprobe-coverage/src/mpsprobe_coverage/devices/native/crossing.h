// The tensors of one call on their way to the CPU and back.
//
// Arguments become tensors of the CPU that share their memory, results become tensors of the device. A result that is
// a view of an argument, or the argument itself, is so on the device too; an argument that the operator resized is
// resized there.
#pragma once

#include "device.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/clone.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/SmallVector.h>

namespace mpsprobe {

using c10::IValue;
using c10::StorageImpl;
using c10::TensorImpl;
using torch::jit::Stack;

inline const c10::DispatchKeySet kAutocast = c10::autocast_dispatch_keyset;

inline c10::DispatchKeySet with_backend(c10::DispatchKeySet keys, c10::BackendComponent from, c10::BackendComponent to) {
  keys = keys - c10::getAutocastRelatedKeySetFromBackend(from);
  return keys.remove_backend(from) | c10::DispatchKeySet(to) | c10::getAutocastRelatedKeySetFromBackend(to);
}

inline at::Tensor over(const c10::Storage& storage, const at::Tensor& like, c10::DispatchKeySet keys) {
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

// One call. With `copied`, it works on copies until `settle`, so that a call
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

} // namespace mpsprobe
