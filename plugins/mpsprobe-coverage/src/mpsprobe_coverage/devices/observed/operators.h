// What is known of an operator: which of its calls count, and which copy.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <array>
#include <atomic>

namespace mpsprobe::observing {

using c10::DispatchKey;

enum class Copy : uint8_t { None, From, To, Number };

struct Operator {
  std::string name, full_name;
  std::optional<c10::OperatorName> id; // none: a range that somebody named
  int64_t index = 0;
  size_t arguments = 0, returns = 0;
  bool composite = false;
  bool may_compute = false; // composite below autograd, and no view: some of these kernels call nothing
  bool to_cpu = false;
  Copy copy = Copy::None;
  std::array<std::atomic<int8_t>, static_cast<size_t>(DispatchKey::EndOfRuntimeBackendKeys) + 1> kernels{}; // by key

  bool has_kernel(DispatchKey key) {
    auto& known = kernels[static_cast<size_t>(key)];
    if (known == 0) { // a library may have taken its operators away: handles of those must not be kept
      auto handle = c10::Dispatcher::singleton().findSchema(*id);
      known = handle.has_value() && handle->hasKernelForDispatchKey(key) ? 1 : -1;
    }
    return known > 0;
  }
};

// What is known of the operator that `fn` is about.
inline void describe(Operator& op, const at::RecordFunction& fn) {
  auto name = fn.operator_name();
  op.name = fn.name();
  auto handle = name.has_value() ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!handle.has_value()) {
    return;
  }
  op.id = name;
  const auto& schema = handle->schema();
  op.arguments = schema.arguments().size();
  op.returns = schema.returns().size();
  auto has = [&](DispatchKey key) { return handle->hasKernelForDispatchKey(key); };
  bool implicit =
      has(DispatchKey::CompositeImplicitAutograd) || has(DispatchKey::CompositeImplicitAutogradNestedTensor);
  bool below = has(DispatchKey::CompositeExplicitAutograd) || has(DispatchKey::CompositeExplicitAutogradNonFunctional);
  const auto& plain = name->name;
  // Its composite kernel copies by itself on most devices, and through another operator on some: one name for both.
  bool copies = plain == "aten::copy_";
  op.composite = (implicit || below) && !copies;
  bool view = handle->hasTag(at::Tag::inplace_view);
  for (const auto& result : schema.returns()) {
    view = view || (result.alias_info() != nullptr && !result.alias_info()->isWrite());
  }
  op.may_compute = below && !implicit && !copies && !view && op.returns > 0;
  op.to_cpu = plain == "aten::_to_cpu";
  op.copy = copies                                                                    ? Copy::From
      : plain == "aten::_copy_from" || plain == "aten::_copy_from_and_resize"         ? Copy::To
      : plain == "aten::_local_scalar_dense"                                          ? Copy::Number
                                                                                      : Copy::None;
}

} // namespace mpsprobe::observing
