// Autograd's thread of the device has to be done before Python ends.
//
// It frees a backward pass after the program has been woken: saved tensors, modes, hooks. For objects of Python it asks for
// the GIL. Where Python began to end in between, it ends the thread instead (before 3.14), in destructors of torch that allow no
// unwinding: the process aborts with "terminate called without an active exception" (pytorch/pytorch#190489, on CUDA too).

#include "device.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>

namespace mpsprobe {
namespace {

using torch::autograd::variable_list;

constexpr std::chrono::seconds kLongest{10}; // as long as torch itself waits for its threads at exit

struct Nothing final : torch::autograd::Node {
  variable_list apply(variable_list&&) override { return {}; }
};

// Nodes are counted by `c10::intrusive_ptr` in newer releases.
template <typename Pointer, typename Kind>
Pointer made() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Kind>();
  } else {
    return c10::make_intrusive<Kind>();
  }
}

// A backward pass of one node on the device. Its thread takes it when it is done with those before.
void pass_through() {
  torch::autograd::Edge edge;
  edge.function = made<decltype(edge.function), Nothing>();
  auto gradient = at::Tensor(at::detail::empty_generic(
      {0}, allocator(), c10::DispatchKeySet(c10::DispatchKey::MPS), c10::ScalarType::Float, std::nullopt));
  edge.function->add_input_metadata(gradient);
  torch::autograd::Engine::get_default_engine().execute({edge}, {gradient}, false, false, true, {});
}

// In a thread of its own, which has no modes of Python that the pass would keep, and can be left behind.
void await_autograd() {
  std::promise<void> done;
  auto waiting = done.get_future();
  std::thread([done = std::move(done)]() mutable {
    try {
      pass_through();
    } catch (const std::exception&) { // in a fork there is no such thread
    }
    done.set_value_at_thread_exit();
  }).detach();
  waiting.wait_for(kLongest);
}

} // namespace
} // namespace mpsprobe

TORCH_LIBRARY_FRAGMENT(mpsprobe, m) {
  // The GIL is free meanwhile: what torch.ops calls does not hold it.
  m.def("await_autograd() -> ()", &mpsprobe::await_autograd);
}
