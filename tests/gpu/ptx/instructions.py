"""
instructions.py: one PTX instruction into one C statement. RULES pairs the full name of an instruction,
a regular expression, with the function that writes it; a name that no rule matches is an error, so that
nothing is translated by chance. The helpers that start with ptx_ are in ptx.h.
"""
import re
import struct

from reader import Unknown, split_operands

C_TYPES = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
           "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
           "b8": "uint8_t", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t",
           "f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t",
           "f16x2": "uint32_t", "bf16x2": "uint32_t"}
UNSIGNED = {"s8": "u8", "s16": "u16", "s32": "u32", "s64": "u64"}
INT = "[us](?:16|32|64)"
BITS = "b(?:16|32|64)"
FLOAT = "f(?:32|64)"


def bits_of(kind):
    return 32 if kind.endswith("x2") else int(kind.lstrip("bfus"))


def member(kind):
    """Which member of a register's union has this type."""
    return kind[0] if kind in ("f32", "f64") or kind[0] == "s" else "u"


SPECIAL = {}
for number, name in enumerate(["tid", "ctaid", "ntid", "nctaid"]):
    for axis, letter in enumerate("xyz"):
        SPECIAL[f"%{name}.{letter}"] = f"at[{3 * number + axis}]"
SPECIAL["%laneid"] = "ptx_lane(at)"


class Writer:
    """Writes one function; knows its registers, parameters and variables in shared memory."""

    def __init__(self, function, shared, functions, accesses):
        self.function = function
        self.accesses = accesses  # of the module: the names of the instructions that reach memory
        self.instruction = ""
        self.registers = {}
        self.parameters = {p.name: i for i, p in enumerate(function.parameters)}
        self.shared = shared
        self.local = set()
        self.functions = functions
        self.call_parameters = {}
        self.targets = {}
        self.place = 0

    def name(self, register):
        return register.replace("%", "v_").replace("$", "_")

    def register_bits(self, register):
        if register not in self.registers:
            raise Unknown(f"register {register}")
        return self.registers[register]

    def number(self, text, kind):
        """A literal as a C constant of this type."""
        if match := re.fullmatch(r"0[fF]([0-9A-Fa-f]{8})|0[dD]([0-9A-Fa-f]{16})", text):
            digits = match[1] or match[2]
            if kind not in ("f32", "f64"):
                return f"(({C_TYPES[kind]})0x{digits}u{'ll' if match[2] else ''})"
            value = struct.unpack(">f" if match[1] else ">d", bytes.fromhex(digits))[0]
            if value != value or value in (float("inf"), float("-inf")):
                return f"ptx_f{4 * len(digits)}(0x{digits}u{'ll' if match[2] else ''})"
            return value.hex() + ("f" if kind == "f32" else "")
        if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)U?", text) and kind not in ("f32", "f64"):
            value = int(text.rstrip("U"), 0) & ((1 << bits_of(kind)) - 1)
            return f"(({C_TYPES[kind]}){value}u{'ll' if bits_of(kind) == 64 else ''})"
        raise Unknown(f"number {text} as {kind}")

    def value(self, operand, kind):
        """An operand that is read, as a C expression of this type."""
        if operand in SPECIAL:
            return f"(({C_TYPES[kind]}){SPECIAL[operand]})"
        if kind == "pred":
            return "!" + self.value(operand[1:], kind) if operand[0] == "!" else self.name(operand)
        if operand in self.shared:
            return f"(({C_TYPES[kind]}){self.shared_address(operand)})"
        if operand in self.local:
            return f"(({C_TYPES[kind]})(uintptr_t)local_{operand})"
        if operand in self.parameters and kind in ("u64", "b64"):
            return f"((uint64_t)(uintptr_t)argument[{self.parameters[operand]}])"
        if operand[0] != "%":
            return self.number(operand, kind)
        expression = f"{self.name(operand)}.{member(kind)}"
        if self.register_bits(operand) > bits_of(kind):
            return f"(({C_TYPES[kind]}){expression})"
        return expression

    def shared_address(self, name):
        variable = self.shared[name]
        return "ptx_dynamic_shared()" if variable.dynamic else f"ptx_shared(&shared_{name.replace('$', '_')})"

    def put(self, operand, kind, expression):
        """Assign to a register; one that is wider than the type is extended as the type says."""
        if operand == "_":
            return f"(void)({expression});"
        if kind == "pred":
            return f"{self.name(operand)} = {expression};"
        part = member(kind)
        if self.register_bits(operand) > bits_of(kind) and part == "f":
            raise Unknown(f"{operand} is wider than {kind}")
        return f"{self.name(operand)}.{part} = ({C_TYPES[kind]})({expression});"

    def address(self, operand):
        """Of [base+offset]: base and offset."""
        match = re.fullmatch(r"\[([^\]+]+?)(?:\+(-?\d+))?\]", operand)
        if not match:
            raise Unknown(f"address {operand}")
        return match[1], int(match[2] or 0)

    def pointer(self, operand, space, size):
        """A C pointer to memory that PTX addresses."""
        base, offset = self.address(operand)
        if space == "local":
            return f"(void *)(uintptr_t)({self.value(base, 'u64')} + {offset & 0xffffffffffffffff}ull)"
        self.accesses.append(self.instruction)
        number = len(self.accesses) - 1
        if space == "shared":
            address = self.value(base, "u32")
            return f"ptx_shared_at({address} + {offset & 0xffffffff}u, {size}, {number})"
        address = f"{self.value(base, 'u64')} + {offset & 0xffffffffffffffff}ull"
        return f"ptx_{space or 'generic'}_at({address}, {size}, {number})"

    def place_argument(self):
        """Tells calls of one function apart, in messages and where threads must meet at one place."""
        self.place += 1
        return f"\"{self.function.name}\", {self.place}"


