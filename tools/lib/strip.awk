# strip.awk: C source as FILE:LINE:CODE with comments and the contents of literals left out, so that
# rules about code do not trip over prose. Knows no line that continues inside a literal.
FNR == 1 { in_comment = 0 }
{
    rest = $0
    code = ""
    while (rest != "") {
        if (in_comment) {
            end = index(rest, "*/")
            if (!end) break
            rest = substr(rest, end + 2)
            in_comment = 0
        } else if (match(rest, /\/\*|\/\/|"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/)) {
            found = substr(rest, RSTART, RLENGTH)
            code = code substr(rest, 1, RSTART - 1)
            rest = substr(rest, RSTART + RLENGTH)
            if (found == "/*") in_comment = 1
            else if (found == "//") break
            else if (code ~ /^[ \t]*#[ \t]*include[ \t]*$/) code = code found
            else code = code substr(found, 1, 1) substr(found, 1, 1)
        } else {
            code = code rest
            break
        }
    }
    print FILENAME ":" FNR ":" code
}
