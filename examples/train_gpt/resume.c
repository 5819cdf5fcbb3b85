/* resume.c: one list of what belongs to a run, saved and loaded. */
#include "resume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/say.h"

bool progress_folder(const struct options *o, char *problem, int room)
{
    const char *folder = o->checkpoint;

    if (!folder || weft_world_rank() != 0) return true;
    if ((o->resume || mkdir(folder, 0777) == 0 || errno == EEXIST) &&
        access(folder, W_OK | X_OK) == 0)
        return true;
    snprintf(problem, (size_t)room, "cannot save to %s: %s", folder, strerror(errno));
    return false;
}

static weft_status list(weft_state *state, weft_module *model, weft_optim *optim,
                        struct progress *progress)
{
    weft_status status = weft_state_add_module(state, "model", model);

    if (status == WEFT_OK) status = weft_state_add_optim(state, "optim", optim, model);
    if (status == WEFT_OK) status = weft_state_add_int(state, "step", &progress->step);
    if (status == WEFT_OK) status = weft_state_add_int(state, "seed", &progress->seed);
    if (status == WEFT_OK) status = weft_state_add_int(state, "text.tokens", &progress->tokens);
    return status;
}

weft_status progress_save(const char *folder, weft_module *model, weft_optim *optim,
                          struct progress *progress)
{
    weft_state *state = weft_state_new();
    weft_status status = list(state, model, optim, progress);

    if (status == WEFT_OK) status = weft_checkpoint_save(folder, state);
    weft_state_release(state);
    return status;
}

weft_status progress_load(const char *folder, weft_module *model, weft_optim *optim,
                          struct progress *progress)
{
    weft_state *state = weft_state_new();
    int64_t tokens = progress->tokens;
    weft_status status = list(state, model, optim, progress);

    if (status == WEFT_OK) status = weft_checkpoint_load(folder, state);
    weft_state_release(state);
    if (status != WEFT_OK || tokens == progress->tokens) return status;
    complain("--resume: %s has learned from a text of %lld tokens, this one has %lld", folder,
             (long long)progress->tokens, (long long)tokens);
    return WEFT_ERR_ARG;
}