def braced(operand):
    return split_operands(operand[1:-1]) if operand[0] == "{" else [operand]


# Rules: f(writer, match, operands) gives a C statement.

def move(w, m, o):
    kind = m[1]
    if o[1][0] == "{":
        half = "b16" if kind == "b32" else "b32"
        low, high = (w.value(x, half) for x in braced(o[1]))
        return w.put(o[0], kind, f"ptx_pack_{kind}({low}, {high})")
    if o[0][0] == "{":
        low, high = braced(o[0])
        half = "b16" if kind == "b32" else "b32"
        shift = bits_of(half)
        return (w.put(low, half, w.value(o[1], kind)) + " " +
                w.put(high, half, f"{w.value(o[1], kind)} >> {shift}"))
    return w.put(o[0], kind, w.value(o[1], kind))


def address_conversion(w, m, o):
    if m[1] == "shared":
        return w.put(o[0], "u64", f"ptx_generic_of_shared({w.value(o[1], 'u64')})")
    if m[1] == "to.shared":
        return w.put(o[0], "u64", f"ptx_shared_of_generic({w.value(o[1], 'u64')})")
    return w.put(o[0], "u64", w.value(o[1], "u64"))


def load_parameter(w, m, o):
    kind, (base, offset) = m[2], w.address(o[1])
    registers = braced(o[0])
    if base in w.call_parameters:
        return w.put(o[0], kind, f"call_{base}.{member(kind)}")
    if base in w.parameters and not w.function.kernel:
        return w.put(o[0], kind, f"argument_{w.parameters[base]}.{member(kind)}")
    start = f"(const char *)argument[{w.parameters[base]}]" if base in w.parameters else \
        f"(const char *)(uintptr_t){w.value(base, 'u64')}"
    text = f"const {C_TYPES[kind]} *from = (const {C_TYPES[kind]} *)({start} + {offset}); "
    return "{ " + text + " ".join(w.put(r, kind, f"from[{i}]") for i, r in enumerate(registers)) + " }"


