"""Find the mutants of a module (see mutants.py)."""

from __future__ import annotations

import ast
from dataclasses import dataclass

SWAPS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
# functions whose arguments are not swapped: the order does not matter, or the other order fails at once
KNOWN_ORDER = {"max", "min", "maximum", "minimum", "isinstance", "getattr", "asarray", "zeros", "ones", "full", "cast"}
LOGGING = {"debug", "info", "warning", "error", "exception", "warn"}


@dataclass(frozen=True)
class Mutant:
    """A change of a module's source: the bytes from ``start`` to ``end`` are replaced with ``after``."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def changed_line(self, source: bytes) -> str:
        """Return the changed line, the key of a mutant in EQUIVALENT, which does not depend on line numbers."""
        if self.after == "pass":
            return f"pass  # {self.before}"
        return self.applied(source).decode().splitlines()[self.line - 1].strip()


class Finder(ast.NodeVisitor):
    """A visitor that collects all mutants of a module.

    Args:
        path: Path of the module.
        source: Source of the module.

    Attributes:
        mutants: The mutants.
    """

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source, self.mutants = path, source, list[Mutant]()
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.visit(ast.parse(source))

    def replace(self, node: ast.expr | ast.stmt, after: str) -> None:
        """Add a mutant in which ``after`` replaces ``node``."""
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = " ".join(self.source[start:end].decode().split())
        self.mutants.append(Mutant(self.path, node.lineno, start, end, before, after))

    def swap(self, node: ast.expr, field: str, value: object) -> None:
        """Add a mutant in which a field of ``node`` has another value."""
        changed = type(node)(**{**dict(ast.iter_fields(node)), field: value})
        self.replace(node, f"({ast.unparse(changed)})")

    def negate(self, test: ast.expr) -> None:
        """Add a mutant with a negated condition, unless :meth:`swap` or :meth:`visit_UnaryOp` gives the same mutant."""
        ordered = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        if ordered or not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
            self.replace(test, f"(not ({ast.unparse(test)}))")

    def generic_visit(self, node: ast.AST) -> None:
        """Visit the children of a node, except annotations and decorators."""
        skipped = {"annotation", "returns", "decorator_list"}
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a function, except ``__repr__``."""
        if node.name != "__repr__":
            self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Visit default values, except those of timeouts."""
        positional = [*node.posonlyargs, *node.args]
        named = [*zip(positional[::-1], node.defaults[::-1]), *zip(node.kwonlyargs, node.kw_defaults)]  # noqa: B905
        for argument, default in named:
            if default is not None and "timeout" not in argument.arg:
                self.visit(default)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Replace comparison operators."""
        for i, op in enumerate(node.ops):
            if type(op) in SWAPS:
                self.swap(node, "ops", [*node.ops[:i], SWAPS[type(op)](), *node.ops[i + 1 :]])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace binary operators, except those of strings."""
        text = any(
            isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", 0), str)
            for side in (node.left, node.right)
        )
        if type(node.op) in SWAPS and not text:
            self.swap(node, "op", SWAPS[type(node.op)]())
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap ``and`` and ``or``."""
        self.swap(node, "op", SWAPS[type(node.op)]())
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Remove ``not`` or a minus."""
        self.replace(node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Invert truth values, and increase and decrease numbers by 1."""
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self.replace(node, repr(node.value + 1))
            self.replace(node, repr(node.value - 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip f-strings, because the syntax tree lacks the positions of their parts before Python 3.12."""

    def visit_If(self, node: ast.If) -> None:
        """Negate the condition of ``if``, except ``if TYPE_CHECKING``."""
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negate the condition of a conditional expression."""
        self.negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Negate the conditions of a comprehension."""
        for test in node.ifs:
            self.negate(test)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Swap the first two arguments of a call. Skip logging."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in LOGGING:
            return
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if len(node.args) > 1 and called not in KNOWN_ORDER and not isinstance(node.args[0], ast.Starred):
            first, second, *rest = node.args
            if not isinstance(second, ast.Starred):
                self.swap(node, "args", [second, first, *rest])
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Visit keyword arguments, except timeouts and ``strict`` of ``zip``, which only detects programming errors."""
        if node.arg is None or ("timeout" not in node.arg and node.arg != "strict"):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Remove a ``raise`` statement, and do not change its message."""
        self.replace(node, "pass")

    def visit(self, node: ast.AST) -> None:
        """Visit a node, and remove statements that have an effect other than the assignment of a name."""
        called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom)
        stored = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
        if called or stored or isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Delete):
            logs = called and getattr(getattr(node.value, "func", None), "attr", "") in LOGGING  # type: ignore[attr-defined]
            if not logs:
                self.replace(node, "pass")  # type: ignore[arg-type]
        super().visit(node)
