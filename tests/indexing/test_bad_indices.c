/*
 * test_bad_indices.c: an index that lies outside its dim, on whichever rank holds it, ends the job
 * with a sentence that names op, index and bound; nothing is read or written there before.
 */
/* ranks: 1 2 3 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "support/scratch.h"
#include "support/worlds.h"

enum { ROWS = 16, COLUMNS = 4 };

static weft_tensor *on(struct wt_world *w, weft_tensor *t, int dim)
{
    weft_placement p[WEFT_MAX_AXES] = {dim < 0 ? weft_replicate() : weft_shard(dim)};

    return weft_distribute_tensor(t, w->mesh, p, -1);
}

/* What the calls take: x [ROWS,COLUMNS] cut along its rows, so that one rank has what is meant,
 * values for two rows, and two indices, the second of which is `bad`: a list, and one per value.
 * log_p: of two tokens, of as many classes. */
struct given {
    weft_tensor *x, *values, *list, *places, *log_p;
};

static struct given given_with(struct wt_world *w, int64_t bad)
{
    int64_t two[] = {3, bad}, places[2 * COLUMNS];
    weft_tensor *values = wt_whole(WEFT_F32, 0, 2, COLUMNS);

    for (int i = 0; i < 2 * COLUMNS; i++) places[i] = i == 2 * COLUMNS - 1 ? bad : i % ROWS;
    return (struct given){
        .x = on(w, wt_whole(WEFT_F32, 0, ROWS, COLUMNS), 0),
        .values = on(w, values, -1),
        .log_p = on(w, wt_whole(WEFT_F32, 0, 2, ROWS), -1),
        .list = on(w, weft_from_data(WEFT_I64, (int64_t[]){2}, 1, two), -1),
        .places = on(w, weft_from_data(WEFT_I64, (int64_t[]){2, COLUMNS}, 2, places), -1)};
}

typedef weft_tensor *indexed(const struct given *g);

#define CALL(name, call)                                                                           \
    static weft_tensor *name(const struct given *g) { return call; }
CALL(embedding, weft_embedding(g->x, g->list))
CALL(select_, weft_index_select(g->x, 0, g->list))
CALL(index_, weft_index(g->x, (weft_tensor *[]){g->list}, 1))
CALL(put, weft_index_put(g->x, (weft_tensor *[]){g->list}, 1, g->values, false))
CALL(put_added, weft_index_put(g->x, (weft_tensor *[]){g->list}, 1, g->values, true))
CALL(add, weft_index_add(g->x, 0, g->list, g->values))
CALL(copy, weft_index_copy(g->x, 0, g->list, g->values))
CALL(fill, weft_index_fill(g->x, 0, g->list, 2))
CALL(gather, weft_gather(g->x, 0, g->places))
CALL(take, weft_take_along_dim(g->x, g->places, 0))
CALL(scatter, weft_scatter(g->x, 0, g->places, g->values))
CALL(scatter_value, weft_scatter_value(g->x, 0, g->places, 2))
CALL(scatter_add, weft_scatter_add(g->x, 0, g->places, g->values))
CALL(scatter_product, weft_scatter_reduce(g->x, 0, g->places, g->values, WEFT_PRODUCT, true))
CALL(scatter_most, weft_scatter_reduce(g->x, 0, g->places, g->values, WEFT_MAX, false))
CALL(narrow_added,
     weft_scatter_add(weft_cast(g->x, WEFT_BF16), 0, g->places, weft_cast(g->values, WEFT_BF16)))
CALL(gather_i32, weft_gather(g->x, 0, weft_cast(g->places, WEFT_I32)))
CALL(one_hot, weft_one_hot(g->list, ROWS))
CALL(nll, weft_nll_loss(g->log_p, g->list, (weft_cross_entropy_options){0}))

static const struct {
    const char *name, *op; /* the sentence's beginning: the name of the row */
    indexed *call;
    bool from_the_end; /* negative indices count from there */
} calls[] = {
    {"embedding", "embedding: index", embedding, false},
    {"index_select", "index: index", select_, false},
    {"index", "index: index", index_, true},
    {"index_put", "index_put: index", put, true},
    {"index_put that adds", "index_add: index", put_added, true},
    {"index_add", "index_add: index", add, false},
    {"index_copy", "index_put: index", copy, false},
    {"index_fill", "index_put: index", fill, false},
    {"gather", "gather: index", gather, false},
    {"take_along_dim", "gather: index", take, false},
    {"scatter", "scatter: index", scatter, false},
    {"scatter_value", "scatter: index", scatter_value, false},
    {"scatter_add", "scatter_add: index", scatter_add, false},
    {"scatter_add of bf16", "scatter_add: index", narrow_added, false},
    {"scatter_reduce, products", "scatter_reduce: index", scatter_product, false},
    {"scatter_reduce, largest", "scatter: index", scatter_most, false},
    {"gather, i32", "gather: index", gather_i32, false},
    {"one_hot", "scatter: index", one_hot, false},
    {"nll_loss", "nll_pick: target", nll, false},
};
enum { CALLS = sizeof calls / sizeof *calls };

static _Thread_local jmp_buf died;
static void jump(void) { longjmp(died, 1); }

static bool dies(indexed *call, const struct given *g)
{
    volatile bool dead = false;

    wf_die_set_handler(jump);
    WT_ALL(true);
    if (setjmp(died) == 0)
        (void)call(g);
    else
        dead = true;
    WT_ALL(true);
    wf_die_set_handler(NULL);
    return dead;
}

/* EMB-11: on all ranks, also those whose rows are not meant */
WT_TEST_IN_WORLD(index__outside_ends_the_job, w)
{
    for (int i = 0; i < CALLS; i++) {
        struct given above = given_with(w, ROWS), below = given_with(w, -1),
                     far = given_with(w, -ROWS - 1), last = given_with(w, ROWS - 1);

        wt_note("%s", calls[i].name);
        WT_ALL(dies(calls[i].call, &above));
        WT_ALL(dies(calls[i].call, &below) == !calls[i].from_the_end);
        WT_ALL(dies(calls[i].call, &far));
        WT_ALL(!dies(calls[i].call, &last));
        wt_note("%s", "");
    }
}

/* What the call prints on stderr, which one rank alone may take. */
static void sentence_of(indexed *call, const struct given *g, char *text, size_t bytes)
{
    int own = dup(STDERR_FILENO), to;
    ssize_t length;

    to = open(wt_scratch("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(to, STDERR_FILENO);
    (void)dies(call, g);
    fflush(stderr);
    dup2(own, STDERR_FILENO);
    close(own);
    length = pread(to, text, bytes - 1, 0);
    text[length > 0 ? length : 0] = 0;
    close(to);
}

WT_TEST_IN_WORLD(sentence__names_op_index_and_bound, w)
{
    for (int i = 0; i < CALLS && wt_ranks() == 1; i++) {
        struct given g = given_with(w, ROWS + 5);
        char text[1000];

        sentence_of(calls[i].call, &g, text, sizeof text);
        wt_note("%s: %s", calls[i].name, text);
        WT_ALL(strstr(text, calls[i].op) && strstr(text, "21") && strstr(text, "16"));
        wt_note("%s", "");
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "bad_indices")); }
