// Vectors of the width the machine has, and the functions of them the decoder needs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
constexpr int WIDTH = 16;
#else
constexpr int WIDTH = 8;
#endif
typedef float Vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t Int __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int8_t Byte __attribute__((vector_size(WIDTH), aligned(1), may_alias));

static inline Vec load(const float* at) { return *reinterpret_cast<const Vec*>(at); }
#ifdef __AVX512F__
static inline Vec load(const int8_t* at) {
    return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)at)));
}
#else
static inline Vec load(const int8_t* at) {
    Byte bytes = *reinterpret_cast<const Byte*>(at);
    return __builtin_convertvector(__builtin_convertvector(bytes, Int), Vec);
}
#endif
static inline void store(float* at, Vec v) { *reinterpret_cast<Vec*>(at) = v; }
static inline Vec spread(float x) { return Vec{} + x; }

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

static inline Four quarters(Vec v) {
    float lanes[WIDTH];
    store(lanes, v);
    Four sum = {};
    for (int i = 0; i < WIDTH; i += 4) sum += *reinterpret_cast<Four*>(lanes + i);
    return sum;
}

static inline float added(Vec v) {
    Four sum = quarters(v);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// `added` of four vectors, each in the order that `added` has.
static inline Four added(Vec a, Vec b, Vec c, Vec d) {
    Four w = quarters(a), x = quarters(b), y = quarters(c), z = quarters(d);
    Four wx = __builtin_shufflevector(w, x, 0, 4, 1, 5), xw = __builtin_shufflevector(w, x, 2, 6, 3, 7);
    Four yz = __builtin_shufflevector(y, z, 0, 4, 1, 5), zy = __builtin_shufflevector(y, z, 2, 6, 3, 7);
    Four first = __builtin_shufflevector(wx, yz, 0, 1, 4, 5);
    Four second = __builtin_shufflevector(wx, yz, 2, 3, 6, 7);
    Four third = __builtin_shufflevector(xw, zy, 0, 1, 4, 5);
    Four fourth = __builtin_shufflevector(xw, zy, 2, 3, 6, 7);
    return (first + second) + (third + fourth);
}

static inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

static inline float largest(Vec v) {
    float lanes[WIDTH];
    store(lanes, v);
    return *std::max_element(lanes, lanes + WIDTH);
}

// exp(x) for x <= 0, to about 2e-7 of its value, the same in every lane.
static inline Vec exponential(Vec x) {
    const float log2e = 1.44269504f, high = 0.693145752f, low = 1.42860677e-6f;
    x = x < -87.0f ? spread(-87.0f) : x;
    Int n = __builtin_convertvector(x * log2e - 0.5f, Int);  // towards zero: the nearest, as x <= 0
    Vec whole = __builtin_convertvector(n, Vec);
    Vec r = x - whole * high - whole * low;
    Vec y = 1.9875691500e-4f * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * (Vec)((n + 127) << 23);
}

static inline Vec silu(Vec x) {
    Vec e = exponential(x < 0 ? x : -x);
    return x * (x < 0 ? e : spread(1.0f)) / (1.0f + e);
}
