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

// What the rows of a call look at: `start` committed rows of the cache, then, where a chain is fed
// in pieces, the pending rows in front of it, then each row's own ancestors within this call.
struct Sight {
    int start, pending_from, pending;
    std::vector<std::vector<int32_t>> own;  // absolute, ascending

    int of(int row) const { return start + pending + int(own[row].size()); }
};

// Scores [head, room] of `count` keys for one row's query heads. PIECES: of WIDTH numbers a head.
template <int PIECES>
static inline void score(const float* queries, int heads, const float* keys, int count, float scale,
                         float* scores, int room) {
    constexpr int size = PIECES * WIDTH;
    auto dot = [&](const float* query, const float* key) {
        Vec sum = load(query) * load(key);
        for (int i = 1; i < PIECES; i++) sum += load(query + i * WIDTH) * load(key + i * WIDTH);
        return sum;
    };
    for (int h = 0; h < heads; h++) {
        const float* query = queries + h * size;
        float* to = scores + int64_t(h) * room;
        int k = 0;
        for (; k + 4 <= count; k += 4) {
            const float* key = keys + int64_t(k) * size;
            Four sums = added(dot(query, key), dot(query, key + size), dot(query, key + 2 * size),
                              dot(query, key + 3 * size));
            *reinterpret_cast<Four*>(to + k) = sums * scale;
        }
        for (; k < count; k++) to[k] = added(dot(query, keys + int64_t(k) * size)) * scale;
    }
}

// Adds `count` values, weighed by their scores, to what one row's query heads gathered so far.
template <int PIECES>
static inline void gather(const float* scores, int room, int heads, const float* values, int count,
                          float* out) {
    constexpr int size = PIECES * WIDTH;
    for (int h = 0; h < heads; h++) {
        Vec sum[PIECES];
        for (int i = 0; i < PIECES; i++) sum[i] = load(out + h * size + i * WIDTH);
        const float* weight = scores + int64_t(h) * room;
        for (int k = 0; k < count; k++)
            for (int i = 0; i < PIECES; i++)
                sum[i] += weight[k] * load(values + int64_t(k) * size + i * WIDTH);
        for (int i = 0; i < PIECES; i++) store(out + h * size + i * WIDTH, sum[i]);
    }
}

// The query heads of one key head, of rows `from` to `to`. Shared keys and values are read once,
// block by block, for all of them; a row still sums in the order of its own depth.
// queries, out: of row 0, `query_stride` and `out_stride` numbers a row.
template <int PIECES>
static void attend(const Sight& sight, int from, int to, int heads, const float* queries,
                   int query_stride, const float* keys, const float* values, float scale,
                   float* out, int out_stride, std::vector<float>& room_for) {
    constexpr int size = PIECES * WIDTH, block = 64;
    int longest = 0;
    for (int r = from; r < to; r++) longest = std::max(longest, sight.of(r));
    const int room = (longest + WIDTH - 1) / WIDTH * WIDTH;
    room_for.assign(size_t(to - from) * heads * room, -1e30f);
    std::vector<float> whole((to - from) * heads);
    auto scores = [&](int r) { return room_for.data() + size_t(r - from) * heads * room; };
    auto query = [&](int r) { return queries + int64_t(r) * query_stride; };
    auto result = [&](int r) { return out + int64_t(r) * out_stride; };
    auto shared = [&](auto&& visit) {
        for (int k = 0; k < sight.start; k += block)
            visit(k, k, std::min(block, sight.start - k));
        for (int k = 0; k < sight.pending; k += block)
            visit(sight.start + k, sight.pending_from + k, std::min(block, sight.pending - k));
    };
    shared([&](int place, int row, int count) {
        for (int r = from; r < to; r++)
            score<PIECES>(query(r), heads, keys + int64_t(row) * size, count, scale,
                          scores(r) + place, room);
    });
    for (int r = from; r < to; r++) {
        int place = sight.start + sight.pending;
        for (int32_t row : sight.own[r])
            score<PIECES>(query(r), heads, keys + int64_t(row) * size, 1, scale,
                          scores(r) + place++, room);
        for (int h = 0; h < heads; h++) {
            float* own = scores(r) + int64_t(h) * room;
            Vec most = load(own), sum = {};
            for (int k = WIDTH; k < sight.of(r); k += WIDTH) most = larger(most, load(own + k));
            float top = largest(most);
            for (int k = 0; k < sight.of(r); k += WIDTH) {
                Vec weight = exponential(load(own + k) - top);
                store(own + k, weight), sum += weight;  // what is beyond the row adds 1e-38
            }
            whole[(r - from) * heads + h] = added(sum);
        }
        std::memset(result(r), 0, sizeof(float) * heads * size);
    }
    shared([&](int place, int row, int count) {
        for (int r = from; r < to; r++)
            gather<PIECES>(scores(r) + place, room, heads, values + int64_t(row) * size, count,
                           result(r));
    });
    for (int r = from; r < to; r++) {
        int place = sight.start + sight.pending;
        for (int32_t row : sight.own[r])
            gather<PIECES>(scores(r) + place++, room, heads, values + int64_t(row) * size, 1,
                           result(r));
        for (int i = 0; i < heads * size; i++) result(r)[i] /= whole[(r - from) * heads + i / size];
    }
}

using Attend = void (*)(const Sight&, int, int, int, const float*, int, const float*, const float*,
                        float, float*, int, std::vector<float>&);

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
