/* test_weights.c: tensors between files and meshes: every rank reads and writes its own slices, and
 * together they are the whole. */
/* mpi: 2 4 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/elements/dtype.h"
#include "support/scratch.h"
#include "support/worlds.h"

#define GOLDEN                                                                                     \
    WT_SOURCE_DIR "/"                                                                              \
                  "tests/golden/weights.safetensors"

/* What make_weights.py put there, in f64. */
static int64_t seed_of(int64_t i) { return (37 * i + 11) % 101; }

static double golden_element(const weft_weight *w, int64_t i)
{
    double real = (double)seed_of(i) / 50 - 1;

    if (strcmp(w->dtype, "BOOL") == 0) return (double)(seed_of(i) % 2);
    if (strchr("IU", w->dtype[0])) return (double)seed_of(i);
    if (strcmp(w->dtype, "F64") == 0) return real;
    if (strcmp(w->dtype, "BF16") == 0) return (double)wf_bf16_to_f32(wf_f32_to_bf16((float)real));
    if (strcmp(w->dtype, "F16") == 0)
        return ldexp(nearbyint(ldexp(real, 10 - ilogb(real))), ilogb(real) - 10);
    return (double)(float)real;
}

static double *golden_values(const weft_weight *w)
{
    int64_t n = 1;
    double *values;

    for (int d = 0; d < w->ndim; d++) n *= w->shape[d];
    values = malloc((size_t)(n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = golden_element(w, i);
    return values;
}

WT_TEST_IN_WORLD(golden__every_tensor_is_read_as_python_wrote_it, w)
{
    weft_weights *file = weft_weights_open(GOLDEN);

    WT_EQ(weft_weights_count(file), 13);
    WT_ALL(strcmp(weft_weights_note(file, "made by"), "make_weights.py") == 0);
    WT_ALL(weft_weights_find(file, "na\xc3\xafve \"name\"") != NULL);
    for (int64_t i = 0; i < weft_weights_count(file); i++) {
        const weft_weight *weight = weft_weights_at(file, i);
        weft_tensor *t = weft_weights_read(file, weight->name, 0, NULL, NULL);
        double *want = golden_values(weight);

        wt_note("%s", weight->name);
        WT_ALL(wt_near_full(t, want, WT_EXACT));
        free(want);
    }
    weft_weights_close(file);
}

WT_TEST_IN_WORLD(golden__every_rank_has_its_slices_in_any_layout, w)
{
    static const char *const layouts[] = {
        "R", "S(0)", "S(1)", "S(-1,balanced)", "SS(0,2)", "S(0,balanced)", "S(0|4,1,1)", "SS(1,3)"};
    weft_weights *file = weft_weights_open(GOLDEN);
    const weft_weight *weight = weft_weights_find(file, "real.bf16"); /* [6,5] */
    double *want = golden_values(weight);

    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        weft_placement p[WEFT_MAX_AXES];
        weft_tensor *t;

        WT_EQ(weft_placements_on(p, w->mesh, layouts[i]), WEFT_OK);
        t = weft_weights_read(file, weight->name, WEFT_AS(WEFT_F64), w->mesh, p);
        WT_STILL(w);
        wt_note("%s", layouts[i]);
        WT_ALL(wt_near_full(t, want, WT_EXACT));
        weft_ledger_reset(w->ledger);
    }
    free(want);
    weft_weights_close(file);
}

WT_TEST_IN_WORLD(read__numbers_are_converted, w)
{
    weft_weights *file = weft_weights_open(GOLDEN);
    weft_tensor *t = weft_weights_read(file, "real.f64", WEFT_AS(WEFT_BF16), NULL, NULL);
    const weft_weight *weight = weft_weights_find(file, "real.f64");

    for (int64_t i = 0; i < 15; i++) {
        wf_bf16 want = wf_f32_to_bf16((float)golden_element(weight, i));

        WT_EQ(((wf_bf16 *)weft_data(t))[i], want);
    }
    t = weft_weights_read(file, "real.f64", WEFT_AS(WEFT_F16), NULL, NULL);
    for (int64_t i = 0; i < 15; i++)
        WT_EQ(((wf_f16 *)weft_data(t))[i], wf_f32_to_f16((float)golden_element(weight, i)));
    WT_EQ(weft_tensor_dtype(weft_weights_read(file, "real.f16", 0, NULL, NULL)), WEFT_F16);
    WT_EQ(weft_tensor_dtype(weft_weights_read(file, "real.bf16", 0, NULL, NULL)), WEFT_BF16);
    t = weft_weights_read(file, "integer.i16", WEFT_AS(WEFT_F32), NULL, NULL);
    WT_ALL(((float *)weft_data(t))[1] == (float)seed_of(1));
    t = weft_weights_read(file, "integer.i64", WEFT_AS(WEFT_U8), NULL, NULL);
    WT_EQ(((uint8_t *)weft_data(t))[2], seed_of(2));
    t = weft_weights_read(file, "integer.i8", 0, NULL, NULL);
    WT_EQ(weft_tensor_dtype(t), WEFT_I8);
    weft_weights_close(file);
}

WT_TEST_IN_WORLD(read__what_cannot_be_is_refused_on_all_ranks, w)
{
    weft_weights *file = weft_weights_open(GOLDEN);
    weft_placement partial[] = {weft_partial(WEFT_SUM)};
    int64_t shape[] = {7, 5};

    WT_ALL(!weft_weights_read(file, "real.f31", 0, NULL, NULL));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "no tensor 'real.f31'");
    WT_ALL(!weft_weights_read(file, "real.f32", WEFT_AS(WEFT_I64), NULL, NULL));
    WT_FAILED(WEFT_ERR_DTYPE, "is F32, which cannot be read as i64");
    WT_ALL(!weft_weights_read(file, "integer.u8", WEFT_AS(WEFT_BOOL), NULL, NULL));
    WT_FAILED(WEFT_ERR_DTYPE, "is U8, which cannot be read as bool");
    WT_ALL(!weft_weights_read(file, "real.f32", 0, w->mesh, partial));
    WT_FAILED(WEFT_ERR_LAYOUT, "is partial");
    WT_EQ(weft_weights_read_into(file, "real.f32", weft_empty(WEFT_F32, shape, 2)), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "is [7,4], not [7,5]");
    shape[1] = 4;
    weft_set_default_device(WEFT_META);
    WT_EQ(weft_weights_read_into(file, "real.f32", weft_empty(WEFT_F32, shape, 2)), WEFT_ERR_STATE);
    weft_set_default_device(WEFT_CPU);
    WT_FAILED(WEFT_ERR_STATE, "no elements");
    weft_weights_close(file);
}

