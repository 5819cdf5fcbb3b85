/* wait.c: waiting on the host for what the device does. */
#include "base/sys.h"
#include "device/capture.h"
#include "device/device.h"

_Thread_local void (*wf_device_while_waiting)(void);

/* The driver looks for faults, once there is nothing left to wait for. */
void wf_device_event_wait(struct wf_device_event *event)
{
    struct wf_backoff patience = {0};

    while (wf_device_while_waiting && !wf_device_driver->event_done(event)) {
        wf_device_while_waiting();
        (void)wf_backoff_wait(&patience);
    }
    wf_device_driver->event_wait(event);
}

void wf_device_synchronize(void)
{
    struct wf_device_event *event;

    if (wf_capture_of_thread) wf_capture_leave("the host waits for the GPU");
    event = wf_device_event_new();
    for (int stream = 0; stream < WF_STREAMS; stream++) {
        wf_device_driver->event_record(event, (enum wf_stream)stream);
        wf_device_event_wait(event);
    }
    wf_device_event_free(event);
    wf_device_driver->synchronize();
}
