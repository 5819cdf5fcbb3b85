/* texts.c: parts of texts. */
#include "texts.h"

#include <string.h>

#include "support/mpi_check.h"

bool wt_text_has(const char *text, const char *part)
{
    if (strstr(text, part)) return true;
    wt_note("%s is not in: %s", part, text);
    return false;
}
