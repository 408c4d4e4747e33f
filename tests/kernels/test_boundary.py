"""The kernels' boundary: wrong shapes, types, layouts and indices are refused before any memory is read."""

from __future__ import annotations

import contextlib
import inspect
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from transher import kernels
from transher.kernels import Columns, Known, Positions, interface, native
from transher.kernels.rules import KINDS

pytestmark = pytest.mark.skipif(native.module is None, reason="no native module")

REFUSED = (ValueError, TypeError, IndexError)
ROOT = Path(__file__).parents[2]
B, N, U, V, K = 6, 5, 9, 3, 7
COLUMNS = Columns(0, K, 2 * K, 1.0, True)

Arguments = dict[str, Any]


def known(count: int = B, ids: int = 8) -> Known:
    return Known(torch.arange(count) % 4, torch.arange(count) % 4 + 3, torch.arange(ids, dtype=torch.int32))


def index(bound: int, *shape: int) -> Tensor:
    return torch.randint(bound, shape)


def count(q: Tensor, s: Tensor, limits: Tensor, candidates: Tensor, first: int, known: Known) -> object:
    return kernels.scaled_l1_count(q, s, limits, [(first, candidates)], known)


def top(q: Tensor, s: Tensor, candidates: Tensor, first: int, size: int, excluded: Known) -> object:
    return kernels.scaled_l1_top(q, s, [(first, candidates)], size, excluded)


def scaled_l1_batch(
    anchors: Tensor, relations: Tensor, answers: Tensor, negatives: Tensor, **more: Any
) -> tuple[Tensor, Tensor]:
    return kernels.scaled_l1_batch(positions=Positions(anchors, relations, answers, negatives), **more)


# Every entry point with arguments that fit.
CALLS: dict[str, tuple[Callable[..., object], Callable[[], Arguments]]] = {
    "scaled_l1_cross": (
        kernels.scaled_l1_cross,
        lambda: {"q": torch.randn(B, K), "s": torch.randn(B, K), "e": torch.randn(N, K)},
    ),
    "scaled_l1_pairs": (
        kernels.scaled_l1_pairs,
        lambda: {"q": torch.randn(B, K), "s": torch.randn(B, K), "e": torch.randn(B, K)},
    ),
    "scaled_l1_listed": (
        kernels.scaled_l1_listed,
        lambda: {"q": torch.randn(B, K), "s": torch.randn(B, K), "e": torch.randn(U, K), "ids": index(U, B, N)},
    ),
    "complex_modulus_cross": (
        kernels.complex_modulus_cross,
        lambda: {"q": torch.randn(B, 2 * K), "e": torch.randn(N, 2 * K)},
    ),
    "complex_modulus_pairs": (
        kernels.complex_modulus_pairs,
        lambda: {"q": torch.randn(B, 2 * K), "e": torch.randn(B, 2 * K)},
    ),
    "complex_modulus_pools": (
        kernels.complex_modulus_pools,
        lambda: {"q": torch.randn(B, 2 * K), "e": torch.randn(U, 2 * K), "ids": index(U, 2, N)},
    ),
    "scaled_l1_batch": (
        scaled_l1_batch,
        lambda: {
            "entity_rows": torch.randn(U, K),
            "relation_rows": torch.randn(V, 3 * K),
            "anchors": index(U, B),
            "relations": index(V, B),
            "answers": index(U, B),
            "negatives": index(U, 2, N),
            "keep": torch.ones(B, K),
            "columns": COLUMNS,
            "gamma": 6.0,
        },
    ),
    "scaled_l1_count": (
        count,
        lambda: {
            "q": torch.randn(B, K),
            "s": torch.randn(B, K),
            "limits": torch.rand(B),
            "candidates": torch.randn(N, K),
            "first": 0,
            "known": known(),
        },
    ),
    "scaled_l1_top": (
        top,
        lambda: {
            "q": torch.randn(B, K),
            "s": torch.randn(B, K),
            "candidates": torch.randn(N, K),
            "first": 0,
            "size": 4,
            "excluded": known(),
        },
    ),
    "self_adversarial": (
        kernels.self_adversarial,
        lambda: {
            "positive": torch.randn(B),
            "negative": torch.randn(B, N),
            "valid": torch.ones(B, N, dtype=torch.bool),
            "weights": torch.ones(B),
            "alpha": 1.0,
        },
    ),
    "adam_rows": (
        kernels.adam_rows,
        lambda: {
            "weight": torch.randn(U, K),
            "m": torch.zeros(U, K),
            "v": torch.zeros(U, K),
            "ids": torch.arange(B),
            "gradient": torch.randn(B, K),
            "adam": kernels.Adam(0.1, 0.9, 0.999, 1e-8, 1),
        },
    ),
    "gather_rows": (kernels.gather_rows, lambda: {"weight": torch.randn(U, K), "ids": index(U, B)}),
    "add_rows": (
        kernels.add_rows,
        lambda: {
            "first": torch.randn(B, K),
            "first_places": torch.arange(B),
            "second": torch.randn(N, K),
            "second_places": torch.arange(N),
            "count": U,
        },
    ),
    "unit_rows": (kernels.unit_rows, lambda: {"weight": torch.randn(U, K), "ids": torch.arange(B)}),
    "distinct": (kernels.distinct, lambda: {"ids": index(U, B), "bound": U}),
    "mask_known": (
        kernels.mask_known,
        lambda: {"valid": torch.ones(B, N, dtype=torch.bool), "negatives": index(U, N), "known": known()},
    ),
}
TENSORS = [
    (name, argument)
    for name, (_, arguments) in CALLS.items()
    for argument, value in arguments().items()
    if isinstance(value, Tensor)
]


