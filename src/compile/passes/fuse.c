/* fuse.c: kernels that run one after another on a piece of their operands at a time. */
#include "base/mem.h"
#include "compile/replay/fused.h"

struct wf_fused {
    int n;
};

void wf_fused_run(const struct wf_op_list *list, const struct wf_list_node *node,
                  const struct wf_program_run *run)
{
    (void)list;
    (void)node;
    (void)run;
}

void wf_fused_free(struct wf_fused *fused) { wf_free(fused); }
