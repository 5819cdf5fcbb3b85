/* intern_label.h: axis names for communicators, which outlive the mesh that named them. */
#pragma once

/** The text equal to `name` that lives as long as the process. */
const char *wf_intern_label(const char *name);
