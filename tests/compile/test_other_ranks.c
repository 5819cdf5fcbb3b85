/* test_other_ranks.c: a list that some ranks have written runs on others, in the program
 * weft-replay too. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/scratch.h"

static char path[500];

static weft_status product(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    weft_tensor *y = weft_matmul(weft_tanh(in[0]), in[1]);

    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_relu(weft_redistribute(y, (weft_placement[]){weft_replicate()}));
    return out[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *random_matrix(int64_t rows, int64_t columns)
{
    weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){rows, columns}, 2);

    return weft_normal_(t, 0, 1, NULL) == WEFT_OK ? t : NULL;
}

static int write_list(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_scope *scope = weft_scope_open();
    weft_placement columns = weft_shard(1), rows = weft_shard(0);
    weft_tensor *x = random_matrix(5, 7);
    weft_tensor *y = random_matrix(7, 3);
    weft_tensor *in[] = {weft_distribute_tensor(x, mesh, &columns, 0),
                         weft_distribute_tensor(y, mesh, &rows, 0)};
    weft_status status = weft_compile_record(product, NULL, in, 2, 1, path);

    (void)payload;
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return status != WEFT_OK;
}

static int replay_list(void *payload)
{
    FILE *nowhere = fopen("/dev/null", "w");
    int first = 7;
    weft_status status =
        weft_compile_replay_print(path, (weft_compile_check){.f64 = true}, nowhere, &first);

    (void)payload;
    fclose(nowhere);
    return status != WEFT_OK || first != -1;
}

/* B23 */
WT_UNIT(list__runs_on_other_numbers_of_ranks)
{
    snprintf(path, sizeof path, "%s", wt_scratch("other"));
    ck_assert_int_eq(weft_run(2, write_list, NULL), 0);
    for (int ranks = 1; ranks <= 4; ranks++)
        ck_assert_int_eq(weft_run(ranks, replay_list, NULL), 0);
}

/* The program lies above the folder of the tests. */
static int run_program(const char *arguments)
{
    char self[PATH_MAX] = "", command[3 * PATH_MAX];

    ck_assert_int_gt((int)readlink("/proc/self/exe", self, sizeof self - 1), 0);
    *strrchr(self, '/') = 0;
    snprintf(command, sizeof command, "'%s/../weft-replay' %s '%s' > /dev/null 2>&1", self,
             arguments, path);
    return system(command);
}

WT_UNIT(program__runs_a_list)
{
    ck_assert_int_eq(run_program("--ranks 2 --f64"), 0);
    ck_assert_int_eq(run_program("--ranks 3 --passes-off all"), 0);
    ck_assert_int_ne(run_program("--ranks 1 --f64=1e-12"), 0);
    ck_assert_int_ne(run_program("--ranks 1 --backend none"), 0);
    ck_assert_int_ne(run_program("--nonsense"), 0);
}

int main(void) { return wt_scratch_end(wt_unit_main("other_ranks")); }