def longer(tensor: Tensor, dimension: int, by: int) -> Tensor:
    """As `tensor`, with one size changed."""
    shape = list(tensor.shape)
    shape[dimension] = max(0, shape[dimension] + by)
    return torch.zeros(shape, dtype=tensor.dtype)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_fit_are_taken(cpu_backend: str, name: str) -> None:
    function, arguments = CALLS[name]
    function(**arguments())


# Sizes that no other argument has, or for which every length is right.
FREE = {
    ("scaled_l1_cross", "e", 0),
    ("scaled_l1_listed", "e", 0),
    ("scaled_l1_listed", "ids", 1),
    ("complex_modulus_cross", "q", 0),
    ("complex_modulus_cross", "e", 0),
    ("complex_modulus_pools", "q", 0),
    ("complex_modulus_pools", "e", 0),
    ("complex_modulus_pools", "ids", 0),
    ("complex_modulus_pools", "ids", 1),
    ("scaled_l1_batch", "entity_rows", 0),
    ("scaled_l1_batch", "relation_rows", 0),
    ("scaled_l1_batch", "relation_rows", 1),
    ("scaled_l1_batch", "negatives", 0),
    ("scaled_l1_batch", "negatives", 1),
    ("scaled_l1_count", "candidates", 0),
    ("scaled_l1_top", "candidates", 0),
    ("gather_rows", "weight", 0),
    ("gather_rows", "weight", 1),
    ("gather_rows", "ids", 0),
    ("unit_rows", "weight", 0),
    ("unit_rows", "weight", 1),
    ("unit_rows", "ids", 0),
    ("distinct", "ids", 0),
}


@pytest.mark.parametrize(("name", "argument"), TENSORS)
@pytest.mark.parametrize("by", [-100, -1, 1, 3])
def test_a_size_that_does_not_fit_the_others_is_refused(name: str, argument: str, by: int) -> None:
    function, arguments = CALLS[name]
    for dimension in range(arguments()[argument].ndim):
        if (name, argument, dimension) not in FREE:
            given = arguments()
            given[argument] = longer(given[argument], dimension, by)
            with pytest.raises(REFUSED):
                function(**given)


