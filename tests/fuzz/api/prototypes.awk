# prototypes.awk: the public headers as C code that calls every function of theirs once, each argument from
# api_pointer, api_integer, api_real or api_value (api.h). Arguments of a type that has no such form end it.
function trim(text) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

# The name of a parameter, or "" with the type alone.
function name_of(parameter) {
    if (match(parameter, /\(\*[a-z_0-9]+\)/)) return substr(parameter, RSTART + 2, RLENGTH - 3)
    sub(/\[.*/, "", parameter)
    sub(/.*[ *]/, "", parameter)
    return parameter
}

# The type without const, stars and name: "weft_tensor".
function core_of(parameter) {
    sub(/\[.*/, "", parameter)
    gsub(/const /, "", parameter)
    sub(/[ *].*/, "", parameter)
    return parameter
}

# The C expression for parameter number i; its kind is left in `kind`.
function argument(parameter, i, core, stars) {
    core = core_of(parameter)
    stars = gsub(/\*/, "*", parameter) + gsub(/\[/, "[", parameter)
    if (parameter ~ /\(\*/ || core in is_function) {
        kind = "f"
        if (!(core in is_function)) core = name_of(parameter)
        return "api_absent(call, " i ") ? NULL : api_function_" core
    }
    if (stars) {
        kind = "p"
        return "api_pointer(call, " i ", \"" core (stars > 1 ? " *" : "") "\")"
    }
    if (core ~ /^(double|float)$/) {
        kind = "d"
        return "api_real(call, " i ")"
    }
    if (core in is_struct) {
        kind = "s"
        return "*(" core " *)api_value(call, " i ", \"" core "\", sizeof(" core "))"
    }
    kind = "i"
    return "(" core ")api_integer(call, " i ", \"" name_of(parameter) "\")"
}

function emit(line, name, result, list, n, parts, i, code, kinds, keep) {
    sub(/\) WEFT_PRINTF\(.*/, ")", line)
    sub(/^WEFT_API /, "", line)
    sub(/;.*/, "", line)
    match(line, /weft_[a-z_0-9]+\(/)
    result = trim(substr(line, 1, RSTART - 1))
    name = substr(line, RSTART, RLENGTH - 1)
    list = substr(line, RSTART + RLENGTH)
    sub(/\)[^)]*$/, "", list)
    n = split(list, parts, ",")
    code = ""
    kinds = ""
    if (trim(list) == "void") n = 0
    for (i = 1; i <= n; i++) {
        if (trim(parts[i]) == "...") continue
        code = code (i > 1 ? ",\n        " : "") argument(trim(parts[i]), i - 1)
        kinds = kinds kind
    }
    print "static void call_" name "(struct api_call *call)\n{\n    (void)call;"
    if (result == "weft_status")
        print "    api_returned(call, " name "(" code "));\n}\n"
    else
        print "    (void)" name "(" code ");\n}\n"
    names[++count] = name
    rows[count] = "    {\"" name "\", call_" name ", \"" kinds "\"," (result == "weft_status") "},"
}

BEGIN {
    print "/* Generated from the public headers. */\n#include <weft/weft.h>\n\n#include \"fuzz/api/api.h\"\n"
    # A text without conversions stands where a function takes a format.
    print "#pragma GCC diagnostic ignored \"-Wformat-security\"\n"
}
{
    sub(/^[^:]*:[0-9]*:/, "")
    if (/^typedef .*[ *]weft_[a-z_]+\(/) {
        match($0, /weft_[a-z_]+\(/)
        is_function[substr($0, RSTART, RLENGTH - 1)] = 1
    }
    if (/^typedef struct weft_[a-z_0-9]+ {/) is_struct[$3] = 1
    if (/^typedef weft_[a-z_0-9]+ weft_[a-z_0-9]+;/) {
        sub(/;/, "")
        if ($2 in is_struct) is_struct[$3] = 1
    }
    if (/^WEFT_API /) prototype = ""
    if (/^WEFT_API / || open) {
        prototype = prototype " " $0
        open = !/;/
        if (!open) found[++n_found] = trim(prototype)
    }
}
END {
    for (f = 1; f <= n_found; f++) emit(found[f])
    print "const struct api_function api_functions[] = {"
    for (f = 1; f <= count; f++) print rows[f]
    print "};\n\nconst int api_count = " count ";"
}
