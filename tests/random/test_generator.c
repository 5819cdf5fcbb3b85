/*
 * test_generator.c: generators as objects: state as bytes, names, forks, seeds per stage. What they
 * draw is in test_elements.c.
 */
/* ranks: 1 3 4 */
/* mpi: 4 */
#include <stdlib.h>
#include <string.h>

#include "random/draws.h"

enum { N = 12 };

static void draw(double *values, weft_generator *g)
{
    weft_tensor *t = weft_empty(WEFT_F64, (int64_t[]){N}, 1);

    WT_ALL(weft_normal_(t, 0, 1, g) == WEFT_OK);
    weft_read_f64(t, values, N);
}

static bool same(const double *a, const double *b) { return memcmp(a, b, N * sizeof *a) == 0; }

/* RNG-18: the state comes and goes as bytes, also with the seed's top bit set. */
WT_TEST(generator__state_is_bytes)
{
    static const uint64_t seeds[] = {((uint64_t)1 << 63) + 42, ((uint64_t)1 << 63) + 43, UINT64_MAX,
                                     0, 42};
    double first[5][N], again[N];

    for (int i = 0; i < 5; i++) {
        unsigned char bytes[WEFT_GENERATOR_BYTES], back[WEFT_GENERATOR_BYTES];
        weft_generator *g = weft_generator_new(seeds[i]), *other = weft_generator_new(7);

        WT_ALL(weft_generator_seed(g) == seeds[i]);
        draw(first[i], g);
        draw(first[i], g);
        weft_generator_state(g, bytes);
        WT_ALL(bytes[0] == (seeds[i] & 0xff) && bytes[7] == seeds[i] >> 56 && bytes[8] == 2);
        WT_ALL(weft_generator_set_state(other, bytes) == WEFT_OK);
        WT_ALL(weft_generator_seed(other) == seeds[i] && weft_generator_draws(other) == 2);
        weft_generator_state(other, back);
        WT_ALL(memcmp(bytes, back, sizeof bytes) == 0);
        draw(first[i], g);
        draw(again, other);
        WT_ALL(same(first[i], again));
        weft_generator_reseed(g, seeds[i]);
        WT_ALL(weft_generator_seed(g) == seeds[i] && weft_generator_draws(g) == 0);
        weft_generator_release(g);
        weft_generator_release(other);
    }
    WT_ALL(wt_rows_differ(first[0], 5, N));
}

WT_TEST(generator__refuses_bytes_that_are_no_state)
{
    unsigned char bytes[WEFT_GENERATOR_BYTES] = {[15] = 0x80};

    WT_FAILS(weft_generator_set_state(NULL, bytes), WEFT_ERR_ARG, "draw number");
}

/* The caller's generator is used and moved on, and no other is touched. */
WT_TEST(generator__is_passed_by_the_caller)
{
    weft_generator *g = weft_generator_new(5);
    double mine[N], current[N], again[N];

    weft_manual_seed(5);
    draw(mine, g);
    WT_ALL(weft_generator_draws(g) == 1 && wt_generator_is(5, 0));
    draw(current, NULL);
    WT_ALL(same(mine, current) && wt_generator_is(5, 1));
    for (int i = 0; i < wt_draw_count; i++) {
        weft_tensor *t = weft_empty(wt_draws[i].dtype, (int64_t[]){3, 4}, 2);

        wt_note("%s", wt_draws[i].name);
        WT_ALL(wt_draws[i].fill(t, g) == WEFT_OK);
        WT_ALL(weft_generator_draws(g) == (uint64_t)i + 2 && wt_generator_is(5, 1));
    }
    weft_generator_reseed(g, 5);
    draw(again, g);
    WT_ALL(same(mine, again));
    weft_generator_release(g);
}

/* MEG-15: states by name; a name or a seed that is there already is refused; reset empties. */
WT_TEST(generator__has_a_name)
{
    weft_generator *model = weft_generator_add("model", 123), *data;

    WT_ALL(model && weft_generator_find("model") == model);
    WT_FAILS(weft_generator_add("model", 124), WEFT_ERR_STATE, "model");
    WT_FAILS(weft_generator_add("data", 123), WEFT_ERR_STATE, "123");
    data = weft_generator_add("data", 124);
    WT_ALL(data && data != model && weft_generator_find("data") == data);
    weft_generator_reseed(model, 9); /* the seed it was added with stays taken */
    WT_FAILS(weft_generator_add("more", 123), WEFT_ERR_STATE, "123");
    weft_generator_reset();
    WT_FAILS(weft_generator_find("model"), WEFT_ERR_NOT_FOUND, "model");
    WT_ALL(weft_generator_add("model", 123) != NULL);
    weft_generator_reset();
}

