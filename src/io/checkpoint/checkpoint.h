/* checkpoint.h: what saving and loading share. */
#pragma once

#include <weft/checkpoint.h>

/** A checkpoint is a folder of the file system. fails: WEFT_ERR_ARG for anything else */
weft_status wf_checkpoint_check_path(const char *path);

/** The name of the file of a rank in a save; wf_malloc'ed. */
char *wf_checkpoint_file_name(int64_t generation, int rank);

/** Make the folder and number the save that is to come. fails: WEFT_ERR_IO, also for a folder of
 * another user's and for files in the way; on this rank alone */
weft_status wf_checkpoint_prepare_folder(const char *path, uint64_t *generation);

/** Remove the files of other saves, and what interrupted ones left. What cannot be removed does no
 * harm. */
void wf_checkpoint_remove_old_files(const char *path, int64_t generation);
