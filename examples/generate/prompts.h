/* prompts.h: the texts to go on from, as one array of tokens, padded on the left to equal lengths.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "text.h"

struct prompts {
    int count;
    int64_t longest;
    int64_t *lengths; /* [count] */
    int32_t *ids;     /* [count][longest], the prompt last in its row */
};

/** The tokens of texts or of numbers between blanks, whichever there are. False with a sentence in
 *  `problem`; prompts_free frees what there is. */
bool prompts_read(struct prompts *p, const struct text *text, const struct texts *texts,
                  const struct texts *numbers, int64_t vocab, char *problem, int room);

/** Rank 0's to all ranks along axis 0; `good` says there whether it has them. */
weft_status prompts_share(struct prompts *p, bool good, weft_mesh *mesh);

void prompts_free(struct prompts *p);

/** The row of one / how many of its first elements are no tokens of it. */
const int32_t *prompts_row(const struct prompts *p, int64_t which);
int64_t prompts_padding(const struct prompts *p, int64_t which);

/** Some are padded. */
bool prompts_differ(const struct prompts *p);
