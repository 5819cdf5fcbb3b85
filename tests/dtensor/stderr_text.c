/* stderr_text.c: file descriptor 2 turned to a temporary file and back. */
#include "dtensor/stderr_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/mpi_check.h"

static FILE *text;
static int kept;

void wt_stderr_begin(void)
{
    WT_ALL(true); /* everybody's earlier lines are out */
    if (wt_rank() == 0) {
        text = tmpfile();
        fflush(stderr);
        kept = dup(STDERR_FILENO);
        dup2(fileno(text), STDERR_FILENO);
    }
    WT_ALL(true);
}

bool wt_stderr_had(const char *part)
{
    char read[4096] = "";
    size_t length;

    WT_ALL(true);
    if (wt_rank() != 0) return true;
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(text);
    length = fread(read, 1, sizeof read - 1, text);
    read[length] = '\0';
    fclose(text);
    if (!strstr(read, part)) wt_note("stderr: \"%.200s\"", read);
    return strstr(read, part) != NULL;
}
