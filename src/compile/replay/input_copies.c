/* input_copies.c: which inputs a run updates, and their copies. */
#include "compile/replay/input_copies.h"

#include <string.h>

#include "base/error.h"

static bool is_updated(const struct wf_op_list *list, const struct wf_block *block)
{
    for (int i = 0; i < list->n_split_steps; i++)
        for (int k = 0; k < list->split_steps[i].n_items; k++)
            if (wf_optimizer_item_changes(&list->split_steps[i].items[k], block)) return true;
    return false;
}

static weft_status copy_input(struct wf_input_copies *copies, struct wf_program_run *run, int s,
                              const weft_tensor *in)
{
    struct wf_block *block =
        wf_block_new_on(WEFT_CPU, (size_t)in->block->bytes, WF_MEM_ACTIVATIONS);

    if (!block) return weft_error_status();
    memcpy(block->data, in->block->data, (size_t)in->block->bytes);
    copies->of[copies->n].storage = s;
    copies->of[copies->n].base = run->base[s];
    copies->of[copies->n++].block = block;
    run->base[s] = (char *)block->data + ((char *)in->data - (char *)in->block->data);
    return WEFT_OK;
}

weft_status wf_input_copies_make(struct wf_input_copies *copies, const struct wf_op_list *list,
                                 struct wf_program_run *run, weft_tensor *const *in)
{
    copies->n = 0;
    if (!list->n_split_steps) return WEFT_OK;
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        if (storage->kind != WF_STORAGE_INPUT || !storage->step_passes ||
            !is_updated(list, in[storage->index]->block))
            continue;
        if (copy_input(copies, run, s, in[storage->index]) == WEFT_OK) continue;
        wf_input_copies_release(copies, run);
        return weft_error_status();
    }
    return WEFT_OK;
}

void wf_input_copies_release(struct wf_input_copies *copies, struct wf_program_run *run)
{
    for (int i = 0; i < copies->n; i++) {
        run->base[copies->of[i].storage] = copies->of[i].base;
        wf_block_release(copies->of[i].block);
    }
    copies->n = 0;
}
