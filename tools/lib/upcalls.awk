# upcalls.awk: functions that a header of one folder of src/ declares and a file of another defines,
# although the first may not use the second (CMakeLists.txt, weft_layer). Reads CMakeLists.txt, then
# the output of strip.awk; src/base/upcalls.h is where such declarations belong.
FILENAME ~ /CMakeLists\.txt$/ {
    if (/^weft_layer\(/) reading = 1
    if (!reading) next
    text = text " " $0
    if (!/\)$/) next
    gsub(/[()]/, " ", text)
    n = split(text, words, " ")
    for (i = 3; i <= n; i++) {
        if (words[i] ~ /^[A-Z]/) used = words[i] == "USES"
        else if (used) uses[words[2], words[i]] = 1
    }
    text = ""
    reading = used = 0
    next
}
{
    split($0, parts, ":")
    path = parts[1]
    line = $0
    sub(/^[^:]*:[0-9]*:/, "", line)
    if (path != last) name = ""
    last = path
    if (path !~ /^src\/[a-z_]+\// || path == "src/base/upcalls.h") next
    if (path ~ /\/(cuda|nccl)\//) next # another shared object, with definitions of its own
    split(path, folders, "/")
    if (line ~ /^[A-Za-z]/) {
        name = ""
        if (line !~ /^(static|typedef|struct [a-z_]+ \{|enum|extern)/ && match(line, /[A-Za-z0-9_]+\(/))
            name = substr(line, RSTART, RLENGTH - 1)
    }
    if (name !~ /^wf_/) next
    if (path ~ /\.h$/ && line ~ /;$/) declared[name] = declared[name] " " path
    if (path ~ /\.c$/ && line ~ /(^|[) ])\{/) defined[name] = folders[2]
    if (line ~ /[;{}]/) name = ""
}
END {
    for (name in defined) {
        n = split(declared[name], paths, " ")
        for (i = 1; i <= n; i++) {
            split(paths[i], folders, "/")
            if (folders[2] != defined[name] && !((folders[2], defined[name]) in uses))
                print paths[i] ": " name " is defined in src/" defined[name]
        }
    }
}
