/*
 * tape_saved_shards.c: tensors saved for backward that are replicated along a mesh axis are stored
 * as one shard per rank.
 *
 * Which tensors, how they are sharded and gathered is decided in dtensor/convert/saved_shards.c;
 * when is decided here. A vjp sees gathered tensors, which live as long as it runs.
 */
#include <string.h>

#include "autograd/tape.h"
#include "base/mem.h"
#include "tensor/scope.h"

struct wf_saved_shards {
    weft_mesh *mesh;
    uint32_t slots;                         /* bits of saved tensors that are shards, */
    struct wf_layout *whole[WF_NODE_SAVED]; /* of tensors with this layout */
};

weft_scope *weft_saved_shards_open(weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();

    wf_scope_set_saved_shard_mesh(mesh);
    return scope;
}

void wf_tape_node_shard_saved(struct wf_tape_node *node)
{
    weft_mesh *mesh = wf_scope_saved_shard_mesh();

    if (!mesh) return;
    for (uint32_t left = node->saved_slots; left; left &= left - 1) {
        int slot = __builtin_ctz(left);
        struct wf_layout *whole;
        weft_tensor *t = node->saved[slot],
                    *shard = t ? wf_saved_tensor_to_shard(t, mesh, &whole) : NULL;

        if (!shard) continue;
        if (!node->saved_shards) {
            node->saved_shards = WF_NEW(struct wf_saved_shards);
            node->saved_shards->mesh = weft_mesh_retain(mesh);
        }
        node->saved_shards->slots |= 1u << slot;
        node->saved_shards->whole[slot] = wf_layout_retain(whole);
        wf_tape_node_save(node, slot, shard);
        weft_release(t);
    }
}

void wf_tape_node_run_gathered(struct wf_tape_node *node, weft_tensor **in_grads)
{
    const struct wf_saved_shards *shards = node->saved_shards;
    weft_tensor *kept[WF_NODE_SAVED];
    bool good = true;

    memcpy(kept, node->saved, sizeof kept);
    for (uint32_t left = shards->slots; left && good; left &= left - 1) {
        int slot = __builtin_ctz(left);
        weft_tensor *whole =
            wf_saved_tensor_from_shards(kept[slot], shards->mesh, shards->whole[slot]);

        good = whole != NULL;
        node->saved[slot] = whole;
    }
    if (good) node->vjp(node, node->grad, in_grads);
    memcpy(node->saved, kept, sizeof kept);
}

void wf_saved_shards_free(struct wf_saved_shards *shards)
{
    if (!shards) return;
    for (uint32_t left = shards->slots; left; left &= left - 1)
        wf_layout_release(shards->whole[__builtin_ctz(left)]);
    weft_mesh_release(shards->mesh);
    wf_free(shards);
}
