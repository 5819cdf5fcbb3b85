/*
 * test_schedule.c: what schedule.txt says of collectives: the time of the bytes that each sends, as
 * planners reckon it. With a link of one byte per microsecond the times are bytes.
 */
/* ranks: 1 2 3 4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "as_immediate.h"
#include "compile/list/lower.h"
#include "compile/passes/passes.h"
#include "compile/record/recorder.h"
#include "compile/tools/dump.h"
#include "support/given.h"
#include "texts.h"

/* Of a collective in the schedule: bytes are what is left of its time without the latency of 1 us.
 */
struct kind_total {
    int count;
    double bytes;
};

static struct kind_total total_of_kind(const char *text, const char *kind, int passes)
{
    double latency = 1 + passes * (wt_ranks() - 1) / 11.0;
    struct kind_total total = {0, 0};

    for (const char *line = text; line; line = strchr(line + 1, '\n')) {
        double begin, end;
        char what[32];

        if (sscanf(line, "%*d %lf %lf start %31[a-z-]", &begin, &end, what) != 3) continue;
        if (strcmp(what, kind) != 0) continue;
        total.count++;
        total.bytes += end - begin - latency;
    }
    return total;
}

/* Each time is printed to a tenth. */
static void expect_total(const char *text, const char *kind, int passes, int count, double bytes)
{
    struct kind_total total = total_of_kind(text, kind, passes);

    if (wt_ranks() == 1) return;
    wt_note("%s: %d of %.1f bytes, not %d of %.1f\n%s", kind, total.count, total.bytes, count,
            bytes, text);
    WT_EQ(total.count, count);
    WT_ALL(total.bytes > bytes - 0.1 * (count + 1) && total.bytes < bytes + 0.1 * (count + 1));
}

/* The schedule of what a function does, as text to free. Nothing that it makes is left out. */
static char *schedule_of(weft_compiled_function *function, weft_tensor *const *in, int n_in,
                         const char *off)
{
    struct wf_list_recorder recorder;
    struct wf_op_list *list;
    weft_tensor *results[4];
    double latency, bandwidth;
    char *text;

    weft_link("tp", &latency, &bandwidth);
    WT_ALL(weft_link_set("tp", 1, 1) == WEFT_OK);
    wf_recording_begin(&recorder);
    WT_ALL(function(in, n_in, results, 4, NULL) == WEFT_OK);
    wf_recording_end(&recorder);
    list = recorder.list;
    for (int s = 0; s < list->n_storages; s++)
        list->storages[s].kept = list->storages[s].kind == WF_STORAGE_MADE;
    wf_passes_run(list, off);
    wf_op_list_lower(list);
    wf_passes_run(list, off);
    text = TEXT_OF(wf_schedule_print(list, out));
    wf_recording_free(&recorder);
    WT_ALL(weft_link_set("tp", latency, bandwidth) == WEFT_OK);
    return text;
}

/* A square of 4 ranks, its rows spread. */
static weft_tensor *square(struct wt_world *w, int which)
{
    return wt_spread(w, wt_whole(WEFT_F32, which, 4 * wt_ranks(), 4 * wt_ranks()), "S(0)");
}

static double bytes_of_square(void) { return 64.0 * wt_ranks() * wt_ranks(); }

/* What is not one's own: (ranks - 1) / ranks. */
static double sent(double bytes) { return bytes * (wt_ranks() - 1) / wt_ranks(); }

FUNCTION(every_kind)
{
    const int rows[] = {0};

    out[0] = wt_to(in[0], "R");
    out[1] = wt_to(in[0], "S(1)");
    out[2] = wt_to(weft_sum(in[0], rows, 1, false), "R");
    out[3] = wt_to(weft_matmul(weft_transpose(in[0], 0, 1), in[0]), "S(0)");
    return out[0] && out[1] && out[2] && out[3] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(collectives_of_moves__take_as_long_as_their_bytes, w)
{
    weft_tensor *x = square(w, 1);
    char *text = schedule_of(every_kind, &x, 1, "all");

    expect_total(text, "all-gather", 1, 1, sent(bytes_of_square()));
    expect_total(text, "all-to-all", 1, 1, sent(bytes_of_square() / wt_ranks()));
    expect_total(text, "all-reduce", 2, 1, 2 * sent(16.0 * wt_ranks()));
    expect_total(text, "reduce-scatter", 1, 1, sent(bytes_of_square()));
    free(text);
}

FUNCTION(two_gathers)
{
    out[0] = wt_to(in[0], "R");
    out[1] = wt_to(in[1], "R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

FUNCTION(two_scattered_sums)
{
    for (int i = 0; i < 2; i++) {
        out[i] = wt_to(weft_matmul(weft_transpose(in[i], 0, 1), in[i]), "S(0)");
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}

FUNCTION(two_sums)
{
    const int rows[] = {0};

    for (int i = 0; i < 2; i++) {
        out[i] = wt_to(weft_sum(in[i], rows, 1, false), "R");
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}

/* One collective that the pass bucket has made of two. */
WT_TEST_IN_WORLD(buckets__take_as_long_as_what_is_in_them, w)
{
    weft_tensor *in[] = {square(w, 1), square(w, 2)};
    char *text = schedule_of(two_gathers, in, 2, "+bucket!");

    expect_total(text, "all-gather", 1, 1, 2 * sent(bytes_of_square()));
    free(text);
    text = schedule_of(two_scattered_sums, in, 2, "+bucket!");
    expect_total(text, "reduce-scatter", 1, 1, 2 * sent(bytes_of_square()));
    free(text);
    text = schedule_of(two_sums, in, 2, "+bucket!");
    expect_total(text, "all-reduce", 2, 1, 2 * 2 * sent(16.0 * wt_ranks()));
    free(text);
}

FUNCTION(product_of_gathered)
{
    out[0] = weft_matmul(wt_to(in[0], "R"), in[1]);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* A gather in pieces sends no more than the whole one. */
WT_TEST_IN_WORLD(rows_of_one_rank__take_as_long_as_their_bytes, w)
{
    weft_tensor *in[] = {square(w, 1), wt_to(square(w, 2), "R")};
    char *text = schedule_of(product_of_gathered, in, 2, "+pipeline!");

    expect_total(text, "broadcast", 1, wt_ranks(), sent(bytes_of_square()));
    free(text);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "schedule"); }
