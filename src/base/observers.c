/* observers.c: the thread's list of observers. */
#include "base/observers.h"

#include "base/error.h"

enum { MAX_OBSERVERS = 9 };

static _Thread_local struct {
    unsigned mask;
    wf_observer *observer;
    void *payload;
} observers[MAX_OBSERVERS];

_Thread_local unsigned wf_observed_events;

static void update_event_mask(void)
{
    wf_observed_events = 0;
    for (int i = 0; i < MAX_OBSERVERS; i++) wf_observed_events |= observers[i].mask;
}

int wf_observer_add(unsigned mask, wf_observer *observer, void *payload)
{
    for (int i = 0; i < MAX_OBSERVERS; i++) {
        if (observers[i].mask) continue;
        observers[i].mask = mask;
        observers[i].observer = observer;
        observers[i].payload = payload;
        update_event_mask();
        return i;
    }
    WF_DIE("more than %d observers on one rank", MAX_OBSERVERS);
}

void wf_observer_remove(int handle)
{
    observers[handle].mask = 0;
    update_event_mask();
}

void wf_notify_observers(const struct wf_event *event)
{
    for (int i = 0; i < MAX_OBSERVERS; i++)
        if (observers[i].mask & (unsigned)event->kind)
            observers[i].observer(event, observers[i].payload);
}