def store_parameter(w, m, o):
    base, offset = w.address(o[0])
    if offset:
        raise Unknown(f"st.param {o[0]}")
    if base in w.call_parameters:
        return f"call_{base}.{member(m[1])} = {w.value(o[1], m[1])};"
    if w.function.result and base == w.function.result.name:
        return f"result.{member(m[1])} = {w.value(o[1], m[1])};"
    raise Unknown(f"st.param {o[0]}")


def load(w, m, o):
    space, count, kind = m["space"], int(m["count"] or 1), m["type"]
    size = bits_of(kind) // 8 * count
    text = f"const {C_TYPES[kind]} *from = {w.pointer(o[1], space, size)}; "
    return "{ " + text + " ".join(w.put(r, kind, f"from[{i}]") for i, r in enumerate(braced(o[0]))) + " }"


def store(w, m, o):
    space, count, kind = m["space"], int(m["count"] or 1), m["type"]
    size = bits_of(kind) // 8 * count
    text = f"{C_TYPES[kind]} *to = {w.pointer(o[0], space, size)}; "
    return "{ " + text + " ".join(f"to[{i}] = {w.value(r, kind)};" for i, r in enumerate(braced(o[1]))) + " }"


def arithmetic(w, m, o):
    """Integers wrap, so they are computed without sign."""
    sign = {"add": "+", "sub": "-", "mul": "*", "mul.lo": "*"}[m[1]]
    kind = UNSIGNED.get(m[2], m[2])
    return w.put(o[0], kind, f"{w.value(o[1], kind)} {sign} {w.value(o[2], kind)}")


def logic(w, m, o):
    sign = {"and": "&", "or": "|", "xor": "^"}[m[1]]
    return w.put(o[0], m[2], f"{w.value(o[1], m[2])} {sign} {w.value(o[2], m[2])}")


def invert(w, m, o):
    return w.put(o[0], m[1], ("!" if m[1] == "pred" else "~") + w.value(o[1], m[1]))


def negate(w, m, o):
    if m[1][0] == "f":
        return w.put(o[0], "b" + m[1][1:], f"{w.value(o[1], 'b' + m[1][1:])} ^ ptx_sign_{m[1]}")
    kind = UNSIGNED[m[1]]
    return w.put(o[0], kind, f"0 - {w.value(o[1], kind)}")


def absolute(w, m, o):
    if m[1][0] == "f":
        return w.put(o[0], "b" + m[1][1:], f"{w.value(o[1], 'b' + m[1][1:])} & ~ptx_sign_{m[1]}")
    return w.put(o[0], UNSIGNED[m[1]], f"ptx_abs_{m[1]}({w.value(o[1], m[1])})")


def copy_sign(w, m, o):
    kind = "b" + m[1][1:]
    sign, rest = w.value(o[1], kind), w.value(o[2], kind)
    return w.put(o[0], kind, f"({sign} & ptx_sign_{m[1]}) | ({rest} & ~ptx_sign_{m[1]})")


def shift(w, m, o):
    return w.put(o[0], m[2], f"ptx_{m[1]}_{m[2]}({w.value(o[1], m[2])}, {w.value(o[2], 'u32')})")


def multiply_add(w, m, o):
    kind = UNSIGNED.get(m[1], m[1])
    return w.put(o[0], kind, f"{w.value(o[1], kind)} * {w.value(o[2], kind)} + {w.value(o[3], kind)}")


def multiply_wide(w, m, o):
    wide = m[2][0] + str(2 * bits_of(m[2]))
    product = f"({C_TYPES[wide]}){w.value(o[1], m[2])} * ({C_TYPES[wide]}){w.value(o[2], m[2])}"
    if m[1] == "mad":
        kind = UNSIGNED.get(wide, wide)
        return w.put(o[0], kind, f"({C_TYPES[kind]})({product}) + {w.value(o[3], kind)}")
    return w.put(o[0], wide, product)


def multiply_high(w, m, o):
    product = f"ptx_mulhi_{m[2]}({w.value(o[1], m[2])}, {w.value(o[2], m[2])})"
    kind = UNSIGNED.get(m[2], m[2])
    if m[1] == "mad":
        return w.put(o[0], kind, f"({C_TYPES[kind]}){product} + {w.value(o[3], kind)}")
    return w.put(o[0], m[2], product)


