/* to_mesh_run.c: carries out the exchange between two meshes, or says what it would
 * be. */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/pool.h"
#include "redistribute/program.h"
#include "redistribute/to_mesh_plan.h"

static const char label[] = "between meshes"; /* of the communicator, in the ledger and in errors */

void wf_to_mesh_plan_free(void *plan)
{
    struct wf_to_mesh_plan *b = plan;

    if (b->program) wf_redist_program_free(b->program);
    wf_free(b->send_counts);
    wf_free(b->recv_counts);
    wf_free(b->ranks);
    wf_free(b);
}

/* ---- running it ---- */

/* Peers may wait already: without memory the job ends. */
static struct wf_block *alloc_packed_buffer(const struct wf_to_mesh_plan *b, const size_t *counts)
{
    struct wf_block *block;
    size_t elements = 0;

    for (int i = 0; i < b->n_ranks; i++) elements += counts[i];
    block = wf_block_new_on(b->device, elements * wf_dtypes[b->dtype].size, WF_MEM_COMM);
    if (!block) WF_DIE("redistribute to mesh: %s", weft_error_message());
    return block;
}

static void run_copy_action(const struct wf_to_mesh_plan *b, int action, void *dst, const void *src)
{
    const struct wf_redist_action *a = &b->program->actions[action];

    for (int i = 0; i < a->n_copies; i++)
        wf_device_strided_copy(b->device, &a->copies[i], dst, src);
}

static struct wf_coll all_to_all_of_plan(const struct wf_to_mesh_plan *b)
{
    return (struct wf_coll){.kind = WEFT_COLL_ALL_TO_ALL,
                            .device = b->device,
                            .dtype = b->dtype,
                            .send_counts = b->send_counts,
                            .recv_counts = b->recv_counts};
}

/* Own elements are copied while the others travel. */
void wf_to_mesh_run(const struct wf_to_mesh_plan *b, void *dst, const void *src)
{
    struct wf_coll coll = all_to_all_of_plan(b);
    struct wf_block *packed, *got;

    if (b->n_ranks == 0) return;
    if (!b->moves) {
        run_copy_action(b, WF_TO_MESH_COPY_OWN, dst, src);
        return;
    }
    packed = alloc_packed_buffer(b, b->send_counts);
    got = alloc_packed_buffer(b, b->recv_counts);
    coll.comm = wf_comm_for_ranks(b->ranks, b->n_ranks, label);
    coll.send = packed->data;
    coll.recv = got->data;
    run_copy_action(b, WF_TO_MESH_PACK, packed->data, src);
    wf_comm_start(&coll);
    run_copy_action(b, WF_TO_MESH_COPY_OWN, dst, src);
    wf_comm_wait(&coll);
    run_copy_action(b, WF_TO_MESH_UNPACK, dst, got->data);
    wf_block_release(packed);
    wf_block_release(got);
}

void wf_to_mesh_simulate(const struct wf_to_mesh_plan *b)
{
    struct wf_coll coll = all_to_all_of_plan(b);
    int me = 0;

    if (b->n_ranks == 0 || !b->moves) return;
    while (b->ranks[me] != b->me) me++;
    wf_comm_report_simulated(&coll, label, b->n_ranks, me);
}
