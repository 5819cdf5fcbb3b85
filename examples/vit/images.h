/* images.h: small images of patterns, drawn by a formula: no file is needed. */
#pragma once

enum { IMAGE_EDGE = 16, IMAGE_CHANNELS = 3, IMAGE_CLASSES = 5 };
enum { IMAGE_ELEMENTS = IMAGE_CHANNELS * IMAGE_EDGE * IMAGE_EDGE };

/**
 * Image `number` of an endless series, [IMAGE_CHANNELS,IMAGE_EDGE,IMAGE_EDGE], in `pixels`.
 *
 * gives: its class: stripes across, stripes down, slanting stripes, checks or rings, each in
 * colours, of a width and from a place of its own, under noise
 */
int image_draw(int number, float *pixels);