def fused(w, m, o):
    function = {"rn": "fma", "rm": "ptx_fma_down", "rz": "ptx_fma_to_zero"}[m[1]]
    a, b, c = (w.value(x, m[2]) for x in o[1:])
    return w.put(o[0], m[2], f"{function}{'f' if m[2] == 'f32' else ''}({a}, {b}, {c})")


def add_to_zero(w, m, o):
    return w.put(o[0], "f32", f"ptx_fma_to_zerof({w.value(o[1], 'f32')}, 1, {w.value(o[2], 'f32')})")


def divide(w, m, o):
    return w.put(o[0], m[2], f"ptx_{m[1]}_{m[2]}({w.value(o[1], m[2])}, {w.value(o[2], m[2])})")


def float_divide(w, m, o):
    return w.put(o[0], m[1], f"{w.value(o[1], m[1])} / {w.value(o[2], m[1])}")


def call_one(function):
    """A function of one operand; {0} in its name is the type."""
    def rule(w, m, o):
        return w.put(o[0], m[1], f"{function.format(m[1])}({w.value(o[1], m[1])})")
    return rule


def minimum(w, m, o):
    return w.put(o[0], m[2], f"ptx_{m[1]}_{m[2]}({w.value(o[1], m[2])}, {w.value(o[2], m[2])})")


def compare(w, m, o):
    """The signs without u are false where an operand is NaN, those with u true."""
    how, join, kind = m[1], m[2], m[3]
    a, b = (w.value(x, kind) for x in o[1:3])
    signs = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
             "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
    opposite = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
    if how in signs:
        text = f"({a} {signs[how]} {b})"
    elif how == "ne":
        text = f"({a} < {b} || {a} > {b})" if kind[0] == "f" else f"({a} != {b})"
    elif how in opposite:
        text = f"!({a} {opposite[how]} {b})"
    else:
        text = {"equ": f"!({a} < {b} || {a} > {b})", "num": f"({a} == {a} && {b} == {b})",
                "nan": f"({a} != {a} || {b} != {b})"}[how]
    first, _, second = o[0].partition("|")
    other = f"!{text}"
    if join:
        sign = {"and": "&&", "or": "||", "xor": "!="}[join]
        text, other = (f"({x} {sign} {w.value(o[3], 'pred')})" for x in (text, other))
    statement = w.put(first, "pred", text)
    if second:
        statement = f"{{ const bool second = {other}; {statement} {w.put(second, 'pred', 'second')} }}"
    return statement


def select(w, m, o):
    return w.put(o[0], m[1], f"{w.value(o[3], 'pred')} ? {w.value(o[1], m[1])} : {w.value(o[2], m[1])}")


def convert_integer(w, m, o):
    return w.put(o[0], m[1], w.value(o[1], m[2]))


def convert_to_float(w, m, o):
    return w.put(o[0], m[1], f"({C_TYPES[m[1]]}){w.value(o[1], m[2])}")


def convert_to_integer(w, m, o):
    rounding = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[m[1]]
    return w.put(o[0], m[2], f"ptx_to_{m[2]}({rounding}({w.value(o[1], m[3])}))")


def round_to_whole(w, m, o):
    function = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[m[1]]
    return w.put(o[0], m[2], f"{function}{'f' if m[2] == 'f32' else ''}({w.value(o[1], m[2])})")


def convert_float(w, m, o):
    return w.put(o[0], m[1], w.value(o[1], m[2]))


def saturate(w, m, o):
    return w.put(o[0], "f32", f"ptx_saturate({w.value(o[1], 'f32')})")


def narrow(w, m, o):
    return w.put(o[0], m[1], f"ptx_{m[1]}_of_f32({w.value(o[1], 'f32')})")


def narrow_two(w, m, o):
    high, low = (f"ptx_{m[1]}_of_f32({w.value(x, 'f32')})" for x in o[1:3])
    return w.put(o[0], "b32", f"ptx_pack_b32({low}, {high})")


