"""Finds small mutations of C sources through libclang, draws some of them, and writes the sources with all of
the drawn ones compiled in, each chosen at run time by its number (tools/mutate says what for).

Positions come from the syntax tree; the texts that are put in are made of the file's own characters, so a
mutation inside an argument of a macro is one too. Left alone are headers, constant expressions, and calls
that give memory back (what they leak is the sanitizers' to find).
"""
import ctypes
import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

try:
    from clang import cindex
except ImportError:  # Debian's python3-clang, under another Python
    sys.path.append("/usr/lib/python3/dist-packages")
    from clang import cindex

Kind = cindex.CursorKind
KINDS = ("comparison", "constant", "condition", "call", "swap")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LEAKS_ONLY = re.compile(r"^(\(void\))?\s*(\w*free\w*|\w*(release|close|destroy)\w*|WF_LOG|WF_ASSERT|assert|fclose)\s*\(")
MACRO = re.compile(r"[A-Z][A-Z0-9_]*\(")
CONSTANT = (Kind.CASE_STMT, Kind.ENUM_CONSTANT_DECL, Kind.CXX_UNARY_EXPR, Kind.STATIC_ASSERT)

PRELUDE = """#ifndef WF_MUTANT_H
#define WF_MUTANT_H
extern int wf_mutant_now;
extern unsigned char *wf_mutant_seen;
static inline _Bool wf_mutant(int i)
{
    if (wf_mutant_seen) wf_mutant_seen[i] = 1;
    return wf_mutant_now == i;
}
#define WF_FUNCTION(i) do { if (wf_mutant_seen) wf_mutant_seen[i] = 1; } while (0)
#endif
"""

