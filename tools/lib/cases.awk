# cases.awk: the case IDs that a text names, one a line: RED-26, lists RED-26, 27 and 30, ranges RED-26..30,
# RED-26 .. RED-30 or RED-26 to 30, where those inside have the word "between" after them: they need not exist.
# A bare number continues a list only where it has as many digits as the ID before it and nothing but more of
# the list, punctuation or the end follows: "RED-26, 16 ranks" names one case.
{
    rest = $0
    while (match(rest, /[A-Z][A-Z]+-[0-9][0-9]+/)) {
        before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : " "
        id = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (before ~ /[A-Za-z0-9_-]/ || rest ~ /^[A-Za-z_-]/) continue
        dash = index(id, "-")
        name(substr(id, 1, dash - 1), substr(id, dash + 1))
    }
}

function name(area, number,   last, digits) {
    digits = length(number)
    for (;;) {
        last = number
        if (match(rest, "^( ?\\.\\. ?| to )(" area "-)?[0-9]+")) {
            last = substr(rest, RSTART, RLENGTH)
            sub(/.*[^0-9]/, "", last)
            rest = substr(rest, RSTART + RLENGTH)
        }
        for (i = number + 0; i <= last + 0; i++)
            printf "%s-%0*d%s\n", area, digits, i, i == number + 0 || i == last + 0 ? "" : " between"
        if (!match(rest, /^(,| and|, and)[ \t]+[0-9]+/)) return
        number = substr(rest, RSTART, RLENGTH)
        sub(/.*[ \t]/, "", number)
        if (length(number) != digits || substr(rest, RLENGTH + 1) !~ /^([ \t]*$|[,;:.)]| and | to | \.\.)/) return
        rest = substr(rest, RLENGTH + 1)
    }
}
