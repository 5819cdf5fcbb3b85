/* weft.c: start and end. The one file that sees every layer and wires them together. */
#include <weft/weft.h>

#include "autograd/tape.h"
#include "base/call_context.h"
#include "base/error.h"
#include "base/settings/knob.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/pool.h"
#include "dtensor/convert/init.h"
#include "dtensor/convert/placement_lists.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/registration/registry.h"
#include "kernels/kernels.h"
#include "mesh/mesh.h"
#include "random/generator.h"
#include "tensor/tensor.h"

static void init_process_globals(void)
{
    wf_knobs_read();
    wf_kernels_init_with_dnnl();
    wf_dtensor_init();
    wf_mesh_set_change_hook(wf_plan_cache_evict_all);
}

/* What a rank leaves behind, in the order in which it can go: tensors, tape, plans, bytes. */
static void finalize_rank_thread(void)
{
    wf_tensor_finalize();
    wf_autograd_finalize();
    wf_plan_cache_finalize();
    wf_placement_lists_finalize();
    wf_registry_finalize();
    wf_mesh_finalize();
    wf_comm_close_on_device();
    wf_pool_finalize();
    wf_device_finalize();
    wf_generator_finalize();
    wf_module_paths_finalize();
}

weft_status weft_init(int *argc, char ***argv)
{
    init_process_globals();
    return wf_comm_init(argc, argv);
}

weft_status weft_init_mpi(int comm)
{
    init_process_globals();
    return wf_comm_init_mpi(comm);
}

int weft_finalize(void)
{
    int failed = weft_error_status() != WEFT_OK;

    if (wf_comm_is_rank_thread()) {
        WF_FAIL(WEFT_ERR_STATE, "finalize: this is a rank of weft_run; return from its body");
        return 1;
    }
    wf_tensor_finalize();
    wf_autograd_finalize();
    wf_plan_cache_finalize();
    wf_placement_lists_finalize();
    wf_registry_finalize();
    wf_mesh_finalize();
    wf_comm_close_on_device();
    wf_comm_finalize();
    wf_pool_finalize();
    wf_device_finalize();
    wf_generator_finalize();
    wf_module_paths_finalize();
    return failed;
}

int weft_run(int ranks, int (*body)(void *payload), void *payload)
{
    init_process_globals();
    wf_comm_set_thread_hooks(NULL, finalize_rank_thread);
    return wf_comm_run_rank_threads(ranks, body, payload);
}
