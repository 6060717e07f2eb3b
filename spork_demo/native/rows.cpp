// A few rows through a decoder in one call: weights stream from memory once, whatever the rows.
//
// Every number a row gets is summed in an order that depends on nothing but that row: not on the
// other rows of the call, not on the threads, not on where in the cache its ancestors lie. A token
// checked among drafts therefore gets the very logits it would have got alone, in any dtype.
//
// Linear maps [out, in] are packed in panels of PANEL outputs, input by input (bfloat16: two
// inputs side by side). Activations and caches are float32.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#include <omp.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
constexpr int WIDTH = 16, TILE = 12;
#else
constexpr int WIDTH = 8, TILE = 4;
#endif
constexpr int PANEL = 32, PARTS = PANEL / WIDTH;

typedef float Vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t Int __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint16_t Half __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
typedef int8_t Byte __attribute__((vector_size(WIDTH), aligned(1), may_alias));

enum Kind : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2 };

extern "C" {
struct Linear {
    const void* panels;
    const float* scales;  // [out], int8 only
    const float* bias;    // [out] or null
    int32_t in, out, kind, unused;
};
struct Layer {
    Linear qkv, mixed, gate_up, down;  // gate and up are interleaved, panel by panel
    const float *norm, *after_norm, *q_norm, *k_norm;  // the last two may be null
};
struct Decoder {
    const Layer* layers;
    const float* norm;
    Linear head;
    const void* embedding;  // [vocabulary, hidden]
    int32_t embedding_kind, hidden, heads, key_heads, size, inner, count, unused;
    float eps, scale;
};
struct Call {
    const int64_t* tokens;
    const int32_t* positions;
    const float *cos, *sin;  // [position, size]
    float* const* keys;      // a layer each: [key head, capacity, size]
    float* const* values;
    const int32_t* capacity;  // rows a layer's buffers have room for
    const uint8_t* sees;  // [rows, pending + rows]: which of them a row sees; null: a chain
    const int32_t* wanted;    // layers whose outputs are asked for, ascending
    float* features;          // [asked, rows, hidden]
    float* logits;            // [rows from first_logit on, vocabulary of the head]
    int32_t rows, start, base, pending, layers, asked, first_logit, threads;
};
}

