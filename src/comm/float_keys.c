/* float_keys.c: see float_keys.h. It decides which collectives go by keys. */
#include "comm/float_keys.h"

#include "base/error.h"
#include "comm/backend.h"
#include "device/device.h"

static bool may_lose_a_nan(const struct wf_coll *coll)
{
    return wf_coll_reduces(coll->kind) && (coll->reduce == WEFT_MAX || coll->reduce == WEFT_MIN) &&
           weft_dtype_is_float(coll->dtype);
}

/* Elements that this rank sends; of those, *mine is where what it receives begins in place. */
static size_t count_elements_sent(const struct wf_coll *coll, size_t *mine)
{
    size_t sent = 0;

    *mine = 0;
    if (coll->kind == WEFT_COLL_ALL_REDUCE) return coll->count;
    for (int rank = 0; rank < coll->comm->size; rank++) {
        if (rank == coll->comm->rank) *mine = sent;
        sent += coll->send_counts[rank];
    }
    return sent;
}

static struct wf_block *key_block_or_die(size_t bytes)
{
    struct wf_block *block = wf_block_new_on(WEFT_CUDA, bytes, WF_MEM_COMM);

    if (!block) WF_DIE("a maximum or minimum over ranks: %s", weft_error_message());
    return block;
}

struct wf_float_keys wf_float_keys_make(struct wf_coll *coll)
{
    struct wf_float_keys keys = {.dtype = coll->dtype};
    weft_dtype key = coll->dtype == WEFT_F64 ? WEFT_I64 : WEFT_I32;
    size_t sent, mine;

    if (!may_lose_a_nan(coll) || (sent = count_elements_sent(coll, &mine)) == 0) return keys;
    keys.block = key_block_or_die(sent * weft_dtype_size(key));
    keys.mine = (const char *)keys.block->data + mine * weft_dtype_size(key);
    keys.count = coll->kind == WEFT_COLL_ALL_REDUCE ? sent : coll->send_counts[coll->comm->rank];
    wf_device_driver->keys_of_floats(coll->dtype, coll->reduce == WEFT_MAX, sent, keys.block->data,
                                     coll->send);
    coll->dtype = key;
    coll->send = keys.block->data;
    coll->recv = (char *)keys.block->data + mine * weft_dtype_size(key);
    return keys;
}

void wf_float_keys_read(struct wf_float_keys *keys, void *recv)
{
    if (!keys->block) return;
    if (keys->count) wf_device_driver->floats_of_keys(keys->dtype, keys->count, recv, keys->mine);
    wf_block_release(keys->block);
    keys->block = NULL;
}
