/* images.c: each class is a function of the place; what tells two images of a class apart is drawn
 * from the image's number. */
#include "vit/images.h"

#include <math.h>
#include <stdint.h>

#include <weft/random.h>

/* Number `which` of image `number`, uniform in [0, 1); the same on every rank. */
static double draw(int number, int which)
{
    uint32_t word[4], key[2] = {0x1a6e5, 0}, counter[4] = {(uint32_t)number, (uint32_t)which, 0, 0};

    weft_philox(word, counter, key);
    return word[0] / 4294967296.0;
}

/* How far along its pattern a place is, in elements. */
static double progress(int class, double x, double y)
{
    switch (class) {
    case 0:
        return y;
    case 1:
        return x;
    case 2:
        return (x + y) / sqrt(2);
    default:
        return hypot(x - IMAGE_EDGE / 2, y - IMAGE_EDGE / 2);
    }
}

static double brightness(int class, double x, double y, double wave, double phase)
{
    if (class == 3) return sin(wave * x + phase) * sin(wave * y + phase) < 0 ? -1 : 1;
    return sin(wave * progress(class, x, y) + phase);
}

int image_draw(int number, float *pixels)
{
    int class = (int)(draw(number, 0) * (double)IMAGE_CLASSES);
    double wave = 1.0 + draw(number, 1), phase = 6.28 * draw(number, 2);

    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        double strength = 0.4 + draw(number, 3 + c);

        for (int i = 0; i < IMAGE_EDGE * IMAGE_EDGE; i++) {
            double light = brightness(class, i % IMAGE_EDGE, i / IMAGE_EDGE, wave, phase);
            double noise = draw(number, 8 + c * IMAGE_EDGE * IMAGE_EDGE + i) - 0.5;

            *pixels++ = (float)(strength * light + 0.4 * noise);
        }
    }
    return class;
}