# The mutant is named by WF_MUTANT; what is reached is marked in the file WF_MUTANTS_REACHED, which ranks,
# processes that fork and processes that are killed share.
DEFINITIONS = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int wf_mutant_now = -1;
unsigned char *wf_mutant_seen;
__attribute__((constructor(101))) static void wf_mutant_begin(void)
{
    const char *now = getenv("WF_MUTANT"), *file = getenv("WF_MUTANTS_REACHED");
    int fd = file ? open(file, O_RDWR) : -1;
    void *map = fd >= 0 ? mmap(0, WF_MUTANT_MARKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (now) wf_mutant_now = atoi(now);
    if (map != MAP_FAILED) wf_mutant_seen = map;
    if (fd >= 0) close(fd);
}
"""


@dataclass
class Mutation:
    """One change of a file: the characters from start to end become text, where {i} is its number."""

    path: str
    kind: str
    start: int
    end: int
    text: str
    line: int
    function: str
    before: str
    after: str
    number: int = -1
    order: str = ""

    def key(self):
        """What names it in tools/mutants_equivalent, whatever line it moves to."""
        return f"{self.path}:{self.function}: {self.before} -> {self.after}"


def one_line(text):
    return " ".join(text.split())


class Source:
    """A file, its syntax tree, and the mutations that it could have."""

    def __init__(self, path, name, flags):
        self.path, self.name = path, name
        self.bytes = Path(path).read_bytes()
        self.text = self.bytes.decode("latin-1")  # a character per byte, as libclang counts
        self.unit = cindex.Index.create().parse(path, args=flags)
        handle = cindex.File.from_name(self.unit, path)
        self.own = ctypes.cast(handle.obj, ctypes.c_void_p).value
        errors = [d for d in self.unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise SystemExit(f"{name}: {errors[0].spelling}")
        self.found = []
        self.functions = []  # name, line, offset behind the opening brace
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == Kind.FUNCTION_DECL and cursor.is_definition() and self.offset(cursor.location)[1]:
                self.function = cursor.spelling
                body = list(cursor.get_children())[-1]
                at = self.extent(body)
                if at and self.text[at[0]] == "{":
                    self.functions.append((cursor.spelling, cursor.location.line, at[0] + 1))
                    self.walk(body, [cursor])

    def offset(self, location):
        """The place in a file that these characters come from, and whether that is this file."""
        file, line, column, offset = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        get = cindex.conf.lib.clang_getFileLocation
        get.argtypes = [cindex.SourceLocation] + [ctypes.c_void_p] * 4
        get(location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column), ctypes.byref(offset))
        return offset.value, bool(file.value) and file.value == self.own

    def extent(self, cursor):
        """Where the characters of a cursor stand in this file; None if not in one piece of it."""
        start, here = self.offset(cursor.extent.start)
        end, too = self.offset(cursor.extent.end)
        if not here or not too or start >= end:
            return None
        if not re.search(r"[\w)\]}\"']$|\+\+$|--$", self.text[start:end]):  # before a macro that ends it
            macro = re.compile(r"\w+(?!\w|\()").match(self.text, end)
            if not macro:
                return None
            end = macro.end()
        text = self.text[start:end]
        for pair in ("()", "[]", "{}"):
            if text.count(pair[0]) != text.count(pair[1]):
                return None
        return start, end

    def add(self, kind, at, text, before=None, after=None):
        old = self.text[at[0]:at[1]]
        if "#" in old or "WF_MUTANT" in old:
            return
        line = self.text.count("\n", 0, at[0]) + 1
        self.found.append(Mutation(self.name, kind, at[0], at[1], text, line, self.function,
                                   one_line(before or old), one_line(after)))

    def walk(self, cursor, above):
        if cursor.kind in CONSTANT:
            return
        if cursor.kind == Kind.VAR_DECL and cursor.storage_class == cindex.StorageClass.STATIC:
            return
        children = list(cursor.get_children())
        if cursor.kind == Kind.BINARY_OPERATOR and len(children) == 2:
            self.comparison(cursor, children)
        elif cursor.kind == Kind.INTEGER_LITERAL:
            self.constant(cursor, above)
        elif cursor.kind in (Kind.IF_STMT, Kind.CONDITIONAL_OPERATOR) and children:
            self.condition(children[0])
        elif cursor.kind == Kind.CALL_EXPR:
            self.swap(cursor)
        elif cursor.kind == Kind.COMPOUND_STMT:
            for child in children:
                self.call(child)
        for child in children:
            if cursor.kind == Kind.VAR_DECL and child.kind not in (Kind.INIT_LIST_EXPR,) and \
                    cursor.type.kind == cindex.TypeKind.CONSTANTARRAY:
                continue  # the size of an array
            self.walk(child, above + [cursor])

    def comparison(self, cursor, children):
        whole, left, right = self.extent(cursor), self.extent(children[0]), self.extent(children[1])
        if not whole or not left or not right or left[1] > right[0]:
            return
        operator = self.text[left[1]:right[0]].strip()
        if operator not in OTHER or whole[0] != left[0] or whole[1] != right[1]:
            return
        a, b = self.text[left[0]:left[1]], self.text[right[0]:right[1]]
        new = OTHER[operator]
        self.add("comparison", whole, f"(wf_mutant({{i}}) ? ({a}) {new} ({b}) : ({a}) {operator} ({b}))",
                 after=f"{a} {new} {b}")

    def constant(self, cursor, above):
        at = self.extent(cursor)
        if not at or not re.fullmatch(r"\d+[uUlL]*", self.text[at[0]:at[1]]):
            return
        if self.text[at[0] - 1] + self.text[at[1]] == "{}":
            return  # what begins as zeros
        if any(c.type.kind == cindex.TypeKind.POINTER for c in above[-1:] if c.kind == Kind.UNEXPOSED_EXPR):
            return  # a null pointer
        old = self.text[at[0]:at[1]]
        new = re.sub(r"\d+", lambda m: str(int(m[0]) + 1), old)
        line = self.text[self.text.rfind("\n", 0, at[0]) + 1:self.text.find("\n", at[1])]
        self.add("constant", at, f"(wf_mutant({{i}}) ? {new} : {old})", before=f"{old} in {line}", after=new)

    def condition(self, cursor):
        at = self.extent(cursor)
        while at and MACRO.match(self.text, at[0]) and cursor.kind in (Kind.UNARY_OPERATOR, Kind.PAREN_EXPR):
            cursor = next(cursor.get_children())  # what the macro was given
            at = self.extent(cursor)
        if at and not MACRO.match(self.text, at[0]):
            old = self.text[at[0]:at[1]]
            self.add("condition", at, f"(wf_mutant({{i}}) != !!({old}))", after=f"!({old})")

    def call(self, child):
        start, here = self.offset(child.extent.start)
        if not here:
            return
        if child.kind in (Kind.DO_STMT, Kind.IF_STMT):  # a statement that is a macro
            start = child.extent.start.offset
        match = re.compile(r"(\(void\)\s*)?[A-Za-z_]\w*\(").match(self.text, start)
        if not match or re.match(r"(if|for|while|switch|return|do)\b", match[0]) or \
                LEAKS_ONLY.match(self.text[start:start + 80]):
            return
        depth, end = 0, match.end() - 1
        while end < len(self.text):
            depth += {"(": 1, ")": -1}.get(self.text[end], 0)
            end += 1
            if depth == 0:
                break
        if self.text[end:end + 1] != ";":
            return
        old = self.text[start:end + 1]
        self.add("call", (start, end + 1), f"if (!wf_mutant({{i}})) {old}", after="nothing")

    def swap(self, cursor):
        arguments = list(cursor.get_arguments())
        if "calloc" in cursor.spelling:
            return  # a product
        for a, b in zip(arguments, arguments[1:]):
            one, two = self.extent(a), self.extent(b)
            if not one or not two or one[1] > two[0] or self.text[one[1]:two[0]].strip() != ",":
                continue
            if a.type.get_canonical().spelling != b.type.get_canonical().spelling:
                continue
            x, y = self.text[one[0]:one[1]], self.text[two[0]:two[1]]
            if x == y or '"' in x + y or "{" in x + y:
                continue
            self.add("swap", (one[0], two[1]), f"wf_mutant({{i}}) ? {y} : {x}, wf_mutant({{i}}) ? {x} : {y}",
                     after=f"{y}, {x}")


def flags_of(command):
    """The compiler's options that decide what a file means, of a line of compile_commands.json."""
    words, flags = command.split(), []
    for i, word in enumerate(words):
        if word.startswith(("-I", "-D", "-std")):
            flags.append(word.replace('\\"', '"'))
        elif word in ("-isystem", "-include"):
            flags += [word, words[i + 1]]
    resources = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True).stdout.strip()
    return flags + ["-resource-dir", resources]


