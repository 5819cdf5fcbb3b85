/*
 * error.h: what a failed call leaves behind.
 *
 * Three kinds of function (docs/concepts/errors.md):
 *   makes an object   returns the pointer, NULL on failure; NULL in means NULL out
 *   acts              returns a weft_status
 *   tells             returns a plain value and cannot fail on a valid handle; where a header says
 *                     that it needs a handle, NULL ends the process, in Debug builds by an
 *                     assertion
 *
 * Each thread keeps its first failure until weft_error_clear(). An error that is returned is seen
 * by all ranks alike, before any message is sent; what one rank alone knows ends the job.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <weft/export.h>

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_ARG,       /* an argument is outside what the function accepts */
    WEFT_ERR_SHAPE,     /* shapes do not fit together */
    WEFT_ERR_DTYPE,     /* dtypes do not fit together, or an op lacks a kernel for one */
    WEFT_ERR_LAYOUT,    /* placements or meshes do not fit together */
    WEFT_ERR_NOT_FOUND, /* a path, name or file is not there */
    WEFT_ERR_STATE,     /* the call is right, but not now */
    WEFT_ERR_IO,        /* a file could not be read or written */
    WEFT_ERR_MEMORY,    /* an allocation failed */
    WEFT_ERR_COMM,      /* communication failed or is not available */
    WEFT_STATUS_COUNT
} weft_status;

/**
 * The calling thread's first failure since the last clear, one line with the values involved.
 *
 * ranks: any; local
 * gives: a borrowed string, "" when nothing failed
 */
WEFT_API const char *weft_error_message(void);

/** The status that belongs to weft_error_message(). ranks: any; local */
WEFT_API weft_status weft_error_status(void);

/** Forget the thread's failure. ranks: any; local */
WEFT_API void weft_error_clear(void);

/** The name of a status, for example "shape". ranks: any; local */
WEFT_API const char *weft_status_name(weft_status status);

/** End the program with the error's text when a call that acts has failed. For main() only. */
#define WEFT_CHECK(call)                                                                           \
    do {                                                                                           \
        weft_status weft_check_status = (call);                                                    \
        if (weft_check_status != WEFT_OK) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, weft_error_message());              \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)
