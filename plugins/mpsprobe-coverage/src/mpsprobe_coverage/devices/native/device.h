// What the parts of the device know of each other.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>

namespace mpsprobe {

inline const c10::Device kDevice{c10::DeviceType::MPS, 0};

// Memory of the CPU, in storages that say they are on the device.
c10::Allocator* allocator();

// Memory that was the CPU's, of `bytes`, as the device's.
c10::DataPtr taken_over(c10::DataPtr memory, int64_t bytes);

// The step of an optimizer has ended.
void updated();

// The generator of the CPU that draws the numbers of one of the device.
at::Generator generator_of_cpu(const at::Generator& generator);

// Where the CPU's `linear` multiplies matrices only because a gradient is wanted, which is not seen below autograd.
bool is_folded(const at::Tensor& input, const at::Tensor& weight);

// Does that, with tensors of the CPU.
void run_folded(torch::jit::Stack* stack);

// One call of an operator, from before it runs until its results are there, or until it raised.
class Recorded {
 public:
  // Raises what a Mac raises, where the program asks for that and the call is known to be refused.
  // `varying`: how much comes out depends on values.
  // `place`: where the program is, if that is known already.
  Recorded(int64_t operator_id, bool varying, const torch::jit::Stack& stack, size_t arguments, int64_t place = -1);
  ~Recorded();
  // It is like none before, in a program that wants to raise as on a Mac.
  bool may_raise() const;
  // Counts one like none before, which Python judges; others are counted already.
  void returned(const torch::jit::Stack& stack, size_t results);
  void raised(const char* message);

 private:
  void count(at::ArrayRef<c10::IValue> results, const char* message);

  int64_t operator_, place_ = 0, asked_ = 0;
  bool muted_before_, varying_, known_ = false;
  uint64_t first_ = 0, second_ = 0;
  std::vector<c10::IValue> arguments_;
};

// The place in the program that the calls of now are counted at.
int64_t place_of_now();

// Tells Python of a Ctrl-C that came while it was asked, now that it is asked no more.
void pass_on_interrupt();

// Whether the autograd node that runs copies gradients for a derivative that runs on the CPU.
bool copies_for_derivative();

// Counts the derivatives of a call that fell back to the CPU and had `results`, if autograd recorded them.
// `first_node`: the sequence number that the first node of the call had.
void watch_derivative(int64_t operator_id, at::ArrayRef<c10::IValue> results, uint64_t first_node);

} // namespace mpsprobe
