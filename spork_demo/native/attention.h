// Norms, rotary positions and attention, one row at a time.
#pragma once

#include "vectors.h"

static void normed(const float* x, const float* weight, int size, float eps, float* out) {
    Vec squares = {};
    int whole = size - size % WIDTH;
    for (int i = 0; i < whole; i += WIDTH) squares += load(x + i) * load(x + i);
    float sum = added(squares);
    for (int i = whole; i < size; i++) sum += x[i] * x[i];
    float factor = 1.0f / std::sqrt(sum / size + eps);
    for (int i = 0; i < size; i++) out[i] = x[i] * factor * weight[i];
}

static void rotated(float* x, const float* cos, const float* sin, int size) {
    int half = size / 2;
    for (int i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = a * cos[i] - b * sin[i];
        x[i + half] = b * cos[i + half] + a * sin[i + half];
    }
}

// One row's query heads of one key head over the cached rows `at`, in order of depth. PIECES: of
// WIDTH numbers in a head.
template <int PIECES>
static void attend(const float* queries, int heads, const float* keys, const float* values,
                   const std::vector<int32_t>& at, float scale, float* out,
                   std::vector<float>& scores) {
    constexpr int size = PIECES * WIDTH;
    int seen = int(at.size()), room = (seen + WIDTH - 1) / WIDTH * WIDTH;
    scores.assign(size_t(heads) * room, -1e30f);
    for (int k = 0; k < seen; k++) {
        const float* key = keys + int64_t(at[k]) * size;
        for (int h = 0; h < heads; h++) {
            Vec sum = load(queries + h * size) * load(key);
            for (int i = 1; i < PIECES; i++)
                sum += load(queries + h * size + i * WIDTH) * load(key + i * WIDTH);
            scores[h * room + k] = added(sum) * scale;
        }
    }
    for (int h = 0; h < heads; h++) {
        float* score = scores.data() + h * room;
        float most = *std::max_element(score, score + seen), whole = 0;
        for (int k = 0; k < room; k += WIDTH) store(score + k, exponential(load(score + k) - most));
        for (int k = 0; k < seen; k++) whole += score[k];
        Vec sum[PIECES] = {};
        for (int k = 0; k < seen; k++)
            for (int i = 0; i < PIECES; i++)
                sum[i] += score[k] * load(values + int64_t(at[k]) * size + i * WIDTH);
        for (int i = 0; i < PIECES; i++) store(out + h * size + i * WIDTH, sum[i] / whole);
    }
}

using Attend = void (*)(const float*, int, const float*, const float*,
                        const std::vector<int32_t>&, float, float*, std::vector<float>&);

static Attend attend_for(int size) {
    switch (size / WIDTH) {
        case 1: return attend<1>;
        case 2: return attend<2>;
        case 4: return attend<4>;
        case 5: return attend<5>;
        case 6: return attend<6>;
        case 8: return attend<8>;
        case 10: return attend<10>;
        case 12: return attend<12>;
        case 16: return attend<16>;
        default: return nullptr;
    }
}
