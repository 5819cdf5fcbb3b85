/* captured_draws.c: the draws of a captured step as the first and the last of its changing calls.
 */
#include "ops/fills/captured_draws.h"

#include "device/capture.h"
#include "random/step_draws.h"

static _Thread_local struct wf_step_draws *of_capture;

static void begin_again(void *draws, int by)
{
    if (by > 0) (void)wf_step_draws_begin_again(draws);
}

/* The last call: nothing behind it fails. */
static void end_again(void *draws, int by)
{
    if (by > 0) wf_step_draws_advance(draws);
}

static void release_draws(void *draws) { wf_step_draws_free(draws); }

struct wf_step_draws *wf_captured_draws_begin(void)
{
    of_capture = wf_step_draws_begin();
    wf_capture_add_call((struct wf_changing_call){
        .advance = begin_again, .release = release_draws, .self = of_capture});
    return of_capture;
}

void wf_captured_draws_end(struct wf_step_draws *draws)
{
    const char *why = wf_step_draws_end(draws);

    of_capture = NULL;
    if (why) wf_capture_forbid("%s", why);
    wf_capture_add_call((struct wf_changing_call){.advance = end_again, .self = draws});
}

const char *wf_captured_draws_differ(struct wf_step_draws *draws)
{
    return wf_step_draws_begin_again(draws);
}

bool wf_captured_draw_find(const struct wf_scalars *scalars, struct wf_captured_draw *found)
{
    struct wf_step_draw draw;

    if (!of_capture ||
        !wf_step_draws_find(of_capture, (uint64_t)scalars->v[0], (uint64_t)scalars->v[1], &draw))
        return false;
    *found = (struct wf_captured_draw){of_capture, draw.generator, draw.before};
    return true;
}

void wf_captured_draw_set(const struct wf_captured_draw *draw, struct wf_scalars *scalars)
{
    struct wf_step_draw which = {draw->generator, draw->before};
    uint64_t seed, number;

    wf_step_draws_numbers(draw->draws, which, &seed, &number);
    scalars->v[0] = (int64_t)seed;
    scalars->v[1] = (int64_t)number;
}
