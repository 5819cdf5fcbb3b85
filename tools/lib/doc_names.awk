# doc_names.awk: what documents name in backticks and the tree does not have, as FILE:LINE: NAME.
#
# Input: "path PATH" and "name IDENTIFIER" lines of what there is, on standard input, then documents.
# Checked are functions and types (weft_*, wf_*) and paths of files; a name with a capital placeholder
# (config_NAME.c), a star or an ellipsis stands for several.
FILENAME == "-" {
    if ($1 == "name") {
        names[$2] = 1
        next
    }
    path = $2
    while (1) {
        there[path] = 1
        rest = path
        while (match(rest, "/")) {
            rest = substr(rest, RSTART + 1)
            there[rest] = 1
        }
        if (!match(path, "/[^/]*$")) break
        path = substr(path, 1, RSTART - 1)
    }
    next
}
{
    n = split($0, pieces, "`")
    for (i = 2; i < n; i += 2) {
        code = pieces[i]
        while (match(code, /[A-Za-z0-9_.\/*-]+/)) {
            word = substr(code, RSTART, RLENGTH)
            code = substr(code, RSTART + RLENGTH)
            sub(/[.\/]+$/, "", word)
            if (word ~ /^(weft|wf)_[a-z0-9_]*[a-z0-9]$/) {
                if (!(word in names)) print FILENAME ":" FNR ": " word
            } else if (word ~ /^(src|tests|tools|docs|include|examples|bench|scripts|cmake)\/|^[A-Za-z0-9_\/-]+\.(c|h|def|inc|cu|awk)$/) {
                if (word ~ /[*]|\.\.|^-|NAME|KIND|SUBJECT/ || word in there) continue
                print FILENAME ":" FNR ": " word
            }
        }
    }
}
