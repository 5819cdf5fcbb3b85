# progress.sh: what a long command is doing. Source it; it defines functions only.
# shellcheck shell=bash

PROGRESS_EVERY=20 # seconds between lines where there is no terminal

# show_progress LOG DESCRIBE: copy standard input to LOG. `DESCRIBE LINE` sets `progress` to a short text, or leaves it
# alone when the line says nothing new. On a terminal that text is one line that moves; elsewhere a line now and then.
show_progress() {
    local log=$1 describe=$2 line shown='' last=$SECONDS progress='' terminal=false columns
    if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then terminal=true; fi
    read -r _ columns < <(stty size 2> /dev/null < /dev/tty) || columns=80
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line" >&3
        "$describe" "$line"
        if [ "$progress" = "$shown" ]; then continue; fi
        if $terminal; then
            printf '\r\033[K%s' "${progress:0:columns-1}"
        elif [ $((SECONDS - last)) -ge "$PROGRESS_EVERY" ]; then
            printf '%s\n' "$progress"
            last=$SECONDS
        else
            continue
        fi
        shown=$progress
    done 3> "$log"
    if $terminal; then printf '\r\033[K'; fi
}

# time_left DONE TOTAL SECONDS: "1:05 left", as the seconds so far suggest.
time_left() {
    local left=$(($3 * ($2 - $1) / ($1 > 0 ? $1 : 1)))
    printf '%d:%02d left' $((left / 60)) $((left % 60))
}
