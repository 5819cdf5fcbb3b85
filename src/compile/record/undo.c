/* undo.c: copies of what a call changes, made before the first change of each. */
#include "compile/record/undo.h"

#include <string.h>

#include "autograd/tape.h"
#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
#include "random/generator.h"

/* ---- what is kept ---- */

struct wf_saved_block {
    struct wf_block *block; /* one reference */
    void *bytes;
    uint32_t version;
};

/* One that nobody else holds is not held here either: whether backward adds to it in place depends
 * on that. */
struct wf_saved_gradient {
    weft_tensor *leaf;        /* one reference */
    weft_tensor *held;        /* one reference; NULL: the leaf alone had it, or had none */
    struct wf_layout *layout; /* one reference; NULL: it had none */
    const weft_tensor *was;   /* compared, not read */
    void *bytes;              /* of its block */
    int64_t n_bytes, offset;
    bool reduced, all_reduced; /* of the leaf's state and its hook */
};

struct wf_saved_generator {
    weft_generator *g; /* one reference, but for the current one */
    uint64_t seed, draw;
};

static void *copy_of(const struct wf_block *block)
{
    void *bytes = wf_malloc((size_t)block->bytes + 1);

    wf_device_download(wf_block_device(block), bytes, block->data, (size_t)block->bytes, "warm-up");
    return bytes;
}

static void save_generator(weft_generator *g, void *payload)
{
    struct wf_undo *undo = payload;

    undo->generators =
        wf_array_grow(undo->generators, undo->n_generators, sizeof *undo->generators);
    undo->generators[undo->n_generators] = (struct wf_saved_generator){
        undo->n_generators ? weft_generator_retain(g) : g, g->seed, g->draw};
    undo->n_generators++;
}

void wf_undo_begin(struct wf_undo *undo)
{
    *undo = (struct wf_undo){0};
    wf_generator_each(save_generator, undo);
}

void wf_undo_save_block(struct wf_undo *undo, struct wf_block *block)
{
    if (!block->data) return; /* of the meta device */
    for (int i = 0; i < undo->n_blocks; i++)
        if (undo->blocks[i].block == block) return;
    for (int i = 0; i < undo->n_gradients; i++) {
        const weft_tensor *grad = undo->gradients[i].leaf->grad;

        if (grad && grad->block == block) return; /* saved with it */
    }
    undo->blocks = wf_array_grow(undo->blocks, undo->n_blocks, sizeof *undo->blocks);
    undo->blocks[undo->n_blocks++] =
        (struct wf_saved_block){wf_block_retain(block), copy_of(block), block->version};
}

void wf_undo_save_gradient(struct wf_undo *undo, weft_tensor *leaf)
{
    weft_tensor *grad = leaf->grad;
    struct wf_saved_gradient *saved;

    for (int i = 0; i < undo->n_gradients; i++)
        if (undo->gradients[i].leaf == leaf) return;
    undo->gradients = wf_array_grow(undo->gradients, undo->n_gradients, sizeof *undo->gradients);
    saved = &undo->gradients[undo->n_gradients++];
    *saved = (struct wf_saved_gradient){.leaf = weft_retain(leaf), .was = grad};
    if (leaf->grad_state) {
        saved->reduced = leaf->grad_state->reduced;
        saved->all_reduced = leaf->grad_state->hook->reduced;
    }
    if (!grad) return;
    saved->layout = wf_layout_retain(grad->layout);
    saved->n_bytes = grad->block->bytes;
    saved->offset = (char *)grad->data - (char *)grad->block->data;
    saved->bytes = grad->data ? copy_of(grad->block) : NULL;
    if (grad->refs > 1 || !wf_block_is_unshared(grad->block)) saved->held = weft_retain(grad);
}

/* ---- putting it back ---- */

/* Copies that share a version with the block go back as far. */
static void restore_version(struct wf_block *block, uint32_t version)
{
    uint32_t by = block->version - version;
    struct wf_block *b = block;

    do {
        b->version -= by;
        b = b->flags & WF_BLOCK_ALIASED ? b->next : block;
    } while (b != block);
}

static void restore_block(struct wf_saved_block *saved)
{
    wf_device_upload(wf_block_device(saved->block), saved->block->data, saved->bytes,
                     (size_t)saved->block->bytes);
    restore_version(saved->block, saved->version);
    wf_block_release(saved->block);
    wf_free(saved->bytes);
}

/* The gradient is another tensor now, or none. */
static void make_gradient_anew(const struct wf_saved_gradient *saved)
{
    struct wf_block *block = wf_block_new_on((weft_device)saved->layout->desc.device,
                                             (size_t)saved->n_bytes, WF_MEM_GRADIENTS);

    if (!block) WF_DIE("compiled function, warm-up: %s", weft_error_message());
    weft_release(saved->leaf->grad);
    saved->leaf->grad = weft_retain(
        wf_tensor_new(saved->layout, block, (char *)block->data + saved->offset, "gradient"));
}

static bool is_in_its_place(const struct wf_saved_gradient *saved)
{
    const weft_tensor *grad = saved->leaf->grad;

    return grad && grad == saved->was && grad->layout == saved->layout &&
           grad->block->bytes == saved->n_bytes;
}

static void restore_gradient(struct wf_saved_gradient *saved)
{
    weft_tensor *leaf = saved->leaf;

    if (!saved->layout || saved->held) {
        weft_release(leaf->grad);
        leaf->grad = saved->held;
    } else if (saved->bytes && !is_in_its_place(saved)) {
        make_gradient_anew(saved);
    }
    if (saved->bytes && saved->n_bytes)
        wf_device_upload(wf_block_device(leaf->grad->block), leaf->grad->block->data, saved->bytes,
                         (size_t)saved->n_bytes);
    if (leaf->grad_state) {
        leaf->grad_state->reduced = saved->reduced;
        leaf->grad_state->hook->reduced = saved->all_reduced;
    }
    if (saved->layout) wf_layout_release(saved->layout);
    wf_free(saved->bytes);
    weft_release(leaf);
}

void wf_undo_end(struct wf_undo *undo)
{
    for (int i = 0; i < undo->n_blocks; i++) restore_block(&undo->blocks[i]);
    for (int i = undo->n_gradients - 1; i >= 0; i--) /* hooks are as before the first change */
        restore_gradient(&undo->gradients[i]);
    for (int i = 0; i < undo->n_generators; i++) {
        struct wf_saved_generator *saved = &undo->generators[i];

        saved->g->seed = saved->seed;
        saved->g->draw = saved->draw;
        if (i > 0) weft_generator_release(saved->g);
    }
    wf_free(undo->blocks);
    wf_free(undo->gradients);
    wf_free(undo->generators);
    *undo = (struct wf_undo){0};
}
