/*
 * main.c: weft-styles, the regression suite of the styles.
 *
 *     weft-styles --ranks 1,2,4 --matrix     on threads of this process
 *     mpiexec -n 8 weft-styles               on processes
 *
 * Here are the meshes, the loop over cases and the self-test. Rows are in rows.def, the rest is
 * listed in suite.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "suite.h"

/* What all ranks share; written by the first alone. */
struct session {
    const struct options *options;
    struct ws_results results;
    int64_t spoiled[WS_SPOILS]; /* cases of the self-test in which there was such a thing */
};

static const char *const spoils[WS_SPOILS] = {
    [WS_SPOIL_NOTHING] = "nothing",
#define WS_SPOIL(id, name) [WS_SPOIL_##id] = name,
#include "rows.def"
#undef WS_SPOIL
};

enum { SHOWN = 20 }; /* failures that are told in full */

/* ---- meshes ---- */

/* The axis that styles run along: tp, else the last. */
static weft_mesh *style_axis(weft_mesh *mesh)
{
    const char *name = weft_mesh_axis(mesh, "tp") >= 0
                           ? "tp"
                           : weft_mesh_axis_name(mesh, weft_mesh_ndim(mesh) - 1);

    return weft_mesh_sub(mesh, name);
}

static weft_status add_mesh(struct ws_run *run, int value, weft_mesh *mesh)
{
    int first = 0;

    if (!mesh) return weft_error_status();
    run->tp[value] = style_axis(mesh);
    weft_mesh_release(mesh);
    if (!run->tp[value]) return weft_error_status();
    weft_mesh_group_ranks(run->tp[value], 0, &first, 1);
    run->grid.ways[value] = weft_mesh_size(run->tp[value]);
    run->source[value] = (struct ws_source){run->seed, first};
    return WEFT_OK;
}

/* The meshes of the rows, or the user's own. */
static weft_status add_meshes(struct ws_run *run, const struct options *o)
{
    int n = run->grid.ranks;
    weft_mesh *own;

    if (o->mesh) {
        own = weft_mesh_new(o->device, "%s", o->mesh);
        if (own && weft_mesh_size(own) != n) {
            if (weft_world_rank() == 0)
                fprintf(stderr, "weft-styles: --mesh %s has %d ranks, there are %d\n", o->mesh,
                        weft_mesh_size(own), n);
            weft_mesh_release(own);
            return WEFT_ERR_ARG;
        }
        return add_mesh(run, own && weft_mesh_ndim(own) > 1, own);
    }
    if (add_mesh(run, 0, weft_mesh_new(o->device, "tp=%d", n)) != WEFT_OK)
        return weft_error_status();
    if (n < 4 || n % 2) return WEFT_OK;
    return add_mesh(run, 1, weft_mesh_new(o->device, "dp=2,tp=%d", n / 2));
}

/* ---- one case ---- */

static void show(const struct ws_run *run, const struct ws_case *c, const struct options *o)
{
    char name[WS_NAME], mesh[128] = "", seed[32] = "", launch[64];

    ws_case_name(name, c, &run->grid);
    if (o->mesh) snprintf(mesh, sizeof mesh, " --mesh %s", o->mesh);
    if (o->seed != 1) snprintf(seed, sizeof seed, " --seed %" PRIu64, o->seed);
    snprintf(launch, sizeof launch,
             o->n_ranks ? "weft-styles --ranks %d" : "mpiexec -n %d weft-styles", run->grid.ranks);
    printf("FAILED %s\n    rank %d: %s\n    again: %s%s%s%s --filter '%s'\n", name,
           weft_world_rank(), run->failure, launch, mesh, seed,
           run->whole     ? " --compile=whole"
           : run->compile ? " --compile"
                          : "",
           name);
    fflush(stdout);
}

static void run_case(struct ws_run *run, const struct ws_case *c, struct session *session)
{
    struct ws_results *results = &session->results;
    static _Thread_local int shown;
    int rank;
    bool passed = ws_try(run, c, &rank);

    if (!passed && shown++ < SHOWN && weft_world_rank() == rank) show(run, c, session->options);
    if (weft_world_rank() == 0) ws_results_add(results, c, passed);
}

/* Did any rank spoil what it was told to? */
static bool any_spoiled(const struct ws_run *run)
{
    int32_t spoiled = run->spoiled;
    weft_tensor *any = weft_from_data(WEFT_I32, NULL, 0, &spoiled);

    return weft_item(weft_mesh_all_reduce(any, WEFT_MAX, run->world, 0)) != 0;
}

