// Derivatives of what runs on the CPU by a registered fallback.
//
// Where the operator is composite, autograd is on inside the fallback: it records the copies to the CPU, what the operator
// is made of there, and the copies back. So its derivative runs on the CPU too. It is one call of the operator: gradients
// of the results go in, gradients of the arguments come out, and the copies of both belong to it.

#include "device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <mutex>
#include <unordered_set>

namespace mpsprobe {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// The last node that copied for such a derivative; it may be gone, and another at its place.
thread_local std::pair<const Node*, uint64_t> copying{nullptr, 0};

// The gradients that one backward pass has copied so far.
struct Derivative {
  explicit Derivative(int64_t operator_id) : operator_id(operator_id) {}

  void copied(const variable_list& gradients, bool to_cpu) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto& one : gradients) {
      if (one.defined()) {
        (to_cpu ? in : out).emplace_back(at::detail::empty_strided_meta(one.sizes(), one.strides(), one.scalar_type()));
      }
    }
  }

  void record() {
    std::lock_guard<std::mutex> lock(mutex);
    if (!in.empty()) {
      Recorded call(operator_id, false, in, in.size(), place);
      call.returned(out, out.size());
    }
    in.clear();
    out.clear();
  }

  int64_t operator_id, place = 0;
  torch::jit::Stack in, out;
  std::mutex mutex;
};

struct Before final : torch::autograd::FunctionPreHook {
  Before(std::shared_ptr<Derivative> derivative, bool to_cpu) : derivative(std::move(derivative)), to_cpu(to_cpu) {}

  variable_list operator()(const variable_list& gradients) override {
    auto node = torch::autograd::get_current_node();
    copying = {node.get(), node->sequence_nr()};
    if (to_cpu) {
      if (derivative->in.empty()) {
        derivative->place = place_of_now();
        torch::autograd::Engine::get_default_engine().queue_callback([one = derivative]() { one->record(); });
      }
      derivative->copied(gradients, true);
    }
    return gradients;
  }

  std::shared_ptr<Derivative> derivative;
  bool to_cpu;
};

struct After final : torch::autograd::FunctionPostHook {
  explicit After(std::shared_ptr<Derivative> derivative) : derivative(std::move(derivative)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    derivative->copied(outputs, false);
    return outputs;
  }

  std::shared_ptr<Derivative> derivative;
};

} // namespace

bool copies_for_derivative() {
  if (copying.first == nullptr) {
    return false;
  }
  auto node = torch::autograd::get_current_node();
  return node && copying == std::pair<const Node*, uint64_t>(node.get(), node->sequence_nr());
}

void watch_derivative(int64_t operator_id, at::ArrayRef<c10::IValue> results, uint64_t first_node) {
  auto derivative = std::make_shared<Derivative>(operator_id);
  std::vector<Node*> open;
  std::unordered_set<Node*> seen;
  for (const auto& result : results) {
    auto node = result.isTensor() && result.toTensor().defined() ? result.toTensor().grad_fn() : nullptr;
    if (node && node->sequence_nr() >= first_node && seen.insert(node.get()).second) {
      node->add_pre_hook(std::make_unique<Before>(derivative, true));
      open.push_back(node.get());
    }
  }
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) {
      auto* next = edge.function.get();
      auto is_inside = next != nullptr && next->sequence_nr() >= first_node && next->sequence_nr() != UINT64_MAX;
      if (is_inside && seen.insert(next).second) {
        open.push_back(next);
      } else if (next != nullptr && !is_inside) { // `node` copied an argument
        node->add_pre_hook(std::make_unique<Before>(derivative, false));
        node->add_post_hook(std::make_unique<After>(derivative));
      }
    }
  }
}

} // namespace mpsprobe