static inline Vec load(const float* at) { return *reinterpret_cast<const Vec*>(at); }
static inline void store(float* at, Vec v) { *reinterpret_cast<Vec*>(at) = v; }
static inline Vec spread(float x) { return Vec{} + x; }

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
template <int N>
static void panel_float(const float* x, int stride, const float* w, int in, float* out) {
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

template <int N>
static void panel_int8(const float* x, int stride, const int8_t* w, int in, float* out) {
    Vec sum[N][PARTS] = {};
    for (int i = 0; i < in; i++, w += PANEL) {
        for (int p = 0; p < PARTS; p++) {
            Byte bytes = *reinterpret_cast<const Byte*>(w + p * WIDTH);
            Vec weight = __builtin_convertvector(__builtin_convertvector(bytes, Int), Vec);
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
    } else if (map.kind == INT8) {
        auto w = static_cast<const int8_t*>(map.panels) + panel * PANEL * map.in;
        panel_int8<N>(static_cast<const float*>(x) + int64_t(from) * map.in, map.in, w, map.in, out);
    } else {
        auto w = static_cast<const float*>(map.panels) + panel * PANEL * map.in;
        panel_float<N>(static_cast<const float*>(x) + int64_t(from) * map.in, map.in, w, map.in, out);
    }
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

static inline float added(Vec v) {
    float lanes[WIDTH];
    store(lanes, v);
    typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
    Four sum = {};
    for (int i = 0; i < WIDTH; i += 4) sum += *reinterpret_cast<Four*>(lanes + i);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

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

extern "C" int32_t rows_panel() { return PANEL; }

// Whether heads of so many numbers can be served.
extern "C" int32_t rows_serves(int32_t size) { return size % WIDTH == 0 && attend_for(size); }

extern "C" void rows_linear(const Linear* map, const float* x, int32_t rows, float* y, int32_t threads) {
#pragma omp parallel num_threads(threads)
    {
        std::vector<uint32_t> pairs;
        std::vector<float> panel;
        apply(*map, x, rows, y, false, pairs, panel);
    }
}

extern "C" void rows_decode(const Decoder* model, const Call* call) {
    const int rows = call->rows, hidden = model->hidden, size = model->size;
    const int queries = model->heads * size, keys = model->key_heads * size;
    const int group = model->heads / model->key_heads, width = queries + 2 * keys;
    const Attend attend = attend_for(size);
    std::vector<float> states(size_t(rows) * hidden), qkv(size_t(rows) * width);
    std::vector<float> mixed(size_t(rows) * queries), inner(size_t(rows) * model->inner);

#pragma omp parallel num_threads(call->threads)
    {
        std::vector<float> x(size_t(rows) * hidden), panel, other, scores;
        std::vector<uint32_t> pairs;
        std::vector<int32_t> at;
        int asked = 0;

#pragma omp for schedule(static)
        for (int r = 0; r < rows; r++) {
            int64_t from = call->tokens[r] * hidden;
            float* to = states.data() + int64_t(r) * hidden;
            if (model->embedding_kind == BFLOAT16) {
                auto table = static_cast<const uint16_t*>(model->embedding) + from;
                for (int i = 0; i < hidden; i++) to[i] = widened(table[i]);
            } else {
                std::memcpy(to, static_cast<const float*>(model->embedding) + from, 4 * hidden);
            }
        }

        for (int l = 0; l < call->layers; l++) {
            const Layer& layer = model->layers[l];
            const int64_t stride = int64_t(call->capacity[l]) * size;
            for (int r = 0; r < rows; r++)  // every thread for itself: cheaper than to wait
                normed(states.data() + int64_t(r) * hidden, layer.norm, hidden, model->eps,
                       x.data() + int64_t(r) * hidden);
            apply(layer.qkv, x.data(), rows, qkv.data(), false, pairs, panel);
#pragma omp barrier
#pragma omp for schedule(static)
            for (int task = 0; task < rows * model->key_heads; task++) {
                int r = task / model->key_heads, h = task % model->key_heads;
                const float* cos = call->cos + int64_t(call->positions[r]) * size;
                const float* sin = call->sin + int64_t(call->positions[r]) * size;
                float* q = qkv.data() + int64_t(r) * width + h * group * size;
                for (int g = 0; g < group; g++) {
                    if (layer.q_norm) normed(q + g * size, layer.q_norm, size, model->eps, q + g * size);
                    rotated(q + g * size, cos, sin, size);
                }
                float* k = qkv.data() + int64_t(r) * width + queries + h * size;
                if (layer.k_norm) normed(k, layer.k_norm, size, model->eps, k);
                rotated(k, cos, sin, size);
                int64_t place = h * stride + int64_t(call->base + call->pending + r) * size;
                std::memcpy(call->keys[l] + place, k, sizeof(float) * size);
                std::memcpy(call->values[l] + place, k + keys, sizeof(float) * size);
            }
#pragma omp for schedule(static)
            for (int task = 0; task < rows * model->key_heads; task++) {
                int r = task / model->key_heads, h = task % model->key_heads;
                at.clear();
                for (int k = 0; k < call->start; k++) at.push_back(k);
                const uint8_t* sees = call->sees
                    ? call->sees + int64_t(r) * (call->pending + rows) : nullptr;
                for (int k = 0; k < call->pending + (sees ? rows : r + 1); k++)
                    if (!sees || sees[k]) at.push_back(call->base + k);
                attend(qkv.data() + int64_t(r) * width + h * group * size, group,
                       call->keys[l] + h * stride, call->values[l] + h * stride, at, model->scale,
                       mixed.data() + int64_t(r) * queries + h * group * size, scores);
            }
            apply(layer.mixed, mixed.data(), rows, states.data(), true, pairs, panel);
#pragma omp barrier
            for (int r = 0; r < rows; r++)
                normed(states.data() + int64_t(r) * hidden, layer.after_norm, hidden, model->eps,
                       x.data() + int64_t(r) * hidden);
            const void* in = prepared(layer.gate_up, x.data(), rows, pairs);
            panel.resize(size_t(rows) * PANEL), other.resize(size_t(rows) * PANEL);
            Share mine(layer.gate_up.out, 2 * PANEL);
            for (int64_t p = mine.from; p < mine.to; p++) {
                whole_panel(layer.gate_up, in, 2 * p, rows, panel.data());
                whole_panel(layer.gate_up, in, 2 * p + 1, rows, other.data());
                int first = int(p) * PANEL, many = std::min(PANEL, model->inner - first);
                for (int r = 0; r < rows; r++) {
                    float *gate = panel.data() + r * PANEL, *up = other.data() + r * PANEL;
                    for (int c = 0; c < PANEL; c += WIDTH)
                        store(gate + c, silu(load(gate + c)) * load(up + c));
                    std::memcpy(inner.data() + int64_t(r) * model->inner + first, gate, 4 * many);
                }
            }
#pragma omp barrier
            apply(layer.down, inner.data(), rows, states.data(), true, pairs, panel);
#pragma omp barrier
            if (asked < call->asked && call->wanted[asked] == l) {
#pragma omp single
                std::memcpy(call->features + int64_t(asked) * rows * hidden, states.data(),
                            sizeof(float) * rows * hidden);
                asked++;
            }
        }
        int last = rows - call->first_logit;
        if (last > 0) {
            for (int r = 0; r < last; r++)
                normed(states.data() + int64_t(call->first_logit + r) * hidden, model->norm, hidden,
                       model->eps, x.data() + int64_t(r) * hidden);
            apply(model->head, x.data(), last, call->logits, false, pairs, panel);
        }
    }
}

// Moves rows of every layer's cache, `from` ascending, to `start` and after.
extern "C" void rows_move(float* const* keys, float* const* values, const int32_t* capacity,
                          int32_t layers, int32_t heads, int32_t size, const int32_t* from,
                          int32_t rows, int32_t start) {
    for (int l = 0; l < layers; l++)
        for (float* buffer : {keys[l], values[l]})
            for (int h = 0; h < heads; h++) {
                float* head = buffer + int64_t(h) * capacity[l] * size;
                for (int r = 0; r < rows; r++)
                    std::memmove(head + int64_t(start + r) * size, head + int64_t(from[r]) * size,
                                 sizeof(float) * size);
            }
}

// The `count` most probable outputs of each row [rows, width], likeliest first, and, unless null,
// their chances.
extern "C" void rows_likeliest(const float* logits, int32_t rows, int32_t width, int32_t stride,
                               int32_t count, int64_t* ids, float* chances, int32_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int r = 0; r < rows; r++) {
        const float* row = logits + int64_t(r) * stride;
        int64_t* id = ids + int64_t(r) * count;
        std::vector<float> best(count, -INFINITY);
        std::fill(id, id + count, 0);
        const int whole = width - width % WIDTH;
        auto offer = [&](int i) {
            if (!(row[i] > best[count - 1])) return;
            int place = count - 1;
            for (; place > 0 && row[i] > best[place - 1]; place--)
                best[place] = best[place - 1], id[place] = id[place - 1];
            best[place] = row[i], id[place] = i;
        };
        for (int i = 0; i < whole; i += WIDTH) {
            Int over = load(row + i) > best[count - 1];
            int any = 0;
            for (int w = 0; w < WIDTH; w++) any |= over[w];
            if (any)
                for (int w = 0; w < WIDTH; w++) offer(i + w);
        }
        for (int i = whole; i < width; i++) offer(i);
        if (!chances) continue;
        Vec sums = {};
        for (int i = 0; i < whole; i += WIDTH) sums += exponential(load(row + i) - best[0]);
        float sum = added(sums);
        for (int i = whole; i < width; i++) sum += std::exp(row[i] - best[0]);
        for (int c = 0; c < count; c++)
            chances[int64_t(r) * count + c] = std::exp(best[c] - best[0]) / sum;
    }
}