/* Pages that this thread touched for the first time. */
static long touched(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/* 4 GiB, of which one rank of 1,024 reads 4 MiB. Reading all would take 65,536 page faults, at 16
 * pages each. */
WT_TEST_IN_WORLD(read__a_rank_touches_its_slices_only, w)
{
    enum { ROWS = 1 << 20, COLUMNS = 1024, RANKS = 1024, MINE = 5 };
    static const char header[] = "{\"big\":{\"dtype\":\"F32\",\"shape\":[1048576,1024],"
                                 "\"data_offsets\":[0,4294967296]}}";
    weft_mesh *many = weft_mesh_new_fake(MINE, "tp=%d", RANKS);
    weft_placement rows[] = {weft_shard(0)};
    const char *path = wt_scratch("big.safetensors");
    unsigned char length[8] = {sizeof header - 1};
    const int64_t first = (int64_t)MINE * (ROWS / RANKS) * COLUMNS;
    const float value = 2.5f;
    long before;
    weft_weights *file;
    weft_tensor *t;

    if (wt_rank() == 0) {
        FILE *out = fopen(path, "wb");

        fwrite(length, 1, 8, out);
        fwrite(header, 1, sizeof header - 1, out);
        fseeko(out, (off_t)(8 + sizeof header - 1) + 4 * (off_t)(first + 3), SEEK_SET);
        fwrite(&value, sizeof value, 1, out);
        fclose(out);
        if (truncate(path, (off_t)(8 + sizeof header - 1) + (off_t)4 * ROWS * COLUMNS) != 0)
            abort();
    }
    WT_ALL(true);
    before = touched();
    file = weft_weights_open(path);
    t = weft_weights_read(file, "big", 0, many, rows);
    WT_ALL(t != NULL);
#ifndef __SANITIZE_THREAD__ /* whose shadow has many more pages */
    WT_ALL(touched() - before < 16000);
#else
    (void)before;
#endif
    WT_EQ(weft_local_size(t, 0), ROWS / RANKS);
    WT_ALL(((float *)weft_data(t))[3] == 2.5f && ((float *)weft_data(t))[4] == 0);
    weft_weights_close(file);
    weft_mesh_release(many);
}

/* ---- writing ---- */

static weft_weights *written(const char *path, const weft_named_tensor *tensors, int64_t n)
{
    WT_EQ(weft_weights_write(path, tensors, n), WEFT_OK);
    return weft_weights_open(path);
}

WT_TEST_IN_WORLD(write__any_layout_reads_back_in_any_other, w)
{
    static const char *const layouts[] = {"R",       "S(0)",    "S(1)", "S(0,balanced)",
                                          "SS(1,3)", "S(1|3,2)"};
    enum { N = sizeof layouts / sizeof layouts[0] };
    weft_tensor *whole = wt_whole(WEFT_F32, 1, 11, 10);
    weft_named_tensor list[N];
    weft_weights *file;

    for (int i = 0; i < N; i++)
        list[i] = (weft_named_tensor){layouts[i], wt_spread(w, whole, layouts[i])};
    file = written(wt_scratch("any.safetensors"), list, N);
    WT_EQ(weft_weights_count(file), N);
    for (int i = 0; i < N * N; i++) {
        weft_placement p[WEFT_MAX_AXES];
        weft_tensor *t;

        WT_EQ(weft_placements_on(p, w->mesh, layouts[i / N]), WEFT_OK);
        t = weft_weights_read(file, layouts[i % N], 0, w->mesh, p);
        wt_note("%s as %s", layouts[i % N], layouts[i / N]);
        WT_ALL(wt_near_tensors(t, whole, WT_EXACT));
    }
    weft_weights_close(file);
}

WT_TEST_IN(write__two_axes_write_replicas_once, w,
           wt_world_open_mesh("dp=%d,tp=%d", wt_ranks() % 2 ? 1 : 2,
                              wt_ranks() / (wt_ranks() % 2 ? 1 : 2)))
{
    weft_tensor *whole = wt_whole(WEFT_BF16, 2, 5, 9);
    weft_named_tensor list[] = {{"a", wt_spread(w, whole, "R,S(1)")},
                                {"b", wt_spread(w, whole, "S(0),S(0)")},
                                {"c", wt_spread(w, whole, "S(1),R")},
                                {"plain", whole},
                                {"f16", wt_spread(w, wt_whole(WEFT_F16, 2, 5, 9), "R,S(1)")},
                                {"scalar", weft_full(WEFT_F64, NULL, 0, 3.5)}};
    weft_weights *file = written(wt_scratch("two.safetensors"), list, 6);

    for (int i = 0; i < 4; i++)
        WT_ALL(
            wt_near_tensors(weft_weights_read(file, list[i].name, 0, NULL, NULL), whole, WT_EXACT));
    WT_ALL(strcmp(weft_weights_find(file, "f16")->dtype, "F16") == 0);
    WT_ALL(wt_near_tensors(weft_weights_read(file, "f16", 0, NULL, NULL),
                           wt_whole(WEFT_F16, 2, 5, 9), WT_EXACT));
    WT_ALL(weft_item(weft_weights_read(file, "scalar", 0, NULL, NULL)) == 3.5);
    weft_weights_close(file);
}

WT_TEST_IN_WORLD(write__tied_tensors_are_stored_once_and_found_by_both_names, w)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 1, 6, 4), "S(0)");
    weft_named_tensor list[] = {{"wte", t}, {"head", t}};
    weft_weights *file = written(wt_scratch("tied.safetensors"), list, 2);

    WT_EQ(weft_weights_count(file), 1);
    WT_ALL(strcmp(weft_weights_find(file, "head")->name, "wte") == 0);
    WT_ALL(wt_near_tensors(weft_weights_read(file, "head", 0, NULL, NULL), t, WT_EXACT));
    weft_weights_close(file);
}

