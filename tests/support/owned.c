/* owned.c: a list per rank of what its case owns. */
#include "support/owned.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROW_BYTES = 128, NO_ROW = -1 };

struct owned {
    void *object;
    void (*release)(void *object);
};

static _Thread_local struct {
    struct owned *of;
    int count, room;
    int first_row; /* where what rows own begins */
    char row[ROW_BYTES];
} list = {.first_row = NO_ROW};

int wt_own_with(void *object, void (*release)(void *object))
{
    if (list.count == list.room) {
        list.room = list.room ? 2 * list.room : 16;
        list.of = realloc(list.of, (size_t)list.room * sizeof *list.of);
        if (!list.of) abort();
    }
    list.of[list.count] = (struct owned){object, release};
    return list.count++;
}

bool wt_owns(const void *object, int place)
{
    return place < list.count && list.of[place].object == object;
}

/* One that is being released is no longer in the list: an assertion in it may leave the case. */
void wt_release_owned(int place)
{
    while (list.count > place) {
        struct owned last = list.of[--list.count];

        if (last.object) last.release(last.object);
    }
    if (list.count == 0) {
        free(list.of);
        list.of = NULL;
        list.room = 0;
    }
}

#define OWN(noun, release)                                                                         \
    static void release_##noun(void *object) { release(object); }                                  \
    weft_##noun *wt_own_##noun(weft_##noun *object)                                                \
    {                                                                                              \
        wt_own_with(object, release_##noun);                                                       \
        return object;                                                                             \
    }
OWN(module, weft_module_release)
OWN(mesh, weft_mesh_release)
OWN(optim, weft_optim_release)
OWN(plan, weft_plan_release)
OWN(ledger, weft_ledger_close)
OWN(generator, weft_generator_release)
OWN(state, weft_state_release)
OWN(step_graph, weft_step_graph_release)
OWN(compiled, weft_compiled_release)
OWN(weights, weft_weights_close)

/* ---- rows ---- */

static void close_scope(void *scope) { weft_scope_close(scope); }

void wt_row(const char *format, ...)
{
    va_list args;

    if (list.first_row == NO_ROW) list.first_row = list.count;
    wt_release_owned(list.first_row);
    va_start(args, format);
    vsnprintf(list.row, sizeof list.row, format, args);
    va_end(args);
    wt_own_with(weft_scope_open(), close_scope);
}

const char *wt_row_name(void) { return list.row; }

void wt_rows_begin(void)
{
    list.first_row = NO_ROW;
    list.row[0] = '\0';
}