def draw(sources, count, seed):
    """So many mutations that do not overlap: every layer has its share, every kind within a layer the same.

    Each has a place in the order that depends on the seed and on itself alone, so that a change of one file
    does not draw all anew.
    """
    layers, same = {}, {}
    for source in sources:
        parts = Path(source.name).parts
        layer = layers.setdefault(parts[1] if len(parts) > 2 else "src", {kind: [] for kind in KINDS})
        for mutation in source.found:
            times = same[mutation.key()] = same.get(mutation.key(), 0) + 1
            mutation.order = hashlib.sha256(f"{seed} {mutation.key()} {times}".encode()).hexdigest()
            layer[mutation.kind].append(mutation)
    size = {name: sum(map(len, kinds.values())) for name, kinds in layers.items()}
    drawn, taken = [], {}
    for name, kinds in sorted(layers.items()):
        share = max(6, round(count * size[name] / sum(size.values())))
        queues = [sorted(kinds[kind], key=lambda m: m.order, reverse=True) for kind in KINDS]
        while share > 0 and any(queues):
            for queue in queues:
                while queue and share > 0:
                    mutation = queue.pop()
                    spans = taken.setdefault(mutation.path, [])
                    if any(mutation.start < end and start < mutation.end for start, end in spans):
                        continue
                    spans.append((mutation.start, mutation.end))
                    drawn.append(mutation)
                    share -= 1
                    break
    drawn.sort(key=lambda m: (m.path, m.start))
    for number, mutation in enumerate(drawn):
        mutation.number = number
    return drawn


def write(sources, drawn, folder):
    """The sources with the drawn mutations in them; gives the functions in the order of their marks."""
    functions = []
    for source in sources:
        edits = [(m.start, m.end, m.text.replace("{i}", str(m.number))) for m in drawn if m.path == source.name]
        for name, line, at in source.functions:
            edits.append((at, at, f" WF_FUNCTION({len(drawn) + len(functions)});"))
            functions.append((source.name, line, name))
        text = source.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        if source.name == "src/weft.c":
            text += DEFINITIONS
        out = Path(folder, source.name)
        out.parent.mkdir(parents=True, exist_ok=True)
        text = f'{PRELUDE}#line 1 "{source.path}"\n' + text
        if source.name == "src/weft.c":
            weft_c = out, text
            continue
        put(out, text)
    put(weft_c[0], f"#define WF_MUTANT_MARKS {len(drawn) + len(functions)}\n" + weft_c[1])
    return functions


def put(path, text):
    """Written only when it changes, so that a second run builds what is new."""
    data = text.encode("latin-1")
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)
