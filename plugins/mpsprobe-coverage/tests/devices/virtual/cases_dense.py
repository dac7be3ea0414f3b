"""Linear layers, normalisation, dropout, losses, embeddings, linear algebra: what a Mac calls, and why."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import EVERY, Case, of

_DROPPED = "bernoulli_.float div_.Tensor mul.Tensor | mul.Tensor"
_LINEAR = {EVERY: "_mps_linear | mps_linear_backward", "1.13.1": "linear | linear_backward"}


def _ids_and_weights() -> list[torch.Tensor]:
    return [torch.tensor([[1, 2], [0, 1]]), torch.rand(4, 3)]


DENSE = {
    "linear: Linear.cpp of 1.12 asks is_mps() and calls _mps_linear; an MPS kernel of linear itself from 1.13.0 on "
    "(native_functions.yaml), with linear_backward in derivatives.yaml.": Case(
        of(F.linear, (2, 3, 4), (5, 4), (5,)), _LINEAR
    ),
    "linear without a bias, two rows: The same: an MPS linear is not taken apart by the number of dimensions, as the "
    "composite one is.": Case(of(F.linear, (3, 4), (5, 4)), _LINEAR),
    "matmul folds: LinearAlgebra.cpp, should_fold: 3-D by 2-D becomes one mm; mm's formula is two mm.": Case(
        of(torch.matmul, (2, 3, 4), (4, 5)), "mm | mm*2"
    ),
    "matmul batches: 4-D by 3-D is expanded and becomes bmm; the gradient of the expanded side is summed.": Case(
        of(torch.matmul, (2, 3, 4, 5), (3, 5, 6)), "bmm | bmm*2 sum.dim_IntList"
    ),
    "matrix by vector: Blas.cpp: mv is CompositeExplicitAutograd and calls addmv_ on an empty result. Its formula: "
    "grad.ger(vec), which is mul.Tensor, and a mv.": Case(of(torch.mv, (3, 4), (4,)), "addmv_ | mul.Tensor addmv_"),
    "inner: Linear.cpp: tensordot, which calls dot where everything is contracted, from 2.8 on and not on MPS: there "
    "it compares the device type with 13, kMPS.": Case(of(torch.inner, (5,), (5,)), "mm | mm*2"),
    "einsum: Linear.cpp: sumproduct_pair permutes and calls bmm.": Case(
        of(lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)), "bmm | bmm*2"
    ),
    "abs: abs is CompositeExplicitAutograd and calls abs.out. Its formula: grad * self.sgn(); MPSFallback.mm sends "
    "sgn.out to the CPU up to 2.0, a kernel from 2.1 on.": Case(
        of(torch.abs, (2, 3)), {EVERY: "abs.out | fallback:sgn.out mul.Tensor", "2.4.1": "abs.out | sgn mul.Tensor"}
    ),
}

NORMALISATION = {
    "batch norm, training: _batch_norm_impl_index: no cudnn, no miopen; native_batch_norm has an MPS kernel in every "
    "release. The module counts batches with add_.": Case(
        of(lambda module, x: module(x), (2, 3, 4, 4), module=lambda: torch.nn.BatchNorm2d(3)),
        "add.Tensor native_batch_norm | native_batch_norm_backward",
    ),
    "batch norm, evaluation: The same kernels; nothing is counted.": Case(
        of(lambda module, x: module(x), (2, 3, 4, 4), module=lambda: torch.nn.BatchNorm2d(3).eval()),
        "native_batch_norm | native_batch_norm_backward",
    ),
    "layer norm: An MPS kernel for both directions in every release.": Case(
        of(lambda x, w, b: F.layer_norm(x, [4], w, b), (2, 3, 4), (4,), (4,)),
        "native_layer_norm | native_layer_norm_backward",
    ),
    "group norm: Up to 1.13 math_group_norm: batch norm of the groups, then addcmul; its derivative formula asks for "
    "native_group_norm_backward, without a kernel. From 2.0.0 Python kernels of torch/backends/mps, from 2.13.0 "
    "Metal.": Case(
        of(lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 3, 3), (4,), (4,)),
        {
            EVERY: "native_batch_norm addcmul | missing:native_group_norm_backward",
            "2.0.0": "native_group_norm | native_group_norm_backward",
        },
    ),
    "rms norm, inference: The operator came with 2.4.0 as a composite. layer_norm.cpp calls _fused_rms_norm on MPS "
    "from 2.8.0 on, with a weight and without gradients.": Case(
        of(lambda x, w: F.rms_norm(x, [4], w, 1e-6), (2, 4), (4,)),
        {"2.4.1": "pow.Tensor_Scalar mean.dim add.Tensor rsqrt mul.Tensor*2", "2.13.0": "_fused_rms_norm"},
        as_traced=True,
    ),
    "rms norm without a weight: layer_norm.cpp: never fused on MPS without a weight.": Case(
        of(lambda x: F.rms_norm(x, [4], None, 1e-6), (2, 4)),
        {"2.4.1": "pow.Tensor_Scalar mean.dim add.Tensor rsqrt mul.Tensor"},
    ),
    "rms norm, training: _fused_rms_norm_backward has no MPS kernel in any release; with gradients the composite is "
    "taken. Backward by derivatives.yaml: two mul for each of the two products, pow and two mul for rsqrt, div for "
    "mean, pow and two mul for the square, two sums over broadcast dimensions, and one add where the gradients of x "
    "meet.": Case(
        of(lambda x, w: F.rms_norm(x, [4], w, 1e-6), (2, 4), (4,)),
        {
            "2.4.1": "pow.Tensor_Scalar mean.dim add.Tensor rsqrt mul.Tensor*2 | "
            "mul.Tensor*8 pow.Tensor_Scalar*2 sum.dim_IntList*2 div.Tensor add.Tensor"
        },
    ),
    "dropout, training: Dropout.cpp: bernoulli_, div_, mul; native_dropout is chosen on MPS from 2.15.0 on only.": Case(
        of(lambda x: F.dropout(x, 0.1, True), (2, 4)),
        {EVERY: _DROPPED, "2.15.0": "native_dropout | native_dropout_backward"},
    ),
    "dropout, evaluation: Dropout.cpp returns its input.": Case(
        of(lambda x: F.dropout(x, 0.1, False) * 2, (2, 4)), "mul.Tensor | mul.Tensor"
    ),
    "dropout of whole channels: feature_dropout is the bernoulli composite in every release.": Case(
        of(lambda x: F.dropout2d(x, 0.1, True), (2, 4, 3, 3)), _DROPPED
    ),
}

LOSSES = {
    "cross entropy: log_softmax and nll_loss_forward, all native in every release.": Case(
        of(F.cross_entropy, lambda: [torch.rand(3, 5), torch.tensor([1, 0, 2])]),
        "_log_softmax nll_loss_forward | nll_loss_backward _log_softmax_backward_data",
    ),
    "cross entropy of images: 4-D input takes nll_loss2d_forward.": Case(
        of(F.cross_entropy, lambda: [torch.rand(1, 5, 2, 3), torch.zeros(1, 2, 3, dtype=torch.long)]),
        "_log_softmax nll_loss2d_forward | nll_loss2d_backward _log_softmax_backward_data",
    ),
    "mean squared error: Structured, MPS kernels in every release. Both sides get a gradient: two calls.": Case(
        of(F.mse_loss, (2, 3), (2, 3)), "mse_loss | mse_loss_backward*2"
    ),
    "Kullback-Leibler divergence: Loss.cpp avoids xlogy on MPS in 1.13 to 2.0; xlogy itself has a kernel from 2.1.0 "
    "on.": Case(
        of(lambda x, y: F.kl_div(x, y, reduction="none"), (2, 3), (2, 3)),
        {"1.13.1": "log sub.Tensor mul.Tensor gt.Scalar where.self", "2.4.1": "xlogy.Tensor mul.Tensor sub.Tensor"},
    ),
}

EMBEDDINGS = {
    "embedding: embedding is CompositeExplicitAutograd: index_select and a view. embedding_dense_backward has a kernel "
    "in every release.": Case(of(F.embedding, _ids_and_weights), "index_select | embedding_dense_backward"),
    "embedding with a largest norm: embedding_renorm_ is registered to fall back to the CPU in every release.": Case(
        of(lambda ids, w: F.embedding(ids, w, max_norm=1.0), _ids_and_weights),
        "fallback:embedding_renorm_ index_select",
    ),
    "embedding bag, inference: Without gradients of the weight EmbeddingBag.cpp calls _embedding_bag_forward_only: a "
    "kernel from 2.10.0 on. 2-D indices get their offsets from arange.": Case(
        of(lambda ids, w: F.embedding_bag(ids, w, mode="mean"), _ids_and_weights),
        {
            EVERY: "arange.start_out missing:_embedding_bag_forward_only",
            "2.13.0": "arange.start_out _embedding_bag_forward_only",
        },
    ),
    "embedding bag, training: _embedding_bag_backward is CompositeImplicitAutograd up to 2.4 and ends in "
    "_embedding_bag_dense_backward; later it has a dispatch key of its own, MPS among them from 2.10.0 on.": Case(
        of(lambda ids, w: F.embedding_bag(ids, w, mode="mean"), _ids_and_weights),
        {
            EVERY: "arange.start_out missing:_embedding_bag | missing:_embedding_bag_dense_backward",
            "2.6.0": "arange.start_out missing:_embedding_bag | missing:_embedding_bag_backward",
            "2.13.0": "arange.start_out _embedding_bag | _embedding_bag_backward",
        },
    ),
    "one-hot of a given number of classes: Onehot.cpp asks for MPS from 1.13 on and then trusts the classes: scatter_ "
    "into zeros, no reading of values.": Case(
        of(lambda classes: F.one_hot(classes, 3), lambda: [torch.tensor([1, 0])]), {"1.13.1": "scatter_.value"}
    ),
    "one-hot of as many classes as there are: The largest class is read: max, and item() waits for it.": Case(
        of(F.one_hot, lambda: [torch.tensor([1, 0])]), {"1.13.1": "max _local_scalar_dense scatter_.value"}
    ),
}

LINEAR_ALGEBRA = {
    "singular values and vectors: linalg_svd is registered to fall back to the CPU up to 2.13; from 2.14.0 on "
    "composite: _linalg_svd.": Case(
        of(lambda x: torch.linalg.svd(x, full_matrices=False)[1], (3, 4)),
        {EVERY: "fallback:linalg_svd", "2.15.0": "_linalg_svd"},
    ),
    "inverse: linalg_inv: linalg_inv_ex, then _linalg_check_errors reads infos.any().": Case(
        of(torch.linalg.inv, (3, 3)), {"2.0.0": "linalg_inv_ex any _local_scalar_dense"}
    ),
    "eigenvalues of a symmetric matrix: linalg_eigvalsh: _linalg_eigh, structured; its out form has an MPS kernel from "
    "2.14.0 on. It leaves matrices of fewer than 12288 elements in all to the CPU.": Case(
        of(torch.linalg.eigvalsh, (3, 3)),
        {"1.13.1": "missing:_linalg_eigh.eigenvalues", "2.15.0": "fallback:_linalg_eigh"},
    ),
}

CASES = DENSE | NORMALISATION | LOSSES | EMBEDDINGS | LINEAR_ALGEBRA
