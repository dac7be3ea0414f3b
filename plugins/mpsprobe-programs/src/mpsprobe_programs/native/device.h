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

// The generator of the CPU that draws the numbers of one of the device.
at::Generator generator_of_cpu(const at::Generator& generator);

// One call of an operator, from before it runs until its results are there, or until it raised.
class Recorded {
 public:
  // Raises what a Mac raises, where the program asks for that and the call is known to be refused.
  // `varying`: how much comes out depends on values.
  Recorded(int64_t operator_id, bool varying, const torch::jit::Stack& stack, size_t arguments);
  ~Recorded();
  // It is like none before, in a program that wants to raise as on a Mac.
  bool may_raise() const;
  // Counts it. One like none before is shown to Python first.
  void returned(const torch::jit::Stack& stack, size_t results);
  void raised(const char* message);

 private:
  void count(at::ArrayRef<c10::IValue> results, const char* message);

  int64_t operator_, place_ = 0, slot_ = -1;
  uint64_t generation_ = 0;
  bool muted_before_, varying_;
  uint64_t first_ = 0, second_ = 0;
  std::vector<c10::IValue> arguments_;
};

} // namespace mpsprobe
