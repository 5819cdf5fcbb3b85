/* test_worlds.c: a checkpoint of one number of ranks is loaded by another, from 1 to 8. */
#include <stdio.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"
#include "support/scratch.h"

struct job {
    const char *path; /* a thread's own scratch paths would be others */
    const char *placements;
};

static weft_module *model(weft_mesh *mesh, const char *placements, uint64_t seed)
{
    weft_module *m;
    weft_placement p[WEFT_MAX_AXES];
    static const char *const names[] = {"weight", "bias"};

    weft_manual_seed(seed);
    m = weft_linear_new((weft_linear_config){.in = {10}, .out = {7}});
    if (weft_placements_on(p, mesh, placements) != WEFT_OK) return NULL;
    for (int i = 0; i < 2; i++)
        weft_module_set_parameter(
            m, names[i], weft_distribute_tensor(weft_module_parameter(m, names[i]), mesh, p, -1));
    return m;
}

/* Saves with `seed` 1; else loads, and compares with that. */
static int work(const struct job *job, bool save)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_scope *scope = weft_scope_open();
    weft_module *m = model(mesh, job->placements, save ? 1 : 2);
    weft_optim *optim = weft_adamw(m, (weft_adamw_config){.lr = 0.1});
    weft_state *state = weft_state_new();
    int64_t step = save ? 12 : 0;
    weft_status status = weft_state_add_module(state, "m", m);

    if (status == WEFT_OK) status = weft_state_add_optim(state, "o", optim, m);
    if (status == WEFT_OK) status = weft_state_add_int(state, "step", &step);
    if (status == WEFT_OK)
        status =
            save ? weft_checkpoint_save(job->path, state) : weft_checkpoint_load(job->path, state);
    if (status == WEFT_OK && !save) {
        weft_module *want = model(mesh, "R", 1);

        if (step != 12 ||
            !wt_near_tensors(weft_module_parameter(m, "weight"),
                             weft_module_parameter(want, "weight"), WT_EXACT) ||
            !wt_near_tensors(weft_module_parameter(m, "bias"), weft_module_parameter(want, "bias"),
                             WT_EXACT))
            status = WEFT_ERR_STATE;
        weft_module_release(want);
    }
    weft_state_release(state);
    weft_optim_release(optim);
    weft_module_release(m);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return status != WEFT_OK;
}

static int save(void *payload) { return work(payload, true); }
static int load(void *payload) { return work(payload, false); }

WT_UNIT(worlds__any_number_of_ranks_loads_what_any_other_saved)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    static const char *const placements[] = {"R", "S(0)", "S(0,balanced)", "SS(0,3)"};
    enum { N = sizeof sizes / sizeof sizes[0] };
    char path[256];
    struct job job = {.path = path};

    snprintf(path, sizeof path, "%s", wt_scratch("worlds"));
    for (int i = 0; i < N * N; i++) {
        job.placements = placements[i % 4];
        ck_assert_msg(weft_run(sizes[i / N], save, &job) == 0, "%d save: %s", sizes[i / N],
                      weft_error_message());
        job.placements = placements[i / 3 % 4];
        ck_assert_msg(weft_run(sizes[i % N], load, &job) == 0, "%d to %d: %s", sizes[i / N],
                      sizes[i % N], weft_error_message());
    }
}

int main(void) { return wt_scratch_end(wt_unit_main("worlds")); }
