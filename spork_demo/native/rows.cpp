// A few rows through a decoder in one call.
//
// Every number a row gets is summed in an order that depends on nothing but that row: not on the
// other rows of the call, not on the threads, not on where in the cache its ancestors lie. A token
// checked among drafts therefore gets the very logits it would have got alone, in any dtype.
// Activations and caches are float32.

#include "attention.h"
#include "linear.h"

extern "C" {
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

static Sight seen_by(const Call& call) {
    const int rows = call.rows, pending = call.sees ? 0 : call.pending;
    Sight sight{call.start, call.base, pending, std::vector<std::vector<int32_t>>(rows)};
    for (int r = 0; r < rows; r++) {
        if (!call.sees) {
            for (int k = 0; k <= r; k++) sight.own[r].push_back(call.base + pending + k);
            continue;
        }
        const uint8_t* sees = call.sees + int64_t(r) * (call.pending + rows);
        for (int k = 0; k < call.pending + rows; k++)
            if (sees[k]) sight.own[r].push_back(call.base + k);
    }
    return sight;
}

extern "C" void rows_decode(const Decoder* model, const Call* call) {
    const int rows = call->rows, hidden = model->hidden, size = model->size;
    const int queries = model->heads * size, keys = model->key_heads * size;
    const int group = model->heads / model->key_heads, width = queries + 2 * keys;
    const Attend attend = attend_for(size);
    const Sight sight = seen_by(*call);
    const int shares = std::min(rows, call->threads);
    std::vector<float> states(size_t(rows) * hidden), qkv(size_t(rows) * width);
    std::vector<float> mixed(size_t(rows) * queries), inner(size_t(rows) * model->inner);

#pragma omp parallel num_threads(call->threads)
    {
        std::vector<float> x(size_t(rows) * hidden), panel, other, scores;
        std::vector<uint32_t> pairs;
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
            for (int task = 0; task < shares * model->key_heads; task++) {
                int share = task / model->key_heads, h = task % model->key_heads;
                attend(sight, rows * share / shares, rows * (share + 1) / shares, group,
                       qkv.data() + h * group * size, width, call->keys[l] + h * stride,
                       call->values[l] + h * stride, model->scale,
                       mixed.data() + h * group * size, queries, scores);
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
        int found = 0;
        const int whole = width - width % WIDTH;
        auto offer = [&](int i) {
            if (found == count && !(row[i] > best[count - 1])) return;
            int place = found < count ? found++ : count - 1;
            for (; place > 0 && row[i] > best[place - 1]; place--)
                best[place] = best[place - 1], id[place] = id[place - 1];
            best[place] = row[i], id[place] = i;
        };
        for (int i = 0; i < whole; i += WIDTH) {
            Int over = load(row + i) > best[count - 1];
            int any = found < count;
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
