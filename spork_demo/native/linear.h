// Linear maps [out, in], packed in panels of PANEL outputs, input by input (bfloat16: two inputs
// side by side), so that weights stream from memory once, whatever the rows.
#pragma once

#include <omp.h>

#include "vectors.h"

constexpr int PANEL = 32, PARTS = PANEL / WIDTH;
#ifdef __AVX512F__
constexpr int TILE = 12;  // rows whose sums the registers hold
#else
constexpr int TILE = 4;
#endif

enum Kind : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2 };

extern "C" {
struct Linear {
    const void* panels;
    const float* scales;  // [out], int8 only
    const float* bias;    // [out] or null
    int32_t in, out, kind, unused;
};
}

static inline float widened(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return x;
}

static inline uint16_t narrowed(float x) {  // round to nearest, ties to even
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// One panel of outputs for N rows. Rows of `x` are `stride` numbers apart.
template <int N, typename Weight>
static void panel_plain(const float* x, int stride, const Weight* w, int in, float* out) {
    Vec sum[N][PARTS] = {};
    for (int i = 0; i < in; i++, w += PANEL) {
        for (int p = 0; p < PARTS; p++) {
            Vec weight = load(w + p * WIDTH);
            for (int n = 0; n < N; n++) sum[n][p] += x[n * stride + i] * weight;
        }
    }
    for (int n = 0; n < N; n++)
        for (int p = 0; p < PARTS; p++) store(out + n * PANEL + p * WIDTH, sum[n][p]);
}

// Two inputs at a time; `x` holds pairs of bfloat16 and `in` is even.
template <int N>
static void panel_bfloat16(const uint32_t* x, int stride, const uint32_t* w, int in, float* out) {
#ifdef __AVX512BF16__
    __m512 sum[N][PARTS];
    for (int n = 0; n < N; n++)
        for (int p = 0; p < PARTS; p++) sum[n][p] = _mm512_setzero_ps();
    for (int i = 0; i < in / 2; i++, w += PANEL) {
        for (int p = 0; p < PARTS; p++) {
            __m512bh weight = (__m512bh)_mm512_loadu_si512(w + p * WIDTH);
            for (int n = 0; n < N; n++) {
                __m512bh pair = (__m512bh)_mm512_set1_epi32(x[n * stride + i]);
                sum[n][p] = _mm512_dpbf16_ps(sum[n][p], pair, weight);
            }
        }
    }
    for (int n = 0; n < N; n++)
        for (int p = 0; p < PARTS; p++) _mm512_storeu_ps(out + n * PANEL + p * WIDTH, sum[n][p]);
#else
    Vec sum[N][PARTS] = {};
    for (int i = 0; i < in / 2; i++, w += PANEL) {
        for (int p = 0; p < PARTS; p++) {
            Int both = *reinterpret_cast<const Int*>(w + p * WIDTH);
            Vec first = (Vec)(both << 16), second = (Vec)(both & ~0xffff);
            for (int n = 0; n < N; n++) {
                uint32_t pair = x[n * stride + i];
                sum[n][p] += widened(pair & 0xffff) * first;
                sum[n][p] += widened(pair >> 16) * second;
            }
        }
    }
    for (int n = 0; n < N; n++)
        for (int p = 0; p < PARTS; p++) store(out + n * PANEL + p * WIDTH, sum[n][p]);
#endif
}

template <int N>
static void panel_of(const Linear& map, const void* x, int64_t panel, int from, float* out) {
    int even = (map.in + 1) & ~1;
    if (map.kind == BFLOAT16) {
        auto w = static_cast<const uint32_t*>(map.panels) + panel * PANEL * (even / 2);
        auto rows = static_cast<const uint32_t*>(x) + int64_t(from) * (even / 2);
        panel_bfloat16<N>(rows, even / 2, w, even, out);
        return;
    }
    auto rows = static_cast<const float*>(x) + int64_t(from) * map.in;
    int64_t skipped = panel * PANEL * map.in;
    if (map.kind == INT8)
        panel_plain<N>(rows, map.in, static_cast<const int8_t*>(map.panels) + skipped, map.in, out);
    else
        panel_plain<N>(rows, map.in, static_cast<const float*>(map.panels) + skipped, map.in, out);
}

template <int N>
static void some_rows(const Linear& map, const void* x, int64_t panel, int from, int rows, float* out) {
    if (rows >= N) return panel_of<N>(map, x, panel, from, out);
    if constexpr (N > 1) some_rows<N - 1>(map, x, panel, from, rows, out);
}

// All rows of one panel, [rows, PANEL], scale and bias applied.
static void whole_panel(const Linear& map, const void* x, int64_t panel, int rows, float* out) {
    for (int from = 0; from < rows; from += TILE)
        some_rows<TILE>(map, x, panel, from, rows - from, out + int64_t(from) * PANEL);
    int first = int(panel) * PANEL, many = std::min(PANEL, map.out - first);
    if (map.scales)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < many; c++) out[r * PANEL + c] *= map.scales[first + c];
    if (map.bias)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < many; c++) out[r * PANEL + c] += map.bias[first + c];
}

// What a map reads: float32 as it is, bfloat16 pairs for a bfloat16 map.
static const void* prepared(const Linear& map, const float* x, int rows, std::vector<uint32_t>& room) {
    if (map.kind != BFLOAT16) return x;
    int pairs = (map.in + 1) / 2;
    room.resize(size_t(rows) * pairs);
    for (int r = 0; r < rows; r++) {
        const float* row = x + int64_t(r) * map.in;
        uint32_t* to = room.data() + int64_t(r) * pairs;
        for (int i = 0; i < map.in / 2; i++)
            to[i] = narrowed(row[2 * i]) | uint32_t(narrowed(row[2 * i + 1])) << 16;
        if (map.in & 1) to[pairs - 1] = narrowed(row[map.in - 1]);
    }
    return room.data();
}

struct Share {  // the panels of one thread
    int64_t from, to;
    Share(int out, int step = PANEL) {
        int64_t panels = (out + step - 1) / step;
        int t = omp_get_thread_num(), all = omp_get_num_threads();
        from = panels * t / all, to = panels * (t + 1) / all;
    }
};

// y [rows, out] = map(x), or added to y.
static void apply(const Linear& map, const float* x, int rows, float* y, bool add,
                  std::vector<uint32_t>& pairs, std::vector<float>& panel) {
    const void* in = prepared(map, x, rows, pairs);
    panel.resize(size_t(rows) * PANEL);
    Share mine(map.out);
    for (int64_t p = mine.from; p < mine.to; p++) {
        whole_panel(map, in, p, rows, panel.data());
        int first = int(p) * PANEL, many = std::min(PANEL, map.out - first);
        for (int r = 0; r < rows; r++) {
            float* to = y + int64_t(r) * map.out + first;
            const float* got = panel.data() + int64_t(r) * PANEL;
            if (add)
                for (int c = 0; c < many; c++) to[c] += got[c];
            else
                std::memcpy(to, got, sizeof(float) * many);
        }
    }
}
