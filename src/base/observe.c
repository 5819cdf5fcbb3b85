/* observe.c: the thread's list of listeners. */
#include "base/observe.h"

#include "base/error.h"

enum { MAX_OBSERVERS = 9 };

static _Thread_local struct {
    unsigned mask;
    wf_observer *observer;
    void *payload;
} observers[MAX_OBSERVERS];

_Thread_local unsigned wf_observed;

static void refresh(void)
{
    wf_observed = 0;
    for (int i = 0; i < MAX_OBSERVERS; i++) wf_observed |= observers[i].mask;
}

int wf_observe_add(unsigned mask, wf_observer *observer, void *payload)
{
    for (int i = 0; i < MAX_OBSERVERS; i++) {
        if (observers[i].mask) continue;
        observers[i].mask = mask;
        observers[i].observer = observer;
        observers[i].payload = payload;
        refresh();
        return i;
    }
    WF_DIE("more than %d observers on one rank", MAX_OBSERVERS);
}

void wf_observe_remove(int handle)
{
    observers[handle].mask = 0;
    refresh();
}

void wf_observe(const struct wf_event *event)
{
    for (int i = 0; i < MAX_OBSERVERS; i++)
        if (observers[i].mask & (unsigned)event->kind)
            observers[i].observer(event, observers[i].payload);
}
