# extract.awk: the programs that Markdown files show: each fenced block of C whose first line says on how many
# ranks it runs becomes a file "N.NUMBER.c" in `folder`, with #line directives that name its page.
/^```c$/ { first = 1; next }
/^```/ { if (program != "") close(program); program = ""; first = 0; next }
first {
    first = 0
    if ($0 !~ /^\/\* ranks: [0-9]+ \*\/$/) next
    program = folder "/" $3 "." ++number ".c"
    printf "#line %d \"%s\"\n", FNR, FILENAME > program
}
program != "" { print > program }
