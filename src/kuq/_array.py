"""The array boundary: namespaces, special functions, and the only place that validates input.

The core is written once on the Python array API standard. Nothing here loads torch or jax;
a library is recognised from the arrays that come in.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import array_api_compat
import array_api_compat.numpy
import numpy as np

from kuq import _compiled
from kuq._numbers import as_real_number, shown
from kuq._switch import Switch
from kuq.errors import ParameterError, ShapeError

Array: TypeAlias = Any
Namespace: TypeAlias = Any
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class checks(Switch, default=True):  # noqa: N801  (reads as a function: `kuq.checks(False)`, `with kuq.checks(False):`)
    """Switch value checks on or off; shapes are always checked.

    Takes effect at once, in this thread (or asynchronous task) alone; used in a ``with``
    statement it restores the former state at the end.

    >>> import kuq
    >>> with kuq.checks(False):
    ...     _ = kuq.Normal(0.0, -1.0)
    """

    def __init__(self, enabled: bool) -> None:
        super().__init__(bool(enabled))


_LIBRARIES: dict[type, str] = {np.ndarray: "numpy"}


def library_of(value: object) -> str:
    """ "numpy", "torch", "jax" or another array library, and nothing for what is no array."""
    kind = type(value)
    library = _LIBRARIES.get(kind)
    if library is None:  # a search that takes longer than a small operation
        library = _LIBRARIES[kind] = _searched_library(value)
    return library


def _searched_library(value: object) -> str:
    if isinstance(value, np.generic) or not array_api_compat.is_array_api_obj(value):
        return ""
    if array_api_compat.is_torch_array(value):
        return "torch"
    if array_api_compat.is_jax_array(value):
        return "jax"
    return "numpy" if isinstance(value, np.ndarray) else "another"


# What is known already is looked up in place: these are asked some thirty times in a small call.


def is_array(value: object) -> bool:
    return (_LIBRARIES.get(type(value)) or library_of(value)) != ""


def is_torch(value: object) -> bool:
    return (_LIBRARIES.get(type(value)) or library_of(value)) == "torch"


def is_jax(value: object) -> bool:
    return (_LIBRARIES.get(type(value)) or library_of(value)) == "jax"


_NAMESPACES: dict[type, Namespace] = {}


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace of arrays that are known to belong together."""
    kind = type(arrays[0])
    for other in arrays:
        if type(other) is not kind:
            return array_api_compat.array_namespace(*arrays)
    xp = _NAMESPACES.get(kind)
    if xp is None:  # a search that takes longer than a small operation
        xp = _NAMESPACES[kind] = array_api_compat.array_namespace(arrays[0])
    return xp


def is_traced(array: Array) -> bool:
    """Whether what is computed from an array cannot be read now (jax.jit, vmap, torch.compile).

    That holds for every array of JAX inside a transformed function: what comes from outside, with
    values that are known, is recorded there like its arguments.
    """
    library = _LIBRARIES.get(type(array)) or library_of(array)
    if library == "jax":
        return _is_tracer(array) or _jax_is_tracing()
    if library == "torch":
        torch = sys.modules["torch"]
        # A mode watches operations, for example to make a graph of them.
        watched = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
        functorch = torch._C._functorch
        transformed = functorch.peek_interpreter_stack() is not None
        return bool(watched or (transformed and _is_batched(array, functorch)))
    return False


