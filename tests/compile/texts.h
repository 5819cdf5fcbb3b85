/* texts.h: what a function prints, as text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** What `print` writes to `out`, as text to free. */
#define TEXT_OF(print)                                                                             \
    __extension__({                                                                                \
        char *text_ = NULL;                                                                        \
        size_t bytes_ = 0;                                                                         \
        FILE *out = open_memstream(&text_, &bytes_);                                               \
        print;                                                                                     \
        fclose(out);                                                                               \
        text_;                                                                                     \
    })

/** The text has this part; else a note says what it is. */
bool wt_text_has(const char *text, const char *part);