/* MEG-15: a fork leaves what is around it alone. */
WT_TEST(fork__restores_the_outer_state)
{
    weft_generator *g = weft_generator_add("model", 123);
    double straight[3][N], forked[3][N], inside[N];

    weft_manual_seed(17);
    for (int i = 0; i < 3; i++) draw(straight[i], NULL);
    weft_manual_seed(17);
    draw(forked[0], NULL);
    weft_default_generator_open(g);
    WT_ALL(weft_default_generator() == g);
    draw(inside, NULL);
    WT_ALL(weft_default_generator_close() == WEFT_OK && wt_generator_is(17, 1));
    draw(forked[1], NULL);
    weft_default_generator_open(NULL); /* of the current one: the same numbers come again */
    draw(inside, NULL);
    WT_ALL(same(inside, straight[2]));
    weft_manual_seed(4);
    WT_ALL(wt_generator_is(4, 0));
    WT_ALL(weft_default_generator_close() == WEFT_OK && wt_generator_is(17, 2));
    draw(forked[2], NULL);
    for (int i = 0; i < 3; i++) WT_ALL(same(straight[i], forked[i]));
    WT_FAILS(weft_default_generator_close(), WEFT_ERR_STATE, "default_generator_close");
    weft_generator_reset();
}

/* MEG-15: forks inside forks give each generator the numbers that it gives by itself. */
WT_TEST(fork__nests)
{
    weft_generator *a = weft_generator_new(1), *b = weft_generator_new(2);
    double apart[4][N], nested[4][N];

    for (int i = 0; i < 2; i++) {
        weft_default_generator_open(a);
        draw(apart[i], NULL);
        WT_ALL(weft_default_generator_close() == WEFT_OK);
        weft_default_generator_open(b);
        draw(apart[2 + i], NULL);
        WT_ALL(weft_default_generator_close() == WEFT_OK);
    }
    weft_generator_reseed(a, 1);
    weft_generator_reseed(b, 2);
    weft_default_generator_open(a);
    draw(nested[0], NULL);
    weft_default_generator_open(b);
    draw(nested[2], NULL);
    draw(nested[3], NULL);
    WT_ALL(weft_default_generator_close() == WEFT_OK);
    draw(nested[1], NULL);
    weft_generator_release(a); /* the fork still holds it */
    WT_ALL(weft_default_generator_close() == WEFT_OK);
    WT_ALL(memcmp(apart, nested, sizeof apart) == 0);
    weft_generator_release(b);
}

/* RNG-09: the seed is taken as given, also one of its own on every rank, and nothing is sent. */
WT_TEST_IN_WORLD(seed__is_set_on_a_mesh_without_communication, w)
{
    double mine[N], *all;

    WT_ALL(weft_manual_seed_on(w->mesh, (uint64_t)wt_rank()) == WEFT_OK);
    WT_ALL(wt_generator_is((uint64_t)wt_rank(), 0));
    draw(mine, NULL);
    WT_STILL(w);
    all = wt_of_all_ranks(mine, N);
    WT_ALL(wt_rows_differ(all, wt_ranks(), N));
    free(all);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_manual_seed_on(w->mesh, 1234) == WEFT_OK && wt_generator_is(1234, 0));
    draw(mine, NULL);
    WT_STILL(w);
    all = wt_of_all_ranks(mine, N);
    for (int r = 1; r < wt_ranks(); r++) WT_ALL(same(all, all + r * N));
    free(all);
    WT_FAILS(weft_manual_seed_on(NULL, 1), WEFT_ERR_ARG, "mesh");
}

/* RNG-10: all ranks but the last are in the mesh; the last one is told so and keeps its state. */
WT_TEST(seed__needs_a_member_of_the_mesh)
{
    weft_mesh *part;

    if (wt_ranks() < 2) return;
    part = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks() - 1);
    weft_manual_seed(3);
    if (wt_rank() < wt_ranks() - 1) {
        WT_ALL(weft_manual_seed_on(part, 77) == WEFT_OK);
        WT_ALL(wt_generator_is(77, 0));
    } else {
        bool refused = weft_manual_seed_on(part, 77) == WEFT_ERR_STATE &&
                       strstr(weft_error_message(),
                              "requires the current rank to be a part of the device mesh");

        weft_error_clear();
        WT_ALL(refused);
        WT_ALL(wt_generator_is(3, 0));
    }
    weft_mesh_release(part);
}

/* RNG-11: stages of a pipeline seed their own meshes; no two ranks of the world get equal shards.
 */
static void seed_stages(int stages, int64_t rows)
{
    weft_mesh *world = weft_mesh_new(WEFT_CPU, "pp=%d,spmd=%d", stages, wt_ranks() / stages);
    weft_mesh *spmd = weft_mesh_sub(world, "spmd");
    int64_t n = rows / weft_mesh_size(spmd) * 2;
    weft_tensor *t = weft_make_ones(
        (weft_spec){.ndim = 2, .shape = {rows, 2}, .mesh = spmd, .placements = {weft_shard(0)}});
    double mine[64], *all;

    WT_ALL(weft_manual_seed_on(spmd, 123 + (uint64_t)weft_mesh_coordinate(world, 0)) == WEFT_OK);
    WT_ALL(weft_normal_(t, 0, 1, NULL) == WEFT_OK && weft_local_numel(t) == n);
    weft_read_f64(t, mine, 64);
    all = wt_of_all_ranks(mine, n);
    WT_ALL(wt_rows_differ(all, wt_ranks(), n));
    free(all);
    WT_RELEASE(weft_mesh_release, spmd, world);
}

WT_TEST(seed__differs_between_pipeline_stages)
{
    if (wt_ranks() != 4) return;
    seed_stages(2, 4);
    seed_stages(2, 10);
    seed_stages(4, 3);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "generator"); }