def between_graphs(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same function, which torch.compile calls between two graphs and does not trace.

    kuq chooses its way by the values and remembers plans, which graphs cannot hold: they would be
    cut at every step, with a warning for everything that is remembered. Gradients are as ever.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if "torch._dynamo" in sys.modules:
            import torch  # a statement, since torch.compile does not look into sys.modules

            # A call without tensors among its arguments is not traced, but what it calls would be.
            frames = torch._C._dynamo.eval_frame
            if torch.compiler.is_compiling() or frames.get_eval_frame_callback() is not None:
                apart: Callable[Arguments, Result] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
                return apart(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def _is_tracer(array: Array) -> bool:
    """Whether an array of JAX has no values at all."""
    return isinstance(array, sys.modules["jax"].core.Tracer)


def _is_unknown(array: Array) -> bool:
    """Whether the values of an array itself cannot be read."""
    return _is_tracer(array) if is_jax(array) else is_traced(array)


def readable(values: Any, what: str) -> Any:
    """Values that have to be read: inside a trace as NumPy arrays, if they are known there."""
    if not is_array(values) or not is_traced(values):
        return values
    if _is_unknown(values):
        raise ParameterError(
            f"{what} reads its values, which are not known inside of jit, grad or vmap; "
            "call it outside"
        )
    return np.asarray(values)


def _jax_is_tracing() -> bool:
    """Whether a transformation of JAX stands around the caller."""
    jax = sys.modules["jax"]
    clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", None)
    if clean is not None:
        return not clean()
    return _is_tracer(jax.numpy.zeros(()))  # no name for it: jit shows in what an operation gives


def torch_of(array: Array) -> Any:
    """The library of a tensor, None for other arrays."""
    return sys.modules["torch"] if is_torch(array) else None


def _is_batched(tensor: Array, functorch: Any) -> bool:
    """Whether torch.func.vmap stands around a tensor, be it inside a gradient transform."""
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return bool(functorch.is_batchedtensor(tensor))


def detach(array: Array) -> Array:
    """The same values without a gradient: for quadrature grids and units."""
    if isinstance(array, np.ndarray):
        return array
    if is_torch(array):
        return array.detach()
    if is_jax(array):
        return sys.modules["jax"].lax.stop_gradient(array)
    return array


def is_in_memory(array: Array) -> bool:
    """Whether this is a tensor of torch on the CPU, and no view that tells to change signs."""
    kind: Any = type(array)
    return _is_tensor(kind) and array.is_cpu and not array.is_neg()


@functools.cache
def _is_tensor(kind: type) -> bool:
    """Whether a class is torch's own: another one may do anything with what is asked of it."""
    torch = sys.modules.get("torch")
    return torch is not None and kind in (torch.Tensor, torch.nn.Parameter)


def addresses_of(arrays: Iterable[Array], itemsize: int) -> np.ndarray:
    """Where the numbers of arrays of NumPy or torch begin: blocks of so many bytes a number."""
    addresses = []
    for array in arrays:
        if isinstance(array, np.ndarray):
            block, address = array.flags.c_contiguous, array.__array_interface__["data"][0]
        else:
            block, address = array.is_contiguous(), array.data_ptr()
        if not block or array.dtype.itemsize != itemsize:  # else other numbers would be read there
            raise ValueError(f"expected a contiguous array of {itemsize} bytes a number")
        addresses.append(address)
    return np.array(addresses)


def any_true(condition: Array) -> bool:
    """Whether any entry is seen to hold; where values cannot be read (tracing) none is."""
    return not is_traced(condition) and bool(namespace(condition).any(condition))


def may_hold(condition: Array) -> bool:
    """Whether any entry holds, or values cannot be read (tracing), so that one may."""
    return is_traced(condition) or bool(namespace(condition).any(condition))


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are equal; arrays in library, dtype and every entry, NaN as well."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if not is_array(a) and not is_array(b):
        return bool(a == b)
    if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if str(a.device) != str(b.device):
        return False
    return not may_hold((a != b) & ((a == a) | (b == b)))


def constants(values: Sequence[float], like: Array) -> Array:
    """Python numbers as a vector of the library, dtype and device of another array."""
    if isinstance(like, np.ndarray):
        return np.asarray(values, dtype=like.dtype)
    xp = namespace(like)
    if is_torch(like):
        return xp.asarray(values, dtype=like.dtype, device=like.device)
    return xp.asarray(values, dtype=like.dtype)


def from_numpy(values: np.ndarray, like: Array) -> Array:
    """NumPy numbers (quadrature nodes, standard variates) in the library of another array."""
    if isinstance(like, np.ndarray):
        return np.asarray(values, dtype=like.dtype)
    if is_torch(like):
        return namespace(like).asarray(values, dtype=like.dtype, device=like.device)
    return namespace(like).asarray(values, dtype=like.dtype)


def as_index(values: Array) -> Array:
    """Whole numbers as indices: torch wants 64 bits, jax may not have them."""
    xp = namespace(values)
    return xp.astype(values, xp.int32 if is_jax(values) else xp.int64)


def index_array(values: np.ndarray, like: Array) -> Array:
    """NumPy indices in the library and on the device of another array."""
    if isinstance(like, np.ndarray):
        return values
    if is_torch(like):
        return namespace(like).asarray(values.astype(np.int64), device=like.device)
    return namespace(like).asarray(values.astype(np.int32))


def widen(array: Array) -> Array:
    """float32 as float64, where that exists and costs little, in the machine's order of bytes.

    Differences of close members need more digits than float32 has. On an accelerator, and in jax
    without 64 bits, results of float32 input are those of float32 arithmetic.
    """
    if isinstance(array, np.ndarray):
        return array if array.dtype == np.float64 else array.astype(np.float64)
    if "float32" not in str(array.dtype):
        return array
    xp = namespace(array)
    if is_torch(array) and array.device.type != "cpu":
        return array
    if is_jax(array) and not sys.modules["jax"].config.jax_enable_x64:
        return array
    return xp.astype(array, xp.float64)


def as_numpy(array: Array, what: str) -> np.ndarray:
    """The values as float64 in NumPy, without gradients; ``what`` needs them."""
    array = readable(array, what)
    if not isinstance(array, np.ndarray):
        array = detach(array)
        array = array.cpu() if hasattr(array, "cpu") else array
    return np.asarray(array, dtype=np.float64)


def identity(size: int, like: Array) -> Array:
    return from_numpy(np.eye(size), like)


def epsilon(array: Array) -> float:
    return float(namespace(array).finfo(array.dtype).eps)


def sum_of_squares(x: Array) -> Array:
    """Σ x² along the last axis."""
    xp = namespace(x)
    # In NumPy without a temporary; in torch it would be one small matrix product for each row.
    return xp.vecdot(x, x) if isinstance(x, np.ndarray) else xp.sum(x * x, axis=-1)


def weighted_sum(weights: Array, x: Array) -> Array:
    """Σ w x along the first axis, for weights (M,)."""
    if isinstance(x, np.ndarray):  # without a temporary
        return np.matmul(weights, x.reshape((x.shape[0], -1))).reshape(x.shape[1:])
    return namespace(x).sum(weights[(..., *(None,) * (x.ndim - 1))] * x, axis=0)


def summable(weights: Array, axis: int | None = None) -> Array:
    """Weights of which only the ratios count, by a factor where their sum leaves the range."""
    if is_traced(weights):
        return weights
    xp = namespace(weights)
    with np.errstate(over="ignore"):
        total = xp.sum(detach(weights))
    if bool(xp.isfinite(total)):
        return weights
    return weights / xp.max(weights, axis=axis, keepdims=True)


def safe_sqrt(x: Array) -> Array:
    """sqrt for x ≥ 0 whose gradient at zero is zero instead of infinite."""
    xp = namespace(x)
    zero = x <= 0  # not `x > 0`: NaN has to stay NaN
    return xp.where(zero, xp.zeros_like(x), xp.sqrt(xp.where(zero, xp.ones_like(x), x)))


def safe_ratio(a: Array, b: Array) -> Array:
    """a / b for b ≥ 0, and zero (value and gradient) where b is zero."""
    xp = namespace(a, b)
    zero = b <= 0
    ratio = a / xp.where(zero, xp.ones_like(b), b)
    return xp.where(zero, xp.zeros_like(ratio), ratio)


def power_of_two(x: Array) -> Array:
    """A power of two of the size of x > 0 (one where x is zero or not finite).

    Dividing by it is exact, so laws can be brought to unit scale without losing a digit.
    """
    xp = namespace(x)
    usable = (x > 0) & xp.isfinite(x)
    exponent = xp.floor(xp.log2(xp.where(usable, x, xp.ones_like(x))))
    return detach(xp.pow(xp.full_like(exponent, 2.0), exponent))


def median(values: Array) -> Array:
    """The median of all entries, as a zero-dimensional array."""
    xp = namespace(values)
    flat = xp.sort(xp.reshape(values, (-1,)))
    n = flat.shape[0]
    return (flat[(n - 1) // 2] + flat[n // 2]) / 2


def flatten_event(x: Array, event_ndim: int, trailing: int = 0) -> Array:
    """Join the event axes (before ``trailing`` further axes) into one of size d; scalars: d = 1."""
    stop = x.ndim - trailing
    start = stop - event_ndim
    d = math.prod(x.shape[start:stop])
    return namespace(x).reshape(x, (*x.shape[:start], d, *x.shape[stop:]))


def moved_axis(x: Array, source: int, target: int) -> Array:
    """The array with one axis at another place; torch.func.vmap knows no ``moveaxis``."""
    order = [axis for axis in range(x.ndim) if axis != source % x.ndim]
    order.insert(target % x.ndim, source % x.ndim)
    return namespace(x).permute_dims(x, tuple(order))


# Taking input.

_DOUBLE = np.dtype(np.float64)
_LARGEST = sys.float_info.max
#: Numbers of a block that are summed in half the time by a loop that starts more slowly.
_MANY = 10_000


def _float_dtype(xp: Namespace, arrays: list[Array]) -> Any:
    floating = [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating")]
    if not floating:
        return xp.asarray(0.5).dtype
    dtype = xp.result_type(*floating) if len(floating) > 1 else floating[0]
    # What follows an array has its dtype, and compiled code knows the machine's order of bytes.
    foreign = isinstance(dtype, np.dtype) and not dtype.isnative
    return dtype.newbyteorder("=") if foreign else dtype


def _reject_unusable(name: str, value: Array) -> None:
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(
            f"{name} is a masked array, whose mask would be ignored; "
            "pass value.filled(numpy.nan) and Samples(..., nan_policy='omit')"
        )
    xp = namespace(value)
    try:
        real = xp.isdtype(value.dtype, ("bool", "integral", "real floating"))
    except TypeError:  # dtypes outside the standard: text, dates, records, bfloat16 of NumPy
        real = False
    if not real:
        hint = "; pass value.astype(numpy.float32)" if "float" in str(value.dtype) else ""
        raise ParameterError(f"{name} must hold real numbers, got dtype {value.dtype}{hint}")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype.itemsize > 8:
        raise ParameterError(
            f"{name} has dtype {value.dtype}, but kuq computes in 64 bits at most; "
            "pass value.astype(numpy.float64)"
        )


def adopt(**values: Any) -> tuple[dict[str, Array], Any]:
    """Bring named values to one library, float dtype and device.

    Python numbers and lists follow the arrays, and inside a trace of JAX, where NumPy arrays are
    constants, those follow; integers become the default float; half precision is computed in
    float32. Returns the arrays by name and the dtype for results.
    """
    usual = _common_dtype(values)
    if usual is not None:
        return values, usual
    taken = {name: _take(name, value) for name, value in values.items()}
    for name, value in taken.items():
        if not _is_list(values[name]) and follows(value, taken.values()):
            _reject_unusable(name, value)
            taken[name] = to_jax(value)
    # Lists became NumPy arrays; only arrays that the user made decide library and dtype.
    made = [v for name, v in taken.items() if is_array(v) and not _is_list(values[name])]
    arrays = made or [v for v in taken.values() if is_array(v)]
    for name, value in taken.items():
        if array_api_compat.is_array_api_obj(value):
            _reject_unusable(name, value)
    if not arrays:
        arrays = [np.asarray(0.0)]
    try:
        xp = namespace(*arrays)
    except TypeError:
        kinds = {n: type(v).__module__.split(".")[0] for n, v in taken.items()}
        raise ParameterError(
            f"all arrays must come from one library, got {kinds}; convert them to one"
        ) from None
    dtype = _float_dtype(xp, arrays)
    low = "16" in str(dtype)
    work = xp.float32 if low else dtype
    out: dict[str, Array] = {}
    reference = arrays[0]
    devices = {str(a.device) for a in arrays if is_torch(a)}
    if len(devices) > 1:
        raise ParameterError(f"all arrays must be on one device, got {sorted(devices)}")
    for name, value in taken.items():
        if is_torch(value):
            out[name] = value.to(dtype=work, device=reference.device)
        elif is_torch(reference):
            out[name] = xp.asarray(value, dtype=work, device=reference.device)
        else:
            out[name] = xp.asarray(value, dtype=work)
    return out, dtype


def _common_dtype(values: dict[str, Any]) -> Any:
    """The dtype of arrays that can stay as they are, which is the usual case; else None."""
    first, *others = values.values()
    kind = type(first)
    if kind is np.ndarray:
        if first.dtype != np.float64:
            return None
    elif (
        _LIBRARIES.get(kind) != "torch"
        or not first.dtype.is_floating_point
        or first.dtype.itemsize < 4
    ):
        return None
    for other in others:
        if type(other) is not kind or other.dtype != first.dtype:
            return None
        if kind is not np.ndarray and other.device != first.device:
            return None
    return _DOUBLE if kind is np.ndarray else first.dtype


def to_jax(array: np.ndarray) -> Array:
    """A NumPy array in JAX, in 32 bits where that has no more."""
    return sys.modules["jax"].numpy.asarray(array)


def follows(array: Array, others: Iterable[Any]) -> bool:
    """Whether an array is of NumPy and stands beside arrays of JAX, in the middle of a trace."""
    if "jax" not in sys.modules or not isinstance(array, np.ndarray):
        return False
    return any(is_jax(other) for other in others) and _jax_is_tracing()


def adopted(value: Any, like: Array, name: str = "value") -> Array:
    """One value in the library, dtype and device of an array."""
    return adopt(**{name: value, "the prediction": like})[0][name]


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or of a nested list."""
    return tuple(value.shape) if is_array(value) else tuple(np.shape(value))


def _is_list(value: Any) -> bool:
    """Whether a value holds plain numbers, which follow the arrays beside them."""
    return not is_array(value) and not (isinstance(value, (list, tuple)) and is_array(value[0]))


def _take(name: str, value: Any) -> Any:
    """An array as it is, a Python number, or a NumPy array of what a list holds."""
    if is_array(value):
        return value
    number = float(value) if isinstance(value, bool | np.bool_) else as_real_number(value)
    if number is not None:
        if math.isinf(number) and isinstance(value, int):
            raise ParameterError(f"{name} must fit into a float, got {shown(value)}")
        return number
    if isinstance(value, (list, tuple)) and value and all(is_array(v) for v in value):
        return namespace(*value).stack(list(value))
    return _as_numpy(name, value)


def _as_numpy(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"{name} is not a regular array of numbers: {error}") from None
    if array.dtype == object and all(type(entry) in (int, float) for entry in array.flat):
        try:  # integers beyond 64 bits
            return array.astype(np.float64)
        except OverflowError:
            largest = max((entry for entry in array.flat if type(entry) is int), key=abs)
            raise ParameterError(f"{name} must fit into floats, got {shown(largest)}") from None
    if array.dtype == object:
        raise ParameterError(
            f"{name} must be an array, a number or a list of numbers, got {type(value).__name__}"
        )
    return array


def require(condition: Array, name: str, expected: str, values: Array, remedy: str = "") -> None:
    """Raise ParameterError with the first offending value unless the condition holds everywhere."""
    if not validating() or _is_unknown(condition):
        return
    if bool(condition.all()):
        return
    xp = namespace(condition)
    bad = ~condition
    position = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))
    shown = xp.reshape(xp.broadcast_to(detach(values), bad.shape), (-1,))[position]
    where = tuple(int(i) for i in np.unravel_index(position, bad.shape)) if bad.ndim else ""
    at = f" at index {where}" if where else ""
    hint = f"; {remedy}" if remedy else ""
    raise ParameterError(f"{name} must be {expected}, got {float(shown):g}{at}{hint}")


def _lie_between(array: Array, low: float, high: float) -> bool:
    """Whether compiled code sees at once that all numbers of a tensor lie between bounds.

    What torch does around a reduction takes longer than that of small tensors. The checks follow
    where the answer is no, and where compiled code cannot look.
    """
    if isinstance(array, np.ndarray) or not is_in_memory(array) or not _compiled.looks():
        return False
    dtype, has_storage = array.dtype, sys.modules["torch"]._C._has_storage
    if not dtype.is_floating_point or dtype.itemsize < 4:
        return False
    # Sparse tensors have none, nor has what a transform of torch.func gave.
    if not has_storage(array) or not array.is_contiguous():
        return False
    address = array.data_ptr()  # zero where memory was given back
    look = _compiled.twin("_numba.bounds").all_between
    return address != 0 and bool(look(address, dtype.itemsize, array.numel(), low, high))


def require_not_negative(values: Array, name: str, remedy: str = "") -> None:
    """Raise ParameterError unless all values are ≥ 0, which the smallest one shows in one pass."""
    if validating() and 0 not in values.shape and not _lie_between(values, 0.0, math.inf):
        smallest = detach(values).min()
        if not _is_unknown(smallest) and not float(smallest) >= 0:  # NaN as well
            require(values >= 0, name, "≥ 0", values, remedy)


def require_scale(given: Array, scale: Array, of: str) -> None:
    """Raise ParameterError unless a scale, given and broadcast, is finite and not negative."""
    if not validating():
        return
    if not _lie_between(given, 0.0, _LARGEST):
        require_finite(scale=given)
        require_not_negative(scale, f"scale of {of}", "it is a standard deviation")


def all_finite(array: Array) -> bool:
    """Whether an array holds neither NaN nor infinity: a sum shows them in one quick pass."""
    if isinstance(array, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            if array.size > _MANY and array.flags.forc:  # without the care for rounding of ``sum``
                total = np.einsum("i->", array.ravel(order="K"))
            else:
                total = array.sum()
    elif _lie_between(array, -_LARGEST, _LARGEST):
        return True
    else:
        total = detach(array).sum()
    if math.isfinite(total):
        return True
    return bool(namespace(array).isfinite(array).all())  # the sum may have left the range


def require_finite(**arrays: Array) -> None:
    if not validating():
        return
    for name, array in arrays.items():
        if _lie_between(array, -_LARGEST, _LARGEST):
            continue
        if not isinstance(array, np.ndarray) and is_traced(array):
            if _is_unknown(array):
                continue
            array = np.asarray(array)  # values that are known, in the middle of a trace
        if not all_finite(array):
            require(
                namespace(array).isfinite(array),
                name,
                "finite",
                array,
                "remove or impute NaN and infinite entries",
            )


def broadcast(**arrays: Array) -> list[Array]:
    """Broadcast named arrays against each other, or say which shapes do not fit."""
    first, *others = arrays.values()
    for other in others:
        if other.shape != first.shape:
            break
    else:
        return [first, *others]
    xp = namespace(*arrays.values())
    try:
        shape = np.broadcast_shapes(*(tuple(a.shape) for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{n} {tuple(a.shape)}" for n, a in arrays.items())
        raise ShapeError(
            f"parameters must broadcast against each other, got {shapes}; reshape them or add axes"
        ) from None
    return [a if tuple(a.shape) == shape else xp.broadcast_to(a, shape) for a in arrays.values()]


def validating() -> bool:
    return bool(checks.state())


def axis_of_one(got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """The remedy, for a message, where outcomes have or lack a last axis of length one."""
    lead = ":" if min(len(got), len(expected)) == 1 else "..."
    if got == (*expected, 1):
        return f"; pass y[{lead}, 0]"
    return f"; pass y[{lead}, None]" if (*got, 1) == expected else ""
