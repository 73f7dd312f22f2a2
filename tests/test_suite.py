"""The suite itself: whose random numbers a test takes, which tests run, and in which order."""

import ast
import itertools
import random
from dataclasses import dataclass
from pathlib import Path

import elsewhere
import pytest
from selection import one_in, shuffle

FOLDER = Path(__file__).parent
FILES = sorted([*FOLDER.rglob("*.py"), *(FOLDER.parent / "study" / "tests").rglob("*.py")])
GENERATORS = {"default_rng", "Generator", "RandomState", "Random"}
#: What of ``numpy.random`` does not draw from the state that everybody shares.
LOCAL = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}
#: Fixtures of these scopes are made once for several tests.
SHARED = {"class", "module", "package", "session"}


def name_of(function):
    """The last part of what is called: default_rng of np.random.default_rng(0)."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return getattr(function, "id", "")


def holds_a_generator(node):
    """A generator, or a list, tuple or dict with one; not numbers that were drawn from one."""
    if isinstance(node, ast.Call):
        return name_of(node.func) in GENERATORS or name_of(node.func) == "manual_seed"
    if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Starred):
        return any(holds_a_generator(part) for part in ast.iter_child_nodes(node))
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return holds_a_generator(node.elt)
    return isinstance(node, ast.DictComp) and holds_a_generator(node.value)


def run_once(body):
    """What is evaluated once for all tests: statements of modules and classes, default values."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults)
            scopes = {
                keyword.value.value
                for mark in node.decorator_list
                if isinstance(mark, ast.Call) and name_of(mark.func) == "fixture"
                for keyword in mark.keywords
                if keyword.arg == "scope" and isinstance(keyword.value, ast.Constant)
            }
            if scopes & SHARED:
                yield from (
                    n.value for n in ast.walk(node) if isinstance(n, ast.Return | ast.Yield)
                )
        elif isinstance(node, ast.ClassDef):
            yield from run_once(node.body)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            yield node.value
        else:
            yield node


def shared_generators(text):
    """Lines with a generator that lives longer than one test."""
    for node in run_once(ast.parse(text).body):
        if node is not None and holds_a_generator(node):
            yield node.lineno
        # Those inside a call of parametrize, and those that a block at the top assigns.
        for inner in ast.walk(node) if node is not None else ():
            if isinstance(inner, ast.Assign) and holds_a_generator(inner.value):
                yield inner.lineno
            if isinstance(inner, ast.Call) and name_of(inner.func) in {"parametrize", "param"}:
                yield from (a.lineno for a in inner.args if holds_a_generator(a))


def global_state(text):
    """Lines that draw from the one generator of ``numpy.random`` or ``random``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner in {"np.random", "numpy.random"} and node.func.attr not in LOCAL:
                yield node.lineno
            if owner == "random" and node.func.attr != "Random":
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(FOLDER.parent)))
def test_generators_belong_to_one_test(path):
    assert list(shared_generators(path.read_text())) == []
    assert list(global_state(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "rng = np.random.default_rng(0)",
        "A, B = default_rng(0), 1",
        "RNGS = [default_rng(i) for i in range(3)]",
        "class TestX:\n    rng = np.random.default_rng(0)",
        "if True:\n    rng = default_rng(0)",
        "def draw(rng=default_rng(0)):\n    pass",
        "@pytest.mark.parametrize('rng', [default_rng(0)])\ndef test(rng):\n    pass",
        "@pytest.fixture(scope='module')\ndef rng():\n    return default_rng(0)",
        "g = torch.Generator().manual_seed(0)",
    ],
)
def test_shared_generators_are_found(text):
    assert list(shared_generators(text))


def test_own_generators_are_allowed():
    fine = """
X = np.random.default_rng(0).normal(size=3)
def test_x():
    rng = np.random.default_rng(0)
@pytest.fixture
def rng():
    return np.random.default_rng(0)
"""
    assert not list(shared_generators(fine))
    assert not list(global_state(fine))
    assert list(global_state("x = np.random.normal(size=3)")) == [1]
    assert list(global_state("x = random.choice([1, 2])")) == [1]


@dataclass(frozen=True)
class Item:
    nodeid: str
    path: str


ITEMS = [Item(f"{name}::test[{k}]", name) for name in ("a", "b", "c") for k in range(300)]
ITEMS.append(Item("d::test", "d"))


def test_a_part_has_something_of_every_file():
    chosen = one_in(10, ITEMS)
    assert {item.path for item in chosen} == {"a", "b", "c", "d"}
    assert 60 < len(chosen) < 120
    assert one_in(10, ITEMS[::-1]) == chosen
    some = ITEMS[:300]
    assert one_in(10, some) == {item for item in chosen if item.path == "a"}


def test_other_orders_keep_files_together():
    orders = []
    for seed in (1, 1, 2):
        items = list(ITEMS) if len(orders) == 0 else ITEMS[::-1]
        shuffle(random.Random(seed), items)
        orders.append(items)
        assert sorted(items, key=str) == sorted(ITEMS, key=str)
        changes = sum(a.path != b.path for a, b in itertools.pairwise(items))
        assert changes == 3
    assert orders[0] == orders[1] != orders[2]


def test_runs_elsewhere_cover_what_they_should():
    runs = elsewhere.RUNS
    assert len({run.order for run in runs}) == len({run.name for run in runs}) == len(runs)
    assert {run.workers for run in runs} == {1, 2, 4}
    assert {run.threads for run in runs} == {1, 2}
    assert {run.blas for run in runs} >= {"Haswell", "Zen", "Nehalem", "SkylakeX"}
    assert {run.torch for run in runs} >= {"default", "avx2", "avx512"}
    assert {run.without for run in runs} >= {"avx512", "avx2"}
    assert {run.python for run in runs} >= {"3.12", "3.13"}
    assert {name for run in runs for name in run.environment} >= {"HOME", "LANG", "TZ"}
    here = next(run for run in runs if run.blas is None)
    assert here.missing(set()) is None
    wide = next(run for run in runs if run.blas == "SkylakeX")
    assert wide.missing({"avx2"}) == "no avx512f here"


def test_reports_of_runs_are_read(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuites><testsuite><testcase classname="a" name="b"/>'
        '<testcase classname="a" name="c"><skipped/></testcase>'
        '<testcase classname="a" name="d"><failure/></testcase>'
        '<testcase classname="a" name="e"><error/></testcase></testsuite></testsuites>'
    )
    assert elsewhere.read(path) == ({"passed": 1, "skipped": 1}, ["a::d", "a::e"])
