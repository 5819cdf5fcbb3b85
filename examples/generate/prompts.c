/* prompts.c: see prompts.h. */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

#include "common/say.h"

const int32_t *prompts_row(const struct prompts *p, int64_t which)
{
    return p->ids + which * p->longest;
}

int64_t prompts_padding(const struct prompts *p, int64_t which)
{
    return p->longest - p->lengths[which];
}

bool prompts_differ(const struct prompts *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->lengths[i] != p->longest) return true;
    return false;
}

void prompts_free(struct prompts *p)
{
    free(p->lengths);
    free(p->ids);
    *p = (struct prompts){0};
}

/* Room for `count` prompts of these lengths; what is not written is token 0. */
static void make_room(struct prompts *p, int count, const int64_t *lengths)
{
    p->count = count;
    p->longest = 0;
    p->lengths = room_for((size_t)count, sizeof *p->lengths);
    for (int i = 0; i < count; i++) {
        p->lengths[i] = lengths[i];
        if (lengths[i] > p->longest) p->longest = lengths[i];
    }
    p->ids = room_for((size_t)(count * p->longest), sizeof *p->ids);
    memset(p->ids, 0, (size_t)(count * p->longest) * sizeof *p->ids);
}

bool prompts_read(struct prompts *p, const struct text *text, const struct texts *texts,
                  const struct texts *numbers, int64_t vocab, char *problem, int room)
{
    int count = texts->count ? texts->count : numbers->count;
    int32_t *ids[MOST_TEXTS] = {0};
    int64_t lengths[MOST_TEXTS] = {0};
    bool good = true;

    for (int i = 0; i < count && good; i++) {
        lengths[i] = texts->count
                         ? text_tokens(text, texts->items[i], vocab, &ids[i], problem, room)
                         : text_numbers(numbers->items[i], vocab, &ids[i], problem, room);
        good = lengths[i] > 0;
    }
    if (good) make_room(p, count, lengths);
    for (int i = 0; i < count; i++) {
        if (good)
            memcpy(p->ids + i * p->longest + prompts_padding(p, i), ids[i],
                   (size_t)lengths[i] * sizeof *p->ids);
        free(ids[i]);
    }
    return good;
}

/* How many there are and how long: 0 prompts where rank 0 has none. */
static weft_status share_lengths(struct prompts *p, bool good, weft_mesh *mesh)
{
    int64_t shape[] = {MOST_TEXTS + 1}, said[MOST_TEXTS + 1] = {0};
    weft_status status;
    weft_tensor *all;

    for (int i = 0; good && i < p->count; i++) said[1 + i] = p->lengths[i];
    if (good) said[0] = p->count;
    all = weft_from_data(WEFT_I64, shape, 1, said);
    status = weft_mesh_broadcast(all, mesh, 0, 0);
    if (status != WEFT_OK) return status;
    memcpy(said, weft_data(all), sizeof said);
    if (said[0] == 0) return WEFT_ERR_ARG;
    if (p->count == 0) make_room(p, (int)said[0], said + 1);
    return WEFT_OK;
}

weft_status prompts_share(struct prompts *p, bool good, weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = share_lengths(p, good, mesh);

    if (status == WEFT_OK) {
        weft_tensor *ids = weft_from_data(WEFT_I32, (int64_t[]){p->count, p->longest}, 2, p->ids);

        status = weft_mesh_broadcast(ids, mesh, 0, 0);
        if (status == WEFT_OK)
            memcpy(p->ids, weft_data(ids), (size_t)(p->count * p->longest) * sizeof *p->ids);
    }
    weft_scope_close(scope);
    return status;
}
