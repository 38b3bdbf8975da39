"""Decorators `kernel` and `entry`, which compile a rule, and the invalidation of the compiler's cache.

numba caches compiled code on disk and checks only the file of a function to see whether the cache is current. Callers
in other files would keep the old code of a changed rule. So all compiled code of this folder is deleted whenever a file
with rules or their tables changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite.binding import Linkage  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arrayobj

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = Path(__file__).parent
_STAMP = _FOLDER / "__pycache__" / "kernels.stamp"
_IMPORTED = re.compile(rf"^from {re.escape(__name__.rpartition('.')[0])}[. ](.+)", re.MULTILINE)


def kernel(function: F) -> F:
    """Decorate a rule that only compiled code calls. It is compiled into its callers, not callable from Python."""
    options: dict[str, Any] = {
        "_nrt": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "pipeline_class": _KernelCompiler,
    }
    dispatcher: Any = njit(error_model="numpy", **options)(function)
    dispatcher.add_overload = partial(_add_without_machine_code, dispatcher)
    _compile_for_int64_only(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def entry(function: F) -> F:
    """Decorate a rule that Python calls too, also from several threads at once (each with its own games).

    It is compiled at its first call and loaded from disk by later processes. If both Python and other rules call a
    rule, make it a kernel and add `for_python(rule)`: a caller of an entry compiles it a second time.

    Pass integers, not bools: numba takes a hundred microseconds at every call to find that a bool fits. An entry cannot
    create arrays, because reference counting is off: it would cost time in every rule that receives an array.
    """
    compiler: Any = njit  # its type stubs do not have `_nrt`
    dispatcher = compiler(
        error_model="numpy", cache=True, nogil=True, pipeline_class=_EntryCompiler, _nrt=False
    )(function)
    _compile_for_int64_only(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def for_python(rule: Any) -> Any:
    """Return an entry that does the same as a kernel."""
    return entry(rule.py_func)


# By default numba optimises and generates machine code for every rule and its callees, again for every caller and for
# every constant, bool and integer width of the arguments: minutes for a game of 280 rules. The code below does this
# only for entries, and only for one integer type.


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel, not optimised: it is optimised as part of the entry that contains it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _EntryLibrary(JITCodeLibrary):
    """The code of an entry. Its kernels are private to it, so LLVM can remove unused arguments.

    An array is passed as seven words, of which a rule reads one or two. Passing all would cost more than most rules.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()  # type: ignore[no-untyped-call]


class _EntryCompiler(Compiler):
    """Compile a function into an `_EntryLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, *rest: Any) -> None:
        library = _EntryLibrary(targetctx.codegen(), "entry")  # type: ignore[no-untyped-call]
        library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, *rest)  # type: ignore[no-untyped-call]


class _KernelCompiler(Compiler):
    """Compile a function into a `_KernelLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, *rest: Any) -> None:
        library = _KernelLibrary(targetctx.codegen(), "kernel")  # type: ignore[no-untyped-call]
        super().__init__(typingctx, targetctx, library, args, *rest)  # type: ignore[no-untyped-call]
        self.state.flags.no_compile = True


def _compile_for_int64_only(dispatcher: Any) -> None:
    compile_for = dispatcher.compile

    def compile_widened(signature: Any) -> Any:
        kinds = sigutils.normalize_signature(signature)[0]  # type: ignore[no-untyped-call]
        with _without_negative_index_check():
            return compile_for(tuple(_widened(kind) for kind in kinds))

    dispatcher.compile = compile_widened


@contextmanager
def _without_negative_index_check() -> Iterator[None]:
    """Compile without the check whether an index is negative: no rule uses negative indices.

    This makes a step 7 % faster. numba has no option for it; the lock keeps other code from being compiled meanwhile.
    """
    with global_compiler_lock:
        usual = arrayobj.fix_integer_index
        arrayobj.fix_integer_index = _index_without_check
        try:
            yield
        finally:
            arrayobj.fix_integer_index = usual


def _index_without_check(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


def _widened(kind: Any) -> Any:
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    if isinstance(kind, types.Integer | types.Boolean):
        return types.int64
    return types.float64 if isinstance(kind, types.Float) else kind


def _add_without_machine_code(dispatcher: Any, made: Any) -> None:
    """Register a compiled function as numba does, but without making it callable from Python."""
    key = _NotForPython(dispatcher.py_func.__name__)
    dispatcher.targetctx.insert_user_function(key, made.fndesc, [made.library])
    dispatcher.overloads[tuple(made.signature.args)] = made._replace(entry_point=key)


class _NotForPython:
    """Placeholder for a kernel in numba's tables. Calling it raises TypeError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self._name} is a kernel, which only compiled code can call: call an entry instead")


def _rule_files() -> list[Path]:
    """Return the files with compiled rules, and the files of the folder that they import."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in _FOLDER.glob("*.py")}
    found = [name for name, source in sources.items() if "@kernel" in source or "@entry" in source]
    for name in found:  # the list grows during the loop
        imported = set(re.findall(r"\w+", " ".join(_IMPORTED.findall(sources[name])))) & set(sources)
        found += sorted(imported - set(found))
    return [_FOLDER / f"{name}.py" for name in found]


def _source_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted([*_rule_files(), _FOLDER / "facts.json"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _drop_stale_code() -> None:
    current = _source_hash()
    try:
        if _STAMP.exists() and _STAMP.read_text() == current:
            return
        for pattern in ("*.nbi", "*.nbc"):
            for path in _STAMP.parent.glob(pattern):
                path.unlink(missing_ok=True)
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(current)
    except OSError:
        return  # a read-only installation has no compiled code in this folder either


_drop_stale_code()
