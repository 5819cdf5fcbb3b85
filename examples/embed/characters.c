/*
 * characters.c: the few facts about Unicode that BERT's tokenizer needs, as ranges and short lists.
 *
 * Lower case and accents are those of Latin, modern Greek and Cyrillic letters, kana and Hangul;
 * other scripts' letters stay as they are. Punctuation is that of these scripts.
 */
#include "characters.h"

#include <stddef.h>

struct range {
    uint32_t first, last;
};

static const struct range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

static const struct range dropped[] = {{0x01, 0x1F},     {0x7F, 0x9F},       {0xAD, 0xAD},
                                       {0x200B, 0x200F}, {0x202A, 0x202E},   {0x2060, 0x206F},
                                       {0xE000, 0xF8FF}, {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
                                       {0xFFFD, 0xFFFD}, {0xE0000, 0x10FFFF}};

static const struct range punctuation[] = {
    {'!', '/'},       {':', '@'},       {'[', '`'},       {'{', '~'},       {0xA1, 0xA1},
    {0xA7, 0xA7},     {0xAB, 0xAB},     {0xB6, 0xB7},     {0xBB, 0xBB},     {0xBF, 0xBF},
    {0x37E, 0x37E},   {0x387, 0x387},   {0x55A, 0x55F},   {0x2010, 0x2027}, {0x2030, 0x2043},
    {0x2045, 0x2051}, {0x2053, 0x205E}, {0x207D, 0x207E}, {0x208D, 0x208E}, {0x2308, 0x230B},
    {0x2329, 0x232A}, {0x2768, 0x2775}, {0x27E6, 0x27EF}, {0x2E00, 0x2E2E}, {0x2E30, 0x2E4F},
    {0x3001, 0x3003}, {0x3008, 0x3011}, {0x3014, 0x301F}, {0x3030, 0x3030}, {0x303D, 0x303D},
    {0x30A0, 0x30A0}, {0x30FB, 0x30FB}, {0xFF01, 0xFF03}, {0xFF05, 0xFF0A}, {0xFF0C, 0xFF0F},
    {0xFF1A, 0xFF1B}, {0xFF1F, 0xFF20}, {0xFF3B, 0xFF3D}, {0xFF3F, 0xFF3F}, {0xFF5B, 0xFF5B},
    {0xFF5D, 0xFF5D}, {0xFF5F, 0xFF65}};

static const struct range ideographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
                                          {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                                          {0x2A700, 0x2CEAF}, {0x2F800, 0x2FA1F}};

static const struct range accents[] = {{0x300, 0x36F},   {0x483, 0x487},   {0x1AB0, 0x1ACE},
                                       {0x1DC0, 0x1DFF}, {0x20D0, 0x20F0}, {0x3099, 0x309A}};

/* Every `step`-th character of a range has its small letter `to` further. */
static const struct {
    uint32_t first, last, step;
    int to;
} capitals[] = {{'A', 'Z', 1, 32},
                {0xC0, 0xD6, 1, 32},
                {0xD8, 0xDE, 1, 32},
                {0x100, 0x136, 2, 1},
                {0x139, 0x147, 2, 1},
                {0x14A, 0x176, 2, 1},
                {0x178, 0x178, 1, -121},
                {0x179, 0x17D, 2, 1},
                {0x1A0, 0x1A4, 2, 1},
                {0x1AF, 0x1AF, 1, 1},
                {0x1CD, 0x1DB, 2, 1},
                {0x1DE, 0x1EE, 2, 1},
                {0x1F8, 0x21E, 2, 1},
                {0x222, 0x232, 2, 1},
                {0x386, 0x386, 1, 38},
                {0x388, 0x38A, 1, 37},
                {0x38C, 0x38C, 1, 64},
                {0x38E, 0x38F, 1, 63},
                {0x391, 0x3A1, 1, 32},
                {0x3A3, 0x3AB, 1, 32},
                {0x400, 0x40F, 1, 80},
                {0x410, 0x42F, 1, 32},
                {0x460, 0x480, 2, 1},
                {0x48A, 0x4BE, 2, 1},
                {0x4C1, 0x4CD, 2, 1},
                {0x4D0, 0x52E, 2, 1},
                {0x1E00, 0x1E94, 2, 1},
                {0x1EA0, 0x1EFE, 2, 1},
                {0x1E9E, 0x1E9E, 1, 0xDF - 0x1E9E}};

/* Words of a letter and what is that letter with accents. */
static const char accented[] =
    "aàáâãäåāăąǎǟǡǻȁȃȧḁạảấầẩẫậắằẳẵặ bḃḅḇ cçćĉċčḉ dďḋḍḏḑḓ eèéêëēĕėęěȅȇȩḕḗḙḛḝẹẻẽếềểễệ fḟ "
    "gĝğġģǧǵḡ hĥȟḣḥḧḩḫẖ iìíîïĩīĭįǐȉȋḭḯỉị jĵǰ kķǩḱḳḵ lĺļľḷḹḻḽ mḿṁṃ nñńņňǹṅṇṉṋ "
    "oòóôõöōŏőơǒǫǭȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợ pṕṗ rŕŗřȑȓṙṛṝṟ sśŝşšșṡṣṥṧṩ tţťțṫṭṯṱẗ "
    "uùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữự vṽṿ wŵẁẃẅẇẉẘ xẋẍ yýÿŷȳẏẙỳỵỷỹ zźżžẑẓẕ æǣǽ øǿ αά εέ ηή "
    "ιΐίϊ οό υΰϋύ ωώ аӑӓ гѓ еѐёӗ жӂӝ зӟ ийѝӣӥ кќ оӧ уўӯӱӳ чӵ ыӹ эӭ ії うゔ かが きぎ くぐ "
    "けげ こご さざ しじ すず せぜ そぞ ただ ちぢ つづ てで とど はばぱ ひびぴ ふぶぷ へべぺ "
    "ほぼぽ ウヴ カガ キギ クグ ケゲ コゴ サザ シジ スズ セゼ ソゾ タダ チヂ ツヅ テデ トド "
    "ハバパ ヒビピ フブプ ヘベペ ホボポ =≠";

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define WITHIN(c, list) within(c, list, COUNT(list))

static bool within(uint32_t c, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

bool character_is_space(uint32_t c) { return WITHIN(c, spaces); }
bool character_is_dropped(uint32_t c) { return !WITHIN(c, spaces) && WITHIN(c, dropped); }
bool character_is_punctuation(uint32_t c) { return WITHIN(c, punctuation); }
bool character_is_ideograph(uint32_t c) { return WITHIN(c, ideographs); }

/* ---- UTF-8 ---- */

/* How many bytes follow the first one; -1 for a byte that begins no character. */
static int bytes_after(unsigned char first)
{
    if (first < 0x80) return 0;
    if (first >= 0xC2 && first < 0xE0) return 1;
    if (first >= 0xE0 && first < 0xF0) return 2;
    return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

uint32_t character_next(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;

    while (*at) {
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000}; /* below: spelled too long */
        int after = bytes_after(*at), i = 1;
        uint32_t c = after <= 0 ? *at : *at & (0x3Fu >> after);

        while (i <= after && (at[i] & 0xC0) == 0x80) c = c << 6 | (at[i++] & 0x3Fu);
        if (after >= 0 && i > after && c >= least[after]) {
            *text = (const char *)(at + i);
            return c;
        }
        at++;
    }
    *text = (const char *)at;
    return 0;
}

int character_put(char *out, uint32_t c)
{
    int after = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

    out[0] = (char)(after ? (0xFF00u >> (after + 1) & 0xFF) | c >> 6 * after : c);
    for (int i = 1; i <= after; i++) out[i] = (char)(0x80 | (c >> 6 * (after - i) & 0x3F));
    return after + 1;
}

/* ---- lower case, no accents ---- */

static uint32_t lower(uint32_t c)
{
    for (size_t i = 0; i < COUNT(capitals); i++)
        if (c >= capitals[i].first && c <= capitals[i].last &&
            (c - capitals[i].first) % capitals[i].step == 0)
            return (uint32_t)((int)c + capitals[i].to);
    return c;
}

static uint32_t without_accent(uint32_t c)
{
    const char *at = accented;
    uint32_t letter = 0, other;

    while ((other = character_next(&at))) {
        if (letter && other == c) return letter;
        if (letter == 0) letter = other;
        if (other == ' ') letter = 0;
    }
    return c;
}

/* A Hangul syllable is two or three letters, by arithmetic. */
static int hangul_letters(uint32_t c, uint32_t out[3])
{
    uint32_t syllable = c - 0xAC00, last = syllable % 28;

    out[0] = 0x1100 + syllable / (21 * 28);
    out[1] = 0x1161 + syllable / 28 % 21;
    out[2] = 0x11A7 + last;
    return last ? 3 : 2;
}

int character_fold(uint32_t c, uint32_t out[3])
{
    if (c >= 0xAC00 && c <= 0xD7A3) return hangul_letters(c, out);
    if (WITHIN(c, accents)) return 0;
    c = c == 0x130 ? 'i' : lower(c); /* the dotted capital of Turkish has no pair */
    out[0] = c < 0x80 ? c : without_accent(c);
    return 1;
}
