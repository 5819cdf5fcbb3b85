/* export.h: how public names leave the library. Included by every other public header. */
#pragma once

#if defined(__cplusplus)
#define WEFT_EXTERN extern "C"
#else
#define WEFT_EXTERN extern
#endif

#if defined(__GNUC__)
#define WEFT_API WEFT_EXTERN __attribute__((visibility("default")))
#define WEFT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define WEFT_API WEFT_EXTERN
#define WEFT_PRINTF(text, first)
#endif

#define WEFT_VERSION "0.1.0"

/** Most dimensions a tensor can have, and most axes a mesh can have. */
#define WEFT_MAX_DIMS 8
#define WEFT_MAX_AXES 6