def widen(w, m, o):
    return w.put(o[0], "f32", f"ptx_f32_of_{m[1]}({w.value(o[1], m[1])})")


def bit_field(w, m, o):
    kinds = {"bfe": [m[2], "u32", "u32"], "bfi": [m[2], m[2], "u32", "u32"]}[m[1]]
    operands = ", ".join(w.value(x, k) for x, k in zip(o[1:], kinds))
    return w.put(o[0], m[2], f"ptx_{m[1]}_{m[2]}({operands})")


def count_bits(w, m, o):
    return w.put(o[0], "u32", f"ptx_{m[1].replace('.', '_')}_{m[2]}({w.value(o[1], m[2])})")


def reverse_bits(w, m, o):
    return w.put(o[0], m[1], f"ptx_brev_{m[1]}({w.value(o[1], m[1])})")


def three_words(function):
    def rule(w, m, o):
        operands = ", ".join(w.value(x, "b32") for x in o[1:4])
        last = f", {o[4]}" if len(o) > 4 else ""
        return w.put(o[0], "b32", f"{function.format(*m.groups())}({operands}{last})")
    return rule


def barrier(w, m, o):
    if o != ["0"]:
        raise Unknown(f"barrier {o}")
    return f"ptx_barrier({w.place_argument()});"


def warp_barrier(w, m, o):
    return f"ptx_sync_warp({w.value(o[0], 'u32')}, {w.place_argument()});"


def shuffle(w, m, o):
    how = {"idx": 0, "bfly": 1, "down": 2, "up": 3}[m[1]]
    register, _, valid = o[0].partition("|")
    operands = ", ".join(w.value(x, "b32") for x in (o[4], o[1], o[2], o[3]))
    where = "&" + w.name(valid) if valid else "NULL"
    return w.put(register, "b32", f"ptx_shuffle({how}, {operands}, {where}, {w.place_argument()})")


def ballot(w, m, o):
    return w.put(o[0], "b32", f"ptx_ballot({w.value(o[2], 'u32')}, {w.value(o[1], 'pred')}, {w.place_argument()})")