@pytest.mark.parametrize(("name", "argument"), TENSORS)
def test_too_many_or_too_few_dimensions_are_refused(name: str, argument: str) -> None:
    function, arguments = CALLS[name]
    before: Tensor = arguments()[argument]
    for wrong in (before[None], before.reshape(-1), before.sum().to(before.dtype)):
        if wrong.shape != before.shape:
            given = {**arguments(), argument: wrong}
            with pytest.raises((*REFUSED, RuntimeError)):  # torch's own, where it comes first
                function(**given)


@pytest.mark.parametrize(("name", "argument"), TENSORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.int8, torch.bool])
def test_another_type_never_reaches_the_native_module(name: str, argument: str, dtype: torch.dtype) -> None:
    """It is refused, converted, or left to torch; nothing reads it as if it had the right type."""
    function, arguments = CALLS[name]
    given = arguments()
    given[argument] = given[argument].to(dtype)
    with contextlib.suppress(*REFUSED, RuntimeError):
        function(**given)


@pytest.mark.parametrize("part", ["entity_rows", "relation_rows", "keep"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_a_batch_takes_float32_alone(part: str, dtype: torch.dtype) -> None:
    arguments = CALLS["scaled_l1_batch"][1]()
    arguments[part] = arguments[part].to(dtype)
    with pytest.raises(TypeError, match=rf"{part} must be torch.float32, not {dtype}"):
        scaled_l1_batch(**arguments)


@pytest.mark.parametrize(("name", "argument"), TENSORS)
def test_strided_tensors_give_what_their_copies_give(cpu_backend: str, name: str, argument: str) -> None:
    function, arguments = CALLS[name]
    torch.manual_seed(0)
    given = arguments()
    if (given[argument].ndim < 2) or name in ("adam_rows", "unit_rows", "mask_known"):
        return
    expected = function(**given)
    wide = torch.cat([given[argument], given[argument]], -1)
    given[argument] = wide[..., : given[argument].shape[-1]]
    assert not given[argument].is_contiguous()
    for got, wanted in zip(tensors_of(function(**given)), tensors_of(expected), strict=True):
        torch.testing.assert_close(got, wanted)


def tensors_of(result: object) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


IDS = [
    ("scaled_l1_listed", "ids", U),
    ("complex_modulus_pools", "ids", U),
    ("scaled_l1_batch", "anchors", U),
    ("scaled_l1_batch", "relations", V),
    ("scaled_l1_batch", "answers", U),
    ("scaled_l1_batch", "negatives", U),
    ("adam_rows", "ids", U),
    ("gather_rows", "ids", U),
    ("add_rows", "first_places", U),
    ("add_rows", "second_places", U),
    ("unit_rows", "ids", U),
    ("distinct", "ids", U),
]


@pytest.mark.parametrize(("name", "argument", "bound"), IDS)
@pytest.mark.parametrize("wrong", [-1, 0, 1 << 40, -(1 << 40)])
def test_ids_out_of_range_are_refused(name: str, argument: str, bound: int, wrong: int) -> None:
    function, arguments = CALLS[name]
    given = arguments()
    given[argument].view(-1)[-1] = bound if wrong == 0 else wrong
    with pytest.raises(IndexError, match=f"index .* of a table of {bound} rows"):
        function(**given)


@pytest.mark.parametrize("name", ["scaled_l1_count", "scaled_l1_top", "mask_known"])
def test_known_answers_that_do_not_fit_are_refused(name: str) -> None:
    function, arguments = CALLS[name]
    key = "excluded" if name == "scaled_l1_top" else "known"
    good = known()
    for wrong in (
        known(B - 1),
        known(B + 1),
        good._replace(ends=good.ends[:-1]),
        good._replace(ends=good.ends + 6),
        good._replace(starts=good.starts - 1),
        good._replace(ids=good.ids[:2]),
        good._replace(ids=good.ids[None]),
    ):
        with pytest.raises(REFUSED):
            function(**{**arguments(), key: wrong})


@pytest.mark.parametrize("name", ["scaled_l1_count", "scaled_l1_top"])
@pytest.mark.parametrize("first", [-1, -(1 << 62), (1 << 63) - 1])
def test_a_first_id_that_is_none_is_refused(name: str, first: int) -> None:
    function, arguments = CALLS[name]
    with pytest.raises(ValueError, match="first candidate"):
        function(**{**arguments(), "first": first})


@pytest.mark.parametrize("size", [-1, 10**9, 10**18])
def test_a_size_that_no_memory_holds_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="size must be"):
        top(**{**CALLS["scaled_l1_top"][1](), "size": size})


def test_the_best_none_are_none() -> None:
    distances, ids = kernels.scaled_l1_top(torch.randn(2, 3), torch.randn(2, 3), [(0, torch.randn(4, 3))], 0, known(2))
    assert distances.shape == ids.shape == (2, 0)


@pytest.mark.parametrize(
    "columns",
    [Columns(-1, None, None, 1.0, True), Columns(0, K, 2 * K + 1, 1.0, True), Columns(1 << 40, 0, 0, 1.0, True)],
)
def test_columns_beyond_a_relation_row_are_refused(columns: Columns) -> None:
    with pytest.raises(ValueError, match="too short"):
        scaled_l1_batch(**{**CALLS["scaled_l1_batch"][1](), "columns": columns})


def test_columns_that_no_part_of_a_batch_uses_have_no_gradient(cpu_backend: str) -> None:
    arguments = CALLS["scaled_l1_batch"][1]()
    rows = arguments["relation_rows"].requires_grad_()
    arguments["columns"] = Columns(None, None, 3, 1.0, True)
    positive, negative = scaled_l1_batch(**arguments)
    (positive.sum() + negative.sum()).backward()
    assert rows.grad is not None
    assert (rows.grad[:, :3] == 0).all()
    assert (rows.grad[:, 3 + K :] == 0).all()
    assert (rows.grad[:, 3 : 3 + K] != 0).any()


def test_indices_that_change_before_the_backward_pass_are_noticed() -> None:
    arguments = CALLS["scaled_l1_batch"][1]()
    arguments["entity_rows"].requires_grad_()
    positive, _ = scaled_l1_batch(**arguments)
    arguments["negatives"].fill_(1 << 40)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        positive.sum().backward()


sizes = st.integers(0, 4)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(name=st.sampled_from(sorted(CALLS)), data=st.data())
def test_any_shapes_give_a_result_or_an_error(cpu_backend: str, name: str, data: st.DataObject) -> None:
    """Small shapes at random, zeros among them, for every tensor at once."""
    function, arguments = CALLS[name]
    given = arguments()
    for argument, value in given.items():
        if isinstance(value, Tensor):
            shape = data.draw(st.lists(sizes, min_size=value.ndim, max_size=value.ndim))
            given[argument] = torch.zeros(shape, dtype=value.dtype)
        elif isinstance(value, Known):
            given[argument] = known(data.draw(sizes), data.draw(sizes))
    with contextlib.suppress(*REFUSED, RuntimeError):
        function(**given)


@pytest.mark.parametrize("name", CALLS)
def test_nothing_at_all_is_no_error(cpu_backend: str, name: str) -> None:
    """Zero queries and zero candidates."""
    function, arguments = CALLS[name]
    given = arguments()
    empty = {
        "q",
        "s",
        "limits",
        "anchors",
        "relations",
        "answers",
        "positive",
        "weights",
        "ids",
        "gradient",
        "keep",
        "valid",
    }
    for argument, value in given.items():
        if isinstance(value, Tensor) and (argument in empty or argument == "negative"):
            given[argument] = value[:0]
        elif isinstance(value, Known):
            given[argument] = known(0)
    if name in ("scaled_l1_pairs", "complex_modulus_pairs"):
        given["e"] = given["e"][:0]
    if name == "scaled_l1_batch":
        given["negatives"] = given["negatives"][:1]
    if name == "complex_modulus_pools":
        given["ids"] = torch.zeros(1, 0, dtype=torch.int64)
    function(**given)


def test_the_compiled_module_has_the_functions_of_its_interface() -> None:
    """By name and number of arguments: mypy checks calls against the interface, and this checks the interface."""
    native_module = native.loaded()
    members = vars(interface.Kernels) | vars(interface.Native)
    declared = {name: member for name, member in members.items() if callable(member) and name[0] != "_"}
    annotated = interface.Kernels.__annotations__ | interface.Native.__annotations__
    shared = {name: getattr(interface, kind) for name, kind in annotated.items()}
    for name, member in declared.items():
        found = getattr(native_module, name)
        made = isinstance(found, type)  # whose constructor has its self, as the interface's method has
        found = found.__init__ if made else found
        assert argument_count(found) == len(inspect.signature(member).parameters) - (not made), name
    for name, kind in shared.items():
        wanted = len(inspect.signature(kind.__call__).parameters) - 1
        assert argument_count(getattr(native_module, name)) == wanted, name
    public = {name for name in dir(native_module) if name[0] != "_"}
    assert public == declared.keys() | shared.keys()


def floats(*shape: int) -> Tensor:
    return torch.rand(*shape)


def ids(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


TWO = "scaled_l1"  # of two parts of a query; a complex modulus is of one
DISTANCES: dict[str, Callable[[], list[Any]]] = {
    f"{kernel}_{name}": lambda parts=parts, more=more: [  # type: ignore[misc]
        1, tuple(floats(B, 6) for _ in range(parts)), floats(B, 6), None, *more(parts)
    ]
    for kernel, parts in ((TWO, 2), ("complex_modulus", 1))
    for name, more in {
        "cross": lambda _: [floats(B, B)],
        "pairs": lambda _: [floats(B)],
        "backward": lambda parts: [floats(B, B), tuple(floats(B, 6) for _ in range(parts)), floats(B, 6)],
        "pairs_backward": lambda parts: [floats(B), tuple(floats(B, 6) for _ in range(parts)), floats(B, 6)],
    }.items()
}  # fmt: skip
# Every function of the compiled module, and of what it makes, with arguments that fit. Threads come first.
NATIVE: dict[str, Callable[[], list[Any]]] = DISTANCES | {
    "self_adversarial": lambda: [1, floats(B), floats(B, N), None, floats(B), 1.0, floats(B), floats(B, N)],
    "thin": lambda: [1, floats(B, N), 0.5, 7],
    "adam_rows": lambda: [
        1, floats(U, K), floats(U, K), floats(U, K), torch.arange(B), floats(B, K), 0.1, 0.9, 0.99, 1e-8, 1.0
    ],
    "gather_rows": lambda: [1, floats(U, K), ids(B), floats(B, K)],
    "add_rows": lambda: [1, floats(B, K), torch.arange(B), floats(B, K), torch.arange(B), floats(U, K)],
    "unit_rows": lambda: [1, floats(U, K), torch.arange(B)],
    "distinct": lambda: [ids(B), U, ids(B), ids(B)],
    "mask_known": lambda: [ids(B, N, dtype=torch.bool), ids(N), *known()],
    "scaled_l1_count": lambda: [
        1, floats(B, K), floats(B, K), floats(B), floats(N, K), 0, *known(), ids(B), ids(B)
    ],
    "scaled_l1_top": lambda: [1, floats(B, K), floats(B, K), floats(N, K), 0, *known(), floats(B, 2), ids(B, 2)],
    "normalise_rows": lambda: [1, floats(U, K), floats(U, K)],
    "read_all": lambda: [1, floats(9)],
    "Batch": lambda: [
        floats(U, K), floats(V, 3 * K), ids(B), ids(B), ids(B), ids(1, N), None, 0, K, 2 * K, 1.0, 6.0, True
    ],
    "Batch.forward": lambda: [1, floats(B), floats(B, N)],
    "Batch.backward": lambda: [1, floats(B), floats(B, N), floats(U, K), floats(V, 3 * K)],
    "Steps": lambda: [ids(4, 3), 5, 2],
    "Steps.find_bodies": lambda: [1, ids(4, 3), 1, 10, 1],
    "Steps.count_bodies": lambda: [1, ids(4, 3, dtype=torch.int32), 1, 0.1, 5.0, 10, 10, 1],
    "Steps.find_constants": lambda: [1, 0, 4, 1, 0.1, 5.0, 10],
    "RuleIndex": lambda: [made("Steps"), ids(0, 9, dtype=torch.int32), 5.0, floats(KINDS) + 1, floats(KINDS) + 1, 0.9],
    "RuleIndex.score": lambda: [1, ids(B), ids(B), True, floats(B, 5)],
    "RuleIndex.explain": lambda: [1, ids(4, 3), floats(4), ids(4, 2), floats(4, 2)],
}  # fmt: skip
UNCHECKED = {"backends", "choose", "chosen", "lanes", "peak"}  # which read no tensors
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**62, -(2**63), 2**63, 1.5, float("nan"), float("inf"), -float("inf"), 1e300, "x", b"x",
    (), [], {}, (torch.zeros(2),), floats(0), floats(0, 0), floats(2, 3), ids(2, 3), ids(2, 3, dtype=torch.int32),
    torch.tensor(1.0), torch.full((B, K), float("nan")), torch.full((B,), float("inf")), torch.full((B,), 2**62),
    torch.full((B,), -1), floats(K, B).t(), floats(B, K).double(), floats(B, 2 * K)[:, ::2],
    torch.zeros(B, K, device="meta"),
)  # fmt: skip


def made(kind: str) -> Any:
    thing = getattr(native.loaded(), kind)(*NATIVE[kind]())
    if kind == "Batch":
        thing.forward(*NATIVE["Batch.forward"]())
    return thing


def entry(name: str) -> Callable[..., object]:
    kind, _, method = name.partition(".")
    found: Callable[..., object] = getattr(made(kind), method) if method else getattr(native.loaded(), name)
    return found


@pytest.mark.parametrize("name", NATIVE)
def test_whatever_an_entry_of_the_module_is_given_it_takes_or_refuses(cpu_backend: str, name: str) -> None:
    """Straight to the module, past all that Python checks before: one odd argument, and then several."""
    chance = random.Random(name)
    function, count = entry(name), len(NATIVE[name]())
    function(*NATIVE[name]())
    several = [{place: chance.choice(ODD) for place in range(count) if chance.random() < 0.4} for _ in range(50)]
    for changes in [*({place: odd} for place in range(count) for odd in ODD), *several]:
        if name == "distinct" and isinstance(size := changes.get(1), int) and size >= 2**31:
            continue  # the size of a table: that much memory is asked for
        arguments = [changes.get(place, fits) for place, fits in enumerate(NATIVE[name]())]
        with contextlib.suppress(*REFUSED, RuntimeError, OverflowError):
            function(*arguments)


def test_every_entry_of_the_module_is_given_odd_arguments() -> None:
    assert {name for name in dir(native.module) if name[0] != "_"} == UNCHECKED | {
        name for name in NATIVE if "." not in name
    }
    methods = {
        f"{kind}.{name}" for kind in ("Batch", "Steps", "RuleIndex") for name in dir(made(kind)) if name[0] != "_"
    }
    assert methods == {name for name in NATIVE if "." in name}


def argument_count(function: Any) -> int:
    text = str(function.__nb_signature__[0][0])
    return len(re.findall(r"(?:^|[(,]\s*)(\w+)(?=[:,)=])", text[text.index("(") : text.rindex(")") + 1]))


def test_no_address_of_a_tensor_is_taken_outside_of_the_boundary() -> None:
    word = "data_" + "ptr"
    files = [path for folder in ("src", "tests", "benchmarks", "native") for path in (ROOT / folder).rglob("*.*")]
    sources = [path for path in files if path.suffix in (".py", ".pyi", ".cpp", ".h")]
    assert {path.name for path in sources if word in path.read_text(encoding="utf-8")} == {"arguments.h"}
