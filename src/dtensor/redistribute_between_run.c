/* redistribute_between_run.c: carries out the exchange between two meshes, or says what it would
 * be. */
#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "dtensor/redistribute_between.h"
#include "dtensor/redistribute_program.h"

static const char label[] = "between meshes"; /* of the communicator, in the ledger and in errors */

void wf_between_free(void *between)
{
    struct wf_between *b = between;

    if (b->program) wf_redist_program_free(b->program);
    wf_free(b->send_counts);
    wf_free(b->recv_counts);
    wf_free(b->ranks);
    wf_free(b);
}

static size_t total(const size_t *counts, int n)
{
    size_t sum = 0;

    for (int i = 0; i < n; i++) sum += counts[i];
    return sum;
}

/* ---- running it ---- */

/* Peers may wait already: without memory the job ends. */
static struct wf_block *buffer(const struct wf_between *b, const size_t *counts)
{
    struct wf_block *block =
        wf_block_new(total(counts, b->n_ranks) * wf_dtypes[b->dtype].size, WF_MEM_COMM);

    if (!block) WF_DIE("redistribute to mesh: %s", weft_error_message());
    return block;
}

static void copy(const struct wf_between *b, int action, void *dst, const void *src)
{
    const struct wf_redist_action *a = &b->program->actions[action];

    for (int i = 0; i < a->n_copies; i++) wf_copy_run(&a->copies[i], dst, src);
}

static struct wf_coll collective(const struct wf_between *b)
{
    return (struct wf_coll){.kind = WEFT_COLL_ALL_TO_ALL,
                            .dtype = b->dtype,
                            .send_counts = b->send_counts,
                            .recv_counts = b->recv_counts};
}

/* Own elements are copied while the others travel. */
static void exchange(const struct wf_between *b, void *dst, const void *src)
{
    struct wf_block *packed = buffer(b, b->send_counts), *got = buffer(b, b->recv_counts);
    struct wf_coll coll = collective(b);

    coll.comm = wf_comm_sub(b->ranks, b->n_ranks, label);
    coll.send = packed->data;
    coll.recv = got->data;
    copy(b, WF_BETWEEN_PACK, packed->data, src);
    wf_comm_start(&coll);
    copy(b, WF_BETWEEN_OWN, dst, src);
    wf_comm_wait(&coll);
    copy(b, WF_BETWEEN_UNPACK, dst, got->data);
    wf_block_release(packed);
    wf_block_release(got);
}

void wf_between_run(const struct wf_between *b, void *dst, const void *src)
{
    if (b->n_ranks == 0) return;
    if (b->moves)
        exchange(b, dst, src);
    else
        copy(b, WF_BETWEEN_OWN, dst, src);
}

void wf_between_pretend(const struct wf_between *b)
{
    struct wf_coll coll = collective(b);
    int me = 0;

    if (b->n_ranks == 0 || !b->moves) return;
    while (b->ranks[me] != b->me) me++;
    wf_comm_plan(&coll, label, b->n_ranks, me);
}
