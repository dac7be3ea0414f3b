"""transformers' own ``Trainer.train()``, stopped after each optimizer update.

Trainer wants to call, and so does the session that times the steps. Both run in the same thread, each in a greenlet of
its own: at the end of an update Trainer's callback switches to the session, and ``step`` switches back. So whatever is
bound to the thread (torch.profiler, dispatch modes) sees Trainer's operators.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from greenlet import getcurrent, greenlet
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.output import TemporaryFolder
from mpsprobe.protocols import Device, RunOptions, TorchRun
from mpsprobe.stepping import loss_of, workload_info
from mpsprobe_hf.transformers.runners.batches import EndlessBatch, call, release

ENDLESS = 2**40  # updates: the session says when it is enough


class TrainerSteps:
    """Satisfies ``mpsprobe.protocols.Steps``."""

    def __init__(
        self, name: str, run: TorchRun, options: RunOptions, device: Device, *, compiled: bool = False
    ) -> None:
        self._device = device
        self._folder = TemporaryFolder()
        arguments = TrainingArguments(
            output_dir=self._folder.name,
            per_device_train_batch_size=1,  # a sample of the data set is a batch
            gradient_accumulation_steps=options.grad_accum,
            max_grad_norm=options.clip_norm,
            max_steps=ENDLESS,
            fp16=options.autocast == "float16",
            bf16=options.autocast == "bfloat16",
            use_cpu=device.name == "cpu",
            torch_compile=compiled,
            dataloader_pin_memory=device.name == "cuda",
            remove_unused_columns=False,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        if arguments.device.type != device.name:
            raise UsageError(f"Trainer chose {arguments.device.type}, not {device.name}")
        arguments._n_gpu = min(arguments.n_gpu, 1)  # several would be DataParallel, another workload
        model = run.model.to(device.name)
        self._trainer = _Trainer(
            run,
            model=model,
            args=arguments,
            train_dataset=EndlessBatch(run),
            data_collator=_the_batch,
            optimizers=(run.optimizer(model) if run.optimizer else None, None),
            callbacks=[_Stop(self)],
        )
        self._trainer.remove_callback(PrinterCallback)  # it prints a summary when training ends
        self._trainer.watch(device)
        self.info = workload_info(name, run, options, self._trainer.create_optimizer())
        self.model: Any = model
        self._stopping = False
        self._loop: greenlet | None = greenlet(self._trainer.train)
        self._session: greenlet | None = None

    def step(self) -> None:
        """One optimizer update with all that Trainer does around it; nothing is synchronised by us."""
        if self._loop is None or self._loop.dead:
            raise WorkloadError("Trainer's loop has ended")
        self._session = getcurrent()
        self._loop.parent = self._session  # where its exceptions go
        self._loop.switch()
        if self._loop.dead:
            raise WorkloadError("Trainer's loop ended by itself")

    def phases(self) -> Mapping[str, int]:
        """One update, synchronised after each phase: ns by phase, ``other`` being data, logging and callbacks."""
        found = self._trainer.phases = {"forward": 0, "backward": 0}
        self._device.synchronize()
        start = time.perf_counter_ns()
        try:
            self.step()
        finally:
            self._trainer.phases = None
        self._device.synchronize()
        whole = time.perf_counter_ns() - start
        before = found.pop("began", start) - start
        optimizer = whole - before - found["forward"] - found["backward"]
        return {"other": before, **found, "optimizer": max(optimizer, 0)}

    def close(self) -> None:
        """Let ``train`` return, and forget everything."""
        if self._loop is not None and self._loop and not self._loop.dead:
            self._stopping = True
            self._session = getcurrent()
            self._loop.parent = self._session
            self._loop.switch()
        self._loop = self._session = self.model = None
        self._trainer = None  # type: ignore[assignment]
        self._folder.cleanup()
        release(self._device)

    def pause(self) -> bool:
        """Called by Trainer's callback at the end of an update: back to the session; whether to go on afterwards."""
        if self._session is not None:
            self._session.switch()
        return not self._stopping


class _Stop(TrainerCallback):
    """Gives the session its turn after each update."""

    def __init__(self, steps: TrainerSteps) -> None:
        self._steps = steps

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        del args, state, kwargs
        if not self._steps.pause():
            control.should_training_stop = True


class _Trainer(Trainer):
    """Trainer with the workload's own call and loss where it has them, and a watch for the phases."""

    phases: dict[str, int] | None = None

    def __init__(self, run: TorchRun, **arguments: Any) -> None:
        self._run = run
        super().__init__(**arguments)

    def watch(self, device: Device) -> None:
        """Time backward passes when phases are asked for."""
        self._watched, backward = device, self.accelerator.backward

        def watched(loss: Any, **kwargs: Any) -> None:
            with _Timed(self, "backward"):
                backward(loss, **kwargs)

        self.accelerator.backward = watched

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Trainer's own for a model that is called with its labels, else the workload's."""
        with _Timed(self, "forward"):
            if self._run.loss is None and self._run.call is None and not self._run.args:
                return super().compute_loss(model, inputs, *args, **kwargs)
            return loss_of(self._run, call(self._run, model, inputs))


class _Timed:
    """Adds the synchronised time of a block to a phase, when phases are asked for."""

    def __init__(self, trainer: _Trainer, name: str) -> None:
        self._trainer, self._name = trainer, name

    def __enter__(self) -> None:
        if self._trainer.phases is not None:
            self._trainer._watched.synchronize()
            self._start = time.perf_counter_ns()
            self._trainer.phases.setdefault("began", self._start)

    def __exit__(self, *_error: object) -> None:
        if self._trainer.phases is not None:
            self._trainer._watched.synchronize()
            self._trainer.phases[self._name] += time.perf_counter_ns() - self._start


def _the_batch(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return samples[0]
