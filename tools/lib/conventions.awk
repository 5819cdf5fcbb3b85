# conventions.awk: the headers without comments (strip.awk: "FILE:LINE:CODE") on standard input; prints what
# breaks a rule of docs/concepts/conventions.md.
function broken(rule) { print place ": " name ": " rule }

# Whole models and optimizers are called by what they are.
function is_proper_name(name) { return name ~ /^weft_(mlp|gpt|llama|bert)$/ }

# What is asked of a tensor has PyTorch's name; "tensor_" stands where that would be the name of a type, or
# says of which object.
function may_say_tensor(rest) { return ("weft_" rest) in is_type || rest ~ /^(print|format|version)$/ }

# A parameter that is several items: an array, or a pointer to what is no object of the library.
function is_list(parameter,    type) {
    type = parameter
    gsub(/^ |const /, "", type)
    sub(/ .*/, "", type)
    return parameter ~ /\*.*\*|\[/ || (parameter ~ /\*/ && !(type in is_object))
}

# A number of items that does not stand behind them, in a function that is given a list.
function has_count_apart(list,    parts, n, i, lists, apart) {
    n = split(substr(list, 2), parts, ",")
    for (i = 1; i <= n; i++) {
        if (is_list(parts[i])) lists++
        else if (parts[i] ~ /^ ?(int|int64_t|size_t) (n|n_[a-z]+|ndim|count)\)?$/ && (i == 1 || !is_list(parts[i - 1]))) apart++
    }
    return lists && apart
}

function check(prototype,    result, list) {
    if (!match(prototype, /weft_[a-z0-9_]+ ?\(/)) return
    result = substr(prototype, 1, RSTART - 1)
    name = substr(prototype, RSTART, RLENGTH - 1)
    sub(/ $/, "", name)
    list = substr(prototype, RSTART + RLENGTH - 1)
    seen[name] = place
    result_of[name] = result
    list_of[name] = list

    if (list ~ /FILE \*/ && name !~ /(_print|^weft_print_[a-z_]+)$/) broken("what writes to a FILE ends in _print")
    if (name ~ /_print$/ && list !~ /FILE \*/) broken("_print writes to a FILE; into a buffer is _format")
    if (list ~ /char \*text, size_t bytes\)/ && name !~ /_format$/) broken("what writes into a buffer ends in _format")
    if (name ~ /_format$/ && list !~ /char \*text, size_t bytes\)/) broken("_format writes into (char *text, size_t bytes)")
    if (name ~ /_in_?place(_|$)/) broken("in place is a trailing underscore")
    if (name ~ /_(begin|end|push|pop|enter|leave|fork|join)$/) broken("a region is opened by _open and closed by _close")
    if (name ~ /_close$/ && result !~ /weft_status/) broken("_close gives a weft_status")
    if (name ~ /_(create|alloc|free|destroy)$/) broken("made by _new, given back by _release")
    if (result ~ /weft_module \*/ && list ~ /^\(weft_[a-z_]+_config / && name !~ /_new$/ && !is_proper_name(name))
        broken("a constructor ends in _new")
    if (name ~ /^weft_tensor_/ && prototype !~ /^static/) tensors[name] = place
}

{
    split($0, part, ":")
    code = substr($0, length(part[1]) + length(part[2]) + 3)
    if (code ~ /^[ \t]*#/) next
    if (code ~ /^(typedef|\})/ && match(code, /weft_[a-z0-9_]+/)) is_type[substr(code, RSTART, RLENGTH)] = 1
    if (code ~ /^typedef struct weft_[a-z_]+ weft_[a-z_]+;/) is_object[substr(code, RSTART, RLENGTH)] = 1
    if (code ~ /^\}/ && match(code, /weft_[a-z0-9_]+/)) is_type[substr(code, RSTART, RLENGTH)] = 1
    if (code ~ /^(WEFT_API|static inline) /) {
        place = part[1] ":" part[2]
        prototype = code
        open = 1
    } else if (open) {
        prototype = prototype " " code
    }
    if (open && code ~ /[;{]/) {
        gsub(/[ \t]+/, " ", prototype)
        sub(/[;{].*/, "", prototype)
        check(prototype)
        open = 0
    }
}

END {
    for (name in tensors) {
        place = tensors[name]
        if (!may_say_tensor(substr(name, 13))) broken("what is asked of a tensor has no tensor_ in its name")
    }
    for (name in seen) {
        place = seen[name]
        if (has_count_apart(list_of[name])) broken("a list is followed by its count")
        other = name
        if (sub(/_open$/, "_close", other) && !(other in seen) && result_of[name] !~ /weft_scope \*/)
            broken("what is opened has a _close, or is a weft_scope")
        other = name
        if (sub(/_close$/, "_open", other) && !(other in seen)) broken("what is closed has an _open")
    }
}
