/* say.h: complaints that every rank makes alike, printed once. */
#pragma once

/** "train_gpt: ..." on stderr, by rank 0 only. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