WT_TEST_IN_WORLD(write__what_cannot_be_is_refused_and_the_old_file_stays, w)
{
    weft_tensor *t = wt_whole(WEFT_F32, 1, 2, 3);
    const char *path = wt_scratch("stays.safetensors");
    weft_named_tensor good[] = {{"t", t}}, twice[] = {{"t", t}, {"t", wt_whole(WEFT_F32, 2, 2, 3)}};
    weft_named_tensor partial[] = {{"p", wt_partial(w, t, WEFT_SUM)}}, unread[] = {{"\xff", t}};
    weft_weights *file = written(path, good, 1);

    weft_weights_close(file);
    WT_FAILS(weft_weights_write(path, twice, 2), WEFT_ERR_ARG, "'t' stands twice");
    WT_FAILS(weft_weights_write(path, unread, 1), WEFT_ERR_ARG, "not UTF-8");
    WT_FAILS(weft_weights_write(path, partial, 1), WEFT_ERR_LAYOUT, "'p' is partial");
    WT_EQ(weft_weights_write(wt_scratch("no such folder/x"), good, 1), WEFT_ERR_IO);
    WT_FAILED(WEFT_ERR_IO, "cannot create");
    file = weft_weights_open(path);
    WT_ALL(wt_near_tensors(weft_weights_read(file, "t", 0, NULL, NULL), t, WT_EXACT));
    weft_weights_close(file);
}

