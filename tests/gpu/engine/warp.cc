/* warp.cc: lanes of a warp meet; the last to come computes for all. Shuffles and votes. */
#include <string.h>

#include "multiprocessor.h"
#include "sanitizers.h"

namespace engine
{

static const uint32_t undefined_value = 0x7fc0dead; /* a NaN */

/* The gathering that this lane belongs to; a new one when it is the first. */
static gathering &find_gathering(warp &w, meeting &m, unsigned mask)
{
    for (int i = 0; i < w.open_count; i++) {
        gathering &g = w.open[i];

        if (!(g.mask & mask)) continue;
        if (strcmp(g.first->name, m.name) != 0)
            fail("lanes of one warp are in %s and in %s", g.first->name, m.name);
        if (g.mask != mask) fail("lanes of one %s give masks %08x and %08x", m.name, g.mask, mask);
        if (g.first->at.line != m.at.line)
            fail("lanes of one warp meet in different %s, at lines %d and %d", m.name,
                 g.first->at.line, m.at.line);
        return g;
    }
    w.open[w.open_count] = {&m, mask, 0};
    return w.open[w.open_count++];
}

static void finish(multiprocessor &m, thread *base, gathering &g)
{
    lanes all = {{}, g.mask};
    thread *met[warp_size];
    int count = 0;

    for (int i = 0; i < warp_size; i++) {
        if (!(g.mask >> i & 1)) continue;
        all.of[i] = base[i].waits;
        met[count++] = &base[i];
    }
    if (g.first->finish) g.first->finish(all);
    make_ready(m, met, count);
}

void meet_lanes(meeting &meeting)
{
    multiprocessor &m = this_multiprocessor();
    thread *t = m.running;
    warp &w = m.warps[t->warp];
    thread *base = t - t->lane;
    int present = m.thread_count - t->warp * warp_size;
    unsigned mask = meeting.mask & (present < warp_size ? (1u << present) - 1 : ~0u);

    if (!(mask >> t->lane & 1))
        fail("a lane is in %s, whose mask %08x leaves it out", meeting.name, mask);
    t->waits = &meeting;
    gathering &g = find_gathering(w, meeting, mask);
    g.arrived |= 1u << t->lane;
    if (g.arrived == mask) {
        finish(m, base, g);
        g = w.open[--w.open_count];
    }
    wait(m);
}

/* Only __syncwarp orders memory; a shuffle moves its values and nothing else. */
void sync_warp(unsigned mask, place at)
{
    multiprocessor &m = this_multiprocessor();
    char *order = &m.warps[m.running->warp].memory_order[m.set];
    meeting meeting = {"__syncwarp", at, mask};

    tsan_release(order);
    meet_lanes(meeting);
    tsan_acquire(order);
}

/* The lane that lane i reads. */
static int source_lane(const shuffle &s, int i)
{
    int first = i & ~(s.width - 1), from = i;

    switch (s.from) {
    case shuffle::index:
        return first + (s.argument & (s.width - 1));
    case shuffle::exclusive_or:
        from = i ^ s.argument;
        return from < first + s.width ? from : i;
    case shuffle::below:
        from = i + s.argument;
        return from < first + s.width ? from : i;
    default:
        from = i - s.argument;
        return from >= first ? from : i;
    }
}

static void finish_shuffle(const lanes &all)
{
    uint32_t values[warp_size];

    for (int i = 0; i < warp_size; i++)
        values[i] = all.of[i] ? static_cast<shuffle *>(all.of[i])->value : undefined_value;
    for (int i = 0; i < warp_size; i++) {
        shuffle *s = static_cast<shuffle *>(all.of[i]);

        if (s) s->value = values[source_lane(*s, i)];
    }
}

void meet(shuffle &s)
{
    if (s.width < 1 || s.width > warp_size || (s.width & (s.width - 1)))
        fail("%s: width %d", s.name, s.width);
    s.finish = finish_shuffle;
    meet_lanes(s);
}

static void finish_vote(const lanes &all)
{
    unsigned ballot = 0;

    for (int i = 0; i < warp_size; i++)
        if (all.of[i] && static_cast<vote *>(all.of[i])->predicate) ballot |= 1u << i;
    for (int i = 0; i < warp_size; i++)
        if (all.of[i]) static_cast<vote *>(all.of[i])->ballot = ballot;
}

void meet(vote &v)
{
    v.finish = finish_vote;
    meet_lanes(v);
}

void fence()
{
    thread *t = this_multiprocessor().running;

    t->fenced = true;
    if (t->last_atomic) tsan_acquire(t->last_atomic);
}

/* An atomic operation publishes what its thread wrote before a fence. */
void before_atomic(void *p)
{
    if (this_multiprocessor().running->fenced) tsan_release(p);
}

/* The fence after it is often left out by a thread that reads on; a block's barrier comes then. */
void after_atomic(void *p)
{
    thread *t = this_multiprocessor().running;

    t->last_atomic = p;
    if (t->fenced) tsan_acquire(p);
}

} // namespace engine
