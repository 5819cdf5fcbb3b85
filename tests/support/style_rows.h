/* style_rows.h: styles in constant tables, with the options that are given. */
#pragma once

#define COL(...)                                                                                   \
    {                                                                                              \
        .kind = WEFT_STYLE_COLWISE, .options = { __VA_ARGS__ }                                     \
    }
#define ROW(...)                                                                                   \
    {                                                                                              \
        .kind = WEFT_STYLE_ROWWISE, .options = { __VA_ARGS__ }                                     \
    }