/* A list that differs from rank to rank would mix two files. */
WT_TEST_IN_WORLD(write__ranks_must_agree, w)
{
    weft_named_tensor list[] = {
        {wt_rank() == wt_ranks() - 1 ? "x" : "y", wt_whole(WEFT_F32, 1, 2, 3)}};

    if (wt_ranks() > 1) {
        WT_EQ(weft_weights_write(wt_scratch("differ.safetensors"), list, 1), WEFT_ERR_ARG);
        WT_FAILED(WEFT_ERR_ARG, "the list of tensors on rank");
    }
}

/* ---- an index of several files ---- */

WT_TEST_IN_WORLD(index__several_files_are_one_set, w)
{
    weft_named_tensor one[] = {{"a", wt_whole(WEFT_F32, 1, 2, 3)}};
    weft_named_tensor two[] = {{"b", wt_whole(WEFT_F32, 2, 3, 2)},
                               {"c", wt_whole(WEFT_F32, 3, 1, 1)}};
    const char *index = wt_scratch("model.safetensors.index.json");
    weft_weights *set;

    WT_EQ(weft_weights_write(wt_scratch("part-1.safetensors"), one, 1), WEFT_OK);
    WT_EQ(weft_weights_write(wt_scratch("part-2.safetensors"), two, 2), WEFT_OK);
    if (wt_rank() == 0)
        wt_write_text(index, "{\"metadata\":{\"total_size\":28},\"weight_map\":{\"a\":"
                             "\"part-1.safetensors\",\"c\":\"part-2.safetensors\"}}");
    WT_ALL(true); /* the file is there */
    set = weft_weights_open(wt_scratch("."));
    WT_EQ(weft_weights_count(set), 2);
    WT_ALL(wt_near_tensors(weft_weights_read(set, "c", 0, NULL, NULL), two[1].tensor, WT_EXACT));
    weft_weights_close(set);
}

WT_TEST_IN_WORLD(index__a_wrong_one_is_refused, w)
{
    static const struct {
        const char *text;
        weft_status status;
        const char *says;
    } cases[] = {
        {"{\"weight_map\":{\"z\":\"part-1.safetensors\"}}", WEFT_ERR_IO, "'z' should be in"},
        {"{\"weight_map\":{\"a\":\"../part-1.safetensors\"}}", WEFT_ERR_IO, "no name of a file"},
        {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", WEFT_ERR_NOT_FOUND, "none.safetensors"},
        {"{\"weight_map\":{\"a\":7}}", WEFT_ERR_IO, "a number where a string"},
        {"{}", WEFT_ERR_IO, "no weight_map"},
        {"", WEFT_ERR_IO, "no value where an object"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (wt_rank() == 0) wt_write_text(wt_scratch("bad.json"), cases[i].text);
        WT_ALL(true);
        WT_ALL(!weft_weights_open(wt_scratch("bad.json")));
        WT_FAILED(cases[i].status, cases[i].says);
    }
    WT_ALL(!weft_weights_open(wt_scratch("nothing.safetensors")));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "nothing.safetensors");
}

WT_TEST_IN_WORLD(read__a_tensor_of_more_dims_than_ours_is_refused, w)
{
    static const char header[] = "{\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],"
                                 "\"data_offsets\":[0,1]}}";
    char file[8 + sizeof header] = {(char)(sizeof header - 1)};
    const char *path = wt_scratch("deep.safetensors");
    weft_weights *weights;

    memcpy(file + 8, header, sizeof header - 1);
    if (wt_rank() == 0) wt_write_file(path, file, sizeof file);
    WT_ALL(true); /* it is there */
    weights = weft_weights_open(path);
    WT_ALL(weights && !weft_weights_read(weights, "deep", 0, NULL, NULL));
    WT_FAILED(WEFT_ERR_SHAPE, "tensor 'deep' has 9 dims; at most 8 can be read");
    weft_weights_close(weights);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "weights")); }
