# comments.awk: the comments of C files (/* */ and //) and of scripts (lines of #), one line each, so that words
# in code and in literals are not taken for prose. Knows no line that continues inside a literal.
FNR == 1 {
    in_comment = 0
    is_c = FILENAME ~ /\.(c|h|def|cu)$/
}
!is_c && /^[ \t]*#/ { print }
is_c {
    rest = $0
    while (rest != "") {
        if (in_comment) {
            end = index(rest, "*/")
            print end ? substr(rest, 1, end - 1) : rest
            if (!end) break
            rest = substr(rest, end + 2)
            in_comment = 0
        } else if (match(rest, /\/\*|\/\/|"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/)) {
            found = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (found == "/*") in_comment = 1
            else if (found == "//") { print rest; break }
        } else break
    }
}
