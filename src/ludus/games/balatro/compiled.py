"""`kernel` and `entry`: how a rule is compiled, and the one trap of the compiler's cache.

numba keeps compiled code on disk and looks at the file of a function alone to see whether it is current; a rule
changed in one file would go on living inside the callers in the others. So whenever a file of this folder with
rules or their tables changes, all compiled code of the folder is thrown away.
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
    """A rule that only compiled code calls. It is compiled into its callers and has no life of its own."""
    options: dict[str, Any] = {
        "_nrt": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "pipeline_class": _KernelCompiler,
    }
    dispatcher: Any = njit(error_model="numpy", **options)(function)
    dispatcher.add_overload = partial(_add_without_machine_code, dispatcher)
    _for_one_kind_of_integer(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def entry(function: F) -> F:
    """A rule that Python calls too, from several threads at once if need be (each with games of its own).

    Compiled at its first call, and loaded from disk by later processes. A rule that both Python and other rules call
    is best a kernel, with `for_python(rule)` beside it: what calls an entry has it compiled twice.

    Give it integers, not bools: to find that a bool will do costs numba a hundred microseconds at every call. It
    cannot make arrays: for that, numba would count who holds one, at every call of every rule that is given one.
    """
    compiler: Any = njit  # whose types do not know of `_nrt`
    dispatcher = compiler(
        error_model="numpy", cache=True, nogil=True, pipeline_class=_EntryCompiler, _nrt=False
    )(function)
    _for_one_kind_of_integer(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def for_python(rule: Any) -> Any:
    """An entry that does what a kernel does."""
    return entry(rule.py_func)


# numba would optimise every rule, and all that it calls, and make machine code of it, again for every rule that calls
# it and for every constant, bool and width of integer that it is called with: minutes for a game of 280 rules. What
# follows keeps that to the entries, and to one kind of integer.


class _Ingredient(JITCodeLibrary):
    """The code of a kernel, kept as it is: the entry that it ends up in is optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _Dish(JITCodeLibrary):
    """The code of an entry. What it is made of is private to it, so that arguments nobody reads fall away.

    An array is passed as seven words, of which a rule reads one or two: that would cost more than most rules do.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()  # type: ignore[no-untyped-call]


class _EntryCompiler(Compiler):
    """Makes a dish of a function."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, *rest: Any) -> None:
        library = _Dish(targetctx.codegen(), "entry")  # type: ignore[no-untyped-call]
        library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, *rest)  # type: ignore[no-untyped-call]


class _KernelCompiler(Compiler):
    """Makes an ingredient of a function."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, *rest: Any) -> None:
        library = _Ingredient(targetctx.codegen(), "kernel")  # type: ignore[no-untyped-call]
        super().__init__(typingctx, targetctx, library, args, *rest)  # type: ignore[no-untyped-call]
        self.state.flags.no_compile = True


def _for_one_kind_of_integer(dispatcher: Any) -> None:
    compile_for = dispatcher.compile

    def compile_widened(signature: Any) -> Any:
        kinds = sigutils.normalize_signature(signature)[0]  # type: ignore[no-untyped-call]
        with _no_index_from_the_end():
            return compile_for(tuple(_widened(kind) for kind in kinds))

    dispatcher.compile = compile_widened


@contextmanager
def _no_index_from_the_end() -> Iterator[None]:
    """Compile without the question, at every index, whether it is negative: no rule counts from the end of an array.

    A step takes 7 % less for it. numba has no option for that; nothing else is compiled meanwhile.
    """
    with global_compiler_lock:
        usual = arrayobj.fix_integer_index
        arrayobj.fix_integer_index = _index_as_it_is
        try:
            yield
        finally:
            arrayobj.fix_integer_index = usual


def _index_as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


def _widened(kind: Any) -> Any:
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    if isinstance(kind, types.Integer | types.Boolean):
        return types.int64
    return types.float64 if isinstance(kind, types.Float) else kind


def _add_without_machine_code(dispatcher: Any, made: Any) -> None:
    """What numba does with a compiled function, but for making it callable from Python."""
    key = _NotForPython(dispatcher.py_func.__name__)
    dispatcher.targetctx.insert_user_function(key, made.fndesc, [made.library])
    dispatcher.overloads[tuple(made.signature.args)] = made._replace(entry_point=key)


class _NotForPython:
    """Stands for a kernel in numba's books."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: Any) -> Any:
        raise TypeError(
            f"{self._name} is a kernel: only compiled code can call it; an entry can be called from here"
        )


def _files_of_rules() -> list[Path]:
    """The files with compiled rules, and those of the folder that they take names from."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in _FOLDER.glob("*.py")}
    found = [name for name, source in sources.items() if "@kernel" in source or "@entry" in source]
    for name in found:  # which grows on the way
        imported = set(re.findall(r"\w+", " ".join(_IMPORTED.findall(sources[name])))) & set(sources)
        found += sorted(imported - set(found))
    return [_FOLDER / f"{name}.py" for name in found]


def _source_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted([*_files_of_rules(), _FOLDER / "facts.json"]):
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
        return  # an installation that cannot be written to holds no compiled code either


_drop_stale_code()