/* A case must pass as it is, and fail in every way in which something in it is spoiled. */
static void test_case(struct ws_run *run, const struct ws_case *c, struct session *session)
{
    char name[WS_NAME];

    ws_case_name(name, c, &run->grid);
    for (int spoil = 0; spoil < WS_SPOILS; spoil++) {
        bool passed, spoiled;
        int rank;

        run->spoil = (enum ws_spoil)spoil;
        passed = ws_try(run, c, &rank);
        spoiled = any_spoiled(run);
        if (weft_world_rank() != 0) continue;
        if (passed == spoiled)
            printf("FAILED self-test of %s: spoiled is %s, and it %s\n", name, spoils[spoil],
                   passed ? "passed" : "failed");
        if (spoil && !spoiled) continue;
        session->spoiled[spoil]++;
        ws_results_add(&session->results, c, passed != spoiled);
    }
    run->spoil = WS_SPOIL_NOTHING;
}

/* ---- all of them ---- */

static void list(const struct ws_case *cases, int count, const struct ws_grid *grid)
{
    char name[WS_NAME];

    for (int i = 0; i < count && weft_world_rank() == 0; i++) {
        ws_case_name(name, &cases[i], grid);
        puts(name);
    }
}

static void run_cases(struct ws_run *run, struct session *session)
{
    const struct options *o = session->options;
    ws_absences absent = {{0}};
    int count;
    struct ws_case *cases = ws_cases(&count, absent, &run->grid, o->filter, o->pairs);

    if (weft_world_rank() == 0)
        for (int r = 0; r < WS_REASONS; r++)
            for (int s = 0; s < WS_SUBJECTS; s++) session->results.absent[r][s] += absent[r][s];
    if (o->list)
        list(cases, count, &run->grid);
    else
        for (int i = 0; i < count; i++) {
            weft_scope *scope = weft_scope_open();

            (o->self_test ? test_case : run_case)(run, &cases[i], session);
            weft_scope_close(scope);
        }
    free(cases);
    if (o->n_ranks > 1 && !o->list && weft_world_rank() == 0) {
        printf("%d ranks: %d cases\n", run->grid.ranks, count);
        fflush(stdout);
    }
}

/* What every rank does. */
static int run_ranks(void *payload)
{
    struct session *session = payload;
    struct ws_run run = {.grid.ranks = weft_world_size(),
                         .seed = session->options->seed,
                         .compile = session->options->compile,
                         .whole = session->options->whole};
    weft_status status;

    run.world = weft_mesh_new(session->options->device, "all=%d", run.grid.ranks);
    status = run.world ? add_meshes(&run, session->options) : weft_error_status();
    if (status == WEFT_OK) status = weft_default_mesh_open(run.world);
    if (status == WEFT_OK) {
        run_cases(&run, session);
        weft_default_mesh_close(run.world);
    }
    if (weft_error_status() != WEFT_OK && weft_world_rank() == 0)
        fprintf(stderr, "weft-styles: %s\n", weft_error_message());
    ws_reference_clear(&run.reference);
    for (int i = 0; i < 2; i++) weft_mesh_release(run.tp[i]);
    weft_mesh_release(run.world);
    return status == WEFT_OK && weft_error_status() == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* What the self-test spoiled, how often; false when there was nothing of some kind. */
static bool report_self_test(const struct session *session)
{
    bool all = true;

    for (int i = 1; i < WS_SPOILS; i++) {
        printf("spoiled %" PRId64 " times: %s\n", session->spoiled[i], spoils[i]);
        all &= session->spoiled[i] > 0;
    }
    return all;
}

static int report(const struct session *session)
{
    const struct ws_results *results = &session->results;
    int64_t all = results->passed + results->failed;
    bool complete = !session->options->self_test || report_self_test(session);

    if (session->options->matrix) ws_matrix_print(results);
    printf("%s%" PRId64 " cases, %" PRId64 " passed\n", session->options->matrix ? "\n" : "", all,
           results->passed);
    if (!all) fprintf(stderr, "weft-styles: no case is named so\n");
    return all && complete && !results->failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_threads(struct session *session)
{
    const struct options *o = session->options;
    int code = EXIT_SUCCESS;

    for (int i = 0; i < o->n_ranks && code == EXIT_SUCCESS; i++)
        code = weft_run(o->ranks[i], run_ranks, session);
    return code || o->list ? code : report(session);
}

/* What every process does; the first one reports. */
static int run_process(struct session *session)
{
    int code = run_ranks(session);

    if (code || session->options->list || weft_world_rank() != 0) return code;
    return report(session);
}

/* A mistake in the command line, or --help: told once, by the first rank. */
static int explain(struct options *o, bool right, int argc, char **argv)
{
    if (weft_world_rank() != 0) return right ? EXIT_SUCCESS : EXIT_FAILURE;
    if (right)
        options_help(argv[0]);
    else
        options_read(o, argc, argv, true);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static struct options o;
    static struct session session = {.options = &o};
    bool right = options_read(&o, argc, argv, false);
    int code, ended;

    if (right && !o.help && o.n_ranks) return run_threads(&session);
    WEFT_CHECK(weft_init(&argc, &argv));
    code = right && !o.help ? run_process(&session) : explain(&o, right, argc, argv);
    ended = weft_finalize();
    return code ? code : ended;
}
