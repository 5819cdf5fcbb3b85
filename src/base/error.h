/*
 * error.h: how library code reports failure (docs/concepts/errors.md).
 *
 * WF_FAIL is for causes in global metadata, which every rank computes alike before a message is
 * sent. WF_DIE is for what one rank alone knows: it names rank and cause and ends the whole job;
 * WF_FAIL_LOCAL is the same, but in a world of one rank it returns the failure like WF_FAIL.
 */
#pragma once

#include <assert.h>

#include <weft/error.h>

/** Record a failure (the first one stays) and return its status. */
weft_status wf_fail(weft_status status, const char *file, int line, const char *format, ...)
    WEFT_PRINTF(4, 5);

/** wf_fail for what this rank alone knows: in a world of one rank the failure is returned, in a
 * larger one it ends the job as wf_die does. */
weft_status wf_fail_local(weft_status status, const char *file, int line, const char *format, ...)
    WEFT_PRINTF(4, 5);

/** The same for a call that just returned `status`: its message is the one printed, even when an
 * earlier failure is in the record. gives: `status` */
weft_status wf_die_on_local_failure(weft_status status);

/** How many ranks this thread's world has: 1 until comm says otherwise. */
void wf_error_set_world_size(int ranks);

/** Print rank, module, op and cause, then end the job through the installed handler. Does not
 * return. */
_Noreturn void wf_die(const char *file, int line, const char *format, ...) WEFT_PRINTF(3, 4);

/** Print a sentence with the rank, for a job that is ending by itself. */
void wf_error_print(const char *format, ...) WEFT_PRINTF(1, 2);

/** What wf_die does after printing: abort() unless comm installs its own. NULL restores abort(). */
typedef void wf_die_handler(void);
void wf_die_set_handler(wf_die_handler *handler);

/** Take over the failure another rank's thread recorded (weft_run reports it to its caller). */
void wf_error_set(weft_status status, const char *message);

#define WF_FAIL(status, ...) wf_fail((status), __FILE__, __LINE__, __VA_ARGS__)
#define WF_FAIL_LOCAL(status, ...) wf_fail_local((status), __FILE__, __LINE__, __VA_ARGS__)
#define WF_DIE(...) wf_die(__FILE__, __LINE__, __VA_ARGS__)
#define WF_NEED(cond, status, ...)                                                                 \
    do {                                                                                           \
        if (!(cond)) return WF_FAIL((status), __VA_ARGS__);                                        \
    } while (0)
/** WF_NEED for a fact that other ranks cannot know. */
#define WF_NEED_LOCAL(cond, status, ...)                                                           \
    do {                                                                                           \
        if (!(cond)) return WF_FAIL_LOCAL((status), __VA_ARGS__);                                  \
    } while (0)
/** WF_NEED for what a caller made in the same expression: when it is missing because that failed,
 * the failure is passed on. */
#define WF_NEED_GIVEN(pointer, ...)                                                                \
    do {                                                                                           \
        if (!(pointer))                                                                            \
            return weft_error_status() != WEFT_OK ? weft_error_status()                            \
                                                  : WF_FAIL(WEFT_ERR_ARG, __VA_ARGS__);            \
    } while (0)
/** WF_NEED for functions that return a pointer. */
#define WF_NEED_PTR(cond, status, ...)                                                             \
    do {                                                                                           \
        if (!(cond)) return (void)WF_FAIL((status), __VA_ARGS__), NULL;                            \
    } while (0)
/** WF_NEED for functions that return nothing. */
#define WF_NEED_VOID(cond, status, ...)                                                            \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)WF_FAIL((status), __VA_ARGS__);                                                  \
            return;                                                                                \
        }                                                                                          \
    } while (0)
/** WF_TRY for a call whose failures other ranks cannot know, such as one that opens a file. */
#define WF_TRY_LOCAL(call) WF_TRY(wf_die_on_local_failure(call))
#define WF_TRY(call)                                                                               \
    do {                                                                                           \
        weft_status wf_try_status = (call);                                                        \
        if (wf_try_status != WEFT_OK) return wf_try_status;                                        \
    } while (0)
#define WF_TRY_PTR(call)                                                                           \
    do {                                                                                           \
        if ((call) != WEFT_OK) return NULL;                                                        \
    } while (0)
/** Our own invariant; debug builds only, never with side effects. */
#define WF_ASSERT(cond) assert(cond)
/** A handle that a function which only tells a value cannot do without. */
#define WF_HANDLE(handle) (WF_ASSERT(handle), (handle))
