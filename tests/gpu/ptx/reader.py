"""reader.py: PTX text, as nvcc prints it, into kernels and functions with their statements."""
import re


class Unknown(Exception):
    """Something that this translator has no rule for."""


class Parameter:
    def __init__(self, text):
        # .param .u64 .ptr .align 1 name | .param .align 8 .b8 name[192] | .param .b32 name
        match = re.fullmatch(
            r"\.param( \.align (?P<align>\d+))? \.(?P<type>[a-z]\d+)( \.ptr( \.\w+)?( \.align \d+)?)? "
            r"(?P<name>[\w$]+)(\[(?P<count>\d+)\])?", text)
        if not match:
            raise Unknown(f"parameter {text}")
        self.name = match["name"]
        self.type = match["type"]
        self.bytes = int(match["type"][1:]) // 8 * int(match["count"] or 1)


class Variable:
    """A variable in shared memory."""

    def __init__(self, text):
        match = re.fullmatch(r"(?P<extern>\.extern )?\.shared( \.align (?P<align>\d+))? \.(?P<type>[a-z]\d+) "
                             r"(?P<name>[\w$]+)(?P<dims>(\[\d*\])*)", text)
        if not match:
            raise Unknown(f"variable {text}")
        self.name = match["name"]
        self.align = int(match["align"] or 1)
        self.bytes = int(match["type"][1:]) // 8
        self.dynamic = bool(match["extern"])
        for dim in re.findall(r"\[(\d+)\]", match["dims"]):
            self.bytes *= int(dim)
        if self.align > 16:
            raise Unknown(f"shared memory aligned to {self.align}")


class Function:
    def __init__(self, name, kernel, parameters, result, body, most_threads):
        self.name = name
        self.kernel = kernel
        self.parameters = parameters
        self.result = result
        self.body = body
        self.most_threads = most_threads


def split_operands(text):
    """At commas outside of brackets."""
    operands, depth, current = [], 0, ""
    for char in text:
        depth += char in "[{("
        depth -= char in "]})"
        if char == "," and depth == 0:
            operands.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip():
        operands.append(current.strip())
    return operands


def statements(body):
    """The statements of a function: '{', '}', 'NAME:' and instructions and declarations without ';'."""
    position = 0
    while True:
        match = re.compile(r"\s*(?:([{}])|([\w$]+):(?!:)|([^;{}]*(?:\{[^}]*\}[^;{}]*)*);)").match(body, position)
        if not match:
            if body[position:].strip():
                raise Unknown(f"text {body[position:].strip()[:60]!r}")
            return
        position = match.end()
        brace, label, statement = match.groups()
        if brace:
            yield brace
        elif label:
            yield label + ":"
        elif statement.strip():
            yield " ".join(statement.split())


def closing_brace(text, start):
    """Where the block that opens at start ends."""
    depth = 0
    for position in range(start, len(text)):
        depth += text[position] == "{"
        depth -= text[position] == "}"
        if depth == 0:
            return position
    raise Unknown("a block without an end")


def read(text):
    """The functions and the shared variables of a module."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    functions, variables = [], []
    head = re.compile(r"\s*(?:\.(?:version|target|address_size) [^\n]*|(?P<variable>(?:\.extern )?\.shared [^;]*);|"
                      r"(?:\.visible |\.weak )?\.(?P<kind>entry|func)\s*(?:\((?P<result>[^)]*)\)\s*)?"
                      r"(?P<name>[\w$]+)\s*\((?P<parameters>[^)]*)\)(?P<about>[^{;]*))")
    position = 0
    while text[position:].strip():
        match = head.match(text, position)
        if not match:
            raise Unknown(f"at the top of a module: {text[position:].strip()[:80]!r}")
        position = match.end()
        if match["variable"]:
            variables.append(Variable(match["variable"]))
        if not match["kind"]:
            continue
        if text[position] == ";":  # declared, and defined further on
            position += 1
            continue
        end = closing_brace(text, position)
        parameters = [Parameter(" ".join(p.split())) for p in split_operands(match["parameters"])]
        result = Parameter(" ".join(match["result"].split())) if match["result"] else None
        limit = re.search(r"\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?", match["about"])
        most = 1
        for number in limit.groups() if limit else []:
            most *= int(number or 1)
        functions.append(Function(match["name"], match["kind"] == "entry", parameters, result,
                                  text[position + 1:end], most if limit else 0))
        position = end + 1
    return functions, variables
