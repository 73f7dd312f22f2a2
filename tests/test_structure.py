"""The shape of the code: direction of imports, a small surface."""

import ast
from pathlib import Path

import pytest

import kuq

ROOT = Path(__file__).parents[1]
PACKAGE = Path(kuq.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
#: Every layer may import from itself and from those before it.
LAYERS = (
    {"errors", "_digest", "_file_lock", "_ranges", "_replacing", "_switch"},
    {"_array", "_compiled", "_linalg", "_numbers", "_special", "_threads"},
    {"_numba"},
    {"kernels"},
    {"adapters", "distributions", "partition", "result"},
    {"expectations", "tiles"},
    {"forms"},
    {"answers", "door", "driver", "estimates", "scores", "views", "walks"},
    {"pooled"},
    {"permutations", "standard_errors"},
    {"uncertainty"},
    {"__init__"},
    {"nn", "plot", "sklearn"},
    {"datasets"},
    {"protocols"},
    {"calibration"},
    {"xarray"},
    {"files"},
    {"reports"},
    {"demo"},
    {"cli"},
    {"__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def layer_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_layers(path):
    """The layers of kuq that a file imports from, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names = [node.module]
            if node.module == "kuq":
                names = [f"kuq.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "kuq":
                known = len(parts) > 1 and parts[1] in RANK
                yield parts[1] if known else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = RANK[layer_of(path)]
    for layer in imported_layers(path):
        assert RANK[layer] <= own, f"{path.name} imports {layer}, which comes after it"


TWINS = [path for path in FILES if path.stem.endswith("_compiled") and path.stem != "_compiled"]


@pytest.mark.parametrize("path", TWINS, ids=lambda p: p.stem)
def test_compiled_twins_are_imported_by_each_other_alone(path):
    """Others get them from ``twin``: importing numba takes half a second."""
    own = f"kuq.{path.parent.name}.{path.stem}"
    for other in set(FILES) - set(TWINS):
        assert own not in other.read_text(), other


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_is_imported_from_the_study(path):
    """Nor is a name given to be imported later."""
    assert "kuq_study" not in path.read_text()


#: Words that name nothing: a reader would have to look up what each of them is.
NAMELESS = {"some", "found", "own", "known", "part"}
#: Public names: what is known of a partition, and which part of an uncertainty a map shows.
PUBLIC = {("partition.py", "known"), ("maps.py", "part")}
OTHERS = [
    path for name in ("study/src", "benchmarks", "docs") for path in ROOT.glob(f"{name}/**/*.py")
]


def assigned(node):
    """The name that a node of a syntax tree gives to something."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return getattr(node, "name", None)


@pytest.mark.parametrize(
    "path", [*FILES, *sorted(OTHERS)], ids=lambda path: "/".join(path.parts[-3:])
)
def test_names_say_what_they_name(path):
    nodes = ast.walk(ast.parse(path.read_text()))
    names = {(path.name, assigned(node)) for node in nodes}
    assert {(file, name) for file, name in names if name in NAMELESS} <= PUBLIC


def test_no_file_without_a_concept():
    names = {path.stem for path in FILES}
    assert not names & {"utils", "helpers", "common", "misc"}


def test_public_names_are_exactly_the_exported_ones():
    public = {name for name in vars(kuq) if not name.startswith("_")}
    modules = {path.stem if path.parent == PACKAGE else path.parent.name for path in FILES}
    assert set(kuq.__all__) == public - modules | (set(kuq.__all__) & modules)
    assert all(getattr(kuq, name).__doc__ for name in kuq.__all__)
