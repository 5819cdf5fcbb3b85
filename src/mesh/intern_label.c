/*
 * intern_label.c: a communicator belongs to the world and keeps its label when the mesh that made
 * it is gone. Labels are few, never change and are never freed, so ranks that are threads share
 * them; the lock is taken when a communicator is made, never afterwards.
 */
#include "mesh/intern_label.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct label {
    struct label *next;
    char *name;
};

static struct label *labels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *wf_intern_label(const char *name)
{
    struct label *l;

    pthread_mutex_lock(&lock);
    for (l = labels; l && strcmp(l->name, name) != 0;) l = l->next;
    if (!l) {
        l = WF_NEW(struct label);
        l->name = wf_strdup(name);
        l->next = labels;
        labels = l;
    }
    pthread_mutex_unlock(&lock);
    return l->name;
}
