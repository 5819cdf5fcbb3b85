/* stderr_text.c: file descriptor 2 turned to a temporary file and back. */
#include "support/stderr_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/mpi_check.h"

static FILE *text; /* NULL while nothing is kept */
static int kept;
static char written[4096];

static void redirect(void)
{
    text = tmpfile();
    fflush(stderr);
    kept = dup(STDERR_FILENO);
    dup2(fileno(text), STDERR_FILENO);
}

static void restore(void)
{
    size_t length;

    if (!text) return;
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(text);
    length = fread(written, 1, sizeof written - 1, text);
    written[length] = '\0';
    fclose(text);
    text = NULL;
}

const char *wt_stderr_of(void (*act)(void))
{
    redirect();
    act();
    restore();
    return written;
}

void wt_stderr_begin(void)
{
    WT_ALL(true); /* everybody's earlier lines are out */
    if (wt_rank() == 0) redirect();
    WT_ALL(true);
}

int wt_stderr_times(const char *part)
{
    int times = 0;

    WT_ALL(true);
    if (wt_rank() != 0) return -1;
    restore();
    for (const char *at = written; (at = strstr(at, part)); at++) times++;
    if (!times) wt_note("stderr: \"%.200s\"", written);
    return times;
}

bool wt_stderr_had(const char *part) { return wt_stderr_times(part) != 0; }

const char *wt_stderr_of_child(void (*act)(const void *payload), const void *payload, int *status)
{
    int ends[2];
    size_t used = 0;
    ssize_t got;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act(payload);
        _exit(0);
    }
    close(ends[1]);
    while (used + 1 < sizeof written &&
           (got = read(ends[0], written + used, sizeof written - 1 - used)) > 0)
        used += (size_t)got;
    written[used] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, status, 0), child);
    return written;
}
