/*
 * alias_version.c: versions of blocks that are one storage to the program.
 *
 * Where an op may hand on its input's bytes or must copy them follows from strides, which differ
 * between ranks. A rank that copied keeps both blocks in a ring, in which a write to one counts for
 * all: what backward refuses follows from the calls alone. Rings are short and seldom.
 */
#include "base/recorder.h"
#include "device/pool.h"

void wf_block_share_version(struct wf_block *of, struct wf_block *copy)
{
    if (!(of->flags & WF_BLOCK_ALIASED)) of->next = of;
    copy->next = of->next;
    of->next = copy;
    of->flags |= WF_BLOCK_ALIASED;
    copy->flags |= WF_BLOCK_ALIASED;
    copy->flags |= of->flags & WF_BLOCK_WRAPPED; /* a rank that needs no copy has the mark, too */
}

void wf_block_record_write(struct wf_block *block, const char *op)
{
    struct wf_block *b = block;

    if (wf_recorder) wf_recorder->block_written(wf_recorder, block, op);
    do {
        b->version++;
        b->writer = op;
        b = b->flags & WF_BLOCK_ALIASED ? b->next : block;
    } while (b != block);
}

void wf_block_unshare_version(struct wf_block *block)
{
    struct wf_block *before = block->next;

    while (before->next != block) before = before->next;
    before->next = block->next;
    block->flags &= (uint8_t)~WF_BLOCK_ALIASED;
    if (before->next == before) before->flags &= (uint8_t)~WF_BLOCK_ALIASED;
}