def atomic(w, m, o):
    kind = UNSIGNED.get(m[4], m[4])
    result, address, value = o if m[1] == "atom" else ["_"] + o
    pointer = w.pointer(address, m[2], bits_of(kind) // 8)
    return w.put(result, kind, f"ptx_atomic_{m[3]}_{kind}({pointer}, {w.value(value, kind)})")


def matrix_product(w, m, o):
    d, a, b, c = (braced(x) for x in o)
    sums = ", ".join(w.value(x, "f32") for x in c)
    first, second = (", ".join(w.value(x, "b32") for x in y) for y in (a, b))
    gives = " ".join(w.put(x, "f32", f"d[{i}]") for i, x in enumerate(d))
    return (f"{{ float d[4] = {{{sums}}}; const uint32_t a[4] = {{{first}}}, b[2] = {{{second}}}; "
            f"ptx_mma_{m[1]}(d, a, b, {w.place_argument()}); {gives} }}")


def matrix_load(w, m, o):
    gives = " ".join(w.put(x, "b32", f"r[{i}]") for i, x in enumerate(braced(o[0])))
    pointer = w.pointer(o[1], "shared", 16)
    return f"{{ uint32_t r[4]; ptx_ldmatrix(r, {pointer}, {int(bool(m[1]))}, {w.place_argument()}); {gives} }}"


def copy_async(w, m, o):
    if o[2] != "16":
        raise Unknown(f"cp.async of {o[2]} bytes")
    return f"ptx_copy_async({w.pointer(o[0], 'shared', 16)}, {w.pointer(o[1], 'global', 16)});"


def call(w, m, o):
    """call.uni (result), function, (parameters);"""
    result, name, parameters = o if len(o) == 3 else [None] + o
    if name not in w.functions:
        raise Unknown(f"call of {name}")
    arguments = ", ".join(f"call_{x}" for x in split_operands(parameters[1:-1]))
    text = f"function_{name}({arguments});"
    return f"call_{result[1:-1]} = {text}" if result else text


def plain(text):
    return lambda w, m, o: text


def jump(w, m, o):
    return f"goto {o[0].replace('$', '_')};"


def jump_table(w, m, o):
    cases = " ".join(f"case {i}: goto {label.replace('$', '_')};" for i, label in enumerate(w.targets[o[1]]))
    return f"switch ({w.value(o[0], 'u32')}) {{ {cases} default: ptx_trap(); }}"


CACHE = r"(?:\.(?:nc|ca|cg|cs|cv|lu|wb|wt))?"
VECTOR = r"(?:\.v(?P<count>[248]))?"
ACCESS = r"(?P<type>[busf](?:8|16|32|64))"
ROUND_INT = "(rni|rzi|rmi|rpi)"
RULES = [(re.compile(pattern), rule) for pattern, rule in [
    (rf"mov\.({INT}|{BITS}|{FLOAT}|pred)", move),
    (r"cvta\.(to\.global|to\.shared|shared|global)\.u64", address_conversion),
    (r"ld\.param(?:\.v([24]))?\.([busf](?:8|16|32|64))", load_parameter),
    (r"st\.param\.([busf](?:8|16|32|64))", store_parameter),
    (rf"ld(?:\.(?P<space>global|shared|local))?{CACHE}{VECTOR}\.{ACCESS}", load),
    (rf"st(?:\.(?P<space>global|shared|local))?{CACHE}{VECTOR}\.{ACCESS}", store),
    (rf"(add|sub|mul\.lo)\.({INT})", arithmetic),
    (rf"(add|sub|mul)(?:\.rn)?\.({FLOAT})", arithmetic),
    (r"add\.rz\.f32", add_to_zero),
    (rf"(and|or|xor)\.({BITS}|pred)", logic),
    (rf"not\.({BITS}|pred)", invert),
    (rf"neg\.(s16|s32|s64|{FLOAT})", negate),
    (rf"abs\.(s16|s32|s64|{FLOAT})", absolute),
    (rf"copysign\.({FLOAT})", copy_sign),
    (rf"(shl|shr)\.({BITS}|{INT})", shift),
    (rf"mad\.lo\.({INT})", multiply_add),
    (r"(mul|mad)\.wide\.([us](?:16|32))", multiply_wide),
    (rf"(mul|mad)\.hi\.({INT})", multiply_high),
    (rf"fma\.(rn|rm|rz)\.({FLOAT})", fused),
    (rf"(div|rem)\.({INT})", divide),
    (rf"div\.(?:rn|full|approx)(?:\.ftz)?\.({FLOAT})", float_divide),
    (rf"sqrt\.rn\.({FLOAT})", call_one("ptx_sqrt_{0}")),
    (rf"rcp\.rn\.({FLOAT})", call_one("1 / ")),
    (r"rcp\.approx\.(f32)", call_one("1 / ")),
    (r"rcp\.approx\.ftz\.(f32)", call_one("ptx_rcp_ftz")),
    (r"rcp\.approx\.ftz\.(f64)", call_one("ptx_rcp_approx_f64")),
    (r"rsqrt\.approx\.ftz\.(f64)", call_one("ptx_rsqrt_approx_f64")),
    (r"rsqrt\.approx(?:\.ftz)?\.(f32)", call_one("1 / ptx_sqrt_f32")),
    (r"ex2\.approx\.(f32)", call_one("exp2f")),
    (r"ex2\.approx\.ftz\.(f32)", call_one("ptx_ex2_ftz")),
    (r"lg2\.approx\.(f32)", call_one("log2f")),
    (r"lg2\.approx\.ftz\.(f32)", call_one("ptx_lg2_ftz")),
    (r"tanh\.approx\.(f32)", call_one("tanhf")),
    (rf"(min|max)\.({INT}|{FLOAT})", minimum),
    (rf"setp\.(eq|neu?|lt|le|gt|ge|lo|ls|hi|hs|equ|ltu|leu|gtu|geu|num|nan)(?:\.(and|or|xor))?"
     rf"\.({INT}|{BITS}|{FLOAT})", compare),
    (rf"selp\.({INT}|{BITS}|{FLOAT})", select),
    (r"cvt\.([us](?:8|16|32|64))\.([us](?:8|16|32|64))", convert_integer),
    (rf"cvt\.rn\.({FLOAT})\.([us](?:8|16|32|64))", convert_to_float),
    (rf"cvt\.{ROUND_INT}\.([us](?:32|64))\.({FLOAT})", convert_to_integer),
    (rf"cvt\.{ROUND_INT}\.(f32|f64)\.\2", round_to_whole),
    (r"cvt\.rn\.(f32)\.(f64)", convert_float),
    (r"cvt\.(f64)\.(f32)", convert_float),
    (r"cvt\.sat\.f32\.f32", saturate),
    (r"cvt\.rn\.(bf16|f16)\.f32", narrow),
    (r"cvt\.rn\.(bf16|f16)x2\.f32", narrow_two),
    (r"cvt\.f32\.(bf16|f16)", widen),
    (r"(bfe)\.([us](?:32|64))", bit_field),
    (r"(bfi)\.(b32|b64)", bit_field),
    (r"(popc|clz|bfind|bfind\.shiftamt)\.([bu](?:32|64))", count_bits),
    (r"brev\.(b32|b64)", reverse_bits),
    (r"prmt\.b32", three_words("ptx_prmt")),
    (r"lop3\.b32", three_words("ptx_lop3")),
    (r"shf\.(l|r)\.(wrap|clamp)\.b32", three_words("ptx_shf_{0}_{1}")),
    (r"bar\.sync|barrier\.sync", barrier),
    (r"bar\.warp\.sync", warp_barrier),
    (r"shfl\.sync\.(idx|bfly|down|up)\.b32", shuffle),
    (r"vote\.sync\.ballot\.b32", ballot),
    (r"(atom|red)\.(?:relaxed\.gpu\.)?(global|shared)\.(add)\.([us]32|u64)", atomic),
    (r"(atom|red)\.(?:relaxed\.gpu\.)?(global|shared)\.(max)\.(u32)", atomic),
    (r"membar\.(?:gl|sys)|fence\.(?:acq_rel|sc)\.(?:gpu|sys)", plain("ptx_fence();")),
    (r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(bf16|f16)\.\1\.f32", matrix_product),
    (r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared\.b16", matrix_load),
    (r"cp\.async\.cg\.shared\.global", copy_async),
    (r"cp\.async\.commit_group", plain("ptx_copy_commit();")),
    (r"cp\.async\.wait_group", lambda w, m, o: f"ptx_copy_wait({o[0]});"),
    (r"call(?:\.uni)?", call),
    (r"bra(?:\.uni)?", jump),
    (r"brx\.idx(?:\.uni)?", jump_table),
    (r"ret|exit", lambda w, m, o: "return result;" if w.function.result else "return;"),
    (r"trap", plain("ptx_trap();")),
]]
found = {}


def translate(writer, name, operands):
    """The C statement of an instruction, its predicate aside."""
    if name not in found:
        for pattern, rule in RULES:
            if match := pattern.fullmatch(name):
                found[name] = (rule, match)
                break
        else:
            raise Unknown(f"instruction {name} {', '.join(operands)}")
    rule, match = found[name]
    writer.instruction = name
    return rule(writer, match, operands)


# Operations on floats that an instruction does for each thread; a matrix product is counted where it is computed (ptx.h).
FLOPS = [(re.compile(pattern), count) for pattern, count in [
    (r"fma\..*", 2),
    (r"(add|sub|mul|div|min|max)\.(?:.*\.)?f(16|32|64)", 1),
    (r"(sqrt|rcp|rsqrt|ex2|lg2)\..*", 1)]]


def flops(name):
    return next((count for pattern, count in FLOPS if pattern.fullmatch(name)), 0)
