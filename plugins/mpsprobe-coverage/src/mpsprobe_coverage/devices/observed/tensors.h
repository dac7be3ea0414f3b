// The tensors of a call as words, which Python reads back.

#pragma once

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/ivalue.h>
#include <ATen/native/SparseTensorUtils.h>

namespace mpsprobe::observing {

using c10::IValue;
using Words = c10::SmallVector<int64_t, 96>;

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
inline at::ArrayRef<IValue> last(at::ArrayRef<IValue> stack, size_t count) {
  return count < stack.size() ? stack.slice(stack.size() - count) : stack;
}

inline int64_t bytes(const at::Tensor& tensor) { return tensor.numel() * static_cast<int64_t>(tensor.itemsize()); }

// Dtype, layout, device and rank in one word, then sizes, then strides, or (sparse and dense ranks, nnz).
inline void add(Words& words, const at::Tensor& tensor) {
  auto layout = tensor.layout();
  bool known = layout == c10::kStrided || layout == c10::kSparse || at::sparse_csr::is_sparse_compressed(layout);
  bool plain = known && !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  auto rank = plain ? tensor.dim() : 1;
  words.push_back(
      static_cast<int64_t>(tensor.scalar_type()) | static_cast<int64_t>(plain ? layout : c10::kStrided) << 8 |
      static_cast<int64_t>(tensor.device().type()) << 16 | rank << 24);
  if (!plain) {
    words.push_back(tensor.is_nested() ? tensor.numel() : 0);
    words.push_back(1);
    return;
  }
  words.append(tensor.sizes().begin(), tensor.sizes().end());
  if (layout == c10::kStrided) {
    words.append(tensor.strides().begin(), tensor.strides().end());
  } else if (layout == c10::kSparse) { // asked of the tensor itself, these would be calls of operators
    auto* impl = at::sparse::get_sparse_impl(tensor);
    words.append({impl->sparse_dim(), impl->dense_dim(), impl->nnz()});
  } else {
    auto* impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    words.append({impl->sparse_dim(), impl->dense_dim(), impl->nnz()});
  }
}

inline void add(Words& words, at::ArrayRef<IValue> values) {
  auto count = words.size();
  words.push_back(0);
  for (const IValue& value : values) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      add(words, tensor);
      ++words[count];
    });
  }
}

} // namespace mpsprobe::observing
