/*
 * gradients.c: leaves' gradients in a list.
 *
 * Each run reads the gradient that its leaf has then, in other bytes than the last one. Gradients
 * of several leaves may lie in one block (a bucket of data parallelism, the gradient of a sum):
 * they have one storage, whose base is the gradient that was noted first, and lie at the same
 * distance from it in each run.
 */
#include "compile/record/gradients.h"

#include "autograd/tape.h"
#include "base/array_grow.h"

static bool gradient_is_recorded(const struct wf_op_list *list, const weft_tensor *leaf)
{
    for (int i = 0; i < list->n_gradients; i++)
        if (list->gradients[i].leaf == leaf) return true;
    return false;
}

static bool gradient_is_shared(const weft_tensor *grad)
{
    return grad->refs != 1 || !wf_block_is_unshared(grad->block);
}

static int add_storage(struct wf_list_recorder *r, const weft_tensor *grad, int gradient)
{
    int s = wf_op_list_add_storage(
        r->list, (struct wf_storage){.kind = WF_STORAGE_GRADIENT,
                                     .category = grad->block->category,
                                     .device = (uint8_t)wf_block_device(grad->block),
                                     .index = gradient,
                                     .bytes = grad->block->bytes,
                                     .base = grad->data});

    wf_block_map_add(&r->blocks, grad->block, s);
    return s;
}

static void record_gradient_storage(struct wf_list_recorder *r, struct wf_list_gradient *gradient,
                                    int i, const weft_tensor *grad)
{
    int s = wf_recording_find(r, grad->block);
    const struct wf_storage *of;

    gradient->before = wf_layout_retain(grad->layout);
    gradient->storage = s >= 0 ? s : add_storage(r, grad, i);
    of = &r->list->storages[gradient->storage];
    /* with another leaf, too, that may have let go by now */
    gradient->was_shared = gradient_is_shared(grad) || (s >= 0 && of->kind == WF_STORAGE_GRADIENT);
    gradient->distance = (const char *)grad->data - of->base;
    if (of->kind != WF_STORAGE_GRADIENT)
        wf_recording_break(r, "a leaf's gradient is also an input, or is read as another tensor");
}

void wf_recording_record_gradient(struct wf_list_recorder *r, weft_tensor *leaf)
{
    struct wf_op_list *list = r->list;
    struct wf_list_gradient *gradient;

    if (gradient_is_recorded(list, leaf)) return;
    list->gradients = wf_array_grow(list->gradients, list->n_gradients, sizeof *list->gradients);
    gradient = &list->gradients[list->n_gradients++];
    *gradient =
        (struct wf_list_gradient){.leaf = weft_retain(leaf),
                                  .at = wf_no_operand(),
                                  .had = leaf->grad != NULL,
                                  .was_reduced = leaf->grad_state && leaf->grad_state->reduced,
                                  .storage = -1,
                                  .hook = wf_leaf_grad_hook(leaf)};
    if (leaf->grad) record_gradient_storage(r, gradient, list->n_gradients - 1, leaf->grad);
}

void wf_recording_finish_gradients(struct wf_list_recorder *r)
{
    struct wf_op_list *list = r->list;
    int n = 0;

    for (int i = 0; i < list->n_gradients; i++) {
        struct wf_list_gradient *gradient = &list->gradients[i];
        struct wf_storage *storage;

        if (gradient->leaf->refs == 1 && gradient->storage < 0) {
            weft_release(gradient->leaf);
            continue;
        }
        if (gradient->leaf->grad_state) {
            gradient->reduced = gradient->leaf->grad_state->reduced;
            gradient->all_reduced = gradient->leaf->grad_state->hook->reduced;
        }
        if (gradient->leaf->grad) gradient->at = wf_recording_operand(r, gradient->leaf->grad);
        storage = gradient->storage >= 0 ? &list->storages[gradient->storage] : NULL;
        if (storage && storage->kind == WF_STORAGE_GRADIENT && storage->index == i)
            storage->index = n;
        list->gradients[n++] = *gradient;
    }
    list->n_gradients = n;
}

/* ---- in a later call ---- */

static bool gradient_storage_matches_recording(const struct wf_op_list *list,
                                               const struct wf_list_gradient *gradient)
{
    const struct wf_storage *storage = &list->storages[gradient->storage];
    const weft_tensor *grad = gradient->leaf->grad, *first;

    if (storage->kind != WF_STORAGE_GRADIENT) return true; /* in segments alone, which compare */
    first = list->gradients[storage->index].leaf->grad;
    return first && first->block == grad->block &&
           (const char *)grad->data - (const char *)first->data == gradient->distance;
}

static bool gradient_matches_recording(const struct wf_op_list *list,
                                       const struct wf_list_gradient *gradient)
{
    const weft_tensor *grad = gradient->leaf->grad;

    if (!grad || !gradient->had) return !grad == !gradient->had;
    return grad->layout == gradient->before && gradient_is_shared(grad) == gradient->was_shared &&
           gradient_storage_matches_recording(list, gradient);
}

const char *wf_recorded_gradients_mismatch(const struct wf_op_list *list)
{
    for (int i = 0; i < list->n_gradients; i++) {
        const struct wf_list_gradient *gradient = &list->gradients[i];

        if (!gradient_matches_recording(list, gradient))
            return gradient->leaf->grad
                       ? "a leaf's gradient is there, or otherwise laid out, when the call begins"
                       : "a leaf's gradient is missing when the call begins";
    }
    for (int i = 0; i < list->n_gradients; i++) {
        const struct wf_list_gradient *gradient = &list->gradients[i];
        const struct wf_grad_state *state = gradient->leaf->grad_state;

        if (wf_leaf_grad_hook(gradient->leaf) != gradient->hook)
            return "another hook, or none, is told of a leaf's gradient";
        if (state && (gradient->had || state->hook->check_before_walk) &&
            state->reduced != gradient->was_reduced)
            return "a leaf's gradient was final when the call began, or is now";
    }
    return NULL;
}
