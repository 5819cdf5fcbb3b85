/* checkpoint.h: what saving and loading share. */
#pragma once

#include <weft/checkpoint.h>

/** A checkpoint is a folder of the file system. fails: WEFT_ERR_ARG for anything else */
weft_status wf_checkpoint_path(const char *path);
