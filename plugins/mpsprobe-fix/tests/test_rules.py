"""Each rule is tested by its two examples."""

from __future__ import annotations

import pytest

from mpsprobe_fix.facts import Program, facts_of, parsed
from mpsprobe_fix.fixing import edit
from mpsprobe_fix.rule import Rule
from mpsprobe_fix.rules import RULES

# What a run found at line 3 of an example.
SEEN = {
    "missing-operator": {3: [("operator", "aten::_linalg_eigvals")]},
    "float64-seen": {3: [("float64", "aten::copy_")]},
    "contiguous": {3: [("contiguous", "aten::log.out")]},
}


# What a run found at line 3, that line, and what becomes of it.
FOUND = [
    ("float64", "aten::copy_", "x = torch.tensor(y, device=dev)", "x = without_float64(torch.tensor(y), dev).to(dev)"),
    ("float64", "aten::_to_copy", "x = y.double()", "x = y.to(FLOAT64)"),
    (
        "operator",
        "aten::_linalg_eigh.eigenvalues",
        "x = torch.linalg.eigvalsh(y)",
        "x = on_cpu(torch.linalg.eigvalsh, y)",
    ),
    (
        "operator",
        "aten::_adaptive_avg_pool2d",
        "m.pool = torch.nn.AdaptiveAvgPool2d(5); x = m.pool(y)",
        "m.pool = AdaptiveAvgPool2dOnMPS(5); x = m.pool(y)",
    ),
    (
        "operator",
        "aten::adaptive_max_pool2d.out",
        "m.pool = torch.nn.AdaptiveMaxPool2d(5); x = m.pool(y)",
        "m.pool = torch.nn.AdaptiveMaxPool2d(5); x = on_cpu(m.pool, y)",
    ),
    ("operator", "aten::_ctc_loss", "x = torch.nn.CTCLoss()(y)", "x = CTCLossOnMPS()(y)"),
    ("operator", "aten::_transformer_encoder_layer_fwd", "x = encode(y)[0]", None),
    ("operator", "aten::_linalg_eigh.eigenvalues", "x = torch.linalg.eigvalsh(torch.linalg.inv(y))", None),
]


def read(code: str) -> Program:
    program = parsed(code)
    assert isinstance(program, Program)
    return program


@pytest.mark.parametrize(("kind", "operator", "line", "after"), FOUND)
def test_what_a_run_found_is_edited_where_one_call_can_be_it(
    kind: str, operator: str, line: str, after: str | None
) -> None:
    program = read(f"import torch\n\n{line}\n")
    facts = facts_of([program], {})
    facts.refused = {operator}
    made = edit(program, "a.py", facts, RULES.values(), {3: [(kind, operator)]})
    assert made.code.splitlines()[-1] == (after or line)
    assert bool(made.decisions) == (after is None)


# Lines that the edits of whole programs do not reach on every machine, and what becomes of them.
LINES = [
    (
        "n = torch.cuda.device_count()\nspawn(run, nprocs=n)",
        "n = max(torch.cuda.device_count(), 1)\nspawn(run, nprocs=n)",
    ),
    (
        "scope = autocast if a else b\nwith scope('cuda'): pass",
        'with scope("mps" if DEVICE == "mps" else "cuda"): pass',
    ),
    ("if x.device.type == 'cuda':\n    x = x.half()", 'if x.device.type in ("cuda", "mps"):\n    x = x.half()'),
    ("dist.barrier(device_ids=[0])", "dist.barrier(device_ids=[0] if torch.cuda.is_available() else None)"),
    ("pipe.enable_xformers_memory_efficient_attention()", "if torch.cuda.is_available():\n    pipe.enable_xformers"),
    ("@torch.cuda.amp.custom_fwd\ndef f(): pass", "@torch.amp.custom_fwd(device_type=DEVICE)"),
    ("x.to('cuda:%d' % n)\ny.to('cuda:' + str(n))", "y.to('cuda:' + str(n) if torch.cuda.is_available() else DEVICE)"),
    ("x.cuda()\ny = torch.linalg.eig(x)", "y = on_cpu(torch.linalg.eig, x)"),
    ("x.cuda()\ny = torch.nn.CTCLoss()", "y = CTCLossOnMPS()"),
    ("y = torch.nn.CTCLoss()", "y = torch.nn.CTCLoss()"),
    ("x.to(place)\ny = torch.load(f)", 'torch.load(f, map_location=None if torch.cuda.is_available() else "cpu")'),
    (
        "s = torch.autocast(kind) if kind_type == 'cuda' else no()",
        'torch.autocast(kind) if kind_type in ("cuda", "mps")',
    ),
    ("if accelerator.is_main_process:\n    x.cuda()", "    x.to(DEVICE)"),
    (
        "def make(): return DataLoader(d, num_workers=2, persistent_workers=True)\nmake()",
        'num_workers=0 if sys.platform == "darwin" else 2, persistent_workers=False if',
    ),
]


@pytest.mark.parametrize(("line", "after"), LINES)
def test_a_line_becomes_what_runs_on_every_device(line: str, after: str) -> None:
    program = read(f"import torch\n\n{line}\n")
    facts = facts_of([program], {})
    facts.release = (2, 8)
    assert after in edit(program, "a.py", facts, RULES.values()).code


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_makes_its_example_after_out_of_the_one_before(rule: Rule) -> None:
    program = read(rule.before)
    made = edit(program, "a.py", facts_of([program], {}), [rule], SEEN.get(rule.name))
    assert made.code == rule.after
    program = read(made.code)
    again = edit(program, "a.py", facts_of([program], {}), RULES.values())
    assert (again.code, again.changes) == (made.code, [])
