# error_sites.awk FILE...: where a failure is recorded or the job ended, a line each:
#   file:function <tab> first words of the text <tab> macro
# The file is without src/. A text that is no literal stands as it is written.

function flush_file(    rest, at, macro, before, parts) {
    rest = whole
    at = 0
    while (match(rest, /WF_(FAIL|NEED|NEED_PTR|NEED_GIVEN|NEED_VOID|DIE|FAIL_LOCAL|NEED_LOCAL)\(/)) {
        macro = substr(rest, RSTART, RLENGTH - 1)
        before = at + RSTART
        rest = substr(rest, RSTART + RLENGTH)
        at = before + length(macro)
        print name ":" function_at(before) "\t" text_of(rest, macro) "\t" macro
    }
}

# The last function or macro that begins before a position.
function function_at(position,    i) {
    for (i = n_starts; i > 0 && start[i] > position; i--) ;
    return i ? starts[i] : "-"
}

# Which argument is the text: behind status, condition and status, or the pointer.
function text_of(rest, macro,    wanted, i, c, depth, in_string, argument, out) {
    wanted = macro == "WF_DIE" ? 0 : (macro ~ /NEED/ && macro != "WF_NEED_GIVEN") ? 2 : 1
    argument = depth = in_string = 0
    out = ""
    for (i = 1; i <= length(rest); i++) {
        c = substr(rest, i, 1)
        if (in_string && c == "\\") {
            if (argument == wanted) out = out substr(rest, i, 2)
            i++
            continue
        }
        if (c == "\"") {
            in_string = !in_string
            continue
        }
        if (!in_string) {
            if (c == "(" || c == "{" || c == "[") depth++
            if (c == ")" || c == "}" || c == "]") depth--
            if (depth < 0) break
            if (c == "," && depth == 0) {
                if (argument == wanted) break
                argument++
                continue
            }
            if (c == " " || c == "\n" || c == "\t") {
                continue
            }
        }
        if (argument == wanted) out = out c
    }
    out = substr(out, 1, 60)
    sub(/ +$/, "", out)
    return out
}

function take(line) {
    if (line ~ /^#define +[A-Za-z_]+\(/) {
        add(substr(line, 9))
    } else if (line ~ /^[A-Za-z_].*\(/ && line !~ /;[ ]*$/ && line !~ /^(typedef|struct [a-z_]+ \{)/) {
        add(line)
    }
    whole = whole line "\n"
}

# The word before the first parenthesis.
function add(line,    head) {
    head = substr(line, 1, index(line, "(") - 1)
    sub(/^.*[ *]/, "", head)
    if (head == "" || head ~ /^WF_/ && line !~ /^[A-Z_]+\(/ ) return
    starts[++n_starts] = head
    start[n_starts] = length(whole)
}

FNR == 1 {
    if (NR > 1) flush_file()
    whole = ""
    n_starts = 0
    name = FILENAME
    sub(/^.*src\//, "", name)
    in_comment = 0
}

{
    line = $0
    if (in_comment) {
        if (!match(line, /\*\//)) next
        line = substr(line, RSTART + 2)
        in_comment = 0
    }
    while (match(line, /\/\*/)) {
        head = substr(line, 1, RSTART - 1)
        rest_of = substr(line, RSTART + 2)
        if (match(rest_of, /\*\//)) {
            line = head " " substr(rest_of, RSTART + 2)
        } else {
            line = head
            in_comment = 1
        }
    }
    take(line)
}

END { flush_file() }
